/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of a pass against a destination whose bad events are known: what is written, and what becomes
 * of each row. First a table of cases, one letter an event; then random ones over many passes, held
 * against what no search may ever do. DAYBOOK_SEED and DAYBOOK_OPERATIONS as in every random test.
 */
#include "delivery/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 300u
#define LOG_MAX 16384u
#define ATTEMPTS_MAX 3u
#define SINKS_MAX 3u
#define NEVER UINT32_MAX

/* What a destination does with a write that has such an event in it. */
enum kind {
    GOOD = 'g',
    REFUSES = 'r',      /* refuses, and names nobody */
    NAMES = 'n',        /* names it; the others are not written */
    TAKES_OTHERS = 'o', /* names it; the others are accepted */
    BREAKS = '5',       /* is unavailable to a write with it */
    CONSTRAINT = 'c',   /* a constraint that names nobody, but where it is alone */
    LARGE = 't'         /* too large with anything beside it, and alone too */
};

/* One destination. */
struct model_sink {
    const char *kinds;  /* one a row; NULL: all good */
    uint32_t away_from; /* number of the first write of an outage */
    uint32_t away_to;
    enum daybook_answer_kind away_as;
    bool nonsense; /* names rows that are not in the write */
    uint32_t writes;
    bool took[ROWS_MAX];
};

struct model {
    struct daybook_delivery deliveries[ROWS_MAX];
    char subjects[ROWS_MAX][8];
    size_t count;
    struct dbk_recall recall;
    struct dbk_search search;
    size_t sink_count;
    struct model_sink sinks[SINKS_MAX];
    bool control_known;
    char log[LOG_MAX]; /* writes: "[0 1 2]"; a control: "*" */
    uint32_t writes;
    uint32_t controls;
    uint32_t refused; /* writes that nobody's name came back with */
};

static void log_text(struct model *m, const char *text)
{
    size_t used = strlen(m->log);

    if (used + strlen(text) + 1 < LOG_MAX) {
        strcpy(m->log + used, text);
    }
}

/* Rows whose keys are the letters; attempts are 1, positions begin at 1. */
static void rows_of(struct model *m, const char *keys)
{
    m->count = strlen(keys);
    for (size_t i = 0; i < m->count; i++) {
        m->subjects[i][0] = keys[i];
        m->deliveries[i] = (struct daybook_delivery){
            .position = i + 1,
            .attempt = 1,
            .event = {.name_space = {"n", 1}, .subject = {m->subjects[i], 1}}};
    }
}

/* So many rows, each of a key of its own. */
static void distinct_rows(struct model *m, size_t count)
{
    m->count = count;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(m->subjects[i], sizeof m->subjects[i], "k%zu", i);
        m->deliveries[i] = (struct daybook_delivery){
            .position = i + 1,
            .attempt = 1,
            .event = {.name_space = {"n", 1}, .subject = {m->subjects[i], strlen(m->subjects[i])}}};
    }
}

static struct model *model_new(size_t sinks, uint32_t brake)
{
    struct model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->sink_count = sinks;
    for (size_t i = 0; i < sinks; i++) {
        m->sinks[i].away_from = NEVER;
    }
    assert_true(dbk_recall_init(&m->recall, 4 * ROWS_MAX, brake));
    assert_true(dbk_search_init(&m->search, &m->recall, ROWS_MAX, sinks, ATTEMPTS_MAX));
    return m;
}

static void model_free(struct model *m)
{
    dbk_search_release(&m->search);
    dbk_recall_release(&m->recall);
    free(m);
}

static bool is_away(const struct model_sink *sink)
{
    return sink->writes > sink->away_from && sink->writes <= sink->away_to;
}

static void name(struct daybook_answer *answer, size_t index)
{
    if (answer->rejected_count < DAYBOOK_REJECTED_MAX) {
        struct daybook_rejected_row *row = &answer->rejected[answer->rejected_count++];
        row->index = index;
        (void)snprintf(row->words.message, sizeof row->words.message, "row %zu", index);
    }
}

/* Names every row that the destination would name. */
static void name_bad(const struct model_sink *sink, const uint32_t *write, size_t count,
                     struct daybook_answer *answer)
{
    for (size_t i = 0; i < count; i++) {
        if (sink->kinds[write[i]] != GOOD) {
            name(answer, i);
        }
    }
    if (answer->rejected_count == DAYBOOK_REJECTED_MAX) {
        answer->others = DAYBOOK_OTHERS_NOT_WRITTEN; /* as one that ends there does */
    }
}

/* What the destination says of the rows `write`: the first bad one decides. */
static void judge(const struct model_sink *sink, const uint32_t *write, size_t count,
                  struct daybook_answer *answer)
{
    enum kind kind = GOOD;

    *answer = (struct daybook_answer){.kind = DAYBOOK_ANSWER_ACCEPTED};
    (void)snprintf(answer->words.message, sizeof answer->words.message, "no");
    for (size_t i = 0; i < count && kind == GOOD && sink->kinds != NULL; i++) {
        kind = (enum kind)sink->kinds[write[i]];
    }
    if (is_away(sink)) {
        answer->kind = sink->away_as;
        return;
    }
    switch (kind) {
    case GOOD:
        return;
    case BREAKS:
        answer->kind = DAYBOOK_ANSWER_UNAVAILABLE;
        break;
    case REFUSES:
        answer->kind = DAYBOOK_ANSWER_REFUSED;
        break;
    case LARGE:
        answer->kind = DAYBOOK_ANSWER_REFUSED;
        answer->refusal = DAYBOOK_REFUSAL_TOO_LARGE;
        break;
    case CONSTRAINT:
        answer->kind = count > 1 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_REJECTED;
        answer->refusal = DAYBOOK_REFUSAL_OF_A_ROW;
        name(answer, 0);
        break;
    case NAMES:
    case TAKES_OTHERS:
        answer->kind = DAYBOOK_ANSWER_REJECTED;
        answer->others = kind == NAMES ? DAYBOOK_OTHERS_NOT_WRITTEN : DAYBOOK_OTHERS_ACCEPTED;
        name_bad(sink, write, count, answer);
        break;
    }
    if (sink->nonsense) {
        answer->kind = DAYBOOK_ANSWER_REJECTED;
        answer->others = DAYBOOK_OTHERS_ACCEPTED;
        answer->rejected_count = 0;
        name(answer, count);
        name(answer, SIZE_MAX);
    }
}

