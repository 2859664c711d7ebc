/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of JSON by exact decimal value, of any length and exponent, without allocation.
 *
 * A number is taken as 0.d1d2...dn times ten to (e + shift): the digits without zeros at either
 * end; e, the exponent as it was written, may itself be longer than any machine word and stays
 * text; shift is where the point stands, bounded by the length of the text. Threads: any.
 */
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

/* Above every shift (texts are shorter than 2^32 bytes) and far below overflow of a step. */
#define DIFFERENCE_MAX (INT64_C(1) << 40)
#define INT64_DIGITS_MAX 19

struct decimal {
    bool negative;
    struct daybook_bytes
        digits;         /* from the first to the last that is not 0; a '.' may stand inside */
    size_t digit_count; /* 0: the number is zero */
    int64_t shift;
    bool exponent_negative;
    struct daybook_bytes exponent; /* digits without leading zeros; empty: 0 */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes digits and point apart; returns where they end. */
static const char *take_digits(const char *at, const char *end, struct decimal *ret)
{
    const char *first = NULL; /* digits that are not 0 */
    const char *last = NULL;
    const char *point = NULL;
    for (; at < end && (is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            point = at;
        } else if (*at != '0') {
            first = first == NULL ? at : first;
            last = at;
        }
    }
    if (first == NULL) {
        ret->digits = (struct daybook_bytes){at, 0};
        ret->digit_count = 0;
        ret->shift = 0;
        return at;
    }
    if (point == NULL) {
        point = at;
    }
    ret->digits = (struct daybook_bytes){first, (size_t)(last - first) + 1};
    ret->digit_count = ret->digits.len - (first < point && point < last ? 1 : 0);
    /* 123. is 0.123 times ten to 3; .00123 is 0.123 times ten to -2 (its point does not count). */
    ret->shift = first < point ? point - first : -(first - point - 1);
    return at;
}

static struct decimal take_apart(struct daybook_bytes token)
{
    struct decimal ret = {0};
    const char *at = token.data;
    const char *end = token.len > 0 ? token.data + token.len : token.data;
    if (at < end && *at == '-') {
        ret.negative = true;
        at++;
    }
    at = take_digits(at, end, &ret);
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) {
            ret.exponent_negative = *at == '-';
            at++;
        }
        while (at < end && *at == '0') {
            at++;
        }
        ret.exponent = (struct daybook_bytes){at, (size_t)(end - at)};
    }
    return ret;
}

static int digit_of(struct daybook_bytes digits, size_t places, size_t i)
{
    size_t lead = places - digits.len;
    return i < lead ? 0 : digits.data[i - lead] - '0';
}

/* The written exponent of a minus that of b; beyond DIFFERENCE_MAX only that it is beyond. */
static int64_t exponent_difference(const struct decimal *a, const struct decimal *b)
{
    size_t places = a->exponent.len > b->exponent.len ? a->exponent.len : b->exponent.len;
    int sign_a = a->exponent_negative ? -1 : 1;
    int sign_b = b->exponent_negative ? -1 : 1;
    int64_t difference = 0;
    /* From the highest place down. Each further place multiplies by ten and adds at most 18, so a
     * difference that is beyond the bound stays there. */
    for (size_t i = 0; i < places; i++) {
        difference = difference * 10 + sign_a * digit_of(a->exponent, places, i) -
                     sign_b * digit_of(b->exponent, places, i);
        if (difference > DIFFERENCE_MAX || difference < -DIFFERENCE_MAX) {
            return difference;
        }
    }
    return difference;
}

static bool same_digits(const struct decimal *a, const struct decimal *b)
{
    if (a->digit_count != b->digit_count) {
        return false;
    }
    size_t i = 0;
    size_t j = 0;
    for (size_t n = 0; n < a->digit_count; n++, i++, j++) {
        i += a->digits.data[i] == '.' ? 1 : 0;
        j += b->digits.data[j] == '.' ? 1 : 0;
        if (a->digits.data[i] != b->digits.data[j]) {
            return false;
        }
    }
    return true;
}

bool dbk_json_number_equal(struct daybook_bytes a, struct daybook_bytes b)
{
    if (a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0)) {
        return true;
    }
    if (dbk_fault(DBK_FAULT_NUMBERS_AS_DOUBLES)) {
        return strtod(a.data, NULL) == strtod(b.data, NULL);
    }
    struct decimal x = take_apart(a);
    struct decimal y = take_apart(b);
    if (x.digit_count == 0 || y.digit_count == 0) {
        return x.digit_count == y.digit_count;
    }
    return x.negative == y.negative && same_digits(&x, &y) &&
           exponent_difference(&x, &y) == y.shift - x.shift;
}

bool dbk_json_number_int64(struct daybook_bytes token, int64_t *ret_value)
{
    struct decimal x = take_apart(token);
    if (x.digit_count == 0) {
        *ret_value = 0;
        return true;
    }
    static const struct decimal no_exponent = {0};
    int64_t places = exponent_difference(&x, &no_exponent) + x.shift;
    if (places > INT64_DIGITS_MAX || places < (int64_t)x.digit_count) {
        return false;
    }
    uint64_t value = 0; /* 19 digits fit */
    size_t at = 0;
    for (int64_t i = 0; i < places; i++) {
        unsigned digit = 0;
        if ((size_t)i < x.digit_count) {
            at += x.digits.data[at] == '.' ? 1 : 0;
            digit = (unsigned)(x.digits.data[at++] - '0');
        }
        value = value * 10 + digit;
    }
    uint64_t bound = x.negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    if (value > bound) {
        return false;
    }
    *ret_value = x.negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}
