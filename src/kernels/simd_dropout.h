/* Dropout with its own Philox4x32-10 (Salmon et al. 2011), VLEN blocks side by side: a lane holds the four
   words of a block. Ten rounds cost about 80 operations for 8 VLEN draws. The rounds are the algorithm's
   published constants; the test compares every draw with base/random.h. SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_SIMD_DROPOUT_H
#define KERNELS_SIMD_DROPOUT_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/simd_math.h"

enum { DROPOUT_DRAWS = 8 * VLEN, PHILOX_ROUNDS = 10 };

/* draws: the words of blocks first .. first + VLEN - 1 of the key, in order. */
INLINE void philox_draws(uint16_t draws[DROPOUT_DRAWS], uint64_t key, uint64_t first)
{
    uint32_t low[VLEN], high[VLEN], words[4 * VLEN];
    for (uint32_t i = 0; i < VLEN; i++) {
        low[i] = (uint32_t)(first + i);
        high[i] = (uint32_t)((first + i) >> 32);
    }
    vu a = u_load(low), b = u_load(high), c = u_set(0), d = u_set(0);
    vu multiply_a = u_set(0xD2511F53u), multiply_c = u_set(0xCD9E8D57u);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    UNROLLED
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        vu high_a, high_c, low_a = u_product(a, multiply_a, &high_a),
                           low_c = u_product(c, multiply_c, &high_c);
        a = u_xor3(high_c, b, u_set(key0));
        b = low_c;
        c = u_xor3(high_a, d, u_set(key1));
        d = low_a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    u_store4(words, a, b, c, d);
    memcpy(draws, words, sizeof words);
}

static void dropout(float *y, const float *residual, const float *x, size_t n, uint64_t key, uint64_t first,
                    unsigned threshold, float scale)
{
    vf zero = v_zero(), scales = v_set(scale);
    for (size_t block = 0; block < n; block += DROPOUT_DRAWS, first += VLEN) {
        uint16_t draws[DROPOUT_DRAWS];
        philox_draws(draws, key, first);
        size_t end = n - block < DROPOUT_DRAWS ? n - block : DROPOUT_DRAWS;
        for (size_t i = 0; i < end; i += VLEN) {
            size_t at = block + i, left = n - at;
            vf kept = v_mul(v_select(u_short_below(draws + i, threshold), zero, scales), v_get(x + at, left));
            v_put(y + at, residual == NULL ? kept : v_add(v_get(residual + at, left), kept), left);
        }
    }
}

#endif
