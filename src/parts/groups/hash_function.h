/* Learned hash functions H: R^d -> R^B for tiles of tokens, forward and backward: linear, z = x W, or a
   two-layer MLP, z = relu(x W1 + b1) W2 + b2, whose width, activation and biases are our choice: no source
   specifies them. A bias is the last row of its matrix. Products and sums are float32 at any precision of
   attention, so membership does not depend on that precision. Cost of a tile: 2 rows d B operations, or 2
   rows width (d + B); twice that backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASH_FUNCTION_H
#define PARTS_HASH_FUNCTION_H

#include <stdbool.h>

#include "kernels/kernels.h"

struct hash_function {
    const struct kernels *kernels;
    size_t dim, width, num_groups; /* width 0: linear */
    const float *first;            /* (dim, B), or (dim + 1, width) */
    const float *second;           /* (width + 1, B) */
};

/* Floats of `first` and of `second`. */
size_t hash_first_count(size_t dim, size_t width, size_t num_groups);
size_t hash_second_count(size_t width, size_t num_groups);

/* z (count, B), adjacent, from count rows of x; hidden (count, width) is kept for backward. add: z += */
void hash_scores(const struct hash_function *hash, const float *x, size_t ld_x, size_t count, float *z,
                 float *hidden, bool add);

/* Only hidden, for an mlp. */
void hash_hidden(const struct hash_function *hash, const float *x, size_t ld_x, size_t count, float *hidden);

/* dfirst and dsecond += the gradients from dz (count, B); dhidden (count + B, width) is work space. x has no
   gradient. */
void hash_backward(const struct hash_function *hash, const float *x, size_t ld_x, size_t count,
                   const float *dz, const float *hidden, float *dhidden, float *dfirst, float *dsecond);

#endif
