/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema: its name, its versions, and making it. A schema's name is checked before anything is built with
 * it (`[a-z_][a-z0-9_]*`), and quoted everywhere, so that it can carry no SQL.
 */
#ifndef DBK_ENGINES_POSTGRES_SCHEMA_H
#define DBK_ENGINES_POSTGRES_SCHEMA_H

#include <stdint.h>

#include <daybook/postgres.h>

#define DBK_PG_SCHEMA_VERSION 1u

struct pg_journal;

/* Lines of version 1, ended by NULL, with `@` for the quoted name. Made by `embed` from schema_1.sql. */
extern const char *const dbk_pg_schema_1[];

/* Returns OK or BAD_CONFIG. */
enum daybook_code dbk_pg_schema_name_check(const char *name, struct daybook_error *err);

/* Looks at the schema and, where it is to be made and is not there, makes it, in one transaction.
 * Returns OK; BAD_CONFIG: missing; NEWER_FORMAT; BACKEND. */
enum daybook_code dbk_pg_schema_ready(struct pg_journal *p, enum daybook_postgres_create create,
                                      struct daybook_postgres_schema_report *ret,
                                      struct daybook_error *err);

#endif
