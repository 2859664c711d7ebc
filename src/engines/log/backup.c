/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consistent copy of a journal, also of one that is being written.
 *
 * Every whole group of the log, from its first to some last one, is a journal: what a process leaves that
 * ends there. So the copy needs no help of the writer and holds nothing up: it is told how far the log
 * reaches (dbk_scan_reach), opens every segment file up to there and the checkpoints that stand in it, and
 * copies. What is removed meanwhile stays readable through its open file. Once events were relocated the log
 * alone tells no more what became of them, so checkpoints belong to the copy; indexes do not, an opening
 * makes them. Everything that was answered before the call is in it,
 * because a group is written before it is answered. The copy is verified and durable before it has its name.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "engines/log/checkpoint.h"
#include "engines/log/log.h"
#include "engines/log/rewrite.h"
#include "engines/log/scan.h"

enum { COPY_BYTES = 1 << 20, FILES_MAX = 4096, CHECKPOINTS_MAX = 16, TRIES = 20, NAME_BYTES = 32 };

struct copied {
    char name[NAME_BYTES];
    uint64_t bytes;
    uint64_t
        file_bytes; /* of the copy, if more: zeros behind, so that a cut file is told from a whole one */
    int file;
    bool segment;
};

struct backup {
    const struct dbk_os *os;
    const char *path;
    struct copied files[FILES_MAX];
    uint32_t count;
    struct daybook_log_backup_report *report;
    uint8_t buffer[COPY_BYTES];
};

static void close_files(struct backup *backup)
{
    for (uint32_t i = 0; i < backup->count; i++) {
        (void)backup->os->close(backup->os, backup->files[i].file);
    }
    backup->count = 0;
}

/* Opens one file of the journal. BACKEND with ENOENT: it was removed meanwhile. */
static enum daybook_code open_file(struct backup *backup, const struct copied *what,
                                   struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX + NAME_BYTES];
    if (backup->count == FILES_MAX) {
        return dbk_fail(err, DAYBOOK_BACKEND, "%s: more than %d files", backup->path,
                        (int)FILES_MAX);
    }
    snprintf(path, sizeof(path), "%s/%s", backup->path, what->name);
    struct copied *copied = &backup->files[backup->count];
    *copied = *what;
    copied->file = backup->os->open(backup->os, path, DBK_OPEN_READ);
    if (copied->file < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, -copied->file, "%s cannot be opened", path);
    }
    backup->count++;
    struct dbk_stat st;
    int rc = what->segment ? 0 : backup->os->stat(backup->os, path, &st);
    if (rc < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be looked at", path);
    }
    copied->bytes = what->segment ? what->bytes : st.size_bytes;
    return DAYBOOK_OK;
}

/* The segments that belong to the log up to the end. */
static enum daybook_code open_segments(struct backup *backup, const struct dbk_scan *scan,
                                       const struct dbk_scan_end *end, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    for (uint32_t i = 0;
         code == DAYBOOK_OK && i < scan->count && scan->segments[i].segment_no <= end->segment_no;
         i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        bool last = segment->segment_no == end->segment_no;
        struct copied what = {.segment = true,
                              .bytes = last ? end->offset : dbk_scan_used(scan, i),
                              .file_bytes = last ? segment->segment_bytes : 0};
        snprintf(what.name, sizeof(what.name), "seg-%016" PRIx64 ".dbl",
                 (uint64_t)segment->segment_no);
        code = open_file(backup, &what, err);
    }
    return code;
}

/* The checkpoints that stand in the log up to the end, as many as a journal keeps. Where there are only newer ones
 * the end is an old one by now: BACKEND with ENOENT. */
static enum daybook_code open_checkpoints(struct backup *backup, const struct dbk_scan_end *end,
                                          struct daybook_error *err)
{
    uint64_t lsns[CHECKPOINTS_MAX];
    int count = dbk_checkpoints_list(backup->os, backup->path, lsns, CHECKPOINTS_MAX);
    if (count < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, -count, "%s cannot be listed", backup->path);
    }
    enum daybook_code code = DAYBOOK_OK;
    unsigned taken = 0;
    for (int i = 0; code == DAYBOOK_OK && i < count && taken < DBK_CHECKPOINTS_KEPT; i++) {
        if (lsns[i] <= dbk_lsn(end->segment_no, end->offset)) {
            struct copied what = {.segment = false};
            snprintf(what.name, sizeof(what.name), "ckpt-%016" PRIx64 ".dbc", lsns[i]);
            code = open_file(backup, &what, err);
            taken++;
        }
    }
    return code == DAYBOOK_OK && count > 0 && taken == 0
               ? dbk_fail_os(err, DAYBOOK_BACKEND, ENOENT, "%s: its checkpoints are newer",
                             backup->path)
               : code;
}

