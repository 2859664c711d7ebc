/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group commit: what is staged is frozen, written with one write, synced with one fdatasync,
 * published, and its waiters woken with one wake; then the next group.
 *
 * Promises: nothing is visible before it is durable (A1); what is staged is committed or the handle is
 * broken (FAILED, for good: no write or sync is tried again); the order of the log is the order of
 * decisions. Run by exactly one thread at a time, whoever set `busy`: the committer, or a blocking
 * caller that found the journal idle. No lock is held during I/O, nothing is allocated.
 */
#include "engines/log/log_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"

enum {
    GROUPS_READY = 256,
    GIVE_UP_STEP = 4096, /* events given up under one hold, ahead of an append */
    PREFETCH_AHEAD = 8,  /* events that a publication looks ahead */
    PUBLISH_STEP = 32    /* events published under one hold of the stage lock */
};

/* ---- groups ------------------------------------------------------------------------------------ */

/* [stage] */
static struct dbk_group *group_take(struct dbk_log *log)
{
    struct dbk_group *group = log->free_groups;
    if (group != NULL) {
        log->free_groups = group->next_free;
    } else {
        /* More threads than groups kept ready are late in reading their answers. */
        group = malloc(sizeof(*group));
        dbk_assert(group != NULL);
    }
    atomic_store(&group->written, DBK_PHASE_STAGED);
    atomic_store(&group->done, DBK_PHASE_STAGED);
    atomic_store(&group->refs, 1);
    atomic_store(&group->written_waiters, 0);
    group->cut_from = UINT64_MAX;
    group->retained = 0;
    group->next_free = NULL;
    return group;
}

void dbk_group_unref(struct dbk_log *log, struct dbk_group *group)
{
    if (group == NULL || atomic_fetch_sub(&group->refs, 1) != 1) {
        return;
    }
    dbk_mutex_lock(&log->stage_lock);
    group->next_free = log->free_groups;
    log->free_groups = group;
    dbk_mutex_unlock(&log->stage_lock);
}

static bool stage_is_empty(const struct dbk_stage *stage)
{
    return stage->delivery_len == 0 && stage->staged_count == 0 && stage->submissions == NULL;
}

struct dbk_group *dbk_group_ref_open(struct dbk_log *log)
{
    struct dbk_group *group = log->open_stage->group;
    atomic_fetch_add(&group->refs, 1);
    return group;
}

struct dbk_group *dbk_group_ref_newest(struct dbk_log *log)
{
    struct dbk_stage *stage = stage_is_empty(log->open_stage) ? log->frozen : log->open_stage;
    if (stage == NULL) {
        return NULL;
    }
    atomic_fetch_add(&stage->group->refs, 1);
    return stage->group;
}

static void group_phase(struct dbk_group *group, enum dbk_group_phase phase)
{
    if (atomic_exchange(&group->written, (uint32_t)phase) != (uint32_t)phase &&
        atomic_load(&group->written_waiters) != 0) {
        dbk_futex_wake_all(&group->written);
    }
    if (phase != DBK_PHASE_WRITTEN) {
        atomic_store(&group->done, (uint32_t)phase);
        dbk_futex_wake_all(&group->done);
    }
}

/* ---- stages ------------------------------------------------------------------------------------ */

static void stage_reset(struct dbk_stage *stage)
{
    stage->delivery_len = 0;
    stage->events_len = 0;
    stage->staged_count = 0;
    stage->sync_required = false;
    stage->has_records = false;
    stage->submissions = NULL;
    stage->submissions_tail = &stage->submissions;
    stage->group = NULL;
    stage->forget_needed = 0;
}

