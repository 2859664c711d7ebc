/* SPDX-License-Identifier: Apache-2.0 */
/* Two journals that are told the same, see pair.h. */
#include "harness/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engines/memory/memory.h"
#include "journal/engine.h"

const char *const pair_consumers[PAIR_CONSUMERS] = {"audit", "billing", "copy"};

/* ---- comparing ---------------------------------------------------------------------------------------- */

bool pair_equal(struct pair *p, const char *what, int64_t oracle, int64_t subject)
{
    if (oracle != subject && p->why[0] == '\0') {
        (void)snprintf(p->why, sizeof p->why, "%s: the oracle says %" PRId64 ", %s says %" PRId64,
                       what, oracle, p->subject->engine->name, subject);
    }
    return oracle == subject;
}

bool pair_equal_codes(struct pair *p, const char *what, enum daybook_code oracle,
                      enum daybook_code subject)
{
    if (oracle != subject && p->why[0] == '\0') {
        (void)snprintf(p->why, sizeof p->why, "%s: the oracle says %s, %s says %s (%s)", what,
                       daybook_code_name(oracle), p->subject->engine->name,
                       daybook_code_name(subject), p->subject->err.message);
    }
    return oracle == subject;
}

static bool pair_equal_bytes(struct pair *p, const char *what, struct daybook_bytes oracle,
                             struct daybook_bytes subject)
{
    if (oracle.len == subject.len &&
        (oracle.len == 0 || memcmp(oracle.data, subject.data, oracle.len) == 0)) {
        return true;
    }
    if (p->why[0] == '\0') {
        (void)snprintf(p->why, sizeof p->why, "%s: the oracle says %.*s, %s says %.*s", what,
                       (int)oracle.len, oracle.data, p->subject->engine->name, (int)subject.len,
                       subject.data);
    }
    return false;
}

static bool pair_equal_deliveries(struct pair *p, const char *what,
                                  const struct daybook_delivery *o,
                                  const struct daybook_delivery *s)
{
    return pair_equal_bytes(p, what, o->event.request_id, s->event.request_id) &&
           pair_equal_bytes(p, "namespace", o->event.name_space, s->event.name_space) &&
           pair_equal_bytes(p, "subject", o->event.subject, s->event.subject) &&
           pair_equal_bytes(p, "record", o->event.record, s->event.record) &&
           pair_equal(p, "position", (int64_t)o->position, (int64_t)s->position) &&
           pair_equal(p, "attempt", o->attempt, s->attempt) &&
           pair_equal(p, "redelivery", o->redelivery, s->redelivery) &&
           pair_equal(p, "row_version", o->row_version, s->row_version) &&
           pair_equal(p, "lease_expires_at", o->lease_expires_at_us, s->lease_expires_at_us) &&
           pair_equal(p, "accepted_at", o->accepted_at_us, s->accepted_at_us) &&
           pair_equal(p, "observed_at", o->event.observed_at_us, s->event.observed_at_us);
}

bool pair_equal_batches(struct pair *p, const char *what)
{
    const struct daybook_batch *o = p->oracle->batch;
    const struct daybook_batch *s = p->subject->batch;

    for (size_t i = 0; i < o->count && i < s->count; i++) {
        if (!pair_equal_deliveries(p, what, &o->deliveries[i], &s->deliveries[i])) {
            return false;
        }
    }
    return pair_equal(p, what, (int64_t)o->count, (int64_t)s->count);
}

