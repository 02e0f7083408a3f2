/* The slots of stage tables as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_TABLES_H
#define KERNELS_REF_TABLES_H

#include <math.h>
#include <string.h>

#include "kernels/ref_math.h"
#include "kernels/slots_tables.h"

/* The row of token i in the tables, for hash number h of the call. */
static size_t table_row(const struct table_hashes *hashes, size_t i, size_t h)
{
    return h * hashes->buckets +
           code_at(hashes->codes, hashes->wide, i * hashes->num_hashes + hashes->first + h);
}

static void tables_add(float *tables, const struct table_hashes *hashes, const float *values,
                       size_t ld_values, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < hashes->count; h++) {
            float *row = tables + table_row(hashes, i, h) * dim;
            for (size_t c = 0; c < dim; c++)
                row[c] += values[i * ld_values + c];
        }
}

static void tables_read(float *out, size_t ld_out, const float *tables, const struct table_hashes *hashes,
                        size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < hashes->count; h++) {
            const float *row = tables + table_row(hashes, i, h) * dim;
            for (size_t c = 0; c < dim; c++)
                out[i * ld_out + c] += row[c];
        }
}

static void tables_add_rows(float *table, const uint16_t *codes, const uint32_t *rows, size_t n,
                            const float *values, size_t ld_values, size_t dim)
{
    for (size_t k = 0; k < n; k++)
        for (size_t c = 0; c < dim; c++)
            table[codes[k] * dim + c] += values[rows[k] * ld_values + c];
}

static void tables_read_rows(float *out, size_t ld_out, const float *table, const uint16_t *codes,
                             const uint32_t *rows, size_t n, size_t dim)
{
    for (size_t k = 0; k < n; k++)
        for (size_t c = 0; c < dim; c++)
            out[rows[k] * ld_out + c] += table[codes[k] * dim + c];
}

static void tables_scan(const struct table_scan *scan)
{
    size_t bytes = scan->num_hashes * (scan->wide ? sizeof(uint32_t) : sizeof(uint16_t));
    struct table_hashes hashes = {.wide = scan->wide,
                                  .num_hashes = scan->num_hashes,
                                  .first = scan->first,
                                  .count = scan->count,
                                  .buckets = scan->buckets};
    for (size_t step = 0; step < scan->n; step++) {
        size_t i = scan->backwards ? scan->n - 1 - step : step;
        hashes.codes = (const char *)scan->from + i * bytes;
        tables_add(scan->tables, &hashes, scan->values + i * scan->ld_values, scan->ld_values, 1, scan->dim);
        hashes.codes = (const char *)scan->to + i * bytes;
        tables_read(scan->out + i * scan->ld_out, scan->ld_out, scan->tables, &hashes, 1, scan->dim);
    }
}

static void tables_fixed_round(int16_t *out, size_t width, const float *x, size_t ld_x, size_t n, size_t dim,
                               float factor)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            out[i * width + c] = (int16_t)(c < dim ? lrintf(x[i * ld_x + c] * factor) : 0);
}

static void tables_fixed_add(int16_t *tables, size_t width, const struct table_hashes *hashes,
                             const int16_t *values, size_t ld_values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < hashes->count; h++) {
            int16_t *row = tables + table_row(hashes, i, h) * width;
            for (size_t c = 0; c < width; c++)
                row[c] = (int16_t)(row[c] + values[i * ld_values + c]);
        }
}

static void tables_fixed_read(int32_t *out, size_t ld_out, const int16_t *tables, size_t width,
                              const struct table_hashes *hashes, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < hashes->count; h++) {
            const int16_t *row = tables + table_row(hashes, i, h) * width;
            for (size_t c = 0; c < dim; c++)
                out[i * ld_out + c] += row[c];
        }
}

static void tables_fixed_finish(float *x, size_t ld, size_t n, size_t dim, float step)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++) {
            int32_t whole;
            memcpy(&whole, x + i * ld + c, sizeof whole);
            x[i * ld + c] = (float)whole * step;
        }
}

#define REF_TABLES                                                                                           \
    .tables.add = tables_add, .tables.read = tables_read, .tables.add_rows = tables_add_rows,                \
    .tables.read_rows = tables_read_rows, .tables.scan = tables_scan,                                        \
    .tables.fixed_round = tables_fixed_round, .tables.fixed_add = tables_fixed_add,                          \
    .tables.fixed_read = tables_fixed_read, .tables.fixed_finish = tables_fixed_finish

#endif