/* What the destination keeps of it. */
static void keep(struct model_sink *sink, const uint32_t *write, size_t count,
                 const struct daybook_answer *answer)
{
    bool others = answer->kind == DAYBOOK_ANSWER_REJECTED &&
                  answer->others == DAYBOOK_OTHERS_ACCEPTED && !sink->nonsense;

    for (size_t i = 0; i < count; i++) {
        if (answer->kind == DAYBOOK_ANSWER_ACCEPTED ||
            (others && (sink->kinds == NULL || sink->kinds[write[i]] == GOOD))) {
            sink->took[write[i]] = true;
        }
    }
}

static void log_write(struct model *m)
{
    char text[16];

    for (size_t i = 0; i < m->search.write_count; i++) {
        (void)snprintf(text, sizeof text, "%s%u", i == 0 ? "[" : " ", m->search.write[i]);
        log_text(m, text);
    }
    log_text(m, "]");
}

/* W14: what stands before a row in its key is there already, or in the same write, or is condemned. */
static void check_order(struct model *m, const struct model_sink *sink)
{
    for (size_t i = 0; i < m->search.write_count; i++) {
        uint32_t row = m->search.write[i];
        assert_true(i == 0 || m->search.write[i - 1] < row);
        for (uint32_t before = 0; before < row; before++) {
            bool in_write = false;
            if (strcmp(m->subjects[before], m->subjects[row]) != 0) {
                continue;
            }
            for (size_t k = 0; k < i; k++) {
                in_write |= m->search.write[k] == before;
            }
            assert_true(in_write || sink->took[before] ||
                        m->search.rows[before].state == DBK_ROW_CONDEMNED);
        }
    }
}

/* Answers one question. */
static void step(struct model *m, enum dbk_ask ask)
{
    struct daybook_answer answer;
    struct model_sink *sink = &m->sinks[m->search.sink];
    uint32_t control = (uint32_t)m->search.control_row;

    sink->writes++;
    if (ask == DBK_ASK_ROWS) {
        m->writes++;
        log_write(m);
        check_order(m, sink);
        judge(sink, m->search.write, m->search.write_count, &answer);
        for (size_t i = 0; i < m->search.write_count; i++) {
            assert_false(sink->took[m->search.write[i]]); /* W15 */
        }
        keep(sink, m->search.write, m->search.write_count, &answer);
        m->refused += answer.kind == DAYBOOK_ANSWER_REFUSED ? 1 : 0;
    } else {
        m->controls++;
        log_text(m, "*");
        assert_true(m->search.control_row == DBK_NO_ROW ? m->control_known : sink->took[control]);
        judge(sink, &control, m->search.control_row == DBK_NO_ROW ? 0 : 1, &answer);
    }
    dbk_search_answer(&m->search, &answer);
}

static void begin(struct model *m)
{
    m->log[0] = '\0';
    m->writes = 0;
    m->controls = 0;
    m->refused = 0;
    for (size_t i = 0; i < m->sink_count; i++) {
        memset(m->sinks[i].took, 0, sizeof m->sinks[i].took);
        m->sinks[i].writes = 0;
    }
    dbk_search_begin(&m->search, m->deliveries, m->count, m->control_known);
}

static void run(struct model *m)
{
    enum dbk_ask ask;

    begin(m);
    while ((ask = dbk_search_next(&m->search)) != DBK_ASK_NOTHING) {
        step(m, ask);
    }
}

/* States by letter: Landed, Spent, Condemned, Unwritten, X left. */
static void states_of(const struct model *m, char *ret)
{
    for (size_t i = 0; i < m->search.count; i++) {
        assert_true(m->search.rows[i].state >= DBK_ROW_LANDED);
        ret[i] = "LSCUX"[m->search.rows[i].state - DBK_ROW_LANDED];
    }
    ret[m->search.count] = '\0';
}

static void assert_states(const struct model *m, const char *want)
{
    char got[ROWS_MAX + 1];

    states_of(m, got);
    assert_string_equal(got, want);
}

/* ---- the table ----------------------------------------------------------------------------------- */

struct line {
    const char *rule;
    const char *keys;
    const char *kinds;
    bool control;     /* one is known */
    uint32_t attempt; /* of every row; 0: 1 */
    const char *writes;
    const char *states;
    enum dbk_search_end end;
};

