/* SPDX-License-Identifier: Apache-2.0 */
/*
 * W9: advisory destinations, in passes that the test runs itself and with their threads. Nothing sleeps.
 * Bounds are measured on the real clock and far apart.
 */
#include <daybook/memory.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "delivery/delivery.h"
#include "harness/script_sink.h"
#include "harness/troubled_journal.h"

#define CONSUMER "billing"
#define SETTLE_US 300000
#define SLACK_US 400000 /* of a busy machine, sanitizers included */
#define KINDS (DAYBOOK_WORKER_MAINTAIN_FAILED + 1)
#define ADVISORIES 2u

struct bench {
    struct daybook_journal *journal;
    struct troubled_journal troubled;
    struct daybook_worker_options options;
    struct daybook_worker *worker;
    struct script_sink *ledger;
    struct script_sink *advisory[ADVISORIES];
    struct daybook_sink *heads[1 + ADVISORIES];
    struct daybook_drain_report report;
    struct dbk_pass pass;
    _Atomic uint32_t closed;
    _Atomic uint64_t counts[KINDS];
    _Atomic uint64_t told[KINDS];
    _Atomic uint64_t missed;
    int64_t took_us; /* by the drain */
    unsigned appended;
};

static int64_t mono_us(void)
{
    return dbk_os_posix()->monotonic_us(dbk_os_posix());
}

static void note(void *user, const struct daybook_worker_event *event)
{
    struct bench *b = user;

    atomic_fetch_add(&b->counts[event->kind], event->count);
    atomic_fetch_add(&b->told[event->kind], 1);
    atomic_fetch_add(&b->missed, event->missed);
}

static uint64_t dropped(struct bench *b)
{
    return atomic_load(&b->counts[DAYBOOK_WORKER_ADVISORY_DROPPED]);
}

static int setup(void **state)
{
    struct daybook_capacity capacity = {.events_max = 8192, .events = {.event_bytes_max = 4096}};
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    assert_int_equal(daybook_memory_open(&capacity, &b->journal, NULL), DAYBOOK_OK);
    troubled_init(&b->troubled, b->journal);
    b->ledger = script_sink_new("ledger");
    b->heads[0] = &b->ledger->head;
    for (size_t i = 0; i < ADVISORIES; i++) {
        b->advisory[i] = script_sink_new(i == 0 ? "board" : "mirror");
        b->advisory[i]->closed = &b->closed;
        b->heads[1 + i] = &b->advisory[i]->head;
    }
    b->options = (struct daybook_worker_options){.consumer = CONSUMER,
                                                 .claim_batch = 8,
                                                 .poll_interval_ms = 60000,
                                                 .sinks = b->heads,
                                                 .sink_count = 1,
                                                 .advisory = b->heads + 1,
                                                 .advisory_count = 1,
                                                 .notify = note,
                                                 .user = b};
    *state = b;
    return 0;
}

/* Makes the worker; until then a test may change the options. */
static void make(struct bench *b)
{
    assert_int_equal(daybook_worker_new(&b->troubled.head, &b->options, &b->worker, NULL),
                     DAYBOOK_OK);
}

static void start(struct bench *b)
{
    make(b);
    assert_int_equal(daybook_worker_start(b->worker, NULL), DAYBOOK_OK);
}

static int teardown(void **state)
{
    struct bench *b = *state;

    /* A test that failed has left what hangs as it was. */
    for (int op = 0; op < TROUBLED_OP_COUNT; op++) {
        troubled_let_go(&b->troubled, (enum troubled_op)op);
    }
    daybook_worker_free(b->worker);
    for (size_t i = b->options.advisory_count; i < ADVISORIES; i++) {
        b->heads[1 + i]->ops->close(b->heads[1 + i]);
    }
    assert_int_equal(daybook_journal_close(b->journal, NULL), DAYBOOK_OK);
    free(b);
    return 0;
}

static void put(struct bench *b, const char *id, const char *record)
{
    struct daybook_append_result result;
    struct daybook_bytes bytes = {id, strlen(id)};
    struct daybook_event event = {.request_id = bytes,
                                  .name_space = {"acme", 4},
                                  .subject = bytes,
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = {record, strlen(record)}};

    assert_int_equal(daybook_journal_append(b->journal, &event,
                                            dbk_os_posix()->realtime_us(dbk_os_posix()),
                                            DAYBOOK_NO_DEADLINE, &result, NULL),
                     DAYBOOK_OK);
}

