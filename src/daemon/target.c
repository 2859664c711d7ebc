/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of target.h. */
#include "daemon/target.h"

#include <string.h>

#include "base/error.h"
#include "journal/names.h"

#define SEGMENTS_MAX 6u

/* A segment of a pattern: a word, or a name that stands there. */
#define CONSUMER "{c}"
#define REQUEST_ID "{id}"

struct row {
    enum dbk_route route;
    const char *pattern[SEGMENTS_MAX]; /* ended by NULL where it is shorter */
    const char *allow;
    bool reads;
    bool posts;
    bool deletes;
};

#define READS "GET, HEAD"

/* The first row whose path fits and which takes the method counts; else the first whose path fits. */
static const struct row rows[] = {
    {DBK_ROUTE_EVENTS, {"v1", "events"}, READS ", POST", true, true, false},
    {DBK_ROUTE_OPENMETER, {"api", "v1", "events"}, "POST", false, true, false},
    {DBK_ROUTE_EVENT, {"v1", "events", REQUEST_ID}, READS, true, false, false},
    {DBK_ROUTE_STATS, {"v1", "stats"}, READS, true, false, false},
    {DBK_ROUTE_CONSUMERS, {"v1", "consumers"}, READS, true, false, false},
    {DBK_ROUTE_CONSUMER, {"v1", "consumers", CONSUMER}, READS ", DELETE", true, false, true},
    {DBK_ROUTE_START, {"v1", "consumers", CONSUMER, "start"}, "POST", false, true, false},
    {DBK_ROUTE_REWIND, {"v1", "consumers", CONSUMER, "rewind"}, "POST", false, true, false},
    {DBK_ROUTE_LIFT, {"v1", "consumers", CONSUMER, "lift"}, "POST", false, true, false},
    {DBK_ROUTE_QUARANTINE, {"v1", "consumers", CONSUMER, "quarantine"}, READS, true, false, false},
    {DBK_ROUTE_RELEASE_MANY,
     {"v1", "consumers", CONSUMER, "quarantine", "release"},
     READS ", POST, DELETE",
     false,
     true,
     false},
    {DBK_ROUTE_DISCARD_MANY,
     {"v1", "consumers", CONSUMER, "quarantine", "discard"},
     READS ", POST, DELETE",
     false,
     true,
     false},
    {DBK_ROUTE_QUARANTINED,
     {"v1", "consumers", CONSUMER, "quarantine", REQUEST_ID},
     READS ", DELETE",
     true,
     false,
     true},
    {DBK_ROUTE_RELEASE,
     {"v1", "consumers", CONSUMER, "quarantine", REQUEST_ID, "release"},
     "POST",
     false,
     true,
     false},
    {DBK_ROUTE_OPERATIONS, {"v1", "operations"}, READS, true, false, false},
    {DBK_ROUTE_METRICS, {"metrics"}, READS, true, false, false},
    {DBK_ROUTE_HEALTH, {"healthz"}, READS, true, false, false},
    {DBK_ROUTE_READY, {"readyz"}, READS, true, false, false},
};

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool dbk_percent_decode(const char *text, size_t len, char *buf, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex(text[i + 1]) : -1;
            int low = i + 2 < len ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= room) {
            return false;
        }
        buf[used++] = c;
    }
    buf[used] = '\0';
    return true;
}

/* Cuts a path at its slashes. Returns how many there are; more than the table knows: SEGMENTS_MAX + 1. */
static size_t split(const char *path, struct daybook_bytes *ret)
{
    size_t count = 0;
    while (*path == '/') {
        size_t len = strcspn(path + 1, "/");
        if (count == SEGMENTS_MAX) {
            return SEGMENTS_MAX + 1;
        }
        ret[count++] = (struct daybook_bytes){path + 1, len};
        path += 1 + len;
    }
    return *path == '\0' ? count : 0;
}

static bool is_name(const char *word)
{
    return word[0] == '{';
}

static bool fits(const struct row *row, const struct daybook_bytes *segments, size_t count)
{
    for (size_t i = 0; i < SEGMENTS_MAX; i++) {
        const char *word = row->pattern[i];
        if (word == NULL || i >= count) {
            return word == NULL && i == count;
        }
        bool same =
            strlen(word) == segments[i].len && memcmp(word, segments[i].data, segments[i].len) == 0;
        if (is_name(word) ? segments[i].len == 0 : !same) {
            return false;
        }
    }
    return count == SEGMENTS_MAX;
}

static bool takes(const struct row *row, enum dbk_method method)
{
    switch (method) {
    case DBK_METHOD_READ:
        return row->reads;
    case DBK_METHOD_POST:
        return row->posts;
    case DBK_METHOD_DELETE:
        return row->deletes;
    case DBK_METHOD_OTHER:
        break;
    }
    return false;
}

static enum daybook_code read_names(const struct row *row, const struct daybook_bytes *segments,
                                    size_t count, struct dbk_target *ret, struct daybook_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct daybook_bytes *s = &segments[i];
        if (strcmp(row->pattern[i], CONSUMER) == 0 &&
            (!dbk_percent_decode(s->data, s->len, ret->consumer, sizeof ret->consumer) ||
             !dbk_consumer_name_valid(ret->consumer, strlen(ret->consumer)))) {
            return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                            "the consumer in the path is no name of one: 1 to %u of a-z0-9_-",
                            DAYBOOK_CONSUMER_NAME_MAX);
        }
        if (strcmp(row->pattern[i], REQUEST_ID) == 0 &&
            !dbk_percent_decode(s->data, s->len, ret->request_id, sizeof ret->request_id)) {
            return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                            "the request_id in the path is none: percent-encode it, 1 to %u bytes",
                            DAYBOOK_NAME_BYTES_MAX);
        }
    }
    return DAYBOOK_OK;
}

static enum dbk_method method_of(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? DBK_METHOD_READ
           : strcmp(method, "POST") == 0                             ? DBK_METHOD_POST
           : strcmp(method, "DELETE") == 0                           ? DBK_METHOD_DELETE
                                                                     : DBK_METHOD_OTHER;
}

enum daybook_code dbk_target_parse(const char *path, const char *method, struct dbk_target *ret,
                                   struct daybook_error *err)
{
    struct daybook_bytes segments[SEGMENTS_MAX];
    size_t count = split(path, segments);
    const struct row *found = NULL;
    *ret = (struct dbk_target){.route = DBK_ROUTE_NONE, .method = method_of(method)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fits(&rows[i], segments, count) &&
            (found == NULL || (!takes(found, ret->method) && takes(&rows[i], ret->method)))) {
            found = &rows[i];
        }
    }
    if (found == NULL) {
        return dbk_fail(err, DAYBOOK_NOT_FOUND, "there is nothing here: events go to /v1/events");
    }
    ret->route = found->route;
    ret->allow = found->allow;
    ret->allowed = takes(found, ret->method);
    return read_names(found, segments, count, ret, err);
}
