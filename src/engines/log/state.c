/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots, chunks and their directory (P): where each stored event stands, and how it comes and goes.
 * Threads: the caller's locks, as state.h says.
 */
#include "engines/log/state_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "engines/log/image.h"

/* Tombstones that a directory may have whatever its size, so that small ones are not always moved. */
#define DIRECTORY_DEAD_FREE 16u
/* In a full index: 2 B an event for each of the two, against one more step of a look-up with 1. */
#define ENTRIES_PER_BUCKET 2u
/* Above it slot numbers would not fit beside DBK_REF_STAGED. */
#define CHUNKS_LIMIT (UINT32_C(1) << 25)

void *dbk_carve(struct dbk_carver *carver, uint64_t count, size_t size)
{
    size_t at = (carver->used + 63) / 64 * 64;

    carver->used = at + (size_t)count * size;
    return carver->base == NULL ? NULL : carver->base + at;
}

static void carve_bits(struct dbk_carver *carver, struct dbk_bits *bits, uint64_t words)
{
    uint64_t *memory = dbk_carve(carver, dbk_bits_size(words), sizeof(uint64_t));

    if (memory != NULL) {
        dbk_bits_init(bits, memory, words);
    }
}

/* Lays out every table; with a NULL base only their size is found. */
static void carve_state(struct dbk_state *s, struct dbk_carver *carver)
{
    uint64_t entries = s->directory_max;
    uint64_t ordinals = (uint64_t)s->chunks_max + 1;

    s->slots = dbk_carve(carver, ordinals * DBK_CHUNK_EVENTS, sizeof *s->slots);
    s->chunk_entry = dbk_carve(carver, ordinals, sizeof *s->chunk_entry);
    s->chunk_base = dbk_carve(carver, entries, sizeof *s->chunk_base);
    s->chunk_ordinal = dbk_carve(carver, entries, sizeof *s->chunk_ordinal);
    carve_bits(carver, &s->stored, entries);
    carve_bits(carver, &s->givable, entries);
    carve_bits(carver, &s->droppable, entries);
    carve_bits(carver, &s->prunable, entries);
    carve_bits(carver, &s->ended, entries);
    s->delivered = dbk_carve(carver, entries, sizeof *s->delivered);
    s->newer = dbk_carve(carver, entries, sizeof *s->newer);
    s->damaged = dbk_carve(carver, entries, sizeof *s->damaged);
    s->observed_min = dbk_carve(carver, entries, sizeof *s->observed_min);
    s->id_buckets = dbk_carve(carver, s->id_bucket_count, sizeof *s->id_buckets);
    s->staged_next = dbk_carve(carver, (uint64_t)s->options.staged_max + 1, sizeof *s->staged_next);
    s->staged_hash = dbk_carve(carver, (uint64_t)s->options.staged_max + 1, sizeof *s->staged_hash);
    s->keys = dbk_carve(carver, (uint64_t)s->keys_max + 1, sizeof *s->keys);
    s->key_buckets = dbk_carve(carver, s->key_bucket_count, sizeof *s->key_buckets);
}

enum daybook_code dbk_state_new(const struct dbk_state_options *options, struct dbk_state **ret)
{
    struct dbk_state *s = NULL;
    struct dbk_carver carver = {0};

    if (options->stored_max < options->events_max ||
        options->stored_max + options->staged_max >= CHUNKS_LIMIT) {
        return DAYBOOK_BAD_ARGUMENT;
    }
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    s->options = *options;
    s->options.retain_us = options->retain_us < 0 ? 0 : options->retain_us;
    if (options->orphans_max == 0 || options->orphans_max > DBK_ORPHANS_LIMIT) {
        s->options.orphans_max = DBK_ORPHANS_LIMIT;
    }
    s->chunks_max = (uint32_t)options->stored_max + options->staged_max + 1;
    s->directory_max = 2 * s->chunks_max + 4 * DIRECTORY_DEAD_FREE;
    s->id_bucket_count = s->chunks_max / ENTRIES_PER_BUCKET + 1;
    s->keys_max = s->chunks_max + DBK_EMPTY_KEYS_MAX;
    s->key_bucket_count = s->chunks_max / ENTRIES_PER_BUCKET + 1;
    s->next_consumer_id = 1;
    carve_state(s, &carver);
    s->arena_bytes = carver.used;
    s->arena = dbk_reserve(carver.used);
    if (s->arena == NULL) {
        free(s);
        return DAYBOOK_NO_MEMORY;
    }
    carver = (struct dbk_carver){.base = s->arena};
    carve_state(s, &carver);
    *ret = s;
    return DAYBOOK_OK;
}

