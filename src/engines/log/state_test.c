/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine's memory against a second, plain writing of the contract (state_model.h): random
 * operations from a printed seed, every answer compared, the whole state compared and audited after
 * each. Now and then everything that was applied is replayed, each frame twice, into a fresh state,
 * which must equal the model too and carries on (recovery's promise: what is logged says it all).
 *
 * DAYBOOK_SEED=n runs that seed alone, DAYBOOK_OPERATIONS=n so many operations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engines/log/state_model.h"

#define SECOND INT64_C(1000000)
#define OPERATIONS 12000u
#define REPLAY_EVERY 700u
#define WALKS 2u
#define HISTORY 256u
#define RANGES 128u

/* ---- the log ------------------------------------------------------------------------------------------- */

enum frame_type {
    FRAME_PUBLISH,
    FRAME_REGISTER,
    FRAME_RETIRE,
    FRAME_RELEASE,
    FRAME_DISCARD,
    FRAME_REWIND,
    FRAME_CLAIM,
    FRAME_SETTLE,
    FRAME_QUARANTINE,
    FRAME_FORGET,
    FRAME_ORPHAN,
    FRAME_DAMAGED
};
struct frame {
    enum frame_type type;
    uint32_t consumer;
    uint64_t position;
    uint64_t token; /* or first token, or floor */
    int64_t now;
    uint32_t lease_ms;
    uint32_t attempt;
    uint32_t hand_outs;
    enum dbk_settle_op op;
    struct dbk_event_meta meta;
    struct dbk_start start;
    struct dbk_range range;
    struct dbk_orphan orphan;
    struct dbk_counters counters;
};

struct world {
    struct dbk_state *s;
    struct m_model m;
    struct dbk_walk *walks[WALKS];
    struct m_walk m_walks[WALKS];
    bool walking[WALKS];
    uint64_t random;
    int64_t now;
    int64_t accepted_at;
    uint64_t next_position;
    uint64_t next_token;
    uint32_t segment;
    struct {
        uint32_t consumer;
        struct daybook_hand_out hand_out;
    } history[HISTORY];
    uint32_t handed;
    struct frame *frames;
    size_t frame_count;
    size_t frames_room;
    uint64_t compactions_seen;
    uint64_t done[32];
};

static uint64_t random_next(struct world *w)
{
    uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(struct world *w, uint32_t limit)
{
    return limit == 0 ? 0 : (uint32_t)(random_next(w) % limit);
}

static bool one_in(struct world *w, uint32_t n)
{
    return below(w, n) == 0;
}

static struct frame *frame_new(struct world *w, enum frame_type type)
{
    if (w->frame_count == w->frames_room) {
        w->frames_room = w->frames_room * 2 + 1024;
        w->frames = realloc(w->frames, w->frames_room * sizeof *w->frames);
        assert_non_null(w->frames);
    }
    w->frames[w->frame_count] = (struct frame){.type = type};
    return &w->frames[w->frame_count++];
}

static void frame_apply(struct dbk_state *s, const struct frame *f)
{
    struct dbk_claim_entry claimed = {f->position, f->attempt, f->hand_outs};
    struct dbk_settle_entry settled = {f->position, f->token, f->attempt};

    switch (f->type) {
    case FRAME_PUBLISH:
        dbk_state_publish(s, &f->meta, DBK_NOT_STAGED);
        return;
    case FRAME_REGISTER: {
        char name[8];

        (void)snprintf(name, sizeof name, "c%u", f->consumer);
        assert_int_equal(dbk_state_register(s, f->consumer, name, f->start), DAYBOOK_OK);
        return;
    }
    case FRAME_RETIRE:
        dbk_state_retire(s, f->consumer);
        (void)dbk_state_forget_ended(s);
        return;
    case FRAME_RELEASE:
        dbk_state_release(s, f->consumer, f->position);
        return;
    case FRAME_DISCARD:
        dbk_state_discard(s, f->consumer, f->position);
        return;
    case FRAME_REWIND:
        dbk_state_rewind(s, f->consumer, f->token, f->now);
        return;
    case FRAME_CLAIM:
        dbk_state_apply_claim(s, f->consumer, f->lease_ms, f->now, f->token, &claimed, 1);
        return;
    case FRAME_SETTLE:
        dbk_state_apply_settle(s, f->consumer, f->op, f->lease_ms, f->now, &settled, 1);
        (void)dbk_state_forget_ended(s);
        return;
    case FRAME_QUARANTINE:
        dbk_state_apply_quarantine(s, f->consumer, f->position, DAYBOOK_REASON_REJECTED);
        return;
    case FRAME_FORGET:
        dbk_state_apply_forget(s, f->range);
        return;
    case FRAME_ORPHAN:
        dbk_state_apply_orphan(s, &f->orphan);
        return;
    case FRAME_DAMAGED:
        dbk_state_mark_damaged(s, f->position);
        return;
    }
}

static struct dbk_state *state_new(const struct world *w)
{
    struct dbk_state_options options = {.events_max = M_EVENTS,
                                        .stored_max = M_EVENTS,
                                        .staged_max = M_STAGED,
                                        .retain_us = w->m.retain_us,
                                        .attempts_max = w->m.attempts_max,
                                        .policy = DAYBOOK_POLICY_DROP_OLDEST};
    struct dbk_state *s = NULL;

    assert_int_equal(dbk_state_new(&options, &s), DAYBOOK_OK);
    for (uint32_t i = 1; i <= M_SEGMENTS; i++) {
        assert_int_equal(dbk_state_add_segment(s, i), DAYBOOK_OK);
    }
    return s;
}

/* ---- comparing -------------------------------------------------------------------------------------------- */

static void same_decision(struct dbk_decision a, struct dbk_decision b)
{
    assert_int_equal(a.code, b.code);
    assert_int_equal(a.effect, b.effect);
    assert_int_equal(a.attempt_after, b.attempt_after);
}

static void compare_ids(struct world *w, uint64_t id_hash)
{
    struct dbk_id_match match;
    uint32_t cursor = 0;
    uint32_t found = 0;
    uint32_t expected = 0;

    for (uint32_t i = 0; i < w->m.count; i++) {
        expected += w->m.events[i].meta.id_hash == id_hash ? 1 : 0;
    }
    for (uint32_t i = 0; i < M_STAGED; i++) {
        expected += w->m.staged[i] && w->m.staged_hash[i] == id_hash ? 1 : 0;
    }
    while (dbk_state_id_find(w->s, id_hash, &cursor, &match)) {
        found++;
        if (match.staged) {
            assert_true(w->m.staged[match.staged_no] &&
                        w->m.staged_hash[match.staged_no] == id_hash);
        } else {
            uint32_t at = m_find(&w->m, match.position);

            assert_true(at != M_EVENTS);
            assert_int_equal(w->m.events[at].meta.id_hash, id_hash);
            assert_memory_equal(&match.place, &w->m.events[at].meta.place, sizeof match.place);
            assert_int_equal(match.row_version, w->m.events[at].meta.row_version);
        }
    }
    assert_int_equal(found, expected);
}

static void compare_event(struct world *w, uint32_t at)
{
    const struct dbk_event_meta *meta = &w->m.events[at].meta;
    struct dbk_stored found;

    assert_true(dbk_state_get(w->s, meta->position, &found));
    assert_int_equal(found.position, meta->position);
    assert_memory_equal(&found.place, &meta->place, sizeof found.place);
    assert_int_equal(found.observed_at_us, meta->observed_at_us);
    assert_int_equal(found.accepted_at_us, meta->accepted_at_us);
    assert_int_equal(found.payload_bytes, meta->payload_bytes);
    assert_int_equal(found.row_version, meta->row_version);
    assert_int_equal(found.damaged, meta->damaged);
    for (uint32_t i = 0; i < w->m.consumer_count; i++) {
        const struct m_consumer *c = &w->m.consumers[i];

        assert_int_equal(dbk_state_attempts(w->s, c->id, meta->position), c->marks[at].attempt);
    }
}

static void compare_where(struct world *w, enum daybook_where where)
{
    uint64_t after = 0;
    uint32_t steps = 1 + below(w, 5);
    uint32_t at = 0;

    for (;;) {
        struct dbk_stored found;
        uint64_t looked = 0;
        bool is = dbk_state_next(w->s, after, where, steps, &found, &looked);
        uint32_t passed = 0;

        for (; at < w->m.count; at++) {
            bool holds = where == DAYBOOK_WHERE_ALL ||
                         (where == DAYBOOK_WHERE_QUARANTINED && m_quarantined_by_any(&w->m, at));

            for (uint32_t i = 0; i < w->m.consumer_count && where == DAYBOOK_WHERE_PENDING; i++) {
                holds = holds || m_open(&w->m, &w->m.consumers[i], at);
            }
            passed++;
            if (holds || passed == steps) {
                assert_int_equal(is, holds);
                assert_int_equal(looked, w->m.events[at].meta.position);
                break;
            }
        }
        if (at == w->m.count) {
            assert_false(is);
            assert_true(looked == UINT64_MAX);
            return;
        }
        after = looked;
        at++;
    }
}

/* The newest acknowledged below any position, found in steps of a few chunks (W5). */
static void compare_newest_acknowledged(struct world *w, const struct m_consumer *c)
{
    uint64_t before = one_in(w, 2) ? UINT64_MAX : below(w, (unsigned)w->m.last_position + 100);
    uint64_t want = 0;
    struct dbk_stored found = {.position = 0};
    bool is = false;

    for (uint32_t i = 0; i < w->m.count; i++) {
        const struct dbk_event_meta *meta = &w->m.events[i].meta;

        if (meta->position < before && !m_before(&w->m, c, i) && c->marks[i].how == M_ACKED &&
            !meta->newer && !meta->damaged) {
            want = meta->position;
        }
    }
    do {
        uint64_t looked = 0;

        is = dbk_state_newest_acknowledged(w->s, c->id, before, 1 + below(w, 3), &found, &looked);
        assert_true(is || looked < before || before == 0);
        before = looked;
    } while (!is && before > 0);
    assert_int_equal(is, want != 0);
    assert_int_equal(found.position, want);
}

static void compare_figures(struct world *w, uint32_t consumer, int64_t now)
{
    struct daybook_consumer_stats is = {0};
    struct daybook_consumer_stats should = {0};
    int64_t next_expiry = 0;

    dbk_state_consumer_stats(w->s, consumer, now, &is);
    m_figures(&w->m, consumer, now, &should, &next_expiry);
    assert_int_equal(is.registered, should.registered);
    assert_int_equal(is.pending, should.pending);
    assert_int_equal(is.in_flight, should.in_flight);
    assert_int_equal(is.quarantined, should.quarantined);
    assert_int_equal(is.held_events, should.held_events);
    assert_int_equal(is.held_bytes, should.held_bytes);
    assert_int_equal(is.drained, should.drained);
    assert_int_equal(is.oldest_pending_age_us, should.oldest_pending_age_us);
    assert_int_equal(is.oldest_unresolved_age_us, should.oldest_unresolved_age_us);
    assert_int_equal(is.start, should.start);
    assert_true(is.start_at_us == should.start_at_us);
    assert_int_equal(is.newer_version, should.newer_version);
    if (should.registered) {
        assert_int_equal(dbk_state_next_expiry(w->s, consumer), next_expiry);
    }
}

static void compare_orphans(struct world *w)
{
    struct dbk_orphan is[M_ORPHANS];
    uint32_t count = dbk_state_orphans(w->s, w->now, is, M_ORPHANS);
    uint32_t expected = 0;

    for (uint32_t i = 0; i < w->m.orphan_count; i++) {
        const struct m_orphan *o = &w->m.orphans[i];
        bool found = false;

        if (!m_live(o->lease, w->now)) {
            continue;
        }
        expected++;
        for (uint32_t k = 0; k < count; k++) {
            found = found || (is[k].consumer == o->consumer && is[k].position == o->position &&
                              is[k].token == o->token && is[k].expires_at_us == o->lease.expires &&
                              is[k].lease_ms == (o->lease.expires - o->lease.granted) / 1000);
        }
        assert_true(found);
    }
    assert_int_equal(count, expected);
}

static void compare(struct world *w)
{
    const struct dbk_room *room = dbk_state_room(w->s);
    uint64_t segment_events[M_SEGMENTS + 1] = {0};
    struct dbk_counters counters;
    struct dbk_state_stats stats;
    uint64_t givable = 0;
    uint64_t droppable = 0;
    uint64_t bytes = 0;
    uint64_t damaged = 0;
    const char *wrong = dbk_state_audit(w->s);

    if (wrong != NULL) {
        fail_msg("audit: %s", wrong);
    }
    for (uint32_t i = 0; i < w->m.count; i++) {
        compare_event(w, i);
        givable += m_givable(&w->m, i) ? 1 : 0;
        droppable += m_quarantined_by_any(&w->m, i) ? 0 : 1;
        bytes += w->m.events[i].meta.payload_bytes;
        damaged += w->m.events[i].meta.damaged ? 1 : 0;
        segment_events[w->m.events[i].meta.place.segment_no]++;
    }
    assert_int_equal(atomic_load(&room->stored), w->m.count);
    assert_int_equal(atomic_load(&room->givable), givable);
    assert_int_equal(atomic_load(&room->droppable), droppable);
    for (uint32_t i = 1; i <= M_SEGMENTS; i++) {
        assert_int_equal(dbk_state_segment_events(w->s, i), segment_events[i]);
    }
    dbk_state_counters(w->s, &counters);
    assert_memory_equal(&counters, &w->m.counters, sizeof counters);
    dbk_state_stats(w->s, &stats);
    assert_int_equal(stats.stored_events, w->m.count);
    assert_int_equal(stats.stored_bytes, bytes);
    assert_int_equal(stats.damaged_events, damaged);
    assert_int_equal(stats.oldest_position, w->m.count == 0 ? 0 : w->m.events[0].meta.position);
    assert_int_equal(stats.newest_position,
                     w->m.count == 0 ? 0 : w->m.events[w->m.count - 1].meta.position);
    assert_true(stats.oldest_accepted_at_us ==
                (w->m.count == 0 ? DAYBOOK_TIME_UNSET : w->m.events[0].meta.accepted_at_us));

    assert_int_equal(dbk_state_consumer_count(w->s), w->m.consumer_count);
    assert_int_equal(dbk_state_next_consumer_id(w->s), w->m.next_consumer);
    for (uint32_t i = 0; i < w->m.consumer_count; i++) {
        const struct m_consumer *c = &w->m.consumers[i];
        struct dbk_consumer_restated restated;

        dbk_state_consumer_restate(w->s, i, &restated);
        assert_int_equal(restated.id, c->id);
        assert_string_equal(restated.name, c->name);
        assert_int_equal(restated.token_floor, c->floor);
        assert_true(restated.start.time_us == c->start_time);
        if (c->start_time == DAYBOOK_TIME_UNSET) {
            assert_int_equal(restated.start.position, c->start);
        }
        assert_int_equal(dbk_state_consumer_id(w->s, c->name), c->id);
        compare_newest_acknowledged(w, c);
        if (one_in(w, 3)) {
            compare_figures(w, c->id, w->now + (int64_t)below(w, 200) * SECOND - 100 * SECOND);
        }
    }
    compare_figures(w, 0, w->now);
    compare_where(w, (enum daybook_where)below(w, 3));
    compare_ids(w, below(w, 48));
    compare_orphans(w);
}

/* ---- operations --------------------------------------------------------------------------------------------- */

static uint64_t some_position(struct world *w)
{
    if (w->m.count == 0 || one_in(w, 20)) {
        return below(w, (uint32_t)w->next_position + 2);
    }
    return w->m.events[below(w, w->m.count)].meta.position;
}

static uint32_t some_consumer(struct world *w)
{
    if (w->m.consumer_count == 0 || one_in(w, 40)) {
        return one_in(w, 2) ? 0 : 99;
    }
    return w->m.consumers[below(w, w->m.consumer_count)].id;
}

static void move_clock(struct world *w)
{
    switch (below(w, 8)) {
    case 0:
        w->now += (int64_t)below(w, 40) * SECOND;
        return;
    case 1:
        w->now -= (int64_t)below(w, 40) * SECOND;
        return;
    case 2:
        w->now += (int64_t)below(w, 300) * SECOND - 150 * SECOND;
        return;
    case 3: /* exactly to an edge of some lease */
    case 4:
        for (uint32_t i = 0; i < w->m.count && w->m.consumer_count > 0; i++) {
            const struct m_mark *mark = &w->m.consumers[below(w, w->m.consumer_count)].marks[i];

            if (mark->lease.given && one_in(w, 3)) {
                w->now = one_in(w, 2) ? mark->lease.expires : mark->lease.granted - 60 * SECOND;
                w->now -= (int64_t)below(w, 2);
                return;
            }
        }
        return;
    default:
        w->now += (int64_t)below(w, 2000000);
    }
}

static struct dbk_place some_place(struct world *w)
{
    w->segment = one_in(w, 12) && w->segment < M_SEGMENTS ? w->segment + 1 : w->segment;
    return (struct dbk_place){
        .segment_no = w->segment, .offset = 8 * below(w, 1u << 27), .len = 200 + below(w, 1000)};
}

static void do_publish(struct world *w)
{
    struct frame *f = NULL;
    struct dbk_event_meta meta = {0};
    unsigned key = below(w, M_KEYS);
    bool rotten = one_in(w, 15);
    uint32_t staged = DBK_NOT_STAGED;

    if (w->m.count == M_EVENTS) {
        return;
    }
    w->next_position += one_in(w, 3) ? 0 : below(w, one_in(w, 4) ? 200 : 40);
    w->accepted_at = w->now > w->accepted_at ? w->now : w->accepted_at;
    meta =
        (struct dbk_event_meta){.position = w->next_position,
                                .id_hash = below(w, 48),
                                .key_hash = (uint64_t)(key % 3) << 32 | (key * 77 + 5),
                                .observed_at_us = w->accepted_at - (int64_t)below(w, 600) * SECOND,
                                .accepted_at_us = w->accepted_at,
                                .place = some_place(w),
                                .payload_bytes = 100 + (uint32_t)(w->next_position % 7) * 10,
                                .row_version = 1,
                                .newer = one_in(w, 14),
                                .damaged = one_in(w, 25)};
    meta.row_version = meta.newer ? 2 : 1;
    w->next_position++;
    for (uint32_t i = 0; i < M_STAGED; i++) {
        if (w->m.staged[i] && one_in(w, 2)) {
            staged = i;
            meta.id_hash = w->m.staged_hash[i];
            w->m.staged[i] = false;
            break;
        }
    }
    f = frame_new(w, FRAME_PUBLISH);
    f->meta = meta;
    dbk_state_publish(w->s, &meta, staged);
    m_publish(&w->m, &meta, key, rotten);
}

static void do_stage(struct world *w)
{
    uint32_t no = below(w, M_STAGED);

    if (w->m.staged[no]) {
        w->m.staged[no] = false;
        dbk_state_id_unstage(w->s, w->m.staged_hash[no], no);
    } else {
        w->m.staged[no] = true;
        w->m.staged_hash[no] = below(w, 48);
        dbk_state_id_stage(w->s, w->m.staged_hash[no], no);
    }
}

static void do_relocate(struct world *w)
{
    struct frame *f = NULL;
    struct dbk_event_meta meta = {0};

    if (w->m.count == 0) {
        return;
    }
    meta = w->m.events[below(w, w->m.count)].meta;
    meta.place = some_place(w);
    f = frame_new(w, FRAME_PUBLISH);
    f->meta = meta;
    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    m_publish(&w->m, &meta, 0, false);
}

static void do_damaged(struct world *w)
{
    uint64_t position = some_position(w);
    uint32_t at = m_find(&w->m, position);

    frame_new(w, FRAME_DAMAGED)->position = position;
    dbk_state_mark_damaged(w->s, position);
    if (at != M_EVENTS) {
        w->m.events[at].meta.damaged = true;
    }
}

static void do_register(struct world *w)
{
    struct daybook_start start = {.kind = (enum daybook_start_kind)below(w, 4)};
    struct frame *f = NULL;
    struct dbk_start is;
    struct dbk_start should;
    char name[8];

    if (w->m.consumer_count == M_CONSUMERS || (w->m.consumer_count > 0 && !one_in(w, 6))) {
        return;
    }
    if (start.kind == DAYBOOK_START_POSITION) {
        start.value = (int64_t)some_position(w);
    } else if (start.kind == DAYBOOK_START_TIME) {
        start.value = w->accepted_at + (int64_t)below(w, 200) * SECOND - 100 * SECOND;
    }
    is = dbk_state_resolve_start(w->s, start, w->next_position);
    should = m_start(&w->m, start, w->next_position);
    assert_int_equal(is.position, should.position);
    assert_true(is.time_us == should.time_us);
    f = frame_new(w, FRAME_REGISTER);
    f->consumer = w->m.next_consumer;
    f->start = is;
    (void)snprintf(name, sizeof name, "c%u", f->consumer);
    assert_int_equal(dbk_state_register(w->s, f->consumer, name, is), DAYBOOK_OK);
    m_register(&w->m, f->consumer, name, is);
}

static void do_retire(struct world *w)
{
    uint32_t consumer = some_consumer(w);

    if (!one_in(w, w->m.consumer_count > 1 ? 8 : 20)) {
        return;
    }
    frame_new(w, FRAME_RETIRE)->consumer = consumer;
    dbk_state_retire(w->s, consumer);
    (void)dbk_state_forget_ended(w->s);
    m_retire(&w->m, consumer);
}

static void do_operator(struct world *w)
{
    uint32_t consumer = some_consumer(w);
    uint64_t position = some_position(w);
    struct frame *f = NULL;

    /* where there is something to release, rather that */
    for (uint32_t i = 0; i < w->m.consumer_count; i++) {
        for (uint32_t k = 0; k < w->m.count; k++) {
            if (w->m.consumers[i].marks[k].how == M_QUARANTINED && one_in(w, 4)) {
                consumer = w->m.consumers[i].id;
                position = w->m.events[k].meta.position;
            }
        }
    }
    if (one_in(w, 3)) {
        f = frame_new(w, FRAME_DISCARD);
        dbk_state_discard(w->s, consumer, position);
        m_discard(&w->m, consumer, position);
    } else {
        f = frame_new(w, FRAME_RELEASE);
        dbk_state_release(w->s, consumer, position);
        m_release(&w->m, consumer, position);
    }
    f->consumer = consumer;
    f->position = position;
}

static void do_rewind(struct world *w)
{
    struct frame *f = NULL;

    if (!one_in(w, 5)) {
        return;
    }
    f = frame_new(w, FRAME_REWIND);
    f->consumer = some_consumer(w);
    f->token = w->next_token;
    f->now = w->now;
    dbk_state_rewind(w->s, f->consumer, f->token, f->now);
    m_rewind(&w->m, f->consumer, f->token, f->now);
}

/* ---- verdicts */

static struct daybook_hand_out some_hand_out(struct world *w, uint32_t *ret_consumer)
{
    uint32_t known = w->handed < HISTORY ? w->handed : HISTORY;
    struct daybook_hand_out hand_out = {.position = some_position(w),
                                        .token = below(w, (uint32_t)w->next_token + 1)};

    *ret_consumer = some_consumer(w);
    if (w->m.consumer_count > 0 && one_in(w, 3)) { /* the last hand-out of some event */
        const struct m_consumer *c = &w->m.consumers[below(w, w->m.consumer_count)];

        for (uint32_t i = 0; i < w->m.count; i++) {
            if (c->marks[i].token != 0 && one_in(w, 4)) {
                *ret_consumer = c->id;
                hand_out = (struct daybook_hand_out){.position = w->m.events[i].meta.position,
                                                     .token = c->marks[i].token};
                return hand_out;
            }
        }
    }
    if (known > 0 && !one_in(w, 12)) {
        /* mostly one of the last */
        uint32_t back = 1 + (one_in(w, 3) ? below(w, known) : below(w, known < 12 ? known : 12));
        uint32_t at = (w->handed - back) % HISTORY;

        hand_out = w->history[at].hand_out;
        if (!one_in(w, 25)) {
            *ret_consumer = w->history[at].consumer;
        }
    }
    return hand_out;
}

static void do_verdict(struct world *w, enum dbk_settle_op op)
{
    uint32_t set = 1 + (one_in(w, 3) ? below(w, 6) : 0);
    uint32_t lease_ms = 1 + below(w, 60000);
    struct daybook_hand_out previous = {0};
    uint32_t consumer = 0;

    for (uint32_t i = 0; i < set; i++) {
        struct daybook_hand_out hand_out = some_hand_out(w, &consumer);
        enum dbk_settle_op is_op = 0;
        enum dbk_settle_op should_op = 0;
        struct dbk_decision is;

        if (i > 0 && one_in(w, 3)) {
            hand_out = previous; /* twice in one set */
        }
        previous = hand_out;
        is = dbk_state_decide(w->s, consumer, op, hand_out, w->now, lease_ms, &is_op);
        same_decision(is, m_decide(&w->m, consumer, op, hand_out, w->now, lease_ms, &should_op));
        assert_int_equal(is_op, should_op);
        if (is.effect) {
            struct dbk_settle_entry entry = {hand_out.position, hand_out.token, is.attempt_after};
            struct frame *f = frame_new(w, FRAME_SETTLE);

            f->consumer = consumer;
            f->op = is_op;
            f->lease_ms = lease_ms;
            f->now = w->now;
            f->position = hand_out.position;
            f->token = hand_out.token;
            f->attempt = is.attempt_after;
            dbk_state_apply_settle(w->s, consumer, is_op, lease_ms, w->now, &entry, 1);
            assert_true(dbk_state_has_ended(w->s) == (dbk_state_forget_ended(w->s) > 0) ||
                        op == DBK_SETTLE_ACK);
            m_settle(&w->m, consumer, is_op, lease_ms, w->now, &entry);
            w->done[op]++;
        }
    }
}

static void do_quarantine(struct world *w)
{
    uint32_t consumer = 0;
    struct daybook_hand_out hand_out = some_hand_out(w, &consumer);
    struct dbk_decision is = dbk_state_decide_quarantine(w->s, consumer, hand_out);
    struct frame *f = NULL;

    same_decision(is, m_decide_quarantine(&w->m, consumer, hand_out));
    if (!is.effect) {
        return;
    }
    if (is.code == DAYBOOK_OK) {
        f = frame_new(w, FRAME_QUARANTINE);
        dbk_state_apply_quarantine(w->s, consumer, hand_out.position, DAYBOOK_REASON_REJECTED);
        m_quarantine(&w->m, consumer, hand_out.position);
        w->done[7]++;
    } else {
        struct dbk_settle_entry entry = {hand_out.position, hand_out.token, 0};

        f = frame_new(w, FRAME_SETTLE);
        f->op = DBK_SETTLE_GIVE_UP;
        dbk_state_apply_settle(w->s, consumer, DBK_SETTLE_GIVE_UP, 0, 0, &entry, 1);
        m_settle(&w->m, consumer, DBK_SETTLE_GIVE_UP, 0, 0, &entry);
    }
    f->consumer = consumer;
    f->position = hand_out.position;
    f->token = hand_out.token;
}

/* ---- claims, in their steps: other operations come in between */

static void show_walk(const struct world *w, uint32_t no)
{
    const struct dbk_walk *is = w->walks[no];
    const struct m_walk *should = &w->m_walks[no];
    const struct daybook_claim *claim = &should->claim;

    print_error("walk %u of consumer %u at %lld: events %u, bytes %llu, run %u, hand-outs %u\n", no,
                should->consumer, (long long)should->now, claim->events_max,
                (unsigned long long)claim->bytes_max, claim->key_run, claim->hand_outs_max);
    for (uint32_t i = 0; i < is->pick_count; i++) {
        print_error("is: %llu attempt %u%s\n", (unsigned long long)is->picks[i].position,
                    is->picks[i].attempt, is->picks[i].dropped ? " dropped" : "");
    }
    for (uint32_t i = 0; i < is->condemned_count; i++) {
        print_error("is condemned: %llu attempts %u\n",
                    (unsigned long long)is->condemned[i].position, is->condemned[i].attempts);
    }
    for (uint32_t i = 0; i < should->count; i++) {
        print_error("should: %llu key %u attempt %u%s%s\n",
                    (unsigned long long)should->items[i].position, should->items[i].key,
                    should->items[i].attempt, should->items[i].condemned ? " condemned" : "",
                    should->items[i].dropped ? " dropped" : "");
    }
}

static void compare_walk(struct world *w, uint32_t no)
{
    const struct dbk_walk *is = w->walks[no];
    const struct m_walk *should = &w->m_walks[no];
    uint32_t pick = 0;
    uint32_t condemned = 0;

    uint32_t withdrawn = 0;

    for (uint32_t i = 0; i < should->count; i++) {
        condemned += should->items[i].condemned ? 1 : 0;
        withdrawn += should->items[i].withdrawn ? 1 : 0;
    }
    if (is->pick_count != should->count - condemned - withdrawn ||
        is->condemned_count != condemned) {
        show_walk(w, no);
        fail_msg("a walk has chosen other events");
    }
    condemned = 0;
    for (uint32_t i = 0; i < should->count; i++) {
        const struct m_item *item = &should->items[i];

        if (item->withdrawn) {
            continue;
        }
        if (item->condemned) {
            bool found = false;

            condemned++;
            for (uint32_t k = 0; k < is->condemned_count; k++) {
                const struct dbk_condemned *c = &is->condemned[k];

                found = found || (c->position == item->position && c->reason == item->reason &&
                                  c->attempts == item->attempt);
            }
            assert_true(found);
        } else {
            const struct dbk_pick *p = &is->picks[pick++];
            uint32_t at = m_find(&w->m, item->position);

            assert_true(pick <= is->pick_count);
            assert_int_equal(p->position, item->position);
            assert_int_equal(p->attempt, item->attempt);
            assert_int_equal(p->hand_outs, item->hand_outs);
            assert_int_equal(p->redelivery, item->redelivery);
            assert_int_equal(p->dropped, item->dropped);
            if (at != M_EVENTS) {
                assert_int_equal(p->payload_bytes, w->m.events[at].meta.payload_bytes);
            }
        }
    }
    assert_int_equal(is->pick_count, pick);
    assert_int_equal(is->condemned_count, condemned);
    assert_int_equal(is->more, should->more);
}

static void walk_begin(struct world *w, uint32_t no)
{
    struct daybook_claim claim = {.events_max = one_in(w, 3) ? below(w, 4) : 16,
                                  .bytes_max = one_in(w, 4) ? 50 + below(w, 600) : 0,
                                  .key_run = 1 + below(w, 4),
                                  .lease_ms = 1,
                                  .hand_outs_max = 1 + below(w, 8)};
    uint32_t consumer = some_consumer(w);

    dbk_walk_begin(w->s, w->walks[no], consumer, &claim, w->now);
    m_walk_begin(&w->m, &w->m_walks[no], consumer, &claim, w->now);
    w->walking[no] = true;
}

static void walk_pick(struct world *w, uint32_t no)
{
    struct dbk_walk *is = w->walks[no];

    if (is->pick_count + is->condemned_count > 200) {
        return;
    }
    (void)dbk_walk_pick(w->s, is);
    m_walk_pick(&w->m, &w->m_walks[no]);
    compare_walk(w, no);
    w->done[8] += is->pick_count;
}

static void walk_drop(struct world *w, uint32_t no)
{
    for (uint32_t i = 0; i < w->walks[no]->pick_count; i++) {
        uint64_t position = w->walks[no]->picks[i].position;
        uint32_t at = m_find(&w->m, position);
        bool rotten = at != M_EVENTS && w->m.events[at].rotten;
        enum dbk_drop why = rotten ? DBK_DROP_MALFORMED : DBK_DROP_READ_ERROR;
        int64_t retry_at = w->m_walks[no].now + SECOND * (1 + below(w, 20));

        if (!rotten && !one_in(w, 12)) {
            continue;
        }
        dbk_walk_drop(w->s, w->walks[no], i, why, retry_at);
        m_walk_drop(&w->m, &w->m_walks[no], position, why, retry_at);
        w->done[why == DBK_DROP_MALFORMED ? 9 : 10]++;
    }
}

static void walk_finish(struct world *w, uint32_t no)
{
    struct dbk_walk *walk = w->walks[no];
    uint32_t consumer = walk->consumer;
    int64_t now = w->m_walks[no].now;
    uint32_t lease_ms = 1 + below(w, 60000);

    dbk_walk_settle(w->s, walk);
    m_walk_settle(&w->m, &w->m_walks[no]);
    compare_walk(w, no);
    for (uint32_t i = 0; i < walk->condemned_count; i++) {
        struct frame *f = frame_new(w, FRAME_QUARANTINE);

        f->consumer = consumer;
        f->position = walk->condemned[i].position;
        dbk_state_apply_quarantine(w->s, consumer, f->position, walk->condemned[i].reason);
        m_quarantine(&w->m, consumer, f->position);
        w->done[11]++;
    }
    for (uint32_t i = 0; i < walk->pick_count; i++) {
        struct frame *f = frame_new(w, FRAME_CLAIM);
        struct dbk_claim_entry entry = {walk->picks[i].position, walk->picks[i].attempt,
                                        walk->picks[i].hand_outs};

        f->consumer = consumer;
        f->lease_ms = lease_ms;
        f->now = now;
        f->token = w->next_token++;
        f->position = entry.position;
        f->attempt = entry.attempt;
        f->hand_outs = entry.hand_outs;
        dbk_state_apply_claim(w->s, consumer, lease_ms, now, f->token, &entry, 1);
        m_claimed(&w->m, consumer, lease_ms, now, f->token, &entry, 1);
        w->history[w->handed % HISTORY].consumer = consumer;
        w->history[w->handed % HISTORY].hand_out =
            (struct daybook_hand_out){entry.position, f->token};
        w->handed++;
        w->done[12]++;
    }
}

static void walk_end(struct world *w, uint32_t no)
{
    dbk_walk_end(w->s, w->walks[no]);
    m_walk_end(&w->m, &w->m_walks[no]);
    w->walking[no] = false;
}

static void do_walk(struct world *w)
{
    uint32_t no = below(w, WALKS);

    if (!w->walking[no]) {
        walk_begin(w, no);
        walk_pick(w, no);
        if (one_in(w, 2)) {
            return; /* something else comes first */
        }
    }
    if (one_in(w, 2)) {
        walk_drop(w, no);
        if (one_in(w, 2)) {
            return;
        }
    }
    if (one_in(w, 2)) {
        walk_pick(w, no);
        if (one_in(w, 3)) {
            return;
        }
    }
    if (!one_in(w, 8)) {
        walk_finish(w, no);
    }
    walk_end(w, no);
}

/* ---- retention */

/* What a step forgot is the beginning of what the model would give up, and the ranges say so exactly. */
static void compare_forgotten(struct world *w, const uint64_t *expected, uint32_t count,
                              enum dbk_forget_reason reason, const struct dbk_forget_list *list)
{
    bool gone[M_EVENTS] = {false};

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = m_find(&w->m, expected[i]);
        uint32_t covered = 0;

        gone[at] = true;
        for (uint32_t k = 0; k < list->count; k++) {
            if (list->ranges[k].first <= expected[i] && expected[i] < list->ranges[k].end) {
                covered++;
                assert_int_equal(list->ranges[k].reason, m_reason(&w->m, at, reason));
            }
        }
        assert_int_equal(covered, 1);
    }
    for (uint32_t i = 0; i < w->m.count; i++) {
        for (uint32_t k = 0; k < list->count && !gone[i]; k++) {
            uint64_t position = w->m.events[i].meta.position;

            assert_false(list->ranges[k].first <= position && position < list->ranges[k].end);
        }
    }
    for (uint32_t k = 0; k < list->count; k++) {
        frame_new(w, FRAME_FORGET)->range = list->ranges[k];
    }
    for (uint32_t i = 0; i < count; i++) {
        m_forget(&w->m, m_find(&w->m, expected[i]), reason);
    }
}

static void do_prune_or_reclaim(struct world *w)
{
    struct dbk_range ranges[RANGES];
    struct dbk_forget_list list = {.ranges = ranges, .max = one_in(w, 4) ? below(w, 3) : RANGES};
    uint64_t expected[M_EVENTS];
    bool prune = !one_in(w, 3);
    uint32_t events_max = 1 + below(w, 12);
    uint32_t could = prune ? m_prunable(&w->m, w->now, expected) : m_givables(&w->m, expected);
    uint32_t did = prune ? dbk_state_prune(w->s, w->now, events_max, &list)
                         : dbk_state_reclaim(w->s, events_max, &list);

    if (did < could && did < events_max) {
        assert_int_equal(list.count, list.max);
    } else {
        assert_int_equal(did, could < events_max ? could : events_max);
    }
    compare_forgotten(w, expected, did, prune ? DBK_FORGET_PRUNED : DBK_FORGET_RECLAIMED, &list);
    w->done[prune ? 13 : 14] += did;
}

/* Ranges that dropping the first so many takes. */
static uint32_t ranges_needed(const struct world *w, const uint64_t *positions, uint32_t count)
{
    uint32_t ranges = 0;
    uint32_t before = M_EVENTS;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = m_find(&w->m, positions[i]);

        if (before == M_EVENTS || at != before + 1 ||
            m_reason(&w->m, at, DBK_FORGET_DROPPED) !=
                m_reason(&w->m, before, DBK_FORGET_DROPPED)) {
            ranges++;
        }
        before = at;
    }
    return ranges;
}

