/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes with ranks, threads with blocked signals, and a word that threads wait on (futex).
 *
 * A mutex has a rank; taking one whose rank is not above every rank that the thread holds ends the
 * process (dbk_assert) in builds with DBK_LOCK_RANKS. The ranks are the table in docs/THREADS.md.
 */
#ifndef DBK_BASE_THREAD_H
#define DBK_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Lock order, lowest first: a thread takes them only upwards. */
enum dbk_rank {
    DBK_RANK_DAEMON = 10,   /* a connection table, a submission list */
    DBK_RANK_WORKER = 20,   /* a worker's control block */
    DBK_RANK_COMPARE = 25,  /* log engine: the buffer for a repeated id */
    DBK_RANK_STATE = 30,    /* log engine: state */
    DBK_RANK_STAGE = 40,    /* log engine: stage and id index */
    DBK_RANK_SEGMENTS = 50, /* log engine: segment table */
    DBK_RANK_QUEUE = 60,    /* an append queue's list */
    DBK_RANK_SINK = 65,     /* a destination's handle, against an interrupt */
    DBK_RANK_METRICS = 70,
    DBK_RANK_LOG = 80 /* one log line */
};

struct dbk_mutex {
    pthread_mutex_t m;
    enum dbk_rank rank;
};

void dbk_mutex_init(struct dbk_mutex *mutex, enum dbk_rank rank);
void dbk_mutex_release(struct dbk_mutex *mutex);
void dbk_mutex_lock(struct dbk_mutex *mutex);
void dbk_mutex_unlock(struct dbk_mutex *mutex);

/* Starts a thread with every signal blocked and a name of at most 15 bytes. Returns 0 or an errno.
 * Join with dbk_thread_join, or detach with dbk_thread_detach. */
struct dbk_thread {
    pthread_t thread;
};
int dbk_thread_start(struct dbk_thread *ret, const char *name, void *(*run)(void *), void *arg);
void dbk_thread_join(struct dbk_thread *thread);
void dbk_thread_detach(struct dbk_thread *thread);

/* The calling thread's I/O waits behind that of others, where the disk's scheduler can do that. Advice:
 * cannot fail. */
void dbk_thread_yield_io(void);

/* Waits while *word == seen, at most timeout_us (negative: no limit). May return early: look again. */
void dbk_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us);
/* Wakes every waiter, or one. */
void dbk_futex_wake_all(_Atomic uint32_t *word);
void dbk_futex_wake_one(_Atomic uint32_t *word);

#endif
