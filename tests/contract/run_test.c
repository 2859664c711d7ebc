/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, runs: C4b and the walk of C4c.
 */
#include "contract/contract.h"

#include <stdio.h>

#define CONDEMNED_MAX 1024u

static size_t claim_run(struct contract_world *world, uint32_t events_max, uint32_t key_run)
{
    struct daybook_claim c = claim_of("billing", events_max);

    c.key_run = key_run;
    return claim_with(world, &c);
}

static void test_C4b_a_run_is_one_unit(struct contract_world *world)
{
    struct daybook_delivery first;
    struct daybook_delivery second;

    put_many(world, "a", 5, "a");
    assert_int_equal(claim_run(world, 9, 3), 3);
    assert_string_equal(ids(world), "a1 a2 a3");
    first = world->batch->deliveries[0];
    second = world->batch->deliveries[1];
    assert_int_equal(claim_run(world, 9, 3), 0);
    /* While any of it is leased, the key is busy, whichever ends first. */
    assert_code(DAYBOOK_OK, ack(world, "billing", &second));
    assert_int_equal(claim_run(world, 9, 3), 0);
    assert_code(DAYBOOK_OK, ack(world, "billing", &first));
    assert_int_equal(claim_run(world, 9, 3), 0);
    pass(world, LEASE_US);
    assert_int_equal(claim_run(world, 9, 3), 3);
    assert_string_equal(ids(world), "a3 a4 a5");
}

static void test_C4b_the_default_is_one(struct contract_world *world)
{
    put_many(world, "a", 3, "a");
    assert_int_equal(claim_run(world, 9, 0), 1);
}

static void test_C4b_runs_of_several_keys_in_order_of_position(struct contract_world *world)
{
    (void)put(world, "a1", "a");
    (void)put(world, "b1", "b");
    (void)put(world, "a2", "a");
    (void)put(world, "b2", "b");
    (void)put(world, "a3", "a");
    assert_int_equal(claim_run(world, 9, 2), 4);
    assert_string_equal(ids(world), "a1 b1 a2 b2");
    for (size_t i = 1; i < 4; i++) {
        assert_true(world->batch->deliveries[i].token > world->batch->deliveries[i - 1].token);
    }
}

static void test_C4b_a_run_survives_a_restart_as_one_unit(struct contract_world *world)
{
    put_many(world, "a", 4, "a");
    assert_int_equal(claim_run(world, 9, 2), 2);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(claim_run(world, 9, 4), 0);
    pass(world, LEASE_US);
    assert_int_equal(claim_run(world, 9, 4), 4);
}

static void test_C4c_a_run_passes_over_what_is_resolved(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "a", 4, "a");
    quarantine_next(world, "billing", "a1");
    ack_next(world, "billing", "a2");
    assert_int_equal(claim_run(world, 9, 9), 2);
    assert_string_equal(ids(world), "a3 a4");
    pass(world, LEASE_US);
    assert_code(DAYBOOK_OK, release(world, "billing", "a1"));
    assert_int_equal(claim_run(world, 9, 9), 3);
    assert_string_equal(ids(world), "a1 a3 a4");
}

static void test_C4c_a_newer_row_ends_the_key(struct contract_world *world)
{
    (void)put(world, "a1", "a");
    (void)put_newer(world, "a2", "a");
    (void)put(world, "a3", "a");
    (void)put(world, "b1", "b");
    assert_int_equal(claim_run(world, 9, 9), 2);
    assert_string_equal(ids(world), "a1 b1");
}

static void test_C4c_after_an_exhausted_one_the_key_goes_on(struct contract_world *world)
{
    put_many(world, "a", 4, "a");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(claim_run(world, 9, 2), 2);
        pass(world, LEASE_US);
    }
    assert_int_equal(claim_run(world, 9, 2), 2); /* a1 and a2 have had their three */
    assert_string_equal(ids(world), "a3 a4");
    assert_int_equal(figures(world, "billing").quarantined, 2);
}

static void test_C4c_after_a_malformed_one_the_key_waits_for_the_next_claim(
    struct contract_world *world)
{
    uint64_t bad;

    (void)put(world, "a1", "a");
    bad = put(world, "a2", "a");
    (void)put(world, "a3", "a");
    (void)put(world, "b1", "b");
    (void)put(world, "c1", "c");
    spoil(world, bad);
    /* What was condemned takes no place in the claim. */
    assert_int_equal(claim_run(world, 3, 9), 3);
    assert_string_equal(ids(world), "a1 b1 c1");
    assert_int_equal(figures(world, "billing").quarantined, 1);
    pass(world, LEASE_US);
    assert_int_equal(claim_run(world, 9, 9), 4);
    assert_string_equal(ids(world), "a1 a3 b1 c1");
}

static void test_C4c_exhausted_is_looked_at_before_malformed(struct contract_world *world)
{
    uint64_t a = put(world, "a1", "a");

    (void)put(world, "a2", "a");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(claim_run(world, 1, 1), 1);
        pass(world, LEASE_US);
    }
    spoil(world, a);
    assert_int_equal(claim_run(world, 9, 1), 1); /* exhausted: the key's next in the same claim */
    assert_string_equal(ids(world), "a2");
}

static void test_C4c_the_walk_ends_at_a_limit_and_says_so(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 9);

    put_many(world, "e", 4, NULL);
    assert_int_equal(claim_run(world, 2, 1), 2);
    assert_true(world->batch->more);
    c.bytes_max = 1;
    assert_int_equal(claim_with(world, &c), 1);
    assert_true(world->batch->more);
    assert_int_equal(claim_run(world, 9, 1), 1);
    assert_false(world->batch->more);
}

static void test_C4c_the_walk_ends_at_1024_condemned(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();
    struct daybook_claim c = claim_of("billing", BATCH_EVENTS);
    unsigned handed_out = 0;

    capacity.events_max = 2000;
    world_restart_empty(world, &capacity);
    put_many(world, "e", CONDEMNED_MAX + 10, NULL);
    while (claim_with(world, &c) > 0) {
        handed_out += (unsigned)world->batch->count;
    }
    assert_int_equal(handed_out, CONDEMNED_MAX + 10);
    pass(world, LEASE_US);
    c.hand_outs_max = 1;
    assert_int_equal(claim_with(world, &c), 0);
    assert_true(world->batch->more);
    assert_int_equal(figures(world, "billing").quarantined, CONDEMNED_MAX);
    assert_int_equal(claim_with(world, &c), 0);
    assert_false(world->batch->more);
    assert_int_equal(figures(world, "billing").quarantined, CONDEMNED_MAX + 10);
}

static struct contract_test tests[] = {
    TEST(test_C4b_a_run_is_one_unit),
    TEST(test_C4b_the_default_is_one),
    TEST(test_C4b_runs_of_several_keys_in_order_of_position),
    TEST(test_C4b_a_run_survives_a_restart_as_one_unit),
    TEST(test_C4c_a_run_passes_over_what_is_resolved),
    TEST(test_C4c_a_newer_row_ends_the_key),
    TEST(test_C4c_after_an_exhausted_one_the_key_goes_on),
    TEST(test_C4c_after_a_malformed_one_the_key_waits_for_the_next_claim),
    TEST(test_C4c_exhausted_is_looked_at_before_malformed),
    TEST(test_C4c_the_walk_ends_at_a_limit_and_says_so),
    TEST(test_C4c_the_walk_ends_at_1024_condemned),
};
const struct contract_tests contract_run_tests = TESTS_OF(tests);
