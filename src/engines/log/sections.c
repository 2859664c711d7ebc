/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a checkpoint (P): see sections.h and docs/FORMAT.md, which has the layout.
 */
#include "engines/log/sections.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"

static const char checkpoint_magic[8] = {'D', 'A', 'Y', 'B', 'O', 'O', 'K', 'C'};

enum { HEADER_CRC_AT = 124, JOURNAL_RELOCATED = 1, JOURNAL_TRIM_BY_CHECKPOINT = 1 };

static uint32_t entry_bytes_of(enum dbk_section_kind kind)
{
    static const uint32_t bytes[] = {
        [DBK_SECTION_JOURNAL] = 136, [DBK_SECTION_SEGMENTS] = 16,    [DBK_SECTION_CONSUMERS] = 96,
        [DBK_SECTION_CHUNKS] = 24,   [DBK_SECTION_DELIVERY] = 32,    [DBK_SECTION_LEASES] = 56,
        [DBK_SECTION_ORPHANS] = 40,  [DBK_SECTION_QUARANTINES] = 24, [DBK_SECTION_TRAIL] = 24,
        [DBK_SECTION_DAMAGED] = 8};
    return bytes[kind];
}

/* A section header is bound to its checkpoint. */
static uint32_t section_hcrc(uint64_t lsn, const uint8_t *header)
{
    uint8_t seed[8];
    dbk_put_u64(seed, lsn);
    return dbk_crc32c(dbk_crc32c(0, seed, sizeof(seed)), header + 4, DBK_SECTION_HEADER_BYTES - 4);
}

/* ---- writing ----------------------------------------------------------------------------------- */

void dbk_image_begin(struct dbk_image *image, void *memory, size_t room)
{
    *image = (struct dbk_image){.memory = memory, .room = room, .len = DBK_CHECKPOINT_HEADER_BYTES};
    image->overflow = room < DBK_CHECKPOINT_HEADER_BYTES;
}

size_t dbk_section_bytes(enum dbk_section_kind kind, uint64_t entries)
{
    return DBK_SECTION_HEADER_BYTES + (size_t)entries * entry_bytes_of(kind);
}

static void section_end(struct dbk_image *image)
{
    if (image->section != 0 && !image->overflow) {
        dbk_put_u64(image->memory + image->section + 16,
                    image->len - image->section - DBK_SECTION_HEADER_BYTES);
    }
}

void dbk_image_section(struct dbk_image *image, enum dbk_section_kind kind, uint32_t subject)
{
    section_end(image);
    image->entry_bytes = entry_bytes_of(kind);
    if (image->overflow || image->room - image->len < DBK_SECTION_HEADER_BYTES) {
        image->overflow = true;
        return;
    }
    uint8_t *p = image->memory + image->len;
    memset(p, 0, DBK_SECTION_HEADER_BYTES);
    dbk_put_u16(p + 4, (uint16_t)kind);
    dbk_put_u32(p + 8, subject);
    dbk_put_u32(p + 12, image->entry_bytes);
    dbk_put_u32(p + 28, image->sections++);
    image->section = image->len;
    image->len += DBK_SECTION_HEADER_BYTES;
}

uint8_t *dbk_image_entry(struct dbk_image *image)
{
    uint8_t *p = image->spill;
    if (!image->overflow && image->room - image->len >= image->entry_bytes) {
        p = image->memory + image->len;
        image->len += image->entry_bytes;
    } else {
        image->overflow = true;
    }
    memset(p, 0, image->entry_bytes);
    return p;
}

void dbk_image_seal(struct dbk_image *image, const struct dbk_checkpoint_header *header)
{
    uint8_t *out = image->memory;
    dbk_assert(!image->overflow);
    section_end(image);
    image->section = 0;
    for (size_t at = DBK_CHECKPOINT_HEADER_BYTES; at < image->len;) {
        uint8_t *section = out + at;
        size_t len = (size_t)dbk_get_u64(section + 16);
        dbk_put_u32(section + 24, dbk_crc32c(0, section + DBK_SECTION_HEADER_BYTES, len));
        dbk_put_u32(section, section_hcrc(header->lsn, section));
        at += DBK_SECTION_HEADER_BYTES + len;
    }
    memset(out, 0, DBK_CHECKPOINT_HEADER_BYTES);
    memcpy(out, checkpoint_magic, sizeof(checkpoint_magic));
    dbk_put_u16(out + 8, DBK_FORMAT_MAJOR);
    dbk_put_u16(out + 10, DBK_FORMAT_MINOR);
    dbk_put_u32(out + 12, DBK_CHECKPOINT_HEADER_BYTES);
    memcpy(out + 16, header->uuid, 16);
    dbk_put_u64(out + 32, header->lsn);
    dbk_put_u64(out + 40, image->len);
    dbk_put_u32(out + 48, image->sections);
    dbk_put_i64(out + 80, header->created_us);
    dbk_put_u32(out + 88, header->epoch);
    dbk_put_u32(out + HEADER_CRC_AT, dbk_crc32c(0, out, HEADER_CRC_AT));
}

