/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the log (P): see format.h and docs/FORMAT.md, which has the layout of everything here.
 */
#include "engines/log/format.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fault.h"

static const char identity_magic[8] = {'D', 'A', 'Y', 'B', 'O', 'O', 'K', 'F'};
static const char segment_magic[8] = {'D', 'A', 'Y', 'B', 'O', 'O', 'K', 'S'};
enum { GROUP_MAGIC = 0x47424459 }; /* "YDBG" */
static const uint8_t end_mark[DBK_END_MARK_BYTES] = DBK_END_MARK;

enum {
    ENTRY_META_CRC_AT = 32,
    CONSUMER_RESTATED_BYTES = 96,
    ORPHAN_BYTES = 40,
    CONSUMER_NAME_BYTES = 64,
    ADMIN_FIXED_BYTES = 32 + CONSUMER_NAME_BYTES,
    TRIM_BY_CHECKPOINT = 1
};

/* The seed binds a header to its file and place, so that bytes of another place never pass. */
static uint32_t seed_of(uint64_t salt, uint64_t lsn)
{
    uint8_t bytes[16];
    if (dbk_fault(DBK_FAULT_CRC_WITHOUT_PLACE)) {
        return 0;
    }
    dbk_put_u64(bytes, salt);
    dbk_put_u64(bytes + 8, lsn);
    return dbk_crc32c(0, bytes, sizeof(bytes));
}

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- files ----------------------------------------------------------------------------------------- */

/*
 * FORMAT, 128 bytes: magic 8, major u16, minor u16, length u32, uuid 16, secret u64, three feature sets
 * u64 each (incompatible, read-only-compatible, compatible), created i64, zeros, CRC32C of bytes 0..123.
 */
void dbk_identity_encode(const struct dbk_identity *identity, uint8_t out[DBK_FORMAT_FILE_BYTES])
{
    memset(out, 0, DBK_FORMAT_FILE_BYTES);
    memcpy(out, identity_magic, sizeof(identity_magic));
    dbk_put_u16(out + 8, DBK_FORMAT_MAJOR);
    dbk_put_u16(out + 10, DBK_FORMAT_MINOR);
    dbk_put_u32(out + 12, DBK_FORMAT_FILE_BYTES);
    memcpy(out + 16, identity->uuid, 16);
    dbk_put_u64(out + 32, identity->secret);
    dbk_put_i64(out + 64, identity->created_us);
    dbk_put_u32(out + 124, dbk_crc32c(0, out, 124));
}

static enum dbk_decoded judge_features(uint16_t major, uint64_t incompatible, uint64_t read_only)
{
    if (major > DBK_FORMAT_MAJOR || incompatible != 0) {
        return DBK_DECODED_NEWER;
    }
    return read_only != 0 ? DBK_DECODED_READ_ONLY : DBK_DECODED_OK;
}

enum dbk_decoded dbk_identity_decode(const uint8_t in[DBK_FORMAT_FILE_BYTES],
                                     struct dbk_identity *ret)
{
    if (memcmp(in, identity_magic, sizeof(identity_magic)) != 0 ||
        dbk_get_u32(in + 124) != dbk_crc32c(0, in, 124)) {
        return DBK_DECODED_BAD;
    }
    memcpy(ret->uuid, in + 16, 16);
    ret->secret = dbk_get_u64(in + 32);
    ret->created_us = dbk_get_i64(in + 64);
    return judge_features(dbk_get_u16(in + 8), dbk_get_u64(in + 40), dbk_get_u64(in + 48));
}

/*
 * Segment header, 4096 bytes: magic 8, major u16, minor u16, header length u32, block size u32, zero
 * u32, uuid 16, segment_no u64, segment_bytes u64, salt u64, three feature sets u64 each, created i64,
 * zeros, CRC32C of bytes 0..4091.
 */
void dbk_segment_header_encode(const struct dbk_segment_header *header,
                               uint8_t out[DBK_BLOCK_BYTES])
{
    memset(out, 0, DBK_BLOCK_BYTES);
    memcpy(out, segment_magic, sizeof(segment_magic));
    dbk_put_u16(out + 8, DBK_FORMAT_MAJOR);
    dbk_put_u16(out + 10, DBK_FORMAT_MINOR);
    dbk_put_u32(out + 12, DBK_BLOCK_BYTES);
    dbk_put_u32(out + 16, DBK_BLOCK_BYTES);
    memcpy(out + 24, header->uuid, 16);
    dbk_put_u64(out + 40, header->segment_no);
    dbk_put_u64(out + 48, header->segment_bytes);
    dbk_put_u64(out + 56, header->salt);
    dbk_put_i64(out + 88, header->created_us);
    dbk_put_u32(out + DBK_BLOCK_BYTES - 4, dbk_crc32c(0, out, DBK_BLOCK_BYTES - 4));
}

enum dbk_decoded dbk_segment_header_decode(const uint8_t in[DBK_BLOCK_BYTES],
                                           struct dbk_segment_header *ret)
{
    if (memcmp(in, segment_magic, sizeof(segment_magic)) != 0 ||
        dbk_get_u32(in + DBK_BLOCK_BYTES - 4) != dbk_crc32c(0, in, DBK_BLOCK_BYTES - 4)) {
        return DBK_DECODED_BAD;
    }
    memcpy(ret->uuid, in + 24, 16);
    ret->segment_no = dbk_get_u64(in + 40);
    ret->segment_bytes = dbk_get_u64(in + 48);
    ret->salt = dbk_get_u64(in + 56);
    ret->created_us = dbk_get_i64(in + 88);
    return judge_features(dbk_get_u16(in + 8), dbk_get_u64(in + 64), dbk_get_u64(in + 72));
}

/* ---- groups ---------------------------------------------------------------------------------------- */

