/* Sums, products and checks of rows: short loops, mostly bound by memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_ROWS_H
#define KERNELS_SIMD_ROWS_H

#include "kernels/simd_math.h"
#include "kernels/slots_rows.h"

static void rows_scale(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = x + i * ld_x;
        vf each = v_set(factor[i]);
        for (size_t c = 0; c < cols; c += VLEN)
            v_put(row + c, v_mul(v_get(row + c, cols - c), each), cols - c);
    }
}

static void rows_scale_both(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                            size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = x + i * ld_x;
        vf each = v_set(of_row[i]);
        for (size_t c = 0; c < cols; c += VLEN) {
            vf scaled = v_mul(v_get(row + c, cols - c), each);
            v_put(row + c, v_mul(scaled, v_get(of_col + c, cols - c)), cols - c);
        }
    }
}

static void rows_dots(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                      size_t cols)
{
    for (size_t i = 0; i < rows; i += 4) {
        size_t last = rows - 1, row[4] = {i, i + 1, i + 2, i + 3};
        vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        float sums[4];
        /* Missing rows repeat the last one and are not written. */
        for (size_t r = 0; r < 4; r++)
            row[r] = row[r] < last ? row[r] : last;
        for (size_t c = 0; c < cols; c += VLEN) {
            UNROLLED
            for (size_t r = 0; r < 4; r++)
                sum[r] = v_fma(v_get(a + row[r] * ld_a + c, cols - c), v_get(b + row[r] * ld_b + c, cols - c),
                               sum[r]);
        }
        v_sum4(sums, sum[0], sum[1], sum[2], sum[3], 0.0f, 1.0f);
        for (size_t r = 0; r < 4 && i + r < rows; r++)
            out[i + r] = sums[r];
    }
}

static float rows_largest_size(const float *x, size_t ld, size_t rows, size_t cols)
{
    vf largest = v_zero();
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c += VLEN)
            largest = v_max(v_abs(v_get(x + i * ld + c, cols - c)), largest);
    return v_largest(largest);
}

static void rows_multiply(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += VLEN)
        v_put(y + i, v_mul(v_get(y + i, n - i), v_get(x + i, n - i)), n - i);
}

static void rows_gate(float *y, const float *x, const float *gate, size_t n)
{
    vf least = v_set(0x1p-149f); /* no number lies between it and 0, and a NaN does not compare less */
    for (size_t i = 0; i < n; i += VLEN) {
        vm closed = v_less(v_get(gate + i, n - i), least);
        v_put(y + i, v_select(closed, v_zero(), v_get(x + i, n - i)), n - i);
    }
}

static void rows_axpy(float *y, float a, const float *x, size_t n)
{
    vf factor = v_set(a);
    for (size_t i = 0; i < n; i += VLEN)
        v_put(y + i, v_fma(factor, v_get(x + i, n - i), v_get(y + i, n - i)), n - i);
}

/* Zero times a number is zero unless it is NaN or infinite; then the sum stays NaN. One multiply-add per
   vector, so the check is free for rows that are read anyway. */
static bool rows_all_finite(const float *x, size_t ld, size_t rows, size_t cols)
{
    vf zero = v_zero(), sum[4] = {zero, zero, zero, zero};
    if (ld == cols) { /* one long row */
        cols *= rows;
        rows = rows > 0;
    }
    for (size_t i = 0; i < rows; i++, x += ld) {
        size_t c = 0;
        for (; c + 4 * VLEN <= cols; c += 4 * VLEN) {
            UNROLLED
            for (size_t v = 0; v < 4; v++)
                sum[v] = v_fma(v_load(x + c + v * VLEN), zero, sum[v]);
        }
        for (; c < cols; c += VLEN)
            sum[0] = v_fma(v_get(x + c, cols - c), zero, sum[0]);
    }
    return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]))) == 0;
}

static double rows_sum_squares(const float *x, size_t n)
{
    double total = 0;
    for (size_t first = 0; first < n; first += 4096) {
        size_t end = n - first < 4096 ? n : first + 4096, i = first;
        vd sum[4] = {d_zero(), d_zero(), d_zero(), d_zero()};
        for (; i + 4 * VLEN <= end; i += 4 * VLEN) {
            UNROLLED
            for (size_t v = 0; v < 4; v++)
                sum[v] = d_add_squares(sum[v], v_load(x + i + v * VLEN));
        }
        for (; i < end; i += VLEN)
            sum[0] = d_add_squares(sum[0], v_get(x + i, end - i));
        total += (d_sum(sum[0]) + d_sum(sum[1])) + (d_sum(sum[2]) + d_sum(sum[3]));
    }
    return total;
}

#define SIMD_ROWS                                                                                            \
    .rows.scale = rows_scale, .rows.scale_both = rows_scale_both, .rows.dots = rows_dots,                    \
    .rows.largest_size = rows_largest_size, .rows.multiply = rows_multiply, .rows.gate = rows_gate,          \
    .rows.axpy = rows_axpy, .rows.all_finite = rows_all_finite, .rows.sum_squares = rows_sum_squares

#endif
