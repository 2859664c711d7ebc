/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies as they arrive: limits, gzip in pieces of every size, damage, bombs, the budget of all bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "daemon/body.h"
#include "daemon/gunzip.h"

#define PLAIN_BYTES 100000u

static _Atomic uint64_t budget;

/* One gzip member; returns its length. */
static size_t gzip(const char *plain, size_t len, char *out, size_t room)
{
    z_stream z;
    memset(&z, 0, sizeof z);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    char *in = malloc(len + 1);
    assert_non_null(in);
    memcpy(in, plain, len);
    z.next_in = (Bytef *)in;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    free(in);
    return room - z.avail_out;
}

/* Text that shrinks, but not to nothing. */
static char *plain_text(void)
{
    char *text = malloc(PLAIN_BYTES);
    uint32_t x = 1;
    assert_non_null(text);
    for (size_t i = 0; i < PLAIN_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        text[i] = (char)('a' + (x >> 24) % 16);
    }
    return text;
}

static enum daybook_code take(struct dbk_body *body, const char *data, size_t len, size_t piece,
                              struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    for (size_t at = 0; at < len && code == DAYBOOK_OK; at += piece) {
        code = dbk_body_take(body, data + at, len - at < piece ? len - at : piece, err);
    }
    return code == DAYBOOK_OK ? dbk_body_end(body, err) : code;
}

static enum daybook_code take_gzip(const char *data, size_t len, size_t piece, uint64_t most,
                                   struct dbk_body *body, struct daybook_error *err)
{
    *err = (struct daybook_error){0};
    assert_int_equal(dbk_body_begin(body, DBK_ENCODING_GZIP, most, &budget, NULL), DAYBOOK_OK);
    return take(body, data, len, piece, err);
}

static void end(struct dbk_body *body)
{
    dbk_body_release(body);
    assert_int_equal(budget, 0);
}

static void test_gzip_in_pieces_of_any_size(void **state)
{
    (void)state;
    char *plain = plain_text();
    char *packed = malloc(PLAIN_BYTES);
    size_t len = gzip(plain, PLAIN_BYTES, packed, PLAIN_BYTES);
    static const size_t pieces[] = {1, 7, 512, 4096, PLAIN_BYTES};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct dbk_body body = {0};
        struct daybook_error err;
        assert_int_equal(take_gzip(packed, len, pieces[i], PLAIN_BYTES, &body, &err), DAYBOOK_OK);
        assert_int_equal(body.len, PLAIN_BYTES);
        assert_memory_equal(body.data, plain, PLAIN_BYTES);
        end(&body);
        /* The limit is that of what it becomes, to the byte. */
        assert_int_equal(take_gzip(packed, len, pieces[i], PLAIN_BYTES - 1, &body, &err),
                         DAYBOOK_TOO_LARGE);
        assert_non_null(strstr(err.message, "once it is expanded"));
        end(&body);
    }
    free(plain);
    free(packed);
}

static void test_gzip_members_follow_each_other(void **state)
{
    (void)state;
    char packed[256];
    struct dbk_body body = {0};
    struct daybook_error err;
    size_t len = gzip("one,", 4, packed, sizeof packed);
    len += gzip("", 0, packed + len, sizeof packed - len);
    len += gzip("two", 3, packed + len, sizeof packed - len);
    for (size_t piece = 1; piece <= len; piece++) {
        assert_int_equal(take_gzip(packed, len, piece, 7, &body, &err), DAYBOOK_OK);
        assert_int_equal(body.len, 7);
        assert_memory_equal(body.data, "one,two", 7);
        end(&body);
    }
    /* Nothing else may follow. */
    packed[len++] = 'x';
    assert_int_equal(take_gzip(packed, len, 3, 100, &body, &err), DAYBOOK_MALFORMED_JSON);
    end(&body);
}

