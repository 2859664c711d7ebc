/* SPDX-License-Identifier: Apache-2.0 */
/* What two keys may not say together, and the consumer that there is where none is named. See config_keys.h. */
#include "app/config_keys.h"

#include <string.h>

#include "base/error.h"

enum daybook_code dbk_config_refuse(const struct dbk_config_source *source,
                                    struct dbk_config_mark mark, const char *path,
                                    const char *message)
{
    return dbk_fail(source->err, DAYBOOK_BAD_CONFIG, "%s:%u:%u: %s%s%s", source->name, mark.line,
                    mark.column, path, path[0] != '\0' ? ": " : "", message);
}

static struct dbk_config_mark mark_at(const struct dbk_config_marks *marks, const char *path,
                                      const char *otherwise)
{
    struct dbk_config_mark mark = marks->at[dbk_config_key_index(path)];
    return mark.line != 0 ? mark : marks->at[dbk_config_key_index(otherwise)];
}

static enum daybook_code check_listen(const struct dbk_config_source *source)
{
    struct dbk_config *c = source->config;
    struct dbk_config_mark mark = mark_at(&c->marks, "listen.address", "listen");
    if (c->listen_address[0] == '\0') {
        return c->listen_unix[0] != '\0'
                   ? DAYBOOK_OK
                   : dbk_config_refuse(
                         source, mark, "listen.address",
                         "is null and there is no listen.unix: the daemon would listen "
                         "nowhere; give one of them");
    }
    struct daybook_error err = {0};
    if (dbk_address_parse(c->listen_address, &c->address, &err) != DAYBOOK_OK) {
        return dbk_config_refuse(source, mark, "listen.address", err.message);
    }
    if (!dbk_address_is_loopback(&c->address) && !c->insecure) {
        return dbk_config_refuse(
            source, mark, "listen.address",
            "is not loopback, and without tokens everybody who reaches it could append "
            "and read: listen on 127.0.0.1, or say insecure: true");
    }
    return DAYBOOK_OK;
}

static enum daybook_code check_consumer(const struct dbk_config_source *source, size_t index)
{
    const struct dbk_config_consumer *n = &source->config->consumers[index];
    for (size_t i = 0; i < index; i++) {
        if (strcmp(source->config->consumers[i].name, n->name) == 0) {
            return dbk_config_refuse(source, n->marks.at[dbk_config_key_index("consumers[].name")],
                                     "consumers[].name",
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
        return dbk_config_refuse(
            source, mark_at(&n->marks, "consumers[].write_timeout", "consumers[].lease"),
            "consumers[].write_timeout", message);
    }
    return DAYBOOK_OK;
}

static bool is_name_of(const char *text, const char *more)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    char taken[sizeof letters + 16];

    (void)snprintf(taken, sizeof taken, "%s%s", letters, more);
    return text[0] != '\0' && strchr(letters, text[0]) != NULL &&
           strspn(text, taken) == strlen(text);
}

static bool is_schema(const char *text)
{
    return text[0] != '\0' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text) &&
           (text[0] < '0' || text[0] > '9') && strncmp(text, "pg_", 3) != 0;
}

/* Nobody is told what stands there: it may be the connection string itself. */
static enum daybook_code check_postgres(const struct dbk_config_source *r)
{
    const struct dbk_config *c = r->config;
    struct dbk_config_mark dsn_env = mark_at(&c->marks, "journal.dsn_env", "journal.backend");
    struct dbk_config_mark service = mark_at(&c->marks, "journal.service", "journal.backend");

    if (c->backend != DBK_BACKEND_POSTGRES) {
        return DAYBOOK_OK;
    }
    if (c->dsn_env[0] == '\0' && c->service[0] == '\0') {
        return dbk_config_refuse(r, dsn_env, "journal.dsn_env",
                                 "is missing: name the environment variable that holds the "
                                 "connection string, or give journal.service");
    }
    if (c->dsn_env[0] != '\0' && c->service[0] != '\0') {
        return dbk_config_refuse(r, service, "journal.service",
                                 "stands beside journal.dsn_env: keep one of them");
    }
    if (c->dsn_env[0] != '\0' && !is_name_of(c->dsn_env, "0123456789")) {
        return dbk_config_refuse(
            r, dsn_env, "journal.dsn_env",
            "is no name of an environment variable: write letters, digits and _ "
            "(the connection string belongs into that variable, not here)");
    }
    if (c->service[0] != '\0' && !is_name_of(c->service, "0123456789.-")) {
        return dbk_config_refuse(
            r, service, "journal.service",
            "is no name of an entry of the service file: write letters, digits, "
            "_, . and -");
    }
    if (!is_schema(c->schema)) {
        return dbk_config_refuse(
            r, mark_at(&c->marks, "journal.schema", "journal.backend"), "journal.schema",
            "is no name of a schema: write a-z, 0-9 and _, without a digit or pg_ "
            "at the beginning");
    }
    return DAYBOOK_OK;
}

