/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner's rules (E4), its strings, numbers, walks and escapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json/json.h"

static struct daybook_bytes text(const char *s)
{
    return (struct daybook_bytes){s, strlen(s)};
}

/* A copy that ends where its allocation ends, so that a sanitizer sees every byte read too far. */
static char *exact_copy(struct daybook_bytes bytes)
{
    char *copy = malloc(bytes.len + (bytes.len == 0));
    assert_non_null(copy);
    if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
    }
    return copy;
}

static void expect_bytes(struct daybook_bytes json, enum daybook_code code, uint64_t offset)
{
    char *copy = exact_copy(json);
    struct daybook_error err = {0};
    enum daybook_code got = dbk_json_check_object((struct daybook_bytes){copy, json.len}, &err);
    if (got != code || (code != DAYBOOK_OK && err.offset != offset)) {
        print_error("%.*s: code %d at %llu, message %s\n", (int)json.len, json.data, (int)got,
                    (unsigned long long)err.offset, err.message);
    }
    assert_int_equal(got, code);
    if (code != DAYBOOK_OK) {
        assert_int_equal(err.offset, offset);
        assert_int_equal(err.code, code);
        assert_true(err.message[0] != '\0');
        assert_null(strchr(err.message, '\n'));
    }
    free(copy);
}

/* Token by token, with nothing passed over: what the quick way has to agree with. */
static enum daybook_code check_by_tokens(struct daybook_bytes json, struct daybook_error *err)
{
    struct dbk_json_names names;
    struct dbk_json scan;
    dbk_json_names_init(&names);
    dbk_json_init(&scan, json, &names);
    enum dbk_json_token token = dbk_json_next(&scan);
    if (token != DBK_JSON_OBJECT_BEGIN && token != DBK_JSON_FAULT) {
        dbk_json_refuse(&scan, DBK_JSON_NOT_OBJECT, scan.token_begin);
    }
    while (token != DBK_JSON_FAULT && token != DBK_JSON_END) {
        token = dbk_json_next(&scan);
    }
    dbk_json_names_release(&names);
    return dbk_json_verdict(&scan, err);
}

static void agrees(struct daybook_bytes json)
{
    char *copy = exact_copy(json);
    struct daybook_bytes exact = {copy, json.len};
    struct daybook_error quick = {0};
    struct daybook_error slow = {0};
    enum daybook_code code = dbk_json_check_object(exact, &quick);
    if (code != check_by_tokens(exact, &slow) || quick.offset != slow.offset ||
        strcmp(quick.message, slow.message) != 0) {
        print_error("%.*s: %s, token by token %s\n", (int)json.len, json.data, quick.message,
                    slow.message);
        fail();
    }
    free(copy);
}

/* E4: members of the usual kind are passed over quickly, and judged as token by token: every text below with
 * each of its bytes changed to each of a few, left out, and as its end. */
static void test_E4_the_quick_way_judges_as_the_slow_one(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1,\"bc\":\"more than sixteen bytes\",\"d\":{\"e\":0,\"f\":[1,{\"g\":\"h\"}]}}",
        "{ \"a\" : 10 ,\n\t\"b\" : \"\" , \"c\":-1,\"d\":1.5e3,\"e\":true,\"f\":null }",
        "{\"aa\":\"\\n\",\"a\\u0061\":1,\"b\":\"\xc3\xa9\",\"b\":2,\"c\":3}",
        "{\"a\":12345678901234567890,\"a\":{\"a\":{},\"b\":[]},\"seventeen_letters\":\"x\\\\\"}"};
    static const char bytes[] = "\"\\{}[],: 01-.eEnax\x01\x7f\x80\xc3";
    char changed[256];
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        size_t len = strlen(texts[t]);
        for (size_t at = 0; at <= len; at++) {
            agrees((struct daybook_bytes){texts[t], at});
            for (size_t b = 0; at < len && b < sizeof bytes; b++) {
                memcpy(changed, texts[t], len);
                changed[at] = bytes[b];
                agrees((struct daybook_bytes){changed, len});
                memmove(changed + at + 1, texts[t] + at, len - at);
                agrees((struct daybook_bytes){changed, len + 1});
            }
            if (at < len) {
                memcpy(changed, texts[t], at);
                memcpy(changed + at, texts[t] + at + 1, len - at - 1);
                agrees((struct daybook_bytes){changed, len - 1});
            }
        }
    }
}

