/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See state_model.h.
 */
#include "engines/log/state_model.h"

#include <stdio.h>
#include <string.h>

#define SKEW INT64_C(60000000)

static int64_t later(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

bool m_live(struct m_lease lease, int64_t now)
{
    return lease.given && now < lease.expires && lease.granted <= later(now, SKEW);
}

struct m_consumer *m_consumer(struct m_model *m, uint32_t id)
{
    for (uint32_t i = 0; i < m->consumer_count; i++) {
        if (m->consumers[i].id == id) {
            return &m->consumers[i];
        }
    }
    return NULL;
}

uint32_t m_find(const struct m_model *m, uint64_t position)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->events[i].meta.position == position) {
            return i;
        }
    }
    return M_EVENTS;
}

bool m_before(const struct m_model *m, const struct m_consumer *c, uint32_t event)
{
    return c->start_time != DAYBOOK_TIME_UNSET || m->events[event].meta.position < c->start;
}

bool m_open(const struct m_model *m, const struct m_consumer *c, uint32_t event)
{
    return !m_before(m, c, event) && c->marks[event].how == M_OPEN;
}

static bool resolved_by(const struct m_model *m, const struct m_consumer *c, uint32_t event)
{
    return m_before(m, c, event) || c->marks[event].how == M_ACKED ||
           c->marks[event].how == M_DISCARDED;
}

static bool resolved_by_all(const struct m_model *m, uint32_t event)
{
    bool all = m->consumer_count > 0; /* P2 */

    for (uint32_t i = 0; i < m->consumer_count; i++) {
        all = all && resolved_by(m, &m->consumers[i], event);
    }
    return all;
}

static bool any_is(const struct m_model *m, uint32_t event, enum m_how how)
{
    for (uint32_t i = 0; i < m->consumer_count; i++) {
        if (m->consumers[i].marks[event].how == how) {
            return true;
        }
    }
    return false;
}

bool m_quarantined_by_any(const struct m_model *m, uint32_t event)
{
    return any_is(m, event, M_QUARANTINED);
}

bool m_givable(const struct m_model *m, uint32_t event)
{
    return m->consumer_count > 0 && m->events[event].delivered && !m_quarantined_by_any(m, event);
}

enum dbk_forget_reason m_reason(const struct m_model *m, uint32_t event,
                                enum dbk_forget_reason reason)
{
    return any_is(m, event, M_DISCARDED) ? DBK_FORGET_DISCARDED : reason;
}

static bool key_has_events(const struct m_model *m, unsigned key)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->events[i].key == key) {
            return true;
        }
    }
    return false;
}

void m_forget(struct m_model *m, uint32_t event, enum dbk_forget_reason reason)
{
    unsigned key = m->events[event].key;
    size_t behind = m->count - event - 1;

    m->counters.forgotten[m_reason(m, event, reason) - 1]++;
    memmove(&m->events[event], &m->events[event + 1], behind * sizeof m->events[0]);
    for (uint32_t i = 0; i < m->consumer_count; i++) {
        struct m_mark *marks = m->consumers[i].marks;

        memmove(&marks[event], &marks[event + 1], behind * sizeof marks[0]);
    }
    m->count--;
    for (uint32_t i = 0; i < m->consumer_count && !key_has_events(m, key); i++) {
        m->consumers[i].holds[key].given = false;
    }
}

/* What follows when somebody resolved something: delivered (P2), and discarded ones end. */
static void note(struct m_model *m)
{
    for (uint32_t i = 0; i < m->count;) {
        if (!resolved_by_all(m, i)) {
            i++;
        } else if (any_is(m, i, M_DISCARDED)) {
            m_forget(m, i, DBK_FORGET_DISCARDED);
        } else {
            m->events[i].delivered = true;
            i++;
        }
    }
}

/* ---- events and consumers --------------------------------------------------------------------------- */

