/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine's handle: what it is opened with, and the table of its operations. Threads: as the public
 * headers say.
 */
#include "engines/postgres/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define APPEND_CONNECTIONS 2u
#define DELIVERY_CONNECTIONS 4u
#define QUERY_CONNECTIONS 2u
#define CONNECT_TIMEOUT_MS 10000u
#define STATEMENT_TIMEOUT_MS 30000u
#define LOCK_TIMEOUT_MS 10000u
#define TIMEOUT_MS_MAX 3600000u

void dbk_postgres_set_row_version(struct daybook_journal *journal, int32_t row_version)
{
    pg_of(journal)->row_version = row_version;
}

/* ---- wait and close ------------------------------------------------------------------------------ */

static uint32_t pg_changes(struct daybook_journal *j)
{
    return atomic_load(&pg_of(j)->changes);
}

static void pg_wait(struct daybook_journal *j, uint32_t seen, int64_t deadline_us)
{
    struct pg_journal *p = pg_of(j);

    while (atomic_load(&p->changes) == seen) {
        int64_t left_us = deadline_us == DAYBOOK_NO_DEADLINE ? -1 : deadline_us - pg_mono_us(p);

        if (deadline_us != DAYBOOK_NO_DEADLINE && left_us <= 0) {
            return;
        }
        dbk_futex_wait(&p->changes, seen, left_us);
    }
}

static void pg_wake(struct daybook_journal *j)
{
    dbk_pg_changed(pg_of(j));
}

static void pg_hurry(struct daybook_journal *j, int64_t until_us)
{
    atomic_store(&pg_of(j)->until_us, until_us);
}

static int64_t pg_monotonic_us(struct daybook_journal *j)
{
    return pg_mono_us(pg_of(j));
}

static void free_handle(struct pg_journal *p)
{
    dbk_pg_appenders_free(p);
    dbk_pg_pool_release(&p->delivery);
    dbk_pg_pool_release(&p->query);
    dbk_mutex_release(&p->mutex);
    if (p->dsn != NULL) {
        memset(p->dsn, 0, strlen(p->dsn));
    }
    free(p->dsn);
    free(p);
}

static enum daybook_code pg_close(struct daybook_journal *j, struct daybook_error *err)
{
    (void)err;
    free_handle(pg_of(j));
    return DAYBOOK_OK;
}

static const struct dbk_engine_ops pg_ops = {
    .backend = "postgres",
    .append_batch = dbk_pg_append_batch,
    .queue_new = dbk_pg_queue_new,
    .submit = dbk_pg_submit,
    .claim = dbk_pg_claim,
    .ack = dbk_pg_ack,
    .relinquish = dbk_pg_relinquish,
    .extend = dbk_pg_extend,
    .quarantine = dbk_pg_quarantine,
    .stats = dbk_pg_stats,
    .consumer_stats = dbk_pg_consumer_stats,
    .consumers = dbk_pg_consumers,
    .maintain = dbk_pg_maintain,
    .read = dbk_pg_read,
    .newest_acknowledged = dbk_pg_newest_acknowledged,
    .find = dbk_pg_find,
    .release = dbk_pg_release,
    .discard = dbk_pg_discard,
    .retire = dbk_pg_retire,
    .rewind = dbk_pg_rewind,
    .start = dbk_pg_start,
    .note_lift = dbk_pg_note_lift,
    .quarantine_list = dbk_pg_quarantine_list,
    .operations = dbk_pg_operations,
    .changes = pg_changes,
    .wait = pg_wait,
    .wake = pg_wake,
    .monotonic_us = pg_monotonic_us,
    .hurry = pg_hurry,
    .close = pg_close,
};

/* ---- opening --------------------------------------------------------------------------------------- */

static uint32_t or_else(uint32_t given, uint32_t otherwise)
{
    return given != 0 ? given : otherwise;
}

static enum daybook_code check_options(const struct daybook_postgres_options *o,
                                       struct daybook_error *err)
{
    if (o->dsn == NULL || o->dsn[0] == '\0') {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "the connection string of PostgreSQL is missing");
    }
    if (o->append_connections > DAYBOOK_POSTGRES_CONNECTIONS_MAX ||
        o->delivery_connections > DAYBOOK_POSTGRES_CONNECTIONS_MAX ||
        o->query_connections > DAYBOOK_POSTGRES_CONNECTIONS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "at most %u connections of a kind",
                        DAYBOOK_POSTGRES_CONNECTIONS_MAX);
    }
    if (o->connect_timeout_ms > TIMEOUT_MS_MAX || o->statement_timeout_ms > TIMEOUT_MS_MAX ||
        o->lock_timeout_ms > TIMEOUT_MS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "a time-out of PostgreSQL is at most an hour");
    }
    return dbk_pg_schema_name_check(o->schema != NULL ? o->schema : "daybook", err);
}

/* libpq's own words about a connection string repeat parts of it. */
static enum daybook_code check_dsn(const char *dsn, struct daybook_error *err)
{
    PQconninfoOption *parsed = PQconninfoParse(dsn, NULL);

    /* A bare word is a database's name where PQconnectdbParams expands it. */
    if (parsed == NULL && (strchr(dsn, '=') != NULL || strstr(dsn, "://") != NULL)) {
        return dbk_fail(
            err, DAYBOOK_BAD_CONFIG,
            "the connection string of PostgreSQL is none that libpq understands (it is not "
            "shown: it may hold a password)");
    }
    PQconninfoFree(parsed);
    return DAYBOOK_OK;
}

