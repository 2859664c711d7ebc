/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination that answers as a test wrote down. See script_sink.h.
 */
#include "harness/script_sink.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"

static void add_text(char *text, const char *piece, size_t len)
{
    size_t used = strlen(text);

    assert_true(used + len + 1 < SCRIPT_TEXT_MAX);
    memcpy(text + used, piece, len);
    text[used + len] = '\0';
}

static void add_id(const struct script_sink *s, char *text, const struct daybook_row *row)
{
    if (s->tells_nothing) {
        return;
    }
    if (text[0] != '\0' && text[strlen(text) - 1] != '[') {
        add_text(text, " ", 1);
    }
    add_text(text, row->event.request_id.data, row->event.request_id.len);
}

static bool is_bad(const struct daybook_row *row)
{
    return row->event.request_id.len >= 3 && memcmp(row->event.request_id.data, "bad", 3) == 0;
}

static void accept_rows(struct script_sink *s, const struct daybook_row *rows, size_t count,
                        bool bad_ones_too)
{
    for (size_t i = 0; i < count; i++) {
        if (bad_ones_too || !is_bad(&rows[i])) {
            add_id(s, s->accepted, &rows[i]);
            atomic_fetch_add(&s->rows_accepted, 1);
        }
    }
    dbk_futex_wake_all(&s->rows_accepted);
}

static void name_bad(const struct daybook_row *rows, size_t count, struct daybook_answer *answer)
{
    for (size_t i = 0; i < count && answer->rejected_count < DAYBOOK_REJECTED_MAX; i++) {
        if (is_bad(&rows[i])) {
            struct daybook_rejected_row *row = &answer->rejected[answer->rejected_count++];
            row->index = i;
            (void)snprintf(row->words.message, sizeof row->words.message, "a bad row");
        }
    }
}

/* What a write is answered where the script has no more to say. */
static struct script_step judge(const struct script_sink *s, const struct daybook_row *rows,
                                size_t count)
{
    struct script_step step = {.kind = DAYBOOK_ANSWER_ACCEPTED};
    bool bad = false;

    for (size_t i = 0; i < count; i++) {
        bad |= is_bad(&rows[i]);
    }
    switch (bad ? s->bad : SCRIPT_BAD_ACCEPTED) {
    case SCRIPT_BAD_ACCEPTED:
        break;
    case SCRIPT_BAD_REFUSED:
        step.kind = DAYBOOK_ANSWER_REFUSED;
        break;
    case SCRIPT_BAD_NAMED:
        step.kind = DAYBOOK_ANSWER_REJECTED;
        break;
    case SCRIPT_BAD_TAKES_OTHERS:
        step.kind = DAYBOOK_ANSWER_REJECTED;
        step.others = DAYBOOK_OTHERS_ACCEPTED;
        break;
    case SCRIPT_BAD_CONSTRAINT:
        step.kind = count > 1 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_REJECTED;
        step.refusal = DAYBOOK_REFUSAL_OF_A_ROW;
        break;
    case SCRIPT_BAD_TOO_LARGE:
        step.kind = DAYBOOK_ANSWER_REFUSED;
        step.refusal = DAYBOOK_REFUSAL_TOO_LARGE;
        break;
    case SCRIPT_BAD_BREAKS:
        step.kind = DAYBOOK_ANSWER_UNAVAILABLE;
        break;
    }
    return step;
}

static struct script_step next_step(struct script_sink *s, const struct daybook_row *rows,
                                    size_t count)
{
    if (s->away) {
        return (struct script_step){.kind = s->away_as};
    }
    if (s->step == s->step_count) {
        return judge(s, rows, count);
    }
    struct script_step step = s->steps[s->step];
    if (s->steps[s->step].repeat > 0) {
        s->steps[s->step].repeat--;
    } else {
        s->step++;
    }
    return step;
}

/* Returns whether the write was cut off. */
static bool hang(struct script_sink *s)
{
    _Atomic uint32_t *word = s->hang == SCRIPT_UNTIL_RELEASED ? &s->released : &s->interrupted;

    if (s->hang == SCRIPT_PROMPT) {
        return false;
    }
    while (atomic_load(word) == 0) {
        dbk_futex_wait(word, 0, -1);
    }
    return s->hang == SCRIPT_UNTIL_INTERRUPTED;
}

