/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section 3, verdicts: K1 to K7, R1, X1; and what of them a worker reads back after a restart (W5).
 */
#include "contract/contract.h"

#include <stdio.h>

#include "journal/engine.h"

static struct daybook_delivery stray_of(uint64_t position)
{
    return (struct daybook_delivery){.position = position, .token = UINT64_C(1) << 62};
}

static void test_K1_acknowledging_is_idempotent(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_true(figures(world, "billing").drained);
}

static void test_K1_an_earlier_attempt_is_honoured(struct contract_world *world)
{
    struct daybook_delivery first;
    struct daybook_delivery second;

    put_many(world, "a", 2, "a");
    first = claim_one(world, "billing");
    pass(world, LEASE_US);
    second = claim_one(world, "billing");
    assert_int_equal(second.attempt, 2);
    assert_code(DAYBOOK_OK, ack(world, "billing", &first));
    assert_int_equal(claim(world, "billing", 9), 1); /* the lease of attempt 2 has ended with it */
    assert_string_equal(ids(world), "a2");
    assert_code(DAYBOOK_OK, ack(world, "billing", &second));
}

static void test_K1_an_acknowledgement_after_the_lease_is_honoured(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    pass(world, 100 * HOUR_US);
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_K1_a_crash_between_write_and_acknowledgement(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_K1_a_set_is_answered_for_each_in_order(struct contract_world *world)
{
    struct daybook_hand_out set[4];
    enum daybook_code codes[4];

    put_many(world, "e", 4, NULL);
    quarantine_next(world, "billing", "e1");
    assert_int_equal(claim(world, "billing", 2), 2); /* e2 e3 */
    set[0] = hand_out_of(&world->batch->deliveries[1]);
    set[1] = (struct daybook_hand_out){world->batch->deliveries[0].position - 1, 1}; /* e1 */
    set[2] = (struct daybook_hand_out){set[0].position + 1, set[0].token + 1};       /* e4 */
    set[3] = hand_out_of(&world->batch->deliveries[0]);
    assert_code(DAYBOOK_OK, daybook_journal_ack(world->journal, "billing", set, 4, world->now_us,
                                                DAYBOOK_NO_DEADLINE, codes, &world->err));
    assert_code(DAYBOOK_OK, codes[0]);
    assert_code(DAYBOOK_QUARANTINED, codes[1]);
    assert_code(DAYBOOK_NOT_OUTSTANDING, codes[2]);
    assert_code(DAYBOOK_OK, codes[3]);
    assert_int_equal(figures(world, "billing").pending, 1);
}

/* ---- K2: every line of the table -------------------------------------------------------------------- */

static void test_K2_ack_of_what_is_no_longer_held(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_code(DAYBOOK_OK, ack(world, "nobody", &d)); /* "not held" is asked first */
    assert_false(figures(world, "nobody").registered);
}

static void test_K2_ack_by_an_unknown_consumer(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "nobody", &d));
    assert_int_equal(journal_figures(world).consumers, 1);
}

static void test_K2_ack_of_quarantined(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_QUARANTINED, ack(world, "billing", &d));
    assert_int_equal(figures(world, "billing").quarantined, 1);
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_QUARANTINED, ack(world, "billing", &d));
}

static void test_K2_ack_of_what_was_never_handed_out(struct contract_world *world)
{
    struct daybook_delivery stray = stray_of(put(world, "a", "k"));

    enrol(world, "billing");
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "billing", &stray));
    assert_int_equal(claim_one(world, "billing").attempt, 1);
}

static void test_K2_ack_of_what_another_consumer_holds(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    enrol(world, "audit");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "audit", &d));
    assert_int_equal(figures(world, "audit").pending, 1);
}

static void test_K2_quarantine_of_what_is_not_held(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "nobody", &d));
}

static void test_K2_quarantine_twice_keeps_the_first_reason(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_OK,
                daybook_journal_quarantine(world->journal, "billing", hand_out_of(&d),
                                           DAYBOOK_REASON_MALFORMED, text("later"), world->now_us,
                                           DAYBOOK_NO_DEADLINE, &world->err));
    assert_int_equal(figures(world, "billing").quarantined, 1);
}

static void test_K2_quarantine_of_acknowledged(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_code(DAYBOOK_ALREADY_ACKNOWLEDGED, quarantine(world, "billing", &d));
    assert_int_equal(figures(world, "billing").quarantined, 0);
}