static void compare_journal(struct pair *p)
{
    struct daybook_journal_stats o = {.mode = DAYBOOK_MODE_TELEMETRY_GRADE};
    struct daybook_journal_stats s = o;

    if (!pair_equal_codes(
            p, "stats",
            daybook_journal_stats(p->oracle->journal, p->oracle->now_us, &o, &p->oracle->err),
            daybook_journal_stats(p->subject->journal, p->subject->now_us, &s, &p->subject->err))) {
        return;
    }
    (void)pair_equal(p, "stored_events", (int64_t)o.stored_events, (int64_t)s.stored_events);
    (void)pair_equal(p, "stored_bytes", (int64_t)o.stored_bytes, (int64_t)s.stored_bytes);
    (void)pair_equal(p, "accepted", (int64_t)o.accepted, (int64_t)s.accepted);
    (void)pair_equal(p, "pruned", (int64_t)o.pruned, (int64_t)s.pruned);
    (void)pair_equal(p, "reclaimed", (int64_t)o.reclaimed, (int64_t)s.reclaimed);
    (void)pair_equal(p, "dropped", (int64_t)o.dropped, (int64_t)s.dropped);
    (void)pair_equal(p, "discarded", (int64_t)o.discarded, (int64_t)s.discarded);
    (void)pair_equal(p, "damaged", (int64_t)o.damaged, (int64_t)s.damaged);
    (void)pair_equal(p, "dedupe_window", o.dedupe_window_us, s.dedupe_window_us);
    (void)pair_equal(p, "oldest_position", (int64_t)o.oldest_position, (int64_t)s.oldest_position);
    (void)pair_equal(p, "newest_position", (int64_t)o.newest_position, (int64_t)s.newest_position);
    (void)pair_equal(p, "consumers", o.consumers, s.consumers);
    (void)pair_equal(p, "state", o.state, s.state);
    (void)pair_equal(p, "max_events", (int64_t)o.events_max, (int64_t)s.events_max);
    /* How much of what is damaged was found already is each engine's own. */
}

static void compare_consumer(struct pair *p, const char *name)
{
    struct daybook_consumer_stats o = {.pending = 0};
    struct daybook_consumer_stats s = o;

    if (!pair_equal_codes(p, "consumer_stats",
                          daybook_journal_consumer_stats(p->oracle->journal, name,
                                                         p->oracle->now_us, &o, &p->oracle->err),
                          daybook_journal_consumer_stats(p->subject->journal, name,
                                                         p->subject->now_us, &s,
                                                         &p->subject->err))) {
        return;
    }
    (void)pair_equal(p, "registered", o.registered, s.registered);
    (void)pair_equal(p, "pending", (int64_t)o.pending, (int64_t)s.pending);
    (void)pair_equal(p, "in_flight", (int64_t)o.in_flight, (int64_t)s.in_flight);
    (void)pair_equal(p, "quarantined", (int64_t)o.quarantined, (int64_t)s.quarantined);
    (void)pair_equal(p, "held_events", (int64_t)o.held_events, (int64_t)s.held_events);
    (void)pair_equal(p, "held_bytes", (int64_t)o.held_bytes, (int64_t)s.held_bytes);
    (void)pair_equal(p, "drained", o.drained, s.drained);
    (void)pair_equal(p, "oldest_pending_age", o.oldest_pending_age_us, s.oldest_pending_age_us);
    (void)pair_equal(p, "oldest_unresolved_age", o.oldest_unresolved_age_us,
                     s.oldest_unresolved_age_us);
    (void)pair_equal(p, "last_claim_at", o.last_claim_at_us, s.last_claim_at_us);
    (void)pair_equal(p, "start", (int64_t)o.start, (int64_t)s.start);
    (void)pair_equal(p, "start_at", o.start_at_us, s.start_at_us);
    (void)pair_equal(p, "newer_version", (int64_t)o.newer_version, (int64_t)s.newer_version);
    for (unsigned i = 0; i < DAYBOOK_QUARANTINE_REASONS; i++) {
        (void)pair_equal(p, "quarantines", (int64_t)o.quarantined_total[i],
                         (int64_t)s.quarantined_total[i]);
    }
}

