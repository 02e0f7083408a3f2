/* Learned terms for how far a key is from its query (Dai et al. 2019, Transformer-XL, section 3.3):
     score_ij = ((q_i + u) k_j + (q_i + v) r_{i-j}) / sqrt(d),   r_t = sinusoids(t) W
   with u, v (d) and W (RELATIVE_WIDTH, d) learned. All r_t that a head can need are made at once, 2
   RELATIVE_WIDTH d operations each; a tile of queries and keys then takes one product with a strip of them,
   rows + columns - 1 wide, whose row for query i is shifted by i. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_RELATIVE_TERMS_H
#define PARTS_RELATIVE_TERMS_H

#include "parts/tiles/tile_products.h"

enum {
    RELATIVE_WIDTH = 64, /* of the sinusoids: 32 wavelengths, 2 pi to 2 pi 10^4; the paper's are as wide as
                            its model */
    RELATIVE_STRIP = 224 /* the most r_t of one tile: its rows + columns - 1 are no more */
};

struct relative_terms {
    const float *content_bias, *position_bias; /* u, v (dim) */
    const float *weight;                       /* W (RELATIVE_WIDTH, dim) */
    size_t dim;
    size_t most, count; /* row t is r of i - j = most - t: later keys, later rows */
    size_t keys_before; /* how many of the keys given stand before place 0; 0 but where keys go round */
    /* Places on a ring of so many, 0: on a line. A distance i - j then goes the short way round, -ring / 2 <
       i
       - j <= ring / 2, and count <= ring. */
    size_t ring;
    float *sinusoids; /* (count, RELATIVE_WIDTH) */
    float *rows;      /* (count, dim) */
    float *columns;   /* (dim, count): the same, turned */
};

/* The memory, and what its sizes say; the parameters are the caller's. */
struct relative_terms relative_terms_take(struct arena *arena, size_t dim, size_t most, size_t count);
/* Fills it from W. */
void relative_terms_make(const struct relative_terms *terms, const struct kernels *kernels);
/* dweight += from drows (count, dim). */
void relative_terms_make_backward(const struct relative_terms *terms, const struct kernels *kernels,
                                  float *dweight, const float *drows);

/* The sinusoids (RELATIVE_WIDTH) of the distance of a query and a key, which must be among the terms. */
const float *relative_terms_sinusoids(const struct relative_terms *terms, size_t query, size_t key);

/* Queries first .. first + rows - 1 and keys key .. key + cols - 1. Pairs further apart than the terms reach
   get none: they must be unseen. */
struct relative_tile {
    size_t first, rows, key, cols;
    const float *position; /* (rows, dim): q_i + v */
    float *strip;          /* (rows, RELATIVE_STRIP): scratch */
};

/* scores (rows, cols), ld apart, += (q_i + v) r_{i-j}. */
void relative_terms_add(const struct relative_terms *terms, const struct kernels *kernels,
                        const struct tile_products *products, const struct relative_tile *tile, float *scores,
                        size_t ld);
/* The way back from dscores: dposition (rows, dim) is written, or added to; drows (count, dim) is added to.
 */
void relative_terms_backward(const struct relative_terms *terms, const struct kernels *kernels,
                             const struct tile_products *products, const struct relative_tile *tile,
                             const float *dscores, size_t ld, float *dposition, bool add, float *drows);

#endif
