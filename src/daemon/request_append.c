/* SPDX-License-Identifier: Apache-2.0 */
/* Appends over HTTP: the body as it arrives, and the append that waits for its commit. See request.h. */
#include "daemon/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "daemon/cloudevents.h"

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Refuses for what the body itself came to. */
static void refuse_for(struct dbk_request *request, const struct daybook_error *err)
{
    struct dbk_append_counters *appends = &request->http->service->appends;
    dbk_body_release(&request->body);
    dbk_ingest_answer_refused(err, &request->answer);
    if (err->code == DAYBOOK_TOO_LARGE || err->code == DAYBOOK_NO_MEMORY) {
        dbk_request_count_limit(request, err->code == DAYBOOK_TOO_LARGE ? DBK_HTTP_LIMIT_BODY
                                                                        : DBK_HTTP_LIMIT_BODIES);
    }
    if (dbk_request_is_append(&request->target)) {
        atomic_fetch_add(&appends->outcomes[dbk_append_outcome_of(err->code)], 1);
    }
    request->state = DBK_REQUEST_DISCARD;
}

void dbk_request_begin_body(struct dbk_request *request, enum dbk_encoding encoding)
{
    struct daybook_error err = {0};
    const char *length = dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t most = request->http->service->config->max_body_bytes;
    enum daybook_code code =
        dbk_body_begin(&request->body, encoding, most, &request->http->bodies_bytes, &err);
    uint64_t arrives = length != NULL ? strtoull(length, NULL, 10) : 0;
    if (code == DAYBOOK_OK && arrives > request->body.arrives_max) {
        code = dbk_fail(&err, DAYBOOK_TOO_LARGE,
                        "the body is larger than max_body_bytes (%" PRIu64 "): send it in parts",
                        most);
    }
    if (code != DAYBOOK_OK) {
        refuse_for(request, &err);
    } else if (encoding == DBK_ENCODING_NONE) {
        request->body.expected = arrives;
    }
}

void dbk_request_take_body(struct dbk_request *request, const char *data, size_t len)
{
    struct daybook_error err = {0};
    dbk_connection_arrived(&request->http->connections, request->place, len,
                           dbk_monotonic_tick_us());
    if (dbk_body_take(&request->body, data, len, &err) != DAYBOOK_OK) {
        refuse_for(request, &err);
    }
}

bool dbk_media_type_is(const char *value, const char *type)
{
    size_t len = strlen(type);
    return strncasecmp(value, type, len) == 0 &&
           (value[len] == '\0' || value[len] == ';' || value[len] == ' ' || value[len] == '\t');
}

/* What kind of body the headers announce; false: none that is taken. */
static bool find_kind(struct dbk_request *request)
{
    const char *type = dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    static const struct {
        const char *type;
        enum dbk_body_kind kind;
    } kinds[] = {{DBK_TYPE_CLOUDEVENT, DBK_BODY_CLOUDEVENT},
                 {DBK_TYPE_CLOUDEVENTS, DBK_BODY_CLOUDEVENTS},
                 {DBK_TYPE_NDJSON, DBK_BODY_NDJSON},
                 {DBK_TYPE_JSON, DBK_BODY_JSON}};
    bool structured = type != NULL && strncasecmp(type, "application/cloudevents", 23) == 0;
    if (!structured && (dbk_request_header(request, "ce-specversion") != NULL ||
                        dbk_request_header(request, "ce-id") != NULL)) {
        request->binary = true;
        request->kind = DBK_BODY_CLOUDEVENT;
        return true;
    }
    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (dbk_media_type_is(type, kinds[i].type)) {
            request->kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static bool find_encoding(struct dbk_request *request, enum dbk_encoding *ret)
{
    const char *encoding = dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_ENCODING);
    *ret = DBK_ENCODING_NONE;
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        return true;
    }
    *ret = DBK_ENCODING_GZIP;
    return strcasecmp(encoding, "gzip") == 0 || strcasecmp(encoding, "x-gzip") == 0;
}

