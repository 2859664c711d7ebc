/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine's handle: opening and closing, figures, reading by position, and the table of
 * operations that the journal interface calls. Any thread; opening and closing by the owner.
 */
#include "engines/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engines/log/image.h"
#include "engines/log/log_impl.h"
#include "engines/log/segment_index.h"

#define BYTES_MAX_DEFAULT (UINT64_C(16) << 30)
#define FREE_DISK_MIN_DEFAULT (UINT64_C(256) << 20)
enum {
    SEGMENT_BYTES_LEAST = 64 * 1024,
    SEGMENT_BYTES_SMALL = 1024 * 1024,
    SEGMENT_BYTES_FULL = 64 * 1024 * 1024,
    SEGMENTS_LEAST = 8,       /* that max_bytes has to hold */
    READ_STEPS_MAX = 4096,    /* events looked at under one hold by a filtered read */
    CONTROL_STEPS_MAX = 4096, /* words of 64 events, in the search for a control */
    CONTROL_READS_MAX = 64    /* damaged records that it passes */
};

/* ---- reading ----------------------------------------------------------------------------------- */

static enum daybook_code does_not_fit(uint64_t position, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "the event at position %" PRIu64
                    " does not fit the batch: make it for max_event_bytes",
                    position);
}

static enum daybook_code log_read(struct daybook_journal *j, uint64_t after_position,
                                  enum daybook_where where, struct daybook_batch *batch,
                                  uint64_t *ret_last, uint64_t *ret_damaged,
                                  struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    uint64_t at = after_position;
    uint64_t damaged = 0;
    batch->count = 0;
    batch->bytes_used = 0;
    batch->more = true;
    while (batch->count < batch->events_max) {
        struct dbk_stored stored;
        uint64_t looked;
        dbk_mutex_lock(&log->state_lock);
        bool found = dbk_state_next(log->state, at, where, READ_STEPS_MAX, &stored, &looked);
        if (found) {
            dbk_segment_pin(log, stored.place.segment_no);
        }
        dbk_mutex_unlock(&log->state_lock);
        if (!found && looked == UINT64_MAX) {
            batch->more = false;
            break;
        }
        if (!found) {
            at = looked;
            continue;
        }
        enum dbk_payload payload =
            dbk_log_read_entry(log, &stored, batch, &batch->deliveries[batch->count]);
        dbk_segment_unpin(log, stored.place.segment_no);
        if (payload == DBK_PAYLOAD_UNREADABLE) {
            return dbk_fail(err, DAYBOOK_BACKEND, "%s: cannot read the event at position %" PRIu64,
                            log->path, stored.position);
        }
        if (payload == DBK_PAYLOAD_NO_ROOM && batch->count == 0) {
            return does_not_fit(stored.position, err);
        }
        if (payload == DBK_PAYLOAD_NO_ROOM) {
            break;
        }
        at = stored.position;
        batch->count += payload == DBK_PAYLOAD_OK ? 1 : 0;
        damaged += payload == DBK_PAYLOAD_MALFORMED ? 1 : 0;
    }
    *ret_last = at;
    if (ret_damaged != NULL) {
        *ret_damaged = damaged;
    }
    return DAYBOOK_OK;
}

/* Down from the newest, until an event can be read or the window ends: acceptance never goes back (E1). */
static enum daybook_code log_newest_acknowledged(struct daybook_journal *j, const char *consumer,
                                                 int64_t now_us, struct daybook_batch *batch,
                                                 struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    uint64_t before = UINT64_MAX;
    for (uint32_t reads = 0; reads < CONTROL_READS_MAX && before > 0;) {
        struct dbk_stored stored;
        dbk_mutex_lock(&log->state_lock);
        uint32_t id = dbk_state_consumer_id(log->state, consumer);
        bool found = dbk_state_newest_acknowledged(log->state, id, before, CONTROL_STEPS_MAX,
                                                   &stored, &before);
        if (found && now_us - stored.accepted_at_us >= j->capacity.retain_acknowledged_us) {
            found = false;
            before = 0;
        }
        if (found) {
            dbk_segment_pin(log, stored.place.segment_no);
        }
        dbk_mutex_unlock(&log->state_lock);
        if (!found) {
            continue;
        }
        enum dbk_payload payload = dbk_log_read_entry(log, &stored, batch, &batch->deliveries[0]);
        dbk_segment_unpin(log, stored.place.segment_no);
        if (payload == DBK_PAYLOAD_OK) {
            batch->count = 1;
            return DAYBOOK_OK;
        }
        if (payload == DBK_PAYLOAD_UNREADABLE) {
            return dbk_fail(err, DAYBOOK_BACKEND, "%s: cannot read the event at position %" PRIu64,
                            log->path, stored.position);
        }
        if (payload == DBK_PAYLOAD_NO_ROOM) {
            return does_not_fit(stored.position, err);
        }
        before = stored.position;
        reads++;
    }
    return DAYBOOK_OK;
}