static void compare_read(struct pair *p, const char *what, enum daybook_where where)
{
    uint64_t last_oracle = 0;
    uint64_t last_subject = 0;
    uint64_t damaged_oracle = 0;
    uint64_t damaged_subject = 0;

    (void)pair_equal_codes(p, what,
                           daybook_journal_read(p->oracle->journal, 0, where, p->oracle->batch,
                                                &last_oracle, &damaged_oracle, &p->oracle->err),
                           daybook_journal_read(p->subject->journal, 0, where, p->subject->batch,
                                                &last_subject, &damaged_subject, &p->subject->err));
    (void)pair_equal_batches(p, what);
    if (!pair_equal(p, "damaged events read", (int64_t)damaged_oracle, (int64_t)damaged_subject)) {
        (void)strncat(p->why, what, sizeof p->why - strlen(p->why) - 1);
    }
}

void pair_compare_pages(struct pair *p, uint32_t events_max)
{
    struct daybook_batch *pages[2] = {NULL, NULL};
    struct daybook_batch *const whole[2] = {p->oracle->batch, p->subject->batch};

    assert_code(DAYBOOK_OK, daybook_batch_new(events_max, 1, 512, &pages[0], &p->oracle->err));
    assert_code(DAYBOOK_OK, daybook_batch_new(events_max, 1, 512, &pages[1], &p->subject->err));
    compare_read(p, "retained", DAYBOOK_WHERE_ALL);
    for (int side = 0; side < 2; side++) {
        struct contract_world *world = side == 0 ? p->oracle : p->subject;
        uint64_t last = 0;
        size_t at = 0;

        do {
            assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, last, DAYBOOK_WHERE_ALL,
                                                         pages[side], &last, NULL, &world->err));
            for (size_t i = 0; i < pages[side]->count && at < whole[side]->count; i++) {
                (void)pair_equal_deliveries(p, "a page", &whole[side]->deliveries[at++],
                                            &pages[side]->deliveries[i]);
            }
        } while (pages[side]->count > 0 || pages[side]->more);
        (void)pair_equal(p, "events in pages", (int64_t)whole[side]->count, (int64_t)at);
        daybook_batch_free(pages[side]);
    }
}

static void compare_quarantine(struct pair *p, const char *name)
{
    static struct daybook_quarantine_entry o[BATCH_EVENTS];
    static struct daybook_quarantine_entry s[BATCH_EVENTS];
    const enum daybook_quarantine_reason any = (enum daybook_quarantine_reason)0;
    uint64_t last = 0;
    enum daybook_code code = daybook_journal_quarantine_list(
        p->oracle->journal, name, 0, any, p->oracle->batch, o, &last, &p->oracle->err);

    if (!pair_equal_codes(p, "quarantine_list", code,
                          daybook_journal_quarantine_list(p->subject->journal, name, 0, any,
                                                          p->subject->batch, s, &last,
                                                          &p->subject->err)) ||
        code != DAYBOOK_OK || !pair_equal_batches(p, "quarantined")) {
        return;
    }
    for (size_t i = 0; i < p->oracle->batch->count; i++) {
        (void)pair_equal(p, "reason", o[i].reason, s[i].reason);
        (void)pair_equal(p, "attempts of a quarantine", o[i].attempts, s[i].attempts);
        (void)pair_equal(p, "quarantined_at", o[i].quarantined_at_us, s[i].quarantined_at_us);
        (void)pair_equal_bytes(p, "words", (struct daybook_bytes){o[i].words, o[i].words_len},
                               (struct daybook_bytes){s[i].words, s[i].words_len});
    }
}

/* W5: what a worker would take for its control after a restart. */
static void compare_control(struct pair *p, const char *name)
{
    (void)pair_equal_codes(
        p, "newest acknowledged",
        dbk_journal_newest_acknowledged(p->oracle->journal, name, p->oracle->now_us,
                                        p->oracle->batch, &p->oracle->err),
        dbk_journal_newest_acknowledged(p->subject->journal, name, p->subject->now_us,
                                        p->subject->batch, &p->subject->err));
    (void)pair_equal_batches(p, "newest acknowledged");
}

