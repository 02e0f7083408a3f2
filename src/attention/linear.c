/* The linear Transformer: the kernel f(q).f(k) with f(x) = elu(x) + 1 (Katharopoulos, Vyas, Pappas and
   Fleuret 2020, "Transformers are RNNs", equation 7), through sums of features
   (parts/features/feature_attention.h). As in the published code, 1e-6 is added to the denominator and
   nothing is scaled by sqrt(d). Cost: 4 n d d_v operations and n d exponentials on each side forward, three
   times that backward. Nothing is random. Saved: one float per query and d (d_v + 1) floats per
   1,024 rows. A stream's state is d (d_v + 1) floats.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "parts/features/feature_slots.h"

static size_t elu_count(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->head_dim;
}

static void elu_forward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    (void)side;
    (void)scratch;
    size_t dim = problem->shape.head_dim;
    problem->kernels->features.elu(phi, dim, x, ld_x, rows, dim);
}

/* f'(x) = exp(min(x, 0)) = min(f(x), 1). */
static void elu_backward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                         size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch)
{
    (void)side;
    (void)x;
    (void)ld_x;
    (void)scratch;
    size_t dim = problem->shape.head_dim;
    problem->kernels->features.elu_backward(dx, ld_dx, dphi, phi, dim, rows, dim);
}

static const struct feature_attention linear = {
    .map = {.count = elu_count, .forward = elu_forward, .backward = elu_backward},
    .epsilon = 1e-6f,
};

FEATURE_SLOTS(linear)

static const struct option_row options[] = {{.name = NULL}};

const struct mechanism mechanism_linear = {
    .name = "linear",
    .summary = "linear attention with the features elu(x) + 1 (Katharopoulos et al. 2020)",
    .options = options,
    .options_size = 0,
    .exact = true,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .host = {NULL, saved_size, scratch_size, forward, backward},
    .stream = &(const struct stream_facet){state_size, stream_scratch_size, absorb, read, merge},
};
