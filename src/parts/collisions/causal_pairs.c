/* Both lists of a bucket rise, so a query sees a prefix of the keys, and the pairs form a staircase. It is
   halved recursively: the earlier queries with the keys they see, the later queries with the same keys (a
   rectangle, done the cheaper way), and the later queries with the keys that only they see. So every row
   meets its partners in rising order, as without a limit. Cost: half of the pairs, or, in buckets so full
   that matrix products are cheaper, at most half of those products per level of halving.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/causal_pairs.h"

#include "parts/collisions/colliding_pairs.h"

/* Number of keys of the bucket among the first `seen` rows. */
static size_t count_seen(const struct bucket_pairs *bucket, size_t seen)
{
    return colliding_seen(bucket->keys, bucket->num_keys, seen);
}

static void rectangle(const struct kernels *kernels, const struct dense_scratch *dense,
                      const struct bucket_pairs *bucket)
{
    if (bucket->num_queries == 0 || bucket->num_keys == 0)
        return;
    if (dense_is_cheaper(bucket))
        dense_pairs(kernels, dense, bucket);
    else
        kernels->pairs.bucket(bucket);
}

void causal_pairs(const struct kernels *kernels, const struct dense_scratch *dense,
                  const struct bucket_pairs *bucket, const size_t *visible)
{
    struct bucket_pairs left = *bucket, later;
    /* One level of recursion per halving of the queries: at most 32. */
    left.num_keys = count_seen(bucket, visible[bucket->queries[bucket->num_queries - 1]]);
    size_t seen_by_all = count_seen(&left, visible[bucket->queries[0]]);
    if (left.num_queries == 1 || seen_by_all == left.num_keys) {
        rectangle(kernels, dense, &left);
        return;
    }
    later = left;
    left.num_queries /= 2;
    later.queries += left.num_queries;
    later.num_queries -= left.num_queries;
    causal_pairs(kernels, dense, &left, visible);
    size_t seen = count_seen(&left, visible[left.queries[left.num_queries - 1]]);
    struct bucket_pairs both = later;
    both.num_keys = seen;
    rectangle(kernels, dense, &both);
    later.keys += seen;
    later.num_keys -= seen;
    if (later.num_keys > 0)
        causal_pairs(kernels, dense, &later, visible);
}
