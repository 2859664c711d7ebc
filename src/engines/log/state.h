/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine's memory (P): which events are stored and where, what each consumer has done with
 * them, who holds what, what may be given up. No I/O, no threads, no clock of its own; memory is
 * reserved at `dbk_state_new` and at a registration, nothing allocates after that.
 *
 * Two kinds of functions, used by the live path and by recovery alike:
 *   decide  looks and says what would happen; changes nothing;
 *   apply   makes a result true. A result states what is, not a step: applying one twice changes
 *           nothing, and one that names a position that is not stored is ignored.
 * A claim and a set of verdicts are decided and applied under one hold of the state lock, their frame
 * staged in between, so that the order of the log is the order of decisions.
 *
 * Locks (the caller's): everything here needs the *state* lock, but for what is marked [stage]:
 * the id index and the fields of a slot that it leads to (hash, place, position). Functions marked
 * [state+stage] change these and need both.
 */
#ifndef DBK_ENGINES_LOG_STATE_H
#define DBK_ENGINES_LOG_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#include <daybook/journal.h>

struct dbk_state;

/* Where an event entry lies: segment, byte offset of the entry (a multiple of 8), bytes of the entry
 * without its final padding. */
struct dbk_place {
    uint32_t segment_no;
    uint32_t offset;
    uint32_t len; /* below 2^24 */
};

struct dbk_state_options {
    uint64_t events_max;
    uint64_t stored_max;   /* >= events_max: what recovery may find under a lowered limit */
    uint32_t staged_max;   /* events staged and not published, at most */
    int64_t retain_us;     /* negative: 0 */
    uint32_t attempts_max; /* default of hand_outs_max in a claim */
    uint32_t orphans_max;  /* leases of dropped events kept at a time, lapsed ones included while
                              there is room; 0 or above it: 65,536 */
    enum daybook_capacity_policy policy;
};

enum daybook_code dbk_state_new(const struct dbk_state_options *options, struct dbk_state **ret);
void dbk_state_free(struct dbk_state *state);

/* ---- counters that the append path reads without the state lock ------------------------------- */

struct dbk_room {
    _Atomic uint64_t stored;    /* events published and not forgotten */
    _Atomic uint64_t givable;   /* delivered once and quarantined by nobody (P4) */
    _Atomic uint64_t droppable; /* stored and quarantined by nobody (P5) */
};
/* Stands as long as the state. Changed under the state lock. */
const struct dbk_room *dbk_state_room(const struct dbk_state *state);

/* ---- the id index: id hash -> staged event or slot --------------------------------------------- */

/* What an id hash leads to. Staged events have a number of the caller's, below staged_max. */
struct dbk_id_match {
    bool staged;
    uint32_t staged_no;     /* with staged */
    uint64_t position;      /* else */
    struct dbk_place place; /* else */
    uint16_t row_version;   /* else */
};
/* Has the processor fetch where a look-up of this id, or of this key, begins: the tables are larger than
 * its caches, and what was fetched before a lock is not waited for under it. Reads nothing. No lock. */
void dbk_state_prefetch_id(const struct dbk_state *state, uint64_t id_hash);
void dbk_state_prefetch_key(const struct dbk_state *state, uint64_t key_hash);
/* [stage] The same for what the look-up of an id meets next: the first entry of its bucket. */
void dbk_state_prefetch_chain(const struct dbk_state *state, uint64_t id_hash);
/* The same for the list that an event of this key is appended to. */
void dbk_state_prefetch_list(const struct dbk_state *state, uint64_t key_hash);
/* [stage] The next entry with this hash at or after *cursor (start with 0; opaque). No: false. */
bool dbk_state_id_find(const struct dbk_state *state, uint64_t id_hash, uint32_t *cursor,
                       struct dbk_id_match *ret);
/* [stage] Adds a staged event. There is always room: staged and stored have their maximum. */
void dbk_state_id_stage(struct dbk_state *state, uint64_t id_hash, uint32_t staged_no);
/* [stage] Takes a staged event out again (cut at seal, or its group failed). */
void dbk_state_id_unstage(struct dbk_state *state, uint64_t id_hash, uint32_t staged_no);

/* ---- events -------------------------------------------------------------------------------------- */

struct dbk_event_meta {
    uint64_t position;
    uint64_t id_hash;  /* keyed hash of request_id */
    uint64_t key_hash; /* keyed hash of namespace and subject */
    int64_t observed_at_us;
    int64_t accepted_at_us;
    struct dbk_place place;
    uint32_t payload_bytes; /* names and record, for bytes_max of a claim and stored_bytes */
    uint16_t row_version;
    bool newer;   /* of a newer row version than this build's (C9) */
    bool damaged; /* its record fails its checksum (C7) */
};
/* Marks that the event was not staged before (recovery). */
#define DBK_NOT_STAGED UINT32_MAX

/* [state+stage] Makes a durable event visible: slot, key list, eligible bits, counters; its staged
 * entry in the index becomes the slot. Positions only grow. A position that is stored already only
 * has its place changed (recovery: RELOCATE). */
void dbk_state_publish(struct dbk_state *state, const struct dbk_event_meta *meta,
                       uint32_t staged_no);

/* Looks a stored event up by position. */
struct dbk_stored {
    uint64_t position;
    uint64_t id_hash;
    struct dbk_place place;
    int64_t observed_at_us;
    int64_t accepted_at_us;
    uint32_t payload_bytes;
    uint16_t row_version;
    bool damaged;
};
bool dbk_state_get(const struct dbk_state *state, uint64_t position, struct dbk_stored *ret);
/* The first stored event above `after_position` for which `where` holds, looking at no more than
 * `steps_max` stored events; *ret_looked is the position up to which was looked (UINT64_MAX at the
 * end). */
bool dbk_state_next(const struct dbk_state *state, uint64_t after_position,
                    enum daybook_where where, uint32_t steps_max, struct dbk_stored *ret,
                    uint64_t *ret_looked);
/* The record of a stored event was found not to match its checksum. */
void dbk_state_mark_damaged(struct dbk_state *state, uint64_t position);

/* ---- consumers (ADMIN) --------------------------------------------------------------------------- */

/* The id of a registered consumer, 0 when the name is not registered. Ids start at 1 and are never
 * reused. */
uint32_t dbk_state_consumer_id(const struct dbk_state *state, const char *name);
uint32_t dbk_state_next_consumer_id(const struct dbk_state *state);

/* A start as it is logged. `position` counts where `time_us` is DAYBOOK_TIME_UNSET; otherwise the
 * first event accepted at or after that time fixes the position when it is published (C1). */
struct dbk_start {
    uint64_t position;
    int64_t time_us;
};
/* Turns what a claim asks for into what is logged. */
struct dbk_start dbk_state_resolve_start(const struct dbk_state *state, struct daybook_start start,
                                         uint64_t next_position);
/* Registers: everything stored at or above the start becomes pending for it, nothing is givable any
 * more until it has been acknowledged by it too. Reserves memory first: NO_MEMORY, or BUSY when
 * DAYBOOK_CONSUMERS_MAX are registered; nothing changed then. */
enum daybook_code dbk_state_register(struct dbk_state *state, uint32_t consumer, const char *name,
                                     struct dbk_start start);
void dbk_state_retire(struct dbk_state *state, uint32_t consumer);
/* Quarantined by it: pending again with attempts 0. */
void dbk_state_release(struct dbk_state *state, uint32_t consumer, uint64_t position);
/* [state+stage] Ends the event for this consumer, counted as acknowledged for P2; forgets it (counted
 * as discarded) if every consumer has acknowledged or discarded it. */
void dbk_state_discard(struct dbk_state *state, uint32_t consumer, uint64_t position);
/* [state+stage] Forgets what somebody discarded and everybody has resolved since, counted as
 * discarded. To be called in the same hold after dbk_state_apply_settle with ACK and after
 * dbk_state_retire, live and in a replay alike: no frame says so. `dbk_state_has_ended` tells without
 * the stage lock whether there is anything to do. Returns how many. */
uint32_t dbk_state_forget_ended(struct dbk_state *state);
bool dbk_state_has_ended(const struct dbk_state *state);
/* Acknowledged events from the start on are pending again with attempts 0; hand-outs with a token
 * below `token_floor` are from before it, and count only if their lease was live at `now_us`, the
 * time of the act (K3). */
void dbk_state_rewind(struct dbk_state *state, uint32_t consumer, uint64_t token_floor,
                      int64_t now_us);
uint32_t dbk_state_consumer_count(const struct dbk_state *state);
/* i below the count, in order of registration. */
const char *dbk_state_consumer_name(const struct dbk_state *state, uint32_t i);

/* What an event is to a consumer. */
enum dbk_standing {
    DBK_STANDING_ABSENT, /* not stored, or no such consumer */
    DBK_STANDING_BEFORE_START,
    DBK_STANDING_UNRESOLVED,
    DBK_STANDING_ACKNOWLEDGED,
    DBK_STANDING_QUARANTINED,
    DBK_STANDING_DISCARDED
};
enum dbk_standing dbk_state_standing(const struct dbk_state *state, uint32_t consumer,
                                     uint64_t position);
/* The same for people: with leases at `now_us` and counts. i below the number of consumers, in order of
 * registration. False: the position is not stored. */
bool dbk_state_show(const struct dbk_state *state, uint32_t i, uint64_t position, int64_t now_us,
                    struct daybook_event_standing *ret);
/* Whether it holds live leases, those of dropped events included. */
bool dbk_state_holds_leases(struct dbk_state *state, uint32_t consumer, int64_t now_us);
/* The first event above `after_position` that this consumer quarantined; as dbk_state_next. */
bool dbk_state_next_quarantined(const struct dbk_state *state, uint32_t consumer,
                                uint64_t after_position, uint32_t steps_max, struct dbk_stored *ret,
                                uint64_t *ret_looked);
/* The newest event below `before_position` that this consumer acknowledged, of this row version or an older
 * one and not known to be damaged, looking at no more than `chunks_max` words of 64 events. False: there is
 * none among them; *ret_looked is the next `before_position`, 0 at the end. */
bool dbk_state_newest_acknowledged(const struct dbk_state *state, uint32_t consumer,
                                   uint64_t before_position, uint32_t chunks_max,
                                   struct dbk_stored *ret, uint64_t *ret_looked);

/* ---- claims (C1 to C9) ---------------------------------------------------------------------------- */

#define DBK_CONDEMNED_MAX 1024u

/* One event that a walk has chosen, in order of position. */
struct dbk_pick {
    uint64_t position;
    uint64_t id_hash;
    int64_t accepted_at_us;
    struct dbk_place place;
    uint32_t attempt;   /* what this hand-out makes it */
    uint32_t hand_outs; /* likewise */
    uint32_t payload_bytes;
    uint16_t row_version;
    bool redelivery;
    bool dropped; /* taken out again by dbk_walk_drop */
    uint32_t private_[4];
};
struct dbk_condemned {
    uint64_t position;
    uint32_t attempts;
    enum daybook_quarantine_reason reason;
};
/* A walk under way. Made once (sized by the largest claim) and used again. */
struct dbk_walk {
    struct dbk_pick *picks;
    uint32_t pick_count;
    struct dbk_condemned *condemned;
    uint32_t condemned_count;
    bool more;
    uint32_t consumer;
    void *private_;
};
enum daybook_code dbk_walk_new(uint32_t picks_max, struct dbk_walk **ret);
void dbk_walk_free(struct dbk_walk *walk);

/* Begins: nothing chosen yet. `claim->consumer` is registered as `consumer`. Leases that are not live
 * at `now_us` stop counting. */
void dbk_walk_begin(struct dbk_state *state, struct dbk_walk *walk, uint32_t consumer,
                    const struct daybook_claim *claim, int64_t now_us);
/* Walks on (C4c) and adds to the picks until the claim is full or nothing is left; what is picked is
 * reserved: no other walk takes anything of its key until this one is finished or aborted. Called
 * again after dbk_walk_drop made room, it goes on from where it stopped. Returns how many it added. */
uint32_t dbk_walk_pick(struct dbk_state *state, struct dbk_walk *walk);
enum dbk_drop { DBK_DROP_MALFORMED, DBK_DROP_READ_ERROR };
/* Pick i could not be delivered: it and the picks of its key behind it are given back unspent; with
 * MALFORMED it is condemned (C7) and its key's next is considered by the next claim; with READ_ERROR
 * its key is left alone until `retry_at_us`. */
void dbk_walk_drop(struct dbk_state *state, struct dbk_walk *walk, uint32_t i, enum dbk_drop why,
                   int64_t retry_at_us);
/* Before the frames are made: squeezes out the picks that were dropped and those that were resolved,
 * forgotten or leased while the state was not held (with what stands behind them in their key), and
 * the condemned that no longer are to be. Afterwards the picks are what is handed out: the caller
 * stages CLAIM and QUARANTINE frames and applies them (dbk_state_apply_claim and
 * dbk_state_apply_quarantine) in the same hold. */
void dbk_walk_settle(struct dbk_state *state, struct dbk_walk *walk);
/* Ends the reservation. Always called once after dbk_walk_begin, after applying or to give up. */
void dbk_walk_end(struct dbk_state *state, struct dbk_walk *walk);

struct dbk_claim_entry {
    uint64_t position;
    uint32_t attempt;
    uint32_t hand_outs;
};
/* The i-th entry's token is first_token + i; its lease runs from now_us for lease_ms. */
void dbk_state_apply_claim(struct dbk_state *state, uint32_t consumer, uint32_t lease_ms,
                           int64_t now_us, uint64_t first_token,
                           const struct dbk_claim_entry *entries, size_t count);

/* ---- verdicts (K1 to K4, R1, X1) ------------------------------------------------------------------- */

enum dbk_settle_op {
    DBK_SETTLE_ACK = 1,
    DBK_SETTLE_REFUND = 2,
    DBK_SETTLE_EXTEND = 3,
    DBK_SETTLE_GIVE_UP = 4
};
/* What a verdict comes to. `effect` no: only the code is answered, nothing is logged. */
struct dbk_decision {
    enum daybook_code code;
    bool effect;
    uint32_t attempt_after; /* with REFUND */
};
/* consumer 0: not registered. For EXTEND with lease 0 use GIVE_UP. The order of evaluation is K2's. A
 * verdict with the token of a dropped event's lease has the effect GIVE_UP and the answer of an event
 * that is no longer held: `op_effect` tells which op to log. */
struct dbk_decision dbk_state_decide(const struct dbk_state *state, uint32_t consumer,
                                     enum dbk_settle_op op, struct daybook_hand_out hand_out,
                                     int64_t now_us, uint32_t lease_ms,
                                     enum dbk_settle_op *ret_op_effect);
/* An effect with NOT_OUTSTANDING: the token is that of a dropped event's lease; what is logged and
 * applied is a SETTLE GIVE_UP of it. */
struct dbk_decision dbk_state_decide_quarantine(const struct dbk_state *state, uint32_t consumer,
                                                struct daybook_hand_out hand_out);
/* The attempts that a quarantine entry of this event shows. */
uint32_t dbk_state_attempts(const struct dbk_state *state, uint32_t consumer, uint64_t position);

struct dbk_settle_entry {
    uint64_t position;
    uint64_t token;
    uint32_t attempt_after;
};
void dbk_state_apply_settle(struct dbk_state *state, uint32_t consumer, enum dbk_settle_op op,
                            uint32_t lease_ms, int64_t now_us,
                            const struct dbk_settle_entry *entries, size_t count);
void dbk_state_apply_quarantine(struct dbk_state *state, uint32_t consumer, uint64_t position,
                                enum daybook_quarantine_reason reason);

/* ---- capacity and retention (P1 to P7) -------------------------------------------------------------- */

enum dbk_forget_reason {
    DBK_FORGET_PRUNED = 1,
    DBK_FORGET_RECLAIMED = 2,
    DBK_FORGET_DROPPED = 3,
    DBK_FORGET_DISCARDED = 4,
    DBK_FORGET_DAMAGED = 5
};
#define DBK_FORGET_REASONS 5u

struct dbk_counters { /* S5 */
    uint64_t accepted;
    uint64_t forgotten[DBK_FORGET_REASONS]; /* by reason - 1 */
};
void dbk_state_counters(const struct dbk_state *state, struct dbk_counters *ret);
void dbk_state_set_counters(struct dbk_state *state, const struct dbk_counters *counters);

/* Positions [first, end) of events forgotten for one reason; positions between them that are not
 * stored may be included. An event that any consumer had discarded counts as discarded. */
struct dbk_range {
    uint64_t first;
    uint64_t end;
    enum dbk_forget_reason reason;
};
struct dbk_forget_list {
    struct dbk_range *ranges;
    uint32_t count;
    uint32_t max; /* a step ends when no range is left */
};

/* [state+stage] Forgets delivered events whose window has passed at `now_us` (the braked clock of P3,
 * the caller's), lowest first, at most `events_max` of them. Returns how many. */
uint32_t dbk_state_prune(struct dbk_state *state, int64_t now_us, uint32_t events_max,
                         struct dbk_forget_list *list);
/* [state+stage] Gives up delivered events, lowest first (P4). Returns how many. */
uint32_t dbk_state_reclaim(struct dbk_state *state, uint32_t events_max,
                           struct dbk_forget_list *list);
/* The lowest position that may be given up; 0: none. */
uint64_t dbk_state_first_givable(const struct dbk_state *state);
/* The leases that dropped events leave behind (P5). */
struct dbk_orphan {
    uint32_t consumer;
    uint32_t lease_ms;
    uint64_t position;
    uint64_t token;
    int64_t expires_at_us;
    uint64_t key_hash;
};
/* [state+stage] Drops the oldest events that nobody quarantined: exactly `events`, or none when there
 * are not so many, or `orphans_max` or the state's own limit would not hold the live leases. Leases of
 * events dropped before that are over at `now_us` make room. Returns how many. */
uint32_t dbk_state_drop(struct dbk_state *state, uint32_t events, int64_t now_us,
                        struct dbk_forget_list *list, struct dbk_orphan *orphans,
                        uint32_t orphans_max, uint32_t *ret_orphans);
/* [state+stage] Recovery: forgets what is stored in the range. */
void dbk_state_apply_forget(struct dbk_state *state, struct dbk_range range);
void dbk_state_apply_orphan(struct dbk_state *state, const struct dbk_orphan *orphan);
/* The leases of dropped events that are live at `now_us`, DAYBOOK_TIME_UNSET: all that are kept, at
 * most `orphans_max`. Returns how many were written, at most `max`; with `ret` NULL how many there are. */
uint32_t dbk_state_orphans(const struct dbk_state *state, int64_t now_us, struct dbk_orphan *ret,
                           uint32_t max);

/* Events stored in a segment; segments are numbered upwards and made known before they are used.
 * NO_MEMORY: nothing changed. */
enum daybook_code dbk_state_add_segment(struct dbk_state *state, uint32_t segment_no);
uint64_t dbk_state_segment_events(const struct dbk_state *state, uint32_t segment_no);
/* Bytes of their entries. */
uint64_t dbk_state_segment_bytes(const struct dbk_state *state, uint32_t segment_no);
/* Stored events whose entry stands in a segment, in order of position, from above *after on (0 at first), at
 * most `max`, looking at no more than `steps_max` stored events. *after moves on; UINT64_MAX: that was all.
 * Returns how many. */
struct dbk_placed {
    uint64_t position;
    uint64_t id_hash;
    int64_t accepted_at_us;
    struct dbk_place place;
    bool delivered; /* it may be given up, and will be once its window is over (P3, P4) */
};
uint32_t dbk_state_in_segment(const struct dbk_state *state, uint32_t segment_no, uint64_t *after,
                              uint32_t steps_max, struct dbk_placed *ret, uint32_t max);
/* [state+stage] A stored event stands elsewhere from now on. */
void dbk_state_move(struct dbk_state *state, uint64_t position, struct dbk_place to);
/* Segments below are gone. */
void dbk_state_remove_segments(struct dbk_state *state, uint32_t below_segment_no);

/* ---- figures ------------------------------------------------------------------------------------------ */

/* Bounded: at most a few milliseconds at a million stored events (S1 to S3). consumer 0: everything is
 * pending (S2). The name and last_claim_at_us are left to the caller (untouched). `start` is
 * UINT64_MAX while a start time lies ahead, 0 for consumer 0. */
void dbk_state_consumer_stats(struct dbk_state *state, uint32_t consumer, int64_t now_us,
                              struct daybook_consumer_stats *ret);
struct dbk_state_stats {
    uint64_t stored_events;
    uint64_t stored_bytes;
    uint64_t oldest_position; /* 0: none */
    uint64_t newest_position;
    int64_t oldest_accepted_at_us; /* DAYBOOK_TIME_UNSET: none stored */
    uint64_t damaged_events;
    uint64_t damaged_ever; /* found so since dbk_state_new */
};
void dbk_state_stats(const struct dbk_state *state, struct dbk_state_stats *ret);
/* The earliest expiry of a lease that counts as live, DAYBOOK_NO_DEADLINE: none. */
int64_t dbk_state_next_expiry(const struct dbk_state *state, uint32_t consumer);

/* What STATE restates about a consumer. i below the count. */
struct dbk_consumer_restated {
    uint32_t id;
    const char *name;
    struct dbk_start start;
    uint64_t token_floor;
};
void dbk_state_consumer_restate(const struct dbk_state *state, uint32_t i,
                                struct dbk_consumer_restated *ret);
void dbk_state_set_token_floor(struct dbk_state *state, uint32_t consumer, uint64_t token_floor);
void dbk_state_set_next_consumer_id(struct dbk_state *state, uint32_t id);
/* Everything derived counted anew and compared (lists, bits, counters, S5). Returns NULL, or a static
 * text that names what differs. For tests and the audit; O(stored). */
const char *dbk_state_audit(const struct dbk_state *state);

#endif
