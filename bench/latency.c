/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of latency.h. */
#include "latency.h"

static unsigned bucket_of(double us)
{
    uint64_t value = (uint64_t)(us < 1 ? 1 : us) * LATENCY_SUB_BUCKETS;
    unsigned power = 63 - (unsigned)__builtin_clzll(value) - 4;
    unsigned bucket =
        power * LATENCY_SUB_BUCKETS + (unsigned)(value >> power) - LATENCY_SUB_BUCKETS;
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

void latency_add(struct latency *latency, double us)
{
    latency->count++;
    latency->buckets[bucket_of(us)]++;
}

void latency_merge(struct latency *latency, const struct latency *from)
{
    latency->count += from->count;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        latency->buckets[i] += from->buckets[i];
    }
}

double latency_quantile_us(const struct latency *latency, double q)
{
    uint64_t below = 0;
    for (unsigned i = 0; latency->count > 0 && i < LATENCY_BUCKETS; i++) {
        below += latency->buckets[i];
        if ((double)below >= q * (double)latency->count) {
            return (double)(1ULL << (i / LATENCY_SUB_BUCKETS)) *
                   (1 + (double)(i % LATENCY_SUB_BUCKETS + 1) / LATENCY_SUB_BUCKETS);
        }
    }
    return 0;
}
