/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory engine's handle: one mutex around the model (model.h), the append queue, and the word that
 * waiting consumers sleep on. Every operation is one hold of the mutex, so none
 * can miss a deadline that had not passed when it began. Threads: any.
 */
#include "engines/memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "engines/memory/model.h"
#include "journal/engine.h"

struct memory_journal {
    struct daybook_journal head;
    const struct dbk_os *os;
    struct dbk_mutex mutex;
    struct dbk_model *model;  /* under mutex */
    _Atomic uint32_t changes; /* bumped when something may have become claimable */
};

struct memory_queue {
    struct daybook_append_queue head;
    struct dbk_mutex mutex;
    int fd;
    struct daybook_submission *first; /* under mutex: finished, oldest first */
    struct daybook_submission *last;  /* under mutex */
};

static struct memory_journal *memory_of(struct daybook_journal *j)
{
    return (struct memory_journal *)j;
}

static int64_t mono_us(const struct memory_journal *m)
{
    return m->os->monotonic_us(m->os);
}

static void changed(struct memory_journal *m)
{
    atomic_fetch_add(&m->changes, 1);
    dbk_futex_wake_all(&m->changes);
}

/* ---- append ---------------------------------------------------------------------------------- */

static enum daybook_code memory_append_batch(struct daybook_journal *j,
                                             const struct daybook_event *events, size_t count,
                                             int64_t now_us, int64_t deadline_us,
                                             struct daybook_append_result *ret_results,
                                             struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)deadline_us;
    (void)err;
    dbk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++) {
        dbk_model_append(m->model, &events[i], now_us, mono_us(m), &ret_results[i]);
    }
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return DAYBOOK_OK;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static struct memory_queue *queue_of(struct daybook_append_queue *q)
{
    return (struct memory_queue *)q;
}

static int memory_queue_fd(const struct daybook_append_queue *q)
{
    return ((const struct memory_queue *)q)->fd;
}

/* The eventfd counts; a reader only learns that there is something. */
static void signal_queue(const struct memory_queue *q)
{
    const uint64_t one = 1;
    ssize_t written;

    do {
        written = write(q->fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

static size_t memory_queue_drain(struct daybook_append_queue *queue, int64_t now_us,
                                 struct daybook_submission **ret_done, size_t max)
{
    struct memory_queue *q = queue_of(queue);
    uint64_t signals;
    size_t count = 0;
    ssize_t got;

    (void)now_us;
    got = read(q->fd, &signals, sizeof signals);
    (void)got; /* nothing signalled is fine: what is in the list decides */
    dbk_mutex_lock(&q->mutex);
    while (count < max && q->first != NULL) {
        ret_done[count] = q->first;
        q->first = q->first->next_;
        ret_done[count++]->next_ = NULL;
    }
    if (q->first != NULL) {
        signal_queue(q);
    }
    dbk_mutex_unlock(&q->mutex);
    return count;
}

static void memory_queue_free(struct daybook_append_queue *queue)
{
    struct memory_queue *q = queue_of(queue);

    dbk_assert(q->first == NULL);
    (void)close(q->fd);
    dbk_mutex_release(&q->mutex);
    free(q);
}

static const struct dbk_append_queue_ops queue_ops = {
    .fd = memory_queue_fd, .drain = memory_queue_drain, .free = memory_queue_free};

static enum daybook_code memory_queue_new(struct daybook_journal *j,
                                          struct daybook_append_queue **ret,
                                          struct daybook_error *err)
{
    struct memory_queue *q = calloc(1, sizeof *q);

    (void)j;
    if (q == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for an append queue");
    }
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (q->fd < 0) {
        enum daybook_code code =
            dbk_fail_os(err, DAYBOOK_BUSY, errno, "an append queue needs a file descriptor");

        free(q);
        return code;
    }
    q->head.ops = &queue_ops;
    dbk_mutex_init(&q->mutex, DBK_RANK_QUEUE);
    *ret = &q->head;
    return DAYBOOK_OK;
}

static void memory_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                          struct daybook_submission *submission, int64_t now_us)
{
    struct memory_journal *m = memory_of(j);
    struct memory_queue *q = queue_of(queue);

    dbk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < submission->count; i++) {
        if (submission->events_state == DAYBOOK_EVENTS_CHECKED ||
            submission->results[i].code == DAYBOOK_OK) {
            dbk_model_append(m->model, &submission->events[i], now_us, mono_us(m),
                             &submission->results[i]);
        }
    }
    dbk_mutex_unlock(&m->mutex);
    dbk_mutex_lock(&q->mutex);
    submission->next_ = NULL;
    if (q->first == NULL) {
        q->first = submission;
    } else {
        q->last->next_ = submission;
    }
    q->last = submission;
    signal_queue(q);
    dbk_mutex_unlock(&q->mutex);
    changed(m);
}

/* ---- claim and verdicts ------------------------------------------------------------------------ */

static enum daybook_code memory_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                                      int64_t now_us, int64_t deadline_us,
                                      struct daybook_batch *batch, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_claim(m->model, claim, now_us, batch, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_ack(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)now_us;
    (void)deadline_us;
    (void)err;
    dbk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++) {
        ret_codes[i] = dbk_model_ack(m->model, consumer, set[i]);
    }
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return DAYBOOK_OK;
}

