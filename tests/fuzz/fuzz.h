/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of every fuzz target: libFuzzer calls it (`tests/fuzz/run`), and replay_test.c calls it
 * with each file of a corpus as an ordinary test. It ends the process when a promise is broken.
 */
#ifndef DBK_TESTS_FUZZ_H
#define DBK_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_PROMISE(x)                                                                            \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            (void)fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #x);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
