/* Dropout, alone and with GELU: VLEN blocks of words give 8 VLEN draws of 16 bits. Drawing dominates, so the
   number of independent chains of rounds matters most. Measured on Zen 5 in the first-level cache, ns for 16
   numbers with AVX-512 (AVX2): 5.9 (11.8) with counters stored one by one, one group of blocks, and products
   split into low and high words in every round; 3.5 (8.0) with counters as a sum; 3.4 (7.0) with products
   left in their lanes; 2.3 (5.5) with two groups, 1.85 (4.6) with three, 2.0 (4.9) with four. The test
   compares every draw with base/random.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_DROPOUT_H
#define KERNELS_SIMD_DROPOUT_H

#include <string.h>

#include "kernels/simd_layers.h"
#include "kernels/simd_random.h"
#include "kernels/slots_layers.h"

enum { DROPOUT_GROUPS = 3, DROPOUT_DRAWS = 8 * DROPOUT_GROUPS * VLEN };

/* The draws of the key from block `first` on. */
INLINE void dropout_draw(uint16_t draws[DROPOUT_DRAWS], uint64_t key, uint64_t first)
{
    vu word[4 * DROPOUT_GROUPS];
    uint32_t words[DROPOUT_DRAWS / 2];
    random_blocks(DROPOUT_GROUPS, word, key, first);
    UNROLLED
    for (int g = 0; g < DROPOUT_GROUPS; g++)
        u_store4(words + 4 * g * VLEN, word[4 * g], word[4 * g + 1], word[4 * g + 2], word[4 * g + 3]);
    memcpy(draws, words, sizeof words);
}

/* One vector of `left` numbers. */
INLINE void dropout_part(float *y, const float *residual, const float *x, size_t left, const uint16_t *draws,
                         unsigned threshold, vf scale)
{
    vf kept = v_mul(v_select(u_short_below(draws, threshold), v_zero(), scale), v_get(x, left));
    v_put(y, residual == NULL ? kept : v_add(v_get(residual, left), kept), left);
}

static void layers_dropout(float *y, const float *residual, const float *x, size_t n, uint64_t key,
                           uint64_t first, unsigned threshold, float scale)
{
    vf scales = v_set(scale);
    for (size_t block = 0; block < n; block += DROPOUT_DRAWS, first += DROPOUT_DRAWS / 8) {
        uint16_t draws[DROPOUT_DRAWS];
        dropout_draw(draws, key, first);
        size_t end = n - block < DROPOUT_DRAWS ? n - block : DROPOUT_DRAWS;
        if (end == DROPOUT_DRAWS && residual == NULL) {
            UNROLLED
            for (size_t i = 0; i < DROPOUT_DRAWS; i += VLEN)
                dropout_part(y + block + i, NULL, x + block + i, VLEN, draws + i, threshold, scales);
            continue;
        }
        for (size_t i = 0; i < end; i += VLEN)
            dropout_part(y + block + i, residual == NULL ? NULL : residual + block + i, x + block + i,
                         end - i, draws + i, threshold, scales);
    }
}

/* Value and slope share one tail of the normal distribution and one draw. */
static void layers_gelu_again(float *y, float *slope, const float *x, size_t n, uint64_t key, uint64_t first,
                              unsigned threshold, float scale)
{
    vf scales = v_set(scale);
    for (size_t block = 0; block < n; block += DROPOUT_DRAWS, first += DROPOUT_DRAWS / 8) {
        uint16_t draws[DROPOUT_DRAWS];
        if (threshold > 0)
            dropout_draw(draws, key, first);
        size_t end = n - block < DROPOUT_DRAWS ? n - block : DROPOUT_DRAWS;
        for (size_t i = 0; i < end; i += VLEN) {
            size_t at = block + i, left = end - i;
            vf each = v_get(x + at, left), density, tail = v_normal_tail(v_abs(each), &density);
            vf value = gelu_value(each, tail), steep = gelu_slope(each, tail, density);
            if (threshold > 0) {
                vf factor = v_select(u_short_below(draws + i, threshold), v_zero(), scales);
                value = v_mul(factor, value);
                steep = v_mul(factor, steep);
            }
            v_put(y + at, value, left);
            v_put(slope + at, steep, left);
        }
    }
}

#define SIMD_DROPOUT .layers.dropout = layers_dropout, .layers.gelu_again = layers_gelu_again

#endif
