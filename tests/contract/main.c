/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the contract's suite for the engine named by the first argument: test-contract memory [PATTERN].
 * Every test has a world of its own.
 */
#include "contract/contract.h"

#include <stdio.h>
#include <stdlib.h>

#define TESTS_MAX 512u

static const struct contract_engine *engine;

struct running {
    const struct contract_test *test;
    struct contract_world *world;
};

static int setup(void **state)
{
    const struct daybook_capacity capacity = world_capacity();
    struct running *running = calloc(1, sizeof *running);

    if (running == NULL) {
        return -1;
    }
    running->test = *state;
    running->world = world_new(engine, &capacity);
    *state = running;
    return 0;
}

static int teardown(void **state)
{
    struct running *running = *state;

    world_free(running->world);
    free(running);
    return 0;
}

static void run(void **state)
{
    const struct running *running = *state;

    running->test->run(running->world);
    check_sums(running->world);
}

int main(int argc, char **argv)
{
    static const struct contract_tests *const lists[] = {
        &contract_event_tests,     &contract_append_tests,   &contract_claim_tests,
        &contract_run_tests,       &contract_verdict_tests,  &contract_stats_tests,
        &contract_operators_tests, &contract_capacity_tests, &contract_shared_tests,
    };
    static struct CMUnitTest tests[TESTS_MAX];
    const char *pattern = argc > 2 ? argv[2] : "";
    size_t count = 0;

    engine = argc > 1 ? contract_engine_named(argv[1]) : NULL;
    if (engine == NULL) {
        (void)fprintf(stderr, "usage: %s ENGINE [PART OF A TEST'S NAME]\n", argv[0]);
        return 2;
    }
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        for (size_t i = 0; i < lists[l]->count && count < TESTS_MAX; i++) {
            const struct contract_test *test = lists[l]->tests + i;

            if (test->needs == NEEDS_A_DISK && !engine->durable) {
                (void)printf("# left out: %s: the engine %s has no disk\n", test->name,
                             engine->name);
            } else if (strstr(test->name, pattern) != NULL) {
                tests[count++] =
                    (struct CMUnitTest){test->name, run, setup, teardown, &lists[l]->tests[i]};
            }
        }
    }
    return _cmocka_run_group_tests(engine->name, tests, count, NULL, NULL);
}
