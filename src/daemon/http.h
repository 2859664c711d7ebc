/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: libmicrohttpd on epoll with a few threads, each with a socket that it listens on. An append in flight
 * holds none of them: its connection is suspended and resumed by the service's completion thread.
 */
#ifndef DBK_DAEMON_HTTP_H
#define DBK_DAEMON_HTTP_H

#include "daemon/service.h"

#define DBK_HTTP_THREADS 2u
#define DBK_HTTP_ADDRESS_TEXT_MAX 300u

struct dbk_http;

/* Listens where the configuration says and answers. `*ret` owned: release with dbk_http_stop.
 * Returns OK; BUSY (the address is in use); BACKEND; NO_MEMORY. */
enum daybook_code dbk_http_start(struct dbk_service *service, struct dbk_http **ret,
                                 struct daybook_error *err);
/* `"http://127.0.0.1:8377"` with the port that is really used, or empty without TCP. */
const char *dbk_http_url(const struct dbk_http *http);
/* Requests that have begun and are not answered whole. Threads: any. */
unsigned dbk_http_active(const struct dbk_http *http);
/* Cuts connections whose time is over; at least once a second. Threads: owner. */
void dbk_http_look(struct dbk_http *http);
/* Ends every connection. No append waits any more. NULL is accepted. Threads: owner. */
void dbk_http_stop(struct dbk_http *http);

#endif
