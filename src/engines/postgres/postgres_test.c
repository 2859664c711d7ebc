/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the PostgreSQL engine says without a server: names of schemas, connection strings, the statements of the
 * schema. On a server it is the contract's suite that asks (tests/contract).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <daybook/postgres.h>

static enum daybook_code try_open(const char *dsn, const char *schema, struct daybook_error *err)
{
    const struct daybook_postgres_options options = {
        .dsn = dsn, .schema = schema, .connect_timeout_ms = 2000};
    struct daybook_journal *journal = NULL;

    *err = (struct daybook_error){.code = DAYBOOK_OK};
    return daybook_postgres_open(&options, &journal, err);
}

static void test_a_schema_name_carries_no_sql(void **state)
{
    static const char *const names[] = {
        "",
        "a\"b",
        "a; DROP TABLE x",
        "a.b",
        "pg_catalog",
        "Upper",
        "1st",
        "a b",
        "a$fn$",
        "\xc3\xa4",
        "a'b",
        "a@b",
        "a-b",
        "a234567890123456789012345678901234567890123456789012345678901234"};
    struct daybook_error err;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *sql = NULL;

        assert_int_equal(try_open("host=127.0.0.1 port=1", names[i], &err), DAYBOOK_BAD_CONFIG);
        assert_non_null(strstr(err.message, "schema"));
        assert_int_equal(daybook_postgres_schema_sql(names[i], 0, &sql, &err), DAYBOOK_BAD_CONFIG);
        assert_null(sql);
    }
}

static void test_A5_no_message_holds_a_part_of_the_connection_string(void **state)
{
    static const struct {
        const char *dsn;
        enum daybook_code code;
    } cases[] = {
        {"host=127.0.0.1 port=1 user=marked password=marked dbname=marked", DAYBOOK_BACKEND},
        {"postgresql://marked:marked@127.0.0.1:1/marked", DAYBOOK_BACKEND},
        {"host=/nowhere/marked user=marked", DAYBOOK_BACKEND},
        {"host=marked.invalid user=marked password=marked", DAYBOOK_BACKEND},
        {"host=127.0.0.1 marked password='marked", DAYBOOK_BAD_CONFIG},
        {"postgresql://marked:marked@[marked/", DAYBOOK_BAD_CONFIG},
        {"host=127.0.0.1 no_such_marked=marked", DAYBOOK_BAD_CONFIG},
        {"", DAYBOOK_BAD_CONFIG},
    };
    struct daybook_error err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(try_open(cases[i].dsn, NULL, &err), cases[i].code);
        assert_true(err.message[0] != '\0');
        assert_null(strstr(err.message, "marked"));
    }
}

static void test_the_statements_of_the_schema(void **state)
{
    struct daybook_error err;
    char *sql = NULL;

    (void)state;
    assert_int_equal(daybook_postgres_schema_sql("books", 0, &sql, &err), DAYBOOK_OK);
    assert_non_null(strstr(sql, "CREATE TABLE \"books\".event ("));
    assert_null(strchr(sql, '@'));
    free(sql);
    assert_int_equal(daybook_postgres_schema_sql(NULL, 1, &sql, &err), DAYBOOK_OK);
    assert_string_equal(sql, ""); /* it is this build's already */
    free(sql);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_schema_name_carries_no_sql),
        cmocka_unit_test(test_A5_no_message_holds_a_part_of_the_connection_string),
        cmocka_unit_test(test_the_statements_of_the_schema),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
