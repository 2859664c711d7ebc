/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer of text: answers, metrics and log lines are written into one.
 *
 * A buffer that ran out of memory remembers it (`failed`) and ignores what follows, so that a writer
 * checks once, at the end. Threads: one at a time per buffer.
 */
#ifndef DBK_APP_TEXT_H
#define DBK_APP_TEXT_H

#include <stdarg.h>
#include <stdbool.h>

#include <daybook/base.h>

struct dbk_text {
    char *data; /* NUL-terminated once anything was written */
    size_t len;
    size_t capacity;
    bool failed;
};

/* A zeroed struct is an empty buffer. Frees what it holds and makes it empty. */
void dbk_text_release(struct dbk_text *text);
/* Hands the bytes to the caller, who frees them; the buffer is empty afterwards. NULL if it failed. */
char *dbk_text_steal(struct dbk_text *text, size_t *ret_len);
/* Makes room for `more` bytes beyond what is held. */
bool dbk_text_reserve(struct dbk_text *text, size_t more);

void dbk_text_put(struct dbk_text *text, const void *data, size_t len);
void dbk_text_str(struct dbk_text *text, const char *s);
void dbk_text_char(struct dbk_text *text, char c);
void dbk_text_u64(struct dbk_text *text, uint64_t v);
void dbk_text_printf(struct dbk_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so that the result is always
 * valid JSON, whatever a client sent. */
void dbk_text_json(struct dbk_text *text, struct daybook_bytes s);
void dbk_text_json_str(struct dbk_text *text, const char *s);
/* A JSON string that holds the time (RFC 3339 UTC), or null for DAYBOOK_TIME_UNSET. */
void dbk_text_json_time(struct dbk_text *text, int64_t us);

/* A record where the line is the frame: LF and CR become spaces, nothing else changes. */
void dbk_text_one_line(struct dbk_text *text, struct daybook_bytes record);

#endif
