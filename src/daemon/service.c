/* SPDX-License-Identifier: Apache-2.0 */
/* The service of service.h, its completion thread included. */
#include "daemon/service.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "app/logline.h"
#include "base/error.h"
#include "journal/engine.h"

#define DRAIN_SERVER_MS 800    /* the server's part of a drain beyond its budget */
#define DRAIN_AT_ONCE 64u      /* completions taken in one go */
#define GIVE_BACK_POLL_US 5000 /* while the journal is being closed */
#define EXPIRY_LATE_MAX_MS 100 /* how late a deadline may be noticed */

static int64_t clock_us(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t dbk_monotonic_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t dbk_monotonic_tick_us(void)
{
    return clock_us(CLOCK_MONOTONIC_COARSE);
}

int64_t dbk_service_now(void *user)
{
    struct dbk_service *service = user;
    int64_t step = 0;
    dbk_mutex_lock(&service->clock_lock);
    int64_t now =
        dbk_clock_now(&service->clock, clock_us(CLOCK_BOOTTIME), clock_us(CLOCK_REALTIME), &step);
    dbk_mutex_unlock(&service->clock_lock);
    if (step != 0) {
        dbk_log(DBK_LOG_WARNING,
                "the machine's clock was set; the daemon's own runs on and leans towards it slowly",
                DBK_LOG_NUMBER("step_ms", step / 1000));
    }
    return now;
}

static void ring(int fd)
{
    uint64_t one = 1;
    /* A full counter rings already. */
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

static void silence(int fd)
{
    uint64_t count = 0;
    ssize_t ignored = read(fd, &count, sizeof count);
    (void)ignored;
}

void dbk_service_look(void *user)
{
    struct dbk_service *service = user;
    ring(service->look_fd);
}

enum daybook_code dbk_service_init(struct dbk_service *service, const struct dbk_config *config,
                                   struct daybook_error *err)
{
    memset(service, 0, sizeof *service);
    service->config = config;
    service->drain_deadline_us = DAYBOOK_NO_DEADLINE;
    dbk_mutex_init(&service->lock, DBK_RANK_DAEMON);
    dbk_mutex_init(&service->clock_lock, DBK_RANK_METRICS);
    dbk_clock_init(&service->clock, clock_us(CLOCK_BOOTTIME), clock_us(CLOCK_REALTIME));
    service->look_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    service->completion_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service->look_fd < 0 || service->completion_fd < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, errno, "no file descriptor for the daemon");
    }
    return dbk_delivery_new(config, dbk_service_now, dbk_service_look, service, &service->delivery,
                            err);
}

void dbk_service_release(struct dbk_service *service)
{
    dbk_delivery_free(service->delivery);
    if (service->look_fd >= 0) {
        (void)close(service->look_fd);
    }
    if (service->completion_fd >= 0) {
        (void)close(service->completion_fd);
    }
    dbk_mutex_release(&service->lock);
    dbk_mutex_release(&service->clock_lock);
}

/* ---- appends --------------------------------------------------------------------------------- */

static void unlist(struct dbk_service *service, struct dbk_append *append)
{
    if (!append->listed) {
        return;
    }
    *(append->prev != NULL ? &append->prev->next : &service->first) = append->next;
    *(append->next != NULL ? &append->next->prev : &service->last) = append->prev;
    append->listed = false;
}

enum dbk_begun dbk_service_begun(struct dbk_service *service)
{
    return atomic_load(&service->admission) == DBK_ADMIT_ALL ? DBK_BEGUN_BEFORE : DBK_BEGUN_AFTER;
}

enum daybook_code dbk_append_reserve(struct dbk_service *service, enum dbk_begun begun)
{
    enum daybook_code code = DAYBOOK_OK;
    dbk_mutex_lock(&service->lock);
    if (service->admission == DBK_ADMIT_NONE ||
        (service->admission == DBK_ADMIT_BEGUN && begun == DBK_BEGUN_AFTER)) {
        code = DAYBOOK_DRAINING;
    } else if (service->readiness != DBK_READY) {
        code = DAYBOOK_BACKEND;
    } else {
        service->in_flight++;
    }
    dbk_mutex_unlock(&service->lock);
    return code;
}

