/* SPDX-License-Identifier: Apache-2.0 */
/* The file destination on another disk than the operating system's, for tests. */
#ifndef DBK_SINKS_FILE_H
#define DBK_SINKS_FILE_H

#include <daybook/file.h>

#include "base/os.h"

/* What one write leaves unsynced at most before it syncs: as much is looked through at an opening. */
#define DBK_FILE_UNSYNCED_MAX (16u * 1024u * 1024u)

/* As daybook_file_open; `os` is borrowed for as long as the sink. */
DAYBOOK_MUST_CHECK enum daybook_code dbk_file_open_on(const struct dbk_os *os,
                                                      const struct daybook_file_options *options,
                                                      struct daybook_sink **ret_sink,
                                                      struct daybook_error *err);

#endif
