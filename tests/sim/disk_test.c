/* SPDX-License-Identifier: Apache-2.0 */
/* One test for each promise of the simulated disk (disk.h): a model that is kinder than a kernel proves
 * nothing about the engine that runs on it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "disk.h"

#define SECTOR SIM_SECTOR_BYTES

struct fixture {
    struct sim_disk *disk;
    const struct dbk_os *os;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->disk = sim_disk_new(1);
    f->os = &f->disk->os;
    assert_int_equal(f->os->mkdir(f->os, "/d"), 0);
    assert_int_equal(f->os->fsync_dir(f->os, "/"), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sim_disk_free(f->disk);
    free(f);
    return 0;
}

/* A durable file of `sectors` sectors of 'o' (old). */
static int old_file(struct fixture *f, const char *path, size_t sectors)
{
    char bytes[16 * SECTOR];
    memset(bytes, 'o', sectors * SECTOR);
    sim_put_file(f->disk, path, bytes, sectors * SECTOR);
    return f->os->open(f->os, path, DBK_OPEN_WRITE);
}

static void write_sectors(struct fixture *f, int file, char fill, size_t first, size_t count)
{
    char bytes[16 * SECTOR];
    memset(bytes, fill, count * SECTOR);
    assert_int_equal(f->os->pwrite(f->os, file, bytes, count * SECTOR, first * SECTOR),
                     count * SECTOR);
}

/* One letter a sector, '.' for zeros, '?' where a sector is not of one letter. */
static const char *letters(const struct fixture *f, enum sim_side side, const char *path)
{
    static char text[64];
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(f->disk, side, path, &size);
    if (bytes == NULL) {
        return "none";
    }
    size_t count = 0;
    for (uint64_t at = 0; at < size; at += SECTOR) {
        char c = bytes[at] == 0 ? '.' : (char)bytes[at];
        for (uint64_t i = at; i < at + SECTOR && i < size; i++) {
            c = bytes[i] != bytes[at] ? '?' : c;
        }
        text[count++] = c;
    }
    text[count] = 0;
    return text;
}

#define assert_letters(f, side, path, expected)                                                    \
    assert_string_equal(letters(f, side, path), expected)

static void test_write_is_seen_at_once_and_not_durable(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 4);
    write_sectors(f, file, 'n', 1, 2);
    assert_letters(f, SIM_CACHE, "/d/a", "onno");
    assert_letters(f, SIM_MEDIUM, "/d/a", "oooo");
    char byte = 0;
    assert_int_equal(f->os->pread(f->os, file, &byte, 1, SECTOR), 1);
    assert_int_equal(byte, 'n');
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "oooo");
}

static void test_fdatasync_moves_data_and_size_of_that_file_only(void **state)
{
    struct fixture *f = *state;
    int a = old_file(f, "/d/a", 2);
    int b = old_file(f, "/d/b", 2);
    write_sectors(f, a, 'n', 1, 3);
    write_sectors(f, b, 'n', 0, 1);
    assert_int_equal(f->os->fdatasync(f->os, a), 0);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "onnn");
    assert_letters(f, SIM_CACHE, "/d/b", "oo");
}

static void test_keep_all_and_last_write(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 6);
    write_sectors(f, file, 'x', 0, 2);
    write_sectors(f, file, 'y', 1, 2);
    write_sectors(f, file, 'z', 4, 1);
    struct sim_disk *original = f->disk;
    f->disk = sim_disk_clone(original);
    sim_power_cut(f->disk, SIM_KEEP_ALL, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "xyyozo");
    sim_disk_free(f->disk);
    f->disk = original;
    sim_power_cut(f->disk, SIM_KEEP_LAST_WRITE, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "oooozo");
}

