/* Stage decode: scores of keys from their codes, a sample by scores, and attention over rows that lie
   anywhere in memory. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_DECODE_H
#define KERNELS_SLOTS_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/dtype.h"

enum { DECODE_BLOCK = 64, DECODE_MOST_BYTES = 128, DECODE_TABLE = 64, DECODE_LARGEST_ENTRY = 63 };

/* Byte b of the code of row r of a block is codes[b * DECODE_BLOCK + decode_place(r)]. */
static inline size_t decode_place(size_t row)
{
    return 4 * (row % 16) + row / 16;
}

/* What a query knows of codes: for every 4 bits of a code a table of 16 entries, each at most
   DECODE_LARGEST_ENTRY, four times after one another. */
struct decode_query {
    const uint8_t
        *tables; /* (2 * bytes, DECODE_TABLE): of the lower 4 bits of byte 0, of the upper ones, ... */
    float step, least, base;
};

/* Chances of decode.sample are multiples of 1 / DECODE_CERTAIN; DECODE_MOST_CHANCE is the largest below 1. */
#define DECODE_CERTAIN     0x80000000u
#define DECODE_MOST_CHANCE 0x7fffff00u

/* The chance of a row with x < bound, for factor = DECODE_MOST_CHANCE / bound, and 0 <= x: the nearest whole
   number, ties to even. */
static inline uint32_t decode_chance(float x, float factor)
{
    float chance = x * factor, above = 8388608.0f; /* floats from 2^23 on are whole */
    return (uint32_t)(chance < above ? chance + above - above : chance);
}

/* Rows anywhere in memory: each points to `cols` elements, float32 or bfloat16. */
struct decode_rows {
    const unsigned char *const *row;
    size_t count, cols;
    enum dtype dtype;
    size_t ahead; /* bytes from the start of each row that are fetched early */
};

struct decode_slots {
    /* For each query i and row r of a block: with s = the sum of the entries that the code of row r picks
       from the query's tables, out[i * ld_out + r] = fma(scale[r], fma(step, s, least), base). codes is
       (bytes, DECODE_BLOCK), bytes an even number of at most DECODE_MOST_BYTES; scale is (DECODE_BLOCK).
       EXACT. */
    void (*scores)(float *out, size_t ld_out, const uint8_t *codes, const bf16 *scale, size_t bytes,
                   const struct decode_query *query, size_t queries);

    /* out[j] = the sum over the rows i of power(x[i * ld + j] * factor + shift[i]); returns the sum of out.
       power is 2^y in straight pieces between whole y, above it by up to 6.2 %: (1 + y - floor(y))
       2^floor(y), with an error of 2^-14; 0 for y < -126, -inf among them; y above 100 counts as 100. n is a
       multiple of DECODE_BLOCK; out may be x if rows is 1. TOLERANT. */
    double (*importance)(float *out, const float *x, size_t ld, size_t rows, size_t n, float factor,
                         const float *shift);

    /* The sum of the numbers x[0 .. n) that are at most `bound`; n is a multiple of DECODE_BLOCK.
       TOLERANT. */
    double (*sum_below)(const float *x, size_t n, float bound);

    /* A systematic sample (Madow 1949). Row j is certain if x[j] >= bound. Another has the chance c =
       decode_chance(x[j], factor), x[j] >= 0, and is taken if the running sum of 2 c, from `start` on and
       modulo 2^32, passes 2^32 at j. Lists the rows taken, ascending, and returns their number. row has room
       for n entries, n a multiple of DECODE_BLOCK; bound > 0. EXACT. */
    size_t (*sample)(uint32_t *row, const float *x, size_t n, float bound, float factor, uint32_t start);

    /* out[i * ld_out + r] = <query i, row r>; queries are (queries, cols). TOLERANT. */
    void (*row_dots)(float *out, size_t ld_out, const struct decode_rows *rows, const float *query,
                     size_t queries);

    /* out[i * cols + c] += the sum over r of weight[i * ld_weight + r] row_r[c]; unless squares is NULL,
       squares[i] += the sum over r of weight[i * ld_weight + r] |row_r|^2. TOLERANT. */
    void (*row_sums)(float *out, float *squares, const float *weight, size_t ld_weight, size_t weights,
                     const struct decode_rows *rows);
};

#endif
