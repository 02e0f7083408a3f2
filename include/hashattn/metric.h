/* Metrics by name: what a training or an evaluation reports. Which ones there are depends on what the model
   is trained for: "accuracy" and "loss" of a classifier, "perplexity", "loss", "bits_per_byte" and "accuracy"
   of a language model. SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_METRIC_H
#define HASHATTN_METRIC_H

#include <stddef.h>

#include "hashattn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_metric {
    const char *name;   /* lives as long as what reported it; see there */
    double value;       /* NaN where nothing was counted */
    int more_is_better; /* 0: less is */
    int selects; /* 1: chooses the best model; 2: between models that are equal in it; 0: is only shown */
} hashattn_metric;

typedef struct hashattn_metrics {
    size_t count;
    const hashattn_metric *list;
} hashattn_metrics;

/* The metric of that name, or NULL. */
HASHATTN_API const hashattn_metric *hashattn_metric_find(const hashattn_metrics *metrics, const char *name);
/* Its value; NaN where there is none of that name. */
HASHATTN_API double hashattn_metric_value(const hashattn_metrics *metrics, const char *name);

#ifdef __cplusplus
}
#endif
#endif
