/* Stage hash: rows of unit length and hash codes. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_HASH_H
#define KERNELS_SLOTS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_LANES = 16 }; /* hash functions per group; see hash.codes */

/* How a row is projected onto hyperplanes. Each projection gives the same codes on every instruction set, but
   its codes differ from those of the other projections, so training records which one it used.
   hash_projection_names has the names. */
enum hash_projection {
    HASH_AUTO,     /* chosen by hash_projection_of */
    HASH_F32,      /* float32 products and sums: slot hash.codes */
    HASH_INT16_DP, /* pairs of 16-bit fixed-point numbers, 32-bit sums, exact: slot hash.codes_dp */
    HASH_BF16_DP,  /* pairs of bfloat16, float32 sums, as vdpbf16ps computes them: slot hash.codes_dp */
    HASH_INT8_DP   /* groups of four 8-bit fixed-point numbers, 32-bit sums, exact: slot hash.codes_dp */
};

/* Hyperplanes that are rows of blocks H D3 H D2 H D1, where H is the Hadamard matrix with `width` = 2^stages
   rows and each D is a diagonal of signs. No matrix is stored; see hash.codes_hadamard. */
struct hadamard {
    size_t dim, stages; /* rows have dim coordinates, padded with zeros to width; 4 <= stages <= 16 */
    size_t num_hashes, hash_bits;
    size_t bits_of_block;         /* bits of a hash computed by one block: 1, or all of them */
    const uint32_t *place;        /* (dim): coordinate c of a row goes to place[c] < width; all distinct */
    const uint32_t *signs;        /* (blocks, 3, width) words: D1, D2, D3 */
    uint32_t scale, widest_scale; /* factors for the groups of stages except the first of a round, or 0 */
};

/* Rows that hash.pooled_codes takes at a time, which bounds its work space. */
enum { POOL_ROWS = 32 };

/* The largest dim of HASH_INT8_DP: sums of 255 x 127 plus the start value fit 31 bits. */
enum { HASH_INT8_MOST = 32768 };

struct hash_slots {
    /* out (n, ld_out): out[i][c] = sign[c] * x[i][permutation[c]] / max(|x_i|, 1e-12) for c < dim, 0 for dim
       <= c < ld_out; norm[i] = |x_i|. permutation and sign may both be NULL (identity). If the length of a
       row overflows float32, its norm is infinite and its output is unspecified. TOLERANT in the norm. */
    void (*unit)(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n, size_t dim,
                 const uint32_t *permutation, const float *sign);

    /* Backward of hash.unit: with u = unit row and g = du row, both in the permuted order of hash.unit,
       dx[i][permutation[c]] += sign[c] * (g[c] - u[c] <u, g>) / norm[i]. Rows with norm[i] < 1e-12 add
       nothing. */
    void (*unit_backward)(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                          const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                          const float *sign);

    /* codes (n, num_hashes), uint16_t, or uint32_t if wide. Bit b of hash h of row i is [sum > 0], where the
       sum runs over c = 0 .. dim-1 in order, from 0, one fused multiply-add per step, of x[i][c] * plane.
       planes: (hash_bits, groups, dim, HASH_LANES) with groups = ceil(num_hashes / HASH_LANES); hash h is
       lane h % HASH_LANES of group h / HASH_LANES. EXACT.
       Cost: about 2 n dim num_hashes hash_bits operations. It should run near the product peak, since it
       writes only codes. */
    void (*codes)(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                  const float *planes, size_t num_hashes, size_t hash_bits);

    /* Packs rows for hash.codes_dp.
       HASH_INT16_DP and HASH_BF16_DP: 16-bit halves. Half c of row i comes from x[i][c] and is 0 for dim <= c
       < HASH_LANES ceil(dim / HASH_LANES), which is at most 2 ld_out.
       squares[i] = sum of x[i][c]^2: lane c % HASH_LANES adds its squares in order, one fused multiply-add
       per step; then lane l adds lane l + 8, l + 4, l + 2, l + 1.
       HASH_INT16_DP: x s rounded to the nearest integer (ties to even), clamped to +-32767, with s = 32767 /
       sqrt(squares[i]), or 0 if squares[i] = 0. This gives all rows one length and changes no sign.
       HASH_BF16_DP: x rounded to the nearest bfloat16, ties to even.
       HASH_INT8_DP: bytes instead of halves, at most 4 ld_out of them: x s rounded to the nearest integer,
       clamped to +-127, plus 128 (so 128 past dim), with s = 127 / (the largest |x[i][c]|), or 0 if that is
       0.
       The output for rows whose squares are outside [1e-30, 1e30] is unspecified. EXACT. */
    void (*pack_rows)(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                      const float *x, size_t ld_x, size_t n, size_t dim);

