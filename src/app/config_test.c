/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: every refusal with line and column, every default, every unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/config.h"

static enum daybook_code parse(const char *yaml, struct dbk_config **ret, struct daybook_error *err)
{
    return dbk_config_parse("c.yaml", (struct daybook_bytes){yaml, strlen(yaml)}, ret, err);
}

/* The refusal begins with `c.yaml:LINE:COLUMN:` and names what `part` says. */
static void expect_refusal(const char *yaml, const char *where, const char *part)
{
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    if (parse(yaml, &config, &err) != DAYBOOK_BAD_CONFIG) {
        fail_msg("not refused: %s", yaml);
    }
    assert_null(config);
    if (strncmp(err.message, where, strlen(where)) != 0 || strstr(err.message, part) == NULL) {
        fail_msg("\"%s\" instead of \"%s ... %s\"", err.message, where, part);
    }
    assert_null(strchr(err.message, '\n'));
}

/* The path of a file of the tree; skips the test where the tree is not known. */
static void find_in_tree(const char *name, char *path, size_t room)
{
    const char *root = getenv("DAYBOOK_SOURCE_ROOT");
    if (root == NULL) {
        print_message("DAYBOOK_SOURCE_ROOT is not set: run it by meson test\n");
        skip();
    }
    (void)snprintf(path, room, "%s/%s", root, name);
}

static void test_defaults_are_the_promised_ones(void **state)
{
    (void)state;
    struct dbk_config *c = NULL;
    assert_int_equal(dbk_config_load(NULL, &c, NULL), DAYBOOK_OK);
    assert_string_equal(c->listen_address, "127.0.0.1:8377");
    assert_true(dbk_address_is_loopback(&c->address));
    assert_string_equal(c->listen_unix, "");
    assert_int_equal(c->max_body_bytes, 16 << 20);
    assert_int_equal(c->max_connections, 10000);
    assert_int_equal(c->idle_timeout_ms, 60000);
    assert_string_equal(c->journal_path, "./daybook-data");
    assert_int_equal(c->identity, DAYBOOK_IDENTITY_ANY);
    assert_int_equal(c->max_events, 1000000);
    assert_int_equal(c->max_bytes, INT64_C(16) << 30);
    assert_int_equal(c->min_free_disk, 256 << 20);
    assert_int_equal(c->tail, DAYBOOK_TAIL_REFUSE);
    assert_int_equal(c->max_event_bytes, 256 << 10);
    assert_int_equal(c->max_delivery_attempts, 8);
    assert_int_equal(c->retain_acknowledged_ms, 24 * 3600 * 1000);
    assert_int_equal(c->consumer_count, 1);
    const struct dbk_config_consumer *n = &c->consumers[0];
    assert_string_equal(n->name, "billing");
    assert_int_equal(n->claim_batch, 256);
    assert_int_equal(n->claim_bytes, 8 << 20);
    assert_int_equal(n->key_run, 32);
    assert_int_equal(n->lease_ms, 30000);
    assert_int_equal(n->write_timeout_ms, 10000);
    assert_int_equal(n->poll_interval_ms, 250);
    assert_int_equal(n->maintain_interval_ms, 60000);
    assert_int_equal(n->max_hand_outs, 64);
    assert_int_equal(n->reject_brake, 100);
    assert_int_equal(n->start.kind, DAYBOOK_START_OLDEST);
    assert_int_equal(n->sink_count, 1);
    assert_string_equal(n->sinks[0].name, "ledger");
    assert_string_equal(n->sinks[0].path, "./daybook-data/usage.db");
    assert_string_equal(n->sinks[0].table, "usage");
    assert_int_equal(c->drain_grace_ms, 0);
    assert_int_equal(c->drain_deadline_ms, 10000);
    assert_int_equal(c->flush_timeout_ms, 10000);
    assert_int_equal(c->log_level, DBK_LOG_INFO);
    assert_int_equal(c->log_format, DBK_LOG_TEXT);
    dbk_config_free(c);
}