/* ---- entries ----------------------------------------------------------------------------------- */

void dbk_checkpoint_journal_put(uint8_t *out, const struct dbk_checkpoint_journal *journal)
{
    dbk_put_u64(out, journal->next_position);
    dbk_put_i64(out + 8, journal->newest_accepted_at_us);
    dbk_put_u64(out + 16, journal->published_last);
    dbk_put_u64(out + 24, journal->events_max);
    dbk_put_u64(out + 32, journal->bytes_max);
    dbk_put_u64(out + 40, journal->counters.accepted);
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        dbk_put_u64(out + 48 + 8 * (size_t)i, journal->counters.forgotten[i]);
    }
    dbk_put_u32(out + 88, journal->next_consumer_id);
    dbk_put_u32(out + 92, journal->relocated ? JOURNAL_RELOCATED : 0);
    dbk_put_u64(out + 96, journal->trim_lowest);
    dbk_put_u64(out + 104, journal->next_operation_no);
    dbk_put_u32(out + 112, journal->trim_by_checkpoint ? JOURNAL_TRIM_BY_CHECKPOINT : 0);
}

struct dbk_checkpoint_journal dbk_checkpoint_journal_get(const uint8_t *in)
{
    struct dbk_checkpoint_journal journal = {
        .next_position = dbk_get_u64(in),
        .newest_accepted_at_us = dbk_get_i64(in + 8),
        .published_last = dbk_get_u64(in + 16),
        .events_max = dbk_get_u64(in + 24),
        .bytes_max = dbk_get_u64(in + 32),
        .counters = {.accepted = dbk_get_u64(in + 40)},
        .next_consumer_id = dbk_get_u32(in + 88),
        .relocated = (dbk_get_u32(in + 92) & JOURNAL_RELOCATED) != 0,
        .trim_lowest = (uint32_t)dbk_get_u64(in + 96),
        .next_operation_no = dbk_get_u64(in + 104),
        .trim_by_checkpoint = (dbk_get_u32(in + 112) & JOURNAL_TRIM_BY_CHECKPOINT) != 0,
    };
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        journal.counters.forgotten[i] = dbk_get_u64(in + 48 + 8 * (size_t)i);
    }
    return journal;
}

/* ---- reading ----------------------------------------------------------------------------------- */

uint64_t dbk_checkpoint_length(const uint8_t *in, size_t len)
{
    bool sound = len >= DBK_CHECKPOINT_HEADER_BYTES &&
                 memcmp(in, checkpoint_magic, sizeof(checkpoint_magic)) == 0 &&
                 dbk_get_u32(in + HEADER_CRC_AT) == dbk_crc32c(0, in, HEADER_CRC_AT);
    return sound ? dbk_get_u64(in + 40) : 0;
}

static enum dbk_decoded header_decode(const uint8_t *in, size_t len,
                                      struct dbk_checkpoint_header *ret, uint32_t *ret_sections)
{
    uint64_t whole = dbk_checkpoint_length(in, len);
    if (whole == 0) {
        return DBK_DECODED_BAD;
    }
    if (dbk_get_u16(in + 8) > DBK_FORMAT_MAJOR || dbk_get_u64(in + 56) != 0) {
        return DBK_DECODED_NEWER;
    }
    memcpy(ret->uuid, in + 16, 16);
    ret->lsn = dbk_get_u64(in + 32);
    ret->created_us = dbk_get_i64(in + 80);
    ret->epoch = dbk_get_u32(in + 88);
    *ret_sections = dbk_get_u32(in + 48);
    bool fits = whole == len && *ret_sections <= DBK_SECTIONS_MAX;
    return fits ? DBK_DECODED_OK : DBK_DECODED_BAD;
}

