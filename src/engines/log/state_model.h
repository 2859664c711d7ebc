/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log engine's memory must do, written a second time from the contract for state_test.c: arrays
 * and linear scans, nothing remembered that can be found by looking. Slow on purpose, and sharing
 * nothing with what it judges but the types of state.h.
 */
#ifndef DBK_ENGINES_LOG_STATE_MODEL_H
#define DBK_ENGINES_LOG_STATE_MODEL_H

#include "engines/log/state.h"

#define M_EVENTS 80u
#define M_CONSUMERS 4u
#define M_KEYS 6u
#define M_STAGED 4u
#define M_ORPHANS 4096u
#define M_SEGMENTS 64u
#define M_WALK_ITEMS 512u

struct m_lease {
    bool given;
    int64_t granted;
    int64_t expires;
};

enum m_how { M_OPEN, M_ACKED, M_DISCARDED, M_QUARANTINED };

struct m_mark {
    enum m_how how;
    bool handed;
    bool refunded;
    uint32_t attempt;
    uint32_t hand_outs;
    uint64_t token;
    uint64_t survivor;
    struct m_lease lease;
};

struct m_event {
    struct dbk_event_meta meta;
    unsigned key;
    bool rotten; /* reading it will find it malformed */
    bool delivered;
};

struct m_consumer {
    uint32_t id;
    char name[8];
    uint64_t start;
    int64_t start_time;
    uint64_t floor;
    int64_t clock; /* of the last claim or look at its figures: holds that are over then are gone */
    struct m_mark marks[M_EVENTS];
    struct m_lease holds[M_KEYS];
    unsigned reserved[M_KEYS]; /* walk number + 1 */
};

struct m_orphan {
    uint32_t consumer;
    unsigned key;
    uint64_t position;
    uint64_t token;
    struct m_lease lease;
};

struct m_model {
    struct m_event events[M_EVENTS];
    uint32_t count;
    struct m_consumer consumers[M_CONSUMERS];
    uint32_t consumer_count;
    uint32_t next_consumer;
    struct m_orphan orphans[M_ORPHANS];
    uint32_t orphan_count;
    bool staged[M_STAGED];
    uint64_t staged_hash[M_STAGED];
    struct dbk_counters counters;
    uint64_t last_position;
    int64_t retain_us;
    uint32_t attempts_max;
};

/* One event that a walk has chosen. */
struct m_item {
    uint64_t position;
    unsigned key;
    bool dropped;
    bool condemned;
    bool withdrawn; /* no longer condemned */
    enum daybook_quarantine_reason reason;
    uint32_t attempt; /* of the condemned: attempts */
    uint32_t hand_outs;
    bool redelivery;
};
struct m_walk {
    unsigned no;
    uint32_t consumer;
    struct daybook_claim claim;
    int64_t now;
    uint64_t looked;
    bool begun;
    bool more;
    uint32_t condemned;
    struct m_item
        items[M_WALK_ITEMS]; /* picks and condemned, by position, but for the dropped ones */
    uint32_t count;
    bool used[M_KEYS];
    bool closed[M_KEYS];
};

bool m_live(struct m_lease lease, int64_t now);
struct m_consumer *m_consumer(struct m_model *m, uint32_t id); /* NULL */
uint32_t m_find(const struct m_model *m, uint64_t position);   /* M_EVENTS: not stored */
bool m_before(const struct m_model *m, const struct m_consumer *c, uint32_t event);
bool m_open(const struct m_model *m, const struct m_consumer *c, uint32_t event);
bool m_quarantined_by_any(const struct m_model *m, uint32_t event);
bool m_givable(const struct m_model *m, uint32_t event);

void m_publish(struct m_model *m, const struct dbk_event_meta *meta, unsigned key, bool rotten);
void m_register(struct m_model *m, uint32_t id, const char *name, struct dbk_start start);
struct dbk_start m_start(const struct m_model *m, struct daybook_start start, uint64_t next);
void m_retire(struct m_model *m, uint32_t id);
void m_release(struct m_model *m, uint32_t id, uint64_t position);
void m_discard(struct m_model *m, uint32_t id, uint64_t position);
void m_rewind(struct m_model *m, uint32_t id, uint64_t floor, int64_t now);

/* The walk, in the steps of state.h. */
void m_walk_begin(struct m_model *m, struct m_walk *w, uint32_t consumer,
                  const struct daybook_claim *claim, int64_t now);
void m_walk_pick(struct m_model *m, struct m_walk *w);
void m_walk_drop(struct m_model *m, struct m_walk *w, uint64_t position, enum dbk_drop why,
                 int64_t retry_at);
void m_walk_settle(struct m_model *m, struct m_walk *w);
void m_walk_end(struct m_model *m, struct m_walk *w);
void m_claimed(struct m_model *m, uint32_t consumer, uint32_t lease_ms, int64_t now,
               uint64_t first_token, const struct dbk_claim_entry *entries, size_t count);

struct dbk_decision m_decide(struct m_model *m, uint32_t consumer, enum dbk_settle_op op,
                             struct daybook_hand_out hand_out, int64_t now, uint32_t lease_ms,
                             enum dbk_settle_op *ret_op);
struct dbk_decision m_decide_quarantine(struct m_model *m, uint32_t consumer,
                                        struct daybook_hand_out hand_out);
void m_settle(struct m_model *m, uint32_t consumer, enum dbk_settle_op op, uint32_t lease_ms,
              int64_t now, const struct dbk_settle_entry *entry);
void m_quarantine(struct m_model *m, uint32_t consumer, uint64_t position);

/* Which events would be given up, lowest first, and how each would be counted. */
uint32_t m_prunable(const struct m_model *m, int64_t now, uint64_t *ret);
uint32_t m_givables(const struct m_model *m, uint64_t *ret);
uint32_t m_droppables(const struct m_model *m, uint64_t *ret);
enum dbk_forget_reason m_reason(const struct m_model *m, uint32_t event,
                                enum dbk_forget_reason reason);
/* Leaves the live leases of an event that is about to be dropped, written to `ret` too. */
uint32_t m_orphans_of(struct m_model *m, uint64_t position, int64_t now, struct dbk_orphan *ret);
void m_forget(struct m_model *m, uint32_t event, enum dbk_forget_reason reason);

void m_figures(struct m_model *m, uint32_t consumer, int64_t now,
               struct daybook_consumer_stats *ret, int64_t *ret_next_expiry);

#endif