static void test_K2_quarantine_of_what_was_never_handed_out(struct contract_world *world)
{
    struct daybook_delivery stray = stray_of(put(world, "a", "k"));

    enrol(world, "billing");
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &stray));
    assert_int_equal(figures(world, "billing").pending, 1);
}

static void test_K2_quarantine_moves_the_key_on(struct contract_world *world)
{
    struct daybook_delivery d;

    put_many(world, "a", 2, "a");
    d = claim_one(world, "billing");
    pass(world, 2 * LEASE_US); /* a late verdict counts like a timely one */
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_int_equal(claim(world, "billing", 9), 1);
    assert_string_equal(ids(world), "a2");
}

static void test_K2_relinquish_in_every_state(struct contract_world *world)
{
    struct daybook_delivery acked;
    struct daybook_delivery set_aside;
    struct daybook_delivery gone;
    struct daybook_delivery stray;

    (void)put(world, "gone", "k0");
    gone = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &gone));
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    put_many(world, "e", 2, NULL);
    acked = claim_one(world, "billing");
    set_aside = claim_one(world, "billing");
    stray = stray_of(put(world, "e3", "e3"));
    assert_code(DAYBOOK_OK, ack(world, "billing", &acked));
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &set_aside));
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &gone));
    assert_code(DAYBOOK_OK, relinquish(world, "nobody", &gone));
    assert_code(DAYBOOK_NOT_OUTSTANDING, relinquish(world, "nobody", &acked));
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &acked));
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &set_aside));
    assert_code(DAYBOOK_NOT_OUTSTANDING, relinquish(world, "billing", &stray));
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_int_equal(journal_figures(world).consumers, 1);
}

/* ---- K3: a verdict speaks of one stored event --------------------------------------------------------- */

static void test_K3_an_id_that_was_forgotten_and_accepted_anew(struct contract_world *world)
{
    struct daybook_delivery old;

    (void)put(world, "a", "k");
    old = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &old));
    pass(world, 2 * HOUR_US);
    assert_int_equal(maintain(world), 1);
    (void)put(world, "a", "k");
    assert_code(DAYBOOK_OK,
                ack(world, "billing", &old)); /* no longer held: fine, and nothing else */
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &old));
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &old));
    assert_int_equal(figures(world, "billing").pending, 1);
    assert_int_equal(claim_one(world, "billing").attempt, 1);
    assert_code(DAYBOOK_OK, ack(world, "billing", &old));
    assert_int_equal(figures(world, "billing").in_flight, 1);
}

static void test_K3_after_rewind_verdicts_from_before_it(struct contract_world *world)
{
    struct daybook_delivery acked;
    struct daybook_delivery lapsed;
    struct daybook_delivery live;
    struct daybook_delivery again;

    need_operators(world);
    put_many(world, "e", 3, NULL);
    acked = claim_one(world, "billing");
    lapsed = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &acked));
    pass(world, LEASE_US - 1);
    live = claim_one(world, "billing");
    assert_int_equal(live.position, lapsed.position + 1);
    pass(world, 1); /* the lease of e2 has ended, that of e3 has not */
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_int_equal(figures(world, "billing").pending, 2);
    assert_int_equal(figures(world, "billing").in_flight, 1);
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "billing", &acked));
    assert_code(DAYBOOK_NOT_OUTSTANDING, quarantine(world, "billing", &lapsed));
    assert_code(DAYBOOK_NOT_OUTSTANDING, relinquish(world, "billing", &lapsed));
    assert_code(DAYBOOK_OK, ack(world, "billing", &live));
    again = claim_one(world, "billing");
    assert_int_equal(again.position, acked.position);
    assert_code(DAYBOOK_NOT_OUTSTANDING, ack(world, "billing", &acked));
    assert_code(DAYBOOK_OK, ack(world, "billing", &again));
}

static void test_K3_a_live_lease_outlasts_the_rewind(struct contract_world *world)
{
    struct daybook_delivery live;

    need_operators(world);
    (void)put(world, "a", "k");
    live = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_int_equal(claim(world, "billing", 9), 0);
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, extend(world, "billing", &live, 60000));
    pass(world, 2 * LEASE_US);
    assert_code(DAYBOOK_OK, ack(world, "billing", &live)); /* it was live then: that is enough */
}

