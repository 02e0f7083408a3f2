/* Two models on the same examples: the difference of each metric, and whether it could be chance. It is the
   paired form of the one-tail proportion test of the LHA paper (Sun et al. 2022, table 3), for every metric
   that is a function of sums over targets.
   The standard error of the difference is the delete-one jackknife over examples (Efron and Stein 1981): with
   D_-i the difference without example i and n examples,

       SE^2 = (n - 1) / n  sum_i (D_-i - mean D_-i)^2

   If the metric is a mean with one target per example, this is the usual standard error of a paired mean,
   sqrt(sum_i (d_i - D)^2 / (n - 1) / n). It holds as well for means over rows, which are not independent
   within an example, and for smooth functions of sums (perplexity, F1). z = D / SE, with the sign that makes
   it positive if the first model is better; p is the probability of a normal number above z.
   Cost: 4 n evaluations of the metrics for each of them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PAIRED_TEST_H
#define TRAIN_PAIRED_TEST_H

#include "models/model.h"

struct metric_difference {
    const struct model_metric *metric; /* of the first model */
    double value, other, difference;   /* difference = value - other */
    double standard_error;             /* NaN with fewer than two examples that have the metric */
    double z; /* infinite if the standard error is 0 and the difference is not; 0 if both are 0 */
    double p;
};

struct comparison {
    size_t examples, count;
    struct metric_difference list[MODEL_METRICS];
};

/* Fills the list with the metrics that evaluations of both models have, except overall ones, which are no
   functions of sums. sums, other_sums: (n, MODEL_SUMS) of evaluate_examples. */
void paired_test(const struct model *model, const double *sums, const struct model *other,
                 const double *other_sums, size_t n, struct comparison *comparison);

#endif