static void put_many(struct bench *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "e%u", b->appended++);
        put(b, id, "{}");
    }
}

static const struct dbk_pass *run_pass(struct bench *b)
{
    dbk_worker_pass(b->worker, &b->pass);
    return &b->pass;
}

/* One write of an advisory destination, as its thread would. */
static bool tell(struct bench *b, size_t index)
{
    return dbk_advisory_write(&b->worker->advisories[index]);
}

static const struct daybook_drain_report *drain(struct bench *b, uint32_t budget_ms)
{
    int64_t began_us = mono_us();

    daybook_workers_drain(&b->worker, 1, budget_ms, &b->report);
    b->took_us = mono_us() - began_us;
    return &b->report;
}

static void wait_until_delivered(struct bench *b, uint32_t rows)
{
    script_wait_accepted(b->ledger, rows);
    troubled_wait_calls(&b->troubled, TROUBLED_ACK, 1);
}

/* ---- passes ------------------------------------------------------------------------------------ */

static void test_W9_told_once_a_pass(void **state)
{
    struct bench *b = *state;

    make(b);
    put_many(b, 3);
    assert_int_equal(run_pass(b)->acknowledged, 3);
    assert_string_equal(b->advisory[0]->offered, ""); /* not by the worker */
    put_many(b, 2);
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_true(tell(b, 0));
    assert_true(tell(b, 0));
    assert_false(tell(b, 0));
    assert_string_equal(b->advisory[0]->offered, "[e0 e1 e2][e3 e4]"); /* a pass a write */
    assert_int_equal(atomic_load(&b->counts[DAYBOOK_WORKER_ADVISED]), 5);
    assert_int_equal(atomic_load(&b->told[DAYBOOK_WORKER_ADVISED]), 2);
    assert_int_equal(dropped(b), 0);
}

static void test_W9_told_although_the_acknowledgement_failed(void **state)
{
    struct bench *b = *state;

    make(b);
    put_many(b, 3);
    b->troubled.failures[TROUBLED_ACK] = 1;
    assert_int_equal(run_pass(b)->acknowledged, 0);
    assert_int_equal(b->pass.landed, 3);
    assert_true(tell(b, 0));
    assert_string_equal(b->advisory[0]->accepted, "e0 e1 e2");
}

static void test_W9_told_only_of_what_landed(void **state)
{
    struct bench *b = *state;

    make(b);
    script_add(b->ledger, (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED,
                                               .others = DAYBOOK_OTHERS_ACCEPTED});
    put_many(b, 1);
    put(b, "bad1", "{}");
    put_many(b, 1);
    assert_int_equal(run_pass(b)->landed, 2);
    assert_true(tell(b, 0));
    assert_false(tell(b, 0));
    assert_string_equal(b->advisory[0]->offered, "[e0 e1]");
    script_answer(b->ledger, DAYBOOK_ANSWER_UNAVAILABLE);
    put_many(b, 2);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_false(tell(b, 0)); /* an outage is nothing to tell */
}

static void test_W9_told_of_no_control(void **state)
{
    struct bench *b = *state;

    make(b);
    script_answer(b->ledger, DAYBOOK_ANSWER_ACCEPTED);
    script_answer(b->ledger, DAYBOOK_ANSWER_REFUSED);
    put_many(b, 1);
    assert_int_equal(run_pass(b)->landed, 1);
    assert_true(tell(b, 0));
    put_many(b, 1);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_string_equal(b->ledger->offered, "[e0][e1][e0]"); /* the control is taken again (W5) */
    assert_false(tell(b, 0));
    assert_string_equal(b->advisory[0]->offered, "[e0]");
}

