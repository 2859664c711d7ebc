/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the golden directories (tests/golden/README.md): `make-golden DIR` writes them below DIR. Between them
 * they hold every kind of frame and of group. Run by hand, once a version of the format; what it made is
 * committed and never made again. The clock is the program's own; salts, uuids and the times in group headers
 * are not, so that no two runs give the same bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/log/log.h"

#define MUST(call) must((call), #call)

static int64_t now_us = INT64_C(1767225600000000);

static struct daybook_error err;

static void must(enum daybook_code code, const char *what)
{
    if (code != DAYBOOK_OK) {
        (void)fprintf(stderr, "make-golden: %s: %s: %s\n", what, daybook_code_name(code),
                      err.message);
        exit(1);
    }
}

static struct daybook_bytes text(const char *s)
{
    return (struct daybook_bytes){s, strlen(s)};
}

/* The machine's, but for a clock that goes ahead with now_us. */
static struct dbk_os os;
static int64_t ahead_us;

static int64_t ahead_monotonic_us(const struct dbk_os *self)
{
    return dbk_os_posix()->monotonic_us(self) + ahead_us;
}

static const struct daybook_operator by = {{"ops", 3}, {"golden", 6}};

static struct daybook_journal *journal;

static void open_journal(const char *path, uint64_t events_max)
{
    struct daybook_log_options options = {
        .path = path,
        .capacity = {.events_max = events_max,
                     .retain_acknowledged_us = INT64_C(3600000000),
                     .events = {.event_bytes_max = 8000}},
        .bytes_max = UINT64_C(1) << 26,
        .free_disk_min = 1,
        .segment_bytes = 65536,
        .threads = DAYBOOK_LOG_INLINE,
        .now_us = now_us,
    };
    MUST(dbk_log_open(&options, &os, &journal, &err));
}

static void house(void)
{
    for (int i = 0; i < 64 && dbk_log_housekeep(journal); i++) {
    }
}

static uint64_t append(const char *id, const char *subject, const char *record)
{
    struct daybook_event event = {.request_id = text(id),
                                  .name_space = text("acme"),
                                  .subject = text(subject),
                                  .observed_at_us = now_us - 1500000,
                                  .record = text(record)};
    struct daybook_append_result result;
    now_us += 1000003;
    MUST(daybook_journal_append(journal, &event, now_us, DAYBOOK_NO_DEADLINE, &result, &err));
    return result.position;
}

static void fill(const char *prefix, unsigned count, size_t bytes)
{
    char id[32];
    char subject[32];
    char *record = malloc(bytes + 32);
    for (unsigned i = 0; record != NULL && i < count; i++) {
        (void)snprintf(id, sizeof id, "%s-%u", prefix, i);
        (void)snprintf(subject, sizeof subject, "key %u", i % 3);
        int n = snprintf(record, 32, "{\"n\":%u,\"pad\":\"", i);
        memset(record + n, 'a' + (int)(i % 26), bytes);
        memcpy(record + (size_t)n + bytes, "\"}", 3);
        (void)append(id, subject, record);
        house();
    }
    free(record);
}

static struct daybook_batch *batch;

static size_t claim(const char *consumer, uint32_t events, uint32_t hand_outs)
{
    struct daybook_claim asked = {.consumer = consumer,
                                  .events_max = events,
                                  .key_run = 8,
                                  .lease_ms = 5000,
                                  .hand_outs_max = hand_outs};
    now_us += 1000;
    MUST(daybook_journal_claim(journal, &asked, now_us, DAYBOOK_NO_DEADLINE, batch, &err));
    return batch->count;
}

static struct daybook_hand_out hand_out(size_t i)
{
    return (struct daybook_hand_out){batch->deliveries[i].position, batch->deliveries[i].token};
}

/* All that waits, but for the event at position `but`, whose lease lives on. */
static void ack_all_but(const char *consumer, uint64_t but)
{
    enum daybook_code codes[64];
    struct daybook_hand_out set[64];
    while (claim(consumer, 64, 0) > 0) {
        size_t count = 0;
        for (size_t i = 0; i < batch->count; i++) {
            if (batch->deliveries[i].position != but) {
                set[count++] = hand_out(i);
            }
        }
        MUST(daybook_journal_ack(journal, consumer, set, count, now_us, DAYBOOK_NO_DEADLINE, codes,
                                 &err));
    }
}

static void ack_all(const char *consumer)
{
    ack_all_but(consumer, 0);
}

/* Time passes, with what a housekeeper and maintenance do in it. */
static void pass(unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i += 60) {
        now_us += 60000000;
        ahead_us += 60000000;
        MUST(daybook_journal_maintain(journal, now_us, DAYBOOK_NO_DEADLINE, NULL, &err));
        house();
    }
}

