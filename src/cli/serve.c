/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook serve`: the daemon. */
#include <unistd.h>

#include "app/config.h"
#include "cli/cli.h"
#include "daemon/daemon.h"

static enum cli_status run(const struct cli_args *args)
{
    enum cli_status status = CLI_DONE;
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_config_load(cli_value(args, "--config"), &config, &err);
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
    .name = "serve",
    .arguments = "[-c FILE]",
    .summary = "runs the daemon",
    .about = "SIGTERM stops it within shutdown.drain_grace + deadline + flush_timeout; what is not "
             "delivered\n"
             "by then is durable and is delivered by the next start.\n",
    .examples = "  daybook serve\n"
                "  daybook serve -c /etc/daybook.yaml\n",
    .flags = {{"--config", "-c", "FILE", NULL,
               "the configuration (YAML); docs/configuration.md lists every key.\n"
               "Without one: data in ./daybook-data, http://127.0.0.1:8377, and one\n"
               "consumer `billing` that delivers into ./daybook-data/usage.db"}},
    .run = run,
};
