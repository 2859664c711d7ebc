/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocation: what is still needed of a segment that holds little is copied to the end of the log, so that
 * one old event pins no gigabytes. Events, the words of quarantines and the operators' trail; positions,
 * times and delivery state stay as they are, only the place changes.
 *
 * Promises: a copy is synced before its place is used, so before the old segment can go; what is copied is
 * stored at that point of the log, so that a RELOCATE in a replay never brings back what was forgotten
 * before it. A segment that cannot be read as what was written is left alone.
 *
 * Run by the housekeeper: in the background at most 4 MB/s, at once where max_bytes is reached. A batch is
 * made ready without locks and written by whoever is busy, as a group of its own: it waits for no stage,
 * and nothing that is staged waits longer than for one more group.
 */
#include "engines/log/log_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/fault.h"

enum {
    BATCH_BYTES = 256 * 1024,
    BYTES_PER_S = 4 * 1024 * 1024,
    LOOK_US = 5000000,         /* between looks for a segment, in the background */
    LEAVE_ALONE_US = 60000000, /* a segment that cannot be relocated now */
    ROOM_AGAIN_US = 10000000,  /* after a relocation for room that gained none */
    STEPS = 4096,              /* events or buckets looked at under one hold */
    FOUND_MAX = 256,           /* events found in one step */
    PRESSURE_PERCENT = 80,     /* of max_bytes: no window is waited for */
    LIVE_PART = 4,             /* of what can go at most a quarter is needed, in the background */
    GAIN_PART = 10,            /* of a segment: less is not worth it */
    BESIDE_BLOCKS = 6          /* beside the copies: TRIM, LINK, checkpoints */
};

enum kind { KIND_EVENT, KIND_EVIDENCE, KIND_TRAIL };

/* What is needed of the segment. */
struct item {
    uint64_t position; /* KIND_TRAIL: the operation's number */
    struct dbk_place from;
    uint64_t id_hash;       /* KIND_EVENT */
    int64_t accepted_at_us; /* likewise */
    uint32_t consumer;      /* KIND_EVIDENCE */
    uint32_t at;            /* of its frame in the batch */
    uint32_t len;           /* likewise; 0: none */
    enum kind kind;
};

/* Who has the batch. */
enum hand { HAND_NOBODY, HAND_READY, HAND_TAKEN, HAND_DONE };

struct dbk_relocation {
    uint8_t *group;   /* header, frames, end mark, padding */
    uint8_t *scratch; /* one entry or record */
    struct item *items;
    uint32_t count;
    uint32_t room;
    uint32_t segment_no; /* whose items these are; 0: none */
    uint32_t first;      /* the batch: items [first, end) */
    uint32_t end;
    size_t frames_len;
    bool
        delivered; /* some of them were delivered: they go by themselves when their window is over */
    bool moved_all;  /* every item of the last batch has its new place, or is needed no longer */
    int64_t look_us; /* monotonic: no look before */
    int64_t next_us; /* likewise: no batch */
    int64_t room_us; /* likewise: not for room */
    _Atomic uint32_t hand;
};

void dbk_relocation_release(struct dbk_log *log)
{
    if (log->relocation != NULL) {
        free(log->relocation->group);
        free(log->relocation->scratch);
        free(log->relocation->items);
        free(log->relocation);
        log->relocation = NULL;
    }
}

