/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a sealed segment: see segment_index.h. Made by the housekeeper from the segment as it
 * stands on disk, so that making it and making it again are one thing.
 */
#include "engines/log/segment_index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault.h"
#include "engines/log/checkpoint.h"
#include "engines/log/log_impl.h"
#include "engines/log/scan.h"

static const char index_magic[8] = {'D', 'A', 'Y', 'B', 'O', 'O', 'K', 'I'};

enum {
    BLOCK_CRC_AT = DBK_BLOCK_BYTES - 4,
    ENTRY_DAMAGED = 1,
    ENTRY_RELOCATED = 2,
    BLOCKS_A_WRITE = 64,
    READ_BLOCKS = 256,
    PAUSE_EVERY_BYTES = 1 << 20, /* of the segment that is read */
    RETRY_US = 1000000
};

/* ---- bytes ------------------------------------------------------------------------------------- */

void dbk_index_header_encode(const struct dbk_index_header *header, uint8_t out[DBK_BLOCK_BYTES])
{
    memset(out, 0, DBK_BLOCK_BYTES);
    memcpy(out, index_magic, sizeof(index_magic));
    dbk_put_u16(out + 8, DBK_FORMAT_MAJOR);
    dbk_put_u16(out + 10, DBK_FORMAT_MINOR);
    dbk_put_u32(out + 12, DBK_BLOCK_BYTES);
    dbk_put_u32(out + 16, DBK_BLOCK_BYTES);
    dbk_put_u32(out + 20, DBK_INDEX_ENTRY_BYTES);
    memcpy(out + 24, header->uuid, 16);
    dbk_put_u64(out + 40, header->segment_no);
    dbk_put_u64(out + 48, header->salt);
    dbk_put_u64(out + 56, header->end);
    dbk_put_u64(out + 64, header->entries);
    dbk_put_i64(out + 96, header->created_us);
    dbk_put_u32(out + BLOCK_CRC_AT, dbk_crc32c(0, out, BLOCK_CRC_AT));
}

enum dbk_decoded dbk_index_header_decode(const uint8_t in[DBK_BLOCK_BYTES],
                                         struct dbk_index_header *ret)
{
    if (memcmp(in, index_magic, sizeof(index_magic)) != 0 ||
        dbk_get_u32(in + BLOCK_CRC_AT) != dbk_crc32c(0, in, BLOCK_CRC_AT)) {
        return DBK_DECODED_BAD;
    }
    if (dbk_get_u16(in + 8) > DBK_FORMAT_MAJOR || dbk_get_u64(in + 72) != 0) {
        return DBK_DECODED_NEWER;
    }
    memcpy(ret->uuid, in + 24, 16);
    ret->segment_no = dbk_get_u64(in + 40);
    ret->salt = dbk_get_u64(in + 48);
    ret->end = dbk_get_u64(in + 56);
    ret->entries = dbk_get_u64(in + 64);
    ret->created_us = dbk_get_i64(in + 96);
    bool fits = dbk_get_u32(in + 16) == DBK_BLOCK_BYTES &&
                dbk_get_u32(in + 20) == DBK_INDEX_ENTRY_BYTES && ret->segment_no <= UINT32_MAX &&
                ret->end <= DBK_SEGMENT_BYTES_MAX && ret->entries <= ret->end / 8;
    return fits ? DBK_DECODED_OK : DBK_DECODED_BAD;
}

void dbk_index_entry_encode(const struct dbk_index_entry *entry, uint8_t out[DBK_INDEX_ENTRY_BYTES])
{
    const struct dbk_event_meta *meta = &entry->meta;
    dbk_put_u64(out, meta->position);
    dbk_put_u32(out + 8, meta->place.offset / 8);
    dbk_put_u32(out + 12, meta->place.len);
    dbk_put_u64(out + 16, meta->id_hash);
    dbk_put_u64(out + 24, meta->key_hash);
    dbk_put_i64(out + 32, meta->observed_at_us);
    dbk_put_i64(out + 40, meta->accepted_at_us);
    dbk_put_u32(out + 48, meta->payload_bytes);
    dbk_put_u32(out + 52, entry->record_crc);
    dbk_put_u16(out + 56, meta->row_version);
    dbk_put_u16(out + 58, (uint16_t)((meta->damaged ? ENTRY_DAMAGED : 0) |
                                     (entry->relocated ? ENTRY_RELOCATED : 0)));
    dbk_put_u32(out + 60, 0);
}

