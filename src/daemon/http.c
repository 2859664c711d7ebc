/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: bodies, suspended connections, answers. All of it runs on the threads of libmicrohttpd, one at
 * a time per connection, but for `resume`, which the completion thread and the desk call.
 */
#include "daemon/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/logline.h"
#include "base/error.h"
#include "daemon/admin.h"
#include "daemon/body.h"
#include "daemon/cloudevents.h"
#include "daemon/connections.h"
#include "daemon/listen.h"
#include "daemon/operate.h"

#define HEADERS_BYTES_MAX (16u * 1024u)                /* request line and headers */
#define CONNECTION_BYTES_MAX (32u * 1024u)             /* with them, what is read and written */
#define DISCARD_BYTES_MAX (UINT64_C(64) * 1024 * 1024) /* read past a refusal, then cut */
#define OPERATOR_HEADER "Daybook-Operator"
#define FILES_BESIDE_CONNECTIONS 64u /* log, database, eventfds ... */

enum request_state {
    REQUEST_BODY,    /* a body is being read (perhaps an empty one) */
    REQUEST_DISCARD, /* the answer is known, what still comes is thrown away */
    REQUEST_WAIT,    /* suspended: its append, or its turn at the desk, is under way */
    REQUEST_ANSWERED
};

struct dbk_http {
    struct dbk_service *service;
    struct dbk_desk *desk;
    struct MHD_Daemon *tcp;
    struct MHD_Daemon *local;
    char url[DBK_HTTP_ADDRESS_TEXT_MAX];
    struct dbk_connections connections;
    _Atomic unsigned active;
    _Atomic uint64_t bodies_bytes;
};

struct request {
    struct dbk_http *http;
    struct MHD_Connection *connection;
    struct dbk_connection *place; /* its entry in the table; NULL: there was no memory for one */
    struct dbk_target target;
    enum request_state state;
    enum dbk_body_kind kind;
    bool binary;   /* a CloudEvent whose attributes stand in the headers */
    bool has_body; /* one that is read */
    enum dbk_begun begun;
    struct dbk_body body;
    uint64_t discarded;
    uint64_t not_durable; /* events of the answer that were refused for want of durability */
    struct dbk_append *append;
    struct dbk_operate *operate;
    struct dbk_answer answer; /* with DISCARD */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void enter(struct request *request, enum dbk_phase phase, uint64_t bytes)
{
    dbk_connection_enter(&request->http->connections, request->place, phase, bytes,
                         dbk_monotonic_us());
}

static void count_limit(struct request *request, enum dbk_http_limit limit)
{
    atomic_fetch_add(&request->http->service->http.limited[limit], 1);
}

static void add_number_header(struct MHD_Response *response, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    (void)MHD_add_response_header(response, name, text);
}

/* Sends the answer and empties it. */
static enum MHD_Result send_answer(struct request *request, struct dbk_answer *answer)
{
    static char no_memory[] =
        "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
        "\"status\":503,\"code\":\"no_memory\",\"detail\":\"no memory for the "
        "answer: repeat the request\"}\n";
    size_t len = 0;
    char *data = dbk_text_steal(&answer->body, &len);
    bool whole = data != NULL;
    struct MHD_Response *response =
        whole ? MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE)
              : MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory,
                                                MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        free(data);
        return MHD_NO;
    }
    const char *type = whole ? answer->content_type : DBK_TYPE_PROBLEM;
    if (type != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    }
    if (answer->closes) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    if (answer->accepts_gzip) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, identity");
    }
    if (answer->retry_after_s > 0) {
        add_number_header(response, MHD_HTTP_HEADER_RETRY_AFTER, answer->retry_after_s);
    }
    if (answer->allow != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    }
    if (answer->listing) {
        add_number_header(response, "Daybook-Last-Position", answer->last_position);
        (void)MHD_add_response_header(response, "Daybook-More", answer->more ? "yes" : "no");
    }
    request->not_durable = answer->not_durable;
    request->state = REQUEST_ANSWERED;
    enter(request, DBK_PHASE_ANSWER, len);
    enum MHD_Result result =
        MHD_queue_response(request->connection, whole ? answer->status : 503, response);
    MHD_destroy_response(response);
    dbk_answer_release(answer);
    return result;
}