/* ---- figures ----------------------------------------------------------------------------------- */

static enum daybook_code log_stats(struct daybook_journal *j, int64_t now_us,
                                   struct daybook_journal_stats *ret, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    struct dbk_state_stats stats;
    struct dbk_counters counters;
    (void)err;
    memset(ret, 0, sizeof(*ret));
    ret->backend = "log";
    ret->mode = j->capacity.policy == DAYBOOK_POLICY_DROP_OLDEST ? DAYBOOK_MODE_TELEMETRY_GRADE
                                                                 : DAYBOOK_MODE_BILLING_GRADE;
    dbk_mutex_lock(&log->state_lock);
    dbk_state_stats(log->state, &stats);
    dbk_state_counters(log->state, &counters);
    ret->commit_us = log->histograms.commit_us;
    ret->commit_batch_events = log->histograms.batch;
    ret->consumers = dbk_state_consumer_count(log->state);
    dbk_mutex_unlock(&log->state_lock);
    dbk_mutex_lock(&log->segments_lock);
    ret->segment_files = log->segment_count;
    dbk_mutex_unlock(&log->segments_lock);
    if (dbk_log_has_failed(log)) {
        ret->state = DAYBOOK_JOURNAL_FAILED;
        ret->failure = log->failure;
    }
    ret->stored_events = stats.stored_events;
    ret->stored_bytes = stats.stored_bytes;
    ret->file_bytes = atomic_load(&log->file_bytes);
    ret->events_max = j->capacity.events_max;
    ret->bytes_max = log->bytes_max;
    ret->policy = j->capacity.policy;
    ret->accepted = counters.accepted;
    ret->pruned = counters.forgotten[DBK_FORGET_PRUNED - 1];
    ret->reclaimed = counters.forgotten[DBK_FORGET_RECLAIMED - 1];
    ret->dropped = counters.forgotten[DBK_FORGET_DROPPED - 1];
    ret->discarded = counters.forgotten[DBK_FORGET_DISCARDED - 1];
    ret->damaged = counters.forgotten[DBK_FORGET_DAMAGED - 1];
    if (stats.oldest_accepted_at_us != DAYBOOK_TIME_UNSET && now_us > stats.oldest_accepted_at_us) {
        ret->dedupe_window_us = now_us - stats.oldest_accepted_at_us;
    }
    ret->undeliverable_events = stats.damaged_events;
    ret->undeliverable_total = stats.damaged_ever;
    ret->read_errors = atomic_load(&log->read_errors);
    ret->read_error_at_us = atomic_load(&log->read_error_at_us);
    ret->bad_checkpoints = atomic_load(&log->checkpoints.bad_checkpoints);
    ret->bad_indexes = atomic_load(&log->checkpoints.bad_indexes);
    ret->oldest_position = stats.oldest_position;
    ret->newest_position = stats.newest_position;
    ret->groups = atomic_load(&log->groups);
    ret->syncs = atomic_load(&log->syncs);
    return DAYBOOK_OK;
}

/* [state] What is noted of a consumer; a place is found for one of which nothing is. */
static struct dbk_since_opening *noted_of(struct dbk_log *log, uint32_t consumer)
{
    struct dbk_since_opening *slot = &log->since_opening[0];
    for (unsigned i = 0; i < DAYBOOK_CONSUMERS_MAX; i++) {
        if (log->since_opening[i].consumer == consumer) {
            return &log->since_opening[i];
        }
        if (log->since_opening[i].consumer == 0 && slot->consumer != 0) {
            slot = &log->since_opening[i];
        }
    }
    *slot = (struct dbk_since_opening){.consumer = consumer, .at_us = DAYBOOK_TIME_UNSET};
    return slot;
}

void dbk_log_note_claim(struct dbk_log *log, uint32_t consumer, int64_t now_us)
{
    noted_of(log, consumer)->at_us = now_us;
}

