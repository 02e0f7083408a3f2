/* Stage tables: tables of sums with one row for each bucket of each hash. kernels.h has the rules of all
   contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_TABLES_H
#define KERNELS_SLOTS_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of columns of a 16-bit table is a multiple of this. */
enum { FIXED_BLOCK = 32 };

/* The codes of rows, and the hashes that a call uses: `count` of them from `first` on, each with a table of
   its own. */
struct table_hashes {
    const void *codes; /* (n, num_hashes), as hash.codes writes them */
    bool wide;         /* codes are uint32_t */
    size_t num_hashes, first, count;
    size_t buckets; /* rows of a table */
};

/* Arguments of tables.scan: prefix sums in hash tables. */
struct table_scan {
    float *tables; /* (count, buckets, dim) */
    size_t buckets;
    const void *from, *to; /* codes (n, num_hashes) of the rows that are added, and of those that read */
    bool wide;             /* codes are uint32_t */
    bool backwards;        /* last row first */
    size_t num_hashes, first, count;
    const float *values; /* (n, dim); ld may be 0 (one row for all) */
    size_t ld_values;
    float *out; /* (n, dim) */
    size_t ld_out, n, dim;
};

struct tables_slots {
    /* For each row i < n in order, for each hash h in [first, first + count):
       tables[(h - first) * buckets + code(i, h)][0 .. dim) += values[i]. tables (count, buckets, dim).
       ld_values may be 0 (one row for all). EXACT. */
    void (*add)(float *tables, const struct table_hashes *hashes, const float *values, size_t ld_values,
                size_t n, size_t dim);

    /* out[i] += sum over h in [first, first + count), in order, starting from out's value, of the table row
       of code(i, h). EXACT. */
    void (*read)(float *out, size_t ld_out, const float *tables, const struct table_hashes *hashes, size_t n,
                 size_t dim);

    /* One table, and a list of rows. tables.add_rows: for each k < n in order, table[codes[k]][0 .. dim) +=
       values[rows[k]]. tables.read_rows: out[rows[k]] += table[codes[k]]; rows are distinct. ld_values may be
       0. EXACT. */
    void (*add_rows)(float *table, const uint16_t *codes, const uint32_t *rows, size_t n, const float *values,
                     size_t ld_values, size_t dim);
    void (*read_rows)(float *out, size_t ld_out, const float *table, const uint16_t *codes,
                      const uint32_t *rows, size_t n, size_t dim);

    /* For each row i < n, in ascending order or, if `backwards`, in descending order: tables.add of values[i]
       by `from`, then tables.read into out[i] by `to`. EXACT. One step for both lets the processor fetch both
       rows at once: see simd_scan.h. */
    void (*scan)(const struct table_scan *scan);

    /* Tables of 16-bit integers. Rows have `width` columns, a multiple of FIXED_BLOCK. EXACT; integer sums do
       not depend on the order.
       tables.fixed_round: out (n, width) = round(x factor), ties to even, which the caller keeps within
       +-32767; 0 from dim on. Within FIXED_BLOCK columns the order is specific to this table of slots;
       tables.fixed_read undoes it. */
    void (*fixed_round)(int16_t *out, size_t width, const float *x, size_t ld_x, size_t n, size_t dim,
                        float factor);

    /* tables.add for rows of tables.fixed_round, ld_values apart. No sum may exceed 32767 in magnitude. */
    void (*fixed_add)(int16_t *tables, size_t width, const struct table_hashes *hashes, const int16_t *values,
                      size_t ld_values, size_t n);

    /* tables.read of the first dim <= width columns, as 32-bit integers. */
    void (*fixed_read)(int32_t *out, size_t ld_out, const int16_t *tables, size_t width,
                       const struct table_hashes *hashes, size_t n, size_t dim);

    /* In place: converts x[i][c], a 32-bit integer, to float and multiplies it by step; each is rounded
       once. */
    void (*fixed_finish)(float *x, size_t ld, size_t n, size_t dim, float step);
};

#endif
