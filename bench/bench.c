/* SPDX-License-Identifier: Apache-2.0 */
/* What every suite shares, of bench.h. The main thread's, but for bench_event_*, bench_random and the
 * clocks, which any thread may use on its own storage. */
#include "bench.h"

#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <daybook/postgres.h>

enum { FILL_BATCH = 1024, NAME_COLUMN = 34, FILES_OPEN = 16 };

void bench_die(const char *format, ...)
{
    va_list args;
    (void)fflush(stdout);
    (void)fputs("bench: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(2);
}

void bench_check(enum daybook_code code, const struct daybook_error *err, const char *what)
{
    if (code != DAYBOOK_OK) {
        bench_die("%s: %s: %s", what, daybook_code_name(code), err != NULL ? err->message : "");
    }
}

/* ---- time and numbers -------------------------------------------------------------------------- */

double bench_now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int64_t bench_now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

uint64_t bench_random(uint64_t *state)
{
    /* splitmix64 */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double bench_proc_number(const char *path, const char *before)
{
    char text[1024];
    FILE *file = fopen(path, "r");
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;

    text[len] = '\0';
    const char *at = strstr(text, before);
    if (file == NULL || at == NULL) {
        bench_die("%s: cannot be read", path);
    }
    (void)fclose(file);
    return strtod(at + strlen(before), NULL);
}

/* ---- the machine --------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void bench_remove(const char *path)
{
    (void)nftw(path, remove_one, FILES_OPEN, FTW_DEPTH | FTW_PHYS);
}

void bench_warm_memory(const struct bench *bench)
{
    enum { PAGE = 4096 };
    const size_t bytes = (size_t)1 << 30;

    if (bench->length == BENCH_QUICK) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        volatile char *pages =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; pages != MAP_FAILED && at < bytes; at += PAGE) {
            pages[at] = 1;
        }
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child) {
        bench_die("no process to warm the memory with");
    }
}

/* ---- rounds ------------------------------------------------------------------------------------ */

void bench_alternate(const struct bench *bench, struct bench_side *sides, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)sides[i].run(sides[i].user, bench->round_s / 2);
    }
    for (unsigned round = 0; round < bench->rounds; round++) {
        for (size_t turn = 0; turn < count; turn++) {
            struct bench_side *side = &sides[round % 2 == 0 ? turn : count - 1 - turn];
            side->values[round] = side->run(side->user, bench->round_s);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x;
    double y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_size);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_median(const struct bench *bench, const struct bench_side *side)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, side->values, sizeof sorted);
    return median(sorted, bench->rounds);
}

double bench_ratio(const struct bench *bench, const struct bench_side *side,
                   const struct bench_side *bound)
{
    double ratios[BENCH_ROUNDS_MAX];
    for (unsigned i = 0; i < bench->rounds; i++) {
        ratios[i] = side->values[i] / bound->values[i];
    }
    return median(ratios, bench->rounds);
}

struct member {
    const struct bench_crew *crew;
    pthread_barrier_t *ready;
    const _Atomic uint32_t *stop;
    pthread_t thread;
    unsigned number;
    uint64_t done;
};

static void *member_run(void *arg)
{
    struct member *member = arg;
    (void)pthread_barrier_wait(member->ready);
    member->done = member->crew->work(member->crew->user, member->number, member->stop);
    return NULL;
}

static void sleep_s(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&t, &t) != 0) {
    }
}

struct bench_crew_done bench_crew_run(const struct bench_crew *crew, double seconds)
{
    struct member *members = calloc(crew->threads, sizeof *members);
    pthread_barrier_t ready;
    _Atomic uint32_t stop = 0;
    struct bench_crew_done done = {0};

    if (members == NULL || pthread_barrier_init(&ready, NULL, crew->threads + 1) != 0) {
        bench_die("no memory for %u threads", crew->threads);
    }
    for (unsigned i = 0; i < crew->threads; i++) {
        members[i] = (struct member){.crew = crew, .ready = &ready, .stop = &stop, .number = i};
        if (pthread_create(&members[i].thread, NULL, member_run, &members[i]) != 0) {
            bench_die("no thread");
        }
    }
    (void)pthread_barrier_wait(&ready);
    double began = bench_now_s();
    sleep_s(seconds);
    atomic_store(&stop, 1);
    for (unsigned i = 0; i < crew->threads; i++) {
        (void)pthread_join(members[i].thread, NULL);
        done.events += members[i].done;
    }
    done.seconds = bench_now_s() - began;
    (void)pthread_barrier_destroy(&ready);
    free(members);
    return done;
}

