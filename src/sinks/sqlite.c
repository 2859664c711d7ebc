/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite destination: one table in a local file, one transaction a batch.
 *
 * Accepted means that the transaction committed under synchronous=FULL in WAL mode (EXTRA where a
 * file system knows no WAL). A row that is there already counts as accepted when it is the same fact
 * (E6), else it is rejected. Rows are inserted one by one, so that SQLite can say which of them it
 * refuses; once one is refused the batch goes on only to name the others, and is rolled back.
 *
 * Every wait ends at the deadline or with `interrupt`: locks are waited for in small steps, long
 * statements look at both every few hundred steps of SQLite's machine. What cannot be cut off is a
 * sync of the disk itself.
 *
 * Threads: write, check and close one at a time; interrupt from any, at any time before close.
 */
#include <daybook/sqlite.h>

#include "base/error.h"
#include "base/fault.h"

#ifndef DBK_HAVE_SQLITE

enum daybook_code daybook_sqlite_open(const struct daybook_sqlite_options *options,
                                      struct daybook_sink **ret_sink, struct daybook_error *err)
{
    (void)options;
    (void)ret_sink;
    return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                    "the sqlite destination was built out of this library; build it with "
                    "-Dsqlite=enabled");
}

#else

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/thread.h"
#include "sinks/blame.h"
#include "sinks/columns.h"

#define TABLE_NAME_MAX 63u
#define LOCK_STEP_US 2000  /* how long one wait for another process's lock lasts */
#define PROGRESS_STEPS 400 /* steps of SQLite's machine between two looks at the deadline */
#define STATEMENT_BYTES 2048u

/* Parameters of the INSERT, in order; the usual columns follow. */
enum parameter {
    PARAM_REQUEST_ID = 1,
    PARAM_NAMESPACE,
    PARAM_SUBJECT,
    PARAM_SCHEMA_VERSION,
    PARAM_OBSERVED_AT,
    PARAM_DELIVERED_AT,
    PARAM_RECORD,
    PARAM_FIRST_COLUMN
};

struct sqlite_sink {
    struct daybook_sink head;
    const struct dbk_os *os;
    char *path;
    char table[TABLE_NAME_MAX + 1];
    enum daybook_columns columns_mode;
    int64_t deadline_us; /* of the write under way */

    _Atomic uint32_t interrupted; /* 1 for good; waits for locks sleep on it */
    struct dbk_mutex lock;        /* of `db`, against an interrupt of a handle that is closing */
    sqlite3 *db;                  /* NULL: opened by the next write */

    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    sqlite3_stmt *insert;
    sqlite3_stmt *find;
    struct dbk_columns columns; /* of the row at hand */
};

/* ---- cutting off ----------------------------------------------------------------------------- */

static bool is_interrupted(struct sqlite_sink *s)
{
    return atomic_load_explicit(&s->interrupted, memory_order_acquire) != 0;
}

static bool is_cut(struct sqlite_sink *s)
{
    return is_interrupted(s) || s->os->monotonic_us(s->os) >= s->deadline_us;
}

/* Called by SQLite while another process holds the lock: waits a step and goes on, or gives up. */
static int on_busy(void *user, int tries)
{
    struct sqlite_sink *s = user;
    int64_t left_us = s->deadline_us - s->os->monotonic_us(s->os);

    (void)tries;
    if (left_us <= 0 || is_interrupted(s)) {
        return 0;
    }
    dbk_futex_wait(&s->interrupted, 0, left_us < LOCK_STEP_US ? left_us : LOCK_STEP_US);
    return 1;
}

static int on_progress(void *user)
{
    return is_cut(user) ? 1 : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void finalize_all(struct sqlite_sink *s)
{
    sqlite3_stmt **all[] = {&s->begin, &s->commit, &s->rollback, &s->insert, &s->find};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        (void)sqlite3_finalize(*all[i]);
        *all[i] = NULL;
    }
}

static void close_database(struct sqlite_sink *s)
{
    finalize_all(s);
    dbk_mutex_lock(&s->lock);
    sqlite3 *db = s->db;
    s->db = NULL;
    dbk_mutex_unlock(&s->lock);
    (void)sqlite3_close(db);
}

static int prepare(struct sqlite_sink *s, const char *sql, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
}