static void test_K3_after_release_a_late_acknowledgement_is_honoured(struct contract_world *world)
{
    struct daybook_delivery d;

    need_operators(world);
    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    assert_code(DAYBOOK_OK, release(world, "billing", "a"));
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    assert_true(figures(world, "billing").drained);
}

static void test_K4_reasons_and_the_destinations_own_words(struct contract_world *world)
{
    static struct daybook_quarantine_entry entries[BATCH_EVENTS];
    struct daybook_delivery d;
    uint64_t last = 0;

    need_lists(world);
    put_many(world, "e", 2, NULL);
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    for (unsigned i = 0; i < 3; i++) {
        (void)claim_one(world, "billing");
        pass(world, LEASE_US);
    }
    assert_int_equal(claim(world, "billing", 9), 0);
    world_reopen(world, CONTRACT_KILLED);
    assert_code(DAYBOOK_OK, daybook_journal_quarantine_list(
                                world->journal, "billing", 0, (enum daybook_quarantine_reason)0,
                                world->batch, entries, &last, &world->err));
    assert_string_equal(ids(world), "e1 e2");
    assert_int_equal(entries[0].reason, DAYBOOK_REASON_REJECTED);
    assert_int_equal(entries[0].attempts, 1);
    assert_int_equal(entries[0].quarantined_at_us, WORLD_START_US);
    assert_int_equal(entries[0].words_len, strlen("it does not fit"));
    assert_memory_equal(entries[0].words, "it does not fit", entries[0].words_len);
    assert_int_equal(entries[1].reason, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED);
    assert_int_equal(entries[1].attempts, 3);
    assert_int_equal(entries[1].words_len, 0);
    assert_code(DAYBOOK_OK, daybook_journal_quarantine_list(
                                world->journal, "billing", 0, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED,
                                world->batch, entries, &last, &world->err));
    assert_string_equal(ids(world), "e2");
}

static void test_K4_long_words_come_back_whole_after_a_restart(struct contract_world *world)
{
    static struct daybook_quarantine_entry entries[BATCH_EVENTS];
    static char words[DAYBOOK_WORDS_BYTES_MAX + 3];
    struct daybook_delivery d;
    uint64_t last = 0;

    need_lists(world);
    for (size_t i = 0; i + 1 < sizeof words; i += 2) {
        memcpy(words + i, "ü", 2);
    }
    words[0] = '"';
    words[1] = '\\';
    for (unsigned i = 0; i < 2; i++) {
        (void)put(world, i == 0 ? "whole" : "cut", i == 0 ? "k1" : "k2");
        d = claim_one(world, "billing");
        /* The second is longer than there is room for, and its last character would be split. */
        struct daybook_bytes said = {words + i, DAYBOOK_WORDS_BYTES_MAX + 2 * i};
        assert_code(DAYBOOK_OK,
                    daybook_journal_quarantine(world->journal, "billing", hand_out_of(&d),
                                               DAYBOOK_REASON_REJECTED, said, world->now_us,
                                               DAYBOOK_NO_DEADLINE, &world->err));
    }
    for (int end = CONTRACT_CLOSED; end <= CONTRACT_KILLED; end++) {
        world_reopen(world, (enum contract_end)end);
        assert_code(DAYBOOK_OK, daybook_journal_quarantine_list(
                                    world->journal, "billing", 0, DAYBOOK_REASON_REJECTED,
                                    world->batch, entries, &last, &world->err));
        assert_string_equal(ids(world), "whole cut");
        assert_int_equal(entries[0].words_len, DAYBOOK_WORDS_BYTES_MAX);
        assert_memory_equal(entries[0].words, words, DAYBOOK_WORDS_BYTES_MAX);
        assert_int_equal(entries[1].words_len, DAYBOOK_WORDS_BYTES_MAX - 1);
        assert_memory_equal(entries[1].words, words + 1, DAYBOOK_WORDS_BYTES_MAX - 1);
    }
}

