/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' requests of operate.h. */
#include "daemon/operate.h"

#include <stdlib.h>
#include <string.h>

#include "app/listing.h"
#include "app/logline.h"
#include "base/error.h"
#include "json/json.h"

#define QUARANTINE_PAGE_DEFAULT 100u
#define QUARANTINE_PAGE_MAX 1000u
#define OPERATIONS_PAGE_DEFAULT 100u
#define ERRORS_MAX 100u /* told one by one; the rest is counted */
#define BUSY_RETRY_AFTER_S 5u

static struct dbk_operate *operate_of(struct dbk_desk_job *job)
{
    return (struct dbk_operate *)((char *)job - offsetof(struct dbk_operate, job));
}

bool dbk_operate_changes(const struct dbk_target *target)
{
    switch (target->route) {
    case DBK_ROUTE_START:
    case DBK_ROUTE_REWIND:
    case DBK_ROUTE_LIFT:
    case DBK_ROUTE_RELEASE:
    case DBK_ROUTE_RELEASE_MANY:
    case DBK_ROUTE_DISCARD_MANY:
        return true;
    case DBK_ROUTE_CONSUMER:
    case DBK_ROUTE_QUARANTINED:
        return target->method == DBK_METHOD_DELETE;
    case DBK_ROUTE_EVENTS:
    case DBK_ROUTE_OPENMETER:
    case DBK_ROUTE_EVENT:
    case DBK_ROUTE_STATS:
    case DBK_ROUTE_CONSUMERS:
    case DBK_ROUTE_QUARANTINE:
    case DBK_ROUTE_OPERATIONS:
    case DBK_ROUTE_METRICS:
    case DBK_ROUTE_HEALTH:
    case DBK_ROUTE_READY:
    case DBK_ROUTE_NONE:
        break;
    }
    return false;
}

bool dbk_operate_handles(const struct dbk_target *target)
{
    return dbk_operate_changes(target) || target->route == DBK_ROUTE_EVENT ||
           target->route == DBK_ROUTE_QUARANTINE || target->route == DBK_ROUTE_QUARANTINED ||
           target->route == DBK_ROUTE_OPERATIONS ||
           (target->route == DBK_ROUTE_EVENTS && target->method == DBK_METHOD_READ);
}

bool dbk_operate_has_body(const struct dbk_target *target)
{
    return target->route == DBK_ROUTE_RELEASE_MANY || target->route == DBK_ROUTE_DISCARD_MANY;
}