void dbk_group_header_encode(struct dbk_group_header *header, uint64_t salt,
                             uint8_t out[DBK_GROUP_HEADER_BYTES])
{
    dbk_put_u32(out + 4, GROUP_MAGIC);
    dbk_put_u64(out + 8, header->lsn);
    dbk_put_u64(out + 16, header->group_no);
    dbk_put_u64(out + 24, header->durable_lsn);
    dbk_put_u32(out + 32, header->body_len);
    dbk_put_u32(out + 36, header->frame_count);
    dbk_put_u32(out + 40, header->frames_crc);
    dbk_put_u32(out + 44, header->prev_hcrc);
    dbk_put_u64(out + 48, header->realtime_ms);
    dbk_put_u32(out + 56, header->epoch);
    dbk_put_u16(out + 60, header->flags);
    dbk_put_u16(out + 62, DBK_GROUP_HEADER_BYTES);
    header->hcrc = dbk_crc32c(seed_of(salt, header->lsn), out + 4, DBK_GROUP_HEADER_BYTES - 4);
    dbk_put_u32(out, header->hcrc);
}

bool dbk_group_header_decode(const uint8_t in[DBK_GROUP_HEADER_BYTES], uint64_t salt, uint64_t lsn,
                             struct dbk_group_header *ret)
{
    uint32_t hcrc = dbk_get_u32(in);
    if (dbk_get_u32(in + 4) != GROUP_MAGIC || dbk_get_u16(in + 62) != DBK_GROUP_HEADER_BYTES ||
        hcrc != dbk_crc32c(seed_of(salt, lsn), in + 4, DBK_GROUP_HEADER_BYTES - 4)) {
        return false;
    }
    ret->lsn = dbk_get_u64(in + 8);
    ret->group_no = dbk_get_u64(in + 16);
    ret->durable_lsn = dbk_get_u64(in + 24);
    ret->body_len = dbk_get_u32(in + 32);
    ret->frame_count = dbk_get_u32(in + 36);
    ret->frames_crc = dbk_get_u32(in + 40);
    ret->prev_hcrc = dbk_get_u32(in + 44);
    ret->realtime_ms = dbk_get_u64(in + 48);
    ret->epoch = dbk_get_u32(in + 56);
    ret->flags = dbk_get_u16(in + 60);
    ret->hcrc = hcrc;
    if (ret->lsn != lsn && !dbk_fault(DBK_FAULT_CRC_WITHOUT_PLACE)) {
        return false;
    }
    return ret->body_len >= DBK_END_MARK_BYTES && ret->body_len % 8 == 0 &&
           ret->body_len <= DBK_GROUP_BYTES_MAX - DBK_GROUP_HEADER_BYTES;
}

static uint32_t frame_hcrc(const uint8_t *frame, uint64_t salt, uint64_t lsn)
{
    return dbk_crc32c(seed_of(salt, lsn), frame + 4, DBK_FRAME_HEADER_BYTES - 4);
}

size_t dbk_group_seal(uint8_t *group, size_t frames_len, uint64_t salt,
                      struct dbk_group_header *header)
{
    size_t at = DBK_GROUP_HEADER_BYTES;
    size_t end = at + frames_len;
    uint32_t crc = 0;
    uint32_t count = 0;
    while (at < end) {
        uint8_t *frame = group + at;
        dbk_put_u32(frame, frame_hcrc(frame, salt, header->lsn + at));
        crc = dbk_crc32c(crc, frame, DBK_FRAME_HEADER_BYTES);
        at += DBK_FRAME_HEADER_BYTES + dbk_get_u32(frame + 4);
        count++;
    }
    dbk_assert(at == end);
    memcpy(group + end, end_mark, sizeof(end_mark));
    header->body_len = (uint32_t)(frames_len + DBK_END_MARK_BYTES);
    header->frame_count = count;
    header->frames_crc = crc;
    dbk_group_header_encode(header, salt, group);
    size_t used = end + DBK_END_MARK_BYTES;
    size_t padded = dbk_round_up(used, DBK_BLOCK_BYTES);
    memset(group + used, 0, padded - used);
    return padded;
}

/* The checksum over the entries of an EVENT body, continued from `crc`: its meta parts, which hold the checksums of the records. False when
 * the lengths do not fit. *ret_records: whether every record matches its own. */
static bool event_body_crc(const uint8_t *body, size_t len, uint16_t count, uint32_t crc,
                           uint32_t *ret_crc, bool *ret_records)
{
    size_t at = 0;
    *ret_records = true;
    for (uint16_t i = 0; i < count; i++) {
        if (len - at < DBK_ENTRY_FIXED_BYTES) {
            return false;
        }
        const uint8_t *e = body + at;
        size_t names = (size_t)e[2] + e[3] + e[4];
        size_t meta = dbk_round_up(DBK_ENTRY_FIXED_BYTES + names, 8);
        size_t record = dbk_get_u32(e + 24);
        if (len - at < meta || len - at - meta < record ||
            len - at < dbk_round_up(meta + record, 8)) {
            return false;
        }
        crc = dbk_crc32c(crc, e, meta);
        size_t whole = dbk_round_up(meta + record, 8);
        if (dbk_crc32c(0, e + meta, record) != dbk_get_u32(e + 28) ||
            !all_zero(e + meta + record, whole - meta - record)) {
            *ret_records = false;
        }
        at += whole;
    }
    *ret_crc = crc;
    return at == len;
}

static void frame_at(const uint8_t *in, uint64_t lsn, struct dbk_frame *ret)
{
    ret->len = dbk_get_u32(in + 4);
    ret->type = in[12];
    ret->flags = in[13];
    ret->count = dbk_get_u16(in + 14);
    ret->position = dbk_get_u64(in + 16);
    ret->lsn = lsn;
    ret->body = in + DBK_FRAME_HEADER_BYTES;
}

