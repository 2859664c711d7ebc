/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, the page of metrics, the shapes of listings, and the daemon's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/clock.h"
#include "app/listing.h"
#include "app/logline.h"
#include "app/metrics.h"

#define SECOND INT64_C(1000000)
#define NOW (INT64_C(1767225600) * SECOND) /* 2026-01-01T00:00:00Z */

static void expect_part(const struct dbk_text *text, const char *part)
{
    assert_false(text->failed);
    if (strstr(text->data, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, text->data);
    }
}

static void test_log_lines(void **state)
{
    (void)state;
    const struct dbk_log_field fields[] = {
        DBK_LOG_TEXT_FIELD("path", "/a b"), DBK_LOG_TEXT_FIELD("plain", "x"),
        DBK_LOG_TEXT_FIELD("odd", "a\"\n=b"), DBK_LOG_NUMBER("n", -3)};
    struct dbk_text text = {0};
    dbk_log_write_line(&text, DBK_LOG_TEXT, NOW, DBK_LOG_WARNING, "it happened", fields, 4);
    assert_string_equal(text.data, "2026-01-01T00:00:00.000000Z warning it happened path=\"/a b\" "
                                   "plain=x odd=\"a\\\"\\n=b\" n=-3\n");
    dbk_text_release(&text);
    dbk_log_write_line(&text, DBK_LOG_JSON, NOW, DBK_LOG_INFO, "it happened", fields, 4);
    assert_string_equal(text.data,
                        "{\"time\":\"2026-01-01T00:00:00.000000Z\",\"level\":\"info\",\"message\":"
                        "\"it happened\",\"path\":\"/a b\",\"plain\":\"x\",\"odd\":"
                        "\"a\\\"\\n=b\",\"n\":-3}\n");
    dbk_text_release(&text);
}

