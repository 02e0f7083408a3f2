/* Saves the features of queries and keys, X, and the number of keys that each query saw.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/linear_mechanism.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

static const float *row_of(struct view rows, size_t i)
{
    return (const float *)rows.data + i * rows.stride;
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->head_dim > 64 ? "takes head_dim up to 64" : NULL;
}

static const char *blind_refuse(const void *options, const struct problem_shape *shape)
{
    const struct linear_options *linear = options;
    return linear->weighting != 0 ? "does not see positions" : refuse(options, shape);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static size_t features_of(const void *options)
{
    return (size_t)((const struct linear_options *)options)->features;
}

struct saved {
    float *query, *key; /* (n_q, features), (n_k, features) */
    float *mean;        /* (n_q, d_v): X */
    float *count;       /* (n_q) */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    size_t features = features_of(options);
    saved.query = arena_take(&arena, size_product(shape->num_queries, features), sizeof(float));
    saved.key = arena_take(&arena, size_product(shape->num_keys, features), sizeof(float));
    saved.mean = arena_take(&arena, size_product(shape->num_queries, shape->value_dim), sizeof(float));
    saved.count = arena_take(&arena, shape->num_queries, sizeof(float));
    saved.bytes = arena.used;
    return saved;
}

/* The state of a stream: the number of keys added, then the table (features, d_v). */
static size_t state_floats(const void *options, const struct problem_shape *shape)
{
    return size_sum(1, size_product(features_of(options), shape->value_dim));
}

