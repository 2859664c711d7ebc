/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a journal is opened with: zeros become defaults, ranges are checked once. Pure; threads: any.
 */
#include "journal/engine.h"

#include <inttypes.h>

#include "base/error.h"

#define US_PER_HOUR INT64_C(3600000000)
#define EVENTS_DEFAULT 1000000u
#define RETAIN_DEFAULT_US (24 * US_PER_HOUR)
#define RETAIN_MAX_US                                                                              \
    (24 * 366 * 100 * US_PER_HOUR) /* a century: sums with a clock never overflow */
#define RETAIN_NONE_US (-1)        /* what every negative becomes */
#define ATTEMPTS_DEFAULT 8u
#define ATTEMPTS_MAX 1000000u
#define EVENT_BYTES_LIMIT (16u * 1024 * 1024) /* any engine's; one may allow less */

static enum daybook_code check(const struct daybook_capacity *c, struct daybook_error *err)
{
    if (c->events_max > DAYBOOK_EVENTS_LIMIT) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "max_events is %" PRIu64 ": at most %u",
                        c->events_max, DAYBOOK_EVENTS_LIMIT);
    }
    if (c->retain_acknowledged_us > RETAIN_MAX_US) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "retain_acknowledged is more than 100 years: choose less");
    }
    if (c->delivery_attempts_max > ATTEMPTS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "max_delivery_attempts is %" PRIu32 ": at most %u",
                        c->delivery_attempts_max, ATTEMPTS_MAX);
    }
    if (c->policy != DAYBOOK_POLICY_REFUSE && c->policy != DAYBOOK_POLICY_DROP_OLDEST) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "capacity_policy is neither refuse nor "
                        "drop_oldest");
    }
    if (c->events.identity != DAYBOOK_IDENTITY_ANY &&
        c->events.identity != DAYBOOK_IDENTITY_UUIDV7) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "identity is neither any nor uuidv7");
    }
    if (c->events.event_bytes_max > EVENT_BYTES_LIMIT) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "max_event_bytes is %" PRIu32 ": at most %u",
                        c->events.event_bytes_max, EVENT_BYTES_LIMIT);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_capacity_fill(const struct daybook_capacity *given,
                                    struct daybook_capacity *ret, struct daybook_error *err)
{
    struct daybook_capacity filled = *given;
    enum daybook_code code = check(given, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    if (filled.events_max == 0) {
        filled.events_max = EVENTS_DEFAULT;
    }
    /* "None" stays negative, so that what was filled in can be given again. */
    if (filled.retain_acknowledged_us < 0) {
        filled.retain_acknowledged_us = RETAIN_NONE_US;
    } else if (filled.retain_acknowledged_us == 0) {
        filled.retain_acknowledged_us = RETAIN_DEFAULT_US;
    }
    if (filled.delivery_attempts_max == 0) {
        filled.delivery_attempts_max = ATTEMPTS_DEFAULT;
    }
    if (filled.events.event_bytes_max == 0) {
        filled.events.event_bytes_max = DAYBOOK_EVENT_BYTES_DEFAULT;
    }
    *ret = filled;
    return DAYBOOK_OK;
}
