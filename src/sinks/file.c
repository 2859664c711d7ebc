/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file destination: lines at the end of a local file, one sync a batch.
 *
 * Accepted means that the lines are synced, and the file's name with them. What a crash can leave behind
 * the last sync is a line that ends early or a hole that reads as NUL, which no JSON holds: an opening cuts
 * from there on, so that a file consists of whole lines, each accepted one among them. A write that fails or
 * is cut off takes back what it wrote. Before each write the name is looked at: a file that was moved
 * away, removed or cut by somebody else is opened anew. A lock (flock) on the file keeps a second writer
 * out. What cannot be cut off is a sync of the disk itself.
 *
 * Threads: write, check and close one at a time; interrupt from any, at any time before close.
 */
#include "sinks/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "event/line.h"
#include "json/json.h"
#include "sinks/blame.h"

#define PATH_BYTES_MAX 1024u
#define ASIDE_MORE 32u /* what the name of a file that was put aside is longer */
#define ASIDE_TRIES 1000u
#define BUFFER_BYTES (256u * 1024u)
#define TAIL_BYTES_MAX (64u * 1024u * 1024u) /* of a last line that is looked at whole */
#define DAY_US INT64_C(86400000000)
#define NO_FILE (-1)

struct file_sink {
    struct daybook_sink head;
    const struct dbk_os *os;
    char path[PATH_BYTES_MAX];
    char directory[PATH_BYTES_MAX];
    enum daybook_line_format format;
    enum daybook_rotate rotate;
    uint64_t rotate_bytes;
    _Atomic bool interrupted; /* for good */
    int64_t deadline_us;      /* of the write under way */

    int lock; /* NO_FILE with `file` */
    int file;
    uint64_t device;
    uint64_t inode;
    uint64_t size;     /* where the next byte goes */
    uint64_t unsynced; /* bytes */
    int64_t day;       /* of the last write, in days since the epoch */

    char *buf; /* lines on their way to the file */
    size_t room;
    size_t used;
};

/* ---- saying why ------------------------------------------------------------------------------- */

static enum daybook_code fail_os(const struct file_sink *s, int rc, const char *doing,
                                 struct daybook_error *err)
{
    return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "the file destination %s: %s %s", s->head.name,
                       doing, s->path);
}

static void say(struct daybook_words *words, const struct daybook_error *err)
{
    const char *name = err->os_errno != 0 ? strerrorname_np(err->os_errno) : NULL;
    struct daybook_bytes code = {name != NULL ? name : daybook_code_name(err->code), 0};
    struct daybook_bytes message = {err->message, strlen(err->message)};

    code.len = strlen(code.data);
    dbk_words_copy(words->code, sizeof words->code, code);
    dbk_words_copy(words->message, sizeof words->message, message);
}

/* ---- the file --------------------------------------------------------------------------------- */

static void close_file(struct file_sink *s)
{
    if (s->file != NO_FILE) {
        (void)s->os->close(s->os, s->file);
        (void)s->os->close(s->os, s->lock);
    }
    s->file = NO_FILE;
    s->lock = NO_FILE;
}

static bool make_room(struct file_sink *s, size_t need)
{
    if (need <= s->room) {
        return true;
    }
    char *buf = realloc(s->buf, need);
    if (buf == NULL) {
        return false;
    }
    s->buf = buf;
    s->room = need;
    return true;
}

/* Reads [from, from + len) into the buffer, which has the room. 0 or -errno; less than there should be
 * is an error. */
static int read_exactly(struct file_sink *s, uint64_t from, size_t len)
{
    size_t got = 0;

    while (got < len) {
        int64_t n = s->os->pread(s->os, s->file, s->buf + got, len - got, from + got);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        got += (size_t)n;
    }
    return 0;
}

static size_t piece(uint64_t left)
{
    return left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
}

/* Where the first NUL stands that an unfinished write may have left, or the end. 0 or -errno. */
static int find_hole(struct file_sink *s, uint64_t *ret)
{
    /* One line may stand across the beginning of what is unsynced at most. */
    uint64_t doubtful = 2 * (uint64_t)DBK_FILE_UNSYNCED_MAX;
    uint64_t at = s->size > doubtful ? s->size - doubtful : 0;

    while (at < s->size) {
        size_t len = piece(s->size - at);
        int rc = read_exactly(s, at, len);
        if (rc != 0) {
            return rc;
        }
        const char *nul = memchr(s->buf, '\0', len);
        if (nul != NULL) {
            *ret = at + (uint64_t)(nul - s->buf);
            return 0;
        }
        at += len;
    }
    *ret = s->size;
    return 0;
}

