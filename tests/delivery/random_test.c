/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a worker over a journal, in moved time: events of which some are bad for one of two
 * destinations, each in its own way; outages, told or not; verdicts that the journal does not take; ends of
 * the process, in order or not; writes that outlast their leases, clocks that jump, operators. In the end every good event is in both destinations, every bad one is
 * quarantined as rejected and no other, and what each destination took of a key it took in order.
 *
 * The first letters of an id say what the first and the second destination do with it. Arguments:
 * test-random ENGINE; DAYBOOK_SEED and DAYBOOK_OPERATIONS (lives) as in every random test.
 */
#include "delivery/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 1000u
#define PLANNED_MAX 160u
#define LIVES_DEFAULT 40u
#define STEPS_MAX 6000u /* far more than any life needs */
#define ATTEMPTS_MAX 3u

struct life;

/* A destination. What it has outlives the worker that writes to it. */
struct place {
    struct life *life;
    size_t index;
    bool away;
    enum daybook_answer_kind away_as;
    uint32_t away_after; /* writes from now; UINT32_MAX: never */
    bool slow;           /* a write takes its time, and now and then more than it has */
    bool has[EVENTS_MAX];
};
struct place_sink {
    struct daybook_sink head;
    struct place *place;
};

struct life {
    struct bench *b;
    uint64_t seed;
    uint64_t random;
    size_t sink_count;
    struct place places[SINKS];
    struct daybook_sink *heads[SINKS];
    size_t planned; /* events of the life */
    size_t appended;
    char ids[EVENTS_MAX][32];
    char subjects[EVENTS_MAX][32];
    bool
        strict; /* nothing happens that may cost an attempt: hand-outs are limited to the attempts */
    bool discarded[EVENTS_MAX]; /* by an operator: nothing more is asked of it */
    bool quarantined[EVENTS_MAX];
    bool disordered; /* a destination took a row before one that stands before it in its key */
    bool passed;     /* a row behind a bad one landed: those must be condemned in this pass */
    bool condemned[EVENTS_MAX];
};

static uint32_t below(struct life *l, uint32_t bound)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return (uint32_t)(l->random >> 16) % bound;
}

/* ---- destinations -------------------------------------------------------------------------------- */

static size_t event_of_row(const struct daybook_row *row)
{
    return (size_t)strtoul(row->event.request_id.data + 3, NULL, 10);
}

static bool is_bad(const struct life *l, size_t event)
{
    for (size_t i = 0; i < l->sink_count; i++) {
        if (l->ids[event][i] != 'g') {
            return true;
        }
    }
    return false;
}

/* Takes a row: in order within its key. Behind one that was named in the same write it may stand. */
static void take(struct place *place, const struct daybook_row *row,
                 enum daybook_answer_kind answer)
{
    struct life *l = place->life;
    size_t event = event_of_row(row);

    for (size_t i = 0; i < event && !place->has[event];
         i++) { /* a repetition stands where it did */
        char kind = l->ids[i][place->index];
        if (strcmp(l->subjects[i], l->subjects[event]) != 0 || l->discarded[i]) {
            continue;
        }
        if (kind == 'g' && !is_bad(l, i)) {
            l->disordered |= !place->has[i];
        } else if (kind != 'g' && answer == DAYBOOK_ANSWER_ACCEPTED && !l->quarantined[i]) {
            l->condemned[i] = true;
            l->passed = true;
        }
    }
    place->has[event] = true;
}

static void name_bad(const struct place *place, const struct daybook_row *rows, size_t count,
                     struct daybook_answer *answer)
{
    for (size_t i = 0; i < count && answer->rejected_count < DAYBOOK_REJECTED_MAX; i++) {
        if (rows[i].event.request_id.data[place->index] != 'g') {
            answer->rejected[answer->rejected_count++].index = i;
        }
    }
}

/* The first bad row decides. */
static void judge(const struct place *place, const struct daybook_row *rows, size_t count,
                  struct daybook_answer *answer)
{
    char kind = 'g';

