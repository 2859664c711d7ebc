/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that stand twice in one object. Each name is kept as a hash and an offset while its object
 * is open. When it closes, a few are compared each with each; many are sorted by hash and then by
 * name, so that no choice of names, colliding hashes included, costs more than n log n comparisons.
 * Up to DBK_JSON_NAMES_FIXED names nothing is allocated. Threads: any; a scratch by one at a time.
 */
#include "json/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#define PAIRWISE_MAX 32u /* names compared each with each */

void dbk_json_names_init(struct dbk_json_names *names)
{
    names->open = names->fixed;
    names->count = 0;
    names->room = DBK_JSON_NAMES_FIXED;
}

void dbk_json_names_release(struct dbk_json_names *names)
{
    if (names->open != names->fixed) {
        free(names->open);
        names->open = names->fixed;
    }
}

static bool grow(struct dbk_json_names *names)
{
    size_t room = (size_t)names->room * 2;
    struct dbk_json_name *more =
        room > UINT32_MAX ? NULL : (struct dbk_json_name *)malloc(room * sizeof *more);
    if (more == NULL) {
        return false;
    }
    memcpy(more, names->open, names->count * sizeof *more);
    dbk_json_names_release(names);
    names->open = more;
    names->room = (uint32_t)room;
    return true;
}

bool dbk_json_names_add(struct dbk_json_names *names, uint32_t hash, size_t offset)
{
    if (names->count == names->room && !grow(names)) {
        return false;
    }
    struct dbk_json_name *name = &names->open[names->count++];
    name->hash = hash;
    name->offset = (uint32_t)offset;
    return true;
}

/* Sorting: by hash, then by name, then by offset. */
static int compare_names(const struct daybook_bytes *text, const struct dbk_json_name *a,
                         const struct dbk_json_name *b)
{
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    return dbk_json_string_compare(dbk_json_string_at(*text, a->offset),
                                   dbk_json_string_at(*text, b->offset));
}

/* The order of the sort: what is equal by name stands by offset. */
static bool before(const struct daybook_bytes *text, const struct dbk_json_name *a,
                   const struct dbk_json_name *b)
{
    int order = compare_names(text, a, b);
    return order != 0 ? order < 0 : a->offset < b->offset;
}

static void sift_down(const struct daybook_bytes *text, struct dbk_json_name *heap, size_t count,
                      size_t at)
{
    struct dbk_json_name moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && before(text, &heap[child], &heap[child + 1])) {
            child++;
        }
        if (!before(text, &moving, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* A heap sort: in place, and n log n whatever the input. */
static void sort_names(const struct daybook_bytes *text, struct dbk_json_name *list, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift_down(text, list, count, i - 1);
    }
    for (size_t n = count; n > 1; n--) {
        struct dbk_json_name last = list[n - 1];
        list[n - 1] = list[0];
        list[0] = last;
        sift_down(text, list, n - 1, 0);
    }
}

static void note(const struct dbk_json_name *a, const struct dbk_json_name *b, size_t *found)
{
    size_t later = a->offset > b->offset ? a->offset : b->offset;
    if (later < *found) {
        *found = later;
    }
}

void dbk_json_names_sort(struct dbk_json_names *names, uint32_t base, struct daybook_bytes text)
{
    sort_names(&text, names->open + base, names->count - base);
}

const struct dbk_json_name *dbk_json_names_find(const struct dbk_json_names *names, uint32_t base,
                                                struct daybook_bytes text,
                                                struct daybook_bytes token)
{
    uint32_t hash = dbk_json_string_hash(token);
    size_t low = base;
    size_t high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct dbk_json_name *name = &names->open[middle];
        int order = name->hash != hash
                        ? (name->hash < hash ? -1 : 1)
                        : dbk_json_string_compare(dbk_json_string_at(text, name->offset), token);
        if (order == 0) {
            return name;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* Notes names that stand twice among a few. A bit for each hash seen tells most names at once. */
static void find_pairwise(const struct daybook_bytes *text, const struct dbk_json_name *list,
                          size_t count, size_t *found)
{
    uint64_t seen[4] = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t bit = UINT64_C(1) << (list[i].hash & 63);
        uint64_t *word = &seen[list[i].hash >> 6 & 3];
        for (size_t j = 0; (*word & bit) != 0 && j < i; j++) {
            if (list[i].hash == list[j].hash && compare_names(text, &list[i], &list[j]) == 0) {
                note(&list[i], &list[j], found);
            }
        }
        *word |= bit;
    }
}

bool dbk_json_names_close(struct dbk_json_names *names, uint32_t base, struct daybook_bytes text,
                          size_t *ret_offset)
{
    struct dbk_json_name *list = names->open + base;
    size_t count = names->count - base;
    size_t found = SIZE_MAX;
    names->count = base;
    if (count <= PAIRWISE_MAX) {
        find_pairwise(&text, list, count, &found);
    } else {
        sort_names(&text, list, count);
        for (size_t i = 1; i < count; i++) {
            if (list[i].hash == list[i - 1].hash &&
                compare_names(&text, &list[i], &list[i - 1]) == 0) {
                note(&list[i], &list[i - 1], &found);
            }
        }
    }
    if (found == SIZE_MAX || dbk_fault(DBK_FAULT_DUPLICATE_NAMES_TAKEN)) {
        return false;
    }
    *ret_offset = found;
    return true;
}
