/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: made when they are needed, given up when they are lost, and the one way to say something over them.
 * What goes wrong is told in words of this file or in the server's primary message; libpq's own texts repeat
 * parts of the connection string and are never passed on.
 *
 * Threads: a connection belongs to whoever has taken it; pools: any.
 */
#include "engines/postgres/impl.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define SQL_MAX 8192u
#define US_PER_MS 1000
#define POLL_MS_MAX 250 /* whether the journal is to be closed is looked at this often */
#define TCP_USER_TIMEOUT_MS "20000"
#define PATIENCE_MS 1000 /* with an answer that the server's own time-outs should have ended */

void dbk_pg_changed(struct pg_journal *p)
{
    atomic_fetch_add(&p->changes, 1);
    dbk_futex_wake_all(&p->changes);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Waits until the socket is ready for `events`. False: the deadline has come. */
static bool wait_socket(const struct pg_journal *p, PGconn *pg, short events, int64_t deadline_us)
{
    struct pollfd fd = {.fd = PQsocket(pg), .events = events};

    for (;;) {
        int64_t left_us = earlier(deadline_us, atomic_load(&p->until_us)) - pg_mono_us(p);
        int64_t left_ms = POLL_MS_MAX;

        if (left_us <= 0) {
            return false;
        }
        left_ms = earlier(left_us / US_PER_MS + 1, left_ms);
        if (poll(&fd, 1, (int)left_ms) != 0) {
            return true; /* errors show when the socket is read */
        }
    }
}

static enum daybook_code timed_out(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_TIMED_OUT, "PostgreSQL has not answered before the deadline");
}

/* ---- connecting --------------------------------------------------------------------------------- */

static void swallow_notice(void *user, const PGresult *result)
{
    (void)user;
    (void)result;
}

/* Why there is no connection, in words that hold nothing of the connection string. */
static enum daybook_code refused(PGconn *pg, struct daybook_error *err)
{
    static const struct {
        const char *part;
        const char *means;
    } causes[] = {
        {"password authentication failed", "the password was refused"},
        {"no password supplied", "the server wants a password"},
        {"no pg_hba.conf entry", "pg_hba.conf has no entry for this client"},
        {"authentication failed", "the authentication failed"},
        {"certificate", "the certificate was not accepted"},
        {"SSL", "TLS could not be set up"},
        {"translate host name", "its host name cannot be resolved"},
        {"does not exist", "the database or the role does not exist"},
        {"too many clients", "all of the server's connections are in use"},
        {"remaining connection slots", "all of the server's connections are in use"},
        {"starting up", "the server is starting"},
        {"shutting down", "the server is shutting down"},
        {"refused", "nothing listens there"},
        {"No such file", "nothing listens there"},
        {"timeout", "it did not answer in time"},
        {"not permitted", "the role may not connect"},
    };
    const char *said = pg != NULL ? PQerrorMessage(pg) : "";

    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        if (strstr(said, causes[i].part) != NULL) {
            return dbk_fail(err, DAYBOOK_BACKEND, "no connection to PostgreSQL: %s",
                            causes[i].means);
        }
    }
    return dbk_fail(err, DAYBOOK_BACKEND, "no connection to PostgreSQL");
}

static enum daybook_code check_server(const PGconn *pg, struct daybook_error *err)
{
    const char *encoding = PQparameterStatus(pg, "server_encoding");

    if (PQserverVersion(pg) < 130000) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "PostgreSQL %d is older than 13: the journal needs 13 or later",
                        PQserverVersion(pg) / 10000);
    }
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        return dbk_fail(
            err, DAYBOOK_BAD_CONFIG,
            "the database's encoding is %s: records are stored byte for byte only in UTF8",
            encoding != NULL ? encoding : "unknown");
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_pg_connect(struct pg_journal *p, struct pg_conn *conn, int64_t deadline_us,
                                 struct daybook_error *err)
{
    const char *const keys[] = {"dbname", "fallback_application_name", "client_encoding",
                                "tcp_user_timeout", NULL};
    const char *const values[] = {p->dsn, "daybook", "UTF8", TCP_USER_TIMEOUT_MS, NULL};
    int64_t until_us = pg_mono_us(p) + (int64_t)p->connect_timeout_ms * US_PER_MS;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    enum daybook_code code = DAYBOOK_OK;

