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
    uint32_t tries; /* in a row that landed nothing */
    int64_t poll_us;
    int64_t lease_us;
    uint64_t random;
};

/* What kept a pass from landing anything. */
enum dbk_trouble {
    DBK_TROUBLE_OUTAGE, /* told: small tries until it is over */
    DBK_TROUBLE_DOUBT /* refused: perhaps bad events, so that after the smallest the largest is tried
                           again */
};

/* `seed` is any number. */
void dbk_pace_init(struct dbk_pace *pace, uint32_t batch, int64_t poll_us, int64_t lease_us,
                   uint64_t seed);

/* A pass landed nothing. Returns how long to keep quiet: from the poll interval, doubling, at most the
 * lease, and not less than `retry_after_us` as far as that is no longer than the lease. */
int64_t dbk_pace_slow(struct dbk_pace *pace, enum dbk_trouble trouble, int64_t retry_after_us);

/* A pass landed something. */
void dbk_pace_recover(struct dbk_pace *pace);

#endif
