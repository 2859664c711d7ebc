/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripted scenarios on the simulated disk, cut at every I/O step and hit by every trouble at every
 * step; after each one the journal is held against the ledger (world.h). Then the same with deliberate
 * faults in the engine, each of which must be noticed.
 *
 *   test-sim-crash                     everything must hold (TAP)
 *   test-sim-crash --sweep PART        only sweeps with PART in their name
 *   test-sim-crash --faults            each fault must be caught; prints the table
 *   test-sim-crash --case NAME ...     one case again, as a failure printed it; --trace shows the I/O
 *
 * DAYBOOK_SIM_SUBSETS sets how many subsets of sectors are drawn at each cut (default 10). A sanitizer is
 * there for the memory and slow: with one, 2 subsets at every seventh step. DAYBOOK_SIM_DEEP=1: recoveries are cut after many crashes
 * of each scenario instead of one, and every trouble ends in every way.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "engines/log/log.h"
#include "world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUBSETS_DEFAULT 2u
#define STEP_STRIDE 7u
#else
#define SUBSETS_DEFAULT 10u
#define STEP_STRIDE 1u
#endif
#define SUBSETS_MAX 1024u
#define SEGMENT_1 WORLD_PATH "/seg-0000000000000001.dbl"
#define BLOCK_BYTES 4096u
#define GROUP_HEADER_BYTES 64u
#define FAULT_SECONDS_MAX 120u

/* ---- scenarios ----------------------------------------------------------------------------------- */

static void pause_and_keep_house(struct world *w)
{
    world_tick(w, 1000);
    world_housekeep(w);
}

/* A1: one event after the other, small and large. */
static void run_append(struct world *w)
{
    static const uint32_t sizes[] = {60, 300, 4000, 64, 7900, 1200};
    world_open(w);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        world_append(w, 1, sizes[i]);
        pause_and_keep_house(w);
    }
    world_tick(w, 200000);
    world_housekeep(w);
    world_append(w, 1, 100);
}

/* A6: batches below and above what one group holds. */
static void run_batch(struct world *w)
{
    world_open(w);
    world_append(w, 3, 200);
    pause_and_keep_house(w);
    world_append(w, 20, 1500);
    pause_and_keep_house(w);
    world_append(w, 1, 200);
    world_append(w, 8, 2500);
}

/* The log goes on into a second and a third segment. */
static void run_switch(struct world *w)
{
    world_open(w);
    for (int i = 0; i < 18; i++) {
        world_append(w, 1, 7500);
        pause_and_keep_house(w);
    }
}

/* K1, K7: claims and verdicts between appends, some synced by an append, some by the timer. */
static void run_acknowledge(struct world *w)
{
    world_open(w);
    world_register(w);
    world_append(w, 6, 300);
    world_claim(w, 4);
    world_ack(w, 2);
    world_ack(w, 1);
    world_append(w, 2, 300);
    world_ack(w, 1);
    world_claim(w, 3);
    world_ack(w, 2);
    world_tick(w, 200000);
    world_housekeep(w);
    world_claim(w, 8);
    world_ack(w, 3);
    world_ack(w, 8);
}

/* P3: everything is delivered and forgotten, segments go. */
static void run_trim(struct world *w)
{
    world_open(w);
    world_register(w);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 7; i++) {
            world_append(w, 1, 7500);
            world_housekeep(w);
        }
        world_claim(w, 64);
        world_ack(w, 64);
        world_maintain(w);
        world_tick(w, 1500000);
        world_housekeep(w);
    }
    world_append(w, 1, 100);
}

/* An orderly end, and going on behind it. */
static void run_close(struct world *w)
{
    world_open(w);
    world_register(w);
    world_append(w, 2, 300);
    world_claim(w, 1);
    world_ack(w, 1);
    world_close(w);
    world_open(w);
    world_append(w, 2, 300);
    world_claim(w, 2);
    world_close(w);
    world_open(w);
    world_append(w, 1, 300);
}

