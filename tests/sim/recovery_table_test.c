/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the log ends: the cases of the recovery table (a to g) and of the tail rule, built from bytes
 * that the engine wrote and that are then changed. Each test names its case. A refused open leaves
 * every byte as it is (D8), and so does every read-only open (e).
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "engines/log/log.h"
#include "world.h"

#define BLOCK_BYTES 4096u
#define GROUP_HEADER_BYTES 64u
#define FRAME_HEADER_BYTES 24u
#define GROUPS_MAX 32u
#define SEGMENT(n) WORLD_PATH "/seg-000000000000000" #n ".dbl"

/* ---- building ------------------------------------------------------------------------------------ */

static void must_be_well(const struct world *w)
{
    if (w->failure[0] != 0) {
        fail_msg("%s", w->failure);
    }
}

static void drop_journal(struct world *w)
{
    must_be_well(w);
    assert_non_null(w->journal);
    dbk_log_abandon(w->journal);
    w->journal = NULL;
}

/* A journal with `count` events, each in a group of its own, whose process was killed; all is synced.
 * Each group but the last is proved durable by the next. */
static struct world *killed_world(uint32_t count, uint32_t record_bytes)
{
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    for (uint32_t i = 0; i < count; i++) {
        world_append(w, 1, record_bytes);
        world_tick(w, 1000);
        world_housekeep(w);
    }
    drop_journal(w);
    sim_power_cut(w->disk, SIM_KEEP_NOTHING, 0);
    return w;
}

/* Offsets of the groups of a segment; *ret_end is where the next one would begin. */
static uint32_t find_groups(const struct world *w, const char *path, uint64_t offsets[GROUPS_MAX],
                            uint64_t *ret_end)
{
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, path, &size);
    assert_non_null(bytes);
    uint64_t at = BLOCK_BYTES;
    uint32_t count = 0;
    while (at + BLOCK_BYTES <= size && count < GROUPS_MAX && dbk_get_u32(bytes + at + 4) != 0) {
        offsets[count++] = at;
        at += dbk_round_up(GROUP_HEADER_BYTES + dbk_get_u32(bytes + at + 32), BLOCK_BYTES);
    }
    *ret_end = at;
    return count;
}

/* Offset of the last group of a segment. */
static uint64_t last_group(const struct world *w, const char *path)
{
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    uint32_t count = find_groups(w, path, offsets, &end);
    assert_true(count > 0);
    return offsets[count - 1];
}

/* Offset of the record of an event: where its bytes stand in the segment. */
static uint64_t find_record(const struct world *w, const char *path, uint32_t number)
{
    char text[32];
    int len = snprintf(text, sizeof text, "{\"n\":%" PRIu32 ",", number);
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, path, &size);
    assert_non_null(bytes);
    const uint8_t *at = memmem(bytes, size, text, (size_t)len);
    assert_non_null(at);
    return (uint64_t)(at - bytes);
}

static void put_bytes(struct world *w, const char *path, uint64_t offset, const void *data,
                      size_t len)
{
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, path, &size);
    assert_non_null(bytes);
    assert_true(offset + len <= size);
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    memcpy(copy + offset, data, len);
    sim_put_file(w->disk, path, copy, size);
    free(copy);
}

/* ---- opening ------------------------------------------------------------------------------------- */

static enum daybook_code try_open(struct world *w, struct daybook_error *err)
{
    struct daybook_log_options options = world_options(w);
    sim_drop_caches(w->disk);
    return dbk_log_open(&options, &w->disk->os, &w->journal, err);
}

/* e: a read-only open says `code` and writes nothing. */
static void readonly_says(struct world *w, enum daybook_code code)
{
    struct daybook_error err = {0};
    struct daybook_log_options options = world_options(w);
    struct daybook_journal *journal = NULL;
    char where[256];
    sim_drop_caches(w->disk);
    struct sim_disk *before = sim_disk_clone(w->disk);
    enum daybook_code said = dbk_log_open_readonly(&options, &w->disk->os, &journal, &err);
    if (said != code) {
        fail_msg("read-only open answered %s, not %s: %s", daybook_code_name(said),
                 daybook_code_name(code), err.message);
    }
    if (journal != NULL) {
        assert_int_equal(daybook_journal_close(journal, &err), DAYBOOK_OK);
    }
    if (sim_differs(before, w->disk, SIM_CACHE, where, sizeof where)) {
        fail_msg("a read-only open wrote: %s", where);
    }
    sim_disk_free(before);
}

