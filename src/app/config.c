/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader that holds a YAML document against the table of keys. libyaml's document form is walked with a
 * list of places still to read, never by recursion.
 */
#include "app/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "app/config_keys.h"
#include "base/error.h"

/* A mapping that is still to be read. */
struct place {
    yaml_node_t *node;
    const char *prefix; /* of its keys' paths, with the dot; static */
    enum dbk_config_scope scope;
    void *target;
    const char *shown; /* the prefix in messages */
};
#define PLACES_MAX (8 + DAYBOOK_CONSUMERS_MAX * (1 + 2 * DAYBOOK_WORKER_SINKS_MAX))

struct reader {
    struct dbk_config_source source;
    yaml_document_t document;
    size_t place_count;
    struct place places[PLACES_MAX];
};

static struct dbk_config_mark mark_of(const yaml_node_t *node)
{
    return (struct dbk_config_mark){(uint32_t)node->start_mark.line + 1,
                                    (uint32_t)node->start_mark.column + 1};
}

static struct dbk_config_marks *marks_of(enum dbk_config_scope scope, void *target)
{
    switch (scope) {
    case DBK_OF_CONFIG:
        return &((struct dbk_config *)target)->marks;
    case DBK_OF_CONSUMER:
        return &((struct dbk_config_consumer *)target)->marks;
    case DBK_OF_SINK:
        return &((struct dbk_config_sink *)target)->marks;
    }
    return NULL;
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
    return dbk_config_refuse(&r->source, mark_of(node), path, message);
}

static enum daybook_code unknown_key(const struct reader *r, const yaml_node_t *node,
                                     const char *prefix, const char *key)
{
    char message[320];
    int n = snprintf(message, sizeof message, "unknown key \"%.60s\"; known here:", key);
    size_t prefix_len = strlen(prefix);
    for (size_t i = 0; i < dbk_config_key_count && n > 0 && (size_t)n < sizeof message; i++) {
        const char *rest = dbk_config_keys[i].path + prefix_len;
        if (strncmp(dbk_config_keys[i].path, prefix, prefix_len) == 0 &&
            strpbrk(rest, ".[") == NULL) {
            n += snprintf(message + n, sizeof message - (size_t)n, " %s", rest);
        }
    }
    return dbk_config_refuse(&r->source, mark_of(node), "", message);
}

static void push(struct reader *r, yaml_node_t *node, const char *prefix,
                 enum dbk_config_scope scope, void *target)
{
    r->places[r->place_count++] = (struct place){node, prefix, scope, target, prefix};
}

/* The list whose entries have the keys of `sinks[]` under another name. */
static bool is_advisory(const struct dbk_config_key *list)
{
    return strcmp(list->path, "consumers[].advisory") == 0;
}

static void *new_element(struct reader *r, const struct dbk_config_key *list,
                         const struct place *place, size_t index)
{
    if (list->scope == DBK_OF_CONFIG) {
        r->source.config->consumer_count = index + 1;
        return &r->source.config->consumers[index];
    }
    struct dbk_config_consumer *consumer = place->target;
    if (is_advisory(list)) {
        consumer->advisory_count = index + 1;
        return &consumer->advisory[index];
    }
    consumer->sink_count = index + 1;
    return &consumer->sinks[index];
}

static enum daybook_code read_list(struct reader *r, const struct dbk_config_key *list,
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
        return dbk_config_refuse(&r->source, mark_of(node), list->path, message);
    }
    enum dbk_config_scope scope = list->scope == DBK_OF_CONFIG ? DBK_OF_CONSUMER : DBK_OF_SINK;
    for (size_t i = 0; i < count; i++) {
        yaml_node_t *item =
            yaml_document_get_node(&r->document, node->data.sequence.items.start[i]);
        if (item->type != YAML_MAPPING_NODE) {
            return wrong_kind(r, item, list->path, "a mapping (- name: ...)");
        }
        void *element = new_element(r, list, place, i);
        dbk_config_put_defaults(scope, element);
        push(r, item, scope == DBK_OF_CONSUMER ? "consumers[]." : DBK_SINK_PREFIX, scope, element);
        if (is_advisory(list)) {
            r->places[r->place_count - 1].shown = DBK_ADVISORY_PREFIX;
        }
    }
    if (list->scope == DBK_OF_CONFIG) {
        r->source.config->consumer_count = count;
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
    size_t i = dbk_config_key_index(path);
    /* A dot or bracket in a key would name a place elsewhere in the table. */
    if (i == dbk_config_key_count || strpbrk(name, ".[") != NULL ||
        strlen(name) != key_node->data.scalar.length) {
        return unknown_key(r, key_node, place->prefix, name);
    }
    (void)snprintf(path, sizeof path, "%s%.100s", place->shown, name);
    struct dbk_config_marks *marks = marks_of(place->scope, place->target);
    if (marks->at[i].line != 0) {
        return dbk_config_refuse(&r->source, mark_of(key_node), path, "is given twice: keep one");
    }
    marks->at[i] = mark_of(node);
    if (dbk_config_keys[i].type == DBK_KEY_SECTION) {
        if (node->type != YAML_MAPPING_NODE) {
            return wrong_kind(r, node, path, "a mapping");
        }
        push(r, node,
             strcmp(path, "listen") == 0     ? "listen."
             : strcmp(path, "journal") == 0  ? "journal."
             : strcmp(path, "shutdown") == 0 ? "shutdown."
                                             : "log.",
             DBK_OF_CONFIG, r->source.config);
        return DAYBOOK_OK;
    }
    if (dbk_config_keys[i].type == DBK_KEY_LIST) {
        return read_list(r, &dbk_config_keys[i], place, node);
    }
    if (node->type != YAML_SCALAR_NODE) {
        return wrong_kind(r, node, path, "a single value");
    }
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length) {
        return dbk_config_refuse(&r->source, marks->at[i], path, "holds a NUL: remove it");
    }
    struct daybook_error err = {0};
    if (dbk_config_put(&dbk_config_keys[i], text, place->target, &err) != DAYBOOK_OK) {
        return dbk_config_refuse(&r->source, marks->at[i], path, err.message);
    }
    return DAYBOOK_OK;
}

