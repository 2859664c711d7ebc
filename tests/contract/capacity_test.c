/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 4, capacity and retention: P1 to P7 with one caller at a time. (Races: shared_test.c.)
 */
#include "contract/contract.h"

#include <stdio.h>

static void with_limit(struct contract_world *world, uint64_t events_max,
                       enum daybook_capacity_policy policy)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = events_max;
    capacity.policy = policy;
    world_restart_empty(world, &capacity);
}

static enum daybook_code try_append(struct contract_world *world, const char *id)
{
    return append(world, id, id, "{}").code;
}

static void test_P1_the_limit_bounds_everything_stored(struct contract_world *world)
{
    with_limit(world, 4, DAYBOOK_POLICY_REFUSE);
    enrol(world, "audit"); /* so that nothing counts as delivered */
    put_many(world, "e", 4, NULL);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    (void)claim_one(world, "billing");
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_int_equal(journal_figures(world).stored_events, 4);
    assert_int_equal(journal_figures(world).events_max, 4);
}

static void test_P2_delivered_is_what_every_consumer_has_resolved(struct contract_world *world)
{
    put_many(world, "e", 3, NULL);
    enrol(world, "billing");
    enrol(world, "audit");
    assert_int_equal(deliver_all(world, "billing"), 3);
    ack_next(world, "audit", "e1");
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3");
}

static void test_P2_with_no_consumer_nothing_is_delivered(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 2, NULL);
    pass(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
}

static void test_P2_a_new_consumer_has_had_nothing(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 2, NULL);
    assert_int_equal(deliver_all(world, "billing"), 2);
    enrol(world, "audit");
    world_reopen(world, CONTRACT_KILLED);
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_int_equal(deliver_all(world, "audit"), 2);
    assert_code(DAYBOOK_OK, try_append(world, "more"));
}

/* ---- P3 ------------------------------------------------------------------------------------------ */

static void test_P3_delivered_events_are_kept_for_their_window(struct contract_world *world)
{
    (void)put(world, "a", "k");
    assert_int_equal(deliver_all(world, "billing"), 1);
    pass(world, HOUR_US - 1);
    assert_int_equal(maintain(world), 0);
    assert_code(DAYBOOK_ALREADY_PRESENT,
                append(world, "a", "k", "{\"request_id\":\"a\",\"tokens\":7}").code);
    pass(world, 1);
    assert_int_equal(maintain(world), 1);
    assert_int_equal(journal_figures(world).pruned, 1);
}

static void test_P3_the_window_counts_from_acceptance(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k", "{}");

    event.observed_at_us = world->now_us - 10 * HOUR_US; /* a replay, days late */
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    assert_int_equal(deliver_all(world, "billing"), 1);
    assert_int_equal(maintain(world), 0);
    pass(world, HOUR_US);
    assert_int_equal(maintain(world), 1);
}

