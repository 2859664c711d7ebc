/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new journal out of what is left of a damaged one; the old one is only read.
 *
 * Three readings: the survey (survey.h); a replay in memory, which says how the counters come out; and the
 * same replay again, in which each frame that is kept is written into the new log before it is taken in.
 * Frames state results and ignore what is not there, so what survives of a log is a log. Then the new one
 * is verified, and only then has its name.
 *
 * An event that was relocated may stand in its copy alone, its first segment gone: a RELOCATE says that it was
 * stored there. It becomes an EVENT again, in the order of positions, which costs one reading more.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engines/log/log.h"
#include "engines/log/rewrite.h"
#include "engines/log/scan.h"
#include "engines/log/survey.h"

enum { FORGET_RANGES_MAX = 256, SEGMENT_BYTES_LEAST = 64 * 1024 };

/* A relocated event of which nothing but a copy is left. */
struct moved {
    uint64_t position;
    struct dbk_place place; /* of its entry */
    bool damaged;           /* its record */
};

struct repair {
    const struct dbk_os *os;
    const char *path;
    struct dbk_salvage salvage;
    struct dbk_survey survey;
    struct dbk_log *log; /* a handle that is nothing but memory */
    struct dbk_replay replay;
    struct dbk_rewrite rewrite;
    bool writing;
    uint64_t accepted_extra; /* events that came back because the FORGET that named them is lost */
    uint64_t lost;           /* for S5 */
    uint64_t stored_peak;
    struct moved *moved; /* owned; ascending once they are known */
    uint32_t moved_count;
    uint32_t moved_room;
    uint32_t moved_next; /* the next that becomes an EVENT again */
    bool moved_known;
};

/* ---- memory -------------------------------------------------------------------------------------- */

static void drop_log(struct repair *repair)
{
    if (repair->log != NULL) {
        dbk_state_free(repair->log->state);
        dbk_places_release(&repair->log->places);
        free(repair->log->link_memory);
        free(repair->log->orphans);
        free(repair->log);
        repair->log = NULL;
    }
}

static enum daybook_code no_memory(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for a repair");
}

static uint32_t segment_bytes_for(const struct dbk_survey *survey)
{
    uint32_t bytes = SEGMENT_BYTES_LEAST;
    uint32_t group = DBK_GROUP_HEADER_BYTES + survey->frame_bytes_max + DBK_END_MARK_BYTES;
    while (bytes < DBK_SEGMENT_BYTES_MAX && (bytes < survey->segment_bytes || bytes / 4 < group)) {
        bytes *= 2;
    }
    return bytes;
}

/* A handle with room for everything that the survey has seen. */
static enum daybook_code make_log(struct repair *repair, struct daybook_error *err)
{
    const struct dbk_survey *survey = &repair->survey;
    struct dbk_log *log = calloc(1, sizeof(*log));
    repair->log = log;
    if (log == NULL) {
        return no_memory(err);
    }
    uint64_t events = survey->events + repair->moved_count;
    events = events > survey->events_max ? events : survey->events_max;
    log->os = repair->os;
    log->path[0] = '\0';
    snprintf(log->path, sizeof(log->path), "%s", repair->path);
    log->identity = repair->salvage.identity;
    log->segment_bytes = segment_bytes_for(survey);
    log->group_max =
        log->segment_bytes / 4 < DBK_GROUP_BYTES_MAX ? log->segment_bytes / 4 : DBK_GROUP_BYTES_MAX;
    log->bytes_max = survey->bytes_max;
    log->head.capacity.events_max =
        repair->stored_peak > survey->events_max ? repair->stored_peak : survey->events_max;
    log->next_position = 1;
    log->newest_accepted_at_us = INT64_MIN;
    struct dbk_state_options options = {.events_max = events,
                                        .stored_max = events,
                                        .staged_max = 1,
                                        .orphans_max = dbk_orphans_cap(log),
                                        .attempts_max = 1};
    log->link_memory = malloc((size_t)log->group_max + DBK_BLOCK_BYTES);
    log->orphans = malloc(((size_t)dbk_orphans_cap(log) + 1) * sizeof(*log->orphans));
    if (log->link_memory == NULL || log->orphans == NULL ||
        dbk_places_init(&log->places) != DAYBOOK_OK ||
        dbk_state_new(&options, &log->state) != DAYBOOK_OK) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i < repair->salvage.count; i++) {
        if (dbk_state_add_segment(log->state, repair->salvage.segments[i].segment_no) !=
            DAYBOOK_OK) {
            return no_memory(err);
        }
    }
    repair->replay = (struct dbk_replay){.log = log, .has_state = true};
    repair->moved_next = 0;
    return DAYBOOK_OK;
}

