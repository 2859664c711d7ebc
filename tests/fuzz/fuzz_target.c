/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of what a request is aimed at: its path with its percent-encoding, and the small words of queries and
 * configuration (durations, sizes, starts, addresses). The first byte says which.
 */
#include "fuzz.h"

#include <string.h>

#include "app/config.h"
#include "daemon/target.h"

#define TEXT_MAX 2048u

static bool answers(enum daybook_code code)
{
    return code == DAYBOOK_OK || code == DAYBOOK_NOT_FOUND || code == DAYBOOK_BAD_ARGUMENT;
}

static void try_path(const char *path, const char *method)
{
    struct dbk_target target;
    struct daybook_error err = {0};
    memset(&target, 0x5A, sizeof target);
    enum daybook_code code = dbk_target_parse(path, method, &target, &err);
    FUZZ_PROMISE(answers(code));
    if (code == DAYBOOK_OK) {
        FUZZ_PROMISE(target.route < DBK_ROUTE_NONE && target.allow != NULL);
        FUZZ_PROMISE(memchr(target.consumer, '\0', sizeof target.consumer) != NULL);
        FUZZ_PROMISE(memchr(target.request_id, '\0', sizeof target.request_id) != NULL);
    } else {
        FUZZ_PROMISE(code == DAYBOOK_NOT_FOUND || err.message[0] != '\0');
    }
}

/* Decoded, it is never longer than it was, and whole in any room that holds it. */
static void try_percent(const char *text, size_t len)
{
    char roomy[TEXT_MAX + 1];
    char *exact;
    if (!dbk_percent_decode(text, len, roomy, sizeof roomy)) {
        return;
    }
    size_t decoded = strlen(roomy);
    FUZZ_PROMISE(decoded <= len);
    exact = malloc(decoded + 1);
    FUZZ_PROMISE(exact != NULL && dbk_percent_decode(text, len, exact, decoded + 1));
    FUZZ_PROMISE(strcmp(exact, roomy) == 0);
    FUZZ_PROMISE(decoded == 0 || !dbk_percent_decode(text, len, exact, decoded));
    free(exact);
}

static void try_words(const char *text)
{
    struct daybook_error err = {0};
    struct daybook_start start;
    struct dbk_config_address address;
    int64_t ms = -1;
    uint64_t bytes = 0;
    enum daybook_code codes[4] = {dbk_duration_parse(text, &ms, &err), DAYBOOK_OK, DAYBOOK_OK,
                                  DAYBOOK_OK};
    FUZZ_PROMISE(codes[0] != DAYBOOK_OK || ms >= 0);
    codes[1] = dbk_size_parse(text, &bytes, &err);
    codes[2] = dbk_start_parse(text, &start, &err);
    codes[3] = dbk_address_parse(text, &address, &err);
    for (size_t i = 0; i < 4; i++) {
        FUZZ_PROMISE(codes[i] == DAYBOOK_OK || codes[i] == DAYBOOK_BAD_CONFIG);
        FUZZ_PROMISE(codes[i] == DAYBOOK_OK || err.message[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX + 1];
    if (size < 1) {
        return 0;
    }
    size_t len = size - 1 < TEXT_MAX ? size - 1 : TEXT_MAX;
    memcpy(text, data + 1, len);
    text[len] = '\0';
    switch (data[0]) {
    case '%':
        try_percent(text, len);
        break;
    case 'w':
        try_words(text);
        break;
    case 'p':
        try_path(text, "POST");
        break;
    case 'd':
        try_path(text, "DELETE");
        break;
    default:
        try_path(text, "GET");
        break;
    }
    return 0;
}
