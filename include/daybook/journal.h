/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: a log with named consumers (contract sections 3 and 4), whatever engine holds it.
 *
 * Open one with the function of its engine (`<daybook/log.h>`), append to it, claim from it, say what
 * became of each delivery, close it. Times are microseconds since the Unix epoch (`_us`) and are the
 * caller's (`clock: caller`, J2); deadlines are microseconds of the journal's monotonic clock
 * (`daybook_journal_monotonic_us`), DAYBOOK_NO_DEADLINE for none. Past its deadline an operation
 * returns TIMED_OUT, which says nothing about the effect.
 */
#ifndef DAYBOOK_JOURNAL_H
#define DAYBOOK_JOURNAL_H

#include <daybook/base.h>
#include <daybook/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daybook_journal;

#define DAYBOOK_CONSUMER_NAME_MAX 63u  /**< `[a-z0-9_-]`, 1 to 63 */
#define DAYBOOK_CONSUMERS_MAX 64u      /**< registered in one journal */
#define DAYBOOK_EVENTS_LIMIT 16000000u /**< largest max_events */
#define DAYBOOK_CLAIM_EVENTS_MAX 4096u /**< largest claim */
#define DAYBOOK_WORDS_BYTES_MAX 2048u  /**< of a destination's own words in a quarantine */

/** What a full journal does once it has given up what was delivered (P5). */
enum daybook_capacity_policy { DAYBOOK_POLICY_REFUSE, DAYBOOK_POLICY_DROP_OLDEST };

/** Which limit an AT_CAPACITY names (A4). */
enum daybook_limit {
    DAYBOOK_LIMIT_NONE,
    DAYBOOK_LIMIT_EVENTS, /**< max_events */
    DAYBOOK_LIMIT_BYTES,  /**< max_bytes */
    DAYBOOK_LIMIT_DISK    /**< the disk, or min_free_disk */
};

/** The durability that a journal may claim (M1). */
enum daybook_mode { DAYBOOK_MODE_BILLING_GRADE, DAYBOOK_MODE_TELEMETRY_GRADE };

/** Whether a handle still works. */
enum daybook_journal_state {
    DAYBOOK_JOURNAL_OPEN,
    DAYBOOK_JOURNAL_FAILED /**< A7: appends, claims and verdicts answer BACKEND until a reopening */
};

/** What a journal is opened with, whatever its engine. Zero means the default. */
struct daybook_capacity {
    uint64_t events_max;            /**< P1; default 1,000,000; 1 to DAYBOOK_EVENTS_LIMIT */
    int64_t retain_acknowledged_us; /**< P3; default 24 h; negative: none */
    uint32_t delivery_attempts_max; /**< default 8 */
    enum daybook_capacity_policy policy;
    struct daybook_event_limits events;
};

/* ---- append ---------------------------------------------------------------------------------- */

/** The answer for one event. */
struct daybook_append_result {
    enum daybook_code code;   /**< OK: accepted; ALREADY_PRESENT; or an error */
    enum daybook_limit limit; /**< with AT_CAPACITY */
    uint64_t position;        /**< with OK and ALREADY_PRESENT */
    uint64_t retained;        /**< with AT_CAPACITY: events stored */
};

/** Appends one event and waits until it is durable.
 * @param event borrowed. @param now_us the caller's clock. @param deadline_us see above.
 * @param ret_result written always, also on failure.
 * Returns `ret_result->code`: OK, ALREADY_PRESENT (neither is an error); refused: CONFLICT,
 * INVALID_EVENT, MALFORMED_JSON, TOO_LARGE; retry: AT_CAPACITY; unknown: BACKEND, TIMED_OUT.
 * Durable: OK and ALREADY_PRESENT survive the loss of the process and of power. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_append(
    struct daybook_journal *journal, const struct daybook_event *event, int64_t now_us,
    int64_t deadline_us, struct daybook_append_result *ret_result, struct daybook_error *err);

/** Appends `count` events in order and waits; each is answered on its own (A6).
 * @param ret_results `count` entries, each written.
 * Returns OK when every event has its answer, else the code of the failure that left some unknown
 * (their entries say so). Durable and Threads: as `daybook_journal_append`. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_append_batch(
    struct daybook_journal *journal, const struct daybook_event *events, size_t count,
    int64_t now_us, int64_t deadline_us, struct daybook_append_result *ret_results,
    struct daybook_error *err);

/** Whether the events of a submission have passed `daybook_event_check` already. */
enum daybook_events_state { DAYBOOK_EVENTS_UNCHECKED, DAYBOOK_EVENTS_CHECKED };

