/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's operators' operations and their trail (O1). See model.h; the owner's lock is held
 * throughout.
 */
#include "engines/memory/model_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Room for one more entry, before anything is changed: what is done is always in the trail. */
static bool reserve_trail(struct dbk_model *m)
{
    size_t room = m->trail_room == 0 ? 16 : m->trail_room * 2;
    struct daybook_operation *grown;

    if (m->trail_count == DAYBOOK_TRAIL_MAX) {
        memmove(m->trail, m->trail + 1, (m->trail_count - 1) * sizeof *m->trail);
        m->trail_count--;
    }
    if (m->trail_count < m->trail_room) {
        return true;
    }
    grown = realloc(m->trail, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    m->trail = grown;
    m->trail_room = room;
    return true;
}

static void put_text(char *to, size_t room, struct daybook_bytes from)
{
    size_t len = from.len < room - 1 ? from.len : room - 1;

    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

/* `event` may be NULL. Room was reserved. */
static void record(struct dbk_model *m, enum daybook_operation_kind kind, const char *consumer,
                   const struct model_event *event, const struct daybook_operator *by,
                   int64_t now_us)
{
    struct daybook_operation *op = &m->trail[m->trail_count++];

    *op = (struct daybook_operation){.no = m->next_operation_no++, .kind = kind, .at_us = now_us};
    memcpy(op->consumer, consumer, strlen(consumer) + 1);
    put_text(op->who, sizeof op->who, by->who);
    put_text(op->why, sizeof op->why, by->why);
    if (event != NULL) {
        op->position = event->position;
        put_text(op->request_id, sizeof op->request_id, event->own.request_id);
    }
}

static enum daybook_code no_consumer(const char *consumer, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NOT_FOUND, "consumer %s is not registered in this journal",
                    consumer);
}

static enum daybook_code no_memory(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to record the operation; nothing was done");
}

enum daybook_code dbk_model_release(struct dbk_model *m, const char *consumer,
                                    struct daybook_bytes request_id,
                                    const struct daybook_operator *by, int64_t now_us,
                                    struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, consumer);
    size_t i = dbk_model_find_id(m, request_id);
    struct model_mark *mark;

    if (c == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    if (i == SEARCH_NONE || m->consumers[c].marks[i].resolution != MODEL_QUARANTINED) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not quarantined by %s",
                        (int)request_id.len, request_id.data, consumer);
    }
    if (!reserve_trail(m)) {
        return no_memory(err);
    }
    mark = &m->consumers[c].marks[i];
    mark->resolution = MODEL_OPEN;
    mark->attempt = 0;
    mark->hand_outs = 0;
    record(m, DAYBOOK_OPERATION_RELEASE, consumer, &m->events[i], by, now_us);
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_discard(struct dbk_model *m, const char *consumer,
                                    struct daybook_bytes request_id,
                                    const struct daybook_operator *by, int64_t now_us,
                                    struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, consumer);
    size_t i = dbk_model_find_id(m, request_id);
    struct model_mark *mark;

    if (c == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    if (i == SEARCH_NONE || dbk_model_before_start(m, c, i)) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND,
                        "%.*s is not stored, or from before the start of %s", (int)request_id.len,
                        request_id.data, consumer);
    }
    mark = &m->consumers[c].marks[i];
    if (mark->resolution == MODEL_DISCARDED) {
        return DAYBOOK_OK;
    }
    if (mark->resolution == MODEL_ACKNOWLEDGED) {
        return dbk_fail(err, DAYBOOK_ALREADY_ACKNOWLEDGED, "%.*s was acknowledged by %s already",
                        (int)request_id.len, request_id.data, consumer);
    }
    if (!reserve_trail(m)) {
        return no_memory(err);
    }
    mark->resolution = MODEL_DISCARDED;
    mark->lease.given = false;
    record(m, DAYBOOK_OPERATION_DISCARD, consumer, &m->events[i], by, now_us);
    (void)dbk_model_note_resolved(m, i);
    return DAYBOOK_OK;
}

