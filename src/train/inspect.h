/* The quality of a trained model's buckets, head by head, on examples of a data set: forward only and without
   dropout, as in evaluation. Cost: a forward, and all pairs of every head (parts/inspect/inspection.h), one
   sequence at a time; memory is linear in its length. SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_INSPECT_H
#define TRAIN_INSPECT_H

#include "train/trainer.h"

/* One head on one sequence. */
struct inspected_head {
    size_t sequence, layer, head;
    const struct mechanism *mechanism;
    size_t num_tokens, num_groups;
    const struct inspection *inspection;
};
typedef bool inspect_callback(void *user, const struct inspected_head *head); /* true: stop */

/* REFUSED if no head has buckets; the message names the mechanisms that have. */
hashattn_status inspect_check(struct host *host, const struct model *model);
/* Inspects the first `count` examples (0: all), in order. seed: of the hashing, as in evaluation. INTERRUPTED
   if the callback asked to stop. */
hashattn_status inspect(struct host *host, const struct train_setup *setup, struct model *model,
                        const float *values, const struct dataset *dataset, size_t count, uint64_t seed,
                        inspect_callback *callback, void *user);

#endif
