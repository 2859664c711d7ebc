/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass: claim, write, settle (contract section 5). What is written and what becomes of each row is
 * the search's; here are the clocks, the leases, the destinations and the journal. The settlement is in
 * settle.c.
 *
 * Threads: the worker's, or in tests its owner's.
 */
#include "delivery/delivery.h"

#include <stdio.h>

#include "base/fault.h"

/* ---- claim ------------------------------------------------------------------------------------- */

static bool claim(struct daybook_worker *w)
{
    const struct daybook_worker_options *o = &w->options;
    struct daybook_error err = {0};
    struct daybook_claim wanted = {
        .consumer = w->consumer,
        .events_max = w->pace.size,
        .bytes_max = o->claim_bytes,
        .key_run = o->key_run,
        .lease_ms = o->lease_ms,
        .hand_outs_max = o->hand_outs_max,
        .start = o->start,
    };
    /* Read before the journal grants the lease, so that it cannot end earlier than we think. */
    int64_t lease_end_us = dbk_worker_mono_us(w) + (int64_t)o->lease_ms * 1000;
    enum daybook_code code = daybook_journal_claim(w->journal, &wanted, dbk_worker_now_us(w),
                                                   dbk_worker_deadline_us(w), w->batch, &err);

    if (code != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_CLAIM_FAILED, code, err.message, 0);
        return false;
    }
    size_t again = 0;
    for (size_t i = 0; i < w->batch->count; i++) {
        const struct daybook_delivery *delivery = &w->batch->deliveries[i];
        w->rows[i] = dbk_worker_row(delivery);
        w->leases[i] = (struct dbk_lease){lease_end_us, delivery->lease_expires_at_us};
        again += delivery->redelivery ? 1 : 0;
    }
    if (again > 0) {
        dbk_worker_notify(
            w, (struct daybook_worker_event){.kind = DAYBOOK_WORKER_REDELIVERED, .count = again});
    }
    return true;
}

/* Claims; where nothing comes, what is held is let go and the round starts anew (W5b). */
static bool claim_or_start_anew(struct daybook_worker *w)
{
    if (!claim(w)) {
        return false;
    }
    if (w->batch->count == 0 && w->held.count > 0) {
        dbk_held_let_go(w);
        return claim(w);
    }
    return true;
}

/* ---- leases ------------------------------------------------------------------------------------ */

/* Whether the row may still be written in this pass, here or to the next destination. */
static bool is_in_play(const struct daybook_worker *w, size_t row)
{
    switch (w->search.rows[row].state) {
    case DBK_ROW_READY:
    case DBK_ROW_WAITING:
    case DBK_ROW_HELD:
        return true;
    case DBK_ROW_TAKEN:
        return w->search.stage + 1 < w->options.sink_count;
    case DBK_ROW_REFUSED:
    case DBK_ROW_BLAMED: /* at its last attempt written once more, when all else is (W6) */
        return w->search.confirming == row ||
               (!w->search.rows[row].confirmed &&
                w->batch->deliveries[row].attempt >= w->search.attempts_max);
    case DBK_ROW_LANDED:
    case DBK_ROW_SPENT:
    case DBK_ROW_CONDEMNED:
    case DBK_ROW_UNWRITTEN:
    case DBK_ROW_LEFT:
        break;
    }
    return false;
}

/* Extends the leases of all that may still be written, so that a long search does not lose what waits.
 * Rows whose extension is refused leave. */
static void extend_leases(struct daybook_worker *w, int64_t mono_us)
{
    struct daybook_error err = {0};
    int64_t now_us = dbk_worker_now_us(w);
    int64_t lease_us = (int64_t)w->options.lease_ms * 1000;
    size_t count = 0;

    for (size_t i = 0; i < w->search.count; i++) {
        if (is_in_play(w, i)) {
            w->extended[count] = (uint32_t)i;
            w->set[count++] = dbk_worker_hand_out(w, i);
        }
    }
    enum daybook_code code =
        daybook_journal_extend(w->journal, w->consumer, w->set, count, w->options.lease_ms, now_us,
                               dbk_worker_deadline_us(w), w->codes, &err);
    if (code != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (code == DAYBOOK_OK && w->codes[i] == DAYBOOK_OK) {
            w->leases[w->extended[i]] = (struct dbk_lease){mono_us + lease_us, now_us + lease_us};
        } else {
            dbk_search_leave(&w->search, w->extended[i]);
        }
    }
}

/* Whether something that may still be written would have less left after the next write than a write of its own
 * needs. What is not ours any more cannot be kept. */
static bool is_short_of_time(const struct daybook_worker *w, int64_t mono_us)
{
    for (size_t i = 0; i < w->search.count; i++) {
        int64_t left_us = w->leases[i].end_us - mono_us;
        if (left_us > 0 && left_us < 2 * w->write_timeout_us && is_in_play(w, i)) {
            return true;
        }
    }
    return false;
}

/* Whether every row of the write is held for as long as it may take. */
static bool is_covered(const struct daybook_worker *w, enum dbk_ask ask, int64_t mono_us)
{
    for (size_t i = 0; ask == DBK_ASK_ROWS && i < w->search.write_count; i++) {
        if (w->leases[w->search.write[i]].end_us - mono_us < w->write_timeout_us) {
            return false;
        }
    }
    return true;
}

/* No write starts on a lease that the write could outlive (W11): it is extended first. Nothing is extended
 * while a write is out, so that one that hangs is not kept alive. True: every row of the write is held for long
 * enough. */