void dbk_state_free(struct dbk_state *state)
{
    if (state == NULL) {
        return;
    }
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        dbk_consumer_free(state->consumers[i]);
    }
    free(state->segments);
    dbk_unreserve(state->placed, state->directory_max * sizeof *state->placed);
    dbk_unreserve(state->arena, state->arena_bytes);
    free(state);
}

const struct dbk_room *dbk_state_room(const struct dbk_state *state)
{
    return &state->room;
}

void dbk_room_show(struct dbk_state *s)
{
    atomic_store_explicit(&s->room.stored, s->stored_count, memory_order_relaxed);
    atomic_store_explicit(&s->room.givable, s->givable_count, memory_order_relaxed);
    atomic_store_explicit(&s->room.droppable, s->droppable_count, memory_order_relaxed);
}

/* ---- the directory --------------------------------------------------------------------------------- */

/* The first entry whose base is at least this one. */
static uint32_t entry_at_least(const struct dbk_state *s, uint64_t base)
{
    uint32_t low = 0;
    uint32_t high = s->directory_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (s->chunk_base[middle] < base) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t dbk_bit_at_least(const struct dbk_state *s, uint64_t position)
{
    uint64_t base = position / DBK_CHUNK_EVENTS * DBK_CHUNK_EVENTS;
    uint32_t entry = entry_at_least(s, base);
    uint64_t bit = (uint64_t)entry * DBK_CHUNK_EVENTS;

    if (entry < s->directory_count && s->chunk_base[entry] == base) {
        bit += position - base;
    }
    return bit;
}

uint32_t dbk_slot_find(const struct dbk_state *s, uint64_t position)
{
    uint64_t base = position / DBK_CHUNK_EVENTS * DBK_CHUNK_EVENTS;
    uint64_t mask = UINT64_C(1) << (position % DBK_CHUNK_EVENTS);
    uint32_t entry = s->directory_count;
    uint64_t from_last = 0;

    if (entry == 0 || base > s->chunk_base[entry - 1]) {
        return 0;
    }
    /* Without gaps the place can be counted back from the newest chunk. */
    from_last = (s->chunk_base[entry - 1] - base) / DBK_CHUNK_EVENTS;
    if (from_last < entry && s->chunk_base[entry - 1 - from_last] == base) {
        entry -= 1 + (uint32_t)from_last;
    } else {
        entry = entry_at_least(s, base);
        if (s->chunk_base[entry] != base) {
            return 0;
        }
    }
    if ((s->stored.level[0][entry] & mask) == 0) {
        return 0;
    }
    return s->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)(position - base);
}

/* Moves what stands at one entry to another, in front of it. */
static void entry_move(struct dbk_state *s, uint32_t from, uint32_t to)
{
    s->chunk_base[to] = s->chunk_base[from];
    s->chunk_ordinal[to] = s->chunk_ordinal[from];
    s->chunk_entry[s->chunk_ordinal[to]] = to;
    s->stored.level[0][to] = s->stored.level[0][from];
    s->givable.level[0][to] = s->givable.level[0][from];
    s->droppable.level[0][to] = s->droppable.level[0][from];
    s->prunable.level[0][to] = s->prunable.level[0][from];
    s->ended.level[0][to] = s->ended.level[0][from];
    s->delivered[to] = s->delivered[from];
    s->newer[to] = s->newer[from];
    s->damaged[to] = s->damaged[from];
    s->observed_min[to] = s->observed_min[from];
    if (s->placed != NULL) {
        s->placed[to] = s->placed[from];
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];

        c->eligible.level[0][to] = c->eligible.level[0][from];
        c->acknowledged[to] = c->acknowledged[from];
        c->discarded[to] = c->discarded[from];
        c->quarantined[to] = c->quarantined[from];
        c->handed[to] = c->handed[from];
        c->observed_min[to] = c->observed_min[from];
    }
}

