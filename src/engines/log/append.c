/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an event to a staged frame to an answer: the blocking append and the append that nobody waits
 * for, which are the same steps with another way of waiting.
 *
 * Promises: a repeated id is looked up first (A2, A3), the index entry and the frame are made in one
 * critical section, nothing is answered before the group that carries it is durable, order in a batch
 * is order of position. A step stages what it can of a batch into one group; what it cannot (the group
 * is full, an id is in flight, there is no space yet) goes on when that has ended.
 * Run by any thread; the hot path allocates nothing.
 */
#include "engines/log/log_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/event_fd.h"
#include "base/fault.h"

enum {
    STEP_EVENTS = 256, /* staged under one hold of the stage lock */
    LOOK_AHEAD = 4,    /* events whose chain in the id index is fetched ahead */
    COLLISIONS_MAX = 4 /* stored events with the hash but not the id of one event */
};

uint64_t dbk_identity_id_hash(const struct dbk_identity *identity, struct daybook_bytes request_id)
{
    return XXH3_64bits_withSeed(request_id.data, request_id.len, identity->secret);
}

uint64_t dbk_identity_key_hash(const struct dbk_identity *identity, struct daybook_bytes name_space,
                               struct daybook_bytes subject)
{
    /* The first hash seeds the second, so that no boundary between the two is ambiguous. */
    uint64_t first = XXH3_64bits_withSeed(name_space.data, name_space.len, identity->secret);
    return XXH3_64bits_withSeed(subject.data, subject.len, first ^ name_space.len);
}

/* ---- one step ---------------------------------------------------------------------------------- */

/* A batch on its way: events before `next` have their answer or are staged; those from `first_staged`
 * on with code OK wait for the group. */
struct cursor {
    const struct daybook_event *events;
    struct daybook_append_result *results;
    size_t count;
    size_t next;
    size_t first_staged;
    int64_t now_us;
    uint64_t other_ids[COLLISIONS_MAX]; /* positions that events[next] is not */
    unsigned other_id_count;
};

enum stop {
    STOP_DONE,  /* every event has its answer or is staged */
    STOP_MORE,  /* a step's worth was staged */
    STOP_GROUP, /* goes on when the group has ended */
    STOP_SPACE, /* goes on when there is space */
    STOP_ROOM,  /* goes on when more was given up */
    STOP_STORED /* events[next] has to be compared with `stored` */
};

struct step {
    enum stop stop;
    bool staged;                /* something was */
    bool mine;                  /* nobody was busy: the caller is now */
    bool in_flight;             /* with STOP_GROUP: another of the id is in that group */
    struct dbk_group *group;    /* referenced (blocking) */
    struct dbk_id_match stored; /* its segment is pinned */
    uint32_t space_seen;
};

struct prepared {
    uint64_t id_hash;
    uint64_t key_hash;
    uint32_t record_crc;
};

static void prepare(const struct dbk_log *log, const struct cursor *cursor, size_t count,
                    struct prepared *prepared)
{
    for (size_t i = 0; i < count; i++) {
        const struct daybook_event *event = &cursor->events[cursor->next + i];
        if (cursor->results[cursor->next + i].code != DAYBOOK_OK) {
            prepared[i] = (struct prepared){0};
            continue;
        }
        prepared[i].id_hash = dbk_identity_id_hash(&log->identity, event->request_id);
        dbk_state_prefetch_id(log->state, prepared[i].id_hash);
        prepared[i].key_hash =
            dbk_identity_key_hash(&log->identity, event->name_space, event->subject);
        prepared[i].record_crc = dbk_crc32c(0, event->record.data, event->record.len);
    }
}

/* [stage] The bytes of a staged entry. */
static const uint8_t *staged_entry(const struct dbk_log *log, const struct dbk_stage *stage,
                                   uint32_t i)
{
    return stage->memory + DBK_GROUP_HEADER_BYTES + log->delivery_area + stage->staged[i].offset;
}

enum found { FOUND_NOTHING, FOUND_IN_FLIGHT, FOUND_STORED };

