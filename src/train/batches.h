/* Which examples make a training step. The training set is walked in epochs, each in an order of its own that
   (seed, epoch) determines. Batch number s takes the next `batch` places of that endless walk, so the end of
   an epoch may fall inside a batch, every example is used once per epoch, and none is dropped. The number of
   the step determines everything: resuming needs no state. The place in the walk is also the global id of a
   sample, which keys its dropout and hashing: an example gets new ones in every epoch.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "train/packing.h"

struct batches {
    const struct dataset *dataset; /* borrowed; at least one example */
    size_t batch;
    uint64_t key;    /* of the orders */
    uint32_t *order; /* (dataset->count) the order of `epoch` */
    uint64_t epoch;  /* UINT64_MAX before the first */
    struct packed_examples packed;
};

hashattn_status batches_new(struct host *host, const struct dataset *dataset, size_t batch, uint64_t seed,
                            struct batches *batches);
void batches_free(struct host *host, struct batches *batches);

/* Packs batch number `step`, counted from 0, in any order of calls. */
const struct packed_examples *batches_get(struct batches *batches, uint64_t step);

/* Rows that the model is given in the batches first .. first + count - 1. */
size_t batches_rows(struct batches *batches, uint64_t first, uint64_t count);
/* The weights of their targets, added up for each objective. */
void batches_counts(struct batches *batches, uint64_t first, uint64_t count, double *counts);

/* Of the batches 0 .. count - 1 one with the most rows, by looking at the first BATCHES_LOOK examples of the
   walk at most: a few nanoseconds each. */
enum { BATCHES_LOOK = 1 << 22 };
uint64_t batches_largest(struct batches *batches, uint64_t count);

#endif