static void test_gzip_that_ends_early_is_malformed(void **state)
{
    (void)state;
    char packed[256];
    size_t len = gzip("{\"request_id\":\"a\"}", 18, packed, sizeof packed);
    for (size_t cut = 0; cut < len; cut++) {
        struct dbk_body body = {0};
        struct daybook_error err;
        assert_int_equal(take_gzip(packed, cut, 4, 100, &body, &err), DAYBOOK_MALFORMED_JSON);
        assert_int_equal(err.offset, cut);
        assert_non_null(strstr(err.message, "ends too early"));
        end(&body);
    }
    for (size_t bit = 0; bit < 8 * len; bit++) {
        struct dbk_body body = {0};
        struct daybook_error err;
        packed[bit / 8] = (char)(packed[bit / 8] ^ (1 << bit % 8));
        enum daybook_code code = take_gzip(packed, len, len, 100, &body, &err);
        /* Bits that say nothing of the content (a time, a system, padding) may differ. */
        if (code == DAYBOOK_OK) {
            assert_int_equal(body.len, 18);
            assert_memory_equal(body.data, "{\"request_id\":\"a\"}", 18);
        } else {
            /* Before the checksum comes, it can have become too much. */
            assert_true(code == DAYBOOK_MALFORMED_JSON || code == DAYBOOK_TOO_LARGE);
            assert_true(err.offset <= len);
        }
        packed[bit / 8] = (char)(packed[bit / 8] ^ (1 << bit % 8));
        end(&body);
    }
}

/* 64 MiB of zeros are 64 KiB: refused when the limit is reached, not after. */
static void test_a_bomb_is_refused_early(void **state)
{
    (void)state;
    size_t big = 64u * 1024u * 1024u;
    char *zeros = calloc(1, big);
    char *packed = malloc(256u * 1024u);
    assert_true(zeros != NULL && packed != NULL);
    size_t len = gzip(zeros, big, packed, 256u * 1024u);
    struct dbk_body body = {0};
    struct daybook_error err = {0};
    assert_int_equal(dbk_body_begin(&body, DBK_ENCODING_GZIP, 1 << 20, &budget, NULL), DAYBOOK_OK);
    size_t at = 0;
    enum daybook_code code = DAYBOOK_OK;
    for (; at < len && code == DAYBOOK_OK; at += 512) {
        code = dbk_body_take(&body, packed + at, 512, &err);
        assert_true(body.room <= 2u << 20);
    }
    assert_int_equal(code, DAYBOOK_TOO_LARGE);
    assert_true(at < 4096);
    end(&body);
    free(zeros);
    free(packed);
}

static void test_a_plain_body_has_its_limit(void **state)
{
    (void)state;
    struct dbk_body body = {0};
    struct daybook_error err = {0};
    assert_int_equal(dbk_body_begin(&body, DBK_ENCODING_NONE, 10, &budget, NULL), DAYBOOK_OK);
    assert_int_equal(dbk_body_take(&body, "0123456789", 10, &err), DAYBOOK_OK);
    assert_int_equal(dbk_body_take(&body, "x", 1, &err), DAYBOOK_TOO_LARGE);
    assert_non_null(strstr(err.message, "max_body_bytes (10)"));
    end(&body);
    /* What arrives is bounded too: members without content become nothing. */
    char packed[64];
    size_t len = gzip("", 0, packed, sizeof packed);
    assert_int_equal(dbk_body_begin(&body, DBK_ENCODING_GZIP, 100, &budget, NULL), DAYBOOK_OK);
    enum daybook_code code = DAYBOOK_OK;
    for (size_t i = 0; i < 10000 && code == DAYBOOK_OK; i++) {
        code = dbk_body_take(&body, packed, len, &err);
    }
    assert_int_equal(code, DAYBOOK_TOO_LARGE);
    end(&body);
}

static void test_all_bodies_share_a_budget(void **state)
{
    (void)state;
    struct dbk_body body = {0};
    struct daybook_error err = {0};
    budget = DBK_BODIES_BYTES_MAX - 1000;
    assert_int_equal(dbk_body_begin(&body, DBK_ENCODING_GZIP, 100, &budget, &err),
                     DAYBOOK_NO_MEMORY);
    dbk_body_release(&body);
    assert_int_equal(dbk_body_begin(&body, DBK_ENCODING_NONE, 100, &budget, &err), DAYBOOK_OK);
    assert_int_equal(dbk_body_take(&body, "x", 1, &err), DAYBOOK_NO_MEMORY);
    assert_non_null(strstr(err.message, "too many bodies at once"));
    dbk_body_release(&body);
    assert_int_equal(budget, DBK_BODIES_BYTES_MAX - 1000);
    budget = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip_in_pieces_of_any_size),
        cmocka_unit_test(test_gzip_members_follow_each_other),
        cmocka_unit_test(test_gzip_that_ends_early_is_malformed),
        cmocka_unit_test(test_a_bomb_is_refused_early),
        cmocka_unit_test(test_a_plain_body_has_its_limit),
        cmocka_unit_test(test_all_bodies_share_a_budget),
    };
    return cmocka_run_group_tests_name("bodies", tests, NULL, NULL);
}
