/* Predicts the angle between sampled attention and its expectation by a model that takes collisions of
   different keys as independent events (docs/MATH.md, "The error of sampling"). `bench error` compares it
   with measurements; `bench suggest` inverts it. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_NOISE_H
#define CLI_NOISE_H

#include "cli/bench/inputs.h"

/* At most NOISE_QUERIES queries per head enter a prediction. */
enum { NOISE_QUERIES = 64, NOISE_MOST_BITS = 24 };

size_t noise_queries(const struct bench_arrays *arrays);

/* ratios[(tau - least) * count + i], count = heads * noise_queries(), for tau from least to most: for one
   hash of tau bits, the standard deviation of the output perpendicular to its expectation, divided by the
   length of the expectation. Cost: about queries x keys x width x 2 (most - least + 2) operations. Returns
   EXIT_GOOD, or EXIT_ROOM if memory runs out. */
int noise_of_one_hash(const struct bench_arrays *arrays, long least, long most, double *ratios);

/* The mean of the angle atan(ratio / sqrt(m)) over `count` queries, in radians; m = num_hashes. */
double noise_angle(const double *ratios, size_t count, double num_hashes);

#endif
