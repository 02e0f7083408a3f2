/* Predicts the angle between sampled attention and its expectation by a model that takes collisions of
   different keys as independent events (docs/MATH.md, "The error of sampling"). `bench error` compares it
   with measurements; `bench suggest` inverts it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_NOISE_H
#define CLI_NOISE_H

#include "cli/bench/inputs.h"

/* At most NOISE_QUERIES queries per head enter a prediction. */
enum { NOISE_QUERIES = 64, NOISE_MOST_BITS = 24 };

size_t noise_queries(const struct bench_arrays *arrays);

/* For one query and one hash: the variance of the output perpendicular to its expectation, and the covariance
   with a hash that shares one plane, both divided by the square of the length of the expectation. */
struct noise {
    double variance, covariance;
};

/* noise[(tau - least) * count + i], count = heads * noise_queries(), for tau from least to most bits. Cost:
   about queries x keys x width x 2 (most - least + 2) operations. Returns EXIT_GOOD, or EXIT_RESOURCE if
   memory runs out. */
int noise_of_one_hash(const struct bench_arrays *arrays, long least, long most, struct noise *noise);

/* The mean angle over `count` queries, in radians, for m hashes of `bits` bits that share a pool of r planes
   per bit; r 0: they share none. */
double noise_angle(const struct noise *noise, size_t count, size_t m, long bits, size_t r);

#endif