static const struct line lines[] = {
    {"W8: what is accepted lands", "abc", "ggg", false, 0, "[0 1 2]", "LLL", DBK_SEARCH_FINE},
    {"W3: both halves before either is halved", "abcd", "gggr", false, 0,
     "[0 1 2 3][0 1][2 3][2][3]*", "LLLS", DBK_SEARCH_FINE},
    {"W3: an acceptance behind the refusal needs no control", "abcd", "rggg", false, 0,
     "[0 1 2 3][0 1][2 3][0][1]", "SLLL", DBK_SEARCH_FINE},
    {"W4: a bad one in each half is no outage", "abcd", "rgrg", false, 0,
     "[0 1 2 3][0 1][2 3][0][1][2][3]", "SLSL", DBK_SEARCH_FINE},
    {"W4: everything refused is an outage", "abcd", "rrrr", false, 0,
     "[0 1 2 3][0 1][2 3][0][1][2][3]", "UUUU", DBK_SEARCH_OUTAGE},
    {"W5: but for a control that is accepted", "abcd", "rrrr", true, 0,
     "[0 1 2 3][0 1][2 3][0][1][2][3]*", "SSSS", DBK_SEARCH_FINE},
    {"W5: one alone without a control is no verdict", "a", "r", false, 0, "[0]", "U",
     DBK_SEARCH_OUTAGE},
    {"W5: one alone with a control", "a", "r", true, 0, "[0]*", "S", DBK_SEARCH_FINE},
    {"W5: the same at its last attempt", "a", "r", false, ATTEMPTS_MAX, "[0]", "U",
     DBK_SEARCH_OUTAGE},
    {"W6: condemned after one more write of it alone", "abcd", "grgg", false, ATTEMPTS_MAX,
     "[0 1 2 3][0 1][2 3][0][1]*[1]", "LCLL", DBK_SEARCH_FINE},
    {"W12: named rows leave, the others are written again", "abcd", "gnng", false, 0,
     "[0 1 2 3][0 3]", "LSSL", DBK_SEARCH_FINE},
    {"W12: others that were accepted have landed", "abcd", "goog", false, 0, "[0 1 2 3]", "LSSL",
     DBK_SEARCH_FINE},
    {"W12: named in a pass of one", "a", "n", false, 0, "[0]", "S", DBK_SEARCH_FINE},
    {"W6: named, condemned", "ab", "gn", false, ATTEMPTS_MAX, "[0 1][0][1]", "LC", DBK_SEARCH_FINE},
    {"W12: every row named is no outage", "ab", "nn", false, 0, "[0 1]", "SS", DBK_SEARCH_FINE},
    {"W12: a constraint of several is searched, alone it names", "abcd", "cggg", false, 0,
     "[0 1 2 3][0 1][2 3][0][1]", "SLLL", DBK_SEARCH_FINE},
    {"W12: and is no sign of an outage", "abcd", "cccc", false, 0,
     "[0 1 2 3][0 1][2 3][0][1][2][3]", "SSSS", DBK_SEARCH_FINE},
    {"W12: too large is split until it fits", "abcd", "ggtg", false, 0, "[0 1 2 3][0 1][2 3][2][3]",
     "LLSL", DBK_SEARCH_FINE},
    {"W12: an outage that is told is not searched", "abcd", "g5gg", true, 0, "[0 1 2 3]", "UUUU",
     DBK_SEARCH_OUTAGE},
    {"W14: ranges are cut between keys", "abab", "grgg", false, 0, "[0 1 2 3][0 2][1 3][1]*",
     "LSLU", DBK_SEARCH_FINE},
    {"W14: between keys as near to the middle as can be", "aaabb", "rgggg", false, 0,
     "[0 1 2 3 4][0 1 2][3 4][0]*", "SUULL", DBK_SEARCH_FINE},
    {"W14: one key is searched as prefixes", "aaaa", "ggrg", false, 0, "[0 1 2 3][0 1][2 3][2]*",
     "LLSU", DBK_SEARCH_FINE},
    {"W14: the second half waits for the first", "aaaa", "rggg", true, 0, "[0 1 2 3][0 1][0]*",
     "SUUU", DBK_SEARCH_FINE},
    {"W14: the first half has landed in parts", "aaaaaaaa", "gggggrgg", false, 0,
     "[0 1 2 3 4 5 6 7][0 1 2 3][4 5 6 7][4 5][4][5]*", "LLLLLSUU", DBK_SEARCH_FINE},
    {"W14: a condemned one lets the rest of its run go", "aaaa", "grgg", false, ATTEMPTS_MAX,
     "[0 1 2 3][0 1][0][1]*[1][2 3]", "LCLL", DBK_SEARCH_FINE},
    {"W14: two bad ones in a run", "aaaa", "rgrg", true, ATTEMPTS_MAX,
     "[0 1 2 3][0 1][0]*[0][1 2 3][1][2 3][2]*[2][3]", "CLCL", DBK_SEARCH_FINE},
    {"W14: behind a named row its key is held", "aab", "ngg", false, 0, "[0 1 2][2]", "SUL",
     DBK_SEARCH_FINE},
    {"W14: but for what was taken behind it", "aab", "ogg", false, 0, "[0 1 2]", "SLL",
     DBK_SEARCH_FINE},
    {"W14: condemned by name", "aab", "ngg", false, ATTEMPTS_MAX, "[0 1 2][2][0][1]", "CLL",
     DBK_SEARCH_FINE},
    {"W14: two of a key named: the first goes first", "aaaa", "ngng", false, ATTEMPTS_MAX,
     "[0 1 2 3][0][1][2][3]", "CLCL", DBK_SEARCH_FINE},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const struct line *line = &lines[i];
        struct model *m = model_new(1, 100);
        char got[ROWS_MAX + 1];
        rows_of(m, line->keys);
        m->sinks[0].kinds = line->kinds;
        m->control_known = line->control;
        for (size_t k = 0; k < m->count && line->attempt > 0; k++) {
            m->deliveries[k].attempt = line->attempt;
        }
        run(m);
        states_of(m, got);
        if (strcmp(got, line->states) != 0 || strcmp(m->log, line->writes) != 0 ||
            m->search.end != line->end) {
            fail_msg("%s\n  want %s %s end %d\n  got  %s %s end %d", line->rule, line->states,
                     line->writes, (int)line->end, got, m->log, (int)m->search.end);
        }
        model_free(m);
    }
}

/* ---- outages ------------------------------------------------------------------------------------- */

