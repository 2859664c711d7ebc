/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of JSON: unescaping, comparing, hashing, escaping; and UTF-8. Threads: any.
 */
#include "json/json.h"

#include <string.h>

#include "base/bytes.h"
#include "json/scan.h"

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

unsigned dbk_utf8_length(const char *at, const char *end)
{
    size_t left = (size_t)(end - at);
    unsigned char c = (unsigned char)at[0];
    if (c < 0x80) {
        return 1;
    }
    if (c < 0xc2 || c > 0xf4 || left < 2 || !is_continuation(at[1])) {
        return 0;
    }
    if (c < 0xe0) {
        return 2;
    }
    unsigned char second = (unsigned char)at[1];
    if (left < 3 || !is_continuation(at[2])) {
        return 0;
    }
    if (c < 0xf0) {
        bool overlong = c == 0xe0 && second < 0xa0;
        bool surrogate = c == 0xed && second >= 0xa0;
        return overlong || surrogate ? 0 : 3;
    }
    bool overlong = c == 0xf0 && second < 0x90;
    bool beyond = c == 0xf4 && second >= 0x90; /* over U+10FFFF */
    return overlong || beyond || left < 4 || !is_continuation(at[3]) ? 0 : 4;
}

/* What stands between the quotes; all of it when there are none. */
static struct daybook_bytes inside(struct daybook_bytes token)
{
    if (token.len < 2) {
        return (struct daybook_bytes){token.data, 0};
    }
    return (struct daybook_bytes){token.data + 1, token.len - 2};
}

static bool has_escape(struct daybook_bytes plain)
{
    return plain.len > 0 && memchr(plain.data, '\\', plain.len) != NULL;
}

void dbk_json_chars_init(struct dbk_json_chars *chars, struct daybook_bytes token)
{
    struct daybook_bytes plain = inside(token);
    chars->at = plain.data;
    chars->end = plain.len > 0 ? plain.data + plain.len : plain.data;
    chars->pending_count = 0;
}

