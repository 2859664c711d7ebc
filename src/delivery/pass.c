/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass: claim, write, settle (contract section 5). What is written and what becomes of each row is
 * the plan's; here are the clocks, the leases, the destinations and the journal.
 *
 * Threads: the worker's, or in tests its owner's.
 */
#include "delivery/delivery.h"

#include <string.h>

/* ---- telling ----------------------------------------------------------------------------------- */

static void tell_code(struct daybook_worker *w, enum daybook_worker_event_kind kind,
                      enum daybook_code code, const char *message, size_t count)
{
    dbk_worker_notify(w, (struct daybook_worker_event){
                             .kind = kind, .code = code, .message = message, .count = count});
}

static void tell_count(struct daybook_worker *w, enum daybook_worker_event_kind kind, size_t count)
{
    if (count > 0) {
        dbk_worker_notify(w, (struct daybook_worker_event){.kind = kind, .count = count});
    }
}

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
        tell_code(w, DAYBOOK_WORKER_CLAIM_FAILED, code, err.message, 0);
        return false;
    }
    size_t again = 0;
    for (size_t i = 0; i < w->batch->count; i++) {
        const struct daybook_delivery *delivery = &w->batch->deliveries[i];
        w->rows[i].event = delivery->event;
        w->rows[i].row_version = delivery->row_version;
        w->rows[i].position = delivery->position;
        w->rows[i].accepted_at_us = delivery->accepted_at_us;
        w->leases[i] = (struct dbk_lease){lease_end_us, delivery->lease_expires_at_us};
        again += delivery->redelivery ? 1 : 0;
    }
    tell_count(w, DAYBOOK_WORKER_REDELIVERED, again);
    return true;
}

/* ---- leases ------------------------------------------------------------------------------------ */

static struct daybook_hand_out hand_out(const struct daybook_worker *w, size_t index)
{
    const struct daybook_delivery *delivery = &w->batch->deliveries[index];

    return (struct daybook_hand_out){delivery->position, delivery->token};
}

/* No write starts on a lease that the write could outlive (W11): it is extended first, and rows whose
 * extension is refused leave the pass. True: every row of the write is held for long enough. */
static bool hold_leases(struct daybook_worker *w)
{
    struct dbk_plan *plan = &w->plan;
    int64_t mono_us = dbk_worker_mono_us(w);
    bool short_of_time = false;

    for (size_t i = 0; i < plan->write_count; i++) {
        w->set[i] = hand_out(w, plan->write[i]);
        short_of_time |= w->leases[plan->write[i]].end_us - mono_us < w->write_timeout_us;
    }
    if (!short_of_time) {
        return true;
    }
    struct daybook_error err = {0};
    int64_t now_us = dbk_worker_now_us(w);
    int64_t lease_us = (int64_t)w->options.lease_ms * 1000;
    enum daybook_code code = daybook_journal_extend(w->journal, w->consumer, w->set,
                                                    plan->write_count, w->options.lease_ms, now_us,
                                                    dbk_worker_deadline_us(w), w->codes, &err);
    if (code != DAYBOOK_OK) {
        tell_code(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, plan->write_count);
    }
    bool all_held = true;
    for (size_t i = 0; i < plan->write_count; i++) {
        if (code == DAYBOOK_OK && w->codes[i] == DAYBOOK_OK) {
            w->leases[plan->write[i]] = (struct dbk_lease){mono_us + lease_us, now_us + lease_us};
        } else {
            dbk_plan_leave(plan, plan->write[i]);
            all_held = false;
        }
    }
    return all_held;
}

/* ---- write ------------------------------------------------------------------------------------- */

static bool is_past_stop(struct daybook_worker *w)
{
    return dbk_worker_is_stopped(w) && dbk_worker_mono_us(w) >= atomic_load(&w->stop_at_us);
}

static void note_sink(struct daybook_worker *w, size_t index, bool cut)
{
    enum dbk_sink_state state =
        w->answer.kind == DAYBOOK_ANSWER_UNAVAILABLE ? DBK_SINK_DOWN : DBK_SINK_UP;

    /* A refusal that names nobody says neither; what we cut off ourselves is no outage. */
    if (cut || w->answer.kind == DAYBOOK_ANSWER_REFUSED || w->sink_states[index] == state) {
        return;
    }
    w->sink_states[index] = state;
    dbk_worker_notify(w, (struct daybook_worker_event){
                             .kind = state == DBK_SINK_UP ? DAYBOOK_WORKER_DESTINATION_UP
                                                          : DAYBOOK_WORKER_DESTINATION_DOWN,
                             .sink = w->sinks[index],
                             .message = state == DBK_SINK_UP ? "" : w->answer.words.message});
}

