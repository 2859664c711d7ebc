/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine as a subject of the contract's tests: on the simulated disk, every operation doing its
 * own part; with threads, in a directory of its own.
 */
#include "harness/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "engines/log/format.h"
#include "engines/log/log.h"
#include "harness/directory.h"

#define DIRECTORY "/journal"
#define SEGMENT_BYTES (4u * 1024 * 1024)
#define SMALL_SEGMENT_BYTES (256u * 1024) /* the log is switched often */
#define BYTES_MAX (256u * 1024 * 1024)
#define FREE_DISK_MIN (2u * 1024 * 1024)
#define EVENT_BYTES_MAX 4096u /* what fits so small a segment */

static struct daybook_log_options options_of(const struct contract_world *world,
                                             const struct daybook_capacity *capacity)
{
    struct daybook_log_options options = {
        .path = DIRECTORY,
        .capacity = *capacity,
        .bytes_max = BYTES_MAX,
        .free_disk_min = FREE_DISK_MIN,
        .segment_bytes = world->engine == &contract_log_small ? SMALL_SEGMENT_BYTES : SEGMENT_BYTES,
        .threads = DAYBOOK_LOG_INLINE,
        .now_us = world->now_us};

    if (world->limits.segment_bytes != 0) {
        options.segment_bytes = world->limits.segment_bytes;
    }
    if (world->limits.bytes_max != 0) {
        options.bytes_max = world->limits.bytes_max;
    }
    if (world->limits.free_disk_min != 0) {
        options.free_disk_min = world->limits.free_disk_min;
    }
    if (options.capacity.events.event_bytes_max == 0) {
        options.capacity.events.event_bytes_max = EVENT_BYTES_MAX;
    }
    return options;
}

static enum daybook_code open_log(struct contract_world *world,
                                  const struct daybook_capacity *capacity,
                                  struct daybook_error *err)
{
    struct daybook_log_options options = options_of(world, capacity);

    return dbk_log_open(&options, &world->disk->os, &world->journal, err);
}

/* Memory of a handle that failed may be ahead of its log. */
static bool is_open(struct daybook_journal *journal)
{
    struct daybook_journal_stats stats;

    return daybook_journal_stats(journal, 0, &stats, NULL) == DAYBOOK_OK &&
           stats.state == DAYBOOK_JOURNAL_OPEN;
}

/* What is in memory, what a checkpoint and the log behind it make, and what the whole log makes, where it is all
 * there, are one. */
static enum daybook_code compare_states(struct contract_world *world,
                                        const struct daybook_capacity *capacity, const char *when,
                                        struct daybook_error *err)
{
    struct daybook_log_options options = options_of(world, capacity);
    struct daybook_journal *resumed = NULL;
    struct daybook_journal *whole = NULL;
    uint64_t position = 0;
    const char *wrong = NULL;
    enum daybook_code code = dbk_log_open_readonly(&options, &world->disk->os, &resumed, err);

    if (code == DAYBOOK_OK && !dbk_log_opening(resumed).by_checkpoint) {
        code = dbk_log_open_readonly_whole(&options, &world->disk->os, 0, &whole, err);
    }
    if (code == DAYBOOK_OK) {
        world->resumed += dbk_log_opening(resumed).resumed_lsn != 0 ? 1 : 0;
        wrong = whole == NULL ? NULL : dbk_log_differs(resumed, whole, world->now_us, &position);
        if (wrong == NULL && is_open(world->journal)) {
            wrong = dbk_log_differs(world->journal, resumed, world->now_us, &position);
        }
    }
    if (wrong != NULL) {
        code = dbk_fail(err, DAYBOOK_DAMAGED,
                        "%s: the state live, from a checkpoint and from the whole log differ: %s "
                        "(position %" PRIu64 ")",
                        when, wrong, position);
    }
    if (resumed != NULL) {
        (void)daybook_journal_close(resumed, NULL);
    }
    if (whole != NULL) {
        (void)daybook_journal_close(whole, NULL);
    }
    return code;
}

