/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling in a `struct daybook_error`: the caller's storage, cut at its size, never inside a UTF-8
 * sequence. Threads: any.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Ends the text at `len` or, where that is inside a UTF-8 sequence, in front of the sequence. */
static void cut(char *text, size_t len)
{
    size_t lead = len;
    unsigned char c;
    size_t need;

    text[len] = '\0';
    while (lead > 0 && len - lead < 3 && ((unsigned char)text[lead - 1] & 0xC0) == 0x80) {
        lead--;
    }
    if (lead == 0) {
        return;
    }
    lead--;
    c = (unsigned char)text[lead];
    need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    if (need > len - lead) {
        text[lead] = '\0';
    }
}

/* Appends printf output at `used`; returns the new length. */
static size_t append(struct daybook_error *err, size_t used, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static size_t append(struct daybook_error *err, size_t used, const char *format, va_list args)
{
    size_t room = sizeof err->message - used;
    int n = vsnprintf(err->message + used, room, format, args);

    if (n < 0) {
        err->message[used] = '\0';
        return used;
    }
    if ((size_t)n >= room) {
        cut(err->message, sizeof err->message - 1);
        return strlen(err->message);
    }
    return used + (size_t)n;
}

static void append_text(struct daybook_error *err, size_t used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append_text(struct daybook_error *err, size_t used, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)append(err, used, format, args);
    va_end(args);
}

static void reset(struct daybook_error *err, enum daybook_code code, int os_errno)
{
    err->code = code;
    err->os_errno = os_errno;
    err->offset = 0;
}

enum daybook_code dbk_fail(struct daybook_error *err, enum daybook_code code, const char *format,
                           ...)
{
    va_list args;

    if (err != NULL) {
        reset(err, code, 0);
        va_start(args, format);
        (void)append(err, 0, format, args);
        va_end(args);
    }
    return code;
}

enum daybook_code dbk_fail_os(struct daybook_error *err, enum daybook_code code, int os_errno,
                              const char *format, ...)
{
    char text[128];
    size_t used;
    va_list args;

    if (err != NULL) {
        reset(err, code, os_errno);
        va_start(args, format);
        used = append(err, 0, format, args);
        va_end(args);
        /* The GNU form may return a static text instead of filling the buffer. */
        append_text(err, used, ": %s", strerror_r(os_errno, text, sizeof text));
    }
    return code;
}
