/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the crash programs, see world.h. One thread. */
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engines/log/log.h"

#define LEASE_MS 30000u
#define KEYS 5u
#define HOUSEKEEP_ROUNDS_MAX 64
#define HOUR_US INT64_C(3600000000)

/* ---- events -------------------------------------------------------------------------------------- */

/* Storage of an event that is made from its number alone, so that it can be made again to compare. */
struct made {
    char id[16];
    char subject[16];
    char record[WORLD_RECORD_MAX + 1];
    struct daybook_event event;
};

static struct daybook_bytes text_bytes(const char *text)
{
    return (struct daybook_bytes){text, strlen(text)};
}

static void make_event(struct made *m, uint32_t number, uint32_t record_bytes)
{
    int head = snprintf(m->record, sizeof m->record, "{\"n\":%" PRIu32 ",\"pad\":\"", number);
    size_t at = (size_t)head;
    uint64_t state = number;
    while (at + 2 < record_bytes) {
        m->record[at++] = (char)('a' + sim_draw(&state) % 26);
    }
    memcpy(m->record + at, "\"}", 3);
    snprintf(m->id, sizeof m->id, "r-%06" PRIu32, number);
    snprintf(m->subject, sizeof m->subject, "s%" PRIu32, number % KEYS);
    m->event = (struct daybook_event){
        .request_id = text_bytes(m->id),
        .name_space = text_bytes("shop"),
        .subject = text_bytes(m->subject),
        .observed_at_us = INT64_C(1767225600000000) + (int64_t)number * 1000001,
        .record = text_bytes(m->record),
    };
}

static bool bytes_equal(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool events_equal(const struct daybook_event *a, const struct daybook_event *b)
{
    return bytes_equal(a->request_id, b->request_id) && bytes_equal(a->name_space, b->name_space) &&
           bytes_equal(a->subject, b->subject) && a->observed_at_us == b->observed_at_us &&
           bytes_equal(a->record, b->record);
}

/* The number of an event that came out of the journal, if it is one that was given, as it was given. */
static bool recognise(struct world *w, const struct daybook_event *event, uint32_t *ret_number)
{
    char id[16] = "";
    if (event->request_id.len == 8) {
        memcpy(id, event->request_id.data, 8);
    }
    char *end = id;
    unsigned long number_read = strncmp(id, "r-", 2) == 0 ? strtoul(id + 2, &end, 10) : 0;
    uint32_t number = (uint32_t)number_read;
    if (end == id || end == id + 2 || *end != '\0' || number_read >= w->given_count) {
        return world_fail(w, "an event that was never given: id \"%.*s\"",
                          (int)event->request_id.len, event->request_id.data);
    }
    struct made m;
    make_event(&m, number, w->given[number].record_bytes);
    if (!events_equal(event, &m.event)) {
        return world_fail(w, "event %" PRIu32 " is not what was given", number);
    }
    *ret_number = number;
    return true;
}

/* ---- the world ----------------------------------------------------------------------------------- */

bool world_fail(struct world *w, const char *format, ...)
{
    if (w->failure[0] == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(w->failure, sizeof w->failure, format, args);
        va_end(args);
    }
    w->halted = true;
    return false;
}

struct world *world_new(enum world_retention retention)
{
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL) {
        abort();
    }
    w->disk = sim_disk_new(7);
    w->retention = retention;
    w->now_us = w->disk->realtime_us;
    const struct dbk_os *os = &w->disk->os;
    if (os->mkdir(os, "/var") != 0 || os->fsync_dir(os, "/") != 0) {
        abort();
    }
    return w;
}

void world_free(struct world *w)
{
    if (w == NULL) {
        return;
    }
    if (w->journal != NULL) {
        dbk_log_abandon(w->journal);
    }
    sim_disk_free(w->disk);
    free(w);
}

struct world *world_clone(const struct world *w)
{
    struct world *twin = malloc(sizeof *twin);
    if (twin == NULL || w->journal != NULL) {
        abort();
    }
    *twin = *w;
    twin->disk = sim_disk_clone(w->disk);
    return twin;
}

