/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine at the disk's limit, and on a disk that fails: what the caller is told, what can still be
 * read, how it goes on. Each test is a row of the table in docs/RECOVERY.md. On the simulated disk, every
 * operation doing its own part.
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

#include "small_journal.h"

#define BYTES_MAX (16u * SMALL_SEGMENT_BYTES)
#define RECORD_BYTES 1500u
#define EVENTS_MOST 4096u

static int setup(void **state)
{
    struct small *f = small_new(EVENTS_MOST, BYTES_MAX, RECORD_BYTES);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    small_free(*state);
    return 0;
}

/* Appends from `n` on until one is refused, housekeeping between. Returns the number of that one. */
static unsigned append_until_refused(struct small *f, unsigned n)
{
    while (small_append(f, n) == DAYBOOK_OK) {
        n++;
        assert_true(n < EVENTS_MOST);
        (void)dbk_log_housekeep(f->journal);
    }
    return n;
}

static void assert_refused(const struct small *f, enum daybook_limit limit)
{
    assert_int_equal(f->result.code, DAYBOOK_AT_CAPACITY);
    assert_int_equal(f->result.limit, limit);
}

static size_t claim(struct small *f, uint32_t events)
{
    struct daybook_claim wanted = {
        .consumer = SMALL_CONSUMER, .events_max = events, .key_run = 1, .lease_ms = 30000};
    assert_int_equal(daybook_journal_claim(f->journal, &wanted, f->now_us, DAYBOOK_NO_DEADLINE,
                                           f->batch, &f->err),
                     DAYBOOK_OK);
    return f->batch->count;
}

static void ack_batch(struct small *f)
{
    struct daybook_hand_out set[SMALL_CLAIM_EVENTS];
    enum daybook_code codes[SMALL_CLAIM_EVENTS];
    for (size_t i = 0; i < f->batch->count; i++) {
        const struct daybook_delivery *d = &f->batch->deliveries[i];
        set[i] = (struct daybook_hand_out){d->position, d->token};
    }
    assert_int_equal(daybook_journal_ack(f->journal, SMALL_CONSUMER, set, f->batch->count,
                                         f->now_us, DAYBOOK_NO_DEADLINE, codes, &f->err),
                     DAYBOOK_OK);
}

/* Claims and acknowledges until nothing comes. Returns how many. */
static unsigned deliver_all(struct small *f)
{
    unsigned delivered = 0;
    while (claim(f, SMALL_CLAIM_EVENTS) > 0) {
        delivered += (unsigned)f->batch->count;
        ack_batch(f);
    }
    return delivered;
}

/* How many stored events can be read by position. */
static unsigned readable(struct small *f)
{
    unsigned count = 0;
    uint64_t last = 0;
    do {
        assert_int_equal(daybook_journal_read(f->journal, last, DAYBOOK_WHERE_ALL, f->batch, &last,
                                              NULL, &f->err),
                         DAYBOOK_OK);
        count += (unsigned)f->batch->count;
    } while (f->batch->more);
    return count;
}

static void inject(struct small *f, enum sim_trouble trouble, enum sim_call call,
                   const char *name_part, int os_errno)
{
    sim_inject(f->disk, (struct sim_injection){.trouble = trouble,
                                               .call = call,
                                               .name_part = name_part,
                                               .nth = 1,
                                               .os_errno = os_errno,
                                               .short_bytes = 512});
}

/* ---- no room ----------------------------------------------------------------------------------- */

/* Appends are refused, everything that waits is delivered out of the reserve, and it ends by itself. */
static void full_and_emptied(struct small *f, enum daybook_limit limit)
{
    unsigned n = append_until_refused(f, 1);
    assert_refused(f, limit);
    assert_int_equal(f->result.retained, n - 1);
    assert_true(n > 10);
    assert_int_equal(small_append(f, 1), DAYBOOK_ALREADY_PRESENT); /* A3: decided first */
    assert_int_equal(readable(f), n - 1);
    assert_int_equal(deliver_all(f), n - 1);
    assert_int_equal(small_figures(f).state, DAYBOOK_JOURNAL_OPEN);
}