/* One section at `in`, of which at most `len` bytes may be read. Returns its bytes, 0: it is none. */
static size_t section_decode(const uint8_t *in, size_t len, uint64_t lsn, uint32_t number,
                             struct dbk_section *ret)
{
    if (len < DBK_SECTION_HEADER_BYTES || dbk_get_u32(in) != section_hcrc(lsn, in)) {
        return 0;
    }
    unsigned kind = dbk_get_u16(in + 4);
    uint64_t bytes = dbk_get_u64(in + 16);
    if (kind < DBK_SECTION_JOURNAL || kind > DBK_SECTION_DAMAGED ||
        bytes > len - DBK_SECTION_HEADER_BYTES || dbk_get_u32(in + 28) != number) {
        return 0;
    }
    *ret = (struct dbk_section){.kind = (enum dbk_section_kind)kind,
                                .subject = dbk_get_u32(in + 8),
                                .entry_bytes = dbk_get_u32(in + 12),
                                .body = in + DBK_SECTION_HEADER_BYTES};
    if (ret->entry_bytes != entry_bytes_of(ret->kind) || bytes % ret->entry_bytes != 0 ||
        dbk_crc32c(0, ret->body, (size_t)bytes) != dbk_get_u32(in + 24)) {
        return 0;
    }
    ret->count = bytes / ret->entry_bytes;
    return DBK_SECTION_HEADER_BYTES + (size_t)bytes;
}

/* Whether section number i has the kind that stands there, and as many entries as it has to. */
static bool section_in_place(const struct dbk_checkpoint *c, uint32_t i, uint64_t consumers)
{
    static const enum dbk_section_kind last[] = {DBK_SECTION_ORPHANS, DBK_SECTION_QUARANTINES,
                                                 DBK_SECTION_TRAIL, DBK_SECTION_DAMAGED};
    const struct dbk_section *section = &c->sections[i];
    if (i < 4) {
        return section->kind == DBK_SECTION_JOURNAL + i && (i != 0 || section->count == 1);
    }
    if (i < 4 + 2 * consumers) {
        uint32_t id =
            dbk_get_u32(dbk_section_entry(&c->sections[DBK_SECTION_CONSUMERS - 1], (i - 4) / 2));
        bool delivery = i % 2 == 0;
        return section->kind == (delivery ? DBK_SECTION_DELIVERY : DBK_SECTION_LEASES) &&
               section->subject == id &&
               (!delivery || section->count == c->sections[DBK_SECTION_CHUNKS - 1].count);
    }
    return section->kind == last[i - 4 - 2 * consumers];
}

enum dbk_decoded dbk_checkpoint_decode(const uint8_t *in, size_t len, struct dbk_checkpoint *ret)
{
    uint32_t sections = 0;
    size_t at = DBK_CHECKPOINT_HEADER_BYTES;
    enum dbk_decoded decoded = header_decode(in, len, &ret->header, &sections);
    ret->section_count = 0;
    if (decoded != DBK_DECODED_OK) {
        return decoded;
    }
    for (uint32_t i = 0; i < sections; i++) {
        size_t n = section_decode(in + at, len - at, ret->header.lsn, i, &ret->sections[i]);
        if (n == 0) {
            return DBK_DECODED_BAD;
        }
        at += n;
        ret->section_count++;
    }
    if (at != len || sections < DBK_SECTION_CONSUMERS) {
        return DBK_DECODED_BAD;
    }
    uint64_t consumers = ret->sections[DBK_SECTION_CONSUMERS - 1].count;
    if (ret->sections[DBK_SECTION_CONSUMERS - 1].kind != DBK_SECTION_CONSUMERS ||
        consumers > DAYBOOK_CONSUMERS_MAX || sections != 8 + 2 * consumers) {
        return DBK_DECODED_BAD;
    }
    for (uint32_t i = 0; i < sections; i++) {
        if (!section_in_place(ret, i, consumers)) {
            return DBK_DECODED_BAD;
        }
    }
    return DBK_DECODED_OK;
}

const struct dbk_section *dbk_checkpoint_section(const struct dbk_checkpoint *checkpoint,
                                                 enum dbk_section_kind kind, uint32_t i)
{
    for (uint32_t at = 0; at < checkpoint->section_count; at++) {
        if (checkpoint->sections[at].kind == kind && i-- == 0) {
            return &checkpoint->sections[at];
        }
    }
    dbk_assert(false);
    return NULL;
}