/* D8: refused with `code`, and not a byte is different. The message names a file. */
static void refuses(struct world *w, enum daybook_code code)
{
    struct daybook_error err = {0};
    char where[256];
    sim_drop_caches(w->disk);
    struct sim_disk *before = sim_disk_clone(w->disk);
    enum daybook_code said = try_open(w, &err);
    if (said != code) {
        fail_msg("open answered %s, not %s: %s", daybook_code_name(said), daybook_code_name(code),
                 err.message);
    }
    assert_null(w->journal);
    assert_true(err.message[0] != 0);
    if (sim_differs(before, w->disk, SIM_CACHE, where, sizeof where)) {
        fail_msg("D8: a refused open wrote: %s", where);
    }
    sim_disk_free(before);
    readonly_says(w, code);
}

/* Opens; exactly the events from `first` to before `end` are there. */
static void opens_with(struct world *w, uint32_t first, uint32_t end)
{
    struct daybook_error err = {0};
    readonly_says(w, DAYBOOK_OK);
    enum daybook_code said = try_open(w, &err);
    if (said != DAYBOOK_OK) {
        fail_msg("open answered %s: %s", daybook_code_name(said), err.message);
    }
    for (uint32_t i = 0; i < w->given_count; i++) {
        if (i < first || i >= end) {
            w->given[i].fate = FATE_REFUSED; /* must not be there */
        }
    }
    struct daybook_journal_stats stats;
    assert_int_equal(daybook_journal_stats(w->journal, w->now_us, &stats, &err), DAYBOOK_OK);
    assert_int_equal(stats.stored_events, end - first);
    (void)world_compare(w);
    must_be_well(w);
}

static void goes_on(struct world *w)
{
    world_append(w, 1, 200);
    world_claim(w, 64);
    world_ack(w, 64);
    must_be_well(w);
    drop_journal(w);
    sim_kill(w->disk);
    world_open(w);
    (void)world_compare(w);
    must_be_well(w);
    world_free(w);
}

/* ---- the tail rule (D7) --------------------------------------------------------------------------- */

static void test_tail_clean_end_zeros(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 300);
    opens_with(w, 0, 4);
    goes_on(w);
}

static void test_tail_torn_header_sector_zero(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 1500);
    sim_zero_sector(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) / SIM_SECTOR_BYTES);
    opens_with(w, 0, 3);
    goes_on(w);
}

static void test_tail_torn_body_sector_zero(void **state)
{
    (void)state;
    for (uint64_t sector = 1; sector <= 3; sector++) {
        struct world *w = killed_world(4, 1500);
        sim_zero_sector(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) / SIM_SECTOR_BYTES + sector);
        opens_with(w, 0, 3);
        goes_on(w);
    }
}

/* The rest of the bytes is kept for people. */
static void count_set_aside(void *user, const char *path, enum dbk_file_kind kind)
{
    if (kind == DBK_FILE_REGULAR && strstr(path, "/set-aside/") != NULL) {
        (*(unsigned *)user)++;
    }
}

static void test_tail_torn_is_set_aside(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 1500);
    sim_zero_sector(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) / SIM_SECTOR_BYTES + 1);
    opens_with(w, 0, 3);
    unsigned count = 0;
    sim_each(w->disk, SIM_CACHE, count_set_aside, &count);
    assert_int_equal(count, 1);
    goes_on(w);
}

static void find_set_aside(void *user, const char *path, enum dbk_file_kind kind)
{
    if (kind == DBK_FILE_REGULAR && strstr(path, "/set-aside/") != NULL) {
        (void)snprintf(user, 256, "%s", path);
    }
}

