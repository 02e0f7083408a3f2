/* Every hash of a head, bucket by bucket, on all threads: while the buckets of one hash are visited, those of
   the next are found. Cost: what finding buckets costs, and a run of the pool for each hash.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKET_WALK_H
#define PARTS_BUCKET_WALK_H

#include "base/pool.h"
#include "parts/collisions/buckets.h"

/* Work space, for as many rows as were laid out for, or fewer. */
struct bucket_walk {
    const struct codes *queries, *keys;
    struct code_columns query_columns, key_columns;
    struct buckets buckets[2]; /* of one hash and of the next */
};

void bucket_walk_lay_out(struct bucket_walk *walk, struct arena *arena, const struct hashing *hashing,
                         size_t num_queries, size_t num_keys);

/* How many parts the buckets of a hash are to be cut in for these threads: they are not equally dear. */
size_t bucket_walk_parts(const struct pool *pool);

/* The buckets of the first hash, until the walk is run. */
const struct buckets *bucket_walk_first(struct bucket_walk *walk, const struct codes *queries,
                                        const struct codes *keys);

/* For each hash in order, visit with each of `parts` parts of its buckets, [first, end) of the list, side by
   side: parts share no row. */
void bucket_walk_run(struct bucket_walk *walk, struct pool *pool, size_t parts, const struct codes *queries,
                     const struct codes *keys,
                     void (*visit)(void *argument, const struct buckets *buckets, size_t hash, size_t first,
                                   size_t end, int worker),
                     void *argument);

#endif