static bool is_append(const struct dbk_target *target)
{
    return (target->route == DBK_ROUTE_EVENTS || target->route == DBK_ROUTE_OPENMETER) &&
           target->method == DBK_METHOD_POST;
}

static const char *header(struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* From now on what still comes of the body is thrown away, and then the answer is sent. */
static void refuse(struct request *request, unsigned status, const char *code, const char *detail)
{
    dbk_body_release(&request->body);
    dbk_answer_problem(&request->answer, status, code, detail);
    request->state = REQUEST_DISCARD;
}

/* The same for what the body itself came to. */
static void refuse_for(struct request *request, const struct daybook_error *err)
{
    struct dbk_append_counters *appends = &request->http->service->appends;
    dbk_body_release(&request->body);
    dbk_ingest_answer_refused(err, &request->answer);
    if (err->code == DAYBOOK_TOO_LARGE || err->code == DAYBOOK_NO_MEMORY) {
        count_limit(request,
                    err->code == DAYBOOK_TOO_LARGE ? DBK_HTTP_LIMIT_BODY : DBK_HTTP_LIMIT_BODIES);
    }
    if (is_append(&request->target)) {
        atomic_fetch_add(&appends->outcomes[dbk_append_outcome_of(err->code)], 1);
    }
    request->state = REQUEST_DISCARD;
}

static void begin_body(struct request *request, enum dbk_encoding encoding)
{
    struct daybook_error err = {0};
    const char *length = header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t most = request->http->service->config->max_body_bytes;
    enum daybook_code code =
        dbk_body_begin(&request->body, encoding, most, &request->http->bodies_bytes, &err);
    if (code == DAYBOOK_OK && length != NULL &&
        strtoull(length, NULL, 10) > request->body.arrives_max) {
        code = dbk_fail(&err, DAYBOOK_TOO_LARGE,
                        "the body is larger than max_body_bytes (%" PRIu64 "): send it in parts",
                        most);
    }
    if (code != DAYBOOK_OK) {
        refuse_for(request, &err);
    }
}

static void take_body(struct request *request, const char *data, size_t len)
{
    struct daybook_error err = {0};
    dbk_connection_arrived(&request->http->connections, request->place, len, dbk_monotonic_us());
    if (dbk_body_take(&request->body, data, len, &err) != DAYBOOK_OK) {
        refuse_for(request, &err);
    }
}

/* Whether a Content-Type names this media type, whatever its parameters. */
static bool is_type(const char *value, const char *type)
{
    size_t len = strlen(type);
    return strncasecmp(value, type, len) == 0 &&
           (value[len] == '\0' || value[len] == ';' || value[len] == ' ' || value[len] == '\t');
}

/* What kind of body the headers announce; false: none that is taken. */
static bool find_kind(struct request *request)
{
    const char *type = header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    static const struct {
        const char *type;
        enum dbk_body_kind kind;
    } kinds[] = {{DBK_TYPE_CLOUDEVENT, DBK_BODY_CLOUDEVENT},
                 {DBK_TYPE_CLOUDEVENTS, DBK_BODY_CLOUDEVENTS},
                 {DBK_TYPE_NDJSON, DBK_BODY_NDJSON},
                 {DBK_TYPE_JSON, DBK_BODY_JSON}};
    bool structured = type != NULL && strncasecmp(type, "application/cloudevents", 23) == 0;
    if (!structured &&
        (header(request, "ce-specversion") != NULL || header(request, "ce-id") != NULL)) {
        request->binary = true;
        request->kind = DBK_BODY_CLOUDEVENT;
        return true;
    }
    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (is_type(type, kinds[i].type)) {
            request->kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static bool find_encoding(struct request *request, enum dbk_encoding *ret)
{
    const char *encoding = header(request, MHD_HTTP_HEADER_CONTENT_ENCODING);
    *ret = DBK_ENCODING_NONE;
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        return true;
    }
    *ret = DBK_ENCODING_GZIP;
    return strcasecmp(encoding, "gzip") == 0 || strcasecmp(encoding, "x-gzip") == 0;
}

static void check_post(struct request *request)
{
    enum dbk_encoding encoding;
    if (!find_kind(request)) {
        refuse(request, 415, "unsupported_media_type",
               "Content-Type has to be application/json (one event or an array), "
               "application/x-ndjson (one a line), application/cloudevents+json or "
               "application/cloudevents-batch+json; a CloudEvent in binary mode has ce- headers");
    } else if (!find_encoding(request, &encoding)) {
        refuse(request, 415, "unsupported_media_type",
               "this Content-Encoding is not taken: send the body as it is, or as gzip");
        request->answer.accepts_gzip = true;
    } else {
        begin_body(request, encoding);
    }
}

/* ---- appends --------------------------------------------------------------------------------- */

static void resume(void *waiter)
{
    struct request *request = waiter;
    MHD_resume_connection(request->connection);
}

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

/* Answers without the journal; the append is freed. */
static enum MHD_Result answer_without(struct request *request, struct dbk_append *append,
                                      enum daybook_code instead, const char *detail)
{
    struct dbk_answer answer = {0};
    dbk_ingest_answer(&append->ingest, NULL, instead, detail, &answer);
    count_outcomes(request->http->service, &append->ingest, NULL, instead);
    atomic_fetch_sub(&request->http->bodies_bytes, append->body_bytes);
    dbk_append_free(append);
    return send_answer(request, &answer);
}

static enum MHD_Result refuse_body(struct request *request, struct dbk_append *append,
                                   const struct daybook_error *err)
{
    struct dbk_answer answer = {0};
    dbk_ingest_answer_refused(err, &answer);
    atomic_fetch_add(&request->http->service->appends.outcomes[dbk_append_outcome_of(err->code)],
                     1);
    atomic_fetch_sub(&request->http->bodies_bytes, append->body_bytes);
    dbk_append_free(append);
    return send_answer(request, &answer);
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
static enum daybook_code structure_body(struct request *request, struct daybook_error *err)
{
    struct dbk_cloudevent event = {0};
    struct daybook_bytes body = {request->body.data, request->body.len};
    size_t len = 0;
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, &event);
    enum daybook_code code =
        dbk_cloudevent_end(&event, header(request, MHD_HTTP_HEADER_CONTENT_TYPE), body, err);
    if (code == DAYBOOK_OK) {
        size_t room = event.text.capacity;
        char *data = dbk_text_steal(&event.text, &len);
        dbk_body_replace(&request->body, data, len, room);
    }
    dbk_text_release(&event.text);
    return code;
}

/* The body is whole: take it apart and hand it to the journal. */
static enum MHD_Result begin_append(struct request *request)
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
    append->results = calloc(append->ingest.event_count, sizeof *append->results);
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
    request->state = REQUEST_WAIT;
    /* Suspended first: the commit may end before the submission returns. */
    MHD_suspend_connection(request->connection);
    dbk_append_submit(service, append);
    return MHD_YES;
}

/* The append ended, or its time is over. */
static enum MHD_Result end_append(struct request *request)
{
    struct dbk_service *service = request->http->service;
    struct dbk_append *append = request->append;
    struct dbk_answer answer = {0};
    request->append = NULL;
    atomic_fetch_sub(&request->http->bodies_bytes, append->body_bytes);
    append->body_bytes = 0;
    if (!dbk_append_is_done(service, append)) {
        dbk_ingest_answer(&append->ingest, NULL, DAYBOOK_TIMED_OUT,
                          "the commit did not end in time, so the outcome is unknown: repeat the "
                          "request with the same request_id",
                          &answer);
        count_outcomes(service, &append->ingest, NULL, DAYBOOK_TIMED_OUT);
        if (dbk_append_take(service, append)) {
            dbk_append_free(append); /* it ended just now; the answer says unknown, which is true */
        }
        return send_answer(request, &answer);
    }
    dbk_ingest_answer(&append->ingest, append->results, DAYBOOK_OK, NULL, &answer);
    count_outcomes(service, &append->ingest, append->results, DAYBOOK_OK);
    dbk_histogram_add(&service->appends.append_us,
                      (uint64_t)(dbk_monotonic_us() - append->started_us));
    dbk_append_free(append);
    return send_answer(request, &answer);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Arguments come as they were sent: see keep_escapes. Returns false for one that cannot be decoded. */
static bool argument(struct request *request, const char *name, char *buf, size_t room)
{
    const char *value =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    buf[0] = '\0';
    return value == NULL || dbk_percent_decode(value, strlen(value), buf, room);
}

static enum daybook_code read_query(struct request *request, struct dbk_query *ret,
                                    struct daybook_error *err)
{
    const struct {
        const char *name;
        char *buf;
        size_t room;
    } all[] = {
        {"after", ret->after, sizeof ret->after},    {"before", ret->before, sizeof ret->before},
        {"limit", ret->limit, sizeof ret->limit},    {"where", ret->where, sizeof ret->where},
        {"reason", ret->reason, sizeof ret->reason}, {"force", ret->force, sizeof ret->force},
        {"from", ret->from, sizeof ret->from},       {"why", ret->why, sizeof ret->why}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!argument(request, all[i].name, all[i].buf, all[i].room)) {
            return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                            "%s is longer than %zu bytes or not percent-encoded", all[i].name,
                            all[i].room - 1);
        }
    }
    return DAYBOOK_OK;
}

