/* Gradients of the pairs that share a bucket, in blocks of PAIR_QUERIES x PAIR_KEYS. The first step computes
   the weight of every pair of the block: dot products of SUM_ROWS queries by four keys at a time, so that
   each row read serves several and the lane sums are computed together. The second step computes dquery and
   dkey: a few result rows stay in registers while the other side passes. A row's result is one chain over its
   partners in order, wherever the blocks are cut. Per pair 2 value_dim + 4 dim operations; the tangent form
   adds 5 dim and about 30 for the angle.
   Measured on Zen 5, buckets of about 8 x 8, dim 64, nanoseconds a pair (arithmetic only: 6 and 12 cycles,
   1.7 and 3.4): rows in the first-level cache 2.5, tangent 5.0, two fifths of it dot products (four queries
   at a time saved a tenth of the total over two); 16 x 16 2.1 and 4.6. From the third-level cache (n 4096) it
   takes 1.5 more; there, one row that holds query, dout and dquery saves a tenth.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIRS_H
#define KERNELS_SIMD_PAIRS_H

#include "kernels/simd_math.h"
#include "kernels/slots_pairs.h"

enum { PAIR_QUERIES = 16, PAIR_KEYS = 32, PAIR_ROWS = 4, PAIR_MOST = PAIR_QUERIES * PAIR_KEYS };

/* v2 below this is not computed as 4 - u2. */
#define PAIR_OPPOSITE 0.25f

/* One side of a block: rows of a matrix by index, and the gradient of the same shape. */
struct pair_side {
    const float *x;
    float *dx;
    size_t ld, count;
    const uint32_t *rows;
};

/* Row stride of the values of a block: that of query q and key k is at q * step + k. step is a multiple of 4
   for v_sum4, and the block is dense, so that later loops run over whole vectors. */
INLINE size_t pair_step(size_t keys)
{
    return (keys + 3) / 4 * 4;
}

/* sum + a b, or sum + (a - b)^2 */
INLINE vf pair_part(const bool distance, vf a, vf b, vf sum)
{
    vf c = v_sub(a, b);
    return distance ? v_fma(c, c, sum) : v_fma(a, b, sum);
}

/* One vector of columns of `queries` by four dot products. Rows are loaded into variables first: a compiler
   that folds loads into the multiplications loads each row of b once per query. */
INLINE void pair_parts(const bool distance, const size_t queries, vf sum[4][4], const float *const a[4],
                       const float *const b[4], size_t c, size_t left)
{
    vf own[4];
    UNROLLED
    for (size_t q = 0; q < queries; q++)
        own[q] = v_get(a[q] + c, left);
    UNROLLED
    for (size_t k = 0; k < 4; k++) {
        vf other = v_get(b[k] + c, left);
        UNROLLED
        for (size_t q = 0; q < queries; q++)
            sum[q][k] = pair_part(distance, own[q], other, sum[q][k]);
    }
}

/* out = (<a, b> + shift) * factor, or (|a - b|^2 + shift) * factor, of `queries` <= SUM_ROWS rows of a and
   all rows of b, four rows of b at a time. */
INLINE void pair_sums(const bool distance, const size_t queries, float *out, size_t step,
                      const float *const a[4], const float *b, size_t ld_b, const uint32_t *b_rows,
                      size_t keys, size_t dim, const float shift[4], float factor)
{
    for (size_t j = 0; j < keys; j += 4) {
        vf sum[4][4];
        const float *row[4];
        size_t c = 0;
        UNROLLED
        for (size_t k = 0; k < 4; k++) {
            /* Missing keys repeat the last one; out has room for them. */
            row[k] = b + b_rows[j + k < keys ? j + k : keys - 1] * ld_b;
            UNROLLED
            for (size_t q = 0; q < queries; q++)
                sum[q][k] = v_zero();
        }
        for (; c + VLEN <= dim; c += VLEN)
            pair_parts(distance, queries, sum, a, row, c, VLEN);
        if (c < dim)
            pair_parts(distance, queries, sum, a, row, c, dim - c);
        if (queries == 4)
            v_sum4x4(out + j, step, sum, shift, factor);
        else {
            UNROLLED
            for (size_t q = 0; q < queries; q++)
                v_sum4(out + q * step + j, sum[q][0], sum[q][1], sum[q][2], sum[q][3], shift[q], factor);
        }
    }
}

