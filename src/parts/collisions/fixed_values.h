/* Values rounded to 16-bit numbers, with a step so small that no sum of a bucket overflows: largest |value|
   times the members of the fullest bucket / 32767. Cost: the members are counted, m additions per token, and
   the values are scanned and rounded, together 6 % of yoso's forward at n 4096.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FIXED_VALUES_H
#define PARTS_FIXED_VALUES_H

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "parts/hashing/codes.h"

struct fixed_values {
    size_t workers, buckets;
    int16_t *rounded; /* (num_keys, width); NULL: no memory was taken */
    size_t width;     /* dim rounded up to whole FIXED_BLOCKs */
    uint32_t *counts; /* (workers, hashes counted at a time, buckets) */
    uint32_t *most;   /* (groups of hashes) members of the fullest bucket */
    float *largest;   /* (blocks of rows) |value| */
    double *squares;  /* (blocks of rows) sum over some of the rows */
};

/* `dim` rounded up to whole FIXED_BLOCKs. */
size_t fixed_values_width(size_t dim);

/* Takes the memory for num_keys rows of dim values, on `workers` threads. */
void fixed_values_init(struct fixed_values *fixed, struct arena *arena, const struct hashing *hashing,
                       size_t num_keys, size_t dim, size_t workers);

/* Rounds values (a row per key, ld, finite) and sets *step. Returns false, with nothing rounded, if the step
   exceeds 1 / 64 of the root mean square of the values, estimated from every eighth row. keys: not wide, at
   least one. */
bool fixed_values_round(const struct kernels *kernels, struct pool *pool, struct fixed_values *fixed,
                        const struct codes *keys, const float *values, size_t ld, size_t dim, float *step);

#endif
