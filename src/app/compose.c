/* SPDX-License-Identifier: Apache-2.0 */
/* The composition of compose.h. */
#include "app/compose.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <daybook/file.h>
#include <daybook/log.h>
#include <daybook/sqlite.h>

#include "app/logline.h"
#include "app/mend.h"
#include "base/assert.h"
#include "base/error.h"

#define CHECK_BUDGET_US 500000 /* a destination that answers at the start does so within it */
#define CHECK_ALONE_BUDGET_US 5000000 /* where nobody waits for a start */
#define NAMED_BYTES_MAX 160
#define CONNECT_TIMEOUT_MS 5000u /* a database that does not answer holds nobody longer */
#define STATEMENT_LEAST_MS 5000  /* reclaiming and pruning take steps of up to a second */
#define DROPS_LINE_US 60000000 /* between two lines about events that an advisory was not told of */

/* ---- journal --------------------------------------------------------------------------------- */

static struct daybook_capacity capacity_of(const struct dbk_config *config)
{
    return (struct daybook_capacity){
        .events_max = config->max_events,
        /* Zero would be the default; keeping nothing is a negative number. */
        .retain_acknowledged_us =
            config->retain_acknowledged_ms == 0 ? -1 : config->retain_acknowledged_ms * 1000,
        .delivery_attempts_max = (uint32_t)config->max_delivery_attempts,
        .policy = (enum daybook_capacity_policy)config->capacity_policy,
        .events = dbk_config_event_limits(config),
    };
}

void dbk_compose_log_options(const struct dbk_config *config, int64_t now_us,
                             struct daybook_log_options *ret)
{
    *ret = (struct daybook_log_options){
        .path = config->journal_path,
        .capacity = capacity_of(config),
        .bytes_max = config->max_bytes,
        .free_disk_min = config->min_free_disk,
        .tail = (enum daybook_tail_policy)config->tail,
        .threads = DAYBOOK_LOG_THREADED,
        .now_us = now_us,
    };
}

void dbk_dsn_wipe(struct dbk_dsn *dsn)
{
    explicit_bzero(dsn, sizeof *dsn);
}

static enum daybook_code read_dsn(const struct dbk_config *config, const char *dsn_env,
                                  struct dbk_dsn *ret, struct daybook_error *err)
{
    const char *name = dsn_env != NULL ? dsn_env : config->dsn_env;

    if (name[0] == '\0') {
        (void)snprintf(ret->text, sizeof ret->text, "service=%s", config->service);
        return DAYBOOK_OK;
    }
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the environment variable %.100s is not set: it has to hold the connection "
                        "string of the journal",
                        name);
    }
    if (strlen(value) >= sizeof ret->text) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "the environment variable %.100s holds more than %u bytes: is it a "
                        "connection string?",
                        name, DBK_CONFIG_DSN_MAX - 1);
    }
    memcpy(ret->text, value, strlen(value) + 1);
    return DAYBOOK_OK;
}

enum daybook_code dbk_compose_postgres_options(const struct dbk_config *config, const char *dsn_env,
                                               struct dbk_dsn *dsn,
                                               struct daybook_postgres_options *ret,
                                               struct daybook_error *err)
{
    uint32_t quarter = config->connections < 4 ? 1 : (uint32_t)config->connections / 4;
    int64_t statement_ms = config->operation_timeout_ms < STATEMENT_LEAST_MS
                               ? STATEMENT_LEAST_MS
                               : config->operation_timeout_ms;
    enum daybook_code code = read_dsn(config, dsn_env, dsn, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    *ret = (struct daybook_postgres_options){
        .dsn = dsn->text,
        .schema = config->schema,
        .create = config->create_schema ? DAYBOOK_POSTGRES_CREATE_YES : DAYBOOK_POSTGRES_CREATE_NO,
        .capacity = capacity_of(config),
        .clock = DAYBOOK_POSTGRES_CLOCK_STORE,
        .append_connections = quarter,
        .delivery_connections = (uint32_t)config->connections - 2 * quarter,
        .query_connections = quarter,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .statement_timeout_ms = (uint32_t)statement_ms,
        .lock_timeout_ms = (uint32_t)statement_ms,
    };
    return DAYBOOK_OK;
}

static enum daybook_code open_postgres(const struct dbk_config *config,
                                       struct daybook_journal **ret_journal,
                                       struct daybook_error *err)
{
    struct daybook_postgres_options options;
    struct dbk_dsn dsn;
    enum daybook_code code = dbk_compose_postgres_options(config, NULL, &dsn, &options, err);