void dbk_operate_free(struct dbk_operate *operate)
{
    if (operate != NULL) {
        dbk_answer_release(&operate->answer);
        free(operate->body);
        free(operate);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static unsigned status_of(enum daybook_code code)
{
    /* What the scanner calls no event is here a body that is no plain object. */
    return code == DAYBOOK_INVALID_EVENT ? 400 : (unsigned)daybook_code_http_status(code);
}

static void answer_error(struct dbk_operate *op, const struct daybook_error *err)
{
    dbk_answer_release(&op->answer);
    unsigned status = status_of(err->code);
    dbk_answer_problem(&op->answer, status, daybook_code_name(err->code), err->message);
    op->answer.retry_after_s = err->code == DAYBOOK_BUSY ? BUSY_RETRY_AFTER_S
                               : status == 503           ? dbk_retry_after_s(err->code)
                                                         : 0;
}

static void answer_ok(struct dbk_operate *op, const char *type)
{
    op->answer.status = 200;
    op->answer.content_type = type;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *given(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static enum daybook_code read_reason(const char *text, enum daybook_quarantine_reason *ret,
                                     struct daybook_error *err)
{
    if (text[0] == '\0' || dbk_reason_parse(text, ret)) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "reason is none of malformed, rejected, attempts_exhausted");
}

/* A page of at most `most`, `usual` where nothing is said. `cursor`: where it begins; `name`: its argument. */
static enum daybook_code read_page(const struct dbk_operate *op, const char *cursor,
                                   const char *name, uint32_t usual, uint32_t most,
                                   struct dbk_listing *ret, struct daybook_error *err)
{
    enum daybook_code code = dbk_listing_parse(NULL, given(op->query.limit), NULL, ret, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (cursor[0] != '\0' && !dbk_number_parse(cursor, &ret->after)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%s is no number: write digits alone", name);
    }
    ret->limit = op->query.limit[0] == '\0' ? usual : ret->limit;
    ret->limit = ret->limit < most ? ret->limit : most;
    return DAYBOOK_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum daybook_code new_batch(struct dbk_operate *op, uint32_t events, size_t bytes,
                                   struct daybook_batch **ret, struct daybook_error *err)
{
    return daybook_batch_new(events, bytes, (uint32_t)op->service->config->max_event_bytes, ret,
                             err);
}

static enum daybook_code show_event(struct dbk_operate *op, struct daybook_journal *journal,
                                    struct daybook_error *err)
{
    struct daybook_event_standing standings[DAYBOOK_CONSUMERS_MAX];
    struct daybook_bytes id = {op->target.request_id, strlen(op->target.request_id)};
    struct daybook_batch *batch = NULL;
    size_t count = 0;
    enum daybook_code code = new_batch(op, 1, 1, &batch, err);
    if (code == DAYBOOK_OK) {
        code = daybook_journal_find(journal, id, dbk_service_now(op->service), batch, standings,
                                    DAYBOOK_CONSUMERS_MAX, &count, err);
    }
    if (code == DAYBOOK_OK) {
        answer_ok(op, DBK_TYPE_JSON);
        dbk_event_json(&op->answer.body, &batch->deliveries[0], standings, count);
    }
    daybook_batch_free(batch);
    return code;
}

static enum daybook_code list_quarantine(struct dbk_operate *op, struct daybook_journal *journal,
                                         struct daybook_error *err)
{
    struct dbk_listing page;
    struct daybook_batch *batch = NULL;
    struct daybook_quarantine_entry *entries = NULL;
    enum daybook_quarantine_reason reason = (enum daybook_quarantine_reason)0;
    enum daybook_code code = read_page(op, op->query.after, "after", QUARANTINE_PAGE_DEFAULT,
                                       QUARANTINE_PAGE_MAX, &page, err);
    if (code == DAYBOOK_OK) {
        code = read_reason(op->query.reason, &reason, err);
    }
    if (code == DAYBOOK_OK) {
        code = new_batch(op, page.limit, DBK_LISTING_BYTES_MAX, &batch, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    entries = calloc(page.limit, sizeof *entries);
    if (entries == NULL) {
        code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the page: ask for a smaller limit");
        goto out;
    }
    code = daybook_journal_quarantine_list(journal, op->target.consumer, page.after, reason, batch,
                                           entries, &op->answer.last_position, err);
    for (size_t i = 0; code == DAYBOOK_OK && i < batch->count; i++) {
        dbk_quarantine_line(&op->answer.body, &batch->deliveries[i], &entries[i]);
    }
    op->answer.more = batch->more;
    op->answer.listing = true;
    answer_ok(op, DBK_TYPE_NDJSON);
out:
    free(entries);
    daybook_batch_free(batch);
    return code;
}

static enum daybook_code not_quarantined(struct dbk_operate *op, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NOT_FOUND, "%s is not quarantined by %s", op->target.request_id,
                    op->target.consumer);
}

/* One entry, by its id. */
static enum daybook_code show_quarantined(struct dbk_operate *op, struct daybook_journal *journal,
                                          struct daybook_error *err)
{
    struct daybook_bytes id = {op->target.request_id, strlen(op->target.request_id)};
    struct daybook_quarantine_entry entry = {0};
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;
    size_t count = 0;
    enum daybook_code code = new_batch(op, 1, 1, &batch, err);
    if (code == DAYBOOK_OK) {
        code = daybook_journal_find(journal, id, dbk_service_now(op->service), batch, NULL, 0,
                                    &count, err);
    }
    if (code == DAYBOOK_OK) {
        uint64_t position = batch->deliveries[0].position;
        code = daybook_journal_quarantine_list(journal, op->target.consumer, position - 1,
                                               (enum daybook_quarantine_reason)0, batch, &entry,
                                               &last, err);
        if (code == DAYBOOK_OK && (batch->count == 0 || entry.position != position)) {
            code = not_quarantined(op, err);
        }
    }
    if (code == DAYBOOK_OK) {
        answer_ok(op, DBK_TYPE_JSON);
        dbk_quarantine_line(&op->answer.body, &batch->deliveries[0], &entry);
    }
    daybook_batch_free(batch);
    return code;
}

static enum daybook_code list_operations(struct dbk_operate *op, struct daybook_journal *journal,
                                         struct daybook_error *err)
{
    struct dbk_listing page;
    size_t count = 0;
    enum daybook_code code = read_page(op, op->query.before, "before", OPERATIONS_PAGE_DEFAULT,
                                       DBK_OPERATIONS_PAGE_MAX, &page, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    struct daybook_operation *operations = calloc(page.limit, sizeof *operations);
    if (operations == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the page: ask for a smaller limit");
    }
    code = daybook_journal_operations(journal, page.after, operations, page.limit, &count, err);
    if (code == DAYBOOK_OK) {
        answer_ok(op, DBK_TYPE_JSON);
        dbk_text_str(&op->answer.body, "{\"operations\":[");
        for (size_t i = 0; i < count; i++) {
            dbk_text_str(&op->answer.body, i > 0 ? "," : "");
            dbk_operation_json(&op->answer.body, &operations[i]);
        }
        dbk_text_printf(&op->answer.body, "],\"more\":%s}\n",
                        count == page.limit ? "true" : "false");
    }
    free(operations);
    return code;
}

/* ---- acts on one thing ----------------------------------------------------------------------- */

static struct daybook_operator operator_of(const struct dbk_operate *op, const char *why)
{
    return (struct daybook_operator){.who = {op->who, strlen(op->who)}, .why = {why, strlen(why)}};
}

static int64_t deadline_of(const struct dbk_operate *op, struct daybook_journal *journal)
{
    return daybook_journal_monotonic_us(journal) + op->service->config->operation_timeout_ms * 1000;
}

static void log_act(const struct dbk_operate *op, const char *what, uint64_t events)
{
    dbk_log(DBK_LOG_INFO, "operator", DBK_LOG_TEXT_FIELD("does", what),
            DBK_LOG_TEXT_FIELD("consumer", op->target.consumer), DBK_LOG_NUMBER("events", events),
            DBK_LOG_TEXT_FIELD("who", op->who));
}

static enum daybook_code act_on_event(struct dbk_operate *op, struct daybook_journal *journal,
                                      enum daybook_operation_kind kind,
                                      struct daybook_bytes request_id, const char *why,
                                      struct daybook_error *err)
{
    struct daybook_operator by = operator_of(op, why);
    int64_t now_us = dbk_service_now(op->service);
    return kind == DAYBOOK_OPERATION_RELEASE
               ? daybook_journal_release(journal, op->target.consumer, request_id, &by, now_us,
                                         deadline_of(op, journal), err)
               : daybook_journal_discard(journal, op->target.consumer, request_id, &by, now_us,
                                         deadline_of(op, journal), err);
}

static void answer_status(struct dbk_operate *op, const char *status)
{
    answer_ok(op, DBK_TYPE_JSON);
    dbk_text_printf(&op->answer.body, "{\"status\":\"%s\",\"consumer\":\"%s\"", status,
                    op->target.consumer);
    if (op->target.request_id[0] != '\0') {
        dbk_text_str(&op->answer.body, ",\"request_id\":");
        dbk_text_json_str(&op->answer.body, op->target.request_id);
    }
    dbk_text_str(&op->answer.body, "}\n");
}

static enum daybook_code act_on_one(struct dbk_operate *op, struct daybook_journal *journal,
                                    enum daybook_operation_kind kind, struct daybook_error *err)
{
    struct daybook_bytes id = {op->target.request_id, strlen(op->target.request_id)};
    enum daybook_code code = act_on_event(op, journal, kind, id, op->query.why, err);
    if (code == DAYBOOK_OK) {
        bool release = kind == DAYBOOK_OPERATION_RELEASE;
        answer_status(op, release ? "released" : "discarded");
        log_act(op, release ? "release" : "discard", 1);
    }
    return code;
}

/* The consumer, where this daemon delivers for it; else NULL. */
static struct dbk_delivery_consumer *running_consumer(const struct dbk_operate *op)
{
    struct dbk_delivery *delivery = op->service->delivery;
    for (size_t i = 0; i < delivery->consumer_count; i++) {
        if (strcmp(delivery->consumers[i].config->name, op->target.consumer) == 0) {
            return delivery->consumers[i].running ? &delivery->consumers[i] : NULL;
        }
    }
    return NULL;
}

static enum daybook_code retire(struct dbk_operate *op, struct daybook_journal *journal,
                                struct daybook_error *err)
{
    struct daybook_operator by = operator_of(op, op->query.why);
    bool force = strcmp(op->query.force, "true") == 0;
    if (op->query.force[0] != '\0' && !force && strcmp(op->query.force, "false") != 0) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "force is neither true nor false");
    }
    if (!force && running_consumer(op) != NULL) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "this daemon delivers for %s: take it out of the configuration first; "
                        "with force=true its next claim registers it anew",
                        op->target.consumer);
    }
    enum daybook_code code = daybook_journal_retire(
        journal, op->target.consumer, force ? DAYBOOK_FORCE_YES : DAYBOOK_FORCE_NO, &by,
        dbk_service_now(op->service), deadline_of(op, journal), err);
    if (code == DAYBOOK_OK) {
        answer_status(op, "retired");
        log_act(op, "retire", 0);
    }
    return code;
}

static enum daybook_code rewind_consumer(struct dbk_operate *op, struct daybook_journal *journal,
                                         struct daybook_error *err)
{
    struct daybook_operator by = operator_of(op, op->query.why);
    enum daybook_code code =
        daybook_journal_rewind(journal, op->target.consumer, &by, dbk_service_now(op->service),
                               deadline_of(op, journal), err);
    if (code == DAYBOOK_OK) {
        answer_status(op, "rewound");
        log_act(op, "rewind", 0);
    }
    return code;
}

static bool is_braked(struct dbk_delivery_consumer *consumer)
{
    for (size_t i = 0; i < consumer->sink_count; i++) {
        if (dbk_delivery_sink_status(&consumer->sinks[i]).braked) {
            return true;
        }
    }
    return false;
}

/* Noted first: what was let go and is in no trail would be worse than the other way round. */
static enum daybook_code lift_brakes(struct dbk_operate *op, struct daybook_journal *journal,
                                     struct daybook_error *err)
{
    struct daybook_operator by = operator_of(op, op->query.why);
    struct dbk_delivery_consumer *consumer = running_consumer(op);
    if (consumer == NULL || !is_braked(consumer)) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND,
                        consumer == NULL ? "this daemon does not deliver for %s"
                                         : "no destination of %s is braked: see /v1/stats",
                        op->target.consumer);
    }
    enum daybook_code code =
        daybook_journal_note_lift(journal, op->target.consumer, &by, dbk_service_now(op->service),
                                  deadline_of(op, journal), err);
    if (code == DAYBOOK_OK) {
        (void)dbk_delivery_lift_brakes(consumer);
        answer_status(op, "lifted");
        log_act(op, "lift", 0);
    }
    return code;
}

/* Says where it starts, as far as that is known: a time may lie ahead. */
static void answer_started(struct dbk_operate *op, struct daybook_journal *journal)
{
    struct daybook_consumer_stats stats;
    answer_ok(op, DBK_TYPE_JSON);
    dbk_text_printf(&op->answer.body, "{\"status\":\"started\",\"consumer\":\"%s\"",
                    op->target.consumer);
    if (daybook_journal_consumer_stats(journal, op->target.consumer, dbk_service_now(op->service),
                                       &stats, NULL) == DAYBOOK_OK) {
        dbk_text_char(&op->answer.body, ',');
        dbk_start_json(&op->answer.body, &stats);
    }
    dbk_text_str(&op->answer.body, "}\n");
}

static enum daybook_code start_consumer(struct dbk_operate *op, struct daybook_journal *journal,
                                        struct daybook_error *err)
{
    struct daybook_operator by = operator_of(op, op->query.why);
    struct daybook_start start = {.kind = DAYBOOK_START_OLDEST};
    if (op->query.from[0] != '\0' && dbk_start_parse(op->query.from, &start, err) != DAYBOOK_OK) {
        err->code = DAYBOOK_BAD_ARGUMENT;
        return err->code;
    }
    enum daybook_code code =
        daybook_journal_start(journal, op->target.consumer, start, &by,
                              dbk_service_now(op->service), deadline_of(op, journal), err);
    if (code == DAYBOOK_OK) {
        answer_started(op, journal);
        log_act(op, "start", 0);
    }
    return code;
}

/* ---- acts on many ---------------------------------------------------------------------------- */

/* What the body asks for: ids, or all that are quarantined (for one reason). */
struct many {
    enum daybook_operation_kind kind;
    struct daybook_bytes ids; /* the array; empty: by reason */
    enum daybook_quarantine_reason reason;
    uint64_t after;
    char why[DAYBOOK_WHY_BYTES_MAX + 1];
    /* What became of it: */
    int64_t end_us; /* monotonic */
    uint64_t done;
    uint64_t failed;
    uint64_t handled; /* of the ids */
    bool more;
    struct dbk_text errors;
};

static enum daybook_code read_text(const struct dbk_json_item *item, char *buf, size_t room,
                                   const char *name, struct daybook_error *err)
{
    size_t len =
        item->kind == DBK_JSON_STRING ? dbk_json_string_decode(item->value, buf, room - 1) : room;
    if (len >= room) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "%s is no string of at most %zu bytes", name,
                        room - 1);
    }
    buf[len] = '\0';
    return DAYBOOK_OK;
}

