/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the configuration: any bytes are a file of YAML. What is refused is refused with its line; what is
 * taken keeps the bounds that the rest of the daemon counts on.
 */
#include "fuzz.h"

#include <string.h>

#include "app/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dbk_config *config = NULL;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_config_parse(
        "fuzz.yaml", (struct daybook_bytes){(const char *)data, size}, &config, &err);
    FUZZ_PROMISE(code == DAYBOOK_OK || code == DAYBOOK_BAD_CONFIG || code == DAYBOOK_NO_MEMORY);
    if (code == DAYBOOK_BAD_CONFIG) {
        FUZZ_PROMISE(config == NULL && strncmp(err.message, "fuzz.yaml:", 10) == 0);
    }
    if (code == DAYBOOK_OK) {
        FUZZ_PROMISE(config->consumer_count <= DAYBOOK_CONSUMERS_MAX);
        FUZZ_PROMISE(dbk_config_event_limits(config).event_bytes_max > 0);
        (void)dbk_config_telemetry_reason(config);
        dbk_config_free(config);
    }
    return 0;
}
