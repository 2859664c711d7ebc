/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys, the reader that holds a YAML document against it, and the checks that need two
 * keys. libyaml's document form is walked with a list of places still to read, never by recursion.
 */
#include "app/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include <daybook/event.h>

#include "base/error.h"

enum type {
    T_SECTION, /* a mapping whose keys are in the table */
    T_LIST,    /* a list of such mappings */
    T_TEXT,    /* char[], `most` is its size */
    T_TEXT_OR_NULL,
    T_NAME, /* a consumer's or destination's name: [a-z0-9_-] */
    T_BOOL,
    T_CHOICE,   /* int */
    T_COUNT,    /* uint64_t */
    T_SIZE,     /* uint64_t, bytes */
    T_DURATION, /* int64_t, milliseconds */
    T_START     /* struct daybook_start */
};

enum scope { S_CONFIG, S_CONSUMER, S_SINK };

struct key {
    const char *path;
    enum type type;
    enum scope scope;
    unsigned kinds; /* of destinations that have this key, a bit each; 0: all */
    size_t offset;
    uint64_t least;
    uint64_t most;
    const char *fallback;       /* as it would be written; NULL: required, or absent */
    const char *const *choices; /* the number of a choice is its place */
    const char *about;
};

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define HOUR_MS UINT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)
#define MARKS_NONE ((size_t)-1)
#define OF_SQLITE (1u << DBK_SINK_SQLITE)
#define OF_FILE (1u << DBK_SINK_FILE)
#define OF_STDOUT (1u << DBK_SINK_STDOUT)

#define C(field) S_CONFIG, 0, offsetof(struct dbk_config, field)
#define N(field) S_CONSUMER, 0, offsetof(struct dbk_config_consumer, field)
#define D(kinds, field) S_SINK, kinds, offsetof(struct dbk_config_sink, field)
#define TEXT_SIZE(type, field) 0, sizeof(((struct type *)0)->field)

static const char *const backends[] = {"log", NULL};
static const char *const identities[] = {"any", "uuidv7", NULL};
static const char *const tails[] = {"refuse", "accept", NULL};
static const char *const policies[] = {"refuse", "drop_oldest", NULL};
static const char *const undurable[] = {"refuse", "serve", NULL};
static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const formats[] = {"text", "json", NULL};
static const char *const kinds[] = {"sqlite", "file", "stdout", NULL};
static const char *const lines[] = {"event", "record", NULL};
static const char *const rotations[] = {"none", "daily", NULL};
static const char *const columns[] = {"strict", "lenient", NULL};

