/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first reading of a repair (survey.h).
 *
 * A gap between positions is no loss in itself: an append that was refused at its seal leaves one. It is
 * counted only where something of the log is missing between the two. What the bytes behind the newest
 * known position may have held is an upper bound, and called so.
 */
#include "engines/log/survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "engines/log/scan.h"

enum { EVENT_BYTES_LEAST = DBK_FRAME_HEADER_BYTES + DBK_ENTRY_FIXED_BYTES + 8 + 8 };

/* ---- positions ----------------------------------------------------------------------------------- */

static struct daybook_log_missing *add_missing(struct dbk_survey *survey)
{
    if (survey->missing_count == survey->missing_room) {
        uint32_t room = survey->missing_room == 0 ? 64 : survey->missing_room * 2;
        struct daybook_log_missing *grown = realloc(survey->missing, room * sizeof(*grown));
        if (grown == NULL) {
            survey->no_memory = true;
            return NULL;
        }
        survey->missing = grown;
        survey->missing_room = room;
    }
    return &survey->missing[survey->missing_count++];
}

static void miss(struct dbk_survey *survey, uint64_t first, uint64_t end)
{
    struct daybook_log_missing *missing = first < end ? add_missing(survey) : NULL;
    if (missing != NULL) {
        *missing = (struct daybook_log_missing){.first = first, .end = end};
        survey->missing_events += end - first;
    }
}

/* Everything below `end` has been looked for: what a hole took of it is missing. */
static void reach(struct dbk_survey *survey, uint64_t first, uint64_t end)
{
    if (survey->hole && first > survey->next_position) {
        miss(survey, survey->next_position, first);
    }
    if (end > survey->next_position) {
        survey->hole = false;
        survey->tail_events = 0;
        survey->next_position = end;
    }
}

static void name(struct dbk_survey *survey, uint64_t position)
{
    if (position != UINT64_MAX && position >= survey->named_end) {
        survey->named_end = position + 1;
    }
}

void dbk_survey_forget(struct dbk_survey *survey, struct dbk_range range)
{
    for (uint32_t i = 0; i < survey->missing_count; i++) {
        struct daybook_log_missing *m = &survey->missing[i];
        if (m->behind_newest || m->end <= range.first || m->first >= range.end) {
            continue;
        }
        struct daybook_log_missing above = *m;
        above.first = range.end;
        m->end = m->first < range.first ? range.first : m->first; /* what is left below */
        if (above.first < above.end) {
            struct daybook_log_missing *added = add_missing(survey);
            if (added != NULL) {
                memmove(&survey->missing[i + 2], &survey->missing[i + 1],
                        (survey->missing_count - i - 2) * sizeof(*added));
                survey->missing[i + 1] = above;
            }
        }
    }
}

/* ---- frames -------------------------------------------------------------------------------------- */

static struct dbk_survey_consumer *consumer_of(struct dbk_survey *survey, uint32_t id)
{
    for (uint32_t i = 0; i < survey->consumer_count; i++) {
        if (survey->consumers[i].id == id) {
            return &survey->consumers[i];
        }
    }
    if (survey->consumer_count == DBK_STATE_CONSUMERS_MAX) {
        return NULL;
    }
    struct dbk_survey_consumer *c = &survey->consumers[survey->consumer_count++];
    *c = (struct dbk_survey_consumer){.id = id};
    return c;
}

static void see_state(struct dbk_survey *survey, const struct dbk_frame *frame)
{
    struct dbk_state_frame state;
    if (!dbk_state_frame_decode(frame, &state)) {
        return;
    }
    bool base = !survey->other_frames && !survey->has_base;
    if (base) {
        survey->has_base = true;
        survey->base = state;
        survey->base_orphans = calloc(state.orphan_count + 1, sizeof(*survey->base_orphans));
        survey->no_memory = survey->no_memory || survey->base_orphans == NULL;
        for (uint32_t i = 0; survey->base_orphans != NULL && i < state.orphan_count; i++) {
            survey->base_orphans[i] = dbk_state_orphan_at(&state, i);
        }
        survey->hole = false;
    }
    for (uint32_t i = 0; i < state.consumer_count; i++) {
        struct dbk_consumer_restated restated = dbk_state_consumer_at(&state, i);
        struct dbk_survey_consumer *c = consumer_of(survey, restated.id);
        if (c == NULL) {
            continue;
        }
        snprintf(c->name, sizeof(c->name), "%s", restated.name);
        c->start = restated.start;
        c->token_floor = restated.token_floor;
        c->registered = c->registered || base;
    }
    if (state.next_consumer_id > survey->next_consumer_id) {
        survey->next_consumer_id = state.next_consumer_id;
    }
    survey->events_max =
        state.events_max > survey->events_max ? state.events_max : survey->events_max;
    survey->bytes_max = state.bytes_max;
    if (state.newest_accepted_at_us > survey->newest_accepted_at_us) {
        survey->newest_accepted_at_us = state.newest_accepted_at_us;
    }
    if (base) {
        survey->next_position = state.next_position; /* below it: another segment's */
    }
    /* No place in the order of positions: an event that was staged before the switch may follow. */
    name(survey, state.next_position - 1);
}

