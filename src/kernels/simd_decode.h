/* Scores of keys from their codes. A table of 16 bytes fills a quarter of a register, so one shuffle looks
   up a byte of each row of a block at once (Andre, Kermarrec, Le Scouarnec 2015, PQ fast scan). Two entries
   add up in a byte, bytes are then added in 16 bits. A block's rows lie so that the four bytes of a 32-bit
   lane belong to rows 16 apart, and the sums leave as vectors of neighbouring rows. For a query, a byte of
   the code costs two shuffles and seven additions and masks for a register of rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_DECODE_H
#define KERNELS_SIMD_DECODE_H

#include "kernels/simd_math.h"
#include "kernels/slots_decode.h"

/* The sums of one query for the rows whose codes begin at `codes`: four vectors of rows, 16 apart. */
INLINE void decode_lookup(const uint8_t *codes, const uint8_t *tables, size_t bytes, vu sum[4])
{
    vu even = u_set(0), odd = u_set(0), nibble = u_set(0x0f0f0f0f), low = u_set(0x00ff00ff);
    for (size_t b = 0; b < bytes; b++) {
        vu code = u_load((const uint32_t *)(const void *)(codes + b * DECODE_BLOCK));
        vu first = u_lookup16(u_table16(tables + 32 * b), u_and(code, nibble));
        vu second = u_lookup16(u_table16(tables + 32 * b + 16), u_and(u_right(code, 4), nibble));
        vu both = u_add(first, second);
        even = u_add(even, u_and(both, low));
        odd = u_add(odd, u_and(u_right(both, 8), low));
    }
    vu short_low = u_set(0xffff);
    sum[0] = u_and(even, short_low);
    sum[1] = u_and(odd, short_low);
    sum[2] = u_right(even, 16);
    sum[3] = u_right(odd, 16);
}

static void decode_scores(float *out, size_t ld_out, const uint8_t *codes, const float *scale, size_t bytes,
                          const struct decode_query *query, size_t queries)
{
    for (size_t i = 0; i < queries; i++) {
        vf step = v_set(query[i].step), least = v_set(query[i].least), base = v_set(query[i].base);
        for (size_t first = 0; first < 16; first += VLEN) {
            vu sum[4];
            decode_lookup(codes + 4 * first, query[i].tables, bytes, sum);
            UNROLLED
            for (size_t k = 0; k < 4; k++) {
                vf dot = v_fma(step, v_of_whole(sum[k]), least);
                size_t row = 16 * k + first;
                v_store(out + i * ld_out + row, v_fma(v_load(scale + row), dot, base));
            }
        }
    }
}

static void decode_part_sums(float *sums, const float *x, size_t parts, float bound)
{
    vf bounds = v_set(bound);
    for (size_t i = 0; i < parts; i++, x += DECODE_PART) {
        vf sum = v_min(v_load(x), bounds);
        UNROLLED
        for (size_t c = VLEN; c < DECODE_PART; c += VLEN)
            sum = v_add(sum, v_min(v_load(x + c), bounds));
        sums[i] = v_sum(sum);
    }
}

#define SIMD_DECODE .decode.scores = decode_scores, .decode.part_sums = decode_part_sums

#endif
