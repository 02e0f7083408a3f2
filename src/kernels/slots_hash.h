/* Stage hash: rows of unit length and hash codes. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_HASH_H
#define KERNELS_SLOTS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_LANES = 16 }; /* hash functions stand side by side in groups of this many; see hash.codes */

/* How a row is projected onto hyperplanes. Each gives the same codes on every instruction set, and other
   codes than the others, so what trains records which it used; hash_projection_names are the words. */
enum hash_projection {
    HASH_AUTO,     /* the choice of hash_projection_of */
    HASH_F32,      /* float32 products and sums: slot hash.codes */
    HASH_INT16_DP, /* pairs of 16-bit fixed-point numbers, 32-bit sums, exact: slot hash.codes_dp */
    HASH_BF16_DP,  /* pairs of bfloat16, float32 sums, as the instruction vdpbf16ps: slot hash.codes_dp */
    HASH_INT8_DP   /* fours of 8-bit fixed-point numbers, 32-bit sums, exact: slot hash.codes_dp */
};

/* Hyperplanes that are rows of blocks H D3 H D2 H D1, H the Hadamard matrix of `width` = 2^stages rows and D
   signs, none of them written out: see hash.codes_hadamard. */
struct hadamard {
    size_t dim, stages; /* rows have dim coordinates, the others up to width count as 0; 4 <= stages <= 16 */
    size_t num_hashes, hash_bits;
    size_t bits_of_block;         /* bits of one hash that are rows of the same block: 1, or all of them */
    const uint32_t *place;        /* (dim): coordinate c of a row stands at place[c] < width, no two at one */
    const uint32_t *signs;        /* (blocks, 3, width) words: D1, D2, D3 */
    uint32_t scale, widest_scale; /* words for the groups of stages that begin no round, or 0 */
};

/* See HASH_INT8_DP: sums of 255 x 127 and the start stay within 31 bits. */
enum { HASH_INT8_MOST = 32768 };

struct hash_slots {
    /* out (n, ld_out): out[i][c] = sign[c] * x[i][permutation[c]] / max(|x_i|, 1e-12) for c < dim, 0 for dim
       <= c < ld_out; norm[i] = |x_i|. permutation and sign may both be NULL (identity). A row whose
       length is beyond float32 has an infinite norm, and what is written of it is the caller's affair.
       TOLERANT in the norm. */
    void (*unit)(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n, size_t dim,
                 const uint32_t *permutation, const float *sign);

    /* Backward of hash.unit: with u = unit row, g = du row (both in the turned order of hash.unit),
       dx[i][permutation[c]] += sign[c] * (g[c] - u[c] <u, g>) / norm[i]; adds nothing where norm[i] < 1e-12.
     */
    void (*unit_backward)(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                          const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                          const float *sign);

    /* codes (n, num_hashes), uint16_t, or uint32_t where wide: bit b of hash h of row i is
       [sum over c = 0 .. dim-1, in that order, each step one fused multiply-add from 0, of x[i][c] * plane >
       0]. planes: (hash_bits, groups, dim, HASH_LANES) with groups = ceil(num_hashes / HASH_LANES): hash h is
       lane h % HASH_LANES of group h / HASH_LANES. EXACT. About 2 n dim num_hashes hash_bits operations: near
       the product peak is expected, with nothing written but codes. */
    void (*codes)(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                  const float *planes, size_t num_hashes, size_t hash_bits);

    /* Rows for hash.codes_dp, but for HASH_INT8_DP: halves of 16 bits, half c of row i from x[i][c], 0 for
       dim <= c < HASH_LANES ceil(dim / HASH_LANES), which is at most 2 ld_out. squares[i] = sum of x[i][c]^2:
       lane c % HASH_LANES adds its squares in order, each step one fused multiply-add from 0, then lane l
       takes lane l + 8, l + 4, l + 2, l + 1. HASH_INT16_DP: x s to the nearest whole number (ties to even),
       at most 32767 in size, s = 32767 / sqrt(squares[i]) or 0 for squares[i] = 0: rows get one length, which
       changes no sign. HASH_BF16_DP: x to the nearest bfloat16, ties to even. HASH_INT8_DP: bytes in the
       place of halves, at most 4 ld_out; x s to the nearest whole number, at most 127 in size, plus 128 (so
       128 past dim), s = 127 / (the largest |x[i][c]|) or 0 where that is 0. Rows whose squares leave [1e-30,
       1e30] are the caller's affair. EXACT. */
    void (*pack_rows)(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                      const float *x, size_t ld_x, size_t n, size_t dim);

