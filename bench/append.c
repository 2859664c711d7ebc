/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suites `append`, `committer` and `batch`: durable appends in process, beside the empty committer that moves the
 * same bytes from the same number of threads, and beside the bare disk. Each worker owns its storage.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "empty_committer.h"
#include "engines/log/format.h"
#include "latency.h"

enum { THREADS_MAX = 64, BATCH_MAX = 256, KEYS_OF_A_WORKER = 64 };

#define APPEND_EVENTS_MAX UINT64_C(1000000) /* the default */
#define BATCH_EVENTS_MAX UINT64_C(8000000)

/* What one thread appends, again and again. */
struct worker {
    struct bench_event own[BATCH_MAX];
    struct daybook_event events[BATCH_MAX];
    struct daybook_append_result results[BATCH_MAX];
    uint64_t appended;
    struct latency journal_took; /* of every call */
    struct latency empty_took;
};

/* What one side has brought to an end, and the processor time of this process meanwhile. */
struct spent {
    double events;
    double cpu_us;
};

struct crowd {
    struct daybook_journal *journal;
    struct empty_committer *empty;
    struct worker *workers;
    size_t batch; /* events of one call */
    size_t frame_bytes;
    char *frame;
    unsigned threads;
    struct spent journal_spent;
    struct spent empty_spent;
};

static void append_one(struct crowd *crowd, struct worker *w)
{
    struct daybook_error err = {0};
    bench_check(daybook_journal_append(crowd->journal, &w->own[0].event, bench_now_us(),
                                       DAYBOOK_NO_DEADLINE, &w->results[0], &err),
                &err, "append");
}

static void append_batch(struct crowd *crowd, struct worker *w)
{
    struct daybook_error err = {0};
    for (size_t i = 0; i < crowd->batch; i++) {
        w->events[i] = w->own[i].event;
    }
    bench_check(daybook_journal_append_batch(crowd->journal, w->events, crowd->batch,
                                             bench_now_us(), DAYBOOK_NO_DEADLINE, w->results, &err),
                &err, "append");
    for (size_t i = 0; i < crowd->batch; i++) {
        bench_check(w->results[i].code, NULL, "append");
    }
}

/* What a producer does before it appends, on both sides alike: its own work is no part of a commit. */
static void make_events(struct crowd *crowd, struct worker *w, unsigned number, uint64_t done)
{
    for (size_t i = 0; i < crowd->batch; i++) {
        bench_event_next(&w->own[i], number * KEYS_OF_A_WORKER + (done + i) % KEYS_OF_A_WORKER);
    }
}

static uint64_t work_journal(void *user, unsigned number, const _Atomic uint32_t *stop)
{
    struct crowd *crowd = user;
    struct worker *w = &crowd->workers[number];
    uint64_t before = w->appended;

    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        make_events(crowd, w, number, w->appended);
        double began = bench_now_s();
        if (crowd->batch == 1) {
            append_one(crowd, w);
        } else {
            append_batch(crowd, w);
        }
        latency_add(&w->journal_took, (bench_now_s() - began) * 1e6);
        w->appended += crowd->batch;
    }
    return w->appended - before;
}

static uint64_t work_empty(void *user, unsigned number, const _Atomic uint32_t *stop)
{
    struct crowd *crowd = user;
    struct worker *w = &crowd->workers[number];
    uint64_t done = 0;

    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        make_events(crowd, w, number, done);
        double began = bench_now_s();
        empty_committer_append(crowd->empty, crowd->frame, crowd->frame_bytes, crowd->batch);
        latency_add(&w->empty_took, (bench_now_s() - began) * 1e6);
        done += crowd->batch;
    }
    return done;
}

