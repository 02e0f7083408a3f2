/* The table of compute slots: every loop of the library that is worth a vector instruction, one function
   pointer each, with its contract above it. This table is the documentation; ref.c is the truth (plain loops,
   sums in double where a slot is TOLERANT); the SIMD body is written once and compiled per instruction set.
   EXACT: the same bits on every instruction set, because the order of each sum is part of the contract.
   TOLERANT: the order of each sum is free. Within one table every slot is deterministic, and what it writes
   for one row depends on that row's inputs and the widths alone, never on how many rows stand beside it,
   unless the slot says otherwise. A pointer followed by `ld_` has rows that many floats apart; no alignment
   is needed unless a slot says so; outputs never overlap inputs unless a slot says "in place". No slot checks
   arguments, allocates or fails. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A bfloat16 number: the upper 16 bits of a float. */
typedef uint16_t bf16;

/* What arrays of callers hold. */
enum dtype { DTYPE_FLOAT32, DTYPE_BFLOAT16 };

enum {
    HASH_LANES = 16,  /* hash functions stand side by side in groups of this many; see hash_codes */
    KERNELS_TILE = 64 /* rows of a query block and of a key tile in the exact mechanisms */
};

/* How slot bucket_pairs weighs a pair; formulas there. */
enum pair_weight {
    PAIR_CONSTANT, /* all pairs the same */
    PAIR_TANGENT,  /* the derivative of p^hash_bits over p^hash_bits, in a form without pole */
    PAIR_FLOORED, /* the same, plainly, of a sine no less than PAIR_LEAST_SINE: where nothing cancels the pole
                   */
    PAIR_SHRUNK,  /* the derivative of p^hash_bits itself, at PAIR_SHRINK times the cosine */
};

/* One bucket of one hash: queries and keys that share a code, as row numbers. See bucket_pairs. */
struct bucket_pairs {
    const uint32_t *queries, *keys; /* (num_queries), (num_keys) */
    size_t num_queries, num_keys;
    const float *query, *key, *value, *dout; /* rows; those of query and key have length 1 or 0 */
    size_t ld_query, ld_key, ld_value, ld_dout;
    size_t dim, value_dim;
    const float *bias;    /* per query row, added to <dout_i, value_j>; or NULL */
    float *dquery, *dkey; /* rows as query and key (same ld), added into */
    float scale;          /* of every pair's weight */
    const float *times;   /* (num_queries, num_keys), ld_times: of each pair's weight; NULL: 1 */
    size_t ld_times;
    enum pair_weight weight;
    unsigned hash_bits;
    bool far; /* for lists of buckets: rows lie beyond the second cache, and are asked for ahead */
};

/* Columns of tables of 16-bit numbers come in multiples of this. */
enum { FIXED_BLOCK = 32 };

/* Steps of prefix sums in hash tables: see table_scan. */
struct table_scan {
    float *tables; /* (count, buckets, dim) */
    size_t buckets;
    const void *from, *to; /* codes (n, num_hashes) of the rows that are added, and of those that read */
    bool wide;             /* codes are uint32_t */
    bool backwards;        /* the last row first */
    size_t num_hashes, first, count;
    const float *values; /* (n, dim); ld may be 0 (one row for all) */
    size_t ld_values;
    float *out; /* (n, dim) */
    size_t ld_out, n, dim;
};

/* Rows of both sides that share a code, as places in two lists of row numbers. */
struct bucket {
    uint32_t first_query, num_queries, first_key, num_keys;
};

/* What one side of some buckets gives to the other: see bucket_carry. */
struct bucket_carry {
    const struct bucket *buckets; /* (count) */
    size_t count;
    const uint32_t *queries, *keys; /* lists of row numbers; those of a bucket rise */
    const size_t *visible;          /* per query: only so many keys, from the first on, are met; NULL: all */
    bool to_queries;                /* else to the keys */
    const float *values;            /* rows of the giving side */
    float *out;                     /* rows of the receiving side, added into */
    size_t ld_values, ld_out, dim;  /* ld_values may be 0 (one row for all) */
};

