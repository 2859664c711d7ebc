/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, claims one event of a key at a time: C1 to C13 without runs.
 */
#include "contract/contract.h"

#include <stdio.h>

/* ---- registration ------------------------------------------------------------------------------- */

static void test_C1_only_a_claim_registers(struct contract_world *world)
{
    struct daybook_delivery stray = {.position = 1, .token = 1};

    stray.position = put(world, "a", "k");
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "ghost", &stray));
    assert_code(DAYBOOK_NOT_OUTSTANDING, relinquish(world, "ghost", &stray));
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "ghost", &stray));
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "ghost", &stray, 1000));
    assert_false(figures(world, "ghost").registered);
    assert_int_equal(journal_figures(world).consumers, 0);
    /* A phantom would hold up retention for good. */
    assert_int_equal(deliver_all(world, "billing"), 1);
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
}

static void test_C1_a_registration_survives_the_process(struct contract_world *world)
{
    char names[4][DAYBOOK_CONSUMER_NAME_MAX + 1];
    size_t count = 0;

    enrol(world, "billing");
    enrol(world, "audit");
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK,
                daybook_journal_consumers(world->journal, names, 4, &count, &world->err));
    assert_int_equal(count, 2);
    assert_string_equal(names[0], "billing");
    assert_string_equal(names[1], "audit");
    assert_true(figures(world, "audit").registered);
}

static void test_C1_starts_at_the_oldest_retained_event(struct contract_world *world)
{
    put_many(world, "e", 3, NULL);
    assert_int_equal(claim(world, "billing", 9), 3);
    assert_string_equal(ids(world), "e1 e2 e3");
}

static void test_C1_starts_now(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);
    struct daybook_delivery before = {.position = 0, .token = 1};

    before.position = put(world, "before", "k");
    c.start.kind = DAYBOOK_START_NOW;
    assert_int_equal(claim_with(world, &c), 0);
    (void)put(world, "after", "k");
    assert_int_equal(figures(world, "billing").pending, 1);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "after");
    /* What is before the start is no business of this consumer's. */
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "billing", &before));
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &before));
    assert_code(DAYBOOK_NOT_OUTSTANDING, relinquish(world, "billing", &before));
}

static void test_C1_starts_at_a_position(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    (void)put(world, "a", "k1");
    c.start = (struct daybook_start){DAYBOOK_START_POSITION, (int64_t)put(world, "b", "k2")};
    (void)put(world, "c", "k3");
    assert_int_equal(claim_with(world, &c), 2);
    assert_string_equal(ids(world), "b c");
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(figures(world, "billing").in_flight, 2);
}

static void test_C1_starts_at_a_time(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    (void)put(world, "a", "k1");
    pass(world, MINUTE_US);
    (void)put(world, "b", "k2");
    c.start = (struct daybook_start){DAYBOOK_START_TIME, world->now_us};
    pass(world, MINUTE_US);
    (void)put(world, "c", "k3");
    assert_int_equal(claim_with(world, &c), 2);
    assert_string_equal(ids(world), "b c");
}

static void test_C1_a_start_in_the_future_waits_for_it(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    (void)put(world, "a", "k1");
    c.start = (struct daybook_start){DAYBOOK_START_TIME, world->now_us + MINUTE_US};
    assert_int_equal(claim_with(world, &c), 0);
    assert_int_equal(figures(world, "billing").pending, 0);
    (void)put(world, "b", "k2");
    assert_int_equal(claim(world, "billing", 9), 0);
    world_reopen(world, CONTRACT_KILLED);
    pass(world, MINUTE_US);
    (void)put(world, "c", "k3");
    jump(world, -MINUTE_US);
    (void)put(world, "d", "k4"); /* accepted_at never goes back, so it counts */
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world), "c d");
}

static void test_C1_events_before_the_start_count_as_acknowledged(struct contract_world *world)
{
    struct daybook_claim c = claim_of("late", 0);

    put_many(world, "e", 2, NULL);
    c.start.kind = DAYBOOK_START_NOW;
    (void)claim_with(world, &c);
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 2);
}

static void test_C1b_who_is_registered_first_loses_nothing(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 3;
    world_restart_empty(world, &capacity);
    enrol(world, "billing");
    enrol(world, "audit");
    put_many(world, "e", 3, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3);
    /* Only one of two has them: nothing is given up. */
    assert_code(DAYBOOK_AT_CAPACITY, append(world, "more", "k", "{}").code);
    assert_int_equal(deliver_all(world, "audit"), 3);
    assert_code(DAYBOOK_OK, append(world, "more", "k", "{}").code);
}

