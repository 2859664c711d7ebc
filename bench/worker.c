/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suites `worker` and `caller`: the delivery worker into destinations that keep nothing.
 *
 * `worker` is what the worker itself costs: a destination that answers at once, events of 10,000 keys. Its
 * bound is a plain loop of claims and acknowledgements of the same sizes over the same journal, without
 * a worker. `caller` is one busy caller into a destination that takes 20 ms for a call, however many rows
 * (C4b): what counts is how many events one round trip moves, and that their order is kept.
 */
#include "deliver.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <daybook/worker.h>

enum {
    CLAIM_EVENTS = 256,
    BATCH_BYTES = 8 * 1024 * 1024,
    KEYS = 10000,
    LEASE_MS = 30000,
    LOOK_NS = 200000,
    DRAIN_MS = 1000
};

/* A third of a second at the mark. */
enum { ROWS_FULL = 100 * 1024, ROWS_QUICK = 4 * 1024 };

enum { CALLER_EVENTS = 20000, CALLER_QUICK = 500, SINGLE_EVENTS = 100, RUN = 32, CALL_MS = 20 };

#define EVENTS_MAX UINT64_C(1000000)

static const char consumer[] = DELIVER_CONSUMER;

static void wait_until_drained(struct daybook_journal *journal, struct empty_sink *sink,
                               uint64_t rows)
{
    struct daybook_consumer_stats stats;
    struct daybook_error err = {0};

    while (atomic_load(&sink->rows) < rows) {
        empty_sink_sleep(LOOK_NS);
    }
    do {
        bench_check(daybook_journal_consumer_stats(journal, consumer, bench_now_us(), &stats, &err),
                    &err, "stats");
    } while (!stats.drained);
}

double deliver(struct daybook_journal *journal, struct empty_sink *sink, uint32_t key_run,
               uint64_t rows)
{
    struct daybook_sink *sinks[] = {&sink->head};
    struct daybook_worker *worker = NULL;
    struct daybook_drain_report report;
    struct daybook_error err = {0};

    struct daybook_worker_options options = {.consumer = consumer,
                                             .claim_batch = CLAIM_EVENTS,
                                             .key_run = key_run,
                                             .sinks = sinks,
                                             .sink_count = 1};
    bench_check(daybook_worker_new(journal, &options, &worker, &err), &err, "worker");
    double began = bench_now_s();
    bench_check(daybook_worker_start(worker, &err), &err, "worker");
    wait_until_drained(journal, sink, rows);
    double took = bench_now_s() - began;
    daybook_workers_drain(&worker, 1, DRAIN_MS, &report);
    daybook_worker_free(worker);
    if (report.delivered != rows || atomic_load(&sink->rows) != rows) {
        bench_die("the worker delivered %llu of %llu events", (unsigned long long)report.delivered,
                  (unsigned long long)rows);
    }
    return took;
}

/* ---- worker ---------------------------------------------------------------------------------------- */

struct queue {
    struct daybook_journal *journal;
    struct daybook_batch *batch;
    struct daybook_hand_out set[CLAIM_EVENTS];
    enum daybook_code codes[CLAIM_EVENTS];
    uint64_t rows;
    uint64_t seed;
};

static double run_worker(void *user, double seconds)
{
    struct queue *q = user;
    struct empty_sink sink;

    (void)seconds; /* rows, not time: what waits is delivered whole */
    empty_sink_init(&sink);
    bench_journal_fill(q->journal, q->rows, BENCH_EVENT_BYTES, KEYS, q->seed++);
    return (double)q->rows / deliver(q->journal, &sink, RUN, q->rows);
}

static double run_plain(void *user, double seconds)
{
    struct queue *q = user;
    struct daybook_error err = {0};
    struct daybook_claim claim = {
        .consumer = consumer, .events_max = CLAIM_EVENTS, .key_run = RUN, .lease_ms = LEASE_MS};

    (void)seconds;
    bench_journal_fill(q->journal, q->rows, BENCH_EVENT_BYTES, KEYS, q->seed++);
    double began = bench_now_s();
    for (uint64_t done = 0; done < q->rows;) {
        bench_check(daybook_journal_claim(q->journal, &claim, bench_now_us(), DAYBOOK_NO_DEADLINE,
                                          q->batch, &err),
                    &err, "claim");
        size_t count = q->batch->count;
        for (size_t i = 0; i < count; i++) {
            q->set[i] = (struct daybook_hand_out){q->batch->deliveries[i].position,
                                                  q->batch->deliveries[i].token};
        }
        bench_check(daybook_journal_ack(q->journal, consumer, q->set, count, bench_now_us(),
                                        DAYBOOK_NO_DEADLINE, q->codes, &err),
                    &err, "ack");
        if (count == 0) {
            bench_die("a claim returned nothing");
        }
        done += count;
    }
    return (double)q->rows / (bench_now_s() - began);
}

