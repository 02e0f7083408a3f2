/* Stage features: feature maps of linear attention. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_FEATURES_H
#define KERNELS_SLOTS_FEATURES_H

#include <stddef.h>

struct features_slots {
    /* y[i][c] = max(x[i][c], 0) + exp(min(x[i][c], 0)), which is elu(x) + 1; y may be x. TOLERANT. */
    void (*elu)(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols);

    /* dx[i][c] += dy[i][c] * min(y[i][c], 1) with y = elu(x) + 1 and its gradient dy. TOLERANT. */
    void (*elu_backward)(float *dx, size_t ld_dx, const float *dy, const float *y, size_t ld_y, size_t rows,
                         size_t cols);

    /* sine[i][c] = scale * sin(x[i][c]), cosine[i][c] = scale * cos(x[i][c]), the rows of both ld apart;
       cosine may be x, with ld_x = ld. Error at most 3e-7 scale for |x| up to 1e4. Beyond, digits of x are
       lost, but results stay within 1.001 scale, for infinities and NaN too. TOLERANT. */
    void (*sines)(float *sine, float *cosine, size_t ld, const float *x, size_t ld_x, size_t rows,
                  size_t cols, float scale);
};

#endif
