/* The edges of a convolution whose rows ranks share: taps / 2 rows of the neighbours before and after this
   rank's span of each sequence, zeros at the ends of a sequence. Each rank needs at least taps / 2 rows.
   Cost: taps / 2 rows of each sequence to either neighbour, and taps^2 / 4 row additions per sequence.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_CONVOLUTION_EDGES_H
#define NN_CONVOLUTION_EDGES_H

#include "base/memory.h"
#include "nn/rows.h"

struct convolution_edges {
    size_t half, dim;
    float *first, *last;   /* (num_sequences, half, dim) this rank's first and last rows */
    float *before, *after; /* the same, of the neighbours */
};

/* Takes the memory, none without a cut. dim: columns of a row, of all heads. */
struct convolution_edges convolution_edges_take(struct arena *arena, const struct rows *rows, size_t taps,
                                                size_t dim);
/* Gets the neighbours' rows of x (rows, dim). Collective. */
void convolution_edges_get(const struct convolution_edges *edges, const struct rows *rows, const float *x);

/* Columns column .. column + width - 1 of one sequence, one filter. */
struct edge_columns {
    size_t sequence, column, width;
};
/* Adds what the neighbours' rows add to y, at its first and last rows: y_i += f_(j - i + half) x_j. */
void convolution_edges_add(const struct convolution_edges *edges, const struct rows *rows,
                           const struct edge_columns *columns, float *y, const float *filter);
/* sums[t] += <dy_i, x_j> over the neighbours' rows j = i + t - half. */
void convolution_edges_dots(const struct convolution_edges *edges, const struct rows *rows,
                            const struct edge_columns *columns, const float *dy, double *sums);

#endif
