/* SPDX-License-Identifier: Apache-2.0 */
/* Problem documents and what belongs to every answer. */
#include "daemon/answer.h"

void dbk_answer_release(struct dbk_answer *answer)
{
    dbk_text_release(&answer->body);
    *answer = (struct dbk_answer){0};
}

const char *dbk_status_phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } phrases[] = {{200, "OK"},
                   {201, "Created"},
                   {202, "Accepted"},
                   {204, "No Content"},
                   {207, "Multi-Status"},
                   {400, "Bad Request"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {422, "Unprocessable Content"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Error";
}

unsigned dbk_retry_after_s(enum daybook_code code)
{
    switch (daybook_code_class(code)) {
    case DAYBOOK_CLASS_RETRY:
        return code == DAYBOOK_AT_CAPACITY ? 5 : 1;
    case DAYBOOK_CLASS_UNKNOWN:
    case DAYBOOK_CLASS_BROKEN:
        return 1;
    case DAYBOOK_CLASS_OK:
    case DAYBOOK_CLASS_REFUSED:
    case DAYBOOK_CLASS_MISUSE:
        break;
    }
    return 0;
}

void dbk_answer_problem_open(struct dbk_answer *answer, unsigned status, const char *code,
                             const char *detail)
{
    answer->status = status;
    answer->content_type = DBK_TYPE_PROBLEM;
    dbk_text_printf(&answer->body,
                    "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\","
                    "\"detail\":",
                    dbk_status_phrase(status), status, code);
    dbk_text_json_str(&answer->body, detail);
}

void dbk_answer_problem(struct dbk_answer *answer, unsigned status, const char *code,
                        const char *detail)
{
    dbk_answer_problem_open(answer, status, code, detail);
    dbk_text_str(&answer->body, "}\n");
}

void dbk_answer_undurable(struct dbk_answer *answer, enum daybook_code reason, const char *detail)
{
    answer->retry_after_s = dbk_retry_after_s(reason);
    dbk_answer_problem_open(answer, 503, daybook_code_http_name(reason), detail);
    dbk_text_printf(&answer->body, ",\"reason\":\"%s\"}\n", daybook_code_name(reason));
}