static uint64_t set_aside_bytes(const struct world *w)
{
    char path[256] = "";
    uint64_t size = 0;
    sim_each(w->disk, SIM_CACHE, find_set_aside, path);
    (void)sim_bytes(w->disk, SIM_CACHE, path, &size);
    assert_non_null(strstr(path, ".bin"));
    return size;
}

/* A recovery that was cut while it copied leaves no part of a copy behind (D8). */
static void test_set_aside_is_whole_after_a_recovery_that_was_cut(void **state)
{
    (void)state;
    struct world *base = killed_world(4, 1500);
    sim_zero_sector(base->disk, SEGMENT(1), last_group(base, SEGMENT(1)) / SIM_SECTOR_BYTES + 1);
    uint64_t whole = 0;
    for (uint64_t step = 0; step == 0 || base != NULL; step++) {
        struct daybook_error err = {0};
        struct world *w = world_clone(base);
        w->disk->crash_at = step == 0 ? 0 : w->disk->steps + step;
        bool opened = try_open(w, &err) == DAYBOOK_OK;
        if (step > 0 && opened) {
            drop_journal(w);
            world_free(base);
            base = NULL;
        } else if (opened) {
            whole = set_aside_bytes(w);
            drop_journal(w);
        } else {
            sim_kill(w->disk);
            opens_with(w, 0, 3);
            assert_int_equal(set_aside_bytes(w), whole);
            drop_journal(w);
        }
        world_free(w);
    }
    assert_true(whole > 0);
}

static void suspect(struct world *w)
{
    refuses(w, DAYBOOK_DAMAGED);
    w->tail = DAYBOOK_TAIL_ACCEPT;
    opens_with(w, 0, 3);
    goes_on(w);
}

static void test_tail_suspect_header(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 1500);
    sim_flip_bit(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) + 17, 2);
    suspect(w);
}

static void test_tail_suspect_frame_header(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 1500);
    sim_flip_bit(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) + GROUP_HEADER_BYTES + 16, 0);
    suspect(w);
}

static void test_tail_suspect_meta(void **state)
{
    (void)state;
    struct world *w = killed_world(4, 1500);
    sim_flip_bit(w->disk, SEGMENT(1),
                 last_group(w, SEGMENT(1)) + GROUP_HEADER_BYTES + FRAME_HEADER_BYTES + 8, 5);
    suspect(w);
}

/* D2: an older group copied behind the end has right sums at a wrong place. */
static void test_tail_suspect_stale_group(void **state)
{
    (void)state;
    struct world *w = killed_world(3, 1500);
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    uint32_t count = find_groups(w, SEGMENT(1), offsets, &end);
    assert_true(count >= 3);
    for (uint64_t i = 0; i < BLOCK_BYTES / SIM_SECTOR_BYTES; i++) {
        sim_copy_sector(w->disk, SEGMENT(1), end / SIM_SECTOR_BYTES + i,
                        offsets[count - 2] / SIM_SECTOR_BYTES + i);
    }
    refuses(w, DAYBOOK_DAMAGED);
    w->tail = DAYBOOK_TAIL_ACCEPT;
    opens_with(w, 0, 3);
    goes_on(w);
}

static void test_below_proof_is_refused(void **state)
{
    (void)state;
    struct world *sound = killed_world(5, 1500);
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    uint32_t count = find_groups(sound, SEGMENT(1), offsets, &end);
    assert_true(count >= 5);
    for (uint32_t i = 0; i + 1 < count; i++) {
        static const uint64_t places[] = {1, 9, 30, 62, 66, 80, GROUP_HEADER_BYTES + 24 + 3};
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
            struct world *w = world_clone(sound);
            sim_flip_bit(w->disk, SEGMENT(1), offsets[i] + places[k], 1);
            /* `accept` decides about tails only. */
            w->tail = k % 2 == 0 ? DAYBOOK_TAIL_REFUSE : DAYBOOK_TAIL_ACCEPT;
            refuses(w, DAYBOOK_DAMAGED);
            world_free(w);
        }
        struct world *w = world_clone(sound); /* looks torn, and is not */
        sim_zero_sector(w->disk, SEGMENT(1), offsets[i] / SIM_SECTOR_BYTES);
        refuses(w, DAYBOOK_DAMAGED);
        world_free(w);
    }
    world_free(sound);
}