/* Where the request comes from, as far as the system knows: an address, or the user at a Unix socket. */
static void write_peer(struct request *request, char *buf, size_t room)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred user;
    socklen_t len = sizeof user;
    (void)snprintf(buf, room, "unknown");
    if (info != NULL && info->client_addr != NULL && info->client_addr->sa_family != AF_UNIX) {
        socklen_t size = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                  : sizeof(struct sockaddr_in);
        (void)getnameinfo(info->client_addr, size, buf, (socklen_t)room, NULL, 0, NI_NUMERICHOST);
    } else if (fd != NULL &&
               getsockopt(fd->connect_fd, SOL_SOCKET, SO_PEERCRED, &user, &len) == 0) {
        (void)snprintf(buf, room, "uid %u", (unsigned)user.uid);
    }
}

/* Who asks, for the trail: the name that is claimed, and where it comes from. */
static void write_who(struct request *request, char *buf, size_t room)
{
    char peer[INET6_ADDRSTRLEN + 16];
    const char *name = header(request, OPERATOR_HEADER);
    write_peer(request, peer, sizeof peer);
    if (name == NULL || name[0] == '\0') {
        (void)snprintf(buf, room, "%s", peer);
    } else {
        (void)snprintf(buf, room, "%.180s (%s)", name, peer);
    }
}

