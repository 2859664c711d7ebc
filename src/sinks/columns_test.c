/* SPDX-License-Identifier: Apache-2.0 */
/* Which members fill which columns, and what does not fit (W12: a billed column rejects its row). */
#include "sinks/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void read_record(const char *json, struct dbk_columns *columns)
{
    struct daybook_bytes record = {json, strlen(json)};

    dbk_columns_read(record, columns);
}

static void assert_text(const struct dbk_columns *columns, enum dbk_column column, const char *want)
{
    const struct dbk_column_value *value = &columns->values[column];

    assert_int_equal(value->kind, DBK_VALUE_TEXT);
    assert_int_equal(value->text.len, strlen(want));
    assert_memory_equal(value->text.data, want, value->text.len);
}

static void test_W12_every_column_is_found(void **state)
{
    static struct dbk_columns columns;

    (void)state;
    read_record("{\"request_id\":\"r\",\"attempts\":1,\"latency_ms\":2,\"cost_microdollars\":3,"
                "\"reasoning_tokens\":4,\"cache_write_tokens\":5,\"cache_read_tokens\":6,"
                "\"output_tokens\":7,\"input_tokens\":8,\"status\":\"ok\",\"target_model\":\"m2\","
                "\"target_provider\":\"p\",\"model\":\"m\",\"trace_id\":\"t\",\"other\":[1,{}]}",
                &columns);
    assert_int_equal(columns.unfit, 0);
    for (unsigned i = DBK_COLUMN_INPUT_TOKENS; i < DBK_COLUMN_COUNT; i++) {
        static const int64_t want[] = {8, 7, 6, 5, 4, 3, 2, 1};
        assert_int_equal(columns.values[i].kind, DBK_VALUE_INTEGER);
        assert_int_equal(columns.values[i].integer, want[i - DBK_COLUMN_INPUT_TOKENS]);
    }
    assert_text(&columns, DBK_COLUMN_TRACE_ID, "t");
    assert_text(&columns, DBK_COLUMN_MODEL, "m");
    assert_text(&columns, DBK_COLUMN_TARGET_PROVIDER, "p");
    assert_text(&columns, DBK_COLUMN_TARGET_MODEL, "m2");
    assert_text(&columns, DBK_COLUMN_STATUS, "ok");
}

static void test_W12_only_the_top_level_counts_and_null_is_empty(void **state)
{
    static struct dbk_columns columns;

    (void)state;
    read_record("{ \"a\" : {\"model\":\"inner\",\"input_tokens\":\"x\"},\n\"model\":null,"
                "\"input_token\":1,\"input_tokens_\":2,\"\":3}",
                &columns);
    assert_int_equal(columns.unfit, 0);
    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        assert_int_equal(columns.values[i].kind, DBK_VALUE_EMPTY);
    }
}

static void test_W12_escapes_in_names_and_texts(void **state)
{
    static struct dbk_columns columns;

    (void)state;
    read_record("{\"m\\u006fdel\":\"gr\\u00f6\\u00dfer \\ud83d\\ude00\\n\",\"status\":\"a\\/b\","
                "\"input_tokens\\u0020\":\"no column\"}",
                &columns);
    assert_int_equal(columns.unfit, 0);
    assert_text(&columns, DBK_COLUMN_MODEL, "größer \xF0\x9F\x98\x80\n");
    assert_text(&columns, DBK_COLUMN_STATUS, "a/b");
}

