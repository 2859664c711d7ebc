/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite destination: a table in a local file, one transaction a batch, `synchronous=FULL`.
 */
#ifndef DAYBOOK_SQLITE_H
#define DAYBOOK_SQLITE_H

#include <daybook/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a value that does not fit a column does to its row. */
enum daybook_columns { DAYBOOK_COLUMNS_STRICT, DAYBOOK_COLUMNS_LENIENT };

struct daybook_sqlite_options {
    const char *name;  /**< metrics label; NULL: `"sqlite"` */
    const char *path;  /**< file, made if it is missing */
    const char *table; /**< NULL: `"usage"`; made if it is missing, with its key */
    enum daybook_columns columns;
};

/** Opens the destination; the file and the table are made at the first write or check.
 * @param options borrowed for the call. @param ret_sink owned: release with `ops->close`.
 * Returns OK; NO_MEMORY; BAD_CONFIG (a table name that cannot be one, or SQLite was built out).
 * Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_sqlite_open(
    const struct daybook_sqlite_options *options, struct daybook_sink **ret_sink,
    struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