/* ---- what is said ------------------------------------------------------------------------------ */

static void print_number(double value)
{
    if (isnan(value)) {
        (void)printf(" %12s", "-");
    } else {
        (void)printf(" %12.*f", fabs(value) < 10 ? 3 : fabs(value) < 1000 ? 1 : 0, value);
    }
}

static void print_json(const char *name, double value)
{
    if (isnan(value)) {
        (void)printf(",\"%s\":null", name);
    } else {
        (void)printf(",\"%s\":%.6g", name, value);
    }
}

void bench_figure(const struct bench *bench, const char *name, double value, const char *unit,
                  double bound, double ratio)
{
    if (bench->output == BENCH_JSON) {
        (void)printf("{\"suite\":\"%s\",\"name\":\"%s\"", bench->suite, name);
        print_json("value", value);
        (void)printf(",\"unit\":\"%s\"", unit);
        print_json("bound", bound);
        print_json("ratio", ratio);
        (void)printf("}\n");
    } else {
        (void)printf("%-7s %-*s", bench->suite, NAME_COLUMN, name);
        print_number(value);
        (void)printf(" %-14s", unit);
        print_number(bound);
        if (isnan(ratio)) {
            (void)printf(" %7s\n", "-");
        } else {
            (void)printf(" %7.3f\n", ratio);
        }
    }
    (void)fflush(stdout);
}

void bench_mark(struct bench *bench, const char *what, double measured, enum bench_sense sense,
                double allowed)
{
    bool kept = sense == BENCH_AT_LEAST ? measured >= allowed : measured <= allowed;
    if (bench->marking == BENCH_NO_MARKS) {
        return;
    }
    bench->missed += kept ? 0 : 1;
    /* Beside JSON they go where they do not disturb its reader. */
    FILE *out = bench->output == BENCH_JSON ? stderr : stdout;
    (void)fprintf(out, "allowed: %s: at %s %.4g\nmeasured: %s: %.4g%s\n", what,
                  sense == BENCH_AT_LEAST ? "least" : "most", allowed, what, measured,
                  kept ? "" : " (missed)");
    (void)fflush(out);
}

/* ---- events ------------------------------------------------------------------------------------ */

void bench_event_init(struct bench_event *event, size_t bytes, uint64_t seed)
{
    static const char name_space[] = "bench";
    static const char head[] =
        "{\"request_id\":\"req_00000000-0000-7000-8000-000000000000\",\"namespace\":\"bench\","
        "\"subject\":\"key-0000000\",\"model\":\"chat-large\",\"status\":\"ok\","
        "\"input_tokens\":1155,\"output_tokens\":211,\"cost_microdollars\":3998,"
        "\"latency_ms\":1840,\"note\":\"";
    static const char tail[] = "\"}";

    memset(event, 0, sizeof *event);
    event->random = seed;
    (void)snprintf(event->subject, sizeof event->subject, "key-0000000");
    event->event.name_space = (struct daybook_bytes){name_space, sizeof name_space - 1};
    event->event.subject = (struct daybook_bytes){event->subject, strlen(event->subject)};
    size_t names = DAYBOOK_REQUEST_ID_MINTED_BYTES + sizeof name_space - 1 + strlen(event->subject);
    size_t fixed = names + sizeof head - 1 + sizeof tail - 1;
    if (bytes < fixed || bytes - names > sizeof event->record) {
        bench_die("no event has %zu bytes", bytes);
    }
    memcpy(event->record, head, sizeof head - 1);
    memset(event->record + sizeof head - 1, 'n', bytes - fixed);
    memcpy(event->record + bytes - names - (sizeof tail - 1), tail, sizeof tail - 1);
    event->event.record = (struct daybook_bytes){event->record, bytes - names};
    event->record_id = event->record + strlen("{\"request_id\":\"");
    event->record_subject = strstr(event->record, "key-");
    bench_event_next(event, 0);
}

void bench_event_next(struct bench_event *event, uint64_t key)
{
    uint8_t random[10];
    uint64_t low = bench_random(&event->random);
    uint64_t high = bench_random(&event->random);

    memcpy(random, &low, 8);
    memcpy(random + 8, &high, 2);
    int64_t now_us = bench_now_us();
    daybook_request_id_from((uint64_t)now_us / 1000, random, event->id);
    event->event.request_id = (struct daybook_bytes){event->id, DAYBOOK_REQUEST_ID_MINTED_BYTES};
    event->event.observed_at_us = now_us;
    memcpy(event->record_id, event->id, DAYBOOK_REQUEST_ID_MINTED_BYTES);
    char *digit = event->subject + event->event.subject.len;
    for (unsigned i = 0; i < 7; i++, key /= 10) {
        *--digit = (char)('0' + key % 10);
    }
    memcpy(event->record_subject, event->subject, event->event.subject.len);
}

