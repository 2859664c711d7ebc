/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules E1 to E7 as far as one event goes, times, request ids, and NDJSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <daybook/event.h>

#include "event/form.h"
#include "event/ndjson.h"
#include "event/request_id.h"

#define ID "req_0190a5f0-1b2c-7def-8abc-0123456789ab"

static struct daybook_bytes text(const char *s)
{
    return (struct daybook_bytes){s, strlen(s)};
}

static const struct daybook_event_limits any = {DAYBOOK_IDENTITY_ANY, 0};
static const struct daybook_event_limits uuidv7 = {DAYBOOK_IDENTITY_UUIDV7, 0};

static struct daybook_event good(void)
{
    return (struct daybook_event){.request_id = text("id-1"),
                                  .name_space = text("acme"),
                                  .subject = text("key-1"),
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = text("{\"a\":1}")};
}

/* The check says `code`, and its message speaks of `about`. */
static void checks(const struct daybook_event *event, const struct daybook_event_limits *limits,
                   enum daybook_code code, const char *about)
{
    struct daybook_error err = {0};
    enum daybook_code got = daybook_event_check(event, limits, &err);
    if (got != code || (code != DAYBOOK_OK && strstr(err.message, about) == NULL)) {
        print_error("%s: %s; wanted %s\n", daybook_code_name(got), err.message, about);
    }
    assert_int_equal(got, code);
    assert_int_equal(daybook_event_check(event, limits, NULL), code);
    if (code != DAYBOOK_OK) {
        assert_non_null(strstr(err.message, about));
        assert_null(strchr(err.message, '\n'));
        assert_int_equal(err.code, code);
    }
}

static void test_E1_an_event_is_its_five_fields(void **state)
{
    (void)state;
    struct daybook_event event = good();
    checks(&event, &any, DAYBOOK_OK, "");
    checks(&event, NULL, DAYBOOK_OK, "");
    checks(NULL, &any, DAYBOOK_BAD_ARGUMENT, "no event");
}

static void test_E2_identity_any(void **state)
{
    (void)state;
    struct daybook_event event = good();
    char longest[256];
    memset(longest, '~', sizeof longest);
    event.request_id = (struct daybook_bytes){longest, 255};
    checks(&event, &any, DAYBOOK_OK, "");
    event.request_id.len = 256;
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "request_id is longer than 255 bytes");
    event.request_id = (struct daybook_bytes){NULL, 0};
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "request_id is empty");
    for (int c = 0; c < 256; c++) {
        char id[3] = {'a', (char)c, 'b'};
        event.request_id = (struct daybook_bytes){id, 3};
        bool fine = c > ' ' && c <= '~';
        checks(&event, &any, fine ? DAYBOOK_OK : DAYBOOK_INVALID_EVENT, "printable ASCII");
    }
}

static void test_E2_identity_uuidv7(void **state)
{
    (void)state;
    struct daybook_event event = good();
    event.request_id = text(ID);
    checks(&event, &uuidv7, DAYBOOK_OK, "");
    static const char *const bad[] = {
        "",
        "id-1",
        "0190a5f0-1b2c-7def-8abc-0123456789ab",
        "req_0190a5f0-1b2c-7def-8abc-0123456789a",
        "req_0190a5f0-1b2c-7def-8abc-0123456789abc",
        "req_0190A5f0-1b2c-7def-8abc-0123456789ab",
        "REQ_0190a5f0-1b2c-7def-8abc-0123456789ab",
        "req_0190a5f0-1b2c-4def-8abc-0123456789ab",
        "req_0190a5f0-1b2c-7def-7abc-0123456789ab",
        "req_0190a5f0-1b2c-7def-cabc-0123456789ab",
        "req_0190a5f01-b2c-7def-8abc-0123456789ab",
        "req_0190a5f0-1b2c-7def-8abc-0123456789ag",
        "req_0190a5f0-1b2c-7def-8abc_0123456789ab",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        event.request_id = text(bad[i]);
        checks(&event, &uuidv7, DAYBOOK_INVALID_EVENT, "UUID of version 7");
    }
    static const char *const variants[] = {"8", "9", "a", "b"};
    for (size_t i = 0; i < 4; i++) {
        char id[64];
        (void)snprintf(id, sizeof id, "req_0190a5f0-1b2c-7def-%sabc-0123456789ab", variants[i]);
        event.request_id = text(id);
        checks(&event, &uuidv7, DAYBOOK_OK, "");
    }
}

static void test_E2_mint_is_a_uuidv7(void **state)
{
    (void)state;
    char id[DAYBOOK_REQUEST_ID_MINTED_BYTES + 1];
    static const uint8_t random[10] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t zeros[10] = {0};
    daybook_request_id_from(UINT64_C(0x0123456789ab), random, id);
    assert_string_equal(id, "req_01234567-89ab-7fff-bfff-ffffffffffff");
    assert_true(dbk_request_id_is_uuidv7(text(id)));
    daybook_request_id_from(0, zeros, id);
    assert_string_equal(id, "req_00000000-0000-7000-8000-000000000000");
    assert_true(dbk_request_id_is_uuidv7(text(id)));
    char later[DAYBOOK_REQUEST_ID_MINTED_BYTES + 1];
    daybook_request_id_from(1, zeros, later);
    assert_true(strcmp(id, later) < 0); /* sorts by time */
}

