/* Blocks of parameters as one safetensors file, every tensor under its own name. Written by the trainer (the
   model, the state, the moments), read by it and by whoever uses a trained model.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "nn/params.h"

/* One block; its tensors are called prefix + name. */
struct weight_block {
    const char *prefix; /* "" for the values of a model */
    float *values;      /* (params->total) */
};

/* Replaces the file in one step. `step` is kept as a word of its metadata. */
hashattn_status weights_save(struct host *host, const char *path, const struct params *params,
                             const struct weight_block *blocks, size_t count, int64_t step);
/* Exactly these tensors with exactly these shapes, or BAD_FILE that says which differ. The padding between
   tensors is left alone. step may be NULL; a file that has no such word is then fine. */
hashattn_status weights_load(struct host *host, const char *path, const struct params *params,
                             const struct weight_block *blocks, size_t count, int64_t *step);
/* The step of a file, whatever its tensors are. */
hashattn_status weights_step(struct host *host, const char *path, int64_t *step);

#endif
