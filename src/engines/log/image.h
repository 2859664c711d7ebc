/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the log engine as a checkpoint holds it (P): copied out under one hold of the state lock,
 * and made again from it.
 *
 * A checkpoint has no identities, keys or places: while one is loaded, events are given them one after
 * the other (dbk_state_load_place), in any order, the later place of an event wins; frames behind the
 * checkpoint may be applied meanwhile. Only at the end are the indexes, the order within the keys and
 * what may be claimed made, all at once.
 *
 * Locks: as state.h says; loading is done by whoever opens.
 */
#ifndef DBK_ENGINES_LOG_IMAGE_H
#define DBK_ENGINES_LOG_IMAGE_H

#include "engines/log/sections.h"
#include "engines/log/state.h"

/* [state] Bytes that the sections of the state take at this moment. */
size_t dbk_state_image_bytes(const struct dbk_state *state);
/* [state] Writes SEGMENTS, CONSUMERS, CHUNKS, and of each consumer DELIVERY and LEASES, then ORPHANS. */
void dbk_state_image(const struct dbk_state *state, struct dbk_image *image);
/* [state] Writes DAMAGED. */
void dbk_state_image_damaged(const struct dbk_state *state, struct dbk_image *image);
/* [state] What the JOURNAL section says of the state. */
void dbk_state_image_journal(const struct dbk_state *state, struct dbk_checkpoint_journal *ret);

/* Begins to load into a new state that knows its segments. DAMAGED: the checkpoint contradicts itself, or
 * holds more than the state's limits; NO_MEMORY. The state is of no use then. */
enum daybook_code dbk_state_load_begin(struct dbk_state *state,
                                       const struct dbk_checkpoint *checkpoint);
/* The place and the identity of an event; nothing if it is not stored. */
void dbk_state_load_place(struct dbk_state *state, const struct dbk_event_meta *meta);
/* Ends loading. False: a stored event has no place, *ret_position the first; the state is of no use. */
bool dbk_state_load_end(struct dbk_state *state, uint64_t *ret_position);

/* The first thing in which two states differ, as far as a restart has to keep it: what is stored, with
 * place, identity and times; for each consumer start, verdicts, hand-outs and leases; the leases of
 * dropped events that are live at `now_us`; counters. NULL: nothing. *ret_position: where, or 0. */
const char *dbk_state_differs(const struct dbk_state *a, const struct dbk_state *b, int64_t now_us,
                              uint64_t *ret_position);

#endif
