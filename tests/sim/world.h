/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the crash programs: a simulated disk, a journal of the log engine on it, and a
 * ledger of everything that was asked of the journal and what it answered.
 *
 * The operations do nothing once the process is dead or the journal would not open, so that a scenario
 * is written straight through, whatever happens in its middle. After a crash `world_check` opens the
 * journal again and holds it against the ledger (docs/DURABILITY.md): every answered append byte for
 * byte, unknown ones only as a suffix in order, nothing else, S5, written verdicts after the loss of
 * the process and synced ones after the loss of power, tokens that never repeat; and that a second
 * opening changes nothing and that the journal goes on working.
 *
 * The first thing that is wrong is kept in `failure`; nothing is asserted here, because with a
 * deliberate fault a failure is what is asked for. Threads: one.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <daybook/log.h>

#include "disk.h"

#define WORLD_PATH "/var/journal"
#define WORLD_CONSUMER "ledger"
#define WORLD_GIVEN_MAX 192u
#define WORLD_RECORD_MAX 8000u
#define WORLD_SEGMENT_BYTES 65536u

enum world_fate { FATE_UNKNOWN, FATE_ACCEPTED, FATE_REFUSED };
/* How far an acknowledgement got; each one is more certain than the one before. */
enum world_ack { ACK_NONE, ACK_ASKED, ACK_WRITTEN, ACK_SYNCED };

/* One event that was given to the journal; its number is its place in the list. */
struct world_event {
    enum world_fate fate;
    enum world_ack ack;
    uint32_t record_bytes;
    uint64_t position; /* with FATE_ACCEPTED */
    uint32_t claims_asked;
    uint32_t claims_written; /* of those, answered: certain after the loss of the process */
    uint32_t claims_synced;  /* certain after the loss of power */
    uint64_t token;          /* of a hand-out that has no verdict yet; 0: none */
};

enum world_retention { RETAIN_ALL, RETAIN_NONE };
/* Whether an operation may fail while the disk is alive: where trouble was injected. */
enum world_temper { TEMPER_STRICT, TEMPER_TOLERANT };

struct world {
    struct sim_disk *disk;           /* owned */
    struct daybook_journal *journal; /* owned; NULL: not open */
    enum world_retention retention;
    enum world_temper temper;
    bool troubled; /* trouble was injected at some time */
    enum daybook_tail_policy tail;
    struct world_event given[WORLD_GIVEN_MAX];
    uint32_t given_count;
    uint64_t token_max;
    enum world_ack registered; /* of the consumer */
    int64_t now_us;
    uint32_t resumed;  /* openings from a checkpoint that were compared */
    bool halted;       /* dead, failed, or would not open: operations do nothing */
    char failure[640]; /* "": nothing is wrong */
};

/* Makes a world with an empty disk on which only /var exists. Owned: world_free. */
struct world *world_new(enum world_retention retention);
void world_free(struct world *w);
/* The same world again, on a disk of its own; the journal must not be open. */
struct world *world_clone(const struct world *w);

/* Time goes on. */
void world_tick(struct world *w, int64_t us);
void world_open(struct world *w);
void world_close(struct world *w);
/* Registers the consumer with an empty claim. */
void world_register(struct world *w);
/* Appends `count` events of `record_bytes` each in one call. */
void world_append(struct world *w, uint32_t count, uint32_t record_bytes);
/* Claims at most `count`; what is handed out waits for world_ack. */
void world_claim(struct world *w, uint32_t count);
/* Acknowledges the oldest `count` of what was handed out and has no verdict. */
void world_ack(struct world *w, uint32_t count);
void world_maintain(struct world *w);
/* Housekeeps until there is nothing left to do. */
void world_housekeep(struct world *w);

/* How a process ends. */
struct world_cut {
    const char *name; /* "nothing", "all", "last", "subset", "kill" */
    enum sim_profile profile;
    uint64_t seed;
    bool kill; /* SIGKILL: the profile does not count */
};

/* Drops the handle and cuts; the ledger forgets what that may have taken. */
void world_crash(struct world *w, const struct world_cut *cut);
/* See above. Returns whether all is well; the world is used up. */
bool world_check(struct world *w);
/* State via checkpoint = state via the whole log = the open journal's; else the failure is set. */
bool world_states_agree(struct world *w, const char *when);
/* Whether an event is one that was given, byte for byte; else the failure is set. */
bool world_recognises(struct world *w, const struct daybook_event *event);
/* Reads what is stored and compares it with the ledger; the journal is open. */
bool world_compare(struct world *w);
/* Sets the failure unless there is one already; returns false. */
bool world_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The options that the world opens its journal with. */
struct daybook_log_options world_options(const struct world *w);

#endif