void m_publish(struct m_model *m, const struct dbk_event_meta *meta, unsigned key, bool rotten)
{
    uint32_t at = m_find(m, meta->position);

    if (at != M_EVENTS) {
        m->events[at].meta.place = meta->place;
        return;
    }
    if (meta->position <= m->last_position) {
        return;
    }
    at = m->count++;
    m->last_position = meta->position;
    m->events[at] = (struct m_event){.meta = *meta, .key = key, .rotten = rotten};
    m->counters.accepted++;
    for (uint32_t i = 0; i < m->consumer_count; i++) {
        struct m_consumer *c = &m->consumers[i];

        c->marks[at] = (struct m_mark){.how = M_OPEN};
        if (c->start_time != DAYBOOK_TIME_UNSET && meta->accepted_at_us >= c->start_time) {
            c->start = meta->position;
            c->start_time = DAYBOOK_TIME_UNSET;
        }
    }
    note(m);
}

struct dbk_start m_start(const struct m_model *m, struct daybook_start start, uint64_t next)
{
    struct dbk_start ret = {.position = next, .time_us = DAYBOOK_TIME_UNSET};

    if (start.kind == DAYBOOK_START_OLDEST && m->count > 0) {
        ret.position = m->events[0].meta.position;
    } else if (start.kind == DAYBOOK_START_POSITION) {
        ret.position = (uint64_t)start.value;
    } else if (start.kind == DAYBOOK_START_TIME) {
        for (uint32_t i = 0; i < m->count; i++) {
            if (m->events[i].meta.accepted_at_us >= start.value) {
                ret.position = m->events[i].meta.position;
                return ret;
            }
        }
        ret = (struct dbk_start){.position = 0, .time_us = start.value};
    }
    return ret;
}

void m_register(struct m_model *m, uint32_t id, const char *name, struct dbk_start start)
{
    struct m_consumer *c = m_consumer(m, id);

    if (c != NULL) {
        return;
    }
    c = &m->consumers[m->consumer_count++];
    memset(c, 0, sizeof *c);
    c->id = id;
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->start = start.position;
    c->start_time = start.time_us;
    c->clock = 0;
    if (id >= m->next_consumer) {
        m->next_consumer = id + 1;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m_before(m, c, i)) {
            m->events[i].delivered = false;
        }
    }
    note(m);
}

void m_retire(struct m_model *m, uint32_t id)
{
    struct m_consumer *c = m_consumer(m, id);
    uint32_t kept = 0;

    if (c == NULL) {
        return;
    }
    m->consumer_count--;
    memmove(c, c + 1, (size_t)(&m->consumers[m->consumer_count] - c) * sizeof *c);
    for (uint32_t i = 0; i < m->orphan_count; i++) {
        if (m->orphans[i].consumer != id) {
            m->orphans[kept++] = m->orphans[i];
        }
    }
    m->orphan_count = kept;
    for (uint32_t i = 0; i < m->count && m->consumer_count == 0; i++) {
        m->events[i].delivered = false;
    }
    note(m);
}

static void resolve(struct m_model *m, struct m_mark *mark, enum m_how how)
{
    mark->how = how;
    mark->lease.given = false;
    mark->attempt = 0;
    mark->hand_outs = 0;
    mark->token = 0;
    mark->refunded = true;
    note(m);
}

void m_release(struct m_model *m, uint32_t id, uint64_t position)
{
    struct m_consumer *c = m_consumer(m, id);
    uint32_t at = m_find(m, position);

    if (c != NULL && at != M_EVENTS && c->marks[at].how == M_QUARANTINED) {
        c->marks[at].how = M_OPEN;
    }
}

void m_discard(struct m_model *m, uint32_t id, uint64_t position)
{
    struct m_consumer *c = m_consumer(m, id);
    uint32_t at = m_find(m, position);

    if (c != NULL && at != M_EVENTS && !m_before(m, c, at) &&
        (c->marks[at].how == M_OPEN || c->marks[at].how == M_QUARANTINED)) {
        resolve(m, &c->marks[at], M_DISCARDED);
    }
}

