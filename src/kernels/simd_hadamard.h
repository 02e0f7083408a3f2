/* Hash codes by fast Hadamard transforms. A lane holds one token (of floats) or two (of 16-bit numbers), so
   every addition of a butterfly is an addition of whole vectors, and signs and scales are the same in all
   lanes. The numbers of a block of tokens stay in the first-level cache (4 KiB of rows and 4 KiB of work
   memory at 64 coordinates) and pass through registers eight at a time, three stages each. The last group of
   a round and the first of the next are the same eight numbers, so three rounds of six stages take four
   passes. The third round computes only the rows that are used: 32 of 64 halve it. Results become bits of
   codes in registers.

   Cost, 64 coordinates, 32 hashes of 9 bits: 9 (2 (64 + 384) + 64 + 192 + 64) = 11,000 vector operations for
   32 tokens with AVX-512 (16 with AVX2) in 16 bits, for half as many tokens in float32. Measured on Zen 5, in
   16 bits: 0.49 of the time of the product by vpdpwssd, 0.42 of that without, 0.40 with AVX2, at 2.5
   operations per cycle; in float32 0.48 of the time of the product. Half of the float32 additions are written
   as multiply-adds with 1, which are also exact: if additions and products have separate units, both work,
   which saves a tenth of the time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_HADAMARD_H
#define KERNELS_SIMD_HADAMARD_H

#include <string.h>

#include "kernels/simd_hash.h"
#include "kernels/simd_math.h"
#include "kernels/slots_hash.h"

enum { EIGHT = 8 }; /* numbers in registers at a time */

/* The factors of a pass: one word per number, or one for all; 0: none. */
struct hadamard_scale {
    const uint32_t *each;
    uint32_t all;
};

/* The numbers of a pass. */
struct hadamard_pass {
    uint32_t *to; /* (.., VLEN) */
    const uint32_t *from;
    size_t width, step; /* total numbers, and the distance between those of one group */
    struct hadamard_scale scale;
};

INLINE vu hadamard_signed(const enum hash_projection projection, vu a, uint32_t sign)
{
    return projection == HASH_F32 ? u_xor(a, u_set(sign)) : u_scale_halves(a, u_set(sign));
}

INLINE vu hadamard_sum(const enum hash_projection projection, vu a, vu b)
{
    return projection == HASH_F32 ? u_from(v_add(v_from(a), v_from(b))) : u_add_halves(a, b);
}

INLINE vu hadamard_difference(const enum hash_projection projection, vu a, vu b, vf one)
{
    return projection == HASH_F32 ? u_from(v_fnma(v_from(b), one, v_from(a))) : u_sub_halves(a, b);
}

/* A stage of `count` numbers, pairs `half` apart; `sums_only` skips the differences. */
INLINE void hadamard_stage(const enum hash_projection projection, vu r[EIGHT], const size_t count,
                           const size_t half, const bool sums_only, vf one)
{
    UNROLLED
    for (size_t i = 0; i < EIGHT; i++) {
        if (i >= count || i & half || i + half >= count)
            continue;
        vu a = r[i], b = r[i + half];
        r[i] = hadamard_sum(projection, a, b);
        if (!sums_only)
            r[i + half] = hadamard_difference(projection, a, b, one);
    }
}

/* All stages of `count` numbers, from the widest down; computes only the first `keep` results. */
INLINE void hadamard_down(const enum hash_projection projection, vu r[EIGHT], const size_t count,
                          const size_t keep, vf one)
{
    if (count > 4)
        hadamard_stage(projection, r, count, 4, keep <= 4, one);
    if (count > 2)
        hadamard_stage(projection, r, keep <= 4 && count > 4 ? 4 : count, 2, keep <= 2, one);
    hadamard_stage(projection, r, keep <= 2 ? 2 : keep <= 4 && count > 4 ? 4 : count, 1, keep <= 1, one);
}

/* The same from the narrowest up. */
INLINE void hadamard_up(const enum hash_projection projection, vu r[EIGHT], const size_t count, vf one)
{
    hadamard_stage(projection, r, count, 1, false, one);
    if (count > 2)
        hadamard_stage(projection, r, count, 2, false, one);
    if (count > 4)
        hadamard_stage(projection, r, count, 4, false, one);
}