static void compare_standings(struct pair *p, const char *id)
{
    static struct daybook_event_standing o[PAIR_CONSUMERS + 1];
    static struct daybook_event_standing s[PAIR_CONSUMERS + 1];
    size_t count_o = 0;
    size_t count_s = 0;
    enum daybook_code code =
        daybook_journal_find(p->oracle->journal, text(id), p->oracle->now_us, p->oracle->batch, o,
                             PAIR_CONSUMERS + 1, &count_o, &p->oracle->err);

    if (!pair_equal_codes(p, "find", code,
                          daybook_journal_find(p->subject->journal, text(id), p->subject->now_us,
                                               p->subject->batch, s, PAIR_CONSUMERS + 1, &count_s,
                                               &p->subject->err)) ||
        code != DAYBOOK_OK || !pair_equal_batches(p, "found") ||
        !pair_equal(p, "standings", (int64_t)count_o, (int64_t)count_s)) {
        return;
    }
    for (size_t i = 0; i < count_o; i++) {
        (void)pair_equal_bytes(p, "consumer of a standing", text(o[i].consumer),
                               text(s[i].consumer));
        (void)pair_equal(p, "standing", o[i].standing, s[i].standing);
        (void)pair_equal(p, "attempt of a standing", o[i].attempt, s[i].attempt);
        (void)pair_equal(p, "hand-outs of a standing", o[i].hand_outs, s[i].hand_outs);
    }
}

static void compare_found(struct pair *p)
{
    static char found[BATCH_EVENTS][DAYBOOK_NAME_BYTES_MAX + 1];
    uint64_t last = 0;
    size_t count = 0;

    assert_code(DAYBOOK_OK, daybook_journal_read(p->oracle->journal, 0, DAYBOOK_WHERE_ALL,
                                                 p->oracle->batch, &last, NULL, &p->oracle->err));
    for (; count < p->oracle->batch->count; count++) {
        struct daybook_bytes id = p->oracle->batch->deliveries[count].event.request_id;

        (void)snprintf(found[count], sizeof found[count], "%.*s", (int)id.len, id.data);
    }
    for (size_t i = 0; i < count; i++) {
        compare_standings(p, found[i]);
    }
    compare_standings(p, "never-sent");
}

static void compare_trail(struct pair *p)
{
    static struct daybook_operation o[64];
    static struct daybook_operation s[64];
    size_t count_o = 0;
    size_t count_s = 0;

    (void)pair_equal_codes(
        p, "operations",
        daybook_journal_operations(p->oracle->journal, 0, o, 64, &count_o, &p->oracle->err),
        daybook_journal_operations(p->subject->journal, 0, s, 64, &count_s, &p->subject->err));
    (void)pair_equal(p, "operations in the trail", (int64_t)count_o, (int64_t)count_s);
    for (size_t i = 0; i < count_o && i < count_s; i++) {
        (void)pair_equal(p, "kind of operation", o[i].kind, s[i].kind);
        (void)pair_equal(p, "time of operation", o[i].at_us, s[i].at_us);
        (void)pair_equal(p, "position of operation", (int64_t)o[i].position,
                         (int64_t)s[i].position);
        (void)pair_equal_bytes(p, "consumer of operation", text(o[i].consumer),
                               text(s[i].consumer));
        (void)pair_equal_bytes(p, "who", text(o[i].who), text(s[i].who));
        (void)pair_equal_bytes(p, "why", text(o[i].why), text(s[i].why));
    }
}

