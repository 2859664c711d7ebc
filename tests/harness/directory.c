/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of its own for a test. See directory.h.
 */
#include "harness/directory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        abort();
    }
}

void harness_directory_make(char *ret_path, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(ret_path, size, "%s/daybook-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    must(mkdtemp(ret_path) != NULL, "a directory for a test");
}

void harness_directory_remove(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char file[512];

    must(dir != NULL, path);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            must(unlink(file) == 0, file);
        }
    }
    must(closedir(dir) == 0 && rmdir(path) == 0, path);
}
