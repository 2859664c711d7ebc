/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file descriptor that becomes readable when it is set: eventfd(2).
 */
#include "base/event_fd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int dbk_event_fd_new(void)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

void dbk_event_fd_set(int fd)
{
    uint64_t one = 1;
    /* A full counter means that it is set already. */
    ssize_t n = write(fd, &one, sizeof(one));
    (void)n;
}

void dbk_event_fd_clear(int fd)
{
    uint64_t value;
    ssize_t n = read(fd, &value, sizeof(value));
    (void)n;
}

void dbk_event_fd_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}
