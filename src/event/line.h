/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event as one line of NDJSON (P): the shape of exports, listings and files. Threads: any.
 */
#ifndef DBK_EVENT_LINE_H
#define DBK_EVENT_LINE_H

#include <daybook/event.h>

/* The most that a line is longer than its record: the three names escaped, the times, the rest. */
#define DBK_EVENT_LINE_MORE 5120u

/* Writes `{"position":...,...,"record":{...}}` and a newline. `event` has passed its check; `buf` takes
 * record.len + DBK_EVENT_LINE_MORE bytes. Returns the length. */
size_t dbk_event_line_write(const struct daybook_event *event, uint64_t position,
                            int64_t accepted_at_us, char *buf);
/* The same up to the record, whose value and a closing brace come next. `buf` takes DBK_EVENT_LINE_MORE
 * bytes. Returns the length. */
size_t dbk_event_members_write(const struct daybook_event *event, uint64_t position,
                               int64_t accepted_at_us, char *buf);
/* Writes the record alone and a newline. `buf` takes record.len + 1 bytes. Returns the length. */
size_t dbk_record_line_write(const struct daybook_event *event, char *buf);

#endif