static void do_drop(struct world *w)
{
    struct dbk_range ranges[RANGES];
    struct dbk_forget_list list = {.ranges = ranges, .max = one_in(w, 4) ? below(w, 4) : RANGES};
    struct dbk_orphan orphans[M_EVENTS * M_CONSUMERS];
    struct dbk_orphan expected_orphans[M_EVENTS * M_CONSUMERS];
    uint64_t expected[M_EVENTS];
    uint32_t orphans_max = one_in(w, 4) ? below(w, 3) : M_EVENTS * M_CONSUMERS;
    uint32_t events = 1 + below(w, one_in(w, 6) ? M_EVENTS : 6);
    uint32_t could = m_droppables(&w->m, expected);
    uint32_t orphan_count = 0;
    uint32_t live = 0;
    uint32_t did = 0;

    for (uint32_t i = 0; i < events && i < could; i++) {
        uint32_t at = m_find(&w->m, expected[i]);

        for (uint32_t k = 0; k < w->m.consumer_count; k++) {
            const struct m_consumer *c = &w->m.consumers[k];

            live += m_open(&w->m, c, at) && m_live(c->marks[at].lease, w->now) ? 1 : 0;
        }
    }
    if (could < events || live > orphans_max || ranges_needed(w, expected, events) > list.max ||
        w->m.orphan_count + live > M_ORPHANS) {
        events = could < events || w->m.orphan_count + live <= M_ORPHANS ? events : 0;
        if (events > 0) {
            assert_int_equal(
                dbk_state_drop(w->s, events, w->now, &list, orphans, orphans_max, &orphan_count),
                0);
            assert_int_equal(list.count, 0);
        }
        return;
    }
    did = dbk_state_drop(w->s, events, w->now, &list, orphans, orphans_max, &orphan_count);
    assert_int_equal(did, events);
    assert_int_equal(orphan_count, live);
    live = 0;
    for (uint32_t i = 0; i < events; i++) {
        live += m_orphans_of(&w->m, expected[i], w->now, &expected_orphans[live]);
    }
    for (uint32_t i = 0; i < live; i++) {
        assert_int_equal(orphans[i].consumer, expected_orphans[i].consumer);
        assert_int_equal(orphans[i].lease_ms, expected_orphans[i].lease_ms);
        assert_int_equal(orphans[i].position, expected_orphans[i].position);
        assert_int_equal(orphans[i].token, expected_orphans[i].token);
        assert_int_equal(orphans[i].expires_at_us, expected_orphans[i].expires_at_us);
        assert_int_equal(orphans[i].key_hash, expected_orphans[i].key_hash);
    }
    compare_forgotten(w, expected, did, DBK_FORGET_DROPPED, &list);
    for (uint32_t i = 0; i < live; i++) {
        frame_new(w, FRAME_ORPHAN)->orphan = orphans[i];
    }
    w->done[15] += did;
    w->done[16] += live;
}

