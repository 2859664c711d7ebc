/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the clock may prune (P3), and maintenance: pruning and the sweep of keys without events, each in bounded
 * transactions. Threads: any.
 */
#include "engines/postgres/impl.h"

#include "base/error.h"

#define BRAKE_AHEAD_US INT64_C(3600000000)   /* P3: 1 h */
#define BRAKE_PATIENCE_US INT64_C(600000000) /* P3: 10 minutes */
#define PRUNE_STEP 1000
#define SWEEP_STEP 1000
#define SWEEP_STEPS_MAX 32u /* of one maintenance: the next one goes on */

static int64_t later(int64_t us, int64_t more_us)
{
    return us > INT64_MAX - more_us ? INT64_MAX : us + more_us;
}

int64_t dbk_pg_now(struct pg_journal *p, int64_t now_us)
{
    return p->clock == DAYBOOK_POSTGRES_CLOCK_CALLER ? now_us
                                                     : pg_mono_us(p) + p->clock_ahead_of_mono_us;
}

void dbk_pg_note_now(struct pg_journal *p, int64_t store_now_us)
{
    if (p->clock == DAYBOOK_POSTGRES_CLOCK_STORE && store_now_us > 0) {
        p->clock_ahead_of_mono_us = store_now_us - pg_mono_us(p);
    }
}

/* Acceptances after the opening do not move the limit: an append under a clock that leapt would lift the brake
 * at once. A leap that has stood is trusted from then on. */
int64_t dbk_pg_braked(struct pg_journal *p, int64_t now_us)
{
    int64_t mono_us = pg_mono_us(p);
    int64_t limit = later(later(p->trusted_us, mono_us - p->trusted_mono_us), BRAKE_AHEAD_US);

    if (now_us <= limit) {
        p->leapt = false;
        return now_us;
    }
    if (!p->leapt) {
        p->leapt = true;
        p->leapt_since_us = mono_us;
    }
    if (mono_us - p->leapt_since_us < BRAKE_PATIENCE_US) {
        return limit;
    }
    p->leapt = false;
    p->trusted_us = now_us;
    p->trusted_mono_us = mono_us;
    return now_us;
}

bool dbk_pg_prune_until(struct pg_journal *p, int64_t now_us, int64_t *ret_us)
{
    int64_t retain_us = p->head.capacity.retain_acknowledged_us;

    if (p->trusted_us == DAYBOOK_TIME_UNSET) {
        return false; /* nothing was ever accepted */
    }
    *ret_us = dbk_pg_braked(p, now_us) - (retain_us < 0 ? 0 : retain_us);
    return true;
}

static enum daybook_code count_of(struct pg_journal *p, const char *sql, const struct pg_args *args,
                                  int64_t deadline_us, int64_t *ret, struct daybook_error *err)
{
    PGresult *r = NULL;
    enum daybook_code code = dbk_pg_once(p, &p->query, sql, args, deadline_us, &r, err);

    if (code == DAYBOOK_OK) {
        *ret = dbk_pg_int(r, 0, 0);
    }
    PQclear(r);
    return code;
}

static enum daybook_code prune(struct pg_journal *p, int64_t until_us, int64_t deadline_us,
                               uint64_t *ret_pruned, struct daybook_error *err)
{
    int64_t pruned = PRUNE_STEP;

    *ret_pruned = 0;
    while (pruned > 0) {
        struct pg_args args = {.count = 0};
        enum daybook_code code;

        dbk_pg_arg_int(&args, PG_INT4, p->query.conns[0].slot);
        dbk_pg_arg_int(&args, PG_INT8, until_us);
        dbk_pg_arg_int(&args, PG_INT4, PRUNE_STEP);
        code = count_of(p, "SELECT @.prune_1($1,$2,$3)", &args, deadline_us, &pruned, err);
        if (code != DAYBOOK_OK) {
            return code;
        }
        *ret_pruned += (uint64_t)pruned;
    }
    return DAYBOOK_OK;
}

static enum daybook_code sweep(struct pg_journal *p, int64_t now_us, int64_t deadline_us,
                               struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    int64_t at;

    dbk_mutex_lock(&p->mutex);
    at = p->swept_key;
    dbk_mutex_unlock(&p->mutex);
    for (unsigned i = 0; code == DAYBOOK_OK && i < SWEEP_STEPS_MAX; i++) {
        struct pg_args args = {.count = 0};

        dbk_pg_arg_now(&args, p, now_us);
        dbk_pg_arg_int(&args, PG_INT8, at);
        dbk_pg_arg_int(&args, PG_INT4, SWEEP_STEP);
        code = count_of(p, "SELECT @.sweep_1($1,$2,$3)", &args, deadline_us, &at, err);
        if (at == 0) {
            break;
        }
    }
    dbk_mutex_lock(&p->mutex);
    p->swept_key = at;
    dbk_mutex_unlock(&p->mutex);
    return code;
}

enum daybook_code dbk_pg_maintain(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                  uint64_t *ret_pruned, struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    enum daybook_code code = DAYBOOK_OK;
    int64_t until_us = 0;
    bool may_prune;

    dbk_mutex_lock(&p->mutex);
    may_prune = dbk_pg_prune_until(p, dbk_pg_now(p, now_us), &until_us);
    dbk_mutex_unlock(&p->mutex);
    *ret_pruned = 0;
    if (may_prune) {
        code = prune(p, until_us, deadline_us, ret_pruned, err);
    }
    return code == DAYBOOK_OK ? sweep(p, now_us, deadline_us, err) : code;
}
