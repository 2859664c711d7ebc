/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a worker. Positions are dense, so an entry's place is the low bits of its position.
 */
#include "delivery/recall.h"

#include <stdlib.h>
#include <string.h>

bool dbk_recall_init(struct dbk_recall *recall, size_t events_min, uint32_t brake)
{
    size_t count = 1;

    while (count < events_min) {
        count *= 2;
    }
    *recall = (struct dbk_recall){.brake = brake, .mask = count - 1};
    recall->entries = calloc(count, sizeof *recall->entries);
    return recall->entries != NULL;
}

void dbk_recall_release(struct dbk_recall *recall)
{
    free(recall->entries);
    recall->entries = NULL;
}

/* NULL: nothing is remembered of it. */
static struct dbk_recall_entry *find(const struct dbk_recall *recall, uint64_t position)
{
    struct dbk_recall_entry *entry = &recall->entries[position & recall->mask];

    return entry->position == position ? entry : NULL;
}

static struct dbk_recall_entry *make(struct dbk_recall *recall, uint64_t position)
{
    struct dbk_recall_entry *entry = &recall->entries[position & recall->mask];

    if (entry->position != position) {
        recall->used += entry->position == 0 ? 1 : 0;
        *entry = (struct dbk_recall_entry){.position = position};
    }
    return entry;
}

bool dbk_recall_is_suspect(const struct dbk_recall *recall, uint64_t position, size_t sink)
{
    const struct dbk_recall_entry *entry = recall->used > 0 ? find(recall, position) : NULL;

    return entry != NULL && (entry->suspect_sinks >> sink & 1u) != 0;
}

bool dbk_recall_is_searched(const struct dbk_recall *recall, uint64_t position, size_t sink)
{
    const struct dbk_recall_entry *entry = recall->used > 0 ? find(recall, position) : NULL;

    return entry != NULL && entry->trouble_sink == sink + 1 &&
           entry->landings < recall->sinks[sink].landings;
}

void dbk_recall_suspect(struct dbk_recall *recall, uint64_t position, size_t sink)
{
    make(recall, position)->suspect_sinks |= (uint8_t)(1u << sink);
}

void dbk_recall_trouble(struct dbk_recall *recall, uint64_t position, size_t sink)
{
    struct dbk_recall_entry *entry = make(recall, position);

    entry->trouble_sink = (uint8_t)(sink + 1);
    entry->landings = recall->sinks[sink].landings;
}

void dbk_recall_forget(struct dbk_recall *recall, uint64_t position)
{
    struct dbk_recall_entry *entry = recall->used > 0 ? find(recall, position) : NULL;

    if (entry != NULL) {
        *entry = (struct dbk_recall_entry){0};
        recall->used--;
    }
}

void dbk_recall_landed(struct dbk_recall *recall, size_t sink)
{
    recall->sinks[sink].landings++;
    recall->sinks[sink].in_a_row = 0;
    recall->sinks[sink].braked = false;
}

void dbk_recall_control(struct dbk_recall *recall, size_t sink)
{
    recall->sinks[sink].landings++;
}

void dbk_recall_refused(struct dbk_recall *recall, size_t sink)
{
    struct dbk_recall_sink *s = &recall->sinks[sink];

    s->in_a_row++;
    if (recall->brake != 0 && s->in_a_row >= recall->brake) {
        s->braked = true;
    }
}

void dbk_recall_lift(struct dbk_recall *recall)
{
    for (size_t i = 0; i < DAYBOOK_WORKER_SINKS_MAX; i++) {
        recall->sinks[i].in_a_row = 0;
        recall->sinks[i].braked = false;
    }
}
