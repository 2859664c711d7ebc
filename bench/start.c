/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suite `start`: how long a journal that was not closed takes from open to ready, beside a plain read of
 * the same files from the medium. Every opening happens in a process that ends without closing, so that
 * the next one has everything to recover again.
 */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 1024 * 1024, KEYS = 10000 };

static const char journal_name[] = "journal";

struct opening {
    double seconds;
    double read_bytes; /* by this process, from files */
};

/* What is opened. */
struct opener {
    const struct bench *bench;
    uint64_t events;
    double read_bytes; /* of the last opening */
    double slowest_s;
};

static double bytes_read(void)
{
    return bench_proc_number("/proc/self/io", "rchar: ");
}

static struct opening open_once(const struct opener *opener)
{
    double before = bytes_read();
    double began = bench_now_s();
    (void)bench_journal_open(opener->bench, journal_name, opener->events);
    return (struct opening){bench_now_s() - began, bytes_read() - before};
}

/* Fills the journal, or opens it, in a process that does not close it. */
static struct opening apart(const struct opener *opener, uint64_t fill)
{
    int ends[2];
    struct opening opening = {0};
    int status = 0;

    if (pipe(ends) != 0) {
        bench_die("no pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        if (fill > 0) {
            bench_journal_fill(bench_journal_open(opener->bench, journal_name, opener->events),
                               fill, BENCH_EVENT_BYTES, KEYS, 1);
        } else {
            opening = open_once(opener);
        }
        _exit(write(ends[1], &opening, sizeof opening) == (ssize_t)sizeof opening ? 0 : 2);
    }
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], &opening, sizeof opening) != (ssize_t)sizeof opening ||
        waitpid(child, &status, 0) != child || status != 0) {
        bench_die("the process that opens failed");
    }
    (void)close(ends[0]);
    return opening;
}

/* Openings a second. */
static double run_open(void *user, double seconds)
{
    struct opener *opener = user;
    struct opening opening = apart(opener, 0);

    (void)seconds;
    opener->read_bytes = opening.read_bytes;
    opener->slowest_s = opening.seconds > opener->slowest_s ? opening.seconds : opener->slowest_s;
    return 1 / opening.seconds;
}

static void read_file(int dir, const char *name, void *buffer)
{
    int file = openat(dir, name, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (file < 0 || fstat(file, &st) != 0) {
        bench_die("%s: cannot be read", name);
    }
    if (S_ISREG(st.st_mode)) {
        /* Only clean pages can be dropped. */
        (void)fdatasync(file);
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        while (read(file, buffer, READ_BYTES) > 0) {
        }
    }
    (void)close(file);
}

/* Reads of all its files a second. */
static double run_read(void *user, double seconds)
{
    const struct bench *bench = user;
    char path[BENCH_PATH_MAX];
    void *buffer = malloc(READ_BYTES);
    struct dirent *entry;

    (void)seconds;
    bench_path(bench, journal_name, path);
    double began = bench_now_s();
    DIR *dir = opendir(path);
    if (dir == NULL || buffer == NULL) {
        bench_die("%s: cannot be read", path);
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            read_file(dirfd(dir), entry->d_name, buffer);
        }
    }
    (void)closedir(dir);
    free(buffer);
    return 1 / (bench_now_s() - began);
}

static void measure(struct bench *bench, uint64_t events, double allowed_s)
{
    struct opener opener = {.bench = bench,
                            .events = bench->length == BENCH_QUICK ? 10000 : events};
    char mark[96];

    (void)apart(&opener, opener.events);
    struct bench_side sides[] = {{.run = run_open, .user = &opener},
                                 {.run = run_read, .user = bench}};
    bench_alternate(bench, sides, 2);
    double took = 1 / bench_median(bench, &sides[0]);
    bench_figure(bench, "from open to ready", took, "s", 1 / bench_median(bench, &sides[1]),
                 1 / bench_ratio(bench, &sides[0], &sides[1]));
    bench_figure(bench, "the slowest", opener.slowest_s, "s", NAN, NAN);
    bench_figure(bench, "bytes read", opener.read_bytes / 1e6, "MB", NAN, NAN);
    (void)snprintf(mark, sizeof mark, "seconds from open to ready with %llu events",
                   (unsigned long long)events);
    bench_mark(bench, mark, took, BENCH_AT_MOST, allowed_s);
}

void bench_start(struct bench *bench)
{
    measure(bench, 1000000, 1);
}

void bench_start_many(struct bench *bench)
{
    enum { ROUNDS = 3 }; /* each reads everything from the medium */

    bench->rounds = bench->rounds < ROUNDS ? bench->rounds : ROUNDS;
    measure(bench, 10000000, 5);
}
