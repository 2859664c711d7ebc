/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and answers of POST /v1/events, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/ingest.h"

#define GOOD(id) "{\"request_id\":\"" id "\",\"namespace\":\"n\",\"subject\":\"s\"}"

static const struct daybook_event_limits limits = {DAYBOOK_IDENTITY_ANY, 0};

struct world {
    struct dbk_ingest ingest;
    struct dbk_answer answer;
    struct daybook_append_result results[8];
};

static enum daybook_code parse(struct world *w, const char *body, enum dbk_body_kind kind)
{
    struct daybook_error err = {0};
    memset(w, 0, sizeof *w);
    enum daybook_code code = dbk_ingest_parse((struct daybook_bytes){body, strlen(body)}, kind,
                                              &limits, &w->ingest, &err);
    if (code != DAYBOOK_OK) {
        dbk_ingest_answer_refused(&err, &w->answer);
    }
    return code;
}

static void answer(struct world *w)
{
    dbk_ingest_answer(&w->ingest, w->results, DAYBOOK_OK, NULL, &w->answer);
}

static void expect(struct world *w, unsigned status, const char *part)
{
    if (w->answer.status != status || strstr(w->answer.body.data, part) == NULL) {
        fail_msg("%u %s instead of %u %s", w->answer.status, w->answer.body.data, status, part);
    }
}

static void end(struct world *w)
{
    dbk_ingest_release(&w->ingest);
    dbk_answer_release(&w->answer);
}

static void test_one_accepted_and_present(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, GOOD("a"), DBK_BODY_JSON), DAYBOOK_OK);
    assert_false(w.ingest.many);
    w.results[0] = (struct daybook_append_result){.code = DAYBOOK_OK, .position = 7};
    answer(&w);
    assert_int_equal(w.answer.status, 201);
    assert_string_equal(w.answer.body.data,
                        "{\"status\":\"accepted\",\"request_id\":\"a\",\"position\":7}\n");
    dbk_answer_release(&w.answer);
    w.results[0].code = DAYBOOK_ALREADY_PRESENT;
    answer(&w);
    expect(&w, 200, "{\"status\":\"already_present\",\"request_id\":\"a\",\"position\":7}");
    end(&w);
}