static void test_P3_what_is_not_delivered_is_never_pruned(struct contract_world *world)
{
    put_many(world, "e", 3, NULL);
    (void)claim_one(world, "billing");
    pass(world, 100 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2 e3");
}

static void test_P3_after_pruning_the_same_event_is_a_new_one(struct contract_world *world)
{
    uint64_t first = put(world, "a", "k");

    assert_int_equal(deliver_all(world, "billing"), 1);
    pass(world, HOUR_US);
    assert_int_equal(maintain(world), 1);
    world_reopen(world, CONTRACT_KILLED);
    assert_true(put(world, "a", "k") > first);
    assert_int_equal(claim_one(world, "billing").attempt, 1);
    assert_false(world->batch->deliveries[0].redelivery);
}

static void test_P3_an_append_prunes_at_most_64(struct contract_world *world)
{
    put_many(world, "e", 70, NULL);
    assert_int_equal(deliver_all(world, "billing"), 70);
    pass(world, HOUR_US);
    (void)put(world, "more1", "m1");
    assert_in_range(journal_figures(world).pruned, 1, 64);
    for (unsigned i = 0; i < 70 && journal_figures(world).pruned < 70; i++) {
        uint64_t before = journal_figures(world).pruned;
        char id[32];

        (void)snprintf(id, sizeof id, "further%u", i);
        (void)put(world, id, id);
        assert_in_range(journal_figures(world).pruned - before, 1, 64);
    }
    assert_int_equal(journal_figures(world).pruned, 70);
}

static void test_P3_a_clock_that_leaps_ahead_deletes_nothing(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.retain_acknowledged_us = 2 * HOUR_US; /* more than the hour that pruning allows */
    world_restart_empty(world, &capacity);
    put_many(world, "e", 3, "k");
    assert_int_equal(deliver_all(world, "billing"), 3);
    jump(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    enrol(world, "billing");
    jump(world, -1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2 e3");
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 3);
}

static void test_P3_a_leap_is_believed_once_it_has_stood_for_ten_minutes(
    struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.retain_acknowledged_us = 24 * HOUR_US;
    world_restart_empty(world, &capacity);
    (void)put(world, "a", "k");
    assert_int_equal(deliver_all(world, "billing"), 1);
    jump(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    pass(world, 10 * MINUTE_US - 1);
    assert_int_equal(maintain(world), 0);
    jump(world, -1000 * HOUR_US);
    assert_int_equal(maintain(world), 0); /* back: it has not stood */
    jump(world, 1000 * HOUR_US);
    pass(world, MINUTE_US);
    assert_int_equal(maintain(world), 0);
    pass(world, 10 * MINUTE_US);
    assert_int_equal(maintain(world), 1);
}

static void test_P3_the_patience_begins_anew_with_the_process(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.retain_acknowledged_us = 24 * HOUR_US;
    world_restart_empty(world, &capacity);
    (void)put(world, "a", "k");
    assert_int_equal(deliver_all(world, "billing"), 1);
    jump(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    pass(world, 9 * MINUTE_US);
    world_reopen(world, CONTRACT_KILLED);
    pass(world, 2 * MINUTE_US);
    assert_int_equal(maintain(world), 0);
    pass(world, 10 * MINUTE_US);
    assert_int_equal(maintain(world), 1);
}

static void test_P3_an_append_that_is_refused_sees_the_clock_too(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 1;
    capacity.retain_acknowledged_us = 24 * HOUR_US;
    world_restart_empty(world, &capacity);
    (void)put(world, "a", "k");
    jump(world, 1000 * HOUR_US);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "b"));
    pass(world, 10 * MINUTE_US);
    assert_int_equal(deliver_all(world, "billing"), 1);
    assert_int_equal(maintain(world), 1);
}

static void test_P3_ordinary_time_passes_the_brake(struct contract_world *world)
{
    /* Both clocks move: a quiet night is no leap. */
    (void)put(world, "a", "k");
    assert_int_equal(deliver_all(world, "billing"), 1);
    pass(world, 20 * HOUR_US);
    assert_int_equal(maintain(world), 1);
}

/* ---- P4 ------------------------------------------------------------------------------------------ */

static void test_P4_a_full_journal_gives_up_delivered_events_oldest_first(
    struct contract_world *world)
{
    with_limit(world, 3, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 3, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3 more");
    assert_int_equal(journal_figures(world).reclaimed, 1);
    assert_int_equal(journal_figures(world).dropped, 0);
}

static void test_P4_an_undelivered_event_at_the_front_protects_none_behind_it(
    struct contract_world *world)
{
    with_limit(world, 3, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 3, NULL);
    (void)claim_one(world, "billing"); /* e1 stays */
    assert_int_equal(deliver_all(world, "billing"), 2);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e3 more");
}

static void test_P4_a_quarantined_event_at_the_front_protects_none_behind_it(
    struct contract_world *world)
{
    with_limit(world, 3, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 3, NULL);
    quarantine_next(world, "billing", "e1");
    assert_int_equal(deliver_all(world, "billing"), 2);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e3 more");
}

static void test_P4_no_more_than_is_needed_is_given_up(struct contract_world *world)
{
    with_limit(world, 4, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 3, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3);
    (void)put(world, "f", "k");
    assert_int_equal(journal_figures(world).reclaimed, 0);
    (void)put(world, "g", "k");
    assert_int_equal(journal_figures(world).reclaimed, 1);
}

static void test_P4_the_window_shrinks_and_says_so(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_REFUSE);
    (void)put(world, "a", "k");
    pass(world, 30 * MINUTE_US);
    (void)put(world, "b", "k");
    assert_int_equal(deliver_all(world, "billing"), 2);
    assert_int_equal(journal_figures(world).dedupe_window_us, 30 * MINUTE_US);
    (void)put(world, "c", "k");
    assert_int_equal(journal_figures(world).dedupe_window_us, 0);
}

static void test_P4_room_made_by_a_refused_append_stays_made(struct contract_world *world)
{
    with_limit(world, 5, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 5, NULL);
    ack_next(world, "billing", "e1");
    world->capacity.events_max = 2;
    world_reopen(world, CONTRACT_CLOSED);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3 e4 e5");
    assert_int_equal(journal_figures(world).reclaimed, 1);
}

static void test_P4_a_limit_lowered_below_what_is_stored(struct contract_world *world)
{
    with_limit(world, 6, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 6, NULL);
    world->capacity.events_max = 2;
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).stored_events, 6); /* nothing is lost by it */
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_int_equal(deliver_all(world, "billing"), 6);
    assert_code(DAYBOOK_OK, try_append(world, "more"));
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e6 more");
}

