/* The encoder of a model: a trunk. If it distils (Informer; Zhou et al. 2021), it is a trunk of one block for
   each layer, and before each but the first a layer that halves the rows of every sequence (nn/distil.h). So
   a trunk has the same rows in all its blocks, and the decoder reads the rows of the last one. Memory: that
   of its trunks and of the layers between them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_ENCODER_STACK_H
#define MODELS_ENCODER_STACK_H

#include "base/memory.h"
#include "models/stacks/trunk.h"
#include "nn/distil.h"

struct encoder_stack_part {
    struct distil distil; /* "encoder.distil.0" ...: between the block before and the trunk's */
    struct trunk trunk;
};

struct encoder_stack {
    struct trunk trunk;              /* the whole encoder; or, if it distils, its first block */
    struct encoder_stack_part *more; /* (num_more) the others; none if it does not distil */
    size_t num_more;
    size_t end; /* floats of its parameters, which begin the block */
};
/* The encoder of a checked config. tied: see trunk_describe. After a failure too, free it with
   encoder_stack_free. */
hashattn_status encoder_stack_describe(struct host *host, struct params *params,
                                       const struct model_config *config, bool tied,
                                       struct encoder_stack *encoder);
void encoder_stack_free(struct host *host, struct encoder_stack *encoder);
/* Number of heads with an own loss of this mechanism. */
size_t encoder_stack_own_heads(const struct encoder_stack *encoder, const struct mechanism *mechanism);

/* What follows from the shapes of a batch. */
struct encoder_stack_plan {
    const struct encoder_stack *encoder;
    struct trunk_plan *parts; /* (num_more + 1) */
    struct mix_plan *lists;   /* of all parts, one after the other */
    size_t memory_bytes;      /* of a pass */
    size_t saved_bytes;       /* of these, what attention saves, all layers */
};
/* Takes the arrays of a plan. */
struct encoder_stack_plan encoder_stack_plan_on(const struct encoder_stack *encoder, struct arena *arena);
/* The most plans of attention that it takes from a set. */
size_t encoder_stack_num_plans(const struct encoder_stack *encoder);
/* rows: of the first block. halved_offsets: (num_more, num_sequences + 1) of the blocks after it. REFUSED,
   with the numbers, if a mechanism cannot handle a sequence, or if a sequence is too short to be halved so
   often. Ranks that share sequences are for the objective to refuse, which reads all decoded rows. */
hashattn_status encoder_stack_plan_make(struct host *host, const struct rows *rows,
                                        const size_t *halved_offsets, bool training, struct plan_set *set,
                                        struct encoder_stack_plan *plan);
/* The rows that leave the last block. */
const struct rows *encoder_stack_last(const struct encoder_stack_plan *plan);

struct encoder_stack_pass {
    const struct encoder_stack_plan *plan;
    struct encoder_stack_place *places; /* (num_more + 1) */
};
/* Arguments as of trunk_open. memory: memory_bytes; NULL counts them. */
struct encoder_stack_pass encoder_stack_open(const struct encoder_stack_plan *plan, struct input_rows input,
                                             const float *values, uint64_t random_key, void *memory,
                                             size_t *bytes);

/* As trunk_forward, trunk_rows, trunk_gradient and trunk_backward, for the last block's rows. listener: of
   backward, or NULL. */
const float *encoder_stack_forward(const struct encoder_stack_pass *pass, struct own_loss *own,
                                   size_t num_own);
const float *encoder_stack_rows(const struct encoder_stack_pass *pass);
float *encoder_stack_gradient(const struct encoder_stack_pass *pass);
void encoder_stack_backward(const struct encoder_stack_pass *pass, float *gradients,
                            const struct own_loss *own, size_t num_own, size_t first_trained,
                            bool own_losses_only, const struct backward_listener *listener);

#endif
