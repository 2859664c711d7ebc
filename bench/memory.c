/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `memory`: resident bytes of a pending event beside its payload, which is on disk. One consumer
 * is registered. Each figure comes from a process of its own, whose resident set is read with a few events
 * stored (so that buffers of fixed size count for nothing) and with all: the tables that are made for
 * max_events are touched in between and so count in full. Both ways to get there are shown: appended by
 * this process, and found by a restart.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Small events: what is measured does not grow with them, and the disk is spared. */
enum { SMALL_BYTES = 330, FEW_KEYS = 10000, FIRST_EVENTS = 2048 };

static double resident_bytes(void)
{
    /* "<size> <resident> ...", in pages */
    return bench_proc_number("/proc/self/statm", " ") * (double)sysconf(_SC_PAGESIZE);
}

struct job {
    const char *journal;
    uint64_t events;
    uint64_t keys;
};

static double appended(const struct bench *bench, const struct job *job)
{
    struct daybook_journal *journal = bench_journal_open(bench, job->journal, job->events);
    bench_consumer_register(journal, "billing");
    bench_journal_fill(journal, FIRST_EVENTS, SMALL_BYTES, job->keys, 1);
    double before = resident_bytes();
    bench_journal_fill(journal, job->events - FIRST_EVENTS, SMALL_BYTES, job->keys, 2);
    double bytes = (resident_bytes() - before) / (double)(job->events - FIRST_EVENTS);
    bench_journal_close(journal);
    return bytes;
}

static double found(const struct bench *bench, const struct job *job)
{
    double before = resident_bytes();
    struct daybook_journal *journal = bench_journal_open(bench, job->journal, job->events);
    double bytes = (resident_bytes() - before) / (double)job->events;
    bench_journal_close(journal);
    return bytes;
}

/* Runs `measure` in a process of its own. */
static double apart(const struct bench *bench, const struct job *job,
                    double (*measure)(const struct bench *, const struct job *))
{
    int ends[2];
    double bytes = 0;
    int status = 0;

    if (pipe(ends) != 0) {
        bench_die("no pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        bytes = measure(bench, job);
        _exit(write(ends[1], &bytes, sizeof bytes) == (ssize_t)sizeof bytes ? 0 : 2);
    }
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], &bytes, sizeof bytes) != (ssize_t)sizeof bytes ||
        waitpid(child, &status, 0) != child || status != 0) {
        bench_die("the measuring process failed");
    }
    (void)close(ends[0]);
    return bytes;
}

void bench_memory(struct bench *bench)
{
    static const double allowed = 100;
    uint64_t events = bench->length == BENCH_QUICK ? 20000 : 1000000;
    struct job few = {"few-keys", events, FEW_KEYS};
    struct job own = {"own-keys", events, events};
    struct job *jobs[] = {&few, &own};
    static const char *const names[2][2] = {
        {"10000 keys, appended", "10000 keys, after a restart"},
        {"every event its own key, appended", "its own key, after a restart"}};
    double worst = 0;

    for (int i = 0; i < 2; i++) {
        double bytes[2] = {apart(bench, jobs[i], appended), apart(bench, jobs[i], found)};
        for (int k = 0; k < 2; k++) {
            bench_figure(bench, names[i][k], bytes[k], "bytes/event", allowed, bytes[k] / allowed);
            worst = bytes[k] > worst ? bytes[k] : worst;
        }
    }
    bench_mark(bench, "resident bytes of a pending event", worst, BENCH_AT_MOST, allowed);
}