/* How a row is projected onto hyperplanes. Each gives the same codes on every instruction set, and other
   codes than the others, so what trains records which it used; hash_projection_names are the words. */
enum hash_projection {
    HASH_AUTO,     /* the choice of hash_projection_of */
    HASH_F32,      /* float32 products and sums: slot hash_codes */
    HASH_INT16_DP, /* pairs of 16-bit fixed-point numbers, 32-bit sums, exact: slot hash_codes_dp */
    HASH_BF16_DP,  /* pairs of bfloat16, float32 sums, as the instruction vdpbf16ps: slot hash_codes_dp */
    HASH_INT8_DP   /* fours of 8-bit fixed-point numbers, 32-bit sums, exact: slot hash_codes_dp */
};

/* Hyperplanes that are rows of blocks H D3 H D2 H D1, H the Hadamard matrix of `width` = 2^stages rows and D
   signs, none of them written out: see hadamard_codes. */
struct hadamard {
    size_t dim, stages; /* rows have dim coordinates, the others up to width count as 0; 4 <= stages <= 16 */
    size_t num_hashes, hash_bits;
    size_t bits_of_block;         /* bits of one hash that are rows of the same block: 1, or all of them */
    const uint32_t *place;        /* (dim): coordinate c of a row stands at place[c] < width, no two at one */
    const uint32_t *signs;        /* (blocks, 3, width) words: D1, D2, D3 */
    uint32_t scale, widest_scale; /* words for the groups of stages that begin no round, or 0 */
};

/* AdamW (Loshchilov and Hutter 2019, decoupled decay) on a block; see adamw_step. */
struct adamw {
    float rate, beta1, beta2, epsilon, decay;
    float correction1, correction2; /* 1 - beta1^t (or the running product where beta1 cycles), 1 - beta2^t */
    float gradient_scale;           /* clipping; 1 = none */
};

struct kernels {
    const char *name; /* "ref", "avx2", "avx512", "avx512bf16" */
    const char *bf16; /* how bf16_product multiplies: "by instruction" or "by widening" */

    /* ---- chance -------------------------------------------------------------------------------------------
     */

    /* out (n): what random_normals(key, 0, out, n) of base/random.h gives, some ten times as fast. EXACT. */
    void (*normals)(float *out, uint64_t key, size_t n);

    /* The reflection I - axis axis^T (|axis|^2 = 2) of the columns first .. ld - 1 of `rows` (dim, ld); ld is
       a multiple of HASH_LANES. Column l: dot = sum over c = 0 .. dim - 1, in that order, each step one fused
       multiply-add from 0, of axis[c] * rows[c][l]; then rows[c][l] -= dot * axis[c], fused. EXACT. */
    void (*reflect)(double *rows, size_t ld, size_t first, const double *axis, size_t dim);

    /* ---- hashing ------------------------------------------------------------------------------------------
     */

    /* out (n, ld_out): out[i][c] = sign[c] * x[i][permutation[c]] / max(|x_i|, 1e-12) for c < dim, 0 for dim
       <= c < ld_out; norm[i] = |x_i|. permutation and sign may both be NULL (identity). A row whose
       length is beyond float32 has an infinite norm, and what is written of it is the caller's affair.
       TOLERANT in the norm. */
    void (*unit_rows)(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n,
                      size_t dim, const uint32_t *permutation, const float *sign);

    /* The way back: with u = unit row, g = du row (both in the turned order of unit_rows),
       dx[i][permutation[c]] += sign[c] * (g[c] - u[c] <u, g>) / norm[i]; adds nothing where norm[i] < 1e-12.
     */
    void (*unit_rows_backward)(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                               const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                               const float *sign);

    /* codes (n, num_hashes), uint16_t, or uint32_t where wide: bit b of hash h of row i is
       [sum over c = 0 .. dim-1, in that order, each step one fused multiply-add from 0, of x[i][c] * plane >
       0]. planes: (hash_bits, groups, dim, HASH_LANES) with groups = ceil(num_hashes / HASH_LANES): hash h is
       lane h % HASH_LANES of group h / HASH_LANES. EXACT. About 2 n dim num_hashes hash_bits operations: near
       the product peak is expected, with nothing written but codes. */
    void (*hash_codes)(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                       const float *planes, size_t num_hashes, size_t hash_bits);

