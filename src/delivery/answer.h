/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with every destination's answer, whoever asked (P). Threads: any.
 */
#ifndef DBK_DELIVERY_ANSWER_H
#define DBK_DELIVERY_ANSWER_H

#include <daybook/sink.h>

/* What the destination said where it did not accept; "" where it did. Borrowed from the answer. */
const char *dbk_answer_message(const struct daybook_answer *answer);

#endif
