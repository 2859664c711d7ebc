/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One busy caller into a destination that takes 20 ms for a call, in moved time: how many events one call
 * moves, and that they arrive in their order (C4, C4b). The engine is the first argument: test-caller
 * log. `./dev bench caller` measures the same on a real clock.
 */
#include <daybook/worker.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delivery/delivery.h"
#include "harness/world.h"

enum { APPEND_BATCH = 250, CALL_US = 20000, CLAIM_BATCH = 256 };

#define CONSUMER "billing"

static const struct contract_engine *engine = &contract_memory;
/* The oracle's linear searches make as many events of one key on it a matter of minutes. */
static unsigned busy_events = 1000;

/* A destination to which the ids of the one caller come as the numbers from 0 on. */
struct slow_sink {
    struct daybook_sink head;
    struct contract_world *world;
    unsigned rows;
    unsigned calls;
    size_t most; /* rows of a call */
};

struct bench {
    struct contract_world *world;
    struct slow_sink sink;
    struct daybook_worker *worker;
};

static void slow_write(struct daybook_sink *head, const struct daybook_row *rows, size_t count,
                       int64_t deadline_us, struct daybook_answer *ret_answer)
{
    struct slow_sink *sink = (struct slow_sink *)head;
    char id[16];

    (void)deadline_us;
    pass(sink->world, CALL_US);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%u", sink->rows++);
        assert_int_equal(rows[i].event.request_id.len, strlen(id));
        assert_memory_equal(rows[i].event.request_id.data, id, strlen(id));
    }
    sink->calls++;
    sink->most = count > sink->most ? count : sink->most;
    ret_answer->kind = DAYBOOK_ANSWER_ACCEPTED;
}

static void slow_ignore(struct daybook_sink *head)
{
    (void)head;
}

static const struct daybook_sink_ops slow_ops = {
    .kind = "slow", .write = slow_write, .interrupt = slow_ignore, .close = slow_ignore};

static int64_t now_of(void *user)
{
    const struct bench *b = user;

    return b->world->now_us;
}

static int setup(void **state)
{
    struct daybook_capacity capacity = world_capacity();
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    capacity.events_max = busy_events;
    b->world = world_new(engine, &capacity);
    b->sink.head.ops = &slow_ops;
    b->sink.world = b->world;
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    daybook_worker_free(b->worker);
    world_free(b->world);
    free(b);
    return 0;
}

static void append_of_one_caller(struct contract_world *world, unsigned count)
{
    char ids_of[APPEND_BATCH][16];
    struct daybook_event events[APPEND_BATCH];
    struct daybook_append_result results[APPEND_BATCH];

    for (unsigned done = 0; done < count; done += APPEND_BATCH) {
        unsigned n = count - done < APPEND_BATCH ? count - done : APPEND_BATCH;
        for (unsigned i = 0; i < n; i++) {
            (void)snprintf(ids_of[i], sizeof ids_of[i], "%u", done + i);
            events[i] = event_of(ids_of[i], "one", "{}");
        }
        assert_code(DAYBOOK_OK,
                    daybook_journal_append_batch(world->journal, events, n, world->now_us,
                                                 DAYBOOK_NO_DEADLINE, results, &world->err));
        for (unsigned i = 0; i < n; i++) {
            assert_code(DAYBOOK_OK, results[i].code);
        }
    }
}

/* Lets a worker deliver `events` of one caller. Returns how long it took. */
static int64_t deliver(struct bench *b, unsigned events, uint32_t key_run)
{
    struct daybook_sink *heads[] = {&b->sink.head};
    struct daybook_worker_options options = {.consumer = CONSUMER,
                                             .claim_batch = CLAIM_BATCH,
                                             .key_run = key_run,
                                             .sinks = heads,
                                             .sink_count = 1,
                                             .now_us = now_of,
                                             .user = b};

    assert_code(DAYBOOK_OK, daybook_worker_new(b->world->journal, &options, &b->worker, NULL));
    enrol(b->world, CONSUMER);
    append_of_one_caller(b->world, events);
    int64_t began_us = b->world->now_us;
    while (b->sink.rows < events) {
        /* Whoever waited here between two calls would lose the time of the wait. */
        assert_int_equal(dbk_worker_turn(b->worker).next, DBK_NEXT_AGAIN);
    }
    assert_true(figures(b->world, CONSUMER).drained);
    return b->world->now_us - began_us;
}

static void test_C4b_one_busy_caller_moves_at_the_speed_of_runs(void **state)
{
    struct bench *b = *state;
    int64_t took_us = deliver(b, busy_events, 32);

    assert_int_equal(b->sink.most, 32);
    assert_int_equal(b->sink.calls, (busy_events + 31) / 32);
    assert_true(busy_events * SECOND_US >= 1000 * took_us); /* 1,000 events/s */
}

static void test_C4_with_runs_of_one_a_caller_is_served_strictly_one_at_a_time(void **state)
{
    struct bench *b = *state;
    unsigned events = 200;

    assert_true(deliver(b, events, 1) >= (int64_t)events * CALL_US);
    assert_int_equal(b->sink.most, 1);
    assert_int_equal(b->sink.calls, events);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "log") == 0) {
        engine = &contract_log;
        busy_events = 20000;
    }
    const struct CMUnitTest tests[] = {
        TEST(test_C4b_one_busy_caller_moves_at_the_speed_of_runs),
        TEST(test_C4_with_runs_of_one_a_caller_is_served_strictly_one_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
