/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine and the oracle (the memory engine) get the same random operations, and every answer and the
 * whole visible state are compared: appends, batches, claims with runs, verdicts, operators' operations,
 * maintenance, clocks that jump, restarts with other limits, losses of power, several consumers.
 *
 * differential ENGINE [--sequences N] [--operations N] [--seed S] [--keep]
 *
 * --keep, of an engine without threads: tables are kept for the next journal (sim/kept_memory.h), for the speed.
 * Sequence i draws from seed S + i. An operation is five numbers that do not depend on any answer, so a
 * sequence that finds a difference is made shorter by leaving operations out, and what remains is printed:
 * it is the reproduction. Positions are compared as they are; tokens are each engine's own and are only
 * matched. After a loss of power, also in the middle of an operation, the oracle goes back to what it held when
 * the last unit was written that is left; what was promised to survive has to be there. Two things are not drawn, because the contract leaves them open: a batch repeats a stored id only
 * where nothing has to be given up for it, and drops nothing of its own.
 */
#include "engines/memory/memory.h"
#include "harness/pair.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/engine.h"
#include "sim/kept_memory.h"

#define OPERATIONS_MAX 400u
#define IDS 24u
#define KEYS 5u
#define SET_MAX 8u

enum kind {
    OP_APPEND,
    OP_BATCH,
    OP_CLAIM,
    OP_ACK,
    OP_RELINQUISH,
    OP_EXTEND,
    OP_QUARANTINE,
    OP_MAINTAIN,
    OP_PASS,
    OP_JUMP,
    OP_REOPEN,
    OP_RELEASE,
    OP_DISCARD,
    OP_RETIRE,
    OP_REWIND,
    OP_START,
    OP_ROT,
    OP_POWER,
    OP_KINDS
};

static const struct {
    const char *name;
    uint32_t weight;
} kinds[OP_KINDS] = {
    [OP_APPEND] = {"append", 24},
    [OP_BATCH] = {"batch", 5},
    [OP_CLAIM] = {"claim", 26},
    [OP_ACK] = {"ack", 14},
    [OP_RELINQUISH] = {"relinquish", 5},
    [OP_EXTEND] = {"extend", 5},
    [OP_QUARANTINE] = {"quarantine", 5},
    [OP_MAINTAIN] = {"maintain", 3},
    [OP_PASS] = {"pass", 10},
    [OP_JUMP] = {"jump", 3},
    [OP_REOPEN] = {"reopen", 3},
    [OP_RELEASE] = {"release", 3},
    [OP_DISCARD] = {"discard", 2},
    [OP_RETIRE] = {"retire", 1},
    [OP_REWIND] = {"rewind", 2},
    [OP_START] = {"start", 2},
    [OP_ROT] = {"rot", 2},
    [OP_POWER] = {"power", 2},
};

struct op {
    enum kind kind;
    uint32_t a, b, c, d;
};

static uint64_t operations_done;
static uint64_t power_cuts;
static uint64_t resumed; /* openings from a checkpoint, compared with a replay of the whole log */
static uint64_t checkpoints;
static uint64_t relocated; /* sequences in which an event was */
static uint64_t current_seed;

/* ---- what the operations do ------------------------------------------------------------------------------ */

struct drawn_event {
    char id[16];
    char subject[16];
    char record[160];
    struct daybook_event event;
};

/* `variant` makes other content of it now and then. */
static void draw_event(const struct pair *p, uint32_t id, uint32_t variant, struct drawn_event *ret)
{
    static const char *const spaces[] = {"space", "room"};

    (void)snprintf(ret->id, sizeof ret->id, "id%u", id % IDS);
    (void)snprintf(ret->subject, sizeof ret->subject, "k%u", id % KEYS);
    (void)snprintf(ret->record, sizeof ret->record, "{\"request_id\":\"%s\",\"n\":%s%.*s}", ret->id,
                   variant % 8 == 7 ? "2" : "1.0", (int)(id * 7 % 40),
                   "                                        ");
    ret->event = event_of(ret->id, ret->subject, ret->record);
    ret->event.name_space = text(spaces[id / 2 % 2]);
    if (variant / 8 % 2 == 1) {
        ret->event.observed_at_us = WORLD_START_US - (int64_t)(variant % 1000) * SECOND_US;
    }
    (void)p;
}

