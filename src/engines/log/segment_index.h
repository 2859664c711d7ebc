/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a sealed segment: which events stand where in it, 64 bytes each, so that a start need not
 * read their records. docs/FORMAT.md, "Segment indexes", in C, and the file of it.
 *
 * Promises: an index has its name only once it is whole and durable; reading one believes nothing that
 * has not passed its checksum; one that is bad is made again from the segment, never trusted against it.
 * Bytes: pure, any thread. Files: whoever owns the directory.
 */
#ifndef DBK_ENGINES_LOG_SEGMENT_INDEX_H
#define DBK_ENGINES_LOG_SEGMENT_INDEX_H

#include "base/os.h"
#include "engines/log/format.h"

struct dbk_log;

enum {
    DBK_INDEX_ENTRY_BYTES = 64,
    DBK_INDEX_BLOCK_ENTRIES = 63,
    DBK_INDEX_FLAGS_AT =
        58 /* in an entry: 1: its record failed its checksum when the index was made */
};

/* What an index says of itself. It fits its segment when all but the number of entries is as expected. */
struct dbk_index_header {
    uint8_t uuid[16];
    uint64_t segment_no;
    uint64_t salt; /* of the segment */
    uint64_t end;  /* likewise, as the LINK of its successor says */
    uint64_t entries;
    int64_t created_us;
};
void dbk_index_header_encode(const struct dbk_index_header *header, uint8_t out[DBK_BLOCK_BYTES]);
enum dbk_decoded dbk_index_header_decode(const uint8_t in[DBK_BLOCK_BYTES],
                                         struct dbk_index_header *ret);

/* One event entry of a segment. */
struct dbk_index_entry {
    struct dbk_event_meta meta;
    uint32_t record_crc;
    bool relocated;
};
void dbk_index_entry_encode(const struct dbk_index_entry *entry,
                            uint8_t out[DBK_INDEX_ENTRY_BYTES]);
/* False: no entry of this segment. */
bool dbk_index_entry_decode(const uint8_t in[DBK_INDEX_ENTRY_BYTES],
                            const struct dbk_index_header *header, struct dbk_index_entry *ret);
/* Fills in the checksum of block `number` (from 1), or compares it. */
void dbk_index_block_seal(uint8_t block[DBK_BLOCK_BYTES], uint64_t salt, uint64_t number);
bool dbk_index_block_check(const uint8_t block[DBK_BLOCK_BYTES], uint64_t salt, uint64_t number);

/* The number of the segment whose index has this name. False: it is none. */
bool dbk_index_number(const char *name, uint32_t *ret);

/* An entry met. False ends the reading. */
typedef bool dbk_index_visit(void *user, const struct dbk_index_entry *entry);

enum dbk_index_state {
    DBK_INDEX_OK,
    DBK_INDEX_MISSING,
    DBK_INDEX_BAD,       /* not whole, not of this segment, or a checksum fails */
    DBK_INDEX_UNREADABLE /* the device gives an error */
};
/* Reads the index of a segment in the directory `path`. `expected`: what its header has to say, but for
 * `entries` and `created_us`. Entries are visited as their blocks pass, also of one that turns out bad. */
enum dbk_index_state dbk_index_read(const struct dbk_os *os, const char *path,
                                    const struct dbk_index_header *expected, dbk_index_visit *visit,
                                    void *user);

/* Visits every event entry of a sealed segment, read from the segment itself. Not OK: as scan.h. */
enum daybook_code dbk_segment_each_entry(const struct dbk_os *os, const char *path,
                                         const struct dbk_identity *identity, uint32_t segment_no,
                                         uint32_t end, dbk_index_visit *visit, void *user,
                                         struct daybook_error *err);
/* The same for a group that was read already. False: an event cannot be decoded, or the visit ended it. */
bool dbk_group_each_entry(const struct dbk_identity *identity,
                          const struct dbk_group_header *header, const uint8_t *group,
                          dbk_index_visit *visit, void *user);

/* One index that is missing is made. Returns whether one was. Housekeeper. */
bool dbk_index_round(struct dbk_log *log);
/* Removes the index of a segment that goes. */
void dbk_index_remove(struct dbk_log *log, uint32_t segment_no);

#endif
