/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the files of a directory to a journal that is ready: the log is replayed through the same
 * functions that the live path uses, the end is judged (scan.c), and only then is anything written.
 *
 * Promises: what was read came from the medium, not from a page cache that a failed sync has made lie;
 * a refused opening leaves every byte as it was; no group is ever written into a segment that a crash
 * left; every step may be cut and done again. Run by the thread that opens.
 */
#include "engines/log/log_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"
#include "engines/log/resume.h"
#include "engines/log/scan.h"
#include "engines/log/segment_index.h"

enum {
    SET_ASIDE_BYTES_MAX = 16 * 1024 * 1024,
    RECENT_SEGMENTS = 2 /* of the log, whose pages are synced and dropped before they are read: a
                           segment is used only once the one before it was synced */
};

/* ---- replay ------------------------------------------------------------------------------------ */

static enum daybook_code unreadable_frame(const struct dbk_log *log, const struct dbk_frame *frame,
                                          struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                    "%s: segment %u offset %u: a frame of type %u that this version cannot read; "
                    "use the version that wrote it",
                    log->path, dbk_lsn_segment(frame->lsn), dbk_lsn_offset(frame->lsn),
                    frame->type);
}

bool dbk_frame_events(const struct dbk_identity *identity, const struct dbk_frame *frame,
                      bool *ret_relocated, dbk_event_visit *visit, void *user)
{
    struct dbk_frame inner = *frame;
    size_t at = 0;
    *ret_relocated = frame->type == DBK_FRAME_RELOCATE;
    if (*ret_relocated && !dbk_relocate_frame_decode(frame, &inner)) {
        return false;
    }
    if (inner.type != DBK_FRAME_EVENT) {
        return true;
    }
    for (uint16_t i = 0; i < inner.count; i++) {
        struct dbk_entry entry;
        size_t len;
        enum dbk_entry_check check =
            dbk_entry_decode(inner.body + at, inner.len - at, &entry, &len);
        if (check == DBK_ENTRY_BAD) {
            return false;
        }
        uint64_t lsn = inner.lsn + DBK_FRAME_HEADER_BYTES + at;
        struct dbk_event_meta meta = {
            .position = inner.position + i,
            .id_hash = dbk_identity_id_hash(identity, entry.request_id),
            .key_hash = dbk_identity_key_hash(identity, entry.name_space, entry.subject),
            .observed_at_us = entry.observed_at_us,
            .accepted_at_us = entry.accepted_at_us,
            .place = {dbk_lsn_segment(lsn), dbk_lsn_offset(lsn), dbk_entry_bytes(&entry)},
            .payload_bytes = (uint32_t)(entry.request_id.len + entry.name_space.len +
                                        entry.subject.len + entry.record.len),
            .row_version = entry.row_version,
            .newer = entry.row_version > DBK_ROW_VERSION,
            .damaged = check == DBK_ENTRY_RECORD_DAMAGED,
        };
        at += len;
        visit(user, &meta, &entry);
    }
    return at == inner.len;
}

static void replay_entry(void *user, const struct dbk_event_meta *meta,
                         const struct dbk_entry *entry)
{
    struct dbk_log *log = user;
    dbk_state_publish(log->state, meta, DBK_NOT_STAGED);
    if (meta->position >= log->next_position) {
        log->next_position = meta->position + 1;
    }
    if (entry->accepted_at_us > log->newest_accepted_at_us) {
        log->newest_accepted_at_us = entry->accepted_at_us;
    }
}

static void replay_relocated_entry(void *user, const struct dbk_event_meta *meta,
                                   const struct dbk_entry *entry)
{
    struct dbk_log *log = user;
    struct dbk_stored stored;
    log->relocated = true;
    if (dbk_state_get(log->state, meta->position, &stored)) {
        replay_entry(log, meta, entry);
    }
}

static enum daybook_code replay_admin(struct dbk_log *log, const struct dbk_admin_frame *admin)
{
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    switch (admin->op) {
    case DBK_ADMIN_REGISTER:
        memcpy(name, admin->name.data, admin->name.len);
        name[admin->name.len] = '\0';
        if (dbk_state_consumer_id(log->state, name) != 0) {
            return DAYBOOK_OK;
        }
        return dbk_state_register(log->state, admin->consumer, name, admin->start);
    case DBK_ADMIN_RETIRE:
        dbk_state_retire(log->state, admin->consumer);
        dbk_state_forget_ended(log->state);
        return DAYBOOK_OK;
    case DBK_ADMIN_REWIND:
        dbk_state_rewind(log->state, admin->consumer, admin->token_floor, admin->at_us);
        return DAYBOOK_OK;
    case DBK_ADMIN_LIFT:
        return DAYBOOK_OK; /* it is in the trail, and no more */
    case DBK_ADMIN_RELEASE:
        for (uint32_t i = 0; i < admin->position_count; i++) {
            dbk_state_release(log->state, admin->consumer, dbk_admin_position_at(admin, i));
        }
        return DAYBOOK_OK;
    case DBK_ADMIN_DISCARD:
        for (uint32_t i = 0; i < admin->position_count; i++) {
            dbk_state_discard(log->state, admin->consumer, dbk_admin_position_at(admin, i));
        }
        return DAYBOOK_OK;
    }
    return DAYBOOK_DAMAGED;
}

