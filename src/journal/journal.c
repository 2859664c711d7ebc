/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's door: every argument is checked here against <daybook/journal.h>, then the call is
 * handed to the engine. An engine sees only what the contract allows; nothing else is decided here.
 * Threads: as the public header says; this file holds no state.
 */
#include <daybook/journal.h>

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "journal/engine.h"
#include "journal/names.h"

#define NOW_MAX_US (INT64_C(1) << 60) /* the year 38505: now plus any lease or window fits */
#define LEASE_MS_MAX INT32_MAX

/* ---- checks ---------------------------------------------------------------------------------- */

static enum daybook_code check_journal(const struct daybook_journal *journal,
                                       struct daybook_error *err)
{
    return journal != NULL
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the journal is missing: open one");
}

static enum daybook_code check_now(int64_t now_us, struct daybook_error *err)
{
    if (now_us >= 0 && now_us <= NOW_MAX_US) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "now is %" PRId64 ": give microseconds since the Unix epoch", now_us);
}

static enum daybook_code check_consumer(const char *consumer, struct daybook_error *err)
{
    if (consumer != NULL &&
        dbk_consumer_name_valid(consumer, strnlen(consumer, DAYBOOK_CONSUMER_NAME_MAX + 1))) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "a consumer's name is 1 to %u characters of a to z, 0 to 9, _ and -",
                    DAYBOOK_CONSUMER_NAME_MAX);
}

static enum daybook_code check_pointer(const void *pointer, const char *what,
                                       struct daybook_error *err)
{
    return pointer != NULL ? DAYBOOK_OK
                           : dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%s is missing", what);
}

/* The checks that nearly every operation begins with. */
static enum daybook_code check_call(const struct daybook_journal *journal, const char *consumer,
                                    int64_t now_us, struct daybook_error *err)
{
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK) {
        code = check_consumer(consumer, err);
    }
    return code == DAYBOOK_OK ? check_now(now_us, err) : code;
}

/* J1: an operation that begins after its deadline does nothing. One that began in time is the engine's
 * to cut short. */
static enum daybook_code check_deadline(struct daybook_journal *journal, int64_t deadline_us,
                                        struct daybook_error *err)
{
    if (deadline_us == DAYBOOK_NO_DEADLINE || journal->ops->monotonic_us(journal) < deadline_us) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_TIMED_OUT, "the deadline had passed before the operation began");
}

/* ---- append ---------------------------------------------------------------------------------- */

static void answer_all(struct daybook_append_result *results, size_t count, enum daybook_code code)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = (struct daybook_append_result){.code = code};
    }
}

/* What the result of one event says, in words (A3, A4). */
static void explain(const struct daybook_journal *journal, const struct daybook_event *event,
                    const struct daybook_append_result *result, struct daybook_error *err)
{
    static const char *const limits[] = {[DAYBOOK_LIMIT_NONE] = "a limit",
                                         [DAYBOOK_LIMIT_EVENTS] = "max_events",
                                         [DAYBOOK_LIMIT_BYTES] = "max_bytes",
                                         [DAYBOOK_LIMIT_DISK] = "the disk"};
    const struct daybook_bytes id = event->request_id;

    if (result->code == DAYBOOK_CONFLICT) {
        (void)dbk_fail(err, DAYBOOK_CONFLICT, "%.*s is stored with other content", (int)id.len,
                       id.data);
    } else if (result->code == DAYBOOK_AT_CAPACITY) {
        (void)dbk_fail(err, DAYBOOK_AT_CAPACITY,
                       "full: %s is reached with %" PRIu64 " events retained (max_events %" PRIu64
                       "); deliver what is pending, or raise it",
                       limits[result->limit], result->retained, journal->capacity.events_max);
    } else if (result->code == DAYBOOK_BACKEND) {
        (void)dbk_fail(err, DAYBOOK_BACKEND,
                       "%.*s cannot be compared with the stored event: unreadable, damaged, or "
                       "stored by a newer version",
                       (int)id.len, id.data);
    }
}