enum written { WRITTEN, WRITTEN_CUT, WRITTEN_GONE };

/* Writes what the plan asks for, outside the gate. */
static enum written write_once(struct daybook_worker *w)
{
    struct dbk_plan *plan = &w->plan;
    size_t index = plan->sink;
    struct daybook_sink *sink = w->sinks[index];
    int64_t began_us = dbk_worker_mono_us(w);
    int64_t deadline_us = began_us + w->write_timeout_us;
    int64_t stop_us = atomic_load(&w->stop_at_us);

    for (size_t i = 0; i < plan->write_count; i++) {
        w->write[i] = w->rows[plan->write[i]];
    }
    dbk_answer_reset(&w->answer);
    dbk_worker_leave(w);
    sink->ops->write(sink, w->write, plan->write_count,
                     stop_us < deadline_us ? stop_us : deadline_us, &w->answer);
    if (!dbk_worker_enter(w)) {
        return WRITTEN_GONE;
    }
    bool cut = w->answer.kind == DAYBOOK_ANSWER_UNAVAILABLE && is_past_stop(w);
    dbk_worker_notify(w,
                      (struct daybook_worker_event){.kind = DAYBOOK_WORKER_WRITE,
                                                    .sink = sink,
                                                    .outcome = w->answer.kind,
                                                    .count = plan->write_count,
                                                    .values_left_out = w->answer.values_left_out,
                                                    .duration_us = dbk_worker_mono_us(w) - began_us,
                                                    .message = dbk_answer_message(&w->answer)});
    note_sink(w, index, cut);
    return cut ? WRITTEN_CUT : WRITTEN;
}

/* Writes until the plan is over. */
static enum written write_all(struct daybook_worker *w)
{
    while (dbk_plan_next(&w->plan)) {
        if (is_past_stop(w)) {
            dbk_plan_stop(&w->plan);
            return WRITTEN_CUT;
        }
        if (!hold_leases(w)) {
            continue;
        }
        enum written written = write_once(w);
        if (written == WRITTEN_GONE) {
            return WRITTEN_GONE;
        }
        if (written == WRITTEN_CUT) {
            dbk_plan_stop(&w->plan);
            return WRITTEN_CUT;
        }
        dbk_plan_answer(&w->plan, &w->answer);
    }
    return WRITTEN;
}

/* ---- settle ------------------------------------------------------------------------------------ */

static size_t gather_fate(struct daybook_worker *w, enum dbk_row_fate fate)
{
    size_t count = 0;

    for (size_t i = 0; i < w->plan.count; i++) {
        if (w->plan.states[i].fate == fate) {
            w->set[count++] = hand_out(w, i);
        }
    }
    return count;
}

/* Acknowledges `set`. Returns whether the journal answered; `ret_granted` is what it granted. */
static bool acknowledge(struct daybook_worker *w, const struct daybook_hand_out *set, size_t count,
                        size_t *ret_granted)
{
    struct daybook_error err = {0};
    size_t granted = 0;
    enum daybook_code code =
        daybook_journal_ack(w->journal, w->consumer, set, count, dbk_worker_now_us(w),
                            dbk_worker_deadline_us(w), w->codes, &err);

    if (code != DAYBOOK_OK) {
        tell_code(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, count);
        return false;
    }
    enum daybook_code refusal = DAYBOOK_OK;
    for (size_t i = 0; i < count; i++) {
        granted += w->codes[i] == DAYBOOK_OK ? 1 : 0;
        refusal = refusal == DAYBOOK_OK ? w->codes[i] : refusal;
    }
    if (granted < count) {
        tell_code(w, DAYBOOK_WORKER_SETTLE_FAILED, refusal,
                  "events that landed could not be acknowledged", count - granted);
    }
    w->delivered += granted;
    tell_count(w, DAYBOOK_WORKER_ACKNOWLEDGED, granted);
    *ret_granted = granted;
    return true;
}

