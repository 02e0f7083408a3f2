/* Levels of keys and queries in feature_attention.h: the weight of key j for query i has the factor
   exp(key[j] - query[i]). Where sums are stored, and the factors between levels, which are 1 without levels;
   and the levels of keys that their map finds.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_LEVELS_H
#define PARTS_FEATURE_LEVELS_H

#include "base/memory.h"
#include "parts/features/feature_map.h"

struct feature_levels {
    const double *key;   /* (n_k); NULL: no levels */
    const double *query; /* (n_q) of attention */
    const double *after; /* (n_k) of a state: the level of the sums after each key */
};

struct feature_span {
    size_t begin, end;
};

/* Level of the sums that queries from `i` on read: that of the last query before. */
double feature_level_before(const struct feature_levels *levels, size_t i);
/* Level of the gradients of sums from queries from `i` on: that of the first of them, or of the last one. */
double feature_level_after(const struct feature_levels *levels, size_t i, size_t num_queries);
/* exp(low - high), at most 1: the factor of sums of keys that rise from level `low` to `high`, and of
   gradients of sums that fall from `high` to `low`. */
float feature_factor(const struct kernels *kernels, double low, double high);
/* sums (count) times that factor. */
void feature_move(const struct kernels *kernels, float *sums, size_t count, double low, double high);

/* Work space. */
struct feature_factors {
    float *factor, *shift; /* (FEATURE_ROWS) */
    float *decay;          /* (FEATURE_ROWS, FEATURE_ROWS) */
};
struct feature_factors feature_factors_take(struct arena *arena);

/* x (rows, cols), adjacent, of keys: times exp(key level - level). */
void feature_scale_keys(const struct kernels *kernels, const struct feature_levels *levels,
                        struct feature_span keys, double level, float *x, size_t cols,
                        const struct feature_factors *factors);
/* x (rows, cols), rows ld_x apart, of queries: times exp(level - query level). */
void feature_scale_queries(const struct kernels *kernels, const struct feature_levels *levels,
                           struct feature_span queries, double level, float *x, size_t ld_x, size_t cols,
                           const struct feature_factors *factors);
/* x (FEATURE_ROWS, FEATURE_ROWS) of pairs: times exp(key level - query level). Those of unseen pairs may be
   infinite or NaN. */
void feature_scale_pairs(const struct kernels *kernels, const struct feature_levels *levels,
                         struct feature_span queries, struct feature_span keys, float *x,
                         const struct feature_factors *factors);

/* The levels of these keys by map.project. phi (FEATURE_ROWS, F), scratch of the map: work space. */
void feature_find_key_levels(const struct problem *problem, const struct feature_map *map,
                             struct feature_span keys, float *phi, void *scratch, double *key_level);
/* A query's level is the largest of the keys it sees. */
void feature_find_query_levels(const struct problem *problem, const double *key_level, double *query_level);

#endif