void dbk_request_check_append(struct dbk_request *request)
{
    enum dbk_encoding encoding;
    if (!find_kind(request)) {
        dbk_request_refuse(
            request, 415, "unsupported_media_type",
            "Content-Type has to be application/json (one event or an array), "
            "application/x-ndjson (one a line), application/cloudevents+json or "
            "application/cloudevents-batch+json; a CloudEvent in binary mode has ce- headers");
    } else if (!find_encoding(request, &encoding)) {
        dbk_request_refuse(
            request, 415, "unsupported_media_type",
            "this Content-Encoding is not taken: send the body as it is, or as gzip");
        request->answer.accepts_gzip = true;
    } else {
        dbk_request_begin_body(request, encoding);
    }
}

/* ---- appends --------------------------------------------------------------------------------- */

static void count_outcomes(struct dbk_service *service, const struct dbk_ingest *ingest,
                           const struct daybook_append_result *results, enum daybook_code instead)
{
    for (size_t i = 0; i < ingest->item_count; i++) {
        enum daybook_code code = ingest->items[i].code;
        if (code == DAYBOOK_OK) {
            code = results != NULL ? results[ingest->items[i].event].code : instead;
        }
        if (code != DAYBOOK_DRAINING) {
            atomic_fetch_add(&service->appends.outcomes[dbk_append_outcome_of(code)], 1);
        }
        if (ingest->undurable == DBK_UNDURABLE_SERVE && daybook_code_http_status(code) == 503) {
            atomic_fetch_add(&service->appends.lost[dbk_lost_reason_of(code)], 1);
        }
    }
}

/* Sends an answer that the journal has no part in; the append is freed. */
static enum MHD_Result send_without(struct dbk_request *request, struct dbk_append *append,
                                    struct dbk_answer *answer)
{
    atomic_fetch_sub(&request->http->bodies_bytes, append->body_bytes);
    dbk_append_free(append);
    return dbk_request_send(request, answer);
}

/* For every event alike. */
static enum MHD_Result answer_without(struct dbk_request *request, struct dbk_append *append,
                                      enum daybook_code instead, const char *detail)
{
    struct dbk_answer answer = {0};
    dbk_ingest_answer(&append->ingest, NULL, instead, detail, &answer);
    count_outcomes(request->http->service, &append->ingest, NULL, instead);
    return send_without(request, append, &answer);
}

/* For a body that is none. */
static enum MHD_Result refuse_body(struct dbk_request *request, struct dbk_append *append,
                                   const struct daybook_error *err)
{
    struct dbk_answer answer = {0};
    dbk_ingest_answer_refused(err, &answer);
    atomic_fetch_add(&request->http->service->appends.outcomes[dbk_append_outcome_of(err->code)],
                     1);
    return send_without(request, append, &answer);
}

static enum MHD_Result take_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    if (dbk_cloudevent_is_header(name)) {
        dbk_cloudevent_attribute(user, name, value != NULL ? value : "");
    }
    return MHD_YES;
}

/* A CloudEvent in binary mode gets its structured form, which is the record. */
static enum daybook_code structure_body(struct dbk_request *request, struct daybook_error *err)
{
    struct dbk_cloudevent event = {0};
    struct daybook_bytes body = {request->body.data, request->body.len};
    size_t len = 0;
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, &event);
    enum daybook_code code = dbk_cloudevent_end(
        &event, dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE), body, err);
    if (code == DAYBOOK_OK) {
        size_t room = event.text.capacity;
        char *data = dbk_text_steal(&event.text, &len);
        dbk_body_replace(&request->body, data, len, room);
    }
    dbk_text_release(&event.text);
    return code;
}

