/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved tables (base/memory.h) that are kept for the next journal instead of being given back: a campaign opens
 * some millions of journals, and half of its time went into the pages of their tables coming and going. What was
 * touched is zeroed before it is used again, so a table is zero as it is from the kernel; what a kept table does not
 * show is a use of it after it was given back, which the sanitizers' runs do.
 *
 * Stands in for dbk_reserve and dbk_unreserve by the linker's --wrap. Threads: one.
 */
#ifndef SIM_KEPT_MEMORY_H
#define SIM_KEPT_MEMORY_H

/* From now on tables are kept, where the kernel tells which pages were touched (Linux 6.7); elsewhere nothing changes. */
void kept_memory_begin(void);

#endif