void dbk_log_note_quarantines(struct dbk_log *log, uint32_t consumer,
                              enum daybook_quarantine_reason reason, uint64_t count)
{
    noted_of(log, consumer)->quarantined[reason - 1] += count;
}

static enum daybook_code log_consumer_stats(struct daybook_journal *j, const char *consumer,
                                            int64_t now_us, struct daybook_consumer_stats *ret,
                                            struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    (void)err;
    memset(ret, 0, sizeof(*ret));
    dbk_mutex_lock(&log->state_lock);
    uint32_t id = dbk_state_consumer_id(log->state, consumer);
    dbk_state_consumer_stats(log->state, id, now_us, ret);
    ret->last_claim_at_us = DAYBOOK_TIME_UNSET;
    for (unsigned i = 0; id != 0 && i < DAYBOOK_CONSUMERS_MAX; i++) {
        if (log->since_opening[i].consumer == id) {
            ret->last_claim_at_us = log->since_opening[i].at_us;
            memcpy(ret->quarantined_total, log->since_opening[i].quarantined,
                   sizeof(ret->quarantined_total));
        }
    }
    dbk_mutex_unlock(&log->state_lock);
    memcpy(ret->name, consumer, strlen(consumer) + 1);
    return DAYBOOK_OK;
}

static enum daybook_code log_consumers(struct daybook_journal *j,
                                       char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                       size_t *ret_count, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    (void)err;
    dbk_mutex_lock(&log->state_lock);
    uint32_t count = dbk_state_consumer_count(log->state);
    *ret_count = count < max ? count : max;
    for (uint32_t i = 0; i < *ret_count; i++) {
        const char *name = dbk_state_consumer_name(log->state, i);
        memcpy(names[i], name, strlen(name) + 1);
    }
    dbk_mutex_unlock(&log->state_lock);
    return DAYBOOK_OK;
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static uint32_t log_changes(struct daybook_journal *j)
{
    return atomic_load(&dbk_log_of(j)->changes);
}

static int64_t log_monotonic_us(struct daybook_journal *j)
{
    return dbk_log_mono(dbk_log_of(j));
}

static void log_wait(struct daybook_journal *j, uint32_t seen, int64_t deadline_us)
{
    struct dbk_log *log = dbk_log_of(j);
    int64_t left = -1;
    if (deadline_us != DAYBOOK_NO_DEADLINE) {
        left = deadline_us - dbk_log_mono(log);
        if (left <= 0) {
            return;
        }
    }
    if (log->threads == DAYBOOK_LOG_INLINE) {
        /* Nobody else can change anything: the time passes. */
        log->os->sleep_us(log->os, left < 0 ? 0 : left);
        return;
    }
    dbk_futex_wait(&log->changes, seen, left);
}

static void log_wake(struct daybook_journal *j)
{
    struct dbk_log *log = dbk_log_of(j);
    atomic_fetch_add(&log->changes, 1);
    dbk_futex_wake_all(&log->changes);
}

/* ---- verdicts by name -------------------------------------------------------------------------- */

static enum daybook_code log_ack(struct daybook_journal *j, const char *consumer,
                                 const struct daybook_hand_out *set, size_t count, int64_t now_us,
                                 int64_t deadline_us, enum daybook_code *ret_codes,
                                 struct daybook_error *err)
{
    return dbk_log_settle(j, consumer, DBK_SETTLE_ACK, 0, set, count, now_us, deadline_us,
                          ret_codes, err);
}

static enum daybook_code log_relinquish(struct daybook_journal *j, const char *consumer,
                                        const struct daybook_hand_out *set, size_t count,
                                        int64_t now_us, int64_t deadline_us,
                                        enum daybook_code *ret_codes, struct daybook_error *err)
{
    return dbk_log_settle(j, consumer, DBK_SETTLE_REFUND, 0, set, count, now_us, deadline_us,
                          ret_codes, err);
}

static enum daybook_code log_extend(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    uint32_t lease_ms, int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err)
{
    return dbk_log_settle(j, consumer, lease_ms == 0 ? DBK_SETTLE_GIVE_UP : DBK_SETTLE_EXTEND,
                          lease_ms, set, count, now_us, deadline_us, ret_codes, err);
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool is_power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static enum daybook_code set_sizes(struct dbk_log *log, const struct daybook_log_options *options,
                                   struct daybook_error *err)
{
    uint64_t segment = options->segment_bytes;
    log->bytes_max = options->bytes_max == 0 ? BYTES_MAX_DEFAULT : options->bytes_max;
    log->free_disk_min =
        options->free_disk_min == 0 ? FREE_DISK_MIN_DEFAULT : options->free_disk_min;
    if (segment == 0) {
        segment = SEGMENT_BYTES_FULL;
        while (segment > SEGMENT_BYTES_SMALL && segment > log->bytes_max / 16) {
            segment /= 2;
        }
    }
    if (!is_power_of_two(segment) || segment < SEGMENT_BYTES_LEAST ||
        segment > DBK_SEGMENT_BYTES_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "segment_bytes %" PRIu64 ": give a power of two from 64 KiB to 1 GiB",
                        segment);
    }
    if (log->bytes_max < SEGMENTS_LEAST * segment) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "max_bytes %" PRIu64 " is less than 8 segments of %" PRIu64
                        " bytes: raise it",
                        log->bytes_max, segment);
    }
    log->segment_bytes = (uint32_t)segment;
    log->group_max =
        segment / 4 < DBK_GROUP_BYTES_MAX ? (uint32_t)segment / 4 : DBK_GROUP_BYTES_MAX;
    log->delivery_area = log->group_max / 4;
    log->event_area =
        log->group_max - log->delivery_area - DBK_GROUP_HEADER_BYTES - DBK_END_MARK_BYTES;
    log->young_bytes =
        4 * log->group_max < SEGMENT_BYTES_SMALL
            ? 4 * log->group_max
            : (2 * log->group_max > SEGMENT_BYTES_SMALL ? 2 * log->group_max : SEGMENT_BYTES_SMALL);
    uint32_t event_max = log->head.capacity.events.event_bytes_max;
    if ((uint64_t)event_max + 1024 > log->event_area) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "max_event_bytes %" PRIu32 " does not fit a segment of %" PRIu32
                        " bytes (at most %" PRIu32 "): lower it or raise max_bytes",
                        event_max, log->segment_bytes, log->event_area - 1024);
    }
    return DAYBOOK_OK;
}

