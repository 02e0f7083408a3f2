/* Codes of hashes that share a pool of planes: the codes of the pool, from planes without unused lanes, and
   the codes gathered from them.

   Projection: 16 hashes of tau bits are tau blocks of 16 planes, so each run of 16 hashes starts with a block
   of its own. A block leaves 16 signs per token; a code is tau adjacent signs. HASH_CHUNK tokens are unpacked
   together, one token per lane, so all shifts are the same in all lanes, and transposed.

   Gathering: hash (a, c) takes bit b from pool hash (a + b c) mod r. For fixed b and c, consecutive a read
   consecutive pool codes, so a vector of hashes is one unaligned load, one AND and one OR per bit. Pool codes
   are stored twice in a row, which replaces the modulus by a start offset, the same for all tokens. Four
   tokens at a time share the offset and the mask.

   Measured on Zen 4, dim 64, 9 bits, in nanoseconds per token, hashing as a whole and hash.pooled_codes
   alone: 64 hashes with planes of their own 345 (AVX2 439); 64 from r 17 117 and 6.6 (AVX2 168 and 21); 128
   from r 31 197 and 14 (AVX2 262 and 23). Products take four fifths of it. Loads that cross a cache line
   limit hash.pooled_codes here; simd_pool_avx512.h has none.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_POOL_H
#define KERNELS_SIMD_POOL_H

#include <string.h>

#include "kernels/simd_hash.h"
#include "kernels/simd_math.h"
#include "kernels/slots_hash.h"

enum { POOLED_TOKENS = 4, MOST_HASH_BITS = 24 };

/* ---- the codes of the pool ----------------------------------------------------------------------------- */

/* The code that starts at bit `at` of the signs of VLEN tokens, one per lane. */
INLINE vf dense_code(uint16_t signs[MOST_HASH_BITS][HASH_CHUNK], size_t at, size_t hash_bits, size_t token)
{
    unsigned shift = at % 16, bits = 16 - shift;
    vu code = u_right(u_widen_shorts(signs[at / 16] + token, VLEN), shift);
    for (size_t block = at / 16 + 1; bits < hash_bits; block++, bits += 16)
        code = u_or(code, u_left(u_widen_shorts(signs[block] + token, VLEN), bits));
    return v_from(u_and(code, u_set(((uint32_t)1 << hash_bits) - 1)));
}

/* Writes the codes of up to HASH_LANES hashes of a chunk. */
INLINE void dense_give(void *codes, bool wide, size_t num_hashes, uint16_t signs[MOST_HASH_BITS][HASH_CHUNK],
                       size_t hashes, size_t hash_bits, size_t tokens)
{
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    for (size_t token = 0; token < tokens; token += VLEN)
        for (size_t hash = 0; hash < hashes; hash += VLEN) {
            size_t count = hashes - hash < VLEN ? hashes - hash : VLEN, left = tokens - token;
            vf column[VLEN];
            for (size_t l = 0; l < VLEN; l++)
                column[l] =
                    l < count ? dense_code(signs, (hash + l) * hash_bits, hash_bits, token) : v_zero();
            hash_rows((char *)codes + (token * num_hashes + hash) * size, wide, num_hashes, column, count,
                      left < VLEN ? left : VLEN);
        }
}

INLINE void dense_all(const enum hash_projection projection, void *codes, bool wide, const uint32_t *rows,
                      size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                      size_t hash_bits)
{
    uint16_t signs[MOST_HASH_BITS][HASH_CHUNK];
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    const size_t block = (words + (projection == HASH_INT8_DP)) * HASH_LANES;
    for (size_t first = 0; first < n; first += HASH_CHUNK) {
        size_t tokens = n - first < HASH_CHUNK ? n - first : HASH_CHUNK;
        for (size_t hash = 0; hash < num_hashes; hash += HASH_LANES) {
            size_t hashes = num_hashes - hash < HASH_LANES ? num_hashes - hash : HASH_LANES;
            hash_chunk(projection, HASH_SIGNS, signs, rows + first * ld, ld, tokens, words,
                       planes + hash / HASH_LANES * hash_bits * block, block,
                       (hashes * hash_bits + HASH_LANES - 1) / HASH_LANES);
            dense_give((char *)codes + (first * num_hashes + hash) * size, wide, num_hashes, signs, hashes,
                       hash_bits, tokens);
        }
    }
}

