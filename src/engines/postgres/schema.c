/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema: looked at by each opening, made in one transaction where that was asked for. Versions only go forward; a
 * step from one to the next is additive, so that an older process beside a newer one goes on.
 * Threads: any; one at a time per handle.
 */
#include "engines/postgres/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MISSING_MAX 256u

enum daybook_code dbk_pg_schema_name_check(const char *name, struct daybook_error *err)
{
    size_t len = strnlen(name, DAYBOOK_POSTGRES_SCHEMA_MAX + 1);
    bool good = len > 0 && len <= DAYBOOK_POSTGRES_SCHEMA_MAX && strncmp(name, "pg_", 3) != 0;

    for (size_t i = 0; good && i < len; i++) {
        good = (name[i] >= 'a' && name[i] <= 'z') || name[i] == '_' ||
               (i > 0 && name[i] >= '0' && name[i] <= '9');
    }
    return good ? DAYBOOK_OK
                : dbk_fail(err, DAYBOOK_BAD_CONFIG,
                           "a schema's name is 1 to %u characters of a to z, 0 to 9 and _, does "
                           "not begin "
                           "with a digit or pg_",
                           DAYBOOK_POSTGRES_SCHEMA_MAX);
}

/* ---- the statements ------------------------------------------------------------------------------ */

struct text {
    char *bytes;
    size_t len;
    size_t room;
    bool failed;
};

static void add(struct text *t, const char *s, size_t len)
{
    if (!t->failed && t->len + len + 1 > t->room) {
        size_t room = (t->len + len + 1) * 2;
        char *bytes = realloc(t->bytes, room);

        t->failed = bytes == NULL;
        if (bytes != NULL) {
            t->bytes = bytes;
            t->room = room;
        }
    }
    if (!t->failed && t->bytes != NULL) {
        memcpy(t->bytes + t->len, s, len);
        t->len += len;
        t->bytes[t->len] = '\0';
    }
}

static void add_expanded(struct text *t, const char *line, const char *schema)
{
    const char *at;

    while ((at = strchr(line, '@')) != NULL) {
        add(t, line, (size_t)(at - line));
        add(t, "\"", 1);
        add(t, schema, strlen(schema));
        add(t, "\"", 1);
        line = at + 1;
    }
    add(t, line, strlen(line));
}

enum daybook_code daybook_postgres_schema_sql(const char *schema, uint32_t from, char **ret_sql,
                                              struct daybook_error *err)
{
    struct text t = {.len = 0};
    enum daybook_code code;

    if (ret_sql == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "where the statements go is missing");
    }
    schema = schema != NULL ? schema : "daybook";
    code = dbk_pg_schema_name_check(schema, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    add(&t, "", 0);
    for (size_t i = 0; from < 1 && dbk_pg_schema_1[i] != NULL; i++) {
        add_expanded(&t, dbk_pg_schema_1[i], schema);
    }
    if (t.failed) {
        free(t.bytes);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the statements of the schema");
    }
    *ret_sql = t.bytes;
    return DAYBOOK_OK;
}

/* ---- looking -------------------------------------------------------------------------------------- */

