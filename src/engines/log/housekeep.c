/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens on its own time: the next segment is prepared, what was only written is synced within
 * 100 ms, an idle journal notes how far it is durable, segments in which nothing is held are removed.
 *
 * Run by the housekeeper thread, or inline (`dbk_log_housekeep`). Never on the commit path; takes `busy`
 * only where it is free, so that it never stands in the way of a commit.
 */
#include "engines/log/log_impl.h"

#include <errno.h>

#include "base/error.h"
#include "base/fault.h"
#include "engines/log/log.h"
#include "engines/log/segment_index.h"

enum {
    RETRY_US = 1000000,       /* between attempts to prepare a segment */
    WATCH_US = 500000,        /* between looks at how much of the disk is left */
    UNLINK_PACE_US = 1000000, /* between removals, so that a discarding file system keeps up */
    IDLE_US = 100000,         /* until an idle journal is noted */
    FILL_PAUSE_US = 3000      /* after each 256 KiB: about 80 MB/s */
};

/* ---- the next segment -------------------------------------------------------------------------- */

static void set_space(struct dbk_log *log, enum dbk_space space, const struct dbk_spare *spare)
{
    dbk_mutex_lock(&log->stage_lock);
    log->space = space;
    if (spare != NULL) {
        log->spare = *spare;
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_log_space_changed(log);
}

/* Whether limits allow another file of `bytes`. */
static enum dbk_space allowed(struct dbk_log *log, uint32_t bytes)
{
    struct dbk_statfs st;
    /* Whoever delivers later needs a segment in reserve, and what indexes and checkpoints take beside. */
    uint64_t left_free = log->append_only ? log->segment_bytes + log->segment_bytes / 4 +
                                                dbk_segment_indexes_to_come(log)
                                          : 0;
    if (atomic_load(&log->file_bytes) + bytes + left_free > log->bytes_max) {
        return DBK_SPACE_NO_BYTES;
    }
    if (log->os->statfs(log->os, log->path, &st) == 0 &&
        st.free_bytes < log->free_disk_min + bytes) {
        return DBK_SPACE_NO_DISK;
    }
    return DBK_SPACE_OK;
}

void dbk_watch_disk(struct dbk_log *log)
{
    struct dbk_statfs st;
    log->disk_watched_us = dbk_log_mono(log);
    if (log->os->statfs(log->os, log->path, &st) == 0) {
        dbk_mutex_lock(&log->stage_lock);
        log->disk_low = st.free_bytes < log->free_disk_min;
        dbk_mutex_unlock(&log->stage_lock);
    }
}

static uint32_t next_number(struct dbk_log *log)
{
    dbk_mutex_lock(&log->segments_lock);
    uint32_t number = log->segments[log->segment_count - 1].segment_no + 1;
    dbk_mutex_unlock(&log->segments_lock);
    return number;
}

/* ---- the tail ---------------------------------------------------------------------------------- */

/* Busy: makes what was synced last provably durable, which only a later header does: a NOTE, or, where the
 * segment is full to its last block, the LINK of the prepared one. Where neither can be written now it is
 * tried again. */
static bool write_note(struct dbk_log *log)
{
    bool moved = false;
    if (!dbk_fault(DBK_FAULT_FULL_TAIL_UNNOTED) &&
        !dbk_tail_make_room(log, DBK_BLOCK_BYTES, &moved)) {
        return false;
    }
    if (!moved && (!dbk_tail_write_mark(log, DBK_GROUP_NOTE) || !dbk_tail_sync(log))) {
        return false;
    }
    log->tail.noted = true;
    return true;
}

/* Syncs what was written long enough ago; writes the NOTE of an idle journal. */
static bool settle_tail(struct dbk_log *log)
{
    bool done = false;
    if (!dbk_busy_try(log)) {
        return false;
    }
    struct dbk_tail *tail = &log->tail;
    int64_t now = dbk_log_mono(log);
    if (tail->first_unsynced_us != DAYBOOK_NO_DEADLINE) {
        if (now - tail->first_unsynced_us >= DBK_SYNC_LAZY_US) {
            done = dbk_tail_sync(log);
        }
    } else if (!tail->noted && tail->group_no > 0 && now - tail->last_sync_us >= IDLE_US) {
        done = write_note(log);
    }
    dbk_busy_end(log);
    return done;
}

/* Whether a segment of which this much is filled will be there in time: whole when the tail is half used. */
static bool is_in_time(struct dbk_log *log, uint32_t filled, uint32_t bytes)
{
    dbk_mutex_lock(&log->stage_lock);
    uint64_t used = log->tail_segment_bytes - log->tail_room;
    uint64_t whole = log->tail_segment_bytes;
    dbk_mutex_unlock(&log->stage_lock);
    return filled * whole >= 2 * used * bytes;
}

bool dbk_fill_pause(struct dbk_log *log, uint32_t filled, uint32_t bytes)
{
    if (!log->housekeeper_started) {
        return true;
    }
    settle_tail(log);
    if (is_in_time(log, filled, bytes)) {
        log->os->sleep_us(log->os, FILL_PAUSE_US);
    }
    return atomic_load(&log->stop) == DBK_STOP_NONE;
}

/* ---- making room --------------------------------------------------------------------------------- */

/* [state+stage] Whether the oldest stored event stands in the lowest segment that holds any, is delivered,
 * and a step of giving up fits. */
static bool front_is_delivered(struct dbk_log *log, uint32_t segment_no, size_t bytes)
{
    struct dbk_state_stats stats;
    dbk_state_stats(log->state, &stats);
    return stats.stored_events > 0 && dbk_state_segment_events(log->state, segment_no) > 0 &&
           dbk_state_first_givable(log->state) == stats.oldest_position &&
           dbk_stage_fit(log, bytes, 0, DBK_OF_HOUSEKEEPING) == DBK_FIT_OK;
}

/* Delivered events are given up, lowest first, until the oldest segment is empty
 * (P4), in steps that share a group as far as nobody commits between. Without relocation an undelivered
 * event keeps its segment, so only a front that is delivered helps. */
static bool give_up_front(struct dbk_log *log)
{
    enum { STEPS_MAX = 256, STEP_EVENTS = 1024, STEP_RANGES = 16 };
    size_t bytes = DBK_FORGET_REASONS * DBK_FORGET_FRAME_BYTES(0, 0) + 16 * STEP_RANGES;
    uint32_t second;
    uint32_t lowest = dbk_segment_lowest(log, &second);
    bool done = false;
    bool more = true;
    for (unsigned i = 0; more && i < STEPS_MAX; i++) {
        dbk_mutex_lock(&log->state_lock);
        dbk_mutex_lock(&log->stage_lock);
        more = !dbk_log_has_failed(log) && front_is_delivered(log, lowest, bytes);
        if (more) {
            struct dbk_stage *stage = log->open_stage;
            log->forget.count = 0;
            log->forget.max = STEP_RANGES;
            dbk_state_reclaim(log->state, STEP_EVENTS, &log->forget);
            more = log->forget.count > 0;
            done = done || more;
            if (more) {
                stage->delivery_len += dbk_forget_frames(log, stage->delivery + stage->delivery_len,
                                                         &log->forget, NULL, 0);
            }
        }
        dbk_mutex_unlock(&log->stage_lock);
        dbk_mutex_unlock(&log->state_lock);
        dbk_log_let_others(log);
    }
    if (done) {
        dbk_commit_kick(log);
    }
    return done;
}

/* ---- trimming ---------------------------------------------------------------------------------- */

/* Whether a segment that holds no event is needed all the same. Before the first event was relocated what else
 * stands in it speaks of its own and of older events, and its quarantines are theirs. From then on the deliveries
 * of events that stand elsewhere go with it: only if both checkpoints hold them. */
static bool is_needed_without_events(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->stage_lock);
    bool relocated = log->relocated || log->trim.by_checkpoint;
    dbk_mutex_unlock(&log->stage_lock);
    if (!relocated) {
        return false;
    }
    return !dbk_checkpoint_covers(log, segment_no) || dbk_segment_has_evidence(log, segment_no);
}

