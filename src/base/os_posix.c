/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam on POSIX (base/os.h): thin, one system call each, nothing retried, `-errno` on failure.
 * Everything is opened O_CLOEXEC, for its owner alone: the records are somebody's bills.
 * Threads: any.
 */
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define FILE_MODE 0600
#define DIRECTORY_MODE 0700
#define STAT_BLOCK_BYTES 512u  /* the unit of st_blocks, whatever st_blksize says */
#define RANDOM_STEP_BYTES 256u /* up to here getrandom is never cut short */

static int64_t os_errno_or(int64_t result)
{
    return result < 0 ? -(int64_t)errno : result;
}

static int posix_open(const struct dbk_os *os, const char *path, enum dbk_open_mode mode)
{
    int flags = O_RDONLY;

    (void)os;
    switch (mode) {
    case DBK_OPEN_READ:
        flags = O_RDONLY;
        break;
    case DBK_OPEN_WRITE:
        flags = O_RDWR;
        break;
    case DBK_OPEN_WRITE_DIRECT:
        flags = O_RDWR | O_DIRECT;
        break;
    case DBK_OPEN_CREATE_EXCL:
        flags = O_RDWR | O_CREAT | O_EXCL;
        break;
    }
    return (int)os_errno_or(open(path, flags | O_CLOEXEC, FILE_MODE));
}

static int posix_close(const struct dbk_os *os, int file)
{
    (void)os;
    return (int)os_errno_or(close(file));
}

static int64_t posix_pwrite(const struct dbk_os *os, int file, const void *data, size_t len,
                            uint64_t offset)
{
    (void)os;
    return os_errno_or(pwrite(file, data, len, (off_t)offset));
}

static int64_t posix_pread(const struct dbk_os *os, int file, void *buf, size_t len,
                           uint64_t offset)
{
    (void)os;
    return os_errno_or(pread(file, buf, len, (off_t)offset));
}

static int posix_fdatasync(const struct dbk_os *os, int file)
{
    (void)os;
    return (int)os_errno_or(fdatasync(file));
}

static int posix_fsync(const struct dbk_os *os, int file)
{
    (void)os;
    return (int)os_errno_or(fsync(file));
}

static int posix_fsync_dir(const struct dbk_os *os, const char *path)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result;

    (void)os;
    if (dir < 0) {
        return -errno;
    }
    result = (int)os_errno_or(fsync(dir));
    (void)close(dir);
    return result;
}

static int posix_allocate(const struct dbk_os *os, int file, uint64_t len)
{
    (void)os;
    return (int)os_errno_or(fallocate(file, 0, 0, (off_t)len));
}

static int posix_ftruncate(const struct dbk_os *os, int file, uint64_t len)
{
    (void)os;
    return (int)os_errno_or(ftruncate(file, (off_t)len));
}

static void posix_drop_cache(const struct dbk_os *os, int file)
{
    (void)os;
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static int posix_rename(const struct dbk_os *os, const char *from, const char *to)
{
    (void)os;
    return (int)os_errno_or(rename(from, to));
}

static int posix_unlink(const struct dbk_os *os, const char *path)
{
    (void)os;
    return (int)os_errno_or(unlink(path));
}

static int posix_mkdir(const struct dbk_os *os, const char *path)
{
    (void)os;
    return (int)os_errno_or(mkdir(path, DIRECTORY_MODE));
}

static int posix_list(const struct dbk_os *os, const char *path, dbk_list_visit *visit, void *user)
{
    DIR *dir = opendir(path);
    int result = 0;

    (void)os;
    if (dir == NULL) {
        return -errno;
    }
    while (result == 0) {
        struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            result = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            result = visit(user, entry->d_name);
        }
    }
    (void)closedir(dir);
    return result;
}

static int posix_stat(const struct dbk_os *os, const char *path, struct dbk_stat *ret)
{
    struct stat st;

    (void)os;
    if (stat(path, &st) != 0) {
        return -errno;
    }
    ret->kind = S_ISREG(st.st_mode)   ? DBK_FILE_REGULAR
                : S_ISDIR(st.st_mode) ? DBK_FILE_DIRECTORY
                                      : DBK_FILE_OTHER;
    ret->size_bytes = (uint64_t)st.st_size;
    ret->allocated_bytes = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;
    ret->device = (uint64_t)st.st_dev;
    ret->inode = (uint64_t)st.st_ino;
    ret->modified_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    return 0;
}

static int posix_statfs(const struct dbk_os *os, const char *path, struct dbk_statfs *ret)
{
    struct statvfs st;

    (void)os;
    if (statvfs(path, &st) != 0) {
        return -errno;
    }
    ret->free_bytes = (uint64_t)st.f_bavail * (uint64_t)st.f_frsize;
    return 0;
}

static int posix_lock(const struct dbk_os *os, const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    int result;

    (void)os;
    if (file < 0) {
        return -errno;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        result = -errno;
        (void)close(file);
        return result;
    }
    return file;
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now); /* cannot fail with these two clocks */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t posix_realtime_us(const struct dbk_os *os)
{
    (void)os;
    return clock_us(CLOCK_REALTIME);
}

static int64_t posix_monotonic_us(const struct dbk_os *os)
{
    (void)os;
    return clock_us(CLOCK_MONOTONIC);
}

static int posix_random(const struct dbk_os *os, void *buf, size_t len)
{
    uint8_t *p = buf;

    (void)os;
    while (len > 0) {
        size_t step = len < RANDOM_STEP_BYTES ? len : RANDOM_STEP_BYTES;
        ssize_t got = getrandom(p, step, 0);

        if (got < 0) {
            return -errno;
        }
        p += got;
        len -= (size_t)got;
    }
    return 0;
}

static void posix_sleep_us(const struct dbk_os *os, int64_t us)
{
    struct timespec span = {.tv_sec = us / 1000000, .tv_nsec = (us % 1000000) * 1000};

    (void)os;
    if (us > 0) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
    }
}

static const struct dbk_os posix = {
    .open = posix_open,
    .close = posix_close,
    .pwrite = posix_pwrite,
    .pread = posix_pread,
    .fdatasync = posix_fdatasync,
    .fsync = posix_fsync,
    .fsync_dir = posix_fsync_dir,
    .fallocate = posix_allocate,
    .ftruncate = posix_ftruncate,
    .drop_cache = posix_drop_cache,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .list = posix_list,
    .stat = posix_stat,
    .statfs = posix_statfs,
    .lock = posix_lock,
    .realtime_us = posix_realtime_us,
    .monotonic_us = posix_monotonic_us,
    .random = posix_random,
    .sleep_us = posix_sleep_us,
};

const struct dbk_os *dbk_os_posix(void)
{
    return &posix;
}
