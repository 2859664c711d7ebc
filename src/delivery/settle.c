/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a pass: what became of each row goes to the journal, and is told (W6 to W8, W10).
 *
 * Threads: the worker's, or in tests its owner's.
 */
#include "delivery/delivery.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "delivery/words.h"

/* ---- telling ----------------------------------------------------------------------------------- */

void dbk_worker_tell_failure(struct daybook_worker *w, enum daybook_worker_event_kind kind,
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

/* Whether a destination that was asked in this pass is there (told where it changed). */
static void tell_presence(struct daybook_worker *w, size_t sink)
{
    struct dbk_sink_note *note = &w->notes[sink];
    enum dbk_sink_state state = w->recall.sinks[sink].away ? DBK_SINK_DOWN : DBK_SINK_UP;

    if (!note->asked || note->state == state) {
        return;
    }
    note->state = state;
    dbk_worker_notify(w, (struct daybook_worker_event){
                             .kind = state == DBK_SINK_UP ? DAYBOOK_WORKER_DESTINATION_UP
                                                          : DAYBOOK_WORKER_DESTINATION_DOWN,
                             .sink = w->sinks[sink],
                             .message = state == DBK_SINK_UP ? "" : note->reason});
}

/* Why a destination is braked (W6b). */
static void brake_reason(const struct daybook_worker *w, size_t sink, char *ret, size_t size)
{
    const struct dbk_recall_sink *s = &w->recall.sinks[sink];

    (void)snprintf(ret, size,
                   "%u different events in a row were refused and none was accepted; nothing is "
                   "quarantined until one is. The last: %.300s%s%.60s",
                   s->in_a_row, s->words.message, s->words.code[0] != '\0' ? " " : "",
                   s->words.code);
}

static void tell_brake(struct daybook_worker *w, size_t sink)
{
    struct dbk_sink_note *note = &w->notes[sink];
    bool braked = w->recall.sinks[sink].braked;
    char reason[sizeof note->reason] = "";

    if (note->braked == braked) {
        return;
    }
    note->braked = braked;
    if (braked) {
        brake_reason(w, sink, reason, sizeof reason);
    }
    dbk_worker_notify(w, (struct daybook_worker_event){
                             .kind = braked ? DAYBOOK_WORKER_BRAKED : DAYBOOK_WORKER_BRAKE_LIFTED,
                             .sink = w->sinks[sink],
                             .count = braked ? w->recall.sinks[sink].in_a_row : 0,
                             .message = reason});
}

static void publish_sink(struct daybook_worker *w, size_t sink)
{
    const struct dbk_recall_sink *s = &w->recall.sinks[sink];
    struct daybook_worker_sink_stats *ret = &w->stats.sinks[sink];

    ret->away = s->away;
    ret->braked = s->braked;
    ret->refused_in_a_row = s->in_a_row;
    ret->reason[0] = '\0';
    if (s->braked) {
        brake_reason(w, sink, ret->reason, sizeof ret->reason);
    } else if (s->away) {
        memcpy(ret->reason, w->notes[sink].reason, sizeof ret->reason);
    }
}

void dbk_worker_publish_stats(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    w->stats.delivered = w->delivered;
    w->stats.failed = w->failed;
    w->stats.quarantined = w->quarantined;
    w->stats.controls = w->controls;
    w->stats.held = w->held.count;
    w->stats.sink_count = w->options.sink_count;
    for (size_t i = 0; i < w->options.sink_count; i++) {
        publish_sink(w, i);
    }
    dbk_mutex_unlock(&w->lock);
}

/* W10: an event counts once, however often it was written. */
static void tell_outcome(struct daybook_worker *w, const struct dbk_pass *pass)
{
    for (size_t i = 0; i < w->options.sink_count; i++) {
        size_t taken = dbk_search_taken(&w->search, i);
        if (dbk_fault(DBK_FAULT_COUNTS_EACH_WRITE) && w->search.grouped) {
            taken *= 2;
        }
        if (taken > 0) {
            dbk_worker_notify(w, (struct daybook_worker_event){.kind = DAYBOOK_WORKER_LANDED,
                                                               .sink = w->sinks[i],
                                                               .count = taken});
        }
        if (pass->end != DBK_PASS_CUT) {
            tell_presence(w, i);
            tell_brake(w, i);
        }
    }
    if (pass->landed < pass->claimed && pass->end != DBK_PASS_CUT) {
        w->failed++;
        tell_count(w, DAYBOOK_WORKER_FAILED, pass->claimed - pass->landed);
    }
}

/* ---- acknowledgements ---------------------------------------------------------------------------- */

struct daybook_row dbk_worker_row(const struct daybook_delivery *delivery)
{
    return (struct daybook_row){.event = delivery->event,
                                .row_version = delivery->row_version,
                                .position = delivery->position,
                                .accepted_at_us = delivery->accepted_at_us};
}

struct daybook_hand_out dbk_worker_hand_out(const struct daybook_worker *w, size_t row)
{
    const struct daybook_delivery *delivery = &w->batch->deliveries[row];

    return (struct daybook_hand_out){delivery->position, delivery->token};
}

static size_t gather(struct daybook_worker *w, enum dbk_row_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < w->search.count; i++) {
        if (w->search.rows[i].state == state ||
            (state == DBK_ROW_LANDED && dbk_fault(DBK_FAULT_ACKS_UNWRITTEN))) {
            w->set[count++] = dbk_worker_hand_out(w, i);
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
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, count);
        return false;
    }
    enum daybook_code refusal = DAYBOOK_OK;
    for (size_t i = 0; i < count; i++) {
        granted += w->codes[i] == DAYBOOK_OK ? 1 : 0;
        refusal = refusal == DAYBOOK_OK ? w->codes[i] : refusal;
    }
    if (granted < count) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, refusal,
                                "events that landed could not be acknowledged", count - granted);
    }
    w->delivered += granted;
    tell_count(w, DAYBOOK_WORKER_ACKNOWLEDGED, granted);
    *ret_granted = granted;
    return true;
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

