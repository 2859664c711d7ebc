/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine behind <daybook/log.h>, opened on a seam of the caller's choice.
 */
#ifndef DBK_ENGINES_LOG_LOG_H
#define DBK_ENGINES_LOG_LOG_H

#include <daybook/log.h>

#include "base/os.h"

/* As daybook_log_open and daybook_log_open_readonly, on `os` (borrowed until the handle is closed). */
enum daybook_code dbk_log_open(const struct daybook_log_options *options, const struct dbk_os *os,
                               struct daybook_journal **ret, struct daybook_error *err);
enum daybook_code dbk_log_open_readonly(const struct daybook_log_options *options,
                                        const struct dbk_os *os, struct daybook_journal **ret,
                                        struct daybook_error *err);
enum daybook_code dbk_log_verify(const char *path, const struct dbk_os *os,
                                 void (*found)(void *user, const struct daybook_log_finding *f),
                                 void *user, struct daybook_log_report *ret_report,
                                 struct daybook_error *err);

enum daybook_code dbk_log_repair(const char *path, const char *new_path, const struct dbk_os *os,
                                 const struct daybook_log_repair_hooks *hooks,
                                 struct daybook_log_repair_report *ret_report,
                                 struct daybook_error *err);

enum daybook_code dbk_log_backup(const char *path, const char *new_path, const struct dbk_os *os,
                                 struct daybook_log_backup_report *ret_report,
                                 struct daybook_error *err);
/* As dbk_log_open_readonly, reading the log up to `end_lsn` (0: to its end) and judging nothing behind. */
enum daybook_code dbk_log_open_readonly_to(const struct daybook_log_options *options,
                                           const struct dbk_os *os, uint64_t end_lsn,
                                           struct daybook_journal **ret, struct daybook_error *err);

/* The same by a replay of the whole log, as if there were no checkpoint. */
enum daybook_code dbk_log_open_readonly_whole(const struct daybook_log_options *options,
                                              const struct dbk_os *os, uint64_t end_lsn,
                                              struct daybook_journal **ret,
                                              struct daybook_error *err);
/* The first thing in which what two handles hold in memory differs (image.h), NULL: nothing. */
const char *dbk_log_differs(struct daybook_journal *a, struct daybook_journal *b, int64_t now_us,
                            uint64_t *ret_position);
/* How an opening went. With DAYBOOK_LOG_INLINE, or while the housekeeper rests. */
struct dbk_log_opening {
    uint64_t resumed_lsn;     /* of the checkpoint that was used; 0: the whole log was read */
    uint32_t bad_checkpoints; /* met before one that could be used */
    uint32_t bad_indexes;
    bool
        by_checkpoint; /* segments are gone that only a checkpoint stands for: the log alone does not tell */
    /* And since: */
    bool relocated;      /* events were relocated */
    uint64_t newest_lsn; /* of the newest checkpoint that is kept; 0: none */
};
struct dbk_log_opening dbk_log_opening(const struct daybook_journal *journal);

/* One round of what the housekeeper does, for DAYBOOK_LOG_INLINE: prepares the next segment, syncs
 * what was written 100 ms ago, writes the idle NOTE, makes indexes and checkpoints, trims. Returns whether
 * anything was done. */
bool dbk_log_housekeep(struct daybook_journal *journal);

/* Events appended from now on carry this row version, as those of a newer build would (C9). Tests only. */
void dbk_log_set_row_version(struct daybook_journal *journal, uint16_t row_version);

/* The number of the newest group that was written, its own opening's included: after a loss of power it
 * says how much of the log is left. Tests only. */
uint64_t dbk_log_group_no(const struct daybook_journal *journal);
/* The position that the next event gets. Tests only. */
uint64_t dbk_log_next_position(const struct daybook_journal *journal);

/* Has the next group that is sealed take a checkpoint, whether one is due or not; it is written by
 * dbk_log_housekeep. DAYBOOK_LOG_INLINE. Tests only. */
void dbk_log_want_checkpoint(struct daybook_journal *journal);

/* Drops the handle as a crash would: nothing is committed, synced or marked. Tests only. */
void dbk_log_abandon(struct daybook_journal *journal);

#endif
