/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What <daybook/postgres.h> says in a build without libpq.
 */
#include <daybook/postgres.h>

#include "base/error.h"

static enum daybook_code built_out(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                    "the PostgreSQL engine was built out: build with libpq (libpq-dev)");
}

enum daybook_code daybook_postgres_open(const struct daybook_postgres_options *options,
                                        struct daybook_journal **ret_journal,
                                        struct daybook_error *err)
{
    (void)options;
    (void)ret_journal;
    return built_out(err);
}

enum daybook_code daybook_postgres_migrate(const struct daybook_postgres_options *options,
                                           struct daybook_postgres_schema_report *ret_report,
                                           struct daybook_error *err)
{
    (void)options;
    (void)ret_report;
    return built_out(err);
}

enum daybook_code daybook_postgres_schema_sql(const char *schema, uint32_t from, char **ret_sql,
                                              struct daybook_error *err)
{
    (void)schema;
    (void)from;
    (void)ret_sql;
    return built_out(err);
}
