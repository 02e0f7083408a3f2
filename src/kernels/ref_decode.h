/* The slots of stage decode as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_DECODE_H
#define KERNELS_REF_DECODE_H

#include <math.h>

#include "kernels/ref_bf16.h"
#include "kernels/slots_decode.h"

static void decode_scores(float *out, size_t ld_out, const uint8_t *codes, const bf16 *scale, size_t bytes,
                          const struct decode_query *query, size_t queries)
{
    for (size_t i = 0; i < queries; i++)
        for (size_t r = 0; r < DECODE_BLOCK; r++) {
            unsigned sum = 0;
            for (size_t b = 0; b < bytes; b++) {
                uint8_t code = codes[b * DECODE_BLOCK + decode_place(r)];
                sum += query[i].tables[2 * b * DECODE_TABLE + (code & 15)];
                sum += query[i].tables[(2 * b + 1) * DECODE_TABLE + (code >> 4)];
            }
            float dot = fmaf(query[i].step, (float)sum, query[i].least);
            out[i * ld_out + r] = fmaf(widened(scale[r]), dot, query[i].base);
        }
}

static double decode_importance(float *out, const float *x, size_t ld, size_t rows, size_t n, float factor,
                                const float *shift)
{
    double all = 0;
    for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++) {
            double y = fmin(100, (double)x[i * ld + j] * (double)factor + (double)shift[i]), whole = floor(y);
            sum += y < -126 ? 0 : ldexp(1 + y - whole, (int)whole);
        }
        out[j] = (float)sum;
        all += sum;
    }
    return all;
}

static double decode_sum_below(const float *x, size_t n, float bound)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += x[j] <= bound ? (double)x[j] : 0;
    return sum;
}

static size_t decode_sample(uint32_t *row, const float *x, size_t n, float bound, float factor,
                            uint32_t start)
{
    size_t count = 0;
    uint32_t sum = start;
    for (size_t j = 0; j < n; j++) {
        uint32_t step = x[j] >= bound ? 0 : 2 * decode_chance(x[j], factor);
        sum += step;
        if (x[j] >= bound || sum < step)
            row[count++] = (uint32_t)j;
    }
    return count;
}

static float decode_element(const struct decode_rows *rows, size_t r, size_t c)
{
    if (rows->dtype == DTYPE_BFLOAT16)
        return widened(((const bf16 *)(const void *)rows->row[r])[c]);
    return ((const float *)(const void *)rows->row[r])[c];
}

static void decode_row_dots(float *out, size_t ld_out, const struct decode_rows *rows, const float *query,
                            size_t queries)
{
    for (size_t i = 0; i < queries; i++)
        for (size_t r = 0; r < rows->count; r++) {
            double sum = 0;
            for (size_t c = 0; c < rows->cols; c++)
                sum += (double)query[i * rows->cols + c] * (double)decode_element(rows, r, c);
            out[i * ld_out + r] = (float)sum;
        }
}

static void decode_row_sums(float *out, float *squares, const float *weight, size_t ld_weight, size_t weights,
                            const struct decode_rows *rows)
{
    for (size_t i = 0; i < weights; i++) {
        const float *of_row = weight + i * ld_weight;
        double all = 0;
        for (size_t c = 0; c < rows->cols; c++) {
            double sum = 0;
            for (size_t r = 0; r < rows->count; r++) {
                double element = (double)decode_element(rows, r, c);
                sum += (double)of_row[r] * element;
                all += (double)of_row[r] * element * element;
            }
            out[i * rows->cols + c] += (float)sum;
        }
        if (squares != NULL)
            squares[i] += (float)all;
    }
}

#define REF_DECODE                                                                                           \
    .decode.scores = decode_scores, .decode.importance = decode_importance,                                  \
    .decode.sum_below = decode_sum_below, .decode.sample = decode_sample,                                    \
    .decode.row_dots = decode_row_dots, .decode.row_sums = decode_row_sums

#endif
