/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of a claim (P): which events are handed out (C3 to C9), in order of position, at the cost
 * of what is returned. Candidates are the eligible bits above the last event looked at, and the next
 * event of each key of which this walk has taken or condemned one; the lower position comes first,
 * which is what a scan over everything stored would find.
 *
 * Threads: the caller's state lock; a walk belongs to one claim.
 */
#include "engines/log/state_impl.h"

#include <stdlib.h>

#include "base/fault.h"

/* A key of which the walk has chosen something. */
struct run {
    uint32_t key;
    uint32_t taken;
    uint64_t last_position;
    bool closed; /* nothing more of it in this claim */
    /* while settling: */
    bool seen;
    bool broken;
    uint32_t settled_slot;
};

struct candidate {
    uint64_t position;
    uint32_t slot;
    uint32_t run;
};

struct walk_private {
    uint32_t picks_capacity;
    uint32_t picks_max;
    int64_t now_us;
    uint32_t events_max;
    uint64_t bytes_max;
    uint32_t key_run;
    uint32_t hand_outs_max;
    uint64_t looked; /* positions up to here were looked at; with `begun` */
    bool begun;
    uint32_t taken;
    uint64_t taken_bytes;
    struct run *runs;
    uint32_t run_count;
    struct candidate *heap;
    uint32_t heap_count;
    uint32_t *condemned_run;
};

enum daybook_code dbk_walk_new(uint32_t picks_max, struct dbk_walk **ret)
{
    struct dbk_walk *walk = calloc(1, sizeof *walk);
    struct walk_private *p = calloc(1, sizeof *p);
    /* Picks that are dropped stay in the list until it is settled, beside those that follow them. */
    size_t picks = 2 * (size_t)picks_max + DBK_CONDEMNED_MAX;
    size_t condemned = picks + DBK_CONDEMNED_MAX;

    if (walk == NULL || p == NULL) {
        free(walk);
        free(p);
        return DAYBOOK_NO_MEMORY;
    }
    walk->private_ = p;
    p->picks_max = picks_max;
    p->picks_capacity = (uint32_t)picks;
    walk->picks = calloc(picks, sizeof *walk->picks);
    walk->condemned = calloc(condemned, sizeof *walk->condemned);
    p->condemned_run = calloc(condemned, sizeof *p->condemned_run);
    p->runs = calloc(picks + condemned, sizeof *p->runs);
    p->heap = calloc(picks + condemned, sizeof *p->heap);
    if (walk->picks == NULL || walk->condemned == NULL || p->condemned_run == NULL ||
        p->runs == NULL || p->heap == NULL) {
        dbk_walk_free(walk);
        return DAYBOOK_NO_MEMORY;
    }
    *ret = walk;
    return DAYBOOK_OK;
}

void dbk_walk_free(struct dbk_walk *walk)
{
    struct walk_private *p = walk == NULL ? NULL : walk->private_;

    if (p != NULL) {
        free(p->runs);
        free(p->heap);
        free(p->condemned_run);
        free(walk->picks);
        free(walk->condemned);
    }
    free(p);
    free(walk);
}

/* ---- the heap of next events of keys under way ------------------------------------------------------- */

static void heap_push(struct walk_private *p, struct candidate candidate)
{
    uint32_t at = p->heap_count++;

    while (at > 0 && candidate.position < p->heap[(at - 1) / 2].position) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->heap[at] = candidate;
}

static void heap_pop(struct walk_private *p)
{
    struct candidate last = p->heap[--p->heap_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= p->heap_count) {
            break;
        }
        if (child + 1 < p->heap_count && p->heap[child + 1].position < p->heap[child].position) {
            child++;
        }
        if (last.position <= p->heap[child].position) {
            break;
        }
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = last;
}

/* ---- the walk ---------------------------------------------------------------------------------------- */