/* C7: the record alone is wrong: the others are delivered, this one is quarantined as malformed. */
static void test_record_rotted_alone(void **state)
{
    (void)state;
    struct world *w = killed_world(5, 1500);
    sim_flip_bit(w->disk, SEGMENT(1), find_record(w, SEGMENT(1), 1) + 700, 4);
    sim_drop_caches(w->disk);
    readonly_says(w, DAYBOOK_OK);
    world_open(w);
    must_be_well(w);
    struct daybook_error err = {0};
    struct daybook_journal_stats stats;
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;
    uint64_t damaged = 0;
    assert_int_equal(daybook_batch_new(64, 1u << 20, WORLD_RECORD_MAX, &batch, &err), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_read(w->journal, 0, DAYBOOK_WHERE_ALL, batch, &last, &damaged, &err),
        DAYBOOK_OK);
    assert_int_equal(batch->count, 4);
    assert_int_equal(damaged, 1);
    assert_int_equal(daybook_journal_stats(w->journal, w->now_us, &stats, &err), DAYBOOK_OK);
    assert_int_equal(stats.stored_events, 5);
    assert_int_equal(stats.undeliverable_events, 1);
    world_register(w);
    world_claim(w, 64); /* compares what it gets with what was given */
    must_be_well(w);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(w->given[i].token != 0, i != 1);
    }
    struct daybook_consumer_stats consumer;
    assert_int_equal(
        daybook_journal_consumer_stats(w->journal, WORLD_CONSUMER, w->now_us, &consumer, &err),
        DAYBOOK_OK);
    assert_int_equal(consumer.quarantined, 1);
    daybook_batch_free(batch);
    drop_journal(w);
    sim_power_cut(w->disk, SIM_KEEP_NOTHING, 0); /* a quarantine is durable */
    world_open(w);
    must_be_well(w);
    assert_int_equal(
        daybook_journal_consumer_stats(w->journal, WORLD_CONSUMER, w->now_us, &consumer, &err),
        DAYBOOK_OK);
    assert_int_equal(consumer.quarantined, 1);
    world_free(w);
}

/* An error while reading is neither damage nor the end of the log. */
static void test_read_error_is_refused(void **state)
{
    (void)state;
    struct world *sound = killed_world(12, 7500);
    struct world *dry = world_clone(sound);
    uint64_t before = dry->disk->calls[SIM_PREAD];
    world_open(dry);
    must_be_well(dry);
    uint64_t reads = dry->disk->calls[SIM_PREAD] - before;
    world_free(dry);
    assert_true(reads > 0);
    for (uint64_t nth = 1; nth <= reads; nth++) {
        struct world *w = world_clone(sound);
        struct daybook_error err = {0};
        char where[256];
        struct sim_disk *untouched = sim_disk_clone(w->disk);
        sim_inject(w->disk,
                   (struct sim_injection){
                       .trouble = SIM_FAIL_ONCE, .call = SIM_PREAD, .nth = nth, .os_errno = EIO});
        assert_int_equal(try_open(w, &err), DAYBOOK_BACKEND);
        assert_int_equal(err.os_errno, EIO);
        if (sim_differs(untouched, w->disk, SIM_CACHE, where, sizeof where)) {
            fail_msg("read %" PRIu64 ": a refused open wrote: %s", nth, where);
        }
        sim_calm(w->disk);
        opens_with(w, 0, 12); /* the disk is well again, and nothing was lost */
        sim_disk_free(untouched);
        goes_on(w);
    }
    world_free(sound);
}

/* ---- several segments (3.1) ------------------------------------------------------------------------ */

#define PER_SEGMENT 7u /* events of 7,500 bytes: two blocks each, in 60 KiB */

