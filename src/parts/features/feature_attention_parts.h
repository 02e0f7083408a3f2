/* Internals of attention through features that forward and backward share: memory, blocks of rows, and the
   sums over keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_ATTENTION_PARTS_H
#define PARTS_FEATURE_ATTENTION_PARTS_H

#include <string.h>

#include "parts/features/feature_attention.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Memory of one thread. */
struct feature_tiles {
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

/* The argument of every unit of work. */
struct feature_pass {
    const struct problem *problem;
    const struct kernels *kernels; /* of the problem */
    struct feature_attention a;    /* with the levels that its map finds */
    size_t features, d_v;          /* F, d_v */
    size_t sums_size;              /* floats of S (F, d_v), then z (F) */
    size_t map_scratch;            /* bytes */
    /* saved */
    float *bottom; /* (n_q) denominators */
    float *sums;   /* (key blocks): causal, of all keys before the block; otherwise the first is that of all
                      keys */
    double *found; /* (n_k) levels of keys, if the map finds them */
    /* scratch */
    double *query_level; /* (n_q), if the map finds levels */
    float *gradients;    /* (query blocks) of the sums: as in saved, but of the queries after the block */
    char *threads;
    size_t per_thread, saved_bytes, scratch_bytes;
    /* rows */
    struct view out, dout;
    const struct problem_gradients *to;
};

/* Where the pass has its memory; everything else is zero. */
struct feature_pass feature_pass_on(const void *options, const struct problem_shape *shape,
                                    const struct feature_attention *attention, void *saved, void *scratch);
struct feature_pass feature_pass_of(const struct problem *problem, const struct feature_attention *attention);
struct feature_tiles feature_tiles_of(const struct feature_pass *pass, int worker);

/* ---- rows --------------------------------------------------------------------------------------------- */

static inline size_t feature_blocks(size_t rows)
{
    return rows / FEATURE_BLOCK + (rows % FEATURE_BLOCK != 0);
}

/* Causal keys belong to the block of the first query that sees them. */
static inline size_t key_blocks(const struct problem_shape *shape)
{
    return feature_blocks(shape->causal ? shape->num_queries : shape->num_keys);
}

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
static inline struct feature_span new_keys(const struct problem *problem, struct feature_span queries)
{
    return (struct feature_span){queries.begin == 0 ? 0 : problem->visible[queries.begin - 1],
                                 problem->visible[queries.end - 1]};
}

static inline struct feature_span key_span(const struct problem *problem, size_t block)
{
    return problem->shape.causal ? new_keys(problem, block_span(problem->shape.num_queries, block))
                                 : block_span(problem->shape.num_keys, block);
}

static inline double level_before(const struct feature_pass *p, size_t i)
{
    return feature_level_before(&p->a.levels, i);
}

static inline double level_after(const struct feature_pass *p, size_t i)
{
    return feature_level_after(&p->a.levels, i, p->problem->shape.num_queries);
}

/* Level of the sums of a block of keys. */
static inline double block_level(const struct feature_pass *p, size_t block)
{
    const struct problem_shape *shape = &p->problem->shape;
    return level_before(p, shape->causal ? block_span(shape->num_queries, block).end : 0);
}

static inline void map_forward(const struct feature_pass *p, enum feature_side side, struct feature_span rows,
                               float *phi, const struct feature_tiles *t)
{
    struct view x = side == FEATURE_QUERY ? p->problem->query : p->problem->key;
    p->a.map.forward(p->problem, side, view_row(x, rows.begin), x.stride, rows.end - rows.begin, phi,
                     t->of_map);
}

/* ---- sums --------------------------------------------------------------------------------------------- */

/* sums += g(k) v^T and g(k), at `level`, which overwrites phi. */
static inline void absorb(const struct feature_pass *p, struct feature_span keys, float *phi, float *sums,
                          double level, const struct feature_tiles *t)
{
    size_t features = p->features, d_v = p->d_v, rows = keys.end - keys.begin;
    struct view value = p->problem->value;
    const float one = 1; /* a row of ones: the sum of rows as a product */
    feature_scale_keys(p->kernels, &p->a.levels, keys, level, phi, features, &t->factors);
    p->kernels->tiles.product(sums, d_v, phi, 1, features, view_row(value, keys.begin), value.stride,
                              features, d_v, rows, true);
    p->kernels->tiles.product(sums + features * d_v, features, &one, 0, 0, phi, features, 1, features, rows,
                              true);
}

/* scores (queries, keys) = f(q).g(k), 0 where a query does not see a key. Both have at most FEATURE_ROWS
   rows. */
static inline void scores_of(const struct feature_pass *p, struct feature_span queries,
                             struct feature_span keys, const struct feature_tiles *t)
{
    size_t features = p->features, rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    p->kernels->tiles.transpose(t->transposed, FEATURE_ROWS, t->phi_key, features, cols, features);
    p->kernels->tiles.product(t->scores, FEATURE_ROWS, t->phi_query, features, 1, t->transposed, FEATURE_ROWS,
                              rows, cols, features, false);
    feature_scale_pairs(p->kernels, &p->a.levels, queries, keys, t->scores, &t->factors);
    for (size_t i = 0; i < rows; i++) {
        size_t seen = p->problem->visible[queries.begin + i];
        for (size_t j = seen > keys.begin ? seen - keys.begin : 0; j < cols; j++)
            t->scores[i * FEATURE_ROWS + j] = 0;
    }
}

/* The sums of all blocks in the first, in order. */
static inline void add_up(const struct feature_pass *p, float *sums, size_t blocks)
{
    for (size_t b = 1; b < blocks; b++)
        p->kernels->rows.axpy(sums, 1, sums + b * p->sums_size, p->sums_size);
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
