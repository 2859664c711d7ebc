/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes, classes, errors and byte ranges: the vocabulary of every other header.
 *
 * Every function that can fail returns `enum daybook_code`; 0 is success. A caller acts on the
 * *class* of a code, never on its text. Nothing here blocks, allocates or starts a thread.
 */
#ifndef DAYBOOK_BASE_H
#define DAYBOOK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DAYBOOK_API __attribute__((visibility("default")))
#define DAYBOOK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define DAYBOOK_API
#define DAYBOOK_MUST_CHECK
#endif

/** What an operation says. The names in lower case (`daybook_code_name`) are the stable `code` of
 * the HTTP interface and the `outcome` of the metrics. */
enum daybook_code {
    DAYBOOK_OK = 0,               /**< done; for an append: accepted, durable */
    DAYBOOK_ALREADY_PRESENT,      /**< append: the same fact is stored already (A2) */
    DAYBOOK_CONFLICT,             /**< append: the id is stored with other content (A3) */
    DAYBOOK_INVALID_EVENT,        /**< JSON that rules E2 to E5 refuse */
    DAYBOOK_MALFORMED_JSON,       /**< not RFC 8259, or not UTF-8 */
    DAYBOOK_TOO_LARGE,            /**< larger than max_event_bytes or another named limit */
    DAYBOOK_AT_CAPACITY,          /**< append: full (A4); the event was not journaled */
    DAYBOOK_DRAINING,             /**< admission is closed: the process is stopping */
    DAYBOOK_BACKEND,              /**< the store failed; the outcome is unknown (A5) */
    DAYBOOK_TIMED_OUT,            /**< the deadline came first; the outcome is unknown (J1) */
    DAYBOOK_NOT_OUTSTANDING,      /**< verdict on what was not handed out to this consumer */
    DAYBOOK_QUARANTINED,          /**< ack of a quarantined event: only an operator releases it */
    DAYBOOK_ALREADY_ACKNOWLEDGED, /**< quarantine of an event that was acknowledged or discarded */
    DAYBOOK_NOT_FOUND,            /**< no such event, consumer, file or destination */
    DAYBOOK_BUSY,                 /**< held by another process, or in use; may succeed later */
    DAYBOOK_NO_MEMORY,            /**< memory ran out before anything was changed */
    DAYBOOK_DAMAGED,      /**< bytes on disk are not what was written; nothing was changed */
    DAYBOOK_NEWER_FORMAT, /**< written by a newer build; nothing was changed */
    DAYBOOK_BAD_CONFIG,   /**< a setting that cannot work */
    DAYBOOK_BAD_ARGUMENT, /**< the caller's bug */
    DAYBOOK_CODE_COUNT    /**< number of codes, not one of them */
};

/** What a caller does about a code. */
enum daybook_class {
    DAYBOOK_CLASS_OK,      /**< done */
    DAYBOOK_CLASS_RETRY,   /**< nothing happened; later it may work */
    DAYBOOK_CLASS_REFUSED, /**< this input, never */
    DAYBOOK_CLASS_UNKNOWN, /**< it may have happened: repeat with the same key */
    DAYBOOK_CLASS_BROKEN,  /**< the handle or its files; reopen, or see an operator */
    DAYBOOK_CLASS_MISUSE   /**< the caller's bug */
};

/** Detail beside a code: the caller's storage, fixed size, never allocated. A message says what,
 * where and the mend, in one line, and holds no secret. */
struct daybook_error {
    enum daybook_code code;
    int os_errno;      /**< errno of the system call that failed, else 0 */
    uint64_t offset;   /**< byte offset in the input or file that the message speaks of, else 0 */
    char message[384]; /**< NUL-terminated UTF-8; empty if there is nothing to add */
};

/** A borrowed range of bytes; `data` may be NULL when `len` is 0. Not NUL-terminated. */
struct daybook_bytes {
    const char *data;
    size_t len;
};

/** A time that was not given. */
#define DAYBOOK_TIME_UNSET INT64_MIN
/** A deadline that never comes. */
#define DAYBOOK_NO_DEADLINE INT64_MAX

/** The stable name of a code in lower case (`"at_capacity"`; DAYBOOK_OK is `"ok"`).
 * Returns a static string, `"unknown_code"` for a number that is no code. Threads: any. */
DAYBOOK_API const char *daybook_code_name(enum daybook_code code);

/** The class of a code. A number that is no code is misuse. Threads: any. */
DAYBOOK_API enum daybook_class daybook_code_class(enum daybook_code code);

/** The HTTP status that answers a request which ends with this code (an append of one event, or an
 * operator's); 500 where no request ends with it. Threads: any. */
DAYBOOK_API int daybook_code_http_status(enum daybook_code code);

/** The stable `code` word of an HTTP answer to an append: what `daybook_code_name` says, but
 * `usage_not_durable` for every code of a 503. Threads: any. */
DAYBOOK_API const char *daybook_code_http_name(enum daybook_code code);

/** Library version, `"MAJOR.MINOR.PATCH"`. Threads: any. */
DAYBOOK_API const char *daybook_version(void);

#ifdef __cplusplus
}
#endif
#endif
