/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine gives to the journal interface: one struct of functions. `journal.c` checks every
 * argument against the public header before it calls one of them (names, limits, events), so an
 * engine sees only what the contract allows; what each must do is written in <daybook/journal.h>.
 */
#ifndef DBK_JOURNAL_ENGINE_H
#define DBK_JOURNAL_ENGINE_H

#include <daybook/journal.h>

struct dbk_engine_ops {
    const char *backend;
    /* Blocking; events are checked; results are written for each event. */
    enum daybook_code (*append_batch)(struct daybook_journal *j, const struct daybook_event *events,
                                      size_t count, int64_t now_us, int64_t deadline_us,
                                      struct daybook_append_result *ret_results,
                                      struct daybook_error *err);
    enum daybook_code (*queue_new)(struct daybook_journal *j, struct daybook_append_queue **ret,
                                   struct daybook_error *err);
    /* Results that are not OK when `submit` is called (they were refused by the checks) are kept;
     * such events are skipped. */
    void (*submit)(struct daybook_journal *j, struct daybook_append_queue *queue,
                   struct daybook_submission *submission, int64_t now_us);
    enum daybook_code (*claim)(struct daybook_journal *j, const struct daybook_claim *claim,
                               int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                               struct daybook_error *err);
    enum daybook_code (*ack)(struct daybook_journal *j, const char *consumer,
                             const struct daybook_hand_out *set, size_t count, int64_t now_us,
                             int64_t deadline_us, enum daybook_code *ret_codes,
                             struct daybook_error *err);
    enum daybook_code (*relinquish)(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err);
    enum daybook_code (*extend)(struct daybook_journal *j, const char *consumer,
                                const struct daybook_hand_out *set, size_t count, uint32_t lease_ms,
                                int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
                                struct daybook_error *err);
    enum daybook_code (*quarantine)(struct daybook_journal *j, const char *consumer,
                                    struct daybook_hand_out hand_out,
                                    enum daybook_quarantine_reason reason,
                                    struct daybook_bytes words, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err);
    enum daybook_code (*stats)(struct daybook_journal *j, int64_t now_us,
                               struct daybook_journal_stats *ret, struct daybook_error *err);
    enum daybook_code (*consumer_stats)(struct daybook_journal *j, const char *consumer,
                                        int64_t now_us, struct daybook_consumer_stats *ret,
                                        struct daybook_error *err);
    enum daybook_code (*consumers)(struct daybook_journal *j,
                                   char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                   size_t *ret_count, struct daybook_error *err);
    enum daybook_code (*maintain)(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                  uint64_t *ret_pruned, struct daybook_error *err);
    enum daybook_code (*read)(struct daybook_journal *j, uint64_t after_position,
                              enum daybook_where where, struct daybook_batch *batch,
                              uint64_t *ret_last, uint64_t *ret_damaged, struct daybook_error *err);
    /* See dbk_journal_newest_acknowledged. NULL: no control is ever known. */
    enum daybook_code (*newest_acknowledged)(struct daybook_journal *j, const char *consumer,
                                             int64_t now_us, struct daybook_batch *batch,
                                             struct daybook_error *err);
    enum daybook_code (*find)(struct daybook_journal *j, struct daybook_bytes request_id,
                              int64_t now_us, struct daybook_batch *batch,
                              struct daybook_event_standing *ret_standings, size_t max,
                              size_t *ret_count, struct daybook_error *err);
    /* Operators' operations; NULL: this engine cannot (yet), answered BAD_ARGUMENT. */
    enum daybook_code (*release)(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err);
    enum daybook_code (*discard)(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err);
    enum daybook_code (*retire)(struct daybook_journal *j, const char *consumer,
                                enum daybook_force force, const struct daybook_operator *by,
                                int64_t now_us, int64_t deadline_us, struct daybook_error *err);
    enum daybook_code (*rewind)(struct daybook_journal *j, const char *consumer,
                                const struct daybook_operator *by, int64_t now_us,
                                int64_t deadline_us, struct daybook_error *err);
    /* CONFLICT where the consumer is registered. */
    enum daybook_code (*start)(struct daybook_journal *j, const char *consumer,
                               struct daybook_start start, const struct daybook_operator *by,
                               int64_t now_us, int64_t deadline_us, struct daybook_error *err);
    /* Only the entry in the trail. */
    enum daybook_code (*note_lift)(struct daybook_journal *j, const char *consumer,
                                   const struct daybook_operator *by, int64_t now_us,
                                   int64_t deadline_us, struct daybook_error *err);
    enum daybook_code (*quarantine_list)(struct daybook_journal *j, const char *consumer,
                                         uint64_t after_position,
                                         enum daybook_quarantine_reason reason,
                                         struct daybook_batch *batch,
                                         struct daybook_quarantine_entry *ret_entries,
                                         uint64_t *ret_last, struct daybook_error *err);
    enum daybook_code (*operations)(struct daybook_journal *j, uint64_t before_no,
                                    struct daybook_operation *ret, size_t max, size_t *ret_count,
                                    struct daybook_error *err);
    uint32_t (*changes)(struct daybook_journal *j);
    void (*wait)(struct daybook_journal *j, uint32_t seen, int64_t deadline_us);
    void (*wake)(struct daybook_journal *j);
    int64_t (*monotonic_us)(struct daybook_journal *j);
    /* See dbk_journal_hurry. NULL: this engine waits for no server. */
    void (*hurry)(struct daybook_journal *j, int64_t until_us);
    enum daybook_code (*close)(struct daybook_journal *j, struct daybook_error *err);
};

