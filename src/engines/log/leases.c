/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease entries (P): what was handed out, until when, and which of it counts as live at a clock that
 * may go back (C5). Each entry that runs is live, expired or ahead at its consumer's clock, and
 * stands in the heaps that say which entries change when the clock moves; so exactly the live ones
 * count at every `now`, and moving on costs only what changes.
 *
 * Threads: the caller's state lock.
 */
#include "engines/log/state_impl.h"

#include "base/fault.h"

bool dbk_lease_is_live(const struct dbk_lease *lease, int64_t now_us)
{
    return lease->phase != DBK_LEASE_OFF && now_us < lease->expires_at_us &&
           dbk_time_add(lease->granted_at_us, -DBK_LEASE_SKEW_US) <= now_us;
}

static enum dbk_lease_phase phase_at(const struct dbk_lease *lease, int64_t clock_us)
{
    if (clock_us >= lease->expires_at_us) {
        return DBK_LEASE_EXPIRED;
    }
    if (clock_us < dbk_time_add(lease->granted_at_us, -DBK_LEASE_SKEW_US)) {
        return DBK_LEASE_AHEAD;
    }
    return DBK_LEASE_LIVE;
}

/* ---- heaps: the smallest rank on top ------------------------------------------------------------- */

static int64_t rank(const struct dbk_consumer *c, enum dbk_heap_order order, uint32_t lease)
{
    const struct dbk_lease *l = &c->leases[lease];

    switch (order) {
    case DBK_HEAP_LIVE_EXPIRY:
        return l->expires_at_us;
    case DBK_HEAP_LIVE_GRANT:
        return ~l->granted_at_us;
    case DBK_HEAP_EXPIRED:
        return ~l->expires_at_us;
    case DBK_HEAP_AHEAD:
    case DBK_HEAPS:
    default:
        return l->granted_at_us;
    }
}

/* Which of its two places an entry keeps for a heap. */
static unsigned place_of(enum dbk_heap_order order)
{
    return order == DBK_HEAP_LIVE_GRANT ? 1 : 0;
}

static void put_at(struct dbk_consumer *c, enum dbk_heap_order order, uint32_t at, uint32_t lease)
{
    c->heaps[order].entries[at] = lease;
    c->leases[lease].heap_at[place_of(order)] = at;
}

/* Moves the entry at a place up or down until the order holds. */
static void settle_at(struct dbk_consumer *c, enum dbk_heap_order order, uint32_t at)
{
    struct dbk_heap *heap = &c->heaps[order];
    uint32_t lease = heap->entries[at];
    int64_t own = rank(c, order, lease);

    while (at > 0 && own < rank(c, order, heap->entries[(at - 1) / 2])) {
        put_at(c, order, at, heap->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count &&
            rank(c, order, heap->entries[child + 1]) < rank(c, order, heap->entries[child])) {
            child++;
        }
        if (own <= rank(c, order, heap->entries[child])) {
            break;
        }
        put_at(c, order, at, heap->entries[child]);
        at = child;
    }
    put_at(c, order, at, lease);
}

static void heap_add(struct dbk_consumer *c, enum dbk_heap_order order, uint32_t lease)
{
    struct dbk_heap *heap = &c->heaps[order];

    heap->entries[heap->count++] = lease;
    settle_at(c, order, heap->count - 1);
}

static void heap_remove(struct dbk_consumer *c, enum dbk_heap_order order, uint32_t lease)
{
    struct dbk_heap *heap = &c->heaps[order];
    uint32_t at = c->leases[lease].heap_at[place_of(order)];

    dbk_assert(at < heap->count && heap->entries[at] == lease);
    heap->count--;
    if (at < heap->count) {
        heap->entries[at] = heap->entries[heap->count];
        settle_at(c, order, at);
    }
}

/* ---- the ring of a key: live ones in front ------------------------------------------------------- */

static void ring_remove(struct dbk_consumer *c, uint32_t lease)
{
    struct dbk_lease *l = &c->leases[lease];
    uint32_t *first = &c->keys[l->key].leases;

    if (l->ring_next == lease) {
        *first = 0;
        return;
    }
    c->leases[l->ring_prev].ring_next = l->ring_next;
    c->leases[l->ring_next].ring_prev = l->ring_prev;
    if (*first == lease) {
        *first = l->ring_next;
    }
}

