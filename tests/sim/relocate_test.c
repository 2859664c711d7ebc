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

#include "engines/log/log_impl.h"
#include "small_journal.h"

#define RECORD_BYTES 700u
#define EVENTS_MOST 8192u
#define RETAIN_US (60 * SECOND_US)

static void open_journal(struct small *f)
{
    enum daybook_code code = small_open(f);
    if (code != DAYBOOK_OK) {
        print_error("%s\n", f->err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
}

static int setup(void **state)
{
    struct small *f = small_new(EVENTS_MOST, 64u * SMALL_SEGMENT_BYTES, RECORD_BYTES);
    f->options.capacity.retain_acknowledged_us = RETAIN_US;
    open_journal(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    small_free(*state);
    return 0;
}

/* Time passes, with its rounds and its maintenance. */
static void live(struct small *f, unsigned seconds)
{
    uint64_t pruned = 0;
    for (unsigned i = 0; i < seconds; i += 2) {
        small_housekeep(f);
        assert_int_equal(
            daybook_journal_maintain(f->journal, f->now_us, DAYBOOK_NO_DEADLINE, &pruned, &f->err),
            DAYBOOK_OK);
    }
    small_housekeep(f);
}

static void append(struct small *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(small_append(f, ++f->given), DAYBOOK_OK);
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

static size_t claim(struct small *f)
{
    struct daybook_claim wanted = {.consumer = SMALL_CONSUMER,
                                   .events_max = SMALL_CLAIM_EVENTS,
                                   .key_run = 1,
                                   .lease_ms = 3600000,
                                   .hand_outs_max = 1000};
    assert_int_equal(daybook_journal_claim(f->journal, &wanted, f->now_us, DAYBOOK_NO_DEADLINE,
                                           f->batch, &f->err),
                     DAYBOOK_OK);
    return f->batch->count;
}

/* Claims everything that waits, and acknowledges all but the first of each `keep` (0: all). Returns how many were claimed. */
static unsigned deliver_but(struct small *f, unsigned keep)
{
    unsigned claimed = 0;
    while (claim(f) > 0) {
        struct daybook_hand_out set[SMALL_CLAIM_EVENTS];
        enum daybook_code codes[SMALL_CLAIM_EVENTS];
        size_t count = 0;
        for (size_t i = 0; i < f->batch->count; i++) {
            const struct daybook_delivery *d = &f->batch->deliveries[i];
            if (keep == 0 || number_of(d) % keep != 1) {
                set[count++] = (struct daybook_hand_out){d->position, d->token};
            }
        }
        claimed += (unsigned)f->batch->count;
        assert_int_equal(daybook_journal_ack(f->journal, SMALL_CONSUMER, set, count, f->now_us,
                                             DAYBOOK_NO_DEADLINE, codes, &f->err),
                         DAYBOOK_OK);
    }
    return claimed;
}

/* The first of each `keep` events is stored, as it was given, in order, and no other. */
static void assert_stored(struct small *f, unsigned keep)
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

static void assert_sound(struct small *f)
{
    struct daybook_log_report report;
    enum daybook_code code = dbk_log_verify(SMALL_PATH, &f->disk->os, NULL, NULL, &report, &f->err);
    if (code != DAYBOOK_OK) {
        print_error("verify: %s\n", f->err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
    assert_int_equal(report.damaged, 0);
}

static void crash(struct small *f, enum sim_profile profile)
{
    dbk_log_abandon(f->journal);
    f->journal = NULL;
    sim_power_cut(f->disk, profile, 3);
    open_journal(f);
}

static void test_P1_what_is_needed_is_copied_and_the_segments_go(void **state)
{
    struct small *f = *state;
    append(f, 400);
    (void)deliver_but(f, 40);
    uint64_t before = small_figures(f).file_bytes;
    live(f, 400);
    assert_int_equal(small_figures(f).stored_events, 10);
    assert_stored(f, 40);
    print_message("# file bytes %llu -> %llu\n", (unsigned long long)before,
                  (unsigned long long)small_figures(f).file_bytes);
    assert_sound(f);
    crash(f, SIM_KEEP_NOTHING);
    assert_stored(f, 40);
    assert_sound(f);
}

static void test_P1_one_old_event_pins_nothing(void **state)
{
    struct small *f = *state;
    append(f, 700);
    (void)deliver_but(f, 5000);
    live(f, 400);
    assert_int_equal(small_figures(f).stored_events, 1);
    assert_stored(f, 5000);
    /* The tail, the prepared one, what stands between two checkpoints, and the checkpoints. */
    assert_true(small_figures(f).file_bytes <= 4u * SMALL_SEGMENT_BYTES);
    small_pass_time(f, 3600 * SECOND_US);
    assert_int_equal(deliver_but(f, 0), 1);
}

/* A long life of which every twentieth event stays undelivered: at the end of each of its rounds the files
 * take at most four times what is stored, beside what every journal has: the tail, the prepared segment, the log
 * since the older checkpoint and the checkpoints. */
static void test_P1_files_take_at_most_four_times_what_is_stored(void **state)
{
    enum { ROUNDS = 100, EVENTS = 40, KEEP = 20, BESIDE = 4 * SMALL_SEGMENT_BYTES };
    struct small *f = *state;
    uint64_t most = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        append(f, EVENTS);
        (void)deliver_but(f, KEEP);
        live(f, 3 * RETAIN_US / SECOND_US);
        struct daybook_journal_stats figures = small_figures(f);
        assert_int_equal(figures.stored_events, (i + 1) * EVENTS / KEEP);
        uint64_t bound = 4 * figures.stored_bytes + BESIDE;
        most = figures.file_bytes > most ? figures.file_bytes : most;
        if (figures.file_bytes > bound) {
            fail_msg("round %u: %llu bytes of files, %llu stored", i,
                     (unsigned long long)figures.file_bytes,
                     (unsigned long long)figures.stored_bytes);
        }
    }
    print_message("# at most %llu bytes of files at %llu stored\n", (unsigned long long)most,
                  (unsigned long long)small_figures(f).stored_bytes);
    assert_stored(f, KEEP);
    crash(f, SIM_KEEP_NOTHING);
    assert_stored(f, KEEP);
    assert_sound(f);
    small_pass_time(f, 3600 * SECOND_US);
    assert_int_equal(deliver_but(f, 0), ROUNDS * EVENTS / KEEP);
    live(f, 400);
    assert_true(small_figures(f).file_bytes <= BESIDE);
}

static void test_K4_the_words_of_a_quarantine_and_the_trail_move_along(void **state)
{
    struct small *f = *state;
    struct daybook_operator by = {.who = {"ann", 3}, .why = {"again", 5}};
    append(f, 1);
    assert_int_equal(claim(f), 1);
    struct daybook_hand_out hand_out = {f->batch->deliveries[0].position,
                                        f->batch->deliveries[0].token};
    assert_int_equal(daybook_journal_quarantine(f->journal, SMALL_CONSUMER, hand_out,
                                                DAYBOOK_REASON_REJECTED,
                                                (struct daybook_bytes){"no such table", 13},
                                                f->now_us, DAYBOOK_NO_DEADLINE, &f->err),
                     DAYBOOK_OK);
    append(f, 500);
    (void)deliver_but(f, 0);
    assert_int_equal(daybook_journal_rewind(f->journal, SMALL_CONSUMER, &by, f->now_us,
                                            DAYBOOK_NO_DEADLINE, &f->err),
                     DAYBOOK_OK);
    (void)deliver_but(f, 0);
    live(f, 400);
    assert_true(small_figures(f).file_bytes <= 4u * SMALL_SEGMENT_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        struct daybook_quarantine_entry entries[SMALL_CLAIM_EVENTS];
        struct daybook_operation operation[2];
        size_t count = 0;
        uint64_t last = 0;
        assert_int_equal(daybook_journal_quarantine_list(f->journal, SMALL_CONSUMER, 0,
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

/* One event of each of two callers stays, and more of theirs follow once it was copied: they come in order. */
static void test_C4_a_relocation_changes_the_order_of_no_key(void **state)
{
    enum { CALLERS = 2, LATER = 3 };
    struct small *f = *state;
    for (unsigned i = 0; i < CALLERS; i++) {
        assert_int_equal(small_append_as(f, ++f->given, i == 0 ? "ann" : "bob"), DAYBOOK_OK);
    }
    append(f, 500);
    assert_true(claim(f) > 0);
    small_pass_time(f, 3 * 3600 * SECOND_US); /* its leases are over */
    while (claim(f) > 0) {
        /* All between them is acknowledged; theirs are kept by their leases. */
        struct daybook_hand_out set[SMALL_CLAIM_EVENTS];
        enum daybook_code codes[SMALL_CLAIM_EVENTS];
        size_t count = 0;
        for (size_t i = 0; i < f->batch->count; i++) {
            const struct daybook_delivery *d = &f->batch->deliveries[i];
            if (d->position > CALLERS && d->position <= 502) {
                set[count++] = (struct daybook_hand_out){d->position, d->token};
            }
        }
        assert_int_equal(daybook_journal_ack(f->journal, SMALL_CONSUMER, set, count, f->now_us,
                                             DAYBOOK_NO_DEADLINE, codes, &f->err),
                         DAYBOOK_OK);
    }
    for (unsigned i = 0; i < CALLERS * LATER; i++) {
        assert_int_equal(small_append_as(f, ++f->given, i % 2 == 0 ? "ann" : "bob"), DAYBOOK_OK);
    }
    unsigned last = f->given;
    /* Until their copies count, and no longer: the later events have to stay where they are meanwhile. */
    uint32_t second;
    for (unsigned i = 0; i < 300 && dbk_segment_lowest(dbk_log_of(f->journal), &second) == 1; i++) {
        live(f, 2);
    }
    assert_true(dbk_segment_lowest(dbk_log_of(f->journal), &second) > 1);
    for (unsigned round = 0; round <= LATER; round++) {
        struct daybook_hand_out set[CALLERS];
        enum daybook_code codes[CALLERS];
        small_pass_time(f, 3 * 3600 * SECOND_US);
        assert_int_equal(claim(f), CALLERS);
        for (unsigned i = 0; i < CALLERS; i++) {
            const struct daybook_delivery *d = &f->batch->deliveries[i];
            unsigned expected =
                round == 0 ? i + 1 : last - CALLERS * LATER + (round - 1) * CALLERS + i + 1;
            assert_int_equal(number_of(d), expected);
            set[i] = (struct daybook_hand_out){d->position, d->token};
        }
        assert_int_equal(daybook_journal_ack(f->journal, SMALL_CONSUMER, set, CALLERS, f->now_us,
                                             DAYBOOK_NO_DEADLINE, codes, &f->err),
                         DAYBOOK_OK);
    }
}

/* What a life up to `crash_at` steps behind its relocation leaves. Returns whether it came to its end. */
static bool cut_at(uint64_t step, enum sim_profile profile)
{
    void *made = NULL;
    (void)setup(&made);
    struct small *f = made;
    append(f, 120);
    (void)deliver_but(f, 30);
    small_housekeep(f); /* what was acknowledged is on disk */
    small_pass_time(f, RETAIN_US + SECOND_US);
    f->disk->crash_at = f->disk->steps + step;
    for (unsigned i = 0; i < 100 && !f->disk->dead; i++) {
        uint64_t pruned = 0;
        small_pass_time(f, 2 * SECOND_US);
        while (!f->disk->dead && dbk_log_housekeep(f->journal)) {
        }
        enum daybook_code code =
            daybook_journal_maintain(f->journal, f->now_us, DAYBOOK_NO_DEADLINE, &pruned, &f->err);
        assert_true(code == DAYBOOK_OK || f->disk->dead);
    }
    bool ended = !f->disk->dead;
    crash(f, profile);
    assert_sound(f);
    small_pass_time(f, 3 * 3600 * SECOND_US);
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

/* A backup of a journal that only a checkpoint tells whole opens, and has what the journal has. */
static void test_K1_a_backup_of_what_only_a_checkpoint_tells(void **state)
{
    struct small *f = *state;
    struct daybook_log_backup_report report;
    append(f, 400);
    (void)deliver_but(f, 40);
    live(f, 400);
    enum daybook_code code = dbk_log_backup(SMALL_PATH, "/copy", &f->disk->os, &report, &f->err);
    if (code != DAYBOOK_OK) {
        print_error("backup: %s\n", f->err.message);
    }
    assert_int_equal(code, DAYBOOK_OK);
    assert_int_equal(daybook_journal_close(f->journal, &f->err), DAYBOOK_OK);
    f->journal = NULL;
    f->options.path = "/copy";
    open_journal(f);
    assert_stored(f, 40);
    small_pass_time(f, 3600 * SECOND_US);
    assert_int_equal(deliver_but(f, 0), 10); /* and no acknowledged one is delivered again */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_P1_one_old_event_pins_nothing),
        TEST(test_P1_files_take_at_most_four_times_what_is_stored),
        TEST(test_C4_a_relocation_changes_the_order_of_no_key),
        TEST(test_K1_a_backup_of_what_only_a_checkpoint_tells),
        TEST(test_K4_the_words_of_a_quarantine_and_the_trail_move_along),
        cmocka_unit_test(test_D1_D5_cut_at_any_step_nothing_is_lost_and_nothing_comes_back),
        TEST(test_P1_what_is_needed_is_copied_and_the_segments_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
