/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook repair DIR --out NEW`: a new journal out of what is left of a damaged one. */
#include <inttypes.h>

#include <daybook/log.h>

#include "cli/cli.h"
#include "cli/finding.h"

static void print_missing(void *user, const struct daybook_log_missing *missing)
{
    const bool *json = user;
    if (*json) {
        printf("{\"kind\":\"missing\",\"first\":%" PRIu64 ",\"end\":%" PRIu64
               ",\"behind_newest\":%s}\n",
               missing->first, missing->end, missing->behind_newest ? "true" : "false");
    } else if (missing->behind_newest) {
        printf("perhaps missing: positions %" PRIu64 " to %" PRIu64
               ": what is damaged at the end could have held so many, or none; none of them is "
               "given out again\n",
               missing->first, missing->end - 1);
    } else {
        printf("MISSING: positions %" PRIu64 " to %" PRIu64 "\n", missing->first, missing->end - 1);
    }
}

static void print_found(void *user, const struct daybook_log_finding *finding)
{
    const bool *json = user;
    cli_print_finding(finding, *json);
}

static void print_report(bool json, const char *path,
                         const struct daybook_log_repair_report *report)
{
    printf(json ? "{\"kind\":\"report\",\"segments\":%" PRIu64 ",\"frames\":%" PRIu64
                  ",\"events\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"damaged\":%" PRIu64
                  ",\"records_damaged\":%" PRIu64 ",\"events_lost\":%" PRIu64 ",\"bytes\":%" PRIu64
                  "}\n"
                : "read %" PRIu64 " segments; kept %" PRIu64 " frames with %" PRIu64
                  " events, of which %" PRIu64 " are stored; damaged places %" PRIu64
                  ", damaged records kept %" PRIu64 "; events lost, at most %" PRIu64 "; %" PRIu64
                  " bytes written\n",
           report->segments, report->frames, report->events, report->stored, report->damaged,
           report->records_damaged, report->events_lost, report->bytes);
    if (!json) {
        printf("%s is whole and verified\n", path);
    }
}

static enum cli_status run(const struct cli_args *args)
{
    const char *path = cli_operand(args, 0);
    const char *out = cli_value(args, "--out");
    bool json = cli_given(args, "--json");
    struct daybook_log_repair_hooks hooks = {print_found, print_missing, &json};
    struct daybook_log_repair_report report = {0};
    struct daybook_error err = {0};
    if (path == NULL || out == NULL) {
        return cli_error(CLI_USAGE, "repair: which directory, and where to? write daybook repair "
                                    "DIR --out NEW");
    }
    enum daybook_code code = daybook_log_repair(path, out, &hooks, &report, &err);
    if (code == DAYBOOK_OK) {
        print_report(json, out, &report);
    }
    enum cli_status status = cli_finish_output();
    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "repair %s: %s: %s", path, daybook_code_name(code),
                         err.message);
    }
    return status == CLI_DONE && report.damaged > 0 ? CLI_PARTLY : status;
}

const struct cli_command cli_repair = {
    .name = "repair",
    .arguments = "DIR --out NEW [--json]",
    .summary = "makes a new journal of what is left of a damaged one",
    .about = "Keeps everything whose checksums hold, on both sides of what is damaged, and says "
             "what is\n"
             "missing. Never changes DIR; stop the daemon first. Exit status 0: nothing was "
             "damaged; 3: NEW is\n"
             "whole, and something was damaged: read what it says; 1: there is no NEW.\n",
    .examples = "  daybook repair ./daybook-data --out ./daybook-repaired\n",
    .choices = "DIR",
    .operands_max = 1,
    .flags = {{"--out", NULL, "DIR", NULL, "the new directory; it must not be there"},
              CLI_JSON_FLAG("one JSON object a line: findings, missing positions, the report")},
    .run = run,
};
