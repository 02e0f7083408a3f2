/* Examples packed into a batch: sequences are contiguous, without padding, and so are their targets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PACKING_H
#define TRAIN_PACKING_H

#include "models/model.h"
#include "tasks/task.h"

/* A batch with arrays sized for the largest. */
struct packed_examples {
    /* The examples; targets of TARGETS_NEXT and TARGETS_MASKED become TARGETS_ROW, sparse ones floats. */
    struct dataset data;
    struct targets targets[TASK_OBJECTIVES]; /* pointers into `data` */
    uint64_t *sample_ids;                    /* (sequences) */
    /* (examples + 1), and (padded rows, row_width) of the decoder; NULL: there is none */
    size_t *decoder_offsets;
    float *decoder_floats;
    size_t *halved_offsets;  /* (MODEL_HALVINGS, sequences + 1), as in model_batch, if there is a decoder */
    size_t *totals, *starts; /* (sequences) of packing_cut */
    struct rows_cut cut;     /* ranks NULL: the batch is whole */
    uint64_t mask_key; /* with the id of an example it determines the masks; at first that of evaluation */
};

/* An upper bound for the rows of any `batch` examples of a data set: all of the longest length. */
size_t packing_max_rows(const struct dataset *dataset, size_t batch);
/* The sum of the weights of one example's targets. */
double packing_weight(const struct dataset *dataset, size_t objective, size_t example);

/* Allocates room for `batch` examples of this data set. */
hashattn_status packed_examples_new(struct host *host, const struct dataset *dataset, size_t batch,
                                    struct packed_examples *packed);
void packed_examples_free(struct host *host, struct packed_examples *packed);

/* Packs a batch: packing_begin, then example by example with the global id that keys dropout, hashing and
   masks, then packing_end, after which the batch is complete. */
void packing_begin(struct packed_examples *packed);
void packing_add(struct packed_examples *packed, const struct dataset *dataset, size_t example, uint64_t id);
void packing_end(struct packed_examples *packed);
/* Packs examples first .. first + count - 1 in order, with their indices as ids. */
void packing_range(struct packed_examples *packed, const struct dataset *dataset, size_t first, size_t count);

/* After packing_end: keeps only this rank's rows of each sequence, and their targets. ranks: those that share
   the sequences; nothing happens if they are one. */
void packing_cut(struct packed_examples *packed, struct row_ranks *ranks);

/* The batch as a model reads it, except random keys, counts and flags. targeted: with its targets. */
struct model_batch packed_batch(const struct packed_examples *packed, const struct kernels *kernels,
                                struct pool *pool, bool targeted);

#endif