/* Makes an entry hold nothing. */
static void entry_clear(struct dbk_state *s, uint32_t entry)
{
    s->chunk_ordinal[entry] = 0;
    s->stored.level[0][entry] = 0;
    s->givable.level[0][entry] = 0;
    s->droppable.level[0][entry] = 0;
    s->prunable.level[0][entry] = 0;
    s->ended.level[0][entry] = 0;
    s->delivered[entry] = 0;
    s->newer[entry] = 0;
    s->damaged[entry] = 0;
    s->observed_min[entry] = INT64_MAX;
    if (s->placed != NULL) {
        s->placed[entry] = 0;
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];

        c->eligible.level[0][entry] = 0;
        c->acknowledged[entry] = 0;
        c->discarded[entry] = 0;
        c->quarantined[entry] = 0;
        c->handed[entry] = 0;
        c->observed_min[entry] = INT64_MAX;
    }
}

static void directory_compact(struct dbk_state *s)
{
    uint32_t before = s->directory_count;
    uint32_t to = 0;

    for (uint32_t from = 0; from < before; from++) {
        if (s->chunk_ordinal[from] == 0) {
            continue;
        }
        if (from != to) {
            entry_move(s, from, to);
        }
        to++;
    }
    for (uint32_t entry = to; entry < before; entry++) {
        entry_clear(s, entry);
    }
    s->directory_count = to;
    s->directory_dead = 0;
    dbk_bits_rebuild(&s->stored, before);
    dbk_bits_rebuild(&s->givable, before);
    dbk_bits_rebuild(&s->droppable, before);
    dbk_bits_rebuild(&s->prunable, before);
    dbk_bits_rebuild(&s->ended, before);
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        dbk_bits_rebuild(&s->consumers[i]->eligible, before);
    }
}

uint32_t dbk_chunk_new(struct dbk_state *s, uint64_t base)
{
    uint32_t ordinal = s->ordinal_free;
    uint32_t entry = 0;

    if (ordinal != 0) {
        s->ordinal_free = s->chunk_entry[ordinal];
    } else {
        dbk_assert(s->ordinals_used < s->chunks_max);
        ordinal = ++s->ordinals_used;
    }
    if (s->directory_count == s->directory_max) {
        directory_compact(s);
    }
    dbk_assert(s->directory_count < s->directory_max);
    entry = s->directory_count++;
    entry_clear(s, entry);
    s->chunk_base[entry] = base;
    s->chunk_ordinal[entry] = ordinal;
    s->chunk_entry[ordinal] = entry;
    return entry;
}

/* Gives an emptied chunk back; nothing refers to its slots any more. */
static void chunk_release(struct dbk_state *s, uint32_t entry)
{
    uint32_t ordinal = s->chunk_ordinal[entry];

    s->chunk_entry[ordinal] = s->ordinal_free;
    s->ordinal_free = ordinal;
    s->chunk_ordinal[entry] = 0;
    s->directory_dead++;
    /* The last entry is never a tombstone: a new event may have its base. */
    while (s->directory_count > 0 && s->chunk_ordinal[s->directory_count - 1] == 0) {
        s->directory_count--;
        s->directory_dead--;
    }
    if (s->directory_dead > s->directory_count / 2 + DIRECTORY_DEAD_FREE) {
        directory_compact(s);
    }
}

