/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of a damaged directory (salvage.h).
 *
 * A group header and a frame header each carry a checksum that is bound to their place, so each can be
 * believed alone: where a group fails, its frames are looked for at every eighth byte up to the next
 * group header that holds. A segment is held in memory whole while it is walked (at most 1 GiB).
 */
#include "engines/log/salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engines/log/scan.h"

enum { PATH_BYTES = 4096, READ_BYTES = 1 << 20 };

/* ---- files ------------------------------------------------------------------------------------- */

static int add_segment(void *user, const char *name)
{
    struct dbk_salvage *salvage = user;
    uint32_t number;
    if (!dbk_segment_number(name, &number)) {
        return 0;
    }
    if (salvage->count == salvage->room) {
        uint32_t room = salvage->room == 0 ? 64 : salvage->room * 2;
        struct dbk_salvage_segment *grown = realloc(salvage->segments, room * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        salvage->segments = grown;
        salvage->room = room;
    }
    salvage->segments[salvage->count++] = (struct dbk_salvage_segment){
        .segment_no = number, .first_group_no = UINT64_MAX, .end_group_no = UINT64_MAX};
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct dbk_salvage_segment *)a)->segment_no;
    uint32_t y = ((const struct dbk_salvage_segment *)b)->segment_no;
    return (x > y) - (x < y);
}

