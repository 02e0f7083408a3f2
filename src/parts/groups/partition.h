/* Groups of equal size that hold each token once, as the LHA paper assumes for its figure 2 (Sun, Yang and
   Yoo 2022, section 3: "balanced clusters"): pairs of token and group in falling order of their score, where
   a pair counts if the token has no group yet and the group is not full. n tokens in B groups: n / B rounded
   down, and one more for the first n mod B groups that need it. Cost: a radix sort of n B scores.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PARTITION_H
#define PARTS_PARTITION_H

#include <stddef.h>
#include <stdint.h>

size_t partition_size(size_t num_groups, size_t n);

/* choice[i * stride] = first + the group of token i. scores (num_groups, n), ld apart; of equal ones the
   lower token comes first, then the lower group, and a NaN comes after all numbers. */
void partition(const float *scores, size_t ld, size_t num_groups, size_t n, uint32_t first, uint32_t *choice,
               size_t stride, void *scratch);

#endif