/* clang-format off */
static const struct key keys[] = {
    {"listen", T_SECTION, S_CONFIG, 0, 0, 0, 0, NULL, NULL, "Where the daemon listens, and what it takes from one client."},
    {"listen.address", T_TEXT_OR_NULL, C(listen_address), TEXT_SIZE(dbk_config, listen_address), "127.0.0.1:8377", NULL,
     "Address and port for TCP; port 0 lets the system choose one, which is printed at the start; null: not on TCP."},
    {"listen.unix", T_TEXT_OR_NULL, C(listen_unix), TEXT_SIZE(dbk_config, listen_unix), "null", NULL,
     "Path of a Unix socket to listen on as well; null: none."},
    {"listen.insecure", T_BOOL, C(insecure), 0, 0, "false", NULL,
     "Allows an address that is not loopback. Whoever reaches it can append events and read all of them: there are no tokens yet."},
    {"listen.max_body_bytes", T_SIZE, C(max_body_bytes), 1024, 1024 * MIB, "16MiB", NULL,
     "Largest request body; a larger one is answered 413."},
    {"listen.max_connections", T_COUNT, C(max_connections), 1, 100000, "10000", NULL,
     "Connections at once; on further ones requests are answered 503 `too_many_connections`, but for figures. Lowered at the start if the process may not open as many files."},
    {"listen.idle_timeout", T_DURATION, C(idle_timeout_ms), 1000, HOUR_MS, "60s", NULL,
     "How long a connection may be idle, a head take to arrive, and 64 KiB of a body, or of an answer, take to be sent or read; who is slower is cut (408 where an answer is still possible)."},

    {"journal", T_SECTION, S_CONFIG, 0, 0, 0, 0, NULL, NULL, "The journal: where an event is durable before the request is answered."},
    {"journal.backend", T_CHOICE, C(backend), 0, 0, "log", backends,
     "The engine. `log`: a directory of the local disk, owned by one process."},
    {"journal.path", T_TEXT, C(journal_path), TEXT_SIZE(dbk_config, journal_path), "./daybook-data", NULL,
     "The data directory, made if it is missing."},
    {"journal.identity", T_CHOICE, C(identity), 0, 0, "any", identities,
     "Which request ids are taken. `any`: 1 to 255 bytes of printable ASCII without spaces; `uuidv7`: `req_` and a lower-case UUIDv7."},
    {"journal.max_events", T_COUNT, C(max_events), 1, DAYBOOK_EVENTS_LIMIT, "1000000", NULL,
     "Bounds everything stored: pending, in flight, quarantined, delivered but still retained."},
    {"journal.max_bytes", T_SIZE, C(max_bytes), 8 * 64 * 1024, 1024 * 1024 * GIB, "16GiB", NULL,
     "Bounds the real bytes of the journal's files."},
    {"journal.min_free_disk", T_SIZE, C(min_free_disk), 1, 1024 * 1024 * GIB, "256MiB", NULL,
     "While less than this is free on the disk no further segment is prepared: what stands prepared is used up, then appends are refused (503). Delivery goes on."},
    {"journal.tail", T_CHOICE, C(tail), 0, 0, "refuse", tails,
     "What to do with an end of the log that a crash cannot explain. `refuse`: do not start and change nothing; `accept`: set it aside."},
    {"journal.max_event_bytes", T_SIZE, C(max_event_bytes), 256, 16 * MIB, "256KiB", NULL,
     "Largest event; a larger one is answered 413."},
    {"journal.max_delivery_attempts", T_COUNT, C(max_delivery_attempts), 1, 1000, "8", NULL,
     "After so many attempts an event that its destination refuses on its own account is quarantined as `rejected`."},
    {"journal.retain_acknowledged", T_DURATION, C(retain_acknowledged_ms), 0, 3660 * DAY_MS, "24h", NULL,
     "How long a delivered event is kept, from its acceptance, so that a late retry is still recognised."},
    {"journal.capacity_policy", T_CHOICE, C(capacity_policy), 0, 0, "refuse", policies,
     "What a full journal does once it has given up what was delivered. `refuse`: the producer is told (503); `drop_oldest`: it forgets the oldest undelivered events, counted in `lost` (telemetry grade)."},
    {"journal.on_undurable", T_CHOICE, C(on_undurable), 0, 0, "refuse", undurable,
     "What a producer is told whose event could not be made durable. `refuse`: 503 `usage_not_durable`; `serve`: 202, and the event is counted in `lost` (telemetry grade)."},
    {"journal.operation_timeout", T_DURATION, C(operation_timeout_ms), 1, HOUR_MS, "10s", NULL,
     "How long a request waits for its commit; past it, it is answered 503 with the reason `timed_out` (the outcome is unknown: repeat it)."},

    {"consumers", T_LIST, S_CONFIG, 0, 0, 1, DAYBOOK_CONSUMERS_MAX, NULL, NULL,
     "Who bills from the events. Without this key: one consumer `billing` with an SQLite file `usage.db` in the data directory."},
    {"consumers[].name", T_NAME, N(name), TEXT_SIZE(dbk_config_consumer, name), NULL, NULL,
     "Its name in the journal: 1 to 63 of `a-z0-9_-`. A new name is a new consumer."},
    {"consumers[].claim_batch", T_COUNT, N(claim_batch), 1, DAYBOOK_CLAIM_EVENTS_MAX, "256", NULL, "Events of one write, at most."},
    {"consumers[].claim_bytes", T_SIZE, N(claim_bytes), 1024, 256 * MIB, "8MiB", NULL, "Bytes of one write, at most (one event always fits)."},
    {"consumers[].key_run", T_COUNT, N(key_run), 1, DAYBOOK_CLAIM_EVENTS_MAX, "32", NULL,
     "Consecutive events of one caller (namespace and subject) in one write; 1: strictly one at a time."},
    {"consumers[].lease", T_DURATION, N(lease_ms), 100, DAY_MS, "30s", NULL, "How long events belong to a write before they are handed out again."},
    {"consumers[].write_timeout", T_DURATION, N(write_timeout_ms), 10, DAY_MS, "10s", NULL, "A write that takes longer is cut off; at most a third of the lease."},
    {"consumers[].poll_interval", T_DURATION, N(poll_interval_ms), 1, HOUR_MS, "250ms", NULL, "How often the worker looks when nothing woke it."},
    {"consumers[].maintain_interval", T_DURATION, N(maintain_interval_ms), 100, DAY_MS, "60s", NULL, "How often delivered events past their window are forgotten."},
    {"consumers[].max_hand_outs", T_COUNT, N(max_hand_outs), 1, 1000000, "64", NULL, "Hand-outs that were not given back (crashes) before an event is quarantined as `attempts_exhausted`."},
    {"consumers[].reject_brake", T_COUNT, N(reject_brake), 1, 1000000, "100", NULL,
     "So many different events refused in a row by one destination, and the fault is the destination's: nothing more is quarantined until it accepts one."},
    {"consumers[].start", T_START, N(start), 0, 0, "oldest", NULL,
     "Where a consumer that is new to the journal starts: `oldest`, `now`, a position, or a time (RFC 3339)."},
    {"consumers[].sinks", T_LIST, S_CONSUMER, 0, 0, 1, DAYBOOK_WORKER_SINKS_MAX, NULL, NULL,
     "Its destinations; an event is acknowledged when all of them have it. One consumer for each destination is the better choice."},
    {"consumers[].advisory", T_LIST, S_CONSUMER, 0, 0, 0, DAYBOOK_WORKER_SINKS_MAX, "[]", NULL,
     "Destinations with the keys of `sinks[]` that are only told of what was acknowledged: what they answer holds nothing up and is not tried again. Each has a queue of `advisory_events` and `advisory_bytes`; when it is full the newest are dropped and counted."},
    {"consumers[].advisory_events", T_COUNT, N(advisory_events), 1, 1000000, "4096", NULL, "Events that may wait for one advisory destination."},
    {"consumers[].advisory_bytes", T_SIZE, N(advisory_bytes), 1024, GIB, "8MiB", NULL, "Bytes of names and records that may wait for one advisory destination; one event always fits."},
    {"consumers[].sinks[].kind", T_CHOICE, D(0, kind), 0, 0, NULL, kinds,
     "What it is. `sqlite`: a table in a local file; `file`: lines (NDJSON) in a local file; `stdout`: lines on standard output, where an acknowledgement means no more than that a line was written."},
    {"consumers[].sinks[].name", T_NAME, D(0, name), TEXT_SIZE(dbk_config_sink, name), "", NULL, "The label of its metrics; no two destinations share one. Without it: its kind."},
    {"consumers[].sinks[].path", T_TEXT, D(OF_SQLITE | OF_FILE, path), TEXT_SIZE(dbk_config_sink, path), NULL, NULL,
     "The SQLite file, or the file of lines; made if it is missing, for its owner alone."},
    {"consumers[].sinks[].table", T_TEXT, D(OF_SQLITE, table), TEXT_SIZE(dbk_config_sink, table), "usage", NULL, "The table, made with its key if it is missing."},
    {"consumers[].sinks[].columns", T_CHOICE, D(OF_SQLITE, columns), 0, 0, "strict", columns,
     "What a value does that does not fit its token or cost column. `strict`: the row is rejected; `lenient`: the column stays empty."},
    {"consumers[].sinks[].format", T_CHOICE, D(OF_FILE | OF_STDOUT, format), 0, 0, "event", lines,
     "What a line holds. `event`: position, names, times and record, as `daybook export` prints it; `record`: the record alone."},
    {"consumers[].sinks[].rotate_bytes", T_SIZE, D(OF_FILE, rotate_bytes), 0, 1024 * 1024 * GIB, "0B", NULL,
     "A file that the next batch would make larger is put aside first, as `PATH.YYYYMMDDThhmmssZ`; `0B`: never."},
    {"consumers[].sinks[].rotate", T_CHOICE, D(OF_FILE, rotate), 0, 0, "none", rotations,
     "`daily`: a file is put aside before the first write of another day (UTC) too."},

    {"shutdown", T_SECTION, S_CONFIG, 0, 0, 0, 0, NULL, NULL, "What SIGTERM does, step by step."},
    {"shutdown.drain_grace", T_DURATION, C(drain_grace_ms), 0, HOUR_MS, "0s", NULL, "Readiness fails and requests are still served for so long."},
    {"shutdown.deadline", T_DURATION, C(drain_deadline_ms), 0, HOUR_MS, "10s", NULL, "Then admission closes and requests in flight get so long."},
    {"shutdown.flush_timeout", T_DURATION, C(flush_timeout_ms), 0, HOUR_MS, "10s", NULL, "Then the workers deliver what they can for so long."},

    {"log", T_SECTION, S_CONFIG, 0, 0, 0, 0, NULL, NULL, "Log lines, on standard error."},
    {"log.level", T_CHOICE, C(log_level), 0, 0, "info", levels, "Lines below it are left out."},
    {"log.format", T_CHOICE, C(log_format), 0, 0, "text", formats, "One line each, for people or for machines."},
};
/* clang-format on */

