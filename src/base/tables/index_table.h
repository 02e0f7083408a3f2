/* The index of an element by its name or number: open addressing, at most half full, under a secret key. The
   caller keeps the elements in an array, in an order of its own, and compares them:

       uint32_t index;
       uint64_t hash = hash_bytes(&table->key, name, size);
       for (size_t probes = 0; index_table_next(table, hash, &probes, &index);)
           if (element number `index` has this name)
               found

   A table is never walked, so nothing depends on its key. Memory: 16 to 32 bytes per element.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_INDEX_TABLE_H
#define BASE_INDEX_TABLE_H

#include <stdbool.h>

#include "base/host.h"
#include "base/tables/hash_key.h"

struct index_slot {
    uint32_t tag;   /* the upper half of the hash, which says where the search begins */
    uint32_t place; /* index + 1; 0: free */
};

/* Zeroed at first: nothing is found in it. */
struct index_table {
    struct index_slot *slots; /* (num_slots, a power of 2) */
    size_t num_slots, count;
    struct hash_key key;
};

/* Makes room for one more element. Must precede the hash of the first, because it draws the key. */
hashattn_status index_table_grow(struct host *host, struct index_table *table);
/* Adds an element, for which there is room and which is not there. */
void index_table_add(struct index_table *table, uint64_t hash, uint32_t index);
void index_table_free(struct host *host, struct index_table *table);

/* The next element whose hash may be the same; false: there are no more. *probes is 0 at first. */
static inline bool index_table_next(const struct index_table *table, uint64_t hash, size_t *probes,
                                    uint32_t *index)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    while (table->num_slots > 0) {
        const struct index_slot *slot = &table->slots[(tag + *probes) & (table->num_slots - 1)];
        ++*probes;
        if (slot->place == 0)
            return false;
        if (slot->tag == tag) {
            *index = slot->place - 1;
            return true;
        }
    }
    return false;
}

#endif
