/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration, inside this room:
 *
 *   config_keys.c   the table of keys, and a text that becomes the value of one
 *   config.c        a YAML document that is held against the table
 *   config_check.c  what two keys may not say together
 *   config_docs.c   docs/configuration.md, from the table
 *   config_units.c  numbers with units, addresses, starts
 *
 * Threads: one at a time per configuration that is read.
 */
#ifndef DBK_APP_CONFIG_KEYS_H
#define DBK_APP_CONFIG_KEYS_H

#include "app/config.h"

enum dbk_config_type {
    DBK_KEY_SECTION, /* a mapping whose keys are in the table */
    DBK_KEY_LIST,    /* a list of such mappings */
    DBK_KEY_TEXT,    /* char[], `most` is its size */
    DBK_KEY_TEXT_OR_NULL,
    DBK_KEY_NAME, /* a consumer's or destination's name: [a-z0-9_-] */
    DBK_KEY_BOOL,
    DBK_KEY_CHOICE,   /* int */
    DBK_KEY_COUNT,    /* uint64_t */
    DBK_KEY_SIZE,     /* uint64_t, bytes */
    DBK_KEY_DURATION, /* int64_t, milliseconds */
    DBK_KEY_START     /* struct daybook_start */
};

enum dbk_config_scope { DBK_OF_CONFIG, DBK_OF_CONSUMER, DBK_OF_SINK };

struct dbk_config_key {
    const char *path;
    enum dbk_config_type type;
    enum dbk_config_scope scope;
    /* Kinds of destinations, or engines of the journal, that have this key, a bit each; 0: all. */
    unsigned kinds;
    size_t offset;
    uint64_t least;
    uint64_t most;
    const char *fallback;       /* as it would be written; NULL: required, or absent */
    const char *const *choices; /* the number of a choice is its place */
    const char *about;
};

#define DBK_MIB (UINT64_C(1) << 20)
#define DBK_GIB (UINT64_C(1) << 30)
#define DBK_HOUR_MS UINT64_C(3600000)
#define DBK_DAY_MS (24 * DBK_HOUR_MS)
#define DBK_SINK_PREFIX "consumers[].sinks[]."
#define DBK_ADVISORY_PREFIX "consumers[].advisory[]."

extern const struct dbk_config_key dbk_config_keys[];
extern const size_t dbk_config_key_count;
/* The place of a key in the table; dbk_config_key_count: there is none. */
size_t dbk_config_key_index(const char *path);
/* `"log"`: the word of the configuration for an engine. */
const char *dbk_backend_name(int backend);
/* Whether the text stands for no value. */
bool dbk_config_is_null(const char *text);
/* Makes the text the value of the key in `base`, which is what its scope says. Returns OK or BAD_CONFIG with
 * the mend. */
enum daybook_code dbk_config_put(const struct dbk_config_key *key, const char *text, void *base,
                                 struct daybook_error *err);
/* The defaults of every key of a scope. */
void dbk_config_put_defaults(enum dbk_config_scope scope, void *target);

/* What is read, and where what is wrong with it is told. */
struct dbk_config_source {
    const char *name;
    struct dbk_config *config;
    struct daybook_error *err;
};
/* `name:line:column: path: message`. Returns BAD_CONFIG. */
enum daybook_code dbk_config_refuse(const struct dbk_config_source *source,
                                    struct dbk_config_mark mark, const char *path,
                                    const char *message);

/* What needs two keys; fills in the consumer that there is where none is named. */
enum daybook_code dbk_config_check(const struct dbk_config_source *source);

#endif
