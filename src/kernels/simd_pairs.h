/* Gradients of the pairs that share a bucket, in blocks of at most PAIR_QUERIES x PAIR_KEYS: weights
   (simd_pair_sums.h, simd_pair_weights.h), then gradients (simd_pair_spread.h), while the rows of later
   buckets are prefetched. Per pair 2 value_dim + 4 dim operations; the tangent form adds 5 dim and about 30
   for the angle. Measured on Zen 4, one thread beside other work, dim 64, constant weight, nanoseconds a pair
   (at the rate of products it would take 3.4), buckets by shape as buckets.c orders them. "Before": a whole
   bucket prefetched at once, one side's gradients at a time, blocks filled up to multiples of four rows.

                                    AVX-512   before   AVX2   before
     n 4096, tau 9 (8 x 8)            6.2       8.3     7.7     9.5
     n 16384, tau 11 (8 x 8)          9.2      13.6     8.9    19.0
     n 1024, tau 9 (2 x 2)           14.9      15.3    19.4    22.3

   docs/notes/2026-11-22-backward-pairs.md says what each change gained.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIRS_H
#define KERNELS_SIMD_PAIRS_H

#include "kernels/simd_pair_spread.h"
#include "kernels/simd_pair_weights.h"

enum { PAIR_AHEAD = 6 }; /* rows of a side between a row and the one that it prefetches, at least */

/* times: that of the block's first pair, or NULL. */
static void bucket_block(const struct bucket_pairs *bucket, const struct pair_side *queries,
                         const struct pair_side *keys, const float *times, struct pair_ahead *ahead)
{
    float weight[PAIR_PADDED];
    size_t size = queries->count * keys->count;
    const struct pair_factors scores = {bucket->dout, bucket->value, bucket->ld_dout, bucket->ld_value,
                                        bucket->value_dim},
                              rows = {queries->x, keys->x, queries->ld, keys->ld, bucket->dim};
    pair_products(weight, &scores, queries, keys, bucket->bias == NULL ? bucket->scale : 1.0f);
    if (bucket->bias != NULL)
        pair_biased(weight, bucket->bias, queries, keys->count, bucket->scale);
    if (times != NULL)
        pair_times(weight, times, bucket->ld_times, queries->count, keys->count);
    if (bucket->weight == PAIR_SHRUNK) {
        float x[PAIR_PADDED];
        pair_products(x, &rows, queries, keys, 1.0f);
        pair_shrunk(weight, x, size, bucket->hash_bits);
    }
    bool plain = bucket->weight != PAIR_TANGENT;
    if (!plain || bucket->weight == PAIR_FLOORED) {
        float u2[PAIR_PADDED], sigma[PAIR_PADDED];
        pair_distances(u2, &rows, queries, keys);
        pair_tangent(weight, sigma, u2, queries, keys, bucket->dim, bucket->hash_bits,
                     plain ? PAIR_LEAST_SINE : 0.0f);
        if (!plain)
            pair_add_tangents(queries, keys, weight, sigma, keys->count, bucket->dim, ahead);
    }
    if (plain)
        pair_spread(queries, keys, weight, bucket->dim, ahead);
}

/* Pairs of constant weight if a row is a few whole vectors: `keys` keys and their gradients stay in
   registers while the queries pass. The dot products of a query become broadcast weights and never leave
   the registers. */
INLINE void pair_pass(const size_t vectors, const size_t keys, const struct bucket_pairs *bucket,
                      const uint32_t *numbers, struct pair_ahead *ahead)
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
        if (i < ahead->end)
            pair_prefetch(ahead->rows[i], 0, pair_lines(vectors));
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

INLINE void pair_passes(const size_t vectors, const size_t most, const struct bucket_pairs *bucket,
                        struct pair_ahead *ahead)
{
    const uint32_t *keys = bucket->keys, *end = keys + bucket->num_keys;
    pair_ahead_begin(ahead, 1);
    for (; most >= 4 && end - keys >= 4; keys += 4)
        pair_pass(vectors, 4, bucket, keys, ahead);
    for (; end - keys >= 2; keys += 2)
        pair_pass(vectors, 2, bucket, keys, ahead);
    if (keys < end)
        pair_pass(vectors, 1, bucket, keys, ahead);
    pair_ahead_passed(ahead, bucket->num_queries, pair_lines(vectors));
    pair_ahead_end(ahead);
}

