/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract's suite: one list of tests, stamped out for every engine. A test's name begins with the rule
 * that it holds (`test_A2_...`), so that tests/contract/rules can say which rules have none.
 */
#ifndef CONTRACT_CONTRACT_H
#define CONTRACT_CONTRACT_H

#include <string.h>

#include "harness/world.h"

/* What an engine has to have for a test to say anything about it. */
enum contract_needs { NEEDS_NOTHING, NEEDS_A_DISK };

struct contract_test {
    const char *name;
    void (*run)(struct contract_world *world);
    enum contract_needs needs;
};
struct contract_tests {
    struct contract_test *tests; /* not const: cmocka carries it as a void pointer */
    size_t count;
};

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name, NEEDS_NOTHING                                                                 \
    }
#define TEST_ON_DISK(name)                                                                         \
    {                                                                                              \
#name, name, NEEDS_A_DISK                                                                  \
    }
#define TESTS_OF(array)                                                                            \
    {                                                                                              \
        array, sizeof(array) / sizeof((array)[0])                                                  \
    }

extern const struct contract_tests contract_event_tests;
extern const struct contract_tests contract_append_tests;
extern const struct contract_tests contract_claim_tests;
extern const struct contract_tests contract_run_tests;
extern const struct contract_tests contract_verdict_tests;
extern const struct contract_tests contract_stats_tests;
extern const struct contract_tests contract_operators_tests;
extern const struct contract_tests contract_capacity_tests;
extern const struct contract_tests contract_shared_tests;

#endif
