/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of findings.h. */
#include "engines/log/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "engines/log/checkpoint.h"

void dbk_finding(const struct dbk_findings *findings, enum dbk_weight weight, uint64_t segment_no,
                 uint64_t offset, const char *format, ...)
{
    struct daybook_log_finding f = {
        .segment_no = segment_no, .offset = offset, .harmless = weight == DBK_HARMLESS};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f.message, sizeof(f.message), format, args);
    va_end(args);
    *findings->damaged += weight == DBK_DAMAGE ? 1 : 0;
    if (findings->found != NULL) {
        findings->found(findings->user, &f);
    }
}

enum daybook_code dbk_find_bad_checkpoints(const struct dbk_findings *findings,
                                           const struct dbk_os *os, const char *path,
                                           const uint8_t uuid[16], uint64_t end_lsn,
                                           struct daybook_error *err)
{
    enum { LOOKED_AT_MAX = 16 };
    uint64_t lsns[LOOKED_AT_MAX];
    int n = dbk_checkpoints_list(os, path, lsns, LOOKED_AT_MAX);
    if (n < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, -n, "%s: cannot be listed", path);
    }
    for (int i = 0; i < n; i++) {
        struct dbk_checkpoint_file file;
        struct daybook_error detail = {.code = DAYBOOK_OK};
        if (end_lsn != 0 && lsns[i] > end_lsn) {
            continue;
        }
        enum daybook_code code = dbk_checkpoint_read(os, path, lsns[i], uuid, &file, &detail);
        if (code == DAYBOOK_OK) {
            dbk_checkpoint_file_free(&file);
        } else if (code == DAYBOOK_DAMAGED) {
            dbk_finding(findings, DBK_DAMAGE, dbk_lsn_segment(lsns[i]), dbk_lsn_offset(lsns[i]),
                        "the checkpoint of this place is damaged; an opening uses another, or the "
                        "whole log");
        } else if (code != DAYBOOK_NOT_FOUND) {
            if (err != NULL) {
                *err = detail;
            }
            return code;
        }
    }
    return DAYBOOK_OK;
}