static void minute(struct world *w)
{
    world_tick(w, 61000000);
    world_housekeep(w);
}

/* D1: segments are sealed and get their indexes, checkpoints follow each other, one of them between a claim
 * and its verdicts. */
static void run_checkpoint(struct world *w)
{
    world_open(w);
    world_register(w);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++) {
            world_append(w, 1, 7500);
            world_housekeep(w);
        }
        world_claim(w, 4);
        minute(w);
        world_append(w, 1, 300);
        /* Due while verdicts are written and not synced. */
        world_tick(w, 61000000);
        world_ack(w, 3);
        world_housekeep(w);
    }
}

/* P3: the same while delivered events are forgotten and their segments go. */
static void run_checkpoint_and_trim(struct world *w)
{
    world_open(w);
    world_register(w);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++) {
            world_append(w, 1, 7500);
            world_housekeep(w);
        }
        world_claim(w, 64);
        minute(w);
        world_ack(w, 64);
        world_maintain(w);
        minute(w);
    }
    world_close(w);
    world_open(w);
    world_append(w, 1, 100);
}

struct scenario {
    const char *name;
    enum world_retention retention;
    void (*run)(struct world *w);
};

static const struct scenario scenarios[] = {
    {"append", RETAIN_ALL, run_append},
    {"batch", RETAIN_ALL, run_batch},
    {"switch", RETAIN_ALL, run_switch},
    {"acknowledge", RETAIN_ALL, run_acknowledge},
    {"trim", RETAIN_NONE, run_trim},
    {"close", RETAIN_ALL, run_close},
    {"checkpoint", RETAIN_ALL, run_checkpoint},
    {"forget", RETAIN_NONE, run_checkpoint_and_trim},
};
#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

/* ---- troubles ------------------------------------------------------------------------------------ */

struct trouble {
    const char *name;
    enum world_temper temper; /* strict: nothing that is asked may fail */
    struct sim_injection injection;
};

static const struct trouble troubles[] = {
    {"eio", TEMPER_TOLERANT, {.trouble = SIM_FAIL_ONCE, .call = SIM_ANY, .os_errno = EIO}},
    {"eio-for-good",
     TEMPER_TOLERANT,
     {.trouble = SIM_FAIL_STICKY, .call = SIM_ANY, .os_errno = EIO}},
    {"failed-sync",
     TEMPER_TOLERANT,
     {.trouble = SIM_FAIL_ONCE, .call = SIM_FDATASYNC, .os_errno = EIO}},
    {"no-space",
     TEMPER_TOLERANT,
     {.trouble = SIM_FAIL_ONCE, .call = SIM_PWRITE, .os_errno = ENOSPC}},
    {"interrupted-sync",
     TEMPER_STRICT,
     {.trouble = SIM_FAIL_ONCE, .call = SIM_FDATASYNC, .os_errno = EINTR}},
    {"interrupted-write",
     TEMPER_STRICT,
     {.trouble = SIM_FAIL_ONCE, .call = SIM_PWRITE, .os_errno = EINTR}},
    {"short-write",
     TEMPER_STRICT,
     {.trouble = SIM_SHORT_ONCE, .call = SIM_PWRITE, .short_bytes = 3584}},
    {"short-read",
     TEMPER_STRICT,
     {.trouble = SIM_SHORT_ONCE, .call = SIM_PREAD, .short_bytes = 512}},
};
#define NO_TROUBLE SIZE_MAX
#define TROUBLES (sizeof troubles / sizeof troubles[0])

static size_t trouble_named(const char *name)
{
    for (size_t i = 0; i < TROUBLES; i++) {
        if (strcmp(troubles[i].name, name) == 0) {
            return i;
        }
    }
    return NO_TROUBLE;
}

/* ---- ends ---------------------------------------------------------------------------------------- */

/* End 0 to 3, then the subsets. */
#define ENDS_FIXED 4u

