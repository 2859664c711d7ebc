/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, J1, J2 and append: A1 to A7.
 */
#include "contract/contract.h"

#include <errno.h>
#include <stdio.h>

static void test_J1_past_its_deadline_an_operation_says_so(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k", "{}");
    struct daybook_append_result result;
    struct daybook_claim c = claim_of("billing", 1);

    world->disk->monotonic_us += SECOND_US;
    assert_code(DAYBOOK_TIMED_OUT,
                daybook_journal_append(world->journal, &event, world->now_us,
                                       world->disk->monotonic_us - 1, &result, &world->err));
    assert_code(DAYBOOK_TIMED_OUT, result.code);
    assert_code(DAYBOOK_TIMED_OUT,
                daybook_journal_claim(world->journal, &c, world->now_us,
                                      world->disk->monotonic_us - 1, world->batch, &world->err));
}

static void test_J2_the_given_now_counts(struct contract_world *world)
{
    struct daybook_delivery d;

    jump(world, 7 * HOUR_US); /* the clocks of the machine stay behind */
    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_int_equal(d.accepted_at_us, WORLD_START_US + 7 * HOUR_US);
    assert_int_equal(d.lease_expires_at_us, WORLD_START_US + 7 * HOUR_US + LEASE_US);
}

static void test_A1_accepted_survives_the_process(struct contract_world *world)
{
    uint64_t a = put(world, "a", "k1");

    (void)put(world, "b", "k2");
    world_reopen(world, CONTRACT_KILLED);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a b");
    assert_int_equal(journal_figures(world).oldest_position, a);
    world_reopen(world, CONTRACT_CLOSED);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a b");
}

/* Whatever the power leaves of what was not synced: all of what was answered is there. */
static void test_A1_accepted_survives_the_loss_of_power(struct contract_world *world)
{
    char expected[256] = "";

    for (unsigned i = 0; i < 4u * SIM_PROFILE_COUNT; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "e%u", i);
        (void)put(world, id, i % 2 == 0 ? "k" : id);
        (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s",
                       i > 0 ? " " : "", id);
        world->cut = (enum sim_profile)(i % SIM_PROFILE_COUNT);
        world->cut_seed = i;
        world_reopen(world, CONTRACT_POWER);
        assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), expected);
    }
    assert_int_equal(deliver_all(world, "billing"), 4u * SIM_PROFILE_COUNT);
}

static void test_A1_a_position_is_never_reused(struct contract_world *world)
{
    uint64_t first = put(world, "a", "k");
    uint64_t second;

    (void)deliver_all(world, "billing");
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    world_reopen(world, CONTRACT_KILLED);
    second = put(world, "b", "k");
    assert_true(second > first);
    world_reopen(world, CONTRACT_CLOSED);
    assert_true(put(world, "c", "k") > second);
}

static void test_A2_the_same_fact_is_already_present(struct contract_world *world)
{
    uint64_t a = put(world, "a", "k");
    struct daybook_append_result again;

    again = append(world, "a", "k", "{\"tokens\":7,\"request_id\":\"a\"}");
    assert_code(DAYBOOK_ALREADY_PRESENT, again.code);
    assert_int_equal(again.position, a);
    assert_int_equal(journal_figures(world).accepted, 1);
    world_reopen(world, CONTRACT_KILLED);
    again = append(world, "a", "k", "{\"tokens\":7,\"request_id\":\"a\"}");
    assert_code(DAYBOOK_ALREADY_PRESENT, again.code);
    assert_int_equal(again.position, a);
}

static void test_A3_other_content_under_a_stored_id_is_a_conflict(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    assert_code(DAYBOOK_CONFLICT, append(world, "a", "k", "{\"tokens\":8}").code);
    d = claim_one(world, "billing");
    assert_memory_equal(d.event.record.data, "{\"request_id\":\"a\",\"tokens\":7}",
                        d.event.record.len);
    assert_int_equal(journal_figures(world).stored_events, 1);
}

static void test_A3_repeats_are_decided_first_at_a_full_journal(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 2;
    world_restart_empty(world, &capacity);
    put_many(world, "e", 2, NULL);
    assert_code(DAYBOOK_ALREADY_PRESENT,
                append(world, "e1", "e1", "{\"request_id\":\"e1\",\"tokens\":7}").code);
    assert_code(DAYBOOK_CONFLICT, append(world, "e1", "e1", "{}").code);
    assert_code(DAYBOOK_AT_CAPACITY, append(world, "e3", "e3", "{}").code);
}

