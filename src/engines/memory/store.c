/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's storage: append, what is given up when and why (section 4), figures and reading. See
 * model.h; the owner's lock is held throughout.
 */
#include "engines/memory/model_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "journal/engine.h"

#define ROW_VERSION 1u
#define ROOM_FIRST 16u
#define PRUNED_BY_APPEND_MAX 64u             /* P3 */
#define BRAKE_AHEAD_US INT64_C(3600000000)   /* P3: 1 h */
#define BRAKE_PATIENCE_US INT64_C(600000000) /* P3: 10 minutes */

static bool copy_event(struct model_event *to, const struct daybook_event *from);

enum daybook_code dbk_model_new(const struct daybook_capacity *capacity, struct dbk_model **ret)
{
    struct dbk_model *m = calloc(1, sizeof *m);

    if (m == NULL) {
        return DAYBOOK_NO_MEMORY;
    }
    m->next_position = 1;
    m->next_token = 1;
    m->next_operation_no = 1;
    m->newest_accepted_at_us = DAYBOOK_TIME_UNSET;
    m->capacity = *capacity;
    *ret = m;
    return DAYBOOK_OK;
}

static void free_marks(struct model_mark *marks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(marks[i].words);
    }
    free(marks);
}

void dbk_model_free(struct dbk_model *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t c = 0; c < m->consumer_count; c++) {
        free_marks(m->consumers[c].marks, m->event_count);
    }
    for (size_t i = 0; i < m->event_count; i++) {
        free(m->events[i].bytes);
    }
    for (size_t i = 0; i < m->orphan_count; i++) {
        free(m->orphans[i].key);
    }
    free(m->events);
    free(m->orphans);
    free(m->trail);
    free(m);
}

void dbk_model_restarted(struct dbk_model *m, const struct daybook_capacity *capacity,
                         int64_t mono_us)
{
    m->capacity = *capacity;
    m->trusted_us = m->newest_accepted_at_us;
    m->trusted_mono_us = mono_us;
    m->clock_ahead = false;
    for (size_t c = 0; c < m->consumer_count; c++) {
        m->consumers[c].last_claim_at = DAYBOOK_TIME_UNSET;
        memset(m->consumers[c].quarantined_total, 0, sizeof m->consumers[c].quarantined_total);
    }
    m->undeliverable_total = 0; /* the opening reads nothing */
}

/* ---- a copy ---------------------------------------------------------------------------------- */

/* `count` elements in an array of `room`; NULL: no memory. */
static void *copy_array(const void *from, size_t count, size_t room, size_t element_bytes)
{
    void *to = calloc(room == 0 ? 1 : room, element_bytes);

    if (to != NULL && count > 0) {
        memcpy(to, from, count * element_bytes);
    }
    return to;
}

static bool copy_words(struct model_mark *marks, size_t count)
{
    bool whole = true;

    for (size_t i = 0; i < count; i++) {
        if (marks[i].words != NULL) {
            marks[i].words = copy_array(marks[i].words, marks[i].words_len, marks[i].words_len, 1);
            whole = whole && marks[i].words != NULL;
        }
    }
    return whole;
}

static bool copy_keys(struct model_orphan *orphans, size_t count)
{
    bool whole = true;

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(orphans[i].key) + 1;

        len += strlen(orphans[i].key + len) + 1;
        orphans[i].key = copy_array(orphans[i].key, len, len, 1);
        whole = whole && orphans[i].key != NULL;
    }
    return whole;
}

struct dbk_model *dbk_model_copy(const struct dbk_model *from)
{
    struct dbk_model *m = copy_array(from, 1, 1, sizeof *m);
    bool whole = m != NULL;