static void compare_results(struct pair *p, const struct daybook_append_result *o,
                            const struct daybook_append_result *s)
{
    (void)pair_equal_codes(p, "append", o->code, s->code);
    if (o->code == DAYBOOK_OK || o->code == DAYBOOK_ALREADY_PRESENT) {
        (void)pair_equal(p, "position of an append", (int64_t)o->position, (int64_t)s->position);
    }
    (void)pair_equal(p, "limit of an append", o->limit, s->limit);
    (void)pair_equal(p, "retained of an append", (int64_t)o->retained, (int64_t)s->retained);
}

static void do_append(struct pair *p, const struct op *op)
{
    struct daybook_append_result o = {.position = 0};
    struct daybook_append_result s = {.position = 0};
    struct drawn_event drawn;

    draw_event(p, op->a, op->b, &drawn);
    (void)pair_equal_codes(
        p, "append",
        daybook_journal_append(p->oracle->journal, &drawn.event, p->oracle->now_us,
                               DAYBOOK_NO_DEADLINE, &o, &p->oracle->err),
        daybook_journal_append(p->subject->journal, &drawn.event, p->subject->now_us,
                               DAYBOOK_NO_DEADLINE, &s, &p->subject->err));
    compare_results(p, &o, &s);
    if (s.code == DAYBOOK_OK) {
        pair_promise(p);
    }
}

static void do_maintain(struct pair *p)
{
    uint64_t o = 0;
    uint64_t s = 0;

    (void)pair_equal_codes(p, "maintain",
                           daybook_journal_maintain(p->oracle->journal, p->oracle->now_us,
                                                    DAYBOOK_NO_DEADLINE, &o, &p->oracle->err),
                           daybook_journal_maintain(p->subject->journal, p->subject->now_us,
                                                    DAYBOOK_NO_DEADLINE, &s, &p->subject->err));
    (void)pair_equal(p, "pruned by maintain", (int64_t)o, (int64_t)s);
    pair_mark(p);
}

static void do_batch(struct pair *p, const struct op *op)
{
    struct daybook_append_result o[SET_MAX];
    struct daybook_append_result s[SET_MAX];
    struct drawn_event drawn[SET_MAX];
    struct daybook_event events[SET_MAX];
    struct daybook_journal_stats stats;
    size_t count = 1 + op->a % SET_MAX;

    if (p->oracle->capacity.retain_acknowledged_us < 0) {
        return; /* what stands in a batch could be pruned by its own next event */
    }
    do_maintain(p); /* what a look-up finds is not pruned by its own batch */
    if (daybook_journal_stats(p->oracle->journal, p->oracle->now_us, &stats, NULL) != DAYBOOK_OK ||
        stats.stored_events + count > stats.events_max) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        draw_event(p, op->b + (uint32_t)i * (op->c % 5), op->d + (uint32_t)i, &drawn[i]);
        events[i] = drawn[i].event;
    }
    memset(o, 0, sizeof o);
    memset(s, 0, sizeof s);
    if (op->b % 2 == 0) {
        append_through_queue(p->oracle, events, count, o);
        append_through_queue(p->subject, events, count, s);
    } else {
        (void)pair_equal_codes(
            p, "batch",
            daybook_journal_append_batch(p->oracle->journal, events, count, p->oracle->now_us,
                                         DAYBOOK_NO_DEADLINE, o, &p->oracle->err),
            daybook_journal_append_batch(p->subject->journal, events, count, p->subject->now_us,
                                         DAYBOOK_NO_DEADLINE, s, &p->subject->err));
    }
    for (size_t i = 0; i < count; i++) {
        compare_results(p, &o[i], &s[i]);
        if (s[i].code == DAYBOOK_OK) {
            pair_promise(p);
        }
    }
    do_maintain(
        p); /* nor does a batch prune what stands in it, in an engine that commits it at once */
}

static struct daybook_start draw_start(const struct pair *p, uint32_t draw)
{
    switch (draw % 8) {
    case 0:
        return (struct daybook_start){DAYBOOK_START_NOW, 0};
    case 1:
        return (struct daybook_start){DAYBOOK_START_POSITION, (int64_t)(draw / 8 % 40)};
    case 2:
        return (struct daybook_start){DAYBOOK_START_TIME,
                                      p->oracle->now_us +
                                          ((int64_t)(draw / 8 % 100) - 50) * 10 * SECOND_US};
    default:
        return (struct daybook_start){DAYBOOK_START_OLDEST, 0};
    }
}

