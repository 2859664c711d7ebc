/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumers (P): where each starts, what is unresolved for it, which event of a key is next, and the
 * operators' acts on it.
 *
 * Threads: the caller's locks, as state.h says.
 */
#include "engines/log/state_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"

enum {
    NEXT_STEPS = 8, /* resolved events of a key in a row that its list is walked along for */
    CHUNKS_A_STEP =
        16 /* chunks without an unresolved event that cost as much as a step of a list */
};

/* ---- looking ------------------------------------------------------------------------------------------ */

struct dbk_consumer *dbk_consumer_find(const struct dbk_state *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        if (s->consumers[i]->id == id) {
            return s->consumers[i];
        }
    }
    return NULL;
}

uint32_t dbk_state_consumer_id(const struct dbk_state *state, const char *name)
{
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        if (strcmp(state->consumers[i]->name, name) == 0) {
            return state->consumers[i]->id;
        }
    }
    return 0;
}

uint32_t dbk_state_next_consumer_id(const struct dbk_state *state)
{
    return state->next_consumer_id;
}

void dbk_state_set_next_consumer_id(struct dbk_state *state, uint32_t id)
{
    if (id > state->next_consumer_id) {
        state->next_consumer_id = id;
    }
}

uint32_t dbk_state_consumer_count(const struct dbk_state *state)
{
    return state->consumer_count;
}

const char *dbk_state_consumer_name(const struct dbk_state *state, uint32_t i)
{
    return state->consumers[i]->name;
}

void dbk_state_consumer_restate(const struct dbk_state *state, uint32_t i,
                                struct dbk_consumer_restated *ret)
{
    const struct dbk_consumer *c = state->consumers[i];
    bool waits = c->start_time_us != DAYBOOK_TIME_UNSET;

    *ret = (struct dbk_consumer_restated){
        .id = c->id,
        .name = c->name,
        .start = {.position = waits ? 0 : c->start, .time_us = c->start_time_us},
        .token_floor = c->token_floor};
}

void dbk_state_set_token_floor(struct dbk_state *state, uint32_t consumer, uint64_t token_floor)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);

    if (c != NULL && token_floor > c->token_floor) {
        c->token_floor = token_floor;
    }
}

uint64_t dbk_consumer_below(const struct dbk_consumer *c, uint64_t chunk_base)
{
    if (c->start <= chunk_base) {
        return 0;
    }
    if (c->start - chunk_base >= DBK_CHUNK_EVENTS) {
        return UINT64_MAX;
    }
    return (UINT64_C(1) << (c->start - chunk_base)) - 1;
}

uint64_t dbk_consumer_unresolved_word(const struct dbk_state *s, const struct dbk_consumer *c,
                                      uint32_t entry)
{
    return s->stored.level[0][entry] &
           ~(dbk_consumer_below(c, s->chunk_base[entry]) | c->acknowledged[entry] |
             c->discarded[entry] | c->quarantined[entry]);
}

bool dbk_consumer_unresolved(const struct dbk_state *s, const struct dbk_consumer *c, uint32_t slot)
{
    return (dbk_consumer_unresolved_word(s, c, dbk_slot_entry(s, slot)) & dbk_slot_mask(slot)) != 0;
}

/* As dbk_consumer_next_of_key, where many of the key are resolved in a row: its list and the bits of the
 * chunks are searched side by side, so that it takes no longer than the shorter of the two. */
static uint32_t next_behind_many(const struct dbk_state *s, const struct dbk_consumer *c,
                                 uint32_t slot)
{
    uint32_t key = s->slots[slot].key;
    uint32_t entry = dbk_slot_entry(s, slot);
    uint64_t word = dbk_consumer_unresolved_word(s, c, entry) &
                    (~UINT64_C(0) << (slot % DBK_CHUNK_EVENTS)) & ~dbk_slot_mask(slot);

    for (;;) {
        slot = s->slots[slot].next;
        if (slot == 0 || dbk_consumer_unresolved(s, c, slot)) {
            return slot;
        }
        for (unsigned i = 0; word == 0 && i < CHUNKS_A_STEP; i++) {
            if (++entry == s->directory_count) {
                return 0;
            }
            word = dbk_consumer_unresolved_word(s, c, entry);
        }
        if (word != 0) {
            uint32_t other =
                s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(word);
            if (s->slots[other].key == key) {
                return other;
            }
            word &= word - 1;
        }
    }
}

