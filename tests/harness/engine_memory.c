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

static enum daybook_code append_newer_memory(struct contract_world *world,
                                             const struct daybook_event *event,
                                             struct daybook_append_result *ret)
{
    enum daybook_code code = daybook_journal_append(world->journal, event, world->now_us,
                                                    DAYBOOK_NO_DEADLINE, ret, &world->err);

    if (code == DAYBOOK_OK) {
        code = dbk_memory_set_row(world->journal, ret->position, DBK_MEMORY_ROW_NEWER);
    }
    return code;
}

static void spoil_memory(struct contract_world *world, uint64_t position)
{
    assert_code(DAYBOOK_OK, dbk_memory_set_row(world->journal, position, DBK_MEMORY_ROW_MALFORMED));
}

const struct contract_engine contract_memory = {.name = "memory",
                                                .open = open_memory,
                                                .reopen = reopen_memory,
                                                .open_shared = open_memory_shared,
                                                .append_newer = append_newer_memory,
                                                .spoil = spoil_memory};
