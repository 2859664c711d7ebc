/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's delivery: registration, the walk of C4c, and the verdicts in K2's order. See model.h; the
 * owner's lock is held throughout.
 */
#include "engines/memory/model_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define CONDEMNED_MAX 1024u /* C4c */

/* ---- registration (C1) ------------------------------------------------------------------------ */

static void set_start(const struct dbk_model *m, struct model_consumer *consumer,
                      struct daybook_start start)
{
    uint64_t end = m->next_position;

    consumer->start_at_us = DAYBOOK_TIME_UNSET;
    switch (start.kind) {
    case DAYBOOK_START_OLDEST:
        consumer->start = m->event_count > 0 ? m->events[0].position : end;
        return;
    case DAYBOOK_START_NOW:
        consumer->start = end;
        return;
    case DAYBOOK_START_POSITION:
        consumer->start = start.value > 0 ? (uint64_t)start.value : 0;
        return;
    case DAYBOOK_START_TIME:
        break;
    }
    for (size_t i = 0; i < m->event_count; i++) {
        if (m->events[i].accepted_at_us >= start.value) {
            consumer->start = m->events[i].position;
            return;
        }
    }
    consumer->start = UINT64_MAX;
    consumer->start_at_us = start.value;
}

enum daybook_code dbk_model_register(struct dbk_model *m, const char *name,
                                     struct daybook_start start, struct daybook_error *err)
{
    struct model_consumer *consumer = &m->consumers[m->consumer_count];
    size_t room = m->event_room == 0 ? 1 : m->event_room;

    if (m->consumer_count == DAYBOOK_CONSUMERS_MAX) {
        return dbk_fail(err, DAYBOOK_BUSY, "consumer %s: %u consumers are registered; retire one",
                        name, DAYBOOK_CONSUMERS_MAX);
    }
    *consumer = (struct model_consumer){.last_claim_at = DAYBOOK_TIME_UNSET};
    consumer->marks = calloc(room, sizeof *consumer->marks);
    if (consumer->marks == NULL) {
        return dbk_fail(err, DAYBOOK_BACKEND, "consumer %s: no memory to register it", name);
    }
    memcpy(consumer->name, name, strlen(name) + 1);
    set_start(m, consumer, start);
    m->consumer_count++;
    for (size_t i = 0; i < m->event_count; i++) {
        if (!dbk_model_before_start(m, m->consumer_count - 1, i)) {
            m->events[i].delivered_once = false; /* not by this consumer */
        }
        (void)dbk_model_note_resolved(m, i);
    }
    return DAYBOOK_OK;
}

/* ---- claim ------------------------------------------------------------------------------------ */

static bool orphan_of_key(const struct model_orphan *orphan, const struct daybook_event *event)
{
    const char *subject = orphan->key + strlen(orphan->key) + 1;

    return strlen(orphan->key) == event->name_space.len &&
           memcmp(orphan->key, event->name_space.data, event->name_space.len) == 0 &&
           strlen(subject) == event->subject.len &&
           memcmp(subject, event->subject.data, event->subject.len) == 0;
}

/* C4: whether anything of the event's key is leased to this consumer, wherever it stands. */
static bool key_busy(const struct dbk_model *m, size_t consumer, size_t event, int64_t now_us)
{
    const struct daybook_event *own = &m->events[event].own;

    for (size_t i = 0; i < m->event_count; i++) {
        const struct model_mark *mark = &m->consumers[consumer].marks[i];

        if (mark->resolution == MODEL_OPEN && dbk_model_lease_live(&mark->lease, now_us) &&
            dbk_model_same_key(&m->events[i].own, own)) {
            return true;
        }
    }
    for (size_t i = 0; i < m->orphan_count; i++) {
        if (m->orphans[i].consumer == consumer &&
            dbk_model_lease_live(&m->orphans[i].lease, now_us) &&
            orphan_of_key(&m->orphans[i], own)) {
            return true;
        }
    }
    return false;
}

/* What a claim has made of the events that it came past. */
enum walked {
    WALKED_NOT,       /* not one of this consumer's open events */
    WALKED_LEFT,      /* left where it is: nothing of its key behind it is considered */
    WALKED_TAKEN,     /* handed out */
    WALKED_CONDEMNED, /* exhausted: the key's next is considered */
};

