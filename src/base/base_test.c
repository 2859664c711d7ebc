/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of the house: codes, errors, checksums, threads and their ranks, memory, faults.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <errno.h>
#include <cmocka.h>

#include <daybook/base.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/thread.h"

#define PAST_THE_CODES ((enum daybook_code)DAYBOOK_CODE_COUNT)

/* ---- codes ---------------------------------------------------------------------------------- */

static void test_codes_have_distinct_names(void **state)
{
    (void)state;
    for (int i = 0; i < DAYBOOK_CODE_COUNT; i++) {
        const char *name = daybook_code_name((enum daybook_code)i);

        assert_true(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
        assert_string_not_equal(name, "unknown_code");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(name, daybook_code_name((enum daybook_code)k));
        }
    }
    assert_string_equal(daybook_code_name(PAST_THE_CODES), "unknown_code");
    assert_int_equal(daybook_code_class(PAST_THE_CODES), DAYBOOK_CLASS_MISUSE);
    assert_int_equal(daybook_code_http_status(PAST_THE_CODES), 500);
}

static void test_A5_only_backend_and_timed_out_are_unknown(void **state)
{
    (void)state;
    for (int i = 0; i < DAYBOOK_CODE_COUNT; i++) {
        enum daybook_code code = (enum daybook_code)i;

        assert_int_equal(daybook_code_class(code) == DAYBOOK_CLASS_UNKNOWN,
                         code == DAYBOOK_BACKEND || code == DAYBOOK_TIMED_OUT);
    }
}

