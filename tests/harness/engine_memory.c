/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory engine as a subject of the contract's tests. A kill and a close are the same to it: its
 * storage is handed over.
 */
#include "harness/world.h"

#include "engines/memory/memory.h"

static enum daybook_code open_memory(struct contract_world *world,
                                     const struct daybook_capacity *capacity,
                                     struct daybook_error *err)
{
    return dbk_memory_open(capacity, &world->disk->os, &world->journal, err);
}

static enum daybook_code reopen_memory(struct contract_world *world, enum contract_end end,
                                       const struct daybook_capacity *capacity,
                                       struct daybook_error *err)
{
    (void)end;
    return dbk_memory_restart(&world->journal, capacity, err);
}

static enum daybook_code open_memory_shared(struct contract_world *world,
                                            const struct daybook_capacity *capacity,
                                            struct daybook_error *err)
{
    return daybook_memory_open(capacity, &world->journal, err);
}

static bool set_row_memory(struct contract_world *world, uint64_t position, enum contract_row row)
{
    static const enum dbk_memory_row rows[] = {
        [CONTRACT_ROW_SOUND] = DBK_MEMORY_ROW_SOUND,
        [CONTRACT_ROW_NEWER] = DBK_MEMORY_ROW_NEWER,
        [CONTRACT_ROW_MALFORMED] = DBK_MEMORY_ROW_MALFORMED,
    };

    assert_code(DAYBOOK_OK, dbk_memory_set_row(world->journal, position, rows[row]));
    return true;
}

const struct contract_engine contract_memory = {.name = "memory",
                                                .open = open_memory,
                                                .reopen = reopen_memory,
                                                .open_shared = open_memory_shared,
                                                .set_row = set_row_memory};
