/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking over text that the scanner has passed: only brackets and strings are looked at, so a
 * member costs what its bytes cost. Also the elements of a top-level array. Threads: any.
 */
#include "json/json.h"

#include "json/scan.h"

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) {
        at++;
    }
    return at;
}

/* Behind the string that begins at `at`; `end` when it does not close. */
static const char *skip_string(const char *at, const char *end)
{
    at++;
    while ((at = dbk_json_skip_plain(at, end)) < end) {
        if (*at == '"') {
            return at + 1;
        }
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    }
    return end;
}

struct daybook_bytes dbk_json_string_at(struct daybook_bytes text, size_t offset)
{
    const char *at = text.data + offset;
    return (struct daybook_bytes){at, (size_t)(skip_string(at, text.data + text.len) - at)};
}

const char *dbk_json_skip_container(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        default:
            break;
        }
        at++;
        if (depth == 0) {
            return at;
        }
    }
    return end;
}

static const char *skip_word(const char *at, const char *end)
{
    while (at < end && *at != ',' && *at != '}' && *at != ']' && *at != ' ' && *at != '\n' &&
           *at != '\t' && *at != '\r') {
        at++;
    }
    return at;
}

static enum dbk_json_token kind_of(char c)
{
    switch (c) {
    case '{':
        return DBK_JSON_OBJECT_BEGIN;
    case '[':
        return DBK_JSON_ARRAY_BEGIN;
    case '"':
        return DBK_JSON_STRING;
    case 't':
        return DBK_JSON_TRUE;
    case 'f':
        return DBK_JSON_FALSE;
    case 'n':
        return DBK_JSON_NULL;
    default:
        return DBK_JSON_NUMBER;
    }
}

static const char *skip_value(const char *at, const char *end)
{
    switch (*at) {
    case '{':
    case '[':
        return dbk_json_skip_container(at, end);
    case '"':
        return skip_string(at, end);
    default:
        return skip_word(at, end);
    }
}

bool dbk_json_walk_init(struct dbk_json_walk *walk, struct daybook_bytes container)
{
    const char *end = container.len > 0 ? container.data + container.len : container.data;
    const char *at = skip_space(container.data, end);
    if (at >= end || (*at != '{' && *at != '[')) {
        return false;
    }
    walk->object = *at == '{';
    walk->at = at + 1;
    walk->end = end;
    return true;
}

bool dbk_json_walk_next(struct dbk_json_walk *walk, struct dbk_json_item *ret_item)
{
    const char *end = walk->end;
    const char *at = skip_space(walk->at, end);
    if (at < end && *at == ',') {
        at = skip_space(at + 1, end);
    }
    if (at >= end || *at == '}' || *at == ']') {
        walk->at = end;
        return false;
    }
    struct dbk_json_item item = {{at, 0}, {at, 0}, DBK_JSON_NULL};
    if (walk->object) {
        const char *name_end = *at == '"' ? skip_string(at, end) : end;
        item.name.len = (size_t)(name_end - at);
        at = skip_space(name_end, end);
        at = at < end ? skip_space(at + 1, end) : end; /* the colon */
        if (at >= end) {
            walk->at = end;
            return false;
        }
    }
    const char *value_end = skip_value(at, end);
    if (value_end == at) {
        walk->at = end; /* text that was never scanned */
        return false;
    }
    item.value = (struct daybook_bytes){at, (size_t)(value_end - at)};
    item.kind = kind_of(*at);
    walk->at = value_end;
    *ret_item = item;
    return true;
}

void dbk_json_one_line(struct daybook_bytes value, char *buf)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        buf[i] = c == '\n' || c == '\r' ? ' ' : c;
    }
}
