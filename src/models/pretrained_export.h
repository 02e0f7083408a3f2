/* A model of our own as a checkpoint of the transformers library: an encoder with softmax becomes a file of
   type bert, with yoso or yoso-e one of type yoso. Written are the trunk and, if the model has one, the
   output for masked tokens; other objectives have no place there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_PRETRAINED_EXPORT_H
#define MODELS_PRETRAINED_EXPORT_H

#include "models/model.h"
#include "models/pretrained.h"

/* Writes config.json and model.safetensors to a new directory, for the model `net` with the tensors of
   `files`, whose names are ours. Unused rows before the first position and a zero segment are added where the
   type has them. padding: id of the padding token, negative: none. seed: of mechanisms' tensors that the
   files lack. REFUSED, with every setting that has no place there. Memory: twice the parameters. */
hashattn_status pretrained_export(struct host *host, const char *directory, const struct pretrained *files,
                                  const struct model *net, int64_t padding, uint64_t seed);

#endif