enum dbk_frame_check dbk_frame_check(const uint8_t *in, size_t len, uint64_t salt, uint64_t lsn,
                                     struct dbk_frame *ret)
{
    uint32_t bcrc;
    bool records = true;
    if (len < DBK_FRAME_HEADER_BYTES || dbk_get_u32(in) != frame_hcrc(in, salt, lsn)) {
        return DBK_FRAME_NONE;
    }
    frame_at(in, lsn, ret);
    if (ret->len % 8 != 0 || ret->len > len - DBK_FRAME_HEADER_BYTES) {
        return DBK_FRAME_NONE;
    }
    /* A relocated event keeps what an event has: its record has a checksum of its own. */
    size_t prefix = ret->type == DBK_FRAME_RELOCATE && ret->len >= 8 ? 8 : 0;
    if (ret->type == DBK_FRAME_EVENT || (prefix > 0 && ret->body[0] == DBK_FRAME_EVENT)) {
        uint16_t entries = prefix > 0 ? dbk_get_u16(ret->body + 2) : ret->count;
        if (!event_body_crc(ret->body + prefix, ret->len - prefix, entries,
                            dbk_crc32c(0, ret->body, prefix), &bcrc, &records)) {
            return DBK_FRAME_BODY_BAD;
        }
    } else {
        bcrc = dbk_crc32c(0, ret->body, ret->len);
    }
    if (bcrc != dbk_get_u32(in + 8)) {
        return DBK_FRAME_BODY_BAD;
    }
    return records ? DBK_FRAME_OK : DBK_FRAME_RECORD_DAMAGED;
}

enum dbk_body_check dbk_group_check(const uint8_t *group, size_t padded_len, uint64_t salt,
                                    const struct dbk_group_header *header)
{
    size_t used = DBK_GROUP_HEADER_BYTES + (size_t)header->body_len;
    size_t end = used - DBK_END_MARK_BYTES;
    size_t at = DBK_GROUP_HEADER_BYTES;
    uint32_t crc = 0;
    uint32_t count = 0;
    bool records_good = true;
    if (memcmp(group + end, end_mark, sizeof(end_mark)) != 0 ||
        !all_zero(group + used, padded_len - used)) {
        return DBK_BODY_BAD;
    }
    while (at < end) {
        struct dbk_frame frame;
        enum dbk_frame_check check =
            dbk_frame_check(group + at, end - at, salt, header->lsn + at, &frame);
        if (check == DBK_FRAME_NONE || check == DBK_FRAME_BODY_BAD) {
            return DBK_BODY_BAD;
        }
        records_good = records_good && check == DBK_FRAME_OK;
        crc = dbk_crc32c(crc, group + at, DBK_FRAME_HEADER_BYTES);
        at += DBK_FRAME_HEADER_BYTES + (size_t)frame.len;
        count++;
    }
    if (crc != header->frames_crc || count != header->frame_count) {
        return DBK_BODY_BAD;
    }
    return records_good ? DBK_BODY_OK : DBK_BODY_RECORD_DAMAGED;
}

/* ---- frames ----------------------------------------------------------------------------------------- */

bool dbk_frame_next(const uint8_t *group, const struct dbk_group_header *header, size_t *offset,
                    struct dbk_frame *ret)
{
    size_t end = DBK_GROUP_HEADER_BYTES + (size_t)header->body_len - DBK_END_MARK_BYTES;
    if (*offset >= end) {
        return false;
    }
    frame_at(group + *offset, header->lsn + *offset, ret);
    *offset += DBK_FRAME_HEADER_BYTES + (size_t)ret->len;
    return true;
}

static uint8_t *begin(uint8_t *out, enum dbk_frame_type type, uint8_t flags, size_t count,
                      uint64_t position, size_t body_len)
{
    dbk_assert(body_len % 8 == 0 && body_len < DBK_GROUP_BYTES_MAX && count <= UINT16_MAX);
    dbk_put_u32(out, 0);
    dbk_put_u32(out + 4, (uint32_t)body_len);
    dbk_put_u32(out + 8, 0);
    out[12] = (uint8_t)type;
    out[13] = flags;
    dbk_put_u16(out + 14, (uint16_t)count);
    dbk_put_u64(out + 16, position);
    return out + DBK_FRAME_HEADER_BYTES;
}

void dbk_frame_finish(uint8_t *out)
{
    dbk_put_u32(out + 8, dbk_crc32c(0, out + DBK_FRAME_HEADER_BYTES, dbk_get_u32(out + 4)));
}

static size_t finish(uint8_t *out)
{
    dbk_frame_finish(out);
    return DBK_FRAME_HEADER_BYTES + (size_t)dbk_get_u32(out + 4);
}

size_t dbk_event_frame_bytes(const struct daybook_event *event)
{
    size_t meta = dbk_round_up(DBK_ENTRY_FIXED_BYTES + event->request_id.len +
                                   event->name_space.len + event->subject.len,
                               8);
    return DBK_FRAME_HEADER_BYTES + dbk_round_up(meta + event->record.len, 8);
}

static size_t entry_meta_bytes(const struct dbk_entry *entry)
{
    return dbk_round_up(DBK_ENTRY_FIXED_BYTES + entry->request_id.len + entry->name_space.len +
                            entry->subject.len,
                        8);
}

uint32_t dbk_entry_bytes(const struct dbk_entry *entry)
{
    return (uint32_t)(entry_meta_bytes(entry) + entry->record.len);
}

static uint8_t *append_bytes(uint8_t *out, struct daybook_bytes bytes)
{
    if (bytes.len > 0) {
        memcpy(out, bytes.data, bytes.len);
    }
    return out + bytes.len;
}

/*
 * Entry: row_version u16, id_len u8, namespace_len u8, subject_len u8, flags u8, zero u16, observed_at
 * i64, accepted_at i64, record_len u32, record CRC u32, meta CRC u32 over bytes 0..31 and the three
 * strings, zero u32; id, namespace, subject, zeros to 8; record, zeros to 8.
 */
