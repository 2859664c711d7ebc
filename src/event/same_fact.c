/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same-fact comparison (E6): two records as JSON values, without trees and without recursion.
 *
 * Both are walked side by side. As long as their members come in the same order nothing else is
 * needed; at the first that does not, the members of the second object are put in order once, and
 * looked up. So the cost is n log n whatever the order. The room for that is on the stack up to 512
 * members and allocated beyond; when there is no memory the members are searched one by one, slowly
 * and as rightly. Threads: any.
 */
#include <daybook/event.h>

#include <string.h>

#include "event/form.h"
#include "json/json.h"

/* When the usage was observed does not count: the one name in a flat record, the other in a CloudEvent. */
static const struct daybook_bytes observed_at = {"observed_at", 11};
static const struct daybook_bytes cloudevent_time = {"time", 4};

enum lookup {
    LOOKUP_IN_STEP, /* so far both objects had the same order */
    LOOKUP_SORTED,
    LOOKUP_ONE_BY_ONE
};

/* A pair of objects or arrays that is being compared. */
struct pair {
    struct dbk_json_walk a;
    struct dbk_json_walk b;
    struct dbk_json_walk b_begin;
    enum lookup lookup;
    uint32_t names_base;
    uint64_t taken; /* members of a that were found in b */
};

struct comparison {
    bool cloudevents;       /* both are */
    struct daybook_bytes b; /* the whole record: offsets of names count from its first byte */
    struct dbk_json_names names;
    unsigned depth;
    struct pair pairs[DBK_JSON_DEPTH_MAX];
};

static bool bytes_equal(struct daybook_bytes a, struct daybook_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool is_left_out(const struct comparison *c, struct daybook_bytes name)
{
    return dbk_json_string_is(name, observed_at) ||
           (c->cloudevents && dbk_json_string_is(name, cloudevent_time));
}

/* The next member or element that counts. */
static bool next_item(const struct comparison *c, struct dbk_json_walk *walk,
                      struct dbk_json_item *ret)
{
    while (dbk_json_walk_next(walk, ret)) {
        if (c->depth > 1 || !walk->object || !is_left_out(c, ret->name)) {
            return true;
        }
    }
    return false;
}

static bool names_equal(const struct dbk_json_item *a, const struct dbk_json_item *b)
{
    return dbk_json_string_compare(a->name, b->name) == 0;
}

static uint64_t count_items(const struct comparison *c, struct dbk_json_walk walk)
{
    struct dbk_json_item item;
    uint64_t count = 0;
    while (next_item(c, &walk, &item)) {
        count++;
    }
    return count;
}

/* Puts the members of b in order, or decides to do without. */
static void leave_step(struct comparison *c, struct pair *pair)
{
    struct dbk_json_walk walk = pair->b_begin;
    struct dbk_json_item item;
    pair->names_base = c->names.count;
    pair->lookup = LOOKUP_SORTED;
    while (next_item(c, &walk, &item)) {
        if (!dbk_json_names_add(&c->names, dbk_json_string_hash(item.name),
                                (size_t)(item.name.data - c->b.data))) {
            c->names.count = pair->names_base;
            pair->lookup = LOOKUP_ONE_BY_ONE;
            return;
        }
    }
    dbk_json_names_sort(&c->names, pair->names_base, c->b);
}

static bool find_sorted(const struct comparison *c, const struct pair *pair,
                        const struct dbk_json_item *a, struct dbk_json_item *ret)
{
    const struct dbk_json_name *name =
        dbk_json_names_find(&c->names, pair->names_base, c->b, a->name);
    if (name == NULL) {
        return false;
    }
    struct dbk_json_walk walk = {c->b.data + name->offset, pair->b.end, true};
    return dbk_json_walk_next(&walk, ret);
}

static bool find_one_by_one(const struct comparison *c, const struct pair *pair,
                            const struct dbk_json_item *a, struct dbk_json_item *ret)
{
    struct dbk_json_walk walk = pair->b_begin;
    while (next_item(c, &walk, ret)) {
        if (names_equal(a, ret)) {
            return true;
        }
    }
    return false;
}

/* The member of b that has the name of this one of a. */
static bool find_member(struct comparison *c, struct pair *pair, const struct dbk_json_item *a,
                        struct dbk_json_item *ret)
{
    if (pair->lookup == LOOKUP_IN_STEP) {
        if (next_item(c, &pair->b, ret) && names_equal(a, ret)) {
            return true;
        }
        leave_step(c, pair);
    }
    return pair->lookup == LOOKUP_SORTED ? find_sorted(c, pair, a, ret)
                                         : find_one_by_one(c, pair, a, ret);
}

/* Whether b has nothing left that a has not. Names stand once in each, so equal numbers decide. */
static bool ends_alike(struct comparison *c, struct pair *pair)
{
    struct dbk_json_item item;
    if (pair->lookup == LOOKUP_IN_STEP) {
        return !next_item(c, &pair->b, &item);
    }
    if (pair->lookup == LOOKUP_SORTED) {
        uint64_t count = c->names.count - pair->names_base;
        c->names.count = pair->names_base;
        return count == pair->taken;
    }
    return count_items(c, pair->b_begin) == pair->taken;
}

static bool enter(struct comparison *c, struct daybook_bytes a, struct daybook_bytes b)
{
    if (c->depth == DBK_JSON_DEPTH_MAX) {
        return false;
    }
    struct pair *pair = &c->pairs[c->depth];
    if (!dbk_json_walk_init(&pair->a, a) || !dbk_json_walk_init(&pair->b, b)) {
        return false;
    }
    pair->b_begin = pair->b;
    pair->lookup = LOOKUP_IN_STEP;
    pair->names_base = c->names.count;
    pair->taken = 0;
    c->depth++;
    return true;
}

/* Compares two values, but for what is inside objects and arrays: those are entered. */
static bool compare_values(struct comparison *c, const struct dbk_json_item *a,
                           const struct dbk_json_item *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case DBK_JSON_OBJECT_BEGIN:
    case DBK_JSON_ARRAY_BEGIN:
        return enter(c, a->value, b->value);
    case DBK_JSON_STRING:
        return dbk_json_string_compare(a->value, b->value) == 0;
    case DBK_JSON_NUMBER:
        return dbk_json_number_equal(a->value, b->value);
    case DBK_JSON_TRUE:
    case DBK_JSON_FALSE:
    case DBK_JSON_NULL:
    case DBK_JSON_FAULT:
    case DBK_JSON_END:
    case DBK_JSON_OBJECT_END:
    case DBK_JSON_ARRAY_END:
    case DBK_JSON_NAME:
    default:
        return true;
    }
}

