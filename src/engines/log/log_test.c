/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine on the real disk with its own threads: races that a single thread cannot show, what
 * the hot path allocates, and a disk that fails. What the contract asks of every engine is in
 * tests/contract, crashes are in tests/sim.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <daybook/log.h>

#include "base/bytes.h"
#include "base/os.h"
#include "engines/log/log.h"
#include "engines/log/log_impl.h"
#include "engines/log/segment_index.h"

#define NOW_US INT64_C(1700000000000000)

/* ---- memory, counted --------------------------------------------------------------------------- */

static _Atomic uint64_t allocations;
static _Atomic int counting;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* What happens on its own time beside the appends (indexes, checkpoints) may allocate. */
static void count(void)
{
    char name[16] = "";
    if (atomic_load_explicit(&counting, memory_order_relaxed) != 0 &&
        (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 ||
         strcmp(name, "dbk-housekeep") != 0)) {
        atomic_fetch_add(&allocations, 1);
    }
}

void *__wrap_malloc(size_t n)
{
    count();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count();
    return __real_realloc(p, n);
}

/* ---- a journal in a directory of its own --------------------------------------------------------- */

struct fixture {
    char path[64];
    struct daybook_log_options options;
    struct dbk_os os; /* POSIX, but for what a test replaces */
    struct daybook_journal *journal;
    struct daybook_error err;
};

static struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    snprintf(f->path, sizeof(f->path), "/tmp/daybook-log-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->options.path = f->path;
    f->options.now_us = NOW_US;
    f->options.capacity.events.event_bytes_max = 8 * 1024;
    f->options.segment_bytes = 64 * 1024;
    f->options.bytes_max = UINT64_C(1) << 30;
    f->options.free_disk_min = 1;
    f->os = *dbk_os_posix();
    return f;
}

static void fixture_open(struct fixture *f)
{
    enum daybook_code code = dbk_log_open(&f->options, &f->os, &f->journal, &f->err);
    if (code != DAYBOOK_OK) {
        fail_msg("open: %s: %s", daybook_code_name(code), f->err.message);
    }
}

static void fixture_free(struct fixture *f)
{
    char command[128];
    (void)daybook_journal_close(f->journal, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", f->path);
    assert_int_equal(system(command), 0);
    free(f);
}

struct event_text {
    char id[32];
    char key[16];
    char record[2400];
};

static struct daybook_event make_event(struct event_text *text, unsigned number, unsigned key,
                                       size_t record_bytes)
{
    snprintf(text->id, sizeof(text->id), "event-%u", number);
    snprintf(text->key, sizeof(text->key), "key-%u", key);
    int n = snprintf(text->record, sizeof(text->record), "{\"n\":%u,\"pad\":\"", number);
    size_t at = (size_t)n;
    while (at < record_bytes) {
        text->record[at++] = 'x';
    }
    memcpy(text->record + at, "\"}", 2);
    return (struct daybook_event){.request_id = {text->id, strlen(text->id)},
                                  .name_space = {"test", 4},
                                  .subject = {text->key, strlen(text->key)},
                                  .observed_at_us = NOW_US,
                                  .record = {text->record, at + 2}};
}

static enum daybook_code append_bytes(struct fixture *f, unsigned number, unsigned key,
                                      unsigned bytes, struct daybook_append_result *result)
{
    struct event_text text;
    struct daybook_event event = make_event(&text, number, key, bytes);
    struct daybook_error err = {.code = DAYBOOK_OK};
    enum daybook_code code =
        daybook_journal_append(f->journal, &event, NOW_US, DAYBOOK_NO_DEADLINE, result, &err);
    if (code == DAYBOOK_BACKEND) {
        assert_int_equal(err.code, code);
        assert_true(err.message[0] != '\0');
    }
    return code;
}

static enum daybook_code append(struct fixture *f, unsigned number, unsigned key,
                                struct daybook_append_result *result)
{
    return append_bytes(f, number, key, 100, result);
}

/* ---- threads ------------------------------------------------------------------------------------- */

enum { APPENDERS = 8, IDS = 600, CLAIMANTS = 3, KEYS = 16 };

struct race {
    struct fixture *f;
    _Atomic uint64_t position_of[IDS]; /* as answered */
    _Atomic uint32_t accepted[IDS];
    _Atomic uint32_t acked[IDS];
    _Atomic uint64_t last_of_key[KEYS];
    _Atomic uint32_t acked_total;
    _Atomic uint32_t wrong;
};

/* Every id is appended by half of the threads, in another order by each. */
static void *append_race(void *arg)
{
    struct race *race = arg;
    static _Atomic unsigned next_seat;
    unsigned seat = atomic_fetch_add(&next_seat, 1);
    for (unsigned i = 0; i < IDS; i++) {
        unsigned number = (i * 7 + seat * 131) % IDS;
        struct daybook_append_result result;
        if (number % 2 != seat % 2) {
            continue;
        }
        enum daybook_code code = append(race->f, number, number % KEYS, &result);
        if (code != DAYBOOK_OK && code != DAYBOOK_ALREADY_PRESENT) {
            atomic_fetch_add(&race->wrong, 1);
            continue;
        }
        if (code == DAYBOOK_OK) {
            atomic_fetch_add(&race->accepted[number], 1);
        }
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&race->position_of[number], &none, result.position) &&
            none != result.position) {
            atomic_fetch_add(&race->wrong, 1);
        }
    }
    return NULL;
}

static unsigned number_of(const struct daybook_delivery *delivery)
{
    char id[32];
    memcpy(id, delivery->event.request_id.data, delivery->event.request_id.len);
    id[delivery->event.request_id.len] = '\0';
    return (unsigned)strtoul(id + 6, NULL, 10);
}

static void *claim_race(void *arg)
{
    struct race *race = arg;
    struct daybook_batch *batch;
    struct daybook_error err;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 32, .key_run = 4, .lease_ms = 60000};
    if (daybook_batch_new(32, 64 * 1024, 8 * 1024, &batch, &err) != DAYBOOK_OK) {
        atomic_fetch_add(&race->wrong, 1);
        return NULL;
    }
    int64_t until = daybook_journal_monotonic_us(race->f->journal) + 60000000;
    while (atomic_load(&race->acked_total) < IDS && atomic_load(&race->wrong) == 0) {
        struct daybook_consumer_stats stats;
        if (daybook_journal_monotonic_us(race->f->journal) > until &&
            daybook_journal_consumer_stats(race->f->journal, "billing", NOW_US, &stats, &err) ==
                DAYBOOK_OK) {
            printf("# stuck: %llu pending, %llu in flight\n", (unsigned long long)stats.pending,
                   (unsigned long long)stats.in_flight);
            atomic_fetch_add(&race->wrong, 1);
        }
        struct daybook_hand_out set[32];
        enum daybook_code codes[32];
        uint32_t seen = daybook_journal_changes(race->f->journal);
        if (daybook_journal_claim(race->f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch,
                                  &err) != DAYBOOK_OK) {
            atomic_fetch_add(&race->wrong, 1);
            break;
        }
        for (size_t i = 0; i < batch->count; i++) {
            const struct daybook_delivery *delivery = &batch->deliveries[i];
            unsigned number = number_of(delivery);
            unsigned key = number % KEYS;
            set[i] = (struct daybook_hand_out){delivery->position, delivery->token};
            /* C4, C8: in order within the key, and nobody else holds the key now. */
            if (atomic_exchange(&race->last_of_key[key], delivery->position) >=
                    delivery->position ||
                delivery->attempt != 1) {
                atomic_fetch_add(&race->wrong, 1);
            }
            atomic_fetch_add(&race->acked[number], 1);
        }
        if (batch->count > 0) {
            if (daybook_journal_ack(race->f->journal, "billing", set, batch->count, NOW_US,
                                    DAYBOOK_NO_DEADLINE, codes, &err) != DAYBOOK_OK) {
                atomic_fetch_add(&race->wrong, 1);
            }
            atomic_fetch_add(&race->acked_total, (uint32_t)batch->count);
            daybook_journal_wake(race->f->journal);
        } else {
            daybook_journal_wait(race->f->journal, seen,
                                 daybook_journal_monotonic_us(race->f->journal) + 20000);
        }
    }
    daybook_batch_free(batch);
    return NULL;
}

static void test_C8_C11_racing_appends_and_claims(void **state)
{
    struct race *race = calloc(1, sizeof(*race));
    pthread_t threads[APPENDERS + CLAIMANTS];
    struct daybook_journal_stats stats;
    (void)state;
    race->f = fixture_new();
    fixture_open(race->f);
    for (unsigned i = 0; i < APPENDERS + CLAIMANTS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < APPENDERS ? append_race : claim_race, race), 0);
    }
    for (unsigned i = 0; i < APPENDERS + CLAIMANTS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&race->wrong), 0);
    for (unsigned i = 0; i < IDS; i++) {
        assert_int_equal(atomic_load(&race->accepted[i]), 1); /* A2: one of them */
        assert_int_equal(atomic_load(&race->acked[i]), 1);
    }
    assert_int_equal(daybook_journal_stats(race->f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.accepted, IDS);
    assert_int_equal(stats.stored_events, IDS);
    fixture_free(race->f);
    free(race);
}

static void *append_range(void *arg)
{
    struct race *race = arg;
    static _Atomic unsigned next_seat;
    unsigned seat = atomic_fetch_add(&next_seat, 1);
    for (unsigned i = 0; i < 40; i++) {
        struct daybook_append_result result;
        enum daybook_code code = append(race->f, seat * 40 + i, 0, &result);
        if (code == DAYBOOK_OK) {
            atomic_fetch_add(&race->acked_total, 1);
        } else if (code != DAYBOOK_AT_CAPACITY) {
            atomic_fetch_add(&race->wrong, 1);
        }
    }
    return NULL;
}