enum daybook_code daybook_journal_append(struct daybook_journal *journal,
                                         const struct daybook_event *event, int64_t now_us,
                                         int64_t deadline_us,
                                         struct daybook_append_result *ret_result,
                                         struct daybook_error *err)
{
    enum daybook_code code = check_pointer(ret_result, "the result", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    code = check_journal(journal, err);
    if (code == DAYBOOK_OK) {
        code = check_pointer(event, "the event", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_now(now_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = daybook_event_check(event, &journal->capacity.events, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_deadline(journal, deadline_us, err);
    }
    answer_all(ret_result, 1, code);
    if (code != DAYBOOK_OK) {
        return code;
    }
    code = journal->ops->append_batch(journal, event, 1, now_us, deadline_us, ret_result, err);
    if (code == DAYBOOK_OK) {
        explain(journal, event, ret_result, err);
    }
    return code != DAYBOOK_OK ? code : ret_result->code;
}

/* Checks each event on its own: one bad event does not spoil its neighbours (A6). */
static void check_events(const struct daybook_journal *journal, const struct daybook_event *events,
                         size_t count, struct daybook_append_result *results)
{
    for (size_t i = 0; i < count; i++) {
        answer_all(&results[i], 1,
                   i > 0 && dbk_fault(DBK_FAULT_BAD_SPOILS_BATCH) &&
                           results[i - 1].code != DAYBOOK_OK
                       ? results[i - 1].code
                       : daybook_event_check(&events[i], &journal->capacity.events, NULL));
    }
}

/* The end of the run of equal goodness that starts at `first`. */
static size_t run_end(const struct daybook_append_result *results, size_t first, size_t count)
{
    size_t end = first + 1;

    while (end < count &&
           (results[end].code == DAYBOOK_OK) == (results[first].code == DAYBOOK_OK)) {
        end++;
    }
    return end;
}

enum daybook_code daybook_journal_append_batch(struct daybook_journal *journal,
                                               const struct daybook_event *events, size_t count,
                                               int64_t now_us, int64_t deadline_us,
                                               struct daybook_append_result *ret_results,
                                               struct daybook_error *err)
{
    enum daybook_code failure = DAYBOOK_OK;
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK && count > 0) {
        code = check_pointer(ret_results, "the array of results", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (count > 0) {
        code = check_pointer(events, "the array of events", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_now(now_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_deadline(journal, deadline_us, err);
    }
    if (code != DAYBOOK_OK) {
        answer_all(ret_results, count, code);
        return code;
    }
    check_events(journal, events, count, ret_results);
    /* The engine takes only events that passed, so a batch with refused ones goes in runs; what a
     * run's failure left unknown does not stop the next, which the engine answers by its state. */
    for (size_t first = 0, end; first < count; first = end) {
        end = run_end(ret_results, first, count);
        if (ret_results[first].code == DAYBOOK_OK) {
            code = journal->ops->append_batch(journal, events + first, end - first, now_us,
                                              deadline_us, ret_results + first, err);
            failure = code != DAYBOOK_OK ? code : failure;
        }
    }
    return failure;
}

enum daybook_code daybook_append_queue_new(struct daybook_journal *journal,
                                           struct daybook_append_queue **ret_queue,
                                           struct daybook_error *err)
{
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_queue, "where the queue goes", err);
    }
    return code == DAYBOOK_OK ? journal->ops->queue_new(journal, ret_queue, err) : code;
}

int daybook_append_queue_fd(const struct daybook_append_queue *queue)
{
    return queue != NULL ? queue->ops->fd(queue) : -1;
}

size_t daybook_append_queue_drain(struct daybook_append_queue *queue, int64_t now_us,
                                  struct daybook_submission **ret_done, size_t max)
{
    if (queue == NULL || ret_done == NULL || max == 0) {
        return 0;
    }
    return queue->ops->drain(queue, now_us, ret_done, max);
}

void daybook_append_queue_free(struct daybook_append_queue *queue)
{
    if (queue != NULL) {
        queue->ops->free(queue);
    }
}

/* The answer to a misuse comes the way that every answer comes: through the queue. Only where there
 * is no queue to come through, or no submission, nothing can be said. */
void daybook_journal_submit(struct daybook_journal *journal, struct daybook_append_queue *queue,
                            struct daybook_submission *submission, int64_t now_us)
{
    if (journal == NULL || queue == NULL || submission == NULL) {
        return;
    }
    if (submission->results == NULL) {
        submission->count = 0;
    } else if (submission->events == NULL || check_now(now_us, NULL) != DAYBOOK_OK) {
        answer_all(submission->results, submission->count, DAYBOOK_BAD_ARGUMENT);
    } else if (submission->events_state == DAYBOOK_EVENTS_UNCHECKED) {
        check_events(journal, submission->events, submission->count, submission->results);
    }
    journal->ops->submit(journal, queue, submission, now_us);
}

/* ---- claim and verdicts ---------------------------------------------------------------------- */

static enum daybook_code check_start(struct daybook_start start, struct daybook_error *err)
{
    switch (start.kind) {
    case DAYBOOK_START_OLDEST:
    case DAYBOOK_START_NOW:
        return DAYBOOK_OK;
    case DAYBOOK_START_POSITION:
    case DAYBOOK_START_TIME:
        if (start.value >= 0) {
            return DAYBOOK_OK;
        }
        break;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "a consumer starts at the oldest event, now, at a position or at a time");
}

static enum daybook_code check_claim(const struct daybook_claim *claim, struct daybook_error *err)
{
    if (claim->events_max > DAYBOOK_CLAIM_EVENTS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a claim takes at most %u events, not %" PRIu32,
                        DAYBOOK_CLAIM_EVENTS_MAX, claim->events_max);
    }
    /* A claim of nothing only registers (C12); it leases nothing. */
    if (claim->lease_ms > LEASE_MS_MAX || (claim->lease_ms == 0 && claim->events_max > 0)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a lease is 1 to %d ms, not %" PRIu32,
                        LEASE_MS_MAX, claim->lease_ms);
    }
    return check_start(claim->start, err);
}

static void empty_batch(struct daybook_batch *batch)
{
    batch->count = 0;
    batch->more = false;
    batch->bytes_used = 0;
}

enum daybook_code daybook_journal_claim(struct daybook_journal *journal,
                                        const struct daybook_claim *claim, int64_t now_us,
                                        int64_t deadline_us, struct daybook_batch *batch,
                                        struct daybook_error *err)
{
    struct daybook_claim filled;
    enum daybook_code code = check_pointer(batch, "the batch", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    empty_batch(batch);
    code = check_pointer(claim, "the claim", err);
    if (code == DAYBOOK_OK) {
        code = check_call(journal, claim->consumer, now_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_claim(claim, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_deadline(journal, deadline_us, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    filled = *claim;
    if (filled.events_max > batch->events_max) {
        filled.events_max = batch->events_max;
    }
    if (filled.bytes_max == 0 || filled.bytes_max > batch->bytes_max) {
        filled.bytes_max = batch->bytes_max;
    }
    if (filled.key_run == 0) {
        filled.key_run = 1;
    }
    if (filled.hand_outs_max == 0) {
        filled.hand_outs_max = journal->capacity.delivery_attempts_max;
    }
    return journal->ops->claim(journal, &filled, now_us, deadline_us, batch, err);
}

static enum daybook_code check_set(struct daybook_journal *journal, const char *consumer,
                                   const struct daybook_hand_out *set, size_t count, int64_t now_us,
                                   int64_t deadline_us, const enum daybook_code *ret_codes,
                                   struct daybook_error *err)
{
    enum daybook_code code = check_call(journal, consumer, now_us, err);

    if (code == DAYBOOK_OK && count > 0) {
        code = check_pointer(set, "the set of hand-outs", err);
    }
    if (code == DAYBOOK_OK && count > 0) {
        code = check_pointer(ret_codes, "the array of codes", err);
    }
    return code == DAYBOOK_OK && count > 0 ? check_deadline(journal, deadline_us, err) : code;
}

enum daybook_code daybook_journal_ack(struct daybook_journal *journal, const char *consumer,
                                      const struct daybook_hand_out *set, size_t count,
                                      int64_t now_us, int64_t deadline_us,
                                      enum daybook_code *ret_codes, struct daybook_error *err)
{
    enum daybook_code code =
        check_set(journal, consumer, set, count, now_us, deadline_us, ret_codes, err);

    if (code != DAYBOOK_OK || count == 0) {
        return code;
    }
    return journal->ops->ack(journal, consumer, set, count, now_us, deadline_us, ret_codes, err);
}

enum daybook_code daybook_journal_relinquish(struct daybook_journal *journal, const char *consumer,
                                             const struct daybook_hand_out *set, size_t count,
                                             int64_t now_us, int64_t deadline_us,
                                             enum daybook_code *ret_codes,
                                             struct daybook_error *err)
{
    enum daybook_code code =
        check_set(journal, consumer, set, count, now_us, deadline_us, ret_codes, err);

    if (code != DAYBOOK_OK || count == 0) {
        return code;
    }
    return journal->ops->relinquish(journal, consumer, set, count, now_us, deadline_us, ret_codes,
                                    err);
}

enum daybook_code daybook_journal_extend(struct daybook_journal *journal, const char *consumer,
                                         const struct daybook_hand_out *set, size_t count,
                                         uint32_t lease_ms, int64_t now_us, int64_t deadline_us,
                                         enum daybook_code *ret_codes, struct daybook_error *err)
{
    enum daybook_code code =
        check_set(journal, consumer, set, count, now_us, deadline_us, ret_codes, err);

    if (code == DAYBOOK_OK && lease_ms > LEASE_MS_MAX) {
        code = dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a lease is at most %d ms, not %" PRIu32,
                        LEASE_MS_MAX, lease_ms);
    }
    if (code != DAYBOOK_OK || count == 0) {
        return code;
    }
    return journal->ops->extend(journal, consumer, set, count, lease_ms, now_us, deadline_us,
                                ret_codes, err);
}

/* Cuts a text to its limit, in front of a UTF-8 sequence that would not fit. */
static struct daybook_bytes cut(struct daybook_bytes text, size_t max)
{
    if (text.len > max) {
        text.len = max;
        while (text.len > max - 3 && ((unsigned char)text.data[text.len] & 0xC0) == 0x80) {
            text.len--;
        }
    }
    return text;
}

enum daybook_code daybook_journal_quarantine(struct daybook_journal *journal, const char *consumer,
                                             struct daybook_hand_out hand_out,
                                             enum daybook_quarantine_reason reason,
                                             struct daybook_bytes words, int64_t now_us,
                                             int64_t deadline_us, struct daybook_error *err)
{
    enum daybook_code code = check_call(journal, consumer, now_us, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    if (reason < DAYBOOK_REASON_MALFORMED || reason > DAYBOOK_REASON_ATTEMPTS_EXHAUSTED) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%d is no reason of a quarantine", (int)reason);
    }
    if (words.len > 0) {
        code = check_pointer(words.data, "the text of the destination's words", err);
        if (code != DAYBOOK_OK) {
            return code;
        }
    }
    code = check_deadline(journal, deadline_us, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->quarantine(journal, consumer, hand_out, reason,
                                    cut(words, DAYBOOK_WORDS_BYTES_MAX), now_us, deadline_us, err);
}

/* ---- look and keep --------------------------------------------------------------------------- */

enum daybook_code daybook_journal_stats(struct daybook_journal *journal, int64_t now_us,
                                        struct daybook_journal_stats *ret_stats,
                                        struct daybook_error *err)
{
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_stats, "where the figures go", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_now(now_us, err);
    }
    return code == DAYBOOK_OK ? journal->ops->stats(journal, now_us, ret_stats, err) : code;
}

enum daybook_code daybook_journal_consumer_stats(struct daybook_journal *journal,
                                                 const char *consumer, int64_t now_us,
                                                 struct daybook_consumer_stats *ret_stats,
                                                 struct daybook_error *err)
{
    enum daybook_code code = check_call(journal, consumer, now_us, err);

    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_stats, "where the figures go", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->consumer_stats(journal, consumer, now_us, ret_stats, err);
}

enum daybook_code daybook_journal_consumers(struct daybook_journal *journal,
                                            char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1],
                                            size_t max, size_t *ret_count,
                                            struct daybook_error *err)
{
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK && max > 0) {
        code = check_pointer(names, "the array of names", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_count, "where the count goes", err);
    }
    return code == DAYBOOK_OK ? journal->ops->consumers(journal, names, max, ret_count, err) : code;
}

enum daybook_code daybook_journal_maintain(struct daybook_journal *journal, int64_t now_us,
                                           int64_t deadline_us, uint64_t *ret_pruned,
                                           struct daybook_error *err)
{
    uint64_t pruned = 0;
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK) {
        code = check_now(now_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_deadline(journal, deadline_us, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->maintain(journal, now_us, deadline_us,
                                  ret_pruned != NULL ? ret_pruned : &pruned, err);
}

enum daybook_code daybook_journal_read(struct daybook_journal *journal, uint64_t after_position,
                                       enum daybook_where where, struct daybook_batch *batch,
                                       uint64_t *ret_last, uint64_t *ret_damaged,
                                       struct daybook_error *err)
{
    uint64_t damaged = 0;
    enum daybook_code code = check_pointer(batch, "the batch", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    empty_batch(batch);
    code = check_journal(journal, err);
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_last, "where the last position goes", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (where != DAYBOOK_WHERE_ALL && where != DAYBOOK_WHERE_PENDING &&
        where != DAYBOOK_WHERE_QUARANTINED) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "what is read is all, pending or quarantined");
    }
    return journal->ops->read(journal, after_position, where, batch, ret_last,
                              ret_damaged != NULL ? ret_damaged : &damaged, err);
}

enum daybook_code dbk_journal_newest_acknowledged(struct daybook_journal *journal,
                                                  const char *consumer, int64_t now_us,
                                                  struct daybook_batch *batch,
                                                  struct daybook_error *err)
{
    enum daybook_code code = check_pointer(batch, "the batch", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    empty_batch(batch);
    code = check_call(journal, consumer, now_us, err);
    return code == DAYBOOK_OK && journal->ops->newest_acknowledged != NULL
               ? journal->ops->newest_acknowledged(journal, consumer, now_us, batch, err)
               : code;
}

static enum daybook_code cannot(const struct daybook_journal *journal, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the engine %s does not offer this operation",
                    journal->ops->backend);
}

static enum daybook_code check_id(struct daybook_bytes request_id, struct daybook_error *err)
{
    if (request_id.data != NULL && request_id.len > 0 && request_id.len <= DAYBOOK_NAME_BYTES_MAX) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a request_id is 1 to %u bytes",
                    DAYBOOK_NAME_BYTES_MAX);
}

enum daybook_code daybook_journal_find(struct daybook_journal *journal,
                                       struct daybook_bytes request_id, int64_t now_us,
                                       struct daybook_batch *batch,
                                       struct daybook_event_standing *ret_standings, size_t max,
                                       size_t *ret_count, struct daybook_error *err)
{
    enum daybook_code code = check_pointer(batch, "the batch", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    empty_batch(batch);
    code = check_journal(journal, err);
    if (code == DAYBOOK_OK) {
        code = check_now(now_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_id(request_id, err);
    }
    if (code == DAYBOOK_OK && max > 0) {
        code = check_pointer(ret_standings, "the array of standings", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_count, "where the count goes", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->find == NULL ? cannot(journal, err)
                                      : journal->ops->find(journal, request_id, now_us, batch,
                                                           ret_standings, max, ret_count, err);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Checks the name and the reason and cuts them to what the trail keeps. */
static enum daybook_code check_operator(const struct daybook_operator *by,
                                        struct daybook_operator *ret, struct daybook_error *err)
{
    if (by == NULL || by->who.len == 0 || by->who.data == NULL ||
        (by->why.len > 0 && by->why.data == NULL)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "an operation needs to say who does it");
    }
    ret->who = cut(by->who, DAYBOOK_WHO_BYTES_MAX);
    ret->why = cut(by->why, DAYBOOK_WHY_BYTES_MAX);
    return DAYBOOK_OK;
}

/* What release and discard have in common. */
static enum daybook_code check_act_on_event(struct daybook_journal *journal, const char *consumer,
                                            struct daybook_bytes request_id,
                                            const struct daybook_operator *by, int64_t now_us,
                                            int64_t deadline_us, struct daybook_operator *ret,
                                            struct daybook_error *err)
{
    enum daybook_code code = check_call(journal, consumer, now_us, err);

    if (code == DAYBOOK_OK) {
        code = check_id(request_id, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_operator(by, ret, err);
    }
    return code == DAYBOOK_OK ? check_deadline(journal, deadline_us, err) : code;
}

enum daybook_code daybook_journal_release(struct daybook_journal *journal, const char *consumer,
                                          struct daybook_bytes request_id,
                                          const struct daybook_operator *by, int64_t now_us,
                                          int64_t deadline_us, struct daybook_error *err)
{
    struct daybook_operator checked = {{NULL, 0}, {NULL, 0}};
    enum daybook_code code =
        check_act_on_event(journal, consumer, request_id, by, now_us, deadline_us, &checked, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->release == NULL
               ? cannot(journal, err)
               : journal->ops->release(journal, consumer, request_id, &checked, now_us, deadline_us,
                                       err);
}

enum daybook_code daybook_journal_discard(struct daybook_journal *journal, const char *consumer,
                                          struct daybook_bytes request_id,
                                          const struct daybook_operator *by, int64_t now_us,
                                          int64_t deadline_us, struct daybook_error *err)
{
    struct daybook_operator checked = {{NULL, 0}, {NULL, 0}};
    enum daybook_code code =
        check_act_on_event(journal, consumer, request_id, by, now_us, deadline_us, &checked, err);

    if (code == DAYBOOK_OK && checked.why.len == 0) {
        code = dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a discard needs to say why");
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->discard == NULL
               ? cannot(journal, err)
               : journal->ops->discard(journal, consumer, request_id, &checked, now_us, deadline_us,
                                       err);
}

/* What retire, rewind, start and a lift have in common. */
static enum daybook_code check_act_on_consumer(struct daybook_journal *journal,
                                               const char *consumer,
                                               const struct daybook_operator *by, int64_t now_us,
                                               int64_t deadline_us, struct daybook_operator *ret,
                                               struct daybook_error *err)
{
    enum daybook_code code = check_call(journal, consumer, now_us, err);

    if (code == DAYBOOK_OK) {
        code = check_operator(by, ret, err);
    }
    return code == DAYBOOK_OK ? check_deadline(journal, deadline_us, err) : code;
}

enum daybook_code daybook_journal_retire(struct daybook_journal *journal, const char *consumer,
                                         enum daybook_force force,
                                         const struct daybook_operator *by, int64_t now_us,
                                         int64_t deadline_us, struct daybook_error *err)
{
    struct daybook_operator checked = {{NULL, 0}, {NULL, 0}};
    enum daybook_code code =
        check_act_on_consumer(journal, consumer, by, now_us, deadline_us, &checked, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->retire == NULL
               ? cannot(journal, err)
               : journal->ops->retire(journal, consumer, force, &checked, now_us, deadline_us, err);
}

/* The acts on a consumer that need no more than who and why. */
enum act { ACT_REWIND, ACT_NOTE_LIFT };

static enum daybook_code act_on_consumer(struct daybook_journal *journal, enum act act,
                                         const char *consumer, const struct daybook_operator *by,
                                         int64_t now_us, int64_t deadline_us,
                                         struct daybook_error *err)
{
    struct daybook_operator checked = {{NULL, 0}, {NULL, 0}};
    enum daybook_code code =
        check_act_on_consumer(journal, consumer, by, now_us, deadline_us, &checked, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    enum daybook_code (*op)(struct daybook_journal *, const char *, const struct daybook_operator *,
                            int64_t, int64_t, struct daybook_error *) =
        act == ACT_REWIND ? journal->ops->rewind : journal->ops->note_lift;
    return op == NULL ? cannot(journal, err)
                      : op(journal, consumer, &checked, now_us, deadline_us, err);
}

enum daybook_code daybook_journal_rewind(struct daybook_journal *journal, const char *consumer,
                                         const struct daybook_operator *by, int64_t now_us,
                                         int64_t deadline_us, struct daybook_error *err)
{
    return act_on_consumer(journal, ACT_REWIND, consumer, by, now_us, deadline_us, err);
}

enum daybook_code daybook_journal_note_lift(struct daybook_journal *journal, const char *consumer,
                                            const struct daybook_operator *by, int64_t now_us,
                                            int64_t deadline_us, struct daybook_error *err)
{
    return act_on_consumer(journal, ACT_NOTE_LIFT, consumer, by, now_us, deadline_us, err);
}

enum daybook_code daybook_journal_start(struct daybook_journal *journal, const char *consumer,
                                        struct daybook_start start,
                                        const struct daybook_operator *by, int64_t now_us,
                                        int64_t deadline_us, struct daybook_error *err)
{
    struct daybook_operator checked = {{NULL, 0}, {NULL, 0}};
    enum daybook_code code =
        check_act_on_consumer(journal, consumer, by, now_us, deadline_us, &checked, err);

    if (code == DAYBOOK_OK) {
        code = check_start(start, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->start == NULL
               ? cannot(journal, err)
               : journal->ops->start(journal, consumer, start, &checked, now_us, deadline_us, err);
}

enum daybook_code daybook_journal_quarantine_list(struct daybook_journal *journal,
                                                  const char *consumer, uint64_t after_position,
                                                  enum daybook_quarantine_reason reason,
                                                  struct daybook_batch *batch,
                                                  struct daybook_quarantine_entry *ret_entries,
                                                  uint64_t *ret_last, struct daybook_error *err)
{
    enum daybook_code code = check_pointer(batch, "the batch", err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    empty_batch(batch);
    code = check_call(journal, consumer, 0, err);
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_entries, "the array of entries", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_last, "where the last position goes", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if ((int)reason < 0 || (int)reason > DAYBOOK_REASON_ATTEMPTS_EXHAUSTED) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%d is no reason of a quarantine", (int)reason);
    }
    return journal->ops->quarantine_list == NULL
               ? cannot(journal, err)
               : journal->ops->quarantine_list(journal, consumer, after_position, reason, batch,
                                               ret_entries, ret_last, err);
}

enum daybook_code daybook_journal_operations(struct daybook_journal *journal, uint64_t before_no,
                                             struct daybook_operation *ret, size_t max,
                                             size_t *ret_count, struct daybook_error *err)
{
    enum daybook_code code = check_journal(journal, err);

    if (code == DAYBOOK_OK && max > 0) {
        code = check_pointer(ret, "the array of operations", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_pointer(ret_count, "where the count goes", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    return journal->ops->operations == NULL
               ? cannot(journal, err)
               : journal->ops->operations(journal, before_no, ret, max, ret_count, err);
}

uint32_t daybook_journal_changes(struct daybook_journal *journal)
{
    return journal != NULL ? journal->ops->changes(journal) : 0;
}

void daybook_journal_wait(struct daybook_journal *journal, uint32_t seen, int64_t deadline_us)
{
    if (journal != NULL) {
        journal->ops->wait(journal, seen, deadline_us);
    }
}

void daybook_journal_wake(struct daybook_journal *journal)
{
    if (journal != NULL) {
        journal->ops->wake(journal);
    }
}

void dbk_journal_hurry(struct daybook_journal *journal, int64_t until_us)
{
    if (journal != NULL && journal->ops->hurry != NULL) {
        journal->ops->hurry(journal, until_us);
    }
}

int64_t daybook_journal_monotonic_us(struct daybook_journal *journal)
{
    return journal != NULL ? journal->ops->monotonic_us(journal) : 0;
}

const struct daybook_capacity *daybook_journal_capacity(const struct daybook_journal *journal)
{
    return journal != NULL ? &journal->capacity : NULL;
}

enum daybook_code daybook_journal_close(struct daybook_journal *journal, struct daybook_error *err)
{
    return journal != NULL ? journal->ops->close(journal, err) : DAYBOOK_OK;
}