/* ---- what is handed out ---------------------------------------------------------------------------- */

static void test_C2_a_delivery_says_what_it_is(struct contract_world *world)
{
    uint64_t a = put(world, "a", "k");
    struct daybook_delivery d = claim_one(world, "billing");

    assert_int_equal(d.position, a);
    assert_int_equal(d.attempt, 1);
    assert_false(d.redelivery);
    assert_true(d.token > 0);
    assert_int_equal(d.lease_expires_at_us, world->now_us + LEASE_US);
    assert_int_equal(d.event.subject.len, 1);
}

static void test_C2_at_most_events_max_in_order_of_position(struct contract_world *world)
{
    put_many(world, "e", 5, NULL);
    assert_int_equal(claim(world, "billing", 3), 3);
    assert_string_equal(ids(world), "e1 e2 e3");
    assert_true(world->batch->more);
    assert_int_equal(claim(world, "billing", 3), 2);
    assert_string_equal(ids(world), "e4 e5");
    assert_false(world->batch->more);
}

static void test_C2_the_first_event_always_fits(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    put_many(world, "e", 3, NULL);
    c.bytes_max = 1;
    assert_int_equal(claim_with(world, &c), 1);
    assert_true(world->batch->more);
    c.bytes_max = 100; /* names and record of one event are some 44 bytes */
    assert_int_equal(claim_with(world, &c), 2);
}

static void test_C2_a_small_batch_holds_what_it_says(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 64);
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;

    /* Many small events: what an engine stores beside names and record must not count. */
    put_many(world, "e", 64, NULL);
    assert_code(DAYBOOK_OK, daybook_batch_new(64, 1, 512, &batch, &world->err));
    assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, 0, DAYBOOK_WHERE_ALL, batch, &last,
                                                 NULL, &world->err));
    assert_in_range(batch->count, 1, 64);
    assert_code(DAYBOOK_OK, daybook_journal_claim(world->journal, &c, world->now_us,
                                                  DAYBOOK_NO_DEADLINE, batch, &world->err));
    assert_in_range(batch->count, 1, 64);
    assert_true(batch->more);
    daybook_batch_free(batch);
}

static void test_C2_tokens_grow_and_are_never_reused(struct contract_world *world)
{
    uint64_t last = 0;

    put_many(world, "e", 3, NULL);
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(claim(world, "billing", 9), 3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(world->batch->deliveries[i].token > last);
            last = world->batch->deliveries[i].token;
            assert_int_equal(world->batch->deliveries[i].redelivery, round > 0);
            assert_int_equal(world->batch->deliveries[i].attempt, round + 1);
        }
        pass(world, LEASE_US);
        world_reopen(world, round == 0 ? CONTRACT_KILLED : CONTRACT_CLOSED);
    }
}

static void test_C2_a_refund_does_not_undo_a_redelivery(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    pass(world, LEASE_US);
    d = claim_one(world, "billing");
    assert_int_equal(d.attempt, 1);
    assert_true(d.redelivery);
}

static void test_C3_what_is_resolved_or_leased_is_not_returned(struct contract_world *world)
{
    put_many(world, "e", 4, NULL);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    (void)claim_one(world, "billing");
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "e4");
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_C3_what_is_resolved_stays_so_over_a_restart(struct contract_world *world)
{
    put_many(world, "e", 4, NULL);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    (void)claim_one(world, "billing");
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "e4");
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world), "e3 e4");
}

static void test_C4_one_event_of_a_key_is_in_flight(struct contract_world *world)
{
    (void)put(world, "a1", "a");
    (void)put(world, "a2", "a");
    (void)put(world, "b1", "b");
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world), "a1 b1");
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_C4_the_next_of_a_key_follows_in_order(struct contract_world *world)
{
    put_many(world, "a", 3, "a");
    ack_next(world, "billing", "a1");
    quarantine_next(world, "billing", "a2");
    ack_next(world, "billing", "a3");
}

static void test_C4_a_lapsed_lease_gives_the_oldest_again(struct contract_world *world)
{
    put_many(world, "a", 2, "a");
    (void)claim_one(world, "billing");
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a1");
}