    /* Rows for hash_codes_dp, but for HASH_INT8_DP: halves of 16 bits, half c of row i from x[i][c], 0 for
       dim <= c < HASH_LANES ceil(dim / HASH_LANES), which is at most 2 ld_out. squares[i] = sum of x[i][c]^2:
       lane c % HASH_LANES adds its squares in order, each step one fused multiply-add from 0, then lane l
       takes lane l + 8, l + 4, l + 2, l + 1. HASH_INT16_DP: x s to the nearest whole number (ties to even),
       at most 32767 in size, s = 32767 / sqrt(squares[i]) or 0 for squares[i] = 0: rows get one length, which
       changes no sign. HASH_BF16_DP: x to the nearest bfloat16, ties to even. HASH_INT8_DP: bytes in the
       place of halves, at most 4 ld_out; x s to the nearest whole number, at most 127 in size, plus 128 (so
       128 past dim), s = 127 / (the largest |x[i][c]|) or 0 where that is 0. Rows whose squares leave [1e-30,
       1e30] are the caller's affair. EXACT. */
    void (*hash_rows)(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                      const float *x, size_t ld_x, size_t n, size_t dim);

    /* The planes of a head: row c of HASH_LANES planes is sign[c] times row permutation[c], for each of
       `count` groups (count, dim, HASH_LANES) of planes of length 1 or 0. HASH_F32: as floats, for
       hash_codes. Else words (count, ceil(dim / 2), HASH_LANES) for hash_codes_dp: the low half from row 2 w,
       the high one from row 2 w + 1 or 0; HASH_INT16_DP: 32767 times to the nearest, as in hash_rows;
       HASH_BF16_DP: nearest. HASH_INT8_DP: words (count, ceil(dim / 4) + 1, HASH_LANES): bytes from rows 4 w
       to 4 w + 3, the first the lowest, times 127 / (the largest of the lane) to the nearest; in the last row
       -128 times the sum of the lane's bytes, which is where a sum starts. EXACT. */
    void (*hash_planes)(void *out, enum hash_projection projection, const float *planes, size_t count,
                        size_t dim, const uint32_t *permutation, const float *sign);

    /* codes as hash_codes, of rows (n, ld) of hash_rows and planes of hash_planes, `words` each = ceil(dim /
       2), HASH_INT8_DP ceil(dim / 4): bit b is [sum > 0], where word w of row and plane adds their products.
       HASH_INT16_DP: in 32-bit whole numbers, which cannot overflow: both lengths are about 32767.
       HASH_INT8_DP: the same, of bytes without sign by bytes with one, from the plane's start on: dim is at
       most HASH_INT8_MOST. HASH_BF16_DP: sum <- fma(high, high, sum), then fma(low, low, sum), w rising from
       sum = 0; numbers under 2^-126 count as 0, before and after each step (Intel, Software Developer's
       Manual, volume 2, VDPBF16PS). EXACT. Half the instructions of hash_codes where there is one for it, of
       bytes a quarter. */
    void (*hash_codes_dp)(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows,
                          size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                          size_t hash_bits);

    /* codes as hash_codes, by transforms instead of products. Rows (n, ld): HASH_F32: floats; HASH_INT16_DP:
       words of hash_rows. Blocks come for each width / bits_of_block hashes in order, and of these one for
       each bits_of_block bits: row i < width of a block is bit i % bits_of_block of those of hash i /
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
    void (*hadamard_codes)(void *codes, bool wide, enum hash_projection projection, const void *rows,
                           size_t ld, size_t n, const struct hadamard *planes, uint32_t *work);

    /* For each row i < n in order, for each hash h in [first, first + count):
       tables[(h - first) * buckets + code(i, h)][0 .. dim) += values[i]. codes as above, (n, num_hashes).
       tables (count, buckets, dim). ld_values may be 0 (one row for all). EXACT. */
    void (*table_add)(float *tables, size_t buckets, const void *codes, bool wide, size_t num_hashes,
                      size_t first, size_t count, const float *values, size_t ld_values, size_t n,
                      size_t dim);