/* How far the log reaches, and every file of it open. */
static enum daybook_code take(struct backup *backup, struct daybook_error *err)
{
    struct dbk_scan scan;
    struct dbk_scan_end end;
    struct daybook_error detail = {.code = DAYBOOK_OK};
    enum daybook_code code = DAYBOOK_BACKEND;
    for (unsigned i = 0; i < TRIES; i++) {
        close_files(backup);
        detail = (struct daybook_error){.code = DAYBOOK_OK};
        code =
            dbk_scan_reach(&scan, backup->os, backup->path, &end, &backup->report->live, &detail);
        if (code == DAYBOOK_OK) {
            code = open_segments(backup, &scan, &end, &detail);
        }
        if (code == DAYBOOK_OK) {
            code = open_checkpoints(backup, &end, &detail);
        }
        dbk_scan_release(&scan);
        if (code != DAYBOOK_BACKEND || detail.os_errno != ENOENT) {
            break;
        }
    }
    if (code != DAYBOOK_OK && err != NULL) {
        *err = detail;
    }
    return code;
}

static int copy_file(struct backup *backup, const struct copied *from, int to)
{
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < from->bytes;) {
        uint64_t left = from->bytes - at;
        size_t want = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        int64_t n = backup->os->pread(backup->os, from->file, backup->buffer, want, at);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        rc = dbk_write_all(backup->os, to, backup->buffer, (size_t)n, at);
        at += (uint64_t)n;
    }
    if (rc == 0 && from->file_bytes > from->bytes) {
        rc = backup->os->ftruncate(backup->os, to, from->file_bytes);
    }
    return rc < 0 || dbk_fault(DBK_FAULT_COPY_UNSYNCED) ? rc : backup->os->fsync(backup->os, to);
}

static enum daybook_code copy_files(struct backup *backup, const char *to,
                                    struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX + NAME_BYTES];
    for (uint32_t i = 0; i < backup->count; i++) {
        const struct copied *from = &backup->files[i];
        snprintf(path, sizeof(path), "%s/%s", to, from->name);
        int file = backup->os->open(backup->os, path, DBK_OPEN_CREATE_EXCL);
        int rc = file < 0 ? file : copy_file(backup, from, file);
        int closed = file < 0 ? 0 : backup->os->close(backup->os, file);
        rc = rc < 0 ? rc : closed;
        if (rc < 0) {
            return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be written", path);
        }
        backup->report->segments += from->segment ? 1 : 0;
        backup->report->bytes += from->bytes;
    }
    return DAYBOOK_OK;
}

static enum daybook_code copy_identity(const struct backup *backup, const char *to,
                                       struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX + 32];
    uint8_t bytes[DBK_FORMAT_FILE_BYTES];
    snprintf(path, sizeof(path), "%s/FORMAT", backup->path);
    int file = backup->os->open(backup->os, path, DBK_OPEN_READ);
    int64_t n = file < 0 ? file : backup->os->pread(backup->os, file, bytes, sizeof(bytes), 0);
    if (file >= 0) {
        (void)backup->os->close(backup->os, file);
    }
    if (n != (int64_t)sizeof(bytes)) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, n < 0 ? (int)-n : EIO, "%s cannot be read", path);
    }
    snprintf(path, sizeof(path), "%s/FORMAT", to);
    int rc = dbk_write_new(backup->os, path, bytes, sizeof(bytes));
    return rc < 0 ? dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be written", path)
                  : DAYBOOK_OK;
}

static enum daybook_code copy_all(struct backup *backup, struct daybook_error *err,
                                  const char *new_path)
{
    struct dbk_new_directory fresh;
    struct daybook_log_report verified;
    enum daybook_code code = dbk_new_directory_begin(&fresh, backup->os, new_path, err);
    if (code == DAYBOOK_OK) {
        code = copy_files(backup, fresh.partial, err);
    }
    if (code == DAYBOOK_OK) {
        code = copy_identity(backup, fresh.partial, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_log_verify(fresh.partial, backup->os, NULL, NULL, &verified, err);
        backup->report->events = verified.events;
    }
    return code == DAYBOOK_OK ? dbk_new_directory_end(&fresh, err) : code;
}

enum daybook_code dbk_log_backup(const char *path, const char *new_path, const struct dbk_os *os,
                                 struct daybook_log_backup_report *ret_report,
                                 struct daybook_error *err)
{
    memset(ret_report, 0, sizeof(*ret_report));
    if (strlen(path) > DBK_LOG_PATH_MAX - 64) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the path is too long");
    }
    struct backup *backup = malloc(sizeof(*backup));
    if (backup == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a backup");
    }
    backup->os = os;
    backup->path = path;
    backup->count = 0;
    backup->report = ret_report;
    enum daybook_code code = take(backup, err);
    if (code == DAYBOOK_OK) {
        code = copy_all(backup, err, new_path);
    }
    close_files(backup);
    free(backup);
    return code;
}

enum daybook_code daybook_log_backup(const char *path, const char *new_path,
                                     struct daybook_log_backup_report *ret_report,
                                     struct daybook_error *err)
{
    if (path == NULL || new_path == NULL || ret_report == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a path or the report is missing");
    }
    return dbk_log_backup(path, new_path, dbk_os_posix(), ret_report, err);
}
