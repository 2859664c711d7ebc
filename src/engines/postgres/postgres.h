/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine behind <daybook/postgres.h>, opened on a seam of the caller's choice, and what tests need
 * of it.
 */
#ifndef DBK_ENGINES_POSTGRES_POSTGRES_H
#define DBK_ENGINES_POSTGRES_POSTGRES_H

#include <daybook/postgres.h>

#include "base/os.h"

/* As daybook_postgres_open, on `os` (borrowed until the handle is closed): of it only the clock and entropy are
 * used. */
enum daybook_code dbk_postgres_open(const struct daybook_postgres_options *options,
                                    const struct dbk_os *os, struct daybook_journal **ret,
                                    struct daybook_error *err);

/* Events appended from now on carry this row version, as those of a newer build would (C9). Tests only. */
void dbk_postgres_set_row_version(struct daybook_journal *journal, int32_t row_version);

#endif
