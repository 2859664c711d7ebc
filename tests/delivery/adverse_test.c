/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong around a worker while it holds events: leases that run out, clocks that jump, verdicts
 * that the journal does not take, operators. In all of it no healthy event may lose an attempt for good, and
 * what is refused leaves as rejected. Hand-outs are limited to the delivery attempts (the library's
 * default), so that a lost one shows. The engine is the first argument: test-adverse log.
 */
#include "delivery/bench.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 12 /* far more than an event has attempts */

/* Everything was delivered, and nothing quarantined. */
static void assert_all_delivered(struct bench *b, uint64_t count)
{
    assert_int_equal(backlog(b).quarantined, 0);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, count);
}

/* What is quarantined, `count` events, was rejected. */
static void assert_rejected(struct bench *b, size_t count)
{
    static struct daybook_quarantine_entry entries[BATCH_EVENTS];
    uint64_t last = 0;

    assert_code(DAYBOOK_OK, daybook_journal_quarantine_list(b->world->journal, CONSUMER, 0,
                                                            (enum daybook_quarantine_reason)0,
                                                            b->world->batch, entries, &last, NULL));
    assert_int_equal(b->world->batch->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(entries[i].reason, DAYBOOK_REASON_REJECTED);
    }
}

/* ---- leases --------------------------------------------------------------------------------------- */

static void test_W7_W11_what_leaves_the_pass_gets_its_attempt_back(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = LEASE_US + SECOND_US; /* too late for the second destination, each time */
    put_many(b->world, "e", 3, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(run_pass(b)->landed, 0);
        pass(b->world, LEASE_US);
    }
    b->write_takes_us = 0;
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 3);
}

static void test_W7_W11_an_extension_that_fails_costs_no_attempt(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 25 * SECOND_US;
    put_many(b->world, "e", 3, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        b->troubled.failures[TROUBLED_EXTEND] = 1;
        assert_int_equal(run_pass(b)->landed, 0);
        pass(b->world, LEASE_US);
    }
    b->write_takes_us = 0;
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 3);
}

/* What is to be condemned waits for the end of the search; its lease has to last as long. */
static void test_W6_W11_the_one_more_write_is_not_lost_to_a_slow_search(void **state)
{
    struct bench *b = *state;

    b->options.claim_batch = 32;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    put(b->world, "first", "f");
    for (unsigned i = 0; i < 2; i++) {
        (void)run_pass(b);
        pass(b->world, LEASE_US);
    }
    put_many(b->world, "bad-too", 5, NULL);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 9 * SECOND_US;
    (void)run_pass(b);
    assert_int_equal(backlog(b).quarantined, 1);
    assert_rejected(b, 1);
}

/* ---- clocks --------------------------------------------------------------------------------------- */

static void clock_jumps_in_an_outage(struct bench *b, int64_t us)
{
    begin(b);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    put_many(b->world, "e", 20, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        (void)until_next_try(b);
        (void)until_next_try(b);
        jump(b->world, us);
    }
    b->sinks[0]->away = false;
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 20);
}

static void test_W5b_W7_a_clock_that_leaps_ahead_in_an_outage_costs_no_attempt(void **state)
{
    clock_jumps_in_an_outage(*state, HOUR_US);
}

static void test_W5b_W7_a_clock_that_goes_back_in_an_outage_costs_no_attempt(void **state)
{
    clock_jumps_in_an_outage(*state, -HOUR_US);
}

/* ---- verdicts ------------------------------------------------------------------------------------- */

static void test_W6_a_verdict_that_fails_leaves_no_other_reason(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_NAMED;
    put(b->world, "first", "f");
    (void)run_pass(b);
    put(b->world, "bad", "p");
    b->troubled.failures[TROUBLED_QUARANTINE] = 3;
    live(b, HOUR_US);
    assert_int_equal(b->troubled.failures[TROUBLED_QUARANTINE], 0);
    assert_rejected(b, 1);
}

/* Fewer hand-outs than attempts: what is refused is rejected at the last of them. */
static void test_W6_fewer_hand_outs_than_attempts_leave_no_other_reason(void **state)
{
    struct bench *b = *state;

    b->options.hand_outs_max = 2;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_NAMED;
    put(b->world, "bad", "p");
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_rejected(b, 1);
}

/* ---- stops ---------------------------------------------------------------------------------------- */

static void stop(struct bench *b)
{
    dbk_worker_stop(b->worker, mono_us(b) + SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
}

static void test_T1_a_successor_need_not_wait_for_what_an_outage_kept_leased(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    put_many(b->world, "e", 6, NULL);
    (void)until_next_try(b);
    stop(b); /* its last pass ends as an outage, long before the deadline */
    assert_int_equal(claim(b->world, CONSUMER, 8), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(b->world->batch->deliveries[i].attempt, 1);
    }
}

static void test_T1_W8_what_could_not_be_acknowledged_is_acknowledged_before_the_end(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 3, NULL);
    b->troubled.failures[TROUBLED_ACK] = 1;
    stop(b);
    assert_all_delivered(b, 3);
    assert_int_equal(atomic_load(&b->sinks[0]->writes), 1);
}

/* ---- small claims --------------------------------------------------------------------------------- */

