/* Attention inside groups in double, for inputs that could overflow float32: presents the lists of
   group_attention.h to double_attention.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_ATTENTION_DOUBLE_H
#define PARTS_GROUP_ATTENTION_DOUBLE_H

#include "parts/groups/group_lists.h"
#include "parts/problem/problem.h"

/* Bytes of the scratch of either direction. */
size_t group_in_double_size(const struct problem_shape *shape, const struct group_sizes *sizes);

/* Do the work of group_forward and group_backward if float32 could overflow. Otherwise they return false and
   write nothing but the mark of softmax_rows.h. */
bool group_forward_in_double(const struct problem *problem, const struct group_lists *lists, struct view out,
                             void *scratch);
bool group_backward_in_double(const struct problem *problem, const struct group_lists *lists,
                              struct view dout, const struct problem_gradients *gradients, void *scratch);

#endif
