/* Metrics, baselines and sums of a model by name. A name that the model does not have fails the test.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NAMED_METRIC_H
#define TESTS_SUPPORT_NAMED_METRIC_H

#include "models/model.h"

/* values: of model_metrics, or NULL, which gives NaN. */
double metric_named(const struct model *model, const double *values, const char *name);
double baseline_named(const struct model *model, const double *values, const char *name);
double sum_named(const struct model *model, const double *sums, const char *name);

#endif