static void leave(const char *how)
{
    house();
    if (strcmp(how, "closed") == 0) {
        MUST(daybook_journal_close(journal, &err));
    } else {
        dbk_log_abandon(journal);
    }
}

/* ---- the directories ----------------------------------------------------------------------------- */

/* Every verdict and every act of an operator, over two openings that go on in one segment. */
static void make_verdicts(const char *path)
{
    enum daybook_code code;
    struct daybook_hand_out h;
    open_journal(path, 1000);
    (void)append("first", "key 0", "{\"cost\":1.50,\"big\":123456789012345678901234567890}");
    (void)append("second", "key \xe2\x82\xac", " { \"white\" :\n[1,\t2] , \"u\":\"\\u00e9\" } ");
    (void)append("third", "tab\"and\\slash", "{}");
    fill("more", 6, 40);
    claim("ledger", 4, 0);
    h = hand_out(0);
    MUST(daybook_journal_ack(journal, "ledger", &h, 1, now_us, DAYBOOK_NO_DEADLINE, &code, &err));
    h = hand_out(1);
    MUST(daybook_journal_relinquish(journal, "ledger", &h, 1, now_us, DAYBOOK_NO_DEADLINE, &code,
                                    &err));
    h = hand_out(2);
    MUST(daybook_journal_extend(journal, "ledger", &h, 1, 9000, now_us, DAYBOOK_NO_DEADLINE, &code,
                                &err));
    MUST(daybook_journal_quarantine(journal, "ledger", h, DAYBOOK_REASON_REJECTED,
                                    text("{\"message\":\"no such account\"}"), now_us,
                                    DAYBOOK_NO_DEADLINE, &err));
    h = hand_out(3);
    MUST(daybook_journal_extend(journal, "ledger", &h, 1, 0, now_us, DAYBOOK_NO_DEADLINE, &code,
                                &err));
    MUST(daybook_journal_release(journal, "ledger", text("third"), &by, now_us, DAYBOOK_NO_DEADLINE,
                                 &err));
    claim("archive", 3, 0);
    MUST(daybook_journal_discard(journal, "ledger", text("more-0"), &by, now_us,
                                 DAYBOOK_NO_DEADLINE, &err));
    leave("closed");
    now_us += 60000000;
    open_journal(path, 1000);
    MUST(daybook_journal_rewind(journal, "ledger", &by, now_us, DAYBOOK_NO_DEADLINE, &err));
    MUST(daybook_journal_discard(journal, "archive", text("more-0"), &by, now_us,
                                 DAYBOOK_NO_DEADLINE,
                                 &err)); /* forgotten by that: no frame says so */
    MUST(daybook_journal_discard(journal, "ledger", text("more-1"), &by, now_us,
                                 DAYBOOK_NO_DEADLINE, &err));
    MUST(daybook_journal_retire(journal, "archive", DAYBOOK_FORCE_YES, &by, now_us,
                                DAYBOOK_NO_DEADLINE, &err)); /* and more-1 by this */
    (void)append("last", "key 0", "{\"after\":\"the acts\"}");
    leave("closed");
}

/* Segments that were trimmed, with the trail relocated; pruned and reclaimed events. */
static void make_trimmed(const char *path)
{
    open_journal(path, 20);
    claim("ledger", 1, 0);
    fill("old", 10, 3000);
    MUST(daybook_journal_rewind(journal, "ledger", &by, now_us, DAYBOOK_NO_DEADLINE, &err));
    ack_all("ledger");
    fill("middle", 14, 5000); /* beyond max_events: the oldest delivered are given up */
    ack_all("ledger");
    now_us += INT64_C(7200000000);
    fill("late", 3, 5000);
    uint64_t pruned = 0;
    MUST(daybook_journal_maintain(journal, now_us, DAYBOOK_NO_DEADLINE, &pruned, &err));
    house();
    fill("new", 8, 5000);
    house();
    leave("closed");
}

/* Dropped events whose leases live on, and a process that was killed. */
static void make_dropped(const char *path)
{
    struct daybook_log_options options = {
        .path = path,
        .capacity = {.events_max = 6,
                     .policy = DAYBOOK_POLICY_DROP_OLDEST,
                     .events = {.event_bytes_max = 8000}},
        .bytes_max = UINT64_C(1) << 26,
        .free_disk_min = 1,
        .segment_bytes = 65536,
        .threads = DAYBOOK_LOG_INLINE,
        .now_us = now_us,
    };
    MUST(dbk_log_open(&options, dbk_os_posix(), &journal, &err));
    claim("ledger", 1, 0);
    fill("a", 6, 50);
    claim("ledger", 3, 0);
    fill("b", 4, 50);
    dbk_os_posix()->sleep_us(dbk_os_posix(), 200000); /* for the NOTE of a journal that went idle */
    leave("killed");
}