INLINE void pair_sums_all(const bool distance, float *out, const float *a, size_t ld_a,
                          const struct pair_side *queries, const float *b, size_t ld_b,
                          const struct pair_side *keys, size_t dim, const float *bias, float factor)
{
    size_t step = pair_step(keys->count);
    for (size_t q = 0; q < queries->count; q += SUM_ROWS) {
        const float *rows[4];
        float shift[4];
        UNROLLED
        for (size_t r = 0; r < SUM_ROWS; r++) { /* missing queries repeat the last one too */
            size_t row = queries->rows[q + r < queries->count ? q + r : queries->count - 1];
            rows[r] = a + row * ld_a;
            shift[r] = bias == NULL ? 0.0f : bias[row];
        }
        if (SUM_ROWS > 2 && q + 2 < queries->count)
            pair_sums(distance, SUM_ROWS, out + q * step, step, rows, b, ld_b, keys->rows, keys->count, dim,
                      shift, factor);
        else
            pair_sums(distance, 2, out + q * step, step, rows, b, ld_b, keys->rows, keys->count, dim, shift,
                      factor);
    }
}

/* Rows [first, first + rows) of dx += W other, columns [0, VLEN * vectors) from the pointers on, of which
   `left` of the last vector exist. */
INLINE void pair_spread_block(const size_t rows, const size_t vectors, const size_t left,
                              const struct pair_side *side, size_t first, const struct pair_side *others,
                              const float *weight, size_t step_row, size_t step_other, size_t c)
{
    vf sum[PAIR_ROWS][BLOCK_VECTORS], other[BLOCK_VECTORS];
    float *dx[PAIR_ROWS];
    UNROLLED
    for (size_t r = 0; r < rows; r++) {
        dx[r] = side->dx + side->rows[first + r] * side->ld + c;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = v_get(dx[r] + v * VLEN, left);
    }
    for (size_t k = 0; k < others->count; k++) {
        const float *partner = others->x + others->rows[k] * others->ld + c;
        const float *each = weight + first * step_row + k * step_other;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            other[v] = v_get(partner + v * VLEN, left);
        UNROLLED
        for (size_t r = 0; r < rows; r++) {
            vf w = v_set(each[r * step_row]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[r][v] = v_fma(w, other[v], sum[r][v]);
        }
    }
    UNROLLED
    for (size_t r = 0; r < rows; r++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(dx[r] + v * VLEN, sum[r][v], left);
    }
}

INLINE void pair_spread_columns(const size_t vectors, const size_t left, const struct pair_side *side,
                                const struct pair_side *others, const float *weight, size_t step_row,
                                size_t step_other, size_t c)
{
    size_t r = 0;
    while (r < side->count) {
        /* Even blocks: 5 rows are 3 + 2, because a block of one row waits for its loads. */
        size_t todo = side->count - r, blocks = (todo + PAIR_ROWS - 1) / PAIR_ROWS;
        size_t rows = (todo + blocks - 1) / blocks;
        if (rows == 4)
            pair_spread_block(4, vectors, left, side, r, others, weight, step_row, step_other, c);
        else if (rows == 3)
            pair_spread_block(3, vectors, left, side, r, others, weight, step_row, step_other, c);
        else if (rows == 2)
            pair_spread_block(2, vectors, left, side, r, others, weight, step_row, step_other, c);
        else
            pair_spread_block(1, vectors, left, side, r, others, weight, step_row, step_other, c);
        r += rows;
    }
}

INLINE void pair_spread(const struct pair_side *side, const struct pair_side *others, const float *weight,
                        size_t step_row, size_t step_other, size_t dim)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        pair_spread_columns(BLOCK_VECTORS, VLEN, side, others, weight, step_row, step_other, c);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        pair_spread_columns(2, VLEN, side, others, weight, step_row, step_other, c);
    for (; c + VLEN <= dim; c += VLEN)
        pair_spread_columns(1, VLEN, side, others, weight, step_row, step_other, c);
    if (c < dim)
        pair_spread_columns(1, dim - c, side, others, weight, step_row, step_other, c);
}

/* v2 = |q + k|^2 of pairs [first, first + left) of a block, recomputed from the rows for nearly opposite
   pairs. Such pairs rarely collide, and only with few bits. */