static void test_C4_a_leased_event_behind_makes_the_key_busy(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "a", 2, "a");
    quarantine_next(world, "billing", "a1");
    (void)claim_one(world, "billing"); /* a2 */
    assert_code(DAYBOOK_OK, release(world, "billing", "a1"));
    assert_int_equal(claim(world, "billing", 9), 0); /* a1 is older, a2 is leased */
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a1");
}

static void test_C4_nothing_of_a_busy_key_is_condemned(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    need_operators(world);
    put_many(world, "a", 2, "a");
    quarantine_next(world, "billing", "a1");
    (void)claim_one(world, "billing");
    assert_code(DAYBOOK_OK, release(world, "billing", "a1"));
    c.hand_outs_max = 1;
    assert_int_equal(claim_with(world, &c), 0);
    assert_int_equal(figures(world, "billing").quarantined, 0);
}

static void test_C4_consumers_do_not_see_each_other(struct contract_world *world)
{
    put_many(world, "a", 2, "a");
    (void)claim_one(world, "billing");
    ack_next(world, "audit", "a1");
    assert_int_equal(claim(world, "audit", 9), 1);
    assert_string_equal(ids(world), "a2");
}

/* ---- leases ------------------------------------------------------------------------------------- */

static void test_C5_a_lease_ends_by_itself(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    (void)claim_one(world, "billing");
    pass(world, LEASE_US - 1);
    assert_int_equal(claim(world, "billing", 9), 0);
    pass(world, 1); /* live while now < expiry */
    assert_int_equal(figures(world, "billing").pending, 1);
    d = claim_one(world, "billing");
    assert_int_equal(d.attempt, 2);
}

static void test_C5_a_lease_survives_a_restart_until_it_ends(struct contract_world *world)
{
    (void)put(world, "a", "k");
    (void)claim_one(world, "billing");
    pass(world, LEASE_US / 2);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(claim(world, "billing", 9), 0);
    pass(world, LEASE_US / 2);
    assert_int_equal(claim_one(world, "billing").attempt, 2);
}

static void test_C5_clocks_read_in_another_order_free_no_lease(struct contract_world *world)
{
    put_many(world, "a", 2, "a");
    jump(world, 10 * SECOND_US); /* this claimant read its clock last and claims first */
    (void)claim_one(world, "billing");
    jump(world, -10 * SECOND_US);
    assert_int_equal(claim(world, "billing", 9), 0);
    jump(world, -50 * SECOND_US); /* a minute before the grant: exactly the skew */
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_C5_a_clock_that_leaps_ahead_and_back_locks_nothing_for_long(
    struct contract_world *world)
{
    (void)put(world, "a", "k");
    jump(world, 24 * HOUR_US);
    (void)claim_one(world, "billing");
    jump(world, -24 * HOUR_US);
    assert_int_equal(figures(world, "billing").in_flight, 0);
    assert_int_equal(claim_one(world, "billing").attempt, 2);
}

static void test_C5_just_past_the_skew_a_lease_is_not_live(struct contract_world *world)
{
    (void)put(world, "a", "k");
    (void)claim_one(world, "billing");
    jump(world, -60 * SECOND_US - 1);
    assert_int_equal(claim(world, "billing", 9), 1);
}

static void test_C5_a_lapsed_lease_is_live_again_at_an_earlier_now(struct contract_world *world)
{
    /* Nothing else is remembered of earlier nows. */
    (void)put(world, "a", "k1");
    (void)put(world, "b", "k2");
    assert_int_equal(claim(world, "billing", 1), 1);
    jump(world, 2 * LEASE_US);
    assert_int_equal(figures(world, "billing").pending, 2);
    jump(world, -2 * LEASE_US);
    assert_int_equal(figures(world, "billing").in_flight, 1);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "b");
}

/* ---- condemned in a claim ---------------------------------------------------------------------------- */

static void test_C6_the_hand_outs_of_an_event_are_counted_and_end(struct contract_world *world)
{
    put_many(world, "a", 2, "a");
    for (uint32_t i = 1; i <= 3; i++) { /* delivery_attempts_max */
        assert_int_equal(claim_one(world, "billing").attempt, i);
        pass(world, LEASE_US);
    }
    assert_int_equal(claim(world, "billing", 9),
                     1); /* a1 is condemned, a2 is next in the same claim */
    assert_string_equal(ids(world), "a2");
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_string_equal(retained(world, DAYBOOK_WHERE_QUARANTINED), "a1");
}

