/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door: whether an event obeys E2 to E5, and an event out of its flat JSON form. One pass over
 * the record; nothing is allocated unless more than 512 member names are open at once. Threads:
 * any.
 */
#include <daybook/event.h>

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "event/form.h"
#include "event/request_id.h"
#include "json/json.h"

static const struct daybook_event_limits default_limits = {DAYBOOK_IDENTITY_ANY, 0};

static enum daybook_code check_length(struct daybook_bytes value, const char *member,
                                      struct daybook_error *err)
{
    if (value.len == 0) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "%s is empty: 1 to %u bytes are wanted", member,
                        DAYBOOK_NAME_BYTES_MAX);
    }
    if (value.len > DAYBOOK_NAME_BYTES_MAX) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "%s is longer than %u bytes: shorten it",
                        member, DAYBOOK_NAME_BYTES_MAX);
    }
    return DAYBOOK_OK;
}

/* The first byte of value from `at` on that is below `least` or above '~'; value.len: there is none. Eight bytes a
 * step, of which one that is not looked at by itself may only be taken for such a byte, never the other way round. */
static size_t skip_ascii(struct daybook_bytes value, size_t at, unsigned char least)
{
    const uint8_t *bytes = (const uint8_t *)value.data;
    for (; value.len - at >= 8; at += 8) {
        uint64_t x = dbk_get_u64(bytes + at);
        if (((x | (x - DBK_BYTES_ONES * least) | (x + DBK_BYTES_ONES)) & DBK_BYTES_HIGHS) != 0) {
            break;
        }
    }
    while (at < value.len && bytes[at] >= least && bytes[at] <= '~') {
        at++;
    }
    return at;
}

static bool is_visible_ascii(struct daybook_bytes value)
{
    return skip_ascii(value, 0, '!') == value.len;
}

static enum daybook_code check_request_id(struct daybook_bytes id, enum daybook_identity identity,
                                          struct daybook_error *err)
{
    if (identity == DAYBOOK_IDENTITY_UUIDV7) {
        return dbk_request_id_is_uuidv7(id)
                   ? DAYBOOK_OK
                   : dbk_fail(err, DAYBOOK_INVALID_EVENT,
                              "request_id is not of the form that this journal takes: req_ and a "
                              "lower-case UUID of version 7");
    }
    enum daybook_code code = check_length(id, "request_id", err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    return is_visible_ascii(id) ? DAYBOOK_OK
                                : dbk_fail(err, DAYBOOK_INVALID_EVENT,
                                           "request_id holds a byte that is not printable ASCII, "
                                           "or a space: choose an id without");
}

/* E3: UTF-8 without C0, DEL and C1. */
static enum daybook_code check_key_part(struct daybook_bytes value, const char *member,
                                        struct daybook_error *err)
{
    enum daybook_code code = check_length(value, member, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    const char *end = value.data + value.len;
    for (const char *at = value.data + skip_ascii(value, 0, ' '); at < end;) {
        unsigned n = dbk_utf8_length(at, end);
        unsigned char c = (unsigned char)at[0];
        if (n == 0) {
            return dbk_fail(err, DAYBOOK_INVALID_EVENT, "%s is not valid UTF-8 (at its byte %zu)",
                            member, (size_t)(at - value.data));
        }
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)at[1] < 0xa0)) {
            return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                            "%s holds a control character (at its byte %zu): leave it out", member,
                            (size_t)(at - value.data));
        }
        at = value.data + skip_ascii(value, (size_t)(at - value.data) + n, ' ');
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_observed_at(int64_t us, struct daybook_error *err)
{
    if (us >= DAYBOOK_OBSERVED_MIN_US && us < DAYBOOK_OBSERVED_END_US) {
        return DAYBOOK_OK;
    }
    const char *hint = "";
    if (us >= DAYBOOK_OBSERVED_MIN_US / 1000000 && us < DAYBOOK_OBSERVED_END_US / 1000000) {
        hint = " (it looks like seconds)";
    } else if (us >= DAYBOOK_OBSERVED_MIN_US / 1000 && us < DAYBOOK_OBSERVED_END_US / 1000) {
        hint = " (it looks like milliseconds)";
    } else if (us / 1000 >= DAYBOOK_OBSERVED_MIN_US && us / 1000 < DAYBOOK_OBSERVED_END_US) {
        hint = " (it looks like nanoseconds)";
    }
    return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                    "observed_at is not in the years 2000 to 2099 as microseconds since the Unix "
                    "epoch%s",
                    hint);
}