size_t dbk_event_frame_encode(uint8_t *out, uint64_t position, const struct dbk_entry *entry)
{
    size_t meta = entry_meta_bytes(entry);
    size_t whole = dbk_round_up(meta + entry->record.len, 8);
    uint8_t *e = begin(out, DBK_FRAME_EVENT, 0, 1, position, whole);
    memset(e, 0, DBK_ENTRY_FIXED_BYTES);
    dbk_put_u16(e, entry->row_version);
    e[2] = (uint8_t)entry->request_id.len;
    e[3] = (uint8_t)entry->name_space.len;
    e[4] = (uint8_t)entry->subject.len;
    dbk_put_i64(e + 8, entry->observed_at_us);
    dbk_put_i64(e + 16, entry->accepted_at_us);
    dbk_put_u32(e + 24, (uint32_t)entry->record.len);
    dbk_put_u32(e + 28, entry->record_crc);
    uint8_t *p = e + DBK_ENTRY_FIXED_BYTES;
    p = append_bytes(p, entry->request_id);
    p = append_bytes(p, entry->name_space);
    p = append_bytes(p, entry->subject);
    uint32_t meta_crc = dbk_crc32c(0, e, ENTRY_META_CRC_AT);
    meta_crc =
        dbk_crc32c(meta_crc, e + DBK_ENTRY_FIXED_BYTES, (size_t)(p - e) - DBK_ENTRY_FIXED_BYTES);
    dbk_put_u32(e + ENTRY_META_CRC_AT, meta_crc);
    memset(p, 0, meta - (size_t)(p - e));
    p = append_bytes(e + meta, entry->record);
    memset(p, 0, whole - (size_t)(p - e));
    dbk_put_u32(out + 8, dbk_crc32c(0, e, meta));
    return DBK_FRAME_HEADER_BYTES + whole;
}

enum dbk_entry_check dbk_entry_decode(const uint8_t *in, size_t len, struct dbk_entry *ret,
                                      size_t *ret_len)
{
    if (len < DBK_ENTRY_FIXED_BYTES) {
        return DBK_ENTRY_BAD;
    }
    size_t names = (size_t)in[2] + in[3] + in[4];
    size_t meta = dbk_round_up(DBK_ENTRY_FIXED_BYTES + names, 8);
    size_t record = dbk_get_u32(in + 24);
    if (len < meta || len - meta < record) {
        return DBK_ENTRY_BAD;
    }
    uint32_t crc = dbk_crc32c(0, in, ENTRY_META_CRC_AT);
    crc = dbk_crc32c(crc, in + DBK_ENTRY_FIXED_BYTES, names);
    if (crc != dbk_get_u32(in + ENTRY_META_CRC_AT)) {
        return DBK_ENTRY_BAD;
    }
    const char *text = (const char *)in + DBK_ENTRY_FIXED_BYTES;
    ret->row_version = dbk_get_u16(in);
    ret->observed_at_us = dbk_get_i64(in + 8);
    ret->accepted_at_us = dbk_get_i64(in + 16);
    ret->record_crc = dbk_get_u32(in + 28);
    ret->request_id = (struct daybook_bytes){text, in[2]};
    ret->name_space = (struct daybook_bytes){text + in[2], in[3]};
    ret->subject = (struct daybook_bytes){text + in[2] + in[3], in[4]};
    ret->record = (struct daybook_bytes){(const char *)in + meta, record};
    *ret_len = dbk_round_up(meta + record, 8);
    return dbk_crc32c(0, in + meta, record) == ret->record_crc ? DBK_ENTRY_OK
                                                               : DBK_ENTRY_RECORD_DAMAGED;
}

/* CLAIM: consumer u32, lease_ms u32, now i64, first_token u64; entries {position u64, attempt u32,
 * hand_outs u32}. */
size_t dbk_claim_frame_begin(uint8_t *out, const struct dbk_claim_frame *frame)
{
    uint8_t *p = begin(out, DBK_FRAME_CLAIM, 0, frame->count, 0, 24 + 16 * (size_t)frame->count);
    dbk_put_u32(p, frame->consumer);
    dbk_put_u32(p + 4, frame->lease_ms);
    dbk_put_i64(p + 8, frame->now_us);
    dbk_put_u64(p + 16, frame->first_token);
    return DBK_CLAIM_FRAME_BYTES(frame->count);
}

void dbk_claim_entry_put(uint8_t *out, uint32_t i, const struct dbk_claim_entry *entry)
{
    uint8_t *p = out + DBK_FRAME_HEADER_BYTES + 24 + 16 * (size_t)i;
    dbk_put_u64(p, entry->position);
    dbk_put_u32(p + 8, entry->attempt);
    dbk_put_u32(p + 12, entry->hand_outs);
}

bool dbk_claim_frame_decode(const struct dbk_frame *in, struct dbk_claim_frame *ret)
{
    if (in->len != 24 + 16 * (uint32_t)in->count) {
        return false;
    }
    ret->consumer = dbk_get_u32(in->body);
    ret->lease_ms = dbk_get_u32(in->body + 4);
    ret->now_us = dbk_get_i64(in->body + 8);
    ret->first_token = dbk_get_u64(in->body + 16);
    ret->count = in->count;
    ret->entries_ = in->body + 24;
    return true;
}

struct dbk_claim_entry dbk_claim_entry_at(const struct dbk_claim_frame *frame, uint32_t i)
{
    const uint8_t *p = frame->entries_ + 16 * (size_t)i;
    return (struct dbk_claim_entry){dbk_get_u64(p), dbk_get_u32(p + 8), dbk_get_u32(p + 12)};
}

/* SETTLE: consumer u32, op u32, lease_ms u32, zero u32, now i64; entries {position u64, token u64,
 * attempt after u32, zero u32}. */
