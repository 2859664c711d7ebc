/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook quarantine list|show|release|discard`, of a running daemon. */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/listing.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "event/ndjson.h"
#include "json/json.h"

#define PAGE_EVENTS 500u
#define IDS_AT_ONCE 1000u
#define NAME_BYTES 80u
#define TEXT_BYTES 640u

struct quarantine {
    const struct cli_args *args;
    struct cli_client *client;
    struct cli_response response;
    bool json;
    const char *reason; /* NULL: any */
    const char *why;
    uint64_t done;
    uint64_t failed;
};

static struct daybook_bytes body_of(const struct quarantine *q)
{
    return (struct daybook_bytes){q->response.body.data, q->response.body.len};
}

static enum cli_status ask(struct quarantine *q, const char *method, struct dbk_text *path,
                           const char *body)
{
    if (path->failed) {
        return cli_error(CLI_FAILED, "quarantine: no memory");
    }
    return cli_client_ask(q->client, "quarantine", method, path->data, body, &q->response);
}

static void put_path(struct dbk_text *path, const char *consumer)
{
    path->len = 0;
    dbk_text_str(path, "/v1/consumers/");
    cli_put_escaped(path, consumer);
    dbk_text_str(path, "/quarantine");
}

/* ---- list and show --------------------------------------------------------------------------- */

/* The most telling part of the destination's words. */
static void print_words(struct daybook_bytes entry)
{
    static const char *const members[] = {"message", "constraint", "column", "code"};
    struct daybook_bytes words = cli_member(entry, "words");
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (words.len > 0 && cli_member_text(words, members[i], text, sizeof text)[0] != '\0') {
            cli_print_plain(stdout, text);
            return;
        }
    }
    fputc('-', stdout);
}

static void print_row(const char *consumer, struct daybook_bytes entry)
{
    char reason[NAME_BYTES];
    char at[NAME_BYTES];
    char id[TEXT_BYTES];
    printf("%-16s %-18s %8" PRIu64 "  %-27s ", consumer,
           cli_member_text(entry, "reason", reason, sizeof reason),
           cli_member_number(entry, "attempts"),
           cli_member_text(entry, "quarantined_at", at, sizeof at));
    cli_print_plain(stdout, cli_member_text(entry, "request_id", id, sizeof id));
    fputs("  ", stdout);
    print_words(entry);
    fputc('\n', stdout);
}

static void print_entry(const struct quarantine *q, const char *consumer,
                        struct daybook_bytes entry)
{
    if (!q->json) {
        print_row(consumer, entry);
        return;
    }
    printf("{\"consumer\":\"%s\",", consumer);
    (void)fwrite(entry.data + 1, 1, entry.len - 1, stdout);
    fputc('\n', stdout);
}

static enum cli_status list_of(struct quarantine *q, const char *consumer)
{
    struct dbk_text path = {0};
    uint64_t after = 0;
    enum cli_status status = CLI_DONE;
    do {
        put_path(&path, consumer);
        dbk_text_printf(&path, "?after=%" PRIu64 "&limit=%u&reason=%s", after, PAGE_EVENTS,
                        q->reason != NULL ? q->reason : "");
        status = ask(q, "GET", &path, NULL);
        struct dbk_ndjson ndjson;
        struct daybook_bytes line;
        uint64_t number = 0;
        dbk_ndjson_init(&ndjson, body_of(q), DBK_NDJSON_WHOLE);
        while (status == CLI_DONE && dbk_ndjson_next(&ndjson, &line, &number)) {
            print_entry(q, consumer, line);
        }
        after = q->response.last_position;
    } while (status == CLI_DONE && q->response.more && !ferror(stdout));
    dbk_text_release(&path);
    return status;
}

static void show_member(struct daybook_bytes entry, const char *name)
{
    struct daybook_bytes value = cli_member(entry, name);
    char text[TEXT_BYTES];
    printf("%-16s ", name);
    if (value.len > 0 && value.data[0] == '"') {
        cli_print_plain(stdout, cli_member_text(entry, name, text, sizeof text));
        fputc('\n', stdout);
    } else {
        printf("%.*s\n", (int)value.len, value.len > 0 ? value.data : "");
    }
}

static enum cli_status show_one(struct quarantine *q, const char *consumer, const char *id)
{
    static const char *const members[] = {"request_id",  "position", "namespace", "subject",
                                          "reason",      "words",    "attempts",  "quarantined_at",
                                          "accepted_at", "record"};
    struct dbk_text path = {0};
    put_path(&path, consumer);
    dbk_text_char(&path, '/');
    cli_put_escaped(&path, id);
    enum cli_status status = ask(q, "GET", &path, NULL);
    if (status == CLI_DONE && q->json) {
        print_entry(q, consumer, body_of(q));
    } else if (status == CLI_DONE) {
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
            show_member(body_of(q), members[i]);
        }
        fputc('\n', stdout);
    }
    dbk_text_release(&path);
    return status;
}

static enum cli_status show(struct quarantine *q, const char *consumer)
{
    uint64_t wanted = q->args->operand_count - 1;
    for (size_t i = 1; i < q->args->operand_count; i++) {
        if (show_one(q, consumer, q->args->operands[i]) == CLI_DONE) {
            q->done++;
        }
    }
    return q->done == wanted ? CLI_DONE : q->done > 0 ? CLI_PARTLY : CLI_FAILED;
}

/* ---- release and discard --------------------------------------------------------------------- */

/* Takes the counts of an answer, and tells what was refused. */
static void take_counts(struct quarantine *q, bool release)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    q->done += cli_member_number(body_of(q), release ? "released" : "discarded");
    q->failed += cli_member_number(body_of(q), "failed");
    if (!dbk_json_walk_init(&walk, cli_member(body_of(q), "errors"))) {
        return;
    }
    while (dbk_json_walk_next(&walk, &item)) {
        char text[TEXT_BYTES];
        cli_print_plain(stderr, cli_member_text(item.value, "request_id", text, sizeof text));
        fprintf(stderr, ": %s: ", cli_member_text(item.value, "code", text, sizeof text));
        cli_print_plain(stderr, cli_member_text(item.value, "message", text, sizeof text));
        fputc('\n', stderr);
    }
}

static enum cli_status send_act(struct quarantine *q, const char *consumer, bool release,
                                struct dbk_text *body)
{
    struct dbk_text path = {0};
    put_path(&path, consumer);
    dbk_text_str(&path, release ? "/release" : "/discard");
    enum cli_status status = body->failed ? cli_error(CLI_FAILED, "quarantine: no memory")
                                          : ask(q, "POST", &path, body->data);
    if (status == CLI_DONE) {
        take_counts(q, release);
    }
    dbk_text_release(&path);
    return status;
}

static void put_why(const struct quarantine *q, struct dbk_text *body)
{
    dbk_text_str(body, ",\"why\":");
    dbk_text_json_str(body, q->why != NULL ? q->why : "");
    dbk_text_char(body, '}');
}

static enum cli_status act_on_ids(struct quarantine *q, const char *consumer, bool release)
{
    struct dbk_text body = {0};
    enum cli_status status = CLI_DONE;
    size_t i = 1;
    while (status == CLI_DONE && i < q->args->operand_count) {
        body.len = 0;
        dbk_text_str(&body, "{\"request_ids\":[");
        for (size_t k = i; k < q->args->operand_count && k < i + IDS_AT_ONCE; k++) {
            dbk_text_str(&body, k > i ? "," : "");
            dbk_text_json_str(&body, q->args->operands[k]);
        }
        dbk_text_char(&body, ']');
        put_why(q, &body);
        uint64_t failed = q->failed;
        status = send_act(q, consumer, release, &body);
        uint64_t handled = cli_member_number(body_of(q), "handled");
        if (status == CLI_DONE && handled == 0) {
            status = cli_error(CLI_FAILED, "quarantine: the daemon got no further");
        }
        /* An event whose outcome is not known has ended the request: do not run on past it. */
        bool stuck =
            cli_member_true(body_of(q), "more") && q->failed > failed && handled < IDS_AT_ONCE;
        status = status == CLI_DONE && stuck ? CLI_FAILED : status;
        i += handled;
    }
    dbk_text_release(&body);
    return status;
}

static enum cli_status act_on_list(struct quarantine *q, const char *consumer, bool release)
{
    struct dbk_text body = {0};
    enum cli_status status = CLI_DONE;
    uint64_t after = 0;
    bool more = true;
    while (status == CLI_DONE && more) {
        uint64_t failed = q->failed;
        body.len = 0;
        if (q->reason != NULL) {
            dbk_text_printf(&body, "{\"reason\":\"%s\",\"after\":%" PRIu64, q->reason, after);
        } else {
            dbk_text_printf(&body, "{\"all\":true,\"after\":%" PRIu64, after);
        }
        put_why(q, &body);
        status = send_act(q, consumer, release, &body);
        more = cli_member_true(body_of(q), "more");
        status = status == CLI_DONE && more && q->failed > failed ? CLI_FAILED : status;
        after = cli_member_number(body_of(q), "after");
    }
    dbk_text_release(&body);
    return status;
}

static enum cli_status act(struct quarantine *q, const char *consumer, bool release)
{
    enum cli_status status = q->args->operand_count > 1 ? act_on_ids(q, consumer, release)
                                                        : act_on_list(q, consumer, release);
    const char *word = release ? "released" : "discarded";
    if (q->json) {
        printf("{\"consumer\":\"%s\",\"%s\":%" PRIu64 ",\"failed\":%" PRIu64 "}\n", consumer, word,
               q->done, q->failed);
    } else {
        printf("%s %" PRIu64 ", not %s %" PRIu64 "\n", word, q->done, word, q->failed);
    }
    if (status == CLI_DONE && q->failed > 0) {
        status = CLI_PARTLY;
    }
    return status == CLI_PARTLY && q->done == 0 ? CLI_FAILED : status;
}

/* ---- whose ----------------------------------------------------------------------------------- */

/* Reads the names of all consumers; `ret` holds DAYBOOK_CONSUMERS_MAX * 2. */
static enum cli_status read_names(struct quarantine *q, char (*ret)[NAME_BYTES], size_t *ret_count)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    enum cli_status status =
        cli_client_ask(q->client, "quarantine", "GET", "/v1/consumers", NULL, &q->response);
    *ret_count = 0;
    if (status == CLI_DONE && dbk_json_walk_init(&walk, cli_member(body_of(q), "consumers"))) {
        while (*ret_count < 2 * (size_t)DAYBOOK_CONSUMERS_MAX && dbk_json_walk_next(&walk, &item)) {
            (void)cli_member_text(item.value, "name", ret[(*ret_count)++], NAME_BYTES);
        }
    }
    return status;
}

static enum cli_status list(struct quarantine *q, char (*names)[NAME_BYTES], size_t count)
{
    enum cli_status status = CLI_DONE;
    if (!q->json) {
        printf("%-16s %-18s %8s  %-27s %s\n", "consumer", "reason", "attempts", "set aside",
               "request_id  the destination's words");
    }
    for (size_t i = 0; status == CLI_DONE && i < count; i++) {
        status = list_of(q, names[i]);
    }
    return status;
}

enum verb { VERB_LIST, VERB_SHOW, VERB_RELEASE, VERB_DISCARD, VERB_NONE };

static enum cli_status run_verb(struct quarantine *q, enum verb verb)
{
    char(*names)[NAME_BYTES] = calloc((size_t)2 * DAYBOOK_CONSUMERS_MAX, sizeof *names);
    const char *consumer = cli_value(q->args, "--consumer");
    size_t count = 1;
    enum cli_status status = CLI_DONE;
    if (names == NULL) {
        return cli_error(CLI_FAILED, "quarantine: no memory");
    }
    if (consumer != NULL) {
        (void)snprintf(names[0], NAME_BYTES, "%s", consumer);
    } else {
        status = read_names(q, names, &count);
    }
    if (status == CLI_DONE && verb != VERB_LIST && count != 1) {
        status =
            cli_error(CLI_USAGE,
                      "quarantine: there are %zu consumers: say whose with --consumer (daybook "
                      "consumers list)",
                      count);
    }
    if (status == CLI_DONE) {
        status = verb == VERB_LIST   ? list(q, names, count)
                 : verb == VERB_SHOW ? show(q, names[0])
                                     : act(q, names[0], verb == VERB_RELEASE);
    }
    free(names);
    return status;
}

static enum verb verb_of(const char *word)
{
    static const char *const words[VERB_NONE] = {"list", "show", "release", "discard"};
    for (unsigned i = 0; word != NULL && i < VERB_NONE; i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum verb)i;
        }
    }
    return VERB_NONE;
}

static enum cli_status check_usage(const struct cli_args *args, enum verb verb)
{
    size_t ids = args->operand_count > 0 ? args->operand_count - 1 : 0;
    bool all = cli_given(args, "--all");
    bool reason = cli_given(args, "--reason");
    unsigned ways = (ids > 0 ? 1u : 0u) + (all ? 1u : 0u) + (reason ? 1u : 0u);
    enum daybook_quarantine_reason parsed;
    if (verb == VERB_NONE) {
        return cli_error(CLI_USAGE, "quarantine: write list, show ID, release ... or discard ...");
    }
    if (reason && !dbk_reason_parse(cli_value(args, "--reason"), &parsed)) {
        return cli_error(CLI_USAGE,
                         "quarantine: --reason \"%s\": write malformed, rejected or "
                         "attempts_exhausted",
                         cli_value(args, "--reason"));
    }
    if (verb == VERB_LIST && (ids > 0 || all)) {
        return cli_error(CLI_USAGE, "quarantine: list takes --consumer and --reason alone");
    }
    if (verb == VERB_SHOW && (ids == 0 || all || reason)) {
        return cli_error(CLI_USAGE, "quarantine: show which event? write its request_id");
    }
    if ((verb == VERB_RELEASE || verb == VERB_DISCARD) && ways != 1) {
        return cli_error(CLI_USAGE, "quarantine: which events? write their ids, or --reason, or "
                                    "--all: one of these");
    }
    if (verb == VERB_DISCARD &&
        (!cli_given(args, "--why") || cli_value(args, "--why")[0] == '\0')) {
        return cli_error(CLI_USAGE, "quarantine: discard is final: say --why TEXT");
    }
    return CLI_DONE;
}

static enum cli_status run(const struct cli_args *args)
{
    enum verb verb = verb_of(cli_operand(args, 0));
    struct quarantine q = {.args = args,
                           .json = cli_given(args, "--json"),
                           .reason = cli_value(args, "--reason"),
                           .why = cli_value(args, "--why")};
    enum cli_status status = check_usage(args, verb);
    if (status == CLI_DONE) {
        status = cli_client_for(args, &q.client);
    }
    if (status != CLI_DONE) {
        return status;
    }
    status = run_verb(&q, verb);
    dbk_text_release(&q.response.body);
    cli_client_free(q.client);
    enum cli_status printed = cli_finish_output();
    return status == CLI_DONE ? printed : status;
}

const struct cli_command cli_quarantine = {
    .name = "quarantine",
    .arguments = "list | show ID... | release ID...|--all|--reason R | discard ... --why TEXT",
    .summary = "lists, shows, releases and discards what was set aside",
    .about =
        "list     every event that a consumer has set aside, with the destination's own words\n"
        "show     all that is known of one: also its attempts and its record\n"
        "release  pending again with a fresh budget of attempts, in its place in the order of\n"
        "         acceptance: before what of its caller still waits, behind what was delivered\n"
        "discard  ended for this consumer, for good: it will never be delivered there\n\n"
        "Mend the cause first: what is released and refused again is set aside again.\n"
        "Exit status 3: some of the events were not there, or could not be acted on.\n",
    .examples = "  daybook quarantine list\n"
                "  daybook quarantine show req_0192\n"
                "  daybook quarantine release --reason rejected --why 'column widened'\n"
                "  daybook quarantine discard req_0192 --consumer billing --why 'test traffic'\n",
    .choices = "list show release discard",
    .operands_max = SIZE_MAX,
    .flags = {{"--consumer", NULL, "NAME", NULL,
               "whose; where there is but one consumer it need not be said (list: all)"},
              {"--reason", NULL, "R", "malformed rejected attempts_exhausted",
               "only those that were set aside for this reason"},
              {"--all", NULL, NULL, NULL, "all of them"},
              {"--why", NULL, "TEXT", NULL, "kept in the trail of operations; discard needs it"},
              CLI_JSON_FLAG("one object a line"),
              CLI_DAEMON_FLAGS},
    .run = run,
};
