/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and their time, as connections.h says. */
#include "daemon/connections.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define NEVER INT64_MAX

void dbk_connections_init(struct dbk_connections *all, unsigned limit, int64_t idle_us,
                          struct dbk_http_counters *counters)
{
    *all = (struct dbk_connections){.limit = limit, .idle_us = idle_us, .counters = counters};
    dbk_mutex_init(&all->lock, DBK_RANK_DAEMON);
}

void dbk_connections_release(struct dbk_connections *all)
{
    dbk_mutex_release(&all->lock);
}

struct dbk_connection *dbk_connections_add(struct dbk_connections *all, int fd, int64_t now_us)
{
    struct dbk_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    connection->fd = fd;
    dbk_connection_enter(all, connection, DBK_PHASE_IDLE, 0, now_us);
    dbk_mutex_lock(&all->lock);
    connection->spare = all->count >= all->limit;
    all->count++;
    connection->next = all->first;
    if (all->first != NULL) {
        all->first->prev = connection;
    }
    all->first = connection;
    atomic_store(&all->counters->connections, all->count);
    dbk_mutex_unlock(&all->lock);
    return connection;
}

void dbk_connections_remove(struct dbk_connections *all, struct dbk_connection *connection)
{
    if (connection == NULL) {
        return;
    }
    dbk_mutex_lock(&all->lock);
    *(connection->prev != NULL ? &connection->prev->next : &all->first) = connection->next;
    if (connection->next != NULL) {
        connection->next->prev = connection->prev;
    }
    all->count--;
    atomic_store(&all->counters->connections, all->count);
    dbk_mutex_unlock(&all->lock);
    free(connection);
}

void dbk_connection_enter(const struct dbk_connections *all, struct dbk_connection *connection,
                          enum dbk_phase phase, uint64_t bytes, int64_t now_us)
{
    if (connection == NULL) {
        return;
    }
    int64_t spans = 1 + (int64_t)(bytes / DBK_PACE_BYTES);
    connection->paced = 0;
    /* Never overdue in a phase that it is not in: the time is lifted, the phase set, the time set. Whoever looks
     * sees them in this order, and that is enough: each change of the time is one by itself. */
    atomic_store_explicit(&connection->due_us, NEVER, memory_order_release);
    atomic_store_explicit(&connection->phase, (int)phase, memory_order_release);
    if (phase != DBK_PHASE_WAIT) {
        atomic_store_explicit(&connection->due_us, now_us + spans * all->idle_us,
                              memory_order_release);
    }
}

void dbk_connection_arrived(const struct dbk_connections *all, struct dbk_connection *connection,
                            uint64_t bytes, int64_t now_us)
{
    if (connection == NULL) {
        return;
    }
    connection->paced += bytes;
    if (connection->paced >= DBK_PACE_BYTES) {
        dbk_connection_enter(all, connection, DBK_PHASE_BODY, 0, now_us);
    }
}

static void tell_too_slow(int fd)
{
    static const char body[] =
        "{\"type\":\"about:blank\",\"title\":\"Request "
        "Timeout\",\"status\":408,\"code\":\"too_slow\","
        "\"detail\":\"the request did not arrive within idle_timeout: send it faster\"}\n";
    char answer[512];
    int len = snprintf(answer, sizeof answer,
                       "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/problem+json\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                       sizeof body - 1, body);
    (void)send(fd, answer, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Ends a connection. Neither call waits for the peer, and under the lock the descriptor is still its own. */
static void cut(struct dbk_http_counters *counters, const struct dbk_connection *connection)
{
    enum dbk_http_limit limit = DBK_HTTP_LIMIT_IDLE;
    switch ((enum dbk_phase)connection->phase) {
    case DBK_PHASE_HEAD:
    case DBK_PHASE_BODY:
        limit = DBK_HTTP_LIMIT_SLOW_REQUEST;
        tell_too_slow(connection->fd);
        break;
    case DBK_PHASE_ANSWER:
        limit = DBK_HTTP_LIMIT_SLOW_ANSWER;
        break;
    case DBK_PHASE_IDLE:
    case DBK_PHASE_WAIT:
        break;
    }
    (void)shutdown(connection->fd, SHUT_RDWR);
    atomic_fetch_add(&counters->limited[limit], 1);
}

/* Whether it is we who are behind: what was sent waits to be read by us, or what we have to say waits for us
 * to hand it over. Then nobody is too slow. */
static bool is_ours(const struct dbk_connection *connection)
{
    int bytes = 0;
    if (connection->phase == DBK_PHASE_ANSWER) {
        return ioctl(connection->fd, SIOCOUTQ, &bytes) == 0 && bytes == 0;
    }
    return ioctl(connection->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

void dbk_connections_look(struct dbk_connections *all, int64_t now_us)
{
    dbk_mutex_lock(&all->lock);
    for (struct dbk_connection *c = all->first; c != NULL; c = c->next) {
        int64_t due_us = atomic_load(&c->due_us);
        if (now_us < due_us) {
            continue;
        }
        /* A phase that begins meanwhile sets a time of its own, which stays. */
        bool ours = is_ours(c);
        if (atomic_compare_exchange_strong(&c->due_us, &due_us,
                                           ours ? now_us + all->idle_us : NEVER) &&
            !ours) {
            cut(all->counters, c);
        }
    }
    dbk_mutex_unlock(&all->lock);
}
