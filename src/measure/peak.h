/* The limits of the machine, which ratios are measured against. All threads of the pool compute products at
   the same time, each its own, so shared clocks and caches count as in real work. Memory is one loop over
   arrays larger than any cache, a slice per thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_PEAK_H
#define MEASURE_PEAK_H

#include "base/pool.h"
#include "kernels/kernels.h"

struct peak {
    double float32_gflops, bf16_gflops; /* of products: the best found */
    double memory_gbytes_per_s;         /* read and written */
    double hash_gflops; /* of hashing at m 32, tau 9, d 64, two operations per multiplication */
};

/* Takes about four times `seconds`. */
hashattn_status peak_measure(struct host *host, const struct kernels *kernels, struct pool *pool,
                             double seconds, struct peak *peak);

#endif