static double cpu_us(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double run_crew(const struct bench_crew *crew, double seconds, struct spent *spent)
{
    double before = cpu_us();
    struct bench_crew_done done = bench_crew_run(crew, seconds);
    spent->cpu_us += cpu_us() - before;
    spent->events += (double)done.events;
    return (double)done.events / done.seconds;
}

static double run_journal(void *user, double seconds)
{
    struct crowd *crowd = user;
    struct bench_crew crew = {crowd->threads, work_journal, crowd};
    return run_crew(&crew, seconds, &crowd->journal_spent);
}

static double run_empty(void *user, double seconds)
{
    struct crowd *crowd = user;
    struct bench_crew crew = {crowd->threads, work_empty, crowd};
    return run_crew(&crew, seconds, &crowd->empty_spent);
}

static void crowd_init(struct crowd *crowd, const struct bench *bench, const char *name,
                       uint64_t events_max)
{
    char path[BENCH_PATH_MAX];
    char file[64];

    bench_warm_memory(bench);
    crowd->journal = bench_journal_open(bench, name, events_max);
    crowd->workers = calloc(crowd->threads, sizeof *crowd->workers);
    if (crowd->workers == NULL) {
        bench_die("no memory for %u workers", crowd->threads);
    }
    for (unsigned i = 0; i < crowd->threads; i++) {
        for (size_t k = 0; k < crowd->batch; k++) {
            uint64_t seed = ((uint64_t)i << 48) + ((uint64_t)k << 32) + crowd->threads;
            bench_event_init(&crowd->workers[i].own[k], BENCH_EVENT_BYTES, seed);
        }
    }
    crowd->frame_bytes = dbk_event_frame_bytes(&crowd->workers[0].own[0].event);
    crowd->frame = malloc(crowd->frame_bytes);
    if (crowd->frame == NULL) {
        bench_die("no memory for a frame");
    }
    memset(crowd->frame, 'f', crowd->frame_bytes);
    (void)snprintf(file, sizeof file, "%s.empty", name);
    bench_path(bench, file, path);
    crowd->empty = empty_committer_open(path, crowd->threads * crowd->batch * crowd->frame_bytes);
}

static void crowd_release(struct crowd *crowd, const struct bench *bench, const char *name)
{
    char path[BENCH_PATH_MAX];

    empty_committer_close(crowd->empty);
    bench_journal_close(crowd->journal);
    bench_path(bench, name, path); /* its pages serve the next one */
    bench_remove(path);
    free(crowd->frame);
    free(crowd->workers);
}

static struct daybook_journal_stats stats_of(struct daybook_journal *journal)
{
    struct daybook_journal_stats stats;
    struct daybook_error err = {0};
    bench_check(daybook_journal_stats(journal, bench_now_us(), &stats, &err), &err, "stats");
    return stats;
}

/* What one crowd has shown. */
struct shown {
    double ratio; /* to the empty committer */
    double disk;  /* to the bare disk that carries all in flight on one sync */
    double p99;   /* to that of the empty committer */
    double events_per_sync;
};

/* The 99th of 100 calls on both sides. Returns the ratio. */
static double measure_p99(const struct bench *bench, const struct crowd *crowd, const char *name)
{
    struct latency *both = calloc(2, sizeof *both);
    char text[64];

    if (both == NULL) {
        bench_die("no memory for latencies");
    }
    for (unsigned i = 0; i < crowd->threads; i++) {
        latency_merge(&both[0], &crowd->workers[i].journal_took);
        latency_merge(&both[1], &crowd->workers[i].empty_took);
    }
    double took = latency_quantile_us(&both[0], 0.99);
    double bound = latency_quantile_us(&both[1], 0.99);
    (void)snprintf(text, sizeof text, "%s, 99th of 100", name);
    bench_figure(bench, text, took, "us", bound, took / bound);
    free(both);
    return took / bound;
}

static struct shown measure(struct bench *bench, struct crowd *crowd, struct bare_disk *disk,
                            const char *name)
{
    struct bench_side sides[] = {
        {.run = run_journal, .user = crowd},
        {.run = run_empty, .user = crowd},
        {.run = bare_disk_run, .user = disk},
    };
    double in_flight = (double)(crowd->threads * crowd->batch);
    char text[64];

    bare_disk_carry(disk, crowd->threads * crowd->batch * crowd->frame_bytes);
    struct daybook_journal_stats before = stats_of(crowd->journal);
    bench_alternate(bench, sides, sizeof sides / sizeof sides[0]);
    struct daybook_journal_stats after = stats_of(crowd->journal);
    struct shown shown = {.ratio = bench_ratio(bench, &sides[0], &sides[1])};
    shown.events_per_sync =
        (double)(after.accepted - before.accepted) / (double)(after.syncs - before.syncs);
    double empty_per_sync = crowd->empty_spent.events / (double)empty_committer_syncs(crowd->empty);
    double cpu = crowd->journal_spent.cpu_us / crowd->journal_spent.events;
    double empty_cpu = crowd->empty_spent.cpu_us / crowd->empty_spent.events;
    bench_figure(bench, name, bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[1]), shown.ratio);
    (void)snprintf(text, sizeof text, "%s, of the bare disk", name);
    shown.disk = bench_ratio(bench, &sides[0], &sides[2]) / in_flight;
    bench_figure(bench, text, bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[2]) * in_flight, shown.disk);
    (void)snprintf(text, sizeof text, "%s, events a sync", name);
    bench_figure(bench, text, shown.events_per_sync, "events", empty_per_sync,
                 shown.events_per_sync / empty_per_sync);
    (void)snprintf(text, sizeof text, "%s, processor", name);
    bench_figure(bench, text, cpu, "us/event", empty_cpu, cpu / empty_cpu);
    shown.p99 = measure_p99(bench, crowd, name);
    return shown;
}

