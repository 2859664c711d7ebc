/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the PostgreSQL engine is measured beside: a server of this run, and the plain client that people write
 * today, one INSERT and commit an event. Threads: the crew's, a connection each.
 */
#ifndef DBK_BENCH_PLAIN_POSTGRES_H
#define DBK_BENCH_PLAIN_POSTGRES_H

#include "bench.h"

enum { PLAIN_CONNECTIONS_MAX = 16, PLAIN_KEYS = 10000 };

/* Starts a server that ends with this process (tests/harness/postgres_server.py), or takes the one that
 * DAYBOOK_BENCH_DSN names. Returns its connection string, which lasts; NULL: there is none. */
const char *postgres_server_start(void);

struct plain;
/* A table of its own, with a unique request id. */
struct plain *plain_open(const char *dsn, unsigned connections);
void plain_close(struct plain *plain);
/* A side of bench_alternate; `user` is the client. Events a second. */
double plain_run(void *user, double seconds);

#endif
