/* Measures the cost of a layer and of a training step on this machine, and where the time goes.
   (hashattn_measure_peak, the machine's limit, is in attention.h.)
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_MEASURE_H
#define HASHATTN_MEASURE_H

#include "hashattn/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- profiles: the time of training and of the two measurements below, by part; on a device, that of each
   kernel of the operator ---- */

typedef struct hashattn_profile_part {
    size_t struct_size;
    const char *name; /* "layer norm", "products", "attention", ..., and after these, on a device, the names
                         of kernels; valid as long as the library is loaded */
    /* Elapsed time of this part, and the sum of its threads' computing time. wall x threads - thread is the
       time that threads waited. If a pass works on several parts at once, both are shares of the pass. */
    double wall_seconds, thread_seconds;
} hashattn_profile_part;

/* Starts a profile of this context, or restarts a running one. Costs about 0.1 % of a small step; on a
   device, each kernel is waited for. */
HASHATTN_API hashattn_status hashattn_profile_start(hashattn_context *context);
/* Stops the profile and drops its numbers. Freeing the context does so too. */
HASHATTN_API void hashattn_profile_stop(hashattn_context *context);
/* Fills *part with the index'th part so far and returns 1; returns 0 past the last or without a profile. */
HASHATTN_API int hashattn_profile_get(const hashattn_context *context, size_t index,
                                      hashattn_profile_part *part);

/* ---- one encoder layer ---- */

typedef struct hashattn_layer_cost {
    size_t struct_size;
    double forward_ms, backward_ms; /* medians; backward_ms is NaN if not requested */
    double product_operations;      /* of the dense layers in one forward, two per multiplication; backward
                                       has twice as many */
    size_t repeats, saved_bytes, workspace_bytes;
    /* Packing the weights for products. With backward it is part of forward_ms, because each step does it;
       without, it is done once before, as an evaluation does for all its batches. */
    double lay_ms;
    /* The product library alone on the same products in its best form, on all threads, seq_len / threads rows
       each; 0: no library. */
    double library_gflops;
} hashattn_layer_cost;

/* Measures one layer with the setup's model and mechanism on one sequence of seq_len random rows; with
   backward as in training, dropout included. repeats 0: as many as fit in two seconds, 3 to 25. A first run
   warms up and is not counted. forward_ms and backward_ms are timed separately. */
HASHATTN_API hashattn_status hashattn_measure_layer(hashattn_setup *setup, size_t seq_len, int backward,
                                                    size_t repeats, hashattn_layer_cost *cost);

/* ---- one training step ---- */

typedef struct hashattn_step_cost {
    size_t struct_size;
    double step_ms;           /* median */
    double tokens_per_second; /* over all steps */
    double loss;              /* of the last step */
    /* longest: sequence in `data`; the others: of all steps. With a decoder, those of both stacks. */
    size_t steps, sequences, tokens, longest;
    size_t saved_bytes, workspace_bytes; /* of the largest step */
    double forward_ms;                   /* median, of an evaluation of the first batch */
    size_t forward_bytes;                /* its workspace */
} hashattn_step_cost;

/* Measures the first `steps` steps (at least 1) of training this setup on `data` from initial values, without
   evaluations or files. The first step is run once before, to warm up. Then evaluates the first batch, once
   to warm up and `steps` times. */
HASHATTN_API hashattn_status hashattn_measure_step(hashattn_setup *setup, const char *data, size_t steps,
                                                   hashattn_step_cost *cost);

/* ---- ranks that share sequences ---- */

/* What the gradients of queries and keys of one head cost in a training step if `ranks` ranks (2 to 65536)
   share a sequence of seq_len tokens (option sequence_parallel), by the rule by which training exchanges
   them: the bytes that a rank sends, and the number of exchanges, one after another. Nothing is measured. The
   setup must have one mechanism for all heads. REFUSED: the mechanism does not tell; today `yoso` does. */
HASHATTN_API hashattn_status hashattn_measure_exchange(hashattn_setup *setup, size_t seq_len, size_t ranks,
                                                       double *bytes, size_t *exchanges);

#ifdef __cplusplus
}
#endif
#endif
