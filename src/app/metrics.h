/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own counters, and the page of /metrics (contract section 7).
 *
 * Labels are closed sets or names of the configuration, never what a client sent. Counters are since
 * the start of the process, but for those that the journal keeps durably (S5). Threads: counters any;
 * the page is written from one snapshot that its caller took.
 */
#ifndef DBK_APP_METRICS_H
#define DBK_APP_METRICS_H

#include <stdatomic.h>

#include <daybook/journal.h>
#include <daybook/worker.h>

#include "app/config.h"
#include "app/text.h"

enum dbk_append_outcome {
    DBK_APPEND_ACCEPTED,
    DBK_APPEND_ALREADY_PRESENT,
    DBK_APPEND_CONFLICT,
    DBK_APPEND_AT_CAPACITY,
    DBK_APPEND_INVALID,
    DBK_APPEND_BACKEND,
    DBK_APPEND_TIMED_OUT,
    DBK_APPEND_OUTCOMES
};

enum dbk_write_outcome {
    DBK_WRITE_ACCEPTED,
    DBK_WRITE_REFUSED,
    DBK_WRITE_REJECTED,
    DBK_WRITE_UNAVAILABLE,
    DBK_WRITE_UNKNOWN, /* unavailable, and it may have landed */
    DBK_WRITE_CONTROL,
    DBK_WRITE_OUTCOMES
};

/* Powers of two of microseconds or events; see struct daybook_histogram. */
struct dbk_histogram {
    _Atomic uint64_t count;
    _Atomic uint64_t sum;
    _Atomic uint64_t buckets[DAYBOOK_HISTOGRAM_BUCKETS];
};

struct dbk_sink_counters {
    _Atomic uint64_t records_written;
    _Atomic uint64_t values_left_out;
    _Atomic uint64_t writes[DBK_WRITE_OUTCOMES];
    struct dbk_histogram write_us;
};

/* Events, by what became of them at an advisory destination. */
struct dbk_advisory_counters {
    _Atomic uint64_t accepted;
    _Atomic uint64_t failed;
    _Atomic uint64_t dropped; /* its queue had no room, or no time was left */
};

struct dbk_consumer_counters {
    _Atomic uint64_t acknowledged;
    _Atomic uint64_t failed;
    _Atomic uint64_t redelivered;
};

/* Why an event was lost that its producer was answered 202 for (M2). */
enum dbk_lost_reason {
    DBK_LOST_AT_CAPACITY,
    DBK_LOST_BACKEND, /* an unknown outcome too */
    DBK_LOST_DRAINING,
    DBK_LOST_REASONS
};

struct dbk_append_counters {
    _Atomic uint64_t outcomes[DBK_APPEND_OUTCOMES];
    _Atomic uint64_t lost[DBK_LOST_REASONS];
    _Atomic uint64_t unheard; /* refused for want of durability, and the client had gone (M2) */
    struct dbk_histogram append_us;
};

/* What the HTTP server holds clients to. */
enum dbk_http_limit {
    DBK_HTTP_LIMIT_BODY,         /* larger than max_body_bytes: 413 */
    DBK_HTTP_LIMIT_BODIES,       /* of all requests together: 503 */
    DBK_HTTP_LIMIT_HEADERS,      /* 431 */
    DBK_HTTP_LIMIT_CONNECTIONS,  /* beyond max_connections: 503 */
    DBK_HTTP_LIMIT_IDLE,         /* no request within idle_timeout: closed */
    DBK_HTTP_LIMIT_SLOW_REQUEST, /* 408 */
    DBK_HTTP_LIMIT_SLOW_ANSWER,  /* read too slowly: closed */
    DBK_HTTP_LIMITS
};

struct dbk_http_counters {
    _Atomic uint64_t limited[DBK_HTTP_LIMITS];
    _Atomic uint64_t connections; /* now */
};

void dbk_histogram_add(struct dbk_histogram *histogram, uint64_t value);
/* Every code that an append can answer with has one; what else there is counts as backend. */
enum dbk_append_outcome dbk_append_outcome_of(enum daybook_code code);
/* For a code that the table of codes answers with 503. */
enum dbk_lost_reason dbk_lost_reason_of(enum daybook_code code);

/* What the page is written from. Pointers borrowed for the call. */
struct dbk_metrics_sink {
    const char *name;
    bool up;
    bool braked;
    const struct dbk_sink_counters *counters;
};
struct dbk_metrics_advisory {
    const char *name;
    bool up;
    const struct dbk_advisory_counters *counters;
};
struct dbk_metrics_consumer {
    struct daybook_consumer_stats stats;
    bool running;
    const struct dbk_consumer_counters *counters; /* NULL: registered, but not run here */
    struct dbk_metrics_sink sinks[DAYBOOK_WORKER_SINKS_MAX];
    size_t sink_count;
    struct dbk_metrics_advisory advisory[DAYBOOK_WORKER_SINKS_MAX];
    size_t advisory_count;
};
struct dbk_metrics_page {
    const struct daybook_journal_stats *journal; /* NULL: not open */
    const struct dbk_append_counters *appends;
    const struct dbk_http_counters *http;
    uint64_t appends_in_flight;
    bool repaired; /* the flag of journal.damage: repair is up */
    const struct dbk_metrics_consumer *consumers;
    size_t consumer_count;
};

/* The Prometheus text format, version 0.0.4. */
void dbk_metrics_write(struct dbk_text *text, const struct dbk_metrics_page *page);

#endif