static void fine(const char *json)
{
    expect_bytes(text(json), DAYBOOK_OK, 0);
}

static void malformed(const char *json, uint64_t offset)
{
    expect_bytes(text(json), DAYBOOK_MALFORMED_JSON, offset);
}

static void refused(const char *json, uint64_t offset)
{
    expect_bytes(text(json), DAYBOOK_INVALID_EVENT, offset);
}

static void test_E4_objects_that_are_taken(void **state)
{
    (void)state;
    fine("{}");
    fine(" \t\r\n{ \"a\" : [ ] , \"b\" : { } } \r\n");
    fine("{\"\":\"\",\"a\":[1,-0,0.5,1e5,1E-5,1.25e+17,true,false,null,{\"a\":{\"a\":1}}]}");
    fine("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\ude00\xc3\xa9\xe2\x82\xac\xf0\x9f\x98"
         "\x80\"}");
    fine("{\"a\":\"\x7f\xc2\x80\xf4\x8f\xbf\xbf\"}");
    fine("{\"long enough for more than one step of eight bytes\":\"and the value, too, is long\"}");
}

static void test_E4_malformed_with_offset(void **state)
{
    (void)state;
    malformed("", 0);
    malformed("  ", 2);
    malformed("{", 1);
    malformed("{\"a\"", 4);
    malformed("{\"a\":", 5);
    malformed("{\"a\":1", 6);
    malformed("{\"a\":1,", 7);
    malformed("{\"a\":1,}", 7);
    malformed("{,}", 1);
    malformed("{\"a\" 1}", 5);
    malformed("{\"a\":1 \"b\":2}", 7);
    malformed("{\"a\":[1,]}", 8);
    malformed("{\"a\":[1}", 7);
    malformed("{\"a\":[,]}", 6);
    malformed("{a:1}", 1);
    malformed("{'a':1}", 1);
    malformed("{\"a\":tru}", 8);
    malformed("{\"a\":nul", 8);
    malformed("{\"a\":True}", 5);
    malformed("{\"a\":NaN}", 5);
    malformed("{\"a\":/**/1}", 5);
    malformed("{\"a\":01}", 6);
    malformed("{\"a\":+1}", 5);
    malformed("{\"a\":1.}", 7);
    malformed("{\"a\":.5}", 5);
    malformed("{\"a\":-}", 6);
    malformed("{\"a\":-", 6);
    malformed("{\"a\":1e}", 7);
    malformed("{\"a\":1e+}", 8);
    malformed("{\"a\":1x}", 6);
    malformed("{\"a\":0x10}", 6);
    malformed("{\"a\":\"b}", 8);
    malformed("{\"a\":\"\\x\"}", 6);
    malformed("{\"a\":\"\\u12g4\"}", 10);
    malformed("{\"a\":\"\\u12", 10);
    malformed("{\"a\":\"\\", 7);
    malformed("{\"a\":\"\\ud800\\u12\"}", 16);
    malformed("{\"a\":\"b\nc\"}", 7);
    malformed("{\"a\":\"12345678901234567890\tc\"}", 26);
    malformed("\xef\xbb\xbf{}", 0);
    malformed("\xa0{}", 0);
    expect_bytes((struct daybook_bytes){"{\"a\":\"b\0c\"}", 11}, DAYBOOK_MALFORMED_JSON, 7);
    expect_bytes((struct daybook_bytes){"{\0}", 3}, DAYBOOK_MALFORMED_JSON, 1);
    expect_bytes((struct daybook_bytes){"{}\0", 3}, DAYBOOK_MALFORMED_JSON, 2);
    expect_bytes((struct daybook_bytes){NULL, 0}, DAYBOOK_MALFORMED_JSON, 0);
}

