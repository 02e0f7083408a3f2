/* Softmax attention of one head in double, a pair at a time: the computation of tile_attention.h and
   group_attention.h, for inputs so large that products or sums of float32 could overflow to infinity or NaN.
   In double none can, so for all finite inputs the weights of a query are at most 1 and sum to 1; sums of
   gradients are cut at +-DOUBLE_MOST after every term. Cost: about 6 (d + d_v) operations per pair forward
   and 12 backward, without vectors, some hundred times the time of tiles, so it is used only if needed.
   Threads: blocks of queries forward; one backward, because all queries add to the same keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_DOUBLE_ATTENTION_H
#define PARTS_DOUBLE_ATTENTION_H

#include "parts/problem/problem.h"
#include "parts/rows/bounded.h"
#include "parts/tiles/relative_terms.h"

/* A head's rows whose squares sum to less need no check: with fewer than 2^32 rows, no product of three or
   four such arrays overflows. */
#define DOUBLE_SQUARES 0x1p44

/* Keys that a query meets: list[0 .. count), or first, first + step, ... (count of them) if list is NULL. */
struct key_run {
    const uint32_t *list;
    size_t first, count, step;
};

struct double_attention {
    size_t most; /* upper bound of the keys that a query meets, with repetitions; and of the queries that a
                    key meets */
    bool norm;   /* queries and keys are normed, as in plain_norm.h */
    /* The keys that a query meets, run by run: number 0, 1, ... until it returns false. A key that comes
       twice counts twice. */
    bool (*run)(const void *argument, size_t query, size_t number, struct key_run *run);
    const void *argument;
    const struct relative_terms *terms; /* NULL: none */
};

/* true if a product or a sum of tiles could overflow: in backward with this dout or, if dout is NULL, in
   forward or in a backward whose dout needs no check. A pass over the rows. false for rows that have
   infinity or NaN. */
bool double_is_needed(const struct problem *problem, const struct double_attention *attention,
                      const struct view *dout);

/* Bytes of the scratch, for either direction. */
size_t double_attention_size(const struct problem_shape *shape);

/* Writes out (n_q, d_v): 0 for a query that meets nothing. */
void double_forward(const struct problem *problem, const struct double_attention *attention, struct view out,
                    void *scratch);

/* Adds to the gradients of query, key and value, and to those of the terms. With `norm`, those of query and
   key are gradients of the normed rows. */
void double_backward(const struct problem *problem, const struct double_attention *attention,
                     struct view dout, const struct problem_gradients *gradients, void *scratch);

#endif