/* [stage] Whether the id is known. *ret_stage: where it is in flight. */
static enum found find_id(struct dbk_log *log, const struct cursor *cursor,
                          const struct daybook_event *event, uint64_t id_hash,
                          struct dbk_id_match *ret_match, struct dbk_stage **ret_stage)
{
    uint32_t at = 0;
    while (dbk_state_id_find(log->state, id_hash, &at, ret_match)) {
        if (ret_match->staged) {
            struct dbk_stage *stage = &log->stages[ret_match->staged_no / DBK_STAGED_MAX];
            const uint8_t *entry =
                staged_entry(log, stage, ret_match->staged_no - stage->number_base);
            if (entry[2] == event->request_id.len &&
                memcmp(entry + DBK_ENTRY_FIXED_BYTES, event->request_id.data, entry[2]) == 0) {
                *ret_stage = stage;
                return FOUND_IN_FLIGHT;
            }
            continue;
        }
        bool other = false;
        for (unsigned i = 0; i < cursor->other_id_count; i++) {
            other = other || cursor->other_ids[i] == ret_match->position;
        }
        if (!other) {
            return FOUND_STORED;
        }
    }
    return FOUND_NOTHING;
}

/* [stage] Whether max_events allows one more (P1, P4, P5). *ret_forget: only if one is given up. */
static bool has_room(const struct dbk_log *log, bool *ret_forget)
{
    const struct dbk_room *room = dbk_state_room(log->state);
    uint64_t total = atomic_load(&room->stored) + log->staged_total + 1;
    uint64_t events_max =
        log->head.capacity.events_max + (dbk_fault(DBK_FAULT_CAPACITY_OFF_BY_ONE) ? 1 : 0);
    *ret_forget = total > events_max;
    if (!*ret_forget) {
        return true;
    }
    uint64_t givable = log->head.capacity.policy == DAYBOOK_POLICY_DROP_OLDEST
                           ? atomic_load(&room->droppable)
                           : atomic_load(&room->givable);
    return total - events_max <= givable;
}

static void at_capacity(const struct dbk_log *log, enum daybook_limit limit,
                        struct daybook_append_result *result)
{
    result->code = DAYBOOK_AT_CAPACITY;
    result->limit = limit;
    result->retained = atomic_load(&dbk_state_room(log->state)->stored);
}

/* [stage] The limit that leaves no space. */
static enum daybook_limit space_limit(const struct dbk_log *log)
{
    return log->space == DBK_SPACE_NO_BYTES && !log->disk_low ? DAYBOOK_LIMIT_BYTES
                                                              : DAYBOOK_LIMIT_DISK;
}

/* [stage] Stages one event: its index entry and its frame. */
static void stage_event(struct dbk_log *log, struct dbk_stage *stage,
                        const struct daybook_event *event, const struct prepared *prepared,
                        int64_t now_us, struct daybook_append_result *result)
{
    if (now_us > log->newest_accepted_at_us || dbk_fault(DBK_FAULT_ACCEPTED_AT_GOES_BACK)) {
        log->newest_accepted_at_us = now_us; /* E1: it never goes back */
    }
    struct dbk_entry entry = {
        .row_version = log->row_version,
        .observed_at_us =
            event->observed_at_us == DAYBOOK_TIME_UNSET || dbk_fault(DBK_FAULT_OBSERVED_BY_US)
                ? log->newest_accepted_at_us
                : event->observed_at_us,
        .accepted_at_us = log->newest_accepted_at_us,
        .record_crc = prepared->record_crc,
        .request_id = event->request_id,
        .name_space = event->name_space,
        .subject = event->subject,
        .record = event->record,
    };
    uint8_t *out = stage->memory + DBK_GROUP_HEADER_BYTES + log->delivery_area + stage->events_len;
    uint64_t position = log->next_position++;
    uint32_t i = stage->staged_count++;
    stage->staged[i] = (struct dbk_staged){
        .position = position,
        .id_hash = prepared->id_hash,
        .key_hash = prepared->key_hash,
        .observed_at_us = entry.observed_at_us,
        .accepted_at_us = entry.accepted_at_us,
        .offset = (uint32_t)stage->events_len + DBK_FRAME_HEADER_BYTES,
        .entry_bytes = dbk_entry_bytes(&entry),
        .payload_bytes = (uint32_t)(event->request_id.len + event->name_space.len +
                                    event->subject.len + event->record.len),
        .row_version = log->row_version,
    };
    stage->events_len += dbk_event_frame_encode(out, position, &entry);
    stage->now_us = now_us;
    log->staged_total++;
    dbk_state_id_stage(log->state, prepared->id_hash, stage->number_base + i);
    result->code = DAYBOOK_OK;
    result->position = position;
}

