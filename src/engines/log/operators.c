/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators do (O1): start, release, discard, retire and rewind, each one ADMIN frame that is synced before
 * it is answered and stays in the trail; the list of what is quarantined, with the destination's words;
 * one event by its id.
 * Run by any thread.
 */
#include "engines/log/log_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"

enum { LOOK_STEPS_MAX = 4096 };

/* ---- finding ----------------------------------------------------------------------------------- */

/* The position under which an id is stored; 0: it is not. *ret_code BACKEND: a read failed. */
static uint64_t find_position(struct dbk_log *log, struct daybook_bytes request_id,
                              enum daybook_code *ret_code)
{
    uint64_t hash = dbk_identity_id_hash(&log->identity, request_id);
    uint32_t at = 0;
    *ret_code = DAYBOOK_OK;
    for (;;) {
        struct dbk_id_match match;
        bool found;
        dbk_mutex_lock(&log->state_lock); /* what was answered is published once this is free */
        dbk_mutex_lock(&log->stage_lock);
        do {
            found = dbk_state_id_find(log->state, hash, &at, &match);
        } while (found && match.staged);
        if (found) {
            dbk_segment_pin(log, match.place.segment_no);
        }
        dbk_mutex_unlock(&log->stage_lock);
        dbk_mutex_unlock(&log->state_lock);
        if (!found) {
            return 0;
        }
        struct dbk_entry entry;
        size_t entry_len;
        dbk_mutex_lock(&log->compare_lock);
        int64_t len = dbk_segment_read(log, match.place, log->compare_buffer);
        enum dbk_entry_check check =
            len < 0 ? DBK_ENTRY_BAD
                    : dbk_entry_decode(log->compare_buffer, (size_t)len, &entry, &entry_len);
        if (check != DBK_ENTRY_BAD && !dbk_entry_is_of(log, &entry, hash, entry.accepted_at_us)) {
            check = DBK_ENTRY_BAD;
        }
        bool same = check != DBK_ENTRY_BAD && entry.request_id.len == request_id.len &&
                    memcmp(entry.request_id.data, request_id.data, request_id.len) == 0;
        dbk_mutex_unlock(&log->compare_lock);
        dbk_segment_unpin(log, match.place.segment_no);
        if (same) {
            return match.position;
        }
        if (check == DBK_ENTRY_BAD) {
            *ret_code = DAYBOOK_BACKEND;
        }
    }
}

static struct daybook_bytes cut(struct daybook_bytes text, size_t max)
{
    return (struct daybook_bytes){text.data, text.len < max ? text.len : max};
}

/* ---- acts -------------------------------------------------------------------------------------- */

struct act {
    enum dbk_admin_op op;
    const char *consumer;
    struct daybook_bytes request_id;
    const struct daybook_operator *by;
    enum daybook_force force;
    int64_t now_us;
};

/* [state] What the act comes to for this event. OK with *ret_effect no: it stands already. */
static enum daybook_code judge(struct dbk_log *log, const struct act *act, uint32_t id,
                               uint64_t position, bool *ret_effect, struct daybook_error *err)
{
    *ret_effect = true;
    if (id == 0) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "consumer %s is not registered in this journal",
                        act->consumer);
    }
    if (act->op == DBK_ADMIN_RETIRE && act->force == DAYBOOK_FORCE_NO &&
        dbk_state_holds_leases(log->state, id, act->now_us)) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "consumer %s holds live leases; stop it, or wait until they end",
                        act->consumer);
    }
    if (act->op == DBK_ADMIN_RETIRE || act->op == DBK_ADMIN_REWIND || act->op == DBK_ADMIN_LIFT) {
        return DAYBOOK_OK;
    }
    enum dbk_standing standing =
        position == 0 ? DBK_STANDING_ABSENT : dbk_state_standing(log->state, id, position);
    if (act->op == DBK_ADMIN_RELEASE) {
        return standing == DBK_STANDING_QUARANTINED
                   ? DAYBOOK_OK
                   : dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not quarantined by %s",
                              (int)act->request_id.len, act->request_id.data, act->consumer);
    }
    switch (standing) {
    case DBK_STANDING_ABSENT:
    case DBK_STANDING_BEFORE_START:
        return dbk_fail(err, DAYBOOK_NOT_FOUND,
                        "%.*s is not stored, or from before the start of %s",
                        (int)act->request_id.len, act->request_id.data, act->consumer);
    case DBK_STANDING_ACKNOWLEDGED:
        return dbk_fail(err, DAYBOOK_ALREADY_ACKNOWLEDGED, "%.*s was acknowledged by %s already",
                        (int)act->request_id.len, act->request_id.data, act->consumer);
    case DBK_STANDING_DISCARDED:
        *ret_effect = false;
        return DAYBOOK_OK;
    case DBK_STANDING_UNRESOLVED:
    case DBK_STANDING_QUARANTINED:
        break;
    }
    return DAYBOOK_OK;
}

