/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about one consumer and its events (P): what operators' operations ask before they decide.
 *
 * Threads: the caller's state lock.
 */
#include "engines/log/state_impl.h"

#include <string.h>

enum dbk_standing dbk_state_standing(const struct dbk_state *state, uint32_t consumer,
                                     uint64_t position)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, position);
    uint64_t mask = dbk_slot_mask(slot);
    uint32_t entry = 0;

    if (c == NULL || slot == 0) {
        return DBK_STANDING_ABSENT;
    }
    if (position < c->start) {
        return DBK_STANDING_BEFORE_START;
    }
    entry = dbk_slot_entry(state, slot);
    if ((c->quarantined[entry] & mask) != 0) {
        return DBK_STANDING_QUARANTINED;
    }
    if ((c->discarded[entry] & mask) != 0) {
        return DBK_STANDING_DISCARDED;
    }
    return (c->acknowledged[entry] & mask) != 0 ? DBK_STANDING_ACKNOWLEDGED
                                                : DBK_STANDING_UNRESOLVED;
}

bool dbk_state_show(const struct dbk_state *state, uint32_t i, uint64_t position, int64_t now_us,
                    struct daybook_event_standing *ret)
{
    const struct dbk_consumer *c = state->consumers[i];
    uint32_t slot = dbk_slot_find(state, position);
    const struct dbk_lease *lease = NULL;

    *ret = (struct daybook_event_standing){.standing = DAYBOOK_STANDING_PENDING};
    memcpy(ret->consumer, c->name, sizeof ret->consumer);
    switch (dbk_state_standing(state, c->id, position)) {
    case DBK_STANDING_ABSENT:
        return false;
    case DBK_STANDING_BEFORE_START:
    case DBK_STANDING_ACKNOWLEDGED:
        ret->standing = DAYBOOK_STANDING_ACKNOWLEDGED;
        return true;
    case DBK_STANDING_QUARANTINED:
        ret->standing = DAYBOOK_STANDING_QUARANTINED;
        return true;
    case DBK_STANDING_DISCARDED:
        ret->standing = DAYBOOK_STANDING_DISCARDED;
        return true;
    case DBK_STANDING_UNRESOLVED:
        break;
    }
    lease = &c->leases[c->lease_of[slot]]; /* entry 0 is all zero */
    if (lease->kind == DBK_LEASE_EVENT && dbk_lease_is_live(lease, now_us)) {
        ret->standing = DAYBOOK_STANDING_IN_FLIGHT;
    }
    ret->attempt = lease->attempt;
    ret->hand_outs = lease->hand_outs;
    return true;
}

bool dbk_state_holds_leases(struct dbk_state *state, uint32_t consumer, int64_t now_us)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);

    if (c == NULL) {
        return false;
    }
    for (uint32_t i = 1; i <= c->leases_used; i++) {
        const struct dbk_lease *l = &c->leases[i];

        if ((l->kind == DBK_LEASE_EVENT || l->kind == DBK_LEASE_ORPHAN) &&
            dbk_lease_is_live(l, now_us)) {
            return true;
        }
    }
    return false;
}

bool dbk_state_next_quarantined(const struct dbk_state *state, uint32_t consumer,
                                uint64_t after_position, uint32_t steps_max, struct dbk_stored *ret,
                                uint64_t *ret_looked)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint64_t after = after_position;

    *ret_looked = UINT64_MAX;
    for (uint32_t step = 0; c != NULL && step < steps_max; step++) {
        uint32_t slot = 0;

        if (!dbk_state_next(state, after, DAYBOOK_WHERE_QUARANTINED, steps_max, ret, ret_looked)) {
            return false;
        }
        after = ret->position;
        slot = dbk_slot_find(state, after);
        if ((c->quarantined[dbk_slot_entry(state, slot)] & dbk_slot_mask(slot)) != 0) {
            return true;
        }
        *ret_looked = after;
    }
    return false;
}

bool dbk_state_newest_acknowledged(const struct dbk_state *state, uint32_t consumer,
                                   uint64_t before_position, uint32_t chunks_max,
                                   struct dbk_stored *ret, uint64_t *ret_looked)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint64_t end = dbk_bit_at_least(state, before_position);
    uint64_t mask = dbk_slot_mask((uint32_t)(end % DBK_CHUNK_EVENTS)) - 1;
    uint32_t entry = (uint32_t)(end / DBK_CHUNK_EVENTS);

    *ret_looked = 0;
    if (c == NULL) {
        return false;
    }
    /* The chunk of `before_position` counts as far as it lies below; the others as a whole. */
    entry += mask != 0 ? 1 : 0;
    mask = mask != 0 ? mask : UINT64_MAX;
    for (uint32_t step = 0; step < chunks_max && entry > 0; step++) {
        entry--;
        uint64_t word = c->acknowledged[entry] & state->stored.level[0][entry] & mask;

        word &= ~(state->newer[entry] | state->damaged[entry]);
        word &= ~dbk_consumer_below(c, state->chunk_base[entry]);
        *ret_looked = entry > 0 ? state->chunk_base[entry] : 0;
        mask = UINT64_MAX;
        if (word != 0) {
            uint64_t position = state->chunk_base[entry] + 63 - (uint64_t)__builtin_clzll(word);

            return dbk_state_get(state, position, ret);
        }
    }
    return false;
}

uint32_t dbk_state_in_segment(const struct dbk_state *state, uint32_t segment_no, uint64_t *after,
                              uint32_t steps_max, struct dbk_placed *ret, uint32_t max)
{
    uint64_t bit = dbk_bits_next(&state->stored, dbk_bit_at_least(state, *after + 1));
    uint32_t count = 0;

    for (uint32_t step = 0; bit != DBK_BITS_NONE; step++) {
        uint32_t slot = dbk_bit_slot(state, bit);
        const struct dbk_slot *e = &state->slots[slot];

        if (step == steps_max || count == max) {
            return count;
        }
        *after = dbk_slot_position(state, slot);
        if (e->segment_no == segment_no) {
            uint32_t entry = (uint32_t)(bit / DBK_CHUNK_EVENTS);

            ret[count++] = (struct dbk_placed){
                .position = *after,
                .id_hash = e->id_hash,
                .accepted_at_us = e->accepted_at_us,
                .place = dbk_slot_place(e),
                .delivered = (state->givable.level[0][entry] & dbk_slot_mask(slot)) != 0};
        }
        bit = dbk_bits_next(&state->stored, bit + 1);
    }
    *after = UINT64_MAX;
    return count;
}
