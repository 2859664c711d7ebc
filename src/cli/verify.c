/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook verify`: every byte of a data directory. */
#include <inttypes.h>

#include <daybook/log.h>

#include "app/text.h"
#include "cli/cli.h"
#include "cli/finding.h"

void cli_print_finding(const struct daybook_log_finding *finding, bool json)
{
    if (json) {
        struct dbk_text text = {0};
        dbk_text_printf(&text,
                        "{\"kind\":\"finding\",\"harmless\":%s,\"segment\":%" PRIu64
                        ",\"offset\":%" PRIu64 ",\"message\":",
                        finding->harmless ? "true" : "false", finding->segment_no, finding->offset);
        dbk_text_json_str(&text, finding->message);
        dbk_text_str(&text, "}\n");
        (void)fwrite(text.data, 1, text.len, stdout);
        dbk_text_release(&text);
        return;
    }
    const char *weight = finding->harmless ? "harmless" : "DAMAGED";
    if (finding->segment_no == 0) {
        printf("%s: %s\n", weight, finding->message);
    } else {
        printf("%s: segment %" PRIu64 ", offset %" PRIu64 ": %s\n", weight, finding->segment_no,
               finding->offset, finding->message);
    }
}

static void print_found(void *user, const struct daybook_log_finding *finding)
{
    const bool *json = user;
    cli_print_finding(finding, *json);
}

static void print_report(bool json, const char *path, const struct daybook_log_report *report)
{
    if (!json) {
        printf("%s: ", path);
    }
    printf(json ? "{\"kind\":\"report\",\"segments\":%" PRIu64 ",\"groups\":%" PRIu64
                  ",\"frames\":%" PRIu64 ",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64
                  ",\"damaged\":%" PRIu64 "}\n"
                : "%" PRIu64 " segments, %" PRIu64 " groups, %" PRIu64 " frames, %" PRIu64
                  " events, %" PRIu64 " bytes; damaged places: %" PRIu64 "\n",
           report->segments, report->groups, report->frames, report->events, report->bytes,
           report->damaged);
}

static enum cli_status run(const struct cli_args *args)
{
    const char *path = cli_operand(args, 0);
    bool json = cli_given(args, "--json");
    if (path == NULL) {
        return cli_error(CLI_USAGE, "verify: which directory? write daybook verify DIR");
    }
    struct daybook_log_report report = {0};
    struct daybook_error err = {0};
    enum daybook_code code = daybook_log_verify(path, print_found, &json, &report, &err);
    if (code == DAYBOOK_OK || code == DAYBOOK_DAMAGED) {
        print_report(json, path, &report);
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
    .arguments = "DIR [--json]",
    .summary = "checks every byte of a data directory",
    .about = "Reads only, takes no lock. Beside a running daemon it checks everything up to where "
             "the log had\n"
             "come. Exit status 0: nothing is damaged; 1: something is, or it cannot be read.\n",
    .examples = "  daybook verify ./daybook-data\n",
    .choices = "DIR",
    .operands_max = 1,
    .flags = {CLI_JSON_FLAG("one JSON object a line: findings, the report")},
    .run = run,
};