void world_tick(struct world *w, int64_t us)
{
    w->now_us += us;
    w->disk->realtime_us += us;
    w->disk->monotonic_us += us;
}

struct daybook_log_options world_options(const struct world *w)
{
    return (struct daybook_log_options){
        .path = WORLD_PATH,
        .capacity = {.events_max = 1000,
                     .retain_acknowledged_us = w->retention == RETAIN_NONE ? -1 : 0,
                     .delivery_attempts_max = 1000,
                     .events = {.event_bytes_max = WORLD_RECORD_MAX}},
        .bytes_max = 128u * WORLD_SEGMENT_BYTES,
        .segment_bytes = WORLD_SEGMENT_BYTES,
        .tail = w->tail,
        .threads = DAYBOOK_LOG_INLINE,
        .now_us = w->now_us,
    };
}

/* Everything that was written stands in front of something that was synced. */
static void all_synced(struct world *w)
{
    for (uint32_t i = 0; i < w->given_count; i++) {
        struct world_event *e = &w->given[i];
        e->ack = e->ack == ACK_WRITTEN ? ACK_SYNCED : e->ack;
        e->claims_synced = e->claims_written;
    }
    w->registered = w->registered == ACK_WRITTEN ? ACK_SYNCED : w->registered;
}

/* An operation failed: right when the process is dead or trouble was injected. */
static void operation_failed(struct world *w, const char *operation, enum daybook_code code,
                             const struct daybook_error *err)
{
    bool expected =
        w->temper == TEMPER_TOLERANT && (code == DAYBOOK_BACKEND || code == DAYBOOK_AT_CAPACITY);
    if (!w->disk->dead && !expected) {
        world_fail(w, "%s answered %s on a good disk: %s", operation, daybook_code_name(code),
                   err->message);
    }
    w->halted = w->halted || w->disk->dead;
}

static bool ready(const struct world *w)
{
    return !w->halted && !w->disk->dead && w->journal != NULL;
}

void world_open(struct world *w)
{
    if (w->halted || w->journal != NULL) {
        return;
    }
    struct daybook_error err = {0};
    struct daybook_log_options options = world_options(w);
    enum daybook_code code = dbk_log_open(&options, &w->disk->os, &w->journal, &err);
    if (code != DAYBOOK_OK) {
        w->journal = NULL;
        operation_failed(w, "open", code, &err);
        w->halted = true;
    }
}

void world_close(struct world *w)
{
    if (!ready(w)) {
        return;
    }
    struct daybook_error err = {0};
    enum daybook_code code = daybook_journal_close(w->journal, &err);
    w->journal = NULL;
    if (code != DAYBOOK_OK) {
        operation_failed(w, "close", code, &err);
        w->halted = true;
    } else {
        all_synced(w);
    }
}

static void note_append(struct world *w, uint32_t number, const struct daybook_append_result *r,
                        const struct daybook_error *err)
{
    struct world_event *e = &w->given[number];
    if (r->code == DAYBOOK_OK) {
        e->fate = FATE_ACCEPTED;
        e->position = r->position;
        return;
    }
    e->fate = daybook_code_class(r->code) == DAYBOOK_CLASS_UNKNOWN ? FATE_UNKNOWN : FATE_REFUSED;
    operation_failed(w, "append", r->code, err);
}

void world_append(struct world *w, uint32_t count, uint32_t record_bytes)
{
    if (!ready(w)) {
        return;
    }
    struct made *made = malloc(count * sizeof *made);
    struct daybook_event *events = calloc(count, sizeof *events);
    struct daybook_append_result *results = calloc(count, sizeof *results);
    if (made == NULL || events == NULL || results == NULL ||
        w->given_count + count > WORLD_GIVEN_MAX) {
        abort();
    }
    uint32_t first = w->given_count;
    for (uint32_t i = 0; i < count; i++) {
        w->given[first + i] = (struct world_event){.record_bytes = record_bytes};
        make_event(&made[i], first + i, record_bytes);
        events[i] = made[i].event;
    }
    w->given_count += count;
    struct daybook_error err = {0};
    enum daybook_code code = daybook_journal_append_batch(w->journal, events, count, w->now_us,
                                                          DAYBOOK_NO_DEADLINE, results, &err);
    bool any_ok = false;
    for (uint32_t i = 0; i < count; i++) {
        note_append(w, first + i, &results[i], &err);
        any_ok = any_ok || results[i].code == DAYBOOK_OK;
    }
    if (code != DAYBOOK_OK) {
        operation_failed(w, "append", code, &err);
    } else if (any_ok) {
        all_synced(w);
    }
    free(made);
    free(events);
    free(results);
}