/* WAL where the file system can; where it cannot, a commit is only durable once the directory of the
 * rollback journal is synced too. */
static int set_durability(struct sqlite_sink *s)
{
    sqlite3_stmt *mode = NULL;
    bool wal = false;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode=WAL", -1, &mode, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(mode);
    }
    if (rc == SQLITE_ROW) {
        const char *answer = (const char *)sqlite3_column_text(mode, 0);
        wal = answer != NULL && strcmp(answer, "wal") == 0;
        rc = SQLITE_OK;
    }
    int finalized = sqlite3_finalize(mode);
    if (rc != SQLITE_OK || finalized != SQLITE_OK) {
        return rc != SQLITE_OK ? rc : finalized;
    }
    return sqlite3_exec(s->db, wal ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=EXTRA", NULL,
                        NULL, NULL);
}

static int make_table(struct sqlite_sink *s)
{
    char sql[STATEMENT_BYTES];
    int len = snprintf(sql, sizeof sql,
                       "CREATE TABLE IF NOT EXISTS \"%s\" (request_id TEXT NOT NULL PRIMARY KEY, "
                       "namespace TEXT NOT NULL, subject TEXT NOT NULL, "
                       "schema_version INTEGER NOT NULL, observed_at TEXT NOT NULL, "
                       "delivered_at TEXT NOT NULL",
                       s->table);

    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        const struct dbk_column_info *info = dbk_column_info((enum dbk_column)i);
        len += snprintf(sql + len, sizeof sql - (size_t)len, ", %s %s", info->name,
                        info->type == DBK_COLUMN_TEXT ? "TEXT" : "INTEGER");
    }
    (void)snprintf(sql + len, sizeof sql - (size_t)len, ", record TEXT NOT NULL)");
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL);
}

static int prepare_all(struct sqlite_sink *s)
{
    char sql[STATEMENT_BYTES];
    int len = snprintf(sql, sizeof sql,
                       "INSERT INTO \"%s\" (request_id, namespace, subject, schema_version, "
                       "observed_at, delivered_at, record",
                       s->table);

    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        len += snprintf(sql + len, sizeof sql - (size_t)len, ", %s",
                        dbk_column_info((enum dbk_column)i)->name);
    }
    len += snprintf(sql + len, sizeof sql - (size_t)len, ") VALUES (?");
    for (unsigned i = 1; i < PARAM_FIRST_COLUMN - 1 + DBK_COLUMN_COUNT; i++) {
        len += snprintf(sql + len, sizeof sql - (size_t)len, ",?");
    }
    (void)snprintf(sql + len, sizeof sql - (size_t)len, ") ON CONFLICT(request_id) DO NOTHING");
    int rc = prepare(s, sql, &s->insert);
    if (rc == SQLITE_OK) {
        (void)snprintf(sql, sizeof sql,
                       "SELECT namespace, subject, record FROM \"%s\" WHERE request_id=?",
                       s->table);
        rc = prepare(s, sql, &s->find);
    }
    if (rc == SQLITE_OK) {
        rc = prepare(s, "BEGIN IMMEDIATE", &s->begin);
    }
    if (rc == SQLITE_OK) {
        rc = prepare(s, "COMMIT", &s->commit);
    }
    return rc == SQLITE_OK ? prepare(s, "ROLLBACK", &s->rollback) : rc;
}

/* A file that is missing is made here, for its owner alone like the files of the journal: SQLite would let
 * everybody read the bills in it. What is there keeps its mode. A failure is left to SQLite's words. */
static void make_file(struct sqlite_sink *s)
{
    int file = s->os->open(s->os, s->path, DBK_OPEN_CREATE_EXCL);

    if (file >= 0) {
        (void)s->os->close(s->os, file);
    }
}

/* Opens the file, sets it up and prepares; `words` says why not. The handle may stay half open: the
 * caller closes it. */
