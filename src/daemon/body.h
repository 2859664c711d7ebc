/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request as it arrives (P): kept up to a limit of its own and one of all bodies together,
 * expanded on the way where it is gzip. Threads: one at a time per body; the budget is shared.
 */
#ifndef DBK_DAEMON_BODY_H
#define DBK_DAEMON_BODY_H

#include <stdatomic.h>

#include <daybook/base.h>

#define DBK_BODIES_BYTES_MAX (UINT64_C(512) * 1024 * 1024) /* of all bodies at once */

enum dbk_encoding { DBK_ENCODING_NONE, DBK_ENCODING_GZIP };

struct dbk_gunzip;

struct dbk_body {
    char *data; /* what it becomes */
    size_t len;
    size_t room;
    uint64_t bytes_max;   /* of what it becomes */
    uint64_t arrives_max; /* of what arrives: members without content become nothing */
    uint64_t arrived;     /* bytes */
    size_t expected;      /* what its head says that will arrive, where that is little; else 0 */
    _Atomic uint64_t *budget; /* bytes of all bodies; NULL: this one has not begun */
    struct dbk_gunzip *gunzip;
};

/* Begins; `body` is zeroed. Returns OK or NO_MEMORY. `expected`, to be set afterwards, only says how much room to begin with. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_body_begin(struct dbk_body *body,
                                                    enum dbk_encoding encoding, uint64_t bytes_max,
                                                    _Atomic uint64_t *budget,
                                                    struct daybook_error *err);
/* Takes what arrived. Returns OK; TOO_LARGE; MALFORMED_JSON (gzip that is none, with the offset in what
 * arrived); NO_MEMORY (or too many bodies at once). After anything but OK release the body. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_body_take(struct dbk_body *body, const char *data,
                                                   size_t len, struct daybook_error *err);
/* All has arrived. Returns OK, or MALFORMED_JSON where gzip ends too early. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_body_end(struct dbk_body *body, struct daybook_error *err);

/* Hands over the bytes, to be freed. `ret_room`: what they still take of the budget, for the new owner to give
 * back. The body is empty afterwards. */
char *dbk_body_steal(struct dbk_body *body, size_t *ret_len, size_t *ret_room);
/* Replaces the bytes by others, which are taken; `room` is their part of the budget. */
void dbk_body_replace(struct dbk_body *body, char *data, size_t len, size_t room);
/* Frees what it holds and gives back its budget. Zeroed or begun. */
void dbk_body_release(struct dbk_body *body);

#endif
