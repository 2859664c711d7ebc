/* SPDX-License-Identifier: Apache-2.0 */
/* The desk of desk.h. */
#include "daemon/desk.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/thread.h"

struct dbk_desk {
    void (*wake)(void *waiter);
    struct dbk_thread thread;
    _Atomic uint32_t rung; /* changes whenever there is something to look at */
    _Atomic bool closing;
    struct dbk_mutex lock;
    /* Under it: */
    struct dbk_desk_job *first;
    struct dbk_desk_job *last;
    unsigned count;
};

static struct dbk_desk_job *take(struct dbk_desk *desk)
{
    dbk_mutex_lock(&desk->lock);
    struct dbk_desk_job *job = desk->first;
    if (job != NULL) {
        desk->first = job->next;
        desk->last = desk->first != NULL ? desk->last : NULL;
        desk->count--;
    }
    dbk_mutex_unlock(&desk->lock);
    return job;
}

static void *run(void *user)
{
    struct dbk_desk *desk = user;
    for (;;) {
        uint32_t seen = desk->rung;
        bool closing = desk->closing; /* before the look: nothing is put behind it */
        struct dbk_desk_job *job = take(desk);
        if (job != NULL) {
            void *waiter = job->waiter;
            job->run(job);
            desk->wake(waiter);
        } else if (closing) {
            return NULL;
        } else {
            dbk_futex_wait(&desk->rung, seen, -1);
        }
    }
}

static void ring(struct dbk_desk *desk)
{
    desk->rung++;
    dbk_futex_wake_all(&desk->rung);
}

enum daybook_code dbk_desk_new(void (*wake)(void *waiter), struct dbk_desk **ret,
                               struct daybook_error *err)
{
    struct dbk_desk *desk = calloc(1, sizeof *desk);
    if (desk == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the desk");
    }
    desk->wake = wake;
    dbk_mutex_init(&desk->lock, DBK_RANK_DAEMON);
    if (dbk_thread_start(&desk->thread, "desk", run, desk) != 0) {
        dbk_mutex_release(&desk->lock);
        free(desk);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no thread for the desk");
    }
    *ret = desk;
    return DAYBOOK_OK;
}

bool dbk_desk_put(struct dbk_desk *desk, struct dbk_desk_job *job)
{
    dbk_mutex_lock(&desk->lock);
    bool taken = desk->count < DBK_DESK_JOBS_MAX && !desk->closing;
    if (taken) {
        job->next = NULL;
        *(desk->last != NULL ? &desk->last->next : &desk->first) = job;
        desk->last = job;
        desk->count++;
    }
    dbk_mutex_unlock(&desk->lock);
    if (taken) {
        ring(desk);
    }
    return taken;
}

bool dbk_desk_is_closing(const struct dbk_desk *desk)
{
    return desk->closing;
}

void dbk_desk_free(struct dbk_desk *desk)
{
    if (desk == NULL) {
        return;
    }
    dbk_mutex_lock(&desk->lock); /* nobody puts a job behind the last look */
    desk->closing = true;
    dbk_mutex_unlock(&desk->lock);
    ring(desk);
    dbk_thread_join(&desk->thread);
    dbk_mutex_release(&desk->lock);
    free(desk);
}
