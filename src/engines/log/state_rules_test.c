/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine's memory, rule by rule: each test names the rule of the contract that it holds. The
 * audit runs when a test ends. What combinations of rules come to is held by state_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engines/log/state.h"

#define SECOND INT64_C(1000000)
#define LEASE_MS 30000u
#define LEASE_US (30 * SECOND)
#define SKEW_US (60 * SECOND)
#define WALK_EVENTS 256u
#define SEGMENT 1u

struct world {
    struct dbk_state *s;
    struct dbk_walk *walk;
    uint64_t next_position;
    uint64_t token; /* the last one handed out */
    int64_t accepted_at_us;
    struct dbk_range ranges[64];
    struct dbk_forget_list list;
};

static int setup(void **state)
{
    static struct world w;
    struct dbk_state_options options = {.events_max = 4096,
                                        .stored_max = 4096,
                                        .staged_max = 16,
                                        .retain_us = 3600 * SECOND,
                                        .attempts_max = 3,
                                        .orphans_max = 2,
                                        .policy = DAYBOOK_POLICY_DROP_OLDEST};

    memset(&w, 0, sizeof w);
    w.next_position = 1;
    w.accepted_at_us = 1000 * SECOND;
    w.list.ranges = w.ranges;
    w.list.max = 64;
    assert_int_equal(dbk_state_new(&options, &w.s), DAYBOOK_OK);
    assert_int_equal(dbk_walk_new(WALK_EVENTS, &w.walk), DAYBOOK_OK);
    assert_int_equal(dbk_state_add_segment(w.s, SEGMENT), DAYBOOK_OK);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    const char *wrong = dbk_state_audit(w->s);

    if (wrong != NULL) {
        print_error("audit: %s\n", wrong);
    }
    dbk_walk_free(w->walk);
    dbk_state_free(w->s);
    return wrong == NULL ? 0 : -1;
}

static struct dbk_event_meta meta_of(struct world *w, uint64_t key)
{
    uint64_t position = w->next_position++;

    return (struct dbk_event_meta){
        .position = position,
        .id_hash = position * UINT64_C(0x9e3779b97f4a7c15),
        .key_hash = key * UINT64_C(0xc2b2ae3d27d4eb4f),
        .observed_at_us = w->accepted_at_us,
        .accepted_at_us = w->accepted_at_us,
        .place = {.segment_no = SEGMENT, .offset = (uint32_t)position * 8, .len = 200},
        .payload_bytes = 100,
        .row_version = 1};
}

static uint64_t publish(struct world *w, uint64_t key)
{
    struct dbk_event_meta meta = meta_of(w, key);

    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    return meta.position;
}

static void publish_newer(struct world *w, uint64_t key)
{
    struct dbk_event_meta meta = meta_of(w, key);

    meta.newer = true;
    meta.row_version = 2;
    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
}

static uint32_t registered(struct world *w, const char *name)
{
    uint32_t id = dbk_state_next_consumer_id(w->s);
    struct daybook_start start = {.kind = DAYBOOK_START_OLDEST};

    assert_int_equal(
        dbk_state_register(w->s, id, name, dbk_state_resolve_start(w->s, start, w->next_position)),
        DAYBOOK_OK);
    return id;
}

static struct daybook_claim asked(uint32_t events_max, uint32_t key_run)
{
    return (struct daybook_claim){
        .events_max = events_max, .key_run = key_run, .lease_ms = LEASE_MS};
}

/* The last part of a claim: what the walk has left is condemned and handed out. */
static uint32_t finish(struct world *w, uint32_t consumer, const struct daybook_claim *claim,
                       int64_t now_us)
{
    struct dbk_claim_entry entries[WALK_EVENTS];

    dbk_walk_settle(w->s, w->walk);
    for (uint32_t i = 0; i < w->walk->condemned_count; i++) {
        dbk_state_apply_quarantine(w->s, consumer, w->walk->condemned[i].position,
                                   w->walk->condemned[i].reason);
    }
    for (uint32_t i = 0; i < w->walk->pick_count; i++) {
        entries[i] = (struct dbk_claim_entry){.position = w->walk->picks[i].position,
                                              .attempt = w->walk->picks[i].attempt,
                                              .hand_outs = w->walk->picks[i].hand_outs};
    }
    dbk_state_apply_claim(w->s, consumer, claim->lease_ms, now_us, w->token + 1, entries,
                          w->walk->pick_count);
    w->token += w->walk->pick_count;
    dbk_walk_end(w->s, w->walk);
    return w->walk->pick_count;
}

/* A whole claim; the picks stay in w->walk, the i-th token is w->token - count + 1 + i. */
static uint32_t claim(struct world *w, uint32_t consumer, uint32_t events_max, uint32_t key_run,
                      int64_t now_us)
{
    struct daybook_claim c = asked(events_max, key_run);

    dbk_walk_begin(w->s, w->walk, consumer, &c, now_us);
    (void)dbk_walk_pick(w->s, w->walk);
    return finish(w, consumer, &c, now_us);
}

static void picked(const struct world *w, size_t count, const uint64_t *positions)
{
    assert_int_equal(w->walk->pick_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(w->walk->picks[i].position, positions[i]);
    }
}

