/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the log (P): docs/FORMAT.md in C. Encoding into and decoding out of plain memory; no
 * I/O, no allocation, no state. Whatever comes from disk is checked before it is believed: a length
 * only after the checksum over it. Threads: any.
 */
#ifndef DBK_ENGINES_LOG_FORMAT_H
#define DBK_ENGINES_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <daybook/event.h>

#include "engines/log/state.h"

enum {
    DBK_BLOCK_BYTES = 4096, /* groups start on it; the segment header is one */
    DBK_SECTOR_BYTES = 512, /* what a drive writes whole */
    DBK_GROUP_HEADER_BYTES = 64,
    DBK_FRAME_HEADER_BYTES = 24,
    DBK_ENTRY_FIXED_BYTES = 40,
    DBK_END_MARK_BYTES = 8,
    DBK_GROUP_BYTES_MAX = 1 << 20, /* header and body, without the last padding */
    DBK_FORMAT_FILE_BYTES = 128,
    DBK_FORMAT_MAJOR = 1,
    DBK_FORMAT_MINOR = 0,
    DBK_ROW_VERSION = 1 /* E7: of the events that this build writes */
};
#define DBK_SEGMENT_BYTES_MAX (UINT64_C(1) << 30)
/* What a body ends with, so that its last sector is never all zero. */
#define DBK_END_MARK                                                                               \
    {                                                                                              \
        0xE7, 'e', 'n', 'd', 0xE7, 'e', 'n', 'd'                                                   \
    }

/* A place in the log: segment number << 32 | byte offset. Grows over the life of a journal. */
static inline uint64_t dbk_lsn(uint64_t segment_no, uint64_t offset)
{
    return segment_no << 32 | offset;
}
static inline uint32_t dbk_lsn_segment(uint64_t lsn)
{
    return (uint32_t)(lsn >> 32);
}
static inline uint32_t dbk_lsn_offset(uint64_t lsn)
{
    return (uint32_t)lsn;
}

/* ---- files ----------------------------------------------------------------------------------------- */

struct dbk_identity { /* the file FORMAT */
    uint8_t uuid[16];
    uint64_t secret; /* seed of the keyed hashes */
    int64_t created_us;
};
void dbk_identity_encode(const struct dbk_identity *identity, uint8_t out[DBK_FORMAT_FILE_BYTES]);

struct dbk_segment_header {
    uint8_t uuid[16];
    uint64_t segment_no;
    uint64_t segment_bytes;
    uint64_t salt;
    int64_t created_us;
};
void dbk_segment_header_encode(const struct dbk_segment_header *header,
                               uint8_t out[DBK_BLOCK_BYTES]);

/* What decoding comes to. */
enum dbk_decoded {
    DBK_DECODED_OK,
    DBK_DECODED_BAD,      /* not what this build or an older one wrote */
    DBK_DECODED_NEWER,    /* intact, of a format or with a feature that this build does not know */
    DBK_DECODED_READ_ONLY /* intact, with a feature that allows reading only */
};
enum dbk_decoded dbk_identity_decode(const uint8_t in[DBK_FORMAT_FILE_BYTES],
                                     struct dbk_identity *ret);
enum dbk_decoded dbk_segment_header_decode(const uint8_t in[DBK_BLOCK_BYTES],
                                           struct dbk_segment_header *ret);

/* ---- groups ---------------------------------------------------------------------------------------- */

enum dbk_group_flag {
    DBK_GROUP_HAS_EVENTS = 1,
    DBK_GROUP_SYNC_REQUIRED = 2,
    DBK_GROUP_LINK = 4,
    DBK_GROUP_OPEN = 8,
    DBK_GROUP_NOTE = 16,
    DBK_GROUP_CLEAN = 32
};

struct dbk_group_header {
    uint64_t lsn;
    uint64_t group_no;
    uint64_t durable_lsn;
    uint32_t body_len; /* frames and end mark */
    uint32_t frame_count;
    uint32_t frames_crc;
    uint32_t prev_hcrc;
    uint64_t realtime_ms;
    uint32_t epoch;
    uint16_t flags;
    uint32_t hcrc; /* written by encode, checked by decode */
};
/* Encodes and fills in header->hcrc. */
void dbk_group_header_encode(struct dbk_group_header *header, uint64_t salt,
                             uint8_t out[DBK_GROUP_HEADER_BYTES]);
/* True when it is a header that was written for this place. */
bool dbk_group_header_decode(const uint8_t in[DBK_GROUP_HEADER_BYTES], uint64_t salt, uint64_t lsn,
                             struct dbk_group_header *ret);
