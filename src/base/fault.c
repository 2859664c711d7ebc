/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch of deliberate faults, in builds that have them (base/fault.h). Threads: any may ask;
 * set before threads start.
 */
#include "base/fault.h"

#ifdef DBK_FAULTS
#include <stdatomic.h>

static _Atomic int active = DBK_FAULT_NONE;

static const char *const names[] = {
    [DBK_FAULT_NONE] = "none",
    [DBK_FAULT_NO_FDATASYNC] = "no_fdatasync",
    [DBK_FAULT_ANSWER_BEFORE_SYNC] = "answer_before_sync",
    [DBK_FAULT_NO_DIR_FSYNC] = "no_dir_fsync",
    [DBK_FAULT_SHORT_WRITE_IGNORED] = "short_write_ignored",
    [DBK_FAULT_CRC_WITHOUT_PLACE] = "crc_without_place",
    [DBK_FAULT_APPEND_INTO_CRASHED] = "append_into_crashed",
    [DBK_FAULT_TRUNCATE_DAMAGE] = "truncate_damage",
    [DBK_FAULT_RETRY_FAILED_SYNC] = "retry_failed_sync",
};
_Static_assert(sizeof names / sizeof names[0] == DBK_FAULT_COUNT, "every fault has its name");

bool dbk_fault(enum dbk_fault fault)
{
    return fault != DBK_FAULT_NONE &&
           atomic_load_explicit(&active, memory_order_relaxed) == (int)fault;
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