/* Gives attempts back (R1), and the leases up first where nobody should wait for them (X1 knows no
 * hand-out that was given back). What fails costs a wait or an attempt, never an event. */
static void give_back(struct daybook_worker *w, size_t count, bool leases_too)
{
    struct daybook_error err = {0};
    int64_t deadline_us = dbk_worker_deadline_us(w);
    enum daybook_code code = DAYBOOK_OK;

    if (count == 0) {
        return;
    }
    if (leases_too) {
        code = daybook_journal_extend(w->journal, w->consumer, w->set, count, 0,
                                      dbk_worker_now_us(w), deadline_us, w->codes, &err);
    }
    enum daybook_code refunded = daybook_journal_relinquish(
        w->journal, w->consumer, w->set, count, dbk_worker_now_us(w), deadline_us, w->codes, &err);
    if (code != DAYBOOK_OK || refunded != DAYBOOK_OK) {
        tell_code(w, DAYBOOK_WORKER_SETTLE_FAILED, code != DAYBOOK_OK ? code : refunded,
                  err.message, count);
    }
}

size_t dbk_worker_repeat_ack(struct daybook_worker *w)
{
    size_t granted = 0;

    if (w->unacked_count > 0) {
        (void)acknowledge(w, w->unacked, w->unacked_count, &granted);
        w->unacked_count = 0;
    }
    return granted;
}

/* The first end of a lease that may bring something back. */
static void note_expiries(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->plan.count; i++) {
        if (w->plan.states[i].fate != DBK_ROW_LANDED &&
            w->leases[i].expires_at_us < w->next_expiry_us) {
            w->next_expiry_us = w->leases[i].expires_at_us;
        }
    }
}

static void tell_outcome(struct daybook_worker *w, const struct dbk_pass *pass)
{
    for (size_t i = 0; i < w->plan.sink_count; i++) {
        size_t taken = dbk_plan_taken(&w->plan, i);
        if (taken > 0) {
            dbk_worker_notify(w, (struct daybook_worker_event){.kind = DAYBOOK_WORKER_LANDED,
                                                               .sink = w->sinks[i],
                                                               .count = taken});
        }
    }
    if (pass->landed < pass->claimed && pass->end != DBK_PASS_CUT) {
        w->failed++;
        tell_count(w, DAYBOOK_WORKER_FAILED, pass->claimed - pass->landed);
    }
}

/* W9: whether or not the acknowledgement succeeded. */
static void advise(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->plan.count; i++) {
        if (w->plan.states[i].fate == DBK_ROW_LANDED) {
            dbk_advisories_offer(w, &w->rows[i]);
        }
    }
    dbk_advisories_publish(w);
}

/* What landed is acknowledged as one set, first (W8); then attempts go back (W7). */
static void settle(struct daybook_worker *w, struct dbk_pass *pass)
{
    size_t granted = 0;

    pass->landed = gather_fate(w, DBK_ROW_LANDED);
    if (pass->landed > 0 && !acknowledge(w, w->set, pass->landed, &granted)) {
        memcpy(w->unacked, w->set, pass->landed * sizeof w->set[0]);
        w->unacked_count = pass->landed;
        give_back(w, pass->landed, false);
    }
    pass->acknowledged += granted;
    advise(w);
    size_t unwritten = gather_fate(w, DBK_ROW_UNWRITTEN);
    give_back(w, unwritten, pass->end == DBK_PASS_CUT);
    note_expiries(w);
    tell_outcome(w, pass);
}

void dbk_worker_pass(struct daybook_worker *w, struct dbk_pass *ret)
{
    *ret = (struct dbk_pass){.end = DBK_PASS_EMPTY};
    ret->acknowledged = dbk_worker_repeat_ack(w);
    if (!claim(w)) {
        ret->end = DBK_PASS_CLAIM_FAILED;
        return;
    }
    ret->claimed = w->batch->count;
    if (ret->claimed == 0) {
        return;
    }
    dbk_plan_begin(&w->plan, w->rows, w->batch->count, w->options.sink_count);
    enum written written = write_all(w);
    if (written == WRITTEN_GONE) {
        ret->end = DBK_PASS_GONE;
        return;
    }
    ret->end = written == WRITTEN_CUT ? DBK_PASS_CUT : DBK_PASS_SETTLED;
    ret->plan = w->plan.end;
    ret->retry_after_us = w->plan.retry_after_us;
    settle(w, ret);
}
