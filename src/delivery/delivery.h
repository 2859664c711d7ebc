/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delivery worker, inside this room.
 *
 * Everything that decides is a function of the state below and two clocks, so that tests run passes and
 * turns in moved time; the thread (worker.c) is a shell that calls `dbk_worker_turn` and waits.
 *
 * Lifetime (T7). These may hold a worker: its owner, its thread, the threads of its advisory destinations
 * (advisory.c), a reader of the backlog (drain.c).
 * The last one releases it, destinations included. Whoever is not the owner touches the journal and the
 * caller's functions only between `dbk_worker_enter` and `dbk_worker_leave`; the thread leaves for each
 * write. Once the owner has closed that gate an abandoned thread that comes back from a write finds
 * it shut and goes, whatever became of the journal meanwhile.
 */
#ifndef DBK_DELIVERY_DELIVERY_H
#define DBK_DELIVERY_DELIVERY_H

#include <daybook/worker.h>

#include "base/thread.h"
#include "delivery/advisory.h"
#include "delivery/answer.h"
#include "delivery/pace.h"
#include "delivery/recall.h"
#include "delivery/search.h"

#define DBK_OPERATION_TIMEOUT_US 10000000 /* of a claim, a set of verdicts, maintenance */
#define DBK_SETTLE_US 300000              /* T1: after the deadline of a stop */
#define DBK_CLOSING_READ_US 500000        /* T1, T2 */
#define DBK_DRAIN_MARGIN_US 1000000       /* T2 */
#define DBK_NOT_STOPPED INT64_MAX
#define DBK_HELD_STEP 1024u    /* of them in one operation of the journal */
#define DBK_HELD_PER_CLAIM 64u /* so many claims are kept leased and remembered at most (W5b) */
#define DBK_HELD_LEAST 16384u  /* and at least so many events, however small the claims */
#define DBK_HELD_DOUBLINGS 3u  /* of the lease, at most: what is kept long is extended for longer */

/* How far a worker's thread has come; only ever upwards. */
enum dbk_stage {
    DBK_STAGE_NEW,     /* no thread */
    DBK_STAGE_RUNNING, /* passes */
    DBK_STAGE_FIGURES, /* no pass any more; delivered and failed are handed over */
    DBK_STAGE_DONE     /* the backlog was read, or could not be; the thread is at its end */
};

enum dbk_sink_state { DBK_SINK_UNKNOWN, DBK_SINK_UP, DBK_SINK_DOWN };
/* What was told of a destination, and what it said last. */
struct dbk_sink_note {
    enum dbk_sink_state state;
    bool asked; /* in the pass at hand */
    bool braked;
    char reason[sizeof((struct daybook_words *)0)
                    ->message]; /* of the last write it did not accept */
};

/* The backlog as somebody read it. */
struct dbk_backlog {
    bool counted;
    bool drained;
    uint64_t undelivered;
    uint64_t quarantined;
};

/* The event that a worker writes again where blame hangs on it (W5). */
struct dbk_control {
    bool looked; /* for the one that the journal knows, once */
    bool known;
    int64_t at_us; /* wall clock: when it landed, or was accepted */
    struct daybook_row row;
    char *bytes; /* owned; what `row` points into */
    size_t bytes_max;
};

/* A hand-out that is kept leased, and until when. */
struct dbk_held_lease {
    struct daybook_hand_out hand_out;
    int64_t end_us;     /* monotonic */
    unsigned doublings; /* of the worker's lease: how long it was given */
};

/* What was tried since a doubt began: not given back yet, so that it stays leased (W5b). */
struct dbk_held {
    struct dbk_held_lease *set; /* owned */
    size_t count;
    size_t max;
    int64_t
        due_us; /* monotonic: the first of them has half of its lease left; INT64_MAX: none held */
    int64_t offset_us; /* of the wall clock to the monotonic one, when last looked at */
};

/* How long a row is ours, on both clocks. */
struct dbk_lease {
    int64_t end_us;        /* monotonic, not later than the journal thinks */
    int64_t expires_at_us; /* wall clock, as the journal has it */
};

struct daybook_worker {
    /* Set by `daybook_worker_new`, then never changed. */
    struct daybook_journal *journal;
    char consumer[DAYBOOK_CONSUMER_NAME_MAX + 1];
    struct daybook_worker_options options; /* defaults filled in; its pointers are those below */
    struct daybook_sink *sinks[DAYBOOK_WORKER_SINKS_MAX];
    char (*known)[DAYBOOK_CONSUMER_NAME_MAX + 1];
    int64_t write_timeout_us;