static void test_W9_its_answer_changes_nothing(void **state)
{
    struct bench *b = *state;

    make(b);
    script_answer(b->advisory[0], DAYBOOK_ANSWER_REFUSED);
    script_answer(b->advisory[0], DAYBOOK_ANSWER_UNAVAILABLE);
    script_add(b->advisory[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED,
                                                    .others = DAYBOOK_OTHERS_ACCEPTED});
    for (unsigned i = 0; i < 3; i++) {
        put_many(b, 1);
        put(b, i == 0 ? "bad0" : i == 1 ? "bad1" : "bad2", "{}");
        assert_int_equal(run_pass(b)->acknowledged, 2);
        assert_true(tell(b, 0));
        assert_false(tell(b, 0)); /* nothing is tried again */
    }
    assert_int_equal(atomic_load(&b->counts[DAYBOOK_WORKER_ADVISED]), 1);
    assert_int_equal(atomic_load(&b->missed), 5);
    assert_int_equal(atomic_load(&b->told[DAYBOOK_WORKER_WRITE]), 3); /* the ledger's alone */
    assert_int_equal(atomic_load(&b->told[DAYBOOK_WORKER_DESTINATION_DOWN]), 0);
    assert_int_equal(b->worker->failed, 0);
}

static void test_W9_a_full_queue_drops_the_newest_and_counts_them(void **state)
{
    struct bench *b = *state;

    b->options.advisory_events = 4;
    make(b);
    for (unsigned i = 0; i < 3; i++) {
        put_many(b, 3);
        assert_int_equal(run_pass(b)->acknowledged, 3);
    }
    assert_int_equal(dropped(b), 5);
    while (tell(b, 0)) {
    }
    assert_string_equal(b->advisory[0]->offered, "[e0 e1 e2][e3]");
    put_many(b, 2);
    (void)run_pass(b);
    assert_true(tell(b, 0));
    assert_string_equal(b->advisory[0]->accepted, "e0 e1 e2 e3 e9 e10");
    assert_int_equal(dropped(b), 5);
}

static void test_W9_each_has_a_queue_of_its_own(void **state)
{
    struct bench *b = *state;

    b->options.advisory_count = 2;
    b->options.advisory_events = 2;
    make(b);
    for (unsigned i = 0; i < 3; i++) {
        put_many(b, 2);
        (void)run_pass(b);
        assert_true(tell(b, 1)); /* the first one is never told */
    }
    assert_string_equal(b->advisory[1]->accepted, "e0 e1 e2 e3 e4 e5");
    assert_int_equal(dropped(b), 4);
    assert_true(tell(b, 0));
    assert_string_equal(b->advisory[0]->accepted, "e0 e1");
}

/* ---- the ring of bytes -------------------------------------------------------------------------- */

/* A destination that holds every record against what the test appended under that id. */
struct checking {
    struct daybook_sink head;
    unsigned next; /* ids only grow */
    unsigned rows;
};

static size_t record_of(unsigned n, char *buf)
{
    size_t len = 16 + (n * 2654435761u >> 20) % 900;

    memset(buf, 'a' + (int)(n % 26), len);
    memcpy(buf, "{\"v\":\"", 6);
    memcpy(buf + len - 2, "\"}", 3);
    return len;
}

static void check_rows(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                       int64_t deadline_us, struct daybook_answer *answer)
{
    struct checking *c = (struct checking *)sink;

    (void)deadline_us;
    answer->kind = DAYBOOK_ANSWER_ACCEPTED;
    for (size_t i = 0; i < count; i++) {
        const struct daybook_event *event = &rows[i].event;
        char record[1024];
        char id[32] = "";

        memcpy(id, event->request_id.data, event->request_id.len);
        unsigned n = (unsigned)strtoul(id + 1, NULL, 10);
        size_t len = record_of(n, record);
        if (n < c->next || event->record.len != len ||
            memcmp(event->record.data, record, len) != 0 || event->name_space.len != 4 ||
            memcmp(event->name_space.data, "acme", 4) != 0 ||
            event->subject.len != event->request_id.len) {
            answer->kind = DAYBOOK_ANSWER_REFUSED;
        }
        c->next = n + 1;
        c->rows++;
    }
}

static void ignore(struct daybook_sink *sink)
{
    (void)sink;
}

static const struct daybook_sink_ops checking_ops = {
    .kind = "checking", .write = check_rows, .interrupt = ignore, .close = ignore};

static void put_patterns(struct bench *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char record[1024];
        char id[32];
        (void)snprintf(id, sizeof id, "e%u", b->appended);
        (void)record_of(b->appended++, record);
        put(b, id, record);
    }
}