static void test_a_link_says_where_the_predecessor_ends(void **state)
{
    (void)state;
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    for (uint32_t i = 0; i < 6; i++) {
        world_append(w, 2, 5000); /* three blocks, so that they do not fill the segment */
        world_housekeep(w);
    }
    drop_journal(w);
    sim_kill(w->disk);
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    (void)find_groups(w, SEGMENT(1), offsets, &end);
    assert_true(end < WORLD_SEGMENT_BYTES); /* there is room behind it */
    put_bytes(w, SEGMENT(1), end, "not a group", 11);
    opens_with(w, 0, 12);
    goes_on(w);
}

static void test_a_damage_before_the_link_is_refused(void **state)
{
    (void)state;
    struct world *w = killed_world(12, 7500);
    sim_flip_bit(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) + 9, 1);
    refuses(w, DAYBOOK_DAMAGED);
    world_free(w);
    w = killed_world(12, 7500);
    sim_zero_sector(w->disk, SEGMENT(1), last_group(w, SEGMENT(1)) / SIM_SECTOR_BYTES);
    refuses(w, DAYBOOK_DAMAGED);
    world_free(w);
}

/* A world in which the second segment holds its LINK group and one event, and how many events stand in
 * the first. */
static struct world *just_switched(uint32_t *ret_in_first)
{
    for (uint32_t count = PER_SEGMENT - 2; count < PER_SEGMENT + 3; count++) {
        struct world *w = killed_world(count, 7500);
        uint64_t offsets[GROUPS_MAX];
        uint64_t end;
        uint64_t size;
        if (sim_bytes(w->disk, SIM_MEDIUM, SEGMENT(2), &size) != NULL &&
            find_groups(w, SEGMENT(2), offsets, &end) == 2) {
            *ret_in_first = count - 1;
            return w;
        }
        world_free(w);
    }
    fail_msg("no switch to a second segment");
    return NULL;
}

static void test_b_torn_first_group_of_the_next_segment(void **state)
{
    (void)state;
    uint32_t in_first = 0;
    struct world *w = just_switched(&in_first);
    sim_zero_sector(w->disk, SEGMENT(2), BLOCK_BYTES / SIM_SECTOR_BYTES);
    opens_with(w, 0, in_first);
    goes_on(w);
}

static void test_b_suspect_first_group_of_the_next_segment(void **state)
{
    (void)state;
    uint32_t in_first = 0;
    struct world *w = just_switched(&in_first);
    sim_flip_bit(w->disk, SEGMENT(2), BLOCK_BYTES + 9, 1);
    refuses(w, DAYBOOK_DAMAGED);
    w->tail = DAYBOOK_TAIL_ACCEPT;
    opens_with(w, 0, in_first);
    goes_on(w);
}

static void test_b_only_zeros_is_a_spare(void **state)
{
    (void)state;
    struct world *w = killed_world(3, 300);
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    assert_int_equal(find_groups(w, SEGMENT(2), offsets, &end), 0); /* named, empty */
    opens_with(w, 0, 3);
    goes_on(w);
}

static void test_header_of_a_named_segment_is_never_a_crash(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 96; at += 5) {
        struct world *w = killed_world(3, 300);
        sim_flip_bit(w->disk, SEGMENT(1), at, 1);
        struct daybook_error err = {0};
        struct sim_disk *before = sim_disk_clone(w->disk);
        char where[256];
        enum daybook_code said = try_open(w, &err);
        assert_true(said == DAYBOOK_DAMAGED || said == DAYBOOK_NEWER_FORMAT);
        sim_drop_caches(before);
        assert_false(sim_differs(before, w->disk, SIM_CACHE, where, sizeof where));
        sim_disk_free(before);
        world_free(w);
    }
}

