/* The quality of a trained model's buckets, head by head, on examples of a data set: forward only and without
   dropout, as in evaluation. For heads without buckets, that of the buckets of a probe (probe.h). Cost: a
   forward, and all pairs of every head (parts/inspect/inspection.h), one sequence at a time; memory is linear
   in its length.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_INSPECT_H
#define TRAIN_INSPECT_H

#include "train/inspect/probe.h"
#include "train/trainer.h"

/* One head on one sequence. layer: the place of its list in the plan (head_plan.h). */
struct inspected_head {
    size_t sequence, layer, head;
    const struct mechanism *mechanism;
    const struct mechanism *probe; /* whose buckets they are; NULL: the mechanism's own */
    size_t num_tokens, num_keys, num_groups;
    const char *stack; /* of a model with a decoder "encoder", "decoder" or "cross"; otherwise NULL */
    const struct inspection *inspection;
};
typedef bool inspect_callback(void *user, const struct inspected_head *head); /* true: stop */

/* True if a head has a mechanism with buckets. */
bool inspect_finds_buckets(const struct model *model);
/* Without a probe: REFUSED if no head has buckets; the message names the mechanisms that have. */
hashattn_status inspect_check(struct host *host, const struct model *model, const struct probe *probe);
/* Inspects the first `count` examples (0: all), in order. seed: of the hashing, as in evaluation. probe: for
   heads without buckets, or NULL, which leaves them out; it is fitted to the rows of the examples of
   `training`, in order and again. INTERRUPTED if the callback asked to stop. */
hashattn_status inspect(struct host *host, const struct train_setup *setup, struct model *model,
                        const float *values, const struct dataset *dataset, size_t count, uint64_t seed,
                        const struct probe *probe, const struct dataset *training, inspect_callback *callback,
                        void *user);

#endif
