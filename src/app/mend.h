/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `journal.damage: repair`: a journal that is refused as damaged is repaired at the start and opened.
 *
 * The new directory takes the place of the old one in one step, so that whatever ends the process, the path
 * holds either of them whole. Files that are not the journal's (a ledger beside it) stay at their path. The old
 * directory is kept beside it, and so is, inside, a file that says what happened: the flag that is up until an
 * operator removes it. Threads: owner.
 */
#ifndef DBK_APP_MEND_H
#define DBK_APP_MEND_H

#include "app/config.h"

#define DBK_MENDED_FILE "REPAIRED" /* in the journal's directory */

/* `why`: what the opening said. Returns OK: open it again; DAMAGED, with what stood in the way and the mend;
 * NO_MEMORY. */
enum daybook_code dbk_mend_journal(const struct dbk_config *config, const char *why,
                                   struct daybook_error *err);
/* Whether the flag is up. */
bool dbk_mend_flag_is_up(const struct dbk_config *config);

#endif
