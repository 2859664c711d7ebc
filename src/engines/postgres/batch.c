/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One append statement: up to PG_BATCH_EVENTS events, each copied, so that a caller may leave before its answer has
 * come, and each answered on its own. Whether a repeated id is the same fact (E6) is decided here, with the library's
 * own comparison. An id is in a batch only once: what follows waits for the next (A6).
 *
 * Threads: one at a time per batch.
 */
#include "engines/postgres/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/error.h"

#define ARENA_FIRST_ROOM ((size_t)256 * 1024)
#define BATCH_BYTES_MAX ((size_t)1 << 20) /* one event may be more */
#define ROOM_MAX 5000                     /* what one statement gives up for room */

enum append_answer { ANSWER_ACCEPTED, ANSWER_STORED, ANSWER_FULL, ANSWER_AGAIN, ANSWER_ALONE };
enum append_column {
    COL_ORD,
    COL_CODE,
    COL_POS,
    COL_AUX,
    COL_VERSION,
    COL_CHECKSUM,
    COL_SPACE,
    COL_SUBJECT,
    COL_RECORD
};

/* Each name with its length before it: no two events have the same bytes to sum up. */
uint32_t dbk_pg_checksum(const struct daybook_event *event)
{
    const struct daybook_bytes parts[] = {event->request_id, event->name_space, event->subject,
                                          event->record};
    uint32_t crc = 0;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint8_t len[4] = {(uint8_t)parts[i].len, (uint8_t)(parts[i].len >> 8),
                          (uint8_t)(parts[i].len >> 16), (uint8_t)(parts[i].len >> 24)};

        crc = dbk_crc32c(dbk_crc32c(crc, len, sizeof len), parts[i].data, parts[i].len);
    }
    return crc;
}

void dbk_pg_batch_clear(struct pg_batch *batch)
{
    batch->count = 0;
    batch->used = 0;
}

void dbk_pg_batch_release(struct pg_batch *batch)
{
    struct pg_array *const arrays[] = {&batch->ids,      &batch->spaces,  &batch->subjects,
                                       &batch->observed, &batch->records, &batch->bytes,
                                       &batch->checksums};

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        dbk_pg_array_release(arrays[i]);
    }
    free(batch->arena);
    batch->arena = NULL;
}

static bool same_bytes(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool has_id(const struct pg_batch *batch, struct daybook_bytes id)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (same_bytes(batch->entries[i].event.request_id, id)) {
            return true;
        }
    }
    return false;
}

static struct daybook_bytes moved(struct daybook_bytes range, const uint8_t *from, uint8_t *to)
{
    return (struct daybook_bytes){(char *)to + ((const uint8_t *)range.data - from), range.len};
}

/* Room in the arena; what is in it moves along. */
static bool reserve(struct pg_batch *batch, size_t more)
{
    size_t room = batch->room == 0 ? ARENA_FIRST_ROOM : batch->room;
    uint8_t *arena;

    while (room < batch->used + more) {
        room *= 2;
    }
    if (room == batch->room) {
        return true;
    }
    arena = malloc(room);
    if (arena == NULL) {
        return false;
    }
    if (batch->used > 0) {
        memcpy(arena, batch->arena, batch->used);
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct daybook_event *e = &batch->entries[i].event;

        e->request_id = moved(e->request_id, batch->arena, arena);
        e->name_space = moved(e->name_space, batch->arena, arena);
        e->subject = moved(e->subject, batch->arena, arena);
        e->record = moved(e->record, batch->arena, arena);
    }
    free(batch->arena);
    batch->arena = arena;
    batch->room = room;
    return true;
}

static struct daybook_bytes copied(struct pg_batch *batch, struct daybook_bytes from)
{
    struct daybook_bytes at = {(char *)batch->arena + batch->used, from.len};

    if (from.len > 0) {
        memcpy(batch->arena + batch->used, from.data, from.len);
    }
    batch->used += from.len;
    return at;
}