static bool holds_live_leases(const struct dbk_model *m, size_t consumer, int64_t now_us)
{
    for (size_t i = 0; i < m->event_count; i++) {
        const struct model_mark *mark = &m->consumers[consumer].marks[i];

        if (mark->resolution == MODEL_OPEN && dbk_model_lease_live(&mark->lease, now_us)) {
            return true;
        }
    }
    for (size_t i = 0; i < m->orphan_count; i++) {
        if (m->orphans[i].consumer == consumer &&
            dbk_model_lease_live(&m->orphans[i].lease, now_us)) {
            return true;
        }
    }
    return false;
}

static void remove_orphans(struct dbk_model *m, size_t consumer)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->orphan_count; i++) {
        struct model_orphan orphan = m->orphans[i];

        if (orphan.consumer == consumer) {
            free(orphan.key);
            continue;
        }
        orphan.consumer -= orphan.consumer > consumer ? 1 : 0;
        m->orphans[kept++] = orphan;
    }
    m->orphan_count = kept;
}

enum daybook_code dbk_model_retire(struct dbk_model *m, const char *consumer,
                                   enum daybook_force force, const struct daybook_operator *by,
                                   int64_t now_us, struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, consumer);

    if (c == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    if (force == DAYBOOK_FORCE_NO && holds_live_leases(m, c, now_us)) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "consumer %s holds live leases; stop it, or wait until they end", consumer);
    }
    if (!reserve_trail(m)) {
        return no_memory(err);
    }
    record(m, DAYBOOK_OPERATION_RETIRE, consumer, NULL, by, now_us);
    for (size_t i = 0; i < m->event_count; i++) {
        free(m->consumers[c].marks[i].words);
    }
    free(m->consumers[c].marks);
    remove_orphans(m, c);
    memmove(&m->consumers[c], &m->consumers[c + 1],
            (m->consumer_count - c - 1) * sizeof m->consumers[0]);
    m->consumer_count--;
    for (size_t i = m->event_count; i > 0; i--) {
        (void)dbk_model_note_resolved(m, i - 1);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_rewind(struct dbk_model *m, const char *consumer,
                                   const struct daybook_operator *by, int64_t now_us,
                                   struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, consumer);

    if (c == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    if (!reserve_trail(m)) {
        return no_memory(err);
    }
    record(m, DAYBOOK_OPERATION_REWIND, consumer, NULL, by, now_us);
    m->consumers[c].token_floor = m->next_token;
    for (size_t i = 0; i < m->event_count; i++) {
        struct model_mark *mark = &m->consumers[c].marks[i];

        if (dbk_model_before_start(m, c, i)) {
            continue;
        }
        /* Leases are left as they are, and a hand-out whose lease is live keeps its say (K3). */
        mark->survivor =
            mark->resolution == MODEL_OPEN && dbk_model_lease_live(&mark->lease, now_us)
                ? mark->token
                : 0;
        if (mark->resolution == MODEL_ACKNOWLEDGED || mark->resolution == MODEL_OPEN) {
            mark->hand_outs = mark->resolution == MODEL_OPEN ? mark->hand_outs : 0;
            mark->resolution = MODEL_OPEN;
            mark->attempt = 0;
        }
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_note_lift(struct dbk_model *m, const char *consumer,
                                      const struct daybook_operator *by, int64_t now_us,
                                      struct daybook_error *err)
{
    if (dbk_model_find_consumer(m, consumer) == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    if (!reserve_trail(m)) {
        return no_memory(err);
    }
    record(m, DAYBOOK_OPERATION_LIFT, consumer, NULL, by, now_us);
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_start(struct dbk_model *m, const char *consumer,
                                  struct daybook_start start, const struct daybook_operator *by,
                                  int64_t now_us, struct daybook_error *err)
{
    enum daybook_code code;

    if (dbk_model_find_consumer(m, consumer) != SEARCH_NONE) {
        return dbk_fail(err, DAYBOOK_CONFLICT,
                        "consumer %s is registered already: where it started stands", consumer);
    }
    /* Where there is no place for it, the trail gives none up. */
    if (m->consumer_count < DAYBOOK_CONSUMERS_MAX && !reserve_trail(m)) {
        return no_memory(err);
    }
    code = dbk_model_register(m, consumer, start, err);
    if (code == DAYBOOK_OK) {
        record(m, DAYBOOK_OPERATION_START, consumer, NULL, by, now_us);
    }
    return code;
}

static void fill_entry(const struct model_event *event, const struct model_mark *mark,
                       struct daybook_quarantine_entry *ret)
{
    ret->position = event->position;
    ret->reason = mark->reason;
    ret->attempts = mark->attempts_then;
    ret->quarantined_at_us = mark->quarantined_at_us;
    ret->words_len = mark->words_len;
    if (mark->words_len > 0) {
        memcpy(ret->words, mark->words, mark->words_len);
    }
}

enum daybook_code dbk_model_quarantine_list(const struct dbk_model *m, const char *consumer,
                                            uint64_t after_position,
                                            enum daybook_quarantine_reason reason,
                                            struct daybook_batch *batch,
                                            struct daybook_quarantine_entry *ret_entries,
                                            uint64_t *ret_last, struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, consumer);
    uint64_t last = after_position;

    if (c == SEARCH_NONE) {
        return no_consumer(consumer, err);
    }
    dbk_model_batch_clear(batch);
    for (size_t i = 0; i < m->event_count; i++) {
        struct model_event event = m->events[i];
        const struct model_mark *mark = &m->consumers[c].marks[i];

        if (event.position <= after_position || mark->resolution != MODEL_QUARANTINED ||
            ((int)reason != 0 && mark->reason != reason)) {
            continue;
        }
        if (event.fitness == DBK_MODEL_MALFORMED) {
            event.own.record.len = 0;
        }
        if (batch->count == batch->events_max ||
            !dbk_model_batch_fits(batch, 0, dbk_model_event_bytes(&event))) {
            batch->more = true;
            break;
        }
        fill_entry(&event, mark, &ret_entries[batch->count]);
        (void)dbk_model_batch_put(batch, &event);
        last = event.position;
    }
    *ret_last = last;
    return DAYBOOK_OK;
}

static void show(const struct dbk_model *m, size_t consumer, size_t event, int64_t now_us,
                 struct daybook_event_standing *ret)
{
    const struct model_mark *mark = &m->consumers[consumer].marks[event];

    *ret = (struct daybook_event_standing){.standing = DAYBOOK_STANDING_ACKNOWLEDGED};
    memcpy(ret->consumer, m->consumers[consumer].name, sizeof ret->consumer);
    if (dbk_model_before_start(m, consumer, event)) {
        return;
    }
    switch (mark->resolution) {
    case MODEL_ACKNOWLEDGED:
        break;
    case MODEL_QUARANTINED:
        ret->standing = DAYBOOK_STANDING_QUARANTINED;
        break;
    case MODEL_DISCARDED:
        ret->standing = DAYBOOK_STANDING_DISCARDED;
        break;
    case MODEL_OPEN:
        ret->standing = dbk_model_lease_live(&mark->lease, now_us) ? DAYBOOK_STANDING_IN_FLIGHT
                                                                   : DAYBOOK_STANDING_PENDING;
        ret->attempt = mark->attempt;
        ret->hand_outs = mark->hand_outs;
        break;
    }
}

enum daybook_code dbk_model_find(const struct dbk_model *m, struct daybook_bytes request_id,
                                 int64_t now_us, struct daybook_batch *batch,
                                 struct daybook_event_standing *ret_standings, size_t max,
                                 size_t *ret_count, struct daybook_error *err)
{
    size_t i = dbk_model_find_id(m, request_id);
    struct model_event event;

    if (i == SEARCH_NONE) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not stored", (int)request_id.len,
                        request_id.data);
    }
    event = m->events[i];
    event.own.record.len = event.fitness == DBK_MODEL_MALFORMED ? 0 : event.own.record.len;
    dbk_model_batch_clear(batch);
    if (!dbk_model_batch_fits(batch, 0, dbk_model_event_bytes(&event))) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the event does not fit the batch: make it for max_event_bytes");
    }
    (void)dbk_model_batch_put(batch, &event);
    *ret_count = m->consumer_count < max ? m->consumer_count : max;
    for (size_t c = 0; c < *ret_count; c++) {
        show(m, c, i, now_us, &ret_standings[c]);
    }
    return DAYBOOK_OK;
}

size_t dbk_model_operations(const struct dbk_model *m, uint64_t before_no,
                            struct daybook_operation *ret, size_t max)
{
    size_t count = 0;

    for (size_t i = m->trail_count; i > 0 && count < max; i--) {
        if (before_no == 0 || m->trail[i - 1].no < before_no) {
            ret[count++] = m->trail[i - 1];
        }
    }
    return count;
}
