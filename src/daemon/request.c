/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: where each goes, what it is held to, its answer and its end. See request.h. */
#include "daemon/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin.h"

#define HEADERS_BYTES_MAX (16u * 1024u)                /* request line and headers */
#define DISCARD_BYTES_MAX (UINT64_C(64) * 1024 * 1024) /* read past a refusal, then cut */

/* ---- answers --------------------------------------------------------------------------------- */

static void enter(struct dbk_request *request, enum dbk_phase phase, uint64_t bytes)
{
    dbk_connection_enter(&request->http->connections, request->place, phase, bytes,
                         dbk_monotonic_tick_us());
}

void dbk_request_count_limit(struct dbk_request *request, enum dbk_http_limit limit)
{
    atomic_fetch_add(&request->http->service->http.limited[limit], 1);
}

static void add_number_header(struct MHD_Response *response, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    (void)MHD_add_response_header(response, name, text);
}

enum MHD_Result dbk_request_send(struct dbk_request *request, struct dbk_answer *answer)
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
    request->state = DBK_REQUEST_ANSWERED;
    enter(request, DBK_PHASE_ANSWER, len);
    enum MHD_Result result =
        MHD_queue_response(request->connection, whole ? answer->status : 503, response);
    MHD_destroy_response(response);
    dbk_answer_release(answer);
    return result;
}

bool dbk_request_is_append(const struct dbk_target *target)
{
    return (target->route == DBK_ROUTE_EVENTS || target->route == DBK_ROUTE_OPENMETER) &&
           target->method == DBK_METHOD_POST;
}

