/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination (sink): takes batches of events and answers for them. Implement the operations to
 * write your own; `<daybook/sqlite.h>` and `<daybook/file.h>` are the ones that are built in.
 */
#ifndef DAYBOOK_SINK_H
#define DAYBOOK_SINK_H

#include <daybook/base.h>
#include <daybook/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a destination says of a write (W12). */
enum daybook_answer_kind {
    DAYBOOK_ANSWER_ACCEPTED,    /**< every row has landed */
    DAYBOOK_ANSWER_REFUSED,     /**< nothing landed, no reason known */
    DAYBOOK_ANSWER_UNAVAILABLE, /**< an outage or a configuration fault; nothing is known to have
                                     landed */
    DAYBOOK_ANSWER_REJECTED /**< the rows named in `rejected` are refused on their own account */
};

/** With REJECTED: what became of the rows that were not named. */
enum daybook_others { DAYBOOK_OTHERS_NOT_WRITTEN, DAYBOOK_OTHERS_ACCEPTED };

/** With UNAVAILABLE: whether something of the write may have landed all the same. It is written again either
 * way, with the same ids; this is for those who count. */
enum daybook_effect {
    DAYBOOK_EFFECT_NONE,   /**< nothing landed */
    DAYBOOK_EFFECT_UNKNOWN /**< it may have: accepted, and the answer was lost */
};

/** How a REFUSED or REJECTED came about, for the search. */
enum daybook_refusal_kind {
    DAYBOOK_REFUSAL_PLAIN,
    DAYBOOK_REFUSAL_OF_A_ROW, /**< a constraint or a value, for several rows, none named: searched,
                                   spends no probe budget, no sign of an outage */
    DAYBOOK_REFUSAL_TOO_LARGE /**< split until it fits */
};

/** The destination's own words, for the quarantine entry: fixed size, cut where they are longer. */
struct daybook_words {
    char code[64]; /**< SQLSTATE, SQLite result, HTTP status */
    char constraint[128];
    char column[128];
    char message[512];
};

#define DAYBOOK_REJECTED_MAX 64u
struct daybook_rejected_row {
    size_t index; /**< into the rows of the write */
    struct daybook_words words;
};

/** The answer to one write. */
struct daybook_answer {
    enum daybook_answer_kind kind;
    enum daybook_others others;
    enum daybook_refusal_kind refusal;
    enum daybook_effect effect;
    size_t rejected_count;
    int64_t retry_after_us;     /**< 0: not said */
    uint64_t values_left_out;   /**< values that fit no column and left it empty, of rows written */
    struct daybook_words words; /**< of REFUSED and UNAVAILABLE */
    struct daybook_rejected_row rejected[DAYBOOK_REJECTED_MAX];
};

/** One row of a write. Borrowed for the call. */
struct daybook_row {
    struct daybook_event event; /**< observed_at_us is set */
    uint16_t row_version;
    uint64_t position;      /**< its place in the journal; no identity: an id that was forgotten and
                                 accepted anew has another */
    int64_t accepted_at_us; /**< when the journal took it */
};

/** Makes it the answer of a write that has achieved nothing yet: UNAVAILABLE, without words, no row
 * named (the array of rejected rows is left as it is). Whoever calls `write` does this before, so that
 * what a destination leaves out is not what an earlier answer said. Threads: any, one an answer. */
DAYBOOK_API void daybook_answer_reset(struct daybook_answer *answer);

struct daybook_sink;

/** What a destination can do. Every function gets the sink that it belongs to. */
struct daybook_sink_ops {
    const char *kind; /**< `"sqlite"` */
    /** Writes the rows in order, all or as the answer says. Returns before `deadline_us` (of
     * CLOCK_MONOTONIC) + 100 ms, with UNAVAILABLE where it cut the write off, and within 100 ms of
     * an `interrupt` (T6). @param ret_answer comes as daybook_answer_reset leaves it: a write that says
     * nothing was not accepted. Threads: one at a time per sink. */
    void (*write)(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                  int64_t deadline_us, struct daybook_answer *ret_answer);
    /** Cuts off the write that is under way and every later one. Threads: any; async to `write`. */
    void (*interrupt)(struct daybook_sink *sink);
    /** Whether the destination answers now; used at start (W1). Threads: as write. */
    enum daybook_code (*check)(struct daybook_sink *sink, int64_t deadline_us,
                               struct daybook_error *err);
    /** Releases the sink. No call is under way. */
    void (*close)(struct daybook_sink *sink);
};

/** The head of every sink: an implementation puts it first in its own struct. */
struct daybook_sink {
    const struct daybook_sink_ops *ops;
    char name[64]; /**< the label of its metrics */
};

#ifdef __cplusplus
}
#endif
#endif
