/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues and threads of advisory.h.
 *
 * The ring of bytes is addressed by counters that only grow; the bytes of a row stand in one piece, so that a
 * piece which would reach over the end begins at the next turn. An entry is published by `tail` and given
 * back by `head` and `bytes_head`, each with release and acquire.
 */
#include "delivery/advisory.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "delivery/delivery.h"

/* ---- making and releasing ------------------------------------------------------------------------ */

enum daybook_code dbk_advisories_init(struct daybook_worker *w, struct daybook_error *err)
{
    const struct daybook_worker_options *o = &w->options;
    bool made = true;

    w->advisories = calloc(o->advisory_count + 1, sizeof *w->advisories);
    for (size_t i = 0; i < o->advisory_count && w->advisories != NULL; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        a->worker = w;
        a->entries_max = o->advisory_events;
        a->bytes_max = o->advisory_bytes;
        a->rows_max = o->claim_batch;
        a->entries = calloc((size_t)a->entries_max, sizeof *a->entries);
        a->bytes = malloc((size_t)a->bytes_max);
        a->rows = calloc((size_t)a->rows_max, sizeof *a->rows);
        made = made && a->entries != NULL && a->bytes != NULL && a->rows != NULL;
    }
    return made && w->advisories != NULL
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_NO_MEMORY,
                          "no memory for the advisory destinations of consumer %s", o->consumer);
}

void dbk_advisories_own(struct daybook_worker *w, struct daybook_sink *const *sinks)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        w->advisories[i].sink = sinks[i];
    }
}

void dbk_advisories_release(struct daybook_worker *w)
{
    for (size_t i = 0; w->advisories != NULL && i < w->options.advisory_count; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        if (a->sink != NULL) {
            a->sink->ops->close(a->sink);
        }
        free(a->entries);
        free(a->bytes);
        free(a->rows);
    }
    free(w->advisories);
}

/* ---- the worker's side --------------------------------------------------------------------------- */

static uint64_t row_bytes(const struct daybook_row *row)
{
    return (uint64_t)row->event.request_id.len + row->event.name_space.len +
           row->event.subject.len + row->event.record.len;
}

/* Where `len` bytes in one piece go; false: there is no room. */
static bool find_room(const struct dbk_advisory *a, uint64_t len, uint64_t *ret_begin)
{
    uint64_t begin = a->bytes_added;
    bool empty = a->added == atomic_load(&a->head);

    if (begin % a->bytes_max + len > a->bytes_max) {
        begin += a->bytes_max - begin % a->bytes_max;
    }
    *ret_begin = begin;
    /* In an empty queue the end that is passed over holds nothing. */
    return len <= a->bytes_max &&
           (empty || begin + len - atomic_load(&a->bytes_head) <= a->bytes_max);
}

static char *copy(char *to, struct daybook_bytes *bytes)
{
    if (bytes->len > 0) {
        memcpy(to, bytes->data, bytes->len);
    }
    bytes->data = to;
    return to + bytes->len;
}

static void offer(struct dbk_advisory *a, const struct daybook_row *row)
{
    uint64_t len = row_bytes(row);
    uint64_t begin = 0;

    if (atomic_load(&a->phase) != DBK_ADVISORY_OPEN ||
        a->added - atomic_load(&a->head) == a->entries_max || !find_room(a, len, &begin)) {
        a->dropped++;
        return;
    }
    struct dbk_advisory_entry *entry = &a->entries[a->added % a->entries_max];
    char *at = a->bytes + begin % a->bytes_max;
    *entry = (struct dbk_advisory_entry){.row = *row, .bytes_end = begin + len};
    at = copy(at, &entry->row.event.request_id);
    at = copy(at, &entry->row.event.name_space);
    at = copy(at, &entry->row.event.subject);
    (void)copy(at, &entry->row.event.record);
    a->bytes_added = entry->bytes_end;
    a->added++;
}

void dbk_advisories_offer(struct daybook_worker *w, const struct daybook_row *row)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        offer(&w->advisories[i], row);
    }
}

static void tell_dropped(struct dbk_advisory *a, uint64_t count)
{
    if (count > 0) {
        dbk_worker_notify(a->worker,
                          (struct daybook_worker_event){.kind = DAYBOOK_WORKER_ADVISORY_DROPPED,
                                                        .sink = a->sink,
                                                        .count = count});
    }
}

static void wake(struct dbk_advisory *a)
{
    atomic_fetch_add(&a->word, 1);
    dbk_futex_wake_all(&a->word);
}

void dbk_advisories_publish(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        if (a->added != atomic_load(&a->tail)) {
            a->entries[(a->added - 1) % a->entries_max].ends_pass = true;
            atomic_store(&a->tail, a->added);
            wake(a);
        }
        tell_dropped(a, a->dropped);
        a->dropped = 0;
    }
}

/* ---- the advisory's side ------------------------------------------------------------------------- */

/* The rows of the next write: what is left of the oldest pass. */
static size_t gather(struct dbk_advisory *a)
{
    uint64_t head = atomic_load(&a->head);
    uint64_t tail = atomic_load(&a->tail);
    size_t count = 0;

    while (head + count < tail && count < a->rows_max) {
        const struct dbk_advisory_entry *entry = &a->entries[(head + count) % a->entries_max];
        a->rows[count++] = entry->row;
        if (entry->ends_pass) {
            break;
        }
    }
    return count;
}

