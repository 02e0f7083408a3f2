/* AdamW with decoupled decay (Loshchilov and Hutter 2019) and clipping by the global norm, over the one block
   of a model's parameters. Where implementations differ it follows PyTorch: the bias correction of step t is
   1 - beta1^t with the beta1 of that step, even if a schedule cycles it; decay multiplies by 1 - rate *
   decay. Unlike PyTorch's default, biases, norms, scales and centroids are not decayed (struct param:
   decayed). Work is cut into chunks of OPTIM_CHUNK floats for any number of threads, and the norm is the sum
   of the chunks' sums in order, so the bits do not depend on the threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_OPTIM_H
#define TRAIN_OPTIM_H

#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "nn/params.h"

enum { OPTIM_CHUNK = 16384 }; /* four arrays of 64 KiB: fits the second-level cache */

struct optim {
    const struct kernels *kernels;
    struct pool *pool;
    size_t total;                /* floats per block */
    const struct params *params; /* of the block */
    float *m, *v;                /* moments, zeros at first */
    double *chunk_sums;          /* optim_chunks(total) */
    double beta2, epsilon, decay;
    double clip; /* largest norm of the gradient; 0: no limit */
    /* (num_ranges) what is trained, rising and without overlap; other floats keep their bits, and their
       gradients are not part of the norm. NULL: the whole block. */
    const struct param_range *ranges;
    size_t num_ranges;
};

size_t optim_chunks(size_t total);

/* The norm of the gradient of what is trained. */
double optim_norm(const struct optim *optim, const float *gradients);

/* Applies step t (counted from 1) to the values. If `norm` exceeds `clip`, the gradient is scaled to the norm
   `clip`. */
void optim_step(const struct optim *optim, float *values, const float *gradients, double norm, int64_t t,
                double rate, double beta1);

#endif