static bool is_registered(const struct pair *p, const char *consumer)
{
    struct daybook_consumer_stats stats;

    assert_code(DAYBOOK_OK, daybook_journal_consumer_stats(p->oracle->journal, consumer,
                                                           p->oracle->now_us, &stats, NULL));
    return stats.registered;
}

static void enrol_both(struct pair *p, struct daybook_claim claim)
{
    claim.events_max = 0;
    (void)pair_equal_codes(
        p, "an empty claim",
        daybook_journal_claim(p->oracle->journal, &claim, p->oracle->now_us, DAYBOOK_NO_DEADLINE,
                              p->oracle->batch, &p->oracle->err),
        daybook_journal_claim(p->subject->journal, &claim, p->subject->now_us, DAYBOOK_NO_DEADLINE,
                              p->subject->batch, &p->subject->err));
    pair_promise(p);
}

static void do_claim(struct pair *p, const struct op *op)
{
    static const uint32_t leases_ms[] = {1, 1000, 30000, 30000, 60000, 3600000};
    unsigned consumer = op->a % PAIR_CONSUMERS;
    struct daybook_claim c = {.consumer = pair_consumers[consumer],
                              .events_max = op->a / PAIR_CONSUMERS % 7,
                              .bytes_max = op->b % 3 == 0 ? 1 + op->b / 3 % 300 : 0,
                              .key_run = op->c % 5,
                              .lease_ms = leases_ms[op->c / 5 % 6],
                              .hand_outs_max = op->d % 5,
                              .start = draw_start(p, op->d / 5)};

    if (p->marking && !is_registered(p, c.consumer)) {
        enrol_both(p, c); /* a unit of its own */
    }
    (void)pair_equal_codes(
        p, "claim",
        daybook_journal_claim(p->oracle->journal, &c, p->oracle->now_us, DAYBOOK_NO_DEADLINE,
                              p->oracle->batch, &p->oracle->err),
        daybook_journal_claim(p->subject->journal, &c, p->subject->now_us, DAYBOOK_NO_DEADLINE,
                              p->subject->batch, &p->subject->err));
    if (pair_equal_batches(p, "claimed") &&
        pair_equal(p, "more", p->oracle->batch->more, p->subject->batch->more)) {
        pair_remember(p, consumer);
    }
}

/* One of the newest hand-outs, any hand-out, or one that never was. */
static struct handed draw_hand_out(const struct pair *p, uint32_t draw)
{
    size_t newest = p->handed_count < 12 ? p->handed_count : 12;

    if (p->handed_count == 0 || draw % 16 == 0) {
        /* No engine gives out so high a token in these tests, but each honours one (K1). */
        return (struct handed){.consumer = draw / 16 % PAIR_CONSUMERS,
                               .position = draw / 64 % 60,
                               .token_oracle = UINT64_C(1) << 62,
                               .token_subject = UINT64_C(1) << 62};
    }
    if (draw % 16 < 4) {
        return p->handed[draw / 16 % p->handed_count];
    }
    return p->handed[p->handed_count - 1 - draw / 16 % newest];
}

static enum daybook_code say(struct contract_world *world, const struct op *op,
                             const char *consumer, const struct daybook_hand_out *set, size_t count,
                             enum daybook_code *ret_codes)
{
    static const uint32_t leases_ms[] = {0, 1, 30000, 60000, 7200000};

    if (op->kind == OP_ACK) {
        return daybook_journal_ack(world->journal, consumer, set, count, world->now_us,
                                   DAYBOOK_NO_DEADLINE, ret_codes, &world->err);
    }
    if (op->kind == OP_RELINQUISH) {
        return daybook_journal_relinquish(world->journal, consumer, set, count, world->now_us,
                                          DAYBOOK_NO_DEADLINE, ret_codes, &world->err);
    }
    return daybook_journal_extend(world->journal, consumer, set, count, leases_ms[op->c % 5],
                                  world->now_us, DAYBOOK_NO_DEADLINE, ret_codes, &world->err);
}

