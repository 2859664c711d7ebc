/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delivery worker: claims events of one consumer, writes them to its destinations, settles what
 * they answered (contract section 5).
 */
#ifndef DAYBOOK_WORKER_H
#define DAYBOOK_WORKER_H

#include <daybook/journal.h>
#include <daybook/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAYBOOK_WORKER_SINKS_MAX 8u

struct daybook_worker_event;

/** Zero means the default. */
struct daybook_worker_options {
    const char *consumer;          /**< copied */
    uint32_t claim_batch;          /**< default 256 */
    uint64_t claim_bytes;          /**< default 8 MiB */
    uint32_t key_run;              /**< default 1 */
    uint32_t lease_ms;             /**< default 30,000 */
    uint32_t write_timeout_ms;     /**< default 10,000; at most a third of the lease */
    uint32_t poll_interval_ms;     /**< default 250 */
    uint32_t maintain_interval_ms; /**< default 60,000 */
    uint32_t hand_outs_max;        /**< C6; default: the journal's delivery_attempts_max, which also
                                        says when an event that is refused on its own account is
                                        quarantined as REJECTED (W6) */
    uint32_t reject_brake; /**< W6b: so many different events refused in a row, and nothing more
                                        is condemned; default 100 */
    struct daybook_start start;
    struct daybook_sink *const *sinks; /**< taken by `daybook_worker_new` when it succeeds: closed
                                            once no write can be in them any more */
    size_t sink_count;                 /**< 1 to DAYBOOK_WORKER_SINKS_MAX */
    /** Advisory destinations (W9): told of what landed, after it was acknowledged; what they answer and how
     * long they take changes nothing. Taken as `sinks`. Each has a queue and a thread of its own; when the
     * queue is full the newest events are dropped and counted. NULL with 0: none. */
    struct daybook_sink *const *advisory;
    size_t advisory_count;    /**< at most DAYBOOK_WORKER_SINKS_MAX */
    uint32_t advisory_events; /**< of one queue; default 4,096 */
    uint64_t advisory_bytes;  /**< of one queue, names and records; default 8 MiB; one event of the
                                   largest size always fits */
    /** Names of the other consumers that this deployment runs, copied: whoever else is registered in
     * the journal is named by DAYBOOK_WORKER_OTHER_CONSUMERS. NULL with 0: none but this one. */
    const char *const *known;
    size_t known_count; /**< at most DAYBOOK_CONSUMERS_MAX */
    /** The caller's clock, microseconds since the epoch; NULL: CLOCK_REALTIME. */
    int64_t (*now_us)(void *user);
    /** Told of what the worker does, for logs and metrics; NULL: nobody. Called from the worker's
     * thread, and with ADVISED and ADVISORY_DROPPED from those of its advisory destinations, possibly at
     * the same time; must not block. Neither this nor `now_us` is called once `daybook_worker_free` has
     * returned. */
    void (*notify)(void *user, const struct daybook_worker_event *event);
    void *user;
};

/** What a worker tells its `notify`. */
enum daybook_worker_event_kind {
    DAYBOOK_WORKER_CLAIM_FAILED, /**< code, message */
    DAYBOOK_WORKER_REDELIVERED,  /**< count */
    DAYBOOK_WORKER_WRITE,        /**< sink, outcome, effect, count rows, duration; message: what the
                                          destination said where it did not accept */
    DAYBOOK_WORKER_CONTROL, /**< sink, outcome, duration, message: a control was written (W5) */
    DAYBOOK_WORKER_LANDED,  /**< sink, count: rows of a pass that this sink has taken */
    DAYBOOK_WORKER_ACKNOWLEDGED,     /**< count */
    DAYBOOK_WORKER_ADVISED,          /**< sink, outcome, count and missed rows, duration, message: a
                                          write to an advisory destination */
    DAYBOOK_WORKER_ADVISORY_DROPPED, /**< sink, count: rows that its queue had no room or no time for */
    DAYBOOK_WORKER_FAILED,           /**< count: claimed events of a pass that did not land */
    DAYBOOK_WORKER_QUARANTINED,      /**< sink, count 1, message: set aside as REJECTED (W6) */
    DAYBOOK_WORKER_BRAKED,           /**< sink, count: refused in a row; message: why (W6b) */
    DAYBOOK_WORKER_BRAKE_LIFTED,     /**< sink */
    DAYBOOK_WORKER_SETTLE_FAILED,    /**< code, message */
    DAYBOOK_WORKER_DESTINATION_UP,   /**< sink */
    DAYBOOK_WORKER_DESTINATION_DOWN, /**< sink, message */
    DAYBOOK_WORKER_MAINTAINED,       /**< count: pruned */
    DAYBOOK_WORKER_OTHER_CONSUMERS,  /**< count; message: names that nobody here runs */
    DAYBOOK_WORKER_MAINTAIN_FAILED   /**< code, message */
};
/** Fields that a kind does not name are zero. Borrowed for the call. */
struct daybook_worker_event {
    enum daybook_worker_event_kind kind;
    const char *consumer;
    const struct daybook_sink *sink; /**< or NULL */
    enum daybook_answer_kind outcome;
    enum daybook_effect effect; /**< with UNAVAILABLE */
    enum daybook_code code;
    uint64_t count;
    uint64_t missed; /**< of ADVISED: rows that the destination did not take */
    uint64_t
        values_left_out; /**< of WRITE and ADVISED: values that fit no column and left it empty */
    int64_t duration_us;
    const char *message;
};

