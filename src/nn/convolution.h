/* The depth-wise convolution of YOSO-C: each head has one filter of `taps` (odd) weights that slides along
   the sequence and is shared by the head's columns; outside a sequence values are zeros. It is applied to the
   values and added to the output of attention, after attention's own normalisation. Starts from
   U(+-1/sqrt(taps)). Cost: n taps dim forward, twice that backward. (Zeng et al. 2021, section 4; reference:
   released code, conv_window.)
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_CONVOLUTION_H
#define NN_CONVOLUTION_H

#include "nn/params.h"
#include "nn/rows.h"

struct convolution {
    size_t heads, head_dim, taps; /* taps 0: no convolution */
    size_t filters;               /* offset of (heads, 1, taps, 1) */
};
hashattn_status convolution_describe(struct host *host, struct params *params, const char *name, size_t heads,
                                     size_t head_dim, size_t taps, struct convolution *convolution);

/* Bytes of scratch memory of forward and backward. */
size_t convolution_scratch_size(const struct convolution *convolution, const struct rows *rows);

/* y = base + filter * x on all rows, (rows, heads * head_dim); y may be base. Runs on the pool. Ranks that
   share sequences exchange taps / 2 rows with their neighbours, here and in backward (convolution_edges.h):
   each needs as many rows of every sequence. */
void convolution_forward(const struct convolution *convolution, const struct rows *rows, const float *values,
                         float *y, const float *base, const float *x, void *scratch);
/* dx += the gradient of x (dbase is dy itself); adds the gradient of the filters to gradients, sequences in
   order. */
void convolution_backward(const struct convolution *convolution, const struct rows *rows, const float *values,
                          struct slice gradients, float *dx, const float *dy, const float *x, void *scratch);

#endif
