/* Softmax attention of many queries to a few keys, all of which every query sees (parts/tiles). Queries are
   cut into chunks by shape. Backward gives each chunk its own sums for dK and dV and adds them in order, so
   all threads of a pool work, although the keys are too few to be cut, and the bits do not depend on them.
   Cost: as tile_attention.h. Scratch grows by n_k (d + d_v) floats per FEW_KEYS_CHUNK queries.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEW_KEYS_H
#define PARTS_FEW_KEYS_H

#include "parts/tiles/tile_attention.h"

enum { FEW_KEYS_CHUNK = 10 * TILE_ATTENTION_BLOCK }; /* queries per unit of work */

/* Bytes of the scratch of both directions. Never falls with more rows. */
size_t few_keys_scratch_size(const struct problem_shape *shape);

/* Writes out (n_q, d_v), and rows (n_q), which backward reads. */
void few_keys_forward(const struct problem *problem, struct softmax_rows rows, struct view out,
                      void *scratch);

/* Adds to the gradients of query, key and value. */
void few_keys_backward(const struct problem *problem, struct softmax_rows rows, struct view out,
                       struct view dout, const struct problem_gradients *gradients, void *scratch);

#endif