/* Whether event i may be considered: every earlier open event of its key was taken or condemned as
 * exhausted in this claim, and fewer than `key_run` were taken. */
static bool next_of_key(const struct dbk_model *m, const enum walked *walked, size_t event,
                        uint32_t key_run)
{
    uint32_t taken = 0;

    for (size_t i = 0; i < event; i++) {
        if (walked[i] == WALKED_NOT ||
            !dbk_model_same_key(&m->events[i].own, &m->events[event].own)) {
            continue;
        }
        if (walked[i] == WALKED_LEFT) {
            return false;
        }
        taken += walked[i] == WALKED_TAKEN ? 1 : 0;
    }
    return taken < key_run;
}

static void condemn(struct model_consumer *consumer, struct model_mark *mark,
                    enum daybook_quarantine_reason reason, int64_t now_us)
{
    consumer->quarantined_total[reason - 1]++;
    mark->resolution = MODEL_QUARANTINED;
    mark->lease.given = false;
    mark->reason = reason;
    mark->attempts_then = mark->attempt;
    mark->quarantined_at_us = now_us;
    free(mark->words); /* of an earlier quarantine, released since */
    mark->words = NULL;
    mark->words_len = 0;
}

static void hand_out(struct dbk_model *m, const struct model_event *event, struct model_mark *mark,
                     const struct daybook_claim *claim, int64_t now_us, struct daybook_batch *batch)
{
    struct daybook_delivery *d = dbk_model_batch_put(batch, event);

    d->redelivery = mark->handed;
    mark->handed = true;
    mark->refunded = false;
    mark->attempt++;
    mark->hand_outs++;
    mark->token = m->next_token++;
    mark->lease = (struct model_lease){
        .given = true,
        .token = mark->token,
        .granted_at_us = now_us,
        .expires_at_us = dbk_model_later(now_us, (int64_t)claim->lease_ms * 1000),
    };
    d->attempt = mark->attempt;
    d->token = mark->token;
    d->lease_expires_at_us = mark->lease.expires_at_us;
}

/* The walk of C4c. `busy[i]` was found before anything was handed out. */
static void walk(struct dbk_model *m, struct model_consumer *consumer,
                 const struct daybook_claim *claim, int64_t now_us, const bool *busy,
                 enum walked *walked, struct daybook_batch *batch)
{
    uint32_t hand_outs_max =
        claim->hand_outs_max != 0 ? claim->hand_outs_max : m->capacity.delivery_attempts_max;
    uint32_t events_max =
        claim->events_max < batch->events_max ? claim->events_max : batch->events_max;
    uint32_t key_run = claim->key_run == 0 ? 1 : claim->key_run;
    uint32_t condemned = 0;

    for (size_t i = 0; i < m->event_count && !batch->more; i++) {
        struct model_event *event = &m->events[i];
        struct model_mark *mark = &consumer->marks[i];

        walked[i] = WALKED_NOT;
        if (event->position < consumer->start || mark->resolution != MODEL_OPEN) {
            continue;
        }
        walked[i] = WALKED_LEFT;
        if (busy[i] || !next_of_key(m, walked, i, key_run) || event->fitness == DBK_MODEL_NEWER) {
            continue;
        }
        if (mark->attempt >= hand_outs_max) {
            condemn(consumer, mark, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED, now_us);
            walked[i] = WALKED_CONDEMNED;
            batch->more = ++condemned == CONDEMNED_MAX;
        } else if (!dbk_model_batch_fits(batch, claim->bytes_max, dbk_model_event_bytes(event))) {
            batch->more = true; /* before it is read: whether it can be is not known yet */
        } else if (event->fitness == DBK_MODEL_MALFORMED) {
            condemn(consumer, mark, DAYBOOK_REASON_MALFORMED, now_us);
            m->undeliverable_total += event->found_damaged ? 0 : 1;
            event->found_damaged = true;
            batch->more = ++condemned == CONDEMNED_MAX;
        } else {
            hand_out(m, event, mark, claim, now_us, batch);
            walked[i] = WALKED_TAKEN;
            batch->more = batch->count == events_max;
        }
    }
}

