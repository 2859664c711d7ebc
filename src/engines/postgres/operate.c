/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' operations and their trail (O1), each in one transaction with its entry. Threads: any.
 */
#include "engines/postgres/impl.h"

#include <string.h>

#include "base/error.h"

static void add_operator(struct pg_args *args, const struct daybook_operator *by)
{
    dbk_pg_arg_bytes(args, PG_BYTEA, by->who);
    dbk_pg_arg_bytes(args, PG_BYTEA, by->why);
    dbk_pg_arg_int(args, PG_INT4, DAYBOOK_TRAIL_MAX);
}

static enum daybook_code no_consumer(const char *consumer, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NOT_FOUND, "consumer %s is not registered in this journal",
                    consumer);
}

/* ---- release and discard ---------------------------------------------------------------------------- */

struct act {
    enum daybook_operation_kind kind;
    const char *consumer;
    struct daybook_bytes request_id;
    const struct daybook_operator *by;
};

/* What becomes of the mark. OK with nothing changed: it was so before. */
static enum daybook_code judge_act(const struct act *act, const struct pg_standing *s,
                                   struct pg_mark *m, struct daybook_error *err)
{
    const int id_len = (int)act->request_id.len;
    const char *id = act->request_id.data;

    if (s->consumer == 0) {
        return no_consumer(act->consumer, err);
    }
    if (act->kind == DAYBOOK_OPERATION_RELEASE) {
        if (!m->held || m->position < s->start || m->resolution != PG_QUARANTINED) {
            return dbk_fail(err, DAYBOOK_NOT_FOUND, "%.*s is not quarantined by %s", id_len, id,
                            act->consumer);
        }
        m->resolution = PG_OPEN;
        m->attempt = 0;
        m->hand_outs = 0;
        m->changed = true;
        return DAYBOOK_OK;
    }
    if (!m->held || m->position < s->start) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND,
                        "%.*s is not stored, or from before the start of %s", id_len, id,
                        act->consumer);
    }
    if (m->resolution == PG_ACKNOWLEDGED) {
        return dbk_fail(err, DAYBOOK_ALREADY_ACKNOWLEDGED, "%.*s was acknowledged by %s already",
                        id_len, id, act->consumer);
    }
    if (m->resolution != PG_DISCARDED) {
        m->resolution = PG_DISCARDED;
        m->leased = false;
        m->changed = true;
    }
    return DAYBOOK_OK;
}

static enum daybook_code write_act(struct pg_journal *p, struct pg_conn *conn,
                                   const struct act *act, const struct pg_standing *s,
                                   const struct pg_mark *m, int64_t deadline_us,
                                   struct daybook_error *err)
{
    struct pg_settle settle = {.any = false};
    struct pg_args record = {.count = 0};
    struct pg_args reopen = {.count = 0};
    struct pg_step steps[3];
    PGresult *results[3] = {NULL, NULL, NULL};
    unsigned count = 0;
    enum daybook_code code = DAYBOOK_OK;

    dbk_pg_arg_int(&record, PG_INT4, (int)act->kind);
    dbk_pg_arg_int(&record, PG_INT8, s->now_us);
    dbk_pg_arg_int(&record, PG_INT8, (int64_t)m->position);
    dbk_pg_arg_bytes(&record, PG_TEXT, dbk_pg_text(act->consumer));
    dbk_pg_arg_bytes(&record, PG_TEXT, act->request_id);
    add_operator(&record, act->by);
    steps[count++] = (struct pg_step){"SELECT @.record_1($1,$2,$3,$4,$5,$6,$7,$8)", &record};
    if (act->kind == DAYBOOK_OPERATION_RELEASE) {
        dbk_pg_arg_int(&reopen, PG_INT4, s->consumer);
        dbk_pg_arg_int(&reopen, PG_INT8, m->key);
        dbk_pg_arg_int(&reopen, PG_INT8, (int64_t)m->position);
        steps[count++] = (struct pg_step){"SELECT @.reopen_1($1,$2,$3)", &reopen};
    }
    if (!dbk_pg_settle_fill(&settle, s->consumer, conn->slot, m, 1)) {
        code = dbk_fail(err, DAYBOOK_BACKEND, "no memory for an operation");
    }
    steps[count++] = (struct pg_step){PG_SETTLE_SQL, &settle.args};
    if (code == DAYBOOK_OK) {
        code = dbk_pg_run(p, conn, PG_COMMIT, steps, count, deadline_us, results, err);
    }
    for (unsigned i = 0; i < count; i++) {
        PQclear(results[i]);
    }
    dbk_pg_settle_release(&settle);
    return code;
}