/* Attaches a submission to what it waits for, under the stage lock. */
static void attach(struct dbk_stage *stage, struct daybook_submission *submission)
{
    submission->next_ = NULL;
    *stage->submissions_tail = submission;
    stage->submissions_tail = &submission->next_;
}

static void store_cursor(struct daybook_submission *submission, const struct cursor *cursor);

/* [stage] Attaches a submission to what it waits for; without one the group is referenced. Who waits for a group
 * and finds nobody busy is so from here on, and need not take the lock again to ask. */
static void wait_for(struct dbk_log *log, const struct cursor *cursor,
                     struct daybook_submission *submission, struct dbk_stage *waits_for,
                     struct step *ret)
{
    if (submission != NULL) {
        store_cursor(submission, cursor);
        if (waits_for != NULL) {
            attach(waits_for, submission);
        } else if (ret->stop == STOP_SPACE) {
            submission->next_ = log->stalled;
            log->stalled = submission;
        }
    } else if (waits_for != NULL) {
        atomic_fetch_add(&waits_for->group->refs, 1);
        ret->group = waits_for->group;
    }
    if (waits_for != NULL) {
        ret->mine = !log->busy;
        log->busy = true;
    }
}

/* max_events was lowered by far: gives up one step of what is over it (P4, P5), and waits for that. */
static void room_step(struct dbk_log *log, struct cursor *cursor,
                      struct daybook_submission *submission, struct step *ret)
{
    bool drops = log->head.capacity.policy == DAYBOOK_POLICY_DROP_OLDEST;
    struct dbk_stage *waits_for = NULL;
    enum daybook_limit limit = DAYBOOK_LIMIT_EVENTS;
    ret->stop = STOP_MORE;
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    ret->space_seen = atomic_load(&log->space_word);
    if (!dbk_log_has_failed(log) && dbk_needs_steps(log)) {
        enum dbk_fit fit = dbk_stage_fit(log, dbk_give_up_bytes(log), 0, DBK_OF_CALLERS);
        bool refused = fit == DBK_FIT_NO_SPACE;
        if (refused) {
            limit = space_limit(log);
        } else if (fit == DBK_FIT_OK) {
            refused = !dbk_give_up(log, cursor->now_us,
                                   drops ? DBK_GIVE_UP_DROPPABLE : DBK_GIVE_UP_DELIVERED);
        }
        if (refused) {
            at_capacity(log, limit, &cursor->results[cursor->next++]);
            cursor->other_id_count = 0;
        } else if (fit == DBK_FIT_WAIT_SPACE) {
            ret->stop = STOP_SPACE;
        } else {
            ret->stop = STOP_GROUP;
            waits_for = log->open_stage;
        }
    }
    wait_for(log, cursor, submission, waits_for, ret);
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
}

/* Stages what it can of the batch into one group. With `submission` it is attached to what it waits for
 * in the same hold (but for STOP_STORED with nothing staged, and STOP_DONE likewise); without one the
 * group is referenced. */
static void stage_step(struct dbk_log *log, struct cursor *cursor,
                       struct daybook_submission *submission, struct step *ret)
{
    struct prepared prepared[STEP_EVENTS];
    size_t n = cursor->count - cursor->next;
    n = n < STEP_EVENTS ? n : STEP_EVENTS;
    prepare(log, cursor, n, prepared);
    memset(ret, 0, sizeof(*ret));
    ret->stop = cursor->next + n < cursor->count ? STOP_MORE : STOP_DONE;
    cursor->first_staged = cursor->next;

