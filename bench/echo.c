/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The echo server that the daemon is held against: libmicrohttpd set up as in the daemon, with as many
 * threads, that takes the body and answers at once. Prints its port, and ends when its standard input
 * does.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/http.h"

enum { CONNECTIONS = 1024, STATUS = 201 };

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_len, void **request)
{
    static char begun;
    static char body[] =
        "{\"outcome\":\"accepted\",\"request_id\":\"req_00000000-0000-7000-8000-000000000000\","
        "\"position\":1000000}\n";
    (void)user;
    (void)url;
    (void)method;
    (void)version;
    (void)data;
    if (*request == NULL) {
        *request = &begun;
        return MHD_YES;
    }
    if (*data_len > 0) {
        *data_len = 0;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof body - 1, body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(connection, STATUS, response);
    MHD_destroy_response(response);
    return result;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char byte;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_THREAD_POOL_SIZE,
        DBK_HTTP_THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_END);
    if (daemon == NULL) {
        (void)fputs("bench-echo: cannot listen\n", stderr);
        return 1;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    (void)printf("%u\n", info != NULL ? (unsigned)info->port : 0u);
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    MHD_stop_daemon(daemon);
    return 0;
}
