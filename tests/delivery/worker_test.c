/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's passes and turns over a journal, in moved time: no thread, no sleep. The clock is the
 * world's; a destination that takes long moves it. The engine is the first argument: test-worker log.
 */
#include "delivery/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- passes ------------------------------------------------------------------------------------ */

static void test_W8_what_landed_is_acknowledged(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 3, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 3);
    assert_string_equal(b->sinks[0]->accepted, "e1 e2 e3");
    assert_true(backlog(b).drained);
    assert_int_equal(b->counts[DAYBOOK_WORKER_ACKNOWLEDGED], 3);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_ACK]), 1); /* as one set */
    assert_int_equal(run_pass(b)->end, DBK_PASS_EMPTY);
    assert_int_equal(b->told[DAYBOOK_WORKER_FAILED], 0);
}

static void test_C4_one_callers_events_arrive_in_order(void **state)
{
    struct bench *b = *state;

    b->options.key_run = 1;
    begin(b);
    put_many(b->world, "e", 4, "one");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run_pass(b)->acknowledged, 1);
    }
    assert_string_equal(b->sinks[0]->offered, "[e1][e2][e3][e4]");
}

static void test_C4b_a_run_is_one_write(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 4, "one");
    assert_int_equal(run_pass(b)->acknowledged, 4);
    assert_string_equal(b->sinks[0]->offered, "[e1 e2 e3 e4]");
}

static void test_W2_a_refused_batch_stays_claimed_under_its_lease(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_REFUSED;
    put_many(b->world, "e", 2, NULL);
    struct dbk_turn turn = dbk_worker_turn(b->worker);
    assert_int_equal(turn.next, DBK_NEXT_QUIET);
    assert_string_equal(b->sinks[0]->offered, "[e1 e2][e1][e2]");
    assert_int_equal(backlog(b).in_flight, 2);
    assert_int_equal(b->counts[DAYBOOK_WORKER_FAILED], 2);
    assert_int_equal(b->worker->failed, 1);
    /* Not retried in a loop. */
    pass(b->world, turn.until_us - b->world->disk->monotonic_us - 1);
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_QUIET);
    assert_int_equal(atomic_load(&b->sinks[0]->writes), 3);
    assert_int_equal(backlog(b).in_flight, 2);
    pass(b->world, 1);
    b->sinks[0]->away = false;
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_AGAIN);
    assert_int_equal(backlog(b).pending, 0);
    assert_int_equal(b->counts[DAYBOOK_WORKER_REDELIVERED], 2);
}

static void test_C6_W7_an_outage_condemns_nobody_however_long_it_lasts(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 3, NULL);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    for (int i = 0; i < 80; i++) {
        if (i == 40) {
            b->sinks[0]->away_as = DAYBOOK_ANSWER_REFUSED;
        }
        assert_int_equal(run_pass(b)->landed, 0);
        assert_int_equal(b->pass.claimed, 3);
        pass(b->world, LEASE_US);
    }
    assert_int_equal(backlog(b).quarantined, 0);
    b->sinks[0]->away = false;
    assert_int_equal(run_pass(b)->acknowledged, 3);
    assert_int_equal(b->told[DAYBOOK_WORKER_DESTINATION_DOWN], 1);
    assert_int_equal(b->told[DAYBOOK_WORKER_DESTINATION_UP], 1);
}

static void test_W10_W12_rows_that_are_named_leave_and_the_others_are_written_again(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_NAMED;
    put(b->world, "a1", "a");
    put(b->world, "bad", "b");
    put(b->world, "b2", "b");
    put(b->world, "a2", "a");
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_int_equal(b->pass.end, DBK_PASS_SETTLED);
    /* Behind a refused one nothing of its key is written (W14). */
    assert_string_equal(b->sinks[0]->offered, "[a1 bad b2 a2][a1 a2]");
    assert_string_equal(b->sinks[0]->accepted, "a1 a2");
    assert_int_equal(backlog(b).in_flight, 2);
    assert_int_equal(b->counts[DAYBOOK_WORKER_LANDED], 2); /* W10: once, however often written */
    assert_int_equal(b->counts[DAYBOOK_WORKER_FAILED], 2);

    /* Its attempts are spent, its neighbour's are not: it leaves the path, the key moves on. */
    pass(b->world, LEASE_US);
    (void)run_pass(b);
    assert_int_equal(backlog(b).quarantined, 0);
    pass(b->world, LEASE_US);
    assert_int_equal(run_pass(b)->acknowledged, 1);
    assert_int_equal(backlog(b).quarantined, 1);
    assert_string_equal(b->sinks[0]->accepted, "a1 a2 b2");
    assert_string_equal(b->sinks[0]->offered, "[a1 bad b2 a2][a1 a2][bad][bad][bad][b2]");
}