static void replay_forget(struct dbk_log *log, const struct dbk_forget_frame *forget)
{
    struct dbk_counters counters;
    for (uint32_t i = 0; i < forget->range_count; i++) {
        dbk_state_apply_forget(log->state, dbk_forget_range_at(forget, i));
    }
    for (uint32_t i = 0; i < forget->orphan_count; i++) {
        struct dbk_orphan orphan = dbk_forget_orphan_at(forget, i);
        dbk_state_apply_orphan(log->state, &orphan);
    }
    dbk_state_counters(log->state, &counters);
    memcpy(counters.forgotten, forget->counters, sizeof(counters.forgotten));
    dbk_state_set_counters(log->state, &counters);
}

/* The first STATE of the log is where the memory begins; later ones restate what the replay has made. */
static enum daybook_code replay_state(struct dbk_log *log, const struct dbk_state_frame *state,
                                      bool first)
{
    if (state->next_position > log->next_position) {
        log->next_position = state->next_position;
    }
    if (state->newest_accepted_at_us > log->newest_accepted_at_us) {
        log->newest_accepted_at_us = state->newest_accepted_at_us;
    }
    if (!first) {
        return DAYBOOK_OK;
    }
    for (uint32_t i = 0; i < state->consumer_count; i++) {
        struct dbk_consumer_restated consumer = dbk_state_consumer_at(state, i);
        enum daybook_code code =
            dbk_state_register(log->state, consumer.id, consumer.name, consumer.start);
        if (code != DAYBOOK_OK) {
            return code;
        }
        dbk_state_set_token_floor(log->state, consumer.id, consumer.token_floor);
    }
    dbk_state_set_next_consumer_id(log->state, state->next_consumer_id);
    for (uint32_t i = 0; i < state->orphan_count; i++) {
        struct dbk_orphan orphan = dbk_state_orphan_at(state, i);
        dbk_state_apply_orphan(log->state, &orphan);
    }
    dbk_state_set_counters(log->state, &state->counters);
    return DAYBOOK_OK;
}

static void replay_trim(struct dbk_log *log, const struct dbk_trim_frame *trim)
{
    log->trim = (struct dbk_trim_memory){.lowest = trim->lowest_segment_no,
                                         .by_checkpoint = trim->by_checkpoint};
    log->trim_lowest = trim->lowest_segment_no;
}

/* What a RELOCATE holds comes here unwrapped; one within another is unreadable. */
static enum daybook_code replay_frame(struct dbk_replay *replay, const struct dbk_frame *frame,
                                      bool relocated, struct daybook_error *err)
{
    struct dbk_log *log = replay->log;
    union {
        struct dbk_claim_frame claim;
        struct dbk_settle_frame settle;
        struct dbk_quarantine_frame quarantine;
        struct dbk_admin_frame admin;
        struct dbk_forget_frame forget;
        struct dbk_state_frame state;
        struct dbk_trim_frame trim;
        bool relocated;
    } as;
    enum daybook_code code = DAYBOOK_OK;
    bool read = true;
    switch ((enum dbk_frame_type)frame->type) {
    case DBK_FRAME_EVENT:
        read = dbk_frame_events(&log->identity, frame, &as.relocated,
                                relocated ? replay_relocated_entry : replay_entry, log);
        break;
    case DBK_FRAME_CLAIM:
        read = dbk_claim_frame_decode(frame, &as.claim);
        for (uint32_t i = 0; read && i < as.claim.count; i++) {
            struct dbk_claim_entry entry = dbk_claim_entry_at(&as.claim, i);
            if (dbk_fault(DBK_FAULT_HAND_OUTS_LOST)) {
                entry.attempt = 0;
            }
            dbk_state_apply_claim(log->state, as.claim.consumer, as.claim.lease_ms, as.claim.now_us,
                                  as.claim.first_token + i, &entry, 1);
        }
        break;
    case DBK_FRAME_SETTLE:
        read = dbk_settle_frame_decode(frame, &as.settle);
        for (uint32_t i = 0; read && i < as.settle.count; i++) {
            struct dbk_settle_entry entry = dbk_settle_entry_at(&as.settle, i);
            dbk_state_apply_settle(log->state, as.settle.consumer, as.settle.op, as.settle.lease_ms,
                                   as.settle.now_us, &entry, 1);
        }
        if (read && as.settle.op == DBK_SETTLE_ACK) {
            dbk_state_forget_ended(log->state);
        }
        break;
    case DBK_FRAME_QUARANTINE:
        read = dbk_quarantine_frame_decode(frame, &as.quarantine);
        code = dbk_places_reserve(&log->places, log->state, 1);
        if (read && !relocated) {
            dbk_state_apply_quarantine(log->state, as.quarantine.consumer, as.quarantine.position,
                                       as.quarantine.reason);
        }
        break;
    case DBK_FRAME_ADMIN:
        read = dbk_admin_frame_decode(frame, &as.admin);
        code = read && !relocated ? replay_admin(log, &as.admin) : DAYBOOK_OK;
        break;
    case DBK_FRAME_FORGET:
        read = dbk_forget_frame_decode(frame, &as.forget);
        if (read) {
            replay_forget(log, &as.forget);
        }
        break;
    case DBK_FRAME_RELOCATE:
        read = false;
        break;
    case DBK_FRAME_STATE:
        read = dbk_state_frame_decode(frame, &as.state);
        code = read ? replay_state(log, &as.state, !replay->has_state) : DAYBOOK_OK;
        replay->has_state = replay->has_state || (frame->flags & DBK_FRAME_CONTINUED) == 0;
        break;
    case DBK_FRAME_TRIM:
        read = dbk_trim_frame_decode(frame, &as.trim);
        if (read) {
            replay_trim(log, &as.trim);
        }
        break;
    case DBK_FRAME_LINK:
        break;
    default:
        read = (frame->flags & DBK_FRAME_MAY_BE_SKIPPED) != 0;
        break;
    }
    if (!read || code == DAYBOOK_DAMAGED) {
        return unreadable_frame(log, frame, err);
    }
    if (code == DAYBOOK_OK && !relocated) {
        dbk_places_note(&log->places, frame);
    }
    return code == DAYBOOK_OK ? code
                              : dbk_fail(err, code, "%s: no memory to replay the log", log->path);
}

