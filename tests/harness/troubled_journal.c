/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A journal that can be made to fail or to hang. See troubled_journal.h.
 */
#include "harness/troubled_journal.h"

#include "base/error.h"
#include "base/thread.h"

static struct troubled_journal *of(struct daybook_journal *j)
{
    return (struct troubled_journal *)j;
}

static enum daybook_code trouble(struct troubled_journal *t, enum troubled_op op,
                                 struct daybook_error *err)
{
    atomic_fetch_add(&t->calls[op], 1);
    dbk_futex_wake_all(&t->calls[op]);
    while (atomic_load(&t->hangs[op]) == 1) {
        dbk_futex_wait(&t->hangs[op], 1, -1);
    }
    if (t->failures[op] > 0) {
        t->failures[op]--;
        return dbk_fail(err, DAYBOOK_BACKEND, "trouble, as the test asked for");
    }
    return DAYBOOK_OK;
}

static enum daybook_code append_batch(struct daybook_journal *j, const struct daybook_event *events,
                                      size_t count, int64_t now_us, int64_t deadline_us,
                                      struct daybook_append_result *ret_results,
                                      struct daybook_error *err)
{
    return of(j)->inner->ops->append_batch(of(j)->inner, events, count, now_us, deadline_us,
                                           ret_results, err);
}

static enum daybook_code claim(struct daybook_journal *j, const struct daybook_claim *wanted,
                               int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                               struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_CLAIM, err);

    return code != DAYBOOK_OK
               ? code
               : of(j)->inner->ops->claim(of(j)->inner, wanted, now_us, deadline_us, batch, err);
}

static enum daybook_code ack(struct daybook_journal *j, const char *consumer,
                             const struct daybook_hand_out *set, size_t count, int64_t now_us,
                             int64_t deadline_us, enum daybook_code *ret_codes,
                             struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_ACK, err);

    return code != DAYBOOK_OK ? code
                              : of(j)->inner->ops->ack(of(j)->inner, consumer, set, count, now_us,
                                                       deadline_us, ret_codes, err);
}

static enum daybook_code relinquish(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_RELINQUISH, err);

    return code != DAYBOOK_OK ? code
                              : of(j)->inner->ops->relinquish(of(j)->inner, consumer, set, count,
                                                              now_us, deadline_us, ret_codes, err);
}

static enum daybook_code quarantine(struct daybook_journal *j, const char *consumer,
                                    struct daybook_hand_out hand_out,
                                    enum daybook_quarantine_reason reason,
                                    struct daybook_bytes words, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_QUARANTINE, err);

    return code != DAYBOOK_OK
               ? code
               : of(j)->inner->ops->quarantine(of(j)->inner, consumer, hand_out, reason, words,
                                               now_us, deadline_us, err);
}

static enum daybook_code extend(struct daybook_journal *j, const char *consumer,
                                const struct daybook_hand_out *set, size_t count, uint32_t lease_ms,
                                int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
                                struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_EXTEND, err);

    atomic_fetch_add(&of(j)->extended, lease_ms > 0 ? count : 0);
    return code != DAYBOOK_OK
               ? code
               : of(j)->inner->ops->extend(of(j)->inner, consumer, set, count, lease_ms, now_us,
                                           deadline_us, ret_codes, err);
}

static enum daybook_code consumer_stats(struct daybook_journal *j, const char *consumer,
                                        int64_t now_us, struct daybook_consumer_stats *ret,
                                        struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_CONSUMER_STATS, err);

    return code != DAYBOOK_OK
               ? code
               : of(j)->inner->ops->consumer_stats(of(j)->inner, consumer, now_us, ret, err);
}

static enum daybook_code consumers(struct daybook_journal *j,
                                   char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                   size_t *ret_count, struct daybook_error *err)
{
    return of(j)->inner->ops->consumers(of(j)->inner, names, max, ret_count, err);
}

static enum daybook_code maintain(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                  uint64_t *ret_pruned, struct daybook_error *err)
{
    enum daybook_code code = trouble(of(j), TROUBLED_MAINTAIN, err);

    return code != DAYBOOK_OK
               ? code
               : of(j)->inner->ops->maintain(of(j)->inner, now_us, deadline_us, ret_pruned, err);
}

static enum daybook_code newest_acknowledged(struct daybook_journal *j, const char *consumer,
                                             int64_t now_us, struct daybook_batch *batch,
                                             struct daybook_error *err)
{
    return of(j)->inner->ops->newest_acknowledged(of(j)->inner, consumer, now_us, batch, err);
}

static uint32_t changes(struct daybook_journal *j)
{
    return of(j)->inner->ops->changes(of(j)->inner);
}

static void wait_for_changes(struct daybook_journal *j, uint32_t seen, int64_t deadline_us)
{
    of(j)->inner->ops->wait(of(j)->inner, seen, deadline_us);
}

static void wake(struct daybook_journal *j)
{
    of(j)->inner->ops->wake(of(j)->inner);
}

static int64_t monotonic_us(struct daybook_journal *j)
{
    return of(j)->inner->ops->monotonic_us(of(j)->inner);
}

/* What is left out is what a worker never calls. */
static const struct dbk_engine_ops ops = {
    .backend = "troubled",
    .append_batch = append_batch,
    .claim = claim,
    .ack = ack,
    .relinquish = relinquish,
    .extend = extend,
    .consumer_stats = consumer_stats,
    .consumers = consumers,
    .maintain = maintain,
    .quarantine = quarantine,
    .newest_acknowledged = newest_acknowledged,
    .changes = changes,
    .wait = wait_for_changes,
    .wake = wake,
    .monotonic_us = monotonic_us,
};

void troubled_init(struct troubled_journal *journal, struct daybook_journal *inner)
{
    *journal = (struct troubled_journal){.inner = inner};
    journal->head.ops = &ops;
    journal->head.capacity = inner->capacity;
}

void troubled_let_go(struct troubled_journal *journal, enum troubled_op op)
{
    atomic_store(&journal->hangs[op], 0);
    dbk_futex_wake_all(&journal->hangs[op]);
}

void troubled_wait_calls(struct troubled_journal *journal, enum troubled_op op, uint32_t count)
{
    while (true) {
        uint32_t seen = atomic_load(&journal->calls[op]);
        if (seen >= count) {
            return;
        }
        dbk_futex_wait(&journal->calls[op], seen, -1);
    }
}