size_t dbk_settle_frame_encode(uint8_t *out, const struct dbk_settle_frame *frame,
                               const struct dbk_settle_entry *entries)
{
    uint8_t *p = begin(out, DBK_FRAME_SETTLE, 0, frame->count, 0, 24 + 24 * (size_t)frame->count);
    dbk_put_u32(p, frame->consumer);
    dbk_put_u32(p + 4, (uint32_t)frame->op);
    dbk_put_u32(p + 8, frame->lease_ms);
    dbk_put_u32(p + 12, 0);
    dbk_put_i64(p + 16, frame->now_us);
    for (uint32_t i = 0; i < frame->count; i++) {
        uint8_t *e = p + 24 + 24 * (size_t)i;
        dbk_put_u64(e, entries[i].position);
        dbk_put_u64(e + 8, entries[i].token);
        dbk_put_u32(e + 16, entries[i].attempt_after);
        dbk_put_u32(e + 20, 0);
    }
    return finish(out);
}

bool dbk_settle_frame_decode(const struct dbk_frame *in, struct dbk_settle_frame *ret)
{
    if (in->len != 24 + 24 * (uint32_t)in->count) {
        return false;
    }
    uint32_t op = dbk_get_u32(in->body + 4);
    if (op < DBK_SETTLE_ACK || op > DBK_SETTLE_GIVE_UP) {
        return false;
    }
    ret->consumer = dbk_get_u32(in->body);
    ret->op = (enum dbk_settle_op)op;
    ret->lease_ms = dbk_get_u32(in->body + 8);
    ret->now_us = dbk_get_i64(in->body + 16);
    ret->count = in->count;
    ret->entries_ = in->body + 24;
    return true;
}

struct dbk_settle_entry dbk_settle_entry_at(const struct dbk_settle_frame *frame, uint32_t i)
{
    const uint8_t *p = frame->entries_ + 24 * (size_t)i;
    return (struct dbk_settle_entry){dbk_get_u64(p), dbk_get_u64(p + 8), dbk_get_u32(p + 16)};
}

/* QUARANTINE (position in the header): consumer u32, reason u32, attempts u32, words_len u32, time i64;
 * words, zeros to 8. */
size_t dbk_quarantine_frame_encode(uint8_t *out, const struct dbk_quarantine_frame *frame)
{
    size_t len = dbk_round_up(24 + frame->words.len, 8);
    uint8_t *p = begin(out, DBK_FRAME_QUARANTINE, 0, 1, frame->position, len);
    dbk_put_u32(p, frame->consumer);
    dbk_put_u32(p + 4, (uint32_t)frame->reason);
    dbk_put_u32(p + 8, frame->attempts);
    dbk_put_u32(p + 12, (uint32_t)frame->words.len);
    dbk_put_i64(p + 16, frame->at_us);
    memset(append_bytes(p + 24, frame->words), 0, len - 24 - frame->words.len);
    return finish(out);
}

bool dbk_quarantine_frame_decode(const struct dbk_frame *in, struct dbk_quarantine_frame *ret)
{
    if (in->len < 24) {
        return false;
    }
    uint32_t reason = dbk_get_u32(in->body + 4);
    uint32_t words = dbk_get_u32(in->body + 12);
    if (reason < DAYBOOK_REASON_MALFORMED || reason > DAYBOOK_REASON_ATTEMPTS_EXHAUSTED ||
        words > in->len - 24) {
        return false;
    }
    ret->position = in->position;
    ret->consumer = dbk_get_u32(in->body);
    ret->reason = (enum daybook_quarantine_reason)reason;
    ret->attempts = dbk_get_u32(in->body + 8);
    ret->at_us = dbk_get_i64(in->body + 16);
    ret->words = (struct daybook_bytes){(const char *)in->body + 24, words};
    return true;
}

static size_t admin_payload_bytes(const struct dbk_admin_frame *frame)
{
    switch (frame->op) {
    case DBK_ADMIN_REGISTER:
        return 16;
    case DBK_ADMIN_REWIND:
        return 8;
    case DBK_ADMIN_RELEASE:
    case DBK_ADMIN_DISCARD:
        return 8 * (size_t)frame->position_count;
    case DBK_ADMIN_RETIRE:
    case DBK_ADMIN_LIFT:
        break;
    }
    return 0;
}

size_t dbk_admin_frame_bytes(const struct dbk_admin_frame *frame)
{
    return DBK_FRAME_HEADER_BYTES +
           dbk_round_up(ADMIN_FIXED_BYTES + admin_payload_bytes(frame) + frame->request_id.len +
                            frame->who.len + frame->why.len,
                        8);
}

/*
 * ADMIN (the operation's number in the header's position): op u32, consumer u32, time i64,
 * position_count u32, lengths u16 each of who, why, request_id, zero u16, zero u32; consumer's name, 64
 * with zeros; then REGISTER: start position u64, start time i64; REWIND: token floor u64; RELEASE,
 * DISCARD: positions u64 each; then request_id, who, why, zeros to 8.
 */
size_t dbk_admin_frame_encode(uint8_t *out, const struct dbk_admin_frame *frame)
{
    size_t len = dbk_admin_frame_bytes(frame) - DBK_FRAME_HEADER_BYTES;
    uint8_t *p = begin(out, DBK_FRAME_ADMIN, 0, 1, frame->no, len);
    memset(p, 0, len);
    dbk_put_u32(p, (uint32_t)frame->op);
    dbk_put_u32(p + 4, frame->consumer);
    dbk_put_i64(p + 8, frame->at_us);
    dbk_put_u32(p + 16, frame->position_count);
    dbk_put_u16(p + 20, (uint16_t)frame->who.len);
    dbk_put_u16(p + 22, (uint16_t)frame->why.len);
    dbk_put_u16(p + 24, (uint16_t)frame->request_id.len);
    append_bytes(p + 32, frame->name);
    uint8_t *payload = p + ADMIN_FIXED_BYTES;
    switch (frame->op) {
    case DBK_ADMIN_REGISTER:
        dbk_put_u64(payload, frame->start.position);
        dbk_put_i64(payload + 8, frame->start.time_us);
        break;
    case DBK_ADMIN_REWIND:
        dbk_put_u64(payload, frame->token_floor);
        break;
    case DBK_ADMIN_RELEASE:
    case DBK_ADMIN_DISCARD:
        for (uint32_t i = 0; i < frame->position_count; i++) {
            dbk_put_u64(payload + 8 * (size_t)i, frame->positions[i]);
        }
        break;
    case DBK_ADMIN_RETIRE:
    case DBK_ADMIN_LIFT:
        break;
    }
    uint8_t *texts = append_bytes(payload + admin_payload_bytes(frame), frame->request_id);
    append_bytes(append_bytes(texts, frame->who), frame->why);
    return finish(out);
}

