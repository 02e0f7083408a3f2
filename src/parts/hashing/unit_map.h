/* From rows to the unit vectors that are hashed: by their length alone (l2), or by the pair of maps of
   Neyshabur and Srebro (2015, On symmetric and asymmetric LSHs for inner product search), which keeps dot
   products instead of angles. With M no shorter than any row of the head,
     q' = (q / M, sqrt(1 - |q|^2 / M^2), 0),   k' = (k / M, 0, sqrt(1 - |k|^2 / M^2)),   <q', k'> = <q, k> /
   M^2 so what meets depends on lengths too, and a gradient comes back through 1 / M alone: the last
   coordinates of one side meet zeros of the other. The derivative of p^tau has a pole where rows coincide,
   which here nothing cancels: PAIR_FLOORED. A row longer than M is taken at length M.
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

/* M where it is given: no row may be longer; 0: any. */
double unit_map_limit(const void *options);

/* The longest of n rows. In double and in a fixed order: the same bits everywhere, as codes are. */
double unit_map_longest(const float *x, size_t ld_x, size_t n, size_t dim);

/* unit (n, ld), zeros beyond dim + 2; norm[i]: what a gradient of the row is divided by, M or its longer
   length, at most the largest float. */
void unit_map_take(float *unit, size_t ld, float *norm, const float *x, size_t ld_x, size_t n, size_t dim,
                   double max_norm, bool of_keys);

/* dx[i] += du[i] / norm[i], the first dim of ld columns. */
void unit_map_backward(const struct kernels *kernels, float *dx, size_t ld_dx, const float *du, size_t ld,
                       const float *norm, size_t n, size_t dim);

#endif
