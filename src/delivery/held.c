/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept leased while an outage lasts or is in doubt (W5b), so that each claim reaches behind what
 * was tried. Its attempts are given back when it is let go, and its leases with them.
 *
 * Threads: the worker's.
 */
#include "delivery/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#define CLOCK_JUMP_US 1000000 /* more than a clock that is slewed goes between two looks */

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
    memcpy(held->set + held->count, set, count * sizeof *set);
    held->count += count;
    held->end_us = count > 0 && end_us < held->end_us ? end_us : held->end_us;
}

int64_t dbk_held_due_us(const struct daybook_worker *w)
{
    return w->held.count == 0 ? INT64_MAX
                              : w->held.end_us - (int64_t)w->options.lease_ms * 1000 / 2;
}

/* How many of `left` go into one operation. */
static size_t step_of(size_t left)
{
    return left < DBK_HELD_STEP ? left : DBK_HELD_STEP;
}

/* Extends one step. What is refused is no longer ours: its attempt goes back. Returns how many are kept,
 * moved to `to`. */
static size_t keep_step(struct daybook_worker *w, size_t from, size_t count, size_t to)
{
    struct daybook_hand_out *set = w->held.set;
    struct daybook_error err = {0};
    size_t kept = to;
    size_t lost = 0;
    enum daybook_code code =
        daybook_journal_extend(w->journal, w->consumer, set + from, count, w->options.lease_ms,
                               dbk_worker_now_us(w), dbk_worker_deadline_us(w), w->codes, &err);

    if (code != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (code == DAYBOOK_OK && w->codes[i] == DAYBOOK_OK) {
            set[kept++] = set[from + i];
        } else {
            w->set[lost++] = set[from + i];
        }
    }
    dbk_worker_give_back(w, w->set, lost, DBK_ATTEMPTS_ONLY);
    return kept;
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
    int64_t mono_us = dbk_worker_mono_us(w);
    size_t kept = 0;

    if (!clock_jumped(w, mono_us) && mono_us < dbk_held_due_us(w)) {
        return;
    }
    for (size_t from = 0; from < w->held.count;) {
        size_t count = step_of(w->held.count - from);
        kept = keep_step(w, from, count, kept);
        from += count;
    }
    w->held.count = kept;
    w->held.end_us = kept == 0 ? INT64_MAX : mono_us + (int64_t)w->options.lease_ms * 1000;
}

void dbk_held_let_go(struct daybook_worker *w)
{
    for (size_t from = 0; from < w->held.count;) {
        size_t count = step_of(w->held.count - from);
        dbk_worker_give_back(w, w->held.set + from, count, DBK_LEASES_TOO);
        from += count;
    }
    w->held.count = 0;
    w->held.end_us = INT64_MAX;
}
