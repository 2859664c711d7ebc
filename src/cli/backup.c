/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook backup --out NEW`: a consistent copy of a journal, also while a daemon writes it. */
#include <inttypes.h>

#include <daybook/log.h>

#include "app/config.h"
#include "cli/cli.h"

/* The directory that is named, or that the configuration names. */
static enum cli_status directory_of(const struct cli_args *args, char *ret)
{
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    if (cli_given(args, "--data")) {
        (void)snprintf(ret, DBK_CONFIG_PATH_MAX, "%s", cli_value(args, "--data"));
        return CLI_DONE;
    }
    if (dbk_config_load(cli_value(args, "--config"), &config, &err) != DAYBOOK_OK) {
        return cli_error(CLI_USAGE, "backup: %s", err.message);
    }
    bool is_log = config->backend == DBK_BACKEND_LOG;
    (void)snprintf(ret, DBK_CONFIG_PATH_MAX, "%s", config->journal_path);
    dbk_config_free(config);
    return is_log
               ? CLI_DONE
               : cli_error(CLI_USAGE, "backup: the journal of this configuration is in PostgreSQL: "
                                      "back up the database (docs/POSTGRES.md)");
}

static enum cli_status run(const struct cli_args *args)
{
    char path[DBK_CONFIG_PATH_MAX];
    const char *out = cli_value(args, "--out");
    struct daybook_log_backup_report report = {0};
    struct daybook_error err = {0};
    if (out == NULL) {
        return cli_error(CLI_USAGE, "backup: where to? write daybook backup --out NEW");
    }
    if (cli_given(args, "--data") && cli_given(args, "--config")) {
        return cli_error(CLI_USAGE, "backup: --data and --config exclude each other: give one");
    }
    enum cli_status status = directory_of(args, path);
    if (status != CLI_DONE) {
        return status;
    }
    enum daybook_code code = daybook_log_backup(path, out, &report, &err);
    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "backup %s: %s: %s", path, daybook_code_name(code),
                         err.message);
    }
    if (cli_given(args, "--json")) {
        printf("{\"kind\":\"report\",\"segments\":%" PRIu64 ",\"events\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"live\":%s}\n",
               report.segments, report.events, report.bytes, report.live ? "true" : "false");
    } else {
        printf("%s: %" PRIu64 " segments with %" PRIu64 " events, %" PRIu64
               " bytes, verified and on disk%s\n",
               out, report.segments, report.events, report.bytes,
               report.live ? "; the journal was being written" : "");
    }
    return cli_finish_output();
}

const struct cli_command cli_backup = {
    .name = "backup",
    .arguments = "--out NEW [-c FILE | --data DIR] [--json]",
    .summary = "copies a journal, also while a daemon writes it",
    .about = "Everything that was answered before the command began is in the copy. It holds "
             "nothing up, and\n"
             "NEW has its name only once the copy is verified and on disk. To restore, stop the "
             "daemon and put\n"
             "the copy in the place of its directory.\n",
    .examples = "  daybook backup --data ./daybook-data --out ./backup-$(date +%F)\n",
    .operands_max = 0,
    .flags = {{"--out", NULL, "DIR", NULL, "the new directory; it must not be there"},
              {"--config", "-c", "FILE", NULL, "the configuration that names the journal"},
              {"--data", NULL, "DIR", NULL, "its directory; else ./daybook-data"},
              CLI_JSON_FLAG("the report as one JSON object")},
    .run = run,
};
