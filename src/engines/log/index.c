/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two indexes (P): id hash to stored or staged event, and ordering key to its list of events.
 * Chained: a bucket holds the first reference, each slot, staged number or key the next one; so
 * nothing ever moves. A reference is a slot, or DBK_REF_STAGED with a staged number + 1; 0 ends a
 * chain. Equal hashes of different ids both stand in the chain: the caller compares the ids.
 *
 * Threads: ids under the stage lock, keys under the state lock.
 */
#include "engines/log/state_impl.h"

#define CURSOR_END UINT32_MAX

static uint32_t *id_next(const struct dbk_state *s, uint32_t ref)
{
    if ((ref & DBK_REF_STAGED) != 0) {
        return &s->staged_next[(ref & ~DBK_REF_STAGED) - 1];
    }
    return &s->slots[ref].id_next;
}

static uint64_t id_hash_of(const struct dbk_state *s, uint32_t ref)
{
    if ((ref & DBK_REF_STAGED) != 0) {
        return s->staged_hash[(ref & ~DBK_REF_STAGED) - 1];
    }
    return s->slots[ref].id_hash;
}

void dbk_state_prefetch_id(const struct dbk_state *state, uint64_t id_hash)
{
    __builtin_prefetch(&state->id_buckets[dbk_bucket(id_hash, state->id_bucket_count)], 1);
}

void dbk_state_prefetch_key(const struct dbk_state *state, uint64_t key_hash)
{
    __builtin_prefetch(&state->key_buckets[dbk_bucket(key_hash, state->key_bucket_count)], 1);
}

void dbk_state_prefetch_chain(const struct dbk_state *state, uint64_t id_hash)
{
    uint32_t ref = state->id_buckets[dbk_bucket(id_hash, state->id_bucket_count)];

    if (ref != 0 && (ref & DBK_REF_STAGED) == 0) {
        __builtin_prefetch(&state->slots[ref].id_hash);
    }
}

void dbk_state_prefetch_list(const struct dbk_state *state, uint64_t key_hash)
{
    uint32_t key = state->key_buckets[dbk_bucket(key_hash, state->key_bucket_count)];

    __builtin_prefetch(&state->keys[key], 1); /* entry 0 is nobody's */
}

void dbk_id_link(struct dbk_state *s, uint64_t id_hash, uint32_t ref)
{
    uint32_t *bucket = &s->id_buckets[dbk_bucket(id_hash, s->id_bucket_count)];

    *id_next(s, ref) = *bucket;
    *bucket = ref;
}

void dbk_id_unlink(struct dbk_state *s, uint64_t id_hash, uint32_t ref)
{
    uint32_t *at = &s->id_buckets[dbk_bucket(id_hash, s->id_bucket_count)];

    while (*at != ref) {
        dbk_assert(*at != 0);
        at = id_next(s, *at);
    }
    *at = *id_next(s, ref);
}

bool dbk_state_id_find(const struct dbk_state *state, uint64_t id_hash, uint32_t *cursor,
                       struct dbk_id_match *ret)
{
    uint32_t ref = *cursor;

    if (ref == CURSOR_END) {
        return false;
    }
    if (ref == 0) {
        ref = state->id_buckets[dbk_bucket(id_hash, state->id_bucket_count)];
    }
    while (ref != 0 && id_hash_of(state, ref) != id_hash) {
        ref = *id_next(state, ref);
    }
    *cursor = CURSOR_END;
    if (ref == 0) {
        return false;
    }
    if (*id_next(state, ref) != 0) {
        *cursor = *id_next(state, ref);
    }
    *ret = (struct dbk_id_match){.staged = (ref & DBK_REF_STAGED) != 0};
    if (ret->staged) {
        ret->staged_no = (ref & ~DBK_REF_STAGED) - 1;
    } else {
        ret->position = dbk_slot_position(state, ref);
        ret->place = dbk_slot_place(&state->slots[ref]);
        ret->row_version = dbk_slot_row_version(&state->slots[ref]);
    }
    return true;
}

void dbk_state_id_stage(struct dbk_state *state, uint64_t id_hash, uint32_t staged_no)
{
    dbk_assert(staged_no < state->options.staged_max);
    state->staged_hash[staged_no] = id_hash;
    dbk_id_link(state, id_hash, DBK_REF_STAGED | (staged_no + 1));
}

void dbk_state_id_unstage(struct dbk_state *state, uint64_t id_hash, uint32_t staged_no)
{
    dbk_assert(staged_no < state->options.staged_max);
    dbk_id_unlink(state, id_hash, DBK_REF_STAGED | (staged_no + 1));
}

uint64_t dbk_key_hash(const struct dbk_state *s, uint32_t key)
{
    return (uint64_t)s->keys[key].hash_high << 32 | s->keys[key].hash_low;
}

uint32_t dbk_key_find(const struct dbk_state *s, uint64_t key_hash)
{
    uint32_t key = s->key_buckets[dbk_bucket(key_hash, s->key_bucket_count)];

    while (key != 0 && dbk_key_hash(s, key) != key_hash) {
        key = s->keys[key].bucket_next;
    }
    return key;
}

uint32_t dbk_key_get(struct dbk_state *s, uint64_t key_hash)
{
    uint32_t key = dbk_key_find(s, key_hash);
    uint32_t *bucket = &s->key_buckets[dbk_bucket(key_hash, s->key_bucket_count)];

    if (key != 0) {
        return key;
    }
    key = s->key_free;
    if (key != 0) {
        s->key_free = s->keys[key].bucket_next;
    } else if (s->keys_used < s->keys_max) {
        key = ++s->keys_used;
    } else {
        return 0;
    }
    s->keys[key] = (struct dbk_key){.hash_low = (uint32_t)key_hash,
                                    .hash_high = (uint32_t)(key_hash >> 32),
                                    .bucket_next = *bucket};
    *bucket = key;
    s->keys_empty++;
    return key;
}

void dbk_key_append(struct dbk_state *s, uint32_t key, uint32_t slot)
{
    struct dbk_key *k = &s->keys[key];

    s->slots[slot].key = key;
    s->slots[slot].next = 0;
    s->slots[slot].prev = k->last;
    if (k->last != 0) {
        s->slots[k->last].next = slot;
    } else {
        k->first = slot;
        s->keys_empty--;
    }
    k->last = slot;
}

void dbk_key_remove(struct dbk_state *s, uint32_t slot)
{
    struct dbk_slot *e = &s->slots[slot];
    struct dbk_key *k = &s->keys[e->key];

    if (e->prev != 0) {
        s->slots[e->prev].next = e->next;
    } else {
        k->first = e->next;
    }
    if (e->next != 0) {
        s->slots[e->next].prev = e->prev;
    } else {
        k->last = e->prev;
    }
    if (k->first == 0) {
        s->keys_empty++;
    }
}

void dbk_key_release(struct dbk_state *s, uint32_t key)
{
    struct dbk_key *k = &s->keys[key];
    uint32_t *at = &s->key_buckets[dbk_bucket(dbk_key_hash(s, key), s->key_bucket_count)];

    if (key == 0 || k->first != 0) {
        return;
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];
        uint32_t hold = dbk_hold_find(c, key);

        if (hold != 0) {
            dbk_lease_remove(s, c, hold);
        }
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];

        if (c->keys[key].next != 0 || c->keys[key].leases != 0) {
            return;
        }
    }
    while (*at != key) {
        dbk_assert(*at != 0);
        at = &s->keys[*at].bucket_next;
    }
    *at = k->bucket_next;
    *k = (struct dbk_key){.bucket_next = s->key_free};
    s->key_free = key;
    s->keys_empty--;
}
