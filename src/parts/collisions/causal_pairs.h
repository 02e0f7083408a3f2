/* The pairs of one bucket in a causal problem: a query attends to only the keys that it sees.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CAUSAL_PAIRS_H
#define PARTS_CAUSAL_PAIRS_H

#include "parts/collisions/dense_bucket.h"

/* As slot pairs.bucket or dense_pairs, for pairs (i, j) with j < visible[i] (row numbers). Both
   lists of the bucket rise. `dense` is work space. */
void causal_pairs(const struct kernels *kernels, const struct dense_scratch *dense,
                  const struct bucket_pairs *bucket, const size_t *visible);

#endif