NOT_INLINED void dense_bf16(void *codes, bool wide, const uint32_t *rows, size_t ld, size_t n, size_t words,
                            const uint32_t *planes, size_t num_hashes, size_t hash_bits)
{
    dense_all(HASH_BF16_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
}

/* Only hash_word and vector loads read floats, as words. */
static void hash_codes_dense(void *codes, bool wide, enum hash_projection projection, const void *rows,
                             size_t ld, size_t n, size_t words, const void *planes, size_t num_hashes,
                             size_t hash_bits)
{
    if (projection == HASH_INT16_DP) {
        dense_all(HASH_INT16_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    } else if (projection == HASH_INT8_DP) {
        dense_all(HASH_INT8_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    } else if (projection == HASH_F32) {
        dense_all(HASH_F32, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    } else {
        unsigned before = v_flush();
        dense_bf16(codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
        v_flush_end(before);
    }
}

/* ---- gathering ----------------------------------------------------------------------------------------- */

/* One vector of hashes of the same c, for a block of tokens. */
struct pooled {
    const char *pool;              /* (tokens, pool_step): pool codes, twice in a row */
    char *codes;                   /* (tokens, code_step) */
    size_t pool_step, code_step;   /* bytes */
    size_t offset[MOST_HASH_BITS]; /* bytes from the first pool code to that of bit b */
    size_t bits;                   /* 1 for c = 0: whole codes are copied */
    size_t count;                  /* codes to store */
};

INLINE void pooled_tokens(const size_t tokens, const bool wide, const struct pooled *s, size_t first)
{
    const size_t lanes = wide ? VLEN : 2 * VLEN;
    const char *pool = s->pool + first * s->pool_step;
    char *codes = s->codes + first * s->code_step;
    vu code[POOLED_TOKENS], mask = u_set(s->bits == 1 ? UINT32_MAX : wide ? 1 : 0x10001);
    UNROLLED
    for (size_t t = 0; t < tokens; t++)
        code[t] = u_set(0);
    for (size_t b = 0; b < s->bits; b++) {
        const char *at = pool + s->offset[b];
        UNROLLED
        for (size_t t = 0; t < tokens; t++) {
            vu bits = u_load((const uint32_t *)(const void *)(at + t * s->pool_step));
            code[t] = u_or(code[t], u_and(bits, mask));
        }
        mask = u_add(mask, mask);
    }
    UNROLLED
    for (size_t t = 0; t < tokens; t++) {
        char *to = codes + t * s->code_step;
        if (s->count == lanes)
            u_store((uint32_t *)(void *)to, code[t]);
        else if (wide)
            v_put((float *)(void *)to, v_from(code[t]), s->count);
        else
            u_put_halves((uint16_t *)(void *)to, code[t], s->count);
    }
}

/* All hashes of up to POOL_ROWS tokens. A vector that ends before the row does is stored whole: its surplus
   lanes are overwritten by the next c. */
INLINE void pooled_block(const bool wide, char *codes, const char *pool, size_t pool_step, size_t tokens,
                         size_t r, size_t num_hashes, size_t hash_bits)
{
    const size_t lanes = wide ? VLEN : 2 * VLEN, size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    struct pooled s = {.pool_step = pool_step, .code_step = num_hashes * size};
    for (size_t c = 0; c * r < num_hashes; c++) {
        size_t hashes = num_hashes - c * r < r ? num_hashes - c * r : r;
        s.bits = c == 0 ? 1 : hash_bits;
        for (size_t b = 0, start = 0; b < s.bits; b++, start = (start + c) % r)
            s.offset[b] = start * size;
        for (size_t a = 0; a < hashes; a += lanes) {
            size_t hash = c * r + a, left = hashes - a, t = 0;
            s.pool = pool + a * size;
            s.codes = codes + hash * size;
            s.count = hash + lanes <= num_hashes ? lanes : left < lanes ? left : lanes;
            for (; t + POOLED_TOKENS <= tokens; t += POOLED_TOKENS)
                pooled_tokens(POOLED_TOKENS, wide, &s, t);
            for (; t < tokens; t++)
                pooled_tokens(1, wide, &s, t);
        }
    }
}

/* Copies a row of `bytes` bytes twice in a row, in whole vectors if `readable` bytes follow `from`. Calls of
   memcpy took a sixth of the slot's time. */
INLINE void pooled_twice(char *to, const char *from, size_t bytes, size_t readable)
{
    const size_t vector = VLEN * sizeof(uint32_t);
    for (size_t copy = 0; copy < 2; copy++, to += bytes) {
        if (readable < bytes + vector) {
            memcpy(to, from, bytes);
            continue;
        }
        for (size_t at = 0; at < bytes; at += vector)
            u_store((uint32_t *)(void *)(to + at), u_load((const uint32_t *)(const void *)(from + at)));
    }
}

static void hash_pooled_codes(void *codes, bool wide, const void *pool, size_t n, size_t r, size_t num_hashes,
                              size_t hash_bits, uint32_t *work)
{
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t), row = r * size;
    const size_t lanes = wide ? VLEN : 2 * VLEN, step = (2 * r + lanes) * size;
    memset(work, 0, POOL_ROWS * step);
    for (size_t first = 0; first < n; first += POOL_ROWS) {
        size_t tokens = n - first < POOL_ROWS ? n - first : POOL_ROWS;
        for (size_t t = 0; t < tokens; t++)
            pooled_twice((char *)work + t * step, (const char *)pool + (first + t) * row, row,
                         (n - first - t) * row);
        char *to = (char *)codes + first * num_hashes * size;
        if (wide)
            pooled_block(true, to, (const char *)work, step, tokens, r, num_hashes, hash_bits);
        else
            pooled_block(false, to, (const char *)work, step, tokens, r, num_hashes, hash_bits);
    }
}

#endif