static void test_P7_racing_for_the_last_places(void **state)
{
    struct race *race = calloc(1, sizeof(*race));
    pthread_t threads[APPENDERS];
    struct daybook_journal_stats stats;
    (void)state;
    race->f = fixture_new();
    race->f->options.capacity.events_max = 100;
    fixture_open(race->f);
    for (unsigned i = 0; i < APPENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, append_range, race), 0);
    }
    for (unsigned i = 0; i < APPENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&race->wrong), 0);
    assert_int_equal(atomic_load(&race->acked_total), 100);
    assert_int_equal(daybook_journal_stats(race->f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.stored_events, 100);
    fixture_free(race->f);
    free(race);
}

/* ---- the append that nobody waits for ------------------------------------------------------------- */

static void drain_one(struct fixture *f, struct daybook_append_queue *queue)
{
    struct daybook_submission *done[4];
    while (daybook_append_queue_drain(queue, NOW_US, done, 1) == 0) {
        /* Polls the state of another thread; the commit is short. */
        daybook_journal_wait(f->journal, daybook_journal_changes(f->journal),
                             daybook_journal_monotonic_us(f->journal) + 1000);
    }
}

static void test_A6_submission_answers_each_in_order(void **state)
{
    enum { N = 400 };
    struct fixture *f = fixture_new();
    struct event_text *texts = calloc(N, sizeof(*texts));
    struct daybook_event *events = calloc(N, sizeof(*events));
    struct daybook_append_result *results = calloc(N, sizeof(*results));
    struct daybook_append_queue *queue;
    struct daybook_submission submission = {.events = events, .results = results, .count = N};
    (void)state;
    fixture_open(f);
    assert_int_equal(daybook_append_queue_new(f->journal, &queue, NULL), DAYBOOK_OK);
    for (unsigned i = 0; i < N; i++) {
        events[i] = make_event(&texts[i], i, i % 3, 500);
    }
    events[7].request_id = events[3].request_id; /* E6: another content under the same id */
    events[9] = events[4];                       /* the same fact twice */
    events[11].record = (struct daybook_bytes){"{", 1};
    daybook_journal_submit(f->journal, queue, &submission, NOW_US);
    drain_one(f, queue);
    uint64_t last = 0;
    for (unsigned i = 0; i < N; i++) {
        enum daybook_code expected = i == 7    ? DAYBOOK_CONFLICT
                                     : i == 9  ? DAYBOOK_ALREADY_PRESENT
                                     : i == 11 ? DAYBOOK_MALFORMED_JSON
                                               : DAYBOOK_OK;
        assert_int_equal(results[i].code, expected);
        if (expected == DAYBOOK_OK) {
            assert_true(results[i].position > last);
            last = results[i].position;
        }
    }
    assert_int_equal(results[9].position, results[4].position);
    /* The whole again: nothing is stored twice. */
    memset(results, 0, N * sizeof(*results));
    memset(submission.private_, 0, sizeof(submission.private_));
    daybook_journal_submit(f->journal, queue, &submission, NOW_US);
    drain_one(f, queue);
    for (unsigned i = 0; i < N; i++) {
        assert_int_not_equal(results[i].code, DAYBOOK_OK);
    }
    daybook_append_queue_free(queue);
    fixture_free(f);
    free(texts);
    free(events);
    free(results);
}

/* ---- the hot path --------------------------------------------------------------------------------- */

static void test_the_append_path_allocates_nothing(void **state)
{
    enum { N = 100000, BATCH = 250 };
    struct fixture *f = fixture_new();
    struct event_text *texts = calloc(BATCH, sizeof(*texts));
    struct daybook_event events[BATCH];
    struct daybook_append_result results[BATCH];
    (void)state;
    f->options.segment_bytes = 64 * 1024 * 1024;
    f->options.bytes_max = 0;
    fixture_open(f);
    uint64_t before = atomic_load(&allocations);
    for (unsigned n = 0; n < N; n += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            events[i] = make_event(&texts[i], n + i, i % 50, 500);
        }
        atomic_store(&counting, 1);
        enum daybook_code code = daybook_journal_append_batch(
            f->journal, events, BATCH, NOW_US, DAYBOOK_NO_DEADLINE, results, &f->err);
        atomic_store(&counting, 0);
        assert_int_equal(code, DAYBOOK_OK);
        assert_int_equal(results[BATCH - 1].code, DAYBOOK_OK);
    }
    printf("# %u appends, %llu allocations while they ran (allowed 0)\n", (unsigned)N,
           (unsigned long long)(atomic_load(&allocations) - before));
    assert_int_equal(atomic_load(&allocations) - before, 0);
    fixture_free(f);
    free(texts);
}

/* ---- a disk that fails ---------------------------------------------------------------------------- */

static _Atomic int sync_fails;

static int failing_fdatasync(const struct dbk_os *os, int file)
{
    if (atomic_load(&sync_fails) != 0) {
        return -EIO;
    }
    return dbk_os_posix()->fdatasync(os, file);
}

static void test_A7_a_failed_sync_ends_the_handle_and_reading_goes_on(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_journal_stats stats;
    struct daybook_batch *batch;
    uint64_t last;
    (void)state;
    f->os.fdatasync = failing_fdatasync;
    fixture_open(f);
    assert_int_equal(append(f, 1, 1, &result), DAYBOOK_OK);
    atomic_store(&sync_fails, 1);
    assert_int_equal(append(f, 2, 1, &result), DAYBOOK_BACKEND);
    atomic_store(&sync_fails, 0);
    /* The disk works again, but nothing that this handle says could be believed. */
    assert_int_equal(append(f, 3, 1, &result), DAYBOOK_BACKEND);
    assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.state, DAYBOOK_JOURNAL_FAILED);
    assert_int_equal(stats.failure.os_errno, EIO);
    assert_int_equal(daybook_batch_new(8, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_read(f->journal, 0, DAYBOOK_WHERE_ALL, batch, &last, NULL, NULL),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 1);
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_BACKEND);
    fixture_open(f);
    enum daybook_code code = append(f, 2, 1, &result);
    assert_true(code == DAYBOOK_OK || code == DAYBOOK_ALREADY_PRESENT);
    assert_int_equal(append(f, 1, 1, &result), DAYBOOK_ALREADY_PRESENT);
    daybook_batch_free(batch);
    fixture_free(f);
}

static _Atomic uint64_t disk_left;

static int limited_statfs(const struct dbk_os *os, const char *path, struct dbk_statfs *ret)
{
    (void)os;
    (void)path;
    ret->free_bytes = atomic_load(&disk_left);
    return 0;
}

static void test_A4_a_full_disk_refuses_appends_while_delivery_goes_on(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result = {.code = DAYBOOK_OK};
    struct daybook_batch *batch;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.free_disk_min = 1;
    f->os.statfs = limited_statfs;
    atomic_store(&disk_left, UINT64_C(1) << 30);
    fixture_open(f);
    atomic_store(&disk_left, 0);
    while (append(f, n, n % 5, &result) == DAYBOOK_OK) {
        n++;
        assert_true(n < 10000);
    }
    assert_int_equal(result.code, DAYBOOK_AT_CAPACITY);
    assert_int_equal(result.limit, DAYBOOK_LIMIT_DISK);
    assert_int_equal(result.retained, n);
    assert_true(n > 5);
    struct daybook_append_result repeat;
    assert_int_equal(append(f, 0, 0, &repeat), DAYBOOK_ALREADY_PRESENT); /* A3: decided first */
    assert_int_equal(daybook_batch_new(4, 64 * 1024, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 4, .key_run = 1, .lease_ms = 1000};
    struct daybook_hand_out set[4];
    enum daybook_code codes[4];
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 4);
    for (unsigned i = 0; i < 4; i++) {
        set[i] =
            (struct daybook_hand_out){batch->deliveries[i].position, batch->deliveries[i].token};
    }
    assert_int_equal(daybook_journal_ack(f->journal, "billing", set, 4, NOW_US, DAYBOOK_NO_DEADLINE,
                                         codes, &f->err),
                     DAYBOOK_OK);
    /* It ends without a restart. */
    atomic_store(&disk_left, UINT64_C(1) << 30);
    dbk_log_housekeep(f->journal);
    int64_t until = daybook_journal_monotonic_us(f->journal) + 20000000;
    while (append(f, n, n % 5, &result) != DAYBOOK_OK) {
        assert_int_equal(result.code, DAYBOOK_AT_CAPACITY);
        assert_true(daybook_journal_monotonic_us(f->journal) < until);
        dbk_log_housekeep(f->journal);
    }
    daybook_batch_free(batch);
    fixture_free(f);
}

static size_t operations(struct fixture *f, struct daybook_operation *ret)
{
    size_t count = 0;
    assert_int_equal(daybook_journal_operations(f->journal, 0, ret, 1, &count, &f->err),
                     DAYBOOK_OK);
    return count;
}