/* Computes the bucket by pair_pass if it applies, else returns false. Needs 32 registers. Rows of four
   vectors only if one pass is enough: a second one reads its queries again and is no faster than blocks. */
static bool pairs_passed(const struct bucket_pairs *bucket, struct pair_ahead *ahead)
{
    size_t dim = bucket->dim;
    if (BLOCK_VECTORS < 4 || bucket->weight != PAIR_CONSTANT || bucket->times != NULL ||
        dim != bucket->value_dim)
        return false;
    if (dim == 2 * VLEN)
        pair_passes(2, 4, bucket, ahead);
    else if (dim == 4 * VLEN && bucket->num_keys <= 2)
        pair_passes(BLOCK_VECTORS, 2, bucket, ahead);
    else
        return false;
    return true;
}

/* The size of the next part of `left` rows, in even parts of at most `most`: 7 keys are 4 + 3, because a key
   alone waits for its loads. */
INLINE size_t pair_some(size_t left, const size_t most)
{
    size_t parts = (left + most - 1) / most;
    return (left + parts - 1) / parts;
}

static void pairs_ahead(const struct bucket_pairs *bucket, struct pair_ahead *ahead)
{
    struct pair_side queries = {.x = bucket->query, .dx = bucket->dquery, .ld = bucket->ld_query};
    struct pair_side keys = {.x = bucket->key, .dx = bucket->dkey, .ld = bucket->ld_key};
    if (pairs_passed(bucket, ahead))
        return;
    size_t blocks = ((bucket->num_queries + PAIR_QUERIES - 1) / PAIR_QUERIES) *
                    ((bucket->num_keys + PAIR_KEYS - 1) / PAIR_KEYS);
    for (size_t i = 0; i < bucket->num_queries; i += queries.count) {
        queries.rows = bucket->queries + i;
        queries.count = pair_some(bucket->num_queries - i, PAIR_QUERIES);
        for (size_t j = 0; j < bucket->num_keys; j += keys.count, blocks--) {
            keys.rows = bucket->keys + j;
            keys.count = pair_some(bucket->num_keys - j, PAIR_KEYS);
            pair_ahead_begin(ahead, blocks);
            bucket_block(bucket, &queries, &keys,
                         bucket->times == NULL ? NULL : bucket->times + i * bucket->ld_times + j, ahead);
            pair_ahead_end(ahead);
        }
    }
}

static void pairs_bucket(const struct bucket_pairs *bucket)
{
    struct pair_ahead none;
    none.count = none.end = none.lines = 0;
    pairs_ahead(bucket, &none);
}

/* Adds to the rows to be prefetched: as many as the bucket has (count), of those that stand at least
   PAIR_AHEAD places behind its first one in the list, which ends at `end`. */
static void pair_ahead_add(struct pair_ahead *ahead, const float *x, size_t ld, const uint32_t *rows,
                           size_t first, size_t count, size_t end)
{
    first += count > PAIR_AHEAD ? count : PAIR_AHEAD;
    for (size_t i = first; i < first + count && i < end && ahead->count < PAIR_FETCH; i++)
        ahead->rows[ahead->count++] = x + rows[i] * ld;
}

static void pairs_bucket_list(const struct bucket_pairs *rows, const struct bucket *list, size_t count)
{
    struct bucket_pairs bucket = *rows;
    struct pair_ahead ahead;
    const struct bucket *last = list + count - 1;
    size_t end_query = last->first_query + last->num_queries, end_key = last->first_key + last->num_keys;
    bucket.times = NULL;
    ahead.lines = rows->far ? rows->ld_query / PAIR_LINE : 0;
    for (size_t i = 0; i < PAIR_FETCH + PAIR_QUERIES; i++)
        ahead.rows[i] = rows->query;
    for (const struct bucket *b = list; b <= last; b++) {
        ahead.count = ahead.end = 0;
        if (rows->far) {
            pair_ahead_add(&ahead, rows->query, rows->ld_query, rows->queries, b->first_query, b->num_queries,
                           end_query);
            pair_ahead_add(&ahead, rows->key, rows->ld_key, rows->keys, b->first_key, b->num_keys, end_key);
        }
        bucket.queries = rows->queries + b->first_query;
        bucket.num_queries = b->num_queries;
        bucket.keys = rows->keys + b->first_key;
        bucket.num_keys = b->num_keys;
        pairs_ahead(&bucket, &ahead);
    }
}

#define SIMD_PAIRS .pairs.bucket = pairs_bucket, .pairs.bucket_list = pairs_bucket_list

#endif
