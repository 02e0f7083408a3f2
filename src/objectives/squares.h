/* Shared by the objectives that predict floats per example with the squared error as their loss: the loss of
   an example is the mean over its floats.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef OBJECTIVES_SQUARES_H
#define OBJECTIVES_SQUARES_H

#include "objectives/objective.h"

/* Their sums and metrics: "mse", the mean squared error, which is also the loss, and "mae", the mean absolute
   error. */
extern const char *const squares_sums[]; /* "loss", "absolute", "count" */
extern const struct metric squares_metrics[];

/* Refuses pairs of sequences and no outputs. */
const char *squares_refuse(const struct objective_facts *facts);
/* The struct that describe fills begins with this one, and the memory of a pass with the predictions,
   (examples, outputs). */
struct squares {
    size_t outputs; /* floats per example */
};

/* From the predictions in the memory: returns the sum of weight * loss; 0 without targets. */
double squares_loss(const struct objective_pass *pass);
/* Writes dy (examples, outputs), the gradient of the training loss. */
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
