/* Buckets of one hash: which queries and which keys have the same code, for the codes that both sides have.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKETS_H
#define PARTS_BUCKETS_H

#include "base/memory.h"
#include "parts/hashing/code_columns.h"

/* Rows with codes in the order in which they were sorted by one digit after another. */
struct digit_sort {
    uint32_t *rows[2], *codes[2];
};

struct buckets {
    struct bucket *list; /* (count) places rise, and so do the rows of a bucket */
    size_t count;
    uint32_t *queries, *keys; /* rows of the buckets, one bucket after another */
    size_t num_queries, num_keys;
    /* work space */
    size_t hash_bits;
    uint8_t *marks[2];     /* by code, or by its low bits: whether a side has it */
    uint16_t *numbers;     /* by code: of those that both have, from 1 on; else 0 */
    uint32_t *found[2];    /* (n) rows of each side whose code the other has too, */
    uint16_t *ranks[2];    /* (n) and its number */
    uint32_t *counters[2]; /* (codes + 1) by number */
    struct digit_sort sorts[2];
};

/* Takes the memory for at most so many rows out of the arena. */
void buckets_lay_out(struct buckets *buckets, struct arena *arena, const struct hashing *hashing,
                     size_t num_queries, size_t num_keys);

void buckets_find(struct buckets *buckets, const struct code_columns *queries,
                  const struct code_columns *keys, size_t hash);

/* The buckets of the list that begin within part `part` of `parts` of the sorted queries: [*first, *end). The
   parts share the list out. */
void buckets_part(const struct buckets *buckets, size_t part, size_t parts, size_t *first, size_t *end);

#endif