void dbk_walk_begin(struct dbk_state *state, struct dbk_walk *walk, uint32_t consumer,
                    const struct daybook_claim *claim, int64_t now_us)
{
    struct walk_private *p = walk->private_;
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);

    walk->pick_count = 0;
    walk->condemned_count = 0;
    walk->more = false;
    walk->consumer = consumer;
    p->now_us = now_us;
    p->events_max = claim->events_max < p->picks_max ? claim->events_max : p->picks_max;
    p->bytes_max = claim->bytes_max == 0 ? UINT64_MAX : claim->bytes_max;
    p->key_run = claim->key_run == 0 ? 1 : claim->key_run;
    p->hand_outs_max =
        claim->hand_outs_max == 0 ? state->options.attempts_max : claim->hand_outs_max;
    p->looked = 0;
    p->begun = false;
    p->taken = 0;
    p->taken_bytes = 0;
    p->run_count = 0;
    p->heap_count = 0;
    if (c != NULL) {
        dbk_clock_set(state, c, now_us);
    }
}

/* The next event of a key under way becomes a candidate. */
static void go_on_with(struct dbk_state *s, struct dbk_consumer *c, struct walk_private *p,
                       uint32_t run, uint32_t slot)
{
    uint32_t next = dbk_consumer_next_of_key(s, c, slot);

    if (next != 0) {
        heap_push(p, (struct candidate){
                         .position = dbk_slot_position(s, next), .slot = next, .run = run});
    }
}

/* Finds the candidates of the keys under way anew: the state may have changed since. What changed
 * about the events chosen so far is left to dbk_walk_settle; such a key ends here. */
static void resume(struct dbk_state *s, struct dbk_consumer *c, struct walk_private *p)
{
    p->heap_count = 0;
    for (uint32_t i = 0; i < p->run_count; i++) {
        struct run *run = &p->runs[i];
        uint32_t slot = 0;

        if (run->closed || run->taken >= p->key_run) {
            continue;
        }
        slot = dbk_slot_find(s, run->last_position);
        if (slot == 0 || !dbk_consumer_unresolved(s, c, slot)) {
            run->closed = true;
            continue;
        }
        slot = dbk_consumer_next_of_key(s, c, slot);
        if (slot != 0 && dbk_slot_position(s, slot) > p->looked) {
            heap_push(p, (struct candidate){
                             .position = dbk_slot_position(s, slot), .slot = slot, .run = i});
        } else if (slot != 0) {
            run->closed = true;
        }
    }
}

static uint32_t run_begin(struct dbk_state *s, struct dbk_consumer *c, struct walk_private *p,
                          uint32_t key)
{
    p->runs[p->run_count] = (struct run){.key = key};
    c->keys[key].next |= DBK_KEY_RESERVED;
    dbk_key_refresh(s, c, key);
    return p->run_count++;
}

static void condemn(struct dbk_walk *walk, uint32_t run, uint64_t position, uint32_t attempts,
                    enum daybook_quarantine_reason reason)
{
    struct walk_private *p = walk->private_;

    p->condemned_run[walk->condemned_count] = run;
    walk->condemned[walk->condemned_count++] =
        (struct dbk_condemned){.position = position, .attempts = attempts, .reason = reason};
}

/* What a hand-out of this event would be. */
static void pick_fill(const struct dbk_state *s, const struct dbk_consumer *c, uint32_t slot,
                      struct dbk_pick *pick)
{
    const struct dbk_slot *e = &s->slots[slot];
    const struct dbk_lease *l = &c->leases[c->lease_of[slot]];

