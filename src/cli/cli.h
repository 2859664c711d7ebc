/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands share: exit statuses, the table of commands and their options, one-line errors.
 *
 * A command is one table: the same rows take its command line apart, write its help, and complete it in a
 * shell. Threads: the main thread alone.
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

/* One option: `--name VALUE` or `--name=VALUE`, or a flag. */
struct cli_flag {
    const char *name;  /* `"--config"` */
    const char *brief; /* a short one such as `"-c"`, or NULL */
    const char
        *value; /* what stands behind it (`"FILE"` and `"DIR"` complete as such); NULL: a flag */
    const char *choices; /* the values that there are, with blanks between, or NULL */
    const char *help;    /* lines with LF between */
};

#define CLI_FLAGS_MAX 8u

struct cli_args;

struct cli_command {
    const char *name;
    const char *arguments; /* as the usage line shows them */
    const char *summary;   /* one line */
    const char *about;     /* whole lines, or "" */
    const char *examples;  /* whole lines that can be pasted */
    /* What the first operand may be, with blanks between; `"FILE"`, `"DIR"`, `"COMMAND"`: one of those; NULL:
     * nothing to complete. */
    const char *choices;
    size_t operands_max;
    struct cli_flag flags[CLI_FLAGS_MAX]; /* ended by a zeroed one where there are fewer */
    enum cli_status (*run)(const struct cli_args *args);
};

/* A command line taken apart. */
struct cli_args {
    const struct cli_command *command;
    const char *values[CLI_FLAGS_MAX]; /* by row of its flags; NULL: not given */
    char **operands;
    size_t operand_count;
};

/* The value of an option of the command, NULL: not given; of a flag: not NULL where it was given. */
const char *cli_value(const struct cli_args *args, const char *name);
bool cli_given(const struct cli_args *args, const char *name);
/* The operand, NULL: not given. */
const char *cli_operand(const struct cli_args *args, size_t i);

extern const struct cli_command cli_serve;
extern const struct cli_command cli_append;
extern const struct cli_command cli_stats;
extern const struct cli_command cli_consumers;
extern const struct cli_command cli_quarantine;
extern const struct cli_command cli_operations;
extern const struct cli_command cli_export;
extern const struct cli_command cli_verify;
extern const struct cli_command cli_dump;
extern const struct cli_command cli_repair;
extern const struct cli_command cli_backup;
extern const struct cli_command cli_check;
extern const struct cli_command cli_migrate;
extern const struct cli_command cli_mint;
extern const struct cli_command cli_bench;
extern const struct cli_command cli_completion;
extern const struct cli_command cli_help;

/* The command of that name, or NULL. */
const struct cli_command *cli_find(const char *name);
/* All of them, ended by NULL. */
extern const struct cli_command *const cli_commands[];

/* The options of every command that asks a daemon: two rows. */
#define CLI_DAEMON_FLAGS                                                                           \
    {"--url", NULL, "URL", NULL, "the daemon; else DAYBOOK_URL, else http://127.0.0.1:8377"},      \
    {                                                                                              \
        "--token-file", NULL, "FILE", NULL,                                                        \
            "the file that holds the token to show it, one line; else DAYBOOK_TOKEN_FILE"          \
    }
#define CLI_JSON_FLAG(help)                                                                        \
    {                                                                                              \
        "--json", NULL, NULL, NULL, help                                                           \
    }

/* `daybook: what, where: the mend`, on stderr; returns `status`. */
enum cli_status cli_error(enum cli_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status with which a command ends after this code. */
enum cli_status cli_status_of(enum daybook_code code);

/* Flushes stdout; a reader that is gone or a full disk is an error like any other. */
enum cli_status cli_finish_output(void);

/* Text that somebody sent, for a terminal: nothing in it may steer that. */
void cli_print_plain(FILE *to, const char *text);

/* A number of bytes with its unit, as people read it: 1536 becomes 1.5 KiB. `buf`: CLI_BYTES_TEXT. */
#define CLI_BYTES_TEXT 32u
const char *cli_bytes_text(uint64_t bytes, char *buf);

/* A whole number in decimal. */
bool cli_number(const char *text, uint64_t *ret);

#endif
