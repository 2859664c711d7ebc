/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook check`: whether a configuration can work, before a daemon is started with it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/compose.h"
#include "cli/cli.h"

struct check {
    unsigned count;
    unsigned failed;
    bool json;
    const char *to_be_made; /* the data directory, where a first start will make it; else NULL */
    enum cli_status status; /* the worst so far */
};

/* One line for each thing that was looked at. */
static void tell(struct check *check, const char *what, const char *name, enum daybook_code code,
                 const char *message)
{
    check->count++;
    if (code != DAYBOOK_OK) {
        check->failed++;
        check->status = check->status == CLI_DONE || code == DAYBOOK_BAD_CONFIG
                            ? (code == DAYBOOK_BAD_CONFIG ? CLI_USAGE : CLI_FAILED)
                            : check->status;
    }
    if (check->json) {
        struct dbk_text line = {0};
        dbk_text_printf(&line, "{\"what\":\"%s\",\"name\":", what);
        dbk_text_json_str(&line, name);
        dbk_text_printf(&line, ",\"code\":\"%s\",\"message\":", daybook_code_name(code));
        dbk_text_json_str(&line, message);
        printf("%s}\n", line.data != NULL ? line.data : "");
        dbk_text_release(&line);
    } else if (code == DAYBOOK_OK) {
        printf("ok      %s %s\n", what, name);
    } else {
        printf("FAILED  %s %s: ", what, name);
        cli_print_plain(stdout, message);
        fputc('\n', stdout);
    }
}

static void tell_sink(void *user, const struct dbk_config_consumer *consumer,
                      const struct dbk_config_sink *sink, const struct daybook_error *err)
{
    char name[2 * DAYBOOK_CONSUMER_NAME_MAX + 120];
    struct check *check = user;
    size_t len = check->to_be_made != NULL ? strlen(check->to_be_made) : 0;
    bool inside =
        len > 0 && strncmp(sink->path, check->to_be_made, len) == 0 && sink->path[len] == '/';
    /* The lock of a running daemon: this is asked before it is started anew. */
    bool held = sink->kind == DBK_SINK_FILE && err->code == DAYBOOK_BUSY;
    (void)snprintf(name, sizeof name, "%s of consumer %s%s", sink->name, consumer->name,
                   inside ? " (made with the data directory)"
                   : held ? " (held by a daemon that runs)"
                          : "");
    tell(check, "destination", name, inside || held ? DAYBOOK_OK : err->code,
         inside || held ? "" : err->message);
}

/* The data directory can be made or written; whether a daemon holds it is no fault of the configuration. */
static void check_directory(struct check *check, const char *path)
{
    char parent[4096];
    struct stat st;
    char message[512];
    if (stat(path, &st) == 0) {
        bool fine = S_ISDIR(st.st_mode) && access(path, R_OK | W_OK | X_OK) == 0;
        (void)snprintf(message, sizeof message, "%s",
                       S_ISDIR(st.st_mode) ? "it cannot be read and written by this user"
                                           : "it is no directory");
        tell(check, "data directory", path, fine ? DAYBOOK_OK : DAYBOOK_BAD_CONFIG,
             fine ? "" : message);
        return;
    }
    int why = errno;
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        (void)snprintf(parent, sizeof parent, ".");
    } else {
        slash[slash == parent ? 1 : 0] = '\0';
    }
    bool fine = why == ENOENT && access(parent, W_OK | X_OK) == 0;
    (void)snprintf(message, sizeof message, "it is not there and cannot be made in %.300s: %s",
                   parent, strerror(why == ENOENT ? errno : why));
    tell(check, "data directory", path, fine ? DAYBOOK_OK : DAYBOOK_BAD_CONFIG,
         fine ? "" : message);
    check->to_be_made = fine ? path : NULL;
}

/* The database answers, and the schema is one that this build can work with or may make. */
static void check_database(struct check *check, const struct dbk_config *config)
{
    struct daybook_postgres_schema_report report = {0};
    struct daybook_postgres_options options;
    struct daybook_error err = {0};
    struct dbk_dsn dsn;
    char name[128];
    enum daybook_code code = dbk_compose_postgres_options(config, NULL, &dsn, &options, &err);

    if (code == DAYBOOK_OK) {
        options.create = DAYBOOK_POSTGRES_CREATE_NO;
        code = daybook_postgres_migrate(&options, &report, &err);
    }
    dbk_dsn_wipe(&dsn);
    if (code == DAYBOOK_OK && report.found < report.wanted && !config->create_schema) {
        code = DAYBOOK_BAD_CONFIG;
        (void)snprintf(err.message, sizeof err.message,
                       "version %u of it is there, %u is wanted: run daybook migrate --apply",
                       report.found, report.wanted);
    }
    (void)snprintf(name, sizeof name, "schema %s of PostgreSQL%s", config->schema,
                   code == DAYBOOK_OK && report.found == 0 ? " (made by the first start)" : "");
    tell(check, "journal", name, code, code == DAYBOOK_OK ? "" : err.message);
}

static enum cli_status run(const struct cli_args *args)
{
    struct check check = {.json = cli_given(args, "--json"), .status = CLI_DONE};
    const char *path = cli_value(args, "--config");
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    if (dbk_config_load(path, &config, &err) != DAYBOOK_OK) {
        return cli_error(CLI_USAGE, "%s", err.message);
    }
    tell(&check, "configuration", path != NULL ? path : "(none: the defaults)", DAYBOOK_OK, "");
    if (config->backend == DBK_BACKEND_POSTGRES) {
        check_database(&check, config);
    } else {
        check_directory(&check, config->journal_path);
    }
    dbk_compose_check(config, tell_sink, &check);
    dbk_config_free(config);
    enum cli_status printed = cli_finish_output();
    return check.status == CLI_DONE ? printed : check.status;
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[-c FILE] [--json]",
    .summary = "checks a configuration and reaches every destination, sending nothing",
    .about =
        "Exit status 2: the configuration cannot work; 1: a destination does not answer now (a "
        "daemon would\n"
        "start, and keep what it is sent until it does).\n",
    .examples = "  daybook check -c /etc/daybook.yaml && systemctl restart daybook\n",
    .flags = {{"--config", "-c", "FILE", NULL, "the configuration; without one: the defaults"},
              CLI_JSON_FLAG("one object a line")},
    .run = run,
};
