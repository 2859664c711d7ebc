/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage for what a claim or a read returns: made once, so that a claim allocates nothing.
 * Threads: any; one at a time per batch.
 */
#include <stdlib.h>

#include <daybook/journal.h>

#include "base/error.h"
#include "journal/engine.h"

#define NAMES_BYTES (3u * DAYBOOK_NAME_BYTES_MAX)
#define BATCH_BYTES_LIMIT ((size_t)1 << 30)

/* `bytes_max` of the batch is all of its room for names and records, the one event beside included.
 * Behind it there is room for what an engine stores with each event (dbk_batch_room). */
enum daybook_code daybook_batch_new(uint32_t events_max, size_t bytes_max, uint32_t event_bytes_max,
                                    struct daybook_batch **ret_batch, struct daybook_error *err)
{
    struct daybook_batch *batch;
    size_t beside;

    if (ret_batch == NULL || events_max == 0 || events_max > DAYBOOK_CLAIM_EVENTS_MAX) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a batch holds 1 to %u events",
                        DAYBOOK_CLAIM_EVENTS_MAX);
    }
    if (bytes_max > BATCH_BYTES_LIMIT || event_bytes_max > BATCH_BYTES_LIMIT) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a batch holds at most %zu bytes",
                        BATCH_BYTES_LIMIT);
    }
    beside = NAMES_BYTES + (event_bytes_max != 0 ? event_bytes_max : DAYBOOK_EVENT_BYTES_DEFAULT);
    batch = calloc(1, sizeof *batch);
    if (batch != NULL) {
        batch->events_max = events_max;
        batch->bytes_max = bytes_max + beside;
        batch->deliveries = calloc(events_max, sizeof *batch->deliveries);
        batch->bytes = malloc(dbk_batch_room(batch));
    }
    if (batch == NULL || batch->deliveries == NULL || batch->bytes == NULL) {
        daybook_batch_free(batch);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a batch of %u events", events_max);
    }
    *ret_batch = batch;
    return DAYBOOK_OK;
}

void daybook_batch_free(struct daybook_batch *batch)
{
    if (batch != NULL) {
        free(batch->bytes);
        free(batch->deliveries);
        free(batch);
    }
}
