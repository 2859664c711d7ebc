/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C by the processor's own instruction where it has one, else by tables, eight bytes a step.
 *
 * The instruction has a latency of three cycles and a throughput of one, so from LANE_BYTES_MIN up
 * three lanes run side by side and are joined by "how a crc goes on over n zero bytes", which is
 * linear and looked up in four tables. Pure; threads: any (the tables are made once).
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/bytes.h"

#define POLYNOMIAL_REFLECTED 0x82F63B78u

/* Bytes of one lane: three of them in a row are joined. 168 makes a 600-byte event one round. */
#define LANE_BYTES 168u
#define LANES_BYTES (3u * LANE_BYTES)

static uint32_t slice_table[8][256];
static uint32_t lane_shift[4][256]; /* a crc moved over LANE_BYTES zero bytes, by its bytes */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? POLYNOMIAL_REFLECTED : 0);
        }
        slice_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int s = 1; s < 8; s++) {
            uint32_t before = slice_table[s - 1][i];

            slice_table[s][i] = (before >> 8) ^ slice_table[0][before & 0xFF];
        }
    }
    for (uint32_t byte = 0; byte < 4; byte++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i << (8 * byte);

            for (unsigned n = 0; n < LANE_BYTES; n++) {
                crc = (crc >> 8) ^ slice_table[0][crc & 0xFF];
            }
            lane_shift[byte][i] = crc;
        }
    }
}

uint32_t dbk_crc32c_soft(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    (void)pthread_once(&tables_once, make_tables);
    crc = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t low = crc ^ dbk_get_u32(p);
        uint32_t high = dbk_get_u32(p + 4);

        crc = slice_table[7][low & 0xFF] ^ slice_table[6][(low >> 8) & 0xFF] ^
              slice_table[5][(low >> 16) & 0xFF] ^ slice_table[4][low >> 24] ^
              slice_table[3][high & 0xFF] ^ slice_table[2][(high >> 8) & 0xFF] ^
              slice_table[1][(high >> 16) & 0xFF] ^ slice_table[0][high >> 24];
    }
    for (; len > 0; len--, p++) {
        crc = (crc >> 8) ^ slice_table[0][(crc ^ *p) & 0xFF];
    }
    return ~crc;
}

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define HARDWARE __attribute__((target("sse4.2")))
HARDWARE static inline uint32_t step_u64(uint32_t crc, uint64_t v)
{
    return (uint32_t)__builtin_ia32_crc32di(crc, v);
}

HARDWARE static inline uint32_t step_u8(uint32_t crc, uint8_t v)
{
    return __builtin_ia32_crc32qi(crc, v);
}

static int hardware_is_there(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
/* Assembly and not intrinsics: gcc and clang disagree on how to name the target feature. */
#define HARDWARE
static inline uint32_t step_u64(uint32_t crc, uint64_t v)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(v));
    return crc;
}

static inline uint32_t step_u8(uint32_t crc, uint8_t v)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)v));
    return crc;
}

static int hardware_is_there(void)
{
    const unsigned long hwcap_crc32 = 1ul << 7;

    return (getauxval(AT_HWCAP) & hwcap_crc32) != 0;
}
#endif

static inline uint32_t over_lane(uint32_t crc)
{
    return lane_shift[0][crc & 0xFF] ^ lane_shift[1][(crc >> 8) & 0xFF] ^
           lane_shift[2][(crc >> 16) & 0xFF] ^ lane_shift[3][crc >> 24];
}

HARDWARE static uint32_t crc32c_hardware(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    crc = ~crc;
    for (; len >= LANES_BYTES; len -= LANES_BYTES, p += LANES_BYTES) {
        uint32_t second = 0;
        uint32_t third = 0;

        for (size_t i = 0; i < LANE_BYTES; i += 8) {
            crc = step_u64(crc, dbk_get_u64(p + i));
            second = step_u64(second, dbk_get_u64(p + LANE_BYTES + i));
            third = step_u64(third, dbk_get_u64(p + 2 * LANE_BYTES + i));
        }
        crc = over_lane(over_lane(crc) ^ second) ^ third;
    }
    for (; len >= 8; len -= 8, p += 8) {
        crc = step_u64(crc, dbk_get_u64(p));
    }
    for (; len > 0; len--, p++) {
        crc = step_u8(crc, *p);
    }
    return ~crc;
}

_Static_assert(LANE_BYTES % 8 == 0, "a lane is whole words");

#endif

typedef uint32_t crc32c_function(uint32_t crc, const void *data, size_t len);

static uint32_t crc32c_choose(uint32_t crc, const void *data, size_t len);

/* Chosen by the first call; every thread that chooses at the same time chooses the same. */
static crc32c_function *_Atomic chosen = crc32c_choose;

static uint32_t crc32c_choose(uint32_t crc, const void *data, size_t len)
{
    crc32c_function *function = dbk_crc32c_soft;

    (void)pthread_once(&tables_once, make_tables);
#if defined(__x86_64__) || defined(__aarch64__)
    if (hardware_is_there()) {
        function = crc32c_hardware;
    }
#endif
    atomic_store_explicit(&chosen, function, memory_order_release);
    return function(crc, data, len);
}

uint32_t dbk_crc32c(uint32_t crc, const void *data, size_t len)
{
    return atomic_load_explicit(&chosen, memory_order_acquire)(crc, data, len);
}