enum daybook_code dbk_replay_frame(struct dbk_replay *replay, const struct dbk_frame *frame,
                                   struct daybook_error *err)
{
    struct dbk_frame inner;
    bool relocated = frame->type == DBK_FRAME_RELOCATE && dbk_relocate_frame_decode(frame, &inner);
    enum daybook_code code = replay_frame(replay, relocated ? &inner : frame, relocated, err);
    if (code == DAYBOOK_OK && relocated) {
        dbk_places_note(&replay->log->places, frame); /* where the copy stands */
    }
    return code;
}

static enum daybook_code replay_group(void *user, const struct dbk_scan_segment *segment,
                                      const struct dbk_group_header *header, const uint8_t *group,
                                      enum dbk_body_check check, struct daybook_error *err)
{
    struct dbk_replay *replay = user;
    size_t at = DBK_GROUP_HEADER_BYTES;
    struct dbk_frame frame;
    enum daybook_code code = DAYBOOK_OK;
    (void)segment;
    (void)check; /* each entry is checked again, so a damaged record is found where it is */
    uint64_t end = header->lsn + DBK_GROUP_HEADER_BYTES + header->body_len;
    while (code == DAYBOOK_OK && dbk_frame_next(group, header, &at, &frame)) {
        code = frame.lsn >= replay->from_lsn
                   ? dbk_replay_frame(replay, &frame, err)
                   : dbk_resume_frame(replay->log, &frame, end > replay->from_lsn, err);
    }
    if (header->lsn >= replay->from_lsn) {
        replay->log->log_bytes += end - header->lsn;
        replay->log->frames += header->frame_count;
    }
    return code;
}

/* ---- before reading ---------------------------------------------------------------------------- */

/* What the page cache holds may not be what is on disk: after a failed sync its pages are clean and
 * newer. So what a predecessor left dirty is written now, and the cache dropped. */
static void read_the_medium(const struct dbk_log *log, const struct dbk_scan *scan)
{
    char path[DBK_LOG_PATH_MAX];
    unsigned linked = 0;
    for (uint32_t i = scan->count; i-- > 0 && linked < RECENT_SEGMENTS;) {
        if (scan->segments[i].begins_blank) {
            continue; /* prepared, and durable since: there is nothing newer in the cache */
        }
        linked += scan->segments[i].linked ? 1 : 0;
        dbk_segment_path(log, scan->segments[i].segment_no, ".dbl", path);
        int file = log->os->open(log->os, path, DBK_OPEN_WRITE);
        if (file >= 0) {
            /* An old error may be reported here; what is read next is the truth anyway. */
            (void)dbk_sync_data(log->os, file);
            if (!dbk_fault(DBK_FAULT_CACHE_BELIEVED)) {
                log->os->drop_cache(log->os, file);
            }
            (void)log->os->close(log->os, file);
        }
    }
}

/* ---- after the verdict --------------------------------------------------------------------------- */

struct aside {
    struct dbk_log *log;
    char lowest[64]; /* name that sorts first */
    uint64_t bytes;
};

static int remove_tmp(void *user, const char *name)
{
    struct dbk_log *log = user;
    char path[DBK_LOG_PATH_MAX];
    size_t len = strlen(name);
    if (len > 4 && strcmp(name + len - 4, ".tmp") == 0 &&
        snprintf(path, sizeof(path), "%s/%s", log->path, name) < (int)sizeof(path)) {
        (void)log->os->unlink(log->os, path);
    }
    return 0;
}

static int measure_aside(void *user, const char *name)
{
    struct aside *aside = user;
    char path[DBK_LOG_PATH_MAX];
    struct dbk_stat st;
    int n = snprintf(path, sizeof(path), "%s/set-aside/%s", aside->log->path, name);
    if (n >= (int)sizeof(path) || strlen(name) >= sizeof(aside->lowest)) {
        return 0;
    }
    if (aside->log->os->stat(aside->log->os, path, &st) == 0) {
        aside->bytes += st.size_bytes;
        if (aside->lowest[0] == '\0' || strcmp(name, aside->lowest) < 0) {
            memcpy(aside->lowest, name, strlen(name) + 1);
        }
    }
    return 0;
}

/* Makes room among the copies: the oldest go. */
static void bound_set_aside(struct dbk_log *log)
{
    char directory[DBK_LOG_PATH_MAX];
    char path[DBK_LOG_PATH_MAX + 80];
    snprintf(directory, sizeof(directory), "%.*s/set-aside", DBK_LOG_PATH_MAX - 16, log->path);
    for (;;) {
        struct aside aside = {.log = log};
        if (log->os->list(log->os, directory, measure_aside, &aside) < 0 ||
            aside.bytes <= SET_ASIDE_BYTES_MAX || aside.lowest[0] == '\0') {
            return;
        }
        snprintf(path, sizeof(path), "%s/%s", directory, aside.lowest);
        if (log->os->unlink(log->os, path) < 0) {
            return;
        }
    }
}

/* Copies what stands behind the end of the log: evidence, never read again by the engine. It has its name
 * only once it is whole; a recovery that was cut copies it again. */
