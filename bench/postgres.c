/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `postgres`: the PostgreSQL engine on a server of this run, which is as durable as it comes (fsync,
 * synchronous_commit, full_page_writes). Server, engine and callers share the machine's processors.
 *
 * Appends stand beside the plain client in alternate rounds; claims beside those at another length of the
 * backlog; appends at capacity beside those below it.
 */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claims.h"
#include "deliver.h"
#include "plain_postgres.h"

enum {
    CALLERS = 64,
    ENGINE_CONNECTIONS = 8,
    PLAIN_CONNECTIONS = 8,
    ROUNDS_MOST = 9,
    CLAIMS = 2,
    FILL_RUN = 32
};

#define APPEND_EVENTS_MAX DAYBOOK_EVENTS_LIMIT

static const double round_least_s = 1;

/* ---- appends --------------------------------------------------------------------------------------- */

struct caller {
    struct bench_event own;
    struct daybook_append_result result;
};

struct callers {
    struct daybook_journal *journal;
    struct caller *all;
};

static uint64_t append(void *user, unsigned number, const _Atomic uint32_t *stop)
{
    struct callers *callers = user;
    struct caller *c = &callers->all[number];
    struct daybook_error err = {0};
    uint64_t done = 0;

    for (; atomic_load(stop) == 0; done++) {
        bench_event_next(&c->own, bench_random(&c->own.random) % PLAIN_KEYS);
        bench_check(daybook_journal_append(callers->journal, &c->own.event, bench_now_us(),
                                           DAYBOOK_NO_DEADLINE, &c->result, &err),
                    &err, "append");
    }
    return done;
}

static double run_callers(void *user, double seconds)
{
    struct bench_crew crew = {CALLERS, append, user};
    struct bench_crew_done done = bench_crew_run(&crew, seconds);

    return (double)done.events / done.seconds;
}

static struct callers callers_of(struct daybook_journal *journal, uint64_t seed)
{
    struct callers callers = {.journal = journal, .all = calloc(CALLERS, sizeof *callers.all)};

    if (callers.all == NULL) {
        bench_die("no memory for callers");
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        bench_event_init(&callers.all[i].own, BENCH_EVENT_BYTES,
                         (seed << 40) + ((uint64_t)i << 32));
    }
    return callers;
}

static void measure_appends(struct bench *bench)
{
    struct callers callers = callers_of(bench_journal_open(bench, "append", APPEND_EVENTS_MAX), 1);
    struct plain *plain = plain_open(bench->dsn, PLAIN_CONNECTIONS);
    struct bench_side sides[] = {{.run = run_callers, .user = &callers},
                                 {.run = plain_run, .user = plain}};

    bench_alternate(bench, sides, 2);
    double rate = bench_median(bench, &sides[0]);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]);
    bench_figure(bench, "append, 64 callers; plain client on 8", rate, "events/s",
                 bench_median(bench, &sides[1]), ratio);
    bench_mark(bench, "appends of 64 callers, of the plain client on 8 connections", ratio,
               BENCH_AT_LEAST, 5);
    bench_mark(bench, "durable appends/s of 64 callers", rate, BENCH_AT_LEAST, 20000);
    plain_close(plain);
    bench_journal_close(callers.journal);
    free(callers.all);
}

/* ---- claims ---------------------------------------------------------------------------------------- */

struct length {
    const char *name;
    uint64_t waiting;
    uint64_t retained;
};

static void measure_claims(struct bench *bench)
{
    static const struct length lengths[] = {{"claim+ack of 256, 1,000 waiting", 1000, 0},
                                            {"100,000 waiting", 100000, 0},
                                            {"1,000,000 waiting", 1000000, 0},
                                            {"1,000 waiting, 1,000,000 retained", 1000, 1000000}};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    uint64_t divisor = bench->length == BENCH_QUICK ? 100 : 1;
    struct bench_side sides[LENGTHS];
    double fastest = INFINITY;
    double slowest = 0;
    char name[32];

    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t waiting =
            lengths[i].waiting / divisor < 1000 ? 1000 : lengths[i].waiting / divisor;
        (void)snprintf(name, sizeof name, "backlog_%zu", i);
        sides[i] = (struct bench_side){
            .run = claims_run,
            .user = backlog_open(bench, name, waiting, lengths[i].retained / divisor, CLAIMS)};
    }
    bench_alternate(bench, sides, LENGTHS);
    double bound_ms = CLAIMS_EVENTS * 1e3 / bench_median(bench, &sides[0]);
    for (size_t i = 0; i < LENGTHS; i++) {
        double ms = CLAIMS_EVENTS * 1e3 / bench_median(bench, &sides[i]);
        bench_figure(bench, lengths[i].name, ms, "ms", i == 0 ? NAN : bound_ms,
                     i == 0 ? NAN : bench_ratio(bench, &sides[0], &sides[i]));
        fastest = ms < fastest ? ms : fastest;
        slowest = ms > slowest ? ms : slowest;
        backlog_close(sides[i].user);
    }
    bench_mark(bench, "ms of a claim of 256 and its acknowledgement, the slowest", slowest,
               BENCH_AT_MOST, 20);
    bench_mark(bench, "the slowest backlog, times the fastest", slowest / fastest, BENCH_AT_MOST,
               2);
}

