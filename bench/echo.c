/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The echo server that the daemon is held against: libmicrohttpd set up as in the daemon, with as many
 * threads on as many sockets, that takes the body and answers at once. With a number of microseconds as its argument a timer stands in the
 * place of the journal: as with a commit, whoever has come waits for one whole run of it, its connection
 * suspended, and all of them are resumed together. Prints its port, and ends when its standard input does.
 */
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/http.h"
#include "daemon/listen.h"

#define ADDRESS "127.0.0.1:0"

enum { CONNECTIONS = 1024, STATUS = 201, STATUS_MANY = 200, NS_PER_US = 1000 };

/* A request; once it waits, a link in the list of those that do. */
struct request {
    struct MHD_Connection *connection;
    struct request *next;
    bool many;
    bool waited;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct request *first;
    long us; /* 0: nobody waits */
} timer = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* One run of the timer after the other, each for those that were there when it began. */
static void *run_timer(void *user)
{
    struct timespec pause = {.tv_nsec = timer.us * NS_PER_US};
    (void)user;
    for (;;) {
        (void)pthread_mutex_lock(&timer.lock);
        while (timer.first == NULL) {
            (void)pthread_cond_wait(&timer.filled, &timer.lock);
        }
        struct request *all = timer.first;
        timer.first = NULL;
        (void)pthread_mutex_unlock(&timer.lock);
        (void)nanosleep(&pause, NULL);
        while (all != NULL) {
            struct request *next = all->next;
            MHD_resume_connection(all->connection);
            all = next;
        }
    }
    return NULL;
}

static void wait_for_timer(struct request *request)
{
    request->waited = true;
    MHD_suspend_connection(request->connection);
    (void)pthread_mutex_lock(&timer.lock);
    if (timer.first == NULL) {
        (void)pthread_cond_signal(&timer.filled);
    }
    request->next = timer.first;
    timer.first = request;
    (void)pthread_mutex_unlock(&timer.lock);
}

static enum MHD_Result send_answer(const struct request *request)
{
    static char one[] =
        "{\"status\":\"accepted\",\"request_id\":\"req_00000000-0000-7000-8000-000000000000\","
        "\"position\":1000000}\n";
    static char many[] = "{\"accepted\":1000,\"already_present\":0,\"failed\":0,\"errors\":[]}\n";
    char *body = request->many ? many : one;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result =
        MHD_queue_response(request->connection, request->many ? STATUS_MANY : STATUS, response);
    MHD_destroy_response(response);
    return result;
}

static struct request *begin(struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);
    if (request != NULL) {
        const char *type =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
        request->connection = connection;
        request->many = type != NULL && strcmp(type, "application/x-ndjson") == 0;
    }
    return request;
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_len, void **context)
{
    struct request *request = *context;
    (void)user;
    (void)url;
    (void)method;
    (void)version;
    (void)data;
    if (request == NULL) {
        *context = begin(connection);
        return *context != NULL ? MHD_YES : MHD_NO;
    }
    if (*data_len > 0) {
        *data_len = 0;
        return MHD_YES;
    }
    if (timer.us > 0 && !request->waited) {
        wait_for_timer(request);
        return MHD_YES;
    }
    return send_answer(request);
}

static void completed(void *user, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode how)
{
    (void)user;
    (void)connection;
    (void)how;
    free(*context);
    *context = NULL;
}

int main(int argc, char **argv)
{
    struct dbk_config_address address;
    struct daybook_error err;
    char url[DBK_HTTP_ADDRESS_TEXT_MAX];
    int fds[DBK_HTTP_THREADS];
    pthread_t thread;
    char byte;
    timer.us = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    if (timer.us > 0 && pthread_create(&thread, NULL, run_timer, NULL) != 0) {
        (void)fputs("bench-echo: no thread for the timer\n", stderr);
        return 1;
    }
    if (dbk_address_parse(ADDRESS, &address, &err) != DAYBOOK_OK ||
        dbk_listen_tcp(&address, ADDRESS, fds, DBK_HTTP_THREADS, url, sizeof url, &err) !=
            DAYBOOK_OK) {
        (void)fprintf(stderr, "bench-echo: %s\n", err.message);
        return 1;
    }
    for (unsigned i = 0; i < DBK_HTTP_THREADS; i++) {
        if (MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC,
                             0, NULL, NULL, answer, NULL, MHD_OPTION_LISTEN_SOCKET, fds[i],
                             MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                             MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
                             MHD_OPTION_END) == NULL) {
            (void)fputs("bench-echo: cannot listen\n", stderr);
            return 1;
        }
    }
    (void)puts(strrchr(url, ':') + 1);
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0; /* with whatever is suspended */
}
