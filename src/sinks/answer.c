/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of every answer of a destination (sink.h), whoever asks. Threads: any. */
#include <daybook/sink.h>

void daybook_answer_reset(struct daybook_answer *answer)
{
    answer->kind = DAYBOOK_ANSWER_UNAVAILABLE;
    answer->others = DAYBOOK_OTHERS_NOT_WRITTEN;
    answer->refusal = DAYBOOK_REFUSAL_PLAIN;
    answer->effect = DAYBOOK_EFFECT_NONE;
    answer->rejected_count = 0;
    answer->retry_after_us = 0;
    answer->values_left_out = 0;
    answer->words = (struct daybook_words){0};
}