static void settle_landed(struct daybook_worker *w, struct dbk_pass *pass)
{
    size_t granted = 0;

    pass->landed = gather(w, DBK_ROW_LANDED);
    if (pass->landed > 0 && !acknowledge(w, w->set, pass->landed, &granted)) {
        memcpy(w->unacked, w->set, pass->landed * sizeof w->set[0]);
        w->unacked_count = dbk_fault(DBK_FAULT_ACK_NOT_REPEATED) ? 0 : pass->landed;
        dbk_worker_give_back(w, w->set, pass->landed, DBK_ATTEMPTS_ONLY);
    }
    pass->acknowledged += granted;
}

/* The last event that landed is the next control (W5). */
static void keep_control(struct daybook_worker *w)
{
    for (size_t i = w->search.count; i > 0; i--) {
        if (w->search.rows[i - 1].state == DBK_ROW_LANDED) {
            dbk_control_keep(&w->control, &w->rows[i - 1], dbk_worker_now_us(w));
            return;
        }
    }
}

/* W9: whether or not the acknowledgement succeeded. */
static void advise(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->search.count; i++) {
        if (w->search.rows[i].state == DBK_ROW_LANDED || dbk_fault(DBK_FAULT_ADVISES_UNLANDED)) {
            dbk_advisories_offer(w, &w->rows[i]);
        }
    }
    dbk_advisories_publish(w);
}

/* ---- verdicts and refunds ------------------------------------------------------------------------ */

static void condemn(struct daybook_worker *w, size_t row, struct dbk_pass *pass)
{
    const struct daybook_words *words = &w->search.words[row];
    const struct daybook_sink *sink = w->sinks[w->search.rows[row].sink];
    char text[DAYBOOK_WORDS_BYTES_MAX];
    struct daybook_error err = {0};
    enum daybook_code code = daybook_journal_quarantine(
        w->journal, w->consumer, dbk_worker_hand_out(w, row), DAYBOOK_REASON_REJECTED,
        dbk_words_encode(sink->name, words, text), dbk_worker_now_us(w), dbk_worker_deadline_us(w),
        &err);

    if (code != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED, code, err.message, 1);
        /* The last attempt is spent by a verdict alone. */
        w->search.rows[row].state = DBK_ROW_UNWRITTEN;
        dbk_recall_suspect(&w->recall, w->batch->deliveries[row].position,
                           w->search.rows[row].sink);
        return;
    }
    pass->quarantined++;
    w->quarantined++;
    dbk_worker_notify(w, (struct daybook_worker_event){.kind = DAYBOOK_WORKER_QUARANTINED,
                                                       .sink = sink,
                                                       .count = 1,
                                                       .message = words->message});
}