    if (code == DAYBOOK_OK) {
        code = daybook_postgres_open(&options, ret_journal, err);
    }
    dbk_dsn_wipe(&dsn);
    return code;
}

enum daybook_code dbk_compose_journal(const struct dbk_config *config, bool existing_only,
                                      int64_t now_us, struct daybook_journal **ret_journal,
                                      struct daybook_error *err)
{
    struct daybook_log_options options;
    struct daybook_error why = {0};

    if (config->backend == DBK_BACKEND_POSTGRES) {
        return open_postgres(config, ret_journal, err);
    }
    dbk_compose_log_options(config, now_us, &options);
    options.existing_only = existing_only;
    enum daybook_code code = daybook_log_open(&options, ret_journal, &why);
    if (code == DAYBOOK_DAMAGED && config->damage == DBK_DAMAGE_REPAIR) {
        code = dbk_mend_journal(config, why.message, err);
        return code == DAYBOOK_OK ? daybook_log_open(&options, ret_journal, err) : code;
    }
    if (code != DAYBOOK_OK && err != NULL) {
        *err = why;
    }
    return code;
}

enum daybook_code dbk_compose_register(struct daybook_journal *journal,
                                       const struct dbk_config *config, int64_t now_us,
                                       struct daybook_error *err)
{
    struct daybook_batch *batch = NULL;
    enum daybook_code code =
        daybook_batch_new(1, 1, (uint32_t)config->max_event_bytes, &batch, err);
    for (size_t i = 0; i < config->consumer_count && code == DAYBOOK_OK; i++) {
        struct daybook_claim claim = {.consumer = config->consumers[i].name,
                                      .lease_ms = (uint32_t)config->consumers[i].lease_ms,
                                      .start = config->consumers[i].start};
        code = daybook_journal_claim(journal, &claim, now_us, DAYBOOK_NO_DEADLINE, batch, err);
    }
    daybook_batch_free(batch);
    return code;
}

/* ---- what workers tell ----------------------------------------------------------------------- */

/* Under its lock. */
static void put_status(struct dbk_sink_status *status, bool up, const char *reason, int64_t now_us)
{
    if (status->up != up || status->since_us == 0) {
        status->since_us = now_us;
    }
    status->up = up;
    (void)snprintf(status->reason, sizeof status->reason, "%s", reason != NULL ? reason : "");
}

static void set_status(struct dbk_delivery_sink *sink, bool up, const char *reason, int64_t now_us)
{
    dbk_mutex_lock(&sink->lock);
    put_status(&sink->status, up, reason, now_us);
    sink->status.braked = false;
    dbk_mutex_unlock(&sink->lock);
}

static struct dbk_sink_status status_of(struct dbk_mutex *lock,
                                        const struct dbk_sink_status *status)
{
    dbk_mutex_lock(lock);
    struct dbk_sink_status copy = *status;
    dbk_mutex_unlock(lock);
    return copy;
}

struct dbk_sink_status dbk_delivery_sink_status(struct dbk_delivery_sink *sink)
{
    return status_of(&sink->lock, &sink->status);
}

struct dbk_sink_status dbk_delivery_advisory_status(struct dbk_delivery_advisory *advisory)
{
    return status_of(&advisory->lock, &advisory->status);
}

static struct dbk_delivery_sink *find_sink(struct dbk_delivery_consumer *consumer,
                                           const struct daybook_sink *sink)
{
    for (size_t i = 0; sink != NULL && i < consumer->sink_count; i++) {
        if (strcmp(consumer->sinks[i].config->name, sink->name) == 0) {
            return &consumer->sinks[i];
        }
    }
    return NULL;
}

static enum dbk_write_outcome write_outcome(const struct daybook_worker_event *event)
{
    switch (event->outcome) {
    case DAYBOOK_ANSWER_ACCEPTED:
        return DBK_WRITE_ACCEPTED;
    case DAYBOOK_ANSWER_REFUSED:
        return DBK_WRITE_REFUSED;
    case DAYBOOK_ANSWER_REJECTED:
        return DBK_WRITE_REJECTED;
    case DAYBOOK_ANSWER_UNAVAILABLE:
        break;
    }
    return event->effect == DAYBOOK_EFFECT_UNKNOWN ? DBK_WRITE_UNKNOWN : DBK_WRITE_UNAVAILABLE;
}

static void log_trouble(struct dbk_delivery_consumer *consumer, const char *message,
                        const struct daybook_worker_event *event)
{
    dbk_log(DBK_LOG_WARNING, message, DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
            DBK_LOG_TEXT_FIELD("code", daybook_code_name(event->code)),
            DBK_LOG_TEXT_FIELD("reason", event->message != NULL ? event->message : ""));
    consumer->delivery->troubled(consumer->delivery->user);
}

static void note_destination(struct dbk_delivery_consumer *consumer, struct dbk_delivery_sink *sink,
                             const struct daybook_worker_event *event)
{
    bool up = event->kind == DAYBOOK_WORKER_DESTINATION_UP;
    const char *reason = event->message != NULL ? event->message : "";
    set_status(sink, up, up ? NULL : reason, consumer->delivery->now_us(consumer->delivery->user));
    if (up) {
        dbk_log(DBK_LOG_INFO, "destination answers",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", sink->config->name));
    } else {
        dbk_log(DBK_LOG_WARNING, "destination unavailable",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", sink->config->name),
                DBK_LOG_TEXT_FIELD("reason", reason));
    }
}

static void note_brake(struct dbk_delivery_consumer *consumer, struct dbk_delivery_sink *sink,
                       const struct daybook_worker_event *event)
{
    bool braked = event->kind == DAYBOOK_WORKER_BRAKED;
    set_status(sink, true, event->message, consumer->delivery->now_us(consumer->delivery->user));
    dbk_mutex_lock(&sink->lock);
    sink->status.braked = braked;
    dbk_mutex_unlock(&sink->lock);
    dbk_log(braked ? DBK_LOG_WARNING : DBK_LOG_INFO,
            braked ? "destination refuses whatever is new: nothing is quarantined for it"
                   : "destination accepts again",
            DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
            DBK_LOG_TEXT_FIELD("sink", sink->config->name),
            DBK_LOG_TEXT_FIELD("reason", event->message != NULL ? event->message : ""));
}

static void note_quarantined(struct dbk_delivery_consumer *consumer, struct dbk_delivery_sink *sink,
                             const struct daybook_worker_event *event)
{
    dbk_log(DBK_LOG_WARNING, "event quarantined as rejected",
            DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
            DBK_LOG_TEXT_FIELD("sink", sink->config->name),
            DBK_LOG_TEXT_FIELD("reason", event->message != NULL ? event->message : ""));
}

/* What a destination said of rows that it did not take: the one place where its words are seen before
 * anything is set aside. */
static void note_refusal(struct dbk_delivery_consumer *consumer, struct dbk_delivery_sink *sink,
                         const struct daybook_worker_event *event)
{
    if (event->outcome != DAYBOOK_ANSWER_REJECTED && event->outcome != DAYBOOK_ANSWER_REFUSED) {
        return;
    }
    dbk_log(DBK_LOG_WARNING,
            event->outcome == DAYBOOK_ANSWER_REJECTED ? "destination rejected a row"
                                                      : "destination refused a write",
            DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
            DBK_LOG_TEXT_FIELD("sink", sink->config->name),
            DBK_LOG_TEXT_FIELD("reason", event->message != NULL ? event->message : ""));
}

/* L2. Every worker sees the same ones: the first of the configuration speaks for all. */
static void note_other_consumers(const struct dbk_delivery_consumer *consumer,
                                 const struct daybook_worker_event *event)
{
    if (consumer == &consumer->delivery->consumers[0]) {
        dbk_log(DBK_LOG_WARNING,
                "consumers are registered that this daemon does not run; what they have not seen "
                "is kept",
                DBK_LOG_NUMBER("count", event->count),
                DBK_LOG_TEXT_FIELD("names", event->message != NULL ? event->message : ""));
    }
}

/* ---- what advisory destinations tell (W9) ---------------------------------------------------- */

static struct dbk_delivery_advisory *find_advisory(struct dbk_delivery_consumer *consumer,
                                                   const struct daybook_sink *sink)
{
    for (size_t i = 0; sink != NULL && i < consumer->advisory_count; i++) {
        if (strcmp(consumer->advisory[i].config->name, sink->name) == 0) {
            return &consumer->advisory[i];
        }
    }
    return NULL;
}

/* A line when it begins to fail, and when it takes everything again. */
static void note_advised(struct dbk_delivery_consumer *consumer, struct dbk_delivery_advisory *a,
                         const struct daybook_worker_event *event)
{
    bool up = event->missed == 0;
    int64_t now_us = consumer->delivery->now_us(consumer->delivery->user);
    atomic_fetch_add(&a->counters.accepted, event->count);
    atomic_fetch_add(&a->counters.failed, event->missed);
    dbk_mutex_lock(&a->lock);
    bool changed = a->status.up != up;
    put_status(&a->status, up, up ? NULL : event->message, now_us);
    dbk_mutex_unlock(&a->lock);
    if (changed && up) {
        dbk_log(DBK_LOG_INFO, "advisory destination answers",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", a->config->name));
    } else if (changed) {
        dbk_log(DBK_LOG_WARNING, "advisory destination did not take what it was told",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", a->config->name),
                DBK_LOG_TEXT_FIELD("reason", event->message),
                DBK_LOG_NUMBER("events", event->missed));
    }
}

/* At most a line a minute: a queue that is full stays so for a while. */
static void note_advisory_dropped(struct dbk_delivery_consumer *consumer,
                                  struct dbk_delivery_advisory *a, uint64_t count)
{
    int64_t now_us = consumer->delivery->now_us(consumer->delivery->user);
    uint64_t told = 0;
    atomic_fetch_add(&a->counters.dropped, count);
    dbk_mutex_lock(&a->lock);
    a->drops_untold += count;
    if (a->drops_told_us == 0 || now_us - a->drops_told_us >= DROPS_LINE_US) {
        told = a->drops_untold;
        a->drops_untold = 0;
        a->drops_told_us = now_us;
    }
    dbk_mutex_unlock(&a->lock);
    if (told > 0) {
        dbk_log(DBK_LOG_WARNING, "advisory destination is behind: it was not told of events",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", a->config->name), DBK_LOG_NUMBER("events", told));
    }
}

/* ---- notices --------------------------------------------------------------------------------- */

static void notify(void *user, const struct daybook_worker_event *event)
{
    struct dbk_delivery_consumer *consumer = user;
    struct dbk_delivery_sink *sink = find_sink(consumer, event->sink);
    struct dbk_delivery_advisory *advisory = find_advisory(consumer, event->sink);
    switch (event->kind) {
    case DAYBOOK_WORKER_CLAIM_FAILED:
        log_trouble(consumer, "claim failed", event);
        break;
    case DAYBOOK_WORKER_SETTLE_FAILED:
        log_trouble(consumer, "verdict failed", event);
        break;
    case DAYBOOK_WORKER_MAINTAIN_FAILED:
        log_trouble(consumer, "maintenance failed", event);
        break;
    case DAYBOOK_WORKER_REDELIVERED:
        atomic_fetch_add(&consumer->counters.redelivered, event->count);
        break;
    case DAYBOOK_WORKER_WRITE:
        if (sink != NULL) {
            atomic_fetch_add(&sink->counters.writes[write_outcome(event)], 1);
            atomic_fetch_add(&sink->counters.values_left_out, event->values_left_out);
            dbk_histogram_add(&sink->counters.write_us, (uint64_t)event->duration_us);
            note_refusal(consumer, sink, event);
        }
        break;
    case DAYBOOK_WORKER_CONTROL:
        if (sink != NULL) {
            atomic_fetch_add(&sink->counters.writes[DBK_WRITE_CONTROL], 1);
        }
        break;
    case DAYBOOK_WORKER_QUARANTINED:
        if (sink != NULL) {
            note_quarantined(consumer, sink, event);
        }
        break;
    case DAYBOOK_WORKER_BRAKED:
    case DAYBOOK_WORKER_BRAKE_LIFTED:
        if (sink != NULL) {
            note_brake(consumer, sink, event);
        }
        break;
    case DAYBOOK_WORKER_LANDED:
        if (sink != NULL) {
            atomic_fetch_add(&sink->counters.records_written, event->count);
        }
        break;
    case DAYBOOK_WORKER_ADVISED:
        if (advisory != NULL) {
            note_advised(consumer, advisory, event);
        }
        break;
    case DAYBOOK_WORKER_ADVISORY_DROPPED:
        if (advisory != NULL) {
            note_advisory_dropped(consumer, advisory, event->count);
        }
        break;
    case DAYBOOK_WORKER_ACKNOWLEDGED:
        atomic_fetch_add(&consumer->counters.acknowledged, event->count);
        break;
    case DAYBOOK_WORKER_FAILED:
        atomic_fetch_add(&consumer->counters.failed, event->count);
        break;
    case DAYBOOK_WORKER_DESTINATION_UP:
    case DAYBOOK_WORKER_DESTINATION_DOWN:
        if (sink != NULL) {
            note_destination(consumer, sink, event);
        }
        break;
    case DAYBOOK_WORKER_MAINTAINED:
        dbk_log(DBK_LOG_DEBUG, "maintained", DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_NUMBER("pruned", event->count));
        break;
    case DAYBOOK_WORKER_OTHER_CONSUMERS:
        note_other_consumers(consumer, event);
        break;
    }
}

static int64_t worker_now(void *user)
{
    struct dbk_delivery_consumer *consumer = user;
    return consumer->delivery->now_us(consumer->delivery->user);
}

/* ---- workers --------------------------------------------------------------------------------- */

enum daybook_code dbk_delivery_new(const struct dbk_config *config, int64_t (*now_us)(void *user),
                                   void (*troubled)(void *user), void *user,
                                   struct dbk_delivery **ret, struct daybook_error *err)
{
    struct dbk_delivery *delivery = calloc(1, sizeof *delivery);
    if (delivery == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the consumers");
    }
    delivery->config = config;
    delivery->now_us = now_us;
    delivery->troubled = troubled;
    delivery->user = user;
    delivery->consumer_count = config->consumer_count;
    for (size_t i = 0; i < config->consumer_count; i++) {
        struct dbk_delivery_consumer *consumer = &delivery->consumers[i];
        consumer->delivery = delivery;
        consumer->config = &config->consumers[i];
        dbk_mutex_init(&consumer->lock, DBK_RANK_DAEMON);
        consumer->sink_count = consumer->config->sink_count;
        for (size_t k = 0; k < consumer->sink_count; k++) {
            consumer->sinks[k].config = &consumer->config->sinks[k];
            dbk_mutex_init(&consumer->sinks[k].lock, DBK_RANK_METRICS);
        }
        consumer->advisory_count = consumer->config->advisory_count;
        for (size_t k = 0; k < consumer->advisory_count; k++) {
            consumer->advisory[k].config = &consumer->config->advisory[k];
            dbk_mutex_init(&consumer->advisory[k].lock, DBK_RANK_METRICS);
        }
    }
    *ret = delivery;
    return DAYBOOK_OK;
}

void dbk_delivery_free(struct dbk_delivery *delivery)
{
    if (delivery == NULL) {
        return;
    }
    for (size_t i = 0; i < delivery->consumer_count; i++) {
        dbk_mutex_release(&delivery->consumers[i].lock);
        for (size_t k = 0; k < delivery->consumers[i].sink_count; k++) {
            dbk_mutex_release(&delivery->consumers[i].sinks[k].lock);
        }
        for (size_t k = 0; k < delivery->consumers[i].advisory_count; k++) {
            dbk_mutex_release(&delivery->consumers[i].advisory[k].lock);
        }
    }
    free(delivery);
}

static enum daybook_code open_sink(const struct dbk_config_sink *config, struct daybook_sink **ret,
                                   struct daybook_error *err)
{
    switch ((enum dbk_sink_kind)config->kind) {
    case DBK_SINK_FILE: {
        struct daybook_file_options options = {.name = config->name,
                                               .path = config->path,
                                               .format = (enum daybook_line_format)config->format,
                                               .rotate_bytes = config->rotate_bytes,
                                               .rotate = (enum daybook_rotate)config->rotate};
        return daybook_file_open(&options, ret, err);
    }
    case DBK_SINK_STDOUT: {
        struct daybook_stdout_options options = {
            .name = config->name, .format = (enum daybook_line_format)config->format};
        dbk_log(DBK_LOG_WARNING,
                "a destination is standard output: an acknowledgement means no more than that a "
                "line was written, so its reader can lose usage",
                DBK_LOG_TEXT_FIELD("sink", config->name));
        return daybook_stdout_open(&options, ret, err);
    }
    case DBK_SINK_SQLITE:
        break;
    }
    struct daybook_sqlite_options options = {.name = config->name,
                                             .path = config->path,
                                             .table = config->table,
                                             .columns = (enum daybook_columns)config->columns};
    return daybook_sqlite_open(&options, ret, err);
}

static int64_t monotonic_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void dbk_compose_check(const struct dbk_config *config,
                       void (*each)(void *user, const struct dbk_config_consumer *consumer,
                                    const struct dbk_config_sink *sink,
                                    const struct daybook_error *err),
                       void *user)
{
    for (size_t i = 0; i < config->consumer_count; i++) {
        const struct dbk_config_consumer *consumer = &config->consumers[i];
        for (size_t k = 0; k < consumer->sink_count; k++) {
            struct daybook_sink *sink = NULL;
            struct daybook_error err = {0};
            err.code = open_sink(&consumer->sinks[k], &sink, &err);
            if (err.code == DAYBOOK_OK) {
                err.code = sink->ops->check(sink, monotonic_us() + CHECK_ALONE_BUDGET_US, &err);
                sink->ops->close(sink);
            }
            each(user, consumer, &consumer->sinks[k], &err);
        }
    }
}

/* A destination that does not answer now may do so later: that is what the journal is for. */
static enum daybook_code check_sink(struct dbk_delivery_consumer *consumer,
                                    struct daybook_sink *sink, struct dbk_mutex *lock,
                                    struct dbk_sink_status *status, struct daybook_error *err)
{
    int64_t now_us = consumer->delivery->now_us(consumer->delivery->user);
    struct daybook_error why = {0};
    enum daybook_code code = sink->ops->check(sink, monotonic_us() + CHECK_BUDGET_US, &why);
    dbk_mutex_lock(lock);
    put_status(status, code == DAYBOOK_OK, why.message, now_us);
    dbk_mutex_unlock(lock);
    if (code == DAYBOOK_BAD_CONFIG) {
        return dbk_fail(err, code, "consumer %s, destination %s: %.*s", consumer->config->name,
                        sink->name, NAMED_BYTES_MAX, why.message);
    }
    if (code != DAYBOOK_OK) {
        dbk_log(DBK_LOG_WARNING, "destination does not answer yet",
                DBK_LOG_TEXT_FIELD("consumer", consumer->config->name),
                DBK_LOG_TEXT_FIELD("sink", sink->name), DBK_LOG_TEXT_FIELD("reason", why.message));
    }
    return DAYBOOK_OK;
}

/* What a worker is started with. */
struct opened {
    struct daybook_sink *sinks[DAYBOOK_WORKER_SINKS_MAX];
    size_t sink_count;
    struct daybook_sink *advisory[DAYBOOK_WORKER_SINKS_MAX];
    size_t advisory_count;
};

static void close_opened(struct opened *opened)
{
    while (opened->sink_count > 0) {
        struct daybook_sink *sink = opened->sinks[--opened->sink_count];
        sink->ops->close(sink);
    }
    while (opened->advisory_count > 0) {
        struct daybook_sink *sink = opened->advisory[--opened->advisory_count];
        sink->ops->close(sink);
    }
}

/* Opens every destination of a consumer. On failure what was opened is the caller's to close. */
static enum daybook_code open_all(struct dbk_delivery_consumer *consumer, struct opened *ret,
                                  struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    while (ret->sink_count < consumer->sink_count && code == DAYBOOK_OK) {
        struct dbk_delivery_sink *state = &consumer->sinks[ret->sink_count];
        struct daybook_sink **sink = &ret->sinks[ret->sink_count];
        code = open_sink(state->config, sink, err);
        if (code == DAYBOOK_OK) {
            ret->sink_count++;
            code = check_sink(consumer, *sink, &state->lock, &state->status, err);
        }
    }
    while (ret->advisory_count < consumer->advisory_count && code == DAYBOOK_OK) {
        struct dbk_delivery_advisory *state = &consumer->advisory[ret->advisory_count];
        struct daybook_sink **sink = &ret->advisory[ret->advisory_count];
        code = open_sink(state->config, sink, err);
        if (code == DAYBOOK_OK) {
            ret->advisory_count++;
            code = check_sink(consumer, *sink, &state->lock, &state->status, err);
        }
    }
    return code;
}

static enum daybook_code make_worker(struct dbk_delivery_consumer *consumer,
                                     struct daybook_journal *journal, const struct opened *opened,
                                     struct daybook_worker **ret_worker, struct daybook_error *err)
{
    const struct dbk_config_consumer *c = consumer->config;
    const struct dbk_config *config = consumer->delivery->config;
    const char *known[DAYBOOK_CONSUMERS_MAX] = {NULL};
    for (size_t i = 0; i < config->consumer_count; i++) {
        known[i] = config->consumers[i].name;
    }
    struct daybook_worker_options options = {
        .consumer = c->name,
        .claim_batch = (uint32_t)c->claim_batch,
        .claim_bytes = c->claim_bytes,
        .key_run = (uint32_t)c->key_run,
        .lease_ms = (uint32_t)c->lease_ms,
        .write_timeout_ms = (uint32_t)c->write_timeout_ms,
        .poll_interval_ms = (uint32_t)c->poll_interval_ms,
        .maintain_interval_ms = (uint32_t)c->maintain_interval_ms,
        .hand_outs_max = (uint32_t)c->max_hand_outs,
        .reject_brake = (uint32_t)c->reject_brake,
        .start = c->start,
        .sinks = opened->sinks,
        .sink_count = opened->sink_count,
        .advisory = opened->advisory,
        .advisory_count = opened->advisory_count,
        .advisory_events = (uint32_t)c->advisory_events,
        .advisory_bytes = c->advisory_bytes,
        .known = known,
        .known_count = config->consumer_count,
        .now_us = worker_now,
        .notify = notify,
        .user = consumer,
    };
    return daybook_worker_new(journal, &options, ret_worker, err);
}

/* Whoever lifts brakes sees a worker that runs, or none. */
static void put_worker(struct dbk_delivery_consumer *consumer, struct daybook_worker *worker)
{
    dbk_mutex_lock(&consumer->lock);
    consumer->worker = worker;
    dbk_mutex_unlock(&consumer->lock);
    consumer->running = worker != NULL;
}

bool dbk_delivery_lift_brakes(struct dbk_delivery_consumer *consumer)
{
    dbk_mutex_lock(&consumer->lock);
    bool runs = consumer->worker != NULL;
    if (runs) {
        daybook_worker_lift_brakes(consumer->worker);
    }
    dbk_mutex_unlock(&consumer->lock);
    return runs;
}

static enum daybook_code start_worker(struct dbk_delivery_consumer *consumer,
                                      struct daybook_journal *journal, struct daybook_error *err)
{
    struct opened opened = {.sink_count = 0};
    struct daybook_worker *worker = NULL;
    enum daybook_code code = open_all(consumer, &opened, err);
    if (code == DAYBOOK_OK) {
        code = make_worker(consumer, journal, &opened, &worker, err);
    }
    if (code != DAYBOOK_OK) {
        close_opened(&opened);
        return code;
    }
    code = daybook_worker_start(worker, err);
    if (code != DAYBOOK_OK) {
        daybook_worker_free(worker);
        return code;
    }
    put_worker(consumer, worker);
    return DAYBOOK_OK;
}

enum daybook_code dbk_delivery_start(struct dbk_delivery *delivery, struct daybook_journal *journal,
                                     struct daybook_error *err)
{
    for (size_t i = 0; i < delivery->consumer_count; i++) {
        enum daybook_code code = start_worker(&delivery->consumers[i], journal, err);
        if (code != DAYBOOK_OK) {
            struct dbk_delivery_report reports[DAYBOOK_CONSUMERS_MAX];
            (void)dbk_delivery_stop(delivery, 0, reports);
            return code;
        }
    }
    return DAYBOOK_OK;
}

size_t dbk_delivery_stop(struct dbk_delivery *delivery, uint32_t budget_ms,
                         struct dbk_delivery_report *ret_reports)
{
    struct daybook_worker *workers[DAYBOOK_CONSUMERS_MAX];
    size_t consumer_of[DAYBOOK_CONSUMERS_MAX];
    struct daybook_drain_report reports[DAYBOOK_CONSUMERS_MAX];
    memset(reports, 0, sizeof reports);
    size_t count = 0;
    for (size_t i = 0; i < delivery->consumer_count; i++) {
        ret_reports[i] =
            (struct dbk_delivery_report){.consumer = delivery->config->consumers[i].name};
        if (delivery->consumers[i].worker != NULL) {
            consumer_of[count] = i;
            workers[count++] = delivery->consumers[i].worker;
        }
    }
    size_t abandoned = 0;
    if (count > 0) {
        daybook_workers_drain(workers, count, budget_ms, reports);
    }
    for (size_t w = 0; w < count; w++) {
        struct dbk_delivery_consumer *consumer = &delivery->consumers[consumer_of[w]];
        ret_reports[consumer_of[w]].report = reports[w];
        ret_reports[consumer_of[w]].ran = true;
        abandoned += reports[w].reported ? 0 : 1;
        put_worker(consumer, NULL);
        daybook_worker_free(workers[w]);
    }
    return abandoned;
}