/* The directory that holds `part`, which is changed into it. */
static const char *parent_of(char *part)
{
    char *slash = strrchr(part, '/');
    if (slash == NULL) {
        return ".";
    }
    slash[slash == part ? 1 : 0] = '\0';
    return part;
}

/* Makes the directory and its parents, each durable in its own parent, and what is in the directory
 * durable too. All of it each time: a process that was killed may have made names that only the cache
 * knows, and what rests on them would go with the power. */
static int make_directories(const struct dbk_os *os, const char *path, bool existing_only)
{
    char part[DBK_LOG_PATH_MAX];
    struct dbk_stat st;
    size_t len = strlen(path);
    for (size_t i = 1; i <= len; i++) {
        if ((i < len && path[i] != '/') || path[i - 1] == '/') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        bool was_there = os->stat(os, part, &st) == 0;
        if (!was_there && existing_only) {
            return -ENOENT;
        }
        int rc = was_there ? 0 : os->mkdir(os, part);
        if (rc < 0 && rc != -EEXIST) {
            return rc;
        }
        rc = os->fsync_dir(os, parent_of(part));
        if (rc < 0 && !(rc == -EACCES && was_there)) { /* one above ours may be closed to us */
            return rc;
        }
    }
    return os->fsync_dir(os, path);
}

static bool has_file(const struct dbk_log *log, const char *name)
{
    char path[DBK_LOG_PATH_MAX];
    struct dbk_stat st;
    snprintf(path, sizeof(path), "%.*s/%s", DBK_LOG_PATH_MAX - 16, log->path, name);
    return log->os->stat(log->os, path, &st) == 0;
}

static enum daybook_code no_journal(const struct dbk_log *log, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: holds no journal", log->path);
}

/* existing_only: refuses a directory that turned out to hold no journal, and leaves it as it was. */
static enum daybook_code check_existing(struct dbk_log *log, bool had_lock,
                                        struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX];
    if (has_file(log, "FORMAT")) {
        return DAYBOOK_OK;
    }
    snprintf(path, sizeof(path), "%.*s/LOCK", DBK_LOG_PATH_MAX - 16, log->path);
    if (!had_lock) {
        (void)log->os->unlink(log->os, path);
    }
    return no_journal(log, err);
}

