/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination that is away for a month, in moved time, on the log engine: what the log takes of the disk stays
 * bounded, whatever is noted of claims and leases meanwhile, and every event is delivered after it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define EVENTS 1500u
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DAYS 3 /* a sanitizer is there for the memory, and slow */
#else
#define DAYS 30
#endif

static void test_W5b_P1_an_outage_of_a_month_takes_a_bounded_part_of_the_disk(void **state)
{
    struct bench *b = *state;
    uint64_t most = 0;
    uint64_t first_day = 0;

    bench_enlarge(b, EVENTS + 100);
    b->options.claim_batch = 256;
    begin(b);
    put_many(b->world, "e", EVENTS, NULL);
    b->sinks[0]->away = true;
    b->sinks[0]->away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    int64_t began_us = mono_us(b);
    while (mono_us(b) - began_us < DAYS * 24 * HOUR_US) {
        (void)until_next_try(b);
        uint64_t bytes = journal_figures(b->world).file_bytes;
        most = bytes > most ? bytes : most;
        if (mono_us(b) - began_us < 24 * HOUR_US) {
            first_day = most;
        }
    }
    print_message("# at most %llu bytes of files, on the first day %llu\n",
                  (unsigned long long)most, (unsigned long long)first_day);
    assert_true(most <= first_day + 8u * 1024 * 1024);
    assert_int_equal(backlog(b).quarantined, 0);
    b->sinks[0]->away = false;
    live(b, HOUR_US);
    assert_true(backlog(b).drained);
    assert_int_equal(b->worker->delivered, EVENTS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_W5b_P1_an_outage_of_a_month_takes_a_bounded_part_of_the_disk, bench_setup,
            bench_teardown),
    };

    bench_engine(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
