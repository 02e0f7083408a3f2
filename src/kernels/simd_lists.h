/* Sums over lists of rows by number: where few rows meet, that is less than tables and blocks of pairs move.
   A row of the result, and what it is multiplied with, stay in registers while the rows of its list pass by;
   dot products four at a time, so that the sums of lanes are made together. Per listed row dim loads and
   additions, and value_dim + dim loads and 2 (value_dim + dim) operations. A tenth of a list's cost is here,
   the rest is finding who is on it (parts/meeting_lists.c). SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_LISTS_H
#define KERNELS_SIMD_LISTS_H

#include "kernels/simd_pairs.h"

/* Columns [0, VLEN * vectors) from where out and rows stand, of which `left` of the last vector exist. */
INLINE void list_add_part(const size_t vectors, const size_t left, float *out, const float *rows, size_t ld,
                          const uint32_t *list, size_t count)
{
    vf sum[BLOCK_VECTORS], part[BLOCK_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_get(out + v * VLEN, left);
    for (size_t k = 0; k < count; k++) {
        const float *row = rows + (list[k] & ~LIST_JOINED) * ld;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            part[v] = v_get(row + v * VLEN, left);
        while (list[k] & LIST_JOINED) {
            row = rows + (list[++k] & ~LIST_JOINED) * ld;
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                part[v] = v_add(part[v], v_get(row + v * VLEN, left));
        }
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_add(sum[v], part[v]);
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(out + v * VLEN, sum[v], left);
}

static void list_add(float *out, const float *rows, size_t ld, const uint32_t *list, size_t count, size_t dim)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        list_add_part(BLOCK_VECTORS, VLEN, out + c, rows + c, ld, list, count);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        list_add_part(2, VLEN, out + c, rows + c, ld, list, count);
    for (; c + VLEN <= dim; c += VLEN)
        list_add_part(1, VLEN, out + c, rows + c, ld, list, count);
    if (c < dim)
        list_add_part(1, dim - c, out + c, rows + c, ld, list, count);
}

enum { LIST_BLOCK = 64 }; /* listed rows whose weights are made at a time */

/* weight[k] = (<value, values_k> + bias + biases_k) * scale, four at a time. vectors > 0: of so many whole
   vectors, the own row in registers. */
INLINE void list_scores(const size_t vectors, float *weight, const struct list_pairs *of,
                        const uint32_t *list, size_t count)
{
    const float *values = of->values, *own = of->value, bias = of->bias, scale = of->scale;
    size_t ld = of->ld, dim = of->value_dim;
    vf a[BLOCK_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        a[v] = v_load(own + v * VLEN);
    for (size_t k = 0; k < count; k += 4) {
        const float *row[4];
        vf sum[4];
        UNROLLED
        for (size_t r = 0; r < 4; r++) {
            /* Rows beyond the last are the last again: there is room for them in weight. */
            row[r] = values + (list[k + r < count ? k + r : count - 1] & ~LIST_JOINED) * ld;
            sum[r] = v_zero();
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[r] = v_fma(a[v], v_load(row[r] + v * VLEN), sum[r]);
        }
        for (size_t c = 0; vectors == 0 && c < dim; c += VLEN) {
            vf x = v_get(own + c, dim - c);
            UNROLLED
            for (size_t r = 0; r < 4; r++)
                sum[r] = v_fma(x, v_get(row[r] + c, dim - c), sum[r]);
        }
        v_sum4(weight + k, sum[0], sum[1], sum[2], sum[3], bias, scale);
    }
    for (size_t k = 0; of->biases != NULL && k < count; k++)
        weight[k] += of->biases[list[k] & ~LIST_JOINED] * scale;
}

/* gradient += sum of weight_k unit_k, columns as in list_add_part. */
INLINE void list_spread_part(const size_t vectors, const size_t left, float *gradient, const float *units,
                             size_t ld, const uint32_t *list, const float *weight, size_t count)
{
    vf sum[BLOCK_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_get(gradient + v * VLEN, left);
    for (size_t k = 0; k < count; k++) {
        const float *row = units + (list[k] & ~LIST_JOINED) * ld;
        vf w = v_set(weight[k]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_fma(w, v_get(row + v * VLEN, left), sum[v]);
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(gradient + v * VLEN, sum[v], left);
}

INLINE void list_spread(const struct list_pairs *of, const uint32_t *list, const float *weight, size_t count)
{
    float *gradient = of->gradient;
    const float *units = of->units;
    size_t c = 0, dim = of->dim, ld = of->ld;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        list_spread_part(BLOCK_VECTORS, VLEN, gradient + c, units + c, ld, list, weight, count);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        list_spread_part(2, VLEN, gradient + c, units + c, ld, list, weight, count);
    for (; c + VLEN <= dim; c += VLEN)
        list_spread_part(1, VLEN, gradient + c, units + c, ld, list, weight, count);
    if (c < dim)
        list_spread_part(1, dim - c, gradient + c, units + c, ld, list, weight, count);
}

static void list_pairs(const struct list_pairs *of)
{
    float weight[LIST_BLOCK];
    for (size_t k = 0; k < of->count; k += LIST_BLOCK) {
        size_t some = of->count - k < LIST_BLOCK ? of->count - k : LIST_BLOCK;
        if (of->value_dim == BLOCK_VECTORS * VLEN)
            list_scores(BLOCK_VECTORS, weight, of, of->list + k, some);
        else if (of->value_dim == 2 * VLEN)
            list_scores(2, weight, of, of->list + k, some);
        else
            list_scores(0, weight, of, of->list + k, some);
        list_spread(of, of->list + k, weight, some);
    }
}

#endif
