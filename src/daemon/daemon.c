/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's life. The main thread waits for signals, for trouble, and for the next attempt to reopen
 * a failed journal; everything else runs elsewhere.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "app/logline.h"
#include "app/mend.h"
#include "base/error.h"
#include "daemon/http.h"
#include "daemon/notify.h"
#include "daemon/service.h"

#define LOOK_INTERVAL_MS 1000
#define REOPEN_FIRST_MS 500
#define REOPEN_MAX_MS 30000
#define ACTIVE_POLL_MS 10
#define LAST_ANSWERS_MS 500 /* for clients to read what was said last */
#define DRAIN_SLACK_MS 1000 /* T2: the workers' drain may cost so much more than its budget */
#define CLOSE_SLACK_MS 3000 /* the last answers, the journal's end mark */

struct life {
    struct dbk_notify notify;
    const struct dbk_config *config;
    struct dbk_service service;
    struct dbk_http *http;
    int signal_fd;
    unsigned stops;                                   /* stop signals so far */
    int64_t reopen_at_us;                             /* with a failed journal */
    int64_t reopen_wait_ms;                           /* the interval after the next attempt */
    bool waits_to_begin;                              /* the journal has not been open yet */
    uint64_t delivered_before[DAYBOOK_CONSUMERS_MAX]; /* by workers that a reopening ended */
    uint64_t failed_before[DAYBOOK_CONSUMERS_MAX];
};

/* ---- signals --------------------------------------------------------------------------------- */

static enum daybook_code open_signals(struct life *life, struct daybook_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    /* Blocked before any thread is started, so that every thread has them blocked. */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    life->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (life->signal_fd < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, errno, "no file descriptor for signals");
    }
    return DAYBOOK_OK;
}

/* Waits for a signal or a ring, at most `timeout_ms` and no longer than connections can go unwatched, and
 * takes note of both. */
