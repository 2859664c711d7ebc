/* SPDX-License-Identifier: Apache-2.0 */
/* `daybook mint`: request ids for producers. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <daybook/event.h>

#include "cli/cli.h"

#define RANDOM_BYTES 10u

static enum cli_status run(const struct cli_args *args)
{
    uint64_t count = 1;
    if (cli_given(args, "-n") && !cli_number(cli_value(args, "-n"), &count)) {
        return cli_error(CLI_USAGE, "mint: -n \"%s\" is no number: write digits alone",
                         cli_value(args, "-n"));
    }
    for (uint64_t i = 0; i < count && !ferror(stdout); i++) {
        uint8_t random[RANDOM_BYTES];
        char id[DAYBOOK_REQUEST_ID_MINTED_BYTES + 1];
        struct timespec now;
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
            return cli_error(CLI_FAILED, "mint: the system gives no random bytes: %s",
                             strerror(errno));
        }
        (void)clock_gettime(CLOCK_REALTIME, &now);
        daybook_request_id_from((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                                random, id);
        (void)puts(id);
    }
    return cli_finish_output();
}

const struct cli_command cli_mint = {
    .name = "mint",
    .arguments = "[-n N]",
    .summary = "makes request ids (`req_` and a UUIDv7), one a line",
    .about = "For producers: an id names one event for good, so a producer keeps it and sends it "
             "again with\n"
             "each repeat.\n",
    .examples = "  daybook mint -n 1000 > ids\n",
    .flags = {{"-n", NULL, "N", NULL, "how many (1)"}},
    .run = run,
};
