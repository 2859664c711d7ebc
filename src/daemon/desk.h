/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desk: one thread for requests that may wait for the disk (listings, operators' operations), so that
 * the threads of the HTTP server never do. A job is put on it, done in its turn, and its waiter is woken.
 *
 * Lock: its own, DBK_RANK_DAEMON, held for a list operation. Threads: any, where not said.
 */
#ifndef DBK_DAEMON_DESK_H
#define DBK_DAEMON_DESK_H

#include <daybook/base.h>

#define DBK_DESK_JOBS_MAX 64u /* that wait at once */

struct dbk_desk;

/* The caller's storage, its own again once `waiter` was woken. */
struct dbk_desk_job {
    void (*run)(struct dbk_desk_job *job); /* desk thread */
    void *waiter;
    struct dbk_desk_job *next; /* the desk's */
};

/* `wake` is called by the desk's thread once for each job that was taken. *ret: owned, release with
 * dbk_desk_free. Returns OK; NO_MEMORY. */
enum daybook_code dbk_desk_new(void (*wake)(void *waiter), struct dbk_desk **ret,
                               struct daybook_error *err);
/* False: too many wait, or it is being closed; the job is not taken. Once this has begun the waiter may be
 * woken, even before it returns. */
bool dbk_desk_put(struct dbk_desk *desk, struct dbk_desk_job *job);
/* Whether the desk is about to close: a long job ends early then. */
bool dbk_desk_is_closing(const struct dbk_desk *desk);
/* Takes no more, does what waits, and ends the thread. NULL is accepted. Threads: owner. */
void dbk_desk_free(struct dbk_desk *desk);

#endif