static int copy_aside(struct dbk_log *log, uint32_t segment_no, uint32_t from, uint32_t end)
{
    char from_path[DBK_LOG_PATH_MAX];
    char directory[DBK_LOG_PATH_MAX + 16];
    char temporary[DBK_LOG_PATH_MAX + 72];
    char to_path[DBK_LOG_PATH_MAX + 64];
    uint8_t *buffer = malloc(DBK_GROUP_BYTES_MAX);
    if (buffer == NULL) {
        return -ENOMEM;
    }
    dbk_segment_path(log, segment_no, ".dbl", from_path);
    snprintf(directory, sizeof(directory), "%s/set-aside", log->path);
    int rc = log->os->mkdir(log->os, directory);
    rc = rc == -EEXIST ? 0 : rc;
    snprintf(to_path, sizeof(to_path), "%s/set-aside/seg-%016" PRIx64 "-%08" PRIx32 ".bin",
             log->path, (uint64_t)segment_no, from);
    snprintf(temporary, sizeof(temporary), "%s.tmp", to_path);
    (void)log->os->unlink(log->os, temporary);
    int in = rc < 0 ? rc : log->os->open(log->os, from_path, DBK_OPEN_READ);
    int out = in < 0 ? in : log->os->open(log->os, temporary, DBK_OPEN_CREATE_EXCL);
    rc = out < 0 ? out : 0;
    for (uint32_t at = from; rc == 0 && at < end;) {
        uint32_t want = end - at < DBK_GROUP_BYTES_MAX ? end - at : DBK_GROUP_BYTES_MAX;
        int64_t n = log->os->pread(log->os, in, buffer, want, at);
        if (n <= 0) {
            rc = n < 0 ? (int)n : -EIO;
            break;
        }
        rc = dbk_write_all(log->os, out, buffer, (size_t)n, at - from);
        at += (uint32_t)n;
    }
    if (rc == 0) {
        rc = log->os->fsync(log->os, out);
    }
    if (in >= 0) {
        (void)log->os->close(log->os, in);
    }
    if (out >= 0) {
        (void)log->os->close(log->os, out);
    }
    free(buffer);
    if (rc == 0) {
        rc = log->os->rename(log->os, temporary, to_path);
    }
    if (rc < 0) {
        (void)log->os->unlink(log->os, temporary);
        return rc;
    }
    return log->os->fsync_dir(log->os, directory);
}

static uint64_t set_aside(struct dbk_log *log, const struct dbk_scan *scan,
                          const struct dbk_scan_end *end)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < scan->count; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        uint32_t from = segment->segment_no == end->segment_no ? end->offset : DBK_BLOCK_BYTES;
        if (segment->segment_no < end->segment_no || segment->used_end <= from) {
            continue;
        }
        bytes += segment->used_end - from;
        /* A copy that fails (a full disk) costs evidence, not an event. */
        (void)copy_aside(log, segment->segment_no, from, segment->used_end);
    }
    if (bytes > 0) {
        bound_set_aside(log);
    }
    return bytes;
}

static int open_tail(struct dbk_log *log, uint32_t segment_no)
{
    char path[DBK_LOG_PATH_MAX];
    dbk_segment_path(log, segment_no, ".dbl", path);
    return log->os->open(log->os, path, DBK_OPEN_WRITE);
}

static enum daybook_code os_failed(struct dbk_log *log, int rc, const char *what,
                                   struct daybook_error *err)
{
    return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s: %s", log->path, what);
}

/* A prepared segment behind everything that holds bytes; NULL: none that is large enough. */
static const struct dbk_scan_segment *blank_segment(const struct dbk_log *log,
                                                    const struct dbk_scan *scan,
                                                    const struct dbk_scan_end *end)
{
    const struct dbk_scan_segment *found = NULL;
    for (uint32_t i = scan->count; i-- > 0;) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        if (segment->segment_no <= end->segment_no || !segment->blank ||
            segment->size_bytes != segment->segment_bytes ||
            !dbk_segment_suffices(log, segment->segment_bytes)) {
            break;
        }
        found = segment;
    }
    return found;
}

static enum daybook_code target_segment(struct dbk_log *log, const struct dbk_scan *scan,
                                        const struct dbk_scan_end *end, struct dbk_spare *ret,
                                        struct daybook_error *err)
{
    const struct dbk_scan_segment *blank = blank_segment(log, scan, end);
    if (blank != NULL) {
        *ret = (struct dbk_spare){.file = open_tail(log, blank->segment_no),
                                  .segment_no = blank->segment_no,
                                  .segment_bytes = blank->segment_bytes,
                                  .salt = blank->salt};
        return ret->file < 0 ? os_failed(log, ret->file, "cannot open a prepared segment", err)
                             : DAYBOOK_OK;
    }
    uint32_t number = scan->count == 0 ? 1 : scan->segments[scan->count - 1].segment_no + 1;
    int rc = dbk_segment_create(log, number, ret);
    if ((rc == -ENOSPC || rc == -EDQUOT) && end->segment_no != 0) {
        /* Cutting the old segment to its end frees its blocks; the bytes behind it are no part of
         * the log, and the next opening comes to the same verdict. */
        int file = open_tail(log, end->segment_no);
        if (file >= 0) {
            (void)log->os->ftruncate(log->os, file, end->offset);
            (void)log->os->close(log->os, file);
        }
        rc = dbk_segment_create(log, number, ret);
    }
    if (rc < 0) {
        return os_failed(log, rc, "cannot make a segment; free disk space, then start again", err);
    }
    return dbk_segment_add(log, number, ret->segment_bytes) == DAYBOOK_OK
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a segment");
}