/* ---- replay */

static void replay(struct world *w)
{
    struct dbk_state *fresh = NULL;

    for (uint32_t no = 0; no < WALKS; no++) {
        if (w->walking[no]) {
            walk_end(w, no);
        }
    }
    fresh = state_new(w);
    for (size_t i = 0; i < w->frame_count; i++) {
        frame_apply(fresh, &w->frames[i]);
        frame_apply(fresh, &w->frames[i]);
    }
    dbk_state_free(w->s);
    w->s = fresh;
    /* read errors, what is staged and the clocks of the consumers are of the process that died */
    for (uint32_t i = 0; i < M_STAGED; i++) {
        w->m.staged[i] = false;
    }
    for (uint32_t i = 0; i < w->m.consumer_count; i++) {
        memset(w->m.consumers[i].holds, 0, sizeof w->m.consumers[i].holds);
        w->m.consumers[i].clock = 0;
    }
    compare(w);
}

static void step(struct world *w)
{
    uint32_t what = below(w, 120);

    move_clock(w);
    if (what < 30 && (w->m.count < M_EVENTS / 2 || one_in(w, 2))) {
        do_publish(w);
    } else if (what < 62) {
        do_walk(w);
    } else if (what < 76) {
        do_verdict(w, DBK_SETTLE_ACK);
    } else if (what < 86) {
        do_verdict(w, (enum dbk_settle_op)(DBK_SETTLE_REFUND + below(w, 3)));
    } else if (what < 90) {
        do_quarantine(w);
    } else if (what < 96) {
        do_operator(w);
    } else if (what < 104) {
        do_prune_or_reclaim(w);
    } else if (what < 107) {
        do_drop(w);
    } else if (what < 109) {
        do_register(w);
    } else if (what < 112) {
        do_retire(w);
    } else if (what < 115) {
        do_rewind(w);
    } else if (what < 118) {
        do_stage(w);
    } else if (what < 119) {
        do_relocate(w);
    } else {
        do_damaged(w);
    }
}

