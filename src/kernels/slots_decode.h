/* Stage decode: scores of keys from their codes, and the sums that a sample by scores needs. kernels.h has
   the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_DECODE_H
#define KERNELS_SLOTS_DECODE_H

#include <stddef.h>
#include <stdint.h>

enum { DECODE_BLOCK = 64, DECODE_PART = 16, DECODE_MOST_BYTES = 32 };

/* Byte b of the code of row r of a block is codes[b * DECODE_BLOCK + decode_place(r)]. */
static inline size_t decode_place(size_t row)
{
    return 4 * (row % 16) + row / 16;
}

/* What a query knows of codes: for every 4 bits of a code a table of 16 entries, each at most 127. */
struct decode_query {
    const uint8_t *tables; /* (2 * bytes, 16): of the lower 4 bits of byte 0, of the upper ones, ... */
    float step, least, base;
};

struct decode_slots {
    /* For each query i and row r of a block: with s = the sum of the entries that the code of row r picks
       from the query's tables, out[i * ld_out + r] = fma(scale[r], fma(step, s, least), base). codes is
       (bytes, DECODE_BLOCK), bytes at most DECODE_MOST_BYTES; scale is (DECODE_BLOCK). EXACT. */
    void (*scores)(float *out, size_t ld_out, const uint8_t *codes, const float *scale, size_t bytes,
                   const struct decode_query *query, size_t queries);

    /* sums[i] = the sum of min(x[j], bound) over the DECODE_PART numbers of part i; x has parts * DECODE_PART
       numbers. TOLERANT. */
    void (*part_sums)(float *sums, const float *x, size_t parts, float bound);
};

#endif
