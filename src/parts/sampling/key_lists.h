/* Hash tables of keys: for each query and hash, the keys with the query's code. Memory: 4 n_k + 8 n_q bytes
   per hash, and the work space of bucket_walk.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_KEY_LISTS_H
#define PARTS_KEY_LISTS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/collisions/bucket_walk.h"

struct key_range {
    uint32_t first, count;
};

struct key_lists {
    size_t num_hashes, num_queries, num_keys;
    uint32_t *keys;           /* (num_hashes, num_keys) of each hash the keys that share a code with a query,
                                 bucket by bucket, rising within a bucket */
    struct key_range *ranges; /* (num_queries, num_hashes) */
    struct bucket_walk walk;  /* work space */
};

void key_lists_lay_out(struct key_lists *lists, struct arena *arena, const struct hashing *hashing,
                       size_t num_queries, size_t num_keys);

/* queries, keys: the codes of num_queries and num_keys rows. */
void key_lists_find(struct key_lists *lists, struct pool *pool, const struct codes *queries,
                    const struct codes *keys);

/* The keys of a query's bucket, rising; *count is their number. */
static inline const uint32_t *key_list(const struct key_lists *lists, size_t query, size_t hash,
                                       size_t *count)
{
    struct key_range range = lists->ranges[query * lists->num_hashes + hash];
    *count = range.count;
    return lists->keys + hash * lists->num_keys + range.first;
}

#endif
