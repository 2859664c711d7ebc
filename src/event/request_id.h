/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of request ids (E2). Threads: any.
 */
#ifndef DBK_EVENT_REQUEST_ID_H
#define DBK_EVENT_REQUEST_ID_H

#include <daybook/base.h>

/* Whether `id` is `req_` and a canonical UUIDv7 in lower case. */
bool dbk_request_id_is_uuidv7(struct daybook_bytes id);

#endif
