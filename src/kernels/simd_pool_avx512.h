/* Slot hash.pooled_codes for AVX-512. The codes of a pool of at most 32 hashes of at most 16 bits fill one
   register, and vpermw takes any 32 of them, so a vector of hashes may run over several c and no lane is
   unused. Unaligned loads, as in simd_pool.h, cross a cache line nearly always. The indices of the next bit
   are those of this bit plus c, minus r if that is r or more. 0.33 of the time of simd_pool.h on Zen 4 (m 64,
   r 17, 9 bits), 0.90 of that of hashing. Larger pools and codes of 32 bits take simd_pool.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_POOL_AVX512_H
#define KERNELS_SIMD_POOL_AVX512_H

#include "kernels/simd_pool.h"

enum { POOLED_LANES = 32, POOLED_SHORT_BITS = 16 };

/* The pool hashes that 32 hashes from `first` on read each bit from. */
static void pooled_indices(__m512i index[POOLED_SHORT_BITS], size_t first, size_t r, size_t hash_bits)
{
    uint16_t a[POOLED_LANES], c[POOLED_LANES];
    size_t row = first / r, at = first % r;
    for (size_t l = 0; l < POOLED_LANES; l++) {
        a[l] = (uint16_t)at;
        c[l] = (uint16_t)(row % r);
        at++;
        row += at == r;
        at = at == r ? 0 : at;
    }
    __m512i next = _mm512_loadu_si512(a), step = _mm512_loadu_si512(c), size = _mm512_set1_epi16((short)r);
    for (size_t b = 0; b < hash_bits; b++) {
        index[b] = next;
        next = _mm512_add_epi16(next, step);
        next = _mm512_min_epu16(next, _mm512_sub_epi16(next, size)); /* below r the difference wraps */
    }
}

/* 32 hashes of `tokens` tokens, of which those in `stored` exist. */
INLINE void pooled_permuted(const size_t tokens, uint16_t *codes, size_t num_hashes, const uint16_t *pool,
                            size_t r, const __m512i index[POOLED_SHORT_BITS], size_t hash_bits,
                            __mmask32 stored)
{
    const __mmask32 exist = (__mmask32)(((uint64_t)1 << r) - 1);
    __m512i row[POOLED_TOKENS], code[POOLED_TOKENS], bit = _mm512_set1_epi16(1);
    UNROLLED
    for (size_t t = 0; t < tokens; t++) {
        row[t] = _mm512_maskz_loadu_epi16(exist, pool + t * r);
        code[t] = _mm512_setzero_si512();
    }
    for (size_t b = 0; b < hash_bits; b++) {
        UNROLLED
        for (size_t t = 0; t < tokens; t++) /* code | (permuted & bit) */
            code[t] =
                _mm512_ternarylogic_epi32(code[t], _mm512_permutexvar_epi16(index[b], row[t]), bit, 0xf8);
        bit = _mm512_add_epi16(bit, bit);
    }
    UNROLLED
    for (size_t t = 0; t < tokens; t++)
        _mm512_mask_storeu_epi16(codes + t * num_hashes, stored, code[t]);
}

static void hash_pooled_codes_avx512(void *codes, bool wide, const void *pool, size_t n, size_t r,
                                     size_t num_hashes, size_t hash_bits, uint32_t *work)
{
    if (wide || r > POOLED_LANES) {
        hash_pooled_codes(codes, wide, pool, n, r, num_hashes, hash_bits, work);
        return;
    }
    for (size_t hash = 0; hash < num_hashes; hash += POOLED_LANES) {
        __m512i index[POOLED_SHORT_BITS];
        size_t left = num_hashes - hash, t = 0;
        __mmask32 stored = left < POOLED_LANES ? (__mmask32)(((uint64_t)1 << left) - 1) : UINT32_MAX;
        pooled_indices(index, hash, r, hash_bits);
        uint16_t *to = (uint16_t *)codes + hash;
        const uint16_t *from = pool;
        for (; t + POOLED_TOKENS <= n; t += POOLED_TOKENS)
            pooled_permuted(POOLED_TOKENS, to + t * num_hashes, num_hashes, from + t * r, r, index, hash_bits,
                            stored);
        for (; t < n; t++)
            pooled_permuted(1, to + t * num_hashes, num_hashes, from + t * r, r, index, hash_bits, stored);
    }
}

#endif