uint32_t dbk_consumer_next_of_key(const struct dbk_state *s, const struct dbk_consumer *c,
                                  uint32_t slot)
{
    for (unsigned i = 0; i < NEXT_STEPS; i++) {
        slot = s->slots[slot].next;
        if (slot == 0 || dbk_consumer_unresolved(s, c, slot)) {
            return slot;
        }
    }
    return next_behind_many(s, c, slot);
}

/* ---- next and the eligible bit -------------------------------------------------------------------------- */

void dbk_key_refresh(struct dbk_state *s, struct dbk_consumer *c, uint32_t key)
{
    uint32_t next = c->keys[key].next;

    if ((next & ~DBK_KEY_RESERVED) == 0) {
        return;
    }
    if ((next & DBK_KEY_RESERVED) == 0 &&
        (!dbk_slot_newer(s, next) || dbk_fault(DBK_FAULT_CLAIMS_NEWER)) &&
        !dbk_key_busy(c, key, DBK_BUSY_LEASED_OR_HELD)) {
        dbk_bits_set(&c->eligible, dbk_slot_bit(s, next));
    } else {
        dbk_bits_clear(&c->eligible, dbk_slot_bit(s, next & ~DBK_KEY_RESERVED));
    }
}

void dbk_key_set_next(struct dbk_state *s, struct dbk_consumer *c, uint32_t key, uint32_t slot)
{
    struct dbk_key_view *view = &c->keys[key];
    uint32_t before = view->next & ~DBK_KEY_RESERVED;

    if (s->placed != NULL) {
        return; /* events have their keys once the checkpoint is loaded */
    }
    if (before != 0) {
        dbk_bits_clear(&c->eligible, dbk_slot_bit(s, before));
    }
    view->next = (view->next & DBK_KEY_RESERVED) | slot;
    dbk_key_refresh(s, c, key);
}

/* An event became unresolved again. */
static void event_reopened(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot)
{
    uint32_t entry = dbk_slot_entry(s, slot);
    uint32_t key = s->slots[slot].key;
    uint32_t next = c->keys[key].next & ~DBK_KEY_RESERVED;

    c->observed_min[entry] = DBK_OBSERVED_DIRTY;
    if (next == 0 || dbk_slot_position(s, slot) < dbk_slot_position(s, next)) {
        dbk_key_set_next(s, c, key, slot);
    }
    dbk_chunk_refresh(s, entry);
}

/* The lease of an event that is settled ends. What was live at a rewind is remembered (K3). */
static void lease_end(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot)
{
    uint32_t lease = c->lease_of[slot];

    if (lease == 0) {
        return;
    }
    if (dbk_fault(DBK_FAULT_RELEASE_KEEPS_BUDGET)) {
        dbk_lease_off(s, c, lease);
        return;
    }
    if (c->leases[lease].kept_token == 0) {
        dbk_lease_remove(s, c, lease);
        return;
    }
    dbk_lease_off(s, c, lease);
    c->leases[lease].token = 0;
    c->leases[lease].attempt = 0;
    c->leases[lease].hand_outs = 0;
    c->leases[lease].refunded = 1;
}

void dbk_event_resolved(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot)
{
    uint32_t entry = dbk_slot_entry(s, slot);
    uint32_t key = s->slots[slot].key;

    if (s->slots[slot].observed_at_us == c->observed_min[entry]) {
        c->observed_min[entry] = DBK_OBSERVED_DIRTY;
    }
    if ((c->keys[key].next & ~DBK_KEY_RESERVED) == slot) {
        uint32_t next = dbk_consumer_next_of_key(s, c, slot);
        if (dbk_fault(DBK_FAULT_ORDER_BEHIND_POISON) && next != 0 &&
            (c->quarantined[entry] & dbk_slot_mask(slot)) != 0) {
            next = dbk_consumer_next_of_key(s, c, next);
        }
        dbk_key_set_next(s, c, key, next);
    }
    lease_end(s, c, slot);
    dbk_chunk_refresh(s, entry);
}

void dbk_consumer_rebuild(struct dbk_state *s, struct dbk_consumer *c)
{
    for (uint32_t key = 1; key <= s->keys_used; key++) {
        dbk_key_set_next(s, c, key, 0);
    }
    for (uint32_t entry = 0; entry < s->directory_count; entry++) {
        uint64_t word =
            s->chunk_ordinal[entry] == 0 ? 0 : dbk_consumer_unresolved_word(s, c, entry);

        c->observed_min[entry] = INT64_MAX;
        for (; word != 0; word &= word - 1) {
            uint32_t slot =
                s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(word);
            const struct dbk_slot *e = &s->slots[slot];

            if (e->observed_at_us < c->observed_min[entry]) {
                c->observed_min[entry] = e->observed_at_us;
            }
            if ((c->keys[e->key].next & ~DBK_KEY_RESERVED) == 0) {
                dbk_key_set_next(s, c, e->key, slot);
            }
        }
    }
}