/** What one worker achieved, and what it left (T4). */
struct daybook_drain_report {
    uint64_t delivered;   /**< events acknowledged over the worker's life */
    uint64_t failed;      /**< passes in which some claimed event did not land */
    uint64_t undelivered; /**< pending and in flight */
    uint64_t quarantined;
    bool drained;
    bool reported; /**< the worker handed this over itself; else delivered and failed are unknown */
    bool counted;  /**< the backlog was read; else undelivered and quarantined are unknown */
    bool unwaited; /**< stopped deliberately without waiting */
};

enum daybook_caught_up { DAYBOOK_CAUGHT_UP_NO, DAYBOOK_CAUGHT_UP_YES, DAYBOOK_CAUGHT_UP_UNKNOWN };
/** Threads: any. */
DAYBOOK_API enum daybook_caught_up daybook_drain_report_caught_up(
    const struct daybook_drain_report *report);

struct daybook_worker;

/** Makes a worker; nothing runs yet.
 * @param journal borrowed until the worker is drained and freed. @param ret_worker owned: release with
 * `daybook_worker_free`.
 * Returns OK; NO_MEMORY; BAD_CONFIG (no destination, a time-out above a third of the lease, ...).
 * Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_worker_new(
    struct daybook_journal *journal, const struct daybook_worker_options *options,
    struct daybook_worker **ret_worker, struct daybook_error *err);

/** Registers the consumer (C1b, C12) and starts the worker's thread.
 * Returns OK; NO_MEMORY (no thread); BUSY (too many consumers); BAD_ARGUMENT (it runs already);
 * unknown: BACKEND, TIMED_OUT (the consumer may be registered; the thread was not started).
 * Durable: with OK the consumer is registered. Threads: owner. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_worker_start(struct daybook_worker *worker,
                                                                      struct daybook_error *err);

/** How one destination of a worker stands. */
struct daybook_worker_sink_stats {
    bool away;                 /**< its last pass ended as an outage, told or found */
    bool braked;               /**< W6b: it refuses whatever is new; nothing is condemned */
    uint32_t refused_in_a_row; /**< different events, on their own account, since it accepted one */
    char reason[512];          /**< why it is away or braked, in its own words; else empty */
};

/** What a worker has done, as of the end of its last pass. */
struct daybook_worker_stats {
    uint64_t delivered;   /**< events acknowledged */
    uint64_t failed;      /**< passes in which some claimed event did not land */
    uint64_t quarantined; /**< events set aside as REJECTED */
    uint64_t controls;    /**< control writes (W5) */
    uint64_t held;        /**< events kept leased while an outage lasts or is in doubt (W5b) */
    size_t sink_count;
    struct daybook_worker_sink_stats sinks[DAYBOOK_WORKER_SINKS_MAX];
};

/** Reads them; waits for nothing. Threads: any, until `daybook_worker_free`. */
DAYBOOK_API void daybook_worker_stats(struct daybook_worker *worker,
                                      struct daybook_worker_stats *ret_stats);

/** Lets every brake of the worker go (W6b) and ends its quiet: the next refusals count from none. The trail of
 * operations is told by daybook_journal_note_lift.
 * Threads: any, until `daybook_worker_free`. */
DAYBOOK_API void daybook_worker_lift_brakes(struct daybook_worker *worker);

/** Stops workers side by side within one budget (T1, T2, T8); costs its caller at most budget + 1 s.
 * One that has not reported by then is abandoned: it may still be inside a write, and touches nothing
 * but its own memory and that destination when it comes back. A worker that never ran reports that it
 * delivered nothing. Advisory destinations have what the workers leave of the budget for what waits in their
 * queues, and are in no report.
 * @param budget_ms for deliveries; then writes are cut off. @param ret_reports `count` entries, each
 * written. Threads: owner. */
DAYBOOK_API void daybook_workers_drain(struct daybook_worker *const *workers, size_t count,
                                       uint32_t budget_ms,
                                       struct daybook_drain_report *ret_reports);

/** Stops workers at once and waits for none of them (T3): writes are cut off, nothing more is claimed. Each report
 * claims nothing: `unwaited` is yes, all else unknown or no. What a worker still has in hand it settles if that
 * comes back before `daybook_worker_free`; else its leases end by their time.
 * @param ret_reports `count` entries, each written. Threads: owner. */
DAYBOOK_API void daybook_workers_abandon(struct daybook_worker *const *workers, size_t count,
                                         struct daybook_drain_report *ret_reports);

/** Releases a worker that was drained, abandoned or never started, and closes its destinations. One that was
 * abandoned inside a write is released by its own thread when that returns (T7); one that is inside
 * an operation of the journal is waited for, which its deadline ends. Afterwards the journal may be
 * closed. NULL is accepted. Threads: owner. */
DAYBOOK_API void daybook_worker_free(struct daybook_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