/* Reads up to `len` bytes at `offset`, fewer at the end of the file; -errno. */
static int64_t read_piece(const struct dbk_os *os, int file, uint8_t *out, size_t len,
                          uint64_t offset)
{
    size_t got = 0;
    while (got < len) {
        int64_t n = os->pread(os, file, out + got, len - got, offset + got);
        if (n < 0 && n != -EINTR) {
            return n;
        }
        if (n == 0) {
            break;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    return (int64_t)got;
}

/* A piece that fails is read block by block; a block that fails is zeros, and told to `visit`. */
static enum daybook_code read_around(struct dbk_salvage *salvage,
                                     const struct dbk_salvage_segment *segment, int file,
                                     uint64_t offset, size_t len, dbk_salvage_visit *visit,
                                     void *user, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    dbk_assert(salvage->bytes != NULL);
    for (size_t at = 0; at < len && code == DAYBOOK_OK; at += DBK_BLOCK_BYTES) {
        size_t n = len - at < DBK_BLOCK_BYTES ? len - at : DBK_BLOCK_BYTES;
        if (read_piece(salvage->os, file, salvage->bytes + offset + at, n, offset + at) >= 0) {
            continue;
        }
        memset(salvage->bytes + offset + at, 0, n);
        if (visit != NULL) {
            struct dbk_salvage_item item = {.kind = DBK_SALVAGE_DAMAGE,
                                            .segment = segment,
                                            .offset = offset + at,
                                            .end = offset + at + n,
                                            .what = "cannot be read"};
            code = visit(user, &item, err);
        }
    }
    return code;
}

/* The whole file into `bytes`. What cannot be read is zeros there. */
static enum daybook_code load(struct dbk_salvage *salvage, struct dbk_salvage_segment *segment,
                              dbk_salvage_visit *visit, void *user, struct daybook_error *err)
{
    char path[PATH_BYTES];
    struct dbk_stat st;
    snprintf(path, sizeof(path), "%s/seg-%016" PRIx64 ".dbl", salvage->path,
             (uint64_t)segment->segment_no);
    int file = salvage->os->open(salvage->os, path, DBK_OPEN_READ);
    int rc = file < 0 ? file : salvage->os->stat(salvage->os, path, &st);
    if (rc < 0) {
        if (file >= 0) {
            (void)salvage->os->close(salvage->os, file);
        }
        return dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s cannot be opened", path);
    }
    uint64_t size = st.size_bytes < DBK_SEGMENT_BYTES_MAX ? st.size_bytes : DBK_SEGMENT_BYTES_MAX;
    enum daybook_code code = DAYBOOK_OK;
    if (salvage->bytes == NULL || size > salvage->bytes_room) {
        free(salvage->bytes);
        salvage->bytes = malloc((size_t)size + 1); /* a file may be empty */
        salvage->bytes_room = salvage->bytes == NULL ? 0 : (size_t)size;
        code = salvage->bytes == NULL
                   ? dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to hold a segment")
                   : DAYBOOK_OK;
    }
    for (uint64_t at = 0; at < size && code == DAYBOOK_OK; at += READ_BYTES) {
        size_t n = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES;
        if (read_piece(salvage->os, file, salvage->bytes + at, n, at) < 0) {
            code = read_around(salvage, segment, file, at, n, visit, user, err);
        }
    }
    (void)salvage->os->close(salvage->os, file);
    segment->size_bytes = (uint32_t)size;
    return code;
}

static enum daybook_code read_identity(struct dbk_salvage *salvage, struct daybook_error *err)
{
    char path[PATH_BYTES];
    uint8_t bytes[DBK_FORMAT_FILE_BYTES];
    snprintf(path, sizeof(path), "%s/FORMAT", salvage->path);
    int file = salvage->os->open(salvage->os, path, DBK_OPEN_READ);
    if (file < 0) {
        return DAYBOOK_OK;
    }
    int64_t n = read_piece(salvage->os, file, bytes, sizeof(bytes), 0);
    (void)salvage->os->close(salvage->os, file);
    enum dbk_decoded decoded = n == DBK_FORMAT_FILE_BYTES
                                   ? dbk_identity_decode(bytes, &salvage->identity)
                                   : DBK_DECODED_BAD;
    salvage->has_identity = decoded == DBK_DECODED_OK || decoded == DBK_DECODED_READ_ONLY;
    return decoded == DBK_DECODED_NEWER
               ? dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                          "%s: written by a newer version of daybook; use that version",
                          salvage->path)
               : DAYBOOK_OK;
}

/* ---- a segment whose header is damaged ------------------------------------------------------------ */

/* The register of CRC32C before these bytes went through it. */
static uint32_t crc_back(uint32_t s, const uint8_t *data, size_t len)
{
    const uint32_t polynomial = UINT32_C(0x82F63B78);
    while (len-- > 0) {
        for (unsigned bit = 0; bit < 8; bit++) {
            s = (s & UINT32_C(0x80000000)) != 0 ? (s ^ polynomial) << 1 | 1 : s << 1;
        }
        s ^= data[len];
    }
    return s;
}

uint64_t dbk_salvage_salt(const uint8_t header[DBK_GROUP_HEADER_BYTES], uint64_t lsn)
{
    static const uint8_t zeros[4];
    uint8_t place[8];
    dbk_put_u64(place, lsn);
    uint32_t s = crc_back(~dbk_get_u32(header), header + 4, DBK_GROUP_HEADER_BYTES - 4);
    s = crc_back(s, place, sizeof(place));
    /* Of the eight bytes that lead to this register four are free: those are zeros. The register meets
     * the other four by exclusive or, so going back over zeros instead says which they are. */
    s = crc_back(s, zeros, sizeof(zeros));
    uint32_t first = crc_back(UINT32_MAX, NULL, 0);
    for (unsigned i = 0; i < 32; i++) {
        first = (first & 1) != 0 ? first >> 1 ^ UINT32_C(0x82F63B78) : first >> 1;
    }
    return (uint64_t)(s ^ first) << 32;
}

/* The first group header that holds under the segment's salt, at or behind `from`; its offset or 0. */
static uint64_t next_group(const struct dbk_salvage *salvage,
                           const struct dbk_salvage_segment *segment, uint64_t from,
                           struct dbk_group_header *ret)
{
    for (uint64_t at = from; at + DBK_BLOCK_BYTES <= segment->size_bytes; at += DBK_BLOCK_BYTES) {
        if (dbk_group_header_decode(salvage->bytes + at, segment->salt,
                                    dbk_lsn(segment->segment_no, at), ret)) {
            return at;
        }
    }
    return 0;
}

static enum dbk_body_check body_of(const struct dbk_salvage *salvage,
                                   const struct dbk_salvage_segment *segment, uint64_t at,
                                   const struct dbk_group_header *header, uint64_t *ret_end)
{
    uint64_t padded =
        dbk_round_up(DBK_GROUP_HEADER_BYTES + (size_t)header->body_len, DBK_BLOCK_BYTES);
    *ret_end = at + padded;
    return at + padded <= segment->size_bytes
               ? dbk_group_check(salvage->bytes + at, (size_t)padded, segment->salt, header)
               : DBK_BODY_BAD;
}

/* The salt of a segment whose header does not hold: the field itself where a group agrees with it, else
 * what the headers of its groups say, where frames agree. */
static bool find_salt(const struct dbk_salvage *salvage, struct dbk_salvage_segment *segment)
{
    struct dbk_group_header header;
    if (segment->size_bytes < DBK_BLOCK_BYTES) {
        return false;
    }
    segment->salt = dbk_get_u64(salvage->bytes + 56);
    if (next_group(salvage, segment, DBK_BLOCK_BYTES, &header) != 0) {
        return true;
    }
    for (uint64_t at = DBK_BLOCK_BYTES; at + DBK_BLOCK_BYTES <= segment->size_bytes;
         at += DBK_BLOCK_BYTES) {
        uint64_t lsn = dbk_lsn(segment->segment_no, at);
        uint64_t end;
        segment->salt = dbk_salvage_salt(salvage->bytes + at, lsn);
        if (dbk_group_header_decode(salvage->bytes + at, segment->salt, lsn, &header) &&
            header.frame_count > 0 &&
            body_of(salvage, segment, at, &header, &end) != DBK_BODY_BAD) {
            return true;
        }
    }
    return false;
}

static void take_link(const struct dbk_salvage *salvage, struct dbk_salvage_segment *segment)
{
    struct dbk_frame frame;
    uint64_t at = DBK_BLOCK_BYTES + DBK_GROUP_HEADER_BYTES;
    /* The frame by itself: it counts even where something else of its group is damaged. */
    if (segment->size_bytes >= 2 * DBK_BLOCK_BYTES &&
        dbk_frame_check(salvage->bytes + at, DBK_LINK_FRAME_BYTES, segment->salt,
                        dbk_lsn(segment->segment_no, at), &frame) == DBK_FRAME_OK &&
        frame.type == DBK_FRAME_LINK) {
        segment->linked = dbk_link_frame_decode(&frame, &segment->link);
    }
}

static enum daybook_code peek(struct dbk_salvage *salvage, struct dbk_salvage_segment *segment,
                              struct daybook_error *err)
{
    struct dbk_segment_header header = {.segment_no = 0};
    struct dbk_group_header group;
    enum daybook_code code = load(salvage, segment, NULL, NULL, err);
    if (code != DAYBOOK_OK) {
        return code;
    }
    enum dbk_decoded decoded = segment->size_bytes >= DBK_BLOCK_BYTES
                                   ? dbk_segment_header_decode(salvage->bytes, &header)
                                   : DBK_DECODED_BAD;
    if (decoded == DBK_DECODED_NEWER) {
        return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                        "%s: seg-%016" PRIx64
                        ".dbl was written by a newer version of daybook; use that version",
                        salvage->path, (uint64_t)segment->segment_no);
    }
    segment->header_good = decoded != DBK_DECODED_BAD && header.segment_no == segment->segment_no &&
                           header.segment_bytes <= DBK_SEGMENT_BYTES_MAX;
    segment->segment_bytes = segment->size_bytes;
    segment->salted = segment->header_good || find_salt(salvage, segment);
    if (segment->header_good) {
        segment->segment_bytes = (uint32_t)header.segment_bytes;
        segment->salt = header.salt;
        if (!salvage->has_identity && dbk_all_zero(salvage->identity.uuid, 16)) {
            memcpy(salvage->identity.uuid, header.uuid, 16);
        }
        segment->foreign = memcmp(header.uuid, salvage->identity.uuid, 16) != 0;
    }
    segment->end = segment->size_bytes;
    if (segment->salted && !segment->foreign) {
        if (next_group(salvage, segment, DBK_BLOCK_BYTES, &group) != 0) {
            segment->first_group_no = group.group_no;
        }
        take_link(salvage, segment);
    }
    return DAYBOOK_OK;
}

