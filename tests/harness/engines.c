/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that the suites run on, by name. */
#include <string.h>

#include "world.h"

const struct contract_engine *contract_engine_named(const char *name)
{
    static const struct contract_engine *const engines[] = {
        &contract_log,
        &contract_log_small,
        &contract_memory,
#ifdef DBK_HAVE_POSTGRES
        &contract_postgres,
#endif
    };

    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            return engines[i];
        }
    }
    return NULL;
}