static unsigned first_slot(const struct pg_journal *p)
{
    uint8_t draw = 0;

    return p->os->random(p->os, &draw, sizeof draw) == 0 ? draw % PG_SLOTS : 0;
}

/* A handle that has not connected yet. */
static enum daybook_code new_handle(const struct daybook_postgres_options *o,
                                    const struct dbk_os *os, struct pg_journal **ret,
                                    struct daybook_error *err)
{
    struct pg_journal *p = calloc(1, sizeof *p);
    enum daybook_code code;
    unsigned slot;

    if (p == NULL || (p->dsn = strdup(o->dsn)) == NULL) {
        free(p);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a journal");
    }
    code = dbk_capacity_fill(&o->capacity, &p->head.capacity, err);
    if (code != DAYBOOK_OK) {
        free(p->dsn);
        free(p);
        return code;
    }
    memcpy(p->schema, o->schema != NULL ? o->schema : "daybook",
           strlen(o->schema != NULL ? o->schema : "daybook") + 1);
    p->head.ops = &pg_ops;
    p->os = os;
    p->clock = o->clock;
    p->connect_timeout_ms = or_else(o->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    p->statement_timeout_ms = or_else(o->statement_timeout_ms, STATEMENT_TIMEOUT_MS);
    p->lock_timeout_ms = or_else(o->lock_timeout_ms, LOCK_TIMEOUT_MS);
    p->row_version = PG_ROW_VERSION;
    p->trusted_us = DAYBOOK_TIME_UNSET;
    atomic_store(&p->until_us, DAYBOOK_NO_DEADLINE);
    dbk_mutex_init(&p->mutex, DBK_RANK_STATE);
    slot = first_slot(p);
    dbk_pg_pool_init(&p->delivery, or_else(o->delivery_connections, DELIVERY_CONNECTIONS),
                     slot + PG_SLOTS / 2);
    dbk_pg_pool_init(&p->query, or_else(o->query_connections, QUERY_CONNECTIONS),
                     slot + PG_SLOTS / 2 + DELIVERY_CONNECTIONS);
    *ret = p;
    return DAYBOOK_OK;
}

/* What is asked of the server once. */
static enum daybook_code look_around(struct pg_journal *p, struct daybook_error *err)
{
    PGresult *r = NULL;
    enum daybook_code code = dbk_pg_once(p, &p->query,
                                         "SELECT pg_catalog.current_setting('fsync') = 'on', "
                                         "o_now, o_newest_at, o_accepted, @.newest_now_1() FROM "
                                         "@.stats_1()",
                                         NULL, DAYBOOK_NO_DEADLINE, &r, err);

    if (code == DAYBOOK_OK) {
        p->fsync = dbk_pg_is(r, 0, 0);
        p->clock_ahead_of_mono_us = dbk_pg_int(r, 0, 1) - pg_mono_us(p);
        if (dbk_pg_int(r, 0, 3) > 0) {
            p->trusted_us = dbk_pg_int(r, 0, 2);
            p->trusted_mono_us = pg_mono_us(p);
        }
        p->newest_now_us = dbk_pg_int(r, 0, 4);
        PQclear(r);
    }
    return code;
}

static enum daybook_code open_checked(const struct daybook_postgres_options *options,
                                      struct pg_journal *p, struct daybook_error *err)
{
    struct daybook_postgres_schema_report report;
    enum daybook_code code = dbk_pg_schema_ready(p, options->create, &report, err);

    if (code == DAYBOOK_OK && report.found == 0) {
        code = dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the database has no schema %s of a journal: run `daybook migrate`, or set "
                        "create_schema",
                        p->schema);
    }
    if (code == DAYBOOK_OK) {
        code = look_around(p, err);
    }
    return code == DAYBOOK_OK
               ? dbk_pg_appenders_new(p, or_else(options->append_connections, APPEND_CONNECTIONS),
                                      first_slot(p), err)
               : code;
}

enum daybook_code dbk_postgres_open(const struct daybook_postgres_options *options,
                                    const struct dbk_os *os, struct daybook_journal **ret,
                                    struct daybook_error *err)
{
    struct pg_journal *p = NULL;
    enum daybook_code code = check_options(options, err);

    if (code == DAYBOOK_OK) {
        code = check_dsn(options->dsn, err);
    }
    if (code == DAYBOOK_OK) {
        code = new_handle(options, os, &p, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_assert(p != NULL);
    code = open_checked(options, p, err);
    if (code != DAYBOOK_OK) {
        free_handle(p);
        return code;
    }
    *ret = &p->head;
    return DAYBOOK_OK;
}

enum daybook_code daybook_postgres_open(const struct daybook_postgres_options *options,
                                        struct daybook_journal **ret_journal,
                                        struct daybook_error *err)
{
    if (options == NULL || ret_journal == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the options or where the journal goes is missing");
    }
    return dbk_postgres_open(options, dbk_os_posix(), ret_journal, err);
}

enum daybook_code daybook_postgres_migrate(const struct daybook_postgres_options *options,
                                           struct daybook_postgres_schema_report *ret_report,
                                           struct daybook_error *err)
{
    struct pg_journal *p = NULL;
    enum daybook_code code;

    if (options == NULL || ret_report == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the options or where the report goes is missing");
    }
    code = check_options(options, err);
    if (code == DAYBOOK_OK) {
        code = check_dsn(options->dsn, err);
    }
    if (code == DAYBOOK_OK) {
        code = new_handle(options, dbk_os_posix(), &p, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_assert(p != NULL);
    code = dbk_pg_schema_ready(p, options->create, ret_report, err);
    free_handle(p);
    return code;
}