    pick->position = dbk_slot_position(s, slot);
    pick->id_hash = e->id_hash;
    pick->accepted_at_us = e->accepted_at_us;
    pick->place = dbk_slot_place(e);
    pick->attempt = l->attempt + 1; /* entry 0 is all zero */
    pick->hand_outs = l->hand_outs + 1;
    pick->payload_bytes = dbk_slot_payload(e);
    pick->row_version = dbk_slot_row_version(e);
    pick->redelivery = dbk_fault(DBK_FAULT_REFUND_UNDOES_REDELIVERY)
                           ? l->attempt > 0
                           : (c->handed[dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) != 0;
}

/* Chooses one event, or says that the claim is full. */
static bool choose(struct dbk_state *s, struct dbk_consumer *c, struct dbk_walk *walk,
                   struct candidate at, bool of_heap)
{
    struct walk_private *p = walk->private_;
    struct dbk_pick *pick = &walk->picks[walk->pick_count];
    struct run *run = NULL;
    bool exhausted = false;
    bool damaged = dbk_slot_damaged(s, at.slot);

    *pick = (struct dbk_pick){0};
    pick_fill(s, c, at.slot, pick);
    exhausted = pick->attempt > p->hand_outs_max;
    /* Before damage is asked for: what a claim returns does not hang on whether it was found already. */
    if (!exhausted && p->taken > 0 && p->taken_bytes + pick->payload_bytes > p->bytes_max) {
        return false;
    }
    if (of_heap) {
        heap_pop(p);
    } else {
        at.run = run_begin(s, c, p, s->slots[at.slot].key);
    }
    p->looked = at.position;
    run = &p->runs[at.run];
    run->last_position = at.position;
    if (exhausted) {
        condemn(walk, at.run, at.position, pick->attempt - 1, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED);
    } else if (damaged) {
        condemn(walk, at.run, at.position, pick->attempt - 1, DAYBOOK_REASON_MALFORMED);
        run->closed = true;
        return true;
    } else {
        pick->private_[0] = at.run;
        walk->pick_count++;
        p->taken++;
        p->taken_bytes += pick->payload_bytes;
        run->taken++;
    }
    if (run->taken < p->key_run + (dbk_fault(DBK_FAULT_RUN_TOO_LONG) ? 1 : 0)) {
        go_on_with(s, c, p, at.run, at.slot);
    }
    return true;
}

uint32_t dbk_walk_pick(struct dbk_state *state, struct dbk_walk *walk)
{
    struct walk_private *p = walk->private_;
    struct dbk_consumer *c = dbk_consumer_find(state, walk->consumer);
    uint32_t before = walk->pick_count;
    uint64_t bit = 0;

    walk->more = false;
    if (c == NULL || p->events_max == 0) {
        return 0;
    }
    dbk_clock_set(state, c, p->now_us);
    if (p->begun) {
        resume(state, c, p);
        bit = dbk_bit_at_least(state, p->looked + 1);
    }
    p->begun = true;
    for (;;) {
        struct candidate at = {0};
        bool of_heap = false;

        if (p->taken >= p->events_max || walk->condemned_count >= DBK_CONDEMNED_MAX ||
            walk->pick_count >= p->picks_capacity) {
            walk->more = true;
            break;
        }
        bit = bit == DBK_BITS_NONE ? bit : dbk_bits_next(&c->eligible, bit);
        if (bit != DBK_BITS_NONE) {
            at.slot = dbk_bit_slot(state, bit);
            at.position = dbk_slot_position(state, at.slot);
        }
        of_heap = p->heap_count > 0 && (at.slot == 0 || p->heap[0].position < at.position);
        if (of_heap) {
            at = p->heap[0];
        }
        if (at.slot == 0) {
            break;
        }
        if (of_heap && dbk_slot_newer(state, at.slot)) {
            p->runs[at.run].closed = true; /* the key ends here (C9) */
            heap_pop(p);
            continue;
        }
        if (!choose(state, c, walk, at, of_heap)) {
            walk->more = true;
            break;
        }
    }
    return walk->pick_count - before;
}

/* What stands behind an event in its key is not considered any more in this claim (C4c). */
static void condemned_give_back(struct dbk_walk *walk, uint32_t run, uint64_t position)
{
    struct walk_private *p = walk->private_;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < walk->condemned_count; i++) {
        if (p->condemned_run[i] == run && walk->condemned[i].position > position) {
            continue;
        }
        p->condemned_run[kept] = p->condemned_run[i];
        walk->condemned[kept++] = walk->condemned[i];
    }
    walk->condemned_count = kept;
}

