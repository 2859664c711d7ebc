/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request is aimed at (P): the table of paths and methods, and the names that stand in a path,
 * percent-decoded. Threads: any.
 */
#ifndef DBK_DAEMON_TARGET_H
#define DBK_DAEMON_TARGET_H

#include <daybook/journal.h>

enum dbk_route {
    DBK_ROUTE_EVENTS,
    DBK_ROUTE_OPENMETER, /* events, as clients of OpenMeter send them */
    DBK_ROUTE_EVENT,
    DBK_ROUTE_STATS,
    DBK_ROUTE_CONSUMERS,
    DBK_ROUTE_CONSUMER,
    DBK_ROUTE_START,
    DBK_ROUTE_REWIND,
    DBK_ROUTE_LIFT,
    DBK_ROUTE_QUARANTINE,
    DBK_ROUTE_QUARANTINED,
    DBK_ROUTE_RELEASE,
    DBK_ROUTE_RELEASE_MANY,
    DBK_ROUTE_DISCARD_MANY,
    DBK_ROUTE_OPERATIONS,
    DBK_ROUTE_METRICS,
    DBK_ROUTE_HEALTH,
    DBK_ROUTE_READY,
    DBK_ROUTE_NONE
};

enum dbk_method { DBK_METHOD_READ, DBK_METHOD_POST, DBK_METHOD_DELETE, DBK_METHOD_OTHER };

struct dbk_target {
    enum dbk_route route;
    enum dbk_method method;
    const char *allow; /* static: the methods of this path; NULL with NONE */
    bool allowed;      /* `method` is one of them */
    char consumer[DAYBOOK_CONSUMER_NAME_MAX + 1];
    char request_id[DAYBOOK_NAME_BYTES_MAX + 1];
};

/* Reads the path (raw, without its query) and the method of a request. Two paths may differ by method
 * alone (`POST .../quarantine/release` and `DELETE .../quarantine/release`, the event of that id).
 * Returns OK (also where the method is not allowed); NOT_FOUND: nothing is there; BAD_ARGUMENT: a name
 * that cannot be one, or a broken percent-encoding. */
enum daybook_code dbk_target_parse(const char *path, const char *method, struct dbk_target *ret,
                                   struct daybook_error *err);

/* Decodes percent-encoding. Returns false for a broken one, one that stands for NUL, or more than
 * `room` - 1 bytes; else `buf` is NUL-terminated. */
bool dbk_percent_decode(const char *text, size_t len, char *buf, size_t room);

#endif
