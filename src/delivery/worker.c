/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: its making, its loop, its thread, its release.
 *
 * Threads: `daybook_worker_new`, `_start` and `_free` the owner's; `worker_main` is the worker's own. The
 * gate (`enter`, `leave`) is anybody's; see delivery.h.
 */
#include "delivery/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/os.h"

#define NAMES_TEXT_MAX 1024u /* of the names in one warning about consumers */
#define GATHER_US 1000       /* between the first append that ends a wait and the claim */

/* ---- clocks, gate, telling ------------------------------------------------------------------------ */

int64_t dbk_worker_mono_us(struct daybook_worker *w)
{
    return daybook_journal_monotonic_us(w->journal);
}

int64_t dbk_worker_now_us(struct daybook_worker *w)
{
    const struct dbk_os *os = dbk_os_posix();

    return w->options.now_us != NULL ? w->options.now_us(w->options.user) : os->realtime_us(os);
}

bool dbk_worker_is_stopped(struct daybook_worker *w)
{
    return atomic_load(&w->stop_at_us) != DBK_NOT_STOPPED;
}

int64_t dbk_worker_deadline_us(struct daybook_worker *w)
{
    int64_t deadline_us = dbk_worker_mono_us(w) + DBK_OPERATION_TIMEOUT_US;
    int64_t stop_us = atomic_load(&w->stop_at_us);

    if (stop_us != DBK_NOT_STOPPED && stop_us + DBK_SETTLE_US < deadline_us) {
        return stop_us + DBK_SETTLE_US;
    }
    return deadline_us;
}

void dbk_worker_notify(struct daybook_worker *w, struct daybook_worker_event event)
{
    if (w->options.notify != NULL) {
        event.consumer = w->consumer;
        event.message = event.message != NULL ? event.message : "";
        w->options.notify(w->options.user, &event);
    }
}

void dbk_worker_signal(struct daybook_worker *w)
{
    atomic_fetch_add(&w->word, 1);
    dbk_futex_wake_all(&w->word);
}

bool dbk_worker_enter(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    bool open = !w->shut;
    w->inside += open ? 1 : 0;
    dbk_mutex_unlock(&w->lock);
    return open;
}

void dbk_worker_leave(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    w->inside--;
    bool shut = w->shut;
    dbk_mutex_unlock(&w->lock);
    if (shut) {
        dbk_worker_signal(w);
    }
}

/* ---- making and releasing ------------------------------------------------------------------------ */

static void release(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->options.sink_count; i++) {
        w->sinks[i]->ops->close(w->sinks[i]);
    }
    dbk_advisories_release(w);
    daybook_batch_free(w->batch);
    free(w->rows);
    free(w->write);
    free(w->leases);
    free(w->set);
    free(w->codes);
    free(w->unacked);
    free(w->extended);
    free(w->held.set);
    dbk_search_release(&w->search);
    dbk_recall_release(&w->recall);
    dbk_control_release(&w->control);
    free(w->known);
    dbk_mutex_release(&w->lock);
    free(w);
}

void dbk_worker_drop(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    bool last = --w->holders == 0;
    dbk_mutex_unlock(&w->lock);
    if (last) {
        release(w);
    }
}

/* What the search and the settlement work on. False: no memory. */
static bool take_rooms(struct daybook_worker *w)
{
    const struct daybook_worker_options *o = &w->options;
    const struct daybook_capacity *capacity = daybook_journal_capacity(w->journal);
    /* An event that was handed out too often would never be refused so often. */
    uint32_t attempts_max = capacity->delivery_attempts_max < o->hand_outs_max
                                ? capacity->delivery_attempts_max
                                : o->hand_outs_max;

    w->held.max = (size_t)o->claim_batch * DBK_HELD_PER_CLAIM;
    if (w->held.max < DBK_HELD_LEAST) {
        w->held.max = DBK_HELD_LEAST;
    }
    w->held.due_us = INT64_MAX;
    w->held.set = calloc(w->held.max, sizeof *w->held.set);
    bool recall = dbk_recall_init(&w->recall, w->held.max, o->reject_brake);
    bool search =
        dbk_search_init(&w->search, &w->recall, o->claim_batch, o->sink_count, attempts_max);
    bool control = dbk_control_init(&w->control, capacity->events.event_bytes_max +
                                                     3 * (size_t)DAYBOOK_NAME_BYTES_MAX);
    return w->held.set != NULL && recall && search && control;
}

