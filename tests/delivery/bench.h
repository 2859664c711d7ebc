/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker on a bench: over a journal of some engine, with scripted destinations, in moved time. No thread,
 * no sleep: turns are taken by hand, and what a turn would wait for is added to the clock.
 */
#ifndef DELIVERY_BENCH_H
#define DELIVERY_BENCH_H

#include <daybook/worker.h>

#include "delivery/delivery.h"
#include "harness/script_sink.h"
#include "harness/troubled_journal.h"
#include "harness/world.h"

#define CONSUMER "billing"
#define LEASE_MS 30000u
#define POLL_US 250000
#define SINKS 2u

struct bench {
    struct contract_world *world;
    struct troubled_journal troubled;
    struct daybook_worker_options options;
    struct script_sink *sinks[SINKS];
    struct daybook_sink *heads[SINKS];
    struct daybook_worker *worker;
    struct dbk_pass pass;

    uint64_t counts[DAYBOOK_WORKER_MAINTAIN_FAILED + 1]; /* told of each kind: sums of `count` */
    unsigned told[DAYBOOK_WORKER_MAINTAIN_FAILED + 1];
    unsigned unknown;  /* writes of which it was said that they may have landed */
    char message[512]; /* of the last notice that had one */
    char brake[512];   /* why, as told */
    int64_t write_takes_us;
    uint64_t values_left_out;
    unsigned appended; /* by a destination that appends while it writes */
};

/* The engine of every bench; the first argument of a test program names it, a second one, such as '*W5*', which
 * tests are run. */
void bench_engine(int argc, char **argv);
/* For cmocka: world_capacity(), claims of 8, runs of 8, one destination ("ledger", the second one is
 * "archive"). */
int bench_setup(void **state);
int bench_teardown(void **state);
/* The same, over an empty journal that holds so many events. */
void bench_enlarge(struct bench *b, uint64_t events_max);
/* Makes the worker; until then a test may change the options. */
void begin(struct bench *b);
/* The worker's process ends and starts again, with its destinations as they were. */
void restart_worker(struct bench *b);

const struct dbk_pass *run_pass(struct bench *b);
struct daybook_consumer_stats backlog(struct bench *b);
struct daybook_worker_stats worker_figures(struct bench *b);
int64_t mono_us(const struct bench *b);
/* `on_write` of a destination: the write takes `write_takes_us`. */
void take_time(void *user);

/* Turns until the first destination is written to again. Returns how long that took. */
int64_t until_next_try(struct bench *b);
/* The loop of a worker for so long; ends early once nothing is pending or in flight. */
void live(struct bench *b, int64_t us);

#endif