static void test_O1_the_trail_outlives_its_segment(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_claim claim = {.consumer = "billing", .events_max = 0, .lease_ms = 1000};
    struct daybook_operator by = {.who = {"ann", 3}, .why = {"again", 5}};
    struct daybook_operation *operation = calloc(1, sizeof(*operation));
    struct daybook_batch *batch;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    assert_int_equal(daybook_batch_new(4, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    fixture_open(f);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_rewind(f->journal, "billing", &by, NOW_US, DAYBOOK_NO_DEADLINE, &f->err),
        DAYBOOK_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct daybook_journal_stats stats;
        assert_int_equal(operations(f, operation), 1);
        assert_string_equal(operation->who, "ann");
        assert_string_equal(operation->why, "again");
        assert_string_equal(operation->consumer, "billing");
        assert_int_equal(operation->kind, DAYBOOK_OPERATION_REWIND);
        dbk_log_abandon(f->journal);
        fixture_open(f);
        while (dbk_log_housekeep(f->journal)) {
            /* Until it has trimmed what it can. */
        }
        assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
        assert_int_equal(stats.segment_files, 2);
    }
    daybook_batch_free(batch);
    free(operation);
    fixture_free(f);
}

/* Changes a byte of a file's last `text`, under everybody. */
static void spoil(const char *path, const char *text)
{
    size_t len = strlen(text);
    char *bytes = malloc(64 * 1024);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    ssize_t n = pread(file, bytes, 64 * 1024, 0);
    assert_true(n > (ssize_t)len);
    size_t at = (size_t)n - len;
    while (memcmp(bytes + at, text, len) != 0) {
        assert_true(at-- > 0);
    }
    assert_int_equal(pwrite(file, "#", 1, (off_t)at), 1);
    close(file);
    free(bytes);
}

static void test_O1_a_record_that_rotted_holds_up_nothing(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_claim claim = {.consumer = "billing", .events_max = 0, .lease_ms = 1000};
    struct daybook_operator by = {.who = {"ann", 3}, .why = {"a-reason", 8}};
    struct daybook_operation *operation = calloc(1, sizeof(*operation));
    struct daybook_batch *batch;
    struct daybook_journal_stats stats;
    char path[128];
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    assert_int_equal(daybook_batch_new(4, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    fixture_open(f);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_rewind(f->journal, "billing", &by, NOW_US, DAYBOOK_NO_DEADLINE, &f->err),
        DAYBOOK_OK);
    dbk_log_abandon(f->journal);
    fixture_open(f);
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    spoil(path, "a-reason");
    while (dbk_log_housekeep(f->journal)) {
        /* Until it has trimmed what it can. */
    }
    assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.segment_files, 2);
    assert_int_equal(operations(f, operation), 0);
    daybook_batch_free(batch);
    free(operation);
    fixture_free(f);
}

/* ---- a limit lowered by far -------------------------------------------------------------------------- */

static void test_P4_P5_a_limit_lowered_by_far_and_nobody_waits(void **state)
{
    enum { N = 150, LEFT = 5 };
    (void)state;
    for (int policy = DAYBOOK_POLICY_REFUSE; policy <= DAYBOOK_POLICY_DROP_OLDEST; policy++) {
        struct fixture *f = fixture_new();
        struct daybook_append_result results[2] = {{.code = DAYBOOK_OK}};
        struct daybook_append_queue *queue;
        struct daybook_journal_stats stats;
        struct event_text texts[2];
        struct daybook_event events[2];
        struct daybook_batch *batch;
        struct daybook_claim claim = {
            .consumer = "billing", .events_max = N, .key_run = 1, .lease_ms = 1000000};
        struct daybook_hand_out set[N];
        enum daybook_code codes[N];
        unsigned handed = 0;
        f->options.capacity.policy = (enum daybook_capacity_policy)policy;
        fixture_open(f);
        assert_int_equal(daybook_batch_new(N, 64 * 1024, 8 * 1024, &batch, NULL), DAYBOOK_OK);
        for (unsigned i = 0; i < N; i++) {
            assert_int_equal(append(f, i, i, results), DAYBOOK_OK);
        }
        while (handed < N) {
            assert_int_equal(daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE,
                                                   batch, &f->err),
                             DAYBOOK_OK);
            for (size_t i = 0; i < batch->count; i++) {
                set[handed++] = (struct daybook_hand_out){batch->deliveries[i].position,
                                                          batch->deliveries[i].token};
            }
        }
        if (policy == DAYBOOK_POLICY_REFUSE) { /* delivered; else all are leased, and dropped so */
            assert_int_equal(daybook_journal_ack(f->journal, "billing", set, N, NOW_US,
                                                 DAYBOOK_NO_DEADLINE, codes, &f->err),
                             DAYBOOK_OK);
        }
        assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
        f->options.capacity.events_max = LEFT;
        fixture_open(f);
        assert_int_equal(daybook_append_queue_new(f->journal, &queue, NULL), DAYBOOK_OK);
        for (unsigned i = 0; i < 2; i++) {
            events[i] = make_event(&texts[i], N + i, 0, 100);
        }
        struct daybook_submission submission = {.events = events, .results = results, .count = 2};
        memset(results, 0, sizeof(results));
        daybook_journal_submit(f->journal, queue, &submission, NOW_US);
        drain_one(f, queue);
        assert_int_equal(results[0].code, DAYBOOK_OK);
        assert_int_equal(results[1].code, DAYBOOK_OK);
        assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
        assert_int_equal(stats.stored_events, LEFT);
        assert_int_equal(policy == DAYBOOK_POLICY_REFUSE ? stats.reclaimed : stats.dropped,
                         N + 2 - LEFT);
        daybook_append_queue_free(queue);
        daybook_batch_free(batch);
        fixture_free(f);
    }
}

/* ---- frames that have to fit ------------------------------------------------------------------------- */

static void test_C7_a_claim_fits_its_batch_behind_a_malformed_event(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_batch *batch;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 4, .key_run = 4, .lease_ms = 1000};
    char path[128];
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    assert_int_equal(daybook_batch_new(4, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(append(f, i, i < 4 ? 0 : i, &result), DAYBOOK_OK);
    }
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    spoil(path, "\"n\":0,");
    /* Three of its key were read behind it and are given back; four others take their places. */
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(batch->deliveries[i].position, 5 + i);
        assert_int_equal(number_of(&batch->deliveries[i]), 4 + i);
    }
    daybook_batch_free(batch);
    fixture_free(f);
}

