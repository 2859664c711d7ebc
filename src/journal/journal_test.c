/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's door, in front of an engine that only writes down what it was handed: what reaches
 * it, what never does, and which defaults are filled in on the way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <daybook/journal.h>

#include "journal/engine.h"
#include "journal/names.h"

#define NOW_US INT64_C(1764500000000000)
#define BYTES(text) ((struct daybook_bytes){(text), sizeof(text) - 1})

/* What the engine was handed last. */
struct seen {
    unsigned calls;
    size_t events;    /* in all appends */
    size_t batch_max; /* the largest append */
    struct daybook_claim claim;
    size_t set_count;
    uint32_t lease_ms;
    size_t words_len;
    struct daybook_submission *submission;
    enum daybook_code answer; /* what it answers */
};

struct fake {
    struct daybook_journal head;
    struct seen seen;
};

static struct seen *seen_of(struct daybook_journal *j)
{
    return &((struct fake *)j)->seen;
}

static enum daybook_code fake_append(struct daybook_journal *j, const struct daybook_event *events,
                                     size_t count, int64_t now_us, int64_t deadline_us,
                                     struct daybook_append_result *ret_results,
                                     struct daybook_error *err)
{
    struct seen *seen = seen_of(j);

    (void)now_us;
    (void)deadline_us;
    (void)err;
    seen->calls++;
    seen->batch_max = count > seen->batch_max ? count : seen->batch_max;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(daybook_event_check(&events[i], &j->capacity.events, NULL), DAYBOOK_OK);
        ret_results[i] =
            (struct daybook_append_result){.code = seen->answer, .position = ++seen->events};
    }
    return seen->answer;
}

static void fake_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                        struct daybook_submission *submission, int64_t now_us)
{
    (void)queue;
    (void)now_us;
    seen_of(j)->calls++;
    seen_of(j)->submission = submission;
}

static enum daybook_code fake_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                                    int64_t now_us, int64_t deadline_us,
                                    struct daybook_batch *batch, struct daybook_error *err)
{
    (void)now_us;
    (void)deadline_us;
    (void)batch;
    (void)err;
    seen_of(j)->calls++;
    seen_of(j)->claim = *claim;
    return DAYBOOK_OK;
}

static enum daybook_code fake_set(struct daybook_journal *j, const char *consumer,
                                  const struct daybook_hand_out *set, size_t count, int64_t now_us,
                                  int64_t deadline_us, enum daybook_code *ret_codes,
                                  struct daybook_error *err)
{
    (void)consumer;
    (void)set;
    (void)now_us;
    (void)deadline_us;
    (void)err;
    seen_of(j)->calls++;
    seen_of(j)->set_count = count;
    for (size_t i = 0; i < count; i++) {
        ret_codes[i] = DAYBOOK_OK;
    }
    return DAYBOOK_OK;
}

static enum daybook_code fake_extend(struct daybook_journal *j, const char *consumer,
                                     const struct daybook_hand_out *set, size_t count,
                                     uint32_t lease_ms, int64_t now_us, int64_t deadline_us,
                                     enum daybook_code *ret_codes, struct daybook_error *err)
{
    seen_of(j)->lease_ms = lease_ms;
    return fake_set(j, consumer, set, count, now_us, deadline_us, ret_codes, err);
}

static enum daybook_code fake_quarantine(struct daybook_journal *j, const char *consumer,
                                         struct daybook_hand_out hand_out,
                                         enum daybook_quarantine_reason reason,
                                         struct daybook_bytes words, int64_t now_us,
                                         int64_t deadline_us, struct daybook_error *err)
{
    (void)consumer;
    (void)hand_out;
    (void)reason;
    (void)now_us;
    (void)deadline_us;
    (void)err;
    seen_of(j)->calls++;
    seen_of(j)->words_len = words.len;
    return DAYBOOK_OK;
}

static enum daybook_code fake_stats(struct daybook_journal *j, int64_t now_us,
                                    struct daybook_journal_stats *ret, struct daybook_error *err)
{
    (void)now_us;
    (void)err;
    seen_of(j)->calls++;
    memset(ret, 0, sizeof *ret);
    return DAYBOOK_OK;
}

