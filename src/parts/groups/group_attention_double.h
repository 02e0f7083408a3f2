/* Attention inside groups in double, for inputs that could overflow float32: presents the lists of
   group_attention.h to double_attention.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_ATTENTION_DOUBLE_H
#define PARTS_GROUP_ATTENTION_DOUBLE_H

#include "parts/groups/group_problem.h"
#include "parts/tiles/double_attention.h"

/* Bytes of the scratch of either direction. */
size_t group_in_double_size(const struct group_sizes *sizes);

/* Do the work of group_forward and group_backward if float32 could overflow. Otherwise they return false and
   write nothing but the mark of softmax_rows.h. */
bool group_forward_in_double(const struct group_attention *attention, struct view out, void *scratch);
bool group_backward_in_double(const struct group_attention *attention, struct view dout,
                              const struct problem_gradients *gradients, void *scratch);

#endif
