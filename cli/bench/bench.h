/* What the kinds of `bench` share. A kind is one file bench_NAME.c with one exported row, and one line in the
   table of cmd_bench.c; it is a command of its own, with its own options and example. From here it has clock
   and medians, inputs, and what sampled outputs are compared with exact ones by.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench/inputs.h"
#include "cli/shared/arguments.h"
#include "cli/shared/json_out.h"

extern const struct command bench_attention, bench_error, bench_layer, bench_peak, bench_step, bench_stream,
    bench_suggest;

/* ---- time ---- */

enum { BENCH_MOST_REPEATS = 101, BENCH_MOST_PARTS = 4 };

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

/* ---- mechanisms and their errors ---- */

/* A new mechanism with those of the options given that it has: options of other mechanisms are ignored, so
   that one line serves a whole comparison. */
hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention);

/* One mechanism under the clock: `attention` and `backward` are given, the rest is found. */
struct bench_timed {
    hashattn_attention *attention;
    int backward; /* 0: forward alone, backward_ms is NaN */
    int causal;
    double forward_ms, backward_ms;
    size_t measured, saved_bytes, scratch_bytes;
    float *out;
    /* of one run */
    hashattn_context *context;
    struct bench_problem run;
    float *dout, *dquery, *dkey, *dvalue, *dparams; /* dparams: NULL where the mechanism has none */
    double own_loss;
    uint16_t *halves[8]; /* what is timed where the context computes in bf16: query ... dvalue */
    void *saved, *scratch;
};
/* All queries of the arrays; `out` (heads, queries, d_v) is there afterwards. */
int bench_time(struct bench_timed *timed, hashattn_context *context, const struct bench_arrays *arrays,
               uint64_t seed, size_t repeats);
/* The mechanism and all blocks; `timed` may be all zero. */
void bench_free_timed(struct bench_timed *timed);

/* The angle between two rows; a right angle where one is zero. */
double bench_angle(const float *a, const float *b, size_t width);

#endif