static enum daybook_code settle(struct world *w, uint32_t consumer, enum dbk_settle_op op,
                                uint64_t position, uint64_t token, int64_t now_us)
{
    enum dbk_settle_op to_log = 0;
    struct dbk_decision d = dbk_state_decide(
        w->s, consumer, op, (struct daybook_hand_out){position, token}, now_us, LEASE_MS, &to_log);
    struct dbk_settle_entry entry = {
        .position = position, .token = token, .attempt_after = d.attempt_after};

    if (d.effect) {
        dbk_state_apply_settle(w->s, consumer, to_log, LEASE_MS, now_us, &entry, 1);
        (void)dbk_state_forget_ended(w->s);
    }
    return d.code;
}

static enum daybook_code ack(struct world *w, uint32_t consumer, uint64_t position, uint64_t token)
{
    return settle(w, consumer, DBK_SETTLE_ACK, position, token, 0);
}

static enum daybook_code quarantine(struct world *w, uint32_t consumer, uint64_t position,
                                    uint64_t token)
{
    struct dbk_decision d =
        dbk_state_decide_quarantine(w->s, consumer, (struct daybook_hand_out){position, token});

    if (d.effect && d.code == DAYBOOK_OK) {
        dbk_state_apply_quarantine(w->s, consumer, position, DAYBOOK_REASON_REJECTED);
    }
    return d.code;
}

static uint64_t stored(const struct world *w)
{
    return atomic_load(&dbk_state_room(w->s)->stored);
}

/* ---- ids ------------------------------------------------------------------------------------------- */

static void test_A2_an_id_leads_to_staged_then_to_stored(void **state)
{
    struct world *w = *state;
    struct dbk_event_meta meta = meta_of(w, 1);
    struct dbk_id_match match;
    uint32_t cursor = 0;

    assert_false(dbk_state_id_find(w->s, meta.id_hash, &cursor, &match));
    dbk_state_id_stage(w->s, meta.id_hash, 3);
    cursor = 0;
    assert_true(dbk_state_id_find(w->s, meta.id_hash, &cursor, &match));
    assert_true(match.staged);
    assert_int_equal(match.staged_no, 3);
    assert_false(dbk_state_id_find(w->s, meta.id_hash, &cursor, &match));

    dbk_state_publish(w->s, &meta, 3);
    cursor = 0;
    assert_true(dbk_state_id_find(w->s, meta.id_hash, &cursor, &match));
    assert_false(match.staged);
    assert_int_equal(match.position, meta.position);
    assert_int_equal(match.place.offset, meta.place.offset);
    assert_int_equal(match.place.len, meta.place.len);
    assert_int_equal(match.row_version, 1);
    assert_false(dbk_state_id_find(w->s, meta.id_hash, &cursor, &match));
}

static void test_A2_equal_hashes_are_all_found(void **state)
{
    struct world *w = *state;
    struct dbk_id_match match;
    uint32_t cursor = 0;
    uint64_t seen = 0;

    for (unsigned i = 0; i < 3; i++) {
        struct dbk_event_meta meta = meta_of(w, i);

        meta.id_hash = 42;
        dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    }
    dbk_state_id_stage(w->s, 42, 0);
    while (dbk_state_id_find(w->s, 42, &cursor, &match)) {
        seen |= UINT64_C(1) << (match.staged ? 0 : match.position);
    }
    assert_int_equal(seen, 0xf);
    dbk_state_id_unstage(w->s, 42, 0);
    cursor = 0;
    while (dbk_state_id_find(w->s, 42, &cursor, &match)) {
        assert_false(match.staged);
    }
}

static void test_A1_a_position_published_twice_is_one_event(void **state)
{
    struct world *w = *state;
    struct dbk_event_meta meta = meta_of(w, 1);
    struct dbk_stored found;

    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    assert_int_equal(dbk_state_add_segment(w->s, 2), DAYBOOK_OK);
    meta.place = (struct dbk_place){.segment_no = 2, .offset = 8, .len = 200};
    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    assert_int_equal(stored(w), 1);
    assert_true(dbk_state_get(w->s, meta.position, &found));
    assert_int_equal(found.place.segment_no, 2);
    assert_int_equal(dbk_state_segment_events(w->s, 1), 0);
    assert_int_equal(dbk_state_segment_events(w->s, 2), 1);
    dbk_state_apply_forget(w->s,
                           (struct dbk_range){meta.position, meta.position + 1, DBK_FORGET_PRUNED});
    dbk_state_publish(w->s, &meta, DBK_NOT_STAGED);
    assert_int_equal(stored(w), 0); /* a replay brings nothing back */
}

/* ---- claims ------------------------------------------------------------------------------------------ */

static void test_C2_order_of_position_attempt_and_redelivery(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 2);
    publish(w, 3);
    assert_int_equal(claim(w, c, 2, 1, 0), 2);
    picked(w, 2, (uint64_t[]){1, 2});
    assert_true(w->walk->more);
    assert_int_equal(w->walk->picks[0].attempt, 1);
    assert_false(w->walk->picks[0].redelivery);
    assert_int_equal(claim(w, c, 8, 1, LEASE_US), 3);
    picked(w, 3, (uint64_t[]){1, 2, 3});
    assert_false(w->walk->more);
    assert_int_equal(w->walk->picks[0].attempt, 2);
    assert_int_equal(w->walk->picks[0].hand_outs, 2);
    assert_true(w->walk->picks[0].redelivery);
    assert_false(w->walk->picks[2].redelivery);
}

