/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PostgreSQL: what another process has in flight while this one lists, acknowledges and claims (C11). The other
 * process is a connection of the test's own that has called the schema's append and has not committed yet.
 */
#include "harness/world.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>

#include "base/thread.h"

#define PATIENCE_MS 60000

static PGconn *other;

static PGresult *say(const char *sql)
{
    PGresult *r = PQexec(other, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s", PQresultErrorMessage(r));
    }
    return r;
}

/* Appends in the other process, and leaves it at that. */
static void append_in_flight(const struct contract_world *world, const char *id,
                             const char *subject)
{
    char sql[512];

    PQclear(say("BEGIN"));
    (void)snprintf(
        sql, sizeof sql,
        "SELECT * FROM %s.append_1(%lld, 31, 100, 0, false, NULL, 10, 1, ARRAY['%s'], "
        "ARRAY['space'], ARRAY['%s'], ARRAY[NULL]::bigint[], ARRAY['{}'], ARRAY[9], ARRAY[0])",
        world->directory, (long long)world->now_us, id, subject);
    PQclear(say(sql));
}

static int setup(void **state)
{
    const struct daybook_capacity capacity = world_capacity();

    if (getenv("DAYBOOK_TEST_DSN") == NULL) {
        return -1;
    }
    other = PQconnectdb(getenv("DAYBOOK_TEST_DSN"));
    *state = world_new(&contract_postgres, &capacity);
    return 0;
}

static int teardown(void **state)
{
    PQfinish(other);
    world_free(*state);
    return 0;
}

static void test_C11_a_listing_stops_below_an_append_in_flight(void **state)
{
    struct contract_world *world = *state;

    (void)put(world, "first", "k1");
    append_in_flight(world, "late", "k2");
    (void)put(world, "behind", "k3");
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "first");
    PQclear(say("ROLLBACK"));
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "first behind");
}

struct acknowledging {
    struct contract_world *world;
    struct daybook_hand_out hand_out;
    _Atomic bool done;
};

static void *acknowledge(void *arg)
{
    struct acknowledging *a = arg;
    enum daybook_code code = DAYBOOK_CODE_COUNT;

    if (daybook_journal_ack(a->world->journal, "billing", &a->hand_out, 1, a->world->now_us,
                            DAYBOOK_NO_DEADLINE, &code, NULL) != DAYBOOK_OK) {
        return NULL;
    }
    atomic_store(&a->done, code == DAYBOOK_OK);
    return NULL;
}

static bool somebody_waits(void)
{
    PGresult *r = say("SELECT 1 FROM pg_locks WHERE NOT granted");
    bool waits = PQntuples(r) > 0;

    PQclear(r);
    return waits;
}

/* The key's last event is acknowledged while its next one is on its way: it must not be lost from the key's lane. */
static void test_C11_what_is_appended_while_its_key_runs_empty_is_claimed(void **state)
{
    struct contract_world *world = *state;
    struct acknowledging a = {.world = world};
    struct daybook_delivery first;
    struct dbk_thread thread;

    (void)put(world, "first", "k");
    first = claim_one(world, "billing");
    a.hand_out = hand_out_of(&first);
    append_in_flight(world, "next", "k");
    assert_int_equal(dbk_thread_start(&thread, "acknowledge", acknowledge, &a), 0);
    for (int ms = 0; !atomic_load(&a.done) && !somebody_waits(); ms += 10) {
        assert_true(ms < PATIENCE_MS);
        (void)poll(NULL, 0, 10);
    }
    PQclear(say("COMMIT"));
    dbk_thread_join(&thread);
    assert_true(atomic_load(&a.done));
    assert_int_equal(figures(world, "billing").pending, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_C11_a_listing_stops_below_an_append_in_flight, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_C11_what_is_appended_while_its_key_runs_empty_is_claimed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
