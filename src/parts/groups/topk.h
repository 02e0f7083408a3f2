/* The k largest of n scores, exactly: equal scores go to the lower index, -inf and NaN come after all
   numbers, the lower index first. So the choice is one of the scores alone, whatever the instruction set or
   the order of work. Cost: the k-th largest is found by halving the whole numbers that order floats as their
   values do, about 15 countings of the array where scores differ, 32 at most, then one pass that writes. From
   1,024 scores on, for k up to n / 16, a sample tells a bound that few more than k should exceed; one
   counting shows whether that is so (else it is done as before), and all the halving is over those few. 4,096
   scores and k 90: 0.43 of the time without the sample and with countings by bits (AVX2: 0.29), 0.23 ns a
   score, where a histogram of digits would take a random access for each. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PARTS_TOPK_H
#define PARTS_TOPK_H

#include <stdint.h>

#include "kernels/kernels.h"

/* out[0 .. k): the indices, rising. k <= n < 2^32. */
void topk_select(const struct kernels *kernels, const float *scores, size_t n, size_t k, uint32_t *out);

#endif