    /* The planes of a head: row c of HASH_LANES planes is sign[c] times row permutation[c], for each of
       `count` groups (count, dim, HASH_LANES) of planes of length 1 or 0. HASH_F32: as floats, for
       hash.codes. Else words (count, ceil(dim / 2), HASH_LANES) for hash.codes_dp: the low half from row 2 w,
       the high one from row 2 w + 1 or 0; HASH_INT16_DP: 32767 times to the nearest, as in hash.pack_rows;
       HASH_BF16_DP: nearest. HASH_INT8_DP: words (count, ceil(dim / 4) + 1, HASH_LANES): bytes from rows 4 w
       to 4 w + 3, the first the lowest, times 127 / (the largest of the lane) to the nearest; in the last row
       -128 times the sum of the lane's bytes, which is where a sum starts. EXACT. */
    void (*pack_planes)(void *out, enum hash_projection projection, const float *planes, size_t count,
                        size_t dim, const uint32_t *permutation, const float *sign);

    /* codes as hash.codes, of rows (n, ld) of hash.pack_rows and planes of hash.pack_planes, `words` each =
       ceil(dim / 2), HASH_INT8_DP ceil(dim / 4): bit b is [sum > 0], where word w of row and plane adds their
       products. HASH_INT16_DP: in 32-bit whole numbers, which cannot overflow: both lengths are about 32767.
       HASH_INT8_DP: the same, of bytes without sign by bytes with one, from the plane's start on: dim is at
       most HASH_INT8_MOST. HASH_BF16_DP: sum <- fma(high, high, sum), then fma(low, low, sum), w rising from
       sum = 0; numbers under 2^-126 count as 0, before and after each step (Intel, Software Developer's
       Manual, volume 2, VDPBF16PS). EXACT. Half the instructions of hash.codes where there is one for it, of
       bytes a quarter. */
    void (*codes_dp)(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows, size_t ld,
                     size_t n, size_t words, const uint32_t *planes, size_t num_hashes, size_t hash_bits);

    /* codes as hash.codes, by transforms instead of products. Rows (n, ld): HASH_F32: floats; HASH_INT16_DP:
       words of hash.pack_rows. Blocks come for each width / bits_of_block hashes in order, and of these one
       for each bits_of_block bits: row i < width of a block is bit i % bits_of_block of those of hash i /
       bits_of_block; a bit is [number > 0] in the end.
       Three rounds k = 1, 2, 3: multiply by D_k, then for each of `stages` bits of the number of a coordinate
       (rounds 1 and 3: from the highest down, round 2: from the lowest up) pairs a, b whose numbers differ in
       that bit alone, a's being 0, become a + b, a - b.
       HASH_F32: a word of signs is xor'ed to the float; each sum is rounded once.
       HASH_INT16_DP: numbers of 16 bits, sums modulo 2^16; a word of signs holds a factor f twice, and a
       number becomes (a f + 2^14) >> 15. Bits are grouped by three from the lowest on, the rest is the widest
       group; before each group but the first of a round `scale` (the widest: widest_scale) multiplies all
       numbers so, unless it is 0.
       EXACT. work: 2 (width + min(num_hashes, width / bits_of_block)) HASH_LANES words. */
    void (*codes_hadamard)(void *codes, bool wide, enum hash_projection projection, const void *rows,
                           size_t ld, size_t n, const struct hadamard *planes, uint32_t *work);
};

#endif
