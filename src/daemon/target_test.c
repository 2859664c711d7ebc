/* SPDX-License-Identifier: Apache-2.0 */
/* The table of paths: what is there, what each path takes, and names that are percent-encoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/target.h"

static enum daybook_code parse(const char *path, const char *method, struct dbk_target *target)
{
    struct daybook_error err = {0};
    enum daybook_code code = dbk_target_parse(path, method, target, &err);

    if (code != DAYBOOK_OK) {
        assert_string_not_equal(err.message, "");
    }
    return code;
}

static void goes_to(const char *path, const char *method, enum dbk_route route, bool allowed)
{
    struct dbk_target target;

    assert_int_equal(parse(path, method, &target), DAYBOOK_OK);
    assert_int_equal(target.route, route);
    assert_int_equal(target.allowed, allowed);
    assert_non_null(target.allow);
}

static void test_every_path_of_the_interface(void **state)
{
    (void)state;
    goes_to("/v1/events", "GET", DBK_ROUTE_EVENTS, true);
    goes_to("/v1/events", "POST", DBK_ROUTE_EVENTS, true);
    goes_to("/v1/events", "DELETE", DBK_ROUTE_EVENTS, false);
    goes_to("/v1/events/a", "HEAD", DBK_ROUTE_EVENT, true);
    goes_to("/v1/events/a", "POST", DBK_ROUTE_EVENT, false);
    goes_to("/v1/stats", "GET", DBK_ROUTE_STATS, true);
    goes_to("/v1/consumers", "GET", DBK_ROUTE_CONSUMERS, true);
    goes_to("/v1/consumers/billing", "GET", DBK_ROUTE_CONSUMER, true);
    goes_to("/v1/consumers/billing", "DELETE", DBK_ROUTE_CONSUMER, true);
    goes_to("/v1/consumers/billing", "POST", DBK_ROUTE_CONSUMER, false);
    goes_to("/v1/consumers/billing/rewind", "POST", DBK_ROUTE_REWIND, true);
    goes_to("/v1/consumers/billing/rewind", "GET", DBK_ROUTE_REWIND, false);
    goes_to("/v1/consumers/billing/quarantine", "GET", DBK_ROUTE_QUARANTINE, true);
    goes_to("/v1/consumers/billing/quarantine/a", "GET", DBK_ROUTE_QUARANTINED, true);
    goes_to("/v1/consumers/billing/quarantine/a", "DELETE", DBK_ROUTE_QUARANTINED, true);
    goes_to("/v1/consumers/billing/quarantine/a", "POST", DBK_ROUTE_QUARANTINED, false);
    goes_to("/v1/consumers/billing/quarantine/a/release", "POST", DBK_ROUTE_RELEASE, true);
    goes_to("/v1/operations", "GET", DBK_ROUTE_OPERATIONS, true);
    goes_to("/metrics", "GET", DBK_ROUTE_METRICS, true);
    goes_to("/healthz", "GET", DBK_ROUTE_HEALTH, true);
    goes_to("/readyz", "PUT", DBK_ROUTE_READY, false);
}

static void test_a_word_of_the_path_may_be_an_id(void **state)
{
    (void)state;
    goes_to("/v1/consumers/c/quarantine/release", "POST", DBK_ROUTE_RELEASE_MANY, true);
    goes_to("/v1/consumers/c/quarantine/release", "GET", DBK_ROUTE_QUARANTINED, true);
    goes_to("/v1/consumers/c/quarantine/release", "DELETE", DBK_ROUTE_QUARANTINED, true);
    goes_to("/v1/consumers/c/quarantine/discard", "POST", DBK_ROUTE_DISCARD_MANY, true);
    goes_to("/v1/consumers/c/quarantine/discard", "DELETE", DBK_ROUTE_QUARANTINED, true);
    goes_to("/v1/consumers/c/quarantine/release/release", "POST", DBK_ROUTE_RELEASE, true);
}

static void test_names_are_decoded_after_the_path_is_cut(void **state)
{
    struct dbk_target target;

    (void)state;
    assert_int_equal(
        parse("/v1/consumers/bill%69ng/quarantine/a%2Fb%3f%25/release", "POST", &target),
        DAYBOOK_OK);
    assert_string_equal(target.consumer, "billing");
    assert_string_equal(target.request_id, "a/b?%");
    assert_int_equal(parse("/v1/events/a+b", "GET", &target), DAYBOOK_OK);
    assert_string_equal(target.request_id, "a+b"); /* a plus is a plus in a path */
}

static void test_what_is_no_path(void **state)
{
    static const char *const none[] = {"",
                                       "/",
                                       "v1/events",
                                       "/v1",
                                       "/v1/events/",
                                       "/v1/events/a/b",
                                       "/v1//events",
                                       "/v1/Events",
                                       "/v1/consumers/c/quarantine/a/b",
                                       "/v1/consumers/c/quarantine//release",
                                       "/v1/consumers/c/quarantine/a/release/x",
                                       "/v1/consumers/c/quarantine/a/release/x/y/z"};
    struct dbk_target target;

    (void)state;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(parse(none[i], "GET", &target), DAYBOOK_NOT_FOUND);
        assert_int_equal(target.route, DBK_ROUTE_NONE);
    }
}

static void test_names_that_cannot_be(void **state)
{
    static const char *const bad[] = {"/v1/consumers/Billing", "/v1/consumers/%2e%2e",
                                      "/v1/events/%",          "/v1/events/%4",
                                      "/v1/events/%zz",        "/v1/events/%00"};
    struct dbk_target target;
    char longest[300] = "/v1/events/";

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i], "GET", &target), DAYBOOK_BAD_ARGUMENT);
    }
    memset(longest + 11, 'x', 255);
    longest[11 + 255] = '\0';
    assert_int_equal(parse(longest, "GET", &target), DAYBOOK_OK);
    assert_int_equal(strlen(target.request_id), 255);
    longest[11 + 255] = 'x';
    longest[11 + 256] = '\0';
    assert_int_equal(parse(longest, "GET", &target), DAYBOOK_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_path_of_the_interface),
        cmocka_unit_test(test_a_word_of_the_path_may_be_an_id),
        cmocka_unit_test(test_names_are_decoded_after_the_path_is_cut),
        cmocka_unit_test(test_what_is_no_path),
        cmocka_unit_test(test_names_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