    dbk_mutex_lock(&log->stage_lock);
    struct dbk_stage *stage = log->open_stage;
    struct dbk_stage *waits_for = NULL;
    bool failed = dbk_log_has_failed(log) || log->read_only;
    bool refused_full = false;
    ret->space_seen = atomic_load(&log->space_word);
    for (size_t i = 0; i < n; i++, cursor->next++) {
        const struct daybook_event *event = &cursor->events[cursor->next];
        struct daybook_append_result *result = &cursor->results[cursor->next];
        bool forget;
        if (i + LOOK_AHEAD < n) {
            dbk_state_prefetch_chain(log->state, prepared[i + LOOK_AHEAD].id_hash);
        }
        if (result->code != DAYBOOK_OK) {
            continue;
        }
        if (failed) {
            result->code = DAYBOOK_BACKEND;
            continue;
        }
        enum found found =
            find_id(log, cursor, event, prepared[i].id_hash, &ret->stored, &waits_for);
        if (found == FOUND_IN_FLIGHT && dbk_fault(DBK_FAULT_PRESENT_IN_FLIGHT)) {
            result->code = DAYBOOK_ALREADY_PRESENT;
            continue;
        }
        if (found == FOUND_IN_FLIGHT) {
            ret->stop = STOP_GROUP;
            ret->in_flight = true;
            break;
        }
        if (found == FOUND_STORED) {
            ret->stop = STOP_STORED;
            dbk_segment_pin(log, ret->stored.place.segment_no);
            break;
        }
        if (!has_room(log, &forget)) {
            refused_full = true;
            at_capacity(log, DAYBOOK_LIMIT_EVENTS, result);
            cursor->other_id_count = 0;
            continue;
        }
        if (forget && dbk_needs_steps(log)) {
            ret->stop = STOP_ROOM;
            break;
        }
        enum dbk_fit fit = dbk_stage_fit(log, 0, dbk_event_frame_bytes(event), DBK_OF_CALLERS);
        if (fit == DBK_FIT_NO_SPACE) {
            at_capacity(log, space_limit(log), result);
            cursor->other_id_count = 0;
            continue;
        }
        if (fit != DBK_FIT_OK) {
            ret->stop = fit == DBK_FIT_GROUP_FULL ? STOP_GROUP : STOP_SPACE;
            waits_for = stage;
            break;
        }
        stage->forget_needed += forget ? 1 : 0;
        stage_event(log, stage, event, &prepared[i], cursor->now_us, result);
        ret->staged = true;
        cursor->other_id_count = 0;
    }
    if (ret->staged) {
        waits_for = stage;
    } else if (ret->stop != STOP_GROUP) {
        waits_for = NULL;
    }
    if (ret->staged && ret->stop == STOP_STORED) {
        dbk_segment_unpin(log, ret->stored.place.segment_no);
    }
    bool needs_room = ret->stop == STOP_ROOM && waits_for == NULL;
    if (!needs_room) {
        wait_for(log, cursor, submission, waits_for, ret);
    }
    dbk_mutex_unlock(&log->stage_lock);
    if (needs_room) {
        room_step(log, cursor, submission, ret);
    }
    if (refused_full) {
        dbk_append_refused(log, cursor->now_us);
        /* The results of a submission may be somebody else's by now: it was attached above. */
        for (size_t i = cursor->first_staged; submission == NULL && i < cursor->next; i++) {
            if (cursor->results[i].code == DAYBOOK_AT_CAPACITY) {
                cursor->results[i].retained = atomic_load(&dbk_state_room(log->state)->stored);
            }
        }
    }
}

/* The group of the staged events has ended; `cut_from` and `retained` count with OK. */
static void finalize(struct cursor *cursor, enum daybook_code code, uint64_t cut_from,
                     uint64_t retained)
{
    for (size_t i = cursor->first_staged; i < cursor->next; i++) {
        struct daybook_append_result *result = &cursor->results[i];
        if (result->code != DAYBOOK_OK) {
            continue;
        }
        if (code != DAYBOOK_OK) {
            result->code = code;
        } else if (result->position >= cut_from) {
            result->code = DAYBOOK_AT_CAPACITY;
            result->limit = DAYBOOK_LIMIT_EVENTS;
            result->retained = retained;
        }
    }
    cursor->first_staged = cursor->next;
}

