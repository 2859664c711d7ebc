/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service manager is told (the sd_notify protocol, over the datagram socket that NOTIFY_SOCKET
 * names): readiness, the stop, and that the main thread still goes round. Without a manager nothing
 * happens. Threads: the main thread alone.
 */
#ifndef DBK_DAEMON_NOTIFY_H
#define DBK_DAEMON_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct dbk_notify {
    int fd;               /* -1: nobody listens */
    int64_t every_us;     /* between signs of life; 0: none are asked for */
    int64_t last_sign_us; /* monotonic */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. What cannot be reached is left alone: a service
 * manager that does not listen is no reason not to serve. */
void dbk_notify_init(struct dbk_notify *notify);
void dbk_notify_release(struct dbk_notify *notify);

/* Lines such as `"READY=1\nSTATUS=..."`. */
void dbk_notify_say(const struct dbk_notify *notify, const char *lines);
/* A sign of life where one is due. Returns in how many milliseconds the next one is, INT64_MAX: never. */
int64_t dbk_notify_alive(struct dbk_notify *notify, int64_t now_us);

#endif
