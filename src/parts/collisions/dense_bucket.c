/* Rows are gathered DENSE_ROWS at a time, so operands of a product are adjacent and memory does not grow
   with the bucket: keys to make V^T K, queries to use it and to make G^T Q, keys again to use that. A column
   of ones beside V and of biases beside G computes the bias terms. Rows of a bucket are anywhere in memory:
   without prefetches, copying them took half of the time.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/dense_bucket.h"

#include <string.h>

#include "parts/hashing/unit.h"

void dense_scratch_init(struct dense_scratch *dense, struct arena *arena, size_t dim, size_t value_dim)
{
    size_t float_size = sizeof(float), row_bytes;
    dense->ld = unit_padded(dim);
    dense->ld_value = unit_padded(size_sum(value_dim, 1));
    row_bytes = size_product(dense->ld, float_size);
    dense->unit = arena_take(arena, DENSE_ROWS, row_bytes);
    dense->value = arena_take(arena, DENSE_ROWS, size_product(dense->ld_value, float_size));
    dense->sum = arena_take(arena, DENSE_ROWS, row_bytes);
    dense->from_keys = arena_take(arena, size_sum(value_dim, 1), row_bytes);
    dense->from_queries = arena_take(arena, size_sum(value_dim, 1), row_bytes);
}

bool dense_is_cheaper(const struct bucket_pairs *bucket)
{
    /* In double: products of sizes may pass 2^64. An operation costs about the same either way. */
    double queries = (double)bucket->num_queries, keys = (double)bucket->num_keys;
    double dim = (double)bucket->dim, value_dim = (double)bucket->value_dim;
    double by_pairs = queries * keys * (2 * value_dim + 4 * dim);
    double by_products = 4 * (queries + keys) * (value_dim + 1) * dim;
    return bucket->weight == PAIR_CONSTANT && by_pairs > by_products;
}

/* dense_is_cheaper needs a b / (a + b), which is less than a and than b, to exceed this. */
size_t dense_never(size_t dim, size_t value_dim)
{
    return (size_t)(4 * ((double)value_dim + 1) * (double)dim / (2 * (double)value_dim + 4 * (double)dim));
}

enum { AHEAD = 16, LINE_FLOATS = 16 };

/* A row that is `write`n to or read soon. */
static inline void prefetch(const float *row, size_t cols, bool write)
{
    for (size_t c = 0; c < cols; c += LINE_FLOATS)
        if (write)
            __builtin_prefetch(row + c, 1);
        else
            __builtin_prefetch(row + c);
}

/* What a pass reads and writes. */
struct shape {
    size_t dim, value_dim, width;
    bool makes, uses;
};

/* Copies rows [first, first + count) of the side to dense->value and, if they make sums, dense->unit.
   Prefetches the next tile's rows and this tile's gradients. */
static void gather(const struct kernels *kernels, const struct dense_scratch *dense,
                   const struct dense_side *side, size_t first, size_t count, const struct shape *shape)
{
    for (size_t i = 0; i < count; i++) {
        size_t row = side->rows[first + i];
        float *value = dense->value + i * dense->ld_value;
        if (first + i + AHEAD < side->count) {
            size_t later = side->rows[first + i + AHEAD];
            prefetch(side->value + later * side->ld_value, shape->value_dim, false);
            if (shape->makes)
                prefetch(side->unit + later * side->ld, shape->dim, false);
        }
        if (shape->uses)
            prefetch(side->gradient + row * side->ld, shape->dim, true);
        if (shape->makes)
            memcpy(dense->unit + i * dense->ld, side->unit + row * side->ld, shape->dim * sizeof(float));
        memcpy(value, side->value + row * side->ld_value, shape->value_dim * sizeof(float));
        if (shape->width > shape->value_dim)
            value[shape->value_dim] = side->bias == NULL ? 1 : side->bias[row];
    }
    if (side->scale != 1)
        for (size_t i = 0; i < count; i++)
            kernels->rows.scale(dense->value + i * dense->ld_value, dense->ld_value, &side->scale, 1,
                                shape->width);
}

/* Over all rows of a side, with the first `width` columns of [value, bias]: make <- [value, bias]^T unit,
   unless NULL; gradients of the rows += [value, bias] use, unless NULL. */
static void pass(const struct kernels *kernels, const struct dense_scratch *dense,
                 const struct dense_side *side, float *make, const float *use, size_t dim, size_t value_dim,
                 size_t width)
{
    const struct shape shape = {dim, value_dim, width, make != NULL, use != NULL};
    for (size_t first = 0; first < side->count; first += DENSE_ROWS) {
        size_t count = side->count - first < DENSE_ROWS ? side->count - first : DENSE_ROWS;
        gather(kernels, dense, side, first, count, &shape);
        if (make != NULL)
            kernels->tiles.product(make, dense->ld, dense->value, 1, dense->ld_value, dense->unit, dense->ld,
                                   width, dim, count, first > 0);
        if (use == NULL)
            continue;
        kernels->tiles.product(dense->sum, dense->ld, dense->value, dense->ld_value, 1, use, dense->ld, count,
                               dim, width, false);
        for (size_t i = 0; i < count; i++)
            kernels->rows.axpy(side->gradient + side->rows[first + i] * side->ld, 1,
                               dense->sum + i * dense->ld, dim);
    }
}

void dense_sum(const struct kernels *kernels, const struct dense_scratch *dense,
               const struct dense_side *side, float *sums, const float *others, size_t dim, size_t value_dim,
               size_t width)
{
    memset(sums, 0, width * dense->ld * sizeof *sums); /* an empty bucket, and the columns that pad a row */
    pass(kernels, dense, side, sums, others, dim, value_dim, width);
}

void dense_use(const struct kernels *kernels, const struct dense_scratch *dense,
               const struct dense_side *side, const float *others, size_t dim, size_t value_dim, size_t width)
{
    pass(kernels, dense, side, NULL, others, dim, value_dim, width);
}

void dense_pairs(const struct kernels *kernels, const struct dense_scratch *dense,
                 const struct bucket_pairs *bucket)
{
    struct dense_side queries = {
        .rows = bucket->queries,
        .count = bucket->num_queries,
        .ld = bucket->ld_query,
        .ld_value = bucket->ld_dout,
        .unit = bucket->query,
        .value = bucket->dout,
        .bias = bucket->bias,
        .scale = bucket->scale,
        .gradient = bucket->dquery,
    };
    struct dense_side keys = {
        .rows = bucket->keys,
        .count = bucket->num_keys,
        .ld = bucket->ld_key,
        .ld_value = bucket->ld_value,
        .unit = bucket->key,
        .value = bucket->value,
        .bias = NULL,
        .scale = 1,
        .gradient = bucket->dkey,
    };
    size_t dim = bucket->dim, value_dim = bucket->value_dim, width = value_dim + (bucket->bias != NULL);
    pass(kernels, dense, &keys, dense->from_keys, NULL, dim, value_dim, width);
    pass(kernels, dense, &queries, dense->from_queries, dense->from_keys, dim, value_dim, width);
    pass(kernels, dense, &keys, NULL, dense->from_queries, dim, value_dim, width);
}
