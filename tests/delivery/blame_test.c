/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is to blame, over a journal and with the worker's own loop, in moved time: each story is told from
 * the first event to the end, and at the end it is asked what the destination has, what was quarantined,
 * and that nobody else was. Ids that begin with "bad" are bad. The engine is the first argument: test-blame
 * log. The search itself is in src/delivery/search_test.c.
 */
#include "delivery/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking -------------------------------------------------------------------------------------- */

/* What the consumer has quarantined: `count` events that begin with "bad", as rejected by this sink. */
static void assert_quarantined(struct bench *b, size_t count, const char *sink)
{
    static struct daybook_quarantine_entry entries[BATCH_EVENTS];
    char from[96];
    size_t seen = 0;
    uint64_t last = 0;

    (void)snprintf(from, sizeof from, "{\"sink\":\"%s\"", sink);
    do {
        assert_code(DAYBOOK_OK,
                    daybook_journal_quarantine_list(b->world->journal, CONSUMER, last,
                                                    (enum daybook_quarantine_reason)0,
                                                    b->world->batch, entries, &last, NULL));
        for (size_t i = 0; i < b->world->batch->count; i++) {
            assert_int_equal(entries[i].reason, DAYBOOK_REASON_REJECTED);
            assert_memory_equal(b->world->batch->deliveries[i].event.request_id.data, "bad", 3);
            assert_memory_equal(entries[i].words, from, strlen(from));
        }
        seen += b->world->batch->count;
    } while (b->world->batch->count > 0);
    assert_int_equal(seen, count);
    assert_int_equal(b->counts[DAYBOOK_WORKER_QUARANTINED], count);
}

static void assert_nobody_blamed(struct bench *b)
{
    assert_int_equal(backlog(b).quarantined, 0);
    assert_int_equal(b->told[DAYBOOK_WORKER_QUARANTINED], 0);
}

/* Something lands, so that there is a control. */
static void land_one(struct bench *b, const char *id)
{
    put(b->world, id, id);
    live(b, MINUTE_US);
    assert_true(backlog(b).drained);
}

/* ---- one or few among healthy ones --------------------------------------------------------------- */

static void test_W3_one_refused_event_is_isolated_and_its_siblings_are_delivered(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    put_many(b->world, "e", 3, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 3);
    assert_string_equal(b->sinks[0]->accepted, "e2 e3 e1"); /* order is kept in a key alone */
    assert_int_equal(b->counts[DAYBOOK_WORKER_LANDED], 3);  /* W10 */
    assert_int_equal(b->counts[DAYBOOK_WORKER_FAILED], 1);
    live(b, 10 * MINUTE_US);
    assert_quarantined(b, 1, "ledger");
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 3);
}

static void test_W4_two_refused_events_in_one_batch_are_both_isolated(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad1", "p");
    put(b->world, "one", "q");
    put(b->world, "bad2", "r");
    put(b->world, "two", "s");
    assert_int_equal(run_pass(b)->acknowledged, 2);
    live(b, 10 * MINUTE_US);
    assert_quarantined(b, 2, "ledger");
    assert_true(backlog(b).drained);
}

static void test_W3_sixteen_bad_ones_spread_over_256(void **state)
{
    struct bench *b = *state;
    char id[16];

    bench_enlarge(b, 300);
    b->options.claim_batch = 256;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    for (unsigned i = 0; i < 256; i++) {
        (void)snprintf(id, sizeof id, "%s%u", i % 16 == 0 ? "bad" : "e", i);
        put(b->world, id, id);
    }
    /* No control is known, and the budget runs out in the whole batch: smaller claims find them (W5b). */
    live(b, 20 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 16, "ledger");
    assert_int_equal(b->worker->delivered, 240);
    assert_int_equal(b->told[DAYBOOK_WORKER_BRAKED], 0);
}

static void test_W3_forty_bad_ones_in_a_row_at_the_front(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 300);
    b->options.claim_batch = 256;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "bad", 40, NULL);
    put_many(b->world, "e", 216, NULL);
    assert_int_equal(run_pass(b)->acknowledged, 216);
    live(b, 20 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 40, "ledger");
}

static void test_W14_a_bad_event_in_the_middle_of_a_run_of_one_caller(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "a", 3, "one");
    put(b->world, "bad", "one");
    put_many(b->world, "z", 4, "one");
    assert_int_equal(run_pass(b)->acknowledged, 3); /* the prefix; the rest waits behind it */
    assert_string_equal(b->sinks[0]->accepted, "a1 a2 a3 a3"); /* once more as the control */
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 1, "ledger");
    const char *end = b->sinks[0]->accepted + strlen(b->sinks[0]->accepted) - 11;
    assert_string_equal(end, "z1 z2 z3 z4");
}