static void key_part_is(const char *bytes, size_t len, enum daybook_code code, const char *about)
{
    struct daybook_event event = good();
    event.name_space = (struct daybook_bytes){bytes, len};
    checks(&event, &any, code, about);
    if (code != DAYBOOK_OK) {
        checks(&event, &any, code, "namespace");
    }
    event = good();
    event.subject = (struct daybook_bytes){bytes, len};
    checks(&event, &any, code, about);
    if (code != DAYBOOK_OK) {
        checks(&event, &any, code, "subject");
    }
}

static void test_E3_namespace_and_subject(void **state)
{
    (void)state;
    char longest[256];
    memset(longest, 'x', sizeof longest);
    key_part_is(longest, 255, DAYBOOK_OK, "");
    key_part_is(longest, 256, DAYBOOK_INVALID_EVENT, "longer than 255 bytes");
    key_part_is(NULL, 0, DAYBOOK_INVALID_EVENT, "empty");
    key_part_is("a b/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 13, DAYBOOK_OK, "");
    key_part_is("\xc2\xa0", 2, DAYBOOK_OK, "");
    key_part_is("a\xff", 2, DAYBOOK_INVALID_EVENT, "not valid UTF-8 (at its byte 1)");
    key_part_is("\xc3", 1, DAYBOOK_INVALID_EVENT, "not valid UTF-8");
    key_part_is("\xed\xa0\x80", 3, DAYBOOK_INVALID_EVENT, "not valid UTF-8");
    key_part_is("a\0b", 3, DAYBOOK_INVALID_EVENT, "control character (at its byte 1)");
    for (int c = 0; c < 0x20; c++) {
        char bytes[1] = {(char)c};
        key_part_is(bytes, 1, DAYBOOK_INVALID_EVENT, "control character");
    }
    key_part_is("\x7f", 1, DAYBOOK_INVALID_EVENT, "control character");
    for (int c = 0x80; c < 0xa0; c++) {
        char bytes[2] = {'\xc2', (char)c};
        key_part_is(bytes, 2, DAYBOOK_INVALID_EVENT, "control character");
    }
}

static void test_E4_size_limit(void **state)
{
    (void)state;
    struct daybook_event event = good();
    static const struct daybook_event_limits tight = {DAYBOOK_IDENTITY_ANY, 7};
    checks(&event, &tight, DAYBOOK_OK, "");
    event.record = text("{\"a\":12}");
    checks(&event, &tight, DAYBOOK_TOO_LARGE, "max_event_bytes is 7");
    size_t len = DAYBOOK_EVENT_BYTES_DEFAULT;
    char *big = malloc(len + 1);
    assert_non_null(big);
    memset(big, ' ', len + 1);
    big[0] = '{';
    big[len - 1] = '}';
    event.record = (struct daybook_bytes){big, len};
    checks(&event, &any, DAYBOOK_OK, "");
    event.record.len = len + 1;
    checks(&event, &any, DAYBOOK_TOO_LARGE, "max_event_bytes");
    free(big);
}

static void test_E4_record_of_an_event(void **state)
{
    (void)state;
    struct daybook_event event = good();
    event.record = text("{\"a\":1,}");
    checks(&event, &any, DAYBOOK_MALFORMED_JSON, "byte 7");
    event.record = text("{\"a\":1}{}");
    checks(&event, &any, DAYBOOK_MALFORMED_JSON, "byte 7");
    event.record = text("{\"a\":1,\"a\":1}");
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "twice");
    event.record = text("[]");
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "not a JSON object");
    event.record = (struct daybook_bytes){NULL, 0};
    checks(&event, &any, DAYBOOK_MALFORMED_JSON, "byte 0");
}

/* --- E5 --------------------------------------------------------------------------------------- */

