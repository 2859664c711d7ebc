/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, stats: S1 to S5, and what a journal may claim: M1.
 */
#include "contract/contract.h"

static void test_S1_each_unresolved_event_counts_once(struct contract_world *world)
{
    struct daybook_consumer_stats s;

    put_many(world, "e", 5, NULL);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    (void)claim_one(world, "billing");
    s = figures(world, "billing");
    assert_int_equal(s.quarantined, 1);
    assert_int_equal(s.in_flight, 1);
    assert_int_equal(s.pending, 2);
    assert_false(s.drained);
    pass(world, LEASE_US);
    s = figures(world, "billing");
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.pending, 3);
}

static void test_S1_what_is_held_for_a_consumer_is_what_it_has_not_resolved(
    struct contract_world *world)
{
    uint64_t one;

    put_many(world, "e", 3, NULL);
    one = journal_figures(world).stored_bytes / 3;
    assert_int_equal(figures(world, "billing").held_events, 0); /* nothing, while nobody is there */
    assert_int_equal(figures(world, "billing").held_bytes, 0);
    enrol(world, "billing");
    enrol(world, "audit");
    assert_int_equal(figures(world, "billing").held_bytes, 3 * one);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    (void)claim_one(world, "billing"); /* in flight */
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(figures(world, "billing").held_events, 2);
    assert_int_equal(figures(world, "billing").held_bytes, 2 * one);
    assert_int_equal(figures(world, "audit").held_events, 3);
    assert_int_equal(figures(world, "audit").held_bytes, 3 * one);
    (void)put(world, "e4", "k");
    ack_next(world, "audit", "e1");
    assert_int_equal(figures(world, "audit").held_events, 3); /* another three of the same chunk */
    assert_int_equal(figures(world, "audit").held_bytes, journal_figures(world).stored_bytes - one);
}

static void test_S1_drained_is_nothing_pending_and_nothing_in_flight(struct contract_world *world)
{
    struct daybook_delivery d;

    enrol(world, "billing");
    assert_true(figures(world, "billing").drained);
    (void)put(world, "a", "k");
    assert_false(figures(world, "billing").drained);
    d = claim_one(world, "billing");
    assert_false(figures(world, "billing").drained);
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_true(figures(world, "billing").drained);
}

static void test_S1_the_oldest_pending_age(struct contract_world *world)
{
    struct daybook_event event = event_of("old", "k", "{}");

    enrol(world, "billing");
    assert_int_equal(figures(world, "billing").oldest_pending_age_us, -1);
    (void)put(world, "a", "k1");
    event.observed_at_us = world->now_us - HOUR_US;
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    pass(world, MINUTE_US);
    assert_int_equal(figures(world, "billing").oldest_pending_age_us, HOUR_US + MINUTE_US);
    ack_next(world, "billing", "a");
    ack_next(world, "billing", "old");
    assert_int_equal(figures(world, "billing").oldest_pending_age_us, -1);
}

static void test_S1_an_age_is_never_negative(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k", "{}");

    event.observed_at_us = world->now_us + HOUR_US;
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    assert_int_equal(figures(world, "billing").oldest_pending_age_us, 0);
}

static void test_S2_an_unregistered_consumer_sees_everything_as_pending(
    struct contract_world *world)
{
    struct daybook_consumer_stats s;

    put_many(world, "e", 3, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3);
    s = figures(world, "somebody");
    assert_false(s.registered);
    assert_int_equal(s.pending, 3);
    assert_false(figures(world, "somebody").registered);
    assert_int_equal(journal_figures(world).consumers, 1);
}

static void test_S3_the_oldest_unresolved_age_counts_leased_events(struct contract_world *world)
{
    struct daybook_consumer_stats s;

    (void)put(world, "a", "k1");
    pass(world, MINUTE_US);
    (void)put(world, "b", "k2");
    (void)claim_one(world, "billing");
    s = figures(world, "billing");
    assert_int_equal(s.oldest_unresolved_age_us, MINUTE_US);
    assert_int_equal(s.oldest_pending_age_us, 0);
}