static bool is_member(const struct dbk_json_item *item, const char *name)
{
    return dbk_json_string_is(item->name, (struct daybook_bytes){name, strlen(name)});
}

/* One member of the body. *all: "all" is true. */
static enum daybook_code read_member(const struct dbk_json_item *item, struct many *many, bool *all,
                                     struct daybook_error *err)
{
    char text[32];
    int64_t number = 0;
    if (is_member(item, "request_ids") && item->kind == DBK_JSON_ARRAY_BEGIN) {
        many->ids = item->value;
        return DAYBOOK_OK;
    }
    if (is_member(item, "all") && item->kind == DBK_JSON_TRUE) {
        *all = true;
        return DAYBOOK_OK;
    }
    if (is_member(item, "after") && item->kind == DBK_JSON_NUMBER &&
        dbk_json_number_int64(item->value, &number) && number >= 0) {
        many->after = (uint64_t)number;
        return DAYBOOK_OK;
    }
    if (is_member(item, "why")) {
        return read_text(item, many->why, sizeof many->why, "why", err);
    }
    if (is_member(item, "reason")) {
        enum daybook_code code = read_text(item, text, sizeof text, "reason", err);
        return code == DAYBOOK_OK ? read_reason(text, &many->reason, err) : code;
    }
    return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                    "the body has a member that is not known here, or of another type: "
                    "\"request_ids\" (array), \"reason\", \"all\" (true), \"after\" (a position), "
                    "\"why\"");
}

