/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of codes: name, class and the status that answers with it over HTTP. Nothing else in the
 * house maps a code to a class, a status or a word. Pure; threads: any.
 */
#include <daybook/base.h>

struct code_entry {
    const char *name;
    enum daybook_class class;
    int http_status;
};

#define HTTP_UNAVAILABLE 503
#define HTTP_INTERNAL 500

/* 500 marks a code that no request answers. A NO_MEMORY of an append was refused before anything
 * happened, so it is "not durable" like a full journal. */
static const struct code_entry codes[] = {
    [DAYBOOK_OK] = {"ok", DAYBOOK_CLASS_OK, 201},
    [DAYBOOK_ALREADY_PRESENT] = {"already_present", DAYBOOK_CLASS_OK, 200},
    [DAYBOOK_CONFLICT] = {"conflict", DAYBOOK_CLASS_REFUSED, 409},
    [DAYBOOK_INVALID_EVENT] = {"invalid_event", DAYBOOK_CLASS_REFUSED, 422},
    [DAYBOOK_MALFORMED_JSON] = {"malformed_json", DAYBOOK_CLASS_REFUSED, 400},
    [DAYBOOK_TOO_LARGE] = {"too_large", DAYBOOK_CLASS_REFUSED, 413},
    [DAYBOOK_AT_CAPACITY] = {"at_capacity", DAYBOOK_CLASS_RETRY, HTTP_UNAVAILABLE},
    [DAYBOOK_DRAINING] = {"draining", DAYBOOK_CLASS_RETRY, HTTP_UNAVAILABLE},
    [DAYBOOK_BACKEND] = {"backend", DAYBOOK_CLASS_UNKNOWN, HTTP_UNAVAILABLE},
    [DAYBOOK_TIMED_OUT] = {"timed_out", DAYBOOK_CLASS_UNKNOWN, HTTP_UNAVAILABLE},
    [DAYBOOK_NOT_OUTSTANDING] = {"not_outstanding", DAYBOOK_CLASS_REFUSED, HTTP_INTERNAL},
    [DAYBOOK_QUARANTINED] = {"quarantined", DAYBOOK_CLASS_REFUSED, HTTP_INTERNAL},
    [DAYBOOK_ALREADY_ACKNOWLEDGED] = {"already_acknowledged", DAYBOOK_CLASS_REFUSED, 409},
    [DAYBOOK_NOT_FOUND] = {"not_found", DAYBOOK_CLASS_REFUSED, 404},
    [DAYBOOK_BUSY] = {"busy", DAYBOOK_CLASS_RETRY, 409},
    [DAYBOOK_NO_MEMORY] = {"no_memory", DAYBOOK_CLASS_RETRY, HTTP_UNAVAILABLE},
    [DAYBOOK_DAMAGED] = {"damaged", DAYBOOK_CLASS_BROKEN, HTTP_INTERNAL},
    [DAYBOOK_NEWER_FORMAT] = {"newer_format", DAYBOOK_CLASS_BROKEN, HTTP_INTERNAL},
    [DAYBOOK_BAD_CONFIG] = {"bad_config", DAYBOOK_CLASS_REFUSED, HTTP_INTERNAL},
    [DAYBOOK_BAD_ARGUMENT] = {"bad_argument", DAYBOOK_CLASS_MISUSE, 400},
};
_Static_assert(sizeof codes / sizeof codes[0] == DAYBOOK_CODE_COUNT, "every code has its row");

static const struct code_entry unknown_code = {"unknown_code", DAYBOOK_CLASS_MISUSE, HTTP_INTERNAL};

static const struct code_entry *entry_of(enum daybook_code code)
{
    return (unsigned)code < DAYBOOK_CODE_COUNT ? &codes[code] : &unknown_code;
}

const char *daybook_code_name(enum daybook_code code)
{
    return entry_of(code)->name;
}

enum daybook_class daybook_code_class(enum daybook_code code)
{
    return entry_of(code)->class;
}

int daybook_code_http_status(enum daybook_code code)
{
    return entry_of(code)->http_status;
}

const char *daybook_code_http_name(enum daybook_code code)
{
    const struct code_entry *entry = entry_of(code);

    return entry->http_status == HTTP_UNAVAILABLE ? "usage_not_durable" : entry->name;
}

const char *daybook_version(void)
{
    return DAYBOOK_VERSION;
}
