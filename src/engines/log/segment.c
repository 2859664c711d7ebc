/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment files: their names and sizes, how one is prepared ahead (zero-filled, named and durable
 * before it is used), and the table of those that can be read.
 *
 * Promises: no file is created, renamed or removed on the commit path; a named segment has a complete
 * header; a pinned segment is not removed. Preparation is run by the housekeeper (or inline), reading
 * by any thread.
 */
#include "engines/log/log_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/fault.h"

enum { FILL_BYTES = 256 * 1024, FILL_SYNC_BYTES = 4 * 1024 * 1024 };

void dbk_segment_path(const struct dbk_log *log, uint32_t segment_no, const char *suffix, char *ret)
{
    int n = snprintf(ret, DBK_LOG_PATH_MAX, "%s/seg-%016" PRIx64 "%s", log->path,
                     (uint64_t)segment_no, suffix);
    dbk_assert(n > 0 && n < DBK_LOG_PATH_MAX);
}

uint32_t dbk_segment_size(const struct dbk_log *log, uint32_t segment_no)
{
    /* A young journal grows by doubling, so that a small one stays small. */
    uint64_t size = log->young_bytes;
    for (uint32_t i = 1; i < segment_no && size < log->segment_bytes; i++) {
        size *= 2;
    }
    return size < log->segment_bytes ? (uint32_t)size : log->segment_bytes;
}