INLINE void hadamard_load(const enum hash_projection projection, vu r[EIGHT], const size_t count,
                          const size_t step, const struct hadamard_pass *pass, size_t at)
{
    UNROLLED
    for (size_t i = 0; i < EIGHT; i++)
        if (i < count)
            r[i] = u_load(pass->from + (at + i * step) * VLEN);
    if (pass->scale.each != NULL) {
        UNROLLED
        for (size_t i = 0; i < EIGHT; i++)
            if (i < count)
                r[i] = hadamard_signed(projection, r[i], pass->scale.each[at + i * step]);
    } else if (pass->scale.all != 0) {
        UNROLLED
        for (size_t i = 0; i < EIGHT; i++)
            if (i < count)
                r[i] = hadamard_signed(projection, r[i], pass->scale.all);
    }
}

INLINE void hadamard_store(const vu r[EIGHT], const size_t count, const size_t step,
                           const struct hadamard_pass *pass, size_t at)
{
    UNROLLED
    for (size_t i = 0; i < EIGHT; i++)
        if (i < count)
            u_store(pass->to + (at + i * step) * VLEN, r[i]);
}

/* The stages of one pass. */
enum hadamard_way { DOWN, UP, DOWN_SIGN_UP, UP_SIGN_DOWN };

INLINE void hadamard_run(const enum hash_projection projection, const enum hadamard_way way,
                         const size_t count, const size_t keep, const size_t step,
                         const struct hadamard_pass *pass, const uint32_t *signs)
{
    vu r[EIGHT];
    vf one = v_set(1.0f);
    for (size_t first = 0; first < pass->width; first += count * step)
        for (size_t at = first; at < first + step; at++) {
            hadamard_load(projection, r, count, step, pass, at);
            if (way == DOWN || way == DOWN_SIGN_UP)
                hadamard_down(projection, r, count, count, one);
            else
                hadamard_up(projection, r, count, one);
            if (way == DOWN_SIGN_UP || way == UP_SIGN_DOWN) {
                UNROLLED
                for (size_t i = 0; i < EIGHT; i++)
                    if (i < count)
                        r[i] = hadamard_signed(projection, r[i], signs[at + i * step]);
            }
            if (way == DOWN_SIGN_UP)
                hadamard_up(projection, r, count, one);
            if (way == UP_SIGN_DOWN)
                hadamard_down(projection, r, count, keep, one);
            hadamard_store(r, keep, step, pass, at);
        }
}

/* The widest group: 2, 4 or 8 numbers. Used by the first pass and from round 2 to round 3. */
INLINE void hadamard_widest(const enum hash_projection projection, const size_t count, size_t keep,
                            const size_t step, const struct hadamard_pass *pass, const uint32_t *signs)
{
    if (signs == NULL)
        hadamard_run(projection, DOWN, count, count, step, pass, NULL);
    else if (keep > 4)
        hadamard_run(projection, UP_SIGN_DOWN, count, count, step, pass, signs);
    else if (keep > 2)
        hadamard_run(projection, UP_SIGN_DOWN, count, count < 4 ? count : 4, step, pass, signs);
    else if (keep > 1)
        hadamard_run(projection, UP_SIGN_DOWN, count, 2, step, pass, signs);
    else
        hadamard_run(projection, UP_SIGN_DOWN, count, 1, step, pass, signs);
}

/* Up to 64 numbers the step is a constant, which saves an address computation per number. */
INLINE void hadamard_wide(const enum hash_projection projection, const struct hadamard_pass *pass,
                          size_t keep, const uint32_t *signs)
{
    size_t count = pass->width / pass->step, step = pass->step;
    if (count == 8 && step == EIGHT)
        hadamard_widest(projection, 8, keep, EIGHT, pass, signs);
    else if (count == 8)
        hadamard_widest(projection, 8, keep, step, pass, signs);
    else if (count == 4)
        hadamard_widest(projection, 4, keep, step, pass, signs);
    else
        hadamard_widest(projection, 2, keep, step, pass, signs);
}

/* Destination of the bits of a block. */
struct hadamard_codes {
    uint32_t *codes; /* (hashes, VLEN) words; 16-bit numbers with more than 16 bits: (2, hashes, VLEN) */
    size_t hashes;
    size_t rows, first_bit, bits; /* of the block: row i is bit first_bit + i % bits of hash i / bits */
};

/* Sets bit `bit` of the word at `codes` from the sign of sum. */
INLINE void hadamard_bit(const enum hash_projection projection, uint32_t *codes, size_t bit, vu sum)
{
    if (projection == HASH_F32)
        v_code_bit(codes, v_from(sum), (uint32_t)1 << bit);
    else
        u_store(codes, u_code_halves(u_load(codes), sum, (uint16_t)(1u << bit)));
}