/* The end of the last whole line below `end`. 0 or -errno. */
static int find_last_line(struct file_sink *s, uint64_t end, uint64_t *ret)
{
    while (end > 0) {
        size_t len = piece(end);
        int rc = read_exactly(s, end - len, len);
        if (rc != 0) {
            return rc;
        }
        const char *newline = memrchr(s->buf, '\n', len);
        if (newline != NULL) {
            *ret = end - len + (uint64_t)(newline - s->buf) + 1;
            return 0;
        }
        end -= len;
    }
    *ret = 0;
    return 0;
}

/* Whether the bytes from `begin` to the end of the file are an object that lacks only its newline. */
static bool is_whole_object(struct file_sink *s, uint64_t begin)
{
    uint64_t len = s->size - begin;

    if (len > TAIL_BYTES_MAX || !make_room(s, (size_t)len) ||
        read_exactly(s, begin, (size_t)len) != 0) {
        return false;
    }
    return dbk_json_check_object((struct daybook_bytes){s->buf, (size_t)len}, NULL) == DAYBOOK_OK;
}

static int put_exactly(struct file_sink *s, const char *data, size_t len)
{
    while (len > 0) {
        int64_t n = s->os->pwrite(s->os, s->file, data, len, s->size);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        data += n;
        len -= (size_t)n;
        s->size += (uint64_t)n;
        s->unsynced += (uint64_t)n;
    }
    return 0;
}

/* After a crash: makes the file end with a whole line. 0 or -errno. */
static int mend_end(struct file_sink *s)
{
    uint64_t hole = 0;
    uint64_t end = 0;
    int rc = find_hole(s, &hole);

    if (rc == 0) {
        rc = find_last_line(s, hole, &end);
    }
    if (rc != 0 || end == s->size) {
        return rc;
    }
    if (hole == s->size && is_whole_object(s, end)) {
        return put_exactly(s, "\n", 1);
    }
    rc = s->os->ftruncate(s->os, s->file, end);
    s->size = rc == 0 ? end : s->size;
    return rc;
}

/* Locks the file, which makes it where it is missing, and opens it. */
static enum daybook_code open_files(struct file_sink *s, struct daybook_error *err)
{
    struct dbk_stat st;
    int lock = s->os->lock(s->os, s->path);

    if (lock == -EWOULDBLOCK) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "the file destination %s: something else writes to %s: give each "
                        "destination a file of its own",
                        s->head.name, s->path);
    }
    if (lock < 0) {
        return fail_os(s, lock, "cannot open", err);
    }
    int file = s->os->open(s->os, s->path, DBK_OPEN_WRITE);
    int rc = file < 0 ? file : s->os->stat(s->os, s->path, &st);
    bool regular = rc == 0 && st.kind == DBK_FILE_REGULAR;
    if (regular) {
        rc = s->os->fsync_dir(s->os, s->directory);
    }
    if (rc < 0 || !regular) {
        if (file >= 0) {
            (void)s->os->close(s->os, file);
        }
        (void)s->os->close(s->os, lock);
        return rc < 0
                   ? fail_os(s, rc, "cannot open", err)
                   : dbk_fail(err, DAYBOOK_BAD_CONFIG,
                              "the file destination %s: %s is no regular file, and a device or a "
                              "pipe keeps nothing: name a file, or use kind stdout",
                              s->head.name, s->path);
    }
    s->lock = lock;
    s->file = file;
    s->device = st.device;
    s->inode = st.inode;
    s->size = st.size_bytes;
    s->unsynced = 0;
    s->day = st.modified_us / DAY_US;
    return DAYBOOK_OK;
}

/* Whether what is open is still what the name stands for, and as we left it. */
static bool is_in_place(struct file_sink *s)
{
    struct dbk_stat st;

    return s->os->stat(s->os, s->path, &st) == 0 && st.device == s->device &&
           st.inode == s->inode && st.size_bytes == s->size;
}