    for (size_t i = 0; i < count && kind == 'g'; i++) {
        kind = rows[i].event.request_id.data[place->index];
    }
    answer->kind = DAYBOOK_ANSWER_ACCEPTED;
    switch (kind) {
    case 'r':
        answer->kind = DAYBOOK_ANSWER_REFUSED;
        break;
    case '5':
        answer->kind = DAYBOOK_ANSWER_UNAVAILABLE;
        break;
    case 't':
        answer->kind = DAYBOOK_ANSWER_REFUSED;
        answer->refusal = DAYBOOK_REFUSAL_TOO_LARGE;
        break;
    case 'c':
        answer->kind = count > 1 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_REJECTED;
        answer->refusal = DAYBOOK_REFUSAL_OF_A_ROW;
        answer->rejected_count = 1;
        break;
    case 'n':
    case 'o':
        answer->kind = DAYBOOK_ANSWER_REJECTED;
        answer->others = kind == 'o' ? DAYBOOK_OTHERS_ACCEPTED : DAYBOOK_OTHERS_NOT_WRITTEN;
        name_bad(place, rows, count, answer);
        break;
    default:
        break;
    }
}

static void place_write(struct daybook_sink *head, const struct daybook_row *rows, size_t count,
                        int64_t deadline_us, struct daybook_answer *answer)
{
    struct place *place = ((struct place_sink *)head)->place;

    (void)deadline_us;
    if (place->slow) {
        struct life *l = place->life;
        pass(l->b->world, (int64_t)below(l, below(l, 20) == 0 ? 60000 : 12000) * 1000);
    }
    if (place->away_after != UINT32_MAX && place->away_after-- == 0) {
        place->away = true;
        place->away_after = UINT32_MAX;
    }
    if (place->away) {
        answer->kind = place->away_as;
        return;
    }
    judge(place, rows, count, answer);
    for (size_t i = 0; i < count; i++) {
        bool good = rows[i].event.request_id.data[place->index] == 'g';
        if (answer->kind == DAYBOOK_ANSWER_ACCEPTED ||
            (answer->kind == DAYBOOK_ANSWER_REJECTED && good &&
             answer->others == DAYBOOK_OTHERS_ACCEPTED)) {
            take(place, &rows[i], answer->kind);
        }
    }
}

static void place_interrupt(struct daybook_sink *head)
{
    (void)head;
}

static void place_close(struct daybook_sink *head)
{
    free(head);
}

static const struct daybook_sink_ops place_ops = {
    .kind = "place", .write = place_write, .interrupt = place_interrupt, .close = place_close};

/* ---- lives --------------------------------------------------------------------------------------- */

static void start_worker(struct life *l)
{
    struct daybook_worker_options options = l->b->options;

    for (size_t i = 0; i < l->sink_count; i++) {
        struct place_sink *sink = calloc(1, sizeof *sink);
        assert_non_null(sink);
        sink->head.ops = &place_ops;
        (void)snprintf(sink->head.name, sizeof sink->head.name, "place%zu", i);
        sink->place = &l->places[i];
        l->heads[i] = &sink->head;
    }
    options.sinks = l->heads;
    options.sink_count = l->sink_count;
    assert_code(DAYBOOK_OK,
                daybook_worker_new(&l->b->troubled.head, &options, &l->b->worker, NULL));
}

static void end_worker(struct life *l)
{
    if (below(l, 2) == 0) {
        dbk_worker_stop(l->b->worker, mono_us(l->b) + SECOND_US);
        assert_true(dbk_worker_finish(l->b->worker));
    }
    daybook_worker_free(l->b->worker);
    l->b->worker = NULL;
    if (below(l, 3) == 0) {
        world_reopen(l->b->world, below(l, 2) == 0 ? CONTRACT_KILLED : CONTRACT_CLOSED);
        troubled_init(&l->b->troubled, l->b->world->journal);
    }
    start_worker(l);
}

static void append_one(struct life *l, const char *kinds)
{
    size_t i = l->appended++;

    assert_true(i < EVENTS_MAX);
    (void)snprintf(l->ids[i], sizeof l->ids[i], "%.2s-%zu", kinds, i);
    (void)snprintf(l->subjects[i], sizeof l->subjects[i], "k%u",
                   below(l, (uint32_t)l->planned / 2 + 1));
    put(l->b->world, l->ids[i], l->subjects[i]);
}