enum daybook_code dbk_stages_init(struct dbk_log *log)
{
    for (unsigned i = 0; i < 2; i++) {
        struct dbk_stage *stage = &log->stages[i];
        stage->memory = malloc((size_t)log->group_max + DBK_BLOCK_BYTES);
        stage->delivery = malloc(log->delivery_area);
        stage->staged = malloc(DBK_STAGED_MAX * sizeof(*stage->staged));
        stage->number_base = i * DBK_STAGED_MAX;
        stage_reset(stage);
        if (stage->memory == NULL || stage->delivery == NULL || stage->staged == NULL) {
            return DAYBOOK_NO_MEMORY;
        }
    }
    log->link_memory = malloc((size_t)log->group_max + DBK_BLOCK_BYTES);
    log->forget.ranges = malloc(DBK_FORGET_RANGES_MAX * sizeof(*log->forget.ranges));
    log->orphans = malloc(DBK_ORPHANS_MAX * sizeof(*log->orphans));
    if (log->link_memory == NULL || log->forget.ranges == NULL || log->orphans == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    for (unsigned i = 0; i < GROUPS_READY; i++) {
        struct dbk_group *group = malloc(sizeof(*group));
        if (group == NULL) {
            return DAYBOOK_NO_MEMORY;
        }
        group->next_free = log->free_groups;
        log->free_groups = group;
    }
    log->open_stage = &log->stages[0];
    log->open_stage->group = group_take(log);
    log->frozen = NULL;
    return DAYBOOK_OK;
}

void dbk_stages_release(struct dbk_log *log)
{
    for (unsigned i = 0; i < 2; i++) {
        free(log->stages[i].memory);
        free(log->stages[i].delivery);
        free(log->stages[i].staged);
        free(log->stages[i].group);
    }
    free(log->link_memory);
    free(log->forget.ranges);
    free(log->orphans);
    while (log->free_groups != NULL) {
        struct dbk_group *next = log->free_groups->next_free;
        free(log->free_groups);
        log->free_groups = next;
    }
}

/* Bytes of a group kept for the FORGET frames that its seal may add. */
static size_t forget_reserve(const struct dbk_log *log)
{
    return log->delivery_area / 4;
}

/* How many events one seal can forget and be sure that the frames fit, leases left behind included. */
static uint32_t forget_cap(const struct dbk_log *log)
{
    size_t frames = DBK_FORGET_REASONS * DBK_FORGET_FRAME_BYTES(0, 0);
    return (uint32_t)((forget_reserve(log) - frames) / 56);
}

uint32_t dbk_orphans_cap(const struct dbk_log *log)
{
    uint32_t cap = log->group_max / 2 / 40;
    return cap < DBK_ORPHANS_MAX ? cap : DBK_ORPHANS_MAX;
}

static size_t link_group_max(const struct dbk_log *log)
{
    return dbk_round_up(DBK_GROUP_HEADER_BYTES + DBK_LINK_FRAME_BYTES +
                            DBK_STATE_FRAME_BYTES(DBK_STATE_CONSUMERS_MAX, dbk_orphans_cap(log)) +
                            DBK_END_MARK_BYTES,
                        DBK_BLOCK_BYTES);
}

/* Bytes of the tail that only housekeeping may take while nothing stands prepared behind it. */
static size_t housekeeping_reserve(const struct dbk_log *log)
{
    enum { LEAST = 3 * DBK_BLOCK_BYTES, MOST = 16 * DBK_BLOCK_BYTES };
    size_t bytes = log->tail_segment_bytes / 32;
    return bytes < LEAST ? LEAST : (bytes > MOST ? MOST : bytes);
}

bool dbk_segment_suffices(const struct dbk_log *log, uint32_t segment_bytes)
{
    return DBK_BLOCK_BYTES + link_group_max(log) + dbk_round_up(log->group_max, DBK_BLOCK_BYTES) <=
           segment_bytes;
}

/* [stage] No segment can be prepared, and nothing can be done about it here. */
static bool is_out_of_room(const struct dbk_log *log)
{
    return log->space == DBK_SPACE_NO_BYTES || log->space == DBK_SPACE_NO_DISK;
}

enum dbk_fit dbk_stage_fit(const struct dbk_log *log, size_t delivery_bytes, size_t event_bytes,
                           enum dbk_whose whose)
{
    const struct dbk_stage *stage = log->open_stage;
    size_t delivery = stage->delivery_len + delivery_bytes;
    size_t events = stage->events_len + event_bytes;
    if (delivery > log->delivery_area - forget_reserve(log) || events > log->event_area ||
        (event_bytes > 0 &&
         (stage->staged_count == DBK_STAGED_MAX || stage->forget_needed >= forget_cap(log)))) {
        return DBK_FIT_GROUP_FULL;
    }
    if (event_bytes > 0 && log->disk_low) {
        return DBK_FIT_NO_SPACE;
    }
    size_t need = dbk_round_up(DBK_GROUP_HEADER_BYTES + delivery + forget_reserve(log) + events +
                                   DBK_END_MARK_BYTES,
                               DBK_BLOCK_BYTES);
    bool has_spare = log->spare.file >= 0;
    /* A full disk must not keep a journal from being emptied (2.6): appends are admitted while a whole
     * segment stands prepared behind the tail. While one is being prepared the last quarter of the tail is
     * kept for deliveries and verdicts instead, while room is made for one the last half; once none can be made,
     * all that is left is. */
    bool keeps = event_bytes > 0 && !log->append_only && !dbk_fault(DBK_FAULT_RESERVE_IGNORED);
    if (keeps && !has_spare && is_out_of_room(log)) {
        return DBK_FIT_NO_SPACE;
    }
    size_t part = log->space == DBK_SPACE_MAKING ? 2 : 4;
    size_t kept = keeps ? log->tail_segment_bytes / part : 0;
    /* And a block for the NOTE behind the callers' last group. */
    kept += whose == DBK_OF_CALLERS ? housekeeping_reserve(log) + DBK_BLOCK_BYTES : 0;
    kept += whose == DBK_OF_HOUSEKEEPING ? DBK_BLOCK_BYTES : 0;
    kept = has_spare ? 0 : kept;
    if (need + kept <= log->tail_room) {
        return DBK_FIT_OK;
    }
    if (has_spare && need + link_group_max(log) + DBK_BLOCK_BYTES <= log->spare.segment_bytes) {
        return DBK_FIT_OK;
    }
    return is_out_of_room(log) ? DBK_FIT_NO_SPACE : DBK_FIT_WAIT_SPACE;
}

/* ---- failure ----------------------------------------------------------------------------------- */

void dbk_log_fail(struct dbk_log *log, int os_errno, const char *what)
{
    struct daybook_submission *lists[3] = {NULL, NULL, NULL};
    struct dbk_group failed_group = {.done = DBK_PHASE_FAILED, .cut_from = UINT64_MAX};

    dbk_mutex_lock(&log->stage_lock);
    if (!dbk_log_has_failed(log)) {
        dbk_fail_os(&log->failure, DAYBOOK_BACKEND, os_errno,
                    "%s: %s failed at segment %u offset %u; the journal has to be reopened",
                    log->path, what, log->tail.segment_no, log->tail.offset);
        atomic_store_explicit(&log->failed, 1, memory_order_release);
        log->busy = true; /* for good: nobody commits any more */
        for (unsigned i = 0; i < 2; i++) {
            lists[i] = log->stages[i].submissions;
            log->stages[i].submissions = NULL;
            log->stages[i].submissions_tail = &log->stages[i].submissions;
            if (log->stages[i].group != NULL) {
                group_phase(log->stages[i].group, DBK_PHASE_FAILED);
            }
        }
        lists[2] = log->stalled;
        log->stalled = NULL;
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_submissions_end(lists[0], &failed_group);
    dbk_submissions_end(lists[1], &failed_group);
    dbk_submissions_resume(lists[2]);
    atomic_fetch_add(&log->space_word, 1);
    dbk_futex_wake_all(&log->space_word);
    atomic_fetch_add(&log->changes, 1);
    dbk_futex_wake_all(&log->changes);
}

enum daybook_code dbk_log_failed(struct dbk_log *log, struct daybook_error *err)
{
    if (log->read_only) {
        return dbk_fail(err, DAYBOOK_BACKEND, "%s: opened for reading only", log->path);
    }
    if (err != NULL) {
        *err = log->failure;
    }
    return DAYBOOK_BACKEND;
}

/* ---- the tail ---------------------------------------------------------------------------------- */

static bool sync_file(struct dbk_log *log, int file)
{
    if (dbk_fault(DBK_FAULT_NO_FDATASYNC)) {
        return true;
    }
    atomic_fetch_add_explicit(&log->syncs, 1, memory_order_relaxed);
    int rc = dbk_sync_data(log->os, file);
    if (rc < 0 && dbk_fault(DBK_FAULT_RETRY_FAILED_SYNC)) {
        rc = log->os->fdatasync(log->os, file);
    }
    if (rc < 0) {
        dbk_log_fail(log, -rc, "fdatasync");
        return false;
    }
    return true;
}

bool dbk_tail_sync(struct dbk_log *log)
{
    struct dbk_tail *tail = &log->tail;
    if (!sync_file(log, tail->file)) {
        return false;
    }
    tail->durable_lsn = dbk_lsn(tail->segment_no, tail->offset);
    atomic_store(&log->durable_lsn, tail->durable_lsn);
    tail->first_unsynced_us = DAYBOOK_NO_DEADLINE;
    tail->last_sync_us = dbk_log_mono(log);
    tail->noted = false;
    return true;
}

/* Seals what stands in `group` and writes it at the tail. */
static bool tail_write(struct dbk_log *log, uint8_t *group, size_t frames_len, uint16_t flags)
{
    struct dbk_tail *tail = &log->tail;
    struct dbk_group_header header = {
        .lsn = dbk_lsn(tail->segment_no, tail->offset),
        .group_no = tail->group_no + 1,
        .durable_lsn = tail->durable_lsn,
        .prev_hcrc = tail->prev_hcrc,
        .realtime_ms = (uint64_t)(log->os->realtime_us(log->os) / 1000),
        .epoch = log->epoch,
        .flags = flags,
    };
    if (dbk_fault(DBK_FAULT_PROOF_TOO_HIGH)) {
        header.durable_lsn =
            header.lsn + dbk_round_up(DBK_GROUP_HEADER_BYTES + frames_len, DBK_BLOCK_BYTES);
    }
    size_t len = dbk_group_seal(group, frames_len, tail->salt, &header);
    dbk_assert(len <= tail->segment_bytes - tail->offset);
    int rc = dbk_write_all(log->os, tail->file, group, len, tail->offset);
    if (rc < 0) {
        dbk_log_fail(log, -rc, "write");
        return false;
    }
    tail->offset += (uint32_t)len;
    tail->group_no = header.group_no;
    tail->prev_hcrc = header.hcrc;
    atomic_fetch_add_explicit(&log->frames, header.frame_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->log_bytes, len, memory_order_relaxed);
    tail->frames += header.frame_count;
    if (tail->first_unsynced_us == DAYBOOK_NO_DEADLINE) {
        tail->first_unsynced_us = dbk_log_mono(log);
    }
    tail->noted = false;
    atomic_fetch_add_explicit(&log->groups, 1, memory_order_relaxed);
    return true;
}

bool dbk_tail_write_frames(struct dbk_log *log, uint8_t *group, size_t frames_len)
{
    return tail_write(log, group, frames_len, DBK_GROUP_SYNC_REQUIRED);
}

bool dbk_tail_write_mark(struct dbk_log *log, uint16_t flags)
{
    dbk_mutex_lock(&log->stage_lock);
    /* What was staged meanwhile counts on the room that it saw, and its group says what the mark would. */
    size_t kept = flags == DBK_GROUP_NOTE && log->spare.file < 0 ? housekeeping_reserve(log) : 0;
    bool room = log->tail_room >= DBK_BLOCK_BYTES + kept && stage_is_empty(log->open_stage);
    if (room) {
        log->tail_room -= DBK_BLOCK_BYTES;
    }
    dbk_mutex_unlock(&log->stage_lock);
    /* A mark is worth nothing by itself: without room the next opening just recovers. */
    return room && tail_write(log, log->link_memory, 0, flags);
}

size_t dbk_link_encode(struct dbk_log *log, const struct dbk_link_frame *link)
{
    struct dbk_consumer_restated consumers[DBK_STATE_CONSUMERS_MAX];
    /* What is stored may be from before the limit was lowered, and its segments gone: it was relocated. */
    uint64_t stored = atomic_load(&dbk_state_room(log->state)->stored) + log->staged_total;
    struct dbk_state_frame frame = {
        .next_position = log->next_position,
        .newest_accepted_at_us = log->newest_accepted_at_us,
        .next_consumer_id = dbk_state_next_consumer_id(log->state),
        .events_max =
            stored > log->head.capacity.events_max ? stored : log->head.capacity.events_max,
        .bytes_max = log->bytes_max,
        .consumer_count = dbk_state_consumer_count(log->state),
    };
    uint8_t *out = log->link_memory + DBK_GROUP_HEADER_BYTES;
    if (!dbk_fault(DBK_FAULT_COUNTERS_NOT_RESTATED)) {
        dbk_state_counters(log->state, &frame.counters);
    }
    for (uint32_t i = 0; i < frame.consumer_count; i++) {
        dbk_state_consumer_restate(log->state, i, &consumers[i]);
    }
    frame.orphan_count =
        dbk_state_orphans(log->state, INT64_MIN, log->orphans, dbk_orphans_cap(log));
    size_t len = dbk_link_frame_encode(out, link);
    len += dbk_state_frame_encode(out + len, &frame, 0, consumers, log->orphans);
    return len;
}

struct dbk_link_frame dbk_tail_describe(const struct dbk_log *log, uint32_t to)
{
    const struct dbk_tail *tail = &log->tail;
    return (struct dbk_link_frame){.predecessor = tail->segment_no,
                                   .skipped = to - tail->segment_no - 1,
                                   .end = tail->offset,
                                   .last_hcrc = tail->prev_hcrc,
                                   .last_group_no = tail->group_no,
                                   .events = tail->events,
                                   .frames = tail->frames};
}

/* The tail moves to a prepared segment whose first group is the LINK in link_memory. */
static bool tail_move(struct dbk_log *log, const struct dbk_spare *to, size_t link_len)
{
    struct dbk_tail *tail = &log->tail;
    int old_file = tail->file;
    uint32_t old_segment_no = tail->segment_no;
    uint32_t old_end = tail->offset;
    tail->file = to->file;
    tail->segment_no = to->segment_no;
    tail->segment_bytes = to->segment_bytes;
    tail->offset = DBK_BLOCK_BYTES;
    tail->salt = to->salt;
    tail->events = 0;
    tail->frames = 0;
    bool ok = tail_write(log, log->link_memory, link_len, DBK_GROUP_LINK | DBK_GROUP_SYNC_REQUIRED);
    if (old_file >= 0) {
        /* Everything in it is synced; an error of closing it can tell nothing new. */
        (void)log->os->close(log->os, old_file);
        dbk_segment_sealed(log, old_segment_no, old_end);
    }
    return ok;
}

/* [state+stage] Encodes the LINK of the segment that the tail moves to, and counts on its room from here
 * on. Returns the length of its frames. */
static size_t enter_segment(struct dbk_log *log, const struct dbk_link_frame *link,
                            const struct dbk_spare *to)
{
    size_t len = dbk_link_encode(log, link);
    size_t padded =
        dbk_round_up(DBK_GROUP_HEADER_BYTES + len + DBK_END_MARK_BYTES, DBK_BLOCK_BYTES);
    log->tail_room = to->segment_bytes - DBK_BLOCK_BYTES - (uint32_t)padded;
    log->tail_segment_no = to->segment_no;
    log->tail_segment_bytes = to->segment_bytes;
    return len;
}

bool dbk_tail_link(struct dbk_log *log, const struct dbk_link_frame *link,
                   const struct dbk_spare *to)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    size_t len = enter_segment(log, link, to);
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
    return tail_move(log, to, len) && dbk_tail_sync(log);
}

bool dbk_tail_make_room(struct dbk_log *log, size_t bytes, bool *ret_moved)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    /* In one hold: what is staged meanwhile sees room in the old segment or in the new one. */
    struct dbk_spare to = log->spare;
    size_t len = 0;
    bool moves = bytes > log->tail_room && to.file >= 0;
    if (moves) {
        struct dbk_link_frame link = dbk_tail_describe(log, to.segment_no);
        log->spare.file = -1;
        len = enter_segment(log, &link, &to);
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
    *ret_moved = moves;
    if (!moves) {
        return true;
    }
    /* A successor is only used after its predecessor was synced: its LINK proves that. */
    return (log->tail.first_unsynced_us == DAYBOOK_NO_DEADLINE || dbk_tail_sync(log)) &&
           tail_move(log, &to, len) && dbk_tail_sync(log);
}

/* ---- sealing ----------------------------------------------------------------------------------- */

int64_t dbk_log_prune_now(struct dbk_log *log, int64_t now_us)
{
    enum { HOUR_S = 3600, STOOD_S = 600 };
    int64_t mono = dbk_log_mono(log);
    if (log->brake_base_us == DAYBOOK_TIME_UNSET || dbk_fault(DBK_FAULT_CLOCK_BRAKE_OFF)) {
        return now_us; /* nothing was ever accepted, so there is nothing to prune */
    }
    int64_t limit =
        log->brake_base_us + (mono - log->brake_base_mono_us) + HOUR_S * INT64_C(1000000);
    if (now_us <= limit) {
        log->brake_since_mono_us = DAYBOOK_NO_DEADLINE;
        return now_us;
    }
    if (log->brake_since_mono_us == DAYBOOK_NO_DEADLINE) {
        log->brake_since_mono_us = mono;
    }
    if (mono - log->brake_since_mono_us >= STOOD_S * INT64_C(1000000)) {
        log->brake_base_us = now_us;
        log->brake_base_mono_us = mono;
        log->brake_since_mono_us = DAYBOOK_NO_DEADLINE;
        return now_us;
    }
    return limit;
}

/* [state+stage] Takes the last `count` events out again: they do not fit any more. */
static void cut_events(struct dbk_log *log, struct dbk_stage *stage, uint64_t count)
{
    stage->group->retained = atomic_load(&dbk_state_room(log->state)->stored);
    while (count-- > 0 && stage->staged_count > 0) {
        struct dbk_staged *last = &stage->staged[--stage->staged_count];
        dbk_state_id_unstage(log->state, last->id_hash, stage->number_base + stage->staged_count);
        stage->group->cut_from = last->position;
        stage->events_len = last->offset - DBK_FRAME_HEADER_BYTES;
        log->staged_total--;
    }
}

/* [stage] By how many events one more would exceed max_events. */
static uint64_t over_limit(const struct dbk_log *log)
{
    uint64_t total = atomic_load(&dbk_state_room(log->state)->stored) + log->staged_total + 1;
    return total > log->head.capacity.events_max ? total - log->head.capacity.events_max : 0;
}

/* [state+stage] P5: drops so many events, or none where their frames or leases would not fit. */
static uint32_t drop(struct dbk_log *log, uint32_t events, int64_t now_us,
                     struct dbk_forget_list *list, uint32_t *ret_orphans)
{
    uint32_t cap = forget_cap(log);
    uint32_t live = dbk_state_orphans(log->state, now_us, NULL, 0);
    uint32_t left = live < dbk_orphans_cap(log) ? dbk_orphans_cap(log) - live : 0;
    return dbk_state_drop(log->state, events, now_us, list, log->orphans, left < cap ? left : cap,
                          ret_orphans);
}

/* [state+stage] P3, P4, P5: makes room for the events of this group, and cuts those for which there is
 * none any more. Appends the FORGET frames to the stage. */
static void choose_room(struct dbk_log *log, struct dbk_stage *stage)
{
    const struct dbk_room *room = dbk_state_room(log->state);
    uint64_t events_max =
        log->head.capacity.events_max + (dbk_fault(DBK_FAULT_CAPACITY_OFF_BY_ONE) ? 1 : 0);
    uint32_t cap = forget_cap(log);
    uint32_t orphans = 0;
    struct dbk_forget_list *list = &log->forget;
    if (stage->staged_count == 0) {
        return;
    }
    list->count = 0;
    list->max = cap;
    uint32_t needed = stage->forget_needed < cap ? stage->forget_needed : cap;
    uint32_t prune = cap - needed < DBK_PRUNE_AT_APPEND ? cap - needed : DBK_PRUNE_AT_APPEND;
    dbk_state_prune(log->state, dbk_log_prune_now(log, stage->now_us), prune, list);
    uint64_t total = atomic_load(&room->stored) + stage->staged_count;
    if (total > events_max) {
        uint64_t over = total - events_max;
        total -= dbk_state_reclaim(log->state, over < cap ? (uint32_t)over : cap, list);
    }
    if (total > events_max && log->head.capacity.policy == DAYBOOK_POLICY_DROP_OLDEST &&
        total - events_max <= cap) {
        total -= drop(log, (uint32_t)(total - events_max), stage->now_us, list, &orphans);
        stage->sync_required = true;
    }
    if (total > events_max) {
        cut_events(log, stage, total - events_max);
    }
    if (list->count > 0) {
        dbk_assert(stage->delivery_len + dbk_forget_frames_bytes(list, orphans) <=
                   log->delivery_area);
        stage->delivery_len += dbk_forget_frames(log, stage->delivery + stage->delivery_len, list,
                                                 log->orphans, orphans);
    }
}

size_t dbk_give_up_bytes(const struct dbk_log *log)
{
    return forget_reserve(log);
}

bool dbk_needs_steps(const struct dbk_log *log)
{
    uint64_t over = over_limit(log);
    return over > (uint64_t)log->open_stage->forget_needed + 1 && over > forget_cap(log);
}

bool dbk_give_up(struct dbk_log *log, int64_t now_us, enum dbk_give_up what)
{
    struct dbk_stage *stage = log->open_stage;
    struct dbk_forget_list *list = &log->forget;
    size_t frames = DBK_FORGET_REASONS * DBK_FORGET_FRAME_BYTES(0, 0);
    uint32_t orphans = 0;
    list->count = 0;
    list->max = what == DBK_GIVE_UP_DROPPABLE ? forget_cap(log)
                                              : (uint32_t)((forget_reserve(log) - frames) / 16);
    dbk_state_prune(log->state, dbk_log_prune_now(log, now_us), DBK_PRUNE_AT_APPEND, list);
    uint64_t over = over_limit(log);
    dbk_state_reclaim(log->state, over < GIVE_UP_STEP ? (uint32_t)over : GIVE_UP_STEP, list);
    over = over_limit(log);
    if (what == DBK_GIVE_UP_DROPPABLE &&
        over <= atomic_load(&dbk_state_room(log->state)->droppable)) {
        /* As many as their leases leave room for. */
        uint32_t n = over < GIVE_UP_STEP ? (uint32_t)over : GIVE_UP_STEP;
        while (n > 0 && drop(log, n, now_us, list, &orphans) == 0) {
            n /= 2;
        }
        stage->sync_required = stage->sync_required || n > 0;
    }
    if (list->count > 0) {
        stage->delivery_len += dbk_forget_frames(log, stage->delivery + stage->delivery_len, list,
                                                 log->orphans, orphans);
    }
    return list->count > 0;
}

void dbk_append_refused(struct dbk_log *log, int64_t now_us)
{
    bool done = false;
    dbk_mutex_lock(&log->state_lock);
    (void)dbk_log_prune_now(log, now_us); /* a clock that has leapt stands from here on (P3) */
    if (atomic_load(&dbk_state_room(log->state)->givable) > 0) {
        dbk_mutex_lock(&log->stage_lock);
        done = !dbk_log_has_failed(log) && !log->read_only &&
               dbk_stage_fit(log, dbk_give_up_bytes(log), 0, DBK_OF_CALLERS) == DBK_FIT_OK &&
               dbk_give_up(log, now_us, DBK_GIVE_UP_DELIVERED);
        dbk_mutex_unlock(&log->stage_lock);
    }
    dbk_mutex_unlock(&log->state_lock);
    if (done) {
        dbk_commit_kick(log);
    }
}

/* What a frozen stage needs to be written. */
struct sealed {
    struct dbk_stage *stage;
    bool moves; /* the tail moves to `to` first */
    struct dbk_spare to;
    size_t link_len;
};

/* Where the events of a group that is being sealed will stand: what is applied so far stands before. */
static uint64_t first_event_lsn(const struct dbk_log *log, const struct dbk_stage *stage,
                                const struct sealed *sealed)
{
    uint64_t group = dbk_lsn(log->tail.segment_no, log->tail.offset);
    if (sealed->moves) {
        size_t link = dbk_round_up(DBK_GROUP_HEADER_BYTES + sealed->link_len + DBK_END_MARK_BYTES,
                                   DBK_BLOCK_BYTES);
        group = dbk_lsn(sealed->to.segment_no, DBK_BLOCK_BYTES + link);
    }
    return stage->delivery_len + stage->events_len == 0
               ? group
               : group + DBK_GROUP_HEADER_BYTES + stage->delivery_len;
}

/* Freezes the open stage and gives it its place. False: nothing is staged. */
static bool seal(struct dbk_log *log, struct sealed *ret)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    struct dbk_stage *stage = log->open_stage;
    if (stage_is_empty(stage) || dbk_log_has_failed(log)) {
        dbk_mutex_unlock(&log->stage_lock);
        dbk_mutex_unlock(&log->state_lock);
        return false;
    }
    choose_room(log, stage);
    size_t frames = stage->delivery_len + stage->events_len;
    size_t padded = frames == 0 ? 0
                                : dbk_round_up(DBK_GROUP_HEADER_BYTES + frames + DBK_END_MARK_BYTES,
                                               DBK_BLOCK_BYTES);
    ret->stage = stage;
    ret->moves = padded > log->tail_room;
    if (ret->moves) {
        dbk_assert(log->spare.file >= 0);
        struct dbk_link_frame link = dbk_tail_describe(log, log->spare.segment_no);
        ret->to = log->spare;
        log->spare.file = -1;
        ret->link_len = enter_segment(log, &link, &ret->to);
    }
    dbk_assert(padded <= log->tail_room);
    log->tail_room -= (uint32_t)padded;
    if (log->checkpoints.phase == DBK_CHECKPOINT_WANTED) {
        dbk_checkpoint_take(log, first_event_lsn(log, stage, ret));
    }
    log->frozen = stage;
    log->open_stage = stage == &log->stages[0] ? &log->stages[1] : &log->stages[0];
    log->open_stage->group = group_take(log);
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
    if (ret->moves) {
        atomic_fetch_add(&log->housekeeper_word, 1);
        dbk_futex_wake_all(&log->housekeeper_word);
    }
    return true;
}