static enum daybook_code memory_relinquish(struct daybook_journal *j, const char *consumer,
                                           const struct daybook_hand_out *set, size_t count,
                                           int64_t now_us, int64_t deadline_us,
                                           enum daybook_code *ret_codes, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)now_us;
    (void)deadline_us;
    (void)err;
    dbk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++) {
        ret_codes[i] = dbk_model_relinquish(m->model, consumer, set[i]);
    }
    dbk_mutex_unlock(&m->mutex);
    changed(m); /* the lease of a dropped event may have ended */
    return DAYBOOK_OK;
}

static enum daybook_code memory_extend(struct daybook_journal *j, const char *consumer,
                                       const struct daybook_hand_out *set, size_t count,
                                       uint32_t lease_ms, int64_t now_us, int64_t deadline_us,
                                       enum daybook_code *ret_codes, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)deadline_us;
    (void)err;
    dbk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++) {
        ret_codes[i] = dbk_model_extend(m->model, consumer, set[i], lease_ms, now_us);
    }
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return DAYBOOK_OK;
}

static enum daybook_code memory_quarantine(struct daybook_journal *j, const char *consumer,
                                           struct daybook_hand_out hand_out,
                                           enum daybook_quarantine_reason reason,
                                           struct daybook_bytes words, int64_t now_us,
                                           int64_t deadline_us, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_quarantine(m->model, consumer, hand_out, reason, words, now_us);
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    if (code != DAYBOOK_OK) {
        (void)dbk_fail(err, code, "position %llu cannot be quarantined for %s: %s",
                       (unsigned long long)hand_out.position, consumer, daybook_code_name(code));
    }
    return code;
}

/* ---- look and keep ------------------------------------------------------------------------------ */

