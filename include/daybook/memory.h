/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory engine: a journal that does not outlive its process. It keeps every rule of the contract but
 * durability, searches linearly, and is what the other engines are compared with. Its mode is
 * DAYBOOK_MODE_TELEMETRY_GRADE (M1): for tests, tools and trials, not for billing.
 */
#ifndef DAYBOOK_MEMORY_H
#define DAYBOOK_MEMORY_H

#include <daybook/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Opens an empty journal in memory.
 * @param capacity borrowed; zero means the default everywhere.
 * @param ret_journal owned: release with `daybook_journal_close`, which forgets everything.
 * Returns OK; retry: NO_MEMORY; refused: BAD_CONFIG. Durable: nothing, ever. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_memory_open(
    const struct daybook_capacity *capacity, struct daybook_journal **ret_journal,
    struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
