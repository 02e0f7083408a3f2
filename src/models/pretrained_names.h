/* The names of parameters in checkpoints of the transformers library. Files of a whole model put the name of
   the trunk before its tensors ("bert.encoder..."); files of a bare trunk do not. Tables only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_PRETRAINED_NAMES_H
#define MODELS_PRETRAINED_NAMES_H

#include "models/name_map.h"

enum pretrained_type {
    PRETRAINED_YOSO,
    PRETRAINED_BERT,
    PRETRAINED_ROBERTA,
    PRETRAINED_XLM_ROBERTA,
    PRETRAINED_CAMEMBERT,
    PRETRAINED_ELECTRA,
    PRETRAINED_DISTILBERT,
    PRETRAINED_TYPES
};

struct pretrained_names {
    const char *model_type;    /* as in config.json: "yoso" */
    const char *bare_class;    /* of a trunk: "YosoModel" */
    const char *masked_class;  /* of a trunk with the output for masked tokens: "YosoForMaskedLM" */
    const char *classes_class; /* of a trunk with a classifier: "YosoForSequenceClassification" */
    const char *word_table;    /* the table of words in a file of a whole model */
    struct name_map whole, bare;
    enum pretrained_type like; /* the type that computes the same and has the same keys in config.json */
    bool transform_follows;    /* the transform before masked tokens has the model's activation, else gelu */
};
extern const struct pretrained_names pretrained_names[PRETRAINED_TYPES];
/* The table of the output for masked tokens, if a file has it again, and what it is a copy of; ended by
   NULL. */
extern const struct name_rule pretrained_copies[];

#endif
