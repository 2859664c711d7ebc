/* SPDX-License-Identifier: Apache-2.0 */
/* The exported lines of exported.h. */
#include "cli/exported.h"

#include <string.h>

#include "base/error.h"
#include "cli/client.h"
#include "event/form.h"
#include "json/json.h"

enum cli_line_kind cli_line_kind(struct daybook_bytes line)
{
    /* Cheap first: most lines are plain. */
    if (memmem(line.data, line.len, "\"record\"", 8) == NULL ||
        memmem(line.data, line.len, "\"accepted_at\"", 13) == NULL ||
        dbk_json_check_object(line, NULL) != DAYBOOK_OK) {
        return CLI_LINE_PLAIN;
    }
    struct daybook_bytes record = cli_member(line, "record");
    struct daybook_bytes position = cli_member(line, "position");
    bool exported = record.len > 0 && record.data[0] == '{' && position.len > 0 &&
                    position.data[0] >= '0' && position.data[0] <= '9' &&
                    cli_member(line, "accepted_at").len > 0;
    return exported ? CLI_LINE_EXPORTED : CLI_LINE_PLAIN;
}

/* A string member into `at`; too long a name is left to the check of the event. */
static struct daybook_bytes name_of(struct daybook_bytes line, const char *member, char **at,
                                    const char *end)
{
    struct daybook_bytes token = cli_member(line, member);
    if (token.len == 0 || token.data[0] != '"') {
        return (struct daybook_bytes){NULL, 0};
    }
    size_t room = (size_t)(end - *at);
    size_t len = dbk_json_string_decode(token, *at, room);
    struct daybook_bytes name = {*at, len};
    if (len > room) {
        /* Still too long for a name, and the bytes are ours. */
        return (struct daybook_bytes){token.data, token.len};
    }
    *at += len;
    return name;
}

enum daybook_code cli_exported_event(struct daybook_bytes line,
                                     const struct daybook_event_limits *limits,
                                     struct daybook_event_names *names, struct daybook_event *ret,
                                     struct daybook_error *err)
{
    char *at = names->bytes;
    const char *end = names->bytes + sizeof names->bytes;
    struct daybook_event event = {.request_id = name_of(line, "request_id", &at, end),
                                  .name_space = name_of(line, "namespace", &at, end),
                                  .subject = name_of(line, "subject", &at, end),
                                  .record = cli_member(line, "record")};
    struct daybook_bytes observed = cli_member(line, "observed_at");
    ret->request_id = event.request_id;
    if (observed.len < 2 || observed.data[0] != '"') {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "observed_at is missing or no string");
    }
    struct daybook_bytes time = {observed.data + 1, observed.len - 2};
    enum daybook_code code = daybook_time_parse(time, &event.observed_at_us, err);
    if (code == DAYBOOK_OK) {
        code = daybook_event_check(&event, limits, err);
    }
    if (code == DAYBOOK_OK) {
        *ret = event;
    }
    return code;
}

static bool same(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len &&
           (a.len == 0 || (a.data != NULL && b.data != NULL && memcmp(a.data, b.data, a.len) == 0));
}

enum daybook_code cli_exported_flat(struct daybook_bytes line,
                                    const struct daybook_event_limits *limits,
                                    struct dbk_text *text, struct daybook_error *err)
{
    struct daybook_event_names names = {{0}};
    struct daybook_event_names flat_names = {{0}};
    struct daybook_event event = {0};
    struct daybook_event flat = {0};
    enum daybook_code code = cli_exported_event(line, limits, &names, &event, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    code = daybook_event_from_json(event.record, limits, &flat_names, &flat, NULL);
    if (code != DAYBOOK_OK || !same(flat.request_id, event.request_id) ||
        !same(flat.name_space, event.name_space) || !same(flat.subject, event.subject)) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "its record does not carry the event's own names, so HTTP cannot take it: "
                        "append it with --data");
    }
    struct daybook_bytes record = event.record;
    if (flat.observed_at_us == DAYBOOK_TIME_UNSET) {
        char time[DAYBOOK_TIME_TEXT_MAX];
        (void)daybook_time_format(event.observed_at_us, time);
        dbk_text_printf(text, "{\"%s\":\"%s\",",
                        dbk_record_is_cloudevent(event.record) ? "time" : "observed_at", time);
        record.data++;
        record.len--;
    }
    dbk_text_one_line(text, record);
    return DAYBOOK_OK;
}