static void test_S4_quarantines_are_counted_once_by_their_reason(struct contract_world *world)
{
    struct daybook_delivery d;
    const uint64_t *total;
    struct daybook_consumer_stats stats;

    need_operators(world);
    put_many(world, "e", 4, NULL);
    quarantine_next(world, "billing", "e1"); /* rejected */
    assert_code(DAYBOOK_OK, release(world, "billing", "e1"));
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_OK,
                quarantine(world, "billing", &d)); /* it is already: not counted again */
    ack_next(world, "billing", "e2");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(claim(world, "billing", 9), 2);
        pass(world, LEASE_US);
    }
    assert_int_equal(claim(world, "billing", 9), 0); /* e3 and e4 are condemned */
    enrol(world, "audit");
    stats = figures(world, "billing");
    total = stats.quarantined_total;
    assert_int_equal(total[DAYBOOK_REASON_REJECTED - 1], 2);
    assert_int_equal(total[DAYBOOK_REASON_ATTEMPTS_EXHAUSTED - 1], 2);
    assert_int_equal(total[DAYBOOK_REASON_MALFORMED - 1], 0);
    assert_int_equal(figures(world, "audit").quarantined_total[DAYBOOK_REASON_REJECTED - 1], 0);
    world_reopen(world, CONTRACT_KILLED); /* since the opening; the gauge is durable */
    stats = figures(world, "billing");
    assert_int_equal(total[DAYBOOK_REASON_REJECTED - 1], 0);
    assert_int_equal(stats.quarantined, 3);
}

static void test_C7_damaged_events_are_counted(struct contract_world *world)
{
    struct daybook_journal_stats stats;

    need_operators(world);
    spoil(world, put(world, "a", "k"));
    (void)put(world, "b", "k");
    assert_int_equal(claim(world, "billing", 9), 0); /* "b" in the next claim (C4c) */
    ack_next(world, "billing", "b");
    stats = journal_figures(world);
    assert_int_equal(stats.undeliverable_events, 1);
    assert_int_equal(stats.undeliverable_total, 1);
    assert_int_equal(figures(world, "billing").quarantined_total[DAYBOOK_REASON_MALFORMED - 1], 1);
    assert_code(DAYBOOK_OK, discard(world, "billing", "a"));
    stats = journal_figures(world);
    assert_int_equal(stats.undeliverable_events, 0);
    assert_int_equal(stats.undeliverable_total, 1);
}

static void test_S4_a_refused_append_moves_no_counter(struct contract_world *world)
{
    struct daybook_journal_stats before;
    struct daybook_journal_stats after;

    (void)put(world, "a", "k");
    before = journal_figures(world);
    assert_code(DAYBOOK_CONFLICT, append(world, "a", "k", "{}").code);
    assert_code(DAYBOOK_MALFORMED_JSON, append(world, "b", "k", "{").code);
    after = journal_figures(world);
    assert_int_equal(after.accepted, before.accepted);
    assert_int_equal(after.stored_events, before.stored_events);
    assert_int_equal(after.stored_bytes, before.stored_bytes);
    assert_int_equal(before.stored_bytes, strlen("a"
                                                 "space"
                                                 "k"
                                                 "{\"request_id\":\"a\",\"tokens\":7}"));
}

static void test_S5_the_durable_counters_add_up(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();
    struct daybook_journal_stats s;

    capacity.events_max = 4;
    capacity.policy = DAYBOOK_POLICY_DROP_OLDEST;
    world_restart_empty(world, &capacity);
    put_many(world, "e", 4, NULL);
    ack_next(world, "billing", "e1");
    ack_next(world, "billing", "e2");
    (void)put(world, "more1", "m1"); /* reclaims e1 */
    check_sums(world);
    pass(world, 2 * HOUR_US);
    (void)put(world, "more2", "m2"); /* prunes e2 */
    check_sums(world);
    (void)put(world, "more3", "m3"); /* drops e3 */
    check_sums(world);
    world_reopen(world, CONTRACT_KILLED);
    s = journal_figures(world);
    assert_int_equal(s.accepted, 7);
    assert_int_equal(s.reclaimed, 1);
    assert_int_equal(s.pruned, 1);
    assert_int_equal(s.dropped, 1);
    assert_int_equal(s.stored_events, 4);
}