/* What of each segment belongs to the log: up to where its successor says it ended; where that is lost,
 * up to the group that the next readable segment begins with. */
static void find_ends(struct dbk_salvage *salvage)
{
    uint64_t next_group_no = UINT64_MAX;
    const struct dbk_salvage_segment *next = NULL; /* the nearest later one with a LINK */
    for (uint32_t i = salvage->count; i-- > 0;) {
        struct dbk_salvage_segment *segment = &salvage->segments[i];
        segment->end_group_no = next_group_no;
        if (next != NULL && segment->segment_no == next->link.predecessor &&
            next->link.end <= segment->size_bytes) {
            segment->end = next->link.end;
        } else if (next != NULL && segment->segment_no > next->link.predecessor) {
            segment->end = DBK_BLOCK_BYTES; /* skipped: it holds nothing of the log */
            continue;
        }
        if (segment->first_group_no < next_group_no) {
            next_group_no = segment->first_group_no;
        }
        next = segment->linked ? segment : next;
    }
}

enum daybook_code dbk_salvage_open(struct dbk_salvage *salvage, const struct dbk_os *os,
                                   const char *path, struct daybook_error *err)
{
    memset(salvage, 0, sizeof(*salvage));
    salvage->os = os;
    salvage->path = path;
    int rc = os->list(os, path, add_segment, salvage);
    if (rc == -ENOENT) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: no such directory", path);
    }
    if (rc < 0) {
        return rc == -ENOMEM ? dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to list a log")
                             : dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "%s: cannot be listed", path);
    }
    enum daybook_code code = read_identity(salvage, err);
    if (code == DAYBOOK_OK && salvage->count == 0) {
        code = dbk_fail(err, DAYBOOK_NOT_FOUND, "%s: holds no segment of a journal", path);
    }
    if (salvage->count > 0) {
        qsort(salvage->segments, salvage->count, sizeof(salvage->segments[0]), by_number);
    }
    for (uint32_t i = 0; i < salvage->count && code == DAYBOOK_OK; i++) {
        code = peek(salvage, &salvage->segments[i], err);
    }
    find_ends(salvage);
    return code;
}

