/* SPDX-License-Identifier: Apache-2.0 */
/* Scripted lives of a journal, see play.h. One thread. */
#include "play.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/log/log.h"
#include "engines/memory/memory.h"

#define SET_MAX 64u
#define RECORD_MAX 8000u
#define KEYS 5u
#define PLAY_REPAIRED "/mended"
#define LEASE_MS 30000u
#define PLAY_FREE_MIN 65536u

enum ask_kind {
    ASK_APPEND,
    ASK_CLAIM,
    ASK_ACK,
    ASK_REFUND,
    ASK_EXTEND,
    ASK_QUARANTINE,
    ASK_RELEASE,
    ASK_DISCARD,
    ASK_RETIRE,
    ASK_REWIND,
    ASK_MAINTAIN
};

static const char *const ask_names[] = {"append", "claim",      "ack",     "refund",
                                        "extend", "quarantine", "release", "discard",
                                        "retire", "rewind",     "maintain"};

struct play_ask {
    enum ask_kind kind;
    unsigned consumer;
    uint32_t first; /* number of the first event, or of the one that is meant */
    uint32_t count;
    uint32_t bytes; /* of a record */
    bool other;     /* other content */
    struct daybook_claim claim;
    struct handed set[SET_MAX];
    uint32_t lease_ms;
};

/* What one side answered. */
struct answer {
    enum daybook_code code;
    enum daybook_code codes[SET_MAX];
    struct daybook_append_result results[SET_MAX];
};

enum side { ORACLE, SUBJECT };

static bool wrong(struct play *play, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct play *play, const char *format, ...)
{
    if (play->pair.why[0] == '\0') {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(play->pair.why, sizeof play->pair.why, format, args);
        va_end(args);
    }
    play->halted = true;
    return false;
}

static bool is_well(const struct play *play)
{
    return play->pair.why[0] == '\0';
}

static struct sim_disk *disk_of(const struct play *play)
{
    return play->pair.subject->disk;
}

/* ---- events ------------------------------------------------------------------------------------------ */

struct made {
    char id[16];
    char subject[16];
    char record[RECORD_MAX + 1];
    struct daybook_event event;
};

static void make(struct made *m, uint32_t number, uint32_t bytes, bool other)
{
    size_t at = (size_t)snprintf(m->record, sizeof m->record,
                                 "{\"n\":%" PRIu32 ",\"v\":%d,\"pad\":\"", number, other ? 2 : 1);
    uint64_t state = number;
    while (at + 2 < bytes && at + 2 < RECORD_MAX) {
        m->record[at++] = (char)('a' + sim_draw(&state) % 26);
    }
    memcpy(m->record + at, "\"}", 3);
    (void)snprintf(m->id, sizeof m->id, "r-%06" PRIu32, number);
    (void)snprintf(m->subject, sizeof m->subject, "s%" PRIu32, number % KEYS);
    m->event = event_of(m->id, m->subject, m->record);
}

/* ---- asking one side ----------------------------------------------------------------------------------- */

static enum daybook_code append_events(struct contract_world *w, const struct play_ask *ask,
                                       struct daybook_append_result *results)
{
    static struct made made[SET_MAX];
    struct daybook_event events[SET_MAX];
    for (uint32_t i = 0; i < ask->count; i++) {
        make(&made[i], ask->first + i, ask->bytes, ask->other);
        events[i] = made[i].event;
    }
    if (ask->count == 1) {
        return daybook_journal_append(w->journal, events, w->now_us, DAYBOOK_NO_DEADLINE, results,
                                      &w->err);
    }
    return daybook_journal_append_batch(w->journal, events, ask->count, w->now_us,
                                        DAYBOOK_NO_DEADLINE, results, &w->err);
}

static enum daybook_code say(struct contract_world *w, enum side side, const struct play_ask *ask,
                             enum daybook_code *codes)
{
    const char *consumer = pair_consumers[ask->consumer];
    struct daybook_hand_out set[SET_MAX] = {{0}};
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct handed *h = &ask->set[i];
        set[i] = (struct daybook_hand_out){h->position,
                                           side == ORACLE ? h->token_oracle : h->token_subject};
    }
    if (ask->kind == ASK_ACK) {
        return daybook_journal_ack(w->journal, consumer, set, ask->count, w->now_us,
                                   DAYBOOK_NO_DEADLINE, codes, &w->err);
    }
    if (ask->kind == ASK_REFUND) {
        return daybook_journal_relinquish(w->journal, consumer, set, ask->count, w->now_us,
                                          DAYBOOK_NO_DEADLINE, codes, &w->err);
    }
    if (ask->kind == ASK_EXTEND) {
        return daybook_journal_extend(w->journal, consumer, set, ask->count, ask->lease_ms,
                                      w->now_us, DAYBOOK_NO_DEADLINE, codes, &w->err);
    }
    return daybook_journal_quarantine(w->journal, consumer, set[0], DAYBOOK_REASON_REJECTED,
                                      text("it does not fit"), w->now_us, DAYBOOK_NO_DEADLINE,
                                      &w->err);
}

static enum daybook_code operate(struct contract_world *w, const struct play_ask *ask)
{
    static struct made m;
    const char *consumer = pair_consumers[ask->consumer];
    make(&m, ask->first, 0, false);
    if (ask->kind == ASK_RELEASE) {
        return release(w, consumer, m.id);
    }
    if (ask->kind == ASK_DISCARD) {
        return discard(w, consumer, m.id);
    }
    return ask->kind == ASK_RETIRE ? retire(w, consumer, DAYBOOK_FORCE_YES)
                                   : rewind_consumer(w, consumer);
}

static void ask_side(struct contract_world *w, enum side side, const struct play_ask *ask,
                     struct answer *ret)
{
    memset(ret, 0, sizeof *ret);
    w->err.message[0] = '\0';
    switch (ask->kind) {
    case ASK_APPEND:
        ret->code = append_events(w, ask, ret->results);
        break;
    case ASK_CLAIM:
        ret->code = daybook_journal_claim(w->journal, &ask->claim, w->now_us, DAYBOOK_NO_DEADLINE,
                                          w->batch, &w->err);
        break;
    case ASK_ACK:
    case ASK_REFUND:
    case ASK_EXTEND:
    case ASK_QUARANTINE:
        ret->code = say(w, side, ask, ret->codes);
        break;
    case ASK_RELEASE:
    case ASK_DISCARD:
    case ASK_RETIRE:
    case ASK_REWIND:
        ret->code = operate(w, ask);
        break;
    case ASK_MAINTAIN:
        ret->code =
            daybook_journal_maintain(w->journal, w->now_us, DAYBOOK_NO_DEADLINE, NULL, &w->err);
        break;
    }
}

/* ---- what nobody heard the answer of ------------------------------------------------------------------- */

