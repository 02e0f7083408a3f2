/* Hash tables of keys, and the keys that one query uses: for each query and hash, the keys with the query's
   code; of these the union over all hashes, or one at random from each. Memory: 4 n_k + 8 n_q bytes per hash,
   and the work space of bucket_walk.h. Cost of a query: its hashes, and in the union also the keys of its
   buckets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SAMPLED_KEYS_H
#define PARTS_SAMPLED_KEYS_H

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

void key_lists_init(struct key_lists *lists, struct arena *arena, const struct hashing *hashing,
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

/* ---- the keys of one query. Both functions write them and return their number; `seen` is the number of
   leading keys that the query sees. ---------------------------------------------------------------------- */

/* The keys that share a code with the query in at least one hash, each once, in the order of hashes and
   keys. keys: (num_keys + 1). marks: (num_keys), in which no number is `mark`; a key that is taken
   gets it. */
size_t sampled_union(const struct key_lists *lists, size_t query, size_t seen, uint32_t *marks, uint32_t mark,
                     uint32_t *keys);

/* From each hash in which the query's bucket has a visible key, one of them at random, each equally likely.
   keys, weight: (num_hashes). weight: the number of keys in that bucket, divided by num_hashes. Hash h
   uses word h of the key (random_key, RANDOM_DRAWS, query). */
size_t sampled_draws(const struct key_lists *lists, size_t query, size_t seen, uint64_t random_key,
                     uint32_t *keys, float *weight);

#endif
