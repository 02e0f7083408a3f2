/* The cost of a training step and of a forward pass: median times of real steps of a real training.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_STEP_COST_H
#define MEASURE_STEP_COST_H

#include "train/trainer.h"

struct step_cost {
    double step_ms;                           /* median */
    double tokens_per_second;                 /* over all steps */
    double loss;                              /* of the last step */
    size_t steps, sequences, tokens, longest; /* sequences, tokens: of all steps; longest: of the data. With a
                                                 decoder, those of both stacks */
    size_t saved_bytes, workspace_bytes;      /* of the largest batch */
    double forward_ms;                        /* median, of an evaluation of the first batch */
    size_t forward_bytes;                     /* its workspace */
};

/* Runs the first `steps` steps (at least 1) of a training with this config, from initial values, without
   evaluations and without writing files. Settles the config's training options. Before that the first step
   runs once more as warm-up. The first batch is then evaluated as often, as warm as the steps. */
hashattn_status step_cost(struct host *host, const struct train_setup *setup, struct run_config *config,
                          size_t steps, struct step_cost *cost);

#endif
