/* An implementation: one way to compute a mechanism. The host has one; ranks that share the rows of a
   sequence may have another (struct mechanism).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_IMPLEMENTATION_H
#define PARTS_IMPLEMENTATION_H

#include "parts/problem/problem.h"

struct implementation {
    /* (optional) NULL if the shape can be handled, else a constant sentence that says why not. {name} in it
       stands for the value of that option (options_fill). */
    const char *(*refuse)(const void *options, const struct problem_shape *shape);
    /* Bytes of the paper's Backward-Cache without Q, K, V and the output; and temporary memory of forward
       and backward. Never fall with more rows: a problem may have fewer keys than its blocks are sized
       for. */
    size_t (*saved_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    /* Writes out (n_q, d_v). */
    void (*forward)(const struct problem *problem, struct view out);
    /* (optional) out as forward wrote it, dout its gradient. ADDS into the gradients. Re-uses what forward
       saved; draws no random numbers. NULL: the mechanism computes outputs only (attention_check_backward
       refuses), and saves nothing. */
    void (*backward)(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients);
};

/* What is computed once per call, for all heads and sequences. */
struct preparation {
    const struct kernels *kernels;
    const void *options; /* as in a problem */
    size_t head_dim;
    uint64_t call_key;
    struct pool *pool; /* or NULL; the bits do not depend on it */
    void *shared;      /* shared_size bytes: written */
    void *scratch;     /* scratch_size bytes for the threads of the pool */
};

#endif
