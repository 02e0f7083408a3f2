/* What the files of a model share: its struct, and which of its objectives does what.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_PARTS_H
#define MODELS_MODEL_PARTS_H

#include "models/model.h"
#include "models/stacks/decoder_stack.h"
#include "models/stacks/encoder_stack.h"

/* An entry of the list of objectives, with its parameters described. */
struct goal {
    const struct objective *objective;
    void *self;
    double weight;
};

struct model {
    struct model_config config;
    struct params params;
    bool bare; /* the objectives read the input itself; then the encoder is empty */
    struct encoder_stack encoder;
    struct decoder decoder; /* 0 layers: none */
    size_t num_goals, num_own, num_metrics;
    struct goal goals[MODEL_OBJECTIVES];
    struct {
        const struct mechanism *mechanism;
        double share; /* of its loss in the training loss */
    } own[PLAN_MECHANISMS];
    double own_share; /* sum of all shares */
    struct model_metric metrics[MODEL_METRICS];
};

/* Names the metrics. Fails if the config chooses the best model by one that does not exist. */
hashattn_status model_list_metrics(struct host *host, struct model *model);

/* The objective whose outputs are the predictions; num_goals: none. */
static inline size_t model_predicting(const struct model *model)
{
    size_t i = 0;
    while (i < model->num_goals && model->goals[i].objective->outputs == NULL)
        i++;
    return i;
}

static inline size_t objective_sums(const struct objective *objective)
{
    size_t count = 0;
    while (objective->sums[count] != NULL)
        count++;
    return count;
}

#endif
