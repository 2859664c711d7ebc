/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: see checkpoint.h. When one is due, taking the copy, writing it, and reading one back.
 */
#include "engines/log/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"
#include "engines/log/image.h"
#include "engines/log/log_impl.h"
#include "engines/log/scan.h"

#define DUE_BYTES (UINT64_C(128) << 20) /* of log since the last one .. */
enum {
    DUE_SEGMENTS = 4,         /* .. or so many full segments, whichever is less */
    DUE_US = 60000000,        /* with changes */
    RETRY_US = 1000000,       /* after one failed */
    WRITE_BYTES = 256 * 1024, /* between two pauses */
    ROOM_EXTRA = 64 * 1024,   /* for what comes between the measure and the copy */
    LISTED_MAX = 64
};

void dbk_checkpoints_init(struct dbk_log *log)
{
    log->checkpoints.failed_us = DAYBOOK_TIME_UNSET;
    log->checkpoints.index_failed_us = DAYBOOK_TIME_UNSET;
    log->checkpoints.written_us = dbk_log_mono(log);
}

void dbk_checkpoints_release(struct dbk_log *log)
{
    free(log->checkpoints.memory);
    log->checkpoints.memory = NULL;
}

static void checkpoint_path(const char *directory, uint64_t lsn, const char *suffix, char *ret)
{
    snprintf(ret, DBK_LOG_PATH_MAX, "%.*s/ckpt-%016" PRIx64 ".dbc%s", DBK_LOG_PATH_MAX - 64,
             directory, lsn, suffix);
}

/* ---- the copy ---------------------------------------------------------------------------------- */

/* [state] */
static size_t image_bytes(const struct dbk_log *log)
{
    return DBK_CHECKPOINT_HEADER_BYTES + dbk_section_bytes(DBK_SECTION_JOURNAL, 1) +
           dbk_state_image_bytes(log->state) +
           dbk_section_bytes(DBK_SECTION_QUARANTINES, log->places.evidence_count) +
           dbk_section_bytes(DBK_SECTION_TRAIL, log->places.trail_count);
}

/* [state] */
static void put_places(const struct dbk_log *log, struct dbk_image *image)
{
    const struct dbk_places *places = &log->places;
    dbk_image_section(image, DBK_SECTION_QUARANTINES, 0);
    for (uint32_t i = 0; i < places->evidence_room; i++) {
        const struct dbk_evidence *e = &places->evidence[i];
        if (e->consumer == 0 ||
            dbk_state_standing(log->state, e->consumer, e->position) != DBK_STANDING_QUARANTINED) {
            continue;
        }
        uint8_t *p = dbk_image_entry(image);
        dbk_put_u64(p, e->position);
        dbk_put_u32(p + 8, e->consumer);
        dbk_put_u32(p + 12, e->frame.segment_no);
        dbk_put_u32(p + 16, e->frame.offset);
        dbk_put_u32(p + 20, e->frame.len);
    }
    dbk_image_section(image, DBK_SECTION_TRAIL, 0);
    for (uint32_t i = places->trail_count; i-- > 0;) {
        const struct dbk_trail_entry *entry = dbk_places_trail(places, i);
        uint8_t *p = dbk_image_entry(image);
        dbk_put_u64(p, entry->no);
        dbk_put_u32(p + 8, entry->frame.segment_no);
        dbk_put_u32(p + 12, entry->frame.offset);
        dbk_put_u32(p + 16, entry->frame.len);
    }
}

void dbk_checkpoint_take(struct dbk_log *log, uint64_t lsn)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    struct dbk_image *image = &c->image;
    if (c->phase != DBK_CHECKPOINT_WANTED) {
        return;
    }
    struct dbk_checkpoint_journal journal = {
        .next_position = log->next_position,
        .newest_accepted_at_us = log->newest_accepted_at_us,
        .events_max = log->head.capacity.events_max,
        .bytes_max = log->bytes_max,
        .relocated = log->relocated,
        .trim_lowest = log->trim.lowest,
        .trim_by_checkpoint = log->trim.by_checkpoint,
        .next_operation_no = log->places.next_no,
    };
    dbk_state_image_journal(log->state, &journal);
    dbk_image_section(image, DBK_SECTION_JOURNAL, 0);
    dbk_checkpoint_journal_put(dbk_image_entry(image), &journal);
    dbk_state_image(log->state, image);
    put_places(log, image);
    dbk_state_image_damaged(log->state, image);
    c->lsn = lsn;
    c->taken_frames = atomic_load(&log->frames);
    c->taken_bytes = atomic_load(&log->log_bytes);
    c->phase = image->overflow ? DBK_CHECKPOINT_SHORT : DBK_CHECKPOINT_TAKEN;
}