bool dbk_index_entry_decode(const uint8_t in[DBK_INDEX_ENTRY_BYTES],
                            const struct dbk_index_header *header, struct dbk_index_entry *ret)
{
    uint64_t offset = (uint64_t)dbk_get_u32(in + 8) * 8;
    uint32_t len = dbk_get_u32(in + 12);
    uint16_t flags = dbk_get_u16(in + 58);
    *ret = (struct dbk_index_entry){
        .meta = {.position = dbk_get_u64(in),
                 .id_hash = dbk_get_u64(in + 16),
                 .key_hash = dbk_get_u64(in + 24),
                 .observed_at_us = dbk_get_i64(in + 32),
                 .accepted_at_us = dbk_get_i64(in + 40),
                 .place = {(uint32_t)header->segment_no, (uint32_t)offset, len},
                 .payload_bytes = dbk_get_u32(in + 48),
                 .row_version = dbk_get_u16(in + 56),
                 .damaged = (flags & ENTRY_DAMAGED) != 0},
        .record_crc = dbk_get_u32(in + 52),
        .relocated = (flags & ENTRY_RELOCATED) != 0};
    ret->meta.newer = ret->meta.row_version > DBK_ROW_VERSION;
    return offset >= DBK_BLOCK_BYTES && offset + len <= header->end && len < DBK_GROUP_BYTES_MAX &&
           ret->meta.payload_bytes <= len && ret->meta.position != 0 &&
           flags <= (ENTRY_DAMAGED | ENTRY_RELOCATED) && dbk_get_u32(in + 60) == 0;
}

static uint32_t block_crc(const uint8_t *block, uint64_t salt, uint64_t number)
{
    uint8_t seed[16];
    dbk_put_u64(seed, salt);
    dbk_put_u64(seed + 8, number);
    return dbk_crc32c(dbk_crc32c(0, seed, sizeof(seed)), block, BLOCK_CRC_AT);
}

void dbk_index_block_seal(uint8_t block[DBK_BLOCK_BYTES], uint64_t salt, uint64_t number)
{
    dbk_put_u32(block + BLOCK_CRC_AT, block_crc(block, salt, number));
}