static void ring_add(struct dbk_consumer *c, uint32_t lease)
{
    struct dbk_lease *l = &c->leases[lease];
    uint32_t *first = &c->keys[l->key].leases;

    if (*first == 0) {
        l->ring_next = lease;
        l->ring_prev = lease;
        *first = lease;
        return;
    }
    l->ring_next = *first;
    l->ring_prev = c->leases[*first].ring_prev;
    c->leases[l->ring_prev].ring_next = lease;
    c->leases[l->ring_next].ring_prev = lease;
    if (l->phase == DBK_LEASE_LIVE) {
        *first = lease;
    }
}

bool dbk_key_busy(const struct dbk_consumer *c, uint32_t key, enum dbk_busy what)
{
    uint32_t first = c->keys[key].leases;
    uint32_t at = first;

    if (dbk_fault(DBK_FAULT_KEY_NEVER_BUSY)) {
        return false;
    }
    while (at != 0 && c->leases[at].phase == DBK_LEASE_LIVE) {
        if (what == DBK_BUSY_LEASED_OR_HELD || c->leases[at].kind != DBK_LEASE_HOLD) {
            return true;
        }
        at = c->leases[at].ring_next;
        if (at == first) {
            break;
        }
    }
    return false;
}

/* ---- phases ---------------------------------------------------------------------------------------- */

/* Out of the heaps of its phase, then into those of another; the ring follows. */
static void enter_phase(struct dbk_consumer *c, uint32_t lease, enum dbk_lease_phase phase)
{
    struct dbk_lease *l = &c->leases[lease];

    ring_remove(c, lease);
    if (l->phase == DBK_LEASE_LIVE) {
        heap_remove(c, DBK_HEAP_LIVE_EXPIRY, lease);
        heap_remove(c, DBK_HEAP_LIVE_GRANT, lease);
        c->in_flight -= l->kind == DBK_LEASE_EVENT;
    } else if (l->phase == DBK_LEASE_EXPIRED) {
        heap_remove(c, DBK_HEAP_EXPIRED, lease);
    } else if (l->phase == DBK_LEASE_AHEAD) {
        heap_remove(c, DBK_HEAP_AHEAD, lease);
    }
    l->phase = (uint8_t)phase;
    if (phase == DBK_LEASE_LIVE) {
        heap_add(c, DBK_HEAP_LIVE_EXPIRY, lease);
        heap_add(c, DBK_HEAP_LIVE_GRANT, lease);
        c->in_flight += l->kind == DBK_LEASE_EVENT;
    } else if (phase == DBK_LEASE_EXPIRED) {
        heap_add(c, DBK_HEAP_EXPIRED, lease);
    } else if (phase == DBK_LEASE_AHEAD) {
        heap_add(c, DBK_HEAP_AHEAD, lease);
    }
    ring_add(c, lease);
}

/* The first of a heap if the clock has moved it out of its phase, else 0. */
static uint32_t misplaced(const struct dbk_consumer *c, enum dbk_heap_order order,
                          enum dbk_lease_phase phase)
{
    const struct dbk_heap *heap = &c->heaps[order];

    if (heap->count == 0 || phase_at(&c->leases[heap->entries[0]], c->clock_us) == phase) {
        return 0;
    }
    return heap->entries[0];
}

void dbk_clock_set(struct dbk_state *s, struct dbk_consumer *c, int64_t now_us)
{
    if (c->clock_us == now_us) {
        return;
    }
    c->clock_us = now_us;
    for (;;) {
        uint32_t lease = misplaced(c, DBK_HEAP_LIVE_EXPIRY, DBK_LEASE_LIVE);
        uint32_t key = 0;

        if (lease == 0) {
            lease = misplaced(c, DBK_HEAP_LIVE_GRANT, DBK_LEASE_LIVE);
        }
        if (lease == 0) {
            lease = misplaced(c, DBK_HEAP_EXPIRED, DBK_LEASE_EXPIRED);
        }
        if (lease == 0) {
            lease = misplaced(c, DBK_HEAP_AHEAD, DBK_LEASE_AHEAD);
        }
        if (lease == 0) {
            return;
        }
        key = c->leases[lease].key;
        if (c->leases[lease].kind == DBK_LEASE_HOLD) {
            dbk_lease_remove(s, c, lease);
        } else {
            enter_phase(c, lease, phase_at(&c->leases[lease], now_us));
            dbk_key_refresh(s, c, key);
        }
    }
}

/* ---- entries --------------------------------------------------------------------------------------- */

