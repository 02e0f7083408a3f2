/* Which examples make a training step, and the packing of them. The training set is walked in epochs, each in
   an order of its own drawn from (seed, epoch); batch number s takes the next `batch` places of that endless
   walk, so an epoch's end may fall inside a batch, every example is used once per epoch and none is dropped.
   Everything follows from the number of the step: resuming needs no state. The place in the walk is also the
   global id of a sample, which keys its dropout and hashing: an example meets new ones in every epoch.
   Sequences lie one after another, without padding.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "base/host.h"
#include "tasks/task.h"

/* A batch in the form in which encoder_batch wants it; arrays are owned, sized for the largest batch. */
struct packed_examples {
    size_t examples, count; /* count: sequences, as many or twice as many */
    size_t *offsets;        /* (count + 1) */
    uint16_t *tokens;       /* (offsets[count]) */
    int32_t *labels;        /* (examples), or of next tokens (offsets[count]) */
    uint64_t *sample_ids;   /* (count) */
};

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

/* Tokens that the model is given in the batches first .. first + count - 1. */
size_t batches_tokens(struct batches *batches, uint64_t first, uint64_t count);

/* Of the batches 0 .. count - 1 one with the most tokens, by looking at the first BATCHES_LOOK examples of
   the walk at most: a few nanoseconds each. */
enum { BATCHES_LOOK = 1 << 22 };
uint64_t batches_largest(struct batches *batches, uint64_t count);

/* Largest number of tokens in any `batch` examples of a data set: as if all were its longest sequence. */
size_t batches_max_tokens(const struct dataset *dataset, size_t batch);

/* For whoever packs by himself (evaluation): room for `batch` examples, and examples first .. first + count
   in order, with their places as ids. */
hashattn_status packed_examples_new(struct host *host, const struct dataset *dataset, size_t batch,
                                    struct packed_examples *packed);
void packed_examples_free(struct host *host, struct packed_examples *packed);
void packed_examples_range(struct packed_examples *packed, const struct dataset *dataset, size_t first,
                           size_t count);

#endif
