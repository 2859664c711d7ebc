/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit (P): everything that is derived, counted anew from what it is derived from. Returns the
 * first difference as a static text; changes nothing.
 *
 * Threads: the caller's state and stage locks.
 */
#include "engines/log/state_impl.h"

struct recount {
    uint64_t stored;
    uint64_t bytes;
    uint64_t newer;
    uint64_t damaged;
    uint64_t givable;
    uint64_t droppable;
};

static const char *audit_bits(const struct dbk_bits *bits, uint32_t used)
{
    for (unsigned i = 0; i < DBK_BITS_LEVELS - 1; i++) {
        uint64_t words = used;

        for (unsigned k = 0; k < i; k++) {
            words = (words + 63) / 64;
        }
        for (uint64_t w = 0; w < words; w++) {
            bool said = (bits->level[i + 1][w / 64] >> (w % 64) & 1) != 0;

            if (said != (bits->level[i][w] != 0)) {
                return "a summary bit differs from its word";
            }
        }
    }
    return dbk_bits_next(bits, (uint64_t)used * DBK_CHUNK_EVENTS) == DBK_BITS_NONE
               ? NULL
               : "a bit stands behind the directory";
}

static const char *audit_chunk(const struct dbk_state *s, uint32_t entry, struct recount *n)
{
    uint64_t stored = s->stored.level[0][entry];
    uint64_t resolved = s->consumer_count == 0 ? 0 : stored;
    uint64_t quarantined = 0;
    uint64_t discarded = 0;

    if (stored == 0 || s->chunk_entry[s->chunk_ordinal[entry]] != entry) {
        return "an empty chunk, or one that does not know its place";
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];
        uint64_t below = dbk_consumer_below(c, s->chunk_base[entry]);

        resolved &= below | c->acknowledged[entry] | c->discarded[entry];
        quarantined |= c->quarantined[entry];
        discarded |= c->discarded[entry];
        if (((c->acknowledged[entry] & c->discarded[entry]) |
             (c->acknowledged[entry] & c->quarantined[entry]) |
             (c->discarded[entry] & c->quarantined[entry])) != 0) {
            return "an event is resolved in two ways";
        }
        if (((c->acknowledged[entry] | c->discarded[entry] | c->quarantined[entry] |
              c->handed[entry]) &
             (below | ~stored)) != 0) {
            return "a consumer's bit stands where no event counts for it";
        }
    }
    if ((resolved & ~s->delivered[entry]) != 0 || (s->delivered[entry] & ~stored) != 0) {
        return "delivered differs";
    }
    if (s->givable.level[0][entry] != (s->delivered[entry] & ~quarantined) ||
        s->droppable.level[0][entry] != (stored & ~quarantined) ||
        s->prunable.level[0][entry] != (s->delivered[entry] & ~quarantined & resolved) ||
        s->ended.level[0][entry] != (resolved & discarded)) {
        return "givable, droppable, prunable or ended differs";
    }
    if (((s->newer[entry] | s->damaged[entry]) & ~stored) != 0) {
        return "a flag stands without its event";
    }
    n->stored += (uint64_t)__builtin_popcountll(stored);
    n->newer += (uint64_t)__builtin_popcountll(s->newer[entry]);
    n->damaged += (uint64_t)__builtin_popcountll(s->damaged[entry]);
    n->givable += (uint64_t)__builtin_popcountll(s->givable.level[0][entry]);
    n->droppable += (uint64_t)__builtin_popcountll(s->droppable.level[0][entry]);
    return NULL;
}

static bool id_is_linked(const struct dbk_state *s, uint32_t slot)
{
    uint32_t ref = s->id_buckets[dbk_bucket(s->slots[slot].id_hash, s->id_bucket_count)];

    while (ref != 0 && ref != slot) {
        ref = (ref & DBK_REF_STAGED) != 0 ? s->staged_next[(ref & ~DBK_REF_STAGED) - 1]
                                          : s->slots[ref].id_next;
    }
    return ref == slot;
}

