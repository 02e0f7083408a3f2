/* The buckets of each hash are found by the walk of collisions/ and copied. Parts of a hash's buckets share
   no row, so threads write different ranges.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/key_lists.h"

#include <string.h>

void key_lists_lay_out(struct key_lists *lists, struct arena *arena, const struct hashing *hashing,
                       size_t num_queries, size_t num_keys)
{
    lists->num_hashes = hashing->num_hashes;
    lists->num_queries = num_queries;
    lists->num_keys = num_keys;
    lists->keys = arena_take(arena, size_product(hashing->num_hashes, num_keys), sizeof *lists->keys);
    lists->ranges = arena_take(arena, size_product(hashing->num_hashes, num_queries), sizeof *lists->ranges);
    bucket_walk_lay_out(&lists->walk, arena, hashing, num_queries, num_keys);
}

static void copy_buckets(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                         int worker)
{
    (void)worker;
    struct key_lists *lists = argument;
    uint32_t *keys = lists->keys + hash * lists->num_keys;
    for (const struct bucket *b = buckets->list + first; b < buckets->list + end; b++) {
        memcpy(keys + b->first_key, buckets->keys + b->first_key, b->num_keys * sizeof *keys);
        for (size_t i = b->first_query; i < b->first_query + b->num_queries; i++)
            lists->ranges[buckets->queries[i] * lists->num_hashes + hash] =
                (struct key_range){b->first_key, b->num_keys};
    }
}

void key_lists_find(struct key_lists *lists, struct pool *pool, const struct codes *queries,
                    const struct codes *keys)
{
    struct hash_list all = {.count = lists->num_hashes};
    memset(lists->ranges, 0, lists->num_queries * lists->num_hashes * sizeof *lists->ranges);
    bucket_walk_run(&lists->walk, pool, bucket_walk_parts(pool), queries, keys, &all, copy_buckets, lists);
}
