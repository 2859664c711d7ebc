/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file destination on the simulated disk: whatever crash or trouble comes at whatever step, every
 * accepted line is there, and every file consists of whole lines once the destination was opened again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "disk.h"
#include "json/json.h"
#include "sinks/file.h"

#define PATH "/d/usage.ndjson"
#define BATCHES 4u
#define BATCH_ROWS 3u
#define SUBSETS 10u
#define DAY_US INT64_C(86400000000)
#define START_US INT64_C(1700000000000000)

struct world {
    struct sim_disk *disk;
    struct daybook_sink *sink;
    struct daybook_file_options options;
    struct daybook_answer answer;
    bool accepted[BATCHES + 1];
    char record[2048]; /* of more than a sector, so that a write can be torn */
};

static struct world world;

static int setup(void **state)
{
    struct world *w = &world;
    memset(w, 0, sizeof *w);
    w->disk = sim_disk_new(1);
    w->disk->realtime_us = START_US;
    assert_int_equal(w->disk->os.mkdir(&w->disk->os, "/d"), 0);
    assert_int_equal(w->disk->os.fsync_dir(&w->disk->os, "/"), 0);
    w->options = (struct daybook_file_options){.path = PATH};
    (void)snprintf(w->record, sizeof w->record, "{\"text\":\"%01500d\",\n\"last\":1}", 7);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    if (w->sink != NULL) {
        w->sink->ops->close(w->sink);
    }
    sim_disk_free(w->disk);
    return 0;
}

static void open_sink(struct world *w)
{
    if (w->sink != NULL) {
        w->sink->ops->close(w->sink);
    }
    assert_int_equal(dbk_file_open_on(&w->disk->os, &w->options, &w->sink, NULL), DAYBOOK_OK);
}

static struct daybook_bytes bytes(const char *text)
{
    return (struct daybook_bytes){text, strlen(text)};
}

static enum daybook_answer_kind write_batch(struct world *w, unsigned batch, int64_t deadline_us)
{
    struct daybook_row rows[BATCH_ROWS];
    char ids[BATCH_ROWS][32];
    for (unsigned i = 0; i < BATCH_ROWS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "id-%u-%u", batch, i);
        rows[i] = (struct daybook_row){
            .event = {bytes(ids[i]), bytes("n\"s"), bytes("key"), START_US, bytes(w->record)},
            .row_version = 1,
            .position = batch * BATCH_ROWS + i + 1,
            .accepted_at_us = START_US + 5};
    }
    memset(&w->answer, 0x5A, sizeof w->answer);
    daybook_answer_reset(&w->answer);
    w->sink->ops->write(w->sink, rows, BATCH_ROWS, deadline_us, &w->answer);
    return w->answer.kind;
}

static enum daybook_answer_kind write_soon(struct world *w, unsigned batch)
{
    return write_batch(w, batch, w->disk->monotonic_us + 1000000);
}

/* ---- what is in the files --------------------------------------------------------------------- */

struct count {
    struct world *w;
    unsigned files;
    unsigned lines;
    unsigned seen[BATCHES + 1][BATCH_ROWS];
};

static void take_line(struct count *c, struct daybook_bytes line)
{
    assert_int_equal(dbk_json_check_object(line, NULL), DAYBOOK_OK);
    const char *id = memmem(line.data, line.len, "\"id-", 4);
    assert_non_null(id);
    unsigned batch = (unsigned)(id[4] - '0');
    unsigned row = (unsigned)(id[6] - '0');
    if (batch > BATCHES || row >= BATCH_ROWS) {
        fail_msg("a line of nobody: batch %u, row %u", batch, row);
        return;
    }
    c->seen[batch][row]++;
    c->lines++;
}

static void take_file(void *user, const char *path, enum dbk_file_kind kind)
{
    struct count *c = user;
    if (kind != DBK_FILE_REGULAR) {
        return;
    }
    uint64_t size = 0;
    const char *at = (const char *)sim_bytes(c->w->disk, SIM_CACHE, path, &size);
    const char *end = at + size;
    c->files++;
    while (at != NULL && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL) {
            fail_msg("%s ends inside a line", path);
        }
        take_line(c, (struct daybook_bytes){at, (size_t)(newline - at)});
        at = newline + 1;
    }
}