/* Every one of the 2^4 mixtures of four sectors appears, and nothing else. */
static void test_subset_is_per_sector(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 5);
    write_sectors(f, file, 'n', 0, 4);
    struct sim_disk *original = f->disk;
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        f->disk = sim_disk_clone(original);
        sim_power_cut(f->disk, SIM_KEEP_SUBSET, seed);
        const char *text = letters(f, SIM_CACHE, "/d/a");
        unsigned mixture = 0;
        for (unsigned i = 0; i < 4; i++) {
            assert_true(text[i] == 'o' || text[i] == 'n');
            mixture |= text[i] == 'n' ? 1u << i : 0;
        }
        assert_int_equal(text[4], 'o');
        seen |= 1u << mixture;
        sim_disk_free(f->disk);
    }
    f->disk = original;
    assert_int_equal(seen, 0xffff);
}

static void test_subset_same_seed_same_result_other_file_other_draw(void **state)
{
    struct fixture *f = *state;
    int a = old_file(f, "/d/a", 16);
    int b = old_file(f, "/d/b", 16);
    write_sectors(f, a, 'n', 0, 16);
    write_sectors(f, b, 'n', 0, 16);
    bool differed = false;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct sim_disk *x = sim_disk_clone(f->disk);
        struct sim_disk *y = sim_disk_clone(f->disk);
        sim_power_cut(x, SIM_KEEP_SUBSET, seed);
        sim_power_cut(y, SIM_KEEP_SUBSET, seed);
        char where[128];
        assert_false(sim_differs(x, y, SIM_MEDIUM, where, sizeof where));
        struct fixture fx = {x, &x->os};
        char of_a[64];
        snprintf(of_a, sizeof of_a, "%s", letters(&fx, SIM_MEDIUM, "/d/a"));
        differed = differed || strcmp(of_a, letters(&fx, SIM_MEDIUM, "/d/b")) != 0;
        sim_disk_free(x);
        sim_disk_free(y);
    }
    assert_true(differed);
}

static void test_sectors_of_one_place_may_keep_an_older_unsynced_write(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 1);
    write_sectors(f, file, 'x', 0, 1);
    write_sectors(f, file, 'y', 0, 1);
    bool old_seen = false;
    bool x_seen = false;
    bool y_seen = false;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_clone(f->disk);
        sim_power_cut(d, SIM_KEEP_SUBSET, seed);
        struct fixture g = {d, &d->os};
        char c = letters(&g, SIM_MEDIUM, "/d/a")[0];
        old_seen = old_seen || c == 'o';
        x_seen = x_seen || c == 'x';
        y_seen = y_seen || c == 'y';
        sim_disk_free(d);
    }
    assert_true(old_seen && x_seen && y_seen);
}

static void test_sizes_are_kept_as_a_prefix(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 1);
    write_sectors(f, file, 'x', 1, 1);
    assert_int_equal(f->os->ftruncate(f->os, file, 4 * SECTOR), 0);
    assert_int_equal(f->os->fallocate(f->os, file, 6 * SECTOR), 0);
    bool seen[7] = {false};
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_clone(f->disk);
        sim_power_cut(d, SIM_KEEP_SUBSET, seed);
        struct fixture g = {d, &d->os};
        size_t sectors = strlen(letters(&g, SIM_MEDIUM, "/d/a"));
        assert_true(sectors == 1 || sectors == 2 || sectors == 4 || sectors == 6);
        seen[sectors] = true;
        sim_disk_free(d);
    }
    assert_true(seen[1] && seen[2] && seen[4] && seen[6]);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "o");
}

static void test_truncation_forgets_what_was_behind_it(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 3);
    assert_int_equal(f->os->ftruncate(f->os, file, SECTOR), 0);
    assert_int_equal(f->os->ftruncate(f->os, file, 3 * SECTOR), 0);
    assert_letters(f, SIM_CACHE, "/d/a", "o..");
    assert_letters(f, SIM_MEDIUM, "/d/a", "ooo");
    assert_int_equal(f->os->fdatasync(f->os, file), 0);
    assert_letters(f, SIM_MEDIUM, "/d/a", "o..");
}