void dbk_salvage_release(struct dbk_salvage *salvage)
{
    free(salvage->segments);
    free(salvage->bytes);
    salvage->segments = NULL;
    salvage->bytes = NULL;
}

/* ---- the walk ------------------------------------------------------------------------------------ */

struct walk {
    struct dbk_salvage *salvage;
    struct dbk_salvage_segment *segment;
    dbk_salvage_visit *visit;
    void *user;
    struct daybook_error *err;
    uint64_t group_no; /* of the last group, 0: none yet */
    bool explained;    /* damage was told since */
};

static enum daybook_code damage(struct walk *walk, uint64_t from, uint64_t to,
                                const struct dbk_frame *frame, const char *what)
{
    struct dbk_salvage_item item = {.kind = DBK_SALVAGE_DAMAGE,
                                    .segment = walk->segment,
                                    .offset = from,
                                    .end = to,
                                    .what = what};
    if (frame != NULL) {
        item.frame = *frame;
    }
    walk->explained = true;
    return walk->visit(walk->user, &item, walk->err);
}

/* Bytes between frames that hold. An end mark and zeros are what stands there; but up to `written` a group's
 * header says that there were frames (0: none says so), and zeros are damage like anything else. */
static enum daybook_code gap(struct walk *walk, uint64_t from, uint64_t to, uint64_t written,
                             const char *what)
{
    static const uint8_t mark[DBK_END_MARK_BYTES] = DBK_END_MARK;
    const uint8_t *p = walk->salvage->bytes;
    uint64_t at = from;
    if (to - from >= sizeof(mark) && memcmp(p + from, mark, sizeof(mark)) == 0) {
        at += sizeof(mark);
    }
    uint64_t least = written < to ? written : to;
    least = least > at ? least : at;
    while (to > least && p[to - 1] == 0) {
        to--;
    }
    return at < to ? damage(walk, at, to, NULL, what) : DAYBOOK_OK;
}

/* The frames that hold between two places, and what is damaged between them; up to `written` something stood. */
static enum daybook_code frames(struct walk *walk, uint64_t from, uint64_t to, uint64_t written,
                                const char *what)
{
    enum daybook_code code = DAYBOOK_OK;
    uint64_t gap_from = from;
    uint64_t at = from;
    while (code == DAYBOOK_OK && at + DBK_FRAME_HEADER_BYTES <= to) {
        struct dbk_salvage_item item = {
            .kind = DBK_SALVAGE_FRAME, .segment = walk->segment, .offset = at};
        enum dbk_frame_check check =
            dbk_frame_check(walk->salvage->bytes + at, (size_t)(to - at), walk->segment->salt,
                            dbk_lsn(walk->segment->segment_no, at), &item.frame);
        if (check == DBK_FRAME_NONE) {
            at += 8;
            continue;
        }
        if (gap_from < at) {
            code = gap(walk, gap_from, at, written, what);
        }
        item.end = at + DBK_FRAME_HEADER_BYTES + item.frame.len;
        item.record_damaged = check == DBK_FRAME_RECORD_DAMAGED;
        if (code == DAYBOOK_OK && check == DBK_FRAME_BODY_BAD) {
            code = damage(walk, at, item.end, &item.frame, "the body of a frame");
        } else if (code == DAYBOOK_OK) {
            code = walk->visit(walk->user, &item, walk->err);
        }
        at = item.end;
        gap_from = at;
    }
    return code == DAYBOOK_OK && gap_from < to ? gap(walk, gap_from, to, written, what) : code;
}