/* Every code of an append, with its status and its stable word. */
static void test_one_refused(void **state)
{
    (void)state;
    static const struct {
        enum daybook_code code;
        unsigned status;
        const char *word;
        const char *more;
    } cases[] = {
        {DAYBOOK_CONFLICT, 409, "\"code\":\"conflict\"", "\"request_id\":\"a\""},
        {DAYBOOK_AT_CAPACITY, 503, "\"code\":\"usage_not_durable\"", "\"reason\":\"at_capacity\""},
        {DAYBOOK_BACKEND, 503, "\"code\":\"usage_not_durable\"", "\"reason\":\"backend\""},
        {DAYBOOK_TIMED_OUT, 503, "\"code\":\"usage_not_durable\"", "\"reason\":\"timed_out\""},
        {DAYBOOK_DRAINING, 503, "\"code\":\"usage_not_durable\"", "\"reason\":\"draining\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        assert_int_equal(parse(&w, GOOD("a"), DBK_BODY_JSON), DAYBOOK_OK);
        w.results[0] = (struct daybook_append_result){
            .code = cases[i].code, .limit = DAYBOOK_LIMIT_EVENTS, .retained = 12};
        answer(&w);
        expect(&w, cases[i].status, cases[i].word);
        expect(&w, cases[i].status, cases[i].more);
        assert_string_equal(w.answer.content_type, "application/problem+json");
        assert_int_equal(w.answer.retry_after_s > 0, cases[i].status == 503);
        assert_int_equal(w.answer.not_durable, cases[i].status == 503 ? 1 : 0);
        end(&w);
    }
}

/* `on_undurable: serve`: the same codes, and nobody is held up; what is the event's fault stays refused. */
static void test_M2_served_one(void **state)
{
    (void)state;
    static const struct {
        enum daybook_code code;
        unsigned status;
        const char *part;
    } cases[] = {
        {DAYBOOK_OK, 201, "\"accepted\""},
        {DAYBOOK_ALREADY_PRESENT, 200, "\"already_present\""},
        {DAYBOOK_CONFLICT, 409, "\"code\":\"conflict\""},
        {DAYBOOK_AT_CAPACITY, 202,
         "{\"status\":\"not_durable\",\"request_id\":\"a\",\"reason\":\"at_capacity\","
         "\"limit\":\"events\",\"retained\":12}"},
        {DAYBOOK_BACKEND, 202, "\"reason\":\"backend\""},
        {DAYBOOK_TIMED_OUT, 202, "\"reason\":\"timed_out\""},
        {DAYBOOK_DRAINING, 202, "\"reason\":\"draining\""},
        {DAYBOOK_NO_MEMORY, 202, "\"reason\":\"no_memory\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        assert_int_equal(parse(&w, GOOD("a"), DBK_BODY_JSON), DAYBOOK_OK);
        w.ingest.undurable = DBK_UNDURABLE_SERVE;
        w.results[0] = (struct daybook_append_result){
            .code = cases[i].code, .limit = DAYBOOK_LIMIT_EVENTS, .retained = 12};
        answer(&w);
        expect(&w, cases[i].status, cases[i].part);
        assert_int_equal(w.answer.not_durable, 0);
        assert_int_equal(w.answer.retry_after_s, 0);
        end(&w);
    }
}

static void test_M2_served_many(void **state)
{
    (void)state;
    static const struct {
        enum daybook_code first;
        enum daybook_code second;
        enum dbk_dialect dialect;
        unsigned status;
    } cases[] = {
        {DAYBOOK_OK, DAYBOOK_OK, DBK_DIALECT_DAYBOOK, 200},
        {DAYBOOK_OK, DAYBOOK_AT_CAPACITY, DBK_DIALECT_DAYBOOK, 202},
        {DAYBOOK_BACKEND, DAYBOOK_AT_CAPACITY, DBK_DIALECT_DAYBOOK, 202},
        {DAYBOOK_CONFLICT, DAYBOOK_AT_CAPACITY, DBK_DIALECT_DAYBOOK, 207},
        {DAYBOOK_CONFLICT, DAYBOOK_CONFLICT, DBK_DIALECT_DAYBOOK, 422},
        {DAYBOOK_OK, DAYBOOK_AT_CAPACITY, DBK_DIALECT_OPENMETER, 202},
        {DAYBOOK_CONFLICT, DAYBOOK_AT_CAPACITY, DBK_DIALECT_OPENMETER, 422},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        assert_int_equal(parse(&w, "[" GOOD("a") "," GOOD("b") "]", DBK_BODY_JSON), DAYBOOK_OK);
        w.ingest.undurable = DBK_UNDURABLE_SERVE;
        w.ingest.dialect = cases[i].dialect;
        w.results[0].code = cases[i].first;
        w.results[1].code = cases[i].second;
        answer(&w);
        assert_int_equal(w.answer.status, cases[i].status);
        assert_int_equal(w.answer.not_durable, 0);
        assert_int_equal(w.answer.retry_after_s, 0);
        if (cases[i].second == DAYBOOK_AT_CAPACITY) {
            expect(&w, cases[i].status,
                   "\"index\":1,\"request_id\":\"b\",\"code\":\"at_capacity\"");
            expect(&w, cases[i].status, "\"retry\":true");
        }
        end(&w);
    }
}

static void test_A4_names_the_limit(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, GOOD("a"), DBK_BODY_JSON), DAYBOOK_OK);
    w.results[0] = (struct daybook_append_result){
        .code = DAYBOOK_AT_CAPACITY, .limit = DAYBOOK_LIMIT_DISK, .retained = 12};
    answer(&w);
    expect(&w, 503, "\"limit\":\"disk\",\"retained\":12");
    end(&w);
}

