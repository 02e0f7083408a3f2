/* Stage bf16: numbers of bfloat16. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_BF16_H
#define KERNELS_SLOTS_BF16_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"

struct bf16_slots {
    const char *how; /* how product multiplies: "by instruction" or "by widening" */

    /* c (rows, cols) = [add: c +] A B with operands of bfloat16 and sums in float32. A (rows, 2 * pairs),
       rows ld_a apart. B (2 * pairs, cols) in pairs, as bf16.interleave lays them: B(2k, j) and B(2k + 1, j)
       stand at b[k * ld_b + 2 * j] and beside it. Sums run over k in order, whatever the place of the row;
       the two of a pair may be added in any way, and denormal operands count as 0 where the instruction takes
       them so. TOLERANT. Twice the rate of tiles.product where the instruction exists, else near its rate. */
    void (*product)(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                    size_t rows, size_t cols, size_t pairs, bool add);

    /* out[i][c] = in[i][c] rounded to the nearest bfloat16, ties to even; what is too large becomes infinite;
       a NaN becomes the quiet NaN of its sign and upper bits. EXACT. */
    void (*round)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);

    /* out[i][c] = in[i][c], the same number in 32 bits. EXACT. */
    void (*widen)(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols);

    /* The right operand of bf16.product: out[k / 2 * ld_out + 2 * j + k % 2] = in[k][j] rounded as by
       bf16.round, for k < rows and j < cols; where rows is odd the last row's partners are 0. EXACT. */
    void (*interleave)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);
};

#endif
