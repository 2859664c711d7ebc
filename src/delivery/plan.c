/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a pass. Loops over keys are linear searches: they run only once a row was rejected.
 */
#include "delivery/plan.h"

#include <string.h>

void dbk_plan_begin(struct dbk_plan *plan, const struct daybook_row *rows, size_t count,
                    size_t sink_count)
{
    plan->rows = rows;
    plan->count = count;
    plan->sink_count = sink_count;
    plan->sink = 0;
    plan->refusals = 0;
    plan->end = DBK_PLAN_FINE;
    plan->retry_after_us = 0;
    plan->over = false;
    plan->write_count = 0;
    for (size_t i = 0; i < count; i++) {
        plan->states[i] = (struct dbk_plan_row){DBK_ROW_OPEN, 0};
    }
}

/* Gathers the open rows that the destination at hand has not taken. */
static void gather(struct dbk_plan *plan)
{
    plan->write_count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->states[i].fate == DBK_ROW_OPEN && plan->states[i].taken == plan->sink) {
            plan->write[plan->write_count++] = (uint32_t)i;
        }
    }
}

bool dbk_plan_next(struct dbk_plan *plan)
{
    while (!plan->over) {
        gather(plan);
        if (plan->write_count > 0) {
            return true;
        }
        if (++plan->sink >= plan->sink_count) {
            plan->over = true;
        }
    }
    return false;
}

static bool same_bytes(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Holds back what stands behind a row in its key. */
static void hold_behind(struct dbk_plan *plan, size_t index)
{
    const struct daybook_event *blocked = &plan->rows[index].event;

    for (size_t i = index + 1; i < plan->count; i++) {
        const struct daybook_event *event = &plan->rows[i].event;
        if (plan->states[i].fate == DBK_ROW_OPEN && same_bytes(event->subject, blocked->subject) &&
            same_bytes(event->name_space, blocked->name_space)) {
            plan->states[i].fate = DBK_ROW_UNWRITTEN;
        }
    }
}

static void take(struct dbk_plan *plan, size_t index)
{
    struct dbk_plan_row *row = &plan->states[index];

    if (row->fate != DBK_ROW_OPEN) {
        return;
    }
    row->taken++;
    if (row->taken == plan->sink_count) {
        row->fate = DBK_ROW_LANDED;
    }
}

/* Rows that the destination named. Returns how many of the names mean a row of the write: a sink
 * is somebody's code, and an index that it made up must not touch anything. */
static size_t reject_named(struct dbk_plan *plan, const struct daybook_answer *answer)
{
    size_t named = 0;

    for (size_t i = 0; i < answer->rejected_count && i < DAYBOOK_REJECTED_MAX; i++) {
        if (answer->rejected[i].index < plan->write_count) {
            plan->states[plan->write[answer->rejected[i].index]].fate = DBK_ROW_REJECTED;
            named++;
        }
    }
    return named;
}

static void hold_behind_rejected(struct dbk_plan *plan)
{
    for (size_t i = 0; i < plan->write_count; i++) {
        if (plan->states[plan->write[i]].fate == DBK_ROW_REJECTED) {
            hold_behind(plan, plan->write[i]);
        }
    }
}

static void end_with(struct dbk_plan *plan, enum dbk_plan_end end)
{
    dbk_plan_stop(plan);
    plan->end = end;
}

static void on_rejected(struct dbk_plan *plan, const struct daybook_answer *answer)
{
    if (reject_named(plan, answer) == 0) {
        end_with(plan, DBK_PLAN_DOUBT);
        return;
    }
    plan->refusals++;
    if (answer->others == DAYBOOK_OTHERS_ACCEPTED) {
        /* What it took behind a rejected row has landed there; the next one is not asked to. */
        for (size_t i = 0; i < plan->write_count; i++) {
            take(plan, plan->write[i]);
        }
    }
    hold_behind_rejected(plan);
    if (plan->refusals >= DBK_PLAN_REFUSALS_MAX && answer->others == DAYBOOK_OTHERS_NOT_WRITTEN) {
        end_with(plan, DBK_PLAN_FINE);
    }
}

void dbk_plan_answer(struct dbk_plan *plan, const struct daybook_answer *answer)
{
    switch (answer->kind) {
    case DAYBOOK_ANSWER_ACCEPTED:
        for (size_t i = 0; i < plan->write_count; i++) {
            take(plan, plan->write[i]);
        }
        break;
    case DAYBOOK_ANSWER_REJECTED:
        on_rejected(plan, answer);
        break;
    case DAYBOOK_ANSWER_UNAVAILABLE:
        plan->retry_after_us = answer->retry_after_us;
        end_with(plan, DBK_PLAN_OUTAGE);
        break;
    case DAYBOOK_ANSWER_REFUSED:
    default:
        /* Of a row, whichever it is: no sign that the destination is ill (W12). */
        end_with(plan,
                 answer->refusal == DAYBOOK_REFUSAL_OF_A_ROW ? DBK_PLAN_FINE : DBK_PLAN_DOUBT);
        break;
    }
}

void dbk_plan_leave(struct dbk_plan *plan, size_t index)
{
    if (plan->states[index].fate == DBK_ROW_OPEN) {
        plan->states[index].fate = DBK_ROW_LEFT;
        hold_behind(plan, index);
    }
}

void dbk_plan_stop(struct dbk_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->states[i].fate == DBK_ROW_OPEN) {
            plan->states[i].fate = DBK_ROW_UNWRITTEN;
        }
    }
    plan->end = DBK_PLAN_STOPPED;
    plan->over = true;
}

size_t dbk_plan_fates(const struct dbk_plan *plan, enum dbk_row_fate fate)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->count; i++) {
        count += plan->states[i].fate == fate ? 1 : 0;
    }
    return count;
}

size_t dbk_plan_taken(const struct dbk_plan *plan, size_t sink)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->count; i++) {
        count += plan->states[i].taken > sink ? 1 : 0;
    }
    return count;
}
