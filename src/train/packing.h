/* Examples packed into a batch: sequences lie one after another, without padding, and so do their targets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PACKING_H
#define TRAIN_PACKING_H

#include "models/model.h"
#include "tasks/task.h"

/* A batch, with arrays sized for the largest. */
struct packed_examples {
    struct dataset data; /* the examples; what TARGETS_NEXT asks for is written out as TARGETS_ROW */
    struct targets targets[TASK_OBJECTIVES]; /* those of `data` */
    uint64_t *sample_ids;                    /* (sequences) */
};

/* Rows of any `batch` examples of a data set at most: as if all were its longest sequence. */
size_t packing_max_rows(const struct dataset *dataset, size_t batch);
/* The weights of the targets of one example, added up. */
double packing_weight(const struct dataset *dataset, size_t objective, size_t example);

/* Room for `batch` examples of this data set. */
hashattn_status packed_examples_new(struct host *host, const struct dataset *dataset, size_t batch,
                                    struct packed_examples *packed);
void packed_examples_free(struct host *host, struct packed_examples *packed);

/* An empty batch; then example by example, each with the global id that keys its dropout and hashing; then
   the end, after which the batch is whole. */
void packing_begin(struct packed_examples *packed);
void packing_add(struct packed_examples *packed, const struct dataset *dataset, size_t example, uint64_t id);
void packing_end(struct packed_examples *packed);
/* Examples first .. first + count in order, with their places as ids. */
void packing_range(struct packed_examples *packed, const struct dataset *dataset, size_t first, size_t count);

/* The batch as a model takes it: everything but chance, counts and flags. targeted: with its targets. */
struct model_batch packed_batch(const struct packed_examples *packed, const struct kernels *kernels,
                                struct pool *pool, bool targeted);

#endif