/** An append that nobody waits for: caller's storage, taken by `daybook_journal_submit` and given
 * back by `daybook_append_queue_drain`. Zero it before the first use. */
struct daybook_submission {
    const struct daybook_event *events;    /**< borrowed until given back */
    struct daybook_append_result *results; /**< `count` entries, written before it is given back */
    size_t count;
    enum daybook_events_state events_state;
    void *user;                       /**< the caller's, untouched */
    struct daybook_submission *next_; /**< private */
    uint64_t private_[6];
};

/** Where finished submissions arrive. */
struct daybook_append_queue;

/** Creates a queue on a journal. @param ret_queue owned: release with `daybook_append_queue_free`.
 * Returns OK; retry: NO_MEMORY, BUSY (no file descriptor). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_append_queue_new(
    struct daybook_journal *journal, struct daybook_append_queue **ret_queue,
    struct daybook_error *err);

/** The eventfd (non-blocking) that is readable while finished submissions may wait. Borrowed until
 * the queue is freed. The caller only polls it; `drain` reads it. Threads: any. */
DAYBOOK_API int daybook_append_queue_fd(const struct daybook_append_queue *queue);

/** Takes what has finished, at most `max`; also carries on submissions that did not fit at once.
 * @param ret_done `max` entries; order is the order of completion.
 * Returns how many were written. Never blocks on a commit; may read stored records to compare a
 * repeated id. Threads: one at a time per queue. */
DAYBOOK_API size_t daybook_append_queue_drain(struct daybook_append_queue *queue, int64_t now_us,
                                              struct daybook_submission **ret_done, size_t max);

/** Frees a queue. Every submission must have been given back. NULL is accepted. Threads: owner. */
DAYBOOK_API void daybook_append_queue_free(struct daybook_append_queue *queue);

/** Stages the events of a submission and returns; the commit happens elsewhere.
 * @param submission taken until `drain` gives it back, whatever its results say.
 * Durable: nothing yet; the results say so when it is given back. Threads: any. */
DAYBOOK_API void daybook_journal_submit(struct daybook_journal *journal,
                                        struct daybook_append_queue *queue,
                                        struct daybook_submission *submission, int64_t now_us);

/* ---- claim and verdicts ---------------------------------------------------------------------- */

/** Where a consumer that is new to the journal starts (C1). */
enum daybook_start_kind {
    DAYBOOK_START_OLDEST,   /**< the oldest retained event */
    DAYBOOK_START_NOW,      /**< after everything that is stored */
    DAYBOOK_START_POSITION, /**< `value` is the first position */
    DAYBOOK_START_TIME      /**< `value` is a time: the first event accepted at or after it */
};
struct daybook_start {
    enum daybook_start_kind kind;
    int64_t value;
};

struct daybook_claim {
    const char *consumer;       /**< NUL-terminated name, borrowed */
    uint32_t events_max;        /**< 0: return nothing, only register (C12) */
    uint64_t bytes_max;         /**< of names and records; 0: no limit but the batch's; the first
                                    event always fits */
    uint32_t key_run;           /**< C4b; 0: 1 */
    uint32_t lease_ms;          /**< C5; 1 to 2^31 - 1 */
    uint32_t hand_outs_max;     /**< C6; 0: the journal's delivery_attempts_max */
    struct daybook_start start; /**< used only where the claim registers */
};

/** One event handed out (C2). Borrowed from its batch. */
struct daybook_delivery {
    uint64_t position;
    uint64_t token;   /**< grows with every hand-out, never reused */
    uint32_t attempt; /**< from 1; can come back after a refund */
    uint16_t row_version;
    bool redelivery; /**< this consumer was handed this event before */
    int64_t lease_expires_at_us;
    int64_t accepted_at_us;
    struct daybook_event event;
};