    if (!whole) {
        return NULL;
    }
    m->event_count = 0; /* each counts once it has bytes of its own */
    m->consumer_count = 0;
    m->orphan_count = 0;
    m->events = copy_array(from->events, from->event_count, from->event_room, sizeof *m->events);
    m->orphans =
        copy_array(from->orphans, from->orphan_count, from->orphan_room, sizeof *m->orphans);
    m->trail = copy_array(from->trail, from->trail_count, from->trail_room, sizeof *m->trail);
    whole = m->events != NULL && m->orphans != NULL && m->trail != NULL;
    for (size_t i = 0; whole && i < from->event_count; i++) {
        whole = copy_event(&m->events[i], &from->events[i].own);
        m->event_count += whole ? 1 : 0;
    }
    for (size_t c = 0; whole && c < from->consumer_count; c++) {
        struct model_consumer *to = &m->consumers[c];

        to->marks = copy_array(from->consumers[c].marks, from->event_count, from->event_room,
                               sizeof *to->marks);
        whole = to->marks != NULL;
        m->consumer_count += whole ? 1 : 0;
        whole = whole && copy_words(to->marks, from->event_count);
    }
    if (whole) {
        m->orphan_count = from->orphan_count;
        whole = copy_keys(m->orphans, m->orphan_count);
    }
    if (!whole) {
        dbk_model_free(m);
        return NULL;
    }
    return m;
}

void dbk_model_tokens_behind(struct dbk_model *m, const struct dbk_model *newer)
{
    if (m->next_token < newer->next_token) {
        m->next_token = newer->next_token;
    }
}

uint64_t dbk_model_skip_positions(struct dbk_model *m, uint64_t next_position)
{
    uint64_t skipped = next_position > m->next_position ? next_position - m->next_position : 0;

    m->next_position += skipped;
    return skipped;
}

/* ---- questions ------------------------------------------------------------------------------- */

int64_t dbk_model_later(int64_t us, int64_t more_us)
{
    return us > INT64_MAX - more_us ? INT64_MAX : us + more_us;
}

bool dbk_model_lease_live(const struct model_lease *lease, int64_t now_us)
{
    /* What is left is at most the length given and the skew, turned round so that it cannot overflow:
     * now is not earlier than the grant less the skew. */
    return lease->given && now_us < lease->expires_at_us &&
           dbk_model_later(now_us, LEASE_SKEW_US) >= lease->granted_at_us;
}

size_t dbk_model_find_position(const struct dbk_model *m, uint64_t position)
{
    for (size_t i = 0; i < m->event_count; i++) {
        if (m->events[i].position == position) {
            return i;
        }
    }
    return SEARCH_NONE;
}

static bool same_bytes(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

size_t dbk_model_find_id(const struct dbk_model *m, struct daybook_bytes request_id)
{
    for (size_t i = 0; i < m->event_count; i++) {
        if (same_bytes(m->events[i].own.request_id, request_id)) {
            return i;
        }
    }
    return SEARCH_NONE;
}

size_t dbk_model_find_consumer(const struct dbk_model *m, const char *name)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        if (strcmp(m->consumers[c].name, name) == 0) {
            return c;
        }
    }
    return SEARCH_NONE;
}

bool dbk_model_same_key(const struct daybook_event *a, const struct daybook_event *b)
{
    return same_bytes(a->name_space, b->name_space) && same_bytes(a->subject, b->subject);
}

uint64_t dbk_model_event_bytes(const struct model_event *event)
{
    return event->own.request_id.len + event->own.name_space.len + event->own.subject.len +
           event->own.record.len;
}

bool dbk_model_before_start(const struct dbk_model *m, size_t consumer, size_t event)
{
    return m->events[event].position < m->consumers[consumer].start;
}

bool dbk_model_resolved_by(const struct dbk_model *m, size_t consumer, size_t event)
{
    enum model_resolution r = m->consumers[consumer].marks[event].resolution;

    return dbk_model_before_start(m, consumer, event) || r == MODEL_ACKNOWLEDGED ||
           r == MODEL_DISCARDED;
}

bool dbk_model_quarantined_by_any(const struct dbk_model *m, size_t event)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        if (m->consumers[c].marks[event].resolution == MODEL_QUARANTINED) {
            return true;
        }
    }
    return false;
}

static bool discarded_by_any(const struct dbk_model *m, size_t event)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        if (m->consumers[c].marks[event].resolution == MODEL_DISCARDED) {
            return true;
        }
    }
    return false;
}

/* P2: with no consumer nothing is delivered. */
static bool delivered(const struct dbk_model *m, size_t event)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        if (!dbk_model_resolved_by(m, c, event)) {
            return false;
        }
    }
    return m->consumer_count > 0;
}

