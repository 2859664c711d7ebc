/* SPDX-License-Identifier: Apache-2.0 */
/* What is written next, and what becomes of each row, for answers of every kind. */
#include "delivery/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 300u

static struct daybook_row rows[ROWS_MAX];
static struct dbk_plan_row states[ROWS_MAX];
static uint32_t write_of[ROWS_MAX];
static struct daybook_answer answer;

/* A plan over rows whose keys are the letters of `keys`. */
static struct dbk_plan plan_over(const char *keys, size_t sinks)
{
    struct dbk_plan plan = {.states = states, .write = write_of};
    size_t count = strlen(keys);

    for (size_t i = 0; i < count; i++) {
        rows[i].event.name_space = (struct daybook_bytes){"n", 1};
        rows[i].event.subject = (struct daybook_bytes){keys + i, 1};
    }
    dbk_plan_begin(&plan, rows, count, sinks);
    return plan;
}

static void assert_write(const struct dbk_plan *plan, size_t sink, const char *indices)
{
    char got[ROWS_MAX * 2] = "";

    for (size_t i = 0; i < plan->write_count; i++) {
        got[i] = (char)('0' + plan->write[i]);
    }
    assert_int_equal(plan->sink, sink);
    assert_string_equal(got, indices);
}

static void give(struct dbk_plan *plan, enum daybook_answer_kind kind)
{
    answer.kind = kind;
    dbk_plan_answer(plan, &answer);
}

static void reject(struct dbk_plan *plan, enum daybook_others others, size_t first, size_t second)
{
    answer.others = others;
    answer.rejected_count = second == SIZE_MAX ? 1 : 2;
    answer.rejected[0].index = first;
    answer.rejected[1].index = second;
    give(plan, DAYBOOK_ANSWER_REJECTED);
}

/* Fates by letter: Landed, Rejected, Unwritten, left (X). */
static void assert_fates(const struct dbk_plan *plan, const char *fates)
{
    char got[ROWS_MAX + 1] = "";

    for (size_t i = 0; i < plan->count; i++) {
        got[i] = "OLRUX"[plan->states[i].fate];
    }
    assert_string_equal(got, fates);
}

static void test_W1_every_destination_is_asked_in_turn(void **state)
{
    struct dbk_plan plan = plan_over("abc", 2);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 0, "012");
    give(&plan, DAYBOOK_ANSWER_ACCEPTED);
    assert_fates(&plan, "OOO");
    assert_int_equal(dbk_plan_taken(&plan, 0), 3);
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 1, "012");
    give(&plan, DAYBOOK_ANSWER_ACCEPTED);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "LLL");
    assert_int_equal(plan.end, DBK_PLAN_FINE);
}

static void test_W2_a_refusal_ends_the_pass(void **state)
{
    struct dbk_plan plan = plan_over("abc", 2);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    give(&plan, DAYBOOK_ANSWER_REFUSED);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "UUU");
    assert_int_equal(plan.end, DBK_PLAN_DOUBT);
}

static void test_W12_a_constraint_that_names_no_row_is_no_sign_of_an_outage(void **state)
{
    struct dbk_plan plan = plan_over("abc", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    answer.refusal = DAYBOOK_REFUSAL_OF_A_ROW;
    give(&plan, DAYBOOK_ANSWER_REFUSED);
    answer.refusal = DAYBOOK_REFUSAL_PLAIN;
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "UUU");
    assert_int_equal(plan.end, DBK_PLAN_FINE);
}

static void test_W7_an_outage_blames_nobody(void **state)
{
    struct dbk_plan plan = plan_over("abc", 1);

    (void)state;
    answer.retry_after_us = 5;
    assert_true(dbk_plan_next(&plan));
    give(&plan, DAYBOOK_ANSWER_UNAVAILABLE);
    answer.retry_after_us = 0;
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "UUU");
    assert_int_equal(plan.end, DBK_PLAN_OUTAGE);
    assert_int_equal(plan.retry_after_us, 5);
}

static void test_W12_the_others_are_written_again_without_the_named(void **state)
{
    struct dbk_plan plan = plan_over("abacba", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_NOT_WRITTEN, 2, SIZE_MAX);
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 0, "0134"); /* not 5: it stands behind 2 in its key */
    give(&plan, DAYBOOK_ANSWER_ACCEPTED);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "LLRLLU");
}

