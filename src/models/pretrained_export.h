/* A model of our own as a checkpoint of the transformers library: an encoder with softmax becomes a file of
   type bert, or of type roberta if it has unused rows before the first position up to the padding's id; with
   yoso or yoso-e one of type yoso. Written are the trunk and, if the model has one, the
   output for masked tokens; otherwise the classifier, if it is the only objective. Other objectives have no
   place there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_PRETRAINED_EXPORT_H
#define MODELS_PRETRAINED_EXPORT_H

#include "models/model.h"
#include "models/pretrained.h"

struct export_choice {
    bool encoder_only;         /* leave out every output */
    int64_t padding;           /* id of the padding token; negative: none */
    uint64_t seed;             /* of mechanisms' tensors that the files lack */
    const char *const *labels; /* of the classes, as many as the classifier has; NULL: they have no names */
    double shift, scale;       /* the number that a regression predicts is shift + scale * its output */
};

/* REFUSED, with every setting that has no place in such files: a model of this config cannot be exported.
   Reads encoder_only and padding of the choice. */
hashattn_status pretrained_export_check(struct host *host, const struct model_config *model,
                                        const struct export_choice *choice);

/* Writes config.json and model.safetensors to a new directory, for the model `net` with the tensors of
   `files`, whose names are ours. Unused rows before the first position and a zero segment are added where the
   type has them. REFUSED: see pretrained_export_check. Memory: twice the parameters. */
hashattn_status pretrained_export(struct host *host, const char *directory, const struct pretrained *files,
                                  const struct model *net, const struct export_choice *choice);

#endif
