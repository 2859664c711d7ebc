/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the event room: any bytes are NDJSON, each line an event, neighbours compared; and
 * a time.
 */
#include "fuzz.h"

#include <string.h>

#include <daybook/event.h>

#include "event/ndjson.h"

static const struct daybook_event_limits limits = {DAYBOOK_IDENTITY_ANY, 0};

static bool parse(struct daybook_bytes line, struct daybook_event_names *names,
                  struct daybook_event *event)
{
    struct daybook_error err = {0};
    memset(event, 0, sizeof *event);
    enum daybook_code code = daybook_event_from_json(line, &limits, names, event, &err);
    FUZZ_PROMISE(err.offset <= line.len);
    if (code == DAYBOOK_OK) {
        FUZZ_PROMISE(daybook_event_check(event, &limits, NULL) == DAYBOOK_OK);
        FUZZ_PROMISE(daybook_event_same_fact(event, event));
        return true;
    }
    FUZZ_PROMISE(code == DAYBOOK_MALFORMED_JSON || code == DAYBOOK_INVALID_EVENT ||
                 code == DAYBOOK_TOO_LARGE);
    FUZZ_PROMISE(err.message[0] != '\0' && event->record.data == NULL);
    return false;
}

static void try_time(struct daybook_bytes text)
{
    int64_t us = 0;
    if (daybook_time_parse(text, &us, NULL) != DAYBOOK_OK) {
        return;
    }
    FUZZ_PROMISE(us >= DAYBOOK_OBSERVED_MIN_US && us < DAYBOOK_OBSERVED_END_US);
    char buf[DAYBOOK_TIME_TEXT_MAX];
    size_t len = daybook_time_format(us, buf);
    int64_t back = 0;
    FUZZ_PROMISE(daybook_time_parse((struct daybook_bytes){buf, len}, &back, NULL) == DAYBOOK_OK);
    FUZZ_PROMISE(back == us);
}

/* Bytes that passed no check have to be harmless too. */
static void try_unchecked(struct daybook_bytes a, struct daybook_bytes b)
{
    struct daybook_event x = {.record = a};
    struct daybook_event y = {.record = b};
    bool there = daybook_event_same_fact(&x, &y);
    FUZZ_PROMISE(there == daybook_event_same_fact(&y, &x));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct daybook_bytes text = {(const char *)data, size};
    struct dbk_ndjson ndjson;
    struct daybook_bytes line;
    struct daybook_bytes line_before = {NULL, 0};
    struct daybook_event events[2];
    struct daybook_event_names names[2];
    bool fine[2] = {false, false};
    uint64_t number = 0;
    uint64_t number_before = 0;
    unsigned at = 0;
    dbk_ndjson_init(&ndjson, text, DBK_NDJSON_WHOLE);
    while (dbk_ndjson_next(&ndjson, &line, &number)) {
        FUZZ_PROMISE(number > number_before && line.len > 0);
        FUZZ_PROMISE(memchr(line.data, '\n', line.len) == NULL);
        number_before = number;
        fine[at] = parse(line, &names[at], &events[at]);
        if (fine[0] && fine[1]) {
            bool there = daybook_event_same_fact(&events[0], &events[1]);
            FUZZ_PROMISE(there == daybook_event_same_fact(&events[1], &events[0]));
        }
        try_unchecked(line, line_before);
        try_time(line);
        line_before = line;
        at = 1 - at;
    }
    FUZZ_PROMISE(dbk_ndjson_rest(&ndjson).len == 0);
    return 0;
}
