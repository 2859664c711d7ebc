/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file descriptor that becomes readable when it is set (eventfd), for loops that poll. Threads: any.
 */
#ifndef DBK_BASE_EVENT_FD_H
#define DBK_BASE_EVENT_FD_H

/* Returns the descriptor (non-blocking, close-on-exec) or -errno. Close with dbk_event_fd_close. */
int dbk_event_fd_new(void);
void dbk_event_fd_set(int fd);
void dbk_event_fd_clear(int fd);
void dbk_event_fd_close(int fd);

#endif
