/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the daemon's HTTP interface: one connection, kept open. Threads: the main thread alone.
 */
#ifndef DBK_CLI_CLIENT_H
#define DBK_CLI_CLIENT_H

#include <daybook/base.h>

#include "app/text.h"
#include "cli/cli.h"

#define CLI_DEFAULT_URL "http://127.0.0.1:8377"

struct cli_client;

struct cli_response {
    unsigned status;
    unsigned retry_after_s; /* 0: not said */
    uint64_t last_position; /* of a listing */
    bool listing;           /* its body is lines */
    bool more;              /* of a listing */
    struct dbk_text body;
};

/* The client for a command line that may have `--url` (else DAYBOOK_URL, else the default; `unix:/path` names a
 * Unix socket) and `--token-file` (else DAYBOOK_TOKEN_FILE, else none). A URL that is none, and a file that holds no
 * token, are told on stderr; the token itself is in no message. *ret: owned, release with cli_client_free. */
enum cli_status cli_client_for(const struct cli_args *args, struct cli_client **ret);
void cli_client_free(struct cli_client *client);
const char *cli_client_url(const struct cli_client *client);

/* One request; `body` NULL: GET, else POST of NDJSON. `response` is overwritten, release its body.
 * Returns OK for any answer; BUSY: nobody listens there, nothing was sent; BACKEND: the answer did not
 * come, what became of the request is unknown. */
enum daybook_code cli_client_request(struct cli_client *client, const char *path,
                                     const struct daybook_bytes *body,
                                     struct cli_response *response, struct daybook_error *err);

/* The same with any method, a JSON body (NULL: none), and the name of whoever runs the command, for the
 * trail of operations. */
enum daybook_code cli_client_send(struct cli_client *client, const char *method, const char *path,
                                  const char *body, struct cli_response *response,
                                  struct daybook_error *err);
/* The same, and the answer has to be a 200 that holds JSON: anything else is told on stderr, as
 * `command: where: what`, and is the status that is returned. */
enum cli_status cli_client_ask(struct cli_client *client, const char *command, const char *method,
                               const char *path, const char *body, struct cli_response *response);

/* Adds `s` percent-encoded, as a part of a path or of a query. */
void cli_put_escaped(struct dbk_text *text, const char *s);

/* The `detail` (with its `code`) of a problem document, or what else can be said of the answer. */
void cli_response_problem(const struct cli_response *response, struct dbk_text *text);

/* A member of a scanned object: its raw bytes; empty: there is none. */
struct daybook_bytes cli_member(struct daybook_bytes object, const char *name);
/* A member that is a string, unescaped into `buf`, NUL-terminated, cut to its room; `""`: none. */
const char *cli_member_text(struct daybook_bytes object, const char *name, char *buf, size_t room);
/* Whether a member is true. */
bool cli_member_true(struct daybook_bytes object, const char *name);
/* A member that is a whole number; 0: none. */
uint64_t cli_member_number(struct daybook_bytes object, const char *name);

#endif
