/* Two runs on the same examples. An example of a series is a window with all its columns. So models of one
   column and of all are compared, and columns do not count as independent. Cost: one evaluation of each in
   batches of one example; memory of one row of sums per example and run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_COMPARE_H
#define TRAIN_COMPARE_H

#include "train/compare/paired_test.h"
#include "train/trainer.h"

/* A run whose model is loaded. */
struct compared {
    const struct run_config *config;
    struct model *model;
    const float *values;
};

/* Evaluates both on one split of `data`, a directory, or NULL for the recorded one. INVALID: the runs have
   different tasks, recorded directories (data NULL), numbers of examples or targets, or the split has fewer
   than two examples. The callback gets the examples of both as one evaluation. Collective. */
hashattn_status compare_runs(struct host *host, const struct train_setup *setup, const struct compared *run,
                             const struct compared *against, const char *data, enum split split,
                             uint64_t seed, struct comparison *comparison);

#endif
