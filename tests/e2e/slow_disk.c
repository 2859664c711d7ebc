/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that is slow or broken, for tests of the real command: preloaded, it stands before fdatasync and
 * pread.
 *
 * The file that DAYBOOK_TEST_DISK names says what happens to each call on a segment of a journal:
 * `slow MS`: it takes so long more; `fail`: it answers EIO. `unread`: reading a segment answers EIO. No file, or
 * an empty one: nothing.
 *
 * DAYBOOK_TEST_CLOCK is how many seconds the machine's clock is ahead of the time, or behind it.
 */
/* As the engine is built: what is preloaded has to be called pread64. */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 5

/* What the file says now. */
static void read_order(char *order, size_t room)
{
    const char *path = getenv("DAYBOOK_TEST_DISK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = 0;

    if (fd >= 0) {
        n = read(fd, order, room - 1);
        (void)close(fd);
    }
    order[n > 0 ? n : 0] = '\0';
}

/* A segment of the journal, not a database. */
static int is_segment(int fd)
{
    char link[64];
    char path[4096];

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, ".dbl") != NULL;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *tp)
{
    int (*real)(clockid_t, struct timespec *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "clock_gettime");
    const char *ahead = getenv("DAYBOOK_TEST_CLOCK");

    memcpy(&real, &symbol, sizeof real);
    int result = real(id, tp);
    if (result == 0 && id == CLOCK_REALTIME && ahead != NULL) {
        tp->tv_sec += strtol(ahead, NULL, 10);
    }
    return result;
}

__attribute__((visibility("default"))) int fdatasync(int __fildes) /* as <unistd.h> calls it */
{
    char order[64];
    int (*real)(int) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "fdatasync");

    memcpy(&real, &symbol, sizeof real);
    if (is_segment(__fildes)) {
        read_order(order, sizeof order);
        if (strncmp(order, "fail", 4) == 0) {
            errno = EIO;
            return -1;
        }
        /* Slow until its time is over or the file says something else. */
        for (long waited = 0;
             strncmp(order, "slow ", 5) == 0 && waited < strtol(order + 5, NULL, 10);
             waited += STEP_MS) {
            struct timespec step = {.tv_nsec = STEP_MS * 1000000L};

            (void)nanosleep(&step, NULL);
            read_order(order, sizeof order);
        }
    }
    return real(__fildes);
}

__attribute__((visibility("default"))) ssize_t pread(int __fd, void *__buf, size_t __nbytes,
                                                     off_t __offset) /* as <unistd.h> calls it */
{
    char order[64];
    ssize_t (*real)(int, void *, size_t, off_t) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "pread64");

    memcpy(&real, &symbol, sizeof real);
    if (is_segment(__fd)) {
        read_order(order, sizeof order);
        if (strncmp(order, "unread", 6) == 0) {
            errno = EIO;
            return -1;
        }
    }
    return real(__fd, __buf, __nbytes, __offset);
}
