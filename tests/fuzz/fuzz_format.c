/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the fixed parts of a journal: the file FORMAT, the header of a segment, each kind of frame's body.
 * The first byte says which, and whether its checksum is put right before. What decodes is read to its last entry;
 * what is encoded of it again decodes to the same.
 */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "engines/log/format.h"

/* Both end with the checksum of what is before it. */
static void put_right(uint8_t *bytes, size_t len)
{
    dbk_put_u32(bytes + len - 4, dbk_crc32c(0, bytes, len - 4));
}

static void try_identity(const uint8_t *data, size_t size, bool mended)
{
    uint8_t bytes[DBK_FORMAT_FILE_BYTES] = {0};
    uint8_t again[DBK_FORMAT_FILE_BYTES];
    struct dbk_identity identity = {.secret = 0};
    struct dbk_identity twice;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (mended) {
        put_right(bytes, sizeof bytes);
    }
    enum dbk_decoded decoded = dbk_identity_decode(bytes, &identity);
    if (decoded == DBK_DECODED_OK) {
        dbk_identity_encode(&identity, again);
        FUZZ_PROMISE(dbk_identity_decode(again, &twice) == DBK_DECODED_OK);
        FUZZ_PROMISE(twice.secret == identity.secret && twice.created_us == identity.created_us &&
                     memcmp(twice.uuid, identity.uuid, sizeof twice.uuid) == 0);
    }
}

static void try_segment_header(const uint8_t *data, size_t size, bool mended)
{
    static uint8_t bytes[DBK_BLOCK_BYTES];
    static uint8_t again[DBK_BLOCK_BYTES];
    struct dbk_segment_header header;
    struct dbk_segment_header twice;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (mended) {
        put_right(bytes, sizeof bytes);
    }
    if (dbk_segment_header_decode(bytes, &header) == DBK_DECODED_OK) {
        dbk_segment_header_encode(&header, again);
        FUZZ_PROMISE(dbk_segment_header_decode(again, &twice) == DBK_DECODED_OK);
        FUZZ_PROMISE(twice.segment_no == header.segment_no && twice.salt == header.salt &&
                     twice.segment_bytes == header.segment_bytes);
    }
}

static void try_group_header(const uint8_t *data, size_t size)
{
    uint8_t bytes[DBK_GROUP_HEADER_BYTES] = {0};
    struct dbk_group_header header;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    uint64_t lsn = dbk_get_u64(bytes + 8);
    if (dbk_group_header_decode(bytes, 7, lsn, &header)) {
        FUZZ_PROMISE(header.lsn == lsn && header.body_len <= DBK_GROUP_BYTES_MAX);
    }
    /* The same, sealed: what is decoded is what was encoded. */
    header = (struct dbk_group_header){.lsn = lsn,
                                       .group_no = dbk_get_u64(bytes + 16),
                                       .durable_lsn = dbk_get_u64(bytes + 24),
                                       .body_len = dbk_get_u32(bytes + 32),
                                       .frame_count = dbk_get_u32(bytes + 36),
                                       .frames_crc = dbk_get_u32(bytes + 40),
                                       .prev_hcrc = dbk_get_u32(bytes + 44),
                                       .realtime_ms = dbk_get_u64(bytes + 48),
                                       .epoch = dbk_get_u32(bytes + 56),
                                       .flags = dbk_get_u16(bytes + 60)};
    struct dbk_group_header twice;
    dbk_group_header_encode(&header, 7, bytes);
    if (dbk_group_header_decode(bytes, 7, lsn, &twice)) {
        FUZZ_PROMISE(twice.group_no == header.group_no && twice.durable_lsn == header.durable_lsn &&
                     twice.body_len == header.body_len && twice.epoch == header.epoch);
    }
    FUZZ_PROMISE(!dbk_group_header_decode(bytes, 7, lsn + DBK_BLOCK_BYTES, &twice));
    FUZZ_PROMISE(!dbk_group_header_decode(bytes, 8, lsn, &twice));
}

/* A byte of each end of what was decoded, so that a sanitizer sees what lies outside. */
static unsigned touch(struct daybook_bytes bytes)
{
    return bytes.len == 0 ? 0u
                          : (unsigned)(uint8_t)bytes.data[0] + (uint8_t)bytes.data[bytes.len - 1];
}

/* Where goes what was read, so that it is read. */
static volatile unsigned sink;

static void try_frame(const uint8_t *data, size_t size)
{
    struct dbk_frame frame = {.type = data[0], .flags = data[1 % size], .count = 0};
    struct dbk_claim_frame claim;
    struct dbk_settle_frame settle;
    struct dbk_quarantine_frame quarantine;
    struct dbk_admin_frame admin;
    struct dbk_forget_frame forget;
    struct dbk_state_frame state;
    struct dbk_link_frame link;
    struct dbk_trim_frame trim;
    struct dbk_frame inner;
    size_t head = size < 12 ? size : 12;
    if (head >= 4) {
        frame.count = dbk_get_u16(data + 2);
    }
    if (head >= 12) {
        frame.position = dbk_get_u64(data + 4);
    }
    frame.body = data + head;
    frame.len = (uint32_t)(size - head);
    sink += dbk_claim_frame_decode(&frame, &claim) ? 1u : 0u;
    sink += dbk_settle_frame_decode(&frame, &settle) ? 1u : 0u;
    sink += dbk_forget_frame_decode(&frame, &forget) ? 1u : 0u;
    sink += dbk_state_frame_decode(&frame, &state) ? 1u : 0u;
    sink += dbk_link_frame_decode(&frame, &link) ? 1u : 0u;
    sink += dbk_relocate_frame_decode(&frame, &inner) ? 1u : 0u;
    if (dbk_quarantine_frame_decode(&frame, &quarantine)) {
        sink += touch(quarantine.words);
    }
    if (dbk_admin_frame_decode(&frame, &admin)) {
        sink += touch(admin.who) + touch(admin.why) + touch(admin.name) + touch(admin.request_id);
        for (uint32_t i = 0; i < admin.position_count; i++) {
            sink += (unsigned)dbk_admin_position_at(&admin, i);
        }
    }
    sink += dbk_trim_frame_decode(&frame, &trim) ? 1u : 0u;
    sink += dbk_frame_read(data, size, &inner) ? 1u : 0u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    bool mended = (data[0] & 0x80) != 0;
    switch (data[0] & 0x7F) {
    case 'i':
        try_identity(data + 1, size - 1, mended);
        break;
    case 's':
        try_segment_header(data + 1, size - 1, mended);
        break;
    case 'g':
        try_group_header(data + 1, size - 1);
        break;
    default:
        try_frame(data + 1, size - 1);
        break;
    }
    return 0;
}
