/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of answer.h. */
#include "delivery/answer.h"

const char *dbk_answer_message(const struct daybook_answer *answer)
{
    if (answer->kind == DAYBOOK_ANSWER_REJECTED && answer->rejected_count > 0) {
        return answer->rejected[0].words.message;
    }
    return answer->kind == DAYBOOK_ANSWER_ACCEPTED ? "" : answer->words.message;
}