static enum daybook_code group(struct walk *walk, uint64_t at, uint64_t limit,
                               const struct dbk_group_header *header, uint64_t *ret_end)
{
    struct dbk_salvage_item item = {
        .kind = DBK_SALVAGE_GROUP, .segment = walk->segment, .offset = at, .group = header};
    struct dbk_group_header next;
    enum daybook_code code = DAYBOOK_OK;
    item.check = body_of(walk->salvage, walk->segment, at, header, &item.end);
    if (item.check == DBK_BODY_BAD) {
        /* A length that reaches over a group that holds is not believed for what it covers. */
        uint64_t found = next_group(walk->salvage, walk->segment, at + DBK_BLOCK_BYTES, &next);
        item.end = item.end < limit ? item.end : limit;
        item.end = found != 0 && found < item.end ? found : item.end;
    }
    if (walk->group_no != 0 && header->group_no > walk->group_no + 1 && !walk->explained) {
        code = damage(walk, at, at, NULL, "groups are missing before this one");
    }
    walk->group_no = header->group_no;
    walk->explained = false;
    if (code == DAYBOOK_OK) {
        code = walk->visit(walk->user, &item, walk->err);
    }
    if (code == DAYBOOK_OK && header->frame_count > 0) {
        code = frames(walk, at + DBK_GROUP_HEADER_BYTES, item.end,
                      at + DBK_GROUP_HEADER_BYTES + header->body_len,
                      "part of a group whose header holds");
    } else if (code == DAYBOOK_OK) {
        code = gap(walk, at + DBK_GROUP_HEADER_BYTES, item.end, 0, "behind a group without frames");
    }
    *ret_end = item.end;
    return code;
}

static enum daybook_code behind(struct walk *walk, uint64_t from)
{
    struct dbk_salvage_item item = {.kind = DBK_SALVAGE_BEHIND,
                                    .segment = walk->segment,
                                    .offset = from,
                                    .end = walk->segment->size_bytes};
    return from >= item.end || dbk_all_zero(walk->salvage->bytes + from, (size_t)(item.end - from))
               ? DAYBOOK_OK
               : walk->visit(walk->user, &item, walk->err);
}

static enum daybook_code walk_groups(struct walk *walk)
{
    struct dbk_salvage_segment *segment = walk->segment;
    uint64_t limit = segment->end < segment->size_bytes ? segment->end : segment->size_bytes;
    uint64_t at = DBK_BLOCK_BYTES;
    enum daybook_code code = DAYBOOK_OK;
    while (code == DAYBOOK_OK && at < limit) {
        struct dbk_group_header header;
        uint64_t found = next_group(walk->salvage, segment, at, &header);
        bool belongs = found != 0 && found < limit && header.group_no < segment->end_group_no &&
                       header.group_no > walk->group_no;
        uint64_t until = found != 0 && found < limit ? found : limit;
        if (at < until) {
            code = frames(walk, at, until, 0, "no group that holds");
        }
        at = until;
        if (code == DAYBOOK_OK && at < limit) {
            if (!belongs) {
                limit = at;
                break;
            }
            code = group(walk, at, limit, &header, &at);
        }
    }
    return code == DAYBOOK_OK ? behind(walk, limit) : code;
}

static enum daybook_code walk_segment(struct walk *walk)
{
    struct dbk_salvage_segment *segment = walk->segment;
    struct dbk_salvage_item item = {
        .kind = DBK_SALVAGE_SEGMENT, .segment = segment, .end = segment->size_bytes};
    enum daybook_code code = walk->visit(walk->user, &item, walk->err);
    if (code == DAYBOOK_OK && segment->foreign) {
        return damage(walk, 0, segment->size_bytes, NULL, "a segment of another journal: left out");
    }
    if (code == DAYBOOK_OK && !segment->header_good) {
        uint64_t end =
            segment->size_bytes < DBK_BLOCK_BYTES ? segment->size_bytes : DBK_BLOCK_BYTES;
        code = damage(walk, 0, end, NULL,
                      segment->salted ? "the header of the segment"
                                      : "the header of the segment, and no group tells its salt");
    }
    if (code == DAYBOOK_OK && segment->salted) {
        code = walk_groups(walk);
    }
    return code;
}

enum daybook_code dbk_salvage_walk(struct dbk_salvage *salvage, dbk_salvage_visit *visit,
                                   void *user, struct daybook_error *err)
{
    struct walk walk = {.salvage = salvage, .visit = visit, .user = user, .err = err};
    enum daybook_code code = DAYBOOK_OK;
    for (uint32_t i = 0; i < salvage->count && code == DAYBOOK_OK; i++) {
        walk.segment = &salvage->segments[i];
        code = load(salvage, walk.segment, visit, user, err);
        if (code == DAYBOOK_OK) {
            code = walk_segment(&walk);
        }
    }
    return code;
}
