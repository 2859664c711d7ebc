/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times as E5 reads and writes them: RFC 3339 with a zone, microseconds since the Unix epoch. The
 * calendar is the proleptic Gregorian one, computed here; no locale, no zone database. Threads:
 * any.
 */
#include <daybook/event.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define US_PER_SECOND INT64_C(1000000)
#define SECONDS_PER_DAY INT64_C(86400)
#define DAYS_PER_ERA INT64_C(146097)  /* 400 years */
#define DAYS_TO_EPOCH INT64_C(719468) /* from 0000-03-01 to 1970-01-01 */

/* Days since the epoch of a date; years are counted from March, so that the leap day comes last. */
static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2 ? 1 : 0;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* What is left to read. */
struct cursor {
    const char *at;
    const char *end;
};

/* Exactly `count` digits; -1 when they are not there. */
static int take_number(struct cursor *in, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++, in->at++) {
        if (in->at >= in->end || *in->at < '0' || *in->at > '9') {
            return -1;
        }
        value = value * 10 + (*in->at - '0');
    }
    return value;
}

static bool take(struct cursor *in, char upper, char lower)
{
    if (in->at < in->end && (*in->at == upper || *in->at == lower)) {
        in->at++;
        return true;
    }
    return false;
}

/* Digits behind a point, cut after the sixth; -1 when there is none. */
static int64_t take_fraction(struct cursor *in)
{
    int64_t us = 0;
    int64_t unit = US_PER_SECOND;
    const char *begin = in->at;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
        unit /= 10;
        us += unit * (*in->at - '0');
    }
    return in->at == begin ? -1 : us;
}

/* The zone: seconds east of UTC. False when there is none. */
static bool take_zone(struct cursor *in, int64_t *ret_seconds)
{
    if (take(in, 'Z', 'z')) {
        *ret_seconds = 0;
        return true;
    }
    bool west = in->at < in->end && *in->at == '-';
    if (!take(in, '+', '-')) {
        return false;
    }
    int hours = take_number(in, 2);
    bool colon = take(in, ':', ':');
    int minutes = take_number(in, 2);
    if (hours < 0 || hours > 23 || !colon || minutes < 0 || minutes > 59) {
        return false;
    }
    *ret_seconds = (west ? -1 : 1) * (hours * INT64_C(3600) + minutes * INT64_C(60));
    return true;
}

static enum daybook_code refuse(struct daybook_error *err, const char *why)
{
    return dbk_fail(err, DAYBOOK_INVALID_EVENT,
                    "%s; an RFC 3339 time with a zone is wanted, as 2026-01-31T12:00:00.25Z", why);
}

static const char *check_clock(int hour, int minute, int second)
{
    if (hour == 24) {
        return "the hour 24 is not taken: it is 00 of the next day";
    }
    if (second == 60) {
        return "the second 60 (a leap second) is not taken";
    }
    return hour > 23 || minute > 59 || second > 59 ? "there is no such time of day" : NULL;
}

enum daybook_code daybook_time_parse(struct daybook_bytes text, int64_t *ret_us,
                                     struct daybook_error *err)
{
    struct cursor in = {text.data, text.len > 0 ? text.data + text.len : text.data};
    int year = take_number(&in, 4);
    bool shape = take(&in, '-', '-');
    int month = take_number(&in, 2);
    shape = take(&in, '-', '-') && shape;
    int day = take_number(&in, 2);
    shape = take(&in, 'T', 't') && shape;
    int hour = take_number(&in, 2);
    shape = take(&in, ':', ':') && shape;
    int minute = take_number(&in, 2);
    shape = take(&in, ':', ':') && shape;
    int second = take_number(&in, 2);
    if (!shape || year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0) {
        return refuse(err, "this is no date and time");
    }
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) {
        return refuse(err, "there is no such date");
    }
    const char *why = check_clock(hour, minute, second);
    if (why != NULL) {
        return refuse(err, why);
    }
    int64_t fraction_us = take(&in, '.', '.') ? take_fraction(&in) : 0;
    if (fraction_us < 0) {
        return refuse(err, "no digits follow the point");
    }
    if (in.at == in.end) {
        return refuse(err, "the time has no zone");
    }
    int64_t zone_s = 0;
    if (!take_zone(&in, &zone_s) || in.at != in.end) {
        return refuse(err, "the zone is neither Z nor of the form +hh:mm");
    }
    int64_t seconds = days_from_date(year, month, day) * SECONDS_PER_DAY + hour * INT64_C(3600) +
                      minute * INT64_C(60) + second - zone_s;
    int64_t us = seconds * US_PER_SECOND + fraction_us;
    if (us < DAYBOOK_OBSERVED_MIN_US || us >= DAYBOOK_OBSERVED_END_US) {
        return refuse(err, "the time is not in the years 2000 to 2099");
    }
    *ret_us = us;
    return DAYBOOK_OK;
}

/* Division that rounds down. */
static int64_t divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

size_t daybook_time_format(int64_t us, char *buf)
{
    int64_t seconds = divide(us, US_PER_SECOND);
    int64_t of_second_us = us % US_PER_SECOND + (us % US_PER_SECOND < 0 ? US_PER_SECOND : 0);
    int64_t days = divide(seconds, SECONDS_PER_DAY);
    int64_t of_day = seconds - days * SECONDS_PER_DAY;
    int64_t from_march = days + DAYS_TO_EPOCH;
    int64_t era = divide(from_march, DAYS_PER_ERA);
    int64_t day_of_era = from_march - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
    int n = snprintf(buf, DAYBOOK_TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (int)year,
                     (int)month, (int)day, (int)(of_day / 3600), (int)(of_day / 60 % 60),
                     (int)(of_day % 60), (int)of_second_us);
    return n > 0 ? (size_t)n : 0;
}