static void test_name_of_a_new_file_needs_fsync_dir(void **state)
{
    struct fixture *f = *state;
    int file = f->os->open(f->os, "/d/a", DBK_OPEN_CREATE_EXCL);
    assert_true(file >= 0);
    write_sectors(f, file, 'n', 0, 1);
    assert_int_equal(f->os->fsync(f->os, file), 0);
    struct sim_disk *original = f->disk;
    f->disk = sim_disk_clone(original);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "none");
    sim_disk_free(f->disk);
    f->disk = original;
    assert_int_equal(f->os->fsync_dir(f->os, "/d"), 0);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "n");
}

static void test_name_without_data_is_an_empty_file(void **state)
{
    struct fixture *f = *state;
    int file = f->os->open(f->os, "/d/a", DBK_OPEN_CREATE_EXCL);
    write_sectors(f, file, 'n', 0, 1);
    assert_int_equal(f->os->fsync_dir(f->os, "/d"), 0);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "");
}

static void test_rename_replaces_and_is_durable_after_fsync_dir(void **state)
{
    struct fixture *f = *state;
    (void)old_file(f, "/d/a", 1);
    int file = f->os->open(f->os, "/d/a.tmp", DBK_OPEN_CREATE_EXCL);
    write_sectors(f, file, 'n', 0, 1);
    assert_int_equal(f->os->fsync(f->os, file), 0);
    assert_int_equal(f->os->rename(f->os, "/d/a.tmp", "/d/a"), 0);
    assert_letters(f, SIM_CACHE, "/d/a", "n");
    assert_letters(f, SIM_CACHE, "/d/a.tmp", "none");
    struct sim_disk *original = f->disk;
    f->disk = sim_disk_clone(original);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "o");
    sim_disk_free(f->disk);
    f->disk = original;
    assert_int_equal(f->os->fsync_dir(f->os, "/d"), 0);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "n");
}

static void test_unlink_comes_back_unless_fsync_dir(void **state)
{
    struct fixture *f = *state;
    (void)old_file(f, "/d/a", 2);
    assert_int_equal(f->os->unlink(f->os, "/d/a"), 0);
    assert_letters(f, SIM_CACHE, "/d/a", "none");
    struct sim_disk *original = f->disk;
    f->disk = sim_disk_clone(original);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "oo");
    sim_disk_free(f->disk);
    f->disk = original;
    assert_int_equal(f->os->fsync_dir(f->os, "/d"), 0);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "none");
}

static void test_directory_operations_are_kept_as_a_prefix(void **state)
{
    struct fixture *f = *state;
    (void)f->os->open(f->os, "/d/1", DBK_OPEN_CREATE_EXCL);
    (void)f->os->open(f->os, "/d/2", DBK_OPEN_CREATE_EXCL);
    assert_int_equal(f->os->rename(f->os, "/d/1", "/d/3"), 0);
    assert_int_equal(f->os->unlink(f->os, "/d/2"), 0);
    static const char *const prefixes[5] = {"", "1", "12", "23", "3"};
    bool seen[5] = {false};
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_clone(f->disk);
        sim_power_cut(d, SIM_KEEP_SUBSET, seed);
        char found[4] = "";
        size_t found_count = 0;
        uint64_t size;
        for (int digit = 1; digit <= 3; digit++) {
            char c = (char)('0' + digit);
            char path[5] = {'/', 'd', '/', c, 0};
            if (sim_bytes(d, SIM_CACHE, path, &size) != NULL) {
                found[found_count++] = c;
            }
        }
        bool known = false;
        for (size_t i = 0; i < 5; i++) {
            seen[i] = seen[i] || strcmp(found, prefixes[i]) == 0;
            known = known || strcmp(found, prefixes[i]) == 0;
        }
        assert_true(known);
        sim_disk_free(d);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_true(seen[i]);
    }
}

static void test_what_is_in_a_directory_that_is_lost_is_lost(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(f->os->mkdir(f->os, "/e"), 0);
    (void)old_file(f, "/e/a", 1);
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/e/a", "none");
    struct dbk_stat st;
    assert_int_equal(f->os->stat(f->os, "/e", &st), -ENOENT);
}

