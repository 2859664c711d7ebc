/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new log in one go (rewrite.h).
 */
#include "engines/log/rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

static enum daybook_code failed(const struct dbk_rewrite *rewrite, int rc,
                                struct daybook_error *err)
{
    return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s: cannot be written", rewrite->path);
}

int dbk_write_new(const struct dbk_os *os, const char *path, const uint8_t *bytes, size_t len)
{
    int file = os->open(os, path, DBK_OPEN_CREATE_EXCL);
    int rc = file < 0 ? file : dbk_write_all(os, file, bytes, len, 0);
    rc = rc < 0 ? rc : os->fsync(os, file);
    int closed = file < 0 ? 0 : os->close(os, file);
    return rc < 0 ? rc : closed;
}

/* ---- groups ------------------------------------------------------------------------------------ */

static enum daybook_code write_group(struct dbk_rewrite *rewrite, uint8_t *group, size_t frames_len,
                                     uint16_t flags, struct daybook_error *err)
{
    struct dbk_tail *tail = &rewrite->tail;
    const struct dbk_os *os = rewrite->log->os;
    uint64_t lsn = dbk_lsn(tail->segment_no, tail->offset);
    struct dbk_group_header header = {
        .lsn = lsn,
        .group_no = tail->group_no + 1,
        .durable_lsn =
            lsn, /* true once anybody can read it: all is synced before it has its name */
        .prev_hcrc = tail->prev_hcrc,
        .realtime_ms = (uint64_t)(os->realtime_us(os) / 1000),
        .epoch = rewrite->epoch,
        .flags = flags,
    };
    size_t len = dbk_group_seal(group, frames_len, tail->salt, &header);
    int rc = dbk_write_all(os, tail->file, group, len, tail->offset);
    if (rc < 0) {
        return failed(rewrite, rc, err);
    }
    tail->group_no = header.group_no;
    tail->prev_hcrc = header.hcrc;
    tail->offset += (uint32_t)len;
    tail->frames += header.frame_count;
    rewrite->bytes += len;
    return DAYBOOK_OK;
}

static enum daybook_code flush(struct dbk_rewrite *rewrite, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    if (rewrite->used > 0) {
        unsigned flags =
            DBK_GROUP_SYNC_REQUIRED | (rewrite->group_events > 0 ? DBK_GROUP_HAS_EVENTS : 0u);
        code = write_group(rewrite, rewrite->group, rewrite->used, (uint16_t)flags, err);
        rewrite->tail.events += rewrite->group_events;
    }
    rewrite->used = 0;
    rewrite->group_events = 0;
    return code;
}

/* ---- segments ---------------------------------------------------------------------------------- */

static enum daybook_code close_segment(struct dbk_rewrite *rewrite, struct daybook_error *err)
{
    const struct dbk_os *os = rewrite->log->os;
    if (rewrite->tail.file < 0) {
        return DAYBOOK_OK;
    }
    int rc = os->fsync(os, rewrite->tail.file);
    int closed = os->close(os, rewrite->tail.file);
    rewrite->tail.file = -1;
    return rc < 0 || closed < 0 ? failed(rewrite, rc < 0 ? rc : closed, err) : DAYBOOK_OK;
}

