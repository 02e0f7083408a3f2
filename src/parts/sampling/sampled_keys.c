/* The buckets of each hash are found by the walk of collisions/ and copied. Parts of a hash's buckets share
   no row, so threads write different ranges.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/sampled_keys.h"

#include <string.h>

#include "base/random.h"
#include "parts/collisions/colliding_pairs.h"

void key_lists_init(struct key_lists *lists, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys)
{
    lists->num_hashes = hashing->num_hashes;
    lists->num_queries = num_queries;
    lists->num_keys = num_keys;
    lists->keys = arena_take(arena, size_product(hashing->num_hashes, num_keys), sizeof *lists->keys);
    lists->ranges = arena_take(arena, size_product(hashing->num_hashes, num_queries), sizeof *lists->ranges);
    bucket_walk_init(&lists->walk, arena, hashing, num_queries, num_keys);
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

/* ---- the keys of one query ----------------------------------------------------------------------------- */

/* The visible keys of the query's bucket. */
static const uint32_t *visible_keys(const struct key_lists *lists, size_t query, size_t hash, size_t seen,
                                    size_t *count)
{
    const uint32_t *keys = key_list(lists, query, hash, count);
    if (*count > 0 && keys[*count - 1] >= seen)
        *count = colliding_seen(keys, *count, seen);
    return keys;
}

size_t sampled_union(const struct key_lists *lists, size_t query, size_t seen, uint32_t *marks, uint32_t mark,
                     uint32_t *keys)
{
    size_t taken = 0, count;
    for (size_t hash = 0; hash < lists->num_hashes; hash++) {
        const uint32_t *bucket = visible_keys(lists, query, hash, seen, &count);
        for (size_t i = 0; i < count; i++) { /* without a branch, which would mispredict */
            uint32_t key = bucket[i];
            keys[taken] = key;
            taken += marks[key] != mark;
            marks[key] = mark;
        }
    }
    return taken;
}

size_t sampled_draws(const struct key_lists *lists, size_t query, size_t seen, uint64_t random,
                     uint32_t *keys, float *weight)
{
    enum { WORDS = 4 };
    uint64_t own = random_key(random, RANDOM_DRAWS, query);
    size_t taken = 0, count;
    float one = 1 / (float)lists->num_hashes;
    uint32_t words[WORDS];
    for (size_t hash = 0; hash < lists->num_hashes; hash++) {
        if (hash % WORDS == 0)
            random_words(own, hash / WORDS, words);
        const uint32_t *bucket = visible_keys(lists, query, hash, seen, &count);
        if (count == 0)
            continue;
        keys[taken] = bucket[(uint64_t)words[hash % WORDS] * count >> 32];
        weight[taken++] = (float)count * one;
    }
    return taken;
}
