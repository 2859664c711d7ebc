/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client of client.h, on libcurl. */
#include "cli/client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/token.h"
#include "json/json.h"

#define CONNECT_TIMEOUT_S 5L
#define ANSWER_TIMEOUT_S 120L
#define ANSWER_BYTES_MAX (256u * 1024u * 1024u)
#define URL_BYTES_MAX 1024u

struct cli_client {
    CURL *curl;
    struct curl_slist *token;   /* the header that shows the token, or NULL */
    struct curl_slist *headers; /* of a body of lines, with the token */
    char url[URL_BYTES_MAX];
    char shown[URL_BYTES_MAX];
};

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
    struct cli_response *response = user;
    size_t len = size * count;
    if (response->body.len + len > ANSWER_BYTES_MAX) {
        return 0;
    }
    dbk_text_put(&response->body, data, len);
    return response->body.failed ? 0 : len;
}

/* The value of a header line of this name (with its colon), or NULL. */
static const char *header_value(const char *line, const char *name)
{
    size_t len = strlen(name);
    if (strncasecmp(line, name, len) != 0) {
        return NULL;
    }
    return line + len + strspn(line + len, " \t");
}

static size_t take_header(char *data, size_t size, size_t count, void *user)
{
    struct cli_response *response = user;
    char line[256];
    size_t len = size * count < sizeof line - 1 ? size * count : sizeof line - 1;
    memcpy(line, data, len);
    line[len] = '\0';
    const char *value = header_value(line, "Retry-After:");
    if (value != NULL) {
        response->retry_after_s = (unsigned)strtoul(value, NULL, 10);
    }
    value = header_value(line, "Daybook-Last-Position:");
    if (value != NULL) {
        response->last_position = strtoull(value, NULL, 10);
    }
    value = header_value(line, "Daybook-More:");
    if (value != NULL) {
        response->more = strncmp(value, "yes", 3) == 0;
        response->listing = true;
    }
    return size * count;
}

/* The headers `one` and `other` with the token. Owned; NULL: no memory. */
static struct curl_slist *headers_with(const struct cli_client *client, const char *one,
                                       const char *other)
{
    const char *const lines[] = {one, other, client->token != NULL ? client->token->data : NULL};
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && lines[i] != NULL; i++) {
        struct curl_slist *longer = curl_slist_append(list, lines[i]);
        if (longer == NULL) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

/* ---- a client -------------------------------------------------------------------------------- */

static enum daybook_code set_up(struct cli_client *client, const char *url,
                                struct daybook_error *err)
{
    const char *socket_path = strncmp(url, "unix:", 5) == 0 ? url + 5 : NULL;
    const char *base = socket_path != NULL ? "http://localhost" : url;
    if (strlen(url) >= sizeof client->url - 64 ||
        (socket_path == NULL && strncmp(url, "http://", 7) != 0 &&
         strncmp(url, "https://", 8) != 0)) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "\"%.200s\" is no URL of a daemon: write it like " CLI_DEFAULT_URL
                        " or unix:/run/daybook.sock",
                        url);
    }
    (void)snprintf(client->shown, sizeof client->shown, "%s", url);
    (void)snprintf(client->url, sizeof client->url, "%s", base);
    size_t len = strlen(client->url);
    while (len > 0 && client->url[len - 1] == '/') {
        client->url[--len] = '\0';
    }
    client->curl = curl_easy_init();
    client->headers = headers_with(client, "Content-Type: application/x-ndjson", "Expect:");
    if (client->curl == NULL || client->headers == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the HTTP client");
    }
    (void)curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    (void)curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, ANSWER_TIMEOUT_S);
    (void)curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    /* A proxy of the environment has no business between a command and its daemon. */
    (void)curl_easy_setopt(client->curl, CURLOPT_PROXY, "");
    if (socket_path != NULL) {
        (void)curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    }
    return DAYBOOK_OK;
}

static enum daybook_code take_token(struct cli_client *client, const char *path,
                                    struct daybook_error *err)
{
    static const char name[] = "Authorization: Bearer ";
    char line[sizeof name + CLI_TOKEN_BYTES_MAX];
    memcpy(line, name, sizeof name);
    enum daybook_code code = cli_token_read(path, line + sizeof name - 1, err);
    if (code == DAYBOOK_OK) {
        client->token = curl_slist_append(NULL, line);
        code = client->token != NULL
                   ? DAYBOOK_OK
                   : dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the HTTP client");
    }
    explicit_bzero(line, sizeof line);
    return code;
}

