/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory copied into a checkpoint, made again from it, and two memories compared (P): see image.h.
 * Threads: the caller's locks.
 */
#include "engines/log/image.h"

#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/memory.h"
#include "engines/log/state_impl.h"

enum { LEASE_RUNS = 1, LEASE_REFUNDED = 2 };

/* ---- copying out --------------------------------------------------------------------------------- */

static uint64_t chunk_count(const struct dbk_state *s)
{
    return s->directory_count - s->directory_dead;
}

static uint64_t lease_count(const struct dbk_consumer *c)
{
    uint64_t count = 0;

    for (uint32_t i = 1; i <= c->leases_used; i++) {
        count += c->leases[i].kind == DBK_LEASE_EVENT ? 1 : 0;
    }
    return count;
}

size_t dbk_state_image_bytes(const struct dbk_state *state)
{
    uint64_t orphans = 0;
    size_t bytes = dbk_section_bytes(DBK_SECTION_SEGMENTS, state->segment_count) +
                   dbk_section_bytes(DBK_SECTION_CONSUMERS, state->consumer_count) +
                   dbk_section_bytes(DBK_SECTION_CHUNKS, chunk_count(state)) +
                   dbk_section_bytes(DBK_SECTION_DAMAGED, state->damaged_count);

    for (uint32_t i = 0; i < state->consumer_count; i++) {
        const struct dbk_consumer *c = state->consumers[i];

        bytes += dbk_section_bytes(DBK_SECTION_DELIVERY, chunk_count(state)) +
                 dbk_section_bytes(DBK_SECTION_LEASES, lease_count(c));
        orphans += c->orphans;
    }
    return bytes + dbk_section_bytes(DBK_SECTION_ORPHANS, orphans);
}

static void put_leases(const struct dbk_consumer *c, struct dbk_image *image)
{
    for (uint32_t i = 1; i <= c->leases_used; i++) {
        const struct dbk_lease *l = &c->leases[i];
        uint8_t *p = NULL;

        if (l->kind != DBK_LEASE_EVENT) {
            continue;
        }
        p = dbk_image_entry(image);
        dbk_put_u64(p, l->position);
        dbk_put_u64(p + 8, l->token);
        dbk_put_u64(p + 16, l->kept_token);
        dbk_put_i64(p + 24, l->granted_at_us);
        dbk_put_i64(p + 32, l->expires_at_us);
        dbk_put_u32(p + 40, l->attempt);
        dbk_put_u32(p + 44, l->hand_outs);
        dbk_put_u32(p + 48, (l->phase != DBK_LEASE_OFF ? LEASE_RUNS : 0) |
                                (l->refunded != 0 ? LEASE_REFUNDED : 0));
    }
}

static void put_orphans(const struct dbk_state *s, struct dbk_image *image)
{
    dbk_image_section(image, DBK_SECTION_ORPHANS, 0);
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];

        for (uint32_t k = 1; c->orphans > 0 && k <= c->leases_used; k++) {
            if (c->leases[k].kind == DBK_LEASE_ORPHAN) {
                struct dbk_orphan orphan = dbk_orphan_of(s, c, &c->leases[k]);

                dbk_orphan_put(dbk_image_entry(image), &orphan);
            }
        }
    }
}

void dbk_state_image(const struct dbk_state *state, struct dbk_image *image)
{
    dbk_image_section(image, DBK_SECTION_SEGMENTS, 0);
    for (uint32_t i = 0; i < state->segment_count; i++) {
        uint8_t *p = dbk_image_entry(image);

        dbk_put_u64(p, state->segments[i].segment_no);
        dbk_put_u64(p + 8, state->segments[i].events);
    }
    dbk_image_section(image, DBK_SECTION_CONSUMERS, 0);
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        struct dbk_consumer_restated one;

        dbk_state_consumer_restate(state, i, &one);
        dbk_consumer_put(dbk_image_entry(image), &one);
    }
    dbk_image_section(image, DBK_SECTION_CHUNKS, 0);
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        if (state->chunk_ordinal[entry] != 0) {
            uint8_t *p = dbk_image_entry(image);

            dbk_put_u64(p, state->chunk_base[entry]);
            dbk_put_u64(p + 8, state->stored.level[0][entry]);
            dbk_put_u64(p + 16, state->delivered[entry]);
        }
    }
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        const struct dbk_consumer *c = state->consumers[i];

        dbk_image_section(image, DBK_SECTION_DELIVERY, c->id);
        for (uint32_t entry = 0; entry < state->directory_count; entry++) {
            if (state->chunk_ordinal[entry] != 0) {
                uint8_t *p = dbk_image_entry(image);

                dbk_put_u64(p, c->acknowledged[entry]);
                dbk_put_u64(p + 8, dbk_fault(DBK_FAULT_CHECKPOINT_LOSES_DISCARDS)
                                       ? 0
                                       : c->discarded[entry]);
                dbk_put_u64(p + 16, c->quarantined[entry]);
                dbk_put_u64(p + 24, c->handed[entry]);
            }
        }
        dbk_image_section(image, DBK_SECTION_LEASES, c->id);
        put_leases(c, image);
    }
    put_orphans(state, image);
}

