/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `consumers`: what two consumers more cost the producers. 64 threads append one by one into a
 * journal of three consumers and into one of a single consumer; each consumer has a worker that
 * delivers all the while into a destination that costs nothing.
 */
#include "bench.h"
#include "empty_sink.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <daybook/worker.h>

enum { THREADS = 64, CONSUMERS = 3, KEYS_OF_A_THREAD = 64, RUN = 32, DRAIN_MS = 5000 };

#define EVENTS_MAX UINT64_C(1000000)

struct house {
    struct daybook_journal *journal;
    unsigned consumers;
    struct empty_sink sinks[CONSUMERS];
    struct daybook_worker *workers[CONSUMERS];
    struct bench_event events[THREADS];
    uint64_t appended;
    uint64_t behind; /* events that the slowest had not at the end of a round, at most */
};

static uint64_t append(void *user, unsigned number, const _Atomic uint32_t *stop)
{
    struct house *house = user;
    struct bench_event *event = &house->events[number];
    struct daybook_append_result result;
    struct daybook_error err = {0};
    uint64_t done = 0;

    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        bench_event_next(event, number * KEYS_OF_A_THREAD + done % KEYS_OF_A_THREAD);
        bench_check(daybook_journal_append(house->journal, &event->event, bench_now_us(),
                                           DAYBOOK_NO_DEADLINE, &result, &err),
                    &err, "append");
        done++;
    }
    return done;
}

static double run(void *user, double seconds)
{
    struct house *house = user;
    struct bench_crew crew = {THREADS, append, house};
    struct bench_crew_done done = bench_crew_run(&crew, seconds);

    house->appended += done.events;
    for (unsigned i = 0; i < house->consumers; i++) {
        uint64_t left = house->appended - atomic_load(&house->sinks[i].rows);
        house->behind = left > house->behind ? left : house->behind;
    }
    return (double)done.events / done.seconds;
}

static struct house *house_open(const struct bench *bench, const char *name, unsigned consumers)
{
    static const char *const names[CONSUMERS] = {"billing", "archive", "audit"};
    struct house *house = calloc(1, sizeof *house);
    struct daybook_error err = {0};

    if (house == NULL) {
        bench_die("no memory");
    }
    house->journal = bench_journal_open(bench, name, EVENTS_MAX);
    house->consumers = consumers;
    for (unsigned i = 0; i < THREADS; i++) {
        bench_event_init(&house->events[i], BENCH_EVENT_BYTES, ((uint64_t)i << 32) + consumers);
    }
    for (unsigned i = 0; i < consumers; i++) {
        struct daybook_sink *sinks[] = {&house->sinks[i].head};
        struct daybook_worker_options options = {
            .consumer = names[i], .key_run = RUN, .sinks = sinks, .sink_count = 1};
        empty_sink_init(&house->sinks[i]);
        bench_check(daybook_worker_new(house->journal, &options, &house->workers[i], &err), &err,
                    "worker");
        bench_check(daybook_worker_start(house->workers[i], &err), &err, "worker");
    }
    return house;
}

static void house_close(struct house *house)
{
    struct daybook_drain_report reports[CONSUMERS];

    daybook_workers_drain(house->workers, house->consumers, DRAIN_MS, reports);
    for (unsigned i = 0; i < house->consumers; i++) {
        if (!reports[i].drained || reports[i].delivered != house->appended) {
            bench_die("a consumer has %llu of %llu events",
                      (unsigned long long)reports[i].delivered,
                      (unsigned long long)house->appended);
        }
        daybook_worker_free(house->workers[i]);
    }
    bench_journal_close(house->journal);
    free(house);
}

void bench_consumers(struct bench *bench)
{
    struct house *one = house_open(bench, "one", 1);
    struct house *three = house_open(bench, "three", CONSUMERS);
    struct bench_side sides[] = {{.run = run, .user = three}, {.run = run, .user = one}};

    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]);
    bench_figure(bench, "64 threads, three consumers", bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[1]), ratio);
    bench_figure(bench, "the slowest of three, behind", (double)three->behind, "events",
                 (double)one->behind, NAN);
    bench_mark(bench, "appends beside three consumers, of those beside one", ratio, BENCH_AT_LEAST,
               0.7);
    house_close(one);
    house_close(three);
}