/* Every file consists of whole lines, and every accepted batch is in one of them. */
static struct count look(struct world *w)
{
    struct count c = {.w = w};
    sim_each(w->disk, SIM_CACHE, take_file, &c);
    for (unsigned b = 0; b <= BATCHES; b++) {
        for (unsigned i = 0; i < BATCH_ROWS; i++) {
            if (w->accepted[b] && c.seen[b][i] == 0) {
                fail_msg("batch %u, row %u was accepted and is lost", b, i);
            }
        }
    }
    return c;
}

/* ---- without trouble -------------------------------------------------------------------------- */

static void test_W1_a_line_is_as_exported(void **state)
{
    struct world *w = *state;
    open_sink(w);
    (void)snprintf(w->record, sizeof w->record, "{\"a\":1,\r\n\"b\":2.50}");
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    static const char want[] =
        "{\"position\":1,\"request_id\":\"id-0-0\",\"namespace\":\"n\\\"s\",\"subject\":\"key\","
        "\"observed_at\":\"2023-11-14T22:13:20.000000Z\","
        "\"accepted_at\":\"2023-11-14T22:13:20.000005Z\",\"record\":{\"a\":1,  \"b\":2.50}}\n";
    uint64_t size = 0;
    /* On the medium: it survives power. */
    const uint8_t *got = sim_bytes(w->disk, SIM_MEDIUM, PATH, &size);
    assert_true(size > sizeof want && memcmp(got, want, sizeof want - 1) == 0);
    w->options.format = DAYBOOK_LINE_RECORD;
    sim_remove_file(w->disk, PATH);
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    static const char records[] = "{\"a\":1,  \"b\":2.50}\n";
    got = sim_bytes(w->disk, SIM_MEDIUM, PATH, &size);
    assert_int_equal(size, BATCH_ROWS * (sizeof records - 1));
    assert_memory_equal(got, records, sizeof records - 1);
}

static void test_rotation_by_size_divides_no_batch(void **state)
{
    struct world *w = *state;
    w->options.rotate_bytes = 6000; /* one batch fits, two do not */
    open_sink(w);
    for (unsigned b = 0; b < BATCHES; b++) {
        assert_int_equal(write_soon(w, b), DAYBOOK_ANSWER_ACCEPTED);
        w->accepted[b] = true;
    }
    struct count c = look(w);
    assert_int_equal(c.files, BATCHES);
    assert_int_equal(c.lines, BATCHES * BATCH_ROWS);
    /* Within one second the names are told apart by a number. */
    uint64_t size = 0;
    assert_non_null(sim_bytes(w->disk, SIM_MEDIUM, PATH ".20231114T221320Z", &size));
    assert_non_null(sim_bytes(w->disk, SIM_MEDIUM, PATH ".20231114T221320Z-3", &size));
    /* Smaller than a batch: still one batch a file. */
    w->options.rotate_bytes = 10;
    open_sink(w);
    assert_int_equal(write_soon(w, BATCHES), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).files, BATCHES + 1);
}

static void test_rotation_by_day(void **state)
{
    struct world *w = *state;
    w->options.rotate = DAYBOOK_ROTATE_DAILY;
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(write_soon(w, 1), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).files, 1);
    w->disk->realtime_us += DAY_US;
    assert_int_equal(write_soon(w, 2), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).files, 2);
    /* Across a restart too: the file knows when it was written last. */
    open_sink(w);
    assert_int_equal(write_soon(w, 3), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).files, 2);
    w->disk->realtime_us += DAY_US;
    open_sink(w);
    assert_int_equal(write_soon(w, 4), DAYBOOK_ANSWER_ACCEPTED);
    struct count c = look(w);
    assert_int_equal(c.files, 3);
    assert_int_equal(c.lines, 5 * BATCH_ROWS);
}

