/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CloudEvent in the binary mode of HTTP, written as its structured form (P): headers `ce-...` become
 * attributes, percent-decoded; Content-Type becomes datacontenttype; the body becomes data. That form is the
 * record, so the same event sent in either mode is the same fact, as far as its attributes are strings and
 * datacontenttype is said in both.
 * Threads: one at a time per text.
 */
#ifndef DBK_DAEMON_CLOUDEVENTS_H
#define DBK_DAEMON_CLOUDEVENTS_H

#include "app/text.h"

/* Whether a header is one of a CloudEvent's (`ce-...`, in any case). */
bool dbk_cloudevent_is_header(const char *name);

/* The structured form, being written. Begin zeroed; release `text`. */
struct dbk_cloudevent {
    struct dbk_text text;
    struct daybook_error err; /* the first header that is refused: code is not OK */
};

/* Adds the attribute of a header `ce-...`. */
void dbk_cloudevent_attribute(struct dbk_cloudevent *event, const char *name, const char *value);

/* Ends the form. `content_type` may be NULL. Data of a JSON type stands as it is, other text in UTF-8 as a
 * string, anything else in base64; an empty body is no data. Returns OK; INVALID_EVENT (a header);
 * MALFORMED_JSON (with the offset in the body); NO_MEMORY. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_cloudevent_end(struct dbk_cloudevent *event,
                                                        const char *content_type,
                                                        struct daybook_bytes body,
                                                        struct daybook_error *err);

#endif
