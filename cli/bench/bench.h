/* What all kinds of `bench` share: clock and medians, inputs, and the error of sampled outputs. A kind is a
   command of its own, with its own options and example: one file bench_NAME.c with one exported row, and one
   line in the table of cmd_bench.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench/inputs.h"
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/on_device.h"

extern const struct command bench_attention, bench_cluster, bench_decode, bench_error, bench_layer,
    bench_peak, bench_step, bench_stream, bench_suggest;

/* ---- time ---- */

enum { BENCH_MOST_REPEATS = 101, BENCH_MOST_PARTS = 4 };

double bench_seconds(void);
/* Sorts the values; NaN if there are none. */
double bench_median(double *values, size_t count);

/* Runs the measured work once and writes the milliseconds of its parts (forward, backward, ...). Returns
   EXIT_GOOD or the exit code of the reported error. */
typedef int bench_run(void *user, double *part_ms);

/* Runs once to warm up, then `repeats` times; 0: as often as fits into two seconds, 3 to 25 times. Writes the
   median of each part (at most BENCH_MOST_PARTS) to median_ms and the number of runs to *measured. */
int bench_measure(bench_run *once, void *user, size_t repeats, size_t parts, double *median_ms,
                  size_t *measured);

/* Adds the option --repeats. */
void bench_add_repeats(struct options *options, size_t *repeats);

/* ---- mechanisms and their errors ---- */

/* A new mechanism with the given options that it has. Options of other mechanisms are ignored, so that one
   command line serves a whole comparison. */
hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention);

/* The setup of one encoder layer: widths are dim, heads and ffn. Any task will do, because a layer does not
   depend on it. Options of other mechanisms are ignored, as above. */
hashattn_status bench_new_setup(hashattn_context *context, const char *mechanism, const size_t widths[3],
                                const struct options *options, hashattn_setup **setup);

/* plane_pool of yoso with the given options. Returns an exit code. */
int bench_plane_pool(hashattn_context *context, const struct options *options, size_t *plane_pool);

/* Timing of one mechanism. The caller sets `attention`, `backward` and `causal`; bench_time sets the rest. */
struct bench_timed {
    hashattn_attention *attention;
    int backward; /* 0: forward only, backward_ms is NaN */
    int causal;
    double forward_ms, backward_ms;
    size_t measured, saved_bytes, scratch_bytes;
    float *out;
    /* of one run */
    hashattn_context *context;
    struct bench_problem run;
    float *dout, *dquery, *dkey, *dvalue, *dparams; /* dparams: NULL if there are no parameters */
    double own_loss;
    uint16_t *halves[8]; /* if the context computes in bf16: query ... dvalue */
    void *saved, *scratch;
    bool on_device; /* of the context: set by the caller */
    bool profiled;  /* set by the caller: one more run, into the profile of the context */
    struct device_blocks blocks;
    void *device[8]; /* query ... dvalue there */
};
/* Times attention of all queries of the arrays and leaves the output in `out`, (heads, queries, d_v). */
int bench_time(struct bench_timed *timed, hashattn_context *context, const struct bench_arrays *arrays,
               uint64_t seed, size_t repeats);
/* Frees the mechanism and all blocks; `timed` may be all zero. */
void bench_free_timed(struct bench_timed *timed);

/* The angle between two rows in radians; a right angle if one is zero. */
double bench_angle(const float *a, const float *b, size_t width);

#endif