static bool write_sealed(struct dbk_log *log, const struct sealed *sealed)
{
    struct dbk_stage *stage = sealed->stage;
    if (sealed->moves) {
        /* A successor is only used after its predecessor was synced: its LINK proves that. */
        if (log->tail.first_unsynced_us != DAYBOOK_NO_DEADLINE && !dbk_tail_sync(log)) {
            return false;
        }
        if (!tail_move(log, &sealed->to, sealed->link_len)) {
            return false;
        }
    }
    if (stage->delivery_len + stage->events_len == 0) {
        return true; /* everything was cut, or only waiters were here */
    }
    uint8_t *events = stage->memory + DBK_GROUP_HEADER_BYTES + log->delivery_area;
    uint8_t *group = events - stage->delivery_len - DBK_GROUP_HEADER_BYTES;
    memcpy(group + DBK_GROUP_HEADER_BYTES, stage->delivery, stage->delivery_len);
    uint16_t flags = stage->sync_required ? DBK_GROUP_SYNC_REQUIRED : 0;
    if (stage->staged_count > 0) {
        flags |= DBK_GROUP_HAS_EVENTS;
    }
    stage->first_lsn = dbk_lsn(log->tail.segment_no,
                               log->tail.offset + DBK_GROUP_HEADER_BYTES + stage->delivery_len);
    if (!tail_write(log, group, stage->delivery_len + stage->events_len, flags)) {
        return false;
    }
    log->tail.events += stage->staged_count;
    return true;
}