/* ---- P5 ------------------------------------------------------------------------------------------ */

static void test_P5_refuse_keeps_what_is_undelivered(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_REFUSE);
    enrol(world, "billing");
    put_many(world, "e", 2, NULL);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2");
    assert_int_equal(journal_figures(world).dropped, 0);
}

static void test_P5_drop_oldest_drops_and_counts(struct contract_world *world)
{
    with_limit(world, 3, DAYBOOK_POLICY_DROP_OLDEST);
    enrol(world, "billing");
    put_many(world, "e", 3, NULL);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3 more");
    assert_int_equal(journal_figures(world).dropped, 1);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).dropped, 1);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3 more");
    (void)put(world, "e1", "e1"); /* its id was forgotten with it */
}

static void test_P5_delivered_events_go_before_any_is_dropped(struct contract_world *world)
{
    with_limit(world, 3, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "e", 3, NULL);
    (void)claim_one(world, "billing");
    ack_next(world, "billing", "e2");
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e3 more");
    assert_int_equal(journal_figures(world).dropped, 0);
}

static void test_P5_a_dropped_lease_keeps_its_key_busy_until_it_ends(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "a", 2, "a");
    (void)claim_one(world, "billing"); /* a1: its write may still be out */
    (void)put(world, "a3", "a");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a2 a3");
    assert_int_equal(claim(world, "billing", 9), 0);
    assert_int_equal(figures(world, "billing").in_flight, 0);
    world_reopen(world, CONTRACT_KILLED);
    pass(world, LEASE_US - 1);
    assert_int_equal(claim(world, "billing", 9), 0);
    pass(world, 1);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a2");
}

static void test_P5_a_dropped_lease_ends_with_a_verdict_of_its_token(struct contract_world *world)
{
    struct daybook_delivery dropped;
    struct daybook_delivery other;

    with_limit(world, 2, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "a", 2, "a");
    dropped = claim_one(world, "billing");
    (void)put(world, "a3", "a");
    other = dropped;
    other.token += 1000;
    assert_code(DAYBOOK_OK, ack(world, "billing", &other));
    assert_int_equal(claim(world, "billing", 9), 0);
    assert_code(DAYBOOK_OK, ack(world, "billing", &dropped));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a2");
}

