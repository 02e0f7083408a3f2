/* The slots of stage rows as plain loops, with sums in double. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_ROWS_H
#define KERNELS_REF_ROWS_H

#include <float.h>
#include <math.h>

#include "kernels/slots_rows.h"

static void rows_scale(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] *= factor[i];
}

static void rows_scale_both(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                            size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] = x[i * ld_x + c] * of_row[i] * of_col[c];
}

static void rows_dots(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                      size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)a[i * ld_a + c] * (double)b[i * ld_b + c];
        out[i] = (float)sum;
    }
}

static float rows_largest_size(const float *x, size_t ld, size_t rows, size_t cols)
{
    float largest = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            largest = fmaxf(largest, fabsf(x[i * ld + c]));
    return largest;
}

static size_t rows_count_above(const float *x, size_t n, float bound)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] > bound;
    return count;
}

static void rows_list_above(uint32_t *out, const float *x, size_t n, float bound)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] > bound)
            *out++ = (uint32_t)i;
}

static void rows_balance(float *of_col, float *sums, const float *p, size_t ld, const float *of_row,
                         size_t rows, size_t cols, float of_zero)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += (double)of_row[i] * (double)p[i * ld + c];
        of_col[c] = sum > (double)FLT_MIN ? (float)(1 / sum) : of_zero;
    }
    for (size_t i = 0; i < rows && sums != NULL; i++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)p[i * ld + c] * (double)of_col[c];
        sums[i] = (float)sum;
    }
}

static void rows_multiply(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void rows_gate(float *y, const float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] <= 0 ? 0 : x[i];
}

static void rows_axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static bool rows_all_finite(const float *x, size_t ld, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            if (!isfinite(x[i * ld + c]))
                return false;
    return true;
}

static double rows_sum_squares(const float *x, size_t n)
{
    double total = 0;
    for (size_t first = 0; first < n; first += 4096) {
        double sum = 0;
        for (size_t i = first; i < n && i < first + 4096; i++)
            sum += (double)x[i] * (double)x[i];
        total += sum;
    }
    return total;
}

#define REF_ROWS                                                                                             \
    .rows.scale = rows_scale, .rows.scale_both = rows_scale_both, .rows.dots = rows_dots,                    \
    .rows.balance = rows_balance, .rows.largest_size = rows_largest_size,                                    \
    .rows.count_above = rows_count_above, .rows.list_above = rows_list_above,                                \
    .rows.multiply = rows_multiply, .rows.gate = rows_gate, .rows.axpy = rows_axpy,                          \
    .rows.all_finite = rows_all_finite, .rows.sum_squares = rows_sum_squares

#endif
