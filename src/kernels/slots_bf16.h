/* Stage bf16: bfloat16 conversion and products. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_BF16_H
#define KERNELS_SLOTS_BF16_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"

struct bf16_slots {
    const char *how; /* how product multiplies: "by instruction" or "by widening" */

    /* c (rows, cols) = [add: c +] A B with bfloat16 operands and float32 sums. A is (rows, 2 * pairs), rows
       ld_a apart. B is (2 * pairs, cols), stored in pairs as bf16.interleave writes them: B(2k, j) is b[k *
       ld_b + 2 * j] and B(2k + 1, j) follows it. The order of a sum depends on `pairs` alone. Denormal
       operands count as 0 if the instruction treats them so. TOLERANT. Twice the rate of tiles.product if the
       instruction exists (on Intel half), far more with tiles, otherwise near its rate. */
    void (*product)(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                    size_t rows, size_t cols, size_t pairs, bool add);

    /* out[i][c] = in[i][c] rounded to the nearest bfloat16, ties to even. Overflow gives infinity. A NaN
       becomes the quiet NaN with its sign and upper bits. EXACT. */
    void (*round)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);

    /* out[i][c] = in[i][c] widened to float32. EXACT. */
    void (*widen)(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols);

    /* The right operand of bf16.product: out[k / 2 * ld_out + 2 * j + k % 2] = in[k][j], rounded as by
       bf16.round, for k < rows and j < cols. If rows is odd, the last row is paired with zeros. EXACT. */
    void (*interleave)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);
};

#endif