static void test_c_empty_segment_below_a_full_one_is_refused(void **state)
{
    (void)state;
    struct world *young = killed_world(3, 300); /* same seed: the same files */
    struct world *w = killed_world(18, 7500);
    uint64_t size = 0;
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    assert_int_equal(find_groups(young, SEGMENT(2), offsets, &end), 0);
    assert_true(find_groups(w, SEGMENT(3), offsets, &end) > 0);
    /* Only the header of the second segment stays, as it was when it was a spare. */
    const uint8_t *now = sim_bytes(w->disk, SIM_MEDIUM, SEGMENT(2), &size);
    assert_non_null(now);
    uint8_t *empty = calloc(1, size);
    assert_non_null(empty);
    memcpy(empty, now, BLOCK_BYTES);
    sim_put_file(w->disk, SEGMENT(2), empty, size);
    free(empty);
    refuses(w, DAYBOOK_DAMAGED);
    world_free(young);
    world_free(w);
}

static struct world *closed_world(void)
{
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    world_append(w, 1, 300);
    world_append(w, 1, 300);
    world_append(w, 1, 300);
    world_close(w);
    must_be_well(w);
    assert_null(w->journal);
    return w;
}

static void test_d_clean_goes_on_in_the_same_segment(void **state)
{
    (void)state;
    struct world *w = closed_world();
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    uint32_t before = find_groups(w, SEGMENT(1), offsets, &end);
    opens_with(w, 0, 3);
    world_append(w, 1, 300);
    must_be_well(w);
    assert_true(find_groups(w, SEGMENT(1), offsets, &end) > before);
    goes_on(w);
}

static void test_d_bytes_behind_clean(void **state)
{
    (void)state;
    struct world *w = closed_world();
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    (void)find_groups(w, SEGMENT(1), offsets, &end);
    put_bytes(w, SEGMENT(1), end, "not a group", 11); /* as after a crash: a suspect tail */
    refuses(w, DAYBOOK_DAMAGED);
    w->tail = DAYBOOK_TAIL_ACCEPT;
    opens_with(w, 0, 3);
    world_append(w, 1, 300);
    must_be_well(w);
    uint64_t size;
    assert_non_null(sim_bytes(w->disk, SIM_MEDIUM, SEGMENT(2), &size)); /* D8: not in the old one */
    goes_on(w);
}

static void test_d_torn_bytes_behind_clean(void **state)
{
    (void)state;
    struct world *w = closed_world();
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    (void)find_groups(w, SEGMENT(1), offsets, &end);
    put_bytes(w, SEGMENT(1), end + SIM_SECTOR_BYTES, "half of an OPEN", 15);
    opens_with(w, 0, 3);
    goes_on(w);
}

static void test_d_damage_below_clean_is_refused(void **state)
{
    (void)state;
    struct world *w = closed_world();
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    uint32_t count = find_groups(w, SEGMENT(1), offsets, &end);
    assert_true(count > 2);
    sim_zero_sector(w->disk, SEGMENT(1), offsets[count - 2] / SIM_SECTOR_BYTES);
    refuses(w, DAYBOOK_DAMAGED);
    world_free(w);
}

static void test_f_no_format_file(void **state)
{
    (void)state;
    struct world *w = killed_world(3, 300);
    sim_remove_file(w->disk, WORLD_PATH "/FORMAT");
    refuses(w, DAYBOOK_DAMAGED);
    world_free(w);
}

static void test_f_damaged_format_file(void **state)
{
    (void)state;
    struct world *sound = killed_world(3, 300);
    uint64_t size = 0;
    assert_non_null(sim_bytes(sound->disk, SIM_MEDIUM, WORLD_PATH "/FORMAT", &size));
    for (uint64_t at = 0; at < size; at += 3) {
        struct world *w = world_clone(sound);
        struct daybook_error err = {0};
        sim_flip_bit(w->disk, WORLD_PATH "/FORMAT", at, (unsigned)at);
        enum daybook_code said = try_open(w, &err);
        assert_true(said == DAYBOOK_DAMAGED || said == DAYBOOK_NEWER_FORMAT);
        assert_null(w->journal);
        world_free(w);
    }
    world_free(sound);
}

static void test_g_missing_segment_is_refused(void **state)
{
    (void)state;
    static const char *const victims[] = {SEGMENT(1), SEGMENT(2)};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = killed_world(18, 7500);
        sim_remove_file(w->disk, victims[i]);
        refuses(w, DAYBOOK_DAMAGED);
        world_free(w);
    }
}

