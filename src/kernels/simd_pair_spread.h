/* Gradients of the pairs of a block from their weights: the gradients of a few keys stay in registers while
   the queries pass. A row's result is one chain over its partners in order, wherever the blocks are cut. Each
   broadcast of a weight serves both sides.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIR_SPREAD_H
#define KERNELS_SIMD_PAIR_SPREAD_H

#include "kernels/simd_pair_sums.h"

enum {
    SPREAD_VECTORS = 2, /* of a row in registers: with 16, gradients of 5 keys fill them */
    SPREAD_KEPT = BLOCK_VECTORS > 2 ? 6 : 2, /* up to so many keys stay in registers with their gradients */
    PAIR_LINE = 16,                          /* floats of a cache line */
    PAIR_FETCH = 64,                         /* rows: more would evict prefetched ones */
};

/* Rows of later buckets, prefetched one by one between multiply-adds: a processor has about two dozen misses
   under way at a time, so the 192 lines of a bucket of 8 x 8 at once would make it wait. Every block of a
   bucket takes its share of the rows, and every pass over some columns their lines. */
struct pair_ahead {
    const float *rows[PAIR_FETCH + PAIR_QUERIES]; /* those beyond count: any addresses */
    size_t count;
    size_t lines;      /* of a row; 0: nothing is prefetched */
    size_t first, end; /* rows of the present block */
    size_t line;       /* the first line that has not been prefetched */
};

/* Begins a block: `blocks` of the bucket are left, with this one. */
INLINE void pair_ahead_begin(struct pair_ahead *ahead, size_t blocks)
{
    ahead->first = ahead->end;
    ahead->end += (ahead->count - ahead->end + blocks - 1) / blocks;
    ahead->line = 0;
}

/* Prefetches lines [line, line + lines) of a row. */
INLINE void pair_prefetch(const float *row, size_t line, const size_t lines)
{
    const float *at = v_address(row + line * PAIR_LINE);
    UNROLLED
    for (size_t l = 0; l < lines; l++)
        __builtin_prefetch(at + l * PAIR_LINE);
}

/* Lines of a row [unit, gradient, value] that belong to a pass over `vectors` of each. */
INLINE size_t pair_lines(const size_t vectors)
{
    return (3 * vectors * VLEN + PAIR_LINE - 1) / PAIR_LINE;
}

/* Ends a pass in which the first `fetched` rows of the block had their `lines` lines prefetched: prefetches
   those of the others. */
INLINE void pair_ahead_passed(struct pair_ahead *ahead, size_t fetched, const size_t lines)
{
    for (size_t r = ahead->first + fetched; r < ahead->end; r++)
        pair_prefetch(ahead->rows[r], ahead->line, lines);
    ahead->line += lines;
}

/* Ends a block: prefetches the lines that no pass took. */
INLINE void pair_ahead_end(struct pair_ahead *ahead)
{
    for (; ahead->line < ahead->lines; ahead->line++)
        for (size_t r = ahead->first; r < ahead->end; r++)
            pair_prefetch(ahead->rows[r], ahead->line, 1);
}

/* Columns [c, c + VLEN * vectors) of the gradients of `some` keys and of all queries; `left` columns of the
   last vector exist. */
INLINE void pair_spread_keys(const size_t vectors, const size_t left, const size_t some,
                             const struct pair_side *queries, const struct pair_side *keys,
                             const float *weight, size_t c, struct pair_ahead *ahead)
{
    const bool kept = some <= SPREAD_KEPT, fetch = ahead->lines > 0;
    /* Local, because a compiler assumes that a vector written may be any of these. */
    const uint32_t *rows = queries->rows;
    const float *x = queries->x + c, *const *next = ahead->rows + ahead->first;
    float *dx = queries->dx + c, *to[PAIR_KEYS];
    const size_t ld = queries->ld, count = queries->count, line = ahead->line;
    const float *from[PAIR_KEYS];
    vf key[PAIR_KEYS][SPREAD_VECTORS], dkey[PAIR_KEYS][SPREAD_VECTORS];
    UNROLLED
    for (size_t k = 0; k < some; k++) {
        size_t at = keys->rows[k] * keys->ld + c;
        from[k] = keys->x + at;
        to[k] = keys->dx + at;
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            if (kept)
                key[k][v] = v_get(from[k] + v * VLEN, left);
            dkey[k][v] = v_get(to[k] + v * VLEN, left);
        }
    }
    for (size_t q = 0; q < count; q++, weight += some) {
        const float *own = x + rows[q] * ld;
        float *gradient = dx + rows[q] * ld;
        vf query[SPREAD_VECTORS], dquery[SPREAD_VECTORS];
        if (fetch)
            pair_prefetch(next[q], line, pair_lines(vectors));
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            query[v] = v_get(own + v * VLEN, left);
            dquery[v] = v_get(gradient + v * VLEN, left);
        }
        UNROLLED
        for (size_t k = 0; k < some; k++) {
            vf each = v_set(weight[k]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++) {
                dquery[v] = v_fma(each, kept ? key[k][v] : v_get(from[k] + v * VLEN, left), dquery[v]);
                dkey[k][v] = v_fma(each, query[v], dkey[k][v]);
            }
        }
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(gradient + v * VLEN, dquery[v], left);
    }
    UNROLLED
    for (size_t k = 0; k < some; k++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(to[k] + v * VLEN, dkey[k][v], left);
    }
    pair_ahead_passed(ahead, count, pair_lines(vectors));
}