bool dbk_index_block_check(const uint8_t block[DBK_BLOCK_BYTES], uint64_t salt, uint64_t number)
{
    return dbk_get_u32(block + BLOCK_CRC_AT) == block_crc(block, salt, number) ||
           dbk_fault(DBK_FAULT_INDEX_WITHOUT_CRC);
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void index_path(const char *directory, uint64_t segment_no, const char *suffix, char *ret)
{
    snprintf(ret, DBK_LOG_PATH_MAX, "%.*s/seg-%016" PRIx64 ".dbi%s", DBK_LOG_PATH_MAX - 64,
             directory, segment_no, suffix);
}

bool dbk_index_number(const char *name, uint32_t *ret)
{
    char segment[32];
    size_t len = strlen(name);
    if (len != 24 || strcmp(name + 20, ".dbi") != 0) {
        return false;
    }
    memcpy(segment, name, len);
    memcpy(segment + 20, ".dbl", 5);
    return dbk_segment_number(segment, ret);
}

/* Entries of a block that has passed. */
static bool visit_block(const uint8_t *block, const struct dbk_index_header *header, uint64_t left,
                        dbk_index_visit *visit, void *user)
{
    uint64_t n = left < DBK_INDEX_BLOCK_ENTRIES ? left : DBK_INDEX_BLOCK_ENTRIES;
    for (uint64_t i = 0; i < n; i++) {
        struct dbk_index_entry entry;
        if (!dbk_index_entry_decode(block + i * DBK_INDEX_ENTRY_BYTES, header, &entry) ||
            !visit(user, &entry)) {
            return false;
        }
    }
    return dbk_all_zero(block + n * DBK_INDEX_ENTRY_BYTES,
                        BLOCK_CRC_AT - n * DBK_INDEX_ENTRY_BYTES);
}

/* The blocks behind the header, through `buffer`. */
static enum dbk_index_state read_blocks(const struct dbk_os *os, int file, uint8_t *buffer,
                                        const struct dbk_index_header *header,
                                        dbk_index_visit *visit, void *user)
{
    uint64_t blocks = (header->entries + DBK_INDEX_BLOCK_ENTRIES - 1) / DBK_INDEX_BLOCK_ENTRIES;
    for (uint64_t at = 0; at < blocks;) {
        uint64_t want = blocks - at < READ_BLOCKS ? blocks - at : READ_BLOCKS;
        int64_t n =
            dbk_read_at(os, file, buffer, want * DBK_BLOCK_BYTES, (at + 1) * DBK_BLOCK_BYTES);
        if (n < 0) {
            return DBK_INDEX_UNREADABLE;
        }
        if ((uint64_t)n != want * DBK_BLOCK_BYTES) {
            return DBK_INDEX_BAD;
        }
        for (uint64_t i = 0; i < want; i++) {
            const uint8_t *block = buffer + i * DBK_BLOCK_BYTES;
            if (!dbk_index_block_check(block, header->salt, at + i + 1) ||
                !visit_block(block, header, header->entries - (at + i) * DBK_INDEX_BLOCK_ENTRIES,
                             visit, user)) {
                return DBK_INDEX_BAD;
            }
        }
        at += want;
    }
    return DBK_INDEX_OK;
}

enum dbk_index_state dbk_index_read(const struct dbk_os *os, const char *path,
                                    const struct dbk_index_header *expected, dbk_index_visit *visit,
                                    void *user)
{
    char name[DBK_LOG_PATH_MAX];
    struct dbk_index_header header = {.entries = 0};
    struct dbk_stat st;
    index_path(path, expected->segment_no, "", name);
    int file = os->open(os, name, DBK_OPEN_READ);
    if (file < 0) {
        return file == -ENOENT ? DBK_INDEX_MISSING : DBK_INDEX_UNREADABLE;
    }
    uint8_t *buffer = malloc((size_t)READ_BLOCKS * DBK_BLOCK_BYTES);
    int64_t n = buffer == NULL ? -ENOMEM : dbk_read_at(os, file, buffer, DBK_BLOCK_BYTES, 0);
    enum dbk_index_state state = n < 0 ? DBK_INDEX_UNREADABLE : DBK_INDEX_BAD;
    if (n == DBK_BLOCK_BYTES && dbk_index_header_decode(buffer, &header) == DBK_DECODED_OK &&
        memcmp(header.uuid, expected->uuid, 16) == 0 && header.segment_no == expected->segment_no &&
        header.salt == expected->salt && header.end == expected->end &&
        os->stat(os, name, &st) == 0) {
        uint64_t blocks = (header.entries + DBK_INDEX_BLOCK_ENTRIES - 1) / DBK_INDEX_BLOCK_ENTRIES;
        state = st.size_bytes == (blocks + 1) * DBK_BLOCK_BYTES
                    ? read_blocks(os, file, buffer, &header, visit, user)
                    : DBK_INDEX_BAD;
    }
    free(buffer);
    (void)os->close(os, file);
    return state;
}

/* ---- reading the segment itself ------------------------------------------------------------------ */

struct entries {
    const struct dbk_identity *identity;
    dbk_index_visit *visit;
    void *user;
    bool relocated;
    bool goes_on;
};

static void visit_event(void *user, const struct dbk_event_meta *meta,
                        const struct dbk_entry *event_entry)
{
    struct entries *entries = user;
    struct dbk_index_entry entry = {
        .meta = *meta, .record_crc = event_entry->record_crc, .relocated = entries->relocated};
    entries->goes_on = entries->goes_on && entries->visit(entries->user, &entry);
}

bool dbk_group_each_entry(const struct dbk_identity *identity,
                          const struct dbk_group_header *header, const uint8_t *group,
                          dbk_index_visit *visit, void *user)
{
    struct entries entries = {.identity = identity, .visit = visit, .user = user, .goes_on = true};
    size_t at = DBK_GROUP_HEADER_BYTES;
    struct dbk_frame frame;
    while (dbk_frame_next(group, header, &at, &frame)) {
        if (!dbk_frame_events(identity, &frame, &entries.relocated, visit_event, &entries) ||
            !entries.goes_on) {
            return false;
        }
    }
    return true;
}

static enum daybook_code visit_group(void *user, const struct dbk_scan_segment *segment,
                                     const struct dbk_group_header *header, const uint8_t *group,
                                     enum dbk_body_check check, struct daybook_error *err)
{
    const struct entries *entries = user;
    (void)check; /* each entry says itself whether its record fails */
    return dbk_group_each_entry(entries->identity, header, group, entries->visit, entries->user)
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_BUSY, "segment %u was not read on behind offset %u",
                          segment->segment_no, dbk_lsn_offset(header->lsn));
}