static void test_metrics_page(void **state)
{
    (void)state;
    struct daybook_journal_stats journal = {.stored_events = 5,
                                            .events_max = 10,
                                            .accepted = 6,
                                            .pruned = 1,
                                            .reclaimed = 7,
                                            .dropped = 8,
                                            .discarded = 9,
                                            .stored_bytes = 11,
                                            .file_bytes = 12,
                                            .bytes_max = 13,
                                            .undeliverable_total = 2,
                                            .read_errors = 4,
                                            .bad_checkpoints = 21,
                                            .bad_indexes = 22,
                                            .dedupe_window_us = 1500000};
    journal.commit_us.count = 3;
    journal.commit_us.sum = 300;
    journal.commit_us.buckets[7] = 3; /* 64 to 127 */
    journal.commit_batch_events.count = 2;
    journal.commit_batch_events.sum = 6;
    journal.commit_batch_events.buckets[2] = 2; /* 2 and 3 */
    struct dbk_append_counters appends = {0};
    appends.outcomes[dbk_append_outcome_of(DAYBOOK_OK)] = 6;
    appends.outcomes[dbk_append_outcome_of(DAYBOOK_TOO_LARGE)] = 2;
    dbk_histogram_add(&appends.append_us, 0);
    dbk_histogram_add(&appends.append_us, 100);
    dbk_histogram_add(&appends.append_us, UINT64_MAX);
    struct dbk_consumer_counters counters = {.acknowledged = 4, .failed = 1, .redelivered = 2};
    struct dbk_sink_counters sink = {.records_written = 4,
                                     .writes = {[DBK_WRITE_CONTROL] = 5, [DBK_WRITE_UNKNOWN] = 2}};
    struct dbk_advisory_counters advisory = {.accepted = 3};
    dbk_histogram_add(&sink.write_us, 250000);
    struct dbk_metrics_consumer consumer = {
        .stats = {.name = "billing",
                  .pending = 2,
                  .in_flight = 3,
                  .quarantined = 4,
                  .held_events = 9,
                  .held_bytes = 900,
                  .newer_version = 6,
                  .quarantined_total = {0, 5, 0},
                  .oldest_pending_age_us = -1,
                  .oldest_unresolved_age_us = 2500000},
        .running = true,
        .counters = &counters,
        .sinks = {{.name = "ledger", .up = true, .braked = true, .counters = &sink}},
        .sink_count = 1,
        .advisory = {{.name = "board", .up = true, .counters = &advisory}},
        .advisory_count = 1,
    };
    struct dbk_http_counters http = {.connections = 7};
    http.limited[DBK_HTTP_LIMIT_SLOW_REQUEST] = 2;
    struct dbk_metrics_page page = {&journal, &appends, &http, 3, true, &consumer, 1};
    struct dbk_text text = {0};
    dbk_metrics_write(&text, &page);
    static const char *const lines[] = {
        "\ndaybook_appends_total{journal=\"main\",outcome=\"accepted\"} 6\n",
        "\ndaybook_appends_total{journal=\"main\",outcome=\"invalid\"} 2\n",
        "\ndaybook_appends_total{journal=\"main\",outcome=\"timed_out\"} 0\n",
        "\ndaybook_append_seconds_bucket{journal=\"main\",le=\"0\"} 1\n",
        "\ndaybook_append_seconds_bucket{journal=\"main\",le=\"0.000127\"} 2\n",
        "\ndaybook_append_seconds_bucket{journal=\"main\",le=\"+Inf\"} 3\n",
        "\ndaybook_append_seconds_count{journal=\"main\"} 3\n",
        "\ndaybook_commit_seconds_bucket{journal=\"main\",le=\"0.000127\"} 3\n",
        "\ndaybook_commit_seconds_bucket{journal=\"main\",le=\"6.3e-05\"} 0\n",
        "\ndaybook_commit_seconds_sum{journal=\"main\"} 0.0003\n",
        "\ndaybook_commit_batch_events_sum{journal=\"main\"} 6\n",
        "\ndaybook_commit_batch_events_count{journal=\"main\"} 2\n",
        "\ndaybook_accepted_total{journal=\"main\"} 6\n",
        "\ndaybook_pruned_total{journal=\"main\"} 1\n",
        "\ndaybook_reclaimed_total{journal=\"main\"} 7\n",
        "\ndaybook_dropped_total{journal=\"main\"} 8\n",
        "\ndaybook_discarded_total{journal=\"main\"} 9\n",
        "\ndaybook_stored_bytes{journal=\"main\"} 11\n",
        "\ndaybook_file_bytes{journal=\"main\"} 12\n",
        "\ndaybook_capacity_bytes{journal=\"main\"} 13\n",
        "\ndaybook_stored_events{journal=\"main\"} 5\n",
        "\ndaybook_capacity_events{journal=\"main\"} 10\n",
        "\ndaybook_dedupe_window_seconds{journal=\"main\"} 1.500000\n",
        "\ndaybook_appends_in_flight{journal=\"main\"} 3\n",
        "\ndaybook_http_connections{state=\"open\"} 7\n",
        "\ndaybook_http_limited_total{limit=\"slow_request\"} 2\n",
        "\ndaybook_http_limited_total{limit=\"slow_answer\"} 0\n",
        "\ndaybook_lost_total{journal=\"main\",reason=\"unheard\"} 0\n",
        "\ndaybook_lost_total{journal=\"main\",reason=\"dropped\"} 8\n",
        "\ndaybook_undeliverable_total{journal=\"main\",reason=\"corrupt\"} 2\n",
        "\ndaybook_held_events{journal=\"main\",consumer=\"billing\"} 9\n",
        "\ndaybook_destination_up{sink=\"board\"} 1\n",
        "\ndaybook_sink_writes_total{sink=\"ledger\",outcome=\"unknown\"} 2\n",
        "\ndaybook_sink_writes_total{sink=\"ledger\",outcome=\"unavailable\"} 0\n",
        "\ndaybook_read_errors_total{journal=\"main\"} 4\n",
        "\ndaybook_bad_checkpoints_total{journal=\"main\"} 21\n",
        "\ndaybook_bad_indexes_total{journal=\"main\"} 22\n",
        "\ndaybook_journal_repaired{journal=\"main\"} 1\n",
        "\ndaybook_held_bytes{journal=\"main\",consumer=\"billing\"} 900\n",
        "\ndaybook_newer_version_events{journal=\"main\",consumer=\"billing\"} 6\n",
        "\ndaybook_consumer_running{journal=\"main\",consumer=\"billing\"} 1\n",
        "\ndaybook_undeliverable_events{journal=\"main\",reason=\"corrupt\"} 0\n",
        "\ndaybook_pending{journal=\"main\",consumer=\"billing\"} 2\n",
        "\ndaybook_oldest_pending_age_seconds{journal=\"main\",consumer=\"billing\"} 0\n",
        "\ndaybook_oldest_unresolved_age_seconds{journal=\"main\",consumer=\"billing\"} 2.5\n",
        "\ndaybook_in_flight{journal=\"main\",consumer=\"billing\"} 3\n",
        "\ndaybook_quarantined_events{journal=\"main\",consumer=\"billing\"} 4\n",
        ("\ndaybook_deliveries_total{journal=\"main\",consumer=\"billing\",outcome="
         "\"acknowledged\"}"
         " 4\n"),
        "\ndaybook_deliveries_total{journal=\"main\",consumer=\"billing\",outcome=\"failed\"} 1\n",
        ("\ndaybook_deliveries_total{journal=\"main\",consumer=\"billing\",outcome=\"redelivered\"}"
         " "
         "2\n"),
        "\ndaybook_destination_up{sink=\"ledger\"} 1\n",
        "\ndaybook_destination_braked{sink=\"ledger\"} 1\n",
        ("\ndaybook_quarantined_total{journal=\"main\",consumer=\"billing\",reason=\"rejected\"}"
         " 5\n"),
        "\ndaybook_sink_writes_total{sink=\"ledger\",outcome=\"control\"} 5\n",
        "\ndaybook_records_written_total{sink=\"ledger\"} 4\n",
        "\ndaybook_sink_write_seconds_sum{sink=\"ledger\"} 0.25\n",
        "\ndaybook_sink_write_seconds_count{sink=\"ledger\"} 1\n",
        "\ndaybook_values_left_out_total{sink=\"ledger\"} 0\n",
        "\ndaybook_sink_writes_total{sink=\"ledger\",outcome=\"unavailable\"} 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect_part(&text, lines[i]);
    }
    dbk_text_release(&text);
}