static void test_W3_an_outage_that_begins_in_the_middle_of_a_search_blames_only_what_was_before(
    void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    /* [all] refused, [0 1] refused, [2 3] accepted, then the destination goes: 0 and 1 are refused alone,
     * but nothing is accepted any more. */
    rows_of(m, "abcd");
    m->sinks[0].kinds = "rggg";
    m->sinks[0].away_from = 3;
    m->sinks[0].away_to = NEVER;
    m->sinks[0].away_as = DAYBOOK_ANSWER_REFUSED;
    run(m);
    assert_string_equal(m->log, "[0 1 2 3][0 1][2 3][0][1]*");
    assert_states(m, "UULL");
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    model_free(m);
}

static void test_W4_the_search_of_a_dead_destination_ends_at_its_budget(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    distinct_rows(m, 256);
    m->sinks[0].away_from = 0;
    m->sinks[0].away_to = NEVER;
    m->sinks[0].away_as = DAYBOOK_ANSWER_REFUSED;
    run(m);
    assert_int_equal(m->writes, 32);
    assert_int_equal(m->controls, 0);
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_UNWRITTEN), 256);
    /* With a control: it is asked once, and refused. */
    m->control_known = true;
    run(m);
    assert_int_equal(m->writes, 32);
    assert_int_equal(m->controls, 1);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_UNWRITTEN), 256);
    model_free(m);
}

static void test_W4_a_control_that_is_accepted_gives_a_fresh_budget(void **state)
{
    struct model *m = model_new(1, 1000);
    char kinds[ROWS_MAX] = "";

    (void)state;
    distinct_rows(m, 256);
    memset(kinds, REFUSES, 256);
    m->sinks[0].kinds = kinds;
    m->control_known = true;
    run(m);
    assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_SPENT), 256);
    assert_int_equal(m->writes, 511);
    assert_int_equal(m->controls, 16); /* after each 32, and for the last rows */
    model_free(m);
}

static void test_W3_sixteen_bad_ones_spread_over_256(void **state)
{
    struct model *m = model_new(1, 100);
    char kinds[ROWS_MAX] = "";

    (void)state;
    for (size_t offset = 0; offset < 16; offset++) {
        distinct_rows(m, 256);
        memset(kinds, GOOD, 256);
        for (size_t i = offset; i < 256; i += 16) {
            kinds[i] = REFUSES;
        }
        m->sinks[0].kinds = kinds;
        m->control_known = true;
        run(m);
        assert_int_equal(dbk_search_count(&m->search, DBK_ROW_SPENT), 16);
        assert_int_equal(dbk_search_count(&m->search, DBK_ROW_LANDED), 240);
        assert_true(m->controls <= 2);
        for (size_t i = offset; i < 256; i += 16) {
            dbk_recall_forget(&m->recall, i + 1);
        }
    }
    model_free(m);
}

static void test_W3_forty_bad_ones_in_a_row_at_the_front(void **state)
{
    struct model *m = model_new(1, 100);
    char kinds[ROWS_MAX] = "";

    (void)state;
    distinct_rows(m, 256);
    memset(kinds, GOOD, 256);
    memset(kinds, REFUSES, 40);
    m->sinks[0].kinds = kinds;
    run(m);
    assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_SPENT), 40);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_LANDED), 216);
    assert_true(m->controls <= 1);
    model_free(m);
}

static void test_W13_what_an_outage_asks_for_is_handed_on(void **state)
{
    struct model *m = model_new(1, 100);
    struct daybook_answer answer = {.kind = DAYBOOK_ANSWER_UNAVAILABLE, .retry_after_us = 5};

    (void)state;
    rows_of(m, "ab");
    begin(m);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_ROWS);
    dbk_search_answer(&m->search, &answer);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_int_equal(m->search.retry_after_us, 5);
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    model_free(m);
}

/* Answers what is asked next, which must be rows or the control. */
static void answer_next(struct model *m, enum dbk_ask ask, enum daybook_answer_kind kind,
                        int64_t retry_after_us)
{
    const struct daybook_answer answer = {.kind = kind, .retry_after_us = retry_after_us};

    assert_int_equal(dbk_search_next(&m->search), ask);
    dbk_search_answer(&m->search, &answer);
}

static void test_W13_what_the_control_is_told_and_what_was_set_aside_is_handed_on(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    distinct_rows(m, 2);
    m->control_known = true;
    begin(m);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_REFUSED, 0);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_REFUSED, 0);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_REFUSED, 0);
    answer_next(m, DBK_ASK_CONTROL, DAYBOOK_ANSWER_UNAVAILABLE, 7000000);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    assert_int_equal(m->search.retry_after_us, 7000000);

    begin(m);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_REFUSED, 0);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_ACCEPTED, 0);
    answer_next(m, DBK_ASK_ROWS, DAYBOOK_ANSWER_UNAVAILABLE, 5000000);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    assert_int_equal(m->search.retry_after_us, 5000000);
    assert_states(m, "LU");
    model_free(m);
}

/* ---- W12b ---------------------------------------------------------------------------------------- */

static void test_W12b_one_event_that_breaks_the_receiver_is_found(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "abcd");
    m->sinks[0].kinds = "g5gg";
    run(m);
    assert_string_equal(m->log, "[0 1 2 3]");
    assert_states(m, "UUUU");
    /* Something lands elsewhere: the same rows are searched. */
    dbk_recall_landed(&m->recall, 0);
    run(m);
    assert_string_equal(m->log, "[0 1 2 3][0 1][2 3][0][1]*");
    assert_states(m, "LSLL");
    assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    /* From now on it is written alone, and blamed again: the control has landed since. */
    rows_of(m, "bcde");
    m->deliveries[0].position = 2;
    m->deliveries[0].attempt = ATTEMPTS_MAX;
    for (size_t i = 1; i < 4; i++) {
        m->deliveries[i].position = 10 + i;
    }
    m->sinks[0].kinds = "5ggg";
    run(m);
    assert_string_equal(m->log, "[1 2 3][0]*[0]*");
    assert_states(m, "CLLL");
    model_free(m);
}

