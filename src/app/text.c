/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer of text.h. */
#include "app/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <daybook/event.h>

#include "json/json.h"

#define FIRST_BYTES                                                                                \
    512u /* the answer to one event fits: its id is reserved at its longest escape */

void dbk_text_release(struct dbk_text *text)
{
    free(text->data);
    *text = (struct dbk_text){0};
}

char *dbk_text_steal(struct dbk_text *text, size_t *ret_len)
{
    if (text->failed || !dbk_text_reserve(text, 0)) {
        dbk_text_release(text);
        return NULL;
    }
    char *data = text->data;
    data[text->len] = '\0';
    if (ret_len != NULL) {
        *ret_len = text->len;
    }
    *text = (struct dbk_text){0};
    return data;
}

bool dbk_text_reserve(struct dbk_text *text, size_t more)
{
    if (text->failed) {
        return false;
    }
    size_t need = text->len + more + 1; /* the NUL */
    if (need <= text->capacity) {
        return true;
    }
    size_t capacity = text->capacity < FIRST_BYTES ? FIRST_BYTES : text->capacity;
    while (capacity < need) {
        capacity += capacity / 2;
    }
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void dbk_text_put(struct dbk_text *text, const void *data, size_t len)
{
    if (!dbk_text_reserve(text, len)) {
        return;
    }
    if (len > 0) {
        memcpy(text->data + text->len, data, len);
    }
    text->len += len;
    text->data[text->len] = '\0';
}

void dbk_text_str(struct dbk_text *text, const char *s)
{
    dbk_text_put(text, s, strlen(s));
}

void dbk_text_char(struct dbk_text *text, char c)
{
    dbk_text_put(text, &c, 1);
}

void dbk_text_u64(struct dbk_text *text, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    dbk_text_put(text, digits + at, sizeof digits - at);
}

void dbk_text_printf(struct dbk_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        text->failed = true;
    } else if (dbk_text_reserve(text, (size_t)n)) {
        (void)vsnprintf(text->data + text->len, (size_t)n + 1, format, again);
        text->len += (size_t)n;
    }
    va_end(again);
}

void dbk_text_json(struct dbk_text *text, struct daybook_bytes s)
{
    size_t room = DBK_JSON_ESCAPED_MAX(s.len);
    if (dbk_text_reserve(text, room)) {
        text->len += dbk_json_escape(s, text->data + text->len, room);
        text->data[text->len] = '\0';
    }
}

void dbk_text_json_str(struct dbk_text *text, const char *s)
{
    dbk_text_json(text, (struct daybook_bytes){s, strlen(s)});
}

void dbk_text_json_time(struct dbk_text *text, int64_t us)
{
    if (us == DAYBOOK_TIME_UNSET) {
        dbk_text_str(text, "null");
        return;
    }
    char time[DAYBOOK_TIME_TEXT_MAX];
    (void)daybook_time_format(us, time);
    dbk_text_char(text, '"');
    dbk_text_str(text, time);
    dbk_text_char(text, '"');
}

void dbk_text_one_line(struct dbk_text *text, struct daybook_bytes record)
{
    if (dbk_text_reserve(text, record.len)) {
        dbk_json_one_line(record, text->data + text->len);
        text->len += record.len;
        text->data[text->len] = '\0';
    }
}
