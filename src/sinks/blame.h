/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is to blame (contract W12): the one table that turns the codes of destinations into the row,
 * the destination, or nobody that could be named. A sink asks here and decides nothing itself.
 *
 * Pure. Threads: any.
 */
#ifndef DBK_SINKS_BLAME_H
#define DBK_SINKS_BLAME_H

#include <daybook/sink.h>

enum dbk_blame {
    DBK_BLAME_DESTINATION, /* an outage or its configuration: unavailable */
    DBK_BLAME_ROW,         /* this row, on its own account: rejected */
    DBK_BLAME_NOBODY       /* no reason known: refused, searched */
};

/* Whether one row was being written when the code came: a code that blames a row cannot do so where
 * none was at hand (preparing, beginning, committing). */
enum dbk_blame_moment { DBK_MOMENT_ROW, DBK_MOMENT_BETWEEN };

/* `result` is a (extended) result code of SQLite that is none of OK, ROW and DONE. */
enum dbk_blame dbk_blame_sqlite(int result, enum dbk_blame_moment moment);

/* The name of a result code, `"SQLITE_CONSTRAINT_CHECK"`; that of its primary code where the extended
 * one is not known. Static. */
const char *dbk_sqlite_result_name(int result);

/* Fills in the destination's own words from SQLite's message: the code's name, and the constraint or
 * column that the message names. `message` may be NULL. */
void dbk_sqlite_words(int result, const char *message, struct daybook_words *ret);

/* Copies text into a field of `size` bytes, cut between UTF-8 sequences; control bytes become spaces,
 * because words end in one log line. */
void dbk_words_copy(char *field, size_t size, struct daybook_bytes text);

#endif
