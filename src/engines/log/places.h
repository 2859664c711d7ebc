/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records stand that memory does not hold (P): the words of a quarantine and the operators'
 * trail (O1). Only addresses are kept; the frames are read when somebody asks.
 *
 * Locks: the state lock. Memory is taken by dbk_places_reserve, before anything is staged; noting a place
 * then cannot fail.
 */
#ifndef DBK_ENGINES_LOG_PLACES_H
#define DBK_ENGINES_LOG_PLACES_H

#include "engines/log/format.h"

struct dbk_evidence {
    uint64_t position;
    uint32_t consumer;      /* 0: a free bucket */
    struct dbk_place frame; /* len: header and body */
};

struct dbk_trail_entry {
    uint64_t no;
    struct dbk_place frame;
};

struct dbk_places {
    struct dbk_evidence *evidence; /* open addressing, linear */
    uint32_t evidence_room;        /* a power of two, or 0 */
    uint32_t evidence_count;
    struct dbk_trail_entry *trail; /* a ring, oldest at trail_first */
    uint32_t trail_first;
    uint32_t trail_count;
    uint64_t next_no;
};

enum daybook_code dbk_places_init(struct dbk_places *places);
void dbk_places_release(struct dbk_places *places);
/* Room for `quarantines` more; lets go of what `state` does not hold as quarantined any more. NO_MEMORY. */
enum daybook_code dbk_places_reserve(struct dbk_places *places, const struct dbk_state *state,
                                     uint32_t quarantines);
/* A frame of the log: notes it if it is a QUARANTINE, an operator's ADMIN or a relocated one of these. */
void dbk_places_note(struct dbk_places *places, const struct dbk_frame *frame);
/* What a checkpoint says of a QUARANTINE and of an operation. */
void dbk_places_note_evidence(struct dbk_places *places, uint32_t consumer, uint64_t position,
                              struct dbk_place frame);
void dbk_places_note_operation(struct dbk_places *places, uint64_t no, struct dbk_place frame);
/* NULL: not known. */
const struct dbk_evidence *dbk_places_evidence(const struct dbk_places *places, uint32_t consumer,
                                               uint64_t position);
/* An operation by its number; NULL: not known. */
const struct dbk_trail_entry *dbk_places_operation(const struct dbk_places *places, uint64_t no);
/* Entry i from the newest; NULL: there are fewer. */
const struct dbk_trail_entry *dbk_places_trail(const struct dbk_places *places, uint32_t i);

#endif
