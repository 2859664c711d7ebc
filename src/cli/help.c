/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook help [COMMAND]`: what there is, with examples that can be pasted. */
#include <string.h>

#include "app/config.h"
#include "cli/cli.h"

static void print_overview(void)
{
    printf("daybook %s: the durable usage journal\n\nusage: daybook COMMAND ...\n\n",
           daybook_version());
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        printf("  %-8s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    }
    fputs("\n`daybook help COMMAND` shows its options and examples; `daybook --version` the "
          "version.\n\nCommands that need a running daemon find it by --url, DAYBOOK_URL, or "
          "http://127.0.0.1:8377.\nExit status: 0 done; 1 it failed; 2 wrong usage or "
          "configuration; 3 done in part.\n",
          stdout);
}

static enum cli_status run(int argc, char **argv)
{
    const char *name = NULL;
    bool configuration = false;
    const struct cli_option options[] = {{"--configuration", NULL, NULL, &configuration}, {0}};
    enum cli_status status = cli_options(&cli_help, argc, argv, options, &name, 1);
    if (status != CLI_DONE) {
        return status;
    }
    if (configuration) {
        dbk_config_write_docs(stdout);
    } else if (name == NULL) {
        print_overview();
    } else {
        const struct cli_command *command = cli_find(name);
        if (command == NULL) {
            return cli_error(CLI_USAGE, "no command \"%s\": daybook help lists them", name);
        }
        printf("usage: daybook %s %s\n\n%s.\n\n%s", command->name, command->arguments,
               command->summary, command->help);
    }
    return cli_finish_output();
}

const struct cli_command cli_help = {
    "help", "[COMMAND]", "shows the commands, or one of them with examples",
    "  --configuration  the page docs/configuration.md, from the table of keys itself\n\n"
    "  daybook help append\n",
    run};