INLINE void pair_spread_columns(const size_t some, const struct pair_side *queries,
                                const struct pair_side *keys, const float *weight, size_t dim,
                                struct pair_ahead *ahead)
{
    size_t c = 0;
    for (; c + SPREAD_VECTORS * VLEN <= dim; c += SPREAD_VECTORS * VLEN)
        pair_spread_keys(SPREAD_VECTORS, VLEN, some, queries, keys, weight, c, ahead);
    for (; c < dim; c += VLEN)
        pair_spread_keys(1, dim - c < VLEN ? dim - c : VLEN, some, queries, keys, weight, c, ahead);
}

/* dquery_i += w_ij key_j and dkey_j += w_ij query_i, weight as pair_products lays it out. */
static void pair_spread(const struct pair_side *queries, const struct pair_side *keys, const float *weight,
                        size_t dim, struct pair_ahead *ahead){
#define CALL(some) pair_spread_columns(some, queries, keys, weight, dim, ahead)
    FOR_PAIR_KEYS(keys->count, CALL)
#undef CALL
}

/* For one or two queries: with x = key - sigma query, dquery += w x and dkey -= sigma w x, so that both share
   one subtraction. */
INLINE void pair_tangent_block(const size_t rows, const size_t vectors, const size_t left,
                               const struct pair_side *queries, size_t first, const struct pair_side *keys,
                               const float *weight, const float *sigma, size_t step, size_t c)
{
    vf sum[2][BLOCK_VECTORS], own[2][BLOCK_VECTORS], key[BLOCK_VECTORS], dkey[BLOCK_VECTORS];
    UNROLLED
    for (size_t r = 0; r < rows; r++) {
        size_t at = queries->rows[first + r] * queries->ld + c;
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = v_get(queries->dx + at + v * VLEN, left);
            own[r][v] = v_get(queries->x + at + v * VLEN, left);
        }
    }
    for (size_t k = 0; k < keys->count; k++) {
        size_t at = keys->rows[k] * keys->ld + c;
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            key[v] = v_get(keys->x + at + v * VLEN, left);
            dkey[v] = v_get(keys->dx + at + v * VLEN, left);
        }
        UNROLLED
        for (size_t r = 0; r < rows; r++) {
            size_t pair = (first + r) * step + k;
            vf w = v_set(weight[pair]), along = v_set(sigma[pair]), back = v_set(weight[pair] * sigma[pair]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++) {
                vf x = v_fnma(along, own[r][v], key[v]);
                sum[r][v] = v_fma(w, x, sum[r][v]);
                dkey[v] = v_fnma(back, x, dkey[v]);
            }
        }
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(keys->dx + at + v * VLEN, dkey[v], left);
    }
    UNROLLED
    for (size_t r = 0; r < rows; r++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(queries->dx + queries->rows[first + r] * queries->ld + c + v * VLEN, sum[r][v], left);
    }
}

INLINE void pair_tangent_columns(const size_t vectors, const size_t left, const struct pair_side *queries,
                                 const struct pair_side *keys, const float *weight, const float *sigma,
                                 size_t step, size_t c, struct pair_ahead *ahead)
{
    size_t r = 0;
    for (; r + 2 <= queries->count; r += 2)
        pair_tangent_block(2, vectors, left, queries, r, keys, weight, sigma, step, c);
    if (r < queries->count)
        pair_tangent_block(1, vectors, left, queries, r, keys, weight, sigma, step, c);
    pair_ahead_passed(ahead, 0, pair_lines(vectors));
}

INLINE void pair_add_tangents(const struct pair_side *queries, const struct pair_side *keys,
                              const float *weight, const float *sigma, size_t step, size_t dim,
                              struct pair_ahead *ahead)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        pair_tangent_columns(BLOCK_VECTORS, VLEN, queries, keys, weight, sigma, step, c, ahead);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        pair_tangent_columns(2, VLEN, queries, keys, weight, sigma, step, c, ahead);
    for (; c + VLEN <= dim; c += VLEN)
        pair_tangent_columns(1, VLEN, queries, keys, weight, sigma, step, c, ahead);
    if (c < dim)
        pair_tangent_columns(1, dim - c, queries, keys, weight, sigma, step, c, ahead);
}

#endif
