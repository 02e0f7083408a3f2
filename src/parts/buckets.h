/* Buckets of one hash as lists: rows in the order of their codes, and a walk over the codes that queries and
   keys share. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKETS_H
#define PARTS_BUCKETS_H

#include "base/memory.h"
#include "parts/codes.h"

/* Rows of one side by rising code of one hash, rows of equal code in rising order. */
struct sorted {
    uint32_t *rows, *codes; /* (n) each */
    size_t n;
};

/* Both sides of one hash, and what sorting needs. */
struct buckets {
    struct sorted queries, keys;
    uint32_t *work;
};

/* Takes the memory for at most so many rows out of the arena. */
void buckets_lay_out(struct buckets *buckets, struct arena *arena, size_t num_queries, size_t num_keys);
void buckets_sort(struct buckets *buckets, const struct codes *queries, const struct codes *keys, size_t hash,
                  size_t hash_bits);

/* One code that both sides have: positions in the two sorted lists. */
struct bucket {
    size_t first_query, num_queries, first_key, num_keys;
};
/* The next shared code in rising order; false at the end. *bucket is where the last one was, all 0 at first.
 */
bool buckets_next(const struct buckets *buckets, struct bucket *bucket);
/* Where a walk begins that shall find the buckets whose queries begin at first_query or after it in the
   sorted list: walks from rising places share the buckets out, each taking those that begin before the next
   place. */
struct bucket buckets_before(const struct buckets *buckets, size_t first_query);

#endif