static void test_a_whole_file(void **state)
{
    (void)state;
    struct dbk_config *c = NULL;
    struct daybook_error err = {0};
    enum daybook_code code =
        parse("listen: { address: \"[::1]:0\", unix: /run/d.sock, max_body_bytes: 1MiB }\n"
              "journal:\n"
              "  path: /var/lib/daybook   # a comment\n"
              "  identity: uuidv7\n"
              "  retain_acknowledged: 0s\n"
              "consumers:\n"
              "  - name: billing\n"
              "    lease: 9s\n"
              "    write_timeout: 3s\n"
              "    start: 2026-01-01T00:00:00Z\n"
              "    sinks: [ { kind: sqlite, name: ledger, path: a.db, columns: lenient } ]\n"
              "  - name: audit\n"
              "    start: 17\n"
              "    sinks:\n"
              "      - { kind: sqlite, name: copy, path: b.db }\n"
              "      - { kind: sqlite, name: other, path: c.db, table: rows }\n"
              "    advisory: [ { kind: sqlite, name: board, path: d.db } ]\n"
              "shutdown: { drain_grace: 5s }\n"
              "log: { level: debug, format: json }\n",
              &c, &err);
    if (code != DAYBOOK_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(c->max_body_bytes, 1 << 20);
    assert_string_equal(c->listen_unix, "/run/d.sock");
    assert_int_equal(c->address.storage.ss_family, AF_INET6);
    assert_string_equal(c->journal_path, "/var/lib/daybook");
    assert_int_equal(c->identity, DAYBOOK_IDENTITY_UUIDV7);
    assert_int_equal(c->retain_acknowledged_ms, 0);
    assert_int_equal(c->consumer_count, 2);
    assert_int_equal(c->consumers[0].lease_ms, 9000);
    assert_int_equal(c->consumers[0].start.kind, DAYBOOK_START_TIME);
    assert_int_equal(c->consumers[0].sinks[0].columns, DAYBOOK_COLUMNS_LENIENT);
    assert_int_equal(c->consumers[1].start.kind, DAYBOOK_START_POSITION);
    assert_int_equal(c->consumers[1].start.value, 17);
    assert_int_equal(c->consumers[1].sink_count, 2);
    assert_string_equal(c->consumers[1].sinks[1].table, "rows");
    assert_int_equal(c->consumers[0].advisory_count, 0);
    assert_int_equal(c->consumers[1].advisory_count, 1);
    assert_string_equal(c->consumers[1].advisory[0].path, "d.db");
    assert_string_equal(c->consumers[1].advisory[0].table, "usage");
    assert_int_equal(c->drain_grace_ms, 5000);
    assert_int_equal(c->log_format, DBK_LOG_JSON);
    dbk_config_free(c);
}

static void test_unknown_keys(void **state)
{
    (void)state;
    expect_refusal("listen:\n  adress: 127.0.0.1:1\n", "c.yaml:2:3:", "unknown key \"adress\"");
    expect_refusal("listen:\n  adress: 127.0.0.1:1\n", "c.yaml:2:3:", "address unix");
    expect_refusal("auth: { tokens_file: x }\n", "c.yaml:1:1:", "unknown key \"auth\"");
    expect_refusal("consumers:\n  - name: a\n    kind: x\n", "c.yaml:3:5:", "unknown key \"kind\"");
    expect_refusal("consumers:\n  - name: a\n    sinks:\n      - {kind: sqlite, path: p, url: u}\n",
                   "c.yaml:4:33:", "unknown key \"url\"");
    expect_refusal("listen.address: 127.0.0.1:1\n",
                   "c.yaml:1:1:", "unknown key \"listen.address\"");
}

static void test_wrong_types(void **state)
{
    (void)state;
    expect_refusal("listen: 5\n", "c.yaml:1:9:", "is a single value, but a mapping");
    expect_refusal("listen:\n  address: [a]\n", "c.yaml:2:12:", "is a list, but a single value");
    expect_refusal("consumers: {name: a}\n", "c.yaml:1:12:", "is a mapping, but a list");
    expect_refusal("consumers: [a]\n", "c.yaml:1:13:", "is a single value, but a mapping");
    expect_refusal("- a\n", "c.yaml:1:1:", "is a list, but a mapping of keys");
    expect_refusal("listen:\n  max_connections: many\n", "c.yaml:2:20:", "is no whole number");
    expect_refusal("listen:\n  insecure: yes\n", "c.yaml:2:13:", "neither true nor false");
    expect_refusal("journal:\n  path:\n", "c.yaml:2:8:", "has no value");
}

/* ---- every key of the table ------------------------------------------------------------------- */

/* A value that the key cannot have, by what the page says of its values; NULL: there is none. */
static const char *wrong_value(const char *values)
{
    static const struct {
        const char *begin;
        const char *wrong;
    } all[] = {{"number", "12x"},      {"size", "5 bytes"}, {"duration", "soon"},
               {"name", "No Name"},    {"list", "single"},  {"`oldest`", "soon"},
               {"text or null", NULL}, {"text", ""},        {"`", "nonsense"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strncmp(values, all[i].begin, strlen(all[i].begin)) == 0) {
            return all[i].wrong;
        }
    }
    return NULL;
}

/* A value beyond the range, NULL where there is no range. */
static const char *value_beyond(const char *values)
{
    return strncmp(values, "number", 6) == 0     ? "99999999999999999"
           : strncmp(values, "size", 4) == 0     ? "8000TiB"
           : strncmp(values, "duration", 8) == 0 ? "99999d"
                                                 : NULL;
}

/* A document in which `key` stands with `value` on the last line, and the column of that value. */
static unsigned write_document(char *yaml, size_t room, const char *key, const char *kind,
                               const char *value)
{
    char place[32] = "";
    const char *name = strrchr(key, '.');
    const char *indent = "  ";
    if (strncmp(key, "consumers[].", 12) != 0) {
        (void)snprintf(place, sizeof place, "%.*s", name != NULL ? (int)(name - key) : 0, key);
        (void)snprintf(yaml, room, "\n\n\n%s%s", place, name != NULL ? ":\n" : "\n");
        indent = name != NULL ? "  " : "";
    } else if (name == key + 11) {
        (void)snprintf(yaml, room, "\n\nconsumers:\n  -\n");
        indent = "    ";
    } else {
        const char *list = key + 12; /* `sinks[].x`, `advisory[].x` */
        (void)snprintf(yaml, room, "consumers:\n  - name: n\n    %.*s:\n      - kind: %s\n",
                       (int)strcspn(list, "["), list, kind);
        indent = "        ";
    }
    size_t at = strlen(yaml);
    const char *last = name != NULL ? name + 1 : key;
    (void)snprintf(yaml + at, room - at, "%s%s: %s\n", indent, last, value);
    return (unsigned)(strlen(indent) + strlen(last) + 3);
}

/* The refusal names line and column of the value, the key, and what to do. */
static void expect_mend(const char *key, const char *kind, const char *value)
{
    static const char *const mends[] = {"write ", "at least ", "at most ", "is wanted here",
                                        "leave the key out"};
    char yaml[512];
    char where[64];
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    unsigned column = write_document(yaml, sizeof yaml, key, kind, value);
    (void)snprintf(where, sizeof where, "c.yaml:5:%u: ", value[0] != '\0' ? column : column - 1);
    if (parse(yaml, &config, &err) != DAYBOOK_BAD_CONFIG) {
        fail_msg("%s: %s is not refused", key, value);
    }
    bool mended = false;
    for (size_t i = 0; i < sizeof mends / sizeof mends[0]; i++) {
        mended = mended || strstr(err.message, mends[i]) != NULL;
    }
    if (strncmp(err.message, where, strlen(where)) != 0 || strstr(err.message, key) == NULL ||
        !mended) {
        fail_msg("%s: \"%s\" begins otherwise than %s, or names no key or mend", value, err.message,
                 where);
    }
}

/* The kind of destination that has the key: the first that the page names, else sqlite. */
static const char *kind_of_key(const char *about)
{
    return strncmp(about, "Of `file`", 9) == 0      ? "file"
           : strncmp(about, "Of `stdout`", 11) == 0 ? "stdout"
                                                    : "sqlite";
}

static void test_every_key_is_refused_with_its_place_and_a_mend(void **state)
{
    (void)state;
    char *page = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&page, &len);
    assert_non_null(out);
    dbk_config_write_docs(out);
    assert_int_equal(fclose(out), 0);
    unsigned keys = 0;
    char *rest = page;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char key[80];
        char *values = strstr(line, "` | ");
        char *fallback = values != NULL ? strstr(values + 4, " | ") : NULL;
        char *about = fallback != NULL ? strstr(fallback + 3, " | ") : NULL;
        /* A wrong kind has a test of its own: it decides what else is known. */
        if (sscanf(line, "| `%79[^`]`", key) != 1 || about == NULL || strstr(key, "[].kind")) {
            continue;
        }
        const char *wrong = wrong_value(values + 4);
        const char *beyond = value_beyond(values + 4);
        const char *kind = kind_of_key(about + 3);
        if (wrong != NULL) {
            expect_mend(key, kind, wrong);
            keys++;
        }
        if (beyond != NULL) {
            expect_mend(key, kind, beyond);
        }
    }
    assert_true(keys > 35);
    free(page);
}

