/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker with its thread: that it wakes, that it stops within its bound, what its report claims, and
 * that one which was given up on stays harmless. Nothing sleeps: tests wait for what happened. Bounds
 * are measured on the real clock; a drain that has to give up takes its second. The engine is the first
 * argument: test-drain log, in a directory of its own.
 */
#include <daybook/log.h>
#include <daybook/memory.h>
#include <daybook/worker.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/thread.h"
#include "harness/script_sink.h"
#include "harness/troubled_journal.h"

#define CONSUMER "billing"
#define MARGIN_US 1000000 /* T2 */
#define SLACK_US 4000000  /* of a busy machine, sanitizers included; the bounds are far apart */
#define WORKERS 4u

static bool on_log;

struct bench {
    char directory[64];
    struct daybook_journal *journal;
    struct troubled_journal troubled;
    struct script_sink *sinks[WORKERS];
    struct daybook_worker *workers[WORKERS];
    struct daybook_drain_report reports[WORKERS];
    struct daybook_worker_options options;
    _Atomic uint32_t closed[WORKERS];
    int64_t took_us; /* by the last drain */
    unsigned appended;
    _Atomic uint32_t failed; /* passes that were told to have */
    _Atomic uint32_t braked;
    const char *prefix; /* of ids */
};

static void note_event(void *user, const struct daybook_worker_event *event)
{
    struct bench *b = user;

    if (event->kind == DAYBOOK_WORKER_BRAKED) {
        atomic_fetch_add(&b->braked, 1);
        dbk_futex_wake_all(&b->braked);
    }
    if (event->kind == DAYBOOK_WORKER_FAILED) {
        atomic_fetch_add(&b->failed, 1);
        dbk_futex_wake_all(&b->failed);
    }
}

static int64_t mono_us(void)
{
    return dbk_os_posix()->monotonic_us(dbk_os_posix());
}

static void put_many(struct bench *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char id[32];
        struct daybook_append_result result;
        (void)snprintf(id, sizeof id, "%s%u", b->prefix, b->appended++);
        struct daybook_bytes bytes = {id, strlen(id)};
        struct daybook_event event = {.request_id = bytes,
                                      .name_space = {"acme", 4},
                                      .subject = bytes,
                                      .observed_at_us = DAYBOOK_TIME_UNSET,
                                      .record = {"{}", 2}};
        assert_int_equal(daybook_journal_append(b->journal, &event,
                                                dbk_os_posix()->realtime_us(dbk_os_posix()),
                                                DAYBOOK_NO_DEADLINE, &result, NULL),
                         DAYBOOK_OK);
    }
}

static void open_journal(struct bench *b)
{
    struct daybook_log_options options = {
        .path = b->directory,
        .capacity = {.events_max = 4096, .events = {.event_bytes_max = 4096}},
        .bytes_max = 256u << 20,
        .free_disk_min = 1,
        .segment_bytes = 1u << 20,
        .now_us = dbk_os_posix()->realtime_us(dbk_os_posix())};

    struct daybook_error err = {0};
    enum daybook_code code = on_log ? daybook_log_open(&options, &b->journal, &err)
                                    : daybook_memory_open(&options.capacity, &b->journal, &err);

    if (code != DAYBOOK_OK) {
        fail_msg("the journal does not open: %s", err.message);
    }
}

static int unlink_entry(void *user, const char *name)
{
    const struct bench *b = user;
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", b->directory, name);
    return unlink(path);
}

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    b->prefix = "e";
    strcpy(b->directory, "/tmp/daybook-drain-XXXXXX");
    assert_non_null(mkdtemp(b->directory));
    open_journal(b);
    troubled_init(&b->troubled, b->journal);
    b->options = (struct daybook_worker_options){
        .consumer = CONSUMER, .claim_batch = 8, .poll_interval_ms = 60000};
    *state = b;
    return 0;
}

