/* Metrics by name, as training and evaluation report them. They depend on the model's objectives: "accuracy"
   and "loss" for a classifier; "perplexity", "loss", "bits_per_byte" and "accuracy" for a language model.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_METRIC_H
#define HASHATTN_METRIC_H

#include <stddef.h>

#include "hashattn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_metric {
    const char *name;   /* its lifetime is that of the report that holds it */
    double value;       /* NaN if nothing was counted */
    int more_is_better; /* 0: less is better */
    int selects;        /* 1: chooses the best model; 2: breaks ties; 3: the main metric of a further
                           objective; 0: any other */
} hashattn_metric;

/* Lists are indexed by programs with the size that they were compiled with, so hashattn_metric and
   hashattn_difference never grow. What is added later stands at the end of the structs of the getters below.
 */
typedef struct hashattn_metrics {
    size_t count;
    const hashattn_metric *list;
} hashattn_metrics;

/* One metric of two models on the same examples. */
typedef struct hashattn_difference {
    const char *name;      /* its lifetime is that of the report that holds it */
    double value, other;   /* of the two models */
    double difference;     /* value - other */
    double standard_error; /* of the difference over examples; NaN with fewer than two that have the metric */
    double z;              /* gain / standard_error; the gain is positive if the first model is better */
    double p;              /* probability of such a z or a larger one if there is no difference: one tail */
    int more_is_better;    /* 0: less is better */
    int selects;           /* as in hashattn_metric */
} hashattn_difference;

/* A metric of a list, and a difference of a list, with all that this version knows about them. */
typedef struct hashattn_metric_info {
    size_t struct_size;
    hashattn_metric metric;
} hashattn_metric_info;
typedef struct hashattn_difference_info {
    size_t struct_size;
    hashattn_difference difference;
} hashattn_difference_info;

/* Fills *info, whose struct_size must be set, with element `index` of the list and returns 1; returns 0 past
   the last. Differences have hashattn_difference_get (model.h). */
HASHATTN_API int hashattn_metric_get(const hashattn_metrics *metrics, size_t index,
                                     hashattn_metric_info *info);

/* The metric of that name, or NULL. */
HASHATTN_API const hashattn_metric *hashattn_metric_find(const hashattn_metrics *metrics, const char *name);
/* Its value; NaN if there is no metric of that name. */
HASHATTN_API double hashattn_metric_value(const hashattn_metrics *metrics, const char *name);

#ifdef __cplusplus
}
#endif
#endif