/* Slots against key lists, index, minima. */
static const char *audit_slots(const struct dbk_state *s, uint32_t entry, struct recount *n)
{
    int64_t least = INT64_MAX;

    for (uint64_t word = s->stored.level[0][entry]; word != 0; word &= word - 1) {
        uint32_t slot =
            s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(word);
        const struct dbk_slot *e = &s->slots[slot];
        const struct dbk_key *k = &s->keys[e->key];

        n->bytes += dbk_slot_payload(e);
        least = e->observed_at_us < least ? e->observed_at_us : least;
        if (e->key == 0 || (e->prev == 0 ? k->first : s->slots[e->prev].next) != slot ||
            (e->next == 0 ? k->last : s->slots[e->next].prev) != slot) {
            return "a key list is broken";
        }
        if (e->prev != 0 && dbk_slot_position(s, e->prev) >= dbk_slot_position(s, slot)) {
            return "a key list is out of order";
        }
        if (dbk_key_find(s, dbk_key_hash(s, e->key)) != e->key) {
            return "a key is not in its index";
        }
        if (!id_is_linked(s, slot)) {
            return "an id is not in its index";
        }
    }
    if (s->observed_min[entry] != DBK_OBSERVED_DIRTY && s->observed_min[entry] != least) {
        return "the oldest observation of a chunk differs";
    }
    return NULL;
}

static const char *audit_consumer_slot(const struct dbk_state *s, const struct dbk_consumer *c,
                                       uint32_t slot)
{
    const struct dbk_slot *e = &s->slots[slot];
    uint32_t next = c->keys[e->key].next & ~DBK_KEY_RESERVED;
    bool unresolved = dbk_consumer_unresolved(s, c, slot);
    bool first = unresolved;
    bool eligible = (c->eligible.level[0][dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) != 0;
    uint32_t lease = c->lease_of[slot];

    for (uint32_t at = e->prev; first && at != 0; at = s->slots[at].prev) {
        first = !dbk_consumer_unresolved(s, c, at);
    }
    if (first != (next == slot)) {
        return "a key's next is not its oldest unresolved event";
    }
    if (eligible !=
        (first && (c->keys[e->key].next & DBK_KEY_RESERVED) == 0 && !dbk_slot_newer(s, slot) &&
         !dbk_key_busy(c, e->key, DBK_BUSY_LEASED_OR_HELD))) {
        return "an eligible bit differs";
    }
    if (lease != 0) {
        const struct dbk_lease *l = &c->leases[lease];

        if (l->kind != DBK_LEASE_EVENT || l->slot != slot || l->key != e->key ||
            l->position != dbk_slot_position(s, slot)) {
            return "a lease speaks of another event";
        }
        if (!unresolved && (l->phase != DBK_LEASE_OFF || l->kept_token == 0)) {
            return "a resolved event has a lease";
        }
    }
    return NULL;
}

static const char *audit_leases(const struct dbk_state *s, const struct dbk_consumer *c)
{
    uint32_t orphans = 0;
    uint32_t holds = 0;
    uint32_t in_flight = 0;
    uint32_t in_heaps[4] = {0};

    for (uint32_t i = 1; i <= c->leases_used; i++) {
        const struct dbk_lease *l = &c->leases[i];
        bool live = dbk_lease_is_live(l, c->clock_us);

        if (l->kind == DBK_LEASE_FREE) {
            continue;
        }
        orphans += l->kind == DBK_LEASE_ORPHAN ? 1 : 0;
        holds += l->kind == DBK_LEASE_HOLD ? 1 : 0;
        in_flight += l->kind == DBK_LEASE_EVENT && live ? 1 : 0;
        in_heaps[l->phase]++;
        if (live != (l->phase == DBK_LEASE_LIVE)) {
            return "a lease is not what it is at the clock";
        }
        if (live && c->leases[c->keys[l->key].leases].phase != DBK_LEASE_LIVE) {
            return "a live lease does not keep its key busy";
        }
        if (c->leases[l->ring_next].ring_prev != i || c->leases[l->ring_prev].ring_next != i) {
            return "a ring of leases is broken";
        }
        if (l->kind == DBK_LEASE_EVENT && c->lease_of[l->slot] != i) {
            return "an event does not know its lease";
        }
        if (dbk_key_find(s, dbk_key_hash(s, l->key)) != l->key) {
            return "a lease is of a key that is gone";
        }
    }
    if (orphans != c->orphans || holds != c->holds || in_flight != c->in_flight ||
        in_heaps[DBK_LEASE_LIVE] != c->heaps[DBK_HEAP_LIVE_EXPIRY].count ||
        in_heaps[DBK_LEASE_LIVE] != c->heaps[DBK_HEAP_LIVE_GRANT].count ||
        in_heaps[DBK_LEASE_EXPIRED] != c->heaps[DBK_HEAP_EXPIRED].count ||
        in_heaps[DBK_LEASE_AHEAD] != c->heaps[DBK_HEAP_AHEAD].count) {
        return "the number of leases differs";
    }
    return NULL;
}

static const char *audit_consumer(const struct dbk_state *s, const struct dbk_consumer *c)
{
    for (uint32_t entry = 0; entry < s->directory_count; entry++) {
        int64_t least = INT64_MAX;

        if (c->scratch[entry] != 0) {
            return "scratch words were left";
        }
        for (uint64_t word = s->stored.level[0][entry]; word != 0; word &= word - 1) {
            uint32_t slot =
                s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)__builtin_ctzll(word);
            const char *wrong = audit_consumer_slot(s, c, slot);

            if (wrong != NULL) {
                return wrong;
            }
            if (dbk_consumer_unresolved(s, c, slot) && s->slots[slot].observed_at_us < least) {
                least = s->slots[slot].observed_at_us;
            }
        }
        if (c->observed_min[entry] != DBK_OBSERVED_DIRTY && c->observed_min[entry] != least) {
            return "the oldest unresolved observation of a chunk differs";
        }
    }
    return audit_leases(s, c);
}

