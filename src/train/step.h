/* One training step: a packed batch forward and backward, as often as `accumulate` says, and one step of the
   optimiser. Everything it depends on is its number, the three blocks and the configuration, so that stopping
   and going on changes no bit. Gradients of micro-batches add up to that of one batch as large as all of them
   together: the same examples with the same dropout and hashing, every loss divided by the weights of all
   targets of the step; they differ from it by the rounding of sums that are cut elsewhere. Memory: the blocks
   of values, gradients and two moments, the training set, and one workspace, made at once for the batch with
   the most rows. A step allocates nothing, but where a batch of as many or fewer rows in more sequences needs
   a little more. SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "nn/profile.h"
#include "train/batches.h"
#include "train/evaluate.h"
#include "train/optim.h"
#include "train/trainer.h"

struct stepper {
    struct host *host;
    const struct train_setup *setup;
    const struct run_config *config;
    const struct train_options *options; /* of config */
    struct model *model;
    const struct params *params; /* of model */
    struct dataset train;
    struct batches batches;
    float *blocks; /* values, gradients, m, v */
    float *values, *gradients;
    float *room; /* params_room: what a step's passes read, or NULL */
    struct optim optim;
    double *chunk_sums;
    struct workspace workspace;
};

/* Everything but the values. Closing is needed after a failure too. */
hashattn_status stepper_open(struct host *host, const struct train_setup *setup,
                             const struct run_config *config, struct stepper *stepper);
void stepper_close(struct stepper *stepper);

struct step_outcome {
    double loss, norm, rate; /* what is trained, norm of the gradient before clipping, learning rate */
    size_t tokens;           /* rows that the model was given */
    size_t saved_bytes;      /* model_saved_size of its largest batch */
};
/* Step number `step`, counted from 0; its predictions are counted into sums (model_num_sums). FAILED, with
   the step's number, where the loss or the gradient is not finite; values and sums are then as before. */
hashattn_status stepper_run(struct stepper *stepper, int64_t step, double *sums,
                            struct step_outcome *outcome);

#endif