static void test_C4_one_event_of_a_key_the_oldest(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 1);
    publish(w, 2);
    assert_int_equal(claim(w, c, 8, 1, 0), 2);
    picked(w, 2, (uint64_t[]){1, 3});
    assert_int_equal(claim(w, c, 8, 1, 0), 0);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){2});
}

static void test_C4_a_key_with_a_lease_anywhere_is_busy(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 1, 1, 0), 1); /* 2 */
    dbk_state_release(w->s, c, 1);             /* older than what is leased */
    assert_int_equal(claim(w, c, 8, 4, 0), 0);
    assert_int_equal(claim(w, c, 8, 4, LEASE_US), 2);
    picked(w, 2, (uint64_t[]){1, 2});
    assert_int_equal(w->walk->picks[0].attempt, 1); /* a fresh budget */
    assert_true(w->walk->picks[0].redelivery);
}

static void test_C4b_runs_are_units(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 2);
    publish(w, 1);
    publish(w, 2);
    publish(w, 1);
    assert_int_equal(claim(w, c, 8, 2, 0), 4);
    picked(w, 4, (uint64_t[]){1, 2, 3, 4});
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 8, 2, 0), 0); /* 3 is still leased */
    assert_int_equal(ack(w, c, 3, 3), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 8, 2, 0), 1);
    picked(w, 1, (uint64_t[]){5});
}

static void test_C4c_ends_at_the_bytes_but_the_first_fits(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 1);

    publish(w, 1);
    publish(w, 2);
    publish(w, 3);
    wanted.bytes_max = 50;
    dbk_walk_begin(w->s, w->walk, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 1);
    assert_true(w->walk->more);
    dbk_walk_end(w->s, w->walk);
    wanted.bytes_max = 200;
    dbk_walk_begin(w->s, w->walk, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 2);
    assert_true(w->walk->more);
    dbk_walk_end(w->s, w->walk);
}

static void test_C4c_after_an_exhausted_one_the_next_in_the_same_claim(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    int64_t now = 0;

    publish(w, 1);
    for (uint32_t i = 0; i < 3; i++, now += LEASE_US) {
        assert_int_equal(claim(w, c, 1, 1, now), 1);
        assert_int_equal(w->walk->picks[0].attempt, i + 1);
    }
    publish(w, 1);
    assert_int_equal(claim(w, c, 8, 1, now), 1);
    picked(w, 1, (uint64_t[]){2});
    assert_int_equal(w->walk->condemned_count, 1); /* C6 */
    assert_int_equal(w->walk->condemned[0].position, 1);
    assert_int_equal(w->walk->condemned[0].attempts, 3);
    assert_int_equal(w->walk->condemned[0].reason, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED);
    assert_int_equal(ack(w, c, 1, 3), DAYBOOK_QUARANTINED);
}

static void test_C4c_after_a_malformed_one_the_next_in_the_next_claim(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(2, 2);

    publish(w, 1);
    publish(w, 1);
    publish(w, 2);
    dbk_walk_begin(w->s, w->walk, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 2);
    dbk_walk_drop(w->s, w->walk, 0, DBK_DROP_MALFORMED, 0);
    assert_true(w->walk->picks[1].dropped);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 1);
    assert_int_equal(finish(w, c, &wanted, 0), 1);
    picked(w, 1, (uint64_t[]){3});
    assert_int_equal(w->walk->condemned_count, 1); /* C7 */
    assert_int_equal(w->walk->condemned[0].position, 1);
    assert_int_equal(w->walk->condemned[0].reason, DAYBOOK_REASON_MALFORMED);
    assert_int_equal(claim(w, c, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){2});
    assert_int_equal(w->walk->picks[0].attempt, 1); /* given back unspent */
}

static void test_C4c_behind_a_malformed_one_nothing_is_condemned(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 2);
    int64_t now = 0;

    publish(w, 1); /* will be found malformed */
    publish(w, 1); /* known to be damaged */
    dbk_state_mark_damaged(w->s, 2);
    dbk_walk_begin(w->s, w->walk, c, &wanted, now);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 1);
    assert_int_equal(w->walk->condemned_count, 1);
    dbk_walk_drop(w->s, w->walk, 0, DBK_DROP_MALFORMED, 0);
    assert_int_equal(finish(w, c, &wanted, now), 0);
    assert_int_equal(w->walk->condemned_count, 1);
    assert_int_equal(w->walk->condemned[0].position, 1);
}

static void test_C7_a_read_error_is_no_verdict(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 4);

    publish(w, 1);
    publish(w, 1);
    publish(w, 1);
    dbk_walk_begin(w->s, w->walk, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 3);
    dbk_walk_drop(w->s, w->walk, 1, DBK_DROP_READ_ERROR, SECOND);
    assert_int_equal(finish(w, c, &wanted, 0), 1);
    assert_int_equal(w->walk->condemned_count, 0);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 8, 4, SECOND - 1), 0);
    assert_int_equal(claim(w, c, 8, 4, SECOND), 2);
    assert_int_equal(w->walk->picks[0].attempt, 1);
}

static void test_C5_live_between_grant_less_skew_and_expiry(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    int64_t granted = 1000 * SECOND;

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, granted), 1);
    assert_int_equal(claim(w, c, 1, 1, granted + LEASE_US - 1), 0);
    assert_int_equal(claim(w, c, 1, 1, granted - SKEW_US), 0);
    assert_int_equal(claim(w, c, 1, 1, granted - SKEW_US - 1), 1);
    /* now it is leased at 939.999999 s: what an earlier clock hid comes back with the clock */
    assert_int_equal(claim(w, c, 1, 1, granted), 1);
}