/* Reads the stored event and answers for events[next]; unpins. */
static void compare_stored(struct dbk_log *log, struct cursor *cursor,
                           const struct dbk_id_match *stored)
{
    const struct daybook_event *event = &cursor->events[cursor->next];
    struct daybook_append_result *result = &cursor->results[cursor->next];
    struct dbk_entry entry;
    size_t entry_len;
    enum daybook_code code =
        DAYBOOK_BACKEND; /* unreadable, damaged, or stored by a newer version */
    bool other_id = false;

    dbk_mutex_lock(&log->compare_lock);
    int64_t len = dbk_segment_read(log, stored->place, log->compare_buffer);
    enum dbk_entry_check check =
        len < 0 ? DBK_ENTRY_BAD
                : dbk_entry_decode(log->compare_buffer, (size_t)len, &entry, &entry_len);
    uint64_t hash = dbk_identity_id_hash(&log->identity, event->request_id);
    if (check != DBK_ENTRY_BAD && dbk_entry_is_of(log, &entry, hash, entry.accepted_at_us)) {
        other_id = entry.request_id.len != event->request_id.len ||
                   memcmp(entry.request_id.data, event->request_id.data, entry.request_id.len) != 0;
        struct daybook_event first = {.request_id = entry.request_id,
                                      .name_space = entry.name_space,
                                      .subject = entry.subject,
                                      .record = entry.record};
        if (check == DBK_ENTRY_OK && entry.row_version <= DBK_ROW_VERSION) {
            code =
                daybook_event_same_fact(&first, event) || dbk_fault(DBK_FAULT_CONFLICT_IS_PRESENT)
                    ? DAYBOOK_ALREADY_PRESENT
                    : DAYBOOK_CONFLICT;
        }
    }
    dbk_mutex_unlock(&log->compare_lock);
    dbk_segment_unpin(log, stored->place.segment_no);
    if (other_id && cursor->other_id_count < COLLISIONS_MAX) {
        cursor->other_ids[cursor->other_id_count++] = stored->position;
        return;
    }
    result->code = code;
    result->position = stored->position;
    cursor->next++;
    cursor->first_staged = cursor->next;
    cursor->other_id_count = 0;
}

/* ---- blocking ---------------------------------------------------------------------------------- */

enum daybook_code dbk_log_append_batch(struct daybook_journal *j,
                                       const struct daybook_event *events, size_t count,
                                       int64_t now_us, int64_t deadline_us,
                                       struct daybook_append_result *ret_results,
                                       struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    struct cursor cursor = {
        .events = events, .results = ret_results, .count = count, .now_us = now_us};
    struct step step = {.stop = STOP_MORE};
    while (step.stop != STOP_DONE) {
        stage_step(log, &cursor, NULL, &step);
        enum daybook_code code = DAYBOOK_OK;
        if (step.group != NULL) {
            code = dbk_commit_wait_synced(log, step.group, step.mine, deadline_us);
            bool ended = code == DAYBOOK_OK; /* else its seal may still be writing there */
            finalize(&cursor, code, ended ? step.group->cut_from : 0,
                     ended ? step.group->retained : 0);
            dbk_group_unref(log, step.group);
            if (step.in_flight && !step.staged) {
                /* Answered is not yet published: whose end this waits for holds the state lock until then,
                 * and asking again and again before that would only stand in its way. */
                dbk_mutex_lock(&log->state_lock);
                dbk_mutex_unlock(&log->state_lock);
            }
        } else if (step.stop == STOP_STORED) {
            compare_stored(log, &cursor, &step.stored);
        } else if (step.stop == STOP_SPACE && !dbk_space_wait(log, step.space_seen, deadline_us)) {
            code = DAYBOOK_TIMED_OUT;
        }
        if (code != DAYBOOK_OK && step.stop != STOP_DONE) {
            /* What was not looked at was not staged either, but a retry is right for all of them. */
            for (; cursor.next < count; cursor.next++) {
                if (ret_results[cursor.next].code == DAYBOOK_OK) {
                    ret_results[cursor.next].code = code;
                }
            }
            break;
        }
        if (step.stop == STOP_STORED && cursor.next == count) {
            step.stop = STOP_DONE;
        }
    }
    for (size_t i = 0; i < count; i++) {
        enum daybook_code code = ret_results[i].code;
        if (code == DAYBOOK_BACKEND && (dbk_log_has_failed(log) || log->read_only)) {
            return dbk_log_failed(log, err);
        }
        if (code == DAYBOOK_TIMED_OUT) {
            return dbk_fail(err, code,
                            "%s: the deadline came before the commit; appending again resolves it",
                            log->path);
        }
    }
    return DAYBOOK_OK;
}

