/* One training step: `accumulate` packed batches forward and backward, and one step of the optimiser. It
   depends only on its number, the three blocks and the configuration, so stopping and resuming changes no
   bit. Gradients of micro-batches add up to that of one batch of their total size: the same examples with the
   same dropout and hashing, every loss divided by the sum of the weights of all targets of the step. The
   difference is the rounding of sums that are cut at other places.
   Each batch is cut into `shards` parts by sequences, and the ranks share the shards. Every shard has a
   gradient of its own; they are added in a fixed tree (comm/sum_tree.h). So the bits depend on the number of
   shards, and not on the number of ranks. One shard is the plain sum. The sum over ranks begins during the
   backward pass of a rank's last shard, which makes its nodes of the tree known, from the last parameters to
   the first (comm/sum_stream.h). With gradient_precision bf16, every gradient of a shard and every sum of
   them is rounded, also where nothing is sent, so that ranks change no bit. With sequence_parallel R, the
   ranks are a grid (comm/row_ranks.h): R ranks share the rows of each sequence of a shard. A gradient is then
   first summed over shards, then over these R; the bits depend on R, and not on the number of ranks. Memory:
   the blocks of values, gradients, two moments and packed weights, for S shards on R ranks up to log2(S / R)
   + 2 more gradients, the training set, and one workspace, allocated at once for the shard with the most
   rows. On one rank a step allocates nothing, unless a batch with as many or fewer rows in more sequences
   needs a little more.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "comm/row_ranks.h"
#include "comm/sum_stream.h"
#include "nn/profile.h"
#include "train/batches.h"
#include "train/evaluate.h"
#include "train/optim.h"
#include "train/trainer.h"

struct stepper {
    struct host *host;
    const struct train_setup *setup;
    const struct run_config *config;
    const struct train_options *options; /* points into config */
    struct param_range *trained;         /* of the parameters; NULL: all */
    bool own_losses_only;                /* all of these are trained by own losses alone */
    struct model *model;
    const struct params *params; /* of model */
    struct dataset train;
    struct batches batches;
    float *blocks; /* packed weights, values, gradients, m, v */
    float *values, *gradients;
    struct optim optim;
    double *chunk_sums;
    struct session session; /* owns no block; its `values` are NULL until the first packing */
    struct rank_grid grid;
    size_t first_shard, end_shard;  /* of this rank */
    float *more;                    /* gradients of shards after the first */
    void *sum_scratch;              /* of the sums over ranks */
    struct shard_outcome *outcomes; /* (ranks that share sequences, shards) */
};

/* The results of one shard of a step's batches. */
struct shard_outcome {
    double loss;
    uint64_t tokens, saved_bytes;
    double sums[MODEL_SUMS];
};

/* Prepares everything but the values, and settles the config's training options. Call stepper_close after a
   failure too. */
hashattn_status stepper_open(struct host *host, const struct train_setup *setup, struct run_config *config,
                             struct stepper *stepper);
void stepper_close(struct stepper *stepper);

/* Packs the values for passes: all of them the first time, then what is trained. */
void stepper_pack(struct stepper *stepper);

struct step_outcome {
    double loss, norm, rate; /* training loss, norm of the gradient before clipping, learning rate */
    size_t tokens;           /* rows that the model read, of both stacks if it has a decoder */
    size_t saved_bytes;      /* model_saved_size of its largest batch */
};
/* Runs step number `step`, counted from 0, and adds its predictions to sums (model_num_sums). FAILED, with
   the step number, if the loss or the gradient is not finite; values and sums are then unchanged. */
hashattn_status stepper_run(struct stepper *stepper, int64_t step, double *sums,
                            struct step_outcome *outcome);

#endif
