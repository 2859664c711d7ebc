/* SPDX-License-Identifier: Apache-2.0 */
/* The readable side of the daemon. */
#include "daemon/admin.h"

#include <stdlib.h>
#include <string.h>

#include "app/listing.h"
#include "app/metrics.h"
#include "base/error.h"

#define READS_FAIL_US INT64_C(10000000) /* so long after the last one that failed */
#define LISTING_ROUNDS_MAX 64 /* reads of one request that find nothing of the kind asked for */

/* ---- consumers ------------------------------------------------------------------------------- */

/* Every consumer that is configured or registered, with its figures. */
struct consumer_view {
    struct daybook_consumer_stats stats;
    struct dbk_delivery_consumer *delivery; /* NULL: not run here */
};

struct view {
    struct consumer_view consumers[2 * DAYBOOK_CONSUMERS_MAX];
    size_t count;
};

static void add_consumer(struct view *view, const char *name,
                         struct dbk_delivery_consumer *delivery)
{
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(view->consumers[i].stats.name, name) == 0) {
            return;
        }
    }
    struct consumer_view *c = &view->consumers[view->count++];
    *c = (struct consumer_view){.delivery = delivery};
    (void)snprintf(c->stats.name, sizeof c->stats.name, "%s", name);
    c->stats.oldest_pending_age_us = -1;
    c->stats.oldest_unresolved_age_us = -1;
    c->stats.last_claim_at_us = DAYBOOK_TIME_UNSET;
}

/* NULL: no memory. Released with free. */
static struct view *look(struct dbk_service *service)
{
    struct view *view = calloc(1, sizeof *view);
    if (view == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < service->delivery->consumer_count; i++) {
        struct dbk_delivery_consumer *consumer = &service->delivery->consumers[i];
        add_consumer(view, consumer->config->name, consumer);
    }
    struct daybook_journal *journal = dbk_service_borrow(service);
    if (journal == NULL) {
        return view;
    }
    char names[DAYBOOK_CONSUMERS_MAX][DAYBOOK_CONSUMER_NAME_MAX + 1];
    size_t registered = 0;
    if (daybook_journal_consumers(journal, names, DAYBOOK_CONSUMERS_MAX, &registered, NULL) ==
        DAYBOOK_OK) {
        for (size_t i = 0; i < registered; i++) {
            add_consumer(view, names[i], NULL);
        }
    }
    int64_t now = dbk_service_now(service);
    for (size_t i = 0; i < view->count; i++) {
        struct daybook_consumer_stats stats;
        if (daybook_journal_consumer_stats(journal, view->consumers[i].stats.name, now, &stats,
                                           NULL) == DAYBOOK_OK) {
            view->consumers[i].stats = stats;
        }
    }
    dbk_service_return(service);
    return view;
}

static void write_destination(struct dbk_text *text, struct dbk_delivery_sink *sink)
{
    struct dbk_sink_status status = dbk_delivery_sink_status(sink);
    dbk_text_printf(text, "{\"name\":\"%s\",\"kind\":\"%s\",\"up\":%s,\"braked\":%s,\"reason\":",
                    sink->config->name, dbk_sink_kind_name(sink->config->kind),
                    status.up ? "true" : "false", status.braked ? "true" : "false");
    if (status.reason[0] != '\0') {
        dbk_text_json_str(text, status.reason);
    } else {
        dbk_text_str(text, "null");
    }
    dbk_text_str(text, ",\"since\":");
    dbk_text_json_time(text, status.since_us != 0 ? status.since_us : DAYBOOK_TIME_UNSET);
    dbk_text_char(text, '}');
}

static void write_advisory(struct dbk_text *text, struct dbk_delivery_advisory *advisory)
{
    const struct dbk_advisory_counters *c = &advisory->counters;
    dbk_text_printf(text,
                    "{\"name\":\"%s\",\"kind\":\"%s\",\"up\":%s,\"accepted\":%llu,"
                    "\"failed\":%llu,\"dropped\":%llu}",
                    advisory->config->name, dbk_sink_kind_name(advisory->config->kind),
                    dbk_delivery_advisory_status(advisory).up ? "true" : "false",
                    (unsigned long long)c->accepted, (unsigned long long)c->failed,
                    (unsigned long long)c->dropped);
}

static void write_consumer(struct dbk_text *text, const struct consumer_view *c)
{
    bool running = c->delivery != NULL && c->delivery->running;
    dbk_text_printf(text, "{\"name\":\"%s\",\"running\":%s,", c->stats.name,
                    running ? "true" : "false");
    dbk_consumer_json(text, &c->stats);
    dbk_text_str(text, ",\"destinations\":[");
    for (size_t k = 0; c->delivery != NULL && k < c->delivery->sink_count; k++) {
        dbk_text_str(text, k > 0 ? "," : "");
        write_destination(text, &c->delivery->sinks[k]);
    }
    dbk_text_str(text, "],\"advisory\":[");
    for (size_t k = 0; c->delivery != NULL && k < c->delivery->advisory_count; k++) {
        dbk_text_str(text, k > 0 ? "," : "");
        write_advisory(text, &c->delivery->advisory[k]);
    }
    dbk_text_str(text, "]}");
}

