/* Positive orthogonal random features (Choromanski et al. 2020): phi_r(x) = exp(w_r x~ - |x~|^2 / 2 - stab) +
   1e-6 with x~ = x / d^(1/4), r < R, so that the mean of phi(x) phi(y) over the w is exp(x y / sqrt(d)) but
   for the factor exp(stab) and R. Directions: blocks of d orthonormal rows, uniform among such frames, each
   row at the length of a standard normal vector of its own, so each w_r is one by itself. The constant 1e-6
   and the factor 1 / R, which every use divides out, are those of the published code. Cost of n rows: 2 n d R
   operations for the products, from which features of the rows and of multiples of them are made with n R
   exponentials each; the largest exponent needs none. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_RANDOM_FEATURES_H
#define PARTS_RANDOM_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"

/* Floats of the directions, and bytes of the work space of drawing them on so many threads. */
size_t features_count(size_t count, size_t dim);
size_t features_work_size(size_t count, size_t dim, size_t workers);

/* directions (dim, count), each over d^(1/4); on no table of kernels and on no thread do they depend. */
void features_draw(const struct kernels *kernels, struct pool *pool, size_t count, size_t dim, uint64_t key,
                   float *directions, void *work);

struct features {
    const struct kernels *kernels;
    const float *directions; /* (dim, count) */
    size_t count, dim;
};

/* What features of some rows x, and of multiples of them, are made from. */
struct feature_rows {
    float *products;       /* (rows, count): w_r x~ */
    float *half, *largest; /* (rows): |x~|^2 / 2, and the largest product */
    float *shift;          /* (rows): work space */
};
void features_project(const struct features *features, const float *x, size_t ld_x, size_t rows,
                      const struct feature_rows *to);

/* What is subtracted from the exponents of a row: its own largest, or with `level` the same for all rows. */
enum stabiliser { STABILISE_ROW, STABILISE_ALL };

/* The largest exponent of the rows times `shrink`: for STABILISE_ALL, the largest of all tiles is `level`. */
float features_level(const struct feature_rows *from, size_t rows, float shrink);

/* phi (rows, count), adjacent: features of the rows times `shrink`. */
void features_of(const struct features *features, const struct feature_rows *from, size_t rows, float shrink,
                 enum stabiliser stabiliser, float level, float *phi);

#endif
