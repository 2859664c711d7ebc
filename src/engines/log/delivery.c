/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims, verdicts, registration and pruning: each decides, stages its frame and applies under one hold
 * of state and stage, then waits as K7 asks: for the write (hand-outs, acknowledgements, refunds,
 * extensions) or for the sync (registration, quarantine). Payloads are read with no lock held.
 * Run by any thread. Allocates nothing but for a first claim that runs beside another.
 */
#include "engines/log/log_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"

enum {
    READ_RETRY_US = 1000000, /* a key whose event could not be read is left alone this long */
    READ_GAP_MAX = 4096, /* bytes between two entries: to read on costs less than to read anew */
    READ_ALONG_MAX = 262144, /* bytes of one read of several entries */
    PRUNE_STEP = 32,         /* events pruned under one hold, of which others wait for tens of us */
    PRUNE_STEPS_A_GROUP = 16, /* if nobody else commits */
    LET_OTHERS_US = 500       /* between two holds of something long */
};

/* ---- holding and waiting ----------------------------------------------------------------------- */

void dbk_stage_unlock(struct dbk_log *log)
{
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
}

/* Takes state and stage so that `bytes` of delivery frames fit, waiting where they do not. On OK both
 * are held. */
enum daybook_code dbk_stage_lock_with_room(struct dbk_log *log, size_t bytes, enum dbk_whose whose,
                                           int64_t deadline_us, struct daybook_error *err)
{
    /* More would never fit, and the wait for it never end. */
    dbk_assert(bytes <= log->delivery_area - log->delivery_area / 4);
    for (;;) {
        dbk_mutex_lock(&log->state_lock);
        dbk_mutex_lock(&log->stage_lock);
        if (dbk_log_has_failed(log) || log->read_only) {
            dbk_stage_unlock(log);
            return dbk_log_failed(log, err);
        }
        enum dbk_fit fit = dbk_stage_fit(log, bytes, 0, whose);
        if (fit == DBK_FIT_OK) {
            return DAYBOOK_OK;
        }
        uint32_t seen = atomic_load(&log->space_word);
        struct dbk_group *group = fit == DBK_FIT_GROUP_FULL ? dbk_group_ref_open(log) : NULL;
        dbk_stage_unlock(log);
        enum daybook_code code = DAYBOOK_OK;
        if (group != NULL) {
            code = dbk_commit_wait(log, group, DBK_WAIT_WRITTEN, deadline_us);
        } else if (fit == DBK_FIT_NO_SPACE) {
            return dbk_fail(err, DAYBOOK_BACKEND,
                            "%s: no room left for delivery state, not even in the reserve; free "
                            "disk space or raise max_bytes",
                            log->path);
        } else if (!dbk_space_wait(log, seen, deadline_us)) {
            code = DAYBOOK_TIMED_OUT;
        }
        if (code == DAYBOOK_BACKEND) {
            return dbk_log_failed(log, err);
        }
        if (code == DAYBOOK_TIMED_OUT) {
            return dbk_fail(err, code, "%s: the deadline came before there was room in the log",
                            log->path);
        }
    }
}

/* [state+stage] Where the next delivery frame goes. */
uint8_t *dbk_stage_frame_room(struct dbk_log *log)
{
    return log->open_stage->delivery + log->open_stage->delivery_len;
}

/* [state+stage] The frames at dbk_stage_frame_room are `bytes` long. */
void dbk_stage_frame_staged(struct dbk_log *log, size_t bytes, enum dbk_wait_for level)
{
    log->open_stage->delivery_len += bytes;
    dbk_assert(log->open_stage->delivery_len <= log->delivery_area);
    if (level == DBK_WAIT_SYNCED) {
        log->open_stage->sync_required = true;
    }
}

/* Releases both locks and waits for the newest group: the frame just staged is in it, or what an answer
 * without a frame rests on. */
enum daybook_code dbk_stage_unlock_and_wait(struct dbk_log *log, enum dbk_wait_for level,
                                            int64_t deadline_us, struct daybook_error *err)
{
    struct dbk_group *group = dbk_group_ref_newest(log);
    dbk_stage_unlock(log);
    if (group == NULL) {
        return DAYBOOK_OK;
    }
    enum daybook_code code = dbk_commit_wait(log, group, level, deadline_us);
    if (code == DAYBOOK_BACKEND) {
        return dbk_log_failed(log, err);
    }
    if (code == DAYBOOK_TIMED_OUT) {
        return dbk_fail(err, code, "%s: the deadline came before the commit", log->path);
    }
    return DAYBOOK_OK;
}

void dbk_log_let_others(struct dbk_log *log)
{
    if (log->committer_started) {
        log->os->sleep_us(log->os, LET_OTHERS_US);
    }
}

