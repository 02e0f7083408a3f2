/* Layer norm without gain and bias of the rows of a head, x^ = (x - mean) / sqrt(var + 1e-6), and the way
   back. Made of the slots of layer norm with a gain of 1 and a bias of 0, tile by tile: rows of a head are
   strided, those of the slots adjacent. Its rows have length sqrt(d), so dot products over sqrt(d) lie in
   [-sqrt(d), sqrt(d)]. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PLAIN_NORM_H
#define PARTS_PLAIN_NORM_H

#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"

/* What one thread works in. */
size_t plain_norm_size(size_t dim);

/* out (n, dim), adjacent, and statistics (n, 2) for the way back. scratch: plain_norm_size for each of
   `workers`. */
struct plain_norm {
    const struct kernels *kernels;
    struct pool *pool;
    const float *x;
    size_t ld, n, dim;
    float *statistics;
    void *scratch;
};
void plain_norm_forward(const struct plain_norm *norm, float *out);

/* dx (n, dim), ld_dx, += the gradient of x from dout (n, dim), adjacent. */
void plain_norm_backward(const struct plain_norm *norm, const float *dout, float *dx, size_t ld_dx);

#endif