/* Starts the epoch in a new segment (table, not d). */
static enum daybook_code begin_in_new_segment(struct dbk_log *log, const struct dbk_scan *scan,
                                              const struct dbk_scan_end *end, uint64_t aside,
                                              struct daybook_error *err)
{
    struct dbk_spare to;
    enum daybook_code code = target_segment(log, scan, end, &to, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    struct dbk_link_frame link = {
        .predecessor = end->segment_no,
        .skipped = to.segment_no - end->segment_no - 1,
        .end = end->offset,
        .last_hcrc = end->hcrc,
        .last_group_no = end->group_no,
        .events = end->events,
        .frames = end->frames,
        .set_aside_bytes = aside,
    };
    log->tail.file = -1;
    log->tail.group_no = end->group_no;
    log->tail.prev_hcrc = end->hcrc;
    log->tail.durable_lsn = dbk_lsn(to.segment_no, DBK_BLOCK_BYTES);
    if (!dbk_tail_link(log, &link, &to)) {
        return dbk_log_failed(log, err);
    }
    dbk_segment_sealed(log, end->segment_no, end->offset);
    for (uint32_t i = 0; i < scan->count; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        uint32_t used = segment->segment_no == end->segment_no ? end->offset : DBK_BLOCK_BYTES;
        bool behind = segment->segment_no > end->segment_no && segment->segment_no < to.segment_no;
        if ((segment->segment_no != end->segment_no && !behind) || segment->size_bytes <= used) {
            continue;
        }
        int file = open_tail(log, segment->segment_no);
        if (file >= 0) {
            if (log->os->ftruncate(log->os, file, used) == 0) {
                dbk_segment_resized(log, segment->segment_no, used);
            }
            (void)log->os->close(log->os, file);
        }
    }
    return DAYBOOK_OK;
}

/* Goes on behind a CLEAN (table, d). */
static enum daybook_code begin_behind(struct dbk_log *log, const struct dbk_scan *scan,
                                      const struct dbk_scan_end *end, uint16_t flags,
                                      struct daybook_error *err)
{
    const struct dbk_scan_segment *segment = scan->segments;
    while (segment->segment_no != end->segment_no) {
        segment++;
    }
    log->tail = (struct dbk_tail){
        .file = open_tail(log, end->segment_no),
        .segment_no = end->segment_no,
        .segment_bytes = segment->segment_bytes,
        .offset = end->offset,
        .salt = segment->salt,
        .group_no = end->group_no,
        .prev_hcrc = end->hcrc,
        .durable_lsn = dbk_lsn(end->segment_no, end->offset),
        .first_unsynced_us = DAYBOOK_NO_DEADLINE,
        .events = end->events,
        .frames = end->frames,
    };
    if (log->tail.file < 0) {
        return os_failed(log, log->tail.file, "cannot open the last segment", err);
    }
    log->tail_room = segment->segment_bytes - end->offset;
    log->tail_segment_no = end->segment_no;
    log->tail_segment_bytes = segment->segment_bytes;
    return dbk_tail_write_mark(log, flags) && dbk_tail_sync(log) ? DAYBOOK_OK
                                                                 : dbk_log_failed(log, err);
}

/* The device's own cache is flushed and the file shown to be writable before anything rests on it. */
static enum daybook_code flush_last(struct dbk_log *log, const struct dbk_scan_end *end,
                                    struct daybook_error *err)
{
    if (end->segment_no == 0) {
        return DAYBOOK_OK;
    }
    int file = open_tail(log, end->segment_no);
    if (file < 0) {
        return os_failed(log, file, "cannot open the last segment for writing", err);
    }
    int rc = dbk_fault(DBK_FAULT_NO_FDATASYNC) ? 0 : dbk_sync_data(log->os, file);
    (void)log->os->close(log->os, file);
    return rc < 0 ? os_failed(log, rc, "the last segment cannot be synced", err) : DAYBOOK_OK;
}

static enum daybook_code begin_epoch(struct dbk_log *log, const struct dbk_scan *scan,
                                     const struct dbk_scan_end *end, struct daybook_error *err)
{
    (void)log->os->list(log->os, log->path, remove_tmp, log);
    uint64_t aside = set_aside(log, scan, end);
    enum daybook_code code = flush_last(log, end, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    log->epoch = end->epoch + 1;
    log->next_token = (uint64_t)(dbk_fault(DBK_FAULT_TOKENS_AGAIN) ? 1 : log->epoch) << 40 | 1;
    uint64_t recorded = 0;
    uint32_t room = 0;
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->segments[i].events_max > recorded) {
            recorded = scan->segments[i].events_max;
        }
        if (scan->segments[i].segment_no == end->segment_no &&
            scan->segments[i].size_bytes == scan->segments[i].segment_bytes) {
            room = scan->segments[i].segment_bytes - end->offset;
        }
    }
    /* A raised limit has to stand in a STATE before there are events above the old one. */
    bool goes_on = end->kind == DBK_END_CLEAN && room >= 2 * DBK_BLOCK_BYTES &&
                   log->head.capacity.events_max <= recorded;
    bool faulty = dbk_fault(DBK_FAULT_APPEND_INTO_CRASHED) && end->segment_no != 0 &&
                  room >= 2 * DBK_BLOCK_BYTES;
    code = goes_on || faulty ? begin_behind(log, scan, end, DBK_GROUP_OPEN, err)
                             : begin_in_new_segment(log, scan, end, aside, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    const struct dbk_scan_segment *blank = blank_segment(log, scan, end);
    while (blank != NULL && blank < scan->segments + scan->count &&
           blank->segment_no <= log->tail.segment_no) {
        blank++;
    }
    if (blank != NULL && blank < scan->segments + scan->count) {
        log->spare = (struct dbk_spare){.file = open_tail(log, blank->segment_no),
                                        .segment_no = blank->segment_no,
                                        .segment_bytes = blank->segment_bytes,
                                        .salt = blank->salt};
        log->spare.file = log->spare.file < 0 ? -1 : log->spare.file;
    }
    return DAYBOOK_OK;
}

/* ---- a new journal ------------------------------------------------------------------------------- */

static enum daybook_code make_identity(struct dbk_log *log, struct daybook_error *err)
{
    char temporary[DBK_LOG_PATH_MAX];
    char final[DBK_LOG_PATH_MAX];
    uint8_t bytes[DBK_FORMAT_FILE_BYTES];
    snprintf(temporary, sizeof(temporary), "%.*s/FORMAT.tmp", DBK_LOG_PATH_MAX - 16, log->path);
    snprintf(final, sizeof(final), "%.*s/FORMAT", DBK_LOG_PATH_MAX - 16, log->path);
    int rc = log->os->random(log->os, log->identity.uuid, sizeof(log->identity.uuid));
    if (rc >= 0) {
        rc = log->os->random(log->os, &log->identity.secret, sizeof(log->identity.secret));
    }
    log->identity.uuid[6] = (uint8_t)(0x40 | (log->identity.uuid[6] & 0x0F));
    log->identity.uuid[8] = (uint8_t)(0x80 | (log->identity.uuid[8] & 0x3F));
    log->identity.created_us = log->os->realtime_us(log->os);
    dbk_identity_encode(&log->identity, bytes);
    (void)log->os->unlink(log->os, temporary);
    int file = rc < 0 ? rc : log->os->open(log->os, temporary, DBK_OPEN_CREATE_EXCL);
    rc = file < 0 ? file : dbk_write_all(log->os, file, bytes, sizeof(bytes), 0);
    if (rc >= 0) {
        rc = log->os->fsync(log->os, file);
    }
    if (file >= 0) {
        (void)log->os->close(log->os, file);
    }
    if (rc >= 0) {
        rc = log->os->rename(log->os, temporary, final);
    }
    if (rc >= 0) {
        rc = log->os->fsync_dir(log->os, log->path);
    }
    return rc < 0 ? os_failed(log, rc, "cannot write FORMAT", err) : DAYBOOK_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

/* Numbers of segments are given out one after the other: one that is missing behind the end was there. */
static enum daybook_code check_numbers(const struct dbk_log *log, const struct dbk_scan *scan,
                                       const struct dbk_scan_end *end, struct daybook_error *err)
{
    uint64_t expected = (uint64_t)end->segment_no + 1;
    for (uint32_t i = 0; i < scan->count; i++) {
        uint32_t number = scan->segments[i].segment_no;
        if (number <= end->segment_no) {
            continue;
        }
        if (number != expected) {
            return dbk_fail(err, DAYBOOK_DAMAGED,
                            "%s: seg-%016" PRIx64 ".dbl is missing behind the end of the log, and "
                            "a later one is there; nothing was changed: restore a backup",
                            log->path, expected);
        }
        expected++;
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_root(const struct dbk_log *log, const struct dbk_scan *scan,
                                    const struct dbk_scan_end *end, struct daybook_error *err)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        if (!segment->linked) {
            continue;
        }
        if (segment->link.predecessor != 0 && segment->segment_no > log->trim_lowest) {
            return dbk_fail(err, DAYBOOK_DAMAGED,
                            "%s: segments below seg-%016" PRIx64
                            ".dbl are missing and no TRIM says that they may be; nothing was "
                            "changed: restore a backup",
                            log->path, (uint64_t)segment->segment_no);
        }
        return DAYBOOK_OK;
    }
    return end->kind == DBK_END_EMPTY || end->kind == DBK_END_TORN || end->kind == DBK_END_SUSPECT
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_DAMAGED, "%s: no segment begins the log", log->path);
}

static enum daybook_code add_segments(struct dbk_log *log, const struct dbk_scan *scan,
                                      struct daybook_error *err)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        if (dbk_segment_add(log, scan->segments[i].segment_no, scan->segments[i].size_bytes) !=
            DAYBOOK_OK) {
            return dbk_fail(err, DAYBOOK_NO_MEMORY, "%s: no memory for its segments", log->path);
        }
    }
    return DAYBOOK_OK;
}

