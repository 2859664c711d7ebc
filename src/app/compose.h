/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composition: from a configuration to an open journal with registered consumers and running workers.
 * The one room that knows every engine and every destination.
 *
 * What outlives a worker (counters, whether a destination answers) stands in `struct dbk_delivery`,
 * which is made once and kept while workers come and go around a reopened journal (A7).
 */
#ifndef DBK_APP_COMPOSE_H
#define DBK_APP_COMPOSE_H

#include "app/config.h"
#include "app/metrics.h"
#include "base/thread.h"

#define DBK_CONFIG_DSN_MAX 4096u

struct dbk_sink_status {
    bool up;
    bool braked;      /* W6b; `reason` says why */
    char reason[384]; /* empty: none */
    int64_t since_us;
};

struct dbk_delivery_sink {
    const struct dbk_config_sink *config;
    struct dbk_sink_counters counters;
    struct dbk_mutex lock; /* guards status */
    struct dbk_sink_status status;
};

/* An advisory destination (W9). */
struct dbk_delivery_advisory {
    const struct dbk_config_sink *config;
    struct dbk_advisory_counters counters;
    struct dbk_mutex lock; /* guards what follows */
    struct dbk_sink_status status;
    int64_t drops_told_us; /* 0: never */
    uint64_t drops_untold;
};

struct dbk_delivery;

struct dbk_delivery_consumer {
    struct dbk_delivery *delivery;
    const struct dbk_config_consumer *config;
    struct dbk_consumer_counters counters;
    struct dbk_mutex lock; /* the worker stays while it is held */
    struct daybook_worker
        *worker; /* NULL: not running. Set by the owner's thread, under the lock */
    _Atomic bool running;
    size_t sink_count;
    struct dbk_delivery_sink sinks[DAYBOOK_WORKER_SINKS_MAX];
    size_t advisory_count;
    struct dbk_delivery_advisory advisory[DAYBOOK_WORKER_SINKS_MAX];
};

struct dbk_delivery {
    const struct dbk_config *config;
    int64_t (*now_us)(void *user);
    void (*troubled)(void *user); /* a claim or a verdict failed: look at the journal. Any thread */
    void *user;
    size_t consumer_count;
    struct dbk_delivery_consumer consumers[DAYBOOK_CONSUMERS_MAX];
};

/* What became of a consumer at the end. */
struct dbk_delivery_report {
    const char *consumer;
    bool ran; /* no: there was no worker to stop (the journal was not open), and `report` is zero */
    struct daybook_drain_report report;
};

/* Opens the journal that the configuration names. `existing_only`: where there is none, none is made (NOT_FOUND; the
 * log engine). */
enum daybook_code dbk_compose_journal(const struct dbk_config *config, bool existing_only,
                                      int64_t now_us, struct daybook_journal **ret_journal,
                                      struct daybook_error *err);
/* The options of the log engine in the configuration; `ret` borrows from it. */
void dbk_compose_log_options(const struct dbk_config *config, int64_t now_us,
                             struct daybook_log_options *ret);

/* The connection string, which is a secret: it goes to the engine and nowhere else. */
struct dbk_dsn {
    char text[DBK_CONFIG_DSN_MAX];
};
/* The options of the PostgreSQL engine; `ret` borrows from the configuration and from `dsn`, which is read from the
 * environment now. `dsn_env`: another variable than the configuration's, or NULL. Returns OK; BAD_CONFIG: the variable is not
 * set, or too long. */
enum daybook_code dbk_compose_postgres_options(const struct dbk_config *config, const char *dsn_env,
                                               struct dbk_dsn *dsn,
                                               struct daybook_postgres_options *ret,
                                               struct daybook_error *err);
void dbk_dsn_wipe(struct dbk_dsn *dsn);

/* Registers every configured consumer by an empty claim (C1b). */
enum daybook_code dbk_compose_register(struct daybook_journal *journal,
                                       const struct dbk_config *config, int64_t now_us,
                                       struct daybook_error *err);

/* *ret: owned, release with dbk_delivery_free. `config` is borrowed. */
enum daybook_code dbk_delivery_new(const struct dbk_config *config, int64_t (*now_us)(void *user),
                                   void (*troubled)(void *user), void *user,
                                   struct dbk_delivery **ret, struct daybook_error *err);
/* No worker runs any more. */
void dbk_delivery_free(struct dbk_delivery *delivery);

/* Opens the destinations, makes the workers and starts them; on failure none is left running. A
 * destination that does not answer now is a warning; one that cannot work as configured is an error.
 * Threads: owner. */
enum daybook_code dbk_delivery_start(struct dbk_delivery *delivery, struct daybook_journal *journal,
                                     struct daybook_error *err);
/* Stops them within the budget (T1, T8). `ret_reports`: one for each consumer. Returns how many had to
 * be abandoned. Threads: owner. */
size_t dbk_delivery_stop(struct dbk_delivery *delivery, uint32_t budget_ms,
                         struct dbk_delivery_report *ret_reports);

/* Lets the brakes of the consumer's worker go (W6b). False: it is not running. Threads: any. */
bool dbk_delivery_lift_brakes(struct dbk_delivery_consumer *consumer);

/* Opens every destination of the configuration and asks whether it answers; nothing is sent. `each` is told
 * of every one, `err->code` OK or what it said. */
void dbk_compose_check(const struct dbk_config *config,
                       void (*each)(void *user, const struct dbk_config_consumer *consumer,
                                    const struct dbk_config_sink *sink,
                                    const struct daybook_error *err),
                       void *user);

struct dbk_sink_status dbk_delivery_sink_status(struct dbk_delivery_sink *sink);
struct dbk_sink_status dbk_delivery_advisory_status(struct dbk_delivery_advisory *advisory);

#endif
