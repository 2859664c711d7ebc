/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's `now` of clock.h. */
#include "app/clock.h"

void dbk_clock_init(struct dbk_clock *clock, int64_t monotonic_us, int64_t realtime_us)
{
    clock->now_us = realtime_us;
    clock->monotonic_us = monotonic_us;
    clock->offset_us = realtime_us - monotonic_us;
}

void dbk_clock_raise(struct dbk_clock *clock, int64_t newest_us)
{
    if (newest_us > clock->now_us && newest_us - clock->now_us <= DBK_CLOCK_AHEAD_MAX_US) {
        clock->now_us = newest_us;
    }
}

int64_t dbk_clock_now(struct dbk_clock *clock, int64_t monotonic_us, int64_t realtime_us,
                      int64_t *ret_step_us)
{
    int64_t elapsed = monotonic_us - clock->monotonic_us;
    if (elapsed < 0) {
        elapsed = 0;
    }
    int64_t step = realtime_us - monotonic_us - clock->offset_us;
    *ret_step_us = step > DBK_CLOCK_STEP_US || step < -DBK_CLOCK_STEP_US ? step : 0;
    clock->offset_us = realtime_us - monotonic_us;
    clock->monotonic_us = monotonic_us > clock->monotonic_us ? monotonic_us : clock->monotonic_us;

    int64_t now = clock->now_us + elapsed;
    int64_t lean = realtime_us - now;
    int64_t lean_max = elapsed / DBK_CLOCK_SLEW_DIVISOR;
    if (lean > lean_max) {
        lean = lean_max;
    } else if (lean < -lean_max) {
        lean = -lean_max;
    }
    clock->now_us = now + lean;
    return clock->now_us;
}
