/* The encoder from inside: shared by the file that describes it and the file that runs it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_ENCODER_PARTS_H
#define MODELS_ENCODER_PARTS_H

#include "models/classifier.h"
#include "models/encoder.h"
#include "nn/block.h"
#include "nn/embed.h"
#include "nn/next_token.h"
#include "nn/norm.h"

struct encoder {
    struct encoder_config config;
    struct params params;
    struct embed embed;
    struct block *blocks; /* (layers) */
    struct norm norm;     /* pre-LN: after the last block; post-LN: of the embedding */
    /* Behind the trunk one of two, as config.next_token says. Its own parameters stand from trunk_end on. */
    struct classifier classifier;
    struct next_token next;
    size_t trunk_end;
    size_t layers, dim, wide;
};

static inline bool encoder_is_post_norm(const struct encoder *encoder)
{
    return encoder->config.norm == BLOCK_POST_NORM;
}

/* Stage k of 0 .. layers is what happens to a tile of rows between mixing k - 1 and mixing k: the end of a
   block (or the embedding) and the beginning of the next (or the last norm). Its parameters stand together.
 */
struct stage {
    size_t first, count; /* floats of the parameter block */
};
struct stage encoder_stage(const struct encoder *encoder, size_t stage);

#endif
