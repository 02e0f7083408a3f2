/* Internals of attention through features that forward and backward share: memory, blocks of rows, and the
   sums over keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_ATTENTION_PARTS_H
#define PARTS_FEATURE_ATTENTION_PARTS_H

#include <string.h>

#include "base/memory.h"
#include "parts/features/feature_attention.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

/* S (F, d_v), then z (F). */
static inline size_t sums_size(const struct feature_attention *a)
{
    return size_sum(size_product(a->map.count, a->value_dim), a->map.count);
}

static inline size_t blocks_of(size_t rows)
{
    return rows / FEATURE_BLOCK + (rows % FEATURE_BLOCK != 0);
}

/* Causal keys belong to the block of the first query that sees them. */
static inline size_t key_blocks(const struct feature_attention *a)
{
    return blocks_of(a->causal ? a->num_queries : a->num_keys);
}

struct saved {
    float *bottom; /* (num_queries) denominators */
    float *sums;   /* (key blocks): causal, of all keys before the block; otherwise the first is that of all
                      keys */
    size_t bytes;
};

static inline struct saved saved_of(const struct feature_attention *a)
{
    struct arena arena = arena_on(a->saved);
    struct saved s;
    s.bottom = arena_take(&arena, a->num_queries, sizeof(float));
    s.sums = arena_take(&arena, size_product(key_blocks(a), sums_size(a)), sizeof(float));
    s.bytes = arena.used;
    return s;
}

/* Memory of one thread. */
struct tiles {
    float *phi_query, *phi_key, *dphi; /* (FEATURE_ROWS, F) */
    float *transposed;                 /* (F, FEATURE_ROWS) features of keys or (d_v, FEATURE_ROWS) values */
    float *scores, *dscores;           /* (FEATURE_ROWS, FEATURE_ROWS) */
    float *inverse;                    /* (FEATURE_ROWS) 1 / denominator */
    float *dtop, *dbottom;             /* (FEATURE_ROWS, d_v), (FEATURE_ROWS): gradients of numerators and
                                          denominators */
    struct feature_factors factors;
    float *sums; /* running sums, or their gradients */
    float *back; /* (d_v, F): S transposed */
    void *of_map;
};

struct scratch {
    float *gradients; /* (query blocks) of the sums: as in saved, but of the queries after the block */
    char *threads;
    size_t per_thread, bytes;
};

static inline size_t tiles_take(const struct feature_attention *a, void *block, struct tiles *t)
{
    struct arena arena = arena_on(block);
    size_t features = size_product(FEATURE_ROWS, a->map.count),
           values = size_product(FEATURE_ROWS, a->value_dim);
    t->phi_query = arena_take(&arena, features, sizeof(float));
    t->phi_key = arena_take(&arena, features, sizeof(float));
    t->dphi = arena_take(&arena, features, sizeof(float));
    t->transposed = arena_take(&arena, size_max(features, values), sizeof(float));
    t->scores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->dscores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->inverse = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    t->dtop = arena_take(&arena, values, sizeof(float));
    t->dbottom = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    t->factors = feature_factors_take(&arena);
    t->sums = arena_take(&arena, sums_size(a), sizeof(float));
    t->back = arena_take(&arena, size_product(a->map.count, a->value_dim), sizeof(float));
    t->of_map = arena_take(&arena, a->map.scratch, 1);
    return arena.used;
}

static inline struct scratch scratch_of(const struct feature_attention *a, void *block)
{
    struct tiles tiles;
    struct arena arena = arena_on(block);
    struct scratch s;
    s.per_thread = tiles_take(a, NULL, &tiles);
    s.gradients = arena_take(&arena, size_product(blocks_of(a->num_queries), sums_size(a)), sizeof(float));
    s.threads = arena_take(&arena, size_product(a->workers, s.per_thread), 1);
    s.bytes = arena.used;
    return s;
}

/* The argument of every unit of work. */
struct work {
    const struct feature_attention *a;
    struct saved saved;
    struct scratch scratch;
    struct view out, dout, dquery, dkey, dvalue;
};

