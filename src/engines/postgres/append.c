/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The appending threads: each has a connection and a line of tickets, takes what stands there into one statement,
 * and answers each ticket by itself. So what arrives together commits together. An event goes to the thread of its
 * key, so that two threads seldom wait for one key's lock; a batch goes to one thread whole, in order (A6).
 *
 * When a group has committed its callers are woken one by one, and most come again at once: the thread gives them a
 * moment, so that they share the next commit too, rather than start a group of the first few.
 *
 * The gate: near the limit a statement has to know what others of this process are about to add; it then runs alone.
 *
 * Threads: callers any; each appender one.
 */
#include "engines/postgres/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/event_fd.h"

#define GATHER_US_MAX 500 /* how long a thread waits for callers that were just answered */
#define GATHER_PART 4     /* and the part of the last commit that it may take at most */

/* An append that waits: on its caller's stack, or allocated for a submission. */
struct ticket {
    const struct daybook_event *events;
    struct daybook_append_result *results;
    size_t count;
    size_t
        next; /* the first event that is in no batch yet; under the appender's mutex, as all that follows */
    size_t open; /* events without an answer */
    int64_t now_us;
    bool skips_refused; /* events whose result is not OK already are not appended */
    struct ticket *later;
    struct daybook_error *err;
    enum daybook_code failure; /* of those that were left unknown */
    struct pg_queue *queue;    /* of a submission; NULL: the caller waits on `done` */
    struct daybook_submission *submission;
    bool finished; /* answered: `done` follows, and is waited for */
    _Atomic uint32_t done;
};

struct pg_queue {
    struct daybook_append_queue head;
    struct dbk_mutex mutex;
    int fd;
    struct daybook_submission *first; /* under mutex: finished, oldest first */
    struct daybook_submission *last;
};

struct appender {
    struct pg_journal *journal;
    unsigned no;
    struct dbk_thread thread;
    struct pg_conn conn;
    struct dbk_mutex mutex;
    struct ticket *first; /* under mutex */
    struct ticket *last;
    size_t lined;  /* under mutex: tickets in line */
    size_t enough; /* under mutex: the thread is not woken for fewer */
    bool stopped;
    _Atomic uint32_t word; /* bumped when a ticket comes, or the end */
    size_t taken;          /* the thread's: tickets that went whole into the last batch */
    int64_t took_us;       /* the thread's: what the last batch took */
    _Atomic uint32_t *woken[PG_BATCH_EVENTS]; /* the thread's: of callers that were answered */
    size_t woken_count;
    struct pg_batch batch; /* entries' tickets under mutex, all else is the thread's */
    _Atomic uint64_t in_flight;
};

struct pg_appenders {
    unsigned count;
    unsigned started; /* the owner's: threads that run */
    struct dbk_mutex gate;
    _Atomic uint32_t gate_word;
    unsigned inside;  /* under gate: threads that are appending */
    bool alone;       /* under gate: one of them is alone */
    unsigned wanting; /* under gate: how many want to be */
    struct appender each[DAYBOOK_POSTGRES_CONNECTIONS_MAX];
};

/* ---- queues -------------------------------------------------------------------------------------- */

static struct pg_queue *queue_of(struct daybook_append_queue *q)
{
    return (struct pg_queue *)q;
}

static int queue_fd(const struct daybook_append_queue *q)
{
    return ((const struct pg_queue *)q)->fd;
}

static void hand_back(struct pg_queue *q, struct daybook_submission *submission)
{
    dbk_mutex_lock(&q->mutex);
    submission->next_ = NULL;
    if (q->first == NULL) {
        q->first = submission;
    } else {
        q->last->next_ = submission;
    }
    q->last = submission;
    dbk_event_fd_set(q->fd);
    dbk_mutex_unlock(&q->mutex);
}

static size_t queue_drain(struct daybook_append_queue *queue, int64_t now_us,
                          struct daybook_submission **ret_done, size_t max)
{
    struct pg_queue *q = queue_of(queue);
    size_t count = 0;