static void test_W12b_alone_it_needs_the_control_on_both_sides(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "a");
    m->sinks[0].kinds = "5";
    m->control_known = true;
    run(m);
    assert_string_equal(m->log, "[0]"); /* nothing has landed since: an outage */
    assert_states(m, "U");
    dbk_recall_landed(&m->recall, 0);
    run(m);
    assert_string_equal(m->log, "[0]*");
    assert_states(m, "S");
    assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    /* The control is gone as well: an outage after all. */
    m->sinks[0].away_from = 0;
    m->sinks[0].away_to = NEVER;
    m->sinks[0].away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    run(m);
    assert_string_equal(m->log, "[0]*");
    assert_states(m, "U");
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    model_free(m);
}

static void test_W12b_unavailable_after_something_landed_waits_for_the_next_answer(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    /* 5 breaks the receiver after others have landed: set aside. The control lands: it is searched. */
    rows_of(m, "abcdefgh");
    m->sinks[0].kinds = "ggggr5gg";
    run(m);
    assert_string_equal(m->log, "[0 1 2 3 4 5 6 7][0 1 2 3][4 5 6 7][4 5][6 7][4][5]*[5]*");
    assert_states(m, "LLLLSSLL");
    dbk_recall_forget(&m->recall, 5);
    dbk_recall_forget(&m->recall, 6);

    /* Nothing comes after it: the destination may have gone. */
    m->sinks[0].kinds = "ggggggg5";
    dbk_recall_suspect(&m->recall, 8, 0);
    run(m);
    assert_string_equal(m->log, "[0 1 2 3 4 5 6][7]");
    assert_states(m, "LLLLLLLU");
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    dbk_recall_forget(&m->recall, 8);

    /* Suspects come after: one breaks, the next one lands, the first is searched. */
    rows_of(m, "abcd");
    dbk_recall_suspect(&m->recall, 1, 0);
    dbk_recall_suspect(&m->recall, 2, 0);
    m->sinks[0].kinds = "5ggg";
    run(m);
    assert_string_equal(m->log, "[2 3][0][1][0]*");
    assert_states(m, "SLLL");
    model_free(m);
}

static void test_W12b_a_second_outage_of_searched_rows_ends_at_three_writes(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    distinct_rows(m, 64);
    m->control_known = true;
    m->sinks[0].away_from = 0;
    m->sinks[0].away_to = NEVER;
    m->sinks[0].away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    run(m);
    assert_int_equal(m->writes, 1);
    dbk_recall_landed(&m->recall, 0);
    run(m);
    assert_int_equal(m->writes, 3);
    assert_int_equal(m->controls, 1);
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_UNWRITTEN), 64);
    model_free(m);
}

/* ---- W6, W6b ------------------------------------------------------------------------------------- */

static void test_W6_a_suspect_is_written_alone_and_its_key_waits_for_it(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "aabab");
    dbk_recall_suspect(&m->recall, 2, 0);
    m->sinks[0].kinds = "grggg";
    run(m);
    assert_string_equal(m->log, "[0 2 4][1]*");
    assert_states(m, "LSLUL");
    /* It is well again: the rest of its run goes too. */
    m->sinks[0].kinds = "ggggg";
    run(m);
    assert_string_equal(m->log, "[0 2 4][1][3]");
    assert_states(m, "LLLLL");
    assert_int_equal(m->recall.used, 0);
    model_free(m);
}

static void test_W6_a_spent_row_is_remembered_as_a_suspect(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "abcd");
    m->sinks[0].kinds = "gngg";
    run(m);
    assert_true(dbk_recall_is_suspect(&m->recall, 2, 0));
    rows_of(m, "bef");
    m->deliveries[0].position = 2;
    m->deliveries[1].position = 5;
    m->deliveries[2].position = 6;
    m->sinks[0].kinds = "ngg";
    run(m);
    assert_string_equal(m->log, "[1 2][0]");
    model_free(m);
}

static void test_W6_what_is_accepted_at_the_one_more_write_lands(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "aabc");
    for (size_t i = 0; i < 4; i++) {
        m->deliveries[i].attempt = ATTEMPTS_MAX;
    }
    m->sinks[0].kinds = "rggg";
    begin(m);
    for (int i = 0; i < 5; i++) {
        step(m, dbk_search_next(&m->search)); /* all, [0 1], [2 3], [0], then the control */
    }
    m->sinks[0].kinds = "gggg";
    enum dbk_ask ask;
    while ((ask = dbk_search_next(&m->search)) != DBK_ASK_NOTHING) {
        step(m, ask);
    }
    assert_string_equal(m->log, "[0 1 2 3][0 1][2 3][0]*[0][1]");
    assert_states(m, "LLLL");
    model_free(m);
}

static void test_W6_an_outage_at_the_one_more_write_condemns_nobody(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "ab");
    m->deliveries[0].attempt = ATTEMPTS_MAX;
    m->sinks[0].kinds = "rg";
    m->sinks[0].away_from = 3;
    m->sinks[0].away_to = NEVER;
    m->sinks[0].away_as = DAYBOOK_ANSWER_UNAVAILABLE;
    run(m);
    assert_string_equal(m->log, "[0 1][0][1][0]*");
    assert_states(m, "UL"); /* its last attempt is spent by a verdict alone */
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    model_free(m);
}

