/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a repair has to know before it replays what is left of a journal: how much there is, who was
 * registered, which positions are missing, and how far positions and epochs may have gone. Threads: owner.
 */
#ifndef DBK_ENGINES_LOG_SURVEY_H
#define DBK_ENGINES_LOG_SURVEY_H

#include "engines/log/findings.h"
#include "engines/log/salvage.h"

struct dbk_survey_consumer {
    uint32_t id;
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    struct dbk_start start;
    uint64_t token_floor;
    bool registered; /* its REGISTER frame, or the first STATE, is there */
};

struct dbk_survey {
    struct daybook_log_repair_hooks hooks;
    struct daybook_log_repair_report *report;
    struct dbk_salvage *salvage;
    struct dbk_findings findings; /* of the hooks and the report */

    /* An opening finds nothing wrong: the log ends at end_lsn, as it says. */
    bool sound;
    uint64_t end_lsn;
    bool is_short; /* the last file was cut, and nothing says how much stood behind */

    bool has_base; /* the first STATE that survives stands before everything else that does */
    struct dbk_state_frame base;
    struct dbk_orphan *base_orphans;
    struct dbk_survey_consumer consumers[DBK_STATE_CONSUMERS_MAX];
    uint32_t consumer_count;
    uint32_t next_consumer_id;

    uint64_t events;
    uint64_t events_max; /* of every STATE */
    uint64_t bytes_max;
    uint32_t segment_bytes;
    uint32_t frame_bytes_max;
    uint32_t epoch;
    uint32_t damaged_blocks;
    uint32_t lowest_segment; /* of the newest TRIM */
    uint64_t next_position;
    int64_t newest_accepted_at_us;

    struct daybook_log_missing *missing; /* ascending */
    uint32_t missing_count;
    uint32_t missing_room;
    uint64_t missing_events; /* of those that something proves */

    /* While it goes on. */
    bool hole;             /* something is missing since the last known position */
    bool other_frames;     /* anything but LINK and STATE was met */
    uint64_t tail_events;  /* that the bytes damaged since then could have held */
    uint64_t named_end;    /* above every position that a frame names */
    uint64_t proof_lsn;    /* everything below had been synced */
    uint64_t last_end_lsn; /* of the last group */
    uint64_t group_no;
    bool no_memory;
};

/* Reads the directory once. `survey`: hooks, report and salvage are set, the rest is zero. */
enum daybook_code dbk_survey_run(struct dbk_survey *survey, struct daybook_error *err);
void dbk_survey_release(struct dbk_survey *survey);
/* Takes positions out of what is missing: a FORGET names them, so they had been delivered or dropped. */
void dbk_survey_forget(struct dbk_survey *survey, struct dbk_range range);
/* Whether an item belongs to what is kept. */
bool dbk_survey_keeps(const struct dbk_survey *survey, const struct dbk_salvage_item *item);

#endif