void dbk_chunk_refresh(struct dbk_state *s, uint32_t entry)
{
    uint64_t base = s->chunk_base[entry];
    uint64_t stored = s->stored.level[0][entry];
    uint64_t resolved = s->consumer_count == 0 ? 0 : stored;
    uint64_t quarantined = 0;
    uint64_t discarded = 0;
    uint64_t givable = 0;
    uint64_t droppable = 0;

    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];

        uint64_t by_this =
            dbk_consumer_below(c, base) | c->acknowledged[entry] | c->discarded[entry];

        resolved = dbk_fault(DBK_FAULT_ONE_CONSUMER_SUFFICES) && i > 0 ? resolved | by_this
                                                                       : resolved & by_this;
        quarantined |= c->quarantined[entry];
        discarded |= c->discarded[entry];
    }
    s->delivered[entry] = (s->delivered[entry] | resolved) & stored;
    givable = s->delivered[entry] & ~(dbk_fault(DBK_FAULT_RECLAIMS_QUARANTINED) ? 0 : quarantined);
    droppable = stored & ~(dbk_fault(DBK_FAULT_DROPS_QUARANTINED) ? 0 : quarantined);
    s->givable_count -= (uint64_t)__builtin_popcountll(s->givable.level[0][entry]);
    s->givable_count += (uint64_t)__builtin_popcountll(givable);
    s->droppable_count -= (uint64_t)__builtin_popcountll(s->droppable.level[0][entry]);
    s->droppable_count += (uint64_t)__builtin_popcountll(droppable);
    dbk_bits_put(&s->givable, entry, givable);
    dbk_bits_put(&s->droppable, entry, droppable);
    dbk_bits_put(&s->prunable, entry,
                 dbk_fault(DBK_FAULT_PRUNES_UNDELIVERED) ? droppable : givable & resolved);
    dbk_bits_put(&s->ended, entry, resolved & discarded);
    dbk_room_show(s);
}

/* ---- segments --------------------------------------------------------------------------------------- */