void dbk_log_bump_changes(struct dbk_log *log)
{
    atomic_fetch_add(&log->changes, 1);
    dbk_futex_wake_all(&log->changes);
}

/* ---- registration ------------------------------------------------------------------------------ */

/* [state+stage] The lowest position that is not visible yet. What is in flight belongs to a consumer that
 * starts at the oldest. */
static uint64_t first_invisible(const struct dbk_log *log)
{
    if (log->frozen != NULL && log->frozen->staged_count > 0) {
        return log->frozen->staged[0].position;
    }
    return log->open_stage->staged_count > 0 ? log->open_stage->staged[0].position
                                             : log->next_position;
}

enum daybook_code dbk_log_register(struct dbk_log *log, const char *consumer,
                                   struct daybook_start start, uint64_t no,
                                   const struct daybook_operator *by, int64_t now_us,
                                   uint32_t *ret_id, struct daybook_error *err)
{
    struct dbk_admin_frame frame = {
        .op = DBK_ADMIN_REGISTER,
        .no = no,
        .consumer = dbk_state_next_consumer_id(log->state),
        .at_us = now_us,
        .who = by->who,
        .why = by->why,
        .name = {consumer, strlen(consumer)},
        .start = dbk_state_resolve_start(log->state, start, first_invisible(log)),
    };
    enum daybook_code code = dbk_state_register(log->state, frame.consumer, consumer, frame.start);
    if (code != DAYBOOK_OK) {
        return dbk_fail(err, code, "%s: consumer %s cannot be registered: %s", log->path, consumer,
                        code == DAYBOOK_BUSY ? "64 are registered; retire one" : "out of memory");
    }
    dbk_stage_frame_staged(log, dbk_admin_frame_encode(dbk_stage_frame_room(log), &frame),
                           DBK_WAIT_SYNCED);
    log->open_stage->has_records = log->open_stage->has_records || no != 0;
    *ret_id = frame.consumer;
    return DAYBOOK_OK;
}

/* Registers the consumer unless it is (C1). OK: *ret_id is set, and the registration is durable. */
static enum daybook_code ensure_registered(struct dbk_log *log, const struct daybook_claim *claim,
                                           int64_t now_us, int64_t deadline_us, uint32_t *ret_id,
                                           struct daybook_error *err)
{
    dbk_mutex_lock(&log->state_lock);
    *ret_id = dbk_state_consumer_id(log->state, claim->consumer);
    dbk_mutex_unlock(&log->state_lock);
    if (*ret_id != 0 && claim->events_max > 0) {
        return DAYBOOK_OK;
    }
    enum daybook_code code = dbk_stage_lock_with_room(log, DBK_ADMIN_REGISTER_FRAME_BYTES,
                                                      DBK_OF_CALLERS, deadline_us, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    *ret_id = dbk_state_consumer_id(log->state, claim->consumer);
    if (*ret_id == 0) {
        const struct daybook_operator nobody = {{NULL, 0}, {NULL, 0}};
        code =
            dbk_log_register(log, claim->consumer, claim->start, 0, &nobody, now_us, ret_id, err);
        if (code != DAYBOOK_OK) {
            dbk_stage_unlock(log);
            return code;
        }
    }
    return dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, deadline_us, err);
}

/* ---- claim ------------------------------------------------------------------------------------- */

/* [state] A walk to use; NULL: no memory. */
static struct dbk_walk *walk_take(struct dbk_log *log)
{
    for (unsigned i = 0; i < DBK_WALKS_MAX; i++) {
        if (log->walks[i] != NULL) {
            struct dbk_walk *walk = log->walks[i];
            log->walks[i] = NULL;
            return walk;
        }
    }
    struct dbk_walk *walk = NULL;
    return dbk_walk_new(DAYBOOK_CLAIM_EVENTS_MAX, &walk) == DAYBOOK_OK ? walk : NULL;
}

/* [state] */
static void walk_give_back(struct dbk_log *log, struct dbk_walk *walk)
{
    for (unsigned i = 0; i < DBK_WALKS_MAX; i++) {
        if (log->walks[i] == NULL) {
            log->walks[i] = walk;
            return;
        }
    }
    dbk_walk_free(walk);
}

bool dbk_entry_is_of(const struct dbk_log *log, const struct dbk_entry *entry, uint64_t id_hash,
                     int64_t accepted_at_us)
{
    return (dbk_identity_id_hash(&log->identity, entry->request_id) == id_hash &&
            entry->accepted_at_us == accepted_at_us) ||
           dbk_fault(DBK_FAULT_ENTRY_OF_ANOTHER);
}

