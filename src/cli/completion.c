/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook completion bash|zsh`: completion for a shell, written from the table of commands. */
#include <string.h>

#include "cli/cli.h"

/* The words, or the function of the shell, that complete a value of this name. */
static const char *kind_of(const char *value, const char *choices)
{
    return choices != NULL                                           ? choices
           : strcmp(value, "FILE") == 0 || strcmp(value, "DIR") == 0 ? value
                                                                     : "";
}

static void print_names(void)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", cli_commands[i]->name);
    }
}

/* What the operand of a command completes to. */
static void print_operand(const struct cli_command *command)
{
    const char *choices = command->choices != NULL ? command->choices : "";
    if (strcmp(choices, "COMMAND") == 0) {
        print_names();
    } else {
        fputs(choices, stdout);
    }
}

static void print_flags(const struct cli_command *command)
{
    for (size_t i = 0; i < CLI_FLAGS_MAX && command->flags[i].name != NULL; i++) {
        const struct cli_flag *flag = &command->flags[i];
        printf("%s%s%s%s", i > 0 ? " " : "", flag->name, flag->brief != NULL ? " " : "",
               flag->brief != NULL ? flag->brief : "");
    }
}

/* `command option) words;;` for every option that has a value. */
static void print_values(const char *indent)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        for (size_t k = 0; k < CLI_FLAGS_MAX && cli_commands[i]->flags[k].name != NULL; k++) {
            const struct cli_flag *flag = &cli_commands[i]->flags[k];
            if (flag->value == NULL) {
                continue;
            }
            printf("%s'%s %s'", indent, cli_commands[i]->name, flag->name);
            if (flag->brief != NULL) {
                printf(" | '%s %s'", cli_commands[i]->name, flag->brief);
            }
            printf(") takes=yes choice='%s' ;;\n", kind_of(flag->value, flag->choices));
        }
    }
}

static void print_commands(const char *indent)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        printf("%s%s) flags='", indent, cli_commands[i]->name);
        print_flags(cli_commands[i]);
        fputs("' choice='", stdout);
        print_operand(cli_commands[i]);
        fputs("' ;;\n", stdout);
    }
}

/* Sets flags, words and takes from $command, $before (the word before) and $operands (how many stand
 * already); the same text for both shells. */
static void print_choice(void)
{
    fputs("    flags='' choice='' takes=no\n"
          "    case \"$command $before\" in\n",
          stdout);
    print_values("        ");
    fputs("    esac\n"
          "    if [[ $takes == no ]]; then\n"
          "        case \"$command\" in\n",
          stdout);
    print_commands("            ");
    fputs("        esac\n"
          "        [[ $operands -gt 0 && $choice != FILE && $choice != DIR ]] && choice=''\n"
          "    fi\n",
          stdout);
}

static void print_bash(void)
{
    fputs("# daybook completion for bash\n"
          "_daybook() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} flags choice takes operands=0 i\n"
          "    COMPREPLY=()\n"
          "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
          "        COMPREPLY=($(compgen -W '--version ",
          stdout);
    print_names();
    fputs("' -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        [[ ${COMP_WORDS[i]} == -* ]] || operands=$((operands + 1))\n"
          "    done\n",
          stdout);
    print_choice();
    fputs("    if [[ $takes == no && $word == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
          "    elif [[ $choice == FILE ]]; then\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    elif [[ $choice == DIR ]]; then\n"
          "        COMPREPLY=($(compgen -d -- \"$word\"))\n"
          "    else\n"
          "        [[ $takes == no && -z $choice ]] && choice=$flags\n"
          "        COMPREPLY=($(compgen -W \"$choice\" -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _daybook daybook\n",
          stdout);
}

static void print_zsh(void)
{
    fputs("#compdef daybook\n"
          "# daybook completion for zsh\n"
          "_daybook() {\n"
          "    local word=${words[CURRENT]} before=${words[CURRENT-1]} command=${words[2]}\n"
          "    local flags choice takes operands=0 i names='",
          stdout);
    print_names();
    fputs("'\n"
          "    if (( CURRENT == 2 )); then\n"
          "        compadd -- --version ${=names}\n"
          "        return\n"
          "    fi\n"
          "    for (( i = 3; i < CURRENT; i++ )); do\n"
          "        [[ ${words[i]} == -* ]] || operands=$((operands + 1))\n"
          "    done\n",
          stdout);
    print_choice();
    fputs("    if [[ $takes == no && $word == -* ]]; then\n"
          "        compadd -- ${=flags}\n"
          "    elif [[ $choice == FILE ]]; then\n"
          "        _files\n"
          "    elif [[ $choice == DIR ]]; then\n"
          "        _files -/\n"
          "    else\n"
          "        [[ $takes == no && -z $choice ]] && choice=$flags\n"
          "        compadd -- ${=choice}\n"
          "    fi\n"
          "}\n"
          "if [[ ${funcstack[1]} == _daybook ]]; then _daybook \"$@\"; else compdef _daybook "
          "daybook; "
          "fi\n",
          stdout);
}

static enum cli_status run(const struct cli_args *args)
{
    const char *shell = cli_operand(args, 0);
    if (shell != NULL && strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (shell != NULL && strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        return cli_error(CLI_USAGE, "completion: for which shell? write bash or zsh");
    }
    return cli_finish_output();
}

const struct cli_command cli_completion = {
    .name = "completion",
    .arguments = "bash | zsh",
    .summary = "writes completion for a shell",
    .about = "An installed daybook has brought both along.\n",
    .examples = "  source <(daybook completion bash)\n"
                "  source <(daybook completion zsh)\n",
    .choices = "bash zsh",
    .operands_max = 1,
    .run = run,
};