/* Once all that was planned is there, good ones follow: a destination that takes nothing is away. */
static void append_some(struct life *l)
{
    static const char bad[] = "rrrnoc5t";
    uint32_t count = 1 + below(l, 20);

    if (l->appended >= l->planned) {
        append_one(l, "gg");
        return;
    }
    while (count-- > 0 && l->appended < l->planned) {
        char kinds[SINKS + 1] = "gg";
        if (l->appended > 0 && below(l, 6) == 0) {
            kinds[below(l, (uint32_t)l->sink_count)] = bad[below(l, sizeof bad - 1)];
        }
        append_one(l, kinds);
    }
}

/* An operator acts. */
static void operate(struct life *l)
{
    size_t event = below(l, (uint32_t)l->appended + 1);
    bool known = event < l->appended;

    switch (below(l, 4)) {
    case 0:
        l->discarded[event] |= known && discard(l->b->world, CONSUMER, l->ids[event]) == DAYBOOK_OK;
        break;
    case 1:
        assert_code(DAYBOOK_OK, rewind_consumer(l->b->world, CONSUMER));
        break;
    case 2:
        daybook_worker_lift_brakes(l->b->worker);
        break;
    default:
        for (size_t i = 0; i < l->appended; i++) {
            if (l->quarantined[i] && !l->discarded[i] && below(l, 3) == 0) {
                (void)release(l->b->world, CONSUMER, l->ids[i]);
            }
        }
        break;
    }
}

/* Something happens to the world. */
static void trouble(struct life *l)
{
    struct place *place = &l->places[below(l, (uint32_t)l->sink_count)];
    enum troubled_op ops[] = {TROUBLED_CLAIM, TROUBLED_ACK, TROUBLED_EXTEND, TROUBLED_MAINTAIN,
                              TROUBLED_RELINQUISH};
    uint32_t op_count = (uint32_t)(sizeof ops / sizeof ops[0]) - (l->strict ? 1 : 0);

    switch (below(l, 9)) {
    case 0:
    case 1:
        place->away_as = below(l, 2) == 0 ? DAYBOOK_ANSWER_REFUSED : DAYBOOK_ANSWER_UNAVAILABLE;
        place->away_after = below(l, 12);
        break;
    case 2:
        if (!l->strict) {
            end_worker(l);
        }
        break;
    case 3:
        l->b->troubled.failures[ops[below(l, op_count)]] = 1 + below(l, 2);
        break;
    case 4:
        jump(l->b->world, (int64_t)below(l, 7200) * SECOND_US - HOUR_US);
        break;
    case 5:
        place->slow = below(l, 3) == 0;
        break;
    case 6:
        operate(l);
        break;
    default:
        place->away = false;
        place->away_after = UINT32_MAX;
        break;
    }
}

static void mend(struct life *l)
{
    for (size_t i = 0; i < l->sink_count; i++) {
        l->places[i].away = false;
        l->places[i].away_after = UINT32_MAX;
        l->places[i].slow = false;
    }
}

static void learn_quarantined(struct life *l)
{
    static struct daybook_quarantine_entry entries[BATCH_EVENTS];
    uint64_t last = 0;

    assert_code(DAYBOOK_OK,
                daybook_journal_quarantine_list(l->b->world->journal, CONSUMER, 0,
                                                (enum daybook_quarantine_reason)0,
                                                l->b->world->batch, entries, &last, NULL));
    for (size_t i = 0; i < l->b->world->batch->count; i++) {
        const struct daybook_delivery *delivery = &l->b->world->batch->deliveries[i];
        size_t event = (size_t)strtoul(delivery->event.request_id.data + 3, NULL, 10);
        assert_int_equal(entries[i].reason, DAYBOOK_REASON_REJECTED);
        l->quarantined[event] = true;
    }
}