/* Every line is a comment or `name{labels} value`, and every metric is headed once. */
static void test_metrics_are_well_formed(void **state)
{
    (void)state;
    struct dbk_append_counters appends = {0};
    struct dbk_http_counters http = {.connections = 0};
    struct dbk_metrics_page page = {NULL, &appends, &http, 0, false, NULL, 0};
    struct dbk_text text = {0};
    dbk_metrics_write(&text, &page);
    char *rest = text.data;
    for (char *line = strsep(&rest, "\n"); line != NULL && rest != NULL;
         line = strsep(&rest, "\n")) {
        if (line[0] == '#') {
            assert_true(strncmp(line, "# HELP daybook_", 15) == 0 ||
                        strncmp(line, "# TYPE daybook_", 15) == 0);
        } else {
            char *close = strstr(line, "} ");
            assert_true(strncmp(line, "daybook_", 8) == 0);
            assert_non_null(strchr(line, '{'));
            assert_non_null(close);
            char *end = NULL;
            (void)strtod(close + 2, &end);
            assert_true(end > close + 2 && *end == '\0');
        }
    }
    dbk_text_release(&text);
}

static void test_event_line(void **state)
{
    (void)state;
    struct daybook_delivery delivery = {
        .position = 9,
        .accepted_at_us = NOW + 1,
        .event = {.request_id = {"a\"b", 3},
                  .name_space = {"n", 1},
                  .subject = {"s", 1},
                  .observed_at_us = NOW,
                  .record = {"{\n\"x\": 1.0\r\n}", 13}},
    };
    struct dbk_text text = {0};
    dbk_event_line(&text, &delivery);
    assert_string_equal(text.data,
                        "{\"position\":9,\"request_id\":\"a\\\"b\",\"namespace\":\"n\","
                        "\"subject\":\"s\",\"observed_at\":\"2026-01-01T00:00:00.000000Z\","
                        "\"accepted_at\":\"2026-01-01T00:00:00.000001Z\",\"record\":{ \"x\": 1.0  "
                        "}}\n");
    dbk_text_release(&text);
}

/* J2, C5, P3: a clock that is set moves `now` slowly, and never back. */
static void test_clock_leans(void **state)
{
    (void)state;
    struct dbk_clock clock;
    int64_t step = 0;
    dbk_clock_init(&clock, 0, NOW);
    assert_int_equal(dbk_clock_now(&clock, SECOND, NOW + SECOND, &step), NOW + SECOND);
    assert_int_equal(step, 0);
    /* An hour ahead at once: told, and followed by a twentieth of what passes. */
    int64_t ahead = 3600 * SECOND;
    assert_int_equal(dbk_clock_now(&clock, 2 * SECOND, NOW + 2 * SECOND + ahead, &step),
                     NOW + 2 * SECOND + SECOND / 20);
    assert_int_equal(step, ahead);
    /* Back again, and further: now still goes on. */
    int64_t before = clock.now_us;
    assert_int_equal(dbk_clock_now(&clock, 3 * SECOND, NOW - ahead, &step),
                     before + SECOND - SECOND / 20);
    assert_true(step < -ahead);
    /* Asked twice at the same moment, or from a thread that read monotonic time earlier. */
    before = clock.now_us;
    assert_int_equal(dbk_clock_now(&clock, 3 * SECOND, NOW - ahead, &step), before);
    assert_int_equal(dbk_clock_now(&clock, 3 * SECOND - 5, NOW - ahead - 5, &step), before);
}

static void test_clock_begins_at_the_journal(void **state)
{
    (void)state;
    struct dbk_clock clock;
    int64_t step = 0;
    dbk_clock_init(&clock, 0, NOW);
    dbk_clock_raise(&clock, NOW + 600 * SECOND);
    assert_int_equal(dbk_clock_now(&clock, 0, NOW, &step), NOW + 600 * SECOND);
    dbk_clock_raise(&clock, NOW + 24 * 3600 * SECOND); /* more than an hour ahead: not believed */
    assert_int_equal(dbk_clock_now(&clock, 0, NOW, &step), NOW + 600 * SECOND);
    dbk_clock_raise(&clock, NOW);
    assert_int_equal(dbk_clock_now(&clock, 0, NOW, &step), NOW + 600 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_metrics_page),
        cmocka_unit_test(test_metrics_are_well_formed),
        cmocka_unit_test(test_event_line),
        cmocka_unit_test(test_clock_leans),
        cmocka_unit_test(test_clock_begins_at_the_journal),
    };
    return cmocka_run_group_tests_name("app", tests, NULL, NULL);
}