/* Makes worker `index` with a destination that hangs as asked. */
static void make_worker(struct bench *b, size_t index, enum script_hang hang)
{
    struct script_sink *sink = script_sink_new("ledger");
    struct daybook_sink *const head = &sink->head;
    struct daybook_worker_options options = b->options;

    sink->hang = hang;
    sink->closed = &b->closed[index];
    b->sinks[index] = sink;
    options.sinks = &head;
    options.sink_count = 1;
    assert_int_equal(daybook_worker_new(&b->troubled.head, &options, &b->workers[index], NULL),
                     DAYBOOK_OK);
}

static void start_worker(struct bench *b, size_t index, enum script_hang hang)
{
    make_worker(b, index, hang);
    assert_int_equal(daybook_worker_start(b->workers[index], NULL), DAYBOOK_OK);
}

static const struct daybook_drain_report *drain(struct bench *b, size_t count, uint32_t budget_ms)
{
    int64_t began_us = mono_us();

    daybook_workers_drain(b->workers, count, budget_ms, b->reports);
    b->took_us = mono_us() - began_us;
    assert_true(b->took_us < (int64_t)budget_ms * 1000 + MARGIN_US + SLACK_US);
    return &b->reports[0];
}

/* A worker that was given up on closes its destination when it comes back. */
static void wait_until_closed(struct bench *b, size_t index)
{
    while (atomic_load(&b->closed[index]) == 0) {
        dbk_futex_wait(&b->closed[index], 0, -1);
    }
}

static int teardown(void **state)
{
    struct bench *b = *state;

    /* A test that failed has left what hangs as it was. */
    for (int op = 0; op < TROUBLED_OP_COUNT; op++) {
        troubled_let_go(&b->troubled, (enum troubled_op)op);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        if (b->workers[i] != NULL) {
            script_release(b->sinks[i]);
        }
        daybook_worker_free(b->workers[i]);
        if (b->sinks[i] != NULL) {
            wait_until_closed(b, i);
        }
    }
    assert_int_equal(daybook_journal_close(b->journal, NULL), DAYBOOK_OK);
    assert_int_equal(dbk_os_posix()->list(dbk_os_posix(), b->directory, unlink_entry, b), 0);
    assert_int_equal(rmdir(b->directory), 0);
    free(b);
    return 0;
}

static void test_L1_an_append_wakes_an_idle_worker(void **state)
{
    struct bench *b = *state;

    start_worker(b, 0, SCRIPT_PROMPT);
    troubled_wait_calls(&b->troubled, TROUBLED_CLAIM, 2); /* registered, and found nothing */
    put_many(b, 3);
    script_wait_accepted(b->sinks[0], 3); /* the poll is a minute away */
    const struct daybook_drain_report *report = drain(b, 1, 5000);
    assert_int_equal(report->delivered, 3);
    assert_true(report->reported && report->counted && report->drained && !report->unwaited);
    assert_true(b->took_us < SLACK_US);
}

static void test_C1b_start_registers_the_consumer(void **state)
{
    struct bench *b = *state;
    char names[2][DAYBOOK_CONSUMER_NAME_MAX + 1];
    size_t count = 0;

    start_worker(b, 0, SCRIPT_PROMPT);
    assert_int_equal(daybook_journal_consumers(b->journal, names, 2, &count, NULL), DAYBOOK_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], CONSUMER);
    assert_int_equal(daybook_worker_start(b->workers[0], NULL), DAYBOOK_BAD_ARGUMENT);
    (void)drain(b, 1, 5000);
}

static void test_T1_a_backlog_is_delivered_within_the_budget(void **state)
{
    struct bench *b = *state;

    put_many(b, 400);
    start_worker(b, 0, SCRIPT_PROMPT);
    const struct daybook_drain_report *report = drain(b, 1, 10000);
    assert_int_equal(report->delivered, 400);
    assert_true(report->drained);
}