    if (conn->pg != NULL) {
        return DAYBOOK_OK;
    }
    until_us = earlier(deadline_us, until_us);
    conn->pg = PQconnectStartParams(keys, values, 1);
    if (conn->pg == NULL) {
        return dbk_fail(err, DAYBOOK_BACKEND, "no memory for a connection to PostgreSQL");
    }
    while (PQstatus(conn->pg) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
           state != PGRES_POLLING_FAILED) {
        if (!wait_socket(p, conn->pg, state == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                         until_us)) {
            dbk_pg_disconnect(conn);
            return until_us == deadline_us ? timed_out(err)
                                           : dbk_fail(err, DAYBOOK_BACKEND,
                                                      "no connection to PostgreSQL: it did not "
                                                      "answer in time");
        }
        state = PQconnectPoll(conn->pg);
    }
    code =
        PQstatus(conn->pg) == CONNECTION_OK ? check_server(conn->pg, err) : refused(conn->pg, err);
    if (code == DAYBOOK_OK) {
        (void)PQsetNoticeReceiver(conn->pg, swallow_notice, NULL);
        if (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1) {
            code = dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL takes no pipeline");
        }
    }
    if (code != DAYBOOK_OK) {
        dbk_pg_disconnect(conn);
    }
    return code;
}

void dbk_pg_disconnect(struct pg_conn *conn)
{
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->in_txn = false;
}

/* ---- pools ---------------------------------------------------------------------------------------- */

void dbk_pg_pool_init(struct pg_pool *pool, unsigned count, unsigned first_slot)
{
    dbk_mutex_init(&pool->mutex, DBK_RANK_SEGMENTS);
    pool->count = count;
    for (unsigned i = 0; i < count; i++) {
        pool->conns[i].slot = (first_slot + i) % PG_SLOTS;
    }
}

void dbk_pg_pool_release(struct pg_pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++) {
        dbk_pg_disconnect(&pool->conns[i]);
    }
    dbk_mutex_release(&pool->mutex);
}

static struct pg_conn *take_free(struct pg_pool *pool)
{
    struct pg_conn *found = NULL;

    dbk_mutex_lock(&pool->mutex);
    for (unsigned i = 0; i < pool->count; i++) {
        struct pg_conn *conn = &pool->conns[i];

        /* One that is connected before one that is not. */
        if (!conn->taken && (found == NULL || (found->pg == NULL && conn->pg != NULL))) {
            found = conn;
        }
    }
    if (found != NULL) {
        found->taken = true;
    }
    dbk_mutex_unlock(&pool->mutex);
    return found;
}

static void put_back(struct pg_pool *pool, struct pg_conn *conn)
{
    dbk_mutex_lock(&pool->mutex);
    conn->taken = false;
    dbk_mutex_unlock(&pool->mutex);
    atomic_fetch_add(&pool->word, 1);
    dbk_futex_wake_one(&pool->word);
}

/* A connection that the server closed while nobody used it is made anew rather than failed on. */
static void drop_if_dead(struct pg_conn *conn)
{
    struct pollfd fd;

    if (conn->pg == NULL) {
        return;
    }
    fd = (struct pollfd){.fd = PQsocket(conn->pg), .events = POLLIN};
    if (poll(&fd, 1, 0) > 0 &&
        ((fd.revents & (POLLHUP | POLLERR)) != 0 || PQconsumeInput(conn->pg) != 1 ||
         PQstatus(conn->pg) != CONNECTION_OK)) {
        dbk_pg_disconnect(conn);
    }
}

enum daybook_code dbk_pg_take(struct pg_journal *p, struct pg_pool *pool, int64_t deadline_us,
                              struct pg_conn **ret, struct daybook_error *err)
{
    struct pg_conn *conn;
    enum daybook_code code;

