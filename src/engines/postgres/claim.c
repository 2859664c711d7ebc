/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: the server looks for the lanes with the lowest heads, locks them and returns their open events in order of
 * position; the walk of C4c is done here over what came; then the hand-outs are written and committed. Where the
 * walk comes to the end of what was fetched while there may be more (events were condemned, a key's head cannot
 * be read), more is fetched and the walk begins anew, in the same transaction.
 *
 * Threads: any.
 */
#include "engines/postgres/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define CONDEMNED_MAX 1024u /* C4c */
#define CLOCK_SLACK_US INT64_C(1000000)
#define FETCH_ROWS_MAX 65536
#define FETCH_ROUNDS_MAX 12u

enum claim_column {
    COL_KIND,
    COL_CONSUMER,
    COL_NOW,
    COL_LANES,
    COL_KEY,
    COL_POS,
    COL_VERSION,
    COL_MARKED,
    COL_HANDED,
    COL_REFUNDED,
    COL_ATTEMPT,
    COL_HAND_OUTS,
    COL_TOKEN,
    COL_SURVIVOR,
    COL_BYTES,
    COL_CHECKSUM,
    COL_DAMAGED,
    COL_OBSERVED,
    COL_ACCEPTED,
    COL_ID,
    COL_SPACE,
    COL_SUBJECT,
    COL_RECORD
};

struct pg_local *dbk_pg_local(struct pg_journal *p, const char *name, int32_t id)
{
    struct pg_local *local = NULL;

    for (size_t i = 0; i < p->consumer_count && local == NULL; i++) {
        if (strcmp(p->consumers[i].name, name) == 0) {
            local = &p->consumers[i];
        }
    }
    if (local == NULL) {
        if (p->consumer_count == DAYBOOK_CONSUMERS_MAX) {
            p->consumer_count = 0; /* so many names only where most are retired */
        }
        local = &p->consumers[p->consumer_count++];
        local->id = 0;
    }
    if (local->id != id) { /* it was retired and registered anew */
        *local = (struct pg_local){.id = id, .last_claim_at_us = DAYBOOK_TIME_UNSET};
        memcpy(local->name, name, strlen(name) + 1);
    }
    return local;
}

void dbk_pg_count_quarantine(struct pg_journal *p, const char *name, int32_t id,
                             enum daybook_quarantine_reason reason)
{
    dbk_mutex_lock(&p->mutex);
    dbk_pg_local(p, name, id)->quarantined_total[reason - 1]++;
    dbk_mutex_unlock(&p->mutex);
}

/* ---- the walk ------------------------------------------------------------------------------------- */

/* What the walk has made of a key so far. */
struct lane {
    int64_t key; /* 0: an empty place of the table */
    uint32_t taken;
    uint32_t condemned;
    uint32_t rows;
    bool left; /* nothing behind is considered */
};

/* What is fetched at once; grows where it was not enough. */
struct fetch {
    int64_t lanes;
    int64_t rows;
    int64_t per_lane;
    int64_t bytes;
};

struct walk {
    struct pg_journal *journal;
    const struct daybook_claim *claim;
    struct daybook_batch *batch;
    int64_t now_us;
    bool back; /* the clock has gone back: leases are looked at one by one */
    int32_t consumer;
    PGresult *rows; /* the first one is about the claim */
    struct lane *lanes;
    size_t table;
    struct pg_mark *condemned;
    size_t condemned_count;
    int64_t keys[DAYBOOK_CLAIM_EVENTS_MAX]; /* of what was taken */
    uint32_t hand_outs[DAYBOOK_CLAIM_EVENTS_MAX];
};