/* [state+stage] */
static void apply(struct dbk_log *log, const struct act *act, uint32_t id, uint64_t position)
{
    switch (act->op) {
    case DBK_ADMIN_RELEASE:
        dbk_state_release(log->state, id, position);
        break;
    case DBK_ADMIN_DISCARD:
        dbk_state_discard(log->state, id, position);
        break;
    case DBK_ADMIN_RETIRE:
        dbk_state_retire(log->state, id);
        dbk_state_forget_ended(log->state);
        break;
    case DBK_ADMIN_REWIND:
        dbk_state_rewind(log->state, id, log->next_token, act->now_us);
        break;
    case DBK_ADMIN_REGISTER:
    case DBK_ADMIN_LIFT: /* of a worker's, not ours */
        break;
    }
}

static enum daybook_code perform(struct dbk_log *log, const struct act *act, int64_t deadline_us,
                                 struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    bool of_event = act->op == DBK_ADMIN_RELEASE || act->op == DBK_ADMIN_DISCARD;
    uint64_t position = of_event ? find_position(log, act->request_id, &code) : 0;
    if (position == 0 && code != DAYBOOK_OK) {
        return dbk_fail(err, code, "%s: the stored event cannot be read", log->path);
    }
    code = dbk_stage_lock_with_room(log, DBK_ADMIN_FRAME_BYTES_MAX + DBK_FORGET_FRAME_BYTES(0, 0),
                                    DBK_OF_CALLERS, deadline_us, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    bool effect;
    uint32_t id = dbk_state_consumer_id(log->state, act->consumer);
    code = judge(log, act, id, position, &effect, err);
    if (code != DAYBOOK_OK) {
        dbk_stage_unlock(log);
        return code;
    }
    if (effect) {
        struct dbk_admin_frame frame = {
            .op = act->op,
            .no = log->places.next_no++,
            .consumer = id,
            .at_us = act->now_us,
            .who = cut(act->by->who, DAYBOOK_WHO_BYTES_MAX),
            .why = cut(act->by->why, DAYBOOK_WHY_BYTES_MAX),
            .name = {act->consumer, strlen(act->consumer)},
            .request_id = act->request_id,
            .token_floor = log->next_token,
            .position_count = of_event ? 1 : 0,
            .positions = &position,
        };
        struct dbk_counters before;
        struct dbk_counters after;
        dbk_stage_frame_staged(log, dbk_admin_frame_encode(dbk_stage_frame_room(log), &frame),
                               DBK_WAIT_SYNCED);
        log->open_stage->has_records = true;
        dbk_state_counters(log->state, &before);
        apply(log, act, id, position);
        dbk_state_counters(log->state, &after);
        if (memcmp(&before, &after, sizeof(before)) != 0) {
            dbk_stage_frame_staged(log, dbk_discarded_frame(log, dbk_stage_frame_room(log)),
                                   DBK_WAIT_SYNCED);
        }
    }
    code = dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, deadline_us, err);
    if (effect && code == DAYBOOK_OK) {
        dbk_log_bump_changes(log);
    }
    return code;
}

