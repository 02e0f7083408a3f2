/* From rows to the unit vectors that are hashed: divided by their length (l2), or by the pair of maps of
   Neyshabur and Srebro (2015, On symmetric and asymmetric LSHs for inner product search), which keeps dot
   products instead of angles. With M at least the length of every row of the head,
     q' = (q / M, sqrt(1 - |q|^2 / M^2), 0),   k' = (k / M, 0, sqrt(1 - |k|^2 / M^2)),
     <q', k'> = <q, k> / M^2,
   so collisions depend on lengths too, and the gradient returns only through 1 / M: the last coordinates of
   one side meet zeros of the other. The derivative of p^tau has a pole where rows coincide, which nothing
   cancels here: PAIR_FLOORED. A row longer than M is taken as having length M.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UNIT_MAP_H
#define PARTS_UNIT_MAP_H

#include <stdbool.h>

#include "base/memory.h"
#include "kernels/kernels.h"
#include "parts/hashing/yoso_options.h"

static inline bool unit_map_is_l2(const struct yoso_options *options)
{
    return options->map == YOSO_MAP_L2;
}

/* Coordinates of a mapped row. */
static inline size_t unit_map_width(const struct yoso_options *options, size_t dim)
{
    return unit_map_is_l2(options) ? dim : size_sum(dim, 2);
}

/* M if the options set it: no row may be longer; 0: no limit. */
double unit_map_limit(const void *options);

/* Length of the longest of n rows. In double and in a fixed order: the same bits everywhere, as for codes. */
double unit_map_longest(const float *x, size_t ld_x, size_t n, size_t dim);

/* Writes unit (n, ld), zeros beyond dim + 2, and norm (n), the divisor of each row's gradient: M or its own
   length if longer, at most the largest float. */
void unit_map_take(float *unit, size_t ld, float *norm, const float *x, size_t ld_x, size_t n, size_t dim,
                   double max_norm, bool of_keys);

/* dx[i] += du[i] / norm[i], the first dim of ld columns. */
void unit_map_backward(const struct kernels *kernels, float *dx, size_t ld_dx, const float *du, size_t ld,
                       const float *norm, size_t n, size_t dim);

#endif
