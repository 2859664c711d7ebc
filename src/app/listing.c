/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of listing.h. */
#include "app/listing.h"

#include <string.h>

#include "event/line.h"
#include "json/json.h"

void dbk_event_line(struct dbk_text *text, const struct daybook_delivery *delivery)
{
    if (dbk_text_reserve(text, delivery->event.record.len + DBK_EVENT_LINE_MORE)) {
        text->len += dbk_event_line_write(&delivery->event, delivery->position,
                                          delivery->accepted_at_us, text->data + text->len);
        text->data[text->len] = '\0';
    }
}

void dbk_event_json(struct dbk_text *text, const struct daybook_delivery *delivery,
                    const struct daybook_event_standing *standings, size_t count)
{
    if (!dbk_text_reserve(text, DBK_EVENT_LINE_MORE)) {
        return;
    }
    text->len += dbk_event_members_write(&delivery->event, delivery->position,
                                         delivery->accepted_at_us, text->data + text->len);
    if (delivery->event.record.len > 0) {
        dbk_text_put(text, delivery->event.record.data, delivery->event.record.len);
    } else {
        dbk_text_str(text, "null"); /* damaged */
    }
    dbk_text_str(text, ",\"consumers\":[");
    for (size_t i = 0; i < count; i++) {
        dbk_text_printf(
            text, "%s{\"name\":\"%s\",\"state\":\"%s\",\"attempt\":%u,\"hand_outs\":%u}",
            i > 0 ? "," : "", standings[i].consumer, daybook_standing_name(standings[i].standing),
            standings[i].attempt, standings[i].hand_outs);
    }
    dbk_text_str(text, "]}\n");
}

static bool has_member(struct daybook_bytes object, const char *name)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    struct daybook_bytes plain = {name, strlen(name)};
    if (dbk_json_walk_init(&walk, object)) {
        while (dbk_json_walk_next(&walk, &item)) {
            if (dbk_json_string_is(item.name, plain)) {
                return true;
            }
        }
    }
    return false;
}

/* The destination's own words: the members of an object as they stand, anything else as its message. The four that
 * readers count on are always there, null where the destination had no such word. */
static void words_json(struct dbk_text *text, struct daybook_bytes words)
{
    static const char *const promised[] = {"code", "constraint", "column", "message"};
    bool object =
        words.len > 0 && words.data[0] == '{' && dbk_json_check_object(words, NULL) == DAYBOOK_OK;
    if (object) {
        dbk_text_one_line(text, words);
    } else {
        dbk_text_str(text, "{\"message\":");
        dbk_text_json(text, words);
        dbk_text_char(text, '}');
    }
    while (text->len > 0 && text->data[--text->len] != '}') {
    }
    for (size_t i = 0; i < sizeof promised / sizeof promised[0]; i++) {
        bool there = object ? has_member(words, promised[i]) : strcmp(promised[i], "message") == 0;
        if (!there && text->len > 0) {
            dbk_text_printf(text, "%s\"%s\":null", text->data[text->len - 1] == '{' ? "" : ",",
                            promised[i]);
        }
    }
    dbk_text_char(text, '}');
}

void dbk_quarantine_line(struct dbk_text *text, const struct daybook_delivery *delivery,
                         const struct daybook_quarantine_entry *entry)
{
    const struct daybook_event *event = &delivery->event;
    dbk_text_str(text, "{\"request_id\":");
    dbk_text_json(text, event->request_id);
    dbk_text_printf(text,
                    ",\"position\":%llu,\"namespace\":", (unsigned long long)delivery->position);
    dbk_text_json(text, event->name_space);
    dbk_text_str(text, ",\"subject\":");
    dbk_text_json(text, event->subject);
    dbk_text_printf(text,
                    ",\"reason\":\"%s\",\"words\":", daybook_quarantine_reason_name(entry->reason));
    words_json(text, (struct daybook_bytes){entry->words, entry->words_len});
    dbk_text_printf(text, ",\"attempts\":%u,\"quarantined_at\":", entry->attempts);
    dbk_text_json_time(text, entry->quarantined_at_us != 0 ? entry->quarantined_at_us
                                                           : DAYBOOK_TIME_UNSET);
    dbk_text_str(text, ",\"accepted_at\":");
    dbk_text_json_time(text, delivery->accepted_at_us);
    dbk_text_str(text, ",\"record\":");
    if (event->record.len > 0) {
        dbk_text_one_line(text, event->record);
    } else {
        dbk_text_str(text, "null"); /* damaged */
    }
    dbk_text_str(text, "}\n");
}

void dbk_operation_json(struct dbk_text *text, const struct daybook_operation *operation)
{
    dbk_text_printf(text, "{\"no\":%llu,\"kind\":\"%s\",\"at\":", (unsigned long long)operation->no,
                    daybook_operation_kind_name(operation->kind));
    dbk_text_json_time(text, operation->at_us);
    dbk_text_printf(text, ",\"consumer\":\"%s\",\"request_id\":", operation->consumer);
    if (operation->request_id[0] != '\0') {
        dbk_text_json_str(text, operation->request_id);
    } else {
        dbk_text_str(text, "null");
    }
    if (operation->position != 0) {
        dbk_text_printf(text, ",\"position\":%llu", (unsigned long long)operation->position);
    } else {
        dbk_text_str(text, ",\"position\":null");
    }
    dbk_text_str(text, ",\"who\":");
    dbk_text_json_str(text, operation->who);
    dbk_text_str(text, ",\"why\":");
    dbk_text_json_str(text, operation->why);
    dbk_text_char(text, '}');
}

