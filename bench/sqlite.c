/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `sqlite`: the delivery worker from a filled journal into SQLite, beside the same prepared INSERT
 * in a plain loop: transactions of 256 rows, WAL, synchronous=FULL, ids of version 7 in the order of
 * time on both sides. The worker side counts from the start of a worker until everything is acknowledged.
 */
#include "bench.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <daybook/sqlite.h>
#include <daybook/worker.h>

#include "sinks/columns.h"

enum { TRANSACTION_ROWS = 256, KEYS = 10000, SQL_BYTES = 2048, LOOK_NS = 500000 };

/* One second of the plain loop here is some 60,000 rows. */
enum { ROWS_FULL = 20 * 1024, ROWS_QUICK = 2 * 1024 };

#define EVENTS_MAX UINT64_C(1000000)

static const char consumer[] = "billing";

struct delivery {
    const struct bench *bench;
    struct daybook_journal *journal;
    uint64_t rows;
    uint64_t seed;
};

/* Appends the rows of a round, untimed, and lets a worker deliver them. */
static double run_worker(void *user, double seconds)
{
    struct delivery *d = user;
    char path[BENCH_PATH_MAX];
    struct daybook_error err = {0};
    struct daybook_sink *sink = NULL;
    struct daybook_worker *worker = NULL;
    struct daybook_consumer_stats stats;
    struct daybook_drain_report report;

    (void)seconds; /* rows, not time: a worker is drained whole */
    bench_journal_fill(d->journal, d->rows, BENCH_EVENT_BYTES, KEYS, d->seed++);
    bench_path(d->bench, "worker.db", path);
    struct daybook_sqlite_options into = {.path = path};
    bench_check(daybook_sqlite_open(&into, &sink, &err), &err, path);
    struct daybook_worker_options options = {
        .consumer = consumer, .claim_batch = TRANSACTION_ROWS, .sinks = &sink, .sink_count = 1};
    bench_check(daybook_worker_new(d->journal, &options, &worker, &err), &err, "worker");
    double began = bench_now_s();
    bench_check(daybook_worker_start(worker, &err), &err, "worker");
    do {
        struct timespec look = {.tv_nsec = LOOK_NS};
        (void)nanosleep(&look, NULL);
        bench_check(
            daybook_journal_consumer_stats(d->journal, consumer, bench_now_us(), &stats, &err),
            &err, "stats");
    } while (!stats.drained);
    double took = bench_now_s() - began;
    daybook_workers_drain(&worker, 1, 1000, &report);
    daybook_worker_free(worker);
    if (report.delivered != d->rows) {
        bench_die("the worker delivered %llu of %llu events", (unsigned long long)report.delivered,
                  (unsigned long long)d->rows);
    }
    return (double)d->rows / took;
}

struct plain {
    sqlite3 *db;
    sqlite3_stmt *insert;
    struct bench_event event;
    struct dbk_columns columns;
    uint64_t rows;
};