void dbk_walk_drop(struct dbk_state *state, struct dbk_walk *walk, uint32_t i, enum dbk_drop why,
                   int64_t retry_at_us)
{
    struct walk_private *p = walk->private_;
    struct dbk_consumer *c = dbk_consumer_find(state, walk->consumer);
    uint32_t run = walk->picks[i].private_[0];

    if (walk->picks[i].dropped) {
        return;
    }
    for (uint32_t k = i; k < walk->pick_count; k++) {
        struct dbk_pick *pick = &walk->picks[k];

        if (pick->private_[0] == run && !pick->dropped) {
            pick->dropped = true;
            p->taken--;
            p->taken_bytes -= pick->payload_bytes;
            p->runs[run].taken--;
        }
    }
    condemned_give_back(walk, run, walk->picks[i].position);
    p->runs[run].closed = true;
    if (c != NULL) {
        dbk_clock_set(state, c, p->now_us);
    }
    if (why == DBK_DROP_MALFORMED) {
        condemn(walk, run, walk->picks[i].position, walk->picks[i].attempt - 1,
                DAYBOOK_REASON_MALFORMED);
    } else if (c != NULL) {
        uint32_t key = p->runs[run].key;
        uint32_t hold = dbk_hold_find(c, key);

        if (hold == 0 && c->holds < DBK_HOLDS_MAX && state->keys[key].first != 0) {
            hold = dbk_lease_add(state, c, DBK_LEASE_HOLD, key, 0, 0);
        }
        if (hold != 0) {
            dbk_lease_run(state, c, hold, p->now_us, retry_at_us);
        }
    }
}

/* ---- settling ------------------------------------------------------------------------------------------- */

/* Whether an event chosen in this run is still its key's next in line; then the run moves on. */
static bool still_in_line(const struct dbk_state *s, const struct dbk_consumer *c, struct run *run,
                          uint64_t position)
{
    uint32_t slot = dbk_slot_find(s, position);
    uint32_t expected = 0;

    if (!run->seen) {
        run->seen = true;
        run->broken = dbk_key_busy(c, run->key, DBK_BUSY_LEASED);
        expected = c->keys[run->key].next & ~DBK_KEY_RESERVED;
    } else if (!run->broken) {
        expected = dbk_consumer_next_of_key(s, c, run->settled_slot);
    }
    if (run->broken || slot == 0 || slot != expected) {
        run->broken = true;
        return false;
    }
    run->settled_slot = slot;
    return true;
}

static bool settle_pick(const struct dbk_state *s, const struct dbk_consumer *c, struct run *run,
                        struct dbk_pick *pick)
{
    if (pick->dropped) {
        return false;
    }
    if (!still_in_line(s, c, run, pick->position)) {
        return false;
    }
    pick_fill(s, c, run->settled_slot, pick); /* a refund may have come in between */
    return true;
}

static bool settle_condemned(const struct dbk_state *s, const struct dbk_consumer *c,
                             const struct walk_private *p, struct run *run,
                             struct dbk_condemned *condemned)
{
    if (!still_in_line(s, c, run, condemned->position)) {
        return false;
    }
    condemned->attempts = c->leases[c->lease_of[run->settled_slot]].attempt;
    if (condemned->reason == DAYBOOK_REASON_ATTEMPTS_EXHAUSTED &&
        condemned->attempts < p->hand_outs_max) {
        run->broken = true;
        return false;
    }
    return true;
}

