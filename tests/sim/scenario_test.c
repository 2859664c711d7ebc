/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripted lives (play.h) of a journal on the simulated disk: cut at every I/O step, in every way that a process or
 * power ends, and hit by every error at every I/O step, once and for good. After each the journal is held against
 * the oracle.
 *
 *   test-sim-scenarios                     everything must hold (TAP)
 *   test-sim-scenarios --only PART         only what has PART in its name, and then every step of it
 *   test-sim-scenarios --case NAME ...     one case again, as a failure printed it; --trace shows the I/O
 *   test-sim-scenarios --campaign N --seed S   N crash-recoveries at drawn steps, in drawn ways; prints what ran
 *
 * The short form (a share of the steps and ends) is what runs without DAYBOOK_SIM_DEEP.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kept_memory.h"
#include "play.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 41u /* a sanitizer is there for the memory, and slow */
#else
#define SLOW 3u /* the short form: every third step */
#endif
#define NO_STEP UINT64_MAX

/* ---- the scripts ------------------------------------------------------------------------------------- */

static const struct daybook_start oldest = {DAYBOOK_START_OLDEST, 0};

#define AUDIT 0u
#define BILLING 1u
#define COPY 2u

/* A1: one event after the other, small and large, and known ones in between (A2, A3). */
static void run_append(struct play *play)
{
    static const uint32_t sizes[] = {60, 300, 3900, 64, 7900, 1200};
    play_open(play);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        play_append(play, 1, sizes[i]);
        play_pass(play, 1000);
    }
    play_repeat(play, 1, false);
    play_repeat(play, 1, true);
    play_pass(play, 200000);
    play_append(play, 1, 100);
}

/* A6: several at once. */
static void run_batch(struct play *play)
{
    play_open(play);
    play_append(play, 3, 200);
    play_pass(play, 1000);
    play_append(play, 12, 900);
    play_append(play, 1, 200);
    play_append(play, 8, 50);
}

/* A6: more than one group holds; cut in its middle a part is there, in order. */
static void run_large_batch(struct play *play)
{
    play_open(play);
    play_append(play, 2, 200);
    play_append(play, 14, 2500);
    play_pass(play, 1000);
    play_append(play, 8, 7000);
}

/* The log goes on into a second and a third segment. */
static void run_switch(struct play *play)
{
    play_open(play);
    for (int i = 0; i < 16; i++) {
        play_append(play, 1, 7500);
        play_pass(play, 1000);
    }
}

/* What a LINK restates: consumers, counters, leases of dropped events. */
static void run_seal(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 6, 300);
    play_claim(play, BILLING, 4, 1);
    play_quarantine(play, BILLING, 0);
    play_ack(play, BILLING, 1, 1);
    for (int i = 0; i < 7; i++) {
        play_append(play, 1, 7500);
    }
    play_pass(play, 1000);
    play_register(play, COPY, (struct daybook_start){DAYBOOK_START_NOW, 0});
    play_claim(play, BILLING, 4, 2);
    for (int i = 0; i < 7; i++) {
        play_append(play, 1, 7500);
    }
    play_pass(play, 200000);
    play_ack(play, BILLING, 0, 2);
}

/* K1, K7: claims and verdicts between appends, some synced by an append, some by the timer. */
static void run_acknowledge(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 6, 300);
    play_claim(play, BILLING, 4, 1);
    play_ack(play, BILLING, 0, 2);
    play_ack(play, BILLING, 2, 1);
    play_append(play, 2, 300);
    play_claim(play, BILLING, 3, 2);
    play_ack(play, BILLING, 0, 2);
    play_pass(play, 200000);
    play_claim(play, BILLING, 8, 8);
    play_ack(play, BILLING, 0, 8);
}

/* R1, X1: attempts given back, leases made longer and given up, events handed out again. */
static void run_refund(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 6, 200);
    play_claim(play, BILLING, 5, 1);
    play_refund(play, BILLING, 0, 2);
    play_extend(play, BILLING, 2, 1, 60000);
    play_extend(play, BILLING, 3, 1, 0);
    play_claim(play, BILLING, 5, 1);
    play_pass(play, 31 * SECOND_US);
    play_claim(play, BILLING, 5, 1);
    play_refund(play, BILLING, 0, 1);
    play_ack(play, BILLING, 1, 2);
}

