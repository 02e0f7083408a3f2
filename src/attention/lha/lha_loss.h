/* The loss that the hash functions of lha learn from (Sun et al. 2022, eqs. 11 to 19 and 25; docs/LHA.md 4):
   its value, and the gradients of their parameters. Targets come from parts/groups/utility.h, a tile of
   tokens at a time, and meet the tile's scores, which are made again: 2 d B operations a token, and as many
   for the gradient. Cost of the targets: in lha.c. Memory is linear in n. SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTENTION_LHA_LOSS_H
#define ATTENTION_LHA_LOSS_H

#include "attention/lha/lha_hashes.h"

/* Whether it wants random features. */
bool lha_by_features(const struct lha_options *options);

/* Bytes behind those of lha_scratch_on. */
size_t lha_loss_size(const struct lha_options *options, const struct problem_shape *shape);

/* `compute` of own_loss_facet. */
double lha_loss(const struct problem *problem, const struct problem_gradients *gradients);

#endif
