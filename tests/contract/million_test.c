/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P7 with as many events as it speaks of: the log engine with its threads in a real directory, every event
 * delivered and past its window, and while one thread prunes them all another one appends and claims. How
 * long each of its rounds took is measured on the real clock, before and while.
 *
 * test-million [EVENTS]: 1,000,000 by default.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <daybook/log.h>

#include "base/thread.h"
#include "harness/directory.h"

#define EVENTS_DEFAULT 1000000u
#define BATCH 256u
#define KEYS 1000u
#define SECOND_US INT64_C(1000000)
#define START_US INT64_C(1700000000000000)
#define LATER_US (START_US + 1800 * SECOND_US) /* within the hour that a leap is believed (P3) */
#define STALL_MAX_US INT64_C(250000)
#define ROUNDS_BEFORE 200u

struct story {
    struct daybook_journal *journal;
    struct daybook_batch *batch;
    uint64_t events;
    uint64_t next; /* number of the next event */
    _Atomic bool pruning;
    uint64_t pruned;
    enum daybook_code code;
};

static _Noreturn void end(const char *what)
{
    (void)printf("not ok 1 - test_P7_a_million_to_prune_stall_nobody\n# %s\n", what);
    exit(1);
}

static int64_t clock_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static void append(struct story *s, size_t count, int64_t now_us)
{
    static char ids[BATCH][24];
    static char subjects[BATCH][16];
    struct daybook_event events[BATCH];
    struct daybook_append_result results[BATCH];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "e%" PRIu64, s->next);
        (void)snprintf(subjects[i], sizeof subjects[i], "k%" PRIu64, s->next++ % KEYS);
        events[i] = (struct daybook_event){.request_id = {ids[i], strlen(ids[i])},
                                           .name_space = {"space", 5},
                                           .subject = {subjects[i], strlen(subjects[i])},
                                           .observed_at_us = DAYBOOK_TIME_UNSET,
                                           .record = {"{\"n\":1}", 7}};
    }
    if (daybook_journal_append_batch(s->journal, events, count, now_us, DAYBOOK_NO_DEADLINE,
                                     results, NULL) != DAYBOOK_OK) {
        end("an append failed");
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i].code != DAYBOOK_OK) {
            end(daybook_code_name(results[i].code));
        }
    }
}

/* Returns how many were delivered. */
static size_t deliver(struct story *s, int64_t now_us)
{
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = BATCH, .key_run = BATCH, .lease_ms = 30000};
    struct daybook_hand_out set[BATCH];
    enum daybook_code codes[BATCH];

    if (daybook_journal_claim(s->journal, &claim, now_us, DAYBOOK_NO_DEADLINE, s->batch, NULL) !=
        DAYBOOK_OK) {
        end("a claim failed");
    }
    for (size_t i = 0; i < s->batch->count; i++) {
        set[i] = (struct daybook_hand_out){s->batch->deliveries[i].position,
                                           s->batch->deliveries[i].token};
    }
    if (s->batch->count > 0 &&
        daybook_journal_ack(s->journal, "billing", set, s->batch->count, now_us,
                            DAYBOOK_NO_DEADLINE, codes, NULL) != DAYBOOK_OK) {
        end("an acknowledgement failed");
    }
    return s->batch->count;
}

/* One round of a caller: an event goes in, is claimed and acknowledged. Returns how long it took. */
static int64_t round_us(struct story *s)
{
    int64_t begin_us = clock_us();

    append(s, 1, LATER_US);
    if (deliver(s, LATER_US) != 1) {
        end("a claim did not return the one event that is pending");
    }
    return clock_us() - begin_us;
}

static void *prune(void *arg)
{
    struct story *s = arg;

    s->code = daybook_journal_maintain(s->journal, LATER_US, DAYBOOK_NO_DEADLINE, &s->pruned, NULL);
    atomic_store(&s->pruning, false);
    return NULL;
}

static void open_story(struct story *s, const char *path)
{
    struct daybook_log_options options = {.path = path,
                                          .capacity = {.events_max = s->events + 100000,
                                                       .retain_acknowledged_us = 60 * SECOND_US,
                                                       .delivery_attempts_max = 8},
                                          .bytes_max = UINT64_C(4) << 30,
                                          .segment_bytes = 64u << 20,
                                          .threads = DAYBOOK_LOG_THREADED,
                                          .now_us = START_US};
    struct daybook_error err;

    if (daybook_log_open(&options, &s->journal, &err) != DAYBOOK_OK ||
        daybook_batch_new(BATCH, 1u << 20, 0, &s->batch, &err) != DAYBOOK_OK) {
        end(err.message);
    }
}

int main(int argc, char **argv)
{
    static char path[128];
    struct story s = {.events = argc > 1 ? strtoull(argv[1], NULL, 10) : EVENTS_DEFAULT};
    struct dbk_thread thread;
    int64_t before_us = 0;
    int64_t while_us = 0;
    int64_t begin_us;
    uint64_t rounds = 0;
    uint64_t delivered = 0;
    struct daybook_journal_stats stats;

    (void)printf("1..1\n");
    harness_directory_make(path, sizeof path);
    open_story(&s, path);
    while (s.next < s.events) {
        append(&s, s.events - s.next < BATCH ? (size_t)(s.events - s.next) : BATCH, START_US);
    }
    while (delivered < s.events) {
        delivered += deliver(&s, START_US);
    }
    /* Each append prunes 64 of its own (P3): these are not many. */
    for (unsigned i = 0; i < ROUNDS_BEFORE; i++) {
        int64_t us = round_us(&s);

        before_us = us > before_us ? us : before_us;
    }
    begin_us = clock_us();
    atomic_store(&s.pruning, true);
    if (dbk_thread_start(&thread, "prune", prune, &s) != 0) {
        end("no thread");
    }
    while (atomic_load(&s.pruning)) {
        int64_t us = round_us(&s);

        while_us = us > while_us ? us : while_us;
        rounds++;
    }
    dbk_thread_join(&thread);
    (void)printf("# %" PRIu64 " pruned by maintain in %" PRId64 " ms; beside it %" PRIu64
                 " rounds of append, claim and acknowledge, the longest %" PRId64
                 " us; without it the longest of %u was %" PRId64 " us\n",
                 s.pruned, (clock_us() - begin_us) / 1000, rounds, while_us, ROUNDS_BEFORE,
                 before_us);
    if (s.code != DAYBOOK_OK ||
        daybook_journal_stats(s.journal, LATER_US, &stats, NULL) != DAYBOOK_OK) {
        end("maintain or stats failed");
    }
    if (stats.pruned != s.events || stats.stored_events != ROUNDS_BEFORE + rounds) {
        end("what is left is not what is within its window");
    }
    if (while_us > STALL_MAX_US + before_us) {
        end("a round was held up for longer than 250 ms");
    }
    if (daybook_journal_close(s.journal, NULL) != DAYBOOK_OK) {
        end("it does not close");
    }
    daybook_batch_free(s.batch);
    harness_directory_remove(path);
    (void)printf("ok 1 - test_P7_a_million_to_prune_stall_nobody\n");
    return 0;
}
