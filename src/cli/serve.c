/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook serve`: the daemon. */
#include <unistd.h>

#include "app/config.h"
#include "cli/cli.h"
#include "daemon/daemon.h"

static enum cli_status run(int argc, char **argv)
{
    const char *path = NULL;
    const struct cli_option options[] = {{"--config", "-c", &path, NULL}, {0}};
    enum cli_status status = cli_options(&cli_serve, argc, argv, options, NULL, 0);
    if (status != CLI_DONE) {
        return status;
    }
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_config_load(path, &config, &err);
    if (code != DAYBOOK_OK) {
        return cli_error(CLI_USAGE, "%s", err.message);
    }
    switch (dbk_daemon_run(config, &err)) {
    case DBK_DAEMON_STOPPED:
        break;
    case DBK_DAEMON_OVERRAN:
        /* A worker that was abandoned may still run: no release, no exit handlers. */
        _exit(CLI_FAILED);
    case DBK_DAEMON_NO_START:
        status = cli_error(cli_status_of(err.code), "%s", err.message);
        break;
    }
    dbk_config_free(config);
    return status;
}

const struct cli_command cli_serve = {
    "serve", "[-c FILE]", "runs the daemon",
    "  -c, --config FILE  the configuration (YAML); docs/configuration.md lists every key.\n"
    "                     Without one: data in ./daybook-data, http://127.0.0.1:8377, and one\n"
    "                     consumer `billing` that delivers into ./daybook-data/usage.db\n\n"
    "SIGTERM stops it within shutdown.drain_grace + deadline + flush_timeout; what is not "
    "delivered\n"
    "by then is durable and is delivered by the next start.\n\n"
    "  daybook serve\n"
    "  daybook serve -c /etc/daybook.yaml\n",
    run};
