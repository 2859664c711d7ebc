/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of checkpoints and segment indexes: any bytes are one or the other, as the first byte says
 * (bit 0: an index), with checksums put right before (bit 1), so that what is behind them is reached too.
 * Decoded, and a checkpoint loaded into a state whose events are then given places: nothing crashes, nothing
 * is read too far, and nothing is made larger than the limits of the state.
 */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "engines/log/image.h"
#include "engines/log/segment_index.h"

#define EVENTS_MAX 4096u
#define SALT UINT64_C(0x1122334455667788)

static void mend_checkpoint(uint8_t *bytes, size_t len)
{
    uint8_t seed[8];
    size_t at = DBK_CHECKPOINT_HEADER_BYTES;
    uint32_t number = 0;
    if (len < at) {
        return;
    }
    memcpy(bytes, "DAYBOOKC", 8);
    memcpy(seed, bytes + 32, sizeof seed);
    for (; len - at >= DBK_SECTION_HEADER_BYTES; number++) {
        uint8_t *section = bytes + at;
        size_t body = (size_t)(dbk_get_u64(section + 16) & 0xFFFF);
        body =
            body < len - at - DBK_SECTION_HEADER_BYTES ? body : len - at - DBK_SECTION_HEADER_BYTES;
        dbk_put_u64(section + 16, body);
        dbk_put_u32(section + 24, dbk_crc32c(0, section + DBK_SECTION_HEADER_BYTES, body));
        dbk_put_u32(section + 28, number);
        dbk_put_u32(section, dbk_crc32c(dbk_crc32c(0, seed, sizeof seed), section + 4,
                                        DBK_SECTION_HEADER_BYTES - 4));
        at += DBK_SECTION_HEADER_BYTES + body;
    }
    dbk_put_u64(bytes + 40, len);
    dbk_put_u32(bytes + 48, number);
    dbk_put_u32(bytes + 124, dbk_crc32c(0, bytes, 124));
}

/* Gives every event of the checkpoint a place and ends loading. */
static void place_all(struct dbk_state *state, const struct dbk_checkpoint *checkpoint)
{
    const struct dbk_section *chunks = dbk_checkpoint_section(checkpoint, DBK_SECTION_CHUNKS, 0);
    uint64_t missing = 0;
    for (uint64_t i = 0; i < chunks->count; i++) {
        uint64_t base = dbk_get_u64(dbk_section_entry(chunks, i));
        for (unsigned bit = 0; bit < 64; bit++) {
            struct dbk_event_meta meta = {.position = base + bit,
                                          .id_hash = (base + bit) * UINT64_C(0x9E3779B97F4A7C15),
                                          .key_hash = bit % 5,
                                          .place = {1, 4096 + 64 * bit, 64},
                                          .payload_bytes = 10,
                                          .row_version = 1};
            dbk_state_load_place(state, &meta);
        }
    }
    FUZZ_PROMISE(dbk_state_load_end(state, &missing));
    (void)dbk_state_audit(state); /* it may contradict itself in what it says of a lease */
}

static void checkpoint(const uint8_t *bytes, size_t len)
{
    static struct dbk_checkpoint decoded;
    struct dbk_state_options options = {
        .events_max = EVENTS_MAX, .stored_max = EVENTS_MAX, .staged_max = 16, .attempts_max = 3};
    struct dbk_state *state = NULL;
    if (dbk_checkpoint_decode(bytes, len, &decoded) != DBK_DECODED_OK) {
        return;
    }
    if (dbk_state_new(&options, &state) != DAYBOOK_OK ||
        dbk_state_add_segment(state, 1) != DAYBOOK_OK) {
        abort();
    }
    if (dbk_state_load_begin(state, &decoded) == DAYBOOK_OK) {
        struct dbk_state_stats stats;
        dbk_state_stats(state, &stats);
        FUZZ_PROMISE(stats.stored_events <= EVENTS_MAX);
        place_all(state, &decoded);
    }
    dbk_state_free(state);
}

static void segment_index(uint8_t *bytes, size_t len, bool mended)
{
    struct dbk_index_header header;
    struct dbk_index_entry entry;
    if (len < DBK_BLOCK_BYTES) {
        return;
    }
    if (mended) {
        memcpy(bytes, "DAYBOOKI", 8);
        dbk_put_u32(bytes + DBK_BLOCK_BYTES - 4, dbk_crc32c(0, bytes, DBK_BLOCK_BYTES - 4));
    }
    if (dbk_index_header_decode(bytes, &header) != DBK_DECODED_OK) {
        return;
    }
    for (size_t at = DBK_BLOCK_BYTES; len - at >= DBK_BLOCK_BYTES; at += DBK_BLOCK_BYTES) {
        if (mended) {
            dbk_index_block_seal(bytes + at, SALT, at / DBK_BLOCK_BYTES);
        }
        if (!dbk_index_block_check(bytes + at, SALT, at / DBK_BLOCK_BYTES)) {
            continue;
        }
        for (unsigned i = 0; i < DBK_INDEX_BLOCK_ENTRIES; i++) {
            uint8_t again[DBK_INDEX_ENTRY_BYTES];
            const uint8_t *p = bytes + at + (size_t)i * DBK_INDEX_ENTRY_BYTES;
            if (dbk_index_entry_decode(p, &header, &entry)) {
                FUZZ_PROMISE((uint64_t)entry.meta.place.offset + entry.meta.place.len <=
                             header.end);
                dbk_index_entry_encode(&entry, again);
                FUZZ_PROMISE(memcmp(again, p, sizeof again) == 0);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t len = size - 1;
    uint8_t *bytes = malloc(len + 1);
    if (bytes == NULL) {
        abort();
    }
    memcpy(bytes, data + 1, len);
    bool mended = (data[0] & 2) != 0;
    if ((data[0] & 1) != 0) {
        segment_index(bytes, len, mended);
    } else {
        if (mended) {
            mend_checkpoint(bytes, len);
        }
        checkpoint(bytes, len);
    }
    free(bytes);
    return 0;
}