/* C6: what a claim condemns is durable before the claim is answered. */
static void run_exhausted(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 4, 200);
    for (int i = 0; i < 3; i++) {
        play_claim(play, BILLING, 3, 1);
        play_pass(play, 31 * SECOND_US);
    }
    play_ack(play, BILLING, 0, 1);
    play_append(play, 1, 200);
}

/* K4, O1: set aside, released, discarded; the trail. */
static void run_quarantine(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_register(play, AUDIT, oldest);
    play_append(play, 6, 200);
    play_claim(play, BILLING, 5, 1);
    play_quarantine(play, BILLING, 0);
    play_quarantine(play, BILLING, 1);
    play_quarantine(play, BILLING, 1);
    play_release(play, BILLING, 4);
    play_discard(play, BILLING, 3);
    play_discard(play, AUDIT, 3);
    play_ack(play, BILLING, 2, 1);
    play_claim(play, BILLING, 3, 1);
}

/* P3: what is past its window goes. */
static void run_prune(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 8, 300);
    play_claim(play, BILLING, 8, 8);
    play_ack(play, BILLING, 1, 6);
    play_pass(play, 2 * HOUR_US);
    play_maintain(play);
    play_append(play, 3, 300);
    play_pass(play, 2 * HOUR_US);
    play_append(play, 1, 300);
    play_pass(play, 200000);
}

/* P4: a full journal gives delivered events up, oldest first. */
static void run_reclaim(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 8, 300);
    play_claim(play, BILLING, 6, 8);
    play_ack(play, BILLING, 0, 3);
    for (int i = 0; i < 5; i++) {
        play_append(play, 1, 300);
    }
    play_ack(play, BILLING, 3, 3);
    play_append(play, 3, 300);
    play_pass(play, 200000);
}

/* P5: a full journal drops the oldest, leased or not, and never what is quarantined (P6). */
static void run_drop(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 8, 300);
    play_claim(play, BILLING, 4, 1);
    play_quarantine(play, BILLING, 3);
    for (int i = 0; i < 6; i++) {
        play_append(play, 1, 300);
    }
    play_ack(play, BILLING, 0, 4);
    play_claim(play, BILLING, 4, 1);
    play_append(play, 2, 300);
    play_pass(play, 200000);
}

/* C1, O1: consumers come, go back, and go. */
static void run_consumers(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 5, 200);
    play_register(play, AUDIT, (struct daybook_start){DAYBOOK_START_NOW, 0});
    play_register(play, COPY, (struct daybook_start){DAYBOOK_START_POSITION, 3});
    play_claim(play, BILLING, 5, 8);
    play_ack(play, BILLING, 0, 3);
    play_claim(play, COPY, 2, 1);
    play_rewind(play, BILLING);
    play_ack(play, BILLING, 4, 1);
    play_claim(play, BILLING, 3, 1);
    play_retire(play, COPY);
    play_append(play, 2, 200);
    play_claim(play, COPY, 2, 1);
}

/* 4.3: segments in which nothing is held any more go, and the trail moves on. */
static void run_trim(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_rewind(play, BILLING);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 7; i++) {
            play_append(play, 1, 7500);
            play_pass(play, 1000);
        }
        play_claim(play, BILLING, 60, 32);
        play_ack(play, BILLING, 0, 7);
        play_pass(play, 2 * HOUR_US);
        play_maintain(play);
        play_pass(play, 1500000);
        play_pass(play, 1500000);
    }
    play_append(play, 1, 100);
}

/* Two old events stay while all around them goes: they are copied, and segments go by the checkpoints. What a repair
 * makes of that has them too. */
static void run_relocate(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 2, 300);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++) {
            play_append(play, 1, 7500);
        }
        play_claim(play, BILLING, 60, 32);
        play_ack(play, BILLING, 2, 7);
        play_pass(play, 2 * HOUR_US);
        play_maintain(play);
        play_pass(play, 90 * SECOND_US);
        play_append(play, 1, 100);
        play_pass(play, 90 * SECOND_US);
    }
    play_claim(play, BILLING, 3, 1);
    play_ack(play, BILLING, 0, 1);
    play_close(play);
    play_repair(play);
    play_open(play);
    play_append(play, 1, 300);
}