bool dbk_checkpoint_want(struct dbk_log *log)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    dbk_mutex_lock(&log->state_lock);
    size_t bytes = image_bytes(log);
    dbk_mutex_unlock(&log->state_lock);
    bytes += bytes / 4 + ROOM_EXTRA;
    free(c->memory);
    c->memory = malloc(bytes);
    if (c->memory == NULL) {
        return false;
    }
    dbk_mutex_lock(&log->stage_lock);
    dbk_image_begin(&c->image, c->memory, bytes);
    c->phase = DBK_CHECKPOINT_WANTED;
    dbk_mutex_unlock(&log->stage_lock);
    return true;
}

static void end(struct dbk_log *log)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    dbk_mutex_lock(&log->stage_lock);
    c->phase = DBK_CHECKPOINT_NONE;
    dbk_mutex_unlock(&log->stage_lock);
    free(c->memory);
    c->memory = NULL;
}

static enum dbk_checkpoint_phase phase_of(struct dbk_log *log)
{
    dbk_mutex_lock(&log->stage_lock);
    enum dbk_checkpoint_phase phase = log->checkpoints.phase;
    dbk_mutex_unlock(&log->stage_lock);
    return phase;
}

/* Busy: nothing is in flight, so where nothing is staged the state is that of the whole log. */
static void take_idle(struct dbk_log *log)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    if (log->open_stage->delivery_len == 0 && log->open_stage->staged_count == 0) {
        dbk_checkpoint_take(log, dbk_lsn(log->tail.segment_no, log->tail.offset));
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
}

/* ---- writing ----------------------------------------------------------------------------------- */

int dbk_file_finish(const struct dbk_log *log, int file, int rc, const char *temporary,
                    const char *name)
{
    const struct dbk_os *os = log->os;
    if (file < 0) {
        return rc;
    }
    if (rc >= 0 && !dbk_fault(DBK_FAULT_RENAME_BEFORE_FSYNC)) {
        rc = os->fsync(os, file);
    }
    int closed = os->close(os, file);
    rc = rc < 0 ? rc : closed;
    if (rc >= 0) {
        rc = os->rename(os, temporary, name);
    }
    if (rc < 0) {
        (void)os->unlink(os, temporary);
        return rc;
    }
    return os->fsync_dir(os, log->path);
}

static int write_pieces(struct dbk_log *log, int file, const struct dbk_image *image)
{
    int rc = 0;
    for (size_t at = 0; rc >= 0 && at < image->len; at += WRITE_BYTES) {
        size_t n = image->len - at < WRITE_BYTES ? image->len - at : WRITE_BYTES;
        rc = dbk_write_all(log->os, file, image->memory + at, n, at);
        if (rc >= 0 && at + n < image->len && !dbk_work_pause(log)) {
            rc = -ECANCELED;
        }
    }
    return rc;
}

/* Removes every checkpoint but those that are kept. */
static int remove_others(void *user, const char *name)
{
    struct dbk_log *log = user;
    char path[DBK_LOG_PATH_MAX];
    uint64_t lsn = 0;
    if (dbk_checkpoint_lsn(name, &lsn) && lsn != log->checkpoints.kept[0] &&
        lsn != log->checkpoints.kept[1]) {
        checkpoint_path(log->path, lsn, "", path);
        (void)log->os->unlink(log->os, path);
    }
    return 0;
}

/* The copy is taken and the log durable up to it. */
static int write_taken(struct dbk_log *log)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    char temporary[DBK_LOG_PATH_MAX];
    char name[DBK_LOG_PATH_MAX];
    struct dbk_checkpoint_header header = {
        .lsn = c->lsn, .epoch = log->epoch, .created_us = log->os->realtime_us(log->os)};
    memcpy(header.uuid, log->identity.uuid, sizeof(header.uuid));
    dbk_image_seal(&c->image, &header);
    checkpoint_path(log->path, c->lsn, ".tmp", temporary);
    checkpoint_path(log->path, c->lsn, "", name);
    (void)log->os->unlink(log->os, temporary);
    int file = log->os->open(log->os, temporary, DBK_OPEN_CREATE_EXCL);
    int rc = file < 0 ? file : write_pieces(log, file, &c->image);
    rc = dbk_file_finish(log, file, rc, temporary, name);
    if (rc < 0) {
        return rc;
    }
    atomic_fetch_sub(&log->file_bytes, c->kept_bytes[1]);
    atomic_fetch_add(&log->file_bytes, c->image.len);
    c->kept[1] = c->kept[0];
    c->kept_bytes[1] = c->kept_bytes[0];
    c->kept[0] = c->lsn;
    c->kept_bytes[0] = c->image.len;
    c->frames = c->taken_frames;
    c->bytes = c->taken_bytes;
    (void)log->os->list(log->os, log->path, remove_others, log);
    return 0;
}

