/* Linear probing; a slot keeps enough of the hash to move without its element.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/tables/index_table.h"

#include "base/memory.h"

enum { FIRST_SLOTS = 16 };

static void place(struct index_table *table, struct index_slot entry)
{
    size_t at = entry.tag & (table->num_slots - 1);
    while (table->slots[at].place != 0)
        at = (at + 1) & (table->num_slots - 1);
    table->slots[at] = entry;
}

hashattn_status index_table_grow(struct host *host, struct index_table *table)
{
    if (2 * (table->count + 1) <= table->num_slots)
        return HASHATTN_OK;
    struct index_table larger = *table;
    void *block;
    FAIL_IF(table->count >= UINT32_MAX / 2, host, HASHATTN_INVALID, "%zu names, at most %u are allowed",
            table->count, UINT32_MAX / 2);
    larger.num_slots = size_max(FIRST_SLOTS, 2 * table->num_slots);
    TRY(memory_new_zeroed(host, larger.num_slots, sizeof *larger.slots, "a table of names", &block));
    larger.slots = block;
    if (table->num_slots == 0)
        larger.key = hash_key_new();
    for (size_t i = 0; i < table->num_slots; i++)
        if (table->slots[i].place != 0)
            place(&larger, table->slots[i]);
    memory_free(host, table->slots);
    *table = larger;
    return HASHATTN_OK;
}

void index_table_add(struct index_table *table, uint64_t hash, uint32_t index)
{
    place(table, (struct index_slot){.tag = (uint32_t)(hash >> 32), .place = index + 1});
    table->count++;
}

void index_table_free(struct host *host, struct index_table *table)
{
    memory_free(host, table->slots);
    *table = (struct index_table){.slots = NULL};
}