static void test_W12_rejection_follows_on_rejection(void **state)
{
    struct dbk_plan plan = plan_over("abcd", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_NOT_WRITTEN, 0, 2);
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 0, "13");
    reject(&plan, DAYBOOK_OTHERS_NOT_WRITTEN, 1, SIZE_MAX); /* the second of this write: row 3 */
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 0, "1");
    give(&plan, DAYBOOK_ANSWER_UNAVAILABLE);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "RURR");
}

static void test_W12_others_accepted_have_landed_behind_a_rejected_one_too(void **state)
{
    struct dbk_plan plan = plan_over("aab", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_ACCEPTED, 0, SIZE_MAX);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "RLL");
}

static void test_W14_the_next_destination_is_not_asked_for_what_stands_behind(void **state)
{
    struct dbk_plan plan = plan_over("aab", 2);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_ACCEPTED, 0, SIZE_MAX);
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 1, "2");
    give(&plan, DAYBOOK_ANSWER_ACCEPTED);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "RUL");
}

static void test_W12_every_row_named(void **state)
{
    struct dbk_plan plan = plan_over("ab", 2);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_NOT_WRITTEN, 0, 1);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "RR");
    assert_int_equal(plan.end, DBK_PLAN_FINE);
}

static void test_W12_a_name_that_means_no_row_is_no_name(void **state)
{
    struct dbk_plan plan = plan_over("ab", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_ACCEPTED, 2, SIZE_MAX - 1);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "UU");
    assert_int_equal(plan.end, DBK_PLAN_DOUBT);
}

static void test_W4_a_destination_that_names_one_row_at_a_time_has_a_budget(void **state)
{
    char keys[64];

    (void)state;
    for (size_t i = 0; i < sizeof keys - 1; i++) {
        keys[i] = (char)('0' + i);
    }
    keys[sizeof keys - 1] = '\0';
    struct dbk_plan plan = plan_over(keys, 1);
    unsigned writes = 0;
    while (dbk_plan_next(&plan)) {
        writes++;
        reject(&plan, DAYBOOK_OTHERS_NOT_WRITTEN, 0, SIZE_MAX);
    }
    assert_int_equal(writes, DBK_PLAN_REFUSALS_MAX);
    assert_int_equal(dbk_plan_fates(&plan, DBK_ROW_REJECTED), DBK_PLAN_REFUSALS_MAX);
    assert_int_equal(dbk_plan_fates(&plan, DBK_ROW_UNWRITTEN),
                     sizeof keys - 1 - DBK_PLAN_REFUSALS_MAX);
}

static void test_W11_a_row_that_leaves_takes_its_key_along(void **state)
{
    struct dbk_plan plan = plan_over("aba", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    dbk_plan_leave(&plan, 0);
    assert_true(dbk_plan_next(&plan));
    assert_write(&plan, 0, "1");
    give(&plan, DAYBOOK_ANSWER_ACCEPTED);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "XLU");
}

static void test_T1_a_stop_leaves_what_landed(void **state)
{
    struct dbk_plan plan = plan_over("ab", 1);

    (void)state;
    assert_true(dbk_plan_next(&plan));
    reject(&plan, DAYBOOK_OTHERS_ACCEPTED, 0, SIZE_MAX);
    dbk_plan_stop(&plan);
    assert_false(dbk_plan_next(&plan));
    assert_fates(&plan, "RL");
    assert_int_equal(plan.end, DBK_PLAN_STOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_W1_every_destination_is_asked_in_turn),
        cmocka_unit_test(test_W2_a_refusal_ends_the_pass),
        cmocka_unit_test(test_W12_a_constraint_that_names_no_row_is_no_sign_of_an_outage),
        cmocka_unit_test(test_W7_an_outage_blames_nobody),
        cmocka_unit_test(test_W12_the_others_are_written_again_without_the_named),
        cmocka_unit_test(test_W12_rejection_follows_on_rejection),
        cmocka_unit_test(test_W12_others_accepted_have_landed_behind_a_rejected_one_too),
        cmocka_unit_test(test_W14_the_next_destination_is_not_asked_for_what_stands_behind),
        cmocka_unit_test(test_W12_every_row_named),
        cmocka_unit_test(test_W12_a_name_that_means_no_row_is_no_name),
        cmocka_unit_test(test_W4_a_destination_that_names_one_row_at_a_time_has_a_budget),
        cmocka_unit_test(test_W11_a_row_that_leaves_takes_its_key_along),
        cmocka_unit_test(test_T1_a_stop_leaves_what_landed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
