/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: listings in order of position, one event by its id, what is quarantined, and the control (W5). A listing stops
 * below the positions of appends that are in flight (C11). Threads: any, one a batch.
 */
#include "engines/postgres/impl.h"

#include <string.h>

#include "base/error.h"

enum { COL_REASON = PG_COL_RECORD + 1, COL_ATTEMPTS, COL_AT, COL_WORDS };

/* ---- batches --------------------------------------------------------------------------------------- */

bool dbk_pg_fits(const struct daybook_batch *batch, uint64_t bytes_max, uint64_t bytes)
{
    uint64_t limit = bytes_max == 0 || bytes_max > batch->bytes_max ? batch->bytes_max : bytes_max;

    if (batch->count == 0) {
        return bytes <= dbk_batch_room(batch);
    }
    return batch->bytes_used < limit && bytes <= limit - batch->bytes_used;
}

static struct daybook_bytes put(struct daybook_batch *batch, struct daybook_bytes from)
{
    struct daybook_bytes at = {(char *)batch->bytes + batch->bytes_used, from.len};

    if (from.len > 0) {
        memcpy(batch->bytes + batch->bytes_used, from.data, from.len);
    }
    batch->bytes_used += from.len;
    return at;
}

struct daybook_delivery *dbk_pg_put(struct daybook_batch *batch,
                                    const struct daybook_delivery *delivery)
{
    struct daybook_delivery *d = &batch->deliveries[batch->count++];

    *d = *delivery;
    d->event.request_id = put(batch, delivery->event.request_id);
    d->event.name_space = put(batch, delivery->event.name_space);
    d->event.subject = put(batch, delivery->event.subject);
    d->event.record = put(batch, delivery->event.record);
    return d;
}

enum row_state { ROW_SOUND, ROW_DAMAGED, ROW_NOT_FETCHED };

/* The event of a row; its record is empty where it is damaged. */
static enum row_state read_row(const PGresult *r, int row, struct daybook_delivery *ret)
{
    *ret =
        (struct daybook_delivery){.position = (uint64_t)dbk_pg_int(r, row, PG_COL_POS),
                                  .row_version = (uint16_t)dbk_pg_int(r, row, PG_COL_VERSION),
                                  .accepted_at_us = dbk_pg_int(r, row, PG_COL_ACCEPTED),
                                  .event = {.request_id = dbk_pg_bytes(r, row, PG_COL_ID),
                                            .name_space = dbk_pg_bytes(r, row, PG_COL_SPACE),
                                            .subject = dbk_pg_bytes(r, row, PG_COL_SUBJECT),
                                            .record = dbk_pg_bytes(r, row, PG_COL_RECORD),
                                            .observed_at_us = dbk_pg_int(r, row, PG_COL_OBSERVED)}};
    if (PQgetisnull(r, row, PG_COL_RECORD) != 0) {
        return ROW_NOT_FETCHED;
    }
    if (ret->row_version <= PG_ROW_VERSION &&
        dbk_pg_checksum(&ret->event) != (uint32_t)dbk_pg_int(r, row, PG_COL_CHECKSUM)) {
        ret->event.record.len = 0;
        return ROW_DAMAGED;
    }
    return ROW_SOUND;
}

static uint64_t bytes_of(const struct daybook_delivery *d)
{
    return d->event.request_id.len + d->event.name_space.len + d->event.subject.len +
           d->event.record.len;
}

/* ---- listings --------------------------------------------------------------------------------------- */

enum daybook_code dbk_pg_read(struct daybook_journal *j, uint64_t after_position,
                              enum daybook_where where, struct daybook_batch *batch,
                              uint64_t *ret_last, uint64_t *ret_damaged, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    uint64_t last = after_position;
    uint64_t damaged = 0;
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_int(&args, PG_INT8, (int64_t)(after_position & INT64_MAX));
    dbk_pg_arg_int(&args, PG_INT4, (int)where);
    dbk_pg_arg_int(&args, PG_INT4, (int64_t)batch->events_max + 1);
    dbk_pg_arg_int(&args, PG_INT8, (int64_t)batch->bytes_max);
    code = dbk_pg_once(pg_of(j), &pg_of(j)->query, "SELECT * FROM @.read_1($1,$2,$3,$4)", &args,
                       DAYBOOK_NO_DEADLINE, &r, err);
    for (int row = 0; code == DAYBOOK_OK && row < PQntuples(r); row++) {
        struct daybook_delivery found;
        enum row_state state = read_row(r, row, &found);

        if (state == ROW_DAMAGED) {
            damaged++;
        } else if (state == ROW_NOT_FETCHED || batch->count == batch->events_max ||
                   !dbk_pg_fits(batch, 0, bytes_of(&found))) {
            batch->more = true;
            break;
        } else {
            (void)dbk_pg_put(batch, &found);
        }
        last = found.position;
    }
    /* All that came was damaged: there may be more behind it. */
    batch->more = batch->more || (code == DAYBOOK_OK && PQntuples(r) > (int)batch->events_max);
    PQclear(r);
    if (code == DAYBOOK_OK) {
        *ret_last = last;
        *ret_damaged = damaged;
    }
    return code;
}