static uint64_t subset_count(void)
{
    const char *text = getenv("DAYBOOK_SIM_SUBSETS");
    uint64_t n = text == NULL ? SUBSETS_DEFAULT : strtoull(text, NULL, 10);
    return n < SUBSETS_MAX ? n : SUBSETS_MAX;
}

static bool is_deep(void)
{
    return getenv("DAYBOOK_SIM_DEEP") != NULL;
}

static struct world_cut end_of(uint64_t number, uint64_t step)
{
    static const struct world_cut fixed[ENDS_FIXED] = {
        {.name = "nothing", .profile = SIM_KEEP_NOTHING},
        {.name = "all", .profile = SIM_KEEP_ALL},
        {.name = "last-write", .profile = SIM_KEEP_LAST_WRITE},
        {.name = "kill", .kill = true},
    };
    if (number < ENDS_FIXED) {
        return fixed[number];
    }
    return (struct world_cut){
        .name = "subset", .profile = SIM_KEEP_SUBSET, .seed = step * SUBSETS_MAX + number};
}

/* ---- one case ------------------------------------------------------------------------------------ */

#define NO_STEP UINT64_MAX

/* Names a run down to its last bit: what a failure prints and --case takes. */
struct run_case {
    const struct scenario *scenario;
    size_t trouble;
    uint64_t trouble_nth;
    uint64_t cut;          /* step at which the process dies; NO_STEP: at the end */
    uint64_t end;          /* how */
    uint64_t recovery_cut; /* step of the recovery at which it dies again; NO_STEP: it does not */
    uint64_t recovery_end;
};

static void print_case(const struct run_case *c, char *text, size_t size)
{
    int n = snprintf(text, size, "--case %s --end %" PRIu64, c->scenario->name, c->end);
    if (c->cut != NO_STEP) {
        n += snprintf(text + n, size - (size_t)n, " --cut %" PRIu64, c->cut);
    }
    if (c->trouble != NO_TROUBLE) {
        n += snprintf(text + n, size - (size_t)n, " --trouble %s --nth %" PRIu64,
                      troubles[c->trouble].name, c->trouble_nth);
    }
    if (c->recovery_cut != NO_STEP) {
        snprintf(text + n, size - (size_t)n, " --recovery-cut %" PRIu64 " --recovery-end %" PRIu64,
                 c->recovery_cut, c->recovery_end);
    }
}

/* Where the failure of a sweep is told: the first one ends it. */
struct verdict {
    bool failed;
    uint64_t cases;
    char text[1024];
};

static bool report(struct verdict *v, const struct run_case *c, const struct world *w)
{
    char line[256];
    print_case(c, line, sizeof line);
    snprintf(v->text, sizeof v->text, "%s\n#   again: test-sim-crash %s --trace", w->failure, line);
    v->failed = true;
    return false;
}

/* Runs the scenario up to its cut, drops the journal, and leaves the disk as the process left it. */
static struct world *reach(const struct run_case *c, FILE *trace)
{
    struct world *w = world_new(c->scenario->retention);
    if (c->cut != NO_STEP) {
        w->disk->crash_at = w->disk->steps + c->cut;
    }
    if (c->trouble != NO_TROUBLE) {
        struct sim_injection injection = troubles[c->trouble].injection;
        injection.nth = c->trouble_nth;
        sim_inject(w->disk, injection);
        w->temper = troubles[c->trouble].temper;
        w->troubled = true;
    }
    w->disk->trace = trace;
    c->scenario->run(w);
    if (w->journal != NULL) {
        dbk_log_abandon(w->journal);
        w->journal = NULL;
    }
    return w;
}

/* Opens after the crash and dies again at the given step. Returns whether it got that far. */
static bool reach_in_recovery(struct world *w, uint64_t step)
{
    w->disk->crash_at = w->disk->steps + step;
    world_open(w);
    if (w->journal != NULL) {
        dbk_log_abandon(w->journal);
        w->journal = NULL;
    }
    return w->disk->dead;
}

