/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook stats`: the journal and every consumer, of a running daemon. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "json/json.h"

#define TEXT_BYTES 256u

static void print_bytes(const char *name, uint64_t bytes)
{
    char text[CLI_BYTES_TEXT];
    printf("  %-16s %s\n", name, cli_bytes_text(bytes, text));
}

static void print_journal(struct daybook_bytes journal)
{
    char backend[TEXT_BYTES];
    char mode[TEXT_BYTES];
    char state[TEXT_BYTES];
    char failure[TEXT_BYTES];
    struct daybook_bytes capacity = cli_member(journal, "capacity");
    struct daybook_bytes counters = cli_member(journal, "counters");
    printf("journal %s, %s, %s\n", cli_member_text(journal, "backend", backend, sizeof backend),
           cli_member_text(journal, "mode", mode, sizeof mode),
           cli_member_text(journal, "state", state, sizeof state));
    if (cli_member_text(journal, "failure", failure, sizeof failure)[0] != '\0') {
        printf("  %-16s %s\n", "failure", failure);
    }
    printf("  %-16s %" PRIu64 " of %" PRIu64 "\n", "events",
           cli_member_number(journal, "stored_events"), cli_member_number(capacity, "max_events"));
    print_bytes("stored", cli_member_number(journal, "stored_bytes"));
    print_bytes("files", cli_member_number(journal, "file_bytes"));
    printf("  %-16s accepted %" PRIu64 ", pruned %" PRIu64 ", reclaimed %" PRIu64
           ", dropped %" PRIu64 ", discarded %" PRIu64 ", damaged %" PRIu64 "\n",
           "ever", cli_member_number(counters, "accepted"), cli_member_number(counters, "pruned"),
           cli_member_number(counters, "reclaimed"), cli_member_number(counters, "dropped"),
           cli_member_number(counters, "discarded"), cli_member_number(counters, "damaged"));
}

static void print_destinations(struct daybook_bytes destinations)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    if (!dbk_json_walk_init(&walk, destinations)) {
        return;
    }
    while (dbk_json_walk_next(&walk, &item)) {
        char name[TEXT_BYTES];
        char kind[TEXT_BYTES];
        char reason[TEXT_BYTES];
        bool answers = cli_member_true(item.value, "up");
        (void)cli_member_text(item.value, "reason", reason, sizeof reason);
        printf("  %-20s %s %s%s%s\n", cli_member_text(item.value, "name", name, sizeof name),
               cli_member_text(item.value, "kind", kind, sizeof kind), answers ? "up" : "DOWN",
               reason[0] != '\0' ? ": " : "", reason);
    }
}

static void print_consumers(struct daybook_bytes consumers)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    if (!dbk_json_walk_init(&walk, consumers)) {
        return;
    }
    printf("\n%-22s %10s %10s %12s %14s\n", "consumer", "pending", "in flight", "quarantined",
           "oldest (s)");
    while (dbk_json_walk_next(&walk, &item)) {
        char name[TEXT_BYTES];
        struct daybook_bytes age = cli_member(item.value, "oldest_unresolved_age_seconds");
        bool has_age = age.len > 0 && age.data[0] != 'n';
        bool runs = cli_member_true(item.value, "running");
        printf("%-22s %10" PRIu64 " %10" PRIu64 " %12" PRIu64 " %14.*s%s\n",
               cli_member_text(item.value, "name", name, sizeof name),
               cli_member_number(item.value, "pending"), cli_member_number(item.value, "in_flight"),
               cli_member_number(item.value, "quarantined"), has_age ? (int)age.len : 1,
               has_age ? age.data : "-", runs ? "" : "  (not run by this daemon)");
        print_destinations(cli_member(item.value, "destinations"));
    }
}

/* What a person should not overlook. */
static void print_warnings(struct daybook_bytes body)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    char name[TEXT_BYTES];
    if (cli_member_true(body, "repaired")) {
        printf("\nwarning: the journal was damaged and was repaired: read the file REPAIRED in its "
               "directory, and remove it when what it asks for is done\n");
    }
    uint64_t damaged = cli_member_number(cli_member(body, "journal"), "undeliverable_events");
    if (damaged > 0) {
        printf("\nwarning: %" PRIu64 " events are damaged on the disk: see daybook verify\n",
               damaged);
    }
    if (!dbk_json_walk_init(&walk, cli_member(body, "consumers"))) {
        return;
    }
    while (dbk_json_walk_next(&walk, &item)) {
        (void)cli_member_text(item.value, "name", name, sizeof name);
        uint64_t held = cli_member_number(item.value, "held_events");
        uint64_t newer = cli_member_number(item.value, "newer_version");
        if (!cli_member_true(item.value, "running") && cli_member_true(item.value, "registered") &&
            held > 0) {
            char bytes[CLI_BYTES_TEXT];
            printf("\nwarning: this daemon does not run %s, and %" PRIu64
                   " events (%s) are kept for it: run it, or `daybook consumers retire %s`\n",
                   name, held, cli_bytes_text(cli_member_number(item.value, "held_bytes"), bytes),
                   name);
        }
        if (newer > 0) {
            printf("\nwarning: %" PRIu64
                   " events of %s were stored by a newer version and wait for it\n",
                   newer, name);
        }
    }
}

static enum cli_status show_once(struct cli_client *client, bool json)
{
    struct cli_response response = {0};
    enum cli_status status = cli_client_ask(client, "stats", "GET", "/v1/stats", NULL, &response);
    struct daybook_bytes body = {response.body.data, response.body.len};
    if (status == CLI_DONE && json) {
        (void)fwrite(body.data, 1, body.len, stdout);
    } else if (status == CLI_DONE) {
        print_journal(cli_member(body, "journal"));
        print_consumers(cli_member(body, "consumers"));
        print_warnings(body);
    }
    dbk_text_release(&response.body);
    return status == CLI_DONE ? cli_finish_output() : status;
}

/* Every second until it fails or is interrupted; on a terminal in place. */
static enum cli_status watch(struct cli_client *client, bool json)
{
    enum cli_status status = CLI_DONE;
    bool terminal = isatty(STDOUT_FILENO) == 1;
    while (status == CLI_DONE) {
        if (terminal && !json) {
            fputs("\033[H\033[J", stdout);
        }
        status = show_once(client, json);
        struct timespec pause = {.tv_sec = 1};
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

static enum cli_status run(const struct cli_args *args)
{
    bool json = cli_given(args, "--json");
    struct cli_client *client = NULL;
    enum cli_status status = cli_client_for(args, &client);
    if (status != CLI_DONE) {
        return status;
    }
    status = cli_given(args, "--watch") ? watch(client, json) : show_once(client, json);
    cli_client_free(client);
    return status;
}

const struct cli_command cli_stats = {
    .name = "stats",
    .arguments = "[--json] [--watch] [--url URL]",
    .summary = "shows the journal and every consumer",
    .about = "",
    .examples = "  daybook stats\n"
                "  daybook stats --json | jq .consumers\n"
                "  daybook stats --watch\n",
    .flags = {CLI_JSON_FLAG("the answer of GET /v1/stats as it is"),
              {"--watch", NULL, NULL, NULL, "every second, until interrupted"},
              CLI_DAEMON_FLAGS},
    .run = run,
};