/* Queues carry their own operations, because they outlive no journal but are used without it. */
struct dbk_append_queue_ops {
    int (*fd)(const struct daybook_append_queue *q);
    size_t (*drain)(struct daybook_append_queue *q, int64_t now_us,
                    struct daybook_submission **ret_done, size_t max);
    void (*free)(struct daybook_append_queue *q);
};

/* The heads of an engine's own structs. */
struct daybook_journal {
    const struct dbk_engine_ops *ops;
    struct daybook_capacity capacity; /* defaults filled in, see dbk_capacity_fill */
};
struct daybook_append_queue {
    const struct dbk_append_queue_ops *ops;
};

/* The control of a worker that has just started (W5): the newest retained event that the consumer itself has
 * acknowledged, accepted less than retain_acknowledged before `now_us`. Discarded events are none, nor are
 * those from before the consumer's start, of a newer row version, or damaged.
 * `batch` is overwritten: one event (attempt, token and lease are zero), or none where there is none; the
 * consumer need not be registered. Also works on a FAILED journal.
 * Cost on the log engine: one word for each 64 events stored behind the answer, no more than 4,096 words under
 * one hold of the state lock, and one read; a record that turns out damaged costs one more, 64 at most.
 * Returns OK; BACKEND (a read error); BAD_ARGUMENT (the event does not fit the batch). Threads: any, one a
 * batch. */
enum daybook_code dbk_journal_newest_acknowledged(struct daybook_journal *journal,
                                                  const char *consumer, int64_t now_us,
                                                  struct daybook_batch *batch,
                                                  struct daybook_error *err);

/* The journal will be closed: from `until_us` on (of daybook_journal_monotonic_us) no operation waits for a server any
 * more, whatever its own deadline; what is under way then is answered TIMED_OUT. An engine without a server does nothing.
 * Threads: any. */
void dbk_journal_hurry(struct daybook_journal *journal, int64_t until_us);

/* What an engine may put into a batch beside the names and the record of each event. */
#define DBK_BATCH_BESIDE_BYTES 64u
/* The bytes that `batch->bytes` has room for. An engine checks against it before it writes: a batch may
 * have been made for smaller events than the journal holds. */
static inline size_t dbk_batch_room(const struct daybook_batch *batch)
{
    return batch->bytes_max + (size_t)batch->events_max * DBK_BATCH_BESIDE_BYTES;
}

/* Replaces zeros by defaults and checks the ranges. Returns OK or BAD_CONFIG. */
enum daybook_code dbk_capacity_fill(const struct daybook_capacity *given,
                                    struct daybook_capacity *ret, struct daybook_error *err);

#endif