enum MHD_Result dbk_request_begin_append(struct dbk_request *request)
{
    struct dbk_service *service = request->http->service;
    struct daybook_event_limits limits = dbk_config_event_limits(service->config);
    struct daybook_error err = {0};
    struct dbk_append *append = calloc(1, sizeof *append);
    if (append == NULL) {
        return MHD_NO;
    }
    enum daybook_code code = dbk_body_end(&request->body, &err);
    if (code == DAYBOOK_OK && request->binary) {
        code = structure_body(request, &err);
    }
    /* The append takes the body, and with it its part of the budget of all bodies. */
    struct daybook_bytes body = {NULL, 0};
    append->body = dbk_body_steal(&request->body, &body.len, &append->body_bytes);
    body.data = append->body;
    if (code != DAYBOOK_OK) {
        return refuse_body(request, append, &err);
    }
    append->started_us = dbk_monotonic_us();
    if (dbk_ingest_parse(body, request->kind, &limits, &append->ingest, &err) != DAYBOOK_OK) {
        return refuse_body(request, append, &err);
    }
    append->ingest.dialect =
        request->target.route == DBK_ROUTE_OPENMETER ? DBK_DIALECT_OPENMETER : DBK_DIALECT_DAYBOOK;
    append->ingest.undurable = (enum dbk_undurable)service->config->on_undurable;
    if (append->ingest.event_count == 0) {
        return answer_without(request, append, DAYBOOK_OK, "");
    }
    append->results = append->ingest.event_count == 1
                          ? &append->result
                          : calloc(append->ingest.event_count, sizeof *append->results);
    if (append->results == NULL) {
        return answer_without(request, append, DAYBOOK_NO_MEMORY, "no memory: repeat the request");
    }
    code = dbk_append_reserve(service, request->begun);
    if (code != DAYBOOK_OK) {
        return answer_without(request, append, code,
                              code == DAYBOOK_DRAINING
                                  ? "the daemon is stopping: repeat the request"
                                  : "the journal is not open (see /readyz): repeat the request");
    }
    append->submission.events = append->ingest.events;
    append->submission.results = append->results;
    append->submission.count = append->ingest.event_count;
    append->submission.events_state = DAYBOOK_EVENTS_CHECKED;
    append->waiter = request;
    request->append = append;
    request->state = DBK_REQUEST_WAIT;
    /* Suspended first: the commit may end before the submission returns. */
    MHD_suspend_connection(request->connection);
    dbk_append_submit(service, append);
    return MHD_YES;
}

enum MHD_Result dbk_request_end_append(struct dbk_request *request)
{
    struct dbk_service *service = request->http->service;
    struct dbk_append *append = request->append;
    struct dbk_answer answer = {0};
    request->append = NULL;
    atomic_fetch_sub(&request->http->bodies_bytes, append->body_bytes);
    append->body_bytes = 0;
    if (!dbk_append_is_done(append)) {
        dbk_ingest_answer(&append->ingest, NULL, DAYBOOK_TIMED_OUT,
                          "the commit did not end in time, so the outcome is unknown: repeat the "
                          "request with the same request_id",
                          &answer);
        count_outcomes(service, &append->ingest, NULL, DAYBOOK_TIMED_OUT);
        if (dbk_append_take(service, append)) {
            dbk_append_free(append); /* it ended just now; the answer says unknown, which is true */
        }
        return dbk_request_send(request, &answer);
    }
    dbk_ingest_answer(&append->ingest, append->results, DAYBOOK_OK, NULL, &answer);
    count_outcomes(service, &append->ingest, append->results, DAYBOOK_OK);
    dbk_histogram_add(&service->appends.append_us,
                      (uint64_t)(dbk_monotonic_us() - append->started_us));
    dbk_append_free(append);
    return dbk_request_send(request, &answer);
}

/* Events of an append that ended unanswered and are not known to be durable. */
static uint64_t count_undurable(const struct dbk_append *append)
{
    if (!dbk_append_is_done(append)) {
        return append->ingest.event_count;
    }
    uint64_t count = 0;
    for (size_t i = 0; i < append->ingest.event_count; i++) {
        count += daybook_code_http_status(append->results[i].code) == 503 ? 1 : 0;
    }
    return count;
}

void dbk_request_leave_append(struct dbk_request *request)
{
    struct dbk_http *http = request->http;
    request->not_durable = count_undurable(request->append);
    atomic_fetch_sub(&http->bodies_bytes, request->append->body_bytes);
    if (dbk_append_take(http->service, request->append)) {
        dbk_append_free(request->append);
    }
}