static enum daybook_code make_ready(struct file_sink *s, struct daybook_error *err)
{
    if (s->file != NO_FILE && is_in_place(s)) {
        return DAYBOOK_OK;
    }
    close_file(s);
    enum daybook_code code = open_files(s, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    int rc = mend_end(s);
    if (rc != 0) {
        code = fail_os(s, rc, "cannot mend the end of", err);
        close_file(s);
    }
    return code;
}

/* ---- rotation --------------------------------------------------------------------------------- */

/* A name that is free: the time, and a number where that is taken. 0 or -errno. */
static int choose_aside(struct file_sink *s, char aside[PATH_BYTES_MAX + ASIDE_MORE])
{
    char stamp[ASIDE_MORE];
    time_t now = (time_t)(s->os->realtime_us(s->os) / 1000000);
    struct tm tm;
    struct dbk_stat st;

    (void)gmtime_r(&now, &tm);
    (void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    int len = snprintf(aside, PATH_BYTES_MAX + ASIDE_MORE, "%s.%s", s->path, stamp);
    int rc = s->os->stat(s->os, aside, &st);
    for (unsigned i = 2; rc == 0 && i < ASIDE_TRIES; i++) {
        (void)snprintf(aside + len, PATH_BYTES_MAX + ASIDE_MORE - (size_t)len, "-%u", i);
        rc = s->os->stat(s->os, aside, &st);
    }
    return rc == -ENOENT ? 0 : rc == 0 ? -EEXIST : rc;
}

/* Puts the file aside and begins another. What is put aside was synced by the write that filled it. */
static enum daybook_code put_aside(struct file_sink *s, struct daybook_error *err)
{
    char aside[PATH_BYTES_MAX + ASIDE_MORE];
    int rc = choose_aside(s, aside);

    if (rc == 0) {
        rc = s->os->rename(s->os, s->path, aside);
    }
    if (rc != 0) {
        return fail_os(s, rc, "cannot put aside", err);
    }
    close_file(s);
    return make_ready(s, err);
}

static bool is_due(const struct file_sink *s, uint64_t more)
{
    int64_t today = s->os->realtime_us(s->os) / DAY_US;

    return s->size > 0 && ((s->rotate_bytes > 0 && s->size + more > s->rotate_bytes) ||
                           (s->rotate == DAYBOOK_ROTATE_DAILY && today != s->day));
}

/* ---- writing ---------------------------------------------------------------------------------- */

static size_t line_bytes_max(const struct daybook_row *row)
{
    return row->event.record.len + DBK_EVENT_LINE_MORE;
}

static size_t write_line(const struct file_sink *s, const struct daybook_row *row, char *buf)
{
    return s->format == DAYBOOK_LINE_RECORD
               ? dbk_record_line_write(&row->event, buf)
               : dbk_event_line_write(&row->event, row->position, row->accepted_at_us, buf);
}

/* Bytes of the lines of a batch: exactly, so that no file becomes larger than was asked for. */
static bool measure(struct file_sink *s, const struct daybook_row *rows, size_t count,
                    uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!make_room(s, line_bytes_max(&rows[i]))) {
            return false;
        }
        *ret_bytes += write_line(s, &rows[i], s->buf);
    }
    return true;
}

static bool is_cut(const struct file_sink *s)
{
    return atomic_load(&s->interrupted) || s->os->monotonic_us(s->os) >= s->deadline_us;
}

static enum daybook_code cut_off(const struct file_sink *s, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_TIMED_OUT, "the file destination %s: cut off %s", s->head.name,
                    atomic_load(&s->interrupted) ? "because the process is stopping"
                                                 : "at the time-out");
}

static enum daybook_code sync_file(struct file_sink *s, struct daybook_error *err)
{
    int rc = s->os->fdatasync(s->os, s->file);

    s->unsynced = 0;
    return rc == 0 ? DAYBOOK_OK : fail_os(s, rc, "cannot sync", err);
}

/* Hands the buffer to the file. */
static enum daybook_code flush(struct file_sink *s, struct daybook_error *err)
{
    if (is_cut(s)) {
        return cut_off(s, err);
    }
    int rc = put_exactly(s, s->buf, s->used);
    s->used = 0;
    if (rc != 0) {
        return fail_os(s, rc, "cannot write", err);
    }
    return s->unsynced >= DBK_FILE_UNSYNCED_MAX ? sync_file(s, err) : DAYBOOK_OK;
}

static enum daybook_code write_lines(struct file_sink *s, const struct daybook_row *rows,
                                     size_t count, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;

    s->used = 0;
    for (size_t i = 0; i < count && code == DAYBOOK_OK; i++) {
        size_t need = line_bytes_max(&rows[i]);
        if (s->used > 0 && s->used + need > BUFFER_BYTES) {
            code = flush(s, err);
        }
        if (code == DAYBOOK_OK && !make_room(s, s->used + need)) {
            code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a line of %zu bytes", need);
        }
        if (code == DAYBOOK_OK) {
            s->used += write_line(s, &rows[i], s->buf + s->used);
        }
    }
    if (code == DAYBOOK_OK) {
        code = flush(s, err);
    }
    return code == DAYBOOK_OK ? sync_file(s, err) : code;
}

