/* Products of any size, cut into tiles for the slot tiles.product: all products if oneDNN is not built in,
   otherwise those at which oneDNN is slower.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_TILES_H
#define KERNELS_PRODUCT_TILES_H

#include "kernels/kernels.h"

/* As product(). Sums run over k in order, whatever the position of a row. */
void product_tiles(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                   bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n,
                   size_t k, bool add);

#endif