static void time_is(const char *s, const char *formatted)
{
    struct daybook_error err = {0};
    int64_t us = 0;
    enum daybook_code code = daybook_time_parse(text(s), &us, &err);
    if (code != DAYBOOK_OK) {
        print_error("%s: %s\n", s, err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
    char buf[DAYBOOK_TIME_TEXT_MAX];
    size_t len = daybook_time_format(us, buf);
    assert_int_equal(len, strlen(buf));
    assert_string_equal(buf, formatted);
}

static void test_E5_times_that_are_taken(void **state)
{
    (void)state;
    time_is("2026-01-31T12:34:56Z", "2026-01-31T12:34:56.000000Z");
    time_is("2026-01-31t12:34:56z", "2026-01-31T12:34:56.000000Z");
    time_is("2026-01-31T12:34:56.5Z", "2026-01-31T12:34:56.500000Z");
    time_is("2026-01-31T12:34:56.123456Z", "2026-01-31T12:34:56.123456Z");
    time_is("2026-01-31T12:34:56.1234569999999999999999999Z", "2026-01-31T12:34:56.123456Z");
    time_is("2026-01-31T12:34:56.000000999Z", "2026-01-31T12:34:56.000000Z");
    time_is("2026-01-31T00:30:00+01:00", "2026-01-30T23:30:00.000000Z");
    time_is("2026-12-31T23:30:00-00:45", "2027-01-01T00:15:00.000000Z");
    time_is("2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00.000000Z");
    time_is("2026-01-31T12:00:00+23:59", "2026-01-30T12:01:00.000000Z");
    time_is("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z");
    time_is("2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z");
    time_is("2000-01-01T00:00:00Z", "2000-01-01T00:00:00.000000Z");
    time_is("1999-12-31T23:30:00-01:00", "2000-01-01T00:30:00.000000Z");
    time_is("2099-12-31T23:59:59.999999Z", "2099-12-31T23:59:59.999999Z");
}

static void no_time(const char *s, const char *about)
{
    struct daybook_error err = {0};
    int64_t us = 77;
    enum daybook_code code = daybook_time_parse(text(s), &us, &err);
    if (code == DAYBOOK_OK || strstr(err.message, about) == NULL) {
        print_error("%s: %s; wanted %s\n", s, err.message, about);
    }
    assert_int_equal(code, DAYBOOK_INVALID_EVENT);
    assert_true(us == 77);
    assert_non_null(strstr(err.message, about));
}

static void test_E5_times_that_are_refused_with_the_reason(void **state)
{
    (void)state;
    no_time("2026-01-31T12:34:56", "no zone");
    no_time("2026-01-31T12:34:56.5", "no zone");
    no_time("2026-01-31T12:34:60Z", "second 60");
    no_time("2026-06-30T23:59:60Z", "second 60");
    no_time("2026-01-31T24:00:00Z", "hour 24");
    no_time("2026-01-31T25:00:00Z", "no such time of day");
    no_time("2026-01-31T12:60:00Z", "no such time of day");
    no_time("2026-01-31T12:34:61Z", "no such time of day");
    no_time("2026-02-29T00:00:00Z", "no such date");
    no_time("2026-04-31T00:00:00Z", "no such date");
    no_time("2026-13-01T00:00:00Z", "no such date");
    no_time("2026-00-01T00:00:00Z", "no such date");
    no_time("2026-01-00T00:00:00Z", "no such date");
    no_time("2026-01-32T00:00:00Z", "no such date");
    no_time("1999-12-31T23:59:59.999999Z", "2000 to 2099");
    no_time("2000-01-01T00:30:00+01:00", "2000 to 2099");
    no_time("2100-01-01T00:00:00Z", "2000 to 2099");
    no_time("2099-12-31T23:30:00-01:00", "2000 to 2099");
    no_time("2100-02-29T00:00:00Z", "no such date");
    no_time("0000-01-01T00:00:00Z", "2000 to 2099");
    no_time("2026-01-31T12:34:56.Z", "no digits");
    no_time("2026-01-31T12:34:56+0100", "zone");
    no_time("2026-01-31T12:34:56+1:00", "zone");
    no_time("2026-01-31T12:34:56+24:00", "zone");
    no_time("2026-01-31T12:34:56+01:60", "zone");
    no_time("2026-01-31T12:34:56+01", "zone");
    no_time("2026-01-31T12:34:56Zx", "zone");
    no_time("2026-01-31T12:34:56 Z", "zone");
    no_time("2026-01-31T12:34:56UTC", "zone");
    no_time("2026-01-31 12:34:56Z", "no date and time");
    no_time("2026-01-31", "no date and time");
    no_time("2026-1-31T12:34:56Z", "no date and time");
    no_time("2026-01-31T12:34Z", "no date and time");
    no_time("20260131T123456Z", "no date and time");
    no_time("+2026-01-31T12:34:56Z", "no date and time");
    no_time("", "no date and time");
    no_time("now", "no date and time");
}

static void test_E5_every_day_of_the_range_round_trips(void **state)
{
    (void)state;
    const int64_t day_us = INT64_C(86400) * 1000000;
    char before[DAYBOOK_TIME_TEXT_MAX] = "";
    for (int64_t us = DAYBOOK_OBSERVED_MIN_US; us < DAYBOOK_OBSERVED_END_US; us += day_us) {
        char buf[DAYBOOK_TIME_TEXT_MAX];
        size_t len = daybook_time_format(us + 1, buf);
        int64_t back = 0;
        assert_int_equal(daybook_time_parse((struct daybook_bytes){buf, len}, &back, NULL),
                         DAYBOOK_OK);
        assert_true(back == us + 1);
        assert_true(strcmp(before, buf) < 0);
        memcpy(before, buf, sizeof buf);
    }
    assert_string_equal(before, "2099-12-31T00:00:00.000001Z");
}

static void test_time_format_of_any_number(void **state)
{
    (void)state;
    char buf[DAYBOOK_TIME_TEXT_MAX];
    (void)daybook_time_format(0, buf);
    assert_string_equal(buf, "1970-01-01T00:00:00.000000Z");
    (void)daybook_time_format(-1, buf);
    assert_string_equal(buf, "1969-12-31T23:59:59.999999Z");
    assert_true(daybook_time_format(INT64_MIN, buf) < DAYBOOK_TIME_TEXT_MAX);
    assert_true(daybook_time_format(INT64_MAX, buf) < DAYBOOK_TIME_TEXT_MAX);
}

static void test_E5_range_of_microseconds(void **state)
{
    (void)state;
    struct daybook_event event = good();
    event.observed_at_us = DAYBOOK_OBSERVED_MIN_US;
    checks(&event, &any, DAYBOOK_OK, "");
    event.observed_at_us = DAYBOOK_OBSERVED_END_US - 1;
    checks(&event, &any, DAYBOOK_OK, "");
    event.observed_at_us = DAYBOOK_OBSERVED_MIN_US - 1;
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "2000 to 2099");
    event.observed_at_us = DAYBOOK_OBSERVED_END_US;
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "2000 to 2099");
    event.observed_at_us = INT64_C(1769860000);
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "looks like seconds");
    event.observed_at_us = INT64_C(1769860000000);
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "looks like milliseconds");
    event.observed_at_us = INT64_C(1769860000000000000);
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "looks like nanoseconds");
    event.observed_at_us = 0;
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "2000 to 2099");
    event.observed_at_us = -1;
    checks(&event, &any, DAYBOOK_INVALID_EVENT, "2000 to 2099");
}