/* ---- journals ---------------------------------------------------------------------------------- */

void bench_path(const struct bench *bench, const char *name, char ret[BENCH_PATH_MAX])
{
    if (snprintf(ret, BENCH_PATH_MAX, "%s/%s", bench->dir, name) >= (int)BENCH_PATH_MAX) {
        bench_die("%s: the path is too long", bench->dir);
    }
}

/* A schema's name may hold no hyphen. */
static struct daybook_journal *open_postgres(const struct bench *bench, const char *name,
                                             const struct daybook_capacity *capacity)
{
    char schema[DAYBOOK_POSTGRES_SCHEMA_MAX + 1];
    struct daybook_journal *journal = NULL;
    struct daybook_error err = {0};

    (void)snprintf(schema, sizeof schema, "%s", name);
    for (char *hyphen = strchr(schema, '-'); hyphen != NULL; hyphen = strchr(hyphen, '-')) {
        *hyphen = '_';
    }
    struct daybook_postgres_options options = {.dsn = bench->dsn,
                                               .schema = schema,
                                               .create = DAYBOOK_POSTGRES_CREATE_YES,
                                               .capacity = *capacity};
    bench_check(daybook_postgres_open(&options, &journal, &err), &err, schema);
    return journal;
}

struct daybook_journal *bench_journal_open_with(const struct bench *bench, const char *name,
                                                const struct daybook_capacity *capacity)
{
    char path[BENCH_PATH_MAX];
    struct daybook_journal *journal = NULL;
    struct daybook_error err = {0};

    if (bench->dsn != NULL) {
        return open_postgres(bench, name, capacity);
    }
    bench_path(bench, name, path);
    struct daybook_log_options options = {
        .path = path, .capacity = *capacity, .now_us = bench_now_us()};
    bench_check(daybook_log_open(&options, &journal, &err), &err, path);
    return journal;
}

struct daybook_journal *bench_journal_open(const struct bench *bench, const char *name,
                                           uint64_t events_max)
{
    struct daybook_capacity capacity = {.events_max = events_max};

    return bench_journal_open_with(bench, name, &capacity);
}

void bench_journal_close(struct daybook_journal *journal)
{
    struct daybook_error err = {0};
    bench_check(daybook_journal_close(journal, &err), &err, "close");
}

void bench_journal_fill_runs(struct daybook_journal *journal, uint64_t count, size_t bytes,
                             uint64_t keys, uint64_t run, uint64_t seed)
{
    struct bench_event *own = calloc(FILL_BATCH, sizeof *own);
    struct daybook_event *events = calloc(FILL_BATCH, sizeof *events);
    struct daybook_append_result *results = calloc(FILL_BATCH, sizeof *results);
    struct daybook_error err = {0};

    if (own == NULL || events == NULL || results == NULL) {
        bench_die("no memory for a batch");
    }
    for (size_t i = 0; i < FILL_BATCH; i++) {
        bench_event_init(&own[i], bytes, seed + (i << 32));
    }
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < FILL_BATCH ? (size_t)(count - done) : FILL_BATCH;
        for (size_t i = 0; i < n; i++) {
            bench_event_next(&own[i], (done + i) / run % keys);
            events[i] = own[i].event;
        }
        bench_check(daybook_journal_append_batch(journal, events, n, bench_now_us(),
                                                 DAYBOOK_NO_DEADLINE, results, &err),
                    &err, "append");
        for (size_t i = 0; i < n; i++) {
            bench_check(results[i].code, NULL, "append");
        }
        done += n;
    }
    free(results);
    free(events);
    free(own);
}

void bench_journal_fill(struct daybook_journal *journal, uint64_t count, size_t bytes,
                        uint64_t keys, uint64_t seed)
{
    bench_journal_fill_runs(journal, count, bytes, keys, 1, seed);
}

void bench_consumer_register(struct daybook_journal *journal, const char *consumer)
{
    struct daybook_batch *batch = NULL;
    struct daybook_error err = {0};
    struct daybook_claim claim = {.consumer = consumer, .lease_ms = 1000};

    bench_check(daybook_batch_new(1, 4096, 4096, &batch, &err), &err, "batch");
    bench_check(
        daybook_journal_claim(journal, &claim, bench_now_us(), DAYBOOK_NO_DEADLINE, batch, &err),
        &err, "registration");
    daybook_batch_free(batch);
}
