/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a consumer may be called, checked by everything that takes a name from outside. Pure;
 * threads: any.
 */
#ifndef DBK_JOURNAL_NAMES_H
#define DBK_JOURNAL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* `[a-z0-9_-]`, 1 to DAYBOOK_CONSUMER_NAME_MAX characters. `name` need not be NUL-terminated. */
bool dbk_consumer_name_valid(const char *name, size_t len);

#endif