    /* out[i] += sum over h in [first, first + count), in order and from out's value on, of the row of the
     * table. EXACT. */
    void (*table_read)(float *out, size_t ld_out, const float *tables, size_t buckets, const void *codes,
                       bool wide, size_t num_hashes, size_t first, size_t count, size_t n, size_t dim);

    /* For each row i < n in order, or in falling order where `backwards`: what table_add does with values[i]
       and from, then what table_read does for out[i] and to. EXACT. Both as one step, since the processor can
       fetch the rows of both at once: see simd_scan.h. */
    void (*table_scan)(const struct table_scan *scan);

    /* The same with tables of 16-bit whole numbers, whose rows have `width` columns, a multiple of
       FIXED_BLOCK. EXACT, and so is the order: sums of whole numbers do not depend on it. fixed_round: out
       (n, width) = round(x factor), ties to even, no more than 32767 in size, in an order of this table of
       slots within FIXED_BLOCK columns, which fixed_read undoes; 0 from dim on. */
    void (*fixed_round)(int16_t *out, size_t width, const float *x, size_t ld_x, size_t n, size_t dim,
                        float factor);
    /* table_add of rows of fixed_round, ld_values apart; no sum may pass 32767 in size. */
    void (*fixed_add)(int16_t *tables, size_t width, size_t buckets, const void *codes, bool wide,
                      size_t num_hashes, size_t first, size_t count, const int16_t *values, size_t ld_values,
                      size_t n);
    /* table_read of the first dim <= width columns, as whole numbers of 32 bits. */
    void (*fixed_read)(int32_t *out, size_t ld_out, const int16_t *tables, size_t width, size_t buckets,
                       const void *codes, bool wide, size_t num_hashes, size_t first, size_t count, size_t n,
                       size_t dim);
    /* In place: x[i][c], a whole number of 32 bits, becomes a float times step, each rounded once. */
    void (*fixed_finish)(float *x, size_t ld, size_t n, size_t dim, float step);
    /* The largest |x[i][c]|; NaN is passed over; 0 of nothing. EXACT. */
    float (*largest_size)(const float *x, size_t ld, size_t rows, size_t cols);

    /* times[i * ld + j] = of_count[number of hashes in which row queries[i] and row keys[j] have the same
       code]. codes as above, (n, num_hashes); of_count (num_hashes + 1). EXACT. */
    void (*meetings)(float *times, size_t ld, const void *query_codes, const void *key_codes, bool wide,
                     size_t num_hashes, const float *of_count, const uint32_t *queries, size_t num_queries,
                     const uint32_t *keys, size_t num_keys);

    /* All pairs (i, j) of one bucket. score = (<dout_i, value_j> + bias_i) * scale * times_ij.
       Constant: w = score; dquery_i += w key_j; dkey_j += w query_i.
       Shrunk: the same with w = score * hash_bits p^(hash_bits-1) / (pi s), where p = 1 - acos(x) / pi, s =
       sqrt(1 - x^2) and x = PAIR_SHRINK <query_i, key_j>.
       Tangent: with u = |q-k|, v = |q+k| (from differences and sums of the rows, never from the dot product;
       the larger may be taken from u^2 + v^2 = 4), angle = 2 atan2(u, v), p = 1 - angle / pi, s = u v / 2
       (the sine) and sigma = the sign of <q, k> (v >= u: 1, else -1): w = score * hash_bits / (p pi s), 0
       where s = 0 or p = 0; dquery_i += w (key_j - sigma query_i); dkey_j += w (query_i - sigma key_j).
       Floored: the same w with s no less than PAIR_LEAST_SINE, 0 where p = 0, added as a constant one.
       (The caller projects on the tangent, which removes the part along query_i exactly as the formula wants.
       A pair with a row of length 0 gets some finite weight: the projection removes its part from the other
       row, and nothing reads its own.) TOLERANT. About 6 dim operations a pair, and six rows moved. */
    void (*bucket_pairs)(const struct bucket_pairs *bucket);