/* ---- forgetting ------------------------------------------------------------------------------ */

void dbk_model_forget(struct dbk_model *m, size_t event, enum model_forget kind)
{
    size_t behind = m->event_count - event - 1;

    m->forgotten[discarded_by_any(m, event) ? FORGET_DISCARDED : kind]++;
    free(m->events[event].bytes);
    memmove(&m->events[event], &m->events[event + 1], behind * sizeof m->events[0]);
    for (size_t c = 0; c < m->consumer_count; c++) {
        struct model_mark *marks = m->consumers[c].marks;

        free(marks[event].words);
        memmove(&marks[event], &marks[event + 1], behind * sizeof marks[0]);
    }
    m->event_count--;
}

bool dbk_model_note_resolved(struct dbk_model *m, size_t event)
{
    if (!delivered(m, event)) {
        return false;
    }
    if (discarded_by_any(m, event)) {
        dbk_model_forget(m, event, FORGET_DISCARDED);
        return true;
    }
    m->events[event].delivered_once = true;
    return false;
}

/* The now that pruning may use (P3). Acceptances after the opening do not move the limit: an append under
 * a clock that leapt would lift the brake at once. A leap that has stood is trusted from then on. */
static int64_t braked(struct dbk_model *m, int64_t now_us, int64_t mono_us)
{
    int64_t limit = dbk_model_later(dbk_model_later(m->trusted_us, mono_us - m->trusted_mono_us),
                                    BRAKE_AHEAD_US);

    if (now_us <= limit) {
        m->clock_ahead = false;
        return now_us;
    }
    if (!m->clock_ahead) {
        m->clock_ahead = true;
        m->clock_ahead_since_us = mono_us;
    }
    if (mono_us - m->clock_ahead_since_us < BRAKE_PATIENCE_US) {
        return limit;
    }
    m->clock_ahead = false;
    m->trusted_us = now_us;
    m->trusted_mono_us = mono_us;
    return now_us;
}

uint64_t dbk_model_prune(struct dbk_model *m, int64_t now_us, int64_t mono_us, uint64_t events_max)
{
    int64_t retain_us =
        m->capacity.retain_acknowledged_us < 0 ? 0 : m->capacity.retain_acknowledged_us;
    uint64_t pruned = 0;
    int64_t until_us;

    if (m->trusted_us == DAYBOOK_TIME_UNSET) {
        return 0; /* nothing was ever accepted */
    }
    until_us = braked(m, now_us, mono_us);
    for (size_t i = 0; i < m->event_count && pruned < events_max;) {
        if (delivered(m, i) &&
            dbk_model_later(m->events[i].accepted_at_us, retain_us) <= until_us) {
            dbk_model_forget(m, i, FORGET_PRUNED);
            pruned++;
        } else {
            i++;
        }
    }
    return pruned;
}

/* P4: once delivered and quarantined by nobody, oldest first, wherever it stands; until no more than
 * `stored_max` are left. */
static void reclaim_to(struct dbk_model *m, size_t stored_max)
{
    for (size_t i = 0; i < m->event_count && m->event_count > stored_max;) {
        if (m->consumer_count > 0 && m->events[i].delivered_once &&
            !dbk_model_quarantined_by_any(m, i)) {
            dbk_model_forget(m, i, FORGET_RECLAIMED);
        } else {
            i++;
        }
    }
}

uint64_t dbk_model_reclaim(struct dbk_model *m, uint64_t count)
{
    size_t before = m->event_count;

    reclaim_to(m, count < before ? before - (size_t)count : 0);
    return before - m->event_count;
}

