/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner itself: tokens, nesting, faults. Threads: any; a handle by one at a time.
 */
#include "json/json.h"

#include <string.h>

#include "base/error.h"
#include "json/scan.h"

/* What may come next. */
enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* just after [ */
    EXPECT_NAME_OR_END,  /* just after { */
    EXPECT_COMMA_OR_END, /* after a value inside a container */
    EXPECT_END,          /* after the outermost value */
    EXPECT_NOTHING       /* FAULT or END was returned */
};

void dbk_json_init(struct dbk_json *json, struct daybook_bytes text, struct dbk_json_names *names)
{
    json->text = text.data != NULL ? text.data : "";
    json->len = text.len;
    json->at = 0;
    json->token_begin = 0;
    json->token_end = 0;
    json->escaped = false;
    json->depth = 0;
    json->expect = EXPECT_VALUE;
    json->objects = 0;
    json->names = names;
    json->fault = DBK_JSON_FINE;
    json->fault_at = 0;
    json->refusal = DBK_JSON_FINE;
    json->refusal_at = 0;
    if (text.len > DBK_JSON_BYTES_MAX) {
        json->fault = DBK_JSON_TOO_LONG;
        json->expect = EXPECT_NOTHING;
    }
}

struct daybook_bytes dbk_json_token_bytes(const struct dbk_json *json)
{
    return (struct daybook_bytes){json->text + json->token_begin,
                                  json->token_end - json->token_begin};
}

void dbk_json_refuse(struct dbk_json *json, enum dbk_json_fault fault, size_t at)
{
    if (json->refusal == DBK_JSON_FINE) {
        json->refusal = fault;
        json->refusal_at = at;
    }
}

static enum dbk_json_token fail(struct dbk_json *json, enum dbk_json_fault fault, size_t at)
{
    json->fault = fault;
    json->fault_at = at;
    json->expect = EXPECT_NOTHING;
    return DBK_JSON_FAULT;
}

/* A byte that cannot stand at `at`, or no byte at all. */
static enum dbk_json_token unexpected(struct dbk_json *json, size_t at)
{
    if (at >= json->len) {
        return fail(json, DBK_JSON_TRUNCATED, json->len);
    }
    if (at == 0 && json->len >= 3 && memcmp(json->text, "\xef\xbb\xbf", 3) == 0) {
        return fail(json, DBK_JSON_BOM, 0);
    }
    return fail(json, DBK_JSON_UNEXPECTED, at);
}