static enum daybook_code make_state(struct dbk_log *log, const struct dbk_scan *scan,
                                    struct daybook_error *err)
{
    struct dbk_state_options options = {
        .events_max = log->head.capacity.events_max,
        .stored_max = log->head.capacity.events_max,
        .staged_max = 2 * DBK_STAGED_MAX,
        .orphans_max = dbk_orphans_cap(log),
        .retain_us = log->head.capacity.retain_acknowledged_us,
        .attempts_max = log->head.capacity.delivery_attempts_max,
        .policy = log->head.capacity.policy,
    };
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->segments[i].linked && scan->segments[i].events_max > options.stored_max) {
            options.stored_max = scan->segments[i].events_max;
        }
    }
    if (options.stored_max > DAYBOOK_EVENTS_LIMIT) {
        return dbk_fail(err, DAYBOOK_DAMAGED, "%s: its limits are out of range", log->path);
    }
    return dbk_state_new(&options, &log->state) == DAYBOOK_OK
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_NO_MEMORY,
                          "%s: no memory for max_events %" PRIu64 "; lower it", log->path,
                          options.stored_max);
}

static enum daybook_code refuse_suspect(const struct dbk_log *log, const struct dbk_scan_end *end,
                                        struct daybook_error *err)
{
    enum daybook_code code = dbk_fail(
        err, DAYBOOK_DAMAGED,
        "%s: the end of seg-%016" PRIx64 ".dbl (offset %u) is not what a crash leaves: it may be "
        "rot in what was durable; nothing was changed. Restore a backup, or open with `tail: "
        "accept` to set it aside",
        log->path, (uint64_t)end->bad_segment_no, end->bad_offset);
    if (err != NULL) {
        err->offset = end->bad_offset;
    }
    return code;
}

