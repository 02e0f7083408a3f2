/* Slots hash.codes_dp and hash.codes_dense by tiles of bytes. A 16-bit number is 256 h + l, h signed and l
   unsigned, so a sum of products is (sum hh << 16) + ((sum hl + sum lh) << 8) + sum ll modulo 2^32, and the
   contract says that it fits. Four products of tiles make three tiles of sums for 16 tokens, 16 planes and 64
   coordinates: a block. Which four bytes form a group is free, as long as rows and planes agree, so splitting
   needs no shuffles. Rows of 8-bit numbers take one product and one tile of sums.

   Only memory leads from tiles to vectors. The four products of a block take 17.4 ns and hide all but the
   stores: a store of a tile takes 4.2 ns, in which no other instruction is issued. Then vectors combine the
   sums and shift in a sign, four instructions per token and plane. Measured on a Xeon with AMX beside other
   work, in ns per block: products and stores 22, with signs 32, with splitting 45 at 128 rows per call (as
   callers pass) and 37 at 512. The instructions of avx512bf16 take 82.

   Gains: sums stored behind the products of the next block, because a store waits for its product, take 0.83
   of the time; a multiply-add of pairs for a shift and an addition 0.95; one stream over all tokens in place
   of one per 16 tokens 0.97. No gain: signs three blocks later in place of two. Slower: signs between stores.

   Time relative to avx512bf16, for 32 hashes of 9 bits and 128 rows: int16-dp 0.85 at dim 34, 0.53 at 64,
   0.78 at 72 (padded to 128), 0.55 at 256, 0.76 at 512; dense, dim 64, 0.63; int8-dp 0.38 at dim 64, 1 at 16.
   With twice the tiles, 0.47 and 0.57 at dim 256 and 512, but the work space of 80 KiB is on the stack of
   threads. The roundings of bf16-dp are not those of tiles, so it keeps its body.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_HASH_AMX_H
#define KERNELS_SIMD_HASH_AMX_H

#include <string.h>

#include "kernels/simd_pool.h"
#include "kernels/vec_tiles_amx.h"

enum {
    SPLIT_TILES = 32,     /* tiles of a chunk of rows, and of a run of planes */
    SPLIT_TOKENS = 128,   /* most rows of a chunk; a multiple of HASH_CHUNK */
    SPLIT_LAG = 2,        /* blocks of sums between a product and its signs */
    SPLIT_WORDS = 256,    /* the most words of a row; above, too few rows share a split plane */
    SPLIT_LEAST_ROWS = 32 /* with fewer rows, splitting planes costs more than tiles save */
};

/* One sum for each token (row) and plane (lane): high times high; both mixed products; low times low. */
struct split_sums {
    uint32_t high[TILE_ROWS][HASH_LANES], mixed[TILE_ROWS][HASH_LANES], low[TILE_ROWS][HASH_LANES];
};

struct split {
    /* (tokens / TILE_ROWS, steps, parts) and (run, steps, parts) */
    char rows[SPLIT_TILES * TILE_SIZE], planes[SPLIT_TILES * TILE_SIZE];
    struct split_sums sums[SPLIT_LAG];
    uint32_t starts[MOST_HASH_BITS][HASH_LANES];          /* of HASH_INT8_DP, for each plane of a run */
    uint32_t codes[SPLIT_TOKENS + TILE_ROWS][HASH_LANES]; /* bits of the runs that are done */
    uint16_t signs[SPLIT_TOKENS / HASH_CHUNK][MOST_HASH_BITS][HASH_CHUNK];
    size_t first_plane; /* of the run */
};

/* The codes of up to HASH_LANES hashes of a chunk. */
struct split_codes {
    char *at;
    size_t step; /* bytes from token to token */
    size_t tokens, hashes;
    bool wide;
};

/* ---- splitting ----------------------------------------------------------------------------------------- */

INLINE size_t split_parts(const enum hash_projection projection)
{
    return projection == HASH_INT16_DP ? 2 : 1;
}