static void test_W6b_the_brake_condemns_nothing_more(void **state)
{
    struct model *m = model_new(1, 10);
    char kinds[ROWS_MAX] = "";

    (void)state;
    distinct_rows(m, 20);
    memset(kinds, NAMES, 20);
    for (size_t i = 0; i < 20; i++) {
        m->deliveries[i].attempt = ATTEMPTS_MAX;
    }
    m->sinks[0].kinds = kinds;
    run(m);
    assert_int_equal(m->search.end, DBK_SEARCH_BRAKED);
    assert_true(m->recall.sinks[0].braked);
    assert_int_equal(dbk_search_count(&m->search, DBK_ROW_UNWRITTEN), 20);
    /* Nobody was made a suspect, and it lasts. */
    assert_int_equal(m->recall.used, 0);
    m->count = 1;
    run(m);
    assert_int_equal(m->search.end, DBK_SEARCH_BRAKED);
    assert_states(m, "U");
    /* A fresh event that is accepted lifts it; the verdict of the same pass stands again. */
    distinct_rows(m, 3);
    m->sinks[0].kinds = "nng";
    run(m);
    assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    assert_false(m->recall.sinks[0].braked);
    assert_states(m, "SSL");
    model_free(m);
}

static void test_W6b_the_control_is_not_fresh_and_a_suspect_is_not_different(void **state)
{
    struct model *m = model_new(1, 3);

    (void)state;
    m->control_known = true;
    rows_of(m, "ab");
    m->sinks[0].kinds = "rr";
    run(m);
    assert_states(m, "SS");
    for (int i = 0; i < 5; i++) {
        run(m); /* the same two, again and again */
        assert_int_equal(m->search.end, DBK_SEARCH_FINE);
    }
    rows_of(m, "c");
    m->deliveries[0].position = 77;
    run(m);
    assert_int_equal(m->search.end,
                     DBK_SEARCH_BRAKED); /* the third one; the control lifts nothing */
    assert_states(m, "U");
    dbk_recall_lift(&m->recall);
    run(m);
    assert_states(m, "S");
    model_free(m);
}

/* ---- W15 ----------------------------------------------------------------------------------------- */

static void test_W15_each_destination_is_judged_by_its_own_answers(void **state)
{
    struct model *m = model_new(2, 100);

    (void)state;
    rows_of(m, "abcd");
    m->sinks[1].kinds = "ggrg";
    run(m);
    assert_string_equal(m->log, "[0 1 2 3][0 1 2 3][0 1][2 3][2][3]");
    assert_states(m, "LLSL");
    assert_int_equal(dbk_search_taken(&m->search, 0), 4);
    assert_int_equal(dbk_search_taken(&m->search, 1), 3);
    /* That the first one accepts says nothing for the second. */
    dbk_recall_forget(&m->recall, 3);
    m->sinks[1].kinds = "rrrr";
    run(m);
    assert_states(m, "UUUU");
    assert_int_equal(m->search.end, DBK_SEARCH_OUTAGE);
    model_free(m);
}

static void test_W15_what_one_rejects_no_other_one_gets(void **state)
{
    struct model *m = model_new(2, 100);

    (void)state;
    rows_of(m, "aab");
    m->sinks[0].kinds = "ogg";
    run(m);
    assert_string_equal(m->log, "[0 1 2][2]"); /* nor what stands behind it */
    assert_states(m, "SUL");
    model_free(m);
}

static void test_W15_a_try_begins_with_the_one_that_is_away(void **state)
{
    struct model *m = model_new(3, 100);

    (void)state;
    rows_of(m, "ab");
    m->sinks[1].kinds = "55";
    run(m);
    assert_string_equal(m->log, "[0 1][0 1]");
    run(m);
    assert_string_equal(m->log, "[0 1]"); /* nothing is written to the others in vain */
    assert_int_equal(m->sinks[1].writes, 1);
    m->sinks[1].kinds = NULL;
    run(m);
    assert_states(m, "LL");
    assert_int_equal(m->search.sinks[0], 1);
    assert_int_equal(dbk_search_taken(&m->search, 2), 2);
    run(m);
    assert_int_equal(m->search.sinks[0], 0);
    m->recall.sinks[2].braked = true; /* which takes nothing that is new either */
    run(m);
    assert_int_equal(m->search.sinks[0], 2);
    model_free(m);
}

/* ---- leaving and stopping ------------------------------------------------------------------------ */

static void test_W11_a_row_that_leaves_takes_its_key_along(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "aba");
    begin(m);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_ROWS);
    dbk_search_leave(&m->search, 0);
    step(m, dbk_search_next(&m->search));
    assert_string_equal(m->log, "[1]");
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_states(m, "XLU");
    /* All of them. */
    begin(m);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_ROWS);
    dbk_search_leave(&m->search, 0);
    dbk_search_leave(&m->search, 1);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_states(m, "XXU");
    model_free(m);
}

static void test_W11_the_one_more_write_can_leave_too(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "ab");
    m->deliveries[0].attempt = ATTEMPTS_MAX;
    m->sinks[0].kinds = "ng";
    begin(m);
    step(m, dbk_search_next(&m->search));
    step(m, dbk_search_next(&m->search));
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_ROWS);
    assert_int_equal(m->search.confirming, 0);
    dbk_search_leave(&m->search, 0);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_states(m, "XL");
    /* Once it is answered it is condemned, whatever becomes of its lease. */
    begin(m);
    for (int i = 0; i < 3; i++) {
        step(m, dbk_search_next(&m->search));
    }
    dbk_search_leave(&m->search, 0);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_states(m, "CL");
    model_free(m);
}

