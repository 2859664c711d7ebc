/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted and shown (P): S1 to S5. Sums are taken over words of 64 events; the oldest
 * observation of a chunk is remembered until an event that may have been it goes.
 *
 * Threads: the caller's state lock.
 */
#include "engines/log/state_impl.h"

#include "base/fault.h"

/* The smallest observed_at of some events of a chunk, INT64_MAX: none. */
static int64_t observed_min(const struct dbk_state *s, uint32_t entry, uint64_t word)
{
    int64_t least = INT64_MAX;

    for (; word != 0; word &= word - 1) {
        uint32_t slot =
            s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(word);

        if (s->slots[slot].observed_at_us < least) {
            least = s->slots[slot].observed_at_us;
        }
    }
    return least;
}

/* The remembered minimum, found anew where it is not known. */
static int64_t observed_min_kept(const struct dbk_state *s, uint32_t entry, uint64_t word,
                                 int64_t *kept)
{
    if (*kept == DBK_OBSERVED_DIRTY) {
        *kept = observed_min(s, entry, word);
    }
    return *kept;
}

/* Names and records of some events of a chunk. Chunks that nothing happened to since are not looked at again. */
static uint64_t held_bytes(const struct dbk_state *s, struct dbk_consumer *c, uint32_t entry,
                           uint64_t word)
{
    struct dbk_held *held = &c->held[s->chunk_ordinal[entry]];

    if (word == 0) {
        return 0;
    }
    if (held->chunk_base != s->chunk_base[entry] || held->word != word) {
        *held = (struct dbk_held){.chunk_base = s->chunk_base[entry], .word = word};
        for (uint64_t left = word; left != 0; left &= left - 1) {
            uint32_t slot =
                s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(left);

            held->bytes += dbk_slot_payload(&s->slots[slot]);
        }
    }
    return held->bytes;
}

static int64_t age(uint64_t events, int64_t observed_at_us, int64_t now_us)
{
    int64_t difference = 0;

    if (events == 0) {
        return -1;
    }
    if (observed_at_us >= now_us) {
        return 0;
    }
    return __builtin_sub_overflow(now_us, observed_at_us, &difference) ? INT64_MAX : difference;
}

/* Marks the events in flight in the scratch words, or takes the marks out again. */
static void mark_in_flight(const struct dbk_state *s, struct dbk_consumer *c)
{
    const struct dbk_heap *live = &c->heaps[DBK_HEAP_LIVE_EXPIRY];

    for (uint32_t i = 0; i < live->count; i++) {
        uint32_t slot = c->leases[live->entries[i]].slot;

        if (slot != 0) {
            c->scratch[dbk_slot_entry(s, slot)] ^= dbk_slot_mask(slot);
        }
    }
}

static void stats_of_nobody(struct dbk_state *s, int64_t now_us, struct daybook_consumer_stats *ret)
{
    int64_t least = INT64_MAX;

    for (uint32_t entry = 0; entry < s->directory_count; entry++) {
        uint64_t stored = s->stored.level[0][entry];
        int64_t own =
            stored == 0 ? INT64_MAX : observed_min_kept(s, entry, stored, &s->observed_min[entry]);

        least = own < least ? own : least;
    }
    ret->registered = false;
    ret->pending = s->stored_count;
    ret->in_flight = 0;
    ret->quarantined = 0;
    ret->held_events = 0;
    ret->held_bytes = 0;
    ret->drained = s->stored_count == 0;
    ret->oldest_pending_age_us = age(s->stored_count, least, now_us);
    ret->oldest_unresolved_age_us = ret->oldest_pending_age_us;
    ret->start = 0;
    ret->start_at_us = DAYBOOK_TIME_UNSET;
    ret->newer_version = s->newer_count;
}

void dbk_state_consumer_stats(struct dbk_state *state, uint32_t consumer, int64_t now_us,
                              struct daybook_consumer_stats *ret)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    int64_t unresolved_least = INT64_MAX;
    int64_t pending_least = INT64_MAX;
    uint64_t unresolved = 0;
    uint64_t quarantined = 0;
    uint64_t newer = 0;
    uint64_t bytes = 0;

    if (c == NULL) {
        stats_of_nobody(state, now_us, ret);
        return;
    }
    dbk_clock_set(state, c, now_us);
    mark_in_flight(state, c);
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        uint64_t word = dbk_consumer_unresolved_word(state, c, entry);
        int64_t least = 0;

        quarantined += (uint64_t)__builtin_popcountll(c->quarantined[entry]);
        bytes += held_bytes(state, c, entry, word | c->quarantined[entry]);
        if (word == 0) {
            continue;
        }
        unresolved += (uint64_t)__builtin_popcountll(word);
        newer += (uint64_t)__builtin_popcountll(word & state->newer[entry]);
        least = observed_min_kept(state, entry, word, &c->observed_min[entry]);
        unresolved_least = least < unresolved_least ? least : unresolved_least;
        if (c->scratch[entry] != 0) {
            least = observed_min(state, entry, word & ~c->scratch[entry]);
        }
        pending_least = least < pending_least ? least : pending_least;
    }
    mark_in_flight(state, c);

    ret->registered = true;
    ret->in_flight = c->in_flight;
    ret->pending = unresolved - c->in_flight;
    ret->quarantined = quarantined;
    ret->held_events = unresolved + quarantined;
    ret->held_bytes = bytes;
    ret->drained = unresolved == 0;
    ret->oldest_pending_age_us = age(ret->pending, pending_least, now_us);
    ret->oldest_unresolved_age_us = dbk_fault(DBK_FAULT_UNRESOLVED_WITHOUT_LEASED)
                                        ? ret->oldest_pending_age_us
                                        : age(unresolved, unresolved_least, now_us);
    ret->start = c->start;
    ret->start_at_us = c->start_time_us;
    ret->newer_version = newer;
}

void dbk_state_stats(const struct dbk_state *state, struct dbk_state_stats *ret)
{
    uint64_t first = dbk_bits_next(&state->stored, 0);

    *ret = (struct dbk_state_stats){.stored_events = state->stored_count,
                                    .stored_bytes = state->stored_bytes,
                                    .oldest_accepted_at_us = DAYBOOK_TIME_UNSET,
                                    .damaged_events = state->damaged_count,
                                    .damaged_ever = state->damaged_ever};
    if (first != DBK_BITS_NONE) {
        uint32_t slot = dbk_bit_slot(state, first);
        uint32_t last = state->directory_count - 1; /* never a tombstone */

        ret->oldest_position = dbk_slot_position(state, slot);
        ret->oldest_accepted_at_us = state->slots[slot].accepted_at_us;
        ret->newest_position =
            state->chunk_base[last] + 63 - (uint64_t)__builtin_clzll(state->stored.level[0][last]);
    }
}

int64_t dbk_state_next_expiry(const struct dbk_state *state, uint32_t consumer)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    const struct dbk_heap *live = NULL;

    if (c == NULL || c->heaps[DBK_HEAP_LIVE_EXPIRY].count == 0) {
        return DAYBOOK_NO_DEADLINE;
    }
    live = &c->heaps[DBK_HEAP_LIVE_EXPIRY];
    return c->leases[live->entries[0]].expires_at_us;
}

void dbk_state_counters(const struct dbk_state *state, struct dbk_counters *ret)
{
    *ret = state->counters;
}

void dbk_state_set_counters(struct dbk_state *state, const struct dbk_counters *counters)
{
    state->counters = *counters;
}
