/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helpers of contract tests. See world.h.
 */
#include "harness/world.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 8192u

struct daybook_capacity world_capacity(void)
{
    return (struct daybook_capacity){.events_max = 100,
                                     .retain_acknowledged_us = HOUR_US,
                                     .delivery_attempts_max = 3,
                                     .policy = DAYBOOK_POLICY_REFUSE};
}

struct contract_world *world_prepare(const struct contract_engine *engine,
                                     const struct daybook_capacity *capacity)
{
    struct contract_world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    world->engine = engine;
    world->capacity = *capacity;
    world->now_us = WORLD_START_US;
    world->disk = sim_disk_new(1);
    assert_non_null(world->disk);
    world->disk->realtime_us = WORLD_START_US;
    assert_code(DAYBOOK_OK, daybook_batch_new(BATCH_EVENTS, 1u << 20, DAYBOOK_EVENT_BYTES_DEFAULT,
                                              &world->batch, &world->err));
    return world;
}

struct contract_world *world_new(const struct contract_engine *engine,
                                 const struct daybook_capacity *capacity)
{
    struct contract_world *world = world_prepare(engine, capacity);

    if (engine->open(world, capacity, &world->err) != DAYBOOK_OK) {
        fail_msg("%s does not open: %s", engine->name, world->err.message);
    }
    return world;
}

static void end_world(struct contract_world *world)
{
    enum daybook_code code = daybook_journal_close(world->journal, &world->err);

    /* BACKEND: there was no room to mark the end, which costs the next opening a recovery. */
    if (code != DAYBOOK_OK && !(world->engine->durable && code == DAYBOOK_BACKEND)) {
        fail_msg("%s does not close: %s", world->engine->name, world->err.message);
    }
    if (world->shared && world->engine->clean_shared != NULL) {
        world->engine->clean_shared(world);
    }
    daybook_batch_free(world->batch);
    sim_disk_free(world->disk);
}

void world_free(struct contract_world *world)
{
    end_world(world);
    free(world);
}

void world_restart_empty(struct contract_world *world, const struct daybook_capacity *capacity)
{
    struct contract_world *other = world_new(world->engine, capacity);

    end_world(world);
    *world = *other;
    free(other);
}

void world_restart_shared(struct contract_world *world, const struct daybook_capacity *capacity)
{
    struct contract_world *other = world_prepare(world->engine, capacity);

    other->shared = true;
    if (other->engine->open_shared(other, capacity, &other->err) != DAYBOOK_OK) {
        fail_msg("%s does not open: %s", other->engine->name, other->err.message);
    }
    end_world(world);
    *world = *other;
    free(other);
}

void world_reopen(struct contract_world *world, enum contract_end end)
{
    if (world->engine->reopen(world, end, &world->capacity, &world->err) != DAYBOOK_OK) {
        fail_msg("%s does not open again: %s", world->engine->name, world->err.message);
    }
}

void pass(struct contract_world *world, int64_t us)
{
    world->now_us += us;
    world->disk->monotonic_us += us;
    world->disk->realtime_us += us;
    if (world->engine->tick != NULL) {
        world->engine->tick(world);
    }
}

void jump(struct contract_world *world, int64_t us)
{
    world->now_us += us;
}

struct daybook_bytes text(const char *s)
{
    return (struct daybook_bytes){s, strlen(s)};
}

/* ---- append ---------------------------------------------------------------------------------- */

struct daybook_event event_of(const char *id, const char *subject, const char *record)
{
    return (struct daybook_event){.request_id = text(id),
                                  .name_space = text("space"),
                                  .subject = text(subject),
                                  .observed_at_us = DAYBOOK_TIME_UNSET,
                                  .record = text(record)};
}

struct daybook_append_result append_event(struct contract_world *world,
                                          const struct daybook_event *event)
{
    struct daybook_append_result result = {.code = DAYBOOK_CODE_COUNT};
    enum daybook_code code = daybook_journal_append(world->journal, event, world->now_us,
                                                    DAYBOOK_NO_DEADLINE, &result, &world->err);

    assert_code(result.code, code);
    return result;
}

struct daybook_append_result append(struct contract_world *world, const char *id,
                                    const char *subject, const char *record)
{
    struct daybook_event event = event_of(id, subject, record);

    return append_event(world, &event);
}

