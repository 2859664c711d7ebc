/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C (Castagnoli, RFC 3720 appendix B.4): the checksum of everything on disk. Pure; threads: any.
 *
 * `crc` is the finished value of what came before (0 for nothing), so calls can be chained:
 * crc(ab) = dbk_crc32c(dbk_crc32c(0, a), b). The check value of "123456789" is e3069283.
 * SSE4.2 or ARMv8 instructions where the processor has them, chosen at run time.
 */
#ifndef DBK_BASE_CRC32C_H
#define DBK_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t dbk_crc32c(uint32_t crc, const void *data, size_t len);

/* The software form, for tests and other processors. */
uint32_t dbk_crc32c_soft(uint32_t crc, const void *data, size_t len);

#endif
