/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the log engine's memory (state.h) share: its tables and the small functions that
 * keep them consistent. Nobody else includes this.
 *
 * Slots stand in chunks of 64 consecutive positions. A slot number is chunk ordinal << 6 | position
 * & 63; ordinals come from a pool and are used again, lowest slot 64, so that 0 means none. The
 * directory lists the chunks in order of position; bit `directory entry << 6 | position & 63` speaks
 * of an event in every bitmap, so that the order of bits is the order of positions. An entry whose
 * chunk emptied is a tombstone until the directory is compacted.
 *
 * What each table costs (resident, only where touched): slot 56 B and id bucket 2 B an event; 2.4 B an
 * event for bitmaps and directory with one consumer; 22 B a distinct key and 8 B more a consumer; a
 * lease entry 80 B and 4 B an event that is or was handed out.
 */
#ifndef DBK_ENGINES_LOG_STATE_IMPL_H
#define DBK_ENGINES_LOG_STATE_IMPL_H

#include "engines/log/state.h"

#include <assert.h>

#include "base/assert.h"

#define DBK_CHUNK_EVENTS 64u
#define DBK_LEASE_SKEW_US INT64_C(60000000) /* C5 */
/* Leases of dropped events at a time, over all consumers, whatever the options say. Keys without an
 * event that may wait for such a lease or a walk; beyond it nothing more is given up until some end. */
#define DBK_ORPHANS_LIMIT 65536u
#define DBK_EMPTY_KEYS_MAX 131072u
/* Keys left alone after a read error, per consumer; beyond it a key is tried again at once. */
#define DBK_HOLDS_MAX 4096u
#define DBK_ORPHAN_BUCKETS 4096u
#define DBK_REF_STAGED 0x80000000u
#define DBK_KEY_RESERVED 0x80000000u
#define DBK_OBSERVED_DIRTY INT64_MIN

/* ---- bitmaps with summaries (bits.c) ------------------------------------------------------------ */

#define DBK_BITS_LEVELS 6u
#define DBK_BITS_NONE UINT64_MAX

/* A bit of level n + 1 says that a word of level n is not zero. */
struct dbk_bits {
    uint64_t *level[DBK_BITS_LEVELS];
    uint64_t words[DBK_BITS_LEVELS];
};
/* 64-bit words that all levels need. */
uint64_t dbk_bits_size(uint64_t words);
void dbk_bits_init(struct dbk_bits *bits, uint64_t *memory, uint64_t words);
void dbk_bits_set(struct dbk_bits *bits, uint64_t bit);
void dbk_bits_clear(struct dbk_bits *bits, uint64_t bit);
void dbk_bits_put(struct dbk_bits *bits, uint64_t word, uint64_t value);
/* The first set bit at or above `from`, or DBK_BITS_NONE. */
uint64_t dbk_bits_next(const struct dbk_bits *bits, uint64_t from);
/* Makes the summaries of the first `words` words anew. */
void dbk_bits_rebuild(struct dbk_bits *bits, uint64_t words);

/* ---- tables --------------------------------------------------------------------------------------- */

/* Fields marked [stage] are read under the stage lock alone and change under both. */
struct dbk_slot {
    uint64_t id_hash; /* [stage] */
    uint64_t
        sizes; /* [stage] bytes of the entry (24 bits), of the payload (24), row version (16) */
    int64_t observed_at_us;
    int64_t accepted_at_us;
    uint32_t segment_no; /* [stage] */
    uint32_t offset;     /* [stage] */
    uint32_t id_next;    /* [stage] next reference in the bucket */
    uint32_t key;
    uint32_t next; /* of the same key, by position */
    uint32_t prev;
};
static_assert(sizeof(struct dbk_slot) == 56, "the budget of memory counts on it");

struct dbk_key {
    uint32_t hash_low;
    uint32_t hash_high;
    uint32_t first; /* slots; 0: none, it waits for a lease or a walk */
    uint32_t last;
    uint32_t bucket_next; /* or the next free one */
};
static_assert(sizeof(struct dbk_key) == 20, "the budget of memory counts on it");

/* A key as one consumer sees it. */
struct dbk_key_view {
    uint32_t next;   /* the oldest unresolved event; the high bit: reserved by a walk */
    uint32_t leases; /* the first of a ring of lease entries, those that count as live in front */
};

/* What a lease is at the clock of its consumer (C5). */
enum dbk_lease_phase {
    DBK_LEASE_OFF,     /* given up, or from before a rewind: never live again */
    DBK_LEASE_LIVE,    /* granted - skew <= clock < expiry */
    DBK_LEASE_EXPIRED, /* expiry <= clock */
    DBK_LEASE_AHEAD    /* clock < granted - skew */
};
enum dbk_lease_kind {
    DBK_LEASE_FREE,
    DBK_LEASE_EVENT,
    DBK_LEASE_ORPHAN, /* its event was dropped (P5) */
    DBK_LEASE_HOLD    /* nobody's: the key waits after a read error */
};

