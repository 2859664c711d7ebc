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

    if (memory == MAP_FAILED) {
        return NULL;
    }
    /* Where huge pages are given to everybody (Debian's default), one touched byte would cost 2 MiB. A
     * kernel that knows none refuses, and that is as well. */
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

void dbk_unreserve(void *memory, size_t bytes)
{
    if (memory != NULL) {
        int result = munmap(memory, bytes);

        dbk_assert(result == 0);
    }
}
