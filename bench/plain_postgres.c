/* SPDX-License-Identifier: Apache-2.0 */
/* The server and the plain client of plain_postgres.h. */
#include "plain_postgres.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DSN_MAX = 2048, PARAMETERS = 5 };

/* ---- the server --------------------------------------------------------------------------------- */

/* Waits on standard input, whose end it notices when this process ends, however it does. */
static void run_server(int to, int from)
{
    (void)dup2(from, STDIN_FILENO);
    (void)dup2(to, STDOUT_FILENO);
    (void)execlp("python3", "python3", "tests/harness/postgres_server.py", "--set",
                 "shared_buffers=1GB", "--set", "max_wal_size=8GB", "--set",
                 "shared_preload_libraries=pg_stat_statements", "sh", "-c",
                 "printf '%s\\n' \"$DAYBOOK_TEST_DSN\"; cat >/dev/null", (char *)NULL);
    _exit(2);
}

const char *postgres_server_start(void)
{
    static char dsn[DSN_MAX];
    const char *given = getenv("DAYBOOK_BENCH_DSN");
    int said[2];
    int open[2];

    if (given != NULL) {
        return given;
    }
    if (pipe(said) != 0 || pipe(open) != 0) {
        bench_die("no pipe to the server");
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(open[1]);
        (void)close(said[0]);
        run_server(said[1], open[0]);
    }
    (void)close(said[1]);
    (void)close(open[0]); /* open[1] is closed by the end of this process */
    FILE *from = child > 0 ? fdopen(said[0], "r") : NULL;
    if (from == NULL || fgets(dsn, sizeof dsn, from) == NULL) {
        return NULL;
    }
    dsn[strcspn(dsn, "\n")] = '\0';
    return dsn;
}

/* ---- the plain client ---------------------------------------------------------------------------- */

struct plain_worker {
    PGconn *pg;
    struct bench_event event;
};

struct plain {
    unsigned connections;
    struct plain_worker workers[PLAIN_CONNECTIONS_MAX];
};

static void expect(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        bench_die("the plain client: %s", PQerrorMessage(pg));
    }
    PQclear(result);
}

struct plain *plain_open(const char *dsn, unsigned connections)
{
    struct plain *plain = calloc(1, sizeof *plain);
    char table[32];
    char sql[512];

    if (plain == NULL) {
        bench_die("no memory for the plain client");
    }
    plain->connections = connections;
    (void)snprintf(table, sizeof table, "plain_%u", connections);
    for (unsigned i = 0; i < connections; i++) {
        struct plain_worker *w = &plain->workers[i];
        bench_event_init(&w->event, BENCH_EVENT_BYTES,
                         ((uint64_t)connections << 56) + ((uint64_t)i << 48));
        w->pg = PQconnectdb(dsn);
        if (PQstatus(w->pg) != CONNECTION_OK) {
            bench_die("the plain client: no connection");
        }
        if (i == 0) {
            (void)snprintf(sql, sizeof sql,
                           "CREATE TABLE %s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                           "request_id text "
                           "NOT NULL UNIQUE, namespace text NOT NULL, subject text NOT NULL, "
                           "observed_at bigint "
                           "NOT NULL, record text NOT NULL)",
                           table);
            expect(w->pg, PQexec(w->pg, sql));
        }
        (void)snprintf(sql, sizeof sql,
                       "INSERT INTO %s (request_id, namespace, subject, observed_at, record) "
                       "VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
                       table);
        expect(w->pg, PQprepare(w->pg, "append", sql, PARAMETERS, NULL));
    }
    return plain;
}

void plain_close(struct plain *plain)
{
    for (unsigned i = 0; i < plain->connections; i++) {
        PQfinish(plain->workers[i].pg);
    }
    free(plain);
}

static uint64_t insert(void *user, unsigned worker, const _Atomic uint32_t *stop)
{
    struct plain_worker *w = &((struct plain *)user)->workers[worker];
    uint64_t done = 0;

    for (; atomic_load(stop) == 0; done++) {
        char observed[24];
        bench_event_next(&w->event, bench_random(&w->event.random) % PLAIN_KEYS);
        const struct daybook_event *e = &w->event.event;
        (void)snprintf(observed, sizeof observed, "%lld", (long long)e->observed_at_us);
        const char *values[PARAMETERS] = {e->request_id.data, e->name_space.data, e->subject.data,
                                          observed, e->record.data};
        const int lengths[PARAMETERS] = {(int)e->request_id.len, (int)e->name_space.len,
                                         (int)e->subject.len, 0, (int)e->record.len};
        const int formats[PARAMETERS] = {1, 1, 1, 0, 1};
        expect(w->pg, PQexecPrepared(w->pg, "append", PARAMETERS, values, lengths, formats, 0));
    }
    return done;
}

double plain_run(void *user, double seconds)
{
    struct plain *plain = user;
    struct bench_crew crew = {plain->connections, insert, plain};
    struct bench_crew_done done = bench_crew_run(&crew, seconds);

    return (double)done.events / done.seconds;
}
