/* Which examples of a training file become validation and test: a tenth each, drawn by (seed), with the same
   share of every label.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_SPLITS_H
#define TASKS_SPLITS_H

#include "tasks/task.h"

/* Fills own (count) with the split of each example, an enum split. cuts: 1 for validation alone, 2 for test
   too; there must be more examples than that. Each label (targets[0], ids of examples) keeps an example for
   training, and has its share of a tenth up to one example. Without labels, or with more than half as many of
   them as examples, the draw is from all examples alike. one_text: the end of the file is validation.
   first_rule: labels do not count, as in runs of earlier versions. */
hashattn_status splits_draw(struct host *host, const struct dataset *dataset, bool one_text, bool first_rule,
                            size_t cuts, uint64_t seed, uint8_t *own);

#endif