void bench_worker(struct bench *bench)
{
    struct daybook_error err = {0};
    struct queue q = {.journal = bench_journal_open(bench, "journal", EVENTS_MAX),
                      .rows = bench->length == BENCH_QUICK ? ROWS_QUICK : ROWS_FULL,
                      .seed = 1};
    struct bench_side sides[] = {{.run = run_worker, .user = &q}, {.run = run_plain, .user = &q}};

    bench_check(
        daybook_batch_new(CLAIM_EVENTS, BATCH_BYTES, DAYBOOK_EVENT_BYTES_DEFAULT, &q.batch, &err),
        &err, "batch");
    bench_consumer_register(q.journal, consumer);
    bench_alternate(bench, sides, 2);
    double median = bench_median(bench, &sides[0]);
    bench_figure(bench, "into nothing, 10,000 keys", median, "events/s",
                 bench_median(bench, &sides[1]), bench_ratio(bench, &sides[0], &sides[1]));
    bench_mark(bench, "events/s of a worker whose destination costs nothing", median,
               BENCH_AT_LEAST, 300000);
    daybook_batch_free(q.batch);
    bench_journal_close(q.journal);
}

/* ---- caller ---------------------------------------------------------------------------------------- */

/* Events of one caller; their ids are the numbers from 0 on. */
static void append_of_one_caller(struct daybook_journal *journal, uint64_t count)
{
    enum { BATCH = 250, ID_BYTES = 24 };
    static const char record[] = "{\"tokens\":1}";
    char ids[BATCH][ID_BYTES];
    struct daybook_event events[BATCH];
    struct daybook_append_result results[BATCH];
    struct daybook_error err = {0};

    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < BATCH ? (size_t)(count - done) : BATCH;
        for (size_t i = 0; i < n; i++) {
            int len = snprintf(ids[i], ID_BYTES, "%" PRIu64, done + i);
            events[i] = (struct daybook_event){.request_id = {ids[i], (size_t)len},
                                               .name_space = {"bench", 5},
                                               .subject = {"one", 3},
                                               .observed_at_us = bench_now_us(),
                                               .record = {record, sizeof record - 1}};
        }
        bench_check(daybook_journal_append_batch(journal, events, n, bench_now_us(),
                                                 DAYBOOK_NO_DEADLINE, results, &err),
                    &err, "append");
        for (size_t i = 0; i < n; i++) {
            bench_check(results[i].code, NULL, "append");
        }
        done += n;
    }
}

/* Events a second of one caller; *ret_most: the most of them in one call. */
static double caller_rate(const struct bench *bench, const char *name, uint32_t key_run,
                          uint64_t events, size_t *ret_most)
{
    struct daybook_journal *journal = bench_journal_open(bench, name, EVENTS_MAX);
    struct empty_sink sink;

    empty_sink_init(&sink);
    sink.call_ns = (long)CALL_MS * 1000000;
    sink.in_order = true;
    append_of_one_caller(journal, events);
    double took = deliver(journal, &sink, key_run, events);
    bench_journal_close(journal);
    *ret_most = sink.most;
    return (double)events / took;
}

void bench_caller(struct bench *bench)
{
    bool quick = bench->length == BENCH_QUICK;
    double calls = 1000.0 / CALL_MS; /* of a destination that is asked without a pause */
    size_t most = 0;

    double rate = caller_rate(bench, "runs", RUN, quick ? CALLER_QUICK : CALLER_EVENTS, &most);
    bench_figure(bench, "20 ms a call, key_run 32", rate, "events/s", calls * RUN,
                 rate / (calls * RUN));
    bench_mark(bench, "events/s of one caller, 20 ms a call, key_run 32", rate, BENCH_AT_LEAST,
               1000);
    rate = caller_rate(bench, "single", 1, quick ? RUN : SINGLE_EVENTS, &most);
    bench_figure(bench, "20 ms a call, key_run 1", rate, "events/s", calls, rate / calls);
    bench_mark(bench, "rows of a call with key_run 1", (double)most, BENCH_AT_MOST, 1);
}