static enum daybook_code fake_consumer_stats(struct daybook_journal *j, const char *consumer,
                                             int64_t now_us, struct daybook_consumer_stats *ret,
                                             struct daybook_error *err)
{
    (void)consumer;
    (void)now_us;
    (void)err;
    seen_of(j)->calls++;
    memset(ret, 0, sizeof *ret);
    return DAYBOOK_OK;
}

static enum daybook_code fake_consumers(struct daybook_journal *j,
                                        char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                        size_t *ret_count, struct daybook_error *err)
{
    (void)names;
    (void)max;
    (void)err;
    seen_of(j)->calls++;
    *ret_count = 0;
    return DAYBOOK_OK;
}

static enum daybook_code fake_maintain(struct daybook_journal *j, int64_t now_us,
                                       int64_t deadline_us, uint64_t *ret_pruned,
                                       struct daybook_error *err)
{
    (void)now_us;
    (void)deadline_us;
    (void)err;
    seen_of(j)->calls++;
    *ret_pruned = 7;
    return DAYBOOK_OK;
}

static enum daybook_code fake_read(struct daybook_journal *j, uint64_t after_position,
                                   enum daybook_where where, struct daybook_batch *batch,
                                   uint64_t *ret_last, uint64_t *ret_damaged,
                                   struct daybook_error *err)
{
    (void)where;
    (void)batch;
    (void)err;
    seen_of(j)->calls++;
    *ret_last = after_position + 1;
    *ret_damaged = 3;
    return DAYBOOK_OK;
}

static enum daybook_code fake_close(struct daybook_journal *j, struct daybook_error *err)
{
    (void)err;
    seen_of(j)->calls++;
    return DAYBOOK_OK;
}

static int64_t fake_monotonic_us(struct daybook_journal *j)
{
    (void)j;
    return INT64_MIN; /* every deadline is ahead */
}

static const struct dbk_engine_ops fake_ops = {
    .monotonic_us = fake_monotonic_us,
    .backend = "fake",
    .append_batch = fake_append,
    .submit = fake_submit,
    .claim = fake_claim,
    .ack = fake_set,
    .relinquish = fake_set,
    .extend = fake_extend,
    .quarantine = fake_quarantine,
    .stats = fake_stats,
    .consumer_stats = fake_consumer_stats,
    .consumers = fake_consumers,
    .maintain = fake_maintain,
    .read = fake_read,
    .close = fake_close,
};

static struct fake make_fake(void)
{
    struct fake fake = {.head = {.ops = &fake_ops}};
    struct daybook_capacity given = {0};

    assert_int_equal(dbk_capacity_fill(&given, &fake.head.capacity, NULL), DAYBOOK_OK);
    return fake;
}

static struct daybook_event good_event(void)
{
    return (struct daybook_event){.request_id = BYTES("r-1"),
                                  .name_space = BYTES("acme"),
                                  .subject = BYTES("gpt"),
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = BYTES("{\"tokens\":1}")};
}

static struct daybook_event event_without_id(void)
{
    struct daybook_event event = good_event();

    event.request_id.len = 0;
    return event;
}

/* ---- append ---------------------------------------------------------------------------------- */

static void test_E2_append_without_an_id_never_reaches_the_engine(void **state)
{
    struct fake fake = make_fake();
    struct daybook_event event = event_without_id();
    struct daybook_append_result result = {.position = 99};
    struct daybook_error err = {0};

    (void)state;
    assert_int_equal(
        daybook_journal_append(&fake.head, &event, NOW_US, DAYBOOK_NO_DEADLINE, &result, &err),
        DAYBOOK_INVALID_EVENT);
    assert_int_equal(result.code, DAYBOOK_INVALID_EVENT);
    assert_int_equal(result.position, 0);
    assert_true(err.message[0] != '\0');
    assert_int_equal(fake.seen.calls, 0);
}