static int open_database(struct sqlite_sink *s, struct daybook_words *words)
{
    sqlite3 *db = NULL;

    make_file(s);
    int rc = sqlite3_open_v2(
        s->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    dbk_mutex_lock(&s->lock);
    s->db = db;
    dbk_mutex_unlock(&s->lock);
    if (rc == SQLITE_OK) {
        (void)sqlite3_busy_handler(db, on_busy, s);
        sqlite3_progress_handler(db, PROGRESS_STEPS, on_progress, s);
        rc = set_durability(s);
    }
    if (rc == SQLITE_OK) {
        rc = make_table(s);
    }
    if (rc == SQLITE_OK) {
        rc = prepare_all(s);
    }
    if (rc != SQLITE_OK) {
        dbk_sqlite_words(rc, db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc), words);
    }
    return rc;
}

/* A file that was deleted or replaced beneath us would take rows that nobody can ever read. */
static void leave_moved_file(struct sqlite_sink *s)
{
    int moved = 0;

    if (s->db != NULL &&
        sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
        moved != 0) {
        close_database(s);
    }
}

static int make_ready(struct sqlite_sink *s, struct daybook_words *words)
{
    leave_moved_file(s);
    if (s->db != NULL) {
        return SQLITE_OK;
    }
    int rc = open_database(s, words);
    if (rc != SQLITE_OK) {
        close_database(s);
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Steps a statement that returns no rows. */
static int run(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);

    (void)sqlite3_reset(statement);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int bind_bytes(sqlite3_stmt *statement, int param, struct daybook_bytes bytes)
{
    return sqlite3_bind_text64(statement, param, bytes.data != NULL ? bytes.data : "", bytes.len,
                               SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_columns(struct sqlite_sink *s)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < DBK_COLUMN_COUNT && rc == SQLITE_OK; i++) {
        const struct dbk_column_value *value = &s->columns.values[i];
        if (value->kind == DBK_VALUE_TEXT) {
            rc = bind_bytes(s->insert, PARAM_FIRST_COLUMN + i, value->text);
        } else if (value->kind == DBK_VALUE_INTEGER) {
            rc = sqlite3_bind_int64(s->insert, PARAM_FIRST_COLUMN + i, value->integer);
        } else {
            rc = sqlite3_bind_null(s->insert, PARAM_FIRST_COLUMN + i);
        }
    }
    return rc;
}

static int insert_row(struct sqlite_sink *s, const struct daybook_row *row,
                      struct daybook_bytes delivered_at)
{
    char observed[DAYBOOK_TIME_TEXT_MAX];
    struct daybook_bytes observed_at = {observed,
                                        daybook_time_format(row->event.observed_at_us, observed)};
    const struct {
        int param;
        struct daybook_bytes bytes;
    } texts[] = {
        {PARAM_REQUEST_ID, row->event.request_id}, {PARAM_NAMESPACE, row->event.name_space},
        {PARAM_SUBJECT, row->event.subject},       {PARAM_OBSERVED_AT, observed_at},
        {PARAM_DELIVERED_AT, delivered_at},        {PARAM_RECORD, row->event.record},
    };
    int rc = sqlite3_bind_int(s->insert, PARAM_SCHEMA_VERSION, row->row_version);

    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && rc == SQLITE_OK; i++) {
        rc = bind_bytes(s->insert, texts[i].param, texts[i].bytes);
    }
    if (rc == SQLITE_OK) {
        rc = bind_columns(s);
    }
    return rc == SQLITE_OK ? run(s->insert) : rc;
}

enum stored { STORED_SAME, STORED_OTHER, STORED_NOT };

static struct daybook_bytes column_bytes(sqlite3_stmt *statement, int column)
{
    struct daybook_bytes bytes = {(const char *)sqlite3_column_text(statement, column), 0};

    bytes.len = (size_t)sqlite3_column_bytes(statement, column);
    return bytes;
}

/* What stands under the row's request_id already (E6). */
static int compare_stored(struct sqlite_sink *s, const struct daybook_row *row,
                          enum stored *ret_stored)
{
    int rc = bind_bytes(s->find, 1, row->event.request_id);

    if (rc != SQLITE_OK) {
        return rc;
    }
    rc = sqlite3_step(s->find);
    if (rc == SQLITE_ROW) {
        struct daybook_event stored = row->event;
        stored.name_space = column_bytes(s->find, 0);
        stored.subject = column_bytes(s->find, 1);
        stored.record = column_bytes(s->find, 2);
        *ret_stored =
            daybook_event_same_fact(&row->event, &stored) || dbk_fault(DBK_FAULT_OTHER_ROW_ACCEPTED)
                ? STORED_SAME
                : STORED_OTHER;
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        *ret_stored = STORED_NOT;
        rc = SQLITE_OK;
    }
    (void)sqlite3_reset(s->find);
    return rc;
}

static void say(struct daybook_words *words, const char *code, const char *column,
                const char *message)
{
    *words = (struct daybook_words){0};
    (void)snprintf(words->code, sizeof words->code, "%s", code);
    (void)snprintf(words->column, sizeof words->column, "%s", column);
    (void)snprintf(words->message, sizeof words->message, "%s", message);
}

/* Names a row and returns room for the words about it. The caller knows that there is room for a name. */
static struct daybook_words *name_row(struct daybook_answer *answer, size_t index)
{
    struct daybook_rejected_row *row = &answer->rejected[answer->rejected_count++];

    row->index = index;
    row->words = (struct daybook_words){0};
    return &row->words;
}

static void name_unfit(struct sqlite_sink *s, struct daybook_answer *answer, size_t index)
{
    struct daybook_words *words = name_row(answer, index);
    char message[sizeof words->message];

    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        const struct dbk_column_info *info = dbk_column_info((enum dbk_column)i);
        struct daybook_bytes text = s->columns.values[i].text;
        if (s->columns.values[i].kind != DBK_VALUE_UNFIT || info->weight != DBK_COLUMN_BILLED) {
            continue;
        }
        (void)snprintf(message, sizeof message,
                       "%s is no integer of 64 bits: %.*s; send an integer, or set columns: "
                       "lenient",
                       info->name, (int)(text.len < 64 ? text.len : 64), text.data);
        say(words, "does_not_fit", info->name, "");
        struct daybook_bytes all = {message, strlen(message)};
        dbk_words_copy(words->message, sizeof words->message, all);
        return;
    }
}