/* ---- delivery -------------------------------------------------------------------------------------- */

/* Of three backlogs, one after the other, the median. */
static double delivered_rate(const struct bench *bench, const char *name, uint64_t rows,
                             uint64_t keys, uint32_t key_run)
{
    enum { TAKES = 3 };
    struct daybook_journal *journal = bench_journal_open(bench, name, APPEND_EVENTS_MAX);
    double rates[TAKES];

    bench_consumer_register(journal, DELIVER_CONSUMER);
    for (unsigned i = 0; i < TAKES; i++) {
        struct empty_sink sink;
        empty_sink_init(&sink);
        bench_journal_fill_runs(journal, rows, BENCH_EVENT_BYTES, keys, key_run,
                                ((uint64_t)i + 1) << 56);
        rates[i] = (double)rows / deliver(journal, &sink, key_run, rows);
    }
    bench_journal_close(journal);
    double low = fmin(rates[0], rates[1]);
    double high = fmax(rates[0], rates[1]);
    return fmax(low, fmin(high, rates[2]));
}

static void measure_delivery(struct bench *bench)
{
    uint64_t divisor = bench->length == BENCH_QUICK ? 100 : 1;
    double rate = delivered_rate(bench, "single", 100000 / divisor, 10000, 1);

    bench_figure(bench, "delivery, 10,000 keys, key_run 1", rate, "events/s", NAN, NAN);
    bench_mark(bench, "events/s delivered, 10,000 keys, key_run 1", rate, BENCH_AT_LEAST, 15000);
    rate = delivered_rate(bench, "runs", 640000 / divisor, 10000, 32);
    bench_figure(bench, "delivery, 10,000 keys, key_run 32", rate, "events/s", NAN, NAN);
    bench_mark(bench, "events/s delivered, 10,000 keys, key_run 32", rate, BENCH_AT_LEAST, 40000);
    rate = delivered_rate(bench, "one", 50000 / divisor, 1, 32);
    bench_figure(bench, "delivery, one key, key_run 32", rate, "events/s", NAN, NAN);
    bench_mark(bench, "events/s delivered, one key, key_run 32", rate, BENCH_AT_LEAST, 5000);
}

/* ---- a full journal, and pruning ------------------------------------------------------------------- */

/* A journal that holds `rows` delivered events. */
static void fill_delivered(const struct bench *bench, const char *name, uint64_t rows,
                           uint64_t seed)
{
    struct daybook_journal *journal = bench_journal_open(bench, name, APPEND_EVENTS_MAX);
    struct empty_sink sink;

    empty_sink_init(&sink);
    bench_consumer_register(journal, DELIVER_CONSUMER);
    bench_journal_fill_runs(journal, rows, BENCH_EVENT_BYTES, PLAIN_KEYS, FILL_RUN, seed << 56);
    (void)deliver(journal, &sink, FILL_RUN, rows);
    bench_journal_close(journal);
}

static void measure_capacity(struct bench *bench, uint64_t rows)
{
    struct callers at = callers_of(bench_journal_open(bench, "full", rows), 2);
    struct callers below = callers_of(bench_journal_open(bench, "room", APPEND_EVENTS_MAX), 3);
    struct bench_side sides[] = {{.run = run_callers, .user = &at},
                                 {.run = run_callers, .user = &below}};

    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]);
    bench_figure(bench, "append at capacity; below", bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[1]), ratio);
    bench_mark(bench, "appends at a capacity of 1,000,000, of those below it", ratio,
               BENCH_AT_LEAST, 0.8);
    bench_journal_close(at.journal);
    bench_journal_close(below.journal);
    free(at.all);
    free(below.all);
}