static enum daybook_code lock_directory(struct dbk_log *log, bool existing_only,
                                        struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX];
    int rc = make_directories(log->os, log->path, existing_only);
    if (rc == -ENOENT && existing_only) {
        return no_journal(log, err);
    }
    if (rc < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s: cannot make the directory", log->path);
    }
    snprintf(path, sizeof(path), "%.*s/LOCK", DBK_LOG_PATH_MAX - 16, log->path);
    log->lock_file = log->os->lock(log->os, path);
    if (log->lock_file == -EWOULDBLOCK) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "%s: held by another process; stop it, or use another directory",
                        log->path);
    }
    return log->lock_file < 0 ? dbk_fail_os(err, DAYBOOK_BACKEND, -log->lock_file,
                                            "%s: cannot be locked", log->path)
                              : DAYBOOK_OK;
}

static void release(struct dbk_log *log)
{
    if (log->tail.file >= 0) {
        (void)log->os->close(log->os, log->tail.file);
    }
    if (log->spare.file >= 0) {
        (void)log->os->close(log->os, log->spare.file);
    }
    dbk_segments_close(log);
    for (unsigned i = 0; i < DBK_WALKS_MAX; i++) {
        dbk_walk_free(log->walks[i]);
    }
    dbk_state_free(log->state);
    dbk_places_release(&log->places);
    dbk_checkpoints_release(log);
    dbk_relocation_release(log);
    dbk_stages_release(log);
    free(log->compare_buffer);
    if (log->lock_file >= 0) {
        (void)log->os->close(log->os, log->lock_file);
    }
    dbk_mutex_release(&log->state_lock);
    dbk_mutex_release(&log->compare_lock);
    dbk_mutex_release(&log->stage_lock);
    dbk_mutex_release(&log->segments_lock);
    free(log);
}

static enum daybook_code start_threads(struct dbk_log *log, struct daybook_error *err)
{
    if (log->threads == DAYBOOK_LOG_INLINE || log->read_only) {
        return DAYBOOK_OK;
    }
    if (dbk_thread_start(&log->committer, "dbk-commit", dbk_committer_run, log) != 0) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no thread for the committer");
    }
    log->committer_started = true;
    /* Set before it runs: whoever needs space then asks it. */
    log->housekeeper_started = true;
    if (dbk_thread_start(&log->housekeeper, "dbk-housekeep", dbk_housekeeper_run, log) != 0) {
        log->housekeeper_started = false;
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no thread for the housekeeper");
    }
    return DAYBOOK_OK;
}

static void stop_threads(struct dbk_log *log)
{
    /* One after the other: what the housekeeper hands over in its last round is committed still. */
    atomic_store(&log->stop, DBK_STOP_HOUSEKEEPER);
    if (log->housekeeper_started) {
        atomic_fetch_add(&log->housekeeper_word, 1);
        dbk_futex_wake_all(&log->housekeeper_word);
        dbk_thread_join(&log->housekeeper);
    }
    atomic_store(&log->stop, DBK_STOP_ALL);
    if (log->committer_started) {
        atomic_fetch_add(&log->committer_word, 1);
        dbk_futex_wake_all(&log->committer_word);
        dbk_thread_join(&log->committer);
    }
    log->housekeeper_started = false;
    log->committer_started = false;
}

/* What an opening may do. */
enum access { ACCESS_WRITE, ACCESS_READ, ACCESS_READ_WHOLE };