/** Storage for what a claim returns, made once and used again. Fields are read-only. */
struct daybook_batch {
    struct daybook_delivery *deliveries;
    size_t count;
    bool more; /**< the walk ended at a limit: claim again */
    uint32_t events_max;
    size_t bytes_max;
    uint8_t *bytes;
    size_t bytes_used;
};

/** Makes a batch. @param events_max 1 to DAYBOOK_CLAIM_EVENTS_MAX. @param bytes_max room for names
 * and records; one event of `event_bytes_max` always fits beside. @param ret_batch owned: release
 * with `daybook_batch_free`. Returns OK; NO_MEMORY; BAD_ARGUMENT. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_batch_new(uint32_t events_max,
                                                                   size_t bytes_max,
                                                                   uint32_t event_bytes_max,
                                                                   struct daybook_batch **ret_batch,
                                                                   struct daybook_error *err);
DAYBOOK_API void daybook_batch_free(struct daybook_batch *batch);

/** Hands out events of a consumer (C1 to C13).
 * @param batch overwritten; what it held before is no longer valid.
 * Returns OK (also with nothing to return); unknown: BACKEND, TIMED_OUT; BUSY (64 consumers are
 * registered); BAD_ARGUMENT. Durable: a registration and what was condemned are; hand-outs are
 * written (survive the process at once, power after at most 100 ms, K7). Threads: any, one a batch. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_claim(
    struct daybook_journal *journal, const struct daybook_claim *claim, int64_t now_us,
    int64_t deadline_us, struct daybook_batch *batch, struct daybook_error *err);

/** Names one hand-out in a verdict. */
struct daybook_hand_out {
    uint64_t position;
    uint64_t token;
};

/** Acknowledges a set (K1, K2). @param ret_codes `count` entries: OK, QUARANTINED or
 * NOT_OUTSTANDING for each, written when the function returns OK.
 * Returns OK; unknown: BACKEND, TIMED_OUT. Durable: written (K7). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_ack(
    struct daybook_journal *journal, const char *consumer, const struct daybook_hand_out *set,
    size_t count, int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
    struct daybook_error *err);

/** Gives the attempts of a set back (R1); the leases stay as back-off. Otherwise as ack: OK or
 * NOT_OUTSTANDING for each. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_relinquish(
    struct daybook_journal *journal, const char *consumer, const struct daybook_hand_out *set,
    size_t count, int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
    struct daybook_error *err);

/** Moves the expiry of live, unresolved, unrefunded hand-outs to now + lease, never earlier than it
 * stands (X1); `lease_ms` 0 gives the leases up at once. Otherwise as ack: OK or NOT_OUTSTANDING. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_extend(
    struct daybook_journal *journal, const char *consumer, const struct daybook_hand_out *set,
    size_t count, uint32_t lease_ms, int64_t now_us, int64_t deadline_us,
    enum daybook_code *ret_codes, struct daybook_error *err);

/** Why an event was set aside (K4). */
enum daybook_quarantine_reason {
    DAYBOOK_REASON_MALFORMED = 1,
    DAYBOOK_REASON_REJECTED = 2,
    DAYBOOK_REASON_ATTEMPTS_EXHAUSTED = 3
};
#define DAYBOOK_QUARANTINE_REASONS 3u
/** `"malformed"`, `"rejected"`, `"attempts_exhausted"`. Threads: any. */
DAYBOOK_API const char *daybook_quarantine_reason_name(enum daybook_quarantine_reason reason);

/** Sets one event aside (K2, K4). @param words the destination's own words, at most
 * DAYBOOK_WORDS_BYTES_MAX (cut there), borrowed.
 * Returns OK; refused: NOT_OUTSTANDING, ALREADY_ACKNOWLEDGED; unknown: BACKEND, TIMED_OUT.
 * Durable: synced before it returns. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_quarantine(
    struct daybook_journal *journal, const char *consumer, struct daybook_hand_out hand_out,
    enum daybook_quarantine_reason reason, struct daybook_bytes words, int64_t now_us,
    int64_t deadline_us, struct daybook_error *err);

/* ---- look and keep --------------------------------------------------------------------------- */

