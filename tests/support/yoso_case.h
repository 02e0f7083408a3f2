/* One head for tests of yoso and yoso-e: inputs in strided views, exactly the memory the mechanism asks for,
   and the same inputs in double for the oracle. Gaps between rows hold a marker that must stay.
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
    /* The oracle's view of the same: inputs by case_to_oracle, results (rows, width) without gaps. */
    struct oracle_yoso oracle;
    double *x, *y, *dy, *dq, *dk, *dv;
    uint32_t *query_codes, *key_codes;
};

struct yoso_options yoso_preset(void);

/* Random normals everywhere, gradients 0. Blocks are made for exactly this shape. */
struct yoso_case *case_new(const struct mechanism *mechanism, const struct kernels *kernels,
                           const struct yoso_options *options, size_t n_q, size_t n_k, size_t d, size_t d_v,
                           uint64_t seed);
void case_free(struct yoso_case *c);

/* From now on queries see the first of the keys alone, in the problem and in the oracle: query i the first
   i + 1 (form 0), or uneven steps as masks make them, none at first (form 1). */
void case_make_causal(struct yoso_case *c, int form);

/* Draws planes and turn anew from the seed. */
void case_prepare(struct yoso_case *c, uint64_t seed);
void case_forward(struct yoso_case *c);
void case_backward(struct yoso_case *c);
void case_clear_gradients(struct yoso_case *c);

float *case_row(struct view view, size_t row);
/* View to doubles without gaps, and the other way round. */
void case_read(double *to, struct view from);
/* Inputs, dout and (for yoso, after forward) the codes, as the oracle wants them. */
void case_to_oracle(struct yoso_case *c, bool sampled);
/* Forward and backward of the oracle on them. */
void case_ask_oracle(struct yoso_case *c, bool sampled);

#endif