static void test_A4_no_room_for_the_next_segment(void **state)
{
    static const struct {
        enum sim_call call;
        int os_errno;
    } rows[] = {{SIM_FALLOCATE, ENOSPC}, {SIM_FALLOCATE, EDQUOT}, {SIM_FALLOCATE, EFBIG},
                {SIM_PWRITE, ENOSPC},    {SIM_PWRITE, EDQUOT},    {SIM_PWRITE, EIO},
                {SIM_FSYNC, ENOSPC},     {SIM_FSYNC, EIO},        {SIM_RENAME, EIO},
                {SIM_RENAME, ENOSPC},    {SIM_OPEN, EMFILE},      {SIM_OPEN, EROFS}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *made = NULL;
        (void)setup(&made);
        struct small *f = made;
        small_housekeep(f);
        inject(f, SIM_FAIL_STICKY, rows[i].call, ".tmp", rows[i].os_errno);
        full_and_emptied(f, DAYBOOK_LIMIT_DISK);
        sim_calm(f->disk);
        small_housekeep(f); /* no restart */
        assert_int_equal(small_append(f, EVENTS_MOST), DAYBOOK_OK);
        (void)teardown(&made);
    }
}

static void test_A4_the_name_of_the_next_segment_cannot_be_made_durable(void **state)
{
    struct small *f = *state;
    small_housekeep(f);
    inject(f, SIM_FAIL_STICKY, SIM_FSYNC_DIR, NULL, EIO);
    full_and_emptied(f, DAYBOOK_LIMIT_DISK);
    sim_calm(f->disk);
    small_housekeep(f);
    assert_int_equal(small_append(f, EVENTS_MOST), DAYBOOK_OK);
    dbk_log_abandon(f->journal);
    f->journal = NULL;
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 1);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    assert_int_equal(small_append(f, EVENTS_MOST), DAYBOOK_ALREADY_PRESENT);
}

static void test_A4_max_bytes_counts_what_is_on_the_disk(void **state)
{
    struct small *f = *state;
    full_and_emptied(f, DAYBOOK_LIMIT_BYTES);
    assert_true(small_figures(f).file_bytes <= BYTES_MAX);
    small_housekeep(f);
    assert_int_equal(small_append(f, EVENTS_MOST),
                     DAYBOOK_OK); /* P4: delivered ones were given up */
    assert_true(small_figures(f).reclaimed > 0);
}

static void test_A4_a_full_disk_by_its_free_bytes(void **state)
{
    struct small *f = *state;
    f->disk->space_bytes = 10 * SMALL_SEGMENT_BYTES;
    full_and_emptied(f, DAYBOOK_LIMIT_DISK);
    f->disk->space_bytes = BYTES_MAX * 4;
    small_housekeep(f);
    assert_int_equal(small_append(f, EVENTS_MOST), DAYBOOK_OK);
}

/* Claims one and acknowledges it. False: there is no room to write that down. */
static bool ack_one(struct small *f)
{
    struct daybook_claim wanted = {
        .consumer = SMALL_CONSUMER, .events_max = 1, .key_run = 1, .lease_ms = 30000};
    enum daybook_code code = daybook_journal_claim(f->journal, &wanted, f->now_us,
                                                   DAYBOOK_NO_DEADLINE, f->batch, &f->err);
    if (code == DAYBOOK_OK) {
        assert_int_equal(f->batch->count, 1);
        const struct daybook_delivery *d = &f->batch->deliveries[0];
        struct daybook_hand_out hand_out = {d->position, d->token};
        enum daybook_code verdict;
        code = daybook_journal_ack(f->journal, SMALL_CONSUMER, &hand_out, 1, f->now_us,
                                   DAYBOOK_NO_DEADLINE, &verdict, &f->err);
    }
    assert_true(code == DAYBOOK_OK || code == DAYBOOK_BACKEND);
    return code == DAYBOOK_OK;
}