static void test_W6_a_suspect_costs_its_neighbours_no_second_search(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    put_many(b->world, "e", 3, NULL);
    (void)run_pass(b);
    pass(b->world, LEASE_US);
    put_many(b->world, "f", 3, NULL);
    size_t before = strlen(b->sinks[0]->offered);
    assert_int_equal(run_pass(b)->acknowledged, 3);
    /* The others whole, the suspect alone, and the control: one of those that have just landed. */
    assert_string_equal(b->sinks[0]->offered + before, "[f1 f2 f3][bad][f3]");
    assert_int_equal(b->told[DAYBOOK_WORKER_CONTROL], 1);
    assert_int_equal(worker_figures(b).controls, 1);
    assert_int_equal(b->counts[DAYBOOK_WORKER_ACKNOWLEDGED], 6);
}

static void test_W12_too_large_is_split_until_it_fits(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_TOO_LARGE;
    put_many(b->world, "e", 3, NULL);
    put(b->world, "bad", "p");
    assert_int_equal(run_pass(b)->acknowledged, 3);
    assert_string_equal(b->sinks[0]->offered, "[e1 e2 e3 bad][e1 e2][e3 bad][e3][bad]");
    live(b, 10 * MINUTE_US);
    assert_quarantined(b, 1, "ledger");
}

static void test_W12_a_constraint_that_names_a_row_only_where_it_is_alone(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_CONSTRAINT;
    put_many(b->world, "bad", 8, NULL);
    assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_LISTEN); /* no sign of an outage */
    live(b, 10 * MINUTE_US);
    assert_quarantined(b, 8, "ledger");
}

/* ---- nobody but bad ones ------------------------------------------------------------------------- */

static void test_W5_one_bad_event_alone_in_the_system(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put(b->world, "bad", "p");
    live(b, 2 * HOUR_US); /* without a control there is no verdict */
    assert_nobody_blamed(b);
    assert_int_equal(backlog(b).in_flight + backlog(b).pending, 1);
    put(b->world, "first", "other"); /* from now on there is a control */
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 1, "ledger");
}

static void test_W5_the_control_of_a_worker_that_has_just_started(void **state)
{
    struct bench *b = *state;

    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    restart_worker(b);
    put(b->world, "bad", "p");
    assert_int_equal(run_pass(b)->search, DBK_SEARCH_FINE);
    assert_string_equal(b->sinks[0]->offered, "[bad][first]");
    live(b, 10 * MINUTE_US);
    assert_quarantined(b, 1, "ledger");
}

static void test_W5_a_control_is_never_older_than_its_retention(void **state)
{
    struct bench *b = *state;

    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    pass(b->world, HOUR_US + SECOND_US);
    put(b->world, "bad", "p");
    assert_int_equal(run_pass(b)->search, DBK_SEARCH_OUTAGE);
    assert_int_equal(b->told[DAYBOOK_WORKER_CONTROL], 0);
}

static void every_event_bad(struct bench *b, enum script_bad bad)
{
    bench_enlarge(b, 300);
    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = bad;
    put_many(b->world, "bad", 60, NULL);
    live(b, HOUR_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 60, "ledger");
}

static void test_W6_every_event_bad_with_a_control(void **state)
{
    every_event_bad(*state, SCRIPT_BAD_REFUSED);
}

static void test_W6_every_event_bad_and_named(void **state)
{
    every_event_bad(*state, SCRIPT_BAD_NAMED);
}

static void test_W4_every_event_bad_without_a_control_is_an_outage(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 300);
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "bad", 60, NULL);
    live(b, 2 * HOUR_US);
    assert_nobody_blamed(b);
    assert_true(worker_figures(b).sinks[0].away);
    /* No attempt was spent: with three of them it would show. */
    b->sinks[0]->bad = SCRIPT_BAD_ACCEPTED;
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 60);
}

static void test_W5b_500_bad_heads_in_front_of_healthy_traffic_without_a_control(void **state)
{
    struct bench *b = *state;
    char id[16];

    bench_enlarge(b, 2000);
    b->options.claim_batch = 64;
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "bad", 500, NULL);
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof id, "e%u", i);
        put(b->world, id, id);
    }
    for (unsigned i = 100; i < 400 && !backlog(b).drained; i++) {
        live(b, 20 * SECOND_US);
        (void)snprintf(id, sizeof id, "e%u", i);
        put(b->world, id, id);
    }
    live(b, HOUR_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 500, "ledger");
}