bool dbk_admin_frame_decode(const struct dbk_frame *in, struct dbk_admin_frame *ret)
{
    if (in->len < ADMIN_FIXED_BYTES) {
        return false;
    }
    uint32_t op = dbk_get_u32(in->body);
    if (op < DBK_ADMIN_REGISTER || op > DBK_ADMIN_LIFT) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    ret->op = (enum dbk_admin_op)op;
    ret->no = in->position;
    ret->consumer = dbk_get_u32(in->body + 4);
    ret->at_us = dbk_get_i64(in->body + 8);
    ret->position_count = dbk_get_u32(in->body + 16);
    ret->who.len = dbk_get_u16(in->body + 20);
    ret->why.len = dbk_get_u16(in->body + 22);
    ret->request_id.len = dbk_get_u16(in->body + 24);
    ret->name.data = (const char *)in->body + 32;
    ret->name.len = strnlen(ret->name.data, CONSUMER_NAME_BYTES);
    size_t left = in->len - ADMIN_FIXED_BYTES;
    const uint8_t *payload = in->body + ADMIN_FIXED_BYTES;
    bool of_positions = ret->op == DBK_ADMIN_RELEASE || ret->op == DBK_ADMIN_DISCARD;
    if (ret->position_count != 0 && !of_positions) {
        return false; /* nothing stands where they would be */
    }
    if (ret->name.len == 0 || ret->name.len == CONSUMER_NAME_BYTES ||
        ret->position_count > left / 8 || admin_payload_bytes(ret) > left ||
        ret->request_id.len + ret->who.len + ret->why.len > left - admin_payload_bytes(ret)) {
        return false;
    }
    if (ret->op == DBK_ADMIN_REGISTER) {
        ret->start.position = dbk_get_u64(payload);
        ret->start.time_us = dbk_get_i64(payload + 8);
    } else if (ret->op == DBK_ADMIN_REWIND) {
        ret->token_floor = dbk_get_u64(payload);
    } else {
        ret->positions_ = payload;
    }
    ret->request_id.data = (const char *)payload + admin_payload_bytes(ret);
    ret->who.data = ret->request_id.data + ret->request_id.len;
    ret->why.data = ret->who.data + ret->who.len;
    return true;
}

uint64_t dbk_admin_position_at(const struct dbk_admin_frame *frame, uint32_t i)
{
    return dbk_get_u64(frame->positions_ + 8 * (size_t)i);
}

/* An orphan: consumer u32, lease_ms u32, position u64, token u64, expiry i64, key hash u64. */
void dbk_orphan_put(uint8_t *out, const struct dbk_orphan *orphan)
{
    dbk_put_u32(out, orphan->consumer);
    dbk_put_u32(out + 4, orphan->lease_ms);
    dbk_put_u64(out + 8, orphan->position);
    dbk_put_u64(out + 16, orphan->token);
    dbk_put_i64(out + 24, orphan->expires_at_us);
    dbk_put_u64(out + 32, orphan->key_hash);
}

struct dbk_orphan dbk_orphan_get(const uint8_t *in)
{
    return (struct dbk_orphan){.consumer = dbk_get_u32(in),
                               .lease_ms = dbk_get_u32(in + 4),
                               .position = dbk_get_u64(in + 8),
                               .token = dbk_get_u64(in + 16),
                               .expires_at_us = dbk_get_i64(in + 24),
                               .key_hash = dbk_get_u64(in + 32)};
}

/* FORGET: reason u32, ranges u32, orphans u32, zero u32, five counters u64; ranges {first u64, end u64};
 * orphans. */
size_t dbk_forget_frame_encode(uint8_t *out, const struct dbk_forget_frame *frame,
                               const struct dbk_range *ranges, uint32_t range_count,
                               const struct dbk_orphan *orphans)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < range_count; i++) {
        n += ranges[i].reason == frame->reason ? 1 : 0;
    }
    size_t len = 56 + 16 * (size_t)n + ORPHAN_BYTES * (size_t)frame->orphan_count;
    uint8_t *p = begin(out, DBK_FRAME_FORGET, 0, 0, 0, len);
    dbk_put_u32(p, (uint32_t)frame->reason);
    dbk_put_u32(p + 4, n);
    dbk_put_u32(p + 8, frame->orphan_count);
    dbk_put_u32(p + 12, 0);
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        dbk_put_u64(p + 16 + 8 * (size_t)i, frame->counters[i]);
    }
    uint8_t *q = p + 56;
    for (uint32_t i = 0; i < range_count; i++) {
        if (ranges[i].reason == frame->reason) {
            dbk_put_u64(q, ranges[i].first);
            dbk_put_u64(q + 8, ranges[i].end);
            q += 16;
        }
    }
    for (uint32_t i = 0; i < frame->orphan_count; i++) {
        dbk_orphan_put(q + ORPHAN_BYTES * (size_t)i, &orphans[i]);
    }
    return finish(out);
}

bool dbk_forget_frame_decode(const struct dbk_frame *in, struct dbk_forget_frame *ret)
{
    if (in->len < 56) {
        return false;
    }
    uint32_t reason = dbk_get_u32(in->body);
    ret->range_count = dbk_get_u32(in->body + 4);
    ret->orphan_count = dbk_get_u32(in->body + 8);
    if (reason < DBK_FORGET_PRUNED || reason > DBK_FORGET_DAMAGED ||
        56 + 16 * (uint64_t)ret->range_count + ORPHAN_BYTES * (uint64_t)ret->orphan_count !=
            in->len) {
        return false;
    }
    ret->reason = (enum dbk_forget_reason)reason;
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        ret->counters[i] = dbk_get_u64(in->body + 16 + 8 * (size_t)i);
    }
    ret->ranges_ = in->body + 56;
    ret->orphans_ = ret->ranges_ + 16 * (size_t)ret->range_count;
    return true;
}