#define SINK "sinks: [{kind: sqlite, path: p}]\n"
#define DELIVERS "consumers:\n  - name: a\n    " SINK

/* Keys of one engine are refused on the other, each where it stands. */
static void test_the_two_engines(void **state)
{
    (void)state;
    struct dbk_config *c = NULL;
    struct daybook_error err = {0};
    assert_int_equal(parse("journal: {backend: postgres, dsn_env: DSN}\n" DELIVERS, &c, &err),
                     DAYBOOK_OK);
    assert_int_equal(c->backend, DBK_BACKEND_POSTGRES);
    assert_string_equal(c->dsn_env, "DSN");
    assert_string_equal(c->schema, "daybook");
    assert_int_equal(c->connections, 8);
    assert_false(c->create_schema);
    dbk_config_free(c);
    static const char *const of_log[] = {"path: x", "max_bytes: 1GiB", "min_free_disk: 1MiB",
                                         "tail: accept", "damage: repair"};
    static const char *const of_postgres[] = {"dsn_env: DSN", "service: s", "schema: billing",
                                              "create_schema: true", "connections: 4"};
    for (size_t i = 0; i < 5; i++) {
        char yaml[256];
        (void)snprintf(yaml, sizeof yaml, "journal:\n  %s\n  backend: postgres\n  dsn_env: D\n",
                       of_log[i]);
        expect_refusal(yaml, "c.yaml:2:", "is no key of backend postgres: remove it, or write");
        (void)snprintf(yaml, sizeof yaml, "journal:\n  %s\n", of_postgres[i]);
        expect_refusal(yaml, "c.yaml:2:", "is no key of backend log: remove it, or write");
    }
    expect_refusal("journal: {backend: postgres}\n", "c.yaml:1:20:", "journal.dsn_env: is missing");
    expect_refusal("journal: {backend: postgres, dsn_env: D, service: s}\n",
                   "c.yaml:1:51:", "keep one of them");
    expect_refusal("journal: {backend: postgres, service: \"a b\"}\n",
                   "c.yaml:1:39:", "is no name of an entry");
    expect_refusal("journal: {backend: postgres, dsn_env: D, schema: \"a\\\"; DROP\"}\n",
                   "c.yaml:1:50:", "is no name of a schema");
    expect_refusal("journal: {backend: postgres, dsn_env: D, schema: pg_x}\n",
                   "c.yaml:1:50:", "is no name of a schema");
    expect_refusal("journal: {backend: postgres, dsn_env: D, connections: 2}\n",
                   "c.yaml:1:55:", "too small: at least 3");
    expect_refusal("journal: {backend: postgres, dsn_env: D}\n",
                   "c.yaml:1:20:", "consumers: is missing");
}