void pair_compare(struct pair *p)
{
    char names_o[PAIR_CONSUMERS + 1][DAYBOOK_CONSUMER_NAME_MAX + 1];
    char names_s[PAIR_CONSUMERS + 1][DAYBOOK_CONSUMER_NAME_MAX + 1];
    size_t count_o = 0;
    size_t count_s = 0;

    compare_journal(p);
    compare_read(p, "retained", DAYBOOK_WHERE_ALL);
    compare_read(p, "pending events", DAYBOOK_WHERE_PENDING);
    compare_read(p, "quarantined events", DAYBOOK_WHERE_QUARANTINED);
    (void)pair_equal_codes(p, "consumers",
                           daybook_journal_consumers(p->oracle->journal, names_o,
                                                     PAIR_CONSUMERS + 1, &count_o, &p->oracle->err),
                           daybook_journal_consumers(p->subject->journal, names_s,
                                                     PAIR_CONSUMERS + 1, &count_s,
                                                     &p->subject->err));
    if (pair_equal(p, "registered consumers", (int64_t)count_o, (int64_t)count_s)) {
        for (size_t i = 0; i < count_o; i++) {
            (void)pair_equal_bytes(p, "consumer", text(names_o[i]), text(names_s[i]));
        }
    }
    for (size_t i = 0; i < PAIR_CONSUMERS; i++) {
        compare_consumer(p, pair_consumers[i]);
        compare_control(p, pair_consumers[i]);
        if (p->lists) {
            compare_quarantine(p, pair_consumers[i]);
        }
    }
    compare_found(p);
    if (p->lists) {
        compare_trail(p);
    }
}

void pair_remember(struct pair *p, unsigned consumer)
{
    for (size_t i = 0; i < p->oracle->batch->count && p->handed_count < PAIR_HAND_OUTS_MAX; i++) {
        const struct handed *before = p->handed_count > 0 ? &p->handed[p->handed_count - 1] : NULL;
        struct handed h = {.consumer = consumer,
                           .position = p->oracle->batch->deliveries[i].position,
                           .token_oracle = p->oracle->batch->deliveries[i].token,
                           .token_subject = p->subject->batch->deliveries[i].token};

        if (before != NULL && h.token_subject <= before->token_subject && p->why[0] == '\0') {
            (void)snprintf(p->why, sizeof p->why, "token %" PRIu64 " after %" PRIu64,
                           h.token_subject, before->token_subject);
        }
        p->handed[p->handed_count++] = h;
    }
}

void pair_compare_retained(struct pair *p)
{
    compare_journal(p);
    compare_read(p, "retained", DAYBOOK_WHERE_ALL);
    if (p->lists) {
        compare_trail(p);
    }
}

/* ---- loss of power ------------------------------------------------------------------------------------------ */

uint64_t pair_units(const struct pair *p)
{
    return p->subject->engine->units(p->subject);
}

void pair_forget_marks(struct pair *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_code(DAYBOOK_OK, daybook_journal_close(p->marks[i].oracle, NULL));
    }
    p->mark_count -= count;
    memmove(p->marks, p->marks + count, p->mark_count * sizeof p->marks[0]);
}

void pair_mark(struct pair *p)
{
    if (!p->marking || p->subject->journal == NULL ||
        (p->mark_count > 0 && p->marks[p->mark_count - 1].units == pair_units(p))) {
        return;
    }
    assert_true(p->mark_count < PAIR_MARKS_MAX);
    p->marks[p->mark_count].units = pair_units(p);
    assert_code(DAYBOOK_OK,
                dbk_memory_copy(p->oracle->journal, &p->marks[p->mark_count].oracle, NULL));
    p->mark_count++;
}

void pair_promise(struct pair *p)
{
    if (p->marking) {
        pair_mark(p);
        p->promised = pair_units(p);
        pair_forget_marks(p, p->mark_count - 1);
    }
}

bool pair_is_left(struct pair *p, struct daybook_journal *candidate)
{
    struct daybook_journal *oracle = p->oracle->journal;
    bool left;

    assert_true(p->why[0] == '\0');
    assert_code(DAYBOOK_OK, dbk_memory_copy(candidate, &p->oracle->journal, NULL));
    pair_compare(p);
    left = p->why[0] == '\0';
    p->why[0] = '\0';
    assert_code(DAYBOOK_OK, daybook_journal_close(p->oracle->journal, NULL));
    p->oracle->journal = oracle;
    return left;
}