/* The first counted segment that is at least this one. */
static uint32_t segment_at_least(const struct dbk_state *s, uint32_t segment_no)
{
    uint32_t low = 0;
    uint32_t high = s->segment_count;

    if (high > 0 && s->segments[high - 1].segment_no == segment_no) {
        return high - 1;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (s->segments[middle].segment_no < segment_no) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct dbk_segment_count *segment_of(struct dbk_state *s, uint32_t segment_no)
{
    uint32_t at = segment_at_least(s, segment_no);

    dbk_assert(at < s->segment_count && s->segments[at].segment_no == segment_no);
    return &s->segments[at];
}

enum daybook_code dbk_state_add_segment(struct dbk_state *state, uint32_t segment_no)
{
    uint32_t at = segment_at_least(state, segment_no);

    if (at < state->segment_count && state->segments[at].segment_no == segment_no) {
        return DAYBOOK_OK;
    }
    if (state->segment_count == state->segments_capacity) {
        uint32_t capacity = state->segments_capacity * 2 + 64;
        struct dbk_segment_count *grown =
            realloc(state->segments, capacity * sizeof *state->segments);

        if (grown == NULL) {
            return DAYBOOK_NO_MEMORY;
        }
        state->segments = grown;
        state->segments_capacity = capacity;
    }
    memmove(&state->segments[at + 1], &state->segments[at],
            (state->segment_count - at) * sizeof *state->segments);
    state->segments[at] = (struct dbk_segment_count){.segment_no = segment_no};
    state->segment_count++;
    return DAYBOOK_OK;
}

uint64_t dbk_state_segment_events(const struct dbk_state *state, uint32_t segment_no)
{
    uint32_t at = segment_at_least(state, segment_no);

    if (at < state->segment_count && state->segments[at].segment_no == segment_no) {
        return state->segments[at].events;
    }
    return 0;
}

uint64_t dbk_state_segment_bytes(const struct dbk_state *state, uint32_t segment_no)
{
    uint32_t at = segment_at_least(state, segment_no);

    return at < state->segment_count && state->segments[at].segment_no == segment_no
               ? state->segments[at].bytes
               : 0;
}

void dbk_state_remove_segments(struct dbk_state *state, uint32_t below_segment_no)
{
    uint32_t gone = segment_at_least(state, below_segment_no);

    for (uint32_t i = 0; i < gone; i++) {
        dbk_assert(state->segments[i].events == 0);
    }
    if (gone > 0) {
        memmove(state->segments, &state->segments[gone],
                (state->segment_count - gone) * sizeof *state->segments);
        state->segment_count -= gone;
    }
}

/* ---- events ------------------------------------------------------------------------------------------ */

void dbk_place_set(struct dbk_state *s, uint32_t slot, struct dbk_place place)
{
    struct dbk_slot *e = &s->slots[slot];

    dbk_assert(place.len < UINT32_C(1) << 24);
    e->segment_no = place.segment_no;
    e->offset = place.offset;
    e->sizes = (e->sizes & ~UINT64_C(0xffffff)) | place.len;
    struct dbk_segment_count *count = segment_of(s, place.segment_no);
    count->events++;
    count->bytes += place.len;
}

void dbk_place_leave(struct dbk_state *s, uint32_t slot)
{
    struct dbk_segment_count *count = segment_of(s, s->slots[slot].segment_no);

    count->events--;
    count->bytes -= dbk_slot_len(&s->slots[slot]);
}

/* A deliberate fault: as if it had been accepted now. */
static void put_behind_its_key(struct dbk_state *s, uint32_t slot)
{
    uint32_t key = s->slots[slot].key;

    if (s->slots[slot].next == 0) {
        return;
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        struct dbk_consumer *c = s->consumers[i];

        if ((c->keys[key].next & ~DBK_KEY_RESERVED) == slot) {
            dbk_key_set_next(s, c, key, dbk_consumer_next_of_key(s, c, slot));
        }
    }
    dbk_key_remove(s, slot);
    dbk_key_append(s, key, slot);
}

void dbk_state_move(struct dbk_state *state, uint64_t position, struct dbk_place to)
{
    uint32_t slot = dbk_slot_find(state, position);

    if (slot != 0) {
        dbk_place_leave(state, slot);
        dbk_place_set(state, slot, to);
        if (dbk_fault(DBK_FAULT_RELOCATE_REORDERS)) {
            put_behind_its_key(state, slot);
        }
    }
}

/* What a new event means for one consumer. */
static void consumer_sees(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot)
{
    const struct dbk_slot *e = &s->slots[slot];
    uint32_t entry = dbk_slot_entry(s, slot);

    if (c->start_time_us != DAYBOOK_TIME_UNSET && e->accepted_at_us >= c->start_time_us) {
        c->start = dbk_slot_position(s, slot);
        c->start_time_us = DAYBOOK_TIME_UNSET;
    }
    if (dbk_slot_position(s, slot) < c->start) {
        return;
    }
    if (c->observed_min[entry] != DBK_OBSERVED_DIRTY &&
        e->observed_at_us < c->observed_min[entry]) {
        c->observed_min[entry] = e->observed_at_us;
    }
    if ((c->keys[e->key].next & ~DBK_KEY_RESERVED) == 0) {
        dbk_key_set_next(s, c, e->key, slot);
    }
}

void dbk_slot_fill(struct dbk_state *s, uint32_t slot, const struct dbk_event_meta *meta)
{
    uint32_t entry = dbk_slot_entry(s, slot);

    dbk_assert(meta->payload_bytes < UINT32_C(1) << 24);
    s->slots[slot] = (struct dbk_slot){.id_hash = meta->id_hash,
                                       .sizes = (uint64_t)meta->payload_bytes << 24 |
                                                (uint64_t)meta->row_version << 48,
                                       .observed_at_us = meta->observed_at_us,
                                       .accepted_at_us = meta->accepted_at_us};
    dbk_place_set(s, slot, meta->place);
    s->stored_bytes += meta->payload_bytes;
    s->newer[entry] |= meta->newer ? dbk_slot_mask(slot) : 0;
    s->newer_count += meta->newer ? 1 : 0;
    if (meta->damaged && !dbk_slot_damaged(s, slot)) {
        s->damaged[entry] |= dbk_slot_mask(slot);
        s->damaged_count++;
        s->damaged_ever++;
    }
}

/* A stored event that is published again stands elsewhere now. */
static void move(struct dbk_state *s, uint32_t slot, const struct dbk_event_meta *meta)
{
    if (s->placed != NULL) {
        dbk_state_load_place(s, meta);
        return;
    }
    dbk_place_leave(s, slot);
    dbk_place_set(s, slot, meta->place);
}

void dbk_state_publish(struct dbk_state *state, const struct dbk_event_meta *meta,
                       uint32_t staged_no)
{
    uint64_t base = meta->position / DBK_CHUNK_EVENTS * DBK_CHUNK_EVENTS;
    uint32_t slot = dbk_slot_find(state, meta->position);
    uint32_t entry = 0;
    uint32_t key = 0;

    if (slot != 0) {
        move(state, slot, meta);
        return;
    }
    if (meta->position <= state->published_last) {
        return; /* forgotten since: a replay does not bring it back */
    }
    state->published_last = meta->position;
    entry = state->directory_count - 1;
    if (state->directory_count == 0 || state->chunk_base[entry] != base) {
        entry = dbk_chunk_new(state, base);
    }
    slot = state->chunk_ordinal[entry] * DBK_CHUNK_EVENTS + (uint32_t)(meta->position - base);
    dbk_slot_fill(state, slot, meta);
    if (staged_no != DBK_NOT_STAGED) {
        dbk_state_id_unstage(state, meta->id_hash, staged_no);
    }
    if (state->placed != NULL) {
        dbk_loading_key_set(&state->slots[slot], meta->key_hash);
        state->placed[entry] |= dbk_slot_mask(slot);
    } else {
        key = dbk_key_get(state, meta->key_hash);
        dbk_assert(key != 0);
        dbk_id_link(state, meta->id_hash, slot);
        dbk_key_append(state, key, slot);
    }

    dbk_bits_set(&state->stored, dbk_slot_bit(state, slot));
    if (state->observed_min[entry] != DBK_OBSERVED_DIRTY &&
        meta->observed_at_us < state->observed_min[entry]) {
        state->observed_min[entry] = meta->observed_at_us;
    }
    state->stored_count++;
    state->counters.accepted++;
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        consumer_sees(state, state->consumers[i], slot);
    }
    dbk_chunk_refresh(state, entry);
}

/* Takes an event out of one consumer's tables. */
static void consumer_forgets(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot)
{
    uint32_t entry = dbk_slot_entry(s, slot);
    uint32_t key = s->slots[slot].key;
    uint64_t mask = dbk_slot_mask(slot);

    if ((c->keys[key].next & ~DBK_KEY_RESERVED) == slot) {
        dbk_key_set_next(s, c, key, dbk_consumer_next_of_key(s, c, slot));
    }
    if (c->lease_of[slot] != 0) {
        dbk_lease_remove(s, c, c->lease_of[slot]);
    }
    if (s->slots[slot].observed_at_us == c->observed_min[entry]) {
        c->observed_min[entry] = DBK_OBSERVED_DIRTY;
    }
    c->acknowledged[entry] &= ~mask;
    c->discarded[entry] &= ~mask;
    c->quarantined[entry] &= ~mask;
    c->handed[entry] &= ~mask;
}

enum dbk_forget_reason dbk_forget_counts_as(const struct dbk_state *s, uint32_t slot,
                                            enum dbk_forget_reason reason)
{
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        if ((s->consumers[i]->discarded[dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) != 0) {
            return DBK_FORGET_DISCARDED;
        }
    }
    return reason;
}

void dbk_event_forget(struct dbk_state *s, uint32_t slot, enum dbk_forget_reason reason)
{
    struct dbk_slot *e = &s->slots[slot];
    uint32_t entry = dbk_slot_entry(s, slot);
    uint32_t key = e->key;
    uint64_t mask = dbk_slot_mask(slot);

    reason = dbk_forget_counts_as(s, slot, reason);
    s->counters.forgotten[reason - 1]++;
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        consumer_forgets(s, s->consumers[i], slot);
    }
    if (s->placed == NULL) {
        dbk_id_unlink(s, e->id_hash, slot);
        dbk_key_remove(s, slot);
    }
    if (s->placed == NULL || (s->placed[entry] & mask) != 0) {
        dbk_place_leave(s, slot);
    }
    if (s->placed != NULL) {
        s->placed[entry] &= ~mask;
    }
    s->stored_count--;
    s->stored_bytes -= dbk_slot_payload(e);
    s->newer_count -= (s->newer[entry] & mask) != 0 ? 1 : 0;
    s->newer[entry] &= ~mask;
    s->damaged_count -= (s->damaged[entry] & mask) != 0 ? 1 : 0;
    s->damaged[entry] &= ~mask;
    if (e->observed_at_us == s->observed_min[entry]) {
        s->observed_min[entry] = DBK_OBSERVED_DIRTY;
    }
    dbk_bits_clear(&s->stored, dbk_slot_bit(s, slot));
    dbk_chunk_refresh(s, entry);
    dbk_key_release(s, key);
    if (s->stored.level[0][entry] == 0) {
        chunk_release(s, entry);
    }
}