static enum daybook_code take_memory(struct daybook_worker *w, struct daybook_error *err)
{
    const struct daybook_worker_options *o = &w->options;
    size_t n = o->claim_batch;
    const struct daybook_capacity *capacity = daybook_journal_capacity(w->journal);
    enum daybook_code code = daybook_batch_new(o->claim_batch, (size_t)o->claim_bytes,
                                               capacity->events.event_bytes_max, &w->batch, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    w->rows = calloc(n, sizeof *w->rows);
    w->write = calloc(n, sizeof *w->write);
    w->leases = calloc(n, sizeof *w->leases);
    w->extended = calloc(n, sizeof *w->extended);
    size_t step = n < DBK_HELD_STEP ? DBK_HELD_STEP : n;
    w->set = calloc(step, sizeof *w->set);
    w->codes = calloc(step, sizeof *w->codes);
    w->unacked = calloc(n, sizeof *w->unacked);
    w->known = calloc(o->known_count + 1, sizeof *w->known);
    if (!take_rooms(w) || w->rows == NULL || w->write == NULL || w->leases == NULL ||
        w->extended == NULL || w->set == NULL || w->codes == NULL || w->unacked == NULL ||
        w->known == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the worker of consumer %s",
                        o->consumer);
    }
    return DAYBOOK_OK;
}

/* Copies what the options point to, so that the caller's may go. */
static void copy_names(struct daybook_worker *w)
{
    memcpy(w->consumer, w->options.consumer, strlen(w->options.consumer) + 1);
    dbk_assert(w->known != NULL);
    memcpy(w->known[0], w->consumer, sizeof w->consumer);
    for (size_t i = 0; i < w->options.known_count; i++) {
        memcpy(w->known[i + 1], w->options.known[i], strlen(w->options.known[i]) + 1);
    }
    w->options.consumer = w->consumer;
    w->options.known = NULL;
    w->options.known_count++;
}

enum daybook_code daybook_worker_new(struct daybook_journal *journal,
                                     const struct daybook_worker_options *options,
                                     struct daybook_worker **ret_worker, struct daybook_error *err)
{
    if (journal == NULL || options == NULL || ret_worker == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a worker needs a journal and options");
    }
    struct daybook_worker *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a worker");
    }
    dbk_mutex_init(&w->lock, DBK_RANK_WORKER);
    w->journal = journal;
    enum daybook_code code =
        dbk_worker_options_fill(options, daybook_journal_capacity(journal), &w->options, err);
    if (code == DAYBOOK_OK) {
        code = take_memory(w, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_advisories_init(w, err);
    }
    if (code != DAYBOOK_OK) {
        w->options.sink_count = 0; /* still the caller's */
        release(w);
        return code;
    }
    copy_names(w);
    for (size_t i = 0; i < w->options.sink_count; i++) {
        w->sinks[i] = options->sinks[i];
    }
    w->options.sinks = w->sinks;
    dbk_advisories_own(w, options->advisory);
    w->write_timeout_us = (int64_t)w->options.write_timeout_ms * 1000;
    int64_t mono_us = dbk_worker_mono_us(w);
    dbk_pace_init(&w->pace, w->options.claim_batch, (int64_t)w->options.poll_interval_ms * 1000,
                  (int64_t)w->options.lease_ms * 1000, (uint64_t)mono_us ^ (uintptr_t)w);
    w->quiet_until_us = mono_us;
    w->maintain_due_us = mono_us + (int64_t)w->options.maintain_interval_ms * 1000;
    w->next_expiry_us = INT64_MAX;
    atomic_init(&w->stop_at_us, DBK_NOT_STOPPED);
    w->holders = 1;
    *ret_worker = w;
    return DAYBOOK_OK;
}

/* ---- maintenance ---------------------------------------------------------------------------------- */