/* W14, as far as it can be seen from outside. */
static void check_order(struct life *l)
{
    if (l->passed) {
        l->passed = false;
        learn_quarantined(l);
        for (size_t i = 0; i < l->appended; i++) {
            l->disordered |= l->condemned[i] && !l->quarantined[i];
        }
    }
    if (l->disordered) {
        fail_msg("seed %llu: a key arrived out of order", (unsigned long long)l->seed);
    }
}

static void check_end(struct life *l)
{
    memset(l->quarantined, 0, sizeof l->quarantined);
    learn_quarantined(l);
    for (size_t i = 0; i < l->appended; i++) {
        bool bad = is_bad(l, i);
        if (l->discarded[i]) {
            continue;
        }
        if (l->quarantined[i] != bad) {
            fail_msg("seed %llu: %s is %s quarantined", (unsigned long long)l->seed, l->ids[i],
                     bad ? "not" : "wrongly");
        }
        for (size_t k = 0; k < l->sink_count; k++) {
            if (!bad && !l->places[k].has[i]) {
                fail_msg("seed %llu: place %zu lacks %s", (unsigned long long)l->seed, k,
                         l->ids[i]);
            }
        }
    }
}

static void live_on(struct life *l)
{
    struct bench *b = l->b;

    for (unsigned step = 0; !backlog(b).drained || l->appended < l->planned; step++) {
        if (step >= STEPS_MAX) {
            fail_msg("seed %llu: no end; %zu of %zu events, %llu pending, %llu in flight",
                     (unsigned long long)l->seed, l->appended, l->planned,
                     (unsigned long long)backlog(b).pending,
                     (unsigned long long)backlog(b).in_flight);
        }
        if (below(l, 8) == 0) {
            append_some(l);
        }
        /* Trouble ends when half of the events are there; some come after it, so that there is traffic. */
        if (l->appended < l->planned / 2 && below(l, 5) == 0) {
            trouble(l);
        } else if (l->appended >= l->planned / 2) {
            mend(l);
        }
        struct dbk_turn turn = dbk_worker_turn(b->worker);
        check_order(l);
        int64_t wait_us = turn.until_us - mono_us(b);
        if (turn.next != DBK_NEXT_AGAIN && wait_us > 0) {
            pass(b->world, wait_us);
        }
    }
}

static void live_once(struct bench *b, uint64_t seed)
{
    struct life *l = calloc(1, sizeof *l);

    assert_non_null(l);
    l->b = b;
    l->seed = seed;
    l->random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1u;
    (void)below(l, 2);
    l->sink_count = 1 + below(l, SINKS);
    l->planned = 20 + below(l, PLANNED_MAX - 20);
    for (size_t i = 0; i < SINKS; i++) {
        l->places[i].life = l;
        l->places[i].index = i;
        l->places[i].away_after = UINT32_MAX;
    }
    bench_enlarge(b, 1000);
    b->options.claim_batch = 1 + below(l, 64);
    b->options.key_run = 1 + below(l, 12);
    l->strict = below(l, 2) == 0;
    /* C6: ends of the process condemn nobody. */
    b->options.hand_outs_max = l->strict ? ATTEMPTS_MAX : 64;
    b->options.reject_brake = below(l, 2) == 0 ? 5 : 100;
    start_worker(l);
    enrol(b->world, CONSUMER);
    live_on(l);
    check_end(l);
    daybook_worker_free(b->worker);
    b->worker = NULL;
    free(l);
}

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static void test_W1_W3_W7_W14_W15_random_lives(void **state)
{
    struct bench *b = *state;
    uint64_t seed = number_of("DAYBOOK_SEED", 1);
    uint64_t lives = number_of("DAYBOOK_OPERATIONS", LIVES_DEFAULT);

    print_message("# seeds %llu to %llu\n", (unsigned long long)seed,
                  (unsigned long long)(seed + lives - 1));
    for (uint64_t i = 0; i < lives; i++) {
        live_once(b, seed + i);
    }
}

int main(int argc, char **argv)
{
    bench_engine(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_W1_W3_W7_W14_W15_random_lives, bench_setup,
                                        bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