/* Keeps what is live of a dropped event's leases, so that its keys stay busy (P5). There is room. */
static void leave_orphans(struct dbk_model *m, size_t event, int64_t now_us)
{
    const struct daybook_event *own = &m->events[event].own;

    for (size_t c = 0; c < m->consumer_count; c++) {
        const struct model_mark *mark = &m->consumers[c].marks[event];
        struct model_orphan *orphan = &m->orphans[m->orphan_count];

        if (mark->resolution != MODEL_OPEN || !dbk_model_lease_live(&mark->lease, now_us)) {
            continue;
        }
        orphan->key = calloc(1, own->name_space.len + 1 + own->subject.len + 1);
        if (orphan->key == NULL) {
            continue;
        }
        memcpy(orphan->key, own->name_space.data, own->name_space.len);
        memcpy(orphan->key + own->name_space.len + 1, own->subject.data, own->subject.len);
        orphan->consumer = c;
        orphan->position = m->events[event].position;
        orphan->lease = mark->lease;
        m->orphan_count++;
    }
}

static bool reserve_orphans(struct dbk_model *m, size_t more)
{
    size_t room = m->orphan_count + more;
    struct model_orphan *grown;

    if (room <= m->orphan_room) {
        return true;
    }
    grown = realloc(m->orphans, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    m->orphans = grown;
    m->orphan_room = room;
    return true;
}

/* P5, drop_oldest: as many as it takes, or none. */
static void drop_oldest(struct dbk_model *m, int64_t now_us)
{
    uint64_t needed = m->event_count + 1 - m->capacity.events_max;
    uint64_t droppable = 0;

    for (size_t i = 0; i < m->event_count; i++) {
        droppable += dbk_model_quarantined_by_any(m, i) ? 0 : 1;
    }
    if (droppable < needed || !reserve_orphans(m, (size_t)needed * m->consumer_count)) {
        return;
    }
    for (size_t i = 0; needed > 0;) {
        if (dbk_model_quarantined_by_any(m, i)) {
            i++;
            continue;
        }
        leave_orphans(m, i, now_us);
        dbk_model_forget(m, i, FORGET_DROPPED);
        needed--;
    }
}

static bool make_room(struct dbk_model *m, int64_t now_us)
{
    if (m->event_count >= m->capacity.events_max) {
        reclaim_to(m, m->capacity.events_max - 1);
    }
    if (m->event_count >= m->capacity.events_max &&
        m->capacity.policy == DAYBOOK_POLICY_DROP_OLDEST) {
        drop_oldest(m, now_us);
    }
    return m->event_count < m->capacity.events_max;
}

/* ---- append ---------------------------------------------------------------------------------- */

/* Room for one more event in every array, before anything is given up for it. */
static bool reserve_event(struct dbk_model *m)
{
    size_t room = m->event_room == 0 ? ROOM_FIRST : m->event_room * 2;
    struct model_event *events;

    if (m->event_count < m->event_room) {
        return true;
    }
    events = realloc(m->events, room * sizeof *events);
    if (events == NULL) {
        return false;
    }
    m->events = events;
    for (size_t c = 0; c < m->consumer_count; c++) {
        struct model_mark *marks = realloc(m->consumers[c].marks, room * sizeof *marks);

        if (marks == NULL) {
            return false;
        }
        m->consumers[c].marks = marks;
    }
    m->event_room = room;
    return true;
}

static struct daybook_bytes put(char *bytes, size_t *used, struct daybook_bytes from)
{
    struct daybook_bytes at = {bytes + *used, from.len};

    if (from.len > 0) {
        memcpy(bytes + *used, from.data, from.len);
    }
    *used += from.len;
    return at;
}

static bool copy_event(struct model_event *to, const struct daybook_event *from)
{
    size_t used = 0;

    to->bytes = malloc(from->request_id.len + from->name_space.len + from->subject.len +
                       from->record.len + 1);
    if (to->bytes == NULL) {
        return false;
    }
    to->own = *from;
    to->own.request_id = put(to->bytes, &used, from->request_id);
    to->own.name_space = put(to->bytes, &used, from->name_space);
    to->own.subject = put(to->bytes, &used, from->subject);
    to->own.record = put(to->bytes, &used, from->record);
    return true;
}

/* A start time that lay ahead is fixed by the first acceptance at or after it (C1). */
static void fix_starts(struct dbk_model *m, const struct model_event *event)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        struct model_consumer *consumer = &m->consumers[c];

        if (consumer->start_at_us != DAYBOOK_TIME_UNSET &&
            event->accepted_at_us >= consumer->start_at_us) {
            consumer->start = event->position;
            consumer->start_at_us = DAYBOOK_TIME_UNSET;
        }
    }
}

