/* No attention: output = value. The control that shows whether a task needs attention at all. Cost: n d_v
   moves. Nothing is random, nothing is saved. A query whose own key is masked attends to none: 0.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_queries == shape->num_keys ? NULL : "output = value needs as many queries as keys";
}

static size_t no_memory(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

static void forward(const struct problem *problem, struct view out)
{
    const float *value = problem->value.data;
    float *to = out.data;
    for (size_t i = 0; i < out.rows; i++) {
        if (problem->key_mask == NULL || problem->key_mask[i] != 0)
            memcpy(to + i * out.stride, value + i * problem->value.stride, out.cols * sizeof *to);
        else
            memset(to + i * out.stride, 0, out.cols * sizeof *to);
    }
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    (void)out;
    float *dvalue = gradients->value.data;
    const float *from = dout.data;
    for (size_t i = 0; i < dout.rows; i++)
        if (problem->key_mask == NULL || problem->key_mask[i] != 0)
            problem->kernels->rows.axpy(dvalue + i * gradients->value.stride, 1, from + i * dout.stride,
                                        dout.cols);
}

static const struct option_row options[] = {{.name = NULL}};

const struct mechanism mechanism_none = {
    .name = "none",
    .summary = "no attention, output = value: a control",
    .options = options,
    .options_size = 0,
    .exact = true,
    .mixes = false,
    .sees_mask = true,
    .host = {refuse, no_memory, no_memory, forward, backward},
};
