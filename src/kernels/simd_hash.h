/* Unit length and hash codes. The projection is a register-blocked product whose results are never stored: a
   block of tokens times a block of planes of one group of hashes, one hash per lane, with sums in coordinate
   order as the contract requires; the signs become bits of the codes in registers. The planes of a block stay
   in the first-level cache while HASH_CHUNK tokens pass. Measured on Zen 5: 94 to 98 % of a loop of
   multiply-adds in registers for 4 to 12 bits (n 4096, dim 64, 32 hashes), 89 to 100 % with AVX2. Pairs of 16
   bits take half of that time with one instruction per pair, 0.6 with two. Groups of four 8-bit numbers take
   a third with one instruction, otherwise 0.8.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_HASH_H
#define KERNELS_SIMD_HASH_H

#include <math.h>
#include <string.h>

#include "kernels/simd_math.h"
#include "kernels/slots_hash.h"

enum {
    HASH_PLANES = 3, /* the usual 9 bits are three blocks of three */
    HASH_TOKENS = BLOCK_ROWS * BLOCK_VECTORS / HASH_PLANES,
    HASH_CHUNK = 64 /* a multiple of HASH_TOKENS: 16 KiB of rows at dim 64 plus 12 KiB of planes */
};

#define TINY_NORM 1e-12f
/* Outside these bounds a sum of squares may have lost terms to float's range. */
#define SQUARES_LEAST 1e-25f
#define SQUARES_MOST  1e37f

/* |x|, recomputed in double if the squares leave float's range. */
static float row_norm(const float *x, size_t dim)
{
    vf sum = v_zero();
    for (size_t c = 0; c < dim; c += VLEN) {
        vf part = v_get(x + c, dim - c);
        sum = v_fma(part, part, sum);
    }
    float squares = v_sum(sum);
    if (squares > SQUARES_LEAST && squares < SQUARES_MOST)
        return sqrtf(squares);
    double wide = 0;
    for (size_t c = 0; c < dim; c++)
        wide += (double)x[c] * (double)x[c];
    return (float)sqrt(wide);
}

static void hash_unit(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n,
                      size_t dim, const uint32_t *permutation, const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *from = x + i * ld_x;
        float *to = out + i * ld_out;
        norm[i] = row_norm(from, dim);
        vf length = v_set(norm[i] > TINY_NORM ? norm[i] : TINY_NORM);
        for (size_t c = 0; c < dim; c += VLEN) {
            size_t left = dim - c;
            vf permuted = v_get(from + c, left);
            if (permutation != NULL) {
                if (left >= VLEN) {
                    permuted = v_gather(from, permutation + c);
                } else {
                    float lanes[VLEN];
                    for (size_t l = 0; l < left; l++)
                        lanes[l] = from[permutation[c + l]];
                    permuted = v_load_part(lanes, left, v_zero());
                }
            }
            if (sign != NULL)
                permuted = v_mul(permuted, v_get(sign + c, left));
            v_put(to + c, v_div(permuted, length), left);
        }
        for (size_t c = dim; c < ld_out; c++)
            to[c] = 0;
    }
}

static void hash_unit_backward(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                               const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                               const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *u = unit + i * ld_unit, *g = du + i * ld_unit;
        float *to = dx + i * ld_dx;
        if (norm[i] < TINY_NORM)
            continue;
        vf sum = v_zero(), length = v_set(norm[i]);
        for (size_t c = 0; c < dim; c += VLEN)
            sum = v_fma(v_get(u + c, dim - c), v_get(g + c, dim - c), sum);
        vf dot = v_set(v_sum(sum));
        for (size_t c = 0; c < dim; c += VLEN) {
            size_t left = dim - c < VLEN ? dim - c : VLEN;
            vf d = v_div(v_fnma(v_get(u + c, left), dot, v_get(g + c, left)), length);
            if (sign != NULL)
                d = v_mul(d, v_get(sign + c, left));
            if (permutation == NULL) {
                v_put(to + c, v_add(v_get(to + c, left), d), left);
                continue;
            }
            float lanes[VLEN];
            v_store(lanes, d);
            for (size_t l = 0; l < left; l++)
                to[permutation[c + l]] += lanes[l];
        }
    }
}

/* A sum per lane, of floats or of integers. (One vector reinterpreted as either costs a move per step.) */
struct hash_sum {
    vf real;
    vu whole;
};

