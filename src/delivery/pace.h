/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of a worker: how much the next claim takes, and how long it keeps quiet after an outage
 * (W5b, W13). Tries grow apart up to the lease, with jitter so that a fleet does not beat in step;
 * what is tried is small; after it the size doubles from there.
 *
 * Pure. Threads: one at a time per pace.
 */
#ifndef DBK_DELIVERY_PACE_H
#define DBK_DELIVERY_PACE_H

#include <stdint.h>

struct dbk_pace {
    uint32_t batch; /* largest claim */
    uint32_t size;  /* of the next one */
    uint32_t tries; /* in a row that ended as an outage */
    int64_t poll_us;
    int64_t lease_us;
    uint64_t random;
};

/* `seed` is any number. */
void dbk_pace_init(struct dbk_pace *pace, uint32_t batch, int64_t poll_us, int64_t lease_us,
                   uint64_t seed);

/* A pass ended as an outage, told or found. Returns how long to keep quiet: from the poll interval,
 * doubling, at most the lease, and not less than `retry_after_us` as far as that is no longer than the
 * lease. The next claim takes a quarter; after the smallest one, everything again. */
int64_t dbk_pace_slow(struct dbk_pace *pace, int64_t retry_after_us);

/* The destinations answered for rows. */
void dbk_pace_recover(struct dbk_pace *pace);

#endif
