/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From record members to columns: one walk over the top level of the record, no copy but of strings
 * that hold escapes.
 */
#include "sinks/columns.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "json/json.h"

static const struct dbk_column_info infos[DBK_COLUMN_COUNT] = {
    [DBK_COLUMN_TRACE_ID] = {"trace_id", DBK_COLUMN_TEXT, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_MODEL] = {"model", DBK_COLUMN_TEXT, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_TARGET_PROVIDER] = {"target_provider", DBK_COLUMN_TEXT, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_TARGET_MODEL] = {"target_model", DBK_COLUMN_TEXT, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_STATUS] = {"status", DBK_COLUMN_TEXT, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_INPUT_TOKENS] = {"input_tokens", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_OUTPUT_TOKENS] = {"output_tokens", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_CACHE_READ_TOKENS] = {"cache_read_tokens", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_CACHE_WRITE_TOKENS] = {"cache_write_tokens", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_REASONING_TOKENS] = {"reasoning_tokens", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_COST_MICRODOLLARS] = {"cost_microdollars", DBK_COLUMN_INTEGER, DBK_COLUMN_BILLED},
    [DBK_COLUMN_LATENCY_MS] = {"latency_ms", DBK_COLUMN_INTEGER, DBK_COLUMN_LIGHT},
    [DBK_COLUMN_ATTEMPTS] = {"attempts", DBK_COLUMN_INTEGER, DBK_COLUMN_LIGHT},
};

const struct dbk_column_info *dbk_column_info(enum dbk_column column)
{
    dbk_assert(column < DBK_COLUMN_COUNT);
    return &infos[column];
}

/* The column that a member's name (a string token) stands for; DBK_COLUMN_COUNT: none. */
static enum dbk_column column_of(struct daybook_bytes name)
{
    char plain[32];

    static_assert(sizeof plain > sizeof "cache_write_tokens", "room for the longest name");
    if (name.len < 2) {
        return DBK_COLUMN_COUNT;
    }
    const char *text = name.data + 1;
    size_t len = name.len - 2;
    if (memchr(text, '\\', len) != NULL) {
        len = dbk_json_string_decode(name, plain, sizeof plain);
        text = plain;
        if (len > sizeof plain) {
            return DBK_COLUMN_COUNT;
        }
    }
    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        const char *column = infos[i].name;
        if (strncmp(column, text, len) == 0 && column[len] == '\0') {
            return (enum dbk_column)i;
        }
    }
    return DBK_COLUMN_COUNT;
}

/* The text of a string token: as it stands, or unescaped into the scratch. */
static bool text_of(struct dbk_columns *columns, struct daybook_bytes token,
                    struct daybook_bytes *ret)
{
    if (token.len < 2) {
        return false;
    }
    struct daybook_bytes inner = {token.data + 1, token.len - 2};
    size_t room = sizeof columns->scratch - columns->scratch_used;
    char *buf = columns->scratch + columns->scratch_used;

    if (inner.len > 0 && memchr(inner.data, '\\', inner.len) != NULL) {
        size_t len = dbk_json_string_decode(token, buf, room);
        if (len > room) {
            return false;
        }
        columns->scratch_used += len <= DBK_COLUMN_TEXT_MAX ? len : 0;
        inner.data = buf;
        inner.len = len;
    }
    *ret = inner;
    return inner.len <= DBK_COLUMN_TEXT_MAX;
}

static void value_of(struct dbk_columns *columns, enum dbk_column column,
                     const struct dbk_json_item *item)
{
    struct dbk_column_value *value = &columns->values[column];
    bool text = infos[column].type == DBK_COLUMN_TEXT;

    value->kind = DBK_VALUE_UNFIT;
    value->text = item->value;
    if (item->kind == DBK_JSON_NULL) {
        value->kind = DBK_VALUE_EMPTY;
    } else if (text && item->kind == DBK_JSON_STRING) {
        value->kind =
            text_of(columns, item->value, &value->text) ? DBK_VALUE_TEXT : DBK_VALUE_UNFIT;
    } else if (text && item->kind == DBK_JSON_NUMBER && item->value.len <= DBK_COLUMN_TEXT_MAX) {
        value->kind = DBK_VALUE_TEXT;
    } else if (!text && item->kind == DBK_JSON_NUMBER &&
               dbk_json_number_int64(item->value, &value->integer)) {
        value->kind = DBK_VALUE_INTEGER;
    }
    if (value->kind == DBK_VALUE_UNFIT) {
        value->text = item->value;
        columns->unfit++;
        columns->unfit_billed += infos[column].weight == DBK_COLUMN_BILLED ? 1 : 0;
    }
}

void dbk_columns_read(struct daybook_bytes record, struct dbk_columns *ret)
{
    struct dbk_json_walk walk;
    struct dbk_json_item item;

    for (unsigned i = 0; i < DBK_COLUMN_COUNT; i++) {
        ret->values[i].kind = DBK_VALUE_EMPTY;
    }
    ret->unfit = 0;
    ret->unfit_billed = 0;
    ret->scratch_used = 0;
    if (!dbk_json_walk_init(&walk, record)) {
        return;
    }
    while (dbk_json_walk_next(&walk, &item)) {
        enum dbk_column column = column_of(item.name);
        if (column != DBK_COLUMN_COUNT) {
            value_of(ret, column, &item);
        }
    }
}