struct dbk_lease {
    uint64_t position;
    uint64_t token;
    uint64_t kept_token; /* live at the last rewind: verdicts with it are honoured (K3) */
    int64_t granted_at_us;
    int64_t expires_at_us;
    uint32_t slot; /* 0 but for DBK_LEASE_EVENT */
    uint32_t key;
    uint32_t attempt;
    uint32_t hand_outs;
    uint32_t ring_next;
    uint32_t ring_prev;
    uint32_t bucket_next; /* orphans; or the next free entry */
    uint32_t heap_at[2];
    uint8_t kind;
    uint8_t phase;
    uint8_t refunded;
};

enum dbk_heap_order {
    DBK_HEAP_LIVE_EXPIRY, /* the first to expire */
    DBK_HEAP_LIVE_GRANT,  /* the last granted */
    DBK_HEAP_EXPIRED,     /* the last to expire */
    DBK_HEAP_AHEAD,       /* the first granted */
    DBK_HEAPS
};
struct dbk_heap {
    uint32_t *entries;
    uint32_t count;
};

/* What the events of a chunk that are kept for a consumer weigh, as it was counted last: true for as long as the
 * same events of the same chunk are. */
struct dbk_held {
    uint64_t chunk_base;
    uint64_t word;
    uint64_t bytes;
};

struct dbk_consumer {
    uint32_t id;
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    uint64_t start;        /* first position that counts; UINT64_MAX while only a time is known */
    int64_t start_time_us; /* DAYBOOK_TIME_UNSET once the position is known */
    uint64_t token_floor;  /* hand-outs below are from before the last rewind */
    int64_t clock_us;      /* at which the phases of the leases are true */
    struct dbk_bits eligible;
    uint64_t *acknowledged; /* words by directory entry */
    uint64_t *discarded;
    uint64_t *quarantined;
    uint64_t *handed;
    int64_t *observed_min; /* of the unresolved of a chunk; INT64_MAX: none; or DIRTY */
    uint64_t *scratch;     /* all zero between calls */
    struct dbk_held *held; /* by chunk ordinal */
    struct dbk_key_view *keys;
    uint32_t *lease_of; /* by slot */
    struct dbk_lease *leases;
    uint32_t leases_used;
    uint32_t lease_free;
    uint32_t orphans;
    uint32_t holds;
    uint32_t in_flight; /* live leases of stored events */
    uint32_t *orphan_buckets;
    struct dbk_heap heaps[DBK_HEAPS];
    void *arena;
    size_t arena_bytes;
};

struct dbk_segment_count {
    uint32_t segment_no;
    uint64_t events;
    uint64_t bytes; /* of their entries */
};

struct dbk_state {
    struct dbk_room room;
    struct dbk_state_options options;
    void *arena;
    size_t arena_bytes;
    /* chunks and their directory [stage: read] */
    uint32_t chunks_max;
    uint32_t directory_max;
    uint32_t directory_count;
    uint32_t directory_dead;
    uint32_t ordinals_used;
    uint32_t ordinal_free; /* 0: none */
    uint64_t *chunk_base;
    uint32_t *chunk_ordinal; /* 0: tombstone */
    uint32_t *chunk_entry;   /* by ordinal: its directory entry, or the next free ordinal */
    struct dbk_slot *slots;
    /* bitmaps */
    struct dbk_bits stored;
    struct dbk_bits givable;   /* delivered once, quarantined by nobody (P4) */
    struct dbk_bits droppable; /* quarantined by nobody (P5) */
    struct dbk_bits prunable;  /* givable, and resolved by every consumer now (P3) */
    struct dbk_bits ended; /* resolved by every consumer now, discarded by one: to be forgotten */
    uint64_t *delivered;   /* by every consumer registered then, at some time */
    uint64_t *newer;
    uint64_t *damaged;
    int64_t *observed_min; /* of the stored of a chunk, or DIRTY */
    uint64_t *placed; /* NULL but while a checkpoint is loaded (image.c): of which stored events the
                              place is known. Nothing is in the indexes or has a key until that ends */
    /* ids [stage] */
    uint32_t *id_buckets;
    uint32_t id_bucket_count;
    uint32_t *staged_next;
    uint64_t *staged_hash;
    /* ordering keys */
    struct dbk_key *keys;
    uint32_t keys_max;
    uint32_t keys_used;
    uint32_t key_free;
    uint32_t keys_empty;
    uint32_t *key_buckets;
    uint32_t key_bucket_count;
    /* consumers in order of registration */
    struct dbk_consumer *consumers[DAYBOOK_CONSUMERS_MAX];
    uint32_t consumer_count;
    uint32_t next_consumer_id;
    /* figures */
    uint64_t published_last; /* the highest position ever published */
    uint64_t stored_count;
    uint64_t givable_count;
    uint64_t droppable_count;
    uint64_t stored_bytes;
    uint64_t newer_count;
    uint64_t damaged_count;
    uint64_t damaged_ever; /* found so, forgotten since or not */
    struct dbk_counters counters;
    struct dbk_segment_count *segments;
    uint32_t segment_count;
    uint32_t segments_capacity;
};