/* --- from JSON -------------------------------------------------------------------------------- */

struct parsed {
    struct daybook_event event;
    struct daybook_event_names names;
    struct daybook_error err;
    enum daybook_code code;
};

static void parse(struct parsed *p, const char *json, const struct daybook_event_limits *limits)
{
    memset(p, 0, sizeof *p);
    p->code = daybook_event_from_json(text(json), limits, &p->names, &p->event, &p->err);
}

static void bytes_are(struct daybook_bytes got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
}

static void test_E1_from_json_takes_the_fields(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p,
          " \r\n{\"x\":{\"request_id\":\"inner\"},\"subject\":\"s\",\"namespace\":\"n\","
          "\"request_id\":\"id\",\"observed_at\":1769860000123456} \n",
          &any);
    assert_int_equal(p.code, DAYBOOK_OK);
    bytes_are(p.event.request_id, "id");
    bytes_are(p.event.name_space, "n");
    bytes_are(p.event.subject, "s");
    assert_true(p.event.observed_at_us == INT64_C(1769860000123456));
    bytes_are(p.event.record, "{\"x\":{\"request_id\":\"inner\"},\"subject\":\"s\",\"namespace\":"
                              "\"n\",\"request_id\":\"id\",\"observed_at\":1769860000123456}");
    assert_int_equal(daybook_event_check(&p.event, &any, NULL), DAYBOOK_OK);
}

static void test_E1_from_json_unescapes_names_and_fields(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p,
          "{\"request\\u005fid\":\"\\u0069d\",\"namespace\":\"\\u00e9\\/\",\"subject\":\"\\ud83d"
          "\\ude00\",\"observed_at\":\"2026\\u002d01-31T00:00:00Z\"}",
          &any);
    assert_int_equal(p.code, DAYBOOK_OK);
    bytes_are(p.event.request_id, "id");
    bytes_are(p.event.name_space, "\xc3\xa9/");
    bytes_are(p.event.subject, "\xf0\x9f\x98\x80");
    assert_true(p.event.observed_at_us == INT64_C(1769817600000000));
    /* 255 bytes after unescaping are taken, 256 are not. */
    char json[4096];
    for (int len = 255; len <= 256; len++) {
        int n = snprintf(json, sizeof json,
                         "{\"request_id\":\"id\",\"namespace\":\"n\",\"subject\":\"");
        for (int i = 0; i < len; i++) {
            n += snprintf(json + n, sizeof json - (size_t)n, "\\u0041");
        }
        (void)snprintf(json + n, sizeof json - (size_t)n, "\"}");
        parse(&p, json, &any);
        assert_int_equal(p.code, len == 255 ? DAYBOOK_OK : DAYBOOK_INVALID_EVENT);
    }
    assert_non_null(strstr(p.err.message, "subject is longer"));
}

static void json_is(const char *json, enum daybook_code code, const char *about)
{
    struct parsed p;
    parse(&p, json, &any);
    if (p.code != code || (code != DAYBOOK_OK && strstr(p.err.message, about) == NULL)) {
        print_error("%s: %s: %s; wanted %s\n", json, daybook_code_name(p.code), p.err.message,
                    about);
    }
    assert_int_equal(p.code, code);
    if (code != DAYBOOK_OK) {
        assert_non_null(strstr(p.err.message, about));
        assert_null(p.event.record.data);
    }
}

#define REST "\"namespace\":\"n\",\"subject\":\"s\"}"

static void test_E2_from_json_without_an_id_is_refused(void **state)
{
    (void)state;
    json_is("{" REST, DAYBOOK_INVALID_EVENT, "no request_id");
    json_is("{\"request_id\":null," REST, DAYBOOK_INVALID_EVENT, "request_id has to be a string");
    json_is("{\"request_id\":12," REST, DAYBOOK_INVALID_EVENT, "request_id has to be a string");
    json_is("{\"request_id\":\"\"," REST, DAYBOOK_INVALID_EVENT, "request_id is empty");
    json_is("{\"request_id\":\"a b\"," REST, DAYBOOK_INVALID_EVENT, "request_id holds");
    json_is("{\"Request_id\":\"ab\"," REST, DAYBOOK_INVALID_EVENT, "no request_id");
    struct parsed p;
    parse(&p, "{\"request_id\":\"id-1\"," REST, &uuidv7);
    assert_int_equal(p.code, DAYBOOK_INVALID_EVENT);
    bytes_are(p.event.request_id, "id-1"); /* the error can name it */
    parse(&p, "{\"request_id\":\"" ID "\"," REST, &uuidv7);
    assert_int_equal(p.code, DAYBOOK_OK);
}

