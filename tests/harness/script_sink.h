/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination that answers as a test wrote down. Without a script it accepts everything. Rows whose
 * request_id begins with "bad" are those that a scripted `rejected` names.
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

enum script_hang { SCRIPT_PROMPT, SCRIPT_UNTIL_INTERRUPTED, SCRIPT_UNTIL_RELEASED };

/* One answer. */
struct script_step {
    enum daybook_answer_kind kind;
    enum daybook_others others; /* with REJECTED */
    int64_t retry_after_us;     /* with UNAVAILABLE */
    unsigned repeat;            /* how often more */
    uint64_t values_left_out;   /* said of the rows written */
    const char *nonsense;       /* with REJECTED: names a row that is not in the write */
};

struct script_sink {
    struct daybook_sink head;
    enum script_hang hang;
    /* Called at the beginning of every write, in its thread; NULL: nothing. */
    void (*on_write)(void *user);
    void *user;

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