void m_rewind(struct m_model *m, uint32_t id, uint64_t floor, int64_t now)
{
    struct m_consumer *c = m_consumer(m, id);

    if (c == NULL) {
        return;
    }
    c->floor = floor;
    for (uint32_t i = 0; i < m->count; i++) {
        struct m_mark *mark = &c->marks[i];

        if (m_before(m, c, i)) {
            continue;
        }
        mark->survivor = mark->how == M_OPEN && m_live(mark->lease, now) ? mark->token : 0;
        if (mark->how == M_ACKED) {
            mark->how = M_OPEN;
        }
        mark->attempt = 0;
    }
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

static void set_clock(struct m_model *m, struct m_consumer *c, int64_t now)
{
    (void)m;
    if (c->clock == now) {
        return;
    }
    c->clock = now;
    for (unsigned key = 0; key < M_KEYS; key++) {
        if (!m_live(c->holds[key], now)) {
            c->holds[key].given = false;
        }
    }
}

static bool leased(const struct m_model *m, const struct m_consumer *c, unsigned key, int64_t now)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->events[i].key == key && m_open(m, c, i) && m_live(c->marks[i].lease, now)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < m->orphan_count; i++) {
        if (m->orphans[i].consumer == c->id && m->orphans[i].key == key &&
            m_live(m->orphans[i].lease, now)) {
            return true;
        }
    }
    return false;
}

/* The first open event of a key above a position. */
static uint32_t next_open(const struct m_model *m, const struct m_consumer *c, unsigned key,
                          uint64_t above)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->events[i].key == key && m->events[i].meta.position > above && m_open(m, c, i)) {
            return i;
        }
    }
    return M_EVENTS;
}

void m_walk_begin(struct m_model *m, struct m_walk *w, uint32_t consumer,
                  const struct daybook_claim *claim, int64_t now)
{
    struct m_consumer *c = m_consumer(m, consumer);
    unsigned no = w->no;

    memset(w, 0, sizeof *w);
    w->no = no;
    w->consumer = consumer;
    w->claim = *claim;
    w->now = now;
    if (c != NULL) {
        set_clock(m, c, now);
    }
}

static struct m_item *last_of_key(struct m_walk *w, unsigned key)
{
    struct m_item *last = NULL;

    for (uint32_t i = 0; i < w->count; i++) {
        if (w->items[i].key == key && (last == NULL || w->items[i].position > last->position)) {
            last = &w->items[i];
        }
    }
    return last;
}

static uint32_t taken_of_key(const struct m_walk *w, unsigned key)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        taken += w->items[i].key == key && !w->items[i].condemned && !w->items[i].dropped;
    }
    return taken;
}

/* Whether the walk may look at event i now. */
static bool in_line(struct m_model *m, struct m_consumer *c, struct m_walk *w, uint32_t i)
{
    unsigned key = m->events[i].key;
    struct m_item *last = last_of_key(w, key);

    if (!w->used[key]) {
        return c->reserved[key] == 0 && !c->holds[key].given && !leased(m, c, key, w->now) &&
               next_open(m, c, key, 0) == i;
    }
    return !w->closed[key] && taken_of_key(w, key) < w->claim.key_run &&
           next_open(m, c, key, last->position) == i;
}

/* A key whose last chosen event is gone or settled since, or which has an open event that was passed
 * already, ends here. */
static void close_changed(struct m_model *m, struct m_consumer *c, struct m_walk *w)
{
    for (unsigned key = 0; key < M_KEYS; key++) {
        struct m_item *last = w->used[key] ? last_of_key(w, key) : NULL;
        uint32_t at = last == NULL ? M_EVENTS : m_find(m, last->position);

        if (last == NULL || w->closed[key] || taken_of_key(w, key) >= w->claim.key_run) {
            continue;
        }
        if (at == M_EVENTS || !m_open(m, c, at)) {
            w->closed[key] = true;
            continue;
        }
        at = next_open(m, c, key, last->position);
        if (at != M_EVENTS && m->events[at].meta.position <= w->looked) {
            w->closed[key] = true;
        }
    }
}