void append_through_queue(struct contract_world *world, const struct daybook_event *events,
                          size_t count, struct daybook_append_result *results)
{
    const int patience_ms = 10000; /* far more than any commit takes */
    struct daybook_submission submission = {.events = events, .results = results, .count = count};
    struct daybook_submission *done = NULL;
    struct daybook_append_queue *queue = NULL;
    struct pollfd readable;

    assert_code(DAYBOOK_OK, daybook_append_queue_new(world->journal, &queue, &world->err));
    daybook_journal_submit(world->journal, queue, &submission, world->now_us);
    readable = (struct pollfd){.fd = daybook_append_queue_fd(queue), .events = POLLIN};
    while (done == NULL) {
        assert_int_equal(poll(&readable, 1, patience_ms), 1);
        (void)daybook_append_queue_drain(queue, world->now_us, &done, 1);
    }
    assert_ptr_equal(done, &submission);
    assert_int_equal(daybook_append_queue_drain(queue, world->now_us, &done, 1), 0);
    daybook_append_queue_free(queue);
}

uint64_t put(struct contract_world *world, const char *id, const char *subject)
{
    struct daybook_append_result result;
    char record[320];

    (void)snprintf(record, sizeof record, "{\"request_id\":\"%s\",\"tokens\":7}", id);
    result = append(world, id, subject, record);
    assert_code(DAYBOOK_OK, result.code);
    return result.position;
}

void put_many(struct contract_world *world, const char *prefix, unsigned count, const char *subject)
{
    for (unsigned i = 1; i <= count; i++) {
        char id[64];

        (void)snprintf(id, sizeof id, "%s%u", prefix, i);
        (void)put(world, id, subject != NULL ? subject : id);
    }
}

/* ---- claim and verdicts ------------------------------------------------------------------------ */

struct daybook_claim claim_of(const char *consumer, uint32_t events_max)
{
    return (struct daybook_claim){.consumer = consumer,
                                  .events_max = events_max,
                                  .key_run = 1,
                                  .lease_ms = (uint32_t)(LEASE_US / 1000)};
}

size_t claim_with(struct contract_world *world, const struct daybook_claim *claim)
{
    enum daybook_code code = daybook_journal_claim(world->journal, claim, world->now_us,
                                                   DAYBOOK_NO_DEADLINE, world->batch, &world->err);

    if (code != DAYBOOK_OK) {
        fail_msg("a claim answers %s: %s", daybook_code_name(code), world->err.message);
    }
    return world->batch->count;
}

size_t claim(struct contract_world *world, const char *consumer, uint32_t events_max)
{
    struct daybook_claim c = claim_of(consumer, events_max);

    return claim_with(world, &c);
}

struct daybook_delivery claim_one(struct contract_world *world, const char *consumer)
{
    assert_int_equal(claim(world, consumer, 1), 1);
    return world->batch->deliveries[0];
}

void enrol(struct contract_world *world, const char *consumer)
{
    assert_int_equal(claim(world, consumer, 0), 0);
}

const char *ids(const struct contract_world *world)
{
    static char buf[TEXT_MAX];
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < world->batch->count; i++) {
        struct daybook_bytes id = world->batch->deliveries[i].event.request_id;

        assert_true(used + id.len + 2 < sizeof buf);
        used += (size_t)snprintf(buf + used, sizeof buf - used, "%s%.*s", i > 0 ? " " : "",
                                 (int)id.len, id.data);
    }
    return buf;
}

struct daybook_hand_out hand_out_of(const struct daybook_delivery *delivery)
{
    return (struct daybook_hand_out){delivery->position, delivery->token};
}

enum daybook_code ack(struct contract_world *world, const char *consumer,
                      const struct daybook_delivery *delivery)
{
    struct daybook_hand_out hand_out = hand_out_of(delivery);
    enum daybook_code code = DAYBOOK_CODE_COUNT;

    assert_code(DAYBOOK_OK,
                daybook_journal_ack(world->journal, consumer, &hand_out, 1, world->now_us,
                                    DAYBOOK_NO_DEADLINE, &code, &world->err));
    return code;
}

enum daybook_code relinquish(struct contract_world *world, const char *consumer,
                             const struct daybook_delivery *delivery)
{
    struct daybook_hand_out hand_out = hand_out_of(delivery);
    enum daybook_code code = DAYBOOK_CODE_COUNT;

    assert_code(DAYBOOK_OK,
                daybook_journal_relinquish(world->journal, consumer, &hand_out, 1, world->now_us,
                                           DAYBOOK_NO_DEADLINE, &code, &world->err));
    return code;
}

