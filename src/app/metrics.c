/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, and the page of /metrics. */
#include "app/metrics.h"

#include <string.h>

#define JOURNAL "journal=\"main\"" /* one journal a daemon */

static const char *const append_names[DBK_APPEND_OUTCOMES] = {
    "accepted", "already_present", "conflict", "at_capacity", "invalid", "backend", "timed_out"};
static const char *const write_names[DBK_WRITE_OUTCOMES] = {"accepted",    "refused", "rejected",
                                                            "unavailable", "unknown", "control"};

void dbk_histogram_add(struct dbk_histogram *histogram, uint64_t value)
{
    unsigned bucket = 0;
    while (bucket < DAYBOOK_HISTOGRAM_BUCKETS - 1 && value >> bucket != 0) {
        bucket++;
    }
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->count, 1, memory_order_relaxed);
}

enum dbk_append_outcome dbk_append_outcome_of(enum daybook_code code)
{
    switch (code) {
    case DAYBOOK_OK:
        return DBK_APPEND_ACCEPTED;
    case DAYBOOK_ALREADY_PRESENT:
        return DBK_APPEND_ALREADY_PRESENT;
    case DAYBOOK_CONFLICT:
        return DBK_APPEND_CONFLICT;
    case DAYBOOK_AT_CAPACITY:
        return DBK_APPEND_AT_CAPACITY;
    case DAYBOOK_INVALID_EVENT:
    case DAYBOOK_MALFORMED_JSON:
    case DAYBOOK_TOO_LARGE:
        return DBK_APPEND_INVALID;
    case DAYBOOK_TIMED_OUT:
        return DBK_APPEND_TIMED_OUT;
    case DAYBOOK_DRAINING:
    case DAYBOOK_BACKEND:
    case DAYBOOK_NOT_OUTSTANDING:
    case DAYBOOK_QUARANTINED:
    case DAYBOOK_ALREADY_ACKNOWLEDGED:
    case DAYBOOK_NOT_FOUND:
    case DAYBOOK_BUSY:
    case DAYBOOK_NO_MEMORY:
    case DAYBOOK_DAMAGED:
    case DAYBOOK_NEWER_FORMAT:
    case DAYBOOK_BAD_CONFIG:
    case DAYBOOK_BAD_ARGUMENT:
    case DAYBOOK_CODE_COUNT:
        break;
    }
    return DBK_APPEND_BACKEND;
}

enum dbk_lost_reason dbk_lost_reason_of(enum daybook_code code)
{
    return code == DAYBOOK_AT_CAPACITY ? DBK_LOST_AT_CAPACITY
           : code == DAYBOOK_DRAINING  ? DBK_LOST_DRAINING
                                       : DBK_LOST_BACKEND;
}

