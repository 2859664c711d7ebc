/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every single-bit flip and every truncation of a small journal, one by one, on the simulated disk:
 *   - it is noticed: `verify` calls it damage, or it is one of the kinds that are harmless by name
 *     (docs/TESTING.md), and then nothing is missing;
 *   - no answered event is lost silently: an opening refuses, or every event is there, or the journal itself
 *     counts it as damaged;
 *   - `repair` makes a journal of what is left that opens, and verifies but for records that rotted; each
 *     event is in it as it was given, or counted as lost, or kept with its damaged record.
  * The short form takes a share of the bits; DAYBOOK_SIM_DEEP takes all; DAYBOOK_FLIPS_PART=K/N takes the Kth of N
 * parts of all, so that a long run can be done piece by piece. One thread.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engines/log/log.h"
#include "world.h"

#define EVENTS 4u
#define FIRST WORLD_PATH "/seg-0000000000000001.dbl"
#define FORMAT WORLD_PATH "/FORMAT"
#define NEW_PATH "/var/repaired"
/* Of the bits in the short form: prime, so that every byte's turn comes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEP_SHORT 631u /* a sanitizer is there for the memory, and slow */
#else
#define STEP_SHORT 211u
#endif

enum ended { ENDED_CLOSED, ENDED_KILLED };

/* A small journal with a consumer, hand-outs, verdicts; all of it answered. */
static struct world *small_world(enum ended ended)
{
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    world_register(w);
    world_append(w, 1, 60);
    world_tick(w, 1000);
    world_append(w, EVENTS - 1,
                 300); /* in one group: what damages one of them leaves its neighbours */
    world_tick(w, 1000);
    world_claim(w, 2);
    world_ack(w, 1);
    world_tick(w, 200000);
    world_housekeep(w);
    if (ended == ENDED_CLOSED) {
        world_close(w);
    } else {
        dbk_log_abandon(w->journal);
        w->journal = NULL;
    }
    assert_string_equal(w->failure, "");
    sim_power_cut(w->disk, SIM_KEEP_NOTHING, 0);
    return w;
}

static uint64_t used_bytes(const struct world *w, const char *path)
{
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, path, &size);
    assert_non_null(bytes);
    while (size > 0 && bytes[size - 1] == 0) {
        size--;
    }
    return (size + 4095) / 4096 * 4096; /* with the padding of its last block */
}

/* ---- looking ------------------------------------------------------------------------------------- */

struct seen {
    uint32_t whole;   /* events as they were given */
    uint64_t damaged; /* events whose record failed */
    uint64_t counted; /* lost, by the journal's own counters */
};

/* Reads what an open journal holds; what it gives has to be what was given. */
static void read_all(struct world *w, struct daybook_journal *journal, struct seen *ret)
{
    struct daybook_error err = {0};
    struct daybook_batch *batch = NULL;
    struct daybook_journal_stats stats;
    uint64_t last = 0;
    struct daybook_journal *own = w->journal;
    memset(ret, 0, sizeof *ret);
    assert_int_equal(daybook_batch_new(64, 1u << 20, WORLD_RECORD_MAX, &batch, &err), DAYBOOK_OK);
    assert_int_equal(
        daybook_journal_read(journal, 0, DAYBOOK_WHERE_ALL, batch, &last, &ret->damaged, &err),
        DAYBOOK_OK);
    ret->whole = (uint32_t)batch->count;
    for (size_t i = 0; i < batch->count; i++) {
        w->journal = journal;
        assert_true(world_recognises(w, &batch->deliveries[i].event));
    }
    w->journal = own;
    assert_int_equal(daybook_journal_stats(journal, w->now_us, &stats, &err), DAYBOOK_OK);
    ret->counted = stats.damaged;
    daybook_batch_free(batch);
}

struct findings {
    uint32_t harmless;
    uint32_t damage;
};

static void count(void *user, const struct daybook_log_finding *finding)
{
    struct findings *findings = user;
    findings->harmless += finding->harmless ? 1 : 0;
    findings->damage += finding->harmless ? 0 : 1;
}

/* ---- one change ---------------------------------------------------------------------------------- */

enum kind { FLIP, TRUNCATION };

struct tally {
    uint64_t tried;
    uint64_t damage;
    uint64_t harmless; /* noticed by nobody, and nothing is missing */
    uint64_t refused;
    uint64_t unproven;
    uint64_t repaired;
};