static struct daybook_claim claim_of(uint32_t count)
{
    return (struct daybook_claim){.consumer = WORLD_CONSUMER,
                                  .events_max = count,
                                  .key_run = DAYBOOK_CLAIM_EVENTS_MAX,
                                  .lease_ms = LEASE_MS,
                                  .start = {.kind = DAYBOOK_START_OLDEST}};
}

/* One claim. Nobody knows before its answer whom it would have handed what: everything that is not
 * acknowledged for certain may have been. */
static bool claim(struct world *w, uint32_t count, struct daybook_batch **ret_batch)
{
    struct daybook_error err = {0};
    struct daybook_claim request = claim_of(count);
    *ret_batch = NULL;
    if (daybook_batch_new(count == 0 ? 1 : count, (size_t)WORLD_GIVEN_MAX * (WORLD_RECORD_MAX + 64),
                          WORLD_RECORD_MAX, ret_batch, &err) != DAYBOOK_OK) {
        abort();
    }
    w->registered = w->registered < ACK_ASKED ? ACK_ASKED : w->registered;
    enum daybook_code code = daybook_journal_claim(w->journal, &request, w->now_us,
                                                   DAYBOOK_NO_DEADLINE, *ret_batch, &err);
    if (code != DAYBOOK_OK) {
        for (uint32_t i = 0; i < w->given_count && count > 0; i++) {
            w->given[i].claims_asked++;
        }
        operation_failed(w, "claim", code, &err);
        return false;
    }
    if (w->registered < ACK_SYNCED) {
        w->registered = ACK_SYNCED; /* durable before it is answered (K7) */
    }
    return true;
}

/* Takes one delivery into the ledger. */
static bool note_delivery(struct world *w, const struct daybook_delivery *d, uint32_t *ret_number)
{
    uint32_t number = 0;
    if (!recognise(w, &d->event, &number)) {
        return false;
    }
    struct world_event *e = &w->given[number];
    if (d->token <= w->token_max) {
        return world_fail(w, "C2: token %" PRIu64 " after %" PRIu64, d->token, w->token_max);
    }
    w->token_max = d->token;
    if (e->ack >= ACK_WRITTEN) {
        return world_fail(w, "K7: event %" PRIu32 " is handed out after its acknowledgement",
                          number);
    }
    if (d->attempt < e->claims_written + 1 || d->attempt > e->claims_asked + 1) {
        return world_fail(w,
                          "C2: event %" PRIu32 " has attempt %" PRIu32 ", handed out %" PRIu32
                          " to %" PRIu32 " times",
                          number, d->attempt, e->claims_written, e->claims_asked);
    }
    if (d->redelivery != (d->attempt > 1)) {
        return world_fail(w, "C2: event %" PRIu32 ": redelivery does not fit attempt %" PRIu32,
                          number, d->attempt);
    }
    e->claims_asked = d->attempt;
    e->claims_written = d->attempt;
    e->token = d->token;
    e->position = d->position;
    *ret_number = number;
    return true;
}

void world_register(struct world *w)
{
    if (!ready(w)) {
        return;
    }
    struct daybook_batch *batch = NULL;
    if (claim(w, 0, &batch)) {
        all_synced(w);
    }
    daybook_batch_free(batch);
}

void world_claim(struct world *w, uint32_t count)
{
    if (!ready(w)) {
        return;
    }
    struct daybook_batch *batch = NULL;
    uint32_t number = 0;
    bool well = claim(w, count, &batch);
    for (size_t i = 0; well && i < batch->count; i++) {
        well = note_delivery(w, &batch->deliveries[i], &number);
    }
    daybook_batch_free(batch);
}

