/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of blame (W12). Codes that stand in no line blame nobody: a code that nobody thought of
 * must not condemn an event.
 */
#include "sinks/blame.h"

#include <string.h>

void dbk_words_copy(char *field, size_t size, struct daybook_bytes text)
{
    size_t len = text.len < size ? text.len : size - 1;

    while (len < text.len && len > 0 && ((unsigned char)text.data[len] & 0xC0u) == 0x80u) {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        field[i] = (char)(c < 0x20 || c == 0x7F ? ' ' : c);
    }
    field[len] = '\0';
}

#ifdef DBK_HAVE_SQLITE
#include <sqlite3.h>

#define LINE(code, blame)                                                                          \
    {                                                                                              \
        code, #code, blame                                                                         \
    }

/* Every primary code of SQLite 3, and the extended ones that a reader gains from. */
static const struct {
    int code;
    const char *name;
    enum dbk_blame blame; /* while a row was being written */
} table[] = {
    LINE(SQLITE_CONSTRAINT, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_CHECK, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_NOTNULL, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_UNIQUE, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_PRIMARYKEY, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_ROWID, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_FOREIGNKEY, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_TRIGGER, DBK_BLAME_ROW),
    LINE(SQLITE_CONSTRAINT_DATATYPE, DBK_BLAME_ROW),
    LINE(SQLITE_MISMATCH, DBK_BLAME_ROW),
    LINE(SQLITE_TOOBIG, DBK_BLAME_ROW),
    LINE(SQLITE_BUSY, DBK_BLAME_DESTINATION),
    LINE(SQLITE_BUSY_RECOVERY, DBK_BLAME_DESTINATION),
    LINE(SQLITE_BUSY_SNAPSHOT, DBK_BLAME_DESTINATION),
    LINE(SQLITE_LOCKED, DBK_BLAME_DESTINATION),
    LINE(SQLITE_FULL, DBK_BLAME_DESTINATION),
    LINE(SQLITE_IOERR, DBK_BLAME_DESTINATION),
    LINE(SQLITE_IOERR_READ, DBK_BLAME_DESTINATION),
    LINE(SQLITE_IOERR_WRITE, DBK_BLAME_DESTINATION),
    LINE(SQLITE_IOERR_FSYNC, DBK_BLAME_DESTINATION),
    LINE(SQLITE_READONLY, DBK_BLAME_DESTINATION),
    LINE(SQLITE_READONLY_DIRECTORY, DBK_BLAME_DESTINATION),
    LINE(SQLITE_READONLY_DBMOVED, DBK_BLAME_DESTINATION),
    LINE(SQLITE_NOTADB, DBK_BLAME_DESTINATION),
    LINE(SQLITE_CANTOPEN, DBK_BLAME_DESTINATION),
    LINE(SQLITE_CORRUPT, DBK_BLAME_DESTINATION),
    LINE(SQLITE_PERM, DBK_BLAME_DESTINATION),
    LINE(SQLITE_AUTH, DBK_BLAME_DESTINATION),
    LINE(SQLITE_NOMEM, DBK_BLAME_DESTINATION),
    LINE(SQLITE_PROTOCOL, DBK_BLAME_DESTINATION),
    LINE(SQLITE_SCHEMA, DBK_BLAME_DESTINATION),
    LINE(SQLITE_NOLFS, DBK_BLAME_DESTINATION),
    LINE(SQLITE_INTERRUPT, DBK_BLAME_DESTINATION),
    LINE(SQLITE_ABORT, DBK_BLAME_DESTINATION),
    LINE(SQLITE_ABORT_ROLLBACK, DBK_BLAME_DESTINATION),
    LINE(SQLITE_ERROR, DBK_BLAME_NOBODY),
    LINE(SQLITE_INTERNAL, DBK_BLAME_NOBODY),
    LINE(SQLITE_MISUSE, DBK_BLAME_NOBODY),
    LINE(SQLITE_RANGE, DBK_BLAME_NOBODY),
};

/* The line of the code, else that of its primary code, else -1. */
static int line_of(int result)
{
    int primary = -1;

    for (int i = 0; i < (int)(sizeof table / sizeof table[0]); i++) {
        if (table[i].code == result) {
            return i;
        }
        if (table[i].code == (result & 0xFF)) {
            primary = i;
        }
    }
    return primary;
}

enum dbk_blame dbk_blame_sqlite(int result, enum dbk_blame_moment moment)
{
    int line = line_of(result);
    enum dbk_blame blame = line < 0 ? DBK_BLAME_NOBODY : table[line].blame;

    if (moment == DBK_MOMENT_ROW) {
        return blame;
    }
    /* No row was at hand. A statement that cannot be prepared is the table's or the settings' fault;
     * a constraint that waits until the commit is some row's, but it does not say which. */
    return blame == DBK_BLAME_ROW ? DBK_BLAME_NOBODY : DBK_BLAME_DESTINATION;
}

const char *dbk_sqlite_result_name(int result)
{
    int line = line_of(result);

    return line < 0 ? "SQLITE_UNKNOWN" : table[line].name;
}

void dbk_sqlite_words(int result, const char *message, struct daybook_words *ret)
{
    static const char failed[] = " constraint failed: ";
    struct daybook_bytes none = {NULL, 0};
    struct daybook_bytes name = {dbk_sqlite_result_name(result), 0};
    struct daybook_bytes text = {message != NULL ? message : "", 0};
    struct daybook_bytes what = none;

    name.len = strlen(name.data);
    text.len = strlen(text.data);
    dbk_words_copy(ret->code, sizeof ret->code, name);
    dbk_words_copy(ret->message, sizeof ret->message, text);

    const char *at = strstr(text.data, failed);
    if (at != NULL) {
        what.data = at + sizeof failed - 1;
        what.len = strlen(what.data);
    }
    /* CHECK names itself; NOT NULL and STRICT types name `table.column`; UNIQUE names columns, which
     * are all the name that an unnamed key has. */
    bool column = (result == SQLITE_CONSTRAINT_NOTNULL || result == SQLITE_CONSTRAINT_DATATYPE) &&
                  what.data != NULL && strrchr(what.data, '.') != NULL;
    dbk_words_copy(ret->constraint, sizeof ret->constraint, column ? none : what);
    if (column) {
        what.data = strrchr(what.data, '.') + 1;
        what.len = strlen(what.data);
    }
    dbk_words_copy(ret->column, sizeof ret->column, column ? what : none);
}
#endif