/* Makes a delivery of the entry whose bytes stand behind those that the batch has used. */
static enum dbk_payload take_entry(const struct dbk_log *log, const struct dbk_stored *stored,
                                   struct daybook_batch *batch, struct daybook_delivery *ret)
{
    struct dbk_entry entry;
    size_t len = stored->place.len;
    size_t entry_len;
    if (dbk_entry_decode(batch->bytes + batch->bytes_used, len, &entry, &entry_len) !=
            DBK_ENTRY_OK ||
        !dbk_entry_is_of(log, &entry, stored->id_hash, stored->accepted_at_us)) {
        return DBK_PAYLOAD_MALFORMED;
    }
    batch->bytes_used += len;
    *ret = (struct daybook_delivery){
        .position = stored->position,
        .row_version = entry.row_version,
        .accepted_at_us = entry.accepted_at_us,
        .event = {.request_id = entry.request_id,
                  .name_space = entry.name_space,
                  .subject = entry.subject,
                  .observed_at_us = entry.observed_at_us,
                  .record = entry.record},
    };
    return DBK_PAYLOAD_OK;
}

enum dbk_payload dbk_log_read_entry(struct dbk_log *log, const struct dbk_stored *stored,
                                    struct daybook_batch *batch, struct daybook_delivery *ret)
{
    if (stored->place.len > dbk_batch_room(batch) - batch->bytes_used) {
        return DBK_PAYLOAD_NO_ROOM;
    }
    int64_t len = dbk_segment_read(log, stored->place, batch->bytes + batch->bytes_used);
    return len < 0 ? DBK_PAYLOAD_UNREADABLE : take_entry(log, stored, batch, ret);
}

/* The place that the first of `count` picks spans together with those behind it: as many as stand close
 * to each other, in order and within `room`. *ret_count: how many; 1 where they do not. */
static struct dbk_place span(const struct dbk_pick *picks, uint32_t count, size_t room,
                             uint32_t *ret_count)
{
    struct dbk_place all = picks[0].place;
    uint32_t n = 1;
    for (; n < count; n++) {
        struct dbk_place next = picks[n].place;
        uint32_t end = all.offset + all.len;
        if (next.segment_no != all.segment_no || next.offset < end ||
            next.offset - end > READ_GAP_MAX) {
            break;
        }
        uint32_t len = next.offset + next.len - all.offset;
        if (len > READ_ALONG_MAX || len > room) {
            break;
        }
        all.len = len;
    }
    *ret_count = n;
    return all;
}

/* Reads picks into the batch; *ret_found: what each came to. Neighbours are read at once, and what stood
 * between them is squeezed out; each is still checked by itself, and where the whole cannot be read
 * each is read by itself, so that nobody suffers for another one's sector. */
static void read_picks(struct dbk_log *log, const struct dbk_pick *picks, uint32_t count,
                       struct daybook_batch *batch, enum dbk_payload *ret_found)
{
    for (uint32_t first = 0, n = 0; first < count; first += n) {
        uint8_t *bytes = batch->bytes + batch->bytes_used;
        struct dbk_place all =
            span(picks + first, count - first, dbk_batch_room(batch) - batch->bytes_used, &n);
        bool together = n > 1 && dbk_segment_read(log, all, bytes) >= 0;
        if (n > 1 && !together && dbk_fault(DBK_FAULT_NEIGHBOURS_UNREADABLE)) {
            for (uint32_t i = first; i < first + n; i++) {
                ret_found[i] = DBK_PAYLOAD_UNREADABLE;
            }
            continue;
        }
        for (uint32_t i = first; i < first + n; i++) {
            const struct dbk_pick *pick = &picks[i];
            struct dbk_stored stored = {.position = pick->position,
                                        .id_hash = pick->id_hash,
                                        .place = pick->place,
                                        .accepted_at_us = pick->accepted_at_us};
            struct daybook_delivery *delivery = &batch->deliveries[batch->count];
            if (together) {
                memmove(batch->bytes + batch->bytes_used, bytes + (pick->place.offset - all.offset),
                        pick->place.len);
                ret_found[i] = take_entry(log, &stored, batch, delivery);
            } else {
                ret_found[i] = dbk_log_read_entry(log, &stored, batch, delivery);
            }
            batch->count += ret_found[i] == DBK_PAYLOAD_OK ? 1 : 0;
        }
    }
}

/* [state] Pins or unpins what the picks stand in, once for those in a row. */
static void pin_picks(struct dbk_log *log, const struct dbk_pick *picks, uint32_t count,
                      void (*pin)(struct dbk_log *log, uint32_t segment_no))
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || picks[i].place.segment_no != picks[i - 1].place.segment_no) {
            pin(log, picks[i].place.segment_no);
        }
    }
}

/* Closes the gaps that given back deliveries leave in the batch: those that are picked next need their
 * places. Every pick that was not dropped stands in it, in order. */
