/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys, and how a text becomes the value of one. See config_keys.h. */
#include "app/config_keys.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define OF_SQLITE (1u << DBK_SINK_SQLITE)
#define OF_FILE (1u << DBK_SINK_FILE)
#define OF_STDOUT (1u << DBK_SINK_STDOUT)
#define OF_LOG (1u << DBK_BACKEND_LOG)
#define OF_POSTGRES (1u << DBK_BACKEND_POSTGRES)

#define C(field) DBK_OF_CONFIG, 0, offsetof(struct dbk_config, field)
#define J(backends, field) DBK_OF_CONFIG, backends, offsetof(struct dbk_config, field)
#define N(field) DBK_OF_CONSUMER, 0, offsetof(struct dbk_config_consumer, field)
#define D(kinds, field) DBK_OF_SINK, kinds, offsetof(struct dbk_config_sink, field)
#define TEXT_SIZE(type, field) 0, sizeof(((struct type *)0)->field)

static const char *const backends[] = {"log", "postgres", NULL};
static const char *const identities[] = {"any", "uuidv7", NULL};
static const char *const tails[] = {"refuse", "accept", NULL};
static const char *const damages[] = {"refuse", "repair", NULL};
static const char *const policies[] = {"refuse", "drop_oldest", NULL};
static const char *const undurable[] = {"refuse", "serve", NULL};
static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const formats[] = {"text", "json", NULL};
static const char *const kinds[] = {"sqlite", "file", "stdout", NULL};
static const char *const lines[] = {"event", "record", NULL};
static const char *const rotations[] = {"none", "daily", NULL};
static const char *const columns[] = {"strict", "lenient", NULL};

