/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker on a bench. See bench.h.
 */
#include "delivery/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct contract_engine *engine = &contract_memory;

void bench_engine(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "log") == 0) {
        engine = &contract_log;
    }
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
}

static int64_t now_of(void *user)
{
    const struct bench *b = user;

    return b->world->now_us;
}

static void note(void *user, const struct daybook_worker_event *event)
{
    struct bench *b = user;

    b->told[event->kind]++;
    b->counts[event->kind] += event->count;
    b->values_left_out += event->values_left_out;
    b->unknown += event->effect == DAYBOOK_EFFECT_UNKNOWN ? 1 : 0;
    assert_string_equal(event->consumer, CONSUMER);
    if (event->kind == DAYBOOK_WORKER_BRAKED) {
        (void)snprintf(b->brake, sizeof b->brake, "%s", event->message);
    }
    if (event->message[0] != '\0') {
        (void)snprintf(b->message, sizeof b->message, "%s", event->message);
    }
}

void take_time(void *user)
{
    struct bench *b = user;

    pass(b->world, b->write_takes_us);
}

int bench_setup(void **state)
{
    const struct daybook_capacity capacity = world_capacity();
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    b->world = world_new(engine, &capacity);
    troubled_init(&b->troubled, b->world->journal);
    for (size_t i = 0; i < SINKS; i++) {
        b->sinks[i] = script_sink_new(i == 0 ? "ledger" : "archive");
        b->heads[i] = &b->sinks[i]->head;
        b->sinks[i]->user = b;
    }
    b->options = (struct daybook_worker_options){.consumer = CONSUMER,
                                                 .claim_batch = 8,
                                                 .key_run = 8,
                                                 .lease_ms = LEASE_MS,
                                                 .sinks = b->heads,
                                                 .sink_count = 1,
                                                 .now_us = now_of,
                                                 .notify = note,
                                                 .user = b};
    *state = b;
    return 0;
}

void bench_enlarge(struct bench *b, uint64_t events_max)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = events_max;
    world_restart_empty(b->world, &capacity);
    troubled_init(&b->troubled, b->world->journal);
    for (size_t i = 0; i < SINKS; i++) {
        b->sinks[i]->tells_nothing = true;
    }
}

void begin(struct bench *b)
{
    assert_code(DAYBOOK_OK, daybook_worker_new(&b->troubled.head, &b->options, &b->worker, NULL));
    enrol(b->world, CONSUMER);
}

void restart_worker(struct bench *b)
{
    struct script_sink *fresh[SINKS];

    for (size_t i = 0; i < b->options.sink_count; i++) {
        fresh[i] = script_sink_new(b->sinks[i]->head.name);
        fresh[i]->user = b;
        fresh[i]->bad = b->sinks[i]->bad;
        fresh[i]->away = b->sinks[i]->away;
        fresh[i]->away_as = b->sinks[i]->away_as;
        fresh[i]->tells_nothing = b->sinks[i]->tells_nothing;
    }
    daybook_worker_free(b->worker);
    for (size_t i = 0; i < b->options.sink_count; i++) {
        b->sinks[i] = fresh[i];
        b->heads[i] = &fresh[i]->head;
    }
    assert_code(DAYBOOK_OK, daybook_worker_new(&b->troubled.head, &b->options, &b->worker, NULL));
}

int bench_teardown(void **state)
{
    struct bench *b = *state;

    daybook_worker_free(b->worker);
    for (size_t i = b->worker != NULL ? b->options.sink_count : 0; i < SINKS; i++) {
        b->heads[i]->ops->close(b->heads[i]);
    }
    check_sums(b->world);
    world_free(b->world);
    free(b);
    return 0;
}

const struct dbk_pass *run_pass(struct bench *b)
{
    dbk_worker_pass(b->worker, &b->pass);
    return &b->pass;
}

struct daybook_consumer_stats backlog(struct bench *b)
{
    return figures(b->world, CONSUMER);
}

struct daybook_worker_stats worker_figures(struct bench *b)
{
    struct daybook_worker_stats stats;

    daybook_worker_stats(b->worker, &stats);
    return stats;
}

int64_t mono_us(const struct bench *b)
{
    return b->world->disk->monotonic_us;
}

/* Takes a turn. Returns what it would wait for. */
static int64_t turn(struct bench *b)
{
    struct dbk_turn turn = dbk_worker_turn(b->worker);
    int64_t left_us = turn.until_us - mono_us(b);

    assert_true(turn.next != DBK_NEXT_GONE);
    return turn.next == DBK_NEXT_AGAIN || left_us < 0 ? 0 : left_us;
}

int64_t until_next_try(struct bench *b)
{
    uint32_t writes = atomic_load(&b->sinks[0]->writes);
    int64_t began_us = mono_us(b);

    while (true) {
        int64_t wait_us = turn(b);
        if (atomic_load(&b->sinks[0]->writes) != writes) {
            return mono_us(b) - began_us;
        }
        assert_true(mono_us(b) - began_us < 24 * HOUR_US); /* else there is nothing to write */
        pass(b->world, wait_us);
    }
}

void live(struct bench *b, int64_t us)
{
    int64_t end_us = mono_us(b) + us;

    while (mono_us(b) < end_us) {
        int64_t wait_us = turn(b);
        if (backlog(b).drained) {
            return;
        }
        pass(b->world, wait_us < end_us - mono_us(b) ? wait_us : end_us - mono_us(b));
    }
}
