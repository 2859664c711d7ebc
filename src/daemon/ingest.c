/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies taken apart, and answers put together, as docs/HTTP.md promises them. */
#include "daemon/ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "event/form.h"
#include "event/ndjson.h"
#include "json/json.h"

#define FIRST_ROOM 16u
#define CHUNK_BYTES (64u * 1024u)

/* ---- memory ---------------------------------------------------------------------------------- */

struct dbk_arena_chunk {
    struct dbk_arena_chunk *next;
    size_t used;
    char bytes[CHUNK_BYTES];
};

static char *keep(struct dbk_ingest *ingest, const char *data, size_t len)
{
    struct dbk_arena_chunk *chunk = ingest->chunks;
    if (chunk == NULL || CHUNK_BYTES - chunk->used < len) {
        chunk = malloc(sizeof *chunk);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = ingest->chunks;
        chunk->used = 0;
        ingest->chunks = chunk;
    }
    char *at = chunk->bytes + chunk->used;
    memcpy(at, data, len);
    chunk->used += len;
    return at;
}

void dbk_ingest_release(struct dbk_ingest *ingest)
{
    if (ingest->many) {
        free(ingest->items);
        free(ingest->events);
    }
    while (ingest->chunks != NULL) {
        struct dbk_arena_chunk *next = ingest->chunks->next;
        free(ingest->chunks);
        ingest->chunks = next;
    }
    *ingest = (struct dbk_ingest){0};
}

static bool grow(struct dbk_ingest *ingest)
{
    if (!ingest->many) {
        ingest->items = &ingest->item;
        ingest->events = &ingest->event;
        ingest->room = 1;
        return true;
    }
    size_t room = ingest->room == 0 ? FIRST_ROOM : ingest->room * 2;
    struct dbk_item *items = realloc(ingest->items, room * sizeof *items);
    if (items == NULL) {
        return false;
    }
    ingest->items = items;
    struct daybook_event *events = realloc(ingest->events, room * sizeof *events);
    if (events == NULL) {
        return false;
    }
    ingest->events = events;
    ingest->room = room;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum daybook_code no_memory(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to take the body apart: try again");
}

/* A name that was unescaped stands in scratch that the next event overwrites. */
static bool keep_name(struct dbk_ingest *ingest, const struct daybook_event_names *names,
                      struct daybook_bytes *name)
{
    uintptr_t at = (uintptr_t)name->data;
    uintptr_t scratch = (uintptr_t)names->bytes;
    if (name->data == NULL || at < scratch || at >= scratch + sizeof names->bytes) {
        return true;
    }
    name->data = keep(ingest, name->data, name->len);
    return name->data != NULL;
}

/* Judges one event; false: no memory. */
static bool take_event(struct dbk_ingest *ingest, struct daybook_bytes json, uint64_t line,
                       uint64_t offset, const struct daybook_event_limits *limits)
{
    if (ingest->item_count == ingest->room && !grow(ingest)) {
        return false;
    }
    struct daybook_event_names names;
    struct daybook_event event;
    struct daybook_error err = {0};
    memset(&event, 0, sizeof event);
    struct dbk_item item = {.line = line};
    bool cloudevent = ingest->kind == DBK_BODY_CLOUDEVENT || ingest->kind == DBK_BODY_CLOUDEVENTS;
    item.code = dbk_event_read(json, cloudevent ? DBK_EVENT_CLOUDEVENT : DBK_EVENT_ANY, limits,
                               &names, &event, &err);
    if (item.code == DAYBOOK_NO_MEMORY || !keep_name(ingest, &names, &event.request_id)) {
        return false;
    }
    item.request_id = event.request_id;
    if (item.code == DAYBOOK_OK) {
        if (!keep_name(ingest, &names, &event.name_space) ||
            !keep_name(ingest, &names, &event.subject)) {
            return false;
        }
        item.event = (uint32_t)ingest->event_count;
        ingest->events[ingest->event_count++] = event;
    } else {
        item.offset = offset + err.offset;
        item.message = keep(ingest, err.message, strlen(err.message) + 1);
        if (item.message == NULL) {
            return false;
        }
    }
    ingest->items[ingest->item_count++] = item;
    return true;
}

static enum daybook_code too_many(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_TOO_LARGE,
                    "more than %u events in one body: send them in several requests",
                    DBK_BODY_EVENTS_MAX);
}

