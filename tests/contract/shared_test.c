/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold when several threads use one journal at once: P7, C4, C8, C11, A2. Real threads, no
 * sleeps; which thread wins is not looked at, only what must be true whoever wins.
 */
#include "contract/contract.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"

#define THREADS 6u
#define EACH 60u
#define KEYS 7u

/* Asserts of cmocka belong to the main thread; the others count what they saw. */
struct shared {
    struct contract_world *world;
    _Atomic unsigned ready; /* threads that stand at the line */
    _Atomic unsigned accepted;
    _Atomic unsigned repeated;
    _Atomic unsigned refused;
    _Atomic unsigned wrong; /* anything that must not be */
    _Atomic unsigned delivered;
    _Atomic unsigned writing;
    _Atomic unsigned held[KEYS]; /* claimants that hold an event of the key */
};
struct part {
    struct shared *shared;
    unsigned no;
    struct dbk_thread thread;
};

static void line_up(struct shared *s)
{
    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->ready) < THREADS) {
    }
}

static void run_together(struct shared *s, void *(*run)(void *))
{
    struct part parts[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        parts[i] = (struct part){.shared = s, .no = i};
        assert_int_equal(dbk_thread_start(&parts[i].thread, "contract", run, &parts[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        dbk_thread_join(&parts[i].thread);
    }
    assert_int_equal(s->wrong, 0);
}

static void count_answer(struct shared *s, enum daybook_code code)
{
    if (code == DAYBOOK_OK) {
        atomic_fetch_add(&s->accepted, 1);
    } else if (code == DAYBOOK_ALREADY_PRESENT) {
        atomic_fetch_add(&s->repeated, 1);
    } else if (code == DAYBOOK_AT_CAPACITY) {
        atomic_fetch_add(&s->refused, 1);
    } else {
        atomic_fetch_add(&s->wrong, 1);
    }
}

static void append_in_thread(struct shared *s, const char *id, const char *subject)
{
    struct daybook_event event = event_of(id, subject, "{\"n\":1}");
    struct daybook_append_result result;

    count_answer(s, daybook_journal_append(s->world->journal, &event, WORLD_START_US,
                                           DAYBOOK_NO_DEADLINE, &result, NULL));
}

static void *append_own_ids(void *arg)
{
    struct part *part = arg;

    line_up(part->shared);
    for (unsigned i = 0; i < EACH; i++) {
        char id[32];
        char key[8];

        (void)snprintf(id, sizeof id, "t%u-%u", part->no, i);
        (void)snprintf(key, sizeof key, "%u", i % KEYS);
        append_in_thread(part->shared, id, key);
    }
    atomic_fetch_sub(&part->shared->writing, 1);
    return NULL;
}

static void *append_the_same_ids(void *arg)
{
    struct part *part = arg;

    line_up(part->shared);
    for (unsigned i = 0; i < EACH; i++) {
        char id[32];

        (void)snprintf(id, sizeof id, "same-%u", i);
        append_in_thread(part->shared, id, "k");
    }
    return NULL;
}

static void start_shared(struct contract_world *world, struct shared *s, uint64_t events_max)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = events_max;
    world_restart_shared(world, &capacity);
    *s = (struct shared){.world = world, .writing = THREADS};
}

static void test_P7_appends_that_race_for_the_last_free_places(struct contract_world *world)
{
    struct shared s;

    start_shared(world, &s, 100);
    run_together(&s, append_own_ids);
    assert_int_equal(s.accepted, 100);
    assert_int_equal(s.refused, THREADS * EACH - 100);
    assert_int_equal(journal_figures(world).stored_events, 100);
}

static void test_A2_appends_of_one_id_at_once(struct contract_world *world)
{
    struct shared s;

    start_shared(world, &s, 1000);
    run_together(&s, append_the_same_ids);
    assert_int_equal(s.accepted, EACH);
    assert_int_equal(s.repeated, (THREADS - 1) * EACH);
    assert_int_equal(journal_figures(world).stored_events, EACH);
}

/* Thread 0 lists; the others append. */
static void *append_or_list(void *arg)
{
    struct part *part = arg;
    struct shared *s = part->shared;
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;
    unsigned seen = 0;

    if (part->no != 0) {
        return append_own_ids(arg);
    }
    if (daybook_batch_new(64, 1u << 16, 0, &batch, NULL) != DAYBOOK_OK) {
        atomic_fetch_add(&s->wrong, 1);
    }
    line_up(s);
    while (batch != NULL) {
        bool finished = atomic_load(&s->writing) == 1;

        if (daybook_journal_read(s->world->journal, last, DAYBOOK_WHERE_ALL, batch, &last, NULL,
                                 NULL) != DAYBOOK_OK) {
            atomic_fetch_add(&s->wrong, 1);
            break;
        }
        seen += (unsigned)batch->count;
        if (finished && batch->count == 0 && !batch->more) {
            break;
        }
    }
    /* Whoever passes over a position below which one still appears, misses that one. */
    if (seen != (THREADS - 1) * EACH) {
        atomic_fetch_add(&s->wrong, 1);
    }
    daybook_batch_free(batch);
    return NULL;
}

static void test_C11_a_listing_misses_nothing_while_appends_are_in_flight(
    struct contract_world *world)
{
    struct shared s;

    start_shared(world, &s, 1000);
    run_together(&s, append_or_list);
    assert_int_equal(s.accepted, (THREADS - 1) * EACH);
}

static void note_held(struct shared *s, const struct daybook_delivery *d, int by)
{
    unsigned key = (unsigned)(d->event.subject.data[0] - '0');
    unsigned before;

    if (key >= KEYS) {
        atomic_fetch_add(&s->wrong, 1);
        return;
    }
    before = by > 0 ? atomic_fetch_add(&s->held[key], 1) : atomic_fetch_sub(&s->held[key], 1);
    if (before != (by > 0 ? 0u : 1u)) {
        atomic_fetch_add(&s->wrong, 1);
    }
}

/* Claims, notes what it holds, lets it go, acknowledges. */
static void *claim_and_ack(void *arg)
{
    struct part *part = arg;
    struct shared *s = part->shared;
    struct daybook_claim c = claim_of("billing", 1 + part->no % 3);
    struct daybook_batch *batch = NULL;

    if (daybook_batch_new(8, 1u << 16, 0, &batch, NULL) != DAYBOOK_OK) {
        atomic_fetch_add(&s->wrong, 1);
    }
    line_up(s);
    while (batch != NULL && atomic_load(&s->delivered) < KEYS * EACH) {
        /* Clocks read in one order and used in another: some claimants are 20 s ahead (C5). */
        int64_t now_us = WORLD_START_US + (int64_t)(part->no % 2) * 20 * SECOND_US;

        if (daybook_journal_claim(s->world->journal, &c, now_us, DAYBOOK_NO_DEADLINE, batch,
                                  NULL) != DAYBOOK_OK) {
            atomic_fetch_add(&s->wrong, 1);
            break;
        }
        for (size_t i = 0; i < batch->count; i++) {
            note_held(s, &batch->deliveries[i], 1);
        }
        for (size_t i = 0; i < batch->count; i++) {
            struct daybook_hand_out h = hand_out_of(&batch->deliveries[i]);
            enum daybook_code code = DAYBOOK_CODE_COUNT;

            note_held(s, &batch->deliveries[i], -1);
            if (batch->deliveries[i].attempt != 1 ||
                daybook_journal_ack(s->world->journal, "billing", &h, 1, now_us,
                                    DAYBOOK_NO_DEADLINE, &code, NULL) != DAYBOOK_OK ||
                code != DAYBOOK_OK) {
                atomic_fetch_add(&s->wrong, 1);
            }
            atomic_fetch_add(&s->delivered, 1);
        }
    }
    daybook_batch_free(batch);
    return NULL;
}

static void test_C8_claimants_at_once_never_hold_one_key(struct contract_world *world)
{
    struct shared s;

    start_shared(world, &s, 1000);
    for (unsigned i = 0; i < KEYS * EACH; i++) {
        char id[32];
        char key[8];

        (void)snprintf(id, sizeof id, "e%u", i);
        (void)snprintf(key, sizeof key, "%u", i % KEYS);
        (void)put(world, id, key);
    }
    run_together(&s, claim_and_ack);
    assert_int_equal(s.delivered, KEYS * EACH);
    assert_true(figures(world, "billing").drained);
}

/* Thread 0 claims runs of the one key that all others append to. */
static void *append_or_claim_one_key(void *arg)
{
    struct part *part = arg;
    struct shared *s = part->shared;
    struct daybook_claim c = claim_of("billing", 8);
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;

    c.key_run = 8;
    if (daybook_batch_new(8, 1u << 16, 0, &batch, NULL) != DAYBOOK_OK) {
        atomic_fetch_add(&s->wrong, 1);
    }
    line_up(s);
    for (unsigned i = 0; part->no != 0 && i < EACH; i++) {
        char id[32];

        (void)snprintf(id, sizeof id, "t%u-%u", part->no, i);
        append_in_thread(s, id, "one");
    }
    /* Who passes over a position below which one of the key still appears, gets that one behind it. */
    while (part->no == 0 && batch != NULL && atomic_load(&s->wrong) == 0 &&
           atomic_load(&s->delivered) < (THREADS - 1) * EACH) {
        struct daybook_hand_out set[8];
        enum daybook_code codes[8];

        if (daybook_journal_claim(s->world->journal, &c, WORLD_START_US, DAYBOOK_NO_DEADLINE, batch,
                                  NULL) != DAYBOOK_OK) {
            atomic_fetch_add(&s->wrong, 1);
        }
        for (size_t i = 0; i < batch->count; i++) {
            set[i] = hand_out_of(&batch->deliveries[i]);
            atomic_fetch_add(&s->wrong, set[i].position > last ? 0 : 1);
            last = set[i].position;
        }
        if (batch->count > 0 &&
            daybook_journal_ack(s->world->journal, "billing", set, batch->count, WORLD_START_US,
                                DAYBOOK_NO_DEADLINE, codes, NULL) != DAYBOOK_OK) {
            atomic_fetch_add(&s->wrong, 1);
        }
        atomic_fetch_add(&s->delivered, (unsigned)batch->count);
    }
    daybook_batch_free(batch);
    return NULL;
}

static void test_C11_appends_of_one_key_at_once_come_in_order(struct contract_world *world)
{
    struct shared s;

    start_shared(world, &s, 1000);
    run_together(&s, append_or_claim_one_key);
    assert_int_equal(s.accepted, (THREADS - 1) * EACH);
    assert_true(figures(world, "billing").drained);
}

static struct contract_test tests[] = {
    TEST(test_P7_appends_that_race_for_the_last_free_places),
    TEST(test_A2_appends_of_one_id_at_once),
    TEST(test_C11_a_listing_misses_nothing_while_appends_are_in_flight),
    TEST(test_C11_appends_of_one_key_at_once_come_in_order),
    TEST(test_C8_claimants_at_once_never_hold_one_key),
};
const struct contract_tests contract_shared_tests = TESTS_OF(tests);
