/* Prints metrics of any name as text and as JSON.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_METRICS_OUT_H
#define CLI_METRICS_OUT_H

#include "cli/shared/output/json_out.h"
#include "hashattn/metric.h"

enum { METRICS_MOST = 32, METRICS_NAME = 64 };

/* A copy that outlives the reporting call. */
struct metrics_copy {
    hashattn_metric list[METRICS_MOST];
    char names[METRICS_MOST][METRICS_NAME];
    size_t count;
};
void metrics_copy_from(struct metrics_copy *kept, const hashattn_metrics *metrics);
hashattn_metrics metrics_of_copy(const struct metrics_copy *kept);

/* The metric that chooses the best model, or NULL. */
const hashattn_metric *metrics_chooser(const hashattn_metrics *metrics);

/* "accuracy 0.5000  loss 1.2345", each name with the prefix `before` ("valid "); underscores become spaces.
   With `all` false, only metrics that select the best model are written. Returns text. */
const char *metrics_words(const hashattn_metrics *metrics, const char *before, const char *between, bool all,
                          char *text, size_t size);
/* One number per metric; its key is `before` ("valid_") and its name. */
void metrics_json(struct json_out *json, const char *before, const hashattn_metrics *metrics);

#endif
