/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook consumers list|retire|rewind`, of a running daemon. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "json/json.h"

#define NAME_BYTES 80u
#define TIME_BYTES 40u

static void print_row(struct daybook_bytes c)
{
    char name[NAME_BYTES];
    char last[TIME_BYTES];
    struct daybook_bytes age = cli_member(c, "oldest_unresolved_age_seconds");
    struct daybook_bytes start = cli_member(c, "start");
    bool has_age = age.len > 0 && age.data[0] != 'n';
    bool waits = start.len > 0 && start.data[0] == 'n';
    (void)cli_member_text(c, "last_claim_at", last, sizeof last);
    printf(
        "%-22s %-7s %10" PRIu64 " %10" PRIu64 " %12" PRIu64 " %10" PRIu64 " %14.*s  %-27s %.*s\n",
        cli_member_text(c, "name", name, sizeof name), cli_member_true(c, "running") ? "yes" : "NO",
        cli_member_number(c, "pending"), cli_member_number(c, "in_flight"),
        cli_member_number(c, "quarantined"), cli_member_number(c, "held_events"),
        has_age ? (int)age.len : 1, has_age ? age.data : "-", last[0] != '\0' ? last : "-",
        waits ? 6 : (int)start.len, waits ? "a time" : start.data);
}

static enum cli_status list(struct cli_client *client, bool json)
{
    struct cli_response response = {0};
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    enum cli_status status =
        cli_client_ask(client, "consumers", "GET", "/v1/consumers", NULL, &response);
    struct daybook_bytes body = {response.body.data, response.body.len};
    if (status == CLI_DONE && json) {
        (void)fwrite(body.data, 1, body.len, stdout);
    } else if (status == CLI_DONE) {
        printf("%-22s %-7s %10s %10s %12s %10s %14s  %-27s %s\n", "consumer", "runs", "pending",
               "in flight", "quarantined", "held", "oldest (s)", "last claim", "start");
        if (dbk_json_walk_init(&walk, cli_member(body, "consumers"))) {
            while (dbk_json_walk_next(&walk, &item)) {
                print_row(item.value);
            }
        }
    }
    dbk_text_release(&response.body);
    return status;
}

static enum cli_status act(struct cli_client *client, const struct cli_args *args, const char *name,
                           bool retire)
{
    struct cli_response response = {0};
    struct dbk_text path = {0};
    char word[NAME_BYTES];
    const char *why = cli_value(args, "--why");
    dbk_text_str(&path, "/v1/consumers/");
    cli_put_escaped(&path, name);
    dbk_text_str(&path, retire ? "?why=" : "/rewind?why=");
    cli_put_escaped(&path, why != NULL ? why : "");
    dbk_text_str(&path, retire && cli_given(args, "--force") ? "&force=true" : "");
    enum cli_status status = path.failed
                                 ? cli_error(CLI_FAILED, "consumers: no memory")
                                 : cli_client_ask(client, "consumers", retire ? "DELETE" : "POST",
                                                  path.data, NULL, &response);
    struct daybook_bytes body = {response.body.data, response.body.len};
    if (status == CLI_DONE && cli_given(args, "--json")) {
        (void)fwrite(body.data, 1, body.len, stdout);
    } else if (status == CLI_DONE) {
        printf("%s %s\n", cli_member_text(body, "status", word, sizeof word), name);
    }
    dbk_text_release(&path);
    dbk_text_release(&response.body);
    return status;
}

static enum cli_status run(const struct cli_args *args)
{
    const char *verb = cli_operand(args, 0);
    const char *name = cli_operand(args, 1);
    bool lists = verb != NULL && strcmp(verb, "list") == 0;
    bool retires = verb != NULL && strcmp(verb, "retire") == 0;
    bool rewinds = verb != NULL && strcmp(verb, "rewind") == 0;
    if (!lists && !retires && !rewinds) {
        return cli_error(CLI_USAGE, "consumers: write list, retire NAME or rewind NAME");
    }
    if (lists != (name == NULL)) {
        return cli_error(CLI_USAGE,
                         lists ? "consumers: list shows them all: no name belongs to it"
                               : "consumers: %s whom? `daybook consumers list` shows the names",
                         verb);
    }
    if (cli_given(args, "--force") && !retires) {
        return cli_error(CLI_USAGE, "consumers: --force is for retire");
    }
    struct cli_client *client = NULL;
    enum cli_status status = cli_client_for(args, &client);
    if (status != CLI_DONE) {
        return status;
    }
    status = lists ? list(client, cli_given(args, "--json")) : act(client, args, name, retires);
    cli_client_free(client);
    return status == CLI_DONE ? cli_finish_output() : status;
}

const struct cli_command cli_consumers = {
    .name = "consumers",
    .arguments = "list | retire NAME [--force] | rewind NAME [--why TEXT] [--json] [--url URL]",
    .summary = "lists consumers, retires one, or has everything delivered to one again",
    .about =
        "list    what waits for each, what the journal keeps for it (held), when it last claimed,\n"
        "        and the position where it started\n"
        "retire  forgets a consumer that is not run any more: what only it had not acknowledged\n"
        "        counts as delivered and is no longer kept\n"
        "rewind  delivers again, in order of acceptance, everything that is retained; what is\n"
        "        quarantined or discarded stays so. Destinations recognise what they have\n",
    .examples = "  daybook consumers list\n"
                "  daybook consumers rewind billing --why 'ledger restored from last night'\n"
                "  daybook consumers retire old-audit --why 'replaced by audit'\n",
    .choices = "list retire rewind",
    .operands_max = 2,
    .flags = {{"--force", NULL, NULL, NULL,
               "retire: also while it is run or holds leases (one that runs registers anew)"},
              {"--why", NULL, "TEXT", NULL, "kept in the trail of operations"},
              CLI_JSON_FLAG("the daemon's answer as it is"),
              CLI_DAEMON_FLAGS},
    .run = run,
};