enum daybook_code dbk_log_release(struct daybook_journal *j, const char *consumer,
                                  struct daybook_bytes request_id,
                                  const struct daybook_operator *by, int64_t now_us,
                                  int64_t deadline_us, struct daybook_error *err)
{
    struct act act = {.op = DBK_ADMIN_RELEASE,
                      .consumer = consumer,
                      .request_id = request_id,
                      .by = by,
                      .now_us = now_us};
    return perform(dbk_log_of(j), &act, deadline_us, err);
}

enum daybook_code dbk_log_discard(struct daybook_journal *j, const char *consumer,
                                  struct daybook_bytes request_id,
                                  const struct daybook_operator *by, int64_t now_us,
                                  int64_t deadline_us, struct daybook_error *err)
{
    struct act act = {.op = DBK_ADMIN_DISCARD,
                      .consumer = consumer,
                      .request_id = request_id,
                      .by = by,
                      .now_us = now_us};
    return perform(dbk_log_of(j), &act, deadline_us, err);
}

enum daybook_code dbk_log_retire(struct daybook_journal *j, const char *consumer,
                                 enum daybook_force force, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    struct act act = {
        .op = DBK_ADMIN_RETIRE, .consumer = consumer, .by = by, .force = force, .now_us = now_us};
    return perform(dbk_log_of(j), &act, deadline_us, err);
}

enum daybook_code dbk_log_rewind(struct daybook_journal *j, const char *consumer,
                                 const struct daybook_operator *by, int64_t now_us,
                                 int64_t deadline_us, struct daybook_error *err)
{
    struct act act = {.op = DBK_ADMIN_REWIND, .consumer = consumer, .by = by, .now_us = now_us};
    return perform(dbk_log_of(j), &act, deadline_us, err);
}

enum daybook_code dbk_log_note_lift(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_operator *by, int64_t now_us,
                                    int64_t deadline_us, struct daybook_error *err)
{
    struct act act = {.op = DBK_ADMIN_LIFT, .consumer = consumer, .by = by, .now_us = now_us};
    return perform(dbk_log_of(j), &act, deadline_us, err);
}

enum daybook_code dbk_log_start(struct daybook_journal *j, const char *consumer,
                                struct daybook_start start, const struct daybook_operator *by,
                                int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    const struct daybook_operator kept = {cut(by->who, DAYBOOK_WHO_BYTES_MAX),
                                          cut(by->why, DAYBOOK_WHY_BYTES_MAX)};
    enum daybook_code code =
        dbk_stage_lock_with_room(log, DBK_ADMIN_FRAME_BYTES_MAX, DBK_OF_CALLERS, deadline_us, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    uint32_t id = dbk_state_consumer_id(log->state, consumer);
    code =
        id != 0
            ? dbk_fail(err, DAYBOOK_CONFLICT,
                       "consumer %s is registered already: where it started stands", consumer)
            : dbk_log_register(log, consumer, start, log->places.next_no, &kept, now_us, &id, err);
    if (code != DAYBOOK_OK) {
        dbk_stage_unlock(log);
        return code;
    }
    log->places.next_no++;
    return dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, deadline_us, err);
}

/* ---- reading what was noted ----------------------------------------------------------------------- */

enum record { RECORD_READ, RECORD_ROTTEN, RECORD_UNREADABLE };

/* Reads the record of this position, or operation, back; its segment is pinned by the caller, and let go here.
 * `buffer` holds `place.len`. */
static enum record read_record(struct dbk_log *log, struct dbk_place place, uint64_t position,
                               uint8_t *buffer, struct dbk_frame *ret)
{
    int64_t len = dbk_segment_read(log, place, buffer);
    dbk_segment_unpin(log, place.segment_no);
    if (len < 0) {
        return RECORD_UNREADABLE;
    }
    if (!dbk_frame_read(buffer, (size_t)len, ret)) {
        return RECORD_ROTTEN;
    }
    struct dbk_frame outer = *ret;
    return (outer.type != DBK_FRAME_RELOCATE || dbk_relocate_frame_decode(&outer, ret)) &&
                   ret->position == position
               ? RECORD_READ
               : RECORD_ROTTEN;
}