static void test_C5_a_lapsed_lease_is_live_again_when_the_clock_goes_back(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim nothing = asked(0, 1);

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    dbk_walk_begin(w->s, w->walk, c, &nothing, 10 * LEASE_US);
    dbk_walk_end(w->s, w->walk);
    assert_int_equal(claim(w, c, 1, 1, SECOND), 0);
    assert_int_equal(claim(w, c, 1, 1, 10 * LEASE_US), 1);
}

static void test_C8_two_walks_never_take_of_one_key(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 1);
    struct dbk_walk *other = NULL;

    publish(w, 1);
    publish(w, 1);
    publish(w, 2);
    assert_int_equal(dbk_walk_new(8, &other), DAYBOOK_OK);
    wanted.events_max = 1;
    dbk_walk_begin(w->s, other, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, other), 1);
    assert_int_equal(claim(w, c, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){3});
    dbk_walk_end(w->s, other); /* given up: nothing happened */
    assert_int_equal(claim(w, c, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){1});
    dbk_walk_free(other);
}

static void test_C9_a_newer_row_ends_its_key_and_no_other(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_consumer_stats stats;

    publish(w, 1);
    publish_newer(w, 1);
    publish(w, 1);
    publish(w, 2);
    assert_int_equal(claim(w, c, 8, 4, 0), 2);
    picked(w, 2, (uint64_t[]){1, 4});
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 8, 4, 0), 0);
    dbk_state_consumer_stats(w->s, c, 0, &stats);
    assert_int_equal(stats.newer_version, 1);
    assert_int_equal(stats.pending, 2);
}

