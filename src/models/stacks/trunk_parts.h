/* What the plan of a trunk and its passes share: the stages, and where the arrays of a pass are.
   Between two mixings of the batch there is a stage: the tiles of rows go through the end of what follows the
   first mixing and the beginning of what precedes the second. Stage 0 begins with the input, and the last
   one ends with the last norm. Mixing i is that of attention i: those of the blocks in order, with cross
   attention two for each block.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_TRUNK_PARTS_H
#define MODELS_TRUNK_PARTS_H

#include "models/stacks/trunk.h"

/* The parts of a stage. The keys of cross attention are computed from other rows. */
enum stage_part { STAGE_ENDS = 1, STAGE_BEGINS = 2, STAGE_KEYS = 4 };

/* The parameters of some parts of a stage, which are contiguous. */
struct stage {
    size_t first, count; /* floats in the parameter block */
};
struct stage trunk_stage(const struct trunk *trunk, size_t stage, unsigned parts);
/* The parts of a stage whose gradients are summed together, in backward order; 0 ends the list. */
const unsigned *trunk_sums(const struct trunk *trunk, size_t stage);

static inline size_t trunk_mixings(const struct trunk *trunk)
{
    return trunk->layers * (trunk->crosses ? 2 : 1);
}

/* The norm follows the last block. */
static inline bool trunk_has_last_norm(const struct trunk *trunk)
{
    return trunk->normed && trunk->norm_last;
}

/* Cuts the memory of a pass into arrays; on NULL it only counts bytes. */
struct trunk_space trunk_space_on(const struct trunk_plan *plan, void *memory, size_t *bytes);
/* The input of a block, or of the last norm. */
float *trunk_stream(const struct trunk_pass *pass, size_t layer);
struct block_space trunk_block_space(const struct trunk_pass *pass, size_t layer);

#endif
