/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets. Threads: owner. */
#ifndef DBK_DAEMON_LISTEN_H
#define DBK_DAEMON_LISTEN_H

#include "app/config.h"

/* Listens on listen.address with `count` sockets, between which the system spreads the connections: threads that share
 * one take what comes in bursts, and one of them ends with most of it. Nobody else listens there: the first is opened as
 * if it were alone. `url` gets `http://ADDRESS:PORT` with the port that the system gave.
 * Returns OK; BUSY: somebody else listens there; BACKEND. */
enum daybook_code dbk_listen_tcp(const struct dbk_config_address *address, const char *name,
                                 int *ret_fds, unsigned count, char *url, size_t url_room,
                                 struct daybook_error *err);
/* Listens on a Unix socket; one that a daemon left behind is replaced, one that answers is not. */
enum daybook_code dbk_listen_unix(const char *path, int *ret_fd, struct daybook_error *err);

#endif