void dbk_append_submit(struct dbk_service *service, struct dbk_append *append)
{
    append->submission.user = append;
    append->deadline_us = append->started_us + service->config->operation_timeout_ms * 1000;
    dbk_mutex_lock(&service->lock);
    append->prev = service->last;
    append->next = NULL;
    *(service->last != NULL ? &service->last->next : &service->first) = append;
    service->last = append;
    append->listed = true;
    struct daybook_journal *journal = service->journal;
    struct daybook_append_queue *queue = service->queue;
    dbk_mutex_unlock(&service->lock);
    daybook_journal_submit(journal, queue, &append->submission, dbk_service_now(service));
}

bool dbk_append_is_done(const struct dbk_append *append)
{
    return atomic_load(&append->done);
}

bool dbk_append_take(struct dbk_service *service, struct dbk_append *append)
{
    dbk_mutex_lock(&service->lock);
    bool done = append->done;
    if (!done) {
        append->waiter = NULL;
    }
    dbk_mutex_unlock(&service->lock);
    return done;
}

void dbk_append_free(struct dbk_append *append)
{
    if (append != NULL) {
        dbk_ingest_release(&append->ingest);
        if (append->results != &append->result) {
            free(append->results);
        }
        free(append->body);
        free(append);
    }
}

/* Takes what the engine gave back. Returns whether a result says that the journal may have failed. */
static bool complete(struct dbk_service *service, struct daybook_append_queue *queue)
{
    struct daybook_submission *finished[DRAIN_AT_ONCE];
    void *waiters[DRAIN_AT_ONCE];
    bool troubled = false;
    size_t count =
        daybook_append_queue_drain(queue, dbk_service_now(service), finished, DRAIN_AT_ONCE);
    size_t wake_count = 0;
    struct dbk_append *orphans = NULL;
    dbk_mutex_lock(&service->lock);
    for (size_t i = 0; i < count; i++) {
        struct dbk_append *append = finished[i]->user;
        bool waits = append->listed;
        unlist(service, append);
        service->in_flight--;
        for (size_t k = 0; k < finished[i]->count; k++) {
            troubled = troubled || append->results[k].code == DAYBOOK_BACKEND;
        }
        if (append->waiter == NULL) {
            append->next = orphans;
            orphans = append;
        } else if (waits) {
            waiters[wake_count++] = append->waiter;
        }
        atomic_store(&append->done, true);
    }
    dbk_mutex_unlock(&service->lock);
    for (size_t i = 0; i < wake_count; i++) {
        service->wake(waiters[i]);
    }
    while (orphans != NULL) {
        struct dbk_append *next = orphans->next;
        dbk_append_free(orphans);
        orphans = next;
    }
    return troubled;
}

/* Ends the waits whose time is over; returns how many milliseconds to sleep until the next look: one
 * that begins to wait meanwhile rings nobody. */
static int expire(struct dbk_service *service)
{
    for (;;) {
        int64_t now = dbk_monotonic_us();
        dbk_mutex_lock(&service->lock);
        struct dbk_append *append = service->first;
        int64_t left = INT64_MAX;
        if (append != NULL) {
            int64_t deadline = append->deadline_us < service->drain_deadline_us
                                   ? append->deadline_us
                                   : service->drain_deadline_us;
            left = deadline - now;
        }
        void *waiter = NULL;
        if (append != NULL && left <= 0) {
            waiter = append->waiter;
            unlist(service, append);
        }
        dbk_mutex_unlock(&service->lock);
        if (waiter == NULL) {
            return left / 1000 >= EXPIRY_LATE_MAX_MS ? EXPIRY_LATE_MAX_MS : (int)(left / 1000) + 1;
        }
        service->wake(waiter);
    }
}

static void *completion_run(void *user)
{
    struct dbk_service *service = user;
    dbk_mutex_lock(&service->lock);
    struct daybook_append_queue *queue = service->queue; /* ours as long as this thread runs */
    dbk_mutex_unlock(&service->lock);
    struct pollfd fds[2] = {{.fd = daybook_append_queue_fd(queue), .events = POLLIN},
                            {.fd = service->completion_fd, .events = POLLIN}};
    while (!service->completion_stop) {
        int timeout_ms = expire(service);
        if (poll(fds, 2, timeout_ms) <= 0) {
            continue;
        }
        if (fds[1].revents != 0) {
            silence(service->completion_fd);
        }
        if (fds[0].revents != 0 && complete(service, queue)) {
            dbk_service_look(service);
        }
    }
    return NULL;
}