static void fill_entry(const PGresult *r, int row, struct daybook_quarantine_entry *ret)
{
    struct daybook_bytes words = dbk_pg_bytes(r, row, COL_WORDS);

    ret->position = (uint64_t)dbk_pg_int(r, row, PG_COL_POS);
    ret->reason = (enum daybook_quarantine_reason)dbk_pg_int(r, row, COL_REASON);
    ret->attempts = (uint32_t)dbk_pg_int(r, row, COL_ATTEMPTS);
    ret->quarantined_at_us = dbk_pg_int(r, row, COL_AT);
    ret->words_len =
        (uint32_t)(words.len < DAYBOOK_WORDS_BYTES_MAX ? words.len : DAYBOOK_WORDS_BYTES_MAX);
    if (ret->words_len > 0) {
        memcpy(ret->words, words.data, ret->words_len);
    }
}

static enum daybook_code check_registered(struct pg_journal *p, const char *consumer,
                                          struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    code = dbk_pg_once(p, &p->query, "SELECT 1 FROM @.consumer WHERE name = $1", &args,
                       DAYBOOK_NO_DEADLINE, &r, err);
    if (code == DAYBOOK_OK && PQntuples(r) == 0) {
        code = dbk_fail(err, DAYBOOK_NOT_FOUND, "consumer %s is not registered in this journal",
                        consumer);
    }
    PQclear(r);
    return code;
}

enum daybook_code dbk_pg_quarantine_list(struct daybook_journal *j, const char *consumer,
                                         uint64_t after_position,
                                         enum daybook_quarantine_reason reason,
                                         struct daybook_batch *batch,
                                         struct daybook_quarantine_entry *ret_entries,
                                         uint64_t *ret_last, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    uint64_t last = after_position;
    PGresult *r = NULL;
    enum daybook_code code = check_registered(pg_of(j), consumer, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_int(&args, PG_INT8, (int64_t)(after_position & INT64_MAX));
    dbk_pg_arg_int(&args, PG_INT4, (int)reason);
    dbk_pg_arg_int(&args, PG_INT4, (int64_t)batch->events_max + 1);
    dbk_pg_arg_int(&args, PG_INT8, (int64_t)batch->bytes_max);
    code =
        dbk_pg_once(pg_of(j), &pg_of(j)->query, "SELECT * FROM @.quarantine_list_1($1,$2,$3,$4,$5)",
                    &args, DAYBOOK_NO_DEADLINE, &r, err);
    for (int row = 0; code == DAYBOOK_OK && row < PQntuples(r); row++) {
        struct daybook_delivery found;
        enum row_state state = read_row(r, row, &found);

        if (state == ROW_NOT_FETCHED || batch->count == batch->events_max ||
            !dbk_pg_fits(batch, 0, bytes_of(&found))) {
            batch->more = true;
            break;
        }
        fill_entry(r, row, &ret_entries[batch->count]);
        (void)dbk_pg_put(batch, &found);
        last = found.position;
    }
    PQclear(r);
    if (code == DAYBOOK_OK) {
        *ret_last = last;
    }
    return code;
}

/* ---- one event ---------------------------------------------------------------------------------------- */

static void fill_standing(const struct pg_journal *p, const PGresult *r, int row, uint64_t position,
                          int64_t now_us, struct daybook_event_standing *ret)
{
    enum { NAME, START, RESOLVED, RESOLUTION, ATTEMPT, HAND_OUTS, GRANTED, EXPIRES, NOW };
    struct daybook_bytes name = dbk_pg_bytes(r, row, NAME);
    struct pg_mark mark = {.leased = PQgetisnull(r, row, EXPIRES) == 0,
                           .granted_us = dbk_pg_int(r, row, GRANTED),
                           .expires_us = dbk_pg_int(r, row, EXPIRES)};

    *ret = (struct daybook_event_standing){.standing = DAYBOOK_STANDING_ACKNOWLEDGED};
    memcpy(ret->consumer, name.data,
           name.len < sizeof ret->consumer ? name.len : sizeof ret->consumer - 1);
    if (position < (uint64_t)dbk_pg_int(r, row, START) || dbk_pg_is(r, row, RESOLVED)) {
        return;
    }
    now_us = p->clock == DAYBOOK_POSTGRES_CLOCK_CALLER ? now_us : dbk_pg_int(r, row, NOW);
    switch ((enum pg_resolution)dbk_pg_int(r, row, RESOLUTION)) {
    case PG_ACKNOWLEDGED:
        break;
    case PG_QUARANTINED:
        ret->standing = DAYBOOK_STANDING_QUARANTINED;
        break;
    case PG_DISCARDED:
        ret->standing = DAYBOOK_STANDING_DISCARDED;
        break;
    case PG_OPEN:
    case PG_DROPPED:
        ret->standing = dbk_pg_lease_live(&mark, now_us) ? DAYBOOK_STANDING_IN_FLIGHT
                                                         : DAYBOOK_STANDING_PENDING;
        ret->attempt = (uint32_t)dbk_pg_int(r, row, ATTEMPT);
        ret->hand_outs = (uint32_t)dbk_pg_int(r, row, HAND_OUTS);
        break;
    }
}

static enum daybook_code fill_standings(struct pg_journal *p, uint64_t position, int64_t now_us,
                                        struct daybook_event_standing *ret_standings, size_t max,
                                        size_t *ret_count, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_int(&args, PG_INT8, (int64_t)position);
    code = dbk_pg_once(p, &p->query, "SELECT * FROM @.standings_1($1)", &args, DAYBOOK_NO_DEADLINE,
                       &r, err);
    if (code == DAYBOOK_OK) {
        *ret_count = (size_t)PQntuples(r) < max ? (size_t)PQntuples(r) : max;
        for (size_t i = 0; i < *ret_count; i++) {
            fill_standing(p, r, (int)i, position, now_us, &ret_standings[i]);
        }
    }
    PQclear(r);
    return code;
}

enum daybook_code dbk_pg_find(struct daybook_journal *j, struct daybook_bytes request_id,
                              int64_t now_us, struct daybook_batch *batch,
                              struct daybook_event_standing *ret_standings, size_t max,
                              size_t *ret_count, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    struct daybook_delivery found;
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, request_id);
    code = dbk_pg_once(pg_of(j), &pg_of(j)->query, "SELECT * FROM @.find_1($1)", &args,
                       DAYBOOK_NO_DEADLINE, &r, err);
    if (code == DAYBOOK_OK && PQntuples(r) == 0) {
        code = dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not stored", (int)request_id.len,
                        request_id.data);
    }
    if (code == DAYBOOK_OK) {
        (void)read_row(r, 0, &found);
        code = dbk_pg_fits(batch, 0, bytes_of(&found))
                   ? DAYBOOK_OK
                   : dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                              "the event does not fit the batch: make it for max_event_bytes");
    }
    if (code == DAYBOOK_OK) {
        uint64_t position = dbk_pg_put(batch, &found)->position;

        code = fill_standings(pg_of(j), position, now_us, ret_standings, max, ret_count, err);
    }
    PQclear(r);
    return code;
}