static enum daybook_code memory_stats(struct daybook_journal *j, int64_t now_us,
                                      struct daybook_journal_stats *ret, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_mutex_lock(&m->mutex);
    dbk_model_stats(m->model, now_us, ret);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

static enum daybook_code memory_consumer_stats(struct daybook_journal *j, const char *consumer,
                                               int64_t now_us, struct daybook_consumer_stats *ret,
                                               struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_mutex_lock(&m->mutex);
    dbk_model_consumer_stats(m->model, consumer, now_us, ret);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

static enum daybook_code memory_consumers(struct daybook_journal *j,
                                          char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                          size_t *ret_count, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_mutex_lock(&m->mutex);
    *ret_count = dbk_model_consumers(m->model, names, max);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

static enum daybook_code memory_maintain(struct daybook_journal *j, int64_t now_us,
                                         int64_t deadline_us, uint64_t *ret_pruned,
                                         struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)deadline_us;
    (void)err;
    dbk_mutex_lock(&m->mutex);
    *ret_pruned = dbk_model_prune(m->model, now_us, mono_us(m), UINT64_MAX);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

static enum daybook_code memory_read(struct daybook_journal *j, uint64_t after_position,
                                     enum daybook_where where, struct daybook_batch *batch,
                                     uint64_t *ret_last, uint64_t *ret_damaged,
                                     struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_mutex_lock(&m->mutex);
    dbk_model_read(m->model, after_position, where, batch, ret_last, ret_damaged);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

static enum daybook_code memory_newest_acknowledged(struct daybook_journal *j, const char *consumer,
                                                    int64_t now_us, struct daybook_batch *batch,
                                                    struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    dbk_mutex_lock(&m->mutex);
    bool fits = dbk_model_newest_acknowledged(m->model, consumer, now_us, batch);
    dbk_mutex_unlock(&m->mutex);
    return fits ? DAYBOOK_OK
                : dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                           "the event does not fit the batch: make it for max_event_bytes");
}

/* ---- operators ---------------------------------------------------------------------------------- */

static enum daybook_code memory_release(struct daybook_journal *j, const char *consumer,
                                        struct daybook_bytes request_id,
                                        const struct daybook_operator *by, int64_t now_us,
                                        int64_t deadline_us, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_release(m->model, consumer, request_id, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return code;
}

static enum daybook_code memory_discard(struct daybook_journal *j, const char *consumer,
                                        struct daybook_bytes request_id,
                                        const struct daybook_operator *by, int64_t now_us,
                                        int64_t deadline_us, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_discard(m->model, consumer, request_id, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return code;
}

static enum daybook_code memory_retire(struct daybook_journal *j, const char *consumer,
                                       enum daybook_force force, const struct daybook_operator *by,
                                       int64_t now_us, int64_t deadline_us,
                                       struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_retire(m->model, consumer, force, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_rewind(struct daybook_journal *j, const char *consumer,
                                       const struct daybook_operator *by, int64_t now_us,
                                       int64_t deadline_us, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_rewind(m->model, consumer, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    changed(m);
    return code;
}

static enum daybook_code memory_start(struct daybook_journal *j, const char *consumer,
                                      struct daybook_start start, const struct daybook_operator *by,
                                      int64_t now_us, int64_t deadline_us,
                                      struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_start(m->model, consumer, start, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_note_lift(struct daybook_journal *j, const char *consumer,
                                          const struct daybook_operator *by, int64_t now_us,
                                          int64_t deadline_us, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    (void)deadline_us;
    dbk_mutex_lock(&m->mutex);
    code = dbk_model_note_lift(m->model, consumer, by, now_us, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_quarantine_list(struct daybook_journal *j, const char *consumer,
                                                uint64_t after_position,
                                                enum daybook_quarantine_reason reason,
                                                struct daybook_batch *batch,
                                                struct daybook_quarantine_entry *ret_entries,
                                                uint64_t *ret_last, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    dbk_mutex_lock(&m->mutex);
    code = dbk_model_quarantine_list(m->model, consumer, after_position, reason, batch, ret_entries,
                                     ret_last, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_find(struct daybook_journal *j, struct daybook_bytes request_id,
                                     int64_t now_us, struct daybook_batch *batch,
                                     struct daybook_event_standing *ret_standings, size_t max,
                                     size_t *ret_count, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);
    enum daybook_code code;

    dbk_mutex_lock(&m->mutex);
    code = dbk_model_find(m->model, request_id, now_us, batch, ret_standings, max, ret_count, err);
    dbk_mutex_unlock(&m->mutex);
    return code;
}

static enum daybook_code memory_operations(struct daybook_journal *j, uint64_t before_no,
                                           struct daybook_operation *ret, size_t max,
                                           size_t *ret_count, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_mutex_lock(&m->mutex);
    *ret_count = dbk_model_operations(m->model, before_no, ret, max);
    dbk_mutex_unlock(&m->mutex);
    return DAYBOOK_OK;
}

/* ---- wait and close ------------------------------------------------------------------------------ */

static uint32_t memory_changes(struct daybook_journal *j)
{
    return atomic_load(&memory_of(j)->changes);
}

static void memory_wait(struct daybook_journal *j, uint32_t seen, int64_t deadline_us)
{
    struct memory_journal *m = memory_of(j);

    while (atomic_load(&m->changes) == seen) {
        int64_t left_us = deadline_us == DAYBOOK_NO_DEADLINE ? -1 : deadline_us - mono_us(m);

        if (deadline_us != DAYBOOK_NO_DEADLINE && left_us <= 0) {
            return;
        }
        dbk_futex_wait(&m->changes, seen, left_us);
    }
}

static void memory_wake(struct daybook_journal *j)
{
    changed(memory_of(j));
}

static int64_t memory_monotonic_us(struct daybook_journal *j)
{
    return mono_us(memory_of(j));
}

static enum daybook_code memory_close(struct daybook_journal *j, struct daybook_error *err)
{
    struct memory_journal *m = memory_of(j);

    (void)err;
    dbk_model_free(m->model);
    dbk_mutex_release(&m->mutex);
    free(m);
    return DAYBOOK_OK;
}

static const struct dbk_engine_ops memory_ops = {
    .backend = "memory",
    .append_batch = memory_append_batch,
    .queue_new = memory_queue_new,
    .submit = memory_submit,
    .claim = memory_claim,
    .ack = memory_ack,
    .relinquish = memory_relinquish,
    .extend = memory_extend,
    .quarantine = memory_quarantine,
    .stats = memory_stats,
    .consumer_stats = memory_consumer_stats,
    .consumers = memory_consumers,
    .maintain = memory_maintain,
    .read = memory_read,
    .newest_acknowledged = memory_newest_acknowledged,
    .release = memory_release,
    .discard = memory_discard,
    .retire = memory_retire,
    .rewind = memory_rewind,
    .start = memory_start,
    .note_lift = memory_note_lift,
    .find = memory_find,
    .quarantine_list = memory_quarantine_list,
    .operations = memory_operations,
    .changes = memory_changes,
    .wait = memory_wait,
    .wake = memory_wake,
    .monotonic_us = memory_monotonic_us,
    .close = memory_close,
};

/* `model` is taken on success; NULL: a new one. */
static enum daybook_code open_over(struct dbk_model *model, const struct daybook_capacity *capacity,
                                   const struct dbk_os *os, struct daybook_journal **ret,
                                   struct daybook_error *err)
{
    struct daybook_capacity filled;
    struct memory_journal *m;
    enum daybook_code code = dbk_capacity_fill(capacity, &filled, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    m = calloc(1, sizeof *m);
    if (m == NULL || (model == NULL && dbk_model_new(&filled, &model) != DAYBOOK_OK)) {
        free(m);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a journal");
    }
    m->head.ops = &memory_ops;
    m->head.capacity = filled;
    m->os = os;
    m->model = model;
    dbk_mutex_init(&m->mutex, DBK_RANK_STATE);
    dbk_model_restarted(model, &filled, mono_us(m));
    *ret = &m->head;
    return DAYBOOK_OK;
}

enum daybook_code dbk_memory_open(const struct daybook_capacity *capacity, const struct dbk_os *os,
                                  struct daybook_journal **ret, struct daybook_error *err)
{
    return open_over(NULL, capacity, os, ret, err);
}

enum daybook_code daybook_memory_open(const struct daybook_capacity *capacity,
                                      struct daybook_journal **ret_journal,
                                      struct daybook_error *err)
{
    if (capacity == NULL || ret_journal == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the capacity or where the journal goes is missing");
    }
    return open_over(NULL, capacity, dbk_os_posix(), ret_journal, err);
}

enum daybook_code dbk_memory_restart(struct daybook_journal **journal,
                                     const struct daybook_capacity *capacity,
                                     struct daybook_error *err)
{
    struct memory_journal *old = memory_of(*journal);
    enum daybook_code code = open_over(old->model, capacity, old->os, journal, err);

    if (code == DAYBOOK_OK) {
        old->model = NULL;
        (void)memory_close(&old->head, NULL);
    }
    return code;
}

enum daybook_code dbk_memory_copy(struct daybook_journal *journal, struct daybook_journal **ret,
                                  struct daybook_error *err)
{
    struct memory_journal *m = memory_of(journal);
    struct dbk_model *model;
    enum daybook_code code;

    dbk_assert(m->head.ops == &memory_ops);
    dbk_mutex_lock(&m->mutex);
    model = dbk_model_copy(m->model);
    dbk_mutex_unlock(&m->mutex);
    if (model == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a copy of a journal");
    }
    code = open_over(model, &m->head.capacity, m->os, ret, err);
    if (code != DAYBOOK_OK) {
        dbk_model_free(model);
    }
    return code;
}

enum daybook_code dbk_memory_roll_back(struct daybook_journal **journal,
                                       struct daybook_journal *older,
                                       const struct daybook_capacity *capacity,
                                       struct daybook_error *err)
{
    struct memory_journal *newer = memory_of(*journal);
    struct memory_journal *from = memory_of(older);
    struct daybook_journal *opened = NULL;
    enum daybook_code code = open_over(from->model, capacity, from->os, &opened, err);

    if (code == DAYBOOK_OK) {
        dbk_model_tokens_behind(from->model, newer->model);
        from->model = NULL;
        (void)memory_close(&from->head, NULL);
        (void)memory_close(&newer->head, NULL);
        *journal = opened;
    }
    return code;
}

uint64_t dbk_memory_skip_positions(struct daybook_journal *journal, uint64_t next_position)
{
    struct memory_journal *m = memory_of(journal);
    uint64_t skipped;

    dbk_assert(m->head.ops == &memory_ops);
    dbk_mutex_lock(&m->mutex);
    skipped = dbk_model_skip_positions(m->model, next_position);
    dbk_mutex_unlock(&m->mutex);
    return skipped;
}

uint64_t dbk_memory_reclaim(struct daybook_journal *journal, uint64_t count)
{
    struct memory_journal *m = memory_of(journal);
    uint64_t reclaimed;

    dbk_assert(m->head.ops == &memory_ops);
    dbk_mutex_lock(&m->mutex);
    reclaimed = dbk_model_reclaim(m->model, count);
    dbk_mutex_unlock(&m->mutex);
    return reclaimed;
}

enum daybook_code dbk_memory_set_row(struct daybook_journal *journal, uint64_t position,
                                     enum dbk_memory_row row)
{
    static const enum dbk_model_fitness fitness[] = {
        [DBK_MEMORY_ROW_SOUND] = DBK_MODEL_SOUND,
        [DBK_MEMORY_ROW_NEWER] = DBK_MODEL_NEWER,
        [DBK_MEMORY_ROW_MALFORMED] = DBK_MODEL_MALFORMED,
    };
    struct memory_journal *m = memory_of(journal);
    bool found;

    dbk_assert(m->head.ops == &memory_ops);
    dbk_mutex_lock(&m->mutex);
    found = dbk_model_set_fitness(m->model, position, fitness[row]);
    dbk_mutex_unlock(&m->mutex);
    return found ? DAYBOOK_OK : DAYBOOK_NOT_FOUND;
}
