/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of body.h. */
#include "daemon/body.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "daemon/gunzip.h"

#define GZIP_MORE(bytes) ((bytes) / 1024 + 4096) /* what does not shrink grows by less */
#define FIRST_BYTES (16u * 1024u)                /* a body grows from here */

static bool reserve(struct dbk_body *body, size_t bytes)
{
    if (atomic_fetch_add(body->budget, bytes) + bytes > DBK_BODIES_BYTES_MAX) {
        atomic_fetch_sub(body->budget, bytes);
        return false;
    }
    return true;
}

static enum daybook_code no_room(struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_NO_MEMORY, "too many bodies at once: repeat the request later");
}

static enum daybook_code too_large(const struct dbk_body *body, struct daybook_error *err)
{
    return dbk_fail(err, DAYBOOK_TOO_LARGE,
                    "the body is larger than max_body_bytes (%" PRIu64 ")%s: send it in parts",
                    body->bytes_max, body->gunzip != NULL ? " once it is expanded" : "");
}

enum daybook_code dbk_body_begin(struct dbk_body *body, enum dbk_encoding encoding,
                                 uint64_t bytes_max, _Atomic uint64_t *budget,
                                 struct daybook_error *err)
{
    *body = (struct dbk_body){.bytes_max = bytes_max, .arrives_max = bytes_max, .budget = budget};
    if (encoding == DBK_ENCODING_NONE) {
        return DAYBOOK_OK;
    }
    body->arrives_max += GZIP_MORE(bytes_max);
    if (!reserve(body, DBK_GUNZIP_BYTES)) {
        return no_room(err);
    }
    body->gunzip = dbk_gunzip_new();
    if (body->gunzip == NULL) {
        atomic_fetch_sub(budget, DBK_GUNZIP_BYTES);
        return no_room(err);
    }
    return DAYBOOK_OK;
}

/* Room for `more` bytes behind those that are there. */
static bool make_room(struct dbk_body *body, size_t more)
{
    size_t need = body->len + more;
    if (need <= body->room) {
        return true;
    }
    bool small = body->expected > 0 && body->expected < FIRST_BYTES;
    size_t room = body->room > 0 ? body->room * 2 : small ? body->expected : FIRST_BYTES;
    while (room < need) {
        room *= 2;
    }
    size_t added = room - body->room;
    if (!reserve(body, added)) {
        return false;
    }
    char *data = realloc(body->data, room);
    if (data == NULL) {
        atomic_fetch_sub(body->budget, added);
        return false;
    }
    body->data = data;
    body->room = room;
    return true;
}

/* At the limit: one byte more is too many. */
static enum daybook_code expand_past(struct dbk_body *body, struct daybook_bytes *in,
                                     struct daybook_error *err)
{
    char beyond = 0;
    size_t len = 0;
    enum dbk_gunzip_step step = dbk_gunzip_feed(body->gunzip, in, &beyond, 1, &len, err);
    if (len > 0) {
        return too_large(body, err);
    }
    return step == DBK_GUNZIP_DAMAGED ? err->code : DAYBOOK_OK;
}

static enum daybook_code expand(struct dbk_body *body, struct daybook_bytes in,
                                struct daybook_error *err)
{
    enum dbk_gunzip_step step = DBK_GUNZIP_FULL;
    while (step == DBK_GUNZIP_FULL) {
        if (body->len == body->bytes_max) {
            return expand_past(body, &in, err);
        }
        if (!make_room(body, 1)) {
            return no_room(err);
        }
        size_t room = body->room - body->len;
        uint64_t allowed = body->bytes_max - body->len;
        size_t len = 0;
        step = dbk_gunzip_feed(body->gunzip, &in, body->data + body->len,
                               room < allowed ? room : (size_t)allowed, &len, err);
        body->len += len;
    }
    return step == DBK_GUNZIP_DAMAGED ? err->code : DAYBOOK_OK;
}

enum daybook_code dbk_body_take(struct dbk_body *body, const char *data, size_t len,
                                struct daybook_error *err)
{
    struct daybook_error unheard = {0};
    err = err != NULL ? err : &unheard;
    if (len > body->arrives_max - body->arrived) {
        return too_large(body, err);
    }
    body->arrived += len;
    if (body->gunzip != NULL) {
        return expand(body, (struct daybook_bytes){data, len}, err);
    }
    if (!make_room(body, len)) {
        return no_room(err);
    }
    memcpy(body->data + body->len, data, len);
    body->len += len;
    return DAYBOOK_OK;
}

static void forget_gunzip(struct dbk_body *body)
{
    if (body->gunzip != NULL) {
        dbk_gunzip_free(body->gunzip);
        body->gunzip = NULL;
        atomic_fetch_sub(body->budget, DBK_GUNZIP_BYTES);
    }
}

enum daybook_code dbk_body_end(struct dbk_body *body, struct daybook_error *err)
{
    enum daybook_code code = body->gunzip != NULL ? dbk_gunzip_end(body->gunzip, err) : DAYBOOK_OK;
    forget_gunzip(body);
    return code;
}

char *dbk_body_steal(struct dbk_body *body, size_t *ret_len, size_t *ret_room)
{
    char *data = body->data;
    *ret_len = body->len;
    *ret_room = body->room;
    forget_gunzip(body);
    body->data = NULL;
    body->len = 0;
    body->room = 0;
    return data;
}

void dbk_body_replace(struct dbk_body *body, char *data, size_t len, size_t room)
{
    atomic_fetch_add(body->budget, room);
    atomic_fetch_sub(body->budget, body->room);
    free(body->data);
    body->data = data;
    body->len = len;
    body->room = room;
}

void dbk_body_release(struct dbk_body *body)
{
    size_t len = 0;
    size_t room = 0;
    if (body->budget != NULL) {
        free(dbk_body_steal(body, &len, &room));
        atomic_fetch_sub(body->budget, room);
    }
}
