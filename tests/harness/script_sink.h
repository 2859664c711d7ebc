/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination that answers as a test wrote down. Without a script it accepts everything, but for rows
 * whose request_id begins with "bad": those are what `bad` says, and what a scripted `rejected` names.
 *
 * It can also hang: until it is interrupted, or until the test lets it go whatever interrupts it.
 * Threads: as every destination; `script_release`, `script_wait_*` any.
 */
#ifndef HARNESS_SCRIPT_SINK_H
#define HARNESS_SCRIPT_SINK_H

#include <stdatomic.h>

#include <daybook/sink.h>

#define SCRIPT_STEPS_MAX 128u
#define SCRIPT_TEXT_MAX 16384u

/* What becomes of a write with a bad row in it. */
enum script_bad {
    SCRIPT_BAD_ACCEPTED,
    SCRIPT_BAD_REFUSED,      /* nobody is named */
    SCRIPT_BAD_NAMED,        /* the others are not written */
    SCRIPT_BAD_TAKES_OTHERS, /* the others are accepted */
    SCRIPT_BAD_CONSTRAINT,   /* as a constraint that names a row only where it is alone */
    SCRIPT_BAD_TOO_LARGE,
    SCRIPT_BAD_BREAKS /* unavailable: a receiver that answers 500 */
};

enum script_hang { SCRIPT_PROMPT, SCRIPT_UNTIL_INTERRUPTED, SCRIPT_UNTIL_RELEASED };

/* One answer. */
struct script_step {
    enum daybook_answer_kind kind;
    enum daybook_others others; /* with REJECTED */
    enum daybook_refusal_kind refusal;
    int64_t retry_after_us;   /* with UNAVAILABLE */
    unsigned repeat;          /* how often more */
    uint64_t values_left_out; /* said of the rows written */
    const char *nonsense;     /* with REJECTED: names a row that is not in the write */
};

struct script_sink {
    struct daybook_sink head;
    enum script_hang hang;
    /* Called at the beginning of every write, in its thread; NULL: nothing. */
    void (*on_write)(void *user);
    void *user;

    enum script_bad bad;
    /* While `away`, every write is answered so, whatever the script says. */
    bool away;
    enum daybook_answer_kind away_as;
    bool loses_answers; /* accepts, and says that it is not there */
    bool tells_nothing; /* ids are not written down: there are too many */

    struct script_step steps[SCRIPT_STEPS_MAX];
    size_t step_count;
    size_t step;

    /* What became of it. */
    char accepted[SCRIPT_TEXT_MAX]; /* ids in order, with a blank between */
    char offered[SCRIPT_TEXT_MAX];  /* the same of every write, each in brackets */
    int64_t deadline_us;            /* of the last write */
    _Atomic uint32_t writes;        /* begun */
    _Atomic uint32_t rows_accepted;
    _Atomic uint32_t interrupted;
    _Atomic uint32_t released;
    _Atomic uint32_t *closed; /* set to 1 when the sink is closed; NULL: nobody looks */
};

/* Owned by whoever closes it (a worker). */
struct script_sink *script_sink_new(const char *name);
/* Adds an answer to the script. */
void script_add(struct script_sink *sink, struct script_step step);
void script_answer(struct script_sink *sink, enum daybook_answer_kind kind);
/* Lets a write go that hangs SCRIPT_UNTIL_RELEASED, and every later one. */
void script_release(struct script_sink *sink);
/* Waits until so many writes have begun, or rows were accepted. */
void script_wait_writes(struct script_sink *sink, uint32_t count);
void script_wait_accepted(struct script_sink *sink, uint32_t count);

#endif