static void close_gaps(struct daybook_batch *batch, const struct dbk_walk *walk)
{
    size_t kept = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < walk->pick_count; i++) {
        if (walk->picks[i].dropped) {
            continue;
        }
        while (batch->deliveries[at].position != walk->picks[i].position) {
            at++;
        }
        batch->deliveries[kept++] = batch->deliveries[at++];
    }
    batch->count = kept;
    if (kept == 0) {
        batch->bytes_used = 0;
    }
}

/* Picks, reads what was picked, drops what cannot be delivered, and picks on while room came free.
 * State is held at entry and exit, not while reading. `*ret_unreadable`: the position of the first event whose
 * read failed; 0: none. False: not even the first fits the batch. */
static bool pick_and_read(struct dbk_log *log, struct dbk_walk *walk, int64_t now_us,
                          struct daybook_batch *batch, uint64_t *ret_unreadable)
{
    uint32_t first = 0;
    *ret_unreadable = 0;
    batch->count = 0;
    batch->bytes_used = 0;
    while (dbk_walk_pick(log->state, walk) > 0) {
        uint32_t end = walk->pick_count;
        bool dropped = false;
        bool full = false;
        pin_picks(log, walk->picks + first, end - first, dbk_segment_pin);
        dbk_mutex_unlock(&log->state_lock);
        enum dbk_payload found[DBK_READ_STEP];
        /* Only this thread looks at its walk. */
        read_picks(log, walk->picks + first, end - first, batch, found);
        dbk_mutex_lock(&log->state_lock);
        pin_picks(log, walk->picks + first, end - first, dbk_segment_unpin);
        for (uint32_t i = first; i < end; i++) {
            if (found[i - first] == DBK_PAYLOAD_OK || walk->picks[i].dropped) {
                continue;
            }
            dropped = true;
            full = full || found[i - first] == DBK_PAYLOAD_NO_ROOM;
            if (found[i - first] == DBK_PAYLOAD_UNREADABLE) {
                atomic_fetch_add(&log->read_errors, 1);
                atomic_store(&log->read_error_at_us, now_us);
            }
            if (found[i - first] == DBK_PAYLOAD_MALFORMED) {
                dbk_state_mark_damaged(log->state, walk->picks[i].position);
            } else if (found[i - first] == DBK_PAYLOAD_UNREADABLE && *ret_unreadable == 0) {
                *ret_unreadable = walk->picks[i].position;
            }
            dbk_walk_drop(log->state, walk, i,
                          found[i - first] == DBK_PAYLOAD_MALFORMED ? DBK_DROP_MALFORMED
                                                                    : DBK_DROP_READ_ERROR,
                          now_us +
                              (found[i - first] == DBK_PAYLOAD_UNREADABLE ? READ_RETRY_US : 0));
        }
        first = end;
        bool had_room = batch->count > 0 || walk->condemned_count > 0;
        if (dropped) {
            close_gaps(batch, walk);
        }
        if (full) {
            /* What was given back behind a malformed event left its bytes in the batch. */
            walk->more = true;
            return had_room;
        }
        if (!dropped) {
            break;
        }
    }
    return true;
}

/* [state+stage] Stages and applies what the walk has come to. Returns whether something has to be
 * synced. */
static enum dbk_wait_for stage_claim(struct dbk_log *log, struct dbk_walk *walk, uint32_t consumer,
                                     uint32_t lease_ms, int64_t now_us, uint64_t *ret_first_token)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < walk->condemned_count; i++) {
        const struct dbk_condemned *condemned = &walk->condemned[i];
        struct dbk_quarantine_frame frame = {
            .position = condemned->position,
            .consumer = consumer,
            .reason = condemned->reason,
            .attempts = condemned->attempts,
            .at_us = now_us,
        };
        bytes += dbk_quarantine_frame_encode(dbk_stage_frame_room(log) + bytes, &frame);
        dbk_state_apply_quarantine(log->state, consumer, condemned->position, condemned->reason);
    }
    *ret_first_token = log->next_token;
    if (walk->pick_count > 0) {
        uint8_t *out = dbk_stage_frame_room(log) + bytes;
        struct dbk_claim_frame frame = {.consumer = consumer,
                                        .lease_ms = lease_ms,
                                        .now_us = now_us,
                                        .first_token = log->next_token,
                                        .count = walk->pick_count};
        bytes += dbk_claim_frame_begin(out, &frame);
        for (uint32_t i = 0; i < walk->pick_count; i++) {
            struct dbk_claim_entry entry = {.position = walk->picks[i].position,
                                            .attempt = walk->picks[i].attempt,
                                            .hand_outs = walk->picks[i].hand_outs};
            dbk_claim_entry_put(out, i, &entry);
            dbk_state_apply_claim(log->state, consumer, lease_ms, now_us, log->next_token + i,
                                  &entry, 1);
        }
        dbk_frame_finish(out);
        log->next_token += walk->pick_count;
    }
    enum dbk_wait_for level = walk->condemned_count > 0 ? DBK_WAIT_SYNCED : DBK_WAIT_WRITTEN;
    log->open_stage->has_records = log->open_stage->has_records || walk->condemned_count > 0;
    dbk_stage_frame_staged(log, bytes, level);
    return level;
}