static enum daybook_code open_log(const struct daybook_log_options *options,
                                  const struct dbk_os *os, enum access access, uint64_t end_lsn,
                                  struct daybook_journal **ret, struct daybook_error *err)
{
    if (options->path == NULL || options->path[0] == '\0' ||
        strlen(options->path) > DBK_LOG_PATH_MAX - 64) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the path is missing or too long");
    }
    bool read_only = access != ACCESS_WRITE;
    struct dbk_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a journal");
    }
    log->whole_replay = access == ACCESS_READ_WHOLE;
    log->head.ops = &dbk_log_ops;
    log->os = os;
    log->threads = options->threads;
    log->read_only = read_only;
    log->append_only = options->append_only;
    log->read_end_lsn = end_lsn;
    log->lock_file = -1;
    log->tail.file = -1;
    log->tail.first_unsynced_us = DAYBOOK_NO_DEADLINE;
    log->spare.file = -1;
    log->next_position = 1;
    log->row_version = DBK_ROW_VERSION;
    log->newest_accepted_at_us = INT64_MIN;
    log->read_error_at_us = DAYBOOK_TIME_UNSET;
    log->brake_base_us = DAYBOOK_TIME_UNSET;
    log->brake_since_mono_us = DAYBOOK_NO_DEADLINE;
    log->prepare_failed_us = DAYBOOK_TIME_UNSET;
    log->last_unlink_us = DAYBOOK_TIME_UNSET;
    dbk_checkpoints_init(log);
    memcpy(log->path, options->path, strlen(options->path) + 1);
    dbk_mutex_init(&log->state_lock, DBK_RANK_STATE);
    dbk_mutex_init(&log->compare_lock, DBK_RANK_COMPARE);
    dbk_mutex_init(&log->stage_lock, DBK_RANK_STAGE);
    dbk_mutex_init(&log->segments_lock, DBK_RANK_SEGMENTS);

    enum daybook_code code = dbk_capacity_fill(&options->capacity, &log->head.capacity, err);
    if (code == DAYBOOK_OK) {
        code = set_sizes(log, options, err);
    }
    if (code == DAYBOOK_OK) {
        /* What is stored may be from before a limit was lowered. */
        log->compare_buffer = malloc(DBK_GROUP_BYTES_MAX + DBK_BLOCK_BYTES);
        if (dbk_stages_init(log) != DAYBOOK_OK || log->compare_buffer == NULL ||
            dbk_places_init(&log->places) != DAYBOOK_OK ||
            /* Who only reads claims nothing. */
            (!read_only && dbk_walk_new(DAYBOOK_CLAIM_EVENTS_MAX, &log->walks[0]) != DAYBOOK_OK)) {
            code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a journal");
        }
    }
    bool had_lock = options->existing_only && has_file(log, "LOCK");
    if (code == DAYBOOK_OK && options->existing_only && !has_file(log, "FORMAT")) {
        code = no_journal(log, err);
    }
    if (code == DAYBOOK_OK && !read_only) {
        code = lock_directory(log, options->existing_only, err);
    }
    if (code == DAYBOOK_OK && options->existing_only) {
        /* Once more: what was seen without the lock may have been on a file system that is gone. What is held
         * open from here on keeps it. */
        code = check_existing(log, had_lock, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_log_recover(log, options, err);
    }
    if (code == DAYBOOK_OK && !read_only) {
        dbk_watch_disk(log);
    }
    if (code == DAYBOOK_OK) {
        code = start_threads(log, err);
    }
    if (code != DAYBOOK_OK) {
        stop_threads(log);
        release(log);
        return code;
    }
    *ret = &log->head;
    return DAYBOOK_OK;
}

enum daybook_code dbk_log_open(const struct daybook_log_options *options, const struct dbk_os *os,
                               struct daybook_journal **ret, struct daybook_error *err)
{
    return open_log(options, os, ACCESS_WRITE, 0, ret, err);
}

enum daybook_code dbk_log_open_readonly(const struct daybook_log_options *options,
                                        const struct dbk_os *os, struct daybook_journal **ret,
                                        struct daybook_error *err)
{
    return open_log(options, os, ACCESS_READ, 0, ret, err);
}

enum daybook_code dbk_log_open_readonly_to(const struct daybook_log_options *options,
                                           const struct dbk_os *os, uint64_t end_lsn,
                                           struct daybook_journal **ret, struct daybook_error *err)
{
    return open_log(options, os, ACCESS_READ, end_lsn, ret, err);
}

enum daybook_code dbk_log_open_readonly_whole(const struct daybook_log_options *options,
                                              const struct dbk_os *os, uint64_t end_lsn,
                                              struct daybook_journal **ret,
                                              struct daybook_error *err)
{
    return open_log(options, os, ACCESS_READ_WHOLE, end_lsn, ret, err);
}

enum daybook_code daybook_log_open(const struct daybook_log_options *options,
                                   struct daybook_journal **ret_journal, struct daybook_error *err)
{
    if (options == NULL || ret_journal == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "options or the result are missing");
    }
    return dbk_log_open(options, dbk_os_posix(), ret_journal, err);
}

enum daybook_code daybook_log_open_readonly(const struct daybook_log_options *options,
                                            struct daybook_journal **ret_journal,
                                            struct daybook_error *err)
{
    if (options == NULL || ret_journal == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "options or the result are missing");
    }
    return dbk_log_open_readonly(options, dbk_os_posix(), ret_journal, err);
}

/* ---- closing ----------------------------------------------------------------------------------- */