static void run(uint64_t seed, uint32_t operations)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->random = seed;
    w->now = 10000 * SECOND;
    w->accepted_at = w->now;
    w->next_position = 1;
    w->next_token = 1;
    w->segment = 1;
    w->m.next_consumer = 1;
    w->m.retain_us = (int64_t)below(w, 30) * SECOND;
    w->m.attempts_max = 3;
    w->s = state_new(w);
    for (uint32_t no = 0; no < WALKS; no++) {
        w->m_walks[no].no = no;
        assert_int_equal(dbk_walk_new(64, &w->walks[no]), DAYBOOK_OK);
    }
    for (uint32_t i = 1; i <= operations; i++) {
        step(w);
        compare(w);
        if (i % REPLAY_EVERY == 0) {
            replay(w);
        }
    }
    print_message(
        "# seed %llu: accepted %llu, picked %llu, handed out %llu, condemned %llu, dropped "
        "%llu (leased %llu), pruned %llu, reclaimed %llu, acks %llu, refunds %llu, "
        "extended %llu, given up %llu, quarantined %llu\n",
        (unsigned long long)seed, (unsigned long long)w->m.counters.accepted,
        (unsigned long long)w->done[8], (unsigned long long)w->done[12],
        (unsigned long long)w->done[11], (unsigned long long)w->done[15],
        (unsigned long long)w->done[16], (unsigned long long)w->done[13],
        (unsigned long long)w->done[14], (unsigned long long)w->done[1],
        (unsigned long long)w->done[2], (unsigned long long)w->done[3],
        (unsigned long long)w->done[4], (unsigned long long)w->done[7]);
    for (uint32_t no = 0; no < WALKS; no++) {
        dbk_walk_free(w->walks[no]);
    }
    dbk_state_free(w->s);
    free(w->frames);
    free(w);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void test_C1_to_S5_random_operations_equal_the_model(void **state)
{
    uint64_t only = from_environment("DAYBOOK_SEED", 0);
    uint32_t operations = (uint32_t)from_environment("DAYBOOK_OPERATIONS", OPERATIONS);

    (void)state;
    for (uint64_t seed = only == 0 ? 1 : only; seed <= (only == 0 ? 3 : only); seed++) {
        print_message("# seed %llu\n", (unsigned long long)seed);
        run(seed, operations);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C1_to_S5_random_operations_equal_the_model),
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