/* Leaves in the batch what was handed out, and fills in what only the hand-out knows. */
static void fill_batch(struct daybook_batch *batch, const struct dbk_walk *walk,
                       uint64_t first_token, int64_t expires_at_us)
{
    size_t kept = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < walk->pick_count; i++) {
        const struct dbk_pick *pick = &walk->picks[i];
        while (batch->deliveries[at].position != pick->position) {
            at++;
        }
        struct daybook_delivery *delivery = &batch->deliveries[kept++];
        *delivery = batch->deliveries[at++];
        delivery->attempt = pick->attempt;
        delivery->redelivery = pick->redelivery;
        delivery->token = first_token + i;
        delivery->lease_expires_at_us = expires_at_us;
    }
    batch->count = kept;
}

/* Counted once they are durable (S4). */
static void note_condemned(struct dbk_log *log, uint32_t consumer, const uint64_t *by_reason)
{
    dbk_mutex_lock(&log->state_lock);
    for (unsigned i = 0; i < DAYBOOK_QUARANTINE_REASONS; i++) {
        if (by_reason[i] > 0) {
            dbk_log_note_quarantines(log, consumer, (enum daybook_quarantine_reason)(i + 1),
                                     by_reason[i]);
        }
    }
    dbk_mutex_unlock(&log->state_lock);
}

/* What one claim may take so that its frames fit into one group. */
static uint32_t claim_cap(const struct dbk_log *log, uint32_t events_max)
{
    size_t room = log->delivery_area - log->delivery_area / 4;
    size_t cap = (room - DBK_CLAIM_FRAME_BYTES(0)) / 16 / 2;
    cap = cap < DBK_READ_STEP ? cap : DBK_READ_STEP;
    return events_max < cap ? events_max : (uint32_t)cap;
}

/* How many one claim may condemn beside what it takes, so that all their frames fit into one group. */
static uint32_t condemned_cap(const struct dbk_log *log)
{
    size_t room = log->delivery_area - log->delivery_area / 4;
    return (uint32_t)((room - DBK_CLAIM_FRAME_BYTES(claim_cap(log, DBK_READ_STEP))) /
                      DBK_QUARANTINE_FRAME_BYTES_MIN);
}