    (void)now_us;
    dbk_event_fd_clear(q->fd);
    dbk_mutex_lock(&q->mutex);
    while (count < max && q->first != NULL) {
        ret_done[count] = q->first;
        q->first = q->first->next_;
        ret_done[count++]->next_ = NULL;
    }
    if (q->first != NULL) {
        dbk_event_fd_set(q->fd);
    }
    dbk_mutex_unlock(&q->mutex);
    return count;
}

static void queue_free(struct daybook_append_queue *queue)
{
    struct pg_queue *q = queue_of(queue);

    dbk_mutex_lock(&q->mutex); /* whoever handed the last one back has let go */
    dbk_assert(q->first == NULL);
    dbk_mutex_unlock(&q->mutex);
    dbk_event_fd_close(q->fd);
    dbk_mutex_release(&q->mutex);
    free(q);
}

static const struct dbk_append_queue_ops queue_ops = {
    .fd = queue_fd, .drain = queue_drain, .free = queue_free};

enum daybook_code dbk_pg_queue_new(struct daybook_journal *j, struct daybook_append_queue **ret,
                                   struct daybook_error *err)
{
    struct pg_queue *q = calloc(1, sizeof *q);

    (void)j;
    if (q == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for an append queue");
    }
    q->fd = dbk_event_fd_new();
    if (q->fd < 0) {
        enum daybook_code code =
            dbk_fail_os(err, DAYBOOK_BUSY, -q->fd, "an append queue needs a file descriptor");

        free(q);
        return code;
    }
    q->head.ops = &queue_ops;
    dbk_mutex_init(&q->mutex, DBK_RANK_QUEUE);
    *ret = &q->head;
    return DAYBOOK_OK;
}

/* ---- tickets --------------------------------------------------------------------------------------- */

static struct appender *appender_for(struct pg_journal *p, const struct daybook_event *event)
{
    uint64_t hash =
        XXH3_64bits_withSeed(event->subject.data, event->subject.len,
                             XXH3_64bits(event->name_space.data, event->name_space.len));

    return &p->appenders->each[hash % p->appenders->count];
}

/* Under the mutex. */
static void line_up(struct appender *a, struct ticket *t)
{
    if (a->first == NULL) {
        a->first = t;
    } else {
        a->last->later = t;
    }
    a->last = t;
    a->lined++;
}

static void unlink_ticket(struct appender *a, struct ticket *t)
{
    struct ticket *before = NULL;

    for (struct ticket *at = a->first; at != NULL; before = at, at = at->later) {
        if (at != t) {
            continue;
        }
        if (before == NULL) {
            a->first = t->later;
        } else {
            before->later = t->later;
        }
        if (a->last == t) {
            a->last = before;
        }
        a->lined--;
        return;
    }
}

static void count_open(struct ticket *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!t->skips_refused || t->results[i].code == DAYBOOK_OK) {
            t->open++;
        }
    }
}

static void put_in_line(struct appender *a, struct ticket *t)
{
    bool enough;

    dbk_mutex_lock(&a->mutex);
    line_up(a, t);
    enough = a->lined >= a->enough;
    dbk_mutex_unlock(&a->mutex);
    atomic_fetch_add(&a->word, 1);
    if (enough) {
        dbk_futex_wake_one(&a->word);
    }
}

/* The last that the thread does to a ticket is to say that it is done. */
static void wait_until_done(struct ticket *t)
{
    while (atomic_load(&t->done) == 0) {
        dbk_futex_wait(&t->done, 0, -1);
    }
}

/* A caller whose deadline has come leaves; what of its events is under way is answered to nobody. */
static enum daybook_code leave(struct appender *a, struct ticket *t, struct daybook_error *err)
{
    dbk_mutex_lock(&a->mutex);
    if (t->finished) {
        dbk_mutex_unlock(&a->mutex);
        wait_until_done(t);
        return t->failure;
    }
    unlink_ticket(a, t);
    for (size_t i = 0; i < a->batch.count; i++) {
        if (a->batch.entries[i].ticket == t) {
            a->batch.entries[i].ticket = NULL;
        }
    }
    dbk_mutex_unlock(&a->mutex);
    return dbk_fail(err, DAYBOOK_TIMED_OUT, "the append was not committed before the deadline");
}