static void script_write(struct daybook_sink *sink, const struct daybook_row *rows, size_t count,
                         int64_t deadline_us, struct daybook_answer *answer)
{
    struct script_sink *s = (struct script_sink *)sink;

    s->deadline_us = deadline_us;
    if (!s->tells_nothing) {
        add_text(s->offered, "[", 1);
        for (size_t i = 0; i < count; i++) {
            add_id(s, s->offered, &rows[i]);
        }
        add_text(s->offered, "]", 1);
    }
    atomic_fetch_add(&s->writes, 1);
    dbk_futex_wake_all(&s->writes);
    if (s->on_write != NULL) {
        s->on_write(s->user);
    }
    struct script_step step = next_step(s, rows, count);
    if (hang(s)) {
        step.kind = DAYBOOK_ANSWER_UNAVAILABLE;
    }
    answer->kind = step.kind;
    answer->others = step.others;
    answer->refusal = step.refusal;
    answer->retry_after_us = step.retry_after_us;
    answer->values_left_out = step.values_left_out;
    if (step.kind == DAYBOOK_ANSWER_ACCEPTED) {
        accept_rows(s, rows, count, true);
    } else if (step.kind == DAYBOOK_ANSWER_REJECTED) {
        name_bad(rows, count, answer);
        if (step.nonsense != NULL) {
            answer->rejected[answer->rejected_count++].index = count;
        }
        if (answer->rejected_count == 0) {
            answer->kind = DAYBOOK_ANSWER_ACCEPTED; /* nothing bad in it */
        }
        if (answer->rejected_count == 0 || step.others == DAYBOOK_OTHERS_ACCEPTED) {
            accept_rows(s, rows, count, false);
        }
    } else {
        (void)snprintf(answer->words.message, sizeof answer->words.message, "as scripted");
    }
    if (s->loses_answers) {
        answer->kind = DAYBOOK_ANSWER_UNAVAILABLE;
        answer->effect = DAYBOOK_EFFECT_UNKNOWN;
    }
}

static void script_interrupt(struct daybook_sink *sink)
{
    struct script_sink *s = (struct script_sink *)sink;

    atomic_store(&s->interrupted, 1);
    dbk_futex_wake_all(&s->interrupted);
}

static enum daybook_code script_check(struct daybook_sink *sink, int64_t deadline_us,
                                      struct daybook_error *err)
{
    (void)sink;
    (void)deadline_us;
    (void)err;
    return DAYBOOK_OK;
}

static void script_close(struct daybook_sink *sink)
{
    struct script_sink *s = (struct script_sink *)sink;
    _Atomic uint32_t *closed = s->closed;

    free(s);
    if (closed != NULL) {
        atomic_store(closed, 1);
        dbk_futex_wake_all(closed);
    }
}

static const struct daybook_sink_ops script_ops = {.kind = "script",
                                                   .write = script_write,
                                                   .interrupt = script_interrupt,
                                                   .check = script_check,
                                                   .close = script_close};

struct script_sink *script_sink_new(const char *name)
{
    struct script_sink *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->head.ops = &script_ops;
    (void)snprintf(s->head.name, sizeof s->head.name, "%s", name);
    return s;
}

void script_add(struct script_sink *sink, struct script_step step)
{
    assert_true(sink->step_count < SCRIPT_STEPS_MAX);
    sink->steps[sink->step_count++] = step;
}

void script_answer(struct script_sink *sink, enum daybook_answer_kind kind)
{
    script_add(sink, (struct script_step){.kind = kind});
}

void script_release(struct script_sink *sink)
{
    atomic_store(&sink->released, 1);
    dbk_futex_wake_all(&sink->released);
}

static void wait_for(_Atomic uint32_t *word, uint32_t least)
{
    while (true) {
        uint32_t seen = atomic_load(word);
        if (seen >= least) {
            return;
        }
        dbk_futex_wait(word, seen, -1);
    }
}

void script_wait_writes(struct script_sink *sink, uint32_t count)
{
    wait_for(&sink->writes, count);
}

void script_wait_accepted(struct script_sink *sink, uint32_t count)
{
    wait_for(&sink->rows_accepted, count);
}
