/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the JSON room: any bytes are a record, an array of records, and text to escape.
 */
#include "fuzz.h"

#include <string.h>

#include "json/json.h"

#define NAIVE_MEMBERS_MAX 64u

static int compare_plain(struct daybook_bytes a, struct daybook_bytes b)
{
    size_t room_a = dbk_json_string_decode(a, NULL, 0);
    size_t room_b = dbk_json_string_decode(b, NULL, 0);
    char *plain_a = malloc(room_a + 1);
    char *plain_b = malloc(room_b + 1);
    FUZZ_PROMISE(plain_a != NULL && plain_b != NULL);
    FUZZ_PROMISE(dbk_json_string_decode(a, plain_a, room_a) == room_a);
    FUZZ_PROMISE(dbk_json_string_decode(b, plain_b, room_b) == room_b);
    int order = memcmp(plain_a, plain_b, room_a < room_b ? room_a : room_b);
    order = order != 0 ? order : (room_a > room_b) - (room_a < room_b);
    free(plain_a);
    free(plain_b);
    return order;
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

/* Whether a small object names a member twice, the plain way; -1 when it is not small. */
static int names_twice(struct daybook_bytes object)
{
    struct daybook_bytes names[NAIVE_MEMBERS_MAX];
    unsigned count = 0;
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    FUZZ_PROMISE(dbk_json_walk_init(&walk, object));
    while (dbk_json_walk_next(&walk, &item)) {
        for (unsigned i = 0; i < count; i++) {
            int order = compare_plain(item.name, names[i]);
            FUZZ_PROMISE(sign(order) == sign(dbk_json_string_compare(item.name, names[i])));
            if (order == 0) {
                FUZZ_PROMISE(dbk_json_string_hash(item.name) == dbk_json_string_hash(names[i]));
                return 1;
            }
        }
        if (count == NAIVE_MEMBERS_MAX) {
            return -1;
        }
        names[count++] = item.name;
    }
    return 0;
}

/* Scans without looking at names, then judges each object the plain way. */
static bool any_names_twice(struct daybook_bytes text, bool *ret_sure)
{
    struct dbk_json json;
    dbk_json_init(&json, text, NULL);
    bool twice = false;
    *ret_sure = true;
    for (;;) {
        enum dbk_json_token token = dbk_json_next(&json);
        if (token == DBK_JSON_END || token == DBK_JSON_FAULT) {
            return twice;
        }
        if (token == DBK_JSON_OBJECT_BEGIN) {
            struct daybook_bytes rest = {text.data + json.token_begin, text.len - json.token_begin};
            int found = names_twice(rest);
            *ret_sure = *ret_sure && found >= 0;
            twice = twice || found == 1;
        }
    }
}

static void try_scalars(struct daybook_bytes text)
{
    struct dbk_json json;
    struct daybook_bytes last = {"0", 1};
    dbk_json_init(&json, text, NULL);
    for (;;) {
        enum dbk_json_token token = dbk_json_next(&json);
        struct daybook_bytes bytes = dbk_json_token_bytes(&json);
        if (token == DBK_JSON_END || token == DBK_JSON_FAULT) {
            return;
        }
        if (token == DBK_JSON_NUMBER) {
            int64_t x = 0;
            int64_t y = 0;
            bool is_x = dbk_json_number_int64(bytes, &x);
            bool is_y = dbk_json_number_int64(last, &y);
            bool equal = dbk_json_number_equal(bytes, last);
            FUZZ_PROMISE(dbk_json_number_equal(bytes, bytes));
            FUZZ_PROMISE(equal == dbk_json_number_equal(last, bytes));
            FUZZ_PROMISE(is_x && is_y ? equal == (x == y) : !equal || is_x == is_y);
            last = bytes;
        }
    }
}

/* A record that was taken: its walk sees what its tokens were, and one line of it is still
 * taken. */
static void try_record(struct daybook_bytes text)
{
    struct dbk_json json;
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    size_t members = 0;
    dbk_json_init(&json, text, NULL);
    FUZZ_PROMISE(dbk_json_walk_init(&walk, text));
    for (;;) {
        enum dbk_json_token token = dbk_json_next(&json);
        FUZZ_PROMISE(token != DBK_JSON_FAULT);
        if (token == DBK_JSON_END) {
            break;
        }
        if (token == DBK_JSON_NAME && json.depth == 1) {
            struct daybook_bytes name = dbk_json_token_bytes(&json);
            FUZZ_PROMISE(dbk_json_walk_next(&walk, &item));
            FUZZ_PROMISE(item.name.data == name.data && item.name.len == name.len);
            FUZZ_PROMISE(dbk_json_next(&json) == item.kind);
            FUZZ_PROMISE(item.value.data == text.data + json.token_begin);
            members++;
        }
    }
    FUZZ_PROMISE(!dbk_json_walk_next(&walk, &item));
    char *line = malloc(text.len);
    FUZZ_PROMISE(line != NULL);
    dbk_json_one_line(text, line);
    FUZZ_PROMISE(memchr(line, '\n', text.len) == NULL && memchr(line, '\r', text.len) == NULL);
    FUZZ_PROMISE(dbk_json_check_object((struct daybook_bytes){line, text.len}, NULL) == DAYBOOK_OK);
    free(line);
}

static void try_array(struct daybook_bytes text)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_json_check_array(text, &err);
    FUZZ_PROMISE(code == DAYBOOK_OK || code == DAYBOOK_MALFORMED_JSON);
    FUZZ_PROMISE(err.offset <= text.len);
    if (code != DAYBOOK_OK) {
        return;
    }
    FUZZ_PROMISE(dbk_json_walk_init(&walk, text) && !walk.object);
    while (dbk_json_walk_next(&walk, &item)) {
        code = dbk_json_check_object(item.value, &err);
        FUZZ_PROMISE(code == DAYBOOK_OK || code == DAYBOOK_INVALID_EVENT);
    }
}