enum daybook_code dbk_pg_append_batch(struct daybook_journal *j, const struct daybook_event *events,
                                      size_t count, int64_t now_us, int64_t deadline_us,
                                      struct daybook_append_result *ret_results,
                                      struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    struct ticket t = {
        .events = events, .results = ret_results, .count = count, .now_us = now_us, .err = err};
    struct appender *a;

    if (count == 0) {
        return DAYBOOK_OK;
    }
    a = appender_for(p, &events[0]);
    for (size_t i = 0; i < count; i++) {
        ret_results[i] = (struct daybook_append_result){.code = DAYBOOK_TIMED_OUT};
    }
    count_open(&t);
    put_in_line(a, &t);
    while (atomic_load(&t.done) == 0) {
        int64_t left_us = deadline_us == DAYBOOK_NO_DEADLINE ? -1 : deadline_us - pg_mono_us(p);

        if (deadline_us != DAYBOOK_NO_DEADLINE && left_us <= 0) {
            return leave(a, &t, err);
        }
        dbk_futex_wait(&t.done, 0, left_us);
    }
    return t.failure;
}

void dbk_pg_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                   struct daybook_submission *submission, int64_t now_us)
{
    struct pg_journal *p = pg_of(j);
    struct ticket *t = calloc(1, sizeof *t);
    struct appender *a;

    if (t != NULL) {
        *t = (struct ticket){.events = submission->events,
                             .results = submission->results,
                             .count = submission->count,
                             .now_us = now_us,
                             .skips_refused = submission->events_state == DAYBOOK_EVENTS_UNCHECKED,
                             .queue = queue_of(queue),
                             .submission = submission};
        count_open(t);
    }
    if (t == NULL || t->open == 0) {
        for (size_t i = 0; t == NULL && i < submission->count; i++) {
            if (submission->events_state == DAYBOOK_EVENTS_CHECKED ||
                submission->results[i].code == DAYBOOK_OK) {
                submission->results[i] = (struct daybook_append_result){.code = DAYBOOK_BACKEND};
            }
        }
        free(t);
        hand_back(queue_of(queue), submission);
        return;
    }
    a = appender_for(p, &submission->events[0]);
    put_in_line(a, t);
}

/* ---- an appender ------------------------------------------------------------------------------------- */

/* Takes what stands in line into the batch, from the front, as far as it goes. Under the mutex. Returns false when
 * an event could not even be copied alone. */
static bool take_tickets(struct appender *a)
{
    dbk_pg_batch_clear(&a->batch);
    while (a->first != NULL) {
        struct ticket *t = a->first;

        a->batch.now_us = a->batch.count == 0 ? t->now_us : a->batch.now_us;
        if (t->now_us != a->batch.now_us && a->journal->clock == DAYBOOK_POSTGRES_CLOCK_CALLER) {
            return true; /* one statement has one now */
        }
        for (; t->next < t->count; t->next++) {
            if (t->skips_refused && t->results[t->next].code != DAYBOOK_OK) {
                continue;
            }
            if (!dbk_pg_batch_add(&a->batch, &t->events[t->next], t, t->next)) {
                return a->batch.count > 0;
            }
        }
        a->first = t->later;
        if (a->first == NULL) {
            a->last = NULL;
        }
        t->later = NULL;
        a->lined--;
    }
    return true;
}

/* Gives a finished ticket back, or leaves it to wake_callers. Under the mutex. */
static void finish(struct appender *a, struct ticket *t)
{
    struct pg_queue *queue = t->queue;
    struct daybook_submission *submission = t->submission;

    if (queue != NULL) {
        free(t);
        hand_back(queue, submission);
        return;
    }
    t->finished = true;
    a->woken[a->woken_count++] = &t->done;
}

/* Callers come again at once, so not under the mutex. A word may be gone as soon as it says so: what is woken then is
 * nobody, or somebody who looks again. */
static void wake_callers(struct appender *a)
{
    for (size_t i = 0; i < a->woken_count; i++) {
        atomic_store(a->woken[i], 1);
        dbk_futex_wake_all(a->woken[i]);
    }
    a->woken_count = 0;
}