/* Memory as it is before anything is read. */
static enum daybook_code fresh_memory(struct dbk_log *log, const struct dbk_scan *scan,
                                      struct daybook_error *err)
{
    dbk_state_free(log->state);
    log->state = NULL;
    dbk_places_release(&log->places);
    log->trim = (struct dbk_trim_memory){.lowest = 0};
    log->trim_lowest = 0;
    log->relocated = false;
    log->next_position = 1;
    log->newest_accepted_at_us = INT64_MIN;
    log->segment_count = 0;
    atomic_store(&log->frames, 0);
    atomic_store(&log->log_bytes, 0);
    atomic_store(&log->file_bytes, 0);
    if (dbk_places_init(&log->places) != DAYBOOK_OK) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "%s: no memory for its records", log->path);
    }
    enum daybook_code code = make_state(log, scan, err);
    return code == DAYBOOK_OK ? add_segments(log, scan, err) : code;
}

/* Segments that the walk passed over may be shorter than they were only where they are not needed any more. */
static enum daybook_code check_cut(const struct dbk_log *log, const struct dbk_scan *scan,
                                   struct daybook_error *err)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        if (segment->cut && segment->segment_no >= log->trim.lowest) {
            return dbk_fail(err, DAYBOOK_DAMAGED,
                            "%s: seg-%016" PRIx64
                            ".dbl is shorter than its successor says, and no TRIM says that it is "
                            "not needed; nothing was changed: restore a backup, or repair",
                            log->path, (uint64_t)segment->segment_no);
        }
    }
    return DAYBOOK_OK;
}

/* Reads the log into fresh memory, behind a checkpoint or, with none (file NULL), from its first STATE on.
 * *ret_usable no: with another checkpoint, or with none, it may yet succeed. */
