/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliberate faults: each breaks one promise, so that the tests can show that they would notice.
 *
 * Chosen at run time in builds with the option `faults` (the test builds); in every other build
 * `dbk_fault` is a constant no and the faulty branches do not exist. Set before threads start.
 */
#ifndef DBK_BASE_FAULT_H
#define DBK_BASE_FAULT_H

#include <stdbool.h>

enum dbk_fault {
    DBK_FAULT_NONE,
    DBK_FAULT_NO_FDATASYNC,        /* A1: the log is never synced */
    DBK_FAULT_ANSWER_BEFORE_SYNC,  /* A1: appends are answered when written */
    DBK_FAULT_NO_DIR_FSYNC,        /* A1: a new segment's name is never synced */
    DBK_FAULT_SHORT_WRITE_IGNORED, /* A1: what a short write left out is taken as written */
    DBK_FAULT_CRC_WITHOUT_PLACE,   /* checksums are not bound to their place, places not compared */
    DBK_FAULT_APPEND_INTO_CRASHED, /* a segment that a crash left is written on */
    DBK_FAULT_TRUNCATE_DAMAGE,     /* damage below a proof of durability is cut off, not refused */
    DBK_FAULT_RETRY_FAILED_SYNC,   /* a failed fdatasync is called again and its yes believed */
    DBK_FAULT_COUNT
};

#ifdef DBK_FAULTS
bool dbk_fault(enum dbk_fault fault);
/* Switches one fault on, DBK_FAULT_NONE: all off. */
void dbk_fault_set(enum dbk_fault fault);
/* The name used in tables and by --fault: `"no_fdatasync"`. */
const char *dbk_fault_name(enum dbk_fault fault);
#else
static inline bool dbk_fault(enum dbk_fault fault)
{
    (void)fault;
    return false;
}
#endif

#endif