void m_walk_pick(struct m_model *m, struct m_walk *w)
{
    struct m_consumer *c = m_consumer(m, w->consumer);
    uint32_t taken = 0;
    uint64_t bytes = 0;

    w->more = false;
    if (c == NULL || w->claim.events_max == 0) {
        return;
    }
    set_clock(m, c, w->now);
    if (w->begun) {
        close_changed(m, c, w);
    }
    w->begun = true;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->items[i].condemned && !w->items[i].dropped) {
            taken++;
            bytes += 100 + w->items[i].position % 7 * 10;
        }
    }
    for (uint32_t i = 0;; i++) {
        const struct m_event *e = NULL;
        const struct m_mark *mark = NULL;
        struct m_item item = {0};

        if (taken >= w->claim.events_max || w->condemned >= DBK_CONDEMNED_MAX) {
            w->more = true;
            return;
        }
        while (i < m->count && (m->events[i].meta.position <= w->looked || !m_open(m, c, i) ||
                                !in_line(m, c, w, i))) {
            i++;
        }
        if (i >= m->count) {
            return;
        }
        e = &m->events[i];
        mark = &c->marks[i];
        if (e->meta.newer) {
            w->closed[e->key] = w->used[e->key];
            continue;
        }
        item = (struct m_item){.position = e->meta.position,
                               .key = e->key,
                               .attempt = mark->attempt + 1,
                               .hand_outs = mark->hand_outs + 1,
                               .redelivery = mark->handed};
        if (item.attempt > w->claim.hand_outs_max) {
            item.condemned = true;
            item.reason = DAYBOOK_REASON_ATTEMPTS_EXHAUSTED;
        } else if (taken > 0 && w->claim.bytes_max != 0 &&
                   bytes + e->meta.payload_bytes > w->claim.bytes_max) {
            w->more = true; /* also where it is damaged: that may not be known yet */
            return;
        } else if (e->meta.damaged) {
            item.condemned = true;
            item.reason = DAYBOOK_REASON_MALFORMED;
            w->closed[e->key] = true;
        } else {
            taken++;
            bytes += e->meta.payload_bytes;
        }
        if (item.condemned) {
            item.attempt--;
            w->condemned++;
        }
        w->used[e->key] = true;
        c->reserved[e->key] = w->no + 1;
        w->looked = item.position;
        w->items[w->count++] = item;
    }
}

void m_walk_drop(struct m_model *m, struct m_walk *w, uint64_t position, enum dbk_drop why,
                 int64_t retry_at)
{
    struct m_consumer *c = m_consumer(m, w->consumer);
    struct m_item *first = NULL;

    for (uint32_t i = 0; i < w->count; i++) {
        if (w->items[i].position == position && !w->items[i].condemned) {
            first = &w->items[i];
        }
    }
    if (first == NULL || first->dropped) {
        return;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        struct m_item *item = &w->items[i];

        if (item->key == first->key && item->position >= position && !item->condemned) {
            item->dropped = true;
        }
    }
    /* what was condemned behind it was reached too early */
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->items[i].key == first->key && w->items[i].position > position &&
            w->items[i].condemned) {
            w->items[i].condemned = false;
            w->items[i].dropped = true;
            w->items[i].withdrawn = true;
            w->condemned--;
        }
    }
    w->closed[first->key] = true;
    if (c != NULL) {
        set_clock(m, c, w->now);
    }
    if (why == DBK_DROP_MALFORMED) {
        struct m_item item = *first;

        item.dropped = false;
        item.condemned = true;
        item.attempt--;
        item.reason = DAYBOOK_REASON_MALFORMED;
        w->condemned++;
        w->items[w->count++] = item;
    } else if (c != NULL && key_has_events(m, first->key)) {
        c->holds[first->key] =
            (struct m_lease){.given = true, .granted = w->now, .expires = retry_at};
    }
}