/* 2.6: the reserve is a whole segment while one was prepared, and what is left of the tail once there was
 * no room for another one. */
static void test_A4_a_whole_segment_is_kept_for_deliveries(void **state)
{
    struct small *f = *state;
    small_housekeep(f);
    inject(f, SIM_FAIL_STICKY, SIM_FALLOCATE, ".tmp", ENOSPC);
    unsigned n = append_until_refused(f, 1);
    uint64_t groups = small_figures(f).groups;
    /* One by one: a block for each claim and a block for each acknowledgement, until there is none. */
    for (unsigned i = 1; i < n && ack_one(f); i++) {
    }
    assert_true((small_figures(f).groups - groups) * 4096 >= SMALL_SEGMENT_BYTES / 2);
    assert_non_null(strstr(f->err.message, "no room left for delivery state"));
}

static void test_P6_everything_stored_is_quarantined(void **state)
{
    struct small *f = *state;
    unsigned n = 1;
    dbk_log_abandon(f->journal);
    sim_kill(f->disk);
    f->options.segment_bytes =
        4 * SMALL_SEGMENT_BYTES; /* the reserve holds what a person does one by one */
    f->options.bytes_max = 4 * BYTES_MAX;
    f->record_bytes = SMALL_RECORD_BYTES_MAX; /* a discard takes a block of the log */
    assert_int_equal(small_open(f), DAYBOOK_OK);
    while (small_append(f, n) == DAYBOOK_OK) {
        assert_int_equal(claim(f, 1), 1);
        const struct daybook_delivery *d = &f->batch->deliveries[0];
        assert_int_equal(
            daybook_journal_quarantine(f->journal, SMALL_CONSUMER,
                                       (struct daybook_hand_out){d->position, d->token},
                                       DAYBOOK_REASON_REJECTED, (struct daybook_bytes){"no", 2},
                                       f->now_us, DAYBOOK_NO_DEADLINE, &f->err),
            DAYBOOK_OK);
        n++;
        assert_true(n < EVENTS_MOST);
        small_housekeep(f);
    }
    assert_refused(f, DAYBOOK_LIMIT_BYTES);
    assert_int_equal(readable(f), n - 1); /* the evidence stays */
    assert_int_equal(small_figures(f).stored_events, n - 1);
    struct daybook_operator by = {.who = {"ann", 3}, .why = {"seen", 4}};
    for (unsigned i = 1; i <= 8; i++) { /* a person decides, in the reserve */
        char id[32];
        (void)snprintf(id, sizeof id, "e%u", i);
        assert_int_equal(daybook_journal_discard(f->journal, SMALL_CONSUMER,
                                                 (struct daybook_bytes){id, strlen(id)}, &by,
                                                 f->now_us, DAYBOOK_NO_DEADLINE, &f->err),
                         DAYBOOK_OK);
    }
    assert_int_equal(small_figures(f).discarded, 8);
    dbk_log_abandon(f->journal);
    sim_kill(f->disk);
    f->options.bytes_max *= 2; /* or gives it more room */
    assert_int_equal(small_open(f), DAYBOOK_OK);
    small_housekeep(f);
    assert_int_equal(small_append(f, n), DAYBOOK_OK);
    assert_int_equal(small_figures(f).stored_events, n - 8);
}

static void test_A4_a_command_that_only_appends_leaves_room_to_deliver(void **state)
{
    struct small *f = *state;
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_OK);
    f->options.append_only = true;
    assert_int_equal(small_open(f), DAYBOOK_OK);
    assert_int_equal(small_append(f, 1), DAYBOOK_OK);
    assert_int_equal(small_figures(f).segment_files, 1); /* none ahead of need */
    unsigned n = 2;
    while (small_append(f, n) == DAYBOOK_OK) {
        n++;
    }
    assert_refused(f, DAYBOOK_LIMIT_BYTES);
    assert_true(small_figures(f).file_bytes <= BYTES_MAX - SMALL_SEGMENT_BYTES);
    (void)daybook_journal_close(f->journal, NULL);
    f->options.append_only = false;
    assert_int_equal(small_open(f), DAYBOOK_OK);
    small_housekeep(f);
    assert_int_equal(deliver_all(f), n - 1);
}

