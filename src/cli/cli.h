/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands share: exit statuses, the table of commands, options, one-line errors.
 * Threads: the main thread alone.
 */
#ifndef DBK_CLI_CLI_H
#define DBK_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include <daybook/base.h>

/* The exit statuses that scripts rely on. */
enum cli_status {
    CLI_DONE = 0,
    CLI_FAILED = 1, /* it failed */
    CLI_USAGE = 2,  /* wrong usage or configuration */
    CLI_PARTLY = 3  /* done in part: some events were refused */
};

struct cli_command {
    const char *name;
    const char *arguments; /* as the usage line shows them */
    const char *summary;   /* one line */
    const char *help;      /* options and examples, whole lines */
    enum cli_status (*run)(int argc, char **argv);
};

extern const struct cli_command cli_serve;
extern const struct cli_command cli_append;
extern const struct cli_command cli_stats;
extern const struct cli_command cli_export;
extern const struct cli_command cli_verify;
extern const struct cli_command cli_help;

/* The command of that name, or NULL. */
const struct cli_command *cli_find(const char *name);
/* All of them, ended by NULL. */
extern const struct cli_command *const cli_commands[];

/* One option: `--name VALUE`, `--name=VALUE`, or a flag where `flag` is given. */
struct cli_option {
    const char *name; /* `"--url"`; a short one such as `"-c"` in `brief` */
    const char *brief;
    const char **value;
    bool *flag;
};

/* Takes options (ended by a zeroed one) and operands out of argv[1...]; at most `operands_max` operands.
 * Anything else is an error, told on stderr with the mend. Returns CLI_DONE or CLI_USAGE. */
enum cli_status cli_options(const struct cli_command *command, int argc, char **argv,
                            const struct cli_option *options, const char **operands,
                            size_t operands_max);

/* `daybook: what, where: the mend`, on stderr; returns `status`. */
enum cli_status cli_error(enum cli_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status with which a command ends after this code. */
enum cli_status cli_status_of(enum daybook_code code);

/* Flushes stdout; a reader that is gone or a full disk is an error like any other. */
enum cli_status cli_finish_output(void);

/* A whole number in decimal. */
bool cli_number(const char *text, uint64_t *ret);

#endif