/* After an INSERT that changed nothing: the row is there already, or something swallowed it. */
static int settle_duplicate(struct sqlite_sink *s, const struct daybook_row *row, size_t index,
                            struct daybook_answer *answer)
{
    enum stored stored = STORED_NOT;
    int rc = compare_stored(s, row, &stored);

    if (rc == SQLITE_OK && stored == STORED_OTHER) {
        say(name_row(answer, index), "conflict", "request_id",
            "a row with this request_id is stored with other content");
    } else if (rc == SQLITE_OK && stored == STORED_NOT) {
        say(name_row(answer, index), "not_stored", "",
            "the table swallowed the row: a trigger ignores it");
    }
    return rc;
}

/* Writes one row. A fault of the row names it in the answer; any other is the result. */
static int write_row(struct sqlite_sink *s, const struct daybook_row *row, size_t index,
                     struct daybook_bytes delivered_at, struct daybook_answer *answer)
{
    dbk_columns_read(row->event.record, &s->columns);
    if (s->columns.unfit_billed > 0 && s->columns_mode == DAYBOOK_COLUMNS_STRICT) {
        name_unfit(s, answer, index);
        return SQLITE_OK;
    }
    int rc = insert_row(s, row, delivered_at);
    if (rc == SQLITE_OK && sqlite3_changes(s->db) == 0) {
        return settle_duplicate(s, row, index, answer);
    }
    if (rc == SQLITE_OK) {
        answer->values_left_out += s->columns.unfit;
        return SQLITE_OK;
    }
    if (dbk_blame_sqlite(rc, DBK_MOMENT_ROW) != DBK_BLAME_ROW) {
        return rc;
    }
    dbk_sqlite_words(rc, sqlite3_errmsg(s->db), name_row(answer, index));
    return SQLITE_OK;
}

/* Inserts the rows. Ends early with a result that is no row's fault, when the names are full, or when
 * a constraint of the table's own making has rolled everything back. */
static int write_rows(struct sqlite_sink *s, const struct daybook_row *rows, size_t count,
                      struct daybook_answer *answer)
{
    char delivered[DAYBOOK_TIME_TEXT_MAX];
    struct daybook_bytes delivered_at = {delivered,
                                         daybook_time_format(s->os->realtime_us(s->os), delivered)};