    /* The worker's thread alone (before it starts: the owner). */
    struct daybook_batch *batch;
    struct daybook_row *rows;  /* of the batch */
    struct daybook_row *write; /* of the write at hand */
    struct dbk_lease *leases;  /* one a row of the batch */
    uint32_t *extended;        /* rows whose leases are being extended */
    struct daybook_hand_out *set;
    enum daybook_code *codes;
    struct daybook_hand_out *unacked; /* landed, but the acknowledgement failed (W8) */
    size_t unacked_count;
    struct dbk_recall recall;
    struct dbk_search search;
    struct dbk_pace pace;
    struct dbk_control control;
    struct dbk_held held;
    struct daybook_answer answer;
    struct dbk_advisory *advisories; /* options.advisory_count, see advisory.h */
    struct dbk_sink_note notes[DAYBOOK_WORKER_SINKS_MAX];
    uint64_t delivered;
    uint64_t failed;
    uint64_t quarantined;
    uint64_t controls;
    int64_t quiet_until_us;  /* monotonic: no pass before */
    int64_t maintain_due_us; /* monotonic */
    int64_t next_expiry_us;  /* wall clock: a lease that ends, among those known; INT64_MAX: none */

    _Atomic int64_t stop_at_us; /* monotonic deadline of a stop; DBK_NOT_STOPPED */
    _Atomic uint32_t word;      /* changes with everything that somebody may wait for */
    _Atomic uint32_t lift;      /* an operator lets the brakes go */

    struct dbk_mutex lock; /* of what follows */
    unsigned holders;      /* owner, threads, reader */
    unsigned inside;       /* threads between enter and leave */
    bool shut;             /* nobody enters any more */
    enum dbk_stage stage;
    int64_t stage_at_us; /* monotonic, of FIGURES */
    uint64_t final_delivered;
    uint64_t final_failed;
    struct dbk_backlog own_reading;     /* with DONE */
    struct dbk_backlog callers_reading; /* T2 */
    struct daybook_worker_stats stats;  /* after the last pass */
    bool threaded;                      /* `thread` was started */
    struct dbk_thread thread;
};

/* ---- options.c --------------------------------------------------------------------------------- */

/* Copies the options with defaults filled in. Returns OK or BAD_CONFIG. */
enum daybook_code dbk_worker_options_fill(const struct daybook_worker_options *given,
                                          const struct daybook_capacity *capacity,
                                          struct daybook_worker_options *ret,
                                          struct daybook_error *err);

/* ---- worker.c ---------------------------------------------------------------------------------- */

/* The gate. False: shut; nothing but the worker's own memory may be touched. */
bool dbk_worker_enter(struct daybook_worker *w);
void dbk_worker_leave(struct daybook_worker *w);
/* One holder less; the last one releases the worker. */
void dbk_worker_drop(struct daybook_worker *w);
/* Bumps `word` and wakes whoever waits on it. */
void dbk_worker_signal(struct daybook_worker *w);

int64_t dbk_worker_mono_us(struct daybook_worker *w);
int64_t dbk_worker_now_us(struct daybook_worker *w);
bool dbk_worker_is_stopped(struct daybook_worker *w);
/* The deadline of a journal operation that begins now. */
int64_t dbk_worker_deadline_us(struct daybook_worker *w);
void dbk_worker_notify(struct daybook_worker *w, struct daybook_worker_event event);

/* What the loop does after a turn. */
enum dbk_next {
    DBK_NEXT_AGAIN,  /* at once */
    DBK_NEXT_LISTEN, /* wait until `until_us` or an append */
    DBK_NEXT_QUIET,  /* wait until `until_us`; appends do not count */
    DBK_NEXT_GONE    /* the gate is shut: touch nothing */
};
struct dbk_turn {
    enum dbk_next next;
    int64_t until_us; /* monotonic */
};

/* One turn of the loop: a pass where one is due, maintenance where it is due (L1, L2). The caller is
 * inside the gate, and still is unless the answer is GONE. */
struct dbk_turn dbk_worker_turn(struct daybook_worker *w);

/* ---- pass.c ------------------------------------------------------------------------------------ */