/* A journal that holds less than was answered has to say so. */
static void holds_or_counts(const struct seen *seen, const char *who, const char *what)
{
    if (seen->whole + seen->damaged + seen->counted < EVENTS) {
        fail_msg("%s, %s: %" PRIu32 " whole, %" PRIu64 " damaged, %" PRIu64 " counted of %u", what,
                 who, seen->whole, seen->damaged, seen->counted, EVENTS);
    }
}

/* Whether the damaged directory is not as it was. */
static bool differs(const struct sim_disk *before, const struct sim_disk *after)
{
    static const char *const paths[] = {FORMAT, FIRST};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        uint64_t a = 0;
        uint64_t b = 0;
        const uint8_t *x = sim_bytes(before, SIM_MEDIUM, paths[i], &a);
        const uint8_t *y = sim_bytes(after, SIM_MEDIUM, paths[i], &b);
        if ((x == NULL) != (y == NULL) || a != b || (x != NULL && memcmp(x, y, a) != 0)) {
            return true;
        }
    }
    return false;
}

static void repair_gives_back(struct world *w, enum kind kind, const char *what,
                              struct tally *tally)
{
    struct daybook_error err = {0};
    struct daybook_log_repair_report report;
    struct daybook_log_options options = world_options(w);
    struct daybook_journal *journal = NULL;
    struct seen seen;
    struct sim_disk *before = sim_disk_clone(w->disk);
    enum daybook_code code =
        dbk_log_repair(WORLD_PATH, NEW_PATH, &w->disk->os, NULL, &report, &err);
    if (code ==
        DAYBOOK_NEWER_FORMAT) { /* a version field that still has its checksum: never here */
        fail_msg("%s: repair answered %s", what, err.message);
    }
    if (code != DAYBOOK_OK) {
        fail_msg("%s: repair answered %s: %s", what, daybook_code_name(code), err.message);
    }
    if (differs(before, w->disk)) {
        fail_msg("%s: repair changed what it repaired", what);
    }
    options.path = NEW_PATH;
    code = dbk_log_open(&options, &w->disk->os, &journal, &err);
    if (code != DAYBOOK_OK) {
        fail_msg("%s: what was repaired answered %s: %s", what, daybook_code_name(code),
                 err.message);
    }
    read_all(w, journal, &seen);
    /* At the end of the log nothing may prove what stood there: then the report says how many could have. */
    if (seen.whole + seen.damaged + seen.counted < EVENTS && report.damaged == 0) {
        holds_or_counts(&seen, "repaired without a word", what);
    }
    if (kind == FLIP && seen.whole + 1 < EVENTS) {
        fail_msg("%s: repair kept %" PRIu32 " of %u events behind one damaged place", what,
                 seen.whole, EVENTS);
    }
    assert_int_equal(daybook_journal_close(journal, &err), DAYBOOK_OK);
    sim_disk_free(before);
    tally->repaired++;
}

/* The directory as it is now: verified, opened, repaired. */
static void judge(struct world *w, enum kind kind, const char *what, struct tally *tally)
{
    struct daybook_error err = {0};
    struct daybook_log_report report;
    struct daybook_log_options options = world_options(w);
    struct findings findings = {0};
    struct daybook_journal *journal = NULL;
    struct seen seen = {0};
    sim_drop_caches(w->disk);
    tally->tried++;
    enum daybook_code verified =
        dbk_log_verify(WORLD_PATH, &w->disk->os, count, &findings, &report, &err);
    struct sim_disk *disk = sim_disk_clone(w->disk);
    enum daybook_code opened = dbk_log_open(&options, &disk->os, &journal, &err);
    if (opened == DAYBOOK_OK) {
        read_all(w, journal, &seen);
        dbk_log_abandon(journal);
        if (kind == FLIP || verified == DAYBOOK_OK) {
            holds_or_counts(&seen, "opened", what);
        } else if (seen.whole + seen.damaged < EVENTS) {
            tally->unproven++; /* cut exactly behind a group: verify says so, an opening cannot */
        }
    } else if (opened != DAYBOOK_DAMAGED && opened != DAYBOOK_NEWER_FORMAT) {
        fail_msg("%s: the opening answered %s: %s", what, daybook_code_name(opened), err.message);
    } else {
        tally->refused++;
    }
    sim_disk_free(disk);
    if (verified != DAYBOOK_OK) {
        tally->damage++;
    } else {
        tally->harmless++;
        if (opened != DAYBOOK_OK) {
            fail_msg("%s: verify found nothing, and the opening refuses", what);
        }
        if (kind == FLIP) {
            fail_msg("%s: nobody notices", what);
        }
        if (seen.whole != EVENTS) {
            fail_msg("%s: verify found nothing, and %" PRIu32 " events are left", what, seen.whole);
        }
    }
    repair_gives_back(w, kind, what, tally);
}