static void test_E3_from_json(void **state)
{
    (void)state;
    json_is("{\"request_id\":\"i\",\"subject\":\"s\"}", DAYBOOK_INVALID_EVENT, "no namespace");
    json_is("{\"request_id\":\"i\",\"namespace\":\"n\"}", DAYBOOK_INVALID_EVENT, "no subject");
    json_is("{\"request_id\":\"i\",\"namespace\":[],\"subject\":\"s\"}", DAYBOOK_INVALID_EVENT,
            "namespace has to be a string");
    json_is("{\"request_id\":\"i\",\"namespace\":\"\\n\",\"subject\":\"s\"}", DAYBOOK_INVALID_EVENT,
            "namespace holds a control character");
}

static void test_E4_from_json_malformed_before_refused_before_fields(void **state)
{
    (void)state;
    json_is("", DAYBOOK_MALFORMED_JSON, "byte 0");
    json_is("  ", DAYBOOK_MALFORMED_JSON, "byte 0");
    json_is("[]", DAYBOOK_INVALID_EVENT, "not a JSON object");
    json_is("{\"a\":1,\"a\":2,}", DAYBOOK_MALFORMED_JSON, "byte 13");
    json_is("{\"a\":1,\"a\":2}", DAYBOOK_INVALID_EVENT, "twice");
    json_is("{\"request_id\":\"i\",\"request_id\":\"j\"," REST, DAYBOOK_INVALID_EVENT, "twice");
    json_is("{\"request_id\":\"i\"," REST "{}", DAYBOOK_MALFORMED_JSON, "follow the end");
    struct parsed p;
    parse(&p, " {\"request_id\":\"i-9\",\"a\":tru}", &any);
    assert_int_equal(p.code, DAYBOOK_MALFORMED_JSON);
    assert_int_equal(p.err.offset, 28); /* of what was given, white space included */
    bytes_are(p.event.request_id, "i-9");
}

static void test_E4_from_json_size_is_of_the_record(void **state)
{
    (void)state;
    static const char json[] = "   {\"request_id\":\"i\"," REST "   ";
    const struct daybook_event_limits tight = {DAYBOOK_IDENTITY_ANY, sizeof json - 1 - 6};
    const struct daybook_event_limits tighter = {DAYBOOK_IDENTITY_ANY, sizeof json - 1 - 7};
    struct parsed p;
    parse(&p, json, &tight);
    assert_int_equal(p.code, DAYBOOK_OK);
    parse(&p, json, &tighter);
    assert_int_equal(p.code, DAYBOOK_TOO_LARGE);
}

static void observed_is(const char *value, enum daybook_code code, const char *about, int64_t us)
{
    char json[512];
    (void)snprintf(json, sizeof json, "{\"request_id\":\"i\",\"observed_at\":%s," REST, value);
    json_is(json, code, about);
    if (code == DAYBOOK_OK) {
        struct parsed p;
        parse(&p, json, &any);
        assert_true(p.event.observed_at_us == us);
    }
}

static void test_E5_from_json_observed_at(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "{\"request_id\":\"i\"," REST, &any);
    assert_int_equal(p.code, DAYBOOK_OK);
    assert_true(p.event.observed_at_us == DAYBOOK_TIME_UNSET);
    const int64_t us = INT64_C(1769817600000000);
    observed_is("\"2026-01-31T00:00:00Z\"", DAYBOOK_OK, "", us);
    observed_is("1769817600000000", DAYBOOK_OK, "", us);
    observed_is("1769817600000000.0", DAYBOOK_OK, "", us); /* numbers are their exact value (E6) */
    observed_is("17698176e8", DAYBOOK_OK, "", us);
    observed_is("1769817600000000.5", DAYBOOK_INVALID_EVENT, "whole number of microseconds", 0);
    observed_is("1769817600", DAYBOOK_INVALID_EVENT, "looks like seconds", 0);
    observed_is("1769817600000", DAYBOOK_INVALID_EVENT, "looks like milliseconds", 0);
    observed_is("1769817600000000000", DAYBOOK_INVALID_EVENT, "looks like nanoseconds", 0);
    observed_is("1769817600.5", DAYBOOK_INVALID_EVENT, "whole number of microseconds", 0);
    observed_is("1e400", DAYBOOK_INVALID_EVENT, "within 64 bits", 0);
    observed_is("-9223372036854775808", DAYBOOK_INVALID_EVENT, "2000 to 2099", 0);
    observed_is("\"1769817600000000\"", DAYBOOK_INVALID_EVENT, "observed_at: ", 0);
    observed_is("\"2026-01-31T00:00:00\"", DAYBOOK_INVALID_EVENT, "no zone", 0);
    observed_is("\"\"", DAYBOOK_INVALID_EVENT, "no date and time", 0);
    observed_is("null", DAYBOOK_INVALID_EVENT, "leave it out", 0);
    observed_is("true", DAYBOOK_INVALID_EVENT, "observed_at has to be", 0);
    observed_is("{\"a\":1}", DAYBOOK_INVALID_EVENT, "observed_at has to be", 0);
}

