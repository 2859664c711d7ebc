/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte of a data directory checked, nothing written: identity, segment headers, each group's
 * checksums, chain, padding and records, the continuity of segments, the end, and a full replay whose
 * memory is audited (lists, counters, S5). Run by any thread; takes no lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "engines/log/findings.h"
#include "engines/log/log.h"
#include "engines/log/log_impl.h"
#include "engines/log/scan.h"

struct verify {
    struct dbk_findings findings;
    struct daybook_log_report *report;
    uint32_t bad_segment_no; /* where an end that is no end stands */
};

enum { TRIES = 20 }; /* with a journal that is trimmed meanwhile */

static enum daybook_code check_group(void *user, const struct dbk_scan_segment *segment,
                                     const struct dbk_group_header *header, const uint8_t *group,
                                     enum dbk_body_check check, struct daybook_error *err)
{
    struct verify *verify = user;
    struct dbk_frame frame;
    size_t at = DBK_GROUP_HEADER_BYTES;
    uint64_t damaged_before = verify->report->damaged;
    (void)err;
    verify->report->groups++;
    verify->report->frames += header->frame_count;
    while (dbk_frame_next(group, header, &at, &frame)) {
        size_t entry_at = 0;
        for (uint16_t i = 0; frame.type == DBK_FRAME_EVENT && i < frame.count; i++) {
            struct dbk_entry entry;
            size_t len = 0;
            verify->report->events++;
            if (check == DBK_BODY_OK) {
                continue;
            }
            enum dbk_entry_check entry_check =
                dbk_entry_decode(frame.body + entry_at, frame.len - entry_at, &entry, &len);
            if (entry_check == DBK_ENTRY_RECORD_DAMAGED) {
                dbk_finding(&verify->findings, DBK_DAMAGE, segment->segment_no,
                            dbk_lsn_offset(frame.lsn) + DBK_FRAME_HEADER_BYTES + entry_at,
                            "the record of the event at position %" PRIu64
                            " is damaged; it will be quarantined as malformed",
                            frame.position + i);
            }
            entry_at += len;
        }
    }
    if (check == DBK_BODY_RECORD_DAMAGED && verify->report->damaged == damaged_before) {
        dbk_finding(&verify->findings, DBK_DAMAGE, segment->segment_no, dbk_lsn_offset(header->lsn),
                    "the zeros behind a record of this group are damaged; no event is");
    }
    return DAYBOOK_OK;
}

static enum daybook_code judge_end(struct verify *verify, const struct dbk_scan_end *end,
                                   struct daybook_error *err)
{
    if (end->kind == DBK_END_TORN) {
        dbk_finding(
            &verify->findings, DBK_HARMLESS, end->bad_segment_no, end->bad_offset,
            "a write that was cut by a crash and never answered; the next opening sets it aside");
    } else if (end->kind == DBK_END_SUSPECT) {
        verify->bad_segment_no = end->bad_segment_no;
        (void)dbk_fail(
            err, DAYBOOK_DAMAGED,
            "the end of the log is not what a crash leaves: it may be rot in what was durable");
        err->offset = end->bad_offset;
        return DAYBOOK_DAMAGED;
    } else if (end->kind == DBK_END_ZEROS) {
        dbk_finding(&verify->findings, DBK_HARMLESS, end->segment_no, end->offset,
                    "the journal was not closed in order; the next opening recovers");
    }
    return DAYBOOK_OK;
}

