/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records stand that memory does not hold: see places.h.
 */
#include "engines/log/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { EVIDENCE_ROOM_FIRST = 256 };

enum daybook_code dbk_places_init(struct dbk_places *places)
{
    memset(places, 0, sizeof(*places));
    places->next_no = 1;
    places->trail = calloc(DAYBOOK_TRAIL_MAX, sizeof(*places->trail));
    return places->trail == NULL ? DAYBOOK_NO_MEMORY : DAYBOOK_OK;
}

void dbk_places_release(struct dbk_places *places)
{
    free(places->trail);
    free(places->evidence);
    memset(places, 0, sizeof(*places));
}

/* The bucket of an entry, or the free one where it would stand. */
static uint32_t bucket_of(const struct dbk_evidence *evidence, uint32_t room, uint32_t consumer,
                          uint64_t position)
{
    uint64_t hash = (position ^ (uint64_t)consumer << 40) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t i = (uint32_t)(hash >> 32) & (room - 1);
    while (evidence[i].consumer != 0 &&
           (evidence[i].consumer != consumer || evidence[i].position != position)) {
        i = (i + 1) & (room - 1);
    }
    return i;
}

enum daybook_code dbk_places_reserve(struct dbk_places *places, const struct dbk_state *state,
                                     uint32_t quarantines)
{
    if (((uint64_t)places->evidence_count + quarantines) * 2 <= places->evidence_room) {
        return DAYBOOK_OK;
    }
    uint64_t live = 0;
    for (uint32_t i = 0; i < places->evidence_room; i++) {
        const struct dbk_evidence *e = &places->evidence[i];
        live += e->consumer != 0 && dbk_state_standing(state, e->consumer, e->position) ==
                                        DBK_STANDING_QUARANTINED
                    ? 1
                    : 0;
    }
    uint32_t room = EVIDENCE_ROOM_FIRST;
    while (room < (live + quarantines) * 3) {
        if (room > UINT32_MAX / 4) {
            return DAYBOOK_NO_MEMORY;
        }
        room *= 2;
    }
    struct dbk_evidence *grown = calloc(room, sizeof(*grown));
    if (grown == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    for (uint32_t i = 0; i < places->evidence_room; i++) {
        const struct dbk_evidence *e = &places->evidence[i];
        if (e->consumer != 0 &&
            dbk_state_standing(state, e->consumer, e->position) == DBK_STANDING_QUARANTINED) {
            grown[bucket_of(grown, room, e->consumer, e->position)] = *e;
        }
    }
    free(places->evidence);
    places->evidence = grown;
    places->evidence_room = room;
    places->evidence_count = (uint32_t)live;
    return DAYBOOK_OK;
}

void dbk_places_note_evidence(struct dbk_places *places, uint32_t consumer, uint64_t position,
                              struct dbk_place frame)
{
    if (consumer == 0 || places->evidence_room == 0) {
        return;
    }
    uint32_t i = bucket_of(places->evidence, places->evidence_room, consumer, position);
    if (places->evidence[i].consumer == 0) {
        dbk_assert(places->evidence_count + 1 < places->evidence_room);
        places->evidence_count++;
    }
    places->evidence[i] =
        (struct dbk_evidence){.position = position, .consumer = consumer, .frame = frame};
}

void dbk_places_note_operation(struct dbk_places *places, uint64_t no, struct dbk_place frame)
{
    for (uint32_t i = 0; i < places->trail_count; i++) {
        struct dbk_trail_entry *entry =
            &places->trail[(places->trail_first + i) % DAYBOOK_TRAIL_MAX];
        if (entry->no == no) { /* it was moved */
            entry->frame = frame;
            return;
        }
    }
    if (places->trail_count == DAYBOOK_TRAIL_MAX) {
        places->trail_first = (places->trail_first + 1) % DAYBOOK_TRAIL_MAX;
        places->trail_count--;
    }
    /* In order of number: a replay may meet a moved, older one behind newer ones. */
    uint32_t at = places->trail_count++;
    while (at > 0) {
        struct dbk_trail_entry *before =
            &places->trail[(places->trail_first + at - 1) % DAYBOOK_TRAIL_MAX];
        if (before->no < no) {
            break;
        }
        places->trail[(places->trail_first + at) % DAYBOOK_TRAIL_MAX] = *before;
        at--;
    }
    places->trail[(places->trail_first + at) % DAYBOOK_TRAIL_MAX] =
        (struct dbk_trail_entry){.no = no, .frame = frame};
    if (no >= places->next_no) {
        places->next_no = no + 1;
    }
}

void dbk_places_note(struct dbk_places *places, const struct dbk_frame *frame)
{
    struct dbk_frame inner = *frame;
    struct dbk_quarantine_frame quarantine;
    struct dbk_admin_frame admin;
    struct dbk_place place = {.segment_no = dbk_lsn_segment(frame->lsn),
                              .offset = dbk_lsn_offset(frame->lsn),
                              .len = DBK_FRAME_HEADER_BYTES + frame->len};
    if (frame->type == DBK_FRAME_RELOCATE && !dbk_relocate_frame_decode(frame, &inner)) {
        return;
    }
    if (inner.type == DBK_FRAME_QUARANTINE && dbk_quarantine_frame_decode(&inner, &quarantine)) {
        dbk_places_note_evidence(places, quarantine.consumer, quarantine.position, place);
    } else if (inner.type == DBK_FRAME_ADMIN && inner.position != 0 &&
               dbk_admin_frame_decode(&inner, &admin)) {
        dbk_places_note_operation(places, admin.no, place);
    }
}

const struct dbk_evidence *dbk_places_evidence(const struct dbk_places *places, uint32_t consumer,
                                               uint64_t position)
{
    if (places->evidence_room == 0) {
        return NULL;
    }
    const struct dbk_evidence *e =
        &places->evidence[bucket_of(places->evidence, places->evidence_room, consumer, position)];
    return e->consumer == 0 ? NULL : e;
}

const struct dbk_trail_entry *dbk_places_trail(const struct dbk_places *places, uint32_t i)
{
    if (i >= places->trail_count) {
        return NULL;
    }
    return &places->trail[(places->trail_first + places->trail_count - 1 - i) % DAYBOOK_TRAIL_MAX];
}

const struct dbk_trail_entry *dbk_places_operation(const struct dbk_places *places, uint64_t no)
{
    uint32_t low = 0;
    uint32_t high = places->trail_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct dbk_trail_entry *entry =
            &places->trail[(places->trail_first + middle) % DAYBOOK_TRAIL_MAX];
        if (entry->no == no) {
            return entry;
        }
        if (entry->no < no) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