static void test_M2_http_answers_of_an_append(void **state)
{
    static const struct {
        enum daybook_code code;
        int status;
        const char *name;
    } rows[] = {
        {DAYBOOK_OK, 201, "ok"},
        {DAYBOOK_ALREADY_PRESENT, 200, "already_present"},
        {DAYBOOK_CONFLICT, 409, "conflict"},
        {DAYBOOK_INVALID_EVENT, 422, "invalid_event"},
        {DAYBOOK_TOO_LARGE, 413, "too_large"},
        {DAYBOOK_MALFORMED_JSON, 400, "malformed_json"},
        {DAYBOOK_AT_CAPACITY, 503, "usage_not_durable"},
        {DAYBOOK_BACKEND, 503, "usage_not_durable"},
        {DAYBOOK_TIMED_OUT, 503, "usage_not_durable"},
        {DAYBOOK_DRAINING, 503, "usage_not_durable"},
        {DAYBOOK_NO_MEMORY, 503, "usage_not_durable"},
        {DAYBOOK_NOT_FOUND, 404, "not_found"},
        {DAYBOOK_BUSY, 409, "busy"},
        {DAYBOOK_ALREADY_ACKNOWLEDGED, 409, "already_acknowledged"},
        {DAYBOOK_BAD_ARGUMENT, 400, "bad_argument"},
        {DAYBOOK_DAMAGED, 500, "damaged"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(daybook_code_http_status(rows[i].code), rows[i].status);
        assert_string_equal(daybook_code_http_name(rows[i].code), rows[i].name);
    }
}

static void test_version(void **state)
{
    (void)state;
    assert_string_equal(daybook_version(), DAYBOOK_VERSION);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void test_error_is_filled_and_optional(void **state)
{
    struct daybook_error err;

    (void)state;
    memset(&err, 0xAA, sizeof err);
    assert_int_equal(dbk_fail(&err, DAYBOOK_BUSY, "%s is held", "x"), DAYBOOK_BUSY);
    assert_int_equal(err.code, DAYBOOK_BUSY);
    assert_int_equal(err.os_errno, 0);
    assert_int_equal(err.offset, 0);
    assert_string_equal(err.message, "x is held");
    assert_int_equal(dbk_fail(NULL, DAYBOOK_BUSY, "x"), DAYBOOK_BUSY);
    assert_int_equal(dbk_fail_os(NULL, DAYBOOK_BUSY, EIO, "x"), DAYBOOK_BUSY);

    assert_int_equal(dbk_fail_os(&err, DAYBOOK_BACKEND, ENOSPC, "cannot write %s", "f"),
                     DAYBOOK_BACKEND);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_string_equal(err.message, "cannot write f: No space left on device");
}

static void test_error_is_cut_before_a_utf8_sequence(void **state)
{
    static const char *const letters[] = {"a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    struct daybook_error err;
    char text[2 * sizeof err.message];

    (void)state;
    for (size_t l = 0; l < 4; l++) {
        size_t letter_len = strlen(letters[l]);

        for (size_t pad = 0; pad < letter_len; pad++) {
            size_t used = pad;
            size_t len;

            memset(text, '.', pad);
            while (used + letter_len < sizeof text) {
                memcpy(text + used, letters[l], letter_len);
                used += letter_len;
            }
            text[used] = '\0';
            (void)dbk_fail(&err, DAYBOOK_BUSY, "%s", text);
            len = strlen(err.message);
            assert_int_equal((len - pad) % letter_len, 0);
            assert_true(len + letter_len > sizeof err.message - 1);
            assert_memory_equal(err.message, text, len);
        }
    }
}

static void test_error_of_the_system_fits_after_a_full_message(void **state)
{
    struct daybook_error err;
    char text[sizeof err.message + 8];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)dbk_fail_os(&err, DAYBOOK_BACKEND, EIO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

/* ---- checksums ------------------------------------------------------------------------------ */

/* The values of RFC 3720, appendix B.4, and the usual check value. */
static void test_crc32c_published_values(void **state)
{
    uint8_t bytes[32];
    uint32_t (*const forms[])(uint32_t, const void *, size_t) = {dbk_crc32c, dbk_crc32c_soft};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(forms[f](0, "123456789", 9), 0xe3069283u);
        assert_int_equal(forms[f](0, "", 0), 0);
        memset(bytes, 0, sizeof bytes);
        assert_int_equal(forms[f](0, bytes, sizeof bytes), 0x8a9136aau);
        memset(bytes, 0xff, sizeof bytes);
        assert_int_equal(forms[f](0, bytes, sizeof bytes), 0x62a8ab43u);
        for (uint8_t i = 0; i < 32; i++) {
            bytes[i] = i;
        }
        assert_int_equal(forms[f](0, bytes, sizeof bytes), 0x46dd794eu);
    }
}

/* One bit at a time: slow and plain, the reference for the two fast forms. */
static uint32_t crc32c_by_bits(const uint8_t *p, size_t len)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0);
        }
    }
    return ~crc;
}

static void test_crc32c_every_length_alignment_and_cut(void **state)
{
    enum { SIZE = 1600 };
    static uint8_t bytes[SIZE + 8];
    uint32_t seed = 12345;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    for (size_t len = 0; len <= SIZE; len += len < 600 ? 1 : 37) {
        const uint8_t *p = bytes + len % 8;
        uint32_t want = crc32c_by_bits(p, len);
        size_t cut = len * 2 / 3;

        assert_int_equal(dbk_crc32c(0, p, len), want);
        assert_int_equal(dbk_crc32c_soft(0, p, len), want);
        assert_int_equal(dbk_crc32c(dbk_crc32c(0, p, cut), p + cut, len - cut), want);
        assert_int_equal(dbk_crc32c_soft(dbk_crc32c(0, p, cut), p + cut, len - cut), want);
    }
}

