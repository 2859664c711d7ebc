/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every suite of measurements shares: alternate rounds, figures, marks, events.
 *
 * A figure stands beside its bound, measured in alternate rounds of the same run: the disk of a shared
 * machine moves by a factor of three between minutes, so a figure alone says nothing and only the ratio
 * of neighbouring rounds is kept. See method.md. A suite runs in a process of its own (main.c forks
 * it), so that it begins without threads and its memory goes when it ends. What fails ends the process:
 * there is nobody to hand an error to.
 */
#ifndef DBK_BENCH_BENCH_H
#define DBK_BENCH_BENCH_H

#include <stdatomic.h>

#include <daybook/event.h>
#include <daybook/journal.h>
#include <daybook/log.h>

#define BENCH_ROUNDS_MAX 64u
#define BENCH_SIDES_MAX 4u
#define BENCH_PATH_MAX 512u

enum bench_length { BENCH_FULL, BENCH_QUICK };
enum bench_output { BENCH_TABLE, BENCH_JSON };
enum bench_marking { BENCH_NO_MARKS, BENCH_MARKS };

struct bench {
    const char *suite; /* the one that runs */
    const char *dir;   /* an empty directory on the disk that is measured */
    const char
        *programs; /* where `bench/bench-echo` is, and `daybook` unless `command` says where */
    const char *command; /* NULL: not said */
    const char *dsn;     /* of a PostgreSQL server that is measured; NULL: the log engine is */
    enum bench_length length;
    enum bench_output output;
    enum bench_marking marking;
    unsigned rounds;
    double round_s;
    unsigned missed; /* marks */
};

/* Ends the process with one line. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the process unless `code` is OK. */
void bench_check(enum daybook_code code, const struct daybook_error *err, const char *what);

/* ---- time and numbers -------------------------------------------------------------------------- */

double bench_now_s(void); /* monotonic */
int64_t bench_now_us(void);
/* A fast generator for choices that have to be unlike, not secret. */
uint64_t bench_random(uint64_t *state);
/* The number that follows `before` in a file of the kernel's. */
double bench_proc_number(const char *path, const char *before);

/* ---- the machine ------------------------------------------------------------------------------- */

/* Removes a file or a directory with all that is in it. */
void bench_remove(const char *path);
/* A virtual machine gets its memory from the host page by page, when each is first touched, at many times
 * the cost of touching it again; and gives back what it does not use. A journal grows and its bound does
 * not, so a GiB is touched first: who pays for that is no part of either. In a child, so that the pages go
 * back to the system and no suite counts them. */
void bench_warm_memory(const struct bench *bench);

/* ---- rounds ------------------------------------------------------------------------------------ */

/* One of the things that take turns. */
struct bench_side {
    double (*run)(void *user, double seconds); /* returns what is compared, e.g. events a second */
    void *user;
    double values[BENCH_ROUNDS_MAX];
};

/* Lets the sides take turns for the rounds of this run, after one round that does not count. Every
 * second round goes through them backwards, so that a disk that slows down favours nobody. */
void bench_alternate(const struct bench *bench, struct bench_side *sides, size_t count);
double bench_median(const struct bench *bench, const struct bench_side *side);
/* The median over the rounds of side / bound. */
double bench_ratio(const struct bench *bench, const struct bench_side *side,
                   const struct bench_side *bound);

/* Threads that all do the same until they are told to stop. */
struct bench_crew {
    unsigned threads;
    /* Returns how many events it has brought to an end. */
    uint64_t (*work)(void *user, unsigned worker, const _Atomic uint32_t *stop);
    void *user;
};
struct bench_crew_done {
    uint64_t events;
    double seconds; /* from the start of all to the end of the last */
};
struct bench_crew_done bench_crew_run(const struct bench_crew *crew, double seconds);

/* ---- what is said ------------------------------------------------------------------------------ */

/* One figure; `bound` and `ratio` NAN where there is none. */
void bench_figure(const struct bench *bench, const char *name, double value, const char *unit,
                  double bound, double ratio);

enum bench_sense { BENCH_AT_LEAST, BENCH_AT_MOST };
/* What was allowed and what was measured, where marks are asked for; counts a miss. */
void bench_mark(struct bench *bench, const char *what, double measured, enum bench_sense sense,
                double allowed);

/* ---- events ------------------------------------------------------------------------------------ */

#define BENCH_EVENT_BYTES 600u /* names and record */
#define BENCH_RECORD_MAX 1024u

/* An event with its own storage; its record is the flat form that HTTP takes too. Not to be moved. */
struct bench_event {
    struct daybook_event event;
    uint64_t random;
    char id[DAYBOOK_REQUEST_ID_MINTED_BYTES + 1];
    char subject[16];
    char record[BENCH_RECORD_MAX];
    char *record_id;      /* where the id stands in the record */
    char *record_subject; /* where the subject does */
};

/* Makes an event whose names and record are `bytes` long together (at least 330). `seed` is unlike for
 * each in one run. */
void bench_event_init(struct bench_event *event, size_t bytes, uint64_t seed);
/* Makes it another event: a new id, in the order of time, and this ordering key. */
void bench_event_next(struct bench_event *event, uint64_t key);

/* ---- journals ---------------------------------------------------------------------------------- */

/* Opens (and makes) the journal `name` in the directory of the run, or as a schema of the server. */
struct daybook_journal *bench_journal_open(const struct bench *bench, const char *name,
                                           uint64_t events_max);
/* The same with a window of retention, in microseconds; 0: the default, negative: none. */
struct daybook_journal *bench_journal_open_with(const struct bench *bench, const char *name,
                                                const struct daybook_capacity *capacity);
void bench_journal_close(struct daybook_journal *journal);
/* Appends `count` events of `bytes` in batches; the i-th has the key i modulo `keys`. */
void bench_journal_fill(struct daybook_journal *journal, uint64_t count, size_t bytes,
                        uint64_t keys, uint64_t seed);
/* The same with `run` events of a key one after the other. */
void bench_journal_fill_runs(struct daybook_journal *journal, uint64_t count, size_t bytes,
                             uint64_t keys, uint64_t run, uint64_t seed);
/* Registers a consumer that starts at the oldest event. */
void bench_consumer_register(struct daybook_journal *journal, const char *consumer);
/* "<dir>/<name>" */
void bench_path(const struct bench *bench, const char *name, char ret[BENCH_PATH_MAX]);

/* ---- suites ------------------------------------------------------------------------------------ */

void bench_append(struct bench *bench);
void bench_committer(struct bench *bench);
void bench_batch(struct bench *bench);
void bench_submit(struct bench *bench);
void bench_claim(struct bench *bench);
void bench_retained(struct bench *bench);
void bench_sqlite(struct bench *bench);
void bench_worker(struct bench *bench);
void bench_caller(struct bench *bench);
void bench_consumers(struct bench *bench);
void bench_capacity(struct bench *bench);
void bench_prune(struct bench *bench);
void bench_memory(struct bench *bench);
void bench_start(struct bench *bench);
void bench_start_many(struct bench *bench);
void bench_http(struct bench *bench);
void bench_postgres(struct bench *bench);

#endif