static enum daybook_code read_many(const struct dbk_operate *op, struct many *many,
                                   struct daybook_error *err)
{
    struct daybook_bytes body = {op->body, op->body_len};
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    bool all = false;
    enum daybook_code code = dbk_json_check_object(body, err);
    if (code == DAYBOOK_OK && dbk_json_walk_init(&walk, body)) {
        while (code == DAYBOOK_OK && dbk_json_walk_next(&walk, &item)) {
            code = read_member(&item, many, &all, err);
        }
    }
    unsigned ways =
        (many->ids.len > 0 ? 1u : 0u) + ((int)many->reason != 0 ? 1u : 0u) + (all ? 1u : 0u);
    if (code == DAYBOOK_OK && ways != 1) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "which events? the body says one of \"request_ids\", \"reason\", "
                        "\"all\":true");
    }
    if (code == DAYBOOK_OK && many->kind == DAYBOOK_OPERATION_DISCARD && many->why[0] == '\0') {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a discard needs to say \"why\"");
    }
    return code;
}

/* An error of one event. One that lies in the journal ends the request: false. */
static bool note_error(struct many *many, struct daybook_bytes id, const struct daybook_error *err)
{
    many->failed++;
    if (many->failed <= ERRORS_MAX) {
        dbk_text_str(&many->errors, many->failed > 1 ? ",{\"request_id\":" : "{\"request_id\":");
        dbk_text_json(&many->errors, id);
        dbk_text_printf(&many->errors,
                        ",\"code\":\"%s\",\"message\":", daybook_code_name(err->code));
        dbk_text_json_str(&many->errors, err->message);
        dbk_text_char(&many->errors, '}');
    }
    return status_of(err->code) < 500;
}

