/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log of a directory, and the verdict on its end.
 *
 * The rule (docs/FORMAT.md): damage at or above every proof of durability is a tail, cut where a sector
 * that was never written explains it, else suspect; damage below a proof is corruption and refused; an
 * error of reading is neither. Nothing is written, lengths are believed only after their checksum, and
 * memory does not depend on what the files say.
 */
#include "engines/log/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fault.h"
#include "engines/log/checkpoint.h"

enum {
    BUFFER_BYTES = 2 * DBK_GROUP_BYTES_MAX,
    LINK_BYTES_MAX = 256 * 1024,  /* of a LINK group (docs/FORMAT.md) */
    LINK_BYTES_USUAL = 16 * 1024, /* of a segment, header included, that are read at first */
    PATH_BYTES = 4096,
    LOOKS_MAX = 6,         /* at a journal that may be being written .. */
    LOOK_AGAIN_US = 100000 /* .. this long after one another */
};

bool dbk_all_zero(const uint8_t *p, size_t len)
{
    while (len >= 64) {
        uint64_t w[8];
        memcpy(w, p, sizeof(w));
        if ((w[0] | w[1] | w[2] | w[3] | w[4] | w[5] | w[6] | w[7]) != 0) {
            return false;
        }
        p += 64;
        len -= 64;
    }
    while (len > 0) {
        if (*p++ != 0) {
            return false;
        }
        len--;
    }
    return true;
}

/* ---- the directory ----------------------------------------------------------------------------- */

bool dbk_segment_number(const char *name, uint32_t *ret)
{
    uint64_t number = 0;
    if (strlen(name) != 24 || strncmp(name, "seg-", 4) != 0 || strcmp(name + 20, ".dbl") != 0) {
        return false;
    }
    for (unsigned i = 4; i < 20; i++) {
        char c = name[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        } else {
            return false;
        }
        number = number << 4 | digit;
    }
    *ret = (uint32_t)number;
    return number != 0 && number <= UINT32_MAX;
}

static int add_segment(void *user, const char *name)
{
    struct dbk_scan *scan = user;
    uint32_t number;
    if (!dbk_segment_number(name, &number)) {
        return 0;
    }
    if (scan->count == scan->room) {
        uint32_t room = scan->room == 0 ? 64 : scan->room * 2;
        struct dbk_scan_segment *grown = realloc(scan->segments, room * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        scan->segments = grown;
        scan->room = room;
    }
    memset(&scan->segments[scan->count], 0, sizeof(scan->segments[0]));
    scan->segments[scan->count++].segment_no = number;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct dbk_scan_segment *)a)->segment_no;
    uint32_t y = ((const struct dbk_scan_segment *)b)->segment_no;
    return (x > y) - (x < y);
}

static void segment_name(const struct dbk_scan *scan, uint32_t segment_no, char *ret)
{
    snprintf(ret, PATH_BYTES, "%s/seg-%016" PRIx64 ".dbl", scan->path, (uint64_t)segment_no);
}

static enum daybook_code read_failed(const struct dbk_scan *scan, struct daybook_error *err,
                                     int64_t rc, const char *file, uint64_t offset)
{
    enum daybook_code code =
        dbk_fail_os(err, DAYBOOK_BACKEND, (int)-rc,
                    "%s: cannot read %s at offset %" PRIu64
                    "; an error of reading is not the end of a log, so nothing was changed",
                    scan->path, file, offset);
    if (err != NULL) {
        err->offset = offset;
    }
    return code;
}