/* ---- the journal ----------------------------------------------------------------------------- */

/* The newest time that the journal holds, so that ours is not behind it. */
static void raise_clock(struct dbk_service *service, struct daybook_journal *journal)
{
    struct daybook_journal_stats stats;
    struct daybook_batch *batch = NULL;
    if (daybook_journal_stats(journal, dbk_service_now(service), &stats, NULL) != DAYBOOK_OK ||
        stats.newest_position == 0 ||
        daybook_batch_new(1, 1, (uint32_t)service->config->max_event_bytes, &batch, NULL) !=
            DAYBOOK_OK) {
        return;
    }
    uint64_t last = 0;
    if (daybook_journal_read(journal, stats.newest_position - 1, DAYBOOK_WHERE_ALL, batch, &last,
                             NULL, NULL) == DAYBOOK_OK &&
        batch->count == 1) {
        dbk_mutex_lock(&service->clock_lock);
        dbk_clock_raise(&service->clock, batch->deliveries[0].accepted_at_us);
        dbk_mutex_unlock(&service->clock_lock);
    }
    daybook_batch_free(batch);
}

static void publish(struct dbk_service *service, struct daybook_journal *journal,
                    struct daybook_append_queue *queue, enum dbk_readiness readiness)
{
    dbk_mutex_lock(&service->lock);
    service->journal = journal;
    service->queue = queue;
    service->readiness = readiness;
    dbk_mutex_unlock(&service->lock);
}

static void sleep_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&t, NULL);
}

static unsigned count_under_lock(struct dbk_service *service, const unsigned *count)
{
    dbk_mutex_lock(&service->lock);
    unsigned n = *count;
    dbk_mutex_unlock(&service->lock);
    return n;
}

/* Takes the journal out of everybody's reach and waits for those who still use it. */
static void withdraw(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    service->journal = NULL;
    service->queue = NULL;
    dbk_mutex_unlock(&service->lock);
    while (count_under_lock(service, &service->users) > 0) {
        sleep_us(GIVE_BACK_POLL_US);
    }
}