static bool run_case_again(const struct run_case *c, FILE *trace, struct verdict *v)
{
    struct world *w = reach(c, trace);
    struct world_cut end = end_of(c->end, c->cut);
    if (w->failure[0] == 0) {
        world_crash(w, &end);
    }
    if (w->failure[0] == 0 && c->recovery_cut != NO_STEP) {
        if (trace != NULL) {
            fprintf(trace, "-- recovery\n");
        }
        (void)reach_in_recovery(w, c->recovery_cut);
        end = end_of(c->recovery_end, c->recovery_cut);
        world_crash(w, &end);
    }
    if (trace != NULL) {
        fprintf(trace, "-- check\n");
    }
    bool well = w->failure[0] == 0 && world_check(w);
    if (!well) {
        report(v, c, w);
    }
    world_free(w);
    return well;
}

/* Ends one reached world in every way and checks each. */
static bool try_ends(const struct world *reached, struct run_case *c, uint64_t ends,
                     uint64_t stride, struct verdict *v)
{
    for (c->end = 0; c->end < ends && !v->failed; c->end += stride) {
        struct world *w = world_clone(reached);
        struct world_cut end = end_of(c->end, c->cut);
        world_crash(w, &end);
        v->cases++;
        if (!world_check(w)) {
            report(v, c, w);
        }
        world_free(w);
    }
    return !v->failed;
}

/* ---- sweeps -------------------------------------------------------------------------------------- */

static struct run_case plain_case(const struct scenario *s)
{
    return (struct run_case){
        .scenario = s, .trouble = NO_TROUBLE, .cut = NO_STEP, .recovery_cut = NO_STEP};
}

/* Every step of a scenario, every end. */
static void sweep_cuts(const struct scenario *s, struct verdict *v)
{
    struct run_case c = plain_case(s);
    bool died = true;
    for (c.cut = 1; died && !v->failed; c.cut += STEP_STRIDE) {
        struct world *w = reach(&c, NULL);
        died = w->disk->dead;
        if (w->failure[0] != 0) {
            report(v, &c, w);
        } else {
            try_ends(w, &c, ENDS_FIXED + subset_count(), 1, v);
        }
        world_free(w);
    }
}

/* Every trouble at every step that it can hit. */
static void sweep_trouble(const struct scenario *s, size_t trouble, struct verdict *v)
{
    struct run_case c = plain_case(s);
    struct world *dry = reach(&c, NULL);
    enum sim_call call = troubles[trouble].injection.call;
    uint64_t last = call == SIM_ANY ? dry->disk->steps : dry->disk->calls[call];
    world_free(dry);
    c.trouble = trouble;
    for (c.trouble_nth = 1; c.trouble_nth <= last && !v->failed; c.trouble_nth += STEP_STRIDE) {
        struct world *w = reach(&c, NULL);
        if (w->failure[0] != 0) {
            report(v, &c, w);
        } else {
            try_ends(w, &c, ENDS_FIXED, is_deep() ? 1 : 3, v); /* 3: nothing, kill */
        }
        world_free(w);
    }
}

/* Every step of the recovery of a crashed world, every end. */
static void cut_recovery(const struct world *crashed, struct run_case *c, struct verdict *v)
{
    bool died = true;
    for (c->recovery_cut = 1; died && !v->failed; c->recovery_cut += STEP_STRIDE) {
        struct world *w = world_clone(crashed);
        died = reach_in_recovery(w, c->recovery_cut);
        for (c->recovery_end = 0; c->recovery_end < ENDS_FIXED + subset_count() && !v->failed;
             c->recovery_end++) {
            struct world *twin = world_clone(w);
            struct world_cut end = end_of(c->recovery_end, c->recovery_cut);
            world_crash(twin, &end);
            v->cases++;
            if (!world_check(twin)) {
                report(v, c, twin);
            }
            world_free(twin);
        }
        world_free(w);
    }
}