/* ---- small ones ----------------------------------------------------------------------------------- */

static inline int64_t dbk_time_add(int64_t a, int64_t b)
{
    int64_t sum = 0;

    if (__builtin_add_overflow(a, b, &sum)) {
        return b < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

static inline uint32_t dbk_bucket(uint64_t hash, uint32_t count)
{
    return (uint32_t)(((hash >> 32) * count) >> 32);
}

static inline uint32_t dbk_slot_entry(const struct dbk_state *s, uint32_t slot)
{
    return s->chunk_entry[slot / DBK_CHUNK_EVENTS];
}
static inline uint64_t dbk_slot_bit(const struct dbk_state *s, uint32_t slot)
{
    return (uint64_t)dbk_slot_entry(s, slot) * DBK_CHUNK_EVENTS + slot % DBK_CHUNK_EVENTS;
}
static inline uint64_t dbk_slot_mask(uint32_t slot)
{
    return UINT64_C(1) << (slot % DBK_CHUNK_EVENTS);
}
static inline uint64_t dbk_slot_position(const struct dbk_state *s, uint32_t slot)
{
    return s->chunk_base[dbk_slot_entry(s, slot)] + slot % DBK_CHUNK_EVENTS;
}
static inline uint32_t dbk_bit_slot(const struct dbk_state *s, uint64_t bit)
{
    return s->chunk_ordinal[bit / DBK_CHUNK_EVENTS] * DBK_CHUNK_EVENTS +
           (uint32_t)(bit % DBK_CHUNK_EVENTS);
}
static inline uint32_t dbk_slot_len(const struct dbk_slot *slot)
{
    return (uint32_t)(slot->sizes & 0xffffffu);
}
static inline uint32_t dbk_slot_payload(const struct dbk_slot *slot)
{
    return (uint32_t)(slot->sizes >> 24 & 0xffffffu);
}
static inline uint16_t dbk_slot_row_version(const struct dbk_slot *slot)
{
    return (uint16_t)(slot->sizes >> 48);
}
static inline struct dbk_place dbk_slot_place(const struct dbk_slot *slot)
{
    return (struct dbk_place){
        .segment_no = slot->segment_no, .offset = slot->offset, .len = dbk_slot_len(slot)};
}
static inline bool dbk_slot_newer(const struct dbk_state *s, uint32_t slot)
{
    return (s->newer[dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) != 0;
}
static inline bool dbk_slot_damaged(const struct dbk_state *s, uint32_t slot)
{
    return (s->damaged[dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) != 0;
}

/* ---- across the files ------------------------------------------------------------------------------ */

/* Takes `count` things of `size` bytes from an arena; with a NULL arena only counts. */
struct dbk_carver {
    uint8_t *base; /* NULL: counting */
    size_t used;
};
void *dbk_carve(struct dbk_carver *carver, uint64_t count, size_t size);

/* state.c: slots and their chunks */
uint32_t dbk_slot_find(const struct dbk_state *s, uint64_t position); /* 0: not stored */
/* The bit of the first place in the directory at or above a position. */
uint64_t dbk_bit_at_least(const struct dbk_state *s, uint64_t position);
/* A new chunk behind all others: its entry in the directory. */
uint32_t dbk_chunk_new(struct dbk_state *s, uint64_t base);
/* Fills in a slot, its place and flags. */
void dbk_slot_fill(struct dbk_state *s, uint32_t slot, const struct dbk_event_meta *meta);
/* The entry of an event is needed no longer where it stood. */
void dbk_place_leave(struct dbk_state *s, uint32_t slot);
/* Takes a new place for an event whose old one is given back. */
void dbk_place_set(struct dbk_state *s, uint32_t slot, struct dbk_place place);
/* Recounts what is derived for a chunk: delivered, givable, droppable, prunable, ended. */
void dbk_chunk_refresh(struct dbk_state *s, uint32_t entry);
/* Forgets an event, counted under `reason` or, if anybody had discarded it, as discarded. */
void dbk_event_forget(struct dbk_state *s, uint32_t slot, enum dbk_forget_reason reason);
enum dbk_forget_reason dbk_forget_counts_as(const struct dbk_state *s, uint32_t slot,
                                            enum dbk_forget_reason reason);
void dbk_room_show(struct dbk_state *s);

/* index.c: ids and ordering keys */
void dbk_id_link(struct dbk_state *s, uint64_t id_hash, uint32_t ref);
void dbk_id_unlink(struct dbk_state *s, uint64_t id_hash, uint32_t ref);
/* Finds a key or makes it; 0: the pool is used up. */
uint32_t dbk_key_find(const struct dbk_state *s, uint64_t key_hash);
uint32_t dbk_key_get(struct dbk_state *s, uint64_t key_hash);
uint64_t dbk_key_hash(const struct dbk_state *s, uint32_t key);
void dbk_key_append(struct dbk_state *s, uint32_t key, uint32_t slot);
void dbk_key_remove(struct dbk_state *s, uint32_t slot);
/* Frees a key that has no event if no consumer has anything of it either. */
void dbk_key_release(struct dbk_state *s, uint32_t key);

/* image.c, while a checkpoint is loaded: the key of a slot is kept in its links until it has one */
void dbk_loading_key_set(struct dbk_slot *slot, uint64_t key_hash);

/* consumers.c */
struct dbk_consumer *dbk_consumer_find(const struct dbk_state *s, uint32_t id); /* NULL */
/* Bits of a chunk that lie below the consumer's start. */
uint64_t dbk_consumer_below(const struct dbk_consumer *c, uint64_t chunk_base);
bool dbk_consumer_unresolved(const struct dbk_state *s, const struct dbk_consumer *c,
                             uint32_t slot);
/* The unresolved of a chunk. */
uint64_t dbk_consumer_unresolved_word(const struct dbk_state *s, const struct dbk_consumer *c,
                                      uint32_t entry);
/* The next unresolved event of the same key after a slot, 0: none. */
uint32_t dbk_consumer_next_of_key(const struct dbk_state *s, const struct dbk_consumer *c,
                                  uint32_t slot);
/* Puts the eligible bit of a key right. To be called after every change of what it depends on. */
void dbk_key_refresh(struct dbk_state *s, struct dbk_consumer *c, uint32_t key);
/* Moves a key's `next` and its eligible bit with it. */
void dbk_key_set_next(struct dbk_state *s, struct dbk_consumer *c, uint32_t key, uint32_t slot);
/* After a bit made an event resolved: its lease ends, the key moves on, figures follow. */
void dbk_event_resolved(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot);
void dbk_consumer_free(struct dbk_consumer *c);
/* Finds `next` of every key and the minima anew, in order of position. */
void dbk_consumer_rebuild(struct dbk_state *s, struct dbk_consumer *c);

/* leases.c */
bool dbk_lease_is_live(const struct dbk_lease *lease, int64_t now_us);
/* Makes the phases true at a clock; keys become busy or free by it. */
void dbk_clock_set(struct dbk_state *s, struct dbk_consumer *c, int64_t now_us);
/* Whether a lease of the key counts as live; holds count where they are asked for. */
enum dbk_busy { DBK_BUSY_LEASED, DBK_BUSY_LEASED_OR_HELD };
bool dbk_key_busy(const struct dbk_consumer *c, uint32_t key, enum dbk_busy what);
/* A new entry in the ring of a key, off. */
uint32_t dbk_lease_add(struct dbk_state *s, struct dbk_consumer *c, enum dbk_lease_kind kind,
                       uint32_t key, uint32_t slot, uint64_t position);
/* Sets when a lease runs, or switches it off. Refreshes the key. */
void dbk_lease_run(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease,
                   int64_t granted_at_us, int64_t expires_at_us);
void dbk_lease_off(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease);
/* Takes an entry out. Refreshes the key, but does not release it. */
void dbk_lease_remove(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease);
/* Gives an entry to another key. Refreshes nothing. */
void dbk_lease_rekey(struct dbk_consumer *c, uint32_t lease, uint32_t key);
uint32_t dbk_orphan_find(const struct dbk_consumer *c, uint64_t position); /* 0: none */
/* Turns the entry of an event that is dropped into an orphan. */
void dbk_lease_orphan(struct dbk_consumer *c, uint32_t lease);
/* What a lease of a dropped event is to the log. */
struct dbk_orphan dbk_orphan_of(const struct dbk_state *s, const struct dbk_consumer *c,
                                const struct dbk_lease *l);
uint32_t dbk_hold_find(const struct dbk_consumer *c, uint32_t key);

#endif
