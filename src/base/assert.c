/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process that found a bug of its own. This is the one place of the library that writes
 * to stderr: nothing after it could be trusted to report it. Threads: any.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void dbk_assert_failed(const char *expression, const char *file, int line)
{
    (void)fprintf(stderr, "daybook: internal error at %s:%d: %s does not hold\n", file, line,
                  expression);
    abort();
}