static void test_W9_records_come_through_the_ring_as_they_were(void **state)
{
    struct bench *b = *state;
    struct checking checking = {.head = {.ops = &checking_ops}, .next = 0};
    struct daybook_sink *const heads[] = {&checking.head};

    b->options.advisory = heads;
    b->options.advisory_bytes = 1; /* the least: room for one of the largest events */
    make(b);
    for (unsigned i = 0; i < 150; i++) {
        put_patterns(b, 1 + i % 7);
        (void)run_pass(b);
        while (i % 3 != 0 && tell(b, 0)) {
        }
    }
    while (tell(b, 0)) {
    }
    assert_int_equal(atomic_load(&b->missed), 0);
    assert_int_equal(checking.rows + dropped(b), b->appended);
    assert_true(dropped(b) > 0 && checking.rows > 150);
    daybook_worker_free(b->worker);
    b->worker = NULL;
    b->options.advisory_count = 0; /* the scripted one is still the test's */
}

static void test_W9_the_largest_event_fits_an_empty_queue_at_any_place(void **state)
{
    static const int sizes[] = {2500, 3000, 4096,
                                10}; /* growing: no end of the ring is left over */
    struct bench *b = *state;

    b->options.advisory_bytes = 1;
    make(b);
    for (unsigned i = 0; i < 20; i++) {
        char id[32];
        char record[4097];
        (void)snprintf(record, sizeof record, "{%*s}", sizes[i % 4] - 2, "");
        (void)snprintf(id, sizeof id, "large%u", i);
        put(b, id, record);
        (void)run_pass(b);
        assert_true(tell(b, 0));
    }
    assert_int_equal(dropped(b), 0);
    assert_int_equal(atomic_load(&b->advisory[0]->rows_accepted), 20);
}

/* ---- with threads -------------------------------------------------------------------------------- */

static void test_W9_everything_that_was_delivered_is_told_by_the_end_of_a_drain(void **state)
{
    struct bench *b = *state;
    struct checking checking = {.head = {.ops = &checking_ops}, .next = 0};
    struct daybook_sink *const heads[] = {&checking.head};

    b->options.advisory = heads;
    b->options.claim_batch = 64;
    make(b);
    put_patterns(b, 300);
    assert_int_equal(daybook_worker_start(b->worker, NULL), DAYBOOK_OK);
    assert_int_equal(drain(b, 20000)->delivered, 300);
    assert_true(b->report.drained);
    assert_int_equal(checking.rows + dropped(b), 300);
    assert_int_equal(atomic_load(&b->missed), 0);
    daybook_worker_free(b->worker);
    b->worker = NULL;
    b->options.advisory_count = 0;
}

static void test_W9_nobody_is_told_before_the_acknowledgement(void **state)
{
    struct bench *b = *state;

    atomic_store(&b->troubled.hangs[TROUBLED_ACK], 1);
    start(b);
    put_many(b, 3);
    daybook_journal_wake(b->journal);
    troubled_wait_calls(&b->troubled, TROUBLED_ACK, 1);
    uint64_t queued = atomic_load(&b->worker->advisories[0].tail);
    troubled_let_go(&b->troubled, TROUBLED_ACK);
    assert_int_equal(queued, 0);
    script_wait_writes(b->advisory[0], 1);
    assert_int_equal(drain(b, 20000)->delivered, 3);
    assert_int_equal(atomic_load(&b->advisory[0]->rows_accepted), 3);
}

static void test_W9_one_that_hangs_holds_nothing_up(void **state)
{
    struct bench *b = *state;

    b->options.advisory_events = 8;
    b->options.advisory_count = 2;
    b->advisory[0]->hang = SCRIPT_UNTIL_INTERRUPTED;
    start(b);
    put_many(b, 100);
    daybook_journal_wake(b->journal);
    wait_until_delivered(b, 100);
    script_wait_writes(b->advisory[0], 1);
    const struct daybook_drain_report *report = drain(b, 100);
    assert_true(b->took_us < 100000 + SETTLE_US + SLACK_US);
    assert_true(report->reported && report->counted && report->drained);
    assert_int_equal(report->delivered, 100);
    /* Cut off at the deadline: its write came back, what was behind it was dropped. */
    assert_int_equal(atomic_load(&b->advisory[0]->writes), 1);
    assert_int_equal(atomic_load(&b->counts[DAYBOOK_WORKER_ADVISED]) + atomic_load(&b->missed) +
                         dropped(b),
                     200);
    assert_true(atomic_load(&b->missed) > 0);
}

