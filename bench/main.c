/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of `./dev bench`: runs the suites that are named, or all, each in a process of its own.
 * Exits 0; 1 where a mark was missed (--marks); 2 where something could not be measured.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_FULL = 15, ROUNDS_QUICK = 1, EXIT_MISSED = 1, EXIT_NOT_MEASURED = 2 };

static const double round_full_s = 0.3;
static const double round_quick_s = 0.05;

static const struct suite {
    const char *name;
    void (*run)(struct bench *bench);
    const char *what;
} suites[] = {
    {"append", bench_append, "durable appends of 1, 16 and 64 threads"},
    {"committer", bench_committer, "the same, held against the marks of the finished engine"},
    {"batch", bench_batch, "durable appends of 4 threads in batches of 256"},
    {"submit", bench_submit, "256 events in flight from one thread"},
    {"claim", bench_claim, "claim and acknowledge at backlogs of 10,000, 1,000,000 and 5,000,000"},
    {"retained", bench_retained, "the same with 10,000,000 retained events"},
    {"sqlite", bench_sqlite, "delivery into SQLite"},
    {"worker", bench_worker, "the delivery worker itself: a destination that costs nothing"},
    {"caller", bench_caller, "20,000 events of one caller, 20 ms a call of the destination"},
    {"consumers", bench_consumers, "durable appends beside three consumers instead of one"},
    {"capacity", bench_capacity, "durable appends that each give up a delivered event"},
    {"prune", bench_prune, "durable appends while a million events are pruned"},
    {"memory", bench_memory, "resident bytes of a pending event"},
    {"start", bench_start, "from open to ready with 1,000,000 stored events"},
    {"start-many", bench_start_many, "the same with 10,000,000"},
    {"http", bench_http, "one event a request over 64 connections"},
    {"postgres", bench_postgres, "the PostgreSQL engine beside plain clients of the same server"},
};
enum { SUITE_COUNT = sizeof suites / sizeof suites[0] };

static void usage(void)
{
    (void)puts("./dev bench [OPTION...] [SUITE...]\n"
               "  --quick       a few seconds in all: do the programs run and print?\n"
               "  --marks       print what is allowed and measured; exit 1 where a mark is missed\n"
               "  --json        one object a line: suite, name, value, unit, bound, ratio\n"
               "  --rounds N    rounds of each side (15)\n"
               "  --seconds S   length of a round (0.3)\n"
               "  --dir DIR     measure the disk that holds DIR (build/bench/data)\n"
               "Suites:");
    for (size_t i = 0; i < SUITE_COUNT; i++) {
        (void)printf("  %-13s %s\n", suites[i].name, suites[i].what);
    }
}

/* Runs one suite in a child. Returns its exit status. */
static int run_suite(const struct suite *suite, const struct bench *options)
{
    char dir[BENCH_PATH_MAX];
    struct bench bench = *options;
    int status = 0;

    bench_path(options, suite->name, dir);
    bench_remove(dir);
    if (mkdir(dir, 0700) != 0) {
        bench_die("%s: cannot be made", dir);
    }
    pid_t child = fork();
    if (child < 0) {
        bench_die("no process for %s", suite->name);
    }
    if (child == 0) {
        bench.suite = suite->name;
        bench.dir = dir;
        bench_warm_memory(&bench);
        suite->run(&bench);
        exit(bench.missed > 0 ? EXIT_MISSED : 0);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        status = EXIT_NOT_MEASURED;
    } else {
        status = WEXITSTATUS(status);
    }
    bench_remove(dir);
    return status;
}

static double number_of(const char *option, const char *text, double least, double most)
{
    char *end = NULL;
    double value = text != NULL ? strtod(text, &end) : -1;
    if (text == NULL || *end != '\0' || value < least || value > most) {
        bench_die("%s: give a number from %g to %g", option, least, most);
    }
    return value;
}

/* Reads the options. Returns the index of the first suite. */
static int read_options(int argc, char **argv, struct bench *bench)
{
    int at = 1;

    for (; at < argc && argv[at][0] == '-'; at++) {
        const char *option = argv[at];
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        if (strcmp(option, "--quick") == 0) {
            bench->length = BENCH_QUICK;
            bench->rounds = ROUNDS_QUICK;
            bench->round_s = round_quick_s;
        } else if (strcmp(option, "--marks") == 0) {
            bench->marking = BENCH_MARKS;
        } else if (strcmp(option, "--json") == 0) {
            bench->output = BENCH_JSON;
        } else if (strcmp(option, "--help") == 0) {
            usage();
            exit(0);
        } else if (strcmp(option, "--rounds") == 0) {
            bench->rounds = (unsigned)number_of(option, value, 1, BENCH_ROUNDS_MAX);
            at++;
        } else if (strcmp(option, "--seconds") == 0) {
            bench->round_s = number_of(option, value, 0.01, 60);
            at++;
        } else if (strcmp(option, "--dir") == 0 && value != NULL) {
            bench->dir = value;
            at++;
        } else {
            bench_die("%s: unknown; see --help", option);
        }
    }
    return at;
}

static const struct suite *suite_named(const char *name)
{
    for (size_t i = 0; i < SUITE_COUNT; i++) {
        if (strcmp(suites[i].name, name) == 0) {
            return &suites[i];
        }
    }
    bench_die("%s: no such suite; see --help", name);
}

int main(int argc, char **argv)
{
    struct bench bench = {.dir = "build/bench/data",
                          .programs = "build/release",
                          .rounds = ROUNDS_FULL,
                          .round_s = round_full_s};
    int at = read_options(argc, argv, &bench);
    int worst = 0;

    if (bench.length == BENCH_QUICK && bench.marking == BENCH_MARKS) {
        bench_die("--quick measures nothing that a mark could be held against");
    }
    for (int i = at; i < argc; i++) {
        (void)suite_named(argv[i]);
    }
    bool made = mkdir(bench.dir, 0700) == 0;
    const char *dir = bench.dir;
    if (!made && access(bench.dir, W_OK) != 0) {
        bench_die("%s: cannot be made", bench.dir);
    }
    const char *programs = getenv("DAYBOOK_BENCH_PROGRAMS");
    if (programs != NULL) {
        bench.programs = programs;
    }
    bench.command = getenv("DAYBOOK_BENCH_COMMAND");
    if (bench.output == BENCH_TABLE) {
        (void)printf("%-7s %-34s %12s %-14s %12s %7s\n", "suite", "name", "value", "unit", "bound",
                     "ratio");
        (void)fflush(stdout);
    }
    for (size_t i = 0; i < SUITE_COUNT; i++) {
        bool wanted = at == argc;
        for (int k = at; k < argc; k++) {
            wanted = wanted || strcmp(argv[k], suites[i].name) == 0;
        }
        if (wanted) {
            int status = run_suite(&suites[i], &bench);
            worst = status > worst ? status : worst;
        }
    }
    if (made) {
        (void)rmdir(dir);
    }
    return worst;
}
