/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved tables that are kept, see kept_memory.h. */
#include "kept_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/memory.h"

#define REGIONS 64u
#define RUNS 128u

/* Of linux/fs.h, where it is new enough: the runs of pages that are of some kind. */
struct run {
    uint64_t start;
    uint64_t end;
    uint64_t kinds;
};

struct scan {
    uint64_t size;
    uint64_t flags;
    uint64_t start;
    uint64_t end;
    uint64_t walked_to;
    uint64_t runs;
    uint64_t runs_max;
    uint64_t pages_max;
    uint64_t inverted;
    uint64_t all_of;
    uint64_t any_of;
    uint64_t wanted;
};

#define PAGES_SCAN _IOWR('f', 16, struct scan)
#define PAGE_PRESENT (UINT64_C(1) << 3)
#define PAGE_SWAPPED (UINT64_C(1) << 4)

struct region {
    uint8_t *memory;
    size_t bytes;
    bool used;
};

static struct region regions[REGIONS];
static int pagemap = -1;

void *__real_dbk_reserve(size_t bytes);
void __real_dbk_unreserve(void *memory, size_t bytes);
void *__wrap_dbk_reserve(size_t bytes);
void __wrap_dbk_unreserve(void *memory, size_t bytes);

void kept_memory_begin(void)
{
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

/* Zeroes every page that was touched; no: the kernel does not say which. */
static bool zero(const struct region *region)
{
    struct run runs[RUNS];
    uint64_t begin = (uint64_t)(uintptr_t)region->memory;
    uint64_t end = begin + (region->bytes + 4095) / 4096 * 4096;
    struct scan scan = {.size = sizeof scan,
                        .start = begin,
                        .end = end,
                        .runs = (uint64_t)(uintptr_t)runs,
                        .runs_max = RUNS,
                        .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                        .wanted = PAGE_PRESENT};
    while (scan.start < end) {
        int found = ioctl(pagemap, PAGES_SCAN, &scan);
        if (found < 0) {
            return false;
        }
        for (int i = 0; i < found; i++) {
            memset(region->memory + (runs[i].start - begin), 0,
                   (size_t)(runs[i].end - runs[i].start));
        }
        scan.start = scan.walked_to;
    }
    return true;
}

void *__wrap_dbk_reserve(size_t bytes)
{
    struct region *room = NULL;
    for (size_t i = 0; i < REGIONS && pagemap >= 0; i++) {
        struct region *region = &regions[i];
        if (region->memory == NULL) {
            room = room == NULL ? region : room;
        } else if (!region->used && region->bytes == bytes && zero(region)) {
            region->used = true;
            return region->memory;
        }
    }
    void *memory = __real_dbk_reserve(bytes);
    if (room != NULL && memory != NULL) {
        *room = (struct region){.memory = memory, .bytes = bytes, .used = true};
    }
    return memory;
}

void __wrap_dbk_unreserve(void *memory, size_t bytes)
{
    for (size_t i = 0; i < REGIONS && memory != NULL; i++) {
        if (regions[i].memory == memory) {
            regions[i].used = false;
            return;
        }
    }
    __real_dbk_unreserve(memory, bytes);
}
