/* SPDX-License-Identifier: Apache-2.0 */
/* A backlog whose claims and acknowledgements are timed; what they take is appended again. One thread. */
#ifndef DBK_BENCH_CLAIMS_H
#define DBK_BENCH_CLAIMS_H

#include "bench.h"

enum { CLAIMS_EVENTS = 256, CLAIMS_MAX = 8 };

struct backlog;

/* A backlog of `events` behind `retained` acknowledged ones. It is compared with others that are measured by as
 * many `claims` (at most CLAIMS_MAX) between two appends. */
struct backlog *backlog_open(const struct bench *bench, const char *name, uint64_t events,
                             uint64_t retained, unsigned claims);
void backlog_close(struct backlog *backlog);

/* A side of bench_alternate; `user` is the backlog. Events a second of the claims and acknowledgements alone. */
double claims_run(void *user, double seconds);

#endif