int64_t dbk_read_at(const struct dbk_os *os, int file, uint8_t *buf, size_t len, uint64_t offset)
{
    size_t got = 0;
    while (got < len) {
        int64_t n = os->pread(os, file, buf + got, len - got, offset + got);
        if (n == -EINTR) {
            continue;
        }
        if (n < 0) {
            return n;
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    return (int64_t)got;
}

static enum daybook_code read_identity(struct dbk_scan *scan, struct daybook_error *err)
{
    char path[PATH_BYTES];
    uint8_t bytes[DBK_FORMAT_FILE_BYTES];
    snprintf(path, sizeof(path), "%s/FORMAT", scan->path);
    int file = scan->os->open(scan->os, path, DBK_OPEN_READ);
    if (file == -ENOENT) {
        return DAYBOOK_OK;
    }
    if (file < 0) {
        return read_failed(scan, err, file, "FORMAT", 0);
    }
    int64_t n = dbk_read_at(scan->os, file, bytes, sizeof(bytes), 0);
    (void)scan->os->close(scan->os, file);
    if (n < 0) {
        return read_failed(scan, err, n, "FORMAT", 0);
    }
    enum dbk_decoded decoded =
        n == DBK_FORMAT_FILE_BYTES ? dbk_identity_decode(bytes, &scan->identity) : DBK_DECODED_BAD;
    if (decoded == DBK_DECODED_BAD) {
        return dbk_fail(err, DAYBOOK_DAMAGED,
                        "%s: FORMAT is damaged; restore the file from a backup of this directory",
                        scan->path);
    }
    if (decoded == DBK_DECODED_NEWER) {
        return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                        "%s: written by a newer version of daybook; use that version", scan->path);
    }
    scan->has_identity = true;
    scan->read_only_feature = decoded == DBK_DECODED_READ_ONLY;
    return DAYBOOK_OK;
}

/* Whether the group at `group` (its header is decoded) is sound; frames of a LINK are looked at. */
static bool peek_link(const uint8_t *group, const struct dbk_group_header *header, uint64_t salt,
                      struct dbk_scan_segment *segment)
{
    size_t offset = DBK_GROUP_HEADER_BYTES;
    struct dbk_frame frame;
    struct dbk_state_frame state;
    size_t whole = DBK_GROUP_HEADER_BYTES + (size_t)header->body_len;
    if (dbk_group_check(group, whole, salt, header) == DBK_BODY_BAD ||
        (header->flags & DBK_GROUP_LINK) == 0 || !dbk_frame_next(group, header, &offset, &frame) ||
        frame.type != DBK_FRAME_LINK || !dbk_link_frame_decode(&frame, &segment->link)) {
        return false;
    }
    if (dbk_frame_next(group, header, &offset, &frame) && frame.type == DBK_FRAME_STATE &&
        dbk_state_frame_decode(&frame, &state)) {
        segment->events_max = state.events_max;
    }
    return true;
}

static enum daybook_code peek(struct dbk_scan *scan, struct dbk_scan_segment *segment,
                              struct daybook_error *err)
{
    char path[PATH_BYTES];
    struct dbk_stat st;
    struct dbk_segment_header header;
    struct dbk_group_header group;
    segment_name(scan, segment->segment_no, path);
    const char *name = path + strlen(scan->path) + 1;
    int rc = scan->os->stat(scan->os, path, &st);
    if (rc < 0) {
        return read_failed(scan, err, rc, name, 0);
    }
    int file = scan->os->open(scan->os, path, DBK_OPEN_READ);
    if (file < 0) {
        return read_failed(scan, err, file, name, 0);
    }
    /* Most LINK groups are small: the rest is read where there is one. */
    int64_t n = dbk_read_at(scan->os, file, scan->buffer, LINK_BYTES_USUAL, 0);
    if (n == LINK_BYTES_USUAL &&
        dbk_segment_header_decode(scan->buffer, &header) == DBK_DECODED_OK &&
        dbk_group_header_decode(scan->buffer + DBK_BLOCK_BYTES, header.salt,
                                dbk_lsn(segment->segment_no, DBK_BLOCK_BYTES), &group) &&
        DBK_BLOCK_BYTES + DBK_GROUP_HEADER_BYTES + (size_t)group.body_len > LINK_BYTES_USUAL) {
        n = dbk_read_at(scan->os, file, scan->buffer, DBK_BLOCK_BYTES + LINK_BYTES_MAX, 0);
    }
    (void)scan->os->close(scan->os, file);
    if (n < 0) {
        return read_failed(scan, err, n, name, 0);
    }
    enum dbk_decoded decoded =
        n >= DBK_BLOCK_BYTES ? dbk_segment_header_decode(scan->buffer, &header) : DBK_DECODED_BAD;
    if (decoded == DBK_DECODED_NEWER) {
        return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                        "%s: %s was written by a newer version of daybook; use that version",
                        scan->path, name);
    }
    if (decoded == DBK_DECODED_BAD || header.segment_no != segment->segment_no ||
        header.segment_bytes > DBK_SEGMENT_BYTES_MAX || st.size_bytes > header.segment_bytes ||
        (scan->has_identity && memcmp(header.uuid, scan->identity.uuid, 16) != 0)) {
        return dbk_fail(err, DAYBOOK_DAMAGED,
                        "%s: the header of %s (offset 0) is damaged or of another journal; "
                        "nothing was changed",
                        scan->path, name);
    }
    segment->size_bytes = (uint32_t)st.size_bytes;
    segment->segment_bytes = (uint32_t)header.segment_bytes;
    segment->salt = header.salt;
    const uint8_t *first = scan->buffer + DBK_BLOCK_BYTES;
    size_t have = (size_t)n - DBK_BLOCK_BYTES;
    segment->begins_blank = dbk_all_zero(first, have < DBK_BLOCK_BYTES ? have : DBK_BLOCK_BYTES);
    if (have >= DBK_GROUP_HEADER_BYTES &&
        dbk_group_header_decode(first, header.salt, dbk_lsn(segment->segment_no, DBK_BLOCK_BYTES),
                                &group) &&
        DBK_GROUP_HEADER_BYTES + (size_t)group.body_len <= have) {
        segment->linked = peek_link(first, &group, header.salt, segment);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_scan_open(struct dbk_scan *scan, const struct dbk_os *os, const char *path,
                                struct daybook_error *err)
{
    memset(scan, 0, sizeof(*scan));
    scan->os = os;
    scan->path = path;
    scan->buffer = malloc(BUFFER_BYTES);
    if (scan->buffer == NULL) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to read a log");
    }
    int rc = os->list(os, path, add_segment, scan);
    if (rc == -ENOENT) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: no such directory", path);
    }
    if (rc == -ENOMEM) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to list a log");
    }
    if (rc < 0) {
        return read_failed(scan, err, rc, "the directory", 0);
    }
    if (scan->count > 0) {
        qsort(scan->segments, scan->count, sizeof(scan->segments[0]), by_number);
    }
    enum daybook_code code = read_identity(scan, err);
    if (code == DAYBOOK_OK && !scan->has_identity && scan->count > 0) {
        code = dbk_fail(err, DAYBOOK_DAMAGED,
                        "%s: holds segments but no FORMAT file; it is not taken for a new journal: "
                        "restore the file from a backup of this directory",
                        path);
    }
    for (uint32_t i = 0; i < scan->count && code == DAYBOOK_OK; i++) {
        code = peek(scan, &scan->segments[i], err);
    }
    return code;
}