static enum daybook_code check_fields(const struct daybook_event *event,
                                      enum daybook_identity identity, struct daybook_error *err)
{
    enum daybook_code code = check_request_id(event->request_id, identity, err);
    if (code == DAYBOOK_OK) {
        code = check_key_part(event->name_space, "namespace", err);
    }
    if (code == DAYBOOK_OK) {
        code = check_key_part(event->subject, "subject", err);
    }
    if (code == DAYBOOK_OK && event->observed_at_us != DAYBOOK_TIME_UNSET) {
        code = check_observed_at(event->observed_at_us, err);
    }
    return code;
}

static enum daybook_code check_size(size_t bytes, const struct daybook_event_limits *limits,
                                    struct daybook_error *err)
{
    size_t most =
        limits->event_bytes_max != 0 ? limits->event_bytes_max : DAYBOOK_EVENT_BYTES_DEFAULT;
    return bytes <= most
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_TOO_LARGE,
                          "the record has %zu bytes, and max_event_bytes is %zu", bytes, most);
}

enum daybook_code daybook_event_check(const struct daybook_event *event,
                                      const struct daybook_event_limits *limits,
                                      struct daybook_error *err)
{
    limits = limits != NULL ? limits : &default_limits;
    if (event == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "no event was given");
    }
    enum daybook_code code = check_fields(event, limits->identity, err);
    if (code == DAYBOOK_OK) {
        code = check_size(event->record.len, limits, err);
    }
    return code == DAYBOOK_OK ? dbk_json_check_object(event->record, err) : code;
}

/* --- from JSON -------------------------------------------------------------------------------- */

/* The three names come first: their storage is numbered alike. */
enum member {
    REQUEST_ID,
    NAMESPACE,
    SUBJECT,
    OBSERVED_AT,
    /* of CloudEvents, with NAMESPACE and SUBJECT */
    SPECVERSION,
    ID,
    SOURCE,
    TYPE,
    TIME,
    MEMBERS
};

static const struct daybook_bytes member_names[MEMBERS] = {
    [REQUEST_ID] = {"request_id", 10},
    [NAMESPACE] = {"namespace", 9},
    [SUBJECT] = {"subject", 7},
    [OBSERVED_AT] = {"observed_at", 11},
    [SPECVERSION] = {"specversion", 11},
    [ID] = {"id", 2},
    [SOURCE] = {"source", 6},
    [TYPE] = {"type", 4},
    [TIME] = {"time", 4},
};

/* The value of a top-level member that is a field. */
struct field {
    struct daybook_bytes token;
    enum dbk_json_token kind; /* FAULT: the member is missing */
};

/* The field that the name just scanned stands for. */
static enum member member_of(const struct dbk_json *scan)
{
    struct daybook_bytes name = dbk_json_token_bytes(scan);
    for (unsigned m = 0; m < MEMBERS; m++) {
        bool is = scan->escaped
                      ? dbk_json_string_is(name, member_names[m])
                      : name.len == member_names[m].len + 2 &&
                            memcmp(name.data + 1, member_names[m].data, name.len - 2) == 0;
        if (is) {
            return (enum member)m;
        }
    }
    return MEMBERS;
}

