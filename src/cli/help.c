/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook help [COMMAND]`: what there is, with examples that can be pasted. */
#include <string.h>

#include "app/config.h"
#include "cli/cli.h"

#define COLUMN 22

static void print_overview(void)
{
    printf("daybook %s: the durable usage journal\n\nusage: daybook COMMAND ...\n\n",
           daybook_version());
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        printf("  %-11s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    }
    fputs("\n`daybook help COMMAND` shows its options and examples; `daybook --version` the "
          "version.\n\nCommands that need a running daemon find it by --url, DAYBOOK_URL, or "
          "http://127.0.0.1:8377,\nand show it the token of the file that --token-file or "
          "DAYBOOK_TOKEN_FILE "
          "names.\nExit status: 0 done; 1 it failed; 2 wrong usage or "
          "configuration; 3 done in part.\n",
          stdout);
}

static void print_flag(const struct cli_flag *flag)
{
    int used = printf("  %s%s%s%s%s", flag->brief != NULL ? flag->brief : "",
                      flag->brief != NULL ? ", " : "", flag->name, flag->value != NULL ? " " : "",
                      flag->value != NULL ? flag->value : "");
    const char *line = flag->help;
    while (line != NULL) {
        const char *end = strchr(line, '\n');
        int len = end != NULL ? (int)(end - line) : (int)strlen(line);
        printf("%*s%.*s\n", used < COLUMN ? COLUMN - used : 1, "", len, line);
        line = end != NULL ? end + 1 : NULL;
        used = 0;
    }
}

static void print_command(const struct cli_command *command)
{
    printf("usage: daybook %s %s\n\n%s.\n%s%s", command->name, command->arguments, command->summary,
           command->about[0] != '\0' ? "\n" : "", command->about);
    for (size_t i = 0; i < CLI_FLAGS_MAX && command->flags[i].name != NULL; i++) {
        fputs(i == 0 ? "\noptions\n" : "", stdout);
        print_flag(&command->flags[i]);
    }
    printf("\nexamples\n%s", command->examples);
}

static enum cli_status run(const struct cli_args *args)
{
    const char *name = cli_operand(args, 0);
    if (cli_given(args, "--configuration")) {
        dbk_config_write_docs(stdout);
    } else if (name == NULL) {
        print_overview();
    } else {
        const struct cli_command *command = cli_find(name);
        if (command == NULL) {
            return cli_error(CLI_USAGE, "no command \"%s\": daybook help lists them", name);
        }
        print_command(command);
    }
    return cli_finish_output();
}

const struct cli_command cli_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "shows the commands, or one of them with examples",
    .about = "",
    .examples = "  daybook help append\n",
    .choices = "COMMAND",
    .operands_max = 1,
    .flags = {{"--configuration", NULL, NULL, NULL,
               "the page docs/configuration.md, from the table of keys itself"}},
    .run = run,
};
