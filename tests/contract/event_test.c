/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 2: what an event is, as a journal shows it. (What E2 to E6 take and refuse byte by byte is held by
 * the tests of the event room.)
 */
#include "contract/contract.h"

static void test_E1_accepted_at_never_goes_back(struct contract_world *world)
{
    (void)put(world, "a", "k1");
    jump(world, -HOUR_US);
    (void)put(world, "b", "k2");
    jump(world, 2 * HOUR_US);
    (void)put(world, "c", "k3");
    assert_int_equal(claim(world, "billing", 9), 3);
    assert_int_equal(world->batch->deliveries[0].accepted_at_us, WORLD_START_US);
    assert_int_equal(world->batch->deliveries[1].accepted_at_us, WORLD_START_US);
    assert_int_equal(world->batch->deliveries[2].accepted_at_us, WORLD_START_US + HOUR_US);
}

static void test_E2_an_event_without_an_id_is_refused(struct contract_world *world)
{
    assert_code(DAYBOOK_INVALID_EVENT, append(world, "", "k", "{}").code);
    assert_code(DAYBOOK_INVALID_EVENT, append(world, "with blank", "k", "{}").code);
    assert_int_equal(journal_figures(world).stored_events, 0);
}

static void test_E2_identity_uuidv7(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events.identity = DAYBOOK_IDENTITY_UUIDV7;
    world_restart_empty(world, &capacity);
    assert_code(DAYBOOK_INVALID_EVENT, append(world, "mine", "k", "{}").code);
    assert_code(DAYBOOK_OK,
                append(world, "req_018f4e2a-7b1c-7def-8abc-0123456789ab", "k", "{}").code);
}

static void test_E3_the_key_is_namespace_and_subject(struct contract_world *world)
{
    struct daybook_event event = event_of("b", "k", "{}");

    (void)put(world, "a", "k");
    event.name_space = text("other");
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    (void)put(world, "c", "k");
    /* Two keys: one event of each, and the third waits for the first. */
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world), "a b");
}

static void test_E4_a_record_is_delivered_byte_for_byte(struct contract_world *world)
{
    static const char record[] =
        "{ \"b\" : 1.10e+400,\t\"a\":\"\\u00e4\xc3\xa4\", \"n\":\n9007199254740993 }";
    struct daybook_delivery d;

    assert_code(DAYBOOK_OK, append(world, "a", "k", record).code);
    world_reopen(world, CONTRACT_KILLED);
    d = claim_one(world, "billing");
    assert_int_equal(d.event.record.len, sizeof record - 1);
    assert_memory_equal(d.event.record.data, record, sizeof record - 1);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a");
}

static void test_E4_what_is_refused_is_not_stored(struct contract_world *world)
{
    assert_code(DAYBOOK_INVALID_EVENT, append(world, "a", "k", "{\"x\":1,\"x\":2}").code);
    assert_code(DAYBOOK_INVALID_EVENT, append(world, "a", "k", "[1]").code);
    assert_code(DAYBOOK_MALFORMED_JSON, append(world, "a", "k", "{\"x\":1").code);
    assert_int_equal(journal_figures(world).stored_events, 0);
    assert_code(DAYBOOK_OK, append(world, "a", "k", "{\"x\":1}").code);
}

static void test_E4_a_record_of_the_largest_size(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();
    char record[1024];

    capacity.events.event_bytes_max = 1000;
    world_restart_empty(world, &capacity);
    memset(record, ' ', sizeof record);
    record[0] = '{';
    record[999] = '}';
    record[1000] = '\0';
    assert_code(DAYBOOK_OK, append(world, "a", "k", record).code);
    record[999] = ' ';
    record[1000] = '}';
    record[1001] = '\0';
    assert_code(DAYBOOK_TOO_LARGE, append(world, "b", "k", record).code);
}

static void test_E5_observed_at_is_carried_through(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k1", "{}");

    event.observed_at_us = WORLD_START_US - 5 * HOUR_US;
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    (void)put(world, "b", "k2");
    pass(world, 3 * HOUR_US);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_int_equal(world->batch->deliveries[0].event.observed_at_us,
                     WORLD_START_US - 5 * HOUR_US);
    assert_int_equal(world->batch->deliveries[1].event.observed_at_us, WORLD_START_US);
}