enum daybook_code extend(struct contract_world *world, const char *consumer,
                         const struct daybook_delivery *delivery, uint32_t lease_ms)
{
    struct daybook_hand_out hand_out = hand_out_of(delivery);
    enum daybook_code code = DAYBOOK_CODE_COUNT;

    assert_code(DAYBOOK_OK,
                daybook_journal_extend(world->journal, consumer, &hand_out, 1, lease_ms,
                                       world->now_us, DAYBOOK_NO_DEADLINE, &code, &world->err));
    return code;
}

enum daybook_code quarantine(struct contract_world *world, const char *consumer,
                             const struct daybook_delivery *delivery)
{
    return daybook_journal_quarantine(world->journal, consumer, hand_out_of(delivery),
                                      DAYBOOK_REASON_REJECTED, text("it does not fit"),
                                      world->now_us, DAYBOOK_NO_DEADLINE, &world->err);
}

size_t deliver_all(struct contract_world *world, const char *consumer)
{
    struct daybook_hand_out set[BATCH_EVENTS];
    enum daybook_code codes[BATCH_EVENTS];
    size_t delivered = 0;

    while (claim(world, consumer, BATCH_EVENTS) > 0) {
        size_t count = world->batch->count;

        for (size_t i = 0; i < count; i++) {
            set[i] = hand_out_of(&world->batch->deliveries[i]);
        }
        assert_code(DAYBOOK_OK,
                    daybook_journal_ack(world->journal, consumer, set, count, world->now_us,
                                        DAYBOOK_NO_DEADLINE, codes, &world->err));
        for (size_t i = 0; i < count; i++) {
            assert_code(DAYBOOK_OK, codes[i]);
        }
        delivered += count;
    }
    return delivered;
}

void ack_next(struct contract_world *world, const char *consumer, const char *id)
{
    struct daybook_delivery delivery = claim_one(world, consumer);

    assert_string_equal(ids(world), id);
    assert_code(DAYBOOK_OK, ack(world, consumer, &delivery));
}

void quarantine_next(struct contract_world *world, const char *consumer, const char *id)
{
    struct daybook_delivery delivery = claim_one(world, consumer);

    assert_string_equal(ids(world), id);
    assert_code(DAYBOOK_OK, quarantine(world, consumer, &delivery));
}

/* ---- operators -------------------------------------------------------------------------------- */

static struct daybook_operator somebody(void)
{
    return (struct daybook_operator){text("ada"), text("looked at it")};
}

enum daybook_code release(struct contract_world *world, const char *consumer, const char *id)
{
    struct daybook_operator by = somebody();

    return daybook_journal_release(world->journal, consumer, text(id), &by, world->now_us,
                                   DAYBOOK_NO_DEADLINE, &world->err);
}

enum daybook_code discard(struct contract_world *world, const char *consumer, const char *id)
{
    struct daybook_operator by = somebody();

    return daybook_journal_discard(world->journal, consumer, text(id), &by, world->now_us,
                                   DAYBOOK_NO_DEADLINE, &world->err);
}

enum daybook_code retire(struct contract_world *world, const char *consumer,
                         enum daybook_force force)
{
    struct daybook_operator by = somebody();

    return daybook_journal_retire(world->journal, consumer, force, &by, world->now_us,
                                  DAYBOOK_NO_DEADLINE, &world->err);
}

enum daybook_code rewind_consumer(struct contract_world *world, const char *consumer)
{
    struct daybook_operator by = somebody();

    return daybook_journal_rewind(world->journal, consumer, &by, world->now_us, DAYBOOK_NO_DEADLINE,
                                  &world->err);
}

enum daybook_code start_consumer(struct contract_world *world, const char *consumer,
                                 struct daybook_start start)
{
    struct daybook_operator by = somebody();

    return daybook_journal_start(world->journal, consumer, start, &by, world->now_us,
                                 DAYBOOK_NO_DEADLINE, &world->err);
}

void need_operators(struct contract_world *world)
{
    /* Nobody is registered, so an engine that can answers NOT_FOUND. */
    if (rewind_consumer(world, "nobody-at-all") == DAYBOOK_BAD_ARGUMENT) {
        print_message("# skipped: the engine %s has no operators' operations yet\n",
                      world->engine->name);
        skip();
    }
}

