/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of answer.h. */
#include "delivery/answer.h"

void dbk_answer_reset(struct daybook_answer *answer)
{
    answer->kind = DAYBOOK_ANSWER_UNAVAILABLE;
    answer->others = DAYBOOK_OTHERS_NOT_WRITTEN;
    answer->refusal = DAYBOOK_REFUSAL_PLAIN;
    answer->rejected_count = 0;
    answer->retry_after_us = 0;
    answer->values_left_out = 0;
    answer->words = (struct daybook_words){0};
}

const char *dbk_answer_message(const struct daybook_answer *answer)
{
    if (answer->kind == DAYBOOK_ANSWER_REJECTED && answer->rejected_count > 0) {
        return answer->rejected[0].words.message;
    }
    return answer->kind == DAYBOOK_ANSWER_ACCEPTED ? "" : answer->words.message;
}