static void histogram_add(struct daybook_histogram *histogram, uint64_t value)
{
    unsigned bucket = 0;
    while (bucket + 1 < DAYBOOK_HISTOGRAM_BUCKETS && value >= (UINT64_C(1) << bucket)) {
        bucket++;
    }
    histogram->count++;
    histogram->sum += value;
    histogram->buckets[bucket]++;
}

/* [state] Notes where the records of a written group stand. */
static void note_places(struct dbk_log *log, const struct dbk_stage *stage)
{
    struct dbk_group_header header = {
        .lsn = stage->first_lsn - stage->delivery_len - DBK_GROUP_HEADER_BYTES,
        .body_len = (uint32_t)stage->delivery_len + DBK_END_MARK_BYTES};
    const uint8_t *events = stage->memory + DBK_GROUP_HEADER_BYTES + log->delivery_area;
    const uint8_t *group = events - stage->delivery_len - DBK_GROUP_HEADER_BYTES;
    size_t at = DBK_GROUP_HEADER_BYTES;
    struct dbk_frame frame;
    while (dbk_frame_next(group, &header, &at, &frame)) {
        dbk_places_note(&log->places, &frame);
    }
}

/* Both locks are held for as long as the tables let the processor wait: it is told ahead. */
static void prefetch(const struct dbk_log *log, const struct dbk_stage *stage, uint32_t i)
{
    if (i < stage->staged_count) {
        dbk_state_prefetch_id(log->state, stage->staged[i].id_hash);
        dbk_state_prefetch_key(log->state, stage->staged[i].key_hash);
    }
}

