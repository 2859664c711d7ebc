/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tables, reserved once at their limit: address space whose untouched pages cost nothing.
 */
#ifndef DBK_BASE_MEMORY_H
#define DBK_BASE_MEMORY_H

#include <stddef.h>

/* Zeroed memory by mmap without reservation of swap; NULL when there is none. `bytes` > 0. */
void *dbk_reserve(size_t bytes);
/* Gives it back. NULL is accepted. */
void dbk_unreserve(void *memory, size_t bytes);

#endif