static vf pair_opposite(vf v2, size_t first, size_t left, const struct pair_side *queries,
                        const struct pair_side *keys, size_t dim)
{
    size_t step = pair_step(keys->count);
    float lanes[VLEN];
    v_store(lanes, v2);
    for (size_t l = 0; l < left; l++) {
        size_t query = (first + l) / step, key = (first + l) % step;
        if (lanes[l] >= PAIR_OPPOSITE || key >= keys->count)
            continue;
        const float *q = queries->x + queries->rows[query] * queries->ld;
        const float *k = keys->x + keys->rows[key] * keys->ld;
        double sum = 0;
        for (size_t c = 0; c < dim; c++)
            sum += ((double)q[c] + (double)k[c]) * ((double)q[c] + (double)k[c]);
        lanes[l] = (float)sum;
    }
    return v_load(lanes);
}

/* weight *= hash_bits / (p pi s) for a block, from u2 = |q - k|^2; also writes sigma. v2 = |q + k|^2 is 4 -
   u2 for rows of length 1, as accurate as its own sum unless it is small. (A row of length 0 gets some finite
   weight, and so adds multiples of its partner, which the projection on the tangent removes.) */
INLINE void pair_tangent(float *weight, float *sigma, const float *u2, const struct pair_side *queries,
                         const struct pair_side *keys, size_t dim, unsigned hash_bits, float least_sine)
{
    size_t size = queries->count * pair_step(keys->count);
    vf least = v_set(4.0f * least_sine * least_sine); /* the least (2 s)^2 = u2 v2 */
    vf zero = v_zero(), one = v_set(1.0f), bits = v_set(2.0f * (float)hash_bits);
    for (size_t i = 0; i < size; i += VLEN) {
        size_t left = size - i < VLEN ? size - i : VLEN;
        vf u = v_get(u2 + i, left), v = v_sub(v_set(4.0f), u);
        if (v_count(v_less(v, v_set(PAIR_OPPOSITE)), left) > 0)
            v = pair_opposite(v, i, left, queries, keys, dim);
        vm opposite = v_less(v, u);
        vf angle = v_angle(v_select(opposite, v, u));
        vf p_pi = v_select(opposite, angle, v_sub(v_set(3.14159265f), angle));
        vf product = v_mul(p_pi, v_sqrt(v_max(v_mul(u, v), least)));
        vf steep = v_select(v_less(zero, product), v_div(bits, product), zero);
        v_put(weight + i, v_mul(v_get(weight + i, left), steep), left);
        v_put(sigma + i, v_select(opposite, v_sub(zero, one), one), left);
    }
}

/* For one or two queries: with x = key - sigma query, dquery += w x and dkey -= sigma w x, so that both share
   one subtraction. */
