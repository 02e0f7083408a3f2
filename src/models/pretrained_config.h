/* config.json of the transformers library, for encoders of the types in pretrained_names.c. What is not
   supported is refused with a sentence: a config that is read describes a model that computes the same.
   The dropout of attention probabilities is ignored: no mechanism here has any.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_PRETRAINED_CONFIG_H
#define MODELS_PRETRAINED_CONFIG_H

#include "models/model_config.h"
#include "models/pretrained_names.h"

struct json;

enum { PRETRAINED_YOSO_OFFSET = 2 }; /* unused rows before the first position in files of type yoso */

struct pretrained_config {
    enum pretrained_type type;
    struct model_config model; /* without objectives; its plan and options belong to this struct */
    struct json *json;         /* the file, of which other programs may need more */
};

/* attention: the plan of heads (head_plan.h) instead of the mechanism of the file; NULL: that of the file.
   Both have the hashes that the file describes. BAD_FILE, with the key; INVALID: attention is not a plan for
   this model. On failure *config is empty. */
hashattn_status pretrained_config_parse(struct host *host, const char *text, size_t size,
                                        const char *attention, struct pretrained_config *config);
/* The same for the config.json of a directory; messages begin with its path. */
hashattn_status pretrained_config_read(struct host *host, const char *directory, const char *attention,
                                       struct pretrained_config *config);
void pretrained_config_free(struct host *host, struct pretrained_config *config);

/* What the library calls the loss of a model whose only objective reads one row of a sequence, the classifier
   of the files: "single_label_classification", "multi_label_classification" or "regression". NULL: of any
   other model. */
const char *pretrained_problem(const struct model_config *model);

/* REFUSED: a file of this type cannot describe the model; the message names every setting that has no place
   in it. */
hashattn_status pretrained_config_check(struct host *host, enum pretrained_type type,
                                        const struct model_config *model);
/* The same check, then writes config.json to the directory, for a model of this config with its
   objectives. */
hashattn_status pretrained_config_write(struct host *host, const char *directory, enum pretrained_type type,
                                        const struct model_config *model, struct json *others);

#endif
