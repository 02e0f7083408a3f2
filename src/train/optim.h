/* AdamW with decoupled decay (Loshchilov and Hutter 2019) and clipping by the global norm, over the one block
   of a model's parameters. Follows PyTorch where details differ between programs: the bias correction of step
   t is 1 - beta1^t with the beta1 of that very step, even where a schedule cycles it; decay multiplies by
   1 - rate * decay and touches every parameter. Work is cut into chunks of OPTIM_CHUNK floats whatever the
   number of threads, and the norm is the sum of the chunks' sums in order, so bits never depend on the
   threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_OPTIM_H
#define TRAIN_OPTIM_H

#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"

enum { OPTIM_CHUNK = 16384 }; /* four arrays of 64 KiB: within the second cache */

struct optim {
    const struct kernels *kernels;
    struct pool *pool;
    size_t total;       /* floats of each block */
    float *m, *v;       /* moments, zeros at the start */
    double *chunk_sums; /* optim_chunks(total) */
    double beta2, epsilon, decay;
    double clip; /* largest norm of the gradient; 0 = no limit */
};

size_t optim_chunks(size_t total);

/* The norm of the whole gradient. */
double optim_norm(const struct optim *optim, const float *gradients);

/* Step t (counted from 1) on the values, with the gradient shrunk to the norm `clip` where `norm` is larger.
 */
void optim_step(const struct optim *optim, float *values, const float *gradients, double norm, int64_t t,
                double rate, double beta1);

#endif