enum daybook_code dbk_scan_open_proven(struct dbk_scan *scan, const struct dbk_os *os,
                                       const char *path, uint64_t end_lsn,
                                       struct daybook_error *err)
{
    enum { LOOKED_AT_MAX = 16 };
    uint64_t lsns[LOOKED_AT_MAX];
    /* Before the segments are looked at: somebody may be writing, and the log is never behind a checkpoint. */
    int n = dbk_checkpoints_list(os, path, lsns, LOOKED_AT_MAX);
    enum daybook_code code = dbk_scan_open(scan, os, path, err);
    if (code == DAYBOOK_OK && n < 0) {
        return read_failed(scan, err, n, "the directory", 0);
    }
    for (int i = 0; code == DAYBOOK_OK && i < n && scan->has_identity; i++) {
        struct dbk_checkpoint_file file;
        struct daybook_error detail = {.code = DAYBOOK_OK};
        if (end_lsn != 0 && lsns[i] > end_lsn) {
            continue;
        }
        enum daybook_code read =
            dbk_checkpoint_read(os, path, lsns[i], scan->identity.uuid, &file, &detail);
        if (read == DAYBOOK_OK) {
            scan->proof_lsn = lsns[i];
            dbk_checkpoint_file_free(&file);
            break;
        }
        if (read != DAYBOOK_DAMAGED && read != DAYBOOK_NOT_FOUND) {
            code = read;
            if (err != NULL) {
                *err = detail;
            }
        }
    }
    return code;
}

void dbk_scan_release(struct dbk_scan *scan)
{
    free(scan->segments);
    free(scan->buffer);
    scan->segments = NULL;
    scan->buffer = NULL;
}

/* ---- a window over one segment ----------------------------------------------------------------- */

struct window {
    const struct dbk_scan *scan;
    const struct dbk_scan_segment *segment;
    int file;
    uint64_t start;
    size_t len;
};

static enum daybook_code window_open(struct window *window, const struct dbk_scan *scan,
                                     const struct dbk_scan_segment *segment,
                                     struct daybook_error *err)
{
    char path[PATH_BYTES];
    segment_name(scan, segment->segment_no, path);
    *window = (struct window){.scan = scan, .segment = segment};
    window->file = scan->os->open(scan->os, path, DBK_OPEN_READ);
    return window->file < 0 ? read_failed(scan, err, window->file, path + strlen(scan->path) + 1, 0)
                            : DAYBOOK_OK;
}

static void window_close(struct window *window)
{
    if (window->file >= 0) {
        (void)window->scan->os->close(window->scan->os, window->file);
    }
}