static void show_stored(const struct dbk_state *s, uint32_t slot, struct dbk_stored *ret)
{
    const struct dbk_slot *e = &s->slots[slot];

    *ret = (struct dbk_stored){.position = dbk_slot_position(s, slot),
                               .id_hash = e->id_hash,
                               .place = dbk_slot_place(e),
                               .observed_at_us = e->observed_at_us,
                               .accepted_at_us = e->accepted_at_us,
                               .payload_bytes = dbk_slot_payload(e),
                               .row_version = dbk_slot_row_version(e),
                               .damaged = dbk_slot_damaged(s, slot)};
}

bool dbk_state_get(const struct dbk_state *state, uint64_t position, struct dbk_stored *ret)
{
    uint32_t slot = dbk_slot_find(state, position);

    if (slot == 0) {
        return false;
    }
    show_stored(state, slot, ret);
    return true;
}

static bool where_holds(const struct dbk_state *s, enum daybook_where where, uint32_t slot)
{
    uint32_t entry = dbk_slot_entry(s, slot);

    if (where == DAYBOOK_WHERE_ALL) {
        return true;
    }
    for (uint32_t i = 0; i < s->consumer_count; i++) {
        const struct dbk_consumer *c = s->consumers[i];

        if (where == DAYBOOK_WHERE_PENDING ? dbk_consumer_unresolved(s, c, slot)
                                           : (c->quarantined[entry] & dbk_slot_mask(slot)) != 0) {
            return true;
        }
    }
    return false;
}

