/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suites `capacity` and `prune`: what it costs an append that room has to be made for it. At capacity every
 * append gives up one delivered event; the bound is a journal with as much stored and room for more. Pruning: a
 * million events whose window is over are pruned while 16 threads append; the bound is the same threads on the
 * same journal before and after.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#include "latency.h"

enum { THREADS_MAX = 64, PRUNE_THREADS = 16, CLAIM_EVENTS = 1024, KEYS = 1000, TAKES = 5 };

#define STORED_EVENTS UINT64_C(1000000)
#define BELOW_CAPACITY UINT64_C(4000000)
#define MINUTE_US INT64_C(60000000)
#define WINDOW_US (10 * MINUTE_US)
#define LATER_US (20 * MINUTE_US) /* within the hour that a leap of the clock is believed */

static const char consumer[] = "billing";

struct shop {
    struct daybook_journal *journal;
    unsigned threads;
    int64_t later_us; /* what the callers' clock is ahead */
    struct bench_event events[THREADS_MAX];
    struct latency took[THREADS_MAX];
    uint64_t pruned;
    double pruned_s;
};

static uint64_t append(void *user, unsigned number, const _Atomic uint32_t *stop)
{
    struct shop *shop = user;
    struct bench_event *event = &shop->events[number];
    struct daybook_append_result result;
    struct daybook_error err = {0};
    uint64_t done = 0;

    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        bench_event_next(event, number * KEYS + done % KEYS);
        double began = bench_now_s();
        bench_check(daybook_journal_append(shop->journal, &event->event,
                                           bench_now_us() + shop->later_us, DAYBOOK_NO_DEADLINE,
                                           &result, &err),
                    &err, "append");
        latency_add(&shop->took[number], (bench_now_s() - began) * 1e6);
        done++;
    }
    return done;
}

/* Delivers everything that waits. */
static void deliver_all(struct daybook_journal *journal)
{
    static struct daybook_hand_out set[CLAIM_EVENTS];
    static enum daybook_code codes[CLAIM_EVENTS];
    struct daybook_claim claim = {.consumer = consumer,
                                  .events_max = CLAIM_EVENTS,
                                  .key_run = CLAIM_EVENTS,
                                  .lease_ms = 60000};
    struct daybook_batch *batch = NULL;
    struct daybook_error err = {0};

    bench_check(daybook_batch_new(CLAIM_EVENTS, CLAIM_EVENTS * 1024, 256 * 1024, &batch, &err),
                &err, "batch");
    do {
        bench_check(daybook_journal_claim(journal, &claim, bench_now_us(), DAYBOOK_NO_DEADLINE,
                                          batch, &err),
                    &err, "claim");
        for (size_t i = 0; i < batch->count; i++) {
            set[i] = (struct daybook_hand_out){batch->deliveries[i].position,
                                               batch->deliveries[i].token};
        }
        bench_check(daybook_journal_ack(journal, consumer, set, batch->count, bench_now_us(),
                                        DAYBOOK_NO_DEADLINE, codes, &err),
                    &err, "ack");
    } while (batch->count > 0);
    daybook_batch_free(batch);
}

/* A journal that holds so many delivered events. */
static struct shop *shop_open(const struct bench *bench, const char *name, uint64_t events_max,
                              int64_t window_us, uint64_t stored)
{
    struct shop *shop = calloc(1, sizeof *shop);
    char path[BENCH_PATH_MAX];
    struct daybook_error err = {0};

    if (shop == NULL) {
        bench_die("no memory");
    }
    bench_path(bench, name, path);
    struct daybook_log_options options = {
        .path = path,
        .capacity = {.events_max = events_max, .retain_acknowledged_us = window_us},
        .now_us = bench_now_us()};
    bench_check(daybook_log_open(&options, &shop->journal, &err), &err, path);
    bench_consumer_register(shop->journal, consumer);
    bench_journal_fill(shop->journal, stored, BENCH_EVENT_BYTES, KEYS, events_max);
    deliver_all(shop->journal);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        bench_event_init(&shop->events[i], BENCH_EVENT_BYTES, ((uint64_t)i << 40) + events_max);
    }
    return shop;
}

static void shop_close(const struct bench *bench, const char *name, struct shop *shop)
{
    char path[BENCH_PATH_MAX];

    bench_journal_close(shop->journal);
    bench_path(bench, name, path);
    bench_remove(path);
    free(shop);
}

static uint64_t stored_events(const struct bench *bench)
{
    return bench->length == BENCH_QUICK ? 20000 : STORED_EVENTS;
}

/* ---- capacity ------------------------------------------------------------------------------------ */