struct dbk_range dbk_forget_range_at(const struct dbk_forget_frame *frame, uint32_t i)
{
    const uint8_t *p = frame->ranges_ + 16 * (size_t)i;
    return (struct dbk_range){dbk_get_u64(p), dbk_get_u64(p + 8), frame->reason};
}

struct dbk_orphan dbk_forget_orphan_at(const struct dbk_forget_frame *frame, uint32_t i)
{
    return dbk_orphan_get(frame->orphans_ + ORPHAN_BYTES * (size_t)i);
}

/*
 * STATE: next_position u64, newest_accepted_at i64, accepted u64, five counters u64, next_consumer_id
 * u32, consumers u32, orphans u32, zero u32, events_max u64, bytes_max u64; consumers {id u32, zero
 * u32, start position u64, start time i64, token floor u64, name 64 with zeros}; orphans.
 */
void dbk_consumer_put(uint8_t *out, const struct dbk_consumer_restated *consumer)
{
    dbk_put_u32(out, consumer->id);
    dbk_put_u64(out + 8, consumer->start.position);
    dbk_put_i64(out + 16, consumer->start.time_us);
    dbk_put_u64(out + 24, consumer->token_floor);
    memcpy(out + 32, consumer->name, strnlen(consumer->name, CONSUMER_NAME_BYTES - 1));
}

bool dbk_consumer_get(const uint8_t *in, struct dbk_consumer_restated *ret)
{
    *ret = (struct dbk_consumer_restated){
        .id = dbk_get_u32(in),
        .name = (const char *)in + 32,
        .start = {.position = dbk_get_u64(in + 8), .time_us = dbk_get_i64(in + 16)},
        .token_floor = dbk_get_u64(in + 24)};
    return in[32] != 0 && in[CONSUMER_RESTATED_BYTES - 1] == 0;
}

size_t dbk_state_frame_encode(uint8_t *out, const struct dbk_state_frame *frame, uint8_t flags,
                              const struct dbk_consumer_restated *consumers,
                              const struct dbk_orphan *orphans)
{
    size_t len = 96 + CONSUMER_RESTATED_BYTES * (size_t)frame->consumer_count +
                 ORPHAN_BYTES * (size_t)frame->orphan_count;
    uint8_t *p = begin(out, DBK_FRAME_STATE, flags, 0, 0, len);
    memset(p, 0, len);
    dbk_put_u64(p, frame->next_position);
    dbk_put_i64(p + 8, frame->newest_accepted_at_us);
    dbk_put_u64(p + 16, frame->counters.accepted);
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        dbk_put_u64(p + 24 + 8 * (size_t)i, frame->counters.forgotten[i]);
    }
    dbk_put_u32(p + 64, frame->next_consumer_id);
    dbk_put_u32(p + 68, frame->consumer_count);
    dbk_put_u32(p + 72, frame->orphan_count);
    dbk_put_u64(p + 80, frame->events_max);
    dbk_put_u64(p + 88, frame->bytes_max);
    uint8_t *q = p + 96;
    for (uint32_t i = 0; i < frame->consumer_count; i++, q += CONSUMER_RESTATED_BYTES) {
        dbk_consumer_put(q, &consumers[i]);
    }
    for (uint32_t i = 0; i < frame->orphan_count; i++, q += ORPHAN_BYTES) {
        dbk_orphan_put(q, &orphans[i]);
    }
    return finish(out);
}

bool dbk_state_frame_decode(const struct dbk_frame *in, struct dbk_state_frame *ret)
{
    if (in->len < 96) {
        return false;
    }
    const uint8_t *p = in->body;
    ret->next_position = dbk_get_u64(p);
    ret->newest_accepted_at_us = dbk_get_i64(p + 8);
    ret->counters.accepted = dbk_get_u64(p + 16);
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        ret->counters.forgotten[i] = dbk_get_u64(p + 24 + 8 * (size_t)i);
    }
    ret->next_consumer_id = dbk_get_u32(p + 64);
    ret->consumer_count = dbk_get_u32(p + 68);
    ret->orphan_count = dbk_get_u32(p + 72);
    ret->events_max = dbk_get_u64(p + 80);
    ret->bytes_max = dbk_get_u64(p + 88);
    if (ret->consumer_count > DBK_STATE_CONSUMERS_MAX ||
        96 + CONSUMER_RESTATED_BYTES * (uint64_t)ret->consumer_count +
                ORPHAN_BYTES * (uint64_t)ret->orphan_count !=
            in->len) {
        return false;
    }
    ret->consumers_ = p + 96;
    ret->orphans_ = ret->consumers_ + CONSUMER_RESTATED_BYTES * (size_t)ret->consumer_count;
    for (uint32_t i = 0; i < ret->consumer_count; i++) {
        struct dbk_consumer_restated one;
        if (!dbk_consumer_get(ret->consumers_ + CONSUMER_RESTATED_BYTES * (size_t)i, &one)) {
            return false;
        }
    }
    return true;
}

struct dbk_consumer_restated dbk_state_consumer_at(const struct dbk_state_frame *frame, uint32_t i)
{
    struct dbk_consumer_restated one;
    (void)dbk_consumer_get(frame->consumers_ + CONSUMER_RESTATED_BYTES * (size_t)i, &one);
    return one;
}

struct dbk_orphan dbk_state_orphan_at(const struct dbk_state_frame *frame, uint32_t i)
{
    return dbk_orphan_get(frame->orphans_ + ORPHAN_BYTES * (size_t)i);
}