/* A connection string in the place of a variable's name is not repeated. */
static void test_a_secret_is_not_told(void **state)
{
    (void)state;
    struct dbk_config *c = NULL;
    struct daybook_error err = {0};
    assert_int_equal(
        parse("journal: {backend: postgres, dsn_env: \"host=h password=hunter2\"}\n", &c, &err),
        DAYBOOK_BAD_CONFIG);
    assert_non_null(strstr(err.message, "c.yaml:1:39:"));
    assert_non_null(strstr(err.message, "is no name of an environment variable"));
    assert_null(strstr(err.message, "hunter2"));
}

static void test_impossible_values(void **state)
{
    (void)state;
    expect_refusal("listen: {address: here}\n", "c.yaml:1:19:", "no address with a port");
    expect_refusal("listen: {address: 127.0.0.1:70000}\n", "c.yaml:1:19:", "no address");
    expect_refusal("listen: {address: 0.0.0.0:80}\n", "c.yaml:1:19:", "is not loopback");
    expect_refusal("listen: {address: null}\n", "c.yaml:1:19:", "listen nowhere");
    expect_refusal("listen: {idle_timeout: 30}\n", "c.yaml:1:24:", "has no unit");
    expect_refusal("listen: {idle_timeout: 30x}\n", "c.yaml:1:24:", "unknown unit \"x\"");
    expect_refusal("listen: {idle_timeout: 10ms}\n", "c.yaml:1:24:", "too small: at least 1000ms");
    expect_refusal("listen: {max_body_bytes: 16MB}\n", "c.yaml:1:26:", "unknown unit \"MB\"");
    expect_refusal("listen: {max_body_bytes: 2TiB}\n", "c.yaml:1:26:", "too large");
    expect_refusal("journal: {max_events: 0}\n", "c.yaml:1:23:", "too small: at least 1");
    expect_refusal("journal: {max_events: 99999999999999999999}\n", "c.yaml:1:23:", "whole number");
    expect_refusal("journal: {backend: oracle}\n", "c.yaml:1:20:", "write log or postgres");
    expect_refusal("journal: {on_undurable: ignore}\n", "c.yaml:1:25:", "write refuse or serve");
    expect_refusal("journal: {capacity_policy: drop_newest}\n",
                   "c.yaml:1:28:", "write refuse or drop_oldest");
    expect_refusal("log: {level: loud}\n", "c.yaml:1:14:", "debug or info or warning or error");
    expect_refusal("consumers: []\n", "c.yaml:1:12:", "has 0 entries");
    expect_refusal("consumers:\n  - name: A\n", "c.yaml:2:11:", "is no name");
    expect_refusal("consumers:\n  - lease: 10s\n", "c.yaml:2:5:", "consumers[].name: is missing");
    expect_refusal("consumers:\n  - name: a\n", "c.yaml:2:5:", "consumers[].sinks: is missing");
    expect_refusal("consumers:\n  - name: a\n    start: soon\n", "c.yaml:3:12:", "is no start");
    expect_refusal("consumers:\n  - name: a\n    sinks: [{kind: kafka}]\n",
                   "c.yaml:3:20:", "\"kafka\" is not known here: write sqlite or file or stdout");
    expect_refusal("consumers:\n  - name: a\n    sinks: [{kind: sqlite}]\n",
                   "c.yaml:3:13:", "consumers[].sinks[].path: is missing");
    expect_refusal("consumers:\n  - name: a\n    " SINK "    advisory: [{kind: sqlite}]\n",
                   "c.yaml:4:16:", "consumers[].advisory[].path: is missing");
    expect_refusal("consumers:\n  - name: a\n    " SINK "    advisory: [{kind: carrier}]\n",
                   "c.yaml:4:23:", "consumers[].advisory[].kind: \"carrier\"");
    expect_refusal("consumers:\n  - name: a\n    " SINK "    advisory: x\n",
                   "c.yaml:4:15:", "consumers[].advisory: is a single value");
    expect_refusal("consumers:\n  - name: a\n    advisory: [{kind: sqlite, path: p}]\n",
                   "c.yaml:2:5:", "consumers[].sinks: is missing");
    expect_refusal(
        "consumers:\n  - name: a\n    sinks: []\n    advisory: [{kind: sqlite, path: p}]\n",
        "c.yaml:3:12:", "consumers[].sinks: has 0 entries");
}