static void write_consumers(struct dbk_text *text, const struct view *view)
{
    dbk_text_char(text, '[');
    for (size_t i = 0; i < view->count; i++) {
        dbk_text_str(text, i > 0 ? "," : "");
        write_consumer(text, &view->consumers[i]);
    }
    dbk_text_char(text, ']');
}

static void begin_json(struct dbk_answer *answer)
{
    answer->status = 200;
    answer->content_type = DBK_TYPE_JSON;
}

static void answer_no_memory(struct dbk_answer *answer)
{
    dbk_answer_problem(answer, 503, "no_memory", "no memory for the answer: try again");
    answer->retry_after_s = 1;
}

void dbk_admin_consumers(struct dbk_service *service, struct dbk_answer *answer)
{
    struct view *view = look(service);
    if (view == NULL) {
        answer_no_memory(answer);
        return;
    }
    begin_json(answer);
    dbk_text_str(&answer->body, "{\"consumers\":");
    write_consumers(&answer->body, view);
    dbk_text_str(&answer->body, "}\n");
    free(view);
}

void dbk_admin_consumer(struct dbk_service *service, const char *name, struct dbk_answer *answer)
{
    struct view *view = look(service);
    if (view == NULL) {
        answer_no_memory(answer);
        return;
    }
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(view->consumers[i].stats.name, name) == 0) {
            begin_json(answer);
            write_consumer(&answer->body, &view->consumers[i]);
            dbk_text_char(&answer->body, '\n');
        }
    }
    if (answer->status == 0) {
        dbk_answer_problem(answer, 404, "not_found",
                           "no such consumer is configured or registered: see /v1/consumers");
    }
    free(view);
}

void dbk_admin_stats(struct dbk_service *service, struct dbk_answer *answer)
{
    struct view *view = look(service);
    if (view == NULL) {
        answer_no_memory(answer);
        return;
    }
    struct daybook_journal_stats stats = {0};
    bool known = dbk_service_stats(service, &stats);
    const char *ready = dbk_service_readiness(service);
    const char *state =
        strcmp(ready, "starting") == 0 || !known                                        ? "starting"
        : strcmp(ready, "journal_failed") == 0 || stats.state == DAYBOOK_JOURNAL_FAILED ? "failed"
                                                                                        : "open";
    begin_json(answer);
    dbk_text_printf(&answer->body,
                    "{\"version\":\"%s\",\"repaired\":%s,\"journal\":", daybook_version(),
                    service->repaired ? "true" : "false");
    dbk_journal_json(&answer->body, &stats, state);
    dbk_text_str(&answer->body, ",\"consumers\":");
    write_consumers(&answer->body, view);
    dbk_text_str(&answer->body, "}\n");
    free(view);
}

void dbk_admin_metrics(struct dbk_service *service, struct dbk_answer *answer)
{
    struct view *view = look(service);
    struct dbk_metrics_consumer *consumers = calloc(2 * DAYBOOK_CONSUMERS_MAX, sizeof *consumers);
    if (view == NULL || consumers == NULL) {
        answer_no_memory(answer);
        goto out;
    }
    for (size_t i = 0; i < view->count; i++) {
        struct dbk_delivery_consumer *delivery = view->consumers[i].delivery;
        consumers[i].stats = view->consumers[i].stats;
        consumers[i].running = delivery != NULL && delivery->running;
        consumers[i].counters = delivery != NULL ? &delivery->counters : NULL;
        consumers[i].sink_count = delivery != NULL ? delivery->sink_count : 0;
        consumers[i].advisory_count = delivery != NULL ? delivery->advisory_count : 0;
        for (size_t k = 0; k < consumers[i].advisory_count; k++) {
            consumers[i].advisory[k] = (struct dbk_metrics_advisory){
                .name = delivery->advisory[k].config->name,
                .up = dbk_delivery_advisory_status(&delivery->advisory[k]).up,
                .counters = &delivery->advisory[k].counters};
        }
        for (size_t k = 0; k < consumers[i].sink_count; k++) {
            struct dbk_sink_status status = dbk_delivery_sink_status(&delivery->sinks[k]);
            consumers[i].sinks[k] = (struct dbk_metrics_sink){
                .name = delivery->sinks[k].config->name,
                .up = status.up,
                .braked = status.braked,
                .counters = &delivery->sinks[k].counters,
            };
        }
    }
    struct daybook_journal_stats stats = {0};
    bool known = dbk_service_stats(service, &stats);
    struct dbk_metrics_page page = {
        .journal = known ? &stats : NULL,
        .appends = &service->appends,
        .http = &service->http,
        .appends_in_flight = dbk_service_in_flight(service),
        .repaired = service->repaired,
        .consumers = consumers,
        .consumer_count = view->count,
    };
    answer->status = 200;
    answer->content_type = DBK_TYPE_METRICS;
    dbk_metrics_write(&answer->body, &page);
out:
    free(consumers);
    free(view);
}

/* ---- stored events --------------------------------------------------------------------------- */

