/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NDJSON apart into lines (P): ingest and `append` both use it.
 *
 * Lines end in LF or CRLF, the last one may end with the text. Blank lines (nothing but spaces,
 * tabs and CR) are skipped but counted. A UTF-8 byte order mark at the very start is tolerated. A
 * CR alone ends nothing. Threads: any; a splitter by one at a time.
 */
#ifndef DBK_EVENT_NDJSON_H
#define DBK_EVENT_NDJSON_H

#include <daybook/base.h>

/* What comes after the bytes that a splitter was given. */
enum dbk_ndjson_more {
    DBK_NDJSON_WHOLE, /* nothing: the last line may end without a newline */
    DBK_NDJSON_PART   /* perhaps more: what stands behind the last newline is left in the rest */
};

struct dbk_ndjson {
    const char *at;
    const char *end;
    enum dbk_ndjson_more more;
    uint64_t line; /* lines begun so far */
};

/* Begins; `text` is borrowed. */
void dbk_ndjson_init(struct dbk_ndjson *ndjson, struct daybook_bytes text,
                     enum dbk_ndjson_more more);

/* The next line that is not blank, without its newline, borrowed from the text, and its number from
 * 1. False when there is none. */
bool dbk_ndjson_next(struct dbk_ndjson *ndjson, struct daybook_bytes *ret_line,
                     uint64_t *ret_number);

/* What was not yet taken (DBK_NDJSON_PART), borrowed from the text. */
struct daybook_bytes dbk_ndjson_rest(const struct dbk_ndjson *ndjson);

/* Goes on in other bytes, which begin with the rest. */
void dbk_ndjson_refill(struct dbk_ndjson *ndjson, struct daybook_bytes text,
                       enum dbk_ndjson_more more);

#endif