/* Words of a row in one step of depth: TILE_BYTES bytes of each part. */
INLINE size_t split_depth(const enum hash_projection projection)
{
    return TILE_ROWS * split_parts(projection);
}

INLINE size_t split_steps(const enum hash_projection projection, size_t words)
{
    return (words + split_depth(projection) - 1) / split_depth(projection);
}

/* The first n lanes, or all of them. */
INLINE __mmask16 split_lanes(size_t n)
{
    return v_first(n < HASH_LANES ? n : HASH_LANES);
}

/* Writes a row of the tile of high bytes and of the tile of low bytes that follows it. A group of four has
   the two bytes of a word of a in places 0 and 2, and those of a word of b in places 1 and 3. */
INLINE void split_put(char *to, vu a, vu b)
{
    const vu even = u_set(0x00ff00ff); /* ? of the first operand : of the second, by 0xca */
    _mm512_store_si512(to, _mm512_ternarylogic_epi32(even, u_right(a, 8), b, 0xca));
    _mm512_store_si512(to + TILE_SIZE, _mm512_ternarylogic_epi32(even, a, u_left(b, 8), 0xca));
}

/* Rows of HASH_INT16_DP are negated, so that the sign bit of a sum is the bit of the code. */
INLINE void split_rows(const enum hash_projection projection, struct split *w, const uint32_t *rows,
                       size_t ld, size_t tokens, size_t words)
{
    const size_t depth = split_depth(projection), parts = split_parts(projection);
    const size_t steps = split_steps(projection, words);
    const vu zero = u_set(0);
    for (size_t t = 0; t < tokens; t++)
        for (size_t s = 0; s < steps; s++) {
            const uint32_t *from = rows + t * ld + s * depth;
            size_t left = words - s * depth;
            char *to = w->rows + (t / TILE_ROWS * steps + s) * parts * TILE_SIZE + t % TILE_ROWS * TILE_BYTES;
            vu a = _mm512_maskz_loadu_epi32(split_lanes(left), from), b = zero;
            if (projection == HASH_INT8_DP) {
                _mm512_store_si512(to, a);
                continue;
            }
            if (left > TILE_ROWS)
                b = _mm512_maskz_loadu_epi32(split_lanes(left - TILE_ROWS), from + TILE_ROWS);
            split_put(to, _mm512_sub_epi16(zero, a), _mm512_sub_epi16(zero, b));
        }
}

