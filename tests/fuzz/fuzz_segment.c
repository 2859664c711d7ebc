/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the log's reading: any bytes are the first segment of a journal, behind its header. Verified,
 * opened for reading, repaired: nothing crashes, nothing is read too far, and every answer is one that the
 * headers name. The first byte says how far checksums are put right before, so that what is behind them is
 * reached too: not at all, group and frame headers, or bodies as well.
 */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "engines/log/format.h"
#include "engines/log/log.h"
#include "engines/log/salvage.h"
#include "sim/disk.h"

#define PATH "/j"
#define SEGMENT PATH "/seg-0000000000000001.dbl"
#define SALT UINT64_C(0x1122334455667788)
#define SEGMENT_BYTES 65536u

static uint32_t seeded(uint64_t lsn, const uint8_t *data, size_t len)
{
    uint8_t seed[16];
    dbk_put_u64(seed, SALT);
    dbk_put_u64(seed + 8, lsn);
    return dbk_crc32c(dbk_crc32c(0, seed, sizeof seed), data, len);
}

/* The checksum of an EVENT body over its meta parts, as far as its lengths go; those of names and records
 * are put right too. */
static uint32_t mend_events(uint8_t *body, size_t len, uint16_t count)
{
    uint32_t crc = 0;
    size_t at = 0;
    for (uint16_t i = 0; i < count && len - at >= DBK_ENTRY_FIXED_BYTES; i++) {
        uint8_t *e = body + at;
        size_t names = (size_t)e[2] + e[3] + e[4];
        size_t meta = dbk_round_up(DBK_ENTRY_FIXED_BYTES + names, 8);
        size_t record = dbk_get_u32(e + 24);
        if (meta > len - at || record > len - at - meta) {
            break;
        }
        dbk_put_u32(e + 28, dbk_crc32c(0, e + meta, record));
        dbk_put_u32(e + 32, dbk_crc32c(dbk_crc32c(0, e, 32), e + DBK_ENTRY_FIXED_BYTES, names));
        crc = dbk_crc32c(crc, e, meta);
        at += dbk_round_up(meta + record, 8);
    }
    return crc;
}

/* Puts right what stands at a block: the frames, then the header, chained to the group before it. */
static size_t mend_group(uint8_t *group, size_t room, uint64_t lsn, uint64_t number, uint32_t *hcrc)
{
    static const uint8_t mark[DBK_END_MARK_BYTES] = DBK_END_MARK;
    size_t body = (dbk_get_u32(group + 32) & 0x3FFF) / 8 * 8;
    body = body < DBK_END_MARK_BYTES ? DBK_END_MARK_BYTES : body;
    body = body > room - DBK_GROUP_HEADER_BYTES ? room - DBK_GROUP_HEADER_BYTES : body;
    size_t end = DBK_GROUP_HEADER_BYTES + body - DBK_END_MARK_BYTES;
    size_t at = DBK_GROUP_HEADER_BYTES;
    uint32_t frames = 0;
    uint32_t crc = 0;
    while (at + DBK_FRAME_HEADER_BYTES <= end) {
        uint8_t *frame = group + at;
        size_t left = end - at - DBK_FRAME_HEADER_BYTES;
        size_t len = dbk_get_u32(frame + 4) / 8 * 8;
        len = len > left ? left : len;
        dbk_put_u32(frame + 4, (uint32_t)len);
        dbk_put_u32(frame + 8,
                    frame[12] == DBK_FRAME_EVENT
                        ? mend_events(frame + DBK_FRAME_HEADER_BYTES, len, dbk_get_u16(frame + 14))
                        : dbk_crc32c(0, frame + DBK_FRAME_HEADER_BYTES, len));
        dbk_put_u32(frame, seeded(lsn + at, frame + 4, DBK_FRAME_HEADER_BYTES - 4));
        crc = dbk_crc32c(crc, frame, DBK_FRAME_HEADER_BYTES);
        frames++;
        at += DBK_FRAME_HEADER_BYTES + len;
    }
    memcpy(group + at, mark, sizeof mark);
    size_t used = at + sizeof mark;
    size_t padded = dbk_round_up(used, DBK_BLOCK_BYTES);
    memset(group + used, 0, padded - used);
    struct dbk_group_header header = {.lsn = lsn,
                                      .group_no = number,
                                      .durable_lsn = dbk_get_u64(group + 24),
                                      .body_len = (uint32_t)(used - DBK_GROUP_HEADER_BYTES),
                                      .frame_count = frames,
                                      .frames_crc = crc,
                                      .prev_hcrc = *hcrc,
                                      .epoch = 1,
                                      .flags = dbk_get_u16(group + 60)};
    dbk_group_header_encode(&header, SALT, group);
    *hcrc = header.hcrc;
    return padded;
}