/* The same replay as at an opening, and the memory that it makes counted anew. */
static enum daybook_code replay(const char *path, const struct dbk_os *os, uint64_t end_lsn,
                                const struct verify *verify, struct daybook_error *err)
{
    struct daybook_log_options options = {.path = path,
                                          .tail = DAYBOOK_TAIL_ACCEPT,
                                          .threads = DAYBOOK_LOG_INLINE,
                                          .bytes_max = UINT64_MAX};
    struct daybook_journal *journal;
    enum daybook_code code = dbk_log_open_readonly_to(&options, os, end_lsn, &journal, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    const char *wrong = dbk_state_audit(dbk_log_of(journal)->state);
    if (wrong != NULL) {
        dbk_finding(&verify->findings, DBK_DAMAGE, 0, 0, "the replayed state does not add up: %s",
                    wrong);
    }
    return daybook_journal_close(journal, err);
}

/* Everything up to `end_lsn`, 0: the end. */
static enum daybook_code check(struct verify *verify, const char *path, const struct dbk_os *os,
                               uint64_t end_lsn, struct daybook_error *err)
{
    struct dbk_scan scan;
    struct dbk_scan_end end = {.kind = DBK_END_EMPTY};
    enum daybook_code code = dbk_scan_open(&scan, os, path, err);
    if (code == DAYBOOK_OK && !scan.has_identity) {
        code = dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: holds no journal", path);
    }
    scan.end_lsn = end_lsn;
    verify->report->segments = scan.count;
    for (uint32_t i = 0; i < scan.count; i++) {
        verify->report->bytes += scan.segments[i].size_bytes;
    }
    if (code == DAYBOOK_OK) {
        code = dbk_scan_run(&scan, check_group, verify, &end, err);
    }
    if (code == DAYBOOK_OK && end_lsn != 0) {
        dbk_finding(&verify->findings, DBK_HARMLESS, end.segment_no, end.offset,
                    "the journal is being written: checked up to here");
    } else if (code == DAYBOOK_OK) {
        code = judge_end(verify, &end, err);
        if (dbk_scan_is_short(&scan, &end)) {
            dbk_finding(
                &verify->findings, DBK_DAMAGE, end.segment_no, end.offset,
                "the file is shorter than it was made, and the log was not closed: unless the "
                "disk was full at the last opening, what stood behind is gone");
        }
    }
    dbk_scan_release(&scan);
    return code == DAYBOOK_OK ? replay(path, os, end_lsn, verify, err) : code;
}

/* How far a journal that somebody writes can be checked; 0: nobody does, or it is damaged. */
static uint64_t living_end(const char *path, const struct dbk_os *os)
{
    struct dbk_scan scan;
    struct dbk_scan_end end;
    bool live = false;
    enum daybook_code code = dbk_scan_reach(&scan, os, path, &end, &live, NULL);
    uint64_t end_lsn = code == DAYBOOK_OK ? dbk_lsn(end.segment_no, end.offset) : 0;
    dbk_scan_release(&scan);
    return end_lsn;
}

static bool failed_on_the_move(enum daybook_code code, const struct daybook_error *err)
{
    return code == DAYBOOK_DAMAGED || (code == DAYBOOK_BACKEND && err->os_errno == ENOENT);
}

enum daybook_code dbk_log_verify(const char *path, const struct dbk_os *os,
                                 void (*found)(void *user, const struct daybook_log_finding *f),
                                 void *user, struct daybook_log_report *ret_report,
                                 struct daybook_error *err)
{
    struct verify verify = {.findings = {found, user, &ret_report->damaged}, .report = ret_report};
    struct daybook_error detail = {.code = DAYBOOK_OK};
    enum daybook_code code = DAYBOOK_OK;
    uint64_t end_lsn = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        detail = (struct daybook_error){.code = DAYBOOK_OK};
        memset(ret_report, 0, sizeof(*ret_report));
        verify.bad_segment_no = 0;
        ret_report->live = end_lsn != 0;
        code = check(&verify, path, os, end_lsn, &detail);
        if (!failed_on_the_move(code, &detail)) {
            break;
        }
        /* Somebody may be writing it: then it is looked at again, up to where it had come. */
        end_lsn = living_end(path, os);
        if (end_lsn == 0) {
            break;
        }
    }
    if (code == DAYBOOK_DAMAGED) {
        dbk_finding(&verify.findings, DBK_DAMAGE, verify.bad_segment_no, detail.offset, "%.*s",
                    (int)sizeof(((struct daybook_log_finding *)0)->message) - 1, detail.message);
    }
    if (code != DAYBOOK_OK) {
        if (err != NULL) {
            *err = detail;
        }
        return code;
    }
    return ret_report->damaged == 0
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_DAMAGED, "%s: %" PRIu64 " places are damaged", path,
                          ret_report->damaged);
}

enum daybook_code daybook_log_verify(const char *path,
                                     void (*found)(void *user, const struct daybook_log_finding *f),
                                     void *user, struct daybook_log_report *ret_report,
                                     struct daybook_error *err)
{
    if (path == NULL || ret_report == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the path or the report is missing");
    }
    return dbk_log_verify(path, dbk_os_posix(), found, user, ret_report, err);
}
