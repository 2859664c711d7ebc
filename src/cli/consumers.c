/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook consumers list|start|retire|rewind|lift`, of a running daemon. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "json/json.h"

#define NAME_BYTES 80u
#define TIME_BYTES 40u

/* The position where a consumer started, or the time that it waits for. */
static const char *start_of(struct daybook_bytes c, char *buf, size_t room)
{
    struct daybook_bytes position = cli_member(c, "start");
    if (position.len > 0 && position.data[0] != 'n') {
        (void)snprintf(buf, room, "%.*s", (int)position.len, position.data);
        return buf;
    }
    return cli_member_text(c, "start_at", buf, room);
}

static void print_row(struct daybook_bytes c)
{
    char name[NAME_BYTES];
    char last[TIME_BYTES];
    struct daybook_bytes age = cli_member(c, "oldest_unresolved_age_seconds");
    char start[TIME_BYTES];
    char bytes[CLI_BYTES_TEXT];
    bool has_age = age.len > 0 && age.data[0] != 'n';
    (void)cli_member_text(c, "last_claim_at", last, sizeof last);
    printf(
        "%-22s %-7s %10" PRIu64 " %10" PRIu64 " %12" PRIu64 " %10" PRIu64
        " %10s %14.*s  %-27s %s\n",
        cli_member_text(c, "name", name, sizeof name), cli_member_true(c, "running") ? "yes" : "NO",
        cli_member_number(c, "pending"), cli_member_number(c, "in_flight"),
        cli_member_number(c, "quarantined"), cli_member_number(c, "held_events"),
        cli_bytes_text(cli_member_number(c, "held_bytes"), bytes), has_age ? (int)age.len : 1,
        has_age ? age.data : "-", last[0] != '\0' ? last : "-", start_of(c, start, sizeof start));
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
        printf("%-22s %-7s %10s %10s %12s %10s %10s %14s  %-27s %s\n", "consumer", "runs",
               "pending", "in flight", "quarantined", "held", "bytes", "oldest (s)", "last claim",
               "start");
        if (dbk_json_walk_init(&walk, cli_member(body, "consumers"))) {
            while (dbk_json_walk_next(&walk, &item)) {
                print_row(item.value);
            }
        }
    }
    dbk_text_release(&response.body);
    return status;
}

/* What can be done to one. */
struct verb {
    const char *name;
    const char *method;
    const char *path; /* behind the name; arguments follow */
};
static const struct verb verbs[] = {{"start", "POST", "/start?why="},
                                    {"retire", "DELETE", "?why="},
                                    {"rewind", "POST", "/rewind?why="},
                                    {"lift", "POST", "/lift?why="}};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static void write_path(struct dbk_text *path, const struct cli_args *args, const char *name,
                       const struct verb *verb)
{
    const char *why = cli_value(args, "--why");
    const char *from = cli_value(args, "--from");
    dbk_text_str(path, "/v1/consumers/");
    cli_put_escaped(path, name);
    dbk_text_str(path, verb->path);
    cli_put_escaped(path, why != NULL ? why : "");
    dbk_text_str(path, cli_given(args, "--force") ? "&force=true" : "");
    if (from != NULL) {
        dbk_text_str(path, "&from=");
        cli_put_escaped(path, from);
    }
}

static enum cli_status act(struct cli_client *client, const struct cli_args *args, const char *name,
                           const struct verb *verb)
{
    struct cli_response response = {0};
    struct dbk_text path = {0};
    char word[NAME_BYTES];
    char start[TIME_BYTES];
    write_path(&path, args, name, verb);
    enum cli_status status =
        path.failed ? cli_error(CLI_FAILED, "consumers: no memory")
                    : cli_client_ask(client, "consumers", verb->method, path.data, NULL, &response);
    struct daybook_bytes body = {response.body.data, response.body.len};
    if (status == CLI_DONE && cli_given(args, "--json")) {
        (void)fwrite(body.data, 1, body.len, stdout);
    } else if (status == CLI_DONE && strcmp(verb->name, "start") == 0) {
        printf("%s %s at %s\n", cli_member_text(body, "status", word, sizeof word), name,
               start_of(body, start, sizeof start));
    } else if (status == CLI_DONE) {
        printf("%s %s\n", cli_member_text(body, "status", word, sizeof word), name);
    }
    dbk_text_release(&path);
    dbk_text_release(&response.body);
    return status;
}

/* An option that belongs to another verb. */
static enum cli_status check_options(const struct cli_args *args, const char *verb)
{
    static const struct {
        const char *option;
        const char *verb;
    } owned[] = {{"--force", "retire"}, {"--from", "start"}};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        if (cli_given(args, owned[i].option) && strcmp(verb, owned[i].verb) != 0) {
            return cli_error(CLI_USAGE, "consumers: %s is for %s", owned[i].option, owned[i].verb);
        }
    }
    return CLI_DONE;
}

static enum cli_status run(const struct cli_args *args)
{
    const char *word = cli_operand(args, 0);
    const char *name = cli_operand(args, 1);
    const struct verb *verb = find_verb(word);
    bool lists = word != NULL && strcmp(word, "list") == 0;
    if (!lists && verb == NULL) {
        return cli_error(
            CLI_USAGE, "consumers: write list, start NAME, retire NAME, rewind NAME or lift NAME");
    }
    if (lists != (name == NULL)) {
        return cli_error(CLI_USAGE,
                         lists ? "consumers: list shows them all: no name belongs to it"
                               : "consumers: %s whom? `daybook consumers list` shows the names",
                         word);
    }
    enum cli_status status = check_options(args, lists ? "list" : verb->name);
    struct cli_client *client = NULL;
    if (status == CLI_DONE) {
        status = cli_client_for(args, &client);
    }
    if (status != CLI_DONE) {
        return status;
    }
    status = lists ? list(client, cli_given(args, "--json")) : act(client, args, name, verb);
    cli_client_free(client);
    return status == CLI_DONE ? cli_finish_output() : status;
}

const struct cli_command cli_consumers = {
    .name = "consumers",
    .arguments =
        "list | start NAME [--from WHERE] | retire NAME [--force] | rewind NAME | lift NAME "
        "[--why TEXT] [--json] [--url URL]",
    .summary = "lists consumers; starts, retires, rewinds one, or lets its brake go",
    .about =
        "list    what waits for each, what the journal keeps for it (held), when it last claimed,\n"
        "        and where it started: a position, or the time that it waits for\n"
        "start   registers a consumer that the journal does not know yet, before any daemon "
        "delivers\n"
        "        for it: from now on what it has not acknowledged is kept for it\n"
        "retire  forgets a consumer that is not run any more: what only it had not acknowledged\n"
        "        counts as delivered and is no longer kept\n"
        "rewind  delivers again, in order of acceptance, everything that is retained; what is\n"
        "        quarantined or discarded stays so. Destinations recognise what they have\n"
        "lift    lets the brake of its destinations go: so many different events were refused in "
        "a\n"
        "        row that nothing more was set aside (see stats). It is tried at once; what is\n"
        "        refused on its own account is set aside again, until the brake falls anew\n",
    .examples = "  daybook consumers list\n"
                "  daybook consumers start warehouse --from now\n"
                "  daybook consumers rewind billing --why 'ledger restored from last night'\n"
                "  daybook consumers retire old-audit --why 'replaced by audit'\n",
    .choices = "list start retire rewind lift",
    .operands_max = 2,
    .flags = {{"--from", NULL, "WHERE", NULL,
               "start: oldest (what there is without it), now, a position, or a time (RFC 3339)"},
              {"--force", NULL, NULL, NULL,
               "retire: also while it is run or holds leases (one that runs registers anew)"},
              {"--why", NULL, "TEXT", NULL, "kept in the trail of operations"},
              CLI_JSON_FLAG("the daemon's answer as it is"),
              CLI_DAEMON_FLAGS},
    .run = run,
};