static void give_answers(struct appender *a, enum daybook_code otherwise,
                         const struct daybook_error *err)
{
    dbk_mutex_lock(&a->mutex);
    for (size_t i = 0; i < a->batch.count; i++) {
        struct pg_entry *entry = &a->batch.entries[i];
        struct ticket *t = entry->ticket;

        if (t == NULL) {
            continue;
        }
        if (!entry->answered) {
            entry->result = (struct daybook_append_result){.code = otherwise};
            t->failure = otherwise;
            if (t->err != NULL) {
                *t->err = *err;
            }
        }
        t->results[entry->index] = entry->result;
        if (--t->open == 0) {
            finish(a, t);
        }
    }
    dbk_pg_batch_clear(&a->batch);
    a->enough = a->taken > 1 ? a->lined + a->taken : 0; /* whoever is alone waits for nobody */
    dbk_mutex_unlock(&a->mutex);
    wake_callers(a);
}

/* ---- the gate ---------------------------------------------------------------------------------------- */

static void enter(struct pg_appenders *all, bool alone)
{
    dbk_mutex_lock(&all->gate);
    all->wanting += alone ? 1 : 0;
    while (all->alone || (alone ? all->inside > 0 : all->wanting > 0)) {
        uint32_t seen = atomic_load(&all->gate_word);

        dbk_mutex_unlock(&all->gate);
        dbk_futex_wait(&all->gate_word, seen, -1);
        dbk_mutex_lock(&all->gate);
    }
    all->wanting -= alone ? 1 : 0;
    all->alone = alone;
    all->inside++;
    dbk_mutex_unlock(&all->gate);
}

static void leave_gate(struct pg_appenders *all)
{
    dbk_mutex_lock(&all->gate);
    all->alone = false;
    all->inside--;
    atomic_fetch_add(&all->gate_word, 1);
    dbk_mutex_unlock(&all->gate);
    dbk_futex_wake_all(&all->gate_word);
}

/* What other threads of this process may add while this statement looks. */
static uint64_t others(const struct appender *a)
{
    const struct pg_appenders *all = a->journal->appenders;
    uint64_t sum = 0;

    for (unsigned i = 0; i < all->count; i++) {
        sum += i != a->no ? atomic_load(&all->each[i].in_flight) : 0;
    }
    return sum;
}

static size_t unanswered(const struct pg_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++) {
        count += batch->entries[i].answered ? 0 : 1;
    }
    return count;
}

/* Real time, even where a test moves the journal's: threads are waited for. */
static int64_t real_us(void)
{
    const struct dbk_os *os = dbk_os_posix();

    return os->monotonic_us(os);
}

/* Says the batch again until each event has its answer. Returns the code of those that have none. */
static enum daybook_code append_all(struct appender *a, struct daybook_error *err)
{
    struct pg_journal *p = a->journal;
    bool alone = false;
    unsigned tries = 0;

    while (unanswered(&a->batch) > 0) {
        size_t before = unanswered(&a->batch);
        bool want_alone = false;
        PGresult *r = NULL;
        int64_t began_us;
        enum daybook_code code = dbk_pg_connect(p, &a->conn, DAYBOOK_NO_DEADLINE, err);

        if (code != DAYBOOK_OK) {
            return code;
        }
        enter(p->appenders, alone);
        atomic_store(&a->in_flight, before);
        began_us = real_us();
        code = dbk_pg_batch_send(p, &a->conn, &a->batch, others(a), PG_COMMIT, &r, err);
        if (r != NULL) {
            dbk_pg_batch_answer(p, &a->batch, r, real_us() - began_us, &want_alone);
            PQclear(r);
        }
        atomic_store(&a->in_flight, 0);
        leave_gate(p->appenders);
        alone = alone || want_alone;
        if (code != DAYBOOK_OK && code != PG_AGAIN) {
            return code;
        }
        tries = code == PG_AGAIN ? tries + 1 : tries;
        if (tries == PG_TRIES_MAX) {
            return dbk_fail(err, DAYBOOK_BACKEND,
                            "PostgreSQL ended the transaction again and again: too much at once");
        }
    }
    return DAYBOOK_OK;
}