/* Whether the log is on disk up to where the copy stands; sees to it where nobody commits. */
static bool log_is_durable(struct dbk_log *log)
{
    if (dbk_fault(DBK_FAULT_CHECKPOINT_AHEAD)) {
        return true;
    }
    if (atomic_load(&log->durable_lsn) < log->checkpoints.lsn && dbk_busy_try(log)) {
        if (log->tail.durable_lsn < log->checkpoints.lsn) {
            (void)dbk_tail_sync(log);
        }
        dbk_busy_end(log);
    }
    return atomic_load(&log->durable_lsn) >= log->checkpoints.lsn;
}

static bool is_due(const struct dbk_log *log)
{
    const struct dbk_checkpoints *c = &log->checkpoints;
    uint64_t limit = DUE_SEGMENTS * (uint64_t)log->segment_bytes;
    int64_t now = dbk_log_mono(log);
    if (atomic_load(&log->frames) == c->frames ||
        (c->failed_us != DAYBOOK_TIME_UNSET && now - c->failed_us < RETRY_US)) {
        return false;
    }
    if (c->hurried) {
        return true;
    }
    limit = limit < DUE_BYTES ? limit : DUE_BYTES;
    return now - c->written_us >= DUE_US || atomic_load(&log->log_bytes) - c->bytes >= limit;
}

static void settle(struct dbk_log *log, int rc)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    c->failed_us = rc < 0 ? dbk_log_mono(log) : DAYBOOK_TIME_UNSET;
    c->written_us = rc < 0 ? c->written_us : dbk_log_mono(log);
    end(log);
}

bool dbk_checkpoint_round(struct dbk_log *log)
{
    enum dbk_checkpoint_phase phase = phase_of(log);
    if (phase == DBK_CHECKPOINT_SHORT) {
        end(log); /* measured again */
        phase = DBK_CHECKPOINT_NONE;
    }
    if (phase == DBK_CHECKPOINT_NONE) {
        if (!is_due(log)) {
            return false;
        }
        if (!dbk_checkpoint_want(log)) {
            settle(log, -ENOMEM);
            return false;
        }
    }
    if (phase != DBK_CHECKPOINT_TAKEN && dbk_busy_try(log)) {
        take_idle(log);
        dbk_busy_end(log); /* what is staged is sealed now, or soon, and takes it */
    }
    if (phase_of(log) != DBK_CHECKPOINT_TAKEN || !log_is_durable(log)) {
        return false;
    }
    settle(log, write_taken(log));
    return true;
}

/* A FORGET with counters alone: each checkpoint stands at a place of its own. False: there is no room. */
static bool move_on(struct dbk_log *log)
{
    size_t bytes = DBK_FORGET_FRAME_BYTES(0, 0);
    if (dbk_stage_lock_with_room(log, bytes, DBK_OF_HOUSEKEEPING, dbk_log_mono(log), NULL) !=
        DAYBOOK_OK) {
        return false;
    }
    dbk_stage_frame_staged(log, dbk_discarded_frame(log, dbk_stage_frame_room(log)),
                           DBK_WAIT_SYNCED);
    return dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, DAYBOOK_NO_DEADLINE, NULL) == DAYBOOK_OK;
}

void dbk_checkpoint_twice(struct dbk_log *log)
{
    enum { ROUNDS_MAX = 2000, PAUSE_US = 1000 };
    struct dbk_checkpoints *c = &log->checkpoints;
    c->hurried = true;
    for (unsigned i = 0; i < DBK_CHECKPOINTS_KEPT && move_on(log); i++) {
        uint64_t before = c->kept[0];
        for (unsigned round = 0; round < ROUNDS_MAX && c->kept[0] == before; round++) {
            if (!dbk_checkpoint_round(log) && phase_of(log) == DBK_CHECKPOINT_NONE) {
                break; /* it cannot be written now */
            }
            if (log->housekeeper_started && c->kept[0] == before) {
                log->os->sleep_us(log->os, PAUSE_US);
            }
        }
    }
    c->hurried = false;
}

void dbk_checkpoint_at_close(struct dbk_log *log)
{
    struct dbk_checkpoints *c = &log->checkpoints;
    if (phase_of(log) != DBK_CHECKPOINT_NONE) {
        end(log);
    }
    if (atomic_load(&log->frames) == c->frames || !dbk_checkpoint_want(log)) {
        return;
    }
    take_idle(log);
    if (phase_of(log) == DBK_CHECKPOINT_TAKEN) {
        (void)write_taken(log);
    }
    end(log);
}

bool dbk_checkpoint_covers(const struct dbk_log *log, uint32_t segment_no)
{
    uint64_t lsn = log->checkpoints.kept[dbk_fault(DBK_FAULT_TRIM_BY_NEWEST) ? 0 : 1];
    return segment_no < dbk_lsn_segment(lsn);
}

/* ---- reading ----------------------------------------------------------------------------------- */