/* The words that hold bit `bit`; reduces *bit to its position in them. */
INLINE uint32_t *hadamard_words(const enum hash_projection projection, const struct hadamard_codes *to,
                                size_t *bit)
{
    size_t above = projection == HASH_F32 ? 0 : *bit / 16;
    *bit -= 16 * above;
    return to->codes + above * to->hashes * VLEN;
}

/* The last pass of the last round. */
INLINE void hadamard_last(const enum hash_projection projection, const struct hadamard_pass *pass,
                          const struct hadamard_codes *to)
{
    vu r[EIGHT];
    vf one = v_set(1.0f);
    size_t bit = to->first_bit, row = 0;
    uint32_t *words = hadamard_words(projection, to, &bit);
    for (; row < to->rows; row += EIGHT) {
        hadamard_load(projection, r, EIGHT, 1, pass, row);
        hadamard_down(projection, r, EIGHT, EIGHT, one);
        if (to->bits == 1 && row + EIGHT <= to->rows) {
            UNROLLED
            for (size_t i = 0; i < EIGHT; i++)
                hadamard_bit(projection, words + (row + i) * VLEN, bit, r[i]);
            continue;
        }
        UNROLLED
        for (size_t i = 0; i < EIGHT; i++)
            if (row + i < to->rows) {
                size_t hash = (row + i) / to->bits, at = to->first_bit + (row + i) % to->bits;
                uint32_t *first = hadamard_words(projection, to, &at);
                hadamard_bit(projection, first + hash * VLEN, at, r[i]);
            }
    }
}

/* The bits of one block H D3 H D2 H D1 for the tokens in x (width, VLEN). signs (3, width). */
INLINE void hadamard_block(const enum hash_projection projection, const struct hadamard *planes,
                           const uint32_t *signs, const uint32_t *x, uint32_t *work,
                           const struct hadamard_codes *to)
{
    const size_t width = (size_t)1 << planes->stages;
    size_t widest = 1; /* step of the widest group */
    while (widest * EIGHT < width)
        widest *= EIGHT;
    const struct hadamard_scale scale = {NULL, planes->scale}, widest_scale = {NULL, planes->widest_scale};
    struct hadamard_pass pass = {work, x, width, widest, {signs, 0}};
    hadamard_wide(projection, &pass, width, NULL);
    pass.from = work;
    pass.scale = scale;
    for (size_t step = widest / EIGHT; step > 1; step /= EIGHT)
        hadamard_run(projection, DOWN, EIGHT, EIGHT, step, &pass, NULL);
    hadamard_run(projection, DOWN_SIGN_UP, EIGHT, EIGHT, 1, &pass, signs + width);
    for (size_t step = EIGHT; step < widest; step *= EIGHT)
        hadamard_run(projection, UP, EIGHT, EIGHT, step, &pass, NULL);
    pass.scale = widest_scale;
    size_t keep = (to->rows + widest - 1) / widest;
    hadamard_wide(projection, &pass, keep, signs + 2 * width);
    pass.scale = scale;
    pass.width = keep * widest;
    for (size_t step = widest / EIGHT; step > 1; step /= EIGHT)
        hadamard_run(projection, DOWN, EIGHT, EIGHT, step, &pass, NULL);
    hadamard_last(projection, &pass, to);
}

/* Transposes the rows of `tokens` tokens, at most VLEN of floats or 2 VLEN of 16-bit numbers: x[c] has
   coordinate c of all of them. Lanes without a token repeat the last one. */
INLINE void hadamard_columns(const enum hash_projection projection, const struct hadamard *planes,
                             uint32_t *x, const uint32_t *rows, size_t ld, size_t tokens)
{
    const bool halves = projection != HASH_F32;
    size_t words = halves ? (planes->dim + 1) / 2 : planes->dim;
    vf low[VLEN], high[VLEN];
    for (size_t first = 0; first < words; first += VLEN) {
        for (size_t l = 0; l < VLEN; l++) {
            size_t last = tokens - 1, second = l + VLEN < last ? l + VLEN : last;
            const float *at = (const float *)(const void *)(rows + (l < last ? l : last) * ld + first);
            low[l] = v_get(at, words - first);
            if (halves)
                high[l] = v_get((const float *)(const void *)(rows + second * ld + first), words - first);
        }
        v_transpose(low);
        if (halves)
            v_transpose(high);
        for (size_t l = 0; l < VLEN && first + l < words; l++) {
            vu a = u_from(low[l]), b;
            if (!halves) {
                u_store(x + planes->place[first + l] * VLEN, a);
                continue;
            }
            size_t c = 2 * (first + l);
            b = u_from(high[l]);
            u_store(x + planes->place[c] * VLEN, u_or(u_and(a, u_set(0xffff)), u_left(b, 16)));
            if (c + 1 < planes->dim)
                u_store(x + planes->place[c + 1] * VLEN, u_or(u_right(a, 16), u_and(b, u_set(0xffff0000u))));
        }
    }
}

