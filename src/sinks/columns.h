/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual columns of model usage: which members of a record fill them, shared by every relational
 * destination.
 *
 * One scan of the record; only its top level is looked at; the first mistake that matters is named.
 * A text column takes a string, or a number as it is written; an integer column takes a number
 * whose exact decimal value is an integer of 64 bits (`1e2` and `100.0` are 100, `1.5` does not
 * fit). A member that is null leaves its column empty, like one that is missing.
 *
 * Pure. Threads: any.
 */
#ifndef DBK_SINKS_COLUMNS_H
#define DBK_SINKS_COLUMNS_H

#include <daybook/base.h>

enum dbk_column {
    DBK_COLUMN_TRACE_ID,
    DBK_COLUMN_MODEL,
    DBK_COLUMN_TARGET_PROVIDER,
    DBK_COLUMN_TARGET_MODEL,
    DBK_COLUMN_STATUS,
    DBK_COLUMN_INPUT_TOKENS,
    DBK_COLUMN_OUTPUT_TOKENS,
    DBK_COLUMN_CACHE_READ_TOKENS,
    DBK_COLUMN_CACHE_WRITE_TOKENS,
    DBK_COLUMN_REASONING_TOKENS,
    DBK_COLUMN_COST_MICRODOLLARS,
    DBK_COLUMN_LATENCY_MS,
    DBK_COLUMN_ATTEMPTS,
    DBK_COLUMN_COUNT
};

#define DBK_COLUMN_TEXT_COUNT 5u
#define DBK_COLUMN_TEXT_MAX 1024u /* bytes of a text column; a longer string does not fit */

enum dbk_column_type { DBK_COLUMN_TEXT, DBK_COLUMN_INTEGER };

/* What a value that does not fit does: empties the column, or rejects the row, because a sum that
 * skips it would bill too little. */
enum dbk_column_weight { DBK_COLUMN_LIGHT, DBK_COLUMN_BILLED };

struct dbk_column_info {
    const char *name;
    enum dbk_column_type type;
    enum dbk_column_weight weight;
};

/* Of every column, in order. */
const struct dbk_column_info *dbk_column_info(enum dbk_column column);

enum dbk_value_kind { DBK_VALUE_EMPTY, DBK_VALUE_TEXT, DBK_VALUE_INTEGER, DBK_VALUE_UNFIT };

struct dbk_column_value {
    enum dbk_value_kind kind;
    int64_t integer;
    struct daybook_bytes text; /* of UNFIT: the value as it stands in the record */
};

/* The values of one record. Borrows from the record and from itself: do not copy. */
struct dbk_columns {
    struct dbk_column_value values[DBK_COLUMN_COUNT];
    uint32_t unfit;        /* how many do not fit */
    uint32_t unfit_billed; /* of these, in columns whose weight is BILLED */
    size_t scratch_used;
    char scratch[DBK_COLUMN_TEXT_COUNT * DBK_COLUMN_TEXT_MAX]; /* strings that held escapes */
};

/* Reads the columns of a record that has passed `daybook_event_check`. A record that is not one
 * yields empty columns, never a crash. */
void dbk_columns_read(struct daybook_bytes record, struct dbk_columns *ret);

#endif
