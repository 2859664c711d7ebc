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
/* The same with `"consumers":[...]`; the record's bytes as they came, null where it is damaged. */
void dbk_event_json(struct dbk_text *text, const struct daybook_delivery *delivery,
                    const struct daybook_event_standing *standings, size_t count);
/* A quarantine entry, one line with its newline. */
void dbk_quarantine_line(struct dbk_text *text, const struct daybook_delivery *delivery,
                         const struct daybook_quarantine_entry *entry);
/* An entry of the trail (O1), without a newline. */
void dbk_operation_json(struct dbk_text *text, const struct daybook_operation *operation);
/* The record alone, one line with its newline. */
void dbk_record_line(struct dbk_text *text, const struct daybook_delivery *delivery);

/* The journal object of /v1/stats. `state`: `"open"`, `"failed"`, `"starting"`. */
void dbk_journal_json(struct dbk_text *text, const struct daybook_journal_stats *stats,
                      const char *state);
/* Where a consumer starts: the members `start` and `start_at`. */
void dbk_start_json(struct dbk_text *text, const struct daybook_consumer_stats *stats);
/* The members of a consumer object that the journal knows, without braces. */
void dbk_consumer_json(struct dbk_text *text, const struct daybook_consumer_stats *stats);

/* `malformed`, `rejected`, `attempts_exhausted`. */
bool dbk_reason_parse(const char *text, enum daybook_quarantine_reason *ret);
/* `all`, `pending`, `quarantined`. */
bool dbk_where_parse(const char *text, enum daybook_where *ret);

#endif
