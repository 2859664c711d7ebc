/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log of a directory, group by group, to where it ends, and the verdict on that end: the
 * rule of the tail and the recovery table of docs/FORMAT.md. Reads only; used by recovery and verify.
 * Threads: owner.
 */
#ifndef DBK_ENGINES_LOG_SCAN_H
#define DBK_ENGINES_LOG_SCAN_H

#include <daybook/log.h>

#include "base/os.h"
#include "engines/log/format.h"

struct dbk_scan_segment {
    uint32_t segment_no;
    uint32_t size_bytes;    /* of the file */
    uint32_t segment_bytes; /* as its header says */
    uint64_t salt;
    bool linked;       /* its first group is a valid LINK */
    bool begins_blank; /* the block of its first group is all zero */
    bool blank;        /* nothing but zeros behind its header (known after dbk_scan_run) */
    uint32_t used_end; /* behind the last byte that is not zero (likewise, tail segments only) */
    bool cut; /* the walk passed over it, and it is shorter than its successor's LINK says */
    struct dbk_link_frame link;
    uint64_t events_max; /* as its STATE says */
};

/* How the log ends. */
enum dbk_scan_end_kind {
    DBK_END_EMPTY,  /* there is no group at all */
    DBK_END_ZEROS,  /* a whole last group, then zeros */
    DBK_END_CLEAN,  /* likewise, and it is a CLEAN */
    DBK_END_TORN,   /* a torn or lost write of the last window that was not synced */
    DBK_END_SUSPECT /* bytes that unwritten sectors cannot explain */
};

struct dbk_scan_end {
    enum dbk_scan_end_kind kind;
    uint32_t segment_no;     /* 0 with EMPTY */
    uint32_t offset;         /* behind the last group of the log */
    uint32_t bad_segment_no; /* with TORN and SUSPECT: where the judged bytes stand */
    uint32_t bad_offset;
    uint64_t group_no;
    uint32_t hcrc;
    uint32_t epoch;
    uint64_t durable_lsn; /* highest that any group names */
    uint64_t events;      /* in the last segment */
    uint64_t frames;
    uint64_t lost_groups; /* valid groups behind the end, set aside with it */
};

/* A valid group of the log. Not OK ends the scan with that code. */
typedef enum daybook_code dbk_scan_group(void *user, const struct dbk_scan_segment *segment,
                                         const struct dbk_group_header *header,
                                         const uint8_t *group, enum dbk_body_check check,
                                         struct daybook_error *err);

struct dbk_scan {
    const struct dbk_os *os;
    const char *path;
    struct dbk_identity identity;
    bool has_identity;
    bool read_only_feature;
    struct dbk_scan_segment *segments; /* ascending */
    uint32_t count;
    uint32_t room;
    uint8_t *buffer;
    uint32_t
        start_segment_no; /* not 0: the walk begins here; of those before, only the LINKs are looked at */
    uint64_t proof_lsn; /* what is known from elsewhere to have been durable below here */
    uint64_t
        end_lsn; /* not 0: the log is read up to this end of a group, and what stands behind is not
                         looked at: of a journal that is being written */
};

/* Lists the directory, reads FORMAT, every segment header and every first group. NOT_FOUND: there is no
 * such directory. Not OK otherwise: DAMAGED, NEWER_FORMAT, BACKEND, NO_MEMORY. */
enum daybook_code dbk_scan_open(struct dbk_scan *scan, const struct dbk_os *os, const char *path,
                                struct daybook_error *err);
/* The same, and knows what the checkpoints prove to have been durable (proof_lsn), as an opening does: the newest
 * that is whole, of those up to `end_lsn` (0: of all). A damaged one proves nothing. */
enum daybook_code dbk_scan_open_proven(struct dbk_scan *scan, const struct dbk_os *os,
                                       const char *path, uint64_t end_lsn,
                                       struct daybook_error *err);
void dbk_scan_release(struct dbk_scan *scan);
/* Walks the groups in order and judges the end. */
enum daybook_code dbk_scan_run(struct dbk_scan *scan, dbk_scan_group *visit, void *user,
                               struct dbk_scan_end *ret_end, struct daybook_error *err);
/* Opens and says how far the log reaches at this moment, also of a journal that somebody is writing: what
 * is not whole yet, or trimmed, at one look is looked at again. *ret_live: it moved meanwhile; scan->end_lsn
 * is set then. To be released in any case. DAMAGED: it stays so, and nothing moves. A suspect end is none of
 * a living journal's: DAMAGED. */
enum daybook_code dbk_scan_reach(struct dbk_scan *scan, const struct dbk_os *os, const char *path,
                                 struct dbk_scan_end *ret_end, bool *ret_live,
                                 struct daybook_error *err);
/* Walks one sealed segment up to its end. DAMAGED: not everything in it holds. */
enum daybook_code dbk_scan_one(const struct dbk_os *os, const char *path, uint32_t segment_no,
                               uint32_t end, dbk_scan_group *visit, void *user,
                               struct daybook_error *err);
/* The salt of a segment. Returns 0 or -errno, -EIO where its header is damaged. */
int dbk_scan_salt(const struct dbk_os *os, const char *path, uint32_t segment_no, uint64_t *ret);
/* A visit that does nothing. */
enum daybook_code dbk_scan_no_visit(void *user, const struct dbk_scan_segment *segment,
                                    const struct dbk_group_header *header, const uint8_t *group,
                                    enum dbk_body_check check, struct daybook_error *err);
/* Whether the last segment of the log is a file shorter than it was made, without a CLEAN at its end. Only
 * an opening on a full disk leaves that; else something cut the file, and where it was cut exactly behind a
 * group nothing in the log proves that more stood there. */
bool dbk_scan_is_short(const struct dbk_scan *scan, const struct dbk_scan_end *end);
/* Bytes of a segment that is not the last of the log: up to where its successor says that it ended. */
uint32_t dbk_scan_used(const struct dbk_scan *scan, uint32_t index);
/* Reads up to `len` bytes; fewer only at the end of the file. Returns them, or -errno. */
int64_t dbk_read_at(const struct dbk_os *os, int file, uint8_t *buf, size_t len, uint64_t offset);
/* The number of a segment, from the name of its file. False: it is no segment. */
bool dbk_segment_number(const char *name, uint32_t *ret);
/* Whether `len` bytes are all zero. */
bool dbk_all_zero(const uint8_t *p, size_t len);

#endif