/* ---- a disk that fails --------------------------------------------------------------------------- */

static void fails_for_good(enum sim_trouble trouble, enum sim_call call, int os_errno)
{
    void *made = NULL;
    (void)setup(&made);
    struct small *f = made;
    small_housekeep(f);
    for (unsigned n = 1; n <= 5; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_OK);
    }
    (void)claim(f, 1);
    inject(f, trouble, call, ".dbl", os_errno);
    if (trouble == SIM_SHORT_ONCE) {
        sim_inject(f->disk, (struct sim_injection){.trouble = SIM_FAIL_STICKY,
                                                   .call = call,
                                                   .name_part = ".dbl",
                                                   .nth = 2,
                                                   .os_errno = os_errno});
    }
    assert_int_equal(small_append(f, 6), DAYBOOK_BACKEND);
    assert_int_equal(f->err.os_errno, os_errno);
    assert_non_null(strstr(f->err.message, "has to be reopened"));
    sim_calm(f->disk);
    assert_int_equal(small_append(f, 7),
                     DAYBOOK_BACKEND); /* the disk works again: it is not believed */
    struct daybook_claim wanted = {
        .consumer = SMALL_CONSUMER, .events_max = 1, .key_run = 1, .lease_ms = 30000};
    assert_int_equal(daybook_journal_claim(f->journal, &wanted, f->now_us, DAYBOOK_NO_DEADLINE,
                                           f->batch, &f->err),
                     DAYBOOK_BACKEND);
    assert_int_equal(small_figures(f).state, DAYBOOK_JOURNAL_FAILED);
    assert_int_equal(small_figures(f).failure.os_errno, os_errno);
    assert_int_equal(readable(f), 5);
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_BACKEND);
    f->journal = NULL;
    sim_kill(f->disk);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    enum daybook_code code = small_append(f, 6); /* told `backend`: it may be there */
    assert_true(code == DAYBOOK_OK || code == DAYBOOK_ALREADY_PRESENT);
    for (unsigned n = 1; n <= 5; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_ALREADY_PRESENT);
    }
    assert_int_equal(small_append(f, 7), DAYBOOK_OK);
    (void)teardown(&made);
}

static void test_A7_a_write_to_the_active_segment_fails(void **state)
{
    (void)state;
    fails_for_good(SIM_FAIL_ONCE, SIM_PWRITE, ENOSPC);
    fails_for_good(SIM_FAIL_ONCE, SIM_PWRITE, EDQUOT);
    fails_for_good(SIM_FAIL_ONCE, SIM_PWRITE, EFBIG);
    fails_for_good(SIM_FAIL_ONCE, SIM_PWRITE, EIO);
    fails_for_good(SIM_FAIL_ONCE, SIM_PWRITE, EROFS);
    fails_for_good(SIM_SHORT_ONCE, SIM_PWRITE, ENOSPC); /* half of it is there */
}

static void test_A7_a_sync_of_the_active_segment_fails(void **state)
{
    (void)state;
    fails_for_good(SIM_FAIL_ONCE, SIM_FDATASYNC, EIO);
    fails_for_good(SIM_FAIL_ONCE, SIM_FDATASYNC, ENOSPC);
    fails_for_good(SIM_FAIL_ONCE, SIM_FDATASYNC, EDQUOT);
    fails_for_good(SIM_FAIL_ONCE, SIM_FDATASYNC, EROFS);
}

static void test_A1_a_short_write_is_gone_on_with(void **state)
{
    struct small *f = *state;
    small_housekeep(f);
    inject(f, SIM_SHORT_ONCE, SIM_PWRITE, ".dbl", 0);
    assert_int_equal(small_append(f, 1), DAYBOOK_OK);
    dbk_log_abandon(f->journal);
    f->journal = NULL;
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 1);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    assert_int_equal(small_append(f, 1), DAYBOOK_ALREADY_PRESENT);
}

