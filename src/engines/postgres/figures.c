/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures (S1 to S5). The journal's come from the rows of counters. A consumer's are counted over its lanes that have a
 * head, so that what they cost grows with what waits (half a second of one processor for a million events). They are exact,
 * because a worker's last report is made of them (T4).
 *
 * Threads: any.
 */
#include "engines/postgres/impl.h"

#include <string.h>

#include "base/error.h"

static int64_t age(int64_t now_us, int64_t since_us)
{
    return now_us > since_us ? now_us - since_us : 0;
}

static void add_to(struct daybook_histogram *h, uint64_t value)
{
    unsigned bucket = 0;

    while (bucket + 1 < DAYBOOK_HISTOGRAM_BUCKETS && value >= UINT64_C(1) << bucket) {
        bucket++;
    }
    h->count++;
    h->sum += value;
    h->buckets[bucket]++;
}

void dbk_pg_count_group(struct pg_journal *p, int64_t took_us, uint64_t events)
{
    dbk_mutex_lock(&p->mutex);
    p->groups++;
    add_to(&p->commit_us, took_us > 0 ? (uint64_t)took_us : 0);
    add_to(&p->commit_batch_events, events);
    dbk_mutex_unlock(&p->mutex);
}

static void fill_journal(struct pg_journal *p, const PGresult *r, int64_t now_us,
                         struct daybook_journal_stats *ret)
{
    enum {
        NOW,
        ACCEPTED,
        STORED,
        BYTES,
        PRUNED,
        RECLAIMED,
        DROPPED,
        DISCARDED,
        NEWEST_AT,
        FIRST,
        LAST,
        FIRST_AT,
        CONSUMERS,
        DAMAGED,
        FILE_BYTES
    };
    const struct daybook_capacity *c = &p->head.capacity;

    *ret = (struct daybook_journal_stats){
        .backend = "postgres",
        .mode = p->fsync && c->policy == DAYBOOK_POLICY_REFUSE ? DAYBOOK_MODE_BILLING_GRADE
                                                               : DAYBOOK_MODE_TELEMETRY_GRADE,
        .state = DAYBOOK_JOURNAL_OPEN,
        .stored_events = (uint64_t)dbk_pg_int(r, 0, STORED),
        .stored_bytes = (uint64_t)dbk_pg_int(r, 0, BYTES),
        .file_bytes = (uint64_t)dbk_pg_int(r, 0, FILE_BYTES),
        .events_max = c->events_max,
        .policy = c->policy,
        .accepted = (uint64_t)dbk_pg_int(r, 0, ACCEPTED),
        .pruned = (uint64_t)dbk_pg_int(r, 0, PRUNED),
        .reclaimed = (uint64_t)dbk_pg_int(r, 0, RECLAIMED),
        .dropped = (uint64_t)dbk_pg_int(r, 0, DROPPED),
        .discarded = (uint64_t)dbk_pg_int(r, 0, DISCARDED),
        .undeliverable_events = (uint64_t)dbk_pg_int(r, 0, DAMAGED),
        .oldest_position = (uint64_t)dbk_pg_int(r, 0, FIRST),
        .newest_position = (uint64_t)dbk_pg_int(r, 0, LAST),
        .consumers = (uint32_t)dbk_pg_int(r, 0, CONSUMERS),
    };
    now_us = p->clock == DAYBOOK_POSTGRES_CLOCK_CALLER ? now_us : dbk_pg_int(r, 0, NOW);
    if (PQgetisnull(r, 0, FIRST_AT) == 0) {
        ret->dedupe_window_us = age(now_us, dbk_pg_int(r, 0, FIRST_AT));
    }
    dbk_mutex_lock(&p->mutex);
    dbk_pg_note_now(p, dbk_pg_int(r, 0, NOW));
    ret->undeliverable_total = p->undeliverable_total;
    ret->groups = p->groups;
    ret->commit_us = p->commit_us;
    ret->commit_batch_events = p->commit_batch_events;
    dbk_mutex_unlock(&p->mutex);
}

enum daybook_code dbk_pg_stats(struct daybook_journal *j, int64_t now_us,
                               struct daybook_journal_stats *ret, struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    PGresult *r = NULL;
    enum daybook_code code =
        dbk_pg_once(p, &p->query, "SELECT * FROM @.stats_1()", NULL, DAYBOOK_NO_DEADLINE, &r, err);

    if (code == DAYBOOK_OK) {
        fill_journal(p, r, now_us, ret);
    }
    PQclear(r);
    return code;
}