/* Which bits and lengths are tried: from the first one on, each so many-th. */
struct share {
    uint64_t first;
    uint64_t step;
};

static struct share share(void)
{
    const char *part = getenv("DAYBOOK_FLIPS_PART");
    char *rest = NULL;
    if (part == NULL) {
        return (struct share){0, getenv("DAYBOOK_SIM_DEEP") != NULL ? 1 : STEP_SHORT};
    }
    uint64_t first = strtoull(part, &rest, 10);
    uint64_t step = *rest == '/' ? strtoull(rest + 1, NULL, 10) : 0;
    assert_true(step > 0 && first < step);
    return (struct share){first, step};
}

static void each_flip(const struct world *sound, const char *path, uint64_t end,
                      struct tally *tally)
{
    char what[160];
    for (uint64_t bit = share().first; bit < end * 8; bit += share().step) {
        struct world *w = world_clone(sound);
        (void)snprintf(what, sizeof what, "%s, byte %" PRIu64 ", bit %u", path, bit / 8,
                       (unsigned)(bit % 8));
        sim_flip_bit(w->disk, path, bit / 8, (unsigned)(bit % 8));
        judge(w, FLIP, what, tally);
        world_free(w);
    }
}

static void print(const char *what, const struct tally *tally)
{
    print_message("# %s: %" PRIu64 " tried, %" PRIu64 " are damage to verify, %" PRIu64
                  " harmless, %" PRIu64 " refused, %" PRIu64 " shorter unproven, %" PRIu64
                  " repaired\n",
                  what, tally->tried, tally->damage, tally->harmless, tally->refused,
                  tally->unproven, tally->repaired);
}

static void flips(enum ended ended, const char *name)
{
    struct tally tally = {0};
    struct world *w = small_world(ended);
    each_flip(w, FORMAT, 128, &tally);
    each_flip(w, FIRST, used_bytes(w, FIRST), &tally);
    print(name, &tally);
    assert_int_equal(tally.harmless, 0);
    assert_int_equal(tally.repaired, tally.tried);
    world_free(w);
}

/* Each bit of a journal that was closed in order: verify calls every one of them damage. */
static void test_every_flip_closed(void **state)
{
    (void)state;
    flips(ENDED_CLOSED, "flips, closed");
}

static void test_every_flip_killed(void **state)
{
    (void)state;
    flips(ENDED_KILLED, "flips, killed");
}

/* Each length: shorter than what is used is damage; cut in the zeros behind the log is harmless by name. */
static void truncations(enum ended ended, const char *name)
{
    struct tally tally = {0};
    struct world *sound = small_world(ended);
    uint64_t used = used_bytes(sound, FIRST);
    uint64_t size = 0;
    (void)sim_bytes(sound->disk, SIM_MEDIUM, FIRST, &size);
    for (uint64_t len = share().first; len <= used + 4096 && len < size; len += share().step) {
        char what[160];
        struct world *w = world_clone(sound);
        uint64_t ignored = 0;
        const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, FIRST, &ignored);
        uint8_t *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, bytes, len);
        sim_put_file(w->disk, FIRST, copy, len);
        free(copy);
        (void)snprintf(what, sizeof what, "%s cut to %" PRIu64 " bytes", FIRST, len);
        judge(w, TRUNCATION, what, &tally);
        world_free(w);
    }
    print(name, &tally);
    world_free(sound);
}

static void test_every_truncation_closed(void **state)
{
    (void)state;
    truncations(ENDED_CLOSED, "truncations, closed");
}

static void test_every_truncation_killed(void **state)
{
    (void)state;
    truncations(ENDED_KILLED, "truncations, killed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flip_closed),
        cmocka_unit_test(test_every_flip_killed),
        cmocka_unit_test(test_every_truncation_closed),
        cmocka_unit_test(test_every_truncation_killed),
    };
    return cmocka_run_group_tests_name("flips", tests, NULL, NULL);
}