/* The text of a string field: borrowed from the JSON, or unescaped into `storage`. Of a text that
 * is too long only its length is right; check_length refuses it before it is read. */
static struct daybook_bytes field_text(const struct field *field, char *storage)
{
    struct daybook_bytes token = field->token;
    if (memchr(token.data, '\\', token.len) == NULL) {
        return (struct daybook_bytes){token.data + 1, token.len - 2};
    }
    return (struct daybook_bytes){storage,
                                  dbk_json_string_decode(token, storage, DAYBOOK_NAME_BYTES_MAX)};
}

static enum daybook_code read_string(const struct field *field, enum member member, char *storage,
                                     struct daybook_bytes *ret, struct daybook_error *err)
{
    const char *name = member_names[member].data;
    if (field->kind == DBK_JSON_FAULT) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "the event has no %s", name);
    }
    if (field->kind != DBK_JSON_STRING) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "%s has to be a string", name);
    }
    *ret = field_text(field, storage);
    return DAYBOOK_OK;
}

/* A time that stands as a string; `name` is its member's. */
static enum daybook_code read_time(const struct field *field, const char *name, int64_t *ret_us,
                                   struct daybook_error *err)
{
    char text[256]; /* of a time that holds escapes; none that long is one */
    struct daybook_bytes time = {field->token.data + 1, field->token.len - 2};
    if (memchr(field->token.data, '\\', field->token.len) != NULL) {
        size_t len = dbk_json_string_decode(field->token, text, sizeof text);
        time = (struct daybook_bytes){text, len <= sizeof text ? len : 0};
    }
    struct daybook_error why = {0};
    enum daybook_code code = daybook_time_parse(time, ret_us, &why);
    return code == DAYBOOK_OK ? code : dbk_fail(err, code, "%s: %s", name, why.message);
}

static enum daybook_code read_observed_at(const struct field *field, int64_t *ret_us,
                                          struct daybook_error *err)
{
    switch (field->kind) {
    case DBK_JSON_FAULT:
        *ret_us = DAYBOOK_TIME_UNSET;
        return DAYBOOK_OK;
    case DBK_JSON_NUMBER:
        if (!dbk_json_number_int64(field->token, ret_us)) {
            return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                            "observed_at is not a whole number of microseconds within 64 bits");
        }
        return check_observed_at(*ret_us, err);
    case DBK_JSON_STRING:
        return read_time(field, "observed_at", ret_us, err);
    case DBK_JSON_NULL:
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "observed_at is null: leave it out, and the moment of acceptance counts");
    case DBK_JSON_END:
    case DBK_JSON_OBJECT_BEGIN:
    case DBK_JSON_OBJECT_END:
    case DBK_JSON_ARRAY_BEGIN:
    case DBK_JSON_ARRAY_END:
    case DBK_JSON_NAME:
    case DBK_JSON_TRUE:
    case DBK_JSON_FALSE:
    default:
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "observed_at has to be an RFC 3339 time or whole microseconds");
    }
}

/* An id that can be named is told at once, so that even an event that is refused has a name. */
static void tell_request_id(const struct field *field, char *storage,
                            struct daybook_event *ret_event)
{
    if (field->kind != DBK_JSON_STRING) {
        return;
    }
    struct daybook_bytes id = field_text(field, storage);
    if (check_request_id(id, DAYBOOK_IDENTITY_ANY, NULL) == DAYBOOK_OK) {
        ret_event->request_id = id;
    }
}