static void mend(uint8_t *segment)
{
    uint32_t hcrc = 0;
    uint64_t number = 1;
    size_t at = DBK_BLOCK_BYTES;
    while (at < SEGMENT_BYTES && dbk_get_u32(segment + at + 4) != 0) {
        at += mend_group(segment + at, SEGMENT_BYTES - at, dbk_lsn(1, at), number++, &hcrc);
    }
}

static enum daybook_code visit(void *user, const struct dbk_salvage_item *item,
                               struct daybook_error *err)
{
    uint64_t *end = user;
    (void)err;
    FUZZ_PROMISE(item->offset <= item->end && item->end <= SEGMENT_BYTES);
    FUZZ_PROMISE(item->kind != DBK_SALVAGE_FRAME || item->offset >= *end);
    *end = item->kind == DBK_SALVAGE_FRAME ? item->end : *end;
    return DAYBOOK_OK;
}

static bool answers(enum daybook_code code)
{
    return code == DAYBOOK_OK || code == DAYBOOK_DAMAGED || code == DAYBOOK_NEWER_FORMAT ||
           code == DAYBOOK_NO_MEMORY || code == DAYBOOK_BUSY;
}

static void read_it(struct sim_disk *disk)
{
    struct daybook_error err = {0};
    struct daybook_log_report report;
    struct daybook_log_repair_report repaired;
    struct dbk_salvage salvage;
    uint64_t end = 0;
    enum daybook_code verified = dbk_log_verify(PATH, &disk->os, NULL, NULL, &report, &err);
    FUZZ_PROMISE(answers(verified));
    if (dbk_salvage_open(&salvage, &disk->os, PATH, &err) == DAYBOOK_OK) {
        FUZZ_PROMISE(dbk_salvage_walk(&salvage, visit, &end, &err) == DAYBOOK_OK);
    }
    dbk_salvage_release(&salvage);
    FUZZ_PROMISE(answers(dbk_log_repair(PATH, "/new", &disk->os, NULL, &repaired, &err)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t segment[SEGMENT_BYTES];
    uint8_t identity[DBK_FORMAT_FILE_BYTES];
    struct dbk_identity who = {.uuid = {1}, .secret = 7};
    struct dbk_segment_header header = {
        .uuid = {1}, .segment_no = 1, .segment_bytes = SEGMENT_BYTES, .salt = SALT};
    if (size < 1) {
        return 0;
    }
    size_t len =
        size - 1 < SEGMENT_BYTES - DBK_BLOCK_BYTES ? size - 1 : SEGMENT_BYTES - DBK_BLOCK_BYTES;
    memset(segment, 0, sizeof segment);
    dbk_identity_encode(&who, identity);
    dbk_segment_header_encode(&header, segment);
    memcpy(segment + DBK_BLOCK_BYTES, data + 1, len);
    if ((data[0] & 1) != 0) {
        mend(segment);
    }
    struct sim_disk *disk = sim_disk_new(1);
    (void)disk->os.mkdir(&disk->os, PATH);
    (void)disk->os.fsync_dir(&disk->os, "/");
    sim_put_file(disk, PATH "/FORMAT", identity, sizeof identity);
    sim_put_file(disk, SEGMENT, segment, sizeof segment);
    read_it(disk);
    sim_disk_free(disk);
    return 0;
}