static void test_C6_a_full_claim_that_condemns_as_many(void **state)
{
    enum { EXHAUSTED = 40, FRESH = 100 };
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_consumer_stats stats;
    struct daybook_batch *batch;
    struct daybook_claim claim = {.consumer = "billing",
                                  .events_max = 200,
                                  .key_run = 1,
                                  .lease_ms = 1000,
                                  .hand_outs_max = 1};
    int64_t now = NOW_US;
    unsigned handed = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    assert_int_equal(daybook_batch_new(200, 64 * 1024, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    for (unsigned i = 0; i < EXHAUSTED + FRESH; i++) {
        assert_int_equal(append(f, i, i, &result), DAYBOOK_OK);
        if (i + 1 == EXHAUSTED) {
            assert_int_equal(
                daybook_journal_claim(f->journal, &claim, now, DAYBOOK_NO_DEADLINE, batch, &f->err),
                DAYBOOK_OK);
            assert_int_equal(batch->count, EXHAUSTED);
        }
    }
    now += 2000000;
    do {
        int64_t deadline = daybook_journal_monotonic_us(f->journal) + 5000000;
        assert_int_equal(daybook_journal_claim(f->journal, &claim, now, deadline, batch, &f->err),
                         DAYBOOK_OK);
        handed += (unsigned)batch->count;
    } while (batch->more);
    assert_int_equal(handed, FRESH);
    assert_int_equal(daybook_journal_consumer_stats(f->journal, "billing", now, &stats, NULL),
                     DAYBOOK_OK);
    assert_int_equal(stats.quarantined, EXHAUSTED);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* ---- neighbours that are read at once ---------------------------------------------------------------- */

enum { NEIGHBOURS = 100, BAD_SECTOR_BYTES = 64 };

static _Atomic uint64_t reads;
static _Atomic uint64_t bad_sector; /* an offset in segment 1; 0: none */

static int64_t counted_pread(const struct dbk_os *os, int file, void *buf, size_t len,
                             uint64_t offset)
{
    uint64_t bad = atomic_load(&bad_sector);
    atomic_fetch_add(&reads, 1);
    if (bad != 0 && offset < bad + BAD_SECTOR_BYTES && bad < offset + len) {
        return -EIO;
    }
    return dbk_os_posix()->pread(os, file, buf, len, offset);
}

/* Where some text stands in segment 1. */
static uint64_t offset_of(const struct fixture *f, const char *text)
{
    static char bytes[1024 * 1024];
    char path[128];
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    assert_int_equal(fclose(file), 0);
    const char *at = memmem(bytes, len, text, strlen(text));
    assert_non_null(at);
    return (uint64_t)(at - bytes);
}

/* Events of NEIGHBOURS keys, in one group, so that they stand side by side. */
static void append_neighbours(struct fixture *f)
{
    static struct event_text texts[NEIGHBOURS];
    struct daybook_event events[NEIGHBOURS];
    struct daybook_append_result results[NEIGHBOURS];
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        events[i] = make_event(&texts[i], i, i, 300);
    }
    assert_int_equal(daybook_journal_append_batch(f->journal, events, NEIGHBOURS, NOW_US,
                                                  DAYBOOK_NO_DEADLINE, results, &f->err),
                     DAYBOOK_OK);
}

/* Claims everything and checks that it is whole and in order, `missing` left out. */
static void claim_neighbours(struct fixture *f, struct daybook_batch *batch, int64_t now_us,
                             unsigned from, unsigned to, unsigned missing)
{
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = NEIGHBOURS, .key_run = 1, .lease_ms = 600000};
    size_t at = 0;
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, now_us, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    for (unsigned i = from; i < to; i++) {
        struct event_text text;
        struct daybook_event event = make_event(&text, i, i, 300);
        if (i == missing) {
            continue;
        }
        const struct daybook_event *got = &batch->deliveries[at].event;
        assert_true(at < batch->count);
        assert_int_equal(batch->deliveries[at++].position, i + 1);
        assert_int_equal(got->record.len, event.record.len);
        assert_memory_equal(got->record.data, event.record.data, event.record.len);
        assert_int_equal(got->request_id.len, event.request_id.len);
        assert_memory_equal(got->request_id.data, event.request_id.data, event.request_id.len);
        assert_int_equal(got->subject.len, event.subject.len);
        assert_memory_equal(got->subject.data, event.subject.data, event.subject.len);
    }
    assert_int_equal(batch->count, at);
}

static struct fixture *neighbours_new(struct daybook_batch **ret_batch)
{
    struct fixture *f = fixture_new();
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.segment_bytes = 1024 * 1024;
    f->os.pread = counted_pread;
    fixture_open(f);
    append_neighbours(f);
    assert_int_equal(daybook_batch_new(NEIGHBOURS, 64 * 1024, 8 * 1024, ret_batch, NULL),
                     DAYBOOK_OK);
    return f;
}

static void test_C13_a_claim_reads_neighbours_at_once(void **state)
{
    struct daybook_batch *batch;
    struct fixture *f = neighbours_new(&batch);
    (void)state;
    uint64_t before = atomic_load(&reads);
    claim_neighbours(f, batch, NOW_US, 0, NEIGHBOURS, NEIGHBOURS);
    assert_int_equal(atomic_load(&reads) - before, 1);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* Where the batch has no room for what stands between the events too, the last ones are read by themselves. */
static void test_C2_a_claim_fills_its_batch_to_the_last_byte(void **state)
{
    enum { FILLING = 40, NAMES_BYTES = 3 * DAYBOOK_NAME_BYTES_MAX, SMALL = 1 };
    struct daybook_batch *batch;
    struct fixture *f = neighbours_new(&batch);
    size_t payload = 0;
    (void)state;
    daybook_batch_free(batch);
    for (unsigned i = 0; i < FILLING; i++) {
        struct event_text text;
        struct daybook_event event = make_event(&text, i, i, 300);
        payload += event.request_id.len + event.name_space.len + event.subject.len;
        payload += event.record.len;
    }
    /* A batch has room for one event more, with the longest names, than is asked for. */
    assert_int_equal(daybook_batch_new(FILLING, payload - NAMES_BYTES - SMALL, SMALL, &batch, NULL),
                     DAYBOOK_OK);
    assert_int_equal(batch->bytes_max, payload);
    uint64_t before = atomic_load(&reads);
    claim_neighbours(f, batch, NOW_US, 0, FILLING, NEIGHBOURS);
    assert_in_range(atomic_load(&reads) - before, 2, 3);
    daybook_batch_free(batch);
    fixture_free(f);
}

static void test_C7_a_sector_that_cannot_be_read_holds_up_its_own_key_alone(void **state)
{
    enum { UNREADABLE = 50 };
    struct daybook_batch *batch;
    struct fixture *f = neighbours_new(&batch);
    (void)state;
    struct daybook_journal_stats stats;
    assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.read_errors, 0);
    assert_true(stats.read_error_at_us == DAYBOOK_TIME_UNSET);
    atomic_store(&bad_sector, offset_of(f, "{\"n\":50,"));
    claim_neighbours(f, batch, NOW_US, 0, NEIGHBOURS, UNREADABLE);
    assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(stats.read_errors, 1);
    assert_true(stats.read_error_at_us == NOW_US);
    atomic_store(&bad_sector, 0);
    claim_neighbours(f, batch, NOW_US + 2000000, UNREADABLE, UNREADABLE + 1, NEIGHBOURS);
    daybook_batch_free(batch);
    fixture_free(f);
}

static void test_C7_an_event_that_rotted_condemns_none_of_its_neighbours(void **state)
{
    enum { ROTTEN = 50 };
    struct daybook_consumer_stats stats;
    struct daybook_batch *batch;
    struct fixture *f = neighbours_new(&batch);
    char path[128];
    (void)state;
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    spoil(path, "\"n\":50,");
    claim_neighbours(f, batch, NOW_US, 0, NEIGHBOURS, ROTTEN);
    assert_int_equal(daybook_journal_consumer_stats(f->journal, "billing", NOW_US, &stats, NULL),
                     DAYBOOK_OK);
    assert_int_equal(stats.quarantined, 1);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* A block of the log that came to stand at another one's place holds a whole entry, each of its checksums right. */
static void test_C7_an_entry_of_another_event_is_damage(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_batch *batch;
    struct daybook_consumer_stats stats;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 9, .key_run = 1, .lease_ms = 600000};
    uint8_t block[DBK_BLOCK_BYTES];
    char path[128];
    uint64_t last = 0;
    uint64_t damaged = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    for (unsigned i = 11; i <= 13; i++) {
        assert_int_equal(append(f, i, i, &result), DAYBOOK_OK);
    }
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    off_t from = (off_t)(offset_of(f, "event-11") / DBK_BLOCK_BYTES * DBK_BLOCK_BYTES);
    off_t to = (off_t)(offset_of(f, "event-12") / DBK_BLOCK_BYTES * DBK_BLOCK_BYTES);
    assert_int_equal(pread(file, block, sizeof(block), from), sizeof(block));
    assert_int_equal(pwrite(file, block, sizeof(block), to), sizeof(block));
    close(file);

    assert_int_equal(daybook_batch_new(9, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_read(f->journal, 0, DAYBOOK_WHERE_ALL, batch, &last, &damaged, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 2);
    assert_int_equal(damaged, 1);
    /* A2: it is stored, and nobody can say what it was. */
    assert_int_equal(append(f, 12, 12, &result), DAYBOOK_BACKEND);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 2);
    assert_int_equal(number_of(&batch->deliveries[0]), 11);
    assert_int_equal(number_of(&batch->deliveries[1]), 13);
    assert_int_equal(daybook_journal_consumer_stats(f->journal, "billing", NOW_US, &stats, NULL),
                     DAYBOOK_OK);
    assert_int_equal(stats.quarantined, 1);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* Where the frame of a neighbour stands; *ret_bytes: how long it is. */
static uint64_t frame_of(const struct fixture *f, unsigned number, size_t *ret_bytes)
{
    struct event_text text;
    char record[32];
    struct daybook_event event = make_event(&text, number, number, 300);
    snprintf(record, sizeof(record), "{\"n\":%u,", number);
    *ret_bytes = dbk_event_frame_bytes(&event);
    size_t names = event.request_id.len + event.name_space.len + event.subject.len;
    return offset_of(f, record) - dbk_round_up(DBK_ENTRY_FIXED_BYTES + names, 8) -
           DBK_FRAME_HEADER_BYTES;
}

static void count_missing(void *user, const struct daybook_log_missing *missing)
{
    *(uint64_t *)user += missing->end - missing->first;
}

/* Whole frames that turned to zeros, in the midst of a group and at its end: its header says that something stood
 * there. */
static void test_S5_a_repair_counts_events_that_turned_to_zeros(void **state)
{
    enum { ZEROED = 5 };
    static const uint8_t zeros[8192];
    (void)state;
    for (unsigned first = 50; first < NEIGHBOURS; first += NEIGHBOURS - ZEROED - 50) {
        struct daybook_batch *batch;
        struct fixture *f = neighbours_new(&batch);
        struct daybook_log_repair_report report;
        uint64_t missing = 0;
        struct daybook_log_repair_hooks hooks = {.missing = count_missing, .user = &missing};
        size_t bytes;
        char path[192];
        char repaired[160];
        struct daybook_append_result result;
        assert_int_equal(append(f, NEIGHBOURS, NEIGHBOURS, &result), DAYBOOK_OK); /* the proof */
        uint64_t from = frame_of(f, first, &bytes);
        uint64_t to = frame_of(f, first + ZEROED - 1, &bytes) + bytes;
        to += first + ZEROED == NEIGHBOURS ? DBK_END_MARK_BYTES : 0;
        dbk_log_abandon(f->journal);
        snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
        snprintf(repaired, sizeof(repaired), "%s.repaired", f->path);
        int file = open(path, O_RDWR);
        assert_true(file >= 0);
        assert_true(to - from <= sizeof(zeros));
        assert_int_equal(pwrite(file, zeros, to - from, (off_t)from), to - from);
        close(file);
        assert_int_equal(dbk_log_repair(f->path, repaired, &f->os, &hooks, &report, &f->err),
                         DAYBOOK_OK);
        assert_int_equal(report.events, NEIGHBOURS + 1 - ZEROED);
        assert_true(report.events_lost >= ZEROED);
        assert_true(missing >= ZEROED);
        snprintf(path, sizeof(path), "rm -rf %s", repaired);
        assert_int_equal(system(path), 0);
        snprintf(path, sizeof(path), "rm -rf %s", f->path);
        assert_int_equal(system(path), 0);
        daybook_batch_free(batch);
        free(f);
    }
}

/* ---- the last block of a full disk ------------------------------------------------------------------ */

static struct dbk_log *marked_log; /* NULL, or whose mark is under way */
static _Atomic int64_t clock_ahead_us;
static _Atomic int settle_now;

static int64_t watched_monotonic_us(const struct dbk_os *os)
{
    if (marked_log != NULL && atomic_load(&settle_now) == 0) {
        dbk_mutex_lock(&marked_log->stage_lock);
        bool fires = marked_log->busy && atomic_load(&settle_now) == 0;
        dbk_mutex_unlock(&marked_log->stage_lock);
        if (fires) {
            /* The other thread's verdict is staged before the mark takes its room. */
            bool staged = false;
            atomic_store(&settle_now, 1);
            while (!staged) {
                dbk_mutex_lock(&marked_log->stage_lock);
                staged = marked_log->open_stage->delivery_len > 0;
                dbk_mutex_unlock(&marked_log->stage_lock);
            }
        }
    }
    return dbk_os_posix()->monotonic_us(os) + atomic_load(&clock_ahead_us);
}

struct verdict {
    struct fixture *f;
    struct daybook_hand_out hand_out;
    enum daybook_code code;
};

static void *settle_when_told(void *arg)
{
    struct verdict *verdict = arg;
    enum daybook_code one = DAYBOOK_BACKEND;
    while (atomic_load(&settle_now) == 0) {
        /* Until the other thread owns the tail. */
    }
    verdict->code = daybook_journal_ack(verdict->f->journal, "billing", &verdict->hand_out, 1,
                                        NOW_US, DAYBOOK_NO_DEADLINE, &one, NULL);
    verdict->code = verdict->code == DAYBOOK_OK ? one : verdict->code;
    return NULL;
}

static void test_A4_a_mark_takes_no_room_that_a_verdict_counts_on(void **state)
{
    struct fixture *f = fixture_new();
    struct verdict verdict = {.f = f, .code = DAYBOOK_BACKEND};
    struct daybook_append_result result;
    struct daybook_batch *batch;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 1, .key_run = 1, .lease_ms = 1000000};
    pthread_t thread;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->os.statfs = limited_statfs;
    f->os.monotonic_us = watched_monotonic_us;
    atomic_store(&disk_left, UINT64_C(1) << 30);
    fixture_open(f);
    atomic_store(&disk_left, 0);
    struct dbk_log *log = dbk_log_of(f->journal);
    while (append(f, n, n, &result) == DAYBOOK_OK) {
        n++;
    }
    assert_int_equal(daybook_batch_new(1, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    while (log->tail_room > 5 * DBK_BLOCK_BYTES) { /* three are housekeeping's, one a NOTE's */
        assert_int_equal(
            daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
            DAYBOOK_OK);
        assert_int_equal(batch->count, 1);
        verdict.hand_out =
            (struct daybook_hand_out){batch->deliveries[0].position, batch->deliveries[0].token};
    }
    for (unsigned i = 0; i < 2; i++) { /* syncs; then it is time for a NOTE */
        atomic_fetch_add(&clock_ahead_us, 200000);
        if (i == 1) {
            marked_log = log;
            assert_int_equal(pthread_create(&thread, NULL, settle_when_told, &verdict), 0);
        }
        dbk_log_housekeep(f->journal);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    marked_log = NULL;
    assert_int_equal(verdict.code, DAYBOOK_OK);
    daybook_batch_free(batch);
    fixture_free(f);
}

static void test_A4_a_journal_full_to_its_last_block_can_be_emptied(void **state)
{
    enum { FRONT = 40 };
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_batch *batch;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = FRONT, .key_run = 1, .lease_ms = 1000000};
    struct daybook_hand_out set[FRONT];
    enum daybook_code codes[FRONT];
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.bytes_max = 8 * 64 * 1024;
    f->os.monotonic_us = watched_monotonic_us;
    fixture_open(f);
    while (append(f, n, n, &result) == DAYBOOK_OK) {
        n++;
    }
    assert_int_equal(result.code, DAYBOOK_AT_CAPACITY);
    assert_int_equal(result.limit, DAYBOOK_LIMIT_BYTES);
    assert_int_equal(daybook_batch_new(FRONT, 64 * 1024, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, FRONT);
    for (unsigned i = 0; i < FRONT; i++) {
        set[i] =
            (struct daybook_hand_out){batch->deliveries[i].position, batch->deliveries[i].token};
    }
    assert_int_equal(daybook_journal_ack(f->journal, "billing", set, FRONT, NOW_US,
                                         DAYBOOK_NO_DEADLINE, codes, &f->err),
                     DAYBOOK_OK);
    claim.events_max = 1;
    while (daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err) ==
           DAYBOOK_OK) {
        assert_int_equal(batch->count, 1); /* until the reserve for deliveries is used up */
    }
    for (unsigned i = 0; i < 10; i++) {
        atomic_fetch_add(&clock_ahead_us, 1100000);
        while (dbk_log_housekeep(f->journal)) {
            /* It gives up the delivered front and removes its segments. */
        }
    }
    assert_int_equal(append(f, n, n, &result), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* ---- what is listed while commits go on --------------------------------------------------------- */

enum { LISTED = 90, BUSY_THREADS = 3 };

struct busy {
    struct fixture *f;
    _Atomic uint32_t number;
    _Atomic uint32_t done;
    _Atomic uint32_t unknown; /* entries without a reason */
};

/* Several of it keep the committer at work: a verdict counts before its group has ended. */
static void *append_until_done(void *arg)
{
    struct busy *busy = arg;
    while (atomic_load(&busy->done) == 0) {
        struct daybook_append_result result;
        (void)append(busy->f, atomic_fetch_add(&busy->number, 1), LISTED, &result);
    }
    return NULL;
}

static void *list_until_done(void *arg)
{
    struct busy *busy = arg;
    struct daybook_quarantine_entry entries[LISTED];
    struct daybook_batch *list;
    uint64_t last;
    assert_int_equal(daybook_batch_new(LISTED, 1024 * 1024, 8 * 1024, &list, NULL), DAYBOOK_OK);
    while (atomic_load(&busy->done) == 0) {
        if (daybook_journal_quarantine_list(busy->f->journal, "billing", 0, 0, list, entries, &last,
                                            NULL) != DAYBOOK_OK) {
            continue;
        }
        for (size_t i = 0; i < list->count; i++) {
            if (entries[i].reason != DAYBOOK_REASON_MALFORMED) {
                atomic_fetch_add(&busy->unknown, 1);
            }
        }
    }
    daybook_batch_free(list);
    return NULL;
}

static void test_K4_a_fresh_verdict_is_listed_with_its_reason(void **state)
{
    struct fixture *f = fixture_new();
    struct busy busy = {.f = f, .number = LISTED};
    struct daybook_append_result result;
    struct daybook_batch *batch;
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = LISTED, .key_run = 1, .lease_ms = 1000000};
    pthread_t threads[BUSY_THREADS + 1];
    (void)state;
    fixture_open(f);
    for (unsigned i = 0; i < LISTED; i++) {
        assert_int_equal(append(f, i, i, &result), DAYBOOK_OK);
    }
    assert_int_equal(daybook_batch_new(LISTED, 1024 * 1024, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, LISTED);
    for (unsigned i = 0; i <= BUSY_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < BUSY_THREADS ? append_until_done : list_until_done,
                                        &busy),
                         0);
    }
    for (unsigned i = 0; i < LISTED; i++) {
        struct daybook_hand_out hand_out = {batch->deliveries[i].position,
                                            batch->deliveries[i].token};
        assert_int_equal(daybook_journal_quarantine(
                             f->journal, "billing", hand_out, DAYBOOK_REASON_MALFORMED,
                             (struct daybook_bytes){"no", 2}, NOW_US, DAYBOOK_NO_DEADLINE, &f->err),
                         DAYBOOK_OK);
    }
    atomic_store(&busy.done, 1);
    for (unsigned i = 0; i <= BUSY_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(busy.unknown, 0);
    daybook_batch_free(batch);
    fixture_free(f);
}

static void test_A4_too_little_disk_refuses_at_once(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.free_disk_min = 1024 * 1024;
    f->os.statfs = limited_statfs;
    f->os.monotonic_us = watched_monotonic_us;
    atomic_store(&disk_left, UINT64_C(1) << 30);
    fixture_open(f);
    dbk_log_housekeep(f->journal); /* a segment stands ready: there is room for many */
    assert_int_equal(append(f, 0, 0, &result), DAYBOOK_OK);
    atomic_store(&disk_left, 1024 * 1024 - 1);
    atomic_fetch_add(&clock_ahead_us, 1000000);
    dbk_log_housekeep(f->journal);
    assert_int_equal(append(f, 1, 1, &result), DAYBOOK_AT_CAPACITY);
    assert_int_equal(result.limit, DAYBOOK_LIMIT_DISK);
    assert_int_equal(append(f, 0, 0, &result), DAYBOOK_ALREADY_PRESENT);
    atomic_store(&disk_left, 1024 * 1024);
    atomic_fetch_add(&clock_ahead_us, 1000000);
    dbk_log_housekeep(f->journal);
    assert_int_equal(append(f, 1, 1, &result), DAYBOOK_OK);
    /* At a start too. */
    atomic_store(&disk_left, 0);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    fixture_open(f);
    assert_int_equal(append(f, 2, 2, &result), DAYBOOK_AT_CAPACITY);
    assert_int_equal(result.limit, DAYBOOK_LIMIT_DISK);
    fixture_free(f);
}

/* ---- segments of other sizes, and full ones --------------------------------------------------------- */

static void test_a_prepared_segment_that_is_too_small_holds_up_nothing(void **state)
{
    enum { RECORD = 100 * 1024 };
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct event_text text;
    char *record = malloc(RECORD);
    (void)state;
    fixture_open(f);
    assert_int_equal(append(f, 0, 0, &result), DAYBOOK_OK);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    dbk_log_housekeep(f->journal);
    assert_true(dbk_log_of(f->journal)->spare.file >= 0);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->options.threads = DAYBOOK_LOG_THREADED;
    f->options.segment_bytes = 1024 * 1024;
    f->options.capacity.events.event_bytes_max = 128 * 1024;
    for (unsigned i = 1; i <= 2; i++) { /* after an orderly end, and after none */
        fixture_open(f);
        struct daybook_event event = make_event(&text, i, 0, 100);
        memset(record, ' ', RECORD);
        memcpy(record, text.record, event.record.len);
        event.record = (struct daybook_bytes){record, RECORD};
        assert_int_equal(daybook_journal_append(f->journal, &event, NOW_US,
                                                daybook_journal_monotonic_us(f->journal) + 5000000,
                                                &result, &f->err),
                         DAYBOOK_OK);
        dbk_log_abandon(f->journal);
    }
    fixture_open(f);
    for (unsigned i = 0; i <= 2; i++) {
        assert_int_equal(append(f, i, 0, &result), DAYBOOK_ALREADY_PRESENT);
    }
    free(record);
    fixture_free(f);
}

static void test_A3_a_stored_event_larger_than_the_limits_now_in_force(void **state)
{
    enum { RECORD = 120 * 1024 };
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct event_text text;
    char *record = malloc(RECORD);
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.segment_bytes = 1024 * 1024;
    f->options.capacity.events.event_bytes_max = 128 * 1024;
    fixture_open(f);
    struct daybook_event event = make_event(&text, 1, 0, 100);
    memset(record, ' ', RECORD);
    memcpy(record, text.record, event.record.len);
    event.record = (struct daybook_bytes){record, RECORD};
    assert_int_equal(
        daybook_journal_append(f->journal, &event, NOW_US, DAYBOOK_NO_DEADLINE, &result, &f->err),
        DAYBOOK_OK);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->options.segment_bytes = 64 * 1024;
    f->options.capacity.events.event_bytes_max = 8 * 1024;
    fixture_open(f);
    assert_int_equal(append(f, 1, 0, &result), DAYBOOK_ALREADY_PRESENT);
    assert_int_equal(append(f, 1, 1, &result), DAYBOOK_CONFLICT);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    fixture_open(f);
    free(record);
    fixture_free(f);
}

static void count_finding(void *user, const struct daybook_log_finding *finding)
{
    print_message("# %s\n", finding->message);
    ++*(unsigned *)user;
}

static void test_a_full_tail_is_closed_in_the_prepared_segment(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_log_report report;
    unsigned findings = 0;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    struct dbk_log *log = dbk_log_of(f->journal);
    dbk_log_housekeep(f->journal);
    while (log->tail_room >= DBK_BLOCK_BYTES) {
        assert_int_equal(append(f, n, n, &result), DAYBOOK_OK);
        n++;
    }
    assert_int_equal(log->tail.segment_no, 1);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    assert_int_equal(daybook_log_verify(f->path, count_finding, &findings, &report, &f->err),
                     DAYBOOK_OK);
    assert_int_equal(findings, 0);
    assert_int_equal(report.events, n);
    fixture_open(f);
    assert_int_equal(append(f, n - 1, n - 1, &result), DAYBOOK_ALREADY_PRESENT);
    fixture_free(f);
}

/* The file system goes between two looks at it: what is under it is an empty directory. */
static int lock_of_what_is_gone(const struct dbk_os *os, const char *path)
{
    char format[192];
    snprintf(format, sizeof(format), "%.*sFORMAT", (int)(strlen(path) - strlen("LOCK")), path);
    assert_int_equal(unlink(format), 0);
    return dbk_os_posix()->lock(os, path);
}

static void test_A7_a_journal_that_is_gone_is_not_made_anew(void **state)
{
    struct fixture *f = fixture_new();
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.existing_only = true;
    assert_int_equal(dbk_log_open(&f->options, &f->os, &f->journal, &f->err), DAYBOOK_NOT_FOUND);
    assert_int_equal(rmdir(f->path), 0); /* nothing was made in it */
    f->options.existing_only = false;
    fixture_open(f);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->options.existing_only = true;
    fixture_open(f);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->os.lock = lock_of_what_is_gone;
    assert_int_equal(dbk_log_open(&f->options, &f->os, &f->journal, &f->err), DAYBOOK_NOT_FOUND);
    f->journal = NULL;
    fixture_free(f);
}

/* An idle journal, full to its last block: what rots in its last group is told from a torn write. */
static void test_D7_a_full_tail_is_noted_in_the_prepared_segment(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    uint8_t zeros[512] = {0};
    char path[128];
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->os.monotonic_us = watched_monotonic_us;
    fixture_open(f);
    struct dbk_log *log = dbk_log_of(f->journal);
    dbk_log_housekeep(f->journal);
    while (log->tail_room >= DBK_BLOCK_BYTES) {
        assert_int_equal(append(f, n, n, &result), DAYBOOK_OK);
        n++;
    }
    assert_int_equal(log->tail.segment_no, 1);
    uint32_t end = log->tail.offset;
    for (unsigned i = 0; i < 3; i++) {
        atomic_fetch_add(&clock_ahead_us, 200000);
        while (dbk_log_housekeep(f->journal)) {
            /* Once: a journal that stays idle writes nothing more. */
        }
    }
    assert_int_equal(log->tail.segment_no, 2);
    uint64_t groups = atomic_load(&log->groups);
    atomic_fetch_add(&clock_ahead_us, 200000);
    dbk_log_housekeep(f->journal);
    assert_int_equal(atomic_load(&log->groups), groups);
    dbk_log_abandon(f->journal);
    /* The first sector of its last group turns zero, as in a write that was cut. */
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, 1U);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, zeros, sizeof(zeros), end - DBK_BLOCK_BYTES), sizeof(zeros));
    close(file);
    f->journal = NULL;
    assert_int_equal(dbk_log_open(&f->options, &f->os, &f->journal, &f->err), DAYBOOK_DAMAGED);
    fixture_free(f);
}

/* ---- indexes and checkpoints --------------------------------------------------------------------------- */

/* Changes the byte at `at` of a file (from its end where negative), under everybody. */
static void spoil_at(const char *path, long at)
{
    uint8_t byte;
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    off_t offset = at < 0 ? lseek(file, 0, SEEK_END) + at : at;
    assert_int_equal(pread(file, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, offset), 1);
    close(file);
}

static void keep_house(struct fixture *f)
{
    while (dbk_log_housekeep(f->journal)) {
        /* Until there is nothing left to do. */
    }
}

/* A checkpoint, inline. Returns its LSN. */
static uint64_t checkpoint(struct fixture *f, unsigned n)
{
    struct daybook_append_result result;
    uint64_t lsns[1];
    dbk_log_want_checkpoint(f->journal);
    assert_int_equal(append(f, n, n % 7, &result), DAYBOOK_OK);
    keep_house(f);
    assert_true(dbk_checkpoints_list(&f->os, f->path, lsns, 1) >= 1);
    return lsns[0];
}

/* Holds what is open, or would be, against a replay of the whole log. */
static void same_as_the_whole_log(struct fixture *f)
{
    struct daybook_journal *whole = NULL;
    uint64_t position = 0;
    assert_int_equal(dbk_log_open_readonly_whole(&f->options, &f->os, 0, &whole, &f->err),
                     DAYBOOK_OK);
    const char *wrong = dbk_log_differs(f->journal, whole, NOW_US, &position);
    if (wrong != NULL) {
        fail_msg("%s differs at position %llu", wrong, (unsigned long long)position);
    }
    assert_int_equal(daybook_journal_close(whole, NULL), DAYBOOK_OK);
}

/* Several sealed segments with their indexes, and two checkpoints, the newest at *ret_lsns[0]. The handle is
 * dropped as by a crash. */
static struct fixture *fixture_with_checkpoints(uint64_t ret_lsns[2])
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    unsigned n = 0;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 40; i++, n++) {
            /* Large enough that its segment is not emptied by a relocation. */
            assert_int_equal(append_bytes(f, n, n % 7, 2000, &result), DAYBOOK_OK);
            keep_house(f);
        }
        ret_lsns[1] = ret_lsns[0];
        ret_lsns[0] = checkpoint(f, n++);
    }
    assert_int_equal(append(f, n, 0, &result), DAYBOOK_OK);
    assert_true(dbk_log_of(f->journal)->tail.segment_no > 2);
    dbk_log_abandon(f->journal);
    return f;
}