/* The option of the command line, else the variable; one that is empty counts as not there. */
static const char *option_or(const struct cli_args *args, const char *flag, const char *variable,
                             const char *otherwise)
{
    const char *value = cli_value(args, flag);
    if (value == NULL) {
        value = getenv(variable);
        value = value != NULL && value[0] != '\0' ? value : otherwise;
    }
    return value;
}

enum cli_status cli_client_for(const struct cli_args *args, struct cli_client **ret)
{
    struct daybook_error err = {0};
    const char *token_file = option_or(args, "--token-file", "DAYBOOK_TOKEN_FILE", NULL);
    const char *url = option_or(args, "--url", "DAYBOOK_URL", CLI_DEFAULT_URL);
    struct cli_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return cli_error(CLI_FAILED, "%s: no memory for the HTTP client", args->command->name);
    }
    enum daybook_code code = DAYBOOK_OK;
    if (token_file != NULL) {
        code = take_token(client, token_file, &err);
    }
    if (code == DAYBOOK_OK) {
        code = set_up(client, url, &err);
    }
    if (code != DAYBOOK_OK) {
        cli_client_free(client);
        return cli_error(cli_status_of(code), "%s: %s", args->command->name, err.message);
    }
    *ret = client;
    return CLI_DONE;
}

static void forget_headers(struct curl_slist *list)
{
    for (struct curl_slist *at = list; at != NULL; at = at->next) {
        explicit_bzero(at->data, strlen(at->data));
    }
    curl_slist_free_all(list);
}

void cli_client_free(struct cli_client *client)
{
    if (client == NULL) {
        return;
    }
    forget_headers(client->headers);
    forget_headers(client->token);
    curl_easy_cleanup(client->curl);
    free(client);
}

const char *cli_client_url(const struct cli_client *client)
{
    return client->shown;
}

/* Sets the method and the body of the next request; `body` NULL: none. */
static void set_request(struct cli_client *client, const char *method, const char *body, size_t len,
                        struct curl_slist *headers)
{
    bool post = strcmp(method, "POST") == 0;
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);
    (void)curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, NULL);
    if (post) {
        (void)curl_easy_setopt(client->curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body != NULL ? body : "");
        (void)curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    } else if (strcmp(method, "GET") != 0) {
        (void)curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, method);
    }
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
}

static enum daybook_code perform(struct cli_client *client, const char *path,
                                 struct cli_response *response, struct daybook_error *err)
{
    struct dbk_text url = {0};
    dbk_text_printf(&url, "%s%s", client->url, path);
    if (url.failed) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a request");
    }
    dbk_text_release(&response->body);
    *response = (struct cli_response){0};
    (void)curl_easy_setopt(client->curl, CURLOPT_URL, url.data);
    (void)curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, response);
    (void)curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, response);
    CURLcode result = curl_easy_perform(client->curl);
    dbk_text_release(&url);
    if (result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_HOST) {
        return dbk_fail(err, DAYBOOK_BUSY,
                        "no daemon answers at %s (%s): start one with `daybook serve`, or name "
                        "another with --url",
                        client->shown, curl_easy_strerror(result));
    }
    if (result != CURLE_OK) {
        return dbk_fail(err, DAYBOOK_BACKEND, "the answer of %s did not come: %s", client->shown,
                        curl_easy_strerror(result));
    }
    long status = 0;
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    response->status = (unsigned)status;
    return DAYBOOK_OK;
}

enum daybook_code cli_client_request(struct cli_client *client, const char *path,
                                     const struct daybook_bytes *body,
                                     struct cli_response *response, struct daybook_error *err)
{
    if (body != NULL) {
        set_request(client, "POST", body->data, body->len, client->headers);
    } else {
        set_request(client, "GET", NULL, 0, client->token);
    }
    return perform(client, path, response, err);
}

/* Who runs this command, as the system knows it. */
static void write_operator(char *buf, size_t room)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user != NULL) {
        (void)snprintf(buf, room, "Daybook-Operator: %s", user->pw_name);
    } else {
        (void)snprintf(buf, room, "Daybook-Operator: uid %u", (unsigned)geteuid());
    }
}