/* A torn tail is recovered, and the recovery is cut like anything else. */
static void run_recovery(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 3, 300);
    play_claim(play, BILLING, 2, 1);
    play_ack(play, BILLING, 0, 1);
    play_cut_and_open(play, (struct play_cut){.profile = SIM_KEEP_SUBSET, .seed = 3});
    play_append(play, 2, 3000);
    play_claim(play, BILLING, 2, 1);
    play_cut_and_open(play, (struct play_cut){.kill = true});
    play_append(play, 1, 300);
}

/* Crash after crash, before anything was written in between. */
static void run_recoveries(struct play *play)
{
    play_open(play);
    play_append(play, 3, 300);
    for (uint64_t i = 0; i < 4; i++) {
        play_cut_and_open(
            play, (struct play_cut){.profile = i % 2 == 0 ? SIM_KEEP_NOTHING : SIM_KEEP_PREFIX,
                                    .seed = i});
    }
    play_append(play, 1, 300);
}

/* A4, 2.6: the disk is full; delivery goes on, and appends when there is room again. */
static void run_disk_full(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 2, 300);
    play_space(play, 20000);
    for (int i = 0; i < 14; i++) {
        play_append(play, 1, 7500);
        play_pass(play, 2 * SECOND_US);
    }
    play_claim(play, BILLING, 8, 8);
    play_ack(play, BILLING, 0, 6);
    play_space(play, UINT64_C(1) << 30);
    play_pass(play, 2 * SECOND_US);
    play_append(play, 2, 3000);
    play_pass(play, 2 * SECOND_US);
}

/* P1, P4: max_bytes is reached; what is delivered goes, segment by segment. */
static void run_bytes_full(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play->scarce = true;
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 10; i++) {
            play_append(play, 1, 7500);
        }
        play_claim(play, BILLING, 60, 32);
        play_ack(play, BILLING, 0, 10);
        play_pass(play, 2 * SECOND_US);
    }
}

/* An orderly end, and going on behind it. */
static void run_close(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 2, 300);
    play_claim(play, BILLING, 1, 1);
    play_ack(play, BILLING, 0, 1);
    play_close(play);
    play_open(play);
    play_append(play, 2, 300);
    play_claim(play, BILLING, 2, 1);
    play_close(play);
    play_open(play);
    play_append(play, 1, 300);
}

/* A copy of a running journal is whole or has no name. */
static void run_backup(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 4, 3000);
    play_backup(play);
    for (int i = 0; i < 8; i++) {
        play_append(play, 1, 7500);
        play_pass(play, 1000);
    }
    play_claim(play, BILLING, 3, 1);
    play_backup(play);
    play_append(play, 1, 300);
}

/* A repair only reads what it repairs; what it makes is whole or has no name. */
static void run_repair(struct play *play)
{
    play_open(play);
    play_register(play, BILLING, oldest);
    play_append(play, 4, 3000);
    play_claim(play, BILLING, 3, 1);
    play_quarantine(play, BILLING, 0);
    play_ack(play, BILLING, 1, 1);
    play_close(play);
    play_repair(play);
    play_open(play);
    play_append(play, 1, 300);
}

/* 1.7: an idle journal says how far it is durable. */
static void run_idle(struct play *play)
{
    play_open(play);
    play_append(play, 1, 300);
    play_pass(play, 150000);
    play_pass(play, 150000);
    play_register(play, BILLING, oldest);
    play_claim(play, BILLING, 1, 1);
    play_pass(play, 150000);
    play_pass(play, 150000);
    play_ack(play, BILLING, 0, 1);
    play_pass(play, 150000);
    play_append(play, 1, 300);
    play_pass(play, 150000);
}

/* ---- drawn scripts: what a campaign plays besides ---- */

static uint64_t drawn_from; /* names the script that is played */

