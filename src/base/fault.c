/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch of deliberate faults, in builds that have them (base/fault.h). Threads: any may ask;
 * set before threads start.
 */
#include "base/fault.h"

#ifdef DBK_FAULTS
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FROM_THE_ENVIRONMENT (-1)

static _Atomic int active = FROM_THE_ENVIRONMENT;

#define NAME_OF(id, name) [DBK_FAULT_##id] = (name),
static const char *const names[] = {[DBK_FAULT_NONE] = "none", DBK_FAULT_LIST(NAME_OF)};

static int chosen(void)
{
    const char *name = getenv("DAYBOOK_FAULT");

    if (name == NULL || name[0] == '\0') {
        return DBK_FAULT_NONE;
    }
    for (int i = 0; i < DBK_FAULT_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    (void)fprintf(stderr, "DAYBOOK_FAULT: there is no fault %s; src/base/fault.h lists them\n",
                  name);
    abort();
}

bool dbk_fault(enum dbk_fault fault)
{
    int now = atomic_load_explicit(&active, memory_order_relaxed);

    if (now == FROM_THE_ENVIRONMENT) {
        now = chosen();
        atomic_store_explicit(&active, now, memory_order_relaxed);
    }
    return fault != DBK_FAULT_NONE && now == (int)fault;
}

void dbk_fault_set(enum dbk_fault fault)
{
    atomic_store_explicit(&active, (int)fault, memory_order_relaxed);
}

const char *dbk_fault_name(enum dbk_fault fault)
{
    return (unsigned)fault < DBK_FAULT_COUNT ? names[fault] : "unknown_fault";
}
#endif
