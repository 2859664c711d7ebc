/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine as a subject of the contract's tests: one server for the program, on the caller's clock, a
 * few schemas that are emptied and used in turn. A kill and a close are the same to it: what was committed is there.
 */
#include "harness/world.h"

#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>

#include "engines/postgres/postgres.h"

#define SCHEMAS 4u /* at most two worlds stand beside each other */
#define SQL_BYTES 2048u
#define PATIENCE_MS 600000u /* a busy machine is no failure */

/* Of the server that tests/harness/postgres_server.py has started. */
static const char *dsn(void)
{
    const char *given = getenv("DAYBOOK_TEST_DSN");

    if (given == NULL) {
        print_message(
            "# skipped: run it as tests/harness/postgres_server.py PROGRAM: DAYBOOK_TEST_DSN "
            "names no server\n");
        skip();
    }
    return given;
}

/* A connection of the test's own. */
static PGconn *own_connection(void)
{
    static PGconn *connection;

    if (connection == NULL || PQstatus(connection) != CONNECTION_OK) {
        PQfinish(connection);
        connection = PQconnectdb(dsn());
    }
    return connection;
}

static void say(const char *sql)
{
    PGresult *r = PQexec(own_connection(), sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s", PQresultErrorMessage(r));
    }
    PQclear(r);
}

static void empty_schema(const char *schema)
{
    char sql[SQL_BYTES];

    (void)snprintf(sql, sizeof sql,
                   "SET search_path = %s; TRUNCATE key, event, consumer, lane, mark, delivered, "
                   "rewound, counter, operation RESTART IDENTITY; "
                   "ALTER SEQUENCE position_seq RESTART; ALTER SEQUENCE token_seq RESTART; "
                   "INSERT INTO counter (slot) SELECT generate_series(0, 31); RESET search_path",
                   schema);
    say(sql);
}

static struct daybook_postgres_options options_of(const struct contract_world *world,
                                                  const struct daybook_capacity *capacity)
{
    return (struct daybook_postgres_options){.dsn = dsn(),
                                             .schema = world->directory,
                                             .create = DAYBOOK_POSTGRES_CREATE_YES,
                                             .capacity = *capacity,
                                             .clock = DAYBOOK_POSTGRES_CLOCK_CALLER,
                                             .statement_timeout_ms = PATIENCE_MS,
                                             .lock_timeout_ms = PATIENCE_MS};
}

static void next_schema(struct contract_world *world)
{
    static bool made[SCHEMAS];
    static unsigned next;
    unsigned no = next++ % SCHEMAS;

    (void)own_connection();
    (void)snprintf(world->directory, sizeof world->directory, "w%u", no);
    if (made[no]) {
        empty_schema(world->directory);
    }
    made[no] = true;
}

static enum daybook_code open_postgres(struct contract_world *world,
                                       const struct daybook_capacity *capacity,
                                       struct daybook_error *err)
{
    struct daybook_postgres_options options;

    next_schema(world);
    options = options_of(world, capacity);
    return dbk_postgres_open(&options, &world->disk->os, &world->journal, err);
}

static enum daybook_code reopen_postgres(struct contract_world *world, enum contract_end end,
                                         const struct daybook_capacity *capacity,
                                         struct daybook_error *err)
{
    struct daybook_postgres_options options = options_of(world, capacity);
    enum daybook_code code = daybook_journal_close(world->journal, err);

    (void)end;
    world->journal = NULL;
    return code == DAYBOOK_OK ? dbk_postgres_open(&options, &world->disk->os, &world->journal, err)
                              : code;
}

static enum daybook_code open_postgres_shared(struct contract_world *world,
                                              const struct daybook_capacity *capacity,
                                              struct daybook_error *err)
{
    struct daybook_postgres_options options;

    next_schema(world);
    options = options_of(world, capacity);
    return daybook_postgres_open(&options, &world->journal, err);
}

static enum daybook_code append_newer_postgres(struct contract_world *world,
                                               const struct daybook_event *event,
                                               struct daybook_append_result *ret)
{
    enum daybook_code code;

    dbk_postgres_set_row_version(world->journal, 2);
    code = daybook_journal_append(world->journal, event, world->now_us, DAYBOOK_NO_DEADLINE, ret,
                                  &world->err);
    dbk_postgres_set_row_version(world->journal, 1);
    return code;
}

/* Another last byte: the text is as long as it was, and its checksum is not. */
static void spoil_postgres(struct contract_world *world, uint64_t position)
{
    char sql[SQL_BYTES];

    (void)snprintf(sql, sizeof sql,
                   "UPDATE %s.event SET record = left(record, -1) || '~' WHERE pos = %llu",
                   world->directory, (unsigned long long)position);
    say(sql);
}

const struct contract_engine contract_postgres = {.name = "postgres",
                                                  .open = open_postgres,
                                                  .reopen = reopen_postgres,
                                                  .open_shared = open_postgres_shared,
                                                  .append_newer = append_newer_postgres,
                                                  .spoil = spoil_postgres};