static void test_one_bad_event(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, "{\"request_id\":\"a\"}", DBK_BODY_JSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 422, "\"code\":\"invalid_event\"");
    expect(&w, 422, "namespace");
    end(&w);
    assert_int_equal(parse(&w, "{\"request_id\":", DBK_BODY_JSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 400, "\"code\":\"malformed_json\"");
    expect(&w, 400, "\"offset\":14");
    end(&w);
    assert_int_equal(parse(&w, "", DBK_BODY_JSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 400, "malformed_json");
    end(&w);
    assert_int_equal(parse(&w, "7", DBK_BODY_JSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 422, "invalid_event");
    end(&w);
}

static void test_array(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, " [" GOOD("a") ", 5 ," GOOD("b") "]\n", DBK_BODY_JSON), DAYBOOK_OK);
    assert_true(w.ingest.many);
    assert_int_equal(w.ingest.item_count, 3);
    assert_int_equal(w.ingest.event_count, 2);
    answer(&w);
    expect(&w, 207, "{\"accepted\":2,\"already_present\":0,\"failed\":1,\"errors\":[{\"index\":1,");
    expect(&w, 207, "\"request_id\":null,\"code\":\"invalid_event\"");
    expect(&w, 207, "\"retry\":false}]}");
    assert_null(strstr(w.answer.body.data, "\"line\""));
    end(&w);
}

/* A malformed array refuses the whole body; what is wrong inside one element is its own. */
static void test_malformed_arrays(void **state)
{
    (void)state;
    static const char *const bodies[] = {"[" GOOD("a"),
                                         "[" GOOD("a") ",]",
                                         "[" GOOD("a") "] x",
                                         "[" GOOD("a") ",{\"request_id\":}]",
                                         "[,]",
                                         "[}"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct world w;
        assert_int_equal(parse(&w, bodies[i], DBK_BODY_JSON), DAYBOOK_MALFORMED_JSON);
        expect(&w, 400, "\"code\":\"malformed_json\"");
        expect(&w, 400, "\"offset\":");
        end(&w);
    }
}

static void test_A6_lines_judged_alone(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(
        parse(&w,
              "\xEF\xBB\xBF" GOOD("a") "\r\n\r\n{oops\n" GOOD("b") "\n" GOOD("c") " {}\n" GOOD("d"),
              DBK_BODY_NDJSON),
        DAYBOOK_OK);
    assert_int_equal(w.ingest.item_count, 5);
    assert_int_equal(w.ingest.event_count, 3);
    w.results[1].code = DAYBOOK_CONFLICT;
    w.results[2] = (struct daybook_append_result){.code = DAYBOOK_TIMED_OUT};
    answer(&w);
    expect(&w, 207, "\"accepted\":1,\"already_present\":0,\"failed\":4");
    expect(&w, 207, "{\"index\":1,\"line\":3,\"request_id\":null,\"code\":\"malformed_json\"");
    expect(&w, 207, "{\"index\":2,\"line\":4,\"request_id\":\"b\",\"code\":\"conflict\"");
    expect(&w, 207, "{\"index\":3,\"line\":5,");
    expect(&w, 207, "{\"index\":4,\"line\":6,\"request_id\":\"d\",\"code\":\"timed_out\"");
    expect(&w, 207, "\"retry\":true}]}");
    assert_int_equal(w.answer.not_durable, 1);
    end(&w);
}