static void sleep_not(const struct dbk_os *os, int64_t us)
{
    (void)os;
    (void)us;
}

static int direct_file = -1; /* played */
static unsigned direct_left; /* writes that it takes */
static unsigned direct_writes;

static int open_direct(const struct dbk_os *os, const char *path, enum dbk_open_mode mode)
{
    if (mode != DBK_OPEN_WRITE_DIRECT) {
        return dbk_os_posix()->open(os, path, mode);
    }
    if (direct_left == 0) {
        return -EINVAL;
    }
    direct_file = dbk_os_posix()->open(os, path, DBK_OPEN_WRITE);
    return direct_file;
}

static int close_direct(const struct dbk_os *os, int file)
{
    direct_file = file == direct_file ? -1 : direct_file;
    return dbk_os_posix()->close(os, file);
}

static int64_t pwrite_direct(const struct dbk_os *os, int file, const void *data, size_t len,
                             uint64_t offset)
{
    if (file == direct_file) {
        if (direct_left == 0) {
            return -EINVAL;
        }
        direct_left--;
        direct_writes++;
    }
    return dbk_os_posix()->pwrite(os, file, data, len, offset);
}

/* A segment is whole, and all zeros behind what was written, where the file system takes all, some or no direct
 * writes. */
static void test_a_segment_is_zeros_however_it_is_filled(void **state)
{
    enum { SEGMENT = 2 * 1024 * 1024, SOME = 3 };
    static const unsigned takes[] = {1000, SOME, 0};
    static uint8_t bytes[SEGMENT];
    (void)state;
    for (unsigned t = 0; t < sizeof takes / sizeof takes[0]; t++) {
        struct fixture *f = fixture_new();
        struct dbk_spare spare;
        char path[DBK_LOG_PATH_MAX];
        f->options.threads = DAYBOOK_LOG_INLINE;
        f->options.segment_bytes = SEGMENT;
        f->os.open = open_direct;
        f->os.close = close_direct;
        f->os.pwrite = pwrite_direct;
        direct_left = takes[t];
        direct_writes = 0;
        fixture_open(f);
        struct dbk_log *log = dbk_log_of(f->journal);
        direct_left = takes[t];
        direct_writes = 0;
        assert_int_equal(dbk_segment_create(log, 9, &spare), 0);
        if (takes[t] <= SOME) {
            assert_int_equal(direct_writes, takes[t]);
        } else {
            assert_true(direct_writes > SOME);
        }
        assert_int_equal(spare.segment_bytes, SEGMENT);
        assert_int_equal(f->os.pread(&f->os, spare.file, bytes, SEGMENT, 0), SEGMENT);
        for (size_t i = DBK_BLOCK_BYTES; i < SEGMENT; i++) {
            assert_int_equal(bytes[i], 0);
        }
        struct dbk_stat st;
        dbk_segment_path(log, 9, ".dbl", path);
        assert_int_equal(f->os.stat(&f->os, path, &st), 0);
        assert_int_equal(st.size_bytes, SEGMENT);
        assert_true(st.allocated_bytes >= SEGMENT);
        assert_int_equal(f->os.close(&f->os, spare.file), 0);
        assert_int_equal(f->os.unlink(&f->os, path), 0);
        fixture_free(f);
    }
}

