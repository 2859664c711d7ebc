/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suites `claim` and `retained`: what a claim of 256 and the acknowledgement of what it returned cost at
 * backlogs of different lengths, and behind 10,000,000 events that were acknowledged and are retained (C13:
 * it depends on what is returned, not on how much waits or is retained). The bound is a short backlog
 * with nothing behind it. Only the two calls are timed; what they took is appended again, so that the
 * backlog stays.
 */
#include "claims.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CLAIM_EVENTS = CLAIMS_EVENTS, KEYS = 10000, BATCH_BYTES = 1024 * 1024, LEASE_MS = 60000 };
/* Claims between two appends that put back what they took. */
enum { CLAIMS = CLAIMS_MAX, TOP_UP_EVENTS = CLAIMS * CLAIM_EVENTS };

#define SETTLED_MAX UINT64_C(500000) /* acknowledged events that stay beside those that wait */

struct backlog {
    struct daybook_journal *journal;
    struct daybook_batch *batch;
    struct bench_event own[TOP_UP_EVENTS];
    struct daybook_event events[TOP_UP_EVENTS];
    struct daybook_append_result results[TOP_UP_EVENTS];
    struct daybook_hand_out set[CLAIM_EVENTS];
    enum daybook_code codes[CLAIM_EVENTS];
    unsigned claims; /* before what they took is appended again: it has to be waiting */
    uint64_t random;
    double cpu_s; /* of the claims and acknowledgements so far, and how many events they were */
    uint64_t done;
};

static const char consumer[] = "billing";

/* Appends `count` events with keys by chance. */
static void top_up(struct backlog *b, size_t count)
{
    struct daybook_error err = {0};

    for (size_t i = 0; i < count; i++) {
        bench_event_next(&b->own[i], bench_random(&b->random) % KEYS);
        b->events[i] = b->own[i].event;
    }
    bench_check(daybook_journal_append_batch(b->journal, b->events, count, bench_now_us(),
                                             DAYBOOK_NO_DEADLINE, b->results, &err),
                &err, "append");
    for (size_t i = 0; i < count; i++) {
        bench_check(b->results[i].code, NULL, "append");
    }
}

/* Claims and acknowledges once. Returns how many events. */
static size_t claim_and_ack(struct backlog *b)
{
    struct daybook_error err = {0};
    struct daybook_claim claim = {
        .consumer = consumer, .events_max = CLAIM_EVENTS, .key_run = 1, .lease_ms = LEASE_MS};

    bench_check(daybook_journal_claim(b->journal, &claim, bench_now_us(), DAYBOOK_NO_DEADLINE,
                                      b->batch, &err),
                &err, "claim");
    size_t count = b->batch->count;
    for (size_t i = 0; i < count; i++) {
        b->set[i] = (struct daybook_hand_out){b->batch->deliveries[i].position,
                                              b->batch->deliveries[i].token};
    }
    bench_check(daybook_journal_ack(b->journal, consumer, b->set, count, bench_now_us(),
                                    DAYBOOK_NO_DEADLINE, b->codes, &err),
                &err, "ack");
    for (size_t i = 0; i < count; i++) {
        bench_check(b->codes[i], NULL, "ack");
    }
    return count;
}

/* Processor time of this thread, which commits what it claims by itself. */
static double own_cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double claims_run(void *user, double seconds)
{
    struct backlog *b = user;
    double until = bench_now_s() + seconds;
    double spent = 0;
    uint64_t done = 0;

    do {
        double cpu = own_cpu_s();
        double began = bench_now_s();
        size_t count = 0;
        for (unsigned i = 0; i < b->claims; i++) {
            count += claim_and_ack(b);
        }
        spent += bench_now_s() - began;
        b->cpu_s += own_cpu_s() - cpu;
        b->done += count;
        done += count;
        if (count != b->claims * (size_t)CLAIM_EVENTS) {
            bench_die("a claim returned too little");
        }
        top_up(b, count);
    } while (bench_now_s() < until);
    return (double)done / spent;
}

struct backlog *backlog_open(const struct bench *bench, const char *name, uint64_t events,
                             uint64_t retained, unsigned claims)
{
    struct backlog *b = calloc(1, sizeof *b);
    struct daybook_error err = {0};

    if (b == NULL) {
        bench_die("no memory for a backlog");
    }
    b->journal = bench_journal_open(bench, name, events + retained + SETTLED_MAX);
    b->claims = claims;
    b->random = events;
    bench_check(
        daybook_batch_new(CLAIM_EVENTS, BATCH_BYTES, DAYBOOK_EVENT_BYTES_DEFAULT, &b->batch, &err),
        &err, "batch");
    for (size_t i = 0; i < TOP_UP_EVENTS; i++) {
        bench_event_init(&b->own[i], BENCH_EVENT_BYTES, ((uint64_t)i << 32) + events);
    }
    bench_consumer_register(b->journal, consumer);
    for (uint64_t done = 0; done < retained; done += TOP_UP_EVENTS) {
        top_up(b, TOP_UP_EVENTS);
        while (claim_and_ack(b) > 0) {
        }
    }
    for (uint64_t done = 0; done < events;) {
        size_t n = events - done < TOP_UP_EVENTS ? (size_t)(events - done) : TOP_UP_EVENTS;
        top_up(b, n);
        done += n;
    }
    return b;
}

