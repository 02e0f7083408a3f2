/* Attention over few rows of a cache: scores of keys from their codes, a sample by scores, and the rows of
   the sample.

   Scores: a table of 16 bytes, repeated, fills a register, so one shuffle looks up a byte of each row of a
   block at once (Andre, Kermarrec, Le Scouarnec 2015, PQ fast scan). Four entries add up in a byte; the sums
   of the upper bytes of 16-bit halves, and of whole halves, which give those of the lower ones, are added in
   16 bits. A block's rows lie so that the four bytes of a 32-bit lane belong to rows 16 apart, and the sums
   leave as vectors of neighbouring rows. Two bytes of the code cost a register of rows four shuffles and six
   other operations for a query; their digits are cut out once for DECODE_TOGETHER queries.
   Importance: an exponential would take fourteen operations. A chance needs no exact one, because the weight
   of a row is the inverse of the chance that it had: a multiply-add, a conversion and a comparison, with the
   exponent and the straight piece above it in one integer.
   Sample: chances as integers, so that the carry of their running sum says what is taken. The sum of a vector
   is formed in log2 VLEN shifted additions; only one addition per vector depends on the one before.
   Rows: products of four rows with DECODE_TOGETHER queries share their loads and the sums across lanes. The
   rows lie far apart: those FETCH_AHEAD later are fetched, all their lines, which is what limits the time if
   the cache is not in the processor's. They go to the second-level cache, as the first one's misses are soon
   used up: 0.9 of the time of `attend` for 131,072 rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_DECODE_H
#define KERNELS_SIMD_DECODE_H

#include <math.h>
#include <stdbool.h>

#include "kernels/simd_math.h"
#include "kernels/slots_decode.h"

enum {
    DECODE_TOGETHER = BLOCK_VECTORS, /* queries: 16 registers of sums with AVX-512, 8 of 16 with AVX2 */
    DECODE_FETCH_AHEAD = 24,         /* rows */
    DECODE_LINE = 64                 /* bytes */
};

/* Element c and those after it of a row; `left` of them exist. */
INLINE vf decode_elements(const bool halves, const unsigned char *row, size_t c, size_t left)
{
    if (halves)
        return v_from(
            u_left(u_widen_shorts((const bf16 *)(const void *)row + c, left < VLEN ? left : VLEN), 16));
    return v_get((const float *)(const void *)row + c, left);
}

/* ---- scores -------------------------------------------------------------------------------------------- */

/* The digits of two bytes of the code of each row. */
struct decode_digits {
    vu digit[4];
};

INLINE struct decode_digits decode_digits_at(const uint8_t *codes)
{
    vu nibble = u_set(0x0f0f0f0f);
    vu first = u_load((const uint32_t *)(const void *)codes);
    vu second = u_load((const uint32_t *)(const void *)(codes + DECODE_BLOCK));
    return (struct decode_digits){{u_and(first, nibble), u_and(u_right(first, 4), nibble),
                                   u_and(second, nibble), u_and(u_right(second, 4), nibble)}};
}

INLINE vu decode_table(const uint8_t *tables, size_t digit)
{
    return u_load((const uint32_t *)(const void *)(tables + digit * DECODE_TABLE));
}