static void test_C1_start_position_and_time(void **state)
{
    struct world *w = *state;
    struct daybook_start at_time = {.kind = DAYBOOK_START_TIME, .value = 5000 * SECOND};
    struct daybook_start now = {.kind = DAYBOOK_START_NOW};
    struct daybook_consumer_stats stats;
    struct dbk_consumer_restated restated;

    publish(w, 1);
    assert_int_equal(dbk_state_register(w->s, 7, "late",
                                        dbk_state_resolve_start(w->s, at_time, w->next_position)),
                     DAYBOOK_OK);
    assert_int_equal(
        dbk_state_register(w->s, 8, "now", dbk_state_resolve_start(w->s, now, w->next_position)),
        DAYBOOK_OK);
    assert_int_equal(dbk_state_next_consumer_id(w->s), 9);
    publish(w, 1);
    assert_int_equal(claim(w, 7, 8, 1, 0), 0);
    assert_int_equal(claim(w, 8, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){2});
    assert_int_equal(ack(w, 8, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(ack(w, 8, 2, 1), DAYBOOK_OK);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 2); /* P2 */
    dbk_state_consumer_restate(w->s, 0, &restated);
    assert_int_equal(restated.start.time_us, 5000 * SECOND);
    w->accepted_at_us = 5001 * SECOND;
    publish(w, 1);
    assert_int_equal(claim(w, 7, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){3});
    dbk_state_consumer_stats(w->s, 7, 0, &stats);
    assert_int_equal(stats.start, 3);
    dbk_state_consumer_restate(w->s, 0, &restated);
    assert_int_equal(restated.start.position, 3);
    assert_true(restated.start.time_us == DAYBOOK_TIME_UNSET);
}

/* ---- verdicts ------------------------------------------------------------------------------------------ */

static void test_K1_a_late_ack_is_honoured(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(claim(w, c, 1, 1, LEASE_US), 1);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(ack(w, c, 1, 2), DAYBOOK_OK);
    assert_int_equal(claim(w, c, 1, 1, 9 * LEASE_US), 0);
}

static void test_K2_order_of_evaluation(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 2);
    publish(w, 3);
    /* not held, then unknown consumer, then never handed out */
    assert_int_equal(ack(w, 0, 99, 1), DAYBOOK_OK);
    assert_int_equal(quarantine(w, c, 99, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(settle(w, 0, DBK_SETTLE_REFUND, 99, 1, 0), DAYBOOK_OK);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 99, 1, 0), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(ack(w, 0, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(quarantine(w, 0, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(settle(w, 0, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(claim(w, c, 3, 1, 0), 3);
    /* the two verdicts exclude each other */
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_ALREADY_ACKNOWLEDGED);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_OK);
    assert_int_equal(quarantine(w, c, 2, 2), DAYBOOK_OK);
    assert_int_equal(quarantine(w, c, 2, 2), DAYBOOK_OK);
    assert_int_equal(ack(w, c, 2, 2), DAYBOOK_QUARANTINED);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 2, 2, 0), DAYBOOK_OK);
    dbk_state_discard(w->s, c, 3);
    assert_int_equal(ack(w, c, 3, 3), DAYBOOK_OK);
}

static void test_K3_after_rewind_only_leases_live_then(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 2);
    publish(w, 3);
    assert_int_equal(claim(w, c, 2, 1, 0), 2);        /* tokens 1, 2 */
    assert_int_equal(claim(w, c, 3, 1, LEASE_US), 3); /* 3, 4, 5 */
    assert_int_equal(ack(w, c, 1, 3), DAYBOOK_OK);
    assert_int_equal(settle(w, c, DBK_SETTLE_GIVE_UP, 2, 4, LEASE_US), DAYBOOK_OK);
    dbk_state_rewind(w->s, c, 6, LEASE_US);
    w->token = 5;
    assert_int_equal(ack(w, c, 1, 3), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(ack(w, c, 2, 4), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(claim(w, c, 8, 1, LEASE_US), 2); /* 3 is still leased */
    picked(w, 2, (uint64_t[]){1, 2});
    assert_int_equal(w->walk->picks[0].attempt, 1);
    assert_true(w->walk->picks[0].redelivery);
    assert_int_equal(claim(w, c, 8, 1, 9 * LEASE_US), 3);
    assert_int_equal(ack(w, c, 3, 5), DAYBOOK_OK); /* live then, lapsed since */
}

static void test_K3_release_lets_a_late_ack_in(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_OK);
    dbk_state_release(w->s, c, 1);
    assert_int_equal(dbk_state_attempts(w->s, c, 1), 0);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
}

static void test_K3_what_was_live_at_a_rewind_outlasts_a_release(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    dbk_state_rewind(w->s, c, 2, SECOND);
    dbk_state_rewind(w->s, c, 2, SECOND); /* a replay says it twice */
    assert_int_equal(claim(w, c, 1, 1, LEASE_US), 1);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_OK);
    dbk_state_release(w->s, c, 1);
    assert_int_equal(claim(w, c, 1, 1, LEASE_US), 1);
    assert_int_equal(w->walk->picks[0].attempt, 1);
    dbk_state_rewind(w->s, c, 4, 9 * LEASE_US); /* nothing is live now */
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(ack(w, c, 1, 3), DAYBOOK_NOT_OUTSTANDING);
}

/* Behind a released event its key goes on at the next unresolved one, however many acknowledged ones of it,
 * and unresolved ones of others, lie between. */
static void test_K3_a_key_goes_on_far_behind_a_released_event(void **state)
{
    enum { OF_KEY = 1500, OTHERS = 150 };
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    for (uint32_t others = 0; others <= OTHERS; others += OTHERS) {
        uint64_t first = publish(w, 1 + others);
        for (uint32_t i = 0; i < OF_KEY; i++) {
            struct dbk_settle_entry entry = {.position = publish(w, 1 + others)};
            dbk_state_apply_settle(w->s, c, DBK_SETTLE_ACK, 0, 0, &entry, 1);
            if (i % 10 == 0 && others > 0) {
                publish(w, 1000 + i);
            }
        }
        uint64_t last = publish(w, 1 + others);
        dbk_state_apply_quarantine(w->s, c, first, DAYBOOK_REASON_REJECTED);
        dbk_state_release(w->s, c, first);
        assert_int_equal(claim(w, c, 1, 1, 0), 1);
        picked(w, 1, &first);
        assert_int_equal(ack(w, c, first, w->token), DAYBOOK_OK);
        assert_int_equal(claim(w, c, WALK_EVENTS, 1, 0), others + 1);
        assert_int_equal(w->walk->picks[others].position, last);
    }
}

static void test_R1_a_frame_of_an_older_hand_out_changes_nothing(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct dbk_settle_entry older = {.position = 1, .token = 1, .attempt_after = 0};

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(claim(w, c, 1, 1, LEASE_US), 1);
    dbk_state_apply_settle(w->s, c, DBK_SETTLE_REFUND, 0, 0, &older, 1);
    dbk_state_apply_settle(w->s, c, DBK_SETTLE_GIVE_UP, 0, 0, &older, 1);
    dbk_state_apply_settle(w->s, c, DBK_SETTLE_EXTEND, 900000, LEASE_US, &older, 1);
    assert_int_equal(dbk_state_attempts(w->s, c, 1), 2);
    assert_int_equal(dbk_state_next_expiry(w->s, c), 2 * LEASE_US);
}

static void test_R1_once_a_hand_out_and_the_lease_stays(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_OK);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_OK);
    assert_int_equal(dbk_state_attempts(w->s, c, 1), 0);
    assert_int_equal(claim(w, c, 1, 1, LEASE_US - 1), 0);
    assert_int_equal(claim(w, c, 1, 1, LEASE_US), 1);
    assert_int_equal(w->walk->picks[0].attempt, 1);
    assert_int_equal(w->walk->picks[0].hand_outs, 2);
    assert_true(w->walk->picks[0].redelivery);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 1, 0), DAYBOOK_OK); /* a later hand-out */
    assert_int_equal(dbk_state_attempts(w->s, c, 1), 1);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
}

static void test_X1_extend_and_give_up(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    assert_int_equal(claim(w, c, 1, 1, 0), 1);
    assert_int_equal(dbk_state_next_expiry(w->s, c), LEASE_US);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 1, 10 * SECOND), DAYBOOK_OK);
    assert_int_equal(dbk_state_next_expiry(w->s, c), 10 * SECOND + LEASE_US);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 1, 0), DAYBOOK_OK); /* never earlier */
    assert_int_equal(dbk_state_next_expiry(w->s, c), 10 * SECOND + LEASE_US);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 1, 10 * SECOND + LEASE_US),
                     DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(settle(w, c, DBK_SETTLE_GIVE_UP, 1, 1, SECOND), DAYBOOK_OK);
    assert_int_equal(settle(w, c, DBK_SETTLE_GIVE_UP, 1, 1, SECOND), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(claim(w, c, 1, 1, SECOND), 1);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 1, SECOND), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(settle(w, c, DBK_SETTLE_REFUND, 1, 2, SECOND), DAYBOOK_OK);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 2, SECOND), DAYBOOK_NOT_OUTSTANDING);
}