#define KEY_COUNT (sizeof keys / sizeof keys[0])
_Static_assert(KEY_COUNT <= DBK_CONFIG_KEYS_MAX, "a mark for every key");

/* A mapping that is still to be read. */
struct place {
    yaml_node_t *node;
    const char *prefix; /* of its keys' paths, with the dot; static */
    enum scope scope;
    void *target;
    const char *shown; /* the prefix in messages */
};
#define PLACES_MAX (8 + DAYBOOK_CONSUMERS_MAX * (1 + 2 * DAYBOOK_WORKER_SINKS_MAX))
#define SINK_PREFIX "consumers[].sinks[]."
#define ADVISORY_PREFIX "consumers[].advisory[]."

struct reader {
    const char *name;
    struct dbk_config *config;
    yaml_document_t document;
    struct daybook_error *err;
    size_t place_count;
    struct place places[PLACES_MAX];
};

static enum daybook_code refuse_at(const struct reader *r, struct dbk_config_mark mark,
                                   const char *path, const char *message)
{
    return dbk_fail(r->err, DAYBOOK_BAD_CONFIG, "%s:%u:%u: %s%s%s", r->name, mark.line, mark.column,
                    path, path[0] != '\0' ? ": " : "", message);
}

static struct dbk_config_mark mark_of(const yaml_node_t *node)
{
    return (struct dbk_config_mark){(uint32_t)node->start_mark.line + 1,
                                    (uint32_t)node->start_mark.column + 1};
}

static struct dbk_config_marks *marks_of(enum scope scope, void *target)
{
    switch (scope) {
    case S_CONFIG:
        return &((struct dbk_config *)target)->marks;
    case S_CONSUMER:
        return &((struct dbk_config_consumer *)target)->marks;
    case S_SINK:
        return &((struct dbk_config_sink *)target)->marks;
    }
    return NULL;
}

static size_t key_index(const char *path)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].path, path) == 0) {
            return i;
        }
    }
    return KEY_COUNT;
}

/* ---- one value ------------------------------------------------------------------------------- */

static bool is_null(const char *text)
{
    return text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0;
}

static enum daybook_code put_text(const struct key *key, const char *text, char *target,
                                  struct daybook_error *err)
{
    size_t len = strlen(text);
    if (len >= key->most) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "longer than %u bytes: shorten it",
                        (unsigned)(key->most - 1));
    }
    memcpy(target, text, len + 1);
    return DAYBOOK_OK;
}

static enum daybook_code put_name(const struct key *key, const char *text, char *target,
                                  struct daybook_error *err)
{
    size_t len = strlen(text);
    if (len == 0 || len >= key->most ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") != len) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "\"%.80s\" is no name: write 1 to %u of a-z, 0-9, _ and -", text,
                        (unsigned)(key->most - 1));
    }
    memcpy(target, text, len + 1);
    return DAYBOOK_OK;
}