static const char *audit_totals(const struct dbk_state *s, const struct recount *n)
{
    uint64_t forgotten = 0;
    uint64_t in_segments = 0;

    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        forgotten += s->counters.forgotten[i];
    }
    for (uint32_t i = 0; i < s->segment_count; i++) {
        in_segments += s->segments[i].events;
    }
    if (n->stored != s->stored_count || n->bytes != s->stored_bytes || n->newer != s->newer_count ||
        n->damaged != s->damaged_count || n->givable != s->givable_count ||
        n->droppable != s->droppable_count || in_segments != n->stored) {
        return "a total differs";
    }
    if (atomic_load(&s->room.stored) != n->stored || atomic_load(&s->room.givable) != n->givable ||
        atomic_load(&s->room.droppable) != n->droppable) {
        return "the room differs";
    }
    if (s->counters.accepted != n->stored + forgotten) {
        return "accepted is not stored and forgotten (S5)";
    }
    return NULL;
}

static bool key_is_awaited(const struct dbk_state *s, uint32_t key)
{
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_key_view *view = &s->consumers[i]->keys[key];

        if (view->leases != 0 || view->next == DBK_KEY_RESERVED) {
            return true;
        }
    }
    return false;
}

const char *dbk_state_audit(const struct dbk_state *state)
{
    const struct dbk_bits *trees[] = {&state->stored, &state->givable, &state->droppable,
                                      &state->prunable, &state->ended};
    struct recount n = {0};
    const char *wrong = NULL;
    uint32_t dead = 0;
    uint32_t keys_empty = 0;

    for (size_t i = 0; wrong == NULL && i < sizeof trees / sizeof trees[0]; i++) {
        wrong = audit_bits(trees[i], state->directory_count);
    }
    for (uint32_t entry = 0; wrong == NULL && entry < state->directory_count; entry++) {
        if (entry > 0 && state->chunk_base[entry - 1] >= state->chunk_base[entry]) {
            return "the directory is out of order";
        }
        if (state->chunk_ordinal[entry] == 0) {
            dead++;
            wrong = state->stored.level[0][entry] == 0 ? NULL : "a tombstone holds events";
            continue;
        }
        wrong = audit_chunk(state, entry, &n);
        wrong = wrong == NULL ? audit_slots(state, entry, &n) : wrong;
    }
    for (uint32_t i = 0; wrong == NULL && i < state->consumer_count; i++) {
        wrong = audit_bits(&state->consumers[i]->eligible, state->directory_count);
        wrong = wrong == NULL ? audit_consumer(state, state->consumers[i]) : wrong;
    }
    for (uint32_t key = 1; key <= state->keys_used; key++) {
        if (state->keys[key].first != 0 || dbk_key_find(state, dbk_key_hash(state, key)) != key) {
            continue; /* it has events, or is free */
        }
        keys_empty++;
        if (wrong == NULL && !key_is_awaited(state, key)) {
            wrong = "a key without an event is kept for nobody";
        }
    }
    if (wrong == NULL && (dead != state->directory_dead || keys_empty != state->keys_empty)) {
        wrong = "the number of tombstones or of keys without an event differs";
    }
    return wrong == NULL ? audit_totals(state, &n) : wrong;
}