static void ask_drawn(struct play *play, uint64_t *state)
{
    static const int64_t passes[] = {1000, 150000, 200000, 2 * SECOND_US, 2 * HOUR_US};
    unsigned consumer = (unsigned)(sim_draw(state) % 3);
    uint32_t a = (uint32_t)(sim_draw(state) % 8);
    uint32_t b = (uint32_t)(sim_draw(state) % 4);
    uint32_t number = (uint32_t)(sim_draw(state) % (play->numbers + 1));
    /* Whether a batch may drop events of its own the contract leaves open. */
    bool alone = play->script->capacity.policy == DAYBOOK_POLICY_DROP_OLDEST;
    switch (sim_draw(state) % 20) {
    case 0:
    case 1:
    case 2:
        play_append(play, alone ? 1 : 1 + a, 50 + b * 400);
        break;
    case 3:
    case 4:
        play_append(play, alone ? 1 : 1 + b, 7500);
        break;
    case 5:
    case 6:
    case 7:
        play_claim(play, consumer, 1 + a, 1 + b);
        break;
    case 8:
    case 9:
        play_ack(play, consumer, b, 1 + a);
        break;
    case 10:
        play_refund(play, consumer, b, 1 + a);
        break;
    case 11:
        play_extend(play, consumer, b, 1, a * 10000);
        break;
    case 12:
        play_quarantine(play, consumer, b);
        break;
    case 13:
        play_release(play, consumer, number);
        break;
    case 14:
        play_discard(play, consumer, number);
        break;
    case 15:
        play_rewind(play, consumer);
        break;
    case 16:
        play_maintain(play);
        break;
    case 17:
        play_close(play);
        play_open(play);
        break;
    case 18:
        play_retire(play, consumer);
        break;
    default:
        play_pass(play, passes[a % 5]);
        break;
    }
}

static void run_drawn(struct play *play)
{
    uint64_t state = drawn_from;
    uint64_t asks = 4 + sim_draw(&state) % 20;
    play_open(play);
    for (uint64_t i = 0; i < asks; i++) {
        ask_drawn(play, &state);
        play_pass(play, 1000);
    }
}

#define USUAL                                                                                      \
    {                                                                                              \
        .events_max = 200, .retain_acknowledged_us = HOUR_US, .delivery_attempts_max = 100         \
    }
#define FULL(p)                                                                                    \
    {                                                                                              \
        .events_max = 9, .retain_acknowledged_us = 10 * HOUR_US, .delivery_attempts_max = 100,     \
        .policy = (p)                                                                              \
    }

static const struct play_script scripts[] = {
    {.name = "append", .capacity = USUAL, .run = run_append},
    {.name = "batch", .capacity = USUAL, .run = run_batch},
    {.name = "large-batch", .capacity = USUAL, .run = run_large_batch},
    {.name = "switch", .capacity = USUAL, .run = run_switch},
    {.name = "seal", .capacity = USUAL, .run = run_seal},
    {.name = "acknowledge", .capacity = USUAL, .run = run_acknowledge},
    {.name = "refund", .capacity = USUAL, .run = run_refund},
    {.name = "exhausted",
     .capacity = {.events_max = 200, .retain_acknowledged_us = HOUR_US, .delivery_attempts_max = 2},
     .run = run_exhausted},
    {.name = "quarantine", .capacity = USUAL, .run = run_quarantine},
    {.name = "prune", .capacity = USUAL, .run = run_prune},
    {.name = "reclaim", .capacity = FULL(DAYBOOK_POLICY_REFUSE), .run = run_reclaim},
    {.name = "drop", .capacity = FULL(DAYBOOK_POLICY_DROP_OLDEST), .run = run_drop},
    {.name = "consumers", .capacity = USUAL, .run = run_consumers},
    {.name = "trim", .capacity = USUAL, .run = run_trim},
    {.name = "relocate", .capacity = USUAL, .run = run_relocate},
    {.name = "recovery", .capacity = USUAL, .run = run_recovery},
    {.name = "recoveries", .capacity = USUAL, .run = run_recoveries},
    {.name = "disk-full", .capacity = USUAL, .run = run_disk_full},
    {.name = "bytes-full",
     .capacity = {.events_max = 200,
                  .retain_acknowledged_us = 10 * HOUR_US,
                  .delivery_attempts_max = 100},
     .bytes_max = 8u * PLAY_SEGMENT_BYTES,
     .run = run_bytes_full},
    {.name = "close", .capacity = USUAL, .run = run_close},
    {.name = "backup", .capacity = USUAL, .run = run_backup},
    {.name = "repair", .capacity = USUAL, .run = run_repair},
    {.name = "idle", .capacity = USUAL, .run = run_idle},
};
#define SCRIPTS (sizeof scripts / sizeof scripts[0])

