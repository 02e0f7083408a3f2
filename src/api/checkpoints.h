/* The checkpoint behind hashattn_pretrained, for the files of this floor that compute with it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_CHECKPOINTS_H
#define API_CHECKPOINTS_H

#include "api/handles.h"
#include "hashattn/pretrained.h"
#include "models/inference.h"
#include "models/sentences/sentence_settings.h"
#include "text/tokenizer.h"
#include "train/start/origin.h"

struct hashattn_pretrained {
    struct hashattn_context *context;
    struct sentence_settings sentences; /* of the directory */
    struct origin origin;               /* the files */
    struct model_config *config;        /* in origin */
    struct model *net;
    struct tokenizer *tokenizer; /* of a checkpoint; NULL until a text is read */
    float *packed;               /* NULL: the weights are not prepared */
    const float *values;         /* in packed */
    uint64_t seed;               /* of tensors that the files lack */
};

/* Checks the sequences and prepares the weights, once, for a forward pass. */
hashattn_status checkpoint_begin(struct hashattn_pretrained *pretrained, const struct inference_input *input,
                                 uint64_t seed, struct inference *inference);
/* *tokenizer is that of the files. A checkpoint's is read once. REFUSED: the ids of a run are not tokens. */
hashattn_status checkpoint_tokenizer(struct hashattn_pretrained *pretrained,
                                     const struct tokenizer **tokenizer);
/* True if the model takes segments. */
bool checkpoint_has_segments(const struct hashattn_pretrained *pretrained);

#endif
