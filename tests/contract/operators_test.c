/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, operators' operations: start, release, discard, retire, rewind, their trail (O1), and export.
 */
#include "contract/contract.h"

static struct daybook_start starts(enum daybook_start_kind kind, int64_t value)
{
    return (struct daybook_start){.kind = kind, .value = value};
}

static void test_O1_what_operators_do_is_in_the_trail(struct contract_world *world)
{
    static struct daybook_operation ops[8];
    size_t count = 0;

    need_lists(world);
    put_many(world, "e", 2, NULL);
    quarantine_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    assert_code(DAYBOOK_OK, release(world, "billing", "e1"));
    pass(world, MINUTE_US);
    assert_code(DAYBOOK_OK, discard(world, "billing", "e2"));
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_code(DAYBOOK_OK, retire(world, "billing", DAYBOOK_FORCE_NO));
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 8, &count, &world->err));
    assert_int_equal(count, 4);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_RETIRE); /* newest first */
    assert_int_equal(ops[1].kind, DAYBOOK_OPERATION_REWIND);
    assert_int_equal(ops[2].kind, DAYBOOK_OPERATION_DISCARD);
    assert_int_equal(ops[3].kind, DAYBOOK_OPERATION_RELEASE);
    assert_int_equal(ops[3].at_us, WORLD_START_US);
    assert_int_equal(ops[2].at_us, WORLD_START_US + MINUTE_US);
    assert_string_equal(ops[3].request_id, "e1");
    assert_string_equal(ops[3].consumer, "billing");
    assert_string_equal(ops[3].who, "ada");
    assert_string_equal(ops[3].why, "looked at it");
    assert_int_equal(ops[0].position, 0);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, ops[2].no, ops, 8, &count, &world->err));
    assert_int_equal(count, 1);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_RELEASE);
}

static void test_O1_the_trail_outlives_the_file_it_was_written_in(struct contract_world *world)
{
    static struct daybook_operation ops[2];
    size_t count = 0;

    need_lists(world);
    enrol(world, "billing");
    assert_code(DAYBOOK_OK, retire(world, "billing", DAYBOOK_FORCE_NO));
    for (unsigned i = 0; i < 3; i++) {
        world_reopen(world, CONTRACT_KILLED); /* a new file; what nothing is held in may go */
        pass(world, HOUR_US);
    }
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 2, &count, &world->err));
    assert_int_equal(count, 1);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_RETIRE);
    assert_int_equal(ops[0].at_us, WORLD_START_US);
    assert_string_equal(ops[0].consumer, "billing");
    assert_string_equal(ops[0].who, "ada");
    assert_string_equal(ops[0].why, "looked at it");
}

static void test_O1_start_registers_a_consumer_before_anybody_delivers_for_it(
    struct contract_world *world)
{
    static struct daybook_operation ops[2];
    size_t count = 0;

    need_lists(world);
    put_many(world, "e", 3, NULL);
    assert_code(DAYBOOK_OK, start_consumer(world, "late", starts(DAYBOOK_START_POSITION, 2)));
    world_reopen(world, CONTRACT_KILLED); /* K7: it is durable before it is answered */
    assert_true(figures(world, "late").registered);
    assert_int_equal(figures(world, "late").start, 2);
    assert_int_equal(figures(world, "late").pending, 2);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 2, &count, &world->err));
    assert_int_equal(count, 1);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_START);
    assert_string_equal(ops[0].consumer, "late");
    assert_string_equal(ops[0].who, "ada");
    assert_string_equal(ops[0].why, "looked at it");
    assert_int_equal(ops[0].at_us, WORLD_START_US);
    /* C1: what the first claim asks for counts for nothing once it is registered. */
    assert_int_equal(claim(world, "late", 9), 2);
    assert_string_equal(ids(world), "e2 e3");
}

static void test_C1b_what_is_kept_for_a_started_consumer_is_not_given_up(
    struct contract_world *world)
{
    need_operators(world);
    put_many(world, "e", 2, NULL);
    assert_code(DAYBOOK_OK, start_consumer(world, "late", starts(DAYBOOK_START_OLDEST, 0)));
    assert_int_equal(deliver_all(world, "billing"), 2);
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_int_equal(deliver_all(world, "late"), 2);
    assert_int_equal(maintain(world), 2);
}

