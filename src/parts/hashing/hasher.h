/* The codes of a head's rows: rows are mapped first, unless the map is l2, then hashed with the head's own
   planes, in blocks on all threads of a pool. No code depends on the block boundaries.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASHER_H
#define PARTS_HASHER_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/hashing/codes.h"
#include "parts/hashing/planes.h"
#include "parts/hashing/yoso_options.h"
#include "parts/rows/view.h"

/* Memory and parameters of hashing one head. */
struct hasher {
    const struct yoso_options *options;
    struct hashing hashing;
    size_t dim, width;     /* of a row before and after the map */
    double max_norm;       /* for map neyshabur */
    float *planes, *sign;  /* of this head; signs and order of its coordinates */
    uint32_t *permutation; /* (width), as sign */
    size_t ld, work;       /* stride of rows; floats of the work space of codes_hash */
    float *rows, *squares; /* (workers, work), (workers, CODES_ROWS) */
    float *taken;          /* (workers, CODES_ROWS, ld): rows after widening or mapping */
};

struct hashing hashing_of(const struct yoso_options *options);

/* The planes to draw for rows of `dim` numbers, before the map. */
struct planes_form hasher_form(const struct yoso_options *options, size_t dim);

/* Lays out all but the planes: the caller passes hasher_planes floats. max_norm is as in the options. */
void hasher_init(struct hasher *hasher, struct arena *arena, const struct yoso_options *options, size_t dim,
                 size_t workers);
size_t hasher_planes(const struct yoso_options *options, size_t dim);

/* Rotates the planes in `shared`, drawn by planes_draw or hadamard_draw, into the head's own. */
void hasher_turn(const struct kernels *kernels, const struct hasher *hasher, const float *shared,
                 uint64_t random_key);

/* Writes the codes of all queries and keys, with the planes of hasher_turn. Returns false if a row has NaN
   or infinity. */
bool hasher_codes(const struct kernels *kernels, struct pool *pool, const struct hasher *hasher,
                  struct view queries, struct view keys, void *query_codes, void *key_codes);

#endif
