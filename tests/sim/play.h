/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted life of a journal of the log engine on the simulated disk, told to the oracle too.
 *
 * A script asks for one thing after the other, straight through. Once the process is dead nothing is asked any
 * more; where trouble was injected an operation may fail as docs/DURABILITY.md allows, the failed handle is
 * looked at, closed and opened again as the daemon does, what nobody heard the answer of is asked again, and the
 * script goes on. After each answer everything that can be seen is compared.
 *
 * `play_end` ends one life in one way, on a disk of its own, and checks what is left: that what was promised is
 * there, that the rest is what the oracle held when the last group was written that is left (or, of the operation
 * nobody heard the answer of, a part), that a second opening changes nothing, that the journal goes on working as
 * the oracle does, that `verify` finds nothing and no file is left over.
 *
 * The first thing that is wrong is kept in `pair.why`. Threads: one.
 */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include "harness/pair.h"

#define PLAY_PATH "/journal"
#define PLAY_SEGMENT_BYTES 65536u
#define PLAY_LANDED_MAX 48u
#define PLAY_COPIES_MAX 4u

struct play;

struct play_script {
    const char *name;
    struct daybook_capacity capacity;
    uint64_t bytes_max;
    void (*run)(struct play *play);
};

/* Whether operations may fail while the process lives. */
enum play_temper { PLAY_SOUND, PLAY_TROUBLED };

/* How a life ends. */
struct play_cut {
    bool kill; /* SIGKILL: the profile does not count */
    enum sim_profile profile;
    uint64_t seed;
};

struct play_ask; /* one thing that is asked */

struct play {
    struct pair pair;
    const struct play_script *script;
    enum play_temper temper;
    enum sim_call troubled_call;
    bool halted; /* nothing is asked any more */
    bool loose;  /* what of delivery was decided nobody can say: a read failed in a claim */
    bool scarce; /* the script fills the disk: appends may be refused for want of room */
    uint64_t troubles_seen;
    /* What the oracle holds if so much had happened of what nobody heard the answer of; more first. */
    struct daybook_journal *landed[PLAY_LANDED_MAX];
    size_t landed_count;
    bool landed_surely;       /* the last of them has happened */
    struct play_ask *unheard; /* owned; NULL: none */
    struct play_ask *again;   /* owned; what is asked once more, now that the journal is mended */
    uint32_t numbers;         /* events that were made so far */
    uint32_t copies;          /* backups and repairs that were asked for */
    uint64_t copy_events
        [PLAY_COPIES_MAX]; /* what one of them holds at least; UINT64_MAX: nothing was said */
    bool closed;           /* in order */
};

struct play *play_new(const struct play_script *script);
void play_free(struct play *play);
/* Plays the whole script. */
void play_run(struct play *play);
/* See above; returns whether all is well. The play can be ended again in another way. `thorough`: the journal is
 * worked with for longer. */
bool play_end(struct play *play, const struct play_cut *cut, bool thorough);

/* Plays the whole script, and stays idle until all of it is known to be durable (1.7). */
void play_run_idle(struct play *play);
/* Spoils a drawn place of the segments on a disk of its own (a flipped bit, a zeroed sector, a sector or a block at
 * another one's place) and looks: an opening refuses, which `verify` foresees, and leaves every byte, and what a repair
 * makes of it opens and holds each event as it was given or counts it; or every event is there as it was given or
 * counted as damaged. The play can be spoiled again. *ret_refused: it refused. */
bool play_rot(const struct play *played, uint64_t seed, bool *ret_refused,
              char why[static PAIR_WHY_MAX]);

/* ---- what scripts ask ------------------------------------------------------------------------------ */

void play_open(struct play *play);
void play_close(struct play *play);
/* The process ends in this way, and the journal is opened again. */
void play_cut_and_open(struct play *play, struct play_cut cut);
/* Time goes on, and the housekeeper does all that it finds to do. */
void play_pass(struct play *play, int64_t us);

/* `count` new events of `bytes` each, in one call. */
void play_append(struct play *play, uint32_t count, uint32_t bytes);
/* Event `number` once more; with `other` with other content. */
void play_repeat(struct play *play, uint32_t number, bool other);
/* With count 0 only registers. `start`: see daybook_start. */
void play_claim(struct play *play, unsigned consumer, uint32_t count, uint32_t run);
void play_register(struct play *play, unsigned consumer, struct daybook_start start);
/* Of the newest hand-outs of a consumer, leaving out `skip`, `count` in order. */
void play_ack(struct play *play, unsigned consumer, uint32_t skip, uint32_t count);
void play_refund(struct play *play, unsigned consumer, uint32_t skip, uint32_t count);
void play_extend(struct play *play, unsigned consumer, uint32_t skip, uint32_t count,
                 uint32_t lease_ms);
void play_quarantine(struct play *play, unsigned consumer, uint32_t skip);
void play_release(struct play *play, unsigned consumer, uint32_t number);
void play_discard(struct play *play, unsigned consumer, uint32_t number);
void play_retire(struct play *play, unsigned consumer);
void play_rewind(struct play *play, unsigned consumer);
void play_maintain(struct play *play);
/* A backup beside the open journal; a repair of a closed one, into a new directory. */
void play_backup(struct play *play);
void play_repair(struct play *play);
/* So many bytes of the disk are free from now on. */
void play_space(struct play *play, uint64_t free_bytes);

#endif