static size_t skip_space(const struct dbk_json *json, size_t at)
{
    while (at < json->len && (json->text[at] == ' ' || json->text[at] == '\n' ||
                              json->text[at] == '\t' || json->text[at] == '\r')) {
        at++;
    }
    return at;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Four hexadecimal digits at `at`; -1 and a fault when they are not there. */
static int32_t scan_hex4(struct dbk_json *json, size_t at)
{
    int32_t unit = 0;
    for (size_t i = at; i < at + 4; i++) {
        if (i >= json->len) {
            (void)fail(json, DBK_JSON_TRUNCATED, json->len);
            return -1;
        }
        int digit = hex_digit(json->text[i]);
        if (digit < 0) {
            (void)fail(json, DBK_JSON_BAD_ESCAPE, i);
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

/* A \u escape at `at` (its backslash), with the second half of a pair. Returns the offset behind
 * it, 0 on a fault. */
static size_t scan_unicode_escape(struct dbk_json *json, size_t at)
{
    int32_t unit = scan_hex4(json, at + 2);
    if (unit < 0) {
        return 0;
    }
    if (unit == 0) {
        dbk_json_refuse(json, DBK_JSON_NUL, at);
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return at + 6;
    }
    if (unit < 0xdc00 && json->len - at >= 8 && json->text[at + 6] == '\\' &&
        json->text[at + 7] == 'u') {
        int32_t low = scan_hex4(json, at + 8);
        if (low < 0) {
            return 0;
        }
        if (low >= 0xdc00 && low <= 0xdfff) {
            return at + 12;
        }
    }
    dbk_json_refuse(json, DBK_JSON_SURROGATE, at);
    return at + 6;
}

/* An escape at `at`. Returns the offset behind it, 0 on a fault. */
static size_t scan_escape(struct dbk_json *json, size_t at)
{
    json->escaped = true;
    if (at + 1 >= json->len) {
        (void)fail(json, DBK_JSON_TRUNCATED, json->len);
        return 0;
    }
    switch (json->text[at + 1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return at + 2;
    case 'u':
        return scan_unicode_escape(json, at);
    default:
        (void)fail(json, DBK_JSON_BAD_ESCAPE, at);
        return 0;
    }
}

/* A string whose opening quote stands at `at`. Returns the offset behind it, 0 on a fault. */
static size_t scan_string(struct dbk_json *json, size_t at)
{
    json->escaped = false;
    at++;
    for (;;) {
        at = (size_t)(dbk_json_skip_plain(json->text + at, json->text + json->len) - json->text);
        if (at >= json->len) {
            (void)fail(json, DBK_JSON_TRUNCATED, json->len);
            return 0;
        }
        unsigned char c = (unsigned char)json->text[at];
        if (c == '"') {
            return at + 1;
        }
        if (c == '\\') {
            at = scan_escape(json, at);
            if (at == 0) {
                return 0;
            }
        } else if (c < 0x20) {
            (void)fail(json, DBK_JSON_CONTROL, at);
            return 0;
        } else {
            unsigned n = dbk_utf8_length(json->text + at, json->text + json->len);
            if (n == 0) {
                (void)fail(json, DBK_JSON_BAD_UTF8, at);
                return 0;
            }
            at += n;
        }
    }
}

/* At least one digit from `at` on; the offset behind them, 0 and a fault when there is none. */
static size_t scan_digits(struct dbk_json *json, size_t at)
{
    size_t begin = at;
    while (at < json->len && json->text[at] >= '0' && json->text[at] <= '9') {
        at++;
    }
    if (at == begin) {
        (void)fail(json, at < json->len ? DBK_JSON_BAD_NUMBER : DBK_JSON_TRUNCATED, at);
        return 0;
    }
    return at;
}

/* A number at `at` (a digit or a minus). Returns the offset behind it, 0 on a fault. */
static size_t scan_number(struct dbk_json *json, size_t at)
{
    const char *text = json->text;
    size_t len = json->len;
    if (text[at] == '-') {
        at++;
    }
    if (at < len && text[at] == '0') {
        at++;
        if (at < len && text[at] >= '0' && text[at] <= '9') {
            (void)fail(json, DBK_JSON_BAD_NUMBER, at);
            return 0;
        }
    } else {
        at = scan_digits(json, at);
        if (at == 0) {
            return 0;
        }
    }
    if (at < len && text[at] == '.') {
        at = scan_digits(json, at + 1);
        if (at == 0) {
            return 0;
        }
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < len && (text[at] == '+' || text[at] == '-')) {
            at++;
        }
        at = scan_digits(json, at);
    }
    return at;
}

static bool inside_object(const struct dbk_json *json)
{
    return (json->objects >> (json->depth - 1) & 1) != 0;
}

static enum dbk_json_token emit(struct dbk_json *json, enum dbk_json_token token, size_t begin,
                                size_t end)
{
    json->token_begin = begin;
    json->token_end = end;
    json->at = end;
    json->expect = json->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_END;
    return token;
}

static enum dbk_json_token scan_word(struct dbk_json *json, size_t at, const char *word, size_t len,
                                     enum dbk_json_token token)
{
    for (size_t i = 0; i < len; i++) {
        if (at + i >= json->len || json->text[at + i] != word[i]) {
            return unexpected(json, at + i);
        }
    }
    return emit(json, token, at, at + len);
}

static enum dbk_json_token open_container(struct dbk_json *json, size_t at,
                                          enum dbk_json_token token)
{
    if (json->depth == DBK_JSON_DEPTH_MAX) {
        return fail(json, DBK_JSON_TOO_DEEP, at);
    }
    uint64_t bit = UINT64_C(1) << json->depth;
    if (token == DBK_JSON_OBJECT_BEGIN) {
        json->objects |= bit;
    } else {
        json->objects &= ~bit;
    }
    if (json->names != NULL) {
        json->names->base[json->depth] = json->names->count;
    }
    json->depth++;
    (void)emit(json, token, at, at + 1);
    json->expect = token == DBK_JSON_OBJECT_BEGIN ? EXPECT_NAME_OR_END : EXPECT_VALUE_OR_END;
    return token;
}

static enum dbk_json_token close_container(struct dbk_json *json, size_t at)
{
    bool object = inside_object(json);
    json->depth--;
    if (object && json->names != NULL) {
        size_t twice = 0;
        if (dbk_json_names_close(json->names, json->names->base[json->depth],
                                 (struct daybook_bytes){json->text, json->len}, &twice)) {
            dbk_json_refuse(json, DBK_JSON_DUPLICATE, twice);
        }
    }
    return emit(json, object ? DBK_JSON_OBJECT_END : DBK_JSON_ARRAY_END, at, at + 1);
}

static enum dbk_json_token scan_value(struct dbk_json *json, size_t at)
{
    if (at >= json->len) {
        return unexpected(json, at);
    }
    char c = json->text[at];
    size_t end;
    switch (c) {
    case '"':
        end = scan_string(json, at);
        return end == 0 ? DBK_JSON_FAULT : emit(json, DBK_JSON_STRING, at, end);
    case '{':
        return open_container(json, at, DBK_JSON_OBJECT_BEGIN);
    case '[':
        return open_container(json, at, DBK_JSON_ARRAY_BEGIN);
    case 't':
        return scan_word(json, at, "true", 4, DBK_JSON_TRUE);
    case 'f':
        return scan_word(json, at, "false", 5, DBK_JSON_FALSE);
    case 'n':
        return scan_word(json, at, "null", 4, DBK_JSON_NULL);
    default:
        if (c != '-' && (c < '0' || c > '9')) {
            return unexpected(json, at);
        }
        end = scan_number(json, at);
        return end == 0 ? DBK_JSON_FAULT : emit(json, DBK_JSON_NUMBER, at, end);
    }
}

/* A member name at `at`, and its colon. */
static enum dbk_json_token scan_name(struct dbk_json *json, size_t at)
{
    if (at >= json->len || json->text[at] != '"') {
        return unexpected(json, at);
    }
    size_t end = scan_string(json, at);
    if (end == 0) {
        return DBK_JSON_FAULT;
    }
    size_t colon = skip_space(json, end);
    if (colon >= json->len || json->text[colon] != ':') {
        return unexpected(json, colon);
    }
    if (json->names != NULL) {
        struct daybook_bytes token = {json->text + at, end - at};
        uint32_t hash = json->escaped ? dbk_json_string_hash(token)
                                      : dbk_json_plain_hash(token.data + 1, token.len - 2);
        if (!dbk_json_names_add(json->names, hash, at)) {
            return fail(json, DBK_JSON_OUT_OF_MEMORY, at);
        }
    }
    (void)emit(json, DBK_JSON_NAME, at, end);
    json->at = colon + 1;
    json->expect = EXPECT_VALUE;
    return DBK_JSON_NAME;
}

enum dbk_json_token dbk_json_next(struct dbk_json *json)
{
    if (json->expect == EXPECT_NOTHING) {
        return json->fault == DBK_JSON_FINE ? DBK_JSON_END : DBK_JSON_FAULT;
    }
    size_t at = skip_space(json, json->at);
    char c = at < json->len ? json->text[at] : '\0';
    switch ((enum expect)json->expect) {
    case EXPECT_VALUE_OR_END:
        if (c == ']') {
            return close_container(json, at);
        }
        return scan_value(json, at);
    case EXPECT_NAME_OR_END:
        if (c == '}') {
            return close_container(json, at);
        }
        return scan_name(json, at);
    case EXPECT_COMMA_OR_END:
        if (c == ',') {
            at = skip_space(json, at + 1);
            return inside_object(json) ? scan_name(json, at) : scan_value(json, at);
        }
        if (c == (inside_object(json) ? '}' : ']')) {
            return close_container(json, at);
        }
        return unexpected(json, at);
    case EXPECT_END:
        if (at < json->len) {
            return fail(json, DBK_JSON_TRAILING, at);
        }
        json->expect = EXPECT_NOTHING;
        return DBK_JSON_END;
    case EXPECT_VALUE:
    case EXPECT_NOTHING:
    default:
        return scan_value(json, at);
    }
}

static const struct {
    enum daybook_code code;
    const char *what;
} faults[] = {
    [DBK_JSON_FINE] = {DAYBOOK_OK, ""},
    [DBK_JSON_UNEXPECTED] = {DAYBOOK_MALFORMED_JSON, "this byte cannot stand here in JSON"},
    [DBK_JSON_TRUNCATED] = {DAYBOOK_MALFORMED_JSON, "the JSON text ends before its value does"},
    [DBK_JSON_BAD_ESCAPE] = {DAYBOOK_MALFORMED_JSON, "this is no escape of JSON"},
    [DBK_JSON_CONTROL] = {DAYBOOK_MALFORMED_JSON,
                          "a control character in a string has to be escaped"},
    [DBK_JSON_BAD_UTF8] = {DAYBOOK_MALFORMED_JSON, "this is not valid UTF-8"},
    [DBK_JSON_BAD_NUMBER] = {DAYBOOK_MALFORMED_JSON, "this is no number of JSON"},
    [DBK_JSON_TRAILING] = {DAYBOOK_MALFORMED_JSON, "bytes follow the end of the JSON value"},
    [DBK_JSON_BOM] = {DAYBOOK_MALFORMED_JSON, "a byte order mark stands before the JSON value"},
    [DBK_JSON_NUL] = {DAYBOOK_INVALID_EVENT, "the record holds \\u0000, which not every "
                                             "destination can hold"},
    [DBK_JSON_SURROGATE] = {DAYBOOK_INVALID_EVENT,
                            "the record holds half of a surrogate pair, which is no character"},
    [DBK_JSON_DUPLICATE] = {DAYBOOK_INVALID_EVENT,
                            "a member name stands twice in one object of the record"},
    [DBK_JSON_NOT_OBJECT] = {DAYBOOK_INVALID_EVENT, "the record is not a JSON object"},
    [DBK_JSON_TOO_DEEP] = {DAYBOOK_INVALID_EVENT, "the record is nested deeper than 64 levels"},
    [DBK_JSON_TOO_LONG] = {DAYBOOK_TOO_LARGE, "the JSON text is 4 GiB or longer"},
    [DBK_JSON_OUT_OF_MEMORY] = {DAYBOOK_NO_MEMORY,
                                "no memory to compare the member names of the record"},
};

enum daybook_code dbk_json_verdict(const struct dbk_json *json, struct daybook_error *err)
{
    enum dbk_json_fault fault = json->fault;
    size_t at = json->fault_at;
    if (fault == DBK_JSON_FINE || (fault == DBK_JSON_TOO_DEEP && json->refusal != DBK_JSON_FINE)) {
        fault = json->refusal;
        at = json->refusal_at;
    }
    if (fault == DBK_JSON_FINE) {
        return DAYBOOK_OK;
    }
    (void)dbk_fail(err, faults[fault].code, "%s (at byte %zu)", faults[fault].what, at);
    if (err != NULL) {
        err->offset = at;
    }
    return faults[fault].code;
}

/* Behind the plain string that opens at `at`; NULL: it is not plain ASCII, or does not close. */
static const char *plain_string_end(const char *at, const char *end)
{
    at = dbk_json_skip_plain(at + 1, end);
    return at < end && *at == '"' ? at + 1 : NULL;
}

/* Behind the plain value at `at`: a string as above, or digits that are a whole number of themselves.
 * NULL: it is of another kind. */
static const char *plain_value_end(const char *at, const char *end)
{
    if (at < end && *at == '"') {
        return plain_string_end(at, end);
    }
    const char *begin = at;
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    if (at == begin || at == end || *at == '.' || *at == 'e' || *at == 'E' ||
        (*begin == '0' && at - begin > 1)) {
        return NULL;
    }
    return at;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) {
        at++;
    }
    return at;
}

/* dbk_json_names_add without a call for the usual case. */
static inline bool add_name(struct dbk_json_names *names, uint32_t hash, size_t offset)
{
    if (names->count == names->room) {
        return dbk_json_names_add(names, hash, offset);
    }
    names->open[names->count++] = (struct dbk_json_name){.hash = hash, .offset = (uint32_t)offset};
    return true;
}

/* Inside an object, a name or a comma to come: passes the members of the usual kind, of which nobody wants
 * the tokens, and adds their names. Stops before the first that is anything else, which dbk_json_next
 * then judges: nothing is refused here, and nothing taken that it would not take. */
static void pass_plain_members(struct dbk_json *json)
{
    const char *end = json->text + json->len;
    const char *at = json->text + json->at;
    bool first = json->expect == EXPECT_NAME_OR_END;
    for (;;) {
        const char *name = at;
        if (!first) {
            if (name >= end || *name != ',') {
                break;
            }
            name++;
        }
        name = skip_blanks(name, end);
        const char *name_end = name < end && *name == '"' ? plain_string_end(name, end) : NULL;
        const char *colon = name_end != NULL ? skip_blanks(name_end, end) : end;
        if (colon >= end || *colon != ':') {
            break;
        }
        const char *value_end = plain_value_end(skip_blanks(colon + 1, end), end);
        if (value_end == NULL ||
            !add_name(json->names, dbk_json_plain_hash(name + 1, (size_t)(name_end - name) - 2),
                      (size_t)(name - json->text))) {
            break;
        }
        at = value_end;
        first = false;
    }
    json->at = (size_t)(at - json->text);
    json->expect = first ? EXPECT_NAME_OR_END : EXPECT_COMMA_OR_END;
}

enum daybook_code dbk_json_check_object(struct daybook_bytes text, struct daybook_error *err)
{
    struct dbk_json_names names;
    struct dbk_json json;
    dbk_json_names_init(&names);
    dbk_json_init(&json, text, &names);
    enum dbk_json_token token = dbk_json_next(&json);
    if (token != DBK_JSON_OBJECT_BEGIN && token != DBK_JSON_FAULT) {
        dbk_json_refuse(&json, DBK_JSON_NOT_OBJECT, json.token_begin);
    }
    while (token != DBK_JSON_FAULT && token != DBK_JSON_END) {
        if (token != DBK_JSON_NAME && json.depth > 0 && inside_object(&json)) {
            pass_plain_members(&json);
        }
        token = dbk_json_next(&json);
    }
    dbk_json_names_release(&names);
    return dbk_json_verdict(&json, err);
}

/* One element of the outermost array at `at`. Returns the offset behind it, 0 on a fault. */
static size_t scan_element(struct dbk_json *json, size_t at)
{
    json->at = at;
    json->expect = EXPECT_VALUE;
    enum dbk_json_token token;
    do {
        token = dbk_json_next(json);
    } while (token != DBK_JSON_FAULT && json->depth > 0);
    json->refusal = DBK_JSON_FINE; /* the element's alone, like its depth */
    if (token != DBK_JSON_FAULT) {
        return json->token_end;
    }
    if (json->fault != DBK_JSON_TOO_DEEP) {
        return 0;
    }
    const char *end = dbk_json_skip_container(json->text + at, json->text + json->len);
    json->fault = DBK_JSON_FINE;
    json->depth = 0;
    return (size_t)(end - json->text);
}

enum daybook_code dbk_json_check_array(struct daybook_bytes text, struct daybook_error *err)
{
    struct dbk_json json;
    dbk_json_init(&json, text, NULL);
    size_t at = json.fault == DBK_JSON_FINE ? skip_space(&json, 0) : text.len;
    bool first = true;
    char wanted = '[';
    while (json.fault == DBK_JSON_FINE) {
        if (at >= text.len || text.data[at] != wanted) {
            (void)unexpected(&json, at);
            break;
        }
        at = skip_space(&json, at + 1);
        if (wanted == ']') {
            break;
        }
        if (!(first && at < text.len && text.data[at] == ']')) {
            size_t end = scan_element(&json, at);
            if (end == 0) {
                break;
            }
            at = skip_space(&json, end);
        }
        first = false;
        wanted = at < text.len && text.data[at] == ',' ? ',' : ']';
    }
    if (json.fault == DBK_JSON_FINE && at < text.len) {
        (void)fail(&json, DBK_JSON_TRAILING, at);
    }
    return dbk_json_verdict(&json, err);
}