/* ---- outages ------------------------------------------------------------------------------------- */

/* A destination that goes away at its fourth write. */
static void go_away(void *user)
{
    struct bench *b = user;

    b->sinks[0]->away = atomic_load(&b->sinks[0]->writes) >= 4 && b->appended == 0;
}

static void outage_in_a_search(struct bench *b, enum daybook_answer_kind as)
{
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    b->sinks[0]->on_write = go_away;
    b->sinks[0]->away_as = as;
    put_many(b->world, "a", 2, NULL);
    put(b->world, "bad", "p");
    put_many(b->world, "e", 5, NULL);
    /* [all] refused, the first half refused, the second accepted; then it is away. */
    assert_int_equal(run_pass(b)->acknowledged, 4);
    assert_int_equal(b->pass.search, DBK_SEARCH_OUTAGE);
    live(b, HOUR_US);
    assert_nobody_blamed(b);
    assert_int_equal(backlog(b).in_flight + backlog(b).pending, 4);
    b->appended = 1; /* it is back */
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 1, "ledger");
    assert_int_equal(b->worker->delivered, 7);
}

static void test_W3_an_outage_that_begins_in_the_middle_of_a_search(void **state)
{
    outage_in_a_search(*state, DAYBOOK_ANSWER_REFUSED);
}

static void test_W12b_an_outage_that_is_told_in_the_middle_of_a_search(void **state)
{
    outage_in_a_search(*state, DAYBOOK_ANSWER_UNAVAILABLE);
}

static void test_W5b_what_was_tried_stays_leased_through_a_long_outage(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 300);
    begin(b);
    put_many(b->world, "e", 200, NULL);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    uint64_t most = 0;
    for (int i = 0; i < 200; i++) {
        (void)until_next_try(b);
        most = worker_figures(b).held > most ? worker_figures(b).held : most;
        assert_int_equal(worker_figures(b).held, backlog(b).in_flight);
    }
    assert_int_equal(most, 200); /* every one was reached, and then the round began anew */
    assert_nobody_blamed(b);
    b->sinks[0]->away = false;
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_int_equal(worker_figures(b).held, 0);
    assert_int_equal(b->worker->delivered, 200);
}

/* Each extension is a line in the log, and an outage may last for weeks: at half of each lease of 30 s it would
 * be 240 an hour for each event. */
static void test_W5b_what_is_kept_leased_for_long_is_extended_seldom(void **state)
{
    struct bench *b = *state;
    int64_t held_us = 0; /* summed over the events */

    bench_enlarge(b, 3000);
    begin(b);
    put_many(b->world, "e", 2500, NULL);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    while (mono_us(b) < 6 * HOUR_US) {
        int64_t took_us = until_next_try(b);
        held_us += took_us * (int64_t)worker_figures(b).held;
        assert_int_equal(worker_figures(b).held, backlog(b).in_flight);
    }
    assert_true(held_us > 1000 * HOUR_US);
    assert_true((int64_t)atomic_load(&b->troubled.extended) < 45 * (held_us / HOUR_US));
    assert_nobody_blamed(b);
    b->sinks[0]->away = false;
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 2500);
}

static void test_W12b_one_event_that_breaks_the_receiver_holds_up_nobody_else(void **state)
{
    struct bench *b = *state;
    char id[16];

    bench_enlarge(b, 300);
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_BREAKS;
    put(b->world, "bad", "p");
    for (unsigned i = 0; i < 120; i++) {
        (void)snprintf(id, sizeof id, "e%u", i);
        put(b->world, id, id);
        live(b, 5 * SECOND_US);
        /* At the worst a few tries behind: it is small ones that lead around it. */
        assert_true(backlog(b).pending + backlog(b).in_flight <= 4);
    }
    assert_quarantined(b, 1, "ledger");
    live(b, MINUTE_US);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 120);
}

static void test_W12_a_destination_that_accepts_and_loses_the_answer(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->loses_answers = true;
    put_many(b->world, "e", 4, NULL);
    live(b, 10 * MINUTE_US);
    assert_nobody_blamed(b);
    assert_int_equal(b->worker->delivered, 0); /* W1: nobody has said so */
    assert_int_equal(backlog(b).in_flight + backlog(b).pending, 4);
    assert_int_equal(b->unknown, b->told[DAYBOOK_WORKER_WRITE]);
    b->sinks[0]->loses_answers = false;
    live(b, 10 * MINUTE_US);
    assert_true(b->unknown < b->told[DAYBOOK_WORKER_WRITE]);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 4);
}

/* ---- the brake ----------------------------------------------------------------------------------- */

