/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination's own words as they stand in a quarantine entry (K4): one JSON object, so that whoever
 * lists what is quarantined finds the code, the constraint, the column and the message apart.
 *
 * Pure. Threads: any.
 */
#ifndef DBK_DELIVERY_WORDS_H
#define DBK_DELIVERY_WORDS_H

#include <daybook/journal.h>
#include <daybook/sink.h>

/* `{"sink":"ledger","code":"SQLITE_CONSTRAINT_CHECK","constraint":"cost","message":"..."}`: what the
 * destination did not say is left out. The fields need not end in NUL; bytes that are not UTF-8 become U+FFFD,
 * and where all of it would be too long each text is cut between characters. Returns the bytes in `buf`. */
struct daybook_bytes dbk_words_encode(const char *sink, const struct daybook_words *words,
                                      char buf[DAYBOOK_WORDS_BYTES_MAX]);

#endif