static void test_T1_a_write_in_flight_is_cut_at_the_deadline(void **state)
{
    struct bench *b = *state;

    put_many(b, 8);
    start_worker(b, 0, SCRIPT_UNTIL_INTERRUPTED);
    script_wait_writes(b->sinks[0], 1);
    const struct daybook_drain_report *report = drain(b, 1, 50);
    assert_true(b->took_us >= 50000); /* not before the deadline */
    assert_true(b->took_us < 50000 + SLACK_US);
    assert_true(report->reported && report->counted && !report->drained);
    assert_int_equal(report->undelivered, 8);
    assert_int_equal(report->failed, 0);
    /* X1: the leases were given up, a successor need not wait. */
    struct daybook_consumer_stats stats;
    assert_int_equal(daybook_journal_consumer_stats(b->journal, CONSUMER,
                                                    dbk_os_posix()->realtime_us(dbk_os_posix()),
                                                    &stats, NULL),
                     DAYBOOK_OK);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.pending, 8);
}

static void test_T1_a_pass_that_begins_in_the_drain_is_cut_too(void **state)
{
    struct bench *b = *state;

    start_worker(b, 0, SCRIPT_UNTIL_INTERRUPTED);
    troubled_wait_calls(&b->troubled, TROUBLED_CLAIM, 2);
    put_many(b, 8);
    const struct daybook_drain_report *report = drain(b, 1, 50);
    assert_true(report->reported);
    assert_int_equal(report->undelivered, 8);
}

static void test_T1_a_stop_ends_the_quiet_of_an_outage(void **state)
{
    struct bench *b = *state;

    b->options.notify = note_event;
    b->options.user = b;
    make_worker(b, 0, SCRIPT_PROMPT);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_UNAVAILABLE);
    put_many(b, 12);
    assert_int_equal(daybook_worker_start(b->workers[0], NULL), DAYBOOK_OK);
    /* After the outage it keeps quiet for most of a minute. */
    while (atomic_load(&b->failed) == 0) {
        dbk_futex_wait(&b->failed, 0, -1);
    }
    const struct daybook_drain_report *report = drain(b, 1, 5000);
    assert_true(report->reported);
    assert_int_equal(report->delivered, 12); /* what was kept leased as well (W5b) */
    assert_int_equal(report->undelivered, 0);
    assert_int_equal(report->failed, 1);
    assert_true(b->took_us < SLACK_US); /* of most of a minute */
}

static void test_W6b_an_operator_ends_the_quiet_of_a_brake(void **state)
{
    struct bench *b = *state;
    struct daybook_worker_stats stats;

    b->prefix = "bad";
    b->options.notify = note_event;
    b->options.user = b;
    b->options.reject_brake = 3;
    make_worker(b, 0, SCRIPT_PROMPT);
    script_answer(b->sinks[0],
                  DAYBOOK_ANSWER_REJECTED); /* every row by its name; then it is mended */
    put_many(b, 4);
    assert_int_equal(daybook_worker_start(b->workers[0], NULL), DAYBOOK_OK);
    while (atomic_load(&b->braked) == 0) {
        dbk_futex_wait(&b->braked, 0, -1);
    }
    int64_t began_us = mono_us();
    daybook_worker_lift_brakes(b->workers[0]);
    script_wait_accepted(b->sinks[0], 4);
    assert_true(mono_us() - began_us < 10 * MARGIN_US); /* its quiet would be most of the lease */
    const struct daybook_drain_report *report = drain(b, 1, 5000);
    assert_int_equal(report->delivered, 4);
    daybook_worker_stats(b->workers[0], &stats);
    assert_int_equal(stats.delivered, 4);
    assert_false(stats.sinks[0].braked);
}

static void test_T2_who_does_not_come_back_is_given_up_on(void **state)
{
    struct bench *b = *state;

    put_many(b, 8);
    start_worker(b, 0, SCRIPT_UNTIL_RELEASED);
    script_wait_writes(b->sinks[0], 1);
    const struct daybook_drain_report *report = drain(b, 1, 10);
    assert_true(b->took_us >= 10000 + MARGIN_US);
    assert_true(!report->reported && report->counted && !report->drained);
    assert_int_equal(report->undelivered, 8);
    assert_int_equal(report->delivered, 0);
    assert_int_equal(atomic_load(&b->sinks[0]->interrupted), 1);

    /* T7: the write is still out when the worker is freed and the journal closed. */
    struct script_sink *sink = b->sinks[0];
    uint32_t acks = atomic_load(&b->troubled.calls[TROUBLED_ACK]);
    daybook_worker_free(b->workers[0]);
    b->workers[0] = NULL;
    assert_int_equal(daybook_journal_close(b->journal, NULL), DAYBOOK_OK);
    assert_int_equal(atomic_load(&b->closed[0]), 0);
    script_release(sink);
    wait_until_closed(b, 0); /* its own thread closes it in the end */
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_ACK]), acks);
    open_journal(b);
}