enum daybook_code dbk_log_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                                int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                                struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    uint32_t consumer;
    if (dbk_fault(DBK_FAULT_LEASE_BY_WALL_CLOCK)) {
        now_us = log->os->realtime_us(log->os);
    }
    batch->count = 0;
    batch->more = false;
    if (dbk_log_has_failed(log) || log->read_only) {
        return dbk_log_failed(log, err);
    }
    enum daybook_code code = ensure_registered(log, claim, now_us, deadline_us, &consumer, err);
    if (code != DAYBOOK_OK || claim->events_max == 0) {
        return code;
    }
    struct daybook_claim bounded = *claim;
    bounded.events_max = claim_cap(log, claim->events_max < batch->events_max ? claim->events_max
                                                                              : batch->events_max);
    if (bounded.bytes_max == 0 || bounded.bytes_max > batch->bytes_max) {
        bounded.bytes_max = batch->bytes_max;
    }

    dbk_mutex_lock(&log->state_lock);
    struct dbk_walk *walk = walk_take(log);
    if (walk == NULL) {
        dbk_mutex_unlock(&log->state_lock);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a claim");
    }
    dbk_walk_begin(log->state, walk, consumer, &bounded, now_us);
    uint64_t unreadable;
    if (!pick_and_read(log, walk, now_us, batch, &unreadable)) {
        dbk_walk_end(log->state, walk);
        walk_give_back(log, walk);
        dbk_mutex_unlock(&log->state_lock);
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "an event does not fit the batch: make it for max_event_bytes");
    }
    dbk_log_note_claim(log, consumer, now_us);
    dbk_mutex_unlock(&log->state_lock);

    /* The frames of what was condemned and of the claim; where they cannot all stand in one group,
     * what was condemned goes first and alone. */
    uint32_t cap = condemned_cap(log);
    size_t bytes = DBK_CLAIM_FRAME_BYTES(walk->pick_count) +
                   DBK_QUARANTINE_FRAME_BYTES_MIN *
                       (walk->condemned_count < cap ? walk->condemned_count : cap);
    code = dbk_stage_lock_with_room(log, bytes, DBK_OF_CALLERS, deadline_us, err);
    if (code != DAYBOOK_OK) {
        dbk_mutex_lock(&log->state_lock);
        dbk_walk_end(log->state, walk);
        walk_give_back(log, walk);
        dbk_mutex_unlock(&log->state_lock);
        batch->count = 0;
        return code;
    }
    dbk_walk_settle(log->state, walk);
    batch->more = walk->more || walk->condemned_count > cap;
    if (walk->condemned_count > cap) {
        walk->condemned_count = cap;
        walk->pick_count = 0;
    }
    if (dbk_places_reserve(&log->places, log->state, walk->condemned_count) != DAYBOOK_OK) {
        walk->condemned_count = 0;
        walk->pick_count = 0;
    }
    bool effect = walk->pick_count > 0 || walk->condemned_count > 0;
    uint64_t first_token = 0;
    enum dbk_wait_for level = DBK_WAIT_WRITTEN;
    if (effect) {
        level = stage_claim(log, walk, consumer, claim->lease_ms, now_us, &first_token);
    }
    fill_batch(batch, walk, first_token, now_us + (int64_t)claim->lease_ms * 1000);
    uint64_t condemned[DAYBOOK_QUARANTINE_REASONS] = {0};
    for (uint32_t i = 0; i < walk->condemned_count; i++) {
        condemned[walk->condemned[i].reason - 1]++;
    }
    dbk_walk_end(log->state, walk);
    walk_give_back(log, walk);
    if (!effect) {
        dbk_stage_unlock(log);
        if (unreadable != 0 &&
            !dbk_fault(DBK_FAULT_UNREADABLE_IS_NOTHING)) { /* not "there is nothing" */
            return dbk_fail(err, DAYBOOK_BACKEND,
                            "%s: the event at position %" PRIu64
                            " cannot be read; its key waits and is tried again in a second",
                            log->path, unreadable);
        }
        return DAYBOOK_OK;
    }
    if (level == DBK_WAIT_WRITTEN && dbk_fault(DBK_FAULT_CLAIM_BEFORE_WRITTEN)) {
        dbk_stage_unlock(log);
        return DAYBOOK_OK;
    }
    code = dbk_stage_unlock_and_wait(log, level, deadline_us, err);
    if (code != DAYBOOK_OK) {
        batch->count = 0;
    } else if (level == DBK_WAIT_SYNCED) {
        note_condemned(log, consumer, condemned);
    }
    return code;
}

/* ---- verdicts ---------------------------------------------------------------------------------- */

/* [state+stage] Decides and applies a step of a set, in order, and stages its frames. Returns whether
 * anything had an effect. */
static bool settle_step(struct dbk_log *log, uint32_t consumer, enum dbk_settle_op op,
                        uint32_t lease_ms, const struct daybook_hand_out *set, size_t count,
                        int64_t now_us, enum daybook_code *ret_codes)
{
    struct dbk_settle_entry entries[DBK_SETTLE_STEP];
    struct dbk_settle_entry given_up[DBK_SETTLE_STEP];
    uint32_t entry_count = 0;
    uint32_t given_up_count = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        enum dbk_settle_op effect = op;
        struct daybook_hand_out hand_out = set[i];
        if (dbk_fault(DBK_FAULT_ACKS_ACCEPTED_ANEW)) {
            struct dbk_state_stats stats;
            dbk_state_stats(log->state, &stats);
            hand_out.position = stats.newest_position;
        }
        struct dbk_decision decision =
            dbk_state_decide(log->state, consumer, op, hand_out, now_us, lease_ms, &effect);
        ret_codes[i] = decision.code;
        if (!decision.effect) {
            continue;
        }
        struct dbk_settle_entry entry = {.position = hand_out.position,
                                         .token = hand_out.token,
                                         .attempt_after = decision.attempt_after};
        if (effect == op) {
            entries[entry_count++] = entry;
        } else {
            given_up[given_up_count++] = entry;
        }
        dbk_state_apply_settle(log->state, consumer, effect, lease_ms, now_us, &entry, 1);
    }
    bool ended = op == DBK_SETTLE_ACK && dbk_state_forget_ended(log->state) > 0;
    struct dbk_settle_frame frame = {
        .consumer = consumer, .op = op, .lease_ms = lease_ms, .now_us = now_us};
    if (entry_count > 0) {
        frame.count = entry_count;
        bytes += dbk_settle_frame_encode(dbk_stage_frame_room(log), &frame, entries);
    }
    if (given_up_count > 0) {
        frame.op = DBK_SETTLE_GIVE_UP;
        frame.count = given_up_count;
        bytes += dbk_settle_frame_encode(dbk_stage_frame_room(log) + bytes, &frame, given_up);
    }
    if (ended) {
        bytes += dbk_discarded_frame(log, dbk_stage_frame_room(log) + bytes);
    }
    if (bytes > 0) {
        dbk_stage_frame_staged(log, bytes, DBK_WAIT_WRITTEN);
    }
    return bytes > 0;
}