/* [state] The second step, once the first has arrived. */
static void prefetch_list(const struct dbk_log *log, const struct dbk_stage *stage, uint32_t i)
{
    if (i < stage->staged_count) {
        dbk_state_prefetch_list(log->state, stage->staged[i].key_hash);
    }
}

/* [state+stage] Makes the events from `first` on visible, a step of them. */
static void publish_step(struct dbk_log *log, const struct dbk_stage *stage, uint32_t first)
{
    uint32_t left = stage->staged_count - first;
    uint32_t end = first + (left < PUBLISH_STEP ? left : PUBLISH_STEP);
    for (uint32_t i = first; i < end; i++) {
        const struct dbk_staged *staged = &stage->staged[i];
        prefetch(log, stage, i + PREFETCH_AHEAD);
        prefetch_list(log, stage, i + PREFETCH_AHEAD / 2);
        uint64_t lsn = stage->first_lsn + staged->offset;
        struct dbk_event_meta meta = {
            .position = staged->position,
            .id_hash = staged->id_hash,
            .key_hash = staged->key_hash,
            .observed_at_us = staged->observed_at_us,
            .accepted_at_us = staged->accepted_at_us,
            .place = {dbk_lsn_segment(lsn), dbk_lsn_offset(lsn), staged->entry_bytes},
            .payload_bytes = staged->payload_bytes,
            .row_version = staged->row_version,
            .newer = staged->row_version > DBK_ROW_VERSION,
        };
        dbk_state_publish(log->state, &meta, stage->number_base + i);
    }
    log->staged_total -= end - first;
}

