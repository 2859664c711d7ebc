/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `submit`: one thread that keeps 256 appends in flight by the submit form, which holds no thread
 * for any of them, beside the bare disk that carries 256 of them on each sync.
 */
#include "bench.h"

#include <poll.h>
#include <stdlib.h>

#include "empty_committer.h"
#include "engines/log/format.h"

enum { IN_FLIGHT = 256, KEYS = 10000, WAIT_MS = 30000 };

#define SUBMIT_EVENTS_MAX UINT64_C(8000000)

/* One append of those in flight. */
struct flight {
    struct bench_event own;
    struct daybook_append_result result;
    struct daybook_submission submission;
};

struct line {
    struct daybook_journal *journal;
    struct daybook_append_queue *queue;
    uint64_t key;
    struct flight flights[IN_FLIGHT];
};

static void submit(struct line *line, struct flight *flight)
{
    bench_event_next(&flight->own, line->key++ % KEYS);
    flight->result = (struct daybook_append_result){0};
    flight->submission = (struct daybook_submission){
        .events = &flight->own.event, .results = &flight->result, .count = 1, .user = flight};
    daybook_journal_submit(line->journal, line->queue, &flight->submission, bench_now_us());
}

/* Takes what has its answer. Returns how many. */
static uint64_t drain(struct line *line, struct daybook_submission **ret_done)
{
    size_t count = daybook_append_queue_drain(line->queue, bench_now_us(), ret_done, IN_FLIGHT);
    for (size_t i = 0; i < count; i++) {
        struct flight *flight = ret_done[i]->user;
        bench_check(flight->result.code, NULL, "submit");
    }
    return count;
}

static double run(void *user, double seconds)
{
    struct line *line = user;
    struct daybook_submission *done[IN_FLIGHT];
    struct pollfd ready = {.fd = daybook_append_queue_fd(line->queue), .events = POLLIN};
    double began = bench_now_s();
    uint64_t in_flight = IN_FLIGHT;
    uint64_t events = 0;

    for (size_t i = 0; i < IN_FLIGHT; i++) {
        submit(line, &line->flights[i]);
    }
    while (in_flight > 0) {
        if (poll(&ready, 1, WAIT_MS) == 0) {
            bench_die("no answer within %d s", WAIT_MS / 1000);
        }
        uint64_t count = drain(line, done);
        bool more = bench_now_s() - began < seconds;
        for (uint64_t i = 0; more && i < count; i++) {
            submit(line, done[i]->user);
        }
        events += count;
        in_flight -= more ? 0 : count;
    }
    return (double)events / (bench_now_s() - began);
}

void bench_submit(struct bench *bench)
{
    struct daybook_error err = {0};
    struct line *line = calloc(1, sizeof *line);
    char path[BENCH_PATH_MAX];

    if (line == NULL) {
        bench_die("no memory for what is in flight");
    }
    line->journal = bench_journal_open(bench, "submit", SUBMIT_EVENTS_MAX);
    bench_check(daybook_append_queue_new(line->journal, &line->queue, &err), &err, "queue");
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        bench_event_init(&line->flights[i].own, BENCH_EVENT_BYTES, (uint64_t)i << 32);
    }
    bench_path(bench, "disk", path);
    struct bare_disk *disk = bare_disk_open(path);
    bare_disk_carry(disk, IN_FLIGHT * dbk_event_frame_bytes(&line->flights[0].own.event));
    struct bench_side sides[] = {{.run = run, .user = line}, {.run = bare_disk_run, .user = disk}};
    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]) / IN_FLIGHT;
    bench_figure(bench, "256 in flight, of the bare disk", bench_median(bench, &sides[0]),
                 "events/s", bench_median(bench, &sides[1]) * IN_FLIGHT, ratio);
    daybook_append_queue_free(line->queue);
    bench_journal_close(line->journal);
    bare_disk_close(disk);
    free(line);
    bench_mark(bench, "256 in flight, of the bare disk", ratio, BENCH_AT_LEAST, 0.6);
}
