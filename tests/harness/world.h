/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for contract tests: one journal of some engine, on a simulated disk, with clocks that only the
 * test moves. An engine takes part by one `struct contract_engine`.
 *
 * Helpers end the test when something answers that cannot answer so in the test's story; what a test is
 * about it asks for itself. Threads: one at a time per world.
 */
#ifndef HARNESS_WORLD_H
#define HARNESS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <daybook/journal.h>

#include "sim/disk.h"

struct contract_world;

/* How the process of a journal ends. */
enum contract_end {
    CONTRACT_CLOSED, /* in good order */
    CONTRACT_KILLED, /* the process is gone, what was written stays */
    CONTRACT_POWER, /* power is gone, what was synced stays, and of the rest what world->cut keeps */
};

struct contract_engine {
    const char *name;
    bool durable; /* has a disk that can fail */
    /* Opens world->journal, for the first time or after `end`. */
    enum daybook_code (*open)(struct contract_world *world, const struct daybook_capacity *capacity,
                              struct daybook_error *err);
    /* Ends the process of world->journal and opens the journal again. */
    enum daybook_code (*reopen)(struct contract_world *world, enum contract_end end,
                                const struct daybook_capacity *capacity, struct daybook_error *err);
    /* Opens world->journal for several threads at once, on the real clock of deadlines. */
    enum daybook_code (*open_shared)(struct contract_world *world,
                                     const struct daybook_capacity *capacity,
                                     struct daybook_error *err);
    /* Takes away what open_shared made beside the journal; may be NULL. */
    void (*clean_shared)(struct contract_world *world);
    /* How many units were written, of which a loss of power leaves the first so many; an opening adds one.
     * NULL: this engine loses nothing. */
    uint64_t (*units)(const struct contract_world *world);
    /* The position that the next event gets; with `units`. */
    uint64_t (*next_position)(const struct contract_world *world);
    /* Does what the journal's own threads would, where it has none; may be NULL. */
    void (*tick)(struct contract_world *world);
    /* Appends an event as a newer build would (C9); NULL: no test can do that to this engine. */
    enum daybook_code (*append_newer)(struct contract_world *world,
                                      const struct daybook_event *event,
                                      struct daybook_append_result *ret);
    /* Makes a stored event undecodable (C7); NULL: no test can do that to this engine. */
    void (*spoil)(struct contract_world *world, uint64_t position);
};

extern const struct contract_engine contract_memory;
extern const struct contract_engine contract_log;
extern const struct contract_engine contract_log_small; /* on small segments */
#ifdef DBK_HAVE_POSTGRES
extern const struct contract_engine contract_postgres;
#endif
/* The engine of that name; NULL: there is none in this build. */
const struct contract_engine *contract_engine_named(const char *name);

/* Of the log engine; 0: what its tests usually take. */
struct contract_limits {
    uint64_t segment_bytes;
    uint64_t bytes_max;
    uint64_t free_disk_min;
};

struct contract_world {
    const struct contract_engine *engine;
    struct contract_limits limits;
    struct sim_disk *disk;
    struct daybook_journal *journal;
    struct daybook_capacity capacity;
    int64_t now_us; /* the caller's clock */
    uint64_t
        resumed; /* openings from a checkpoint that were compared with a replay of the whole log */
    uint64_t checkpoints;    /* that were written */
    uint64_t checkpoint_lsn; /* of the last of them */
    bool relocated;          /* an event was, once at least */
    struct daybook_batch *batch;
    struct daybook_error err;
    enum sim_profile cut; /* with CONTRACT_POWER; at first SIM_KEEP_NOTHING */
    uint64_t cut_seed;
    bool shared;         /* opened by open_shared */
    char directory[128]; /* of a shared journal that has one */
};

#define WORLD_START_US INT64_C(1700000000000000)
#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)
#define LEASE_US (30 * SECOND_US) /* of a claim that says nothing else */
#define BATCH_EVENTS 256u

/* 100 events, an hour of retention, 3 attempts, refuse. */
struct daybook_capacity world_capacity(void);
/* A world whose journal is not open yet. */
struct contract_world *world_prepare(const struct contract_engine *engine,
                                     const struct daybook_capacity *capacity);
struct contract_world *world_new(const struct contract_engine *engine,
                                 const struct daybook_capacity *capacity);