static bool hold_leases(struct daybook_worker *w, enum dbk_ask ask)
{
    int64_t mono_us = dbk_worker_mono_us(w);

    if (dbk_fault(DBK_FAULT_LEASE_NOT_EXTENDED)) {
        return true;
    }
    if (is_short_of_time(w, mono_us) || !is_covered(w, ask, mono_us)) {
        extend_leases(w, mono_us);
    }
    return is_covered(w, ask, mono_us);
}

/* ---- write ------------------------------------------------------------------------------------- */

static bool is_past_stop(struct daybook_worker *w)
{
    return dbk_worker_is_stopped(w) && dbk_worker_mono_us(w) >= atomic_load(&w->stop_at_us);
}

/* Puts the rows that the search asks for into `write`. Returns how many. */
static size_t fill_write(struct daybook_worker *w, enum dbk_ask ask)
{
    const struct dbk_search *search = &w->search;

    if (ask == DBK_ASK_CONTROL) {
        w->write[0] =
            search->control_row == DBK_NO_ROW ? w->control.row : w->rows[search->control_row];
        return 1;
    }
    for (size_t i = 0; i < search->write_count; i++) {
        w->write[i] = w->rows[search->write[i]];
    }
    return search->write_count;
}

/* A control moves no counter but its own (W5). */
static void tell_write(struct daybook_worker *w, enum dbk_ask ask, size_t count, int64_t took_us)
{
    struct daybook_worker_event event = {.kind = DAYBOOK_WORKER_CONTROL,
                                         .sink = w->sinks[w->search.sink],
                                         .outcome = w->answer.kind,
                                         .duration_us = took_us,
                                         .message = dbk_answer_message(&w->answer)};

    if (ask == DBK_ASK_CONTROL) {
        w->controls++;
    } else {
        event.kind = DAYBOOK_WORKER_WRITE;
        event.count = count;
        event.effect = w->answer.effect;
        event.values_left_out = w->answer.values_left_out;
    }
    dbk_worker_notify(w, event);
}

enum written { WRITTEN, WRITTEN_CUT, WRITTEN_GONE };

/* Writes what the search asks for, outside the gate. */
static enum written write_once(struct daybook_worker *w, enum dbk_ask ask)
{
    struct daybook_sink *sink = w->sinks[w->search.sink];
    struct dbk_sink_note *note = &w->notes[w->search.sink];
    int64_t began_us = dbk_worker_mono_us(w);
    int64_t deadline_us = began_us + w->write_timeout_us;
    int64_t stop_us = atomic_load(&w->stop_at_us);
    size_t count = fill_write(w, ask);

    daybook_answer_reset(&w->answer);
    dbk_worker_leave(w);
    sink->ops->write(sink, w->write, count, stop_us < deadline_us ? stop_us : deadline_us,
                     &w->answer);
    if (!dbk_worker_enter(w)) {
        return WRITTEN_GONE;
    }
    note->asked = true;
    if (w->answer.kind != DAYBOOK_ANSWER_ACCEPTED) {
        (void)snprintf(note->reason, sizeof note->reason, "%s", dbk_answer_message(&w->answer));
    }
    tell_write(w, ask, count, dbk_worker_mono_us(w) - began_us);
    return w->answer.kind == DAYBOOK_ANSWER_UNAVAILABLE && is_past_stop(w) ? WRITTEN_CUT : WRITTEN;
}

/* Writes until the search is over. */
static enum written write_all(struct daybook_worker *w)
{
    enum dbk_ask ask;

    while ((ask = dbk_search_next(&w->search)) != DBK_ASK_NOTHING) {
        enum written written = WRITTEN_CUT;
        if (!is_past_stop(w)) {
            dbk_held_keep(w); /* a search may take longer than a lease (W5b) */
            if (!hold_leases(w, ask)) {
                continue;
            }
            written = write_once(w, ask);
        }
        if (written == WRITTEN_CUT) {
            dbk_search_stop(&w->search);
        }
        if (written != WRITTEN) {
            return written;
        }
        dbk_search_answer(&w->search, &w->answer);
    }
    return WRITTEN;
}

/* ---- the pass ---------------------------------------------------------------------------------- */

static void begin_search(struct daybook_worker *w)
{
    bool control =
        dbk_control_is_known(&w->control, dbk_worker_now_us(w),
                             daybook_journal_capacity(w->journal)->retain_acknowledged_us);

    for (size_t i = 0; i < w->options.sink_count; i++) {
        w->notes[i].asked = false;
    }
    dbk_search_begin(&w->search, w->batch->deliveries, w->batch->count, control);
}

void dbk_worker_pass(struct daybook_worker *w, struct dbk_pass *ret)
{
    *ret = (struct dbk_pass){.end = DBK_PASS_EMPTY};
    ret->acknowledged = dbk_worker_repeat_ack(w);
    dbk_held_keep(w);
    dbk_control_look_up(w);
    if (!claim_or_start_anew(w)) {
        ret->end = DBK_PASS_CLAIM_FAILED;
        return;
    }
    ret->claimed = w->batch->count;
    if (ret->claimed == 0) {
        return;
    }
    begin_search(w);
    enum written written = write_all(w);
    if (written == WRITTEN_GONE) {
        ret->end = DBK_PASS_GONE;
        return;
    }
    ret->end = written == WRITTEN_CUT ? DBK_PASS_CUT : DBK_PASS_SETTLED;
    ret->search = w->search.end;
    ret->retry_after_us = w->search.retry_after_us;
    dbk_worker_settle(w, ret);
}