static uint64_t store(struct dbk_model *m, struct model_event *event, int64_t now_us,
                      int64_t mono_us)
{
    size_t i = m->event_count;

    event->position = m->next_position++;
    event->accepted_at_us =
        now_us > m->newest_accepted_at_us ? now_us : m->newest_accepted_at_us; /* E1 */
    event->observed_at_us = event->own.observed_at_us == DAYBOOK_TIME_UNSET
                                ? event->accepted_at_us
                                : event->own.observed_at_us;
    event->own.observed_at_us = event->observed_at_us;
    m->newest_accepted_at_us = event->accepted_at_us;
    if (m->trusted_us == DAYBOOK_TIME_UNSET) {
        m->trusted_us = event->accepted_at_us;
        m->trusted_mono_us = mono_us;
    }
    m->events[i] = *event;
    m->event_count++;
    m->accepted++;
    for (size_t c = 0; c < m->consumer_count; c++) {
        m->consumers[c].marks[i] = (struct model_mark){.resolution = MODEL_OPEN};
    }
    fix_starts(m, event);
    (void)dbk_model_note_resolved(m, i);
    return event->position;
}

/* A2, A3, and C9 for a row that this build cannot compare. */
static void answer_repeat(const struct model_event *stored, const struct daybook_event *event,
                          struct daybook_append_result *ret)
{
    ret->position = 0;
    if (stored->fitness != DBK_MODEL_SOUND) {
        ret->code = DAYBOOK_BACKEND;
    } else if (daybook_event_same_fact(&stored->own, event)) {
        ret->code = DAYBOOK_ALREADY_PRESENT;
        ret->position = stored->position;
    } else {
        ret->code = DAYBOOK_CONFLICT;
    }
}

void dbk_model_append(struct dbk_model *m, const struct daybook_event *event, int64_t now_us,
                      int64_t mono_us, struct daybook_append_result *ret)
{
    size_t found = dbk_model_find_id(m, event->request_id);
    struct model_event copy = {.fitness = DBK_MODEL_SOUND};

    *ret = (struct daybook_append_result){.code = DAYBOOK_BACKEND};
    if (found != SEARCH_NONE) {
        answer_repeat(&m->events[found], event, ret);
        return;
    }
    if (!reserve_event(m) || !copy_event(&copy, event)) {
        return;
    }
    (void)dbk_model_prune(m, now_us, mono_us, PRUNED_BY_APPEND_MAX);
    if (!make_room(m, now_us)) {
        free(copy.bytes);
        ret->code = DAYBOOK_AT_CAPACITY;
        ret->limit = DAYBOOK_LIMIT_EVENTS;
        ret->retained = m->event_count;
        return;
    }
    ret->position = store(m, &copy, now_us, mono_us);
    ret->code = DAYBOOK_OK;
}

bool dbk_model_set_fitness(struct dbk_model *m, uint64_t position, enum dbk_model_fitness fitness)
{
    size_t i = dbk_model_find_position(m, position);

    if (i == SEARCH_NONE) {
        return false;
    }
    m->events[i].fitness = fitness;
    return true;
}

/* ---- batches and reading ----------------------------------------------------------------------- */

void dbk_model_batch_clear(struct daybook_batch *batch)
{
    batch->count = 0;
    batch->bytes_used = 0;
    batch->more = false;
}

bool dbk_model_batch_fits(const struct daybook_batch *batch, uint64_t bytes_max, uint64_t bytes)
{
    uint64_t limit = bytes_max == 0 || bytes_max > batch->bytes_max ? batch->bytes_max : bytes_max;

    if (batch->count == 0) {
        return bytes <= dbk_batch_room(batch);
    }
    return batch->bytes_used < limit && bytes <= limit - batch->bytes_used;
}

