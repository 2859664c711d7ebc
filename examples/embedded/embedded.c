/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a journal of its own: one event made durable, then delivered into SQLite. See docs/EMBEDDING.md. */
#include <daybook/daybook.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(void)
{
    struct daybook_error err = {0};
    struct daybook_journal *journal = NULL;
    struct daybook_sink *sink = NULL;
    struct daybook_worker *worker = NULL;
    struct daybook_log_options log = {.path = "journal", .now_us = now_us()};
    struct daybook_sqlite_options ledger = {.path = "usage.db"};
    struct daybook_worker_options options = {
        .consumer = "billing", .sinks = &sink, .sink_count = 1};
    if (daybook_log_open(&log, &journal, &err) != DAYBOOK_OK ||
        daybook_sqlite_open(&ledger, &sink, &err) != DAYBOOK_OK ||
        daybook_worker_new(journal, &options, &worker, &err) != DAYBOOK_OK ||
        daybook_worker_start(worker, &err) != DAYBOOK_OK) {
        return fprintf(stderr, "%s\n", err.message), 1;
    }
    const char *json = "{\"request_id\":\"first-1\",\"namespace\":\"acme\",\"subject\":\"key-1\","
                       "\"input_tokens\":12}";
    struct daybook_event_names names;
    struct daybook_event event;
    struct daybook_append_result result;
    struct daybook_drain_report report;
    if (daybook_event_from_json((struct daybook_bytes){json, strlen(json)}, NULL, &names, &event,
                                &err) != DAYBOOK_OK ||
        daybook_journal_append(journal, &event, now_us(), DAYBOOK_NO_DEADLINE, &result, &err) >
            DAYBOOK_ALREADY_PRESENT) {
        return fprintf(stderr, "%s\n", err.message), 1;
    }
    printf("%s at position %llu\n", daybook_code_name(result.code),
           (unsigned long long)result.position);
    daybook_workers_drain(&worker, 1, 5000, &report); /* up to 5 s to deliver what is there */
    daybook_worker_free(worker);                      /* closes the destination too */
    printf("delivered %llu, left %llu\n", (unsigned long long)report.delivered,
           (unsigned long long)report.undelivered);
    return daybook_journal_close(journal, &err) == DAYBOOK_OK && report.drained ? 0 : 1;
}