/* ---- queues ------------------------------------------------------------------------------------ */

struct queue {
    struct daybook_append_queue head;
    struct dbk_log *log;
    int event_fd;
    struct dbk_mutex lock;
    struct daybook_submission *ready;
    struct daybook_submission **ready_tail;
};

/* What a submission's private words hold. */
enum word { WORD_QUEUE, WORD_NEXT, WORD_FIRST_STAGED, WORD_OUTCOME, WORD_CUT_FROM, WORD_RETAINED };
enum outcome { OUTCOME_NONE, OUTCOME_DONE, OUTCOME_FAILED };

static struct queue *queue_of(const struct daybook_submission *submission)
{
    return (struct queue *)(uintptr_t)submission->private_[WORD_QUEUE];
}

static void store_cursor(struct daybook_submission *submission, const struct cursor *cursor)
{
    submission->private_[WORD_NEXT] = cursor->next;
    submission->private_[WORD_FIRST_STAGED] = cursor->first_staged;
    submission->private_[WORD_OUTCOME] = OUTCOME_NONE;
}

/* Pushes the first of a list and those behind it that go to the same queue. Returns the rest. */
static struct daybook_submission *push_run(struct daybook_submission *list)
{
    struct queue *queue = queue_of(list);
    dbk_mutex_lock(&queue->lock);
    bool was_empty = queue->ready == NULL;
    while (list != NULL && queue_of(list) == queue) {
        struct daybook_submission *submission = list;
        list = submission->next_;
        submission->next_ = NULL;
        *queue->ready_tail = submission;
        queue->ready_tail = &submission->next_;
    }
    if (was_empty) {
        /* Under the lock: once it is released the queue may be drained and freed. */
        dbk_event_fd_set(queue->event_fd);
    }
    dbk_mutex_unlock(&queue->lock);
    return list;
}

static void push_ready(struct daybook_submission *submission)
{
    submission->next_ = NULL;
    (void)push_run(submission);
}

void dbk_submissions_end(struct daybook_submission *list, const struct dbk_group *group)
{
    uint64_t outcome =
        atomic_load(&group->done) == DBK_PHASE_FAILED ? OUTCOME_FAILED : OUTCOME_DONE;
    for (struct daybook_submission *one = list; one != NULL; one = one->next_) {
        one->private_[WORD_OUTCOME] = outcome;
        one->private_[WORD_CUT_FROM] = group->cut_from;
        one->private_[WORD_RETAINED] = group->retained;
    }
    dbk_submissions_resume(list);
}

void dbk_submissions_resume(struct daybook_submission *list)
{
    while (list != NULL) {
        list = push_run(list);
    }
}

static struct cursor load_cursor(const struct daybook_submission *submission, int64_t now_us)
{
    return (struct cursor){.events = submission->events,
                           .results = submission->results,
                           .count = submission->count,
                           .next = (size_t)submission->private_[WORD_NEXT],
                           .first_staged = (size_t)submission->private_[WORD_FIRST_STAGED],
                           .now_us = now_us};
}

/* What was staged is committed, by others. */
static void commit_if_mine(struct dbk_log *log, const struct step *step)
{
    if (step->mine) {
        dbk_busy_end(log);
    }
}