void world_ack(struct world *w, uint32_t count)
{
    if (!ready(w)) {
        return;
    }
    struct daybook_hand_out set[WORLD_GIVEN_MAX];
    enum daybook_code codes[WORLD_GIVEN_MAX];
    uint32_t numbers[WORLD_GIVEN_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < w->given_count && n < count; i++) {
        if (w->given[i].token != 0) {
            set[n] = (struct daybook_hand_out){w->given[i].position, w->given[i].token};
            numbers[n++] = i;
            w->given[i].token = 0;
            w->given[i].ack = ACK_ASKED;
        }
    }
    if (n == 0) {
        return;
    }
    struct daybook_error err = {0};
    enum daybook_code code = daybook_journal_ack(w->journal, WORLD_CONSUMER, set, n, w->now_us,
                                                 DAYBOOK_NO_DEADLINE, codes, &err);
    if (code != DAYBOOK_OK) {
        operation_failed(w, "ack", code, &err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (codes[i] != DAYBOOK_OK) {
            world_fail(w, "K2: ack of event %" PRIu32 " answered %s", numbers[i],
                       daybook_code_name(codes[i]));
            return;
        }
        w->given[numbers[i]].ack = ACK_WRITTEN;
    }
}

void world_maintain(struct world *w)
{
    if (!ready(w)) {
        return;
    }
    struct daybook_error err = {0};
    enum daybook_code code =
        daybook_journal_maintain(w->journal, w->now_us, DAYBOOK_NO_DEADLINE, NULL, &err);
    if (code != DAYBOOK_OK) {
        operation_failed(w, "maintain", code, &err);
    }
}

void world_housekeep(struct world *w)
{
    int rounds = 0;
    while (ready(w) && dbk_log_housekeep(w->journal)) {
        if (++rounds == HOUSEKEEP_ROUNDS_MAX) {
            world_fail(w, "the housekeeper never comes to an end");
        }
    }
}

/* ---- crash and check ----------------------------------------------------------------------------- */

void world_crash(struct world *w, const struct world_cut *cut)
{
    if (w->journal != NULL) {
        dbk_log_abandon(w->journal);
        w->journal = NULL;
    }
    if (cut->kill) {
        sim_kill(w->disk);
    } else {
        sim_power_cut(w->disk, cut->profile, cut->seed);
    }
    /* A disk that failed to sync has lost what was only written, as power would have. */
    bool power = (!cut->kill && cut->profile != SIM_KEEP_ALL) || w->disk->syncs_failed > 0;
    for (uint32_t i = 0; i < w->given_count; i++) {
        struct world_event *e = &w->given[i];
        e->token = 0;
        if (power) {
            e->ack = e->ack == ACK_WRITTEN ? ACK_ASKED : e->ack;
            e->claims_written = e->claims_synced;
        }
    }
    if (w->failure[0] == 0) {
        w->halted = false;
    }
    w->temper = TEMPER_STRICT;
}

/* What a look at the journal found. */
struct found {
    uint32_t count;
    uint32_t numbers[WORLD_GIVEN_MAX];
    uint64_t positions[WORLD_GIVEN_MAX];
    struct daybook_journal_stats stats;
};

static bool read_all(struct world *w, struct found *f)
{
    struct daybook_error err = {0};
    struct daybook_batch *batch = NULL;
    uint64_t last = 0;
    uint64_t damaged = 0;
    f->count = 0;
    if (daybook_batch_new(32, 32 * (WORLD_RECORD_MAX + 64), WORLD_RECORD_MAX, &batch, &err) !=
        DAYBOOK_OK) {
        abort();
    }
    bool more = true;
    while (more && !w->halted) {
        if (daybook_journal_read(w->journal, last, DAYBOOK_WHERE_ALL, batch, &last, &damaged,
                                 &err) != DAYBOOK_OK) {
            world_fail(w, "reading failed: %s", err.message);
            break;
        }
        more = batch->more || batch->count > 0;
        for (size_t i = 0; i < batch->count && !w->halted; i++) {
            const struct daybook_delivery *d = &batch->deliveries[i];
            if (f->count > 0 && d->position <= f->positions[f->count - 1]) {
                world_fail(w, "A1: position %" PRIu64 " after %" PRIu64, d->position,
                           f->positions[f->count - 1]);
            } else if (f->count == WORLD_GIVEN_MAX) {
                world_fail(w, "more events than were ever given");
            } else if (recognise(w, &d->event, &f->numbers[f->count])) {
                f->positions[f->count++] = d->position;
            }
        }
    }
    daybook_batch_free(batch);
    if (!w->halted && damaged > 0) {
        world_fail(w, "%" PRIu64 " damaged events without rot", damaged);
    }
    return !w->halted;
}

/* What is delivered goes when its window is over, and where a disk without room was met (P3, P4). */
static bool may_be_gone(const struct world *w, const struct world_event *e)
{
    return (w->retention == RETAIN_NONE || w->troubled) && e->ack != ACK_NONE;
}

/* Found events against the ledger: both are in order of acceptance. */
static bool compare_events(struct world *w, const struct found *f)
{
    uint32_t at = 0;
    uint32_t missing = UINT32_MAX; /* first unknown one that is not there */
    for (uint32_t i = 0; i < w->given_count; i++) {
        const struct world_event *e = &w->given[i];
        bool present = at < f->count && f->numbers[at] == i;
        bool may_be_forgotten = may_be_gone(w, e);
        if (present && e->fate == FATE_REFUSED) {
            return world_fail(w, "A4: event %" PRIu32 " was refused and is there", i);
        }
        if (present && e->fate == FATE_ACCEPTED && f->positions[at] != e->position) {
            return world_fail(w,
                              "A1: event %" PRIu32 " was accepted at %" PRIu64 ", is at %" PRIu64,
                              i, e->position, f->positions[at]);
        }
        if (present && missing != UINT32_MAX) {
            return world_fail(
                w, "D2: unknown event %" PRIu32 " is there, %" PRIu32 " before it not", i, missing);
        }
        if (!present && e->fate == FATE_ACCEPTED && !may_be_forgotten) {
            return world_fail(w, "A1: accepted event %" PRIu32 " (position %" PRIu64 ") is lost", i,
                              e->position);
        }
        if (!present && e->fate == FATE_UNKNOWN && missing == UINT32_MAX) {
            missing = i;
        }
        at += present ? 1 : 0;
    }
    if (at != f->count) {
        return world_fail(w, "event %" PRIu32 " is there twice or out of order", f->numbers[at]);
    }
    return true;
}

static bool compare_counters(struct world *w, const struct found *f)
{
    uint64_t least = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < w->given_count; i++) {
        least += w->given[i].fate == FATE_ACCEPTED ? 1 : 0;
        most += w->given[i].fate != FATE_REFUSED ? 1 : 0;
    }
    const struct daybook_journal_stats *s = &f->stats;
    uint64_t sum =
        s->stored_events + s->pruned + s->reclaimed + s->dropped + s->discarded + s->damaged;
    if (s->accepted != sum || s->accepted < least || s->accepted > most ||
        s->stored_events != f->count) {
        return world_fail(w,
                          "S5: accepted %" PRIu64 " (given %" PRIu64 " to %" PRIu64
                          "), stored %" PRIu64 " (found %" PRIu32 "), pruned %" PRIu64
                          ", reclaimed %" PRIu64 ", dropped %" PRIu64 ", discarded %" PRIu64
                          ", damaged %" PRIu64,
                          s->accepted, least, most, s->stored_events, f->count, s->pruned,
                          s->reclaimed, s->dropped, s->discarded, s->damaged);
    }
    return true;
}

