/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A journal in front of another one that can be made to fail or to hang, operation by operation, as a
 * store behind a network does. Threads: any; `trouble` before threads start or between their
 * operations.
 */
#ifndef HARNESS_TROUBLED_JOURNAL_H
#define HARNESS_TROUBLED_JOURNAL_H

#include <stdatomic.h>

#include "journal/engine.h"

enum troubled_op {
    TROUBLED_CLAIM,
    TROUBLED_ACK,
    TROUBLED_RELINQUISH,
    TROUBLED_EXTEND,
    TROUBLED_QUARANTINE,
    TROUBLED_CONSUMER_STATS,
    TROUBLED_MAINTAIN,
    TROUBLED_OP_COUNT
};

struct troubled_journal {
    struct daybook_journal head;
    struct daybook_journal *inner;             /* borrowed */
    unsigned failures[TROUBLED_OP_COUNT];      /* so many more answer BACKEND and do nothing */
    _Atomic uint32_t hangs[TROUBLED_OP_COUNT]; /* 1: hangs until it is 0 */
    _Atomic uint32_t calls[TROUBLED_OP_COUNT];
    _Atomic uint64_t extended; /* hand-outs that extensions were asked for */
};

/* Borrows `inner`; nothing to release. */
void troubled_init(struct troubled_journal *journal, struct daybook_journal *inner);
/* Ends a hang. */
void troubled_let_go(struct troubled_journal *journal, enum troubled_op op);
/* Waits until an operation was called so often. */
void troubled_wait_calls(struct troubled_journal *journal, enum troubled_op op, uint32_t count);

#endif