/* --- E6 --------------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    struct daybook_event x = good();
    struct daybook_event y = good();
    x.record = text(a);
    y.record = text(b);
    bool there = daybook_event_same_fact(&x, &y);
    bool back = daybook_event_same_fact(&y, &x);
    if (there != back) {
        print_error("not symmetric: %s %s\n", a, b);
    }
    assert_int_equal(there, back);
    return there;
}

static void test_E6_namespace_and_subject_count(void **state)
{
    (void)state;
    struct daybook_event a = good();
    struct daybook_event b = good();
    assert_true(daybook_event_same_fact(&a, &b));
    b.name_space = text("acmE");
    assert_false(daybook_event_same_fact(&a, &b));
    b = good();
    b.subject = text("key-12");
    assert_false(daybook_event_same_fact(&a, &b));
    b = good();
    b.observed_at_us = DAYBOOK_OBSERVED_MIN_US;
    assert_true(daybook_event_same_fact(&a, &b));
}

static void test_E6_order_and_white_space_do_not_count(void **state)
{
    (void)state;
    assert_true(same("{}", " { } "));
    assert_true(same("{\"a\":1,\"b\":[1,{\"c\":2,\"d\":3}]}",
                     "{ \"b\" : [ 1 ,\n{\"d\":3,\"c\":2 } ] , \"a\":1 }"));
    assert_true(same("{\"a\":{},\"b\":[]}", "{\"b\":[],\"a\":{}}"));
    assert_true(same("{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"c\":3,\"b\":2}"));
    assert_false(same("{\"a\":{}}", "{\"a\":[]}"));
    assert_false(same("{\"a\":[1,2]}", "{\"a\":[2,1]}"));
    assert_false(same("{\"a\":[1,2]}", "{\"a\":[1]}"));
    assert_false(same("{\"a\":[[1],2]}", "{\"a\":[[1,2]]}"));
    assert_false(same("{\"a\":1}", "{\"a\":1,\"b\":2}"));
    assert_false(same("{\"b\":2,\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}"));
    assert_false(same("{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}"));
    assert_false(same("{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}"));
    assert_false(same("{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":2,\"x\":1,\"z\":3}}"));
}

static void test_E6_null_is_not_missing(void **state)
{
    (void)state;
    assert_false(same("{\"a\":null}", "{}"));
    assert_false(same("{\"a\":null}", "{\"a\":false}"));
    assert_false(same("{\"a\":true}", "{\"a\":false}"));
    assert_false(same("{\"a\":\"1\"}", "{\"a\":1}"));
    assert_true(same("{\"a\":null}", "{\"a\" : null}"));
}

static void test_E6_numbers_and_strings(void **state)
{
    (void)state;
    assert_true(same("{\"a\":[1,1.0,0,2e3]}", "{\"a\":[1.0,1e0,-0,2000]}"));
    assert_false(same("{\"a\":9007199254740992}", "{\"a\":9007199254740993}"));
    assert_true(same("{\"\\u0061\":\"\\u0062\\/\"}", "{\"a\":\"b/\"}"));
    assert_false(same("{\"a\":\"caf\xc3\xa9\"}", "{\"a\":\"cafe\xcc\x81\"}"));
    assert_false(same("{\"a\":\"b\"}", "{\"a\":\"b \"}"));
    assert_false(same("{\"a\":\"b\"}", "{\"a\":\"B\"}"));
}

static void test_E6_top_level_observed_at_does_not_count(void **state)
{
    (void)state;
    assert_true(same("{\"a\":1,\"observed_at\":1}", "{\"observed_at\":2,\"a\":1}"));
    assert_true(same("{\"a\":1,\"observed_at\":1}", "{\"a\":1}"));
    assert_true(same("{\"observed_at\":1}", "{}"));
    assert_true(same("{\"observed\\u005fat\":{\"x\":[1]},\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}"));
    assert_false(same("{\"a\":{\"observed_at\":1}}", "{\"a\":{\"observed_at\":2}}"));
    assert_false(same("{\"a\":{\"observed_at\":1}}", "{\"a\":{}}"));
    assert_false(same("{\"a\":[{\"observed_at\":1}]}", "{\"a\":[{}]}"));
}

static void test_E6_records_that_passed_no_check_are_never_the_same(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "{",          "[]",   "{\"a\":1,\"a\":1}",  "{\"a\":",
                                      "{a}", "{\"a\":1}}", "\"\\", "{\"a\":\"\\ud800\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(same(bad[i], bad[i]));
        assert_false(same(bad[i], "{\"a\":1}"));
    }
    struct daybook_event a = good();
    struct daybook_event b = good();
    a.record = (struct daybook_bytes){NULL, 0};
    assert_false(daybook_event_same_fact(&a, &b));
}

/* --- NDJSON ----------------------------------------------------------------------------------- */

struct wanted_line {
    uint64_t number;
    const char *line;
};

static void lines_are(const char *bytes, size_t len, const struct wanted_line *want, size_t count)
{
    struct dbk_ndjson ndjson;
    struct daybook_bytes line;
    uint64_t number = 0;
    dbk_ndjson_init(&ndjson, (struct daybook_bytes){bytes, len}, DBK_NDJSON_WHOLE);
    for (size_t i = 0; i < count; i++) {
        assert_true(dbk_ndjson_next(&ndjson, &line, &number));
        assert_int_equal(number, want[i].number);
        bytes_are(line, want[i].line);
    }
    assert_false(dbk_ndjson_next(&ndjson, &line, &number));
    assert_false(dbk_ndjson_next(&ndjson, &line, &number));
}

#define LINES(bytes, ...)                                                                          \
    lines_are(bytes, sizeof(bytes) - 1, (const struct wanted_line[]){__VA_ARGS__},                 \
              sizeof((const struct wanted_line[]){__VA_ARGS__}) / sizeof(struct wanted_line))