/* Writes the codes of one group of hashes from their words. */
INLINE void hadamard_give(const enum hash_projection projection, void *codes, bool wide, size_t num_hashes,
                          const uint32_t *words, size_t hashes, size_t tokens)
{
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    for (size_t hash = 0; hash < hashes; hash += VLEN) {
        vf first[VLEN], second[VLEN];
        size_t count = hashes - hash < VLEN ? hashes - hash : VLEN;
        for (size_t l = 0; l < VLEN; l++) {
            const uint32_t *word = words + (hash + (l < count ? l : 0)) * VLEN;
            vu bits = u_load(word), more = u_set(0);
            first[l] = second[l] = v_from(bits);
            if (projection == HASH_F32)
                continue;
            if (wide)
                more = u_load(word + hashes * VLEN);
            first[l] = v_from(u_or(u_and(bits, u_set(0xffff)), u_left(more, 16)));
            second[l] = v_from(u_or(u_right(bits, 16), u_and(more, u_set(0xffff0000u))));
        }
        char *to = (char *)codes + hash * size;
        hash_rows(to, wide, num_hashes, first, count, tokens < VLEN ? tokens : VLEN);
        if (projection != HASH_F32 && tokens > VLEN)
            hash_rows(to + VLEN * num_hashes * size, wide, num_hashes, second, count, tokens - VLEN);
    }
}

/* All rows, one vector of tokens at a time. */
INLINE void hadamard_all(const enum hash_projection projection, void *codes, bool wide, const uint32_t *rows,
                         size_t ld, size_t n, const struct hadamard *planes, uint32_t *work)
{
    const size_t at_once = projection == HASH_F32 ? VLEN : 2 * VLEN, width = (size_t)1 << planes->stages;
    const size_t blocks = planes->hash_bits / planes->bits_of_block, most = width / planes->bits_of_block;
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    uint32_t *x = work, *space = x + width * VLEN, *words = space + width * VLEN;
    memset(x, 0, width * VLEN * sizeof *x);
    for (size_t first = 0; first < n; first += at_once) {
        size_t tokens = n - first < at_once ? n - first : at_once;
        hadamard_columns(projection, planes, x, rows + first * ld, ld, tokens);
        const uint32_t *signs = planes->signs;
        for (size_t hash = 0; hash < planes->num_hashes; hash += most) {
            size_t hashes = planes->num_hashes - hash < most ? planes->num_hashes - hash : most;
            struct hadamard_codes to = {words, hashes, hashes * planes->bits_of_block, 0,
                                        planes->bits_of_block};
            memset(words, 0, (projection != HASH_F32 && wide ? 2 : 1) * hashes * VLEN * sizeof *words);
            for (; to.first_bit < blocks; to.first_bit++, signs += 3 * width)
                hadamard_block(projection, planes, signs, x, space, &to);
            hadamard_give(projection, (char *)codes + (first * planes->num_hashes + hash) * size, wide,
                          planes->num_hashes, words, hashes, tokens);
        }
    }
}

NOT_INLINED void hadamard_codes_f32(void *codes, bool wide, const void *rows, size_t ld, size_t n,
                                    const struct hadamard *planes, uint32_t *work)
{
    hadamard_all(HASH_F32, codes, wide, rows, ld, n, planes, work);
}

static void hash_codes_hadamard(void *codes, bool wide, enum hash_projection projection, const void *rows,
                                size_t ld, size_t n, const struct hadamard *planes, uint32_t *work)
{
    if (projection == HASH_F32)
        hadamard_codes_f32(codes, wide, rows, ld, n, planes, work);
    else
        hadamard_all(HASH_INT16_DP, codes, wide, rows, ld, n, planes, work);
}

#define SIMD_HADAMARD .hash.codes_hadamard = hash_codes_hadamard

#endif