static struct bare_disk *disk_of(const struct bench *bench)
{
    char path[BENCH_PATH_MAX];
    bench_path(bench, "disk", path);
    return bare_disk_open(path);
}

/* One crowd on a journal of its own. */
static struct shown measure_threads(struct bench *bench, struct bare_disk *disk, unsigned threads,
                                    size_t take)
{
    struct crowd crowd = {.batch = 1, .threads = threads};
    char name[32];
    char dir[32];

    (void)snprintf(name, sizeof name, "%u thread%s", threads, threads == 1 ? "" : "s");
    (void)snprintf(dir, sizeof dir, "threads-%u-%zu", threads, take);
    crowd_init(&crowd, bench, dir, APPEND_EVENTS_MAX);
    struct shown shown = measure(bench, &crowd, disk, name);
    crowd_release(&crowd, bench, dir);
    return shown;
}

static int by_ratio(const void *a, const void *b)
{
    double x = ((const struct shown *)a)->ratio;
    double y = ((const struct shown *)b)->ratio;
    return (x > y) - (x < y);
}

/* The median of three takes: what a mark hangs on, for one take moves by a few hundredths. */
static struct shown measure_takes(struct bench *bench, struct bare_disk *disk, unsigned threads)
{
    enum { TAKES = 3 };
    struct shown shown[TAKES];

    for (size_t i = 0; i < TAKES; i++) {
        shown[i] = measure_threads(bench, disk, threads, i);
    }
    qsort(shown, TAKES, sizeof shown[0], by_ratio);
    return shown[TAKES / 2];
}

void bench_append(struct bench *bench)
{
    struct bare_disk *disk = disk_of(bench);

    (void)measure_threads(bench, disk, 1, 0);
    (void)measure_threads(bench, disk, 16, 0);
    struct shown shown = measure_takes(bench, disk, THREADS_MAX);
    bare_disk_close(disk);
    bench_mark(bench, "64 threads, of the empty committer", shown.ratio, BENCH_AT_LEAST, 0.85);
    bench_mark(bench, "64 threads, events a sync", shown.events_per_sync, BENCH_AT_LEAST, 20);
}

void bench_committer(struct bench *bench)
{
    static const unsigned crowds[] = {1, 16, THREADS_MAX};
    struct bare_disk *disk = disk_of(bench);
    char text[64];

    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++) {
        struct shown shown = measure_takes(bench, disk, crowds[i]);
        (void)snprintf(text, sizeof text, "%u threads, of the empty committer", crowds[i]);
        bench_mark(bench, text, shown.ratio, BENCH_AT_LEAST, 0.95);
        (void)snprintf(text, sizeof text, "%u threads, 99th of 100, of its", crowds[i]);
        bench_mark(bench, text, shown.p99, BENCH_AT_MOST, 2);
    }
    bare_disk_close(disk);
}

void bench_batch(struct bench *bench)
{
    struct bare_disk *disk = disk_of(bench);
    struct crowd crowd = {.batch = BATCH_MAX, .threads = 4};

    crowd_init(&crowd, bench, "4 threads of 256", BATCH_EVENTS_MAX);
    struct shown shown = measure(bench, &crowd, disk, "4 threads of 256");
    crowd_release(&crowd, bench, "4 threads of 256");
    bare_disk_close(disk);
    bench_mark(bench, "4 threads of 256, of the bare disk", shown.disk, BENCH_AT_LEAST, 0.40);
}