static void test_bytes_are_little_endian(void **state)
{
    uint8_t p[8];

    (void)state;
    dbk_put_u64(p, UINT64_C(0x0102030405060708));
    assert_memory_equal(p, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    assert_true(dbk_get_u64(p) == UINT64_C(0x0102030405060708));
    dbk_put_i64(p, -2);
    assert_true(dbk_get_i64(p) == -2);
    dbk_put_u16(p, 0xFFFE);
    assert_int_equal(dbk_get_u16(p), 0xFFFE);
    assert_int_equal(dbk_round_up(0, 4096), 0);
    assert_int_equal(dbk_round_up(1, 4096), 4096);
    assert_int_equal(dbk_round_up(4096, 4096), 4096);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_reserve_is_zeroed_and_costs_nothing_untouched(void **state)
{
    const size_t bytes = (size_t)1 << 36;
    uint8_t *memory = dbk_reserve(bytes);

    (void)state;
    assert_non_null(memory);
    assert_int_equal(memory[0], 0);
    assert_int_equal(memory[bytes - 1], 0);
    memory[bytes / 2] = 1;
    dbk_unreserve(memory, bytes);
    dbk_unreserve(NULL, 0);
    assert_null(dbk_reserve(SIZE_MAX / 2));
}

/* ---- threads -------------------------------------------------------------------------------- */

struct meeting {
    _Atomic uint32_t word;
    _Atomic uint32_t arrived;
    sigset_t mask;
};

static void *waiter(void *arg)
{
    struct meeting *meeting = arg;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &meeting->mask);
    atomic_fetch_add(&meeting->arrived, 1);
    while (atomic_load(&meeting->word) == 0) {
        dbk_futex_wait(&meeting->word, 0, -1);
    }
    return NULL;
}

static void test_thread_blocks_signals_and_wakes(void **state)
{
    struct meeting meeting = {0};
    struct dbk_thread threads[3];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(dbk_thread_start(&threads[i], "waiter", waiter, &meeting), 0);
    }
    atomic_store(&meeting.word, 1);
    dbk_futex_wake_one(&meeting.word);
    dbk_futex_wake_all(&meeting.word);
    for (size_t i = 0; i < 3; i++) {
        dbk_thread_join(&threads[i]);
    }
    assert_int_equal(atomic_load(&meeting.arrived), 3);
    assert_int_equal(sigismember(&meeting.mask, SIGTERM), 1);
    assert_int_equal(sigismember(&meeting.mask, SIGINT), 1);
}

static void test_J1_futex_wait_ends(void **state)
{
    _Atomic uint32_t word = 5;

    (void)state;
    dbk_futex_wait(&word, 4, -1); /* the word differs: at once */
    dbk_futex_wait(&word, 5, 1);  /* the time is over */
    dbk_futex_wait(&word, 5, 0);
    assert_int_equal(atomic_load(&word), 5);
}

struct counted {
    struct dbk_mutex mutex;
    unsigned count;
};

#define COUNT_ROUNDS 2000

static void *count_up(void *arg)
{
    struct counted *counted = arg;

    for (int i = 0; i < COUNT_ROUNDS; i++) {
        dbk_mutex_lock(&counted->mutex);
        counted->count++;
        dbk_mutex_unlock(&counted->mutex);
    }
    return NULL;
}

static void test_mutex_excludes(void **state)
{
    struct counted counted = {.count = 0};
    struct dbk_thread threads[2];

    (void)state;
    dbk_mutex_init(&counted.mutex, DBK_RANK_STATE);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(dbk_thread_start(&threads[i], "counter", count_up, &counted), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        dbk_thread_join(&threads[i]);
    }
    assert_int_equal(counted.count, 2 * COUNT_ROUNDS);
    dbk_mutex_release(&counted.mutex);
}

/* Runs `body` in a child; returns the signal that ended it, 0 for an orderly end. */
static int signal_of(void (*body)(void))
{
    int status = 0;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        (void)fclose(stderr);           /* the message is expected */
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void fail_an_assert(void)
{
    dbk_assert(1 + 1 == 3);
}

static void keep_an_assert(void)
{
    dbk_assert(1 + 1 == 2);
}

static void test_assert_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(signal_of(fail_an_assert), SIGABRT);
    assert_int_equal(signal_of(keep_an_assert), 0);
}

