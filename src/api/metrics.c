/* Joins names and values.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/metrics.h"

#include <math.h>
#include <string.h>

#include "api/versions/versions.h"
#include "hashattn/model.h"

const hashattn_metric *hashattn_metric_find(const hashattn_metrics *metrics, const char *name)
{
    for (size_t i = 0; metrics != NULL && name != NULL && i < metrics->count; i++)
        if (strcmp(metrics->list[i].name, name) == 0)
            return &metrics->list[i];
    return NULL;
}

int hashattn_metric_get(const hashattn_metrics *metrics, size_t index, hashattn_metric_info *info)
{
    if (metrics == NULL || index >= metrics->count)
        return 0;
    const hashattn_metric_info own = {.metric = metrics->list[index]};
    version_give(info, &own, sizeof own);
    return 1;
}

int hashattn_difference_get(const hashattn_comparison *comparison, size_t index,
                            hashattn_difference_info *info)
{
    if (comparison == NULL || index >= comparison->count)
        return 0;
    const hashattn_difference_info own = {.difference = comparison->list[index]};
    version_give(info, &own, sizeof own);
    return 1;
}

double hashattn_metric_value(const hashattn_metrics *metrics, const char *name)
{
    const hashattn_metric *metric = hashattn_metric_find(metrics, name);
    return metric == NULL ? NAN : metric->value;
}

hashattn_metrics metrics_give(const struct model *model, const double *values, bool evaluated,
                              struct metric_list *list)
{
    list->count = 0;
    for (size_t i = 0; values != NULL && i < model_num_metrics(model); i++) {
        const struct model_metric *metric = model_metric(model, i);
        if (evaluated ? metric->training_only : metric->overall)
            continue;
        list->list[list->count++] = (hashattn_metric){.name = metric->name,
                                                      .value = values[i],
                                                      .more_is_better = metric->more_is_better,
                                                      .selects = metric->selects};
    }
    return (hashattn_metrics){list->count, list->list};
}

hashattn_metrics metrics_give_evaluation(const struct model *model, const struct evaluation *result,
                                         struct metric_list *list)
{
    metrics_give(model, result->metrics, true, list);
    for (size_t i = 0; i < model_num_baselines(model); i++) {
        model_baseline_name(model, i, list->baselines[i]);
        list->list[list->count++] =
            (hashattn_metric){.name = list->baselines[i], .value = result->baselines[i], .more_is_better = 1};
    }
    return (hashattn_metrics){list->count, list->list};
}