static enum daybook_code act_once(struct pg_journal *p, const struct act *act, int64_t now_us,
                                  int64_t deadline_us, struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    const struct pg_step find = {"SELECT coalesce((SELECT o_pos FROM @.find_1($1)), 0)", &args};
    struct pg_mark mark = {.held = false};
    struct pg_standing s = {.marks = &mark, .count = 1};
    struct pg_conn *conn = NULL;
    PGresult *r = NULL;
    enum daybook_code code = dbk_pg_take(p, &p->query, deadline_us, &conn, err);

    dbk_pg_arg_bytes(&args, PG_TEXT, act->request_id);
    if (code == DAYBOOK_OK) {
        code = dbk_pg_run(p, conn, PG_BEGIN, &find, 1, deadline_us, &r, err);
    }
    if (code == DAYBOOK_OK) {
        mark.position = (uint64_t)dbk_pg_int(r, 0, 0);
        code = dbk_pg_standing(p, conn, 0, act->consumer, now_us, true, &s, deadline_us, err);
    }
    if (code == DAYBOOK_OK) {
        code = judge_act(act, &s, &mark, err);
    }
    if (code == DAYBOOK_OK && mark.changed) {
        code = write_act(p, conn, act, &s, &mark, deadline_us, err);
    }
    PQclear(r);
    dbk_pg_give(p, &p->query, conn);
    return code;
}

static enum daybook_code act_on_event(struct pg_journal *p, const struct act *act, int64_t now_us,
                                      int64_t deadline_us, struct daybook_error *err)
{
    enum daybook_code code = PG_AGAIN;

    for (unsigned tries = 0; code == PG_AGAIN && tries < PG_TRIES_MAX; tries++) {
        code = act_once(p, act, now_us, deadline_us, err);
    }
    dbk_pg_changed(p);
    return code != PG_AGAIN
               ? code
               : dbk_fail(err, DAYBOOK_BACKEND,
                          "PostgreSQL ended the transaction again and again: too much at once");
}

enum daybook_code dbk_pg_release(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    const struct act act = {DAYBOOK_OPERATION_RELEASE, consumer, request_id, by};

    return act_on_event(pg_of(j), &act, now_us, deadline_us, err);
}

enum daybook_code dbk_pg_discard(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    const struct act act = {DAYBOOK_OPERATION_DISCARD, consumer, request_id, by};

    return act_on_event(pg_of(j), &act, now_us, deadline_us, err);
}

/* ---- consumers ---------------------------------------------------------------------------------------- */

static enum daybook_code once_int(struct pg_journal *p, const char *sql, const struct pg_args *args,
                                  int64_t deadline_us, int64_t *ret, struct daybook_error *err)
{
    PGresult *r = NULL;
    enum daybook_code code = dbk_pg_once(p, &p->query, sql, args, deadline_us, &r, err);

    *ret = code == DAYBOOK_OK ? dbk_pg_int(r, 0, 0) : 0;
    PQclear(r);
    dbk_pg_changed(p);
    return code;
}

enum daybook_code dbk_pg_retire(struct daybook_journal *j, const char *consumer,
                                enum daybook_force force, const struct daybook_operator *by,
                                int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    struct pg_args args = {.count = 0};
    int64_t answer = 0;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_int(&args, PG_BOOL, force == DAYBOOK_FORCE_YES);
    dbk_pg_arg_now(&args, p, now_us);
    dbk_pg_arg_int(&args, PG_INT4, p->query.conns[0].slot);
    add_operator(&args, by);
    code = once_int(p, "SELECT @.retire_1($1,$2,$3,$4,$5,$6,$7)", &args, deadline_us, &answer, err);
    if (code != DAYBOOK_OK || answer == 0) {
        return code;
    }
    return answer == 1 ? no_consumer(consumer, err)
                       : dbk_fail(err, DAYBOOK_BUSY,
                                  "consumer %s holds live leases; stop it, or wait until they end",
                                  consumer);
}

/* What is told a consumer, the time, who and why, and answers 0 where there is such a consumer. */
static enum daybook_code act(struct daybook_journal *j, const char *sql, const char *consumer,
                             const struct daybook_operator *by, int64_t now_us, int64_t deadline_us,
                             struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    struct pg_args args = {.count = 0};
    int64_t answer = 0;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_now(&args, p, now_us);
    add_operator(&args, by);
    code = once_int(p, sql, &args, deadline_us, &answer, err);
    return code == DAYBOOK_OK && answer != 0 ? no_consumer(consumer, err) : code;
}