static void test_C1_a_started_consumer_waits_for_its_time(struct contract_world *world)
{
    need_operators(world);
    (void)put(world, "before", "k1");
    assert_code(DAYBOOK_OK,
                start_consumer(world, "late", starts(DAYBOOK_START_TIME, world->now_us + HOUR_US)));
    assert_true(figures(world, "late").start == UINT64_MAX);
    assert_true(figures(world, "late").start_at_us == world->now_us + HOUR_US);
    pass(world, 2 * HOUR_US);
    (void)put(world, "after", "k2");
    assert_int_equal(figures(world, "late").start, 2);
    assert_true(figures(world, "late").start_at_us == DAYBOOK_TIME_UNSET);
    assert_int_equal(claim(world, "late", 9), 1);
    assert_string_equal(ids(world), "after");
}

static void test_C1_start_is_for_a_consumer_that_is_new_to_the_journal(struct contract_world *world)
{
    static struct daybook_operation ops[4];
    size_t count = 0;

    need_lists(world);
    put_many(world, "e", 2, NULL);
    enrol(world, "billing");
    assert_code(DAYBOOK_CONFLICT, start_consumer(world, "billing", starts(DAYBOOK_START_NOW, 0)));
    assert_int_equal(figures(world, "billing").pending, 2);
    assert_code(DAYBOOK_BAD_ARGUMENT,
                start_consumer(world, "other", starts(DAYBOOK_START_POSITION, -1)));
    assert_code(DAYBOOK_BAD_ARGUMENT, start_consumer(world, "No", starts(DAYBOOK_START_NOW, 0)));
    assert_int_equal(journal_figures(world).consumers, 1);
    /* One that was retired is new again. */
    assert_code(DAYBOOK_OK, retire(world, "billing", DAYBOOK_FORCE_NO));
    assert_code(DAYBOOK_OK, start_consumer(world, "billing", starts(DAYBOOK_START_NOW, 0)));
    assert_int_equal(figures(world, "billing").pending, 0);
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 4, &count, &world->err));
    assert_int_equal(count, 2);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_START);
    assert_int_equal(ops[1].kind, DAYBOOK_OPERATION_RETIRE);
    assert_int_equal(ops[0].no, ops[1].no + 1);
}

static void test_C1_no_more_consumers_are_started_than_a_journal_has_places_for(
    struct contract_world *world)
{
    static struct daybook_operation ops[1];
    char name[16];
    size_t count = 9;

    need_lists(world);
    for (unsigned i = 0; i < DAYBOOK_CONSUMERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "c%u", i);
        enrol(world, name);
    }
    assert_code(DAYBOOK_BUSY, start_consumer(world, "late", starts(DAYBOOK_START_NOW, 0)));
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 1, &count, &world->err));
    assert_int_equal(count, 0);
    assert_code(DAYBOOK_OK, retire(world, "c7", DAYBOOK_FORCE_NO));
    assert_code(DAYBOOK_OK, start_consumer(world, "late", starts(DAYBOOK_START_NOW, 0)));
    assert_int_equal(journal_figures(world).consumers, DAYBOOK_CONSUMERS_MAX);
}

static void test_O1_a_lift_is_noted_and_changes_nothing_else(struct contract_world *world)
{
    static struct daybook_operation ops[2];
    struct daybook_operator by = {text("ada"), text("mended the column")};
    size_t count = 0;

    need_lists(world);
    put_many(world, "e", 2, NULL);
    enrol(world, "billing");
    assert_code(DAYBOOK_OK, daybook_journal_note_lift(world->journal, "billing", &by, world->now_us,
                                                      DAYBOOK_NO_DEADLINE, &world->err));
    assert_code(DAYBOOK_NOT_FOUND,
                daybook_journal_note_lift(world->journal, "nobody", &by, world->now_us,
                                          DAYBOOK_NO_DEADLINE, &world->err));
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, ops, 2, &count, &world->err));
    assert_int_equal(count, 1);
    assert_int_equal(ops[0].kind, DAYBOOK_OPERATION_LIFT);
    assert_string_equal(ops[0].consumer, "billing");
    assert_string_equal(ops[0].why, "mended the column");
    assert_int_equal(figures(world, "billing").pending, 2);
}