static void do_verdicts(struct pair *p, const struct op *op)
{
    struct daybook_hand_out o[SET_MAX];
    struct daybook_hand_out s[SET_MAX];
    enum daybook_code codes_o[SET_MAX] = {DAYBOOK_OK};
    enum daybook_code codes_s[SET_MAX] = {DAYBOOK_OK};
    struct handed first = draw_hand_out(p, op->a);
    const char *consumer =
        pair_consumers[op->d % 16 == 0 ? op->d / 16 % PAIR_CONSUMERS : first.consumer];
    size_t count = 1 + op->b % SET_MAX;

    for (size_t i = 0; i < count; i++) {
        struct handed h = draw_hand_out(p, op->a + (uint32_t)i * 16);

        o[i] = (struct daybook_hand_out){h.position, h.token_oracle};
        s[i] = (struct daybook_hand_out){h.position, h.token_subject};
    }
    (void)pair_equal_codes(p, kinds[op->kind].name, say(p->oracle, op, consumer, o, count, codes_o),
                           say(p->subject, op, consumer, s, count, codes_s));
    for (size_t i = 0; i < count; i++) {
        (void)pair_equal_codes(p, "verdict", codes_o[i], codes_s[i]);
    }
}

static void do_quarantine(struct pair *p, const struct op *op)
{
    struct handed h = draw_hand_out(p, op->a);
    const char *consumer =
        pair_consumers[op->b % 16 == 0 ? op->b / 16 % PAIR_CONSUMERS : h.consumer];
    enum daybook_quarantine_reason reason =
        op->c % 4 == 0 ? DAYBOOK_REASON_MALFORMED : DAYBOOK_REASON_REJECTED;
    char words[32];
    uint64_t before = p->marking ? pair_units(p) : 0;
    enum daybook_code code;

    (void)snprintf(words, sizeof words, "words %u", op->d % 100);
    code = daybook_journal_quarantine(
        p->subject->journal, consumer, (struct daybook_hand_out){h.position, h.token_subject},
        reason, text(words), p->subject->now_us, DAYBOOK_NO_DEADLINE, &p->subject->err);
    (void)pair_equal_codes(
        p, "quarantine",
        daybook_journal_quarantine(
            p->oracle->journal, consumer, (struct daybook_hand_out){h.position, h.token_oracle},
            reason, text(words), p->oracle->now_us, DAYBOOK_NO_DEADLINE, &p->oracle->err),
        code);
    /* One that ended the lease of a dropped event is only written. */
    if (code == DAYBOOK_OK && p->marking && pair_units(p) > before) {
        pair_promise(p);
    }
}

static void do_pass(struct pair *p, const struct op *op)
{
    static const int64_t steps_us[] = {1,         1000,     SECOND_US,      29 * SECOND_US,
                                       MINUTE_US, LEASE_US, 10 * MINUTE_US, 2 * HOUR_US};
    int64_t us = steps_us[op->a % 8];

    pass(p->oracle, us);
    pass(p->subject, us);
    if (us >= SECOND_US) {
        pair_promise(p);
    }
}

static void do_jump(struct pair *p, const struct op *op)
{
    static const int64_t leaps_us[] = {SECOND_US,      59 * SECOND_US, 61 * SECOND_US,
                                       20 * MINUTE_US, 2 * HOUR_US,    30 * HOUR_US};
    int64_t us = op->b % 2 == 0 ? leaps_us[op->a % 6] : -leaps_us[op->a % 6];

    jump(p->oracle, us);
    jump(p->subject, us);
    do_maintain(p); /* so that both have seen the clock jump (P3) */
}

static void do_reopen(struct pair *p, const struct op *op)
{
    /* Rot in a tail that no orderly end vouches for is refused, and rightly: that has tests of its own. */
    enum contract_end end = op->a % 2 == 0 && !p->rotten ? CONTRACT_KILLED : CONTRACT_CLOSED;
    struct daybook_capacity capacity = p->oracle->capacity;

    if (op->b % 3 == 0) {
        capacity.events_max = 3 + op->c % 20;
    }
    if (op->b % 6 == 0) {
        capacity.policy = op->d % 2 == 0 ? DAYBOOK_POLICY_REFUSE : DAYBOOK_POLICY_DROP_OLDEST;
    }
    p->oracle->capacity = capacity;
    p->subject->capacity = capacity;
    if (!pair_equal_codes(
            p, "reopen", p->oracle->engine->reopen(p->oracle, end, &capacity, &p->oracle->err),
            p->subject->engine->reopen(p->subject, end, &capacity, &p->subject->err))) {
        return;
    }
    pair_promise(p);
    do_maintain(p);
}