bool dbk_checkpoint_lsn(const char *name, uint64_t *ret)
{
    uint64_t lsn = 0;
    if (strlen(name) != 25 || strncmp(name, "ckpt-", 5) != 0 || strcmp(name + 21, ".dbc") != 0) {
        return false;
    }
    for (unsigned i = 5; i < 21; i++) {
        const char *digits = "0123456789abcdef";
        const char *at = strchr(digits, name[i]);
        if (at == NULL) {
            return false;
        }
        lsn = lsn << 4 | (uint64_t)(at - digits);
    }
    *ret = lsn;
    return lsn != 0;
}

struct listing {
    uint64_t lsns[LISTED_MAX]; /* the highest first */
    uint32_t count;
};

static int list_one(void *user, const char *name)
{
    struct listing *listing = user;
    uint64_t lsn = 0;
    if (!dbk_checkpoint_lsn(name, &lsn)) {
        return 0;
    }
    uint32_t at = listing->count < LISTED_MAX ? listing->count++ : LISTED_MAX - 1;
    if (at == LISTED_MAX - 1 && listing->lsns[at] > lsn) {
        return 0;
    }
    for (; at > 0 && listing->lsns[at - 1] < lsn; at--) {
        listing->lsns[at] = listing->lsns[at - 1];
    }
    listing->lsns[at] = lsn;
    return 0;
}

int dbk_checkpoints_list(const struct dbk_os *os, const char *path, uint64_t *ret, uint32_t max)
{
    struct listing listing = {.count = 0};
    int rc = os->list(os, path, list_one, &listing);
    if (rc < 0) {
        return rc;
    }
    uint32_t n = listing.count < max ? listing.count : max;
    memcpy(ret, listing.lsns, n * sizeof(*ret));
    return (int)n;
}

void dbk_checkpoint_file_free(struct dbk_checkpoint_file *file)
{
    free(file->bytes);
    *file = (struct dbk_checkpoint_file){.bytes = NULL};
}

static enum daybook_code damaged(const char *name, const char *how, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_DAMAGED, "%s %s", name, how);
}

/* Reads the whole file; its length has been believed only after the checksum over it. */
static enum daybook_code read_file(const struct dbk_os *os, int file, const char *name,
                                   struct dbk_checkpoint_file *ret, struct daybook_error *err)
{
    uint8_t header[DBK_CHECKPOINT_HEADER_BYTES];
    struct dbk_stat st;
    int64_t n = dbk_read_at(os, file, header, sizeof(header), 0);
    int rc = n < 0 ? (int)n : os->stat(os, name, &st);
    if (rc < 0) {
        return rc == -ENOENT ? dbk_fail(err, DAYBOOK_NOT_FOUND, "%s is gone", name)
                             : dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be read", name);
    }
    uint64_t len = dbk_checkpoint_length(header, (size_t)n);
    if (len == 0 || len != st.size_bytes) {
        return damaged(name, "is not whole", err);
    }
    ret->bytes = malloc((size_t)len);
    if (ret->bytes == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to read %s", name);
    }
    ret->len = (size_t)len;
    n = dbk_read_at(os, file, ret->bytes, ret->len, 0);
    if (n < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, (int)-n, "%s cannot be read", name);
    }
    return (uint64_t)n == len ? DAYBOOK_OK : damaged(name, "is not whole", err);
}

enum daybook_code dbk_checkpoint_read(const struct dbk_os *os, const char *path, uint64_t lsn,
                                      const uint8_t uuid[16], struct dbk_checkpoint_file *ret,
                                      struct daybook_error *err)
{
    char name[DBK_LOG_PATH_MAX];
    checkpoint_path(path, lsn, "", name);
    *ret = (struct dbk_checkpoint_file){.lsn = lsn};
    int file = os->open(os, name, DBK_OPEN_READ);
    if (file < 0) {
        return file == -ENOENT
                   ? dbk_fail(err, DAYBOOK_NOT_FOUND, "%s is gone", name)
                   : dbk_fail_os(err, DAYBOOK_BACKEND, -file, "%s cannot be opened", name);
    }
    enum daybook_code code = read_file(os, file, name, ret, err);
    (void)os->close(os, file);
    if (code == DAYBOOK_OK) {
        enum dbk_decoded decoded = dbk_checkpoint_decode(ret->bytes, ret->len, &ret->decoded);
        if (decoded == DBK_DECODED_NEWER) {
            code = dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                            "%s was written by a newer version of daybook; use that version", name);
        } else if (decoded != DBK_DECODED_OK || ret->decoded.header.lsn != lsn ||
                   memcmp(ret->decoded.header.uuid, uuid, 16) != 0) {
            code = damaged(name, "is damaged, or of another journal", err);
        }
    }
    if (code != DAYBOOK_OK) {
        dbk_checkpoint_file_free(ret);
    }
    return code;
}