static enum daybook_code parse_lines(struct daybook_bytes body,
                                     const struct daybook_event_limits *limits,
                                     struct dbk_ingest *ingest, struct daybook_error *err)
{
    struct dbk_ndjson ndjson;
    struct daybook_bytes line;
    uint64_t number = 0;
    dbk_ndjson_init(&ndjson, body, DBK_NDJSON_WHOLE);
    while (dbk_ndjson_next(&ndjson, &line, &number)) {
        if (ingest->item_count == DBK_BODY_EVENTS_MAX) {
            return too_many(err);
        }
        if (!take_event(ingest, line, number, (uint64_t)(line.data - body.data), limits)) {
            return no_memory(err);
        }
    }
    return DAYBOOK_OK;
}

static enum daybook_code parse_array(struct daybook_bytes body,
                                     const struct daybook_event_limits *limits,
                                     struct dbk_ingest *ingest, struct daybook_error *err)
{
    enum daybook_code code = dbk_json_check_array(body, err);
    struct dbk_json_walk walk;
    if (code != DAYBOOK_OK || !dbk_json_walk_init(&walk, body)) {
        return code;
    }
    struct dbk_json_item element;
    while (dbk_json_walk_next(&walk, &element)) {
        if (ingest->item_count == DBK_BODY_EVENTS_MAX) {
            return too_many(err);
        }
        if (!take_event(ingest, element.value, 0, (uint64_t)(element.value.data - body.data),
                        limits)) {
            return no_memory(err);
        }
    }
    return DAYBOOK_OK;
}

static bool begins_array(struct daybook_bytes body)
{
    size_t at = 0;
    while (at < body.len && (body.data[at] == ' ' || body.data[at] == '\t' ||
                             body.data[at] == '\n' || body.data[at] == '\r')) {
        at++;
    }
    return at < body.len && body.data[at] == '[';
}

enum daybook_code dbk_ingest_parse(struct daybook_bytes body, enum dbk_body_kind kind,
                                   const struct daybook_event_limits *limits,
                                   struct dbk_ingest *ingest, struct daybook_error *err)
{
    *ingest = (struct dbk_ingest){.kind = kind};
    ingest->many = kind == DBK_BODY_NDJSON || kind == DBK_BODY_CLOUDEVENTS ||
                   (kind == DBK_BODY_JSON && begins_array(body));
    if (kind == DBK_BODY_NDJSON) {
        return parse_lines(body, limits, ingest, err);
    }
    if (ingest->many) {
        return parse_array(body, limits, ingest, err);
    }
    return take_event(ingest, body, 0, 0, limits) ? DAYBOOK_OK : no_memory(err);
}

/* ---- answering ------------------------------------------------------------------------------- */

void dbk_ingest_answer_refused(const struct daybook_error *err, struct dbk_answer *answer)
{
    if (err->code == DAYBOOK_NO_MEMORY) {
        dbk_answer_undurable(answer, err->code, err->message);
        return;
    }
    dbk_answer_problem_open(answer, (unsigned)daybook_code_http_status(err->code),
                            daybook_code_http_name(err->code), err->message);
    if (err->code == DAYBOOK_MALFORMED_JSON) {
        dbk_text_printf(&answer->body, ",\"offset\":%llu", (unsigned long long)err->offset);
    }
    dbk_text_str(&answer->body, "}\n");
}

/* What became of one event. */
struct outcome {
    enum daybook_code code;
    const struct daybook_append_result *result; /* NULL: it did not reach the journal */
    const char *message;
};

static const char *limit_name(enum daybook_limit limit)
{
    switch (limit) {
    case DAYBOOK_LIMIT_EVENTS:
        return "events";
    case DAYBOOK_LIMIT_BYTES:
        return "bytes";
    case DAYBOOK_LIMIT_DISK:
        return "disk";
    case DAYBOOK_LIMIT_NONE:
        break;
    }
    return "none";
}

static const char *message_of(const struct daybook_append_result *result, char *buf, size_t room)
{
    switch (result->code) {
    case DAYBOOK_CONFLICT:
        return "this request_id is stored with other content; a correction is a new event with an "
               "id of its own";
    case DAYBOOK_AT_CAPACITY:
        (void)snprintf(buf, room,
                       "the journal is full (limit: %s, %llu events retained): the event was not "
                       "stored; repeat it later",
                       limit_name(result->limit), (unsigned long long)result->retained);
        return buf;
    case DAYBOOK_TIMED_OUT:
        return "the commit did not end in time, so the outcome is unknown: repeat the request with "
               "the same request_id";
    case DAYBOOK_OK:
    case DAYBOOK_ALREADY_PRESENT:
    case DAYBOOK_INVALID_EVENT:
    case DAYBOOK_MALFORMED_JSON:
    case DAYBOOK_TOO_LARGE:
    case DAYBOOK_DRAINING:
    case DAYBOOK_BACKEND:
    case DAYBOOK_NOT_OUTSTANDING:
    case DAYBOOK_QUARANTINED:
    case DAYBOOK_ALREADY_ACKNOWLEDGED:
    case DAYBOOK_NOT_FOUND:
    case DAYBOOK_BUSY:
    case DAYBOOK_NO_MEMORY:
    case DAYBOOK_DAMAGED:
    case DAYBOOK_NEWER_FORMAT:
    case DAYBOOK_BAD_CONFIG:
    case DAYBOOK_BAD_ARGUMENT:
    case DAYBOOK_CODE_COUNT:
        break;
    }
    return "the journal could not make the event durable, and whether it is stored is unknown: "
           "repeat the request with the same request_id";
}