static struct lane *lane_of(struct walk *w, int64_t key)
{
    size_t at = (size_t)((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (w->table - 1);

    while (w->lanes[at].key != 0 && w->lanes[at].key != key) {
        at = (at + 1) & (w->table - 1);
    }
    w->lanes[at].key = key;
    return &w->lanes[at];
}

static void read_delivery(const PGresult *r, int row, struct daybook_delivery *d)
{
    *d = (struct daybook_delivery){.position = (uint64_t)dbk_pg_int(r, row, COL_POS),
                                   .row_version = (uint16_t)dbk_pg_int(r, row, COL_VERSION),
                                   .accepted_at_us = dbk_pg_int(r, row, COL_ACCEPTED),
                                   .event = {.request_id = dbk_pg_bytes(r, row, COL_ID),
                                             .name_space = dbk_pg_bytes(r, row, COL_SPACE),
                                             .subject = dbk_pg_bytes(r, row, COL_SUBJECT),
                                             .record = dbk_pg_bytes(r, row, COL_RECORD),
                                             .observed_at_us = dbk_pg_int(r, row, COL_OBSERVED)}};
}

static void condemn(struct walk *w, int row, enum daybook_quarantine_reason reason)
{
    const PGresult *r = w->rows;
    struct pg_mark *m = &w->condemned[w->condemned_count++];

    *m = (struct pg_mark){.position = (uint64_t)dbk_pg_int(r, row, COL_POS),
                          .held = true,
                          .key = dbk_pg_int(r, row, COL_KEY),
                          .resolution = PG_QUARANTINED,
                          .handed = dbk_pg_is(r, row, COL_HANDED),
                          .refunded = dbk_pg_is(r, row, COL_REFUNDED),
                          .attempt = (uint32_t)dbk_pg_int(r, row, COL_ATTEMPT),
                          .hand_outs = (uint32_t)dbk_pg_int(r, row, COL_HAND_OUTS),
                          .token = (uint64_t)dbk_pg_int(r, row, COL_TOKEN),
                          .survivor = (uint64_t)dbk_pg_int(r, row, COL_SURVIVOR),
                          .reason = (int32_t)reason,
                          .attempts_then = (uint32_t)dbk_pg_int(r, row, COL_ATTEMPT),
                          .quarantined_at_us = w->now_us,
                          .changed = true,
                          .damaged = reason == DAYBOOK_REASON_MALFORMED};
}

static void take(struct walk *w, int row, struct lane *lane, const struct daybook_delivery *found)
{
    struct daybook_delivery *d = dbk_pg_put(w->batch, found);
    size_t i = w->batch->count - 1;

    d->attempt = (uint32_t)dbk_pg_int(w->rows, row, COL_ATTEMPT) + 1;
    d->redelivery = dbk_pg_is(w->rows, row, COL_HANDED);
    w->keys[i] = lane->key;
    w->hand_outs[i] = (uint32_t)dbk_pg_int(w->rows, row, COL_HAND_OUTS) + 1;
    lane->taken++;
}

enum step { STEP_ON, STEP_END, STEP_FETCH };

/* One event, in the order of C4c. */
static enum step walk_one(struct walk *w, int row)
{
    const struct daybook_claim *claim = w->claim;
    struct lane *lane = lane_of(w, dbk_pg_int(w->rows, row, COL_KEY));
    struct daybook_delivery found;

    lane->rows++;
    if (lane->left || lane->taken >= claim->key_run) {
        return STEP_ON;
    }
    if (dbk_pg_int(w->rows, row, COL_VERSION) > PG_ROW_VERSION) {
        lane->left = true;
        return STEP_ON;
    }
    if ((uint32_t)dbk_pg_int(w->rows, row, COL_ATTEMPT) >= claim->hand_outs_max) {
        condemn(w, row, DAYBOOK_REASON_ATTEMPTS_EXHAUSTED);
        lane->condemned++;
    } else if (!dbk_pg_fits(w->batch, claim->bytes_max,
                            (uint64_t)dbk_pg_int(w->rows, row, COL_BYTES))) {
        w->batch->more = true; /* before it is read: whether it can be is not known yet */
        return STEP_END;
    } else if (PQgetisnull(w->rows, row, COL_RECORD) != 0) {
        return STEP_FETCH;
    } else {
        read_delivery(w->rows, row, &found);
        if ((uint32_t)dbk_pg_int(w->rows, row, COL_CHECKSUM) == dbk_pg_checksum(&found.event)) {
            take(w, row, lane, &found);
            w->batch->more = w->batch->count == claim->events_max;
            return w->batch->more ? STEP_END : STEP_ON;
        }
        condemn(w, row, DAYBOOK_REASON_MALFORMED);
        lane->condemned++;
        lane->left = true;
    }
    w->batch->more = w->condemned_count == CONDEMNED_MAX;
    return w->batch->more ? STEP_END : STEP_ON;
}

/* Whether there may be more than was fetched that this claim has to look at. */
static bool may_be_more(const struct walk *w, const struct fetch *f)
{
    if (PQntuples(w->rows) - 1 >= f->rows || dbk_pg_int(w->rows, 0, COL_LANES) >= f->lanes) {
        return true;
    }
    for (size_t i = 0; i < w->table; i++) {
        const struct lane *lane = &w->lanes[i];

        if (lane->key != 0 && lane->condemned > 0 && !lane->left &&
            lane->rows >= (uint32_t)f->per_lane && lane->taken < w->claim->key_run) {
            return true;
        }
    }
    return false;
}

static enum step walk(struct walk *w, const struct fetch *f)
{
    enum step step = STEP_ON;

    w->batch->count = 0;
    w->batch->bytes_used = 0;
    w->batch->more = false;
    w->condemned_count = 0;
    memset(w->lanes, 0, w->table * sizeof *w->lanes);
    for (int row = 1; step == STEP_ON && row < PQntuples(w->rows); row++) {
        step = walk_one(w, row);
    }
    if (step == STEP_ON) {
        step = may_be_more(w, f) ? STEP_FETCH : STEP_END;
    }
    return step;
}

/* ---- fetching ---------------------------------------------------------------------------------------- */

/* Whether leases have to be looked at one by one: the clock has gone back. */
static bool clock_went_back(struct pg_journal *p, int64_t now_us)
{
    /* The store's clock is only guessed here; a second back frees no lease (C5). */
    int64_t slack_us = p->clock == DAYBOOK_POSTGRES_CLOCK_STORE ? CLOCK_SLACK_US : 0;
    bool back;

    dbk_mutex_lock(&p->mutex);
    back = now_us + slack_us < p->newest_now_us;
    dbk_mutex_unlock(&p->mutex);
    return back;
}

static bool room_for(struct walk *w, int64_t rows)
{
    size_t table = 16;
    struct lane *lanes;

    while (table < (size_t)rows * 2) {
        table *= 2;
    }
    if (table <= w->table) {
        return true;
    }
    lanes = realloc(w->lanes, table * sizeof *lanes);
    if (lanes == NULL) {
        return false;
    }
    w->lanes = lanes;
    w->table = table;
    return true;
}

static enum daybook_code fetch_rows(struct walk *w, struct pg_conn *conn, const struct fetch *f,
                                    unsigned ends, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    const struct pg_step step = {"SELECT * FROM @.claim_1($1,$2,$3,$4,$5,$6,$7,$8)", &args};

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(w->claim->consumer));
    dbk_pg_arg_now(&args, w->journal, now_us);
    dbk_pg_arg_int(&args, PG_INT4, f->lanes);
    dbk_pg_arg_int(&args, PG_INT4, f->rows);
    dbk_pg_arg_int(&args, PG_INT4, f->per_lane);
    dbk_pg_arg_int(&args, PG_INT8, f->bytes);
    dbk_pg_arg_int(&args, PG_INT4, PG_ROW_VERSION);
    dbk_pg_arg_int(&args, PG_BOOL, w->back);
    PQclear(w->rows);
    w->rows = NULL;
    return dbk_pg_run(w->journal, conn, ends, &step, 1, deadline_us, &w->rows, err);
}

static void grow(struct fetch *f)
{
    f->lanes = f->lanes * 4 < FETCH_ROWS_MAX ? f->lanes * 4 : FETCH_ROWS_MAX;
    f->rows = f->rows * 4 < FETCH_ROWS_MAX ? f->rows * 4 : FETCH_ROWS_MAX;
    f->per_lane += CONDEMNED_MAX;
    f->bytes = f->bytes > INT64_MAX / 4 ? INT64_MAX : f->bytes * 4;
}

/* Fetches and walks until the walk has come to its end. `w->consumer` 0: it is not registered. */
static enum daybook_code choose(struct walk *w, struct pg_conn *conn, int64_t now_us,
                                int64_t deadline_us, struct daybook_error *err)
{
    const struct daybook_claim *claim = w->claim;
    struct fetch f = {.lanes = claim->events_max,
                      .rows = claim->events_max,
                      .per_lane =
                          claim->key_run < claim->events_max ? claim->key_run : claim->events_max,
                      .bytes = (int64_t)claim->bytes_max + 1};

    w->back = clock_went_back(w->journal, dbk_pg_now(w->journal, now_us));
    for (unsigned round = 0;; round++) {
        enum daybook_code code = fetch_rows(w, conn, &f, round == 0 ? PG_BEGIN | PG_DURABLE : 0,
                                            now_us, deadline_us, err);

        if (code != DAYBOOK_OK) {
            return code;
        }
        w->consumer = (int32_t)dbk_pg_int(w->rows, 0, COL_CONSUMER);
        w->now_us = dbk_pg_int(w->rows, 0, COL_NOW);
        if (w->consumer == 0) {
            return DAYBOOK_OK;
        }
        if (!room_for(w, f.rows)) {
            return dbk_fail(err, DAYBOOK_BACKEND, "claim by %s: no memory", claim->consumer);
        }
        if (walk(w, &f) == STEP_END || round + 1 == FETCH_ROUNDS_MAX) {
            return DAYBOOK_OK;
        }
        grow(&f);
    }
}

/* ---- writing ------------------------------------------------------------------------------------------ */

struct hand_out_args {
    struct pg_array pos, keys, attempt, hand_outs, lanes;
    struct pg_args args;
};

static void fill_hand_outs(struct walk *w, int64_t expires_us, struct hand_out_args *h)
{
    dbk_pg_array_start(&h->pos, PG_INT8);
    dbk_pg_array_start(&h->keys, PG_INT8);
    dbk_pg_array_start(&h->attempt, PG_INT4);
    dbk_pg_array_start(&h->hand_outs, PG_INT4);
    dbk_pg_array_start(&h->lanes, PG_INT8);
    for (size_t i = 0; i < w->batch->count; i++) {
        dbk_pg_array_int(&h->pos, (int64_t)w->batch->deliveries[i].position);
        dbk_pg_array_int(&h->keys, w->keys[i]);
        dbk_pg_array_int(&h->attempt, w->batch->deliveries[i].attempt);
        dbk_pg_array_int(&h->hand_outs, w->hand_outs[i]);
    }
    for (size_t i = 0; i < w->table; i++) {
        if (w->lanes[i].taken > 0) {
            dbk_pg_array_int(&h->lanes, w->lanes[i].key);
        }
    }
    dbk_pg_arg_int(&h->args, PG_INT4, w->consumer);
    dbk_pg_arg_int(&h->args, PG_INT8, w->now_us);
    dbk_pg_arg_int(&h->args, PG_INT8, expires_us);
    dbk_pg_arg_array(&h->args, &h->pos);
    dbk_pg_arg_array(&h->args, &h->keys);
    dbk_pg_arg_array(&h->args, &h->attempt);
    dbk_pg_arg_array(&h->args, &h->hand_outs);
    dbk_pg_arg_array(&h->args, &h->lanes);
    dbk_pg_arg_int(&h->args, PG_BOOL, w->back);
}

static void release_hand_outs(struct hand_out_args *h)
{
    dbk_pg_array_release(&h->pos);
    dbk_pg_array_release(&h->keys);
    dbk_pg_array_release(&h->attempt);
    dbk_pg_array_release(&h->hand_outs);
    dbk_pg_array_release(&h->lanes);
}

static void finish_deliveries(struct walk *w, const PGresult *tokens, int64_t expires_us)
{
    for (size_t i = 0; i < w->batch->count; i++) {
        w->batch->deliveries[i].token = (uint64_t)dbk_pg_int(tokens, (int)i, 0);
        w->batch->deliveries[i].lease_expires_at_us = expires_us;
    }
}

static int64_t later(int64_t us, int64_t more_us)
{
    return us > INT64_MAX - more_us ? INT64_MAX : us + more_us;
}

/* Hand-outs and quarantines in the transaction that chose them; then it commits. */
static enum daybook_code write_claim(struct walk *w, struct pg_conn *conn, int64_t deadline_us,
                                     struct daybook_error *err)
{
    int64_t expires_us = later(w->now_us, (int64_t)w->claim->lease_ms * 1000);
    struct hand_out_args h = {.args = {.count = 0}};
    struct pg_settle settle = {.any = false};
    struct pg_step steps[2] = {{NULL, NULL}, {NULL, NULL}};
    PGresult *results[2] = {NULL, NULL};
    unsigned count = 0;
    enum daybook_code code = DAYBOOK_OK;

