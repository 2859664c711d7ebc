/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine: a journal in a schema of a PostgreSQL database (13 or later, encoding UTF8), which
 * any number of processes append to and deliver from. It keeps the rules of the contract as the log does.
 *
 * The DSN is a secret: no error, log line or figure of this engine holds it or a part of it.
 */
#ifndef DAYBOOK_POSTGRES_H
#define DAYBOOK_POSTGRES_H

#include <daybook/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAYBOOK_POSTGRES_SCHEMA_MAX 63u /**< `[a-z_][a-z0-9_]*`, 1 to 63 */
#define DAYBOOK_POSTGRES_CONNECTIONS_MAX 16u

/** Whose clock decides (J2). */
enum daybook_postgres_clock {
    DAYBOOK_POSTGRES_CLOCK_STORE, /**< the database's; a given `now` is ignored */
    DAYBOOK_POSTGRES_CLOCK_CALLER /**< the caller's: one process, and tests */
};

/** What an opening does about a schema that is missing or older than this build's. */
enum daybook_postgres_create {
    DAYBOOK_POSTGRES_CREATE_NO, /**< refuse, and say what to run */
    DAYBOOK_POSTGRES_CREATE_YES /**< make it, or bring it forward */
};

/** Zero means the default everywhere. */
struct daybook_postgres_options {
    const char *dsn;    /**< a libpq connection string or URI; borrowed for the call */
    const char *schema; /**< NULL: `"daybook"` */
    enum daybook_postgres_create create;
    struct daybook_capacity capacity;
    enum daybook_postgres_clock clock;
    uint32_t append_connections;   /**< threads that append; default 2 */
    uint32_t delivery_connections; /**< for claims and verdicts; default 4 */
    uint32_t query_connections;    /**< for figures, listings, operators; default 2 */
    uint32_t connect_timeout_ms;   /**< default 10 s */
    uint32_t statement_timeout_ms; /**< of one statement, on the server; default 30 s */
    uint32_t lock_timeout_ms;      /**< of one wait for a lock, on the server; default 10 s */
};

/** Opens a journal; the appending threads run from then on.
 * @param options borrowed for the call. @param ret_journal owned: release with `daybook_journal_close`.
 * Returns OK; retry: NO_MEMORY; refused: BAD_CONFIG (a schema that cannot be one, an encoding that is not
 * UTF8, an older server, tables that are missing); BACKEND (no connection); NEWER_FORMAT (a schema of a newer
 * build that this one cannot work with).
 * Durable: what a journal that the server has said COMMIT to is; the mode is DAYBOOK_MODE_TELEMETRY_GRADE where
 * the server runs without fsync. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_postgres_open(
    const struct daybook_postgres_options *options, struct daybook_journal **ret_journal,
    struct daybook_error *err);

/** What a database holds, for `daybook migrate`. */
struct daybook_postgres_schema_report {
    uint32_t server_version; /**< as libpq says it: 150018 */
    uint32_t found;          /**< version of the schema; 0: there is none */
    uint32_t wanted;         /**< of this build */
};

/** Looks at the schema, and with DAYBOOK_POSTGRES_CREATE_YES makes it or brings it forward, in one transaction;
 * what is whole already is left alone.
 * Returns OK (also where `found` is less than `wanted` and nothing was to be done); otherwise as
 * daybook_postgres_open. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_postgres_migrate(
    const struct daybook_postgres_options *options,
    struct daybook_postgres_schema_report *ret_report, struct daybook_error *err);

/** The statements that bring schema `schema` from version `from` (0: none) to this build's, for somebody
 * who runs them by hand. @param ret_sql owned: release with free(3), NUL-terminated; empty where there is
 * nothing to do. Returns OK; NO_MEMORY; BAD_CONFIG. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_postgres_schema_sql(
    const char *schema, uint32_t from, char **ret_sql, struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