/* Consumers that an operator registered, and a lift: the acts that no claim makes. */
static void make_started(const char *path)
{
    open_journal(path, 1000);
    fill("e", 6, 40);
    claim("ledger", 1, 0);
    MUST(daybook_journal_start(journal, "late", (struct daybook_start){DAYBOOK_START_POSITION, 4},
                               &by, now_us, DAYBOOK_NO_DEADLINE, &err));
    MUST(daybook_journal_start(journal, "future",
                               (struct daybook_start){DAYBOOK_START_TIME, now_us + 60000000}, &by,
                               now_us, DAYBOOK_NO_DEADLINE, &err));
    MUST(daybook_journal_note_lift(journal, "ledger", &by, now_us, DAYBOOK_NO_DEADLINE, &err));
    /* Before the start of late it is forgotten by that; behind it is kept for late. */
    MUST(daybook_journal_discard(journal, "ledger", text("e-1"), &by, now_us, DAYBOOK_NO_DEADLINE,
                                 &err));
    MUST(daybook_journal_discard(journal, "ledger", text("e-4"), &by, now_us, DAYBOOK_NO_DEADLINE,
                                 &err));
    leave("closed");
    now_us += 120000000;
    open_journal(path, 1000);
    (void)append("after", "key 0", "{\"for\":\"future\"}");
    MUST(daybook_journal_discard(journal, "ledger", text("after"), &by, now_us, DAYBOOK_NO_DEADLINE,
                                 &err));
    MUST(daybook_journal_discard(journal, "late", text("after"), &by, now_us, DAYBOOK_NO_DEADLINE,
                                 &err)); /* kept for future, which begins with it */
    leave("killed");
}

/* Old events that stay while everything around them goes: they were relocated, and segments are gone whose
 * deliveries only the checkpoints know. Sealed segments have indexes. */
static void make_moved(const char *path)
{
    struct daybook_hand_out h;
    open_journal(path, 1000);
    claim("ledger", 0, 0);
    claim("archive", 0, 0);
    fill("old", 3, 700);
    claim("ledger", 2, 0);
    h = hand_out(1);
    MUST(daybook_journal_quarantine(journal, "ledger", h, DAYBOOK_REASON_REJECTED,
                                    text("{\"message\":\"no such account\"}"), now_us,
                                    DAYBOOK_NO_DEADLINE, &err));
    ack_all_but("ledger", 1);
    MUST(daybook_journal_discard(journal, "archive", text("old-0"), &by, now_us,
                                 DAYBOOK_NO_DEADLINE, &err));
    fill("gone", 40, 5000);
    ack_all_but("ledger", 1);
    ack_all_but("archive", 3);
    pass(7200);
    fill("new", 14, 5000); /* a sealed segment, with its index */
    ack_all_but("archive", 3);
    pass(7200);
    (void)append("last", "key 0", "{\"after\":\"the move\"}");
    claim("archive", 1, 0);
    leave("killed");
}

static void change(const char *path, const char *find, size_t at, const char *with, size_t len)
{
    static char bytes[1 << 20];
    char name[4096];
    (void)snprintf(name, sizeof name, "%s/seg-0000000000000001.dbl", path);
    FILE *file = fopen(name, "r+b");
    size_t n = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
    char *found = n == 0 ? NULL : memmem(bytes, n, find, strlen(find));
    if (found == NULL || fseek(file, (long)(found - bytes) + (long)at, SEEK_SET) != 0 ||
        fwrite(with, 1, len, file) != len || fclose(file) != 0) {
        (void)fprintf(stderr, "make-golden: %s cannot be changed\n", name);
        exit(1);
    }
}

static void make_damaged(const char *path, const char *kind)
{
    open_journal(path, 1000);
    fill("e", 4, 1200);
    leave("killed");
    if (strcmp(kind, "record") == 0) { /* one record rotted alone */
        change(path, "{\"n\":1,\"pad\"", 20, "X", 1);
    } else { /* acknowledged bytes */
        change(path, "e-1", 0, "E", 1);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    static const char *const names[] = {"verdicts", "trimmed", "dropped", "record",
                                        "refused",  "started", "moved"};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: make-golden DIR\n");
        return 2;
    }
    os = *dbk_os_posix();
    os.monotonic_us = ahead_monotonic_us;
    MUST(daybook_batch_new(64, 1 << 20, 8000, &batch, &err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], names[i]);
        now_us += 1000000;
        if (i == 0) {
            make_verdicts(path);
        } else if (i == 1) {
            make_trimmed(path);
        } else if (i == 2) {
            make_dropped(path);
        } else if (strcmp(names[i], "started") == 0) {
            make_started(path);
        } else if (strcmp(names[i], "moved") == 0) {
            make_moved(path);
        } else {
            make_damaged(path, names[i]);
        }
    }
    daybook_batch_free(batch);
    return 0;
}