static void refresh_all(struct dbk_state *s)
{
    for (uint32_t entry = 0; entry < s->directory_count; entry++) {
        if (s->chunk_ordinal[entry] != 0) {
            dbk_chunk_refresh(s, entry);
        }
    }
}

/* ---- registration ---------------------------------------------------------------------------------------- */

struct dbk_start dbk_state_resolve_start(const struct dbk_state *state, struct daybook_start start,
                                         uint64_t next_position)
{
    struct dbk_start resolved = {.position = next_position, .time_us = DAYBOOK_TIME_UNSET};
    uint64_t bit = dbk_bits_next(&state->stored, 0);

    switch (start.kind) {
    case DAYBOOK_START_OLDEST:
        if (bit != DBK_BITS_NONE) {
            resolved.position = dbk_slot_position(state, dbk_bit_slot(state, bit));
        }
        break;
    case DAYBOOK_START_NOW:
        break;
    case DAYBOOK_START_POSITION:
        resolved.position = start.value < 0 ? 0 : (uint64_t)start.value;
        break;
    case DAYBOOK_START_TIME:
        while (bit != DBK_BITS_NONE &&
               state->slots[dbk_bit_slot(state, bit)].accepted_at_us < start.value) {
            bit = dbk_bits_next(&state->stored, bit + 1);
        }
        if (bit != DBK_BITS_NONE) {
            resolved.position = dbk_slot_position(state, dbk_bit_slot(state, bit));
        } else {
            resolved = (struct dbk_start){.position = 0, .time_us = start.value};
        }
        break;
    }
    return resolved;
}

/* Lays out a consumer's tables; with a NULL base only their size is found. */
static void carve_consumer(const struct dbk_state *s, struct dbk_consumer *c,
                           struct dbk_carver *carver)
{
    uint64_t entries = s->directory_max;
    uint64_t leases = (uint64_t)s->chunks_max + DBK_ORPHANS_LIMIT + DBK_HOLDS_MAX + 1;
    uint64_t *eligible = dbk_carve(carver, dbk_bits_size(entries), sizeof(uint64_t));

    if (eligible != NULL) {
        dbk_bits_init(&c->eligible, eligible, entries);
    }
    c->acknowledged = dbk_carve(carver, entries, sizeof *c->acknowledged);
    c->discarded = dbk_carve(carver, entries, sizeof *c->discarded);
    c->quarantined = dbk_carve(carver, entries, sizeof *c->quarantined);
    c->handed = dbk_carve(carver, entries, sizeof *c->handed);
    c->observed_min = dbk_carve(carver, entries, sizeof *c->observed_min);
    c->scratch = dbk_carve(carver, entries, sizeof *c->scratch);
    c->held = dbk_carve(carver, (uint64_t)s->chunks_max + 1, sizeof *c->held);
    c->keys = dbk_carve(carver, (uint64_t)s->keys_max + 1, sizeof *c->keys);
    c->lease_of =
        dbk_carve(carver, ((uint64_t)s->chunks_max + 1) * DBK_CHUNK_EVENTS, sizeof *c->lease_of);
    c->leases = dbk_carve(carver, leases, sizeof *c->leases);
    for (unsigned i = 0; i < DBK_HEAPS; i++) {
        c->heaps[i].entries = dbk_carve(carver, leases, sizeof *c->heaps[i].entries);
    }
    c->orphan_buckets = dbk_carve(carver, DBK_ORPHAN_BUCKETS, sizeof *c->orphan_buckets);
}

void dbk_consumer_free(struct dbk_consumer *c)
{
    if (c != NULL) {
        dbk_unreserve(c->arena, c->arena_bytes);
        free(c);
    }
}

enum daybook_code dbk_state_register(struct dbk_state *state, uint32_t consumer, const char *name,
                                     struct dbk_start start)
{
    struct dbk_consumer *c = NULL;
    struct dbk_carver carver = {0};