/* Power is gone and back. What was promised is there, and of the rest the first so many units: the oracle
 * goes back to where it was then. `landed`: what it holds if the append that nobody heard the answer of is
 * there; NULL: there was none. */
static void cut_power(struct pair *p, const struct op *op, struct daybook_journal *landed)
{
    uint64_t left;

    p->subject->cut = (enum sim_profile)(op->b % SIM_PROFILE_COUNT);
    p->subject->cut_seed = op->c;
    if (p->subject->engine->reopen(p->subject, CONTRACT_POWER, &p->subject->capacity,
                                   &p->subject->err) != DAYBOOK_OK) {
        fail_msg("seed %" PRIu64 ": it does not open after a loss of power: %s", current_seed,
                 p->subject->err.message);
    }
    power_cuts++;
    left = pair_units(p) - 1; /* the opening has written one */
    if (left < p->promised) {
        (void)snprintf(p->why, sizeof p->why,
                       "%" PRIu64 " units had to survive the loss of power, %" PRIu64 " did",
                       p->promised, left);
    }
    if (landed != NULL && (p->why[0] != '\0' || left <= p->marks[p->mark_count - 1].units ||
                           !pair_is_left(p, landed))) {
        assert_code(DAYBOOK_OK, daybook_journal_close(landed, NULL));
        landed = NULL;
    }
    while (p->mark_count > 1 && p->marks[p->mark_count - 1].units > left) {
        p->mark_count--;
        assert_code(DAYBOOK_OK, daybook_journal_close(p->marks[p->mark_count].oracle, NULL));
    }
    if (landed == NULL) {
        landed = p->marks[--p->mark_count].oracle;
    }
    pair_forget_marks(p, p->mark_count);
    assert_code(DAYBOOK_OK, dbk_memory_roll_back(&p->oracle->journal, landed, &p->oracle->capacity,
                                                 &p->oracle->err));
}

/* The process dies somewhere in an append, and the power goes. */
static void append_and_die(struct pair *p, const struct op *op)
{
    struct daybook_append_result o = {.position = 0};
    struct daybook_append_result s = {.position = 0};
    struct daybook_journal *landed = NULL;
    struct drawn_event drawn;
    enum daybook_code code_o;
    enum daybook_code code_s;

    draw_event(p, op->a, op->d, &drawn);
    p->subject->disk->crash_at = p->subject->disk->steps + 1 + op->d % 8;
    code_s = daybook_journal_append(p->subject->journal, &drawn.event, p->subject->now_us,
                                    DAYBOOK_NO_DEADLINE, &s, &p->subject->err);
    code_o = daybook_journal_append(p->oracle->journal, &drawn.event, p->oracle->now_us,
                                    DAYBOOK_NO_DEADLINE, &o, &p->oracle->err);
    if (p->subject->disk->dead && s.code == DAYBOOK_BACKEND) {
        assert_code(DAYBOOK_OK, dbk_memory_copy(p->oracle->journal, &landed, NULL));
    } else {
        (void)pair_equal_codes(p, "append", code_o, code_s);
        compare_results(p, &o, &s);
        pair_mark(p);
        if (s.code == DAYBOOK_OK) {
            pair_promise(p);
        }
    }
    cut_power(p, op, landed);
    /* One that has not happened may have used its position up: it was never answered (A1). */
    assert_true(dbk_memory_skip_positions(p->oracle->journal,
                                          p->subject->engine->next_position(p->subject)) <= 1);
}