void m_walk_settle(struct m_model *m, struct m_walk *w)
{
    struct m_consumer *c = m_consumer(m, w->consumer);
    uint32_t kept = 0;

    if (c == NULL) {
        w->count = 0;
        return;
    }
    set_clock(m, c, w->now);
    /* in order of position, what was dropped taken out */
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->items[i].dropped) {
            w->items[kept++] = w->items[i];
        }
    }
    w->count = kept;
    for (uint32_t i = 0; i < w->count; i++) {
        for (uint32_t k = i + 1; k < w->count; k++) {
            if (w->items[k].position < w->items[i].position) {
                struct m_item other = w->items[i];

                w->items[i] = w->items[k];
                w->items[k] = other;
            }
        }
    }
    /* of each key what still is the beginning of its open events, if nobody else holds it */
    for (unsigned key = 0; key < M_KEYS; key++) {
        bool broken = leased(m, c, key, w->now);
        uint64_t above = 0;

        for (uint32_t i = 0; i < w->count; i++) {
            struct m_item *item = &w->items[i];
            uint32_t at = item->key == key ? m_find(m, item->position) : M_EVENTS;

            if (item->key != key) {
                continue;
            }
            broken = broken || at == M_EVENTS || next_open(m, c, key, above) != at;
            if (!broken && item->condemned && item->reason == DAYBOOK_REASON_ATTEMPTS_EXHAUSTED &&
                c->marks[at].attempt + 1 <= w->claim.hand_outs_max) {
                broken = true;
            }
            if (broken) {
                item->dropped = true;
                continue;
            }
            item->attempt = c->marks[at].attempt + (item->condemned ? 0 : 1);
            item->hand_outs = c->marks[at].hand_outs + 1;
            item->redelivery = c->marks[at].handed;
            above = item->position;
        }
    }
    kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->items[i].dropped) {
            w->items[kept++] = w->items[i];
        }
    }
    w->count = kept;
}

void m_walk_end(struct m_model *m, struct m_walk *w)
{
    struct m_consumer *c = m_consumer(m, w->consumer);

    for (unsigned key = 0; c != NULL && key < M_KEYS; key++) {
        if (c->reserved[key] == w->no + 1) {
            c->reserved[key] = 0;
        }
    }
    w->count = 0;
}

void m_claimed(struct m_model *m, uint32_t consumer, uint32_t lease_ms, int64_t now,
               uint64_t first_token, const struct dbk_claim_entry *entries, size_t count)
{
    struct m_consumer *c = m_consumer(m, consumer);

    for (size_t i = 0; c != NULL && i < count; i++) {
        uint32_t at = m_find(m, entries[i].position);
        struct m_mark *mark = at == M_EVENTS ? NULL : &c->marks[at];

        if (mark == NULL || !m_open(m, c, at)) {
            continue;
        }
        mark->handed = true;
        mark->refunded = false;
        mark->attempt = entries[i].attempt;
        mark->hand_outs = entries[i].hand_outs;
        mark->token = first_token + i;
        mark->lease = (struct m_lease){
            .given = true, .granted = now, .expires = later(now, (int64_t)lease_ms * 1000)};
    }
}

/* ---- verdicts ------------------------------------------------------------------------------------------- */

static struct m_orphan *orphan_with(struct m_model *m, uint32_t consumer,
                                    struct daybook_hand_out hand_out)
{
    for (uint32_t i = 0; i < m->orphan_count; i++) {
        if (m->orphans[i].consumer == consumer && m->orphans[i].position == hand_out.position &&
            m->orphans[i].token == hand_out.token) {
            return &m->orphans[i];
        }
    }
    return NULL;
}

static bool handed_out(const struct m_consumer *c, const struct m_mark *mark, uint64_t token)
{
    return mark->handed && (token >= c->floor || (token != 0 && token == mark->survivor));
}

struct dbk_decision m_decide(struct m_model *m, uint32_t consumer, enum dbk_settle_op op,
                             struct daybook_hand_out hand_out, int64_t now, uint32_t lease_ms,
                             enum dbk_settle_op *ret_op)
{
    struct m_consumer *c = m_consumer(m, consumer);
    uint32_t at = m_find(m, hand_out.position);
    bool more_time = op == DBK_SETTLE_EXTEND || op == DBK_SETTLE_GIVE_UP;
    struct dbk_decision d = {.code = DAYBOOK_NOT_OUTSTANDING};
    const struct m_mark *mark = NULL;