/* NULL: no memory now. */
static struct dbk_relocation *relocation_of(struct dbk_log *log)
{
    struct dbk_relocation *r = log->relocation;
    if (r != NULL) {
        return r;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->group = malloc((size_t)log->group_max + 2 * (size_t)DBK_BLOCK_BYTES);
    r->scratch = malloc(DBK_GROUP_BYTES_MAX);
    log->relocation = r;
    if (r->group == NULL || r->scratch == NULL) {
        dbk_relocation_release(log);
        return NULL;
    }
    r->look_us = INT64_MIN;
    r->next_us = INT64_MIN;
    r->room_us = INT64_MIN;
    return r;
}

/* ---- what is needed of a segment ----------------------------------------------------------------- */

static bool add(struct dbk_relocation *r, struct item item)
{
    if (r->count == r->room) {
        uint32_t room = r->room == 0 ? 1024 : r->room * 2;
        struct item *grown = realloc(r->items, room * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        r->items = grown;
        r->room = room;
    }
    r->items[r->count++] = item;
    return true;
}

static bool add_events(struct dbk_log *log, struct dbk_relocation *r)
{
    struct dbk_placed found[FOUND_MAX];
    uint64_t after = 0;
    uint64_t left = 1;
    while (after != UINT64_MAX && r->count < left) {
        dbk_mutex_lock(&log->state_lock);
        left = dbk_state_segment_events(log->state, r->segment_no);
        uint32_t n =
            dbk_state_in_segment(log->state, r->segment_no, &after, STEPS, found, FOUND_MAX);
        dbk_mutex_unlock(&log->state_lock);
        for (uint32_t i = 0; i < n; i++) {
            r->delivered = r->delivered || found[i].delivered;
            if (!add(r, (struct item){.position = found[i].position,
                                      .from = found[i].place,
                                      .id_hash = found[i].id_hash,
                                      .accepted_at_us = found[i].accepted_at_us})) {
                return false;
            }
        }
    }
    return true;
}

/* [state] Whether this quarantine stands, and its words are read from there. */
static bool evidence_stands(const struct dbk_log *log, const struct dbk_evidence *e)
{
    return e->consumer != 0 && e->frame.len > 0 &&
           dbk_state_standing(log->state, e->consumer, e->position) == DBK_STANDING_QUARANTINED;
}

static bool add_evidence(struct dbk_log *log, struct dbk_relocation *r)
{
    bool more = true;
    bool room = true;
    for (uint32_t from = 0; more && room; from += STEPS) {
        dbk_mutex_lock(&log->state_lock);
        const struct dbk_places *places = &log->places;
        for (uint32_t i = from; room && i < from + STEPS && i < places->evidence_room; i++) {
            const struct dbk_evidence *e = &places->evidence[i];
            if (e->frame.segment_no == r->segment_no && evidence_stands(log, e)) {
                room = add(r, (struct item){.kind = KIND_EVIDENCE,
                                            .position = e->position,
                                            .consumer = e->consumer,
                                            .from = e->frame});
            }
        }
        more = from + STEPS < places->evidence_room;
        dbk_mutex_unlock(&log->state_lock);
    }
    return room;
}

static bool add_trail(struct dbk_log *log, struct dbk_relocation *r)
{
    bool room = true;
    dbk_mutex_lock(&log->state_lock);
    const struct dbk_trail_entry *entry;
    for (uint32_t i = 0; room && (entry = dbk_places_trail(&log->places, i)) != NULL; i++) {
        if (entry->frame.segment_no == r->segment_no) {
            room = add(
                r, (struct item){.kind = KIND_TRAIL, .position = entry->no, .from = entry->frame});
        }
    }
    dbk_mutex_unlock(&log->state_lock);
    return room;
}

/* Lists what is needed of a segment. False: no memory. */
static bool begin(struct dbk_log *log, struct dbk_relocation *r, uint32_t segment_no)
{
    r->segment_no = segment_no;
    r->count = 0;
    r->first = 0;
    r->end = 0;
    r->frames_len = 0;
    r->delivered = false;
    return add_events(log, r) && add_evidence(log, r) && add_trail(log, r);
}

/* ---- a batch ------------------------------------------------------------------------------------- */

/* The frame of one item, read into `scratch`, at `out`. Returns its bytes; 0: it is not what was written. */
static size_t encode(const struct dbk_log *log, const struct item *item, uint8_t *out)
{
    const struct dbk_relocation *r = log->relocation;
    struct dbk_frame outer;
    struct dbk_frame inner;
    struct dbk_entry entry;
    size_t len;
    if (item->kind == KIND_EVENT) {
        return dbk_entry_decode(r->scratch, item->from.len, &entry, &len) != DBK_ENTRY_BAD &&
                       dbk_entry_is_of(log, &entry, item->id_hash, item->accepted_at_us)
                   ? dbk_relocate_event_encode(out, item->position, r->scratch, item->from.len)
                   : 0;
    }
    if (!dbk_frame_read(r->scratch, item->from.len, &outer)) {
        return 0;
    }
    inner = outer;
    if (outer.type == DBK_FRAME_RELOCATE && !dbk_relocate_frame_decode(&outer, &inner)) {
        return 0;
    }
    return inner.position == item->position ? dbk_relocate_frame_encode(out, &inner) : 0;
}

static size_t frame_bytes(const struct item *item)
{
    return DBK_RELOCATE_EVENT_FRAME_BYTES(item->from.len);
}

/* What the words of a quarantine, or an operation, were is lost with their bytes: no reason to keep the
 * segment for ever. */
static void forget_record(struct dbk_log *log, const struct item *item)
{
    const struct dbk_place nowhere = {0};
    dbk_mutex_lock(&log->state_lock);
    if (item->kind == KIND_EVIDENCE) {
        dbk_places_note_evidence(&log->places, item->consumer, item->position, nowhere);
    } else {
        dbk_places_note_operation(&log->places, item->position, nowhere);
    }
    dbk_mutex_unlock(&log->state_lock);
}

/* Makes the next batch ready. False: an event cannot be read as what was written. */
static bool fill(struct dbk_log *log, struct dbk_relocation *r)
{
    size_t most = log->group_max - DBK_GROUP_HEADER_BYTES - DBK_END_MARK_BYTES;
    most = most < BATCH_BYTES ? most : BATCH_BYTES;
    size_t at = 0;
    r->first = r->end;
    while (r->end < r->count) {
        struct item *item = &r->items[r->end];
        size_t bytes = frame_bytes(item);
        if (at > 0 && at + bytes > most) {
            break;
        }
        /* Too large: written under other limits. And an error of reading says nothing about what it is. */
        if (bytes > log->group_max - DBK_GROUP_HEADER_BYTES - DBK_END_MARK_BYTES ||
            dbk_segment_read(log, item->from, r->scratch) != (int64_t)item->from.len) {
            return false;
        }
        size_t len = encode(log, item, r->group + DBK_GROUP_HEADER_BYTES + at);
        if (len == 0 && item->kind == KIND_EVENT) {
            return false;
        }
        if (len == 0) {
            forget_record(log, item);
        }
        item->at = (uint32_t)at;
        item->len = (uint32_t)len;
        at += len;
        r->end++;
    }
    r->frames_len = at;
    return true;
}

static bool same_place(struct dbk_place a, struct dbk_place b)
{
    return a.segment_no == b.segment_no && a.offset == b.offset;
}

/* [state+stage] Whether what stood there is needed, and stands there still. */
static bool is_needed(const struct dbk_log *log, const struct item *item)
{
    struct dbk_stored stored;
    const struct dbk_evidence *evidence;
    const struct dbk_trail_entry *entry;
    switch (item->kind) {
    case KIND_EVENT:
        return dbk_state_get(log->state, item->position, &stored) &&
               same_place(stored.place, item->from);
    case KIND_EVIDENCE:
        evidence = dbk_places_evidence(&log->places, item->consumer, item->position);
        return evidence != NULL && evidence_stands(log, evidence) &&
               same_place(evidence->frame, item->from);
    case KIND_TRAIL:
        entry = dbk_places_operation(&log->places, item->position);
        return entry != NULL && same_place(entry->frame, item->from);
    }
    return false;
}

/* [state+stage] Takes out of the batch what is needed no longer: what was forgotten since must not stand
 * behind its FORGET. */
static void drop_forgotten(const struct dbk_log *log, struct dbk_relocation *r)
{
    uint8_t *frames = r->group + DBK_GROUP_HEADER_BYTES;
    size_t kept = 0;
    for (uint32_t i = r->first; i < r->end; i++) {
        struct item *item = &r->items[i];
        if (item->len == 0 || !is_needed(log, item)) {
            item->len = 0;
            continue;
        }
        memmove(frames + kept, frames + item->at, item->len);
        item->at = (uint32_t)kept;
        kept += item->len;
    }
    r->frames_len = kept;
}

static size_t padded(const struct dbk_relocation *r)
{
    return dbk_round_up(DBK_GROUP_HEADER_BYTES + r->frames_len + DBK_END_MARK_BYTES,
                        DBK_BLOCK_BYTES);
}

/* [stage] What has to be left in the tail where no segment stands prepared behind it. */
static size_t left_in_tail(const struct dbk_log *log)
{
    return log->tail_segment_bytes / 4 + dbk_round_up(log->group_max, DBK_BLOCK_BYTES);
}

/* Busy: the copies are on disk; their places count from here on. */
static void move_places(struct dbk_log *log, struct dbk_relocation *r, uint64_t frames_lsn)
{
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    for (uint32_t i = r->first; i < r->end; i++) {
        const struct item *item = &r->items[i];
        uint64_t lsn = frames_lsn + item->at;
        if (item->len == 0 || !is_needed(log, item)) {
            continue;
        }
        if (item->kind == KIND_EVENT) {
            uint32_t offset = dbk_lsn_offset(lsn) + DBK_FRAME_HEADER_BYTES + 8;
            dbk_state_move(log->state, item->position,
                           (struct dbk_place){dbk_lsn_segment(lsn), offset, item->from.len});
            continue;
        }
        struct dbk_place to = {dbk_lsn_segment(lsn), dbk_lsn_offset(lsn), item->len};
        if (item->kind == KIND_EVIDENCE) {
            dbk_places_note_evidence(&log->places, item->consumer, item->position, to);
        } else {
            dbk_places_note_operation(&log->places, item->position, to);
        }
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
}

/* Busy: writes the batch and moves the places. */
static bool write_batch(struct dbk_log *log, struct dbk_relocation *r)
{
    bool moved;
    if (dbk_log_has_failed(log) || !dbk_tail_make_room(log, padded(r), &moved)) {
        return false;
    }
    dbk_mutex_lock(&log->state_lock);
    dbk_mutex_lock(&log->stage_lock);
    drop_forgotten(log, r);
    size_t bytes = r->frames_len == 0 ? 0 : padded(r);
    bool room =
        bytes == 0 || bytes + (log->spare.file >= 0 ? 0 : left_in_tail(log)) <= log->tail_room;
    if (room && bytes > 0) {
        log->tail_room -= (uint32_t)bytes;
        log->relocated = true;
    }
    dbk_mutex_unlock(&log->stage_lock);
    dbk_mutex_unlock(&log->state_lock);
    if (bytes == 0 || !room) {
        return room;
    }
    uint64_t lsn = dbk_lsn(log->tail.segment_no, log->tail.offset) + DBK_GROUP_HEADER_BYTES;
    if (!dbk_tail_write_frames(log, r->group, r->frames_len)) {
        return false;
    }
    if (!dbk_fault(DBK_FAULT_RELOCATE_UNSYNCED) && !dbk_tail_sync(log)) {
        return false;
    }
    move_places(log, r, lsn);
    return true;
}

void dbk_relocation_if_ready(struct dbk_log *log)
{
    struct dbk_relocation *r = atomic_load(&log->relocation_handed);
    uint32_t ready = HAND_READY;
    if (r == NULL || !atomic_compare_exchange_strong(&r->hand, &ready, HAND_TAKEN)) {
        return;
    }
    r->moved_all = write_batch(log, r);
    atomic_store(&r->hand, HAND_DONE);
    dbk_futex_wake_all(&r->hand);
}

/* Has the batch written by whoever is busy, or by this thread. False: there was no room, or it failed. */
static bool hand_over(struct dbk_log *log, struct dbk_relocation *r)
{
    enum { LOOK_AGAIN_US = 1000 };
    atomic_store(&r->hand, HAND_READY);
    atomic_store(&log->relocation_handed, r);
    while (atomic_load(&r->hand) != HAND_DONE && !dbk_log_has_failed(log)) {
        if (dbk_busy_try(log)) {
            dbk_relocation_if_ready(log);
            dbk_busy_end(log);
        } else {
            uint32_t seen = atomic_load(&r->hand);
            if (seen != HAND_DONE) {
                dbk_futex_wait(&r->hand, seen, LOOK_AGAIN_US);
            }
        }
    }
    /* A journal that fails is not written to any more: nobody has the batch. */
    while (atomic_load(&r->hand) == HAND_TAKEN) {
        dbk_futex_wait(&r->hand, HAND_TAKEN, LOOK_AGAIN_US);
    }
    bool done = atomic_exchange(&r->hand, HAND_NOBODY) == HAND_DONE && r->moved_all;
    return done && !dbk_log_has_failed(log);
}

enum step { STEP_MOVED, STEP_FINISHED, STEP_CANNOT };

static enum step one_batch(struct dbk_log *log, struct dbk_relocation *r)
{
    if (r->end < r->count && fill(log, r) && hand_over(log, r)) {
        return r->end < r->count ? STEP_MOVED : STEP_FINISHED;
    }
    return r->end == r->count && r->frames_len == 0 ? STEP_FINISHED : STEP_CANNOT;
}

/* ---- which segment ------------------------------------------------------------------------------- */

/* Bytes of records that stand in each segment, summed into `ret` by the index of the segment. */
static void add_record_bytes(struct dbk_log *log, const struct dbk_segment_use *uses,
                             uint32_t count, uint64_t *ret)
{
    for (uint32_t from = 0, more = 1; more != 0; from += STEPS) {
        dbk_mutex_lock(&log->state_lock);
        const struct dbk_places *places = &log->places;
        for (uint32_t i = from; i < from + STEPS && i < places->evidence_room; i++) {
            const struct dbk_evidence *e = &places->evidence[i];
            uint32_t at =
                e->consumer == 0 ? count : dbk_segment_use_find(uses, count, e->frame.segment_no);
            if (at < count && evidence_stands(log, e)) {
                ret[at] += e->frame.len;
            }
        }
        more = from + STEPS < places->evidence_room ? 1 : 0;
        dbk_mutex_unlock(&log->state_lock);
    }
    dbk_mutex_lock(&log->state_lock);
    const struct dbk_trail_entry *entry;
    for (uint32_t i = 0; (entry = dbk_places_trail(&log->places, i)) != NULL; i++) {
        uint32_t at = dbk_segment_use_find(uses, count, entry->frame.segment_no);
        if (at < count) {
            ret[at] += entry->frame.len;
        }
    }
    dbk_mutex_unlock(&log->state_lock);
}

/* What a relocation takes, headers and padding included. */
static uint64_t cost(uint64_t live)
{
    return live == 0 ? 0 : live + live / 16 + 2 * (uint64_t)DBK_BLOCK_BYTES;
}

/* Bytes that a relocation may take of the log now. */
static uint64_t bytes_left(struct dbk_log *log, enum dbk_relocate_why why)
{
    dbk_mutex_lock(&log->stage_lock);
    uint64_t room = log->tail_room;
    uint64_t kept = left_in_tail(log);
    uint64_t left = room > kept ? room - kept : 0;
    left += log->spare.file >= 0 ? log->spare.segment_bytes / 2 : 0;
    dbk_mutex_unlock(&log->stage_lock);
    if (why == DBK_RELOCATE_FOR_ROOM) {
        return left; /* no segment can be made */
    }
    uint64_t files = atomic_load(&log->file_bytes) + 2 * (uint64_t)log->segment_bytes;
    return files < log->bytes_max ? log->bytes_max - files : 0;
}

static bool is_worth_it(const struct dbk_log *log, uint64_t live, uint64_t freed,
                        enum dbk_relocate_why why)
{
    uint64_t spent = cost(live) + BESIDE_BLOCKS * (uint64_t)DBK_BLOCK_BYTES;
    bool quarter = live * LIVE_PART < freed;
    return (why == DBK_RELOCATE_FOR_ROOM || quarter) &&
           freed >= spent + log->segment_bytes / GAIN_PART;
}

/* The lowest segments go in order, so what counts is how much is needed of all up to some segment, and how many
 * can go once that is copied: up to the next one of which something is needed. Returns the lowest segment of
 * the run that gains the most, and with *ret_last the last to be copied; 0: none is worth it. */
static uint32_t choose_run(const struct dbk_log *log, const struct dbk_segment_use *uses,
                           const uint64_t *lives, uint32_t count, uint64_t left,
                           enum dbk_relocate_why why, uint32_t *ret_last)
{
    uint64_t live = 0;
    uint64_t freed = 0;
    uint64_t best = 0;
    uint32_t first = 0;
    *ret_last = 0;
    for (uint32_t i = 0; i < count && cost(live + lives[i]) <= left; i++) {
        live += lives[i];
        /* What is empty in front goes by itself, once the checkpoints allow it. */
        freed += live > 0 ? uses[i].size_bytes : 0;
        first = first == 0 && lives[i] > 0 ? uses[i].segment_no : first;
        bool goes_on = i + 1 < count && lives[i + 1] == 0; /* that one goes as well */
        if (live == 0 || goes_on || !is_worth_it(log, live, freed, why) ||
            freed - cost(live) <= best) {
            continue;
        }
        best = freed - cost(live);
        *ret_last = uses[i].segment_no;
    }
    return *ret_last == 0 ? 0 : first;
}

/* The segment to copy from next. 0: none. */
static uint32_t choose(struct dbk_log *log, enum dbk_relocate_why why, uint32_t *ret_last)
{
    uint32_t count = 0;
    uint32_t chosen = 0;
    struct dbk_segment_use *uses = dbk_segment_uses(log, &count);
    uint64_t *lives = uses == NULL ? NULL : calloc(count + 1, sizeof(*lives));
    if (lives != NULL) {
        add_record_bytes(log, uses, count, lives);
        for (uint32_t i = 0; i < count; i++) {
            lives[i] += uses[i].event_bytes;
        }
        chosen = choose_run(log, uses, lives, count, bytes_left(log, why), why, ret_last);
    }
    uint32_t at = dbk_segment_use_find(uses, count, chosen);
    if (why == DBK_RELOCATE_IN_BACKGROUND && at < count &&
        uses[at].leave_alone_until_us > dbk_log_mono(log)) {
        chosen = 0;
    }
    free(lives);
    free(uses);
    return chosen;
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void leave_alone(struct dbk_log *log, struct dbk_relocation *r)
{
    dbk_segment_leave_alone(log, r->segment_no, dbk_log_mono(log) + LEAVE_ALONE_US);
    r->segment_no = 0;
}

static bool under_pressure(const struct dbk_log *log)
{
    return atomic_load(&log->file_bytes) > log->bytes_max / 100 * PRESSURE_PERCENT;
}

/* Finds a segment and lists what is needed of it. False: there is none now. */
static bool look(struct dbk_log *log, struct dbk_relocation *r)
{
    int64_t now = dbk_log_mono(log);
    if (now < r->look_us) {
        return false;
    }
    uint32_t last = 0;
    uint32_t segment_no = choose(log, DBK_RELOCATE_IN_BACKGROUND, &last);
    if (segment_no == 0) {
        r->look_us = now + LOOK_US;
        return false;
    }
    /* What was delivered is pruned soon: a segment that empties by itself is not copied. */
    if (!begin(log, r, segment_no) || (r->delivered && !under_pressure(log))) {
        leave_alone(log, r);
        return false;
    }
    return true;
}

bool dbk_relocate_round(struct dbk_log *log)
{
    struct dbk_relocation *r = relocation_of(log);
    int64_t now = dbk_log_mono(log);
    dbk_mutex_lock(&log->stage_lock);
    bool waits = log->spare.file < 0 || log->stalled != NULL;
    dbk_mutex_unlock(&log->stage_lock);
    if (r == NULL || waits || log->append_only || (log->housekeeper_started && now < r->next_us) ||
        (r->segment_no == 0 && !look(log, r))) {
        return false;
    }
    enum step step = one_batch(log, r);
    r->next_us = now + (int64_t)r->frames_len * 1000000 / BYTES_PER_S;
    if (step == STEP_CANNOT) {
        leave_alone(log, r);
        return false;
    }
    if (step == STEP_FINISHED) {
        r->segment_no = 0;
    }
    return true;
}

bool dbk_relocate_for_room(struct dbk_log *log)
{
    struct dbk_relocation *r = relocation_of(log);
    uint32_t last = 0;
    if (r == NULL || dbk_log_mono(log) < r->room_us) {
        return false;
    }
    uint32_t segment_no = choose(log, DBK_RELOCATE_FOR_ROOM, &last);
    if (segment_no == 0) {
        return false;
    }
    enum step step = STEP_FINISHED;
    for (; segment_no <= last && step == STEP_FINISHED; segment_no++) {
        step = begin(log, r, segment_no) ? STEP_MOVED : STEP_CANNOT;
        while (step == STEP_MOVED) {
            step = one_batch(log, r);
        }
    }
    if (step == STEP_CANNOT) {
        leave_alone(log, r);
    }
    r->segment_no = 0;
    return step == STEP_FINISHED;
}

void dbk_relocate_gained_nothing(struct dbk_log *log)
{
    struct dbk_relocation *r = relocation_of(log);
    if (r != NULL) {
        r->room_us = dbk_log_mono(log) + ROOM_AGAIN_US;
    }
}

bool dbk_segment_has_evidence(struct dbk_log *log, uint32_t segment_no)
{
    struct dbk_relocation *r = relocation_of(log);
    if (r == NULL || r->segment_no != 0) {
        return true; /* looked at again when it is known */
    }
    r->segment_no = segment_no;
    r->count = 0;
    bool known = add_evidence(log, r);
    r->segment_no = 0;
    return !known || r->count > 0;
}