static enum daybook_code put_choice(const struct key *key, const char *text, int *target,
                                    struct daybook_error *err)
{
    char list[128] = "";
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(text, key->choices[i]) == 0) {
            *target = i;
            return DAYBOOK_OK;
        }
        if (i > 0) {
            (void)strncat(list, " or ", sizeof list - strlen(list) - 1);
        }
        (void)strncat(list, key->choices[i], sizeof list - strlen(list) - 1);
    }
    return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%.80s\" is not known here: write %s%s", text, list,
                    key->choices[1] == NULL ? ", the only one of this version" : "");
}

static enum daybook_code parse_count(const char *text, uint64_t *ret)
{
    size_t len = strlen(text);
    if (len == 0 || len > 18 || strspn(text, "0123456789") != len) {
        return DAYBOOK_BAD_CONFIG;
    }
    *ret = strtoull(text, NULL, 10);
    return DAYBOOK_OK;
}

static enum daybook_code put_bool(const char *text, bool *target, struct daybook_error *err)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *target = text[0] == 't';
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                    "\"%.80s\" is neither true nor false: write one of them", text);
}

/* The range of a number, told in the unit in which people write it. */
static enum daybook_code in_range(const struct key *key, const char *text, uint64_t value,
                                  const char *unit, struct daybook_error *err)
{
    if (value < key->least) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" is too small: at least %llu%s", text,
                        (unsigned long long)key->least, unit);
    }
    if (value > key->most) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" is too large: at most %llu%s", text,
                        (unsigned long long)key->most, unit);
    }
    return DAYBOOK_OK;
}

static enum daybook_code put_number(const struct key *key, const char *text, void *target,
                                    struct daybook_error *err)
{
    uint64_t value = 0;
    int64_t ms = 0;
    enum daybook_code code;
    const char *unit = "";
    if (key->type == T_DURATION) {
        code = dbk_duration_parse(text, &ms, err);
        value = (uint64_t)ms;
        unit = "ms";
    } else if (key->type == T_SIZE) {
        code = dbk_size_parse(text, &value, err);
        unit = "B";
    } else {
        code = parse_count(text, &value);
        if (code != DAYBOOK_OK) {
            return dbk_fail(err, code, "\"%.80s\" is no whole number: write digits alone", text);
        }
    }
    if (code == DAYBOOK_OK) {
        code = in_range(key, text, value, unit, err);
    }
    if (code == DAYBOOK_OK) {
        if (key->type == T_DURATION) {
            *(int64_t *)target = ms;
        } else {
            *(uint64_t *)target = value;
        }
    }
    return code;
}

static enum daybook_code put_value(const struct key *key, const char *text, void *base,
                                   struct daybook_error *err)
{
    void *target = (char *)base + key->offset;
    if (is_null(text)) {
        if (key->type != T_TEXT_OR_NULL) {
            return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                            "has no value: write one, or leave the key out for the default");
        }
        *(char *)target = '\0';
        return DAYBOOK_OK;
    }
    switch (key->type) {
    case T_TEXT:
    case T_TEXT_OR_NULL:
        return put_text(key, text, target, err);
    case T_NAME:
        return put_name(key, text, target, err);
    case T_BOOL:
        return put_bool(text, target, err);
    case T_CHOICE:
        return put_choice(key, text, target, err);
    case T_COUNT:
    case T_SIZE:
    case T_DURATION:
        return put_number(key, text, target, err);
    case T_START:
        return dbk_start_parse(text, target, err);
    case T_SECTION:
    case T_LIST:
        break;
    }
    return dbk_fail(err, DAYBOOK_BAD_CONFIG, "has no value of its own");
}

static void put_defaults(enum scope scope, void *target)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].scope == scope && keys[i].fallback != NULL && keys[i].fallback[0] != '\0' &&
            keys[i].type != T_LIST) {
            /* The table's own defaults: a test reads every one of them. */
            (void)put_value(&keys[i], keys[i].fallback, target, NULL);
        }
    }
}

/* ---- the document ---------------------------------------------------------------------------- */

static const char *kind_of(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return "a single value";
    case YAML_SEQUENCE_NODE:
        return "a list";
    case YAML_MAPPING_NODE:
        return "a mapping";
    case YAML_NO_NODE:
        break;
    }
    return "nothing";
}

static enum daybook_code wrong_kind(const struct reader *r, const yaml_node_t *node,
                                    const char *path, const char *wanted)
{
    char message[128];
    (void)snprintf(message, sizeof message, "is %s, but %s is wanted here", kind_of(node), wanted);
    return refuse_at(r, mark_of(node), path, message);
}

static enum daybook_code unknown_key(const struct reader *r, const yaml_node_t *node,
                                     const char *prefix, const char *key)
{
    char message[320];
    int n = snprintf(message, sizeof message, "unknown key \"%.60s\"; known here:", key);
    size_t prefix_len = strlen(prefix);
    for (size_t i = 0; i < KEY_COUNT && n > 0 && (size_t)n < sizeof message; i++) {
        const char *rest = keys[i].path + prefix_len;
        if (strncmp(keys[i].path, prefix, prefix_len) == 0 && strpbrk(rest, ".[") == NULL) {
            n += snprintf(message + n, sizeof message - (size_t)n, " %s", rest);
        }
    }
    return refuse_at(r, mark_of(node), "", message);
}

static void push(struct reader *r, yaml_node_t *node, const char *prefix, enum scope scope,
                 void *target)
{
    r->places[r->place_count++] = (struct place){node, prefix, scope, target, prefix};
}

/* The list whose entries have the keys of `sinks[]` under another name. */
static bool is_advisory(const struct key *list)
{
    return strcmp(list->path, "consumers[].advisory") == 0;
}