static void test_P5_quarantining_a_dropped_event_ends_its_lease_too(struct contract_world *world)
{
    struct daybook_delivery dropped;

    with_limit(world, 2, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "a", 2, "a");
    dropped = claim_one(world, "billing");
    (void)put(world, "a3", "a");
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &dropped));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a2");
}

static void test_P5_if_all_would_not_do_none_is_dropped(struct contract_world *world)
{
    with_limit(world, 4, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "e", 4, NULL);
    quarantine_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    world->capacity.events_max = 2; /* three would have to go, two could */
    world_reopen(world, CONTRACT_CLOSED);
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2 e3 e4");
    assert_int_equal(journal_figures(world).dropped, 0);
}

static void test_P5_as_many_as_it_takes(struct contract_world *world)
{
    with_limit(world, 6, DAYBOOK_POLICY_DROP_OLDEST);
    enrol(world, "billing");
    put_many(world, "e", 6, NULL);
    world->capacity.events_max = 3;
    world_reopen(world, CONTRACT_CLOSED);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e5 e6 more");
    assert_int_equal(journal_figures(world).dropped, 4);
}

/* One commit of the log engine forgets no more than its frames hold: it goes on in steps. */
static void test_P4_a_limit_lowered_by_far(struct contract_world *world)
{
    with_limit(world, 3000, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 3000, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3000);
    world->capacity.events_max = 10;
    world_reopen(world, CONTRACT_CLOSED);
    assert_code(DAYBOOK_OK, try_append(world, "more"));
    assert_int_equal(journal_figures(world).stored_events, 10);
    assert_int_equal(journal_figures(world).reclaimed, 2991);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).reclaimed, 2991);
}

static void test_P5_a_limit_lowered_by_far(struct contract_world *world)
{
    with_limit(world, 3000, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "e", 3000, NULL);
    enrol(world, "billing");
    world->capacity.events_max = 10;
    world_reopen(world, CONTRACT_CLOSED);
    assert_code(DAYBOOK_OK, try_append(world, "more"));
    assert_int_equal(journal_figures(world).stored_events, 10);
    assert_int_equal(journal_figures(world).dropped, 2991);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).dropped, 2991);
}

/* ---- P6 ------------------------------------------------------------------------------------------ */

static void test_P6_a_quarantined_event_is_never_pruned(struct contract_world *world)
{
    (void)put(world, "a", "k");
    quarantine_next(world, "billing", "a");
    pass(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_string_equal(retained(world, DAYBOOK_WHERE_QUARANTINED), "a");
}

static void test_P6_quarantined_by_any_is_quarantined(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_DROP_OLDEST);
    put_many(world, "e", 2, NULL);
    enrol(world, "audit");
    ack_next(world, "billing", "e1");
    quarantine_next(world, "audit", "e1");
    pass(world, 1000 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 more");
}

static void test_P6_a_journal_full_of_them_refuses_under_both_policies(struct contract_world *world)
{
    for (int policy = DAYBOOK_POLICY_REFUSE; policy <= DAYBOOK_POLICY_DROP_OLDEST; policy++) {
        with_limit(world, 2, (enum daybook_capacity_policy)policy);
        put_many(world, "e", 2, NULL);
        quarantine_next(world, "billing", "e1");
        quarantine_next(world, "billing", "e2");
        assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "more"));
        assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2");
    }
}

/* It was delivered once, so it could be reclaimed; set aside later, it could not. */
static void test_P6_rewound_and_quarantined_it_is_not_reclaimed(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_REFUSE);
    need_operators(world);
    put_many(world, "e", 2, NULL);
    assert_int_equal(deliver_all(world, "billing"), 2);
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    quarantine_next(world, "billing", "e1");
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 more");
    assert_code(DAYBOOK_AT_CAPACITY, try_append(world, "yet"));
}