struct daybook_consumer_stats {
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    bool registered;
    bool drained; /**< nothing pending and nothing in flight (S1) */
    uint64_t pending;
    uint64_t in_flight;
    uint64_t quarantined;
    /** What the journal keeps for it, alone or among others: pending, in flight and quarantined. 0 while it is
     * not registered. */
    uint64_t held_events;
    uint64_t held_bytes;              /**< names and records of these */
    int64_t oldest_pending_age_us;    /**< -1: none pending */
    int64_t oldest_unresolved_age_us; /**< leased events too (S3); -1: none */
    int64_t
        last_claim_at_us;   /**< of more than nothing; DAYBOOK_TIME_UNSET: not since the opening */
    uint64_t start;         /**< first position that counts; UINT64_MAX: waits for a time */
    int64_t start_at_us;    /**< the time that it waits for; DAYBOOK_TIME_UNSET: none */
    uint64_t newer_version; /**< events that a newer build must deliver (C9) */
    /** Quarantines of each reason (K4), by reason - 1, since the opening; released ones are not taken off. */
    uint64_t quarantined_total[DAYBOOK_QUARANTINE_REASONS];
};

#define DAYBOOK_HISTOGRAM_BUCKETS 24u
/** Counts by powers of two: bucket i counts values below 2^i (the last: all others). */
struct daybook_histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[DAYBOOK_HISTOGRAM_BUCKETS];
};

struct daybook_journal_stats {
    const char *backend; /**< static: `"log"`, `"memory"` */
    enum daybook_mode mode;
    enum daybook_journal_state state;
    struct daybook_error failure; /**< with FAILED: why */
    uint64_t stored_events;
    uint64_t stored_bytes; /**< names and records */
    uint64_t file_bytes;   /**< real bytes on disk; 0 where there are none */
    uint64_t events_max;
    uint64_t bytes_max; /**< 0: none */
    enum daybook_capacity_policy policy;
    /* Durable counters (S5): accepted = stored + pruned + reclaimed + dropped + discarded + damaged */
    uint64_t accepted;
    uint64_t pruned;
    uint64_t reclaimed;
    uint64_t dropped;
    uint64_t discarded;
    uint64_t damaged;
    int64_t dedupe_window_us;      /**< age of the oldest stored id by its acceptance; at least 0 */
    uint64_t undeliverable_events; /**< stored, but found damaged */
    uint64_t undeliverable_total;  /**< found damaged, since and by the opening */
    /** Reads of stored events that failed in claims, since the opening: no verdict, the key waits and is
     * tried again (C7). */
    uint64_t read_errors;
    int64_t read_error_at_us; /**< the caller's clock of the newest; DAYBOOK_TIME_UNSET: none */
    /** Helper files that the opening found damaged and did without; they are made again. No event rests on
     * them, but something changes bytes on this disk. */
    uint64_t bad_checkpoints;
    uint64_t bad_indexes;
    uint64_t oldest_position; /**< 0: nothing stored */
    uint64_t newest_position;
    uint32_t consumers;
    uint32_t segment_files;
    /* Since the opening: */
    uint64_t groups;                              /**< written */
    uint64_t syncs;                               /**< fdatasync calls on the log */
    struct daybook_histogram commit_us;           /**< write and sync of a group that held events */
    struct daybook_histogram commit_batch_events; /**< events in such a group */
};

