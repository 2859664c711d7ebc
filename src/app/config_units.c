/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values with units, starts and addresses, as the configuration writes them. Pure; threads: any.
 */
#include "app/config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <daybook/event.h>

#include "base/error.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000}};
static const struct unit size_units[] = {{"B", 1},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GiB", UINT64_C(1) << 30},
                                         {"TiB", UINT64_C(1) << 40}};

#define POSITION_DIGITS_MAX 18u /* of them every number fits */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Digits and one of the units, nothing else; at most INT64_MAX / 1000, so that a later conversion
 * from milliseconds to microseconds cannot overflow. */
static enum daybook_code with_unit(const char *text, const struct unit *units, size_t count,
                                   const char *mend, uint64_t *ret, struct daybook_error *err)
{
    uint64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (number > UINT64_C(1000000000000000)) {
            return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" is too large", text);
        }
        number = number * 10 + (uint64_t)(*p - '0');
    }
    if (p == text) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" is no number with a unit: write %s", text,
                        mend);
    }
    if (*p == '\0') {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" has no unit: write %s", text, mend);
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(p, units[i].name) == 0) {
            if (number > UINT64_C(9000000000000000) / units[i].factor) {
                return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\" is too large", text);
            }
            *ret = number * units[i].factor;
            return DAYBOOK_OK;
        }
    }
    return dbk_fail(err, DAYBOOK_BAD_CONFIG, "\"%s\": unknown unit \"%s\": write %s", text, p,
                    mend);
}

enum daybook_code dbk_duration_parse(const char *text, int64_t *ret_ms, struct daybook_error *err)
{
    uint64_t ms = 0;
    enum daybook_code code =
        with_unit(text, duration_units, COUNT_OF(duration_units),
                  "a whole number with ms, s, m, h or d, such as 10s", &ms, err);
    if (code == DAYBOOK_OK) {
        *ret_ms = (int64_t)ms;
    }
    return code;
}

enum daybook_code dbk_size_parse(const char *text, uint64_t *ret_bytes, struct daybook_error *err)
{
    return with_unit(text, size_units, COUNT_OF(size_units),
                     "a whole number with B, KiB, MiB, GiB or TiB, such as 16MiB", ret_bytes, err);
}

static enum daybook_code bad_address(const char *text, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                    "\"%s\" is no address with a port: write it like 127.0.0.1:8377 or [::1]:8377 "
                    "(port 0: the system chooses)",
                    text);
}

enum daybook_code dbk_start_parse(const char *text, struct daybook_start *ret,
                                  struct daybook_error *err)
{
    size_t len = strlen(text);
    int64_t time = 0;
    if (strcmp(text, "oldest") == 0) {
        *ret = (struct daybook_start){.kind = DAYBOOK_START_OLDEST};
    } else if (strcmp(text, "now") == 0) {
        *ret = (struct daybook_start){.kind = DAYBOOK_START_NOW};
    } else if (len > 0 && len <= POSITION_DIGITS_MAX && strspn(text, "0123456789") == len) {
        *ret = (struct daybook_start){DAYBOOK_START_POSITION, strtoll(text, NULL, 10)};
    } else if (daybook_time_parse((struct daybook_bytes){text, len}, &time, NULL) == DAYBOOK_OK) {
        *ret = (struct daybook_start){DAYBOOK_START_TIME, time};
    } else {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG,
                        "\"%.80s\" is no start: write oldest, now, a position such as 1000, or a "
                        "time such as 2026-01-01T00:00:00Z",
                        text);
    }
    return DAYBOOK_OK;
}

enum daybook_code dbk_address_parse(const char *text, struct dbk_config_address *ret,
                                    struct daybook_error *err)
{
    const char *colon = strrchr(text, ':');
    char host[128];
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof host) {
        return bad_address(text, err);
    }
    char *end = NULL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535) {
        return bad_address(text, err);
    }
    size_t len = (size_t)(colon - text);
    memcpy(host, text, len);
    host[len] = '\0';
    struct dbk_config_address address = {.length = 0};
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1) {
            return bad_address(text, err);
        }
        memcpy(&address.storage, &v6, sizeof v6);
        address.length = sizeof v6;
    } else {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        const char *numeric = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
        if (inet_pton(AF_INET, numeric, &v4.sin_addr) != 1) {
            return bad_address(text, err);
        }
        memcpy(&address.storage, &v4, sizeof v4);
        address.length = sizeof v4;
    }
    *ret = address;
    return DAYBOOK_OK;
}

bool dbk_address_is_loopback(const struct dbk_config_address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &address->storage, sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    struct sockaddr_in v4;
    memcpy(&v4, &address->storage, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
}
