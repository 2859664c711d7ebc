/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook operations`: the trail of what operators did (O1), of a running daemon. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "json/json.h"

#define PAGE 1000u
#define TEXT_BYTES 1100u

static void print_row(struct daybook_bytes op)
{
    char at[40];
    char kind[24];
    char consumer[80];
    char text[TEXT_BYTES];
    printf("%-27s %-8s %-16s ", cli_member_text(op, "at", at, sizeof at),
           cli_member_text(op, "kind", kind, sizeof kind),
           cli_member_text(op, "consumer", consumer, sizeof consumer));
    cli_print_plain(stdout,
                    cli_member_text(op, "request_id", text, sizeof text)[0] != '\0' ? text : "-");
    fputs("  by ", stdout);
    cli_print_plain(stdout, cli_member_text(op, "who", text, sizeof text));
    if (cli_member_text(op, "why", text, sizeof text)[0] != '\0') {
        fputs(": ", stdout);
        cli_print_plain(stdout, text);
    }
    fputc('\n', stdout);
}

/* Prints a page; *ret_before is where the next one begins. Returns how many were printed. */
static uint64_t print_page(struct daybook_bytes body, bool json, uint64_t most,
                           uint64_t *ret_before)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    uint64_t count = 0;
    if (dbk_json_walk_init(&walk, cli_member(body, "operations"))) {
        while (count < most && dbk_json_walk_next(&walk, &item)) {
            count++;
            *ret_before = cli_member_number(item.value, "no");
            if (json) {
                (void)fwrite(item.value.data, 1, item.value.len, stdout);
                fputc('\n', stdout);
            } else {
                print_row(item.value);
            }
        }
    }
    return count;
}

static enum cli_status run(const struct cli_args *args)
{
    uint64_t left = 50;
    struct cli_client *client = NULL;
    struct cli_response response = {0};
    uint64_t before = 0;
    bool more = true;
    if (cli_given(args, "-n") && (!cli_number(cli_value(args, "-n"), &left) || left == 0)) {
        return cli_error(CLI_USAGE, "operations: -n \"%s\" is no number above 0",
                         cli_value(args, "-n"));
    }
    enum cli_status status = cli_client_for(args, &client);
    while (status == CLI_DONE && more && left > 0) {
        char path[96];
        (void)snprintf(path, sizeof path, "/v1/operations?before=%" PRIu64 "&limit=%" PRIu64,
                       before, left < PAGE ? left : PAGE);
        status = cli_client_ask(client, "operations", "GET", path, NULL, &response);
        if (status == CLI_DONE) {
            struct daybook_bytes body = {response.body.data, response.body.len};
            left -= print_page(body, cli_given(args, "--json"), left, &before);
            more = cli_member_true(body, "more");
        }
    }
    dbk_text_release(&response.body);
    cli_client_free(client);
    return status == CLI_DONE ? cli_finish_output() : status;
}

const struct cli_command cli_operations = {
    .name = "operations",
    .arguments = "[-n N] [--json] [--url URL]",
    .summary = "shows what operators did: when, what, to whom, by whom and why; newest first",
    .about = "The journal keeps the newest 10,000.\n",
    .examples = "  daybook operations -n 10\n"
                "  daybook operations --json | jq 'select(.kind == \"discard\")'\n",
    .flags = {{"-n", NULL, "N", NULL, "how many (50)"},
              CLI_JSON_FLAG("one object a line"),
              CLI_DAEMON_FLAGS},
    .run = run,
};