/* Where the memory begins: as the first STATE says where it is left; and whoever is named by any STATE and
 * by no REGISTER that is left is registered from the beginning, so that no verdict of theirs is lost. */
static enum daybook_code begin_state(struct repair *repair, struct daybook_error *err)
{
    const struct dbk_survey *survey = &repair->survey;
    struct dbk_log *log = repair->log;
    struct dbk_counters counters = {.accepted = repair->accepted_extra + survey->missing_events};
    for (uint32_t i = 0; i < survey->consumer_count; i++) {
        const struct dbk_survey_consumer *c = &survey->consumers[i];
        bool by_frame =
            c->name[0] == '\0' || (c->registered && c->id >= survey->base.next_consumer_id);
        if (by_frame) {
            continue;
        }
        enum daybook_code code = dbk_state_register(log->state, c->id, c->name, c->start);
        if (code != DAYBOOK_OK) {
            return dbk_fail(err, code, "consumer %s cannot be registered", c->name);
        }
        dbk_state_set_token_floor(log->state, c->id, c->token_floor);
    }
    if (survey->has_base) {
        log->next_position = survey->base.next_position;
        log->newest_accepted_at_us = survey->base.newest_accepted_at_us;
        counters.accepted += survey->base.counters.accepted;
        for (uint32_t i = 0; i < repair->moved_count; i++) {
            /* That STATE counts it already, and its EVENT will. */
            bool counted = repair->moved[i].position < survey->base.next_position;
            counters.accepted -= counted && counters.accepted > 0 ? 1 : 0;
        }
        memcpy(counters.forgotten, survey->base.counters.forgotten, sizeof(counters.forgotten));
        dbk_state_set_next_consumer_id(log->state, survey->base.next_consumer_id);
        for (uint32_t i = 0; i < survey->base.orphan_count; i++) {
            dbk_state_apply_orphan(log->state, &survey->base_orphans[i]);
        }
    }
    dbk_state_set_counters(log->state, &counters);
    return DAYBOOK_OK;
}

/* ---- the replay ---------------------------------------------------------------------------------- */

/* What is missing of positions that a FORGET names had been delivered or dropped: no loss. */
static void forgotten(struct repair *repair, const struct dbk_frame *frame)
{
    struct dbk_forget_frame forget;
    if (repair->writing || !dbk_forget_frame_decode(frame, &forget)) {
        return;
    }
    for (uint32_t i = 0; i < forget.range_count; i++) {
        dbk_survey_forget(&repair->survey, dbk_forget_range_at(&forget, i));
    }
}

/* ---- events that were moved ---------------------------------------------------------------------- */

