/* Learned terms for the distance from query to key (Dai et al. 2019, Transformer-XL, section 3.3):
     score_ij = ((q_i + u) k_j + (q_i + v) r_{i-j}) / sqrt(d),   r_t = sinusoids(t) W
   with u, v (d) and W (RELATIVE_WIDTH, d) learned. All r_t that a head can need are made at once, 2
   RELATIVE_WIDTH d operations each. A tile of queries and keys then takes one product with a strip of them,
   rows + columns - 1 wide; the row of query i is shifted by i.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_RELATIVE_TERMS_H
#define PARTS_RELATIVE_TERMS_H

#include "parts/tiles/tile_products.h"

enum {
    RELATIVE_WIDTH =
        64, /* of the sinusoids: 32 wavelengths, 2 pi to 2 pi 10^4; the paper uses its model's width */
    RELATIVE_STRIP = 224 /* maximum r_t of one tile, rows + columns - 1 */
};

struct relative_terms {
    const float *content_bias, *position_bias;       /* u, v (dim) */
    const float *weight;                             /* W (RELATIVE_WIDTH, dim) */
    float *dcontent_bias, *dposition_bias, *dweight; /* backward adds to these; dweight NULL: not wanted */
    size_t dim;
    size_t most, count; /* row t is r of i - j = most - t: later keys, later rows */
    size_t keys_before; /* number of keys before position 0; 0 unless keys wrap around */
    /* Number of positions of a ring; 0: on a line. On a ring, i - j is the shorter way round, -ring / 2 < i
       - j <= ring / 2, and count <= ring. */
    size_t ring;
    float *sinusoids; /* (count, RELATIVE_WIDTH) */
    float *rows;      /* (count, dim) */
    float *columns;   /* (dim, count): the same, transposed */
};

/* Takes the memory and sets the sizes; the caller sets the parameters. */
struct relative_terms relative_terms_take(struct arena *arena, size_t dim, size_t most, size_t count);
/* Computes the r_t from W. */
void relative_terms_make(const struct relative_terms *terms, const struct kernels *kernels);
/* dweight += from drows (count, dim). */
void relative_terms_make_backward(const struct relative_terms *terms, const struct kernels *kernels,
                                  const float *drows);

/* The sinusoids (RELATIVE_WIDTH) of the distance from query to key, which must be among the terms. */
const float *relative_terms_sinusoids(const struct relative_terms *terms, size_t query, size_t key);

/* Queries first .. first + rows - 1 and keys key .. key + cols - 1. Pairs beyond the reach of the terms get
   none: they must be unseen. */
struct relative_tile {
    size_t first, rows, key, cols;
    const float *position; /* (rows, dim): q_i + v */
    float *strip;          /* (rows, RELATIVE_STRIP): scratch */
};

/* scores (rows, cols), ld apart, += (q_i + v) r_{i-j}. */
void relative_terms_add(const struct relative_terms *terms, const struct kernels *kernels,
                        const struct tile_products *products, const struct relative_tile *tile, float *scores,
                        size_t ld);
/* Backward, from dscores: writes dposition (rows, dim), or adds to it; adds to drows (count, dim). */
void relative_terms_backward(const struct relative_terms *terms, const struct kernels *kernels,
                             const struct tile_products *products, const struct relative_tile *tile,
                             const float *dscores, size_t ld, float *dposition, bool add, float *drows);

#endif