static void test_kill_keeps_the_cache_and_a_later_power_cut_still_takes_it(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 1);
    write_sectors(f, file, 'n', 0, 1);
    sim_kill(f->disk);
    assert_letters(f, SIM_CACHE, "/d/a", "n");
    assert_letters(f, SIM_MEDIUM, "/d/a", "o");
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "o");
}

static void test_dead_from_the_step_on_and_nothing_changes(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 1);
    f->disk->crash_at = f->disk->steps + 2;
    write_sectors(f, file, 'x', 0, 1);
    char byte = 'y';
    struct dbk_stat st;
    struct dbk_statfs fs;
    const struct dbk_os *os = f->os;
    assert_false(f->disk->dead);
    assert_int_equal(os->pwrite(os, file, &byte, 1, 0), -EIO);
    assert_true(f->disk->dead);
    assert_int_equal(os->pread(os, file, &byte, 1, 0), -EIO);
    assert_int_equal(os->fdatasync(os, file), -EIO);
    assert_int_equal(os->fsync(os, file), -EIO);
    assert_int_equal(os->fsync_dir(os, "/d"), -EIO);
    assert_int_equal(os->fallocate(os, file, 9999), -EIO);
    assert_int_equal(os->ftruncate(os, file, 0), -EIO);
    os->drop_cache(os, file);
    assert_int_equal(os->rename(os, "/d/a", "/d/b"), -EIO);
    assert_int_equal(os->unlink(os, "/d/a"), -EIO);
    assert_int_equal(os->mkdir(os, "/e"), -EIO);
    assert_int_equal(os->stat(os, "/d/a", &st), -EIO);
    assert_int_equal(os->statfs(os, "/d", &fs), -EIO);
    assert_int_equal(os->lock(os, "/d/LOCK"), -EIO);
    assert_int_equal(os->open(os, "/d/a", DBK_OPEN_READ), -EIO);
    assert_int_equal(os->close(os, file), -EIO);
    assert_letters(f, SIM_CACHE, "/d/a", "x");
    assert_letters(f, SIM_MEDIUM, "/d/a", "o"); /* the dead fdatasync did nothing */
    sim_kill(f->disk);
    assert_int_equal(os->mkdir(os, "/e"), 0); /* alive again */
}

static void test_every_call_is_a_step(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    struct dbk_stat st;
    struct dbk_statfs fs;
    char byte = 0;
    int file = old_file(f, "/d/a", 1);
    uint64_t before = f->disk->steps;
    (void)os->pwrite(os, file, &byte, 1, 0);
    (void)os->pread(os, file, &byte, 1, 0);
    (void)os->fdatasync(os, file);
    (void)os->fsync(os, file);
    (void)os->fsync_dir(os, "/d");
    (void)os->fallocate(os, file, 1);
    (void)os->ftruncate(os, file, 1);
    os->drop_cache(os, file);
    (void)os->rename(os, "/d/a", "/d/b");
    (void)os->unlink(os, "/d/b");
    (void)os->mkdir(os, "/e");
    (void)os->stat(os, "/e", &st);
    (void)os->statfs(os, "/e", &fs);
    (void)os->lock(os, "/e/LOCK");
    (void)os->open(os, "/nothing", DBK_OPEN_READ);
    (void)os->close(os, file);
    assert_int_equal(f->disk->steps - before, 16);
    (void)os->realtime_us(os);
    (void)os->monotonic_us(os);
    os->sleep_us(os, 1);
    (void)os->random(os, &byte, 1);
    assert_int_equal(f->disk->steps - before, 16);
}

static void test_failed_sync_marks_clean_and_the_next_one_lies(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 2);
    write_sectors(f, file, 'n', 0, 1);
    sim_inject(f->disk,
               (struct sim_injection){
                   .trouble = SIM_FAIL_ONCE, .call = SIM_FDATASYNC, .nth = 1, .os_errno = EIO});
    assert_int_equal(f->os->fdatasync(f->os, file), -EIO);
    assert_letters(f, SIM_CACHE, "/d/a", "no");
    assert_letters(f, SIM_MEDIUM, "/d/a", "oo");
    write_sectors(f, file, 'm', 1, 1);
    assert_int_equal(f->os->fdatasync(f->os, file), 0); /* moves what is new, not what was lost */
    assert_letters(f, SIM_MEDIUM, "/d/a", "om");
    f->os->drop_cache(f->os, file);
    assert_letters(f, SIM_CACHE, "/d/a", "om");
}