void dbk_log_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                    struct daybook_submission *submission, int64_t now_us)
{
    struct dbk_log *log = dbk_log_of(j);
    struct step step;
    memset(submission->private_, 0, sizeof(submission->private_));
    submission->private_[WORD_QUEUE] = (uint64_t)(uintptr_t)queue;
    struct cursor cursor = load_cursor(submission, now_us);
    stage_step(log, &cursor, submission, &step);
    if (step.staged || step.stop == STOP_GROUP) {
        commit_if_mine(log, &step);
    } else if (step.stop == STOP_STORED) {
        /* Reading what is stored is left to whoever drains. */
        dbk_segment_unpin(log, step.stored.place.segment_no);
        push_ready(submission);
    } else if (step.stop == STOP_SPACE) {
        dbk_space_kick(log);
    } else {
        push_ready(submission);
    }
}

/* Carries a submission on. True: every event has its answer. */
static bool advance(struct dbk_log *log, struct daybook_submission *submission, int64_t now_us)
{
    struct cursor cursor = load_cursor(submission, now_us);
    struct step step;
    if (submission->private_[WORD_OUTCOME] != OUTCOME_NONE) {
        finalize(&cursor,
                 submission->private_[WORD_OUTCOME] == OUTCOME_DONE ? DAYBOOK_OK : DAYBOOK_BACKEND,
                 submission->private_[WORD_CUT_FROM], submission->private_[WORD_RETAINED]);
    }
    while (cursor.next < cursor.count) {
        stage_step(log, &cursor, submission, &step);
        if (step.staged || step.stop == STOP_GROUP) {
            commit_if_mine(log, &step);
            return false;
        }
        if (step.stop == STOP_SPACE) {
            dbk_space_kick(log);
            return false;
        }
        if (step.stop == STOP_STORED) {
            compare_stored(log, &cursor, &step.stored);
        }
    }
    return true;
}

/* Takes at most `max`; NULL: there is nothing. */
static struct daybook_submission *take_ready(struct queue *queue, size_t max)
{
    dbk_mutex_lock(&queue->lock);
    struct daybook_submission *list = queue->ready;
    struct daybook_submission **end = &queue->ready;
    for (size_t i = 0; i < max && *end != NULL; i++) {
        end = &(*end)->next_;
    }
    struct daybook_submission *rest = *end;
    *end = NULL;
    queue->ready = rest;
    if (list != NULL && rest == NULL) {
        queue->ready_tail = &queue->ready;
        dbk_event_fd_clear(queue->event_fd);
    }
    dbk_mutex_unlock(&queue->lock);
    return list;
}

static size_t queue_drain(struct daybook_append_queue *q, int64_t now_us,
                          struct daybook_submission **ret_done, size_t max)
{
    struct queue *queue = (struct queue *)q;
    size_t done = 0;
    while (done < max) {
        struct daybook_submission *list = take_ready(queue, max - done);
        if (list == NULL) {
            break;
        }
        while (list != NULL) {
            struct daybook_submission *submission = list;
            list = submission->next_; /* it may be attached to something else in a moment */
            if (advance(queue->log, submission, now_us)) {
                ret_done[done++] = submission;
            }
        }
    }
    return done;
}

static int queue_fd(const struct daybook_append_queue *q)
{
    return ((const struct queue *)q)->event_fd;
}

static void queue_free(struct daybook_append_queue *q)
{
    struct queue *queue = (struct queue *)q;
    dbk_assert(queue->ready == NULL);
    dbk_event_fd_close(queue->event_fd);
    dbk_mutex_release(&queue->lock);
    free(queue);
}

static const struct dbk_append_queue_ops queue_ops = {
    .fd = queue_fd, .drain = queue_drain, .free = queue_free};

enum daybook_code dbk_log_queue_new(struct daybook_journal *j, struct daybook_append_queue **ret,
                                    struct daybook_error *err)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for an append queue");
    }
    queue->head.ops = &queue_ops;
    queue->log = dbk_log_of(j);
    queue->ready_tail = &queue->ready;
    queue->event_fd = dbk_event_fd_new();
    if (queue->event_fd < 0) {
        int os_errno = -queue->event_fd;
        free(queue);
        return dbk_fail_os(err, DAYBOOK_BUSY, os_errno, "no descriptor for an append queue");
    }
    dbk_mutex_init(&queue->lock, DBK_RANK_QUEUE);
    *ret = &queue->head;
    return DAYBOOK_OK;
}