static void head(struct dbk_text *text, const char *name, const char *type, const char *help)
{
    dbk_text_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(struct dbk_text *text, const char *name, const char *labels, uint64_t v)
{
    dbk_text_printf(text, "%s{%s} %llu\n", name, labels, (unsigned long long)v);
}

/* A histogram of the journal's kind. `scale`: how many units make one of the metric's. */
static void write_histogram(struct dbk_text *text, const char *name, const char *labels,
                            const struct daybook_histogram *h, double scale)
{
    uint64_t below = 0;
    for (unsigned i = 0; i + 1 < DAYBOOK_HISTOGRAM_BUCKETS; i++) {
        below += h->buckets[i];
        /* Bucket i counts whole numbers below 2^i: at most 2^i - 1. */
        double most = (double)((UINT64_C(1) << i) - 1);
        dbk_text_printf(text, "%s_bucket{%s,le=\"%.9g\"} %llu\n", name, labels, most / scale,
                        (unsigned long long)below);
    }
    below += h->buckets[DAYBOOK_HISTOGRAM_BUCKETS - 1];
    dbk_text_printf(text, "%s_bucket{%s,le=\"+Inf\"} %llu\n%s_sum{%s} %.9g\n%s_count{%s} %llu\n",
                    name, labels, (unsigned long long)below, name, labels, (double)h->sum / scale,
                    name, labels, (unsigned long long)below);
}

static struct daybook_histogram snapshot(const struct dbk_histogram *h)
{
    struct daybook_histogram s = {.count = h->count, .sum = h->sum};
    for (unsigned i = 0; i < DAYBOOK_HISTOGRAM_BUCKETS; i++) {
        s.buckets[i] = h->buckets[i];
    }
    return s;
}

/* As enum dbk_lost_reason; then what it does not have. */
enum { LOST_UNHEARD = DBK_LOST_REASONS, LOST_DROPPED, LOST_ALL };
static const char *const lost_names[LOST_ALL] = {"at_capacity", "backend", "draining", "unheard",
                                                 "dropped"};

/* M2 */
static uint64_t lost(const struct dbk_metrics_page *page, unsigned reason)
{
    if (reason == LOST_UNHEARD) {
        return page->appends->unheard;
    }
    if (reason == LOST_DROPPED) {
        return page->journal != NULL ? page->journal->dropped : 0;
    }
    return page->appends->lost[reason];
}

static void write_appends(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    char labels[96];
    head(text, "daybook_appends_total", "counter", "Events by what their append was answered.");
    for (unsigned i = 0; i < DBK_APPEND_OUTCOMES; i++) {
        (void)snprintf(labels, sizeof labels, JOURNAL ",outcome=\"%s\"", append_names[i]);
        value(text, "daybook_appends_total", labels, page->appends->outcomes[i]);
    }
    head(text, "daybook_lost_total", "counter",
         "Events that nobody has and whose producer was not told so: page on any.");
    for (unsigned i = 0; i < LOST_ALL; i++) {
        (void)snprintf(labels, sizeof labels, JOURNAL ",reason=\"%s\"", lost_names[i]);
        value(text, "daybook_lost_total", labels, lost(page, i));
    }
    head(text, "daybook_appends_in_flight", "gauge", "Requests that wait for their commit.");
    value(text, "daybook_appends_in_flight", JOURNAL, page->appends_in_flight);
    struct daybook_histogram h = snapshot(&page->appends->append_us);
    head(text, "daybook_append_seconds", "histogram",
         "From a whole request to its answer, for requests that reached the journal.");
    write_histogram(text, "daybook_append_seconds", JOURNAL, &h, 1e6);
}

static void write_http(struct dbk_text *text, const struct dbk_http_counters *http)
{
    static const char *const names[DBK_HTTP_LIMITS] = {
        "body", "bodies", "headers", "connections", "idle", "slow_request", "slow_answer"};
    head(text, "daybook_http_connections", "gauge", "Connections that are open.");
    dbk_text_printf(text, "daybook_http_connections{state=\"open\"} %llu\n",
                    (unsigned long long)http->connections);
    head(text, "daybook_http_limited_total", "counter",
         "Requests and connections that a limit of the HTTP server ended.");
    for (unsigned i = 0; i < DBK_HTTP_LIMITS; i++) {
        dbk_text_printf(text, "daybook_http_limited_total{limit=\"%s\"} %llu\n", names[i],
                        (unsigned long long)http->limited[i]);
    }
}

static void write_journal(struct dbk_text *text, const struct daybook_journal_stats *j)
{
    const struct {
        const char *name;
        const char *type;
        const char *help;
        uint64_t v;
    } plain[] = {
        {"daybook_accepted_total", "counter", "Events ever accepted (durable counter).",
         j->accepted},
        {"daybook_pruned_total", "counter", "Delivered events forgotten after their window.",
         j->pruned},
        {"daybook_reclaimed_total", "counter",
         "Delivered events given up ahead of their window for room.", j->reclaimed},
        {"daybook_dropped_total", "counter", "Undelivered events given up for room.", j->dropped},
        {"daybook_discarded_total", "counter", "Forgotten events that a consumer had discarded.",
         j->discarded},
        {"daybook_stored_events", "gauge", "Events stored.", j->stored_events},
        {"daybook_stored_bytes", "gauge", "Bytes of names and records stored.", j->stored_bytes},
        {"daybook_file_bytes", "gauge", "Real bytes of the journal's files.", j->file_bytes},
        {"daybook_capacity_events", "gauge", "Limit on stored events.", j->events_max},
        {"daybook_capacity_bytes", "gauge", "Limit on file bytes, 0 for none.", j->bytes_max},
    };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        head(text, plain[i].name, plain[i].type, plain[i].help);
        value(text, plain[i].name, JOURNAL, plain[i].v);
    }
    head(text, "daybook_dedupe_window_seconds", "gauge",
         "How far back a repeated request id is recognised.");
    dbk_text_printf(text, "daybook_dedupe_window_seconds{" JOURNAL "} %.6f\n",
                    (double)j->dedupe_window_us / 1e6);
    head(text, "daybook_undeliverable_events", "gauge", "Events stored but found damaged.");
    value(text, "daybook_undeliverable_events", JOURNAL ",reason=\"corrupt\"",
          j->undeliverable_events);
    head(text, "daybook_undeliverable_total", "counter", "Events found damaged.");
    value(text, "daybook_undeliverable_total", JOURNAL ",reason=\"corrupt\"",
          j->undeliverable_total);
    head(text, "daybook_read_errors_total", "counter",
         "Reads of stored events that failed; their keys wait and are tried again.");
    value(text, "daybook_read_errors_total", JOURNAL, j->read_errors);
    head(text, "daybook_bad_checkpoints_total", "counter",
         "Checkpoints that the opening found damaged; new ones are made.");
    value(text, "daybook_bad_checkpoints_total", JOURNAL, j->bad_checkpoints);
    head(text, "daybook_bad_indexes_total", "counter",
         "Segment indexes that the opening found damaged; they are made again.");
    value(text, "daybook_bad_indexes_total", JOURNAL, j->bad_indexes);
    head(text, "daybook_journal_failed", "gauge", "1 while the journal waits to be reopened.");
    value(text, "daybook_journal_failed", JOURNAL, j->state == DAYBOOK_JOURNAL_FAILED ? 1 : 0);
    head(text, "daybook_commit_seconds", "histogram", "Write and sync of a commit group.");
    write_histogram(text, "daybook_commit_seconds", JOURNAL, &j->commit_us, 1e6);
    head(text, "daybook_commit_batch_events", "histogram", "Events in a commit group.");
    write_histogram(text, "daybook_commit_batch_events", JOURNAL, &j->commit_batch_events, 1);
}

