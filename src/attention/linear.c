/* The linear Transformer: the kernel f(q).f(k) with f(x) = elu(x) + 1 (Katharopoulos, Vyas, Pappas and
   Fleuret 2020, "Transformers are RNNs", equation 7), through sums of features
   (parts/features/feature_attention.h). As in the published code, 1e-6 is added to the denominator and
   nothing is scaled by sqrt(d). Cost: 4 n d d_v operations and n d exponentials on each side forward, three
   times that backward. Nothing is random. Saved: one float per query and d (d_v + 1) floats per
   1,024 rows. A stream's state is d (d_v + 1) floats. SPDX-License-Identifier: Apache-2.0 */
#include "attention/in_features.h"

/* f(x) = exp(min(x, 0)) + max(x, 0). scratch: the rows max(x, 0), and zeros for the shift of the
 * exponentials. */
struct split {
    float *above, *shift;
};

static struct split split_rows(const struct feature_map *map, const float *x, size_t ld_x, size_t rows,
                               void *scratch)
{
    struct split s = {scratch, (float *)scratch + FEATURE_ROWS * map->dim};
    for (size_t i = 0; i < rows; i++) {
        map->kernels->rows.gate(s.above + i * map->dim, x + i * ld_x, x + i * ld_x, map->dim);
        s.shift[i] = 0;
    }
    return s;
}

static void elu_forward(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    (void)side;
    size_t dim = map->dim;
    struct split s = split_rows(map, x, ld_x, rows, scratch);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < dim; c++)
            phi[i * dim + c] = x[i * ld_x + c] - s.above[i * dim + c];
    map->kernels->softmax.exp(phi, dim, phi, dim, rows, dim, 1, s.shift, 0);
    map->kernels->rows.axpy(phi, 1, s.above, rows * dim);
}

/* f'(x) = exp(min(x, 0)). */
static void elu_backward(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                         size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch)
{
    (void)side;
    size_t dim = map->dim;
    struct split s = split_rows(map, x, ld_x, rows, scratch);
    for (size_t i = 0; i < rows * dim; i++)
        dphi[i] *= phi[i] - s.above[i];
    for (size_t i = 0; i < rows; i++)
        map->kernels->rows.axpy(dx + i * ld_dx, 1, dphi + i * dim, dim);
}

static const float epsilon = 1e-6f;

static struct feature_map map_of(const struct problem_shape *shape)
{
    return (struct feature_map){.count = shape->head_dim,
                                .dim = shape->head_dim,
                                .scratch = FEATURE_ROWS * (shape->head_dim + 1) * sizeof(float),
                                .forward = elu_forward,
                                .backward = elu_backward};
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
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
    .stream = &(const struct stream_facet){state_size, stream_scratch_size, absorb, read, merge},
};
