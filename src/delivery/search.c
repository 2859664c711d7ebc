/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of a pass. A pass that is accepted at once touches no key: rows are grouped by key only
 * when a range has to be cut, a row held, or a suspect is among them.
 */
#include "delivery/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/fault.h"

/* ---- memory -------------------------------------------------------------------------------------- */

bool dbk_search_init(struct dbk_search *s, struct dbk_recall *recall, size_t rows_max,
                     size_t sink_count, uint32_t attempts_max)
{
    size_t table = 4;

    while (table < rows_max * 2) {
        table *= 2;
    }
    *s = (struct dbk_search){
        .recall = recall,
        .rows_max = rows_max,
        .sink_count = sink_count,
        .attempts_max = attempts_max,
        .table_mask = table - 1,
        /* Each range in line has at least one row of its own when it is made, and
                              * a row comes into a second one only by a condemnation before it. */
        .ring = (uint32_t)(2 * rows_max + 2)};
    s->write = calloc(rows_max, sizeof *s->write);
    s->rows = calloc(rows_max, sizeof *s->rows);
    s->words = calloc(rows_max, sizeof *s->words);
    s->order = calloc(rows_max, sizeof *s->order);
    s->table = calloc(table, sizeof *s->table);
    s->starts = calloc(rows_max + 1, sizeof *s->starts);
    s->ranges = calloc(s->ring, sizeof *s->ranges);
    return s->write != NULL && s->rows != NULL && s->words != NULL && s->order != NULL &&
           s->table != NULL && s->starts != NULL && s->ranges != NULL;
}