/* ---- capacity and retention ------------------------------------------------------------------------------ */

static void test_P2_nothing_is_delivered_without_a_consumer(void **state)
{
    struct world *w = *state;

    publish(w, 1);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 0);
    assert_int_equal(dbk_state_reclaim(w->s, 8, &w->list), 0);
}

static void test_P2_a_registration_withdraws_what_was_givable(void **state)
{
    struct world *w = *state;
    uint32_t a = registered(w, "a");
    uint32_t b = 0;

    publish(w, 1);
    publish(w, 2);
    assert_int_equal(claim(w, a, 2, 1, 0), 2);
    assert_int_equal(ack(w, a, 1, 1), DAYBOOK_OK);
    assert_int_equal(ack(w, a, 2, 2), DAYBOOK_OK);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 2);
    b = dbk_state_next_consumer_id(w->s);
    assert_int_equal(dbk_state_register(w->s, b, "b", (struct dbk_start){2, DAYBOOK_TIME_UNSET}),
                     DAYBOOK_OK);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 1);
    dbk_state_retire(w->s, b);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 2);
}

static void test_P3_prunes_past_the_window_lowest_first(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    int64_t due = w->accepted_at_us + 3600 * SECOND;
    struct dbk_counters counters;

    for (uint64_t i = 1; i <= 5; i++) {
        publish(w, i);
    }
    assert_int_equal(claim(w, c, 5, 1, 0), 5);
    for (uint64_t i = 1; i <= 5; i++) {
        if (i != 3) {
            assert_int_equal(ack(w, c, i, i), DAYBOOK_OK);
        }
    }
    assert_int_equal(dbk_state_prune(w->s, due - 1, 64, &w->list), 0);
    assert_int_equal(dbk_state_prune(w->s, due, 3, &w->list), 3);
    assert_int_equal(w->list.count, 2);
    assert_int_equal(w->ranges[0].first, 1);
    assert_int_equal(w->ranges[0].end, 3);
    assert_int_equal(w->ranges[1].first, 4);
    assert_int_equal(w->ranges[1].end, 5);
    dbk_state_counters(w->s, &counters);
    assert_int_equal(counters.accepted, 5); /* S5 */
    assert_int_equal(counters.forgotten[DBK_FORGET_PRUNED - 1], 3);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK); /* K2: no longer held */
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_NOT_OUTSTANDING);
}

static void test_P4_reclaims_behind_the_undelivered_and_after_a_rewind(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");

    publish(w, 1);
    publish(w, 2);
    publish(w, 3);
    assert_int_equal(claim(w, c, 3, 1, 0), 3);
    assert_int_equal(ack(w, c, 2, 2), DAYBOOK_OK);
    assert_int_equal(ack(w, c, 3, 3), DAYBOOK_OK);
    dbk_state_rewind(w->s, c, 4, 0);
    assert_int_equal(dbk_state_prune(w->s, INT64_MAX, 64, &w->list), 0);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->givable), 2);
    assert_int_equal(dbk_state_reclaim(w->s, 1, &w->list), 1);
    assert_int_equal(w->ranges[0].first, 2);
    assert_int_equal(stored(w), 2);
}

static void test_P5_drops_exactly_or_none_and_the_lease_keeps_its_key(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct dbk_orphan orphans[4];
    uint32_t count = 0;

    publish(w, 1);
    publish(w, 2);
    publish(w, 1);
    assert_int_equal(claim(w, c, 8, 1, 0), 2);
    assert_int_equal(quarantine(w, c, 2, 2), DAYBOOK_OK);
    assert_int_equal(dbk_state_drop(w->s, 3, 0, &w->list, orphans, 4, &count), 0); /* P6 */
    assert_int_equal(dbk_state_drop(w->s, 1, 0, &w->list, orphans, 0, &count), 0);
    assert_int_equal(dbk_state_drop(w->s, 1, 0, &w->list, orphans, 4, &count), 1);
    assert_int_equal(count, 1);
    assert_int_equal(orphans[0].position, 1);
    assert_int_equal(orphans[0].token, 1);
    assert_int_equal(orphans[0].lease_ms, LEASE_MS);
    assert_int_equal(claim(w, c, 8, 1, 0), 0);
    assert_int_equal(settle(w, c, DBK_SETTLE_EXTEND, 1, 1, 0), DAYBOOK_NOT_OUTSTANDING);
    assert_int_equal(claim(w, c, 8, 1, 0), 0);
    assert_int_equal(dbk_state_orphans(w->s, 0, orphans, 4), 1);
    assert_int_equal(ack(w, c, 1, 1), DAYBOOK_OK);
    assert_int_equal(dbk_state_orphans(w->s, 0, orphans, 4), 0);
    assert_int_equal(claim(w, c, 8, 1, 0), 1);
    picked(w, 1, (uint64_t[]){3});
}

