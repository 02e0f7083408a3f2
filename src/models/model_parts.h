/* What the files of a model share: the structs of a model, a plan and a pass, and which of the objectives
   does what.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_PARTS_H
#define MODELS_MODEL_PARTS_H

#include "models/model.h"
#include "models/stacks/encoder_stack.h"

/* A term of the training loss: an entry of the list of objectives, with its parameters described. */
struct loss_term {
    const struct objective *objective;
    void *self;
    double weight;
};

struct model {
    struct model_config config;
    struct params params;
    bool bare; /* the objectives read the input itself; then the encoder is empty */
    struct encoder_stack encoder;
    struct trunk decoder; /* 0 layers: none */
    size_t num_terms, num_own, num_metrics;
    struct loss_term terms[MODEL_OBJECTIVES];
    struct {
        const struct mechanism *mechanism;
        double share; /* of its loss in the training loss */
    } own[PLAN_MECHANISMS];
    double own_share; /* sum of all shares */
    struct model_metric metrics[MODEL_METRICS];
};

static inline bool model_decodes(const struct model *model)
{
    return model->decoder.layers > 0;
}

struct model_plan {
    const struct model *model;
    struct plan_set set;
    struct encoder_stack_plan encoder;
    struct trunk_plan decoder; /* if there is one */
    struct mix_plan *decoder_lists;
    size_t workspace_bytes, saved_bytes;
};

struct model_pass {
    const struct model *model;
    const struct model_batch *batch;
    const float *values;
    struct rows rows; /* how the rows are cut that the objectives read */
    struct encoder_stack_pass encoder;
    struct trunk_pass decoder; /* if there is one */
    void *memory[MODEL_OBJECTIVES];
    double *own_sums; /* (num_own) sums of the last forward */
};

/* Names the metrics. Fails if the config chooses the best model by one that does not exist. */
hashattn_status model_list_metrics(struct host *host, struct model *model);

/* The objective whose outputs are the predictions; num_terms: none. */
static inline size_t model_predicting(const struct model *model)
{
    size_t i = 0;
    while (i < model->num_terms && model->terms[i].objective->outputs == NULL)
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
