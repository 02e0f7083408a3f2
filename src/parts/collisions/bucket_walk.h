/* Visits all buckets of every hash of a list, on all threads: while the buckets of one hash are visited,
   those of the next are found. Cost: finding the buckets, and one run of the pool per hash.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKET_WALK_H
#define PARTS_BUCKET_WALK_H

#include "base/pool.h"
#include "parts/collisions/buckets.h"

/* The hashes to be visited, in rising order. */
struct hash_list {
    const uint32_t *hashes; /* (count); NULL: 0, 1, ... */
    size_t count;           /* at least 1 */
};

/* Work space, for at most as many rows as were laid out. */
struct bucket_walk {
    const struct codes *queries, *keys;
    const struct hash_list *list;
    struct code_columns query_columns, key_columns;
    struct buckets buckets[2]; /* of this hash and the next */
};

void bucket_walk_init(struct bucket_walk *walk, struct arena *arena, const struct hashing *hashing,
                      size_t num_queries, size_t num_keys);

/* Number of parts to cut the buckets of a hash into: several per thread, because their costs differ. */
size_t bucket_walk_parts(const struct pool *pool);

/* The buckets of the first hash of the list; valid until the walk runs. */
const struct buckets *bucket_walk_first(struct bucket_walk *walk, const struct codes *queries,
                                        const struct codes *keys, const struct hash_list *list);

/* Calls visit for each hash of the list in order, in parallel for each of `parts` parts [first, end) of its
   bucket list: parts share no row. */
void bucket_walk_run(struct bucket_walk *walk, struct pool *pool, size_t parts, const struct codes *queries,
                     const struct codes *keys, const struct hash_list *list,
                     void (*visit)(void *argument, const struct buckets *buckets, size_t hash, size_t first,
                                   size_t end, int worker),
                     void *argument);

#endif
