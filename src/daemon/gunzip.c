/* SPDX-License-Identifier: Apache-2.0 */
/* gunzip.h over zlib. */
#include "daemon/gunzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/error.h"

#define GZIP_ONLY (MAX_WBITS + 16) /* zlib's way to say it */

struct dbk_gunzip {
    z_stream z;
    uint64_t taken;  /* bytes of the compressed body */
    bool in_member;  /* one has begun and not ended */
    bool any_member; /* one has ended */
};

struct dbk_gunzip *dbk_gunzip_new(void)
{
    struct dbk_gunzip *gunzip = calloc(1, sizeof *gunzip);
    if (gunzip != NULL && inflateInit2(&gunzip->z, GZIP_ONLY) != Z_OK) {
        free(gunzip);
        return NULL;
    }
    return gunzip;
}

void dbk_gunzip_free(struct dbk_gunzip *gunzip)
{
    if (gunzip != NULL) {
        (void)inflateEnd(&gunzip->z);
        free(gunzip);
    }
}

static enum dbk_gunzip_step damaged(const struct dbk_gunzip *gunzip, int rc,
                                    struct daybook_error *err)
{
    if (rc == Z_MEM_ERROR) {
        (void)dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory to expand the body: repeat the request");
        return DBK_GUNZIP_DAMAGED;
    }
    (void)dbk_fail(err, DAYBOOK_MALFORMED_JSON, "the body is no gzip at its byte %llu: %s",
                   (unsigned long long)gunzip->taken,
                   gunzip->z.msg != NULL ? gunzip->z.msg : "it is damaged");
    err->offset = gunzip->taken;
    return DBK_GUNZIP_DAMAGED;
}

/* One call of zlib, with at least one byte of input or something still to be written. */
static int inflate_some(struct dbk_gunzip *gunzip, struct daybook_bytes *in, char *out, size_t room,
                        size_t *ret_len)
{
    union {
        const char *ours;
        Bytef *zlibs; /* not written through: zlib only lacks the const */
    } input = {.ours = in->data};
    size_t piece = in->len < UINT32_MAX ? in->len : UINT32_MAX;
    size_t space = room < UINT32_MAX ? room : UINT32_MAX;
    gunzip->z.next_in = input.zlibs;
    gunzip->z.avail_in = (uInt)piece;
    gunzip->z.next_out = (Bytef *)out;
    gunzip->z.avail_out = (uInt)space;
    int rc = inflate(&gunzip->z, Z_NO_FLUSH);
    size_t taken = piece - gunzip->z.avail_in;
    gunzip->taken += taken;
    in->data += taken;
    in->len -= taken;
    *ret_len = space - gunzip->z.avail_out;
    return rc;
}

enum dbk_gunzip_step dbk_gunzip_feed(struct dbk_gunzip *gunzip, struct daybook_bytes *in, char *out,
                                     size_t room, size_t *ret_len, struct daybook_error *err)
{
    size_t written = 0;
    *ret_len = 0;
    for (;;) {
        if (in->len == 0 && !gunzip->in_member) {
            return DBK_GUNZIP_HUNGRY;
        }
        if (*ret_len == room) {
            return DBK_GUNZIP_FULL;
        }
        gunzip->in_member = true;
        int rc = inflate_some(gunzip, in, out + *ret_len, room - *ret_len, &written);
        *ret_len += written;
        if (rc == Z_STREAM_END) {
            gunzip->in_member = false;
            gunzip->any_member = true;
            rc = inflateReset(&gunzip->z);
        }
        if (rc == Z_BUF_ERROR ||
            (rc == Z_OK && in->len == 0 && *ret_len < room && gunzip->in_member)) {
            return DBK_GUNZIP_HUNGRY; /* zlib has nothing left to write */
        }
        if (rc != Z_OK) {
            return damaged(gunzip, rc, err);
        }
    }
}

enum daybook_code dbk_gunzip_end(const struct dbk_gunzip *gunzip, struct daybook_error *err)
{
    if (!gunzip->in_member && gunzip->any_member) {
        return DAYBOOK_OK;
    }
    enum daybook_code code =
        dbk_fail(err, DAYBOOK_MALFORMED_JSON,
                 "the gzip body ends too early, at its byte %llu: send all of it",
                 (unsigned long long)gunzip->taken);
    if (err != NULL) {
        err->offset = gunzip->taken;
    }
    return code;
}
