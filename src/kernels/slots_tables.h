/* Stage tables: tables of sums, one row for each bucket of each hash. kernels.h has the rules of all
   contracts. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_TABLES_H
#define KERNELS_SLOTS_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of tables of 16-bit numbers come in multiples of this. */
enum { FIXED_BLOCK = 32 };

/* Steps of prefix sums in hash tables: see tables.scan. */
struct table_scan {
    float *tables; /* (count, buckets, dim) */
    size_t buckets;
    const void *from, *to; /* codes (n, num_hashes) of the rows that are added, and of those that read */
    bool wide;             /* codes are uint32_t */
    bool backwards;        /* the last row first */
    size_t num_hashes, first, count;
    const float *values; /* (n, dim); ld may be 0 (one row for all) */
    size_t ld_values;
    float *out; /* (n, dim) */
    size_t ld_out, n, dim;
};

struct tables_slots {
    /* For each row i < n in order, for each hash h in [first, first + count):
       tables[(h - first) * buckets + code(i, h)][0 .. dim) += values[i]. codes as hash.codes, (n,
       num_hashes). tables (count, buckets, dim). ld_values may be 0 (one row for all). EXACT. */
    void (*add)(float *tables, size_t buckets, const void *codes, bool wide, size_t num_hashes, size_t first,
                size_t count, const float *values, size_t ld_values, size_t n, size_t dim);

    /* out[i] += sum over h in [first, first + count), in order and from out's value on, of the row of the
     * table. EXACT. */
    void (*read)(float *out, size_t ld_out, const float *tables, size_t buckets, const void *codes, bool wide,
                 size_t num_hashes, size_t first, size_t count, size_t n, size_t dim);

    /* For each row i < n in order, or in falling order where `backwards`: what tables.add does with values[i]
       and from, then what tables.read does for out[i] and to. EXACT. Both as one step, since the processor
       can fetch the rows of both at once: see simd_scan.h. */
    void (*scan)(const struct table_scan *scan);

    /* The same with tables of 16-bit whole numbers, whose rows have `width` columns, a multiple of
       FIXED_BLOCK. EXACT, and so is the order: sums of whole numbers do not depend on it. tables.fixed_round:
       out (n, width) = round(x factor), ties to even, no more than 32767 in size, in an order of this table
       of slots within FIXED_BLOCK columns, which tables.fixed_read undoes; 0 from dim on. */
    void (*fixed_round)(int16_t *out, size_t width, const float *x, size_t ld_x, size_t n, size_t dim,
                        float factor);

    /* tables.add of rows of tables.fixed_round, ld_values apart; no sum may pass 32767 in size. */
    void (*fixed_add)(int16_t *tables, size_t width, size_t buckets, const void *codes, bool wide,
                      size_t num_hashes, size_t first, size_t count, const int16_t *values, size_t ld_values,
                      size_t n);

    /* tables.read of the first dim <= width columns, as whole numbers of 32 bits. */
    void (*fixed_read)(int32_t *out, size_t ld_out, const int16_t *tables, size_t width, size_t buckets,
                       const void *codes, bool wide, size_t num_hashes, size_t first, size_t count, size_t n,
                       size_t dim);

    /* In place: x[i][c], a whole number of 32 bits, becomes a float times step, each rounded once. */
    void (*fixed_finish)(float *x, size_t ld, size_t n, size_t dim, float step);
};

#endif