static void test_W6b_a_not_null_column_that_is_added_under_load(void **state)
{
    struct bench *b = *state;
    char id[16];

    bench_enlarge(b, 2000);
    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = SCRIPT_BAD_NAMED; /* from now on every row breaks it */
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(id, sizeof id, "bad%u", i);
        put(b->world, id, id);
        live(b, 200000);
    }
    assert_int_equal(b->told[DAYBOOK_WORKER_BRAKED], 1);
    assert_non_null(strstr(b->brake, "100 different events in a row"));
    live(b, HOUR_US);
    assert_nobody_blamed(b);
    struct daybook_worker_stats stats = worker_figures(b);
    assert_true(stats.sinks[0].braked);
    assert_true(stats.sinks[0].refused_in_a_row >= 100);
    assert_non_null(strstr(stats.sinks[0].reason, "a bad row"));
    /* W13: it is not beaten upon. */
    uint32_t writes = atomic_load(&b->sinks[0]->writes);
    live(b, HOUR_US);
    assert_true(atomic_load(&b->sinks[0]->writes) - writes < 400);
    /* Mended: everything arrives, nobody was set aside. */
    b->sinks[0]->bad = SCRIPT_BAD_ACCEPTED;
    live(b, HOUR_US);
    assert_true(backlog(b).drained);
    assert_nobody_blamed(b);
    assert_int_equal(b->worker->delivered, 601);
    assert_int_equal(b->told[DAYBOOK_WORKER_BRAKE_LIFTED], 1);
    assert_false(worker_figures(b).sinks[0].braked);
    assert_string_equal(worker_figures(b).sinks[0].reason, "");
}

static void test_W6b_an_operator_lifts_the_brake(void **state)
{
    struct bench *b = *state;

    bench_enlarge(b, 300);
    b->options.reject_brake = 10;
    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "bad", 12, NULL);
    live(b, 20 * MINUTE_US); /* not longer: without its control nobody could be blamed */
    assert_nobody_blamed(b);
    assert_true(worker_figures(b).sinks[0].braked);
    /* They are bad indeed. Those that were let go of once are known, and no longer different. */
    for (int i = 0; i < 2; i++) {
        daybook_worker_lift_brakes(b->worker);
        live(b, 10 * MINUTE_US);
    }
    assert_true(backlog(b).drained);
    assert_quarantined(b, 12, "ledger");
}

/* ---- several destinations ------------------------------------------------------------------------ */

static void test_W15_two_destinations_of_which_one_refuses(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[1]->away = true;
    b->sinks[1]->away_as = DAYBOOK_ANSWER_REFUSED;
    put_many(b->world, "e", 6, NULL);
    live(b, HOUR_US);
    assert_nobody_blamed(b); /* what the other one accepts says nothing for it */
    assert_int_equal(b->worker->delivered, 0);
    /* The try begins with it: the other one has them once. */
    assert_int_equal(atomic_load(&b->sinks[0]->writes), 1);
    assert_true(worker_figures(b).sinks[1].away && !worker_figures(b).sinks[0].away);
    b->sinks[1]->away = false;
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
}

static void test_W15_a_row_that_one_of_two_refuses(void **state)
{
    struct bench *b = *state;

    b->options.sink_count = 2;
    begin(b);
    b->sinks[1]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "e", 3, NULL);
    put(b->world, "bad", "p");
    put(b->world, "after", "p");
    assert_int_equal(run_pass(b)->acknowledged, 3);
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_quarantined(b, 1, "archive");
    assert_int_equal(b->worker->delivered, 4);
}

/* ---- slow writes --------------------------------------------------------------------------------- */

static void test_W11_a_search_of_slow_writes_keeps_its_leases(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = 9 * SECOND_US;
    put_many(b->world, "a", 3, NULL);
    put(b->world, "bad", "p");
    put_many(b->world, "e", 4, NULL);
    int64_t began_us = mono_us(b);
    assert_int_equal(run_pass(b)->acknowledged, 7);
    assert_true(mono_us(b) - began_us > 2 * LEASE_US);
    assert_true(atomic_load(&b->troubled.calls[TROUBLED_EXTEND]) > 0);
    assert_int_equal(dbk_search_count(&b->worker->search, DBK_ROW_LEFT), 0);
    assert_int_equal(atomic_load(&b->sinks[0]->rows_accepted), 8); /* none twice, but the control */
}

