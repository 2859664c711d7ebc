/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping: how a worker ends (T1), how its owner waits for it (T2, T8), what may be said of it (T4).
 *
 * One deadline for all. At it the destinations are interrupted; half a second later the owner has the
 * backlogs of the silent read beside the wait; a second later whoever is silent is abandoned. The
 * worker hands over its figures before it reads the backlog: a slow reading costs it the count, not
 * the report.
 *
 * Threads: `daybook_workers_drain` the owner's; `dbk_worker_finish` the worker's; `reader_main` one of
 * its own, that nobody waits for.
 */
#include "delivery/delivery.h"

#include "base/fault.h"

enum daybook_caught_up daybook_drain_report_caught_up(const struct daybook_drain_report *report)
{
    if (!report->counted) {
        return DAYBOOK_CAUGHT_UP_UNKNOWN;
    }
    return report->drained ? DAYBOOK_CAUGHT_UP_YES : DAYBOOK_CAUGHT_UP_NO;
}

void dbk_worker_stop(struct daybook_worker *w, int64_t deadline_us)
{
    int64_t expected = DBK_NOT_STOPPED;

    (void)atomic_compare_exchange_strong(&w->stop_at_us, &expected, deadline_us);
    dbk_worker_signal(w);
    if (dbk_worker_enter(w)) {
        daybook_journal_wake(w->journal);
        dbk_worker_leave(w);
    }
}

/* ---- the worker's end ---------------------------------------------------------------------------- */

static struct dbk_backlog read_backlog(struct daybook_worker *w)
{
    struct daybook_consumer_stats stats;
    struct dbk_backlog backlog = {0};

    if (daybook_journal_consumer_stats(w->journal, w->consumer, dbk_worker_now_us(w), &stats,
                                       NULL) == DAYBOOK_OK) {
        backlog.counted = true;
        backlog.drained = stats.drained;
        backlog.undelivered = stats.pending + stats.in_flight;
        backlog.quarantined = stats.quarantined;
    }
    return backlog;
}

static void hand_over_figures(struct daybook_worker *w)
{
    int64_t mono_us = dbk_worker_mono_us(w);

    dbk_mutex_lock(&w->lock);
    w->final_delivered = w->delivered;
    w->final_failed = w->failed;
    w->stage = DBK_STAGE_FIGURES;
    w->stage_at_us = mono_us;
    dbk_mutex_unlock(&w->lock);
    dbk_worker_signal(w);
}

static void hand_over_backlog(struct daybook_worker *w)
{
    struct dbk_backlog backlog = read_backlog(w);
    dbk_mutex_lock(&w->lock);
    w->own_reading = backlog;
    w->stage = DBK_STAGE_DONE;
    dbk_mutex_unlock(&w->lock);
    dbk_worker_signal(w);
}

bool dbk_worker_finish(struct daybook_worker *w)
{
    struct dbk_pass pass = {.acknowledged = 1};

    while (pass.acknowledged > 0 && dbk_worker_mono_us(w) < atomic_load(&w->stop_at_us)) {
        dbk_worker_pass(w, &pass);
        if (pass.end == DBK_PASS_GONE) {
            return false;
        }
    }
    (void)dbk_worker_repeat_ack(w);
    dbk_held_let_go(w); /* a successor need not wait */
    hand_over_figures(w);
    hand_over_backlog(w);
    return true;
}

/* ---- the owner's wait ---------------------------------------------------------------------------- */

static enum dbk_stage stage_of(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    enum dbk_stage stage = w->stage;
    dbk_mutex_unlock(&w->lock);
    return stage;
}

static void *reader_main(void *arg)
{
    struct daybook_worker *w = arg;

    if (dbk_worker_enter(w)) {
        struct dbk_backlog backlog = read_backlog(w);
        dbk_mutex_lock(&w->lock);
        w->callers_reading = backlog;
        dbk_mutex_unlock(&w->lock);
        dbk_worker_leave(w);
    }
    dbk_worker_drop(w);
    return NULL;
}