static void test_many_statuses(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, "[]", DBK_BODY_JSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 200, "{\"accepted\":0,\"already_present\":0,\"failed\":0,\"errors\":[]}");
    end(&w);
    assert_int_equal(parse(&w, "\n\n", DBK_BODY_NDJSON), DAYBOOK_OK);
    answer(&w);
    expect(&w, 200, "\"accepted\":0");
    end(&w);
    assert_int_equal(parse(&w, GOOD("a") "\n" GOOD("b"), DBK_BODY_NDJSON), DAYBOOK_OK);
    w.results[0].code = DAYBOOK_ALREADY_PRESENT;
    answer(&w);
    expect(&w, 200, "\"accepted\":1,\"already_present\":1,\"failed\":0");
    dbk_answer_release(&w.answer);
    w.results[0].code = DAYBOOK_CONFLICT;
    w.results[1].code = DAYBOOK_CONFLICT;
    answer(&w);
    expect(&w, 422, "\"code\":\"all_refused\"");
    expect(&w, 422, "\"failed\":2,\"errors\":[{");
    dbk_answer_release(&w.answer);
    w.results[0].code = DAYBOOK_AT_CAPACITY;
    w.results[1].code = DAYBOOK_BACKEND;
    answer(&w);
    expect(&w, 503, "\"code\":\"usage_not_durable\"");
    expect(&w, 503, "\"reason\":\"at_capacity\"");
    assert_int_equal(w.answer.retry_after_s > 0, 1);
    assert_int_equal(w.answer.not_durable, 2);
    dbk_answer_release(&w.answer);
    w.results[1].code = DAYBOOK_CONFLICT;
    answer(&w);
    expect(&w, 207, "\"failed\":2");
    end(&w);
}

static void test_without_the_journal(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(parse(&w, GOOD("a") "\n{}", DBK_BODY_NDJSON), DAYBOOK_OK);
    dbk_ingest_answer(&w.ingest, NULL, DAYBOOK_DRAINING, "stopping", &w.answer);
    expect(&w, 207, "\"code\":\"draining\",\"message\":\"stopping\",\"retry\":true");
    end(&w);
    assert_int_equal(parse(&w, GOOD("a"), DBK_BODY_JSON), DAYBOOK_OK);
    dbk_ingest_answer(&w.ingest, NULL, DAYBOOK_DRAINING, "stopping", &w.answer);
    expect(&w, 503, "\"reason\":\"draining\",\"request_id\":\"a\"");
    end(&w);
}

/* Names with escapes stand in scratch that the next event overwrites: they have to be kept. */
static void test_escaped_names_are_kept(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(
        parse(&w,
              "[{\"request_id\":\"\\u0061\",\"namespace\":\"\\u006e1\",\"subject\":\"\\u0073x\"},"
              "{\"request_id\":\"\\u0062\",\"namespace\":\"\\u006e2\",\"subject\":\"\\u0073y\"}]",
              DBK_BODY_JSON),
        DAYBOOK_OK);
    assert_int_equal(w.ingest.event_count, 2);
    assert_memory_equal(w.ingest.events[0].request_id.data, "a", 1);
    assert_memory_equal(w.ingest.events[0].name_space.data, "n1", 2);
    assert_memory_equal(w.ingest.events[0].subject.data, "sx", 2);
    assert_memory_equal(w.ingest.events[1].subject.data, "sy", 2);
    end(&w);
}

static void test_too_many_events(void **state)
{
    (void)state;
    size_t len = (size_t)DBK_BODY_EVENTS_MAX * 2 + 2;
    char *body = malloc(len + 1);
    assert_non_null(body);
    for (size_t i = 0; i < len; i += 2) {
        body[i] = 'x';
        body[i + 1] = '\n';
    }
    body[len] = '\0';
    struct world w;
    assert_int_equal(parse(&w, body, DBK_BODY_NDJSON), DAYBOOK_TOO_LARGE);
    expect(&w, 413, "\"code\":\"too_large\"");
    end(&w);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_accepted_and_present),
        cmocka_unit_test(test_one_refused),
        cmocka_unit_test(test_M2_served_one),
        cmocka_unit_test(test_M2_served_many),
        cmocka_unit_test(test_A4_names_the_limit),
        cmocka_unit_test(test_one_bad_event),
        cmocka_unit_test(test_array),
        cmocka_unit_test(test_malformed_arrays),
        cmocka_unit_test(test_A6_lines_judged_alone),
        cmocka_unit_test(test_many_statuses),
        cmocka_unit_test(test_without_the_journal),
        cmocka_unit_test(test_escaped_names_are_kept),
        cmocka_unit_test(test_too_many_events),
    };
    return cmocka_run_group_tests_name("ingest", tests, NULL, NULL);
}
