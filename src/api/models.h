/* The struct behind hashattn_model, for the files of this floor only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_MODELS_H
#define API_MODELS_H

#include "api/handles.h"
#include "api/metrics.h"
#include "hashattn/model.h"
#include "train/trainer.h"

struct hashattn_model {
    struct hashattn_context *context;
    struct run_config config;
    struct model *net;
    float *values;                                  /* the parameters, one block */
    struct session session;                         /* empty until they are used with the present options */
    int64_t last_step;                              /* see struct run_values */
    struct metric_list metrics;                     /* of the last evaluation */
    hashattn_difference differences[MODEL_METRICS]; /* of the last comparison */
    size_t confusion[MODEL_CONFUSED * MODEL_CONFUSED];
    size_t label_counts[MODEL_LABELS * LABEL_COUNTS];
    const hashattn_attention *probe; /* or NULL */
    size_t probe_steps;
    hashattn_evaluation_callback *callback;
    void *user; /* of the callback */
};

/* The machine of its context, with the model's callback. */
struct train_setup model_setup(struct hashattn_model *model);
/* INVALID: ranks have other models, options or seeds. Collective. */
hashattn_status model_check_ranks(struct hashattn_model *model, uint64_t seed);
/* INVALID: no split has this name. */
hashattn_status model_split(struct host *host, const char *name, enum split *split);

#endif
