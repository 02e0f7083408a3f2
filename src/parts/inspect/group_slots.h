/* The functions of a mechanism that is a source of scores for groups and nothing else: GROUP_SLOTS(source)
   defines those of its implementation and of its inspection facet that depend on the constant struct
   score_source. The others are those of grouping.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_SLOTS_H
#define PARTS_GROUP_SLOTS_H

#include "parts/inspect/inspection.h"

#define GROUP_SLOTS(source)                                                                                  \
    static size_t scratch_size(const void *options, const struct problem_shape *shape)                       \
    {                                                                                                        \
        return grouping_scratch_size(options, shape, &(source));                                             \
    }                                                                                                        \
    static void forward(const struct problem *problem, struct view out)                                      \
    {                                                                                                        \
        grouping_forward(problem, &(source), out);                                                           \
    }                                                                                                        \
    static size_t inspect_size(const void *options, const struct problem_shape *shape)                       \
    {                                                                                                        \
        return inspection_scratch_size(options, shape, &(source));                                           \
    }                                                                                                        \
    static void inspect(const struct problem *problem, struct inspection *inspection)                        \
    {                                                                                                        \
        inspection_inspect(problem, &(source), inspection);                                                  \
    }

#endif