static void fill_consumer(struct pg_journal *p, const PGresult *r, const char *consumer,
                          struct daybook_consumer_stats *ret)
{
    enum {
        ID,
        START,
        START_AT,
        NOW,
        PENDING,
        IN_FLIGHT,
        QUARANTINED,
        NEWER,
        OLDEST_PENDING,
        OLDEST,
        HELD_BYTES
    };
    int32_t id = (int32_t)dbk_pg_int(r, 0, ID);
    int64_t start = dbk_pg_int(r, 0, START);
    int64_t now_us = dbk_pg_int(r, 0, NOW);

    *ret = (struct daybook_consumer_stats){
        .registered = id != 0,
        .pending = (uint64_t)dbk_pg_int(r, 0, PENDING),
        .in_flight = (uint64_t)dbk_pg_int(r, 0, IN_FLIGHT),
        .quarantined = (uint64_t)dbk_pg_int(r, 0, QUARANTINED),
        .oldest_pending_age_us = -1,
        .oldest_unresolved_age_us = -1,
        .last_claim_at_us = DAYBOOK_TIME_UNSET,
        .start_at_us = DAYBOOK_TIME_UNSET,
        .start = start == INT64_MAX ? UINT64_MAX : (uint64_t)start,
        .newer_version = (uint64_t)dbk_pg_int(r, 0, NEWER),
    };
    memcpy(ret->name, consumer, strlen(consumer) + 1);
    ret->drained = ret->pending == 0 && ret->in_flight == 0;
    if (PQgetisnull(r, 0, OLDEST_PENDING) == 0) {
        ret->oldest_pending_age_us = age(now_us, dbk_pg_int(r, 0, OLDEST_PENDING));
    }
    if (PQgetisnull(r, 0, OLDEST) == 0) {
        ret->oldest_unresolved_age_us = age(now_us, dbk_pg_int(r, 0, OLDEST));
    }
    if (id != 0) {
        struct pg_local *local;

        ret->held_events = ret->pending + ret->in_flight + ret->quarantined;
        ret->held_bytes = (uint64_t)dbk_pg_int(r, 0, HELD_BYTES);
        if (PQgetisnull(r, 0, START_AT) == 0) {
            ret->start_at_us = dbk_pg_int(r, 0, START_AT);
        }

        dbk_mutex_lock(&p->mutex);
        local = dbk_pg_local(p, consumer, id);
        ret->last_claim_at_us = local->last_claim_at_us;
        memcpy(ret->quarantined_total, local->quarantined_total, sizeof ret->quarantined_total);
        dbk_mutex_unlock(&p->mutex);
    }
}

enum daybook_code dbk_pg_consumer_stats(struct daybook_journal *j, const char *consumer,
                                        int64_t now_us, struct daybook_consumer_stats *ret,
                                        struct daybook_error *err)
{
    struct pg_journal *p = pg_of(j);
    struct pg_args args = {.count = 0};
    PGresult *r = NULL;
    enum daybook_code code;

    dbk_pg_arg_bytes(&args, PG_TEXT, dbk_pg_text(consumer));
    dbk_pg_arg_now(&args, p, now_us);
    dbk_pg_arg_int(&args, PG_INT4, PG_ROW_VERSION);
    code = dbk_pg_once(p, &p->query, "SELECT * FROM @.consumer_stats_1($1,$2,$3)", &args,
                       DAYBOOK_NO_DEADLINE, &r, err);
    if (code == DAYBOOK_OK) {
        fill_consumer(p, r, consumer, ret);
    }
    PQclear(r);
    return code;
}

enum daybook_code dbk_pg_consumers(struct daybook_journal *j,
                                   char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                   size_t *ret_count, struct daybook_error *err)
{
    PGresult *r = NULL;
    enum daybook_code code =
        dbk_pg_once(pg_of(j), &pg_of(j)->query, "SELECT name FROM @.consumer ORDER BY id", NULL,
                    DAYBOOK_NO_DEADLINE, &r, err);

    if (code == DAYBOOK_OK) {
        *ret_count = (size_t)PQntuples(r) < max ? (size_t)PQntuples(r) : max;
        for (size_t i = 0; i < *ret_count; i++) {
            struct daybook_bytes name = dbk_pg_bytes(r, (int)i, 0);
            size_t len = name.len < sizeof names[i] ? name.len : sizeof names[i] - 1;

            memset(names[i], 0, sizeof names[i]);
            memcpy(names[i], name.data, len);
        }
    }
    PQclear(r);
    return code;
}
