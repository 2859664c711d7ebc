/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook export`: retained events in order, from a daemon or from a data directory. */
#include <inttypes.h>
#include <string.h>

#include <daybook/log.h>

#include "app/listing.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "event/ndjson.h"
#include "json/json.h"

#define PAGE_EVENTS 1000u
#define PAGE_BYTES (4u * 1024u * 1024u)

struct export
{
    uint64_t after;
    const char *where_text;
    enum daybook_where where;
    bool records;
};

static void put(const struct dbk_text *text)
{
    if (text->len > 0) {
        (void)fwrite(text->data, 1, text->len, stdout);
    }
}

/* ---- from a daemon --------------------------------------------------------------------------- */

static void print_page(const struct export *export, const struct dbk_text *page)
{
    if (!export->records) {
        put(page);
        return;
    }
    struct dbk_ndjson ndjson;
    struct daybook_bytes line;
    uint64_t number = 0;
    dbk_ndjson_init(&ndjson, (struct daybook_bytes){page->data, page->len}, DBK_NDJSON_WHOLE);
    while (dbk_ndjson_next(&ndjson, &line, &number)) {
        struct daybook_bytes record = cli_member(line, "record");
        (void)fwrite(record.data, 1, record.len, stdout);
        (void)fputc('\n', stdout);
    }
}

static enum cli_status export_from_daemon(const struct export *export, const struct cli_args *args)
{
    struct cli_client *client = NULL;
    struct cli_response response = {.more = true};
    uint64_t after = export->after;
    enum cli_status status = cli_client_for(args, &client);
    while (status == CLI_DONE && response.more) {
        char path[160];
        (void)snprintf(path, sizeof path, "/v1/events?after=%" PRIu64 "&limit=%u&where=%s", after,
                       PAGE_EVENTS, export->where_text);
        status = cli_client_ask(client, "export", "GET", path, NULL, &response);
        if (status == CLI_DONE) {
            print_page(export, &response.body);
            after = response.last_position;
            status = ferror(stdout) ? cli_finish_output() : CLI_DONE;
        }
    }
    dbk_text_release(&response.body);
    cli_client_free(client);
    return status == CLI_DONE ? cli_finish_output() : status;
}

/* ---- from a directory ------------------------------------------------------------------------ */

static enum daybook_code print_journal(const struct export *export, struct daybook_journal *journal,
                                       uint64_t *ret_damaged, struct daybook_error *err)
{
    struct daybook_batch *batch = NULL;
    struct dbk_text text = {0};
    uint64_t after = export->after;
    /* Room for the largest event that any configuration allows. */
    enum daybook_code code = daybook_batch_new(PAGE_EVENTS, PAGE_BYTES, 16u << 20, &batch, err);
    bool more = code == DAYBOOK_OK;
    while (more) {
        uint64_t damaged = 0;
        code = daybook_journal_read(journal, after, export->where, batch, &after, &damaged, err);
        *ret_damaged += damaged;
        for (size_t i = 0; code == DAYBOOK_OK && i < batch->count; i++) {
            if (export->records) {
                dbk_record_line(&text, &batch->deliveries[i]);
            } else {
                dbk_event_line(&text, &batch->deliveries[i]);
            }
        }
        put(&text);
        text.len = 0;
        more = code == DAYBOOK_OK && !ferror(stdout) && (batch->count > 0 || batch->more);
    }
    dbk_text_release(&text);
    daybook_batch_free(batch);
    return code;
}

static enum cli_status export_from_directory(const struct export *export, const char *path)
{
    struct daybook_log_options options = {.path = path};
    struct daybook_journal *journal = NULL;
    struct daybook_error err = {0};
    uint64_t damaged = 0;
    enum daybook_code code = daybook_log_open_readonly(&options, &journal, &err);
    if (code == DAYBOOK_OK) {
        code = print_journal(export, journal, &damaged, &err);
        (void)daybook_journal_close(journal, NULL);
    }
    if (code != DAYBOOK_OK) {
        (void)cli_finish_output();
        return cli_error(cli_status_of(code), "export %s: %s: %s", path, daybook_code_name(code),
                         err.message);
    }
    enum cli_status status = cli_finish_output();
    if (damaged > 0) {
        return cli_error(CLI_FAILED,
                         "export %s: %" PRIu64
                         " events are damaged and left out: see daybook verify %s",
                         path, damaged, path);
    }
    return status;
}

static enum cli_status run(const struct cli_args *args)
{
    const char *data = cli_value(args, "--data");
    const char *after = cli_given(args, "--after") ? cli_value(args, "--after") : "0";
    struct export export = {
        .where_text = cli_given(args, "--where") ? cli_value(args, "--where") : "all",
        .records = cli_given(args, "--records"),
    };
    if (!cli_number(after, &export.after)) {
        return cli_error(CLI_USAGE, "export: --after \"%s\" is no position: write digits alone",
                         after);
    }
    if (!dbk_where_parse(export.where_text, &export.where)) {
        return cli_error(CLI_USAGE, "export: --where \"%s\": write all, pending or quarantined",
                         export.where_text);
    }
    if (data != NULL && cli_given(args, "--url")) {
        return cli_error(CLI_USAGE, "export: --data and --url exclude each other: give one");
    }
    return data != NULL ? export_from_directory(&export, data) : export_from_daemon(&export, args);
}

const struct cli_command cli_export = {
    .name = "export",
    .arguments = "[--after POSITION] [--where WHICH] [--records] [--url URL | --data DIR]",
    .summary = "writes retained events as NDJSON, in order",
    .about = "",
    .examples = "  daybook export > events.ndjson\n"
                "  daybook export --data ./daybook-data --records | wc -l\n",
    .flags = {{"--after", NULL, "POSITION", NULL, "begin behind it (0: at the oldest)"},
              {"--where", NULL, "WHICH", "all pending quarantined",
               "all (default); pending: some consumer does not have it yet; quarantined"},
              {"--records", NULL, NULL, NULL, "the records alone, as they were sent"},
              CLI_DAEMON_FLAGS,
              {"--data", NULL, "DIR", NULL,
               "a data directory, read without a daemon (stop it first)"}},
    .run = run,
};