void dbk_state_image_damaged(const struct dbk_state *state, struct dbk_image *image)
{
    dbk_image_section(image, DBK_SECTION_DAMAGED, 0);
    for (uint32_t entry = 0; state->damaged_count > 0 && entry < state->directory_count; entry++) {
        for (uint64_t word = state->damaged[entry]; word != 0; word &= word - 1) {
            dbk_put_u64(dbk_image_entry(image),
                        state->chunk_base[entry] + (uint64_t)__builtin_ctzll(word));
        }
    }
}

void dbk_state_image_journal(const struct dbk_state *state, struct dbk_checkpoint_journal *ret)
{
    ret->published_last = state->published_last;
    ret->counters = state->counters;
    ret->next_consumer_id = state->next_consumer_id;
}

/* ---- loading ------------------------------------------------------------------------------------- */

void dbk_loading_key_set(struct dbk_slot *slot, uint64_t key_hash)
{
    slot->key = 0;
    slot->next = (uint32_t)key_hash;
    slot->prev = (uint32_t)(key_hash >> 32);
}

static bool load_consumers(struct dbk_state *s, const struct dbk_checkpoint *checkpoint,
                           enum daybook_code *ret_code)
{
    const struct dbk_section *section =
        dbk_checkpoint_section(checkpoint, DBK_SECTION_CONSUMERS, 0);

    for (uint32_t i = 0; i < section->count; i++) {
        struct dbk_consumer_restated one;

        if (!dbk_consumer_get(dbk_section_entry(section, i), &one) || one.id == 0 ||
            dbk_consumer_find(s, one.id) != NULL || dbk_state_consumer_id(s, one.name) != 0) {
            *ret_code = DAYBOOK_DAMAGED;
            return false;
        }
        *ret_code = dbk_state_register(s, one.id, one.name, one.start);
        if (*ret_code != DAYBOOK_OK) {
            return false;
        }
        dbk_state_set_token_floor(s, one.id, one.token_floor);
    }
    return true;
}

static bool load_chunks(struct dbk_state *s, const struct dbk_checkpoint *checkpoint,
                        uint64_t published_last)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, DBK_SECTION_CHUNKS, 0);
    uint64_t least = 0;

    for (uint64_t i = 0; i < section->count; i++) {
        const uint8_t *p = dbk_section_entry(section, i);
        uint64_t base = dbk_get_u64(p);
        uint64_t stored = dbk_get_u64(p + 8);
        uint64_t delivered = dbk_get_u64(p + 16);
        uint32_t entry = 0;

        s->stored_count += (uint64_t)__builtin_popcountll(stored);
        if (base < least || base % DBK_CHUNK_EVENTS != 0 || stored == 0 ||
            (delivered & ~stored) != 0 || base > UINT64_MAX - DBK_CHUNK_EVENTS ||
            base + 63 - (uint64_t)__builtin_clzll(stored) > published_last ||
            s->stored_count > s->options.stored_max) {
            return false;
        }
        least = base + DBK_CHUNK_EVENTS;
        entry = dbk_chunk_new(s, base);
        dbk_bits_put(&s->stored, entry, stored);
        s->delivered[entry] = delivered;
    }
    return true;
}

static bool load_delivery(struct dbk_state *s, const struct dbk_checkpoint *checkpoint, uint32_t i)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, DBK_SECTION_DELIVERY, i);
    struct dbk_consumer *c = s->consumers[i];

    for (uint32_t entry = 0; entry < section->count; entry++) {
        const uint8_t *p = dbk_section_entry(section, entry);
        uint64_t may = s->stored.level[0][entry] & ~dbk_consumer_below(c, s->chunk_base[entry]);

        c->acknowledged[entry] = dbk_get_u64(p);
        c->discarded[entry] = dbk_get_u64(p + 8);
        c->quarantined[entry] = dbk_get_u64(p + 16);
        c->handed[entry] = dbk_get_u64(p + 24);
        if (((c->acknowledged[entry] | c->discarded[entry] | c->quarantined[entry] |
              c->handed[entry]) &
             ~may) != 0 ||
            ((c->acknowledged[entry] & (c->discarded[entry] | c->quarantined[entry])) |
             (c->discarded[entry] & c->quarantined[entry])) != 0) {
            return false;
        }
    }
    return true;
}

