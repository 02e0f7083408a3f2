/* Stage rows: element-wise arithmetic, sums and selections of rows. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_ROWS_H
#define KERNELS_SLOTS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rows_slots {
    /* The largest |x[i][c]|, ignoring NaN; 0 for no numbers. EXACT. */
    float (*largest_size)(const float *x, size_t ld, size_t rows, size_t cols);

    /* x[i][c] *= factor[i]. EXACT. */
    void (*scale)(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols);

    /* x[i][c] = x[i][c] * of_row[i] * of_col[c], from left to right. EXACT. */
    void (*scale_both)(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                       size_t cols);

    /* out[i] = <a_i, b_i>. TOLERANT. */
    void (*dots)(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                 size_t cols);

    /* For p >= 0 (rows, cols), cols >= 1: of_col[c] = 1 / (sum over i of of_row[i] p[i][c]), or of_zero if
       that sum is FLT_MIN or less; then, unless sums is NULL, sums[i] = sum over c of p[i][c] of_col[c], for
       which of_zero is finite. TOLERANT. */
    void (*balance)(float *of_col, float *sums, const float *p, size_t ld, const float *of_row, size_t rows,
                    size_t cols, float of_zero);

    /* The number of x[0 .. n) that are greater than `bound`, which is not NaN; a NaN does not count. EXACT.
       One comparison per vector: bound by the first-level cache. */
    size_t (*count_above)(const float *x, size_t n, float bound);

    /* The indices of the numbers that count_above counts, ascending; n < 2^32. EXACT. */
    void (*list_above)(uint32_t *out, const float *x, size_t n, float bound);

    /* y *= x. EXACT. */
    void (*multiply)(float *y, const float *x, size_t n);

    /* y[i] = gate[i] <= 0 ? 0 : x[i]; y may be x or gate. With gate = x this is max(x, 0) and keeps a NaN;
       with that result as gate it is the backward pass. EXACT. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);

    /* y += a x. EXACT (one fused multiply-add each). */
    void (*axpy)(float *y, float a, const float *x, size_t n);

    /* True if no number of x (rows, cols) is NaN or infinite. EXACT. */
    bool (*all_finite)(const float *x, size_t ld, size_t rows, size_t cols);

    /* Sum of squares in double, over blocks of 4096 in order. TOLERANT. */
    double (*sum_squares)(const float *x, size_t n);
};

#endif
