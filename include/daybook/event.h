/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A usage event (contract section 2): five fields, checked once at the door, then only ever bytes.
 */
#ifndef DAYBOOK_EVENT_H
#define DAYBOOK_EVENT_H

#include <daybook/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAYBOOK_NAME_BYTES_MAX 255u               /**< request_id, namespace, subject: each */
#define DAYBOOK_EVENT_BYTES_DEFAULT (256u * 1024) /**< default of max_event_bytes */
#define DAYBOOK_EVENT_DEPTH_MAX 64u               /**< nesting; the record itself is level 1 */
#define DAYBOOK_OBSERVED_MIN_US INT64_C(946684800000000)  /**< 2000-01-01T00:00:00Z */
#define DAYBOOK_OBSERVED_END_US INT64_C(4102444800000000) /**< 2100-01-01T00:00:00Z, exclusive */

/** Which request ids a journal takes (E2). */
enum daybook_identity {
    DAYBOOK_IDENTITY_ANY,   /**< 1 to 255 bytes of printable ASCII without spaces */
    DAYBOOK_IDENTITY_UUIDV7 /**< `req_` and a lower-case canonical UUIDv7 (RFC 9562) */
};

/** One event. All ranges are borrowed. (`name_space` because `namespace` is a C++ keyword.) */
struct daybook_event {
    struct daybook_bytes request_id;
    struct daybook_bytes name_space;
    struct daybook_bytes subject;
    int64_t observed_at_us; /**< since the Unix epoch, UTC; DAYBOOK_TIME_UNSET: at acceptance */
    struct daybook_bytes record; /**< one JSON object, byte for byte what the producer sent */
};

/** What a journal accepts. */
struct daybook_event_limits {
    enum daybook_identity identity;
    uint32_t event_bytes_max; /**< of the record; 0: DAYBOOK_EVENT_BYTES_DEFAULT */
};

/** Room for the three names of an event whose JSON strings held escapes. */
struct daybook_event_names {
    char bytes[3 * DAYBOOK_NAME_BYTES_MAX];
};

/** Checks an event against rules E2 to E5.
 * @param event borrowed. @param limits borrowed; NULL: the defaults. @param err optional, written
 *   on failure: which member, why, and for JSON the byte offset in the record.
 * Returns OK; refused: INVALID_EVENT, MALFORMED_JSON, TOO_LARGE; retry: NO_MEMORY (only for a
 * record with more than 512 member names open at once); misuse: BAD_ARGUMENT (no event). Threads:
 * any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_event_check(
    const struct daybook_event *event, const struct daybook_event_limits *limits,
    struct daybook_error *err);

/** Reads an event from its flat JSON form: the object itself is the record, and its top-level
 * members `request_id`, `namespace`, `subject` and, if there, `observed_at` are the fields.
 * An object with a member `specversion` and without `request_id` is a CloudEvent 1.0 in its structured
 * form instead: `id` is the request_id, `subject` the subject, the extension `namespace`, or else
 * `source`, the namespace, and `time`, if there, observed_at.
 * The result has passed `daybook_event_check`. A number as `observed_at` counts by its exact value
 * (1.7e15 is a number of microseconds); null is refused. What is malformed is told before what is
 * refused, wherever it stands.
 * @param json borrowed; white space around the object is not part of the record.
 * @param limits borrowed; NULL: the defaults.
 * @param names storage for names with escapes; `ret_event` borrows from it and from `json`.
 * @param ret_event written on success only, except that `request_id` is filled as soon as it is
 *   known, so that an error can name the event (zero it before the call).
 * @param err optional; its offset counts from the first byte of `json`.
 * Returns as `daybook_event_check`. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_event_from_json(
    struct daybook_bytes json, const struct daybook_event_limits *limits,
    struct daybook_event_names *names, struct daybook_event *ret_event, struct daybook_error *err);

/** Whether two events with one request_id are the same fact (E6): namespace and subject equal as
 * bytes, records equal as JSON values but for a top-level member `observed_at`, or `time` where both
 * are CloudEvents.
 * Both records must have passed `daybook_event_check`; other input yields false, never a crash.
 * Where there is no memory for records with more than 512 members in another order it is slower,
 * not wrong. Threads: any. */
DAYBOOK_API bool daybook_event_same_fact(const struct daybook_event *a,
                                         const struct daybook_event *b);

/** Reads an RFC 3339 date and time with a zone as E5 does: digits past the sixth are cut, and the
 * instant has to lie from DAYBOOK_OBSERVED_MIN_US to DAYBOOK_OBSERVED_END_US.
 * @param ret_us microseconds since the Unix epoch. @param err optional: the reason.
 * Returns OK or INVALID_EVENT. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_time_parse(struct daybook_bytes text,
                                                                    int64_t *ret_us,
                                                                    struct daybook_error *err);

#define DAYBOOK_TIME_TEXT_MAX 40u
/** Writes `us` as RFC 3339 UTC with six digits and `Z`, NUL-terminated, into `buf` of at least
 * DAYBOOK_TIME_TEXT_MAX bytes. Returns the length. Threads: any. */
DAYBOOK_API size_t daybook_time_format(int64_t us, char *buf);

#define DAYBOOK_REQUEST_ID_MINTED_BYTES 40u /**< `req_` and 36 characters */
/** Mints a request id of the form uuidv7 for a producer (E2); the journal itself never does.
 * @param unix_ms milliseconds since the epoch, 0 to 2^48 - 1. @param random 10 bytes of entropy.
 * @param ret_id at least DAYBOOK_REQUEST_ID_MINTED_BYTES + 1 bytes, NUL-terminated. Threads:
 * any. */
DAYBOOK_API void daybook_request_id_from(uint64_t unix_ms, const uint8_t random[10], char *ret_id);

#ifdef __cplusplus
}
#endif
#endif