    for (size_t i = 0; i < count; i++) {
        if (answer->rejected_count == DAYBOOK_REJECTED_MAX || sqlite3_get_autocommit(s->db) != 0) {
            return SQLITE_OK;
        }
        if (is_cut(s)) {
            return SQLITE_INTERRUPT;
        }
        int rc = write_row(s, &rows[i], i, delivered_at, answer);
        if (rc != SQLITE_OK) {
            return rc;
        }
    }
    return SQLITE_OK;
}

/* Ends a transaction that must leave nothing. A handle that cannot even do that is not used again. */
static void roll_back(struct sqlite_sink *s)
{
    /* The deadline may have passed; undoing must not be cut off by it. */
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    int rc = sqlite3_get_autocommit(s->db) != 0 ? SQLITE_OK : run(s->rollback);
    if (rc != SQLITE_OK) {
        close_database(s);
        return;
    }
    sqlite3_progress_handler(s->db, PROGRESS_STEPS, on_progress, s);
}

static bool wants_reopening(int rc)
{
    switch (rc & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
    case SQLITE_FULL:
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return false;
    default:
        return true;
    }
}

/* What SQLite calls interrupted or busy, in the words of who cut it off; NULL: it was not us. */
static const char *why_cut(struct sqlite_sink *s, int rc)
{
    int primary = rc & 0xFF;

    if ((primary != SQLITE_INTERRUPT && primary != SQLITE_BUSY) || !is_cut(s)) {
        return NULL;
    }
    if (is_interrupted(s)) {
        return "cut off because the process is stopping";
    }
    return primary == SQLITE_BUSY ? "another process held the lock until the time-out"
                                  : "cut off at the time-out";
}

/* Answers for a failure of the whole write, and undoes it. */
static void answer_failure(struct sqlite_sink *s, int rc, enum dbk_blame_moment moment,
                           struct daybook_answer *answer)
{
    const char *cut = why_cut(s, rc);

    dbk_sqlite_words(rc, cut != NULL ? cut : sqlite3_errmsg(s->db), &answer->words);
    answer->kind = dbk_blame_sqlite(rc, moment) == DBK_BLAME_DESTINATION
                       ? DAYBOOK_ANSWER_UNAVAILABLE
                       : DAYBOOK_ANSWER_REFUSED;
    answer->rejected_count = 0;
    answer->values_left_out = 0;
    roll_back(s);
    if (s->db != NULL && wants_reopening(rc)) {
        close_database(s);
    }
}

/* A constraint that waits for the commit speaks for a row, but says which only when there is one. */
static void answer_commit_failure(struct sqlite_sink *s, int rc, size_t count,
                                  struct daybook_answer *answer)
{
    bool row = dbk_blame_sqlite(rc, DBK_MOMENT_ROW) == DBK_BLAME_ROW;

    answer_failure(s, rc, DBK_MOMENT_BETWEEN, answer);
    if (answer->kind == DAYBOOK_ANSWER_UNAVAILABLE && wants_reopening(rc)) {
        answer->effect = DAYBOOK_EFFECT_UNKNOWN; /* the mark of the commit may be on the disk */
    }
    if (row && count > 1) {
        answer->refusal = DAYBOOK_REFUSAL_OF_A_ROW;
    } else if (row) {
        answer->kind = DAYBOOK_ANSWER_REJECTED;
        answer->rejected_count = 0;
        *name_row(answer, 0) = answer->words;
    }
}

static void sqlite_write(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                         int64_t deadline_us, struct daybook_answer *ret_answer)
{
    struct sqlite_sink *s = (struct sqlite_sink *)sink;
    struct daybook_answer *answer = ret_answer;

    s->deadline_us = deadline_us;
    if (is_cut(s)) {
        say(&answer->words, "SQLITE_INTERRUPT", "", "cut off before it began");
        return;
    }
    if (make_ready(s, &answer->words) != SQLITE_OK) {
        return;
    }
    int rc = run(s->begin);
    if (rc != SQLITE_OK) {
        answer_failure(s, rc, DBK_MOMENT_BETWEEN, answer);
        return;
    }
    rc = write_rows(s, rows, count, answer);
    if (rc != SQLITE_OK) {
        answer_failure(s, rc, DBK_MOMENT_ROW, answer);
        return;
    }
    if (answer->rejected_count > 0) {
        answer->kind = DAYBOOK_ANSWER_REJECTED;
        answer->values_left_out = 0;
        roll_back(s);
        return;
    }
    rc = run(s->commit);
    if (rc != SQLITE_OK) {
        answer_commit_failure(s, rc, count, answer);
        return;
    }
    answer->kind = DAYBOOK_ANSWER_ACCEPTED;
}