/* The index of a segment takes a while, and appends do not wait behind it for the next segment. */
static void test_a_segment_is_prepared_in_the_midst_of_other_work(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.segment_bytes = 4 * 1024 * 1024;
    f->os.sleep_us = sleep_not;
    fixture_open(f);
    struct dbk_log *log = dbk_log_of(f->journal);
    while (log->tail.segment_no < 2) {
        assert_int_equal(append_bytes(f, n, n % 7, 2300, &result), DAYBOOK_OK);
        n++;
    }
    assert_true(log->spare.file < 0);
    log->housekeeper_started = true; /* played by this thread */
    assert_true(dbk_index_round(log));
    assert_true(log->spare.file >= 0);
    log->housekeeper_started = false;
    fixture_free(f);
}

static unsigned dropped;

static void drop_counted(const struct dbk_os *os, int file)
{
    dropped++;
    dbk_os_posix()->drop_cache(os, file);
}

static unsigned uncache_all(struct dbk_log *log)
{
    dropped = 0;
    log->housekeeper_started = true; /* played by this thread */
    while (dbk_uncache_round(log)) {
    }
    log->housekeeper_started = false;
    return dropped;
}

/* Sealed segments leave the page cache, the newest apart, each once, and none that a consumer has yet to read. */
static void test_what_nobody_reads_leaves_the_page_cache(void **state)
{
    enum { SEGMENTS = 8, KEPT = 4 };
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_batch *batch;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->os.drop_cache = drop_counted;
    fixture_open(f);
    struct dbk_log *log = dbk_log_of(f->journal);
    while (log->tail.segment_no < SEGMENTS) {
        assert_int_equal(append_bytes(f, n, n % 7, 2000, &result), DAYBOOK_OK);
        keep_house(f);
        n++;
    }
    uint32_t files = log->segment_count;
    assert_int_equal(dropped, 0);
    assert_int_equal(uncache_all(log), files - KEPT);
    assert_int_equal(uncache_all(log), 0);
    log->uncached_to = 0;
    assert_int_equal(daybook_batch_new(1, 4096, 4096, &batch, NULL), DAYBOOK_OK);
    struct daybook_claim claim = {.consumer = "ledger", .lease_ms = 1000};
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, NULL),
        DAYBOOK_OK);
    daybook_batch_free(batch);
    assert_int_equal(uncache_all(log), 0);
    fixture_free(f);
}