/* The recovery after one crash of a scenario, or, deep, after every ninth; how it crashed takes turns. */
static void sweep_recovery(const struct scenario *s, uint64_t turn, struct verdict *v)
{
    static const uint64_t ends[] = {5, 1, 6, 0, 7, 3}; /* subsets between all, nothing and kill */
    struct run_case c = plain_case(s);
    struct world *dry = reach(&c, NULL);
    uint64_t steps = dry->disk->steps;
    world_free(dry);
    uint64_t stride = is_deep() ? 9 : steps;
    for (c.cut = is_deep() ? stride : steps * 3 / 5; c.cut < steps && !v->failed; c.cut += stride) {
        c.recovery_cut = NO_STEP;
        struct world *crashed = reach(&c, NULL);
        c.end = ends[turn++ % (sizeof ends / sizeof ends[0])];
        struct world_cut end = end_of(c.end, c.cut);
        world_crash(crashed, &end);
        cut_recovery(crashed, &c, v);
        world_free(crashed);
    }
}

/* ---- rot: what must be refused -------------------------------------------------------------------- */

/* The groups of the first segment: a header starts each one, its length leads to the next. */
static uint32_t find_groups(const struct world *w, uint64_t *ret_offsets, uint32_t max)
{
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(w->disk, SIM_MEDIUM, SEGMENT_1, &size);
    uint64_t at = BLOCK_BYTES;
    uint32_t count = 0;
    while (bytes != NULL && at + BLOCK_BYTES <= size && count < max &&
           dbk_get_u32(bytes + at + 4) != 0) {
        ret_offsets[count++] = at;
        at += dbk_round_up(GROUP_HEADER_BYTES + dbk_get_u32(bytes + at + 32), BLOCK_BYTES);
    }
    return count;
}

/* A journal with some groups, all of them synced and each but the last proved by a later one. */
static struct world *synced_world(void)
{
    struct world *w = world_new(RETAIN_ALL);
    world_open(w);
    for (int i = 0; i < 6; i++) {
        world_append(w, 1, 300);
    }
    if (w->journal != NULL) {
        dbk_log_abandon(w->journal);
        w->journal = NULL;
    }
    sim_power_cut(w->disk, SIM_KEEP_NOTHING, 0);
    return w;
}

/* Opening must refuse and leave every byte as it is. */
static void must_refuse(struct world *w, const char *what, struct verdict *v)
{
    char where[256];
    sim_drop_caches(w->disk);
    struct sim_disk *before = sim_disk_clone(w->disk);
    struct daybook_error err = {0};
    struct daybook_log_options options = world_options(w);
    struct daybook_journal *journal = NULL;
    enum daybook_code code = dbk_log_open(&options, &w->disk->os, &journal, &err);
    v->cases++;
    if (code != DAYBOOK_DAMAGED) {
        snprintf(v->text, sizeof v->text, "%s: open answered %s %s", what, daybook_code_name(code),
                 err.message);
        v->failed = true;
    } else if (sim_differs(before, w->disk, SIM_CACHE, where, sizeof where)) {
        snprintf(v->text, sizeof v->text, "D8: %s: the refused open changed %s", what, where);
        v->failed = true;
    }
    if (journal != NULL) {
        dbk_log_abandon(journal);
    }
    sim_disk_free(before);
}

/* D7: damage below a proof of durability is never cut off. */
static void rot_below_proof(struct verdict *v)
{
    struct world *sound = synced_world();
    uint64_t offsets[16];
    uint32_t count = find_groups(sound, offsets, 16);
    if (sound->failure[0] != 0 || count < 4) {
        snprintf(v->text, sizeof v->text, "%s (%" PRIu32 " groups)", sound->failure, count);
        v->failed = true;
    }
    for (uint32_t i = 0; i + 1 < count && !v->failed; i++) {
        struct world *w = world_clone(sound);
        sim_flip_bit(w->disk, SEGMENT_1, offsets[i] + 9, 3);
        must_refuse(w, "a bit of a proved group header", v);
        world_free(w);
        w = world_clone(sound);
        sim_zero_sector(w->disk, SEGMENT_1, offsets[i] / SIM_SECTOR_BYTES);
        if (!v->failed) {
            must_refuse(w, "a zeroed sector of a proved group", v);
        }
        world_free(w);
    }
    world_free(sound);
}

