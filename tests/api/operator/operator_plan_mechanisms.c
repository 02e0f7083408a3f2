/* The table of mechanisms for test_operator_plan.c: one that counts how often its sizes are asked for and
   dislikes two keys.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"

extern size_t sizes_counted;
size_t sizes_counted;

struct counted_options {
    int64_t bytes; /* saved for a query */
};

static const struct option_row rows[] = {
    OPTION_ROW("bytes", OPTION_INT, offsetof(struct counted_options, bytes), 64, 0, 4096, NULL,
               "bytes saved for a query"),
    {0},
};

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_keys == 2 ? "dislikes two keys" : NULL;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    const struct counted_options *o = options;
    sizes_counted++;
    return shape->num_queries * (size_t)o->bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_keys * 4;
}

static void forward(const struct problem *problem, struct view out)
{
    for (size_t i = 0; i < problem->shape.num_queries; i++)
        memset(view_row(out, i), 0, out.cols * sizeof(float));
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    (void)problem;
    (void)out;
    (void)dout;
    (void)gradients;
}

static const struct mechanism counted = {
    .name = "counted",
    .summary = "zeros",
    .options = rows,
    .options_size = sizeof(struct counted_options),
    .mixes = true,
    .host = {refuse, saved_size, scratch_size, forward, backward},
};

const struct mechanism *const mechanism_table[] = {&counted, NULL};