/* For a worker that never ran. */
static void *closing_main(void *arg)
{
    struct daybook_worker *w = arg;

    if (dbk_worker_enter(w)) {
        hand_over_backlog(w);
        dbk_worker_leave(w);
    }
    dbk_worker_drop(w);
    return NULL;
}

/* Reads the backlog in a thread of its own: a journal that does not answer must not cost its caller
 * the bound. Without a thread the count stays unknown. */
static void start_beside(struct daybook_worker *w, void *(*read)(void *))
{
    struct dbk_thread thread;

    dbk_mutex_lock(&w->lock);
    w->holders++;
    dbk_mutex_unlock(&w->lock);
    if (dbk_thread_start(&thread, "daybook-backlog", read, w) != 0) {
        dbk_worker_drop(w);
        return;
    }
    dbk_thread_detach(&thread);
}

static void read_beside(struct daybook_worker *w)
{
    start_beside(w, reader_main);
}

static void interrupt_sinks(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->options.sink_count; i++) {
        w->sinks[i]->ops->interrupt(w->sinks[i]);
    }
}

/* Until when a worker is waited for, as far as it has come: no longer once it is done, for the time of
 * a closing read once its figures are there. */
static int64_t patience(struct daybook_worker *w)
{
    int64_t until_us = INT64_MAX;

    dbk_mutex_lock(&w->lock);
    if (w->stage == DBK_STAGE_DONE) {
        until_us = INT64_MIN;
    } else if (w->stage == DBK_STAGE_FIGURES) {
        until_us = w->stage_at_us + DBK_CLOSING_READ_US;
    }
    dbk_mutex_unlock(&w->lock);
    return until_us;
}

/* The first worker that is still waited for; NULL: none. */
static struct daybook_worker *first_unsettled(struct daybook_worker *const *workers, size_t count,
                                              int64_t mono_us)
{
    for (size_t i = 0; i < count; i++) {
        if (patience(workers[i]) > mono_us) {
            return workers[i];
        }
    }
    return NULL;
}

typedef void each_worker(struct daybook_worker *w);

static void for_each_before(struct daybook_worker *const *workers, size_t count, enum dbk_stage end,
                            each_worker *act)
{
    for (size_t i = 0; i < count; i++) {
        if (stage_of(workers[i]) < end) {
            act(workers[i]);
        }
    }
}

static void cut_advisories(struct daybook_worker *const *workers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dbk_advisories_set(workers[i], DBK_ADVISORY_CUT);
    }
}

/* Acts on those that are still silent, each time once: at the deadline, and at the time of the reading.
 * Returns when to act again, or to give up. */
static int64_t act_on_silent(struct daybook_worker *const *workers, size_t count,
                             int64_t deadline_us, int64_t mono_us, unsigned *acted)
{
    if (mono_us < deadline_us) {
        return deadline_us;
    }
    if (*acted == 0) {
        *acted = 1;
        for_each_before(workers, count, DBK_STAGE_FIGURES, interrupt_sinks);
        cut_advisories(workers, count);
    }
    if (mono_us < deadline_us + DBK_CLOSING_READ_US) {
        return deadline_us + DBK_CLOSING_READ_US;
    }
    if (*acted == 1) {
        *acted = 2;
        for_each_before(workers, count, DBK_STAGE_DONE, read_beside);
    }
    return deadline_us + DBK_DRAIN_MARGIN_US;
}

/* Waits until no worker is waited for any more, or the margin is spent. */
static void wait_for_all(struct daybook_worker *const *workers, size_t count, int64_t deadline_us)
{
    unsigned acted = 0;

    while (true) {
        int64_t mono_us = dbk_worker_mono_us(workers[0]);
        struct daybook_worker *w = first_unsettled(workers, count, mono_us);
        if (w == NULL || mono_us >= deadline_us + DBK_DRAIN_MARGIN_US) {
            return;
        }
        uint32_t seen = atomic_load(&w->word); /* before its stage: no change of it is missed */
        int64_t until_us = patience(w);
        int64_t next_us = act_on_silent(workers, count, deadline_us, mono_us, &acted);
        next_us = until_us < next_us ? until_us : next_us;
        if (next_us > mono_us) {
            dbk_futex_wait(&w->word, seen, next_us - mono_us);
        }
    }
}