static const struct play_script drawn_scripts[] = {
    {.name = "drawn", .capacity = USUAL, .run = run_drawn},
    {.name = "drawn-full", .capacity = FULL(DAYBOOK_POLICY_REFUSE), .run = run_drawn},
    {.name = "drawn-drop", .capacity = FULL(DAYBOOK_POLICY_DROP_OLDEST), .run = run_drawn},
};
#define DRAWN (sizeof drawn_scripts / sizeof drawn_scripts[0])

/* ---- ends ------------------------------------------------------------------------------------------------ */

#define ENDS_FIXED 4u

/* End 0 to 3, then drawn ones of four kinds in turn. */
static struct play_cut end_of(uint64_t number, uint64_t step)
{
    static const struct play_cut fixed[ENDS_FIXED] = {{.profile = SIM_KEEP_NOTHING},
                                                      {.kill = true},
                                                      {.profile = SIM_KEEP_ALL},
                                                      {.profile = SIM_KEEP_LAST_WRITE}};
    static const enum sim_profile drawn[] = {SIM_KEEP_SUBSET, SIM_KEEP_PREFIX, SIM_KEEP_ANY,
                                             SIM_KEEP_PAGES};
    if (number < ENDS_FIXED) {
        return fixed[number];
    }
    return (struct play_cut){.profile = drawn[number % 4], .seed = step * 1024 + number};
}

/* Something was asked for by its name: a fault that shows at one step only must not hide between those that a short
 * form takes. */
static bool chosen;

static bool is_deep(void)
{
    return getenv("DAYBOOK_SIM_DEEP") != NULL;
}

/* Which steps are taken: each, or a share of them. */
static uint64_t stride(void)
{
    return is_deep() || chosen ? 1 : SLOW;
}

static uint64_t drawn_ends(void)
{
    const char *words = getenv("DAYBOOK_SIM_SUBSETS");
    return words != NULL ? strtoull(words, NULL, 10) : 4;
}

/* ---- troubles --------------------------------------------------------------------------------------------- */

struct error_of {
    enum sim_call call;
    int errors[6];
};

/* What each call can answer; 0 ends a list. */
static const struct error_of errors[] = {
    {SIM_OPEN, {EMFILE, EIO, ENOSPC, EROFS}},
    {SIM_CLOSE, {EIO}},
    {SIM_PWRITE, {EIO, ENOSPC, EDQUOT, EFBIG, EROFS}},
    {SIM_PREAD, {EIO}},
    {SIM_FDATASYNC, {EIO, ENOSPC, EDQUOT}},
    {SIM_FSYNC, {EIO, ENOSPC}},
    {SIM_FSYNC_DIR, {EIO, EMFILE}},
    {SIM_FALLOCATE, {ENOSPC, EDQUOT, EFBIG, EOPNOTSUPP}},
    {SIM_FTRUNCATE, {EIO, EROFS}},
    {SIM_RENAME, {EIO, ENOSPC, EROFS}},
    {SIM_UNLINK, {EIO, EROFS}},
    {SIM_MKDIR, {ENOSPC, EROFS}},
    {SIM_LIST, {EIO, EMFILE}},
    {SIM_STAT, {EIO}},
    {SIM_STATFS, {EIO}},
    {SIM_LOCK, {EIO, EMFILE}},
};
#define ERRORS (sizeof errors / sizeof errors[0])

/* How a trouble comes. */
enum manner { ONCE, STICKY, REVERTS, MANNERS };

/* ---- one case --------------------------------------------------------------------------------------------- */

/* Names a life and its end down to the last bit: what a failure prints and --case takes. */
struct life {
    const struct play_script *script;
    uint64_t script_seed; /* of a drawn one; else 0 */
    uint64_t cut;         /* the step at which the process dies; NO_STEP: it does not */
    uint64_t end;
    uint64_t seed; /* of a drawn end; 0: the cut */
    bool troubled;
    struct sim_injection trouble;
    enum manner manner;
};

struct verdict {
    uint64_t cases;
    uint64_t came; /* troubles that came */
    bool failed;
    char text[PAIR_WHY_MAX + 512];
};