enum daybook_code dbk_model_claim(struct dbk_model *m, const struct daybook_claim *claim,
                                  int64_t now_us, struct daybook_batch *batch,
                                  struct daybook_error *err)
{
    size_t c = dbk_model_find_consumer(m, claim->consumer);
    enum walked *walked;
    bool *busy;

    dbk_model_batch_clear(batch);
    if (c == SEARCH_NONE) {
        enum daybook_code code = dbk_model_register(m, claim->consumer, claim->start, err);

        if (code != DAYBOOK_OK) {
            return code;
        }
        c = m->consumer_count - 1;
    }
    if (claim->events_max == 0) { /* C12 */
        return DAYBOOK_OK;
    }
    m->consumers[c].last_claim_at = now_us;
    walked = calloc(m->event_count + 1, sizeof *walked);
    busy = calloc(m->event_count + 1, sizeof *busy);
    if (walked == NULL || busy == NULL) {
        free(walked);
        free(busy);
        return dbk_fail(err, DAYBOOK_BACKEND, "claim by %s: no memory", claim->consumer);
    }
    for (size_t i = 0; i < m->event_count; i++) {
        busy[i] = key_busy(m, c, i, now_us);
    }
    walk(m, &m->consumers[c], claim, now_us, busy, walked, batch);
    free(walked);
    free(busy);
    return DAYBOOK_OK;
}

/* ---- verdicts (K1 to K3, R1, X1) ---------------------------------------------------------------- */

/* What a verdict speaks of. */
enum addressed {
    ADDRESSED_NOT_HELD,    /* the stored event is gone */
    ADDRESSED_NO_CONSUMER, /* held, but the consumer is unknown */
    ADDRESSED_BEFORE_START,
    ADDRESSED_MARK /* *ret_mark is written */
};

/* The lease of a dropped event ends when a verdict with its token arrives (P5). */
static void end_orphan(struct dbk_model *m, size_t consumer, struct daybook_hand_out hand_out)
{
    for (size_t i = 0; i < m->orphan_count; i++) {
        struct model_orphan *orphan = &m->orphans[i];

        if (orphan->consumer == consumer && orphan->position == hand_out.position &&
            orphan->lease.token == hand_out.token) {
            orphan->lease.given = false;
        }
    }
}

static enum addressed address(struct dbk_model *m, const char *consumer,
                              struct daybook_hand_out hand_out, size_t *ret_event,
                              struct model_mark **ret_mark)
{
    size_t c = dbk_model_find_consumer(m, consumer);
    size_t i = dbk_model_find_position(m, hand_out.position);

    if (i == SEARCH_NONE) {
        return ADDRESSED_NOT_HELD;
    }
    if (c == SEARCH_NONE) {
        return ADDRESSED_NO_CONSUMER;
    }
    if (dbk_model_before_start(m, c, i)) {
        return ADDRESSED_BEFORE_START;
    }
    *ret_event = i;
    *ret_mark = &m->consumers[c].marks[i];
    return ADDRESSED_MARK;
}

/* "Handed out to it", refunds ignored; a hand-out from before a rewind is none, unless its lease was
 * live then (K3). */
static bool was_handed_out(const struct dbk_model *m, const char *consumer,
                           const struct model_mark *mark, uint64_t token)
{
    uint64_t floor = m->consumers[dbk_model_find_consumer(m, consumer)].token_floor;

    return mark->handed && (token >= floor || (mark->survivor != 0 && token == mark->survivor));
}

enum daybook_code dbk_model_ack(struct dbk_model *m, const char *consumer,
                                struct daybook_hand_out hand_out)
{
    struct model_mark *mark = NULL;
    size_t event = 0;