static enum daybook_code reopen_log(struct contract_world *world, enum contract_end end,
                                    const struct daybook_capacity *capacity,
                                    struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;

    if (!world->disk->dead) {
        world->disk->crash_at = 0; /* it has not come to it */
        code = compare_states(world, &world->capacity, "before the end", err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (end == CONTRACT_CLOSED) {
        code = daybook_journal_close(world->journal, err);
        if (code == DAYBOOK_BACKEND) { /* no room to mark the end: the opening recovers */
            code = DAYBOOK_OK;
        }
    } else {
        dbk_log_abandon(world->journal);
        if (end == CONTRACT_KILLED) {
            sim_kill(world->disk);
        } else {
            sim_power_cut(world->disk, world->cut, world->cut_seed);
        }
    }
    world->journal = NULL;
    if (code == DAYBOOK_OK) {
        code = open_log(world, capacity, err);
    }
    return code == DAYBOOK_OK ? compare_states(world, capacity, "after the end", err) : code;
}

static uint64_t units_log(const struct contract_world *world)
{
    return dbk_log_group_no(world->journal);
}

static uint64_t next_position_log(const struct contract_world *world)
{
    return dbk_log_next_position(world->journal);
}

static enum daybook_code open_log_shared(struct contract_world *world,
                                         const struct daybook_capacity *capacity,
                                         struct daybook_error *err)
{
    struct daybook_log_options options = options_of(world, capacity);

    harness_directory_make(world->directory, sizeof world->directory);
    options.path = world->directory;
    options.threads = DAYBOOK_LOG_THREADED;
    return daybook_log_open(&options, &world->journal, err);
}

static void clean_log_shared(struct contract_world *world)
{
    harness_directory_remove(world->directory);
}

static void tick_log(struct contract_world *world)
{
    while (dbk_log_housekeep(world->journal)) {
        struct dbk_log_opening now = dbk_log_opening(world->journal);
        world->checkpoints += now.newest_lsn > world->checkpoint_lsn ? 1 : 0;
        world->checkpoint_lsn = now.newest_lsn;
        world->relocated = world->relocated || now.relocated;
    }
    dbk_log_want_checkpoint(world->journal); /* the next group takes it, in its middle */
}

static enum daybook_code append_newer_log(struct contract_world *world,
                                          const struct daybook_event *event,
                                          struct daybook_append_result *ret)
{
    enum daybook_code code;

    dbk_log_set_row_version(world->journal, DBK_ROW_VERSION + 1);
    code = daybook_journal_append(world->journal, event, world->now_us, DAYBOOK_NO_DEADLINE, ret,
                                  &world->err);
    dbk_log_set_row_version(world->journal, DBK_ROW_VERSION);
    return code;
}

/* ---- a damaged medium --------------------------------------------------------------------------- */

struct search {
    const struct sim_disk *disk;
    const char *bytes;
    size_t len;
    char path[256]; /* where the last one was found */
    uint64_t offset;
};

static void search_file(void *user, const char *path, enum dbk_file_kind kind)
{
    struct search *s = user;
    uint64_t size = 0;
    const uint8_t *bytes =
        kind == DBK_FILE_REGULAR ? sim_bytes(s->disk, SIM_MEDIUM, path, &size) : NULL;

    for (uint64_t at = 0; bytes != NULL && at + s->len <= size; at++) {
        if (memcmp(bytes + at, s->bytes, s->len) == 0 && strcmp(path, s->path) >= 0) {
            (void)snprintf(s->path, sizeof s->path, "%s", path);
            s->offset = at;
        }
    }
}

/* Flips a bit in the last byte of the record, where it was written last. The record holds the event's
 * id, so it is no other's. */
static void spoil_log(struct contract_world *world, uint64_t position)
{
    struct search search = {.disk = world->disk};
    struct daybook_event event;
    uint64_t last = 0;

    assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, position - 1, DAYBOOK_WHERE_ALL,
                                                 world->batch, &last, NULL, &world->err));
    assert_true(world->batch->count > 0 && world->batch->deliveries[0].position == position);
    event = world->batch->deliveries[0].event;
    search.bytes = event.record.data;
    search.len = event.record.len;
    sim_each(world->disk, SIM_MEDIUM, search_file, &search);
    assert_true(search.path[0] != '\0');
    sim_flip_bit(world->disk, search.path, search.offset + search.len - 1, 0);
    sim_drop_caches(world->disk);
}

const struct contract_engine contract_log = {.name = "log",
                                             .durable = true,
                                             .open = open_log,
                                             .reopen = reopen_log,
                                             .open_shared = open_log_shared,
                                             .units = units_log,
                                             .next_position = next_position_log,
                                             .clean_shared = clean_log_shared,
                                             .tick = tick_log,
                                             .append_newer = append_newer_log,
                                             .spoil = spoil_log};

/* No rot here: where a tail is full, a close cannot mark the end, and rot behind it is refused. */
const struct contract_engine contract_log_small = {.name = "log-small",
                                                   .durable = true,
                                                   .open = open_log,
                                                   .reopen = reopen_log,
                                                   .open_shared = open_log_shared,
                                                   .units = units_log,
                                                   .next_position = next_position_log,
                                                   .clean_shared = clean_log_shared,
                                                   .tick = tick_log,
                                                   .append_newer = append_newer_log};