static void test_O1_an_operation_that_fails_leaves_no_trail(struct contract_world *world)
{
    struct daybook_operation op;
    size_t count = 9;

    need_lists(world);
    (void)put(world, "a", "k");
    enrol(world, "billing");
    assert_code(DAYBOOK_NOT_FOUND, release(world, "billing", "a")); /* not quarantined */
    assert_code(DAYBOOK_NOT_FOUND, release(world, "billing", "other"));
    assert_code(DAYBOOK_NOT_FOUND, release(world, "nobody", "a"));
    assert_code(DAYBOOK_NOT_FOUND, discard(world, "billing", "other"));
    assert_code(DAYBOOK_NOT_FOUND, discard(world, "nobody", "a"));
    assert_code(DAYBOOK_NOT_FOUND, retire(world, "nobody", DAYBOOK_FORCE_YES));
    assert_code(DAYBOOK_NOT_FOUND, rewind_consumer(world, "nobody"));
    assert_code(DAYBOOK_OK,
                daybook_journal_operations(world->journal, 0, &op, 1, &count, &world->err));
    assert_int_equal(count, 0);
    assert_int_equal(journal_figures(world).consumers, 1);
}

static struct daybook_event_standing standing_of(struct contract_world *world, const char *id,
                                                 const char *consumer)
{
    struct daybook_event_standing standings[4];
    size_t count = 0;

    assert_code(DAYBOOK_OK, daybook_journal_find(world->journal, text(id), world->now_us,
                                                 world->batch, standings, 4, &count, &world->err));
    assert_string_equal(ids(world), id);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(standings[i].consumer, consumer) == 0) {
            return standings[i];
        }
    }
    fail_msg("%s has no part in %s", consumer, id);
    return standings[0];
}

static void assert_standing(struct contract_world *world, const char *id, const char *consumer,
                            enum daybook_standing standing)
{
    assert_string_equal(daybook_standing_name(standing_of(world, id, consumer).standing),
                        daybook_standing_name(standing));
}

static void test_S1_an_event_is_shown_with_what_it_is_to_each_consumer(struct contract_world *world)
{
    struct daybook_delivery d;
    struct daybook_event_standing standing;
    size_t count = 9;

    need_operators(world);
    put_many(world, "e", 3, NULL);
    enrol(world, "audit");
    assert_standing(world, "e1", "audit", DAYBOOK_STANDING_PENDING);
    d = claim_one(world, "billing");
    standing = standing_of(world, "e1", "billing");
    assert_int_equal(standing.standing, DAYBOOK_STANDING_IN_FLIGHT);
    assert_int_equal(standing.attempt, 1);
    assert_int_equal(standing.hand_outs, 1);
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    pass(world, LEASE_US);
    standing = standing_of(world, "e1", "billing");
    assert_int_equal(standing.standing, DAYBOOK_STANDING_PENDING);
    assert_int_equal(standing.attempt, 0); /* given back; the hand-out was one all the same */
    assert_int_equal(standing.hand_outs, 1);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    assert_code(DAYBOOK_OK, discard(world, "billing", "e3"));
    world_reopen(world, CONTRACT_KILLED);
    assert_standing(world, "e1", "billing", DAYBOOK_STANDING_ACKNOWLEDGED);
    assert_standing(world, "e2", "billing", DAYBOOK_STANDING_QUARANTINED);
    assert_standing(world, "e3", "billing", DAYBOOK_STANDING_DISCARDED);
    assert_standing(world, "e3", "audit", DAYBOOK_STANDING_PENDING);
    assert_int_equal(standing_of(world, "e2", "billing").attempt, 0);
    assert_code(DAYBOOK_NOT_FOUND,
                daybook_journal_find(world->journal, text("e4"), world->now_us, world->batch, NULL,
                                     0, &count, &world->err));
    assert_code(DAYBOOK_OK, daybook_journal_find(world->journal, text("e1"), world->now_us,
                                                 world->batch, NULL, 0, &count, &world->err));
    assert_int_equal(count, 0);
}