/* D2: bytes that were right at another place. */
static void misplaced_group(struct verdict *v)
{
    struct world *sound = synced_world();
    uint64_t offsets[16];
    uint32_t count = find_groups(sound, offsets, 16);
    if (sound->failure[0] != 0 || count < 4) {
        snprintf(v->text, sizeof v->text, "%s (%" PRIu32 " groups)", sound->failure, count);
        v->failed = true;
    }
    uint64_t end = count == 0 ? BLOCK_BYTES : offsets[count - 1] + BLOCK_BYTES;
    for (uint32_t i = 1; i < count && !v->failed; i++) {
        struct world *w = world_clone(sound);
        for (uint64_t k = 0; k < BLOCK_BYTES / SIM_SECTOR_BYTES; k++) {
            sim_copy_sector(w->disk, SEGMENT_1, end / SIM_SECTOR_BYTES + k,
                            offsets[i] / SIM_SECTOR_BYTES + k);
        }
        must_refuse(w, "a group once more behind the last one", v);
        world_free(w);
    }
    world_free(sound);
}

/* ---- all sweeps by name -------------------------------------------------------------------------- */

static void cuts_append(struct verdict *v)
{
    sweep_cuts(&scenarios[0], v);
}
static void cuts_batch(struct verdict *v)
{
    sweep_cuts(&scenarios[1], v);
}
static void cuts_switch(struct verdict *v)
{
    sweep_cuts(&scenarios[2], v);
}
static void cuts_acknowledge(struct verdict *v)
{
    sweep_cuts(&scenarios[3], v);
}
static void cuts_trim(struct verdict *v)
{
    sweep_cuts(&scenarios[4], v);
}
static void cuts_close(struct verdict *v)
{
    sweep_cuts(&scenarios[5], v);
}
static void cuts_checkpoint(struct verdict *v)
{
    sweep_cuts(&scenarios[6], v);
}
static void cuts_forget(struct verdict *v)
{
    sweep_cuts(&scenarios[7], v);
}
static void cuts_recovery(struct verdict *v)
{
    for (size_t i = 0; i < SCENARIOS && !v->failed; i++) {
        sweep_recovery(&scenarios[i], i, v);
    }
}
static void trouble_everywhere(struct verdict *v)
{
    for (size_t i = 0; i < SCENARIOS && !v->failed; i++) {
        for (size_t t = 0; t < TROUBLES && !v->failed; t++) {
            sweep_trouble(&scenarios[i], t, v);
        }
    }
}
static void short_writes(struct verdict *v)
{
    sweep_trouble(&scenarios[0], trouble_named("short-write"), v);
    if (!v->failed) {
        sweep_trouble(&scenarios[1], trouble_named("short-write"), v);
    }
}
static void failed_syncs(struct verdict *v)
{
    sweep_trouble(&scenarios[0], trouble_named("failed-sync"), v);
    if (!v->failed) {
        sweep_trouble(&scenarios[2], trouble_named("failed-sync"), v);
    }
}

struct sweep {
    const char *name;
    void (*run)(struct verdict *v);
};

/* The order in which a fault meets them: the quick and pointed ones first. */
static const struct sweep sweeps[] = {
    {"cut at every step: append", cuts_append},
    {"short write at every write", short_writes},
    {"failed fdatasync at every one", failed_syncs},
    {"rot below a proof", rot_below_proof},
    {"a group at another place", misplaced_group},
    {"cut at every step: indexes and checkpoints", cuts_checkpoint},
    {"cut at every step: batch append", cuts_batch},
    {"cut at every step: segment switch", cuts_switch},
    {"cut at every step: acknowledge", cuts_acknowledge},
    {"cut at every step: trim", cuts_trim},
    {"cut at every step: close and reopen", cuts_close},
    {"cut at every step: checkpoints while segments go", cuts_forget},
    {"cut at every step: recovery of a recovery", cuts_recovery},
    {"every trouble at every step", trouble_everywhere},
};
#define SWEEPS (sizeof sweeps / sizeof sweeps[0])

