/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up what may be given up (P): prune, reclaim, drop (P3 to P6), and their replay.
 *
 * Threads: the caller's state and stage locks.
 */
#include "engines/log/state_impl.h"

#include "base/fault.h"

/* Room in the lists for one position: the range that takes it, or NULL. A range goes on over
 * positions that are not stored. Called before the event is forgotten, in order of position. */
static struct dbk_range *range_for(const struct dbk_state *s, struct dbk_forget_list *list,
                                   uint64_t position, enum dbk_forget_reason reason)
{
    struct dbk_range *last = list->count == 0 ? NULL : &list->ranges[list->count - 1];

    if (last != NULL && last->reason == reason && last->end <= position) {
        uint64_t bit = dbk_bits_next(&s->stored, dbk_bit_at_least(s, last->end));

        if (bit != DBK_BITS_NONE && dbk_slot_position(s, dbk_bit_slot(s, bit)) == position) {
            return last;
        }
    }
    if (list->count == list->max) {
        return NULL;
    }
    dbk_assert(list->ranges != NULL);
    last = &list->ranges[list->count++];
    *last = (struct dbk_range){.first = position, .end = position, .reason = reason};
    return last;
}

/* Forgets one event and lists it; no: no range is left, or too many keys wait without an event. */
static bool give_up(struct dbk_state *s, uint32_t slot, enum dbk_forget_reason reason,
                    struct dbk_forget_list *list)
{
    uint64_t position = dbk_slot_position(s, slot);
    struct dbk_range *range = NULL;

    if (s->keys_empty >= DBK_EMPTY_KEYS_MAX) {
        return false;
    }
    reason = dbk_forget_counts_as(s, slot, reason);
    range = range_for(s, list, position, reason);
    if (range == NULL) {
        return false;
    }
    range->end = position + 1;
    dbk_event_forget(s, slot, reason);
    return true;
}

bool dbk_state_has_ended(const struct dbk_state *state)
{
    return dbk_bits_next(&state->ended, 0) != DBK_BITS_NONE;
}

uint32_t dbk_state_forget_ended(struct dbk_state *state)
{
    uint32_t forgotten = 0;

    for (;;) {
        uint64_t bit = dbk_bits_next(&state->ended, 0);

        if (bit == DBK_BITS_NONE || state->keys_empty >= DBK_EMPTY_KEYS_MAX) {
            return forgotten;
        }
        dbk_event_forget(state, dbk_bit_slot(state, bit), DBK_FORGET_DISCARDED);
        forgotten++;
    }
}

uint32_t dbk_state_prune(struct dbk_state *state, int64_t now_us, uint32_t events_max,
                         struct dbk_forget_list *list)
{
    uint32_t forgotten = 0;

    while (forgotten < events_max) {
        uint64_t bit = dbk_bits_next(&state->prunable, 0);
        uint32_t slot = 0;

        if (bit == DBK_BITS_NONE) {
            break;
        }
        slot = dbk_bit_slot(state, bit);
        int64_t since_us = dbk_fault(DBK_FAULT_WINDOW_FROM_OBSERVATION)
                               ? state->slots[slot].observed_at_us
                               : state->slots[slot].accepted_at_us;
        if (dbk_time_add(since_us, state->options.retain_us) > now_us ||
            !give_up(state, slot, DBK_FORGET_PRUNED, list)) {
            break;
        }
        forgotten++;
    }
    return forgotten;
}

uint64_t dbk_state_first_givable(const struct dbk_state *state)
{
    uint64_t bit = dbk_bits_next(&state->givable, 0);

    return bit == DBK_BITS_NONE ? 0 : dbk_slot_position(state, dbk_bit_slot(state, bit));
}

uint32_t dbk_state_reclaim(struct dbk_state *state, uint32_t events_max,
                           struct dbk_forget_list *list)
{
    uint32_t forgotten = 0;

    while (forgotten < events_max) {
        uint64_t bit = dbk_bits_next(&state->givable, 0);

        if (bit == DBK_BITS_NONE ||
            (dbk_fault(DBK_FAULT_RECLAIMS_ONLY_THE_FRONT) &&
             bit != dbk_bits_next(&state->stored, 0)) ||
            !give_up(state, dbk_bit_slot(state, bit), DBK_FORGET_RECLAIMED, list)) {
            break;
        }
        forgotten++;
    }
    return forgotten;
}

/* ---- drop ------------------------------------------------------------------------------------------- */

static uint32_t orphans_kept(const struct dbk_state *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->consumer_count; i++) {
        kept += s->consumers[i]->orphans;
    }
    return kept;
}

/* Leases of dropped events that are over make room. They are kept until then, because a clock that goes
 * back makes them live again (C5). */
static void orphans_purge(struct dbk_state *s, int64_t now_us)
{
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];

        for (uint32_t k = 1; c->orphans > 0 && k <= c->leases_used; k++) {
            const struct dbk_lease *l = &c->leases[k];
            uint32_t key = l->key;

            if (l->kind == DBK_LEASE_ORPHAN && !dbk_lease_is_live(l, now_us)) {
                dbk_lease_remove(s, c, k);
                dbk_key_release(s, key);
            }
        }
    }
}

/* Live leases of an event over all consumers. */
static uint32_t leases_of(const struct dbk_state *s, uint32_t slot, int64_t now_us)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];

        if (c->lease_of[slot] != 0 && dbk_lease_is_live(&c->leases[c->lease_of[slot]], now_us)) {
            live++;
        }
    }
    return live;
}