enum daybook_code dbk_service_open(struct dbk_service *service, bool existing_only,
                                   struct daybook_error *err)
{
    struct daybook_journal *journal = NULL;
    struct daybook_append_queue *queue = NULL;
    enum daybook_code code = dbk_compose_journal(service->config, existing_only,
                                                 dbk_service_now(service), &journal, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    raise_clock(service, journal);
    code = dbk_compose_register(journal, service->config, dbk_service_now(service), err);
    if (code == DAYBOOK_OK) {
        code = daybook_append_queue_new(journal, &queue, err);
    }
    if (code == DAYBOOK_OK) {
        publish(service, journal, queue, service->readiness);
        service->completion_stop = false;
        if (dbk_thread_start(&service->completion, "completion", completion_run, service) != 0) {
            code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no thread for completions");
        }
    }
    if (code != DAYBOOK_OK) {
        withdraw(service);
        daybook_append_queue_free(queue);
        (void)daybook_journal_close(journal, NULL);
        return code;
    }
    code = dbk_delivery_start(service->delivery, journal, err);
    if (code != DAYBOOK_OK) {
        (void)dbk_service_close_journal(service, NULL);
        return code;
    }
    code = dbk_watch_start(service, err);
    if (code != DAYBOOK_OK) {
        struct dbk_delivery_report reports[DAYBOOK_CONSUMERS_MAX];
        (void)dbk_service_close_workers(service, 0, reports);
        (void)dbk_service_close_journal(service, NULL);
        return code;
    }
    publish(service, journal, queue, DBK_READY);
    return DAYBOOK_OK;
}

bool dbk_service_has_failed(struct dbk_service *service, struct daybook_error *ret_why)
{
    struct daybook_journal_stats stats;
    if (service->config->backend == DBK_BACKEND_POSTGRES) {
        return false; /* it connects again by itself: see watch.c */
    }
    if (service->journal == NULL ||
        daybook_journal_stats(service->journal, dbk_service_now(service), &stats, NULL) !=
            DAYBOOK_OK) {
        return false;
    }
    dbk_mutex_lock(&service->lock);
    service->last_stats = stats;
    service->has_last_stats = true;
    if (stats.state == DAYBOOK_JOURNAL_FAILED) {
        service->readiness = DBK_JOURNAL_FAILED;
    }
    dbk_mutex_unlock(&service->lock);
    *ret_why = stats.failure;
    return stats.state == DAYBOOK_JOURNAL_FAILED;
}

size_t dbk_service_close_workers(struct dbk_service *service, uint32_t budget_ms,
                                 struct dbk_delivery_report *ret_reports)
{
    if (service->journal != NULL) {
        /* Workers settle, read the backlog and report within a second of their budget (T1, T2): one that asks a server
         * that hangs is answered before that second is over, and says truly what it does not know. */
        dbk_journal_hurry(service->journal, daybook_journal_monotonic_us(service->journal) +
                                                ((int64_t)budget_ms + DRAIN_SERVER_MS) * 1000);
    }
    return dbk_delivery_stop(service->delivery, budget_ms, ret_reports);
}

enum daybook_code dbk_service_close_journal(struct dbk_service *service, struct daybook_error *err)
{
    dbk_mutex_lock(&service->lock);
    struct daybook_journal *journal = service->journal;
    struct daybook_append_queue *queue = service->queue;
    if (service->readiness == DBK_READY) {
        service->readiness = DBK_JOURNAL_FAILED; /* no append is admitted any more */
    }
    dbk_mutex_unlock(&service->lock);
    if (journal == NULL) {
        return DAYBOOK_OK;
    }
    dbk_watch_stop(service);
    /* The engine gives every append back, also when it failed; then completion has nothing to do. */
    while (count_under_lock(service, &service->in_flight) > 0) {
        sleep_us(GIVE_BACK_POLL_US);
    }
    service->completion_stop = true;
    ring(service->completion_fd);
    dbk_thread_join(&service->completion);
    withdraw(service);
    daybook_append_queue_free(queue);
    return daybook_journal_close(journal, err);
}

void dbk_service_set_failed(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    service->readiness = DBK_JOURNAL_FAILED;
    dbk_mutex_unlock(&service->lock);
}

void dbk_service_set_draining(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    service->draining = true;
    dbk_mutex_unlock(&service->lock);
}

void dbk_service_close_admission(struct dbk_service *service, enum dbk_admission admission,
                                 int64_t deadline_us)
{
    dbk_mutex_lock(&service->lock);
    if ((int)admission > atomic_load(&service->admission)) {
        atomic_store(&service->admission, (int)admission);
    }
    service->drain_deadline_us = deadline_us;
    dbk_mutex_unlock(&service->lock);
    ring(service->completion_fd);
}

const char *dbk_service_readiness(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    const char *word = service->draining                          ? "draining"
                       : service->readiness == DBK_STARTING       ? "starting"
                       : service->readiness == DBK_JOURNAL_FAILED ? "journal_failed"
                       : service->unreachable                     ? "journal_failed"
                                                                  : "ready";
    dbk_mutex_unlock(&service->lock);
    return word;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct daybook_journal *dbk_service_borrow(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    struct daybook_journal *journal = service->journal;
    if (journal != NULL) {
        service->users++;
    }
    dbk_mutex_unlock(&service->lock);
    return journal;
}

void dbk_service_return(struct dbk_service *service)
{
    dbk_mutex_lock(&service->lock);
    service->users--;
    dbk_mutex_unlock(&service->lock);
}

/* M1: what the daemon answers for counts, not the engine alone. */
static void set_mode(const struct dbk_service *service, struct daybook_journal_stats *stats)
{
    if (dbk_config_telemetry_reason(service->config) != NULL) {
        stats->mode = DAYBOOK_MODE_TELEMETRY_GRADE;
    }
}

bool dbk_service_stats(struct dbk_service *service, struct daybook_journal_stats *ret)
{
    struct daybook_journal *journal = dbk_service_borrow(service);
    if (journal != NULL) {
        enum daybook_code code =
            daybook_journal_stats(journal, dbk_service_now(service), ret, NULL);
        dbk_service_return(service);
        if (code == DAYBOOK_OK) {
            set_mode(service, ret);
            return true;
        }
    }
    dbk_mutex_lock(&service->lock);
    bool known = service->has_last_stats;
    *ret = service->last_stats;
    dbk_mutex_unlock(&service->lock);
    set_mode(service, ret);
    return known;
}

unsigned dbk_service_in_flight(struct dbk_service *service)
{
    return count_under_lock(service, &service->in_flight);
}