enum daybook_code dbk_log_settle(struct daybook_journal *j, const char *consumer,
                                 enum dbk_settle_op op, uint32_t lease_ms,
                                 const struct daybook_hand_out *set, size_t count, int64_t now_us,
                                 int64_t deadline_us, enum daybook_code *ret_codes,
                                 struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    size_t frames = 2 * DBK_SETTLE_FRAME_BYTES(0) + DBK_FORGET_FRAME_BYTES(0, 0);
    size_t fits = (log->delivery_area - log->delivery_area / 4 - frames) / 24;
    size_t step = fits < DBK_SETTLE_STEP ? fits : DBK_SETTLE_STEP;
    bool effect = false;
    enum daybook_code code = DAYBOOK_OK;
    if (dbk_fault(DBK_FAULT_REGISTERS_ON_ACK)) {
        uint32_t unused;
        struct daybook_claim claim = {.consumer = consumer};
        code = ensure_registered(log, &claim, now_us, deadline_us, &unused, err);
    }
    for (size_t done = 0; done < count && code == DAYBOOK_OK;) {
        size_t n = count - done < step ? count - done : step;
        code = dbk_stage_lock_with_room(log, frames + 24 * n, DBK_OF_CALLERS, deadline_us, err);
        if (code != DAYBOOK_OK) {
            break;
        }
        uint32_t id = dbk_state_consumer_id(log->state, consumer);
        effect =
            settle_step(log, id, op, lease_ms, set + done, n, now_us, ret_codes + done) || effect;
        done += n;
        if (done < count || dbk_fault(DBK_FAULT_VERDICTS_BEFORE_WRITTEN)) {
            dbk_stage_unlock(log);
        } else {
            code = dbk_stage_unlock_and_wait(log, DBK_WAIT_WRITTEN, deadline_us, err);
        }
    }
    if (effect && op != DBK_SETTLE_REFUND && op != DBK_SETTLE_EXTEND) {
        dbk_log_bump_changes(log);
    }
    return code;
}

enum daybook_code dbk_log_quarantine(struct daybook_journal *j, const char *consumer,
                                     struct daybook_hand_out hand_out,
                                     enum daybook_quarantine_reason reason,
                                     struct daybook_bytes words, int64_t now_us,
                                     int64_t deadline_us, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    char text[DAYBOOK_WORDS_BYTES_MAX];
    for (size_t i = 0; i < words.len; i++) {
        text[i] = words.data[i] == '\0' ? ' ' : words.data[i];
    }
    enum daybook_code code = dbk_stage_lock_with_room(log, DBK_QUARANTINE_FRAME_BYTES_MAX,
                                                      DBK_OF_CALLERS, deadline_us, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    uint32_t id = dbk_state_consumer_id(log->state, consumer);
    struct dbk_decision decision = dbk_state_decide_quarantine(log->state, id, hand_out);
    if (decision.effect && dbk_places_reserve(&log->places, log->state, 1) != DAYBOOK_OK) {
        dbk_stage_unlock(log);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to set an event aside");
    }
    if (decision.effect && decision.code != DAYBOOK_OK) {
        /* The event was dropped; what ends is the lease that it left behind (P5). */
        struct dbk_settle_entry entry = {.position = hand_out.position, .token = hand_out.token};
        struct dbk_settle_frame frame = {
            .consumer = id, .op = DBK_SETTLE_GIVE_UP, .now_us = now_us, .count = 1};
        dbk_stage_frame_staged(log,
                               dbk_settle_frame_encode(dbk_stage_frame_room(log), &frame, &entry),
                               DBK_WAIT_WRITTEN);
        dbk_state_apply_settle(log->state, id, DBK_SETTLE_GIVE_UP, 0, now_us, &entry, 1);
    } else if (decision.effect) {
        struct dbk_quarantine_frame frame = {
            .position = hand_out.position,
            .consumer = id,
            .reason = reason,
            .attempts = dbk_state_attempts(log->state, id, hand_out.position),
            .at_us = now_us,
            .words = {text, words.len},
        };
        dbk_stage_frame_staged(log, dbk_quarantine_frame_encode(dbk_stage_frame_room(log), &frame),
                               dbk_fault(DBK_FAULT_QUARANTINE_UNSYNCED) ? DBK_WAIT_WRITTEN
                                                                        : DBK_WAIT_SYNCED);
        log->open_stage->has_records = true;
        dbk_state_apply_quarantine(log->state, id, hand_out.position, reason);
    }
    code = dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, deadline_us, err);
    if (code == DAYBOOK_OK && decision.effect) {
        dbk_log_bump_changes(log);
    }
    if (code == DAYBOOK_OK && decision.effect && decision.code == DAYBOOK_OK) {
        dbk_mutex_lock(&log->state_lock);
        dbk_log_note_quarantines(log, id, reason, 1);
        dbk_mutex_unlock(&log->state_lock);
    }
    if (code == DAYBOOK_OK && decision.code != DAYBOOK_OK) {
        return dbk_fail(err, decision.code, "event at position %llu: %s for consumer %s",
                        (unsigned long long)hand_out.position, daybook_code_name(decision.code),
                        consumer);
    }
    return code;
}

