/* What the machine can do: the limits that every ratio is measured against. Each thread of the pool measures
   products by itself at the same time as the others, so shared clocks and caches count as they do in the
   work; memory is one loop over arrays that no cache holds, a slice for each thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_PEAK_H
#define MEASURE_PEAK_H

#include "base/pool.h"
#include "kernels/kernels.h"

struct peak {
    double float32_gflops, bf16_gflops; /* of products: the best that was found */
    double memory_gbytes_per_s;         /* read and written */
    double hash_gflops; /* of hashing at m 32, tau 9, d 64, two operations per multiplication */
};

/* Takes about four times `seconds`. */
hashattn_status peak_measure(struct host *host, const struct kernels *kernels, struct pool *pool,
                             double seconds, struct peak *peak);

#endif
