/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts (K1 to K3, R1, X1): the marks of a set are fetched and their lanes locked, each hand-out is judged in order
 * as the contract says, and what has changed is written and committed. A very large set goes in steps.
 *
 * Threads: any.
 */
#include "engines/postgres/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define LEASE_SKEW_US INT64_C(60000000) /* C5 */
#define STEP_MAX 1024u                  /* hand-outs of one transaction */

enum standing_column {
    COL_ORD,
    COL_CONSUMER,
    COL_START,
    COL_FLOOR,
    COL_NOW,
    COL_HELD,
    COL_KEY,
    COL_ACCEPTED,
    COL_RESOLVED_THROUGH,
    COL_HANDED_THROUGH,
    COL_RESOLUTION,
    COL_HANDED,
    COL_REFUNDED,
    COL_ATTEMPT,
    COL_HAND_OUTS,
    COL_TOKEN,
    COL_SURVIVOR,
    COL_GRANTED,
    COL_EXPIRES
};

static int64_t later(int64_t us, int64_t more_us)
{
    return us > INT64_MAX - more_us ? INT64_MAX : us + more_us;
}

bool dbk_pg_lease_live(const struct pg_mark *mark, int64_t now_us)
{
    return mark->leased && now_us < mark->expires_us &&
           later(now_us, LEASE_SKEW_US) >= mark->granted_us;
}

/* ---- fetching ------------------------------------------------------------------------------------- */

static void read_mark(const PGresult *r, int row, struct pg_mark *ret)
{
    uint64_t position = ret->position;

    *ret = (struct pg_mark){.position = position,
                            .held = dbk_pg_is(r, row, COL_HELD),
                            .key = dbk_pg_int(r, row, COL_KEY),
                            .accepted_at_us = dbk_pg_int(r, row, COL_ACCEPTED),
                            .handed = dbk_pg_is(r, row, COL_HANDED),
                            .refunded = dbk_pg_is(r, row, COL_REFUNDED),
                            .attempt = (uint32_t)dbk_pg_int(r, row, COL_ATTEMPT),
                            .hand_outs = (uint32_t)dbk_pg_int(r, row, COL_HAND_OUTS),
                            .token = (uint64_t)dbk_pg_int(r, row, COL_TOKEN),
                            .survivor = (uint64_t)dbk_pg_int(r, row, COL_SURVIVOR),
                            .leased = PQgetisnull(r, row, COL_EXPIRES) == 0,
                            .granted_us = dbk_pg_int(r, row, COL_GRANTED),
                            .expires_us = dbk_pg_int(r, row, COL_EXPIRES)};
    if (PQgetisnull(r, row, COL_RESOLUTION) == 0) {
        ret->resolution = (enum pg_resolution)dbk_pg_int(r, row, COL_RESOLUTION);
    } else if (position <= (uint64_t)dbk_pg_int(r, row, COL_RESOLVED_THROUGH)) {
        ret->resolution = PG_ACKNOWLEDGED;
    } else {
        /* Acknowledged before a rewind, it had been handed out. */
        ret->handed = position <= (uint64_t)dbk_pg_int(r, row, COL_HANDED_THROUGH);
    }
}

