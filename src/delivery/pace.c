/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of a worker.
 */
#include "delivery/pace.h"

#include "base/fault.h"

#define SIZE_DIVISOR 4u   /* W5b: a quarter each */
#define DOUBLINGS_MAX 20u /* beyond any ratio of lease to poll interval that makes sense */

void dbk_pace_init(struct dbk_pace *pace, uint32_t batch, int64_t poll_us, int64_t lease_us,
                   uint64_t seed)
{
    pace->batch = batch;
    pace->size = batch;
    pace->tries = 0;
    pace->poll_us = poll_us;
    pace->lease_us = lease_us;
    pace->random = seed | 1u; /* the generator never leaves zero */
}

/* xorshift64: spreads tries, guards nothing. */
static uint64_t next_random(struct dbk_pace *pace)
{
    uint64_t x = pace->random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    pace->random = x;
    return x;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t dbk_pace_slow(struct dbk_pace *pace, int64_t retry_after_us)
{
    if (dbk_fault(DBK_FAULT_BEATS_ON)) {
        pace->tries = 0;
    }
    uint32_t doublings = pace->tries < DOUBLINGS_MAX ? pace->tries : DOUBLINGS_MAX;
    int64_t whole_us = pace->poll_us;

    for (uint32_t i = 0; i < doublings && whole_us < pace->lease_us; i++) {
        whole_us *= 2;
    }
    whole_us = least(whole_us, pace->lease_us);
    /* Between three quarters and the whole. */
    int64_t quiet_us = whole_us - (int64_t)(next_random(pace) % (uint64_t)(whole_us / 4 + 1));
    int64_t asked_us = least(retry_after_us, pace->lease_us);

    pace->tries++;
    if (pace->size > 1) {
        pace->size = pace->size < SIZE_DIVISOR ? 1 : pace->size / SIZE_DIVISOR;
    } else if (pace->tries > 1) {
        pace->size = pace->batch; /* the smallest was tried in this doubt */
    }
    return quiet_us < asked_us ? asked_us : quiet_us;
}

void dbk_pace_recover(struct dbk_pace *pace)
{
    if (pace->tries > 0 && pace->size > 1) {
        pace->size = 1; /* whatever size it was that ended the doubt */
    } else {
        pace->size = pace->size > pace->batch / 2 ? pace->batch : pace->size * 2;
    }
    pace->tries = 0;
}