static void test_interrupted_sync_changes_nothing(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 1);
    write_sectors(f, file, 'n', 0, 1);
    sim_inject(f->disk,
               (struct sim_injection){
                   .trouble = SIM_FAIL_ONCE, .call = SIM_FDATASYNC, .nth = 1, .os_errno = EINTR});
    assert_int_equal(f->os->fdatasync(f->os, file), -EINTR);
    assert_letters(f, SIM_MEDIUM, "/d/a", "o");
    assert_int_equal(f->os->fdatasync(f->os, file), 0);
    assert_letters(f, SIM_MEDIUM, "/d/a", "n");
}

static void test_drop_cache_keeps_what_is_dirty(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 3);
    sim_zero_sector(f->disk, "/d/a", 0);
    write_sectors(f, file, 'n', 1, 1);
    assert_letters(f, SIM_CACHE, "/d/a", "ono"); /* rot is not seen through the cache */
    f->os->drop_cache(f->os, file);
    assert_letters(f, SIM_CACHE, "/d/a", ".no");
}

static void test_trouble_once_sticky_nth_and_by_name(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    int a = old_file(f, "/d/seg-1", 1);
    int b = old_file(f, "/d/other", 1);
    char byte = 'x';
    sim_inject(f->disk, (struct sim_injection){.trouble = SIM_FAIL_ONCE,
                                               .call = SIM_PWRITE,
                                               .name_part = "seg-",
                                               .nth = 2,
                                               .os_errno = ENOSPC});
    assert_int_equal(os->pwrite(os, a, &byte, 1, 0), 1);
    assert_int_equal(os->pwrite(os, b, &byte, 1, 0), 1);
    assert_int_equal(os->pread(os, a, &byte, 1, 0), 1);
    assert_int_equal(os->pwrite(os, a, &byte, 1, 0), -ENOSPC);
    assert_int_equal(os->pwrite(os, a, &byte, 1, 0), 1);
    sim_inject(f->disk,
               (struct sim_injection){
                   .trouble = SIM_FAIL_STICKY, .call = SIM_ANY, .nth = 1, .os_errno = EROFS});
    assert_int_equal(os->pwrite(os, a, &byte, 1, 0), -EROFS);
    assert_int_equal(os->fsync_dir(os, "/d"), -EROFS);
    sim_calm(f->disk);
    assert_int_equal(os->pwrite(os, a, &byte, 1, 0), 1);
}

static void test_short_write_and_read(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 2);
    struct sim_injection t = {
        .trouble = SIM_SHORT_ONCE, .call = SIM_PWRITE, .nth = 1, .short_bytes = SECTOR};
    sim_inject(f->disk, t);
    char bytes[2 * SECTOR];
    memset(bytes, 'n', sizeof bytes);
    assert_int_equal(f->os->pwrite(f->os, file, bytes, sizeof bytes, 0), SECTOR);
    assert_letters(f, SIM_CACHE, "/d/a", "no");
    t.call = SIM_PREAD;
    sim_inject(f->disk, t);
    assert_int_equal(f->os->pread(f->os, file, bytes, sizeof bytes, 0), SECTOR);
    assert_int_equal(f->os->pread(f->os, file, bytes, sizeof bytes, SECTOR), SECTOR);
    assert_int_equal(f->os->pread(f->os, file, bytes, sizeof bytes, 2 * SECTOR), 0);
}

