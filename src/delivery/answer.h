/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with every destination's answer, whoever asked (P). Threads: any.
 */
#ifndef DBK_DELIVERY_ANSWER_H
#define DBK_DELIVERY_ANSWER_H

#include <daybook/sink.h>

/* To be called before a write: a sink is somebody's code, and what it leaves out must not be what an earlier
 * one said. */
void dbk_answer_reset(struct daybook_answer *answer);

/* What the destination said where it did not accept; "" where it did. Borrowed from the answer. */
const char *dbk_answer_message(const struct daybook_answer *answer);

#endif