static void test_W12_others_that_were_accepted_have_landed(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED,
                                                 .others = DAYBOOK_OTHERS_ACCEPTED});
    put(b->world, "bad", "b");
    put(b->world, "b2", "b");
    put(b->world, "a1", "a");
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_string_equal(b->sinks[0]->offered, "[bad b2 a1]");
    assert_int_equal(backlog(b).in_flight, 1);
}

static void test_W12_names_of_no_row_blame_nobody(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED,
                                                 .others = DAYBOOK_OTHERS_ACCEPTED,
                                                 .repeat = 2,
                                                 .nonsense = "the row behind the last"});
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_int_equal(b->pass.search, DBK_SEARCH_OUTAGE);
    assert_string_equal(b->sinks[0]->offered, "[e1 e2][e1][e2]");
}

static void test_W12_values_that_were_left_out_are_told(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_add(b->sinks[0], (struct script_step){.values_left_out = 3});
    put_many(b->world, "e", 2, NULL);
    (void)run_pass(b);
    put_many(b->world, "f", 2, NULL);
    (void)run_pass(b);
    assert_int_equal(b->values_left_out, 3);
}

static void test_W1_W15_all_destinations_must_accept(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    script_answer(b->sinks[1], DAYBOOK_ANSWER_UNAVAILABLE);
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_int_equal(backlog(b).in_flight, 2);
    assert_int_equal(b->counts[DAYBOOK_WORKER_LANDED], 2); /* one destination has them */
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_string_equal(b->sinks[1]->accepted, "e1 e2");
}

static void test_W1_what_one_destination_rejects_no_other_one_gets(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED,
                                                 .others = DAYBOOK_OTHERS_ACCEPTED});
    put(b->world, "bad", "b");
    put(b->world, "b2", "b");
    put(b->world, "a1", "a");
    assert_int_equal(run_pass(b)->acknowledged, 1);
    assert_string_equal(b->sinks[1]->offered, "[a1]");
}

static void test_W8_a_failed_acknowledgement_is_repeated_once(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->troubled.failures[TROUBLED_ACK] = 1;
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 0);
    assert_int_equal(b->pass.landed, 2);
    assert_int_equal(b->told[DAYBOOK_WORKER_SETTLE_FAILED], 1);
    assert_int_equal(backlog(b).in_flight, 2);
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_true(backlog(b).drained);
    assert_string_equal(b->sinks[0]->offered, "[e1 e2]");
    assert_int_equal(b->worker->delivered, 2);
}

static void test_W8_a_write_whose_acknowledgement_was_lost_is_delivered_again(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 2, NULL);
    for (int i = 0; i < 8; i++) {
        b->troubled.failures[TROUBLED_ACK] = 2;
        (void)run_pass(b); /* written, not acknowledged */
        assert_int_equal(run_pass(b)->acknowledged, 0);
        assert_int_equal(b->troubled.failures[TROUBLED_ACK], 0);
        pass(b->world, LEASE_US);
    }
    /* Its attempts were given back, and a worker's memory is no proof: it is written again. */
    assert_int_equal(backlog(b).quarantined, 0);
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_int_equal(atomic_load(&b->sinks[0]->writes), 9);
}

static void test_W11_a_write_has_its_timeout(void **state)
{
    struct bench *b = *state;

    begin(b);
    put(b->world, "e", "k");
    int64_t mono_us = b->world->disk->monotonic_us;
    (void)run_pass(b);
    assert_int_equal(b->sinks[0]->deadline_us, mono_us + (int64_t)LEASE_MS * 1000 / 3);
}

static void test_W11_a_lease_is_extended_before_a_write_it_could_not_cover(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 25 * SECOND_US;
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]), 1);
    /* And not where the lease covers it. */
    b->write_takes_us = 10 * SECOND_US;
    put_many(b->world, "f", 2, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 2);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]), 1);
}

static void test_W11_what_cannot_be_held_leaves_the_pass(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = LEASE_US; /* gone when it comes back */
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_string_equal(b->sinks[1]->offered, "");
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_RELINQUISH]), 1); /* W7 */
    b->write_takes_us = 0;
    assert_int_equal(run_pass(b)->acknowledged, 2);
}