void backlog_close(struct backlog *b)
{
    daybook_batch_free(b->batch);
    bench_journal_close(b->journal);
    free(b);
}

/* Backlogs, the bound first; those of a quick run beside them. */
static const uint64_t lengths[] = {10000, 1000000, 5000000};
static const uint64_t lengths_quick[] = {5000, 10000, 20000};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* The same from a backlog of a few claims on. */
static const uint64_t short_lengths[] = {1000, 200000};
static const uint64_t short_lengths_quick[] = {1000, 5000};
enum { SHORT_LENGTHS = 2, SHORT_CLAIMS = 2 };

/* Closes the backlogs and says what processor time an event took: that hardly moves with the disk and the
 * neighbours. */
static void close_all(const struct bench *bench, const char *what, const struct bench_side *sides,
                      const uint64_t *numbers, size_t count)
{
    char name[64];
    double bound = NAN;

    for (size_t i = 0; i < count; i++) {
        struct backlog *b = sides[i].user;
        double us = b->cpu_s * 1e6 / (double)b->done;

        (void)snprintf(name, sizeof name, "%s %" PRIu64 ", processor", what, numbers[i]);
        bench_figure(bench, name, us, "us/event", bound, us / bound);
        bound = i == 0 ? us : bound;
        backlog_close(b);
    }
}

/* Measures and closes the backlogs, the bound first. Returns the slowest as a part of the fastest; *ret_rate:
 * events a second of the bound. */
static double compare(const struct bench *bench, const char *what, struct bench_side *sides,
                      const uint64_t *numbers, size_t count, double *ret_rate)
{
    double slowest = 1; /* of the rates, as ratios to the bound */
    double fastest = 1;
    char name[64];

    bench_alternate(bench, sides, count);
    *ret_rate = bench_median(bench, &sides[0]);
    for (size_t i = 0; i < count; i++) {
        double ratio = bench_ratio(bench, &sides[i], &sides[0]);
        (void)snprintf(name, sizeof name, "%s %" PRIu64, what, numbers[i]);
        bench_figure(bench, name, bench_median(bench, &sides[i]), "events/s",
                     i == 0 ? NAN : *ret_rate, i == 0 ? NAN : ratio);
        slowest = ratio < slowest ? ratio : slowest;
        fastest = ratio > fastest ? ratio : fastest;
    }
    close_all(bench, what, sides, numbers, count);
    return slowest / fastest;
}

/* Backlogs of these lengths, compared. */
static double compare_lengths(const struct bench *bench, const uint64_t *events, size_t count,
                              unsigned claims, double *ret_rate)
{
    struct bench_side sides[LENGTHS];
    char name[64];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "backlog-%" PRIu64, events[i]);
        sides[i] = (struct bench_side){.run = claims_run,
                                       .user = backlog_open(bench, name, events[i], 0, claims)};
    }
    return compare(bench, "backlog", sides, events, count, ret_rate);
}

void bench_claim(struct bench *bench)
{
    bool quick = bench->length == BENCH_QUICK;
    double rate = 0;
    double part = compare_lengths(bench, quick ? short_lengths_quick : short_lengths, SHORT_LENGTHS,
                                  SHORT_CLAIMS, &rate);

    bench_mark(bench, "the slower of 1,000 and 200,000 waiting, of the faster", part,
               BENCH_AT_LEAST, 0.5);
    part = compare_lengths(bench, quick ? lengths_quick : lengths, LENGTHS, CLAIMS, &rate);
    bench_mark(bench, "events/s claimed and acknowledged, 10,000 waiting", rate, BENCH_AT_LEAST,
               500000);
    bench_mark(bench, "the slowest of the longer backlogs, of the fastest", part, BENCH_AT_LEAST,
               0.8);
}

void bench_retained(struct bench *bench)
{
    bool quick = bench->length == BENCH_QUICK;
    uint64_t waiting = quick ? lengths_quick[0] : lengths[0];
    uint64_t retained[] = {0, quick ? 20000 : 10000000};
    double rate = 0;
    struct bench_side sides[] = {
        {.run = claims_run, .user = backlog_open(bench, "none", waiting, retained[0], CLAIMS)},
        {.run = claims_run, .user = backlog_open(bench, "many", waiting, retained[1], CLAIMS)}};
    double part = compare(bench, "retained", sides, retained, 2, &rate);

    bench_mark(bench, "claims and acknowledgements with 10,000,000 retained, of those with none",
               part, BENCH_AT_LEAST, 0.8);
}
