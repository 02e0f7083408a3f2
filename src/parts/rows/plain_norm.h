/* Layer norm without gain and bias of the rows of a head, x^ = (x - mean) / sqrt(var + 1e-6), forward and
   backward. Forward reads rows where they are. Backward copies them to tiles of adjacent rows, which slot
   layers.norm_backward needs. Rows so large that the slots overflow are recomputed in double, and a gradient
   beyond the range of bfloat16 becomes +-DOUBLE_MOST. Normed rows have length sqrt(d), so dot products over
   sqrt(d) lie in [-sqrt(d), sqrt(d)].
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PLAIN_NORM_H
#define PARTS_PLAIN_NORM_H

#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "parts/rows/view.h"

/* Bytes of the memory of one thread. */
size_t plain_norm_size(size_t dim);

/* out (count, cols of x), adjacent = the normed rows list[first] .. list[first + count - 1] of x; list NULL:
   rows first .. of x. x: float32. Listed rows are prefetched. */
void plain_norm_rows(const struct kernels *kernels, float *out, struct view x, const uint32_t *list,
                     size_t first, size_t count, void *scratch);

/* The same for one row (dim), in double. Returns sqrt(var + 1e-6). */
double plain_norm_row(double *out, const float *x, size_t dim);

/* scratch: plain_norm_size bytes per thread of the pool. */
struct plain_norm {
    const struct kernels *kernels;
    struct pool *pool;
    struct view x; /* float32 */
    void *scratch;
};
/* out (rows, cols of x), adjacent. */
void plain_norm_forward(const struct plain_norm *norm, float *out);

/* dx += the gradient of x from dout (adjacent rows). Computes the statistics again, because forward saves
   nothing. */
void plain_norm_backward(const struct plain_norm *norm, const float *dout, struct view dx);

#endif