void dbk_worker_give_back(struct daybook_worker *w, const struct daybook_hand_out *set,
                          size_t count, enum dbk_give_back what)
{
    struct daybook_error err = {0};
    int64_t deadline_us = dbk_worker_deadline_us(w);
    enum daybook_code code = DAYBOOK_OK;

    if (count == 0) {
        return;
    }
    if (what == DBK_LEASES_TOO) {
        code = daybook_journal_extend(w->journal, w->consumer, set, count, 0, dbk_worker_now_us(w),
                                      deadline_us, w->codes, &err);
    }
    enum daybook_code refunded = daybook_journal_relinquish(
        w->journal, w->consumer, set, count, dbk_worker_now_us(w), deadline_us, w->codes, &err);
    if (code != DAYBOOK_OK || refunded != DAYBOOK_OK) {
        dbk_worker_tell_failure(w, DAYBOOK_WORKER_SETTLE_FAILED,
                                code != DAYBOOK_OK ? code : refunded, err.message, count);
    }
}

/* When the first lease of what is not settled ends. */
static int64_t first_end_us(const struct daybook_worker *w)
{
    int64_t end_us = INT64_MAX;

    for (size_t i = 0; i < w->search.count; i++) {
        if (w->search.rows[i].state == DBK_ROW_UNWRITTEN && w->leases[i].end_us < end_us) {
            end_us = w->leases[i].end_us;
        }
    }
    return end_us;
}

/* W7; while an outage lasts or is in doubt, later (W5b). */
static void settle_unwritten(struct daybook_worker *w, const struct dbk_pass *pass)
{
    bool outage = pass->end == DBK_PASS_SETTLED &&
                  (pass->search == DBK_SEARCH_OUTAGE || pass->search == DBK_SEARCH_BRAKED);

    if (pass->landed > 0 || !outage) {
        dbk_held_let_go(w); /* the doubt is over, or begins anew with this pass */
    }
    size_t count = gather(w, DBK_ROW_UNWRITTEN);
    if (dbk_fault(DBK_FAULT_OUTAGE_SPENDS_ATTEMPTS)) {
        return;
    }
    if (outage) {
        dbk_held_add(w, w->set, count, first_end_us(w));
    } else {
        dbk_worker_give_back(w, w->set, count,
                             pass->end == DBK_PASS_CUT && !dbk_fault(DBK_FAULT_STOP_KEEPS_LEASES)
                                 ? DBK_LEASES_TOO
                                 : DBK_ATTEMPTS_ONLY);
    }
    /* Whoever was handed one of these meanwhile keeps it (R1). */
    count = gather(w, DBK_ROW_LEFT);
    dbk_worker_give_back(w, w->set, count, DBK_ATTEMPTS_ONLY);
}

/* The first end of a lease that may bring something back. */
static void note_expiries(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->search.count; i++) {
        enum dbk_row_state state = w->search.rows[i].state;
        if (state != DBK_ROW_LANDED && state != DBK_ROW_CONDEMNED &&
            w->leases[i].expires_at_us < w->next_expiry_us) {
            w->next_expiry_us = w->leases[i].expires_at_us;
        }
    }
}

void dbk_worker_settle(struct daybook_worker *w, struct dbk_pass *pass)
{
    settle_landed(w, pass);
    advise(w);
    keep_control(w);
    for (size_t i = 0; i < w->search.count; i++) {
        if (w->search.rows[i].state == DBK_ROW_CONDEMNED) {
            condemn(w, i, pass);
        }
    }
    settle_unwritten(w, pass);
    note_expiries(w);
    tell_outcome(w, pass);
    dbk_worker_publish_stats(w);
}
