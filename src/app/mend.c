/* SPDX-License-Identifier: Apache-2.0 */
/* The repair of mend.h. */
#include "app/mend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <daybook/log.h>

#include "app/logline.h"
#include "base/error.h"

#define PATH_BYTES (DBK_CONFIG_PATH_MAX + 64u)
#define BESIDE_PATH_BYTES (PATH_BYTES + 256u)
#define FOUND_LINES_MAX 20u /* told one by one; the rest is counted */

/* What is done, and where. */
struct mend {
    char path[PATH_BYTES];  /* the journal's, absolute and without links */
    char fresh[PATH_BYTES]; /* the new one, until it takes its place; then the old one */
    char aside[PATH_BYTES]; /* where the old one goes */
    struct daybook_log_repair_report report;
    unsigned told;
};

static enum daybook_code cannot(const struct mend *mend, const char *what,
                                struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_DAMAGED,
                    "journal.damage: repair: %s: %s (%s); nothing is lost: do by hand what "
                    "docs/RECOVERY.md says of a repair",
                    mend->path, what, strerror(errno));
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell_found(void *user, const struct daybook_log_finding *finding)
{
    struct mend *mend = user;
    if (!finding->harmless && mend->told++ < FOUND_LINES_MAX) {
        dbk_log(DBK_LOG_ERROR, "damaged", DBK_LOG_NUMBER("segment", finding->segment_no),
                DBK_LOG_NUMBER("offset", finding->offset),
                DBK_LOG_TEXT_FIELD("what", finding->message));
    }
}

static void tell_missing(void *user, const struct daybook_log_missing *missing)
{
    struct mend *mend = user;
    if (mend->told++ < FOUND_LINES_MAX) {
        dbk_log(DBK_LOG_ERROR, missing->behind_newest ? "perhaps missing" : "missing",
                DBK_LOG_NUMBER("first_position", missing->first),
                DBK_LOG_NUMBER("last_position", missing->end - 1));
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Where the directory really is: what is exchanged is not a link to it. */
static enum daybook_code find_paths(struct mend *mend, const struct dbk_config *config,
                                    struct daybook_error *err)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    char *real = realpath(config->journal_path, NULL);
    size_t len = real != NULL ? strlen(real) : 0;
    (void)snprintf(mend->path, sizeof mend->path, "%s", config->journal_path);
    if (len == 0 || len > DBK_CONFIG_PATH_MAX) {
        errno = real != NULL ? ENAMETOOLONG : errno;
        free(real);
        return cannot(mend, "the directory cannot be found", err);
    }
    (void)gmtime_r(&now, &tm);
    (void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    (void)snprintf(mend->path, sizeof mend->path, "%s", real);
    (void)snprintf(mend->fresh, sizeof mend->fresh, "%s.repaired", real);
    (void)snprintf(mend->aside, sizeof mend->aside, "%s.damaged-%s", real, stamp);
    free(real);
    return DAYBOOK_OK;
}

/* Whether a file of this name in a journal's directory is the journal's own (docs/FORMAT.md). */
static bool is_of_the_journal(const char *name)
{
    static const char *const ends[] = {".dbl", ".dbi", ".dbc", ".tmp"};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (len > 4 && strcmp(name + len - 4, ends[i]) == 0) {
            return true;
        }
    }
    return strcmp(name, "FORMAT") == 0 || strcmp(name, "LOCK") == 0 ||
           strcmp(name, DBK_MENDED_FILE) == 0;
}

enum beside { BESIDE_LINK, BESIDE_UNLINK };

/* The files of others in the directory `from`: gives each its name in `to` too, or takes the one in `from` away.
 * 0 or -1 with errno. */
static int each_beside(const char *from, const char *to, enum beside what)
{
    char old_path[BESIDE_PATH_BYTES];
    char new_path[BESIDE_PATH_BYTES];
    struct stat st;
    DIR *directory = opendir(from);
    int rc = directory != NULL ? 0 : -1;
    while (rc == 0) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            rc = errno == 0 ? 0 : -1;
            break;
        }
        (void)snprintf(old_path, sizeof old_path, "%s/%s", from, entry->d_name);
        (void)snprintf(new_path, sizeof new_path, "%s/%s", to, entry->d_name);
        if (is_of_the_journal(entry->d_name) || lstat(old_path, &st) != 0 || !S_ISREG(st.st_mode)) {
            continue;
        }
        rc = what == BESIDE_LINK ? link(old_path, new_path) : unlink(old_path);
    }
    if (directory != NULL) {
        int kept = errno;
        (void)closedir(directory);
        errno = kept;
    }
    return rc;
}