static void forget_operate(struct request *request)
{
    if (request->operate != NULL) {
        atomic_fetch_sub(&request->http->bodies_bytes, request->operate->body_room);
        dbk_operate_free(request->operate);
        request->operate = NULL;
    }
}

/* Hands the request to the desk; the connection waits. */
static enum MHD_Result begin_operate(struct request *request)
{
    struct dbk_operate *operate = calloc(1, sizeof *operate);
    struct dbk_answer answer = {0};
    struct daybook_error err = {0};
    if (operate == NULL) {
        return MHD_NO;
    }
    *operate = (struct dbk_operate){.job = {.run = dbk_operate_run, .waiter = request},
                                    .service = request->http->service,
                                    .desk = request->http->desk,
                                    .target = request->target,
                                    .begun = request->begun};
    operate->body = dbk_body_steal(&request->body, &operate->body_len, &operate->body_room);
    request->operate = operate;
    if (read_query(request, &operate->query, &err) != DAYBOOK_OK) {
        forget_operate(request);
        dbk_answer_problem(&answer, 400, daybook_code_name(err.code), err.message);
        return send_answer(request, &answer);
    }
    write_who(request, operate->who, sizeof operate->who);
    request->state = REQUEST_WAIT;
    /* Suspended first: it may be done before `put` returns. */
    MHD_suspend_connection(request->connection);
    if (!dbk_desk_put(request->http->desk, &operate->job)) {
        dbk_answer_problem(&operate->answer, 503, "busy",
                           "too many requests wait for the disk: repeat the request later");
        operate->answer.retry_after_s = 1;
        MHD_resume_connection(request->connection);
    }
    return MHD_YES;
}