static enum daybook_code next_segment(struct dbk_rewrite *rewrite, struct daybook_error *err)
{
    struct dbk_log *log = rewrite->log;
    struct dbk_tail *tail = &rewrite->tail;
    char path[DBK_LOG_PATH_MAX + 32];
    uint8_t block[DBK_BLOCK_BYTES];
    struct dbk_segment_header header = {.segment_no = (uint64_t)tail->segment_no + 1,
                                        .segment_bytes = log->segment_bytes,
                                        .created_us = log->os->realtime_us(log->os)};
    struct dbk_link_frame link = {.predecessor = tail->segment_no,
                                  .end = tail->offset,
                                  .last_hcrc = tail->prev_hcrc,
                                  .last_group_no = tail->group_no,
                                  .events = tail->events,
                                  .frames = tail->frames};
    enum daybook_code code = close_segment(rewrite, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    memcpy(header.uuid, log->identity.uuid, sizeof(header.uuid));
    int rc = log->os->random(log->os, &header.salt, sizeof(header.salt));
    dbk_segment_header_encode(&header, block);
    snprintf(path, sizeof(path), "%s/seg-%016" PRIx64 ".dbl", rewrite->path, header.segment_no);
    tail->file = rc < 0 ? -1 : log->os->open(log->os, path, DBK_OPEN_CREATE_EXCL);
    rc = rc < 0 ? rc : tail->file;
    rc = rc < 0 ? rc : dbk_write_all(log->os, tail->file, block, sizeof(block), 0);
    if (rc < 0) {
        return failed(rewrite, rc, err);
    }
    tail->segment_no++;
    tail->segment_bytes = log->segment_bytes;
    tail->offset = DBK_BLOCK_BYTES;
    tail->salt = header.salt;
    tail->events = 0;
    tail->frames = 0;
    rewrite->bytes += DBK_BLOCK_BYTES;
    return write_group(rewrite, log->link_memory, dbk_link_encode(log, &link),
                       DBK_GROUP_LINK | DBK_GROUP_SYNC_REQUIRED, err);
}

enum daybook_code dbk_rewrite_begin(struct dbk_rewrite *rewrite, struct daybook_error *err)
{
    struct dbk_log *log = rewrite->log;
    char path[DBK_LOG_PATH_MAX + 32];
    uint8_t bytes[DBK_FORMAT_FILE_BYTES];
    rewrite->tail.file = -1;
    rewrite->group = malloc((size_t)log->group_max + DBK_BLOCK_BYTES);
    if (rewrite->group == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a group");
    }
    dbk_identity_encode(&log->identity, bytes);
    snprintf(path, sizeof(path), "%s/FORMAT", rewrite->path);
    int rc = dbk_write_new(log->os, path, bytes, sizeof(bytes));
    return rc < 0 ? failed(rewrite, rc, err) : next_segment(rewrite, err);
}

enum daybook_code dbk_rewrite_put(struct dbk_rewrite *rewrite, const uint8_t *frame,
                                  struct daybook_error *err)
{
    size_t len = DBK_FRAME_HEADER_BYTES + (size_t)dbk_get_u32(frame + 4);
    size_t group = DBK_GROUP_HEADER_BYTES + rewrite->used + len + DBK_END_MARK_BYTES;
    const struct dbk_tail *tail = &rewrite->tail;
    enum daybook_code code = DAYBOOK_OK;
    /* The last block of a segment is kept for a CLEAN. */
    if (group > rewrite->log->group_max ||
        tail->offset + dbk_round_up(group, DBK_BLOCK_BYTES) + DBK_BLOCK_BYTES >
            tail->segment_bytes) {
        code = flush(rewrite, err);
        group = DBK_GROUP_HEADER_BYTES + len + DBK_END_MARK_BYTES;
        if (code == DAYBOOK_OK &&
            tail->offset + dbk_round_up(group, DBK_BLOCK_BYTES) + DBK_BLOCK_BYTES >
                tail->segment_bytes) {
            code = next_segment(rewrite, err);
        }
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (group > rewrite->log->group_max) {
        return dbk_fail(err, DAYBOOK_DAMAGED, "a frame of %zu bytes does not fit a group", len);
    }
    memcpy(rewrite->group + DBK_GROUP_HEADER_BYTES + rewrite->used, frame, len);
    rewrite->used += len;
    rewrite->group_events += frame[12] == DBK_FRAME_EVENT ? dbk_get_u16(frame + 14) : 0u;
    return DAYBOOK_OK;
}

enum daybook_code dbk_rewrite_end(struct dbk_rewrite *rewrite, struct daybook_error *err)
{
    enum daybook_code code = flush(rewrite, err);
    if (code == DAYBOOK_OK) {
        code = write_group(rewrite, rewrite->group, 0, DBK_GROUP_CLEAN, err);
    }
    return code == DAYBOOK_OK ? close_segment(rewrite, err) : code;
}

void dbk_rewrite_release(struct dbk_rewrite *rewrite)
{
    if (rewrite->tail.file >= 0) {
        (void)rewrite->log->os->close(rewrite->log->os, rewrite->tail.file);
        rewrite->tail.file = -1;
    }
    free(rewrite->group);
    rewrite->group = NULL;
}

/* ---- the directory ------------------------------------------------------------------------------- */

enum daybook_code dbk_new_directory_begin(struct dbk_new_directory *fresh, const struct dbk_os *os,
                                          const char *path, struct daybook_error *err)
{
    struct dbk_stat st;
    size_t len = strlen(path);
    *fresh = (struct dbk_new_directory){.os = os, .path = path};
    if (len == 0 || len > DBK_LOG_PATH_MAX - 64 || path[len - 1] == '/') {
        return dbk_fail(
            err, DAYBOOK_BAD_ARGUMENT,
            "\"%s\" is no name for a new directory: give a path without a slash at its end", path);
    }
    snprintf(fresh->partial, sizeof(fresh->partial), "%s.partial", path);
    if (os->stat(os, path, &st) == 0) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%s is there already: give a new name", path);
    }
    if (os->stat(os, fresh->partial, &st) == 0) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "%s is left of an attempt that did not end: remove it first",
                        fresh->partial);
    }
    int rc = os->mkdir(os, fresh->partial);
    return rc < 0 ? dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be made", fresh->partial)
                  : DAYBOOK_OK;
}

enum daybook_code dbk_new_directory_end(const struct dbk_new_directory *fresh,
                                        struct daybook_error *err)
{
    char parent[DBK_LOG_PATH_MAX];
    const struct dbk_os *os = fresh->os;
    snprintf(parent, sizeof(parent), "%s", fresh->path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        snprintf(parent, sizeof(parent), ".");
    } else {
        slash[slash == parent ? 1 : 0] = '\0';
    }
    int rc = os->fsync_dir(os, fresh->partial);
    rc = rc < 0 ? rc : os->rename(os, fresh->partial, fresh->path);
    rc = rc < 0 ? rc : os->fsync_dir(os, parent);
    return rc < 0
               ? dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be given its name", fresh->path)
               : DAYBOOK_OK;
}