static int by_position(const void *a, const void *b)
{
    const struct moved *x = a;
    const struct moved *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

static struct moved *find_moved(const struct repair *repair, uint64_t position)
{
    struct moved key = {.position = position};
    return repair->moved_count == 0 ? NULL
                                    : bsearch(&key, repair->moved, repair->moved_count,
                                              sizeof(*repair->moved), by_position);
}

/* Notes a copy of an event that is not stored where it stands: its EVENT is not there any more. */
static enum daybook_code note_moved(struct repair *repair, const struct dbk_frame *inner,
                                    bool damaged, struct daybook_error *err)
{
    struct dbk_stored stored;
    if (inner->count != 1 || dbk_state_get(repair->log->state, inner->position, &stored)) {
        return DAYBOOK_OK;
    }
    if (repair->moved_count == repair->moved_room) {
        uint32_t room = repair->moved_room == 0 ? 64 : repair->moved_room * 2;
        struct moved *grown = realloc(repair->moved, room * sizeof(*grown));
        if (grown == NULL) {
            return no_memory(err);
        }
        repair->moved = grown;
        repair->moved_room = room;
    }
    repair->moved[repair->moved_count++] =
        (struct moved){.position = inner->position,
                       .place = {.segment_no = dbk_lsn_segment(inner->lsn),
                                 .offset = dbk_lsn_offset(inner->lsn) + DBK_FRAME_HEADER_BYTES,
                                 .len = inner->len},
                       .damaged = damaged};
    return DAYBOOK_OK;
}

/* One copy of each, a whole one where there is one; none of them is missing. */
static void know_moved(struct repair *repair)
{
    struct dbk_survey *survey = &repair->survey;
    uint32_t kept = 0;
    if (repair->moved_count > 0) {
        qsort(repair->moved, repair->moved_count, sizeof(*repair->moved), by_position);
    }
    for (uint32_t i = 0; i < repair->moved_count; i++) {
        struct moved *last = kept > 0 ? &repair->moved[kept - 1] : NULL;
        if (last == NULL || last->position != repair->moved[i].position) {
            repair->moved[kept++] = repair->moved[i];
        } else if (last->damaged) {
            *last = repair->moved[i];
        }
    }
    repair->moved_count = kept;
    repair->moved_known = true;
    for (uint32_t i = 0; i < kept; i++) {
        uint64_t position = repair->moved[i].position;
        for (uint32_t k = 0; k < survey->missing_count; k++) {
            const struct daybook_log_missing *m = &survey->missing[k];
            if (!m->behind_newest && m->first <= position && position < m->end) {
                survey->missing_events--;
                break;
            }
        }
        dbk_survey_forget(survey, (struct dbk_range){position, position + 1, 0});
    }
}

/* Reads the entry of a copy again and makes an EVENT of it, in memory to be freed. */
static enum daybook_code read_moved(const struct repair *repair, const struct moved *moved,
                                    uint8_t **ret, struct daybook_error *err)
{
    const struct dbk_os *os = repair->os;
    char path[DBK_LOG_PATH_MAX + 32];
    struct dbk_entry entry;
    size_t entry_len = 0;
    size_t len = moved->place.len;
    uint8_t *bytes = malloc(len);
    uint8_t *out = malloc(DBK_FRAME_HEADER_BYTES + len);
    snprintf(path, sizeof(path), "%s/seg-%016" PRIx64 ".dbl", repair->path,
             (uint64_t)moved->place.segment_no);
    int file = os->open(os, path, DBK_OPEN_READ);
    int64_t n =
        file < 0 || bytes == NULL ? file : dbk_read_at(os, file, bytes, len, moved->place.offset);
    enum daybook_code code = DAYBOOK_OK;
    if (bytes == NULL || out == NULL) {
        code = no_memory(err);
    } else if (n < 0) {
        code = dbk_fail_os(err, DAYBOOK_BACKEND, (int)-n, "%s: cannot be read", path);
    } else if ((size_t)n < len ||
               dbk_entry_decode(bytes, len, &entry, &entry_len) == DBK_ENTRY_BAD ||
               entry_len != len) {
        code = dbk_fail(err, DAYBOOK_DAMAGED, "%s: changes while it is read", path);
    } else {
        (void)dbk_event_frame_encode(out, moved->position, &entry);
    }
    if (file >= 0) {
        (void)os->close(os, file);
    }
    free(bytes);
    if (code != DAYBOOK_OK) {
        free(out);
        return code;
    }
    *ret = out;
    return DAYBOOK_OK;
}

/* Those below `end` become events again, before anything that stands behind them. */
static enum daybook_code put_moved(struct repair *repair, uint64_t end, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    while (code == DAYBOOK_OK && repair->moved_known && repair->moved_next < repair->moved_count &&
           repair->moved[repair->moved_next].position < end) {
        const struct moved *moved = &repair->moved[repair->moved_next++];
        uint8_t *bytes = NULL;
        code = read_moved(repair, moved, &bytes, err);
        if (code == DAYBOOK_OK && repair->writing) {
            code = dbk_rewrite_put(&repair->rewrite, bytes, err);
        }
        if (code == DAYBOOK_OK) {
            uint64_t entry_lsn = dbk_lsn(moved->place.segment_no, moved->place.offset);
            struct dbk_frame frame = {.type = DBK_FRAME_EVENT,
                                      .count = 1,
                                      .len = moved->place.len,
                                      .position = moved->position,
                                      .lsn = entry_lsn - DBK_FRAME_HEADER_BYTES,
                                      .body = bytes + DBK_FRAME_HEADER_BYTES};
            code = dbk_replay_frame(&repair->replay, &frame, err);
        }
        free(bytes);
    }
    return code;
}

/* What a frame means for them. *ret_is_one: it is a copy of one of them, which says no more than that. */
static enum daybook_code meet_moved(struct repair *repair, const struct dbk_salvage_item *item,
                                    bool *ret_is_one, struct daybook_error *err)
{
    const struct dbk_frame *frame = &item->frame;
    struct dbk_frame inner = {.type = 0};
    *ret_is_one = false;
    if (frame->type == DBK_FRAME_EVENT) {
        return put_moved(repair, frame->position, err);
    }
    if (frame->type != DBK_FRAME_RELOCATE || !dbk_relocate_frame_decode(frame, &inner) ||
        inner.type != DBK_FRAME_EVENT) {
        return DAYBOOK_OK;
    }
    if (!repair->moved_known) {
        return note_moved(repair, &inner, item->record_damaged, err);
    }
    *ret_is_one = find_moved(repair, inner.position) != NULL;
    /* It was stored here, and so was what stands below it and comes later. */
    return *ret_is_one ? put_moved(repair, inner.position + 1, err) : DAYBOOK_OK;
}

/* ---- the walk ------------------------------------------------------------------------------------ */

static enum daybook_code replay_item(void *user, const struct dbk_salvage_item *item,
                                     struct daybook_error *err)
{
    struct repair *repair = user;
    bool is_moved = false;
    const struct dbk_frame *frame = &item->frame;
    if (item->kind != DBK_SALVAGE_FRAME || !dbk_survey_keeps(&repair->survey, item) ||
        frame->type == DBK_FRAME_LINK || frame->type == DBK_FRAME_STATE ||
        frame->type == DBK_FRAME_TRIM) {
        return DAYBOOK_OK;
    }
    enum daybook_code code = meet_moved(repair, item, &is_moved, err);
    if (code == DAYBOOK_OK && !is_moved && repair->writing) {
        code = dbk_rewrite_put(&repair->rewrite, frame->body - DBK_FRAME_HEADER_BYTES, err);
    }
    if (code == DAYBOOK_OK && !is_moved) {
        code = dbk_replay_frame(&repair->replay, frame, err);
    }
    if (frame->type == DBK_FRAME_FORGET) {
        forgotten(repair, frame);
    }
    uint64_t stored = atomic_load(&dbk_state_room(repair->log->state)->stored);
    repair->stored_peak = stored > repair->stored_peak ? stored : repair->stored_peak;
    return code;
}

static uint64_t sum_of(const struct dbk_counters *counters)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < DBK_FORGET_REASONS; i++) {
        sum += counters->forgotten[i];
    }
    return sum;
}