static inline struct tiles tiles_of(const struct work *w, int worker)
{
    struct tiles t;
    tiles_take(w->a, w->scratch.threads + (size_t)worker * w->scratch.per_thread, &t);
    return t;
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static inline struct feature_span block_span(size_t rows, size_t block)
{
    size_t begin = block * FEATURE_BLOCK;
    return (struct feature_span){begin, size_min(begin + FEATURE_BLOCK, rows)};
}

static inline struct feature_span tile_span(struct feature_span block, size_t begin)
{
    return (struct feature_span){begin, size_min(begin + FEATURE_ROWS, block.end)};
}

/* The keys that these queries see and earlier queries do not. */
static inline struct feature_span new_keys(const struct feature_attention *a, struct feature_span queries)
{
    return (struct feature_span){queries.begin == 0 ? 0 : a->visible[queries.begin - 1],
                                 a->visible[queries.end - 1]};
}

static inline struct feature_span key_span(const struct feature_attention *a, size_t block)
{
    return a->causal ? new_keys(a, block_span(a->num_queries, block)) : block_span(a->num_keys, block);
}

/* Level of the sums of a block of keys. */
static inline double block_level(const struct feature_attention *a, size_t block)
{
    return feature_level_before(&a->levels, a->causal ? block_span(a->num_queries, block).end : 0);
}

static inline void map_forward(const struct feature_attention *a, enum feature_side side,
                               struct feature_span rows, float *phi, const struct tiles *t)
{
    struct view x = side == FEATURE_QUERY ? a->query : a->key;
    a->map.forward(&a->map, side, view_row(x, rows.begin), x.stride, rows.end - rows.begin, phi, t->of_map);
}

/* ---- sums --------------------------------------------------------------------------------------------- */

/* sums += g(k) v^T and g(k), at `level`, which overwrites phi. */
static inline void absorb(const struct feature_attention *a, struct feature_span keys, float *phi,
                          float *sums, double level, const struct tiles *t)
{
    feature_scale_keys(a->map.kernels, &a->levels, keys, level, phi, a->map.count, &t->factors);
    const struct kernels *kernels = a->map.kernels;
    size_t features = a->map.count, rows = keys.end - keys.begin;
    const float one = 1; /* a row of ones: the sum of rows as a product */
    kernels->tiles.product(sums, a->value_dim, phi, 1, features, view_row(a->value, keys.begin),
                           a->value.stride, features, a->value_dim, rows, true);
    kernels->tiles.product(sums + features * a->value_dim, features, &one, 0, 0, phi, features, 1, features,
                           rows, true);
}

/* scores (queries, keys) = f(q).g(k), 0 where a query does not see a key. Both have at most FEATURE_ROWS
   rows. */
static inline void scores_of(const struct feature_attention *a, struct feature_span queries,
                             struct feature_span keys, const struct tiles *t)
{
    size_t features = a->map.count, rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    a->map.kernels->tiles.transpose(t->transposed, FEATURE_ROWS, t->phi_key, features, cols, features);
    a->map.kernels->tiles.product(t->scores, FEATURE_ROWS, t->phi_query, features, 1, t->transposed,
                                  FEATURE_ROWS, rows, cols, features, false);
    feature_scale_pairs(a->map.kernels, &a->levels, queries, keys, t->scores, &t->factors);
    for (size_t i = 0; i < rows; i++) {
        size_t seen = a->visible[queries.begin + i];
        for (size_t j = seen > keys.begin ? seen - keys.begin : 0; j < cols; j++)
            t->scores[i * FEATURE_ROWS + j] = 0;
    }
}

/* The sums of all blocks in the first, in order. */
static inline void add_up(const struct feature_attention *a, float *sums, size_t blocks)
{
    for (size_t b = 1; b < blocks; b++)
        a->map.kernels->rows.axpy(sums, 1, sums + b * sums_size(a), sums_size(a));
}

static inline void exchange(float *a, float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float before = a[i];
        a[i] = b[i];
        b[i] = before;
    }
}

#endif
