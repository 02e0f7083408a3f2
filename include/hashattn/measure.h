/* What a layer and a training step cost here, and where their time goes. (hashattn_measure_peak, the limit
   beside them, is in attention.h.) SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_MEASURE_H
#define HASHATTN_MEASURE_H

#include "hashattn/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- profiles: the time of trainings and of the two measurements below, part by part ---- */

typedef struct hashattn_profile_part {
    size_t struct_size;
    const char *name; /* "layer norm", "products", "attention", ...; lives as long as the library */
    /* Of this part: time that passed, and time that threads computed. wall x threads - thread is what
       threads waited. In passes where threads work on several parts at once, both are shares of the pass. */
    double wall_seconds, thread_seconds;
} hashattn_profile_part;

/* From now on, on this context; a profile that runs begins anew. It costs about a thousandth of a small
   step. */
HASHATTN_API hashattn_status hashattn_profile_start(hashattn_context *context);
/* No profile any more; its numbers are gone. Freeing the context does it too. */
HASHATTN_API void hashattn_profile_stop(hashattn_context *context);
/* The index'th part so far; 1, or 0 past the last and where no profile was started. */
HASHATTN_API int hashattn_profile_get(const hashattn_context *context, size_t index,
                                      hashattn_profile_part *part);

/* ---- one encoder layer ---- */

typedef struct hashattn_layer_cost {
    size_t struct_size;
    double forward_ms, backward_ms; /* medians; backward_ms is NaN where it was not asked for */
    double product_operations;      /* of the dense layers in one forward, two per multiplication; backward
                                       has twice as many */
    size_t repeats, saved_bytes, workspace_bytes;
    double lay_ms; /* of laying the weights for products: part of forward_ms with backward, as it belongs to
                      each step; else done once before, as an evaluation does it for all its batches */
    double
        library_gflops; /* of the product library's own calls for the same products and nothing else, in
                           its best form, all threads at once, seq_len / threads rows each; 0: no library */
} hashattn_layer_cost;

/* One layer with the model and mechanism of the setup on one sequence of seq_len random rows; with backward
   as in training, dropout included. repeats 0: as many as fit two seconds, 3 to 25. The first run warms up,
   and neither it nor the other half (forward or backward) is in a median. */
HASHATTN_API hashattn_status hashattn_measure_layer(hashattn_setup *setup, size_t seq_len, int backward,
                                                    size_t repeats, hashattn_layer_cost *cost);

/* ---- one training step ---- */

typedef struct hashattn_step_cost {
    size_t struct_size;
    double step_ms;                           /* median */
    double tokens_per_second;                 /* of all steps together */
    double loss;                              /* of the last */
    size_t steps, sequences, tokens, longest; /* sequences and tokens of all steps; longest in `data` */
    size_t saved_bytes, workspace_bytes;      /* of the largest */
} hashattn_step_cost;

/* The first `steps` steps (at least 1) of a training of this setup on `data`, from start values, without
   evaluations and without writing anything; the first is run once more before, to warm up. */
HASHATTN_API hashattn_status hashattn_measure_step(hashattn_setup *setup, const char *data, size_t steps,
                                                   hashattn_step_cost *cost);

#ifdef __cplusplus
}
#endif
#endif
