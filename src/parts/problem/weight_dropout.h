/* Dropout of attention weights (Vaswani et al. 2017; Dai et al. 2019 call it dropatt): with D_ij = 0 with the
   given rate and 1 / (1 - rate) otherwise, out_i = sum_j D_ij p_ij v_j. The softmax p is not renormalised. In
   backward, dV = (D p)^T G and dS_ij = p_ij (D_ij <G_i, v_j> - <G_i, out_i>) / sqrt(d).
   No mask is stored. The key of a head and the numbers of the query and the key determine the draw of a pair,
   so backward repeats it, and neither tiles, threads nor ranks change it. Draws are those of slot
   layers.dropout, eight in a block: those of 128 neighbouring keys follow one another, and then come those of
   the next query, so that a tile of 128 keys takes one call. Cost: a draw per pair forward, and two backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_WEIGHT_DROPOUT_H
#define PARTS_WEIGHT_DROPOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { WEIGHT_DROPOUT_TILE = 128 }; /* columns of a tile: its rows are so many floats apart */

struct weight_dropout {
    unsigned threshold; /* rate * 65536; 0: none */
    float scale;        /* 1 / (1 - rate) */
    uint64_t key;
    /* Numbers of query 0 and key 0, which are not 0 if ranks share the rows. A key in front of key 0, which
       no query sees, may have a number below 0, wrapped around. */
    size_t first_query, first_key;
};

static inline bool drops_weights(const struct weight_dropout *dropout)
{
    return dropout->threshold > 0;
}

/* The dropout of one of several lists of pairs. */
struct weight_dropout weight_dropout_of_list(const struct weight_dropout *dropout, size_t list);

/* tile (rows, cols), rows WEIGHT_DROPOUT_TILE floats apart, *= D of queries query .. and keys key ..; columns
   from cols on are written in all rows but the last. Nothing if the dropout is off. */
void weight_dropout_tile(const struct weight_dropout *dropout, const struct kernels *kernels, float *tile,
                         size_t rows, size_t cols, size_t query, size_t key);

#endif