/* The last segment of the log is missing, and only the prepared one behind it says so (D7). */
static void test_g_missing_last_segment_is_refused(void **state)
{
    (void)state;
    uint64_t size;
    struct world *w = killed_world(18, 7500);
    unsigned last = 1;
    char path[64];
    for (unsigned i = 2; i < 10; i++) {
        (void)snprintf(path, sizeof path, WORLD_PATH "/seg-%016x.dbl", i);
        const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, path, &size);
        if (bytes != NULL && dbk_get_u32(bytes + BLOCK_BYTES) != 0) {
            last = i;
        }
    }
    (void)snprintf(path, sizeof path, WORLD_PATH "/seg-%016x.dbl", last + 1);
    assert_non_null(sim_bytes(w->disk, SIM_MEDIUM, path, &size));
    (void)snprintf(path, sizeof path, WORLD_PATH "/seg-%016x.dbl", last);
    sim_remove_file(w->disk, path);
    refuses(w, DAYBOOK_DAMAGED);
    world_free(w);
}

static void test_g_missing_under_a_trim_is_fine(void **state)
{
    (void)state;
    struct world *w = world_new(RETAIN_NONE);
    world_open(w);
    world_register(w);
    for (uint32_t i = 0; i < 3 * PER_SEGMENT; i++) {
        world_append(w, 1, 7500);
        world_claim(w, 8);
        world_ack(w, 8);
        world_maintain(w);
        world_tick(w, 1500000);
        world_housekeep(w);
    }
    must_be_well(w);
    uint64_t size;
    assert_null(sim_bytes(w->disk, SIM_CACHE, SEGMENT(1), &size)); /* it was let go */
    drop_journal(w);
    sim_kill(w->disk);
    readonly_says(w, DAYBOOK_OK);
    world_open(w);
    (void)world_compare(w);
    must_be_well(w);
    world_free(w);
}

/* What a trim unlinked may come back when power goes before the directory is synced: not needed, and
 * no harm. */
static void test_g_unlinked_segment_that_came_back(void **state)
{
    (void)state;
    struct world *w = world_new(RETAIN_NONE);
    struct sim_disk *before = NULL;
    uint64_t size = 0;
    bool gone = false;
    world_open(w);
    world_register(w);
    for (uint32_t i = 0; i < 4 * PER_SEGMENT && !gone; i++) {
        world_append(w, 1, 7500);
        world_claim(w, 8);
        world_ack(w, 8);
        world_maintain(w);
        world_tick(w, 1500000);
        sim_disk_free(before);
        before = sim_disk_clone(w->disk);
        world_housekeep(w);
        gone = sim_bytes(w->disk, SIM_CACHE, SEGMENT(1), &size) == NULL;
    }
    must_be_well(w);
    assert_true(gone);
    drop_journal(w);
    sim_kill(w->disk);
    const uint8_t *old = sim_bytes(before, SIM_CACHE, SEGMENT(1), &size);
    assert_non_null(old);
    sim_put_file(w->disk, SEGMENT(1), old, size);
    sim_disk_free(before);
    readonly_says(w, DAYBOOK_OK);
    world_open(w);
    (void)world_compare(w);
    must_be_well(w);
    world_free(w);
}

/* Unfinished work goes, but only after the verdict. */
static void test_tmp_files_go_with_a_good_open_only(void **state)
{
    (void)state;
    uint64_t size;
    struct world *w = killed_world(3, 300);
    sim_put_file(w->disk, WORLD_PATH "/seg-0000000000000009.tmp", "x", 1);
    struct world *bad = world_clone(w);
    sim_remove_file(bad->disk, WORLD_PATH "/FORMAT");
    refuses(bad, DAYBOOK_DAMAGED);
    world_free(bad);
    opens_with(w, 0, 3);
    assert_null(sim_bytes(w->disk, SIM_CACHE, WORLD_PATH "/seg-0000000000000009.tmp", &size));
    goes_on(w);
}