bool dbk_state_next(const struct dbk_state *state, uint64_t after_position,
                    enum daybook_where where, uint32_t steps_max, struct dbk_stored *ret,
                    uint64_t *ret_looked)
{
    uint64_t looked = after_position;
    uint64_t bit =
        after_position == UINT64_MAX ? DBK_BITS_NONE : dbk_bit_at_least(state, after_position + 1);

    for (uint32_t step = 0; step < steps_max; step++) {
        uint32_t slot = 0;

        bit = bit == DBK_BITS_NONE ? bit : dbk_bits_next(&state->stored, bit);
        if (bit == DBK_BITS_NONE) {
            *ret_looked = UINT64_MAX;
            return false;
        }
        slot = dbk_bit_slot(state, bit);
        looked = dbk_slot_position(state, slot);
        if (where_holds(state, where, slot)) {
            show_stored(state, slot, ret);
            *ret_looked = looked;
            return true;
        }
        bit++;
    }
    *ret_looked = looked;
    return false;
}

void dbk_state_mark_damaged(struct dbk_state *state, uint64_t position)
{
    uint32_t slot = dbk_slot_find(state, position);

    if (slot != 0 && !dbk_slot_damaged(state, slot)) {
        state->damaged[dbk_slot_entry(state, slot)] |= dbk_slot_mask(slot);
        state->damaged_count++;
        state->damaged_ever++;
    }
}