/* Accepted has to be stored and forgotten (S5): what is neither is lost; what is counted twice came back. */
static enum daybook_code rehearse(struct repair *repair, struct daybook_error *err)
{
    struct dbk_counters counters;
    repair->accepted_extra = 0;
    enum daybook_code code = make_log(repair, err);
    if (code == DAYBOOK_OK) {
        code = begin_state(repair, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_salvage_walk(&repair->salvage, replay_item, repair, err);
    }
    if (code == DAYBOOK_OK) {
        dbk_state_counters(repair->log->state, &counters);
        uint64_t known =
            atomic_load(&dbk_state_room(repair->log->state)->stored) + sum_of(&counters);
        repair->lost = counters.accepted > known ? counters.accepted - known : 0;
        repair->accepted_extra = known > counters.accepted ? known - counters.accepted : 0;
    }
    drop_log(repair);
    return code;
}

/* ---- the new log --------------------------------------------------------------------------------- */

static enum daybook_code put_lost(struct repair *repair, const struct dbk_range *ranges,
                                  uint32_t count, struct daybook_error *err)
{
    uint8_t out[DBK_FORGET_FRAME_BYTES(FORGET_RANGES_MAX, 0)];
    struct dbk_counters counters;
    struct dbk_forget_frame frame = {.reason = DBK_FORGET_DAMAGED};
    dbk_state_counters(repair->log->state, &counters);
    memcpy(frame.counters, counters.forgotten, sizeof(frame.counters));
    frame.counters[DBK_FORGET_DAMAGED - 1] += repair->lost;
    (void)dbk_forget_frame_encode(out, &frame, ranges, count, NULL);
    return dbk_rewrite_put(&repair->rewrite, out, err);
}

/* What is lost is counted, by a FORGET that names the positions. */
static enum daybook_code put_losses(struct repair *repair, struct daybook_error *err)
{
    struct dbk_range ranges[FORGET_RANGES_MAX];
    uint32_t count = 0;
    enum daybook_code code = DAYBOOK_OK;
    for (uint32_t i = 0; i < repair->survey.missing_count && code == DAYBOOK_OK; i++) {
        const struct daybook_log_missing *m = &repair->survey.missing[i];
        if (m->behind_newest || m->first >= m->end) {
            continue;
        }
        ranges[count++] = (struct dbk_range){m->first, m->end, DBK_FORGET_DAMAGED};
        if (count == FORGET_RANGES_MAX) {
            code = put_lost(repair, ranges, count, err);
            count = 0;
        }
    }
    return code == DAYBOOK_OK && (count > 0 || repair->lost > 0)
               ? put_lost(repair, ranges, count, err)
               : code;
}

/* Positions that may have been given out are not given out again: a STATE says where they go on. */
static enum daybook_code put_next_position(struct repair *repair, struct daybook_error *err)
{
    struct dbk_link_frame none = {.predecessor = 0};
    struct dbk_log *log = repair->log;
    const struct dbk_survey *survey = &repair->survey;
    if (survey->next_position <= log->next_position &&
        survey->newest_accepted_at_us <= log->newest_accepted_at_us) {
        return DAYBOOK_OK;
    }
    log->next_position =
        survey->next_position > log->next_position ? survey->next_position : log->next_position;
    if (survey->newest_accepted_at_us > log->newest_accepted_at_us) {
        log->newest_accepted_at_us = survey->newest_accepted_at_us;
    }
    (void)dbk_link_encode(log, &none);
    return dbk_rewrite_put(&repair->rewrite,
                           log->link_memory + DBK_GROUP_HEADER_BYTES + DBK_LINK_FRAME_BYTES, err);
}

static enum daybook_code write_new(struct repair *repair, const char *path,
                                   struct daybook_error *err)
{
    const struct dbk_survey *survey = &repair->survey;
    enum daybook_code code = make_log(repair, err);
    if (code == DAYBOOK_OK) {
        code = begin_state(repair, err);
    }
    if (code != DAYBOOK_OK) {
        return code;
    }
    repair->writing = true;
    /* An epoch costs a block at least, so that so many may be among what is damaged. */
    repair->rewrite = (struct dbk_rewrite){
        .log = repair->log, .path = path, .epoch = survey->epoch + 1 + survey->damaged_blocks};
    code = dbk_rewrite_begin(&repair->rewrite, err);
    if (code == DAYBOOK_OK) {
        code = dbk_salvage_walk(&repair->salvage, replay_item, repair, err);
    }
    if (code == DAYBOOK_OK) {
        code = put_next_position(repair, err);
    }
    if (code == DAYBOOK_OK) {
        code = put_losses(repair, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_rewrite_end(&repair->rewrite, err);
    }
    dbk_rewrite_release(&repair->rewrite);
    survey->report->bytes = repair->rewrite.bytes;
    survey->report->stored = atomic_load(&dbk_state_room(repair->log->state)->stored);
    survey->report->events_lost = repair->lost;
    return code;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

/* The new journal has to be whole but for the records that had rotted. */
static enum daybook_code verify_new(const struct repair *repair, const char *path,
                                    struct daybook_error *err)
{
    struct daybook_log_report report;
    enum daybook_code code = dbk_log_verify(path, repair->os, NULL, NULL, &report, err);
    bool records = code == DAYBOOK_DAMAGED && repair->survey.report->records_damaged > 0 &&
                   report.damaged <= repair->survey.report->records_damaged;
    return records ? DAYBOOK_OK : code;
}

static void tell_missing(const struct dbk_survey *survey)
{
    for (uint32_t i = 0; survey->hooks.missing != NULL && i < survey->missing_count; i++) {
        if (survey->missing[i].first < survey->missing[i].end) {
            survey->hooks.missing(survey->hooks.user, &survey->missing[i]);
        }
    }
}

static enum daybook_code repair_into(struct repair *repair, const char *partial,
                                     struct daybook_error *err)
{
    enum daybook_code code = dbk_survey_run(&repair->survey, err);
    if (code == DAYBOOK_OK && !repair->salvage.has_identity) {
        int rc = repair->os->random(repair->os, &repair->salvage.identity.secret,
                                    sizeof(repair->salvage.identity.secret));
        repair->salvage.identity.created_us = repair->os->realtime_us(repair->os);
        code = rc < 0 ? dbk_fail_os(err, DAYBOOK_BACKEND, -rc, "no random numbers") : DAYBOOK_OK;
    }
    if (code == DAYBOOK_OK) {
        code = rehearse(repair, err);
    }
    know_moved(repair);
    if (repair->moved_count > 0) {
        dbk_finding(&repair->survey.findings, DBK_HARMLESS, 0, 0,
                    "%u events stand in a copy alone; what had been said of them before they were "
                    "copied is not known without the checkpoints, so they may be delivered again",
                    repair->moved_count);
    }
    if (code == DAYBOOK_OK && repair->moved_count > 0) {
        code = rehearse(repair, err);
    }
    if (code == DAYBOOK_OK) {
        tell_missing(&repair->survey);
        code = write_new(repair, partial, err);
    }
    return code == DAYBOOK_OK ? verify_new(repair, partial, err) : code;
}

/* Nobody writes meanwhile. Only a lock file that is there is asked: nothing is made. -1: none. */
static enum daybook_code hold(const struct dbk_os *os, const char *path, int *ret_file,
                              struct daybook_error *err)
{
    char lock[DBK_LOG_PATH_MAX];
    struct dbk_stat st;
    snprintf(lock, sizeof(lock), "%s/LOCK", path);
    *ret_file = os->stat(os, lock, &st) == 0 ? os->lock(os, lock) : -1;
    return *ret_file == -EWOULDBLOCK
               ? dbk_fail(err, DAYBOOK_BUSY, "%s: held by another process; stop it first", path)
               : DAYBOOK_OK;
}

enum daybook_code dbk_log_repair(const char *path, const char *new_path, const struct dbk_os *os,
                                 const struct daybook_log_repair_hooks *hooks,
                                 struct daybook_log_repair_report *ret_report,
                                 struct daybook_error *err)
{
    struct dbk_new_directory fresh;
    struct repair *repair = calloc(1, sizeof(*repair));
    int lock = -1;
    memset(ret_report, 0, sizeof(*ret_report));
    if (repair == NULL) {
        return no_memory(err);
    }
    repair->os = os;
    repair->path = path;
    repair->survey.report = ret_report;
    repair->survey.salvage = &repair->salvage;
    repair->survey.findings.damaged = &ret_report->damaged;
    if (hooks != NULL) {
        repair->survey.hooks = *hooks;
        repair->survey.findings.found = hooks->found;
        repair->survey.findings.user = hooks->user;
    }
    enum daybook_code code = hold(os, path, &lock, err);
    if (code == DAYBOOK_OK) {
        code = dbk_salvage_open(&repair->salvage, os, path, err);
    }
    if (code == DAYBOOK_OK) {
        code = dbk_new_directory_begin(&fresh, os, new_path, err);
    }
    if (code == DAYBOOK_OK) {
        code = repair_into(repair, fresh.partial, err);
        code = code == DAYBOOK_OK ? dbk_new_directory_end(&fresh, err) : code;
    }
    drop_log(repair);
    free(repair->moved);
    dbk_survey_release(&repair->survey);
    dbk_salvage_release(&repair->salvage);
    if (lock >= 0) {
        (void)os->close(os, lock);
    }
    free(repair);
    return code;
}

enum daybook_code daybook_log_repair(const char *path, const char *new_path,
                                     const struct daybook_log_repair_hooks *hooks,
                                     struct daybook_log_repair_report *ret_report,
                                     struct daybook_error *err)
{
    if (path == NULL || new_path == NULL || ret_report == NULL) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "a path or the report is missing");
    }
    return dbk_log_repair(path, new_path, dbk_os_posix(), hooks, ret_report, err);
}