static void do_operate(struct pair *p, const struct op *op)
{
    const char *consumer = pair_consumers[op->a % PAIR_CONSUMERS];
    struct drawn_event drawn;
    uint64_t before = p->marking ? pair_units(p) : 0;

    if (!p->operators) {
        return;
    }
    draw_event(p, op->b, 0, &drawn);
    if (op->kind == OP_RELEASE || op->kind == OP_DISCARD) {
        enum daybook_code (*act)(struct contract_world *, const char *, const char *) =
            op->kind == OP_RELEASE ? release : discard;

        (void)pair_equal_codes(p, kinds[op->kind].name, act(p->oracle, consumer, drawn.id),
                               act(p->subject, consumer, drawn.id));
    } else if (op->kind == OP_RETIRE) {
        enum daybook_force force = op->c % 2 == 0 ? DAYBOOK_FORCE_NO : DAYBOOK_FORCE_YES;

        (void)pair_equal_codes(p, "retire", retire(p->oracle, consumer, force),
                               retire(p->subject, consumer, force));
    } else if (op->kind == OP_START) {
        struct daybook_start start = draw_start(p, op->c);

        (void)pair_equal_codes(p, "start", start_consumer(p->oracle, consumer, start),
                               start_consumer(p->subject, consumer, start));
    } else {
        (void)pair_equal_codes(p, "rewind", rewind_consumer(p->oracle, consumer),
                               rewind_consumer(p->subject, consumer));
    }
    if (p->marking && pair_units(p) > before) {
        pair_promise(p);
    }
}

/* An event of a newer build, or a damaged medium, where a test can do that to the engine. */
static void do_rot(struct pair *p, const struct op *op)
{
    const struct contract_engine *engine = p->subject->engine;
    uint64_t last = 0;
    uint64_t position;

    if (op->b % 2 == 0 && engine->append_newer != NULL) {
        struct daybook_append_result o = {.position = 0};
        struct daybook_append_result s = {.position = 0};
        struct drawn_event drawn;

        draw_event(p, op->a, op->c, &drawn);
        (void)contract_memory.append_newer(p->oracle, &drawn.event, &o);
        (void)engine->append_newer(p->subject, &drawn.event, &s);
        compare_results(p, &o, &s);
    } else if (engine->spoil != NULL &&
               daybook_journal_read(p->oracle->journal, 0, DAYBOOK_WHERE_ALL, p->oracle->batch,
                                    &last, NULL, NULL) == DAYBOOK_OK &&
               p->oracle->batch->count > 0) {
        const struct daybook_delivery *chosen =
            &p->oracle->batch->deliveries[op->a % p->oracle->batch->count];

        if (chosen->row_version > 1) {
            return; /* a newer row stays one, whatever its bytes are; the oracle knows one flaw a row */
        }
        position = chosen->position;
        contract_memory.spoil(p->oracle, position);
        engine->spoil(p->subject, position);
        p->rotten = true;
    }
}

static void do_usual_op(struct pair *p, const struct op *op)
{
    p->oracle->err.message[0] = '\0';
    p->subject->err.message[0] = '\0';
    switch (op->kind) {
    case OP_APPEND:
        do_append(p, op);
        break;
    case OP_BATCH:
        do_batch(p, op);
        break;
    case OP_CLAIM:
        do_claim(p, op);
        break;
    case OP_ACK:
    case OP_RELINQUISH:
    case OP_EXTEND:
        do_verdicts(p, op);
        break;
    case OP_QUARANTINE:
        do_quarantine(p, op);
        break;
    case OP_MAINTAIN:
        do_maintain(p);
        break;
    case OP_PASS:
        do_pass(p, op);
        break;
    case OP_JUMP:
        do_jump(p, op);
        break;
    case OP_REOPEN:
        do_reopen(p, op);
        break;
    case OP_RELEASE:
    case OP_DISCARD:
    case OP_RETIRE:
    case OP_REWIND:
    case OP_START:
        do_operate(p, op);
        break;
    case OP_ROT:
        do_rot(p, op);
        break;
    case OP_POWER:
    case OP_KINDS:
        break;
    }
}

/* The same with another operation. Whether it has happened shows in the state. */
static void operate_and_die(struct pair *p, const struct op *op)
{
    static const enum kind mortal[] = {OP_CLAIM,   OP_ACK,    OP_QUARANTINE, OP_RELEASE,
                                       OP_DISCARD, OP_RETIRE, OP_REWIND,     OP_START};
    struct daybook_journal *landed = NULL;
    struct op dying = *op;

    dying.kind = mortal[op->d / 8 % (sizeof mortal / sizeof mortal[0])];
    if (dying.kind == OP_CLAIM && !is_registered(p, pair_consumers[op->a % PAIR_CONSUMERS])) {
        return; /* two units */
    }
    p->subject->disk->crash_at = p->subject->disk->steps + 1 + op->d % 8;
    p->marking = false;
    memcpy(p->why, "dying", 6); /* what is answered now is not compared */
    do_usual_op(p, &dying);
    p->why[0] = '\0';
    p->marking = true;
    if (p->subject->disk->dead) {
        assert_code(DAYBOOK_OK, dbk_memory_copy(p->oracle->journal, &landed, NULL));
    } else {
        pair_mark(p);
    }
    cut_power(p, op, landed);
}