enum daybook_code dbk_pg_standing(struct pg_journal *p, struct pg_conn *conn, unsigned ends,
                                  const char *consumer, int64_t now_us, bool by_operator,
                                  struct pg_standing *standing, int64_t deadline_us,
                                  struct daybook_error *err)
{
    struct pg_array positions = {.count = 0};
    struct pg_args args = {.count = 0};
    const struct pg_step step = {"SELECT * FROM @.standing_1($1,$2,$3,$4)", &args};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_array_start(&positions, PG_INT8);
    for (size_t i = 0; i < standing->count; i++) {
        dbk_pg_array_int(&positions, (int64_t)standing->marks[i].position);
    }
    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_now(&args, p, now_us);
    dbk_pg_arg_array(&args, &positions);
    dbk_pg_arg_int(&args, PG_BOOL, by_operator);
    code = dbk_pg_run(p, conn, ends, &step, 1, deadline_us, &r, err);
    if (code == DAYBOOK_OK && PQntuples(r) == (int)standing->count) {
        standing->consumer = (int32_t)dbk_pg_int(r, 0, COL_CONSUMER);
        standing->start = (uint64_t)dbk_pg_int(r, 0, COL_START);
        standing->token_floor = (uint64_t)dbk_pg_int(r, 0, COL_FLOOR);
        standing->now_us = dbk_pg_int(r, 0, COL_NOW);
        for (size_t i = 0; i < standing->count; i++) {
            read_mark(r, (int)i, &standing->marks[i]);
        }
    } else if (code == DAYBOOK_OK) {
        code =
            dbk_fail(err, DAYBOOK_BACKEND, "PostgreSQL returned another number of rows than asked");
    }
    PQclear(r);
    dbk_pg_array_release(&positions);
    return code;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

/* The place of a key among the lanes, from 1; new ones are added. */
static int64_t lane_place(struct pg_settle *s, int64_t key)
{
    size_t at = (size_t)((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->table - 1);

    while (s->places[at] != 0 && s->keys[at] != key) {
        at = (at + 1) & (s->table - 1);
    }
    if (s->places[at] == 0) {
        dbk_pg_array_int(&s->lanes, key);
        s->keys[at] = key;
        s->places[at] = s->lanes.count;
    }
    return s->places[at];
}

struct settle_array {
    struct pg_array *array;
    enum pg_type type;
};
#define SETTLE_ARRAYS 21u
/* In the order of the arguments. */
static void list_arrays(struct pg_settle *s, struct settle_array ret[SETTLE_ARRAYS])
{
    const struct settle_array all[SETTLE_ARRAYS] = {
        {&s->lanes, PG_INT8},      {&s->acked, PG_INT8},         {&s->acked_lane, PG_INT4},
        {&s->acked_at, PG_INT8},   {&s->pos, PG_INT8},           {&s->lane, PG_INT4},
        {&s->resolution, PG_INT4}, {&s->handed, PG_INT4},        {&s->refunded, PG_INT4},
        {&s->attempt, PG_INT4},    {&s->hand_outs, PG_INT4},     {&s->token, PG_INT8},
        {&s->survivor, PG_INT8},   {&s->granted, PG_INT8},       {&s->expires, PG_INT8},
        {&s->reason, PG_INT4},     {&s->attempts_then, PG_INT4}, {&s->quarantined_at, PG_INT8},
        {&s->words, PG_BYTEA},     {&s->damaged, PG_INT8},       {&s->ended, PG_INT8}};

    memcpy(ret, all, sizeof all);
}

static void add_changed(struct pg_settle *s, const struct pg_mark *m)
{
    dbk_pg_array_int(&s->pos, (int64_t)m->position);
    dbk_pg_array_int(&s->lane, lane_place(s, m->key));
    dbk_pg_array_int(&s->resolution, (int64_t)m->resolution);
    dbk_pg_array_int(&s->handed, m->handed);
    dbk_pg_array_int(&s->refunded, m->refunded);
    dbk_pg_array_int(&s->attempt, m->attempt);
    dbk_pg_array_int(&s->hand_outs, m->hand_outs);
    dbk_pg_array_int(&s->token, (int64_t)m->token);
    dbk_pg_array_int(&s->survivor, (int64_t)m->survivor);
    if (m->leased) {
        dbk_pg_array_int(&s->granted, m->granted_us);
        dbk_pg_array_int(&s->expires, m->expires_us);
    } else {
        dbk_pg_array_null(&s->granted);
        dbk_pg_array_null(&s->expires);
    }
    dbk_pg_array_int(&s->reason, m->reason);
    dbk_pg_array_int(&s->attempts_then, m->attempts_then);
    dbk_pg_array_int(&s->quarantined_at, m->quarantined_at_us);
    dbk_pg_array_bytes(&s->words, m->words.data, m->words.len);
    if (m->damaged) {
        dbk_pg_array_int(&s->damaged, (int64_t)m->position);
    }
}

static bool make_table(struct pg_settle *s, size_t count)
{
    s->table = 16;
    while (s->table < count * 2) {
        s->table *= 2;
    }
    s->keys = calloc(s->table, sizeof *s->keys);
    s->places = calloc(s->table, sizeof *s->places);
    return s->keys != NULL && s->places != NULL;
}

bool dbk_pg_settle_fill(struct pg_settle *s, int32_t consumer, unsigned slot,
                        const struct pg_mark *marks, size_t count)
{
    struct settle_array arrays[SETTLE_ARRAYS];

    if (!make_table(s, count)) {
        return false;
    }
    list_arrays(s, arrays);
    for (size_t i = 0; i < SETTLE_ARRAYS; i++) {
        dbk_pg_array_start(arrays[i].array, arrays[i].type);
    }
    for (size_t i = 0; i < count; i++) {
        const struct pg_mark *m = &marks[i];

        s->any = s->any || m->acked || m->ended || m->changed;
        if (m->acked) {
            dbk_pg_array_int(&s->acked, (int64_t)m->position);
            dbk_pg_array_int(&s->acked_lane, lane_place(s, m->key));
            dbk_pg_array_int(&s->acked_at, m->accepted_at_us);
        } else if (m->ended) {
            dbk_pg_array_int(&s->ended, (int64_t)m->position);
            (void)lane_place(s, m->key);
        } else if (m->changed) {
            add_changed(s, m);
        }
    }
    dbk_pg_arg_int(&s->args, PG_INT4, consumer);
    dbk_pg_arg_int(&s->args, PG_INT4, slot);
    for (size_t i = 0; i < SETTLE_ARRAYS; i++) {
        dbk_pg_arg_array(&s->args, arrays[i].array);
    }
    return true;
}

void dbk_pg_settle_release(struct pg_settle *s)
{
    struct settle_array arrays[SETTLE_ARRAYS];

    list_arrays(s, arrays);
    for (size_t i = 0; i < SETTLE_ARRAYS; i++) {
        dbk_pg_array_release(arrays[i].array);
    }
    free(s->keys);
    free(s->places);
}

/* ---- judging ------------------------------------------------------------------------------------------ */

enum verdict { VERDICT_ACK, VERDICT_RELINQUISH, VERDICT_EXTEND, VERDICT_QUARANTINE };

struct said {
    enum verdict verdict;
    uint32_t lease_ms;
    enum daybook_quarantine_reason reason;
    struct daybook_bytes words;
};

/* "Handed out to it", refunds ignored; a hand-out from before a rewind is none, unless its lease was live then
 * (K3). */
static bool was_handed_out(const struct pg_standing *s, const struct pg_mark *m, uint64_t token)
{
    return m->handed && (token >= s->token_floor || (m->survivor != 0 && token == m->survivor));
}

static bool open_to(const struct pg_standing *s, const struct pg_mark *m)
{
    return m->held && s->consumer != 0 && m->position >= s->start && m->resolution == PG_OPEN;
}

/* The lease of a dropped event ends when a verdict with its token arrives (P5). */
static void end_dropped(struct pg_mark *m, uint64_t token)
{
    if (!m->held && m->resolution == PG_DROPPED && m->token == token) {
        m->ended = true;
    }
}

static enum daybook_code judge_ack(const struct pg_standing *s, struct pg_mark *m, uint64_t token)
{
    if (!m->held) {
        end_dropped(m, token);
        return DAYBOOK_OK;
    }
    if (s->consumer == 0 || m->position < s->start) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    switch (m->resolution) {
    case PG_ACKNOWLEDGED:
    case PG_DISCARDED:
        return DAYBOOK_OK;
    case PG_QUARANTINED:
        return DAYBOOK_QUARANTINED;
    case PG_OPEN:
    case PG_DROPPED:
        break;
    }
    if (!was_handed_out(s, m, token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    m->resolution = PG_ACKNOWLEDGED;
    m->leased = false;
    m->acked = true;
    return DAYBOOK_OK;
}

static enum daybook_code judge_relinquish(const struct pg_standing *s, struct pg_mark *m,
                                          uint64_t token)
{
    if (!m->held) {
        end_dropped(m, token);
        return DAYBOOK_OK;
    }
    if (s->consumer == 0 || m->position < s->start) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (m->resolution != PG_OPEN) {
        return DAYBOOK_OK;
    }
    if (!was_handed_out(s, m, token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (m->token == token && !m->refunded) {
        m->refunded = true;
        m->attempt -= m->attempt > 0 ? 1 : 0;
        m->changed = true;
    }
    return DAYBOOK_OK;
}

static enum daybook_code judge_extend(const struct pg_standing *s, struct pg_mark *m,
                                      uint64_t token, uint32_t lease_ms)
{
    int64_t expires_us = later(s->now_us, (int64_t)lease_ms * 1000);

    if (lease_ms == 0) {
        end_dropped(m, token);
    }
    if (!open_to(s, m) || m->refunded || m->token != token || !dbk_pg_lease_live(m, s->now_us) ||
        !was_handed_out(s, m, token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (lease_ms == 0) {
        m->leased = false;
        m->changed = true;
    } else if (expires_us > m->expires_us) {
        m->granted_us = s->now_us;
        m->expires_us = expires_us;
        m->changed = true;
    }
    return DAYBOOK_OK;
}

static enum daybook_code judge_quarantine(const struct pg_standing *s, struct pg_mark *m,
                                          uint64_t token, const struct said *said)
{
    if (!m->held) {
        end_dropped(m, token);
        return DAYBOOK_NOT_OUTSTANDING;
    }
    if (s->consumer == 0 || m->position < s->start) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    switch (m->resolution) {
    case PG_QUARANTINED:
        return DAYBOOK_OK; /* the first reason stays */
    case PG_ACKNOWLEDGED:
    case PG_DISCARDED:
        return DAYBOOK_ALREADY_ACKNOWLEDGED;
    case PG_OPEN:
    case PG_DROPPED:
        break;
    }
    if (!was_handed_out(s, m, token)) {
        return DAYBOOK_NOT_OUTSTANDING;
    }
    m->resolution = PG_QUARANTINED;
    m->leased = false;
    m->reason = (int32_t)said->reason;
    m->attempts_then = m->attempt;
    m->quarantined_at_us = s->now_us;
    m->words = said->words;
    m->changed = true;
    return DAYBOOK_OK;
}

static enum daybook_code judge(const struct pg_standing *s, struct pg_mark *m, uint64_t token,
                               const struct said *said)
{
    switch (said->verdict) {
    case VERDICT_ACK:
        return judge_ack(s, m, token);
    case VERDICT_RELINQUISH:
        return judge_relinquish(s, m, token);
    case VERDICT_EXTEND:
        return judge_extend(s, m, token, said->lease_ms);
    case VERDICT_QUARANTINE:
        break;
    }
    return judge_quarantine(s, m, token, said);
}

/* ---- a set --------------------------------------------------------------------------------------------- */

static int by_position(const void *a, const void *b)
{
    const struct pg_mark *x = a;
    const struct pg_mark *y = b;

    return x->position < y->position ? -1 : x->position > y->position;
}

/* A position may be named more than once: one mark stands for it. */
static void unique_marks(struct pg_standing *s, const struct daybook_hand_out *set, size_t count)
{
    s->count = 0;
    for (size_t i = 0; i < count; i++) {
        s->marks[i] = (struct pg_mark){.position = set[i].position};
    }
    qsort(s->marks, count, sizeof *s->marks, by_position);
    for (size_t i = 0; i < count; i++) {
        if (s->count == 0 || s->marks[s->count - 1].position != s->marks[i].position) {
            s->marks[s->count++] = s->marks[i];
        }
    }
}

static enum daybook_code say_once(struct pg_journal *p, const char *consumer,
                                  const struct daybook_hand_out *set, size_t count,
                                  const struct said *said, int64_t now_us, int64_t deadline_us,
                                  struct pg_standing *s, enum daybook_code *ret_codes,
                                  struct daybook_error *err)
{
    struct pg_conn *conn = NULL;
    struct pg_settle settle = {.any = false};
    const struct pg_step step = {PG_SETTLE_SQL, &settle.args};
    PGresult *r = NULL;
    enum daybook_code code = dbk_pg_take(p, &p->delivery, deadline_us, &conn, err);

    if (code == DAYBOOK_OK) {
        unique_marks(s, set, count);
        code = dbk_pg_standing(p, conn, PG_BEGIN | PG_DURABLE, consumer, now_us, false, s,
                               deadline_us, err);
    }
    for (size_t i = 0; code == DAYBOOK_OK && i < count; i++) {
        const struct pg_mark key = {.position = set[i].position};
        struct pg_mark *m = bsearch(&key, s->marks, s->count, sizeof *s->marks, by_position);

        dbk_assert(m != NULL);
        ret_codes[i] = judge(s, m, set[i].token, said);
    }
    if (code == DAYBOOK_OK &&
        !dbk_pg_settle_fill(&settle, s->consumer, conn->slot, s->marks, s->count)) {
        code = dbk_fail(err, DAYBOOK_BACKEND, "no memory for a set of verdicts");
    }
    if (code == DAYBOOK_OK && settle.any) {
        code = dbk_pg_run(p, conn, PG_COMMIT, &step, 1, deadline_us, &r, err);
    }
    PQclear(r);
    dbk_pg_settle_release(&settle);
    dbk_pg_give(p, &p->delivery, conn);
    return code;
}

static enum daybook_code say_step(struct pg_journal *p, const char *consumer,
                                  const struct daybook_hand_out *set, size_t count,
                                  const struct said *said, int64_t now_us, int64_t deadline_us,
                                  struct pg_standing *s, enum daybook_code *ret_codes,
                                  struct daybook_error *err)
{
    enum daybook_code code = PG_AGAIN;

    for (unsigned tries = 0; code == PG_AGAIN && tries < PG_TRIES_MAX; tries++) {
        code = say_once(p, consumer, set, count, said, now_us, deadline_us, s, ret_codes, err);
    }
    return code != PG_AGAIN
               ? code
               : dbk_fail(err, DAYBOOK_BACKEND,
                          "PostgreSQL ended the transaction again and again: too much at once");
}

static enum daybook_code say(struct daybook_journal *j, const char *consumer,
                             const struct daybook_hand_out *set, size_t count,
                             const struct said *said, int64_t now_us, int64_t deadline_us,
                             enum daybook_code *ret_codes, int32_t *ret_consumer, bool *ret_changed,
                             struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    size_t step_max = count < STEP_MAX ? count : STEP_MAX;
    struct pg_standing s = {.marks = calloc(step_max, sizeof *s.marks)};
    enum daybook_code code = DAYBOOK_OK;

    if (s.marks == NULL) {
        return dbk_fail(err, DAYBOOK_BACKEND, "no memory for a set of verdicts");
    }
    for (size_t at = 0; code == DAYBOOK_OK && at < count; at += STEP_MAX) {
        size_t left = count - at < STEP_MAX ? count - at : STEP_MAX;

        code = say_step(p, consumer, set + at, left, said, now_us, deadline_us, &s, ret_codes + at,
                        err);
    }
    *ret_consumer = s.consumer;
    *ret_changed = s.count > 0 && s.marks[0].changed;
    free(s.marks);
    dbk_pg_changed(p);
    return code;
}

enum daybook_code dbk_pg_ack(struct daybook_journal *j, const char *consumer,
                             const struct daybook_hand_out *set, size_t count, int64_t now_us,
                             int64_t deadline_us, enum daybook_code *ret_codes,
                             struct daybook_error *err)
{
    const struct said said = {.verdict = VERDICT_ACK};
    int32_t id = 0;
    bool changed = false;

    return say(j, consumer, set, count, &said, now_us, deadline_us, ret_codes, &id, &changed, err);
}

enum daybook_code dbk_pg_relinquish(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err)
{
    const struct said said = {.verdict = VERDICT_RELINQUISH};
    int32_t id = 0;
    bool changed = false;

    return say(j, consumer, set, count, &said, now_us, deadline_us, ret_codes, &id, &changed, err);
}

enum daybook_code dbk_pg_extend(struct daybook_journal *j, const char *consumer,
                                const struct daybook_hand_out *set, size_t count, uint32_t lease_ms,
                                int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
                                struct daybook_error *err)
{
    const struct said said = {.verdict = VERDICT_EXTEND, .lease_ms = lease_ms};
    int32_t id = 0;
    bool changed = false;

    return say(j, consumer, set, count, &said, now_us, deadline_us, ret_codes, &id, &changed, err);
}

enum daybook_code dbk_pg_quarantine(struct daybook_journal *j, const char *consumer,
                                    struct daybook_hand_out hand_out,
                                    enum daybook_quarantine_reason reason,
                                    struct daybook_bytes words, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err)
{
    const struct said said = {.verdict = VERDICT_QUARANTINE, .reason = reason, .words = words};
    enum daybook_code answer = DAYBOOK_BACKEND;
    int32_t id = 0;
    bool changed = false;
    enum daybook_code code =
        say(j, consumer, &hand_out, 1, &said, now_us, deadline_us, &answer, &id, &changed, err);

    if (code != DAYBOOK_OK) {
        return code;
    }
    if (changed) {
        dbk_pg_count_quarantine(pg_of(j), consumer, id, reason);
    }
    if (answer != DAYBOOK_OK) {
        (void)dbk_fail(err, answer, "position %llu cannot be quarantined for %s: %s",
                       (unsigned long long)hand_out.position, consumer, daybook_code_name(answer));
    }
    return answer;
}