static void test_C6_crashes_condemn_no_healthy_event(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    c.hand_outs_max = 64; /* the daemon's */
    (void)put(world, "a", "k");
    for (uint32_t i = 1; i <= 20; i++) {
        assert_int_equal(claim_with(world, &c), 1);
        assert_int_equal(world->batch->deliveries[0].attempt, i);
        world_reopen(world, CONTRACT_KILLED);
        pass(world, LEASE_US);
    }
    assert_int_equal(figures(world, "billing").quarantined, 0);
    assert_int_equal(deliver_all(world, "billing"),
                     0); /* at three attempts it would be condemned */
    assert_int_equal(figures(world, "billing").quarantined, 1);
}

static void test_C6_refunded_hand_outs_do_not_count(struct contract_world *world)
{
    (void)put(world, "a", "k");
    for (unsigned i = 0; i < 10; i++) {
        struct daybook_delivery d = claim_one(world, "billing");

        assert_int_equal(d.attempt, 1);
        assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
        pass(world, LEASE_US);
    }
    assert_int_equal(figures(world, "billing").quarantined, 0);
}

static void test_C7_what_cannot_be_decoded_is_quarantined_as_malformed(struct contract_world *world)
{
    uint64_t bad;

    (void)put(world, "a", "k1");
    bad = put(world, "bad", "k2");
    (void)put(world, "behind", "k2");
    (void)put(world, "c", "k3");
    spoil(world, bad);
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world),
                        "a c"); /* after a malformed one the key's next comes in the next claim */
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "behind");
    assert_int_equal(journal_figures(world).state, DAYBOOK_JOURNAL_OPEN);
    assert_int_equal(journal_figures(world).undeliverable_events, 1);
}

static void test_C7_what_a_malformed_one_gives_back_is_made_up_for(struct contract_world *world)
{
    struct daybook_claim claim = claim_of("billing", 4);
    char id[32];
    uint64_t bad = put(world, "bad", "k1");

    for (unsigned i = 0; i < 3; i++) { /* behind it in its key, read in the same go */
        (void)snprintf(id, sizeof id, "r%u", i);
        (void)put(world, id, "k1");
    }
    for (unsigned i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof id, "e%u", i);
        (void)put(world, id, id);
    }
    spoil(world, bad);
    claim.key_run = 4;
    assert_int_equal(claim_with(world, &claim), 4);
    assert_string_equal(ids(world), "e0 e1 e2 e3");
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_int_equal(claim_with(world, &claim), 4);
    assert_string_equal(ids(world), "r0 r1 r2 e4");
}

static void test_C9_a_newer_row_makes_only_its_key_wait(struct contract_world *world)
{
    char id[32];

    for (unsigned i = 0; i < 20; i++) { /* more at the front than a claim takes */
        (void)snprintf(id, sizeof id, "n%u", i);
        (void)put_newer(world, id, id);
    }
    (void)put(world, "behind", "n3");
    (void)put(world, "healthy1", "k1");
    (void)put(world, "healthy2", "k2");
    assert_int_equal(claim(world, "billing", 2), 2);
    assert_string_equal(ids(world), "healthy1 healthy2");
    (void)maintain(world);
    assert_int_equal(figures(world, "billing").newer_version, 20);
    assert_int_equal(figures(world, "billing").quarantined, 0);
    assert_int_equal(figures(world, "billing").pending, 21);
}

static void test_C9_an_append_that_meets_a_newer_row_learns_nothing(struct contract_world *world)
{
    (void)put_newer(world, "a", "k");
    assert_code(DAYBOOK_BACKEND,
                append(world, "a", "k", "{\"request_id\":\"a\",\"tokens\":7}").code);
    assert_int_equal(journal_figures(world).stored_events, 1);
}

/* ---- order and cost ------------------------------------------------------------------------------------ */

static void test_C8_two_claimants_never_hold_one_key(struct contract_world *world)
{
    char first[256];

    put_many(world, "a", 3, "a");
    put_many(world, "b", 3, "b");
    assert_int_equal(claim(world, "billing", 1), 1);
    (void)snprintf(first, sizeof first, "%s", ids(world));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(first, "a1");
    assert_string_equal(ids(world), "b1");
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_C11_no_listing_passes_what_can_still_appear(struct contract_world *world)
{
    uint64_t last = 0;
    uint64_t position;

    position = put(world, "a", "k1");
    assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, 0, DAYBOOK_WHERE_ALL, world->batch,
                                                 &last, NULL, &world->err));
    assert_true(last >= position);
    position = put(world, "b", "k2");
    assert_true(position > last || last == UINT64_MAX);
    assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, position - 1, DAYBOOK_WHERE_ALL,
                                                 world->batch, &last, NULL, &world->err));
    assert_string_equal(ids(world), "b");
}