static void do_power(struct pair *p, const struct op *op)
{
    if (!p->marking || p->rotten) {
        return; /* rot in a tail that no orderly end vouches for is refused */
    }
    if (op->a % 4 == 0) {
        append_and_die(p, op);
    } else if (op->a % 4 == 2) {
        operate_and_die(p, op);
    } else {
        cut_power(p, op, NULL);
    }
    pair_promise(p);
    do_maintain(p);
}

static void do_op(struct pair *p, const struct op *op)
{
    operations_done++;
    if (op->kind == OP_POWER) {
        do_power(p, op);
    } else {
        do_usual_op(p, op);
    }
    pair_mark(p);
    if (p->subject->engine->tick != NULL && p->subject->journal != NULL) {
        p->subject->engine->tick(p->subject);
    }
}

/* ---- sequences --------------------------------------------------------------------------------------------- */

/* The capacity of a sequence, from its first operation's numbers. */
static struct daybook_capacity capacity_of(const struct op *op)
{
    struct daybook_capacity capacity = world_capacity();

    capacity.events_max = 3 + op->a % 20;
    capacity.policy = op->b % 3 == 0 ? DAYBOOK_POLICY_DROP_OLDEST : DAYBOOK_POLICY_REFUSE;
    capacity.retain_acknowledged_us = op->c % 4 == 0 ? -1 : (1 + op->c % 3) * HOUR_US;
    capacity.delivery_attempts_max = 1 + op->d % 4;
    return capacity;
}

static void print_op(size_t i, const struct op *op)
{
    (void)printf("#   %3zu {OP_%s, %u, %u, %u, %u}\n", i, kinds[op->kind].name, op->a, op->b, op->c,
                 op->d);
}

static bool has_power_cut(const struct op *ops, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (ops[i].kind == OP_POWER) {
            return true;
        }
    }
    return false;
}

/* Runs operations on fresh journals; ops[0] is the capacity. Returns the index of the operation after which
 * something differed, or count; ret_why gets the difference. */
static size_t run_sequence(const struct contract_engine *engine, const struct op *ops, size_t count,
                           char ret_why[PAIR_WHY_MAX])
{
    static struct pair p;
    struct daybook_capacity capacity = capacity_of(&ops[0]);
    size_t i;

    memset(&p, 0, sizeof p);
    p.oracle = world_new(&contract_memory, &capacity);
    p.subject = world_new(engine, &capacity);
    p.operators = rewind_consumer(p.subject, "nobody-at-all") != DAYBOOK_BAD_ARGUMENT;
    p.lists = has_lists(p.subject);
    p.marking = engine->units != NULL && has_power_cut(ops, count);
    pair_promise(&p);
    for (i = 1; i < count; i++) {
        do_op(&p, &ops[i]);
        if (p.why[0] == '\0') {
            pair_compare(&p);
        }
        if (p.why[0] != '\0') {
            break;
        }
    }
    if (p.why[0] == '\0') {
        pair_compare_pages(&p, 1 + ops[0].a % 4);
    }
    memcpy(ret_why, p.why, PAIR_WHY_MAX);
    pair_forget_marks(&p, p.mark_count);
    resumed += p.subject->resumed;
    checkpoints += p.subject->checkpoints;
    relocated += p.subject->relocated ? 1 : 0;
    world_free(p.oracle);
    world_free(p.subject);
    return i;
}

/* Leaves out what is not needed for a difference. Returns the new count. */
static size_t shorten(const struct contract_engine *engine, struct op *ops, size_t count)
{
    static struct op without[OPERATIONS_MAX];
    char why[PAIR_WHY_MAX];

    for (size_t step = count / 2; step > 0; step = step > 1 ? step / 2 : 0) {
        for (size_t at = count; at > step;) {
            size_t from = at > step ? at - step : 1;
            size_t found;

            from = from < 1 ? 1 : from;
            memcpy(without, ops, from * sizeof *ops);
            memcpy(without + from, ops + at, (count - at) * sizeof *ops);
            found = run_sequence(engine, without, count - (at - from), why);
            if (why[0] != '\0') {
                count = found + 1;
                memcpy(ops, without, count * sizeof *ops);
                at = from < count ? from : count;
            } else {
                at = from;
            }
        }
    }
    return count;
}

