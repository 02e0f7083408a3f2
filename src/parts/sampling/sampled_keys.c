/* Cost of a query: its hashes, and in the union also the keys of its buckets.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/sampled_keys.h"

#include "base/random.h"
#include "parts/collisions/meetings.h"

/* The visible keys of the query's bucket. */
static const uint32_t *visible_keys(const struct key_lists *lists, size_t query, size_t hash, size_t seen,
                                    size_t *count)
{
    const uint32_t *keys = key_list(lists, query, hash, count);
    if (*count > 0 && keys[*count - 1] >= seen)
        *count = meetings_seen(keys, *count, seen);
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
                     uint32_t *keys, float *share)
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
        share[taken++] = (float)count * one;
    }
    return taken;
}
