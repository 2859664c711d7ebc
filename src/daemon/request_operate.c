/* SPDX-License-Identifier: Apache-2.0 */
/* Operators' requests: who asks for what, and the turn at the desk. See request.h. */
#include "daemon/request.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define OPERATOR_HEADER "Daybook-Operator"

/* Arguments come as they were sent: see keep_escapes. Returns false for one that cannot be decoded. */
static bool argument(struct dbk_request *request, const char *name, char *buf, size_t room)
{
    const char *value =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    buf[0] = '\0';
    return value == NULL || dbk_percent_decode(value, strlen(value), buf, room);
}

static enum daybook_code read_query(struct dbk_request *request, struct dbk_query *ret,
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
static void write_peer(struct dbk_request *request, char *buf, size_t room)
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
static void write_who(struct dbk_request *request, char *buf, size_t room)
{
    char peer[INET6_ADDRSTRLEN + 16];
    const char *name = dbk_request_header(request, OPERATOR_HEADER);
    write_peer(request, peer, sizeof peer);
    if (name == NULL || name[0] == '\0') {
        (void)snprintf(buf, room, "%s", peer);
    } else {
        (void)snprintf(buf, room, "%.180s (%s)", name, peer);
    }
}

void dbk_request_forget_operate(struct dbk_request *request)
{
    if (request->operate != NULL) {
        atomic_fetch_sub(&request->http->bodies_bytes, request->operate->body_room);
        dbk_operate_free(request->operate);
        request->operate = NULL;
    }
}

enum MHD_Result dbk_request_begin_operate(struct dbk_request *request)
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
        dbk_request_forget_operate(request);
        dbk_answer_problem(&answer, 400, daybook_code_name(err.code), err.message);
        return dbk_request_send(request, &answer);
    }
    write_who(request, operate->who, sizeof operate->who);
    request->state = DBK_REQUEST_WAIT;
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

enum MHD_Result dbk_request_end_operate(struct dbk_request *request)
{
    enum MHD_Result result = dbk_request_send(request, &request->operate->answer);
    dbk_request_forget_operate(request);
    return result;
}

/* A page in somebody's browser may not operate a daemon on the same machine: what a browser sends for
 * another site carries its Origin. */
static bool is_of_other_origin(struct dbk_request *request)
{
    const char *origin = dbk_request_header(request, "Origin");
    const char *host = dbk_request_header(request, MHD_HTTP_HEADER_HOST);
    const char *at = origin != NULL ? strstr(origin, "://") : NULL;
    return origin != NULL && (host == NULL || at == NULL || strcasecmp(at + 3, host) != 0);
}

void dbk_request_check_operate(struct dbk_request *request)
{
    const char *type = dbk_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (is_of_other_origin(request)) {
        dbk_request_refuse(request, 403, "other_origin",
                           "a page of another origin may not change anything here");
    } else if (dbk_operate_has_body(&request->target) &&
               (type == NULL || !dbk_media_type_is(type, DBK_TYPE_JSON))) {
        dbk_request_refuse(request, 415, "unsupported_media_type",
                           "Content-Type has to be application/json");
    } else if (dbk_operate_has_body(&request->target)) {
        dbk_request_begin_body(request, DBK_ENCODING_NONE);
    }
}
