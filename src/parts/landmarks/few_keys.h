/* Softmax attention of many queries to a few keys, all of which every query sees (parts/tiles). Queries are
   cut into chunks by shape. Backward gives each chunk its own sums for dK and dV and adds them in order, so
   all threads of a pool work, although the keys are too few to be cut, and the bits do not depend on them.
   Cost: as tile_attention.h. Scratch grows by num_keys (dim + value_dim) floats per FEW_KEYS_CHUNK queries.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEW_KEYS_H
#define PARTS_FEW_KEYS_H

#include "parts/tiles/tile_attention.h"

enum { FEW_KEYS_CHUNK = 10 * TILE_ATTENTION_BLOCK }; /* queries per unit of work */

struct few_keys_sizes {
    size_t num_queries, num_keys, dim, value_dim;
    enum precision precision;
    size_t workers;
};

struct few_keys {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    struct few_keys_sizes sizes;
    bool large;                    /* as in struct tile_attention */
    struct weight_dropout dropout; /* as there */
    struct view query, key, value;
    struct softmax_rows rows; /* (num_queries): forward writes, backward reads */
};

/* Bytes of the scratch of both directions. Never falls with more rows. */
size_t few_keys_scratch_size(const struct few_keys_sizes *sizes);

/* Writes out (num_queries, value_dim); num_queries and num_keys >= 1. */
void few_keys_forward(const struct few_keys *attention, struct view out, void *scratch);

/* Adds to dquery, dkey and dvalue. */
void few_keys_backward(const struct few_keys *attention, struct view out, struct view dout,
                       struct view dquery, struct view dkey, struct view dvalue, void *scratch);

#endif