static void test_P5_leases_that_are_over_make_room_for_others(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct dbk_orphan orphans[4];
    uint32_t count = 0;

    for (uint64_t i = 1; i <= 4; i++) {
        publish(w, i);
    }
    assert_int_equal(claim(w, c, 2, 1, 0), 2);
    assert_int_equal(dbk_state_drop(w->s, 2, 0, &w->list, orphans, 4, &count), 2);
    assert_int_equal(claim(w, c, 2, 1, SECOND), 2);
    assert_int_equal(dbk_state_drop(w->s, 1, SECOND, &w->list, orphans, 4, &count), 0);
    assert_int_equal(dbk_state_orphans(w->s, LEASE_US, orphans, 4), 0);
    assert_int_equal(dbk_state_orphans(w->s, DAYBOOK_TIME_UNSET, orphans, 1), 1);
    assert_int_equal(dbk_state_orphans(w->s, DAYBOOK_TIME_UNSET, NULL, 0), 2);
    assert_int_equal(dbk_state_drop(w->s, 1, LEASE_US, &w->list, orphans, 4, &count), 1);
    assert_int_equal(dbk_state_orphans(w->s, DAYBOOK_TIME_UNSET, NULL, 0), 1);
}

static void test_P6_quarantined_by_any_is_never_given_up(void **state)
{
    struct world *w = *state;
    uint32_t a = registered(w, "a");
    uint32_t b = registered(w, "b");

    publish(w, 1);
    assert_int_equal(claim(w, a, 1, 1, 0), 1);
    assert_int_equal(ack(w, a, 1, 1), DAYBOOK_OK);
    assert_int_equal(claim(w, b, 1, 1, 0), 1);
    assert_int_equal(quarantine(w, b, 1, 2), DAYBOOK_OK);
    assert_int_equal(dbk_state_prune(w->s, INT64_MAX, 64, &w->list), 0);
    assert_int_equal(dbk_state_reclaim(w->s, 64, &w->list), 0);
    assert_int_equal(atomic_load(&dbk_state_room(w->s)->droppable), 0);
    dbk_state_discard(w->s, b, 1); /* resolved by all, discarded by one: forgotten at once */
    assert_int_equal(stored(w), 0);
}

static void test_S5_discarded_counts_as_discarded(void **state)
{
    struct world *w = *state;
    uint32_t a = registered(w, "a");
    uint32_t b = registered(w, "b");
    struct dbk_counters counters;

    publish(w, 1);
    dbk_state_discard(w->s, b, 1);
    assert_int_equal(stored(w), 1);
    assert_int_equal(claim(w, a, 1, 1, 0), 1);
    assert_int_equal(ack(w, a, 1, 1), DAYBOOK_OK);
    assert_int_equal(stored(w), 0);
    dbk_state_counters(w->s, &counters);
    assert_int_equal(counters.forgotten[DBK_FORGET_DISCARDED - 1], 1);
}

static void test_S1_S3_figures(void **state)
{
    struct world *w = *state;
    uint32_t c = 0;
    struct daybook_consumer_stats stats;
    int64_t now = w->accepted_at_us + 100 * SECOND;

    publish(w, 1);
    w->accepted_at_us += 10 * SECOND;
    publish(w, 2);
    publish(w, 3);
    dbk_state_consumer_stats(w->s, 0, now, &stats); /* S2 */
    assert_false(stats.registered);
    assert_int_equal(stats.pending, 3);
    assert_int_equal(stats.oldest_pending_age_us, 100 * SECOND);
    c = registered(w, "a");
    assert_int_equal(claim(w, c, 1, 1, now), 1);
    dbk_state_consumer_stats(w->s, c, now, &stats);
    assert_int_equal(stats.in_flight, 1);
    assert_int_equal(stats.pending, 2);
    assert_int_equal(stats.oldest_pending_age_us, 90 * SECOND);
    assert_int_equal(stats.oldest_unresolved_age_us, 100 * SECOND);
    dbk_state_consumer_stats(w->s, c, now + LEASE_US, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.pending, 3);
    assert_int_equal(quarantine(w, c, 1, 1), DAYBOOK_OK);
    dbk_state_consumer_stats(w->s, c, 0, &stats);
    assert_int_equal(stats.quarantined, 1);
    assert_int_equal(stats.oldest_pending_age_us, 0); /* never negative */
    assert_false(stats.drained);
}

/* ---- a walk is settled against what changed ---------------------------------------------------------------- */

static void test_C4_settle_leaves_out_what_changed_meanwhile(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 4);
    struct dbk_orphan orphans[4];
    uint32_t count = 0;

    publish(w, 1);                             /* 1: dropped meanwhile, 5 behind it must wait */
    publish(w, 2);                             /* 2: acknowledged late */
    publish(w, 3);                             /* 3: an older one is released */
    publish(w, 3);                             /* 4 */
    publish(w, 1);                             /* 5 */
    publish(w, 4);                             /* 6: nothing happens */
    assert_int_equal(claim(w, c, 3, 1, 0), 3); /* 1, 2, 3 */
    assert_int_equal(quarantine(w, c, 3, 3), DAYBOOK_OK);
    dbk_walk_begin(w->s, w->walk, c, &wanted, LEASE_US);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 5);
    assert_int_equal(dbk_state_drop(w->s, 1, LEASE_US, &w->list, orphans, 4, &count), 1);
    assert_int_equal(count, 0);
    assert_int_equal(ack(w, c, 2, 2), DAYBOOK_OK);
    dbk_state_release(w->s, c, 3);
    assert_int_equal(finish(w, c, &wanted, LEASE_US), 1);
    picked(w, 1, (uint64_t[]){6});
    assert_int_equal(claim(w, c, 8, 4, LEASE_US), 3);
    picked(w, 3, (uint64_t[]){3, 4, 5});
}