void dbk_search_release(struct dbk_search *s)
{
    free(s->write);
    free(s->rows);
    free(s->words);
    free(s->order);
    free(s->table);
    free(s->starts);
    free(s->ranges);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

static bool same_bytes(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_key(const struct daybook_event *a, const struct daybook_event *b)
{
    return same_bytes(a->subject, b->subject) && same_bytes(a->name_space, b->name_space);
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, struct daybook_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        hash = (hash ^ (unsigned char)bytes.data[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* The place of a key in the table: of the entry that has it, or of the one where it belongs. */
static size_t find_key(const struct dbk_search *s, const struct daybook_event *event)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    hash = hash_bytes(hash_bytes(hash, event->subject), event->name_space);
    size_t at = (size_t)(hash ^ hash >> 32) & s->table_mask;
    while (s->table[at] != 0 && !same_key(&s->deliveries[s->table[at] - 1].event, event)) {
        at = (at + 1) & s->table_mask;
    }
    return at;
}

/* Puts the rows of each key together, keys in the order of their first rows. */
static void group(struct dbk_search *s)
{
    uint32_t keys = 0;

    if (s->grouped) {
        return;
    }
    s->grouped = true;
    memset(s->table, 0, (s->table_mask + 1) * sizeof *s->table);
    memset(s->starts, 0, (s->count + 1) * sizeof *s->starts);
    for (size_t i = 0; i < s->count; i++) {
        size_t at = find_key(s, &s->deliveries[i].event);
        if (s->table[at] == 0) {
            s->table[at] = (uint32_t)i + 1;
            s->rows[i].key = keys++;
        } else {
            s->rows[i].key = s->rows[s->table[at] - 1].key;
        }
        s->starts[s->rows[i].key + 1]++;
    }
    for (uint32_t k = 0; k < keys; k++) {
        s->starts[k + 1] += s->starts[k];
    }
    for (size_t i = 0; i < s->count; i++) {
        uint32_t place = s->starts[s->rows[i].key]++;
        s->rows[i].place = place;
        s->order[place] = (uint32_t)i;
    }
}

/* The row behind this one in its key; DBK_NO_ROW: none. */
static size_t behind(const struct dbk_search *s, size_t row)
{
    size_t place = (size_t)s->rows[row].place + 1;

    if (place >= s->count || s->rows[s->order[place]].key != s->rows[row].key) {
        return DBK_NO_ROW;
    }
    return s->order[place];
}

static bool begins_key(const struct dbk_search *s, size_t place)
{
    return place == 0 || s->rows[s->order[place - 1]].key != s->rows[s->order[place]].key;
}

/* Whether nothing of its key waits before this row. */
static bool is_first(const struct dbk_search *s, size_t row)
{
    for (size_t place = s->rows[row].place; !begins_key(s, place); place--) {
        enum dbk_row_state before = s->rows[s->order[place - 1]].state;
        if (before != DBK_ROW_TAKEN && before != DBK_ROW_LANDED && before != DBK_ROW_CONDEMNED) {
            return false;
        }
    }
    return true;
}

/* ---- ranges -------------------------------------------------------------------------------------- */

static struct dbk_search_range *range_of(struct dbk_search *s, uint32_t number)
{
    return &s->ranges[number % s->ring];
}

/* A new range at the end of the line, without rows yet. Returns its number. */
static uint32_t line_up(struct dbk_search *s, uint32_t begin, uint32_t end, bool searched)
{
    dbk_assert(s->next - s->first < s->ring);
    *range_of(s, s->next) = (struct dbk_search_range){begin, end, searched};
    return s->next++;
}

static void own(struct dbk_search *s, size_t row, uint32_t range)
{
    s->rows[row].state = DBK_ROW_READY;
    s->rows[row].range = range;
}

static bool is_searched(const struct dbk_search *s, size_t row)
{
    return dbk_recall_is_searched(s->recall, s->deliveries[row].position, s->sink);
}

/* Lines up what waits in a key from this row on, up to the next cut. A suspect is alone. */
static void line_up_waiting(struct dbk_search *s, size_t row)
{
    uint32_t begin = s->rows[row].place;
    uint32_t range = line_up(s, begin, begin, false);
    bool first = true;

    while (row != DBK_NO_ROW && s->rows[row].state == DBK_ROW_WAITING &&
           (first || !s->rows[row].suspect)) {
        own(s, row, range);
        range_of(s, range)->end = s->rows[row].place + 1;
        range_of(s, range)->searched |= is_searched(s, row);
        if (s->rows[row].suspect || s->rows[row].cut_behind) {
            break;
        }
        first = false;
        row = behind(s, row);
    }
}

/* The rows of a range into `write`, by place. Returns how many. */
static size_t gather(struct dbk_search *s, uint32_t number)
{
    const struct dbk_search_range *range = range_of(s, number);

    s->write_count = 0;
    for (uint32_t place = range->begin; place < range->end; place++) {
        const struct dbk_search_row *row = &s->rows[s->order[place]];
        if (row->state == DBK_ROW_READY && row->range == number) {
            s->write[s->write_count++] = s->order[place];
        }
    }
    return s->write_count;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Where a range of rows (in `write`, by place) is cut: between keys, as near to the middle as can be; of
 * one key in the middle. */
static size_t cut_of(const struct dbk_search *s)
{
    size_t middle = s->write_count / 2;
    size_t best = 0;

    for (size_t i = 1; i < s->write_count; i++) {
        size_t far = i < middle ? middle - i : i - middle;
        size_t best_far = best < middle ? middle - best : best - middle;
        if (s->rows[s->write[i]].key != s->rows[s->write[i - 1]].key &&
            (best == 0 || far < best_far)) {
            best = i;
        }
    }
    return best;
}

/* Halves the range that was refused. */
static void halve(struct dbk_search *s)
{
    struct dbk_search_range range = *range_of(s, s->current);

    group(s);
    (void)gather(s, s->current);
    size_t cut = cut_of(s);
    bool one_key = cut == 0;
    cut = one_key ? s->write_count / 2 : cut;
    uint32_t middle = s->rows[s->write[cut]].place;
    uint32_t left = line_up(s, range.begin, middle, range.searched);
    for (size_t i = 0; i < cut; i++) {
        own(s, s->write[i], left);
    }
    if (one_key) {
        for (size_t i = cut; i < s->write_count; i++) {
            s->rows[s->write[i]].state = DBK_ROW_WAITING;
        }
        s->rows[s->write[s->write_count - 1]].cut_behind = true;
        return;
    }
    uint32_t right = line_up(s, middle, range.end, range.searched);
    for (size_t i = cut; i < s->write_count; i++) {
        own(s, s->write[i], right);
    }
}

/* What is left of the range that was written, again at the end of the line. */
static void write_again(struct dbk_search *s, bool searched)
{
    struct dbk_search_range range = *range_of(s, s->current);

    if (gather(s, s->current) == 0) {
        return;
    }
    uint32_t again = line_up(s, range.begin, range.end, searched);
    for (size_t i = 0; i < s->write_count; i++) {
        own(s, s->write[i], again);
    }
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static bool is_final(enum dbk_row_state state)
{
    return state >= DBK_ROW_LANDED;
}

/* Nothing of its key behind it is written in this pass (W14). */
static void hold_behind(struct dbk_search *s, size_t row)
{
    group(s);
    if (dbk_fault(DBK_FAULT_WRITES_BEHIND_REFUSED)) {
        return;
    }
    for (row = behind(s, row); row != DBK_NO_ROW; row = behind(s, row)) {
        enum dbk_row_state state = s->rows[row].state;
        if (state == DBK_ROW_READY || state == DBK_ROW_WAITING || state == DBK_ROW_TAKEN) {
            s->rows[row].state = DBK_ROW_HELD;
        }
    }
}

/* The row is out of the way: the rest of its run is written after all (W14), up to the next one that is
 * refused. */
static void release_behind(struct dbk_search *s, size_t row)
{
    size_t from = DBK_NO_ROW;

    for (row = behind(s, row); row != DBK_NO_ROW; row = behind(s, row)) {
        struct dbk_search_row *r = &s->rows[row];
        if (r->state == DBK_ROW_REFUSED || r->state == DBK_ROW_BLAMED || r->state == DBK_ROW_LEFT) {
            break;
        }
        if (r->state == DBK_ROW_HELD && r->taken > s->stage) {
            r->state = DBK_ROW_TAKEN;
        } else if (r->state == DBK_ROW_HELD && r->taken == s->stage) {
            r->state = DBK_ROW_WAITING;
            r->cut_behind = false;
            from = from == DBK_NO_ROW ? row : from;
        }
    }
    if (from != DBK_NO_ROW) {
        line_up_waiting(s, from);
    }
}

/* The destination has it. What waits for it in its key is lined up. */
static void take(struct dbk_search *s, size_t row)
{
    struct dbk_search_row *r = &s->rows[row];

    r->taken = (uint8_t)(s->stage + 1);
    r->state = r->taken == s->sink_count ? DBK_ROW_LANDED : DBK_ROW_TAKEN;
    s->last_taken = row;
    if (r->state == DBK_ROW_LANDED) {
        dbk_recall_forget(s->recall, s->deliveries[row].position);
    }
    size_t next = s->grouped ? behind(s, row) : DBK_NO_ROW;
    while (next != DBK_NO_ROW && s->rows[next].state == DBK_ROW_CONDEMNED) {
        next = behind(s, next);
    }
    if (next != DBK_NO_ROW && s->rows[next].state == DBK_ROW_WAITING) {
        line_up_waiting(s, next);
    }
}

static void note_words(struct dbk_search *s, size_t row, const struct daybook_words *words)
{
    s->words[row] = *words;
    s->rows[row].sink = (uint8_t)s->sink;
    s->recall->sinks[s->sink].words = *words;
}

/* Refused on its own account. */
static void blame(struct dbk_search *s, size_t row)
{
    s->rows[row].state = DBK_ROW_BLAMED;
    if (!s->rows[row].suspect) {
        dbk_recall_refused(s->recall, s->sink);
    }
}

static void condemn(struct dbk_search *s, size_t row)
{
    s->rows[row].state = DBK_ROW_CONDEMNED;
    dbk_recall_forget(s->recall, s->deliveries[row].position);
    release_behind(s, row);
}

/* ---- acceptances --------------------------------------------------------------------------------- */

/* The destination is there: it blames what it refused alone before, and what it was not there for is
 * searched. */
static void settle_pending(struct dbk_search *s)
{
    s->absences = 0;
    for (size_t i = 0; i < s->count && s->pending > 0; i++) {
        if (s->rows[i].state == DBK_ROW_REFUSED) {
            s->pending--;
            blame(s, i);
        } else if (s->rows[i].failed) {
            s->pending--;
            s->rows[i].failed = false;
            condemn(s, i);
        }
    }
    if (s->deferred) {
        s->deferred = false;
        struct dbk_search_range range = s->deferred_range;
        uint32_t again = line_up(s, range.begin, range.end, true);
        for (uint32_t place = range.begin; place < range.end; place++) {
            struct dbk_search_row *row = &s->rows[s->order[place]];
            if (row->state == DBK_ROW_READY && row->range == UINT32_MAX) {
                row->range = again;
            }
        }
    }
}

static void on_accepted_rows(struct dbk_search *s)
{
    s->accepted = true;
    s->recall->sinks[s->sink].away = false;
    settle_pending(s);
    dbk_recall_landed(s->recall, s->sink);
}

static void on_accepted(struct dbk_search *s)
{
    size_t confirmed = s->confirming;

    for (size_t i = 0; i < s->write_count; i++) {
        take(s, s->write[i]);
    }
    on_accepted_rows(s);
    if (confirmed != DBK_NO_ROW) {
        release_behind(s, confirmed);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------ */

/* The destination at hand is not there, or may not be: what is not settled there waits. */
static void end_as_outage(struct dbk_search *s, int64_t retry_after_us)
{
    if (dbk_fault(DBK_FAULT_BLAMES_IN_AN_OUTAGE)) {
        settle_pending(s);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct dbk_search_row *row = &s->rows[i];
        row->failed = false;
        if (row->state == DBK_ROW_READY || row->state == DBK_ROW_WAITING ||
            row->state == DBK_ROW_REFUSED) {
            row->state = DBK_ROW_HELD;
        }
    }
    s->gone = true;
    s->first = s->next;
    s->pending = 0;
    s->control_due = false;
    s->deferred = false;
    s->recall->sinks[s->sink].away = true;
    s->end = DBK_SEARCH_OUTAGE;
    s->retry_after_us = retry_after_us > s->retry_after_us ? retry_after_us : s->retry_after_us;
}

/* One more write at the last attempt was refused too. */
static void on_confirmed(struct dbk_search *s, const struct daybook_words *words)
{
    note_words(s, s->confirming, words);
    condemn(s, s->confirming);
}

static void on_refused(struct dbk_search *s, const struct daybook_answer *answer)
{
    if (s->confirming != DBK_NO_ROW) {
        on_confirmed(s, &answer->words);
        return;
    }
    if (answer->refusal == DAYBOOK_REFUSAL_PLAIN) {
        s->refused++;
        s->control_due |= !s->accepted && s->refused >= DBK_PROBES_MAX;
    }
    if (s->write_count > 1) {
        halve(s);
        return;
    }
    size_t row = s->write[0];
    note_words(s, row, &answer->words);
    hold_behind(s, row);
    if (answer->refusal != DAYBOOK_REFUSAL_PLAIN) {
        s->recall->sinks[s->sink].away = false;
        blame(s, row); /* of a row, and there is one; too large alone */
        return;
    }
    if (dbk_fault(DBK_FAULT_BLAMES_WITHOUT_ACCEPTANCE)) {
        blame(s, row);
        return;
    }
    s->rows[row].state = DBK_ROW_REFUSED;
    s->pending++;
}

/* Rows that the destination named. A sink is somebody's code: an index that it made up must not touch
 * anything. */
static void blame_named(struct dbk_search *s, const struct daybook_answer *answer)
{
    for (size_t i = 0; i < answer->rejected_count && i < DAYBOOK_REJECTED_MAX; i++) {
        size_t index = answer->rejected[i].index;
        if (index < s->write_count && s->rows[s->write[index]].state == DBK_ROW_READY) {
            note_words(s, s->write[index], &answer->rejected[i].words);
            blame(s, s->write[index]);
        }
    }
}

static bool names_a_row(const struct dbk_search *s, const struct daybook_answer *answer)
{
    for (size_t i = 0; i < answer->rejected_count && i < DAYBOOK_REJECTED_MAX; i++) {
        if (answer->rejected[i].index < s->write_count) {
            return true;
        }
    }
    return false;
}

/* What the destination took of a write beside the rows that it named. */
static void take_others(struct dbk_search *s)
{
    bool any = false;

    for (size_t i = 0; i < s->write_count; i++) {
        if (s->rows[s->write[i]].state == DBK_ROW_READY) {
            take(s, s->write[i]);
            any = true;
        }
    }
    if (any) {
        on_accepted_rows(s);
    }
}

static void on_rejected(struct dbk_search *s, const struct daybook_answer *answer)
{
    if (!names_a_row(s, answer)) {
        struct daybook_answer plain = {.kind = DAYBOOK_ANSWER_REFUSED, .words = answer->words};
        on_refused(s, &plain);
        return;
    }
    s->recall->sinks[s->sink].away = false;
    s->absences = 0;
    if (s->confirming != DBK_NO_ROW) {
        on_confirmed(s, &answer->rejected[0].words);
        return;
    }
    size_t before = s->write_count;
    blame_named(s, answer);
    if (answer->others == DAYBOOK_OTHERS_ACCEPTED || dbk_fault(DBK_FAULT_ROLLED_BACK_LANDED)) {
        take_others(s);
    }
    /* After the others: what was taken behind a named row has landed there; no other destination is
     * asked to take it. */
    for (size_t i = 0; i < before; i++) {
        if (s->rows[s->write[i]].state == DBK_ROW_BLAMED) {
            hold_behind(s, s->write[i]);
        }
    }
    if (answer->others == DAYBOOK_OTHERS_NOT_WRITTEN) {
        write_again(s, range_of(s, s->current)->searched);
    }
}

/* ---- absences ------------------------------------------------------------------------------------ */

/* Sets the range aside until something lands: then it is searched. */
static void defer(struct dbk_search *s, int64_t retry_after_us)
{
    s->deferred = true;
    s->deferred_retry_after_us = retry_after_us;
    s->deferred_range = *range_of(s, s->current);
    for (size_t i = 0; i < s->write_count; i++) {
        s->rows[s->write[i]].range = UINT32_MAX;
    }
}

static void on_unavailable(struct dbk_search *s, const struct daybook_answer *answer)
{
    bool searched = s->confirming != DBK_NO_ROW || range_of(s, s->current)->searched;

    for (size_t i = 0; i < s->write_count; i++) {
        dbk_recall_trouble(s->recall, s->deliveries[s->write[i]].position, s->sink);
    }
    s->absences++;
    if (s->confirming != DBK_NO_ROW) {
        note_words(s, s->confirming, &answer->words);
        s->rows[s->confirming].failed = true;
        s->pending++;
    } else if (searched && s->write_count > 1) {
        halve(s);
    } else if (searched) {
        note_words(s, s->write[0], &answer->words);
        hold_behind(s, s->write[0]);
        s->rows[s->write[0]].state = DBK_ROW_REFUSED;
        s->pending++;
    } else if (s->accepted && !s->deferred && !dbk_fault(DBK_FAULT_UNAVAILABLE_IS_OUTAGE)) {
        defer(s, answer->retry_after_us);
    } else {
        end_as_outage(s, answer->retry_after_us);
        return;
    }
    s->control_due |= s->absences >= DBK_ABSENCES_MAX;
}

/* ---- answers ------------------------------------------------------------------------------------- */

static void on_control(struct dbk_search *s, const struct daybook_answer *answer)
{
    if (answer->kind != DAYBOOK_ANSWER_ACCEPTED) {
        end_as_outage(s, answer->retry_after_us);
        return;
    }
    s->control_due = false;
    s->refused = 0;
    s->recall->sinks[s->sink].away = false;
    settle_pending(s);
    dbk_recall_control(s->recall, s->sink);
}

void dbk_search_answer(struct dbk_search *s, const struct daybook_answer *answer)
{
    enum dbk_ask asked = s->asked;

    s->asked = DBK_ASK_NOTHING;
    if (asked == DBK_ASK_CONTROL) {
        on_control(s, answer);
        return;
    }
    switch (answer->kind) {
    case DAYBOOK_ANSWER_ACCEPTED:
        on_accepted(s);
        break;
    case DAYBOOK_ANSWER_REJECTED:
        on_rejected(s, answer);
        break;
    case DAYBOOK_ANSWER_UNAVAILABLE:
        on_unavailable(s, answer);
        break;
    case DAYBOOK_ANSWER_REFUSED:
    default:
        on_refused(s, answer);
        break;
    }
    s->confirming = DBK_NO_ROW;
}

/* ---- destinations -------------------------------------------------------------------------------- */

static bool is_in_trouble(const struct dbk_search *s, size_t sink)
{
    return (s->recall->sinks[sink].away || s->recall->sinks[sink].braked) &&
           !dbk_fault(DBK_FAULT_AWAY_ASKED_LAST);
}

/* Those that are away or braked come first (W15): what is not there need not be written elsewhere in vain. */
static void order_sinks(struct dbk_search *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->sink_count; i++) {
        if (is_in_trouble(s, i)) {
            s->sinks[count++] = (uint8_t)i;
        }
    }
    for (size_t i = 0; i < s->sink_count; i++) {
        if (!is_in_trouble(s, i)) {
            s->sinks[count++] = (uint8_t)i;
        }
    }
}

/* Makes ready what the destinations before have taken. Returns how many rows; `ret_suspects`: how many
 * of them are written alone. */
static size_t make_ready(struct dbk_search *s, size_t *ret_suspects)
{
    size_t ready = 0;

    *ret_suspects = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct dbk_search_row *row = &s->rows[i];
        row->suspect = false;
        row->cut_behind = false;
        row->confirmed = false;
        if (row->state == DBK_ROW_TAKEN) {
            row->state = DBK_ROW_READY;
            row->suspect = dbk_recall_is_suspect(s->recall, s->deliveries[i].position, s->sink);
            *ret_suspects += row->suspect ? 1 : 0;
            ready++;
        }
    }
    return ready;
}

/* A suspect waits for what stands before it, and what stands behind it for the suspect. Returns how many
 * rows are left for the first range. */
static size_t set_suspects_apart(struct dbk_search *s)
{
    bool apart = false;
    size_t left = 0;

    group(s);
    for (size_t place = 0; place < s->count; place++) {
        struct dbk_search_row *row = &s->rows[s->order[place]];
        apart = row->suspect || (apart && !begins_key(s, place));
        if (row->state == DBK_ROW_READY && apart) {
            row->state = DBK_ROW_WAITING;
        }
        left += row->state == DBK_ROW_READY ? 1 : 0;
    }
    return left;
}

/* Lines up the suspects that stand first in their keys. */
static void line_up_suspects(struct dbk_search *s)
{
    bool first = true;

    for (size_t place = 0; place < s->count; place++) {
        size_t row = s->order[place];
        first = first || begins_key(s, place);
        if (first && s->rows[row].state == DBK_ROW_WAITING) {
            line_up_waiting(s, row);
        }
        first = first && is_final(s->rows[row].state);
    }
}

/* Begins with the destination of this stage. */
static void begin_stage(struct dbk_search *s)
{
    size_t suspects = 0;

    s->sink = s->sinks[s->stage];
    s->asked = DBK_ASK_NOTHING;
    s->confirming = DBK_NO_ROW;
    s->gone = false;
    s->wrote = false;
    s->accepted = false;
    s->last_taken = DBK_NO_ROW;
    s->refused = 0;
    s->absences = 0;
    s->control_due = false;
    s->pending = 0;
    s->deferred = false;
    s->first = 0;
    s->next = 0;
    size_t ready = make_ready(s, &suspects);
    if (suspects > 0) {
        ready = set_suspects_apart(s);
    }
    if (ready > 0) {
        uint32_t all = line_up(s, 0, (uint32_t)s->count, false);
        for (size_t i = 0; i < s->count; i++) {
            if (s->rows[i].state == DBK_ROW_READY) {
                s->rows[i].range = all;
                range_of(s, all)->searched |= is_searched(s, i);
            }
        }
    }
    if (suspects > 0) {
        line_up_suspects(s);
    }
}

/* The destination has had its say. */
static void end_stage(struct dbk_search *s)
{
    bool braked = s->recall->sinks[s->sink].braked;

    for (size_t i = 0; i < s->count; i++) {
        struct dbk_search_row *row = &s->rows[i];
        if (row->state == DBK_ROW_BLAMED && !braked) {
            /* The last attempt is spent by a verdict alone: what is refused leaves as rejected, not
             * because its hand-outs are used up. */
            row->state =
                s->deliveries[i].attempt >= s->attempts_max ? DBK_ROW_UNWRITTEN : DBK_ROW_SPENT;
            dbk_recall_suspect(s->recall, s->deliveries[i].position, s->sink);
        } else if (!is_final(row->state) && row->state != DBK_ROW_TAKEN) {
            row->state = DBK_ROW_UNWRITTEN;
        }
    }
    if (braked && s->wrote && s->end == DBK_SEARCH_FINE) {
        s->end = DBK_SEARCH_BRAKED;
    }
    s->stage++;
    if (s->stage < s->sink_count) {
        begin_stage(s);
    } else {
        s->over = true;
    }
}

void dbk_search_begin(struct dbk_search *s, const struct daybook_delivery *deliveries, size_t count,
                      bool control_known)
{
    dbk_assert(count <= s->rows_max);
    s->deliveries = deliveries;
    s->count = count;
    s->control_known = control_known;
    s->end = DBK_SEARCH_FINE;
    s->retry_after_us = 0;
    s->over = false;
    s->grouped = false;
    s->stage = 0;
    for (size_t i = 0; i < count; i++) {
        s->rows[i] = (struct dbk_search_row){.state = DBK_ROW_TAKEN, .place = (uint32_t)i};
        s->order[i] = (uint32_t)i;
    }
    order_sinks(s);
    begin_stage(s);
}

/* ---- what is next -------------------------------------------------------------------------------- */

static enum dbk_ask ask_range(struct dbk_search *s)
{
    s->confirming = DBK_NO_ROW;
    if (s->grouped) {
        qsort(s->write, s->write_count, sizeof *s->write, by_number);
    }
    s->asked = DBK_ASK_ROWS;
    s->wrote = true;
    return s->asked;
}

/* The next row that may be condemned, if one more write of it alone is refused too (W6, W6b). */
static size_t next_to_confirm(struct dbk_search *s)
{
    if (s->recall->sinks[s->sink].braked && !dbk_fault(DBK_FAULT_BRAKE_OFF)) {
        return DBK_NO_ROW;
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->rows[i].state == DBK_ROW_BLAMED && !s->rows[i].confirmed &&
            (s->deliveries[i].attempt >= s->attempts_max ||
             dbk_fault(DBK_FAULT_CONDEMNS_AT_ONCE)) &&
            is_first(s, i)) {
            return i;
        }
    }
    return DBK_NO_ROW;
}

static enum dbk_ask ask_control(struct dbk_search *s)
{
    s->control_row = s->last_taken;
    s->asked = DBK_ASK_CONTROL;
    return s->asked;
}

static enum dbk_ask ask_confirmation(struct dbk_search *s, size_t row)
{
    s->rows[row].confirmed = true;
    s->confirming = row;
    s->write[0] = (uint32_t)row;
    s->write_count = 1;
    s->asked = DBK_ASK_ROWS;
    return s->asked;
}

/* At the destination at hand; NOTHING: it has had its say. */
static enum dbk_ask next_here(struct dbk_search *s)
{
    while (!s->gone) {
        if (s->control_due && (s->accepted || s->control_known)) {
            return ask_control(s);
        }
        if (s->control_due) {
            end_as_outage(s, 0); /* none is known: no verdict (W5) */
            break;
        }
        while (s->first != s->next) {
            s->current = s->first++;
            if (gather(s, s->current) > 0) {
                return ask_range(s);
            }
        }
        if (s->pending > 0) {
            s->control_due = true;
            continue;
        }
        if (s->deferred) {
            end_as_outage(s, s->deferred_retry_after_us); /* nothing landed after it */
            break;
        }
        size_t row = next_to_confirm(s);
        return row == DBK_NO_ROW ? DBK_ASK_NOTHING : ask_confirmation(s, row);
    }
    return DBK_ASK_NOTHING;
}

/* The write that was asked for and not answered, without the rows that left. */
static bool ask_again(struct dbk_search *s)
{
    if (s->asked != DBK_ASK_ROWS || s->confirming != DBK_NO_ROW) {
        return s->asked != DBK_ASK_NOTHING;
    }
    return gather(s, s->current) > 0;
}

enum dbk_ask dbk_search_next(struct dbk_search *s)
{
    if (!s->over && s->asked != DBK_ASK_NOTHING) {
        if (ask_again(s)) {
            return s->confirming == DBK_NO_ROW && s->asked == DBK_ASK_ROWS ? ask_range(s)
                                                                           : s->asked;
        }
        s->asked = DBK_ASK_NOTHING;
    }
    while (!s->over) {
        enum dbk_ask ask = next_here(s);
        if (ask != DBK_ASK_NOTHING) {
            return ask;
        }
        end_stage(s);
    }
    return DBK_ASK_NOTHING;
}

void dbk_search_leave(struct dbk_search *s, size_t row)
{
    enum dbk_row_state was = s->rows[row].state;

    if (was != DBK_ROW_READY && was != DBK_ROW_WAITING && s->confirming != row) {
        return;
    }
    if (s->confirming == row) {
        s->asked = DBK_ASK_NOTHING;
        s->confirming = DBK_NO_ROW;
    }
    s->rows[row].state = DBK_ROW_LEFT;
    hold_behind(s, row);
}

void dbk_search_stop(struct dbk_search *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (!is_final(s->rows[i].state)) {
            s->rows[i].state = DBK_ROW_UNWRITTEN;
        }
    }
    s->end = DBK_SEARCH_STOPPED;
    s->over = true;
}

size_t dbk_search_count(const struct dbk_search *s, enum dbk_row_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < s->count; i++) {
        count += s->rows[i].state == state ? 1 : 0;
    }
    return count;
}

size_t dbk_search_taken(const struct dbk_search *s, size_t sink)
{
    size_t count = 0;
    size_t stage = 0;

    while (stage < s->sink_count && s->sinks[stage] != sink) {
        stage++;
    }
    for (size_t i = 0; i < s->count; i++) {
        count += s->rows[i].taken > stage ? 1 : 0;
    }
    return count;
}
