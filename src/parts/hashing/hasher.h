/* The rows of a head to their codes: mapped first where the map is not l2, then hashed with planes of the
   head's own, in blocks of rows that a pool shares out. No code depends on how rows are cut.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASHER_H
#define PARTS_HASHER_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/hashing/codes.h"
#include "parts/hashing/yoso_options.h"
#include "parts/rows/view.h"

/* What hashing needs of a head. */
struct hasher {
    const struct yoso_options *options;
    struct hashing hashing;
    size_t dim, width;     /* of a row as given, and mapped */
    double max_norm;       /* of map neyshabur */
    float *planes, *sign;  /* of this head; signs and order of its coordinates */
    uint32_t *permutation; /* (width), as sign */
    size_t ld, work;       /* of rows; floats of the work space of codes_hash */
    float *rows, *squares; /* (workers, work), (workers, CODES_ROWS) */
    float *taken;          /* (workers, CODES_ROWS, ld): what rows are once they are widened, or mapped */
};

struct hashing hashing_of(const struct yoso_options *options);

/* All but the planes, which are given, with room for hasher_planes floats. max_norm is as in the options. */
void hasher_lay_out(struct hasher *hasher, struct arena *arena, const struct yoso_options *options,
                    size_t dim, size_t workers);
size_t hasher_planes(const struct yoso_options *options, size_t dim);

/* Turns the planes that planes_draw or hadamard_draw left in `shared` into the head's own. */
void hasher_turn(const struct kernels *kernels, const struct hasher *hasher, const float *shared,
                 uint64_t random_key);

/* Writes the codes of all queries and keys, by the planes of hasher_turn. False if a row holds NaN or
   infinity. */
bool hasher_codes(const struct kernels *kernels, struct pool *pool, const struct hasher *hasher,
                  struct view queries, struct view keys, void *query_codes, void *key_codes);

#endif