/* Answers a durable group, makes its events visible and empties the stage. Returns its submissions. */
static struct daybook_submission *publish(struct dbk_log *log, struct dbk_stage *stage,
                                          int64_t took_us)
{
    for (uint32_t i = 0; i < PREFETCH_AHEAD; i++) {
        prefetch(log, stage, i);
    }
    dbk_mutex_lock(&log->state_lock);
    /* They may go: the group is durable. Whoever of them looks needs the state lock, and so sees it
     * published; whoever appends again meets the stage lock between two steps. */
    group_phase(stage->group, DBK_PHASE_DONE);
    for (uint32_t i = 0; i < stage->staged_count; i += PUBLISH_STEP) {
        dbk_mutex_lock(&log->stage_lock);
        publish_step(log, stage, i);
        dbk_mutex_unlock(&log->stage_lock);
    }
    dbk_mutex_lock(&log->stage_lock);
    if (stage->staged_count > 0) {
        if (log->brake_base_us == DAYBOOK_TIME_UNSET) {
            log->brake_base_us = stage->staged[0].accepted_at_us;
            log->brake_base_mono_us = dbk_log_mono(log);
        }
        histogram_add(&log->histograms.commit_us, (uint64_t)(took_us > 0 ? took_us : 0));
        histogram_add(&log->histograms.batch, stage->staged_count);
    }
    if (stage->has_records) {
        note_places(log, stage);
    }
    struct daybook_submission *submissions = stage->submissions;
    log->frozen = NULL;
    stage_reset(stage);
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
    return submissions;
}