static void test_W5b_small_claims_reach_behind_many_bad_heads(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 1000);
    b->options.claim_batch = 1;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "bad", 90, NULL);
    put(b->world, "behind", "them");
    live(b, HOUR_US);
    assert_int_equal(b->worker->delivered, 1);
}

/* What is kept leased has to last through a pass, however long that searches. */
static void test_W5b_slow_refusals_do_not_keep_claims_at_the_front(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 9 * SECOND_US;
    put_many(b->world, "bad", 30, NULL);
    put(b->world, "behind", "them");
    for (int i = 0; i < 60 && b->worker->delivered == 0; i++) {
        live(b, MINUTE_US);
    }
    assert_int_equal(b->worker->delivered, 1);
}

/* What landed ends a doubt, also where another begins with it: what waits from the first one is tried
 * again, however much comes in. */
static void test_W5b_what_is_kept_leased_is_let_go_when_something_lands(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_UNAVAILABLE);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_REFUSED);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_ACCEPTED);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_UNAVAILABLE);
    put(b->world, "e1", "e");
    (void)run_pass(b);
    put_many(b->world, "f", 2, NULL);
    assert_int_equal(run_pass(b)->landed, 1);
    assert_int_equal(b->pass.search, DBK_SEARCH_OUTAGE);
    assert_int_equal(run_pass(b)->landed, 1);
    assert_string_equal(b->sinks[0]->offered, "[e1][f1 f2][f1][f2][e1]");
}

/* Two of them, as far apart as the worker's memory would be large if a claim were all that counted. */
static void test_W12b_two_events_that_break_the_receiver_and_small_claims(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 1000);
    b->options.claim_batch = 1;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_BREAKS;
    put(b->world, "bad1", "p");
    put_many(b->world, "e", 63, NULL);
    put(b->world, "bad2", "q");
    put_many(b->world, "f", 63, NULL);
    live(b, HOUR_US);
    assert_true(backlog(b).drained);
    assert_rejected(b, 2);
    assert_int_equal(b->worker->delivered, 126);
}

/* ---- operators ------------------------------------------------------------------------------------ */

static void discard_the_first(void *user)
{
    struct bench *b = user;

    b->sinks[0]->on_write = NULL;
    assert_code(DAYBOOK_OK, discard(b->world, CONSUMER, "bad"));
}

static void test_W6_what_an_operator_discards_in_a_write_is_not_quarantined(void **state)
{
    struct bench *b = *state;

    begin(b);
    enrol(b->world, "audit"); /* so that what is discarded is not forgotten */
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    put(b->world, "after", "p");
    put(b->world, "other", "q");
    b->sinks[0]->on_write = discard_the_first;
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 2);
}

/* It comes back with a fresh budget, and its neighbours do not pay for it. */
static void test_W6_what_an_operator_releases_is_judged_anew(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    put(b->world, "one", "q");
    live(b, 10 * MINUTE_US);
    assert_rejected(b, 1);
    assert_code(DAYBOOK_OK, release(b->world, CONSUMER, "bad"));
    put(b->world, "two", "q");
    (void)run_pass(b);
    assert_int_equal(backlog(b).quarantined, 0); /* its attempts begin again */
    live(b, 10 * MINUTE_US);
    assert_rejected(b, 1);
    assert_int_equal(b->worker->delivered, 2);
    b->sinks[0]->bad = SCRIPT_BAD_ACCEPTED; /* mended at the destination */
    assert_code(DAYBOOK_OK, release(b->world, CONSUMER, "bad"));
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 3);
}

static void test_W5b_a_rewind_in_an_outage_costs_nobody_anything(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 6, NULL);
    live(b, MINUTE_US);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    put_many(b->world, "f", 6, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        (void)until_next_try(b);
        assert_code(DAYBOOK_OK, rewind_consumer(b->world, CONSUMER));
    }
    b->sinks[0]->away = false;
    live(b, 10 * MINUTE_US);
    assert_all_delivered(b, 18);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(int argc, char **argv)
{
    bench_engine(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(test_W7_W11_what_leaves_the_pass_gets_its_attempt_back),
        TEST(test_W7_W11_an_extension_that_fails_costs_no_attempt),
        TEST(test_W6_W11_the_one_more_write_is_not_lost_to_a_slow_search),
        TEST(test_W5b_W7_a_clock_that_leaps_ahead_in_an_outage_costs_no_attempt),
        TEST(test_W5b_W7_a_clock_that_goes_back_in_an_outage_costs_no_attempt),
        TEST(test_W6_a_verdict_that_fails_leaves_no_other_reason),
        TEST(test_W6_fewer_hand_outs_than_attempts_leave_no_other_reason),
        TEST(test_T1_a_successor_need_not_wait_for_what_an_outage_kept_leased),
        TEST(test_T1_W8_what_could_not_be_acknowledged_is_acknowledged_before_the_end),
        TEST(test_W5b_small_claims_reach_behind_many_bad_heads),
        TEST(test_W5b_slow_refusals_do_not_keep_claims_at_the_front),
        TEST(test_W5b_what_is_kept_leased_is_let_go_when_something_lands),
        TEST(test_W12b_two_events_that_break_the_receiver_and_small_claims),
        TEST(test_W6_what_an_operator_discards_in_a_write_is_not_quarantined),
        TEST(test_W6_what_an_operator_releases_is_judged_anew),
        TEST(test_W5b_a_rewind_in_an_outage_costs_nobody_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