static void test_rot_is_on_the_medium(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 3);
    write_sectors(f, file, 'n', 2, 1);
    assert_int_equal(f->os->fdatasync(f->os, file), 0);
    sim_copy_sector(f->disk, "/d/a", 0, 2);
    sim_flip_bit(f->disk, "/d/a", SECTOR, 0);
    assert_letters(f, SIM_MEDIUM, "/d/a", "n?n");
    assert_letters(f, SIM_CACHE, "/d/a", "oon");
    sim_drop_caches(f->disk);
    assert_letters(f, SIM_CACHE, "/d/a", "n?n");
}

static void test_lock_excludes_until_closed_or_killed(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    int file = os->lock(os, "/d/LOCK");
    assert_true(file >= 0);
    assert_int_equal(os->lock(os, "/d/LOCK"), -EWOULDBLOCK);
    assert_int_equal(os->close(os, file), 0);
    assert_true(os->lock(os, "/d/LOCK") >= 0);
    sim_kill(f->disk);
    assert_true(os->lock(os, "/d/LOCK") >= 0);
    sim_power_cut(f->disk, SIM_KEEP_ALL, 0);
    assert_true(os->lock(os, "/d/LOCK") >= 0);
}

static void test_space_runs_out_and_comes_back(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    f->disk->space_bytes = 8192;
    struct dbk_statfs fs;
    struct dbk_stat st;
    int file = os->open(os, "/d/a", DBK_OPEN_CREATE_EXCL);
    assert_int_equal(os->fallocate(os, file, 12288), -ENOSPC);
    assert_int_equal(os->fallocate(os, file, 8192), 0);
    assert_int_equal(os->statfs(os, "/d", &fs), 0);
    assert_int_equal(fs.free_bytes, 0);
    assert_int_equal(os->stat(os, "/d/a", &st), 0);
    assert_int_equal(st.allocated_bytes, 8192);
    char byte = 'x';
    assert_int_equal(os->pwrite(os, file, &byte, 1, 8192), -ENOSPC);
    assert_int_equal(os->pwrite(os, file, &byte, 1, 0), 1); /* allocated before: no new block */
    assert_int_equal(os->unlink(os, "/d/a"), 0);
    assert_int_equal(os->statfs(os, "/d", &fs), 0);
    assert_int_equal(fs.free_bytes, 8192);
}