enum daybook_code cli_client_send(struct cli_client *client, const char *method, const char *path,
                                  const char *body, struct cli_response *response,
                                  struct daybook_error *err)
{
    char who[200];
    write_operator(who, sizeof who);
    struct curl_slist *headers = headers_with(client, who, "Content-Type: application/json");
    enum daybook_code code = DAYBOOK_NO_MEMORY;
    if (headers == NULL) {
        (void)dbk_fail(err, code, "no memory for a request");
    } else {
        set_request(client, method, body, body != NULL ? strlen(body) : 0, headers);
        code = perform(client, path, response, err);
    }
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, NULL);
    forget_headers(headers);
    return code;
}

enum cli_status cli_client_ask(struct cli_client *client, const char *command, const char *method,
                               const char *path, const char *body, struct cli_response *response)
{
    struct daybook_error err = {0};
    enum daybook_code code = cli_client_send(client, method, path, body, response, &err);
    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "%s: %s", command, err.message);
    }
    struct daybook_bytes answer = {response->body.data, response->body.len};
    bool lines = response->listing; /* each is looked at by itself */
    if (response->status == 200 &&
        (lines || (answer.len > 0 && dbk_json_check_object(answer, NULL) == DAYBOOK_OK))) {
        return CLI_DONE;
    }
    struct dbk_text problem = {0};
    cli_response_problem(response, &problem);
    (void)cli_error(CLI_FAILED, "%s: %s: %s", command, client->shown,
                    problem.data != NULL ? problem.data : "no memory");
    dbk_text_release(&problem);
    return CLI_FAILED;
}

void cli_put_escaped(struct dbk_text *text, const char *s)
{
    for (; *s != '\0'; s++) {
        if (isalnum((unsigned char)*s) || strchr("-._~", *s) != NULL) {
            dbk_text_char(text, *s);
        } else {
            dbk_text_printf(text, "%%%02X", (unsigned)(unsigned char)*s);
        }
    }
}

void cli_response_problem(const struct cli_response *response, struct dbk_text *text)
{
    struct daybook_bytes body = {response->body.data, response->body.len};
    char code[64];
    char detail[512];
    if (body.len > 0 && dbk_json_check_object(body, NULL) == DAYBOOK_OK &&
        cli_member(body, "code").len > 0) {
        dbk_text_printf(text, "%s: %s", cli_member_text(body, "code", code, sizeof code),
                        cli_member_text(body, "detail", detail, sizeof detail));
    } else if (response->status == 401 || response->status == 403) {
        dbk_text_printf(text, "HTTP status %u: it wants another token: see --token-file",
                        response->status);
    } else {
        dbk_text_printf(text, "HTTP status %u: is it a daybook daemon?", response->status);
    }
}

struct daybook_bytes cli_member(struct daybook_bytes object, const char *name)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;
    struct daybook_bytes plain = {name, strlen(name)};
    if (dbk_json_walk_init(&walk, object)) {
        while (dbk_json_walk_next(&walk, &item)) {
            if (item.name.len > 0 && dbk_json_string_is(item.name, plain)) {
                return item.value;
            }
        }
    }
    return (struct daybook_bytes){NULL, 0};
}

const char *cli_member_text(struct daybook_bytes object, const char *name, char *buf, size_t room)
{
    struct daybook_bytes value = cli_member(object, name);
    size_t len = 0;
    if (value.len > 0 && value.data[0] == '"') {
        len = dbk_json_string_decode(value, buf, room - 1);
    }
    buf[len < room - 1 ? len : room - 1] = '\0';
    return buf;
}

bool cli_member_true(struct daybook_bytes object, const char *name)
{
    struct daybook_bytes value = cli_member(object, name);
    return value.len == 4 && memcmp(value.data, "true", 4) == 0;
}

uint64_t cli_member_number(struct daybook_bytes object, const char *name)
{
    struct daybook_bytes value = cli_member(object, name);
    int64_t number = 0;
    if (value.len == 0 || ((value.data[0] < '0' || value.data[0] > '9')) ||
        !dbk_json_number_int64(value, &number)) {
        return 0;
    }
    return (uint64_t)number;
}