#ifdef DBK_LOCK_RANKS
static void lock_two(enum dbk_rank first, enum dbk_rank second)
{
    struct dbk_mutex a;
    struct dbk_mutex b;

    dbk_mutex_init(&a, first);
    dbk_mutex_init(&b, second);
    dbk_mutex_lock(&a);
    dbk_mutex_lock(&b);
    dbk_mutex_unlock(&a); /* out of order: allowed */
    dbk_mutex_unlock(&b);
    dbk_mutex_lock(&a);
    dbk_mutex_unlock(&a);
    dbk_mutex_release(&b);
    dbk_mutex_release(&a);
}

static void lock_upwards(void)
{
    lock_two(DBK_RANK_STATE, DBK_RANK_STAGE);
}

static void lock_downwards(void)
{
    lock_two(DBK_RANK_STAGE, DBK_RANK_STATE);
}

static void lock_one_rank_twice(void)
{
    lock_two(DBK_RANK_STATE, DBK_RANK_STATE);
}

static void unlock_what_is_not_held(void)
{
    struct dbk_mutex a;

    dbk_mutex_init(&a, DBK_RANK_STATE);
    dbk_mutex_unlock(&a);
}

static void test_lock_ranks_only_upwards(void **state)
{
    (void)state;
    assert_int_equal(signal_of(lock_upwards), 0);
    assert_int_equal(signal_of(lock_downwards), SIGABRT);
    assert_int_equal(signal_of(lock_one_rank_twice), SIGABRT);
    assert_int_equal(signal_of(unlock_what_is_not_held), SIGABRT);
}
#endif

/* ---- faults --------------------------------------------------------------------------------- */

static void test_faults_are_off_until_chosen(void **state)
{
    (void)state;
    for (int i = 0; i < DBK_FAULT_COUNT; i++) {
        assert_false(dbk_fault((enum dbk_fault)i));
    }
#ifdef DBK_FAULTS
    for (int i = 1; i < DBK_FAULT_COUNT; i++) {
        dbk_fault_set((enum dbk_fault)i);
        for (int k = 0; k < DBK_FAULT_COUNT; k++) {
            assert_int_equal(dbk_fault((enum dbk_fault)k), k == i);
        }
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(dbk_fault_name((enum dbk_fault)i),
                                    dbk_fault_name((enum dbk_fault)k));
        }
    }
    dbk_fault_set(DBK_FAULT_NONE);
    assert_false(dbk_fault(DBK_FAULT_NO_FDATASYNC));
    assert_string_equal(dbk_fault_name(DBK_FAULT_NO_FDATASYNC), "no_fdatasync");
    assert_string_equal(dbk_fault_name((enum dbk_fault)DBK_FAULT_COUNT), "unknown_fault");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_have_distinct_names),
        cmocka_unit_test(test_A5_only_backend_and_timed_out_are_unknown),
        cmocka_unit_test(test_M2_http_answers_of_an_append),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_error_is_filled_and_optional),
        cmocka_unit_test(test_error_is_cut_before_a_utf8_sequence),
        cmocka_unit_test(test_error_of_the_system_fits_after_a_full_message),
        cmocka_unit_test(test_crc32c_published_values),
        cmocka_unit_test(test_crc32c_every_length_alignment_and_cut),
        cmocka_unit_test(test_bytes_are_little_endian),
        cmocka_unit_test(test_reserve_is_zeroed_and_costs_nothing_untouched),
        cmocka_unit_test(test_thread_blocks_signals_and_wakes),
        cmocka_unit_test(test_J1_futex_wait_ends),
        cmocka_unit_test(test_mutex_excludes),
        cmocka_unit_test(test_assert_ends_the_process),
#ifdef DBK_LOCK_RANKS
        cmocka_unit_test(test_lock_ranks_only_upwards),
#endif
        cmocka_unit_test(test_faults_are_off_until_chosen),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