/* The scores of four vectors of rows, 16 apart, from `first` on. */
INLINE void decode_lanes(const size_t count, float *out, size_t ld_out, const uint8_t *codes,
                         const bf16 *scale, size_t bytes, const struct decode_query *query, size_t first)
{
    vu all[DECODE_TOGETHER], upper[DECODE_TOGETHER], short_low = u_set(0xffff);
    UNROLLED
    for (size_t i = 0; i < count; i++)
        all[i] = upper[i] = u_set(0);
    for (size_t b = 0; b < bytes; b += 2) {
        struct decode_digits at = decode_digits_at(codes + b * DECODE_BLOCK + 4 * first);
        UNROLLED
        for (size_t i = 0; i < count; i++) {
            const uint8_t *tables = query[i].tables + 2 * b * DECODE_TABLE;
            vu low = u_add(u_lookup16(decode_table(tables, 0), at.digit[0]),
                           u_lookup16(decode_table(tables, 1), at.digit[1]));
            vu high = u_add(u_lookup16(decode_table(tables, 2), at.digit[2]),
                            u_lookup16(decode_table(tables, 3), at.digit[3]));
            vu four = u_add(low, high);
            all[i] = u_add_halves(all[i], four);
            upper[i] = u_add_halves(upper[i], u_upper_bytes(four));
        }
    }
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        vf step = v_set(query[i].step), least = v_set(query[i].least), base = v_set(query[i].base);
        vu lower = u_sub_halves(all[i], u_left(u_and(upper[i], u_set(0x00ff00ff)), 8));
        vu sum[4] = {u_and(lower, short_low), u_and(upper[i], short_low), u_right(lower, 16),
                     u_right(upper[i], 16)};
        UNROLLED
        for (size_t k = 0; k < 4; k++) {
            size_t row = 16 * k + first;
            vf dot = v_fma(step, v_of_whole(sum[k]), least);
            vf scales = decode_elements(true, (const unsigned char *)(scale + row), 0, VLEN);
            v_store(out + i * ld_out + row, v_fma(scales, dot, base));
        }
    }
}

static void decode_scores(float *out, size_t ld_out, const uint8_t *codes, const bf16 *scale, size_t bytes,
                          const struct decode_query *query, size_t queries)
{
    size_t i = 0;
    for (; i + DECODE_TOGETHER <= queries; i += DECODE_TOGETHER)
        for (size_t first = 0; first < 16; first += VLEN)
            decode_lanes(DECODE_TOGETHER, out + i * ld_out, ld_out, codes, scale, bytes, query + i, first);
    for (; i < queries; i++)
        for (size_t first = 0; first < 16; first += VLEN)
            decode_lanes(1, out + i * ld_out, ld_out, codes, scale, bytes, query + i, first);
}

/* ---- a sample ------------------------------------------------------------------------------------------ */

/* 2^y in straight pieces, for z = 2^23 (y + 127). */
INLINE vf decode_power(vf z)
{
    vf top = v_min(z, v_set(227 * 0x1p23f));
    return v_from(u_round(v_select(v_less(z, v_set(0x1p23f)), v_zero(), top)));
}

static double decode_importance(float *out, const float *x, size_t ld, size_t rows, size_t n, float factor,
                                const float *shift)
{
    enum { AT_ONCE = 4 };
    vf scale = v_set(factor * 0x1p23f), all[AT_ONCE];
    UNROLLED
    for (size_t u = 0; u < AT_ONCE; u++)
        all[u] = v_zero();
    for (size_t j = 0; j < n; j += AT_ONCE * VLEN) {
        vf sum[AT_ONCE];
        UNROLLED
        for (size_t u = 0; u < AT_ONCE; u++)
            sum[u] = v_zero();
        for (size_t i = 0; i < rows; i++) {
            vf shifts = v_set((shift[i] + 127) * 0x1p23f);
            UNROLLED
            for (size_t u = 0; u < AT_ONCE; u++)
                sum[u] = v_add(sum[u], decode_power(v_fma(v_load(x + i * ld + j + u * VLEN), scale, shifts)));
        }
        UNROLLED
        for (size_t u = 0; u < AT_ONCE; u++) {
            v_store(out + j + u * VLEN, sum[u]);
            all[u] = v_add(all[u], sum[u]);
        }
    }
    return (double)v_sum(v_add(v_add(all[0], all[1]), v_add(all[2], all[3])));
}