static void draw_sequence(uint64_t seed, size_t count, struct op *ret)
{
    uint64_t state = seed;
    uint32_t weights = 0;

    for (size_t k = 0; k < OP_KINDS; k++) {
        weights += kinds[k].weight;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t draw = (uint32_t)(sim_draw(&state) % weights);
        size_t kind = 0;

        while (draw >= kinds[kind].weight) {
            draw -= kinds[kind++].weight;
        }
        ret[i] = (struct op){.kind = (enum kind)kind,
                             .a = (uint32_t)(sim_draw(&state) >> 33),
                             .b = (uint32_t)(sim_draw(&state) >> 33),
                             .c = (uint32_t)(sim_draw(&state) >> 33),
                             .d = (uint32_t)(sim_draw(&state) >> 33)};
    }
}

static void report(const struct contract_engine *engine, struct op *ops, size_t count,
                   uint64_t seed)
{
    char why[PAIR_WHY_MAX];

    count = shorten(engine, ops, count);
    (void)run_sequence(engine, ops, count, why);
    (void)printf("# seed %" PRIu64 ": after %zu operations: %s\n", seed, count - 1, why);
    (void)printf("# again: differential %s --seed %" PRIu64 " --sequences 1; shortened:\n",
                 engine->name, seed);
    for (size_t i = 0; i < count; i++) {
        print_op(i, &ops[i]);
    }
    (void)fflush(stdout);
    fail_msg("seed %" PRIu64 ": %s", seed, why);
}

static uint64_t number_after(int argc, char **argv, const char *option, uint64_t otherwise)
{
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return strtoull(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

struct settings {
    const struct contract_engine *engine;
    uint64_t sequences;
    uint64_t seed;
    size_t count;
};

/* One test: what the world's helpers assert is reported as any failure is. */
static void test_the_engine_and_the_oracle_answer_alike(void **state)
{
    static struct op ops[OPERATIONS_MAX];
    const struct settings *set = *state;
    char why[PAIR_WHY_MAX];

    (void)printf("# %s against the oracle: %" PRIu64 " sequences of %zu operations, seed %" PRIu64
                 "\n",
                 set->engine->name, set->sequences, set->count, set->seed);
    for (uint64_t i = 0; i < set->sequences; i++) {
        size_t found;

        current_seed = set->seed + i;
        draw_sequence(current_seed, set->count, ops);
        found = run_sequence(set->engine, ops, set->count, why);
        if (why[0] != '\0') {
            (void)printf("# seed %" PRIu64 ": after %zu operations: %s; it is made shorter\n",
                         current_seed, found, why);
            (void)fflush(stdout);
            report(set->engine, ops, found + 1, current_seed);
        }
    }
    (void)printf("# %" PRIu64 " operations, %" PRIu64 " losses of power, %" PRIu64
                 " openings from a checkpoint, %" PRIu64 " checkpoints, %" PRIu64
                 " sequences with relocations\n",
                 operations_done, power_cuts, resumed, checkpoints, relocated);
}

int main(int argc, char **argv)
{
    struct settings set = {.engine = argc > 1 ? contract_engine_named(argv[1]) : NULL,
                           .sequences = number_after(argc, argv, "--sequences", 200),
                           .seed = number_after(argc, argv, "--seed", 1),
                           .count = (size_t)number_after(argc, argv, "--operations", 120)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_the_engine_and_the_oracle_answer_alike, &set),
    };

    /* A journal is opened some ten thousand times: its memory is kept for the next one. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 28);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 29);
    if (strcmp(argv[argc - 1], "--keep") == 0) {
        kept_memory_begin();
    }
    if (set.engine == NULL || set.count < 2 || set.count > OPERATIONS_MAX) {
        (void)fprintf(stderr, "usage: %s ENGINE [--sequences N] [--seed S] [--operations 2..%u]\n",
                      argv[0], OPERATIONS_MAX);
        return 2;
    }
    return cmocka_run_group_tests_name(set.engine->name, tests, NULL, NULL);
}