static void test_T1_a_stop_leaves_what_landed_and_spends_nothing(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "abc");
    m->sinks[0].kinds = "ngg";
    begin(m);
    step(m, dbk_search_next(&m->search));
    dbk_search_stop(&m->search);
    assert_int_equal(dbk_search_next(&m->search), DBK_ASK_NOTHING);
    assert_states(m, "UUU");
    assert_int_equal(m->search.end, DBK_SEARCH_STOPPED);
    m->sinks[0].kinds = "ogg";
    begin(m);
    step(m, dbk_search_next(&m->search));
    dbk_search_stop(&m->search);
    assert_states(m, "ULL");
    model_free(m);
}

static void test_W12_names_of_no_row_blame_nobody(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "ab");
    m->sinks[0].kinds = "rg";
    m->sinks[0].nonsense = true;
    run(m);
    assert_string_equal(m->log, "[0 1][0][1]"); /* searched like a refusal */
    assert_states(m, "SL");
    model_free(m);
}

static void test_K4_the_words_of_the_last_write_are_kept(void **state)
{
    struct model *m = model_new(1, 100);

    (void)state;
    rows_of(m, "abc");
    m->deliveries[1].attempt = ATTEMPTS_MAX;
    m->sinks[0].kinds = "gng";
    run(m);
    assert_states(m, "LCL");
    assert_string_equal(m->search.words[1].message, "row 0");
    assert_int_equal(m->search.rows[1].sink, 0);
    model_free(m);
}

/* ---- random passes ------------------------------------------------------------------------------- */

#define EVENTS_MAX 200u
#define RUNS_DEFAULT 4000u
#define PASSES_MAX 3000u /* far more than any story needs */

/* An event of a story, and what the journal knows of it. */
struct told {
    char subject[8];
    char kinds[SINKS_MAX];
    uint32_t attempt;      /* that were not given back */
    uint32_t leased_until; /* number of a pass */
    bool resolved;
    bool condemned;
};

/* A journal's claims and verdicts over many passes, and the destinations behind them. */
struct story {
    struct model *m;
    uint64_t random;
    struct told events[EVENTS_MAX];
    size_t count;
    size_t claimed[ROWS_MAX]; /* event of each row */
    char row_kinds[SINKS_MAX][ROWS_MAX];
    uint32_t pass;
    bool outage_in_pass;
};

static uint32_t below(struct story *t, uint32_t bound)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (uint32_t)(t->random >> 16) % bound;
}

static bool is_bad(const struct story *t, size_t event)
{
    for (size_t i = 0; i < t->m->sink_count; i++) {
        if (t->events[event].kinds[i] != GOOD) {
            return true;
        }
    }
    return false;
}

static void invent(struct story *t)
{
    static const char bad[] = "rrnoc5t";
    uint32_t keys = 1 + below(t, EVENTS_MAX);
    uint32_t one_in = 2 + below(t, 40);

    t->count = 1 + below(t, EVENTS_MAX);
    for (size_t i = 0; i < t->count; i++) {
        (void)snprintf(t->events[i].subject, sizeof t->events[i].subject, "k%u", below(t, keys));
        memset(t->events[i].kinds, GOOD, SINKS_MAX);
        if (i > 0 && below(t, one_in) == 0) {
            /* The first event is good: so that there is a control one day. */
            t->events[i].kinds[below(t, (uint32_t)t->m->sink_count)] =
                bad[below(t, sizeof bad - 1)];
        }
    }
    (void)snprintf(t->events[0].subject, sizeof t->events[0].subject, "alone");
    for (size_t i = 0; i < t->m->sink_count; i++) {
        struct model_sink *sink = &t->m->sinks[i];
        sink->kinds = t->row_kinds[i];
        sink->away_from = below(t, 3) == 0 ? NEVER : below(t, 60);
        sink->away_to = sink->away_from == NEVER ? 0 : sink->away_from + below(t, 60);
        sink->away_as = below(t, 2) == 0 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_UNAVAILABLE;
    }
}

static void claim_event(struct story *t, size_t event)
{
    struct model *m = t->m;
    size_t row = m->count++;

    t->claimed[row] = event;
    (void)strcpy(m->subjects[row], t->events[event].subject);
    m->deliveries[row] = (struct daybook_delivery){
        .position = event + 1,
        .attempt = ++t->events[event].attempt,
        .event = {.name_space = {"n", 1}, .subject = {m->subjects[row], strlen(m->subjects[row])}}};
    for (size_t i = 0; i < m->sink_count; i++) {
        t->row_kinds[i][row] = t->events[event].kinds[i];
    }
}

/* C4: whether nothing of its key before it is unresolved, but for rows of this claim. */
static bool is_claimable(const struct story *t, size_t event, uint32_t run)
{
    uint32_t taken = 0;

    if (t->events[event].resolved || t->events[event].leased_until > t->pass) {
        return false;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (i == event || strcmp(t->events[i].subject, t->events[event].subject) != 0 ||
            t->events[i].resolved) {
            continue;
        }
        bool claimed = false;
        for (size_t k = 0; k < t->m->count; k++) {
            claimed |= t->claimed[k] == i;
        }
        taken += claimed ? 1 : 0;
        if (t->events[i].leased_until > t->pass || (i < event && !claimed)) {
            return false;
        }
    }
    return taken < run;
}

static void claim(struct story *t)
{
    uint32_t size = 1 + below(t, below(t, 2) == 0 ? 8 : EVENTS_MAX);
    uint32_t run = 1 + below(t, 12);

    t->m->count = 0;
    if (below(t, 4) == 0) {
        t->events[0].resolved = false; /* traffic goes on */
        t->events[0].attempt = 0;
    }
    for (size_t i = 0; i < t->count && t->m->count < size; i++) {
        if (is_claimable(t, i, run)) {
            claim_event(t, i);
        }
    }
}

