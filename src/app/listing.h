/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stored event, and the journal's figures, look to people and programs (the shapes of the
 * interface). Pure; threads: any.
 */
#ifndef DBK_APP_LISTING_H
#define DBK_APP_LISTING_H

#include <daybook/journal.h>

#include "app/text.h"

/* One line with its newline: `{"position":...,"record":{...}}`. */
void dbk_event_line(struct dbk_text *text, const struct daybook_delivery *delivery);
/* The record alone, one line with its newline. */
void dbk_record_line(struct dbk_text *text, const struct daybook_delivery *delivery);

/* The journal object of /v1/stats. `state`: `"open"`, `"failed"`, `"starting"`. */
void dbk_journal_json(struct dbk_text *text, const struct daybook_journal_stats *stats,
                      const char *state);
/* The members of a consumer object that the journal knows, without braces. */
void dbk_consumer_json(struct dbk_text *text, const struct daybook_consumer_stats *stats);

/* `all`, `pending`, `quarantined`. */
bool dbk_where_parse(const char *text, enum daybook_where *ret);

#endif