struct daybook_delivery *dbk_model_batch_put(struct daybook_batch *batch,
                                             const struct model_event *event)
{
    struct daybook_delivery *d = &batch->deliveries[batch->count++];
    char *bytes = (char *)batch->bytes;

    *d = (struct daybook_delivery){
        .position = event->position,
        .row_version = event->fitness == DBK_MODEL_NEWER ? ROW_VERSION + 1 : ROW_VERSION,
        .accepted_at_us = event->accepted_at_us,
        .event = event->own};
    d->event.request_id = put(bytes, &batch->bytes_used, event->own.request_id);
    d->event.name_space = put(bytes, &batch->bytes_used, event->own.name_space);
    d->event.subject = put(bytes, &batch->bytes_used, event->own.subject);
    d->event.record = put(bytes, &batch->bytes_used, event->own.record);
    return d;
}

static bool pending_for_any(const struct dbk_model *m, size_t event)
{
    for (size_t c = 0; c < m->consumer_count; c++) {
        if (!dbk_model_before_start(m, c, event) &&
            m->consumers[c].marks[event].resolution == MODEL_OPEN) {
            return true;
        }
    }
    return false;
}

static bool wanted(const struct dbk_model *m, size_t event, enum daybook_where where)
{
    switch (where) {
    case DAYBOOK_WHERE_PENDING:
        return pending_for_any(m, event);
    case DAYBOOK_WHERE_QUARANTINED:
        return dbk_model_quarantined_by_any(m, event);
    case DAYBOOK_WHERE_ALL:
        break;
    }
    return true;
}

void dbk_model_read(struct dbk_model *m, uint64_t after_position, enum daybook_where where,
                    struct daybook_batch *batch, uint64_t *ret_last, uint64_t *ret_damaged)
{
    uint64_t last = after_position;
    uint64_t damaged = 0;

    dbk_model_batch_clear(batch);
    for (size_t i = 0; i < m->event_count; i++) {
        const struct model_event *event = &m->events[i];

        if (event->position <= after_position) {
            continue;
        }
        if (wanted(m, i, where)) {
            if (event->fitness == DBK_MODEL_MALFORMED) {
                damaged++;
            } else if (batch->count == batch->events_max ||
                       !dbk_model_batch_fits(batch, 0, dbk_model_event_bytes(event))) {
                batch->more = true;
                break;
            } else {
                (void)dbk_model_batch_put(batch, event);
            }
        }
        last = event->position;
    }
    *ret_last = last;
    if (ret_damaged != NULL) {
        *ret_damaged = damaged;
    }
}

bool dbk_model_newest_acknowledged(const struct dbk_model *m, const char *consumer, int64_t now_us,
                                   struct daybook_batch *batch)
{
    size_t c = dbk_model_find_consumer(m, consumer);

    dbk_model_batch_clear(batch);
    for (size_t i = c == SEARCH_NONE ? 0 : m->event_count; i > 0; i--) {
        const struct model_event *event = &m->events[i - 1];

        if (!dbk_model_before_start(m, c, i - 1) &&
            m->consumers[c].marks[i - 1].resolution == MODEL_ACKNOWLEDGED &&
            event->fitness == DBK_MODEL_SOUND &&
            now_us - event->accepted_at_us < m->capacity.retain_acknowledged_us) {
            if (!dbk_model_batch_fits(batch, 0, dbk_model_event_bytes(event))) {
                return false;
            }
            (void)dbk_model_batch_put(batch, event);
            break;
        }
    }
    return true;
}

/* ---- figures ----------------------------------------------------------------------------------- */

static int64_t age(int64_t now_us, int64_t since_us)
{
    return now_us > since_us ? now_us - since_us : 0;
}

void dbk_model_stats(const struct dbk_model *m, int64_t now_us, struct daybook_journal_stats *ret)
{
    *ret = (struct daybook_journal_stats){
        .backend = "memory",
        .mode = DAYBOOK_MODE_TELEMETRY_GRADE, /* M1: nothing here survives the process */
        .state = DAYBOOK_JOURNAL_OPEN,
        .stored_events = m->event_count,
        .events_max = m->capacity.events_max,
        .policy = m->capacity.policy,
        .accepted = m->accepted,
        .pruned = m->forgotten[FORGET_PRUNED],
        .reclaimed = m->forgotten[FORGET_RECLAIMED],
        .dropped = m->forgotten[FORGET_DROPPED],
        .discarded = m->forgotten[FORGET_DISCARDED],
        .consumers = (uint32_t)m->consumer_count,
        .undeliverable_total = m->undeliverable_total,
        .read_error_at_us = DAYBOOK_TIME_UNSET,
    };
    for (size_t i = 0; i < m->event_count; i++) {
        ret->stored_bytes += dbk_model_event_bytes(&m->events[i]);
        ret->undeliverable_events += m->events[i].found_damaged ? 1 : 0;
    }
    if (m->event_count > 0) {
        ret->oldest_position = m->events[0].position;
        ret->newest_position = m->events[m->event_count - 1].position;
        ret->dedupe_window_us = age(now_us, m->events[0].accepted_at_us);
    }
}

