/* Inputs of benchmarks: arrays that are generated or read from .npy files, and views of sampled queries.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli/shared/options/arguments.h"

enum { BENCH_SAMPLED_QUERIES = 256 };

/* A block aligned for the library, or NULL if memory runs out. The caller frees it with free(). */
void *bench_block(size_t bytes);

/* Queries, keys and values of one sequence, (heads, rows, width) one after another. */
struct bench_arrays {
    size_t heads, queries, keys, head_dim, value_dim;
    float *query, *key, *value;
};

/* The distribution of generated vectors. Each row of Q and K is sqrt(1 - cosine) g + sqrt(cosine) u, scaled
   to length sqrt(d), with g normal and independent and u a normal vector shared by the head: `cosine` is
   about the mean cosine of a pair. If `matched` is not 0, query i has this cosine with key i. */
struct bench_input {
    const char *name;
    double cosine, matched;
};
/* Finds iid, clustered (cosine 0.5), matched (0.9) or same (1). Returns EXIT_GOOD, or a usage error that
   lists them. */
int bench_find_input(const struct options *options, const char *name, struct bench_input *input);
void bench_add_input(struct options *options, const char **name);

/* Generates arrays with independent heads; values are normal numbers. */
int bench_make_arrays(struct bench_arrays *arrays, const struct bench_input *input, size_t heads,
                      size_t seq_len, size_t head_dim, uint64_t seed);
/* Reads .npy files, (n, d) or (heads, n, d), with one row of values per key. */
int bench_read_arrays(hashattn_context *context, const char *query, const char *key, const char *value,
                      struct bench_arrays *arrays);
/* Adds the options of these files; it is a usage error to give only some of the three. */
void bench_add_given(struct options *options, const char **query, const char **key, const char **value);
int bench_check_given(const struct options *options, const char *query, const char *key, const char *value);
void bench_free_arrays(struct bench_arrays *arrays);

/* `queries` evenly spaced rows of every head against all keys, as strided views without copies. */
struct bench_problem {
    hashattn_problem problem;
    hashattn_array query, key, value;
};
struct bench_problem bench_problem_of(const struct bench_arrays *arrays, size_t queries, uint64_t seed);
/* The smaller of `rows` and BENCH_SAMPLED_QUERIES. */
size_t bench_sampled(size_t rows);

/* *mean = the mean of <q, k> / (|q| |k|) over all pairs of each head; NaN if there are no pairs. Returns
   EXIT_GOOD, or EXIT_RESOURCE if memory runs out. */
int bench_mean_cosine(const struct bench_arrays *arrays, double *mean);

#endif
