/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocation: what is still needed of a segment that holds little is copied to the end of the log, and the
 * old segment goes. On the simulated disk, every operation doing its own part, in moved time.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "disk.h"
#include "engines/log/log.h"

#define PATH "/journal"
#define CONSUMER "ledger"
#define SEGMENT_BYTES 65536u
#define START_US INT64_C(1700000000000000)
#define SECOND_US INT64_C(1000000)
#define RECORD_BYTES 700u
#define CLAIM_EVENTS 64u
#define EVENTS_MOST 8192u
#define RETAIN_US (60 * SECOND_US)

struct fixture {
    struct sim_disk *disk;
    struct daybook_log_options options;
    struct daybook_journal *journal;
    struct daybook_batch *batch;
    struct daybook_error err;
    int64_t now_us;
    unsigned given; /* events appended so far: e1 to eN */
};

static void open_journal(struct fixture *f)
{
    f->options.now_us = f->now_us;
    enum daybook_code code = dbk_log_open(&f->options, &f->disk->os, &f->journal, &f->err);
    if (code != DAYBOOK_OK) {
        print_error("%s\n", f->err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->disk = sim_disk_new(7);
    f->now_us = START_US;
    f->options = (struct daybook_log_options){.path = PATH,
                                              .capacity = {.events_max = EVENTS_MOST,
                                                           .retain_acknowledged_us = RETAIN_US,
                                                           .events = {.event_bytes_max = 4096}},
                                              .bytes_max = 64u * SEGMENT_BYTES,
                                              .free_disk_min = 1,
                                              .segment_bytes = SEGMENT_BYTES,
                                              .threads = DAYBOOK_LOG_INLINE};
    assert_int_equal(daybook_batch_new(CLAIM_EVENTS, 1 << 20, 4096, &f->batch, NULL), DAYBOOK_OK);
    open_journal(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->journal != NULL) {
        dbk_log_abandon(f->journal);
    }
    daybook_batch_free(f->batch);
    sim_disk_free(f->disk);
    free(f);
    return 0;
}

static void pass_time(struct fixture *f, int64_t us)
{
    f->now_us += us;
    f->disk->realtime_us += us;
    f->disk->monotonic_us += us;
}

static void housekeep(struct fixture *f)
{
    pass_time(f, 2 * SECOND_US);
    while (dbk_log_housekeep(f->journal)) {
    }
}

/* Time passes, with its rounds and its maintenance. */
static void live(struct fixture *f, unsigned seconds)
{
    uint64_t pruned = 0;
    for (unsigned i = 0; i < seconds; i += 2) {
        housekeep(f);
        assert_int_equal(
            daybook_journal_maintain(f->journal, f->now_us, DAYBOOK_NO_DEADLINE, &pruned, &f->err),
            DAYBOOK_OK);
    }
    housekeep(f);
}

static struct daybook_append_result append_event(struct fixture *f, unsigned n)
{
    char id[32];
    char record[RECORD_BYTES + 1];
    struct daybook_append_result result = {.code = DAYBOOK_OK};
    (void)snprintf(id, sizeof id, "e%u", n);
    memset(record, 'x', sizeof record);
    (void)snprintf(record, sizeof record, "{\"n\":%u,\"pad\":\"", n);
    record[strlen(record)] = 'x';
    memcpy(record + RECORD_BYTES - 2, "\"}", 3);
    struct daybook_event event = {.request_id = {id, strlen(id)},
                                  .name_space = {"team", 4},
                                  .subject = {id, strlen(id)},
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = {record, RECORD_BYTES}};
    enum daybook_code code = daybook_journal_append(f->journal, &event, f->now_us,
                                                    DAYBOOK_NO_DEADLINE, &result, &f->err);
    result.code = code;
    return result;
}

static void append(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(append_event(f, ++f->given).code, DAYBOOK_OK);
        (void)dbk_log_housekeep(f->journal);
    }
}

static unsigned number_of(const struct daybook_delivery *delivery)
{
    char id[32];
    assert_true(delivery->event.request_id.len < sizeof id);
    memcpy(id, delivery->event.request_id.data, delivery->event.request_id.len);
    id[delivery->event.request_id.len] = '\0';
    assert_int_equal(id[0], 'e');
    return (unsigned)strtoul(id + 1, NULL, 10);
}

static size_t claim(struct fixture *f)
{
    struct daybook_claim wanted = {.consumer = CONSUMER,
                                   .events_max = CLAIM_EVENTS,
                                   .key_run = 1,
                                   .lease_ms = 3600000,
                                   .hand_outs_max = 1000};
    assert_int_equal(daybook_journal_claim(f->journal, &wanted, f->now_us, DAYBOOK_NO_DEADLINE,
                                           f->batch, &f->err),
                     DAYBOOK_OK);
    return f->batch->count;
}

/* Claims everything that waits, and acknowledges all but the first of each `keep` (0: all). Returns how many were claimed. */
static unsigned deliver_but(struct fixture *f, unsigned keep)
{
    unsigned claimed = 0;
    while (claim(f) > 0) {
        struct daybook_hand_out set[CLAIM_EVENTS];
        enum daybook_code codes[CLAIM_EVENTS];
        size_t count = 0;
        for (size_t i = 0; i < f->batch->count; i++) {
            const struct daybook_delivery *d = &f->batch->deliveries[i];
            if (keep == 0 || number_of(d) % keep != 1) {
                set[count++] = (struct daybook_hand_out){d->position, d->token};
            }
        }
        claimed += (unsigned)f->batch->count;
        assert_int_equal(daybook_journal_ack(f->journal, CONSUMER, set, count, f->now_us,
                                             DAYBOOK_NO_DEADLINE, codes, &f->err),
                         DAYBOOK_OK);
    }
    return claimed;
}

static struct daybook_journal_stats figures(struct fixture *f)
{
    struct daybook_journal_stats stats;
    assert_int_equal(daybook_journal_stats(f->journal, f->now_us, &stats, &f->err), DAYBOOK_OK);
    return stats;
}

/* The first of each `keep` events is stored, as it was given, in order, and no other. */
static void assert_stored(struct fixture *f, unsigned keep)
{
    uint64_t last = 0;
    unsigned expected = 1;
    do {
        assert_int_equal(daybook_journal_read(f->journal, last, DAYBOOK_WHERE_ALL, f->batch, &last,
                                              NULL, &f->err),
                         DAYBOOK_OK);
        for (size_t i = 0; i < f->batch->count; i++) {
            const struct daybook_delivery *d = &f->batch->deliveries[i];
            assert_int_equal(number_of(d), expected);
            assert_int_equal(d->position, expected);
            assert_int_equal(d->event.record.len, RECORD_BYTES);
            expected += keep;
        }
    } while (f->batch->more);
    assert_true(expected > f->given);
}

static void assert_sound(struct fixture *f)
{
    struct daybook_log_report report;
    enum daybook_code code = dbk_log_verify(PATH, &f->disk->os, NULL, NULL, &report, &f->err);
    if (code != DAYBOOK_OK) {
        print_error("verify: %s\n", f->err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
    assert_int_equal(report.damaged, 0);
}

static void crash(struct fixture *f, enum sim_profile profile)
{
    dbk_log_abandon(f->journal);
    f->journal = NULL;
    sim_power_cut(f->disk, profile, 3);
    open_journal(f);
}

static void test_P1_what_is_needed_is_copied_and_the_segments_go(void **state)
{
    struct fixture *f = *state;
    append(f, 400);
    (void)deliver_but(f, 40);
    uint64_t before = figures(f).file_bytes;
    live(f, 400);
    assert_int_equal(figures(f).stored_events, 10);
    assert_stored(f, 40);
    print_message("file bytes %llu -> %llu\n", (unsigned long long)before,
                  (unsigned long long)figures(f).file_bytes);
    assert_sound(f);
    crash(f, SIM_KEEP_NOTHING);
    assert_stored(f, 40);
    assert_sound(f);
}

static void test_P1_one_old_event_pins_nothing(void **state)
{
    struct fixture *f = *state;
    append(f, 700);
    (void)deliver_but(f, 5000);
    live(f, 400);
    assert_int_equal(figures(f).stored_events, 1);
    assert_stored(f, 5000);
    /* The tail, the prepared one, what stands between two checkpoints, and the checkpoints. */
    assert_true(figures(f).file_bytes <= 4u * SEGMENT_BYTES);
    pass_time(f, 3600 * SECOND_US);
    assert_int_equal(deliver_but(f, 0), 1);
}

static void test_K4_the_words_of_a_quarantine_and_the_trail_move_along(void **state)
{
    struct fixture *f = *state;
    struct daybook_operator by = {.who = {"ann", 3}, .why = {"again", 5}};
    append(f, 1);
    assert_int_equal(claim(f), 1);
    struct daybook_hand_out hand_out = {f->batch->deliveries[0].position,
                                        f->batch->deliveries[0].token};
    assert_int_equal(daybook_journal_quarantine(f->journal, CONSUMER, hand_out,
                                                DAYBOOK_REASON_REJECTED,
                                                (struct daybook_bytes){"no such table", 13},
                                                f->now_us, DAYBOOK_NO_DEADLINE, &f->err),
                     DAYBOOK_OK);
    append(f, 500);
    (void)deliver_but(f, 0);
    assert_int_equal(
        daybook_journal_rewind(f->journal, CONSUMER, &by, f->now_us, DAYBOOK_NO_DEADLINE, &f->err),
        DAYBOOK_OK);
    (void)deliver_but(f, 0);
    live(f, 400);
    assert_true(figures(f).file_bytes <= 4u * SEGMENT_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        struct daybook_quarantine_entry entries[CLAIM_EVENTS];
        struct daybook_operation operation[2];
        size_t count = 0;
        uint64_t last = 0;
        assert_int_equal(daybook_journal_quarantine_list(f->journal, CONSUMER, 0,
                                                         (enum daybook_quarantine_reason)0,
                                                         f->batch, entries, &last, &f->err),
                         DAYBOOK_OK);
        assert_int_equal(f->batch->count, 1);
        assert_int_equal(entries[0].words_len, 13);
        assert_memory_equal(entries[0].words, "no such table", 13);
        assert_int_equal(daybook_journal_operations(f->journal, 0, operation, 2, &count, &f->err),
                         DAYBOOK_OK);
        assert_int_equal(count, 1);
        assert_string_equal(operation[0].who, "ann");
        assert_sound(f);
        crash(f, SIM_KEEP_NOTHING);
    }
}

/* What a life up to `crash_at` steps behind its relocation leaves. Returns whether it came to its end. */
static bool cut_at(uint64_t step, enum sim_profile profile)
{
    void *made = NULL;
    (void)setup(&made);
    struct fixture *f = made;
    append(f, 120);
    (void)deliver_but(f, 30);
    housekeep(f); /* what was acknowledged is on disk */
    pass_time(f, RETAIN_US + SECOND_US);
    f->disk->crash_at = f->disk->steps + step;
    for (unsigned i = 0; i < 100 && !f->disk->dead; i++) {
        uint64_t pruned = 0;
        pass_time(f, 2 * SECOND_US);
        while (!f->disk->dead && dbk_log_housekeep(f->journal)) {
        }
        enum daybook_code code =
            daybook_journal_maintain(f->journal, f->now_us, DAYBOOK_NO_DEADLINE, &pruned, &f->err);
        assert_true(code == DAYBOOK_OK || f->disk->dead);
    }
    bool ended = !f->disk->dead;
    crash(f, profile);
    assert_sound(f);
    pass_time(f, 3 * 3600 * SECOND_US);
    live(f, 200);
    assert_stored(f, 30);
    assert_int_equal(deliver_but(f, 0), 4); /* and no acknowledged one is delivered again */
    (void)teardown(&made);
    return ended;
}

static void test_D1_D5_cut_at_any_step_nothing_is_lost_and_nothing_comes_back(void **state)
{
    (void)state;
    bool ended[2] = {false, false};
    for (uint64_t step = 1; !ended[0]; step += 3) {
        ended[0] = cut_at(step, SIM_KEEP_NOTHING);
    }
    for (uint64_t step = 2; !ended[1]; step += 7) {
        ended[1] = cut_at(step, SIM_KEEP_ALL);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_P1_one_old_event_pins_nothing),
        TEST(test_K4_the_words_of_a_quarantine_and_the_trail_move_along),
        cmocka_unit_test(test_D1_D5_cut_at_any_step_nothing_is_lost_and_nothing_comes_back),
        TEST(test_P1_what_is_needed_is_copied_and_the_segments_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