/* ---- the control (W5) ----------------------------------------------------------------------------------- */

/* The newest acknowledged position below `below`; 0: none. */
static enum daybook_code newest_below(struct pg_journal *p, const char *consumer, int64_t below,
                                      int64_t *ret, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_int(&args, PG_INT8, below);
    dbk_pg_arg_int(&args, PG_INT4, PG_ROW_VERSION);
    code = dbk_pg_once(p, &p->query, "SELECT @.control_1($1,$2,$3)", &args, DAYBOOK_NO_DEADLINE, &r,
                       err);
    *ret = code == DAYBOOK_OK ? dbk_pg_int(r, 0, 0) : 0;
    PQclear(r);
    return code;
}

/* Reads the event at a position. */
static enum daybook_code read_at(struct pg_journal *p, int64_t position, PGresult **ret,
                                 struct daybook_error *err)
{
    struct pg_args args = {.count = 0};

    dbk_pg_arg_int(&args, PG_INT8, position - 1);
    dbk_pg_arg_int(&args, PG_INT4, DAYBOOK_WHERE_ALL);
    dbk_pg_arg_int(&args, PG_INT4, 1);
    dbk_pg_arg_int(&args, PG_INT8, 1);
    return dbk_pg_once(p, &p->query, "SELECT * FROM @.read_1($1,$2,$3,$4)", &args,
                       DAYBOOK_NO_DEADLINE, ret, err);
}

enum daybook_code dbk_pg_newest_acknowledged(struct daybook_journal *j, const char *consumer,
                                             int64_t now_us, struct daybook_batch *batch,
                                             struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    int64_t position = INT64_MAX;
    enum daybook_code code;
    bool looking = true;

    now_us = dbk_pg_now(p, now_us);
    do {
        struct daybook_delivery found;
        PGresult *r = NULL;

        code = newest_below(p, consumer, position, &position, err);
        if (code != DAYBOOK_OK || position == 0) {
            return code;
        }
        code = read_at(p, position, &r, err);
        if (code == DAYBOOK_OK && PQntuples(r) == 1) {
            enum row_state state = read_row(r, 0, &found);

            /* What is older has left its window too. */
            looking = found.position == (uint64_t)position &&
                      now_us - found.accepted_at_us < p->head.capacity.retain_acknowledged_us;
            if (looking && state == ROW_SOUND) {
                looking = false;
                code = dbk_pg_fits(batch, 0, bytes_of(&found))
                           ? DAYBOOK_OK
                           : dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                                      "the event does not fit the batch: make it for "
                                      "max_event_bytes");
                if (code == DAYBOOK_OK) {
                    (void)dbk_pg_put(batch, &found);
                }
            }
        }
        PQclear(r);
    } while (code == DAYBOOK_OK && looking);
    return code;
}