enum daybook_code dbk_segment_each_entry(const struct dbk_os *os, const char *path,
                                         const struct dbk_identity *identity, uint32_t segment_no,
                                         uint32_t end, dbk_index_visit *visit, void *user,
                                         struct daybook_error *err)
{
    struct entries entries = {.identity = identity, .visit = visit, .user = user};
    return dbk_scan_one(os, path, segment_no, end, visit_group, &entries, err);
}

/* ---- making one -------------------------------------------------------------------------------- */

struct maker {
    struct dbk_log *log;
    int file;
    int rc;
    uint8_t *buffer;
    uint32_t in_buffer; /* whole blocks, and entries of the one begun */
    uint32_t in_block;
    uint64_t blocks; /* written before */
    uint64_t entries;
    uint64_t salt;
    uint32_t paused_at; /* offset in the segment */
};

static int flush(struct maker *maker)
{
    int rc = dbk_write_all(maker->log->os, maker->file, maker->buffer,
                           (size_t)maker->in_buffer * DBK_BLOCK_BYTES,
                           (maker->blocks + 1) * DBK_BLOCK_BYTES);
    maker->blocks += maker->in_buffer;
    maker->in_buffer = 0;
    memset(maker->buffer, 0, (size_t)BLOCKS_A_WRITE * DBK_BLOCK_BYTES);
    return rc;
}

static void end_block(struct maker *maker)
{
    dbk_index_block_seal(maker->buffer + (size_t)maker->in_buffer * DBK_BLOCK_BYTES, maker->salt,
                         maker->blocks + maker->in_buffer + 1);
    maker->in_buffer++;
    maker->in_block = 0;
    if (maker->in_buffer == BLOCKS_A_WRITE) {
        maker->rc = flush(maker);
    }
}

static bool add_entry(void *user, const struct dbk_index_entry *entry)
{
    struct maker *maker = user;
    dbk_index_entry_encode(entry, maker->buffer + (size_t)maker->in_buffer * DBK_BLOCK_BYTES +
                                      (size_t)maker->in_block * DBK_INDEX_ENTRY_BYTES);
    maker->entries++;
    maker->in_block++;
    if (maker->in_block == DBK_INDEX_BLOCK_ENTRIES) {
        end_block(maker);
    }
    if (maker->rc >= 0 && entry->meta.place.offset - maker->paused_at >= PAUSE_EVERY_BYTES) {
        maker->paused_at = entry->meta.place.offset;
        maker->rc = dbk_work_pause(maker->log) ? 0 : -ECANCELED;
    }
    return maker->rc >= 0;
}