static void test_W11_a_write_past_time_out_and_lease(void **state)
{
    struct bench *b = *state;

    begin(b);
    b->sinks[0]->on_write = take_time;
    b->write_takes_us =
        LEASE_US + 5 * SECOND_US; /* a destination that does not keep its word (T6) */
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    put_many(b->world, "e", 4, NULL);
    for (int i = 0; i < 20; i++) {
        (void)until_next_try(b);
    }
    assert_nobody_blamed(b); /* each hand-out lapsed, and was given back all the same */
    b->sinks[0]->away = false;
    live(b, 10 * MINUTE_US);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, 4); /* K1: after the lease, too */
}

static void test_T1_a_hang_past_stop_blames_nobody_and_gives_everything_back(void **state)
{
    struct bench *b = *state;

    b->options.hand_outs_max = 1; /* a spent attempt would show */
    begin(b);
    b->sinks[0]->bad = SCRIPT_BAD_REFUSED;
    put_many(b->world, "e", 6, NULL);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    (void)until_next_try(b);
    assert_int_equal(worker_figures(b).held, 6);
    put(b->world, "bad", "p");
    b->sinks[0]->on_write = take_time;
    b->write_takes_us = SECOND_US + 50000;
    dbk_worker_stop(b->worker, mono_us(b) + SECOND_US);
    assert_true(dbk_worker_finish(b->worker));
    struct daybook_drain_report report = dbk_worker_report(b->worker);
    assert_int_equal(report.undelivered, 7);
    assert_int_equal(report.quarantined, 0);
    /* A successor need not wait, neither for what was held nor for what was cut off. */
    struct daybook_claim again = claim_of(CONSUMER, 8);
    again.hand_outs_max = 1;
    assert_int_equal(claim_with(b->world, &again), 7);
}

/* ---- when the journal fails ---------------------------------------------------------------------- */

static void test_W6_a_verdict_that_the_journal_does_not_take_is_given_again(void **state)
{
    struct bench *b = *state;

    begin(b);
    land_one(b, "first");
    b->sinks[0]->bad = SCRIPT_BAD_NAMED;
    b->troubled.failures[TROUBLED_QUARANTINE] = 1;
    b->options.hand_outs_max = 64;
    restart_worker(b);
    put(b->world, "bad", "p");
    live(b, 10 * MINUTE_US);
    assert_int_equal(b->told[DAYBOOK_WORKER_SETTLE_FAILED], 1);
    assert_quarantined(b, 1, "ledger");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(int argc, char **argv)
{
    bench_engine(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(test_W3_one_refused_event_is_isolated_and_its_siblings_are_delivered),
        TEST(test_W4_two_refused_events_in_one_batch_are_both_isolated),
        TEST(test_W3_sixteen_bad_ones_spread_over_256),
        TEST(test_W3_forty_bad_ones_in_a_row_at_the_front),
        TEST(test_W14_a_bad_event_in_the_middle_of_a_run_of_one_caller),
        TEST(test_W6_a_suspect_costs_its_neighbours_no_second_search),
        TEST(test_W12_too_large_is_split_until_it_fits),
        TEST(test_W12_a_constraint_that_names_a_row_only_where_it_is_alone),
        TEST(test_W5_one_bad_event_alone_in_the_system),
        TEST(test_W5_the_control_of_a_worker_that_has_just_started),
        TEST(test_W5_a_control_is_never_older_than_its_retention),
        TEST(test_W6_every_event_bad_with_a_control),
        TEST(test_W6_every_event_bad_and_named),
        TEST(test_W4_every_event_bad_without_a_control_is_an_outage),
        TEST(test_W5b_500_bad_heads_in_front_of_healthy_traffic_without_a_control),
        TEST(test_W3_an_outage_that_begins_in_the_middle_of_a_search),
        TEST(test_W12b_an_outage_that_is_told_in_the_middle_of_a_search),
        TEST(test_W5b_what_was_tried_stays_leased_through_a_long_outage),
        TEST(test_W5b_what_is_kept_leased_for_long_is_extended_seldom),
        TEST(test_W12b_one_event_that_breaks_the_receiver_holds_up_nobody_else),
        TEST(test_W12_a_destination_that_accepts_and_loses_the_answer),
        TEST(test_W6b_a_not_null_column_that_is_added_under_load),
        TEST(test_W6b_an_operator_lifts_the_brake),
        TEST(test_W15_two_destinations_of_which_one_refuses),
        TEST(test_W15_a_row_that_one_of_two_refuses),
        TEST(test_W11_a_search_of_slow_writes_keeps_its_leases),
        TEST(test_W11_a_write_past_time_out_and_lease),
        TEST(test_T1_a_hang_past_stop_blames_nobody_and_gives_everything_back),
        TEST(test_W6_a_verdict_that_the_journal_does_not_take_is_given_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
