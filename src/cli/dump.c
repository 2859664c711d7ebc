/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `daybook dump`: the groups and frames of a data directory, what its indexes list and what its checkpoints
 * hold, as text or as one JSON object a line. Both
 * forms come from the same rows: ` name=value` or `"name":value`. What is damaged is named where it
 * stands, and the dump goes on behind it.
 */
#include <inttypes.h>
#include <string.h>

#include "app/text.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "engines/log/checkpoint.h"
#include "engines/log/salvage.h"
#include "engines/log/scan.h"
#include "engines/log/segment_index.h"

struct out {
    bool json;
    bool first; /* of a list */
    struct dbk_text line;
    uint64_t damaged;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static void begin(struct out *out, const char *kind)
{
    out->line.len = 0;
    dbk_text_printf(&out->line, out->json ? "{\"kind\":\"%s\"" : "%s", kind);
}

static void end(struct out *out)
{
    dbk_text_str(&out->line, out->json ? "}\n" : "\n");
    (void)fwrite(out->line.data, 1, out->line.len, stdout);
}

static void name(struct out *out, const char *text)
{
    dbk_text_printf(&out->line,
                    out->json ? "%s\"%s\":" : "%s%s=", out->json ? (out->first ? "" : ",") : " ",
                    text);
    out->first = false;
}

static void number(struct out *out, const char *text, uint64_t value)
{
    name(out, text);
    dbk_text_u64(&out->line, value);
}

static void string(struct out *out, const char *text, struct daybook_bytes value)
{
    name(out, text);
    dbk_text_json(&out->line, value);
}

static void word(struct out *out, const char *text, const char *value)
{
    string(out, text, (struct daybook_bytes){value, strlen(value)});
}

static void moment(struct out *out, const char *text, int64_t us)
{
    name(out, text);
    if (us >= DAYBOOK_OBSERVED_MIN_US && us < DAYBOOK_OBSERVED_END_US) {
        dbk_text_json_time(&out->line, us);
    } else if (us == DAYBOOK_TIME_UNSET) {
        dbk_text_str(&out->line, "null");
    } else {
        dbk_text_printf(&out->line, "%" PRId64, us);
    }
}

static void place(struct out *out, const char *text, uint64_t lsn)
{
    char value[32];
    (void)snprintf(value, sizeof value, "%u:%u", dbk_lsn_segment(lsn), dbk_lsn_offset(lsn));
    word(out, text, value);
}

static void list_begin(struct out *out, const char *text)
{
    if (out->json) {
        name(out, text);
        dbk_text_char(&out->line, '[');
    }
}

static void list_item(struct out *out, uint32_t i, const char *text)
{
    if (out->json) {
        dbk_text_str(&out->line, i == 0 ? "{" : ",{");
    } else {
        dbk_text_printf(&out->line, "\n    %s", text);
    }
    out->first = true;
}

static void list_item_end(struct out *out)
{
    if (out->json) {
        dbk_text_char(&out->line, '}');
    }
    out->first = false;
}

static void list_end(struct out *out)
{
    if (out->json) {
        dbk_text_char(&out->line, ']');
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const char *const frame_names[] = {"?",          "EVENT", "CLAIM",  "SETTLE",
                                          "QUARANTINE", "ADMIN", "FORGET", "RELOCATE",
                                          "STATE",      "TRIM",  "LINK"};
static const char *const settle_names[] = {"?", "ACK", "REFUND", "EXTEND", "GIVE_UP"};
static const char *const admin_names[] = {"?",      "REGISTER", "RELEASE", "DISCARD",
                                          "RETIRE", "REWIND",   "LIFT"};
static const char *const forget_names[] = {"?",       "pruned",    "reclaimed",
                                           "dropped", "discarded", "damaged"};
static const char *const reason_names[] = {"?", "malformed", "rejected", "attempts_exhausted"};

#define NAME_OF(names, i) ((size_t)(i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : "?")

static void event(struct out *out, const struct dbk_frame *frame)
{
    size_t at = 0;
    list_begin(out, "events");
    for (uint16_t i = 0; i < frame->count; i++) {
        struct dbk_entry entry;
        size_t len = 0;
        enum dbk_entry_check check =
            dbk_entry_decode(frame->body + at, frame->len - at, &entry, &len);
        if (check == DBK_ENTRY_BAD) {
            break;
        }
        list_item(out, i, "event");
        number(out, "position", frame->position + i);
        string(out, "request_id", entry.request_id);
        string(out, "namespace", entry.name_space);
        string(out, "subject", entry.subject);
        moment(out, "observed_at", entry.observed_at_us);
        moment(out, "accepted_at", entry.accepted_at_us);
        number(out, "row_version", entry.row_version);
        number(out, "record_bytes", entry.record.len);
        if (check == DBK_ENTRY_RECORD_DAMAGED) {
            word(out, "record", "DAMAGED");
        }
        list_item_end(out);
        at += len;
    }
    list_end(out);
}

static bool claim(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_claim_frame as;
    if (!dbk_claim_frame_decode(frame, &as)) {
        return false;
    }
    number(out, "consumer", as.consumer);
    number(out, "lease_ms", as.lease_ms);
    moment(out, "now", as.now_us);
    list_begin(out, "entries");
    for (uint32_t i = 0; i < as.count; i++) {
        struct dbk_claim_entry entry = dbk_claim_entry_at(&as, i);
        list_item(out, i, "hand-out");
        number(out, "position", entry.position);
        number(out, "token", as.first_token + i);
        number(out, "attempt", entry.attempt);
        number(out, "hand_outs", entry.hand_outs);
        list_item_end(out);
    }
    list_end(out);
    return true;
}

static bool settle(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_settle_frame as;
    if (!dbk_settle_frame_decode(frame, &as)) {
        return false;
    }
    word(out, "op", NAME_OF(settle_names, as.op));
    number(out, "consumer", as.consumer);
    number(out, "lease_ms", as.lease_ms);
    moment(out, "now", as.now_us);
    list_begin(out, "entries");
    for (uint32_t i = 0; i < as.count; i++) {
        struct dbk_settle_entry entry = dbk_settle_entry_at(&as, i);
        list_item(out, i, "verdict");
        number(out, "position", entry.position);
        number(out, "token", entry.token);
        number(out, "attempt_after", entry.attempt_after);
        list_item_end(out);
    }
    list_end(out);
    return true;
}

static bool quarantine(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_quarantine_frame as;
    if (!dbk_quarantine_frame_decode(frame, &as)) {
        return false;
    }
    number(out, "position", as.position);
    number(out, "consumer", as.consumer);
    word(out, "reason", NAME_OF(reason_names, as.reason));
    number(out, "attempts", as.attempts);
    moment(out, "at", as.at_us);
    string(out, "words", as.words);
    return true;
}

static bool admin(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_admin_frame as;
    if (!dbk_admin_frame_decode(frame, &as)) {
        return false;
    }
    word(out, "op", NAME_OF(admin_names, as.op));
    number(out, "no", as.no);
    number(out, "consumer", as.consumer);
    string(out, "name", as.name);
    moment(out, "at", as.at_us);
    if (as.op == DBK_ADMIN_REGISTER) {
        number(out, "start_position", as.start.position);
        moment(out, "start_time", as.start.time_us);
    } else {
        string(out, "request_id", as.request_id);
    }
    if (as.op != DBK_ADMIN_REGISTER || as.no != 0) {
        string(out, "who", as.who);
        string(out, "why", as.why);
    }
    if (as.op == DBK_ADMIN_REWIND) {
        number(out, "token_floor", as.token_floor);
    }
    list_begin(out, "positions");
    for (uint32_t i = 0; i < as.position_count; i++) {
        list_item(out, i, "event");
        number(out, "position", dbk_admin_position_at(&as, i));
        list_item_end(out);
    }
    list_end(out);
    return true;
}

static void counters(struct out *out, const uint64_t *values)
{
    for (size_t i = 0; i < DBK_FORGET_REASONS; i++) {
        number(out, forget_names[i + 1], values[i]);
    }
}

static void orphan(struct out *out, uint32_t i, const struct dbk_orphan *as)
{
    list_item(out, i, "lease of a dropped event");
    number(out, "position", as->position);
    number(out, "consumer", as->consumer);
    number(out, "token", as->token);
    number(out, "lease_ms", as->lease_ms);
    moment(out, "expires_at", as->expires_at_us);
    list_item_end(out);
}

static bool forget(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_forget_frame as;
    if (!dbk_forget_frame_decode(frame, &as)) {
        return false;
    }
    word(out, "reason", NAME_OF(forget_names, as.reason));
    counters(out, as.counters);
    list_begin(out, "ranges");
    for (uint32_t i = 0; i < as.range_count; i++) {
        struct dbk_range range = dbk_forget_range_at(&as, i);
        list_item(out, i, "range");
        number(out, "first", range.first);
        number(out, "end", range.end);
        list_item_end(out);
    }
    list_end(out);
    list_begin(out, "orphans");
    for (uint32_t i = 0; i < as.orphan_count; i++) {
        struct dbk_orphan one = dbk_forget_orphan_at(&as, i);
        orphan(out, i, &one);
    }
    list_end(out);
    return true;
}

static bool state(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_state_frame as;
    if (!dbk_state_frame_decode(frame, &as)) {
        return false;
    }
    number(out, "next_position", as.next_position);
    moment(out, "newest_accepted_at", as.newest_accepted_at_us);
    number(out, "accepted", as.counters.accepted);
    counters(out, as.counters.forgotten);
    number(out, "next_consumer", as.next_consumer_id);
    number(out, "max_events", as.events_max);
    number(out, "max_bytes", as.bytes_max);
    list_begin(out, "consumers");
    for (uint32_t i = 0; i < as.consumer_count; i++) {
        struct dbk_consumer_restated one = dbk_state_consumer_at(&as, i);
        list_item(out, i, "consumer");
        number(out, "consumer", one.id);
        word(out, "name", one.name);
        number(out, "start_position", one.start.position);
        moment(out, "start_time", one.start.time_us);
        number(out, "token_floor", one.token_floor);
        list_item_end(out);
    }
    list_end(out);
    list_begin(out, "orphans");
    for (uint32_t i = 0; i < as.orphan_count; i++) {
        struct dbk_orphan one = dbk_state_orphan_at(&as, i);
        orphan(out, i, &one);
    }
    list_end(out);
    return true;
}

static bool link_(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_link_frame as;
    if (!dbk_link_frame_decode(frame, &as)) {
        return false;
    }
    number(out, "predecessor", as.predecessor);
    number(out, "skipped", as.skipped);
    number(out, "predecessor_end", as.end);
    number(out, "last_group", as.last_group_no);
    number(out, "predecessor_events", as.events);
    number(out, "predecessor_frames", as.frames);
    number(out, "set_aside_bytes", as.set_aside_bytes);
    return true;
}

static bool trim(struct out *out, const struct dbk_frame *frame)
{
    struct dbk_trim_frame as;
    if (!dbk_trim_frame_decode(frame, &as)) {
        return false;
    }
    number(out, "lowest_segment", as.lowest_segment_no);
    number(out, "by_checkpoint", as.by_checkpoint ? 1 : 0);
    return true;
}

/* What a frame says. `inner`: it stands in a RELOCATE. */
static bool contents(struct out *out, const struct dbk_frame *frame)
{
    switch (frame->type) {
    case DBK_FRAME_EVENT:
        event(out, frame);
        return true;
    case DBK_FRAME_CLAIM:
        return claim(out, frame);
    case DBK_FRAME_SETTLE:
        return settle(out, frame);
    case DBK_FRAME_QUARANTINE:
        return quarantine(out, frame);
    case DBK_FRAME_ADMIN:
        return admin(out, frame);
    case DBK_FRAME_FORGET:
        return forget(out, frame);
    case DBK_FRAME_STATE:
        return state(out, frame);
    case DBK_FRAME_LINK:
        return link_(out, frame);
    case DBK_FRAME_TRIM:
        return trim(out, frame);
    default:
        return false;
    }
}

static void frame_line(struct out *out, const struct dbk_salvage_item *item)
{
    struct dbk_frame inner;
    begin(out, "frame");
    place(out, "at", item->frame.lsn);
    word(out, "type", NAME_OF(frame_names, item->frame.type));
    number(out, "bytes", item->end - item->offset);
    const struct dbk_frame *frame = &item->frame;
    if (frame->type == DBK_FRAME_RELOCATE && dbk_relocate_frame_decode(frame, &inner)) {
        word(out, "relocated", NAME_OF(frame_names, inner.type));
        frame = &inner;
    }
    if (!contents(out, frame)) {
        number(out, "unknown_type", frame->type);
    }
    end(out);
    out->damaged += item->record_damaged ? 1 : 0;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void flags(struct out *out, unsigned set)
{
    static const char *const names[] = {"HAS_EVENTS", "SYNC_REQUIRED", "LINK",
                                        "OPEN",       "NOTE",          "CLEAN"};
    char text[80] = "";
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((set & 1u << i) != 0) {
            size_t len = strlen(text);
            (void)snprintf(text + len, sizeof text - len, "%s%s", len > 0 ? "|" : "", names[i]);
        }
    }
    word(out, "flags", text);
}

static void group_line(struct out *out, const struct dbk_salvage_item *item)
{
    const struct dbk_group_header *group = item->group;
    begin(out, "group");
    place(out, "at", group->lsn);
    number(out, "no", group->group_no);
    number(out, "epoch", group->epoch);
    number(out, "frames", group->frame_count);
    number(out, "bytes", DBK_GROUP_HEADER_BYTES + (uint64_t)group->body_len);
    place(out, "durable", group->durable_lsn);
    moment(out, "written_at", (int64_t)(group->realtime_ms & INT64_MAX / 1024) * 1000);
    flags(out, group->flags);
    word(out, "body",
         item->check == DBK_BODY_OK
             ? "ok"
             : (item->check == DBK_BODY_BAD ? "DAMAGED" : "a record is damaged"));
    end(out);
    out->damaged += item->check == DBK_BODY_BAD ? 1 : 0;
}

static void segment_line(struct out *out, const struct dbk_salvage_segment *segment)
{
    begin(out, "segment");
    number(out, "segment", segment->segment_no);
    number(out, "file_bytes", segment->size_bytes);
    number(out, "segment_bytes", segment->segment_bytes);
    number(out, "log_end", segment->end);
    word(out, "header", segment->header_good ? "ok" : "DAMAGED");
    end(out);
}

static void damage_line(struct out *out, const struct dbk_salvage_item *item)
{
    begin(out, out->json ? "damage" : "DAMAGED");
    place(out, "at", dbk_lsn(item->segment->segment_no, item->offset));
    number(out, "bytes", item->end - item->offset);
    word(out, "what", item->what);
    if (item->frame.type != 0) {
        word(out, "type", NAME_OF(frame_names, item->frame.type));
        number(out, "position", item->frame.position);
        number(out, "count", item->frame.count);
    }
    end(out);
    out->damaged++;
}

static enum daybook_code visit(void *user, const struct dbk_salvage_item *item,
                               struct daybook_error *err)
{
    struct out *out = user;
    (void)err;
    switch (item->kind) {
    case DBK_SALVAGE_SEGMENT:
        segment_line(out, item->segment);
        break;
    case DBK_SALVAGE_GROUP:
        group_line(out, item);
        break;
    case DBK_SALVAGE_FRAME:
        frame_line(out, item);
        break;
    case DBK_SALVAGE_DAMAGE:
        damage_line(out, item);
        break;
    case DBK_SALVAGE_BEHIND:
        begin(out, "behind");
        place(out, "at", dbk_lsn(item->segment->segment_no, item->offset));
        number(out, "bytes", item->end - item->offset);
        word(out, "what", "behind the end of this segment's part of the log");
        end(out);
        break;
    }
    return DAYBOOK_OK;
}

/* ---- indexes and checkpoints ----------------------------------------------------------------- */

static void helper_damage(struct out *out, uint64_t lsn, const char *what)
{
    begin(out, out->json ? "damage" : "DAMAGED");
    place(out, "at", lsn);
    word(out, "what", what);
    end(out);
    out->damaged++;
}

static bool index_entry(void *user, const struct dbk_index_entry *entry)
{
    struct out *out = user;
    begin(out, "entry");
    place(out, "at", dbk_lsn(entry->meta.place.segment_no, entry->meta.place.offset));
    number(out, "position", entry->meta.position);
    number(out, "bytes", entry->meta.place.len);
    moment(out, "observed_at", entry->meta.observed_at_us);
    moment(out, "accepted_at", entry->meta.accepted_at_us);
    number(out, "relocated", entry->relocated ? 1 : 0);
    number(out, "damaged", entry->meta.damaged ? 1 : 0);
    end(out);
    return true;
}

static void index_lines(struct out *out, const struct dbk_salvage *salvage)
{
    enum { PATH_BYTES = 4096 };
    for (uint32_t i = 0; i < salvage->count; i++) {
        const struct dbk_salvage_segment *segment = &salvage->segments[i];
        char file[PATH_BYTES];
        struct dbk_stat st;
        struct dbk_index_header expected = {
            .segment_no = segment->segment_no, .salt = segment->salt, .end = segment->end};
        memcpy(expected.uuid, salvage->identity.uuid, sizeof(expected.uuid));
        (void)snprintf(file, sizeof file, "%s/seg-%016" PRIx64 ".dbi", salvage->path,
                       (uint64_t)segment->segment_no);
        if (salvage->os->stat(salvage->os, file, &st) < 0) {
            continue;
        }
        begin(out, "index");
        number(out, "segment", segment->segment_no);
        number(out, "file_bytes", st.size_bytes);
        end(out);
        enum dbk_index_state state =
            dbk_index_read(salvage->os, salvage->path, &expected, index_entry, out);
        if (state == DBK_INDEX_BAD) {
            helper_damage(
                out, dbk_lsn(segment->segment_no, 0),
                "the index is damaged, or does not fit its segment: the next opening makes "
                "it again");
        } else if (state == DBK_INDEX_UNREADABLE) {
            helper_damage(out, dbk_lsn(segment->segment_no, 0), "the index cannot be read");
        }
    }
}

/* How many bits of the entries of CHUNKS or DELIVERY are set, of the word at `at`. */
static uint64_t bits_of(const struct dbk_section *section, size_t at)
{
    uint64_t count = 0;
    for (uint64_t i = 0; section != NULL && i < section->count; i++) {
        count += (uint64_t)__builtin_popcountll(dbk_get_u64(dbk_section_entry(section, i) + at));
    }
    return count;
}

static uint64_t entries_of(const struct dbk_checkpoint *checkpoint, enum dbk_section_kind kind,
                           uint32_t i)
{
    const struct dbk_section *section = dbk_checkpoint_section(checkpoint, kind, i);
    return section == NULL ? 0 : section->count;
}

static void checkpoint_line(struct out *out, const struct dbk_checkpoint_file *file)
{
    const struct dbk_checkpoint *c = &file->decoded;
    struct dbk_checkpoint_journal journal = dbk_checkpoint_journal_get(
        dbk_section_entry(dbk_checkpoint_section(c, DBK_SECTION_JOURNAL, 0), 0));
    const struct dbk_section *consumers = dbk_checkpoint_section(c, DBK_SECTION_CONSUMERS, 0);
    begin(out, "checkpoint");
    place(out, "at", file->lsn);
    number(out, "file_bytes", file->len);
    number(out, "epoch", c->header.epoch);
    moment(out, "created_at", c->header.created_us);
    number(out, "next_position", journal.next_position);
    number(out, "accepted", journal.counters.accepted);
    number(out, "stored", bits_of(dbk_checkpoint_section(c, DBK_SECTION_CHUNKS, 0), 8));
    number(out, "relocated", journal.relocated ? 1 : 0);
    number(out, "lowest_segment", journal.trim_lowest);
    number(out, "by_checkpoint", journal.trim_by_checkpoint ? 1 : 0);
    number(out, "orphans", entries_of(c, DBK_SECTION_ORPHANS, 0));
    number(out, "quarantines", entries_of(c, DBK_SECTION_QUARANTINES, 0));
    number(out, "operations", entries_of(c, DBK_SECTION_TRAIL, 0));
    list_begin(out, "consumers");
    for (uint32_t i = 0; consumers != NULL && i < consumers->count; i++) {
        struct dbk_consumer_restated one;
        const struct dbk_section *delivery = dbk_checkpoint_section(c, DBK_SECTION_DELIVERY, i);
        if (!dbk_consumer_get(dbk_section_entry(consumers, i), &one)) {
            continue;
        }
        list_item(out, i, "consumer");
        number(out, "consumer", one.id);
        word(out, "name", one.name);
        number(out, "acknowledged", bits_of(delivery, 0));
        number(out, "discarded", bits_of(delivery, 8));
        number(out, "quarantined", bits_of(delivery, 16));
        number(out, "handed_out", bits_of(delivery, 24));
        number(out, "leases", entries_of(c, DBK_SECTION_LEASES, i));
        list_item_end(out);
    }
    list_end(out);
    end(out);
}

static void checkpoint_lines(struct out *out, const struct dbk_salvage *salvage)
{
    enum { LOOKED_AT_MAX = 16 };
    uint64_t lsns[LOOKED_AT_MAX];
    int n = dbk_checkpoints_list(salvage->os, salvage->path, lsns, LOOKED_AT_MAX);
    for (int i = n; i-- > 0;) {
        struct dbk_checkpoint_file file;
        struct daybook_error err = {0};
        enum daybook_code code = dbk_checkpoint_read(salvage->os, salvage->path, lsns[i],
                                                     salvage->identity.uuid, &file, &err);
        if (code == DAYBOOK_OK) {
            checkpoint_line(out, &file);
            dbk_checkpoint_file_free(&file);
        } else if (code != DAYBOOK_NOT_FOUND) {
            helper_damage(out, lsns[i], err.message);
        }
    }
}

/* How an opening judges the directory. */
static void verdict_line(struct out *out, const char *path)
{
    static const char *const words[] = {"empty", "ends in zeros", "closed in order", "torn",
                                        "suspect"};
    struct dbk_scan scan;
    struct dbk_scan_end where = {.kind = DBK_END_EMPTY};
    struct daybook_error err = {.code = DAYBOOK_OK};
    enum daybook_code code = dbk_scan_open_proven(&scan, dbk_os_posix(), path, 0, &err);
    if (code == DAYBOOK_OK) {
        code = dbk_scan_run(&scan, dbk_scan_no_visit, NULL, &where, &err);
    }
    dbk_scan_release(&scan);
    begin(out, "verdict");
    if (code == DAYBOOK_OK) {
        word(out, "end", words[where.kind]);
        place(out, "at", dbk_lsn(where.segment_no, where.offset));
        out->damaged += where.kind == DBK_END_SUSPECT ? 1 : 0;
    } else {
        word(out, "refused", daybook_code_name(code));
        word(out, "message", err.message);
        out->damaged++;
    }
    end(out);
}

static enum cli_status run(const struct cli_args *args)
{
    const char *path = cli_operand(args, 0);
    struct out out = {.json = cli_given(args, "--json")};
    struct dbk_salvage salvage;
    struct daybook_error err = {0};
    if (path == NULL) {
        return cli_error(CLI_USAGE, "dump: which directory? write daybook dump DIR");
    }
    enum daybook_code code = dbk_salvage_open(&salvage, dbk_os_posix(), path, &err);
    if (code == DAYBOOK_OK) {
        if (!salvage.has_identity) {
            begin(&out, out.json ? "damage" : "DAMAGED");
            word(&out, "what", "FORMAT is missing or damaged");
            end(&out);
            out.damaged++;
        }
        code = dbk_salvage_walk(&salvage, visit, &out, &err);
    }
    if (code == DAYBOOK_OK) {
        index_lines(&out, &salvage);
        checkpoint_lines(&out, &salvage);
    }
    if (code == DAYBOOK_OK) {
        verdict_line(&out, path);
    }
    dbk_salvage_release(&salvage);
    dbk_text_release(&out.line);
    enum cli_status status = cli_finish_output();
    if (code != DAYBOOK_OK) {
        return cli_error(cli_status_of(code), "dump %s: %s: %s", path, daybook_code_name(code),
                         err.message);
    }
    return status == CLI_DONE && out.damaged > 0 ? CLI_PARTLY : status;
}

const struct cli_command cli_dump = {
    .name = "dump",
    .arguments = "DIR [--json]",
    .summary = "shows the groups and frames of a data directory",
    .about =
        "Reads only, takes no lock. Behind them come the indexes and the checkpoints. Names what "
        "is\n"
        "damaged where it stands and goes on behind it; the last line is the verdict of an "
        "opening. Exit status 0: nothing is damaged; 3: "
        "something is.\n",
    .examples = "  daybook dump ./daybook-data\n"
                "  daybook dump ./daybook-data --json | grep '\"kind\":\"damage\"'\n",
    .choices = "DIR",
    .operands_max = 1,
    .flags = {CLI_JSON_FLAG("one JSON object a line")},
    .run = run,
};