/* Scans the record and takes its fields. `ret_record`: from its brace to its brace. */
static enum daybook_code scan_record(struct daybook_bytes json, struct dbk_json_names *names,
                                     char *id_storage, struct field *fields,
                                     struct daybook_bytes *ret_record,
                                     struct daybook_event *ret_event, struct daybook_error *err)
{
    struct dbk_json scan;
    dbk_json_init(&scan, json, names);
    enum dbk_json_token token = dbk_json_next(&scan);
    size_t begin = scan.token_begin;
    if (token != DBK_JSON_OBJECT_BEGIN && token != DBK_JSON_FAULT) {
        dbk_json_refuse(&scan, DBK_JSON_NOT_OBJECT, begin);
    }
    while (token != DBK_JSON_FAULT && token != DBK_JSON_END) {
        token = dbk_json_next(&scan);
        if (token != DBK_JSON_NAME || scan.depth != 1) {
            continue;
        }
        enum member member = member_of(&scan);
        token = dbk_json_next(&scan);
        if (member == MEMBERS || token == DBK_JSON_FAULT || fields[member].kind != DBK_JSON_FAULT) {
            continue;
        }
        fields[member] = (struct field){dbk_json_token_bytes(&scan), token};
        if (member == REQUEST_ID) {
            tell_request_id(&fields[member], id_storage, ret_event);
        }
    }
    if (fields[REQUEST_ID].kind == DBK_JSON_FAULT && fields[SPECVERSION].kind != DBK_JSON_FAULT) {
        tell_request_id(&fields[ID], id_storage, ret_event);
    }
    *ret_record = (struct daybook_bytes){scan.text + begin, scan.token_end - begin};
    return dbk_json_verdict(&scan, err);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Cuts the white space behind the record. What stands before it stays, so that offsets are those of
 * what was given; `ret_record_bytes` is what the size limit counts. */
static struct daybook_bytes trim(struct daybook_bytes json, size_t *ret_record_bytes)
{
    size_t begin = 0;
    size_t end = json.len;
    while (end > 0 && is_space(json.data[end - 1])) {
        end--;
    }
    while (begin < end && is_space(json.data[begin])) {
        begin++;
    }
    *ret_record_bytes = end - begin;
    return (struct daybook_bytes){json.data, end};
}

/* ---- CloudEvents ------------------------------------------------------------------------------ */

/* An attribute that is null counts as missing. */
static bool is_given(const struct field *field)
{
    return field->kind != DBK_JSON_FAULT && field->kind != DBK_JSON_NULL;
}

/* `specversion` and `type`, of which nothing is kept. */
static enum daybook_code check_context(const struct field *fields, struct daybook_error *err)
{
    static const struct daybook_bytes version = {"1.0", 3};
    if (fields[REQUEST_ID].kind != DBK_JSON_FAULT) {
        return dbk_fail(
            err, DAYBOOK_INVALID_EVENT,
            "request_id cannot be an attribute of a CloudEvent: its id is the identity");
    }
    if (fields[SPECVERSION].kind != DBK_JSON_STRING ||
        !dbk_json_string_is(fields[SPECVERSION].token, version)) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "specversion has to be \"1.0\": a CloudEvent of another version is not "
                        "taken");
    }
    if (fields[TYPE].kind != DBK_JSON_STRING || fields[TYPE].token.len <= 2) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "the CloudEvent has no type: a string is required");
    }
    if (fields[SOURCE].kind != DBK_JSON_STRING || fields[SOURCE].token.len <= 2) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "the CloudEvent has no source: a string is required");
    }
    return DAYBOOK_OK;
}

