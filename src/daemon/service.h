/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon serves from: the journal that is open now (or none), the appends that are under way,
 * who is still admitted, and the daemon's clock.
 *
 * An append in flight holds no thread: it is submitted, and one completion thread polls the queue's
 * eventfd, and wakes who waits. An append past its deadline loses its waiter, never its events: the
 * engine still owns them and gives them back later (J1). The journal is closed only while nobody uses
 * it. Lock: `lock` (DBK_RANK_DAEMON); no I/O and no callback under it. Threads: any, where not said.
 */
#ifndef DBK_DAEMON_SERVICE_H
#define DBK_DAEMON_SERVICE_H

#include "app/clock.h"
#include "app/compose.h"
#include "base/thread.h"
#include "daemon/ingest.h"

enum dbk_readiness { DBK_STARTING, DBK_READY, DBK_JOURNAL_FAILED };

/* Who may still append. Only ever moves down this list. */
enum dbk_admission {
    DBK_ADMIT_ALL,
    DBK_ADMIT_BEGUN, /* requests that had begun when admission closed */
    DBK_ADMIT_NONE
};

/* One request's events on their way through the journal. */
struct dbk_append {
    struct daybook_submission submission;
    struct dbk_ingest ingest;
    struct daybook_append_result *results;
    struct daybook_append_result result; /* the results of a single event */
    char *body;                          /* what the events borrow from */
    size_t body_bytes;
    int64_t started_us;
    _Atomic bool
        done; /* the engine has given it back; set last of all, a waiter may free it from then on */
    /* Under the service's lock: */
    void *waiter; /* NULL: nobody, it is freed when the engine gives it back */
    int64_t deadline_us;
    bool listed; /* in the list of those that wait */
    struct dbk_append *next;
    struct dbk_append *prev;
};

struct dbk_service {
    const struct dbk_config *config;
    struct dbk_delivery *delivery;
    struct dbk_append_counters appends;
    struct dbk_http_counters http;
    void (*wake)(void *waiter); /* ends the wait of an append's waiter; completion thread */
    int look_fd;                /* eventfd: the main thread has something to look at */
    _Atomic bool repaired;      /* the flag of a repair is up; looked at by the main thread */

    struct dbk_mutex clock_lock;
    struct dbk_clock clock;

    struct dbk_mutex lock;
    enum dbk_readiness readiness;
    bool draining;
    _Atomic int admission;           /* enum dbk_admission; set under the lock */
    struct daybook_journal *journal; /* NULL: none is open */
    struct daybook_append_queue *queue;
    unsigned users;            /* borrowed `journal` */
    unsigned in_flight;        /* reserved or with the engine */
    int64_t drain_deadline_us; /* no wait lasts longer */
    struct dbk_append *first;  /* those that wait, in order of deadline */
    struct dbk_append *last;
    struct daybook_journal_stats last_stats; /* of a journal that is gone */
    bool has_last_stats;

    bool unreachable; /* the database does not answer (watch.c); the journal is open all the same */

    struct dbk_thread watch;
    int watch_fd; /* eventfd: stop */
    bool watching;

    struct dbk_thread completion;
    int completion_fd; /* eventfd: look at deadlines, or stop */
    _Atomic bool completion_stop;
};

enum daybook_code dbk_service_init(struct dbk_service *service, const struct dbk_config *config,
                                   struct daybook_error *err);
void dbk_service_release(struct dbk_service *service);

/* `user` is the service: both are handed to the delivery too. */
int64_t dbk_service_now(void *user);
int64_t dbk_monotonic_us(void);
/* The same clock at its last tick, some milliseconds ago at most: for bounds of seconds, and cheap. */
int64_t dbk_monotonic_tick_us(void);
/* Makes the main thread look at the journal's state. */
void dbk_service_look(void *user);

/* Opens the journal, registers consumers, starts completion and workers, and admits appends. On failure
 * nothing is left open. `existing_only`: where there is no journal none is made (NOT_FOUND; the log engine). Threads:
 * owner. */
enum daybook_code dbk_service_open(struct dbk_service *service, bool existing_only,
                                   struct daybook_error *err);
/* Whether the journal that is open has failed (A7). Threads: owner. */
bool dbk_service_has_failed(struct dbk_service *service, struct daybook_error *ret_why);
/* Stops workers and completion and closes the journal, whatever state it is in. `budget_ms` is the
 * workers'; soon after it the journal waits for no server any more (dbk_journal_hurry), so it is to be
 * closed next. Appends are not admitted afterwards. Returns the workers abandoned. Threads: owner. */
size_t dbk_service_close_workers(struct dbk_service *service, uint32_t budget_ms,
                                 struct dbk_delivery_report *ret_reports);
enum daybook_code dbk_service_close_journal(struct dbk_service *service, struct daybook_error *err);

void dbk_service_set_draining(struct dbk_service *service);
/* There is no journal to serve from yet: `/readyz` says `journal_failed`. */
void dbk_service_set_failed(struct dbk_service *service);
/* `deadline_us` (monotonic) is when the waits of appends end at the latest. */
void dbk_service_close_admission(struct dbk_service *service, enum dbk_admission admission,
                                 int64_t deadline_us);
/* `"ready"`, or why not: `"starting"`, `"journal_failed"`, `"draining"`. */
const char *dbk_service_readiness(struct dbk_service *service);

/* ---- the watch over a database (watch.c) ------------------------------------------------------ */

/* Asks a journal in a database once a second how it is, so that nobody else has to wait for that: `/readyz` says
 * `journal_failed` while it does not answer; appends and deliveries try all the same. Nothing for a journal on the disk.
 * Threads: owner. */
enum daybook_code dbk_watch_start(struct dbk_service *service, struct daybook_error *err);
/* Waits for a question that is under way. Threads: owner. */
void dbk_watch_stop(struct dbk_service *service);

/* ---- appends --------------------------------------------------------------------------------- */

/* When a request began, with regard to the end of admission. */
enum dbk_begun { DBK_BEGUN_BEFORE, DBK_BEGUN_AFTER };

/* For a request that begins now. */
enum dbk_begun dbk_service_begun(struct dbk_service *service);

/* Takes a place for one append: OK, then dbk_append_submit must follow; else DRAINING or BACKEND.
 * `begun`: what dbk_service_begun said when the request began. */
enum daybook_code dbk_append_reserve(struct dbk_service *service, enum dbk_begun begun);
/* Hands the append to the engine; `wake` is called for its waiter exactly once, perhaps before this
 * returns. `append` belongs to the service until dbk_append_take. */
void dbk_append_submit(struct dbk_service *service, struct dbk_append *append);
/* After the wake: whether the results are there. If not, it timed out. */
bool dbk_append_is_done(const struct dbk_append *append);
/* Ends the waiter's part, after the wake. Results that are there: the append is the caller's, to be
 * freed with dbk_append_free. False: the engine still has it, and it must not be touched again. */
bool dbk_append_take(struct dbk_service *service, struct dbk_append *append);
void dbk_append_free(struct dbk_append *append);

/* ---- reading --------------------------------------------------------------------------------- */

/* The open journal, to be given back soon; NULL: none. */
struct daybook_journal *dbk_service_borrow(struct dbk_service *service);
void dbk_service_return(struct dbk_service *service);
/* Figures of the open journal, or the last known ones of one that failed. False: none yet. */
bool dbk_service_stats(struct dbk_service *service, struct daybook_journal_stats *ret);
unsigned dbk_service_in_flight(struct dbk_service *service);

#endif
