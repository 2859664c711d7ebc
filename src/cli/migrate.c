/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook migrate`: the schema of a journal in PostgreSQL: what is there, what this build wants, and the way from one
 * to the other. */
#include <inttypes.h>
#include <stdlib.h>

#include "app/compose.h"
#include "cli/cli.h"

enum { SERVER_MAJOR = 10000 };

/* What may stand together on a command line. */
static enum cli_status check_usage(const struct cli_args *args, uint64_t *ret_from)
{
    *ret_from = 0;
    if (cli_given(args, "--sql") && (cli_given(args, "--apply") || cli_given(args, "--json"))) {
        return cli_error(CLI_USAGE,
                         "migrate: --sql prints statements and nothing else: leave %s out",
                         cli_given(args, "--apply") ? "--apply" : "--json");
    }
    if (cli_given(args, "--from") && !cli_given(args, "--sql")) {
        return cli_error(CLI_USAGE, "migrate: --from belongs to --sql: add it");
    }
    if (cli_given(args, "--from") &&
        (!cli_number(cli_value(args, "--from"), ret_from) || *ret_from > UINT32_MAX)) {
        return cli_error(CLI_USAGE, "migrate: --from %s: give the version of a schema, 0 for none",
                         cli_value(args, "--from"));
    }
    return CLI_DONE;
}

/* In one transaction, as `--apply` does it. */
static enum cli_status print_sql(const char *schema, uint32_t from)
{
    char *sql = NULL;
    struct daybook_error err = {0};
    enum daybook_code code = daybook_postgres_schema_sql(schema, from, &sql, &err);

    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "migrate: %s", err.message);
    }
    if (sql[0] != '\0') {
        printf("BEGIN;\n");
        if (from == 0) {
            printf("CREATE SCHEMA IF NOT EXISTS \"%s\";\n", schema);
        }
        printf("%s\nCOMMIT;\n", sql);
    }
    free(sql);
    return cli_finish_output();
}

static void print_json(const char *schema, const struct daybook_postgres_schema_report *before,
                       const struct daybook_postgres_schema_report *report)
{
    printf("{\"schema\":\"%s\",\"server_version\":%" PRIu32 ",\"found\":%" PRIu32
           ",\"wanted\":%" PRIu32 ",\"applied\":%s}\n",
           schema, report->server_version, report->found, report->wanted,
           before->found != report->found ? "true" : "false");
}

static void print_report(const char *schema, const struct daybook_postgres_schema_report *before,
                         const struct daybook_postgres_schema_report *report)
{
    const char *next = before->found != report->found    ? "brought forward"
                       : report->found >= report->wanted ? "nothing to do"
                                                         : "see --sql, and run it with --apply";
    char found[32] = "not there";

    if (report->found > 0) {
        (void)snprintf(found, sizeof found, "version %" PRIu32, report->found);
    }
    printf("schema %s on PostgreSQL %" PRIu32 ".%" PRIu32 ": %s, wanted is version %" PRIu32
           ": %s\n",
           schema, report->server_version / SERVER_MAJOR, report->server_version % SERVER_MAJOR,
           found, report->wanted, next);
}

/* Looks, and applies where that is asked for. */
static enum cli_status look(const struct cli_args *args, struct daybook_postgres_options *options)
{
    struct daybook_postgres_schema_report before = {0};
    struct daybook_postgres_schema_report report = {0};
    struct daybook_error err = {0};

    options->create = DAYBOOK_POSTGRES_CREATE_NO;
    enum daybook_code code = daybook_postgres_migrate(options, &before, &err);
    report = before;
    if (code == DAYBOOK_OK && cli_given(args, "--apply")) {
        options->create = DAYBOOK_POSTGRES_CREATE_YES;
        code = daybook_postgres_migrate(options, &report, &err);
    }
    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "migrate: %s", err.message);
    }
    if (cli_given(args, "--sql")) {
        return print_sql(options->schema, report.found);
    }
    (cli_given(args, "--json") ? print_json : print_report)(options->schema, &before, &report);
    enum cli_status printed = cli_finish_output();
    return printed == CLI_DONE && report.found < report.wanted ? CLI_PARTLY : printed;
}

static enum cli_status migrate(const struct cli_args *args, const struct dbk_config *config,
                               uint64_t from)
{
    struct daybook_postgres_options options;
    struct daybook_error err = {0};
    struct dbk_dsn dsn;

    if (config->backend != DBK_BACKEND_POSTGRES) {
        return cli_error(CLI_USAGE,
                         "migrate: the journal of this configuration is a data directory, "
                         "which needs none: give -c FILE with backend: postgres");
    }
    if (cli_given(args, "--from")) {
        return print_sql(config->schema, (uint32_t)from);
    }
    enum daybook_code code =
        dbk_compose_postgres_options(config, cli_value(args, "--dsn-env"), &dsn, &options, &err);
    enum cli_status status = code == DAYBOOK_OK
                                 ? look(args, &options)
                                 : cli_error(cli_status_of(code), "migrate: %s", err.message);
    dbk_dsn_wipe(&dsn);
    return status;
}

static enum cli_status run(const struct cli_args *args)
{
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    uint64_t from = 0;
    enum cli_status status = check_usage(args, &from);

    if (status != CLI_DONE) {
        return status;
    }
    if (dbk_config_load(cli_value(args, "--config"), &config, &err) != DAYBOOK_OK) {
        return cli_error(CLI_USAGE, "migrate: %s", err.message);
    }
    status = migrate(args, config, from);
    dbk_config_free(config);
    return status;
}

const struct cli_command cli_migrate = {
    .name = "migrate",
    .arguments = "-c FILE [--apply | --sql [--from VERSION]] [--dsn-env NAME] [--json]",
    .summary = "shows, prints or applies what a journal's schema in PostgreSQL lacks",
    .about = "Versions only go forward, in one transaction; what is whole is left alone, and "
             "daemons may run "
             "meanwhile.\n"
             "Exit status 0: the schema is as this build wants it; 3: something is to be applied; "
             "1: the "
             "database does not\n"
             "answer, or refused.\n",
    .examples = "  daybook migrate -c /etc/daybook.yaml\n"
                "  daybook migrate -c /etc/daybook.yaml --sql --from 0 | less\n"
                "  daybook migrate -c /etc/daybook.yaml --apply --dsn-env OWNER_DSN\n",
    .flags = {{"--config", "-c", "FILE", NULL, "the configuration, with backend: postgres"},
              {"--apply", NULL, NULL, NULL, "makes the schema, or brings it forward"},
              {"--sql", NULL, NULL, NULL, "prints the statements that --apply would run"},
              {"--from", NULL, "VERSION", NULL,
               "with --sql: from this version on (0: none), without asking the database"},
              {"--dsn-env", NULL, "NAME", NULL,
               "the variable with the connection string of another role than the daemon's"},
              CLI_JSON_FLAG("one object")},
    .run = run,
};