static int write_index(struct maker *maker, uint32_t segment_no, uint32_t end)
{
    uint8_t block[DBK_BLOCK_BYTES];
    struct dbk_log *log = maker->log;
    struct dbk_index_header header = {.segment_no = segment_no,
                                      .salt = maker->salt,
                                      .end = end,
                                      .created_us = log->os->realtime_us(log->os)};
    memcpy(header.uuid, log->identity.uuid, sizeof(header.uuid));
    enum daybook_code code = dbk_segment_each_entry(log->os, log->path, &log->identity, segment_no,
                                                    end, add_entry, maker, NULL);
    if (code == DAYBOOK_DAMAGED) {
        dbk_segment_index_impossible(log, segment_no);
    }
    if (maker->rc < 0 || code != DAYBOOK_OK) {
        return maker->rc < 0 ? maker->rc : -EIO;
    }
    if (maker->in_block > 0) {
        end_block(maker);
    }
    int rc = maker->rc < 0 ? maker->rc : flush(maker);
    header.entries = maker->entries;
    dbk_index_header_encode(&header, block);
    return rc < 0 ? rc : dbk_write_all(log->os, maker->file, block, sizeof(block), 0);
}

/* Returns 0 or -errno. */
static int make(struct dbk_log *log, uint32_t segment_no, uint32_t end, uint64_t *ret_bytes)
{
    char temporary[DBK_LOG_PATH_MAX];
    char name[DBK_LOG_PATH_MAX];
    struct maker maker = {.log = log, .file = -1};
    index_path(log->path, segment_no, ".tmp", temporary);
    index_path(log->path, segment_no, "", name);
    int rc = dbk_scan_salt(log->os, log->path, segment_no, &maker.salt);
    maker.buffer = calloc(BLOCKS_A_WRITE, DBK_BLOCK_BYTES);
    if (rc < 0 || maker.buffer == NULL) {
        free(maker.buffer);
        return rc < 0 ? rc : -ENOMEM;
    }
    (void)log->os->unlink(log->os, temporary);
    maker.file = log->os->open(log->os, temporary, DBK_OPEN_CREATE_EXCL);
    rc = maker.file < 0 ? maker.file : write_index(&maker, segment_no, end);
    *ret_bytes = (maker.blocks + 1) * DBK_BLOCK_BYTES;
    rc = dbk_file_finish(log, maker.file, rc, temporary, name);
    free(maker.buffer);
    return rc;
}

/* The lowest sealed segment without an index that somebody still needs; 0: none. */
static uint32_t next_unindexed(struct dbk_log *log, uint32_t *ret_end)
{
    uint32_t found = 0;
    dbk_mutex_lock(&log->segments_lock);
    for (uint32_t i = 0; i < log->segment_count && found == 0; i++) {
        const struct dbk_segment *segment = &log->segments[i];
        if (segment->end != 0 && segment->index_bytes == 0 && !segment->no_index &&
            segment->segment_no >= log->trim_lowest) {
            found = segment->segment_no;
            *ret_end = segment->end;
        }
    }
    dbk_mutex_unlock(&log->segments_lock);
    return found;
}

bool dbk_index_round(struct dbk_log *log)
{
    uint32_t end = 0;
    uint64_t bytes = 0;
    if (log->checkpoints.index_failed_us != DAYBOOK_TIME_UNSET &&
        dbk_log_mono(log) - log->checkpoints.index_failed_us < RETRY_US) {
        return false;
    }
    uint32_t segment_no = next_unindexed(log, &end);
    if (segment_no == 0) {
        return false;
    }
    int rc = make(log, segment_no, end, &bytes);
    log->checkpoints.index_failed_us = rc < 0 ? dbk_log_mono(log) : DAYBOOK_TIME_UNSET;
    if (rc == 0) {
        dbk_segment_indexed(log, segment_no, bytes);
    }
    return rc == 0;
}

void dbk_index_remove(struct dbk_log *log, uint32_t segment_no)
{
    char name[DBK_LOG_PATH_MAX];
    index_path(log->path, segment_no, "", name);
    (void)log->os->unlink(log->os, name);
    dbk_segment_indexed(log, segment_no, 0);
}