static void print_life(const struct life *l, char *text, size_t size)
{
    int n = snprintf(text, size, "--case %s --end %" PRIu64, l->script->name, l->end);
    if (l->script_seed != 0) {
        n += snprintf(text + n, size - (size_t)n, " --script %" PRIu64, l->script_seed);
    }
    if (l->cut != NO_STEP) {
        n += snprintf(text + n, size - (size_t)n, " --cut %" PRIu64, l->cut);
    }
    if (l->seed != 0) {
        n += snprintf(text + n, size - (size_t)n, " --draw %" PRIu64, l->seed);
    }
    if (l->troubled) {
        (void)snprintf(text + n, size - (size_t)n,
                       " --call %d --errno %d --nth %" PRIu64 " --manner %d --short %zu",
                       (int)l->trouble.call, l->trouble.os_errno, l->trouble.nth, (int)l->manner,
                       l->trouble.short_bytes);
    }
}

static void note(struct verdict *v, const struct life *l, const struct play *play)
{
    char line[256];
    if (play->pair.why[0] == '\0' || v->failed) {
        return;
    }
    print_life(l, line, sizeof line);
    (void)snprintf(v->text, sizeof v->text, "%s\n#   again: test-sim-scenarios %s --trace",
                   play->pair.why, line);
    v->failed = true;
}

static bool is_for_want_of_room(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EOPNOTSUPP;
}

static struct play *live(const struct life *l, FILE *trace)
{
    struct play *play = play_new(l->script);
    struct sim_disk *disk = play->pair.subject->disk;
    disk->crash_at = l->cut == NO_STEP ? 0 : l->cut;
    disk->trace = trace;
    if (l->troubled) {
        sim_inject(disk, l->trouble);
        disk->failed_sync_reverts = l->manner == REVERTS;
        play->temper = PLAY_TROUBLED;
        play->scarce = is_for_want_of_room(l->trouble.os_errno);
        play->troubled_call = l->trouble.call;
    }
    play_run(play);
    return play;
}

static void end_life(struct play *play, struct life *l, bool thorough, struct verdict *v)
{
    struct play_cut cut = end_of(l->end, l->seed != 0 ? l->seed : l->cut);
    if (play->pair.why[0] == '\0') {
        v->cases++;
        (void)play_end(play, &cut, thorough);
    }
    note(v, l, play);
}

static uint64_t steps_of(const struct play_script *script)
{
    struct life l = {.script = script, .cut = NO_STEP};
    struct play *play = live(&l, NULL);
    uint64_t steps = play->pair.subject->disk->steps;
    if (play->pair.why[0] != '\0') {
        fail_msg("%s, undisturbed: %s", script->name, play->pair.why);
    }
    play_free(play);
    return steps;
}

/* ---- sweeps ------------------------------------------------------------------------------------------------ */

static void print_verdict(const char *what, const char *name, const struct verdict *v)
{
    print_message("# %s: %s: %" PRIu64 " cases\n", what, name, v->cases);
    if (v->failed) {
        fail_msg("%s: %s", name, v->text);
    }
    assert_true(v->cases > 0);
}

/* Every step of a script, every end. */
static void test_cut_at_every_step(void **state)
{
    const struct play_script *script = *state;
    struct verdict v = {0};
    uint64_t steps = steps_of(script);
    uint64_t ends = ENDS_FIXED + drawn_ends();
    struct life l = {.script = script};
    for (l.cut = 1; l.cut <= steps + 1 && !v.failed; l.cut += stride()) {
        struct play *play = live(&l, NULL);
        note(&v, &l, play);
        for (l.end = 0; l.end < ends && !v.failed; l.end++) {
            end_life(play, &l, is_deep() || (l.cut + l.end) % 8 == 0, &v);
        }
        play_free(play);
    }
    print_verdict("cut at every step", script->name, &v);
}

/* One error at the nth of its calls, and its ends. Returns whether it came. */
static bool try_trouble(struct life *l, struct verdict *v)
{
    struct play *play = live(l, NULL);
    bool came = play->pair.subject->disk->troubles > 0;
    v->came += came ? 1 : 0;
    note(v, l, play);
    for (l->end = 0; l->end < (is_deep() ? 4u : 2u) && !v->failed; l->end++) {
        end_life(play, l, is_deep() || l->trouble.nth % 8 == 0, v);
    }
    play_free(play);
    return came;
}