static void test_C4_a_key_outlives_its_events_while_a_walk_holds_it(void **state)
{
    struct world *w = *state;
    uint32_t c = registered(w, "a");
    struct daybook_claim wanted = asked(8, 4);
    struct dbk_orphan orphans[4];
    uint32_t count = 0;

    publish(w, 1);
    dbk_walk_begin(w->s, w->walk, c, &wanted, 0);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 1);
    dbk_walk_drop(w->s, w->walk, 0, DBK_DROP_READ_ERROR, SECOND);
    assert_int_equal(dbk_state_drop(w->s, 1, 0, &w->list, orphans, 4, &count), 1);
    publish(w, 2);
    assert_int_equal(dbk_walk_pick(w->s, w->walk), 1);
    assert_int_equal(finish(w, c, &wanted, 0), 1);
    picked(w, 1, (uint64_t[]){2});
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

#define MANY 200000u
#define BYTES_MAX 96u /* with everything but the lists of buckets in proportion: 90 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    char line[128];
    char *end = NULL;
    uint64_t resident = 0;

    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    (void)strtoull(line, &end, 10); /* all of the address space */
    resident = strtoull(end, NULL, 10);
    assert_true(resident > 0);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
#endif

static void test_P1_memory_of_an_event_with_its_own_key(void **state)
{
#ifdef SANITIZED
    (void)state;
    print_message("# skipped: a sanitizer's own memory would be counted\n");
#else
    struct world *w = *state;
    struct dbk_state_options options = {.events_max = MANY, .stored_max = MANY, .staged_max = 256};
    struct dbk_state *small = w->s;
    uint64_t before = resident_bytes();
    uint64_t used = 0;

    assert_int_equal(dbk_state_new(&options, &w->s), DAYBOOK_OK);
    assert_int_equal(dbk_state_add_segment(w->s, SEGMENT), DAYBOOK_OK);
    (void)registered(w, "a");
    for (uint64_t i = 0; i < MANY; i++) {
        publish(w, (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    }
    used = resident_bytes() - before;
    print_message("# %llu resident bytes for %u events\n", (unsigned long long)used, MANY);
    assert_true(used < (uint64_t)MANY * BYTES_MAX);
    dbk_state_free(small);
#endif
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_A2_an_id_leads_to_staged_then_to_stored),
        WITH(test_A2_equal_hashes_are_all_found),
        WITH(test_A1_a_position_published_twice_is_one_event),
        WITH(test_C1_start_position_and_time),
        WITH(test_C2_order_of_position_attempt_and_redelivery),
        WITH(test_C4_one_event_of_a_key_the_oldest),
        WITH(test_C4_a_key_with_a_lease_anywhere_is_busy),
        WITH(test_C4b_runs_are_units),
        WITH(test_C4c_ends_at_the_bytes_but_the_first_fits),
        WITH(test_C4c_after_an_exhausted_one_the_next_in_the_same_claim),
        WITH(test_C4c_after_a_malformed_one_the_next_in_the_next_claim),
        WITH(test_C4c_behind_a_malformed_one_nothing_is_condemned),
        WITH(test_C7_a_read_error_is_no_verdict),
        WITH(test_C5_live_between_grant_less_skew_and_expiry),
        WITH(test_C5_a_lapsed_lease_is_live_again_when_the_clock_goes_back),
        WITH(test_C8_two_walks_never_take_of_one_key),
        WITH(test_C9_a_newer_row_ends_its_key_and_no_other),
        WITH(test_K1_a_late_ack_is_honoured),
        WITH(test_K2_order_of_evaluation),
        WITH(test_K3_after_rewind_only_leases_live_then),
        WITH(test_K3_release_lets_a_late_ack_in),
        WITH(test_K3_what_was_live_at_a_rewind_outlasts_a_release),
        WITH(test_K3_a_key_goes_on_far_behind_a_released_event),
        WITH(test_R1_a_frame_of_an_older_hand_out_changes_nothing),
        WITH(test_R1_once_a_hand_out_and_the_lease_stays),
        WITH(test_X1_extend_and_give_up),
        WITH(test_P2_nothing_is_delivered_without_a_consumer),
        WITH(test_P2_a_registration_withdraws_what_was_givable),
        WITH(test_P3_prunes_past_the_window_lowest_first),
        WITH(test_P4_reclaims_behind_the_undelivered_and_after_a_rewind),
        WITH(test_P5_drops_exactly_or_none_and_the_lease_keeps_its_key),
        WITH(test_P5_leases_that_are_over_make_room_for_others),
        WITH(test_P6_quarantined_by_any_is_never_given_up),
        WITH(test_S5_discarded_counts_as_discarded),
        WITH(test_S1_S3_figures),
        WITH(test_P1_memory_of_an_event_with_its_own_key),
        WITH(test_C4_settle_leaves_out_what_changed_meanwhile),
        WITH(test_C4_a_key_outlives_its_events_while_a_walk_holds_it),
    };

    return cmocka_run_group_tests_name("state rules", tests, NULL, NULL);
}
