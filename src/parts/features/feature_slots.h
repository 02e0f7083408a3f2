/* The functions of a mechanism that is a feature map and nothing else: FEATURE_SLOTS(attention) defines those
   of its implementation and of its stream facet, under their names there, from a constant struct
   feature_attention.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_SLOTS_H
#define PARTS_FEATURE_SLOTS_H

#include "parts/features/feature_state.h"

#define FEATURE_SLOTS(attention)                                                                             \
    static size_t saved_size(const void *options, const struct problem_shape *shape)                         \
    {                                                                                                        \
        return feature_attention_saved_size(options, shape, &(attention));                                   \
    }                                                                                                        \
    static size_t scratch_size(const void *options, const struct problem_shape *shape)                       \
    {                                                                                                        \
        return feature_attention_scratch_size(options, shape, &(attention));                                 \
    }                                                                                                        \
    static void forward(const struct problem *problem, struct view out)                                      \
    {                                                                                                        \
        feature_attention_forward(problem, &(attention), out);                                               \
    }                                                                                                        \
    static void backward(const struct problem *problem, struct view out, struct view dout,                   \
                         const struct problem_gradients *gradients)                                          \
    {                                                                                                        \
        feature_attention_backward(problem, &(attention), out, dout, gradients);                             \
    }                                                                                                        \
    static size_t state_size(const void *options, const struct problem_shape *shape)                         \
    {                                                                                                        \
        return feature_state_size(options, shape, &(attention));                                             \
    }                                                                                                        \
    static size_t stream_scratch_size(const void *options, const struct problem_shape *shape)                \
    {                                                                                                        \
        return feature_state_scratch_size(options, shape, &(attention));                                     \
    }                                                                                                        \
    static void absorb(const struct problem *problem, void *state, size_t first)                             \
    {                                                                                                        \
        (void)first;                                                                                         \
        feature_state_add(problem, &(attention), state);                                                     \
    }                                                                                                        \
    static void read(const struct problem *problem, void *state, size_t first, struct view out)              \
    {                                                                                                        \
        (void)first;                                                                                         \
        feature_state_read(problem, &(attention), state, out);                                               \
    }                                                                                                        \
    static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)  \
    {                                                                                                        \
        feature_state_merge(options, shape, &(attention), into, from, 0);                                    \
    }

#endif