static void wait_for_news(struct life *life, int64_t timeout_ms)
{
    dbk_http_look(life->http);
    life->service.repaired = dbk_mend_flag_is_up(life->config);
    timeout_ms = timeout_ms < LOOK_INTERVAL_MS ? timeout_ms : LOOK_INTERVAL_MS;
    struct pollfd fds[2] = {{.fd = life->signal_fd, .events = POLLIN},
                            {.fd = life->service.look_fd, .events = POLLIN}};
    int64_t sign_ms = dbk_notify_alive(&life->notify, dbk_monotonic_us());
    timeout_ms = timeout_ms < sign_ms ? timeout_ms : sign_ms;
    if (poll(fds, 2, timeout_ms < 0 ? 0 : (int)timeout_ms) <= 0) {
        return;
    }
    struct signalfd_siginfo info;
    while (read(life->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            dbk_log_bare(DBK_LOG_WARNING,
                         "SIGHUP: nothing is re-read yet; restart for a new configuration");
        } else {
            life->stops++;
        }
    }
    uint64_t count = 0;
    ssize_t ignored = read(life->service.look_fd, &count, sizeof count);
    (void)ignored;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void print_place(FILE *out, const char *what, const char *path, const char *but)
{
    char *whole = realpath(path, NULL);
    fprintf(out, "  %-12s %s%s\n", what, whole != NULL ? whole : path, but);
    free(whole);
}

static void print_destinations(FILE *out, struct dbk_delivery_consumer *consumer)
{
    for (size_t k = 0; k < consumer->sink_count; k++) {
        struct dbk_sink_status status = dbk_delivery_sink_status(&consumer->sinks[k]);
        const struct dbk_config_sink *sink = consumer->sinks[k].config;
        print_place(out, consumer->config->name,
                    sink->path[0] != '\0' ? sink->path : dbk_sink_kind_name(sink->kind),
                    status.up ? "" : "   DOES NOT ANSWER: what is sent is kept; see the log");
    }
}

/* Standard output, unless a destination writes its lines there. */
static FILE *welcome_stream(const struct dbk_config *config)
{
    for (size_t i = 0; i < config->consumer_count; i++) {
        for (size_t k = 0; k < config->consumers[i].sink_count; k++) {
            if (config->consumers[i].sinks[k].kind == DBK_SINK_STDOUT) {
                return stderr;
            }
        }
    }
    return stdout;
}

/* For the person who started it: what listens where, and one line to paste. */
static void print_welcome(struct life *life)
{
    const struct dbk_config *c = life->config;
    const char *url = dbk_http_url(life->http);
    FILE *out = welcome_stream(c);
    fprintf(out, "daybook %s\n", daybook_version());
    if (url[0] != '\0') {
        fprintf(out, "  %-12s %s\n", "listening", url);
    }
    if (c->listen_unix[0] != '\0') {
        fprintf(out, "  %-12s %s\n", "listening", c->listen_unix);
    }
    if (c->backend == DBK_BACKEND_POSTGRES) {
        fprintf(out, "  %-12s PostgreSQL, schema %s\n", "data", c->schema);
    } else {
        print_place(out, "data", c->journal_path, "");
    }
    for (size_t i = 0; i < c->consumer_count; i++) {
        print_destinations(out, &life->service.delivery->consumers[i]);
    }
    const char *socket_option = url[0] != '\0' ? "" : " --unix-socket ";
    fprintf(out,
            "send an event (paste this line):\n"
            "  curl -sS%s%s %s/v1/events -H 'Content-Type: application/json' -d '"
            "{\"request_id\":\"%s\",\"namespace\":\"team-a\",\"subject\":\"key-1\","
            "\"model\":\"example\",\"input_tokens\":12,\"output_tokens\":34}'\n",
            socket_option, url[0] != '\0' ? "" : c->listen_unix,
            url[0] != '\0' ? url : "http://localhost",
            c->identity == DAYBOOK_IDENTITY_UUIDV7 ? "req_01900000-0000-7000-8000-000000000001"
                                                   : "first-event");
    (void)fflush(out);
}

static void log_opened(struct life *life)
{
    struct daybook_journal_stats stats;
    const char *why = dbk_config_telemetry_reason(life->config);
    life->service.repaired = dbk_mend_flag_is_up(life->config);
    if (life->service.repaired) {
        dbk_log_bare(DBK_LOG_WARNING,
                     "this journal was damaged and was repaired: read the file " DBK_MENDED_FILE
                     " in its directory, and remove it when what it asks for is done");
    }
    if (why != NULL) {
        dbk_log(DBK_LOG_WARNING,
                "this journal is telemetry grade: usage can be lost without its producer knowing; "
                "do not bill from it",
                DBK_LOG_TEXT_FIELD("reason", why));
    }
    if (dbk_service_stats(&life->service, &stats)) {
        bool postgres = life->config->backend == DBK_BACKEND_POSTGRES;
        dbk_log(DBK_LOG_INFO, "journal open",
                DBK_LOG_TEXT_FIELD(postgres ? "schema" : "path",
                                   postgres ? life->config->schema : life->config->journal_path),
                DBK_LOG_TEXT_FIELD("mode", stats.mode == DAYBOOK_MODE_BILLING_GRADE
                                               ? "billing_grade"
                                               : "telemetry_grade"),
                DBK_LOG_NUMBER("stored_events", stats.stored_events),
                DBK_LOG_NUMBER("newest_position", stats.newest_position));
    }
}

/* ---- a failed journal (A7) ------------------------------------------------------------------- */

static void keep_totals(struct life *life, const struct dbk_delivery_report *reports)
{
    for (size_t i = 0; i < life->config->consumer_count; i++) {
        life->delivered_before[i] += reports[i].report.delivered;
        life->failed_before[i] += reports[i].report.failed;
    }
}

static void put_journal_away(struct life *life, const struct daybook_error *why)
{
    struct dbk_delivery_report reports[DAYBOOK_CONSUMERS_MAX];
    struct daybook_error err = {0};
    dbk_log(DBK_LOG_ERROR, "the journal failed and is reopened; appends are refused meanwhile",
            DBK_LOG_TEXT_FIELD("reason", why->message));
    dbk_notify_say(&life->notify, "STATUS=the journal failed and is being reopened");
    (void)dbk_service_close_workers(&life->service, 0, reports);
    keep_totals(life, reports);
    (void)dbk_service_close_journal(&life->service, &err);
    life->reopen_at_us = dbk_monotonic_us();
    life->reopen_wait_ms = REOPEN_FIRST_MS;
}

static void wait_to_reopen(struct life *life, const struct daybook_error *why)
{
    dbk_log(DBK_LOG_ERROR, "the journal cannot be reopened yet",
            DBK_LOG_TEXT_FIELD("code", daybook_code_name(why->code)),
            DBK_LOG_TEXT_FIELD("reason", why->message),
            DBK_LOG_NUMBER("next_try_ms", life->reopen_wait_ms));
    life->reopen_at_us = dbk_monotonic_us() + life->reopen_wait_ms * 1000;
    life->reopen_wait_ms =
        life->reopen_wait_ms * 2 < REOPEN_MAX_MS ? life->reopen_wait_ms * 2 : REOPEN_MAX_MS;
}

/* An empty directory, such as one on which nothing is mounted at the moment, must not become a new journal in the
 * place of the one that was open. */
static void try_reopen(struct life *life)
{
    struct daybook_error err = {0};
    bool existing_only = !life->waits_to_begin;
    enum daybook_code code = dbk_service_open(&life->service, existing_only, &err);
    if (code == DAYBOOK_OK) {
        life->waits_to_begin = false;
        log_opened(life);
        dbk_notify_say(&life->notify, "STATUS=serving");
        return;
    }
    if (code == DAYBOOK_NOT_FOUND && existing_only) {
        (void)dbk_fail(&err, DAYBOOK_BACKEND,
                       "%s: the journal is not there any more; mount its file system again, or "
                       "restart for a new journal",
                       life->config->journal_path);
    }
    wait_to_reopen(life, &err);
}

/* Whether the journal is whole and only has no room to begin in, or its database does not answer: that ends without a
 * restart (A4). */
static bool ends_by_itself(const struct life *life, const struct daybook_error *err)
{
    if (life->config->backend == DBK_BACKEND_POSTGRES) {
        return err->code == DAYBOOK_BACKEND || err->code == DAYBOOK_TIMED_OUT;
    }
    return err->code == DAYBOOK_BACKEND &&
           (err->os_errno == ENOSPC || err->os_errno == EDQUOT || err->os_errno == EFBIG);
}

/* The first opening. A full disk and a database that is away are waited for. */
static enum daybook_code open_journal(struct life *life, struct daybook_error *err)
{
    enum daybook_code code = dbk_service_open(&life->service, false, err);
    if (code == DAYBOOK_OK) {
        log_opened(life);
        return code;
    }
    if (!ends_by_itself(life, err)) {
        return code;
    }
    dbk_service_set_failed(&life->service);
    life->waits_to_begin = true;
    life->reopen_wait_ms = REOPEN_FIRST_MS;
    wait_to_reopen(life, err);
    return DAYBOOK_OK;
}

/* Until a stop signal. */
static void serve(struct life *life)
{
    while (life->stops == 0) {
        int64_t timeout_ms = LOOK_INTERVAL_MS;
        struct daybook_error why = {0};
        if (life->service.journal == NULL) {
            timeout_ms = (life->reopen_at_us - dbk_monotonic_us()) / 1000;
            if (timeout_ms <= 0) {
                try_reopen(life);
                continue;
            }
        } else if (dbk_service_has_failed(&life->service, &why)) {
            put_journal_away(life, &why);
            continue;
        }
        wait_for_news(life, timeout_ms);
    }
}

/* ---- stop ------------------------------------------------------------------------------------ */

static const char overran[] = "shutdown overran its bound\n";

/* Only what a signal handler may do. */
static void on_overrun(int signo)
{
    (void)signo;
    ssize_t ignored = write(STDERR_FILENO, overran, sizeof overran - 1);
    (void)ignored;
    _exit(1);
}

/* Whatever hangs below us (a disk that does not answer): the process ends. */
static void arm_watchdog(int64_t in_ms)
{
    struct sigaction action = {.sa_handler = on_overrun};
    struct itimerval timer = {.it_value = {.tv_sec = in_ms / 1000 + 1}};
    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* What ends a wait before its time. */
enum wait_end { END_AT_SIGNAL, END_WHEN_IDLE };

static bool wait_is_over(const struct life *life, enum wait_end end, unsigned stops_before)
{
    return end == END_AT_SIGNAL ? life->stops != stops_before : dbk_http_active(life->http) == 0;
}

/* Waits until `until_us`, or until another stop signal, or the end of the last request. */
static void wait_until(struct life *life, int64_t until_us, enum wait_end end)
{
    unsigned stops_before = life->stops;
    int64_t left_us = until_us - dbk_monotonic_us();
    while (left_us > 0 && !wait_is_over(life, end, stops_before)) {
        int64_t left_ms = left_us / 1000 + 1;
        wait_for_news(life,
                      end == END_WHEN_IDLE && left_ms > ACTIVE_POLL_MS ? ACTIVE_POLL_MS : left_ms);
        left_us = until_us - dbk_monotonic_us();
    }
}

static void put_number(char *buf, size_t room, bool known, uint64_t n)
{
    (void)snprintf(buf, room, known ? "%" PRIu64 : "unknown", n);
}

/* The line that accounts for everything (T4, T5). */
static void log_drained(const struct life *life, size_t index,
                        const struct dbk_delivery_report *report)
{
    const struct daybook_drain_report *r = &report->report;
    enum daybook_caught_up caught_up = daybook_drain_report_caught_up(r);
    char delivered[24];
    char failed[24];
    char undelivered[24];
    char quarantined[24];
    /* Without a worker at the end, what earlier ones reported is all that was delivered. */
    bool reported = r->reported || !report->ran;
    put_number(delivered, sizeof delivered, reported, r->delivered + life->delivered_before[index]);
    put_number(failed, sizeof failed, reported, r->failed + life->failed_before[index]);
    put_number(undelivered, sizeof undelivered, r->counted, r->undelivered);
    put_number(quarantined, sizeof quarantined, r->counted, r->quarantined);
    enum dbk_log_level level = !reported                            ? DBK_LOG_ERROR
                               : caught_up != DAYBOOK_CAUGHT_UP_YES ? DBK_LOG_WARNING
                                                                    : DBK_LOG_INFO;
    dbk_log(level, "drain", DBK_LOG_TEXT_FIELD("consumer", report->consumer),
            DBK_LOG_TEXT_FIELD("drained", caught_up == DAYBOOK_CAUGHT_UP_YES  ? "yes"
                                          : caught_up == DAYBOOK_CAUGHT_UP_NO ? "no"
                                                                              : "unknown"),
            DBK_LOG_TEXT_FIELD("delivered", delivered), DBK_LOG_TEXT_FIELD("failed", failed),
            DBK_LOG_TEXT_FIELD("undelivered", undelivered),
            DBK_LOG_TEXT_FIELD("quarantined", quarantined));
}

/* The manager may not lose patience within our own bound. */
static void tell_stopping(const struct life *life, int64_t bound_ms)
{
    char lines[96];
    (void)snprintf(lines, sizeof lines, "STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=%" PRId64,
                   (bound_ms + 1000) * 1000);
    dbk_notify_say(&life->notify, lines);
}

/* The sequence of SIGTERM: readiness fails, admission closes, requests end, workers drain, the journal
 * is closed. */
static enum dbk_daemon_end stop(struct life *life)
{
    const struct dbk_config *c = life->config;
    struct dbk_delivery_report reports[DAYBOOK_CONSUMERS_MAX];
    struct daybook_error err = {0};
    int64_t bound_ms = c->drain_grace_ms + c->drain_deadline_ms + c->flush_timeout_ms +
                       DRAIN_SLACK_MS + CLOSE_SLACK_MS;
    arm_watchdog(bound_ms);
    dbk_service_set_draining(&life->service);
    tell_stopping(life, bound_ms);
    dbk_log(DBK_LOG_INFO, "stopping", DBK_LOG_NUMBER("bound_ms", bound_ms));
    wait_until(life, dbk_monotonic_us() + c->drain_grace_ms * 1000, END_AT_SIGNAL);

    int64_t deadline_us = dbk_monotonic_us() + c->drain_deadline_ms * 1000;
    dbk_service_close_admission(&life->service, DBK_ADMIT_BEGUN, deadline_us);
    wait_until(life, deadline_us, END_WHEN_IDLE);
    dbk_service_close_admission(&life->service, DBK_ADMIT_NONE, dbk_monotonic_us());

    size_t abandoned =
        dbk_service_close_workers(&life->service, (uint32_t)c->flush_timeout_ms, reports);
    /* The journal first: it ends when every append was given back and every waiter woken, and a server
     * may not be stopped while a connection is suspended. */
    enum daybook_code code = dbk_service_close_journal(&life->service, &err);
    wait_until(life, dbk_monotonic_us() + LAST_ANSWERS_MS * 1000, END_WHEN_IDLE);
    dbk_http_stop(life->http);
    life->http = NULL;
    if (code != DAYBOOK_OK) {
        dbk_log(DBK_LOG_WARNING, "the journal's end could not be marked; the next start recovers",
                DBK_LOG_TEXT_FIELD("reason", err.message));
    }
    /* These lines are part of the interface, whatever the level. */
    dbk_log_setup(STDERR_FILENO, DBK_LOG_INFO, (enum dbk_log_format)c->log_format);
    for (size_t i = 0; i < c->consumer_count; i++) {
        log_drained(life, i, &reports[i]);
    }
    dbk_log_bare(abandoned == 0 ? DBK_LOG_INFO : DBK_LOG_ERROR, "shutdown complete");
    return abandoned == 0 ? DBK_DAEMON_STOPPED : DBK_DAEMON_OVERRAN;
}

enum dbk_daemon_end dbk_daemon_run(const struct dbk_config *config, struct daybook_error *err)
{
    enum dbk_daemon_end end = DBK_DAEMON_NO_START;
    struct life *life = calloc(1, sizeof *life);
    if (life == NULL) {
        (void)dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the daemon");
        return end;
    }
    life->config = config;
    life->signal_fd = -1;
    dbk_notify_init(&life->notify);
    dbk_notify_say(&life->notify, "STATUS=opening the journal");
    dbk_log_setup(STDERR_FILENO, (enum dbk_log_level)config->log_level,
                  (enum dbk_log_format)config->log_format);
    if (dbk_service_init(&life->service, config, err) != DAYBOOK_OK ||
        open_signals(life, err) != DAYBOOK_OK ||
        dbk_http_start(&life->service, &life->http, err) != DAYBOOK_OK) {
        goto out;
    }
    if (open_journal(life, err) != DAYBOOK_OK) {
        dbk_service_close_admission(&life->service, DBK_ADMIT_NONE, 0);
        goto out;
    }
    print_welcome(life);
    dbk_notify_say(&life->notify, life->service.journal != NULL
                                      ? "READY=1\nSTATUS=serving"
                                      : "READY=1\nSTATUS=the journal cannot be opened yet; see "
                                        "the log");
    serve(life);
    end = stop(life);
    if (end == DBK_DAEMON_OVERRAN) {
        /* An abandoned worker may still be inside a write: nothing that it touches is released. */
        return end;
    }
out:
    dbk_http_stop(life->http);
    dbk_service_release(&life->service);
    if (life->signal_fd >= 0) {
        (void)close(life->signal_fd);
    }
    dbk_notify_release(&life->notify);
    free(life);
    return end;
}