/** The journal's figures; waits for no other operation's I/O (J1). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_stats(
    struct daybook_journal *journal, int64_t now_us, struct daybook_journal_stats *ret_stats,
    struct daybook_error *err);

/** A consumer's figures; one that is not registered sees everything as pending and stays
 * unregistered (S2). Returns OK, BAD_ARGUMENT (a name that cannot be one). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_consumer_stats(
    struct daybook_journal *journal, const char *consumer, int64_t now_us,
    struct daybook_consumer_stats *ret_stats, struct daybook_error *err);

/** Registered consumers in order of registration. @param names `max` entries.
 * @param ret_count how many were written. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_consumers(
    struct daybook_journal *journal, char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
    size_t *ret_count, struct daybook_error *err);

/** Prunes what is past its window, in bounded steps (P3), and refreshes gauges.
 * @param ret_pruned optional. Returns OK; unknown: BACKEND, TIMED_OUT. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_maintain(
    struct daybook_journal *journal, int64_t now_us, int64_t deadline_us, uint64_t *ret_pruned,
    struct daybook_error *err);

/** Which retained events `daybook_journal_read` returns. */
enum daybook_where {
    DAYBOOK_WHERE_ALL,
    DAYBOOK_WHERE_PENDING,    /**< unresolved for at least one registered consumer */
    DAYBOOK_WHERE_QUARANTINED /**< quarantined by at least one consumer */
};

/** Reads retained events in order of position, above `after_position`, into `batch` (attempt, token
 * and lease are zero). An empty batch with `more` no is the end. Also works on a FAILED journal. An
 * event whose bytes are damaged is left out and counted in `ret_damaged` (optional).
 * @param ret_last position up to which was looked: the next `after_position`.
 * Returns OK; BACKEND (a read error). Threads: any, one a batch. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_read(
    struct daybook_journal *journal, uint64_t after_position, enum daybook_where where,
    struct daybook_batch *batch, uint64_t *ret_last, uint64_t *ret_damaged,
    struct daybook_error *err);

/** What an event is to one consumer (S1). */
enum daybook_standing {
    DAYBOOK_STANDING_PENDING,
    DAYBOOK_STANDING_IN_FLIGHT,    /**< under a live lease */
    DAYBOOK_STANDING_ACKNOWLEDGED, /**< or from before its start */
    DAYBOOK_STANDING_QUARANTINED,
    DAYBOOK_STANDING_DISCARDED
};
/** `"pending"`, `"in_flight"`, `"acknowledged"`, `"quarantined"`, `"discarded"`. Threads: any. */
DAYBOOK_API const char *daybook_standing_name(enum daybook_standing standing);

/** One consumer's part in an event. */
struct daybook_event_standing {
    char consumer[DAYBOOK_CONSUMER_NAME_MAX + 1];
    enum daybook_standing standing;
    uint32_t attempt;   /**< hand-outs that were not given back (C6); 0 once it is resolved */
    uint32_t hand_outs; /**< hand-outs, given back or not; 0 once it is resolved */
};

/** Finds a retained event by its request_id, with what it is to each registered consumer.
 * @param request_id borrowed. @param batch gets the event as its one delivery, as daybook_journal_read;
 *   where its record is damaged the record is empty.
 * @param ret_standings `max` entries, in order of registration; DAYBOOK_CONSUMERS_MAX are always enough.
 * @param ret_count how many were written.
 * Returns OK; NOT_FOUND (not retained); BACKEND (a read error). Also works on a FAILED journal.
 * Threads: any, one a batch. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_find(
    struct daybook_journal *journal, struct daybook_bytes request_id, int64_t now_us,
    struct daybook_batch *batch, struct daybook_event_standing *ret_standings, size_t max,
    size_t *ret_count, struct daybook_error *err);

/* ---- operators ------------------------------------------------------------------------------- */

#define DAYBOOK_WHO_BYTES_MAX 255u  /**< of an operator's name */
#define DAYBOOK_WHY_BYTES_MAX 1024u /**< of a reason */
#define DAYBOOK_TRAIL_MAX 10000u    /**< operations kept, the newest */

/** On whose behalf, and why: kept in the trail (O1). Borrowed UTF-8, cut at the limits above. */
struct daybook_operator {
    struct daybook_bytes who;
    struct daybook_bytes why; /**< may be empty, but for `discard` */
};

