/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that a token stands in: one line, so that the secret is in no command line, environment or message.
 * Threads: any.
 */
#ifndef DBK_CLI_TOKEN_H
#define DBK_CLI_TOKEN_H

#include <daybook/base.h>

#define CLI_TOKEN_BYTES_MAX 4096u

/* The token of the file, without its line break, NUL-terminated, into CLI_TOKEN_BYTES_MAX + 1 bytes. Returns OK;
 * BAD_ARGUMENT: there is none, with what is wrong with the file and never what it holds. */
enum daybook_code cli_token_read(const char *path, char *ret, struct daybook_error *err);

#endif