struct pruning {
    struct daybook_journal *journal;
    _Atomic bool done;
    uint64_t pruned;
    double seconds;
};

static void *prune(void *user)
{
    struct pruning *pruning = user;
    struct daybook_error err = {0};
    double began = bench_now_s();
    uint64_t pruned = 0;

    do {
        bench_check(daybook_journal_maintain(pruning->journal, bench_now_us(), DAYBOOK_NO_DEADLINE,
                                             &pruned, &err),
                    &err, "maintain");
        pruning->pruned += pruned;
    } while (pruned > 0);
    pruning->seconds = bench_now_s() - began;
    atomic_store(&pruning->done, true);
    return NULL;
}

static double mean_rate(const struct bench *bench, struct callers *callers)
{
    double sum = 0;

    for (unsigned i = 0; i < bench->rounds; i++) {
        sum += run_callers(callers, bench->round_s);
    }
    return sum / bench->rounds;
}

static void measure_pruning(struct bench *bench)
{
    const struct daybook_capacity keep = {.events_max = APPEND_EVENTS_MAX};
    const struct daybook_capacity forget = {.events_max = APPEND_EVENTS_MAX,
                                            .retain_acknowledged_us = -1};
    struct callers calm = callers_of(bench_journal_open_with(bench, "room", &keep), 4);
    struct callers beside = callers_of(bench_journal_open_with(bench, "room", &forget), 5);
    struct pruning pruning = {.journal = beside.journal};
    pthread_t thread;
    double slice_s = bench->length == BENCH_QUICK ? 0.02 : 0.5;
    double sum = 0;
    unsigned slices = 0;

    double before = mean_rate(bench, &calm);
    if (pthread_create(&thread, NULL, prune, &pruning) != 0) {
        bench_die("no thread");
    }
    do {
        sum += run_callers(&beside, slice_s);
        slices++;
    } while (!atomic_load(&pruning.done));
    (void)pthread_join(thread, NULL);
    double after = mean_rate(bench, &calm);
    double rate = sum / slices;
    double ratio = rate / ((before + after) / 2);
    bench_figure(bench, "append beside pruning; without", rate, "events/s", (before + after) / 2,
                 ratio);
    bench_figure(bench, "pruned meanwhile by maintenance", (double)pruning.pruned, "events", NAN,
                 NAN);
    bench_figure(bench, "time of the pruning", pruning.seconds, "s", NAN, NAN);
    bench_mark(bench, "appends beside the pruning of 1,000,000, of those without", ratio,
               BENCH_AT_LEAST, 0.7);
    bench_journal_close(calm.journal);
    bench_journal_close(beside.journal);
    free(calm.all);
    free(beside.all);
}

/* All of it takes a quarter of an hour; DAYBOOK_BENCH_PART names one part. */
static bool wanted(const char *part)
{
    const char *only = getenv("DAYBOOK_BENCH_PART");

    return only == NULL || strcmp(only, part) == 0;
}

void bench_postgres(struct bench *bench)
{
    uint64_t rows = bench->length == BENCH_QUICK ? 4096 : 1000000;

    bench->dsn = postgres_server_start();
    if (bench->dsn == NULL) {
        /* Outside of a checkout. */
        (void)fprintf(stderr, "bench: postgres is not measured: no server can be started here, and "
                              "DAYBOOK_BENCH_DSN names none\n");
        bench->missed += bench->marking == BENCH_MARKS ? 1 : 0;
        return;
    }
    if (bench->length == BENCH_FULL) {
        bench->round_s = bench->round_s < round_least_s ? round_least_s : bench->round_s;
        bench->rounds = bench->rounds < ROUNDS_MOST ? bench->rounds : ROUNDS_MOST;
    }
    if (wanted("append")) {
        measure_appends(bench);
    }
    if (wanted("claim")) {
        measure_claims(bench);
    }
    if (wanted("delivery")) {
        measure_delivery(bench);
    }
    if (wanted("full")) {
        fill_delivered(bench, "full", rows, 7);
        fill_delivered(bench, "room", rows, 8);
        measure_capacity(bench, rows);
        measure_pruning(bench);
    }
}
