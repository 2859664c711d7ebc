/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model's files share: its arrays and the questions that are asked of them. See model.h.
 *
 * `marks[i]` of a consumer speaks of `events[i]`; events stand in order of position.
 */
#ifndef DBK_ENGINES_MEMORY_MODEL_STATE_H
#define DBK_ENGINES_MEMORY_MODEL_STATE_H

#include "engines/memory/model.h"

#define SEARCH_NONE SIZE_MAX
#define LEASE_SKEW_US INT64_C(60000000) /* C5 */

struct model_event {
    uint64_t position;
    int64_t observed_at_us;
    int64_t accepted_at_us;
    enum dbk_model_fitness fitness;
    bool found_damaged;       /* a claim has seen that it is malformed */
    bool delivered_once;      /* P4: every consumer had resolved it at some time */
    struct daybook_event own; /* points into `bytes` */
    char *bytes;
};

struct model_lease {
    bool given; /* no: there is none, at any time */
    uint64_t token;
    int64_t granted_at_us;
    int64_t expires_at_us;
};

enum model_resolution { MODEL_OPEN, MODEL_ACKNOWLEDGED, MODEL_DISCARDED, MODEL_QUARANTINED };

struct model_mark {
    enum model_resolution resolution;
    bool handed;        /* ever, and for good: `redelivery` (C2) */
    bool refunded;      /* the last hand-out gave its attempt back (R1) */
    uint32_t attempt;   /* hand-outs not given back (C6) */
    uint32_t hand_outs; /* given back or not */
    uint64_t token;     /* of the last hand-out */
    uint64_t survivor;  /* token whose lease was live at the last rewind (K3); 0: none */
    struct model_lease lease;
    /* with MODEL_QUARANTINED: */
    enum daybook_quarantine_reason reason;
    uint32_t attempts_then;
    int64_t quarantined_at_us;
    uint32_t words_len;
    char *words;
};

struct model_consumer {
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    uint64_t start;        /* first position that counts; UINT64_MAX while start_at_us waits */
    int64_t start_at_us;   /* DAYBOOK_TIME_UNSET: `start` stands */
    uint64_t token_floor;  /* hand-outs below are from before the last rewind */
    int64_t last_claim_at; /* DAYBOOK_TIME_UNSET: not since the opening */
    uint64_t quarantined_total[DAYBOOK_QUARANTINE_REASONS]; /* since the opening */
    struct model_mark *marks;
};

/* The lease of a dropped event, which keeps its key busy (P5). */
struct model_orphan {
    size_t consumer;
    uint64_t position;
    struct model_lease lease;
    char *key; /* namespace, NUL, subject: neither holds a control character */
};

enum model_forget {
    FORGET_PRUNED,
    FORGET_RECLAIMED,
    FORGET_DROPPED,
    FORGET_DISCARDED,
    FORGET_KINDS
};

struct dbk_model {
    struct daybook_capacity capacity;
    struct model_event *events;
    size_t event_count;
    size_t event_room; /* of `events` and of every consumer's `marks` */
    struct model_consumer consumers[DAYBOOK_CONSUMERS_MAX];
    size_t consumer_count;
    struct model_orphan *orphans;
    size_t orphan_count;
    size_t orphan_room;
    struct daybook_operation *trail; /* oldest first */
    size_t trail_count;
    size_t trail_room;
    uint64_t next_operation_no;
    uint64_t next_position;
    uint64_t next_token;
    int64_t newest_accepted_at_us; /* DAYBOOK_TIME_UNSET: nothing was ever accepted */
    uint64_t accepted;
    uint64_t forgotten[FORGET_KINDS];
    uint64_t undeliverable_total; /* since the opening */
    /* Of this process only: */
    int64_t trusted_us; /* P3: the newest acceptance at the opening, else the first one since; */
    int64_t trusted_mono_us; /* the monotonic clock then. DAYBOOK_TIME_UNSET: none */
    bool clock_ahead;        /* the given now has stood past the limit since */
    int64_t clock_ahead_since_us;
};

/* `us` + `more_us` (not negative), at most INT64_MAX. */
int64_t dbk_model_later(int64_t us, int64_t more_us);
bool dbk_model_lease_live(const struct model_lease *lease, int64_t now_us);
size_t dbk_model_find_position(const struct dbk_model *model, uint64_t position);
size_t dbk_model_find_id(const struct dbk_model *model, struct daybook_bytes request_id);
size_t dbk_model_find_consumer(const struct dbk_model *model, const char *name);
bool dbk_model_same_key(const struct daybook_event *a, const struct daybook_event *b);
/* Names and record, as they count for bytes_max. */
uint64_t dbk_model_event_bytes(const struct model_event *event);
/* The event is from before the consumer's start: it counts as acknowledged by it. */
bool dbk_model_before_start(const struct dbk_model *model, size_t consumer, size_t event);
/* Acknowledged or discarded by the consumer, or from before its start (P2). */
bool dbk_model_resolved_by(const struct dbk_model *model, size_t consumer, size_t event);
bool dbk_model_quarantined_by_any(const struct dbk_model *model, size_t event);

/* Registers a name that is not registered. Returns OK; BUSY; BACKEND (no memory). */
enum daybook_code dbk_model_register(struct dbk_model *model, const char *name,
                                     struct daybook_start start, struct daybook_error *err);
void dbk_model_forget(struct dbk_model *model, size_t event, enum model_forget kind);
/* To be called whenever a consumer has resolved the event, or a consumer came or went: it may count as
 * delivered now, and if somebody discarded it, it is forgotten. Returns whether it was. */
bool dbk_model_note_resolved(struct dbk_model *model, size_t event);
/* Puts the event at the end of the batch; the caller has seen that it fits. */
struct daybook_delivery *dbk_model_batch_put(struct daybook_batch *batch,
                                             const struct model_event *event);
/* Whether one more event of `bytes` fits beside what the batch holds; the first always does. */
bool dbk_model_batch_fits(const struct daybook_batch *batch, uint64_t bytes_max, uint64_t bytes);
void dbk_model_batch_clear(struct daybook_batch *batch);

#endif