/* Whatever stands in a step of eight bytes, at each place of it, is told from the plain. */
static void test_E4_every_byte_at_every_place_of_a_string(void **state)
{
    (void)state;
    for (size_t place = 0; place < 20; place++) {
        for (int c = 0; c < 256; c++) {
            char json[32] = "{\"a\":\"....................\"}";
            json[6 + place] = (char)c;
            if (c < 0x20 || c > 0x7f) {
                expect_bytes((struct daybook_bytes){json, 28}, DAYBOOK_MALFORMED_JSON, 6 + place);
            } else if (c == '"') {
                malformed(json, 7 + place);
            } else if (c == '\\') { /* of a point; of the quote that then closes nothing */
                malformed(json, place < 19 ? 6 + place : 28);
            } else {
                fine(json);
            }
        }
    }
}

static void test_E4_bad_utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong of two */
        "\xe0\x9f\xbf",     /* overlong of three */
        "\xf0\x8f\xbf\xbf", /* overlong of four */
        "\xed\xa0\x80",     /* encoded surrogate */
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", /* U+110000 */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xe2\x28\xa1",
        "\xf0\x9f\x28\x80",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char json[64];
        (void)snprintf(json, sizeof json, "{\"a\":\"123456789%s\"}", bad[i]);
        malformed(json, 15);
        (void)snprintf(json, sizeof json, "{\"%s\":1}", bad[i]);
        malformed(json, 2);
        (void)snprintf(json, sizeof json, "{\"%s", bad[i]); /* and at the very end */
        malformed(json, 2);
    }
}

static void test_E4_trailing_bytes(void **state)
{
    (void)state;
    malformed("{} {}", 3);
    malformed("{}x", 2);
    malformed("{}]", 2);
    malformed("{},", 2);
}

static void test_E4_top_level_is_an_object(void **state)
{
    (void)state;
    refused(" []", 1);
    refused("[{}]", 0);
    refused("\"a\"", 0);
    refused("12", 0);
    refused("true", 0);
    refused(" null ", 1);
    malformed("[1,2", 4); /* malformed is the graver answer */
}

static void test_E4_nul_and_lone_surrogates(void **state)
{
    (void)state;
    refused("{\"a\":\"b\\u0000\"}", 7);
    refused("{\"a\\u0000\":1}", 3);
    refused("{\"a\":\"\\ud800\"}", 6);
    refused("{\"a\":\"\\udc00\"}", 6);
    refused("{\"a\":\"\\uD83D\\u0041\"}", 6);
    refused("{\"a\":\"\\ud83d\\ud83d\\ude00\"}", 6);
    refused("{\"a\":\"\\ude00\\ud83d\"}", 6);
    refused("{\"a\":\"\\ud83dx\"}", 6);
    malformed("{\"a\":\"\\ud83d\",}", 14);
    malformed("{\"a\":\"\\u0000\"", 13);
}

static void test_E4_duplicate_names(void **state)
{
    (void)state;
    refused("{\"a\":1,\"a\":2}", 7);
    refused("{\"a\":1,\"b\":2,\"c\":3,\"b\":{},\"a\":2}", 19);
    refused("{\"a\":1,\"\\u0061\":2}", 7);
    refused("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", 18);
    refused("{\"\":1,\"\":1}", 6);
    refused("{\"x\":{\"a\":1,\"a\":2}}", 12);
    refused("{\"x\":[{\"a\":1},{\"a\":1,\"a\":2}]}", 21);
    refused("{\"a\\/b\":1,\"a/b\":2}", 10);
    refused("{\"abcdefghij\":1,\"\\u0061bcdefghi\\u006a\":2}", 16);
    fine("{\"a\":{\"a\":{\"a\":1}},\"A\":1,\"a \":1}");
    fine("{\"caf\xc3\xa9\":1,\"cafe\xcc\x81\":2}"); /* no normalisation */
    malformed("{\"a\":1,\"a\":2,}", 13);
}

/* {"<prefix>0":0,"<prefix>1":0,...} with `count` members, and one more that repeats `twice`. */
static char *object_of(size_t count, const char *prefix, size_t twice, size_t *ret_offset)
{
    size_t room = (count + 1) * (strlen(prefix) + 16) + 16;
    char *json = malloc(room);
    assert_non_null(json);
    size_t at = 0;
    json[at++] = '{';
    for (size_t i = 0; i <= count; i++) {
        if (i == count && twice >= count) {
            break;
        }
        at += (size_t)snprintf(json + at, room - at, "%s\"%s%zu\":0", i == 0 ? "" : ",", prefix,
                               i == count ? twice : i);
        if (i == count) {
            *ret_offset = at - strlen(prefix) - (twice < 10 ? 5 : twice < 100 ? 6 : 7) + 0;
        }
    }
    json[at++] = '}';
    json[at] = '\0';
    return json;
}

