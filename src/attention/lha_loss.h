/* The loss that the hash functions of lha learn from (docs/LHA.md 4): its value, and the gradients of their
   parameters. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_LOSS_H
#define ATTENTION_LHA_LOSS_H

#include "attention/lha_hashes.h"

/* Whether it wants random features. */
bool lha_by_features(const struct lha_options *options);

/* Bytes behind those of lha_scratch_on. */
size_t lha_loss_size(const struct lha_options *options, const struct problem_shape *shape);

/* Slot `auxiliary` of a mechanism. */
double lha_loss(const struct problem *problem, const struct problem_gradients *gradients);

#endif