    /* For each bucket, out of each receiving row += (((0 + a) + b) + ...), a, b, ... the values of the giving
       rows in order, or to the keys with visible: from the last one on. With visible only those that meet:
       query i and the keys below visible[i], which never falls. EXACT. */
    void (*bucket_carry)(const struct bucket_carry *carry);

    /* What bucket_pairs does for each bucket of a list (count): the queries and keys of `rows` are the lists
       of row numbers, its counts and times are not looked at. TOLERANT. For buckets of a pair or two, where a
       call for each would be most of the time. */
    void (*bucket_list_pairs)(const struct bucket_pairs *rows, const struct bucket *list, size_t count);

    /* ---- tiles of the exact mechanisms --------------------------------------------------------------------
     */

    /* c (rows, cols) = [add: c +] A B, A(i, k) = a[i * a_row + k * a_col], B (depth, cols) rows ld_b apart.
       Meant for sizes up to a few hundred, operands in cache. A row of c may depend on `rows` in the order of
       its sum only if that order is the same for every position of the row: sums run over k in order.
       TOLERANT. */
    void (*tile_product)(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
                         size_t ld_b, size_t rows, size_t cols, size_t depth, bool add);

    /* out (cols, rows) = in (rows, cols) transposed. EXACT. */
    void (*tile_transpose)(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows,
                           size_t cols);

    /* c (rows, cols) = [add: c +] A B with operands of bfloat16 and sums in float32. A (rows, 2 * pairs),
       rows ld_a apart. B (2 * pairs, cols) in pairs, as bf16_interleave lays them: B(2k, j) and B(2k + 1, j)
       stand at b[k * ld_b + 2 * j] and beside it. Sums run over k in order, whatever the place of the row;
       the two of a pair may be added in any way, and denormal operands count as 0 where the instruction takes
       them so. TOLERANT. Twice the rate of tile_product where the instruction exists, else near its rate. */
    void (*bf16_product)(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                         size_t rows, size_t cols, size_t pairs, bool add);