enum { RECORD_BYTES_MAX = 8192 };
static_assert(DBK_QUARANTINE_FRAME_BYTES_MAX + 64 < RECORD_BYTES_MAX &&
                  DBK_ADMIN_FRAME_BYTES_MAX + 64 < RECORD_BYTES_MAX,
              "a record fits the buffer it is read into");

static void fill_entry(const struct dbk_quarantine_frame *frame,
                       struct daybook_quarantine_entry *ret)
{
    ret->reason = frame->reason;
    ret->attempts = frame->attempts;
    ret->quarantined_at_us = frame->at_us;
    ret->words_len =
        (uint32_t)(frame->words.len < sizeof(ret->words) ? frame->words.len : sizeof(ret->words));
    memcpy(ret->words, frame->words.data, ret->words_len);
}

/* One event into the batch, to be looked at; an event that cannot be read has its position and no more. */
static void read_to_show(struct dbk_log *log, const struct dbk_stored *stored,
                         struct daybook_batch *batch)
{
    struct dbk_entry entry;
    size_t entry_len;
    uint8_t *buf = batch->bytes + batch->bytes_used;
    int64_t len = dbk_segment_read(log, stored->place, buf);
    struct daybook_delivery *delivery = &batch->deliveries[batch->count];
    *delivery = (struct daybook_delivery){.position = stored->position,
                                          .row_version = stored->row_version,
                                          .accepted_at_us = stored->accepted_at_us,
                                          .event = {.observed_at_us = stored->observed_at_us}};
    enum dbk_entry_check check =
        len < 0 ? DBK_ENTRY_BAD : dbk_entry_decode(buf, (size_t)len, &entry, &entry_len);
    if (check == DBK_ENTRY_BAD ||
        !dbk_entry_is_of(log, &entry, stored->id_hash, stored->accepted_at_us)) {
        return;
    }
    batch->bytes_used += (size_t)len;
    delivery->event.request_id = entry.request_id;
    delivery->event.name_space = entry.name_space;
    delivery->event.subject = entry.subject;
    if (check == DBK_ENTRY_OK) {
        delivery->event.record = entry.record;
    }
}

/* A verdict counts when it is staged, and where its evidence stands is known when its group has ended:
 * waits for that, but not for a disk that hangs. */
static void await_evidence(struct dbk_log *log)
{
    enum { PATIENCE_US = 1000000 };
    dbk_mutex_lock(&log->stage_lock);
    struct dbk_group *group = dbk_group_ref_newest(log);
    dbk_mutex_unlock(&log->stage_lock);
    if (group != NULL) {
        (void)dbk_commit_wait(log, group, DBK_WAIT_SYNCED, dbk_log_mono(log) + PATIENCE_US);
    }
}