/* A destination has the keys of its kind, whatever their order in the file. */
static void test_kinds_of_destinations(void **state)
{
    (void)state;
    static const char *const head = "consumers:\n  - name: a\n    sinks: [";
    static const struct {
        const char *sinks;
        const char *where;
        const char *part;
    } cases[] = {
        {"{kind: file}", "c.yaml:3:13:", "consumers[].sinks[].path: is missing"},
        {"{kind: file, path: p, table: t}",
         "c.yaml:3:42:", "table: is no key of kind file; it has: kind name path format"},
        {"{columns: strict, kind: stdout}", "c.yaml:3:23:", "columns: is no key of kind stdout"},
        {"{kind: stdout, path: p}", "c.yaml:3:34:", "path: is no key of kind stdout"},
        {"{kind: sqlite, path: p, rotate: daily}",
         "c.yaml:3:45:", "rotate: is no key of kind sqlite"},
        {"{kind: file, path: p, rotate_bytes: 5}", "c.yaml:3:49:", "has no unit"},
        {"{kind: file, path: p, rotate: hourly}", "c.yaml:3:43:", "write none or daily"},
        {"{kind: stdout, name: x}, {kind: stdout, name: y}",
         "c.yaml:3:45:", "another destination is standard output already"},
        {"{kind: file, name: x, path: p}, {kind: file, name: y, path: p}",
         "c.yaml:3:73:", "another destination writes to this file"},
        {"{kind: stdout}, {kind: stdout}",
         "c.yaml:3:36:", "two destinations have this name (without one it is the kind)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char yaml[256];
        (void)snprintf(yaml, sizeof yaml, "%s%s]\n", head, cases[i].sinks);
        expect_refusal(yaml, cases[i].where, cases[i].part);
    }
    struct dbk_config *c = NULL;
    assert_int_equal(parse("consumers:\n  - name: a\n    sinks: [{kind: stdout, format: record}, "
                           "{rotate: daily, path: p, rotate_bytes: 1GiB, kind: file}]\n",
                           &c, NULL),
                     DAYBOOK_OK);
    const struct dbk_config_sink *sinks = c->consumers[0].sinks;
    assert_int_equal(sinks[0].kind, DBK_SINK_STDOUT);
    assert_int_equal(sinks[0].format, DAYBOOK_LINE_RECORD);
    assert_string_equal(sinks[0].name, "stdout");
    assert_int_equal(sinks[1].kind, DBK_SINK_FILE);
    assert_int_equal(sinks[1].format, DAYBOOK_LINE_EVENT);
    assert_int_equal(sinks[1].rotate, DAYBOOK_ROTATE_DAILY);
    assert_int_equal(sinks[1].rotate_bytes, 1 << 30);
    dbk_config_free(c);
}

static void test_values_that_contradict_each_other(void **state)
{
    (void)state;
    expect_refusal("consumers:\n  - name: a\n    lease: 9s\n    " SINK, "c.yaml:3:12:",
                   "10000ms is more than a third of the lease (9000ms): at most 3000ms");
    expect_refusal("consumers:\n  - name: a\n    write_timeout: 20s\n    " SINK,
                   "c.yaml:3:20:", "third of the lease");
    expect_refusal("consumers:\n  - name: a\n    " SINK "  - name: a\n    " SINK,
                   "c.yaml:4:11:", "the name of another consumer");
    expect_refusal("consumers:\n  - name: a\n    " SINK "  - name: b\n    " SINK,
                   "c.yaml:5:20:", "two destinations have this name");
    expect_refusal("consumers:\n  - name: a\n    " SINK "    advisory: [{path: q, kind: sqlite}]\n",
                   "c.yaml:4:32:", "consumers[].advisory[].name: two destinations");
}

static void test_what_is_no_yaml(void **state)
{
    (void)state;
    expect_refusal("listen: {\n", "c.yaml:2:1:", "is no YAML");
    expect_refusal("log: {level: info}\nlog: {level: debug}\n", "c.yaml:2:1:", "is given twice");
    expect_refusal("log: {level: info}\n---\nlog: {}\n", "c.yaml:3:1:", "a second document");
    expect_refusal("journal: {path: \"a\\0b\"}\n", "c.yaml:1:17:", "holds a NUL");
    expect_refusal("a: &x [*x]\n", "c.yaml:1:1:", "unknown key");
}

static void test_a_file_that_is_missing(void **state)
{
    (void)state;
    struct dbk_config *c = NULL;
    struct daybook_error err = {0};
    assert_int_equal(dbk_config_load("/nonexistent/daybook.yaml", &c, &err), DAYBOOK_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/daybook.yaml"));
}

/* One example for each kind of destination. */
static void test_the_examples_of_destinations(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum dbk_sink_kind kind;
    } examples[] = {{"examples/daybook.yaml", DBK_SINK_SQLITE},
                    {"examples/file.yaml", DBK_SINK_FILE},
                    {"examples/stdout.yaml", DBK_SINK_STDOUT}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char path[1024];
        struct dbk_config *c = NULL;
        struct daybook_error err = {0};
        find_in_tree(examples[i].path, path, sizeof path);
        if (dbk_config_load(path, &c, &err) != DAYBOOK_OK) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(c->consumers[0].sinks[0].kind, examples[i].kind);
        dbk_config_free(c);
    }
}

/* The example of the other engine. */
static void test_the_example_of_a_fleet(void **state)
{
    (void)state;
    char path[1024];
    struct dbk_config *c = NULL;
    struct daybook_error err = {0};
    find_in_tree("examples/postgres-journal.yaml", path, sizeof path);
    if (dbk_config_load(path, &c, &err) != DAYBOOK_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(c->backend, DBK_BACKEND_POSTGRES);
    assert_string_equal(c->dsn_env, "DAYBOOK_JOURNAL_DSN");
    dbk_config_free(c);
}

/* The example in the tree is taken, and says what the defaults are. */
static void test_the_example(void **state)
{
    (void)state;
    char path[1024];
    find_in_tree("examples/daybook.yaml", path, sizeof path);
    struct dbk_config *c = NULL;
    struct dbk_config *defaults = NULL;
    struct daybook_error err = {0};
    if (dbk_config_load(path, &c, &err) != DAYBOOK_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(dbk_config_load(NULL, &defaults, NULL), DAYBOOK_OK);
    memset(&c->marks, 0, sizeof c->marks);
    memset(&c->consumers[0].marks, 0, sizeof c->consumers[0].marks);
    memset(&c->consumers[0].sinks[0].marks, 0, sizeof c->consumers[0].sinks[0].marks);
    memset(c->file, 0, sizeof c->file);
    assert_memory_equal(c, defaults, sizeof *c);
    dbk_config_free(c);
    dbk_config_free(defaults);
}

/* M1: what may lose usage without its producer knowing says so. */
static void test_M1_what_is_telemetry_grade(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        const char *part; /* NULL: billing grade */
    } cases[] = {
        {"{}\n", NULL},
        {"journal: {capacity_policy: refuse, on_undurable: refuse}\n", NULL},
        {"journal: {capacity_policy: drop_oldest}\n", "capacity_policy: drop_oldest"},
        {"journal: {on_undurable: serve}\n", "on_undurable: serve"},
        {"journal: {capacity_policy: drop_oldest, on_undurable: serve}\n", "and on_undurable"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dbk_config *c = NULL;
        assert_int_equal(parse(cases[i].yaml, &c, NULL), DAYBOOK_OK);
        const char *reason = dbk_config_telemetry_reason(c);
        if (cases[i].part == NULL) {
            assert_null(reason);
        } else {
            assert_non_null(reason);
            assert_non_null(strstr(reason, cases[i].part));
        }
        dbk_config_free(c);
    }
}

static void test_units(void **state)
{
    (void)state;
    int64_t ms = 0;
    uint64_t bytes = 0;
    assert_int_equal(dbk_duration_parse("2d", &ms, NULL), DAYBOOK_OK);
    assert_int_equal(ms, 2 * 24 * 3600 * 1000);
    assert_int_equal(dbk_duration_parse("0s", &ms, NULL), DAYBOOK_OK);
    assert_int_equal(ms, 0);
    assert_int_equal(dbk_size_parse("3TiB", &bytes, NULL), DAYBOOK_OK);
    assert_int_equal(bytes, INT64_C(3) << 40);
    assert_int_equal(dbk_size_parse("7B", &bytes, NULL), DAYBOOK_OK);
    assert_int_equal(bytes, 7);
    assert_int_equal(dbk_duration_parse("1.5s", &ms, NULL), DAYBOOK_BAD_CONFIG);
    assert_int_equal(dbk_duration_parse("-1s", &ms, NULL), DAYBOOK_BAD_CONFIG);
    assert_int_equal(dbk_duration_parse("9999999999999999d", &ms, NULL), DAYBOOK_BAD_CONFIG);
    assert_int_equal(dbk_size_parse("", &bytes, NULL), DAYBOOK_BAD_CONFIG);
}

/* The page is written from the table; what is checked in must be what the table says. */
static void test_documentation_is_the_table(void **state)
{
    (void)state;
    char path[1024];
    find_in_tree("docs/configuration.md", path, sizeof path);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail_msg("%s is missing: daybook help --configuration > docs/configuration.md", path);
        return;
    }
    static char wanted[64 * 1024];
    static char found[64 * 1024];
    FILE *out = fmemopen(wanted, sizeof wanted, "w");
    assert_non_null(out);
    dbk_config_write_docs(out);
    assert_int_equal(fclose(out), 0);
    size_t n = fread(found, 1, sizeof found - 1, file);
    found[n] = '\0';
    (void)fclose(file);
    if (strcmp(wanted, found) != 0) {
        fail_msg("docs/configuration.md is not what the table says: "
                 "daybook help --configuration > docs/configuration.md");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_the_promised_ones),
        cmocka_unit_test(test_a_whole_file),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_impossible_values),
        cmocka_unit_test(test_the_two_engines),
        cmocka_unit_test(test_a_secret_is_not_told),
        cmocka_unit_test(test_every_key_is_refused_with_its_place_and_a_mend),
        cmocka_unit_test(test_kinds_of_destinations),
        cmocka_unit_test(test_values_that_contradict_each_other),
        cmocka_unit_test(test_what_is_no_yaml),
        cmocka_unit_test(test_a_file_that_is_missing),
        cmocka_unit_test(test_the_example_of_a_fleet),
        cmocka_unit_test(test_the_example),
        cmocka_unit_test(test_the_examples_of_destinations),
        cmocka_unit_test(test_M1_what_is_telemetry_grade),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_documentation_is_the_table),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
