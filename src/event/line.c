/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of line.h. Threads: any. */
#include "event/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json/json.h"

#define NUMBER_ROOM 24u
#define FRAME_BYTES 128u /* the member names, their quotes, braces and commas */

_Static_assert(3 * DBK_JSON_ESCAPED_MAX(DAYBOOK_NAME_BYTES_MAX) + 2 * DAYBOOK_TIME_TEXT_MAX +
                       NUMBER_ROOM + FRAME_BYTES <=
                   DBK_EVENT_LINE_MORE,
               "room for the longest names");

static char *put(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

static char *put_name(char *at, const char *member, struct daybook_bytes name)
{
    size_t room = DBK_JSON_ESCAPED_MAX(DAYBOOK_NAME_BYTES_MAX);
    at = put(at, member);
    size_t len = dbk_json_escape(name, at, room);
    return at + (len < room ? len : room);
}

static char *put_time(char *at, const char *member, int64_t us)
{
    char text[DAYBOOK_TIME_TEXT_MAX];
    at = put(at, member);
    if (us == DAYBOOK_TIME_UNSET) {
        return put(at, "null");
    }
    (void)daybook_time_format(us, text);
    at = put(at, "\"");
    at = put(at, text);
    return put(at, "\"");
}

static char *put_record(char *at, struct daybook_bytes record)
{
    dbk_json_one_line(record, at);
    return at + record.len;
}

size_t dbk_event_members_write(const struct daybook_event *event, uint64_t position,
                               int64_t accepted_at_us, char *buf)
{
    char number[NUMBER_ROOM];
    (void)snprintf(number, sizeof number, "%" PRIu64, position);
    char *at = put(buf, "{\"position\":");
    at = put(at, number);
    at = put_name(at, ",\"request_id\":", event->request_id);
    at = put_name(at, ",\"namespace\":", event->name_space);
    at = put_name(at, ",\"subject\":", event->subject);
    at = put_time(at, ",\"observed_at\":", event->observed_at_us);
    at = put_time(at, ",\"accepted_at\":", accepted_at_us);
    at = put(at, ",\"record\":");
    return (size_t)(at - buf);
}

size_t dbk_event_line_write(const struct daybook_event *event, uint64_t position,
                            int64_t accepted_at_us, char *buf)
{
    char *at = buf + dbk_event_members_write(event, position, accepted_at_us, buf);
    at = put_record(at, event->record);
    at = put(at, "}\n");
    return (size_t)(at - buf);
}

size_t dbk_record_line_write(const struct daybook_event *event, char *buf)
{
    char *at = put_record(buf, event->record);
    at = put(at, "\n");
    return (size_t)(at - buf);
}
