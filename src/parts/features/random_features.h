/* Positive orthogonal random features (Choromanski et al. 2020): phi_r(x) = exp(w_r x~ - |x~|^2 / 2 - stab)
   + 1e-6 with x~ = x / d^(1/4), r < R. The expectation of phi(x) phi(y) over w is exp(x y / sqrt(d)), up to
   the factors exp(stab) and R. Directions: blocks of d orthonormal rows, uniform among such frames, each row
   scaled to the length of an independent standard normal vector, so that each w_r is standard normal.
   With both signs (Choromanski et al. 2020, lemma 1; Sun et al. 2022, eq. 15: D directions, 2 D features)
   direction w_r gives a second feature with -w_r. This halves the products, and for independent directions it
   multiplies the variance of R features by 1 - exp(-|x~ + y~|^2). The constant 1e-6 is that of the published
   code; its factor 1 / R is left out, because every use divides it out. Cost of n rows: 2 n d R operations
   for the products, half with both signs; n R exponentials for the features of the rows, or of a multiple of
   them; none for the largest exponent.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_RANDOM_FEATURES_H
#define PARTS_RANDOM_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"

/* Added to each feature. */
#define FEATURES_EPSILON 1e-6f

/* The number of directions of `count` features. If the count is odd, the last one has one sign. */
static inline size_t features_directions(size_t count, bool both_signs)
{
    return both_signs ? count - count / 2 : count;
}

/* Floats of `count` directions, and bytes of the work space to draw them on `workers` threads. */
size_t features_count(size_t count, size_t dim);
size_t features_work_size(size_t count, size_t dim, size_t workers);

/* Writes directions (dim, count), divided by d^(1/4). They depend on neither kernels nor threads. */
void features_draw(const struct kernels *kernels, struct pool *pool, size_t count, size_t dim, uint64_t key,
                   float *directions, void *work);

struct features {
    const struct kernels *kernels;
    const float *directions; /* (dim, features_directions(count, both_signs)) */
    size_t count, dim;
    bool both_signs;
};

/* Projections of some rows x, from which features of x and of multiples of x are computed. */
struct feature_rows {
    float *products;       /* (rows, count): w_r x~, and -w_r x~ after those of all directions */
    float *half, *largest; /* (rows): |x~|^2 / 2, and the largest product */
    float *shift;          /* (rows): work space */
};
void features_project(const struct features *features, const float *x, size_t ld_x, size_t rows,
                      const struct feature_rows *to);

/* Subtracted from the exponents of a row: its own maximum, or `level`, the same for all rows. */
enum stabiliser { STABILISE_ROW, STABILISE_ALL };

/* The largest exponent of the rows times `shrink`. `level` of STABILISE_ALL is the maximum over all tiles. */
float features_level(const struct feature_rows *from, size_t rows, float shrink);

/* Writes phi (rows, count), adjacent: features of the rows times `shrink`. */
void features_of(const struct features *features, const struct feature_rows *from, size_t rows, float shrink,
                 enum stabiliser stabiliser, float level, float *phi);

#endif
