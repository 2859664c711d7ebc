/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request, from its head to its answer, inside this room: what the files of it share.
 *
 *   http.c             the server: listening, connections, start and stop
 *   request.c          where a request goes, its limits, its answer, its end
 *   request_append.c   bodies of appends, and the append that waits for its commit
 *   request_operate.c  operators' requests, and their turn at the desk
 *
 * Threads: those of libmicrohttpd, one at a time per connection, but for `dbk_request_resume`, which the
 * completion thread and the desk call.
 */
#ifndef DBK_DAEMON_REQUEST_H
#define DBK_DAEMON_REQUEST_H

#include <microhttpd.h>

#include "daemon/body.h"
#include "daemon/connections.h"
#include "daemon/http.h"
#include "daemon/operate.h"

enum dbk_request_state {
    DBK_REQUEST_BODY,    /* a body is being read (perhaps an empty one) */
    DBK_REQUEST_DISCARD, /* the answer is known, what still comes is thrown away */
    DBK_REQUEST_WAIT,    /* suspended: its append, or its turn at the desk, is under way */
    DBK_REQUEST_ANSWERED
};

struct dbk_http {
    struct dbk_service *service;
    struct dbk_desk *desk;
    struct MHD_Daemon *tcp[DBK_HTTP_THREADS]; /* one thread and one socket each */
    struct MHD_Daemon *local;
    char url[DBK_HTTP_ADDRESS_TEXT_MAX];
    struct dbk_connections connections;
    _Atomic unsigned active;
    _Atomic uint64_t bodies_bytes;
};

struct dbk_request {
    struct dbk_http *http;
    struct MHD_Connection *connection;
    struct dbk_connection *place; /* its entry in the table; NULL: there was no memory for one */
    struct dbk_target target;
    enum dbk_request_state state;
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

/* ---- request.c --------------------------------------------------------------------------------- */

/* What libmicrohttpd calls. */
enum MHD_Result dbk_request_handle(void *user, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload_data,
                                   size_t *upload_data_size, void **con_cls);
void dbk_request_completed(void *user, struct MHD_Connection *connection, void **con_cls,
                           enum MHD_RequestTerminationCode how);
/* What it waited for is there: its connection goes on. Threads: any. */
void dbk_request_resume(void *waiter);

/* Sends the answer and empties it. */
enum MHD_Result dbk_request_send(struct dbk_request *request, struct dbk_answer *answer);
/* From now on what still comes of the body is thrown away, and then the answer is sent. */
void dbk_request_refuse(struct dbk_request *request, unsigned status, const char *code,
                        const char *detail);
bool dbk_request_is_append(const struct dbk_target *target);
/* NULL: it has none. Borrowed from the connection. */
const char *dbk_request_header(struct dbk_request *request, const char *name);
/* A limit ended it. */
void dbk_request_count_limit(struct dbk_request *request, enum dbk_http_limit limit);
/* The entry of a connection in the table. */
struct dbk_connection *dbk_place_of(struct MHD_Connection *connection);

/* ---- request_append.c -------------------------------------------------------------------------- */

/* The head of an append is there: begins its body, or refuses it. */
void dbk_request_check_append(struct dbk_request *request);
void dbk_request_begin_body(struct dbk_request *request, enum dbk_encoding encoding);
void dbk_request_take_body(struct dbk_request *request, const char *data, size_t len);
/* The body is whole: takes it apart and hands it to the journal. */
enum MHD_Result dbk_request_begin_append(struct dbk_request *request);
/* The append ended, or its time is over. */
enum MHD_Result dbk_request_end_append(struct dbk_request *request);
/* The connection broke while its append was under way. */
void dbk_request_leave_append(struct dbk_request *request);
/* Whether a Content-Type names this media type, whatever its parameters. */
bool dbk_media_type_is(const char *value, const char *type);

/* ---- request_operate.c ------------------------------------------------------------------------- */

/* The head of a request that changes something is there. */
void dbk_request_check_operate(struct dbk_request *request);
/* Hands the request to the desk; the connection waits. */
enum MHD_Result dbk_request_begin_operate(struct dbk_request *request);
enum MHD_Result dbk_request_end_operate(struct dbk_request *request);
/* Frees what the desk has done with; nothing where there is none. */
void dbk_request_forget_operate(struct dbk_request *request);

#endif