enum daybook_code dbk_log_quarantine_list(struct daybook_journal *j, const char *consumer,
                                          uint64_t after_position,
                                          enum daybook_quarantine_reason reason,
                                          struct daybook_batch *batch,
                                          struct daybook_quarantine_entry *ret_entries,
                                          uint64_t *ret_last, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    uint8_t *record = malloc(RECORD_BYTES_MAX);
    uint64_t at = after_position;
    uint64_t awaited = 0; /* the event whose evidence was waited for */
    enum daybook_code code = DAYBOOK_OK;
    if (record == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to list what is quarantined");
    }
    batch->count = 0;
    batch->bytes_used = 0;
    batch->more = true;
    while (batch->count < batch->events_max) {
        struct dbk_stored stored;
        struct dbk_frame frame;
        struct dbk_quarantine_frame quarantine;
        const struct dbk_evidence *evidence = NULL;
        struct dbk_place place = {0};
        uint64_t looked;
        dbk_mutex_lock(&log->state_lock);
        uint32_t id = dbk_state_consumer_id(log->state, consumer);
        bool found = id != 0 && dbk_state_next_quarantined(log->state, id, at, LOOK_STEPS_MAX,
                                                           &stored, &looked);
        if (found) {
            evidence = dbk_places_evidence(&log->places, id, stored.position);
            dbk_segment_pin(log, stored.place.segment_no);
        }
        if (evidence != NULL) {
            place = evidence->frame;
            dbk_segment_pin(log, place.segment_no);
        }
        dbk_mutex_unlock(&log->state_lock);
        if (id == 0) {
            code = dbk_fail(err, DAYBOOK_NOT_FOUND, "consumer %s is not registered in this journal",
                            consumer);
            break;
        }
        if (!found && looked == UINT64_MAX) {
            batch->more = false;
            break;
        }
        if (!found) {
            at = looked;
            continue;
        }
        if (evidence == NULL && awaited != stored.position) {
            dbk_segment_unpin(log, stored.place.segment_no);
            awaited = stored.position;
            await_evidence(log);
            continue;
        }
        if (stored.place.len > dbk_batch_room(batch) - batch->bytes_used) {
            dbk_segment_unpin(log, stored.place.segment_no);
            if (evidence != NULL) {
                dbk_segment_unpin(log, place.segment_no);
            }
            if (batch->count == 0) {
                code = dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                                "the event at position %" PRIu64
                                " does not fit the batch: make it for max_event_bytes",
                                stored.position);
            }
            break;
        }
        at = stored.position;
        struct daybook_quarantine_entry *entry = &ret_entries[batch->count];
        memset(entry, 0, sizeof(*entry));
        entry->position = stored.position;
        bool known = place.len > 0 && place.len <= RECORD_BYTES_MAX &&
                     read_record(log, place, at, record, &frame) == RECORD_READ &&
                     dbk_quarantine_frame_decode(&frame, &quarantine);
        if (known) {
            fill_entry(&quarantine, entry);
        }
        if (reason == 0 || !known || quarantine.reason == reason) {
            read_to_show(log, &stored, batch);
            batch->count++;
        }
        dbk_segment_unpin(log, stored.place.segment_no);
    }
    *ret_last = at;
    free(record);
    return code;
}

enum daybook_code dbk_log_find(struct daybook_journal *j, struct daybook_bytes request_id,
                               int64_t now_us, struct daybook_batch *batch,
                               struct daybook_event_standing *ret_standings, size_t max,
                               size_t *ret_count, struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    struct dbk_stored stored;
    size_t count = 0;
    enum daybook_code code = DAYBOOK_OK;
    uint64_t position = find_position(log, request_id, &code);
    if (position == 0 && code != DAYBOOK_OK) {
        return dbk_fail(err, code, "%s: the stored event cannot be read", log->path);
    }
    dbk_mutex_lock(&log->state_lock);
    bool found = position != 0 && dbk_state_get(log->state, position, &stored);
    for (uint32_t i = 0; found && i < dbk_state_consumer_count(log->state) && count < max; i++) {
        (void)dbk_state_show(log->state, i, position, now_us, &ret_standings[count++]);
    }
    if (found) {
        dbk_segment_pin(log, stored.place.segment_no);
    }
    dbk_mutex_unlock(&log->state_lock);
    if (!found) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not stored", (int)request_id.len,
                        request_id.data);
    }
    if (stored.place.len > dbk_batch_room(batch)) {
        code = dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the event does not fit the batch: make it for max_event_bytes");
    } else {
        read_to_show(log, &stored, batch);
        batch->count = 1;
        *ret_count = count;
    }
    dbk_segment_unpin(log, stored.place.segment_no);
    return code;
}

static void fill_operation(const struct dbk_admin_frame *admin, struct daybook_operation *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->no = admin->no;
    ret->kind = (enum daybook_operation_kind)admin->op;
    ret->at_us = admin->at_us;
    ret->position = admin->position_count > 0 ? dbk_admin_position_at(admin, 0) : 0;
    memcpy(ret->consumer, admin->name.data, admin->name.len);
    memcpy(ret->request_id, admin->request_id.data,
           cut(admin->request_id, DAYBOOK_NAME_BYTES_MAX).len);
    memcpy(ret->who, admin->who.data, cut(admin->who, DAYBOOK_WHO_BYTES_MAX).len);
    memcpy(ret->why, admin->why.data, cut(admin->why, DAYBOOK_WHY_BYTES_MAX).len);
}

