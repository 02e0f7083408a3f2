/* A block on 1 to FEW_ROWS rows, for text that grows by a token at a time: one product of a matrix and a few
   vectors per weight, instead of a tile of ROW_STEP rows at least. Every weight is read once, by all threads;
   at this size that is the cost. Queries, keys and values leave it, and mixed rows come back; the caller has
   the mechanism. Evaluation only, without cross attention and convolution. The products are those of tiles,
   so rows have the bits that they have there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_FEW_ROWS_H
#define NN_FEW_ROWS_H

#include "base/memory.h"
#include "nn/block.h"

enum { FEW_ROWS = 8 };

struct few_rows {
    const struct kernels *kernels;
    struct pool *pool;
    const float *values; /* of params_pack */
    size_t count;        /* rows, 1 to FEW_ROWS */
};

/* Memory of one block, for all blocks of its shape. */
struct few_space {
    float *query, *key, *value, *mixed; /* (FEW_ROWS, dim); mixed: written by the caller */
    float *normed, *branch;             /* (FEW_ROWS, dim) */
    float *wide;                        /* (FEW_ROWS, wide) */
    float *statistics;                  /* (FEW_ROWS, 2) */
    bf16 *halves;                       /* in bf16, else NULL */
};
struct few_space few_space_take(const struct block *block, struct arena *arena);

/* Sets query, key and value from x (count, dim). places (count, dim): sinusoids of the rows' positions, read
   if the block is layered. */
void few_rows_enter(const struct block *block, const struct few_rows *rows, const struct few_space *space,
                    const float *x, const float *places);
/* x (count, dim) becomes the output of the block, from space->mixed. */
void few_rows_leave(const struct block *block, const struct few_rows *rows, const struct few_space *space,
                    float *x);

#endif
