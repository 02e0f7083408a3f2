/* Masked tokens (Devlin et al. 2019, section 3.1). A share of the rows of an example is hidden: their ids
   become targets, and in the input 80 % of them are replaced by the mask's id, 10 % by a random id, and 10 %
   stay. Hides exactly max(1, round(share n)) of the n maskable rows, so the number of targets is a
   function of the example. The key determines which and how.
   Cost: one random word per row, about 10 ns.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_MASKING_H
#define TRAIN_MASKING_H

#include "tasks/task.h"

/* The number of rows that masking_draw hides. */
size_t masking_count(const struct mask_rules *rules, const uint32_t *ids, size_t length);
/* Hides ids (length). Writes for each row its target, the hidden id, and its weight: 1 if it is hidden,
   otherwise 0. */
void masking_draw(const struct mask_rules *rules, uint64_t key, uint32_t *ids, size_t length,
                  uint32_t *targets, float *weights);

#endif