static void see_names(struct dbk_survey *survey, const struct dbk_frame *frame)
{
    union {
        struct dbk_claim_frame claim;
        struct dbk_settle_frame settle;
        struct dbk_admin_frame admin;
    } as;
    if (frame->type == DBK_FRAME_CLAIM && dbk_claim_frame_decode(frame, &as.claim)) {
        for (uint32_t i = 0; i < as.claim.count; i++) {
            name(survey, dbk_claim_entry_at(&as.claim, i).position);
        }
    } else if (frame->type == DBK_FRAME_SETTLE && dbk_settle_frame_decode(frame, &as.settle)) {
        for (uint32_t i = 0; i < as.settle.count; i++) {
            name(survey, dbk_settle_entry_at(&as.settle, i).position);
        }
    } else if (frame->type == DBK_FRAME_QUARANTINE) {
        name(survey, frame->position);
    } else if (frame->type == DBK_FRAME_ADMIN && dbk_admin_frame_decode(frame, &as.admin) &&
               as.admin.op == DBK_ADMIN_REGISTER) {
        struct dbk_survey_consumer *c = consumer_of(survey, as.admin.consumer);
        if (c != NULL) {
            c->registered = true;
        }
    }
}

static void see_frame(struct dbk_survey *survey, const struct dbk_salvage_item *item)
{
    const struct dbk_frame *frame = &item->frame;
    struct dbk_trim_frame trim;
    uint32_t bytes = DBK_FRAME_HEADER_BYTES + frame->len;
    survey->report->frames++;
    survey->frame_bytes_max = bytes > survey->frame_bytes_max ? bytes : survey->frame_bytes_max;
    survey->report->records_damaged += item->record_damaged ? 1 : 0;
    switch (frame->type) {
    case DBK_FRAME_EVENT:
        survey->events += frame->count;
        survey->report->events += frame->count;
        reach(survey, frame->position, frame->position + frame->count);
        break;
    case DBK_FRAME_STATE:
        see_state(survey, frame);
        break;
    case DBK_FRAME_TRIM:
        if (dbk_trim_frame_decode(frame, &trim)) {
            survey->lowest_segment = trim.lowest_segment_no;
        }
        break;
    default:
        see_names(survey, frame);
        break;
    }
    survey->other_frames =
        survey->other_frames || (frame->type != DBK_FRAME_LINK && frame->type != DBK_FRAME_STATE);
    if (item->record_damaged) {
        dbk_finding(&survey->findings, DBK_DAMAGE, item->segment->segment_no, item->offset,
                    "the record of the event at position %" PRIu64
                    " is damaged; it is kept, and quarantined as malformed when it is claimed",
                    frame->position);
    }
}

static void see_group(struct dbk_survey *survey, const struct dbk_salvage_item *item)
{
    const struct dbk_group_header *group = item->group;
    if (group->group_no != survey->group_no + 1 && survey->group_no != 0) {
        survey->hole = true;
    }
    survey->group_no = group->group_no;
    survey->epoch = group->epoch > survey->epoch ? group->epoch : survey->epoch;
    survey->proof_lsn =
        group->durable_lsn > survey->proof_lsn ? group->durable_lsn : survey->proof_lsn;
    survey->last_end_lsn = dbk_lsn(item->segment->segment_no, item->end);
}

/* The bytes that may have held events where nothing holds: whole blocks, for what is left of one may be less than
 * what stood there, and where only a number tells that groups are missing, all since the last one. */
static uint64_t bytes_lost(const struct dbk_survey *survey, const struct dbk_salvage_item *item)
{
    uint64_t at = dbk_lsn(item->segment->segment_no, item->offset);
    uint64_t bytes = item->end - item->offset;
    bool same = dbk_lsn_segment(survey->last_end_lsn) == item->segment->segment_no;
    if (item->offset == 0) {
        return 0; /* a header */
    }
    if (bytes == 0) {
        return same && at > survey->last_end_lsn ? at - survey->last_end_lsn : 0;
    }
    return item->offset % DBK_BLOCK_BYTES == 0 ? dbk_round_up(bytes, DBK_BLOCK_BYTES) : bytes;
}