static void done_with(struct dbk_advisory *a, size_t count)
{
    uint64_t head = atomic_load(&a->head) + count;

    atomic_store(&a->bytes_head, a->entries[(head - 1) % a->entries_max].bytes_end);
    atomic_store(&a->head, head);
}

/* How many of the rows of a write the destination has. */
static size_t taken(const struct daybook_answer *answer, size_t count)
{
    if (answer->kind == DAYBOOK_ANSWER_ACCEPTED) {
        return count;
    }
    if (answer->kind == DAYBOOK_ANSWER_REJECTED && answer->others == DAYBOOK_OTHERS_ACCEPTED &&
        answer->rejected_count <= count) {
        return count - answer->rejected_count;
    }
    return 0;
}

static void tell_answer(struct dbk_advisory *a, size_t count, int64_t duration_us)
{
    size_t landed = taken(&a->answer, count);

    dbk_worker_notify(a->worker,
                      (struct daybook_worker_event){.kind = DAYBOOK_WORKER_ADVISED,
                                                    .sink = a->sink,
                                                    .outcome = a->answer.kind,
                                                    .count = landed,
                                                    .missed = count - landed,
                                                    .values_left_out = a->answer.values_left_out,
                                                    .duration_us = duration_us,
                                                    .message = dbk_answer_message(&a->answer)});
}

bool dbk_advisory_write(struct dbk_advisory *a)
{
    struct daybook_worker *w = a->worker;
    size_t count = gather(a);

    if (count == 0 || !dbk_worker_enter(w)) {
        return false;
    }
    int64_t began_us = dbk_worker_mono_us(w);
    dbk_worker_leave(w);
    int64_t deadline_us = began_us + w->write_timeout_us;
    int64_t stop_us = atomic_load(&w->stop_at_us);
    daybook_answer_reset(&a->answer);
    a->sink->ops->write(a->sink, a->rows, count, stop_us < deadline_us ? stop_us : deadline_us,
                        &a->answer);
    bool open = dbk_worker_enter(w);
    if (open) {
        tell_answer(a, count, dbk_worker_mono_us(w) - began_us);
        dbk_worker_leave(w);
    }
    done_with(a, count);
    return open;
}

/* Nothing is taken out any more: what still waits was told to nobody. */
static void end(struct dbk_advisory *a)
{
    struct daybook_worker *w = a->worker;

    if (dbk_worker_enter(w)) {
        tell_dropped(a, atomic_load(&a->tail) - atomic_load(&a->head));
        dbk_worker_leave(w);
    }
    dbk_mutex_lock(&w->lock);
    a->ended = true;
    dbk_mutex_unlock(&w->lock);
    dbk_worker_signal(w);
}

static void *advisory_main(void *arg)
{
    struct dbk_advisory *a = arg;
    struct daybook_worker *w = a->worker;

    while (true) {
        /* Read first: what is published or asked for meanwhile ends the wait at once. */
        uint32_t seen = atomic_load(&a->word);
        uint32_t phase = atomic_load(&a->phase);
        if (phase == DBK_ADVISORY_CUT) {
            break;
        }
        if (dbk_advisory_write(a)) {
            continue;
        }
        if (phase == DBK_ADVISORY_CLOSING) {
            break;
        }
        dbk_futex_wait(&a->word, seen, -1);
    }
    end(a);
    dbk_worker_drop(w);
    return NULL;
}

/* ---- the owner's side ---------------------------------------------------------------------------- */

enum daybook_code dbk_advisories_start(struct daybook_worker *w, struct daybook_error *err)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        if (a->threaded) {
            continue;
        }
        dbk_mutex_lock(&w->lock);
        w->holders++;
        a->threaded = true;
        dbk_mutex_unlock(&w->lock);
        int failed = dbk_thread_start(&a->thread, "daybook-advise", advisory_main, a);
        if (failed != 0) {
            dbk_mutex_lock(&w->lock);
            w->holders--;
            a->threaded = false;
            dbk_mutex_unlock(&w->lock);
            return dbk_fail_os(err, DAYBOOK_NO_MEMORY, failed,
                               "the thread of advisory destination %s of consumer %s could not be "
                               "started",
                               a->sink->name, w->consumer);
        }
    }
    return DAYBOOK_OK;
}

void dbk_advisories_set(struct daybook_worker *w, enum dbk_advisory_phase phase)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        uint32_t now = atomic_load(&a->phase);
        while (now < (uint32_t)phase && !atomic_compare_exchange_weak(&a->phase, &now, phase)) {
        }
        if (phase == DBK_ADVISORY_CUT) {
            a->sink->ops->interrupt(a->sink);
        }
        wake(a);
    }
}

static bool has_ended(struct daybook_worker *w, const struct dbk_advisory *a)
{
    dbk_mutex_lock(&w->lock);
    bool ended = a->ended || !a->threaded;
    dbk_mutex_unlock(&w->lock);
    return ended;
}

bool dbk_advisories_ended(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        if (!has_ended(w, &w->advisories[i])) {
            return false;
        }
    }
    return true;
}

void dbk_advisories_leave(struct daybook_worker *w)
{
    for (size_t i = 0; i < w->options.advisory_count; i++) {
        struct dbk_advisory *a = &w->advisories[i];
        if (!a->threaded) {
            continue;
        }
        if (has_ended(w, a)) {
            dbk_thread_join(&a->thread); /* only its last lines are left */
        } else {
            dbk_thread_detach(&a->thread);
        }
    }
}
