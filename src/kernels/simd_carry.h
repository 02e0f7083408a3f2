/* Sums carried from one side of a bucket to the other. The sum stays in registers while the givers and then
   the receivers pass. Per row, one row is read, or read and written, as with tables but without the tables.
   With rows of V and X in the second-level cache: about 2 nanoseconds a row at dim 32, and as much again per
   bucket if its size mispredicts a branch.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_CARRY_H
#define KERNELS_SIMD_CARRY_H

#include "kernels/simd_math.h"
#include "kernels/slots_pairs.h"

/* Columns [0, VLEN * vectors) of x, of which `left` of the last vector exist: take adds x to sum, give adds
   sum to x. */
INLINE void carry_take(const size_t vectors, const size_t left, vf sum[BLOCK_VECTORS], const float *x)
{
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_add(sum[v], v_get(x + v * VLEN, left));
}

INLINE void carry_give(const size_t vectors, const size_t left, const vf sum[BLOCK_VECTORS], float *x)
{
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(x + v * VLEN, v_add(v_get(x + v * VLEN, left), sum[v]), left);
}

/* One bucket: all givers to all receivers. */
INLINE void carry_all(const size_t vectors, const size_t left, const struct bucket_carry *carry, size_t c,
                      const uint32_t *to, size_t takers, const uint32_t *from, size_t givers)
{
    vf sum[BLOCK_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_zero();
    for (size_t k = 0; k < givers; k++)
        carry_take(vectors, left, sum, carry->values + from[k] * carry->ld_values + c);
    for (size_t k = 0; k < takers; k++)
        carry_give(vectors, left, sum, carry->out + to[k] * carry->ld_out + c);
}

/* One bucket with visible: a row receives the sum of the givers that meet it. */
INLINE void carry_seen(const size_t vectors, const size_t left, const struct bucket_carry *carry, size_t c,
                       const uint32_t *queries, size_t num_queries, const uint32_t *keys, size_t num_keys)
{
    const size_t *visible = carry->visible;
    vf sum[BLOCK_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_zero();
    if (carry->to_queries) {
        for (size_t i = 0, j = 0; i < num_queries; i++) {
            for (; j < num_keys && keys[j] < visible[queries[i]]; j++)
                carry_take(vectors, left, sum, carry->values + keys[j] * carry->ld_values + c);
            carry_give(vectors, left, sum, carry->out + queries[i] * carry->ld_out + c);
        }
        return;
    }
    for (size_t i = num_queries, j = num_keys; j > 0; j--) {
        for (; i > 0 && keys[j - 1] < visible[queries[i - 1]]; i--)
            carry_take(vectors, left, sum, carry->values + queries[i - 1] * carry->ld_values + c);
        carry_give(vectors, left, sum, carry->out + keys[j - 1] * carry->ld_out + c);
    }
}

INLINE void carry_columns(const size_t vectors, const size_t left, const struct bucket_carry *carry, size_t c)
{
    for (const struct bucket *b = carry->buckets; b < carry->buckets + carry->count; b++) {
        const uint32_t *queries = carry->queries + b->first_query, *keys = carry->keys + b->first_key;
        if (carry->visible != NULL)
            carry_seen(vectors, left, carry, c, queries, b->num_queries, keys, b->num_keys);
        else if (carry->to_queries)
            carry_all(vectors, left, carry, c, queries, b->num_queries, keys, b->num_keys);
        else
            carry_all(vectors, left, carry, c, keys, b->num_keys, queries, b->num_queries);
    }
}

static void pairs_carry(const struct bucket_carry *carry)
{
    size_t c = 0, dim = carry->dim;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        carry_columns(BLOCK_VECTORS, VLEN, carry, c);
    for (; BLOCK_VECTORS > 2 && c + 2 * VLEN <= dim; c += 2 * VLEN)
        carry_columns(2, VLEN, carry, c);
    for (; c + VLEN <= dim; c += VLEN)
        carry_columns(1, VLEN, carry, c);
    if (c < dim)
        carry_columns(1, dim - c, carry, c);
}

#define SIMD_CARRY .pairs.carry = pairs_carry

#endif