/* Marks the orderly end: in the prepared segment where the tail is full to its last block. */
static bool mark_end(struct dbk_log *log)
{
    bool moved;
    if (!dbk_tail_make_room(log, DBK_BLOCK_BYTES, &moved)) {
        return false;
    }
    return dbk_tail_write_mark(log, DBK_GROUP_CLEAN) && dbk_tail_sync(log);
}

static enum daybook_code log_close(struct daybook_journal *j, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    enum daybook_code code = DAYBOOK_OK;
    if (!log->read_only) {
        dbk_commit_kick(log);
        stop_threads(log);
        /* What is staged is committed inline from here on. */
        dbk_commit_kick(log);
        bool ok = dbk_busy_try(log);
        if (ok && log->tail.first_unsynced_us != DAYBOOK_NO_DEADLINE) {
            ok = dbk_tail_sync(log);
        }
        if (ok) {
            while (dbk_index_round(log)) {
            }
            dbk_checkpoint_at_close(log);
        }
        ok = ok && mark_end(log);
        if (!ok) {
            code =
                dbk_log_has_failed(log)
                    ? dbk_log_failed(log, err)
                    : dbk_fail(err, DAYBOOK_BACKEND,
                               "%s: no room to mark the end; the next opening recovers", log->path);
        }
    }
    release(log);
    return code;
}

void dbk_log_set_row_version(struct daybook_journal *journal, uint16_t row_version)
{
    struct dbk_log *log = dbk_log_of(journal);
    dbk_mutex_lock(&log->stage_lock);
    log->row_version = row_version;
    dbk_mutex_unlock(&log->stage_lock);
}

const char *dbk_log_differs(struct daybook_journal *a, struct daybook_journal *b, int64_t now_us,
                            uint64_t *ret_position)
{
    return dbk_state_differs(dbk_log_of(a)->state, dbk_log_of(b)->state, now_us, ret_position);
}

struct dbk_log_opening dbk_log_opening(const struct daybook_journal *journal)
{
    const struct dbk_log *log = (const struct dbk_log *)journal;
    const struct dbk_checkpoints *c = &log->checkpoints;
    return (struct dbk_log_opening){.resumed_lsn = atomic_load(&c->resumed_lsn),
                                    .bad_checkpoints = atomic_load(&c->bad_checkpoints),
                                    .bad_indexes = atomic_load(&c->bad_indexes),
                                    .by_checkpoint = log->trim.by_checkpoint,
                                    .relocated = log->relocated,
                                    .newest_lsn = c->kept[0]};
}

uint64_t dbk_log_group_no(const struct daybook_journal *journal)
{
    return ((const struct dbk_log *)journal)->tail.group_no;
}

uint64_t dbk_log_next_position(const struct daybook_journal *journal)
{
    return ((const struct dbk_log *)journal)->next_position;
}

void dbk_log_want_checkpoint(struct daybook_journal *journal)
{
    struct dbk_log *log = dbk_log_of(journal);
    if (log->checkpoints.phase == DBK_CHECKPOINT_NONE) {
        (void)dbk_checkpoint_want(log);
    }
}

void dbk_log_abandon(struct daybook_journal *journal)
{
    struct dbk_log *log = dbk_log_of(journal);
    stop_threads(log);
    release(log);
}

const struct dbk_engine_ops dbk_log_ops = {
    .backend = "log",
    .append_batch = dbk_log_append_batch,
    .queue_new = dbk_log_queue_new,
    .submit = dbk_log_submit,
    .claim = dbk_log_claim,
    .ack = log_ack,
    .relinquish = log_relinquish,
    .extend = log_extend,
    .quarantine = dbk_log_quarantine,
    .release = dbk_log_release,
    .discard = dbk_log_discard,
    .retire = dbk_log_retire,
    .rewind = dbk_log_rewind,
    .start = dbk_log_start,
    .note_lift = dbk_log_note_lift,
    .find = dbk_log_find,
    .quarantine_list = dbk_log_quarantine_list,
    .operations = dbk_log_operations,
    .stats = log_stats,
    .consumer_stats = log_consumer_stats,
    .consumers = log_consumers,
    .maintain = dbk_log_maintain,
    .read = log_read,
    .newest_acknowledged = log_newest_acknowledged,
    .changes = log_changes,
    .wait = log_wait,
    .wake = log_wake,
    .monotonic_us = log_monotonic_us,
    .close = log_close,
};