static void test_C12_an_empty_claim_returns_nothing_and_registers(struct contract_world *world)
{
    (void)put(world, "a", "k");
    assert_int_equal(claim(world, "billing", 0), 0);
    assert_true(figures(world, "billing").registered);
    assert_int_equal(figures(world, "billing").pending, 1);
    assert_int_equal(claim_one(world, "billing").attempt, 1);
}

static void test_C13_a_claim_behind_many_resolved_events(struct contract_world *world)
{
    /* The cost itself is measured by the benchmark; here: that position plays no part. */
    for (unsigned round = 0; round < 50; round++) {
        char id[32];

        (void)snprintf(id, sizeof id, "e%u", round);
        (void)put(world, id, "k");
        ack_next(world, "billing", id);
    }
    assert_int_equal(claim(world, "billing", 9), 0);
    assert_false(world->batch->more);
    assert_true(figures(world, "billing").drained);
}

static struct contract_test tests[] = {
    TEST(test_C1_only_a_claim_registers),
    TEST(test_C1_a_registration_survives_the_process),
    TEST(test_C1_starts_at_the_oldest_retained_event),
    TEST(test_C1_starts_now),
    TEST(test_C1_starts_at_a_position),
    TEST(test_C1_starts_at_a_time),
    TEST(test_C1_a_start_in_the_future_waits_for_it),
    TEST(test_C1_events_before_the_start_count_as_acknowledged),
    TEST(test_C1b_who_is_registered_first_loses_nothing),
    TEST(test_C2_a_delivery_says_what_it_is),
    TEST(test_C2_at_most_events_max_in_order_of_position),
    TEST(test_C2_the_first_event_always_fits),
    TEST(test_C2_a_small_batch_holds_what_it_says),
    TEST(test_C2_tokens_grow_and_are_never_reused),
    TEST(test_C2_a_refund_does_not_undo_a_redelivery),
    TEST(test_C3_what_is_resolved_or_leased_is_not_returned),
    TEST(test_C3_what_is_resolved_stays_so_over_a_restart),
    TEST(test_C4_one_event_of_a_key_is_in_flight),
    TEST(test_C4_the_next_of_a_key_follows_in_order),
    TEST(test_C4_a_lapsed_lease_gives_the_oldest_again),
    TEST(test_C4_a_leased_event_behind_makes_the_key_busy),
    TEST(test_C4_nothing_of_a_busy_key_is_condemned),
    TEST(test_C4_consumers_do_not_see_each_other),
    TEST(test_C5_a_lease_ends_by_itself),
    TEST(test_C5_a_lease_survives_a_restart_until_it_ends),
    TEST(test_C5_clocks_read_in_another_order_free_no_lease),
    TEST(test_C5_a_clock_that_leaps_ahead_and_back_locks_nothing_for_long),
    TEST(test_C5_just_past_the_skew_a_lease_is_not_live),
    TEST(test_C5_a_lapsed_lease_is_live_again_at_an_earlier_now),
    TEST(test_C6_the_hand_outs_of_an_event_are_counted_and_end),
    TEST(test_C6_crashes_condemn_no_healthy_event),
    TEST(test_C6_refunded_hand_outs_do_not_count),
    TEST(test_C7_what_cannot_be_decoded_is_quarantined_as_malformed),
    TEST(test_C7_what_a_malformed_one_gives_back_is_made_up_for),
    TEST(test_C9_a_newer_row_makes_only_its_key_wait),
    TEST(test_C9_an_append_that_meets_a_newer_row_learns_nothing),
    TEST(test_C8_two_claimants_never_hold_one_key),
    TEST(test_C11_no_listing_passes_what_can_still_appear),
    TEST(test_C12_an_empty_claim_returns_nothing_and_registers),
    TEST(test_C13_a_claim_behind_many_resolved_events),
};
const struct contract_tests contract_claim_tests = TESTS_OF(tests);