static int sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 ? fsync(fd) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

static int sync_parent(const char *path)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return sync_directory(".");
    }
    (void)snprintf(parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return sync_directory(parent);
}

/* The flag, for a person to read and remove. */
static int write_flag(const struct mend *mend, const char *why)
{
    char path[BESIDE_PATH_BYTES];
    char text[2048];
    int len = snprintf(text, sizeof text,
                       "This journal was damaged, and was repaired by journal.damage: repair.\n"
                       "What was wrong: %s\n"
                       "Damaged places: %" PRIu64 "; events lost, at most: %" PRIu64 "\n"
                       "The directory as it was: %s\n"
                       "docs/RECOVERY.md says what to do about what is missing. Remove this file "
                       "when it is done.\n",
                       why, mend->report.damaged, mend->report.events_lost, mend->aside);
    (void)snprintf(path, sizeof path, "%s/" DBK_MENDED_FILE, mend->fresh);
    size_t size = len < (int)sizeof text ? (size_t)len : sizeof text - 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool whole = fd >= 0 && write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return whole ? 0 : -1;
}

/* ---- the repair ------------------------------------------------------------------------------ */

/* Both directories have their place at any moment. */
static enum daybook_code take_place(const struct mend *mend, const char *why,
                                    struct daybook_error *err)
{
    if (each_beside(mend->path, mend->fresh, BESIDE_LINK) != 0) {
        return cannot(mend, "what stands beside the journal cannot be kept at its path", err);
    }
    if (write_flag(mend, why) != 0 || sync_directory(mend->fresh) != 0) {
        return cannot(mend, "the repaired journal cannot be written to", err);
    }
    if (renameat2(AT_FDCWD, mend->fresh, AT_FDCWD, mend->path, RENAME_EXCHANGE) != 0) {
        return cannot(mend, "the repaired journal cannot take its place", err);
    }
    if (rename(mend->fresh, mend->aside) != 0 || sync_parent(mend->path) != 0) {
        return cannot(mend, "the damaged journal cannot be set aside", err);
    }
    if (each_beside(mend->aside, mend->path, BESIDE_UNLINK) != 0) {
        return cannot(mend, "what stood beside the damaged journal has two names", err);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_mend_journal(const struct dbk_config *config, const char *why,
                                   struct daybook_error *err)
{
    struct mend mend = {.told = 0};
    struct daybook_log_repair_hooks hooks = {tell_found, tell_missing, &mend};
    struct daybook_error cause = {0};
    enum daybook_code code = find_paths(&mend, config, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    dbk_log(DBK_LOG_ERROR, "the journal is damaged and is repaired (journal.damage: repair)",
            DBK_LOG_TEXT_FIELD("reason", why));
    code = daybook_log_repair(mend.path, mend.fresh, &hooks, &mend.report, &cause);
    if (code == DAYBOOK_NO_MEMORY) {
        return dbk_fail(err, code, "%s", cause.message);
    }
    if (code != DAYBOOK_OK) {
        return dbk_fail(err, DAYBOOK_DAMAGED, "%.*s; and it cannot be repaired: %.*s", 220, why,
                        220, cause.message);
    }
    code = take_place(&mend, why, err);
    if (code == DAYBOOK_OK) {
        dbk_log(DBK_LOG_ERROR,
                "the journal was repaired; read the file " DBK_MENDED_FILE
                " in its directory, and remove it when what it asks for is done",
                DBK_LOG_TEXT_FIELD("set_aside", mend.aside),
                DBK_LOG_NUMBER("events_stored", mend.report.stored),
                DBK_LOG_NUMBER("events_lost_at_most", mend.report.events_lost),
                DBK_LOG_NUMBER("damaged_places", mend.report.damaged));
    }
    return code;
}

bool dbk_mend_flag_is_up(const struct dbk_config *config)
{
    char path[BESIDE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/" DBK_MENDED_FILE, config->journal_path);
    return config->backend == DBK_BACKEND_LOG && access(path, F_OK) == 0;
}