struct scratch {
    float *signs;              /* (d): s_c t_c */
    float *state, *dstate;     /* (state_floats) */
    float *feature, *dfeature; /* (features) */
    float *row;                /* (d_v) */
    float *per_worker;         /* (workers, features) */
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    scratch.signs = arena_take(&arena, shape->head_dim, sizeof(float));
    scratch.state = arena_take(&arena, state_floats(options, shape), sizeof(float));
    scratch.dstate = arena_take(&arena, state_floats(options, shape), sizeof(float));
    scratch.feature = arena_take(&arena, features_of(options), sizeof(float));
    scratch.dfeature = arena_take(&arena, features_of(options), sizeof(float));
    scratch.row = arena_take(&arena, shape->value_dim, sizeof(float));
    scratch.per_worker =
        arena_take(&arena, size_product(shape->workers, features_of(options)), sizeof(float));
    scratch.bytes = arena.used;
    return scratch;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

static size_t shared_size(const void *options, size_t head_dim)
{
    (void)options;
    return size_product(head_dim, sizeof(float));
}

enum { PREPARE_BYTES = 4096 };

/* Much more than a unit needs, so that the driver's other scratch memory cannot suffice. */
static size_t prepare_scratch_size(const void *options, size_t head_dim, size_t workers)
{
    (void)options;
    return size_product(size_product(workers, PREPARE_BYTES), head_dim);
}

static void prepare(const struct preparation *preparation)
{
    size_t workers = (size_t)pool_threads(preparation->pool);
    memset(preparation->scratch, 0xA5,
           prepare_scratch_size(preparation->options, preparation->head_dim, workers));
    random_signs(random_key(preparation->call_key, RANDOM_PLANES, 0), preparation->shared,
                 preparation->head_dim);
}

/* Views must agree with the shape. */
static void check_views(const struct problem *problem)
{
    const struct problem_shape *shape = &problem->shape;
    if (problem->query.rows != shape->num_queries || problem->key.rows != shape->num_keys ||
        problem->value.rows != shape->num_keys)
        abort();
}

static struct scratch open_scratch(const struct problem *problem)
{
    check_views(problem);
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    const float *shared = problem->shared;
    random_signs(random_key(problem->random_key, RANDOM_TURN, 0), scratch.signs, problem->shape.head_dim);
    for (size_t c = 0; c < problem->shape.head_dim; c++)
        scratch.signs[c] *= shared[c];
    return scratch;
}

/* ---- the steps ----------------------------------------------------------------------------------------- */

static void make_feature(const struct problem *problem, const float *signs, const float *x, float *feature)
{
    size_t d = problem->shape.head_dim;
    for (size_t r = 0; r < features_of(problem->options); r++) {
        feature[r] = 0;
        for (size_t c = 0; c < d; c++)
            feature[r] += problem->params[r * d + c] * signs[c] * x[c];
    }
}

/* dx and dproject from the gradient of a feature; dx NULL: only dproject. */
static void feature_backward(const struct problem *problem, const float *signs, const float *x,
                             const float *dfeature, float *dx, float *dproject)
{
    size_t d = problem->shape.head_dim;
    for (size_t r = 0; r < features_of(problem->options); r++)
        for (size_t c = 0; c < d; c++) {
            if (dx != NULL)
                dx[c] += dfeature[r] * problem->params[r * d + c] * signs[c];
            if (dproject != NULL)
                dproject[r * d + c] += dfeature[r] * signs[c] * x[c];
        }
}

static float weight_at(const struct problem *problem, size_t position)
{
    const struct linear_options *options = problem->options;
    return options->weighting == 1 ? (float)(1 + options->slope * (double)position) : 1;
}

static bool is_masked(const struct problem *problem, size_t i)
{
    return problem->key_mask != NULL && problem->key_mask[i] == 0;
}

/* table (features, d_v) += weight * feature value^T; state[0] counts the keys. */
static void enter(const struct problem *problem, float *state, float weight, const float *feature,
                  const float *value)
{
    size_t d_v = problem->shape.value_dim;
    state[0] += 1;
    for (size_t r = 0; r < features_of(problem->options); r++)
        for (size_t c = 0; c < d_v; c++)
            state[1 + r * d_v + c] += weight * feature[r] * value[c];
}

static float divisor_of(const struct problem *problem, float count)
{
    const struct linear_options *options = problem->options;
    return options->average && count > 0 ? count : 1;
}

static void answer(const struct problem *problem, const float *state, const float *feature, float *mean)
{
    size_t d_v = problem->shape.value_dim;
    for (size_t c = 0; c < d_v; c++) {
        mean[c] = 0;
        for (size_t r = 0; r < features_of(problem->options); r++)
            mean[c] += feature[r] * state[1 + r * d_v + c];
        mean[c] /= divisor_of(problem, state[0]);
    }
}

static void write_out(const struct problem *problem, const float *mean, struct view out, size_t i)
{
    const float *gain = problem->params + features_of(problem->options) * problem->shape.head_dim;
    for (size_t c = 0; c < out.cols; c++)
        ((float *)out.data)[i * out.stride + c] = gain[c] * mean[c];
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

struct key_features {
    const struct problem *problem;
    const struct saved *saved;
    const struct scratch *scratch;
};

/* A part of the work that a pool may distribute; each worker has its own scratch memory, counted by
   scratch_size. */
static void make_key_feature(void *argument, size_t j, int worker)
{
    const struct key_features *work = argument;
    size_t features = features_of(work->problem->options);
    if (worker < 0 || (size_t)worker >= work->problem->shape.workers)
        abort();
    float *feature = work->scratch->per_worker + (size_t)worker * features;
    make_feature(work->problem, work->scratch->signs, row_of(work->problem->key, j), feature);
    memcpy(work->saved->key + j * features, feature, features * sizeof(float));
}

static void make_key_features(const struct problem *problem, const struct saved *saved,
                              const struct scratch *scratch)
{
    struct key_features work = {problem, saved, scratch};
    pool_run(problem->pool, make_key_feature, &work, problem->shape.num_keys);
}

static void forward(const struct problem *problem, struct view out)
{
    const struct problem_shape *shape = &problem->shape;
    struct saved saved = saved_on(problem->options, shape, problem->saved);
    struct scratch scratch = open_scratch(problem);
    size_t features = features_of(problem->options);
    memset(scratch.state, 0, state_floats(problem->options, shape) * sizeof(float));
    make_key_features(problem, &saved, &scratch);
    size_t entered = 0;
    for (size_t i = 0; i < shape->num_queries; i++) {
        for (size_t end = shape->causal ? problem->visible[i] : shape->num_keys; entered < end; entered++)
            if (!is_masked(problem, entered))
                enter(problem, scratch.state, weight_at(problem, entered), saved.key + entered * features,
                      row_of(problem->value, entered));
        make_feature(problem, scratch.signs, row_of(problem->query, i), saved.query + i * features);
        answer(problem, scratch.state, saved.query + i * features, saved.mean + i * shape->value_dim);
        saved.count[i] = scratch.state[0];
        write_out(problem, saved.mean + i * shape->value_dim, out, i);
    }
}

/* dstate += the gradient of the table from query i; also adds to dgain. */
static void query_sends(const struct problem *problem, const struct saved *saved, struct view dout, size_t i,
                        float *dstate, float *dmean)
{
    size_t d_v = problem->shape.value_dim, features = features_of(problem->options);
    const float *gain = problem->params + features * problem->shape.head_dim;
    for (size_t c = 0; c < d_v; c++)
        dmean[c] = row_of(dout, i)[c] * gain[c] / divisor_of(problem, saved->count[i]);
    for (size_t r = 0; r < features; r++)
        for (size_t c = 0; c < d_v; c++)
            dstate[1 + r * d_v + c] += saved->query[i * features + r] * dmean[c];
}

static void backward_key(const struct problem *problem, const struct saved *saved,
                         const struct scratch *scratch, size_t j, const struct problem_gradients *gradients)
{
    size_t d_v = problem->shape.value_dim, features = features_of(problem->options);
    float weight = weight_at(problem, j);
    float *dvalue = (float *)gradients->value.data + j * gradients->value.stride;
    const float *feature = saved->key + j * features, *value = row_of(problem->value, j);
    for (size_t r = 0; r < features; r++) {
        scratch->dfeature[r] = 0;
        for (size_t c = 0; c < d_v; c++) {
            scratch->dfeature[r] += weight * scratch->dstate[1 + r * d_v + c] * value[c];
            dvalue[c] += weight * scratch->dstate[1 + r * d_v + c] * feature[r];
        }
    }
    feature_backward(problem, scratch->signs, row_of(problem->key, j), scratch->dfeature,
                     (float *)gradients->key.data + j * gradients->key.stride, gradients->params);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    (void)out;
    const struct problem_shape *shape = &problem->shape;
    struct saved saved = saved_on(problem->options, shape, problem->saved);
    struct scratch scratch = open_scratch(problem);
    size_t features = features_of(problem->options), d_v = shape->value_dim, entered = 0;
    float *dgain = gradients->params == NULL ? NULL : gradients->params + features * shape->head_dim;
    memset(scratch.state, 0, state_floats(problem->options, shape) * sizeof(float));
    memset(scratch.dstate, 0, state_floats(problem->options, shape) * sizeof(float));
    /* Queries in ascending order, with the table as each of them saw it. */
    for (size_t i = 0; i < shape->num_queries; i++) {
        for (size_t end = shape->causal ? problem->visible[i] : shape->num_keys; entered < end; entered++)
            if (!is_masked(problem, entered))
                enter(problem, scratch.state, weight_at(problem, entered), saved.key + entered * features,
                      row_of(problem->value, entered));
        query_sends(problem, &saved, dout, i, scratch.dstate, scratch.row);
        for (size_t r = 0; r < features; r++) {
            scratch.dfeature[r] = 0;
            for (size_t c = 0; c < d_v; c++)
                scratch.dfeature[r] += scratch.state[1 + r * d_v + c] * scratch.row[c];
        }
        feature_backward(problem, scratch.signs, row_of(problem->query, i), scratch.dfeature,
                         (float *)gradients->query.data + i * gradients->query.stride, gradients->params);
        for (size_t c = 0; c < d_v && dgain != NULL; c++)
            dgain[c] += row_of(dout, i)[c] * saved.mean[i * d_v + c];
    }
    /* Keys in descending order, with the gradients of the queries that saw them. */
    if (shape->causal)
        memset(scratch.dstate, 0, state_floats(problem->options, shape) * sizeof(float));
    for (size_t j = shape->num_keys, i = shape->num_queries; j-- > 0;) {
        while (shape->causal && i > 0 && problem->visible[i - 1] > j)
            query_sends(problem, &saved, dout, --i, scratch.dstate, scratch.row);
        if (!is_masked(problem, j))
            backward_key(problem, &saved, &scratch, j, gradients);
    }
}

static double compute_loss(const struct problem *problem, const struct problem_gradients *gradients)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch scratch = open_scratch(problem);
    size_t features = features_of(problem->options);
    double loss = 0;
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        const float *feature = saved.query + i * features;
        for (size_t r = 0; r < features; r++)
            loss += 0.5 * (double)feature[r] * (double)feature[r];
        if (gradients->params != NULL)
            feature_backward(problem, scratch.signs, row_of(problem->query, i), feature, NULL,
                             gradients->params);
    }
    return loss;
}

