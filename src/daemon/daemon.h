/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's life: start, serve, reopen a failed journal, stop within a bound.
 */
#ifndef DBK_DAEMON_DAEMON_H
#define DBK_DAEMON_DAEMON_H

#include "app/config.h"

/* What the life ended with. */
enum dbk_daemon_end {
    DBK_DAEMON_STOPPED, /* within its bound, whatever was left to deliver (T5) */
    DBK_DAEMON_OVERRAN, /* the bound was not kept */
    DBK_DAEMON_NO_START /* `err` says why */
};

/* Runs until SIGTERM or SIGINT. Prints where it listens on stdout and logs on stderr. Threads: the main
 * thread, before any other was started. */
enum dbk_daemon_end dbk_daemon_run(const struct dbk_config *config, struct daybook_error *err);

#endif