static size_t event_bytes(const struct daybook_event *event)
{
    return event->request_id.len + event->name_space.len + event->subject.len + event->record.len;
}

bool dbk_pg_batch_add(struct pg_batch *batch, const struct daybook_event *event, void *ticket,
                      size_t index)
{
    struct pg_entry *entry = &batch->entries[batch->count];

    if (batch->count == PG_BATCH_EVENTS ||
        (batch->count > 0 && batch->used + event_bytes(event) > BATCH_BYTES_MAX) ||
        has_id(batch, event->request_id) || !reserve(batch, event_bytes(event))) {
        return false;
    }
    *entry = (struct pg_entry){.ticket = ticket, .index = index, .event = *event};
    entry->event.request_id = copied(batch, event->request_id);
    entry->event.name_space = copied(batch, event->name_space);
    entry->event.subject = copied(batch, event->subject);
    entry->event.record = copied(batch, event->record);
    batch->count++;
    return true;
}

/* ---- saying it ------------------------------------------------------------------------------------- */

/* The arrays of what is not answered yet; returns how many. */
static size_t fill(struct pg_batch *batch)
{
    size_t count = 0;

    dbk_pg_array_start(&batch->ids, PG_TEXT);
    dbk_pg_array_start(&batch->spaces, PG_TEXT);
    dbk_pg_array_start(&batch->subjects, PG_TEXT);
    dbk_pg_array_start(&batch->observed, PG_INT8);
    dbk_pg_array_start(&batch->records, PG_TEXT);
    dbk_pg_array_start(&batch->bytes, PG_INT4);
    dbk_pg_array_start(&batch->checksums, PG_INT4);
    for (size_t i = 0; i < batch->count; i++) {
        const struct daybook_event *e = &batch->entries[i].event;

        if (batch->entries[i].answered) {
            continue;
        }
        batch->sent[count++] = i;
        dbk_pg_array_bytes(&batch->ids, e->request_id.data, e->request_id.len);
        dbk_pg_array_bytes(&batch->spaces, e->name_space.data, e->name_space.len);
        dbk_pg_array_bytes(&batch->subjects, e->subject.data, e->subject.len);
        if (e->observed_at_us == DAYBOOK_TIME_UNSET) {
            dbk_pg_array_null(&batch->observed);
        } else {
            dbk_pg_array_int(&batch->observed, e->observed_at_us);
        }
        dbk_pg_array_bytes(&batch->records, e->record.data, e->record.len);
        dbk_pg_array_int(&batch->bytes, (int64_t)event_bytes(e));
        dbk_pg_array_int(&batch->checksums, (int32_t)dbk_pg_checksum(e));
    }
    return count;
}

static void fill_args(struct pg_journal *p, const struct pg_conn *conn, struct pg_batch *batch,
                      uint64_t others, struct pg_args *args)
{
    int64_t until_us = 0;
    bool may_prune;

    dbk_mutex_lock(&p->mutex);
    may_prune = dbk_pg_prune_until(p, dbk_pg_now(p, batch->now_us), &until_us);
    dbk_mutex_unlock(&p->mutex);
    dbk_pg_arg_now(args, p, batch->now_us);
    dbk_pg_arg_int(args, PG_INT4, conn->slot);
    dbk_pg_arg_int(args, PG_INT8, (int64_t)p->head.capacity.events_max);
    dbk_pg_arg_int(args, PG_INT8, (int64_t)others);
    dbk_pg_arg_int(args, PG_BOOL, p->head.capacity.policy == DAYBOOK_POLICY_DROP_OLDEST);
    if (may_prune) {
        dbk_pg_arg_int(args, PG_INT8, until_us);
    } else {
        dbk_pg_arg_null(args, PG_INT8);
    }
    dbk_pg_arg_int(args, PG_INT8, ROOM_MAX);
    dbk_pg_arg_int(args, PG_INT4, p->row_version);
    dbk_pg_arg_array(args, &batch->ids);
    dbk_pg_arg_array(args, &batch->spaces);
    dbk_pg_arg_array(args, &batch->subjects);
    dbk_pg_arg_array(args, &batch->observed);
    dbk_pg_arg_array(args, &batch->records);
    dbk_pg_arg_array(args, &batch->bytes);
    dbk_pg_arg_array(args, &batch->checksums);
}