static void test_A7_the_disk_is_remounted_read_only(void **state)
{
    struct small *f = *state;
    static const enum sim_call writing[] = {SIM_PWRITE, SIM_FALLOCATE, SIM_FTRUNCATE, SIM_RENAME,
                                            SIM_UNLINK, SIM_MKDIR,     SIM_FDATASYNC, SIM_LOCK};
    small_housekeep(f);
    for (unsigned n = 1; n <= 5; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_OK);
    }
    for (size_t i = 0; i < sizeof writing / sizeof writing[0]; i++) {
        inject(f, SIM_FAIL_STICKY, writing[i], NULL, EROFS);
    }
    assert_int_equal(small_append(f, 6), DAYBOOK_BACKEND);
    assert_int_equal(f->err.os_errno, EROFS);
    assert_int_equal(readable(f), 5);
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_BACKEND);
    f->journal = NULL;
    assert_int_equal(small_open(f), DAYBOOK_BACKEND); /* tried again by the daemon */
    assert_int_equal(f->err.os_errno, EROFS);
    assert_int_equal(dbk_log_open_readonly(&f->options, &f->disk->os, &f->journal, &f->err),
                     DAYBOOK_OK);
    assert_int_equal(readable(f), 5);
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_OK);
    f->journal = NULL;
    sim_calm(f->disk);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    assert_int_equal(small_append(f, 5), DAYBOOK_ALREADY_PRESENT);
}

static void test_C7_a_read_that_fails_is_no_verdict(void **state)
{
    struct small *f = *state;
    small_housekeep(f);
    for (unsigned n = 1; n <= 5; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_OK);
    }
    sim_drop_caches(f->disk);
    inject(f, SIM_FAIL_STICKY, SIM_PREAD, ".dbl", EIO);
    struct daybook_claim wanted = {.consumer = SMALL_CONSUMER,
                                   .events_max = SMALL_CLAIM_EVENTS,
                                   .key_run = 1,
                                   .lease_ms = 30000};
    enum daybook_code code = daybook_journal_claim(f->journal, &wanted, f->now_us,
                                                   DAYBOOK_NO_DEADLINE, f->batch, &f->err);
    assert_true(code == DAYBOOK_OK || code == DAYBOOK_BACKEND);
    assert_int_equal(f->batch->count, 0);
    assert_int_equal(small_append(f, 6), DAYBOOK_OK); /* writing goes on */
    sim_calm(f->disk);
    small_pass_time(f, 2 * SECOND_US);
    assert_int_equal(deliver_all(f), 6); /* nobody was condemned */
}

static void test_A4_what_is_removed_and_cannot_be_counts_on(void **state)
{
    struct small *f = *state;
    f->options.capacity.retain_acknowledged_us = 1;
    dbk_log_abandon(f->journal);
    sim_kill(f->disk);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    for (unsigned n = 1; n < 150; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_OK);
        (void)dbk_log_housekeep(f->journal);
    }
    (void)deliver_all(f);
    inject(f, SIM_FAIL_STICKY, SIM_UNLINK, "seg-", EIO);
    uint64_t files = small_figures(f).segment_files;
    uint64_t pruned = 0;
    small_pass_time(f, 2 * SECOND_US);
    assert_int_equal(
        daybook_journal_maintain(f->journal, f->now_us, DAYBOOK_NO_DEADLINE, &pruned, &f->err),
        DAYBOOK_OK);
    assert_int_equal(pruned, 149);
    small_housekeep(f);
    assert_true(small_figures(f).segment_files >= files);
    sim_calm(f->disk);
    for (unsigned i = 0; i < 100; i++) {
        small_housekeep(f);
    }
    assert_true(small_figures(f).segment_files < files);
    assert_int_equal(small_figures(f).state, DAYBOOK_JOURNAL_OPEN);
}

/* ---- a start on a full disk ---------------------------------------------------------------------- */

