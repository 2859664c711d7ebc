/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a checkpoint (P): docs/FORMAT.md, "Checkpoints", in C. Sections are written into memory of
 * the caller's, entry by entry, and sealed with their checksums afterwards; reading checks every length
 * and every checksum before anything is believed. No I/O, no allocation. Threads: any.
 */
#ifndef DBK_ENGINES_LOG_SECTIONS_H
#define DBK_ENGINES_LOG_SECTIONS_H

#include "engines/log/format.h"

enum {
    DBK_CHECKPOINT_HEADER_BYTES = 128,
    DBK_SECTION_HEADER_BYTES = 32,
    DBK_SECTIONS_MAX = 8 + 2 * DAYBOOK_CONSUMERS_MAX
};

enum dbk_section_kind {
    DBK_SECTION_JOURNAL = 1,
    DBK_SECTION_SEGMENTS = 2,
    DBK_SECTION_CONSUMERS = 3,
    DBK_SECTION_CHUNKS = 4,
    DBK_SECTION_DELIVERY = 5,
    DBK_SECTION_LEASES = 6,
    DBK_SECTION_ORPHANS = 7,
    DBK_SECTION_QUARANTINES = 8,
    DBK_SECTION_TRAIL = 9,
    DBK_SECTION_DAMAGED = 10
};

/* ---- writing ----------------------------------------------------------------------------------- */

/* Memory that a checkpoint is written into. */
struct dbk_image {
    uint8_t *memory;
    size_t room;
    size_t len;     /* 0: dbk_image_begin */
    size_t section; /* where the open one begins; 0: none */
    uint32_t sections;
    uint32_t entry_bytes;
    bool overflow;      /* it did not fit: nothing of it counts */
    uint8_t spill[256]; /* where entries go that do not fit */
};
void dbk_image_begin(struct dbk_image *image, void *memory, size_t room);
/* Ends the open section and begins the next one. */
void dbk_image_section(struct dbk_image *image, enum dbk_section_kind kind, uint32_t subject);
/* Room for the next entry of the open section, all zero. */
uint8_t *dbk_image_entry(struct dbk_image *image);
/* Bytes that a section with so many entries takes. */
size_t dbk_section_bytes(enum dbk_section_kind kind, uint64_t entries);

struct dbk_checkpoint_header {
    uint8_t uuid[16];
    uint64_t lsn;
    uint32_t epoch;
    int64_t created_us;
};
/* Ends the last section, fills in header and checksums. The bytes to write stand at image->memory,
 * image->len of them. */
void dbk_image_seal(struct dbk_image *image, const struct dbk_checkpoint_header *header);

/* ---- entries ----------------------------------------------------------------------------------- */

/* JOURNAL: what the log engine itself remembers. */
struct dbk_checkpoint_journal {
    uint64_t next_position;
    int64_t newest_accepted_at_us;
    uint64_t published_last;
    uint64_t events_max;
    uint64_t bytes_max;
    struct dbk_counters counters;
    uint32_t next_consumer_id;
    bool relocated; /* events were relocated */
    uint32_t trim_lowest;
    uint64_t next_operation_no;
    bool trim_by_checkpoint;
};
void dbk_checkpoint_journal_put(uint8_t *out, const struct dbk_checkpoint_journal *journal);
struct dbk_checkpoint_journal dbk_checkpoint_journal_get(const uint8_t *in);

/* CONSUMERS, ORPHANS: as in STATE (format.h). */

/* ---- reading ----------------------------------------------------------------------------------- */

struct dbk_section {
    enum dbk_section_kind kind;
    uint32_t subject;
    uint32_t entry_bytes;
    uint64_t count;
    const uint8_t *body;
};

/* A checkpoint whose checksums hold; borrows the bytes that it was decoded from. */
struct dbk_checkpoint {
    struct dbk_checkpoint_header header;
    uint32_t section_count;
    struct dbk_section sections[DBK_SECTIONS_MAX];
};
/* The length of the file that these bytes begin, 0: they begin no checkpoint. */
uint64_t dbk_checkpoint_length(const uint8_t *in, size_t len);
/* Whether these are all the bytes of a checkpoint, every checksum and the order of its sections. */
enum dbk_decoded dbk_checkpoint_decode(const uint8_t *in, size_t len, struct dbk_checkpoint *ret);
/* The first section of a kind; of DELIVERY and LEASES that of consumer number i in their order. There
 * is one: decoding saw to it. */
const struct dbk_section *dbk_checkpoint_section(const struct dbk_checkpoint *checkpoint,
                                                 enum dbk_section_kind kind, uint32_t i);
static inline const uint8_t *dbk_section_entry(const struct dbk_section *section, uint64_t i)
{
    return section->body + i * section->entry_bytes;
}

#endif