/** Makes a quarantined event pending again for this consumer with a fresh budget of attempts; a late
 * acknowledgement of an earlier hand-out is honoured (K3).
 * @param request_id of a stored event, borrowed. @param by copied.
 * Returns OK; NOT_FOUND (no such consumer, no such event, or it is not quarantined by it); unknown:
 * BACKEND, TIMED_OUT. Durable: synced, with its entry in the trail. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_release(
    struct daybook_journal *journal, const char *consumer, struct daybook_bytes request_id,
    const struct daybook_operator *by, int64_t now_us, int64_t deadline_us,
    struct daybook_error *err);

/** Ends an event for this consumer only: final like an acknowledgement, whether it was pending, in
 * flight or quarantined. It is forgotten once every consumer has acknowledged or discarded it.
 * @param by `why` must not be empty.
 * Returns OK (also when it was discarded before: nothing changes then); NOT_FOUND (no such consumer,
 * no such event, or one from before its start); refused: ALREADY_ACKNOWLEDGED; BAD_ARGUMENT; unknown:
 * BACKEND, TIMED_OUT. Otherwise as release. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_discard(
    struct daybook_journal *journal, const char *consumer, struct daybook_bytes request_id,
    const struct daybook_operator *by, int64_t now_us, int64_t deadline_us,
    struct daybook_error *err);

/** Whether a consumer that still holds live leases may be forgotten. */
enum daybook_force { DAYBOOK_FORCE_NO, DAYBOOK_FORCE_YES };

/** Forgets a consumer: what only it had not acknowledged counts as delivered from now on (P2), and what
 * it had set aside is no evidence any more. Its next claim would register it anew.
 * Returns OK; NOT_FOUND; retry: BUSY (it holds live leases and `force` is no); unknown: BACKEND,
 * TIMED_OUT. Otherwise as release. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_retire(
    struct daybook_journal *journal, const char *consumer, enum daybook_force force,
    const struct daybook_operator *by, int64_t now_us, int64_t deadline_us,
    struct daybook_error *err);

/** Delivers again what is retained from the consumer's start on: acknowledged events are pending again
 * and attempts begin anew; quarantined and discarded events and live leases are left alone. Verdicts
 * of earlier hand-outs are `not_outstanding` from now on, but for leases that are live at `now_us` (K3).
 * Returns OK; NOT_FOUND; unknown: BACKEND, TIMED_OUT. Otherwise as release. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_rewind(
    struct daybook_journal *journal, const char *consumer, const struct daybook_operator *by,
    int64_t now_us, int64_t deadline_us, struct daybook_error *err);

/** Registers a consumer that the journal does not know yet, before anybody delivers for it: its first claim,
 * of nothing (C1, C12), made by an operator. From now on what it has not acknowledged is kept for it.
 * @param start where it starts. @param by copied.
 * Returns OK; refused: CONFLICT (it is registered already: where it started stands; rewind delivers again, and
 * one that was retired may start anew); BUSY (DAYBOOK_CONSUMERS_MAX are registered); NO_MEMORY; unknown: BACKEND,
 * TIMED_OUT. Otherwise as release. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_start(
    struct daybook_journal *journal, const char *consumer, struct daybook_start start,
    const struct daybook_operator *by, int64_t now_us, int64_t deadline_us,
    struct daybook_error *err);

/** Notes in the trail that an operator lets the brakes of the consumer's worker go (W6b). The journal keeps no
 * brake: whoever runs the worker calls daybook_worker_lift_brakes once this has returned OK.
 * Returns OK; NOT_FOUND (no such consumer); unknown: BACKEND, TIMED_OUT. Otherwise as release. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_note_lift(
    struct daybook_journal *journal, const char *consumer, const struct daybook_operator *by,
    int64_t now_us, int64_t deadline_us, struct daybook_error *err);

/** What is known of one quarantined event beside the event itself. */
struct daybook_quarantine_entry {
    uint64_t position;
    enum daybook_quarantine_reason reason;
    uint32_t attempts; /**< when it was set aside */
    int64_t quarantined_at_us;
    uint32_t words_len;
    /** The destination's own, not NUL-terminated. What a worker set aside as REJECTED has one JSON object
     * of strings: sink, code, constraint, column, message, as far as they are known. */
    char words[DAYBOOK_WORDS_BYTES_MAX];
};