static void test_E4_duplicate_names_among_many(void **state)
{
    (void)state;
    static const size_t counts[] = {31, 32, 33, 34, 511, 512, 513, 2000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t offset = 0;
        char *json = object_of(counts[i], "name ", SIZE_MAX, &offset);
        fine(json);
        free(json);
        for (size_t twice = 0; twice < counts[i] && twice < 1000; twice += 13) {
            json = object_of(counts[i], "name ", twice, &offset);
            refused(json, offset);
            free(json);
        }
    }
}

static void test_E4_many_names_are_not_quadratic(void **state)
{
    (void)state;
    size_t offset = 0;
    char *json = object_of(300000, "", SIZE_MAX, &offset);
    clock_t before = clock(); /* processor time: a busy machine does not count */
    fine(json);
    double took_s = (double)(clock() - before) / CLOCKS_PER_SEC;
    print_message("# 300,000 names in %.0f ms\n", took_s * 1e3);
    /* Each with each would be 4.5e10 comparisons, most of a minute; a sanitizer has ten seconds. */
    assert_true(took_s < 10);
    free(json);
}

static void test_E4_repetition_that_is_told_is_the_first(void **state)
{
    (void)state;
    char json[4096] = "{";
    for (int i = 0; i < 100; i++) {
        char member[32];
        (void)snprintf(member, sizeof member, "\"%03d\":0,", i < 50 ? i : 7);
        (void)strcat(json, member);
    }
    (void)strcat(json, "\"z\":0}");
    refused(json, 1 + 50 * 8);
}

static void nested(char *json, unsigned levels)
{
    char *at = json;
    for (unsigned i = 0; i < levels; i++) {
        memcpy(at, i % 2 == 0 ? "{\"a\":" : "[", i % 2 == 0 ? 5 : 1);
        at += i % 2 == 0 ? 5 : 1;
    }
    *at++ = '1';
    for (unsigned i = levels; i > 0; i--) {
        *at++ = i % 2 == 1 ? '}' : ']';
    }
    *at = '\0';
}

static void test_E4_depth_64_is_taken_65_refused(void **state)
{
    (void)state;
    char json[1024];
    nested(json, 64);
    fine(json);
    nested(json, 65);
    refused(json, 32 * 6);
}

static void test_tokens_in_order(void **state)
{
    (void)state;
    static const enum dbk_json_token want[] = {
        DBK_JSON_OBJECT_BEGIN, DBK_JSON_NAME,       DBK_JSON_ARRAY_BEGIN, DBK_JSON_NUMBER,
        DBK_JSON_STRING,       DBK_JSON_TRUE,       DBK_JSON_FALSE,       DBK_JSON_NULL,
        DBK_JSON_OBJECT_BEGIN, DBK_JSON_OBJECT_END, DBK_JSON_ARRAY_END,   DBK_JSON_NAME,
        DBK_JSON_NUMBER,       DBK_JSON_OBJECT_END, DBK_JSON_END,         DBK_JSON_END};
    struct dbk_json json;
    dbk_json_init(&json, text("{ \"a\" : [ 1.5e3, \"x\\n\", true, false, null, {} ], \"b\":-0 }"),
                  NULL);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(dbk_json_next(&json), want[i]);
        struct daybook_bytes bytes = dbk_json_token_bytes(&json);
        if (i == 1) {
            assert_memory_equal(bytes.data, "\"a\"", bytes.len);
            assert_false(json.escaped);
            assert_int_equal(json.depth, 1);
        } else if (i == 3) {
            assert_memory_equal(bytes.data, "1.5e3", bytes.len);
            assert_int_equal(json.depth, 2);
        } else if (i == 4) {
            assert_true(json.escaped);
        }
    }
    assert_int_equal(dbk_json_verdict(&json, NULL), DAYBOOK_OK);
}