static void test_T2_a_hanging_journal_is_given_up_on_and_read_by_the_caller(void **state)
{
    struct bench *b = *state;

    b->options.maintain_interval_ms = 1;
    atomic_store(&b->troubled.hangs[TROUBLED_MAINTAIN], 1);
    start_worker(b, 0, SCRIPT_PROMPT);
    troubled_wait_calls(&b->troubled, TROUBLED_MAINTAIN, 1);
    put_many(b, 3);
    const struct daybook_drain_report *report = drain(b, 1, 10);
    assert_true(!report->reported && report->counted && !report->drained);
    assert_int_equal(report->undelivered, 3);
    /* It is waited for where it matters: before the journal goes. */
    troubled_let_go(&b->troubled, TROUBLED_MAINTAIN);
    daybook_worker_free(b->workers[0]);
    b->workers[0] = NULL;
}

static void test_T2_a_slow_closing_read_costs_the_count_not_the_report(void **state)
{
    struct bench *b = *state;

    put_many(b, 3);
    start_worker(b, 0, SCRIPT_PROMPT);
    script_wait_accepted(b->sinks[0], 3);
    atomic_store(&b->troubled.hangs[TROUBLED_CONSUMER_STATS], 1);
    const struct daybook_drain_report *report = drain(b, 1, 30000);
    assert_true(b->took_us < 500000 + SLACK_US); /* the time of a closing read, not of the budget */
    assert_true(report->reported && !report->counted && !report->drained);
    assert_int_equal(report->delivered, 3);
    assert_int_equal(daybook_drain_report_caught_up(report), DAYBOOK_CAUGHT_UP_UNKNOWN);
    troubled_let_go(&b->troubled, TROUBLED_CONSUMER_STATS);
}

static void test_T8_workers_are_drained_side_by_side(void **state)
{
    struct bench *b = *state;

    put_many(b, 8);
    start_worker(b, 0, SCRIPT_UNTIL_INTERRUPTED);
    b->options.consumer = "audit";
    start_worker(b, 1, SCRIPT_UNTIL_INTERRUPTED);
    script_wait_writes(b->sinks[0], 1);
    script_wait_writes(b->sinks[1], 1);
    (void)drain(b, 2, 5000);
    assert_true(b->took_us < 5000000 + SLACK_US); /* not twice */
    for (size_t i = 0; i < 2; i++) {
        assert_true(b->reports[i].reported);
        assert_int_equal(b->reports[i].undelivered, 8);
    }
}

static void test_T8_one_that_hangs_costs_the_others_nothing(void **state)
{
    struct bench *b = *state;

    put_many(b, 8);
    start_worker(b, 0, SCRIPT_UNTIL_RELEASED);
    b->options.consumer = "audit";
    start_worker(b, 1, SCRIPT_PROMPT);
    b->options.consumer = "copy";
    start_worker(b, 2, SCRIPT_UNTIL_INTERRUPTED);
    b->options.consumer = "late";
    make_worker(b, 3, SCRIPT_PROMPT);
    script_wait_writes(b->sinks[0], 1);
    script_wait_writes(b->sinks[2], 1);
    (void)drain(b, 4, 200);
    assert_true(b->took_us >=
                200000 + MARGIN_US); /* for the one that is given up on, not for each */
    assert_true(!b->reports[0].reported && b->reports[0].counted);
    assert_true(b->reports[1].reported && b->reports[1].drained);
    assert_int_equal(b->reports[1].delivered, 8);
    assert_true(b->reports[2].reported && !b->reports[2].drained);
    assert_int_equal(b->reports[2].undelivered, 8);
    assert_true(b->reports[3].reported && !b->reports[3].drained);
    assert_int_equal(b->reports[3].delivered, 0);
    script_release(b->sinks[0]);
}