static bool load_leases(struct dbk_state *s, const struct dbk_checkpoint *checkpoint, uint32_t i)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, DBK_SECTION_LEASES, i);
    struct dbk_consumer *c = s->consumers[i];

    for (uint64_t k = 0; k < section->count; k++) {
        const uint8_t *p = dbk_section_entry(section, k);
        uint64_t position = dbk_get_u64(p);
        uint32_t flags = dbk_get_u32(p + 48);
        uint32_t slot = dbk_slot_find(s, position);
        uint32_t lease = 0;

        if (slot == 0 || c->lease_of[slot] != 0 || flags > (LEASE_RUNS | LEASE_REFUNDED)) {
            return false;
        }
        lease = dbk_lease_add(s, c, DBK_LEASE_EVENT, 0, slot, position);
        c->leases[lease].token = dbk_get_u64(p + 8);
        c->leases[lease].kept_token = dbk_get_u64(p + 16);
        c->leases[lease].granted_at_us = dbk_get_i64(p + 24);
        c->leases[lease].expires_at_us = dbk_get_i64(p + 32);
        c->leases[lease].attempt = dbk_get_u32(p + 40);
        c->leases[lease].hand_outs = dbk_get_u32(p + 44);
        c->leases[lease].refunded = (flags & LEASE_REFUNDED) != 0;
        if ((flags & LEASE_RUNS) != 0) {
            dbk_lease_run(s, c, lease, dbk_get_i64(p + 24), dbk_get_i64(p + 32));
        }
    }
    return true;
}

static void load_damaged(struct dbk_state *s, const struct dbk_checkpoint *checkpoint)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, DBK_SECTION_DAMAGED, 0);

    for (uint64_t i = 0; i < section->count; i++) {
        dbk_state_mark_damaged(s, dbk_get_u64(dbk_section_entry(section, i)));
    }
}

enum daybook_code dbk_state_load_begin(struct dbk_state *state,
                                       const struct dbk_checkpoint *checkpoint)
{
    const struct dbk_section *orphans = dbk_checkpoint_section(checkpoint, DBK_SECTION_ORPHANS, 0);
    struct dbk_checkpoint_journal journal = dbk_checkpoint_journal_get(
        dbk_section_entry(dbk_checkpoint_section(checkpoint, DBK_SECTION_JOURNAL, 0), 0));
    enum daybook_code code = DAYBOOK_DAMAGED;
    uint64_t forgotten = 0;

    dbk_assert(state->placed == NULL && state->directory_count == 0);
    state->placed = dbk_reserve(state->directory_max * sizeof *state->placed);
    if (state->placed == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    if (!load_consumers(state, checkpoint, &code)) {
        return code;
    }
    if (!load_chunks(state, checkpoint, journal.published_last)) {
        return DAYBOOK_DAMAGED;
    }
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        if (!load_delivery(state, checkpoint, i) || !load_leases(state, checkpoint, i)) {
            return DAYBOOK_DAMAGED;
        }
    }
    for (uint64_t i = 0; i < orphans->count; i++) {
        struct dbk_orphan orphan = dbk_orphan_get(dbk_section_entry(orphans, i));

        dbk_state_apply_orphan(state, &orphan);
    }
    load_damaged(state, checkpoint);
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        dbk_chunk_refresh(state, entry);
    }
    state->published_last = journal.published_last;
    state->counters = journal.counters;
    dbk_state_set_next_consumer_id(state, journal.next_consumer_id);
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        forgotten += journal.counters.forgotten[i];
    }
    return journal.counters.accepted == state->stored_count + forgotten ? DAYBOOK_OK
                                                                        : DAYBOOK_DAMAGED;
}

void dbk_state_load_place(struct dbk_state *state, const struct dbk_event_meta *meta)
{
    uint32_t slot = dbk_slot_find(state, meta->position);
    uint32_t entry = 0;
    uint64_t mask = 0;

    if (slot == 0) {
        return;
    }
    entry = dbk_slot_entry(state, slot);
    mask = dbk_slot_mask(slot);
    if ((state->placed[entry] & mask) != 0) {
        dbk_place_leave(state, slot); /* the later place wins */
        dbk_place_set(state, slot, meta->place);
        return;
    }
    dbk_slot_fill(state, slot, meta);
    dbk_loading_key_set(&state->slots[slot], meta->key_hash);
    state->placed[entry] |= mask;
}