INLINE void pair_turn_block(const size_t rows, const size_t vectors, const size_t left,
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
            vf w = v_set(weight[pair]), turn = v_set(sigma[pair]), back = v_set(weight[pair] * sigma[pair]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++) {
                vf x = v_fnma(turn, own[r][v], key[v]);
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

INLINE void pair_turn_columns(const size_t vectors, const size_t left, const struct pair_side *queries,
                              const struct pair_side *keys, const float *weight, const float *sigma,
                              size_t step, size_t c)
{
    size_t r = 0;
    for (; r + 2 <= queries->count; r += 2)
        pair_turn_block(2, vectors, left, queries, r, keys, weight, sigma, step, c);
    if (r < queries->count)
        pair_turn_block(1, vectors, left, queries, r, keys, weight, sigma, step, c);
}

INLINE void pair_turn(const struct pair_side *queries, const struct pair_side *keys, const float *weight,
                      const float *sigma, size_t step, size_t dim)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        pair_turn_columns(BLOCK_VECTORS, VLEN, queries, keys, weight, sigma, step, c);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        pair_turn_columns(2, VLEN, queries, keys, weight, sigma, step, c);
    for (; c + VLEN <= dim; c += VLEN)
        pair_turn_columns(1, VLEN, queries, keys, weight, sigma, step, c);
    if (c < dim)
        pair_turn_columns(1, dim - c, queries, keys, weight, sigma, step, c);
}

/* weight *= hash_bits p^(hash_bits - 1) / (pi s) at PAIR_SHRINK times the cosines x. */
INLINE void pair_shrunk(float *weight, const float *x, size_t size, unsigned hash_bits)
{
    vf one = v_set(1.0f), two = v_set(2.0f), shrink = v_set(PAIR_SHRINK);
    vf per_pi = v_set(0.318309886f), bits_per_pi = v_set(0.318309886f * (float)hash_bits);
    for (size_t i = 0; i < size; i += VLEN) {
        size_t left = size - i < VLEN ? size - i : VLEN;
        vf y = v_mul(shrink, v_get(x + i, left));
        vf share = v_mul(v_angle(v_fnma(two, v_abs(y), two)), per_pi);
        vf p = v_select(v_less(y, v_zero()), share, v_sub(one, share));
        vf sine = v_sqrt(v_mul(v_sub(one, y), v_add(one, y)));
        vf steep = v_div(v_mul(bits_per_pi, v_power(p, hash_bits - 1)), sine);
        v_put(weight + i, v_mul(v_get(weight + i, left), steep), left);
    }
}

/* weight *= times, for a block whose first pair is at times. */
INLINE void pair_times(float *weight, size_t step, const float *times, size_t ld, size_t queries, size_t keys)
{
    for (size_t q = 0; q < queries; q++)
        for (size_t k = 0; k < keys; k += VLEN) {
            float *each = weight + q * step + k;
            v_put(each, v_mul(v_get(each, keys - k), v_get(times + q * ld + k, keys - k)), keys - k);
        }
}

/* `first`: index of the block's first pair in bucket->times. */
static void bucket_block(const struct bucket_pairs *bucket, const struct pair_side *queries,
                         const struct pair_side *keys, size_t first)
{
    float weight[PAIR_MOST];
    size_t step = pair_step(keys->count);
    pair_sums_all(false, weight, bucket->dout, bucket->ld_dout, queries, bucket->value, bucket->ld_value,
                  keys, bucket->value_dim, bucket->bias, bucket->scale);
    if (bucket->times != NULL)
        pair_times(weight, step, bucket->times + first, bucket->ld_times, queries->count, keys->count);
    if (bucket->weight == PAIR_SHRUNK) {
        float x[PAIR_MOST];
        pair_sums_all(false, x, queries->x, queries->ld, queries, keys->x, keys->ld, keys, bucket->dim, NULL,
                      1.0f);
        pair_shrunk(weight, x, queries->count * step, bucket->hash_bits);
    }
    bool plain = bucket->weight != PAIR_TANGENT;
    if (!plain || bucket->weight == PAIR_FLOORED) {
        float u2[PAIR_MOST], sigma[PAIR_MOST];
        pair_sums_all(true, u2, queries->x, queries->ld, queries, keys->x, keys->ld, keys, bucket->dim, NULL,
                      1.0f);
        pair_tangent(weight, sigma, u2, queries, keys, bucket->dim, bucket->hash_bits,
                     plain ? PAIR_LEAST_SINE : 0.0f);
        if (!plain)
            pair_turn(queries, keys, weight, sigma, step, bucket->dim);
    }
    if (plain) {
        pair_spread(queries, keys, weight, step, 1, bucket->dim);
        pair_spread(keys, queries, weight, 1, step, bucket->dim);
    }
}

/* Pairs of constant weight if a row is a few whole vectors: `keys` keys and their gradients stay in
   registers while the queries pass. The dot products of a query become broadcast weights and never leave
   the registers. */
INLINE void pair_pass(const size_t vectors, const size_t keys, const struct bucket_pairs *bucket,
                      const uint32_t *numbers)
{
    vf k[4][BLOCK_VECTORS], dk[4][BLOCK_VECTORS], scale = v_set(bucket->scale);
    const float *value[4];
    UNROLLED
    for (size_t j = 0; j < keys; j++) {
        const float *key = bucket->key + numbers[j] * bucket->ld_key,
                    *dkey = bucket->dkey + numbers[j] * bucket->ld_key;
        value[j] = bucket->value + numbers[j] * bucket->ld_value;
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            k[j][v] = v_load(key + v * VLEN);
            dk[j][v] = v_load(dkey + v * VLEN);
        }
    }
    for (size_t i = 0; i < bucket->num_queries; i++) {
        size_t row = bucket->queries[i];
        const float *query = bucket->query + row * bucket->ld_query,
                    *dout = bucket->dout + row * bucket->ld_dout;
        float *dquery = bucket->dquery + row * bucket->ld_query;
        vf sum[4], weight[4], bias = v_set(bucket->bias == NULL ? 0.0f : bucket->bias[row]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            vf each = v_load(dout + v * VLEN);
            UNROLLED
            for (size_t j = 0; j < keys; j++) {
                vf other = v_load(value[j] + v * VLEN);
                sum[j] = v == 0 ? v_mul(each, other) : v_fma(each, other, sum[j]);
            }
        }
        v_sums(keys, weight, sum);
        UNROLLED
        for (size_t j = 0; j < keys; j++)
            weight[j] = v_mul(v_add(weight[j], bias), scale);
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            vf each = v_load(query + v * VLEN), to = v_load(dquery + v * VLEN);
            UNROLLED
            for (size_t j = 0; j < keys; j++) {
                to = v_fma(weight[j], k[j][v], to);
                dk[j][v] = v_fma(weight[j], each, dk[j][v]);
            }
            v_store(dquery + v * VLEN, to);
        }
    }
    UNROLLED
    for (size_t j = 0; j < keys; j++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_store(bucket->dkey + numbers[j] * bucket->ld_key + v * VLEN, dk[j][v]);
    }
}

