/* The k largest of n scores, exactly: among equal scores the lower index wins; -inf and NaN come after all
   numbers, the lower index first. The choice depends only on the scores, not on the instruction set or the
   order of work. Cost: the k-th largest is found by bisection over integers that order floats: about 15
   counts over the array if scores differ, at most 32, then one pass that writes. From 1,024 scores, for k up
   to n / 16, a sample gives a bound that few more than k scores should exceed; one count verifies this
   (otherwise all scores are bisected), and bisection runs over those few. At 4,096 scores and k 90: 0.43 of
   the time without the sample and with counts by bits (AVX2: 0.29), 0.23 ns per score; a histogram of digits
   would need a random access each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TOPK_H
#define PARTS_TOPK_H

#include <stdint.h>

#include "kernels/kernels.h"

/* out[0 .. k): the indices, rising. k <= n < 2^32. */
void topk_select(const struct kernels *kernels, const float *scores, size_t n, size_t k, uint32_t *out);

#endif
