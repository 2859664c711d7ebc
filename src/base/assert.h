/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dbk_assert: for our own bugs only, on in every build. Bytes from disk, net, database, configuration
 * or a public argument never reach one: they get a code.
 */
#ifndef DBK_BASE_ASSERT_H
#define DBK_BASE_ASSERT_H

_Noreturn void dbk_assert_failed(const char *expression, const char *file, int line);

#define dbk_assert(x) ((x) ? (void)0 : dbk_assert_failed(#x, __FILE__, __LINE__))

#endif