static void *new_element(struct reader *r, const struct key *list, const struct place *place,
                         size_t index)
{
    if (list->scope == S_CONFIG) {
        r->config->consumer_count = index + 1;
        return &r->config->consumers[index];
    }
    struct dbk_config_consumer *consumer = place->target;
    if (is_advisory(list)) {
        consumer->advisory_count = index + 1;
        return &consumer->advisory[index];
    }
    consumer->sink_count = index + 1;
    return &consumer->sinks[index];
}

static enum daybook_code read_list(struct reader *r, const struct key *list,
                                   const struct place *place, yaml_node_t *node)
{
    if (node->type != YAML_SEQUENCE_NODE) {
        return wrong_kind(r, node, list->path, "a list");
    }
    size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (count < list->least || count > list->most) {
        char message[96];
        (void)snprintf(message, sizeof message, "has %zu entries: write %llu to %llu", count,
                       (unsigned long long)list->least, (unsigned long long)list->most);
        return refuse_at(r, mark_of(node), list->path, message);
    }
    enum scope scope = list->scope == S_CONFIG ? S_CONSUMER : S_SINK;
    for (size_t i = 0; i < count; i++) {
        yaml_node_t *item =
            yaml_document_get_node(&r->document, node->data.sequence.items.start[i]);
        if (item->type != YAML_MAPPING_NODE) {
            return wrong_kind(r, item, list->path, "a mapping (- name: ...)");
        }
        void *element = new_element(r, list, place, i);
        put_defaults(scope, element);
        push(r, item, scope == S_CONSUMER ? "consumers[]." : SINK_PREFIX, scope, element);
        if (is_advisory(list)) {
            r->places[r->place_count - 1].shown = ADVISORY_PREFIX;
        }
    }
    if (list->scope == S_CONFIG) {
        r->config->consumer_count = count;
    }
    return DAYBOOK_OK;
}

static enum daybook_code read_pair(struct reader *r, const struct place *place,
                                   yaml_node_t *key_node, yaml_node_t *node)
{
    if (key_node->type != YAML_SCALAR_NODE) {
        return wrong_kind(r, key_node, "", "a key");
    }
    const char *name = (const char *)key_node->data.scalar.value;
    char path[160];
    (void)snprintf(path, sizeof path, "%s%.100s", place->prefix, name);
    size_t i = key_index(path);
    /* A dot or bracket in a key would name a place elsewhere in the table. */
    if (i == KEY_COUNT || strpbrk(name, ".[") != NULL ||
        strlen(name) != key_node->data.scalar.length) {
        return unknown_key(r, key_node, place->prefix, name);
    }
    (void)snprintf(path, sizeof path, "%s%.100s", place->shown, name);
    struct dbk_config_marks *marks = marks_of(place->scope, place->target);
    if (marks->at[i].line != 0) {
        return refuse_at(r, mark_of(key_node), path, "is given twice: keep one");
    }
    marks->at[i] = mark_of(node);
    if (keys[i].type == T_SECTION) {
        if (node->type != YAML_MAPPING_NODE) {
            return wrong_kind(r, node, path, "a mapping");
        }
        push(r, node,
             strcmp(path, "listen") == 0     ? "listen."
             : strcmp(path, "journal") == 0  ? "journal."
             : strcmp(path, "shutdown") == 0 ? "shutdown."
                                             : "log.",
             S_CONFIG, r->config);
        return DAYBOOK_OK;
    }
    if (keys[i].type == T_LIST) {
        return read_list(r, &keys[i], place, node);
    }
    if (node->type != YAML_SCALAR_NODE) {
        return wrong_kind(r, node, path, "a single value");
    }
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length) {
        return refuse_at(r, marks->at[i], path, "holds a NUL: remove it");
    }
    struct daybook_error err = {0};
    if (put_value(&keys[i], text, place->target, &err) != DAYBOOK_OK) {
        return refuse_at(r, marks->at[i], path, err.message);
    }
    return DAYBOOK_OK;
}

/* Whether a mapping can have this key: the kind of a destination decides. */
static bool has_key(const struct place *place, const struct key *key)
{
    return place->scope != S_SINK || key->kinds == 0 ||
           (key->kinds & 1u << ((struct dbk_config_sink *)place->target)->kind) != 0;
}

static bool is_required(const struct key *key)
{
    return key->fallback == NULL && key->type != T_SECTION &&
           !(key->type == T_LIST && key->scope == S_CONFIG);
}

/* A key that a destination of another kind has; tells what this one has. */
static enum daybook_code refuse_foreign(const struct reader *r, const struct place *place, size_t i)
{
    const struct dbk_config_sink *sink = place->target;
    const char *name = strrchr(keys[i].path, '.') + 1;
    char message[320];
    int n = snprintf(message, sizeof message, "is no key of kind %s; it has:", kinds[sink->kind]);
    for (size_t k = 0; k < KEY_COUNT && n > 0 && (size_t)n < sizeof message; k++) {
        if (keys[k].scope == S_SINK && has_key(place, &keys[k])) {
            n += snprintf(message + n, sizeof message - (size_t)n, " %s",
                          strrchr(keys[k].path, '.') + 1);
        }
    }
    return refuse_at(r, sink->marks.at[i], name, message);
}