/* What this build needs, by name; what is missing, or may not be used, comes back. */
static const char *const needs_sql =
    "SELECT pg_catalog.string_agg(n.what, ', ') FROM ("
    "SELECT 'table '||v.t AS what FROM (VALUES "
    "('key'),('event'),('consumer'),('lane'),('mark'),('delivered'),"
    "('rewound'),('counter'),('operation')) v(t) WHERE pg_catalog.to_regclass('@.'||v.t) IS NULL "
    "OR NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass('@.'||v.t), 'SELECT') "
    "OR NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass('@.'||v.t), 'INSERT') "
    "OR NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass('@.'||v.t), 'UPDATE') "
    "OR NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass('@.'||v.t), 'DELETE') "
    "UNION ALL SELECT 'column '||v.t||'.'||v.c FROM (VALUES "
    "('key','key_id'),('key','namespace'),('key','subject'),"
    "('event','pos'),('event','key_id'),('event','row_version'),('event','bytes'),('event','"
    "checksum'),('event','damaged'),"
    "('event','observed_at'),('event','accepted_at'),('event','request_id'),('event','record'),('"
    "consumer','id'),"
    "('consumer','name'),('consumer','start'),('consumer','start_at'),('consumer','token_floor'),('"
    "lane','consumer_id'),"
    "('lane','key_id'),('lane','head'),('lane','row_version'),('lane','resolved_through'),('lane','"
    "handed_through'),"
    "('lane','lease_until'),('lane','lease_granted'),('mark','consumer_id'),('mark','pos'),('mark',"
    "'key_id'),"
    "('mark','resolution'),('mark','handed'),('mark','refunded'),('mark','attempt'),('mark','hand_"
    "outs'),('mark','token'),"
    "('mark','survivor'),('mark','lease_granted'),('mark','lease_expires'),('mark','reason'),('"
    "mark','attempts_then'),"
    "('mark','quarantined_at'),('mark','words'),('delivered','pos'),('delivered','accepted_at'),('"
    "rewound','pos'),"
    "('counter','slot'),('operation','no')) v(t,c) WHERE NOT EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_attribute a WHERE "
    "a.attrelid = pg_catalog.to_regclass('@.'||v.t) AND a.attname = v.c AND NOT a.attisdropped) "
    "UNION ALL SELECT 'sequence '||v.s FROM (VALUES ('position_seq'),('token_seq')) v(s) "
    "WHERE pg_catalog.to_regclass('@.'||v.s) IS NULL "
    "OR NOT pg_catalog.has_sequence_privilege(pg_catalog.to_regclass('@.'||v.s), 'USAGE') "
    "UNION ALL SELECT 'index '||v.i FROM (VALUES "
    "('key_pkey'),('key_name'),('event_pkey'),('event_request_id'),"
    "('event_key'),('event_damaged'),('consumer_pkey'),('consumer_name'),('lane_pkey'),('lane_"
    "claimable'),('lane_leased'),"
    "('mark_pkey'),('mark_leased'),('mark_ahead'),('mark_quarantined'),('mark_set_aside'),('mark_"
    "dropped'),"
    "('delivered_pkey'),('rewound_pkey'),('counter_pkey'),('operation_pkey')) v(i) WHERE "
    "pg_catalog.to_regclass('@.'||v.i) IS NULL "
    "UNION ALL SELECT 'function '||v.f FROM (VALUES "
    "('append_1'),('claim_1'),('hand_out_1'),('standing_1'),('settle_1'),"
    "('register_1'),('start_1'),('note_lift_1'),('retire_1'),('rewind_1'),('record_1'),('reopen_1')"
    ",('read_1'),('find_1'),('"
    "quarantine_list_1'),"
    "('standings_1'),('control_1'),('stats_1'),('consumer_stats_1'),('prune_1'),('reclaim_1'),('"
    "drop_1'),('forget_1'),"
    "('forget_open_1'),('open_from_1'),('unresolved_1'),('horizon_1'),('newest_now_1'),('sweep_1'),"
    "('clock_1'),('"
    "low32_1'),('live_1'),"
    "('next_position_1')) v(f) WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc f WHERE "
    "f.proname = v.f AND "
    "f.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE "
    "pg_catalog.quote_ident(n.nspname) = "
    "pg_catalog.quote_ident($1)) AND pg_catalog.has_function_privilege(f.oid, 'EXECUTE'))) n";

static enum daybook_code find_version(struct pg_journal *p, struct pg_conn *conn, uint32_t *ret,
                                      struct daybook_error *err)
{
    const struct pg_step there = {"SELECT pg_catalog.to_regclass('@.schema_version') IS NOT NULL",
                                  NULL};
    const struct pg_step version = {"SELECT version FROM @.schema_version", NULL};
    PGresult *r = NULL;
    enum daybook_code code =
        dbk_pg_run(p, conn, PG_BEGIN | PG_COMMIT, &there, 1, DAYBOOK_NO_DEADLINE, &r, err);
    bool is_there = code == DAYBOOK_OK && dbk_pg_is(r, 0, 0);

    PQclear(r);
    r = NULL;
    *ret = 0;
    if (code == DAYBOOK_OK && is_there) {
        code = dbk_pg_run(p, conn, PG_BEGIN | PG_COMMIT, &version, 1, DAYBOOK_NO_DEADLINE, &r, err);
        *ret = code == DAYBOOK_OK && PQntuples(r) == 1 ? (uint32_t)dbk_pg_int(r, 0, 0) : 0;
        PQclear(r);
    }
    return code;
}

