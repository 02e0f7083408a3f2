/* Products of any size cut into tiles for the slot tiles.product: all of them where oneDNN is not built in,
   and the ones that it is slower at where it is. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_TILES_H
#define KERNELS_PRODUCT_TILES_H

#include "kernels/product.h"

/* As product(). Sums run over k in order, whatever the place of a row. */
void product_tiles(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                   bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n,
                   size_t k, bool add);

#endif
