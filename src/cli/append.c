/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `daybook append`: NDJSON events to the daemon, or straight into a data directory.
 *
 * Lines are sent in batches, one after the other, so the order of the file is the order of acceptance.
 * What is not known to be durable is repeated with the same request_id, which the journal recognises;
 * when that does not help, the command stops there: it never goes on past a gap.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <daybook/log.h>

#include "app/compose.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/exported.h"
#include "event/ndjson.h"
#include "json/json.h"

#define BATCH_LINES 1000u
#define BATCH_BYTES (1024u * 1024u) /* one request, unless a single line is longer */
#define READ_BYTES (1024u * 1024u)
#define LINE_BYTES_MAX (64u * 1024u * 1024u)
#define WAIT_DEFAULT_S 60u /* for a daemon that cannot take events now */
#define WAIT_MAX_S 86400u
#define FIRST_PAUSE_MS 200
#define PAUSE_MAX_MS 5000
#define BAR_WIDTH 30
#define WAIT_SHOWN_BYTES 76u /* a line of a terminal */
#define BAR_INTERVAL_US 100000
#define ID_SHOWN_BYTES (DAYBOOK_NAME_BYTES_MAX + 1)

/* A line that waits to be sent. */
struct line {
    uint64_t number;
    size_t offset; /* into the batch's text */
    size_t len;
    enum cli_line_kind kind;
    bool pending;
};

struct append {
    struct cli_client *client;       /* over HTTP */
    struct daybook_journal *journal; /* or into a directory */
    struct daybook_event_limits limits;
    int64_t wait_us;      /* how long a daemon that takes nothing is waited for */
    bool json;            /* for a machine that reads */
    struct dbk_text text; /* of the batch */
    struct line lines[BATCH_LINES];
    size_t count;
    uint64_t accepted;
    uint64_t already_present;
    uint64_t refused;
    /* Progress */
    bool bar;
    uint64_t bytes_total; /* 0: not known */
    uint64_t bytes_read;
    int64_t bar_shown_us;
};