static enum daybook_code check_names(struct pg_journal *p, struct pg_conn *conn,
                                     struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    const struct pg_step needs = {needs_sql, &args};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(p->schema));
    code = dbk_pg_run(p, conn, PG_BEGIN | PG_COMMIT, &needs, 1, DAYBOOK_NO_DEADLINE, &r, err);
    if (code == DAYBOOK_OK && PQgetisnull(r, 0, 0) == 0) {
        code = dbk_fail(
            err, DAYBOOK_BAD_CONFIG,
            "schema %s is not whole, or its role may not use it: %.*s; see docs/POSTGRES.md",
            p->schema, (int)MISSING_MAX, PQgetvalue(r, 0, 0));
    }
    PQclear(r);
    return code;
}

/* ---- making ---------------------------------------------------------------------------------------- */

/* One after the other where several processes start at once; whoever comes second finds it made. */
static enum daybook_code make(struct pg_journal *p, struct pg_conn *conn, struct daybook_error *err)
{
    static const char *const head =
        "BEGIN; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('daybook schema @')); ";
    struct text t = {.len = 0};
    char *sql = NULL;
    PGresult *r;
    enum daybook_code code = daybook_postgres_schema_sql(p->schema, 0, &sql, err);
    bool made = false;

    if (code != DAYBOOK_OK) {
        return code;
    }
    add_expanded(&t, head, p->schema);
    add_expanded(
        &t,
        "SELECT pg_catalog.to_regclass('@.schema_version') IS NOT NULL, EXISTS (SELECT 1 FROM "
        "pg_catalog.pg_namespace n WHERE pg_catalog.quote_ident(n.nspname) = "
        "pg_catalog.quote_ident('",
        p->schema);
    add(&t, p->schema, strlen(p->schema));
    add(&t, "'));", 3);
    if (t.failed || PQexitPipelineMode(conn->pg) != 1) {
        free(t.bytes);
        free(sql);
        return dbk_fail(err, DAYBOOK_BACKEND, "no memory for the statements of the schema");
    }
    r = PQexec(conn->pg, t.bytes);
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQgetvalue(r, 0, 0)[0] == 'f') {
        bool has_schema = PQgetvalue(r, 0, 1)[0] == 't';

        t.len = 0;
        if (!has_schema) {
            add_expanded(&t, "CREATE SCHEMA @; ", p->schema);
        }
        add(&t, sql, strlen(sql));
        PQclear(r);
        r = t.failed ? NULL : PQexec(conn->pg, t.bytes);
    }
    if (r != NULL &&
        (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)) {
        PQclear(r);
        r = PQexec(conn->pg, "COMMIT");
        made = PQresultStatus(r) == PGRES_COMMAND_OK;
    }
    if (!made) {
        const char *said = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

        code = dbk_fail(
            err, DAYBOOK_BAD_CONFIG,
            "schema %s cannot be made: %s; the role needs CREATE on the database, or run the "
            "statements of `daybook migrate` by hand",
            p->schema, said != NULL ? said : "the connection was lost");
    }
    PQclear(r);
    free(t.bytes);
    free(sql);
    dbk_pg_disconnect(conn); /* out of the pipeline: made anew when it is needed */
    return code;
}

enum daybook_code dbk_pg_schema_ready(struct pg_journal *p, enum daybook_postgres_create create,
                                      struct daybook_postgres_schema_report *ret,
                                      struct daybook_error *err)
{
    struct pg_conn *conn = NULL;
    enum daybook_code code = dbk_pg_take(p, &p->query, DAYBOOK_NO_DEADLINE, &conn, err);

    *ret = (struct daybook_postgres_schema_report){.wanted = DBK_PG_SCHEMA_VERSION};
    if (code != DAYBOOK_OK) {
        return code;
    }
    ret->server_version = (uint32_t)PQserverVersion(conn->pg);
    code = find_version(p, conn, &ret->found, err);
    if (code == DAYBOOK_OK && ret->found == 0 && create == DAYBOOK_POSTGRES_CREATE_YES) {
        code = make(p, conn, err);
        if (code == DAYBOOK_OK) {
            code = dbk_pg_connect(p, conn, DAYBOOK_NO_DEADLINE, err);
        }
        if (code == DAYBOOK_OK) {
            code = find_version(p, conn, &ret->found, err);
        }
    }
    if (code == DAYBOOK_OK && ret->found > 0) {
        code = check_names(p, conn, err);
    }
    dbk_pg_give(p, &p->query, conn);
    return code;
}
