/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture of small_journal.h. */
#include "small_journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START_US INT64_C(1700000000000000)

struct small *small_new(uint64_t events_max, uint64_t bytes_max, size_t record_bytes)
{
    struct small *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->disk = sim_disk_new(7);
    f->now_us = START_US;
    f->record_bytes = record_bytes;
    f->options = (struct daybook_log_options){
        .path = SMALL_PATH,
        .capacity = {.events_max = events_max, .events = {.event_bytes_max = 4096}},
        .bytes_max = bytes_max,
        .free_disk_min = 1,
        .segment_bytes = SMALL_SEGMENT_BYTES,
        .threads = DAYBOOK_LOG_INLINE};
    assert_int_equal(daybook_batch_new(SMALL_CLAIM_EVENTS, 1 << 20, 4096, &f->batch, NULL),
                     DAYBOOK_OK);
    return f;
}

void small_free(struct small *f)
{
    if (f->journal != NULL) {
        dbk_log_abandon(f->journal);
    }
    daybook_batch_free(f->batch);
    sim_disk_free(f->disk);
    free(f);
}

enum daybook_code small_open(struct small *f)
{
    f->options.now_us = f->now_us;
    return dbk_log_open(&f->options, &f->disk->os, &f->journal, &f->err);
}

void small_pass_time(struct small *f, int64_t us)
{
    f->now_us += us;
    f->disk->realtime_us += us;
    f->disk->monotonic_us += us;
}

void small_housekeep(struct small *f)
{
    small_pass_time(f, 2 * SECOND_US);
    while (dbk_log_housekeep(f->journal)) {
    }
}

enum daybook_code small_append(struct small *f, unsigned n)
{
    char subject[32];
    (void)snprintf(subject, sizeof subject, "e%u", n);
    return small_append_as(f, n, subject);
}

enum daybook_code small_append_as(struct small *f, unsigned n, const char *subject)
{
    char id[32];
    char record[SMALL_RECORD_BYTES_MAX + 1];
    (void)snprintf(id, sizeof id, "e%u", n);
    memset(record, 'x', sizeof record);
    (void)snprintf(record, sizeof record, "{\"n\":%u,\"pad\":\"", n);
    record[strlen(record)] = 'x';
    memcpy(record + f->record_bytes - 2, "\"}", 3);
    struct daybook_event event = {.request_id = {id, strlen(id)},
                                  .name_space = {"team", 4},
                                  .subject = {subject, strlen(subject)},
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = {record, f->record_bytes}};
    return daybook_journal_append(f->journal, &event, f->now_us, DAYBOOK_NO_DEADLINE, &f->result,
                                  &f->err);
}

struct daybook_journal_stats small_figures(struct small *f)
{
    struct daybook_journal_stats stats;
    assert_int_equal(daybook_journal_stats(f->journal, f->now_us, &stats, &f->err), DAYBOOK_OK);
    return stats;
}
