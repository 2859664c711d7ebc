/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be read from the daemon: figures, consumers, metrics, stored events. Each writes one answer
 * from the service; none changes anything. Threads: any.
 */
#ifndef DBK_DAEMON_ADMIN_H
#define DBK_DAEMON_ADMIN_H

#include "daemon/answer.h"
#include "daemon/service.h"
#include "daemon/target.h"

#define DBK_LISTING_EVENTS_DEFAULT 1000u
#define DBK_LISTING_BYTES_MAX (4u * 1024u * 1024u)

struct dbk_listing {
    uint64_t after;
    uint32_t limit; /* 1 to DAYBOOK_CLAIM_EVENTS_MAX */
    enum daybook_where where;
};

void dbk_admin_stats(struct dbk_service *service, struct dbk_answer *answer);
void dbk_admin_consumers(struct dbk_service *service, struct dbk_answer *answer);
void dbk_admin_consumer(struct dbk_service *service, const char *name, struct dbk_answer *answer);
void dbk_admin_metrics(struct dbk_service *service, struct dbk_answer *answer);
void dbk_admin_events(struct dbk_service *service, const struct dbk_listing *listing,
                      struct dbk_answer *answer);
void dbk_admin_ready(struct dbk_service *service, struct dbk_answer *answer);
/* Stats, consumers and metrics, as the target says; false: it asks for something else. */
bool dbk_admin_figures(struct dbk_service *service, const struct dbk_target *target,
                       struct dbk_answer *answer);

/* A number of at most 19 digits, and nothing else. */
bool dbk_number_parse(const char *text, uint64_t *ret);
/* Reads `?after=&limit=&where=`; a NULL text is the default. Returns OK, or BAD_ARGUMENT with the mend. */
enum daybook_code dbk_listing_parse(const char *after, const char *limit, const char *where,
                                    struct dbk_listing *ret, struct daybook_error *err);

#endif