    for (;;) {
        uint32_t seen = atomic_load(&pool->word);
        int64_t left_us = deadline_us == DAYBOOK_NO_DEADLINE ? -1 : deadline_us - pg_mono_us(p);

        conn = take_free(pool);
        if (conn != NULL) {
            break;
        }
        if (deadline_us != DAYBOOK_NO_DEADLINE && left_us <= 0) {
            return timed_out(err);
        }
        dbk_futex_wait(&pool->word, seen, left_us);
    }
    drop_if_dead(conn);
    code = dbk_pg_connect(p, conn, deadline_us, err);
    if (code != DAYBOOK_OK) {
        put_back(pool, conn);
        return code;
    }
    *ret = conn;
    return DAYBOOK_OK;
}

void dbk_pg_give(struct pg_journal *p, struct pg_pool *pool, struct pg_conn *conn)
{
    if (conn == NULL) {
        return;
    }
    if (conn->in_txn) {
        const struct pg_step rollback = {"ROLLBACK", NULL};
        PGresult *result = NULL;

        if (dbk_pg_run(p, conn, 0, &rollback, 1, DAYBOOK_NO_DEADLINE, &result, NULL) ==
            DAYBOOK_OK) {
            PQclear(result);
        } else {
            dbk_pg_disconnect(conn);
        }
        conn->in_txn = false;
    }
    put_back(pool, conn);
}

/* ---- a round ---------------------------------------------------------------------------------------- */

/* `sql` with the quoted schema for each `@`. */
static void expand(const struct pg_journal *p, const char *sql, char *ret)
{
    size_t used = 0;

    for (; *sql != '\0'; sql++) {
        if (*sql == '@') {
            used += (size_t)snprintf(ret + used, SQL_MAX - used, "\"%s\"", p->schema);
        } else {
            ret[used++] = *sql;
        }
        dbk_assert(used + DAYBOOK_POSTGRES_SCHEMA_MAX + 3 < SQL_MAX);
    }
    ret[used] = '\0';
}

static bool send_step(const struct pg_journal *p, PGconn *pg, const struct pg_step *step)
{
    static const struct pg_args none;
    const struct pg_args *args = step->args != NULL ? step->args : &none;
    char sql[SQL_MAX];

    expand(p, step->sql, sql);
    return PQsendQueryParams(pg, sql, args->count, args->types, args->values, args->lengths,
                             args->formats, 1) == 1;
}

static bool send_plain(PGconn *pg, const char *sql)
{
    return PQsendQueryParams(pg, sql, 0, NULL, NULL, NULL, NULL, 1) == 1;
}

static bool send_time_out(PGconn *pg, const char *name, int64_t ms)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "SET LOCAL %s = %lld", name, (long long)ms);
    return send_plain(pg, sql);
}

/* What each transaction sets for itself: four statements that need no plan, which all together cost the server less than one
 * SELECT. A role or a database that has switched synchronous_commit off does not switch it off for a journal (A1). */