static void sql(struct plain *p, const char *text)
{
    if (sqlite3_exec(p->db, text, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("sqlite: %s", sqlite3_errmsg(p->db));
    }
}

static void add(char text[SQL_BYTES], const char *piece)
{
    size_t len = strlen(text);
    if (snprintf(text + len, SQL_BYTES - len, "%s", piece) >= (int)(SQL_BYTES - len)) {
        bench_die("a statement is too long");
    }
}

/* The table and the statement of the destination, word for word (sinks/sqlite.c). */
static void plain_open(struct plain *p, const char *path)
{
    char table[SQL_BYTES] = "CREATE TABLE usage (request_id TEXT NOT NULL PRIMARY KEY, "
                            "namespace TEXT NOT NULL, subject TEXT NOT NULL, "
                            "schema_version INTEGER NOT NULL, observed_at TEXT NOT NULL, "
                            "delivered_at TEXT NOT NULL";
    char insert[SQL_BYTES] = "INSERT INTO usage (request_id, namespace, subject, schema_version, "
                             "observed_at, delivered_at, record";

    if (sqlite3_open(path, &p->db) != SQLITE_OK) {
        bench_die("%s: cannot be opened", path);
    }
    sql(p, "PRAGMA journal_mode=WAL");
    sql(p, "PRAGMA synchronous=FULL");
    for (int i = 0; i < DBK_COLUMN_COUNT; i++) {
        const struct dbk_column_info *info = dbk_column_info((enum dbk_column)i);
        add(table, ", ");
        add(table, info->name);
        add(table, info->type == DBK_COLUMN_TEXT ? " TEXT" : " INTEGER");
        add(insert, ", ");
        add(insert, info->name);
    }
    add(table, ", record TEXT NOT NULL)");
    add(insert, ") VALUES (?,?,?,?,?,?,?");
    for (int i = 0; i < DBK_COLUMN_COUNT; i++) {
        add(insert, ",?");
    }
    add(insert, ") ON CONFLICT(request_id) DO NOTHING");
    sql(p, table);
    if (sqlite3_prepare_v2(p->db, insert, -1, &p->insert, NULL) != SQLITE_OK) {
        bench_die("sqlite: %s", sqlite3_errmsg(p->db));
    }
}

static void bind(struct plain *p, int param, const char *data, size_t len)
{
    (void)sqlite3_bind_text64(p->insert, param, data, len, SQLITE_STATIC, SQLITE_UTF8);
}

static void insert_row(struct plain *p)
{
    static const char at[] = "2026-01-01T00:00:00.000000Z";
    const struct daybook_event *event = &p->event.event;

    bind(p, 1, event->request_id.data, event->request_id.len);
    bind(p, 2, event->name_space.data, event->name_space.len);
    bind(p, 3, event->subject.data, event->subject.len);
    (void)sqlite3_bind_int(p->insert, 4, 1);
    bind(p, 5, at, sizeof at - 1);
    bind(p, 6, at, sizeof at - 1);
    bind(p, 7, event->record.data, event->record.len);
    for (int i = 0; i < DBK_COLUMN_COUNT; i++) {
        const struct dbk_column_value *value = &p->columns.values[i];
        if (value->kind == DBK_VALUE_TEXT) {
            bind(p, 8 + i, value->text.data, value->text.len);
        } else if (value->kind == DBK_VALUE_INTEGER) {
            (void)sqlite3_bind_int64(p->insert, 8 + i, value->integer);
        } else {
            (void)sqlite3_bind_null(p->insert, 8 + i);
        }
    }
    if (sqlite3_step(p->insert) != SQLITE_DONE) {
        bench_die("sqlite: %s", sqlite3_errmsg(p->db));
    }
    (void)sqlite3_reset(p->insert);
}

static double run_plain(void *user, double seconds)
{
    struct plain *p = user;

    (void)seconds;
    double began = bench_now_s();
    for (uint64_t done = 0; done < p->rows; done += TRANSACTION_ROWS) {
        sql(p, "BEGIN IMMEDIATE");
        for (unsigned i = 0; i < TRANSACTION_ROWS; i++) {
            bench_event_next(&p->event, (done + i) % KEYS);
            insert_row(p);
        }
        sql(p, "COMMIT");
    }
    return (double)p->rows / (bench_now_s() - began);
}

void bench_sqlite(struct bench *bench)
{
    uint64_t rows = bench->length == BENCH_QUICK ? ROWS_QUICK : ROWS_FULL;
    struct delivery delivery = {.bench = bench,
                                .journal = bench_journal_open(bench, "journal", EVENTS_MAX),
                                .rows = rows,
                                .seed = 1};
    struct plain *plain = calloc(1, sizeof *plain);
    char path[BENCH_PATH_MAX];

    if (plain == NULL) {
        bench_die("no memory");
    }
    plain->rows = rows;
    bench_event_init(&plain->event, BENCH_EVENT_BYTES, 99);
    dbk_columns_read(plain->event.event.record, &plain->columns);
    bench_path(bench, "plain.db", path);
    plain_open(plain, path);
    struct bench_side sides[] = {{.run = run_worker, .user = &delivery},
                                 {.run = run_plain, .user = plain}};
    bench_alternate(bench, sides, 2);
    double ratio = bench_ratio(bench, &sides[0], &sides[1]);
    bench_figure(bench, "delivery", bench_median(bench, &sides[0]), "events/s",
                 bench_median(bench, &sides[1]), ratio);
    bench_mark(bench, "delivery into SQLite, of a plain loop", ratio, BENCH_AT_LEAST, 0.5);
    (void)sqlite3_finalize(plain->insert);
    (void)sqlite3_close(plain->db);
    free(plain);
    bench_journal_close(delivery.journal);
}
