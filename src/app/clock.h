/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's `now`: runs on monotonic time and leans slowly towards the machine's clock (P).
 *
 * Leases, retention and acceptance times hang on `now`; a machine whose clock is set while the daemon
 * runs must free no lease and forget no event. So `now` begins at the machine's clock, or at the newest
 * time in the journal where that is at most an hour ahead, never goes back, and is slewed by at most
 * one part in twenty. Steps of more than a second are reported. Pure; threads: one at a time.
 */
#ifndef DBK_APP_CLOCK_H
#define DBK_APP_CLOCK_H

#include <stdint.h>

#define DBK_CLOCK_AHEAD_MAX_US INT64_C(3600000000)
#define DBK_CLOCK_STEP_US INT64_C(1000000)
#define DBK_CLOCK_SLEW_DIVISOR 20

struct dbk_clock {
    int64_t now_us;       /* what was told last */
    int64_t monotonic_us; /* when */
    int64_t offset_us;    /* realtime - monotonic at the last look */
};

void dbk_clock_init(struct dbk_clock *clock, int64_t monotonic_us, int64_t realtime_us);
/* The newest time that the journal holds. */
void dbk_clock_raise(struct dbk_clock *clock, int64_t newest_us);
/* @ret_step_us: by how much the machine's clock was set since the last look, 0: less than a second. */
int64_t dbk_clock_now(struct dbk_clock *clock, int64_t monotonic_us, int64_t realtime_us,
                      int64_t *ret_step_us);

#endif
