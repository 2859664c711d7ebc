/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tables by mmap: pages that nobody touched cost nothing. Threads: any.
 */
#include "base/memory.h"

#include <sys/mman.h>

#include "base/assert.h"

void *dbk_reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

void dbk_unreserve(void *memory, size_t bytes)
{
    if (memory != NULL) {
        int result = munmap(memory, bytes);

        dbk_assert(result == 0);
    }
}