static bool send_begin(const struct pg_journal *p, PGconn *pg, unsigned ends, int64_t deadline_us)
{
    int64_t statement_ms = p->statement_timeout_ms;

    if (deadline_us != DAYBOOK_NO_DEADLINE) {
        int64_t left_ms = (deadline_us - pg_mono_us(p)) / US_PER_MS + 1;

        statement_ms = left_ms > 0 && left_ms < statement_ms ? left_ms : statement_ms;
    }
    return send_plain(pg, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE") &&
           send_time_out(pg, "statement_timeout", statement_ms) &&
           send_time_out(pg, "lock_timeout", p->lock_timeout_ms) &&
           send_time_out(pg, "idle_in_transaction_session_timeout", p->statement_timeout_ms) &&
           ((ends & PG_DURABLE) != 0 ||
            send_plain(pg, "SELECT pg_catalog.set_config('synchronous_commit','on',true) WHERE "
                           "pg_catalog.current_setting('synchronous_commit') = 'off'"));
}

/* How many statements that sends. */
static unsigned begin_statements(unsigned ends)
{
    if ((ends & PG_BEGIN) == 0) {
        return 0;
    }
    return (ends & PG_DURABLE) != 0 ? 4 : 5;
}

/* Writes what is buffered and reads whatever comes meanwhile. */
static enum daybook_code flush(const struct pg_journal *p, PGconn *pg, int64_t deadline_us,
                               struct daybook_error *err)
{
    for (;;) {
        int left = PQflush(pg);

        if (left == 0) {
            return DAYBOOK_OK;
        }
        if (left < 0 || PQconsumeInput(pg) != 1) {
            return dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost");
        }
        if (!wait_socket(p, pg, POLLIN | POLLOUT, deadline_us)) {
            return timed_out(err);
        }
    }
}

/* The next result; NULL: the end of a statement. */
static enum daybook_code next_result(const struct pg_journal *p, PGconn *pg, int64_t deadline_us,
                                     PGresult **ret, struct daybook_error *err)
{
    while (PQisBusy(pg) != 0) {
        if (!wait_socket(p, pg, POLLIN, deadline_us)) {
            return timed_out(err);
        }
        if (PQconsumeInput(pg) != 1) {
            return dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost");
        }
    }
    *ret = PQgetResult(pg);
    return *ret == NULL && PQstatus(pg) != CONNECTION_OK
               ? dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost")
               : DAYBOOK_OK;
}

static enum daybook_code judge(const PGresult *r, struct daybook_error *err)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *said = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

    if (state == NULL) {
        return dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost");
    }
    /* Deadlock, serialisation, and an id that another one has just stored. */
    if (strcmp(state, "40P01") == 0 || strcmp(state, "40001") == 0 || strcmp(state, "23505") == 0) {
        return PG_AGAIN;
    }
    if (strcmp(state, "57014") == 0 || strcmp(state, "55P03") == 0) {
        return dbk_fail(err, DAYBOOK_TIMED_OUT, "PostgreSQL ended the statement: %s (SQLSTATE %s)",
                        said != NULL ? said : "a time-out", state);
    }
    return dbk_fail(err, DAYBOOK_BACKEND, "PostgreSQL says: %s (SQLSTATE %s)",
                    said != NULL ? said : "nothing", state);
}

/* Reads the results of `count` statements and of the sync behind them; the first `skipped` and what is behind
 * `kept` are only judged. */
static enum daybook_code collect(const struct pg_journal *p, PGconn *pg, unsigned skipped,
                                 unsigned kept, int64_t deadline_us, PGresult **ret_results,
                                 struct daybook_error *err)
{
    enum daybook_code first = DAYBOOK_OK;
    bool ended_statement = false;
    unsigned statement = 0;

    for (;;) {
        PGresult *r = NULL;
        enum daybook_code code = next_result(p, pg, deadline_us, &r, err);
        ExecStatusType status;

        if (code != DAYBOOK_OK) {
            return code;
        }
        if (r == NULL) {
            /* Behind each statement; behind none where the connection is gone. */
            if (ended_statement) {
                return dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost");
            }
            ended_statement = true;
            statement++;
            continue;
        }
        ended_statement = false;
        status = PQresultStatus(r);
        if (status == PGRES_PIPELINE_SYNC) {
            PQclear(r);
            return first;
        }
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
            if (first == DAYBOOK_OK && status != PGRES_PIPELINE_ABORTED) {
                first = judge(r, err);
            }
            PQclear(r);
            if (PQstatus(pg) != CONNECTION_OK) {
                return first != DAYBOOK_OK && first != PG_AGAIN ? first : DAYBOOK_BACKEND;
            }
        } else if (statement >= skipped && statement - skipped < kept) {
            ret_results[statement - skipped] = r;
        } else {
            PQclear(r);
        }
    }
}

