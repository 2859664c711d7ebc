/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam: one struct of functions, the only door of engines to time, entropy and files.
 *
 * Two implementations: POSIX (`dbk_os_posix`, os_posix.c) and the simulated disk of the tests
 * (tests/sim/disk.h). A function returns 0 or a count on success and `-errno` on failure; none
 * retries anything, not even EINTR: the error policy is the caller's. Files are small integers of the
 * implementation, not necessarily file descriptors of the kernel. Paths are whole paths.
 *
 * Threads: any, as far as the implementation says (POSIX: any; simulated: one at a time).
 */
#ifndef DBK_BASE_OS_H
#define DBK_BASE_OS_H

#include <stddef.h>
#include <stdint.h>

enum dbk_open_mode {
    DBK_OPEN_READ,  /* an existing file, for reading */
    DBK_OPEN_WRITE, /* an existing file, for reading and writing */
    DBK_OPEN_WRITE_DIRECT, /* likewise, past the page cache: memory, offset and length of each write are multiples
                              of 4096; -EINVAL, now or from a write, where the file system cannot do that */
    DBK_OPEN_CREATE_EXCL /* a new file, for reading and writing; -EEXIST if it is there */
};

enum dbk_file_kind { DBK_FILE_REGULAR, DBK_FILE_DIRECTORY, DBK_FILE_OTHER };

struct dbk_stat {
    enum dbk_file_kind kind;
    uint64_t size_bytes;
    uint64_t allocated_bytes;
    uint64_t device; /* with `inode`: whether two names are one file */
    uint64_t inode;
    int64_t modified_us; /* of its content, since the Unix epoch */
};

struct dbk_statfs {
    uint64_t free_bytes; /* for this user */
};

/* Called by `list` for each entry but "." and ".."; a non-zero return ends the listing with it. */
typedef int dbk_list_visit(void *user, const char *name);

struct dbk_os {
    int (*open)(const struct dbk_os *os, const char *path, enum dbk_open_mode mode);
    int (*close)(const struct dbk_os *os, int file);
    /* One attempt; may write less than len (returns the count) or fail. */
    int64_t (*pwrite)(const struct dbk_os *os, int file, const void *data, size_t len,
                      uint64_t offset);
    /* One attempt; 0 at the end of the file. */
    int64_t (*pread)(const struct dbk_os *os, int file, void *buf, size_t len, uint64_t offset);
    int (*fdatasync)(const struct dbk_os *os, int file);
    /* Data, size and all metadata of a file. */
    int (*fsync)(const struct dbk_os *os, int file);
    int (*fsync_dir)(const struct dbk_os *os, const char *path);
    int (*fallocate)(const struct dbk_os *os, int file, uint64_t len);
    int (*ftruncate)(const struct dbk_os *os, int file, uint64_t len);
    /* Forget what the page cache holds of the file, as far as it is clean. Advice: cannot fail. */
    void (*drop_cache)(const struct dbk_os *os, int file);
    int (*rename)(const struct dbk_os *os, const char *from, const char *to);
    int (*unlink)(const struct dbk_os *os, const char *path);
    int (*mkdir)(const struct dbk_os *os, const char *path);
    int (*list)(const struct dbk_os *os, const char *path, dbk_list_visit *visit, void *user);
    int (*stat)(const struct dbk_os *os, const char *path, struct dbk_stat *ret);
    int (*statfs)(const struct dbk_os *os, const char *path, struct dbk_statfs *ret);
    /* flock(LOCK_EX | LOCK_NB) on a file that is made if it is missing; the returned file is kept
     * open for as long as the lock is to be held. -EWOULDBLOCK: another open holds it. */
    int (*lock)(const struct dbk_os *os, const char *path);

    int64_t (*realtime_us)(const struct dbk_os *os);
    int64_t (*monotonic_us)(const struct dbk_os *os);
    int (*random)(const struct dbk_os *os, void *buf, size_t len);
    /* Sleeps; the simulated one moves its clock instead. */
    void (*sleep_us)(const struct dbk_os *os, int64_t us);
    void *user;
};

/* The operating system. Static, never released. Threads: any. */
const struct dbk_os *dbk_os_posix(void);

#endif