const char *dbk_request_header(struct dbk_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

void dbk_request_refuse(struct dbk_request *request, unsigned status, const char *code,
                        const char *detail)
{
    dbk_body_release(&request->body);
    dbk_answer_problem(&request->answer, status, code, detail);
    request->state = DBK_REQUEST_DISCARD;
}

void dbk_request_resume(void *waiter)
{
    struct dbk_request *request = waiter;
    MHD_resume_connection(request->connection);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What waits for nothing is answered at once. */
static enum MHD_Result answer_now(struct dbk_request *request)
{
    struct dbk_service *service = request->http->service;
    struct dbk_answer answer = {0};
    if (request->target.route == DBK_ROUTE_READY) {
        dbk_admin_ready(service, &answer);
    } else if (request->target.route == DBK_ROUTE_HEALTH) {
        answer.status = 200;
        answer.content_type = DBK_TYPE_JSON;
        dbk_text_str(&answer.body, "{\"status\":\"alive\"}\n");
    } else if (!dbk_admin_figures(service, &request->target, &answer)) {
        return MHD_NO;
    }
    return dbk_request_send(request, &answer);
}

/* What may wait for the disk or a database goes to the desk: figures too where they are asked of a database. */
static bool belongs_to_desk(const struct dbk_request *request)
{
    const struct dbk_target *target = &request->target;
    bool at_once = target->route == DBK_ROUTE_READY || target->route == DBK_ROUTE_HEALTH;
    return dbk_operate_handles(target) ||
           (request->http->service->config->backend == DBK_BACKEND_POSTGRES && !at_once);
}

/* The whole request is there. */
static enum MHD_Result answer_request(struct dbk_request *request)
{
    enter(request, DBK_PHASE_WAIT, 0); /* what it takes from here on is ours */
    if (dbk_request_is_append(&request->target)) {
        return dbk_request_begin_append(request);
    }
    return belongs_to_desk(request) ? dbk_request_begin_operate(request) : answer_now(request);
}

static void aim(struct dbk_request *request, const char *url, const char *method)
{
    struct daybook_error err = {0};
    struct dbk_target *target = &request->target;
    enum daybook_code code = dbk_target_parse(url, method, target, &err);
    bool append = dbk_request_is_append(target);
    request->has_body = append || dbk_operate_has_body(target);
    if (code == DAYBOOK_NOT_FOUND) {
        dbk_request_refuse(request, 404, daybook_code_name(code), err.message);
    } else if (!target->allowed) {
        dbk_request_refuse(request, 405, "method_not_allowed",
                           "this method is not known here: see Allow");
        request->answer.allow = target->allow;
    } else if (code != DAYBOOK_OK) {
        dbk_request_refuse(request, 400, daybook_code_name(code), err.message);
    } else if (append) {
        dbk_request_check_append(request);
    } else if (dbk_operate_changes(target)) {
        dbk_request_check_operate(request);
    }
}

/* Figures are served beyond the limit too: that is when they are asked for. */
static bool is_served_beyond(const struct dbk_target *target)
{
    return target->route == DBK_ROUTE_HEALTH || target->route == DBK_ROUTE_READY ||
           target->route == DBK_ROUTE_METRICS || target->route == DBK_ROUTE_STATS;
}

/* What a connection may send, and how many there may be. */
static void check_limits(struct dbk_request *request)
{
    const union MHD_ConnectionInfo *head =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct dbk_answer *answer = &request->answer;
    if (request->place != NULL && request->place->spare && !is_served_beyond(&request->target)) {
        dbk_answer_release(answer);
        dbk_request_refuse(
            request, 503, "too_many_connections",
            "more than listen.max_connections are open: use fewer, or repeat the request later");
        answer->retry_after_s = 1;
        answer->closes = true;
        dbk_request_count_limit(request, DBK_HTTP_LIMIT_CONNECTIONS);
    } else if (head != NULL && head->header_size > HEADERS_BYTES_MAX) {
        dbk_answer_release(answer);
        dbk_request_refuse(request, 431, "headers_too_large",
                           "request line and headers are larger than 16 KiB: send less");
        answer->closes = true;
        dbk_request_count_limit(request, DBK_HTTP_LIMIT_HEADERS);
    }
}

struct dbk_connection *dbk_place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* The head of a request has arrived: where does it go, and can it be answered at all? */
static struct dbk_request *begin_request(struct dbk_http *http, struct MHD_Connection *connection,
                                         const char *url, const char *method)
{
    struct dbk_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return NULL;
    }
    request->http = http;
    request->connection = connection;
    request->begun = dbk_service_begun(http->service);
    request->place = dbk_place_of(connection);
    atomic_fetch_add(&http->active, 1);
    enter(request, DBK_PHASE_BODY, 0);
    aim(request, url, method);
    check_limits(request);
    return request;
}

/* A refusal that is known before the body: a client that asks first (Expect), or whose body is too long
 * to be read in vain, is answered at once; for any other the body is read, so that it sees the answer. */
static bool answers_early(struct dbk_request *request)
{
    if (request->state != DBK_REQUEST_DISCARD) {
        return false;
    }
    const char *length = dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return request->answer.closes || dbk_request_header(request, MHD_HTTP_HEADER_EXPECT) != NULL ||
           (length != NULL && strtoull(length, NULL, 10) > DISCARD_BYTES_MAX);
}

enum MHD_Result dbk_request_handle(void *user, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload_data,
                                   size_t *upload_data_size, void **con_cls)
{
    (void)version;
    struct dbk_request *request = *con_cls;
    if (request == NULL) {
        request = begin_request(user, connection, url, method);
        *con_cls = request;
        if (request == NULL) {
            return MHD_NO;
        }
        return answers_early(request) ? dbk_request_send(request, &request->answer) : MHD_YES;
    }
    if (*upload_data_size > 0) {
        size_t len = *upload_data_size;
        *upload_data_size = 0;
        if (request->state == DBK_REQUEST_BODY && request->has_body) {
            dbk_request_take_body(request, upload_data, len);
        } else {
            request->discarded += len;
            dbk_connection_arrived(&request->http->connections, request->place, len,
                                   dbk_monotonic_tick_us());
        }
        return request->discarded > DISCARD_BYTES_MAX ? MHD_NO : MHD_YES;
    }
    switch (request->state) {
    case DBK_REQUEST_BODY:
        return answer_request(request);
    case DBK_REQUEST_DISCARD:
        return dbk_request_send(request, &request->answer);
    case DBK_REQUEST_WAIT:
        return request->operate != NULL ? dbk_request_end_operate(request)
                                        : dbk_request_end_append(request);
    case DBK_REQUEST_ANSWERED:
        break;
    }
    return MHD_YES;
}

void dbk_request_completed(void *user, struct MHD_Connection *connection, void **con_cls,
                           enum MHD_RequestTerminationCode how)
{
    (void)connection;
    struct dbk_http *http = user;
    struct dbk_request *request = *con_cls;
    if (request == NULL) {
        return;
    }
    if (request->append != NULL) {
        /* Resumed, and the connection broke before it was answered. */
        dbk_request_leave_append(request);
    }
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK && request->not_durable > 0) {
        atomic_fetch_add(&http->service->appends.unheard, request->not_durable);
    }
    if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED) {
        /* Nothing moved at all for longer than we would have waited for a little. */
        dbk_request_count_limit(request, request->state == DBK_REQUEST_ANSWERED
                                             ? DBK_HTTP_LIMIT_SLOW_ANSWER
                                             : DBK_HTTP_LIMIT_SLOW_REQUEST);
    }
    enter(request, DBK_PHASE_IDLE, 0);
    dbk_request_forget_operate(request); /* resumed, and the connection broke */
    dbk_body_release(&request->body);
    dbk_answer_release(&request->answer);
    free(request);
    *con_cls = NULL;
    atomic_fetch_sub(&http->active, 1);
}