/* A key without a default that is missing in a mapping, or one that does not belong there. */
static enum daybook_code check_keys(const struct reader *r, const struct place *place)
{
    const struct dbk_config_marks *marks = marks_of(place->scope, place->target);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].scope != place->scope) {
            continue;
        }
        bool given = marks->at[i].line != 0;
        if (given && !has_key(place, &keys[i])) {
            return refuse_foreign(r, place, i);
        }
        if (!given && is_required(&keys[i]) && has_key(place, &keys[i])) {
            char path[160];
            (void)snprintf(path, sizeof path, "%s%s", place->shown,
                           keys[i].path + strlen(place->prefix));
            return refuse_at(r, mark_of(place->node), path, "is missing: add it");
        }
    }
    return DAYBOOK_OK;
}

/* Without a name of its own a destination is called by its kind. */
static void name_sink(struct dbk_config_sink *sink)
{
    if (sink->name[0] == '\0') {
        (void)snprintf(sink->name, sizeof sink->name, "%s", kinds[sink->kind]);
    }
}

const char *dbk_sink_kind_name(int kind)
{
    return kinds[kind];
}

static enum daybook_code read_places(struct reader *r)
{
    while (r->place_count > 0) {
        struct place place = r->places[--r->place_count];
        yaml_node_pair_t *pair = place.node->data.mapping.pairs.start;
        for (; pair < place.node->data.mapping.pairs.top; pair++) {
            enum daybook_code code =
                read_pair(r, &place, yaml_document_get_node(&r->document, pair->key),
                          yaml_document_get_node(&r->document, pair->value));
            if (code != DAYBOOK_OK) {
                return code;
            }
        }
        enum daybook_code code = check_keys(r, &place);
        if (code != DAYBOOK_OK) {
            return code;
        }
        if (place.scope == S_SINK) {
            name_sink(place.target);
        }
    }
    return DAYBOOK_OK;
}

/* ---- checks that need two keys --------------------------------------------------------------- */

static struct dbk_config_mark mark_at(const struct dbk_config_marks *marks, const char *path,
                                      const char *otherwise)
{
    struct dbk_config_mark mark = marks->at[key_index(path)];
    return mark.line != 0 ? mark : marks->at[key_index(otherwise)];
}

