/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that `daybook export` wrote, read back as events (P). Threads: any.
 */
#ifndef DBK_CLI_EXPORTED_H
#define DBK_CLI_EXPORTED_H

#include <daybook/event.h>

#include "app/text.h"

enum cli_line_kind {
    CLI_LINE_PLAIN,    /* an event object: the line is the record */
    CLI_LINE_EXPORTED, /* `{"position":...,"record":{...}}` */
};

/* Which of the two a line is: an exported one has `position`, `accepted_at` and an object `record`. What
 * is no JSON is plain: the journal's own answer says what is wrong with it. */
enum cli_line_kind cli_line_kind(struct daybook_bytes line);

/* The event of an exported line, as it was accepted. `names`: storage. Returns OK; INVALID_EVENT and the
 * other codes of daybook_event_check. */
enum daybook_code cli_exported_event(struct daybook_bytes line,
                                     const struct daybook_event_limits *limits,
                                     struct daybook_event_names *names, struct daybook_event *ret,
                                     struct daybook_error *err);

/* Writes the event as a flat object that the HTTP interface takes. A record without `observed_at` of its
 * own (a CloudEvent without `time`) gets the event's as its first member, so that it still says when the usage happened (E5); the
 * same-fact comparison (E6) leaves that member out. Returns OK, or INVALID_EVENT where the record does
 * not carry the names of its event. */
enum daybook_code cli_exported_flat(struct daybook_bytes line,
                                    const struct daybook_event_limits *limits,
                                    struct dbk_text *text, struct daybook_error *err);

#endif