void world_free(struct contract_world *world);
/* As world_new in place: another capacity from the start. */
void world_restart_empty(struct contract_world *world, const struct daybook_capacity *capacity);
/* The same with a journal that several threads may use at once. It is not reopened. */
void world_restart_shared(struct contract_world *world, const struct daybook_capacity *capacity);
/* The process ends and starts again; with CONTRACT_POWER of what was not synced nothing is left. */
void world_reopen(struct contract_world *world, enum contract_end end);
/* Time passes on every clock; the caller's clock jumps alone. */
void pass(struct contract_world *world, int64_t us);
void jump(struct contract_world *world, int64_t us);

struct daybook_bytes text(const char *s);

/* ---- append ---------------------------------------------------------------------------------- */

struct daybook_event event_of(const char *id, const char *subject, const char *record);
struct daybook_append_result append_event(struct contract_world *world,
                                          const struct daybook_event *event);
struct daybook_append_result append(struct contract_world *world, const char *id,
                                    const char *subject, const char *record);
/* As daybook_journal_append_batch, by way of a queue: submitted, and drained until it is given back. */
void append_through_queue(struct contract_world *world, const struct daybook_event *events,
                          size_t count, struct daybook_append_result *results);
/* Appends what must be accepted, with a record of its own; returns the position. */
uint64_t put(struct contract_world *world, const char *id, const char *subject);
/* `count` events "PREFIX1" and so on; with subject NULL each is a key of its own. */
void put_many(struct contract_world *world, const char *prefix, unsigned count,
              const char *subject);

/* ---- claim and verdicts ------------------------------------------------------------------------ */

struct daybook_claim claim_of(const char *consumer, uint32_t events_max);
/* Into world->batch; must answer OK. Returns how many came. */
size_t claim_with(struct contract_world *world, const struct daybook_claim *claim);
size_t claim(struct contract_world *world, const char *consumer, uint32_t events_max);
/* Claims what must be exactly one event. Its bytes stay in the world's batch. */
struct daybook_delivery claim_one(struct contract_world *world, const char *consumer);
void enrol(struct contract_world *world, const char *consumer); /* an empty claim (C12) */
/* The ids in the batch, with a blank between: "a b c". Static storage. */
const char *ids(const struct contract_world *world);

struct daybook_hand_out hand_out_of(const struct daybook_delivery *delivery);
enum daybook_code ack(struct contract_world *world, const char *consumer,
                      const struct daybook_delivery *delivery);
enum daybook_code relinquish(struct contract_world *world, const char *consumer,
                             const struct daybook_delivery *delivery);
enum daybook_code extend(struct contract_world *world, const char *consumer,
                         const struct daybook_delivery *delivery, uint32_t lease_ms);
enum daybook_code quarantine(struct contract_world *world, const char *consumer,
                             const struct daybook_delivery *delivery);
/* Claims and acknowledges until nothing comes any more. Returns how many. */
size_t deliver_all(struct contract_world *world, const char *consumer);
/* Claims one event, which must be `id`, and resolves it. */
void ack_next(struct contract_world *world, const char *consumer, const char *id);
void quarantine_next(struct contract_world *world, const char *consumer, const char *id);

/* ---- operators -------------------------------------------------------------------------------- */

enum daybook_code release(struct contract_world *world, const char *consumer, const char *id);
enum daybook_code discard(struct contract_world *world, const char *consumer, const char *id);
enum daybook_code retire(struct contract_world *world, const char *consumer,
                         enum daybook_force force);
enum daybook_code rewind_consumer(struct contract_world *world, const char *consumer);
enum daybook_code start_consumer(struct contract_world *world, const char *consumer,
                                 struct daybook_start start);
/* Ends the test as skipped where the engine does not offer operators' operations. */
void need_operators(struct contract_world *world);
/* The same for the trail and the list of what is quarantined. */
bool has_lists(struct contract_world *world);
void need_lists(struct contract_world *world);

/* ---- look -------------------------------------------------------------------------------------- */

struct daybook_consumer_stats figures(struct contract_world *world, const char *consumer);
struct daybook_journal_stats journal_figures(struct contract_world *world);
uint64_t maintain(struct contract_world *world);
/* The ids of what is retained, as `ids`. */
const char *retained(struct contract_world *world, enum daybook_where where);
/* As put, by a newer build; as append and a damaged medium. Where no test can do that to the engine, the
 * test is skipped, saying why. */
uint64_t put_newer(struct contract_world *world, const char *id, const char *subject);
void spoil(struct contract_world *world, uint64_t position);
/* S5, and that every consumer's figures add up. */
void check_sums(struct contract_world *world);

#define assert_code(want, got) assert_string_equal(daybook_code_name(got), daybook_code_name(want))

#endif
