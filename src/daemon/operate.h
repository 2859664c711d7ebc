/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask of the daemon: one event, what is quarantined, the trail, and the operations that
 * change something. Each is a job for the desk that ends in one answer.
 *
 * Nothing here is without an end: a listing is a page, a request that acts on many events does at most
 * DBK_OPERATE_EVENTS_MAX of them and no more than DBK_OPERATE_TIME_US goes by, and says what is left.
 * Threads: made and read by the request's thread, run by the desk's.
 */
#ifndef DBK_DAEMON_OPERATE_H
#define DBK_DAEMON_OPERATE_H

#include "daemon/admin.h"
#include "daemon/desk.h"
#include "daemon/target.h"

#define DBK_OPERATE_EVENTS_MAX 1000u
#define DBK_OPERATE_TIME_US INT64_C(5000000)
#define DBK_OPERATIONS_PAGE_MAX 1000u
#define DBK_QUERY_BYTES_MAX (DAYBOOK_WHY_BYTES_MAX + 1u)

/* The arguments of the query, decoded; an empty one was not given. */
struct dbk_query {
    char after[24];
    char before[24];
    char limit[24];
    char where[16];
    char reason[24];
    char force[8];
    char from[40];
    char why[DBK_QUERY_BYTES_MAX];
};

struct dbk_operate {
    struct dbk_desk_job job;
    struct dbk_service *service;
    const struct dbk_desk *desk;
    struct dbk_target target;
    struct dbk_query query;
    char who[DAYBOOK_WHO_BYTES_MAX + 1]; /* kept in the trail */
    enum dbk_begun begun;
    char *body; /* taken; of release and discard of many */
    size_t body_len;
    size_t body_room; /* its part of the budget of all bodies, for its maker to give back */
    struct dbk_answer answer;
};

/* Whether this request waits for the disk: it is done by dbk_operate_run. */
bool dbk_operate_handles(const struct dbk_target *target);
/* Whether a body belongs to it. */
bool dbk_operate_has_body(const struct dbk_target *target);
/* Whether it changes something. */
bool dbk_operate_changes(const struct dbk_target *target);

/* Does it and writes the answer; the job's `run`. */
void dbk_operate_run(struct dbk_desk_job *job);
/* Also what `answer` holds. NULL is accepted. */
void dbk_operate_free(struct dbk_operate *operate);

#endif