static void test_E6_the_same_fact_in_other_words(struct contract_world *world)
{
    struct daybook_event event =
        event_of("a", "k", "{\"n\":1.0,\"s\":\"\\u0061\",\"observed_at\":1}");
    struct daybook_append_result first = append_event(world, &event);

    assert_code(DAYBOOK_OK, first.code);
    event.observed_at_us = WORLD_START_US - SECOND_US;
    event.record = text("{ \"s\" : \"a\", \"n\" : 1e0 }");
    assert_code(DAYBOOK_ALREADY_PRESENT, append_event(world, &event).code);
    event.record = text("{\"n\":1,\"s\":\"a\",\"x\":null}");
    assert_code(DAYBOOK_CONFLICT, append_event(world, &event).code);
    event = event_of("a", "other", "{\"n\":1.0,\"s\":\"\\u0061\"}");
    assert_code(DAYBOOK_CONFLICT, append_event(world, &event).code);
}

static void test_E6_the_time_of_a_cloudevent_does_not_count(struct contract_world *world)
{
    struct daybook_event event = event_of(
        "a", "k",
        "{\"specversion\":\"1.0\",\"id\":\"a\",\"time\":\"2026-01-01T00:00:00Z\",\"n\":1}");

    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    event.record =
        text("{\"n\":1,\"time\":\"2026-01-02T00:00:00Z\",\"specversion\":\"1.0\",\"id\":\"a\"}");
    assert_code(DAYBOOK_ALREADY_PRESENT, append_event(world, &event).code);
    event.record =
        text("{\"n\":2,\"time\":\"2026-01-01T00:00:00Z\",\"specversion\":\"1.0\",\"id\":\"a\"}");
    assert_code(DAYBOOK_CONFLICT, append_event(world, &event).code);
}

static void test_E6_the_first_observation_wins(struct contract_world *world)
{
    struct daybook_event event = event_of("a", "k", "{}");
    struct daybook_delivery d;

    event.observed_at_us = WORLD_START_US - HOUR_US;
    assert_code(DAYBOOK_OK, append_event(world, &event).code);
    event.observed_at_us = WORLD_START_US - 2 * HOUR_US;
    assert_code(DAYBOOK_ALREADY_PRESENT, append_event(world, &event).code);
    d = claim_one(world, "billing");
    assert_int_equal(d.event.observed_at_us, WORLD_START_US - HOUR_US);
}

static void test_E6_large_numbers_are_told_apart(struct contract_world *world)
{
    assert_code(DAYBOOK_OK, append(world, "a", "k", "{\"n\":9007199254740992}").code);
    assert_code(DAYBOOK_CONFLICT, append(world, "a", "k", "{\"n\":9007199254740993}").code);
    assert_code(DAYBOOK_ALREADY_PRESENT,
                append(world, "a", "k", "{\"n\":9007199254740992.0}").code);
}

static void test_E7_rows_carry_their_version(struct contract_world *world)
{
    uint64_t a = put_newer(world, "a", "k1");

    (void)put(world, "b", "k2");
    assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, 0, DAYBOOK_WHERE_ALL, world->batch,
                                                 &a, NULL, &world->err));
    assert_int_equal(world->batch->count, 2);
    assert_true(world->batch->deliveries[0].row_version > world->batch->deliveries[1].row_version);
}

static void test_E7_a_newer_row_is_dropped_like_any_other(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.policy = DAYBOOK_POLICY_DROP_OLDEST;
    capacity.events_max = 2;
    world_restart_empty(world, &capacity);
    (void)put_newer(world, "a", "k1");
    (void)put(world, "b", "k2");
    (void)put(world, "c", "k3");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "b c");
    assert_int_equal(journal_figures(world).dropped, 1);
}

static struct contract_test tests[] = {
    TEST(test_E1_accepted_at_never_goes_back),
    TEST(test_E2_an_event_without_an_id_is_refused),
    TEST(test_E2_identity_uuidv7),
    TEST(test_E3_the_key_is_namespace_and_subject),
    TEST(test_E4_a_record_is_delivered_byte_for_byte),
    TEST(test_E4_what_is_refused_is_not_stored),
    TEST(test_E4_a_record_of_the_largest_size),
    TEST(test_E5_observed_at_is_carried_through),
    TEST(test_E6_the_same_fact_in_other_words),
    TEST(test_E6_the_time_of_a_cloudevent_does_not_count),
    TEST(test_E6_the_first_observation_wins),
    TEST(test_E6_large_numbers_are_told_apart),
    TEST(test_E7_rows_carry_their_version),
    TEST(test_E7_a_newer_row_is_dropped_like_any_other),
};
const struct contract_tests contract_event_tests = TESTS_OF(tests);
