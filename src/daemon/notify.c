/* SPDX-License-Identifier: Apache-2.0 */
/* The datagrams of notify.h. */
#include "daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SIGNS_IN_TIME 3 /* signs of life within the time that the manager waits for one */

/* A positive number of the environment; 0: none. */
static int64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

/* Returns the connected socket, or -1. */
static int reach(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* an abstract name */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, size) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

void dbk_notify_init(struct dbk_notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    int64_t within_us = number_of("WATCHDOG_USEC");
    int64_t pid = number_of("WATCHDOG_PID");
    *notify = (struct dbk_notify){.fd = path != NULL ? reach(path) : -1};
    if (notify->fd >= 0 && within_us > 0 && (pid == 0 || pid == getpid())) {
        notify->every_us = within_us / SIGNS_IN_TIME;
    }
}

void dbk_notify_release(struct dbk_notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
    }
    notify->fd = -1;
    notify->every_us = 0;
}

void dbk_notify_say(const struct dbk_notify *notify, const char *lines)
{
    if (notify->fd >= 0) {
        /* A manager that has no room or is gone misses a line. */
        ssize_t ignored = send(notify->fd, lines, strlen(lines), MSG_NOSIGNAL);
        (void)ignored;
    }
}

int64_t dbk_notify_alive(struct dbk_notify *notify, int64_t now_us)
{
    if (notify->every_us == 0) {
        return INT64_MAX;
    }
    if (now_us - notify->last_sign_us >= notify->every_us) {
        dbk_notify_say(notify, "WATCHDOG=1");
        notify->last_sign_us = now_us;
    }
    return (notify->last_sign_us + notify->every_us - now_us) / 1000 + 1;
}
