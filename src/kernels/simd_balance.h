/* One step of balancing a tile of scores (parts/groups/balance.h), which stays in the first-level cache. The
   sums down the columns have two chains per vector of columns, because a single chain waits for the latency
   of its multiply-adds. Their inverses then stay in registers for the sums along the rows. Cost: four
   operations per number. Forward of lha takes 0.98 of the time that it took with a product of one row,
   divisions one by one and rows.dots (Zen 5).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_BALANCE_H
#define KERNELS_SIMD_BALANCE_H

#include <float.h>

#include "kernels/simd_math.h"
#include "kernels/slots_rows.h"

enum { BALANCE_VECTORS = 4 };

/* inverse[v] of `vectors` vectors of columns, of which `left` exist in the last. */
INLINE void balance_columns(const size_t vectors, size_t left, vf *inverse, const float *p, size_t ld,
                            const float *of_row, size_t rows, float of_zero)
{
    vf even[BALANCE_VECTORS], odd[BALANCE_VECTORS], least = v_set(FLT_MIN), one = v_set(1.0f);
    size_t i = 0;
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        even[v] = odd[v] = v_zero();
    for (; i + 2 <= rows; i += 2, p += 2 * ld) {
        vf first = v_set(of_row[i]), second = v_set(of_row[i + 1]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            size_t count = v + 1 < vectors ? VLEN : left;
            even[v] = v_fma(first, v_get(p + v * VLEN, count), even[v]);
            odd[v] = v_fma(second, v_get(p + ld + v * VLEN, count), odd[v]);
        }
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++) {
        size_t count = v + 1 < vectors ? VLEN : left;
        if (i < rows)
            even[v] = v_fma(v_set(of_row[i]), v_get(p + v * VLEN, count), even[v]);
        vf sum = v_add(even[v], odd[v]);
        inverse[v] = v_select(v_less(least, sum), v_div(one, sum), v_set(of_zero));
    }
}

/* sums[i] = [add: sums[i] +] the sum of row i over these columns. */
INLINE void balance_rows(const size_t vectors, size_t left, float *sums, bool add, const vf *inverse,
                         const float *p, size_t ld, size_t rows)
{
    for (size_t i = 0; i < rows; i += 4) {
        vf sum[4];
        float part[4];
        UNROLLED
        for (size_t r = 0; r < 4; r++) {
            size_t at = i + r < rows ? i + r : rows - 1; /* the last row again: not written */
            const float *row = p + at * ld;
            sum[r] = v_zero();
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[r] = v_fma(v_get(row + v * VLEN, v + 1 < vectors ? VLEN : left), inverse[v], sum[r]);
        }
        v_sum4(part, sum[0], sum[1], sum[2], sum[3], 0.0f, 1.0f);
        for (size_t r = 0; r < 4 && i + r < rows; r++)
            sums[i + r] = add ? sums[i + r] + part[r] : part[r];
    }
}

INLINE void balance_part(const size_t vectors, size_t left, float *of_col, float *sums, bool add,
                         const float *p, size_t ld, const float *of_row, size_t rows, float of_zero)
{
    vf inverse[BALANCE_VECTORS];
    balance_columns(vectors, left, inverse, p, ld, of_row, rows, of_zero);
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(of_col + v * VLEN, inverse[v], v + 1 < vectors ? VLEN : left);
    if (sums != NULL)
        balance_rows(vectors, left, sums, add, inverse, p, ld, rows);
}

static void rows_balance(float *of_col, float *sums, const float *p, size_t ld, const float *of_row,
                         size_t rows, size_t cols, float of_zero)
{
    enum { WIDE = BALANCE_VECTORS * VLEN };
    size_t c = 0;
    for (; c + WIDE <= cols; c += WIDE)
        balance_part(BALANCE_VECTORS, VLEN, of_col + c, sums, c > 0, p + c, ld, of_row, rows, of_zero);
    for (; c < cols; c += VLEN)
        balance_part(1, cols - c < VLEN ? cols - c : VLEN, of_col + c, sums, c > 0, p + c, ld, of_row, rows,
                     of_zero);
}

#define SIMD_BALANCE .rows.balance = rows_balance

#endif