/* Gives the callers that were just answered a moment to come again. */
static void gather(struct appender *a)
{
    int64_t most_us = a->took_us / GATHER_PART;
    int64_t until_us = real_us() + (most_us < GATHER_US_MAX ? most_us : (int64_t)GATHER_US_MAX);
    bool more = a->taken > 1;

    while (more) {
        uint32_t seen = atomic_load(&a->word);
        int64_t left_us;

        dbk_mutex_lock(&a->mutex);
        left_us = until_us - real_us();
        more = left_us > 0 && a->lined < a->enough && !a->stopped;
        a->enough = more ? a->enough : 0;
        dbk_mutex_unlock(&a->mutex);
        if (more) {
            dbk_futex_wait(&a->word, seen, left_us);
        }
    }
}

/* Waits for a ticket. False: the end has come and none is left. */
static bool next_batch(struct appender *a)
{
    for (;;) {
        uint32_t seen = atomic_load(&a->word);
        size_t before;
        bool more;
        bool copied;

        dbk_mutex_lock(&a->mutex);
        before = a->lined;
        copied = take_tickets(a);
        a->taken = a->first == NULL ? before - a->lined : 0; /* what is left fills the next */
        more = a->batch.count > 0 || !a->stopped;
        if (!copied) {
            /* No memory for the first event: its ticket is answered so, and leaves the line. */
            struct ticket *t = a->first;

            dbk_assert(t != NULL);
            t->results[t->next] = (struct daybook_append_result){.code = DAYBOOK_BACKEND};
            t->failure = DAYBOOK_BACKEND;
            t->next++;
            if (--t->open == 0) {
                unlink_ticket(a, t);
                finish(a, t);
            }
        }
        dbk_mutex_unlock(&a->mutex);
        wake_callers(a);
        if (!more || a->batch.count > 0) {
            return more;
        }
        if (copied) {
            dbk_futex_wait(&a->word, seen, -1);
        }
    }
}

static void *run_appender(void *arg)
{
    struct appender *a = arg;

    while (next_batch(a)) {
        struct daybook_error err = {.code = DAYBOOK_OK};
        int64_t began_us = real_us();
        enum daybook_code code = append_all(a, &err);

        a->took_us = real_us() - began_us;
        give_answers(a, code, &err);
        dbk_pg_changed(a->journal);
        gather(a);
    }
    return NULL;
}

/* ---- start and end ------------------------------------------------------------------------------------ */

enum daybook_code dbk_pg_appenders_new(struct pg_journal *p, unsigned count, unsigned first_slot,
                                       struct daybook_error *err)
{
    struct pg_appenders *all = calloc(1, sizeof *all);

    if (all == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the appending threads");
    }
    p->appenders = all;
    dbk_mutex_init(&all->gate, DBK_RANK_STAGE);
    for (unsigned i = 0; i < count; i++) {
        struct appender *a = &all->each[i];

        a->journal = p;
        a->no = i;
        a->conn.slot = (first_slot + i) % PG_SLOTS;
        dbk_mutex_init(&a->mutex, DBK_RANK_STAGE);
    }
    all->count = count;
    for (unsigned i = 0; i < count; i++) {
        int failed =
            dbk_thread_start(&all->each[i].thread, "dbk-append", run_appender, &all->each[i]);

        if (failed != 0) {
            return dbk_fail_os(err, DAYBOOK_BUSY, failed, "an appending thread does not start");
        }
        all->started++;
    }
    return DAYBOOK_OK;
}

void dbk_pg_appenders_free(struct pg_journal *p)
{
    struct pg_appenders *all = p->appenders;

    if (all == NULL) {
        return;
    }
    for (unsigned i = 0; i < all->count; i++) {
        struct appender *a = &all->each[i];

        dbk_mutex_lock(&a->mutex);
        a->stopped = true;
        dbk_mutex_unlock(&a->mutex);
        atomic_fetch_add(&a->word, 1);
        dbk_futex_wake_all(&a->word);
    }
    for (unsigned i = 0; i < all->count; i++) {
        struct appender *a = &all->each[i];

        if (i < all->started) {
            dbk_thread_join(&a->thread);
        }
        dbk_pg_disconnect(&a->conn);
        dbk_pg_batch_release(&a->batch);
        dbk_mutex_release(&a->mutex);
    }
    dbk_mutex_release(&all->gate);
    free(all);
    p->appenders = NULL;
}
