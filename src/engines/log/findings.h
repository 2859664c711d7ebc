/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a check and a repair tell what they find: to whom, and counted. Threads: owner.
 */
#ifndef DBK_ENGINES_LOG_FINDINGS_H
#define DBK_ENGINES_LOG_FINDINGS_H

#include <daybook/log.h>

#include "base/os.h"

struct dbk_findings {
    void (*found)(void *user, const struct daybook_log_finding *f); /* NULL: nobody listens */
    void *user;
    uint64_t *damaged; /* counts what is not harmless */
};

enum dbk_weight { DBK_HARMLESS, DBK_DAMAGE };

/* `segment_no` 0: the directory itself. */
void dbk_finding(const struct dbk_findings *findings, enum dbk_weight weight, uint64_t segment_no,
                 uint64_t offset, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Names each checkpoint of a directory that is damaged, of those up to `end_lsn` (0: of all). Not OK: BACKEND,
 * NEWER_FORMAT, NO_MEMORY. */
enum daybook_code dbk_find_bad_checkpoints(const struct dbk_findings *findings,
                                           const struct dbk_os *os, const char *path,
                                           const uint8_t uuid[16], uint64_t end_lsn,
                                           struct daybook_error *err);

#endif