enum daybook_code dbk_pg_rewind(struct daybook_journal *j, const char *consumer,
                                const struct daybook_operator *by, int64_t now_us,
                                int64_t deadline_us, struct daybook_error *err)
{
    return act(j, "SELECT @.rewind_1($1,$2,$3,$4,$5)", consumer, by, now_us, deadline_us, err);
}

enum daybook_code dbk_pg_start(struct daybook_journal *j, const char *consumer,
                               struct daybook_start start, const struct daybook_operator *by,
                               int64_t now_us, int64_t deadline_us, struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    struct pg_args args = {.count = 0};
    int64_t answer = 0;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_int(&args, PG_INT4, (int)start.kind);
    dbk_pg_arg_int(&args, PG_INT8, start.value);
    dbk_pg_arg_now(&args, p, now_us);
    dbk_pg_arg_int(&args, PG_INT4, DAYBOOK_CONSUMERS_MAX);
    add_operator(&args, by);
    code =
        once_int(p, "SELECT @.start_1($1,$2,$3,$4,$5,$6,$7,$8)", &args, deadline_us, &answer, err);
    if (code != DAYBOOK_OK || answer == 0) {
        return code;
    }
    return answer == 1
               ? dbk_fail(err, DAYBOOK_CONFLICT,
                          "consumer %s is registered already: where it started stands", consumer)
               : dbk_fail(err, DAYBOOK_BUSY, "consumer %s: %u consumers are registered; retire one",
                          consumer, DAYBOOK_CONSUMERS_MAX);
}

enum daybook_code dbk_pg_note_lift(struct daybook_journal *j, const char *consumer,
                                   const struct daybook_operator *by, int64_t now_us,
                                   int64_t deadline_us, struct daybook_error *err)
{
    return act(j, "SELECT @.note_lift_1($1,$2,$3,$4,$5)", consumer, by, now_us, deadline_us, err);
}

/* ---- the trail ------------------------------------------------------------------------------------------ */

static void put_text(char *to, size_t room, struct daybook_bytes from)
{
    size_t len = from.len < room - 1 ? from.len : room - 1;

    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

static void fill_operation(const PGresult *r, int row, struct daybook_operation *ret)
{
    enum { NO, KIND, AT, POS, CONSUMER, REQUEST_ID, WHO, WHY };

    *ret = (struct daybook_operation){.no = (uint64_t)dbk_pg_int(r, row, NO),
                                      .kind = (enum daybook_operation_kind)dbk_pg_int(r, row, KIND),
                                      .at_us = dbk_pg_int(r, row, AT),
                                      .position = (uint64_t)dbk_pg_int(r, row, POS)};
    put_text(ret->consumer, sizeof ret->consumer, dbk_pg_bytes(r, row, CONSUMER));
    put_text(ret->request_id, sizeof ret->request_id, dbk_pg_bytes(r, row, REQUEST_ID));
    put_text(ret->who, sizeof ret->who, dbk_pg_bytes(r, row, WHO));
    put_text(ret->why, sizeof ret->why, dbk_pg_bytes(r, row, WHY));
}

enum daybook_code dbk_pg_operations(struct daybook_journal *j, uint64_t before_no,
                                    struct daybook_operation *ret, size_t max, size_t *ret_count,
                                    struct daybook_error *err)
{
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_int(&args, PG_INT8,
                   before_no == 0 || before_no > INT64_MAX ? INT64_MAX : (int64_t)before_no);
    dbk_pg_arg_int(&args, PG_INT8, max > DAYBOOK_TRAIL_MAX ? DAYBOOK_TRAIL_MAX : (int64_t)max);
    code = dbk_pg_once(pg_of(j), &pg_of(j)->query,
                       "SELECT no, kind, at, pos, consumer, request_id, who, why FROM @.operation "
                       "WHERE no < $1 ORDER BY no DESC LIMIT $2",
                       &args, DAYBOOK_NO_DEADLINE, &r, err);
    if (code == DAYBOOK_OK) {
        *ret_count = (size_t)PQntuples(r);
        for (size_t i = 0; i < *ret_count; i++) {
            fill_operation(r, (int)i, &ret[i]);
        }
    }
    PQclear(r);
    return code;
}