    /* Packs the planes of a head, from `count` groups (count, dim, HASH_LANES) of planes of length 1 or 0.
       Row c of HASH_LANES planes becomes sign[c] times row permutation[c].
       HASH_F32: floats, for hash.codes. The other projections are for hash.codes_dp:
       HASH_INT16_DP and HASH_BF16_DP: words (count, ceil(dim / 2), HASH_LANES); the low half comes from row 2
       w, the high half from row 2 w + 1, or is 0. HASH_INT16_DP: times 32767, rounded as in hash.pack_rows.
       HASH_BF16_DP: rounded to nearest.
       HASH_INT8_DP: words (count, ceil(dim / 4) + 1, HASH_LANES); bytes from rows 4 w to 4 w + 3, lowest byte
       first, times 127 / (the largest of the lane), rounded to nearest. The last row is -128 times the sum of
       the lane's bytes: the start value of a sum.
       EXACT. */
    void (*pack_planes)(void *out, enum hash_projection projection, const float *planes, size_t count,
                        size_t dim, const uint32_t *permutation, const float *sign);

    /* codes as hash.codes, from rows (n, ld) of hash.pack_rows and planes of hash.pack_planes. Both have
       `words` words: ceil(dim / 2), or ceil(dim / 4) for HASH_INT8_DP. Bit b is [sum > 0]; word w of row
       and plane adds their products to the sum.
       HASH_INT16_DP: 32-bit integer sums, which cannot overflow, because both lengths are about 32767.
       HASH_INT8_DP: 32-bit integer sums of unsigned times signed bytes, from the plane's start value on;
       dim is at most HASH_INT8_MOST.
       HASH_BF16_DP: sum <- fma(high, high, sum), then fma(low, low, sum), for rising w from sum = 0.
       Numbers under 2^-126 count as 0 before each step, and after it, once rounded to 24 bits (Intel,
       Software Developer's Manual, volume 2, VDPBF16PS). EXACT. Half the instructions of hash.codes if the
       processor has the instruction; a quarter for bytes. */
    void (*codes_dp)(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows, size_t ld,
                     size_t n, size_t words, const uint32_t *planes, size_t num_hashes, size_t hash_bits);

    /* codes as hash.codes (HASH_F32, rows of floats, words = dim) and hash.codes_dp, from planes without
       unused lanes: bit b of hash h is plane p = h hash_bits + b, lane p % HASH_LANES of group p / HASH_LANES
       of ceil(num_hashes hash_bits / HASH_LANES) groups. EXACT: the codes of the same planes in either layout
       are equal. It costs a block of 16 lanes per 16 planes: 10 for 17 hashes of 9 bits, where hash.codes
       computes 18. */
    void (*codes_dense)(void *codes, bool wide, enum hash_projection projection, const void *rows, size_t ld,
                        size_t n, size_t words, const void *planes, size_t num_hashes, size_t hash_bits);

    /* Codes of hashes that share planes. pool (n, r): codes of r hashes with planes of their own. codes (n,
       num_hashes): bit b of hash a + r c, a < r, is bit b of pool hash (a + b c) % r. Both are uint16_t, or
       uint32_t if wide. 1 <= r. work: 2 POOL_ROWS (r + HASH_LANES) words. EXACT. */
    void (*pooled_codes)(void *codes, bool wide, const void *pool, size_t n, size_t r, size_t num_hashes,
                         size_t hash_bits, uint32_t *work);

    /* codes as hash.codes, by transforms instead of products. Rows (n, ld): floats for HASH_F32, words of
       hash.pack_rows for HASH_INT16_DP.
       Each run of width / bits_of_block hashes has one block per bits_of_block bits, in order. Row i < width
       of a block is bit i % bits_of_block, within the block's bits, of hash i / bits_of_block of the run. A
       bit is [final number > 0].
       Three rounds k = 1, 2, 3 multiply by D_k, then run `stages` butterfly stages, one for each bit of the
       coordinate index: from the highest bit down in rounds 1 and 3, from the lowest up in round 2. A stage
       replaces each pair a, b whose indices differ only in that bit (0 for a) by a + b, a - b.
       HASH_F32: a word of signs is xor'ed to the float; each sum is rounded once.
       HASH_INT16_DP: 16-bit numbers, sums modulo 2^16. A word of signs holds a factor f > -2^15 twice;
       multiplying by it gives (a f + 2^14) >> 15. Stages are grouped by three from the lowest bit on; the
       widest group has the rest. Before each group except the first of a round, all numbers are multiplied by
       `scale` (widest group: widest_scale) in the same way, unless it is 0. EXACT. work: 2 (width +
       min(num_hashes, width / bits_of_block)) HASH_LANES words. */
    void (*codes_hadamard)(void *codes, bool wide, enum hash_projection projection, const void *rows,
                           size_t ld, size_t n, const struct hadamard *planes, uint32_t *work);
};

#endif