INLINE void pair_passes(const size_t vectors, const size_t most, const struct bucket_pairs *bucket)
{
    const uint32_t *keys = bucket->keys, *end = keys + bucket->num_keys;
    for (; most >= 4 && end - keys >= 4; keys += 4)
        pair_pass(vectors, 4, bucket, keys);
    for (; end - keys >= 2; keys += 2)
        pair_pass(vectors, 2, bucket, keys);
    if (keys < end)
        pair_pass(vectors, 1, bucket, keys);
}

/* Computes the bucket by pair_pass if it applies, else returns false. Needs 32 registers. Rows of four
   vectors only if one pass is enough: a second one reads its queries again and is no faster than blocks. */
static bool pairs_passed(const struct bucket_pairs *bucket)
{
    size_t dim = bucket->dim;
    if (BLOCK_VECTORS < 4 || bucket->weight != PAIR_CONSTANT || bucket->times != NULL ||
        dim != bucket->value_dim)
        return false;
    if (dim == 2 * VLEN)
        pair_passes(2, 4, bucket);
    else if (dim == 4 * VLEN && bucket->num_keys <= 2)
        pair_passes(BLOCK_VECTORS, 2, bucket);
    else
        return false;
    return true;
}

static void pairs_bucket(const struct bucket_pairs *bucket)
{
    if (pairs_passed(bucket))
        return;
    for (size_t i = 0; i < bucket->num_queries; i += PAIR_QUERIES) {
        size_t some = bucket->num_queries - i < PAIR_QUERIES ? bucket->num_queries - i : PAIR_QUERIES;
        struct pair_side queries = {bucket->query, bucket->dquery, bucket->ld_query, some,
                                    bucket->queries + i};
        for (size_t j = 0; j < bucket->num_keys; j += PAIR_KEYS) {
            some = bucket->num_keys - j < PAIR_KEYS ? bucket->num_keys - j : PAIR_KEYS;
            struct pair_side keys = {bucket->key, bucket->dkey, bucket->ld_key, some, bucket->keys + j};
            bucket_block(bucket, &queries, &keys, i * bucket->ld_times + j);
        }
    }
}

enum {
    PAIR_LINE = 16,  /* floats of a cache line */
    PAIR_FETCH = 64, /* rows: more would evict prefetched ones */
};

/* Prefetches rows while earlier ones are computed: no hardware predicts the order of buckets. */
static void pair_fetch(const float *x, size_t ld, const uint32_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < ld; c += PAIR_LINE)
            __builtin_prefetch(x + rows[i] * ld + c);
}

static void pairs_bucket_list(const struct bucket_pairs *rows, const struct bucket *list, size_t count)
{
    struct bucket_pairs bucket = *rows;
    bucket.times = NULL;
    for (const struct bucket *b = list; b < list + count; b++) {
        if (rows->far && b + 1 < list + count && b[1].num_queries + b[1].num_keys <= PAIR_FETCH) {
            pair_fetch(rows->query, rows->ld_query, rows->queries + b[1].first_query, b[1].num_queries);
            pair_fetch(rows->key, rows->ld_key, rows->keys + b[1].first_key, b[1].num_keys);
        }
        bucket.queries = rows->queries + b->first_query;
        bucket.num_queries = b->num_queries;
        bucket.keys = rows->keys + b->first_key;
        bucket.num_keys = b->num_keys;
        pairs_bucket(&bucket);
    }
}

#define SIMD_PAIRS .pairs.bucket = pairs_bucket, .pairs.bucket_list = pairs_bucket_list

#endif