static void run_sweep(void **state)
{
    const struct sweep *s = *state;
    struct verdict v = {0};
    s->run(&v);
    if (v.failed) {
        print_message("# %s: %s\n", s->name, v.text);
        fail_msg("%s", v.text);
    }
    print_message("# %s: %" PRIu64 " cases\n", s->name, v.cases);
    assert_true(v.cases > 0);
}

static void skip_sweep(void **state)
{
    (void)state;
    print_message("# SKIP: not asked for\n");
    skip();
}

/* All, or those whose name has `part` in it. */
static int run_sweeps(const char *part)
{
    struct CMUnitTest tests[SWEEPS];
    struct sweep copies[SWEEPS];
    memcpy(copies, sweeps, sizeof sweeps);
    for (size_t i = 0; i < SWEEPS; i++) {
        tests[i] = (struct CMUnitTest){copies[i].name, run_sweep, NULL, NULL, &copies[i]};
    }
    if (part != NULL) {
        for (size_t i = 0; i < SWEEPS; i++) {
            tests[i].test_func = strstr(copies[i].name, part) != NULL ? run_sweep : skip_sweep;
        }
    }
    return cmocka_run_group_tests_name("sim-crash", tests, NULL, NULL);
}

/* ---- the fault table ----------------------------------------------------------------------------- */

#ifdef DBK_FAULTS

static const char *const promises[DBK_FAULT_COUNT] = {
    [DBK_FAULT_NO_FDATASYNC] = "A1: accepted survives the loss of power",
    [DBK_FAULT_ANSWER_BEFORE_SYNC] = "A1: answered when durable, not before",
    [DBK_FAULT_NO_DIR_FSYNC] = "A1: a segment's name is durable before it is used",
    [DBK_FAULT_SHORT_WRITE_IGNORED] = "A1: what a short write left out is written",
    [DBK_FAULT_CRC_WITHOUT_PLACE] = "D2: right bytes at a wrong place are no event",
    [DBK_FAULT_APPEND_INTO_CRASHED] = "D8: a crashed segment is never written on",
    [DBK_FAULT_TRUNCATE_DAMAGE] = "D7: damage below a proof is refused, not cut off",
    [DBK_FAULT_RETRY_FAILED_SYNC] = "D9: after a failed sync nothing is believed",
    [DBK_FAULT_RENAME_BEFORE_FSYNC] = "D1: what has its final name is whole",
    [DBK_FAULT_CHECKPOINT_AHEAD] = "D1: a checkpoint describes no more than the durable log",
};

/* One sweep under one fault in a process of its own: a fault may end it by an assertion or hang it.
 * Returns whether it was noticed; `text` says how. */
static bool caught(enum dbk_fault fault, const struct sweep *s, char *text, size_t size)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0) {
        abort();
    }
    pid_t child = fork();
    if (child < 0) {
        abort();
    }
    if (child == 0) {
        struct verdict v = {0};
        close(ends[0]);
        alarm(FAULT_SECONDS_MAX);
        dbk_fault_set(fault);
        s->run(&v);
        ssize_t written = write(ends[1], v.text, strlen(v.text));
        _exit(written < 0 || v.failed ? 1 : 0);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, size - 1);
    text[got > 0 ? got : 0] = 0;
    close(ends[0]);
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        abort();
    }
    if (WIFSIGNALED(status)) {
        snprintf(text, size, "the process ended by signal %d", WTERMSIG(status));
        return WTERMSIG(status) == SIGABRT; /* a hang is no answer */
    }
    text[strcspn(text, "\n")] = 0;
    return WEXITSTATUS(status) == 1;
}