    /* out[i][c] = in[i][c] rounded to the nearest bfloat16, ties to even; what is too large becomes infinite;
       a NaN becomes the quiet NaN of its sign and upper bits. EXACT. */
    void (*bf16_round)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);

    /* out[i][c] = in[i][c], the same number in 32 bits. EXACT. */
    void (*bf16_widen)(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols);

    /* The right operand of bf16_product: out[k / 2 * ld_out + 2 * j + k % 2] = in[k][j] rounded as by
       bf16_round, for k < rows and j < cols; where rows is odd the last row's partners are 0. EXACT. */
    void (*bf16_interleave)(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows,
                            size_t cols);

    /* One step of the running softmax (Milakov and Gimelshein 2018) over a tile of raw scores s (rows, cols),
       in place: new max M = max(row_max, s), not scaled; factor = exp(scale * (row_max - M)), 0 where row_max
       is -inf; s <- exp(scale * (s - M)), which is at most 1; row_sum <- row_sum * factor + sum s; row_max <-
       M. The difference comes first: a product of large scores is off by more than 1. cols >= 1, scale > 0; s
       is finite, or -inf for a pair that does not take part, in a row that has a finite one or a finite
       row_max. TOLERANT. */
    void (*softmax_step)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, float *row_max,
                         float *row_sum, float *factor);

    /* In place s <- exp(scale * (s - row_max[i]) - log_sum[i]): the probabilities again, for backward, with
       log_sum the logarithm of softmax_step's row_sum. One number for both would lose the sum where the
       maximum is large. At most 1 where s <= row_max and log_sum >= 0; s finite or -inf. TOLERANT. */
    void (*softmax_again)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, const float *row_max,
                          const float *log_sum);

    /* out[i] = the largest of x (rows, cols), cols >= 1, none of which is NaN. EXACT. */
    void (*row_largest)(float *out, const float *x, size_t ld_x, size_t rows, size_t cols);

    /* y[i][c] = exp(scale * x[i][c] - shift[i]) + plus, the product rounded; y may be x. TOLERANT. */
    void (*exp_rows)(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols,
                     float scale, const float *shift, float plus);

    /* In place dp <- scale * p * (dp - delta[i]). TOLERANT. */
    void (*softmax_gradient)(float *dp, size_t ld_dp, const float *p, size_t ld_p, size_t rows, size_t cols,
                             float scale, const float *delta);

    /* x[i][c] *= factor[i]. EXACT. */
    void (*scale_rows)(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols);

    /* x[i][c] = x[i][c] * of_row[i] * of_col[c], from left to right. EXACT. */
    void (*scale_both)(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                       size_t cols);

    /* out[i] = <a_i, b_i>. TOLERANT. */
    void (*row_dots)(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                     size_t cols);

    /* Collision probabilities of a tile of dot products x (rows, cols) between rows of unit or zero length
       (norm2_query[i], norm2_key[j] are 1 or 0): u^2 = nq + nk - 2x, v^2 = nq + nk + 2x, both floored at 0;
       p = 1 - 2 atan2(u, v) / pi (both 0: p = 1); power <- p^hash_bits.
       slope, if not NULL: the w of bucket_pairs' tangent form without scale and score, times power:
       hash_bits p^(hash_bits-1) / (pi s). A pair with u^2 or v^2 under COLLISION_NEAR has lost its angle to
       rounding: it gets power as computed and slope 0, and is counted; the caller does it again from the
       vectors. Returns that count. x may be the same array as power (in place). TOLERANT. */
    size_t (*collision_tile)(float *power, float *slope, const float *x, size_t ld, size_t rows, size_t cols,
                             const float *norm2_query, const float *norm2_key, unsigned hash_bits);

    /* Of rows psi >= 0, each over its sum, and rows z of scores, p = softmax(z): kl[i] = sum over c of psi
       log(psi / p), terms of psi = 0 being 0, and dz = weight * (p - psi). Where the sum is 0 or not finite
       dz and kl[i] are 0. Rows (rows, cols), adjacent; dz may be z. TOLERANT. */
    void (*divergence)(float *kl, float *dz, const float *psi, const float *z, size_t rows, size_t cols,
                       float weight);

    /* In place x[i][c] -= the largest of column c; spread[c] = sum over i of (x[i][c] - mean of column c)^2.
       A column whose sum is no finite number becomes -inf throughout, with spread 0. Rows are ld apart.
       TOLERANT. */
    void (*below_largest)(float *x, size_t ld, float *spread, size_t rows, size_t cols);

    /* ---- selection of the largest ------------------------------------------------------------------------
     */

    /* How many of x[0 .. n) are greater than `bound`, which is no NaN; a NaN is not. EXACT. One comparison a
       vector: the speed of the first-level cache. */
    size_t (*count_above)(const float *x, size_t n, float bound);

    /* The indices of those, rising; n < 2^32. EXACT. */
    void (*list_above)(uint32_t *out, const float *x, size_t n, float bound);

    /* ---- rows of the layers -------------------------------------------------------------------------------
     */

    /* y = (x - mean) / sqrt(var + epsilon) * gain + bias; mean_rstd (n, 2) is kept for backward. TOLERANT. */
    void (*layer_norm)(float *y, float *mean_rstd, const float *x, const float *gain, const float *bias,
                       size_t n, size_t dim, float epsilon);
    /* dx += ...; dgain += and dbias += sums over the n rows in order. TOLERANT. */
    void (*layer_norm_backward)(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                                const float *mean_rstd, const float *gain, size_t n, size_t dim);
    /* y = x Phi(x), the exact form with erf, to 4 ulp of the larger of |y| and 1e-3. May be in place.
     * TOLERANT. */
    void (*gelu)(float *y, const float *x, size_t n);
    /* What backward wants of GELU and dropout, from x alone: y[i] = factor gelu(x[i]), as slots gelu and
       dropout make it, and slope[i] = factor (Phi(x[i]) + x[i] phi(x[i])), factor being what dropout
       multiplies by, or 1 where threshold is 0 and nothing is drawn. y may be x. TOLERANT; the factors are
       EXACT. */
    void (*gelu_again)(float *y, float *slope, const float *x, size_t n, uint64_t key, uint64_t first,
                       unsigned threshold, float scale);
    /* y *= x. EXACT. */
    void (*multiply)(float *y, const float *x, size_t n);
    /* y[i] = gate[i] <= 0 ? 0 : x[i]; y may be x or gate. With gate = x max(x, 0), where a NaN stays; with
       that as gate its slope times x. EXACT. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);
    /* y += a x. EXACT (one fused multiply-add each). */
    void (*axpy)(float *y, float a, const float *x, size_t n);
    /* y[i][c] += bias[c]. EXACT. */
    void (*add_bias)(float *y, size_t ld_y, const float *bias, size_t n, size_t dim);
    /* dbias[c] += sum over i, in order, of dy[i][c]. EXACT. */
    void (*add_bias_backward)(float *dbias, const float *dy, size_t n, size_t dim);
    /* Depth-wise convolution along the sequence, `taps` odd, centred, zeros outside [0, n):
       y[i][c] += sum over t of filter[t] * x[i + t - taps/2][c], t rising, fused. EXACT. Backward for x is
       the same slot with the filter reversed. */
    void (*convolve)(float *y, size_t ld_y, const float *x, size_t ld_x, const float *filter, size_t taps,
                     size_t n, size_t dim);
    /* y[i] = [residual: residual[i] +] (draw i >= threshold ? scale : 0) * x[i], each operation rounded; draw
       i is the i-th 16-bit piece, low half first, of the words random_words(key, first), random_words(key,
       first + 1), ...: eight draws a block. residual may be NULL; y may be x or residual. threshold is 1 to
       65535. EXACT. */
    void (*dropout)(float *y, const float *residual, const float *x, size_t n, uint64_t key, uint64_t first,
                    unsigned threshold, float scale);
    /* Whether no number of x (rows, cols) is NaN or infinite. EXACT. */
    bool (*all_finite)(const float *x, size_t ld, size_t rows, size_t cols);
    /* Sum of squares in double, over blocks of 4096 in order. TOLERANT. */
    double (*sum_squares)(const float *x, size_t n);
    /* One AdamW step on a block of n: m, v moments; w values; g gradients (read, times gradient_scale).
     * TOLERANT. */
    void (*adamw_step)(float *w, float *m, float *v, const float *g, size_t n, const struct adamw *step);

    /* ---- the machine --------------------------------------------------------------------------------------
     */

    /* rounds * FUSED_LOOP_OPERATIONS floating-point operations (two per fused multiply-add) that touch
       registers alone: what this table's instructions can reach at best. Returns some number, so that the
       work is not dropped. */
    float (*fused_loop)(size_t rounds);
    /* The same for the multiply-adds of bf16_product, FUSED_LOOP_OPERATIONS a round too. */
    float (*bf16_loop)(size_t rounds);
};

