/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a checkpoint to memory: the state as it stood at the checkpoint's LSN, with the places and
 * identities of its events from the indexes of the segments before it, or from those segments where an
 * index is missing or bad. What stands from there on is replayed by recovery.c.
 *
 * Reads only. Run by the thread that opens.
 */
#ifndef DBK_ENGINES_LOG_RESUME_H
#define DBK_ENGINES_LOG_RESUME_H

#include "engines/log/checkpoint.h"
#include "engines/log/scan.h"

struct dbk_log;

/* Loads into the new memory of `log`, which knows its segments. *ret_usable no: the checkpoint cannot be used
 * (it contradicts itself, or its segment is gone), and the code is DAMAGED. Not OK otherwise: what the
 * device or a segment says, for which no other checkpoint helps. */
enum daybook_code dbk_resume_begin(struct dbk_log *log, const struct dbk_scan *scan,
                                   const struct dbk_checkpoint_file *file, bool *ret_usable,
                                   struct daybook_error *err);
/* A frame in front of the checkpoint, of the segment that it stands in. `of_its_group`: of the group that
 * the LSN lies in, whose records the checkpoint does not know the places of. */
enum daybook_code dbk_resume_frame(struct dbk_log *log, const struct dbk_frame *frame,
                                   bool of_its_group, struct daybook_error *err);
/* Everything was replayed. DAMAGED: an event of the checkpoint is nowhere. */
enum daybook_code dbk_resume_end(struct dbk_log *log, struct daybook_error *err);

#endif