/* Commits what is staged, as one group. Busy. False: nothing was staged, or the journal failed. */
static bool commit_once(struct dbk_log *log)
{
    struct sealed sealed;
    if (!seal(log, &sealed)) {
        return false;
    }
    struct dbk_stage *stage = sealed.stage;
    struct dbk_group *group = stage->group;
    bool has_events = stage->staged_count > 0;
    int64_t began = dbk_log_mono(log);
    if (!write_sealed(log, &sealed)) {
        return false;
    }
    group_phase(group, DBK_PHASE_WRITTEN);
    bool needs_sync = has_events || stage->sync_required || sealed.moves ||
                      dbk_log_mono(log) - log->tail.first_unsynced_us >= DBK_SYNC_LAZY_US;
    bool answer_first = dbk_fault(DBK_FAULT_ANSWER_BEFORE_SYNC);
    if (needs_sync && !answer_first && !dbk_tail_sync(log)) {
        return false;
    }
    struct daybook_submission *submissions = publish(log, stage, dbk_log_mono(log) - began);
    dbk_submissions_end(submissions, group);
    dbk_group_unref(log, group);
    if (has_events) {
        atomic_fetch_add(&log->changes, 1);
        dbk_futex_wake_all(&log->changes);
    }
    if (needs_sync && answer_first) {
        (void)dbk_tail_sync(log);
    }
    return true;
}