/* Returns whether to go on. */
static bool act_in_turn(struct dbk_operate *op, struct daybook_journal *journal, struct many *many,
                        struct daybook_bytes id)
{
    struct daybook_error err = {0};
    enum daybook_code code = act_on_event(op, journal, many->kind, id, many->why, &err);
    many->done += code == DAYBOOK_OK ? 1 : 0;
    many->handled++;
    return code == DAYBOOK_OK || note_error(many, id, &err);
}

/* Whether the request may act on one more. The first is always tried. */
static bool may_go_on(const struct dbk_operate *op, const struct many *many)
{
    return many->handled == 0 ||
           (many->handled < DBK_OPERATE_EVENTS_MAX && dbk_monotonic_us() < many->end_us &&
            !dbk_desk_is_closing(op->desk));
}

static void act_on_ids(struct dbk_operate *op, struct daybook_journal *journal, struct many *many)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    bool go_on = true;
    (void)dbk_json_walk_init(&walk, many->ids);
    while (dbk_json_walk_next(&walk, &item)) {
        char id[DAYBOOK_NAME_BYTES_MAX + 1];
        struct daybook_error err = {0};
        if (!go_on || !may_go_on(op, many)) {
            many->more = true;
            return;
        }
        if (read_text(&item, id, sizeof id, "a request_id", &err) != DAYBOOK_OK) {
            many->handled++;
            (void)note_error(many, (struct daybook_bytes){"", 0}, &err);
        } else {
            go_on = act_in_turn(op, journal, many, (struct daybook_bytes){id, strlen(id)});
        }
    }
}