    if (dbk_consumer_find(state, consumer) != NULL) {
        return DAYBOOK_OK;
    }
    if (state->consumer_count == DAYBOOK_CONSUMERS_MAX) {
        return DAYBOOK_BUSY;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    carve_consumer(state, c, &carver);
    c->arena_bytes = carver.used;
    c->arena = dbk_reserve(carver.used);
    if (c->arena == NULL) {
        free(c);
        return DAYBOOK_NO_MEMORY;
    }
    carver = (struct dbk_carver){.base = c->arena};
    carve_consumer(state, c, &carver);

    c->id = consumer;
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->start_time_us = start.time_us;
    c->start = start.time_us == DAYBOOK_TIME_UNSET ? start.position : UINT64_MAX;
    dbk_state_set_next_consumer_id(state, consumer + 1);
    state->consumers[state->consumer_count++] = c;
    dbk_consumer_rebuild(state, c);
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        state->delivered[entry] &= dbk_consumer_below(c, state->chunk_base[entry]);
    }
    refresh_all(state);
    return DAYBOOK_OK;
}

void dbk_state_retire(struct dbk_state *state, uint32_t consumer)
{
    uint32_t at = 0;
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);

    if (c == NULL) {
        return;
    }
    while (state->consumers[at] != c) {
        at++;
    }
    state->consumer_count--;
    memmove(&state->consumers[at], &state->consumers[at + 1],
            (state->consumer_count - at) * sizeof(struct dbk_consumer *));
    dbk_consumer_free(c);
    /* Keys without an event that only this consumer kept. */
    for (uint32_t key = 1; state->keys_empty > 0 && key <= state->keys_used; key++) {
        if (state->keys[key].first == 0 && dbk_key_find(state, dbk_key_hash(state, key)) == key) {
            dbk_key_release(state, key);
        }
    }
    if (dbk_fault(DBK_FAULT_RETIRE_KEEPS_RETENTION)) {
        return;
    }
    if (state->consumer_count == 0) {
        for (uint32_t entry = 0; entry < state->directory_count; entry++) {
            state->delivered[entry] = 0; /* with no consumer nothing is delivered (P2) */
        }
    }
    refresh_all(state);
}

/* ---- operators' acts --------------------------------------------------------------------------------------- */

void dbk_state_release(struct dbk_state *state, uint32_t consumer, uint64_t position)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, position);
    uint32_t entry = 0;

    if (c == NULL || slot == 0) {
        return;
    }
    entry = dbk_slot_entry(state, slot);
    if ((c->quarantined[entry] & dbk_slot_mask(slot)) == 0) {
        return;
    }
    c->quarantined[entry] &= ~dbk_slot_mask(slot);
    event_reopened(state, c, slot);
}

void dbk_state_discard(struct dbk_state *state, uint32_t consumer, uint64_t position)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, position);
    uint64_t mask = 0;
    uint32_t entry = 0;

    if (c == NULL || slot == 0 || position < c->start) {
        return;
    }
    entry = dbk_slot_entry(state, slot);
    mask = dbk_slot_mask(slot);
    if (((c->acknowledged[entry] | c->discarded[entry]) & mask) != 0) {
        return;
    }
    c->quarantined[entry] &= ~mask;
    c->discarded[entry] |= mask;
    dbk_event_resolved(state, c, slot);
    if ((state->ended.level[0][entry] & mask) != 0) {
        dbk_event_forget(state, slot, DBK_FORGET_DISCARDED);
    }
}

void dbk_state_rewind(struct dbk_state *state, uint32_t consumer, uint64_t token_floor,
                      int64_t now_us)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);

    if (c == NULL) {
        return;
    }
    if (!dbk_fault(DBK_FAULT_OLD_TOKENS_AFTER_REWIND)) {
        dbk_state_set_token_floor(state, consumer, token_floor);
    }
    for (uint32_t i = 1; i <= c->leases_used; i++) {
        struct dbk_lease *l = &c->leases[i];

        if (l->kind != DBK_LEASE_EVENT || l->token >= token_floor) {
            continue;
        }
        l->kept_token = dbk_lease_is_live(l, now_us) ? l->token : 0;
        l->attempt = 0;
        if (l->kept_token == 0 && !dbk_consumer_unresolved(state, c, l->slot)) {
            dbk_lease_remove(state, c, i);
        }
    }
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        c->acknowledged[entry] = 0;
        if (dbk_fault(DBK_FAULT_REWIND_LOSES_QUARANTINE)) {
            c->quarantined[entry] = 0;
        }
    }
    dbk_consumer_rebuild(state, c);
    refresh_all(state);
}
