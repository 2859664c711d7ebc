/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitmaps with summaries (P): set, clear and find-first are a few word operations at any size.
 * Threads: the caller's lock.
 */
#include "engines/log/state_impl.h"

uint64_t dbk_bits_size(uint64_t words)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < DBK_BITS_LEVELS; i++) {
        total += words;
        words = (words + 63) / 64;
    }
    return total;
}

void dbk_bits_init(struct dbk_bits *bits, uint64_t *memory, uint64_t words)
{
    for (unsigned i = 0; i < DBK_BITS_LEVELS; i++) {
        bits->level[i] = memory;
        bits->words[i] = words;
        memory += words;
        words = (words + 63) / 64;
    }
    dbk_assert(bits->words[DBK_BITS_LEVELS - 1] == 1);
}

void dbk_bits_set(struct dbk_bits *bits, uint64_t bit)
{
    for (unsigned i = 0; i < DBK_BITS_LEVELS; i++) {
        uint64_t *word = &bits->level[i][bit / 64];
        bool known = *word != 0;

        *word |= UINT64_C(1) << (bit % 64);
        if (known) {
            return;
        }
        bit /= 64;
    }
}

void dbk_bits_clear(struct dbk_bits *bits, uint64_t bit)
{
    for (unsigned i = 0; i < DBK_BITS_LEVELS; i++) {
        uint64_t *word = &bits->level[i][bit / 64];

        *word &= ~(UINT64_C(1) << (bit % 64));
        if (*word != 0) {
            return;
        }
        bit /= 64;
    }
}

void dbk_bits_put(struct dbk_bits *bits, uint64_t word, uint64_t value)
{
    uint64_t before = bits->level[0][word];

    if (before == value) {
        return;
    }
    if (value == 0) {
        bits->level[0][word] = before & (~before + 1); /* one bit is left for clear to take out */
        dbk_bits_clear(bits, word * 64 + (uint64_t)__builtin_ctzll(before));
        return;
    }
    if (before == 0) {
        dbk_bits_set(bits, word * 64 + (uint64_t)__builtin_ctzll(value));
    }
    bits->level[0][word] = value;
}

uint64_t dbk_bits_next(const struct dbk_bits *bits, uint64_t from)
{
    unsigned level = 0;
    uint64_t at = from;

    for (;;) {
        uint64_t word = at / 64;
        uint64_t rest = 0;

        if (word >= bits->words[level]) {
            return DBK_BITS_NONE;
        }
        rest = bits->level[level][word] & (~UINT64_C(0) << (at % 64));
        if (rest != 0) {
            at = word * 64 + (uint64_t)__builtin_ctzll(rest);
            break;
        }
        if (++level == DBK_BITS_LEVELS) {
            return DBK_BITS_NONE;
        }
        at = word + 1;
    }
    while (level-- > 0) {
        at = at * 64 + (uint64_t)__builtin_ctzll(bits->level[level][at]);
    }
    return at;
}

void dbk_bits_rebuild(struct dbk_bits *bits, uint64_t words)
{
    for (unsigned i = 1; i < DBK_BITS_LEVELS; i++) {
        uint64_t above = (words + 63) / 64;

        for (uint64_t w = 0; w < above; w++) {
            uint64_t value = 0;

            for (uint64_t b = 0; b < 64 && w * 64 + b < words; b++) {
                value |= (uint64_t)(bits->level[i - 1][w * 64 + b] != 0) << b;
            }
            bits->level[i][w] = value;
        }
        words = above;
    }
}
