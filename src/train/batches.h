/* The examples of each training step. The training set is read in epochs; (seed, epoch) determines the order
   of each. Batch number s takes the next `batch` positions of this endless sequence, so the end of an epoch
   may fall inside a batch, every example is used once per epoch, and none is dropped. The step number
   determines everything: resuming needs no state. The position is also the global id of a sample, which keys
   its dropout, hashing and masks, so an example gets new ones in every epoch.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "train/packing.h"

struct batches {
    const struct dataset *dataset; /* borrowed; at least one example */
    size_t batch;
    uint64_t key;    /* of the permutations */
    uint32_t *order; /* (dataset->count) the permutation of `epoch` */
    uint64_t epoch;  /* UINT64_MAX before the first */
    struct packed_examples packed;
};

hashattn_status batches_new(struct host *host, const struct dataset *dataset, size_t batch, uint64_t seed,
                            struct batches *batches);
void batches_free(struct host *host, struct batches *batches);

/* Packs examples first .. first + number - 1 of batch `step`, counted from 0, with the ids that they have in
   it. Batches may be requested in any order. */
const struct packed_examples *batches_get_part(struct batches *batches, uint64_t step, size_t first,
                                               size_t number);

/* For each objective, the sum of the weights of its targets in the batches first .. first + count - 1. */
void batches_counts(struct batches *batches, uint64_t first, uint64_t count, double *counts);

/* Finds a batch whose examples first .. first + number - 1 have the most rows among batches 0 .. count - 1,
   among no more than the first BATCHES_LOOK examples of the sequence. Cost: a few nanoseconds each. */
enum { BATCHES_LOOK = 1 << 22 };
uint64_t batches_largest(struct batches *batches, uint64_t count, size_t first, size_t number);

#endif
