/* Tables of sums in 16-bit integers: rows take half the cache lines of floats, and sums are exact.
   u_pack_halves sets the order of a stored block of 2 VLEN columns. Reading unpacks two table rows against
   each other, which undoes that order, and adds them in pairs by one multiply-add with ones. Cost: 2 cache
   lines in and out per token and hash at dim 64.
   Measured by a separate loop on Zen 5 (random codes, tau 9, dim 64, under load), nanoseconds per token and
   hash, add + read, 8 hashes of 128-byte rows per pass: 1.7 + 1.2; the best float version, 4 hashes per pass,
   took 3.7 + 2.0. A width of 64 is passed as a constant: adding takes 0.85 of the time; floats gain nothing
   from it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_FIXED_H
#define KERNELS_SIMD_FIXED_H

#include "kernels/simd_math.h"
#include "kernels/simd_tables.h"
#include "kernels/slots_tables.h"

enum { FIXED_LANES = 2 * VLEN, FIXED_COLUMNS = 64, FIXED_VECTORS = FIXED_COLUMNS / FIXED_LANES };

INLINE vu fixed_load(const int16_t *p)
{
    return u_load((const uint32_t *)(const void *)p);
}

INLINE void fixed_store(int16_t *p, vu a)
{
    u_store((uint32_t *)(void *)p, a);
}

static void tables_fixed_round(int16_t *out, size_t width, const float *x, size_t ld_x, size_t n, size_t dim,
                               float factor)
{
    vf factors = v_set(factor);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c += FIXED_LANES) {
            vu half[2];
            UNROLLED
            for (size_t u = 0; u < 2; u++) {
                size_t at = c + u * VLEN;
                half[u] = at < dim ? u_round(v_mul(v_get(x + i * ld_x + at, dim - at), factors)) : u_set(0);
            }
            fixed_store(out + i * width + c, u_pack_halves(half[0], half[1]));
        }
}

INLINE void fixed_add_part(const size_t vectors, int16_t *tables, size_t width,
                           const struct table_hashes hashes, const bool wide, size_t at, const int16_t *value)
{
    vu each[FIXED_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        each[v] = fixed_load(value + v * FIXED_LANES);
    for (size_t h = 0; h < hashes.count; h++) {
        int16_t *row = tables + (h * hashes.buckets + code_at(hashes.codes, wide, at + h)) * width;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            fixed_store(row + v * FIXED_LANES, u_add_halves(fixed_load(row + v * FIXED_LANES), each[v]));
    }
}

INLINE void fixed_add_all(int16_t *tables, const size_t width, const struct table_hashes hashes,
                          const bool wide, const int16_t *values, size_t ld_values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i * hashes.num_hashes + hashes.first, c = 0;
        for (; c + FIXED_COLUMNS <= width; c += FIXED_COLUMNS)
            fixed_add_part(FIXED_VECTORS, tables + c, width, hashes, wide, at, values + i * ld_values + c);
        if (c < width)
            fixed_add_part(FIXED_VECTORS / 2, tables + c, width, hashes, wide, at,
                           values + i * ld_values + c);
    }
}

static void tables_fixed_add(int16_t *tables, size_t width, const struct table_hashes *hashes,
                             const int16_t *values, size_t ld_values, size_t n)
{
    if (!hashes->wide && width == FIXED_COLUMNS)
        fixed_add_all(tables, FIXED_COLUMNS, *hashes, false, values, ld_values, n);
    else if (hashes->wide)
        fixed_add_all(tables, width, *hashes, true, values, ld_values, n);
    else
        fixed_add_all(tables, width, *hashes, false, values, ld_values, n);
}

INLINE void fixed_sum(const size_t vectors, vu *sum, const int16_t *one, const int16_t *two)
{
    vu ones = u_set(0x00010001);
    UNROLLED
    for (size_t v = 0; v < vectors; v++) {
        vu a = fixed_load(one + v * FIXED_LANES),
           b = two == NULL ? u_set(0) : fixed_load(two + v * FIXED_LANES);
        sum[2 * v] = u_dot_halves(sum[2 * v], u_low_halves(a, b), ones);
        sum[2 * v + 1] = u_dot_halves(sum[2 * v + 1], u_high_halves(a, b), ones);
    }
}

/* `left` columns of out; sums of missing columns are 0. */
INLINE void fixed_read_part(const size_t vectors, float *out, const size_t left, const int16_t *tables,
                            const size_t width, const struct table_hashes hashes, const bool wide, size_t at)
{
    vu sum[2 * FIXED_VECTORS];
    size_t h = 0;
    UNROLLED
    for (size_t v = 0; v < 2 * vectors; v++)
        sum[v] = v * VLEN < left ? u_from(v_get(out + v * VLEN, left - v * VLEN)) : u_set(0);
    for (; h + 2 <= hashes.count; h += 2)
        fixed_sum(vectors, sum, tables + (h * hashes.buckets + code_at(hashes.codes, wide, at + h)) * width,
                  tables + ((h + 1) * hashes.buckets + code_at(hashes.codes, wide, at + h + 1)) * width);
    if (h < hashes.count)
        fixed_sum(vectors, sum, tables + (h * hashes.buckets + code_at(hashes.codes, wide, at + h)) * width,
                  NULL);
    UNROLLED
    for (size_t v = 0; v < 2 * vectors; v++)
        if (v * VLEN < left)
            v_put(out + v * VLEN, v_from(sum[v]), left - v * VLEN);
}

INLINE void fixed_read_all(float *out, size_t ld_out, const int16_t *tables, const size_t width,
                           const struct table_hashes hashes, const bool wide, size_t n, const size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i * hashes.num_hashes + hashes.first, c = 0;
        for (; c + FIXED_COLUMNS <= dim; c += FIXED_COLUMNS)
            fixed_read_part(FIXED_VECTORS, out + i * ld_out + c, FIXED_COLUMNS, tables + c, width, hashes,
                            wide, at);
        if (c + FIXED_BLOCK < dim)
            fixed_read_part(FIXED_VECTORS, out + i * ld_out + c, dim - c, tables + c, width, hashes, wide,
                            at);
        else if (c < dim)
            fixed_read_part(FIXED_VECTORS / 2, out + i * ld_out + c, dim - c, tables + c, width, hashes, wide,
                            at);
    }
}

/* The words of out pass through float registers, which keeps their bits. */
static void tables_fixed_read(int32_t *out, size_t ld_out, const int16_t *tables, size_t width,
                              const struct table_hashes *hashes, size_t n, size_t dim)
{
    float *words = (float *)(void *)out;
    if (!hashes->wide && width == FIXED_COLUMNS && dim == FIXED_COLUMNS)
        fixed_read_all(words, ld_out, tables, FIXED_COLUMNS, *hashes, false, n, FIXED_COLUMNS);
    else if (hashes->wide)
        fixed_read_all(words, ld_out, tables, width, *hashes, true, n, dim);
    else
        fixed_read_all(words, ld_out, tables, width, *hashes, false, n, dim);
}

static void tables_fixed_finish(float *x, size_t ld, size_t n, size_t dim, float step)
{
    vf steps = v_set(step);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c += VLEN) {
            vu whole = u_from(v_get(x + i * ld + c, dim - c));
            v_put(x + i * ld + c, v_mul(v_of_whole(whole), steps), dim - c);
        }
}

#define SIMD_FIXED                                                                                           \
    .tables.fixed_round = tables_fixed_round, .tables.fixed_add = tables_fixed_add,                          \
    .tables.fixed_read = tables_fixed_read, .tables.fixed_finish = tables_fixed_finish

#endif
