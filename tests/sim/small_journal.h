/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A journal of small segments on the simulated disk, inline: every operation does its own part, in moved
 * time. The fixture of tests that look at its files.
 */
#ifndef DBK_TESTS_SIM_SMALL_JOURNAL_H
#define DBK_TESTS_SIM_SMALL_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "engines/log/log.h"

#define SMALL_PATH "/journal"
#define SMALL_CONSUMER "ledger"
#define SMALL_SEGMENT_BYTES 65536u
#define SMALL_RECORD_BYTES_MAX 4000u
#define SMALL_CLAIM_EVENTS 64u
#define SECOND_US INT64_C(1000000)

struct small {
    struct sim_disk *disk;
    struct daybook_log_options options;
    struct daybook_journal *journal; /* NULL: not open */
    struct daybook_batch *batch;
    struct daybook_error err;
    struct daybook_append_result result; /* of the last append */
    int64_t now_us;
    size_t record_bytes; /* of what is appended */
    unsigned given;      /* events appended by whoever counts them: e1 to eN */
};

/* Not open yet. Released with small_free. */
struct small *small_new(uint64_t events_max, uint64_t bytes_max, size_t record_bytes);
void small_free(struct small *f);
enum daybook_code small_open(struct small *f);
void small_pass_time(struct small *f, int64_t us);
/* Two seconds pass, and everything that is due is done. */
void small_housekeep(struct small *f);
/* Appends event n, of a caller of its own. Returns what became of it. */
enum daybook_code small_append(struct small *f, unsigned n);
/* The same, of this caller. */
enum daybook_code small_append_as(struct small *f, unsigned n, const char *subject);
struct daybook_journal_stats small_figures(struct small *f);

#endif
