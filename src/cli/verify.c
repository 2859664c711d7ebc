/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook verify`: every byte of a data directory. */
#include <inttypes.h>

#include <daybook/log.h>

#include "cli/cli.h"

static void print_finding(void *user, const struct daybook_log_finding *finding)
{
    (void)user;
    if (finding->segment_no == 0) {
        printf("%s: %s\n", finding->harmless ? "harmless" : "DAMAGED", finding->message);
    } else {
        printf("%s: segment %" PRIu64 ", offset %" PRIu64 ": %s\n",
               finding->harmless ? "harmless" : "DAMAGED", finding->segment_no, finding->offset,
               finding->message);
    }
}

static enum cli_status run(const struct cli_args *args)
{
    const char *path = cli_operand(args, 0);
    if (path == NULL) {
        return cli_error(CLI_USAGE, "verify: which directory? write daybook verify DIR");
    }
    struct daybook_log_report report = {0};
    struct daybook_error err = {0};
    enum daybook_code code = daybook_log_verify(path, print_finding, NULL, &report, &err);
    if (code == DAYBOOK_OK || code == DAYBOOK_DAMAGED) {
        printf("%s: %" PRIu64 " segments, %" PRIu64 " groups, %" PRIu64 " frames, %" PRIu64
               " events, %" PRIu64 " bytes; damaged places: %" PRIu64 "\n",
               path, report.segments, report.groups, report.frames, report.events, report.bytes,
               report.damaged);
    }
    enum cli_status status = cli_finish_output();
    if (code != DAYBOOK_OK) {
        return cli_error(CLI_FAILED, "verify %s: %s: %s", path, daybook_code_name(code),
                         err.message);
    }
    return status;
}

const struct cli_command cli_verify = {
    .name = "verify",
    .arguments = "DIR",
    .summary = "checks every byte of a data directory",
    .about = "Reads only, takes no lock. Stop the daemon first: a journal that is being written is "
             "not whole\n"
             "at every moment. Exit status 0: nothing is damaged; 1: something is, or it cannot be "
             "read.\n",
    .examples = "  daybook verify ./daybook-data\n",
    .choices = "DIR",
    .operands_max = 1,
    .run = run,
};
