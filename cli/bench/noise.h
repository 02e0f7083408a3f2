/* How far sampled attention should be from its expectation, from a model instead of a run: collisions of
   different keys as independent events (docs/MATH.md, "The error of sampling"). `bench error` holds it
   against what is measured, and `bench suggest` turns it round. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_NOISE_H
#define CLI_NOISE_H

#include "cli/bench/inputs.h"

/* Queries of each head that a prediction looks at, where there are as many. */
enum { NOISE_QUERIES = 64, NOISE_MOST_BITS = 24 };

size_t noise_queries(const struct bench_arrays *arrays);

/* ratios[(tau - least) * count + i], count = heads * noise_queries(): of one hash of tau bits, the standard
   deviation of the output across its expected direction over the length of the expected output, for each tau
   from least to most. About queries x keys x width x 2 (most - least + 2) operations.
   EXIT_GOOD, or no memory. */
int noise_of_one_hash(const struct bench_arrays *arrays, long least, long most, double *ratios);

/* The mean of the angle, in radians, over `count` queries at m hashes: atan(ratio / sqrt(m)). */
double noise_angle(const double *ratios, size_t count, double num_hashes);

#endif
