/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept leased while an outage lasts or is in doubt (W5b), so that each claim reaches behind what
 * was tried. Its attempts are given back when it is let go, and its leases with them.
 *
 * Threads: the worker's.
 */
#include "delivery/delivery.h"

#include <stdlib.h>

#include "base/fault.h"

#define CLOCK_JUMP_US 1000000 /* more than a clock that is slewed goes between two looks */

static int64_t length_us(const struct daybook_worker *w, unsigned doublings)
{
    int64_t ms = (int64_t)w->options.lease_ms << doublings;

    return (ms < INT32_MAX ? ms : INT32_MAX) * 1000; /* more no lease may have */
}

/* When less than half of its lease is left; at once for what is not held any more. */
static int64_t due_us(const struct daybook_worker *w, const struct dbk_held_lease *lease)
{
    return lease->end_us == INT64_MIN ? INT64_MIN
                                      : lease->end_us - length_us(w, lease->doublings) / 2;
}

void dbk_held_add(struct daybook_worker *w, const struct daybook_hand_out *set, size_t count,
                  int64_t end_us)
{
    struct dbk_held *held = &w->held;

    if (dbk_fault(DBK_FAULT_HOLDS_NOTHING)) {
        dbk_worker_give_back(w, set, count, DBK_LEASES_TOO);
        return;
    }
    if (held->count + count > held->max) {
        dbk_held_let_go(w); /* the round starts anew before its end */
    }
    for (size_t i = 0; i < count; i++) {
        struct dbk_held_lease *lease = &held->set[held->count++];
        *lease = (struct dbk_held_lease){.hand_out = set[i], .end_us = end_us};
        held->due_us = due_us(w, lease) < held->due_us ? due_us(w, lease) : held->due_us;
    }
}

int64_t dbk_held_due_us(const struct daybook_worker *w)
{
    return w->held.due_us;
}

/* Extends what stands in `from`, `count` of them with one length, for `doublings`. What is refused is no
 * longer ours: its attempt goes back, and its place gets the end INT64_MIN. */
static void keep_step(struct daybook_worker *w, const uint32_t *from, size_t count,
                      unsigned doublings, int64_t mono_us)
{
    struct dbk_held_lease *set = w->held.set;
    struct daybook_error err = {0};
    size_t lost = 0;

    for (size_t i = 0; i < count; i++) {
        w->set[i] = set[from[i]].hand_out;
    }
    enum daybook_code code = daybook_journal_extend(
        w->journal, w->consumer, w->set, count, (uint32_t)(length_us(w, doublings) / 1000),
        dbk_worker_now_us(w), dbk_worker_deadline_us(w), w->codes, &err);
    if (code != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, count);
    }
    for (size_t i = 0; i < count; i++) {
        struct dbk_held_lease *lease = &set[from[i]];
        if (code == DAYBOOK_OK && w->codes[i] == DAYBOOK_OK) {
            lease->end_us = mono_us + length_us(w, doublings);
            lease->doublings = doublings;
        } else {
            lease->end_us = INT64_MIN;
            w->set[lost++] = lease->hand_out;
        }
    }
    dbk_worker_give_back(w, w->set, lost, DBK_ATTEMPTS_ONLY);
}

/* Extends those with this length that are due, all of them with `all`. */
static void keep_length(struct daybook_worker *w, unsigned doublings, bool all, int64_t mono_us)
{
    uint32_t from[DBK_HELD_STEP];
    size_t count = 0;
    unsigned longer = doublings < DBK_HELD_DOUBLINGS ? doublings + 1 : doublings;

    for (size_t i = 0; i < w->held.count; i++) {
        const struct dbk_held_lease *lease = &w->held.set[i];
        /* Those that are due soon come along: each extension by itself would cost a block of the log. */
        bool due = all || due_us(w, lease) <= mono_us + length_us(w, doublings) / 8;
        if (lease->doublings == doublings && lease->end_us != INT64_MIN && due) {
            from[count++] = (uint32_t)i;
        }
        if (count == DBK_HELD_STEP || (count > 0 && i + 1 == w->held.count)) {
            keep_step(w, from, count, longer, mono_us);
            count = 0;
        }
    }
}

/* Whether the wall clock has jumped: by it the journal may let leases go that would last (C5), and what is
 * handed out again before its attempt is given back has lost that. */
static bool clock_jumped(struct daybook_worker *w, int64_t mono_us)
{
    int64_t before_us = w->held.offset_us;

    w->held.offset_us = dbk_worker_now_us(w) - mono_us;
    return llabs(w->held.offset_us - before_us) > CLOCK_JUMP_US;
}

void dbk_held_keep(struct daybook_worker *w)
{
    struct dbk_held *held = &w->held;
    int64_t mono_us = dbk_worker_mono_us(w);
    bool jumped = clock_jumped(w, mono_us);
    size_t kept = 0;

    if (!jumped && mono_us < held->due_us) {
        return;
    }
    /* The longest first, so that what is extended is not looked at once more. */
    for (unsigned doublings = DBK_HELD_DOUBLINGS + 1; doublings-- > 0;) {
        keep_length(w, doublings, jumped, mono_us);
    }
    held->due_us = INT64_MAX;
    for (size_t i = 0; i < held->count; i++) {
        if (held->set[i].end_us != INT64_MIN) {
            held->set[kept++] = held->set[i];
            int64_t due = due_us(w, &held->set[kept - 1]);
            held->due_us = due < held->due_us ? due : held->due_us;
        }
    }
    held->count = kept;
}

void dbk_held_let_go(struct daybook_worker *w)
{
    struct daybook_hand_out set[DBK_HELD_STEP];

    for (size_t from = 0; from < w->held.count;) {
        size_t count = w->held.count - from < DBK_HELD_STEP ? w->held.count - from : DBK_HELD_STEP;
        for (size_t i = 0; i < count; i++) {
            set[i] = w->held.set[from + i].hand_out;
        }
        dbk_worker_give_back(w, set, count, DBK_LEASES_TOO);
        from += count;
    }
    w->held.count = 0;
    w->held.due_us = INT64_MAX;
}
