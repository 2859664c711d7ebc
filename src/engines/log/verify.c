/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte of a data directory checked, nothing written: identity, segment headers, each group's
 * checksums, chain, padding and records, the continuity of segments, the end, indexes against their
 * segments, checkpoints, and a replay whose memory is audited (lists, counters, S5), from the checkpoint and
 * from the whole log. Run by any thread; takes no lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "engines/log/findings.h"
#include "engines/log/log.h"
#include "engines/log/log_impl.h"
#include "engines/log/scan.h"
#include "engines/log/segment_index.h"

/* What the entries of a segment come to: an index holds the same ones in the same order. */
struct entries_seen {
    const struct dbk_scan_segment *segment; /* NULL: none yet */
    uint64_t count;
    uint32_t crc;
};

struct verify {
    struct dbk_findings findings;
    struct daybook_log_report *report;
    uint32_t bad_segment_no; /* where an end that is no end stands */
    const struct dbk_os *os;
    const char *path;
    struct dbk_scan scan;
    struct entries_seen seen; /* of the segment that is being read */
};

static bool see_entry(void *user, const struct dbk_index_entry *entry)
{
    struct entries_seen *seen = user;
    uint8_t bytes[DBK_INDEX_ENTRY_BYTES];
    dbk_index_entry_encode(entry, bytes);
    bytes[DBK_INDEX_FLAGS_AT] &= (uint8_t)~1U; /* a record may have rotted since */
    seen->crc = dbk_crc32c(seen->crc, bytes, sizeof(bytes));
    seen->count++;
    return true;
}

/* The index of a sealed segment against what was read in the segment. */
static void check_index(const struct verify *verify, const struct dbk_scan_segment *segment,
                        uint32_t end, const struct entries_seen *seen)
{
    struct dbk_index_header expected = {
        .segment_no = segment->segment_no, .salt = segment->salt, .end = end};
    struct entries_seen listed = {.count = 0};
    memcpy(expected.uuid, verify->scan.identity.uuid, sizeof(expected.uuid));
    enum dbk_index_state state =
        dbk_index_read(verify->os, verify->path, &expected, see_entry, &listed);
    if (state == DBK_INDEX_MISSING) {
        return;
    }
    if (state == DBK_INDEX_UNREADABLE) {
        /* Nothing is known of it, and nothing rests on it. */
        dbk_finding(&verify->findings, DBK_HARMLESS, segment->segment_no, 0,
                    "its index cannot be read; an opening reads the segment instead");
    } else if (state == DBK_INDEX_BAD) {
        dbk_finding(&verify->findings, DBK_DAMAGE, segment->segment_no, 0,
                    "its index is damaged; the next opening makes it again, no event is lost");
    } else if (listed.count != seen->count || listed.crc != seen->crc) {
        dbk_finding(&verify->findings, DBK_DAMAGE, segment->segment_no, 0,
                    "its index does not list what stands in it; remove the .dbi file: the next "
                    "opening makes it again");
    }
}

static void end_segment(struct verify *verify)
{
    const struct dbk_scan_segment *segment = verify->seen.segment;
    if (segment != NULL) {
        uint32_t end = dbk_scan_used(&verify->scan, (uint32_t)(segment - verify->scan.segments));
        if (end > DBK_BLOCK_BYTES) {
            check_index(verify, segment, end, &verify->seen);
        }
    }
    verify->seen = (struct entries_seen){.segment = NULL};
}

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
    if (verify->seen.segment != segment) {
        end_segment(verify);
        verify->seen.segment = segment;
    }
    (void)dbk_group_each_entry(&verify->scan.identity, header, group, see_entry, &verify->seen);
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

static void audit(const struct verify *verify, struct daybook_journal *journal)
{
    const char *wrong = dbk_state_audit(dbk_log_of(journal)->state);
    if (wrong != NULL) {
        dbk_finding(&verify->findings, DBK_DAMAGE, 0, 0, "the replayed state does not add up: %s",
                    wrong);
    }
}