static void lose_one_while_writing(void *user)
{
    struct bench *b = user;

    pass(b->world, b->write_takes_us);
    assert_code(DAYBOOK_OK, discard(b->world, CONSUMER, "e1"));
}

static void test_W11_who_cannot_be_held_leaves_and_the_others_go_on(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    enrol(b->world, "audit"); /* so that what is discarded is not forgotten */
    b->sinks[0]->on_write = lose_one_while_writing;
    b->write_takes_us = 25 * SECOND_US;
    put_many(b->world, "e", 3, NULL);
    assert_int_equal(run_pass(b)->landed, 2);
    assert_string_equal(b->sinks[1]->offered, "[e2 e3]");
    assert_int_equal(b->pass.acknowledged, 2);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]), 1);
}

static void hang_past_the_lease(void *user)
{
    struct bench *b = user;

    /* Its deadline lies within the lease, and nobody prolongs that while it is out. */
    assert_true(b->sinks[0]->deadline_us <=
                b->world->disk->monotonic_us + (int64_t)LEASE_MS * 1000 / 3);
    pass(b->world, LEASE_US - 1);
    assert_int_equal(claim(b->world, CONSUMER, 9), 0);
    pass(b->world, 1);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]), 0);
    assert_int_equal(claim(b->world, CONSUMER, 9), 2); /* somebody else's from now on */
}

static void test_W11_a_write_that_hangs_is_not_kept_alive(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = hang_past_the_lease;
    script_answer(b->sinks[0], DAYBOOK_ANSWER_UNAVAILABLE);
    put_many(b->world, "e", 2, NULL);
    assert_int_equal(run_pass(b)->landed, 0);
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]), 0);
    assert_int_equal(backlog(b).in_flight, 2); /* the other one's leases stand */
}

static void test_W11_a_long_search_keeps_what_waits(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 10 * SECOND_US; /* each as long as a write may take */
    for (int i = 0; i < 5; i++) {
        script_answer(b->sinks[0], i % 2 == 0 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_ACCEPTED);
    }
    put_many(b->world, "e", 4, NULL);
    assert_int_equal(run_pass(b)->landed, 3);
    assert_memory_equal(b->sinks[0]->offered, "[e1 e2 e3 e4][e1 e2][e3 e4][e3][e4]", 35);
    assert_int_equal(b->pass.acknowledged, 3);
}

/* What the first destination has is not lost by the time that the search at it takes. */
static void test_W11_a_long_search_keeps_what_the_next_destination_waits_for(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 10 * SECOND_US;
    for (int i = 0; i < 5; i++) {
        script_answer(b->sinks[0], i % 2 == 0 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_ACCEPTED);
    }
    put_many(b->world, "e", 4, NULL);
    assert_int_equal(run_pass(b)->landed, 3);
    assert_string_equal(b->sinks[1]->accepted, "e1 e2 e3");
}

/* ---- turns ------------------------------------------------------------------------------------- */

static void append_another(void *user)
{
    struct bench *b = user;
    char id[32];

    (void)snprintf(id, sizeof id, "more%u", ++b->appended);
    put(b->world, id, id);
    pass(b->world, b->write_takes_us);
}

static void test_L2_maintenance_runs_on_a_worker_that_never_catches_up(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = append_another;
    b->write_takes_us = 5 * SECOND_US;
    put(b->world, "first", "k");
    for (int i = 0; i < 25; i++) {
        assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_AGAIN);
    }
    assert_int_equal(b->told[DAYBOOK_WORKER_MAINTAINED], 2); /* 125 s, every 60 */
}

static void test_L2_maintenance_never_runs_after_stop(void **state)
{
    struct bench *b = *state;

    begin(b);
    pass(b->world, 61 * SECOND_US);
    dbk_worker_stop(b->worker, b->world->disk->monotonic_us + SECOND_US);
    (void)dbk_worker_turn(b->worker);
    assert_true(dbk_worker_finish(b->worker));
    assert_int_equal(atomic_load(&b->troubled.calls[TROUBLED_MAINTAIN]), 0);
}