static enum daybook_code write_batch(struct file_sink *s, const struct daybook_row *rows,
                                     size_t count, enum daybook_effect *ret_effect,
                                     struct daybook_error *err)
{
    uint64_t bytes = 0;
    enum daybook_code code = is_cut(s) ? cut_off(s, err) : make_ready(s, err);

    if (code == DAYBOOK_OK && s->rotate_bytes > 0 && !measure(s, rows, count, &bytes)) {
        code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a line");
    }
    if (code == DAYBOOK_OK && is_due(s, bytes)) {
        code = put_aside(s, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    uint64_t begin = s->size;
    code = write_lines(s, rows, count, err);
    if (code != DAYBOOK_OK) {
        /* Nothing of the batch stays; where that fails too, the next opening looks at the end. */
        if (s->os->ftruncate(s->os, s->file, begin) != 0) {
            *ret_effect = DAYBOOK_EFFECT_UNKNOWN;
        }
        close_file(s);
        return code;
    }
    s->day = s->os->realtime_us(s->os) / DAY_US;
    if (!is_in_place(s)) {
        /* Moved away meanwhile, which would be fine, or removed: nobody can tell. */
        *ret_effect = DAYBOOK_EFFECT_UNKNOWN;
        close_file(s);
        return dbk_fail(err, DAYBOOK_BACKEND,
                        "the file destination %s: %s was moved or removed while it was written to; "
                        "the batch is written again",
                        s->head.name, s->path);
    }
    return DAYBOOK_OK;
}

static void file_write(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                       int64_t deadline_us, struct daybook_answer *ret_answer)
{
    struct file_sink *s = (struct file_sink *)sink;
    struct daybook_error err = {0};

    s->deadline_us = deadline_us;
    if (write_batch(s, rows, count, &ret_answer->effect, &err) == DAYBOOK_OK) {
        ret_answer->kind = DAYBOOK_ANSWER_ACCEPTED;
    } else {
        say(&ret_answer->words, &err);
    }
}

static void file_interrupt(struct daybook_sink *sink)
{
    atomic_store(&((struct file_sink *)sink)->interrupted, true);
}

static enum daybook_code file_check(struct daybook_sink *sink, int64_t deadline_us,
                                    struct daybook_error *err)
{
    (void)deadline_us;
    return make_ready((struct file_sink *)sink, err);
}

static void file_close(struct daybook_sink *sink)
{
    struct file_sink *s = (struct file_sink *)sink;

    close_file(s);
    free(s->buf);
    free(s);
}

static const struct daybook_sink_ops file_ops = {
    .kind = "file",
    .write = file_write,
    .interrupt = file_interrupt,
    .check = file_check,
    .close = file_close,
};

/* ---- making ----------------------------------------------------------------------------------- */

static void find_directory(struct file_sink *s)
{
    const char *slash = strrchr(s->path, '/');

    if (slash == NULL) {
        memcpy(s->directory, ".", sizeof ".");
        return;
    }
    size_t len = slash == s->path ? 1 : (size_t)(slash - s->path);
    memcpy(s->directory, s->path, len);
    s->directory[len] = '\0';
}

enum daybook_code dbk_file_open_on(const struct dbk_os *os,
                                   const struct daybook_file_options *options,
                                   struct daybook_sink **ret_sink, struct daybook_error *err)
{
    size_t len = options != NULL && options->path != NULL ? strlen(options->path) : 0;

    if (len == 0 || len >= PATH_BYTES_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the file destination needs the path of a file (path:) of at most %u bytes",
                        PATH_BYTES_MAX - 1);
    }
    struct file_sink *s = calloc(1, sizeof *s);
    char *buf = malloc(BUFFER_BYTES);
    if (s == NULL || buf == NULL) {
        free(buf);
        free(s);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the file destination");
    }
    s->head.ops = &file_ops;
    (void)snprintf(s->head.name, sizeof s->head.name, "%s",
                   options->name != NULL ? options->name : "file");
    s->os = os;
    memcpy(s->path, options->path, len + 1);
    find_directory(s);
    s->format = options->format;
    s->rotate = options->rotate;
    s->rotate_bytes = options->rotate_bytes;
    s->file = NO_FILE;
    s->lock = NO_FILE;
    s->buf = buf;
    s->room = BUFFER_BYTES;
    *ret_sink = &s->head;
    return DAYBOOK_OK;
}

enum daybook_code daybook_file_open(const struct daybook_file_options *options,
                                    struct daybook_sink **ret_sink, struct daybook_error *err)
{
    return dbk_file_open_on(dbk_os_posix(), options, ret_sink, err);
}