static void test_C7_a_damaged_event_is_found_without_its_record(struct contract_world *world)
{
    struct daybook_event_standing standing;
    size_t count = 0;

    need_operators(world);
    spoil(world, put(world, "a", "k"));
    (void)claim(world, "billing", 1);
    assert_code(DAYBOOK_OK, daybook_journal_find(world->journal, text("a"), world->now_us,
                                                 world->batch, &standing, 1, &count, &world->err));
    assert_int_equal(standing.standing, DAYBOOK_STANDING_QUARANTINED);
    assert_string_equal(ids(world), "a");
    assert_int_equal(world->batch->deliveries[0].event.record.len, 0);
}

static void test_O1_release_gives_a_fresh_budget(struct contract_world *world)
{
    struct daybook_delivery d;

    need_operators(world);
    put_many(world, "a", 2, "a");
    for (unsigned i = 0; i < 3; i++) {
        (void)claim_one(world, "billing");
        pass(world, LEASE_US);
    }
    d = claim_one(world, "billing"); /* a1 is condemned, a2 comes */
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_code(DAYBOOK_OK, release(world, "billing", "a1"));
    assert_int_equal(figures(world, "billing").pending, 1);
    assert_int_equal(figures(world, "billing").quarantined, 0);
    world_reopen(world, CONTRACT_KILLED);
    d = claim_one(world, "billing");
    assert_string_equal(ids(world), "a1");
    assert_int_equal(d.attempt, 1);
    assert_true(d.redelivery);
}

static void test_O1_several_released_events_come_in_order(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "a", 4, "a");
    quarantine_next(world, "billing", "a1");
    quarantine_next(world, "billing", "a2");
    ack_next(world, "billing", "a3");
    assert_code(DAYBOOK_OK, release(world, "billing", "a2"));
    assert_code(DAYBOOK_OK, release(world, "billing", "a1"));
    ack_next(world, "billing", "a1");
    ack_next(world, "billing", "a2");
    ack_next(world, "billing", "a4");
}

static void test_O1_discard_is_final_for_one_consumer(struct contract_world *world)
{
    struct daybook_delivery d;

    need_operators(world);
    put_many(world, "a", 2, "a");
    enrol(world, "audit");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_OK, discard(world, "billing", "a1"));
    assert_code(DAYBOOK_OK, discard(world, "billing", "a1"));
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_code(DAYBOOK_ALREADY_ACKNOWLEDGED, quarantine(world, "billing", &d));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a2");
    assert_int_equal(figures(world, "audit").pending, 2);
    /* Forgotten once every consumer has resolved it. */
    ack_next(world, "audit", "a1");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a2");
    assert_int_equal(journal_figures(world).discarded, 1);
}

static void test_O1_discard_of_the_only_consumer_forgets_at_once(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "a", 2, "a");
    (void)claim_one(world, "billing");
    assert_code(DAYBOOK_OK, discard(world, "billing", "a1")); /* leased: the lease ends with it */
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "a2");
    assert_int_equal(journal_figures(world).discarded, 1);
    ack_next(world, "billing", "a2");
    assert_code(DAYBOOK_ALREADY_ACKNOWLEDGED, discard(world, "billing", "a2"));
    (void)put(world, "a1", "a"); /* the id is free again */
}

static void test_O1_retire_forgets_a_consumer(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "e", 2, NULL);
    assert_int_equal(deliver_all(world, "billing"), 2);
    quarantine_next(world, "old", "e1");
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 0);
    assert_code(DAYBOOK_OK, retire(world, "old", DAYBOOK_FORCE_NO));
    assert_false(figures(world, "old").registered);
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(journal_figures(world).consumers, 1);
    assert_int_equal(maintain(world), 2);
}

static void test_O1_retire_is_refused_while_leases_live(struct contract_world *world)
{
    need_operators(world);
    (void)put(world, "a", "k");
    (void)claim_one(world, "billing");
    assert_code(DAYBOOK_BUSY, retire(world, "billing", DAYBOOK_FORCE_NO));
    assert_true(figures(world, "billing").registered);
    assert_code(DAYBOOK_OK, retire(world, "billing", DAYBOOK_FORCE_YES));
    /* A new consumer of that name begins anew. */
    assert_int_equal(claim_one(world, "billing").attempt, 1);
    assert_false(world->batch->deliveries[0].redelivery);
}