static void test_S5_discards_stay_counted_when_their_events_are_gone(struct contract_world *world)
{
    struct daybook_claim c = claim_of("late", 0);

    need_operators(world);
    c.start =
        (struct daybook_start){DAYBOOK_START_POSITION, 1000}; /* so that one discard ends it */
    (void)claim_with(world, &c);
    enrol(world, "billing");
    (void)put(world, "a", "k");
    world_reopen(world, CONTRACT_KILLED); /* what comes stands in another file than the event */
    assert_code(DAYBOOK_OK, discard(world, "billing", "a"));
    pass(world, HOUR_US); /* the file of the event may go */
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).discarded, 1);
    check_sums(world);
}

static void test_S5_discards_that_an_acknowledgement_ends_stay_counted(struct contract_world *world)
{
    need_operators(world);
    enrol(world, "billing");
    enrol(world, "audit");
    (void)put(world, "a", "k");
    assert_code(DAYBOOK_OK, discard(world, "billing", "a"));
    world_reopen(world, CONTRACT_KILLED);
    ack_next(world, "audit", "a");
    assert_int_equal(journal_figures(world).discarded, 1);
    pass(world, HOUR_US);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).discarded, 1);
    check_sums(world);
}

static void test_S5_discards_that_a_retirement_ends_stay_counted(struct contract_world *world)
{
    need_operators(world);
    enrol(world, "billing");
    enrol(world, "audit");
    (void)put(world, "a", "k");
    assert_code(DAYBOOK_OK, discard(world, "billing", "a"));
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, retire(world, "audit", DAYBOOK_FORCE_NO));
    assert_int_equal(journal_figures(world).discarded, 1);
    pass(world, HOUR_US);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).discarded, 1);
    check_sums(world);
}

static void test_M1_no_mode_is_claimed_that_is_not_had(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    assert_int_equal(journal_figures(world).mode, world->engine->durable
                                                      ? DAYBOOK_MODE_BILLING_GRADE
                                                      : DAYBOOK_MODE_TELEMETRY_GRADE);
    capacity.policy = DAYBOOK_POLICY_DROP_OLDEST;
    world_restart_empty(world, &capacity);
    assert_int_equal(journal_figures(world).mode, DAYBOOK_MODE_TELEMETRY_GRADE);
}

static struct contract_test tests[] = {
    TEST(test_S1_each_unresolved_event_counts_once),
    TEST(test_S1_what_is_held_for_a_consumer_is_what_it_has_not_resolved),
    TEST(test_S1_drained_is_nothing_pending_and_nothing_in_flight),
    TEST(test_S1_the_oldest_pending_age),
    TEST(test_S1_an_age_is_never_negative),
    TEST(test_S2_an_unregistered_consumer_sees_everything_as_pending),
    TEST(test_S3_the_oldest_unresolved_age_counts_leased_events),
    TEST(test_S4_quarantines_are_counted_once_by_their_reason),
    TEST(test_C7_damaged_events_are_counted),
    TEST(test_S4_a_refused_append_moves_no_counter),
    TEST(test_S5_the_durable_counters_add_up),
    TEST(test_S5_discards_stay_counted_when_their_events_are_gone),
    TEST(test_S5_discards_that_an_acknowledgement_ends_stay_counted),
    TEST(test_S5_discards_that_a_retirement_ends_stay_counted),
    TEST(test_M1_no_mode_is_claimed_that_is_not_had),
};
const struct contract_tests contract_stats_tests = TESTS_OF(tests);