static int collect(void *user, const char *name)
{
    strcat(user, name);
    strcat(user, " ");
    return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void test_list_names_each_entry_once_and_ends_when_told(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    char text[64] = "";
    (void)old_file(f, "/d/a", 1);
    (void)old_file(f, "/d/b", 1);
    assert_int_equal(os->mkdir(os, "/d/c"), 0);
    assert_int_equal(os->list(os, "/d", collect, text), 0);
    assert_string_equal(text, "c b a ");
    assert_int_equal(os->list(os, "/nowhere", collect, text), -ENOENT);
    (void)old_file(f, "/d/stop", 1);
    assert_int_equal(os->list(os, "/d", collect, text), 7);
}

static void test_refuses_as_a_kernel_does(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    (void)old_file(f, "/d/a", 1);
    assert_int_equal(os->open(os, "/d/a", DBK_OPEN_CREATE_EXCL), -EEXIST);
    assert_int_equal(os->open(os, "/d/none", DBK_OPEN_WRITE), -ENOENT);
    assert_int_equal(os->open(os, "/none/a", DBK_OPEN_CREATE_EXCL), -ENOENT);
    assert_int_equal(os->open(os, "/d", DBK_OPEN_READ), -EISDIR);
    assert_int_equal(os->mkdir(os, "/d"), -EEXIST);
    assert_int_equal(os->unlink(os, "/d/none"), -ENOENT);
    assert_int_equal(os->rename(os, "/d/none", "/d/b"), -ENOENT);
    int file = os->open(os, "/d/a", DBK_OPEN_READ);
    char byte = 0;
    assert_int_equal(os->pwrite(os, file, &byte, 1, 0), -EBADF);
    file = os->open(os, "/d/a", DBK_OPEN_WRITE_DIRECT);
    assert_int_equal(os->pwrite(os, file, &byte, 1, 0), -EINVAL);
}

static void test_clocks_and_entropy(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    int64_t real = os->realtime_us(os);
    int64_t mono = os->monotonic_us(os);
    os->sleep_us(os, 250);
    assert_int_equal(os->realtime_us(os), real + 250);
    assert_int_equal(os->monotonic_us(os), mono + 250);
    f->disk->realtime_us -= 1000; /* a clock that jumps back */
    assert_int_equal(os->realtime_us(os), real - 750);
    struct sim_disk *same = sim_disk_new(1);
    uint8_t a[16];
    uint8_t b[16];
    assert_int_equal(os->random(os, a, sizeof a), 0);
    assert_int_equal(same->os.random(&same->os, b, sizeof b), 0);
    assert_memory_equal(a, b, sizeof a);
    sim_disk_free(same);
}

static void test_clone_is_its_own_disk(void **state)
{
    struct fixture *f = *state;
    int file = old_file(f, "/d/a", 2);
    write_sectors(f, file, 'x', 0, 1);
    struct sim_disk *twin = sim_disk_clone(f->disk);
    char where[128];
    assert_false(sim_differs(f->disk, twin, SIM_CACHE, where, sizeof where));
    assert_int_equal(twin->os.fdatasync(&twin->os, file), 0);
    assert_true(sim_differs(f->disk, twin, SIM_MEDIUM, where, sizeof where));
    assert_string_equal(where, "/d/a differs at 0");
    assert_int_equal(twin->os.mkdir(&twin->os, "/e"), 0);
    assert_true(sim_differs(f->disk, twin, SIM_CACHE, where, sizeof where));
    assert_string_equal(where, "/e is on one only");
    sim_disk_free(twin);
    assert_letters(f, SIM_MEDIUM, "/d/a", "oo");
}

static void test_remove_file_is_durable(void **state)
{
    struct fixture *f = *state;
    (void)old_file(f, "/d/a", 1);
    sim_remove_file(f->disk, "/d/a");
    sim_power_cut(f->disk, SIM_KEEP_NOTHING, 0);
    assert_letters(f, SIM_CACHE, "/d/a", "none");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_write_is_seen_at_once_and_not_durable),
        CASE(test_fdatasync_moves_data_and_size_of_that_file_only),
        CASE(test_keep_all_and_last_write),
        CASE(test_subset_is_per_sector),
        CASE(test_subset_same_seed_same_result_other_file_other_draw),
        CASE(test_sectors_of_one_place_may_keep_an_older_unsynced_write),
        CASE(test_sizes_are_kept_as_a_prefix),
        CASE(test_truncation_forgets_what_was_behind_it),
        CASE(test_name_of_a_new_file_needs_fsync_dir),
        CASE(test_name_without_data_is_an_empty_file),
        CASE(test_rename_replaces_and_is_durable_after_fsync_dir),
        CASE(test_unlink_comes_back_unless_fsync_dir),
        CASE(test_directory_operations_are_kept_as_a_prefix),
        CASE(test_what_is_in_a_directory_that_is_lost_is_lost),
        CASE(test_kill_keeps_the_cache_and_a_later_power_cut_still_takes_it),
        CASE(test_dead_from_the_step_on_and_nothing_changes),
        CASE(test_every_call_is_a_step),
        CASE(test_failed_sync_marks_clean_and_the_next_one_lies),
        CASE(test_interrupted_sync_changes_nothing),
        CASE(test_drop_cache_keeps_what_is_dirty),
        CASE(test_trouble_once_sticky_nth_and_by_name),
        CASE(test_short_write_and_read),
        CASE(test_rot_is_on_the_medium),
        CASE(test_lock_excludes_until_closed_or_killed),
        CASE(test_space_runs_out_and_comes_back),
        CASE(test_list_names_each_entry_once_and_ends_when_told),
        CASE(test_refuses_as_a_kernel_does),
        CASE(test_clocks_and_entropy),
        CASE(test_clone_is_its_own_disk),
        CASE(test_remove_file_is_durable),
    };
    return cmocka_run_group_tests_name("sim-disk", tests, NULL, NULL);
}
