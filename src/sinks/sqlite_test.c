/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite destination on real files: what accepted means, who is blamed, how it is cut off. */
#include <daybook/sqlite.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/os.h"
#include "base/thread.h"
#include "sinks/blame.h"

#define SOON_US 100000 /* T6 */

struct place {
    char directory[64];
    char path[96];
    struct daybook_sink *sink;
    struct daybook_answer answer;
};

static int64_t mono_us(void)
{
    return dbk_os_posix()->monotonic_us(dbk_os_posix());
}

static int64_t in_ms(int64_t ms)
{
    return mono_us() + ms * 1000;
}

static void make_place(struct place *p)
{
    memset(p, 0, sizeof *p);
    strcpy(p->directory, "/tmp/daybook-sqlite-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    (void)snprintf(p->path, sizeof p->path, "%s/usage.db", p->directory);
}

static void open_sink(struct place *p, enum daybook_columns columns)
{
    struct daybook_sqlite_options options = {.path = p->path, .columns = columns};

    assert_int_equal(daybook_sqlite_open(&options, &p->sink, NULL), DAYBOOK_OK);
}

static int setup(void **state)
{
    struct place *p = malloc(sizeof *p);

    assert_non_null(p);
    make_place(p);
    open_sink(p, DAYBOOK_COLUMNS_STRICT);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    static const char *const names[] = {"usage.db", "usage.db-wal", "usage.db-shm",
                                        "usage.db-journal", "old.db"};
    char path[128];

    p->sink->ops->close(p->sink);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", p->directory, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(p->directory), 0);
    free(p);
    return 0;
}

static struct daybook_bytes bytes(const char *text)
{
    struct daybook_bytes b = {text, strlen(text)};

    return b;
}

static struct daybook_row row(const char *id, const char *record)
{
    struct daybook_row r = {.row_version = 1};

    r.event.request_id = bytes(id);
    r.event.name_space = bytes("acme");
    r.event.subject = bytes("key-1");
    r.event.observed_at_us = INT64_C(1700000000123456);
    r.event.record = bytes(record);
    return r;
}

static enum daybook_answer_kind write_rows(struct place *p, const struct daybook_row *rows,
                                           size_t count, int64_t deadline_us)
{
    /* What a write leaves of an earlier answer must not show. */
    memset(&p->answer, 0x5A, sizeof p->answer);
    daybook_answer_reset(&p->answer);
    p->sink->ops->write(p->sink, rows, count, deadline_us, &p->answer);
    return p->answer.kind;
}

/* Runs SQL on a connection of its own; the first value of the first row as text, or "". */
static void sql(const struct place *p, const char *text, char *ret, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    const char *rest = text;

    assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
    if (size > 0) {
        ret[0] = '\0';
    }
    while (*rest != '\0') {
        assert_int_equal(sqlite3_prepare_v2(db, rest, -1, &statement, &rest), SQLITE_OK);
        int rc = sqlite3_step(statement);
        assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
        if (rc == SQLITE_ROW && size > 0) {
            const unsigned char *value = sqlite3_column_text(statement, 0);
            (void)snprintf(ret, size, "%s", value != NULL ? (const char *)value : "(null)");
        }
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_sql(const struct place *p, const char *text, const char *want)
{
    char got[512];

    sql(p, text, got, sizeof got);
    assert_string_equal(got, want);
}

/* A connection that holds the file for itself until it is closed. */
static sqlite3 *lock_file(const struct place *p)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void test_W12_accepted_rows_are_in_the_table(void **state)
{
    struct place *p = *state;
    const struct daybook_row rows[] = {
        row("r1", "{\"model\":\"m\\u00f6\",\"input_tokens\":12,\"cost_microdollars\":7e1}"),
        row("r2", "{}"),
    };

    assert_int_equal(write_rows(p, rows, 2, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(p->answer.rejected_count, 0);
    assert_sql(p, "SELECT count(*) FROM usage", "2");
    assert_sql(p,
               "SELECT request_id||','||namespace||','||subject||','||schema_version||','"
               "||observed_at||','||model||','||input_tokens||','||cost_microdollars||','||record"
               " FROM usage WHERE request_id='r1'",
               "r1,acme,key-1,1,2023-11-14T22:13:20.123456Z,m\xC3\xB6,12,70,"
               "{\"model\":\"m\\u00f6\",\"input_tokens\":12,\"cost_microdollars\":7e1}");
    assert_sql(p, "SELECT output_tokens FROM usage WHERE request_id='r1'", "(null)");
    assert_sql(p, "SELECT count(*) FROM usage WHERE delivered_at LIKE '20__-%T%.______Z'", "2");
    assert_sql(p, "SELECT pk FROM pragma_table_info('usage') WHERE name='request_id'", "1");
    assert_sql(p, "PRAGMA journal_mode", "wal");
}

static void test_W12_a_repeated_fact_is_accepted_and_adds_no_row(void **state)
{
    struct place *p = *state;
    struct daybook_row first = row("r1", "{\"a\":1,\"b\":2}");
    struct daybook_row again = row("r1", "{ \"b\":2.0, \"a\":1 }");
    struct daybook_row both[] = {row("r2", "{}"), row("r2", "{}")};

    assert_int_equal(write_rows(p, &first, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(write_rows(p, &again, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(write_rows(p, both, 2, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_sql(p, "SELECT count(*) FROM usage", "2");
    assert_sql(p, "SELECT record FROM usage WHERE request_id='r1'", "{\"a\":1,\"b\":2}");
}

static void test_W12_other_content_under_one_id_is_rejected(void **state)
{
    struct place *p = *state;
    struct daybook_row first = row("r1", "{\"a\":1}");
    struct daybook_row rows[] = {row("r0", "{}"), row("r1", "{\"a\":2}"), row("r1", "{\"a\":1}")};

    rows[2].event.subject = bytes("another");
    assert_int_equal(write_rows(p, &first, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(write_rows(p, rows, 3, in_ms(10000)), DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.others, DAYBOOK_OTHERS_NOT_WRITTEN);
    assert_int_equal(p->answer.rejected_count, 2);
    assert_int_equal(p->answer.rejected[0].index, 1);
    assert_int_equal(p->answer.rejected[1].index, 2);
    assert_string_equal(p->answer.rejected[0].words.code, "conflict");
    assert_sql(p, "SELECT group_concat(request_id) FROM usage", "r1");
}

static void test_W12_constraints_name_every_bad_row(void **state)
{
    struct place *p = *state;
    struct daybook_row rows[5];
    char ids[5][16];

    sql(p,
        "CREATE TABLE usage (request_id TEXT PRIMARY KEY, namespace TEXT, subject TEXT,"
        " schema_version, observed_at, delivered_at, trace_id, model TEXT NOT NULL,"
        " target_provider, target_model, status, input_tokens, output_tokens, cache_read_tokens,"
        " cache_write_tokens, reasoning_tokens, latency_ms, attempts, record,"
        " cost_microdollars CONSTRAINT cost_is_sane CHECK (cost_microdollars >= 0))",
        NULL, 0);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "r%d", i);
        rows[i] = row(ids[i], "{\"model\":\"m\",\"cost_microdollars\":1}");
    }
    rows[1].event.record = bytes("{\"model\":\"m\",\"cost_microdollars\":-1}");
    rows[4].event.record = bytes("{\"cost_microdollars\":1}");
    assert_int_equal(write_rows(p, rows, 5, in_ms(10000)), DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.others, DAYBOOK_OTHERS_NOT_WRITTEN);
    assert_int_equal(p->answer.rejected_count, 2);
    assert_int_equal(p->answer.rejected[0].index, 1);
    assert_string_equal(p->answer.rejected[0].words.code, "SQLITE_CONSTRAINT_CHECK");
    assert_string_equal(p->answer.rejected[0].words.constraint, "cost_is_sane");
    assert_string_equal(p->answer.rejected[0].words.message,
                        "CHECK constraint failed: cost_is_sane");
    assert_int_equal(p->answer.rejected[1].index, 4);
    assert_string_equal(p->answer.rejected[1].words.code, "SQLITE_CONSTRAINT_NOTNULL");
    assert_string_equal(p->answer.rejected[1].words.column, "model");
    assert_sql(p, "SELECT count(*) FROM usage", "0");

    rows[1] = rows[3];
    assert_int_equal(write_rows(p, rows, 3, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_sql(p, "SELECT count(*) FROM usage", "3");
}

static void test_W12_names_have_a_limit(void **state)
{
    struct place *p = *state;
    struct daybook_row rows[DAYBOOK_REJECTED_MAX + 10];
    char ids[DAYBOOK_REJECTED_MAX + 10][16];

    for (unsigned i = 0; i < DAYBOOK_REJECTED_MAX + 10; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "r%u", i);
        rows[i] = row(ids[i], "{\"input_tokens\":\"many\"}");
    }
    assert_int_equal(write_rows(p, rows, DAYBOOK_REJECTED_MAX + 10, in_ms(10000)),
                     DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.rejected_count, DAYBOOK_REJECTED_MAX);
    assert_int_equal(p->answer.rejected[DAYBOOK_REJECTED_MAX - 1].index, DAYBOOK_REJECTED_MAX - 1);
}

static void test_W12_a_billed_value_that_does_not_fit_rejects_the_row(void **state)
{
    struct place *p = *state;
    const struct daybook_row rows[] = {row("r1", "{\"output_tokens\":1.5,\"latency_ms\":\"x\"}"),
                                       row("r2", "{\"latency_ms\":2.5}")};

    assert_int_equal(write_rows(p, rows, 2, in_ms(10000)), DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.rejected_count, 1);
    assert_int_equal(p->answer.rejected[0].index, 0);
    assert_string_equal(p->answer.rejected[0].words.column, "output_tokens");
    assert_non_null(strstr(p->answer.rejected[0].words.message, "1.5"));
    assert_int_equal(p->answer.values_left_out, 0); /* nothing was written */

    /* Another column is left empty, and counted. */
    assert_int_equal(write_rows(p, rows + 1, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(p->answer.values_left_out, 1);
    assert_int_equal(write_rows(p, rows + 1, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(p->answer.values_left_out, 0); /* it was there already */

    p->sink->ops->close(p->sink);
    open_sink(p, DAYBOOK_COLUMNS_LENIENT);
    assert_int_equal(write_rows(p, rows, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(p->answer.values_left_out, 2);
    assert_sql(p, "SELECT output_tokens FROM usage WHERE request_id='r1'", "(null)");
}

static void test_W12_a_lock_is_waited_for_until_the_deadline(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");
    struct daybook_error err;

    assert_int_equal(p->sink->ops->check(p->sink, in_ms(10000), &err), DAYBOOK_OK);
    sqlite3 *holder = lock_file(p);
    int64_t deadline_us = in_ms(40);
    assert_int_equal(write_rows(p, &one, 1, deadline_us), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_true(mono_us() >= deadline_us);
    assert_true(mono_us() < deadline_us + SOON_US);
    assert_string_equal(p->answer.words.code, "SQLITE_BUSY");
    assert_int_equal(p->sink->ops->check(p->sink, in_ms(10), &err), DAYBOOK_BUSY);
    assert_non_null(strstr(err.message, p->path));

    assert_int_equal(sqlite3_close(holder), SQLITE_OK);
    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_sql(p, "SELECT count(*) FROM usage", "1");
}

static void test_T6_a_deadline_in_the_past_begins_nothing(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");

    assert_int_equal(write_rows(p, &one, 1, mono_us() - 1), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_int_not_equal(access(p->path, F_OK), 0);
}

/* A table on which every row takes for ever. */
static void make_slow_table(struct place *p)
{
    const struct daybook_row one = row("r0", "{}");

    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    sql(p,
        "CREATE TRIGGER slow BEFORE INSERT ON usage BEGIN"
        " SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
        " SELECT i FROM n LIMIT 100000000000); END",
        NULL, 0);
}

static void test_T6_a_long_statement_is_cut_at_the_deadline(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");

    make_slow_table(p);
    int64_t deadline_us = in_ms(40);
    assert_int_equal(write_rows(p, &one, 1, deadline_us), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_true(mono_us() < deadline_us + SOON_US);
    assert_string_equal(p->answer.words.code, "SQLITE_INTERRUPT");
    /* Cut off is undone: neither the row nor the lock stays. */
    assert_sql(p, "DROP TRIGGER slow; SELECT group_concat(request_id) FROM usage", "r0");
    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
}

struct writer {
    struct place *p;
    _Atomic uint32_t begun;
    _Atomic int64_t ended_us;
};

static void *run_writer(void *arg)
{
    struct writer *w = arg;
    const struct daybook_row one = row("r1", "{}");

    atomic_store(&w->begun, 1);
    dbk_futex_wake_all(&w->begun);
    (void)write_rows(w->p, &one, 1, in_ms(60000));
    atomic_store(&w->ended_us, mono_us());
    return NULL;
}

/* Interrupts a write that is under way in another thread, and how long that took. */
static int64_t interrupt_write(struct place *p)
{
    struct writer w = {.p = p};
    struct dbk_thread thread;

    assert_int_equal(dbk_thread_start(&thread, "writer", run_writer, &w), 0);
    while (atomic_load(&w.begun) == 0) {
        dbk_futex_wait(&w.begun, 0, -1);
    }
    int64_t began_us = mono_us();
    p->sink->ops->interrupt(p->sink);
    dbk_thread_join(&thread);
    return atomic_load(&w.ended_us) - began_us;
}

static void test_T6_interrupt_cuts_a_wait_for_a_lock(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");

    assert_int_equal(p->sink->ops->check(p->sink, in_ms(10000), NULL), DAYBOOK_OK);
    sqlite3 *holder = lock_file(p);
    assert_true(interrupt_write(p) < SOON_US);
    assert_int_equal(p->answer.kind, DAYBOOK_ANSWER_UNAVAILABLE);
    assert_int_equal(sqlite3_close(holder), SQLITE_OK);
    /* And every later one. */
    assert_int_equal(write_rows(p, &one, 1, in_ms(60000)), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_sql(p, "SELECT count(*) FROM usage", "0");
}

static void test_T6_interrupt_cuts_a_long_statement(void **state)
{
    struct place *p = *state;

    make_slow_table(p);
    assert_true(interrupt_write(p) < SOON_US);
    assert_int_equal(p->answer.kind, DAYBOOK_ANSWER_UNAVAILABLE);
    assert_sql(p, "DROP TRIGGER slow; SELECT count(*) FROM usage", "1");
}

static int limit_pages(sqlite3 *db, const char **ret_message, const sqlite3_api_routines *api)
{
    (void)ret_message;
    (void)api;
    return sqlite3_exec(db, "PRAGMA max_page_count=8", NULL, NULL, NULL);
}

static void test_W12_a_full_database_is_unavailable(void **state)
{
    struct place *p = *state;
    static char large[200000];

    /* Every connection that is opened from here on may grow to eight pages. */
    assert_int_equal(sqlite3_auto_extension((void (*)(void))limit_pages), SQLITE_OK);
    memset(large, ' ', sizeof large - 1);
    large[0] = '{';
    large[sizeof large - 2] = '}';
    const struct daybook_row rows[] = {row("r1", "{}"), row("r2", large)};
    assert_int_equal(write_rows(p, rows, 2, in_ms(10000)), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_string_equal(p->answer.words.code, "SQLITE_FULL");
    assert_int_equal(write_rows(p, rows, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    sqlite3_reset_auto_extension();
    assert_sql(p, "SELECT group_concat(request_id) FROM usage", "r1");
}

static void test_W12_a_file_that_is_no_database_is_unavailable(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");
    FILE *f = fopen(p->path, "w");

    assert_non_null(f);
    for (int i = 0; i < 200; i++) {
        assert_true(fputs("this is a letter, not a ledger\n", f) >= 0);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_string_equal(p->answer.words.code, "SQLITE_NOTADB");
    /* Mended without a restart. */
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
}

static void test_W12_a_table_without_a_key_is_unavailable(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");

    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    p->sink->ops->close(p->sink);
    sql(p,
        "CREATE TABLE bare AS SELECT * FROM usage; DROP TABLE usage;"
        "ALTER TABLE bare RENAME TO usage",
        NULL, 0);
    open_sink(p, DAYBOOK_COLUMNS_STRICT);
    assert_int_equal(write_rows(p, &one, 1, in_ms(10000)), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_non_null(strstr(p->answer.words.message, "ON CONFLICT"));
}

static void test_W12_a_row_that_a_trigger_swallows_has_not_landed(void **state)
{
    struct place *p = *state;
    const struct daybook_row rows[] = {row("r1", "{}"), row("r2", "{}")};

    assert_int_equal(write_rows(p, rows, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    sql(p,
        "CREATE TRIGGER no BEFORE INSERT ON usage WHEN NEW.request_id='r2' BEGIN"
        " SELECT raise(IGNORE); END",
        NULL, 0);
    assert_int_equal(write_rows(p, rows, 2, in_ms(10000)), DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.rejected_count, 1);
    assert_int_equal(p->answer.rejected[0].index, 1);
    assert_string_equal(p->answer.rejected[0].words.code, "not_stored");
}

static int check_references(sqlite3 *db, const char **ret_message, const sqlite3_api_routines *api)
{
    (void)ret_message;
    (void)api;
    return sqlite3_exec(db, "PRAGMA foreign_keys=ON", NULL, NULL, NULL);
}

static void test_W12_a_constraint_at_the_commit_names_only_one_row_alone(void **state)
{
    struct place *p = *state;
    const struct daybook_row rows[] = {row("r1", "{}"), row("r2", "{\"model\":\"unknown\"}")};

    /* Deferred: checked at the commit, and it does not say for which row. */
    sql(p,
        "CREATE TABLE models (name TEXT PRIMARY KEY);"
        "CREATE TABLE usage (request_id TEXT PRIMARY KEY, namespace TEXT, subject TEXT,"
        " schema_version, observed_at, delivered_at, trace_id, target_provider, target_model,"
        " status, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,"
        " reasoning_tokens, cost_microdollars, latency_ms, attempts, record,"
        " model TEXT REFERENCES models(name) DEFERRABLE INITIALLY DEFERRED)",
        NULL, 0);
    assert_int_equal(sqlite3_auto_extension((void (*)(void))check_references), SQLITE_OK);
    assert_int_equal(write_rows(p, rows, 2, in_ms(10000)), DAYBOOK_ANSWER_REFUSED);
    assert_int_equal(p->answer.refusal, DAYBOOK_REFUSAL_OF_A_ROW);
    assert_int_equal(write_rows(p, rows + 1, 1, in_ms(10000)), DAYBOOK_ANSWER_REJECTED);
    assert_int_equal(p->answer.rejected[0].index, 0);
    assert_string_equal(p->answer.rejected[0].words.code, "SQLITE_CONSTRAINT_FOREIGNKEY");
    assert_int_equal(write_rows(p, rows, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    sqlite3_reset_auto_extension();
    assert_sql(p, "SELECT count(*) FROM usage", "1");
}

/* The commit writes, and the disk fails under it: what is on the disk nobody can say. */
static void test_W12_a_commit_that_fails_on_the_disk_is_unknown(void **state)
{
    struct place *p = *state;
    struct daybook_row first = row("r1", "{}");
    struct daybook_row second = row("r2", "{}");
    char wal[128];
    struct stat st;
    struct rlimit files;

    assert_int_equal(write_rows(p, &first, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    (void)snprintf(wal, sizeof wal, "%s-wal", p->path);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &files), 0);
    struct rlimit low = {.rlim_cur = (rlim_t)st.st_size, .rlim_max = files.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    enum daybook_answer_kind kind = write_rows(p, &second, 1, in_ms(10000));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &files), 0);
    assert_int_equal(kind, DAYBOOK_ANSWER_UNAVAILABLE);
    assert_int_equal(p->answer.effect, DAYBOOK_EFFECT_UNKNOWN);
    assert_string_equal(p->answer.words.code, "SQLITE_IOERR_WRITE");
    assert_int_equal(write_rows(p, &second, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(p->answer.effect, DAYBOOK_EFFECT_NONE);
    assert_sql(p, "SELECT group_concat(request_id) FROM usage", "r1,r2");
}

static void test_W1_a_file_that_was_taken_away_is_made_anew(void **state)
{
    struct place *p = *state;
    const struct daybook_row rows[] = {row("r1", "{}"), row("r2", "{}")};
    char old[128];

    assert_int_equal(write_rows(p, rows, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    (void)snprintf(old, sizeof old, "%s/old.db", p->directory);
    assert_int_equal(rename(p->path, old), 0);
    assert_int_equal(write_rows(p, rows + 1, 1, in_ms(10000)), DAYBOOK_ANSWER_ACCEPTED);
    assert_sql(p, "SELECT group_concat(request_id) FROM usage", "r2");
}

/* What people are billed for is nobody else's to read, as the journal's own files. */
static void test_the_file_is_made_for_its_owner_alone(void **state)
{
    struct place *p = *state;
    struct daybook_row r = row("a", "{}");
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    assert_int_equal(write_rows(p, &r, 1, in_ms(5000)), DAYBOOK_ANSWER_ACCEPTED);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        struct stat st;
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", p->path, suffixes[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    /* What an operator has decided stays. */
    assert_int_equal(chmod(p->path, 0640), 0);
    p->sink->ops->close(p->sink);
    open_sink(p, DAYBOOK_COLUMNS_STRICT);
    assert_int_equal(write_rows(p, &r, 1, in_ms(5000)), DAYBOOK_ANSWER_ACCEPTED);
    struct stat st;
    assert_int_equal(stat(p->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void test_W1_a_missing_directory_is_unavailable(void **state)
{
    struct place *p = *state;
    const struct daybook_row one = row("r1", "{}");
    struct daybook_sink *sink = NULL;
    struct daybook_sqlite_options options = {.name = "ledger", .path = "/nonexistent/usage.db"};
    struct daybook_error err;

    assert_int_equal(daybook_sqlite_open(&options, &sink, NULL), DAYBOOK_OK);
    assert_string_equal(sink->name, "ledger");
    daybook_answer_reset(&p->answer);
    sink->ops->write(sink, &one, 1, in_ms(10000), &p->answer);
    assert_int_equal(p->answer.kind, DAYBOOK_ANSWER_UNAVAILABLE);
    assert_string_equal(p->answer.words.code, "SQLITE_CANTOPEN");
    assert_int_equal(sink->ops->check(sink, in_ms(10000), &err), DAYBOOK_BACKEND);
    assert_non_null(strstr(err.message, "ledger"));
    sink->ops->close(sink);
}

static void test_W1_settings_that_cannot_work_are_refused(void **state)
{
    static const char *const tables[] = {
        "",        "1st",
        "us\"age", "sqlite_usage",
        "a b",     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct daybook_sink *sink = NULL;
    struct daybook_error err;
    struct daybook_sqlite_options memory = {.path = ":memory:"};
    struct daybook_sqlite_options none = {.path = NULL};

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct daybook_sqlite_options options = {.path = "x.db", .table = tables[i]};
        assert_int_equal(daybook_sqlite_open(&options, &sink, &err), DAYBOOK_BAD_CONFIG);
        assert_non_null(strstr(err.message, "table"));
    }
    assert_int_equal(daybook_sqlite_open(&memory, &sink, &err), DAYBOOK_BAD_CONFIG);
    assert_int_equal(daybook_sqlite_open(&none, &sink, &err), DAYBOOK_BAD_CONFIG);
    assert_null(sink);
}

static void test_W12_the_table_of_blame(void **state)
{
    static const int destination[] = {SQLITE_BUSY,      SQLITE_LOCKED,   SQLITE_FULL,
                                      SQLITE_IOERR,     SQLITE_NOTADB,   SQLITE_READONLY,
                                      SQLITE_INTERRUPT, SQLITE_CANTOPEN, SQLITE_IOERR_SHMMAP};
    static const int of_a_row[] = {SQLITE_CONSTRAINT_CHECK, SQLITE_CONSTRAINT_VTAB, SQLITE_MISMATCH,
                                   SQLITE_TOOBIG};

    (void)state;
    for (size_t i = 0; i < sizeof destination / sizeof destination[0]; i++) {
        assert_int_equal(dbk_blame_sqlite(destination[i], DBK_MOMENT_ROW), DBK_BLAME_DESTINATION);
    }
    for (size_t i = 0; i < sizeof of_a_row / sizeof of_a_row[0]; i++) {
        assert_int_equal(dbk_blame_sqlite(of_a_row[i], DBK_MOMENT_ROW), DBK_BLAME_ROW);
        assert_int_equal(dbk_blame_sqlite(of_a_row[i], DBK_MOMENT_BETWEEN), DBK_BLAME_NOBODY);
    }
    assert_int_equal(dbk_blame_sqlite(SQLITE_ERROR, DBK_MOMENT_ROW), DBK_BLAME_NOBODY);
    assert_int_equal(dbk_blame_sqlite(SQLITE_ERROR, DBK_MOMENT_BETWEEN), DBK_BLAME_DESTINATION);
    assert_int_equal(dbk_blame_sqlite(99, DBK_MOMENT_ROW), DBK_BLAME_NOBODY);
    assert_string_equal(dbk_sqlite_result_name(SQLITE_IOERR_SHMMAP), "SQLITE_IOERR");
}

static void test_K4_words_are_cut_between_characters_and_stay_one_line(void **state)
{
    char field[8];

    (void)state;
    dbk_words_copy(field, sizeof field, bytes("abcde\xC3\xA4\xC3\xA4"));
    assert_string_equal(field, "abcde\xC3\xA4");
    dbk_words_copy(field, sizeof field, bytes("abcdef\xC3\xA4"));
    assert_string_equal(field, "abcdef");
    dbk_words_copy(field, sizeof field, bytes("a\nb\tc"));
    assert_string_equal(field, "a b c");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_W12_accepted_rows_are_in_the_table),
        TEST(test_W12_a_repeated_fact_is_accepted_and_adds_no_row),
        TEST(test_W12_other_content_under_one_id_is_rejected),
        TEST(test_W12_constraints_name_every_bad_row),
        TEST(test_W12_names_have_a_limit),
        TEST(test_W12_a_billed_value_that_does_not_fit_rejects_the_row),
        TEST(test_W12_a_lock_is_waited_for_until_the_deadline),
        TEST(test_T6_a_deadline_in_the_past_begins_nothing),
        TEST(test_T6_a_long_statement_is_cut_at_the_deadline),
        TEST(test_T6_interrupt_cuts_a_wait_for_a_lock),
        TEST(test_T6_interrupt_cuts_a_long_statement),
        TEST(test_W12_a_full_database_is_unavailable),
        TEST(test_W12_a_file_that_is_no_database_is_unavailable),
        TEST(test_W12_a_table_without_a_key_is_unavailable),
        TEST(test_W12_a_row_that_a_trigger_swallows_has_not_landed),
        TEST(test_W12_a_constraint_at_the_commit_names_only_one_row_alone),
        TEST(test_W12_a_commit_that_fails_on_the_disk_is_unknown),
        TEST(test_W1_a_file_that_was_taken_away_is_made_anew),
        TEST(test_the_file_is_made_for_its_owner_alone),
        TEST(test_W1_a_missing_directory_is_unavailable),
        cmocka_unit_test(test_W1_settings_that_cannot_work_are_refused),
        cmocka_unit_test(test_W12_the_table_of_blame),
        cmocka_unit_test(test_K4_words_are_cut_between_characters_and_stay_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