static void test_ndjson_lines(void **state)
{
    (void)state;
    lines_are(NULL, 0, NULL, 0);
    lines_are("\n\r\n  \n\t", 7, NULL, 0);
    lines_are("\xef\xbb\xbf", 3, NULL, 0);
    LINES("{1}", {1, "{1}"});
    LINES("{1}\n{2}\n", {1, "{1}"}, {2, "{2}"});
    LINES("{1}\r\n\r\n{2}\r\n{3}", {1, "{1}"}, {3, "{2}"}, {4, "{3}"});
    LINES("\xef\xbb\xbf{1}\n{2}", {1, "{1}"}, {2, "{2}"});
    LINES("\xef\xbb\xbf\r\n{2}", {2, "{2}"});
    LINES("{1}\n\xef\xbb\xbf{2}", {1, "{1}"}, {2, "\xef\xbb\xbf{2}"}); /* only at the very start */
    LINES("{1}\r{2}\r", {1, "{1}\r{2}\r"});                            /* one malformed line */
    LINES("{1}\r\r\n{2}", {1, "{1}\r"}, {2, "{2}"});
    LINES(" {1} \n", {1, " {1} "});
}

static void test_ndjson_in_parts(void **state)
{
    (void)state;
    static const char all[] = "\xef\xbb\xbf{1}\r\n\r\n{22}\n{333}\r\n{4}";
    static const struct wanted_line want[] = {{1, "{1}"}, {3, "{22}"}, {4, "{333}"}, {5, "{4}"}};
    for (size_t part = 1; part < sizeof all; part++) {
        struct dbk_ndjson ndjson;
        struct daybook_bytes line;
        uint64_t number = 0;
        size_t taken = 0;
        size_t begin = 0;
        size_t end = 0;
        dbk_ndjson_init(&ndjson, (struct daybook_bytes){all, 0}, DBK_NDJSON_PART);
        while (taken < 4) {
            if (dbk_ndjson_next(&ndjson, &line, &number)) {
                assert_int_equal(number, want[taken].number);
                bytes_are(line, want[taken].line);
                taken++;
                continue;
            }
            assert_true(end < sizeof all - 1);
            begin = end - dbk_ndjson_rest(&ndjson).len;
            end = end + part < sizeof all - 1 ? end + part : sizeof all - 1;
            dbk_ndjson_refill(&ndjson, (struct daybook_bytes){all + begin, end - begin},
                              end < sizeof all - 1 ? DBK_NDJSON_PART : DBK_NDJSON_WHOLE);
        }
        assert_false(dbk_ndjson_next(&ndjson, &line, &number));
        assert_int_equal(dbk_ndjson_rest(&ndjson).len, 0);
    }
}

/* ---- CloudEvents ------------------------------------------------------------------------------ */

#define CE "\"specversion\":\"1.0\",\"type\":\"t\",\"id\":\"id-1\""

static void reads_cloudevent(const char *json, enum dbk_event_form form, enum daybook_code code,
                             const char *want)
{
    struct daybook_event_names names;
    struct daybook_event event = {.request_id = {NULL, 0}};
    struct daybook_error err = {0};
    char got[512];
    enum daybook_code is = dbk_event_read(text(json), form, &any, &names, &event, &err);
    (void)snprintf(got, sizeof got, "%s", err.message);
    if (is == DAYBOOK_OK) {
        (void)snprintf(got, sizeof got, "%.*s|%.*s|%.*s|%lld", (int)event.request_id.len,
                       event.request_id.data, (int)event.name_space.len, event.name_space.data,
                       (int)event.subject.len, event.subject.data,
                       event.observed_at_us == DAYBOOK_TIME_UNSET
                           ? 0LL
                           : (long long)(event.observed_at_us / 1000000));
        assert_int_equal(event.record.len, strlen(json));
    }
    if (is != code || strstr(got, want) == NULL) {
        fail_msg("%s: %s \"%s\" instead of %s \"%s\"", json, daybook_code_name(is), got,
                 daybook_code_name(code), want);
    }
    /* A refused one has a name too. */
    if (is == DAYBOOK_INVALID_EVENT && strstr(json, CE) != NULL &&
        strstr(json, "request_id") == NULL) {
        assert_int_equal(event.request_id.len, 4);
    }
}