/* One step: the next member or element of the innermost pair, or its end. */
static bool step(struct comparison *c)
{
    struct pair *pair = &c->pairs[c->depth - 1];
    struct dbk_json_item a;
    struct dbk_json_item b;
    if (!next_item(c, &pair->a, &a)) {
        if (!ends_alike(c, pair)) {
            return false;
        }
        c->depth--;
        return true;
    }
    bool found = pair->a.object ? find_member(c, pair, &a, &b) : next_item(c, &pair->b, &b);
    pair->taken++;
    return found && compare_values(c, &a, &b);
}

static bool records_equal(struct daybook_bytes a, struct daybook_bytes b)
{
    struct comparison c;
    c.cloudevents = dbk_record_is_cloudevent(a) && dbk_record_is_cloudevent(b);
    c.b = b;
    c.depth = 0;
    dbk_json_names_init(&c.names);
    bool equal = enter(&c, a, b);
    while (equal && c.depth > 0) {
        equal = step(&c);
    }
    dbk_json_names_release(&c.names);
    return equal;
}

/* Whether this passed the check of a record. When there is no memory to look for names that stand
 * twice, the promise of the caller counts. */
static bool is_record(struct daybook_bytes text)
{
    enum daybook_code code = dbk_json_check_object(text, NULL);
    if (code != DAYBOOK_NO_MEMORY) {
        return code == DAYBOOK_OK;
    }
    struct dbk_json json;
    dbk_json_init(&json, text, NULL);
    enum dbk_json_token token;
    do {
        token = dbk_json_next(&json);
    } while (token != DBK_JSON_FAULT && token != DBK_JSON_END);
    return dbk_json_verdict(&json, NULL) == DAYBOOK_OK;
}

bool daybook_event_same_fact(const struct daybook_event *a, const struct daybook_event *b)
{
    if (!bytes_equal(a->name_space, b->name_space) || !bytes_equal(a->subject, b->subject) ||
        !is_record(a->record)) {
        return false;
    }
    return bytes_equal(a->record, b->record) ||
           (is_record(b->record) && records_equal(a->record, b->record));
}