/* *ret: the bytes at `offset`; *ret_len: at least `want`, or all up to the end of the file. */
static enum daybook_code window_at(struct window *window, uint64_t offset, size_t want,
                                   const uint8_t **ret, size_t *ret_len, struct daybook_error *err)
{
    char path[PATH_BYTES];
    if (offset < window->start || offset + want > window->start + window->len) {
        int64_t n =
            dbk_read_at(window->scan->os, window->file, window->scan->buffer, BUFFER_BYTES, offset);
        if (n < 0) {
            segment_name(window->scan, window->segment->segment_no, path);
            return read_failed(window->scan, err, n, path + strlen(window->scan->path) + 1, offset);
        }
        window->start = offset;
        window->len = (size_t)n;
    }
    *ret = window->scan->buffer + (offset - window->start);
    *ret_len = window->len - (size_t)(offset - window->start);
    return DAYBOOK_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* What is expected of the next group. */
struct chain {
    bool started;
    uint64_t group_no;
    uint32_t hcrc;
    uint32_t epoch;
    uint64_t durable_lsn;
    bool clean; /* the last group was a CLEAN */
};

enum place_kind { PLACE_GROUP, PLACE_ZEROS, PLACE_TORN, PLACE_ODD };

static bool has_zero_sector(const uint8_t *group, size_t used)
{
    for (size_t at = DBK_SECTOR_BYTES; at < used; at += DBK_SECTOR_BYTES) {
        size_t n = used - at < DBK_SECTOR_BYTES ? used - at : DBK_SECTOR_BYTES;
        if (dbk_all_zero(group + at, n)) {
            return true;
        }
    }
    return false;
}

/* What stands at `offset`: a group of the log, or what a tail may look like. */
static enum daybook_code look(struct window *window, const struct chain *chain, uint64_t offset,
                              enum place_kind *ret_kind, struct dbk_group_header *ret_header,
                              const uint8_t **ret_group, enum dbk_body_check *ret_check,
                              struct daybook_error *err)
{
    const struct dbk_scan_segment *segment = window->segment;
    const uint8_t *p = NULL;
    size_t have = 0;
    enum daybook_code code = window_at(window, offset, DBK_BLOCK_BYTES, &p, &have, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (have < DBK_SECTOR_BYTES) {
        *ret_kind = dbk_all_zero(p, have) ? PLACE_ZEROS : PLACE_ODD;
        return DAYBOOK_OK;
    }
    if (dbk_all_zero(p, DBK_SECTOR_BYTES)) {
        size_t block = have < DBK_BLOCK_BYTES ? have : DBK_BLOCK_BYTES;
        *ret_kind = dbk_all_zero(p, block) ? PLACE_ZEROS : PLACE_TORN;
        return DAYBOOK_OK;
    }
    *ret_kind = PLACE_ODD;
    if (!dbk_group_header_decode(p, segment->salt, dbk_lsn(segment->segment_no, offset),
                                 ret_header)) {
        return DAYBOOK_OK;
    }
    size_t used = DBK_GROUP_HEADER_BYTES + (size_t)ret_header->body_len;
    size_t padded = dbk_round_up(used, DBK_BLOCK_BYTES);
    code = window_at(window, offset, padded, &p, &have, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (have < padded) {
        return DAYBOOK_OK; /* it reaches behind the end of its file */
    }
    *ret_check = dbk_group_check(p, padded, segment->salt, ret_header);
    if (*ret_check == DBK_BODY_BAD) {
        *ret_kind = has_zero_sector(p, used) ? PLACE_TORN : PLACE_ODD;
        return DAYBOOK_OK;
    }
    bool follows = !chain->started ||
                   (ret_header->group_no == chain->group_no + 1 &&
                    ret_header->prev_hcrc == chain->hcrc && ret_header->epoch >= chain->epoch);
    if (dbk_fault(DBK_FAULT_CRC_WITHOUT_PLACE)) {
        follows = true;
    }
    if (follows) {
        *ret_kind = PLACE_GROUP;
        *ret_group = p;
    }
    return DAYBOOK_OK;
}

static enum daybook_code corrupt(const struct dbk_scan *scan, uint32_t segment_no, uint64_t offset,
                                 uint64_t proof_lsn, struct daybook_error *err)
{
    enum daybook_code code = dbk_fail(
        err, DAYBOOK_DAMAGED,
        "%s: seg-%016" PRIx64 ".dbl is damaged at offset %" PRIu64
        ", below what was durable (segment %u offset %u); nothing was changed: restore a backup, "
        "or keep the directory for a repair",
        scan->path, (uint64_t)segment_no, offset, dbk_lsn_segment(proof_lsn),
        dbk_lsn_offset(proof_lsn));
    if (err != NULL) {
        err->offset = offset;
    }
    return code;
}

/* Looks through what stands behind the end of the log, from `offset` of a segment on: is it all zero, and
 * do valid groups in it prove that more had been durable? */
static enum daybook_code look_behind(struct dbk_scan *scan, struct dbk_scan_segment *segment,
                                     uint64_t offset, uint64_t *proof_lsn, uint64_t *lost_groups,
                                     struct daybook_error *err)
{
    struct window window;
    enum daybook_code code = window_open(&window, scan, segment, err);
    segment->used_end = (uint32_t)offset;
    while (code == DAYBOOK_OK && offset < segment->size_bytes) {
        const uint8_t *p = NULL;
        size_t have = 0;
        struct dbk_group_header header;
        code = window_at(&window, offset, DBK_BLOCK_BYTES, &p, &have, err);
        if (code != DAYBOOK_OK || have == 0) {
            break;
        }
        size_t n = have < DBK_BLOCK_BYTES ? have : DBK_BLOCK_BYTES;
        if (!dbk_all_zero(p, n)) {
            segment->used_end = (uint32_t)(offset + n);
            if (n >= DBK_GROUP_HEADER_BYTES &&
                dbk_group_header_decode(p, segment->salt, dbk_lsn(segment->segment_no, offset),
                                        &header)) {
                ++*lost_groups;
                if (header.durable_lsn > *proof_lsn) {
                    *proof_lsn = header.durable_lsn;
                }
            }
        }
        offset += n;
    }
    window_close(&window);
    return code;
}

/* A group of which only records fail their checksum: rot, if something proves that it had been durable;
 * else the tail of a write that was cut. Reads on through the directory, so the window is stale after. */
static enum daybook_code judge_damaged_records(struct dbk_scan *scan,
                                               struct dbk_scan_segment *segment,
                                               const struct dbk_group_header *header,
                                               bool has_zero_sector, enum place_kind *ret_kind,
                                               struct daybook_error *err)
{
    uint64_t proof = scan->proof_lsn;
    uint64_t groups = 0;
    uint64_t end = dbk_lsn_offset(header->lsn) +
                   dbk_round_up(DBK_GROUP_HEADER_BYTES + (size_t)header->body_len, DBK_BLOCK_BYTES);
    enum daybook_code code = look_behind(scan, segment, end, &proof, &groups, err);
    struct dbk_scan_segment *past = scan->segments + scan->count;
    for (struct dbk_scan_segment *s = segment + 1; s < past && code == DAYBOOK_OK; s++) {
        code = look_behind(scan, s, DBK_BLOCK_BYTES, &proof, &groups, err);
    }
    if (proof > header->lsn) {
        *ret_kind = PLACE_GROUP;
    } else {
        *ret_kind = has_zero_sector ? PLACE_TORN : PLACE_ODD;
    }
    return code;
}

/* Walks one segment of the chain up to its end as the LINK of `next` says (NULL: there is none) or to
 * where it ends. *ret_end: where it stopped; *ret_kind: why (GROUP: at the limit). */
static enum daybook_code walk_segment(struct dbk_scan *scan, struct dbk_scan_segment *segment,
                                      const struct dbk_scan_segment *next, struct chain *chain,
                                      dbk_scan_group *visit, void *user, struct dbk_scan_end *end,
                                      enum place_kind *ret_kind, struct daybook_error *err)
{
    struct window window;
    uint32_t limit = next != NULL ? next->link.end : segment->size_bytes;
    if (scan->end_lsn != 0 && segment->segment_no == dbk_lsn_segment(scan->end_lsn)) {
        limit = dbk_lsn_offset(scan->end_lsn);
    }
    enum daybook_code code = window_open(&window, scan, segment, err);
    uint64_t offset = DBK_BLOCK_BYTES;
    bool rot_is_proven = next != NULL; /* everything below a LINK's end had been synced */
    end->events = 0;
    end->frames = 0;
    *ret_kind = PLACE_GROUP;
    while (code == DAYBOOK_OK && offset < limit) {
        struct dbk_group_header header;
        const uint8_t *group = NULL;
        enum dbk_body_check check = DBK_BODY_BAD;
        code = look(&window, chain, offset, ret_kind, &header, &group, &check, err);
        if (code != DAYBOOK_OK || *ret_kind != PLACE_GROUP) {
            break;
        }
        if (check == DBK_BODY_RECORD_DAMAGED && !rot_is_proven) {
            bool zero = has_zero_sector(group, DBK_GROUP_HEADER_BYTES + (size_t)header.body_len);
            code = judge_damaged_records(scan, segment, &header, zero, ret_kind, err);
            window.len = 0;
            if (code != DAYBOOK_OK || *ret_kind != PLACE_GROUP) {
                break;
            }
            rot_is_proven = true; /* of this one: the next is asked anew */
            continue;
        }
        rot_is_proven = next != NULL;
        chain->started = true;
        chain->group_no = header.group_no;
        chain->hcrc = header.hcrc;
        chain->epoch = header.epoch;
        chain->clean = (header.flags & DBK_GROUP_CLEAN) != 0;
        if (header.durable_lsn > chain->durable_lsn) {
            chain->durable_lsn = header.durable_lsn;
        }
        end->frames += header.frame_count;
        size_t at = DBK_GROUP_HEADER_BYTES;
        struct dbk_frame frame;
        while (dbk_frame_next(group, &header, &at, &frame)) {
            end->events += frame.type == DBK_FRAME_EVENT ? frame.count : 0;
        }
        code = visit(user, segment, &header, group, check, err);
        offset += dbk_round_up(DBK_GROUP_HEADER_BYTES + (size_t)header.body_len, DBK_BLOCK_BYTES);
    }
    end->segment_no = segment->segment_no;
    end->offset = (uint32_t)offset;
    if (code == DAYBOOK_OK && *ret_kind == PLACE_GROUP && offset >= segment->size_bytes) {
        *ret_kind = PLACE_ZEROS; /* full, or cut to its end */
    }
    window_close(&window);
    return code;
}

/* The segment whose LINK names this one as its predecessor; NULL: none. */
static struct dbk_scan_segment *successor(const struct dbk_scan *scan, uint32_t index)
{
    for (uint32_t i = index + 1; i < scan->count; i++) {
        if (scan->segments[i].linked &&
            scan->segments[i].link.predecessor == scan->segments[index].segment_no) {
            return &scan->segments[i];
        }
    }
    return NULL;
}

/* Judges what follows the last group of the log (rule of the tail). `last` is the index of the last
 * segment of the chain, scan->count where there is no chain. */
static enum daybook_code judge(struct dbk_scan *scan, uint32_t last, enum place_kind kind,
                               const struct chain *chain, struct dbk_scan_end *end,
                               struct daybook_error *err)
{
    uint64_t end_lsn = dbk_lsn(end->segment_no, end->offset);
    uint64_t proof = scan->proof_lsn > chain->durable_lsn ? scan->proof_lsn : chain->durable_lsn;
    uint32_t first_behind = last < scan->count ? last + 1 : 0;
    enum daybook_code code = DAYBOOK_OK;
    end->bad_segment_no = end->segment_no;
    end->bad_offset = end->offset;
    if (last < scan->count) {
        code =
            look_behind(scan, &scan->segments[last], end->offset, &proof, &end->lost_groups, err);
    }
    bool zeros = last >= scan->count || scan->segments[last].used_end <= end->offset;
    for (uint32_t i = first_behind; i < scan->count && code == DAYBOOK_OK; i++) {
        struct dbk_scan_segment *segment = &scan->segments[i];
        code = look_behind(scan, segment, DBK_BLOCK_BYTES, &proof, &end->lost_groups, err);
        segment->blank = segment->used_end <= DBK_BLOCK_BYTES;
        if (segment->linked) {
            /* A successor is only used after its predecessor was synced. */
            uint64_t lsn = dbk_lsn(segment->link.predecessor, segment->link.end);
            proof = lsn > proof ? lsn : proof;
        }
        if (code == DAYBOOK_OK && zeros && !segment->blank) {
            /* The log goes on nowhere else: these are the bytes to judge. */
            struct window window;
            struct dbk_group_header header;
            const uint8_t *group;
            enum dbk_body_check check;
            zeros = false;
            end->bad_segment_no = segment->segment_no;
            end->bad_offset = DBK_BLOCK_BYTES;
            code = window_open(&window, scan, segment, err);
            if (code == DAYBOOK_OK) {
                code = look(&window, chain, DBK_BLOCK_BYTES, &kind, &header, &group, &check, err);
                window_close(&window);
            }
            if (kind == PLACE_GROUP || kind == PLACE_ZEROS) {
                kind = kind == PLACE_ZEROS ? PLACE_TORN : PLACE_ODD;
            }
        }
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    if (proof > end_lsn && !dbk_fault(DBK_FAULT_TRUNCATE_DAMAGE)) {
        return corrupt(scan, end->bad_segment_no, end->bad_offset, proof, err);
    }
    end->durable_lsn = proof;
    if (zeros) {
        end->kind = chain->clean ? DBK_END_CLEAN : DBK_END_ZEROS;
    } else if (kind == PLACE_ODD) {
        end->kind = DBK_END_SUSPECT;
    } else {
        end->kind = DBK_END_TORN;
    }
    if (!chain->started && zeros) {
        end->kind = DBK_END_EMPTY;
    }
    return DAYBOOK_OK;
}

/* From the root of the log to the segment that the walk begins in: that they follow each other is seen from
 * their LINKs, their groups are not read. *ret_index: scan->count where there is no such chain. */
static enum daybook_code skip_to_start(struct dbk_scan *scan, uint32_t *ret_index,
                                       struct chain *chain, struct daybook_error *err)
{
    uint32_t index = *ret_index;
    while (index < scan->count && scan->segments[index].segment_no < scan->start_segment_no) {
        struct dbk_scan_segment *segment = &scan->segments[index];
        const struct dbk_scan_segment *next = successor(scan, index);
        if (next == NULL) {
            return corrupt(scan, segment->segment_no, segment->size_bytes,
                           dbk_lsn(scan->start_segment_no, DBK_BLOCK_BYTES), err);
        }
        segment->cut = segment->size_bytes < next->link.end;
        chain->started = true;
        chain->group_no = next->link.last_group_no;
        chain->hcrc = next->link.last_hcrc;
        index = (uint32_t)(next - scan->segments);
    }
    *ret_index = index;
    return DAYBOOK_OK;
}

enum daybook_code dbk_scan_run(struct dbk_scan *scan, dbk_scan_group *visit, void *user,
                               struct dbk_scan_end *ret_end, struct daybook_error *err)
{
    struct chain chain = {0};
    enum place_kind kind = PLACE_ZEROS;
    uint32_t index = 0;
    enum daybook_code code = DAYBOOK_OK;
    memset(ret_end, 0, sizeof(*ret_end));
    while (index < scan->count && !scan->segments[index].linked) {
        index++;
    }
    if (scan->start_segment_no != 0) {
        code = skip_to_start(scan, &index, &chain, err);
    }
    while (code == DAYBOOK_OK && index < scan->count) {
        struct dbk_scan_segment *segment = &scan->segments[index];
        const struct dbk_scan_segment *next =
            scan->end_lsn != 0 && segment->segment_no >= dbk_lsn_segment(scan->end_lsn)
                ? NULL
                : successor(scan, index);
        code = walk_segment(scan, segment, next, &chain, visit, user, ret_end, &kind, err);
        if (code != DAYBOOK_OK) {
            return code;
        }
        if (next == NULL) {
            break;
        }
        bool whole = ret_end->offset == next->link.end &&
                     chain.group_no == next->link.last_group_no &&
                     chain.hcrc == next->link.last_hcrc;
        if (!whole && !dbk_fault(DBK_FAULT_TRUNCATE_DAMAGE) &&
            !dbk_fault(DBK_FAULT_CRC_WITHOUT_PLACE)) {
            return corrupt(scan, segment->segment_no, ret_end->offset,
                           dbk_lsn(segment->segment_no, next->link.end), err);
        }
        index = (uint32_t)(next - scan->segments);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    ret_end->group_no = chain.group_no;
    ret_end->hcrc = chain.hcrc;
    ret_end->epoch = chain.epoch;
    if (scan->end_lsn != 0 && ret_end->offset == dbk_lsn_offset(scan->end_lsn)) {
        ret_end->kind = chain.clean ? DBK_END_CLEAN : DBK_END_ZEROS;
        ret_end->durable_lsn = chain.durable_lsn;
        return DAYBOOK_OK;
    }
    return judge(scan, index, kind, &chain, ret_end, err);
}

/* ---- one segment by itself ---------------------------------------------------------------------- */

enum daybook_code dbk_scan_one(const struct dbk_os *os, const char *path, uint32_t segment_no,
                               uint32_t end, dbk_scan_group *visit, void *user,
                               struct daybook_error *err)
{
    struct dbk_scan scan = {.os = os, .path = path, .buffer = malloc(BUFFER_BYTES)};
    struct dbk_scan_segment segment = {.segment_no = segment_no};
    struct dbk_scan_segment behind = {.link = {.end = end}};
    struct chain chain = {.started = false};
    struct dbk_scan_end reached;
    enum place_kind kind = PLACE_GROUP;
    enum daybook_code code = scan.buffer == NULL
                                 ? dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to read a segment")
                                 : peek(&scan, &segment, err);
    if (code == DAYBOOK_OK) {
        code = walk_segment(&scan, &segment, &behind, &chain, visit, user, &reached, &kind, err);
    }
    if (code == DAYBOOK_OK && reached.offset != end) {
        code = corrupt(&scan, segment_no, reached.offset, dbk_lsn(segment_no, end), err);
    }
    free(scan.buffer);
    return code;
}

int dbk_scan_salt(const struct dbk_os *os, const char *path, uint32_t segment_no, uint64_t *ret)
{
    struct dbk_scan scan = {.os = os, .path = path};
    struct dbk_segment_header header;
    uint8_t block[DBK_BLOCK_BYTES];
    char name[PATH_BYTES];
    segment_name(&scan, segment_no, name);
    int file = os->open(os, name, DBK_OPEN_READ);
    int64_t n = file < 0 ? file : dbk_read_at(os, file, block, sizeof(block), 0);
    if (file >= 0) {
        (void)os->close(os, file);
    }
    if (n < 0) {
        return (int)n;
    }
    if (n != DBK_BLOCK_BYTES || dbk_segment_header_decode(block, &header) == DBK_DECODED_BAD) {
        return -EIO;
    }
    *ret = header.salt;
    return 0;
}

/* ---- a journal that is being written ----------------------------------------------------------- */

enum daybook_code dbk_scan_no_visit(void *user, const struct dbk_scan_segment *segment,
                                    const struct dbk_group_header *header, const uint8_t *group,
                                    enum dbk_body_check check, struct daybook_error *err)
{
    (void)user;
    (void)segment;
    (void)header;
    (void)group;
    (void)check;
    (void)err;
    return DAYBOOK_OK;
}

bool dbk_scan_is_short(const struct dbk_scan *scan, const struct dbk_scan_end *end)
{
    for (uint32_t i = 0; i < scan->count && end->kind != DBK_END_CLEAN; i++) {
        if (scan->segments[i].segment_no == end->segment_no) {
            return scan->segments[i].size_bytes < scan->segments[i].segment_bytes;
        }
    }
    return false;
}

uint32_t dbk_scan_used(const struct dbk_scan *scan, uint32_t index)
{
    const struct dbk_scan_segment *segment = &scan->segments[index];
    const struct dbk_scan_segment *next = successor(scan, index);
    if (next != NULL) {
        return next->link.end;
    }
    /* Skipped by a LINK: its header alone, so that no number is missing. */
    return segment->size_bytes < DBK_BLOCK_BYTES ? segment->size_bytes : DBK_BLOCK_BYTES;
}

/* Whether the walk ended in a segment that has a successor. */
static bool in_sealed(const struct dbk_scan *scan, const struct dbk_scan_end *end)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->segments[i].segment_no == end->segment_no) {
            return successor(scan, i) != NULL;
        }
    }
    return false;
}

enum daybook_code dbk_scan_reach(struct dbk_scan *scan, const struct dbk_os *os, const char *path,
                                 struct dbk_scan_end *ret_end, bool *ret_live,
                                 struct daybook_error *err)
{
    struct dbk_scan_end before = {.segment_no = 0};
    struct daybook_error detail;
    enum daybook_code code = DAYBOOK_OK;
    *ret_live = false;
    for (unsigned look_no = 0; look_no < LOOKS_MAX; look_no++) {
        detail = (struct daybook_error){.code = DAYBOOK_OK};
        *ret_end = (struct dbk_scan_end){.segment_no = 0};
        code = dbk_scan_open_proven(scan, os, path, 0, &detail);
        if (code == DAYBOOK_OK) {
            code = dbk_scan_run(scan, dbk_scan_no_visit, NULL, ret_end, &detail);
        }
        bool odd = code == DAYBOOK_OK && ret_end->kind == DBK_END_SUSPECT;
        bool trimmed = code == DAYBOOK_BACKEND && detail.os_errno == ENOENT;
        if (code == DAYBOOK_OK && !odd) {
            return DAYBOOK_OK;
        }
        if (code != DAYBOOK_DAMAGED && !odd && !trimmed) {
            break;
        }
        uint64_t end_lsn = dbk_lsn(ret_end->segment_no, ret_end->offset);
        uint64_t before_lsn = dbk_lsn(before.segment_no, before.offset);
        if (before.segment_no != 0 && end_lsn > before_lsn) {
            /* It has moved: the log is whole up to where it was not a moment ago. */
            *ret_live = true;
            *ret_end = before;
            scan->end_lsn = before_lsn;
            return DAYBOOK_OK;
        }
        before = *ret_end;
        if (in_sealed(scan, ret_end)) {
            break; /* nobody writes there any more */
        }
        if (odd) {
            code = dbk_fail(&detail, DAYBOOK_DAMAGED,
                            "%s: the end of the log (segment %u offset %u) is not what a crash "
                            "leaves: see daybook verify",
                            path, ret_end->bad_segment_no, ret_end->bad_offset);
        }
        if (look_no + 1 < LOOKS_MAX) {
            dbk_scan_release(scan);
            os->sleep_us(os, LOOK_AGAIN_US);
        }
    }
    if (err != NULL) {
        *err = detail;
    }
    return code;
}