static void test_A3_repeats_are_decided_first_past_the_window(struct contract_world *world)
{
    uint64_t a = put(world, "a", "k");

    assert_int_equal(deliver_all(world, "billing"), 1);
    pass(world, 3 * HOUR_US);
    /* Past its window, still stored: the look-up comes before the pruning. */
    assert_int_equal(append(world, "a", "k", "{\"request_id\":\"a\",\"tokens\":7}").position, a);
    assert_code(DAYBOOK_CONFLICT, append(world, "a", "k", "{}").code);
    assert_int_equal(journal_figures(world).stored_events, 1);
}

static void test_A4_full_names_the_limit(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();
    struct daybook_append_result result;

    capacity.events_max = 3;
    world_restart_empty(world, &capacity);
    put_many(world, "e", 3, NULL);
    result = append(world, "more", "k", "{}");
    assert_code(DAYBOOK_AT_CAPACITY, result.code);
    assert_int_equal(result.limit, DAYBOOK_LIMIT_EVENTS);
    assert_int_equal(result.retained, 3);
    assert_true(strlen(world->err.message) > 0);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2 e3");
    /* It was not journaled: once there is room it is a new event. */
    assert_int_equal(deliver_all(world, "billing"), 3);
    assert_code(DAYBOOK_OK, append(world, "more", "k", "{}").code);
}

static void test_A4_a_full_disk_refuses_appends_while_delivery_goes_on(struct contract_world *world)
{
    const unsigned many = 5000;
    struct daybook_capacity capacity = world_capacity();
    unsigned accepted = 0;
    char id[32];

    capacity.events_max = many;
    world_restart_empty(world, &capacity);
    enrol(world, "billing");
    world->disk->space_bytes = 1u << 20; /* below the space that has to stay free */
    for (; accepted < many; accepted++) {
        struct daybook_append_result result;

        (void)snprintf(id, sizeof id, "e%u", accepted);
        result = append(world, id, id, "{}");
        if (result.code != DAYBOOK_OK) {
            assert_code(DAYBOOK_AT_CAPACITY, result.code);
            assert_int_equal(result.limit, DAYBOOK_LIMIT_DISK);
            break;
        }
    }
    assert_true(accepted < many);
    assert_int_equal(deliver_all(world, "billing"), accepted);
    world->disk->space_bytes = UINT64_C(1) << 40;
    pass(world, MINUTE_US);
    (void)maintain(world);
    (void)put(world, "after", "k");
}

static void test_A5_appending_again_resolves_an_unknown_outcome(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k", "{}");
    struct daybook_append_result result;

    world->disk->monotonic_us += SECOND_US;
    assert_code(DAYBOOK_TIMED_OUT, daybook_journal_append(world->journal, &event, world->now_us, 0,
                                                          &result, &world->err));
    assert_int_equal(daybook_code_class(result.code), DAYBOOK_CLASS_UNKNOWN);
    result = append_event(world, &event);
    assert_true(result.code == DAYBOOK_OK || result.code == DAYBOOK_ALREADY_PRESENT);
    assert_code(DAYBOOK_ALREADY_PRESENT, append_event(world, &event).code);
    assert_int_equal(journal_figures(world).stored_events, 1);
}

static void append_batch(struct contract_world *world, const struct daybook_event *events,
                         size_t count, struct daybook_append_result *results)
{
    assert_code(DAYBOOK_OK,
                daybook_journal_append_batch(world->journal, events, count, world->now_us,
                                             DAYBOOK_NO_DEADLINE, results, &world->err));
}

static void test_A6_a_bad_event_does_not_spoil_its_neighbours(struct contract_world *world)
{
    const struct daybook_event events[] = {event_of("a", "k", "{}"), event_of("b", "k", "{"),
                                           event_of("c", "k", "{}"), event_of("", "k", "{}"),
                                           event_of("d", "k", "{}")};
    struct daybook_append_result results[5];

    append_batch(world, events, 5, results);
    assert_code(DAYBOOK_OK, results[0].code);
    assert_code(DAYBOOK_MALFORMED_JSON, results[1].code);
    assert_code(DAYBOOK_OK, results[2].code);
    assert_code(DAYBOOK_INVALID_EVENT, results[3].code);
    assert_code(DAYBOOK_OK, results[4].code);
    assert_true(results[0].position < results[2].position);
    assert_true(results[2].position < results[4].position);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a c d");
}