static double run_appends(void *user, double seconds)
{
    struct shop *shop = user;
    struct bench_crew crew = {shop->threads, append, shop};
    struct bench_crew_done done = bench_crew_run(&crew, seconds);

    return (double)done.events / done.seconds;
}

static struct daybook_journal_stats stats_of(const struct shop *shop)
{
    struct daybook_journal_stats stats;

    bench_check(daybook_journal_stats(shop->journal, bench_now_us(), &stats, NULL), NULL, "stats");
    return stats;
}

void bench_capacity(struct bench *bench)
{
    uint64_t stored = stored_events(bench);
    struct shop *full = shop_open(bench, "full", stored, 0, stored);
    struct shop *below = shop_open(bench, "below", BELOW_CAPACITY, 0, stored);
    struct bench_side sides[] = {{.run = run_appends, .user = full},
                                 {.run = run_appends, .user = below}};

    full->threads = THREADS_MAX;
    below->threads = THREADS_MAX;
    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]);
    bench_figure(bench, "64 threads at capacity", bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[1]), ratio);
    struct daybook_journal_stats at = stats_of(full);
    if (at.stored_events > stored || at.reclaimed != at.accepted - at.stored_events ||
        stats_of(below).reclaimed != 0) {
        bench_die("not every append at capacity gave up one event");
    }
    bench_mark(bench, "at capacity, of below capacity", ratio, BENCH_AT_LEAST, 0.9);
    shop_close(bench, "full", full);
    shop_close(bench, "below", below);
}

/* ---- prune --------------------------------------------------------------------------------------- */

struct pruning {
    struct shop *shop;
    _Atomic uint32_t done;
};

static void *prune(void *arg)
{
    struct pruning *pruning = arg;
    struct shop *shop = pruning->shop;
    double began = bench_now_s();
    struct daybook_error err = {0};

    bench_check(daybook_journal_maintain(shop->journal, bench_now_us() + LATER_US,
                                         DAYBOOK_NO_DEADLINE, &shop->pruned, &err),
                &err, "maintain");
    shop->pruned_s = bench_now_s() - began;
    atomic_store(&pruning->done, 1);
    return NULL;
}

/* The 99th of 100 appends of a round; it is over after `seconds`, or once everything is pruned. */
static double round_p99(struct shop *shop, double seconds, struct pruning *pruning)
{
    struct latency *all = calloc(1, sizeof *all);

    if (all == NULL) {
        bench_die("no memory for latencies");
    }
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        shop->took[i] = (struct latency){.count = 0};
    }
    do {
        (void)run_appends(shop, seconds);
    } while (pruning != NULL && atomic_load(&pruning->done) == 0);
    for (unsigned i = 0; i < shop->threads; i++) {
        latency_merge(all, &shop->took[i]);
    }
    double p99 = latency_quantile_us(all, 0.99);
    free(all);
    return p99;
}

/* One million: the 99th of 100 appends while they are pruned, to that of the rounds before and after. */
static double take(const struct bench *bench, double *ret_with, double *ret_without)
{
    struct shop *shop =
        shop_open(bench, "prune", 2 * STORED_EVENTS, WINDOW_US, stored_events(bench));
    struct pruning pruning = {.shop = shop};
    struct dbk_thread thread;

    shop->threads = PRUNE_THREADS;
    (void)round_p99(shop, bench->round_s, NULL);
    double before = round_p99(shop, 2 * bench->round_s, NULL);
    shop->later_us = LATER_US;
    if (dbk_thread_start(&thread, "prune", prune, &pruning) != 0) {
        bench_die("no thread that prunes");
    }
    *ret_with = round_p99(shop, bench->round_s / 4, &pruning);
    dbk_thread_join(&thread);
    double after = round_p99(shop, 2 * bench->round_s, NULL);
    *ret_without = (before + after) / 2;
    if (stats_of(shop).pruned < stored_events(bench)) {
        bench_die("not everything was pruned");
    }
    shop_close(bench, "prune", shop);
    return *ret_with / *ret_without;
}

void bench_prune(struct bench *bench)
{
    unsigned takes = bench->length == BENCH_QUICK ? 1 : TAKES;
    struct bench local = *bench;
    struct bench_side with = {.run = NULL};
    struct bench_side without = {.run = NULL};

    local.rounds = takes;
    for (unsigned i = 0; i < takes; i++) {
        bench_warm_memory(bench);
        (void)take(bench, &with.values[i], &without.values[i]);
    }
    double ratio = bench_ratio(&local, &with, &without);
    bench_figure(bench, "99th of 100 appends, beside pruning", bench_median(&local, &with), "us",
                 bench_median(&local, &without), ratio);
    bench_mark(bench, "99th of 100 appends beside pruning, of without", ratio, BENCH_AT_MOST, 1.25);
}
