/* A sketch of the density of rows: for each of m = num_hashes hashes, a table of 2^tau counts, tau =
   hash_bits, says how many rows have each code. With the mean over hashes, a query q with codes f_h(q) has
     density(q) = (1/m) sum_h count_h[f_h(q)] / n,   E[density(q)] = (1/n) sum_j (1 - angle(q, x_j)/pi)^tau,
   because the bits of a hash are independent (parts/hashing/planes.c): YOSO with values of 1/n, whose tables
   need integers only. So rows can be added in any order, taken away and counted elsewhere, exactly. The zero
   row is orthogonal to all others.
   RACE (Coleman and Shrivastava 2020, Sub-linear RACE sketches for approximate kernel density estimation)
   is the same sum; ACE (Luo and Shrivastava 2018, Arrays of (locality-sensitive) count estimators) uses it
   for anomalies.
   Memory: 8 m 2^tau bytes; from the first rows on also the planes, and a block of as many rows as came. A
   sketch without rows to hash, such as one just loaded, has no planes: a file of a few bytes can ask for
   gigabytes of them. Cost of a row: 2 dim m tau operations to hash, and m counts. The planes are those that
   yoso draws for head 0 of a problem with this seed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DENSITY_SKETCH_H
#define DENSITY_SKETCH_H

#include <stdbool.h>

#include "base/host.h"
#include "parts/hashing/hasher.h"

enum density_map { DENSITY_MAP_NONE, DENSITY_MAP_EUCLIDEAN };
extern const char *const density_map_names[]; /* ended by NULL */

enum {
    SKETCH_MOST_DIM = 1 << 20,
    SKETCH_MOST_HASHES = 4096,
    SKETCH_MOST_BITS = 24,
    SKETCH_MOST_PLANES = 1 << 30
};
#define SKETCH_MOST_ROWS ((uint64_t)1 << 48) /* sums of counts fit 64 bits */

struct sketch_options {
    size_t num_hashes, hash_bits;
    enum density_map map;
    uint64_t seed;
};

struct sketch {
    struct sketch_options options;
    size_t dim, width;     /* of a row, and of what is hashed */
    uint64_t rows;         /* n */
    bool mapped;           /* centre and scale are known; always true without a map */
    uint64_t *counts;      /* (num_hashes, 2^hash_bits) */
    float *centre, *scale; /* (dim) of the Euclidean map */
    struct yoso_options hashing;
    struct hasher hasher;
    size_t block_rows; /* rows hashed at a time, at most */
    size_t room;       /* rows that taken and codes have room for */
    void *scratch;     /* of hashing; NULL until rows come, as hasher.planes */
    float *taken;      /* (room, width) mapped rows */
    void *codes;       /* (room, num_hashes) */
    const struct kernels *kernels;
    struct pool *pool;
};

/* An empty sketch for rows of `dim` numbers, 1 to SKETCH_MOST_DIM. REFUSED: the planes would have more than
   SKETCH_MOST_PLANES numbers. */
hashattn_status sketch_new(struct host *host, const struct kernels *kernels, struct pool *pool,
                           const struct sketch_options *options, size_t dim, struct sketch **sketch);
void sketch_free(struct host *host, struct sketch *sketch); /* NULL is allowed */
/* Counts (tables). */
size_t sketch_counts(const struct sketch *sketch);

/* Add rows x (n, dim), or take them away. The first rows added determine the Euclidean map: those of the
   first call, as many as number_rows_block. INVALID, and nothing changes: NaN or infinity; a row taken away
   has a bucket that is empty, so it was never added. NO_MEMORY, here and in sketch_score: nothing changes. */
hashattn_status sketch_add(struct host *host, struct sketch *sketch, const float *x, size_t n);
hashattn_status sketch_remove(struct host *host, struct sketch *sketch, const float *x, size_t n);
/* Writes density (n) of the rows x (n, dim), and unless it is NULL error (n), its standard error over the
   hashes; NaN with one hash. INVALID: NaN or infinity; the sketch has no rows. */
hashattn_status sketch_score(struct host *host, struct sketch *sketch, const float *x, size_t n,
                             float *density, float *error);
/* INVALID, with the difference: the sketches differ in dim, options, seed or Euclidean map. */
hashattn_status sketch_check_alike(struct host *host, const struct sketch *a, const struct sketch *b);
/* Adds the rows of `from`. INVALID: not alike. */
hashattn_status sketch_merge(struct host *host, struct sketch *sketch, const struct sketch *from);

#endif
