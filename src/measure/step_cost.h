/* What a training step costs: real steps of a real training, and the median of their times.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_STEP_COST_H
#define MEASURE_STEP_COST_H

#include "train/trainer.h"

struct step_cost {
    double step_ms;                           /* median */
    double tokens_per_second;                 /* of all steps together */
    double loss;                              /* of the last */
    size_t steps, sequences, tokens, longest; /* sequences and tokens of all steps; longest of the data */
    size_t saved_bytes, workspace_bytes;      /* of the largest */
};

/* The first `steps` steps (at least 1) of a training of this config, from start values, without evaluations
   and without writing anything; the first runs once more before, to warm up. */
hashattn_status step_cost(struct host *host, const struct train_setup *setup, const struct run_config *config,
                          size_t steps, struct step_cost *cost);

#endif