    *ret_op = op;
    if (at == M_EVENTS) {
        d.code = more_time ? DAYBOOK_NOT_OUTSTANDING : DAYBOOK_OK;
        if (op != DBK_SETTLE_EXTEND && orphan_with(m, consumer, hand_out) != NULL) {
            d.effect = true;
            *ret_op = DBK_SETTLE_GIVE_UP;
        }
        return d;
    }
    if (c == NULL || m_before(m, c, at)) {
        return d;
    }
    mark = &c->marks[at];
    if (more_time) {
        if (mark->how == M_OPEN && m_live(mark->lease, now) && !mark->refunded &&
            mark->token == hand_out.token && handed_out(c, mark, hand_out.token)) {
            d.code = DAYBOOK_OK;
            d.effect = op == DBK_SETTLE_GIVE_UP ||
                       later(now, (int64_t)lease_ms * 1000) > mark->lease.expires;
        }
        return d;
    }
    if (mark->how == M_ACKED || mark->how == M_DISCARDED) {
        d.code = DAYBOOK_OK;
        return d;
    }
    if (mark->how == M_QUARANTINED) {
        d.code = op == DBK_SETTLE_ACK ? DAYBOOK_QUARANTINED : DAYBOOK_OK;
        return d;
    }
    if (!handed_out(c, mark, hand_out.token)) {
        return d;
    }
    d.code = DAYBOOK_OK;
    if (op == DBK_SETTLE_ACK) {
        d.effect = true;
    } else if (mark->token == hand_out.token && !mark->refunded) {
        d.effect = true;
        d.attempt_after = mark->attempt == 0 ? 0 : mark->attempt - 1;
    }
    return d;
}

struct dbk_decision m_decide_quarantine(struct m_model *m, uint32_t consumer,
                                        struct daybook_hand_out hand_out)
{
    struct m_consumer *c = m_consumer(m, consumer);
    uint32_t at = m_find(m, hand_out.position);
    struct dbk_decision d = {.code = DAYBOOK_NOT_OUTSTANDING};

    if (at == M_EVENTS) {
        d.effect = orphan_with(m, consumer, hand_out) != NULL;
        return d;
    }
    if (c == NULL || m_before(m, c, at)) {
        return d;
    }
    switch (c->marks[at].how) {
    case M_QUARANTINED:
        d.code = DAYBOOK_OK;
        return d;
    case M_ACKED:
    case M_DISCARDED:
        d.code = DAYBOOK_ALREADY_ACKNOWLEDGED;
        return d;
    case M_OPEN:
        break;
    }
    if (handed_out(c, &c->marks[at], hand_out.token)) {
        d.code = DAYBOOK_OK;
        d.effect = true;
    }
    return d;
}

void m_settle(struct m_model *m, uint32_t consumer, enum dbk_settle_op op, uint32_t lease_ms,
              int64_t now, const struct dbk_settle_entry *entry)
{
    struct m_consumer *c = m_consumer(m, consumer);
    uint32_t at = m_find(m, entry->position);
    struct m_mark *mark = NULL;

    if (at == M_EVENTS) {
        struct m_orphan *orphan =
            orphan_with(m, consumer, (struct daybook_hand_out){entry->position, entry->token});

        if (orphan != NULL && op == DBK_SETTLE_GIVE_UP) {
            *orphan = m->orphans[--m->orphan_count];
        }
        return;
    }
    if (c == NULL || !m_open(m, c, at)) {
        return;
    }
    mark = &c->marks[at];
    switch (op) {
    case DBK_SETTLE_ACK:
        resolve(m, mark, M_ACKED);
        return;
    case DBK_SETTLE_REFUND:
        if (mark->token == entry->token) {
            mark->attempt = entry->attempt_after;
            mark->refunded = true;
        }
        return;
    case DBK_SETTLE_EXTEND:
        if (mark->token == entry->token && mark->lease.given &&
            later(now, (int64_t)lease_ms * 1000) > mark->lease.expires) {
            mark->lease.granted = now;
            mark->lease.expires = later(now, (int64_t)lease_ms * 1000);
        }
        return;
    case DBK_SETTLE_GIVE_UP:
        if (mark->token == entry->token) {
            mark->lease.given = false;
        }
        return;
    }
}

void m_quarantine(struct m_model *m, uint32_t consumer, uint64_t position)
{
    struct m_consumer *c = m_consumer(m, consumer);
    uint32_t at = m_find(m, position);

    if (c != NULL && at != M_EVENTS && m_open(m, c, at)) {
        resolve(m, &c->marks[at], M_QUARANTINED);
    }
}

/* ---- retention ------------------------------------------------------------------------------------------- */

uint32_t m_prunable(const struct m_model *m, int64_t now, uint64_t *ret)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        if (resolved_by_all(m, i) && later(m->events[i].meta.accepted_at_us, m->retain_us) <= now) {
            ret[count++] = m->events[i].meta.position;
        }
    }
    return count;
}

