/* One head for tests of yoso and yoso-e: inputs in strided views, exactly the memory that the mechanism
   requests, and the same inputs in double for the oracle. Gaps between rows hold a marker that must not
   change.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_YOSO_CASE_H
#define TESTS_SUPPORT_YOSO_CASE_H

#include "attention/mechanism.h"
#include "oracle/oracle_yoso.h"
#include "parts/hashing/yoso_options.h"

extern const struct mechanism mechanism_yoso, mechanism_yoso_e;

struct yoso_case {
    const struct mechanism *mechanism;
    struct yoso_options options;
    struct problem problem;
    struct view out, dout;
    struct problem_gradients gradients;
    void *shared, *prepare_scratch;
    size_t *visible; /* (n_q), or NULL */
    /* The oracle's arrays: inputs from case_to_oracle, results (rows, width) without gaps. */
    struct oracle_yoso oracle;
    double *x, *y, *dy, *dq, *dk, *dv;
    uint32_t *query_codes, *key_codes;
};

struct yoso_options yoso_preset(void);

/* Fills inputs with normals and gradients with 0. Blocks have exactly the sizes of this shape. */
struct yoso_case *case_new(const struct mechanism *mechanism, const struct kernels *kernels,
                           const struct yoso_options *options, size_t n_q, size_t n_k, size_t d, size_t d_v,
                           uint64_t seed);
void case_free(struct yoso_case *c);

/* Limits each query to the first keys, in the problem and in the oracle: query i sees the first i + 1 (form
   0), or numbers that grow unevenly from 0, as masks make them (form 1). */
void case_make_causal(struct yoso_case *c, int form);

/* Draws hyperplanes and rotation again from the seed. */
void case_prepare(struct yoso_case *c, uint64_t seed);
void case_forward(struct yoso_case *c);
void case_backward(struct yoso_case *c);
void case_clear_gradients(struct yoso_case *c);

float *case_row(struct view view, size_t row);
/* Copies a view to doubles without gaps, and back. */
void case_read(double *to, struct view from);
/* Passes inputs, dout and, for yoso after forward, the codes to the oracle. */
void case_to_oracle(struct yoso_case *c, bool sampled);
/* Runs the oracle's forward and backward on them. */
void case_ask_oracle(struct yoso_case *c, bool sampled);

/* Sums of |terms| for every element of Y and of the gradients, which the rounding error is a multiple of, for
   any order of the sums. */
struct case_sizes {
    double *y, *dq, *dk, *dv;
};
/* After case_ask_oracle. */
struct case_sizes case_sizes_of(const struct yoso_case *c);
void case_sizes_free(struct case_sizes *sizes);
/* Fails unless |got - want| <= factor * 2^-24 * size for all elements. */
void case_check_view(struct view got, const double *want, const double *size, double factor, const char *what,
                     const struct yoso_case *c);
/* The largest error over its bound so far. */
double case_worst_ratio(void);

#endif
