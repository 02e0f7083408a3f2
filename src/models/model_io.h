/* Blocks of parameters to and from safetensors files. A model is one block; the state of an optimiser is two
   blocks with the same description, distinguished by a prefix of the names. Reading is strict: the file must
   have exactly the tensors of the description (by the names of the block's name map, and besides them only
   those that the map ignores), float32, with the same shapes, all finite. Otherwise it is BAD_FILE, and the
   message names the tensor and what was found.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_IO_H
#define MODELS_MODEL_IO_H

#include "io/weights/safetensors.h"
#include "models/name_map.h"
#include "nn/params.h"

enum { BLOCK_PREFIX = 32 };

struct model_block {
    const char *prefix;           /* before every name: "" or "exp_avg."; shorter than BLOCK_PREFIX */
    float *values;                /* one block with the description */
    const struct name_map *names; /* of the file; NULL: our own */
};

/* Replaces the file in one step. `words` go into its metadata. */
hashattn_status model_save(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks,
                           const struct tensor_word *words, size_t num_words);
/* Checks, from the header only, that the file has the tensors that model_load reads, so that a caller can
   check before it allocates the blocks. Their values may be NULL. */
hashattn_status model_check_file(struct host *host, const char *path, const struct params *params,
                                 const struct model_block *blocks, size_t num_blocks);
/* Fills the blocks, with zeros between rows. After a failure their contents are unspecified. */
hashattn_status model_load(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks);

#endif