static double loss_share(const void *options)
{
    (void)options;
    return 0.375;
}

/* ---- streaming ----------------------------------------------------------------------------------------- */

static size_t state_size(const void *options, const struct problem_shape *shape)
{
    return size_product(state_floats(options, shape), sizeof(float));
}

static void absorb_key(const struct problem *problem, const struct scratch *scratch, float *state, size_t j,
                       size_t position)
{
    if (is_masked(problem, j))
        return;
    make_feature(problem, scratch->signs, row_of(problem->key, j), scratch->feature);
    enter(problem, state, weight_at(problem, position), scratch->feature, row_of(problem->value, j));
}

static void absorb(const struct problem *problem, void *state, size_t first)
{
    struct scratch scratch = open_scratch(problem);
    for (size_t j = 0; j < problem->shape.num_keys; j++)
        absorb_key(problem, &scratch, state, j, first + j);
}

static void read(const struct problem *problem, void *state, size_t first, struct view out)
{
    struct scratch scratch = open_scratch(problem);
    size_t entered = 0;
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        while (problem->shape.causal && entered < problem->visible[i]) {
            absorb_key(problem, &scratch, state, entered, first + entered);
            entered++;
        }
        make_feature(problem, scratch.signs, row_of(problem->query, i), scratch.feature);
        answer(problem, state, scratch.feature, scratch.row);
        write_out(problem, scratch.row, out, i);
    }
}

