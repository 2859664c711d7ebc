/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: names that stand twice in one object, and skipping.
 */
#ifndef DBK_JSON_SCAN_H
#define DBK_JSON_SCAN_H

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

/* dbk_json_string_hash of a token that is known to hold no escape. */
uint32_t dbk_json_plain_hash(struct daybook_bytes token);

#define DBK_JSON_ONES UINT64_C(0x0101010101010101)
#define DBK_JSON_HIGHS UINT64_C(0x8080808080808080)

/* The first byte from `at` on that is no plain ASCII inside a string: a quote, a backslash, a
 * control character, a byte over 0x7f, or `end`. Eight bytes a step: a byte below a bound borrows
 * into its own high bit; bytes over 0x7f hit by themselves; a borrow into the next byte shows only
 * above a hit. */
static inline const char *dbk_json_skip_plain(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t x = dbk_get_u64((const uint8_t *)at);
        uint64_t quote = x ^ (DBK_JSON_ONES * '"');
        uint64_t slash = x ^ (DBK_JSON_ONES * '\\');
        uint64_t hit =
            ((x - DBK_JSON_ONES * 0x20) | (quote - DBK_JSON_ONES) | (slash - DBK_JSON_ONES) | x) &
            DBK_JSON_HIGHS;
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