/* Enters the events of a chunk into the indexes, in order of position. The tables are larger than the
 * processor's caches: it is told ahead what will be looked at. */
static void index_chunk(struct dbk_state *s, uint32_t entry)
{
    uint32_t first = s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS;
    uint64_t stored = s->stored.level[0][entry];
    int64_t least = INT64_MAX;

    for (uint64_t word = stored; word != 0; word &= word - 1) {
        const struct dbk_slot *e = &s->slots[first + (uint32_t)__builtin_ctzll(word)];

        dbk_state_prefetch_id(s, e->id_hash);
        dbk_state_prefetch_key(s, (uint64_t)e->prev << 32 | e->next);
    }
    for (uint64_t word = stored; word != 0; word &= word - 1) {
        const struct dbk_slot *e = &s->slots[first + (uint32_t)__builtin_ctzll(word)];
        uint64_t hash = (uint64_t)e->prev << 32 | e->next;

        __builtin_prefetch(&s->keys[s->key_buckets[dbk_bucket(hash, s->key_bucket_count)]], 1);
    }
    for (uint64_t word = stored; word != 0; word &= word - 1) {
        uint32_t slot = first + (uint32_t)__builtin_ctzll(word);
        struct dbk_slot *e = &s->slots[slot];
        uint32_t key = dbk_key_get(s, (uint64_t)e->prev << 32 | e->next);

        dbk_assert(key != 0);
        dbk_id_link(s, e->id_hash, slot);
        dbk_key_append(s, key, slot);
        least = e->observed_at_us < least ? e->observed_at_us : least;
    }
    s->observed_min[entry] = least;
}

bool dbk_state_load_end(struct dbk_state *state, uint64_t *ret_position)
{
    uint64_t *placed = state->placed;

    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        uint64_t missing = state->stored.level[0][entry] & ~placed[entry];

        if (missing != 0) {
            *ret_position = state->chunk_base[entry] + (uint64_t)__builtin_ctzll(missing);
            return false;
        }
    }
    for (uint32_t entry = 0; entry < state->directory_count; entry++) {
        if (state->chunk_ordinal[entry] != 0) {
            index_chunk(state, entry);
        }
    }
    state->placed = NULL;
    dbk_unreserve(placed, state->directory_max * sizeof *placed);
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        struct dbk_consumer *c = state->consumers[i];

        for (uint32_t k = 1; k <= c->leases_used; k++) {
            if (c->leases[k].kind == DBK_LEASE_EVENT) {
                dbk_lease_rekey(c, k, state->slots[c->leases[k].slot].key);
            }
        }
        dbk_consumer_rebuild(state, c);
    }
    return true;
}

/* ---- comparing ------------------------------------------------------------------------------------ */

static bool leases_differ(const struct dbk_lease *a, const struct dbk_lease *b)
{
    bool runs = a->phase != DBK_LEASE_OFF;

    return a->token != b->token || a->kept_token != b->kept_token || a->attempt != b->attempt ||
           a->hand_outs != b->hand_outs || a->refunded != b->refunded ||
           runs != (b->phase != DBK_LEASE_OFF) ||
           (runs && (a->granted_at_us != b->granted_at_us || a->expires_at_us != b->expires_at_us));
}

static const char *slots_differ(const struct dbk_state *a, uint32_t slot_a,
                                const struct dbk_state *b, uint32_t slot_b)
{
    const struct dbk_slot *x = &a->slots[slot_a];
    const struct dbk_slot *y = &b->slots[slot_b];
    uint64_t delivered_a = a->delivered[dbk_slot_entry(a, slot_a)] & dbk_slot_mask(slot_a);
    uint64_t delivered_b = b->delivered[dbk_slot_entry(b, slot_b)] & dbk_slot_mask(slot_b);

    if (x->segment_no != y->segment_no || x->offset != y->offset) {
        return "the place of an event";
    }
    if (x->id_hash != y->id_hash || dbk_key_hash(a, x->key) != dbk_key_hash(b, y->key)) {
        return "the identity or the key of an event";
    }
    if (x->sizes != y->sizes || x->observed_at_us != y->observed_at_us ||
        x->accepted_at_us != y->accepted_at_us) {
        return "the sizes, row version or times of an event";
    }
    return (delivered_a != 0) == (delivered_b != 0) ? NULL : "whether an event was once delivered";
}