enum dbk_pass_end {
    DBK_PASS_EMPTY,        /* nothing was claimable */
    DBK_PASS_SETTLED,      /* written and settled, whatever came of it */
    DBK_PASS_CLAIM_FAILED, /* the journal did not answer */
    DBK_PASS_CUT,          /* cut off by a stop */
    DBK_PASS_GONE          /* the gate was shut meanwhile */
};
struct dbk_pass {
    enum dbk_pass_end end;
    enum dbk_search_end search; /* with SETTLED */
    size_t claimed;
    size_t landed;
    size_t acknowledged;
    size_t quarantined;
    int64_t retry_after_us;
};

/* Claim, write, settle. Inside the gate, as `dbk_worker_turn`. */
void dbk_worker_pass(struct daybook_worker *w, struct dbk_pass *ret);

/* ---- settle.c ---------------------------------------------------------------------------------- */

/* What a destination gets of a delivery; borrowed from it. */
struct daybook_row dbk_worker_row(const struct daybook_delivery *delivery);
/* The hand-out of a row of the pass. */
struct daybook_hand_out dbk_worker_hand_out(const struct daybook_worker *w, size_t row);
/* What landed is acknowledged as one set, first (W8); then verdicts; then attempts go back (W7). */
void dbk_worker_settle(struct daybook_worker *w, struct dbk_pass *pass);
/* Acknowledges once more what an earlier pass could not (W8). Returns how many it was granted. */
size_t dbk_worker_repeat_ack(struct daybook_worker *w);
/* Gives attempts back (R1), and with LEASES_TOO the leases up first, where nobody should wait for them
 * (X1 knows no hand-out that was given back). What fails costs a wait or an attempt, never an event. */
enum dbk_give_back { DBK_ATTEMPTS_ONLY, DBK_LEASES_TOO };
void dbk_worker_give_back(struct daybook_worker *w, const struct daybook_hand_out *set,
                          size_t count, enum dbk_give_back what);
/* Hands the figures over to whoever asks. */
void dbk_worker_publish_stats(struct daybook_worker *w);
/* Tells of an operation of the journal that failed. */
void dbk_worker_tell_failure(struct daybook_worker *w, enum daybook_worker_event_kind kind,
                             enum daybook_code code, const char *message, size_t count);

/* ---- held.c ------------------------------------------------------------------------------------ */

/* Keeps hand-outs of the pass leased that nobody is to blame for (W5b). `end_us`: of their leases. */
void dbk_held_add(struct daybook_worker *w, const struct daybook_hand_out *set, size_t count,
                  int64_t end_us);
/* Extends the leases of which less than half is left, each time for twice as long, up to 8 leases: every
 * extension is written to the log, and an outage may last for weeks. What cannot be held is given back. */
void dbk_held_keep(struct daybook_worker *w);
/* When that falls due (monotonic); INT64_MAX: nothing is held. */
int64_t dbk_held_due_us(const struct daybook_worker *w);
/* Lets everything go: attempts and leases are given back. */
void dbk_held_let_go(struct daybook_worker *w);

/* ---- control.c --------------------------------------------------------------------------------- */

/* Room for one event. False: no memory. */
bool dbk_control_init(struct dbk_control *control, size_t bytes_max);
void dbk_control_release(struct dbk_control *control);
/* Keeps a copy of an event that has landed. */
void dbk_control_keep(struct dbk_control *control, const struct daybook_row *row, int64_t at_us);
/* Whether there is one that is not too old; `retain_us` is retain_acknowledged. */
bool dbk_control_is_known(const struct dbk_control *control, int64_t now_us, int64_t retain_us);
/* After a start: the newest event that the journal knows to be acknowledged. Overwrites the batch. */
void dbk_control_look_up(struct daybook_worker *w);

/* ---- drain.c ----------------------------------------------------------------------------------- */

/* Asks the worker to stop by `deadline_us` (monotonic). The first deadline stands. */
void dbk_worker_stop(struct daybook_worker *w, int64_t deadline_us);
/* The worker's own end (T1): passes until one acknowledges nothing or the deadline, then the figures,
 * then the backlog. Inside the gate; false: it was shut meanwhile. */
bool dbk_worker_finish(struct daybook_worker *w);
/* What may be said of a worker now (T2, T4). */
struct daybook_drain_report dbk_worker_report(struct daybook_worker *w);

#endif
