/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of one pass: given the answers of the destinations so far, what is written next, and what
 * becomes of every row (W1, W2, W12, W14).
 *
 * The batch goes to one destination after the other. Rows that one rejects by name leave, and those of
 * their keys behind them wait; where the destination undid the others, they are written again without.
 * A refusal that names nobody, and an outage, end the pass: who is to blame for a refused batch is
 * not searched for here.
 *
 * Pure: no clock, no I/O. Threads: one at a time per plan.
 */
#ifndef DBK_DELIVERY_PLAN_H
#define DBK_DELIVERY_PLAN_H

#include <daybook/sink.h>

#define DBK_PLAN_REFUSALS_MAX 32u /* refused or rejected writes of one pass (W4's probe budget) */

enum dbk_row_fate {
    DBK_ROW_OPEN,      /* not decided yet */
    DBK_ROW_LANDED,    /* every destination has it: acknowledged */
    DBK_ROW_REJECTED,  /* refused on its own account: its attempt stays spent (W6) */
    DBK_ROW_UNWRITTEN, /* did not land, and nobody blames it: its attempt is given back (W7) */
    DBK_ROW_LEFT       /* its lease is no longer ours: nothing more is said of it (W11) */
};

/* What a pass says of its destinations. */
enum dbk_plan_end {
    DBK_PLAN_FINE,   /* the destinations answered for rows */
    DBK_PLAN_DOUBT,  /* one refused, and named nobody */
    DBK_PLAN_OUTAGE, /* one said that it is not there */
    DBK_PLAN_STOPPED /* cut off by a stop */
};

struct dbk_plan_row {
    enum dbk_row_fate fate;
    uint32_t taken; /* by how many destinations, in their order */
};

struct dbk_plan {
    const struct daybook_row *rows; /* borrowed for the pass */
    size_t count;
    size_t sink_count;
    size_t sink; /* the one that is written to now */
    uint32_t refusals;
    enum dbk_plan_end end;
    int64_t retry_after_us; /* with OUTAGE, 0: not said */
    bool over;
    /* The caller's storage, `count_max` entries each. */
    struct dbk_plan_row *states;
    uint32_t *write; /* indices of the rows of the write that was asked for last */
    size_t write_count;
};

/* Begins a pass over `rows` (borrowed until its end) in order of position. */
void dbk_plan_begin(struct dbk_plan *plan, const struct daybook_row *rows, size_t count,
                    size_t sink_count);

/* What is written next: `plan->write` to destination `plan->sink`. False: the pass is over, and no
 * row is open any more. */
bool dbk_plan_next(struct dbk_plan *plan);

/* What the destination said of that write. */
void dbk_plan_answer(struct dbk_plan *plan, const struct daybook_answer *answer);

/* A row whose lease could not be kept: it is not written, nor are those of its key behind it. */
void dbk_plan_leave(struct dbk_plan *plan, size_t index);

/* Ends the pass: what has not landed is unwritten. */
void dbk_plan_stop(struct dbk_plan *plan);

/* How many rows have this fate. */
size_t dbk_plan_fates(const struct dbk_plan *plan, enum dbk_row_fate fate);

/* How many rows this destination has taken in the pass. */
size_t dbk_plan_taken(const struct dbk_plan *plan, size_t sink);

#endif