static void test_K4_the_list_goes_on_page_by_page(struct contract_world *world)
{
    static struct daybook_quarantine_entry entries[64];
    const enum daybook_quarantine_reason any = (enum daybook_quarantine_reason)0;
    struct daybook_batch *batch = NULL;
    char large[513];
    uint64_t last = 0;
    size_t listed = 0;

    (void)snprintf(large, sizeof large, "{%*s}", (int)sizeof large - 3, "");
    need_lists(world);
    put_many(world, "e", 63, NULL);
    assert_code(DAYBOOK_OK, append(world, "large", "k", large).code);
    for (unsigned i = 0; i < 64; i++) {
        struct daybook_delivery d = claim_one(world, "billing");

        assert_code(DAYBOOK_OK, quarantine(world, "billing", &d));
    }
    assert_code(DAYBOOK_OK, daybook_batch_new(2, 1, 512, &batch, &world->err));
    do {
        assert_code(DAYBOOK_OK,
                    daybook_journal_quarantine_list(world->journal, "billing", last, any, batch,
                                                    entries, &last, &world->err));
        for (size_t i = 0; i < batch->count; i++) {
            assert_int_equal(entries[i].position, batch->deliveries[i].position);
            assert_int_equal(entries[i].reason, DAYBOOK_REASON_REJECTED);
        }
        listed += batch->count;
    } while (batch->count > 0 || batch->more);
    assert_int_equal(listed, 64);
    daybook_batch_free(batch);
}

static void test_K4_an_exhausted_event_has_its_reason(struct contract_world *world)
{
    (void)put(world, "a", "k");
    for (unsigned i = 0; i < 3; i++) {
        (void)claim_one(world, "billing");
        pass(world, LEASE_US);
    }
    assert_int_equal(claim(world, "billing", 9), 0);
    assert_string_equal(daybook_quarantine_reason_name(DAYBOOK_REASON_ATTEMPTS_EXHAUSTED),
                        "attempts_exhausted");
    assert_string_equal(retained(world, DAYBOOK_WHERE_QUARANTINED), "a");
}

static void test_K7_delivery_state_survives_the_process(struct contract_world *world)
{
    struct daybook_delivery acked;
    struct daybook_delivery refunded;
    struct daybook_delivery leased;

    put_many(world, "e", 4, NULL);
    quarantine_next(world, "billing", "e1");
    acked = claim_one(world, "billing");
    refunded = claim_one(world, "billing");
    leased = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &acked));
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &refunded));
    world_reopen(world, CONTRACT_KILLED);
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_int_equal(figures(world, "billing").in_flight, 2);
    assert_int_equal(figures(world, "billing").pending, 0);
    assert_code(DAYBOOK_OK, extend(world, "billing", &leased, 0)); /* its token is known */
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 2);
    assert_string_equal(ids(world), "e3 e4");
    assert_int_equal(world->batch->deliveries[0].attempt, 1);
    assert_int_equal(world->batch->deliveries[1].attempt, 2);
}

static void lose_power(struct contract_world *world)
{
    world_reopen(world, CONTRACT_POWER);
}

static void test_K7_what_was_decided_survives_the_loss_of_power(struct contract_world *world)
{
    enrol(world, "billing");
    lose_power(world);
    assert_true(figures(world, "billing").registered);
    put_many(world, "e", 4, NULL);
    quarantine_next(world, "billing", "e1");
    lose_power(world);
    assert_int_equal(figures(world, "billing").quarantined, 1);
    assert_code(DAYBOOK_OK, release(world, "billing", "e1"));
    lose_power(world);
    assert_int_equal(figures(world, "billing").quarantined, 0);
    assert_code(DAYBOOK_OK, discard(world, "billing", "e2"));
    lose_power(world);
    assert_string_equal(retained(world, DAYBOOK_WHERE_ALL), "e1 e3 e4");
    assert_int_equal(deliver_all(world, "billing"), 3);
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    lose_power(world);
    assert_int_equal(figures(world, "billing").pending, 3);
    assert_code(DAYBOOK_OK, retire(world, "billing", DAYBOOK_FORCE_YES));
    lose_power(world);
    assert_int_equal(journal_figures(world).consumers, 0);
}

static void test_K7_what_a_claim_condemns_survives_the_loss_of_power(struct contract_world *world)
{
    (void)put(world, "a", "k");
    for (unsigned i = 0; i < 3; i++) {
        (void)claim_one(world, "billing");
        pass(world, LEASE_US);
    }
    assert_int_equal(claim(world, "billing", 9), 0);
    lose_power(world);
    assert_int_equal(figures(world, "billing").quarantined, 1);
}

