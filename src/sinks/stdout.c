/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output as a destination: lines, in order, without a sync.
 *
 * Accepted means that the lines were written; a reader that dies takes with it what it had not read. A pipe
 * is written in pieces that it takes without blocking, so that a write ends at its deadline; what was cut off
 * inside a line is completed by the next write, so that the reader sees whole lines alone.
 *
 * Threads: write, check and close one at a time; interrupt from any, at any time before close.
 */
#include <daybook/file.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "event/line.h"
#include "sinks/blame.h"

#define STEP_MS 20 /* between two looks at the deadline, while the reader does not read */

struct stdout_sink {
    struct daybook_sink head;
    const struct dbk_os *os;
    enum daybook_line_format format;
    _Atomic bool interrupted;
    int64_t deadline_us;
    char *line; /* the line at hand; from `at` to `len` it is not written yet */
    size_t room;
    size_t at;
    size_t len;
};

static bool is_cut(const struct stdout_sink *s)
{
    return atomic_load(&s->interrupted) || s->os->monotonic_us(s->os) >= s->deadline_us;
}

/* Whether a piece can be written without waiting; looks again and again until the write is cut. */
static bool wait_for_reader(const struct stdout_sink *s)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    while (!is_cut(s)) {
        /* An error or a reader that has gone is told by the write. */
        if (poll(&out, 1, STEP_MS) > 0) {
            return true;
        }
    }
    return false;
}

/* Writes the rest of the line at hand. */
static enum daybook_code put_line(struct stdout_sink *s, struct daybook_error *err)
{
    while (s->at < s->len) {
        if (!wait_for_reader(s)) {
            return dbk_fail(err, DAYBOOK_TIMED_OUT,
                            "standard output: cut off: whoever reads it does not go on");
        }
        size_t left = s->len - s->at;
        ssize_t n = write(STDOUT_FILENO, s->line + s->at, left < PIPE_BUF ? left : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return dbk_fail_os(err, DAYBOOK_BACKEND, errno, "standard output cannot be written");
        }
        s->at += n > 0 ? (size_t)n : 0;
    }
    return DAYBOOK_OK;
}

static enum daybook_code take_row(struct stdout_sink *s, const struct daybook_row *row,
                                  struct daybook_error *err)
{
    size_t need = row->event.record.len + DBK_EVENT_LINE_MORE;

    if (need > s->room) {
        char *line = realloc(s->line, need);
        if (line == NULL) {
            return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a line of %zu bytes", need);
        }
        s->line = line;
        s->room = need;
    }
    s->at = 0;
    s->len = s->format == DAYBOOK_LINE_RECORD
                 ? dbk_record_line_write(&row->event, s->line)
                 : dbk_event_line_write(&row->event, row->position, row->accepted_at_us, s->line);
    return put_line(s, err);
}

static void stdout_write(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                         int64_t deadline_us, struct daybook_answer *ret_answer)
{
    struct stdout_sink *s = (struct stdout_sink *)sink;
    struct daybook_error err = {0};

    s->deadline_us = deadline_us;
    enum daybook_code code = put_line(s, &err); /* what an earlier write left of its line */
    for (size_t i = 0; i < count && code == DAYBOOK_OK; i++) {
        /* A line that was begun is ended by the next write, and read by then. */
        ret_answer->effect = i > 0 ? DAYBOOK_EFFECT_UNKNOWN : DAYBOOK_EFFECT_NONE;
        code = take_row(s, &rows[i], &err);
        if (code != DAYBOOK_OK && s->at > 0) {
            ret_answer->effect = DAYBOOK_EFFECT_UNKNOWN;
        }
    }
    if (code == DAYBOOK_OK) {
        ret_answer->kind = DAYBOOK_ANSWER_ACCEPTED;
        ret_answer->effect = DAYBOOK_EFFECT_NONE;
        return;
    }
    struct daybook_bytes message = {err.message, strlen(err.message)};
    (void)snprintf(ret_answer->words.code, sizeof ret_answer->words.code, "%s",
                   daybook_code_name(code));
    dbk_words_copy(ret_answer->words.message, sizeof ret_answer->words.message, message);
}

static void stdout_interrupt(struct daybook_sink *sink)
{
    atomic_store(&((struct stdout_sink *)sink)->interrupted, true);
}

static enum daybook_code stdout_check(struct daybook_sink *sink, int64_t deadline_us,
                                      struct daybook_error *err)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    (void)sink;
    (void)deadline_us;
    (void)poll(&out, 1, 0);
    if ((out.revents & (POLLERR | POLLNVAL)) != 0) {
        return dbk_fail(err, DAYBOOK_BACKEND, "standard output is closed: nobody reads it");
    }
    return DAYBOOK_OK;
}

static void stdout_close(struct daybook_sink *sink)
{
    struct stdout_sink *s = (struct stdout_sink *)sink;

    free(s->line);
    free(s);
}

static const struct daybook_sink_ops stdout_ops = {
    .kind = "stdout",
    .write = stdout_write,
    .interrupt = stdout_interrupt,
    .check = stdout_check,
    .close = stdout_close,
};

enum daybook_code daybook_stdout_open(const struct daybook_stdout_options *options,
                                      struct daybook_sink **ret_sink, struct daybook_error *err)
{
    struct stdout_sink *s = calloc(1, sizeof *s);

    if (s == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for standard output as a destination");
    }
    s->head.ops = &stdout_ops;
    (void)snprintf(s->head.name, sizeof s->head.name, "%s",
                   options != NULL && options->name != NULL ? options->name : "stdout");
    s->os = dbk_os_posix();
    s->format = options != NULL ? options->format : DAYBOOK_LINE_EVENT;
    *ret_sink = &s->head;
    return DAYBOOK_OK;
}
