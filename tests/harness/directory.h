/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of its own for a test that needs the real file system. Threads: any; one a directory.
 */
#ifndef HARNESS_DIRECTORY_H
#define HARNESS_DIRECTORY_H

#include <stddef.h>

/* Makes it in $TMPDIR or /tmp and writes its path; ends the program where that cannot be done. */
void harness_directory_make(char *ret_path, size_t size);
/* Removes it with the files in it. It holds no other directory. */
void harness_directory_remove(const char *path);

#endif