bool has_lists(struct contract_world *world)
{
    static struct daybook_operation operation;
    size_t count = 0;

    return daybook_journal_operations(world->journal, 0, &operation, 1, &count, &world->err) !=
           DAYBOOK_BAD_ARGUMENT;
}

void need_lists(struct contract_world *world)
{
    if (!has_lists(world)) {
        print_message("# skipped: the engine %s lists no trail and no quarantine yet\n",
                      world->engine->name);
        skip();
    }
}

/* ---- look -------------------------------------------------------------------------------------- */

struct daybook_consumer_stats figures(struct contract_world *world, const char *consumer)
{
    struct daybook_consumer_stats stats;

    assert_code(DAYBOOK_OK, daybook_journal_consumer_stats(world->journal, consumer, world->now_us,
                                                           &stats, &world->err));
    return stats;
}

struct daybook_journal_stats journal_figures(struct contract_world *world)
{
    struct daybook_journal_stats stats;

    assert_code(DAYBOOK_OK,
                daybook_journal_stats(world->journal, world->now_us, &stats, &world->err));
    return stats;
}

uint64_t maintain(struct contract_world *world)
{
    uint64_t pruned = UINT64_MAX;

    assert_code(DAYBOOK_OK, daybook_journal_maintain(world->journal, world->now_us,
                                                     DAYBOOK_NO_DEADLINE, &pruned, &world->err));
    return pruned;
}

const char *retained(struct contract_world *world, enum daybook_where where)
{
    static char buf[TEXT_MAX];
    uint64_t last = 0;
    size_t used = 0;

    buf[0] = '\0';
    do {
        assert_code(DAYBOOK_OK, daybook_journal_read(world->journal, last, where, world->batch,
                                                     &last, NULL, &world->err));
        if (world->batch->count > 0) {
            const char *more = ids(world);

            assert_true(used + strlen(more) + 2 < sizeof buf);
            used +=
                (size_t)snprintf(buf + used, sizeof buf - used, "%s%s", used > 0 ? " " : "", more);
        }
    } while (world->batch->more || world->batch->count > 0);
    return buf;
}

static void cannot(const struct contract_world *world, const char *what)
{
    print_message("# skipped: no test can make %s in the engine %s yet\n", what,
                  world->engine->name);
    skip();
}

uint64_t put_newer(struct contract_world *world, const char *id, const char *subject)
{
    struct daybook_append_result result = {.code = DAYBOOK_CODE_COUNT};
    struct daybook_event event;
    char record[320];

    if (world->engine->append_newer == NULL) {
        cannot(world, "a newer row");
        return 0;
    }
    (void)snprintf(record, sizeof record, "{\"request_id\":\"%s\",\"tokens\":7}", id);
    event = event_of(id, subject, record);
    assert_code(DAYBOOK_OK, world->engine->append_newer(world, &event, &result));
    return result.position;
}

void spoil(struct contract_world *world, uint64_t position)
{
    if (world->engine->spoil == NULL) {
        cannot(world, "a malformed row");
        return;
    }
    world->engine->spoil(world, position);
}

void check_sums(struct contract_world *world)
{
    struct daybook_journal_stats s = journal_figures(world);
    char names[DAYBOOK_CONSUMERS_MAX][DAYBOOK_CONSUMER_NAME_MAX + 1];
    size_t count = 0;

    assert_int_equal(s.accepted, s.stored_events + s.pruned + s.reclaimed + s.dropped +
                                     s.discarded + s.damaged);
    assert_code(DAYBOOK_OK, daybook_journal_consumers(world->journal, names, DAYBOOK_CONSUMERS_MAX,
                                                      &count, &world->err));
    assert_int_equal(count, s.consumers);
    for (size_t i = 0; i < count; i++) {
        struct daybook_consumer_stats c = figures(world, names[i]);

        assert_true(c.registered);
        assert_true(c.pending + c.in_flight + c.quarantined <= s.stored_events);
        assert_true(c.drained == (c.pending == 0 && c.in_flight == 0));
        assert_true((c.oldest_pending_age_us >= 0) == (c.pending > 0));
        assert_true((c.oldest_unresolved_age_us >= 0) == !c.drained);
    }
}