bool dbk_reason_parse(const char *text, enum daybook_quarantine_reason *ret)
{
    for (int r = DAYBOOK_REASON_MALFORMED; r <= DAYBOOK_REASON_ATTEMPTS_EXHAUSTED; r++) {
        enum daybook_quarantine_reason reason = (enum daybook_quarantine_reason)r;
        if (strcmp(text, daybook_quarantine_reason_name(reason)) == 0) {
            *ret = reason;
            return true;
        }
    }
    return false;
}

void dbk_record_line(struct dbk_text *text, const struct daybook_delivery *delivery)
{
    if (dbk_text_reserve(text, delivery->event.record.len + 1)) {
        text->len += dbk_record_line_write(&delivery->event, text->data + text->len);
        text->data[text->len] = '\0';
    }
}

static void member(struct dbk_text *text, const char *name, uint64_t value)
{
    dbk_text_printf(text, "\"%s\":%llu", name, (unsigned long long)value);
}

static void age(struct dbk_text *text, const char *name, int64_t us)
{
    if (us < 0) {
        dbk_text_printf(text, "\"%s\":null", name);
    } else {
        dbk_text_printf(text, "\"%s\":%lld.%06lld", name, (long long)(us / 1000000),
                        (long long)(us % 1000000));
    }
}

void dbk_journal_json(struct dbk_text *text, const struct daybook_journal_stats *stats,
                      const char *state)
{
    dbk_text_printf(text, "{\"backend\":\"%s\",\"mode\":\"%s\",\"state\":\"%s\",",
                    stats->backend != NULL ? stats->backend : "log",
                    stats->mode == DAYBOOK_MODE_BILLING_GRADE ? "billing_grade" : "telemetry_grade",
                    state);
    if (stats->state == DAYBOOK_JOURNAL_FAILED) {
        dbk_text_str(text, "\"failure\":");
        dbk_text_json_str(text, stats->failure.message);
        dbk_text_char(text, ',');
    }
    const struct {
        const char *name;
        uint64_t value;
    } plain[] = {{"stored_events", stats->stored_events},
                 {"stored_bytes", stats->stored_bytes},
                 {"file_bytes", stats->file_bytes},
                 {"oldest_position", stats->oldest_position},
                 {"newest_position", stats->newest_position},
                 {"segment_files", stats->segment_files},
                 {"undeliverable_events", stats->undeliverable_events},
                 {"read_errors", stats->read_errors},
                 {"bad_checkpoints", stats->bad_checkpoints},
                 {"bad_indexes", stats->bad_indexes},
                 {"groups", stats->groups},
                 {"syncs", stats->syncs}},
      counters[] = {{"accepted", stats->accepted},   {"pruned", stats->pruned},
                    {"reclaimed", stats->reclaimed}, {"dropped", stats->dropped},
                    {"discarded", stats->discarded}, {"damaged", stats->damaged}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        member(text, plain[i].name, plain[i].value);
        dbk_text_char(text, ',');
    }
    dbk_text_printf(text,
                    "\"capacity\":{\"max_events\":%llu,\"max_bytes\":%llu,\"policy\":\"%s\"},",
                    (unsigned long long)stats->events_max, (unsigned long long)stats->bytes_max,
                    stats->policy == DAYBOOK_POLICY_REFUSE ? "refuse" : "drop_oldest");
    dbk_text_str(text, "\"counters\":{");
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        dbk_text_str(text, i > 0 ? "," : "");
        member(text, counters[i].name, counters[i].value);
    }
    dbk_text_str(text, "},");
    age(text, "dedupe_window_seconds", stats->dedupe_window_us);
    dbk_text_char(text, '}');
}

void dbk_start_json(struct dbk_text *text, const struct daybook_consumer_stats *stats)
{
    dbk_text_str(text, "\"start\":");
    if (stats->start == UINT64_MAX) {
        dbk_text_str(text, "null"); /* waits for a time */
    } else {
        dbk_text_u64(text, stats->start);
    }
    dbk_text_str(text, ",\"start_at\":");
    dbk_text_json_time(text, stats->start_at_us);
}

void dbk_consumer_json(struct dbk_text *text, const struct daybook_consumer_stats *stats)
{
    member(text, "pending", stats->pending);
    dbk_text_char(text, ',');
    member(text, "in_flight", stats->in_flight);
    dbk_text_char(text, ',');
    member(text, "quarantined", stats->quarantined);
    dbk_text_char(text, ',');
    age(text, "oldest_pending_age_seconds", stats->oldest_pending_age_us);
    dbk_text_char(text, ',');
    age(text, "oldest_unresolved_age_seconds", stats->oldest_unresolved_age_us);
    dbk_text_printf(text, ",\"drained\":%s,\"last_claim_at\":", stats->drained ? "true" : "false");
    dbk_text_json_time(text, stats->last_claim_at_us);
    dbk_text_printf(text, ",\"registered\":%s,", stats->registered ? "true" : "false");
    member(text, "held_events", stats->held_events);
    dbk_text_char(text, ',');
    member(text, "held_bytes", stats->held_bytes);
    dbk_text_char(text, ',');
    member(text, "newer_version", stats->newer_version);
    dbk_text_char(text, ',');
    dbk_start_json(text, stats);
}

bool dbk_where_parse(const char *text, enum daybook_where *ret)
{
    static const struct {
        const char *name;
        enum daybook_where where;
    } all[] = {{"all", DAYBOOK_WHERE_ALL},
               {"pending", DAYBOOK_WHERE_PENDING},
               {"quarantined", DAYBOOK_WHERE_QUARANTINED}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(text, all[i].name) == 0) {
            *ret = all[i].where;
            return true;
        }
    }
    return false;
}