static struct outcome outcome_of(const struct dbk_item *item,
                                 const struct daybook_append_result *results,
                                 enum daybook_code instead, const char *detail, char *buf,
                                 size_t room)
{
    if (item->code != DAYBOOK_OK) {
        return (struct outcome){item->code, NULL, item->message};
    }
    if (results == NULL) {
        return (struct outcome){instead, NULL, detail};
    }
    const struct daybook_append_result *result = &results[item->event];
    return (struct outcome){result->code, result, message_of(result, buf, room)};
}

/* 503 in the table of codes: the event is not durable, or nobody knows. */
static bool is_undurable(enum daybook_code code)
{
    return daybook_code_http_status(code) == 503;
}

static void write_capacity(struct dbk_text *text, const struct outcome *o)
{
    if (o->code == DAYBOOK_AT_CAPACITY && o->result != NULL) {
        dbk_text_printf(text, ",\"limit\":\"%s\",\"retained\":%llu", limit_name(o->result->limit),
                        (unsigned long long)o->result->retained);
    }
}

/* M2: it is lost, and its producer is not held up by that. */
static void answer_served(const struct dbk_item *item, const struct outcome *o,
                          struct dbk_answer *answer)
{
    answer->status = 202;
    answer->content_type = DBK_TYPE_JSON;
    dbk_text_str(&answer->body, "{\"status\":\"not_durable\",\"request_id\":");
    dbk_text_json(&answer->body, item->request_id);
    dbk_text_printf(&answer->body, ",\"reason\":\"%s\"", daybook_code_name(o->code));
    write_capacity(&answer->body, o);
    dbk_text_str(&answer->body, "}\n");
}

static void answer_one(const struct dbk_item *item, const struct outcome *o,
                       enum dbk_undurable undurable, struct dbk_answer *answer)
{
    struct dbk_text *text = &answer->body;
    answer->status = (unsigned)daybook_code_http_status(o->code);
    if (o->code == DAYBOOK_OK || o->code == DAYBOOK_ALREADY_PRESENT) {
        answer->content_type = DBK_TYPE_JSON;
        dbk_text_str(text, o->code == DAYBOOK_OK
                               ? "{\"status\":\"accepted\",\"request_id\":"
                               : "{\"status\":\"already_present\",\"request_id\":");
        dbk_text_json(text, item->request_id);
        dbk_assert(o->result != NULL); /* only the journal says either word */
        dbk_text_str(text, ",\"position\":");
        dbk_text_u64(text, o->result->position);
        dbk_text_str(text, "}\n");
        return;
    }
    if (is_undurable(o->code) && undurable == DBK_UNDURABLE_SERVE) {
        answer_served(item, o, answer);
        return;
    }
    dbk_answer_problem_open(answer, answer->status, daybook_code_http_name(o->code), o->message);
    if (is_undurable(o->code)) {
        answer->retry_after_s = dbk_retry_after_s(o->code);
        answer->not_durable = 1;
        dbk_text_printf(text, ",\"reason\":\"%s\"", daybook_code_name(o->code));
        write_capacity(text, o);
    }
    if (o->code == DAYBOOK_MALFORMED_JSON) {
        dbk_text_printf(text, ",\"offset\":%llu", (unsigned long long)item->offset);
    }
    if (item->request_id.len > 0) {
        dbk_text_str(text, ",\"request_id\":");
        dbk_text_json(text, item->request_id);
    }
    dbk_text_str(text, "}\n");
}

struct tally {
    size_t accepted;
    size_t already_present;
    size_t failed;
    size_t undurable; /* of the failed */
    enum daybook_code first_undurable;
};

