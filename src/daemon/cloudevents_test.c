/* SPDX-License-Identifier: Apache-2.0 */
/* CloudEvents in binary mode: their structured form, as the HTTP binding and the JSON format have it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/cloudevents.h"
#include "event/form.h"

/* Headers are pairs, ended by NULL. The structured form, or the message, holds `want`. */
static void expect(const char *const *headers, const char *type, struct daybook_bytes body,
                   enum daybook_code code, const char *want)
{
    struct dbk_cloudevent event = {0};
    struct daybook_error err = {0};
    for (size_t i = 0; headers[i] != NULL; i += 2) {
        assert_true(dbk_cloudevent_is_header(headers[i]));
        dbk_cloudevent_attribute(&event, headers[i], headers[i + 1]);
    }
    enum daybook_code got = dbk_cloudevent_end(&event, type, body, &err);
    const char *text = got == DAYBOOK_OK ? event.text.data : err.message;
    if (got != code || strstr(text, want) == NULL) {
        fail_msg("%s \"%s\" instead of %s \"%s\"", daybook_code_name(got), text,
                 daybook_code_name(code), want);
    }
    dbk_text_release(&event.text);
}

static struct daybook_bytes bytes(const char *text)
{
    return (struct daybook_bytes){text, strlen(text)};
}

static const char *const usual[] = {"ce-specversion", "1.0", "CE-Type",    "t", "ce-id", "a",
                                    "ce-source",      "/s",  "Ce-Subject", "k", NULL};
#define USUAL                                                                                      \
    "{\"specversion\":\"1.0\",\"type\":\"t\",\"id\":\"a\",\"source\":\"/s\",\"subject\":\"k\""

static void test_data_by_its_type(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        struct daybook_bytes body;
        const char *want;
    } cases[] = {
        {"application/json",
         {"{ \"n\" : 1.0 }", 13},
         USUAL ",\"datacontenttype\":\"application/json\",\"data\":{ \"n\" : 1.0 }}"},
        {"application/json", {"\"just text\"", 11}, ",\"data\":\"just text\"}"},
        {"application/vnd.x+json; charset=utf-8", {"[1]", 3}, ",\"data\":[1]}"},
        {"text/json", {"null", 4}, ",\"data\":null}"},
        {"application/json", {"", 0}, USUAL ",\"datacontenttype\":\"application/json\"}"},
        {NULL, {"", 0}, USUAL "}"},
        {"text/plain", {"a \"b\"\n\xc3\xbc", 8}, ",\"data\":\"a \\\"b\\\"\\n\xc3\xbc\"}"},
        {"text/plain; charset=latin1", {"\xfc", 1}, ",\"data_base64\":\"/A==\"}"},
        {"text/plain", {"\xfc", 1}, ",\"data_base64\":\"/A==\"}"},
        {"text/plain", {"a\0b", 3}, ",\"data_base64\":\"YQBi\"}"},
        {"application/octet-stream", {"\xff\xfe", 2}, ",\"data_base64\":\"//4=\"}"},
        {"application/x-ndjson", {"{}\n", 3}, ",\"data_base64\":\"e30K\"}"},
        {NULL, {"abcd", 4}, USUAL ",\"data_base64\":\"YWJjZA==\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(usual, cases[i].type, cases[i].body, DAYBOOK_OK, cases[i].want);
    }
}

/* A body can hold one value and nothing behind it: it adds no attribute. */
static void test_data_that_is_no_json(void **state)
{
    (void)state;
    expect(usual, "application/json", bytes("1,\"subject\":\"other\""), DAYBOOK_MALFORMED_JSON,
           "at byte 1");
    expect(usual, "application/json", bytes("{\"n\":"), DAYBOOK_MALFORMED_JSON, "at byte 5");
    expect(usual, "application/json", bytes(" "), DAYBOOK_MALFORMED_JSON, "");
    expect(usual, "application/json", bytes("1}"), DAYBOOK_MALFORMED_JSON, "at byte 1");
}

static void test_headers_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *want;
    } cases[] = {
        {"Euro%20%E2%82%AC%20%F0%9F%98%80", "\"x\":\"Euro \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"100%25", "\"x\":\"100%\""},
        {"%2525", "\"x\":\"%25\""}, /* one round */
        {"\"quoted \\\"x\\\" %41\"", "\"x\":\"quoted \\\"x\\\" A\""},
        {"\"a\\\\b\"", "\"x\":\"a\\\\b\""},
        {"\xc3\xbc", "\"x\":\"\xc3\xbc\""},
        {"", "\"x\":\"\""},
        {"\"", "\"x\":\"\\\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const headers[] = {"ce-x", cases[i].value, NULL};
        expect(headers, NULL, bytes(""), DAYBOOK_OK, cases[i].want);
    }
    static const char *const broken[] = {"%", "%4", "%zz", "a%4", "%ff", "\xfc", "%00"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *const headers[] = {"ce-x", broken[i], NULL};
        expect(headers, NULL, bytes(""), DAYBOOK_INVALID_EVENT,
               "header ce-x is not percent-encoded");
    }
}

static void test_headers_that_are_no_attribute(void **state)
{
    (void)state;
    static const char *const names[] = {"ce-", "ce-request_id", "ce-data", "ce-datacontenttype",
                                        "ce-a.b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *const headers[] = {"ce-id", "a", names[i], "v", NULL};
        expect(headers, NULL, bytes(""), DAYBOOK_INVALID_EVENT, "names no attribute");
    }
    assert_false(dbk_cloudevent_is_header("content-type"));
    assert_false(dbk_cloudevent_is_header("c"));
}

/* E6: one event in both modes is one fact. */
static void test_E6_binary_and_structured_are_the_same_fact(void **state)
{
    (void)state;
    struct dbk_cloudevent binary = {0};
    struct daybook_event_names names[2];
    struct daybook_event events[2] = {{.record = {NULL, 0}}, {.record = {NULL, 0}}};
    for (size_t i = 0; usual[i] != NULL; i += 2) {
        dbk_cloudevent_attribute(&binary, usual[i], usual[i + 1]);
    }
    dbk_cloudevent_attribute(&binary, "ce-time", "2026-01-02T03:04:05Z");
    assert_int_equal(dbk_cloudevent_end(&binary, "application/json", bytes("{\"n\":1}"), NULL),
                     DAYBOOK_OK);
    static const char structured[] =
        "{\"data\":{\"n\":1.0},\"datacontenttype\":\"application/json\",\"subject\":\"k\","
        "\"id\":\"a\",\"source\":\"/s\",\"type\":\"t\",\"specversion\":\"1.0\"}";
    struct daybook_bytes forms[2] = {{binary.text.data, binary.text.len},
                                     {structured, sizeof structured - 1}};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            dbk_event_read(forms[i], DBK_EVENT_CLOUDEVENT, NULL, &names[i], &events[i], NULL),
            DAYBOOK_OK);
    }
    assert_true(daybook_event_same_fact(&events[0], &events[1]));
    dbk_text_release(&binary.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_by_its_type),
        cmocka_unit_test(test_data_that_is_no_json),
        cmocka_unit_test(test_headers_are_decoded),
        cmocka_unit_test(test_headers_that_are_no_attribute),
        cmocka_unit_test(test_E6_binary_and_structured_are_the_same_fact),
    };
    return cmocka_run_group_tests_name("CloudEvents in binary mode", tests, NULL, NULL);
}
