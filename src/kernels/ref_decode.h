/* The slots of stage decode as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_DECODE_H
#define KERNELS_REF_DECODE_H

#include <math.h>

#include "kernels/slots_decode.h"

static void decode_scores(float *out, size_t ld_out, const uint8_t *codes, const float *scale, size_t bytes,
                          const struct decode_query *query, size_t queries)
{
    for (size_t i = 0; i < queries; i++)
        for (size_t r = 0; r < DECODE_BLOCK; r++) {
            unsigned sum = 0;
            for (size_t b = 0; b < bytes; b++) {
                uint8_t code = codes[b * DECODE_BLOCK + decode_place(r)];
                sum += query[i].tables[32 * b + (code & 15)];
                sum += query[i].tables[32 * b + 16 + (code >> 4)];
            }
            float dot = fmaf(query[i].step, (float)sum, query[i].least);
            out[i * ld_out + r] = fmaf(scale[r], dot, query[i].base);
        }
}

static void decode_part_sums(float *sums, const float *x, size_t parts, float bound)
{
    for (size_t i = 0; i < parts; i++) {
        double sum = 0;
        for (size_t j = 0; j < DECODE_PART; j++)
            sum += (double)fminf(x[i * DECODE_PART + j], bound);
        sums[i] = (float)sum;
    }
}

#define REF_DECODE .decode.scores = decode_scores, .decode.part_sums = decode_part_sums

#endif
