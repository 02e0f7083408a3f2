/* Tables of sums. A row of values stays in registers while it is added to `count` tables (or a row of out
   while `count` rows are added to it), so only table rows move: 4 cache lines in and out per token and hash
   at dim 64. Measured on Zen 5 (1 MiB of second-level cache), tau 9, dim 64, nanoseconds per token and hash,
   add + read: count 1 4.6 + 4.2, count 2 3.2 + 2.8, count 4 (512 KiB of tables) 2.8 + 2.1, count 8 3.5 + 2.0;
   count 4 at tau 7 2.2 + 1.7, at tau 11 4.9 + 4.0. Prefetching the rows of later tokens made all but the
   largest tables a fifth slower.
   Distance from the machine's limit, by loops that only touch random rows of 512 KiB of tables: adding to
   rows takes 2.0 times as long as reading them, nearly all of it for the writes. tables.add takes 1.3 times
   such a loop and tables.read 1.5, because rows of values and out pass too. Tables that fit the first-level
   cache do not help: adding still takes 0.7 of the time, and values and out pass once per hash.
   Tried without gain: pages of 2 MiB (no difference); sorting the rows of each hash by code, to sum a bucket
   in registers and write it once (0.7 of the time of adding, but the sort costs 0.4); rounding tables to
   bfloat16 before reading, for half the lines (reading 0.80 of the time at count 4, but rounding takes 0.18
   of it).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_TABLES_H
#define KERNELS_SIMD_TABLES_H

#include "kernels/simd_math.h"
#include "kernels/slots_tables.h"

enum { TABLE_FLOATS = 64, TABLE_VECTORS = TABLE_FLOATS / VLEN };

INLINE size_t code_at(const void *codes, const bool wide, size_t k)
{
    return wide ? ((const uint32_t *)codes)[k] : ((const uint16_t *)codes)[k];
}

/* Parts take `hashes` by value: a store to a table cannot change its members, so they stay in registers.
   `wide` is hashes.wide as a constant. */

/* Columns [c, c + VLEN * vectors) of one token; `left` of the last vector exist. */
INLINE void table_add_part(const size_t vectors, const size_t left, float *tables,
                           const struct table_hashes hashes, const bool wide, size_t at, const float *value,
                           size_t dim)
{
    vf each[TABLE_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        each[v] = v_get(value + v * VLEN, left);
    for (size_t h = 0; h < hashes.count; h++) {
        float *row = tables + (h * hashes.buckets + code_at(hashes.codes, wide, at + h)) * dim;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(row + v * VLEN, v_add(v_get(row + v * VLEN, left), each[v]), left);
    }
}

INLINE void table_add_all(float *tables, const struct table_hashes hashes, const bool wide,
                          const float *values, size_t ld_values, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        const float *value = values + i * ld_values;
        size_t at = i * hashes.num_hashes + hashes.first, c = 0;
        for (; c + TABLE_FLOATS <= dim; c += TABLE_FLOATS)
            table_add_part(TABLE_VECTORS, VLEN, tables + c, hashes, wide, at, value + c, dim);
        for (; c + TABLE_FLOATS / 2 <= dim; c += TABLE_FLOATS / 2)
            table_add_part(TABLE_VECTORS / 2, VLEN, tables + c, hashes, wide, at, value + c, dim);
        for (; c + VLEN <= dim; c += VLEN)
            table_add_part(1, VLEN, tables + c, hashes, wide, at, value + c, dim);
        if (c < dim)
            table_add_part(1, dim - c, tables + c, hashes, wide, at, value + c, dim);
    }
}

static void tables_add(float *tables, const struct table_hashes *hashes, const float *values,
                       size_t ld_values, size_t n, size_t dim)
{
    if (hashes->wide)
        table_add_all(tables, *hashes, true, values, ld_values, n, dim);
    else
        table_add_all(tables, *hashes, false, values, ld_values, n, dim);
}

