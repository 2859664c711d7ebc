/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP answers as values (P): status, headers that matter, body. Building one does no I/O, so that every
 * answer of the interface has a test without a socket.
 */
#ifndef DBK_DAEMON_ANSWER_H
#define DBK_DAEMON_ANSWER_H

#include "app/text.h"

#define DBK_TYPE_JSON "application/json"
#define DBK_TYPE_NDJSON "application/x-ndjson"
#define DBK_TYPE_CLOUDEVENT "application/cloudevents+json"
#define DBK_TYPE_CLOUDEVENTS "application/cloudevents-batch+json"
#define DBK_TYPE_PROBLEM "application/problem+json"
#define DBK_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct dbk_answer {
    unsigned status;
    const char *content_type; /* static; NULL: there is no body */
    unsigned retry_after_s;   /* 0: no such header */
    const char *allow;        /* static, with 405; NULL: no such header */
    bool closes;              /* the connection */
    bool accepts_gzip;        /* with 415 for an encoding: says which are taken */
    uint64_t last_position;   /* of a listing, with `listing` */
    bool listing;
    bool more;
    uint64_t not_durable; /* events that were refused for want of durability (M2) */
    struct dbk_text body;
};

void dbk_answer_release(struct dbk_answer *answer);

/* `application/problem+json` (RFC 9457). `code` is the stable word; `detail` says what, where, the mend. */
void dbk_answer_problem(struct dbk_answer *answer, unsigned status, const char *code,
                        const char *detail);
/* The same left open for members of its own: the caller writes `,"x":1` and the closing brace. */
void dbk_answer_problem_open(struct dbk_answer *answer, unsigned status, const char *code,
                             const char *detail);
/* A 503 for events that are not durable, with the reason and Retry-After. */
void dbk_answer_undurable(struct dbk_answer *answer, enum daybook_code reason, const char *detail);

/* The standard phrase of a status that this program answers. */
const char *dbk_status_phrase(unsigned status);
/* How long to wait before a repeat after this code, in seconds. */
unsigned dbk_retry_after_s(enum daybook_code code);

#endif