/* The segment after `segment_no`; itself if it is the last. *ret_events: whether any stands in `segment_no`. */
static uint32_t next_segment(struct dbk_log *log, uint32_t segment_no, bool *ret_events)
{
    uint32_t next = segment_no;
    dbk_mutex_lock(&log->state_lock);
    *ret_events = dbk_state_segment_events(log->state, segment_no) > 0;
    dbk_mutex_lock(&log->segments_lock);
    for (uint32_t i = 0; i < log->segment_count && next == segment_no; i++) {
        if (log->segments[i].segment_no > segment_no) {
            next = log->segments[i].segment_no;
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    dbk_mutex_unlock(&log->state_lock);
    return next;
}

/* The lowest segment that is still needed. */
static uint32_t lowest_needed(struct dbk_log *log)
{
    uint32_t second;
    uint32_t lowest = dbk_segment_lowest(log, &second);
    dbk_mutex_lock(&log->stage_lock);
    uint32_t tail = log->tail_segment_no;
    dbk_mutex_unlock(&log->stage_lock);
    bool events = false;
    while (lowest < tail) {
        uint32_t next = next_segment(log, lowest, &events);
        if (events || next == lowest || is_needed_without_events(log, lowest)) {
            break;
        }
        lowest = next;
    }
    return lowest;
}

/* Logs, durably, that segments below `lowest` are not needed any more. */
static bool log_trim(struct dbk_log *log, uint32_t lowest)
{
    dbk_mutex_lock(&log->stage_lock);
    if (dbk_log_has_failed(log) ||
        dbk_stage_fit(log, DBK_TRIM_FRAME_BYTES, 0, DBK_OF_TRIM) != DBK_FIT_OK) {
        dbk_mutex_unlock(&log->stage_lock);
        return false;
    }
    struct dbk_stage *stage = log->open_stage;
    struct dbk_trim_frame frame = {.lowest_segment_no = lowest,
                                   .by_checkpoint = log->relocated || log->trim.by_checkpoint};
    stage->delivery_len += dbk_trim_frame_encode(stage->delivery + stage->delivery_len, &frame);
    bool unsynced = dbk_fault(DBK_FAULT_TRIM_UNSYNCED) || dbk_fault(DBK_FAULT_RELOCATE_UNSYNCED);
    stage->sync_required = !unsynced;
    log->trim.lowest = lowest;
    log->trim.by_checkpoint = frame.by_checkpoint;
    struct dbk_group *group = dbk_group_ref_open(log);
    dbk_mutex_unlock(&log->stage_lock);
    enum dbk_wait_for level = unsynced ? DBK_WAIT_WRITTEN : DBK_WAIT_SYNCED;
    return dbk_commit_wait(log, group, level, DAYBOOK_NO_DEADLINE) == DAYBOOK_OK;
}

static bool trim(struct dbk_log *log)
{
    char path[DBK_LOG_PATH_MAX];
    uint32_t second;
    uint32_t first = dbk_segment_lowest(log, &second);
    int64_t now = dbk_log_mono(log);
    uint32_t needed = lowest_needed(log);
    if (needed > log->trim_lowest && needed > first) {
        if (!dbk_trail_move(log, needed) || !log_trim(log, needed)) {
            return false;
        }
        log->trim_lowest = needed;
    }
    bool paced = log->housekeeper_started && log->last_unlink_us != DAYBOOK_TIME_UNSET &&
                 !log->making_room && now - log->last_unlink_us < UNLINK_PACE_US;
    if (first == 0 || first >= log->trim_lowest || paced) {
        return false;
    }
    /* Its place in the state goes last: a failed unlink is tried again. */
    if (!dbk_segment_is_free(log, first)) {
        return false;
    }
    dbk_index_remove(log, first);
    dbk_segment_path(log, first, ".dbl", path);
    int rc = log->os->unlink(log->os, path);
    if ((rc < 0 && rc != -ENOENT) || log->os->fsync_dir(log->os, log->path) < 0) {
        return false;
    }
    (void)dbk_segment_forget(log, first);
    dbk_mutex_lock(&log->state_lock);
    dbk_state_remove_segments(log->state, first + 1);
    dbk_mutex_unlock(&log->state_lock);
    log->last_unlink_us = now;
    log->prepare_failed_us = DAYBOOK_TIME_UNSET; /* there is room again */
    return true;
}

/* ---- preparing ----------------------------------------------------------------------------------- */

/* *ret_full: it is room that lacks, not something else that fails. */
static enum dbk_space make_spare(struct dbk_log *log, uint32_t number, struct dbk_spare *ret,
                                 bool *ret_full)
{
    enum dbk_space space = allowed(log, dbk_segment_size(log, number));
    *ret_full = space != DBK_SPACE_OK;
    if (space != DBK_SPACE_OK) {
        return space;
    }
    int rc = dbk_segment_create(log, number, ret);
    if (rc < 0) {
        *ret_full = rc == -ENOSPC || rc == -EDQUOT;
        return DBK_SPACE_NO_DISK;
    }
    if (dbk_segment_add(log, number, ret->segment_bytes) != DAYBOOK_OK) {
        (void)log->os->close(log->os, ret->file);
        return DBK_SPACE_NO_DISK;
    }
    return DBK_SPACE_OK;
}

/* Whether no event stands in the lowest segment, which is not the tail. */
static bool lowest_is_empty(struct dbk_log *log)
{
    uint32_t second;
    uint32_t lowest = dbk_segment_lowest(log, &second);
    bool events = true;
    dbk_mutex_lock(&log->stage_lock);
    bool sealed = lowest < log->tail_segment_no;
    bool relocated = log->relocated || log->trim.by_checkpoint;
    dbk_mutex_unlock(&log->stage_lock);
    if (sealed && relocated) {
        (void)next_segment(log, lowest, &events);
    }
    return !events && !dbk_checkpoint_covers(log, lowest);
}

/* max_bytes is reached, or the disk is full: makes room as far as that can be done. Until there is nothing left
 * to be done appends wait and are not refused (P4). */
static bool make_room(struct dbk_log *log)
{
    if (log->making_room) {
        return false; /* what makes room needs room itself */
    }
    log->making_room = true;
    uint64_t before = atomic_load(&log->file_bytes);
    bool done = give_up_front(log);
    bool relocated = !done && dbk_relocate_for_room(log);
    if (lowest_is_empty(log)) {
        dbk_checkpoint_twice(log); /* so that it can go */
    }
    while (trim(log)) {
    }
    bool gained = atomic_load(&log->file_bytes) < before;
    if (relocated && !gained) {
        dbk_relocate_gained_nothing(log);
    }
    done = done || gained;
    log->making_room = false;
    return done;
}

static bool wants_spare(struct dbk_log *log)
{
    dbk_mutex_lock(&log->stage_lock);
    bool wanted = log->spare.file < 0 && !dbk_log_has_failed(log) && !log->read_only;
    dbk_mutex_unlock(&log->stage_lock);
    return wanted;
}

bool dbk_work_pause(struct dbk_log *log)
{
    struct dbk_spare spare;
    bool full = false;
    if (!log->housekeeper_started) {
        return true;
    }
    /* Where room would have to be made first, that is left to the round. */
    if (!log->append_only && log->prepare_failed_us == DAYBOOK_TIME_UNSET && wants_spare(log) &&
        make_spare(log, next_number(log), &spare, &full) == DBK_SPACE_OK) {
        set_space(log, DBK_SPACE_OK, &spare);
    }
    settle_tail(log);
    log->os->sleep_us(log->os, FILL_PAUSE_US);
    return atomic_load(&log->stop) == DBK_STOP_NONE;
}

bool dbk_prepare_spare(struct dbk_log *log)
{
    struct dbk_spare spare;
    if (!wants_spare(log)) {
        return false;
    }
    bool full = false;
    enum dbk_space space = make_spare(log, next_number(log), &spare, &full);
    if (full && make_room(log)) {
        set_space(log, DBK_SPACE_MAKING, NULL);
        log->prepare_failed_us = DAYBOOK_TIME_UNSET; /* looked at again at once */
        return true;
    }
    set_space(log, space, space == DBK_SPACE_OK ? &spare : NULL);
    log->prepare_failed_us = space == DBK_SPACE_OK ? DAYBOOK_TIME_UNSET : dbk_log_mono(log);
    return space == DBK_SPACE_OK;
}

/* ---- memory of the system ------------------------------------------------------------------------ */

bool dbk_uncache_round(struct dbk_log *log)
{
    enum { KEPT = 4 }; /* the spare, the tail, and two more for ids that are used again */
    /* Where callers keep house themselves, their time is not spent on advice. */
    uint32_t segment_no = log->housekeeper_started ? dbk_segment_next_cached(log, KEPT) : 0;
    if (segment_no == 0) {
        return false;
    }
    dbk_mutex_lock(&log->state_lock);
    const struct dbk_room *room = dbk_state_room(log->state);
    uint64_t waiting = atomic_load(&room->stored) - atomic_load(&room->givable);
    bool read_on = dbk_state_consumer_count(log->state) > 0 &&
                   waiting > dbk_segment_events_behind(log, segment_no);
    dbk_mutex_unlock(&log->state_lock);
    if (!read_on) {
        dbk_segment_uncache(log, segment_no);
    }
    return !read_on;
}

/* ---- a round ------------------------------------------------------------------------------------ */

static bool round_of(struct dbk_log *log)
{
    bool done = false;
    if (dbk_log_has_failed(log) || log->read_only) {
        return false;
    }
    if (dbk_log_mono(log) - log->disk_watched_us >= WATCH_US) {
        dbk_watch_disk(log);
    }
    if (log->prepare_failed_us == DAYBOOK_TIME_UNSET ||
        dbk_log_mono(log) - log->prepare_failed_us >= RETRY_US) {
        done = !log->append_only && dbk_prepare_spare(log);
    }
    done = settle_tail(log) || done;
    done = dbk_index_round(log) || done;
    done = dbk_uncache_round(log) || done;
    done = dbk_checkpoint_round(log) || done;
    done = dbk_relocate_round(log) || done;
    return trim(log) || done;
}

bool dbk_log_housekeep(struct daybook_journal *journal)
{
    return round_of(dbk_log_of(journal));
}

void *dbk_housekeeper_run(void *arg)
{
    enum { TICK_US = 50000 };
    struct dbk_log *log = arg;
    while (atomic_load(&log->stop) == DBK_STOP_NONE) {
        uint32_t seen = atomic_load(&log->housekeeper_word);
        round_of(log);
        dbk_futex_wait(&log->housekeeper_word, seen, TICK_US);
    }
    return NULL;
}