static void forget_landed(struct play *play)
{
    for (size_t i = 0; i < play->landed_count; i++) {
        assert_code(DAYBOOK_OK, daybook_journal_close(play->landed[i], NULL));
    }
    play->landed_count = 0;
    play->landed_surely = false;
}

/* One more thing may have happened: puts what the oracle holds then in front. */
static void add_landed(struct play *play, struct daybook_journal *oracle)
{
    assert_true(play->landed_count < PLAY_LANDED_MAX);
    for (size_t i = play->landed_count; i > 0; i--) {
        play->landed[i] = play->landed[i - 1];
    }
    assert_code(DAYBOOK_OK, dbk_memory_copy(oracle, &play->landed[0], NULL));
    play->landed_count++;
}

/* The oracle in each state that the unheard operation may have left. Of several events the first so many are
 * there, and those that were answered are for sure. */
static void keep_landed(struct play *play, const struct play_ask *ask, const struct answer *subject)
{
    struct pair *p = &play->pair;
    struct daybook_journal *oracle = p->oracle->journal;
    struct answer ignored;
    forget_landed(play);
    assert_code(DAYBOOK_OK, dbk_memory_copy(oracle, &p->oracle->journal, NULL));
    if (ask->kind != ASK_APPEND) {
        ask_side(p->oracle, ORACLE, ask, &ignored);
        add_landed(play, p->oracle->journal);
    }
    for (uint32_t i = 0; ask->kind == ASK_APPEND && i < ask->count; i++) {
        struct play_ask one = *ask;
        one.first += i;
        one.count = 1;
        if (daybook_code_class(subject->results[i].code) == DAYBOOK_CLASS_OK ||
            daybook_code_class(subject->results[i].code) == DAYBOOK_CLASS_UNKNOWN) {
            ask_side(p->oracle, ORACLE, &one, &ignored);
        }
        if (subject->results[i].code == DAYBOOK_OK) {
            forget_landed(play);
            play->landed_surely = true;
        }
        add_landed(play, p->oracle->journal);
    }
    assert_code(DAYBOOK_OK, daybook_journal_close(p->oracle->journal, NULL));
    p->oracle->journal = oracle;
    free(play->unheard);
    play->unheard = malloc(sizeof *play->unheard);
    assert_non_null(play->unheard);
    *play->unheard = *ask;
}

/* ---- looking ------------------------------------------------------------------------------------------- */

/* Where bytes are scarce a journal gives up what is delivered, lowest first (P4); how much is its own affair. */
static void follow_reclaim(struct play *play, struct daybook_journal *oracle)
{
    struct daybook_journal_stats stats;
    if (play->script->bytes_max != 0 || play->scarce) {
        assert_code(DAYBOOK_OK,
                    daybook_journal_stats(oracle, play->pair.oracle->now_us, &stats, NULL));
        uint64_t theirs = journal_figures(play->pair.subject).reclaimed;
        (void)dbk_memory_reclaim(oracle, theirs > stats.reclaimed ? theirs - stats.reclaimed : 0);
    }
}

/* Compares everything that can be seen; that takes no step, and no trouble comes. */
static bool look(struct play *play)
{
    struct sim_disk *disk = disk_of(play);
    if (!is_well(play) || disk->dead) {
        return is_well(play);
    }
    disk->beside = true;
    follow_reclaim(play, play->pair.oracle->journal);
    if (play->loose) {
        pair_compare_retained(&play->pair);
    } else {
        pair_compare(&play->pair);
    }
    disk->beside = false;
    return is_well(play);
}

static bool looks_like(struct play *play, struct daybook_journal *candidate)
{
    struct sim_disk *disk = disk_of(play);
    disk->beside = true;
    follow_reclaim(play, candidate);
    bool left = pair_is_left(&play->pair, candidate);
    disk->beside = false;
    return left;
}

/* ---- going back ---------------------------------------------------------------------------------------- */

/* The oracle holds what `then` does, as a process that starts over it. */
static void become(struct pair *p, struct daybook_journal *then)
{
    struct daybook_journal *older = NULL;
    assert_code(DAYBOOK_OK, dbk_memory_copy(then, &older, NULL));
    assert_code(DAYBOOK_OK, dbk_memory_roll_back(&p->oracle->journal, older, &p->oracle->capacity,
                                                 &p->oracle->err));
}

/* After an opening: what of it is left decides what the oracle goes back to. At least `least` units are. */
static bool adopt(struct play *play, uint64_t least)
{
    struct pair *p = &play->pair;
    uint64_t left = pair_units(p) - 1; /* the opening has written one */
    size_t at = p->mark_count - 1;
    if (left < least) {
        return wrong(play, "D1: %" PRIu64 " groups had to survive, %" PRIu64 " did", least, left);
    }
    for (size_t i = 0; left > p->marks[at].units && i < play->landed_count; i++) {
        if (looks_like(play, play->landed[i])) {
            become(p, play->landed[i]);
            return true;
        }
    }
    if (play->landed_surely) {
        return wrong(play, "A1: what was answered in a batch is not there");
    }
    while (at > 0 && p->marks[at].units > left) {
        at--;
    }
    become(p, p->marks[at].oracle);
    return true;
}

/* An append that has not happened may have used its position up: it was never answered (A1). */
static void skip_positions(struct play *play)
{
    struct pair *p = &play->pair;
    uint64_t next = p->subject->engine->next_position(p->subject);
    uint64_t skipped = dbk_memory_skip_positions(p->oracle->journal, next);
    uint64_t unheard =
        play->unheard != NULL && play->unheard->kind == ASK_APPEND ? play->unheard->count : 0;
    if (skipped > unheard) {
        (void)wrong(play,
                    "A1: %" PRIu64 " positions were used up, %" PRIu64 " events were unheard of",
                    skipped, unheard);
    }
}

/* What was written in this process, or is promised, is there. */
static uint64_t least_units(const struct play *play, bool power)
{
    const struct pair *p = &play->pair;
    return power || disk_of(play)->syncs_failed > 0 ? p->promised
                                                    : p->marks[p->mark_count - 1].units;
}

static void forget_unheard(struct play *play)
{
    forget_landed(play);
    free(play->unheard);
    play->unheard = NULL;
}

