/* SPDX-License-Identifier: Apache-2.0 */
/* What verify, repair and backup found, for people and for programs. Threads: the main thread alone. */
#ifndef DBK_CLI_FINDING_H
#define DBK_CLI_FINDING_H

#include <stdbool.h>

#include <daybook/log.h>

/* One line on stdout. */
void cli_print_finding(const struct daybook_log_finding *finding, bool json);

#endif