int dbk_write_all(const struct dbk_os *os, int file, const void *data, size_t len, uint64_t offset)
{
    const uint8_t *p = data;
    unsigned stuck = 0;
    while (len > 0) {
        int64_t n = os->pwrite(os, file, p, len, offset);
        if (n == -EINTR) {
            continue;
        }
        if (n < 0) {
            return (int)n;
        }
        if (dbk_fault(DBK_FAULT_SHORT_WRITE_IGNORED)) {
            return 0;
        }
        if (n == 0 && ++stuck == 2) {
            return -EIO;
        }
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int dbk_sync_data(const struct dbk_os *os, int file)
{
    int rc;
    do {
        rc = os->fdatasync(os, file);
    } while (rc == -EINTR);
    return rc;
}

/* Zeros in `file` from `*at` on, which goes on as far as they were written. `syncs_every` so many bytes they are
 * synced, where they stand in the page cache. */
static int fill_through(struct dbk_log *log, int file, uint32_t *at, uint32_t bytes,
                        uint32_t syncs_every)
{
    static const _Alignas(DBK_BLOCK_BYTES) uint8_t zeros[FILL_BYTES];
    uint32_t unsynced = 0;
    while (*at < bytes) {
        uint32_t n = bytes - *at < FILL_BYTES ? bytes - *at : FILL_BYTES;
        int rc = dbk_write_all(log->os, file, zeros, n, *at);
        if (rc < 0) {
            return rc;
        }
        *at += n;
        unsynced += n;
        if (!dbk_fill_pause(log, *at, bytes)) {
            return -ECANCELED;
        }
        /* Little by little, so that no commit has to wait behind all of it. */
        if (log->housekeeper_started && unsynced >= syncs_every) {
            unsynced = 0;
            rc = dbk_sync_data(log->os, file);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return 0;
}

static int zero_fill(struct dbk_log *log, const char *path, int file, uint32_t bytes)
{
    uint32_t at = 0;
    int rc = log->os->fallocate(log->os, file, bytes);
    if (rc < 0 && rc != -EOPNOTSUPP) {
        return rc;
    }
    /* Written, not only allocated: a later overwrite then changes no metadata and fdatasync stays
     * cheap; and what was never written reads as zeros, which is what the rule of the tail needs.
     * Past the page cache, where that can be done: zeros are read by nobody, take no memory and no copy, and
     * no commit waits behind their write-back. */
    int direct = log->os->open(log->os, path, DBK_OPEN_WRITE_DIRECT);
    if (direct >= 0) {
        rc = fill_through(log, direct, &at, bytes, UINT32_MAX);
        (void)log->os->close(log->os, direct);
    }
    if (direct < 0 || rc == -EINVAL) {
        rc = fill_through(log, file, &at, bytes, FILL_SYNC_BYTES);
    }
    return rc;
}

static int fill_segment(struct dbk_log *log, const char *path, int file, struct dbk_spare *spare)
{
    uint8_t block[DBK_BLOCK_BYTES];
    struct dbk_segment_header header = {.segment_no = spare->segment_no,
                                        .segment_bytes = spare->segment_bytes,
                                        .created_us = log->os->realtime_us(log->os)};
    memcpy(header.uuid, log->identity.uuid, sizeof(header.uuid));
    int rc = zero_fill(log, path, file, spare->segment_bytes);
    if (rc == 0) {
        rc = log->os->random(log->os, &header.salt, sizeof(header.salt));
    }
    if (rc < 0) {
        return rc;
    }
    spare->salt = header.salt;
    dbk_segment_header_encode(&header, block);
    rc = dbk_write_all(log->os, file, block, sizeof(block), 0);
    return rc < 0 || dbk_fault(DBK_FAULT_SEGMENT_UNSYNCED) ? rc : log->os->fsync(log->os, file);
}

int dbk_segment_create(struct dbk_log *log, uint32_t segment_no, struct dbk_spare *ret)
{
    char temporary[DBK_LOG_PATH_MAX];
    char final[DBK_LOG_PATH_MAX];
    struct dbk_spare spare = {.segment_no = segment_no,
                              .segment_bytes = dbk_segment_size(log, segment_no)};
    dbk_segment_path(log, segment_no, ".tmp", temporary);
    dbk_segment_path(log, segment_no, ".dbl", final);
    (void)log->os->unlink(log->os, temporary); /* an attempt that failed before */
    spare.file = log->os->open(log->os, temporary, DBK_OPEN_CREATE_EXCL);
    if (spare.file < 0) {
        return spare.file;
    }
    int rc = fill_segment(log, temporary, spare.file, &spare);
    if (rc == 0) {
        rc = log->os->rename(log->os, temporary, final);
    }
    if (rc == 0 && !dbk_fault(DBK_FAULT_NO_DIR_FSYNC)) {
        rc = log->os->fsync_dir(log->os, log->path);
        if (rc < 0) {
            (void)log->os->unlink(log->os, final);
        }
    }
    if (rc < 0) {
        (void)log->os->close(log->os, spare.file);
        (void)log->os->unlink(log->os, temporary);
        return rc;
    }
    *ret = spare;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------------- */

enum daybook_code dbk_segment_add(struct dbk_log *log, uint32_t segment_no, uint32_t size_bytes)
{
    dbk_mutex_lock(&log->state_lock);
    enum daybook_code code = dbk_state_add_segment(log->state, segment_no);
    dbk_mutex_unlock(&log->state_lock);
    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_mutex_lock(&log->segments_lock);
    if (log->segment_count == log->segment_room) {
        uint32_t room = log->segment_room == 0 ? 64 : log->segment_room * 2;
        struct dbk_segment *grown = realloc(log->segments, room * sizeof(*grown));
        if (grown == NULL) {
            dbk_mutex_unlock(&log->segments_lock);
            return DAYBOOK_NO_MEMORY;
        }
        log->segments = grown;
        log->segment_room = room;
    }
    log->segments[log->segment_count++] = (struct dbk_segment){.segment_no = segment_no,
                                                               .size_bytes = size_bytes,
                                                               .file = -1,
                                                               .leave_alone_until_us = INT64_MIN};
    dbk_mutex_unlock(&log->segments_lock);
    atomic_fetch_add(&log->file_bytes, size_bytes);
    return DAYBOOK_OK;
}

/* [segments] NULL: not in the table. */
static struct dbk_segment *find_segment(struct dbk_log *log, uint32_t segment_no)
{
    uint32_t low = 0;
    uint32_t high = log->segment_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (log->segments[middle].segment_no < segment_no) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < log->segment_count && log->segments[low].segment_no == segment_no
               ? &log->segments[low]
               : NULL;
}

void dbk_segment_resized(struct dbk_log *log, uint32_t segment_no, uint32_t size_bytes)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        atomic_fetch_sub(&log->file_bytes, segment->size_bytes);
        atomic_fetch_add(&log->file_bytes, size_bytes);
        segment->size_bytes = size_bytes;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

void dbk_segment_sealed(struct dbk_log *log, uint32_t segment_no, uint32_t end)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        segment->end = end;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

void dbk_segment_indexed(struct dbk_log *log, uint32_t segment_no, uint64_t bytes)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        atomic_fetch_sub(&log->file_bytes, segment->index_bytes);
        atomic_fetch_add(&log->file_bytes, bytes);
        segment->index_bytes = bytes;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

void dbk_segment_index_bad(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        segment->bad_index = true;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

bool dbk_segment_index_is_bad(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    const struct dbk_segment *segment = find_segment(log, segment_no);
    bool is_bad = segment != NULL && segment->bad_index;
    dbk_mutex_unlock(&log->segments_lock);
    return is_bad;
}

uint64_t dbk_segment_indexes_to_come(struct dbk_log *log)
{
    enum { PART = 8, LEAST = 2 * DBK_BLOCK_BYTES };
    uint64_t bytes = 0;
    dbk_mutex_lock(&log->segments_lock);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct dbk_segment *segment = &log->segments[i];
        if (segment->index_bytes == 0) {
            bytes += segment->size_bytes / PART > LEAST ? segment->size_bytes / PART : LEAST;
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    return bytes;
}

void dbk_segment_index_impossible(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        segment->no_index = true;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

bool dbk_segment_pin_if_there(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        segment->pins++;
    }
    dbk_mutex_unlock(&log->segments_lock);
    return segment != NULL;
}

void dbk_segment_pin(struct dbk_log *log, uint32_t segment_no)
{
    bool there = dbk_segment_pin_if_there(log, segment_no);
    dbk_assert(there);
}

void dbk_segment_unpin(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    dbk_assert(segment != NULL && segment->pins > 0);
    segment->pins--;
    dbk_mutex_unlock(&log->segments_lock);
}

/* [segments] Closes the file that was read longest ago and that nobody reads now. */
static void close_one(struct dbk_log *log)
{
    struct dbk_segment *oldest = NULL;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct dbk_segment *segment = &log->segments[i];
        if (segment->file >= 0 && segment->readers == 0 &&
            (oldest == NULL || segment->used < oldest->used)) {
            oldest = segment;
        }
    }
    if (oldest != NULL) {
        (void)log->os->close(log->os, oldest->file);
        oldest->file = -1;
        log->open_files--;
    }
}

int64_t dbk_segment_read(struct dbk_log *log, struct dbk_place place, void *buf)
{
    char path[DBK_LOG_PATH_MAX];
    int file;
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, place.segment_no);
    if (segment == NULL) {
        dbk_mutex_unlock(&log->segments_lock);
        return -ENOENT;
    }
    if (segment->file < 0) {
        if (log->open_files >= DBK_OPEN_FILES_MAX) {
            close_one(log);
        }
        dbk_segment_path(log, place.segment_no, ".dbl", path);
        /* Under the lock: rare, and a local open waits for no disk once the directory is known. */
        segment->file = log->os->open(log->os, path, DBK_OPEN_READ);
        if (segment->file < 0) {
            int rc = segment->file;
            segment->file = -1;
            dbk_mutex_unlock(&log->segments_lock);
            return rc;
        }
        log->open_files++;
    }
    segment->used = ++log->use_counter;
    segment->readers++;
    file = segment->file;
    dbk_mutex_unlock(&log->segments_lock);

    uint8_t *p = buf;
    size_t got = 0;
    int64_t rc = 0;
    while (got < place.len) {
        int64_t n =
            log->os->pread(log->os, file, p + got, place.len - got, (uint64_t)place.offset + got);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            rc = n < 0 ? n : -EIO; /* an entry that was published cannot end early */
            break;
        }
        got += (size_t)n;
    }

    dbk_mutex_lock(&log->segments_lock);
    segment = find_segment(log, place.segment_no);
    dbk_assert(segment != NULL && segment->readers > 0);
    segment->readers--;
    dbk_mutex_unlock(&log->segments_lock);
    return rc < 0 ? rc : (int64_t)got;
}

uint32_t dbk_segment_next_cached(struct dbk_log *log, uint32_t keep)
{
    uint32_t found = 0;
    dbk_mutex_lock(&log->segments_lock);
    for (uint32_t i = 0; i + keep < log->segment_count && found == 0; i++) {
        const struct dbk_segment *segment = &log->segments[i];
        if (segment->segment_no > log->uncached_to && segment->end != 0 &&
            (segment->index_bytes != 0 || segment->no_index)) {
            found = segment->segment_no;
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    return found;
}

uint64_t dbk_segment_events_behind(struct dbk_log *log, uint32_t segment_no)
{
    uint64_t events = 0;
    dbk_mutex_lock(&log->segments_lock);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i].segment_no > segment_no) {
            events += dbk_state_segment_events(log->state, log->segments[i].segment_no);
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    return events;
}

void dbk_segment_uncache(struct dbk_log *log, uint32_t segment_no)
{
    char path[DBK_LOG_PATH_MAX];
    dbk_segment_path(log, segment_no, ".dbl", path);
    int file = log->os->open(log->os, path, DBK_OPEN_READ);
    if (file >= 0) {
        log->os->drop_cache(log->os, file);
        (void)log->os->close(log->os, file);
    }
    log->uncached_to = segment_no;
}

bool dbk_segment_is_free(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    const struct dbk_segment *segment = find_segment(log, segment_no);
    bool is_free = segment != NULL && segment->pins == 0 && segment->readers == 0;
    dbk_mutex_unlock(&log->segments_lock);
    return is_free;
}

bool dbk_segment_forget(struct dbk_log *log, uint32_t segment_no)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    bool free_now = segment != NULL && segment->pins == 0 && segment->readers == 0;
    if (free_now) {
        if (segment->file >= 0) {
            (void)log->os->close(log->os, segment->file);
            log->open_files--;
        }
        atomic_fetch_sub(&log->file_bytes, segment->size_bytes);
        uint32_t i = (uint32_t)(segment - log->segments);
        memmove(segment, segment + 1, (log->segment_count - i - 1) * sizeof(*segment));
        log->segment_count--;
    }
    dbk_mutex_unlock(&log->segments_lock);
    return free_now;
}

uint32_t dbk_segment_lowest(struct dbk_log *log, uint32_t *ret_second)
{
    dbk_mutex_lock(&log->segments_lock);
    uint32_t lowest = log->segment_count > 0 ? log->segments[0].segment_no : 0;
    *ret_second = log->segment_count > 1 ? log->segments[1].segment_no : 0;
    dbk_mutex_unlock(&log->segments_lock);
    return lowest;
}

struct dbk_segment_use *dbk_segment_uses(struct dbk_log *log, uint32_t *ret_count)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    uint32_t tail = log->tail_segment_no;
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment_use *uses = calloc(log->segment_count + 1, sizeof(*uses));
    uint32_t count = 0;
    for (uint32_t i = 0; uses != NULL && i < log->segment_count; i++) {
        const struct dbk_segment *segment = &log->segments[i];
        if (segment->segment_no < tail) {
            uses[count++] = (struct dbk_segment_use){
                .segment_no = segment->segment_no,
                .size_bytes = segment->size_bytes,
                .event_bytes = dbk_state_segment_bytes(log->state, segment->segment_no),
                .leave_alone_until_us = segment->leave_alone_until_us};
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    dbk_mutex_unlock(&log->state_lock);
    *ret_count = count;
    return uses;
}

uint32_t dbk_segment_use_find(const struct dbk_segment_use *uses, uint32_t count,
                              uint32_t segment_no)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (uses[middle].segment_no < segment_no) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && uses[low].segment_no == segment_no ? low : count;
}

void dbk_segment_leave_alone(struct dbk_log *log, uint32_t segment_no, int64_t until_us)
{
    dbk_mutex_lock(&log->segments_lock);
    struct dbk_segment *segment = find_segment(log, segment_no);
    if (segment != NULL) {
        segment->leave_alone_until_us = until_us;
    }
    dbk_mutex_unlock(&log->segments_lock);
}

void dbk_segments_close(struct dbk_log *log)
{
    for (uint32_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i].file >= 0) {
            (void)log->os->close(log->os, log->segments[i].file);
        }
    }
    free(log->segments);
    log->segments = NULL;
    log->segment_count = 0;
}
