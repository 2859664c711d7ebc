/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: listening, its connections, start and stop. What it is asked is in request.c. */
#include "daemon/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/logline.h"
#include "base/error.h"
#include "daemon/listen.h"
#include "daemon/request.h"

#define CONNECTION_BYTES_MAX (32u * 1024u) /* of memory: head, what is read and written */
#define FILES_BESIDE_CONNECTIONS 64u       /* log, database, eventfds ... */
/* What one thread takes beyond its part of `limit`: the system deals connections out by chance. */
#define UNEVEN(limit) (DBK_CONNECTIONS_SPARE + (limit) / 16)

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
        *context =
            dbk_connections_add(&http->connections, info->connect_fd, dbk_monotonic_tick_us());
    }
}

/* The request line is there. What is returned becomes the context of the request: none yet. */
static void *note_request_line(void *user, const char *uri, struct MHD_Connection *connection)
{
    struct dbk_http *http = user;
    (void)uri;
    dbk_connection_enter(&http->connections, dbk_place_of(connection), DBK_PHASE_HEAD, 0,
                         dbk_monotonic_tick_us());
    return NULL;
}

void dbk_http_look(struct dbk_http *http)
{
    dbk_connections_look(&http->connections, dbk_monotonic_tick_us());
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
    rlim_t beside = DBK_HTTP_THREADS * UNEVEN(config->max_connections) + FILES_BESIDE_CONNECTIONS;
    rlim_t wanted = config->max_connections + beside;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= wanted) {
        return (unsigned)config->max_connections;
    }
    /* Of what is left an eighth is for what the threads take beyond their parts. */
    beside = DBK_HTTP_THREADS * DBK_CONNECTIONS_SPARE + FILES_BESIDE_CONNECTIONS;
    rlim_t possible = files.rlim_cur > beside ? (files.rlim_cur - beside) / 9 * 8 : 0;
    possible = possible > 0 ? possible : 1;
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

static struct MHD_Daemon *start_on(struct dbk_http *http, int fd, unsigned connections)
{
    /* The table of connections is quicker; this is for a main thread that waits for a disk. */
    unsigned idle_s = 2 * (unsigned)(http->service->config->idle_timeout_ms / 1000) + 5;
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, dbk_request_handle, http, MHD_OPTION_EXTERNAL_LOGGER, log_library, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, dbk_request_completed, http,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, http, MHD_OPTION_URI_LOG_CALLBACK,
        note_request_line, http, MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX, MHD_OPTION_END);
}

/* One thread for each of `fds`, which are the threads' from here on, or closed. */
static enum daybook_code start_tcp(struct dbk_http *http, const int *fds, struct daybook_error *err)
{
    unsigned limit = http->connections.limit;
    bool whole = true;
    for (unsigned i = 0; i < DBK_HTTP_THREADS; i++) {
        http->tcp[i] =
            whole ? start_on(http, fds[i], limit / DBK_HTTP_THREADS + UNEVEN(limit)) : NULL;
        if (http->tcp[i] == NULL) {
            whole = false;
            (void)close(fds[i]);
        }
    }
    return whole ? DAYBOOK_OK
                 : dbk_fail(err, DAYBOOK_BACKEND, "the HTTP server cannot be started on %s",
                            http->service->config->listen_address);
}

static enum daybook_code start_all(struct dbk_http *http, struct daybook_error *err)
{
    const struct dbk_config *config = http->service->config;
    if (config->address.length > 0) {
        int fds[DBK_HTTP_THREADS];
        enum daybook_code code = dbk_listen_tcp(&config->address, config->listen_address, fds,
                                                DBK_HTTP_THREADS, http->url, sizeof http->url, err);
        if (code == DAYBOOK_OK) {
            code = start_tcp(http, fds, err);
        }
        if (code != DAYBOOK_OK) {
            return code;
        }
    }
    if (config->listen_unix[0] != '\0') {
        int fd = -1;
        enum daybook_code code = dbk_listen_unix(config->listen_unix, &fd, err);
        if (code != DAYBOOK_OK) {
            return code;
        }
        http->local = start_on(http, fd, http->connections.limit + DBK_CONNECTIONS_SPARE);
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
    service->wake = dbk_request_resume;
    enum daybook_code code = dbk_desk_new(dbk_request_resume, &http->desk, err);
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
    for (unsigned i = 0; i < DBK_HTTP_THREADS; i++) {
        if (http->tcp[i] != NULL) {
            MHD_stop_daemon(http->tcp[i]);
        }
    }
    if (http->local != NULL) {
        MHD_stop_daemon(http->local);
        (void)unlink(http->service->config->listen_unix);
    }
    dbk_connections_release(&http->connections);
    free(http);
}
