/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request body to events, and from their results to an answer (P).
 *
 * A body is read whole before anything of it is stored. Each event of a batch is judged by itself; what
 * refuses a body as a whole (no JSON, a malformed array, too many events) stores nothing of it. Threads:
 * one at a time per body.
 */
#ifndef DBK_DAEMON_INGEST_H
#define DBK_DAEMON_INGEST_H

#include <daybook/journal.h>

#include "app/config.h"
#include "daemon/answer.h"

#define DBK_BODY_EVENTS_MAX                                                                        \
    131072u /* of one body; errors listed in an answer are bounded by it too */

enum dbk_body_kind {
    DBK_BODY_JSON,       /* one event, or an array */
    DBK_BODY_NDJSON,     /* one a line */
    DBK_BODY_CLOUDEVENT, /* one, structured; or binary, once it was given that form */
    DBK_BODY_CLOUDEVENTS /* an array of them */
};

/* Whose statuses an answer has. */
enum dbk_dialect {
    DBK_DIALECT_DAYBOOK,
    DBK_DIALECT_OPENMETER /* 204 when every event is durable; else an error, for one as for many */
};

/* One event of a body, good or bad. */
struct dbk_item {
    uint64_t line;  /* NDJSON: from 1 */
    uint32_t event; /* its place in `events`, with code OK */
    enum daybook_code code;
    struct daybook_bytes request_id; /* empty: not known */
    const char *message;             /* with a failure; in the arena */
    uint64_t offset;                 /* in the body, with MALFORMED_JSON */
};

struct dbk_arena_chunk;

/* A body taken apart. Events borrow from the body and from `chunks`. */
struct dbk_ingest {
    enum dbk_body_kind kind;
    enum dbk_dialect dialect;     /* DAYBOOK, until the caller says otherwise */
    enum dbk_undurable undurable; /* REFUSE, until the caller says otherwise */
    bool many;
    struct dbk_item *items;
    size_t item_count;
    struct daybook_event *events;
    size_t event_count;
    size_t room; /* of both arrays */
    struct dbk_arena_chunk *chunks;
    /* The arrays of a body of one event: nothing is allocated for it. So an ingest is not to be moved. */
    struct dbk_item item;
    struct daybook_event event;
};

void dbk_ingest_release(struct dbk_ingest *ingest);

/* Takes a body apart. Returns OK (also when single events are bad), or what refuses the whole body:
 * MALFORMED_JSON, TOO_LARGE, NO_MEMORY. */
enum daybook_code dbk_ingest_parse(struct daybook_bytes body, enum dbk_body_kind kind,
                                   const struct daybook_event_limits *limits,
                                   struct dbk_ingest *ingest, struct daybook_error *err);

/* The answer to a body that was refused as a whole. */
void dbk_ingest_answer_refused(const struct daybook_error *err, struct dbk_answer *answer);

/* The answer to a body that was taken apart. `results`: one for each of `events`; NULL: all of them have
 * `instead`, told by `detail` (draining, timed_out, backend). */
void dbk_ingest_answer(const struct dbk_ingest *ingest, const struct daybook_append_result *results,
                       enum daybook_code instead, const char *detail, struct dbk_answer *answer);

#endif