static enum daybook_code check_listen(struct reader *r)
{
    struct dbk_config *c = r->config;
    struct dbk_config_mark mark = mark_at(&c->marks, "listen.address", "listen");
    if (c->listen_address[0] == '\0') {
        return c->listen_unix[0] != '\0'
                   ? DAYBOOK_OK
                   : refuse_at(r, mark, "listen.address",
                               "is null and there is no listen.unix: the daemon would listen "
                               "nowhere; give one of them");
    }
    struct daybook_error err = {0};
    if (dbk_address_parse(c->listen_address, &c->address, &err) != DAYBOOK_OK) {
        return refuse_at(r, mark, "listen.address", err.message);
    }
    if (!dbk_address_is_loopback(&c->address) && !c->insecure) {
        return refuse_at(
            r, mark, "listen.address",
            "is not loopback, and without tokens everybody who reaches it could append "
            "and read: listen on 127.0.0.1, or say insecure: true");
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_consumer(struct reader *r, size_t index)
{
    const struct dbk_config_consumer *n = &r->config->consumers[index];
    for (size_t i = 0; i < index; i++) {
        if (strcmp(r->config->consumers[i].name, n->name) == 0) {
            return refuse_at(r, n->marks.at[key_index("consumers[].name")], "consumers[].name",
                             "is the name of another consumer: choose another");
        }
    }
    if (n->write_timeout_ms * 3 > n->lease_ms) {
        char message[160];
        (void)snprintf(message, sizeof message,
                       "%lldms is more than a third of the lease (%lldms): at most %lldms, or "
                       "lengthen the lease",
                       (long long)n->write_timeout_ms, (long long)n->lease_ms,
                       (long long)(n->lease_ms / 3));
        return refuse_at(r, mark_at(&n->marks, "consumers[].write_timeout", "consumers[].lease"),
                         "consumers[].write_timeout", message);
    }
    return DAYBOOK_OK;
}

/* A destination of some consumer, and how messages call its keys. */
struct found_sink {
    const struct dbk_config_sink *sink;
    const char *prefix;
};

static enum daybook_code refuse_sink(const struct reader *r, const struct found_sink *found,
                                     const char *key, const char *message)
{
    char path[160];
    char shown[160];
    (void)snprintf(path, sizeof path, SINK_PREFIX "%s", key);
    (void)snprintf(shown, sizeof shown, "%s%s", found->prefix, key);
    return refuse_at(r, mark_at(&found->sink->marks, path, SINK_PREFIX "kind"), shown, message);
}

/* Two destinations that would be taken for one another, or would write into one another's lines. */
static enum daybook_code check_two_sinks(const struct reader *r, const struct found_sink *found,
                                         const struct dbk_config_sink *b)
{
    const struct dbk_config_sink *a = found->sink;
    if (strcmp(a->name, b->name) == 0) {
        return refuse_sink(
            r, found, "name",
            "two destinations have this name (without one it is the kind): give each its own");
    }
    if (a->kind == DBK_SINK_STDOUT && b->kind == DBK_SINK_STDOUT) {
        return refuse_sink(r, found, "kind",
                           "another destination is standard output already: keep one");
    }
    if (a->kind == DBK_SINK_FILE && b->kind == DBK_SINK_FILE && strcmp(a->path, b->path) == 0) {
        return refuse_sink(r, found, "path",
                           "another destination writes to this file: give each its own");
    }
    return DAYBOOK_OK;
}

/* Metrics tell destinations apart by their names alone, advisory ones too. */
static enum daybook_code check_sinks(const struct reader *r)
{
    const struct dbk_config_sink *seen[2 * DAYBOOK_CONSUMERS_MAX * DAYBOOK_WORKER_SINKS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->config->consumer_count; i++) {
        const struct dbk_config_consumer *n = &r->config->consumers[i];
        for (size_t k = 0; k < n->sink_count + n->advisory_count; k++) {
            bool advisory = k >= n->sink_count;
            struct found_sink found = {advisory ? &n->advisory[k - n->sink_count] : &n->sinks[k],
                                       advisory ? ADVISORY_PREFIX : SINK_PREFIX};
            for (size_t s = 0; s < count; s++) {
                enum daybook_code code = check_two_sinks(r, &found, seen[s]);
                if (code != DAYBOOK_OK) {
                    return code;
                }
            }
            seen[count++] = found.sink;
        }
    }
    return DAYBOOK_OK;
}

static enum daybook_code default_consumer(struct reader *r)
{
    struct dbk_config *c = r->config;
    if (c->marks.at[key_index("consumers")].line != 0) {
        return DAYBOOK_OK;
    }
    c->consumer_count = 1;
    struct dbk_config_consumer *n = &c->consumers[0];
    put_defaults(S_CONSUMER, n);
    (void)snprintf(n->name, sizeof n->name, "billing");
    n->sink_count = 1;
    put_defaults(S_SINK, &n->sinks[0]);
    (void)snprintf(n->sinks[0].name, sizeof n->sinks[0].name, "ledger");
    size_t room = sizeof n->sinks[0].path;
    if ((size_t)snprintf(n->sinks[0].path, room, "%s/usage.db", c->journal_path) >= room) {
        return refuse_at(r, c->marks.at[key_index("journal.path")], "journal.path",
                         "is too long: shorten it");
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_all(struct reader *r)
{
    enum daybook_code code = check_listen(r);
    if (code == DAYBOOK_OK) {
        code = default_consumer(r);
    }
    for (size_t i = 0; i < r->config->consumer_count && code == DAYBOOK_OK; i++) {
        code = check_consumer(r, i);
    }
    return code == DAYBOOK_OK ? check_sinks(r) : code;
}

/* ---- loading --------------------------------------------------------------------------------- */

static enum daybook_code parser_error(const struct reader *r, const yaml_parser_t *parser)
{
    struct dbk_config_mark mark = {(uint32_t)parser->problem_mark.line + 1,
                                   (uint32_t)parser->problem_mark.column + 1};
    char message[200];
    (void)snprintf(message, sizeof message, "is no YAML: %s%s%s",
                   parser->problem != NULL ? parser->problem : "cannot be read",
                   parser->context != NULL ? " " : "",
                   parser->context != NULL ? parser->context : "");
    return refuse_at(r, mark, "", message);
}

/* Whether another document follows the first. */
static enum daybook_code check_single(const struct reader *r, yaml_parser_t *parser)
{
    yaml_document_t next;
    if (!yaml_parser_load(parser, &next)) {
        return parser_error(r, parser);
    }
    yaml_node_t *root = yaml_document_get_root_node(&next);
    enum daybook_code code = DAYBOOK_OK;
    if (root != NULL) {
        code = refuse_at(r, mark_of(root), "", "a second document begins: keep one in the file");
    }
    yaml_document_delete(&next);
    return code;
}

static enum daybook_code read_document(struct reader *r, yaml_parser_t *parser)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    put_defaults(S_CONFIG, r->config);
    enum daybook_code code = DAYBOOK_OK;
    bool empty = root == NULL ||
                 (root->type == YAML_SCALAR_NODE && is_null((const char *)root->data.scalar.value));
    if (!empty && root->type != YAML_MAPPING_NODE) {
        return wrong_kind(r, root, "", "a mapping of keys");
    }
    if (!empty) {
        push(r, root, "", S_CONFIG, r->config);
        code = read_places(r);
    }
    if (code == DAYBOOK_OK && root != NULL) {
        code = check_single(r, parser);
    }
    return code == DAYBOOK_OK ? check_all(r) : code;
}

enum daybook_code dbk_config_parse(const char *name, struct daybook_bytes yaml,
                                   struct dbk_config **ret_config, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_NO_MEMORY;
    struct reader *r = calloc(1, sizeof *r);
    struct dbk_config *config = calloc(1, sizeof *config);
    yaml_parser_t parser;
    if (r == NULL || config == NULL || !yaml_parser_initialize(&parser)) {
        (void)dbk_fail(err, code, "no memory for the configuration");
        goto out;
    }
    r->name = name;
    r->config = config;
    r->err = err;
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml.data, yaml.len);
    if (!yaml_parser_load(&parser, &r->document)) {
        code = parser_error(r, &parser);
    } else {
        code = read_document(r, &parser);
        yaml_document_delete(&r->document);
    }
    yaml_parser_delete(&parser);
    if (code == DAYBOOK_OK) {
        (void)snprintf(config->file, sizeof config->file, "%s", name);
        *ret_config = config;
        config = NULL;
    }
out:
    free(config);
    free(r);
    return code;
}

enum daybook_code dbk_config_load(const char *path, struct dbk_config **ret_config,
                                  struct daybook_error *err)
{
    if (path == NULL) {
        return dbk_config_parse("", (struct daybook_bytes){"", 0}, ret_config, err);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return dbk_fail_os(err, errno == ENOENT ? DAYBOOK_NOT_FOUND : DAYBOOK_BACKEND, errno,
                           "configuration %s: cannot be opened", path);
    }
    enum daybook_code code = DAYBOOK_NO_MEMORY;
    char *bytes = malloc(DBK_CONFIG_FILE_BYTES_MAX);
    if (bytes == NULL) {
        (void)dbk_fail(err, code, "no memory for the configuration %s", path);
        goto out;
    }
    size_t len = fread(bytes, 1, DBK_CONFIG_FILE_BYTES_MAX, file);
    if (ferror(file)) {
        code = dbk_fail_os(err, DAYBOOK_BACKEND, errno, "configuration %s: cannot be read", path);
    } else if (len == DBK_CONFIG_FILE_BYTES_MAX) {
        code = dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "configuration %s: larger than 1 MiB: is it the right file?", path);
    } else {
        code = dbk_config_parse(path, (struct daybook_bytes){bytes, len}, ret_config, err);
    }
out:
    free(bytes);
    (void)fclose(file);
    return code;
}

void dbk_config_free(struct dbk_config *config)
{
    free(config);
}

const char *dbk_config_telemetry_reason(const struct dbk_config *config)
{
    bool drops = config->capacity_policy == DAYBOOK_POLICY_DROP_OLDEST;
    bool serves = config->on_undurable == DBK_UNDURABLE_SERVE;
    return drops && serves ? "capacity_policy: drop_oldest forgets events that nobody has, and "
                             "on_undurable: serve answers for events that were not stored"
           : drops         ? "capacity_policy: drop_oldest forgets events that nobody has"
           : serves        ? "on_undurable: serve answers for events that were not stored"
                           : NULL;
}

struct daybook_event_limits dbk_config_event_limits(const struct dbk_config *config)
{
    return (struct daybook_event_limits){.identity = (enum daybook_identity)config->identity,
                                         .event_bytes_max = (uint32_t)config->max_event_bytes};
}

/* ---- documentation --------------------------------------------------------------------------- */

/* A size or duration in the largest unit that divides it. */
static void write_number(FILE *out, enum type type, uint64_t value)
{
    static const struct {
        uint64_t factor;
        const char *unit;
    } sizes[] = {{UINT64_C(1) << 40, "TiB"}, {GIB, "GiB"}, {MIB, "MiB"}, {1024, "KiB"}, {1, "B"}},
      durations[] = {{DAY_MS, "d"}, {HOUR_MS, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    if (type == T_COUNT || value == 0) {
        fprintf(out, "%llu", (unsigned long long)value);
        return;
    }
    for (size_t i = 0; i < 5; i++) {
        uint64_t factor = type == T_SIZE ? sizes[i].factor : durations[i].factor;
        if (value % factor == 0) {
            fprintf(out, "%llu%s", (unsigned long long)(value / factor),
                    type == T_SIZE ? sizes[i].unit : durations[i].unit);
            return;
        }
    }
}

static void write_values(FILE *out, const struct key *key)
{
    switch (key->type) {
    case T_CHOICE:
        for (int i = 0; key->choices[i] != NULL; i++) {
            fprintf(out, "%s`%s`", i > 0 ? ", " : "", key->choices[i]);
        }
        break;
    case T_COUNT:
    case T_SIZE:
    case T_DURATION:
        fputs(key->type == T_COUNT  ? "number, "
              : key->type == T_SIZE ? "size, "
                                    : "duration, ",
              out);
        write_number(out, key->type, key->least);
        fputs(" to ", out);
        write_number(out, key->type, key->most);
        break;
    case T_LIST:
        fprintf(out, "list of %llu to %llu", (unsigned long long)key->least,
                (unsigned long long)key->most);
        break;
    case T_TEXT:
        fputs("text", out);
        break;
    case T_TEXT_OR_NULL:
        fputs("text or null", out);
        break;
    case T_NAME:
        fputs("name", out);
        break;
    case T_BOOL:
        fputs("`true`, `false`", out);
        break;
    case T_START:
        fputs("`oldest`, `now`, position, time", out);
        break;
    case T_SECTION:
        break;
    }
}

/* Which kinds of destination have the key, where not all do. */
static void write_kinds(FILE *out, const struct key *key)
{
    const char *before = "Of ";
    for (unsigned i = 0; key->kinds != 0 && kinds[i] != NULL; i++) {
        if ((key->kinds & 1u << i) != 0) {
            fprintf(out, "%s`%s`", before, kinds[i]);
            before = ", ";
        }
    }
    fputs(key->kinds != 0 ? ": " : "", out);
}

void dbk_config_write_docs(FILE *out)
{
    fputs(
        "# Configuration\n\n"
        "`daybook serve -c FILE` reads one YAML document. This page is written from the table of "
        "keys that the\nreader itself uses (`daybook help --configuration`); a test compares the "
        "two. An unknown key, a value of the\nwrong type and a value that cannot work are refused "
        "at the start with file, line and column.\n\n"
        "Durations carry a unit (`ms`, `s`, `m`, `h`, `d`), sizes too (`B`, `KiB`, `MiB`, `GiB`, "
        "`TiB`). Relative paths start\nat the directory in which the daemon was started.\n\n"
        "| key | values | default | what it does |\n|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct key *key = &keys[i];
        if (key->type == T_SECTION) {
            fprintf(out, "| **`%s`** | | | %s |\n", key->path, key->about);
            continue;
        }
        fprintf(out, "| `%s` | ", key->path);
        write_values(out, key);
        bool optional = key->type == T_LIST && key->scope == S_CONFIG;
        const char *fallback = key->fallback != NULL ? key->fallback : optional ? "" : "required";
        const char *quote = key->fallback != NULL && fallback[0] != '\0' ? "`" : "";
        fprintf(out, " | %s%s%s | ", quote, fallback[0] != '\0' ? fallback : "see right", quote);
        write_kinds(out, key);
        fprintf(out, "%s |\n", key->about);
    }
}
