/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies by logarithmic buckets, a sixteenth of a power of two wide each. One thread at a time. */
#ifndef DBK_BENCH_LATENCY_H
#define DBK_BENCH_LATENCY_H

#include <stdint.h>

enum { LATENCY_SUB_BUCKETS = 16, LATENCY_BUCKETS = 40 * LATENCY_SUB_BUCKETS };

struct latency {
    uint64_t count;
    uint64_t buckets[LATENCY_BUCKETS];
};

void latency_add(struct latency *latency, double us);
/* Adds what `from` holds. */
void latency_merge(struct latency *latency, const struct latency *from);
/* The upper edge of the bucket that holds the quantile `q`, in us; 0 when nothing was added. */
double latency_quantile_us(const struct latency *latency, double q);

#endif
