/* Internals of evaluation, for the trainer, which lends its session, and for comparisons.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "train/trainer.h"

/* Prepares the model for the sequences of a data set. Refuses one whose rows, targets or lengths do not fit
   the model: the last check against files that changed during a run. */
hashattn_status evaluate_fit(struct host *host, struct model *model, const struct dataset *dataset);

/* As evaluate() of trainer.h, on `count` examples: these, or with examples NULL the first ones. evaluate_fit
   must have accepted the data set. */
hashattn_status evaluate_within(struct host *host, const struct train_setup *setup, struct session *session,
                                const struct dataset *dataset, const uint32_t *examples, size_t count,
                                size_t batch, uint64_t seed, float *outputs, struct evaluation *result);

/* As evaluate() of trainer.h, in batches of one example. sums (count, MODEL_SUMS): receives those of each
   example. Metrics have the same bits as in larger batches, up to the rounding of sums. */
hashattn_status evaluate_examples(struct host *host, const struct train_setup *setup, struct session *session,
                                  const struct dataset *dataset, uint64_t seed, double *sums,
                                  struct evaluation *result);

#endif