static bool is_readable(const struct daybook_append_queue *queue)
{
    struct pollfd ready = {.fd = daybook_append_queue_fd(queue), .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

static void test_A6_what_a_drain_leaves_keeps_the_queue_readable(void **state)
{
    enum { SUBMISSIONS = 5, AT_ONCE = 2 };
    struct fixture *f = fixture_new();
    struct event_text texts[SUBMISSIONS];
    struct daybook_event events[SUBMISSIONS];
    struct daybook_append_result results[SUBMISSIONS] = {{.code = DAYBOOK_OK}};
    struct daybook_submission submissions[SUBMISSIONS] = {{.count = 0}};
    struct daybook_submission *done[AT_ONCE];
    struct daybook_append_queue *queue;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    assert_int_equal(daybook_append_queue_new(f->journal, &queue, NULL), DAYBOOK_OK);
    for (unsigned i = 0; i < SUBMISSIONS; i++) {
        events[i] = make_event(&texts[i], i, i, 100);
        submissions[i] = (struct daybook_submission){
            .events = &events[i], .results = &results[i], .count = 1, .user = &submissions[i]};
        daybook_journal_submit(f->journal, queue, &submissions[i], NOW_US);
    }
    for (unsigned taken = 0; taken < SUBMISSIONS;) {
        assert_true(is_readable(queue));
        size_t count = daybook_append_queue_drain(queue, NOW_US, done, AT_ONCE);
        assert_int_equal(count, SUBMISSIONS - taken < AT_ONCE ? SUBMISSIONS - taken : AT_ONCE);
        for (size_t i = 0; i < count; i++, taken++) {
            assert_ptr_equal(done[i], &submissions[taken]);
            assert_int_equal(results[taken].code, DAYBOOK_OK);
        }
    }
    assert_false(is_readable(queue));
    assert_int_equal(daybook_append_queue_drain(queue, NOW_US, done, AT_ONCE), 0);
    daybook_append_queue_free(queue);
    fixture_free(f);
}

/* S5's neighbours in the figures: helper files that this opening found damaged. */
static void bad_files_are(struct fixture *f, uint64_t checkpoints, uint64_t indexes)
{
    struct daybook_journal_stats stats;
    assert_int_equal(daybook_journal_stats(f->journal, NOW_US, &stats, &f->err), DAYBOOK_OK);
    assert_int_equal(stats.bad_checkpoints, checkpoints);
    assert_int_equal(stats.bad_indexes, indexes);
}

static void test_D7_a_bad_index_is_made_again(void **state)
{
    uint64_t lsns[2] = {0, 0};
    struct daybook_log_report report;
    struct dbk_log_opening opening;
    unsigned findings = 0;
    char path[128];
    struct fixture *f = fixture_with_checkpoints(lsns);
    (void)state;
    snprintf(path, sizeof(path), "%s/seg-%016x.dbi", f->path, 1U);
    /* The fingerprint of a key: nothing but the checksum tells. */
    spoil_at(path, DBK_BLOCK_BYTES + 24);
    assert_int_equal(dbk_log_verify(f->path, &f->os, NULL, NULL, &report, &f->err),
                     DAYBOOK_DAMAGED);
    fixture_open(f);
    same_as_the_whole_log(f);
    opening = dbk_log_opening(f->journal);
    assert_int_equal(opening.resumed_lsn, lsns[0]);
    assert_int_equal(opening.bad_indexes, 1);
    bad_files_are(f, 0, 1);
    keep_house(f);
    dbk_log_abandon(f->journal);
    assert_int_equal(dbk_log_verify(f->path, &f->os, count_finding, &findings, &report, &f->err),
                     DAYBOOK_OK);
    /* One that is gone is no finding, and is made again as well. */
    assert_int_equal(unlink(path), 0);
    fixture_open(f);
    same_as_the_whole_log(f);
    assert_int_equal(dbk_log_opening(f->journal).bad_indexes, 0);
    bad_files_are(f, 0, 0);
    keep_house(f);
    assert_int_equal(access(path, R_OK), 0);
    fixture_free(f);
}

static void checkpoint_path_of(const struct fixture *f, uint64_t lsn, char *ret, size_t size)
{
    snprintf(ret, size, "%s/ckpt-%016llx.dbc", f->path, (unsigned long long)lsn);
}

static void test_D7_a_bad_checkpoint_costs_time_and_nothing_else(void **state)
{
    uint64_t lsns[2] = {0, 0};
    char newest[128];
    char older[128];
    struct fixture *f = fixture_with_checkpoints(lsns);
    (void)state;
    checkpoint_path_of(f, lsns[0], newest, sizeof(newest));
    checkpoint_path_of(f, lsns[1], older, sizeof(older));
    assert_true(lsns[1] != 0 && access(older, R_OK) == 0);
    fixture_open(f);
    assert_int_equal(dbk_log_opening(f->journal).resumed_lsn, lsns[0]);
    same_as_the_whole_log(f);
    dbk_log_abandon(f->journal);
    spoil_at(newest, -20);
    fixture_open(f);
    assert_int_equal(dbk_log_opening(f->journal).resumed_lsn, lsns[1]);
    assert_int_equal(dbk_log_opening(f->journal).bad_checkpoints, 1);
    same_as_the_whole_log(f);
    dbk_log_abandon(f->journal);
    assert_int_equal(truncate(older, 200), 0);
    fixture_open(f);
    assert_int_equal(dbk_log_opening(f->journal).resumed_lsn, 0);
    assert_int_equal(dbk_log_opening(f->journal).bad_checkpoints, 2);
    bad_files_are(f, 2, 0);
    same_as_the_whole_log(f);
    /* Two good ones, and the bad ones are gone. */
    (void)checkpoint(f, 500);
    (void)checkpoint(f, 501);
    assert_int_not_equal(access(newest, R_OK), 0);
    assert_int_not_equal(access(older, R_OK), 0);
    dbk_log_abandon(f->journal);
    fixture_open(f);
    assert_int_equal(dbk_log_opening(f->journal).bad_checkpoints, 0);
    assert_int_not_equal(dbk_log_opening(f->journal).resumed_lsn, 0);
    fixture_free(f);
}

static void test_D7_a_checkpoint_that_the_log_does_not_reach_is_refused(void **state)
{
    struct daybook_log_report report;
    uint64_t lsns[2] = {0, 0};
    char newest[128];
    char path[128];
    struct fixture *f = fixture_with_checkpoints(lsns);
    (void)state;
    checkpoint_path_of(f, lsns[0], newest, sizeof(newest));
    /* The log ends where the last segment begins, as if everything in it had never been written. */
    for (uint32_t n = dbk_lsn_segment(lsns[0]);; n++) {
        snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, n);
        if (access(path, R_OK) != 0) {
            break;
        }
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(dbk_log_open(&f->options, &f->os, &f->journal, &f->err), DAYBOOK_DAMAGED);
    assert_int_equal(access(newest, R_OK), 0);
    f->journal = NULL;
    /* Nothing else proves it, and what an opening refuses is foreseen. */
    assert_int_equal(dbk_log_verify(f->path, &f->os, NULL, NULL, &report, &f->err),
                     DAYBOOK_DAMAGED);
    assert_true(report.damaged > 0);
    assert_false(report.live);
    snprintf(path, sizeof(path), "rm -rf %s", f->path);
    assert_int_equal(system(path), 0);
    free(f);
}

/* A record that rotted alone in the last group, which nothing but a checkpoint proves, is one damaged event. */
static void test_D7_a_checkpoint_proves_the_group_that_a_record_rotted_in(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    struct daybook_log_report report;
    struct daybook_batch *batch;
    uint8_t zeros[DBK_BLOCK_BYTES] = {0};
    unsigned findings = 0;
    uint64_t lsn = 0;
    uint64_t last = 0;
    uint64_t damaged = 0;
    char path[128];
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    fixture_open(f);
    for (unsigned i = 11; i <= 13; i++) {
        assert_int_equal(append(f, i, i, &result), DAYBOOK_OK);
    }
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    assert_int_equal(dbk_checkpoints_list(&f->os, f->path, &lsn, 1), 1);
    snprintf(path, sizeof(path), "%s/seg-%016x.dbl", f->path, dbk_lsn_segment(lsn));
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    /* The CLEAN behind it is not there. */
    assert_int_equal(pwrite(file, zeros, sizeof(zeros), (off_t)dbk_lsn_offset(lsn)), sizeof(zeros));
    close(file);
    spoil(path, "\"n\":13,");
    assert_int_equal(dbk_log_verify(f->path, &f->os, count_finding, &findings, &report, &f->err),
                     DAYBOOK_DAMAGED);
    assert_int_equal(report.damaged, 1);
    fixture_open(f);
    assert_int_equal(daybook_batch_new(9, 4096, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_read(f->journal, 0, DAYBOOK_WHERE_ALL, batch, &last, &damaged, &f->err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 2);
    assert_int_equal(damaged, 1);
    daybook_batch_free(batch);
    fixture_free(f);
}

/* Gives up everything that was delivered, as a journal with no window does. */
static void deliver_and_forget(struct fixture *f)
{
    struct daybook_claim claim = {
        .consumer = "billing", .events_max = 256, .key_run = 256, .lease_ms = 1000};
    struct daybook_hand_out set[256];
    enum daybook_code codes[256];
    struct daybook_batch *batch;
    uint64_t pruned = 0;
    assert_int_equal(daybook_batch_new(256, 1 << 20, 8 * 1024, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_claim(f->journal, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, &f->err),
        DAYBOOK_OK);
    for (size_t i = 0; i < batch->count; i++) {
        set[i] =
            (struct daybook_hand_out){batch->deliveries[i].position, batch->deliveries[i].token};
    }
    assert_int_equal(daybook_journal_ack(f->journal, "billing", set, batch->count, NOW_US,
                                         DAYBOOK_NO_DEADLINE, codes, &f->err),
                     DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_maintain(f->journal, NOW_US, DAYBOOK_NO_DEADLINE, &pruned, &f->err),
        DAYBOOK_OK);
    assert_true(pruned > 0);
    daybook_batch_free(batch);
}

static uint32_t lowest_segment(struct fixture *f)
{
    uint32_t second;
    return dbk_segment_lowest(dbk_log_of(f->journal), &second);
}

/* Once events were relocated, the log alone does not tell the state: segments go by the older checkpoint. */
static void test_D7_behind_a_relocation_segments_go_by_the_older_checkpoint(void **state)
{
    uint64_t lsns[2] = {0, 0};
    char path[128];
    struct fixture *f = fixture_new();
    struct daybook_append_result result;
    unsigned n = 0;
    (void)state;
    f->options.threads = DAYBOOK_LOG_INLINE;
    f->options.capacity.retain_acknowledged_us = -1;
    fixture_open(f);
    dbk_log_of(f->journal)->relocated = true;
    while (dbk_log_of(f->journal)->tail.segment_no < 3) {
        assert_int_equal(append(f, n, n % 7, &result), DAYBOOK_OK);
        keep_house(f);
        n++;
    }
    deliver_and_forget(f);
    lsns[1] = checkpoint(f, n++);
    keep_house(f);
    assert_int_equal(lowest_segment(f), 1);
    while (dbk_log_of(f->journal)->tail.segment_no < 5) {
        assert_int_equal(append(f, n, n % 7, &result), DAYBOOK_OK);
        keep_house(f);
        n++;
    }
    deliver_and_forget(f);
    lsns[0] = checkpoint(f, n++);
    keep_house(f);
    assert_int_equal(lowest_segment(f), dbk_lsn_segment(lsns[1]));
    dbk_log_abandon(f->journal);
    /* The newest is lost: the older one has everything that it needs. */
    checkpoint_path_of(f, lsns[0], path, sizeof(path));
    spoil_at(path, -20);
    fixture_open(f);
    assert_int_equal(dbk_log_opening(f->journal).resumed_lsn, lsns[1]);
    assert_true(dbk_log_of(f->journal)->relocated);
    dbk_log_abandon(f->journal);
    /* Both are: refused, with what can be done. */
    checkpoint_path_of(f, lsns[1], path, sizeof(path));
    spoil_at(path, -20);
    assert_int_equal(dbk_log_open(&f->options, &f->os, &f->journal, &f->err), DAYBOOK_DAMAGED);
    assert_non_null(strstr(f->err.message, "both checkpoints are lost"));
    assert_non_null(strstr(f->err.message, "repair"));
    snprintf(path, sizeof(path), "rm -rf %s", f->path);
    assert_int_equal(system(path), 0);
    free(f);
}

static void test_one_owner_a_directory(void **state)
{
    struct fixture *f = fixture_new();
    struct daybook_journal *second;
    (void)state;
    fixture_open(f);
    assert_int_equal(dbk_log_open(&f->options, &f->os, &second, &f->err), DAYBOOK_BUSY);
    assert_non_null(strstr(f->err.message, "another process"));
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C8_C11_racing_appends_and_claims),
        cmocka_unit_test(test_P7_racing_for_the_last_places),
        cmocka_unit_test(test_A6_submission_answers_each_in_order),
        cmocka_unit_test(test_the_append_path_allocates_nothing),
        cmocka_unit_test(test_A7_a_failed_sync_ends_the_handle_and_reading_goes_on),
        cmocka_unit_test(test_A4_a_full_disk_refuses_appends_while_delivery_goes_on),
        cmocka_unit_test(test_A4_a_journal_full_to_its_last_block_can_be_emptied),
        cmocka_unit_test(test_O1_the_trail_outlives_its_segment),
        cmocka_unit_test(test_O1_a_record_that_rotted_holds_up_nothing),
        cmocka_unit_test(test_P4_P5_a_limit_lowered_by_far_and_nobody_waits),
        cmocka_unit_test(test_C7_a_claim_fits_its_batch_behind_a_malformed_event),
        cmocka_unit_test(test_C6_a_full_claim_that_condemns_as_many),
        cmocka_unit_test(test_C13_a_claim_reads_neighbours_at_once),
        cmocka_unit_test(test_C2_a_claim_fills_its_batch_to_the_last_byte),
        cmocka_unit_test(test_C7_a_sector_that_cannot_be_read_holds_up_its_own_key_alone),
        cmocka_unit_test(test_C7_an_event_that_rotted_condemns_none_of_its_neighbours),
        cmocka_unit_test(test_C7_an_entry_of_another_event_is_damage),
        cmocka_unit_test(test_S5_a_repair_counts_events_that_turned_to_zeros),
        cmocka_unit_test(test_A4_a_mark_takes_no_room_that_a_verdict_counts_on),
        cmocka_unit_test(test_K4_a_fresh_verdict_is_listed_with_its_reason),
        cmocka_unit_test(test_A4_too_little_disk_refuses_at_once),
        cmocka_unit_test(test_a_prepared_segment_that_is_too_small_holds_up_nothing),
        cmocka_unit_test(test_A3_a_stored_event_larger_than_the_limits_now_in_force),
        cmocka_unit_test(test_a_full_tail_is_closed_in_the_prepared_segment),
        cmocka_unit_test(test_D7_a_full_tail_is_noted_in_the_prepared_segment),
        cmocka_unit_test(test_A7_a_journal_that_is_gone_is_not_made_anew),
        cmocka_unit_test(test_a_segment_is_prepared_in_the_midst_of_other_work),
        cmocka_unit_test(test_a_segment_is_zeros_however_it_is_filled),
        cmocka_unit_test(test_what_nobody_reads_leaves_the_page_cache),
        cmocka_unit_test(test_A6_what_a_drain_leaves_keeps_the_queue_readable),
        cmocka_unit_test(test_D7_a_bad_index_is_made_again),
        cmocka_unit_test(test_D7_a_bad_checkpoint_costs_time_and_nothing_else),
        cmocka_unit_test(test_D7_a_checkpoint_that_the_log_does_not_reach_is_refused),
        cmocka_unit_test(test_D7_a_checkpoint_proves_the_group_that_a_record_rotted_in),
        cmocka_unit_test(test_D7_behind_a_relocation_segments_go_by_the_older_checkpoint),
        cmocka_unit_test(test_one_owner_a_directory),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