    if (w->condemned_count > 0) {
        if (!dbk_pg_settle_fill(&settle, w->consumer, conn->slot, w->condemned,
                                w->condemned_count)) {
            code = dbk_fail(err, DAYBOOK_BACKEND, "claim by %s: no memory", w->claim->consumer);
        }
        steps[count++] = (struct pg_step){PG_SETTLE_SQL, &settle.args};
    }
    if (w->batch->count > 0) {
        fill_hand_outs(w, expires_us, &h);
        steps[count++] =
            (struct pg_step){"SELECT * FROM @.hand_out_1($1,$2,$3,$4,$5,$6,$7,$8,$9)", &h.args};
    }
    if (code == DAYBOOK_OK) {
        code = dbk_pg_run(w->journal, conn, PG_COMMIT, steps, count, deadline_us, results, err);
    }
    if (code == DAYBOOK_OK && w->batch->count > 0) {
        finish_deliveries(w, results[count - 1], expires_us);
    }
    for (unsigned i = 0; i < count; i++) {
        PQclear(results[i]);
    }
    release_hand_outs(&h);
    dbk_pg_settle_release(&settle);
    return code;
}

/* ---- claim ---------------------------------------------------------------------------------------------- */

/* Returns the id; 0 where there are too many. */
static enum daybook_code register_consumer(struct pg_journal *p, const struct daybook_claim *claim,
                                           int64_t now_us, int64_t deadline_us, int32_t *ret_id,
                                           struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(claim->consumer));
    dbk_pg_arg_int(&args, PG_INT4, (int)claim->start.kind);
    dbk_pg_arg_int(&args, PG_INT8, claim->start.value);
    dbk_pg_arg_now(&args, p, now_us);
    dbk_pg_arg_int(&args, PG_INT4, DAYBOOK_CONSUMERS_MAX);
    code = dbk_pg_once(p, &p->query, "SELECT @.register_1($1,$2,$3,$4,$5)", &args, deadline_us, &r,
                       err);
    if (code == DAYBOOK_OK) {
        *ret_id = (int32_t)dbk_pg_int(r, 0, 0);
        if (*ret_id == 0) {
            code =
                dbk_fail(err, DAYBOOK_BUSY, "consumer %s: %u consumers are registered; retire one",
                         claim->consumer, DAYBOOK_CONSUMERS_MAX);
        }
    }
    PQclear(r);
    return code;
}

