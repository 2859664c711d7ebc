/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling in a `struct daybook_error`. Threads: any.
 */
#ifndef DBK_BASE_ERROR_H
#define DBK_BASE_ERROR_H

#include <daybook/base.h>

/* Writes code and message (printf; cut at the size of the field, never inside a UTF-8 sequence) and
 * returns `code`, so that `return dbk_fail(err, DAYBOOK_X, "...")` reads well. `err` may be NULL. */
enum daybook_code dbk_fail(struct daybook_error *err, enum daybook_code code, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: `os_errno` positive; ": <its text>" is added. */
enum daybook_code dbk_fail_os(struct daybook_error *err, enum daybook_code code, int os_errno,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