INLINE void table_read_part(const size_t vectors, const size_t left, float *out, const float *tables,
                            const struct table_hashes hashes, const bool wide, size_t at, size_t dim)
{
    vf sum[TABLE_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_get(out + v * VLEN, left);
    for (size_t h = 0; h < hashes.count; h++) {
        const float *row = tables + (h * hashes.buckets + code_at(hashes.codes, wide, at + h)) * dim;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_add(sum[v], v_get(row + v * VLEN, left));
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(out + v * VLEN, sum[v], left);
}

INLINE void table_read_all(float *out, size_t ld_out, const float *tables, const struct table_hashes hashes,
                           const bool wide, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        float *row = out + i * ld_out;
        size_t at = i * hashes.num_hashes + hashes.first, c = 0;
        for (; c + TABLE_FLOATS <= dim; c += TABLE_FLOATS)
            table_read_part(TABLE_VECTORS, VLEN, row + c, tables + c, hashes, wide, at, dim);
        for (; c + TABLE_FLOATS / 2 <= dim; c += TABLE_FLOATS / 2)
            table_read_part(TABLE_VECTORS / 2, VLEN, row + c, tables + c, hashes, wide, at, dim);
        for (; c + VLEN <= dim; c += VLEN)
            table_read_part(1, VLEN, row + c, tables + c, hashes, wide, at, dim);
        if (c < dim)
            table_read_part(1, dim - c, row + c, tables + c, hashes, wide, at, dim);
    }
}

static void tables_read(float *out, size_t ld_out, const float *tables, const struct table_hashes *hashes,
                        size_t n, size_t dim)
{
    if (hashes->wide)
        table_read_all(out, ld_out, tables, *hashes, true, n, dim);
    else
        table_read_all(out, ld_out, tables, *hashes, false, n, dim);
}

static void tables_add_rows(float *table, const uint16_t *codes, const uint32_t *rows, size_t n,
                            const float *values, size_t ld_values, size_t dim)
{
    const struct table_hashes one = {.codes = codes, .count = 1};
    size_t c = 0;
    for (; c + TABLE_FLOATS <= dim; c += TABLE_FLOATS)
        for (size_t k = 0; k < n; k++)
            table_add_part(TABLE_VECTORS, VLEN, table + c, one, false, k, values + rows[k] * ld_values + c,
                           dim);
    for (; c + TABLE_FLOATS / 2 <= dim; c += TABLE_FLOATS / 2)
        for (size_t k = 0; k < n; k++)
            table_add_part(TABLE_VECTORS / 2, VLEN, table + c, one, false, k,
                           values + rows[k] * ld_values + c, dim);
    for (; c < dim; c += VLEN)
        for (size_t k = 0; k < n; k++)
            table_add_part(1, dim - c, table + c, one, false, k, values + rows[k] * ld_values + c, dim);
}

static void tables_read_rows(float *out, size_t ld_out, const float *table, const uint16_t *codes,
                             const uint32_t *rows, size_t n, size_t dim)
{
    const struct table_hashes one = {.codes = codes, .count = 1};
    size_t c = 0;
    for (; c + TABLE_FLOATS <= dim; c += TABLE_FLOATS)
        for (size_t k = 0; k < n; k++)
            table_read_part(TABLE_VECTORS, VLEN, out + rows[k] * ld_out + c, table + c, one, false, k, dim);
    for (; c + TABLE_FLOATS / 2 <= dim; c += TABLE_FLOATS / 2)
        for (size_t k = 0; k < n; k++)
            table_read_part(TABLE_VECTORS / 2, VLEN, out + rows[k] * ld_out + c, table + c, one, false, k,
                            dim);
    for (; c < dim; c += VLEN)
        for (size_t k = 0; k < n; k++)
            table_read_part(1, dim - c, out + rows[k] * ld_out + c, table + c, one, false, k, dim);
}

#define SIMD_TABLES                                                                                          \
    .tables.add = tables_add, .tables.read = tables_read, .tables.add_rows = tables_add_rows,                \
    .tables.read_rows = tables_read_rows

#endif
