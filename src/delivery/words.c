/* SPDX-License-Identifier: Apache-2.0 */
/* The words of words.h. */
#include "delivery/words.h"

#include <assert.h>
#include <string.h>

#include "json/json.h"

#define PARTS 5u
/* With texts of no more than this each, all of them fit whatever they become when they are escaped. */
#define TEXT_BYTES_LEAST 60u
static_assert(PARTS * (sizeof "\"constraint\":," + DBK_JSON_ESCAPED_MAX(TEXT_BYTES_LEAST)) + 2 <=
                  DAYBOOK_WORDS_BYTES_MAX,
              "the shortest cut always fits");

struct part {
    const char *name; /* with the comma in front of it */
    struct daybook_bytes text;
};

/* A text of at most `max` bytes, cut between characters. */
static struct daybook_bytes cut(struct daybook_bytes text, size_t max)
{
    if (text.len > max) {
        text.len = max;
        while (text.len > 0 && ((unsigned char)text.data[text.len] & 0xC0u) == 0x80u) {
            text.len--;
        }
    }
    return text;
}

/* Writes what fits into `buf`. Returns how many bytes all of it takes. */
static size_t encode(const struct part parts[PARTS], size_t text_max,
                     char buf[DAYBOOK_WORDS_BYTES_MAX])
{
    size_t used = 0;

    for (size_t i = 0; i < PARTS; i++) {
        const struct part *part = &parts[i];
        size_t name_len = strlen(part->name);
        if (part->text.len == 0) {
            continue;
        }
        if (used + name_len >= DAYBOOK_WORDS_BYTES_MAX) {
            return DAYBOOK_WORDS_BYTES_MAX + 1;
        }
        memcpy(buf + used, part->name, name_len);
        buf[used] = used == 0 ? '{' : ',';
        used += name_len;
        used +=
            dbk_json_escape(cut(part->text, text_max), buf + used, DAYBOOK_WORDS_BYTES_MAX - used);
        if (used >= DAYBOOK_WORDS_BYTES_MAX) {
            return DAYBOOK_WORDS_BYTES_MAX + 1;
        }
    }
    if (used == 0) {
        buf[used++] = '{';
    }
    buf[used++] = '}';
    return used;
}

#define TEXT_OF(field) ((struct daybook_bytes){(field), strnlen((field), sizeof(field))})

struct daybook_bytes dbk_words_encode(const char *sink, const struct daybook_words *words,
                                      char buf[DAYBOOK_WORDS_BYTES_MAX])
{
    const struct part parts[PARTS] = {
        {",\"sink\":", {sink, strlen(sink)}},
        {",\"code\":", TEXT_OF(words->code)},
        {",\"constraint\":", TEXT_OF(words->constraint)},
        {",\"column\":", TEXT_OF(words->column)},
        {",\"message\":", TEXT_OF(words->message)},
    };
    size_t text_max = sizeof words->message;
    size_t len = encode(parts, text_max, buf);

    while (len > DAYBOOK_WORDS_BYTES_MAX) {
        text_max = text_max / 2 > TEXT_BYTES_LEAST ? text_max / 2 : TEXT_BYTES_LEAST;
        len = encode(parts, text_max, buf);
    }
    return (struct daybook_bytes){buf, len};
}
