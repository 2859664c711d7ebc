/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a worker: defaults, and what cannot work. Pure. Threads: any.
 */
#include "delivery/delivery.h"

#include <string.h>

#include "base/error.h"
#include "journal/names.h"

#define CLAIM_BATCH_DEFAULT 256u
#define CLAIM_BYTES_DEFAULT (UINT64_C(8) << 20)
#define CLAIM_BYTES_MAX (UINT64_C(1) << 30)
#define LEASE_DEFAULT_MS 30000u
#define LEASE_MAX_MS 2147483647u
#define WRITE_TIMEOUT_DEFAULT_MS 10000u
#define POLL_INTERVAL_DEFAULT_MS 250u
#define MAINTAIN_INTERVAL_DEFAULT_MS 60000u
#define ADVISORY_EVENTS_DEFAULT 4096u
#define ADVISORY_EVENTS_MAX 1000000u
#define REJECT_BRAKE_DEFAULT 100u
#define WRITES_PER_LEASE 3u /* W11: a write may take a third of the lease */

static void default_u32(uint32_t *field, uint32_t value)
{
    if (*field == 0) {
        *field = value;
    }
}

static void fill_defaults(struct daybook_worker_options *o, const struct daybook_capacity *capacity)
{
    default_u32(&o->claim_batch, CLAIM_BATCH_DEFAULT);
    default_u32(&o->key_run, 1);
    default_u32(&o->lease_ms, LEASE_DEFAULT_MS);
    uint32_t third_ms = o->lease_ms / WRITES_PER_LEASE;
    default_u32(&o->write_timeout_ms,
                third_ms < WRITE_TIMEOUT_DEFAULT_MS ? third_ms : WRITE_TIMEOUT_DEFAULT_MS);
    default_u32(&o->poll_interval_ms, POLL_INTERVAL_DEFAULT_MS);
    default_u32(&o->maintain_interval_ms, MAINTAIN_INTERVAL_DEFAULT_MS);
    default_u32(&o->hand_outs_max, capacity->delivery_attempts_max);
    default_u32(&o->advisory_events, ADVISORY_EVENTS_DEFAULT);
    default_u32(&o->reject_brake, REJECT_BRAKE_DEFAULT);
    if (o->claim_bytes == 0) {
        o->claim_bytes = CLAIM_BYTES_DEFAULT;
    }
    if (o->advisory_bytes == 0) {
        o->advisory_bytes = CLAIM_BYTES_DEFAULT;
    }
    /* The largest event has to fit an empty queue. */
    uint64_t event_bytes = capacity->events.event_bytes_max + 3u * DAYBOOK_NAME_BYTES_MAX;
    if (o->advisory_bytes < event_bytes) {
        o->advisory_bytes = event_bytes;
    }
}

static bool can_write(const struct daybook_sink *sink)
{
    return sink != NULL && sink->ops != NULL && sink->ops->write != NULL &&
           sink->ops->interrupt != NULL && sink->ops->close != NULL;
}

/* W1: a consumer whose events nobody answers for could never acknowledge one truthfully. */
static enum daybook_code check_sinks(const struct daybook_worker_options *o,
                                     struct daybook_error *err)
{
    if (o->sink_count == 0 || o->sinks == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "consumer %s has no destination that answers for its events; name at "
                        "least one under sinks",
                        o->consumer);
    }
    if (o->sink_count > DAYBOOK_WORKER_SINKS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "consumer %s has %zu destinations; %u is the most, use several consumers",
                        o->consumer, o->sink_count, DAYBOOK_WORKER_SINKS_MAX);
    }
    for (size_t i = 0; i < o->sink_count; i++) {
        if (!can_write(o->sinks[i])) {
            return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                            "destination %zu of consumer %s cannot write, be interrupted or be "
                            "closed",
                            i, o->consumer);
        }
    }
    return DAYBOOK_OK;
}

/* W9 */
static enum daybook_code check_advisories(const struct daybook_worker_options *o,
                                          struct daybook_error *err)
{
    if (o->advisory_count > DAYBOOK_WORKER_SINKS_MAX || (o->advisory_count > 0 && !o->advisory)) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "consumer %s has %zu advisory destinations; %u is the most", o->consumer,
                        o->advisory_count, DAYBOOK_WORKER_SINKS_MAX);
    }
    for (size_t i = 0; i < o->advisory_count; i++) {
        if (!can_write(o->advisory[i])) {
            return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                            "advisory destination %zu of consumer %s cannot write, be interrupted "
                            "or be closed",
                            i, o->consumer);
        }
    }
    if (o->advisory_events > ADVISORY_EVENTS_MAX || o->advisory_bytes > CLAIM_BYTES_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the queue of an advisory destination of consumer %s is at most %u events "
                        "and 1 GiB",
                        o->consumer, ADVISORY_EVENTS_MAX);
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_numbers(const struct daybook_worker_options *o,
                                       struct daybook_error *err)
{
    if (o->claim_batch > DAYBOOK_CLAIM_EVENTS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "claim_batch %u of consumer %s is above %u",
                        o->claim_batch, o->consumer, DAYBOOK_CLAIM_EVENTS_MAX);
    }
    if (o->claim_bytes > CLAIM_BYTES_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "claim_bytes of consumer %s is above 1 GiB",
                        o->consumer);
    }
    if (o->lease_ms > LEASE_MAX_MS) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "lease %u ms of consumer %s is above %u ms",
                        o->lease_ms, o->consumer, LEASE_MAX_MS);
    }
    if (o->write_timeout_ms == 0 || o->write_timeout_ms > o->lease_ms / WRITES_PER_LEASE) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "write_timeout %u ms of consumer %s is more than a third of its lease of "
                        "%u ms; shorten it or lengthen the lease",
                        o->write_timeout_ms, o->consumer, o->lease_ms);
    }
    if (o->known_count > DAYBOOK_CONSUMERS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "%zu consumers are more than the %u of a journal",
                        o->known_count, DAYBOOK_CONSUMERS_MAX);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_worker_options_fill(const struct daybook_worker_options *given,
                                          const struct daybook_capacity *capacity,
                                          struct daybook_worker_options *ret,
                                          struct daybook_error *err)
{
    if (given->consumer == NULL ||
        !dbk_consumer_name_valid(given->consumer, strlen(given->consumer))) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "a consumer's name is 1 to %u characters of a-z, 0-9, _ and -",
                        DAYBOOK_CONSUMER_NAME_MAX);
    }
    *ret = *given;
    fill_defaults(ret, capacity);
    enum daybook_code code = check_sinks(ret, err);
    if (code == DAYBOOK_OK) {
        code = check_advisories(ret, err);
    }
    if (code == DAYBOOK_OK) {
        code = check_numbers(ret, err);
    }
    for (size_t i = 0; i < ret->known_count && code == DAYBOOK_OK; i++) {
        if (!dbk_consumer_name_valid(ret->known[i], strlen(ret->known[i]))) {
            code = dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%.64s\" cannot be a consumer's name",
                            ret->known[i]);
        }
    }
    return code;
}