/* ---- who commits ------------------------------------------------------------------------------- */

bool dbk_busy_try(struct dbk_log *log)
{
    dbk_mutex_lock(&log->stage_lock);
    bool mine = !log->busy;
    log->busy = true;
    dbk_mutex_unlock(&log->stage_lock);
    return mine;
}

void dbk_busy_end(struct dbk_log *log)
{
    for (;;) {
        dbk_mutex_lock(&log->stage_lock);
        if (dbk_log_has_failed(log)) {
            dbk_mutex_unlock(&log->stage_lock);
            return;
        }
        if (stage_is_empty(log->open_stage)) {
            log->busy = false;
            dbk_mutex_unlock(&log->stage_lock);
            return;
        }
        dbk_mutex_unlock(&log->stage_lock);
        if (log->committer_started) {
            atomic_fetch_add(&log->committer_word, 1);
            dbk_futex_wake_one(&log->committer_word);
            return;
        }
        commit_once(log);
    }
}

void dbk_commit_kick(struct dbk_log *log)
{
    if (!dbk_busy_try(log)) {
        return;
    }
    dbk_busy_end(log);
}

void *dbk_committer_run(void *arg)
{
    struct dbk_log *log = arg;
    uint32_t seen = 0;
    for (;;) {
        /* Read before the word: whoever handed something over did so before it was told to stop. */
        bool stop = atomic_load(&log->stop) == DBK_STOP_ALL;
        uint32_t word = atomic_load(&log->committer_word);
        if (word == seen) {
            if (stop) {
                return NULL;
            }
            dbk_futex_wait(&log->committer_word, seen, -1);
            continue;
        }
        seen = word;
        for (;;) {
            commit_once(log);
            dbk_relocation_if_ready(log);
            dbk_mutex_lock(&log->stage_lock);
            bool again = !stage_is_empty(log->open_stage) && !dbk_log_has_failed(log);
            if (!again && !dbk_log_has_failed(log)) {
                log->busy = false;
            }
            dbk_mutex_unlock(&log->stage_lock);
            if (!again) {
                break;
            }
        }
    }
}

/* Waits until the word is beyond STAGED. */
static enum daybook_code wait_for_phase(const struct dbk_log *log, _Atomic uint32_t *word,
                                        int64_t deadline_us)
{
    for (;;) {
        uint32_t phase = atomic_load(word);
        if (phase == DBK_PHASE_FAILED) {
            return DAYBOOK_BACKEND;
        }
        if (phase != DBK_PHASE_STAGED) {
            return DAYBOOK_OK;
        }
        int64_t left = -1;
        if (deadline_us != DAYBOOK_NO_DEADLINE) {
            left = deadline_us - dbk_log_mono(log);
            if (left <= 0) {
                return DAYBOOK_TIMED_OUT;
            }
        }
        dbk_futex_wait(word, phase, left);
    }
}

enum daybook_code dbk_commit_wait_synced(struct dbk_log *log, struct dbk_group *group, bool mine,
                                         int64_t deadline_us)
{
    if (mine) {
        commit_once(log);
        dbk_busy_end(log);
    }
    return wait_for_phase(log, &group->done, deadline_us);
}

enum daybook_code dbk_commit_wait(struct dbk_log *log, struct dbk_group *group,
                                  enum dbk_wait_for level, int64_t deadline_us)
{
    _Atomic uint32_t *word = level == DBK_WAIT_WRITTEN ? &group->written : &group->done;
    if (atomic_load(word) == DBK_PHASE_STAGED && dbk_busy_try(log)) {
        commit_once(log);
        dbk_busy_end(log);
    }
    if (level == DBK_WAIT_WRITTEN) {
        atomic_fetch_add(&group->written_waiters, 1);
    }
    enum daybook_code code = wait_for_phase(log, word, deadline_us);
    dbk_group_unref(log, group);
    return code;
}

/* ---- space ------------------------------------------------------------------------------------- */

void dbk_log_space_changed(struct dbk_log *log)
{
    dbk_mutex_lock(&log->stage_lock);
    struct daybook_submission *stalled = log->stalled;
    log->stalled = NULL;
    atomic_fetch_add(&log->space_word, 1);
    dbk_mutex_unlock(&log->stage_lock);
    dbk_futex_wake_all(&log->space_word);
    dbk_submissions_resume(stalled);
}

void dbk_space_kick(struct dbk_log *log)
{
    if (!log->housekeeper_started) {
        dbk_prepare_spare(log);
        return;
    }
    atomic_fetch_add(&log->housekeeper_word, 1);
    dbk_futex_wake_all(&log->housekeeper_word);
}

bool dbk_space_wait(struct dbk_log *log, uint32_t seen, int64_t deadline_us)
{
    if (!log->housekeeper_started) {
        dbk_prepare_spare(log);
        return true;
    }
    int64_t left = -1;
    if (deadline_us != DAYBOOK_NO_DEADLINE) {
        left = deadline_us - dbk_log_mono(log);
        if (left <= 0) {
            return false;
        }
    }
    dbk_space_kick(log);
    dbk_futex_wait(&log->space_word, seen, left);
    return true;
}
