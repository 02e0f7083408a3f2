/* Attention inside groups of tokens, from the scores of tokens for groups (grouped_members.h) to outputs and
   gradients: softmax attention inside the groups of all rounds, merged (group_attention.h), of rows that may
   be normed as they are gathered (plain_norm.h). Saved: the lists, and two floats per query. Cost beyond the
   pairs: that of the lists, and sqrt(2) n d numbers gathered, normed and merged. Scratch is linear in n.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUPED_H
#define PARTS_GROUPED_H

#include "parts/groups/group_lists.h"
#include "parts/groups/grouped_members.h"

/* Bytes of the scratch of either direction. It never falls as rows are added. */
size_t grouped_scratch_size(const struct problem_shape *shape, const struct grouped *grouped);

/* The rows that attend: the problem's, or normed rows in the scratch if `norm`. */
void grouped_attending(const struct problem *problem, const struct grouped *grouped, struct view *query,
                       struct view *key, void *scratch);
size_t grouped_attending_size(const struct problem_shape *shape, const struct grouped *grouped);

/* The members of its group that a query meets. */
enum group_sight grouped_sight(const struct problem_shape *shape, const struct grouped *grouped);

/* They save in problem->saved; the scratch is problem->scratch. */
void grouped_forward(const struct problem *problem, const struct grouped *grouped, struct view out);
void grouped_backward(const struct problem *problem, const struct grouped *grouped, struct view out,
                      struct view dout, const struct problem_gradients *gradients);

#endif
