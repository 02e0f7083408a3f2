/* The meetings of one row as a list: the rows of the other side that have its code, hash by hash, one entry
   for each meeting. For short sequences and many codes, where a bucket holds about a row and what tables and
   blocks of pairs cost for every bucket is most of it. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_MEETING_LISTS_H
#define PARTS_MEETING_LISTS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/codes.h"

/* For each hash, the rows of one side by code, as chains. */
struct meeting_lists {
    size_t num_hashes, buckets;
    const void *of;          /* the codes that the chains are of; NULL: none yet */
    uint32_t *heads;         /* (num_hashes, buckets) first row of a code, plus 1; 0: none */
    uint32_t *next;          /* (num_hashes, stride) the row after, plus 1, of row - 1 */
    uint32_t *list;          /* (workers, capacity) */
    size_t stride, capacity; /* of next, of list */
    double density;          /* see meeting_lists_density; negative: not asked for yet */
};

void meeting_lists_lay_out(struct meeting_lists *lists, struct arena *arena, const struct hashing *hashing,
                           size_t num_queries, size_t num_keys, size_t workers);

/* The mean number of meetings of a row in one hash, over both sides, as the first hash has it; infinite where
   there is no memory for lists: far more codes than rows, or so many rows that they meet often. Counted once:
   the two sides are the same ever after. */
double meeting_lists_density(struct meeting_lists *lists, const struct codes *queries,
                             const struct codes *keys);

/* Makes the chains of one side, if they are not there. */
void meeting_lists_make(struct meeting_lists *lists, struct pool *pool, const struct codes *codes);

/* For each row of the other side, its meetings with the rows of the chains: hashes in rising order, rows of a
   hash in rising order and joined as slot list_add says. A long list comes in pieces, cut between hashes.
   Threads take different rows. */
void meeting_lists_walk(const struct meeting_lists *lists, struct pool *pool, const struct codes *codes,
                        void (*take)(void *argument, size_t row, const uint32_t *list, size_t count,
                                     int worker),
                        void *argument);

#endif