/* Those that dbk_walk_drop added stand behind the others: brings all into order of position. */
static void condemned_sort(struct dbk_walk *walk)
{
    struct walk_private *p = walk->private_;

    for (uint32_t i = 1; i < walk->condemned_count; i++) {
        struct dbk_condemned condemned = walk->condemned[i];
        uint32_t run = p->condemned_run[i];
        uint32_t at = i;

        for (; at > 0 && walk->condemned[at - 1].position > condemned.position; at--) {
            walk->condemned[at] = walk->condemned[at - 1];
            p->condemned_run[at] = p->condemned_run[at - 1];
        }
        walk->condemned[at] = condemned;
        p->condemned_run[at] = run;
    }
}

void dbk_walk_settle(struct dbk_state *state, struct dbk_walk *walk)
{
    struct walk_private *p = walk->private_;
    struct dbk_consumer *c = dbk_consumer_find(state, walk->consumer);
    uint32_t picks = 0;
    uint32_t condemned = 0;
    uint32_t i = 0;
    uint32_t k = 0;

    if (c == NULL) {
        walk->pick_count = 0;
        walk->condemned_count = 0;
        return;
    }
    dbk_clock_set(state, c, p->now_us);
    condemned_sort(walk);
    for (i = 0; i < p->run_count; i++) {
        p->runs[i].seen = false;
        p->runs[i].broken = false;
    }
    for (i = 0; i < walk->pick_count || k < walk->condemned_count;) {
        if (k == walk->condemned_count ||
            (i < walk->pick_count && walk->picks[i].position < walk->condemned[k].position)) {
            if (settle_pick(state, c, &p->runs[walk->picks[i].private_[0]], &walk->picks[i])) {
                walk->picks[picks++] = walk->picks[i];
            }
            i++;
        } else {
            if (settle_condemned(state, c, p, &p->runs[p->condemned_run[k]], &walk->condemned[k])) {
                p->condemned_run[condemned] = p->condemned_run[k];
                walk->condemned[condemned++] = walk->condemned[k];
            }
            k++;
        }
    }
    walk->pick_count = picks;
    walk->condemned_count = condemned;
}

void dbk_walk_end(struct dbk_state *state, struct dbk_walk *walk)
{
    struct walk_private *p = walk->private_;
    struct dbk_consumer *c = dbk_consumer_find(state, walk->consumer);

    for (uint32_t i = 0; c != NULL && i < p->run_count; i++) {
        uint32_t key = p->runs[i].key;

        c->keys[key].next &= ~DBK_KEY_RESERVED;
        dbk_key_refresh(state, c, key);
        dbk_key_release(state, key);
    }
    p->run_count = 0;
    p->heap_count = 0;
}

void dbk_state_apply_claim(struct dbk_state *state, uint32_t consumer, uint32_t lease_ms,
                           int64_t now_us, uint64_t first_token,
                           const struct dbk_claim_entry *entries, size_t count)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    int64_t expires_at_us = dbk_time_add(now_us, (int64_t)lease_ms * 1000);

    for (size_t i = 0; c != NULL && i < count; i++) {
        uint32_t slot = dbk_slot_find(state, entries[i].position);
        struct dbk_lease *l = NULL;
        uint32_t lease = 0;

        if (slot == 0 || entries[i].position < c->start) {
            continue;
        }
        c->handed[dbk_slot_entry(state, slot)] |= dbk_slot_mask(slot);
        if (!dbk_consumer_unresolved(state, c, slot)) {
            continue;
        }
        lease = c->lease_of[slot];
        if (lease == 0) {
            lease = dbk_lease_add(state, c, DBK_LEASE_EVENT, state->slots[slot].key, slot,
                                  entries[i].position);
        }
        l = &c->leases[lease];
        l->token = first_token + i;
        l->attempt = entries[i].attempt;
        l->hand_outs = entries[i].hand_outs;
        l->refunded = 0;
        dbk_lease_run(state, c, lease, now_us, expires_at_us);
    }
}