static bool look(struct world *w, struct found *f)
{
    struct daybook_error err = {0};
    if (w->halted || w->journal == NULL) {
        return world_fail(w, "the journal is not open");
    }
    if (daybook_journal_stats(w->journal, w->now_us, &f->stats, &err) != DAYBOOK_OK) {
        return world_fail(w, "stats: %s", err.message);
    }
    if (f->stats.state != DAYBOOK_JOURNAL_OPEN) {
        return world_fail(w, "the journal failed: %s", f->stats.failure.message);
    }
    return read_all(w, f) && compare_events(w, f) && compare_counters(w, f);
}

bool world_compare(struct world *w)
{
    struct found f = {.count = 0};
    return look(w, &f);
}

/* What was unknown is known now. */
static void settle_unknown(struct world *w, const struct found *f)
{
    bool present[WORLD_GIVEN_MAX] = {false};
    for (uint32_t i = 0; i < f->count; i++) {
        present[f->numbers[i]] = true;
        w->given[f->numbers[i]].position = f->positions[i];
    }
    for (uint32_t i = 0; i < w->given_count; i++) {
        if (w->given[i].fate == FATE_UNKNOWN) {
            bool forgotten = may_be_gone(w, &w->given[i]);
            w->given[i].fate = present[i] || forgotten ? FATE_ACCEPTED : FATE_REFUSED;
        }
    }
}