enum consumer_gauge {
    G_PENDING,
    G_IN_FLIGHT,
    G_QUARANTINED,
    G_HELD,
    G_HELD_BYTES,
    G_NEWER,
    G_PENDING_AGE,
    G_UNRESOLVED_AGE
};

static double gauge_of(const struct daybook_consumer_stats *s, enum consumer_gauge gauge)
{
    switch (gauge) {
    case G_PENDING:
        return (double)s->pending;
    case G_IN_FLIGHT:
        return (double)s->in_flight;
    case G_QUARANTINED:
        return (double)s->quarantined;
    case G_HELD:
        return (double)s->held_events;
    case G_HELD_BYTES:
        return (double)s->held_bytes;
    case G_NEWER:
        return (double)s->newer_version;
    case G_PENDING_AGE:
        return s->oldest_pending_age_us < 0 ? 0 : (double)s->oldest_pending_age_us / 1e6;
    case G_UNRESOLVED_AGE:
        break;
    }
    return s->oldest_unresolved_age_us < 0 ? 0 : (double)s->oldest_unresolved_age_us / 1e6;
}

static void write_quarantines(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    head(text, "daybook_quarantined_total", "counter",
         "Quarantines, since the journal was opened; what is released again is not taken off.");
    for (size_t i = 0; i < page->consumer_count; i++) {
        for (unsigned r = 0; r < DAYBOOK_QUARANTINE_REASONS; r++) {
            dbk_text_printf(
                text, "daybook_quarantined_total{" JOURNAL ",consumer=\"%s\",reason=\"%s\"} %llu\n",
                page->consumers[i].stats.name,
                daybook_quarantine_reason_name((enum daybook_quarantine_reason)(r + 1)),
                (unsigned long long)page->consumers[i].stats.quarantined_total[r]);
        }
    }
}