/* Every one of a call's errors, at its first, second, ... call until there is none. */
static void each_nth(const struct play_script *script, enum sim_call call, int error,
                     enum manner manner, size_t short_bytes, struct verdict *v)
{
    bool shorter = short_bytes > 0;
    struct life l = {.script = script, .cut = NO_STEP, .troubled = true, .manner = manner};
    l.trouble = (struct sim_injection){.call = call, .os_errno = error, .short_bytes = short_bytes};
    l.trouble.trouble = manner == STICKY ? (shorter ? SIM_SHORT_STICKY : SIM_FAIL_STICKY)
                                         : (shorter ? SIM_SHORT_ONCE : SIM_FAIL_ONCE);
    uint64_t every = is_deep() || manner == ONCE ? stride() : stride() * 5;
    bool came = true;
    for (l.trouble.nth = 1; came && !v->failed; l.trouble.nth += every) {
        came = try_trouble(&l, v);
    }
}

static void test_error_at_every_step(void **state)
{
    const struct play_script *script = *state;
    struct verdict v = {0};
    for (size_t i = 0; i < ERRORS && !v.failed; i++) {
        /* Short form: each errno of a call has its turn, the first one always. */
        for (size_t k = 0; k < 6 && errors[i].errors[k] != 0 && !v.failed; k++) {
            bool turn = is_deep() || k == 0 || k == 1 + (size_t)(script - scripts) % 4;
            bool sync = errors[i].call == SIM_FDATASYNC || errors[i].call == SIM_FSYNC;
            for (enum manner m = ONCE; m < MANNERS && turn && !v.failed; m++) {
                if (m != REVERTS || sync) {
                    each_nth(script, errors[i].call, errors[i].errors[k], m, 0, &v);
                }
            }
        }
    }
    for (enum manner m = ONCE; m <= STICKY && !v.failed; m++) {
        each_nth(script, SIM_PWRITE, 0, m, 3584, &v);
        each_nth(script, SIM_PREAD, 0, m, 512, &v);
    }
    print_message("# %" PRIu64 " errors came\n", v.came);
    print_verdict("errors at every step", script->name, &v);
}

/* Rot of every kind, at drawn places of what a script has left behind. */
static void test_rot(void **state)
{
    const struct play_script *script = *state;
    char why[PAIR_WHY_MAX];
    uint64_t count = is_deep() ? 2000 : 120 / SLOW;
    uint64_t refused = 0;
    struct play *play = play_new(script);
    play_run_idle(play);
    assert_string_equal(play->pair.why, "");
    for (uint64_t seed = 1; seed <= count; seed++) {
        bool no = false;
        if (!play_rot(play, seed, &no, why)) {
            fail_msg("%s, rot %" PRIu64 ": %s", script->name, seed, why);
        }
        refused += no ? 1 : 0;
    }
    print_message("# rot: %s: %" PRIu64 " places, %" PRIu64 " refused\n", script->name, count,
                  refused);
    play_free(play);
}

/* ---- a campaign ---------------------------------------------------------------------------------------------- */