enum { FUSED_LOOP_OPERATIONS = 3840 };

/* Words of enum hash_projection, ended by NULL. */
extern const char *const hash_projection_names[];

/* See bucket_pairs. */
#define PAIR_SHRINK 0.99f
/* See PAIR_FLOORED: 1 - x^2 is no less than 1e-4. */
#define PAIR_LEAST_SINE 0.01f

/* See collision_tile: below it, 1 - |x| has at most about 12 good bits. */
#define COLLISION_NEAR 2e-3f

/* See HASH_INT8_DP: sums of 255 x 127 and the start stay within 31 bits. */
enum { HASH_INT8_MOST = 32768 };

/* What `wanted` means with this table: itself, and for HASH_AUTO the fastest that is as good as float32. */
enum hash_projection hash_projection_of(const struct kernels *kernels, enum hash_projection wanted);

/* The table that `name` asks for ("ref avx2 avx512 avx512bf16", or NULL or "auto": the best that runs here,
   capped by the environment variable HASHATTN_ISA, which caps by-name requests and kernels_all too). NULL
   when it is unknown, above the cap, or this processor or its operating system cannot run it; then *why is a
   constant sentence. */
const struct kernels *kernels_named(const char *name, const char **why);

/* Every table that runs here and is not above the cap, narrowest first, ended by NULL; for tests and benches.
 */
const struct kernels *const *kernels_all(void);

/* Names of all tables known to the source, whether they run here or not, ended by NULL. */
const char *const *kernels_names(void);

#endif