/* Completes a group whose frames stand in `group + DBK_GROUP_HEADER_BYTES`, `frames_len` bytes: frame
 * checksums, end mark, header, zero padding up to the next block. header: lsn, group_no, durable_lsn,
 * prev_hcrc, realtime_ms, epoch and flags are given, the rest is filled in. Returns the bytes to
 * write. */
size_t dbk_group_seal(uint8_t *group, size_t frames_len, uint64_t salt,
                      struct dbk_group_header *header);

/* What checking the body of a group found. */
enum dbk_body_check {
    DBK_BODY_OK,
    DBK_BODY_RECORD_DAMAGED, /* only records fail their checksum: the frames stand */
    DBK_BODY_BAD             /* frames, end mark or padding */
};
/* Checks everything behind a valid header: `group` holds header, body and, where `padded_len` reaches
 * further, the padding. */
enum dbk_body_check dbk_group_check(const uint8_t *group, size_t padded_len, uint64_t salt,
                                    const struct dbk_group_header *header);

/* ---- frames ----------------------------------------------------------------------------------------- */

enum dbk_frame_type {
    DBK_FRAME_EVENT = 1,
    DBK_FRAME_CLAIM = 2,
    DBK_FRAME_SETTLE = 3,
    DBK_FRAME_QUARANTINE = 4,
    DBK_FRAME_ADMIN = 5,
    DBK_FRAME_FORGET = 6,
    DBK_FRAME_RELOCATE = 7,
    DBK_FRAME_STATE = 8,
    DBK_FRAME_TRIM = 9,
    DBK_FRAME_LINK = 10
};
enum dbk_frame_flag {
    DBK_FRAME_MAY_BE_SKIPPED = 1, /* an older build may pass over it */
    DBK_FRAME_CONTINUED = 2       /* STATE: another STATE follows */
};

struct dbk_frame {
    uint8_t type;
    uint8_t flags;
    uint16_t count;
    uint32_t len; /* of the body, a multiple of 8 */
    uint64_t position;
    uint64_t lsn; /* of the frame header */
    const uint8_t *body;
};
/* Whether the bytes at `in`, of which at most `len` may be read, are a frame that was written for this
 * place; *ret is filled in but for NONE. Needs no group around it, so that a damaged one gives what is
 * left of it. */
enum dbk_frame_check {
    DBK_FRAME_OK,
    DBK_FRAME_RECORD_DAMAGED, /* only records fail their checksum */
    DBK_FRAME_BODY_BAD,       /* the header holds, its body does not */
    DBK_FRAME_NONE
};
enum dbk_frame_check dbk_frame_check(const uint8_t *in, size_t len, uint64_t salt, uint64_t lsn,
                                     struct dbk_frame *ret);
/* Walks the frames of a checked group: *offset starts at DBK_GROUP_HEADER_BYTES and moves on. False at
 * the end. */
bool dbk_frame_next(const uint8_t *group, const struct dbk_group_header *header, size_t *offset,
                    struct dbk_frame *ret);

/* Encoders write header (without its checksum, which `dbk_group_seal` fills in) and body at `out` and
 * return the bytes used. The sizes are known before: */
#define DBK_CLAIM_FRAME_BYTES(n) (DBK_FRAME_HEADER_BYTES + 24u + 16u * (size_t)(n))
#define DBK_SETTLE_FRAME_BYTES(n) (DBK_FRAME_HEADER_BYTES + 24u + 24u * (size_t)(n))
#define DBK_FORGET_FRAME_BYTES(ranges, orphans)                                                    \
    (DBK_FRAME_HEADER_BYTES + 56u + 16u * (size_t)(ranges) + 40u * (size_t)(orphans))
#define DBK_QUARANTINE_FRAME_BYTES_MIN (DBK_FRAME_HEADER_BYTES + 24u)
#define DBK_QUARANTINE_FRAME_BYTES_MAX (DBK_FRAME_HEADER_BYTES + 24u + 2048u)
#define DBK_ADMIN_REGISTER_FRAME_BYTES (DBK_FRAME_HEADER_BYTES + 96u + 16u)
#define DBK_ADMIN_FRAME_BYTES_MAX (DBK_FRAME_HEADER_BYTES + 96u + 16u + 256u + 256u + 1024u)
#define DBK_TRIM_FRAME_BYTES (DBK_FRAME_HEADER_BYTES + 16u)
#define DBK_LINK_FRAME_BYTES (DBK_FRAME_HEADER_BYTES + 64u)
#define DBK_STATE_FRAME_BYTES(consumers, orphans)                                                  \
    (DBK_FRAME_HEADER_BYTES + 96u + 96u * (size_t)(consumers) + 40u * (size_t)(orphans))
