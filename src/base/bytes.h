/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored integers: little-endian put and get, one byte at a time (compilers make one move of it), so
 * that no struct is ever written or cast. Also rounding. Pure; threads: any.
 */
#ifndef DBK_BASE_BYTES_H
#define DBK_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Eight bytes looked at as one word: each of them 1, and the highest bit of each. */
#define DBK_BYTES_ONES UINT64_C(0x0101010101010101)
#define DBK_BYTES_HIGHS UINT64_C(0x8080808080808080)

static inline void dbk_put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void dbk_put_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static inline void dbk_put_u64(uint8_t *p, uint64_t v)
{
    dbk_put_u32(p, (uint32_t)v);
    dbk_put_u32(p + 4, (uint32_t)(v >> 32));
}

static inline void dbk_put_i64(uint8_t *p, int64_t v)
{
    dbk_put_u64(p, (uint64_t)v);
}

static inline uint16_t dbk_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint16_t)p[1] << 8);
}

static inline uint32_t dbk_get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t dbk_get_u64(const uint8_t *p)
{
    return (uint64_t)dbk_get_u32(p) | (uint64_t)dbk_get_u32(p + 4) << 32;
}

static inline int64_t dbk_get_i64(const uint8_t *p)
{
    return (int64_t)dbk_get_u64(p);
}

/* `unit` is a power of two; the caller knows that the sum does not overflow. */
static inline size_t dbk_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

#endif