static int run_faults(void)
{
    int faults = 0;
    int missed = 0;
    printf("%-20s | %-50s | caught by\n", "fault", "promise");
    for (int f = DBK_FAULT_NONE + 1; f < DBK_FAULT_COUNT; f++) {
        char text[1024] = "";
        size_t i = 0;
        if (promises[f] == NULL) {
            continue; /* not of the disk: tests/canary/run */
        }
        faults++;
        while (i < SWEEPS && !caught((enum dbk_fault)f, &sweeps[i], text, sizeof text)) {
            i++;
        }
        printf("%-20s | %-50s | %s%s%.100s\n", dbk_fault_name((enum dbk_fault)f), promises[f],
               i < SWEEPS ? sweeps[i].name : "NOT CAUGHT", i < SWEEPS ? ": " : "", text);
        missed += i == SWEEPS ? 1 : 0;
    }
    printf("%d of %d faults caught\n", faults - missed, faults);
    return missed == 0 ? 0 : 1;
}

static bool set_fault(const char *name)
{
    for (int f = DBK_FAULT_NONE + 1; f < DBK_FAULT_COUNT; f++) {
        if (strcmp(dbk_fault_name((enum dbk_fault)f), name) == 0) {
            dbk_fault_set((enum dbk_fault)f);
            return true;
        }
    }
    return false;
}

#else

static int run_faults(void)
{
    printf("1..0 # SKIP built without -Dfaults=true\n");
    return 77;
}

static bool set_fault(const char *name)
{
    (void)name;
    return false;
}

#endif

/* ---- the command line ---------------------------------------------------------------------------- */

static int usage(const char *what)
{
    fprintf(stderr,
            "test-sim-crash: %s\n"
            "usage: test-sim-crash [--faults | --fault NAME] [--sweep PART] [--case SCENARIO --end "
            "N [--cut N]\n"
            "       [--trouble NAME --nth N] [--recovery-cut N --recovery-end N] [--trace]]\n",
            what);
    return 2;
}

static const struct scenario *scenario_named(const char *name)
{
    for (size_t i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    return NULL;
}

/* Reads one option with a value into the case. */
static bool read_option(struct run_case *c, const char *option, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(option, "--case") == 0) {
        c->scenario = scenario_named(value);
        return c->scenario != NULL;
    }
    if (strcmp(option, "--trouble") == 0) {
        c->trouble = trouble_named(value);
        return c->trouble != NO_TROUBLE;
    }
    if (strcmp(option, "--fault") == 0) {
        return set_fault(value);
    }
    struct {
        const char *name;
        uint64_t *field;
    } numbers[] = {{"--cut", &c->cut},
                   {"--end", &c->end},
                   {"--nth", &c->trouble_nth},
                   {"--recovery-cut", &c->recovery_cut},
                   {"--recovery-end", &c->recovery_end}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(option, numbers[i].name) == 0) {
            *numbers[i].field = number;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct run_case c = plain_case(NULL);
    FILE *trace = NULL;
    const char *part = NULL;
    /* A journal is opened some hundred thousand times: its memory is kept for the next one. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 28);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 29);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--faults") == 0) {
            return run_faults();
        }
        if (strcmp(argv[i], "--trace") == 0) {
            trace = stdout;
        } else if (strcmp(argv[i], "--sweep") == 0 && i + 1 < argc) {
            part = argv[++i];
        } else if (i + 1 == argc || !read_option(&c, argv[i], argv[i + 1])) {
            return usage(argv[i]);
        } else {
            i++;
        }
    }
    if (c.scenario == NULL) {
        return run_sweeps(part);
    }
    struct verdict v = {0};
    bool well = run_case_again(&c, trace, &v);
    printf("%s\n", well ? "all is well" : v.text);
    return well ? 0 : 1;
}