static void test_L2_consumers_that_nobody_runs_are_named(void **state)
{
    struct bench *b = *state;
    static const char *const known[] = {"audit"};

    b->options.known = known;
    b->options.known_count = 1;
    begin(b);
    enrol(b->world, "audit");
    pass(b->world, 60 * SECOND_US);
    (void)dbk_worker_turn(b->worker);
    assert_int_equal(b->told[DAYBOOK_WORKER_OTHER_CONSUMERS], 0);
    enrol(b->world, "old-billing");
    enrol(b->world, "test");
    pass(b->world, 60 * SECOND_US);
    (void)dbk_worker_turn(b->worker);
    assert_int_equal(b->told[DAYBOOK_WORKER_OTHER_CONSUMERS], 1);
    assert_string_equal(b->message, "old-billing, test");
}

static void test_L2_maintenance_that_fails_is_told_and_tried_at_the_next_interval(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->troubled.failures[TROUBLED_MAINTAIN] = 1;
    pass(b->world, 60 * SECOND_US);
    (void)dbk_worker_turn(b->worker);
    (void)dbk_worker_turn(b->worker);
    assert_int_equal(b->told[DAYBOOK_WORKER_MAINTAIN_FAILED], 1);
    assert_int_equal(b->told[DAYBOOK_WORKER_MAINTAINED], 0);
    pass(b->world, 60 * SECOND_US);
    (void)dbk_worker_turn(b->worker);
    assert_int_equal(b->told[DAYBOOK_WORKER_MAINTAINED], 1);
}

static void test_L1_an_idle_worker_listens_until_the_poll_or_the_end_of_a_lease(void **state)
{
    struct bench *b = *state;

    begin(b);
    struct dbk_turn turn = dbk_worker_turn(b->worker);
    assert_int_equal(turn.next, DBK_NEXT_LISTEN);
    assert_int_equal(turn.until_us, b->world->disk->monotonic_us + POLL_US);

    /* A row that was rejected comes back when its lease ends, not at the poll after. */
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED});
    put(b->world, "bad", "k");
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_LISTEN);
    pass(b->world, LEASE_US - 100000);
    turn = dbk_worker_turn(b->worker);
    assert_int_equal(turn.next, DBK_NEXT_LISTEN);
    assert_int_equal(turn.until_us, b->world->disk->monotonic_us + 100000);
    pass(b->world, 100000);
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_AGAIN);
    turn = dbk_worker_turn(b->worker);
    assert_int_equal(turn.until_us, b->world->disk->monotonic_us + POLL_US);
}

static void test_L1_a_failed_claim_waits_for_the_poll(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->troubled.failures[TROUBLED_CLAIM] = 1;
    put(b->world, "e", "k");
    struct dbk_turn turn = dbk_worker_turn(b->worker);
    assert_int_equal(turn.next, DBK_NEXT_QUIET);
    assert_int_equal(turn.until_us, b->world->disk->monotonic_us + POLL_US);
    assert_int_equal(b->told[DAYBOOK_WORKER_CLAIM_FAILED], 1);
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_QUIET); /* too early */
    assert_string_equal(b->sinks[0]->offered, "");
    pass(b->world, POLL_US);
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_AGAIN);
    assert_string_equal(b->sinks[0]->accepted, "e");
}

static void test_W13_an_outage_is_tried_small_and_ever_more_seldom(void **state)
{
    struct bench *b = *state;
    static const char tried[] = "[e1 e2 e3 e4 e5 e6 e7 e8][e9 e10][e11]"
                                "[e12 e13 e14 e15 e16 e17 e18 e19][e20 e21][e22]";

    begin(b);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    put_many(b->world, "e", 40, NULL);
    assert_int_equal(until_next_try(b), 0);
    int64_t whole_us = POLL_US;
    for (int i = 0; i < 12; i++) {
        int64_t quiet_us = until_next_try(b);
        assert_true(quiet_us <= whole_us && quiet_us >= whole_us * 3 / 4);
        whole_us = whole_us * 2 < LEASE_US ? whole_us * 2 : LEASE_US;
    }
    /* W5b: a quarter each, down to one, and everything again; what was tried stays leased, so that each
     * claim reaches further back. */
    assert_memory_equal(b->sinks[0]->offered, tried, sizeof tried - 1);
    assert_true(b->told[DAYBOOK_WORKER_MAINTAINED] > 0); /* L2 */
    /* After it the size doubles from one, and every event arrives. */
    b->sinks[0]->away = false;
    (void)until_next_try(b);
    size_t before = strlen(b->sinks[0]->offered);
    while (!backlog(b).drained) {
        (void)until_next_try(b);
    }
    unsigned sizes[5] = {0};
    unsigned write = 0;
    for (const char *at = b->sinks[0]->offered + before; *at != '\0' && write < 5; at++) {
        sizes[write] += *at == 'e' ? 1 : 0;
        write += *at == ']' ? 1 : 0;
    }
    assert_int_equal(sizes[0], 1);
    assert_int_equal(sizes[1], 2);
    assert_int_equal(sizes[2], 4);
    assert_int_equal(sizes[3], 8);
    assert_int_equal(sizes[4], 8);
    assert_int_equal(atomic_load(&b->sinks[0]->rows_accepted), 40);
    assert_int_equal(backlog(b).quarantined, 0);
}