static double decode_sum_below(const float *x, size_t n, float bound)
{
    enum { AT_ONCE = DECODE_BLOCK / VLEN, RUN = 64 * DECODE_BLOCK };
    vf bounds = v_set(bound), zero = v_zero();
    double sum = 0;
    for (size_t first = 0; first < n; first += RUN) {
        vf part[AT_ONCE];
        UNROLLED
        for (size_t u = 0; u < AT_ONCE; u++)
            part[u] = zero;
        for (size_t j = first; j < n && j < first + RUN; j += DECODE_BLOCK) {
            UNROLLED
            for (size_t u = 0; u < AT_ONCE; u++) {
                vf each = v_load(x + j + u * VLEN);
                part[u] = v_add(part[u], v_select(v_less(bounds, each), zero, each));
            }
        }
        UNROLLED
        for (size_t u = 1; u < AT_ONCE; u++)
            part[0] = v_add(part[0], part[u]);
        sum += (double)v_sum(part[0]);
    }
    return sum;
}

static size_t decode_sample(uint32_t *row, const float *x, size_t n, float bound, float factor,
                            uint32_t start)
{
    vf bounds = v_set(bound), under = v_set(nextafterf(bound, 0)), factors = v_set(factor);
    vu before = u_set(start);
    size_t count = 0;
    for (size_t j = 0; j < n; j += DECODE_BLOCK) {
        vm taken[DECODE_BLOCK / VLEN];
        UNROLLED
        for (size_t v = 0; v < DECODE_BLOCK / VLEN; v++) {
            vf each = v_load(x + j + v * VLEN);
            vf chance = v_select(v_less(each, bounds), v_mul(each, factors), v_zero());
            vu step = u_left(u_round(chance), 1), sums = u_prefix(step);
            vu running = u_add(before, sums);
            before = u_add(before, u_last(sums));
            taken[v] = v_either(u_below(running, step), v_less(under, each));
        }
        count += u_list64(row + count, taken, (uint32_t)j);
    }
    return count;
}

/* ---- rows anywhere in memory --------------------------------------------------------------------------- */

INLINE void decode_fetch(const struct decode_rows *rows, size_t r)
{
    if (r < rows->count)
        for (size_t at = 0; at < rows->ahead; at += DECODE_LINE)
            __builtin_prefetch(rows->row[r] + at, 0, 2);
}

/* Four rows, of which `exist` exist, with `count` queries. */
INLINE void decode_dots(const size_t count, const bool halves, float *out, size_t ld_out,
                        const struct decode_rows *rows, size_t first, const float *query)
{
    size_t exist = rows->count - first < 4 ? rows->count - first : 4, cols = rows->cols;
    const unsigned char *row[4];
    vf sum[DECODE_TOGETHER][4];
    UNROLLED
    for (size_t r = 0; r < 4; r++)
        row[r] = rows->row[first + (r < exist ? r : 0)];
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        UNROLLED
        for (size_t r = 0; r < 4; r++)
            sum[i][r] = v_zero();
    }
    for (size_t c = 0; c < cols; c += VLEN) {
        vf each[4];
        UNROLLED
        for (size_t r = 0; r < 4; r++)
            each[r] = decode_elements(halves, row[r], c, cols - c);
        UNROLLED
        for (size_t i = 0; i < count; i++) {
            vf q = v_get(query + i * cols + c, cols - c);
            UNROLLED
            for (size_t r = 0; r < 4; r++)
                sum[i][r] = v_fma(q, each[r], sum[i][r]);
        }
    }
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        float sums[4], *to = out + i * ld_out + first;
        v_sum4(exist == 4 ? to : sums, sum[i][0], sum[i][1], sum[i][2], sum[i][3], 0.0f, 1.0f);
        for (size_t r = 0; exist < 4 && r < exist; r++)
            to[r] = sums[r];
    }
}