/* sum += the products of a word of a row and a word of a plane: one coordinate, two halves or four bytes. */
INLINE void hash_step(const enum hash_projection projection, struct hash_sum *sum, vu each, vu right)
{
    if (projection == HASH_INT16_DP)
        sum->whole = u_dot_halves(sum->whole, each, right);
    else if (projection == HASH_INT8_DP)
        sum->whole = u_dot_bytes(sum->whole, each, right);
    else if (projection == HASH_BF16_DP)
        sum->real = v_dot2_flushed(each, right, sum->real);
    else
        sum->real = v_fma(v_from(each), v_from(right), sum->real);
}

/* Broadcasts the 32 bits at p + 4 c. */
INLINE vu hash_word(const void *p, size_t c)
{
    uint32_t word;
    memcpy(&word, (const char *)p + c * sizeof word, sizeof word);
    return u_set(word);
}

/* The sums of VLEN lanes of a block of planes for HASH_TOKENS tokens. Rows and planes have `words` words of
   32 bits; planes of bytes have one more, the start of the sums. */
INLINE void hash_sums(const enum hash_projection projection, const size_t planes,
                      struct hash_sum sum[HASH_TOKENS][HASH_PLANES], const void *const x[HASH_TOKENS],
                      const uint32_t *plane, size_t plane_step, size_t words)
{
    vu right[HASH_PLANES];
    UNROLLED
    for (size_t t = 0; t < HASH_TOKENS; t++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++)
            sum[t][p] = (struct hash_sum){v_zero(), projection == HASH_INT8_DP
                                                        ? u_load(plane + p * plane_step + words * HASH_LANES)
                                                        : u_set(0)};
    }
    for (size_t c = 0; c < words; c++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++)
            right[p] = u_load(plane + p * plane_step + c * HASH_LANES);
        UNROLLED
        for (size_t t = 0; t < HASH_TOKENS; t++) {
            vu each = hash_word(x[t], c);
            UNROLLED
            for (size_t p = 0; p < planes; p++)
                hash_step(projection, &sum[t][p], each, right[p]);
        }
    }
}

/* What the signs of a chunk of tokens become. */
enum hash_form {
    HASH_CODES, /* bits of codes (HASH_CHUNK, HASH_LANES), uint32_t: a plane's lanes are hashes, planes bits
                 */
    HASH_SIGNS  /* rows of signs (planes, HASH_CHUNK), uint16_t: bit l is lane l */
};

/* Planes [first, first + planes) of a chunk, VLEN lanes from `lane` on, for HASH_TOKENS tokens from `token`
   on. */
INLINE void hash_block(const enum hash_projection projection, const enum hash_form form, const size_t planes,
                       void *out, size_t token, size_t lane, size_t first, const void *const x[HASH_TOKENS],
                       const uint32_t *plane, size_t plane_step, size_t words)
{
    const bool whole = projection == HASH_INT16_DP || projection == HASH_INT8_DP;
    struct hash_sum sum[HASH_TOKENS][HASH_PLANES];
    hash_sums(projection, planes, sum, x, plane, plane_step, words);
    UNROLLED
    for (size_t t = 0; t < HASH_TOKENS; t++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++) {
            uint32_t value = (uint32_t)1 << (first + p);
            uint32_t *codes = (uint32_t *)out + (token + t) * HASH_LANES + lane;
            if (form == HASH_SIGNS) {
                uint16_t *signs = (uint16_t *)out + (first + p) * HASH_CHUNK + token + t;
                unsigned bits =
                    whole ? u_positive(sum[t][p].whole) : v_bits(v_less(v_zero(), sum[t][p].real));
                memcpy((char *)signs + lane / 8, &bits, VLEN / 8); /* little-endian */
            } else if (whole) {
                u_code_bit(codes, sum[t][p].whole, value);
            } else {
                v_code_bit(codes, sum[t][p].real, value);
            }
        }
    }
}