static enum MHD_Result end_operate(struct request *request)
{
    enum MHD_Result result = send_answer(request, &request->operate->answer);
    forget_operate(request);
    return result;
}

/* What waits for nothing is answered at once. */
static enum MHD_Result answer_now(struct request *request)
{
    struct dbk_service *service = request->http->service;
    struct dbk_answer answer = {0};
    switch (request->target.route) {
    case DBK_ROUTE_STATS:
        dbk_admin_stats(service, &answer);
        break;
    case DBK_ROUTE_CONSUMERS:
        dbk_admin_consumers(service, &answer);
        break;
    case DBK_ROUTE_CONSUMER:
        dbk_admin_consumer(service, request->target.consumer, &answer);
        break;
    case DBK_ROUTE_METRICS:
        dbk_admin_metrics(service, &answer);
        break;
    case DBK_ROUTE_READY:
        dbk_admin_ready(service, &answer);
        break;
    case DBK_ROUTE_HEALTH:
        answer.status = 200;
        answer.content_type = DBK_TYPE_JSON;
        dbk_text_str(&answer.body, "{\"status\":\"alive\"}\n");
        break;
    case DBK_ROUTE_EVENTS:
    case DBK_ROUTE_OPENMETER:
    case DBK_ROUTE_EVENT:
    case DBK_ROUTE_START:
    case DBK_ROUTE_REWIND:
    case DBK_ROUTE_LIFT:
    case DBK_ROUTE_QUARANTINE:
    case DBK_ROUTE_QUARANTINED:
    case DBK_ROUTE_RELEASE:
    case DBK_ROUTE_RELEASE_MANY:
    case DBK_ROUTE_DISCARD_MANY:
    case DBK_ROUTE_OPERATIONS:
    case DBK_ROUTE_NONE:
        return MHD_NO;
    }
    return send_answer(request, &answer);
}

/* The whole request is there. */
static enum MHD_Result answer_request(struct request *request)
{
    enter(request, DBK_PHASE_WAIT, 0); /* what it takes from here on is ours */
    if (is_append(&request->target)) {
        return begin_append(request);
    }
    return dbk_operate_handles(&request->target) ? begin_operate(request) : answer_now(request);
}

/* A page in somebody's browser may not operate a daemon on the same machine: what a browser sends for
 * another site carries its Origin. */
static bool is_of_other_origin(struct request *request)
{
    const char *origin = header(request, "Origin");
    const char *host = header(request, MHD_HTTP_HEADER_HOST);
    const char *at = origin != NULL ? strstr(origin, "://") : NULL;
    return origin != NULL && (host == NULL || at == NULL || strcasecmp(at + 3, host) != 0);
}

static void check_operate(struct request *request)
{
    const char *type = header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (is_of_other_origin(request)) {
        refuse(request, 403, "other_origin",
               "a page of another origin may not change anything here");
    } else if (dbk_operate_has_body(&request->target) &&
               (type == NULL || !is_type(type, DBK_TYPE_JSON))) {
        refuse(request, 415, "unsupported_media_type", "Content-Type has to be application/json");
    } else if (dbk_operate_has_body(&request->target)) {
        begin_body(request, DBK_ENCODING_NONE);
    }
}