/* Plane number `bit` of a run. */
INLINE void split_plane(const enum hash_projection projection, struct split *w, size_t bit,
                        const uint32_t *plane, size_t words)
{
    const size_t depth = split_depth(projection), parts = split_parts(projection);
    const vu zero = u_set(0);
    char *to = w->planes + bit * split_steps(projection, words) * parts * TILE_SIZE;
    for (size_t first = 0; first < words; first += depth, to += parts * TILE_SIZE)
        for (size_t row = 0; row < TILE_ROWS; row++) {
            size_t word = first + row, other = word + TILE_ROWS;
            vu a = word < words ? u_load(plane + word * HASH_LANES) : zero;
            if (projection == HASH_INT8_DP)
                _mm512_store_si512(to + row * TILE_BYTES, a);
            else
                split_put(to + row * TILE_BYTES, a,
                          other < words ? u_load(plane + other * HASH_LANES) : zero);
        }
    if (projection == HASH_INT8_DP)
        u_store(w->starts[bit], u_sub(zero, u_load(plane + words * HASH_LANES)));
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Where a block is: TILE_ROWS tokens times plane `bit` of the run. Bits fall, so that codes shift left. */
struct split_block {
    size_t token, bit;
};

INLINE void split_next(struct split_block *block, size_t run)
{
    if (block->bit == 0) {
        block->bit = run;
        block->token += TILE_ROWS;
    }
    block->bit--;
}

/* The signs of tokens [first, last) of a block. A sum of high products fits 16 bits, since |high| <= 128.1 +
   sqrt(SPLIT_WORDS * 2), so one multiply-add of pairs shifts and adds it. The low byte of the low products
   cannot change the sign. */
INLINE void split_signs(const enum hash_projection projection, const enum hash_form form, const size_t first,
                        const size_t last, struct split *w, const struct split_sums *sums,
                        const struct split_block *block, vu code[TILE_ROWS])
{
    uint16_t *signs =
        w->signs[block->token / HASH_CHUNK][w->first_plane + block->bit] + block->token % HASH_CHUNK;
    UNROLLED
    for (size_t t = first; t < last; t++) {
        vu sum = projection == HASH_INT8_DP
                     ? u_sub(u_load(w->starts[block->bit]), u_load(sums->high[t]))
                     : u_add(u_dot_halves(u_load(sums->mixed[t]), u_load(sums->high[t]), u_set(256)),
                             u_right(u_load(sums->low[t]), 8));
        if (form == HASH_SIGNS)
            signs[t] = _mm512_movepi32_mask(sum);
        else
            code[t] = _mm512_shldi_epi32(code[t], sum, 1); /* the sign bit enters from the right */
    }
}

/* Tiles: high and low bytes of rows 0 and 1, of planes 2; sums of high 3, mixed 4 and low 5 products. */
INLINE void split_load_rows(const enum hash_projection projection, const char *rows)
{
    TILE_LOAD(0, rows, TILE_BYTES);
    if (projection == HASH_INT16_DP)
        TILE_LOAD(1, rows + TILE_SIZE, TILE_BYTES);
}

/* Steps of depth after the first. */
INLINE void split_deeper(const enum hash_projection projection, const char *rows, const char *planes,
                         size_t steps)
{
    const size_t parts = split_parts(projection);
    for (size_t s = 1; s < steps; s++) {
        rows += parts * TILE_SIZE;
        planes += parts * TILE_SIZE;
        split_load_rows(projection, rows);
        TILE_LOAD(2, planes, TILE_BYTES);
        if (projection == HASH_INT8_DP) {
            TILE_DOT(busd, 3, 0, 2);
            continue;
        }
        TILE_DOT(bssd, 3, 0, 2);
        TILE_DOT(busd, 4, 1, 2);
        TILE_LOAD(2, planes + TILE_SIZE, TILE_BYTES);
        TILE_DOT(bsud, 4, 0, 2);
        TILE_DOT(buud, 5, 1, 2);
    }
}

/* Stores the sums of the block before. */
INLINE void split_store_mixed(struct split_sums *sums)
{
    TILE_STORE(sums->mixed, TILE_BYTES, 4);
}

INLINE void split_store_low(struct split_sums *sums)
{
    TILE_STORE(sums->low, TILE_BYTES, 5);
}

/* The products of block number i, and the signs of the block SPLIT_LAG before it, if `signs`. */
INLINE void split_products(const enum hash_projection projection, const enum hash_form form, const bool signs,
                           struct split *w, size_t i, size_t steps, size_t run, const struct split_block *now,
                           const struct split_block *old, vu code[TILE_ROWS])
{
    const size_t parts = split_parts(projection);
    const char *rows = w->rows + now->token / TILE_ROWS * steps * parts * TILE_SIZE;
    const char *planes = w->planes + now->bit * steps * parts * TILE_SIZE;
    const struct split_sums *ready = &w->sums[i % SPLIT_LAG]; /* read before it is written again */
    struct split_sums *before = &w->sums[(i + SPLIT_LAG - 1) % SPLIT_LAG];
    if (steps > 1 || now->bit == run - 1)
        split_load_rows(projection, rows);
    TILE_LOAD(2, planes, TILE_BYTES);
    TILE_ZERO(3);
    if (projection == HASH_INT8_DP) {
        TILE_DOT(busd, 3, 0, 2);
        split_deeper(projection, rows, planes, steps);
        if (signs)
            split_signs(projection, form, 0, 16, w, ready, old, code);
        TILE_STORE(w->sums[i % SPLIT_LAG].high, TILE_BYTES, 3);
        return;
    }
    TILE_DOT(bssd, 3, 0, 2);
    if (signs)
        split_signs(projection, form, 0, 4, w, ready, old, code);
    split_store_mixed(before);
    TILE_ZERO(4);
    TILE_DOT(busd, 4, 1, 2);
    if (signs)
        split_signs(projection, form, 4, 8, w, ready, old, code);
    TILE_LOAD(2, planes + TILE_SIZE, TILE_BYTES);
    split_store_low(before);
    TILE_ZERO(5);
    TILE_DOT(bsud, 4, 0, 2);
    if (signs)
        split_signs(projection, form, 8, 12, w, ready, old, code);
    TILE_DOT(buud, 5, 1, 2);
    if (signs)
        split_signs(projection, form, 12, 16, w, ready, old, code);
    split_deeper(projection, rows, planes, steps);
    TILE_STORE(w->sums[i % SPLIT_LAG].high, TILE_BYTES, 3);
}

/* ---- codes --------------------------------------------------------------------------------------------- */

/* The codes of TILE_ROWS tokens, after the last run of planes; before it they are kept. */
INLINE void split_give(struct split *w, const struct split_codes *to, bool last_run, size_t token,
                       const vu code[TILE_ROWS])
{
    char *at = to->at + token * to->step;
    UNROLLED
    for (size_t t = 0; t < TILE_ROWS; t++, at += to->step)
        if (!last_run)
            u_store(w->codes[token + t], code[t]);
        else if (token + t < to->tokens && to->wide)
            _mm512_mask_storeu_epi32(at, v_first(to->hashes), code[t]);
        else if (token + t < to->tokens)
            u_put_shorts((uint16_t *)(void *)at, code[t], to->hashes);
}

INLINE void split_take(const struct split *w, bool first_run, size_t token, vu code[TILE_ROWS])
{
    UNROLLED
    for (size_t t = 0; t < TILE_ROWS; t++)
        code[t] = first_run ? u_set(0) : u_load(w->codes[token + t]);
}

/* All blocks of a chunk of tokens and a run of planes, in one stream. */
INLINE void split_run(const enum hash_projection projection, const enum hash_form form, struct split *w,
                      const struct split_codes *to, size_t steps, size_t run, bool first_run, bool last_run)
{
    vu code[TILE_ROWS];
    const size_t blocks = (to->tokens + TILE_ROWS - 1) / TILE_ROWS * run;
    const size_t ahead = blocks < SPLIT_LAG ? blocks : SPLIT_LAG;
    struct split_block now = {0, run - 1}, old = now;
    split_take(w, first_run, 0, code);
    for (size_t i = 0; i < ahead; i++, split_next(&now, run))
        split_products(projection, form, false, w, i, steps, run, &now, &old, code);
    for (size_t i = 0; i < blocks; i++) {
        if (i + ahead < blocks) {
            split_products(projection, form, true, w, i + ahead, steps, run, &now, &old, code);
            split_next(&now, run);
        } else {
            if (i + ahead == blocks && projection == HASH_INT16_DP) {
                split_store_mixed(&w->sums[(blocks - 1) % SPLIT_LAG]);
                split_store_low(&w->sums[(blocks - 1) % SPLIT_LAG]);
            }
            split_signs(projection, form, 0, TILE_ROWS, w, &w->sums[i % SPLIT_LAG], &old, code);
        }
        if (form == HASH_CODES && old.bit == 0) {
            split_give(w, to, last_run, old.token, code);
            split_take(w, first_run, old.token + TILE_ROWS, code);
        }
        split_next(&old, run);
    }
}

/* HASH_CODES: planes of hash.codes_dp, each with one bit of 16 hashes. HASH_SIGNS: planes of
   hash.codes_dense, each with 16 adjacent bits of the codes in a row. */
INLINE void split_all(const enum hash_projection projection, const enum hash_form form, void *codes,
                      bool wide, const uint32_t *rows, size_t ld, size_t n, size_t words,
                      const uint32_t *planes, size_t num_hashes, size_t hash_bits)
{
    struct split w __attribute__((aligned(TILE_BYTES)));
    const size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t);
    const size_t plane = (words + (projection == HASH_INT8_DP)) * HASH_LANES;
    const size_t steps = split_steps(projection, words);
    const size_t fit = SPLIT_TILES / (steps * split_parts(projection)); /* blocks of rows, or planes */
    const size_t chunk = fit * TILE_ROWS < SPLIT_TOKENS ? fit * TILE_ROWS : SPLIT_TOKENS;
    tiles_open(&tiles_whole);
    for (size_t first = 0; first < n; first += chunk) {
        size_t tokens = n - first < chunk ? n - first : chunk;
        split_rows(projection, &w, rows + first * ld, ld, tokens, words);
        for (size_t hash = 0; hash < num_hashes; hash += HASH_LANES) {
            size_t hashes = num_hashes - hash < HASH_LANES ? num_hashes - hash : HASH_LANES;
            struct split_codes to = {.at = (char *)codes + (first * num_hashes + hash) * size,
                                     .step = num_hashes * size,
                                     .tokens = tokens,
                                     .hashes = hashes,
                                     .wide = wide};
            const bool dense = form == HASH_SIGNS;
            size_t count = dense ? (hashes * hash_bits + HASH_LANES - 1) / HASH_LANES : hash_bits;
            size_t step = dense ? plane : (num_hashes + HASH_LANES - 1) / HASH_LANES * plane;
            const uint32_t *group = planes + hash / HASH_LANES * (dense ? hash_bits : 1) * plane;
            for (size_t left = count; left > 0;) { /* from the highest bit down */
                size_t run = left < fit ? left : fit;
                bool first_run = left == count;
                left -= run;
                for (size_t b = 0; b < run; b++)
                    split_plane(projection, &w, b, group + (left + b) * step, words);
                w.first_plane = left;
                split_run(projection, form, &w, &to, steps, run, first_run, left == 0);
            }
            for (size_t t = 0; dense && t < tokens; t += HASH_CHUNK)
                dense_give(to.at + t * to.step, wide, num_hashes, w.signs[t / HASH_CHUNK], hashes, hash_bits,
                           tokens - t < HASH_CHUNK ? tokens - t : HASH_CHUNK);
        }
    }
    tiles_close();
}