/* LINK: predecessor u32, skipped u32, end u32, last hcrc u32, last group_no u64, events u64, frames u64,
 * set aside u64, zeros 16. */
size_t dbk_link_frame_encode(uint8_t *out, const struct dbk_link_frame *frame)
{
    uint8_t *p = begin(out, DBK_FRAME_LINK, 0, 0, 0, 64);
    memset(p, 0, 64);
    dbk_put_u32(p, frame->predecessor);
    dbk_put_u32(p + 4, frame->skipped);
    dbk_put_u32(p + 8, frame->end);
    dbk_put_u32(p + 12, frame->last_hcrc);
    dbk_put_u64(p + 16, frame->last_group_no);
    dbk_put_u64(p + 24, frame->events);
    dbk_put_u64(p + 32, frame->frames);
    dbk_put_u64(p + 40, frame->set_aside_bytes);
    return finish(out);
}

bool dbk_link_frame_decode(const struct dbk_frame *in, struct dbk_link_frame *ret)
{
    if (in->len != 64) {
        return false;
    }
    const uint8_t *p = in->body;
    ret->predecessor = dbk_get_u32(p);
    ret->skipped = dbk_get_u32(p + 4);
    ret->end = dbk_get_u32(p + 8);
    ret->last_hcrc = dbk_get_u32(p + 12);
    ret->last_group_no = dbk_get_u64(p + 16);
    ret->events = dbk_get_u64(p + 24);
    ret->frames = dbk_get_u64(p + 32);
    ret->set_aside_bytes = dbk_get_u64(p + 40);
    return true;
}

/* TRIM: lowest segment still needed u64, flags u32, zero u32. */
size_t dbk_trim_frame_encode(uint8_t *out, const struct dbk_trim_frame *frame)
{
    uint8_t *p = begin(out, DBK_FRAME_TRIM, 0, 0, 0, 16);
    dbk_put_u64(p, frame->lowest_segment_no);
    dbk_put_u32(p + 8, frame->by_checkpoint ? TRIM_BY_CHECKPOINT : 0);
    dbk_put_u32(p + 12, 0);
    return finish(out);
}

bool dbk_trim_frame_decode(const struct dbk_frame *in, struct dbk_trim_frame *ret)
{
    if (in->len != 16 || dbk_get_u64(in->body) > UINT32_MAX) {
        return false;
    }
    uint32_t flags = dbk_get_u32(in->body + 8);
    *ret = (struct dbk_trim_frame){.lowest_segment_no = (uint32_t)dbk_get_u64(in->body),
                                   .by_checkpoint = (flags & TRIM_BY_CHECKPOINT) != 0};
    return (flags & ~(uint32_t)TRIM_BY_CHECKPOINT) == 0 && dbk_get_u32(in->body + 12) == 0;
}

size_t dbk_relocate_frame_encode(uint8_t *out, const struct dbk_frame *inner)
{
    uint8_t *p = begin(out, DBK_FRAME_RELOCATE, 0, 1, inner->position, 8 + (size_t)inner->len);
    memset(p, 0, 8);
    p[0] = inner->type;
    p[1] = inner->flags;
    dbk_put_u16(p + 2, inner->count);
    memcpy(p + 8, inner->body, inner->len);
    return finish(out);
}

size_t dbk_relocate_event_encode(uint8_t *out, uint64_t position, const uint8_t *entry,
                                 uint32_t entry_bytes)
{
    struct dbk_entry decoded;
    size_t whole = dbk_round_up(entry_bytes, 8);
    size_t len;
    uint32_t bcrc;
    bool records;
    if (dbk_entry_decode(entry, entry_bytes, &decoded, &len) == DBK_ENTRY_BAD || len != whole) {
        return 0;
    }
    uint8_t *p = begin(out, DBK_FRAME_RELOCATE, 0, 1, position, 8 + whole);
    memset(p, 0, 8);
    p[0] = DBK_FRAME_EVENT;
    dbk_put_u16(p + 2, 1);
    memcpy(p + 8, entry, entry_bytes);
    memset(p + 8 + entry_bytes, 0, whole - entry_bytes);
    /* As in an EVENT, so that a record that rots is one damaged record here too. */
    bool read = event_body_crc(p + 8, whole, 1, dbk_crc32c(0, p, 8), &bcrc, &records);
    dbk_assert(read);
    dbk_put_u32(out + 8, bcrc);
    return DBK_FRAME_HEADER_BYTES + 8 + whole;
}

bool dbk_frame_read(const uint8_t *in, size_t len, struct dbk_frame *ret)
{
    if (len < DBK_FRAME_HEADER_BYTES || dbk_get_u32(in + 4) != len - DBK_FRAME_HEADER_BYTES ||
        dbk_crc32c(0, in + DBK_FRAME_HEADER_BYTES, len - DBK_FRAME_HEADER_BYTES) !=
            dbk_get_u32(in + 8)) {
        return false;
    }
    *ret = (struct dbk_frame){.type = in[12],
                              .flags = in[13],
                              .count = dbk_get_u16(in + 14),
                              .len = dbk_get_u32(in + 4),
                              .position = dbk_get_u64(in + 16),
                              .body = in + DBK_FRAME_HEADER_BYTES};
    return true;
}

/* RELOCATE: type u8, flags u8, count u16, zero u32 of the frame that was copied; its body. The position
 * stands in the header. */
bool dbk_relocate_frame_decode(const struct dbk_frame *in, struct dbk_frame *ret_inner)
{
    if (in->len < 8) {
        return false;
    }
    ret_inner->type = in->body[0];
    ret_inner->flags = in->body[1];
    ret_inner->count = dbk_get_u16(in->body + 2);
    ret_inner->len = in->len - 8;
    ret_inner->position = in->position;
    ret_inner->body = in->body + 8;
    /* so that lsn + header leads to the body, as in any frame */
    ret_inner->lsn = in->lsn + 8;
    return true;
}