#define DBK_STATE_CONSUMERS_MAX 64u

/* EVENT: one entry. */
struct dbk_entry {
    uint16_t row_version;
    int64_t observed_at_us;
    int64_t accepted_at_us;
    uint32_t record_crc;
    struct daybook_bytes request_id;
    struct daybook_bytes name_space;
    struct daybook_bytes subject;
    struct daybook_bytes record;
};
/* Bytes of an EVENT frame with this entry. */
size_t dbk_event_frame_bytes(const struct daybook_event *event);
size_t dbk_event_frame_encode(uint8_t *out, uint64_t position, const struct dbk_entry *entry);
/* Decodes the entry at `in`, of which at most `len` bytes may be read. *ret_len: the whole entry with
 * its last padding. The strings point into `in`. */
enum dbk_entry_check { DBK_ENTRY_OK, DBK_ENTRY_RECORD_DAMAGED, DBK_ENTRY_BAD };
enum dbk_entry_check dbk_entry_decode(const uint8_t *in, size_t len, struct dbk_entry *ret,
                                      size_t *ret_len);
/* Bytes of the entry without its last padding: what `struct dbk_place` holds. */
uint32_t dbk_entry_bytes(const struct dbk_entry *entry);

struct dbk_claim_frame {
    uint32_t consumer;
    uint32_t lease_ms;
    int64_t now_us;
    uint64_t first_token;
    uint32_t count;
    const uint8_t *entries_; /* decoded with dbk_claim_entry_at */
};
size_t dbk_claim_frame_begin(uint8_t *out, const struct dbk_claim_frame *frame);
void dbk_claim_entry_put(uint8_t *out, uint32_t i, const struct dbk_claim_entry *entry);
void dbk_frame_finish(uint8_t *out); /* checksum of the body, once it is complete */
bool dbk_claim_frame_decode(const struct dbk_frame *in, struct dbk_claim_frame *ret);
struct dbk_claim_entry dbk_claim_entry_at(const struct dbk_claim_frame *frame, uint32_t i);

struct dbk_settle_frame {
    uint32_t consumer;
    enum dbk_settle_op op;
    uint32_t lease_ms;
    int64_t now_us;
    uint32_t count;
    const uint8_t *entries_;
};
size_t dbk_settle_frame_encode(uint8_t *out, const struct dbk_settle_frame *frame,
                               const struct dbk_settle_entry *entries);
bool dbk_settle_frame_decode(const struct dbk_frame *in, struct dbk_settle_frame *ret);
struct dbk_settle_entry dbk_settle_entry_at(const struct dbk_settle_frame *frame, uint32_t i);

struct dbk_quarantine_frame {
    uint64_t position;
    uint32_t consumer;
    enum daybook_quarantine_reason reason;
    uint32_t attempts;
    int64_t at_us;
    struct daybook_bytes words;
};
size_t dbk_quarantine_frame_encode(uint8_t *out, const struct dbk_quarantine_frame *frame);
bool dbk_quarantine_frame_decode(const struct dbk_frame *in, struct dbk_quarantine_frame *ret);

enum dbk_admin_op {
    DBK_ADMIN_REGISTER = 1,
    DBK_ADMIN_RELEASE = 2,
    DBK_ADMIN_DISCARD = 3,
    DBK_ADMIN_RETIRE = 4,
    DBK_ADMIN_REWIND = 5,
    DBK_ADMIN_LIFT = 6
};
struct dbk_admin_frame {
    enum dbk_admin_op op;
    uint32_t consumer;
    uint64_t no; /* of the operation; 0: REGISTER, which is none of the trail */
    int64_t at_us;
    struct daybook_bytes who;
    struct daybook_bytes why;
    struct daybook_bytes name;       /* of the consumer, 1 to 63 */
    struct daybook_bytes request_id; /* of a single event, or empty */
    /* REGISTER */
    struct dbk_start start;
    /* REWIND */
    uint64_t token_floor;
    /* RELEASE, DISCARD */
    uint32_t position_count;
    const uint64_t *positions; /* for encoding */
    const uint8_t *positions_; /* decoded with dbk_admin_position_at */
};
size_t dbk_admin_frame_bytes(const struct dbk_admin_frame *frame);
size_t dbk_admin_frame_encode(uint8_t *out, const struct dbk_admin_frame *frame);
bool dbk_admin_frame_decode(const struct dbk_frame *in, struct dbk_admin_frame *ret);
uint64_t dbk_admin_position_at(const struct dbk_admin_frame *frame, uint32_t i);