static bool same_found(struct world *w, const struct found *a, const struct found *b)
{
    bool same = a->count == b->count && a->stats.accepted == b->stats.accepted &&
                a->stats.pruned == b->stats.pruned;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = a->numbers[i] == b->numbers[i] && a->positions[i] == b->positions[i];
    }
    return same ? true : world_fail(w, "D8: a second opening changed what is stored");
}

static void keep_finding(void *user, const struct daybook_log_finding *found)
{
    struct world *w = user;
    if (!found->harmless) {
        world_fail(w, "verify: segment %" PRIu64 " at %" PRIu64 ": %s", found->segment_no,
                   found->offset, found->message);
    }
}

/* Every byte of the directory is right, or wrong in a way that the next opening mends. */
static bool verify(struct world *w, const char *when)
{
    struct daybook_error err = {0};
    struct daybook_log_report report = {0};
    struct sim_disk *before = sim_disk_clone(w->disk);
    enum daybook_code code =
        dbk_log_verify(WORLD_PATH, &w->disk->os, keep_finding, w, &report, &err);
    bool empty = w->given_count == 0 || w->given[0].fate != FATE_ACCEPTED;
    if (code != DAYBOOK_OK && !(code == DAYBOOK_NOT_FOUND && empty)) {
        world_fail(w, "verify %s: %s: %s", when, daybook_code_name(code), err.message);
    }
    char where[256];
    if (sim_differs(before, w->disk, SIM_CACHE, where, sizeof where)) {
        world_fail(w, "verify wrote: %s", where);
    }
    sim_disk_free(before);
    return !w->halted;
}

/* Appends the newest event once more: known or new, as the ledger has it. */
static bool repeat_newest(struct world *w)
{
    if (w->given_count == 0 || may_be_gone(w, &w->given[w->given_count - 1])) {
        return true;
    }
    uint32_t number = w->given_count - 1;
    struct world_event *e = &w->given[number];
    struct made m;
    struct daybook_append_result r;
    struct daybook_error err = {0};
    make_event(&m, number, e->record_bytes);
    enum daybook_code code =
        daybook_journal_append(w->journal, &m.event, w->now_us, DAYBOOK_NO_DEADLINE, &r, &err);
    if (e->fate == FATE_ACCEPTED &&
        (code != DAYBOOK_ALREADY_PRESENT || r.position != e->position)) {
        return world_fail(w,
                          "A2: repeating event %" PRIu32 " at %" PRIu64 " answered %s at %" PRIu64,
                          number, e->position, daybook_code_name(code), r.position);
    }
    if (e->fate == FATE_REFUSED && code != DAYBOOK_OK) {
        return world_fail(w, "A5: giving absent event %" PRIu32 " again answered %s: %s", number,
                          daybook_code_name(code), err.message);
    }
    e->fate = FATE_ACCEPTED;
    e->position = r.position;
    return true;
}