/* What dropping the oldest so many takes; there are so many. */
static void drop_needs(const struct dbk_state *s, uint32_t events, int64_t now_us,
                       uint32_t *ret_ranges, uint32_t *ret_orphans)
{
    uint64_t next_stored = 0;
    uint64_t bit = 0;
    enum dbk_forget_reason before = 0;

    *ret_ranges = 0;
    *ret_orphans = 0;
    for (uint32_t i = 0; i < events; i++) {
        uint32_t slot = 0;
        enum dbk_forget_reason reason = 0;

        bit = dbk_bits_next(&s->droppable, bit);
        slot = dbk_bit_slot(s, bit);
        reason = dbk_forget_counts_as(s, slot, DBK_FORGET_DROPPED);
        if (i == 0 || reason != before || next_stored != bit) {
            (*ret_ranges)++;
        }
        before = reason;
        *ret_orphans += leases_of(s, slot, now_us);
        bit++;
        next_stored = dbk_bits_next(&s->stored, bit);
    }
}

struct dbk_orphan dbk_orphan_of(const struct dbk_state *s, const struct dbk_consumer *c,
                                const struct dbk_lease *l)
{
    return (struct dbk_orphan){.consumer = c->id,
                               .lease_ms = (uint32_t)((l->expires_at_us - l->granted_at_us) / 1000),
                               .position = l->position,
                               .token = l->token,
                               .expires_at_us = l->expires_at_us,
                               .key_hash = dbk_key_hash(s, l->key)};
}

/* Writes down and keeps the live leases of an event that is about to be dropped. */
static void orphans_make(struct dbk_state *s, uint32_t slot, int64_t now_us,
                         struct dbk_orphan *orphans, uint32_t *count)
{
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];
        uint32_t lease = c->lease_of[slot];
        const struct dbk_lease *l = &c->leases[lease];

        if (lease == 0 || !dbk_lease_is_live(l, now_us) ||
            dbk_fault(DBK_FAULT_DROPPED_LEASE_FORGOTTEN)) {
            continue;
        }
        orphans[(*count)++] = dbk_orphan_of(s, c, l);
        dbk_lease_orphan(c, lease);
    }
}

uint32_t dbk_state_drop(struct dbk_state *state, uint32_t events, int64_t now_us,
                        struct dbk_forget_list *list, struct dbk_orphan *orphans,
                        uint32_t orphans_max, uint32_t *ret_orphans)
{
    uint32_t ranges_needed = 0;
    uint32_t orphans_needed = 0;
    uint32_t count = 0;

    *ret_orphans = 0;
    if (events == 0 || state->droppable_count < events ||
        (uint64_t)state->keys_empty + events > DBK_EMPTY_KEYS_MAX) {
        return 0;
    }
    drop_needs(state, events, now_us, &ranges_needed, &orphans_needed);
    if (ranges_needed > list->max - list->count || orphans_needed > orphans_max) {
        return 0;
    }
    if (orphans_kept(state) + orphans_needed > state->options.orphans_max) {
        orphans_purge(state, now_us);
    }
    if (orphans_kept(state) + orphans_needed > state->options.orphans_max) {
        return 0;
    }
    for (uint32_t i = 0; i < events; i++) {
        uint32_t slot = dbk_bit_slot(state, dbk_bits_next(&state->droppable, 0));
        bool done = false;

        orphans_make(state, slot, now_us, orphans, &count);
        done = give_up(state, slot, DBK_FORGET_DROPPED, list);
        dbk_assert(done);
    }
    *ret_orphans = count;
    return events;
}

/* ---- replay and restating ----------------------------------------------------------------------------- */

void dbk_state_apply_forget(struct dbk_state *state, struct dbk_range range)
{
    while (range.first < range.end) {
        uint64_t bit = dbk_bits_next(&state->stored, dbk_bit_at_least(state, range.first));
        uint32_t slot = 0;

        if (bit == DBK_BITS_NONE) {
            return;
        }
        slot = dbk_bit_slot(state, bit);
        range.first = dbk_slot_position(state, slot);
        if (range.first >= range.end) {
            return;
        }
        dbk_event_forget(state, slot, range.reason);
    }
}

void dbk_state_apply_orphan(struct dbk_state *state, const struct dbk_orphan *orphan)
{
    struct dbk_consumer *c = dbk_consumer_find(state, orphan->consumer);
    uint32_t lease = c == NULL ? 0 : dbk_orphan_find(c, orphan->position);
    uint32_t key = 0;

    if (c == NULL) {
        return;
    }
    if (lease == 0) {
        if (orphans_kept(state) >= state->options.orphans_max ||
            state->keys_empty >= DBK_EMPTY_KEYS_MAX) {
            return;
        }
        key = dbk_key_get(state, orphan->key_hash);
        if (key == 0) {
            return;
        }
        lease = dbk_lease_add(state, c, DBK_LEASE_ORPHAN, key, 0, orphan->position);
    }
    c->leases[lease].token = orphan->token;
    dbk_lease_run(state, c, lease,
                  dbk_time_add(orphan->expires_at_us, -(int64_t)orphan->lease_ms * 1000),
                  orphan->expires_at_us);
}

uint32_t dbk_state_orphans(const struct dbk_state *state, int64_t now_us, struct dbk_orphan *ret,
                           uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < state->consumer_count; i++) {
        const struct dbk_consumer *c = state->consumers[i];

        for (uint32_t k = 0; c->orphans > 0 && k < DBK_ORPHAN_BUCKETS; k++) {
            for (uint32_t at = c->orphan_buckets[k]; at != 0; at = c->leases[at].bucket_next) {
                const struct dbk_lease *l = &c->leases[at];

                if (now_us != DAYBOOK_TIME_UNSET && !dbk_lease_is_live(l, now_us)) {
                    continue;
                }
                if (ret != NULL && count == max) {
                    return count;
                }
                if (ret != NULL) {
                    ret[count] = dbk_orphan_of(state, c, l);
                }
                count++;
            }
        }
    }
    return count;
}