/* clang-format off */
const struct dbk_config_key dbk_config_keys[] = {
    {"listen", DBK_KEY_SECTION, DBK_OF_CONFIG, 0, 0, 0, 0, NULL, NULL, "Where the daemon listens, and what it takes from one client."},
    {"listen.address", DBK_KEY_TEXT_OR_NULL, C(listen_address), TEXT_SIZE(dbk_config, listen_address), "127.0.0.1:8377", NULL,
     "Address and port for TCP; port 0 lets the system choose one, which is printed at the start; null: not on TCP."},
    {"listen.unix", DBK_KEY_TEXT_OR_NULL, C(listen_unix), TEXT_SIZE(dbk_config, listen_unix), "null", NULL,
     "Path of a Unix socket to listen on as well; null: none."},
    {"listen.insecure", DBK_KEY_BOOL, C(insecure), 0, 0, "false", NULL,
     "Allows an address that is not loopback. Whoever reaches it can append events and read all of them: there are no tokens yet."},
    {"listen.max_body_bytes", DBK_KEY_SIZE, C(max_body_bytes), 1024, 1024 * DBK_MIB, "16MiB", NULL,
     "Largest request body; a larger one is answered 413."},
    {"listen.max_connections", DBK_KEY_COUNT, C(max_connections), 1, 100000, "10000", NULL,
     "Connections at once; on further ones requests are answered 503 `too_many_connections`, but for figures. Lowered at the start if the process may not open as many files."},
    {"listen.idle_timeout", DBK_KEY_DURATION, C(idle_timeout_ms), 1000, DBK_HOUR_MS, "60s", NULL,
     "How long a connection may be idle, a head take to arrive, and 64 KiB of a body, or of an answer, take to be sent or read; who is slower is cut (408 where an answer is still possible)."},

    {"journal", DBK_KEY_SECTION, DBK_OF_CONFIG, 0, 0, 0, 0, NULL, NULL, "The journal: where an event is durable before the request is answered."},
    {"journal.backend", DBK_KEY_CHOICE, C(backend), 0, 0, "log", backends,
     "The engine. `log`: a directory of the local disk, owned by one process; `postgres`: a schema of a PostgreSQL database, shared by any number of daemons (POSTGRES.md)."},
    {"journal.path", DBK_KEY_TEXT, J(OF_LOG, journal_path), TEXT_SIZE(dbk_config, journal_path), "./daybook-data", NULL,
     "The data directory, made if it is missing."},
    {"journal.dsn_env", DBK_KEY_TEXT, J(OF_POSTGRES, dsn_env), TEXT_SIZE(dbk_config, dsn_env), "", NULL,
     "The environment variable that holds the connection string; its text appears nowhere. This or `service` is needed."},
    {"journal.service", DBK_KEY_TEXT, J(OF_POSTGRES, service), TEXT_SIZE(dbk_config, service), "", NULL,
     "An entry of libpq's service file (`PGSERVICEFILE`, `~/.pg_service.conf`) instead of `dsn_env`."},
    {"journal.schema", DBK_KEY_TEXT, J(OF_POSTGRES, schema), TEXT_SIZE(dbk_config, schema), "daybook", NULL,
     "The schema that holds the journal: `a-z`, `0-9` and `_`, not a digit or `pg_` at the beginning."},
    {"journal.create_schema", DBK_KEY_BOOL, J(OF_POSTGRES, create_schema), 0, 0, "false", NULL,
     "Makes the schema at the start where it is missing, or brings it forward; else `daybook migrate` does, and the start says what is missing."},
    {"journal.connections", DBK_KEY_COUNT, J(OF_POSTGRES, connections), 3, 2 * DAYBOOK_POSTGRES_CONNECTIONS_MAX, "8", NULL,
     "Connections of this daemon: a quarter for appends, a quarter for figures and operators, the rest for deliveries."},
    {"journal.identity", DBK_KEY_CHOICE, C(identity), 0, 0, "any", identities,
     "Which request ids are taken. `any`: 1 to 255 bytes of printable ASCII without spaces; `uuidv7`: `req_` and a lower-case UUIDv7."},
    {"journal.max_events", DBK_KEY_COUNT, C(max_events), 1, DAYBOOK_EVENTS_LIMIT, "1000000", NULL,
     "Bounds everything stored: pending, in flight, quarantined, delivered but still retained."},
    {"journal.max_bytes", DBK_KEY_SIZE, J(OF_LOG, max_bytes), 8 * 64 * 1024, 1024 * 1024 * DBK_GIB, "16GiB", NULL,
     "Bounds the real bytes of the journal's files."},
    {"journal.min_free_disk", DBK_KEY_SIZE, J(OF_LOG, min_free_disk), 1, 1024 * 1024 * DBK_GIB, "256MiB", NULL,
     "While less than this is free on the disk no further segment is prepared: what stands prepared is used up, then appends are refused (503). Delivery goes on."},
    {"journal.tail", DBK_KEY_CHOICE, J(OF_LOG, tail), 0, 0, "refuse", tails,
     "What to do with an end of the log that a crash cannot explain. `refuse`: do not start and change nothing; `accept`: set it aside."},
    {"journal.damage", DBK_KEY_CHOICE, J(OF_LOG, damage), 0, 0, "refuse", damages,
     "What to do with a journal that is damaged below what was durable. `refuse`: do not start and change nothing; `repair`: keep everything whose checksums hold, set the damaged directory aside as `PATH.damaged-YYYYMMDDThhmmssZ`, start, and say so (`repaired` in `/v1/stats`, `daybook_journal_repaired`) until somebody has removed the file `REPAIRED` from the data directory."},
    {"journal.max_event_bytes", DBK_KEY_SIZE, C(max_event_bytes), 256, 16 * DBK_MIB, "256KiB", NULL,
     "Largest event; a larger one is answered 413."},
    {"journal.max_delivery_attempts", DBK_KEY_COUNT, C(max_delivery_attempts), 1, 1000, "8", NULL,
     "After so many attempts an event that its destination refuses on its own account is quarantined as `rejected`."},
    {"journal.retain_acknowledged", DBK_KEY_DURATION, C(retain_acknowledged_ms), 0, 3660 * DBK_DAY_MS, "24h", NULL,
     "How long a delivered event is kept, from its acceptance, so that a late retry is still recognised."},
    {"journal.capacity_policy", DBK_KEY_CHOICE, C(capacity_policy), 0, 0, "refuse", policies,
     "What a full journal does once it has given up what was delivered. `refuse`: the producer is told (503); `drop_oldest`: it forgets the oldest undelivered events, counted in `lost` (telemetry grade)."},
    {"journal.on_undurable", DBK_KEY_CHOICE, C(on_undurable), 0, 0, "refuse", undurable,
     "What a producer is told whose event could not be made durable. `refuse`: 503 `usage_not_durable`; `serve`: 202, and the event is counted in `lost` (telemetry grade)."},
    {"journal.operation_timeout", DBK_KEY_DURATION, C(operation_timeout_ms), 1, DBK_HOUR_MS, "10s", NULL,
     "How long a request waits for its commit; past it, it is answered 503 with the reason `timed_out` (the outcome is unknown: repeat it). PostgreSQL ends a statement of ours that takes longer, but none below 5 s."},

    {"consumers", DBK_KEY_LIST, DBK_OF_CONFIG, 0, 0, 1, DAYBOOK_CONSUMERS_MAX, NULL, NULL,
     "Who bills from the events. Without this key: one consumer `billing` with an SQLite file `usage.db` in the data directory."},
    {"consumers[].name", DBK_KEY_NAME, N(name), TEXT_SIZE(dbk_config_consumer, name), NULL, NULL,
     "Its name in the journal: 1 to 63 of `a-z0-9_-`. A new name is a new consumer."},
    {"consumers[].claim_batch", DBK_KEY_COUNT, N(claim_batch), 1, DAYBOOK_CLAIM_EVENTS_MAX, "256", NULL, "Events of one write, at most."},
    {"consumers[].claim_bytes", DBK_KEY_SIZE, N(claim_bytes), 1024, 256 * DBK_MIB, "8MiB", NULL, "Bytes of one write, at most (one event always fits)."},
    {"consumers[].key_run", DBK_KEY_COUNT, N(key_run), 1, DAYBOOK_CLAIM_EVENTS_MAX, "32", NULL,
     "Consecutive events of one caller (namespace and subject) in one write; 1: strictly one at a time."},
    {"consumers[].lease", DBK_KEY_DURATION, N(lease_ms), 100, DBK_DAY_MS, "30s", NULL, "How long events belong to a write before they are handed out again."},
    {"consumers[].write_timeout", DBK_KEY_DURATION, N(write_timeout_ms), 10, DBK_DAY_MS, "10s", NULL, "A write that takes longer is cut off; at most a third of the lease."},
    {"consumers[].poll_interval", DBK_KEY_DURATION, N(poll_interval_ms), 1, DBK_HOUR_MS, "250ms", NULL, "How often the worker looks when nothing woke it."},
    {"consumers[].maintain_interval", DBK_KEY_DURATION, N(maintain_interval_ms), 100, DBK_DAY_MS, "60s", NULL, "How often delivered events past their window are forgotten."},
    {"consumers[].max_hand_outs", DBK_KEY_COUNT, N(max_hand_outs), 1, 1000000, "64", NULL, "Hand-outs that were not given back (crashes) before an event is quarantined as `attempts_exhausted`."},
    {"consumers[].reject_brake", DBK_KEY_COUNT, N(reject_brake), 1, 1000000, "100", NULL,
     "So many different events refused in a row by one destination, and the fault is the destination's: nothing more is quarantined until it accepts one."},
    {"consumers[].start", DBK_KEY_START, N(start), 0, 0, "oldest", NULL,
     "Where a consumer that is new to the journal starts: `oldest`, `now`, a position, or a time (RFC 3339)."},
    {"consumers[].sinks", DBK_KEY_LIST, DBK_OF_CONSUMER, 0, 0, 1, DAYBOOK_WORKER_SINKS_MAX, NULL, NULL,
     "Its destinations; an event is acknowledged when all of them have it. One consumer for each destination is the better choice."},
    {"consumers[].advisory", DBK_KEY_LIST, DBK_OF_CONSUMER, 0, 0, 0, DAYBOOK_WORKER_SINKS_MAX, "[]", NULL,
     "Destinations with the keys of `sinks[]` that are only told of what was acknowledged: what they answer holds nothing up and is not tried again. Each has a queue of `advisory_events` and `advisory_bytes`; when it is full the newest are dropped and counted."},
    {"consumers[].advisory_events", DBK_KEY_COUNT, N(advisory_events), 1, 1000000, "4096", NULL, "Events that may wait for one advisory destination."},
    {"consumers[].advisory_bytes", DBK_KEY_SIZE, N(advisory_bytes), 1024, DBK_GIB, "8MiB", NULL, "Bytes of names and records that may wait for one advisory destination; one event always fits."},
    {"consumers[].sinks[].kind", DBK_KEY_CHOICE, D(0, kind), 0, 0, NULL, kinds,
     "What it is. `sqlite`: a table in a local file; `file`: lines (NDJSON) in a local file; `stdout`: lines on standard output, where an acknowledgement means no more than that a line was written."},
    {"consumers[].sinks[].name", DBK_KEY_NAME, D(0, name), TEXT_SIZE(dbk_config_sink, name), "", NULL, "The label of its metrics; no two destinations share one. Without it: its kind."},
    {"consumers[].sinks[].path", DBK_KEY_TEXT, D(OF_SQLITE | OF_FILE, path), TEXT_SIZE(dbk_config_sink, path), NULL, NULL,
     "The SQLite file, or the file of lines; made if it is missing, for its owner alone."},
    {"consumers[].sinks[].table", DBK_KEY_TEXT, D(OF_SQLITE, table), TEXT_SIZE(dbk_config_sink, table), "usage", NULL, "The table, made with its key if it is missing."},
    {"consumers[].sinks[].columns", DBK_KEY_CHOICE, D(OF_SQLITE, columns), 0, 0, "strict", columns,
     "What a value does that does not fit its token or cost column. `strict`: the row is rejected; `lenient`: the column stays empty."},
    {"consumers[].sinks[].format", DBK_KEY_CHOICE, D(OF_FILE | OF_STDOUT, format), 0, 0, "event", lines,
     "What a line holds. `event`: position, names, times and record, as `daybook export` prints it; `record`: the record alone."},
    {"consumers[].sinks[].rotate_bytes", DBK_KEY_SIZE, D(OF_FILE, rotate_bytes), 0, 1024 * 1024 * DBK_GIB, "0B", NULL,
     "A file that the next batch would make larger is put aside first, as `PATH.YYYYMMDDThhmmssZ`; `0B`: never."},
    {"consumers[].sinks[].rotate", DBK_KEY_CHOICE, D(OF_FILE, rotate), 0, 0, "none", rotations,
     "`daily`: a file is put aside before the first write of another day (UTC) too."},

    {"shutdown", DBK_KEY_SECTION, DBK_OF_CONFIG, 0, 0, 0, 0, NULL, NULL, "What SIGTERM does, step by step."},
    {"shutdown.drain_grace", DBK_KEY_DURATION, C(drain_grace_ms), 0, DBK_HOUR_MS, "0s", NULL, "Readiness fails and requests are still served for so long."},
    {"shutdown.deadline", DBK_KEY_DURATION, C(drain_deadline_ms), 0, DBK_HOUR_MS, "10s", NULL, "Then admission closes and requests in flight get so long."},
    {"shutdown.flush_timeout", DBK_KEY_DURATION, C(flush_timeout_ms), 0, DBK_HOUR_MS, "10s", NULL, "Then the workers deliver what they can for so long."},

    {"log", DBK_KEY_SECTION, DBK_OF_CONFIG, 0, 0, 0, 0, NULL, NULL, "Log lines, on standard error."},
    {"log.level", DBK_KEY_CHOICE, C(log_level), 0, 0, "info", levels, "Lines below it are left out."},
    {"log.format", DBK_KEY_CHOICE, C(log_format), 0, 0, "text", formats, "One line each, for people or for machines."},
};
/* clang-format on */

