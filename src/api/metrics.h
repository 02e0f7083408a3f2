/* A model's metrics in the form of the public header.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "hashattn/metric.h"
#include "train/trainer.h"

/* Storage for all metrics of a model, its baselines and their names. */
struct metric_list {
    hashattn_metric list[MODEL_METRICS + MODEL_OBJECTIVES];
    char baselines[MODEL_OBJECTIVES][METRIC_NAME];
    size_t count;
};
/* values: (model_num_metrics); NULL gives an empty list. evaluated: omit metrics that only training has;
   otherwise those that only evaluations have. */
hashattn_metrics metrics_give(const struct model *model, const double *values, bool evaluated,
                              struct metric_list *list);
/* The same for an evaluation, followed by the baselines. */
hashattn_metrics metrics_give_evaluation(const struct model *model, const struct evaluation *result,
                                         struct metric_list *list);

#endif
