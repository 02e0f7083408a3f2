/* A stored checkpoint of the transformers library: config.json and the weights of an encoder, mapped into
   memory. A model with its config computes what that library computes. If the files have the output for
   masked tokens, the model has the objective masked_tokens.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_PRETRAINED_H
#define MODELS_PRETRAINED_H

#include "base/pool.h"
#include "io/weights/weight_files.h"
#include "models/pretrained_config.h"
#include "nn/params.h"

struct pretrained {
    struct pretrained_config config;
    struct weight_files weights;
    const struct name_map *names; /* of the tensors in these files; NULL: our own */
};

/* Reads the config and maps the weights. attention: see pretrained_config_parse. BAD_FILE, with the path and
   what is wrong. On failure *pretrained is empty. */
hashattn_status pretrained_open(struct host *host, const char *directory, const char *attention,
                                struct pretrained *pretrained);
void pretrained_close(struct host *host, struct pretrained *pretrained);

/* Checks that the files have the tensors of a model with this config, and no others: BAD_FILE, with every
   tensor that is missing, does not fit or is not known. Learned tensors of mechanisms may be missing. */
hashattn_status pretrained_check(struct host *host, const struct pretrained *pretrained,
                                 const struct params *params);

/* The tensor of a parameter; NULL if the files have none. file: that holds it, or NULL. */
const struct tensor *pretrained_find(const struct pretrained *pretrained, const struct param *row,
                                     const struct safetensors **file);

/* After a check. Fills a block of parameters (params->total). Tensors of mechanisms that the files lack start
   from `seed`. BAD_FILE: a value is not finite. */
hashattn_status pretrained_load(struct host *host, const struct pretrained *pretrained,
                                const struct params *params, uint64_t seed, float *values);
/* The same, prepared for forward passes as by params_pack, without a block of its own: weights are packed
   from the mapped files into `packed` (pretrained_packed_floats floats). *values is in it. */
size_t pretrained_packed_floats(const struct params *params);
hashattn_status pretrained_pack(struct host *host, const struct pretrained *pretrained,
                                const struct params *params, const struct kernels *kernels, struct pool *pool,
                                uint64_t seed, float *packed, const float **values);

/* Writes model.safetensors and, last of all, config.json to a directory, for a model of this config with
   these values: a directory that a kill left incomplete has no config.json, and is refused. Keys of the
   config and tensors that are not part of the model (BERT's pooler) are copied. REFUSED: a file of this type
   cannot describe the model. */
hashattn_status pretrained_save(struct host *host, const char *directory, const struct pretrained *pretrained,
                                const struct model_config *model, const struct params *params,
                                const float *values);

#endif
