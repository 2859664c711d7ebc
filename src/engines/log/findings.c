/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of findings.h. */
#include "engines/log/findings.h"

#include <stdarg.h>
#include <stdio.h>

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