struct dbk_forget_frame {
    enum dbk_forget_reason reason;
    uint64_t counters[DBK_FORGET_REASONS]; /* S5, after it */
    uint32_t range_count;
    uint32_t orphan_count;
    const uint8_t *ranges_;
    const uint8_t *orphans_;
};
/* Encodes those of the ranges that have this frame's reason. */
size_t dbk_forget_frame_encode(uint8_t *out, const struct dbk_forget_frame *frame,
                               const struct dbk_range *ranges, uint32_t range_count,
                               const struct dbk_orphan *orphans);
bool dbk_forget_frame_decode(const struct dbk_frame *in, struct dbk_forget_frame *ret);
struct dbk_range dbk_forget_range_at(const struct dbk_forget_frame *frame, uint32_t i);
struct dbk_orphan dbk_forget_orphan_at(const struct dbk_forget_frame *frame, uint32_t i);

struct dbk_state_frame {
    uint64_t next_position;
    int64_t newest_accepted_at_us;
    struct dbk_counters counters;
    uint32_t next_consumer_id;
    uint64_t events_max;
    uint64_t bytes_max;
    uint32_t consumer_count;
    uint32_t orphan_count;
    const uint8_t *consumers_;
    const uint8_t *orphans_;
};
size_t dbk_state_frame_encode(uint8_t *out, const struct dbk_state_frame *frame, uint8_t flags,
                              const struct dbk_consumer_restated *consumers,
                              const struct dbk_orphan *orphans);
bool dbk_state_frame_decode(const struct dbk_frame *in, struct dbk_state_frame *ret);
/* `name` is NUL-terminated in the frame. */
struct dbk_consumer_restated dbk_state_consumer_at(const struct dbk_state_frame *frame, uint32_t i);
struct dbk_orphan dbk_state_orphan_at(const struct dbk_state_frame *frame, uint32_t i);

/* One consumer of 96 bytes, one orphan of 40, as STATE and checkpoints have them. The room for a consumer
 * is zero before. False: it has no name that ends; else `name` points into `in`. */
void dbk_consumer_put(uint8_t *out, const struct dbk_consumer_restated *consumer);
bool dbk_consumer_get(const uint8_t *in, struct dbk_consumer_restated *ret);
void dbk_orphan_put(uint8_t *out, const struct dbk_orphan *orphan);
struct dbk_orphan dbk_orphan_get(const uint8_t *in);

struct dbk_link_frame {
    uint32_t predecessor; /* 0: this is the first segment */
    uint32_t skipped;     /* segment numbers between the two that hold nothing of the log */
    uint32_t end;         /* of the predecessor */
    uint32_t last_hcrc;
    uint64_t last_group_no;
    uint64_t events; /* in the predecessor */
    uint64_t frames;
    uint64_t set_aside_bytes; /* the predecessor ended in a crash: bytes behind its end */
};
size_t dbk_link_frame_encode(uint8_t *out, const struct dbk_link_frame *frame);
bool dbk_link_frame_decode(const struct dbk_frame *in, struct dbk_link_frame *ret);

struct dbk_trim_frame {
    uint32_t lowest_segment_no; /* that is still needed */
    bool
        by_checkpoint; /* segments went whose frames are needed but for a checkpoint: the log alone does
                           not tell the state any more */
};
size_t dbk_trim_frame_encode(uint8_t *out, const struct dbk_trim_frame *frame);
bool dbk_trim_frame_decode(const struct dbk_frame *in, struct dbk_trim_frame *ret);

/* RELOCATE: the frame that was copied. Its body's lsn is inside the RELOCATE frame. */
bool dbk_relocate_frame_decode(const struct dbk_frame *in, struct dbk_frame *ret_inner);

/* Of a frame that is no event. */
size_t dbk_relocate_frame_encode(uint8_t *out, const struct dbk_frame *inner);
/* Of an event entry of `entry_bytes` (as in `struct dbk_place`), byte for byte, a damaged record included; at
 * most DBK_RELOCATE_EVENT_FRAME_BYTES. 0: it is no entry, nothing was written. */
#define DBK_RELOCATE_EVENT_FRAME_BYTES(entry_bytes)                                                \
    (DBK_FRAME_HEADER_BYTES + 8u + (((size_t)(entry_bytes) + 7u) & ~(size_t)7))
size_t dbk_relocate_event_encode(uint8_t *out, uint64_t position, const uint8_t *entry,
                                 uint32_t entry_bytes);
/* A whole frame (no event) read back from its place, header included: its body matches its checksum. */
bool dbk_frame_read(const uint8_t *in, size_t len, struct dbk_frame *ret);

#endif