/* The errors of a batch, in the order of the body, as members of an array; counts on the way. */
static void write_errors(const struct dbk_ingest *ingest,
                         const struct daybook_append_result *results, enum daybook_code instead,
                         const char *detail, struct dbk_text *errors, struct tally *tally)
{
    char buf[192];
    for (size_t i = 0; i < ingest->item_count; i++) {
        const struct dbk_item *item = &ingest->items[i];
        struct outcome o = outcome_of(item, results, instead, detail, buf, sizeof buf);
        if (o.code == DAYBOOK_OK) {
            tally->accepted++;
            continue;
        }
        if (o.code == DAYBOOK_ALREADY_PRESENT) {
            tally->already_present++;
            continue;
        }
        if (is_undurable(o.code)) {
            tally->first_undurable = tally->undurable == 0 ? o.code : tally->first_undurable;
            tally->undurable++;
        }
        dbk_text_printf(errors, "%s{\"index\":%zu", tally->failed > 0 ? "," : "", i);
        tally->failed++;
        if (ingest->kind == DBK_BODY_NDJSON) {
            dbk_text_str(errors, ",\"line\":");
            dbk_text_u64(errors, item->line);
        }
        dbk_text_str(errors, ",\"request_id\":");
        if (item->request_id.len > 0) {
            dbk_text_json(errors, item->request_id);
        } else {
            dbk_text_str(errors, "null");
        }
        dbk_text_printf(errors, ",\"code\":\"%s\",\"message\":", daybook_code_name(o.code));
        dbk_text_json_str(errors, o.message);
        write_capacity(errors, &o);
        dbk_text_str(errors, is_undurable(o.code) ? ",\"retry\":true}" : ",\"retry\":false}");
    }
}

/* The status of many, as docs/HTTP.md has it. */
static unsigned status_of(const struct tally *tally, enum dbk_dialect dialect,
                          enum dbk_undurable undurable)
{
    if (undurable == DBK_UNDURABLE_SERVE && tally->undurable > 0) {
        return tally->failed == tally->undurable  ? 202
               : dialect == DBK_DIALECT_OPENMETER ? 422
                                                  : 207;
    }
    if (dialect == DBK_DIALECT_OPENMETER) {
        /* Its clients read no body of a success: whatever is not durable has to be an error. */
        return tally->failed == 0 ? 204 : tally->undurable > 0 ? 503 : 422;
    }
    if (tally->failed == 0) {
        return 200;
    }
    if (tally->accepted > 0 || tally->already_present > 0) {
        return 207;
    }
    if (tally->undurable == 0) {
        return 422;
    }
    return tally->undurable == tally->failed ? 503 : 207;
}

static void answer_many(const struct dbk_ingest *ingest,
                        const struct daybook_append_result *results, enum daybook_code instead,
                        const char *detail, struct dbk_answer *answer)
{
    struct tally tally = {0};
    struct dbk_text errors = {0};
    write_errors(ingest, results, instead, detail, &errors, &tally);
    answer->status = status_of(&tally, ingest->dialect, ingest->undurable);
    answer->content_type = DBK_TYPE_JSON;
    answer->not_durable = ingest->undurable == DBK_UNDURABLE_SERVE ? 0 : tally.undurable;
    if (answer->status == 204) {
        answer->content_type = NULL;
        dbk_text_release(&errors);
        return;
    }
    bool some = tally.failed < ingest->item_count;
    struct dbk_text *text = &answer->body;
    if (answer->status == 422) {
        dbk_answer_problem_open(answer, 422, some ? "some_refused" : "all_refused",
                                some ? "some events of the body cannot be stored: see errors"
                                     : "no event of the body can be stored: see errors");
        dbk_text_char(text, ',');
    } else if (answer->status == 503) {
        answer->retry_after_s = dbk_retry_after_s(tally.first_undurable);
        dbk_answer_problem_open(
            answer, 503, daybook_code_http_name(tally.first_undurable),
            some ? "some events of the body are not known to be durable: repeat the request"
                 : "no event of the body is known to be durable: repeat the request");
        dbk_text_printf(text, ",\"reason\":\"%s\",", daybook_code_name(tally.first_undurable));
    } else {
        dbk_text_char(text, '{');
    }
    dbk_text_printf(text, "\"accepted\":%zu,\"already_present\":%zu,\"failed\":%zu,\"errors\":[",
                    tally.accepted, tally.already_present, tally.failed);
    dbk_text_put(text, errors.data, errors.len);
    dbk_text_str(text, "]}\n");
    text->failed = text->failed || errors.failed;
    dbk_text_release(&errors);
}

void dbk_ingest_answer(const struct dbk_ingest *ingest, const struct daybook_append_result *results,
                       enum daybook_code instead, const char *detail, struct dbk_answer *answer)
{
    if (ingest->many) {
        answer_many(ingest, results, instead, detail, answer);
        return;
    }
    char buf[192];
    struct outcome o = outcome_of(&ingest->items[0], results, instead, detail, buf, sizeof buf);
    if (ingest->dialect == DBK_DIALECT_OPENMETER &&
        (o.code == DAYBOOK_OK || o.code == DAYBOOK_ALREADY_PRESENT)) {
        answer->status = 204;
        return;
    }
    answer_one(&ingest->items[0], &o, ingest->undurable, answer);
}