/* The last 100 ms may go; that costs a redelivery, never an event. */
static void test_K7_a_hand_out_that_is_lost_is_made_again(struct contract_world *world)
{
    struct daybook_delivery before;
    struct daybook_delivery again;

    enrol(world, "billing");
    (void)put(world, "a", "k");
    before = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &before));
    lose_power(world);
    again = claim_one(world, "billing");
    assert_string_equal(ids(world), "a");
    assert_true(again.token > before.token); /* C2 */
    assert_code(DAYBOOK_OK, ack(world, "billing", &again));
    pass(world, SECOND_US / 10);
    lose_power(world);
    assert_int_equal(claim(world, "billing", 9), 0);
    assert_true(figures(world, "billing").drained);
}

/* ---- R1, X1 ------------------------------------------------------------------------------------------- */

static void test_R1_a_refund_gives_the_attempt_back_once(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    (void)claim_one(world, "billing");
    pass(world, LEASE_US);
    d = claim_one(world, "billing");
    assert_int_equal(d.attempt, 2);
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    pass(world, LEASE_US);
    d = claim_one(world, "billing");
    assert_int_equal(d.attempt, 2);
}

static void test_R1_the_lease_stays_as_back_off(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    assert_int_equal(figures(world, "billing").in_flight, 1);
    pass(world, LEASE_US - 1);
    assert_int_equal(claim(world, "billing", 9), 0);
    pass(world, 1);
    assert_int_equal(claim_one(world, "billing").attempt, 1);
}

static void test_R1_nothing_once_a_later_hand_out_was_made(struct contract_world *world)
{
    struct daybook_delivery first;
    struct daybook_delivery second;

    (void)put(world, "a", "k");
    first = claim_one(world, "billing");
    pass(world, LEASE_US);
    second = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &first));
    pass(world, LEASE_US);
    assert_int_equal(claim_one(world, "billing").attempt, second.attempt + 1);
}

static void test_R1_the_token_fences_where_the_attempt_comes_back(struct contract_world *world)
{
    struct daybook_delivery first;
    struct daybook_delivery second;

    (void)put(world, "a", "k");
    first = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &first));
    pass(world, LEASE_US);
    second = claim_one(world, "billing");
    assert_int_equal(second.attempt, first.attempt); /* the same number, another hand-out */
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &first));
    pass(world, LEASE_US);
    assert_int_equal(claim_one(world, "billing").attempt, 2);
}

static void test_R1_an_acknowledgement_after_a_refund_is_honoured(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &d));
    assert_code(DAYBOOK_OK, ack(world, "billing", &d));
    pass(world, LEASE_US);
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_X1_an_extension_moves_the_expiry(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    pass(world, LEASE_US / 2);
    assert_code(DAYBOOK_OK, extend(world, "billing", &d, (uint32_t)(LEASE_US / 1000)));
    world_reopen(world, CONTRACT_KILLED);
    pass(world, LEASE_US - 1);
    assert_int_equal(claim(world, "billing", 9), 0);
    pass(world, 1);
    assert_int_equal(claim_one(world, "billing").attempt, 2);
}

static void test_X1_never_earlier_than_it_stands(struct contract_world *world)
{
    struct daybook_delivery d;

    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, extend(world, "billing", &d, 1));
    pass(world, LEASE_US - 1);
    assert_int_equal(claim(world, "billing", 9), 0);
}

static void test_X1_a_long_extension_is_no_leap_of_the_clock(struct contract_world *world)
{
    struct daybook_delivery d;

    /* What is left is measured against the length that the extension gave. */
    (void)put(world, "a", "k");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, extend(world, "billing", &d, 3600000));
    assert_int_equal(figures(world, "billing").in_flight, 1);
    pass(world, HOUR_US - 1);
    assert_int_equal(figures(world, "billing").in_flight, 1);
}

static void test_X1_with_lease_0_it_is_given_up_at_once(struct contract_world *world)
{
    struct daybook_delivery d;

    put_many(world, "a", 2, "a");
    d = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, extend(world, "billing", &d, 0));
    assert_int_equal(figures(world, "billing").pending, 2);
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &d, 1000));
    assert_code(DAYBOOK_OK,
                relinquish(world, "billing", &d)); /* the attempt can still be given back */
    d = claim_one(world, "billing");
    assert_string_equal(ids(world), "a1");
    assert_int_equal(d.attempt, 1);
}