/* A2, A3, and C9 for a row that this build cannot compare. */
static void compare(const PGresult *r, int row, const struct daybook_event *event,
                    struct daybook_append_result *ret)
{
    struct daybook_event stored = *event;

    stored.name_space = dbk_pg_bytes(r, row, COL_SPACE);
    stored.subject = dbk_pg_bytes(r, row, COL_SUBJECT);
    stored.record = dbk_pg_bytes(r, row, COL_RECORD);
    if (dbk_pg_int(r, row, COL_VERSION) > PG_ROW_VERSION ||
        (uint32_t)dbk_pg_int(r, row, COL_CHECKSUM) != dbk_pg_checksum(&stored)) {
        ret->code = DAYBOOK_BACKEND;
    } else if (daybook_event_same_fact(&stored, event)) {
        ret->code = DAYBOOK_ALREADY_PRESENT;
        ret->position = (uint64_t)dbk_pg_int(r, row, COL_POS);
    } else {
        ret->code = DAYBOOK_CONFLICT;
    }
}

static void answer(struct pg_batch *batch, const PGresult *r, int row, bool *ret_alone)
{
    size_t ord = (size_t)dbk_pg_int(r, row, COL_ORD);
    struct pg_entry *entry = &batch->entries[batch->sent[ord - 1]];

    entry->result = (struct daybook_append_result){.code = DAYBOOK_OK};
    entry->answered = true;
    switch ((enum append_answer)dbk_pg_int(r, row, COL_CODE)) {
    case ANSWER_ACCEPTED:
        entry->result.position = (uint64_t)dbk_pg_int(r, row, COL_POS);
        return;
    case ANSWER_STORED:
        compare(r, row, &entry->event, &entry->result);
        return;
    case ANSWER_FULL:
        entry->result.code = DAYBOOK_AT_CAPACITY;
        entry->result.limit = DAYBOOK_LIMIT_EVENTS;
        entry->result.retained = (uint64_t)dbk_pg_int(r, row, COL_AUX);
        return;
    case ANSWER_ALONE:
        *ret_alone = true;
        break;
    case ANSWER_AGAIN:
        break;
    }
    entry->answered = false;
}

/* The moment from which on the brake counts, where nothing was accepted before (P3). */
static void note_accepted(struct pg_journal *p, int64_t now_us)
{
    dbk_mutex_lock(&p->mutex);
    if (p->trusted_us == DAYBOOK_TIME_UNSET) {
        p->trusted_us = dbk_pg_now(p, now_us);
        p->trusted_mono_us = pg_mono_us(p);
    }
    dbk_mutex_unlock(&p->mutex);
}

enum daybook_code dbk_pg_batch_send(struct pg_journal *p, struct pg_conn *conn,
                                    struct pg_batch *batch, uint64_t others, unsigned ends,
                                    PGresult **ret, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    const struct pg_step append = {
        "SELECT * FROM @.append_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15)", &args};

    *ret = NULL;
    if (fill(batch) == 0) {
        return DAYBOOK_OK;
    }
    fill_args(p, conn, batch, others, &args);
    return dbk_pg_run(p, conn, PG_BEGIN | PG_DURABLE | ends, &append, 1, DAYBOOK_NO_DEADLINE, ret,
                      err);
}

void dbk_pg_batch_answer(struct pg_journal *p, struct pg_batch *batch, const PGresult *r,
                         int64_t took_us, bool *ret_alone)
{
    for (int row = 0; row < PQntuples(r); row++) {
        answer(batch, r, row, ret_alone);
    }
    note_accepted(p, batch->now_us);
    dbk_pg_count_group(p, took_us, (uint64_t)PQntuples(r));
}