static void settle(struct play *play)
{
    forget_unheard(play);
    pair_forget_marks(&play->pair, play->pair.mark_count); /* units count on from what is left */
    pair_promise(&play->pair);
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static enum daybook_code open_subject(struct play *play)
{
    struct contract_world *w = play->pair.subject;
    w->journal = NULL;
    enum daybook_code code = w->engine->open(w, &w->capacity, &w->err);
    if (code != DAYBOOK_OK) {
        w->journal = NULL;
    }
    return code;
}

/* Opens where trouble may be: a failed opening says so, and the next one, the trouble over, works. */
static bool open_again(struct play *play)
{
    enum daybook_code code = open_subject(play);
    if (code == DAYBOOK_BACKEND && play->scarce && !disk_of(play)->dead) {
        /* 3.1: a disk that is full to the last byte may have no room for an opening; it says so. */
        disk_of(play)->space_bytes = UINT64_C(1) << 40;
        code = open_subject(play);
    }
    if (code != DAYBOOK_OK && !disk_of(play)->dead && play->temper == PLAY_TROUBLED) {
        if (code != DAYBOOK_BACKEND && code != DAYBOOK_BUSY) {
            return wrong(play, "2.4: an opening in trouble answers %s: %s", daybook_code_name(code),
                         play->pair.subject->err.message);
        }
        sim_calm(disk_of(play));
        code = open_subject(play);
    }
    if (disk_of(play)->dead) {
        play->halted = true;
        return false;
    }
    if (code != DAYBOOK_OK) {
        return wrong(play, "it does not open: %s: %s", daybook_code_name(code),
                     play->pair.subject->err.message);
    }
    return true;
}

void play_open(struct play *play)
{
    if (play->halted || !open_again(play) || !adopt(play, least_units(play, false))) {
        return;
    }
    skip_positions(play);
    play->closed = false;
    settle(play);
    (void)look(play);
}

static void drop_subject(struct play *play)
{
    if (play->pair.subject->journal != NULL) {
        dbk_log_abandon(play->pair.subject->journal);
        play->pair.subject->journal = NULL;
    }
}

static bool is_failed(struct play *play)
{
    struct contract_world *w = play->pair.subject;
    struct daybook_journal_stats stats;
    if (daybook_journal_stats(w->journal, w->now_us, &stats, &w->err) != DAYBOOK_OK) {
        return wrong(play, "J1: stats of a journal in trouble: %s", w->err.message);
    }
    return stats.state == DAYBOOK_JOURNAL_FAILED;
}

/* A7: what a failed handle answers. Reading goes on where the disk does. */
static void look_at_failed(struct play *play)
{
    struct contract_world *w = play->pair.subject;
    static struct made m;
    struct daybook_append_result result;
    struct daybook_claim claim = claim_of(pair_consumers[0], 1);
    struct daybook_hand_out none = {1, 1};
    enum daybook_code each = DAYBOOK_OK;
    make(&m, 900000, 60, false);
    enum daybook_code append = daybook_journal_append(w->journal, &m.event, w->now_us,
                                                      DAYBOOK_NO_DEADLINE, &result, &w->err);
    enum daybook_code claimed = daybook_journal_claim(w->journal, &claim, w->now_us,
                                                      DAYBOOK_NO_DEADLINE, w->batch, &w->err);
    enum daybook_code verdict = daybook_journal_ack(w->journal, pair_consumers[0], &none, 1,
                                                    w->now_us, DAYBOOK_NO_DEADLINE, &each, &w->err);
    if (append != DAYBOOK_BACKEND || claimed != DAYBOOK_BACKEND || verdict != DAYBOOK_BACKEND) {
        (void)wrong(play, "A7: a failed journal answers append %s, claim %s, ack %s",
                    daybook_code_name(append), daybook_code_name(claimed),
                    daybook_code_name(verdict));
        return;
    }
    uint64_t last = 0;
    disk_of(play)->beside = true;
    if (daybook_journal_read(w->journal, 0, DAYBOOK_WHERE_ALL, w->batch, &last, NULL, &w->err) !=
        DAYBOOK_OK) {
        (void)wrong(play, "A7: a failed journal is not read: %s", w->err.message);
    }
    disk_of(play)->beside = false;
}

/* The journal failed: it is closed and opened again as the daemon does, and what nobody heard of asked again. */
static void mend(struct play *play)
{
    struct pair *p = &play->pair;
    look_at_failed(play);
    enum daybook_code code = daybook_journal_close(p->subject->journal, &p->subject->err);
    p->subject->journal = NULL;
    if (code != DAYBOOK_BACKEND && code != DAYBOOK_OK) {
        (void)wrong(play, "A7: closing a failed journal answers %s", daybook_code_name(code));
    }
    if (play->halted || !open_again(play) || !adopt(play, least_units(play, false))) {
        return;
    }
    skip_positions(play);
    struct play_ask *unheard = play->unheard;
    play->unheard = NULL;
    settle(play);
    (void)look(play);
    play->again = unheard;
}

/* After whatever was done: a failed journal is mended. */
static void look_after(struct play *play)
{
    if (!play->halted && is_well(play) && !disk_of(play)->dead &&
        play->pair.subject->journal != NULL && is_failed(play)) {
        if (play->temper == PLAY_SOUND) {
            (void)wrong(play, "the journal failed on a good disk");
        } else {
            mend(play);
        }
    }
    play->halted = play->halted || disk_of(play)->dead;
}

/* ---- comparing answers ------------------------------------------------------------------------------- */

static bool is_unknown(enum daybook_code code)
{
    return daybook_code_class(code) == DAYBOOK_CLASS_UNKNOWN;
}

static bool heard(const struct play_ask *ask, const struct answer *a)
{
    for (uint32_t i = 0; ask->kind == ASK_APPEND && i < ask->count; i++) {
        if (is_unknown(a->results[i].code)) {
            return false;
        }
    }
    return !is_unknown(a->code) || ask->kind == ASK_APPEND;
}

static bool refused_for_room(const struct daybook_append_result *r)
{
    return r->code == DAYBOOK_AT_CAPACITY && r->limit != DAYBOOK_LIMIT_EVENTS;
}

static void compare_append(struct play *play, const struct play_ask *ask, const struct answer *s)
{
    struct pair *p = &play->pair;
    for (uint32_t i = 0; i < ask->count; i++) {
        struct answer o;
        struct play_ask one = *ask;
        one.first += i;
        one.count = 1;
        if (refused_for_room(&s->results[i])) {
            if (play->temper == PLAY_SOUND && !play->scarce) {
                (void)wrong(play, "A4: refused for want of room on a good disk");
            }
            continue;
        }
        ask_side(p->oracle, ORACLE, &one, &o);
        (void)pair_equal_codes(p, "append", o.results[0].code, s->results[i].code);
        if (o.results[0].code == DAYBOOK_OK || o.results[0].code == DAYBOOK_ALREADY_PRESENT) {
            (void)pair_equal(p, "position of an append", (int64_t)o.results[0].position,
                             (int64_t)s->results[i].position);
        }
        (void)pair_equal(p, "limit of an append", o.results[0].limit, s->results[i].limit);
    }
}

static bool answered_ok(const struct play_ask *ask, const struct answer *s)
{
    for (uint32_t i = 0; ask->kind == ASK_APPEND && i < ask->count; i++) {
        if (s->results[i].code == DAYBOOK_OK) {
            return true;
        }
    }
    return ask->kind != ASK_APPEND && s->code == DAYBOOK_OK;
}

static void compare_answers(struct play *play, const struct play_ask *ask, const struct answer *s)
{
    struct pair *p = &play->pair;
    struct answer o;
    if (ask->kind == ASK_APPEND) {
        compare_append(play, ask, s);
        return;
    }
    ask_side(p->oracle, ORACLE, ask, &o);
    (void)pair_equal_codes(p, ask_names[ask->kind], o.code, s->code);
    for (uint32_t i = 0; i < ask->count && ask->kind != ASK_CLAIM; i++) {
        (void)pair_equal_codes(p, "a verdict", o.codes[i], s->codes[i]);
    }
    if (ask->kind == ASK_CLAIM && pair_equal_batches(p, "claimed")) {
        pair_remember(p, ask->consumer);
    }
}

/* K7: what changed something of delivery was written when it was answered. */
static void was_written(struct play *play, const struct play_ask *ask,
                        const struct daybook_consumer_stats *before, uint64_t units_before)
{
    struct pair *p = &play->pair;
    struct daybook_consumer_stats now = figures(p->oracle, pair_consumers[ask->consumer]);
    bool changed = now.pending != before->pending || now.in_flight != before->in_flight ||
                   now.quarantined != before->quarantined;
    if (ask->kind >= ASK_CLAIM && ask->kind <= ASK_QUARANTINE && changed &&
        pair_units(p) == units_before) {
        (void)wrong(play, "K7: %s was answered before it was written", ask_names[ask->kind]);
    }
}

/* K7, A1: what of this is durable when it is answered. */
static bool promises(const struct play_ask *ask, const struct answer *s, uint64_t units_before,
                     uint64_t units_now)
{
    bool synced = ask->kind == ASK_APPEND ||
                  (ask->kind >= ASK_QUARANTINE && ask->kind <= ASK_REWIND) ||
                  (ask->kind == ASK_CLAIM && ask->claim.events_max == 0);
    return synced && units_now > units_before && answered_ok(ask, s);
}

/* A read failed in a claim, or in what looks at stored bytes: what was handed out nobody can tell any more. */
static bool is_muddled(const struct play *play, const struct play_ask *ask)
{
    bool reads = play->troubled_call == SIM_PREAD || play->troubled_call == SIM_OPEN;
    return play->temper == PLAY_TROUBLED && ask->kind == ASK_CLAIM && ask->claim.events_max > 0 &&
           reads && disk_of(play)->troubles > play->troubles_seen;
}

/* A claim that could read nothing, an append that found no room: on a disk that is gone that says nothing. */
static bool died_unnoticed(const struct play *play, const struct play_ask *ask,
                           const struct answer *s)
{
    bool no_room = false;
    for (uint32_t i = 0; ask->kind == ASK_APPEND && i < ask->count; i++) {
        no_room = no_room || refused_for_room(&s->results[i]);
    }
    return disk_of(play)->dead && (ask->kind == ASK_CLAIM || no_room);
}

/* C7: a claim that read nothing of what there is, because it could not, does not answer that there is nothing. */
static void says_what_it_could_not_read(struct play *play, const struct play_ask *ask,
                                        const struct answer *s)
{
    struct pair *p = &play->pair;
    struct daybook_journal *oracle = p->oracle->journal;
    const char *consumer = pair_consumers[ask->consumer];
    struct answer o;
    uint64_t condemned = figures(p->oracle, consumer).quarantined;
    assert_code(DAYBOOK_OK, dbk_memory_copy(oracle, &p->oracle->journal, NULL));
    ask_side(p->oracle, ORACLE, ask, &o);
    condemned = figures(p->oracle, consumer).quarantined - condemned;
    if (s->code == DAYBOOK_OK && p->subject->batch->count == 0 && p->oracle->batch->count > 0 &&
        condemned == 0) {
        (void)wrong(play, "C7: a claim that could read nothing answers ok");
    }
    assert_code(DAYBOOK_OK, daybook_journal_close(p->oracle->journal, NULL));
    p->oracle->journal = oracle;
}

static void not_heard(struct play *play, const struct play_ask *ask, const struct answer *s)
{
    struct pair *p = &play->pair;
    if (!disk_of(play)->dead && play->temper == PLAY_SOUND) {
        (void)wrong(play, "%s answers %s on a good disk: %s", ask_names[ask->kind],
                    daybook_code_name(s->code), p->subject->err.message);
        return;
    }
    keep_landed(play, ask, s);
    if (!disk_of(play)->dead && !is_failed(play)) {
        /* Nothing has happened, but that it was asked; what was only written before is so still (K7). */
        forget_unheard(play);
        play->loose = play->halted = ask->kind == ASK_CLAIM;
    }
}

static void ask_once(struct play *play, const struct play_ask *ask)
{
    struct pair *p = &play->pair;
    static struct answer s;
    if (play->halted || !is_well(play) || p->subject->journal == NULL) {
        return;
    }
    uint64_t units_before = pair_units(p);
    struct daybook_consumer_stats before = figures(p->oracle, pair_consumers[ask->consumer]);
    play->troubles_seen = disk_of(play)->troubles;
    ask_side(p->subject, SUBJECT, ask, &s);
    if (is_muddled(play, ask) && !disk_of(play)->dead && !is_failed(play)) {
        says_what_it_could_not_read(play, ask, &s);
        play->loose = true;
        play->halted = true; /* the script counts on what was handed out */
        return;
    }
    if (!heard(ask, &s) || died_unnoticed(play, ask, &s)) {
        not_heard(play, ask, &s);
    } else {
        compare_answers(play, ask, &s);
        was_written(play, ask, &before, units_before);
        pair_mark(p);
        if (promises(ask, &s, units_before, pair_units(p))) {
            pair_promise(p);
        }
        (void)look(play);
    }
    look_after(play);
}

/* What a mended journal gave no answer to is asked again. */
static void tell(struct play *play, const struct play_ask *ask)
{
    ask_once(play, ask);
    while (play->again != NULL) {
        struct play_ask *again = play->again;
        play->again = NULL;
        ask_once(play, again);
        free(again);
    }
}

/* ---- what scripts ask ---------------------------------------------------------------------------------- */

void play_close(struct play *play)
{
    struct pair *p = &play->pair;
    if (play->halted || p->subject->journal == NULL) {
        return;
    }
    enum daybook_code code = daybook_journal_close(p->subject->journal, &p->subject->err);
    p->subject->journal = NULL;
    play->halted = disk_of(play)->dead;
    if (code == DAYBOOK_OK) {
        /* All that was written is durable; the opening's own group comes behind a CLEAN one. */
        p->promised = p->marks[p->mark_count - 1].units;
        play->closed = true;
    } else if (!play->halted &&
               (code != DAYBOOK_BACKEND || (play->temper == PLAY_SOUND && !play->scarce))) {
        (void)wrong(play, "close answers %s: %s", daybook_code_name(code), p->subject->err.message);
    }
}

void play_cut_and_open(struct play *play, struct play_cut cut)
{
    bool power = !cut.kill && cut.profile != SIM_KEEP_ALL;
    struct sim_disk *disk = disk_of(play);
    if (play->halted) {
        return;
    }
    uint64_t crash_at = disk->crash_at;
    drop_subject(play);
    if (cut.kill) {
        sim_kill(disk);
    } else {
        sim_power_cut(disk, cut.profile, cut.seed);
    }
    disk->crash_at = crash_at; /* the life goes on, and with it what ends it */
    if (open_again(play) && adopt(play, least_units(play, power))) {
        skip_positions(play);
        settle(play);
        (void)look(play);
    }
}

/* D5: what was written 100 ms ago is synced, once the housekeeper had its turn. */
void play_pass(struct play *play, int64_t us)
{
    struct pair *p = &play->pair;
    if (play->halted || !is_well(play) || p->subject->journal == NULL) {
        return;
    }
    pass(p->oracle, us);
    pass(p->subject, us);
    follow_reclaim(play, p->oracle->journal);
    pair_mark(p);
    look_after(play);
    if (!play->halted && us >= 200000 && is_well(play)) {
        pair_promise(p);
    }
}

void play_append(struct play *play, uint32_t count, uint32_t bytes)
{
    struct play_ask ask = {
        .kind = ASK_APPEND, .first = play->numbers, .count = count, .bytes = bytes};
    play->numbers += count;
    tell(play, &ask);
}

void play_repeat(struct play *play, uint32_t number, bool other)
{
    struct play_ask ask = {
        .kind = ASK_APPEND, .first = number, .count = 1, .bytes = 300, .other = other};
    tell(play, &ask);
}

static void enrol_with(struct play *play, unsigned consumer, struct daybook_start start)
{
    struct play_ask ask = {.kind = ASK_CLAIM, .consumer = consumer};
    ask.claim = claim_of(pair_consumers[consumer], 0);
    ask.claim.start = start;
    tell(play, &ask);
}

void play_register(struct play *play, unsigned consumer, struct daybook_start start)
{
    enrol_with(play, consumer, start);
}

void play_claim(struct play *play, unsigned consumer, uint32_t count, uint32_t run)
{
    struct play_ask ask = {.kind = ASK_CLAIM, .consumer = consumer};
    if (!figures(play->pair.oracle, pair_consumers[consumer]).registered) {
        enrol_with(play, consumer,
                   (struct daybook_start){DAYBOOK_START_OLDEST, 0}); /* a group of its own */
    }
    ask.claim = claim_of(pair_consumers[consumer], count);
    ask.claim.key_run = run;
    ask.claim.lease_ms = LEASE_MS;
    tell(play, &ask);
}

/* Of the newest hand-outs of a consumer some, in order. */
static uint32_t choose(const struct play *play, unsigned consumer, uint32_t skip, uint32_t count,
                       struct handed *ret)
{
    const struct pair *p = &play->pair;
    uint32_t of_it = 0;
    uint32_t chosen = 0;
    for (size_t i = p->handed_count; i-- > 0 && chosen < count;) {
        if (p->handed[i].consumer == consumer && of_it++ >= skip) {
            ret[chosen++] = p->handed[i];
        }
    }
    return chosen;
}

static void verdicts(struct play *play, struct play_ask ask, uint32_t skip, uint32_t count)
{
    if (play->loose) {
        return;
    }
    ask.count = choose(play, ask.consumer, skip, count, ask.set);
    if (ask.count > 0) {
        tell(play, &ask);
    }
}

void play_ack(struct play *play, unsigned consumer, uint32_t skip, uint32_t count)
{
    verdicts(play, (struct play_ask){.kind = ASK_ACK, .consumer = consumer}, skip, count);
}

void play_refund(struct play *play, unsigned consumer, uint32_t skip, uint32_t count)
{
    verdicts(play, (struct play_ask){.kind = ASK_REFUND, .consumer = consumer}, skip, count);
}

void play_extend(struct play *play, unsigned consumer, uint32_t skip, uint32_t count,
                 uint32_t lease_ms)
{
    verdicts(play,
             (struct play_ask){.kind = ASK_EXTEND, .consumer = consumer, .lease_ms = lease_ms},
             skip, count);
}

void play_quarantine(struct play *play, unsigned consumer, uint32_t skip)
{
    verdicts(play, (struct play_ask){.kind = ASK_QUARANTINE, .consumer = consumer}, skip, 1);
}

static void act(struct play *play, enum ask_kind kind, unsigned consumer, uint32_t number)
{
    struct play_ask ask = {.kind = kind, .consumer = consumer, .first = number};
    tell(play, &ask);
}

void play_release(struct play *play, unsigned consumer, uint32_t number)
{
    act(play, ASK_RELEASE, consumer, number);
}

void play_discard(struct play *play, unsigned consumer, uint32_t number)
{
    act(play, ASK_DISCARD, consumer, number);
}

void play_retire(struct play *play, unsigned consumer)
{
    act(play, ASK_RETIRE, consumer, 0);
}

void play_rewind(struct play *play, unsigned consumer)
{
    act(play, ASK_REWIND, consumer, 0);
}

void play_maintain(struct play *play)
{
    act(play, ASK_MAINTAIN, 0, 0);
}

/* Files of a disk, counted by their bytes' blocks. */
static void add_bytes(void *user, const char *path, enum dbk_file_kind kind)
{
    (void)path;
    *(uint64_t *)user += kind == DBK_FILE_REGULAR ? 1 : 0;
}

void play_space(struct play *play, uint64_t free_bytes)
{
    struct sim_disk *disk = disk_of(play);
    struct dbk_statfs figures;
    uint64_t files = 0;
    if (play->halted || disk->dead) {
        return;
    }
    sim_each(disk, SIM_CACHE, add_bytes, &files);
    assert_true(files > 0);
    if (disk->os.statfs(&disk->os, "/", &figures) == 0) {
        disk->space_bytes = disk->space_bytes - figures.free_bytes + free_bytes;
    }
    play->scarce = true;
}

/* ---- copies ---------------------------------------------------------------------------------------------- */

static void copy_path(char text[static 32], uint32_t number)
{
    (void)snprintf(text, 32, "/copy%" PRIu32, number);
}

static void note_copy(struct play *play, enum daybook_code code, uint64_t events, const char *what)
{
    uint32_t number = play->copies++;
    if (code == DAYBOOK_OK) {
        play->copy_events[number] = events;
    } else if (!disk_of(play)->dead && play->temper == PLAY_SOUND) {
        (void)wrong(play, "%s answers %s: %s", what, daybook_code_name(code),
                    play->pair.subject->err.message);
    } else if (!disk_of(play)->dead && code != DAYBOOK_BACKEND && code != DAYBOOK_BUSY) {
        (void)wrong(play, "2.4: %s in trouble answers %s: %s", what, daybook_code_name(code),
                    play->pair.subject->err.message);
    }
    look_after(play);
}

void play_backup(struct play *play)
{
    char path[32];
    struct daybook_log_backup_report report = {0};
    struct contract_world *w = play->pair.subject;
    if (play->halted || !is_well(play)) {
        return;
    }
    assert_true(play->copies < PLAY_COPIES_MAX);
    copy_path(path, play->copies);
    play->copy_events[play->copies] = UINT64_MAX;
    enum daybook_code code = dbk_log_backup(PLAY_PATH, path, &w->disk->os, &report, &w->err);
    note_copy(play, code, journal_figures(play->pair.oracle).stored_events, "backup");
}

void play_repair(struct play *play)
{
    char path[32];
    struct daybook_log_repair_report report = {0};
    struct contract_world *w = play->pair.subject;
    if (play->halted || !is_well(play)) {
        return;
    }
    assert_true(play->copies < PLAY_COPIES_MAX && w->journal == NULL);
    copy_path(path, play->copies);
    play->copy_events[play->copies] = UINT64_MAX;
    enum daybook_code code = dbk_log_repair(PLAY_PATH, path, &w->disk->os, NULL, &report, &w->err);
    note_copy(play, code, journal_figures(play->pair.oracle).stored_events, "repair");
}

/* ---- a life ------------------------------------------------------------------------------------------------ */

struct play *play_new(const struct play_script *script)
{
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    struct daybook_capacity capacity = script->capacity;
    capacity.events.event_bytes_max = RECORD_MAX;
    play->script = script;
    play->pair.oracle = world_new(&contract_memory, &capacity);
    play->pair.subject = world_prepare(&contract_log_small, &capacity);
    play->pair.subject->limits = (struct contract_limits){
        PLAY_SEGMENT_BYTES, script->bytes_max != 0 ? script->bytes_max : 128u * PLAY_SEGMENT_BYTES,
        PLAY_FREE_MIN};
    play->pair.operators = true;
    play->pair.lists = true;
    play->pair.marking = true;
    play->pair.marks[0].units = 0;
    assert_code(DAYBOOK_OK,
                dbk_memory_copy(play->pair.oracle->journal, &play->pair.marks[0].oracle, NULL));
    play->pair.mark_count = 1;
    return play;
}

void play_free(struct play *play)
{
    drop_subject(play);
    forget_landed(play);
    free(play->unheard);
    free(play->again);
    pair_forget_marks(&play->pair, play->pair.mark_count);
    daybook_batch_free(play->pair.subject->batch);
    sim_disk_free(play->pair.subject->disk);
    free(play->pair.subject);
    world_free(play->pair.oracle);
    free(play);
}

void play_run(struct play *play)
{
    play->script->run(play);
    drop_subject(play);
}

void play_run_idle(struct play *play)
{
    play->script->run(play);
    play_pass(play, 150000);
    play_pass(play, 150000);
    drop_subject(play);
}

/* ---- rot ------------------------------------------------------------------------------------------------------ */

struct segments {
    char paths[16][64];
    size_t count;
};

static void add_segment(void *user, const char *path, enum dbk_file_kind kind)
{
    struct segments *s = user;
    size_t len = strlen(path);
    if (kind == DBK_FILE_REGULAR && strncmp(path, PLAY_PATH "/seg-", sizeof PLAY_PATH + 4) == 0 &&
        strcmp(path + len - 4, ".dbl") == 0 && s->count < 16 && len < sizeof s->paths[0]) {
        memcpy(s->paths[s->count++], path, len + 1);
    }
}

/* Draws a place and how it is spoiled. */
static void spoil_segment(struct sim_disk *disk, const char *path, uint64_t *state)
{
    uint64_t size = 0;
    const uint8_t *bytes = sim_bytes(disk, SIM_MEDIUM, path, &size);
    while (size > SIM_SECTOR_BYTES && bytes[size - 1] == 0) {
        size--;
    }
    if (bytes == NULL || size == 0) {
        fail_msg("%s is empty", path);
        return;
    }
    uint64_t sectors =
        size < SIM_SECTOR_BYTES ? 1 : (size + SIM_SECTOR_BYTES - 1) / SIM_SECTOR_BYTES;
    uint64_t blocks = sectors / 8;
    uint64_t at = sim_draw(state) % sectors;
    uint64_t from = sim_draw(state) % sectors;
    switch (sim_draw(state) % 4) {
    case 0:
        sim_flip_bit(disk, path, sim_draw(state) % size, (unsigned)(sim_draw(state) % 8));
        break;
    case 1:
        sim_zero_sector(disk, path, at);
        break;
    case 2:
        sim_copy_sector(disk, path, at, from);
        break;
    default:
        for (uint64_t i = 0; blocks > 0 && i < 8; i++) {
            sim_copy_sector(disk, path, at % blocks * 8 + i, from % blocks * 8 + i);
        }
        break;
    }
}

static void count_finding(void *user, const struct daybook_log_finding *found)
{
    *(uint32_t *)user += found->harmless ? 0 : 1;
}

/* Every event of the oracle is there as it is, or counted as damaged; nothing else is. */
static bool holds_or_counts(struct pair *p, char why[static PAIR_WHY_MAX])
{
    uint64_t last = 0;
    uint64_t damaged = 0;
    size_t at = 0;
    assert_code(DAYBOOK_OK, daybook_journal_read(p->oracle->journal, 0, DAYBOOK_WHERE_ALL,
                                                 p->oracle->batch, &last, NULL, &p->oracle->err));
    assert_code(DAYBOOK_OK,
                daybook_journal_read(p->subject->journal, 0, DAYBOOK_WHERE_ALL, p->subject->batch,
                                     &last, &damaged, &p->subject->err));
    const struct daybook_batch *o = p->oracle->batch;
    const struct daybook_batch *s = p->subject->batch;
    for (size_t i = 0; i < o->count && at < s->count; i++) {
        struct daybook_bytes theirs = s->deliveries[at].event.record;
        struct daybook_bytes ours = o->deliveries[i].event.record;
        at += o->deliveries[i].position == s->deliveries[at].position && ours.len == theirs.len &&
                      memcmp(ours.data, theirs.data, ours.len) == 0
                  ? 1
                  : 0;
    }
    if (at != s->count || s->count + damaged != o->count) {
        (void)snprintf(why, PAIR_WHY_MAX,
                       "D7: of %zu events %zu are whole, %zu of them as given, %" PRIu64
                       " counted as damaged",
                       o->count, s->count, at, damaged);
        return false;
    }
    return true;
}

static void count_missing(void *user, const struct daybook_log_missing *missing)
{
    *(uint64_t *)user += missing->end - missing->first;
}

/* What a repair makes of what is refused opens; each event of the oracle is there as it was given, or counted as
 * lost or as damaged. One that was forgotten may be back, for the frame that said so may be lost. */
static bool is_saved(struct pair *p, char why[static PAIR_WHY_MAX])
{
    struct contract_world *w = p->subject;
    struct daybook_log_repair_report report;
    uint64_t last = 0;
    uint64_t damaged = 0;
    uint64_t missing = 0; /* at most */
    size_t at = 0;
    size_t kept = 0;
    struct daybook_log_repair_hooks hooks = {.missing = count_missing, .user = &missing};
    enum daybook_code code =
        dbk_log_repair(PLAY_PATH, PLAY_REPAIRED, &w->disk->os, &hooks, &report, &w->err);
    struct daybook_log_options options = {.path = PLAY_REPAIRED,
                                          .capacity = w->capacity,
                                          .threads = DAYBOOK_LOG_INLINE,
                                          .bytes_max = UINT64_MAX};
    if (code == DAYBOOK_OK) {
        code = dbk_log_open_readonly(&options, &w->disk->os, &w->journal, &w->err);
    }
    if (code != DAYBOOK_OK) {
        (void)snprintf(why, PAIR_WHY_MAX, "a repair, or what it made, answers %s: %s",
                       daybook_code_name(code), w->err.message);
        return false;
    }
    assert_code(DAYBOOK_OK, daybook_journal_read(w->journal, 0, DAYBOOK_WHERE_ALL, w->batch, &last,
                                                 &damaged, &w->err));
    const struct daybook_batch *o = p->oracle->batch;
    const struct daybook_batch *s = w->batch;
    assert_code(DAYBOOK_OK, daybook_journal_read(p->oracle->journal, 0, DAYBOOK_WHERE_ALL,
                                                 p->oracle->batch, &last, NULL, &p->oracle->err));
    for (size_t i = 0; i < o->count; i++) {
        struct daybook_bytes ours = o->deliveries[i].event.record;
        while (at < s->count && s->deliveries[at].position < o->deliveries[i].position) {
            at++;
        }
        if (at == s->count || s->deliveries[at].position != o->deliveries[i].position) {
            continue;
        }
        struct daybook_bytes theirs = s->deliveries[at].event.record;
        if (ours.len != theirs.len || memcmp(ours.data, theirs.data, ours.len) != 0) {
            (void)snprintf(why, PAIR_WHY_MAX, "a repair made another event of position %" PRIu64,
                           o->deliveries[i].position);
            return false;
        }
        kept++;
    }
    if (kept + damaged + report.events_lost + missing < o->count) {
        (void)snprintf(why, PAIR_WHY_MAX,
                       "of %zu events a repair kept %zu, %" PRIu64
                       " damaged, and says that %" PRIu64 " are lost",
                       o->count, kept, damaged, report.events_lost + missing);
        return false;
    }
    return true;
}

bool play_rot(const struct play *played, uint64_t seed, bool *ret_refused,
              char why[static PAIR_WHY_MAX])
{
    struct contract_world subject = *played->pair.subject;
    struct pair p = {.oracle = played->pair.oracle, .subject = &subject};
    struct segments segments = {.count = 0};
    struct daybook_log_report report;
    char where[256];
    uint32_t findings = 0;
    uint64_t state = seed;
    why[0] = '\0';
    subject.disk = sim_disk_clone(played->pair.subject->disk);
    sim_power_cut(subject.disk, SIM_KEEP_ALL, 0);

    sim_each(subject.disk, SIM_MEDIUM, add_segment, &segments);
    size_t which = (size_t)sim_draw(&state);
    which = segments.count > 0 ? which % segments.count : 0;
    spoil_segment(subject.disk, segments.paths[which], &state);
    sim_drop_caches(subject.disk);
    struct sim_disk *before = sim_disk_clone(subject.disk);

    enum daybook_code verified = dbk_log_verify(PLAY_PATH, &subject.disk->os, count_finding,
                                                &findings, &report, &subject.err);
    enum daybook_code code = subject.engine->open(&subject, &subject.capacity, &subject.err);
    *ret_refused = code == DAYBOOK_DAMAGED || code == DAYBOOK_NEWER_FORMAT;
    if (*ret_refused && verified == DAYBOOK_OK && findings == 0) {
        (void)snprintf(why, PAIR_WHY_MAX, "verify finds nothing, and the opening refuses: %s",
                       subject.err.message);
    } else if (*ret_refused && sim_differs(before, subject.disk, SIM_CACHE, where, sizeof where)) {
        (void)snprintf(why, PAIR_WHY_MAX, "D8: an opening that refuses has changed %s", where);
    } else if (code == DAYBOOK_OK) {
        (void)holds_or_counts(&p, why);
    } else if (*ret_refused && code == DAYBOOK_DAMAGED) {
        code = is_saved(&p, why) ? DAYBOOK_OK : code;
    } else if (!*ret_refused) {
        (void)snprintf(why, PAIR_WHY_MAX, "an opening of rot answers %s: %s",
                       daybook_code_name(code), subject.err.message);
    }
    if (code == DAYBOOK_OK) {
        dbk_log_abandon(subject.journal);
    }
    sim_disk_free(before);

    sim_disk_free(subject.disk);
    return why[0] == '\0';
}

/* ---- its end ------------------------------------------------------------------------------------------------- */

static void keep_finding(void *user, const struct daybook_log_finding *found)
{
    struct play *play = user;
    if (!found->harmless) {
        (void)wrong(play, "verify: segment %" PRIu64 " at %" PRIu64 ": %s", found->segment_no,
                    found->offset, found->message);
    }
}

static bool verify_path(struct play *play, const char *path, const char *when, uint64_t *ret_events)
{
    struct daybook_error err = {0};
    struct daybook_log_report report = {0};
    enum daybook_code code =
        dbk_log_verify(path, &disk_of(play)->os, keep_finding, play, &report, &err);
    bool may_be_missing = play->pair.promised == 0 && strcmp(path, PLAY_PATH) == 0;
    if (code != DAYBOOK_OK && !(code == DAYBOOK_NOT_FOUND && may_be_missing)) {
        return wrong(play, "verify of %s %s: %s: %s", path, when, daybook_code_name(code),
                     err.message);
    }
    *ret_events = report.events;
    return is_well(play);
}

/* A copy that has its name is whole and holds what it was said to hold; one that was reported has its name. */
static bool check_copies(struct play *play)
{
    for (uint32_t i = 0; i < play->copies && i < PLAY_COPIES_MAX; i++) {
        char path[32];
        struct dbk_stat stat;
        uint64_t events = 0;
        const struct dbk_os *os = &disk_of(play)->os;
        copy_path(path, i);
        bool there = os->stat(os, path, &stat) == 0;
        bool said = play->copy_events[i] != UINT64_MAX;
        if (said && !there) {
            return wrong(play, "%s was reported and is not there", path);
        }
        if (there && !verify_path(play, path, "after a crash", &events)) {
            return false;
        }
        if (said && events < play->copy_events[i]) {
            return wrong(play, "%s holds %" PRIu64 " events of %" PRIu64, path, events,
                         play->copy_events[i]);
        }
    }
    return true;
}

/* D8: a second opening changes nothing. */
static bool open_twice(struct play *play)
{
    struct pair *p = &play->pair;
    uint64_t units = pair_units(p);
    drop_subject(play);
    sim_kill(disk_of(play));
    if (!open_again(play)) {
        return false;
    }
    if (pair_units(p) < units) {
        return wrong(play, "D8: a second opening lost groups");
    }
    assert_code(DAYBOOK_OK, dbk_memory_restart(&p->oracle->journal, &p->oracle->capacity, NULL));
    return look(play);
}

/* A5: asking again resolves what nobody heard. */
static void ask_again(struct play *play)
{
    struct play_ask *unheard = play->unheard;
    play->unheard = NULL;
    if (unheard != NULL && !(play->loose && unheard->kind != ASK_APPEND)) {
        tell(play, unheard);
    }
    free(unheard);
}

/* The journal goes on as the oracle does: everything is appended to, handed out, resolved, forgotten. */
static void work_on(struct play *play)
{
    play_append(play, 3, 200);
    play_pass(play, HOUR_US);
    for (unsigned c = 0; c < PAIR_CONSUMERS; c++) {
        play_claim(play, c, 8, 2);
        play_ack(play, c, 1, 3);
        play_quarantine(play, c, 0);
        play_claim(play, c, 60, 32);
    }
    play_maintain(play);
    play_pass(play, 2 * HOUR_US);
    play_append(play, 2, 3000);
    play_maintain(play);
    play_pass(play, SECOND_US);
}

struct leftovers {
    struct play *play;
    bool housekept;
};

/* 11: nothing is left over. */
static void look_at_file(void *user, const char *path, enum dbk_file_kind kind)
{
    const struct leftovers *l = user;
    size_t len = strlen(path);
    (void)kind;
    if (strncmp(path, PLAY_PATH "/", sizeof PLAY_PATH) == 0 && len > 4 &&
        strcmp(path + len - 4, ".tmp") == 0) {
        (void)wrong(l->play, "%s is left over", path);
    }
}

static bool close_and_verify(struct play *play)
{
    uint64_t events = 0;
    struct leftovers leftovers = {.play = play};
    play_close(play);
    if (!is_well(play)) {
        return false;
    }
    sim_each(disk_of(play), SIM_CACHE, look_at_file, &leftovers);
    return is_well(play) && verify_path(play, PLAY_PATH, "after an orderly end", &events);
}

static bool check_end(struct play *play, bool power, bool thorough)
{
    struct pair *p = &play->pair;
    uint64_t events = 0;
    if (!check_copies(play) || !verify_path(play, PLAY_PATH, "after the crash", &events)) {
        return false;
    }
    if (!open_again(play)) {
        return false;
    }
    if (play->loose) {
        /* The state of delivery is the subject's own; what is retained is not. */
        if (pair_units(p) - 1 < least_units(play, power)) {
            return wrong(play, "D1: groups that had to survive did not");
        }
    } else if (!adopt(play, least_units(play, power))) {
        return false;
    }
    if (!play->loose) {
        skip_positions(play);
    }
    forget_landed(play);
    pair_forget_marks(p, p->mark_count);
    pair_promise(p);
    if (!look(play) || !open_twice(play)) {
        return false;
    }
    disk_of(play)->syncs_failed = 0;
    disk_of(play)->space_bytes = UINT64_C(1) << 40; /* an operator has made room */
    pass(p->oracle, 2 * SECOND_US);
    pass(p->subject, 2 * SECOND_US);
    ask_again(play);
    /* At the limit of its bytes a journal of such small segments has little room for delivery. */
    if (thorough && !play->loose && play->script->bytes_max == 0) {
        work_on(play);
    }
    return is_well(play) && close_and_verify(play);
}

bool play_end(struct play *play, const struct play_cut *cut, bool thorough)
{
    /* An end of its own: the life itself stays as it is, for the next one. */
    struct play *end = malloc(sizeof *end);
    struct contract_world *subject = malloc(sizeof *subject);
    struct contract_world *oracle = malloc(sizeof *oracle);
    if (end == NULL || subject == NULL || oracle == NULL) {
        fail_msg("out of memory");
        abort(); /* not reached; the analyser does not know that */
    }
    assert_null(play->pair.subject->journal);
    memcpy(end, play, sizeof *end);
    *subject = *play->pair.subject;
    *oracle = *play->pair.oracle;
    end->pair.subject = subject;
    end->pair.oracle = oracle;
    end->halted = false;
    end->temper = PLAY_SOUND;
    end->unheard = NULL;
    end->again = NULL;
    subject->disk = sim_disk_clone(play->pair.subject->disk);
    int64_t clocks[] = {oracle->disk->realtime_us, oracle->disk->monotonic_us};
    assert_code(DAYBOOK_OK, dbk_memory_copy(play->pair.oracle->journal, &oracle->journal, NULL));
    for (size_t i = 0; i < play->pair.mark_count; i++) {
        assert_code(DAYBOOK_OK,
                    dbk_memory_copy(play->pair.marks[i].oracle, &end->pair.marks[i].oracle, NULL));
    }
    for (size_t i = 0; i < play->landed_count; i++) {
        assert_code(DAYBOOK_OK, dbk_memory_copy(play->landed[i], &end->landed[i], NULL));
    }
    if (play->unheard != NULL) {
        end->unheard = malloc(sizeof *end->unheard);
        assert_non_null(end->unheard);
        *end->unheard = *play->unheard;
    }
    if (cut->kill) {
        sim_kill(subject->disk);
    } else {
        sim_power_cut(subject->disk, cut->profile, cut->seed);
    }
    bool well = check_end(end, !cut->kill && cut->profile != SIM_KEEP_ALL, thorough);
    if (!well) {
        memcpy(play->pair.why, end->pair.why, sizeof end->pair.why);
    }
    drop_subject(end);
    forget_landed(end);
    pair_forget_marks(&end->pair, end->pair.mark_count);
    assert_code(DAYBOOK_OK, daybook_journal_close(oracle->journal, NULL));
    oracle->disk->realtime_us = clocks[0];
    oracle->disk->monotonic_us = clocks[1];
    sim_disk_free(subject->disk);
    free(end->unheard);
    free(subject);
    free(oracle);
    free(end);
    return well;
}
