/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of what comes in over HTTP. The first byte says what the rest is: `g` a gzip body, `j` JSON,
 * `n` NDJSON, `c` a CloudEvent, `b` a batch of them, `h` headers of a CloudEvent in binary mode (`name:value`,
 * one a line), an empty line, and its body.
 */
#include "fuzz.h"

#include <string.h>

#include "daemon/body.h"
#include "daemon/cloudevents.h"
#include "daemon/ingest.h"
#include "event/form.h"
#include "json/json.h"

#define EXPANDED_MAX 20000u

static const struct daybook_event_limits limits = {DAYBOOK_IDENTITY_ANY, 4096};

/* ---- gzip ------------------------------------------------------------------------------------- */

static enum daybook_code expand(struct daybook_bytes in, size_t piece, struct dbk_body *body,
                                uint64_t *ret_offset)
{
    static _Atomic uint64_t budget;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_body_begin(body, DBK_ENCODING_GZIP, EXPANDED_MAX, &budget, &err);
    for (size_t at = 0; at < in.len && code == DAYBOOK_OK; at += piece) {
        code = dbk_body_take(body, in.data + at, in.len - at < piece ? in.len - at : piece, &err);
        FUZZ_PROMISE(body->len <= EXPANDED_MAX);
    }
    code = code == DAYBOOK_OK ? dbk_body_end(body, &err) : code;
    FUZZ_PROMISE(code == DAYBOOK_OK || code == DAYBOOK_MALFORMED_JSON ||
                 code == DAYBOOK_TOO_LARGE || code == DAYBOOK_NO_MEMORY);
    FUZZ_PROMISE(err.offset <= in.len);
    *ret_offset = err.offset;
    return code;
}

/* However it arrives, it becomes the same. */
static void try_gzip(struct daybook_bytes in)
{
    struct dbk_body whole = {0};
    struct dbk_body pieces = {0};
    uint64_t offset_whole = 0;
    uint64_t offset_pieces = 0;
    enum daybook_code code = expand(in, in.len + 1, &whole, &offset_whole);
    FUZZ_PROMISE(expand(in, 3, &pieces, &offset_pieces) == code);
    if (code == DAYBOOK_OK) {
        FUZZ_PROMISE(whole.len == pieces.len &&
                     (whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0));
    }
    dbk_body_release(&whole);
    dbk_body_release(&pieces);
}

/* ---- bodies ----------------------------------------------------------------------------------- */

static void try_body(struct daybook_bytes text, enum dbk_body_kind kind)
{
    struct dbk_ingest ingest;
    struct dbk_answer answer = {0};
    struct daybook_error err = {0};
    enum daybook_code code = dbk_ingest_parse(text, kind, &limits, &ingest, &err);
    FUZZ_PROMISE(err.offset <= text.len);
    if (code != DAYBOOK_OK) {
        dbk_ingest_answer_refused(&err, &answer);
        FUZZ_PROMISE(answer.status >= 400);
    } else {
        for (size_t i = 0; i < ingest.event_count; i++) {
            FUZZ_PROMISE(daybook_event_check(&ingest.events[i], &limits, NULL) == DAYBOOK_OK);
            FUZZ_PROMISE(daybook_event_same_fact(&ingest.events[i], &ingest.events[i]));
        }
        for (size_t i = 0; i < ingest.item_count; i++) {
            FUZZ_PROMISE(ingest.items[i].offset <= text.len);
            FUZZ_PROMISE(ingest.items[i].code == DAYBOOK_OK || ingest.items[i].message[0] != '\0');
        }
        if (ingest.event_count < ingest.item_count || ingest.many) {
            dbk_ingest_answer(&ingest, NULL, DAYBOOK_BACKEND, "nobody knows", &answer);
            FUZZ_PROMISE(answer.status >= 200);
        }
    }
    /* Whatever a client sent, an answer is JSON. */
    if (answer.body.len > 0) {
        FUZZ_PROMISE(
            dbk_json_check_object((struct daybook_bytes){answer.body.data, answer.body.len},
                                  NULL) == DAYBOOK_OK);
    }
    dbk_ingest_release(&ingest);
    dbk_answer_release(&answer);
}

/* ---- binary mode ------------------------------------------------------------------------------ */

static size_t count_members(struct daybook_bytes object)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    size_t count = 0;
    FUZZ_PROMISE(dbk_json_walk_init(&walk, object) && walk.object);
    while (dbk_json_walk_next(&walk, &item)) {
        count++;
    }
    return count;
}

/* Takes headers line by line; returns how many became attributes. `*text` is left at the body. */
static size_t take_headers(struct dbk_cloudevent *event, struct daybook_bytes *text)
{
    size_t count = 0;
    for (;;) {
        const char *newline = memchr(text->data, '\n', text->len);
        size_t len = newline != NULL ? (size_t)(newline - text->data) : text->len;
        char line[512];
        size_t kept = len < sizeof line ? len : sizeof line - 1;
        memcpy(line, text->data, kept);
        line[kept] = '\0';
        text->data += newline != NULL ? len + 1 : len;
        text->len -= newline != NULL ? len + 1 : len;
        char *colon = strchr(line, ':');
        if (len == 0 || newline == NULL) {
            return count;
        }
        if (colon != NULL) {
            *colon = '\0';
        }
        if (colon != NULL && dbk_cloudevent_is_header(line)) {
            dbk_cloudevent_attribute(event, line, colon + 1);
            count++;
        }
    }
}

static void try_binary(struct daybook_bytes text, const char *type)
{
    struct dbk_cloudevent event = {0};
    struct daybook_error err = {0};
    size_t attributes = take_headers(&event, &text);
    enum daybook_code code = dbk_cloudevent_end(&event, type, text, &err);
    FUZZ_PROMISE(err.offset <= text.len);
    if (code == DAYBOOK_OK) {
        struct daybook_bytes form = {event.text.data, event.text.len};
        /* It is JSON, with a member for each header, the type and the data, and no other. */
        FUZZ_PROMISE(dbk_json_check_object(form, NULL) != DAYBOOK_MALFORMED_JSON);
        FUZZ_PROMISE(count_members(form) ==
                     attributes + (type != NULL ? 1u : 0u) + (text.len > 0 ? 1u : 0u));
        try_body(form, DBK_BODY_CLOUDEVENT);
    } else {
        FUZZ_PROMISE(code == DAYBOOK_INVALID_EVENT || code == DAYBOOK_MALFORMED_JSON);
    }
    dbk_text_release(&event.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct daybook_bytes rest = {(const char *)data + 1, size - 1};
    switch (data[0]) {
    case 'g':
        try_gzip(rest);
        break;
    case 'j':
        try_body(rest, DBK_BODY_JSON);
        break;
    case 'n':
        try_body(rest, DBK_BODY_NDJSON);
        break;
    case 'c':
        try_body(rest, DBK_BODY_CLOUDEVENT);
        break;
    case 'b':
        try_body(rest, DBK_BODY_CLOUDEVENTS);
        break;
    case 'h':
        try_binary(rest, "application/json");
        try_binary(rest, "text/plain");
        try_binary(rest, NULL);
        break;
    default:
        break;
    }
    return 0;
}