enum daybook_code dbk_log_operations(struct daybook_journal *j, uint64_t before_no,
                                     struct daybook_operation *ret, size_t max, size_t *ret_count,
                                     struct daybook_error *err)
{
    struct dbk_log *log = dbk_log_of(j);
    uint64_t before = before_no == 0 ? UINT64_MAX : before_no;
    uint32_t i = 0;
    *ret_count = 0;
    uint8_t *record = malloc(RECORD_BYTES_MAX);
    if (record == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to list operations");
    }
    enum daybook_code code = DAYBOOK_OK;
    while (*ret_count < max) {
        struct dbk_place place;
        struct dbk_frame frame;
        struct dbk_admin_frame admin;
        dbk_mutex_lock(&log->state_lock);
        const struct dbk_trail_entry *entry;
        while ((entry = dbk_places_trail(&log->places, i)) != NULL && entry->no >= before) {
            i++;
        }
        if (entry == NULL) {
            dbk_mutex_unlock(&log->state_lock);
            break;
        }
        before = entry->no;
        place = entry->frame;
        /* A record that rotted before it was moved went with its segment. */
        bool there = dbk_segment_pin_if_there(log, place.segment_no);
        dbk_mutex_unlock(&log->state_lock);
        if (!there) {
            continue;
        }
        if (place.len > RECORD_BYTES_MAX ||
            read_record(log, place, before, record, &frame) != RECORD_READ ||
            !dbk_admin_frame_decode(&frame, &admin)) {
            code = dbk_fail(err, DAYBOOK_BACKEND, "%s: the record of operation %llu is unreadable",
                            log->path, (unsigned long long)before);
            break;
        }
        fill_operation(&admin, &ret[(*ret_count)++]);
    }
    free(record);
    return code;
}

bool dbk_trail_move(struct dbk_log *log, uint32_t lowest)
{
    enum { TRAIL_RETRY_US = 1000000 };
    if (dbk_log_mono(log) < log->trail_retry_us) {
        return false;
    }
    uint8_t *record = malloc(RECORD_BYTES_MAX);
    bool moved_all = record != NULL;
    for (uint32_t i = 0; moved_all; i++) {
        struct dbk_frame frame;
        dbk_mutex_lock(&log->state_lock);
        const struct dbk_trail_entry *entry = dbk_places_trail(&log->places, i);
        struct dbk_place place = {0};
        uint64_t no = 0;
        if (entry != NULL) {
            place = entry->frame;
            no = entry->no;
        }
        bool old = entry != NULL && place.segment_no < lowest &&
                   dbk_segment_pin_if_there(log, place.segment_no);
        dbk_mutex_unlock(&log->state_lock);
        if (entry == NULL) {
            break;
        }
        if (!old) {
            continue;
        }
        enum record found = place.len > RECORD_BYTES_MAX
                                ? RECORD_ROTTEN
                                : read_record(log, place, no, record, &frame);
        if (found == RECORD_UNREADABLE && !dbk_fault(DBK_FAULT_TRAIL_LOST)) {
            /* A failed read says nothing about the record: its segment stays, and it is tried again. */
            log->trail_retry_us = dbk_log_mono(log) + TRAIL_RETRY_US;
            moved_all = false;
            break;
        }
        if (found != RECORD_READ) {
            continue; /* no reason to keep its segment for ever */
        }
        size_t bytes = DBK_FRAME_HEADER_BYTES + 8 + (size_t)frame.len;
        if (dbk_stage_lock_with_room(log, bytes, DBK_OF_HOUSEKEEPING, dbk_log_mono(log), NULL) !=
            DAYBOOK_OK) {
            moved_all = false;
            break;
        }
        dbk_stage_frame_staged(log, dbk_relocate_frame_encode(dbk_stage_frame_room(log), &frame),
                               DBK_WAIT_SYNCED);
        log->open_stage->has_records = true;
        moved_all = dbk_stage_unlock_and_wait(log, DBK_WAIT_SYNCED, DAYBOOK_NO_DEADLINE, NULL) ==
                    DAYBOOK_OK;
    }
    free(record);
    return moved_all;
}