static void test_X1_only_what_is_live_unresolved_and_not_given_back(struct contract_world *world)
{
    struct daybook_delivery lapsed;
    struct daybook_delivery newer;
    struct daybook_delivery refunded;
    struct daybook_delivery acked;
    struct daybook_delivery stray = stray_of(1);

    put_many(world, "e", 3, NULL);
    stray.position = put(world, "e4", "e4");
    lapsed = claim_one(world, "billing");
    pass(world, LEASE_US);
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &lapsed, 60000));
    newer = claim_one(world, "billing");
    assert_int_equal(newer.position, lapsed.position);
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &lapsed, 60000));
    assert_code(DAYBOOK_OK, extend(world, "billing", &newer, 60000));
    refunded = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, relinquish(world, "billing", &refunded));
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &refunded, 60000));
    acked = claim_one(world, "billing");
    assert_code(DAYBOOK_OK, ack(world, "billing", &acked));
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &acked, 60000));
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "billing", &stray, 60000));
    assert_code(DAYBOOK_NOT_OUTSTANDING, extend(world, "nobody", &newer, 60000));
}

/* The id of the newest event that this consumer acknowledged, "" where there is none. */
static const char *control(struct contract_world *world, const char *consumer)
{
    assert_code(DAYBOOK_OK, dbk_journal_newest_acknowledged(world->journal, consumer, world->now_us,
                                                            world->batch, &world->err));
    return ids(world);
}

static void test_W5_the_control_is_the_newest_that_was_acknowledged(struct contract_world *world)
{
    assert_string_equal(control(world, "billing"), ""); /* and it registers nobody */
    assert_false(figures(world, "billing").registered);
    put_many(world, "e", 3, NULL);
    assert_string_equal(control(world, "billing"), "");
    ack_next(world, "billing", "e1");
    assert_string_equal(control(world, "billing"), "e1");
    quarantine_next(world, "billing", "e2");
    assert_string_equal(control(world, "billing"), "e1");
    ack_next(world, "billing", "e3");
    (void)put(world, "e4", "k4");
    world_reopen(world, CONTRACT_KILLED);
    assert_string_equal(control(world, "billing"), "e3");
    assert_int_equal(world->batch->deliveries[0].position, 3);
    assert_int_equal(world->batch->deliveries[0].token, 0);
    assert_string_equal(control(world, "audit"), ""); /* another's acknowledgements are none */
    ack_next(world, "audit", "e1");
    assert_string_equal(control(world, "audit"), "e1");
}

static void test_W5_the_control_is_no_older_than_the_window(struct contract_world *world)
{
    (void)put(world, "a", "k1");
    (void)put(world, "b", "k2");
    ack_next(world, "billing", "a");
    pass(world, HOUR_US - 1); /* the whole of retain_acknowledged but for a moment */
    assert_string_equal(control(world, "billing"), "a");
    pass(world, 1);
    assert_string_equal(control(world, "billing"), "");
}

static void test_W5_the_control_is_none_that_was_discarded_or_stands_before_the_start(
    struct contract_world *world)
{
    struct daybook_claim c = claim_of("billing", 0);

    need_operators(world);
    enrol(world, "audit"); /* so that nothing is forgotten */
    (void)put(world, "before", "k1");
    c.start.kind = DAYBOOK_START_NOW;
    (void)claim_with(world, &c);
    assert_string_equal(control(world, "billing"), "");
    (void)put(world, "after", "k2");
    assert_code(DAYBOOK_OK, discard(world, "billing", "after"));
    assert_string_equal(control(world, "billing"), "");
    (void)put(world, "last", "k3");
    ack_next(world, "billing", "last");
    assert_string_equal(control(world, "billing"), "last");
    assert_code(DAYBOOK_OK, rewind_consumer(world, "billing"));
    assert_string_equal(control(world, "billing"), ""); /* it is to be delivered again */
}

static void test_W5_the_control_behind_many_that_wait(struct contract_world *world)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 2000;
    world_restart_empty(world, &capacity);
    put_many(world, "e", 150, NULL);
    assert_int_equal(deliver_all(world, "billing"), 150);
    put_many(world, "late", 900, NULL);
    assert_string_equal(control(world, "billing"), "e150");
    assert_int_equal(deliver_all(world, "billing"), 900);
    assert_string_equal(control(world, "billing"), "late900");
}

