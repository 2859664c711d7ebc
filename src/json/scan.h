/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: names that stand twice in one object, and skipping.
 */
#ifndef DBK_JSON_SCAN_H
#define DBK_JSON_SCAN_H

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/bytes.h"
#include "json/json.h"

/* Ends an object whose names begin at `base`. Returns whether one stands twice, and the offset of
 * the first repetition. */
bool dbk_json_names_close(struct dbk_json_names *names, uint32_t base, struct daybook_bytes text,
                          size_t *ret_offset);

/* The string token that begins at `offset` of scanned text. */
struct daybook_bytes dbk_json_string_at(struct daybook_bytes text, size_t offset);

/* Behind the container that begins at `at`, counting brackets of both kinds alike; `end` when it
 * does not close. */
const char *dbk_json_skip_container(const char *at, const char *end);

#define DBK_JSON_HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 by the golden ratio, odd */

/* The hash takes the bytes eight at a time, the last ones filled up with zeros, and their
 * number. */
static inline uint64_t dbk_json_hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * DBK_JSON_HASH_FACTOR;
    return hash ^ hash >> 32;
}

static inline uint32_t dbk_json_hash_end(uint64_t hash, size_t len)
{
    return (uint32_t)(dbk_json_hash_mix(hash, len) >> 16);
}

/* Fewer than eight bytes as a little-endian word. Loads that overlap agree where they do. */
static inline uint64_t dbk_json_hash_short(const uint8_t *at, size_t n)
{
    if (n >= 4) {
        return dbk_get_u32(at) | (uint64_t)dbk_get_u32(at + n - 4) << (8 * (n - 4));
    }
    if (n >= 2) {
        return dbk_get_u16(at) | (uint64_t)dbk_get_u16(at + n - 2) << (8 * (n - 2));
    }
    return n == 1 ? at[0] : 0;
}

/* dbk_json_string_hash of what stands between the quotes, known to hold no escape. */
static inline uint32_t dbk_json_plain_hash(const char *text, size_t len)
{
    const uint8_t *at = (const uint8_t *)text;
    uint64_t hash = 0;
    size_t left = len;
    for (; left >= 8; left -= 8, at += 8) {
        hash = dbk_json_hash_mix(hash, dbk_get_u64(at));
    }
    if (left > 0) {
        hash = dbk_json_hash_mix(hash, dbk_json_hash_short(at, left));
    }
    return dbk_json_hash_end(hash, len);
}

/* The first byte from `at` on that is no plain ASCII inside a string: a quote, a backslash, a
 * control character, a byte over 0x7f, or `end`. Sixteen bytes a step where the processor has that, else eight: there a byte
 * below a bound borrows into its own high bit; bytes over 0x7f hit by themselves; a borrow into the next byte shows only
 * above a hit. */
static inline const char *dbk_json_skip_plain(const char *at, const char *end)
{
#if defined(__SSE2__)
    while (end - at >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)at);
        /* As signed bytes those over 0x7f are below a space, too. */
        __m128i hit = _mm_or_si128(_mm_cmplt_epi8(x, _mm_set1_epi8(' ')),
                                   _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')),
                                                _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'))));
        unsigned bits = (unsigned)_mm_movemask_epi8(hit);
        if (bits != 0) {
            return at + __builtin_ctz(bits);
        }
        at += 16;
    }
#endif
    while (end - at >= 8) {
        uint64_t x = dbk_get_u64((const uint8_t *)at);
        uint64_t quote = x ^ (DBK_BYTES_ONES * '"');
        uint64_t slash = x ^ (DBK_BYTES_ONES * '\\');
        uint64_t hit = ((x - DBK_BYTES_ONES * 0x20) | (quote - DBK_BYTES_ONES) |
                        (slash - DBK_BYTES_ONES) | x) &
                       DBK_BYTES_HIGHS;
        if (hit != 0) {
            return at + (size_t)__builtin_ctzll(hit) / 8;
        }
        at += 8;
    }
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at <= 0x7f && *at != '"' &&
           *at != '\\') {
        at++;
    }
    return at;
}

#endif