static void test_a_file_that_was_moved_away_is_made_anew(void **state)
{
    struct world *w = *state;
    const struct dbk_os *os = &w->disk->os;
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(os->rename(os, PATH, "/d/moved"), 0);
    assert_int_equal(write_soon(w, 1), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(os->unlink(os, PATH), 0);
    assert_int_equal(write_soon(w, 2), DAYBOOK_ANSWER_ACCEPTED);
    w->accepted[0] = w->accepted[2] = true;
    assert_int_equal(look(w).files, 2);
    /* Cut beneath us (copytruncate): no hole is left where we were. */
    int file = os->open(os, PATH, DBK_OPEN_WRITE);
    assert_int_equal(os->ftruncate(os, file, 0), 0);
    assert_int_equal(os->close(os, file), 0);
    w->accepted[2] = false;
    assert_int_equal(write_soon(w, 3), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).lines, 2 * BATCH_ROWS);
}

static void test_one_writer_a_file(void **state)
{
    struct world *w = *state;
    struct daybook_sink *other = NULL;
    struct daybook_error err = {0};
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(dbk_file_open_on(&w->disk->os, &w->options, &other, NULL), DAYBOOK_OK);
    assert_int_equal(other->ops->check(other, w->disk->monotonic_us + 1000, &err), DAYBOOK_BUSY);
    assert_non_null(strstr(err.message, "give each destination a file of its own"));
    other->ops->close(other);
}

