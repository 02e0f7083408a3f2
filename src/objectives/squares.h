/* Shared by the objectives that predict floats per example. The loss of an example is the mean squared error
   of its floats; or, if the facts have quantiles, the mean quantile loss (Koenker and Bassett 1978) of the
   predictions of every float at every level: (level - 1) (target - prediction) where the prediction is above
   the target, level (target - prediction) below it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef OBJECTIVES_SQUARES_H
#define OBJECTIVES_SQUARES_H

#include "objectives/objective.h"

/* Their sums and metrics: "mse", the mean squared error, and "mae", the mean absolute error, with quantiles
   those of the level nearest to 0.5; "loss"; and with several quantiles "coverage", the share of targets
   between the lowest and the highest. Levels that cross are put in order, as in a forecast; the training loss
   takes them in the order predicted. */
extern const char *const squares_sums[]; /* "loss", "absolute", "count", "squared", "covered" */
extern const struct metric squares_metrics[];

/* Refuses pairs of sequences, no outputs, and levels that do not ascend from above 0 to below 1. */
const char *squares_refuse(const struct objective_facts *facts);
/* The struct that describe fills begins with this one, and the memory of a pass with the predictions,
   (examples, outputs, levels), where without quantiles there is one level. */
struct squares {
    size_t outputs; /* floats of a target */
    size_t levels;  /* predictions of each */
    size_t point;   /* the level whose errors are counted */
    struct quantiles quantiles;
};
struct squares squares_of(const struct objective_facts *facts);
/* Floats predicted per example: outputs x levels. */
size_t squares_width(const struct squares *squares);

/* From the predictions in the memory: returns the sum of weight * loss; 0 without targets. */
double squares_loss(const struct objective_pass *pass);
/* Writes dy (examples, outputs, levels), the gradient of the training loss. */
void squares_gradient(const struct objective_pass *pass, float *dy);
/* The functions of the table. */
void squares_count(const struct objective_pass *pass, double *sums);
size_t squares_outputs(const void *self);
void squares_predict(const struct objective_pass *pass, float *outputs);

/* What these objectives have in common in their struct objective. */
#define SQUARES_OF_EXAMPLES                                                                                  \
    .place = TARGET_EXAMPLE, .type = TARGET_FLOATS, .sums = squares_sums, .metrics = squares_metrics,        \
    .count = squares_count, .outputs = squares_outputs, .predict = squares_predict

#endif
