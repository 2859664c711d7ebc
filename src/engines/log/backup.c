/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consistent copy of a journal, also of one that is being written.
 *
 * Every whole group of the log, from its first to some last one, is a journal: what a process leaves that
 * ends there. So the copy needs no help of the writer and holds nothing up: it is told how far the log
 * reaches (dbk_scan_reach), opens every segment file up to there, and copies. A segment that is trimmed
 * meanwhile stays readable through its open file. Everything that was answered before the call is in it,
 * because a group is written before it is answered. The copy is verified and durable before it has its name.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "engines/log/log.h"
#include "engines/log/rewrite.h"
#include "engines/log/scan.h"

enum { COPY_BYTES = 1 << 20, FILES_MAX = 4096, TRIES = 20 };

struct copied {
    uint32_t segment_no;
    uint32_t bytes;
    uint32_t
        file_bytes; /* of the copy: zeros behind, so that a cut file is told from a whole one */
    int file;
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

/* Opens what belongs to the log up to the end. BACKEND with ENOENT: one was trimmed meanwhile. */
static enum daybook_code open_files(struct backup *backup, const struct dbk_scan *scan,
                                    const struct dbk_scan_end *end, struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX + 32];
    for (uint32_t i = 0; i < scan->count && scan->segments[i].segment_no <= end->segment_no; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        if (backup->count == FILES_MAX) {
            return dbk_fail(err, DAYBOOK_BACKEND, "%s: more than %d segments", backup->path,
                            (int)FILES_MAX);
        }
        snprintf(path, sizeof(path), "%s/seg-%016" PRIx64 ".dbl", backup->path,
                 (uint64_t)segment->segment_no);
        int file = backup->os->open(backup->os, path, DBK_OPEN_READ);
        if (file < 0) {
            return dbk_fail_os(err, DAYBOOK_BACKEND, -file, "%s cannot be opened", path);
        }
        backup->files[backup->count++] = (struct copied){
            .segment_no = segment->segment_no,
            .bytes = segment->segment_no == end->segment_no ? end->offset : dbk_scan_used(scan, i),
            .file_bytes = segment->segment_no == end->segment_no ? segment->segment_bytes : 0,
            .file = file};
    }
    return DAYBOOK_OK;
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
            code = open_files(backup, &scan, &end, &detail);
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
    for (uint32_t at = 0; rc == 0 && at < from->bytes;) {
        uint32_t want = from->bytes - at < COPY_BYTES ? from->bytes - at : COPY_BYTES;
        int64_t n = backup->os->pread(backup->os, from->file, backup->buffer, want, at);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        rc = dbk_write_all(backup->os, to, backup->buffer, (size_t)n, at);
        at += (uint32_t)n;
    }
    if (rc == 0 && from->file_bytes > from->bytes) {
        rc = backup->os->ftruncate(backup->os, to, from->file_bytes);
    }
    return rc < 0 || dbk_fault(DBK_FAULT_COPY_UNSYNCED) ? rc : backup->os->fsync(backup->os, to);
}

static enum daybook_code copy_segments(struct backup *backup, const char *to,
                                       struct daybook_error *err)
{
    char path[DBK_LOG_PATH_MAX + 32];
    for (uint32_t i = 0; i < backup->count; i++) {
        const struct copied *from = &backup->files[i];
        snprintf(path, sizeof(path), "%s/seg-%016" PRIx64 ".dbl", to, (uint64_t)from->segment_no);
        int file = backup->os->open(backup->os, path, DBK_OPEN_CREATE_EXCL);
        int rc = file < 0 ? file : copy_file(backup, from, file);
        int closed = file < 0 ? 0 : backup->os->close(backup->os, file);
        rc = rc < 0 ? rc : closed;
        if (rc < 0) {
            return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be written", path);
        }
        backup->report->segments++;
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
        code = copy_segments(backup, fresh.partial, err);
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