static void shut(struct daybook_worker *w)
{
    dbk_mutex_lock(&w->lock);
    w->shut = true;
    dbk_mutex_unlock(&w->lock);
}

struct daybook_drain_report dbk_worker_report(struct daybook_worker *w)
{
    struct daybook_drain_report report = {0};

    dbk_mutex_lock(&w->lock);
    const struct dbk_backlog *backlog =
        w->stage == DBK_STAGE_DONE ? &w->own_reading : &w->callers_reading;
    report.reported = w->stage >= DBK_STAGE_FIGURES || dbk_fault(DBK_FAULT_ZEROS_FOR_UNKNOWN);
    if (report.reported) {
        report.delivered = w->final_delivered;
        report.failed = w->final_failed;
    }
    if (backlog->counted) {
        report.counted = true;
        report.undelivered = backlog->undelivered;
        report.quarantined = backlog->quarantined;
        /* Of one that never came back nobody knows what its write still does (T2). */
        report.drained = report.reported && backlog->drained;
    }
    dbk_mutex_unlock(&w->lock);
    return report;
}

static struct daybook_worker *first_advising(struct daybook_worker *const *workers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!dbk_advisories_ended(workers[i])) {
            return workers[i];
        }
    }
    return NULL;
}

/* The workers add nothing any more: their advisory destinations have until the deadline for what waits, and
 * then the time of a settlement to come back from a write. */
static void drain_advisories(struct daybook_worker *const *workers, size_t count,
                             int64_t deadline_us)
{
    struct daybook_worker *w;
    bool cut = false;

    for (size_t i = 0; i < count; i++) {
        dbk_advisories_set(workers[i], DBK_ADVISORY_CLOSING);
    }
    while ((w = first_advising(workers, count)) != NULL) {
        uint32_t seen = atomic_load(&w->word);
        int64_t mono_us = dbk_worker_mono_us(w);
        if (mono_us >= deadline_us && !cut) {
            cut = true;
            cut_advisories(workers, count);
        }
        int64_t until_us = cut ? deadline_us + DBK_SETTLE_US : deadline_us;
        if (mono_us >= until_us) {
            return;
        }
        if (!dbk_advisories_ended(w)) {
            dbk_futex_wait(&w->word, seen, until_us - mono_us);
        }
    }
}

void daybook_workers_drain(struct daybook_worker *const *workers, size_t count, uint32_t budget_ms,
                           struct daybook_drain_report *ret_reports)
{
    if (count == 0) {
        return;
    }
    int64_t deadline_us = dbk_worker_mono_us(workers[0]) + (int64_t)budget_ms * 1000;
    for (size_t i = 0; i < count; i++) {
        dbk_worker_stop(workers[i], deadline_us);
        if (stage_of(workers[i]) == DBK_STAGE_NEW) {
            hand_over_figures(workers[i]); /* nothing was delivered, and that is known */
            start_beside(workers[i], closing_main);
        }
    }
    wait_for_all(workers, count, deadline_us);
    drain_advisories(workers, count, deadline_us);
    for (size_t i = 0; i < count; i++) {
        shut(workers[i]);
        ret_reports[i] = dbk_worker_report(workers[i]);
    }
}

void daybook_workers_abandon(struct daybook_worker *const *workers, size_t count,
                             struct daybook_drain_report *ret_reports)
{
    for (size_t i = 0; i < count; i++) {
        dbk_worker_stop(workers[i], dbk_worker_mono_us(workers[i]));
        interrupt_sinks(workers[i]);
        dbk_advisories_set(workers[i], DBK_ADVISORY_CUT);
        ret_reports[i] = (struct daybook_drain_report){.unwaited = true};
    }
}
