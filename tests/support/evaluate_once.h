/* Evaluates parameters in a session of their own. Arguments as of evaluate().
   SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_EVALUATE_ONCE_H
#define SUPPORT_EVALUATE_ONCE_H

#include "train/trainer.h"

hashattn_status evaluate_once(struct host *host, const struct train_setup *setup, struct model *model,
                              const float *values, const struct dataset *dataset, size_t batch, uint64_t seed,
                              float *outputs, struct evaluation *result);

#endif
