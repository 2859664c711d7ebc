/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays corpora through a fuzz target as an ordinary test: every file of the folders that are
 * given, whole, and cut short after each of its bytes when it is small.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define FILE_BYTES_MAX (512u * 1024u)
#define CUT_BYTES_MAX 512u /* files up to this size are tried at every length */

static char **folders;

/* A copy without a byte behind it, so that a sanitizer sees every read too far. */
static void try_exactly(const char *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    assert_int_equal(LLVMFuzzerTestOneInput(copy, len), 0);
    free(copy);
}

static void replay_file(const char *path)
{
    static char bytes[FILE_BYTES_MAX];
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t len = fread(bytes, 1, sizeof bytes, in);
    assert_true(feof(in) != 0);
    (void)fclose(in);
    try_exactly(bytes, len);
    for (size_t cut = 0; len <= CUT_BYTES_MAX && cut < len; cut++) {
        try_exactly(bytes, cut);
    }
}

static void test_corpus_breaks_no_promise(void **state)
{
    (void)state;
    for (char **folder = folders; *folder != NULL; folder++) {
        DIR *dir = opendir(*folder);
        assert_non_null(dir);
        unsigned files = 0;
        for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
            if (entry->d_name[0] != '.') {
                char path[4096];
                (void)snprintf(path, sizeof path, "%s/%s", *folder, entry->d_name);
                replay_file(path);
                files++;
            }
        }
        (void)closedir(dir);
        assert_true(files > 0);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    folders = argv + 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus_breaks_no_promise)};
    return cmocka_run_group_tests_name("fuzz replay", tests, NULL, NULL);
}
