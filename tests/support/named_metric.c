/* Searches the tables of a model.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/named_metric.h"

#include <math.h>
#include <string.h>

#include "support/check.h"

double metric_named(const struct model *model, const double *values, const char *name)
{
    for (size_t i = 0; i < model_num_metrics(model); i++)
        if (strcmp(model_metric(model, i)->name, name) == 0)
            return values == NULL ? NAN : values[i];
    fail_msg("the model has no metric '%s'", name);
    return NAN;
}

double baseline_named(const struct model *model, const double *values, const char *name)
{
    char own[METRIC_NAME];
    for (size_t i = 0; i < model_num_baselines(model); i++) {
        model_baseline_name(model, i, own);
        if (strcmp(own, name) == 0)
            return values[i];
    }
    fail_msg("the model has no baseline '%s'", name);
    return NAN;
}

double sum_named(const struct model *model, const double *sums, const char *name)
{
    char own[METRIC_NAME];
    for (size_t i = 0; i < model_num_sums(model); i++) {
        model_sum_name(model, i, own);
        if (strcmp(own, name) == 0)
            return sums[i];
    }
    fail_msg("the model has no sum '%s'", name);
    return NAN;
}