static void see_damage(struct dbk_survey *survey, const struct dbk_salvage_item *item)
{
    uint64_t lsn = dbk_lsn(item->segment->segment_no, item->offset);
    const struct dbk_frame *frame = &item->frame;
    if (survey->sound && lsn >= survey->end_lsn) {
        dbk_finding(&survey->findings, DBK_HARMLESS, item->segment->segment_no, item->offset,
                    "a write that was cut by a crash and never answered; left out");
        return;
    }
    survey->damaged_blocks += (uint32_t)((item->end - item->offset) / DBK_BLOCK_BYTES) + 1;
    dbk_finding(&survey->findings, DBK_DAMAGE, item->segment->segment_no, item->offset,
                "%s: %" PRIu64 " bytes", item->what, item->end - item->offset);
    if (frame->type == DBK_FRAME_EVENT) { /* its header says which positions it held */
        reach(survey, frame->position, frame->position);
        miss(survey, frame->position, frame->position + frame->count);
        reach(survey, frame->position + frame->count, frame->position + frame->count);
        return;
    }
    survey->hole = true;
    survey->tail_events += bytes_lost(survey, item) / EVENT_BYTES_LEAST;
}

bool dbk_survey_keeps(const struct dbk_survey *survey, const struct dbk_salvage_item *item)
{
    return !survey->sound || dbk_lsn(item->segment->segment_no, item->offset) < survey->end_lsn;
}

static enum daybook_code visit(void *user, const struct dbk_salvage_item *item,
                               struct daybook_error *err)
{
    struct dbk_survey *survey = user;
    switch (item->kind) {
    case DBK_SALVAGE_SEGMENT:
        survey->report->segments++;
        if (item->segment->segment_bytes > survey->segment_bytes) {
            survey->segment_bytes = item->segment->segment_bytes;
        }
        break;
    case DBK_SALVAGE_GROUP:
        if (dbk_survey_keeps(survey, item)) {
            see_group(survey, item);
        }
        break;
    case DBK_SALVAGE_FRAME:
        if (dbk_survey_keeps(survey, item)) {
            see_frame(survey, item);
        }
        break;
    case DBK_SALVAGE_DAMAGE:
        see_damage(survey, item);
        break;
    case DBK_SALVAGE_BEHIND:
        dbk_finding(&survey->findings, DBK_HARMLESS, item->segment->segment_no, item->offset,
                    "bytes behind the end of the log that were never answered; left out");
        break;
    }
    return survey->no_memory ? dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a repair")
                             : DAYBOOK_OK;
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* The bytes that a proof says were durable behind the last group that is left. */
static uint64_t proven_behind(const struct dbk_survey *survey)
{
    uint64_t end = survey->last_end_lsn;
    uint64_t proof = survey->proof_lsn;
    if (proof <= end) {
        return 0;
    }
    uint64_t segments = dbk_lsn_segment(proof) - dbk_lsn_segment(end);
    return segments * survey->segment_bytes + dbk_lsn_offset(proof) - dbk_lsn_offset(end);
}

/* The bytes of segments whose numbers are missing behind the last group that is left, while a later one is
 * there: numbers are given out one after the other. */
static uint64_t missing_files(struct dbk_survey *survey)
{
    const struct dbk_salvage *salvage = survey->salvage;
    uint64_t expected = (uint64_t)dbk_lsn_segment(survey->last_end_lsn) + 1;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < salvage->count && survey->last_end_lsn != 0; i++) {
        uint32_t number = salvage->segments[i].segment_no;
        if (number < expected) {
            continue;
        }
        if (number > expected) {
            dbk_finding(&survey->findings, DBK_DAMAGE, 0, 0,
                        "seg-%016" PRIx64 ".dbl is missing, and a later one is there", expected);
            bytes += (number - expected) * survey->segment_bytes;
        }
        expected = (uint64_t)number + 1;
    }
    return bytes;
}