static void test_second_owner_is_busy(void **state)
{
    (void)state;
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    must_be_well(w);
    struct daybook_error err = {0};
    struct daybook_log_options options = world_options(w);
    struct daybook_journal *second = NULL;
    assert_int_equal(dbk_log_open(&options, &w->disk->os, &second, &err), DAYBOOK_BUSY);
    assert_null(second);
    world_free(w);
}

/* ---- verify ---------------------------------------------------------------------------------------- */

/* Every flipped bit is noticed: in the header, in groups, in padding. */
static void test_verify_notices_every_flipped_bit(void **state)
{
    (void)state;
    struct world *sound = killed_world(5, 600);
    uint64_t offsets[GROUPS_MAX];
    uint64_t end;
    (void)find_groups(sound, SEGMENT(1), offsets, &end);
    struct daybook_error err = {0};
    struct daybook_log_report report;
    assert_int_equal(dbk_log_verify(WORLD_PATH, &sound->disk->os, NULL, NULL, &report, &err),
                     DAYBOOK_OK);
    assert_int_equal(report.events, 5);
    assert_int_equal(report.damaged, 0);
    for (uint64_t at = 0; at < end; at += at % BLOCK_BYTES < 1024 ? 1 : 61) {
        sim_flip_bit(sound->disk, SEGMENT(1), at, (unsigned)(at * 7 % 8));
        sim_drop_caches(sound->disk);
        enum daybook_code said =
            dbk_log_verify(WORLD_PATH, &sound->disk->os, NULL, NULL, &report, &err);
        if (said == DAYBOOK_OK) {
            fail_msg("a flipped bit at %" PRIu64 " was not noticed", at);
        }
        sim_flip_bit(sound->disk, SEGMENT(1), at, (unsigned)(at * 7 % 8));
    }
    world_free(sound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail_clean_end_zeros),
        cmocka_unit_test(test_tail_torn_header_sector_zero),
        cmocka_unit_test(test_tail_torn_body_sector_zero),
        cmocka_unit_test(test_tail_torn_is_set_aside),
        cmocka_unit_test(test_set_aside_is_whole_after_a_recovery_that_was_cut),
        cmocka_unit_test(test_tail_suspect_header),
        cmocka_unit_test(test_tail_suspect_frame_header),
        cmocka_unit_test(test_tail_suspect_meta),
        cmocka_unit_test(test_tail_suspect_stale_group),
        cmocka_unit_test(test_below_proof_is_refused),
        cmocka_unit_test(test_record_rotted_alone),
        cmocka_unit_test(test_read_error_is_refused),
        cmocka_unit_test(test_a_link_says_where_the_predecessor_ends),
        cmocka_unit_test(test_a_damage_before_the_link_is_refused),
        cmocka_unit_test(test_b_torn_first_group_of_the_next_segment),
        cmocka_unit_test(test_b_suspect_first_group_of_the_next_segment),
        cmocka_unit_test(test_b_only_zeros_is_a_spare),
        cmocka_unit_test(test_header_of_a_named_segment_is_never_a_crash),
        cmocka_unit_test(test_c_empty_segment_below_a_full_one_is_refused),
        cmocka_unit_test(test_d_clean_goes_on_in_the_same_segment),
        cmocka_unit_test(test_d_bytes_behind_clean),
        cmocka_unit_test(test_d_torn_bytes_behind_clean),
        cmocka_unit_test(test_d_damage_below_clean_is_refused),
        cmocka_unit_test(test_f_no_format_file),
        cmocka_unit_test(test_f_damaged_format_file),
        cmocka_unit_test(test_g_missing_segment_is_refused),
        cmocka_unit_test(test_g_missing_last_segment_is_refused),
        cmocka_unit_test(test_g_missing_under_a_trim_is_fine),
        cmocka_unit_test(test_g_unlinked_segment_that_came_back),
        cmocka_unit_test(test_tmp_files_go_with_a_good_open_only),
        cmocka_unit_test(test_second_owner_is_busy),
        cmocka_unit_test(test_verify_notices_every_flipped_bit),
    };
    return cmocka_run_group_tests_name("sim-recovery-table", tests, NULL, NULL);
}
