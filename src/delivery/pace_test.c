/* SPDX-License-Identifier: Apache-2.0 */
/* The pace: sizes of claims and lengths of quiet in an outage and after it. */
#include "delivery/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define POLL_US 250000
#define LEASE_US 30000000

static void test_W13_quiet_grows_with_jitter_up_to_the_lease(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct dbk_pace pace;
        int64_t whole_us = POLL_US;

        dbk_pace_init(&pace, 256, POLL_US, LEASE_US, seed);
        for (int i = 0; i < 40; i++) {
            int64_t quiet_us = dbk_pace_slow(&pace, 0);
            assert_true(quiet_us <= whole_us);
            assert_true(quiet_us >= whole_us - whole_us / 4);
            whole_us = whole_us * 2 < LEASE_US ? whole_us * 2 : LEASE_US;
        }
        dbk_pace_recover(&pace);
        assert_true(dbk_pace_slow(&pace, 0) <= POLL_US);
    }
}

static void test_W13_two_workers_do_not_beat_in_step(void **state)
{
    struct dbk_pace a;
    struct dbk_pace b;
    unsigned equal = 0;

    (void)state;
    dbk_pace_init(&a, 256, POLL_US, LEASE_US, 0x1234567890abcdef);
    dbk_pace_init(&b, 256, POLL_US, LEASE_US, 0xfedcba0987654321);
    for (int i = 0; i < 20; i++) {
        equal += dbk_pace_slow(&a, 0) == dbk_pace_slow(&b, 0) ? 1 : 0;
    }
    assert_true(equal < 3);
}

static void test_W13_retry_after_lengthens_and_never_beyond_the_lease(void **state)
{
    struct dbk_pace pace;

    (void)state;
    dbk_pace_init(&pace, 256, POLL_US, LEASE_US, 1);
    assert_int_equal(dbk_pace_slow(&pace, 5000000), 5000000);
    assert_int_equal(dbk_pace_slow(&pace, INT64_MAX), LEASE_US);
    assert_true(dbk_pace_slow(&pace, -1) > 0);
}

static void test_W13_a_poll_longer_than_the_lease_is_cut_to_it(void **state)
{
    struct dbk_pace pace;

    (void)state;
    dbk_pace_init(&pace, 256, 10 * (int64_t)LEASE_US, LEASE_US, 1);
    assert_true(dbk_pace_slow(&pace, 0) <= LEASE_US);
}

static void test_W5b_sizes(void **state)
{
    static const uint32_t shrinking[] = {64, 16, 4, 1};
    static const uint32_t growing[] = {2, 4, 8, 16, 32, 64, 128, 200, 200};
    struct dbk_pace pace;

    (void)state;
    dbk_pace_init(&pace, 256, POLL_US, LEASE_US, 1);
    for (size_t i = 0; i < sizeof shrinking / sizeof shrinking[0]; i++) {
        (void)dbk_pace_slow(&pace, 0);
        assert_int_equal(pace.size, shrinking[i]);
    }
    (void)dbk_pace_slow(&pace, 0); /* from the start again */
    assert_int_equal(pace.size, 256);

    /* A doubt that begins with the smallest claim tries that first. */
    dbk_pace_init(&pace, 256, POLL_US, LEASE_US, 1);
    (void)dbk_pace_slow(&pace, 0);
    dbk_pace_recover(&pace);
    (void)dbk_pace_slow(&pace, 0);
    assert_int_equal(pace.size, 1);
    (void)dbk_pace_slow(&pace, 0);
    assert_int_equal(pace.size, 256);

    /* After it the size doubles from 1, whichever claim it was that ended the doubt. */
    dbk_pace_init(&pace, 200, POLL_US, LEASE_US, 1);
    (void)dbk_pace_slow(&pace, 0);
    assert_int_equal(pace.size, 50);
    dbk_pace_recover(&pace);
    assert_int_equal(pace.size, 1);
    for (size_t i = 0; i < sizeof growing / sizeof growing[0]; i++) {
        dbk_pace_recover(&pace);
        assert_int_equal(pace.size, growing[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_W13_quiet_grows_with_jitter_up_to_the_lease),
        cmocka_unit_test(test_W13_two_workers_do_not_beat_in_step),
        cmocka_unit_test(test_W13_retry_after_lengthens_and_never_beyond_the_lease),
        cmocka_unit_test(test_W13_a_poll_longer_than_the_lease_is_cut_to_it),
        cmocka_unit_test(test_W5b_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