/* Where an event counts for a consumer; SEARCH_NONE: one that is not registered (S2). */
enum counted { COUNTED_NOT, COUNTED_QUARANTINED, COUNTED_IN_FLIGHT, COUNTED_PENDING };

static enum counted counted_as(const struct dbk_model *m, size_t consumer, size_t event,
                               int64_t now_us)
{
    const struct model_mark *mark;

    if (consumer == SEARCH_NONE) {
        return COUNTED_PENDING;
    }
    mark = &m->consumers[consumer].marks[event];
    if (!dbk_model_before_start(m, consumer, event) && mark->resolution == MODEL_QUARANTINED) {
        return COUNTED_QUARANTINED;
    }
    if (dbk_model_resolved_by(m, consumer, event)) {
        return COUNTED_NOT;
    }
    return dbk_model_lease_live(&mark->lease, now_us) ? COUNTED_IN_FLIGHT : COUNTED_PENDING;
}

static int64_t older(int64_t known_age_us, int64_t age_us)
{
    return known_age_us > age_us ? known_age_us : age_us;
}

void dbk_model_consumer_stats(const struct dbk_model *m, const char *consumer, int64_t now_us,
                              struct daybook_consumer_stats *ret)
{
    size_t c = dbk_model_find_consumer(m, consumer);

    *ret = (struct daybook_consumer_stats){.registered = c != SEARCH_NONE,
                                           .oldest_pending_age_us = -1,
                                           .oldest_unresolved_age_us = -1,
                                           .last_claim_at_us = DAYBOOK_TIME_UNSET,
                                           .start_at_us = DAYBOOK_TIME_UNSET};
    dbk_assert(strlen(consumer) < sizeof ret->name);
    memcpy(ret->name, consumer, strlen(consumer) + 1);
    if (c != SEARCH_NONE) {
        ret->start = m->consumers[c].start;
        ret->start_at_us = m->consumers[c].start_at_us;
        ret->last_claim_at_us = m->consumers[c].last_claim_at;
        memcpy(ret->quarantined_total, m->consumers[c].quarantined_total,
               sizeof ret->quarantined_total);
    }
    for (size_t i = 0; i < m->event_count; i++) {
        enum counted as = counted_as(m, c, i, now_us);
        int64_t age_us = age(now_us, m->events[i].observed_at_us);

        ret->quarantined += as == COUNTED_QUARANTINED ? 1 : 0;
        if (ret->registered && as != COUNTED_NOT) {
            ret->held_events++;
            ret->held_bytes += dbk_model_event_bytes(&m->events[i]);
        }
        if (as != COUNTED_PENDING && as != COUNTED_IN_FLIGHT) {
            continue;
        }
        ret->oldest_unresolved_age_us = older(ret->oldest_unresolved_age_us, age_us);
        ret->newer_version += m->events[i].fitness == DBK_MODEL_NEWER ? 1 : 0;
        if (as == COUNTED_IN_FLIGHT) {
            ret->in_flight++;
        } else {
            ret->pending++;
            ret->oldest_pending_age_us = older(ret->oldest_pending_age_us, age_us);
        }
    }
    ret->drained = ret->pending == 0 && ret->in_flight == 0;
}

size_t dbk_model_consumers(const struct dbk_model *m, char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1],
                           size_t max)
{
    size_t count = m->consumer_count < max ? m->consumer_count : max;

    for (size_t c = 0; c < count; c++) {
        memcpy(names[c], m->consumers[c].name, sizeof names[c]);
    }
    return count;
}