static void decodes_to(const char *token, const char *plain, size_t len)
{
    char buf[64];
    assert_int_equal(dbk_json_string_decode(text(token), buf, sizeof buf), len);
    assert_memory_equal(buf, plain, len);
    struct daybook_bytes want = {plain, len};
    assert_true(dbk_json_string_is(text(token), want));
    if (len > 0) {
        want.len--;
        assert_false(dbk_json_string_is(text(token), want));
        char fence[2] = {'?', '?'};
        assert_int_equal(dbk_json_string_decode(text(token), fence, 1), len);
        assert_int_equal(fence[0], plain[0]);
        assert_int_equal(fence[1], '?');
    }
}

static void test_strings_unescape(void **state)
{
    (void)state;
    decodes_to("\"\"", "", 0);
    decodes_to("\"plain\"", "plain", 5);
    decodes_to("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    decodes_to("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00!\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!",
               11);
    decodes_to("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
               "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11);
    decodes_to("\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8);
}

static void test_E6_strings_compare_by_code_point(void **state)
{
    (void)state;
    assert_int_equal(dbk_json_string_compare(text("\"a\\u0062\""), text("\"ab\"")), 0);
    assert_true(dbk_json_string_compare(text("\"a\""), text("\"ab\"")) < 0);
    assert_true(dbk_json_string_compare(text("\"\\u0061c\""), text("\"ab\"")) > 0);
    assert_true(dbk_json_string_compare(text("\"\\uffff\""), text("\"\\ud800\\udc00\"")) < 0);
    assert_int_equal(dbk_json_string_hash(text("\"\\u0061bcdefghij\"")),
                     dbk_json_string_hash(text("\"abcdefghij\"")));
    assert_int_equal(dbk_json_string_hash(text("\"abcdefg\\u0068\"")),
                     dbk_json_string_hash(text("\"abcdefgh\"")));
}

static void test_escape_writes_json(void **state)
{
    (void)state;
    char buf[128];
    static const char all[] = "a\"\\\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xff\xed\xa0\x80z";
    static const char want[] =
        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xef\xbf\xbd\xef"
        "\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"";
    assert_int_equal(dbk_json_escape(text(all), buf, sizeof buf), sizeof want - 1);
    assert_memory_equal(buf, want, sizeof want - 1);
    assert_int_equal(dbk_json_escape(text(all), NULL, 0), sizeof want - 1);
    assert_int_equal(dbk_json_escape((struct daybook_bytes){NULL, 0}, buf, sizeof buf), 2);
    assert_true(dbk_json_escape((struct daybook_bytes){"\0", 1}, buf, sizeof buf) <=
                DBK_JSON_ESCAPED_MAX(1));
    assert_memory_equal(buf, "\"\\u0000\"", 8);
}

static void equal_numbers(const char *a, const char *b, bool equal)
{
    if (dbk_json_number_equal(text(a), text(b)) != equal) {
        print_error("%s against %s\n", a, b);
    }
    assert_int_equal(dbk_json_number_equal(text(a), text(b)), equal);
    assert_int_equal(dbk_json_number_equal(text(b), text(a)), equal);
}

static void test_E6_numbers_by_exact_decimal_value(void **state)
{
    (void)state;
    equal_numbers("1", "1.0", true);
    equal_numbers("1", "1e0", true);
    equal_numbers("1", "10e-1", true);
    equal_numbers("0", "-0", true);
    equal_numbers("0", "0.000e99999999999999999999999999", true);
    equal_numbers("-0.0", "0e-5", true);
    equal_numbers("0", "1e-99999999999999999999", false);
    equal_numbers("9007199254740992", "9007199254740993", false);
    equal_numbers("1", "-1", false);
    equal_numbers("100", "1e2", true);
    equal_numbers("100", "1E+2", true);
    equal_numbers("0.001", "1e-3", true);
    equal_numbers("0.00120", "1.2e-003", true);
    equal_numbers("120.340", "1203.4e-1", true);
    equal_numbers("1.05", "1.5", false);
    equal_numbers("10.5", "1.05", false);
    equal_numbers("12", "1.2", false);
    equal_numbers("1e400", "1e401", false);
    equal_numbers("1e999999999999999999", "0.1e1000000000000000000", true);
    equal_numbers("1e1000000000000000000000000000000", "10e999999999999999999999999999999", true);
    equal_numbers("1e1000000000000000000000000000000", "1e-1000000000000000000000000000000", false);
    equal_numbers("1e-1000000000000000000000", "0.01e-999999999999999999998", true);
    equal_numbers("1e-1000000000000000000000", "0.01e-999999999999999999999", false);
    equal_numbers("1e18446744073709551616", "1", false);
    equal_numbers("1e4294967296", "1", false);
    equal_numbers("0.1", "0.1000000000000000055511151231257827", false);
    equal_numbers("1e1", "1e-1", false);
    equal_numbers("100e-2", "0.01e2", true);
}

static void int64_is(const char *token, int64_t want)
{
    int64_t value = 77;
    if (!dbk_json_number_int64(text(token), &value) || value != want) {
        print_error("%s\n", token);
    }
    assert_true(dbk_json_number_int64(text(token), &value));
    assert_true(value == want);
}

static void not_int64(const char *token)
{
    int64_t value = 77;
    if (dbk_json_number_int64(text(token), &value)) {
        print_error("%s\n", token);
    }
    assert_false(dbk_json_number_int64(text(token), &value));
    assert_true(value == 77);
}

static void test_numbers_exactly_to_int64(void **state)
{
    (void)state;
    int64_is("0", 0);
    int64_is("-0", 0);
    int64_is("0e999999999999999999999", 0);
    int64_is("5.0", 5);
    int64_is("1e3", 1000);
    int64_is("-12.50e1", -125);
    int64_is("1200e-2", 12);
    int64_is("0.0012e4", 12);
    int64_is("9223372036854775807", INT64_MAX);
    int64_is("-9223372036854775808", INT64_MIN);
    int64_is("9.223372036854775807e18", INT64_MAX);
    int64_is("1000000000000000000", INT64_C(1000000000000000000));
    not_int64("9223372036854775808");
    not_int64("-9223372036854775809");
    not_int64("10000000000000000000");
    not_int64("9999999999999999999");
    not_int64("99999999999999999999999999999");
    not_int64("0.5");
    not_int64("1.5e0");
    not_int64("12e-1");
    not_int64("1e19");
    not_int64("1e99999999999999999999999");
    not_int64("1e-99999999999999999999999");
    not_int64("1e18446744073709551616");
}

static void test_walk_members(void **state)
{
    (void)state;
    static const char json[] =
        " { \"a\" : 1 , \"b\":[1,[2,\"]\"],{}] ,\"c\":{\"x\":\"}\\\"{\"}, \"d\" : \"s\\\\\"}";
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    assert_true(dbk_json_walk_init(&walk, text(json)));
    static const struct {
        const char *name;
        const char *value;
        enum dbk_json_token kind;
    } want[] = {{"\"a\"", "1", DBK_JSON_NUMBER},
                {"\"b\"", "[1,[2,\"]\"],{}]", DBK_JSON_ARRAY_BEGIN},
                {"\"c\"", "{\"x\":\"}\\\"{\"}", DBK_JSON_OBJECT_BEGIN},
                {"\"d\"", "\"s\\\\\"", DBK_JSON_STRING}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(dbk_json_walk_next(&walk, &item));
        assert_int_equal(item.kind, want[i].kind);
        assert_int_equal(item.name.len, strlen(want[i].name));
        assert_memory_equal(item.name.data, want[i].name, item.name.len);
        assert_int_equal(item.value.len, strlen(want[i].value));
        assert_memory_equal(item.value.data, want[i].value, item.value.len);
    }
    assert_false(dbk_json_walk_next(&walk, &item));
    assert_false(dbk_json_walk_next(&walk, &item));
    assert_false(dbk_json_walk_init(&walk, text("1")));
    assert_false(dbk_json_walk_init(&walk, (struct daybook_bytes){NULL, 0}));
}

static void array_is(const char *json, enum daybook_code code, uint64_t offset)
{
    struct daybook_error err = {0};
    char *copy = exact_copy(text(json));
    enum daybook_code got = dbk_json_check_array((struct daybook_bytes){copy, strlen(json)}, &err);
    if (got != code || err.offset != offset) {
        print_error("%s: %d at %llu\n", json, (int)got, (unsigned long long)err.offset);
    }
    assert_int_equal(got, code);
    assert_int_equal(err.offset, offset);
    free(copy);
}

static void test_arrays_are_split(void **state)
{
    (void)state;
    array_is("[]", DAYBOOK_OK, 0);
    array_is(" [ ] ", DAYBOOK_OK, 0);
    array_is("[{},1 , [\"]\"],\"x\"]", DAYBOOK_OK, 0);
    array_is("[{\"a\":1,\"a\":\"\\u0000\\ud800\"},2]", DAYBOOK_OK, 0); /* the element's own fault */
    array_is("{}", DAYBOOK_MALFORMED_JSON, 0);
    array_is("", DAYBOOK_MALFORMED_JSON, 0);
    array_is("[", DAYBOOK_MALFORMED_JSON, 1);
    array_is("[1", DAYBOOK_MALFORMED_JSON, 2);
    array_is("[1,]", DAYBOOK_MALFORMED_JSON, 3);
    array_is("[1,,2]", DAYBOOK_MALFORMED_JSON, 3);
    array_is("[,1]", DAYBOOK_MALFORMED_JSON, 1);
    array_is("[1 2]", DAYBOOK_MALFORMED_JSON, 3);
    array_is("[1}", DAYBOOK_MALFORMED_JSON, 2);
    array_is("[1]]", DAYBOOK_MALFORMED_JSON, 3);
    array_is("[]x", DAYBOOK_MALFORMED_JSON, 2);
    array_is("[{\"a\":01}]", DAYBOOK_MALFORMED_JSON, 7);
    char deep[2048] = "[";
    nested(deep + 1, 64);
    (void)strcat(deep, ",2]");
    array_is(deep, DAYBOOK_OK, 0); /* depth counts from the element */
    nested(deep + 1, 200);
    (void)strcat(deep, ",{\"b\":2}]");
    array_is(deep, DAYBOOK_OK, 0);
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    assert_true(dbk_json_walk_init(&walk, text(deep)));
    assert_true(dbk_json_walk_next(&walk, &item));
    assert_int_equal(dbk_json_check_object(item.value, NULL), DAYBOOK_INVALID_EVENT);
    assert_true(dbk_json_walk_next(&walk, &item));
    assert_memory_equal(item.value.data, "{\"b\":2}", item.value.len);
    assert_false(dbk_json_walk_next(&walk, &item));
    memset(deep + 1, '[', 200);
    deep[201] = '\0';
    array_is(deep, DAYBOOK_MALFORMED_JSON, 201);
}

static void test_one_line(void **state)
{
    (void)state;
    char buf[32];
    static const char json[] = "{\r\n\t\"a\":\"\\n\"\r}";
    dbk_json_one_line(text(json), buf);
    assert_memory_equal(buf, "{  \t\"a\":\"\\n\" }", sizeof json - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_E4_objects_that_are_taken),
        cmocka_unit_test(test_E4_malformed_with_offset),
        cmocka_unit_test(test_E4_every_byte_at_every_place_of_a_string),
        cmocka_unit_test(test_E4_bad_utf8),
        cmocka_unit_test(test_E4_trailing_bytes),
        cmocka_unit_test(test_E4_top_level_is_an_object),
        cmocka_unit_test(test_E4_nul_and_lone_surrogates),
        cmocka_unit_test(test_E4_duplicate_names),
        cmocka_unit_test(test_E4_duplicate_names_among_many),
        cmocka_unit_test(test_E4_many_names_are_not_quadratic),
        cmocka_unit_test(test_E4_repetition_that_is_told_is_the_first),
        cmocka_unit_test(test_E4_depth_64_is_taken_65_refused),
        cmocka_unit_test(test_tokens_in_order),
        cmocka_unit_test(test_strings_unescape),
        cmocka_unit_test(test_E6_strings_compare_by_code_point),
        cmocka_unit_test(test_escape_writes_json),
        cmocka_unit_test(test_E6_numbers_by_exact_decimal_value),
        cmocka_unit_test(test_E4_the_quick_way_judges_as_the_slow_one),
        cmocka_unit_test(test_numbers_exactly_to_int64),
        cmocka_unit_test(test_walk_members),
        cmocka_unit_test(test_arrays_are_split),
        cmocka_unit_test(test_one_line),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