/* The products of up to HASH_CHUNK tokens with `count` planes of HASH_LANES lanes. */
INLINE void hash_chunk(const enum hash_projection projection, const enum hash_form form, void *out,
                       const uint32_t *x, size_t ld_x, size_t tokens, size_t words, const uint32_t *planes,
                       size_t plane_step, size_t count)
{
    memset(out, 0,
           form == HASH_SIGNS ? count * HASH_CHUNK * sizeof(uint16_t)
                              : HASH_CHUNK * HASH_LANES * sizeof(uint32_t));
    size_t at = 0;
    while (at < count) {
        /* Splits the last 4 planes into 2 + 2: a block of one plane has too few sums to hide the latency. */
        size_t left = count - at, some = left == 4 ? 2 : left < HASH_PLANES ? left : HASH_PLANES;
        for (size_t first = 0; first < tokens; first += HASH_TOKENS) {
            /* Missing tokens repeat the last one; their codes are not used. */
            const void *row[HASH_TOKENS];
            for (size_t t = 0; t < HASH_TOKENS; t++)
                row[t] = x + (first + t < tokens ? first + t : tokens - 1) * ld_x;
            for (size_t lane = 0; lane < HASH_LANES; lane += VLEN) {
                const uint32_t *plane = planes + at * plane_step + lane;
                if (some == 3)
                    hash_block(projection, form, 3, out, first, lane, at, row, plane, plane_step, words);
                else if (some == 2)
                    hash_block(projection, form, 2, out, first, lane, at, row, plane, plane_step, words);
                else
                    hash_block(projection, form, 1, out, first, lane, at, row, plane, plane_step, words);
            }
        }
        at += some;
    }
}

/* Transposes columns of codes (hashes, VLEN) to rows of `tokens` <= VLEN tokens. */
INLINE void hash_rows(void *codes, bool wide, size_t num_hashes, vf column[VLEN], size_t hashes,
                      size_t tokens)
{
    v_transpose(column);
    for (size_t t = 0; t < tokens; t++)
        if (wide)
            v_put((float *)codes + t * num_hashes, column[t], hashes);
        else
            u_put_shorts((uint16_t *)codes + t * num_hashes, u_from(column[t]), hashes);
}

INLINE void hash_all(const enum hash_projection projection, void *codes, bool wide, const uint32_t *x,
                     size_t ld_x, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                     size_t hash_bits)
{
    uint32_t block[HASH_CHUNK][HASH_LANES];
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    size_t plane_words = words + (projection == HASH_INT8_DP);
    for (size_t first = 0; first < n; first += HASH_CHUNK) {
        size_t tokens = n - first < HASH_CHUNK ? n - first : HASH_CHUNK;
        for (size_t hash = 0; hash < num_hashes; hash += HASH_LANES) {
            size_t lanes = num_hashes - hash < HASH_LANES ? num_hashes - hash : HASH_LANES;
            hash_chunk(projection, HASH_CODES, block, x + first * ld_x, ld_x, tokens, words,
                       planes + hash * plane_words, groups * plane_words * HASH_LANES, hash_bits);
            for (size_t t = 0; t < tokens; t++) {
                size_t at = (first + t) * num_hashes + hash;
                if (wide)
                    for (size_t h = 0; h < lanes; h++)
                        ((uint32_t *)codes)[at + h] = block[t][h];
                else
                    for (size_t h = 0; h < lanes; h++)
                        ((uint16_t *)codes)[at + h] = (uint16_t)block[t][h];
            }
        }
    }
}

/* Only hash_word and vector loads read the floats, as words. */
static void hash_codes(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                       const float *planes, size_t num_hashes, size_t hash_bits)
{
    hash_all(HASH_F32, codes, wide, (const uint32_t *)(const void *)x, ld_x, n, dim,
             (const uint32_t *)(const void *)planes, num_hashes, hash_bits);
}

NOT_INLINED void hash_codes_bf16(void *codes, bool wide, const uint32_t *rows, size_t ld, size_t n,
                                 size_t words, const uint32_t *planes, size_t num_hashes, size_t hash_bits)
{
    hash_all(HASH_BF16_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
}

static void hash_codes_dp(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows,
                          size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                          size_t hash_bits)
{
    if (projection == HASH_INT16_DP) {
        hash_all(HASH_INT16_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
        return;
    }
    if (projection == HASH_INT8_DP) {
        hash_all(HASH_INT8_DP, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
        return;
    }
    unsigned before = v_flush();
    hash_codes_bf16(codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    v_flush_end(before);
}

#define SIMD_HASH .hash.codes = hash_codes

#endif
