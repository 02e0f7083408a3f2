/* The linear Transformer: the kernel f(q).f(k) with f(x) = elu(x) + 1 (Katharopoulos, Vyas, Pappas and
   Fleuret 2020, "Transformers are RNNs", equation 7), through sums of features
   (parts/features/feature_attention.h). As in the published code, 1e-6 is added to the denominator and
   nothing is scaled by sqrt(d). Cost: 4 n d d_v operations and n d exponentials on each side forward, three
   times that backward. Nothing is random. Saved: one float per query and d (d_v + 1) floats per
   1,024 rows. A stream's state is d (d_v + 1) floats.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/in_features.h"

static void elu_forward(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    (void)side;
    (void)scratch;
    map->kernels->features.elu(phi, map->dim, x, ld_x, rows, map->dim);
}

/* f'(x) = exp(min(x, 0)) = min(f(x), 1). */
static void elu_backward(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                         size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch)
{
    (void)side;
    (void)x;
    (void)ld_x;
    (void)scratch;
    map->kernels->features.elu_backward(dx, ld_dx, dphi, phi, map->dim, rows, map->dim);
}

static const float epsilon = 1e-6f;

static struct feature_map map_of(const struct problem_shape *shape)
{
    return (struct feature_map){
        .count = shape->head_dim, .dim = shape->head_dim, .forward = elu_forward, .backward = elu_backward};
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct feature_attention a = in_features(shape, map_of(shape), epsilon);
    return feature_attention_saved_size(&a);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct feature_attention a = in_features(shape, map_of(shape), epsilon);
    return feature_attention_scratch_size(&a);
}

static void forward(const struct problem *problem, struct view out)
{
    struct feature_attention a = in_features_open(problem, map_of(&problem->shape), epsilon);
    feature_attention_forward(&a, out, problem->scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct feature_attention a = in_features_open(problem, map_of(&problem->shape), epsilon);
    feature_attention_backward(&a, out, dout, gradients->query, gradients->key, gradients->value,
                               problem->scratch);
}

/* ---- streaming ----------------------------------------------------------------------------------------- */

static size_t state_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct feature_state s = in_features_state(NULL, shape, map_of(shape), epsilon, NULL);
    return feature_state_size(&s);
}

static size_t stream_scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct feature_state s = in_features_state(NULL, shape, map_of(shape), epsilon, NULL);
    return feature_state_scratch_size(&s);
}

static void absorb(const struct problem *problem, void *state, size_t first)
{
    (void)first;
    struct feature_state s =
        in_features_state(problem->kernels, &problem->shape, map_of(&problem->shape), epsilon, state);
    const struct feature_keys keys = {.key = problem->key, .value = problem->value};
    feature_state_add(&s, &keys, problem->scratch);
}

static void read(const struct problem *problem, void *state, size_t first, struct view out)
{
    (void)first;
    struct feature_state s =
        in_features_state(problem->kernels, &problem->shape, map_of(&problem->shape), epsilon, state);
    const struct feature_keys keys = {.key = problem->key, .value = problem->value};
    in_features_read(problem, &s, &keys, out, problem->scratch);
}

static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)
{
    (void)options;
    struct feature_state to = in_features_state(NULL, shape, map_of(shape), epsilon, into),
                         more = in_features_state(NULL, shape, map_of(shape), epsilon, from);
    feature_state_merge(&to, &more, 0);
}

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