/* ---- pruning ----------------------------------------------------------------------------------- */

static uint32_t reasons_in(const struct dbk_forget_list *list)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        mask |= UINT32_C(1) << list->ranges[i].reason;
    }
    return mask;
}

size_t dbk_forget_frames_bytes(const struct dbk_forget_list *list, uint32_t orphan_count)
{
    size_t bytes = 16 * (size_t)list->count + 40 * (size_t)orphan_count;
    for (uint32_t mask = reasons_in(list); mask != 0; mask &= mask - 1) {
        bytes += DBK_FORGET_FRAME_BYTES(0, 0);
    }
    return bytes;
}

size_t dbk_forget_frames(struct dbk_log *log, uint8_t *out, const struct dbk_forget_list *list,
                         const struct dbk_orphan *orphans, uint32_t orphan_count)
{
    struct dbk_counters counters;
    size_t bytes = 0;
    uint32_t mask = reasons_in(list);
    dbk_state_counters(log->state, &counters);
    if (dbk_fault(DBK_FAULT_FORGET_UNLOGGED)) {
        return 0;
    }
    for (uint32_t reason = DBK_FORGET_PRUNED; reason <= DBK_FORGET_DAMAGED; reason++) {
        if ((mask >> reason & 1) == 0) {
            continue;
        }
        struct dbk_forget_frame frame = {.reason = (enum dbk_forget_reason)reason,
                                         .orphan_count = orphan_count};
        memcpy(frame.counters, counters.forgotten, sizeof(frame.counters));
        bytes += dbk_forget_frame_encode(out + bytes, &frame, list->ranges, list->count, orphans);
        orphan_count = 0; /* they stand once, with the first */
    }
    return bytes;
}

size_t dbk_discarded_frame(struct dbk_log *log, uint8_t *out)
{
    struct dbk_counters counters;
    struct dbk_forget_frame frame = {.reason = DBK_FORGET_DISCARDED};
    dbk_state_counters(log->state, &counters);
    memcpy(frame.counters, counters.forgotten, sizeof(frame.counters));
    return dbk_forget_frame_encode(out, &frame, NULL, 0, NULL);
}

enum daybook_code dbk_log_maintain(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                   uint64_t *ret_pruned, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    size_t frames = DBK_FORGET_REASONS * DBK_FORGET_FRAME_BYTES(0, 0);
    uint32_t fits = (uint32_t)((log->delivery_area - log->delivery_area / 4 - frames) / 16);
    uint32_t step = fits < PRUNE_STEP ? fits : PRUNE_STEP;
    uint64_t pruned = 0;
    unsigned steps = 0;
    enum daybook_code code;
    for (;;) {
        code = dbk_stage_lock_with_room(log, frames + 16 * (size_t)step, DBK_OF_HOUSEKEEPING,
                                        deadline_us, err);
        if (code != DAYBOOK_OK) {
            break;
        }
        log->forget.count = 0;
        log->forget.max = step;
        uint32_t n =
            dbk_state_prune(log->state, dbk_log_prune_now(log, now_us), step, &log->forget);
        if (log->forget.count > 0) {
            dbk_stage_frame_staged(
                log, dbk_forget_frames(log, dbk_stage_frame_room(log), &log->forget, NULL, 0),
                DBK_WAIT_WRITTEN);
        }
        pruned += n;
        if (n == 0) {
            code = dbk_stage_unlock_and_wait(log, DBK_WAIT_WRITTEN, deadline_us, err);
            break;
        }
        dbk_stage_unlock(log);
        if (++steps % PRUNE_STEPS_A_GROUP == 0) {
            dbk_commit_kick(log);
        }
        dbk_log_let_others(log);
        if (deadline_us != DAYBOOK_NO_DEADLINE && dbk_log_mono(log) >= deadline_us) {
            code = dbk_fail(err, DAYBOOK_TIMED_OUT,
                            "%s: the deadline came before everything was pruned", log->path);
            break;
        }
    }
    if (ret_pruned != NULL) {
        *ret_pruned = pruned;
    }
    atomic_fetch_add(&log->housekeeper_word, 1);
    dbk_futex_wake_all(&log->housekeeper_word);
    return code;
}
