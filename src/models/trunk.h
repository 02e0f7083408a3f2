/* The trunk of a model: rows in, rows out. What enters it becomes rows (input.h), Transformer blocks work on
   them, and a last norm ends it. Pre-LN blocks with a norm at the end: architecture and start values of the
   Long Range Arena models of YOSO (Zeng et al. 2021, section 4.3 and the released configurations). Post-LN:
   BERT's blocks, and its norm of the embedding instead of the last one. There is no padding: a batch is
   offsets into rows.
   Memory in training, floats per row and block: 6 dim + ffn (post-LN: 7 dim + ffn), beside what attention
   saves, and 5 dim once. SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_TRUNK_H
#define MODELS_TRUNK_H

#include "models/input.h"
#include "models/model_config.h"
#include "nn/block.h"

struct trunk {
    struct input input;
    struct block *blocks; /* (layers) */
    struct norm norm;     /* pre-LN: after the last block; post-LN: of the embedding */
    bool normed;          /* there is such a norm */
    bool post;            /* the blocks are post-LN */
    size_t layers, dim, wide, taps;
    size_t num_lists;       /* lists of heads, as in the plan */
    struct dropout dropout; /* in training */
    size_t end;             /* of its parameters; they begin the block */
};

/* The trunk of a checked config. tied: an objective uses the table of words as its output. Freed with
   trunk_free, after a failure too. */
hashattn_status trunk_describe(struct host *host, struct params *params, const struct model_config *config,
                               bool tied, struct trunk *trunk);
/* One block of such a trunk alone, without norm and dropout around it: INPUT_GIVEN in, the block's rows out.
 */
hashattn_status trunk_describe_layer(struct host *host, struct params *params,
                                     const struct model_config *config, struct trunk *trunk);
void trunk_free(struct host *host, struct trunk *trunk);
/* Operations of the dense layers of the blocks, two per multiplication, for one row forward; backward has
   twice as many. */
double trunk_operations(const struct trunk *trunk);

struct trunk_pass {
    const struct trunk *trunk;
    struct rows rows;
    struct input_rows input; /* INPUT_GIVEN: floats (padded rows, dim), the same until backward is over */
    const float *values;     /* parameters, of params_lay; not looked at by the sizes */
    uint64_t random_key;
    bool training; /* dropout is on, and what backward needs is kept */
    void *memory;  /* trunk_memory_size bytes; not looked at by the sizes */
};
/* Bytes of the block that forward and backward work in; it holds every activation between the two. */
size_t trunk_memory_size(const struct trunk_pass *pass);
/* Bytes of what attention saves in it for backward, all layers. */
size_t trunk_saved_size(const struct trunk_pass *pass);

/* A loss that a mechanism has of its own, as the trunk computes it. */
struct own_loss {
    const struct mechanism *mechanism;
    size_t heads;  /* that have it, in all layers */
    double weight; /* of the sum over sequences and heads, in what is trained */
    double sum;    /* forward writes it; 0 in evaluation */
};
/* The heads of the trunk that have a loss of this mechanism. */
size_t trunk_own_heads(const struct trunk *trunk, const struct mechanism *mechanism);

/* Returns the rows (padded rows, dim) that leave the trunk, in pass->memory; in training they are there until
   backward is over. */
const float *trunk_forward(const struct trunk_pass *pass, struct own_loss *own, size_t num_own);
/* The same rows, after a forward. */
const float *trunk_rows(const struct trunk_pass *pass);
/* Where the gradient of these rows, (padded rows, dim), must be before backward; and, of INPUT_GIVEN, where
   that of the rows that entered is after it. */
float *trunk_gradient(const struct trunk_pass *pass);
/* gradients (one block, as values) += those of its parameters, own losses by their weights. */
void trunk_backward(const struct trunk_pass *pass, float *gradients, const struct own_loss *own,
                    size_t num_own);

#endif
