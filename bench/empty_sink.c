/* SPDX-License-Identifier: Apache-2.0 */
/* The destination of empty_sink.h. */
#include "empty_sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"

void empty_sink_sleep(long ns)
{
    struct timespec time = {.tv_nsec = ns};
    (void)nanosleep(&time, NULL);
}

static void check_order(const struct daybook_row *row, uint64_t expected)
{
    char id[24];
    int len = snprintf(id, sizeof id, "%" PRIu64, expected);
    struct daybook_bytes got = row->event.request_id;

    if (got.len != (size_t)len || memcmp(got.data, id, got.len) != 0) {
        bench_die("event %s was due, %.*s came", id, (int)got.len, got.data);
    }
}

static void sink_write(struct daybook_sink *head, const struct daybook_row *rows, size_t count,
                       int64_t deadline_us, struct daybook_answer *ret_answer)
{
    struct empty_sink *sink = (struct empty_sink *)head;
    uint64_t before = atomic_load(&sink->rows);

    (void)deadline_us;
    if (sink->call_ns > 0) {
        empty_sink_sleep(sink->call_ns);
    }
    for (size_t i = 0; sink->in_order && i < count; i++) {
        check_order(&rows[i], before + i);
    }
    sink->most = count > sink->most ? count : sink->most;
    atomic_store(&sink->rows, before + count);
    ret_answer->kind = DAYBOOK_ANSWER_ACCEPTED;
}

static void sink_ignore(struct daybook_sink *head)
{
    (void)head;
}

static const struct daybook_sink_ops sink_ops = {
    .kind = "empty", .write = sink_write, .interrupt = sink_ignore, .close = sink_ignore};

void empty_sink_init(struct empty_sink *sink)
{
    memset(sink, 0, sizeof *sink);
    sink->head.ops = &sink_ops;
}