/* true if tiles take less time than simd_hash.h. */
static bool split_pays(enum hash_projection projection, size_t n, size_t words)
{
    if (n < SPLIT_LEAST_ROWS || words > SPLIT_WORDS)
        return false;
    return (projection == HASH_INT16_DP && words > TILE_ROWS) || (projection == HASH_INT8_DP && words > 4);
}

/* split_all with the projection as a constant. */
INLINE void split_either(const enum hash_form form, enum hash_projection projection, void *codes, bool wide,
                         const uint32_t *rows, size_t ld, size_t n, size_t words, const uint32_t *planes,
                         size_t num_hashes, size_t hash_bits)
{
    if (projection == HASH_INT16_DP)
        split_all(HASH_INT16_DP, form, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    else
        split_all(HASH_INT8_DP, form, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
}

static void hash_codes_dp_amx(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows,
                              size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                              size_t hash_bits)
{
    if (split_pays(projection, n, words))
        split_either(HASH_CODES, projection, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    else
        hash_codes_dp(codes, wide, projection, rows, ld, n, words, planes, num_hashes, hash_bits);
}

static void hash_codes_dense_amx(void *codes, bool wide, enum hash_projection projection, const void *rows,
                                 size_t ld, size_t n, size_t words, const void *planes, size_t num_hashes,
                                 size_t hash_bits)
{
    if (split_pays(projection, n, words))
        split_either(HASH_SIGNS, projection, codes, wide, rows, ld, n, words, planes, num_hashes, hash_bits);
    else
        hash_codes_dense(codes, wide, projection, rows, ld, n, words, planes, num_hashes, hash_bits);
}

#endif