/* Crash-recoveries at drawn steps of drawn scripts, ended in drawn ways; several of each life. */
static int run_campaign(uint64_t count, uint64_t seed)
{
    enum { ENDS = 16 };
    struct verdict v = {0};
    kept_memory_begin();
    uint64_t state = seed;
    uint64_t steps[SCRIPTS];
    for (size_t i = 0; i < SCRIPTS; i++) {
        steps[i] = steps_of(&scripts[i]);
    }
    while (v.cases < count && !v.failed) {
        size_t which = (size_t)(sim_draw(&state) % (2 * SCRIPTS));
        struct life l = {.script = &scripts[which % SCRIPTS]};
        uint64_t last = steps[which % SCRIPTS];
        if (which >= SCRIPTS) { /* every other life is a script that was drawn as well */
            l.script = &drawn_scripts[which % DRAWN];
            l.script_seed = drawn_from = sim_draw(&state) | 1;
            last = steps_of(l.script);
        }
        l.cut = 1 + sim_draw(&state) % last;
        struct play *play = live(&l, NULL);
        note(&v, &l, play);
        for (unsigned i = 0; i < ENDS && !v.failed; i++) {
            l.end = i < 2 ? i : ENDS_FIXED + sim_draw(&state) % 4;
            l.seed = sim_draw(&state) | 1;
            end_life(play, &l, sim_draw(&state) % 16 == 0, &v);
        }
        play_free(play);
    }
    printf("%" PRIu64 " crash-recoveries from seed %" PRIu64 ": %s\n", v.cases, seed,
           v.failed ? v.text : "nothing found");
    return v.failed ? 1 : 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

#define SWEEPS 3u

static int run_all(const char *part)
{
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } sweeps[SWEEPS] = {{"cut at every step", test_cut_at_every_step},
                        {"errors at every step", test_error_at_every_step},
                        {"rot", test_rot}};
    struct CMUnitTest tests[SWEEPS * SCRIPTS];
    static char names[SWEEPS * SCRIPTS][64];
    static char filter[80];
    for (size_t i = 0; i < SWEEPS * SCRIPTS; i++) {
        const struct play_script *script = &scripts[i % SCRIPTS];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", sweeps[i / SCRIPTS].name, script->name);
        tests[i] = (struct CMUnitTest){names[i], sweeps[i / SCRIPTS].run, NULL, NULL,
                                       (void *)(uintptr_t)script};
    }
    if (part != NULL) {
        (void)snprintf(filter, sizeof filter, "*%s*", part);
        cmocka_set_test_filter(filter);
    }
    return cmocka_run_group_tests_name("sim-scenarios", tests, NULL, NULL);
}

static const struct play_script *script_named(const char *name)
{
    for (size_t i = 0; i < SCRIPTS; i++) {
        if (strcmp(scripts[i].name, name) == 0) {
            return &scripts[i];
        }
    }
    for (size_t i = 0; i < DRAWN; i++) {
        if (strcmp(drawn_scripts[i].name, name) == 0) {
            return &drawn_scripts[i];
        }
    }
    return NULL;
}

static uint64_t number_of(int argc, char **argv, const char *option, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return strtoull(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

static const char *word_of(int argc, char **argv, const char *option)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

static struct life life_of(int argc, char **argv, const struct play_script *script)
{
    struct life l = {.script = script,
                     .cut = number_of(argc, argv, "--cut", NO_STEP),
                     .end = number_of(argc, argv, "--end", 0),
                     .script_seed = number_of(argc, argv, "--script", 0),
                     .seed = number_of(argc, argv, "--draw", 0),
                     .manner = (enum manner)number_of(argc, argv, "--manner", 0)};
    l.trouble = (struct sim_injection){.call = (enum sim_call)number_of(argc, argv, "--call", 0),
                                       .os_errno = (int)number_of(argc, argv, "--errno", 0),
                                       .nth = number_of(argc, argv, "--nth", 0),
                                       .short_bytes = number_of(argc, argv, "--short", 0)};
    bool shorter = l.trouble.short_bytes > 0;
    l.trouble.trouble = l.manner == STICKY ? (shorter ? SIM_SHORT_STICKY : SIM_FAIL_STICKY)
                                           : (shorter ? SIM_SHORT_ONCE : SIM_FAIL_ONCE);
    l.troubled = l.trouble.nth > 0;
    drawn_from = l.script_seed;
    return l;
}

int main(int argc, char **argv)
{
    const char *name = word_of(argc, argv, "--case");
    uint64_t campaign = number_of(argc, argv, "--campaign", 0);
    /* A journal is opened some hundred thousand times: its memory is kept for the next one. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 28);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 29);
    if (campaign > 0) {
        return run_campaign(campaign, number_of(argc, argv, "--seed", 1));
    }
    if (name == NULL) {
        chosen = word_of(argc, argv, "--only") != NULL;
        return run_all(word_of(argc, argv, "--only"));
    }
    const struct play_script *script = script_named(name);
    if (script == NULL) {
        fprintf(stderr, "test-sim-scenarios: no script %s\n", name);
        return 2;
    }
    struct verdict v = {0};
    struct life l = life_of(argc, argv, script);
    bool trace = strcmp(argv[argc - 1], "--trace") == 0;
    struct play *play = live(&l, trace ? stdout : NULL);
    printf("-- its end: %s\n", play->pair.why);
    note(&v, &l, play);
    end_life(play, &l, true, &v);
    play_free(play);
    printf("%s\n", v.failed ? v.text : "all is well");
    return v.failed ? 1 : 0;
}
