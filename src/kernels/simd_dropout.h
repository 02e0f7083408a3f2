/* Dropout: VLEN blocks of words at a time give 8 VLEN draws of 16 bits. The test compares every draw with
   base/random.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_DROPOUT_H
#define KERNELS_SIMD_DROPOUT_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/simd_random.h"

enum { DROPOUT_DRAWS = 8 * VLEN };

static void dropout(float *y, const float *residual, const float *x, size_t n, uint64_t key, uint64_t first,
                    unsigned threshold, float scale)
{
    vf zero = v_zero(), scales = v_set(scale);
    for (size_t block = 0; block < n; block += DROPOUT_DRAWS, first += VLEN) {
        uint16_t draws[DROPOUT_DRAWS];
        vu word[4];
        uint32_t words[4 * VLEN];
        random_blocks(word, key, first);
        u_store4(words, word[0], word[1], word[2], word[3]);
        memcpy(draws, words, sizeof words);
        size_t end = n - block < DROPOUT_DRAWS ? n - block : DROPOUT_DRAWS;
        for (size_t i = 0; i < end; i += VLEN) {
            size_t at = block + i, left = n - at;
            vf kept = v_mul(v_select(u_short_below(draws + i, threshold), zero, scales), v_get(x + at, left));
            v_put(y + at, residual == NULL ? kept : v_add(v_get(residual + at, left), kept), left);
        }
    }
}

#endif
