/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two journals that are told the same: one of the engine that is tested (the subject), and one of the memory
 * engine (the oracle: the contract as arrays and linear searches). Everything that can be seen of them is
 * compared, and the oracle can go back to what it held when a unit of the subject's log was written, which is
 * what a loss of power does.
 *
 * The first difference is kept in `why`. Helpers that cannot fail end the test. Threads: one at a time a pair.
 */
#ifndef HARNESS_PAIR_H
#define HARNESS_PAIR_H

#include "harness/world.h"

#define PAIR_CONSUMERS 3u
#define PAIR_HAND_OUTS_MAX 4096u
#define PAIR_MARKS_MAX 512u
#define PAIR_WHY_MAX 1024u

struct handed {
    unsigned consumer;
    uint64_t position;
    uint64_t token_oracle;
    uint64_t token_subject;
};

/* What the oracle held when the subject had written so many units. */
struct mark {
    uint64_t units;
    struct daybook_journal *oracle; /* a copy */
};

struct pair {
    struct contract_world *oracle;
    struct contract_world *subject;
    struct handed handed[PAIR_HAND_OUTS_MAX];
    size_t handed_count;
    bool operators; /* the subject has operators' operations */
    bool lists;     /* and lists its trail and what is quarantined */
    bool rotten;    /* something was spoiled */
    bool marking;   /* power will be cut in this sequence, and the subject can lose something */
    struct mark marks[PAIR_MARKS_MAX]; /* in order; what a loss of power may leave */
    size_t mark_count;
    uint64_t promised;      /* units that no loss of power may take */
    char why[PAIR_WHY_MAX]; /* what differs; empty: nothing */
};

/* The consumers that are looked at. */
extern const char *const pair_consumers[PAIR_CONSUMERS];

/* Compare and remember the first difference. Return whether both are equal. */
bool pair_equal(struct pair *p, const char *what, int64_t oracle, int64_t subject);
bool pair_equal_codes(struct pair *p, const char *what, enum daybook_code oracle,
                      enum daybook_code subject);
/* What stands in the batches of both. */
bool pair_equal_batches(struct pair *p, const char *what);
/* Everything that can be seen of both, at the clocks of their worlds. */
void pair_compare(struct pair *p);
/* What both retain, read in pages of so many events too. */
void pair_compare_pages(struct pair *p, uint32_t events_max);
/* What is retained, whatever became of its delivery. */
void pair_compare_retained(struct pair *p);

/* Takes what a claim has handed out (in the batches of both) for later verdicts; tokens only grow. */
void pair_remember(struct pair *p, unsigned consumer);

/* Units that the subject has written. */
uint64_t pair_units(const struct pair *p);
/* Remembers what the oracle holds now. What wrote nothing has changed nothing that lasts. */
void pair_mark(struct pair *p);
/* What was written so far survives a loss of power: an answer has said so (A1, K7), or its 100 ms are over. */
void pair_promise(struct pair *p);
void pair_forget_marks(struct pair *p, size_t count);
/* Whether the subject holds what a copy of the oracle does, as far as one can see. */
bool pair_is_left(struct pair *p, struct daybook_journal *candidate);

#endif
