/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a checkpoint to memory: see resume.h.
 */
#include "engines/log/resume.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "engines/log/image.h"
#include "engines/log/log_impl.h"
#include "engines/log/segment_index.h"

static void load_journal(struct dbk_log *log, const struct dbk_checkpoint *checkpoint)
{
    struct dbk_checkpoint_journal journal = dbk_checkpoint_journal_get(
        dbk_section_entry(dbk_checkpoint_section(checkpoint, DBK_SECTION_JOURNAL, 0), 0));
    log->next_position = journal.next_position;
    log->newest_accepted_at_us = journal.newest_accepted_at_us;
    log->relocated = journal.relocated;
    log->trim_lowest = journal.trim_lowest;
    log->trim.lowest = journal.trim_lowest;
    log->trim.by_checkpoint = journal.trim_by_checkpoint;
    log->places.next_no = journal.next_operation_no;
}

static enum daybook_code load_places(struct dbk_log *log, const struct dbk_checkpoint *checkpoint)
{
    const struct dbk_section *section =
        dbk_checkpoint_section(checkpoint, DBK_SECTION_QUARANTINES, 0);
    enum daybook_code code = DAYBOOK_OK;
    for (uint64_t i = 0; i < section->count && code == DAYBOOK_OK; i++) {
        const uint8_t *p = dbk_section_entry(section, i);
        code = dbk_places_reserve(&log->places, log->state, 1);
        if (code == DAYBOOK_OK) {
            struct dbk_place place = {dbk_get_u32(p + 12), dbk_get_u32(p + 16),
                                      dbk_get_u32(p + 20)};
            dbk_places_note_evidence(&log->places, dbk_get_u32(p + 8), dbk_get_u64(p), place);
        }
    }
    section = dbk_checkpoint_section(checkpoint, DBK_SECTION_TRAIL, 0);
    for (uint64_t i = 0; i < section->count && code == DAYBOOK_OK; i++) {
        const uint8_t *p = dbk_section_entry(section, i);
        struct dbk_place place = {dbk_get_u32(p + 8), dbk_get_u32(p + 12), dbk_get_u32(p + 16)};
        dbk_places_note_operation(&log->places, dbk_get_u64(p), place);
    }
    return code;
}

/* Events that the checkpoint says have their place in a segment. */
static uint64_t events_in(const struct dbk_checkpoint *checkpoint, uint32_t segment_no)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, DBK_SECTION_SEGMENTS, 0);
    for (uint64_t i = 0; i < section->count; i++) {
        const uint8_t *p = dbk_section_entry(section, i);
        if (dbk_get_u64(p) == segment_no) {
            return dbk_get_u64(p + 8);
        }
    }
    return 0;
}

static bool place_entry(void *user, const struct dbk_index_entry *entry)
{
    struct dbk_log *log = user;
    dbk_state_load_place(log->state, &entry->meta);
    return true;
}

/* The events of a segment in front of the checkpoint's, from its index or from itself. */
static enum daybook_code load_segment(struct dbk_log *log, const struct dbk_scan_segment *segment,
                                      uint32_t end, struct daybook_error *err)
{
    struct dbk_index_header expected = {
        .segment_no = segment->segment_no, .salt = segment->salt, .end = end};
    memcpy(expected.uuid, log->identity.uuid, sizeof(expected.uuid));
    enum dbk_index_state state = dbk_index_read(log->os, log->path, &expected, place_entry, log);
    if (state == DBK_INDEX_OK) {
        return DAYBOOK_OK;
    }
    if (state == DBK_INDEX_BAD) {
        atomic_fetch_add(&log->checkpoints.bad_indexes, 1);
        dbk_segment_index_bad(log, segment->segment_no);
    }
    return dbk_segment_each_entry(log->os, log->path, &log->identity, segment->segment_no, end,
                                  place_entry, log, err);
}

/* The log's segments up to that of the checkpoint. */
static enum daybook_code load_segments(struct dbk_log *log, const struct dbk_scan *scan,
                                       const struct dbk_checkpoint_file *file,
                                       struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    for (uint32_t i = 0; i < scan->count && code == DAYBOOK_OK; i++) {
        const struct dbk_scan_segment *segment = &scan->segments[i];
        if (segment->segment_no >= dbk_lsn_segment(file->lsn)) {
            break;
        }
        if (!segment->linked || events_in(&file->decoded, segment->segment_no) == 0) {
            continue;
        }
        code = load_segment(log, segment, dbk_scan_used(scan, i), err);
    }
    return code;
}

static bool has_segment(const struct dbk_scan *scan, uint32_t segment_no)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->segments[i].segment_no == segment_no) {
            return scan->segments[i].linked;
        }
    }
    return false;
}

enum daybook_code dbk_resume_begin(struct dbk_log *log, const struct dbk_scan *scan,
                                   const struct dbk_checkpoint_file *file, bool *ret_usable,
                                   struct daybook_error *err)
{
    *ret_usable = true;
    if (!has_segment(scan, dbk_lsn_segment(file->lsn))) {
        *ret_usable = false;
        return dbk_fail(err, DAYBOOK_DAMAGED, "%s: the segment of a checkpoint is gone", log->path);
    }
    load_journal(log, &file->decoded);
    enum daybook_code code = dbk_state_load_begin(log->state, &file->decoded);
    if (code == DAYBOOK_DAMAGED) {
        *ret_usable = false;
        return dbk_fail(err, code, "%s: a checkpoint contradicts itself", log->path);
    }
    if (code == DAYBOOK_OK) {
        code = load_places(log, &file->decoded);
    }
    if (code != DAYBOOK_OK) {
        return dbk_fail(err, code, "%s: no memory to load a checkpoint", log->path);
    }
    return load_segments(log, scan, file, err);
}

static void place_event(void *user, const struct dbk_event_meta *meta,
                        const struct dbk_entry *entry)
{
    struct dbk_log *log = user;
    (void)entry;
    dbk_state_load_place(log->state, meta);
}

enum daybook_code dbk_resume_frame(struct dbk_log *log, const struct dbk_frame *frame,
                                   bool of_its_group, struct daybook_error *err)
{
    bool relocated = false;
    if (!dbk_frame_events(&log->identity, frame, &relocated, place_event, log)) {
        return dbk_fail(err, DAYBOOK_NEWER_FORMAT,
                        "%s: segment %u offset %u: an event that this version cannot read",
                        log->path, dbk_lsn_segment(frame->lsn), dbk_lsn_offset(frame->lsn));
    }
    if (!of_its_group) {
        return DAYBOOK_OK;
    }
    if (dbk_places_reserve(&log->places, log->state, 1) != DAYBOOK_OK) {
        return dbk_fail(err, DAYBOOK_NO_MEMORY, "%s: no memory to replay the log", log->path);
    }
    dbk_places_note(&log->places, frame);
    return DAYBOOK_OK;
}

enum daybook_code dbk_resume_end(struct dbk_log *log, struct daybook_error *err)
{
    uint64_t position = 0;
    if (dbk_state_load_end(log->state, &position)) {
        return DAYBOOK_OK;
    }
    return dbk_fail(err, DAYBOOK_DAMAGED,
                    "%s: the event at position %" PRIu64
                    " is stored, as a checkpoint says, and stands in no segment; nothing was "
                    "changed: restore a backup, or repair",
                    log->path, position);
}