static void test_append_hands_over_and_answers_the_events_code(void **state)
{
    struct fake fake = make_fake();
    struct daybook_event event = good_event();
    struct daybook_append_result result = {0};

    (void)state;
    assert_int_equal(
        daybook_journal_append(&fake.head, &event, NOW_US, DAYBOOK_NO_DEADLINE, &result, NULL),
        DAYBOOK_OK);
    assert_int_equal(result.position, 1);
    fake.seen.answer = DAYBOOK_BACKEND;
    assert_int_equal(
        daybook_journal_append(&fake.head, &event, NOW_US, DAYBOOK_NO_DEADLINE, &result, NULL),
        DAYBOOK_BACKEND);
}

static void test_append_misuse_is_a_code(void **state)
{
    struct fake fake = make_fake();
    struct daybook_event event = good_event();
    struct daybook_append_result result = {0};

    (void)state;
    assert_int_equal(daybook_journal_append(NULL, &event, NOW_US, 0, &result, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(result.code, DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_append(&fake.head, NULL, NOW_US, 0, &result, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_append(&fake.head, &event, NOW_US, 0, NULL, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_append(&fake.head, &event, -1, 0, &result, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(
        daybook_journal_append(&fake.head, &event, DAYBOOK_TIME_UNSET, 0, &result, NULL),
        DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_append_batch(&fake.head, NULL, 1, NOW_US, 0, &result, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_append_batch(&fake.head, &event, 1, NOW_US, 0, NULL, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(fake.seen.calls, 0);
}

static void test_A6_one_bad_event_does_not_spoil_its_neighbours(void **state)
{
    struct fake fake = make_fake();
    struct daybook_event events[5] = {good_event(), event_without_id(), good_event(), good_event(),
                                      event_without_id()};
    struct daybook_append_result results[5];
    static const uint64_t positions[5] = {1, 0, 2, 3, 0};

    (void)state;
    assert_int_equal(daybook_journal_append_batch(&fake.head, events, 5, NOW_US,
                                                  DAYBOOK_NO_DEADLINE, results, NULL),
                     DAYBOOK_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(results[i].position, positions[i]);
        assert_int_equal(results[i].code, positions[i] != 0 ? DAYBOOK_OK : DAYBOOK_INVALID_EVENT);
    }
    assert_int_equal(fake.seen.events, 3);
    assert_int_equal(daybook_journal_append_batch(&fake.head, NULL, 0, NOW_US, 0, NULL, NULL),
                     DAYBOOK_OK);
}

static void test_A6_a_good_batch_stays_whole_and_a_failure_is_returned(void **state)
{
    struct fake fake = make_fake();
    struct daybook_event events[3] = {good_event(), good_event(), good_event()};
    struct daybook_append_result results[3];

    (void)state;
    assert_int_equal(daybook_journal_append_batch(&fake.head, events, 3, NOW_US, 0, results, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.calls, 1);
    assert_int_equal(fake.seen.batch_max, 3);
    fake.seen.answer = DAYBOOK_BACKEND;
    events[1] = event_without_id();
    assert_int_equal(daybook_journal_append_batch(&fake.head, events, 3, NOW_US, 0, results, NULL),
                     DAYBOOK_BACKEND);
    assert_int_equal(results[0].code, DAYBOOK_BACKEND);
    assert_int_equal(results[1].code, DAYBOOK_INVALID_EVENT);
    assert_int_equal(results[2].code, DAYBOOK_BACKEND);
}

static void test_A6_submit_checks_what_was_not_checked(void **state)
{
    struct fake fake = make_fake();
    struct daybook_append_queue queue = {0};
    struct daybook_event events[2] = {good_event(), event_without_id()};
    struct daybook_append_result results[2] = {{.code = DAYBOOK_CONFLICT}};
    struct daybook_submission submission = {.events = events, .results = results, .count = 2};

    (void)state;
    daybook_journal_submit(&fake.head, &queue, &submission, NOW_US);
    assert_ptr_equal(fake.seen.submission, &submission);
    assert_int_equal(results[0].code, DAYBOOK_OK);
    assert_int_equal(results[1].code, DAYBOOK_INVALID_EVENT);

    /* What the caller refused itself stays refused. */
    submission.events_state = DAYBOOK_EVENTS_CHECKED;
    results[0].code = DAYBOOK_MALFORMED_JSON;
    daybook_journal_submit(&fake.head, &queue, &submission, NOW_US);
    assert_int_equal(results[0].code, DAYBOOK_MALFORMED_JSON);
    assert_int_equal(results[1].code, DAYBOOK_INVALID_EVENT);

    daybook_journal_submit(&fake.head, &queue, &submission, -1);
    assert_int_equal(results[0].code, DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(fake.seen.calls, 3);
    daybook_journal_submit(NULL, &queue, &submission, NOW_US);
    daybook_journal_submit(&fake.head, NULL, &submission, NOW_US);
    daybook_journal_submit(&fake.head, &queue, NULL, NOW_US);
    assert_int_equal(fake.seen.calls, 3);
}

static void test_queue_functions_accept_nothing(void **state)
{
    struct fake fake = make_fake();
    struct daybook_append_queue *queue = NULL;

    (void)state;
    assert_int_equal(daybook_append_queue_new(NULL, &queue, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_append_queue_new(&fake.head, NULL, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_append_queue_fd(NULL), -1);
    assert_int_equal(daybook_append_queue_drain(NULL, NOW_US, NULL, 1), 0);
    daybook_append_queue_free(NULL);
}

/* ---- claim ------------------------------------------------------------------------------------ */

static struct daybook_batch *make_batch(uint32_t events_max, size_t bytes_max)
{
    struct daybook_batch *batch = NULL;

    assert_int_equal(daybook_batch_new(events_max, bytes_max, 0, &batch, NULL), DAYBOOK_OK);
    return batch;
}

static enum daybook_code claim_with(struct fake *fake, struct daybook_claim claim,
                                    struct daybook_batch *batch)
{
    return daybook_journal_claim(&fake->head, &claim, NOW_US, DAYBOOK_NO_DEADLINE, batch, NULL);
}

static void test_C2_C4b_C6_defaults_of_a_claim_are_filled_in(void **state)
{
    struct fake fake = make_fake();
    struct daybook_batch *batch = make_batch(16, 1000);

    (void)state;
    batch->count = 5;
    batch->more = true;
    assert_int_equal(claim_with(&fake,
                                (struct daybook_claim){"billing", .events_max = 100, .lease_ms = 1},
                                batch),
                     DAYBOOK_OK);
    assert_int_equal(batch->count, 0);
    assert_false(batch->more);
    assert_int_equal(fake.seen.claim.events_max, 16);
    assert_int_equal(fake.seen.claim.key_run, 1);
    assert_int_equal(fake.seen.claim.hand_outs_max, 8);
    assert_int_equal(fake.seen.claim.bytes_max, batch->bytes_max);
    assert_int_equal(
        claim_with(&fake,
                   (struct daybook_claim){"billing", .events_max = 2, .bytes_max = 10, .key_run = 4,
                                          .lease_ms = INT32_MAX, .hand_outs_max = 64},
                   batch),
        DAYBOOK_OK);
    assert_int_equal(fake.seen.claim.events_max, 2);
    assert_int_equal(fake.seen.claim.bytes_max, 10);
    assert_int_equal(fake.seen.claim.key_run, 4);
    assert_int_equal(fake.seen.claim.hand_outs_max, 64);
    daybook_batch_free(batch);
}

static void test_C12_an_empty_claim_needs_no_lease(void **state)
{
    struct fake fake = make_fake();
    struct daybook_batch *batch = make_batch(1, 1);

    (void)state;
    assert_int_equal(claim_with(&fake, (struct daybook_claim){.consumer = "billing"}, batch),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.claim.events_max, 0);
    daybook_batch_free(batch);
}

static void test_claim_misuse_is_a_code(void **state)
{
    static const struct daybook_claim wrong[] = {
        {NULL, .events_max = 1, .lease_ms = 1},
        {"", .events_max = 1, .lease_ms = 1},
        {"Billing", .events_max = 1, .lease_ms = 1},
        {"b", .events_max = DAYBOOK_CLAIM_EVENTS_MAX + 1, .lease_ms = 1},
        {"b", .events_max = 1, .lease_ms = 0},
        {"b", .events_max = 1, .lease_ms = (uint32_t)INT32_MAX + 1},
        {"b", .events_max = 1, .lease_ms = 1, .start = {DAYBOOK_START_POSITION, -1}},
        {"b", .events_max = 1, .lease_ms = 1, .start = {DAYBOOK_START_TIME, DAYBOOK_TIME_UNSET}},
        {"b", .events_max = 1, .lease_ms = 1, .start = {(enum daybook_start_kind)9, 0}},
    };
    struct fake fake = make_fake();
    struct daybook_batch *batch = make_batch(4096, 1);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        batch->count = 1;
        assert_int_equal(claim_with(&fake, wrong[i], batch), DAYBOOK_BAD_ARGUMENT);
        assert_int_equal(batch->count, 0);
    }
    assert_int_equal(claim_with(&fake, (struct daybook_claim){.consumer = "b"}, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_claim(&fake.head, NULL, NOW_US, 0, batch, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(fake.seen.calls, 0);
    daybook_batch_free(batch);
}

static void test_C2_a_batch_always_has_room_for_one_event_more(void **state)
{
    struct daybook_batch *batch = NULL;

    (void)state;
    assert_int_equal(daybook_batch_new(2, 1000, 500, &batch, NULL), DAYBOOK_OK);
    assert_int_equal(batch->events_max, 2);
    assert_int_equal(batch->bytes_max, 1000 + 500 + 3 * DAYBOOK_NAME_BYTES_MAX);
    batch->bytes[batch->bytes_max - 1] = 1;
    batch->deliveries[1].position = 1;
    daybook_batch_free(batch);
    daybook_batch_free(NULL);
    batch = NULL;
    assert_int_equal(daybook_batch_new(0, 1, 1, &batch, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_batch_new(DAYBOOK_CLAIM_EVENTS_MAX + 1, 1, 1, &batch, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_batch_new(1, SIZE_MAX, 1, &batch, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_batch_new(1, 1, 1, NULL, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_null(batch);
}

/* ---- verdicts --------------------------------------------------------------------------------- */

static void test_K1_verdicts_are_handed_over_as_sets(void **state)
{
    struct fake fake = make_fake();
    const struct daybook_hand_out set[2] = {{1, 1}, {2, 2}};
    enum daybook_code codes[2] = {DAYBOOK_BACKEND, DAYBOOK_BACKEND};

    (void)state;
    assert_int_equal(daybook_journal_ack(&fake.head, "b", set, 2, NOW_US, 0, codes, NULL),
                     DAYBOOK_OK);
    assert_int_equal(codes[1], DAYBOOK_OK);
    assert_int_equal(fake.seen.set_count, 2);
    assert_int_equal(daybook_journal_relinquish(&fake.head, "b", set, 1, NOW_US, 0, codes, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.set_count, 1);
    assert_int_equal(daybook_journal_extend(&fake.head, "b", set, 2, 0, NOW_US, 0, codes, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.lease_ms, 0);
    assert_int_equal(fake.seen.calls, 3);

    /* The empty set is done without the engine. */
    assert_int_equal(daybook_journal_ack(&fake.head, "b", NULL, 0, NOW_US, 0, NULL, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.calls, 3);
}

static void test_verdict_misuse_is_a_code(void **state)
{
    struct fake fake = make_fake();
    const struct daybook_hand_out set[1] = {{1, 1}};
    enum daybook_code codes[1];

    (void)state;
    assert_int_equal(daybook_journal_ack(NULL, "b", set, 1, NOW_US, 0, codes, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_ack(&fake.head, "a b", set, 1, NOW_US, 0, codes, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_ack(&fake.head, "b", NULL, 1, NOW_US, 0, codes, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_ack(&fake.head, "b", set, 1, NOW_US, 0, NULL, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_relinquish(&fake.head, "b", set, 1, -1, 0, codes, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(
        daybook_journal_extend(&fake.head, "b", set, 1, UINT32_MAX, NOW_US, 0, codes, NULL),
        DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_quarantine(&fake.head, "b", set[0],
                                                (enum daybook_quarantine_reason)0, BYTES("x"),
                                                NOW_US, 0, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_quarantine(&fake.head, "b", set[0], DAYBOOK_REASON_REJECTED,
                                                (struct daybook_bytes){NULL, 1}, NOW_US, 0, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(fake.seen.calls, 0);
}

static void test_K4_words_are_cut_in_front_of_a_character(void **state)
{
    struct fake fake = make_fake();
    static char text[DAYBOOK_WORDS_BYTES_MAX + 10];
    const struct daybook_hand_out hand_out = {1, 1};

    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(daybook_journal_quarantine(&fake.head, "b", hand_out, DAYBOOK_REASON_REJECTED,
                                                (struct daybook_bytes){text, sizeof text}, NOW_US,
                                                0, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.words_len, DAYBOOK_WORDS_BYTES_MAX);
    memcpy(text + DAYBOOK_WORDS_BYTES_MAX - 2, "\xE2\x82\xAC", 3);
    assert_int_equal(daybook_journal_quarantine(&fake.head, "b", hand_out, DAYBOOK_REASON_REJECTED,
                                                (struct daybook_bytes){text, sizeof text}, NOW_US,
                                                0, NULL),
                     DAYBOOK_OK);
    assert_int_equal(fake.seen.words_len, DAYBOOK_WORDS_BYTES_MAX - 2);
    assert_string_equal(daybook_quarantine_reason_name(DAYBOOK_REASON_MALFORMED), "malformed");
    assert_string_equal(daybook_quarantine_reason_name(DAYBOOK_REASON_REJECTED), "rejected");
    assert_string_equal(daybook_quarantine_reason_name(DAYBOOK_REASON_ATTEMPTS_EXHAUSTED),
                        "attempts_exhausted");
    assert_string_equal(daybook_quarantine_reason_name((enum daybook_quarantine_reason)0),
                        "unknown_reason");
}

/* ---- look and keep ---------------------------------------------------------------------------- */

static void test_look_and_keep_fill_optional_results(void **state)
{
    struct fake fake = make_fake();
    struct daybook_batch *batch = make_batch(1, 1);
    struct daybook_journal_stats stats;
    struct daybook_consumer_stats consumer_stats;
    uint64_t number = 0;
    size_t count = 9;

    (void)state;
    assert_int_equal(daybook_journal_maintain(&fake.head, NOW_US, 0, NULL, NULL), DAYBOOK_OK);
    assert_int_equal(daybook_journal_maintain(&fake.head, NOW_US, 0, &number, NULL), DAYBOOK_OK);
    assert_int_equal(number, 7);
    assert_int_equal(
        daybook_journal_read(&fake.head, 4, DAYBOOK_WHERE_ALL, batch, &number, NULL, NULL),
        DAYBOOK_OK);
    assert_int_equal(number, 5);
    assert_int_equal(
        daybook_journal_read(&fake.head, 4, (enum daybook_where)9, batch, &number, NULL, NULL),
        DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(
        daybook_journal_read(&fake.head, 4, DAYBOOK_WHERE_ALL, batch, NULL, NULL, NULL),
        DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_stats(&fake.head, NOW_US, &stats, NULL), DAYBOOK_OK);
    assert_int_equal(daybook_journal_stats(&fake.head, NOW_US, NULL, NULL), DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_consumer_stats(&fake.head, "b", NOW_US, &consumer_stats, NULL),
                     DAYBOOK_OK);
    assert_int_equal(daybook_journal_consumer_stats(&fake.head, "B", NOW_US, &consumer_stats, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_consumers(&fake.head, NULL, 0, &count, NULL), DAYBOOK_OK);
    assert_int_equal(count, 0);
    assert_int_equal(daybook_journal_consumers(&fake.head, NULL, 1, &count, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_find(&fake.head, (struct daybook_bytes){"a", 1}, NOW_US, batch,
                                          NULL, 1, &count, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_find(&fake.head, (struct daybook_bytes){"", 0}, NOW_US, batch,
                                          NULL, 0, &count, NULL),
                     DAYBOOK_BAD_ARGUMENT);
    assert_int_equal(daybook_journal_capacity(&fake.head)->delivery_attempts_max, 8);
    assert_int_equal(daybook_journal_close(&fake.head, NULL), DAYBOOK_OK);
    assert_int_equal(daybook_journal_close(NULL, NULL), DAYBOOK_OK);
    assert_null(daybook_journal_capacity(NULL));
    daybook_journal_wait(NULL, 0, 0);
    daybook_journal_wake(NULL);
    daybook_batch_free(batch);
}

/* ---- names and capacity ------------------------------------------------------------------------ */

static void test_consumer_names(void **state)
{
    static const char longest[] =
        "abcdefghijklmnopqrstuvwxyz0123456789_-abcdefghijklmnopqrstuvwxyz";

    (void)state;
    assert_true(dbk_consumer_name_valid("a", 1));
    assert_true(dbk_consumer_name_valid("-", 1));
    assert_true(dbk_consumer_name_valid("billing_2-x", 11));
    assert_true(dbk_consumer_name_valid(longest, 63));
    assert_false(dbk_consumer_name_valid(longest, 64));
    assert_false(dbk_consumer_name_valid("", 0));
    assert_false(dbk_consumer_name_valid("a.b", 3));
    assert_false(dbk_consumer_name_valid("\xC3\xA4", 2));
    assert_false(dbk_consumer_name_valid("a\0b", 3));
}

static void test_P1_P3_capacity_defaults(void **state)
{
    struct daybook_capacity given = {0};
    struct daybook_capacity got;

    (void)state;
    assert_int_equal(dbk_capacity_fill(&given, &got, NULL), DAYBOOK_OK);
    assert_int_equal(got.events_max, 1000000);
    assert_int_equal(got.retain_acknowledged_us, INT64_C(86400000000));
    assert_int_equal(got.delivery_attempts_max, 8);
    assert_int_equal(got.events.event_bytes_max, 256 * 1024);
    given.retain_acknowledged_us = -5;
    assert_int_equal(dbk_capacity_fill(&given, &got, NULL), DAYBOOK_OK);
    assert_true(got.retain_acknowledged_us < 0);
    given = got;
    assert_int_equal(dbk_capacity_fill(&given, &got, NULL), DAYBOOK_OK);
    assert_memory_equal(&given, &got, sizeof got);
}

static void test_P1_capacity_ranges(void **state)
{
    static const struct daybook_capacity wrong[] = {
        {.events_max = DAYBOOK_EVENTS_LIMIT + 1},
        {.retain_acknowledged_us = INT64_MAX},
        {.delivery_attempts_max = UINT32_MAX},
        {.policy = (enum daybook_capacity_policy)7},
        {.events = {.identity = (enum daybook_identity)7}},
        {.events = {.event_bytes_max = UINT32_MAX}},
    };
    struct daybook_capacity got = {.events_max = 42};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct daybook_error err = {0};

        assert_int_equal(dbk_capacity_fill(&wrong[i], &got, &err), DAYBOOK_BAD_CONFIG);
        assert_true(err.message[0] != '\0');
        assert_int_equal(got.events_max, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_E2_append_without_an_id_never_reaches_the_engine),
        cmocka_unit_test(test_append_hands_over_and_answers_the_events_code),
        cmocka_unit_test(test_append_misuse_is_a_code),
        cmocka_unit_test(test_A6_one_bad_event_does_not_spoil_its_neighbours),
        cmocka_unit_test(test_A6_a_good_batch_stays_whole_and_a_failure_is_returned),
        cmocka_unit_test(test_A6_submit_checks_what_was_not_checked),
        cmocka_unit_test(test_queue_functions_accept_nothing),
        cmocka_unit_test(test_C2_C4b_C6_defaults_of_a_claim_are_filled_in),
        cmocka_unit_test(test_C12_an_empty_claim_needs_no_lease),
        cmocka_unit_test(test_claim_misuse_is_a_code),
        cmocka_unit_test(test_C2_a_batch_always_has_room_for_one_event_more),
        cmocka_unit_test(test_K1_verdicts_are_handed_over_as_sets),
        cmocka_unit_test(test_verdict_misuse_is_a_code),
        cmocka_unit_test(test_K4_words_are_cut_in_front_of_a_character),
        cmocka_unit_test(test_look_and_keep_fill_optional_results),
        cmocka_unit_test(test_consumer_names),
        cmocka_unit_test(test_P1_P3_capacity_defaults),
        cmocka_unit_test(test_P1_capacity_ranges),
    };

    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