static void test_P6_released_it_is_like_any_other(struct contract_world *world)
{
    with_limit(world, 2, DAYBOOK_POLICY_DROP_OLDEST);
    need_operators(world);
    put_many(world, "e", 2, NULL);
    quarantine_next(world, "billing", "e1");
    assert_code(DAYBOOK_OK, release(world, "billing", "e1"));
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 more");
}

/* ---- P7 ------------------------------------------------------------------------------------------ */

static void test_P7_pruning_many_leaves_the_rest(struct contract_world *world)
{
    with_limit(world, 3000, DAYBOOK_POLICY_REFUSE);
    put_many(world, "e", 2000, NULL);
    assert_int_equal(deliver_all(world, "billing"), 2000);
    pass(world, HOUR_US);
    put_many(world, "f", 3, NULL); /* prunes at most 64 each */
    assert_in_range(maintain(world), 2000 - 3 * 64, 2000 - 3);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "f1 f2 f3");
    assert_int_equal(deliver_all(world, "billing"), 3);
}

static struct contract_test tests[] = {
    TEST(test_P1_the_limit_bounds_everything_stored),
    TEST(test_P2_delivered_is_what_every_consumer_has_resolved),
    TEST(test_P2_with_no_consumer_nothing_is_delivered),
    TEST(test_P2_a_new_consumer_has_had_nothing),
    TEST(test_P3_delivered_events_are_kept_for_their_window),
    TEST(test_P3_the_window_counts_from_acceptance),
    TEST(test_P3_what_is_not_delivered_is_never_pruned),
    TEST(test_P3_after_pruning_the_same_event_is_a_new_one),
    TEST(test_P3_an_append_prunes_at_most_64),
    TEST(test_P3_a_clock_that_leaps_ahead_deletes_nothing),
    TEST(test_P3_a_leap_is_believed_once_it_has_stood_for_ten_minutes),
    TEST(test_P3_the_patience_begins_anew_with_the_process),
    TEST(test_P3_an_append_that_is_refused_sees_the_clock_too),
    TEST(test_P3_ordinary_time_passes_the_brake),
    TEST(test_P4_a_full_journal_gives_up_delivered_events_oldest_first),
    TEST(test_P4_an_undelivered_event_at_the_front_protects_none_behind_it),
    TEST(test_P4_a_quarantined_event_at_the_front_protects_none_behind_it),
    TEST(test_P4_no_more_than_is_needed_is_given_up),
    TEST(test_P4_the_window_shrinks_and_says_so),
    TEST(test_P4_room_made_by_a_refused_append_stays_made),
    TEST(test_P4_a_limit_lowered_below_what_is_stored),
    TEST(test_P5_refuse_keeps_what_is_undelivered),
    TEST(test_P5_drop_oldest_drops_and_counts),
    TEST(test_P5_delivered_events_go_before_any_is_dropped),
    TEST(test_P5_a_dropped_lease_keeps_its_key_busy_until_it_ends),
    TEST(test_P5_a_dropped_lease_ends_with_a_verdict_of_its_token),
    TEST(test_P5_quarantining_a_dropped_event_ends_its_lease_too),
    TEST(test_P5_if_all_would_not_do_none_is_dropped),
    TEST(test_P5_as_many_as_it_takes),
    TEST(test_P4_a_limit_lowered_by_far),
    TEST(test_P5_a_limit_lowered_by_far),
    TEST(test_P6_a_quarantined_event_is_never_pruned),
    TEST(test_P6_quarantined_by_any_is_quarantined),
    TEST(test_P6_a_journal_full_of_them_refuses_under_both_policies),
    TEST(test_P6_rewound_and_quarantined_it_is_not_reclaimed),
    TEST(test_P6_released_it_is_like_any_other),
    TEST(test_P7_pruning_many_leaves_the_rest),
};
const struct contract_tests contract_capacity_tests = TESTS_OF(tests);