static void test_W13_retry_after_is_honoured_up_to_the_lease(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_UNAVAILABLE,
                                                 .retry_after_us = 7 * SECOND_US});
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_UNAVAILABLE,
                                                 .retry_after_us = 900 * SECOND_US});
    put_many(b->world, "e", 20, NULL);
    assert_int_equal(until_next_try(b), 0);
    assert_int_equal(until_next_try(b), 7 * SECOND_US);
    assert_int_equal(until_next_try(b), LEASE_US);
}

/* ---- the end ----------------------------------------------------------------------------------- */

static void stop_in(struct bench *b, int64_t us)
{
    dbk_worker_stop(b->worker, b->world->disk->monotonic_us + us);
}

static void test_T1_passes_follow_until_one_acknowledges_nothing(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 20, NULL);
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_int_equal(report.delivered, 20);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.undelivered, 0);
    assert_true(report.drained && report.reported && report.counted && !report.unwaited);
    assert_int_equal(daybook_drain_report_caught_up(&report), DAYBOOK_CAUGHT_UP_YES);
}

static void test_T1_no_pass_begins_after_the_deadline(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 400000;
    put_many(b->world, "e", 40, NULL);
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_int_equal(report.delivered, 24); /* at 0, 0.4 and 0.8 s */
    assert_int_equal(report.undelivered, 16);
    assert_int_equal(daybook_drain_report_caught_up(&report), DAYBOOK_CAUGHT_UP_NO);
}

static void test_T1_a_write_that_is_cut_off_gives_attempts_and_leases_back(void **state)
{
    struct bench *b = *state;

    b->options.hand_outs_max = 1; /* a spent attempt would show */
    begin(b);
    script_answer(b->sinks[0], DAYBOOK_ANSWER_UNAVAILABLE);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = SECOND_US + 50000;
    put_many(b->world, "e", 3, NULL);
    int64_t deadline_us = b->world->disk->monotonic_us + SECOND_US;
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    assert_int_equal(b->sinks[0]->deadline_us, deadline_us);
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_int_equal(report.failed, 0); /* T4: cut off by the stop */
    assert_int_equal(report.undelivered, 3);
    assert_int_equal(b->told[DAYBOOK_WORKER_DESTINATION_DOWN], 0);
    /* A successor need not wait. */
    struct daybook_claim again = claim_of(CONSUMER, 8);
    again.hand_outs_max = 1;
    assert_int_equal(claim_with(b->world, &again), 3);
}

static void test_T1_what_lands_at_the_deadline_is_acknowledged(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = SECOND_US + 50000;
    put_many(b->world, "e", 3, NULL);
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    assert_int_equal(dbk_worker_report(b->worker).delivered, 3);
}

static void test_T1_a_stop_without_time_delivers_nothing_and_still_counts(void **state)
{
    struct bench *b = *state;

    begin(b);
    put_many(b->world, "e", 3, NULL);
    stop_in(b, 0);
    assert_true(dbk_worker_finish(b->worker));
    assert_int_equal(dbk_worker_report(b->worker).undelivered, 3);
    assert_string_equal(b->sinks[0]->offered, "");
}

static void test_T4_a_backlog_that_cannot_be_read_is_unknown(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->troubled.failures[TROUBLED_CONSUMER_STATS] = 1;
    put_many(b->world, "e", 3, NULL);
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_true(report.reported && !report.counted && !report.drained);
    assert_int_equal(report.delivered, 3);
    assert_int_equal(daybook_drain_report_caught_up(&report), DAYBOOK_CAUGHT_UP_UNKNOWN);
}

static void test_T4_failed_counts_passes(void **state)
{
    struct bench *b = *state;

    begin(b);
    script_add(b->sinks[0], (struct script_step){.kind = DAYBOOK_ANSWER_REJECTED, .repeat = 9});
    put(b->world, "bad1", "a");
    put(b->world, "bad2", "b");
    put(b->world, "good", "c");
    (void)run_pass(b);
    stop_in(b, SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.delivered, 1);
    assert_int_equal(report.undelivered, 2);
}