static void write_consumers(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    static const struct {
        const char *name;
        const char *help;
        enum consumer_gauge gauge;
    } gauges[] = {
        {"daybook_pending", "Events that wait for this consumer.", G_PENDING},
        {"daybook_in_flight", "Events under a live lease.", G_IN_FLIGHT},
        {"daybook_quarantined_events", "Events set aside.", G_QUARANTINED},
        {"daybook_held_events", "Events that the journal keeps for this consumer.", G_HELD},
        {"daybook_held_bytes", "Bytes of names and records of these.", G_HELD_BYTES},
        {"daybook_newer_version_events", "Events that only a newer build can deliver.", G_NEWER},
        {"daybook_oldest_pending_age_seconds", "Age of the oldest pending event, 0 when none.",
         G_PENDING_AGE},
        {"daybook_oldest_unresolved_age_seconds",
         "Age of the oldest event that is pending or in flight, 0 when none.", G_UNRESOLVED_AGE},
    };
    for (size_t g = 0; g < sizeof gauges / sizeof gauges[0] && page->journal != NULL; g++) {
        head(text, gauges[g].name, "gauge", gauges[g].help);
        for (size_t i = 0; i < page->consumer_count; i++) {
            dbk_text_printf(text, "%s{" JOURNAL ",consumer=\"%s\"} %.15g\n", gauges[g].name,
                            page->consumers[i].stats.name,
                            gauge_of(&page->consumers[i].stats, gauges[g].gauge));
        }
    }
    head(
        text, "daybook_consumer_running", "gauge",
        "1 while this daemon delivers for the consumer; 0: registered, and what it has not seen is "
        "kept.");
    for (size_t i = 0; i < page->consumer_count; i++) {
        dbk_text_printf(text, "daybook_consumer_running{" JOURNAL ",consumer=\"%s\"} %d\n",
                        page->consumers[i].stats.name, page->consumers[i].running ? 1 : 0);
    }
    write_quarantines(text, page);
    head(text, "daybook_deliveries_total", "counter", "Deliveries by what became of them.");
    for (size_t i = 0; i < page->consumer_count; i++) {
        const struct dbk_consumer_counters *c = page->consumers[i].counters;
        const char *name = page->consumers[i].stats.name;
        if (c != NULL) {
            dbk_text_printf(
                text,
                "daybook_deliveries_total{" JOURNAL ",consumer=\"%s\",outcome=\"acknowledged\"} "
                "%llu\ndaybook_deliveries_total{" JOURNAL
                ",consumer=\"%s\",outcome=\"failed\"} %llu\ndaybook_deliveries_total{" JOURNAL
                ",consumer=\"%s\",outcome=\"redelivered\"} %llu\n",
                name, (unsigned long long)c->acknowledged, name, (unsigned long long)c->failed,
                name, (unsigned long long)c->redelivered);
        }
    }
}

/* Calls `each` for every destination under one heading, as the format wants its lines grouped. */
static void write_each_sink(struct dbk_text *text, const struct dbk_metrics_page *page,
                            void (*each)(struct dbk_text *text, const struct dbk_metrics_sink *s))
{
    for (size_t i = 0; i < page->consumer_count; i++) {
        for (size_t k = 0; k < page->consumers[i].sink_count; k++) {
            each(text, &page->consumers[i].sinks[k]);
        }
    }
}

static void write_up(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    dbk_text_printf(text, "daybook_destination_up{sink=\"%s\"} %d\n", s->name, s->up ? 1 : 0);
}