static void judge_end(struct dbk_survey *survey)
{
    uint64_t behind = survey->sound ? 0 : proven_behind(survey);
    if (behind > 0) {
        survey->hole = true;
        dbk_finding(&survey->findings, DBK_DAMAGE, dbk_lsn_segment(survey->last_end_lsn),
                    dbk_lsn_offset(survey->last_end_lsn),
                    "the log ends here, and had been durable up to segment %u offset %u",
                    dbk_lsn_segment(survey->proof_lsn), dbk_lsn_offset(survey->proof_lsn));
    }
    if (survey->is_short) {
        survey->hole = true;
        behind = survey->segment_bytes - dbk_lsn_offset(survey->end_lsn);
        dbk_finding(
            &survey->findings, DBK_DAMAGE, dbk_lsn_segment(survey->end_lsn),
            dbk_lsn_offset(survey->end_lsn),
            "the file is shorter than it was made, and the log was not closed: what stood behind "
            "is gone");
    }
    behind += missing_files(survey);
    survey->hole = survey->hole || behind > 0;
    if (!survey->hole) {
        if (survey->named_end > survey->next_position) {
            survey->next_position = survey->named_end;
        }
        return;
    }
    reach(survey, survey->named_end, survey->named_end);
    uint64_t room = behind / EVENT_BYTES_LEAST;
    room = survey->tail_events > room ? survey->tail_events : room;
    struct daybook_log_missing *missing = room > 0 ? add_missing(survey) : NULL;
    if (missing != NULL) {
        *missing = (struct daybook_log_missing){.first = survey->next_position,
                                                .end = survey->next_position + room,
                                                .behind_newest = true};
        survey->next_position += room;
    }
}

/* What an opening would say of it. */
static void ask_the_scan(struct dbk_survey *survey)
{
    struct dbk_scan scan;
    struct dbk_scan_end end = {.kind = DBK_END_EMPTY};
    struct daybook_error err = {.code = DAYBOOK_OK};
    enum daybook_code code =
        dbk_scan_open_proven(&scan, survey->salvage->os, survey->salvage->path, 0, &err);
    if (code == DAYBOOK_OK) {
        code = dbk_scan_run(&scan, dbk_scan_no_visit, NULL, &end, &err);
    }
    survey->sound = code == DAYBOOK_OK && end.kind != DBK_END_SUSPECT;
    survey->is_short = survey->sound && dbk_scan_is_short(&scan, &end);
    survey->end_lsn = survey->sound ? dbk_lsn(end.segment_no, end.offset) : 0;
    survey->proof_lsn = scan.proof_lsn;
    dbk_scan_release(&scan);
}

static void look_at_first(struct dbk_survey *survey)
{
    const struct dbk_salvage *salvage = survey->salvage;
    if (!salvage->has_identity) {
        dbk_finding(&survey->findings, DBK_DAMAGE, 0, 0, "FORMAT is missing or damaged");
    }
    for (uint32_t i = 0; i < salvage->count; i++) {
        const struct dbk_salvage_segment *segment = &salvage->segments[i];
        if (segment->first_group_no == UINT64_MAX) {
            continue;
        }
        if (!segment->linked) {
            survey->sound = false;
            dbk_finding(&survey->findings, DBK_DAMAGE, segment->segment_no, DBK_BLOCK_BYTES,
                        "the first group of the log is not there");
        }
        if (segment->linked && segment->link.predecessor != 0 &&
            segment->segment_no > survey->lowest_segment) {
            survey->sound = false;
            dbk_finding(&survey->findings, DBK_DAMAGE, 0, 0,
                        "segments below seg-%016" PRIx64
                        ".dbl are missing, and no TRIM says that they may be",
                        (uint64_t)segment->segment_no);
        }
        return;
    }
}

enum daybook_code dbk_survey_run(struct dbk_survey *survey, struct daybook_error *err)
{
    survey->next_position = 1;
    survey->next_consumer_id = 1;
    survey->newest_accepted_at_us = INT64_MIN;
    survey->hole = true; /* until the first STATE, or the first event, says otherwise */
    ask_the_scan(survey);
    enum daybook_code code = dbk_salvage_walk(survey->salvage, visit, survey, err);
    if (code == DAYBOOK_OK &&
        dbk_find_bad_checkpoints(&survey->findings, survey->salvage->os, survey->salvage->path,
                                 survey->salvage->identity.uuid, 0, NULL) != DAYBOOK_OK) {
        dbk_finding(&survey->findings, DBK_DAMAGE, 0, 0,
                    "the checkpoints cannot be read; a repair goes on without them");
    }
    if (code == DAYBOOK_OK) {
        look_at_first(survey);
        judge_end(survey);
    }
    return code == DAYBOOK_OK && survey->no_memory
               ? dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a repair")
               : code;
}

void dbk_survey_release(struct dbk_survey *survey)
{
    free(survey->missing);
    free(survey->base_orphans);
    survey->missing = NULL;
    survey->base_orphans = NULL;
}
