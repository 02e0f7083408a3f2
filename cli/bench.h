/* What the kinds of `bench` share. A kind is one file bench_NAME.c with one exported row, and one line in the
   table of cmd_bench.c; it is a command of its own, with its own options and example. From here it has clock
   and medians, inputs, and what sampled outputs are compared with exact ones by.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/arguments.h"
#include "cli/json_out.h"

extern const struct command bench_attention, bench_layer, bench_step, bench_peak;

/* ---- time ---- */

enum { BENCH_MOST_REPEATS = 101, BENCH_MOST_PARTS = 4, BENCH_SAMPLED_QUERIES = 256 };

double bench_seconds(void);
/* Of values that it sorts; NaN of none. */
double bench_median(double *values, size_t count);

/* One run of what is measured: the milliseconds of its parts (forward, backward, ...); EXIT_GOOD or what
   tool_fail gave. */
typedef int bench_run(void *user, double *part_ms);

/* Runs once to warm up, then `repeats` times, or (0) as often as fits two seconds, 3 to 25; the median of
   each part, at most BENCH_MOST_PARTS, goes to median_ms and the number of runs to *measured. */
int bench_measure(bench_run *once, void *user, size_t repeats, size_t parts, double *median_ms,
                  size_t *measured);

/* The option of that number of runs, for every kind that measures so. */
void bench_add_repeats(struct options *options, size_t *repeats);

/* ---- inputs ---- */

/* A block aligned for the library, for free(); NULL when there is none. */
void *bench_block(size_t bytes);

/* Queries, keys and values of one sequence, (heads, rows, width) one after another. */
struct bench_arrays {
    size_t heads, queries, keys, head_dim, value_dim;
    float *query, *key, *value;
};

/* Fills shapes and blocks: `input` is "iid", independent normal numbers, or "clustered", each row of Q and K
   the mean of its own normal vector and one that its head shares, at length sqrt(d), so that cosines are
   about 0.5 instead of 0. */
int bench_make_arrays(struct bench_arrays *arrays, const char *input, size_t heads, size_t seq_len,
                      size_t head_dim, uint64_t seed);
void bench_free_arrays(struct bench_arrays *arrays);
/* EXIT_GOOD, or a usage error where `input` is none of them. */
int bench_check_input(const struct options *options, const char *input);

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

/* ---- mechanisms and their errors ---- */

/* A new mechanism with those of the options given that it has: options of other mechanisms are ignored, so
   that one line serves a whole comparison. */
hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention);

/* The angle between two rows; a right angle where one is zero. */
double bench_angle(const float *a, const float *b, size_t width);

#endif
