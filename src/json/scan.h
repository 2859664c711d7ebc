/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: names that stand twice in one object, and skipping.
 */
#ifndef DBK_JSON_SCAN_H
#define DBK_JSON_SCAN_H

#include "json/json.h"

/* Ends an object whose names begin at `base`. Returns whether one stands twice, and the offset of
 * the first repetition. */
bool dbk_json_names_close(struct dbk_json_names *names, uint32_t base, struct daybook_bytes text,
                          size_t *ret_offset);

/* The string token that begins at `offset` of scanned text. */
struct daybook_bytes dbk_json_string_at(struct daybook_bytes text, size_t offset);

/* Behind the container that begins at `at`, counting brackets of both kinds alike; `end` when it does
 * not close. */
const char *dbk_json_skip_container(const char *at, const char *end);

#endif