static void test_W5_a_damaged_or_newer_event_is_no_control(struct contract_world *world)
{
    put_many(world, "e", 2, NULL);
    assert_int_equal(deliver_all(world, "billing"), 2);
    (void)put_newer(world, "newer", "k");
    assert_string_equal(control(world, "billing"), "e2");
    spoil(world, 2);
    assert_string_equal(control(world, "billing"), "e1");
}

static void test_W5_a_batch_that_is_too_small_for_the_control_says_so(struct contract_world *world)
{
    struct daybook_batch *batch = NULL;
    char large[513];
    char name[201];

    (void)snprintf(large, sizeof large, "{%*s}", (int)sizeof large - 3, "");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_code(DAYBOOK_OK, append(world, name, name, large).code);
    assert_int_equal(deliver_all(world, "billing"), 1);
    assert_code(DAYBOOK_OK, daybook_batch_new(1, 1, 1, &batch, &world->err));
    assert_code(DAYBOOK_BAD_ARGUMENT,
                dbk_journal_newest_acknowledged(world->journal, "billing", world->now_us, batch,
                                                &world->err));
    assert_int_equal(batch->count, 0);
    daybook_batch_free(batch);
}

static struct contract_test tests[] = {
    TEST(test_K1_acknowledging_is_idempotent),
    TEST(test_K1_an_earlier_attempt_is_honoured),
    TEST(test_K1_an_acknowledgement_after_the_lease_is_honoured),
    TEST(test_K1_a_crash_between_write_and_acknowledgement),
    TEST(test_K1_a_set_is_answered_for_each_in_order),
    TEST(test_K2_ack_of_what_is_no_longer_held),
    TEST(test_K2_ack_by_an_unknown_consumer),
    TEST(test_K2_ack_of_quarantined),
    TEST(test_K2_ack_of_what_was_never_handed_out),
    TEST(test_K2_ack_of_what_another_consumer_holds),
    TEST(test_K2_quarantine_of_what_is_not_held),
    TEST(test_K2_quarantine_twice_keeps_the_first_reason),
    TEST(test_K2_quarantine_of_acknowledged),
    TEST(test_K2_quarantine_of_what_was_never_handed_out),
    TEST(test_K2_quarantine_moves_the_key_on),
    TEST(test_K2_relinquish_in_every_state),
    TEST(test_K3_an_id_that_was_forgotten_and_accepted_anew),
    TEST(test_K3_after_rewind_verdicts_from_before_it),
    TEST(test_K3_a_live_lease_outlasts_the_rewind),
    TEST(test_K3_after_release_a_late_acknowledgement_is_honoured),
    TEST(test_K4_reasons_and_the_destinations_own_words),
    TEST(test_K4_long_words_come_back_whole_after_a_restart),
    TEST(test_K4_the_list_goes_on_page_by_page),
    TEST(test_K4_an_exhausted_event_has_its_reason),
    TEST(test_W5_the_control_is_the_newest_that_was_acknowledged),
    TEST(test_W5_the_control_is_no_older_than_the_window),
    TEST(test_W5_the_control_is_none_that_was_discarded_or_stands_before_the_start),
    TEST(test_W5_the_control_behind_many_that_wait),
    TEST(test_W5_a_damaged_or_newer_event_is_no_control),
    TEST(test_W5_a_batch_that_is_too_small_for_the_control_says_so),
    TEST(test_K7_delivery_state_survives_the_process),
    TEST_ON_DISK(test_K7_what_was_decided_survives_the_loss_of_power),
    TEST_ON_DISK(test_K7_what_a_claim_condemns_survives_the_loss_of_power),
    TEST_ON_DISK(test_K7_a_hand_out_that_is_lost_is_made_again),
    TEST(test_R1_a_refund_gives_the_attempt_back_once),
    TEST(test_R1_the_lease_stays_as_back_off),
    TEST(test_R1_nothing_once_a_later_hand_out_was_made),
    TEST(test_R1_the_token_fences_where_the_attempt_comes_back),
    TEST(test_R1_an_acknowledgement_after_a_refund_is_honoured),
    TEST(test_X1_an_extension_moves_the_expiry),
    TEST(test_X1_never_earlier_than_it_stands),
    TEST(test_X1_a_long_extension_is_no_leap_of_the_clock),
    TEST(test_X1_with_lease_0_it_is_given_up_at_once),
    TEST(test_X1_only_what_is_live_unresolved_and_not_given_back),
};
const struct contract_tests contract_verdict_tests = TESTS_OF(tests);
