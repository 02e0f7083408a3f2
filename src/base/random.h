/* Random numbers determined by a key and an index: Philox4x32-10 (Salmon et al. 2011, through Random123).
   There is no shared state, so neither the order of work nor the number of threads changes them. A key has 64
   bits. Keys are derived from keys, (parent, purpose, index) -> key, so that every use of randomness has a
   name: seed -> step -> layer -> sample -> head. Normals use our own logarithm and sine (no libm), so a seed
   gives the same bits on every machine.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* One row per use of randomness in the program. Values are never reused: they determine what a seed
   produces. */
enum random_purpose {
    RANDOM_STEP = 1,
    RANDOM_LAYER = 2,
    RANDOM_SAMPLE = 3,
    RANDOM_HEAD = 4,
    RANDOM_PLANES = 5,
    RANDOM_TURN = 6,
    RANDOM_INIT = 7,
    RANDOM_DROPOUT = 8,
    RANDOM_SHUFFLE = 9,
    RANDOM_DATA = 10,
    RANDOM_SPLIT = 11,
    RANDOM_MECHANISM = 12,
    RANDOM_BENCH = 13,
    RANDOM_EVALUATION = 14,
    RANDOM_PARTNERS = 15,
    RANDOM_GROUPS = 16,
    RANDOM_FEATURES = 17,
    RANDOM_INSPECTION = 18,
    RANDOM_TARGETS = 19,
    RANDOM_HASHES = 20,
    RANDOM_MASK = 21,
    RANDOM_BLOCKS = 24,
    RANDOM_DRAWS = 25,
    RANDOM_TOKENS = 30,
};

uint64_t random_key(uint64_t parent, enum random_purpose purpose, uint64_t index);

/* Four 32-bit words at `index` of a key. */
void random_words(uint64_t key, uint64_t index, uint32_t words[4]);

/* A sequential reader of one key's words, for generators of data. Not for the compute path. */
struct random {
    uint64_t key, index;
    uint32_t words[4];
    int left;
};
struct random random_open(uint64_t key);
uint32_t random_next(struct random *random);
/* Uniform in [0, bound), unbiased; bound >= 1. */
uint32_t random_below(struct random *random, uint32_t bound);
/* Uniform in [0, 1), 24 bits. */
float random_unit(struct random *random);

/* out[i], i < n: N(0,1) floats by Box and Muller, four per block of words. (key, first + i) determines
   element i. */
void random_normals(uint64_t key, uint64_t first, float *out, size_t n);
/* out: a uniform permutation of 0..n-1 (Fisher and Yates). */
void random_permutation(uint64_t key, uint32_t *out, size_t n);
/* out[i] = -1 or 1. */
void random_signs(uint64_t key, float *out, size_t n);

#endif