bool dbk_number_parse(const char *text, uint64_t *ret)
{
    size_t len = strlen(text);
    if (len == 0 || len > 19 || strspn(text, "0123456789") != len) {
        return false;
    }
    *ret = strtoull(text, NULL, 10);
    return true;
}

enum daybook_code dbk_listing_parse(const char *after, const char *limit, const char *where,
                                    struct dbk_listing *ret, struct daybook_error *err)
{
    uint64_t count = DBK_LISTING_EVENTS_DEFAULT;
    *ret = (struct dbk_listing){.where = DAYBOOK_WHERE_ALL};
    if (after != NULL && !dbk_number_parse(after, &ret->after)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "after is no position: write digits alone");
    }
    if (limit != NULL && (!dbk_number_parse(limit, &count) || count == 0)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "limit is no number from 1 to %u",
                        DAYBOOK_CLAIM_EVENTS_MAX);
    }
    if (where != NULL && !dbk_where_parse(where, &ret->where)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "where is none of all, pending, quarantined");
    }
    ret->limit = (uint32_t)(count < DAYBOOK_CLAIM_EVENTS_MAX ? count : DAYBOOK_CLAIM_EVENTS_MAX);
    return DAYBOOK_OK;
}

static enum daybook_code read_events(struct dbk_service *service, struct daybook_journal *journal,
                                     const struct dbk_listing *listing, struct dbk_answer *answer,
                                     struct daybook_error *err)
{
    struct daybook_batch *batch = NULL;
    enum daybook_code code =
        daybook_batch_new(listing->limit, DBK_LISTING_BYTES_MAX,
                          (uint32_t)service->config->max_event_bytes, &batch, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    uint64_t after = listing->after;
    int rounds = 0;
    do {
        code = daybook_journal_read(journal, after, listing->where, batch, &after, NULL, err);
    } while (code == DAYBOOK_OK && batch->count == 0 && batch->more &&
             ++rounds < LISTING_ROUNDS_MAX);
    for (size_t i = 0; code == DAYBOOK_OK && i < batch->count; i++) {
        dbk_event_line(&answer->body, &batch->deliveries[i]);
    }
    answer->last_position = after;
    answer->more = batch->more;
    daybook_batch_free(batch);
    return code;
}

void dbk_admin_events(struct dbk_service *service, const struct dbk_listing *listing,
                      struct dbk_answer *answer)
{
    struct daybook_error err = {0};
    struct daybook_journal *journal = dbk_service_borrow(service);
    if (journal == NULL) {
        dbk_answer_problem(answer, 503, "backend", "no journal is open: see /readyz, then repeat");
        answer->retry_after_s = 1;
        return;
    }
    enum daybook_code code = read_events(service, journal, listing, answer, &err);
    dbk_service_return(service);
    if (code != DAYBOOK_OK) {
        dbk_answer_release(answer);
        dbk_answer_problem(answer, 503, daybook_code_name(code), err.message);
        answer->retry_after_s = 1;
        return;
    }
    answer->status = 200;
    answer->content_type = DBK_TYPE_NDJSON;
    answer->listing = true;
}

/* C7: a read that fails is no verdict, but it is no health either. */
static bool reads_fail(struct dbk_service *service)
{
    struct daybook_journal_stats stats = {.read_error_at_us = DAYBOOK_TIME_UNSET};
    /* A database is asked by the watch alone. */
    return service->config->backend == DBK_BACKEND_LOG && dbk_service_stats(service, &stats) &&
           stats.read_error_at_us != DAYBOOK_TIME_UNSET &&
           dbk_service_now(service) - stats.read_error_at_us < READS_FAIL_US;
}

bool dbk_admin_figures(struct dbk_service *service, const struct dbk_target *target,
                       struct dbk_answer *answer)
{
    if (target->route == DBK_ROUTE_STATS) {
        dbk_admin_stats(service, answer);
    } else if (target->route == DBK_ROUTE_CONSUMERS) {
        dbk_admin_consumers(service, answer);
    } else if (target->route == DBK_ROUTE_CONSUMER) {
        dbk_admin_consumer(service, target->consumer, answer);
    } else if (target->route == DBK_ROUTE_METRICS) {
        dbk_admin_metrics(service, answer);
    } else {
        return false;
    }
    return true;
}

void dbk_admin_ready(struct dbk_service *service, struct dbk_answer *answer)
{
    const char *word = dbk_service_readiness(service);
    bool ready = strcmp(word, "ready") == 0;
    if (ready && reads_fail(service)) {
        dbk_answer_problem(answer, 503, "read_errors",
                           "stored events cannot be read from the disk: their callers' events wait "
                           "and are tried again; look at the disk");
        answer->retry_after_s = 1;
        return;
    }
    if (ready) {
        begin_json(answer);
        dbk_text_str(&answer->body, "{\"status\":\"ready\"}\n");
        return;
    }
    const char *detail =
        strcmp(word, "draining") == 0 ? "the daemon is stopping"
        : strcmp(word, "starting") == 0
            ? "the journal is being opened"
            : "the journal failed, or its database does not answer: it is tried on";
    dbk_answer_problem(answer, 503, word, detail);
    answer->retry_after_s = 1;
}