/* One page of the list, `last` the position up to which was looked. Returns whether to go on: no more is known to be there once a page is empty. */
static bool act_on_page(struct dbk_operate *op, struct daybook_journal *journal, struct many *many,
                        const struct daybook_batch *batch, uint64_t last)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (!may_go_on(op, many)) {
            return false;
        }
        many->after = batch->deliveries[i].position;
        if (!act_in_turn(op, journal, many, batch->deliveries[i].event.request_id)) {
            return false;
        }
    }
    many->more = batch->count > 0 || batch->more;
    many->after = last > many->after ? last : many->after;
    return many->more;
}

/* What the list shows, page after page. An event that cannot be acted on is left behind. */
static enum daybook_code act_on_list(struct dbk_operate *op, struct daybook_journal *journal,
                                     struct many *many, struct daybook_error *err)
{
    struct daybook_batch *batch = NULL;
    struct daybook_quarantine_entry *entries = NULL;
    uint64_t last = 0;
    enum daybook_code code =
        new_batch(op, QUARANTINE_PAGE_DEFAULT, DBK_LISTING_BYTES_MAX, &batch, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    entries = calloc(QUARANTINE_PAGE_DEFAULT, sizeof *entries);
    if (entries == NULL) {
        code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a page: try again");
        goto out;
    }
    many->more = true;
    do {
        code = daybook_journal_quarantine_list(journal, op->target.consumer, many->after,
                                               many->reason, batch, entries, &last, err);
    } while (code == DAYBOOK_OK && act_on_page(op, journal, many, batch, last));
out:
    free(entries);
    daybook_batch_free(batch);
    return code;
}

static enum daybook_code act_on_many(struct dbk_operate *op, struct daybook_journal *journal,
                                     enum daybook_operation_kind kind, struct daybook_error *err)
{
    struct many many = {.kind = kind, .end_us = dbk_monotonic_us() + DBK_OPERATE_TIME_US};
    bool release = kind == DAYBOOK_OPERATION_RELEASE;
    enum daybook_code code = read_many(op, &many, err);
    if (code == DAYBOOK_OK && many.ids.len > 0) {
        act_on_ids(op, journal, &many);
    } else if (code == DAYBOOK_OK) {
        code = act_on_list(op, journal, &many, err);
    }
    if (code == DAYBOOK_OK || many.handled > 0) {
        answer_ok(op, DBK_TYPE_JSON);
        dbk_text_printf(&op->answer.body,
                        "{\"%s\":%llu,\"failed\":%llu,\"handled\":%llu,\"more\":%s,\"after\":%llu,"
                        "\"errors\":[",
                        release ? "released" : "discarded", (unsigned long long)many.done,
                        (unsigned long long)many.failed, (unsigned long long)many.handled,
                        many.more ? "true" : "false", (unsigned long long)many.after);
        dbk_text_put(&op->answer.body, many.errors.data, many.errors.len);
        dbk_text_str(&op->answer.body, "]}\n");
        log_act(op, release ? "release" : "discard", many.done);
        code = DAYBOOK_OK;
    }
    dbk_text_release(&many.errors);
    return code;
}

/* ---- the desk -------------------------------------------------------------------------------- */

static enum daybook_code dispatch(struct dbk_operate *op, struct daybook_journal *journal,
                                  struct daybook_error *err)
{
    bool delete = op->target.method == DBK_METHOD_DELETE;
    switch (op->target.route) {
    case DBK_ROUTE_EVENT:
        return show_event(op, journal, err);
    case DBK_ROUTE_CONSUMER:
        return retire(op, journal, err);
    case DBK_ROUTE_START:
        return start_consumer(op, journal, err);
    case DBK_ROUTE_REWIND:
        return rewind_consumer(op, journal, err);
    case DBK_ROUTE_LIFT:
        return lift_brakes(op, journal, err);
    case DBK_ROUTE_QUARANTINE:
        return list_quarantine(op, journal, err);
    case DBK_ROUTE_QUARANTINED:
        return delete ? act_on_one(op, journal, DAYBOOK_OPERATION_DISCARD, err)
                      : show_quarantined(op, journal, err);
    case DBK_ROUTE_RELEASE:
        return act_on_one(op, journal, DAYBOOK_OPERATION_RELEASE, err);
    case DBK_ROUTE_RELEASE_MANY:
        return act_on_many(op, journal, DAYBOOK_OPERATION_RELEASE, err);
    case DBK_ROUTE_DISCARD_MANY:
        return act_on_many(op, journal, DAYBOOK_OPERATION_DISCARD, err);
    case DBK_ROUTE_OPERATIONS:
        return list_operations(op, journal, err);
    case DBK_ROUTE_EVENTS:
    case DBK_ROUTE_OPENMETER:
    case DBK_ROUTE_STATS:
    case DBK_ROUTE_CONSUMERS:
    case DBK_ROUTE_METRICS:
    case DBK_ROUTE_HEALTH:
    case DBK_ROUTE_READY:
    case DBK_ROUTE_NONE:
        break;
    }
    return dbk_fail(err, DAYBOOK_NOT_FOUND, "there is nothing here");
}

static void list_events(struct dbk_operate *op)
{
    struct dbk_listing listing;
    struct daybook_error err = {0};
    if (dbk_listing_parse(given(op->query.after), given(op->query.limit), given(op->query.where),
                          &listing, &err) != DAYBOOK_OK) {
        answer_error(op, &err);
        return;
    }
    dbk_admin_events(op->service, &listing, &op->answer);
}

void dbk_operate_run(struct dbk_desk_job *job)
{
    struct dbk_operate *op = operate_of(job);
    struct daybook_error err = {0};
    if (op->target.route == DBK_ROUTE_EVENTS) {
        list_events(op);
        return;
    }
    if (!dbk_operate_changes(&op->target) &&
        dbk_admin_figures(op->service, &op->target, &op->answer)) {
        return;
    }
    if (dbk_operate_changes(&op->target) &&
        (op->begun == DBK_BEGUN_AFTER || dbk_desk_is_closing(op->desk))) {
        (void)dbk_fail(&err, DAYBOOK_DRAINING, "the daemon is stopping: repeat the request");
        answer_error(op, &err);
        return;
    }
    struct daybook_journal *journal = dbk_service_borrow(op->service);
    if (journal == NULL) {
        (void)dbk_fail(&err, DAYBOOK_BACKEND, "no journal is open: see /readyz, then repeat");
        answer_error(op, &err);
        return;
    }
    enum daybook_code code = dispatch(op, journal, &err);
    dbk_service_return(op->service);
    if (code != DAYBOOK_OK) {
        answer_error(op, &err);
        dbk_service_look(op->service); /* an unknown outcome may be a failed journal */
    }
}