static uint32_t *orphan_bucket(const struct dbk_consumer *c, uint64_t position)
{
    return &c->orphan_buckets[position % DBK_ORPHAN_BUCKETS];
}

static void orphan_link(struct dbk_consumer *c, uint32_t lease)
{
    uint32_t *bucket = orphan_bucket(c, c->leases[lease].position);

    c->leases[lease].bucket_next = *bucket;
    *bucket = lease;
    c->orphans++;
}

static void orphan_unlink(struct dbk_consumer *c, uint32_t lease)
{
    uint32_t *at = orphan_bucket(c, c->leases[lease].position);

    while (*at != lease) {
        dbk_assert(*at != 0);
        at = &c->leases[*at].bucket_next;
    }
    *at = c->leases[lease].bucket_next;
    c->orphans--;
}

uint32_t dbk_orphan_find(const struct dbk_consumer *c, uint64_t position)
{
    uint32_t at = *orphan_bucket(c, position);

    while (at != 0 && c->leases[at].position != position) {
        at = c->leases[at].bucket_next;
    }
    return at;
}

uint32_t dbk_hold_find(const struct dbk_consumer *c, uint32_t key)
{
    uint32_t first = c->keys[key].leases;
    uint32_t at = first;

    if (first == 0 || c->holds == 0) {
        return 0;
    }
    do {
        if (c->leases[at].kind == DBK_LEASE_HOLD) {
            return at;
        }
        at = c->leases[at].ring_next;
    } while (at != first);
    return 0;
}

uint32_t dbk_lease_add(struct dbk_state *s, struct dbk_consumer *c, enum dbk_lease_kind kind,
                       uint32_t key, uint32_t slot, uint64_t position)
{
    uint32_t lease = c->lease_free;

    (void)s;
    if (lease != 0) {
        c->lease_free = c->leases[lease].bucket_next;
    } else {
        lease = ++c->leases_used;
    }
    c->leases[lease] =
        (struct dbk_lease){.position = position, .slot = slot, .key = key, .kind = (uint8_t)kind};
    if (kind == DBK_LEASE_EVENT) {
        c->lease_of[slot] = lease;
    } else if (kind == DBK_LEASE_ORPHAN) {
        orphan_link(c, lease);
    } else {
        c->holds++;
    }
    ring_add(c, lease);
    return lease;
}

void dbk_lease_run(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease,
                   int64_t granted_at_us, int64_t expires_at_us)
{
    struct dbk_lease *l = &c->leases[lease];

    if (l->phase != DBK_LEASE_OFF) {
        enter_phase(c, lease, DBK_LEASE_OFF);
    }
    l->granted_at_us = granted_at_us;
    l->expires_at_us = expires_at_us;
    enter_phase(c, lease, phase_at(l, c->clock_us));
    dbk_key_refresh(s, c, l->key);
}

void dbk_lease_off(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease)
{
    if (c->leases[lease].phase != DBK_LEASE_OFF) {
        enter_phase(c, lease, DBK_LEASE_OFF);
        dbk_key_refresh(s, c, c->leases[lease].key);
    }
}

void dbk_lease_remove(struct dbk_state *s, struct dbk_consumer *c, uint32_t lease)
{
    struct dbk_lease *l = &c->leases[lease];
    uint32_t key = l->key;

    if (l->phase != DBK_LEASE_OFF) {
        enter_phase(c, lease, DBK_LEASE_OFF);
    }
    ring_remove(c, lease);
    if (l->kind == DBK_LEASE_EVENT) {
        c->lease_of[l->slot] = 0;
    } else if (l->kind == DBK_LEASE_ORPHAN) {
        orphan_unlink(c, lease);
    } else {
        c->holds--;
    }
    *l = (struct dbk_lease){.bucket_next = c->lease_free};
    c->lease_free = lease;
    dbk_key_refresh(s, c, key);
}

void dbk_lease_orphan(struct dbk_consumer *c, uint32_t lease)
{
    struct dbk_lease *l = &c->leases[lease];

    dbk_assert(l->kind == DBK_LEASE_EVENT);
    c->lease_of[l->slot] = 0;
    c->in_flight -= l->phase == DBK_LEASE_LIVE;
    l->slot = 0;
    l->kind = DBK_LEASE_ORPHAN;
    orphan_link(c, lease);
}

void dbk_lease_rekey(struct dbk_consumer *c, uint32_t lease, uint32_t key)
{
    ring_remove(c, lease);
    c->leases[lease].key = key;
    ring_add(c, lease);
}
