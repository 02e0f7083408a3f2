/* What the kinds of bench compute on: arrays that are made, or read from .npy files, and views of sampled
   queries of them. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli/shared/arguments.h"

enum { BENCH_SAMPLED_QUERIES = 256 };

/* A block aligned for the library, for free(); NULL when there is none. */
void *bench_block(size_t bytes);

/* Queries, keys and values of one sequence, (heads, rows, width) one after another. */
struct bench_arrays {
    size_t heads, queries, keys, head_dim, value_dim;
    float *query, *key, *value;
};

/* How made vectors lie. Each row of Q and K is sqrt(1 - cosine) g + sqrt(cosine) u at length sqrt(d), g
   normal numbers of its own and u a normal vector that its head shares: `cosine` is about the mean of a pair.
   Query i then has the cosine `matched` with key i, where that is not 0. */
struct bench_input {
    const char *name;
    double cosine, matched;
};
/* iid, clustered (cosine 0.5), matched (0.9) or same (1); EXIT_GOOD, or a usage error that lists them. */
int bench_find_input(const struct options *options, const char *name, struct bench_input *input);
void bench_add_input(struct options *options, const char **name);

/* Arrays of independent heads; values are normal numbers. */
int bench_make_arrays(struct bench_arrays *arrays, const struct bench_input *input, size_t heads,
                      size_t seq_len, size_t head_dim, uint64_t seed);
/* From .npy files, (n, d) or (heads, n, d); the values have a row for each key. */
int bench_read_arrays(hashattn_context *context, const char *query, const char *key, const char *value,
                      struct bench_arrays *arrays);
/* The options of those files; all three or none, else a usage error. */
void bench_add_given(struct options *options, const char **query, const char **key, const char **value);
int bench_check_given(const struct options *options, const char *query, const char *key, const char *value);
void bench_free_arrays(struct bench_arrays *arrays);

/* `queries` rows of every head, evenly spaced, against all keys; the views are strided, nothing is copied. */
struct bench_problem {
    hashattn_problem problem;
    hashattn_array query, key, value;
};
struct bench_problem bench_problem_of(const struct bench_arrays *arrays, size_t queries, uint64_t seed);
/* All rows, or BENCH_SAMPLED_QUERIES where there are more. */
size_t bench_sampled(size_t rows);

/* The mean of <q, k> / |q| |k| over all pairs of each head; NaN where there is no pair. */
double bench_mean_cosine(const struct bench_arrays *arrays);

#endif