static void try_escape(struct daybook_bytes text)
{
    size_t room = dbk_json_escape(text, NULL, 0);
    FUZZ_PROMISE(room <= DBK_JSON_ESCAPED_MAX(text.len));
    char *json = malloc(room + 6);
    FUZZ_PROMISE(json != NULL);
    memcpy(json, "{\"a\":", 5);
    FUZZ_PROMISE(dbk_json_escape(text, json + 5, room) == room);
    json[5 + room] = '}';
    bool nul = text.len > 0 && memchr(text.data, 0, text.len) != NULL;
    FUZZ_PROMISE(dbk_json_check_object((struct daybook_bytes){json, room + 6}, NULL) ==
                 (nul ? DAYBOOK_INVALID_EVENT : DAYBOOK_OK));
    bool utf8 = true;
    for (size_t i = 0; i < text.len && utf8;) {
        unsigned n = dbk_utf8_length(text.data + i, text.data + text.len);
        utf8 = n > 0;
        i += n;
    }
    FUZZ_PROMISE(utf8 == dbk_json_string_is((struct daybook_bytes){json + 5, room}, text));
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct daybook_bytes text = {(const char *)data, size};
    struct daybook_error err = {0};
    enum daybook_code code = dbk_json_check_object(text, &err);
    FUZZ_PROMISE(code == DAYBOOK_OK || code == DAYBOOK_MALFORMED_JSON ||
                 code == DAYBOOK_INVALID_EVENT);
    FUZZ_PROMISE(err.offset <= size);
    if (code == DAYBOOK_OK) {
        try_record(text);
    }
    if (code != DAYBOOK_MALFORMED_JSON && size < 4096) {
        bool sure = false;
        bool twice = any_names_twice(text, &sure);
        FUZZ_PROMISE(!sure || !twice || code == DAYBOOK_INVALID_EVENT);
        FUZZ_PROMISE(!sure || twice || strstr(err.message, "twice") == NULL);
    }
    try_scalars(text);
    try_array(text);
    try_escape(text);
    return 0;
}