static void aim(struct request *request, const char *url, const char *method)
{
    struct daybook_error err = {0};
    struct dbk_target *target = &request->target;
    enum daybook_code code = dbk_target_parse(url, method, target, &err);
    bool append = is_append(target);
    request->has_body = append || dbk_operate_has_body(target);
    if (code == DAYBOOK_NOT_FOUND) {
        refuse(request, 404, daybook_code_name(code), err.message);
    } else if (!target->allowed) {
        refuse(request, 405, "method_not_allowed", "this method is not known here: see Allow");
        request->answer.allow = target->allow;
    } else if (code != DAYBOOK_OK) {
        refuse(request, 400, daybook_code_name(code), err.message);
    } else if (append) {
        check_post(request);
    } else if (dbk_operate_changes(target)) {
        check_operate(request);
    }
}

/* Figures are served beyond the limit too: that is when they are asked for. */
static bool is_served_beyond(const struct dbk_target *target)
{
    return target->route == DBK_ROUTE_HEALTH || target->route == DBK_ROUTE_READY ||
           target->route == DBK_ROUTE_METRICS || target->route == DBK_ROUTE_STATS;
}

/* What a connection may send, and how many there may be. */
static void check_limits(struct request *request)
{
    const union MHD_ConnectionInfo *head =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct dbk_answer *answer = &request->answer;
    if (request->place != NULL && request->place->spare && !is_served_beyond(&request->target)) {
        dbk_answer_release(answer);
        refuse(request, 503, "too_many_connections",
               "more than listen.max_connections are open: use fewer, or repeat the request later");
        answer->retry_after_s = 1;
        answer->closes = true;
        count_limit(request, DBK_HTTP_LIMIT_CONNECTIONS);
    } else if (head != NULL && head->header_size > HEADERS_BYTES_MAX) {
        dbk_answer_release(answer);
        refuse(request, 431, "headers_too_large",
               "request line and headers are larger than 16 KiB: send less");
        answer->closes = true;
        count_limit(request, DBK_HTTP_LIMIT_HEADERS);
    }
}

/* The entry of a connection in the table. */
static struct dbk_connection *place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* The head of a request has arrived: where does it go, and can it be answered at all? */
static struct request *begin_request(struct dbk_http *http, struct MHD_Connection *connection,
                                     const char *url, const char *method)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return NULL;
    }
    request->http = http;
    request->connection = connection;
    request->begun = dbk_service_begun(http->service);
    request->place = place_of(connection);
    atomic_fetch_add(&http->active, 1);
    enter(request, DBK_PHASE_BODY, 0);
    aim(request, url, method);
    check_limits(request);
    return request;
}

/* A refusal that is known before the body: a client that asks first (Expect), or whose body is too long
 * to be read in vain, is answered at once; for any other the body is read, so that it sees the answer. */
static bool answers_early(struct request *request)
{
    if (request->state != REQUEST_DISCARD) {
        return false;
    }
    const char *length = header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return request->answer.closes || header(request, MHD_HTTP_HEADER_EXPECT) != NULL ||
           (length != NULL && strtoull(length, NULL, 10) > DISCARD_BYTES_MAX);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_data_size, void **con_cls)
{
    (void)version;
    struct request *request = *con_cls;
    if (request == NULL) {
        request = begin_request(user, connection, url, method);
        *con_cls = request;
        if (request == NULL) {
            return MHD_NO;
        }
        return answers_early(request) ? send_answer(request, &request->answer) : MHD_YES;
    }
    if (*upload_data_size > 0) {
        size_t len = *upload_data_size;
        *upload_data_size = 0;
        if (request->state == REQUEST_BODY && request->has_body) {
            take_body(request, upload_data, len);
        } else {
            request->discarded += len;
            dbk_connection_arrived(&request->http->connections, request->place, len,
                                   dbk_monotonic_us());
        }
        return request->discarded > DISCARD_BYTES_MAX ? MHD_NO : MHD_YES;
    }
    switch (request->state) {
    case REQUEST_BODY:
        return answer_request(request);
    case REQUEST_DISCARD:
        return send_answer(request, &request->answer);
    case REQUEST_WAIT:
        return request->operate != NULL ? end_operate(request) : end_append(request);
    case REQUEST_ANSWERED:
        break;
    }
    return MHD_YES;
}