static void test_T6_a_write_past_its_deadline_leaves_nothing(void **state)
{
    struct world *w = *state;
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(write_batch(w, 1, w->disk->monotonic_us), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_non_null(strstr(w->answer.words.message, "time-out"));
    w->sink->ops->interrupt(w->sink);
    assert_int_equal(write_soon(w, 1), DAYBOOK_ANSWER_UNAVAILABLE);
    assert_non_null(strstr(w->answer.words.message, "stopping"));
    assert_int_equal(look(w).lines, BATCH_ROWS);
}

/* What somebody left at the end: a whole object gets its newline, anything else goes. */
static void test_an_unfinished_end_is_completed_or_cut(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *file;
        unsigned lines; /* besides those of the batch that is written then */
    } cases[] = {
        {"{\"request_id\":\"id-1-0\"}\n{\"request_id\":\"id-1-1\"}", 2},
        {"{\"request_id\":\"id-1-0\"}\n{\"request_id\":\"id-1-", 1},
        {"{\"request_id\":\"id-1-", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sim_put_file(w->disk, PATH, cases[i].file, strlen(cases[i].file));
        open_sink(w);
        assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
        assert_int_equal(look(w).lines, cases[i].lines + BATCH_ROWS);
    }
    static const char hole[] =
        "{\"request_id\":\"id-1-0\"}\n{\"reque\0\0\0\0\n{\"x\":\"id-1-1\"}\n";
    sim_put_file(w->disk, PATH, hole, sizeof hole - 1);
    open_sink(w);
    assert_int_equal(write_soon(w, 0), DAYBOOK_ANSWER_ACCEPTED);
    assert_int_equal(look(w).lines, 1 + BATCH_ROWS);
}

/* ---- crashes and troubles --------------------------------------------------------------------- */

/* The scenario; it goes on whatever is answered. */
static void run(struct world *w)
{
    w->options.rotate_bytes = 12000; /* the file is put aside once */
    open_sink(w);
    for (unsigned b = 0; b < BATCHES; b++) {
        w->accepted[b] = write_soon(w, b) == DAYBOOK_ANSWER_ACCEPTED;
    }
}

/* The machine is back: one batch more, and nothing that was accepted is lost. */
static void come_back(struct world *w)
{
    open_sink(w);
    assert_int_equal(write_soon(w, BATCHES), DAYBOOK_ANSWER_ACCEPTED);
    w->accepted[BATCHES] = true;
    (void)look(w);
}

static uint64_t steps_of_a_run(void)
{
    void *state = NULL;
    setup(&state);
    uint64_t before = world.disk->steps;
    run(&world);
    uint64_t steps = world.disk->steps - before;
    teardown(&state);
    return steps;
}

static void crash_and_return(uint64_t step, unsigned how, bool kill)
{
    void *state = NULL;
    setup(&state);
    world.disk->crash_at = world.disk->steps + step;
    run(&world);
    world.sink->ops->close(world.sink);
    world.sink = NULL;
    if (kill) {
        sim_kill(world.disk);
    } else {
        sim_power_cut(world.disk, how < SIM_KEEP_SUBSET ? (enum sim_profile)how : SIM_KEEP_SUBSET,
                      step * 100 + how);
    }
    come_back(&world);
    teardown(&state);
}

static void test_W1_a_crash_at_every_step_loses_nothing_accepted(void **state)
{
    (void)state;
    uint64_t steps = steps_of_a_run();
    unsigned cases = 0;
    assert_true(steps > 20);
    for (uint64_t step = 1; step <= steps; step++) {
        crash_and_return(step, 0, true);
        for (unsigned how = 0; how < SIM_KEEP_SUBSET + SUBSETS; how++) {
            crash_and_return(step, how, false);
            cases++;
        }
    }
    print_message("# %u crashes\n", cases);
}

static void test_W1_trouble_at_every_step_loses_nothing_accepted(void **state)
{
    (void)state;
    uint64_t steps = steps_of_a_run();
    static const struct sim_injection troubles[] = {
        {.trouble = SIM_FAIL_ONCE, .os_errno = EIO},
        {.trouble = SIM_FAIL_ONCE, .os_errno = ENOSPC},
        {.trouble = SIM_FAIL_ONCE, .os_errno = EINTR},
        {.trouble = SIM_FAIL_STICKY, .os_errno = EIO},
        {.trouble = SIM_SHORT_ONCE, .short_bytes = 700},
    };
    for (uint64_t step = 1; step <= steps; step++) {
        for (size_t t = 0; t < sizeof troubles / sizeof troubles[0]; t++) {
            void *inner = NULL;
            struct sim_injection injection = troubles[t];
            setup(&inner);
            injection.nth = step;
            sim_inject(world.disk, injection);
            run(&world);
            sim_calm(world.disk);
            world.sink->ops->close(world.sink);
            world.sink = NULL;
            sim_power_cut(world.disk, SIM_KEEP_SUBSET, step);
            come_back(&world);
            teardown(&inner);
        }
    }
}

/* A write that says that nothing landed has left nothing; where that could not be seen to, it says so. */
static void test_W12_nothing_landed_is_never_a_lie(void **state)
{
    (void)state;
    static const struct sim_injection troubles[] = {
        {.trouble = SIM_FAIL_ONCE, .os_errno = EIO},
        {.trouble = SIM_FAIL_STICKY, .os_errno = EIO},
        {.trouble = SIM_SHORT_ONCE, .short_bytes = 700},
    };
    unsigned unknown = 0;
    unsigned none = 0;
    for (uint64_t step = 1; step <= 12; step++) {
        for (size_t t = 0; t < sizeof troubles / sizeof troubles[0]; t++) {
            void *inner = NULL;
            struct sim_injection injection = troubles[t];
            setup(&inner);
            open_sink(&world);
            assert_int_equal(write_soon(&world, 0), DAYBOOK_ANSWER_ACCEPTED);
            injection.nth = step;
            sim_inject(world.disk, injection);
            bool accepted = write_soon(&world, 1) == DAYBOOK_ANSWER_ACCEPTED;
            sim_calm(world.disk);
            if (!accepted && world.answer.effect == DAYBOOK_EFFECT_NONE) {
                assert_int_equal(look(&world).lines, BATCH_ROWS);
                none++;
            }
            unknown += !accepted && world.answer.effect == DAYBOOK_EFFECT_UNKNOWN ? 1 : 0;
            teardown(&inner);
        }
    }
    assert_true(none > 0 && unknown > 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_W1_a_line_is_as_exported),
        TEST(test_rotation_by_size_divides_no_batch),
        TEST(test_rotation_by_day),
        TEST(test_a_file_that_was_moved_away_is_made_anew),
        TEST(test_one_writer_a_file),
        TEST(test_T6_a_write_past_its_deadline_leaves_nothing),
        TEST(test_an_unfinished_end_is_completed_or_cut),
        cmocka_unit_test(test_W1_a_crash_at_every_step_loses_nothing_accepted),
        cmocka_unit_test(test_W12_nothing_landed_is_never_a_lie),
        cmocka_unit_test(test_W1_trouble_at_every_step_loses_nothing_accepted),
    };
    return cmocka_run_group_tests_name("the file destination on the simulated disk", tests, NULL,
                                       NULL);
}
