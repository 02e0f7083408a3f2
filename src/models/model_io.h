/* Blocks of parameters to and from safetensors files. A model is one block; the state of an optimiser is two
   blocks of the same description, told apart by a prefix of the names. Reading is strict: the file has
   exactly the tensors of the description, float32, of the same shapes, all finite, or it is BAD_FILE and the
   message says which tensor and what was found. SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_IO_H
#define MODELS_MODEL_IO_H

#include "io/safetensors.h"
#include "nn/params.h"

enum { BLOCK_PREFIX = 32 };

struct model_block {
    const char *prefix; /* before every name: "" or "exp_avg."; shorter than BLOCK_PREFIX */
    float *values;      /* one block of the description */
};

/* Replaces the file in one step; words go into its metadata. */
hashattn_status model_save(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks,
                           const struct tensor_word *words, size_t num_words);
/* Whether the file has the tensors that model_load reads, by its header alone: for whoever would give memory
   to the blocks. Their values may be NULL. */
hashattn_status model_check_file(struct host *host, const char *path, const struct params *params,
                                 const struct model_block *blocks, size_t num_blocks);
/* Fills the blocks, zeros between rows. After a failure their contents are unspecified. */
hashattn_status model_load(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks);

#endif