static void test_W12_numbers_by_exact_value(void **state)
{
    static const struct {
        const char *json;
        enum dbk_value_kind kind;
        int64_t value;
    } cases[] = {
        {"{\"cost_microdollars\":100.0}", DBK_VALUE_INTEGER, 100},
        {"{\"cost_microdollars\":1e2}", DBK_VALUE_INTEGER, 100},
        {"{\"cost_microdollars\":-5}", DBK_VALUE_INTEGER, -5},
        {"{\"cost_microdollars\":9223372036854775807}", DBK_VALUE_INTEGER, INT64_MAX},
        {"{\"cost_microdollars\":9223372036854775808}", DBK_VALUE_UNFIT, 0},
        {"{\"cost_microdollars\":1.5}", DBK_VALUE_UNFIT, 0},
        {"{\"cost_microdollars\":\"1\"}", DBK_VALUE_UNFIT, 0},
        {"{\"cost_microdollars\":true}", DBK_VALUE_UNFIT, 0},
        {"{\"cost_microdollars\":[1]}", DBK_VALUE_UNFIT, 0},
    };
    static struct dbk_columns columns;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct dbk_column_value *value = &columns.values[DBK_COLUMN_COST_MICRODOLLARS];
        read_record(cases[i].json, &columns);
        assert_int_equal(value->kind, cases[i].kind);
        assert_int_equal(columns.unfit_billed, cases[i].kind == DBK_VALUE_UNFIT ? 1 : 0);
        if (value->kind == DBK_VALUE_INTEGER) {
            assert_int_equal(value->integer, cases[i].value);
        }
    }
}

static void test_W12_light_columns_do_not_weigh(void **state)
{
    static struct dbk_columns columns;

    (void)state;
    read_record("{\"latency_ms\":1.5,\"model\":{},\"status\":200}", &columns);
    assert_int_equal(columns.unfit, 2);
    assert_int_equal(columns.unfit_billed, 0);
    assert_text(&columns, DBK_COLUMN_STATUS, "200");
}

static void test_W12_texts_have_a_limit(void **state)
{
    static struct dbk_columns columns;
    static char json[8 * DBK_COLUMN_TEXT_MAX];
    static const char *const names[] = {"trace_id", "model", "target_provider", "target_model",
                                        "status"};
    size_t len = 0;

    (void)state;
    /* Each at the limit after unescaping: the scratch must hold all of them at once. */
    for (size_t i = 0; i < DBK_COLUMN_TEXT_COUNT; i++) {
        len += (size_t)sprintf(json + len, "%s\"%s\":\"\\t", i == 0 ? "{" : ",", names[i]);
        memset(json + len, 'x', DBK_COLUMN_TEXT_MAX - 1);
        len += DBK_COLUMN_TEXT_MAX - 1;
        json[len++] = '"';
    }
    json[len++] = '}';
    json[len] = '\0';
    read_record(json, &columns);
    assert_int_equal(columns.unfit, 0);
    assert_int_equal(columns.values[DBK_COLUMN_STATUS].text.len, DBK_COLUMN_TEXT_MAX);

    len = (size_t)sprintf(json, "{\"model\":\"");
    memset(json + len, 'x', DBK_COLUMN_TEXT_MAX + 1);
    memcpy(json + len + DBK_COLUMN_TEXT_MAX + 1, "\"}", 3);
    read_record(json, &columns);
    assert_int_equal(columns.unfit, 1);
    assert_int_equal(columns.values[DBK_COLUMN_MODEL].kind, DBK_VALUE_UNFIT);
}

static void test_W12_what_is_no_record_is_empty(void **state)
{
    static struct dbk_columns columns;

    (void)state;
    read_record("[\"model\",\"x\"]", &columns);
    assert_int_equal(columns.values[DBK_COLUMN_MODEL].kind, DBK_VALUE_EMPTY);
    read_record("", &columns);
    assert_int_equal(columns.values[DBK_COLUMN_MODEL].kind, DBK_VALUE_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_W12_every_column_is_found),
        cmocka_unit_test(test_W12_only_the_top_level_counts_and_null_is_empty),
        cmocka_unit_test(test_W12_escapes_in_names_and_texts),
        cmocka_unit_test(test_W12_numbers_by_exact_value),
        cmocka_unit_test(test_W12_light_columns_do_not_weigh),
        cmocka_unit_test(test_W12_texts_have_a_limit),
        cmocka_unit_test(test_W12_what_is_no_record_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