static enum daybook_code run(struct pg_journal *p, struct pg_conn *conn, unsigned ends,
                             const struct pg_step *steps, unsigned count, int64_t deadline_us,
                             PGresult **ret_results, struct daybook_error *err)
{
    enum daybook_code code;
    bool sent = (ends & PG_BEGIN) == 0 || send_begin(p, conn->pg, ends, deadline_us);

    conn->in_txn = conn->in_txn || (ends & PG_BEGIN) != 0;
    for (unsigned i = 0; sent && i < count; i++) {
        if (steps[i].args != NULL && steps[i].args->failed) {
            return dbk_fail(err, DAYBOOK_BACKEND, "no memory for the arguments of a statement");
        }
        sent = send_step(p, conn->pg, &steps[i]);
    }
    if (sent && (ends & PG_COMMIT) != 0) {
        sent = send_plain(conn->pg, "COMMIT");
    }
    if (!sent || PQpipelineSync(conn->pg) != 1) {
        return dbk_fail(err, DAYBOOK_BACKEND, "the connection to PostgreSQL was lost");
    }
    code = flush(p, conn->pg, deadline_us, err);
    return code == DAYBOOK_OK
               ? collect(p, conn->pg, begin_statements(ends), count, deadline_us, ret_results, err)
               : code;
}

/* When a server that is alive has answered so many statements and a commit, or has ended them. One that hangs ends
 * nothing, and nobody waits for it for ever. */
static int64_t patience_us(const struct pg_journal *p, unsigned count)
{
    int64_t longest_ms = (int64_t)(count + 1) * p->statement_timeout_ms + PATIENCE_MS;

    return pg_mono_us(p) + longest_ms * US_PER_MS;
}

enum daybook_code dbk_pg_run(struct pg_journal *p, struct pg_conn *conn, unsigned ends,
                             const struct pg_step *steps, unsigned count, int64_t deadline_us,
                             PGresult **ret_results, struct daybook_error *err)
{
    enum daybook_code code;
    PGTransactionStatusType status;
    int64_t end_us = patience_us(p, count);
    bool patient = end_us < deadline_us;

    dbk_assert(count <= PG_STEPS_MAX);
    for (unsigned i = 0; i < count; i++) {
        ret_results[i] = NULL;
    }
    code = run(p, conn, ends, steps, count, patient ? end_us : deadline_us, ret_results, err);
    status = PQtransactionStatus(conn->pg);
    conn->in_txn = status != PQTRANS_IDLE;
    if (code == DAYBOOK_OK) {
        return code;
    }
    if (code == DAYBOOK_TIMED_OUT && patient && pg_mono_us(p) >= end_us) {
        code = dbk_fail(err, DAYBOOK_BACKEND, "PostgreSQL does not answer");
    }
    for (unsigned i = 0; i < count; i++) {
        PQclear(ret_results[i]);
        ret_results[i] = NULL;
    }
    /* In the middle of something: whatever comes yet would be taken for an answer to the next question. */
    if (PQstatus(conn->pg) != CONNECTION_OK || status == PQTRANS_ACTIVE ||
        code == DAYBOOK_TIMED_OUT) {
        dbk_pg_disconnect(conn);
    } else if (conn->in_txn) {
        const struct pg_step rollback = {"ROLLBACK", NULL};
        PGresult *result = NULL;

        if (run(p, conn, 0, &rollback, 1, patience_us(p, 1), &result, NULL) != DAYBOOK_OK) {
            dbk_pg_disconnect(conn);
        }
        PQclear(result);
        conn->in_txn = false;
    }
    return code;
}

enum daybook_code dbk_pg_once(struct pg_journal *p, struct pg_pool *pool, const char *sql,
                              const struct pg_args *args, int64_t deadline_us, PGresult **ret,
                              struct daybook_error *err)
{
    const struct pg_step step = {sql, args};
    struct pg_conn *conn = NULL;
    enum daybook_code code = dbk_pg_take(p, pool, deadline_us, &conn, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_assert(conn != NULL);
    for (unsigned try = 0; code == DAYBOOK_OK; try++) {
        code = dbk_pg_run(p, conn, PG_BEGIN | PG_COMMIT, &step, 1, deadline_us, ret, err);
        if (code != PG_AGAIN) {
            break;
        }
        code = try + 1 < PG_TRIES_MAX ? DAYBOOK_OK
                                      : dbk_fail(err, DAYBOOK_BACKEND,
                                                 "PostgreSQL ended the transaction again and "
                                                 "again: too much at once");
    }
    dbk_pg_give(p, pool, conn);
    return code;
}
