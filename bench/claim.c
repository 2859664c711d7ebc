/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `claim`: what a claim of 256 and the acknowledgement of what it returned cost at two backlogs
 * (C13: it depends on what is returned, not on how much waits). The bound of the long backlog is the
 * short one. Only the two calls are timed; what they took is appended again, so that the backlog stays.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLAIM_EVENTS = 256, KEYS = 10000, BATCH_BYTES = 1024 * 1024, LEASE_MS = 60000 };

#define EVENTS_MAX UINT64_C(2000000) /* acknowledged events stay for their window */

struct backlog {
    struct daybook_journal *journal;
    struct daybook_batch *batch;
    struct bench_event own[CLAIM_EVENTS];
    struct daybook_event events[CLAIM_EVENTS];
    struct daybook_append_result results[CLAIM_EVENTS];
    struct daybook_hand_out set[CLAIM_EVENTS];
    enum daybook_code codes[CLAIM_EVENTS];
    uint64_t random;
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

static double run(void *user, double seconds)
{
    struct backlog *b = user;
    double until = bench_now_s() + seconds;
    double spent = 0;
    uint64_t done = 0;

    do {
        double began = bench_now_s();
        size_t count = claim_and_ack(b);
        spent += bench_now_s() - began;
        done += count;
        if (count == 0) {
            bench_die("a claim returned nothing");
        }
        top_up(b, count);
    } while (bench_now_s() < until);
    return (double)done / spent;
}

static struct backlog *backlog_open(const struct bench *bench, const char *name, uint64_t events)
{
    struct backlog *b = calloc(1, sizeof *b);
    struct daybook_error err = {0};

    if (b == NULL) {
        bench_die("no memory for a backlog");
    }
    b->journal = bench_journal_open(bench, name, EVENTS_MAX);
    b->random = events;
    bench_check(
        daybook_batch_new(CLAIM_EVENTS, BATCH_BYTES, DAYBOOK_EVENT_BYTES_DEFAULT, &b->batch, &err),
        &err, "batch");
    for (size_t i = 0; i < CLAIM_EVENTS; i++) {
        bench_event_init(&b->own[i], BENCH_EVENT_BYTES, ((uint64_t)i << 32) + events);
    }
    bench_consumer_register(b->journal, consumer);
    for (uint64_t done = 0; done < events;) {
        size_t n = events - done < CLAIM_EVENTS ? (size_t)(events - done) : CLAIM_EVENTS;
        top_up(b, n);
        done += n;
    }
    return b;
}

static void backlog_close(struct backlog *b)
{
    daybook_batch_free(b->batch);
    bench_journal_close(b->journal);
    free(b);
}

void bench_claim(struct bench *bench)
{
    uint64_t longer = bench->length == BENCH_QUICK ? 5000 : 200000;
    struct backlog *few = backlog_open(bench, "few", 1000);
    struct backlog *many = backlog_open(bench, "many", longer);
    struct bench_side sides[] = {{.run = run, .user = few}, {.run = run, .user = many}};
    char name[64];

    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[1], &sides[0]);
    bench_figure(bench, "backlog 1000", bench_median(bench, &sides[0]), "events/s", NAN, NAN);
    (void)snprintf(name, sizeof name, "backlog %llu", (unsigned long long)longer);
    bench_figure(bench, name, bench_median(bench, &sides[1]), "events/s",
                 bench_median(bench, &sides[0]), ratio);
    bench_mark(bench, "the slower of two backlogs, of the faster", ratio < 1 ? ratio : 1 / ratio,
               BENCH_AT_LEAST, 0.5);
    backlog_close(few);
    backlog_close(many);
}
