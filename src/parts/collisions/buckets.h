/* The buckets of one hash: which queries and keys share a code, for the codes that both sides have.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKETS_H
#define PARTS_BUCKETS_H

#include "base/memory.h"
#include "parts/hashing/code_columns.h"

/* The two buffers of rows and codes of the radix sort. */
struct digit_sort {
    uint32_t *rows[2], *codes[2];
};

struct buckets {
    struct bucket *list; /* (count) by falling shape, see the head of buckets.c; the rows of a bucket rise */
    size_t count;
    uint32_t *queries, *keys; /* rows of the buckets, one bucket after another */
    size_t num_queries, num_keys;
    /* work space */
    size_t hash_bits;
    struct bucket *by_code; /* (count) */
    uint8_t *marks[2];      /* by code, or by its low bits: 1 if the side has it */
    uint16_t *numbers;      /* by code: its number from 1 if both sides have it; else 0 */
    uint32_t *found[2];     /* (n) rows of each side whose code the other side has too */
    uint16_t *ranks[2];     /* (n) number of that code */
    uint32_t *counters[2];  /* (codes + 1) by number */
    struct digit_sort sorts[2];
};

/* Takes the memory for at most num_queries and num_keys rows from the arena. */
void buckets_init(struct buckets *buckets, struct arena *arena, const struct hashing *hashing,
                  size_t num_queries, size_t num_keys);

void buckets_find(struct buckets *buckets, const struct code_columns *queries,
                  const struct code_columns *keys, size_t hash);

/* The buckets of the list that begin within part `part` of `parts` of the sorted queries: [*first, *end).
   Each bucket is in one part. */
void buckets_part(const struct buckets *buckets, size_t part, size_t parts, size_t *first, size_t *end);

#endif
