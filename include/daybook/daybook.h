/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that `libdaybook` offers; each part also stands in a header of its own. */
#ifndef DAYBOOK_DAYBOOK_H
#define DAYBOOK_DAYBOOK_H

#include <daybook/base.h>
#include <daybook/event.h>
#include <daybook/file.h>
#include <daybook/journal.h>
#include <daybook/log.h>
#include <daybook/memory.h>
#include <daybook/postgres.h>
#include <daybook/sink.h>
#include <daybook/sqlite.h>
#include <daybook/worker.h>

#endif