static void test_T7_one_that_never_comes_back_stays_harmless(void **state)
{
    struct bench *b = *state;

    b->advisory[0]->hang = SCRIPT_UNTIL_RELEASED;
    start(b);
    put_many(b, 8);
    daybook_journal_wake(b->journal);
    script_wait_writes(b->advisory[0], 1);
    assert_true(drain(b, 10)->reported);
    assert_true(b->took_us < 10000 + SETTLE_US + SLACK_US);
    uint64_t advised = atomic_load(&b->told[DAYBOOK_WORKER_ADVISED]);

    /* Its write is still out when the worker is freed and the journal closed. */
    struct script_sink *sink = b->advisory[0];
    daybook_worker_free(b->worker);
    b->worker = NULL;
    assert_int_equal(daybook_journal_close(b->journal, NULL), DAYBOOK_OK);
    assert_int_equal(atomic_load(&b->closed), 0);
    script_release(sink);
    while (atomic_load(&b->closed) == 0) { /* its own thread closes it in the end */
        dbk_futex_wait(&b->closed, 0, -1);
    }
    assert_int_equal(atomic_load(&b->told[DAYBOOK_WORKER_ADVISED]), advised); /* nobody is told */
    struct daybook_capacity capacity = {.events_max = 8};
    assert_int_equal(daybook_memory_open(&capacity, &b->journal, NULL), DAYBOOK_OK);
}

static void test_W9_a_worker_may_be_freed_while_it_tells(void **state)
{
    struct bench *b = *state;

    start(b);
    put_many(b, 300);
    daybook_journal_wake(b->journal);
    script_wait_writes(b->advisory[0], 1);
    daybook_worker_free(b->worker);
    b->worker = NULL;
    while (atomic_load(&b->closed) == 0) {
        dbk_futex_wait(&b->closed, 0, -1);
    }
}

/* ---- options ------------------------------------------------------------------------------------- */

static void test_W1_advisory_destinations_alone_answer_for_nothing(void **state)
{
    struct bench *b = *state;
    struct daybook_error err = {0};

    b->options.sink_count = 0;
    assert_int_equal(daybook_worker_new(b->journal, &b->options, &b->worker, &err),
                     DAYBOOK_BAD_CONFIG);
    assert_non_null(strstr(err.message, "no destination that answers"));
    b->options.sink_count = 1;
    b->options.advisory = NULL;
    assert_int_equal(daybook_worker_new(b->journal, &b->options, &b->worker, &err),
                     DAYBOOK_BAD_CONFIG);
    b->options.advisory = b->heads + 1;
    b->options.advisory_events = 1000001;
    assert_int_equal(daybook_worker_new(b->journal, &b->options, &b->worker, &err),
                     DAYBOOK_BAD_CONFIG);
    b->options.advisory_events = 0;
    make(b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_W9_told_once_a_pass),
        TEST(test_W9_told_of_no_control),
        TEST(test_W9_told_although_the_acknowledgement_failed),
        TEST(test_W9_told_only_of_what_landed),
        TEST(test_W9_its_answer_changes_nothing),
        TEST(test_W9_a_full_queue_drops_the_newest_and_counts_them),
        TEST(test_W9_each_has_a_queue_of_its_own),
        TEST(test_W9_records_come_through_the_ring_as_they_were),
        TEST(test_W9_the_largest_event_fits_an_empty_queue_at_any_place),
        TEST(test_W9_everything_that_was_delivered_is_told_by_the_end_of_a_drain),
        TEST(test_W9_nobody_is_told_before_the_acknowledgement),
        TEST(test_W9_one_that_hangs_holds_nothing_up),
        TEST(test_T7_one_that_never_comes_back_stays_harmless),
        TEST(test_W9_a_worker_may_be_freed_while_it_tells),
        TEST(test_W1_advisory_destinations_alone_answer_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