const size_t dbk_config_key_count = sizeof dbk_config_keys / sizeof dbk_config_keys[0];
_Static_assert(sizeof dbk_config_keys / sizeof dbk_config_keys[0] <= DBK_CONFIG_KEYS_MAX,
               "a mark for every key");

const char *dbk_backend_name(int backend)
{
    return backends[backend];
}

const char *dbk_sink_kind_name(int kind)
{
    return kinds[kind];
}

size_t dbk_config_key_index(const char *path)
{
    for (size_t i = 0; i < dbk_config_key_count; i++) {
        if (strcmp(dbk_config_keys[i].path, path) == 0) {
            return i;
        }
    }
    return dbk_config_key_count;
}

/* ---- one value ------------------------------------------------------------------------------- */

bool dbk_config_is_null(const char *text)
{
    return text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0;
}

static enum daybook_code put_text(const struct dbk_config_key *key, const char *text, char *target,
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

static enum daybook_code put_name(const struct dbk_config_key *key, const char *text, char *target,
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

static enum daybook_code put_choice(const struct dbk_config_key *key, const char *text, int *target,
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
static enum daybook_code in_range(const struct dbk_config_key *key, const char *text,
                                  uint64_t value, const char *unit, struct daybook_error *err)
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

static enum daybook_code put_number(const struct dbk_config_key *key, const char *text,
                                    void *target, struct daybook_error *err)
{
    uint64_t value = 0;
    int64_t ms = 0;
    enum daybook_code code;
    const char *unit = "";
    if (key->type == DBK_KEY_DURATION) {
        code = dbk_duration_parse(text, &ms, err);
        value = (uint64_t)ms;
        unit = "ms";
    } else if (key->type == DBK_KEY_SIZE) {
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
        if (key->type == DBK_KEY_DURATION) {
            *(int64_t *)target = ms;
        } else {
            *(uint64_t *)target = value;
        }
    }
    return code;
}

enum daybook_code dbk_config_put(const struct dbk_config_key *key, const char *text, void *base,
                                 struct daybook_error *err)
{
    void *target = (char *)base + key->offset;
    if (dbk_config_is_null(text)) {
        if (key->type != DBK_KEY_TEXT_OR_NULL) {
            return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                            "has no value: write one, or leave the key out for the default");
        }
        *(char *)target = '\0';
        return DAYBOOK_OK;
    }
    switch (key->type) {
    case DBK_KEY_TEXT:
    case DBK_KEY_TEXT_OR_NULL:
        return put_text(key, text, target, err);
    case DBK_KEY_NAME:
        return put_name(key, text, target, err);
    case DBK_KEY_BOOL:
        return put_bool(text, target, err);
    case DBK_KEY_CHOICE:
        return put_choice(key, text, target, err);
    case DBK_KEY_COUNT:
    case DBK_KEY_SIZE:
    case DBK_KEY_DURATION:
        return put_number(key, text, target, err);
    case DBK_KEY_START:
        return dbk_start_parse(text, target, err);
    case DBK_KEY_SECTION:
    case DBK_KEY_LIST:
        break;
    }
    return dbk_fail(err, DAYBOOK_BAD_CONFIG, "has no value of its own");
}

void dbk_config_put_defaults(enum dbk_config_scope scope, void *target)
{
    for (size_t i = 0; i < dbk_config_key_count; i++) {
        if (dbk_config_keys[i].scope == scope && dbk_config_keys[i].fallback != NULL &&
            dbk_config_keys[i].fallback[0] != '\0' && dbk_config_keys[i].type != DBK_KEY_LIST) {
            /* The table's own defaults: a test reads every one of them. */
            (void)dbk_config_put(&dbk_config_keys[i], dbk_config_keys[i].fallback, target, NULL);
        }
    }
}