/* id, namespace or else source, subject, time: as docs/HTTP.md maps them. */
static enum daybook_code read_cloudevent(const struct field *fields, char *storage,
                                         struct daybook_event *event, struct daybook_error *err)
{
    enum member name_space = is_given(&fields[NAMESPACE]) ? NAMESPACE : SOURCE;
    enum daybook_code code = check_context(fields, err);
    if (code == DAYBOOK_OK) {
        code = read_string(&fields[ID], ID, storage, &event->request_id, err);
    }
    if (code == DAYBOOK_OK) {
        code = read_string(&fields[name_space], name_space,
                           storage + NAMESPACE * DAYBOOK_NAME_BYTES_MAX, &event->name_space, err);
    }
    if (code == DAYBOOK_OK && name_space == SOURCE &&
        event->name_space.len > DAYBOOK_NAME_BYTES_MAX) {
        code = dbk_fail(err, DAYBOOK_INVALID_EVENT,
                        "source is longer than %u bytes and would be the namespace: give the "
                        "extension namespace",
                        DAYBOOK_NAME_BYTES_MAX);
    }
    if (code == DAYBOOK_OK) {
        code = read_string(&fields[SUBJECT], SUBJECT, storage + SUBJECT * DAYBOOK_NAME_BYTES_MAX,
                           &event->subject, err);
    }
    if (code != DAYBOOK_OK || !is_given(&fields[TIME])) {
        return code;
    }
    return fields[TIME].kind == DBK_JSON_STRING
               ? read_time(&fields[TIME], "time", &event->observed_at_us, err)
               : dbk_fail(err, DAYBOOK_INVALID_EVENT, "time has to be an RFC 3339 string");
}

static enum daybook_code read_flat(const struct field *fields, char *storage,
                                   struct daybook_event *event, struct daybook_error *err)
{
    struct daybook_bytes *texts[] = {&event->request_id, &event->name_space, &event->subject};
    for (unsigned m = REQUEST_ID; m <= SUBJECT; m++) {
        enum daybook_code code = read_string(&fields[m], (enum member)m,
                                             storage + m * DAYBOOK_NAME_BYTES_MAX, texts[m], err);
        if (code != DAYBOOK_OK) {
            return code;
        }
    }
    return read_observed_at(&fields[OBSERVED_AT], &event->observed_at_us, err);
}

enum daybook_code dbk_event_read(struct daybook_bytes json, enum dbk_event_form form,
                                 const struct daybook_event_limits *limits,
                                 struct daybook_event_names *names, struct daybook_event *ret_event,
                                 struct daybook_error *err)
{
    limits = limits != NULL ? limits : &default_limits;
    struct daybook_event event = {.observed_at_us = DAYBOOK_TIME_UNSET};
    struct field fields[MEMBERS] = {{{NULL, 0}, DBK_JSON_FAULT}};
    size_t record_bytes = 0;
    json = trim(json, &record_bytes);
    enum daybook_code code = check_size(record_bytes, limits, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    struct dbk_json_names open;
    dbk_json_names_init(&open);
    code = scan_record(json, &open, names->bytes, fields, &event.record, ret_event, err);
    dbk_json_names_release(&open);
    if (code != DAYBOOK_OK) {
        return code;
    }
    bool cloudevent = form == DBK_EVENT_CLOUDEVENT || (fields[REQUEST_ID].kind == DBK_JSON_FAULT &&
                                                       fields[SPECVERSION].kind != DBK_JSON_FAULT);
    code = cloudevent ? read_cloudevent(fields, names->bytes, &event, err)
                      : read_flat(fields, names->bytes, &event, err);
    if (code == DAYBOOK_OK) {
        code = check_fields(&event, limits->identity, err);
    }
    if (code == DAYBOOK_OK) {
        *ret_event = event;
    }
    return code;
}

enum daybook_code daybook_event_from_json(struct daybook_bytes json,
                                          const struct daybook_event_limits *limits,
                                          struct daybook_event_names *names,
                                          struct daybook_event *ret_event,
                                          struct daybook_error *err)
{
    return dbk_event_read(json, DBK_EVENT_ANY, limits, names, ret_event, err);
}

bool dbk_record_is_cloudevent(struct daybook_bytes record)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    bool version = false;
    if (!dbk_json_walk_init(&walk, record) || !walk.object) {
        return false;
    }
    while (dbk_json_walk_next(&walk, &item)) {
        if (dbk_json_string_is(item.name, member_names[REQUEST_ID])) {
            return false;
        }
        version = version || dbk_json_string_is(item.name, member_names[SPECVERSION]);
    }
    return version;
}
