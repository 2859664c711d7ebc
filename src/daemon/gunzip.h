/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gzip body (RFC 1952) expanded piece by piece as it arrives (P), so that the caller's limit holds for what
 * it becomes, and a bomb is refused long before it has gone off.
 *
 * One member or several, one after the other, and nothing else: bytes behind the last member, a wrong checksum
 * and an end that comes too early are damage. Threads: one at a time per handle.
 */
#ifndef DBK_DAEMON_GUNZIP_H
#define DBK_DAEMON_GUNZIP_H

#include <daybook/base.h>

#define DBK_GUNZIP_BYTES (48u * 1024u) /* what a handle takes of memory, about */

struct dbk_gunzip;

/* NULL: no memory. Owned: release with dbk_gunzip_free. */
struct dbk_gunzip *dbk_gunzip_new(void);
/* NULL is accepted. */
void dbk_gunzip_free(struct dbk_gunzip *gunzip);

enum dbk_gunzip_step {
    DBK_GUNZIP_HUNGRY, /* all input is taken and all that it became is written */
    DBK_GUNZIP_FULL,   /* the room is used up: go on with more room and what is left of the input */
    DBK_GUNZIP_DAMAGED /* `err` says where */
};

/* Expands. `*in` is moved past what was taken. `out` has `room` bytes, at least one; *ret_len of them were
 * written. Damage is MALFORMED_JSON with the offset in the compressed body, or NO_MEMORY. */
enum dbk_gunzip_step dbk_gunzip_feed(struct dbk_gunzip *gunzip, struct daybook_bytes *in, char *out,
                                     size_t room, size_t *ret_len, struct daybook_error *err);

/* The body is whole. Returns OK, or MALFORMED_JSON where the last member is not. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_gunzip_end(const struct dbk_gunzip *gunzip,
                                                    struct daybook_error *err);

#endif