static void sqlite_interrupt(struct daybook_sink *sink)
{
    struct sqlite_sink *s = (struct sqlite_sink *)sink;

    atomic_store_explicit(&s->interrupted, 1, memory_order_release);
    dbk_futex_wake_all(&s->interrupted);
    dbk_mutex_lock(&s->lock);
    if (s->db != NULL) {
        sqlite3_interrupt(s->db);
    }
    dbk_mutex_unlock(&s->lock);
}

static enum daybook_code code_of(int rc)
{
    switch (rc & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return DAYBOOK_BUSY;
    case SQLITE_INTERRUPT:
        return DAYBOOK_TIMED_OUT;
    default:
        return DAYBOOK_BACKEND;
    }
}

static enum daybook_code sqlite_check(struct daybook_sink *sink, int64_t deadline_us,
                                      struct daybook_error *err)
{
    struct sqlite_sink *s = (struct sqlite_sink *)sink;
    struct daybook_words words = {0};

    s->deadline_us = deadline_us;
    int rc = make_ready(s, &words);
    if (rc == SQLITE_OK) {
        rc = run(s->begin);
        if (rc != SQLITE_OK) {
            dbk_sqlite_words(rc, sqlite3_errmsg(s->db), &words);
        }
        roll_back(s);
    }
    if (rc == SQLITE_OK) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, code_of(rc), "the sqlite destination %s cannot write to %s: %s (%s)",
                    sink->name, s->path, words.message, words.code);
}

static void sqlite_close(struct daybook_sink *sink)
{
    struct sqlite_sink *s = (struct sqlite_sink *)sink;

    close_database(s);
    dbk_mutex_release(&s->lock);
    free(s->path);
    free(s);
}

static const struct daybook_sink_ops sqlite_ops = {
    .kind = "sqlite",
    .write = sqlite_write,
    .interrupt = sqlite_interrupt,
    .check = sqlite_check,
    .close = sqlite_close,
};

/* ---- making ---------------------------------------------------------------------------------- */

/* Names that need no thought about quoting, in SQL here and in the queries of those who read it. */
static bool is_table_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    return len > 0 && len <= TABLE_NAME_MAX && name[len] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9') && sqlite3_strnicmp(name, "sqlite_", 7) != 0;
}

static enum daybook_code check_options(const struct daybook_sqlite_options *options,
                                       struct daybook_error *err)
{
    if (options == NULL || options->path == NULL || options->path[0] == '\0' ||
        options->path[0] == ':') {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the sqlite destination needs the path of a file (path:); a database in "
                        "memory would make every acknowledgement a lie");
    }
    if (options->table != NULL && !is_table_name(options->table)) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "table \"%.64s\" of the sqlite destination cannot be one: use 1 to %u "
                        "letters, digits and underscores, no digit first, not sqlite_...",
                        options->table, TABLE_NAME_MAX);
    }
    return DAYBOOK_OK;
}

enum daybook_code daybook_sqlite_open(const struct daybook_sqlite_options *options,
                                      struct daybook_sink **ret_sink, struct daybook_error *err)
{
    enum daybook_code code = check_options(options, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    struct sqlite_sink *s = calloc(1, sizeof *s);
    char *path = strdup(options->path);
    if (s == NULL || path == NULL) {
        free(path);
        free(s);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the sqlite destination");
    }
    s->head.ops = &sqlite_ops;
    (void)snprintf(s->head.name, sizeof s->head.name, "%s",
                   options->name != NULL ? options->name : "sqlite");
    (void)snprintf(s->table, sizeof s->table, "%s",
                   options->table != NULL ? options->table : "usage");
    s->path = path;
    s->os = dbk_os_posix();
    s->columns_mode = options->columns;
    dbk_mutex_init(&s->lock, DBK_RANK_SINK);
    *ret_sink = &s->head;
    return DAYBOOK_OK;
}
#endif
