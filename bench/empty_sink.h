/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination that keeps nothing, for measurements of what stands before it. Made by its user, not on
 * the heap; it has to outlive its worker.
 */
#ifndef DBK_BENCH_EMPTY_SINK_H
#define DBK_BENCH_EMPTY_SINK_H

#include <stdatomic.h>
#include <stdbool.h>

#include <daybook/sink.h>

struct empty_sink {
    struct daybook_sink head;
    long call_ns;  /* what a call takes */
    bool in_order; /* ids have to be the numbers from 0 on, in this order and each once */
    size_t most;   /* rows of a call */
    _Atomic uint64_t rows;
};

/* One that answers at once and checks nothing. */
void empty_sink_init(struct empty_sink *sink);
void empty_sink_sleep(long ns);

#endif
