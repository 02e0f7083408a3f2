/* What the buckets of another mechanism would capture of heads that have none, such as those of softmax: the
   mechanism runs on the heads' rows beside the model's own, which is not changed. If its hashes are learned
   (lha), they are first fitted to these rows by their own loss, as in training: one step of Adam per example,
   all layers at once. Cost of a step: a forward, and the mechanism's forward and loss.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PROBE_H
#define TRAIN_PROBE_H

#include "attention/driver/attention.h"
#include "train/evaluate.h"

/* What to measure. */
struct probe {
    const struct mechanism *mechanism; /* with buckets: it has `inspection` */
    const void *options;
    size_t steps;  /* of fitting; 0: hashes as they start */
    uint64_t seed; /* of the start */
};

/* The hashes of the heads of one call of attention. */
struct probe_hashes {
    size_t layer, first_head, count; /* count: floats of all heads */
    float *values;                   /* followed by gradients, m and v */
    int64_t step;
};

struct probes {
    struct host *host;
    const struct probe *probe;
    struct probe_hashes *hashes;
    size_t num_hashes, capacity;
    struct workspace arrays; /* of the plan */
    struct attention_plan plan;
    struct workspace workspace; /* saved, scratch and output of the mechanism */
    double loss;                /* of the last fit: mean over heads */
};

/* The call of the probe in place of `call`, after its forward, with the memory that attention_inspect needs.
   REFUSED: the mechanism cannot handle the shape. */
hashattn_status probes_open(struct probes *probes, size_t layer, const struct attention_call *call,
                            struct attention_call *probing);
/* One step of fitting; does nothing if the mechanism learns nothing. */
hashattn_status probes_fit(struct probes *probes, size_t layer, const struct attention_call *call);
void probes_free(struct probes *probes);

#endif