/* Whether a mapping can have this key: the kind of a destination, or the engine of the journal, decides. */
static bool has_key(const struct place *place, const struct dbk_config_key *key)
{
    int kind = place->scope == DBK_OF_SINK     ? ((struct dbk_config_sink *)place->target)->kind
               : place->scope == DBK_OF_CONFIG ? ((struct dbk_config *)place->target)->backend
                                               : 0;
    return key->kinds == 0 || (key->kinds & 1u << kind) != 0;
}

static bool is_required(const struct dbk_config_key *key)
{
    return key->fallback == NULL && key->type != DBK_KEY_SECTION &&
           !(key->type == DBK_KEY_LIST && key->scope == DBK_OF_CONFIG);
}

/* A key of a journal on another engine. */
static enum daybook_code refuse_engine(const struct reader *r, size_t i)
{
    const struct dbk_config *config = r->source.config;
    char message[160];
    int other = config->backend == DBK_BACKEND_LOG ? DBK_BACKEND_POSTGRES : DBK_BACKEND_LOG;

    (void)snprintf(message, sizeof message,
                   "is no key of backend %s: remove it, or write backend: %s",
                   dbk_backend_name(config->backend), dbk_backend_name(other));
    return dbk_config_refuse(&r->source, config->marks.at[i], dbk_config_keys[i].path, message);
}

/* A key that a destination of another kind has; tells what this one has. */
static enum daybook_code refuse_foreign(const struct reader *r, const struct place *place, size_t i)
{
    const struct dbk_config_sink *sink = place->target;
    const char *name = strrchr(dbk_config_keys[i].path, '.') + 1;
    char message[320];
    int n = snprintf(message, sizeof message,
                     "is no key of kind %s; it has:", dbk_sink_kind_name(sink->kind));
    for (size_t k = 0; k < dbk_config_key_count && n > 0 && (size_t)n < sizeof message; k++) {
        if (dbk_config_keys[k].scope == DBK_OF_SINK && has_key(place, &dbk_config_keys[k])) {
            n += snprintf(message + n, sizeof message - (size_t)n, " %s",
                          strrchr(dbk_config_keys[k].path, '.') + 1);
        }
    }
    return dbk_config_refuse(&r->source, sink->marks.at[i], name, message);
}

/* A key without a default that is missing in a mapping, or one that does not belong there. */
static enum daybook_code check_keys(const struct reader *r, const struct place *place)
{
    const struct dbk_config_marks *marks = marks_of(place->scope, place->target);
    for (size_t i = 0; i < dbk_config_key_count; i++) {
        if (dbk_config_keys[i].scope != place->scope) {
            continue;
        }
        bool given = marks->at[i].line != 0;
        if (given && !has_key(place, &dbk_config_keys[i])) {
            return place->scope == DBK_OF_CONFIG ? refuse_engine(r, i)
                                                 : refuse_foreign(r, place, i);
        }
        if (!given && is_required(&dbk_config_keys[i]) && has_key(place, &dbk_config_keys[i])) {
            char path[160];
            (void)snprintf(path, sizeof path, "%s%s", place->shown,
                           dbk_config_keys[i].path + strlen(place->prefix));
            return dbk_config_refuse(&r->source, mark_of(place->node), path, "is missing: add it");
        }
    }
    return DAYBOOK_OK;
}

/* Without a name of its own a destination is called by its kind. */
static void name_sink(struct dbk_config_sink *sink)
{
    if (sink->name[0] == '\0') {
        (void)snprintf(sink->name, sizeof sink->name, "%s", dbk_sink_kind_name(sink->kind));
    }
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
        if (place.scope == DBK_OF_SINK) {
            name_sink(place.target);
        }
    }
    return DAYBOOK_OK;
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
    return dbk_config_refuse(&r->source, mark, "", message);
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
        code = dbk_config_refuse(&r->source, mark_of(root), "",
                                 "a second document begins: keep one in the file");
    }
    yaml_document_delete(&next);
    return code;
}

static enum daybook_code read_document(struct reader *r, yaml_parser_t *parser)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    dbk_config_put_defaults(DBK_OF_CONFIG, r->source.config);
    enum daybook_code code = DAYBOOK_OK;
    bool empty = root == NULL || (root->type == YAML_SCALAR_NODE &&
                                  dbk_config_is_null((const char *)root->data.scalar.value));
    if (!empty && root->type != YAML_MAPPING_NODE) {
        return wrong_kind(r, root, "", "a mapping of keys");
    }
    if (!empty) {
        push(r, root, "", DBK_OF_CONFIG, r->source.config);
        code = read_places(r);
    }
    if (code == DAYBOOK_OK && root != NULL) {
        code = check_single(r, parser);
    }
    return code == DAYBOOK_OK ? dbk_config_check(&r->source) : code;
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
    r->source = (struct dbk_config_source){.name = name, .config = config, .err = err};
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