/* Events of an append that ended unanswered and are not known to be durable. */
static uint64_t count_undurable(struct dbk_service *service, const struct dbk_append *append)
{
    if (!dbk_append_is_done(service, append)) {
        return append->ingest.event_count;
    }
    uint64_t count = 0;
    for (size_t i = 0; i < append->ingest.event_count; i++) {
        count += daybook_code_http_status(append->results[i].code) == 503 ? 1 : 0;
    }
    return count;
}

static void completed(void *user, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode how)
{
    (void)connection;
    struct dbk_http *http = user;
    struct request *request = *con_cls;
    if (request == NULL) {
        return;
    }
    if (request->append != NULL) {
        /* Resumed, and the connection broke before it was answered. */
        request->not_durable = count_undurable(http->service, request->append);
        atomic_fetch_sub(&http->bodies_bytes, request->append->body_bytes);
        if (dbk_append_take(http->service, request->append)) {
            dbk_append_free(request->append);
        }
    }
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK && request->not_durable > 0) {
        atomic_fetch_add(&http->service->appends.unheard, request->not_durable);
    }
    if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED) {
        /* Nothing moved at all for longer than we would have waited for a little. */
        count_limit(request, request->state == REQUEST_ANSWERED ? DBK_HTTP_LIMIT_SLOW_ANSWER
                                                                : DBK_HTTP_LIMIT_SLOW_REQUEST);
    }
    enter(request, DBK_PHASE_IDLE, 0);
    forget_operate(request); /* resumed, and the connection broke */
    dbk_body_release(&request->body);
    dbk_answer_release(&request->answer);
    free(request);
    *con_cls = NULL;
    atomic_fetch_sub(&http->active, 1);
}

/* ---- connections ------------------------------------------------------------------------------- */

static void note_connection(void *user, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what)
{
    struct dbk_http *http = user;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        dbk_connections_remove(&http->connections, *context);
        *context = NULL;
    } else if (info != NULL) {
        *context = dbk_connections_add(&http->connections, info->connect_fd, dbk_monotonic_us());
    }
}

/* The request line is there. What is returned becomes the context of the request: none yet. */
static void *note_request_line(void *user, const char *uri, struct MHD_Connection *connection)
{
    struct dbk_http *http = user;
    (void)uri;
    dbk_connection_enter(&http->connections, place_of(connection), DBK_PHASE_HEAD, 0,
                         dbk_monotonic_us());
    return NULL;
}

