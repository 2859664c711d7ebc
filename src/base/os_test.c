/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam on the real operating system: what each function returns, and `-errno` on failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/os.h"

/* One directory a test. */
struct fixture {
    const struct dbk_os *os;
    char dir[64];
    char path[128];
};

static const char *path_of(struct fixture *f, const char *name)
{
    (void)snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    return f->path;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->os = dbk_os_posix();
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/daybook-os-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static int remove_visit(void *user, const char *name)
{
    struct fixture *f = user;
    char path[400];

    (void)snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return remove(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(f->os->list(f->os, f->dir, remove_visit, f), 0);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static void test_a_file_from_creation_to_unlink(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    struct dbk_stat st;
    char buf[16] = "";
    int file;

    assert_int_equal(os->open(os, path_of(f, "a"), DBK_OPEN_WRITE), -ENOENT);
    file = os->open(os, f->path, DBK_OPEN_CREATE_EXCL);
    assert_true(file >= 0);
    assert_int_equal(fcntl(file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(os->open(os, f->path, DBK_OPEN_CREATE_EXCL), -EEXIST);
    assert_int_equal(os->pwrite(os, file, "hello", 5, 4096), 5);
    assert_int_equal(os->pread(os, file, buf, sizeof buf, 4096), 5);
    assert_string_equal(buf, "hello");
    assert_int_equal(os->pread(os, file, buf, sizeof buf, 5000), 0);
    assert_int_equal(os->fdatasync(os, file), 0);
    assert_int_equal(os->fsync(os, file), 0);
    assert_int_equal(os->fsync_dir(os, f->dir), 0);
    assert_int_equal(os->stat(os, f->path, &st), 0);
    assert_int_equal(st.kind, DBK_FILE_REGULAR);
    assert_int_equal(st.size_bytes, 4096 + 5);
    assert_int_equal(os->ftruncate(os, file, 10), 0);
    assert_int_equal(os->stat(os, f->path, &st), 0);
    assert_int_equal(st.size_bytes, 10);
    os->drop_cache(os, file);
    assert_int_equal(os->close(os, file), 0);
    assert_int_equal(os->close(os, file), -EBADF);
    assert_int_equal(os->unlink(os, f->path), 0);
    assert_int_equal(os->unlink(os, f->path), -ENOENT);
    assert_int_equal(os->stat(os, f->path, &st), -ENOENT);
}

static void test_files_are_for_their_owner_alone(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    int file = f->os->open(f->os, path_of(f, "a"), DBK_OPEN_CREATE_EXCL);

    assert_true(file >= 0);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
    assert_int_equal(f->os->close(f->os, file), 0);
    assert_int_equal(f->os->mkdir(f->os, path_of(f, "d")), 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
    assert_int_equal(f->os->mkdir(f->os, f->path), -EEXIST);
}

static void test_a_file_for_reading_takes_no_writes(void **state)
{
    struct fixture *f = *state;
    int file = f->os->open(f->os, path_of(f, "a"), DBK_OPEN_CREATE_EXCL);

    assert_true(file >= 0);
    assert_int_equal(f->os->close(f->os, file), 0);
    file = f->os->open(f->os, f->path, DBK_OPEN_READ);
    assert_true(file >= 0);
    assert_int_equal(f->os->pwrite(f->os, file, "x", 1, 0), -EBADF);
    assert_int_equal(f->os->close(f->os, file), 0);
}

/* Past the page cache only whole blocks are written; what was written is read as from any file. */
static void test_direct_writes_are_whole_blocks(void **state)
{
    enum { BLOCK = 4096 };
    static _Alignas(BLOCK) char block[BLOCK];
    struct fixture *f = *state;
    char back[BLOCK];
    int plain = f->os->open(f->os, path_of(f, "a"), DBK_OPEN_CREATE_EXCL);

    assert_true(plain >= 0);
    int file = f->os->open(f->os, f->path, DBK_OPEN_WRITE_DIRECT);
    if (file == -EINVAL) {
        assert_int_equal(f->os->close(f->os, plain), 0);
        skip(); /* a file system without */
    }
    assert_true(file >= 0);
    memset(block, 'd', sizeof block);
    int64_t n = f->os->pwrite(f->os, file, block, BLOCK, BLOCK);
    if (n != -EINVAL) {
        assert_int_equal(n, BLOCK);
        assert_int_equal(f->os->pread(f->os, plain, back, BLOCK, BLOCK), BLOCK);
        assert_memory_equal(back, block, BLOCK);
        assert_int_equal(f->os->pwrite(f->os, file, block, 1, BLOCK), -EINVAL);
    }
    assert_int_equal(f->os->close(f->os, file), 0);
    assert_int_equal(f->os->close(f->os, plain), 0);
}

static void test_rename_replaces(void **state)
{
    struct fixture *f = *state;
    struct dbk_stat st;
    char to[128];
    int file = f->os->open(f->os, path_of(f, "to"), DBK_OPEN_CREATE_EXCL);

    assert_int_equal(f->os->close(f->os, file), 0);
    (void)snprintf(to, sizeof to, "%s", f->path);
    file = f->os->open(f->os, path_of(f, "from"), DBK_OPEN_CREATE_EXCL);
    assert_int_equal(f->os->pwrite(f->os, file, "xyz", 3, 0), 3);
    assert_int_equal(f->os->close(f->os, file), 0);
    assert_int_equal(f->os->rename(f->os, f->path, to), 0);
    assert_int_equal(f->os->stat(f->os, to, &st), 0);
    assert_int_equal(st.size_bytes, 3);
    assert_int_equal(f->os->stat(f->os, f->path, &st), -ENOENT);
}

static int count_visit(void *user, const char *name)
{
    int *count = user;

    assert_string_not_equal(name, ".");
    assert_string_not_equal(name, "..");
    ++*count;
    return 0;
}

static int stop_visit(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
    return 42;
}

static void test_list_visits_each_entry_and_stops_when_told(void **state)
{
    struct fixture *f = *state;
    int count = 0;

    assert_int_equal(f->os->mkdir(f->os, path_of(f, "a")), 0);
    assert_int_equal(f->os->mkdir(f->os, path_of(f, "b")), 0);
    assert_int_equal(f->os->list(f->os, f->dir, count_visit, &count), 0);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(f->os->list(f->os, f->dir, stop_visit, &count), 42);
    assert_int_equal(count, 1);
    assert_int_equal(f->os->list(f->os, path_of(f, "none"), count_visit, &count), -ENOENT);
}

static void test_C8_lock_excludes_another_open(void **state)
{
    struct fixture *f = *state;
    int first = f->os->lock(f->os, path_of(f, "lock"));
    int second;

    assert_true(first >= 0);
    assert_int_equal(f->os->lock(f->os, f->path), -EWOULDBLOCK);
    assert_int_equal(f->os->close(f->os, first), 0);
    second = f->os->lock(f->os, f->path);
    assert_true(second >= 0);
    assert_int_equal(f->os->close(f->os, second), 0);
    assert_int_equal(f->os->lock(f->os, "/nowhere/at/all"), -ENOENT);
}

static void test_fallocate_takes_the_space(void **state)
{
    struct fixture *f = *state;
    struct dbk_stat st;
    struct dbk_statfs fs = {0};
    int file = f->os->open(f->os, path_of(f, "a"), DBK_OPEN_CREATE_EXCL);
    int result = f->os->fallocate(f->os, file, 65536);

    if (result != -EOPNOTSUPP) {
        assert_int_equal(result, 0);
        assert_int_equal(f->os->stat(f->os, f->path, &st), 0);
        assert_int_equal(st.size_bytes, 65536);
        assert_true(st.allocated_bytes >= 65536);
    }
    assert_int_equal(f->os->close(f->os, file), 0);
    assert_int_equal(f->os->statfs(f->os, f->dir, &fs), 0);
    assert_true(fs.free_bytes > 0);
    assert_int_equal(f->os->statfs(f->os, "/nowhere", &fs), -ENOENT);
}

static void test_random_and_clocks(void **state)
{
    struct fixture *f = *state;
    const struct dbk_os *os = f->os;
    uint8_t a[1000] = {0};
    uint8_t b[1000] = {0};
    static const uint8_t zeros[64] = {0};
    int64_t before = os->monotonic_us(os);

    assert_int_equal(os->random(os, a, sizeof a), 0);
    assert_int_equal(os->random(os, b, sizeof b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + sizeof a - sizeof zeros, zeros, sizeof zeros);
    os->sleep_us(os, 1);
    os->sleep_us(os, -1);
    assert_true(os->monotonic_us(os) > before);
    assert_true(os->realtime_us(os) > INT64_C(1700000000000000));
}

#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_a_file_from_creation_to_unlink),
        WITH_DIRECTORY(test_files_are_for_their_owner_alone),
        WITH_DIRECTORY(test_a_file_for_reading_takes_no_writes),
        WITH_DIRECTORY(test_direct_writes_are_whole_blocks),
        WITH_DIRECTORY(test_rename_replaces),
        WITH_DIRECTORY(test_list_visits_each_entry_and_stops_when_told),
        WITH_DIRECTORY(test_C8_lock_excludes_another_open),
        WITH_DIRECTORY(test_fallocate_takes_the_space),
        WITH_DIRECTORY(test_random_and_clocks),
    };

    return cmocka_run_group_tests_name("os", tests, NULL, NULL);
}