struct used {
    const struct sim_disk *disk;
    uint64_t bytes;
};

static void add_used(void *user, const char *path, enum dbk_file_kind kind)
{
    struct used *used = user;
    uint64_t size = 0;
    if (kind == DBK_FILE_REGULAR && sim_bytes(used->disk, SIM_CACHE, path, &size) != NULL) {
        used->bytes += size;
    }
}

static uint64_t used_bytes(const struct small *f)
{
    struct used used = {.disk = f->disk};
    sim_each(f->disk, SIM_CACHE, add_used, &used);
    return used.bytes;
}

static void crash(struct small *f)
{
    dbk_log_abandon(f->journal);
    f->journal = NULL;
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 3);
}

static void test_A4_a_start_on_a_full_disk_with_a_prepared_segment(void **state)
{
    struct small *f = *state;
    small_housekeep(f);
    for (unsigned n = 1; n <= 9; n++) {
        assert_int_equal(small_append(f, n), DAYBOOK_OK);
    }
    crash(f);
    f->disk->space_bytes = used_bytes(f);
    assert_int_equal(small_open(f), DAYBOOK_OK);
    small_housekeep(f); /* cutting the old segment frees less than a whole one */
    (void)append_until_refused(f, 10);
    assert_refused(f, DAYBOOK_LIMIT_DISK);
    assert_true(deliver_all(f) >= 9); /* out of the reserve */
    f->disk->space_bytes += 2 * SMALL_SEGMENT_BYTES;
    small_housekeep(f);
    assert_int_equal(small_append(f, EVENTS_MOST), DAYBOOK_OK);
}

static void test_A4_a_start_on_a_full_disk_with_no_segment_and_no_room(void **state)
{
    struct small *f = *state;
    inject(f, SIM_FAIL_STICKY, SIM_FALLOCATE, ".tmp", ENOSPC); /* there is no prepared segment */
    unsigned n = 1;
    while (small_append(f, n) == DAYBOOK_OK) {
        n++;
    }
    assert_refused(f, DAYBOOK_LIMIT_DISK);
    crash(f);
    f->disk->space_bytes = used_bytes(f);
    assert_int_equal(small_open(f), DAYBOOK_BACKEND);
    assert_int_equal(f->err.os_errno, ENOSPC);
    assert_non_null(strstr(f->err.message, "free disk space"));
    f->journal = NULL;
    assert_int_equal(dbk_log_open_readonly(&f->options, &f->disk->os, &f->journal, &f->err),
                     DAYBOOK_OK);
    assert_int_equal(readable(f), n - 1);
    assert_int_equal(daybook_journal_close(f->journal, NULL), DAYBOOK_OK);
    f->disk->space_bytes += 4 * SMALL_SEGMENT_BYTES;
    assert_int_equal(small_open(f), DAYBOOK_OK);
    assert_int_equal(deliver_all(f), n - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_A4_no_room_for_the_next_segment),
        TEST(test_A4_the_name_of_the_next_segment_cannot_be_made_durable),
        TEST(test_A4_max_bytes_counts_what_is_on_the_disk),
        TEST(test_A4_a_full_disk_by_its_free_bytes),
        TEST(test_A4_a_whole_segment_is_kept_for_deliveries),
        TEST(test_P6_everything_stored_is_quarantined),
        TEST(test_A4_a_command_that_only_appends_leaves_room_to_deliver),
        cmocka_unit_test(test_A7_a_write_to_the_active_segment_fails),
        cmocka_unit_test(test_A7_a_sync_of_the_active_segment_fails),
        TEST(test_A1_a_short_write_is_gone_on_with),
        TEST(test_A7_the_disk_is_remounted_read_only),
        TEST(test_C7_a_read_that_fails_is_no_verdict),
        TEST(test_A4_what_is_removed_and_cannot_be_counts_on),
        TEST(test_A4_a_start_on_a_full_disk_with_a_prepared_segment),
        TEST(test_A4_a_start_on_a_full_disk_with_no_segment_and_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