static void note_claim(struct walk *w)
{
    struct pg_journal *p = w->journal;
    struct pg_local *local;

    dbk_mutex_lock(&p->mutex);
    dbk_pg_note_now(p, w->now_us);
    p->newest_now_us = w->now_us > p->newest_now_us ? w->now_us : p->newest_now_us;
    local = dbk_pg_local(p, w->claim->consumer, w->consumer);
    local->last_claim_at_us = w->now_us;
    for (size_t i = 0; i < w->condemned_count; i++) {
        local->quarantined_total[w->condemned[i].reason - 1]++;
        p->undeliverable_total += w->condemned[i].damaged ? 1 : 0;
    }
    dbk_mutex_unlock(&p->mutex);
}

static enum daybook_code claim_once(struct walk *w, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err)
{
    struct pg_journal *p = w->journal;
    struct pg_conn *conn = NULL;
    enum daybook_code code = dbk_pg_take(p, &p->delivery, deadline_us, &conn, err);

    if (code == DAYBOOK_OK) {
        code = choose(w, conn, now_us, deadline_us, err);
    }
    if (code == DAYBOOK_OK && w->consumer != 0) {
        code = write_claim(w, conn, deadline_us, err);
    }
    dbk_pg_give(p, &p->delivery, conn);
    return code;
}

