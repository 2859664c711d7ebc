/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch over a journal in a database: a thread of its own asks, because a database that hangs would hold up whoever
 * does. It changes nothing but what `/readyz` says and the figures that are shown while there are no others.
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "app/logline.h"
#include "base/error.h"
#include "daemon/service.h"

#define WATCH_INTERVAL_MS 1000
#define FAILURES_TOLD 2u /* in a row: one may be a restart of a second, or a busy moment */

/* Under no lock: what changed is logged. */
static void note(struct dbk_service *service, unsigned failures, const char *reason)
{
    bool unreachable = failures >= FAILURES_TOLD;
    bool changed;

    dbk_mutex_lock(&service->lock);
    changed = service->unreachable != unreachable && (unreachable || failures == 0);
    service->unreachable = changed ? unreachable : service->unreachable;
    dbk_mutex_unlock(&service->lock);
    if (changed && unreachable) {
        dbk_log(DBK_LOG_ERROR, "the database of the journal does not answer; it is tried on",
                DBK_LOG_TEXT_FIELD("reason", reason));
    } else if (changed) {
        dbk_log_bare(DBK_LOG_INFO, "the database of the journal answers again");
    }
}

static unsigned ask(struct dbk_service *service, unsigned failures)
{
    struct daybook_journal_stats stats;
    struct daybook_error err = {0};
    struct daybook_journal *journal = dbk_service_borrow(service);

    if (journal == NULL) {
        return failures;
    }
    enum daybook_code code = daybook_journal_stats(journal, dbk_service_now(service), &stats, &err);
    dbk_service_return(service);
    if (code == DAYBOOK_OK) {
        dbk_mutex_lock(&service->lock);
        service->last_stats = stats;
        service->has_last_stats = true;
        dbk_mutex_unlock(&service->lock);
    }
    failures = code == DAYBOOK_OK ? 0 : failures + 1;
    note(service, failures, err.message);
    return failures;
}

static void *run(void *user)
{
    struct dbk_service *service = user;
    struct pollfd fd = {.fd = service->watch_fd, .events = POLLIN};
    unsigned failures = 0;

    while (poll(&fd, 1, WATCH_INTERVAL_MS) == 0) {
        failures = ask(service, failures);
    }
    return NULL;
}

enum daybook_code dbk_watch_start(struct dbk_service *service, struct daybook_error *err)
{
    if (service->config->backend != DBK_BACKEND_POSTGRES) {
        return DAYBOOK_OK;
    }
    service->unreachable = false;
    service->watch_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service->watch_fd < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, errno, "no file descriptor for the watch");
    }
    if (dbk_thread_start(&service->watch, "watch", run, service) != 0) {
        (void)close(service->watch_fd);
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no thread for the watch over the database");
    }
    service->watching = true;
    return DAYBOOK_OK;
}

void dbk_watch_stop(struct dbk_service *service)
{
    uint64_t one = 1;

    if (!service->watching) {
        return;
    }
    /* Cannot fail: nothing else is ever written there. */
    ssize_t ignored = write(service->watch_fd, &one, sizeof one);
    (void)ignored;
    dbk_thread_join(&service->watch);
    (void)close(service->watch_fd);
    service->watching = false;
}