/* A checkpoint was used: the log alone has to tell the same, where it still can. */
static enum daybook_code compare_whole(const struct verify *verify,
                                       const struct daybook_log_options *options, uint64_t end_lsn,
                                       struct daybook_journal *resumed, struct daybook_error *err)
{
    struct daybook_journal *whole;
    uint64_t position = 0;
    if (dbk_log_of(resumed)->trim.by_checkpoint) {
        return DAYBOOK_OK;
    }
    enum daybook_code code = dbk_log_open_readonly_whole(options, verify->os, end_lsn, &whole, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    int64_t now_us = dbk_log_of(whole)->newest_accepted_at_us;
    const char *wrong = dbk_log_differs(resumed, whole, now_us, &position);
    if (wrong != NULL) {
        dbk_finding(&verify->findings, DBK_DAMAGE, 0, 0,
                    "the state from the checkpoint is not that of the log: %s (position %" PRIu64
                    ")",
                    wrong, position);
    }
    audit(verify, whole);
    return daybook_journal_close(whole, err);
}

/* The same replay as at an opening, and the memory that it makes counted anew. */
static enum daybook_code replay(const struct verify *verify, uint64_t end_lsn,
                                struct daybook_error *err)
{
    struct daybook_log_options options = {.path = verify->path,
                                          .tail = DAYBOOK_TAIL_ACCEPT,
                                          .threads = DAYBOOK_LOG_INLINE,
                                          .bytes_max = UINT64_MAX};
    struct daybook_journal *journal;
    enum daybook_code code = dbk_log_open_readonly_to(&options, verify->os, end_lsn, &journal, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    audit(verify, journal);
    if (dbk_log_opening(journal).resumed_lsn != 0) {
        code = compare_whole(verify, &options, end_lsn, journal, err);
    }
    enum daybook_code closed = daybook_journal_close(journal, err);
    return code == DAYBOOK_OK ? closed : code;
}

/* Everything up to `end_lsn`, 0: the end. */
static enum daybook_code check(struct verify *verify, uint64_t end_lsn, struct daybook_error *err)
{
    struct dbk_scan *scan = &verify->scan;
    struct dbk_scan_end end = {.kind = DBK_END_EMPTY};
    enum daybook_code code = dbk_scan_open_proven(scan, verify->os, verify->path, end_lsn, err);
    if (code == DAYBOOK_OK && !scan->has_identity) {
        code = dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: holds no journal", verify->path);
    }
    scan->end_lsn = end_lsn;
    verify->seen = (struct entries_seen){.segment = NULL};
    verify->report->segments = scan->count;
    for (uint32_t i = 0; i < scan->count; i++) {
        verify->report->bytes += scan->segments[i].size_bytes;
    }
    if (code == DAYBOOK_OK) {
        code = dbk_scan_run(scan, check_group, verify, &end, err);
    }
    if (code == DAYBOOK_OK && end_lsn != 0) {
        dbk_finding(&verify->findings, DBK_HARMLESS, end.segment_no, end.offset,
                    "the journal is being written: checked up to here");
    } else if (code == DAYBOOK_OK) {
        code = judge_end(verify, &end, err);
        if (dbk_scan_is_short(scan, &end)) {
            dbk_finding(
                &verify->findings, DBK_DAMAGE, end.segment_no, end.offset,
                "the file is shorter than it was made, and the log was not closed: unless the "
                "disk was full at the last opening, what stood behind is gone");
        }
    }
    if (code == DAYBOOK_OK) {
        end_segment(verify);
        code = dbk_find_bad_checkpoints(&verify->findings, verify->os, verify->path,
                                        scan->identity.uuid, end_lsn, err);
    }
    dbk_scan_release(scan);
    return code == DAYBOOK_OK ? replay(verify, end_lsn, err) : code;
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
    struct verify verify = {.findings = {found, user, &ret_report->damaged},
                            .report = ret_report,
                            .os = os,
                            .path = path};
    struct daybook_error detail = {.code = DAYBOOK_OK};
    enum daybook_code code = DAYBOOK_OK;
    uint64_t end_lsn = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        detail = (struct daybook_error){.code = DAYBOOK_OK};
        memset(ret_report, 0, sizeof(*ret_report));
        verify.bad_segment_no = 0;
        ret_report->live = end_lsn != 0;
        code = check(&verify, end_lsn, &detail);
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