uint32_t m_givables(const struct m_model *m, uint64_t *ret)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        if (m_givable(m, i)) {
            ret[count++] = m->events[i].meta.position;
        }
    }
    return count;
}

uint32_t m_droppables(const struct m_model *m, uint64_t *ret)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        if (!m_quarantined_by_any(m, i)) {
            ret[count++] = m->events[i].meta.position;
        }
    }
    return count;
}

uint32_t m_orphans_of(struct m_model *m, uint64_t position, int64_t now, struct dbk_orphan *ret)
{
    uint32_t at = m_find(m, position);
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->consumer_count; i++) {
        struct m_consumer *c = &m->consumers[i];
        const struct m_mark *mark = &c->marks[at];

        if (!m_open(m, c, at) || !m_live(mark->lease, now)) {
            continue;
        }
        ret[count++] = (struct dbk_orphan){
            .consumer = c->id,
            .lease_ms = (uint32_t)((mark->lease.expires - mark->lease.granted) / 1000),
            .position = position,
            .token = mark->token,
            .expires_at_us = mark->lease.expires,
            .key_hash = m->events[at].meta.key_hash};
        m->orphans[m->orphan_count++] = (struct m_orphan){.consumer = c->id,
                                                          .key = m->events[at].key,
                                                          .position = position,
                                                          .token = mark->token,
                                                          .lease = mark->lease};
    }
    return count;
}

/* ---- figures ----------------------------------------------------------------------------------------------- */

static void oldest(int64_t *age, int64_t observed, int64_t now)
{
    int64_t own = observed >= now ? 0 : now - observed;

    *age = own > *age ? own : *age;
}

void m_figures(struct m_model *m, uint32_t consumer, int64_t now,
               struct daybook_consumer_stats *ret, int64_t *ret_next_expiry)
{
    struct m_consumer *c = m_consumer(m, consumer);

    memset(ret, 0, sizeof *ret);
    ret->oldest_pending_age_us = -1;
    ret->oldest_unresolved_age_us = -1;
    ret->start_at_us = DAYBOOK_TIME_UNSET;
    *ret_next_expiry = DAYBOOK_NO_DEADLINE;
    if (c != NULL) {
        set_clock(m, c, now);
        ret->registered = true;
        ret->start = c->start_time == DAYBOOK_TIME_UNSET ? c->start : UINT64_MAX;
        ret->start_at_us = c->start_time;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        int64_t observed = m->events[i].meta.observed_at_us;

        if (c != NULL && c->marks[i].how == M_QUARANTINED) {
            ret->quarantined++;
            ret->held_bytes += m->events[i].meta.payload_bytes;
        }
        if (c != NULL && !m_open(m, c, i)) {
            continue;
        }
        ret->newer_version += m->events[i].meta.newer ? 1 : 0;
        ret->held_bytes += c != NULL ? m->events[i].meta.payload_bytes : 0;
        oldest(&ret->oldest_unresolved_age_us, observed, now);
        if (c != NULL && m_live(c->marks[i].lease, now)) {
            ret->in_flight++;
            if (c->marks[i].lease.expires < *ret_next_expiry) {
                *ret_next_expiry = c->marks[i].lease.expires;
            }
        } else {
            ret->pending++;
            oldest(&ret->oldest_pending_age_us, observed, now);
        }
    }
    for (uint32_t i = 0; i < m->orphan_count && c != NULL; i++) {
        if (m->orphans[i].consumer == consumer && m_live(m->orphans[i].lease, now) &&
            m->orphans[i].lease.expires < *ret_next_expiry) {
            *ret_next_expiry = m->orphans[i].lease.expires;
        }
    }
    for (unsigned key = 0; key < M_KEYS && c != NULL; key++) {
        if (m_live(c->holds[key], now) && c->holds[key].expires < *ret_next_expiry) {
            *ret_next_expiry = c->holds[key].expires;
        }
    }
    ret->drained = ret->pending == 0 && ret->in_flight == 0;
    ret->held_events = c == NULL ? 0 : ret->pending + ret->in_flight + ret->quarantined;
}