static void test_O1_rewind_delivers_again_what_is_retained(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "e", 4, NULL);
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    ack_next(world, "billing", "e3");
    assert_code(DAYBOOK_OK, discard(world, "billing", "e2"));
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(claim(world, "billing", 9), 3);
    assert_string_equal(ids(world), "e1 e3 e4");
    assert_int_equal(world->batch->deliveries[0].attempt, 1);
    assert_true(world->batch->deliveries[0].redelivery);
    assert_false(world->batch->deliveries[2].redelivery);
}

static void test_O1_rewind_leaves_quarantined_events_alone(struct contract_world *world)
{
    need_operators(world);
    put_many(world, "e", 2, NULL);
    quarantine_next(world, "billing", "e1");
    ack_next(world, "billing", "e2");
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "e2");
}

static void test_O1_rewind_keeps_the_start(struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 0);

    need_operators(world);
    (void)put(world, "before", "k1");
    c.start.kind = DAYBOOK_START_NOW;
    (void)claim_with(world, &c);
    (void)put(world, "after", "k2");
    ack_next(world, "billing", "after");
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "after");
}

static void test_O1_rewound_events_are_reclaimed_but_not_pruned(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 3;
    world_restart_empty(world, &capacity);
    need_operators(world);
    put_many(world, "e", 3, NULL);
    assert_int_equal(deliver_all(world, "billing"), 3);
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 0); /* not before it is delivered again */
    world_reopen(world, CONTRACT_KILLED);
    (void)put(world, "more", "k");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e2 e3 more");
    assert_int_equal(journal_figures(world).reclaimed, 1);
    assert_int_equal(deliver_all(world, "billing"), 3);
    assert_int_equal(maintain(world), 2);
}

static void test_O1_export_reads_every_retained_event_in_order(struct contract_world *world)
{
    put_many(world, "e", 5, "a");
    ack_next(world, "billing", "e1");
    quarantine_next(world, "billing", "e2");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e2 e3 e4 e5");
    assert_string_equal(retained(world, DAYBOOK_WHERE_PENDING), "e3 e4 e5");
    assert_string_equal(retained(world, DAYBOOK_WHERE_QUARANTINED), "e2");
}

static struct contract_test tests[] = {
    TEST(test_O1_what_operators_do_is_in_the_trail),
    TEST(test_O1_the_trail_outlives_the_file_it_was_written_in),
    TEST(test_O1_start_registers_a_consumer_before_anybody_delivers_for_it),
    TEST(test_C1b_what_is_kept_for_a_started_consumer_is_not_given_up),
    TEST(test_C1_a_started_consumer_waits_for_its_time),
    TEST(test_C1_start_is_for_a_consumer_that_is_new_to_the_journal),
    TEST(test_C1_no_more_consumers_are_started_than_a_journal_has_places_for),
    TEST(test_O1_a_lift_is_noted_and_changes_nothing_else),
    TEST(test_O1_an_operation_that_fails_leaves_no_trail),
    TEST(test_S1_an_event_is_shown_with_what_it_is_to_each_consumer),
    TEST(test_C7_a_damaged_event_is_found_without_its_record),
    TEST(test_O1_release_gives_a_fresh_budget),
    TEST(test_O1_several_released_events_come_in_order),
    TEST(test_O1_discard_is_final_for_one_consumer),
    TEST(test_O1_discard_of_the_only_consumer_forgets_at_once),
    TEST(test_O1_retire_forgets_a_consumer),
    TEST(test_O1_retire_is_refused_while_leases_live),
    TEST(test_O1_rewind_delivers_again_what_is_retained),
    TEST(test_O1_rewind_leaves_quarantined_events_alone),
    TEST(test_O1_rewind_keeps_the_start),
    TEST(test_O1_rewound_events_are_reclaimed_but_not_pruned),
    TEST(test_O1_export_reads_every_retained_event_in_order),
};
const struct contract_tests contract_operators_tests = TESTS_OF(tests);
