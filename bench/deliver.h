/* SPDX-License-Identifier: Apache-2.0 */
/* A whole backlog through the delivery worker. */
#ifndef DBK_BENCH_DELIVER_H
#define DBK_BENCH_DELIVER_H

#include "bench.h"
#include "empty_sink.h"

#define DELIVER_CONSUMER "billing"

/* Delivers the `rows` that wait with a worker of its own. Returns the seconds from its start until everything is
 * acknowledged. */
double deliver(struct daybook_journal *journal, struct empty_sink *sink, uint32_t key_run,
               uint64_t rows);

#endif