/** Lists what a consumer has quarantined, in order of position, above `after_position`.
 * @param reason 0: any. @param batch the events, as daybook_journal_read; an event whose bytes cannot be
 *   read is listed with its position and an empty record.
 * @param ret_entries `batch->events_max` entries; the i-th speaks of the i-th delivery of the batch.
 * @param ret_last position up to which was looked: the next `after_position`.
 * Returns OK (an empty batch with `more` no is the end); NOT_FOUND (no such consumer); BACKEND.
 * Threads: any, one a batch. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_quarantine_list(
    struct daybook_journal *journal, const char *consumer, uint64_t after_position,
    enum daybook_quarantine_reason reason, struct daybook_batch *batch,
    struct daybook_quarantine_entry *ret_entries, uint64_t *ret_last, struct daybook_error *err);

/** What an operator can do; the values are stored. */
enum daybook_operation_kind {
    DAYBOOK_OPERATION_START = 1,
    DAYBOOK_OPERATION_RELEASE = 2,
    DAYBOOK_OPERATION_DISCARD = 3,
    DAYBOOK_OPERATION_RETIRE = 4,
    DAYBOOK_OPERATION_REWIND = 5,
    DAYBOOK_OPERATION_LIFT = 6 /**< of a brake (W6b) */
};
/** `"start"`, `"release"`, `"discard"`, `"retire"`, `"rewind"`, `"lift"`. Threads: any. */
DAYBOOK_API const char *daybook_operation_kind_name(enum daybook_operation_kind kind);

/** One entry of the trail (O1). Texts are NUL-terminated. */
struct daybook_operation {
    uint64_t no; /**< grows with every operation, from 1 */
    enum daybook_operation_kind kind;
    int64_t at_us;
    uint64_t position; /**< of the event; 0 where there is none */
    char consumer[DAYBOOK_CONSUMER_NAME_MAX + 1];
    char request_id[DAYBOOK_NAME_BYTES_MAX +
                    1]; /**< empty where there is none, or where the event is
                                                    forgotten and its id is not known any more */
    char who[DAYBOOK_WHO_BYTES_MAX + 1];
    char why[DAYBOOK_WHY_BYTES_MAX + 1];
};

/** Lists the trail, newest first.
 * @param before_no only operations with a smaller number; 0: from the newest.
 * @param ret `max` entries. @param ret_count how many were written; fewer than `max`: the end.
 * Returns OK; BACKEND (a read error). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_journal_operations(
    struct daybook_journal *journal, uint64_t before_no, struct daybook_operation *ret, size_t max,
    size_t *ret_count, struct daybook_error *err);

/* ---- wait and close -------------------------------------------------------------------------- */

/** A number that changes whenever an event may have become claimable: read it before a claim, then
 * wait on it. Threads: any. */
DAYBOOK_API uint32_t daybook_journal_changes(struct daybook_journal *journal);

/** Waits until the number differs from `seen`, `daybook_journal_wake` is called, or the deadline.
 * Threads: any. */
DAYBOOK_API void daybook_journal_wait(struct daybook_journal *journal, uint32_t seen,
                                      int64_t deadline_us);

/** Ends every wait that is under way, and those that begin with a number read before. Threads: any. */
DAYBOOK_API void daybook_journal_wake(struct daybook_journal *journal);

/** The clock of deadlines, microseconds. Threads: any. */
DAYBOOK_API int64_t daybook_journal_monotonic_us(struct daybook_journal *journal);

/** What the journal was opened with, defaults filled in. Borrowed. Threads: any. */
DAYBOOK_API const struct daybook_capacity *daybook_journal_capacity(
    const struct daybook_journal *journal);

/** Commits what is staged, marks an orderly end and closes. No operation may be under way, and queues
 * are freed first. The handle is gone whatever is returned. NULL is accepted.
 * Returns OK; BACKEND: the end could not be marked, the next opening recovers. Threads: owner. */
DAYBOOK_API enum daybook_code daybook_journal_close(struct daybook_journal *journal,
                                                    struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