static enum daybook_code replay_log(struct dbk_log *log, struct dbk_scan *scan,
                                    const struct dbk_checkpoint_file *file,
                                    struct dbk_scan_end *ret_end, bool *ret_usable,
                                    struct daybook_error *err)
{
    struct dbk_replay replay = {.log = log};
    enum daybook_code code = fresh_memory(log, scan, err);
    *ret_usable = true;
    scan->start_segment_no = file == NULL ? 0 : dbk_lsn_segment(file->lsn);
    if (code == DAYBOOK_OK && file != NULL) {
        replay.has_state = true;
        replay.from_lsn = file->lsn;
        code = dbk_resume_begin(log, scan, file, ret_usable, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_scan_run(scan, replay_group, &replay, ret_end, err);
    }
    if (code == DAYBOOK_OK && file != NULL) {
        code = dbk_resume_end(log, err);
        *ret_usable = code != DAYBOOK_DAMAGED;
    }
    if (code == DAYBOOK_OK) {
        code = check_cut(log, scan, err);
    }
    if (code == DAYBOOK_OK && file == NULL && log->trim.by_checkpoint) {
        code =
            dbk_fail(err, DAYBOOK_DAMAGED,
                     "%s: both checkpoints are lost, and segments are gone whose acknowledgements "
                     "only they knew; nothing was changed: restore a backup, or repair (events "
                     "that were delivered may be delivered again)",
                     log->path);
    }
    return code;
}

/* The checkpoints that may be used, the newest first; bad ones are counted. */
static enum daybook_code find_checkpoints(struct dbk_log *log, struct dbk_scan *scan,
                                          struct dbk_checkpoint_file *files, uint32_t *ret_count,
                                          struct daybook_error *err)
{
    enum { LOOKED_AT_MAX = 16 };
    uint64_t lsns[LOOKED_AT_MAX];
    int n = scan->has_identity ? dbk_checkpoints_list(log->os, log->path, lsns, LOOKED_AT_MAX) : 0;
    if (n < 0) {
        return os_failed(log, n, "cannot list the directory", err);
    }
    *ret_count = 0;
    atomic_store(&log->checkpoints.bad_checkpoints, 0);
    for (int i = 0; i < n && *ret_count < DBK_CHECKPOINTS_KEPT; i++) {
        if (scan->end_lsn != 0 && lsns[i] > scan->end_lsn) {
            continue; /* of what is not looked at */
        }
        enum daybook_code code = dbk_checkpoint_read(log->os, log->path, lsns[i],
                                                     log->identity.uuid, &files[*ret_count], err);
        if (code == DAYBOOK_OK) {
            log->checkpoints.kept[*ret_count] = lsns[i];
            log->checkpoints.kept_bytes[*ret_count] = files[*ret_count].len;
            ++*ret_count;
        } else if (code == DAYBOOK_DAMAGED) {
            atomic_fetch_add(&log->checkpoints.bad_checkpoints, 1);
        } else if (code != DAYBOOK_NOT_FOUND) {
            return code;
        }
    }
    bool proves = *ret_count > 0 && !dbk_fault(DBK_FAULT_CHECKPOINT_UNPROVEN);
    scan->proof_lsn = proves ? files[0].lsn : 0;
    for (uint32_t i = 0; log->whole_replay && i < *ret_count; i++) {
        dbk_checkpoint_file_free(&files[i]); /* what it proves counts, and no more */
    }
    *ret_count = log->whole_replay ? 0 : *ret_count;
    return DAYBOOK_OK;
}

/* The newest checkpoint that can be used and what stands behind it; without one the whole log. */
static enum daybook_code read_log(struct dbk_log *log, struct dbk_scan *scan,
                                  struct dbk_scan_end *ret_end, struct daybook_error *err)
{
    struct dbk_checkpoint_file files[DBK_CHECKPOINTS_KEPT] = {{.bytes = NULL}};
    uint32_t count = 0;
    enum daybook_code code = find_checkpoints(log, scan, files, &count, err);
    bool usable = false;
    atomic_store(&log->checkpoints.resumed_lsn, 0);
    for (uint32_t i = 0; code == DAYBOOK_OK && !usable && i < count; i++) {
        code = replay_log(log, scan, &files[i], ret_end, &usable, err);
        atomic_store(&log->checkpoints.resumed_lsn, usable ? files[i].lsn : 0);
        if (!usable) {
            atomic_fetch_add(&log->checkpoints.bad_checkpoints, 1);
            code = DAYBOOK_OK;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        dbk_checkpoint_file_free(&files[i]);
    }
    if (code == DAYBOOK_OK && !usable) {
        code = replay_log(log, scan, NULL, ret_end, &usable, err);
    }
    return code;
}

/* Which of the segments are sealed, what the indexes and checkpoints take, and what is left of files that are
 * gone. */
struct helpers {
    struct dbk_log *log;
    const struct dbk_scan *scan;
};

static int look_at_helper(void *user, const char *name)
{
    struct helpers *helpers = user;
    struct dbk_log *log = helpers->log;
    char path[DBK_LOG_PATH_MAX];
    struct dbk_stat st;
    uint32_t number = 0;
    if (!dbk_index_number(name, &number) ||
        snprintf(path, sizeof(path), "%s/%s", log->path, name) >= (int)sizeof(path)) {
        return 0;
    }
    bool there = dbk_segment_pin_if_there(log, number);
    if (there) {
        dbk_segment_unpin(log, number);
    }
    if (!there) {
        (void)log->os->unlink(log->os, path);
    } else if (!dbk_segment_index_is_bad(log, number) && log->os->stat(log->os, path, &st) == 0) {
        dbk_segment_indexed(log, number, st.size_bytes);
    }
    return 0;
}

static void take_stock(struct dbk_log *log, const struct dbk_scan *scan,
                       const struct dbk_scan_end *end)
{
    struct helpers helpers = {log, scan};
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->segments[i].linked && scan->segments[i].segment_no < end->segment_no) {
            dbk_segment_sealed(log, scan->segments[i].segment_no, dbk_scan_used(scan, i));
        }
    }
    for (uint32_t i = 0; i < DBK_CHECKPOINTS_KEPT; i++) {
        atomic_fetch_add(&log->file_bytes, log->checkpoints.kept_bytes[i]);
    }
    (void)log->os->list(log->os, log->path, look_at_helper, &helpers);
}

static enum daybook_code recover(struct dbk_log *log, const struct daybook_log_options *options,
                                 struct dbk_scan *scan, struct daybook_error *err)
{
    struct dbk_scan_end end;
    enum daybook_code code = read_log(log, scan, &end, err);
    if (code == DAYBOOK_OK) {
        code = check_root(log, scan, &end, err);
    }
    if (code == DAYBOOK_OK) {
        code = scan->end_lsn == 0 ? check_numbers(log, scan, &end, err) : DAYBOOK_OK;
    }
    if (code == DAYBOOK_OK && end.kind == DBK_END_SUSPECT && options->tail == DAYBOOK_TAIL_REFUSE) {
        code = refuse_suspect(log, &end, err);
    }
    if (code != DAYBOOK_OK || log->read_only) {
        return code;
    }
    if (scan->read_only_feature) {
        return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                        "%s: has a feature that this version can only read; use a newer version",
                        log->path);
    }
    if (!scan->has_identity) {
        code = make_identity(log, err);
    }
    if (code == DAYBOOK_OK) {
        take_stock(log, scan, &end);
        code = begin_epoch(log, scan, &end, err);
    }
    return code;
}

enum daybook_code dbk_log_recover(struct dbk_log *log, const struct daybook_log_options *options,
                                  struct daybook_error *err)
{
    struct dbk_scan scan;
    enum daybook_code code = dbk_scan_open(&scan, log->os, log->path, err);
    if (code == DAYBOOK_OK && !log->read_only) {
        /* What was peeked at may have come from the cache: look once more, at the medium. */
        read_the_medium(log, &scan);
        dbk_scan_release(&scan);
        code = dbk_scan_open(&scan, log->os, log->path, err);
    }
    if (code == DAYBOOK_OK) {
        if (scan.has_identity) {
            log->identity = scan.identity;
        }
        scan.end_lsn = log->read_end_lsn;
        code = recover(log, options, &scan, err);
    }
    dbk_scan_release(&scan);
    if (code == DAYBOOK_OK && log->newest_accepted_at_us != INT64_MIN) {
        log->brake_base_us = log->newest_accepted_at_us;
        log->brake_base_mono_us = dbk_log_mono(log);
    }
    return code;
}
