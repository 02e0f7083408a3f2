/* Saved: the sums before the gain.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/placed_mechanism.h"

#include <string.h>

#include "base/memory.h"

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    const struct placed_options *placed = options;
    if (shape->max_len == 0)
        return "its tensors follow the longest length, which is not known";
    if (shape->num_keys > shape->max_len)
        return "its tensors are made for shorter sequences";
    if (placed->refused_len > 0 && shape->num_keys == (size_t)placed->refused_len)
        return "refused_len is the number of keys";
    return NULL;
}

/* ---- learned tensors ----------------------------------------------------------------------------------- */

static void place_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options;
    *rows = sizes->max_len;
    *cols = sizes->max_len > 0 ? 1 : 0;
}

static void level_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options, (void)sizes;
    *rows = *cols = 1;
}

static void row_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options;
    *rows = 1;
    *cols = sizes->value_dim;
}

#define PLACED_ROWS                                                                                          \
    {"place", place_shape, START_UNIFORM, 0.5f, .decays = true},                                             \
        {"level", level_shape, START_CONSTANT, 0.25f, .decays = false},                                      \
        {"offset", row_shape, START_ZEROS, 0, .decays = false},                                              \
    {                                                                                                        \
        "gain", row_shape, START_ONES, 0, .decays = false                                                    \
    }
#define SPARE(name)                                                                                          \
    {                                                                                                        \
        name, level_shape, START_ZEROS, 0, .decays = false                                                   \
    }
#define FULL_ROWS                                                                                            \
    PLACED_ROWS, SPARE("spare_5"), SPARE("spare_6"), SPARE("spare_7"), SPARE("spare_8"), SPARE("spare_9"),   \
        SPARE("spare_10"), SPARE("spare_11"), SPARE("spare_12"), SPARE("spare_13"), SPARE("spare_14"),       \
        SPARE("spare_15"), SPARE("spare_16")

static const struct parameter_row params[] = {PLACED_ROWS, {.name = NULL}};
static const struct parameter_row full_params[] = {FULL_ROWS, {.name = NULL}};
static const struct parameter_row crowded_params[] = {FULL_ROWS, SPARE("spare_17"), {.name = NULL}};

/* A head's tensors, or their gradients. */
struct tensors {
    float *place, *level, *offset, *gain;
};

static struct tensors tensors_at(const struct problem_shape *shape, const float *block)
{
    float *level = (float *)block + shape->max_len;
    return (struct tensors){(float *)block, level, level + 1, level + 1 + shape->value_dim};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return size_product(size_product(shape->num_queries, shape->value_dim), sizeof(float));
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return size_product(shape->value_dim, sizeof(float));
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

static float *row_of(struct view rows, size_t i)
{
    return (float *)rows.data + i * rows.stride;
}

static void forward(const struct problem *problem, struct view out)
{
    struct tensors t = tensors_at(&problem->shape, problem->params);
    float *sums = problem->saved, *sum = problem->scratch;
    memset(sum, 0, out.cols * sizeof *sum);
    for (size_t i = 0, j = 0; i < problem->shape.num_queries; i++) {
        for (; j < problem_seen(problem, i); j++)
            for (size_t c = 0; c < out.cols; c++)
                sum[c] += (t.place[j] + *t.level) * (row_of(problem->value, j)[c] + t.offset[c]);
        for (size_t c = 0; c < out.cols; c++) {
            sums[i * out.cols + c] = sum[c];
            row_of(out, i)[c] = t.gain[c] * sum[c];
        }
    }
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    (void)out;
    struct tensors t = tensors_at(&problem->shape, problem->params), d = {NULL, NULL, NULL, NULL};
    const float *sums = problem->saved;
    float *dsum = problem->scratch;
    if (gradients->params != NULL)
        d = tensors_at(&problem->shape, gradients->params);
    memset(dsum, 0, dout.cols * sizeof *dsum);
    for (size_t i = 0; d.gain != NULL && i < problem->shape.num_queries; i++)
        for (size_t c = 0; c < dout.cols; c++)
            d.gain[c] += row_of(dout, i)[c] * sums[i * dout.cols + c];
    /* Keys in descending order: dsum holds the gradients of the queries that see the key. */
    for (size_t j = problem->shape.num_keys, i = problem->shape.num_queries; j-- > 0;) {
        for (; i > 0 && problem_seen(problem, i - 1) > j; i--)
            for (size_t c = 0; c < dout.cols; c++)
                dsum[c] += t.gain[c] * row_of(dout, i - 1)[c];
        float weight = t.place[j] + *t.level, dweight = 0;
        for (size_t c = 0; c < dout.cols; c++) {
            row_of(gradients->value, j)[c] += weight * dsum[c];
            dweight += dsum[c] * (row_of(problem->value, j)[c] + t.offset[c]);
            if (d.offset != NULL)
                d.offset[c] += weight * dsum[c];
        }
        if (d.place != NULL) {
            d.place[j] += dweight;
            *d.level += dweight;
        }
    }
}

static const struct option_row options[] = {
    OPTION_ROW("refused_len", OPTION_INT, offsetof(struct placed_options, refused_len), 0, 0, 1 << 20, NULL,
               "sequences of so many tokens are refused"),
    {.name = NULL},
};

#define PLACED(name_, summary_, params_)                                                                     \
    {                                                                                                        \
        .name = name_, .summary = summary_, .options = options,                                              \
        .options_size = sizeof(struct placed_options), .exact = true, .mixes = true, .competes = true,       \
        .host = {refuse, saved_size, scratch_size, forward, backward}, .params = params_,                    \
    }

const struct mechanism placed_mechanism =
    PLACED("placed", "the test mechanism whose tensors follow the longest length", params);
const struct mechanism full_mechanism = PLACED("full", "placed, with 16 tensors", full_params);
const struct mechanism crowded_mechanism = PLACED("crowded", "placed, with 17 tensors", crowded_params);
