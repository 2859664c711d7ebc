/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two forms in which an event comes as JSON (P): flat, and as a CloudEvent 1.0. An object with a member
 * `specversion` and none that is called `request_id` is a CloudEvent; so both the door and the same-fact
 * comparison know one when they see it. Threads: any.
 */
#ifndef DBK_EVENT_FORM_H
#define DBK_EVENT_FORM_H

#include <daybook/event.h>

enum dbk_event_form { DBK_EVENT_ANY, DBK_EVENT_CLOUDEVENT };

/* daybook_event_from_json, where the sender may have said that it is a CloudEvent. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_event_read(
    struct daybook_bytes json, enum dbk_event_form form, const struct daybook_event_limits *limits,
    struct daybook_event_names *names, struct daybook_event *ret_event, struct daybook_error *err);

/* Whether a record that passed its check is a CloudEvent. */
bool dbk_record_is_cloudevent(struct daybook_bytes record);

#endif