static int64_t clock_us(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The lines that have their answer. */
static uint64_t answered(const struct append *a)
{
    return a->accepted + a->already_present + a->refused;
}

/* ---- what people see ------------------------------------------------------------------------- */

static void clear_bar(const struct append *a)
{
    if (a->bar) {
        fputs("\r\033[K", stderr);
    }
}

static void show_bar(struct append *a)
{
    int64_t now = clock_us(CLOCK_MONOTONIC);
    if (!a->bar || now - a->bar_shown_us < BAR_INTERVAL_US) {
        return;
    }
    a->bar_shown_us = now;
    uint64_t done = answered(a);
    if (a->bytes_total == 0) {
        fprintf(stderr, "\r\033[K%" PRIu64 " events", done);
        return;
    }
    uint64_t part = a->bytes_read < a->bytes_total ? a->bytes_read : a->bytes_total;
    int filled = (int)(part * BAR_WIDTH / a->bytes_total);
    fprintf(stderr, "\r\033[K[%.*s%*s] %3u%%  %" PRIu64 " events", filled,
            "##############################", BAR_WIDTH - filled, "",
            (unsigned)(part * 100 / a->bytes_total), done);
}

/* Why nothing moves, on the bar's line. */
static void show_wait(struct append *a, int64_t ms, const struct dbk_text *problem)
{
    char text[WAIT_SHOWN_BYTES];
    if (a->bar && problem->data != NULL) {
        (void)snprintf(text, sizeof text, "waiting %" PRId64 " s: %s", (ms + 999) / 1000,
                       problem->data);
        clear_bar(a);
        cli_print_plain(stderr, text);
        a->bar_shown_us = 0;
    }
}

/* A refused line as a JSON object on stdout. */
static void print_refusal(uint64_t number, const char *code, const char *message,
                          const char *request_id)
{
    struct dbk_text line = {0};
    dbk_text_printf(
        &line, "{\"kind\":\"refused\",\"line\":%" PRIu64 ",\"code\":\"%s\",\"message\":", number,
        code);
    dbk_text_json_str(&line, message);
    dbk_text_str(&line, ",\"request_id\":");
    if (request_id[0] != '\0') {
        dbk_text_json_str(&line, request_id);
    } else {
        dbk_text_str(&line, "null");
    }
    printf("%s}\n", line.data != NULL ? line.data : "");
    dbk_text_release(&line);
}

static void tell_refusal(struct append *a, uint64_t number, const char *code, const char *message,
                         const char *request_id)
{
    a->refused++;
    if (a->json) {
        print_refusal(number, code, message, request_id);
        return;
    }
    clear_bar(a);
    fprintf(stderr, "line %" PRIu64 ": %s: ", number, code);
    cli_print_plain(stderr, message);
    if (request_id[0] != '\0') {
        fputs(" (request_id ", stderr);
        cli_print_plain(stderr, request_id);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
}

/* ---- over HTTP ------------------------------------------------------------------------------- */

/* What one request left to do. */
enum sent {
    SENT_DONE,  /* every line has its answer */
    SENT_AGAIN, /* some lines are not known to be durable */
    SENT_SPLIT, /* the body was too large for the daemon */
    SENT_FAILED /* told already */
};

static struct line *nth_pending(struct append *a, size_t from, size_t to, uint64_t n)
{
    for (size_t i = from; i < to; i++) {
        if (a->lines[i].pending && n-- == 0) {
            return &a->lines[i];
        }
    }
    return NULL;
}

/* Takes an answer that counts: refusals are told, what a repeat can mend stays pending. */
static enum sent take_counts(struct append *a, size_t from, size_t to, struct daybook_bytes body)
{
    struct line *again[BATCH_LINES];
    size_t again_count = 0;
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    if (dbk_json_walk_init(&walk, cli_member(body, "errors"))) {
        while (dbk_json_walk_next(&walk, &item)) {
            char code[64];
            char message[512];
            char id[ID_SHOWN_BYTES];
            struct line *line = nth_pending(a, from, to, cli_member_number(item.value, "index"));
            if (line == NULL) {
                continue;
            }
            if (cli_member_true(item.value, "retry")) {
                again[again_count++] = line;
                if (again_count == BATCH_LINES) {
                    break;
                }
            } else {
                tell_refusal(a, line->number,
                             cli_member_text(item.value, "code", code, sizeof code),
                             cli_member_text(item.value, "message", message, sizeof message),
                             cli_member_text(item.value, "request_id", id, sizeof id));
            }
        }
    }
    a->accepted += cli_member_number(body, "accepted");
    a->already_present += cli_member_number(body, "already_present");
    for (size_t i = from; i < to; i++) {
        a->lines[i].pending = false;
    }
    for (size_t i = 0; i < again_count; i++) {
        again[i]->pending = true;
    }
    return again_count > 0 ? SENT_AGAIN : SENT_DONE;
}

/* Whether an answer speaks of the moment: of a daemon that stops or has too many connections, or of a proxy whose
 * daemon is away. What it says of the events is nothing. */
static bool is_passing(unsigned status)
{
    return status == 408 || status == 429 || (status >= 502 && status <= 504);
}

static enum sent take_answer(struct append *a, size_t from, size_t to,
                             const struct cli_response *response, struct dbk_text *problem)
{
    struct daybook_bytes body = {response->body.data, response->body.len};
    bool json = body.len > 0 && dbk_json_check_object(body, NULL) == DAYBOOK_OK;
    cli_response_problem(response, problem);
    if (json && cli_member(body, "failed").len > 0) {
        return take_counts(a, from, to, body);
    }
    if (response->status == 413) {
        return SENT_SPLIT;
    }
    if (is_passing(response->status)) {
        return SENT_AGAIN;
    }
    clear_bar(a);
    (void)cli_error(CLI_FAILED, "append: %s: %s", cli_client_url(a->client),
                    problem->data != NULL ? problem->data : "no memory");
    return SENT_FAILED;
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* What a repeat needs to know of the request before it. */
struct attempt {
    struct dbk_text body;
    struct dbk_text problem;
    struct cli_response response;
    enum daybook_code code;
};

/* Sends those of the lines [from, to) that have no answer yet, once. */
static enum sent send_once(struct append *a, size_t from, size_t to, struct attempt *t)
{
    t->body.len = 0;
    t->problem.len = 0;
    for (size_t i = from; i < to; i++) {
        if (a->lines[i].pending) {
            dbk_text_put(&t->body, a->text.data + a->lines[i].offset, a->lines[i].len);
            dbk_text_char(&t->body, '\n');
        }
    }
    struct daybook_bytes bytes = {t->body.data, t->body.len};
    struct daybook_error err = {0};
    t->code = t->body.failed
                  ? dbk_fail(&err, DAYBOOK_NO_MEMORY, "no memory for a request")
                  : cli_client_request(a->client, "/v1/events", &bytes, &t->response, &err);
    if (t->code == DAYBOOK_OK) {
        return take_answer(a, from, to, &t->response, &t->problem);
    }
    dbk_text_str(&t->problem, err.message);
    return SENT_AGAIN;
}

static enum sent give_up(struct append *a, size_t from, size_t to, const struct attempt *t)
{
    const struct line *line = nth_pending(a, from, to, 0);
    char asked[64] = "";
    if (t->response.retry_after_s > 0) {
        (void)snprintf(asked, sizeof asked, " (it asks to wait %u s)", t->response.retry_after_s);
    }
    clear_bar(a);
    (void)cli_error(CLI_FAILED,
                    "append: stopped at line %" PRIu64
                    ", which is not known to be durable: %s%s; append the same file again later",
                    line != NULL ? line->number : 0,
                    t->problem.data != NULL ? t->problem.data : "no memory", asked);
    return SENT_FAILED;
}

/* Sends the lines [from, to) until each has its answer. What speaks of the moment is waited for, as long as the
 * daemon asked, until nothing has come of it for `wait_us`. `first`: nothing was sent before, so a daemon that is
 * not there is told at once. */
static enum sent send_lines(struct append *a, size_t from, size_t to, bool first)
{
    struct attempt t = {0};
    int64_t pause_ms = FIRST_PAUSE_MS;
    int64_t until_us = clock_us(CLOCK_MONOTONIC) + a->wait_us;
    enum sent sent;
    for (;;) {
        uint64_t before = answered(a);
        sent = send_once(a, from, to, &t);
        if (sent != SENT_AGAIN) {
            break;
        }
        int64_t now = clock_us(CLOCK_MONOTONIC);
        if (answered(a) > before) {
            pause_ms = FIRST_PAUSE_MS;
            until_us = now + a->wait_us;
        }
        int64_t asked_ms = (int64_t)t.response.retry_after_s * 1000;
        int64_t ms = asked_ms > pause_ms ? asked_ms : pause_ms;
        if ((t.code == DAYBOOK_BUSY && first) || now + ms * 1000 > until_us) {
            sent = give_up(a, from, to, &t);
            break;
        }
        show_wait(a, ms, &t.problem);
        sleep_ms(ms);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    dbk_text_release(&t.body);
    dbk_text_release(&t.problem);
    dbk_text_release(&t.response.body);
    return sent;
}

/* Sends the batch; a body that the daemon finds too large is halved, down to single lines. */
static enum cli_status send_batch(struct append *a)
{
    size_t size = a->count;
    size_t at = 0;
    while (at < a->count) {
        size_t to = at + size < a->count ? at + size : a->count;
        bool first = answered(a) == 0;
        enum sent sent = send_lines(a, at, to, first);
        if (sent == SENT_FAILED) {
            return CLI_FAILED;
        }
        if (sent == SENT_SPLIT && to - at == 1) {
            tell_refusal(a, a->lines[at].number, "too_large",
                         "the line is larger than the daemon takes (max_body_bytes)", "");
        } else if (sent == SENT_SPLIT) {
            size = (to - at) / 2;
            continue;
        }
        at = to;
    }
    return CLI_DONE;
}

/* ---- into a directory ------------------------------------------------------------------------ */

static enum cli_status store_batch(struct append *a)
{
    static struct daybook_event_names names[BATCH_LINES];
    static struct daybook_event events[BATCH_LINES];
    static struct daybook_append_result results[BATCH_LINES];
    size_t line_of[BATCH_LINES];
    size_t count = 0;
    char id[ID_SHOWN_BYTES];
    for (size_t i = 0; i < a->count; i++) {
        const struct line *line = &a->lines[i];
        struct daybook_bytes json = {a->text.data + line->offset, line->len};
        struct daybook_error err = {0};
        memset(&events[count], 0, sizeof events[count]);
        enum daybook_code code =
            line->kind == CLI_LINE_EXPORTED
                ? cli_exported_event(json, &a->limits, &names[count], &events[count], &err)
                : daybook_event_from_json(json, &a->limits, &names[count], &events[count], &err);
        if (code == DAYBOOK_OK) {
            line_of[count++] = i;
        } else {
            const struct daybook_bytes *given = &events[count].request_id;
            (void)snprintf(id, sizeof id, "%.*s",
                           (int)(given->len < sizeof id ? given->len : sizeof id - 1),
                           given->data != NULL ? given->data : "");
            tell_refusal(a, line->number, daybook_code_name(code), err.message, id);
        }
    }
    struct daybook_error err = {0};
    enum daybook_code code =
        count == 0
            ? DAYBOOK_OK
            : daybook_journal_append_batch(a->journal, events, count, clock_us(CLOCK_REALTIME),
                                           DAYBOOK_NO_DEADLINE, results, &err);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = a->lines[line_of[i]].number;
        (void)snprintf(id, sizeof id, "%.*s", (int)events[i].request_id.len,
                       events[i].request_id.data);
        if (results[i].code == DAYBOOK_OK) {
            a->accepted++;
        } else if (results[i].code == DAYBOOK_ALREADY_PRESENT) {
            a->already_present++;
        } else if (daybook_code_class(results[i].code) == DAYBOOK_CLASS_REFUSED) {
            tell_refusal(a, number, daybook_code_name(results[i].code),
                         results[i].code == DAYBOOK_CONFLICT
                             ? "this request_id is stored with other content"
                             : "refused by the journal",
                         id);
        } else {
            clear_bar(a);
            return cli_error(CLI_FAILED,
                             "append: stopped at line %" PRIu64 ", which is not stored: %s%s%s",
                             number, daybook_code_name(results[i].code),
                             code != DAYBOOK_OK ? ": " : "", err.message);
        }
    }
    return CLI_DONE;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum cli_status flush_batch(struct append *a)
{
    if (a->count == 0) {
        return CLI_DONE;
    }
    enum cli_status status = a->journal != NULL ? store_batch(a) : send_batch(a);
    a->count = 0;
    a->text.len = 0;
    show_bar(a);
    return status;
}

static enum cli_status take_line(struct append *a, struct daybook_bytes line, uint64_t number)
{
    if (a->count == BATCH_LINES || (a->count > 0 && a->text.len + line.len > BATCH_BYTES)) {
        enum cli_status status = flush_batch(a);
        if (status != CLI_DONE) {
            return status;
        }
    }
    struct line *slot = &a->lines[a->count];
    *slot = (struct line){.number = number, .offset = a->text.len, .pending = true};
    slot->kind = cli_line_kind(line);
    struct daybook_error err = {0};
    if (slot->kind == CLI_LINE_EXPORTED && a->journal == NULL) {
        if (cli_exported_flat(line, &a->limits, &a->text, &err) != DAYBOOK_OK) {
            a->text.len = slot->offset;
            tell_refusal(a, number, daybook_code_name(err.code), err.message, "");
            return CLI_DONE;
        }
    } else {
        dbk_text_put(&a->text, line.data, line.len);
    }
    if (a->text.failed) {
        return cli_error(CLI_FAILED, "append: no memory for line %" PRIu64, number);
    }
    slot->len = a->text.len - slot->offset;
    a->count++;
    return CLI_DONE;
}

/* Reads on behind what is left in `input`; false at the end of the file. */
static enum cli_status read_more(struct append *a, int fd, struct dbk_text *input, bool *ret_end)
{
    if (input->len > LINE_BYTES_MAX) {
        return cli_error(CLI_FAILED, "append: a line is longer than %u bytes: is it NDJSON?",
                         LINE_BYTES_MAX);
    }
    if (!dbk_text_reserve(input, READ_BYTES)) {
        return cli_error(CLI_FAILED, "append: no memory for the input");
    }
    ssize_t n;
    do {
        n = read(fd, input->data + input->len, READ_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return cli_error(CLI_FAILED, "append: the input cannot be read: %s", strerror(errno));
    }
    input->len += (size_t)n;
    a->bytes_read += (uint64_t)n;
    *ret_end = n == 0;
    return CLI_DONE;
}

static enum cli_status append_all(struct append *a, int fd)
{
    struct dbk_text input = {0};
    struct dbk_ndjson ndjson;
    struct daybook_bytes line;
    uint64_t number = 0;
    enum cli_status status = CLI_DONE;
    bool begun = false;
    bool end = false;
    while (status == CLI_DONE && !end) {
        status = read_more(a, fd, &input, &end);
        struct daybook_bytes text = {input.data, input.len};
        enum dbk_ndjson_more more = end ? DBK_NDJSON_WHOLE : DBK_NDJSON_PART;
        if (status == CLI_DONE && begun) {
            dbk_ndjson_refill(&ndjson, text, more);
        } else if (status == CLI_DONE) {
            dbk_ndjson_init(&ndjson, text, more);
            begun = true;
        }
        while (status == CLI_DONE && dbk_ndjson_next(&ndjson, &line, &number)) {
            status = take_line(a, line, number);
        }
        if (status == CLI_DONE) {
            struct daybook_bytes rest = dbk_ndjson_rest(&ndjson);
            if (rest.len > 0) {
                memmove(input.data, rest.data, rest.len);
            }
            input.len = rest.len;
        }
    }
    if (status == CLI_DONE) {
        status = flush_batch(a);
    }
    dbk_text_release(&input);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum daybook_code open_directory(struct append *a, const char *path, const char *config_path,
                                        struct daybook_error *err)
{
    struct dbk_config *config = NULL;
    enum daybook_code code = dbk_config_load(config_path, &config, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    struct daybook_log_options options;
    dbk_compose_log_options(config, clock_us(CLOCK_REALTIME), &options);
    options.path = path;
    options.threads = DAYBOOK_LOG_INLINE;
    options.append_only = true;
    a->limits = options.capacity.events;
    code = daybook_log_open(&options, &a->journal, err);
    dbk_config_free(config);
    return code;
}

static void set_up_bar(struct append *a, int fd)
{
    struct stat st;
    a->bar = isatty(STDERR_FILENO) == 1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        a->bytes_total = (uint64_t)st.st_size;
    }
}

static enum cli_status run_on(struct append *a, int fd)
{
    set_up_bar(a, fd);
    enum cli_status status = append_all(a, fd);
    struct daybook_error err = {0};
    if (a->journal != NULL && daybook_journal_close(a->journal, &err) != DAYBOOK_OK) {
        status =
            cli_error(CLI_FAILED, "append: the journal's end could not be marked: %s", err.message);
    }
    clear_bar(a);
    printf(a->json ? "{\"kind\":\"counts\",\"accepted\":%" PRIu64 ",\"already_present\":%" PRIu64
                     ",\"refused\":%" PRIu64 "}\n"
                   : "accepted %" PRIu64 ", already present %" PRIu64 ", refused %" PRIu64 "\n",
           a->accepted, a->already_present, a->refused);
    enum cli_status printed = cli_finish_output();
    if (status == CLI_DONE) {
        status = printed;
    }
    return status == CLI_DONE && a->refused > 0 ? CLI_PARTLY : status;
}

static enum cli_status connect_and_run(struct append *a, int fd, const struct cli_args *args)
{
    const char *data = cli_value(args, "--data");
    struct daybook_error err = {0};
    enum cli_status status = CLI_DONE;
    if (data == NULL) {
        status = cli_client_for(args, &a->client);
    } else if (open_directory(a, data, cli_value(args, "--config"), &err) != DAYBOOK_OK) {
        status = cli_error(cli_status_of(err.code), "append: %s", err.message);
    }
    if (status == CLI_DONE) {
        status = run_on(a, fd);
    }
    cli_client_free(a->client);
    dbk_text_release(&a->text);
    return status;
}

/* What cannot stand beside --data, and what only it may have. */
static enum cli_status check_usage(const struct cli_args *args, uint64_t *ret_wait_s)
{
    const char *wait = cli_value(args, "--wait");
    bool data = cli_given(args, "--data");
    if (data && (cli_given(args, "--url") || cli_given(args, "--token-file") || wait != NULL)) {
        return cli_error(CLI_USAGE, "append: --data asks no daemon: leave %s out",
                         cli_given(args, "--url")          ? "--url"
                         : cli_given(args, "--token-file") ? "--token-file"
                                                           : "--wait");
    }
    if (cli_given(args, "--config") && !data) {
        return cli_error(CLI_USAGE, "append: --config is for --data; the daemon has its own");
    }
    *ret_wait_s = WAIT_DEFAULT_S;
    if (wait != NULL && (!cli_number(wait, ret_wait_s) || *ret_wait_s > WAIT_MAX_S)) {
        return cli_error(CLI_USAGE, "append: --wait \"%s\": write seconds, 0 to %u", wait,
                         WAIT_MAX_S);
    }
    return CLI_DONE;
}

static enum cli_status run(const struct cli_args *args)
{
    const char *file = args->operand_count > 0 ? cli_operand(args, 0) : "-";
    uint64_t wait_s = 0;
    enum cli_status status = check_usage(args, &wait_s);
    if (status != CLI_DONE) {
        return status;
    }
    int fd = strcmp(file, "-") == 0 ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cli_error(CLI_FAILED, "append: %s cannot be opened: %s", file, strerror(errno));
    }
    struct append *a = calloc(1, sizeof *a);
    if (a != NULL) {
        a->wait_us = (int64_t)wait_s * 1000000;
        a->json = cli_given(args, "--json");
        status = connect_and_run(a, fd, args);
    } else {
        status = cli_error(CLI_FAILED, "append: no memory");
    }
    free(a);
    if (fd != STDIN_FILENO) {
        (void)close(fd);
    }
    return status;
}

const struct cli_command cli_append = {
    .name = "append",
    .arguments = "[FILE|-] [--json] [--wait SECONDS] [--url URL | --data DIR [-c FILE]]",
    .summary = "appends events (NDJSON, one a line), in order, each durable before it is counted",
    .about =
        "Takes plain events, and what `daybook export` writes. Ends with counts; each refusal is "
        "told with\n"
        "its line number. Appending a file again is safe: what is there is counted as already "
        "present.\n"
        "A daemon that cannot take events now (a full journal, too many connections, a restart) is "
        "waited for.\n"
        "Exit status 3: some lines were refused, the others are stored.\n",
    .examples = "  daybook append events.ndjson\n"
                "  daybook export --url http://old:8377 | daybook append - --data ./daybook-data\n",
    .choices = "FILE",
    .operands_max = 1,
    .flags = {CLI_DAEMON_FLAGS,
              {"--data", NULL, "DIR", NULL, "straight into a data directory that no daemon holds"},
              {"--config", "-c", "FILE", NULL,
               "with --data: the journal's limits (the directory is DIR)"},
              {"--wait", NULL, "SECONDS", NULL,
               "how long to wait for a daemon that takes nothing (60); 0: do not wait"},
              CLI_JSON_FLAG("each refused line, and the counts, as one JSON object a line")},
    .run = run,
};
