/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook bench`: hands over to the load generator (bench/), a program of its own that is built beside the command
 * or installed below libexec. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define DIR_DEFAULT "daybook-bench"
#define ARGS_MAX 40u
#define TEXT_BYTES 8192u

/* Where the generator stands, as seen from the directory of this command. */
static const char *const places[] = {"", "/../libexec/daybook"};

/* The directory that holds `bench/bench-daybook`, and this command's own path. */
static bool find_generator(char *ret_programs, size_t room, char *ret_command)
{
    char dir[PATH_MAX];
    char path[PATH_MAX + 64];
    ssize_t len = readlink("/proc/self/exe", ret_command, PATH_MAX - 1);
    if (len < 0) {
        return false;
    }
    ret_command[len] = '\0';
    (void)snprintf(dir, sizeof dir, "%s", ret_command);
    const char *own = dirname(dir);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(ret_programs, room, "%s%s", own, places[i]);
        (void)snprintf(path, sizeof path, "%s/bench/bench-daybook", ret_programs);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* The command line of the generator: copies, because execv takes no constants. */
struct words {
    char text[TEXT_BYTES];
    size_t used;
    char *list[ARGS_MAX + 1]; /* ends with NULL */
    size_t count;
    bool full;
};

static void add(struct words *words, const char *word)
{
    size_t len = strlen(word) + 1;
    if (words->count == ARGS_MAX || len > sizeof words->text - words->used) {
        words->full = true;
        return;
    }
    words->list[words->count++] = memcpy(words->text + words->used, word, len);
    words->used += len;
}

/* The options that were given, then the suites. */
static void add_arguments(struct words *words, const struct cli_args *args)
{
    add(words, "daybook bench");
    for (size_t i = 0; i < CLI_FLAGS_MAX && args->command->flags[i].name != NULL; i++) {
        if (args->values[i] != NULL) {
            add(words, args->command->flags[i].name);
        }
        if (args->values[i] != NULL && args->command->flags[i].value != NULL) {
            add(words, args->values[i]);
        }
    }
    if (!cli_given(args, "--dir")) {
        add(words, "--dir");
        add(words, DIR_DEFAULT);
    }
    for (size_t i = 0; i < args->operand_count; i++) {
        add(words, args->operands[i]);
    }
}

static enum cli_status run(const struct cli_args *args)
{
    char command[PATH_MAX];
    char programs[PATH_MAX + 32];
    char path[PATH_MAX + 64];
    struct words words = {.count = 0};
    add_arguments(&words, args);
    if (words.full) {
        return cli_error(CLI_USAGE, "bench: too many arguments: name no suite to run all of them");
    }
    if (!find_generator(programs, sizeof programs, command)) {
        return cli_error(CLI_FAILED, "bench: the load generator is not here: build with "
                                     "-Dbench=true, or use ./dev bench in a checkout");
    }
    (void)snprintf(path, sizeof path, "%s/bench/bench-daybook", programs);
    if (setenv("DAYBOOK_BENCH_PROGRAMS", programs, 1) != 0 ||
        setenv("DAYBOOK_BENCH_COMMAND", command, 1) != 0) {
        return cli_error(CLI_FAILED, "bench: no memory");
    }
    (void)execv(path, words.list);
    return cli_error(CLI_FAILED, "bench: %s cannot be run: %s", path, strerror(errno));
}

const struct cli_command cli_bench = {
    .name = "bench",
    .arguments = "[--json] [--quick] [--marks] [--rounds N] [--seconds S] [--dir DIR] [SUITE...]",
    .summary = "measures this machine: each figure beside the most that the machine gives",
    .about =
        "Makes journals and daemons of its own below DIR, and removes them; DIR should be on the "
        "disk that is\n"
        "asked about. Figures of speed mean something only beside their bound, on a machine that "
        "does nothing\n"
        "else. Exit status 1: a mark was missed; 2: something could not be measured.\n",
    .examples = "  daybook bench --quick caller\n"
                "  daybook bench --json append http > figures.ndjson\n",
    .choices = "append committer batch submit claim retained sqlite worker caller consumers memory "
               "start http",
    .operands_max = SIZE_MAX,
    .flags = {CLI_JSON_FLAG("one object a line: suite, name, value, unit, bound, ratio"),
              {"--quick", NULL, NULL, NULL, "a few seconds in all: does everything run?"},
              {"--marks", NULL, NULL, NULL, "print what is allowed and measured"},
              {"--rounds", NULL, "N", NULL, "rounds of each side (15)"},
              {"--seconds", NULL, "S", NULL, "length of a round (0.3)"},
              {"--dir", NULL, "DIR", NULL, "where to write (./" DIR_DEFAULT ")"}},
    .run = run,
};
