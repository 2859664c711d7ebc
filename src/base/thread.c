/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes with ranks, threads with blocked signals, and a word that threads wait on.
 *
 * With DBK_LOCK_RANKS every thread remembers the mutexes that it holds, and taking one that is not
 * above all of them ends the process: a dead-lock that could happen is found by a run in which it
 * did not. Threads: any.
 */
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

#ifdef DBK_LOCK_RANKS
#define HELD_MAX 16u /* more ranks than there are */

static _Thread_local const struct dbk_mutex *held[HELD_MAX];
static _Thread_local unsigned held_count;

static void remember(const struct dbk_mutex *mutex)
{
    for (unsigned i = 0; i < held_count; i++) {
        dbk_assert(held[i]->rank < mutex->rank);
    }
    dbk_assert(held_count < HELD_MAX);
    held[held_count++] = mutex;
}

static void forget(const struct dbk_mutex *mutex)
{
    unsigned i = held_count;

    while (i > 0 && held[i - 1] != mutex) {
        i--;
    }
    dbk_assert(i > 0);
    for (; i < held_count; i++) {
        held[i - 1] = held[i];
    }
    held_count--;
}
#else
static void remember(const struct dbk_mutex *mutex)
{
    (void)mutex;
}

static void forget(const struct dbk_mutex *mutex)
{
    (void)mutex;
}
#endif

void dbk_mutex_init(struct dbk_mutex *mutex, enum dbk_rank rank)
{
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    dbk_assert(error == 0);
    /* Holds are far shorter than a sleep and a wake: a waiter looks a little longer first. */
    error = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    dbk_assert(error == 0);
    error = pthread_mutex_init(&mutex->m, &attributes);

    dbk_assert(error == 0);
    mutex->rank = rank;
}

void dbk_mutex_release(struct dbk_mutex *mutex)
{
    int error = pthread_mutex_destroy(&mutex->m);

    dbk_assert(error == 0);
}

void dbk_mutex_lock(struct dbk_mutex *mutex)
{
    int error;

    remember(mutex); /* before it blocks: a wrong order is reported, not waited for */
    error = pthread_mutex_lock(&mutex->m);
    dbk_assert(error == 0);
}

void dbk_mutex_unlock(struct dbk_mutex *mutex)
{
    int error;

    forget(mutex);
    error = pthread_mutex_unlock(&mutex->m);
    dbk_assert(error == 0);
}

int dbk_thread_start(struct dbk_thread *ret, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    int error;

    /* A thread inherits the mask of the one that starts it. */
    (void)sigfillset(&all);
    error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error != 0) {
        return error;
    }
    error = pthread_create(&ret->thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        (void)pthread_setname_np(ret->thread, name); /* only for people who look */
    }
    return error;
}

void dbk_thread_join(struct dbk_thread *thread)
{
    int error = pthread_join(thread->thread, NULL);

    dbk_assert(error == 0);
}

void dbk_thread_detach(struct dbk_thread *thread)
{
    int error = pthread_detach(thread->thread);

    dbk_assert(error == 0);
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    long result = syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);

    /* All else would be a bug of ours: a bad address, a bad operation. */
    dbk_assert(result >= 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT);
}

void dbk_thread_yield_io(void)
{
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3, CLASS_SHIFT = 13 }; /* ioprio_set(2) has no header */
    long result = syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE << CLASS_SHIFT);
    (void)result;
}

void dbk_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us)
{
    struct timespec timeout = {.tv_sec = timeout_us / 1000000,
                               .tv_nsec = (timeout_us % 1000000) * 1000};

    futex(word, FUTEX_WAIT, seen, timeout_us < 0 ? NULL : &timeout);
}

void dbk_futex_wake_all(_Atomic uint32_t *word)
{
    futex(word, FUTEX_WAKE, INT32_MAX, NULL);
}

void dbk_futex_wake_one(_Atomic uint32_t *word)
{
    futex(word, FUTEX_WAKE, 1, NULL);
}