static void test_E2_a_cloudevent_has_its_own_names(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum daybook_code code;
        const char *want;
    } cases[] = {
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\"}", DAYBOOK_OK, "id-1|/s|k|0"},
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\",\"namespace\":\"n\"}", DAYBOOK_OK,
         "id-1|n|k|0"},
        {"{" CE ",\"source\":\"/\\u0073\",\"subject\":\"\\u006b\",\"namespace\":null,"
         "\"time\":\"2026-01-02T03:04:05Z\",\"data\":{\"id\":1,\"request_id\":2}}",
         DAYBOOK_OK, "id-1|/s|k|1767323045"},
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\",\"time\":null}", DAYBOOK_OK, "|0"},
        {"{" CE ",\"source\":\"/s\"}", DAYBOOK_INVALID_EVENT, "no subject"},
        {"{" CE ",\"subject\":\"k\"}", DAYBOOK_INVALID_EVENT, "no source"},
        {"{" CE ",\"source\":\"\",\"subject\":\"k\"}", DAYBOOK_INVALID_EVENT, "no source"},
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\",\"time\":5}", DAYBOOK_INVALID_EVENT,
         "time has to be"},
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\",\"time\":\"1999-01-01T00:00:00Z\"}",
         DAYBOOK_INVALID_EVENT, "time: "},
        {"{\"specversion\":\"0.3\",\"type\":\"t\",\"id\":\"i\",\"source\":\"/s\"}",
         DAYBOOK_INVALID_EVENT, "specversion has to be"},
        {"{\"specversion\":\"1.0\",\"id\":\"i\",\"source\":\"/s\",\"subject\":\"k\"}",
         DAYBOOK_INVALID_EVENT, "no type"},
        {"{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"/s\",\"subject\":\"k\"}",
         DAYBOOK_INVALID_EVENT, "no id"},
        {"{" CE ",\"source\":\"/s\",\"subject\":\"k\",\"id\":\"b\"}", DAYBOOK_INVALID_EVENT,
         "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reads_cloudevent(cases[i].json, DBK_EVENT_ANY, cases[i].code, cases[i].want);
        reads_cloudevent(cases[i].json, DBK_EVENT_CLOUDEVENT, cases[i].code, cases[i].want);
    }
    /* A flat event may have members of these names; it is one by its request_id. */
    static const char flat[] =
        "{\"request_id\":\"r\",\"namespace\":\"n\",\"subject\":\"s\"," CE ",\"time\":5}";
    reads_cloudevent(flat, DBK_EVENT_ANY, DAYBOOK_OK, "r|n|s|0");
    reads_cloudevent(flat, DBK_EVENT_CLOUDEVENT, DAYBOOK_INVALID_EVENT, "request_id cannot be");
    reads_cloudevent("{\"request_id\":\"r\",\"namespace\":\"n\",\"subject\":\"s\"}",
                     DBK_EVENT_CLOUDEVENT, DAYBOOK_INVALID_EVENT, "request_id cannot be");
    char json[600];
    (void)snprintf(json, sizeof json, "{" CE ",\"subject\":\"k\",\"source\":\"%0300d\"}", 1);
    reads_cloudevent(json, DBK_EVENT_ANY, DAYBOOK_INVALID_EVENT, "give the extension namespace");
}

static void test_E6_the_time_of_a_cloudevent_does_not_count(void **state)
{
    (void)state;
#define CE_S CE ",\"source\":\"/s\",\"subject\":\"k\""
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {
        {"{" CE_S ",\"time\":\"2026-01-02T03:04:05Z\"}",
         "{\"time\":\"2026-01-02T03:04:06Z\"," CE_S "}", true},
        {"{" CE_S "}", "{" CE_S ",\"time\":\"2026-01-02T03:04:06Z\"}", true},
        {"{" CE_S ",\"data\":{\"time\":1}}", "{" CE_S ",\"data\":{\"time\":2}}", false},
        {"{" CE_S ",\"x\":1,\"time\":\"2026-01-02T03:04:05Z\"}",
         "{\"time\":\"2026-01-02T03:04:06Z\"," CE_S ",\"x\":2}", false},
        /* In a flat event `time` is the producer's own. */
        {"{\"request_id\":\"a\"," CE_S ",\"time\":1}", "{\"request_id\":\"a\"," CE_S ",\"time\":2}",
         false},
        {"{\"time\":1}", "{\"time\":2}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct daybook_event a = good();
        struct daybook_event b = good();
        a.record = text(cases[i].a);
        b.record = text(cases[i].b);
        assert_int_equal(daybook_event_same_fact(&a, &b), cases[i].same);
        assert_int_equal(daybook_event_same_fact(&b, &a), cases[i].same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_E1_an_event_is_its_five_fields),
        cmocka_unit_test(test_E2_identity_any),
        cmocka_unit_test(test_E2_identity_uuidv7),
        cmocka_unit_test(test_E2_mint_is_a_uuidv7),
        cmocka_unit_test(test_E3_namespace_and_subject),
        cmocka_unit_test(test_E4_size_limit),
        cmocka_unit_test(test_E4_record_of_an_event),
        cmocka_unit_test(test_E5_times_that_are_taken),
        cmocka_unit_test(test_E5_times_that_are_refused_with_the_reason),
        cmocka_unit_test(test_E5_every_day_of_the_range_round_trips),
        cmocka_unit_test(test_time_format_of_any_number),
        cmocka_unit_test(test_E5_range_of_microseconds),
        cmocka_unit_test(test_E1_from_json_takes_the_fields),
        cmocka_unit_test(test_E1_from_json_unescapes_names_and_fields),
        cmocka_unit_test(test_E2_from_json_without_an_id_is_refused),
        cmocka_unit_test(test_E3_from_json),
        cmocka_unit_test(test_E4_from_json_malformed_before_refused_before_fields),
        cmocka_unit_test(test_E4_from_json_size_is_of_the_record),
        cmocka_unit_test(test_E5_from_json_observed_at),
        cmocka_unit_test(test_E6_namespace_and_subject_count),
        cmocka_unit_test(test_E6_order_and_white_space_do_not_count),
        cmocka_unit_test(test_E6_null_is_not_missing),
        cmocka_unit_test(test_E6_numbers_and_strings),
        cmocka_unit_test(test_E6_top_level_observed_at_does_not_count),
        cmocka_unit_test(test_E6_records_that_passed_no_check_are_never_the_same),
        cmocka_unit_test(test_ndjson_lines),
        cmocka_unit_test(test_E2_a_cloudevent_has_its_own_names),
        cmocka_unit_test(test_E6_the_time_of_a_cloudevent_does_not_count),
        cmocka_unit_test(test_ndjson_in_parts),
    };
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