/* ---- what a report claims (T4) ------------------------------------------------------------------ */

static void idle(struct bench *b)
{
    start_worker(b, 0, SCRIPT_PROMPT);
    put_many(b, 3);
    script_wait_accepted(b->sinks[0], 3);
}

static void poison_left(struct bench *b)
{
    struct daybook_claim wanted = {.consumer = CONSUMER, .events_max = 1, .lease_ms = 1000};
    struct daybook_batch *batch = NULL;
    int64_t now_us = dbk_os_posix()->realtime_us(dbk_os_posix());

    put_many(b, 1);
    assert_int_equal(daybook_batch_new(1, 1, 4096, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_claim(b->journal, &wanted, now_us, DAYBOOK_NO_DEADLINE, batch, NULL),
        DAYBOOK_OK);
    struct daybook_hand_out hand_out = {batch->deliveries[0].position, batch->deliveries[0].token};
    assert_int_equal(daybook_journal_quarantine(
                         b->journal, CONSUMER, hand_out, DAYBOOK_REASON_REJECTED,
                         (struct daybook_bytes){"no", 2}, now_us, DAYBOOK_NO_DEADLINE, NULL),
                     DAYBOOK_OK);
    daybook_batch_free(batch);
    start_worker(b, 0, SCRIPT_PROMPT);
}

static void cut_at_the_deadline(struct bench *b)
{
    put_many(b, 3);
    start_worker(b, 0, SCRIPT_UNTIL_INTERRUPTED);
    script_wait_writes(b->sinks[0], 1);
}

static void hung_write(struct bench *b)
{
    put_many(b, 3);
    start_worker(b, 0, SCRIPT_UNTIL_RELEASED);
    script_wait_writes(b->sinks[0], 1);
}

static void hung_write_and_reading(struct bench *b)
{
    hung_write(b);
    atomic_store(&b->troubled.hangs[TROUBLED_CONSUMER_STATS], 1);
}

static void hung_after_all_was_delivered(struct bench *b)
{
    b->options.maintain_interval_ms = 1;
    atomic_store(&b->troubled.hangs[TROUBLED_MAINTAIN], 1);
    start_worker(b, 0, SCRIPT_PROMPT);
    troubled_wait_calls(&b->troubled, TROUBLED_MAINTAIN, 1);
}

static void hung_reading(struct bench *b)
{
    idle(b);
    atomic_store(&b->troubled.hangs[TROUBLED_CONSUMER_STATS], 1);
}

static void reading_that_fails(struct bench *b)
{
    idle(b);
    b->troubled.failures[TROUBLED_CONSUMER_STATS] = 1;
}

static void never_ran(struct bench *b)
{
    put_many(b, 3);
    make_worker(b, 0, SCRIPT_PROMPT);
}

static void never_ran_and_the_reading_hangs(struct bench *b)
{
    never_ran(b);
    atomic_store(&b->troubled.hangs[TROUBLED_CONSUMER_STATS], 1);
}

static void never_ran_and_nothing_there(struct bench *b)
{
    make_worker(b, 0, SCRIPT_PROMPT);
}

#define UNKNOWN 0 /* numbers that are not known are not claimed: they are zero */

static void test_T4_the_report_is_right_in_every_boolean(void **state)
{
    enum { DRAIN, ABANDON };
    static const struct {
        const char *name;
        void (*story)(struct bench *b);
        int how;
        bool reported, counted, drained, unwaited;
        enum daybook_caught_up caught_up;
        uint64_t delivered, failed, undelivered, quarantined;
    } rows[] = {
        {"everything delivered", idle, DRAIN, true, true, true, false, DAYBOOK_CAUGHT_UP_YES, 3, 0,
         0, 0},
        {"poison left", poison_left, DRAIN, true, true, true, false, DAYBOOK_CAUGHT_UP_YES, 0, 0, 0,
         1},
        {"cut at the deadline", cut_at_the_deadline, DRAIN, true, true, false, false,
         DAYBOOK_CAUGHT_UP_NO, 0, 0, 3, 0},
        {"a write that hangs", hung_write, DRAIN, false, true, false, false, DAYBOOK_CAUGHT_UP_NO,
         UNKNOWN, UNKNOWN, 3, 0},
        {"a write and the reading hang", hung_write_and_reading, DRAIN, false, false, false, false,
         DAYBOOK_CAUGHT_UP_UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
        {"hung, and nothing is left", hung_after_all_was_delivered, DRAIN, false, true, false,
         false, DAYBOOK_CAUGHT_UP_NO, UNKNOWN, UNKNOWN, 0, 0},
        {"the reading hangs", hung_reading, DRAIN, true, false, false, false,
         DAYBOOK_CAUGHT_UP_UNKNOWN, 3, 0, UNKNOWN, UNKNOWN},
        {"the reading fails", reading_that_fails, DRAIN, true, false, false, false,
         DAYBOOK_CAUGHT_UP_UNKNOWN, 3, 0, UNKNOWN, UNKNOWN},
        {"never ran", never_ran, DRAIN, true, true, false, false, DAYBOOK_CAUGHT_UP_NO, 0, 0, 3, 0},
        {"never ran, the reading hangs", never_ran_and_the_reading_hangs, DRAIN, true, false, false,
         false, DAYBOOK_CAUGHT_UP_UNKNOWN, 0, 0, UNKNOWN, UNKNOWN},
        {"never ran, nothing there", never_ran_and_nothing_there, DRAIN, true, true, true, false,
         DAYBOOK_CAUGHT_UP_YES, 0, 0, 0, 0},
        {"abandoned, idle", idle, ABANDON, false, false, false, true, DAYBOOK_CAUGHT_UP_UNKNOWN,
         UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
        {"abandoned in a write", hung_write, ABANDON, false, false, false, true,
         DAYBOOK_CAUGHT_UP_UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *made = NULL;
        assert_int_equal(setup(&made), 0);
        struct bench *b = made;
        rows[i].story(b);
        if (rows[i].how == ABANDON) {
            daybook_workers_abandon(b->workers, 1, b->reports);
        } else {
            (void)drain(b, 1, rows[i].story == idle || rows[i].story == poison_left ? 5000 : 20);
        }
        const struct daybook_drain_report *r = &b->reports[0];
        if (r->reported != rows[i].reported || r->counted != rows[i].counted ||
            r->drained != rows[i].drained || r->unwaited != rows[i].unwaited ||
            daybook_drain_report_caught_up(r) != rows[i].caught_up ||
            r->delivered != rows[i].delivered || r->failed != rows[i].failed ||
            r->undelivered != rows[i].undelivered || r->quarantined != rows[i].quarantined) {
            fail_msg("%s: reported %d counted %d drained %d unwaited %d delivered %d failed %d "
                     "undelivered %d quarantined %d",
                     rows[i].name, r->reported, r->counted, r->drained, r->unwaited,
                     (int)r->delivered, (int)r->failed, (int)r->undelivered, (int)r->quarantined);
        }
        troubled_let_go(&b->troubled, TROUBLED_CONSUMER_STATS);
        troubled_let_go(&b->troubled, TROUBLED_MAINTAIN);
        script_release(b->sinks[0]);
        assert_int_equal(teardown(&made), 0);
    }
}

/* ---- abandon (T3) --------------------------------------------------------------------------------- */

static void test_T3_abandon_waits_for_nobody(void **state)
{
    struct bench *b = *state;

    put_many(b, 8);
    start_worker(b, 0, SCRIPT_UNTIL_RELEASED);
    b->options.consumer = "audit";
    start_worker(b, 1, SCRIPT_UNTIL_INTERRUPTED);
    script_wait_writes(b->sinks[0], 1);
    script_wait_writes(b->sinks[1], 1);
    int64_t began_us = mono_us();
    daybook_workers_abandon(b->workers, 2, b->reports);
    assert_true(mono_us() - began_us < SLACK_US);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&b->sinks[i]->interrupted), 1);
        assert_true(b->reports[i].unwaited && !b->reports[i].reported && !b->reports[i].counted);
    }

    /* T7: the first one's write is still out when everything else goes. */
    struct script_sink *sink = b->sinks[0];
    for (size_t i = 0; i < 2; i++) {
        daybook_worker_free(b->workers[i]);
        b->workers[i] = NULL;
    }
    assert_true(mono_us() - began_us < MARGIN_US);
    assert_int_equal(daybook_journal_close(b->journal, NULL), DAYBOOK_OK);
    assert_int_equal(atomic_load(&b->closed[0]), 0);
    script_release(sink);
    wait_until_closed(b, 0);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_ACK]), 0);
    open_journal(b);
}

