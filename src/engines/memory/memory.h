/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory engine behind <daybook/memory.h>, opened on a seam of the caller's choice, and what tests
 * need of it: a restart that keeps the storage, and events that this build cannot deliver.
 */
#ifndef DBK_ENGINES_MEMORY_MEMORY_H
#define DBK_ENGINES_MEMORY_MEMORY_H

#include <daybook/memory.h>

#include "base/os.h"

/* As daybook_memory_open, on `os` (borrowed until the handle is closed): of it only the clock is used. */
enum daybook_code dbk_memory_open(const struct daybook_capacity *capacity, const struct dbk_os *os,
                                  struct daybook_journal **ret, struct daybook_error *err);

/* Closes the handle and opens another over the same storage, as a process does that starts again over
 * a durable store. Queues are freed first. `capacity` may differ. On failure the old handle stands.
 * Tests only. */
enum daybook_code dbk_memory_restart(struct daybook_journal **journal,
                                     const struct daybook_capacity *capacity,
                                     struct daybook_error *err);

/* Another journal over a copy of the storage as it is now. Owned: closed by the caller. Tests only. */
enum daybook_code dbk_memory_copy(struct daybook_journal *journal, struct daybook_journal **ret,
                                  struct daybook_error *err);
/* As dbk_memory_restart, over the storage of `older`, a copy from before: what a loss of power does to a
 * durable store that had not synced all of it. Tokens that were given out since are not used again.
 * Closes both handles. Tests only. */
enum daybook_code dbk_memory_roll_back(struct daybook_journal **journal,
                                       struct daybook_journal *older,
                                       const struct daybook_capacity *capacity,
                                       struct daybook_error *err);

/* Positions below `next_position` are not given out any more, as where an append that nobody heard the answer
 * of has used one up. Returns how many that are. Tests only. */
uint64_t dbk_memory_skip_positions(struct daybook_journal *journal, uint64_t next_position);

/* Gives up at most `count` delivered events, oldest first (P4), as a journal does whose bytes are limited and not
 * its events alone. Returns how many. Tests only. */
uint64_t dbk_memory_reclaim(struct daybook_journal *journal, uint64_t count);

/* What a stored event is made into. Tests only. */
enum dbk_memory_row {
    DBK_MEMORY_ROW_SOUND,    /* readable, of this build's row version */
    DBK_MEMORY_ROW_NEWER,    /* of a newer row version (C9) */
    DBK_MEMORY_ROW_MALFORMED /* not decodable (C7) */
};
/* Returns OK or NOT_FOUND. Tests only. */
enum daybook_code dbk_memory_set_row(struct daybook_journal *journal, uint64_t position,
                                     enum dbk_memory_row row);

#endif
