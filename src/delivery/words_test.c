/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K4: a destination's words in a quarantine entry are JSON, whatever the destination said, and fit.
 */
#include "delivery/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static char buf[DAYBOOK_WORDS_BYTES_MAX + 1];

static const char *encoded(const char *sink, const struct daybook_words *words)
{
    struct daybook_bytes bytes = dbk_words_encode(sink, words, buf);

    assert_ptr_equal(bytes.data, buf);
    assert_true(bytes.len <= DAYBOOK_WORDS_BYTES_MAX);
    buf[bytes.len] = '\0';
    return buf;
}

/* Takes the text apart again. Returns how many members it has. */
static unsigned members(const char *text)
{
    struct dbk_json json;
    unsigned count = 0;
    enum dbk_json_token token;

    dbk_json_init(&json, (struct daybook_bytes){text, strlen(text)}, NULL);
    do {
        token = dbk_json_next(&json);
        count += token == DBK_JSON_NAME ? 1 : 0;
        assert_int_not_equal(token, DBK_JSON_FAULT);
    } while (token != DBK_JSON_END);
    return count;
}

static void test_K4_words_are_kept_apart(void **state)
{
    (void)state;
    struct daybook_words words = {.code = "SQLITE_CONSTRAINT_CHECK",
                                  .constraint = "cost \"positive\"",
                                  .column = "cost_microdollars",
                                  .message = "CHECK failed: \\ naïve"};

    assert_string_equal(encoded("ledger", &words),
                        "{\"sink\":\"ledger\",\"code\":\"SQLITE_CONSTRAINT_CHECK\","
                        "\"constraint\":\"cost \\\"positive\\\"\",\"column\":\"cost_microdollars\","
                        "\"message\":\"CHECK failed: \\\\ naïve\"}");
}

static void test_K4_what_was_not_said_is_left_out(void **state)
{
    (void)state;
    struct daybook_words words = {.message = "no"};

    assert_string_equal(encoded("ledger", &words), "{\"sink\":\"ledger\",\"message\":\"no\"}");
    words.message[0] = '\0';
    assert_string_equal(encoded("", &words), "{}");
}

static void test_K4_words_are_JSON_whatever_was_said(void **state)
{
    (void)state;
    /* Fields without a NUL, of bytes that grow most, that are no UTF-8, or that a cut would split. */
    static const int fills[] = {'\x01', '"', 0xFF, 0x80, 'x', 0xC3};
    struct daybook_words words;
    char sink[64];

    memset(sink, '\x01', sizeof sink - 1);
    sink[sizeof sink - 1] = '\0';
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        memset(&words, fills[i], sizeof words);
        assert_int_equal(members(encoded(sink, &words)), 5);
    }
}

static void test_K4_long_words_are_cut_between_characters(void **state)
{
    (void)state;
    struct daybook_words words = {.code = "x"};

    for (size_t i = 0; i + 2 < sizeof words.message; i += 2) {
        memcpy(words.message + i, "ü", 2);
    }
    memset(words.constraint, '\x01', sizeof words.constraint);
    memset(words.column, '\x01', sizeof words.column);
    assert_int_equal(members(encoded("ledger", &words)), 5);
    assert_null(strstr(buf, "\xEF\xBF\xBD"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_K4_words_are_kept_apart),
        cmocka_unit_test(test_K4_what_was_not_said_is_left_out),
        cmocka_unit_test(test_K4_words_are_JSON_whatever_was_said),
        cmocka_unit_test(test_K4_long_words_are_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
