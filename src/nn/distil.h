/* The distilling of Informer between two blocks of an encoder (Zhou et al. 2021, equation 5), which halves
   the rows of each sequence: a convolution of 3 rows with all columns, a norm, ELU, and in each column the
   maximum of 3 rows, for every second row: z_i = LN(W [x_(i-1), x_i, x_(i+1)] + b),  y_j = elu(max(z_(2j-1),
   z_2j, z_(2j+1))). The convolution goes in a circle around each sequence, as in the published code, so no
   row has less to read than others; a maximum has the rows that exist. A sequence of n >= 1 rows leaves with
   (n + 1) / 2. One departure: Informer has BatchNorm, over all rows of a batch; a layer norm gives a sequence
   the same bits in any batch. ELU grows, so it may follow the maximum, on half the rows. Cost: 6 n dim^2
   operations forward, twice that backward. Memory, floats per row: dim, in training 5 dim.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_DISTIL_H
#define NN_DISTIL_H

#include "nn/dense.h"
#include "nn/norm.h"
#include "nn/rows.h"

struct distil {
    size_t dim;
    struct dense convolution; /* (dim, 3 dim): columns of the row before, of the row, of the row after */
    struct norm norm;
    size_t first, end; /* its range of parameters */
};
/* "NAME.convolution" and "NAME.LayerNorm". */
hashattn_status distil_describe(struct host *host, struct params *params, const char *name, size_t dim,
                                double norm_epsilon, struct distil *distil);

/* halved (num_sequences + 1): the offsets of the rows that leave. */
void distil_offsets(size_t num_sequences, const size_t *offsets, size_t *halved);

struct distil_pass {
    struct rows rows, halved; /* that enter; that leave */
    const float *values;
    bool training; /* keeps what backward needs */
    void *memory;  /* distil_memory_size bytes; the size function ignores it */
};
size_t distil_memory_size(const struct distil *distil, const struct distil_pass *pass);

/* Writes y (padded halved rows, dim), zeros after the last row, from x (padded rows, dim). Runs on the
   pool. */
void distil_forward(const struct distil *distil, const struct distil_pass *pass, float *y, const float *x);
/* Writes dx, zeros after the last row; adds the gradients of the parameters to gradients (one block, as
   values). x and y are those of forward. */
void distil_backward(const struct distil *distil, const struct distil_pass *pass, float *gradients, float *dx,
                     const float *dy, const float *x, const float *y);

#endif