/* Four hexadecimal digits of scanned text; 0 for text that has none. */
static uint32_t hex4(const char *at, const char *end)
{
    uint32_t unit = 0;
    for (unsigned i = 0; i < 4 && at + i < end; i++) {
        char c = at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 0;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Encodes a code point; its first byte is returned, the others become pending. */
static int push(struct dbk_json_chars *chars, uint32_t c)
{
    if (c < 0x80) {
        return (int)c;
    }
    unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    for (unsigned i = 0; i < more; i++) {
        chars->pending[i] = (unsigned char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    chars->pending_count = more;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    return (int)(lead[more] | c);
}

/* An escape, `at` behind its backslash. */
static int unescape(struct dbk_json_chars *chars)
{
    if (chars->at >= chars->end) {
        return '\\';
    }
    char c = *chars->at++;
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'u':
        break;
    default:
        return (unsigned char)c;
    }
    uint32_t unit = hex4(chars->at, chars->end);
    chars->at = chars->end - chars->at > 4 ? chars->at + 4 : chars->end;
    if (unit >= 0xd800 && unit < 0xdc00 && chars->end - chars->at >= 6 && chars->at[0] == '\\' &&
        chars->at[1] == 'u') {
        uint32_t low = hex4(chars->at + 2, chars->end);
        if (low >= 0xdc00 && low <= 0xdfff) {
            chars->at += 6;
            return push(chars, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
        }
    }
    return push(chars, unit);
}

int dbk_json_chars_next(struct dbk_json_chars *chars)
{
    if (chars->pending_count > 0) {
        return chars->pending[--chars->pending_count];
    }
    if (chars->at >= chars->end) {
        return -1;
    }
    char c = *chars->at++;
    return c == '\\' ? unescape(chars) : (unsigned char)c;
}

size_t dbk_json_string_decode(struct daybook_bytes token, char *buf, size_t room)
{
    struct daybook_bytes plain = inside(token);
    if (!has_escape(plain)) {
        if (plain.len > 0 && room > 0) {
            memcpy(buf, plain.data, plain.len < room ? plain.len : room);
        }
        return plain.len;
    }
    struct dbk_json_chars chars;
    dbk_json_chars_init(&chars, token);
    size_t count = 0;
    for (int c = dbk_json_chars_next(&chars); c >= 0; c = dbk_json_chars_next(&chars)) {
        if (count < room) {
            buf[count] = (char)c;
        }
        count++;
    }
    return count;
}

int dbk_json_string_compare(struct daybook_bytes a, struct daybook_bytes b)
{
    if (a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0)) {
        return 0;
    }
    struct daybook_bytes plain_a = inside(a);
    struct daybook_bytes plain_b = inside(b);
    if (!has_escape(plain_a) && !has_escape(plain_b)) {
        size_t common = plain_a.len < plain_b.len ? plain_a.len : plain_b.len;
        int order = common > 0 ? memcmp(plain_a.data, plain_b.data, common) : 0;
        return order != 0 ? order : (plain_a.len > plain_b.len) - (plain_a.len < plain_b.len);
    }
    /* Bytes of UTF-8 order as code points do. */
    struct dbk_json_chars chars_a;
    struct dbk_json_chars chars_b;
    dbk_json_chars_init(&chars_a, a);
    dbk_json_chars_init(&chars_b, b);
    int x;
    int y;
    do {
        x = dbk_json_chars_next(&chars_a);
        y = dbk_json_chars_next(&chars_b);
    } while (x == y && x >= 0);
    return x - y;
}

bool dbk_json_string_is(struct daybook_bytes token, struct daybook_bytes plain)
{
    struct daybook_bytes text = inside(token);
    if (text.len < plain.len) {
        return false; /* an escape is never shorter than what it stands for */
    }
    if (!has_escape(text)) {
        return text.len == plain.len &&
               (plain.len == 0 || memcmp(text.data, plain.data, plain.len) == 0);
    }
    struct dbk_json_chars chars;
    dbk_json_chars_init(&chars, token);
    for (size_t i = 0; i < plain.len; i++) {
        if (dbk_json_chars_next(&chars) != (unsigned char)plain.data[i]) {
            return false;
        }
    }
    return dbk_json_chars_next(&chars) < 0;
}

uint32_t dbk_json_string_hash(struct daybook_bytes token)
{
    struct daybook_bytes plain = inside(token);
    if (!has_escape(plain)) {
        return dbk_json_plain_hash(plain.data, plain.len);
    }
    struct dbk_json_chars chars;
    dbk_json_chars_init(&chars, token);
    uint64_t hash = 0;
    uint64_t word = 0;
    size_t len = 0;
    for (int c = dbk_json_chars_next(&chars); c >= 0; c = dbk_json_chars_next(&chars)) {
        word |= (uint64_t)c << (8 * (len % 8));
        if (++len % 8 == 0) {
            hash = dbk_json_hash_mix(hash, word);
            word = 0;
        }
    }
    if (len % 8 != 0) {
        hash = dbk_json_hash_mix(hash, word);
    }
    return dbk_json_hash_end(hash, len);
}

/* Output that counts on after its room is used up. */
struct output {
    char *buf;
    size_t room;
    size_t count;
};

static void put(struct output *out, const char *bytes, size_t n)
{
    if (out->count + n <= out->room) {
        memcpy(out->buf + out->count, bytes, n);
    }
    out->count += n;
}

/* The letter of a two-character escape, 0 when there is none. */
static char short_escape(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

/* How many bytes from the first on stand for themselves: ASCII but for what is escaped. */
static size_t plain_run(const char *at, size_t len)
{
    size_t n = 0;
    while (n < len && at[n] != '"' && at[n] != '\\' && (unsigned char)at[n] >= ' ' &&
           (unsigned char)at[n] < 0x80) {
        n++;
    }
    return n;
}

size_t dbk_json_escape(struct daybook_bytes text, char *buf, size_t room)
{
    static const char digits[] = "0123456789abcdef";
    struct output out = {buf, room, 0};
    put(&out, "\"", 1);
    for (size_t i = 0; i < text.len;) {
        const char *at = text.data + i;
        size_t run = plain_run(at, text.len - i);
        if (run > 0) {
            put(&out, at, run);
            i += run;
            continue;
        }
        unsigned n = dbk_utf8_length(at, text.data + text.len);
        char letter = short_escape(*at);
        if (n == 0) {
            put(&out, "\xef\xbf\xbd", 3);
            n = 1;
        } else if (letter != 0) {
            put(&out, (const char[]){'\\', letter}, 2);
        } else if ((unsigned char)*at < 0x20) {
            put(&out, (const char[]){'\\', 'u', '0', '0', digits[*at >> 4], digits[*at & 15]}, 6);
        } else {
            put(&out, at, n);
        }
        i += n;
    }
    put(&out, "\"", 1);
    return out.count;
}
