/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and results in PostgreSQL's binary form: big-endian integers, bytes as they are, arrays of one dimension.
 * Pure; threads: any, one at a time per object.
 */
#include "engines/postgres/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define ARRAY_HEAD_BYTES 20u /* dimensions, nulls, type, length, lower bound */
#define ARRAY_FIRST_ROOM 4096u

static void put_be32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static void put_be64(uint8_t *to, uint64_t value)
{
    put_be32(to, (uint32_t)(value >> 32));
    put_be32(to + 4, (uint32_t)value);
}

static Oid array_type(enum pg_type type)
{
    switch (type) {
    case PG_INT4:
        return 1007;
    case PG_INT8:
        return 1016;
    case PG_TEXT:
        return 1009;
    case PG_BYTEA:
        return 1001;
    case PG_BOOL:
        break;
    }
    return 1000;
}

/* ---- arrays ------------------------------------------------------------------------------------ */

/* Room for `more` bytes; false: no memory, and the array stays failed until it is started anew. */
static bool grow(struct pg_array *array, size_t more)
{
    size_t room = array->room == 0 ? ARRAY_FIRST_ROOM : array->room;
    uint8_t *bytes;

    if (array->failed) {
        return false;
    }
    while (room < array->len + more) {
        room *= 2;
    }
    if (room == array->room) {
        return true;
    }
    bytes = realloc(array->bytes, room);
    if (bytes == NULL) {
        array->failed = true;
        return false;
    }
    array->bytes = bytes;
    array->room = room;
    return true;
}

void dbk_pg_array_start(struct pg_array *array, enum pg_type type)
{
    array->type = type;
    array->len = 0;
    array->count = 0;
    array->failed = false;
    if (grow(array, ARRAY_HEAD_BYTES)) {
        put_be32(array->bytes, 1);
        put_be32(array->bytes + 4, 1);
        put_be32(array->bytes + 8, (uint32_t)type);
        put_be32(array->bytes + 16, 1);
        array->len = ARRAY_HEAD_BYTES;
    }
}

void dbk_pg_array_int(struct pg_array *array, int64_t value)
{
    uint32_t len = array->type == PG_INT4 ? 4 : 8;

    if (!grow(array, 4 + len)) {
        return;
    }
    put_be32(array->bytes + array->len, len);
    if (len == 4) {
        put_be32(array->bytes + array->len + 4, (uint32_t)value);
    } else {
        put_be64(array->bytes + array->len + 4, (uint64_t)value);
    }
    array->len += 4 + len;
    array->count++;
}

void dbk_pg_array_null(struct pg_array *array)
{
    if (grow(array, 4)) {
        put_be32(array->bytes + array->len, UINT32_MAX);
        array->len += 4;
        array->count++;
    }
}

void dbk_pg_array_bytes(struct pg_array *array, const void *bytes, size_t len)
{
    if (!grow(array, 4 + len)) {
        return;
    }
    put_be32(array->bytes + array->len, (uint32_t)len);
    if (len > 0) {
        memcpy(array->bytes + array->len + 4, bytes, len);
    }
    array->len += 4 + len;
    array->count++;
}

void dbk_pg_array_release(struct pg_array *array)
{
    free(array->bytes);
    *array = (struct pg_array){.count = 0};
}

/* ---- arguments ----------------------------------------------------------------------------------- */

static int next(struct pg_args *args, Oid type)
{
    int i = args->count++;

    dbk_assert(args->count <= (int)PG_ARGS_MAX);
    args->types[i] = type;
    args->formats[i] = 1;
    args->values[i] = NULL;
    args->lengths[i] = 0;
    return i;
}

void dbk_pg_arg_int(struct pg_args *args, enum pg_type type, int64_t value)
{
    int i = next(args, (Oid)type);

    if (type == PG_BOOL) {
        args->small[i][0] = value != 0;
        args->lengths[i] = 1;
    } else if (type == PG_INT4) {
        put_be32(args->small[i], (uint32_t)value);
        args->lengths[i] = 4;
    } else {
        put_be64(args->small[i], (uint64_t)value);
        args->lengths[i] = 8;
    }
    args->values[i] = (const char *)args->small[i];
}

void dbk_pg_arg_null(struct pg_args *args, enum pg_type type)
{
    (void)next(args, (Oid)type);
}

void dbk_pg_arg_bytes(struct pg_args *args, enum pg_type type, struct daybook_bytes bytes)
{
    int i = next(args, (Oid)type);

    args->values[i] = bytes.len > 0 ? bytes.data : "";
    args->lengths[i] = (int)bytes.len;
}

void dbk_pg_arg_array(struct pg_args *args, struct pg_array *array)
{
    int i = next(args, array_type(array->type));

    if (array->failed) {
        args->failed = true;
        return;
    }
    put_be32(array->bytes + 12, array->count);
    if (array->count == 0) {
        put_be32(array->bytes, 0); /* an empty array has no dimension */
    }
    args->values[i] = (const char *)array->bytes;
    args->lengths[i] = array->count == 0 ? 12 : (int)array->len;
}

void dbk_pg_arg_now(struct pg_args *args, const struct pg_journal *p, int64_t now_us)
{
    if (p->clock == DAYBOOK_POSTGRES_CLOCK_CALLER) {
        dbk_pg_arg_int(args, PG_INT8, now_us);
    } else {
        dbk_pg_arg_null(args, PG_INT8);
    }
}

struct daybook_bytes dbk_pg_text(const char *s)
{
    return (struct daybook_bytes){s, strlen(s)};
}

/* ---- results -------------------------------------------------------------------------------------- */

int64_t dbk_pg_int(const PGresult *r, int row, int column)
{
    const uint8_t *at = (const uint8_t *)PQgetvalue(r, row, column);
    int len = PQgetlength(r, row, column);
    uint64_t value = 0;

    if (PQgetisnull(r, row, column) != 0) {
        return 0;
    }
    for (int i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return len == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
}

bool dbk_pg_is(const PGresult *r, int row, int column)
{
    return dbk_pg_int(r, row, column) != 0;
}

struct daybook_bytes dbk_pg_bytes(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column) != 0) {
        return (struct daybook_bytes){NULL, 0};
    }
    return (struct daybook_bytes){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}
