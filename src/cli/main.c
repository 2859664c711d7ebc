/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `daybook`: finds the command that is named, takes its command line apart and runs it. What
 * commands share is here too.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

const struct cli_command *const cli_commands[] = {
    &cli_serve,   &cli_append, &cli_stats, &cli_consumers,  &cli_quarantine, &cli_operations,
    &cli_export,  &cli_verify, &cli_dump,  &cli_repair,     &cli_backup,     &cli_check,
    &cli_migrate, &cli_mint,   &cli_bench, &cli_completion, &cli_help,       NULL};

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

const char *cli_bytes_text(uint64_t bytes, char *buf)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(buf, CLI_BYTES_TEXT, "%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
    return buf;
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

void cli_print_plain(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        bool control = (unsigned char)*text < 0x20 || *text == 0x7F;
        (void)fputc(control ? '?' : *text, to);
    }
}

/* ---- command lines --------------------------------------------------------------------------- */

static size_t row_of(const struct cli_command *command, const char *name)
{
    for (size_t i = 0; i < CLI_FLAGS_MAX; i++) {
        if (command->flags[i].name != NULL && strcmp(command->flags[i].name, name) == 0) {
            return i;
        }
    }
    dbk_assert(false); /* a command asks for an option that is not in its table */
    return 0;
}

const char *cli_value(const struct cli_args *args, const char *name)
{
    return args->values[row_of(args->command, name)];
}

bool cli_given(const struct cli_args *args, const char *name)
{
    return cli_value(args, name) != NULL;
}

const char *cli_operand(const struct cli_args *args, size_t i)
{
    return i < args->operand_count ? args->operands[i] : NULL;
}

/* Whether `arg` is this option; *ret_value is what stands behind an `=`, else NULL. */
static bool flag_matches(const struct cli_flag *flag, const char *arg, const char **ret_value)
{
    size_t len = strlen(flag->name);
    *ret_value = NULL;
    if (strncmp(arg, flag->name, len) == 0 && (arg[len] == '\0' || arg[len] == '=')) {
        *ret_value = arg[len] == '=' ? arg + len + 1 : NULL;
        return true;
    }
    return flag->brief != NULL && strcmp(arg, flag->brief) == 0;
}

static enum cli_status usage_error(const struct cli_command *command, const char *what,
                                   const char *arg)
{
    return cli_error(CLI_USAGE, "%s: %s %s: see daybook help %s", command->name, what, arg,
                     command->name);
}

static enum cli_status take_flag(struct cli_args *args, int argc, char **argv, int *i)
{
    const struct cli_command *command = args->command;
    const char *value = NULL;
    for (size_t row = 0; row < CLI_FLAGS_MAX && command->flags[row].name != NULL; row++) {
        const struct cli_flag *flag = &command->flags[row];
        if (!flag_matches(flag, argv[*i], &value)) {
            continue;
        }
        if (flag->value == NULL) {
            args->values[row] = flag->name;
            return value == NULL ? CLI_DONE
                                 : usage_error(command, "no value belongs to", flag->name);
        }
        if (value == NULL && *i + 1 < argc) {
            value = argv[++*i];
        }
        args->values[row] = value;
        return value != NULL ? CLI_DONE
                             : usage_error(command, "a value is missing after", flag->name);
    }
    return usage_error(command, "unknown option", argv[*i]);
}

/* Takes options and operands out of argv[1...]; the operands are moved to its front. Anything that does not
 * belong there is an error, told on stderr with the mend. Returns CLI_DONE or CLI_USAGE. */
static enum cli_status take_apart(const struct cli_command *command, int argc, char **argv,
                                  struct cli_args *ret)
{
    bool only_operands = false;
    *ret = (struct cli_args){.command = command, .operands = argv};
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            enum cli_status status = take_flag(ret, argc, argv, &i);
            if (status != CLI_DONE) {
                return status;
            }
        } else if (ret->operand_count < command->operands_max) {
            ret->operands[ret->operand_count++] = argv[i];
        } else {
            return usage_error(command, "one argument too many:", argv[i]);
        }
    }
    return CLI_DONE;
}

static enum cli_status run_command(const struct cli_command *command, int argc, char **argv)
{
    struct cli_args args;
    enum cli_status status = take_apart(command, argc, argv, &args);
    return status == CLI_DONE ? command->run(&args) : status;
}

int main(int argc, char **argv)
{
    /* A reader of our output that goes away is told by the write, not by a signal. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* past the limit of file size a write is answered EFBIG */
    if (argc < 2) {
        (void)run_command(&cli_help, 1, argv);
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
            return (int)run_command(&cli_help, 2, help);
        }
    }
    return (int)run_command(command, argc - 1, argv + 1);
}