static const char *standings_differ(const struct dbk_state *a, uint32_t slot_a,
                                    const struct dbk_state *b, uint32_t slot_b)
{
    uint32_t entry_a = dbk_slot_entry(a, slot_a);
    uint32_t entry_b = dbk_slot_entry(b, slot_b);
    unsigned bit_a = slot_a % DBK_CHUNK_EVENTS;

    for (uint32_t i = 0; i < a->consumer_count; i++) {
        const struct dbk_consumer *c = a->consumers[i];
        const struct dbk_consumer *d = b->consumers[i];

        if ((((c->acknowledged[entry_a] ^ d->acknowledged[entry_b]) |
              (c->discarded[entry_a] ^ d->discarded[entry_b]) |
              (c->quarantined[entry_a] ^ d->quarantined[entry_b])) >>
                 bit_a &
             1) != 0) {
            return "a verdict";
        }
        if (((c->handed[entry_a] ^ d->handed[entry_b]) >> bit_a & 1) != 0) {
            return "whether an event was handed out";
        }
        if ((c->lease_of[slot_a] == 0) != (d->lease_of[slot_b] == 0) ||
            leases_differ(&c->leases[c->lease_of[slot_a]], &d->leases[d->lease_of[slot_b]])) {
            return "a lease";
        }
    }
    return NULL;
}

static const char *consumers_differ(const struct dbk_state *a, const struct dbk_state *b)
{
    if (a->consumer_count != b->consumer_count || a->next_consumer_id != b->next_consumer_id) {
        return "the number of consumers";
    }
    for (uint32_t i = 0; i < a->consumer_count; i++) {
        const struct dbk_consumer *c = a->consumers[i];
        const struct dbk_consumer *d = b->consumers[i];

        if (c->id != d->id || strcmp(c->name, d->name) != 0 || c->start != d->start ||
            c->start_time_us != d->start_time_us || c->token_floor != d->token_floor) {
            return "a consumer";
        }
    }
    return NULL;
}

/* Whether each lease of a dropped event that is live in `a` stands in `b` too. */
static bool orphans_stand(const struct dbk_state *a, const struct dbk_state *b, int64_t now_us,
                          uint64_t *ret_position)
{
    for (uint32_t i = 0; i < a->consumer_count; i++) {
        const struct dbk_consumer *c = a->consumers[i];
        const struct dbk_consumer *d = b->consumers[i];

        for (uint32_t k = 1; c->orphans > 0 && k <= c->leases_used; k++) {
            const struct dbk_lease *l = &c->leases[k];
            uint32_t other = 0;

            if (l->kind != DBK_LEASE_ORPHAN || !dbk_lease_is_live(l, now_us)) {
                continue;
            }
            other = dbk_orphan_find(d, l->position);
            if (other == 0 || d->leases[other].token != l->token ||
                d->leases[other].expires_at_us != l->expires_at_us ||
                dbk_key_hash(b, d->leases[other].key) != dbk_key_hash(a, l->key)) {
                *ret_position = l->position;
                return false;
            }
        }
    }
    return true;
}

const char *dbk_state_differs(const struct dbk_state *a, const struct dbk_state *b, int64_t now_us,
                              uint64_t *ret_position)
{
    const char *wrong = consumers_differ(a, b);
    uint64_t at = 0;
    uint64_t bit = dbk_bits_next(&a->stored, 0);

    *ret_position = 0;
    if (wrong != NULL) {
        return wrong;
    }
    if (a->stored_count != b->stored_count || a->stored_bytes != b->stored_bytes ||
        memcmp(&a->counters, &b->counters, sizeof a->counters) != 0) {
        return "a counter";
    }
    for (; bit != DBK_BITS_NONE; bit = dbk_bits_next(&a->stored, bit + 1)) {
        uint32_t slot_a = dbk_bit_slot(a, bit);
        uint32_t slot_b = 0;

        at = dbk_slot_position(a, slot_a);
        slot_b = dbk_slot_find(b, at);
        *ret_position = at;
        if (slot_b == 0) {
            return "what is stored";
        }
        wrong = slots_differ(a, slot_a, b, slot_b);
        wrong = wrong == NULL ? standings_differ(a, slot_a, b, slot_b) : wrong;
        if (wrong != NULL) {
            return wrong;
        }
    }
    if (!orphans_stand(a, b, now_us, ret_position) || !orphans_stand(b, a, now_us, ret_position)) {
        return "the lease of a dropped event";
    }
    *ret_position = 0;
    return NULL;
}