static bool is_known(const struct daybook_worker *w, const char *name)
{
    for (size_t i = 0; i < w->options.known_count; i++) {
        if (strcmp(w->known[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* L2: a consumer that nobody here runs holds events back for as long as it is registered. */
static void tell_other_consumers(struct daybook_worker *w)
{
    char names[DAYBOOK_CONSUMERS_MAX][DAYBOOK_CONSUMER_NAME_MAX + 1];
    char text[NAMES_TEXT_MAX];
    size_t count = 0;
    size_t len = 0;
    uint64_t others = 0;

    if (daybook_journal_consumers(w->journal, names, DAYBOOK_CONSUMERS_MAX, &count, NULL) !=
        DAYBOOK_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t name_len = strlen(names[i]);
        if (is_known(w, names[i])) {
            continue;
        }
        others++;
        if (len + name_len + 3 <= sizeof text) {
            memcpy(text + len, len > 0 ? ", " : "", len > 0 ? 2 : 0);
            len += len > 0 ? 2 : 0;
            memcpy(text + len, names[i], name_len);
            len += name_len;
        }
    }
    text[len] = '\0';
    if (others > 0) {
        dbk_worker_notify(w, (struct daybook_worker_event){.kind = DAYBOOK_WORKER_OTHER_CONSUMERS,
                                                           .count = others,
                                                           .message = text});
    }
}

static void maintain(struct daybook_worker *w)
{
    struct daybook_error err = {0};
    uint64_t pruned = 0;
    enum daybook_code code = daybook_journal_maintain(w->journal, dbk_worker_now_us(w),
                                                      dbk_worker_deadline_us(w), &pruned, &err);

    dbk_worker_notify(w, (struct daybook_worker_event){.kind = code == DAYBOOK_OK
                                                                   ? DAYBOOK_WORKER_MAINTAINED
                                                                   : DAYBOOK_WORKER_MAINTAIN_FAILED,
                                                       .code = code,
                                                       .count = pruned,
                                                       .message = err.message});
    tell_other_consumers(w);
}

/* On its own interval, whether or not delivery has caught up; never once a stop was asked for (L2). */
static void maintain_if_due(struct daybook_worker *w)
{
    if ((dbk_worker_is_stopped(w) && !dbk_fault(DBK_FAULT_MAINTAINS_AFTER_STOP)) ||
        dbk_worker_mono_us(w) < w->maintain_due_us) {
        return;
    }
    maintain(w);
    w->maintain_due_us = dbk_worker_mono_us(w) + (int64_t)w->options.maintain_interval_ms * 1000;
}

/* ---- the loop -------------------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When to look again after a pass that delivered nothing (L1). */
static int64_t listen_until(struct daybook_worker *w)
{
    int64_t mono_us = dbk_worker_mono_us(w);
    int64_t now_us = dbk_worker_now_us(w);
    int64_t until_us = earlier(mono_us + w->pace.poll_us, w->maintain_due_us);

    if (w->next_expiry_us <= now_us) {
        w->next_expiry_us = INT64_MAX; /* the pass that just ended has seen it */
    } else if (w->next_expiry_us != INT64_MAX) {
        until_us = earlier(until_us, mono_us + (w->next_expiry_us - now_us));
    }
    return until_us;
}

/* What the outcome of a pass means for the next one. */
static enum dbk_next after_pass(struct daybook_worker *w, const struct dbk_pass *pass)
{
    int64_t mono_us = dbk_worker_mono_us(w);

    if (pass->end == DBK_PASS_CLAIM_FAILED) {
        w->quiet_until_us = mono_us + w->pace.poll_us;
        return DBK_NEXT_QUIET;
    }
    bool outage = pass->end == DBK_PASS_SETTLED &&
                  (pass->search == DBK_SEARCH_OUTAGE || pass->search == DBK_SEARCH_BRAKED);
    /* The destinations answered for rows: the doubt is over, whatever they said (W5b). */
    if (pass->landed > 0 || (pass->end == DBK_PASS_SETTLED && !outage)) {
        dbk_pace_recover(&w->pace);
    }
    if (outage) {
        w->quiet_until_us = mono_us + dbk_pace_slow(&w->pace, pass->retry_after_us);
        return DBK_NEXT_QUIET;
    }
    return pass->acknowledged + pass->quarantined > 0 ? DBK_NEXT_AGAIN : DBK_NEXT_LISTEN;
}

/* An operator let the brakes go: what was quiet for them is tried now (W6b). */
static void lift_brakes(struct daybook_worker *w)
{
    if (atomic_exchange(&w->lift, 0) != 0) {
        dbk_recall_lift(&w->recall);
        w->quiet_until_us = dbk_worker_mono_us(w);
    }
}

/* When a turn that keeps quiet has something to do again. */
static int64_t quiet_until(struct daybook_worker *w)
{
    return earlier(earlier(w->quiet_until_us, w->maintain_due_us), dbk_held_due_us(w));
}

struct dbk_turn dbk_worker_turn(struct daybook_worker *w)
{
    struct dbk_turn turn = {DBK_NEXT_QUIET, 0};
    struct dbk_pass pass;

    lift_brakes(w);
    dbk_held_keep(w);
    if (dbk_worker_mono_us(w) >= w->quiet_until_us) {
        dbk_worker_pass(w, &pass);
        if (pass.end == DBK_PASS_GONE) {
            turn.next = DBK_NEXT_GONE;
            return turn;
        }
        turn.next = after_pass(w, &pass);
    }
    maintain_if_due(w);
    turn.until_us = turn.next == DBK_NEXT_QUIET ? quiet_until(w) : listen_until(w);
    return turn;
}

/* Waits without heeding appends; ends with a stop, or when an operator lets the brakes go. */
static void keep_quiet(struct daybook_worker *w, int64_t until_us)
{
    while (true) {
        uint32_t seen = atomic_load(&w->word);
        int64_t left_us = until_us - dbk_worker_mono_us(w);
        if (dbk_worker_is_stopped(w) || left_us <= 0 || atomic_load(&w->lift) != 0) {
            return;
        }
        dbk_futex_wait(&w->word, seen, left_us);
    }
}

/* What is appended one by one is claimed together: for an event that has just come, a moment costs nobody anything, and a
 * claim, a write and a set of verdicts for each event would take the appends' own processors and disk. */
static void gather(struct daybook_worker *w)
{
    uint32_t seen = atomic_load(&w->word);
    if (!dbk_worker_is_stopped(w) && atomic_load(&w->lift) == 0) {
        dbk_futex_wait(&w->word, seen, GATHER_US);
    }
}

/* Passes until a stop. False: the gate was shut. */
static bool deliver(struct daybook_worker *w)
{
    while (!dbk_worker_is_stopped(w)) {
        /* Read first: what is appended during the turn ends the wait at once. */
        uint32_t seen = daybook_journal_changes(w->journal);
        if (dbk_worker_is_stopped(w)) {
            break;
        }
        struct dbk_turn turn = dbk_worker_turn(w);
        if (turn.next == DBK_NEXT_GONE) {
            return false;
        }
        if (turn.next == DBK_NEXT_QUIET) {
            keep_quiet(w, turn.until_us);
        } else if (turn.next == DBK_NEXT_LISTEN) {
            daybook_journal_wait(w->journal, seen, turn.until_us);
            gather(w);
        }
    }
    return true;
}

static void *worker_main(void *arg)
{
    struct daybook_worker *w = arg;

    if (dbk_worker_enter(w) && deliver(w) && dbk_worker_finish(w)) {
        dbk_worker_leave(w);
    }
    dbk_worker_drop(w);
    return NULL;
}

/* Notes that the worker's thread holds it, or does not. */
static void take_thread(struct daybook_worker *w, unsigned threads)
{
    dbk_mutex_lock(&w->lock);
    w->holders = w->holders - (w->threaded ? 1 : 0) + threads;
    w->threaded = threads > 0;
    w->stage = threads > 0 ? DBK_STAGE_RUNNING : DBK_STAGE_NEW;
    dbk_mutex_unlock(&w->lock);
}

enum daybook_code daybook_worker_start(struct daybook_worker *worker, struct daybook_error *err)
{
    struct daybook_worker *w = worker;
    struct daybook_claim empty = {
        .consumer = w->consumer, .lease_ms = w->options.lease_ms, .start = w->options.start};

    if (w->stage != DBK_STAGE_NEW) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the worker of consumer %s runs already",
                        w->consumer);
    }
    /* C1b: nothing may be given up before the consumer has seen it. */
    enum daybook_code code = daybook_journal_claim(w->journal, &empty, dbk_worker_now_us(w),
                                                   dbk_worker_deadline_us(w), w->batch, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    code = dbk_advisories_start(w, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    take_thread(w, 1);
    int failed = dbk_thread_start(&w->thread, "daybook-worker", worker_main, w);
    if (failed != 0) {
        take_thread(w, 0);
        return dbk_fail_os(err, DAYBOOK_NO_MEMORY, failed,
                           "the thread of the worker of consumer %s could not be started",
                           w->consumer);
    }
    return DAYBOOK_OK;
}

void daybook_worker_stats(struct daybook_worker *worker, struct daybook_worker_stats *ret_stats)
{
    dbk_mutex_lock(&worker->lock);
    *ret_stats = worker->stats;
    dbk_mutex_unlock(&worker->lock);
    ret_stats->sink_count = worker->options.sink_count;
}

void daybook_worker_lift_brakes(struct daybook_worker *worker)
{
    atomic_store(&worker->lift, 1);
    dbk_worker_signal(worker);
    if (dbk_worker_enter(worker)) {
        daybook_journal_wake(worker->journal);
        dbk_worker_leave(worker);
    }
}

/* Shuts the gate and waits until nobody is inside: journal operations end by their deadlines. */
static enum dbk_stage shut_and_wait(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    w->shut = true;
    while (w->inside > 0) {
        uint32_t seen = atomic_load(&w->word);
        dbk_mutex_unlock(&w->lock);
        dbk_futex_wait(&w->word, seen, -1);
        dbk_mutex_lock(&w->lock);
    }
    enum dbk_stage stage = w->stage;
    dbk_mutex_unlock(&w->lock);
    return stage;
}

void daybook_worker_free(struct daybook_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (!dbk_worker_is_stopped(worker)) {
        dbk_worker_stop(worker, dbk_worker_mono_us(worker));
    }
    enum dbk_stage stage = shut_and_wait(worker);
    dbk_advisories_set(worker, DBK_ADVISORY_CUT);
    dbk_advisories_leave(worker);
    if (worker->threaded && stage == DBK_STAGE_DONE) {
        dbk_thread_join(&worker->thread); /* only the last lines of worker_main are left */
    } else if (worker->threaded) {
        dbk_thread_detach(&worker->thread);
    }
    dbk_worker_drop(worker);
}