static void write_braked(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    dbk_text_printf(text, "daybook_destination_braked{sink=\"%s\"} %d\n", s->name,
                    s->braked ? 1 : 0);
}

static void write_records(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    dbk_text_printf(text, "daybook_records_written_total{sink=\"%s\"} %llu\n", s->name,
                    (unsigned long long)s->counters->records_written);
}

static void write_left_out(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    dbk_text_printf(text, "daybook_values_left_out_total{sink=\"%s\"} %llu\n", s->name,
                    (unsigned long long)s->counters->values_left_out);
}

static void write_writes(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    for (unsigned i = 0; i < DBK_WRITE_OUTCOMES; i++) {
        dbk_text_printf(text, "daybook_sink_writes_total{sink=\"%s\",outcome=\"%s\"} %llu\n",
                        s->name, write_names[i], (unsigned long long)s->counters->writes[i]);
    }
}

static void write_seconds(struct dbk_text *text, const struct dbk_metrics_sink *s)
{
    char labels[96];
    struct daybook_histogram h = snapshot(&s->counters->write_us);
    (void)snprintf(labels, sizeof labels, "sink=\"%s\"", s->name);
    write_histogram(text, "daybook_sink_write_seconds", labels, &h, 1e6);
}

/* Advisory destinations are told apart by their names alone, as all of them are. */
static void write_advisory_up(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    for (size_t i = 0; i < page->consumer_count; i++) {
        for (size_t k = 0; k < page->consumers[i].advisory_count; k++) {
            const struct dbk_metrics_advisory *a = &page->consumers[i].advisory[k];
            dbk_text_printf(text, "daybook_destination_up{sink=\"%s\"} %d\n", a->name,
                            a->up ? 1 : 0);
        }
    }
}

static void write_advisory(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    static const char *const outcomes[] = {"accepted", "failed", "dropped"};

    head(text, "daybook_advisory_events_total", "counter",
         "Events that an advisory destination was told of, or should have been.");
    for (size_t i = 0; i < page->consumer_count; i++) {
        for (size_t k = 0; k < page->consumers[i].advisory_count; k++) {
            const struct dbk_metrics_advisory *a = &page->consumers[i].advisory[k];
            const uint64_t counts[] = {a->counters->accepted, a->counters->failed,
                                       a->counters->dropped};
            for (size_t o = 0; o < sizeof outcomes / sizeof outcomes[0]; o++) {
                dbk_text_printf(text,
                                "daybook_advisory_events_total{sink=\"%s\",outcome=\"%s\"} %llu\n",
                                a->name, outcomes[o], (unsigned long long)counts[o]);
            }
        }
    }
}

void dbk_metrics_write(struct dbk_text *text, const struct dbk_metrics_page *page)
{
    write_appends(text, page);
    head(text, "daybook_journal_repaired", "gauge",
         "1 since the journal was found damaged and repaired, until somebody has seen to it.");
    value(text, "daybook_journal_repaired", JOURNAL, page->repaired ? 1 : 0);
    write_http(text, page->http);
    if (page->journal != NULL) {
        write_journal(text, page->journal);
    }
    write_consumers(text, page);
    head(text, "daybook_destination_up", "gauge", "1 while the destination answers.");
    write_each_sink(text, page, write_up);
    write_advisory_up(text, page);
    head(text, "daybook_destination_braked", "gauge",
         "1 while the destination refuses whatever is new and nothing is quarantined for it.");
    write_each_sink(text, page, write_braked);
    head(text, "daybook_records_written_total", "counter", "Rows that the destination has taken.");
    write_each_sink(text, page, write_records);
    head(text, "daybook_values_left_out_total", "counter",
         "Values of records that fit no column and left it empty.");
    write_each_sink(text, page, write_left_out);
    head(text, "daybook_sink_writes_total", "counter", "Writes by the destination's answer.");
    write_each_sink(text, page, write_writes);
    head(text, "daybook_sink_write_seconds", "histogram", "Duration of a write.");
    write_each_sink(text, page, write_seconds);
    write_advisory(text, page);
}