/* A destination of some consumer, and how messages call its keys. */
struct found_sink {
    const struct dbk_config_sink *sink;
    const char *prefix;
};

static enum daybook_code refuse_sink(const struct dbk_config_source *source,
                                     const struct found_sink *found, const char *key,
                                     const char *message)
{
    char path[160];
    char shown[160];
    (void)snprintf(path, sizeof path, DBK_SINK_PREFIX "%s", key);
    (void)snprintf(shown, sizeof shown, "%s%s", found->prefix, key);
    return dbk_config_refuse(source, mark_at(&found->sink->marks, path, DBK_SINK_PREFIX "kind"),
                             shown, message);
}

/* Two destinations that would be taken for one another, or would write into one another's lines. */
static enum daybook_code check_two_sinks(const struct dbk_config_source *source,
                                         const struct found_sink *found,
                                         const struct dbk_config_sink *b)
{
    const struct dbk_config_sink *a = found->sink;
    if (strcmp(a->name, b->name) == 0) {
        return refuse_sink(
            source, found, "name",
            "two destinations have this name (without one it is the kind): give each its own");
    }
    if (a->kind == DBK_SINK_STDOUT && b->kind == DBK_SINK_STDOUT) {
        return refuse_sink(source, found, "kind",
                           "another destination is standard output already: keep one");
    }
    if (a->kind == DBK_SINK_FILE && b->kind == DBK_SINK_FILE && strcmp(a->path, b->path) == 0) {
        return refuse_sink(source, found, "path",
                           "another destination writes to this file: give each its own");
    }
    return DAYBOOK_OK;
}

/* Metrics tell destinations apart by their names alone, advisory ones too. */
static enum daybook_code check_sinks(const struct dbk_config_source *source)
{
    const struct dbk_config_sink *seen[2 * DAYBOOK_CONSUMERS_MAX * DAYBOOK_WORKER_SINKS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < source->config->consumer_count; i++) {
        const struct dbk_config_consumer *n = &source->config->consumers[i];
        for (size_t k = 0; k < n->sink_count + n->advisory_count; k++) {
            bool advisory = k >= n->sink_count;
            struct found_sink found = {advisory ? &n->advisory[k - n->sink_count] : &n->sinks[k],
                                       advisory ? DBK_ADVISORY_PREFIX : DBK_SINK_PREFIX};
            for (size_t s = 0; s < count; s++) {
                enum daybook_code code = check_two_sinks(source, &found, seen[s]);
                if (code != DAYBOOK_OK) {
                    return code;
                }
            }
            seen[count++] = found.sink;
        }
    }
    return DAYBOOK_OK;
}

static enum daybook_code default_consumer(const struct dbk_config_source *source)
{
    struct dbk_config *c = source->config;
    if (c->marks.at[dbk_config_key_index("consumers")].line != 0) {
        return DAYBOOK_OK;
    }
    if (c->backend == DBK_BACKEND_POSTGRES) {
        return dbk_config_refuse(source, mark_at(&c->marks, "journal.backend", "journal"),
                                 "consumers",
                                 "is missing: a journal in PostgreSQL has no data directory for a "
                                 "ledger of its own; say where it is delivered");
    }
    c->consumer_count = 1;
    struct dbk_config_consumer *n = &c->consumers[0];
    dbk_config_put_defaults(DBK_OF_CONSUMER, n);
    (void)snprintf(n->name, sizeof n->name, "billing");
    n->sink_count = 1;
    dbk_config_put_defaults(DBK_OF_SINK, &n->sinks[0]);
    (void)snprintf(n->sinks[0].name, sizeof n->sinks[0].name, "ledger");
    size_t room = sizeof n->sinks[0].path;
    if ((size_t)snprintf(n->sinks[0].path, room, "%s/usage.db", c->journal_path) >= room) {
        return dbk_config_refuse(source, c->marks.at[dbk_config_key_index("journal.path")],
                                 "journal.path", "is too long: shorten it");
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_config_check(const struct dbk_config_source *source)
{
    enum daybook_code code = check_listen(source);
    if (code == DAYBOOK_OK) {
        code = check_postgres(source);
    }
    if (code == DAYBOOK_OK) {
        code = default_consumer(source);
    }
    for (size_t i = 0; i < source->config->consumer_count && code == DAYBOOK_OK; i++) {
        code = check_consumer(source, i);
    }
    return code == DAYBOOK_OK ? check_sinks(source) : code;
}