static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)
{
    float *to = into;
    const float *more = from;
    for (size_t i = 0; i < state_floats(options, shape); i++)
        to[i] += more[i];
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void project_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                          size_t *cols)
{
    *rows = features_of(options);
    *cols = sizes->head_dim;
}

static void gain_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options;
    *rows = 1;
    *cols = sizes->value_dim;
}

static const struct parameter_row params[] = {
    {.name = "project", .shape = project_shape, .start = START_NORMAL, .scale = 0.1f},
    {.name = "gain", .shape = gain_shape, .start = START_NORMAL, .scale = 1},
    {.name = NULL},
};

static const char *const weightings[] = {"even", "rising", NULL};

#define FEATURES(maximum_)                                                                                   \
    OPTION_ROW("features", OPTION_INT, offsetof(struct linear_options, features), 3, 1, maximum_, NULL,      \
               "rows of the projection")

static const struct option_row narrow_options[] = {FEATURES(8), {.name = NULL}};

static const struct option_row options[] = {
    FEATURES(16),
    OPTION_ROW("slope", OPTION_REAL, offsetof(struct linear_options, slope), 0.25, 0, 1, NULL,
               "growth of a key's weight with its position"),
    OPTION_ROW("weighting", OPTION_CHOICE, offsetof(struct linear_options, weighting), 0, 0, 0, weightings,
               "weights of the keys"),
    OPTION_ROW("average", OPTION_FLAG, offsetof(struct linear_options, average), 0, 0, 0, NULL,
               "divide by the number of keys"),
    {.name = NULL},
};

static const struct preparation_facet preparation = {shared_size, prepare_scratch_size, prepare};
static const struct own_loss_facet own_loss = {compute_loss, loss_share};
static const struct stream_facet stream = {state_size, scratch_size, absorb, read, merge};

#define LINEAR(name_, summary_, options_, sees_mask_, competes_, refuse_)                                    \
    {                                                                                                        \
        .name = name_, .summary = summary_, .options = options_,                                             \
        .options_size = sizeof(struct linear_options), .exact = true, .quadratic = true, .mixes = true,      \
        .sees_mask = sees_mask_, .competes = competes_, .params = params,                                    \
        .host = {refuse_, saved_size, scratch_size, forward, backward}, .preparation = &preparation,         \
        .own_loss = &own_loss, .stream = &stream,                                                            \
    }

const struct mechanism linear_mechanism =
    LINEAR("linear", "the test mechanism", options, true, false, refuse);
const struct mechanism blind_mechanism =
    LINEAR("blind", "the same, blind to masks", options, false, false, blind_refuse);
const struct mechanism competing_mechanism =
    LINEAR("competing", "blind, and its queries compete", options, false, true, blind_refuse);
const struct mechanism narrow_mechanism =
    LINEAR("narrow", "blind, with fewer features at most", narrow_options, false, false, blind_refuse);
