/* The structs of the public headers' opaque handles, for the files of this floor only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_HANDLES_H
#define API_HANDLES_H

#include <signal.h>

#include "attention/driver/attention.h"
#include "comm/comm.h"
#include "hashattn/attention.h"
#include "kernels/product_weights.h"
#include "nn/profile.h"

struct hashattn_context {
    struct host host;
    const struct kernels *kernels;
    struct pool *pool;
    struct profile *profile;  /* NULL until one is started */
    enum precision precision; /* of the operator and of new setups */
    bool precision_given;     /* overrides the precision of trained models and runs */
    struct comm comm;
    struct device *device;          /* of the operator; NULL: the processor */
    volatile sig_atomic_t training; /* a training has read its data and saves when it is stopped */
};

/* The plan of the last problem; see operator_plan.h. */
struct cached_plan {
    bool made;
    struct attention_plan plan;
    struct row_ranks ranks; /* of the plan, if they share the rows */
    size_t total_rows;
    void *block; /* (capacity bytes) its arrays */
    size_t capacity;
    void *staging; /* with a device: plan.staging_bytes, see struct device_blocks; NULL: none yet */
};

struct hashattn_attention {
    struct hashattn_context *context;
    const struct mechanism *mechanism;
    void *options; /* mechanism->options_size bytes */
    /* The mechanism's learned parameters, (heads, floats of a head); NULL: none yet. */
    float *params;
    size_t params_heads; /* what they are for */
    struct parameter_sizes params_sizes;
    bool params_drawn; /* from the seed below, not from a file */
    uint64_t params_seed;
    struct cached_plan cached;
};

#endif
