/* Softmax attention of one head in double, a pair at a time: what tile_attention.h and group_attention.h
   compute, for inputs so large that products or sums of float32 could overflow to infinity and NaN. In double
   none of them can. So the weights of a query are at most 1 and sum to 1 for all finite inputs; a gradient
   beyond the range of float32 becomes DOUBLE_MOST in size. Cost: about 6 (d + d_v) operations a pair forward
   and 12 backward without vectors, some hundred times the time of tiles, so it has to be needed. Threads:
   blocks of queries forward; backward one, since all queries add to the same keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_DOUBLE_ATTENTION_H
#define PARTS_DOUBLE_ATTENTION_H

#include "base/pool.h"
#include "parts/rows/bounded.h"
#include "parts/rows/view.h"
#include "parts/tiles/relative_terms.h"

/* Rows of a head whose squares sum up to less need not be looked at: with less than 2^32 of them nothing that
   is made of three or four such arrays overflows. */
#define DOUBLE_SQUARES 0x1p44

/* Some keys that a query meets: list[0 .. count), or first .. first + count - 1 where list is NULL. */
struct key_run {
    const uint32_t *list;
    size_t first, count;
};

struct double_attention {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t workers;
    size_t num_queries, num_keys, dim, value_dim;
    size_t most; /* no query meets more keys, each time counted; the same of keys */
    bool norm;   /* of queries and keys, as in plain_norm.h */
    struct view query, key, value;
    /* What a query meets, run after run: number 0, 1, ... until there is none. A key that comes twice counts
       twice. */
    bool (*run)(const void *argument, size_t query, size_t number, struct key_run *run);
    const void *argument;
    const struct relative_terms *terms; /* NULL: none */
};

/* Whether a product or a sum of tiles could overflow: in backward with this dout, or, NULL, in forward or in
   a backward whose dout need not be looked at. A pass over the rows. False for rows that hold infinity or
   NaN.
 */
bool double_is_needed(const struct double_attention *attention, const struct view *dout);

/* Bytes of the scratch of both directions. */
size_t double_attention_size(size_t dim, size_t value_dim, size_t workers);

/* Writes out (num_queries, value_dim): 0 for a query that meets nothing. */
void double_forward(const struct double_attention *attention, struct view out, void *scratch);

/* Gradients of Q, K and V, which are added to. With `norm`, those of query and key are of the normed rows. */
struct attention_gradients {
    struct view query, key, value;
    float *weight, *content_bias, *position_bias; /* of relative terms; NULL: not wanted */
};
void double_backward(const struct double_attention *attention, struct view dout,
                     const struct attention_gradients *gradients, void *scratch);

#endif