void dbk_http_look(struct dbk_http *http)
{
    dbk_connections_look(&http->connections, dbk_monotonic_us());
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void log_library(void *user, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void log_library(void *user, const char *format, va_list args)
{
    char line[256];
    (void)vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    /* Headers that do not even fit its memory it answers itself; only this line tells. */
    if (strstr(line, "response code is 431") != NULL ||
        strstr(line, "response code is 414") != NULL) {
        struct dbk_http *http = user;
        atomic_fetch_add(&http->service->http.limited[DBK_HTTP_LIMIT_HEADERS], 1);
    }
    dbk_log(DBK_LOG_DEBUG, "http", DBK_LOG_TEXT_FIELD("note", line));
}

/* As many connections as are asked for, or as the process may have files open. */
static unsigned connection_limit(const struct dbk_config *config)
{
    struct rlimit files = {0};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    const rlim_t beside = DBK_CONNECTIONS_SPARE + FILES_BESIDE_CONNECTIONS;
    rlim_t wanted = config->max_connections + beside;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= wanted) {
        return (unsigned)config->max_connections;
    }
    rlim_t possible = files.rlim_cur > 2 * beside ? files.rlim_cur - beside : beside;
    dbk_log(DBK_LOG_WARNING, "max_connections is lowered to the limit on open files (ulimit -n)",
            DBK_LOG_NUMBER("max_connections", possible));
    return (unsigned)possible;
}

/* Paths and arguments are decoded by us, after a path was cut at its slashes: an id may hold one. */
static size_t keep_escapes(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user;
    (void)connection;
    return strlen(text);
}

static struct MHD_Daemon *start_on(struct dbk_http *http, int fd, unsigned threads,
                                   unsigned connections)
{
    /* The table of connections is quicker; this is for a main thread that waits for a disk. */
    unsigned idle_s = 2 * (unsigned)(http->service->config->idle_timeout_ms / 1000) + 5;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
                                    {MHD_OPTION_END, 0, NULL}};
    if (threads < 2) {
        pool[0].option = MHD_OPTION_END;
    }
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, handle, http, MHD_OPTION_EXTERNAL_LOGGER, log_library, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, completed, http,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT,
        connections + DBK_CONNECTIONS_SPARE, MHD_OPTION_NOTIFY_CONNECTION, note_connection, http,
        MHD_OPTION_URI_LOG_CALLBACK, note_request_line, http, MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX, MHD_OPTION_ARRAY, pool,
        MHD_OPTION_END);
}

static enum daybook_code start_all(struct dbk_http *http, struct daybook_error *err)
{
    const struct dbk_config *config = http->service->config;
    unsigned connections = http->connections.limit;
    if (config->address.length > 0) {
        int fd = -1;
        enum daybook_code code = dbk_listen_tcp(config, &fd, http->url, sizeof http->url, err);
        if (code != DAYBOOK_OK) {
            return code;
        }
        http->tcp = start_on(http, fd, DBK_HTTP_THREADS, connections);
        if (http->tcp == NULL) {
            (void)close(fd);
            return dbk_fail(err, DAYBOOK_BACKEND, "the HTTP server cannot be started on %s",
                            config->listen_address);
        }
    }
    if (config->listen_unix[0] != '\0') {
        int fd = -1;
        enum daybook_code code = dbk_listen_unix(config->listen_unix, &fd, err);
        if (code != DAYBOOK_OK) {
            return code;
        }
        http->local = start_on(http, fd, 1, connections);
        if (http->local == NULL) {
            (void)close(fd);
            return dbk_fail(err, DAYBOOK_BACKEND, "the HTTP server cannot be started on %s",
                            config->listen_unix);
        }
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_http_start(struct dbk_service *service, struct dbk_http **ret,
                                 struct daybook_error *err)
{
    struct dbk_http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the HTTP server");
    }
    http->service = service;
    dbk_connections_init(&http->connections, connection_limit(service->config),
                         service->config->idle_timeout_ms * 1000, &service->http);
    service->wake = resume;
    enum daybook_code code = dbk_desk_new(resume, &http->desk, err);
    if (code == DAYBOOK_OK) {
        code = start_all(http, err);
    }
    if (code != DAYBOOK_OK) {
        dbk_http_stop(http);
        return code;
    }
    *ret = http;
    return DAYBOOK_OK;
}

const char *dbk_http_url(const struct dbk_http *http)
{
    return http->url;
}

unsigned dbk_http_active(const struct dbk_http *http)
{
    return http->active;
}

void dbk_http_stop(struct dbk_http *http)
{
    if (http == NULL) {
        return;
    }
    dbk_desk_free(http->desk); /* nobody waits for it any more: no connection is suspended */
    if (http->tcp != NULL) {
        MHD_stop_daemon(http->tcp);
    }
    if (http->local != NULL) {
        MHD_stop_daemon(http->local);
        (void)unlink(http->service->config->listen_unix);
    }
    dbk_connections_release(&http->connections);
    free(http);
}