static void test_A6_one_id_twice_in_a_batch(struct contract_world *world)
{
    const struct daybook_event events[] = {
        event_of("a", "k", "{\"n\":1}"), event_of("a", "k", "{\"n\":1.0}"),
        event_of("a", "k", "{\"n\":2}"), event_of("b", "k", "{}")};
    struct daybook_append_result results[4];

    append_batch(world, events, 4, results);
    assert_code(DAYBOOK_OK, results[0].code);
    assert_code(DAYBOOK_ALREADY_PRESENT, results[1].code);
    assert_int_equal(results[1].position, results[0].position);
    assert_code(DAYBOOK_CONFLICT, results[2].code);
    assert_code(DAYBOOK_OK, results[3].code);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a b");
}

static void test_A6_a_batch_meets_the_limit(struct contract_world *world)
{
    const struct daybook_event events[] = {event_of("a", "k1", "{}"), event_of("b", "k2", "{}"),
                                           event_of("c", "k3", "{}"), event_of("a", "k1", "{}")};
    struct daybook_capacity capacity = world_capacity();
    struct daybook_append_result results[4];

    capacity.events_max = 2;
    world_restart_empty(world, &capacity);
    append_batch(world, events, 4, results);
    assert_code(DAYBOOK_OK, results[0].code);
    assert_code(DAYBOOK_OK, results[1].code);
    assert_code(DAYBOOK_AT_CAPACITY, results[2].code);
    assert_code(DAYBOOK_ALREADY_PRESENT, results[3].code);
}

static void test_A6_a_submission_is_answered_through_its_queue(struct contract_world *world)
{
    const struct daybook_event events[] = {event_of("a", "k", "{}"), event_of("b", "k", "[]"),
                                           event_of("a", "k", "{\"x\":1}"),
                                           event_of("c", "k", "{}")};
    struct daybook_append_result results[4];

    append_through_queue(world, events, 4, results);
    assert_code(DAYBOOK_OK, results[0].code);
    assert_code(DAYBOOK_INVALID_EVENT, results[1].code);
    assert_code(DAYBOOK_CONFLICT, results[2].code);
    assert_code(DAYBOOK_OK, results[3].code);
    append_through_queue(world, events, 1, results);
    assert_code(DAYBOOK_ALREADY_PRESENT, results[0].code);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a c");
}

static void test_A7_after_a_failed_sync_nothing_goes_on_but_reading(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 1);

    (void)put(world, "a", "k1");
    sim_inject(world->disk,
               (struct sim_injection){
                   .trouble = SIM_FAIL_ONCE, .call = SIM_FDATASYNC, .nth = 1, .os_errno = EIO});
    assert_code(DAYBOOK_BACKEND, append(world, "b", "k2", "{}").code);
    assert_code(DAYBOOK_BACKEND, append(world, "c", "k3", "{}").code);
    assert_code(DAYBOOK_BACKEND,
                daybook_journal_claim(world->journal, &c, world->now_us, DAYBOOK_NO_DEADLINE,
                                      world->batch, &world->err));
    assert_int_equal(journal_figures(world).state, DAYBOOK_JOURNAL_FAILED);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a");
    sim_calm(world->disk);
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, append(world, "c", "k3", "{}").code);
    assert_int_equal(claim(world, "billing", 1), 1);
}

static struct contract_test tests[] = {
    TEST(test_J1_past_its_deadline_an_operation_says_so),
    TEST(test_J2_the_given_now_counts),
    TEST(test_A1_accepted_survives_the_process),
    TEST_ON_DISK(test_A1_accepted_survives_the_loss_of_power),
    TEST(test_A1_a_position_is_never_reused),
    TEST(test_A2_the_same_fact_is_already_present),
    TEST(test_A3_other_content_under_a_stored_id_is_a_conflict),
    TEST(test_A3_repeats_are_decided_first_at_a_full_journal),
    TEST(test_A3_repeats_are_decided_first_past_the_window),
    TEST(test_A4_full_names_the_limit),
    TEST_ON_DISK(test_A4_a_full_disk_refuses_appends_while_delivery_goes_on),
    TEST(test_A5_appending_again_resolves_an_unknown_outcome),
    TEST(test_A6_a_bad_event_does_not_spoil_its_neighbours),
    TEST(test_A6_one_id_twice_in_a_batch),
    TEST(test_A6_a_batch_meets_the_limit),
    TEST(test_A6_a_submission_is_answered_through_its_queue),
    TEST_ON_DISK(test_A7_after_a_failed_sync_nothing_goes_on_but_reading),
};
const struct contract_tests contract_append_tests = TESTS_OF(tests);