static void test_T3_an_abandoned_worker_claims_nothing_more(void **state)
{
    struct bench *b = *state;

    put_many(b, 400);
    start_worker(b, 0, SCRIPT_PROMPT);
    script_wait_accepted(b->sinks[0], 8);
    daybook_workers_abandon(b->workers, 1, b->reports);
    uint32_t claims = atomic_load(&b->troubled.calls[TROUBLED_CLAIM]);
    daybook_worker_free(b->workers[0]);
    b->workers[0] = NULL;
    wait_until_closed(b, 0);
    /* One may have begun before it saw the stop. */
    assert_true(atomic_load(&b->troubled.calls[TROUBLED_CLAIM]) <= claims + 1);
}

static void test_T4_a_worker_that_never_ran_says_so(void **state)
{
    struct bench *b = *state;

    put_many(b, 3);
    make_worker(b, 0, SCRIPT_PROMPT);
    const struct daybook_drain_report *report = drain(b, 1, 1000);
    assert_true(report->reported && report->counted && !report->drained);
    assert_int_equal(report->delivered, 0);
    assert_int_equal(report->undelivered, 3);
    assert_true(b->took_us < SLACK_US);
}

static void test_T7_a_worker_may_be_freed_without_a_drain(void **state)
{
    struct bench *b = *state;

    put_many(b, 100);
    start_worker(b, 0, SCRIPT_PROMPT);
    script_wait_accepted(b->sinks[0], 1);
    daybook_worker_free(b->workers[0]);
    b->workers[0] = NULL;
    wait_until_closed(b, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    on_log = argc > 1 && strcmp(argv[1], "log") == 0;
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }

    const struct CMUnitTest tests[] = {
        TEST(test_L1_an_append_wakes_an_idle_worker),
        TEST(test_C1b_start_registers_the_consumer),
        TEST(test_T1_a_backlog_is_delivered_within_the_budget),
        TEST(test_T1_a_write_in_flight_is_cut_at_the_deadline),
        TEST(test_T1_a_pass_that_begins_in_the_drain_is_cut_too),
        TEST(test_T1_a_stop_ends_the_quiet_of_an_outage),
        TEST(test_W6b_an_operator_ends_the_quiet_of_a_brake),
        TEST(test_T2_who_does_not_come_back_is_given_up_on),
        TEST(test_T2_a_hanging_journal_is_given_up_on_and_read_by_the_caller),
        TEST(test_T2_a_slow_closing_read_costs_the_count_not_the_report),
        TEST(test_T8_workers_are_drained_side_by_side),
        TEST(test_T8_one_that_hangs_costs_the_others_nothing),
        cmocka_unit_test(test_T4_the_report_is_right_in_every_boolean),
        TEST(test_T3_abandon_waits_for_nobody),
        TEST(test_T3_an_abandoned_worker_claims_nothing_more),
        TEST(test_T4_a_worker_that_never_ran_says_so),
        TEST(test_T7_a_worker_may_be_freed_without_a_drain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