/* An empty claim only registers (C12); so does the first one. */
static enum daybook_code claim_registered(struct walk *w, int64_t now_us, int64_t deadline_us,
                                          struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;

    if (w->claim->events_max == 0) {
        return register_consumer(w->journal, w->claim, now_us, deadline_us, &w->consumer, err);
    }
    for (unsigned tries = 0; tries < PG_TRIES_MAX; tries++) {
        code = claim_once(w, now_us, deadline_us, err);
        if (code == DAYBOOK_OK && w->consumer == 0) {
            code = register_consumer(w->journal, w->claim, now_us, deadline_us, &w->consumer, err);
            if (code != DAYBOOK_OK) {
                return code;
            }
        } else if (code != PG_AGAIN) {
            break;
        }
    }
    if (code == PG_AGAIN) {
        return dbk_fail(err, DAYBOOK_BACKEND,
                        "PostgreSQL ended the transaction again and again: too much at once");
    }
    if (code == DAYBOOK_OK) {
        note_claim(w);
    }
    return code;
}

enum daybook_code dbk_pg_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                               int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                               struct daybook_error *err)
{
    struct walk *w = calloc(1, sizeof *w);
    enum daybook_code code = DAYBOOK_BACKEND;

    if (w != NULL) {
        w->condemned = calloc(CONDEMNED_MAX, sizeof *w->condemned);
    }
    if (w == NULL || w->condemned == NULL) {
        free(w);
        return dbk_fail(err, DAYBOOK_BACKEND, "claim by %s: no memory", claim->consumer);
    }
    w->journal = pg_of(j);
    w->claim = claim;
    w->batch = batch;
    code = claim_registered(w, now_us, deadline_us, err);
    if (code != DAYBOOK_OK) {
        batch->count = 0;
        batch->bytes_used = 0;
        batch->more = false;
    }
    PQclear(w->rows);
    free(w->lanes);
    free(w->condemned);
    free(w);
    return code;
}
