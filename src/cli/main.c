/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `daybook`: finds the command that is named and runs it. What commands share is here too.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {&cli_serve,  &cli_append, &cli_stats, &cli_export,
                                                  &cli_verify, &cli_help,   NULL};

const struct cli_command *cli_find(const char *name)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

enum cli_status cli_error(enum cli_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("daybook: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

enum cli_status cli_status_of(enum daybook_code code)
{
    if (code == DAYBOOK_OK) {
        return CLI_DONE;
    }
    return code == DAYBOOK_BAD_CONFIG || code == DAYBOOK_BAD_ARGUMENT ? CLI_USAGE : CLI_FAILED;
}

enum cli_status cli_finish_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        /* A reader that has seen enough (`| head`) is told nothing. */
        return errno == EPIPE ? CLI_FAILED
                              : cli_error(CLI_FAILED, "standard output cannot be written: %s",
                                          strerror(errno));
    }
    return CLI_DONE;
}

bool cli_number(const char *text, uint64_t *ret)
{
    size_t len = strlen(text);
    if (len == 0 || len > 18 || strspn(text, "0123456789") != len) {
        return false;
    }
    *ret = strtoull(text, NULL, 10);
    return true;
}

/* Whether `arg` is this option; *ret_value is what stands behind an `=`, else NULL. */
static bool option_matches(const struct cli_option *option, const char *arg, const char **ret_value)
{
    size_t len = strlen(option->name);
    *ret_value = NULL;
    if (strncmp(arg, option->name, len) == 0 && (arg[len] == '\0' || arg[len] == '=')) {
        *ret_value = arg[len] == '=' ? arg + len + 1 : NULL;
        return true;
    }
    return option->brief != NULL && strcmp(arg, option->brief) == 0;
}

static enum cli_status usage_error(const struct cli_command *command, const char *what,
                                   const char *arg)
{
    return cli_error(CLI_USAGE, "%s: %s %s: see daybook help %s", command->name, what, arg,
                     command->name);
}

static enum cli_status take_option(const struct cli_command *command, int argc, char **argv, int *i,
                                   const struct cli_option *options)
{
    const char *value = NULL;
    for (const struct cli_option *o = options; o->name != NULL; o++) {
        if (!option_matches(o, argv[*i], &value)) {
            continue;
        }
        if (o->flag != NULL) {
            *o->flag = true;
            return value == NULL ? CLI_DONE : usage_error(command, "no value belongs to", o->name);
        }
        if (value == NULL && *i + 1 < argc) {
            value = argv[++*i];
        }
        *o->value = value;
        return value != NULL ? CLI_DONE : usage_error(command, "a value is missing after", o->name);
    }
    return usage_error(command, "unknown option", argv[*i]);
}

enum cli_status cli_options(const struct cli_command *command, int argc, char **argv,
                            const struct cli_option *options, const char **operands,
                            size_t operands_max)
{
    size_t count = 0;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            enum cli_status status = take_option(command, argc, argv, &i, options);
            if (status != CLI_DONE) {
                return status;
            }
        } else if (count < operands_max) {
            operands[count++] = argv[i];
        } else {
            return usage_error(command, "one argument too many:", argv[i]);
        }
    }
    return CLI_DONE;
}

int main(int argc, char **argv)
{
    /* A reader of our output that goes away is told by the write, not by a signal. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        (void)cli_help.run(1, argv);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("daybook %s\n", daybook_version());
        return (int)cli_finish_output();
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    }
    const struct cli_command *command = cli_find(name);
    if (command == NULL) {
        return (int)cli_error(CLI_USAGE, "unknown command \"%s\": daybook help lists them", name);
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            char *help[] = {argv[0], argv[1], NULL};
            return (int)cli_help.run(2, help);
        }
    }
    return (int)command->run(argc - 1, argv + 1);
}
