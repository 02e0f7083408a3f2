/* A feature map: F numbers per row, so that the weight of a pair of rows is the product of their features.
   Levels are exponents of a scale of their own that features, or the sums over them, are stored at.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_MAP_H
#define PARTS_FEATURE_MAP_H

#include "parts/problem/problem.h"

enum { FEATURE_ROWS = KERNELS_TILE }; /* rows of a tile, at most */

enum feature_side { FEATURE_QUERY, FEATURE_KEY };

/* One map for queries and keys, or two that differ by the side. Its functions use the kernels, options,
   shared memory and head_dim of the problem. scratch: `scratch` bytes. */
struct feature_map {
    size_t (*count)(const void *options, const struct problem_shape *shape); /* F */
    /* (optional) bytes that each call may use; NULL: none */
    size_t (*scratch)(const void *options, const struct problem_shape *shape);
    /* Writes phi (rows, F), adjacent, for rows x (rows, head_dim). */
    void (*forward)(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                    size_t rows, float *phi, void *scratch);
    /* Adds the gradient of x to dx, from x, its features and their gradient, which it may overwrite. */
    void (*backward)(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                     size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch);
    /* (optional, both or none) forward divides the features of a key by exp(its level). levels: those of the
       rows that forward or project read last, from its scratch. project: what forward does before the
       exponentials, in phi and scratch. */
    void (*project)(const struct problem *problem, const float *x, size_t ld_x, size_t rows, float *phi,
                    void *scratch);
    void (*levels)(const struct problem *problem, size_t rows, const void *scratch, double *level);
};

static inline size_t feature_map_scratch(const struct feature_map *map, const void *options,
                                         const struct problem_shape *shape)
{
    return map->scratch == NULL ? 0 : map->scratch(options, shape);
}

#endif