    switch (address(m, consumer, hand_out, &event, &mark)) {
    case ADDRESSED_NOT_HELD:
        end_orphan(m, dbk_model_find_consumer(m, consumer), hand_out);
        return DAYBOOK_OK;
    case ADDRESSED_NO_CONSUMER:
    case ADDRESSED_BEFORE_START:
        return DAYBOOK_NOT_OUTSTANDING;
    case ADDRESSED_MARK:
        break;
    }
    switch (mark->resolution) {
    case MODEL_ACKNOWLEDGED:
    case MODEL_DISCARDED:
        return DAYBOOK_OK;
    case MODEL_QUARANTINED:
        return DAYBOOK_QUARANTINED;
    case MODEL_OPEN:
        break;
    }
    if (!was_handed_out(m, consumer, mark, hand_out.token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    mark->resolution = MODEL_ACKNOWLEDGED;
    mark->lease.given = false;
    (void)dbk_model_note_resolved(m, event);
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_quarantine(struct dbk_model *m, const char *consumer,
                                       struct daybook_hand_out hand_out,
                                       enum daybook_quarantine_reason reason,
                                       struct daybook_bytes words, int64_t now_us)
{
    struct model_mark *mark = NULL;
    size_t event = 0;
    char *copy;

    switch (address(m, consumer, hand_out, &event, &mark)) {
    case ADDRESSED_NOT_HELD:
        end_orphan(m, dbk_model_find_consumer(m, consumer), hand_out);
        return DAYBOOK_NOT_OUTSTANDING;
    case ADDRESSED_NO_CONSUMER:
    case ADDRESSED_BEFORE_START:
        return DAYBOOK_NOT_OUTSTANDING;
    case ADDRESSED_MARK:
        break;
    }
    switch (mark->resolution) {
    case MODEL_QUARANTINED:
        return DAYBOOK_OK; /* the first reason stays */
    case MODEL_ACKNOWLEDGED:
    case MODEL_DISCARDED:
        return DAYBOOK_ALREADY_ACKNOWLEDGED;
    case MODEL_OPEN:
        break;
    }
    if (!was_handed_out(m, consumer, mark, hand_out.token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (words.len > DAYBOOK_WORDS_BYTES_MAX) {
        words.len = DAYBOOK_WORDS_BYTES_MAX;
    }
    copy = malloc(words.len + 1);
    if (copy == NULL) {
        return DAYBOOK_BACKEND;
    }
    if (words.len > 0) {
        memcpy(copy, words.data, words.len);
    }
    condemn(&m->consumers[dbk_model_find_consumer(m, consumer)], mark, reason, now_us);
    mark->words = copy;
    mark->words_len = (uint32_t)words.len;
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_relinquish(struct dbk_model *m, const char *consumer,
                                       struct daybook_hand_out hand_out)
{
    struct model_mark *mark = NULL;
    size_t event = 0;

    switch (address(m, consumer, hand_out, &event, &mark)) {
    case ADDRESSED_NOT_HELD:
        end_orphan(m, dbk_model_find_consumer(m, consumer), hand_out);
        return DAYBOOK_OK;
    case ADDRESSED_NO_CONSUMER:
    case ADDRESSED_BEFORE_START:
        return DAYBOOK_NOT_OUTSTANDING;
    case ADDRESSED_MARK:
        break;
    }
    if (mark->resolution != MODEL_OPEN) {
        return DAYBOOK_OK;
    }
    if (!was_handed_out(m, consumer, mark, hand_out.token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (mark->token == hand_out.token && !mark->refunded) {
        mark->refunded = true;
        mark->attempt -= mark->attempt > 0 ? 1 : 0;
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_model_extend(struct dbk_model *m, const char *consumer,
                                   struct daybook_hand_out hand_out, uint32_t lease_ms,
                                   int64_t now_us)
{
    int64_t expires_at_us = dbk_model_later(now_us, (int64_t)lease_ms * 1000);
    struct model_mark *mark = NULL;
    size_t event = 0;
    enum addressed what = address(m, consumer, hand_out, &event, &mark);

    if (what == ADDRESSED_NOT_HELD && lease_ms == 0) {
        end_orphan(m, dbk_model_find_consumer(m, consumer), hand_out);
    }
    if (what != ADDRESSED_MARK || mark->resolution != MODEL_OPEN || mark->refunded ||
        mark->token != hand_out.token || !dbk_model_lease_live(&mark->lease, now_us) ||
        !was_handed_out(m, consumer, mark, hand_out.token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (lease_ms == 0) {
        mark->lease.given = false;
    } else if (expires_at_us > mark->lease.expires_at_us) {
        mark->lease.granted_at_us = now_us;
        mark->lease.expires_at_us = expires_at_us;
    }
    return DAYBOOK_OK;
}