/* ---- settings ---------------------------------------------------------------------------------- */

static enum daybook_code try_new(struct bench *b, struct daybook_error *err)
{
    struct daybook_worker *worker = NULL;
    enum daybook_code code = daybook_worker_new(b->world->journal, &b->options, &worker, err);

    assert_null(worker);
    return code;
}

static void test_W1_a_worker_without_a_destination_is_refused(void **state)
{
    struct bench *b = *state;
    struct daybook_error err;

    b->options.sink_count = 0;
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
    assert_non_null(strstr(err.message, "no destination"));
    b->options.sink_count = DAYBOOK_WORKER_SINKS_MAX + 1;
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
}

static void test_W11_a_timeout_above_a_third_of_the_lease_is_refused(void **state)
{
    struct bench *b = *state;
    struct daybook_error err;

    b->options.write_timeout_ms = 10001;
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
    assert_non_null(strstr(err.message, "third"));
    b->options.write_timeout_ms = 0;
    b->options.lease_ms = 2; /* no third of it is a whole millisecond */
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
    b->options.lease_ms = LEASE_MS;
    b->options.claim_batch = DAYBOOK_CLAIM_EVENTS_MAX + 1;
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
    b->options.claim_batch = 0;
    b->options.consumer = "Billing";
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
    b->options.consumer = NULL;
    assert_code(DAYBOOK_BAD_CONFIG, try_new(b, &err));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(int argc, char **argv)
{
    bench_engine(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(test_W8_what_landed_is_acknowledged),
        TEST(test_C4_one_callers_events_arrive_in_order),
        TEST(test_C4b_a_run_is_one_write),
        TEST(test_W2_a_refused_batch_stays_claimed_under_its_lease),
        TEST(test_C6_W7_an_outage_condemns_nobody_however_long_it_lasts),
        TEST(test_W10_W12_rows_that_are_named_leave_and_the_others_are_written_again),
        TEST(test_W12_others_that_were_accepted_have_landed),
        TEST(test_W12_names_of_no_row_blame_nobody),
        TEST(test_W12_values_that_were_left_out_are_told),
        TEST(test_W1_W15_all_destinations_must_accept),
        TEST(test_W1_what_one_destination_rejects_no_other_one_gets),
        TEST(test_W8_a_failed_acknowledgement_is_repeated_once),
        TEST(test_W8_a_write_whose_acknowledgement_was_lost_is_delivered_again),
        TEST(test_W11_a_write_has_its_timeout),
        TEST(test_W11_a_lease_is_extended_before_a_write_it_could_not_cover),
        TEST(test_W11_what_cannot_be_held_leaves_the_pass),
        TEST(test_W11_who_cannot_be_held_leaves_and_the_others_go_on),
        TEST(test_W11_a_write_that_hangs_is_not_kept_alive),
        TEST(test_W11_a_long_search_keeps_what_waits),
        TEST(test_W11_a_long_search_keeps_what_the_next_destination_waits_for),
        TEST(test_L2_maintenance_runs_on_a_worker_that_never_catches_up),
        TEST(test_L2_maintenance_never_runs_after_stop),
        TEST(test_L2_consumers_that_nobody_runs_are_named),
        TEST(test_L2_maintenance_that_fails_is_told_and_tried_at_the_next_interval),
        TEST(test_L1_an_idle_worker_listens_until_the_poll_or_the_end_of_a_lease),
        TEST(test_L1_a_failed_claim_waits_for_the_poll),
        TEST(test_W13_an_outage_is_tried_small_and_ever_more_seldom),
        TEST(test_W13_retry_after_is_honoured_up_to_the_lease),
        TEST(test_T1_passes_follow_until_one_acknowledges_nothing),
        TEST(test_T1_no_pass_begins_after_the_deadline),
        TEST(test_T1_a_write_that_is_cut_off_gives_attempts_and_leases_back),
        TEST(test_T1_what_lands_at_the_deadline_is_acknowledged),
        TEST(test_T1_a_stop_without_time_delivers_nothing_and_still_counts),
        TEST(test_T4_a_backlog_that_cannot_be_read_is_unknown),
        TEST(test_T4_failed_counts_passes),
        TEST(test_W1_a_worker_without_a_destination_is_refused),
        TEST(test_W11_a_timeout_above_a_third_of_the_lease_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