INLINE void decode_all_dots(const bool halves, float *out, size_t ld_out, const struct decode_rows *rows,
                            const float *query, size_t queries)
{
    for (size_t r = 0; r < DECODE_FETCH_AHEAD; r++)
        decode_fetch(rows, r);
    for (size_t first = 0; first < rows->count; first += 4) {
        size_t i = 0;
        for (size_t r = 0; r < 4; r++)
            decode_fetch(rows, first + DECODE_FETCH_AHEAD + r);
        for (; i + DECODE_TOGETHER <= queries; i += DECODE_TOGETHER)
            decode_dots(DECODE_TOGETHER, halves, out + i * ld_out, ld_out, rows, first,
                        query + i * rows->cols);
        for (; i < queries; i++)
            decode_dots(1, halves, out + i * ld_out, ld_out, rows, first, query + i * rows->cols);
    }
}

static void decode_row_dots(float *out, size_t ld_out, const struct decode_rows *rows, const float *query,
                            size_t queries)
{
    if (rows->dtype == DTYPE_BFLOAT16)
        decode_all_dots(true, out, ld_out, rows, query, queries);
    else
        decode_all_dots(false, out, ld_out, rows, query, queries);
}

/* The columns from `first` on, `vectors` of them, `left` in the last, for `count` rows of weights. */
INLINE void decode_sums(const size_t count, const size_t vectors, const size_t left, const bool halves,
                        float *out, float *squares, const float *weight, size_t ld_weight,
                        const struct decode_rows *rows, size_t first)
{
    vf sum[4][BLOCK_VECTORS], square[4];
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        square[i] = v_zero();
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[i][v] = v_zero();
    }
    for (size_t r = 0; r < rows->count; r++) {
        vf each[BLOCK_VECTORS], length = v_zero();
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            each[v] = decode_elements(halves, rows->row[r], first + v * VLEN, v + 1 < vectors ? VLEN : left);
            length = v_fma(each[v], each[v], length);
        }
        UNROLLED
        for (size_t i = 0; i < count; i++) {
            vf w = v_set(weight[i * ld_weight + r]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[i][v] = v_fma(w, each[v], sum[i][v]);
            square[i] = squares != NULL ? v_fma(w, length, square[i]) : square[i];
        }
    }
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            float *to = out + i * rows->cols + first + v * VLEN;
            size_t exist = v + 1 < vectors ? VLEN : left;
            v_put(to, v_add(v_get(to, exist), sum[i][v]), exist);
        }
        if (squares != NULL)
            squares[i] += v_sum(square[i]);
    }
}

INLINE void decode_all_sums(const size_t count, const bool halves, float *out, float *squares,
                            const float *weight, size_t ld_weight, const struct decode_rows *rows)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= rows->cols; c += BLOCK_VECTORS * VLEN)
        decode_sums(count, BLOCK_VECTORS, VLEN, halves, out, squares, weight, ld_weight, rows, c);
    for (; c < rows->cols; c += VLEN)
        decode_sums(count, 1, rows->cols - c < VLEN ? rows->cols - c : VLEN, halves, out, squares, weight,
                    ld_weight, rows, c);
}

static void decode_row_sums(float *out, float *squares, const float *weight, size_t ld_weight, size_t weights,
                            const struct decode_rows *rows)
{
    bool halves = rows->dtype == DTYPE_BFLOAT16;
    for (size_t i = 0; i < weights;) {
        float *to = out + i * rows->cols, *square = squares != NULL ? squares + i : NULL;
        const float *from = weight + i * ld_weight;
        size_t count = weights - i >= 4 ? 4 : 1;
        if (count == 4 && halves)
            decode_all_sums(4, true, to, square, from, ld_weight, rows);
        else if (count == 4)
            decode_all_sums(4, false, to, square, from, ld_weight, rows);
        else if (halves)
            decode_all_sums(1, true, to, square, from, ld_weight, rows);
        else
            decode_all_sums(1, false, to, square, from, ld_weight, rows);
        i += count;
    }
}

#define SIMD_DECODE                                                                                          \
    .decode.scores = decode_scores, .decode.importance = decode_importance,                                  \
    .decode.sum_below = decode_sum_below, .decode.sample = decode_sample,                                    \
    .decode.row_dots = decode_row_dots, .decode.row_sums = decode_row_sums

#endif