/* Claims all that is unresolved, an hour later, and compares with the ledger. */
static bool deliver_all(struct world *w)
{
    if (w->registered >= ACK_WRITTEN) {
        struct daybook_consumer_stats s;
        struct daybook_error err = {0};
        if (daybook_journal_consumer_stats(w->journal, WORLD_CONSUMER, w->now_us, &s, &err) !=
                DAYBOOK_OK ||
            !s.registered) {
            return world_fail(w, "C1: the registration is lost");
        }
    }
    world_tick(w, HOUR_US);
    bool delivered[WORLD_GIVEN_MAX] = {false};
    bool more = true;
    while (more && ready(w)) {
        struct daybook_batch *batch = NULL;
        bool well = claim(w, 64, &batch);
        for (size_t i = 0; well && i < batch->count; i++) {
            uint32_t number = 0;
            well = note_delivery(w, &batch->deliveries[i], &number);
            delivered[number] = delivered[number] || well;
        }
        more = well && batch->count > 0;
        daybook_batch_free(batch);
    }
    for (uint32_t i = 0; i < w->given_count && !w->halted; i++) {
        if (w->given[i].fate == FATE_ACCEPTED && w->given[i].ack == ACK_NONE && !delivered[i]) {
            return world_fail(w, "event %" PRIu32 " waits and is not handed out", i);
        }
        if (!delivered[i] && w->given[i].ack == ACK_ASKED) {
            w->given[i].ack = ACK_WRITTEN; /* it had arrived */
        } else if (delivered[i]) {
            w->given[i].ack = ACK_NONE;
        }
    }
    return !w->halted;
}

/* The state from a checkpoint is the state of the whole log, and both are what `w->journal` holds, if it is
 * open. Reads only. */
bool world_states_agree(struct world *w, const char *when)
{
    struct daybook_log_options options = world_options(w);
    struct daybook_journal *resumed = NULL;
    struct daybook_journal *whole = NULL;
    struct daybook_error err = {0};
    uint64_t position = 0;
    const char *wrong = NULL;
    enum daybook_code code = dbk_log_open_readonly(&options, &w->disk->os, &resumed, &err);
    if (code == DAYBOOK_OK && !dbk_log_opening(resumed).by_checkpoint) {
        code = dbk_log_open_readonly_whole(&options, &w->disk->os, 0, &whole, &err);
    }
    if (code != DAYBOOK_OK) {
        world_fail(w, "%s: cannot be read: %s", when, err.message);
    } else {
        wrong = whole == NULL ? NULL : dbk_log_differs(resumed, whole, w->now_us, &position);
        if (wrong == NULL && w->journal != NULL) {
            wrong = dbk_log_differs(w->journal, resumed, w->now_us, &position);
        }
        w->resumed += dbk_log_opening(resumed).resumed_lsn != 0 ? 1 : 0;
    }
    if (wrong != NULL) {
        world_fail(
            w,
            "%s: state via checkpoint, by the whole log and live differ: %s (position %" PRIu64 ")",
            when, wrong, position);
    }
    if (resumed != NULL) {
        (void)daybook_journal_close(resumed, NULL);
    }
    if (whole != NULL) {
        (void)daybook_journal_close(whole, NULL);
    }
    return wrong == NULL && !w->halted;
}

bool world_check(struct world *w)
{
    static const struct world_cut kill = {.name = "kill", .kill = true};
    static const struct world_cut nothing = {.name = "nothing", .profile = SIM_KEEP_NOTHING};
    struct found first = {.count = 0};
    struct found second = {.count = 0};
    if (w->failure[0] != 0 || !verify(w, "after the crash")) {
        return false;
    }
    world_open(w);
    if (!look(w, &first)) {
        return false;
    }
    settle_unknown(w, &first);
    if (!world_states_agree(w, "after the crash")) {
        return false;
    }
    world_crash(w, &kill);
    world_open(w);
    if (!look(w, &second) || !same_found(w, &first, &second) || !repeat_newest(w)) {
        return false;
    }
    world_append(w, 1, 300);
    if (w->halted || !deliver_all(w)) {
        return false;
    }
    world_ack(w, WORLD_GIVEN_MAX);
    world_append(w, 1, 300);
    world_crash(w, &nothing);
    world_open(w);
    if (!look(w, &first)) {
        return false;
    }
    world_close(w);
    return !w->halted && verify(w, "after an orderly end") &&
           world_states_agree(w, "after an orderly end");
}

bool world_recognises(struct world *w, const struct daybook_event *event)
{
    uint32_t number;
    return recognise(w, event, &number);
}
