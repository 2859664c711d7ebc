/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the HTTP server and how long each may take: nobody holds one by sending nothing, by
 * sending a byte now and then, or by not reading an answer.
 *
 * Every phase of a connection has its time. Between two requests, and for the head of one, that is
 * `idle_timeout`. Of a body DBK_PACE_BYTES, or its end, have to arrive within each `idle_timeout`, and of an
 * answer as many have to be read. Who takes longer is cut: told 408 where no answer has begun, else closed.
 * While an append waits for its commit nothing is due, nor while it is we who are behind. Threads: a connection's functions: its own thread;
 * dbk_connections_look: any, one at a time.
 */
#ifndef DBK_DAEMON_CONNECTIONS_H
#define DBK_DAEMON_CONNECTIONS_H

#include "app/metrics.h"
#include "base/thread.h"

#define DBK_PACE_BYTES (64u * 1024u)
#define DBK_CONNECTIONS_SPARE                                                                      \
    64u /* beyond the limit, so that they can be told; figures are served on them */

enum dbk_phase {
    DBK_PHASE_IDLE, /* no request has begun */
    DBK_PHASE_HEAD,
    DBK_PHASE_BODY,
    DBK_PHASE_WAIT,
    DBK_PHASE_ANSWER
};

struct dbk_connection {
    int fd;
    bool spare; /* beyond the limit when it came */
    _Atomic int phase;
    _Atomic int64_t due_us; /* monotonic */
    uint64_t paced;         /* bytes since `due_us` was set */
    struct dbk_connection *next;
    struct dbk_connection *prev;
};

struct dbk_connections {
    int64_t idle_us;
    unsigned limit;
    struct dbk_http_counters *counters; /* borrowed */
    struct dbk_mutex lock;              /* guards what follows */
    unsigned count;
    struct dbk_connection *first;
};

void dbk_connections_init(struct dbk_connections *all, unsigned limit, int64_t idle_us,
                          struct dbk_http_counters *counters);
/* No connection is left. */
void dbk_connections_release(struct dbk_connections *all);

/* A connection came; NULL: no memory. Borrowed until dbk_connections_remove. */
struct dbk_connection *dbk_connections_add(struct dbk_connections *all, int fd, int64_t now_us);
/* It goes; its descriptor is still open. NULL is accepted. */
void dbk_connections_remove(struct dbk_connections *all, struct dbk_connection *connection);

/* A phase begins. `bytes`: of an answer, else 0. NULL is accepted. */
void dbk_connection_enter(const struct dbk_connections *all, struct dbk_connection *connection,
                          enum dbk_phase phase, uint64_t bytes, int64_t now_us);
/* Bytes of a body arrived. NULL is accepted. */
void dbk_connection_arrived(const struct dbk_connections *all, struct dbk_connection *connection,
                            uint64_t bytes, int64_t now_us);

/* Cuts those whose time is over. */
void dbk_connections_look(struct dbk_connections *all, int64_t now_us);

#endif
