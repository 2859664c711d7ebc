/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: a YAML file checked against one table of keys.
 *
 * Promises: a key that is not in the table, a value of the wrong type and a value that cannot work are
 * refused with file, line, column and the mend; what is not written has its default, and the defaults
 * are read by the same functions as a file. The table also writes docs/configuration.md, so that page
 * and program cannot differ. Threads: owner; read-only once loaded.
 */
#ifndef DBK_APP_CONFIG_H
#define DBK_APP_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

#include <daybook/file.h>
#include <daybook/journal.h>
#include <daybook/log.h>
#include <daybook/postgres.h>
#include <daybook/sqlite.h>
#include <daybook/worker.h>

#define DBK_CONFIG_PATH_MAX 1024u
#define DBK_CONFIG_SINK_NAME_MAX 63u
#define DBK_CONFIG_ENV_MAX 128u
#define DBK_CONFIG_SERVICE_MAX 64u
#define DBK_CONFIG_FILE_BYTES_MAX (1024u * 1024u)
#define DBK_CONFIG_KEYS_MAX 64u

enum dbk_log_level { DBK_LOG_DEBUG, DBK_LOG_INFO, DBK_LOG_WARNING, DBK_LOG_ERROR };
enum dbk_log_format { DBK_LOG_TEXT, DBK_LOG_JSON };
enum dbk_sink_kind { DBK_SINK_SQLITE, DBK_SINK_FILE, DBK_SINK_STDOUT };

/* What to do with a journal that is refused as damaged. */
enum dbk_damage { DBK_DAMAGE_REFUSE, DBK_DAMAGE_REPAIR };

/* The engine below the journal. */
enum dbk_backend { DBK_BACKEND_LOG, DBK_BACKEND_POSTGRES };

/* What a producer is told whose event could not be made durable (M2). */
enum dbk_undurable { DBK_UNDURABLE_REFUSE, DBK_UNDURABLE_SERVE };

/* Where in the file a value stands, from 1; line 0: it was not given. */
struct dbk_config_mark {
    uint32_t line;
    uint32_t column;
};
struct dbk_config_marks {
    struct dbk_config_mark at[DBK_CONFIG_KEYS_MAX]; /* by place in the table of keys */
};

struct dbk_config_sink {
    int kind; /* enum dbk_sink_kind */
    char name[DBK_CONFIG_SINK_NAME_MAX + 1];
    char path[DBK_CONFIG_PATH_MAX]; /* sqlite, file */
    char table[128];                /* sqlite */
    int columns;                    /* sqlite: enum daybook_columns */
    int format;                     /* file, stdout: enum daybook_line_format */
    int rotate;                     /* file: enum daybook_rotate */
    uint64_t rotate_bytes;          /* file; 0: never */
    struct dbk_config_marks marks;
};

struct dbk_config_consumer {
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    uint64_t claim_batch;
    uint64_t claim_bytes;
    uint64_t key_run;
    int64_t lease_ms;
    int64_t write_timeout_ms;
    int64_t poll_interval_ms;
    int64_t maintain_interval_ms;
    uint64_t max_hand_outs;
    uint64_t reject_brake;
    struct daybook_start start;
    size_t sink_count;
    struct dbk_config_sink sinks[DAYBOOK_WORKER_SINKS_MAX];
    uint64_t advisory_events;
    uint64_t advisory_bytes;
    size_t advisory_count;
    struct dbk_config_sink advisory[DAYBOOK_WORKER_SINKS_MAX];
    struct dbk_config_marks marks;
};

/* A listening address of the IP families; `length` 0: none. */
struct dbk_config_address {
    struct sockaddr_storage storage;
    socklen_t length;
};

struct dbk_config {
    char file[DBK_CONFIG_PATH_MAX]; /* empty: none was given, all is default */
    char listen_address[256];       /* empty: not on TCP */
    char listen_unix[108];          /* empty: not on a Unix socket */
    struct dbk_config_address address;
    bool insecure;
    uint64_t max_body_bytes;
    uint64_t max_connections;
    int64_t idle_timeout_ms;
    int backend;                            /* enum dbk_backend */
    char journal_path[DBK_CONFIG_PATH_MAX]; /* log */
    char dsn_env
        [DBK_CONFIG_ENV_MAX]; /* postgres: the variable that holds the connection string, or */
    char service[DBK_CONFIG_SERVICE_MAX]; /* an entry of libpq's service file */
    char schema[DAYBOOK_POSTGRES_SCHEMA_MAX + 1];
    bool create_schema;
    uint64_t connections;
    int identity; /* enum daybook_identity */
    uint64_t max_events;
    uint64_t max_bytes;
    uint64_t min_free_disk;
    int tail;   /* enum daybook_tail_policy */
    int damage; /* enum dbk_damage */
    uint64_t max_event_bytes;
    uint64_t max_delivery_attempts;
    int64_t retain_acknowledged_ms;
    int capacity_policy; /* enum daybook_capacity_policy */
    int on_undurable;    /* enum dbk_undurable */
    int64_t operation_timeout_ms;
    int64_t drain_grace_ms;
    int64_t drain_deadline_ms;
    int64_t flush_timeout_ms;
    int log_level;  /* enum dbk_log_level */
    int log_format; /* enum dbk_log_format */
    size_t consumer_count;
    struct dbk_config_consumer consumers[DAYBOOK_CONSUMERS_MAX];
    struct dbk_config_marks marks;
};

/* Reads the configuration. `path` NULL: the defaults. *ret_config: owned, release with dbk_config_free.
 * Returns OK; BAD_CONFIG (the message begins with file:line:column); NOT_FOUND (no such file);
 * BACKEND (cannot be read); NO_MEMORY. */
enum daybook_code dbk_config_load(const char *path, struct dbk_config **ret_config,
                                  struct daybook_error *err);
/* The same for text in memory; `name` stands for the file in messages. */
enum daybook_code dbk_config_parse(const char *name, struct daybook_bytes yaml,
                                   struct dbk_config **ret_config, struct daybook_error *err);
void dbk_config_free(struct dbk_config *config);

/* `"sqlite"`: the word of the configuration for a kind of destination. */
const char *dbk_sink_kind_name(int kind);

/* Why the journal of this configuration is telemetry grade (M1), for people; NULL: it is not. */
const char *dbk_config_telemetry_reason(const struct dbk_config *config);

/* What an event has to be, from the configuration. */
struct daybook_event_limits dbk_config_event_limits(const struct dbk_config *config);

/* Writes docs/configuration.md from the table of keys. */
void dbk_config_write_docs(FILE *out);

/* `"10s"`, `"250ms"`, `"16MiB"`: reads a number with its unit. Returns OK or BAD_CONFIG with the mend. */
enum daybook_code dbk_duration_parse(const char *text, int64_t *ret_ms, struct daybook_error *err);
enum daybook_code dbk_size_parse(const char *text, uint64_t *ret_bytes, struct daybook_error *err);
/* `"oldest"`, `"now"`, a position, a time (RFC 3339). Returns OK or BAD_CONFIG with the mend. */
enum daybook_code dbk_start_parse(const char *text, struct daybook_start *ret,
                                  struct daybook_error *err);
/* `"127.0.0.1:8377"`, `"[::1]:0"`, `"localhost:8377"`. */
enum daybook_code dbk_address_parse(const char *text, struct dbk_config_address *ret,
                                    struct daybook_error *err);
bool dbk_address_is_loopback(const struct dbk_config_address *address);

#endif