static void run_through(struct story *t)
{
    struct model *m = t->m;
    enum dbk_ask ask;

    m->log[0] = '\0';
    t->outage_in_pass = false;
    for (size_t i = 0; i < m->sink_count; i++) {
        memset(m->sinks[i].took, 0, sizeof m->sinks[i].took);
    }
    dbk_search_begin(&m->search, m->deliveries, m->count, m->control_known);
    while ((ask = dbk_search_next(&m->search)) != DBK_ASK_NOTHING) {
        step(m, ask);
        t->outage_in_pass |= is_away(&m->sinks[m->search.sink]);
    }
}

static void settle_row(struct story *t, size_t row)
{
    struct model *m = t->m;
    struct told *event = &t->events[t->claimed[row]];
    bool bad = is_bad(t, t->claimed[row]);

    switch (m->search.rows[row].state) {
    case DBK_ROW_LANDED:
        for (size_t i = 0; i < m->sink_count; i++) {
            assert_true(m->sinks[i].took[row]); /* W1 */
        }
        event->resolved = true;
        m->control_known = true;
        break;
    case DBK_ROW_CONDEMNED:
        assert_true(bad);
        assert_true(event->attempt >= ATTEMPTS_MAX);
        event->resolved = true;
        event->condemned = true;
        break;
    case DBK_ROW_SPENT:
        assert_true(bad || t->outage_in_pass);
        event->leased_until = t->pass + 1 + below(t, 3);
        break;
    case DBK_ROW_UNWRITTEN:
        event->attempt--;
        event->leased_until = t->pass + 1 + below(t, 3);
        break;
    case DBK_ROW_READY:
    case DBK_ROW_WAITING:
    case DBK_ROW_HELD:
    case DBK_ROW_TAKEN:
    case DBK_ROW_REFUSED:
    case DBK_ROW_BLAMED:
    case DBK_ROW_LEFT:
        fail_msg("row %zu is in state %d at the end", row, (int)m->search.rows[row].state);
    }
}

static bool all_resolved(const struct story *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!t->events[i].resolved) {
            return false;
        }
    }
    return true;
}

static void tell(uint64_t seed)
{
    struct story *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1u;
    (void)below(t, 2);
    t->m = model_new(1 + seed % SINKS_MAX, 10000);
    invent(t);
    while (!all_resolved(t)) {
        assert_true(t->pass < PASSES_MAX);
        claim(t);
        run_through(t);
        for (size_t row = 0; row < t->m->count; row++) {
            settle_row(t, row);
        }
        t->pass++;
    }
    for (size_t i = 0; i < t->count; i++) {
        assert_true(t->events[i].condemned == is_bad(t, i)); /* found, all of them and no other */
    }
    assert_int_equal(t->m->recall.used, 0);
    model_free(t->m);
    free(t);
}

static uint64_t number_of(const char *name_of, uint64_t fallback)
{
    const char *text = getenv(name_of);

    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static uint64_t telling; /* seed of the story at hand */

static void test_W1_W3_W4_W14_W15_random_stories(void **state)
{
    uint64_t seed = number_of("DAYBOOK_SEED", 1);
    uint64_t runs = number_of("DAYBOOK_OPERATIONS", RUNS_DEFAULT);

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        telling = seed + i;
        tell(telling);
    }
}

static int say_seed(void **state)
{
    (void)state;
    print_message("# the last story had DAYBOOK_SEED=%llu\n", (unsigned long long)telling);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(
            test_W3_an_outage_that_begins_in_the_middle_of_a_search_blames_only_what_was_before),
        cmocka_unit_test(test_W4_the_search_of_a_dead_destination_ends_at_its_budget),
        cmocka_unit_test(test_W4_a_control_that_is_accepted_gives_a_fresh_budget),
        cmocka_unit_test(test_W3_sixteen_bad_ones_spread_over_256),
        cmocka_unit_test(test_W3_forty_bad_ones_in_a_row_at_the_front),
        cmocka_unit_test(test_W13_what_an_outage_asks_for_is_handed_on),
        cmocka_unit_test(test_W13_what_the_control_is_told_and_what_was_set_aside_is_handed_on),
        cmocka_unit_test(test_W12b_one_event_that_breaks_the_receiver_is_found),
        cmocka_unit_test(test_W12b_alone_it_needs_the_control_on_both_sides),
        cmocka_unit_test(test_W12b_unavailable_after_something_landed_waits_for_the_next_answer),
        cmocka_unit_test(test_W12b_a_second_outage_of_searched_rows_ends_at_three_writes),
        cmocka_unit_test(test_W6_a_suspect_is_written_alone_and_its_key_waits_for_it),
        cmocka_unit_test(test_W6_a_spent_row_is_remembered_as_a_suspect),
        cmocka_unit_test(test_W6_what_is_accepted_at_the_one_more_write_lands),
        cmocka_unit_test(test_W6_an_outage_at_the_one_more_write_condemns_nobody),
        cmocka_unit_test(test_W6b_the_brake_condemns_nothing_more),
        cmocka_unit_test(test_W6b_the_control_is_not_fresh_and_a_suspect_is_not_different),
        cmocka_unit_test(test_W15_each_destination_is_judged_by_its_own_answers),
        cmocka_unit_test(test_W15_what_one_rejects_no_other_one_gets),
        cmocka_unit_test(test_W15_a_try_begins_with_the_one_that_is_away),
        cmocka_unit_test(test_W11_a_row_that_leaves_takes_its_key_along),
        cmocka_unit_test(test_W11_the_one_more_write_can_leave_too),
        cmocka_unit_test(test_T1_a_stop_leaves_what_landed_and_spends_nothing),
        cmocka_unit_test(test_W12_names_of_no_row_blame_nobody),
        cmocka_unit_test(test_K4_the_words_of_the_last_write_are_kept),
        cmocka_unit_test_teardown(test_W1_W3_W4_W14_W15_random_stories, say_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
