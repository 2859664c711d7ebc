/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NDJSON apart into lines. Threads: any; a splitter by one at a time.
 */
#include "event/ndjson.h"

#include <string.h>

#define BOM "\xef\xbb\xbf"
#define BOM_BYTES 3

void dbk_ndjson_refill(struct dbk_ndjson *ndjson, struct daybook_bytes text,
                       enum dbk_ndjson_more more)
{
    ndjson->at = text.data;
    ndjson->end = text.len > 0 ? text.data + text.len : text.data;
    ndjson->more = more;
}

void dbk_ndjson_init(struct dbk_ndjson *ndjson, struct daybook_bytes text,
                     enum dbk_ndjson_more more)
{
    ndjson->line = 0;
    dbk_ndjson_refill(ndjson, text, more);
}

static bool is_blank(struct daybook_bytes line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r') {
            return false;
        }
    }
    return true;
}

bool dbk_ndjson_next(struct dbk_ndjson *ndjson, struct daybook_bytes *ret_line,
                     uint64_t *ret_number)
{
    while (ndjson->at < ndjson->end) {
        size_t left = (size_t)(ndjson->end - ndjson->at);
        const char *newline = memchr(ndjson->at, '\n', left);
        if (newline == NULL && ndjson->more == DBK_NDJSON_PART) {
            return false;
        }
        const char *stop = newline != NULL ? newline : ndjson->end;
        struct daybook_bytes line = {ndjson->at, (size_t)(stop - ndjson->at)};
        ndjson->at = newline != NULL ? newline + 1 : ndjson->end;
        ndjson->line++;
        if (ndjson->line == 1 && line.len >= BOM_BYTES && memcmp(line.data, BOM, BOM_BYTES) == 0) {
            line.data += BOM_BYTES;
            line.len -= BOM_BYTES;
        }
        if (newline != NULL && line.len > 0 && line.data[line.len - 1] == '\r') {
            line.len--;
        }
        if (!is_blank(line)) {
            *ret_line = line;
            *ret_number = ndjson->line;
            return true;
        }
    }
    return false;
}

struct daybook_bytes dbk_ndjson_rest(const struct dbk_ndjson *ndjson)
{
    return (struct daybook_bytes){ndjson->at, (size_t)(ndjson->end - ndjson->at)};
}
